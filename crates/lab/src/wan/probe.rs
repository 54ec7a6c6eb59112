//! What the network really takes from host to host: datagrams with the instants at both ends.
//!
//! Both sockets belong to the calling process, so that one clock tells both ends, and each
//! direction for itself. A datagram is stamped just before it is sent, and by the kernel when it
//! came out of the receiver's interface: what is measured is the way, not how soon the prober is
//! woken. `ping` stamps its responses the same way.
//!
//! Datagrams go at even distances, both ways at once; none waits for another.

use std::{
    io::{self, IoSliceMut},
    net::{SocketAddr, UdpSocket},
    os::fd::{AsFd, AsRawFd},
};

use loadline_core::time::{Duration, Instant};
use loadline_measure::statistics::sample;
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt, sockopt,
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    time::{ClockId, clock_gettime},
};

use loadline_linux::clock;

/// How many datagrams go, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbePlan {
    /// Each way.
    pub count: u32,
    /// Before them, to warm up: the kernel begins to stamp a moment after it was asked to.
    pub warm_up: u32,
    /// Time from one datagram to the next.
    pub spacing: Duration,
    /// How long after the last was sent those missing are waited for.
    pub patience: Duration,
}

/// What a probe found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Probed {
    /// From the first socket to the second.
    pub there: Times,
    /// From the second to the first.
    pub back: Times,
    /// The sums of both ways, of datagrams sent at the same instant.
    pub round_trips: Times,
    /// Datagrams of both ways that did not come.
    pub lost: u64,
}

/// Times in rising order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Times(Vec<Duration>);

/// How far round trips were from what was asked for; without sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelayError {
    /// Of the median round trip.
    pub median: Duration,
    /// 90 % of the round trips are at most this far off.
    pub p90: Duration,
    /// 99 % of the round trips are at most this far off.
    pub p99: Duration,
    /// The round trip that is farthest off.
    pub max: Duration,
}

impl ProbePlan {
    /// 50 datagrams each way in half a second, for a round trip of about so long. They are as far
    /// apart as those of somebody who waits for responses: each finds the router asleep and caches
    /// cold, which some hundreds a second would not, and come some 50 us sooner.
    #[must_use]
    pub fn new(round_trip: Duration) -> Self {
        let spacing = Duration::from_millis(10);
        Self { count: 50, warm_up: 4, spacing, patience: round_trip + PATIENCE }
    }
}

impl Probed {
    /// How far the round trips are from `asked`; none where none came back.
    #[must_use]
    pub fn error(&self, asked: Duration) -> Option<DelayError> {
        let off = |time: Duration| time.saturating_sub(asked).max(asked.saturating_sub(time));
        let errors = Times::sorted(self.round_trips.0.iter().map(|time| off(*time)).collect());
        Some(DelayError {
            median: off(self.round_trips.quantile(0.5)?),
            p90: errors.quantile(0.9)?,
            p99: errors.quantile(0.99)?,
            max: errors.quantile(1.0)?,
        })
    }
}

impl Times {
    /// The time that a share of all, 0.0 to 1.0, does not exceed; none of no times.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        sample::quantile(&self.0, share)
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    fn sorted(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        Self(times)
    }
}

/// Sends datagrams between two sockets of different hosts, each bound to an address of its host,
/// and tells how long they took. What other datagrams come meanwhile is thrown away.
///
/// # Errors
/// The system's; a socket that is bound to no single address cannot be sent to.
pub fn probe(first: &UdpSocket, second: &UdpSocket, plan: ProbePlan) -> io::Result<Probed> {
    let count = plan.count + plan.warm_up;
    let mut ends = [End::new(first, second, count)?, End::new(second, first, count)?];
    let start = clock::now();
    for number in 0..count {
        receive_until(&mut ends, start + plan.spacing * u64::from(number))?;
        ends.iter().try_for_each(|end| end.send(number))?;
    }
    receive_until(&mut ends, clock::now() + plan.patience)?;
    let [back, there] = ends.map(|end| end.came.into_iter().skip(plan.warm_up as usize));
    let pairs: Vec<_> = there.zip(back).collect();
    let both = pairs.iter().filter_map(|(there, back)| Some(there.as_ref().copied()? + (*back)?));
    let round_trips = Times::sorted(both.collect());
    let there = Times::sorted(pairs.iter().filter_map(|(there, _)| *there).collect());
    let back = Times::sorted(pairs.iter().filter_map(|(_, back)| *back).collect());
    let lost = 2 * pairs.len() - there.count() - back.count();
    Ok(Probed { there, back, round_trips, lost: lost as u64 })
}

/// One host's socket.
struct End<'a> {
    socket: &'a UdpSocket,
    peer: SocketAddr,
    /// How long each datagram to this host took, by its number.
    came: Vec<Option<Duration>>,
    missing: u32,
}

impl<'a> End<'a> {
    fn new(socket: &'a UdpSocket, peer: &UdpSocket, count: u32) -> io::Result<Self> {
        setsockopt(socket, sockopt::ReceiveTimestampns, &true)?;
        let came = vec![None; count as usize];
        Ok(Self { socket, peer: peer.local_addr()?, came, missing: count })
    }

