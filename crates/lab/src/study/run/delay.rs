//! The lab's own probe: what round trips take before there is any load.
//!
//! A datagram goes from one host to the other and back. Both sockets are this process's, so one
//! clock stamps both ends and no program has to be woken on the way but this one.

use std::{
    collections::BTreeSet,
    io::{self, ErrorKind},
    net::{SocketAddr, UdpSocket},
    thread, time,
};

use loadline_core::{
    record::StudyDelay,
    time::{Duration, Instant},
};

use super::RunError;
use crate::{
    clock,
    host::{HostError, Lab},
    study::plan::Plan,
};

/// Round trips between hosts, one pair for each distance of the plan.
pub(super) fn measure(lab: &Lab, plan: &Plan) -> Result<Vec<StudyDelay>, RunError> {
    let mut seen = BTreeSet::new();
    let mut delays = Vec::new();
    for link in &plan.topology.links {
        let quiet = link.loss.as_ppm() == 0 && link.jitter == Duration::ZERO;
        if link.from < link.to && quiet && seen.insert(link.delay) {
            delays.extend(between(lab, plan, [link.from, link.to], link.delay)?);
        }
    }
    Ok(delays)
}

fn between(
    lab: &Lab,
    plan: &Plan,
    hosts: [usize; 2],
    delay: Duration,
) -> Result<Option<StudyDelay>, RunError> {
    let [one, other] = hosts.map(|host| &lab.hosts()[host]);
    let (Some(here), Some(there)) = (one.address(), other.address()) else { return Ok(None) };
    if here.is_ipv4() != there.is_ipv4() {
        return Ok(None);
    }
    let (near, far) = (one.udp(SocketAddr::new(here, 0))?, other.udp(SocketAddr::new(there, 0))?);
    let failed = |source| {
        RunError::Host(HostError::Failed {
            host: one.name().to_owned(),
            what: "measure a round trip".to_owned(),
            source,
        })
    };
    let limit = (delay * 2 + PATIENCE).to_std();
    for socket in [&near, &far] {
        socket.set_read_timeout(Some(limit)).map_err(failed)?;
    }
    let to = far.local_addr().map_err(failed)?;
    let echo = thread::spawn(move || echo(&far));
    let times = round_trips(&near, to).map_err(failed)?;
    // It ends by its own time limit.
    let _ = echo.join();
    if times.is_empty() {
        return Ok(None);
    }
    let at = |share: f64| times[((times.len() - 1) as f64 * share).round() as usize];
    Ok(Some(StudyDelay {
        row: plan.row.clone(),
        between: [one.name().to_owned(), other.name().to_owned()],
        asked_ms: (delay * 2).as_millis_f64(),
        p50_ms: at(0.5).as_millis_f64(),
        p90_ms: at(0.9).as_millis_f64(),
        count: times.len() as u64,
    }))
}

/// Sends probes at even distances and gives their times in rising order. A probe carries when it
/// was sent.
fn round_trips(socket: &UdpSocket, to: SocketAddr) -> io::Result<Vec<Duration>> {
    let sender = socket.try_clone()?;
    let sending = thread::spawn(move || {
        for _ in 0..PROBES {
            // What is not sent does not come back, and is not counted.
            let _ = sender.send_to(&clock::now().as_nanos().to_be_bytes(), to);
            thread::sleep(SPACING);
        }
    });
    let mut times = Vec::new();
    let mut sent = [0; 8];
    while times.len() < PROBES {
        match socket.recv_from(&mut sent) {
            Ok(_) => {
                let sent = Instant::from_nanos(u64::from_be_bytes(sent));
                times.push(clock::now().since(sent));
            }
            Err(error) if is_timeout(&error) => break,
            Err(error) => return Err(error),
        }
    }
    // It sends for a known time only.
    let _ = sending.join();
    times.sort_unstable();
    Ok(times)
}

fn echo(socket: &UdpSocket) {
    let mut word = [0; 8];
    for _ in 0..PROBES {
        let Ok((_, from)) = socket.recv_from(&mut word) else { return };
        if socket.send_to(&word, from).is_err() {
            return;
        }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// A median to a twentieth of a millisecond.
const PROBES: usize = 30;
const SPACING: time::Duration = time::Duration::from_millis(3);
/// What a probe may take beyond its distance.
const PATIENCE: Duration = Duration::from_millis(500);
