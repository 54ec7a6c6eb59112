//! Round trips to several hosts side by side.
//!
//! Each host is pinged at planned instants, whether the answer to the last has come or not, as
//! ping does; the hosts are spread evenly over the interval, so that one does not wait for the
//! answer to another being read. An echo has come when the kernel says so; a TCP connection is open
//! when this process hears of it, some ten microseconds later on an idle machine.

use std::{
    future::Future,
    net::{IpAddr, SocketAddr},
    pin::pin,
};

use loadline_core::time::{Duration, Instant};
use loadline_linux::clock;
use loadline_measure::record::{ProbeKind, ProbeOutcome, ProbeRecord, ProbeSample, ProbeTarget};
use tokio::{
    sync::{mpsc, watch},
    task::{JoinHandle, LocalSet},
};

use super::{
    ProbeError, series,
    track::{Reply, Track},
    wire::{Arrival, Wire},
};
use crate::PlanError;

/// Which hosts to ping, how often, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PingPlan {
    /// Names or addresses, at least one.
    pub hosts: Vec<String>,
    /// Pings to each host, at least one.
    pub count: u64,
    /// Between two pings to the same host, at least 1 ms.
    pub interval: Duration,
    /// How long an answer may take, at least 1 ms.
    pub timeout: Duration,
    /// Which addresses of a name are taken.
    pub family: Family,
    /// Open TCP connections to this port instead of sending ICMP echo.
    pub tcp: Option<u16>,
}

impl PingPlan {
    /// Whether it can be carried out.
    ///
    /// # Errors
    /// [`PlanError::Zero`] with what must be above zero, [`PlanError::Host`] with what is no host.
    pub fn check(&self) -> Result<(), PlanError> {
        let least = Duration::from_millis(1);
        let zeros = [
            ("the number of hosts", self.hosts.is_empty()),
            ("the count", self.count == 0),
            ("the interval", self.interval < least),
            ("the timeout", self.timeout < least),
            ("the port", self.tcp == Some(0)),
        ];
        if let Some((what, _)) = zeros.into_iter().find(|(_, zero)| *zero) {
            return Err(PlanError::Zero { what });
        }
        let wrong = self.hosts.iter().find_map(|host| instead_of(host).map(|it| (host, it)));
        match wrong {
            Some((host, instead)) => Err(PlanError::Host { host: host.clone(), instead }),
            None => Ok(()),
        }
    }
}

/// Which addresses of a name are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Family {
    /// The first that the resolver gives.
    #[default]
    Any,
    /// The first of IPv4.
    V4,
    /// The first of IPv6.
    V6,
}

/// What happens while hosts are pinged; `host` is the index in the plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PingEvent {
    /// A host is about to be pinged.
    Started {
        /// Index of the host.
        host: usize,
        /// Address that is pinged.
        address: IpAddr,
        /// What is spoken.
        protocol: String,
        /// Whether TCP is used instead of ICMP, so that packets are not counted.
        tcp: bool,
        /// Why it is this, where nobody asked for it.
        note: Option<String>,
    },
    /// A ping ended, well or not.
    Ended {
        /// Index of the host.
        host: usize,
        /// What became of it.
        sample: ProbeSample,
        /// Bytes of the answer; none for TCP.
        bytes: Option<usize>,
        /// The time to live that was left of the answer, where the system tells it.
        ttl: Option<u8>,
    },
    /// An answer came that counts no more: the ping had been answered, or was lost already.
    Surplus {
        /// Index of the host.
        host: usize,
        /// Number of the ping.
        number: u64,
        /// Whether it is the first answer to it.
        late: bool,
    },
}

/// Pings the hosts of `plan` to its end or until `cancel` ends, telling `tell` each event when it
/// happens. For exact times the caller's runtime should have nothing else to do.
///
/// # Errors
/// [`ProbeError`] where it could not begin. Pings without an answer are no error: they are
/// counted.
pub async fn ping(
    plan: &PingPlan,
    mut tell: impl FnMut(&PingEvent),
    cancel: impl Future<Output = ()>,
) -> Result<ProbeRecord, ProbeError> {
    plan.check()?;
    let (events, mut happened) = mpsc::unbounded_channel();
    let (stop, stopped) = watch::channel(false);
    let mut sessions = Vec::new();
    for host in 0..plan.hosts.len() {
        sessions.push(PingedHost::open(plan, host, events.clone()).await?);
    }
    drop(events);
    let (started_unix_ms, start) = (clock::unix_millis(), clock::now());
    let tasks = LocalSet::new();
    let running: Vec<_> = sessions
        .into_iter()
        .map(|session| tasks.spawn_local(session.run(start, stopped.clone())))
        .collect();
    let targets = tasks.run_until(async {
        listen(&mut happened, &mut tell, &stop, cancel).await;
        finish(running).await
    });
    let targets = targets.await;
    Ok(ProbeRecord {
        probe: ProbeKind::Ping,
        started_unix_ms,
        elapsed: clock::now().since(start),
        interval: plan.interval,
        keepalive: false,
        planned: plan.count,
        interrupted: *stop.borrow(),
        targets,
    })
}

