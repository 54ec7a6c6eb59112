//! Lowest latency: the server that has answered fastest, whatever it has to do now.
//!
//! Chooses the open server with the least average latency, an exponentially weighted mean over
//! eight answers ([`crate::decide::average::LatencyAverage`]); one that has not answered yet comes
//! first. Who is no slower than twice that and a millisecond counts as equal, for less is chance,
//! and equals have their turns. Weights play no part. A server that was slow is forgiven a
//! hundredth of the time that it is not asked, and so tried again.
//!
//! When all are full nobody is chosen; when the fastest are full, the next fastest is: with
//! `max_in_flight` per server the group fills from its fastest server on. Not without such a
//! limit, and not for more load than one server carries: all requests follow the fastest until
//! it is the slowest, then all run to the next (the herd). Use peak EWMA or latency weighted
//! instead.
//!
//! Source: the obvious rule, kept for small groups at unequal distance and for showing the herd.

use crate::{
    decide::{
        plan::ServerPlan,
        policy::{
            About, alike_up_to,
            least::{Steps, least},
        },
    },
    time::Instant,
};

pub(super) const ABOUT: About = About {
    name: "lowest-latency",
    meaning: "The server with the lowest measured latency.",
    prefers: true,
    ..About::PLAIN
};

pub(super) fn choose(
    servers: &[ServerPlan],
    (now, draw): (Instant, u64),
    open: impl Fn(&ServerPlan) -> bool,
) -> Option<&ServerPlan> {
    let latency = |server: &ServerPlan| server.state.latency_at(now);
    let fastest = servers.iter().filter(|server| open(server)).map(latency).min()?;
    let alike = alike_up_to(fastest);
    let cost = |_, server: &ServerPlan| match latency(server) {
        latency if latency <= alike => 0,
        latency => latency.as_nanos(),
    };
    least(servers, draw, open, cost, &Steps { each: &[], longest: 1 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        decide::policy::testing::{answer_after, counts, everyone, load_with, servers},
        time::Duration,
    };

    const NOW: Instant = Instant::ZERO;

    #[test]
    fn the_fastest_takes_all_until_it_is_full() {
        let mut servers = servers(&[1; 3]);
        answer_after(&servers, &[90, 10, 30]);
        load_with(&servers, &[0, 5, 0]);
        let chosen = choose(&servers, (NOW, 9), everyone).map(|server| server.index);
        assert_eq!(chosen, Some(1));
        servers[1].limits.in_flight = 5;
        let has_room = |s: &ServerPlan| s.state.in_flight() < s.limits.in_flight;
        assert_eq!(choose(&servers, (NOW, 9), has_room).map(|server| server.index), Some(2));
    }

    #[test]
    fn those_that_have_not_answered_come_first_and_in_no_order() {
        let servers = servers(&[1; 4]);
        answer_after(&servers, &[5, 0, 5, 0]);
        let counts = counts(4, |draw| choose(&servers, (NOW, draw), everyone));
        assert!(counts[0] == 0.0 && counts[2] == 0.0, "{counts:?}");
        assert!(libm::fabs(counts[1] - counts[3]) <= 1.0, "{counts:?}");
    }

    #[test]
    fn who_is_not_much_slower_is_equal_and_who_was_slow_is_asked_again() {
        let servers = servers(&[1; 3]);
        answer_after(&servers, &[10, 21, 91]);
        let at = |now| counts(3, |draw| choose(&servers, (now, draw), everyone));
        let now = at(NOW);
        assert!(libm::fabs(now[0] - now[1]) <= 1.0 && now[2] == 0.0, "{now:?}");
        // Nobody has answered for nine seconds: 90 ms are forgiven.
        let later = at(NOW + Duration::from_secs(9));
        assert!(later.iter().all(|count| *count > 0.0), "{later:?}");
    }
}
