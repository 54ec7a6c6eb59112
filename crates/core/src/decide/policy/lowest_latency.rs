//! Lowest latency: the server that has answered fastest, whatever it has to do now.
//!
//! Chooses the open server with the least average latency, an exponentially weighted mean over
//! eight answers ([`crate::decide::average::LatencyAverage`]). One that has not answered yet comes
//! first while it has nothing to do, and last while it has: what it is given tells how fast it is.
//! Who is no slower than twice the fastest and a millisecond counts as equal, for less is chance,
//! and equals have their turns. Weights play no part. A server that was slow is forgiven a
//! hundredth of the time that it is not asked, and so tried again.
//!
//! Who is among the fastest is found anew by whichever request comes first after [`REFRESH`]. When
//! all of those are full, all servers are looked at for the fastest with room: with `max_in_flight`
//! per server the group fills from its fastest server on. Not without such a limit, and not for
//! more load than one server carries: all requests follow the fastest until it is the slowest,
//! then all run to the next (the herd). Use peak EWMA or latency weighted instead. When all are
//! full nobody is chosen.
//!
//! Source: the obvious rule, kept for small groups at unequal distance and for showing the herd.

use alloc::boxed::Box;
use core::sync::atomic::{AtomicU16, AtomicUsize, Ordering::Relaxed};

use crate::{
    decide::{
        plan::ServerPlan,
        policy::{
            About, alike_up_to,
            least::{Steps, least, next_of},
            refresh::Refresh,
        },
    },
    time::{Duration, Instant},
};

pub(super) const ABOUT: About = About {
    name: "lowest-latency",
    meaning: "The server with the lowest measured latency, whatever the weights.",
    prefers: true,
    ..About::PLAIN
};

/// The fastest as they were a moment ago.
#[derive(Debug)]
pub(crate) struct LowestLatency {
    /// Their places, of which the first `count` are valid.
    fastest: Box<[AtomicU16]>,
    count: AtomicUsize,
    refresh: Refresh,
}

impl LowestLatency {
    pub(super) fn new(servers: &[ServerPlan]) -> Self {
        let fastest = servers.iter().map(|_| AtomicU16::new(0)).collect();
        Self { fastest, count: AtomicUsize::new(0), refresh: Refresh::default() }
    }

    /// Chooses the next of the fastest, and where that is closed the fastest that is open.
    pub(super) fn choose<'a>(
        &self,
        servers: &'a [ServerPlan],
        (now, draw): (Instant, u64),
        open: impl Fn(&ServerPlan) -> bool,
    ) -> Option<&'a ServerPlan> {
        if self.refresh.is_due(now, REFRESH) {
            self.find(servers, now);
        }
        let fastest = &self.fastest[..self.count.load(Relaxed)];
        let next = next_of(servers, fastest, draw, &open);
        next.or_else(|| fastest_open(servers, (now, draw), open))
    }

    /// Writes down who is among the fastest. A request that reads meanwhile meets some of the last
    /// time.
    fn find(&self, servers: &[ServerPlan], now: Instant) {
        let latency = |server: &ServerPlan| expected(server, now);
        let Some(fastest) = servers.iter().map(latency).min() else { return };
        let alike = alike_up_to(fastest);
        let found = (0..).zip(servers).filter(|(_, server)| latency(server) <= alike);
        let slots = self.fastest.iter().zip(found);
        let count = slots.map(|(slot, (place, _))| slot.store(place, Relaxed)).count();
        self.count.store(count, Relaxed);
    }
}

/// The same by looking at all of them.
fn fastest_open(
    servers: &[ServerPlan],
    (now, draw): (Instant, u64),
    open: impl Fn(&ServerPlan) -> bool,
) -> Option<&ServerPlan> {
    let latency = |server: &ServerPlan| expected(server, now);
    let fastest = servers.iter().filter(|server| open(server)).map(latency).min()?;
    let alike = alike_up_to(fastest);
    let cost = |_, server: &ServerPlan| match latency(server) {
        latency if latency <= alike => 0,
        latency => latency.as_nanos(),
    };
    least(servers, draw, open, cost, &Steps { each: &[], longest: 1 })
}

/// Latency expected of a server: one that has been asked and has not answered yet ranks last.
fn expected(server: &ServerPlan, now: Instant) -> Duration {
    match server.state.latency_at(now) {
        Duration::ZERO if server.state.in_flight() > 0 => UNKNOWN,
        latency => latency,
    }
}