/// Tells what happens until the last session has ended, and passes the end of `cancel` on.
async fn listen(
    happened: &mut mpsc::UnboundedReceiver<PingEvent>,
    tell: &mut impl FnMut(&PingEvent),
    stop: &watch::Sender<bool>,
    cancel: impl Future<Output = ()>,
) {
    let mut cancel = pin!(cancel);
    loop {
        tokio::select! {
            biased;
            event = happened.recv() => match event {
                Some(event) => tell(&event),
                None => break,
            },
            () = &mut cancel, if !*stop.borrow() => {
                stop.send_replace(true);
            }
        }
    }
}

async fn finish(running: Vec<JoinHandle<ProbeTarget>>) -> Vec<ProbeTarget> {
    let mut targets = Vec::with_capacity(running.len());
    for session in running {
        match session.await {
            Ok(target) => targets.push(target),
            // Nobody aborts a session, so it has panicked.
            Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
        }
    }
    targets
}

/// One host while it is pinged.
struct PingedHost {
    host: usize,
    plan: PingPlan,
    wire: Wire,
    track: Track,
    target: ProbeTarget,
    events: mpsc::UnboundedSender<PingEvent>,
    /// The origin of the series, the same for all hosts.
    start: Instant,
    /// When the first ping to this host is due.
    first: Instant,
    sent: u64,
}

impl PingedHost {
    async fn open(
        plan: &PingPlan,
        host: usize,
        events: mpsc::UnboundedSender<PingEvent>,
    ) -> Result<Self, ProbeError> {
        let address = resolve(&plan.hosts[host], plan.family).await?;
        // Of a process and its hosts; the token in each message says the rest.
        let identifier = (std::process::id() as u16).wrapping_add(host as u16);
        let (wire, note) = Wire::open(address, plan.tcp, identifier)?;
        let target = ProbeTarget {
            target: plan.hosts[host].clone(),
            address: address.ip().to_string(),
            protocol: wire.protocol(),
            note,
            ..ProbeTarget::default()
        };
        let session = Self {
            host,
            plan: plan.clone(),
            wire,
            track: Track::new(plan.timeout),
            target,
            events,
            start: Instant::ZERO,
            first: Instant::ZERO,
            sent: 0,
        };
        let (protocol, note) = (session.target.protocol.clone(), session.target.note.clone());
        let tcp = session.wire.is_tcp();
        let address = address.ip();
        session.tell(PingEvent::Started { host, address, protocol, tcp, note });
        Ok(session)
    }

    /// Sends and receives until every ping has ended, or until `stopped` says so.
    async fn run(mut self, start: Instant, mut stopped: watch::Receiver<bool>) -> ProbeTarget {
        let hosts = self.plan.hosts.len() as u64;
        self.start = start;
        self.first = start + self.plan.interval * self.host as u64 / hosts;
        loop {
            let now = clock::now();
            for number in self.track.expire(now) {
                self.end(number, self.wire.silence());
            }
            if self.next_send().is_some_and(|due| due <= now) {
                self.send().await;
                continue;
            }
            let wakes = [self.next_send(), self.track.next_expiry()];
            let Some(wake) = wakes.into_iter().flatten().min() else { break };
            let wait = wake.since(now).to_std();
            tokio::select! {
                biased;
                arrival = self.wire.receive() => self.take(arrival),
                () = tokio::time::sleep(wait) => {}
                _ = stopped.changed() => {
                    self.cut_off();
                    break;
                }
            }
        }
        self.target.samples.sort_unstable_by_key(|sample| sample.number);
        series::summarise(&mut self.target);
        self.target
    }

    /// When the next ping is due; none after the last.
    fn next_send(&self) -> Option<Instant> {
        (self.sent < self.plan.count).then(|| self.first + self.plan.interval * self.sent)
    }