    fn send(&self, number: u32) -> io::Result<()> {
        let mut datagram = [0; DATAGRAM];
        datagram[..4].copy_from_slice(&number.to_be_bytes());
        datagram[4..].copy_from_slice(&wall_nanos().to_be_bytes());
        match self.socket.send_to(&datagram, self.peer) {
            // No room is one lost on the way.
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(()),
        }
    }

    /// Takes all that has come.
    fn receive(&mut self) -> io::Result<()> {
        while let Some((datagram, stamp)) = receive_one(self.socket)? {
            let [a, b, c, d, sent @ ..] = datagram;
            let number = u32::from_be_bytes([a, b, c, d]) as usize;
            let took = stamp.checked_sub(u64::from_be_bytes(sent)).map(Duration::from_nanos);
            if let (Some(place @ None), Some(took)) = (self.came.get_mut(number), took) {
                *place = Some(took);
                self.missing -= 1;
            }
        }
        Ok(())
    }
}

/// Takes what comes until an instant, or until nothing is missing.
fn receive_until(ends: &mut [End<'_>; 2], until: Instant) -> io::Result<()> {
    loop {
        ends.iter_mut().try_for_each(End::receive)?;
        let left = until.since(clock::now());
        if left == Duration::ZERO || ends.iter().all(|end| end.missing == 0) {
            return Ok(());
        }
        let mut waiting =
            ends.each_ref().map(|end| PollFd::from_borrowed_fd(end.socket.as_fd(), PollFlags::IN));
        let left = Timespec::try_from(left.to_std()).map_err(io::Error::other)?;
        match poll(&mut waiting, Some(&left)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// A datagram of the right length and when the kernel had it; none where none is there.
fn receive_one(socket: &UdpSocket) -> io::Result<Option<([u8; DATAGRAM], u64)>> {
    let mut datagram = [0; DATAGRAM];
    let mut room = nix::cmsg_space!(nix::sys::time::TimeSpec);
    loop {
        let mut parts = [IoSliceMut::new(&mut datagram)];
        let (flags, descriptor) = (MsgFlags::MSG_DONTWAIT, socket.as_raw_fd());
        let came = recvmsg::<SockaddrStorage>(descriptor, &mut parts, Some(&mut room), flags);
        let message = match came {
            Ok(message) => message,
            Err(nix::errno::Errno::EAGAIN) => return Ok(None),
            // What the network said about an earlier datagram.
            Err(nix::errno::Errno::ECONNREFUSED | nix::errno::Errno::EINTR) => continue,
            Err(error) => return Err(error.into()),
        };
        let stamp = message.cmsgs()?.find_map(|control| match control {
            ControlMessageOwned::ScmTimestampns(stamp) => {
                Some(nanos(stamp.tv_sec(), stamp.tv_nsec()))
            }
            _ => None,
        });
        if let (DATAGRAM, Some(stamp)) = (message.bytes, stamp) {
            return Ok(Some((datagram, stamp)));
        }
    }
}

/// The kernel stamps datagrams by this clock.
fn wall_nanos() -> u64 {
    let now = clock_gettime(ClockId::Realtime);
    nanos(now.tv_sec, now.tv_nsec)
}

fn nanos(seconds: i64, nanos: i64) -> u64 {
    seconds.unsigned_abs() * 1_000_000_000 + nanos.unsigned_abs()
}

/// Number and instant.
const DATAGRAM: usize = 12;

/// A machine so late tells nothing any more.
const PATIENCE: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;

    fn times(micros: &[u64]) -> Times {
        Times::sorted(micros.iter().map(|n| Duration::from_micros(*n)).collect())
    }

    #[test]
    fn errors_are_taken_both_ways_from_what_was_asked() {
        let round_trips = times(&[950, 1_000, 1_010, 1_020, 1_400]);
        let probed = Probed { round_trips, ..Probed::default() };
        let error = probed.error(Duration::from_micros(1_000)).unwrap();
        assert_eq!(error.median, Duration::from_micros(10));
        assert_eq!(error.max, Duration::from_micros(400));
        assert_eq!(Probed::default().error(Duration::ZERO), None);
    }

    #[test]
    fn between_two_sockets_of_one_host_a_probe_measures_next_to_nothing() {
        let [first, second] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        let plan = ProbePlan { count: 20, ..ProbePlan::new(Duration::ZERO) };
        let probed = probe(&first, &second, plan).unwrap();
        assert_eq!((probed.there.count(), probed.back.count(), probed.lost), (20, 20, 0));
        assert_eq!(probed.round_trips.count(), 20);
        assert!(probed.there.quantile(0.5).unwrap() < Duration::from_millis(100));
    }

    #[test]
    fn what_does_not_come_is_lost() {
        let [first, second, third] = [(); 3].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        // What goes to the second socket is for the third alone to take.
        second.connect(third.local_addr().unwrap()).unwrap();
        let plan =
            ProbePlan { count: 5, patience: Duration::ZERO, ..ProbePlan::new(Duration::ZERO) };
        let probed = probe(&first, &second, plan).unwrap();
        assert_eq!((probed.there.count(), probed.round_trips.count(), probed.lost), (0, 0, 5));
    }
}