/// Longer than any response takes.
const UNKNOWN: Duration = Duration::from_nanos(1 << 62);

/// Time between two looks at all servers. Longer, and all requests go to one server chosen by
/// chance before its responses show how it does.
const REFRESH: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::policy::testing::{answer_after, counts, everyone, load_with, servers};
    use alloc::vec::Vec;

    const NOW: Instant = Instant::ZERO;

    /// Who is chosen by the first request, and in a row of requests.
    fn first(servers: &[ServerPlan], open: impl Fn(&ServerPlan) -> bool) -> Option<usize> {
        let policy = LowestLatency::new(servers);
        let chosen = policy.choose(servers, (NOW, 9), open);
        chosen.map(|server| usize::from(server.index))
    }

    fn row(servers: &[ServerPlan], now: Instant) -> Vec<f64> {
        let policy = LowestLatency::new(servers);
        counts(servers.len(), |draw| policy.choose(servers, (now, draw), everyone))
    }

    #[test]
    fn the_fastest_takes_all_until_it_is_full() {
        let mut servers = servers(&[1; 3]);
        answer_after(&servers, &[90, 10, 30]);
        load_with(&servers, &[0, 5, 0]);
        assert_eq!(first(&servers, everyone), Some(1));
        servers[1].limits.in_flight = 5;
        let has_room = |s: &ServerPlan| s.state.in_flight() < s.limits.in_flight;
        assert_eq!(first(&servers, has_room), Some(2));
    }

    #[test]
    fn a_change_of_latency_counts_after_a_millisecond() {
        let servers = servers(&[1; 2]);
        answer_after(&servers, &[10, 90]);
        let policy = LowestLatency::new(&servers);
        let at = |now| counts(2, |draw| policy.choose(&servers, (now, draw), everyone));
        assert_eq!(at(NOW)[1], 0.0);
        (0..40).for_each(|_| answer_after(&servers, &[90, 10]));
        assert_eq!(at(NOW + Duration::from_micros(999))[1], 0.0);
        assert_eq!(at(NOW + Duration::from_millis(1))[0], 0.0);
    }

    #[test]
    fn those_that_have_not_answered_come_first_and_in_no_order() {
        let servers = servers(&[1; 4]);
        answer_after(&servers, &[5, 0, 5, 0]);
        let counts = row(&servers, NOW);
        assert!(counts[0] == 0.0 && counts[2] == 0.0, "{counts:?}");
        assert!(libm::fabs(counts[1] - counts[3]) <= 1.0, "{counts:?}");
    }

    #[test]
    fn who_has_not_answered_yet_is_given_one_request_and_not_all_of_them() {
        let servers = servers(&[1; 3]);
        answer_after(&servers, &[10, 0, 10]);
        assert_eq!(first(&servers, everyone), Some(1));
        load_with(&servers, &[4, 1, 4]);
        let counts = row(&servers, NOW);
        assert!(counts[1] == 0.0 && libm::fabs(counts[0] - counts[2]) <= 1.0, "{counts:?}");
        let only = |server: &ServerPlan| server.index == 1;
        assert_eq!(first(&servers, only), Some(1));
    }

    #[test]
    fn those_that_have_been_asked_and_have_not_answered_are_equal() {
        let servers = servers(&[1; 4]);
        load_with(&servers, &[1, 3, 1, 2]);
        let all = row(&servers, NOW);
        assert!(all.iter().all(|count| libm::fabs(count - all[0]) <= 1.0), "{all:?}");
        // The first is always the next, and closed.
        let policy = LowestLatency::new(&servers);
        let others = |server: &ServerPlan| server.index != 0;
        let counts = counts(4, |draw| policy.choose(&servers, (NOW, draw), others));
        assert!(counts[0] == 0.0, "{counts:?}");
        assert!(counts[2..].iter().all(|it| libm::fabs(it - counts[1]) <= 1.0), "{counts:?}");
    }

    #[test]
    fn who_is_not_much_slower_is_equal_and_who_was_slow_is_asked_again() {
        let servers = servers(&[1; 3]);
        answer_after(&servers, &[10, 21, 91]);
        let now = row(&servers, NOW);
        assert!(libm::fabs(now[0] - now[1]) <= 1.0 && now[2] == 0.0, "{now:?}");
        // Nobody has answered for nine seconds: 90 ms are forgiven.
        let later = row(&servers, NOW + Duration::from_secs(9));
        assert!(later.iter().all(|count| *count > 0.0), "{later:?}");
    }
}