    async fn send(&mut self) {
        self.sent += 1;
        let (number, at) = (self.sent, clock::now());
        self.track.sent(number, at);
        let sample = ProbeSample { number, at: at.since(self.start), ..ProbeSample::default() };
        self.target.samples.push(sample);
        match self.wire.send(number).await {
            Ok(()) => {}
            Err(error) => self.end(number, crate::Outcome::of_connect_error(&error).into()),
        }
    }

    fn take(&mut self, arrival: Arrival) {
        match arrival {
            Arrival::Reply { number, sent, at, bytes, ttl } => {
                if let Some(sent) = sent {
                    self.track.correct(number, sent);
                }
                match self.track.answered(number, at) {
                    Reply::First(took) => self.answered(number, took, bytes, ttl),
                    Reply::Late => self.surplus(number, true),
                    Reply::Duplicate => self.surplus(number, false),
                    Reply::Stray => {}
                }
            }
            Arrival::Failure { number, outcome } => {
                if let Some(number) = number.or_else(|| self.track.oldest()) {
                    self.end(number, outcome);
                }
            }
        }
    }

    fn answered(&mut self, number: u64, took: Duration, bytes: Option<usize>, ttl: Option<u8>) {
        let sample = self.sample(number);
        sample.time = Some(took);
        let sample = *sample;
        self.count_connection();
        self.tell(PingEvent::Ended { host: self.host, sample, bytes, ttl });
    }

    fn surplus(&mut self, number: u64, late: bool) {
        if late {
            self.count_connection();
        } else {
            self.target.duplicates += 1;
        }
        self.tell(PingEvent::Surplus { host: self.host, number, late });
    }

    /// Ends a ping without an answer, unless it has ended before.
    fn end(&mut self, number: u64, outcome: ProbeOutcome) {
        self.track.give_up(number);
        let sample = self.sample(number);
        if sample.outcome != ProbeOutcome::Ok || sample.time.is_some() {
            return;
        }
        sample.outcome = outcome;
        let sample = *sample;
        self.tell(PingEvent::Ended { host: self.host, sample, bytes: None, ttl: None });
    }

    fn cut_off(&mut self) {
        for number in self.track.under_way() {
            self.end(number, ProbeOutcome::CutOff);
        }
    }

    fn count_connection(&mut self) {
        self.target.connections += u64::from(self.wire.is_tcp());
    }

    /// The sample of a number that was sent: one is kept for each, in their order.
    fn sample(&mut self, number: u64) -> &mut ProbeSample {
        &mut self.target.samples[(number - 1) as usize]
    }

    fn tell(&self, event: PingEvent) {
        // Where the listener has gone the series is on its way out as well.
        let _ = self.events.send(event);
    }
}

/// What to write instead, if `host` is a URL, has a port, or is nothing that a name could be.
fn instead_of(host: &str) -> Option<&'static str> {
    if host.contains('/') {
        return Some("leave the scheme and the path of the URL out; `loadline ttfb` takes URLs");
    }
    match host.split_once(':') {
        Some((name, port)) if !name.is_empty() && port.bytes().all(|it| it.is_ascii_digit()) => {
            Some("leave the port out, or give it with --tcp to open connections to it")
        }
        _ if host.is_empty() || host.contains(char::is_whitespace) => {
            Some("write a name or an address")
        }
        _ => None,
    }
}

/// The first address of `host` in the family, with port 0. An IPv6 address may stand in brackets,
/// and may have a zone.
async fn resolve(host: &str, family: Family) -> Result<SocketAddr, ProbeError> {
    let failed = |source| ProbeError::Resolve { host: host.to_owned(), source };
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    let mut found = tokio::net::lookup_host((bare, 0)).await.map_err(failed)?;
    let fits = |address: &SocketAddr| match family {
        Family::Any => true,
        Family::V4 => address.is_ipv4(),
        Family::V6 => address.is_ipv6(),
    };
    found.find(fits).ok_or_else(|| failed(std::io::ErrorKind::NotFound.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_zone_of_a_link_local_address_is_kept() {
        for host in ["fe80::1%lo", "[fe80::1%lo]"] {
            let SocketAddr::V6(address) = resolve(host, Family::Any).await.unwrap() else {
                panic!("{host} is no IPv6 address");
            };
            assert_eq!(address.scope_id(), 1, "{host}");
        }
    }
}
