//! Lowest latency: the server that has answered fastest, whatever it has to do now.
//!
//! Chooses the open server with the least average latency, an exponentially weighted mean over
//! eight answers ([`crate::average::LatencyAverage`]); one that has not answered yet comes first.
//! Weights play no part. Among equals the first from a random place on.
//!
//! When all are full nobody is chosen; when the fastest is full, the next fastest is: with
//! `max_in_flight` per server the group fills from its fastest server on. Not without such a
//! limit, and not for more load than one server carries: all requests follow the fastest until
//! it is the slowest, then all run to the next (the herd); and a server that was slow once is not
//! asked again until all others are slower. Use peak EWMA or latency weighted instead.
//!
//! Source: the obvious rule, kept for small groups at unequal distance and for showing the herd.

use crate::{plan::ServerPlan, policy::least::least};

pub(super) fn choose(
    servers: &[ServerPlan],
    draw: u64,
    open: impl Fn(&ServerPlan) -> bool,
) -> Option<&ServerPlan> {
    least(servers, draw, open, |_, server| server.state.latency().as_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::testing::{
        answer_after, assert_shares, counts, everyone, load_with, servers,
    };

    #[test]
    fn the_fastest_takes_all_until_it_is_full() {
        let mut servers = servers(&[1; 3]);
        answer_after(&servers, &[30, 10, 20]);
        load_with(&servers, &[0, 5, 0]);
        let chosen = choose(&servers, 9, everyone).map(|server| server.index);
        assert_eq!(chosen, Some(1));
        servers[1].limits.in_flight = 5;
        let has_room = |s: &ServerPlan| s.state.in_flight() < s.limits.in_flight;
        assert_eq!(choose(&servers, 9, has_room).map(|server| server.index), Some(2));
    }

    #[test]
    fn those_that_have_not_answered_come_first_and_in_no_order() {
        let servers = servers(&[1; 4]);
        answer_after(&servers, &[1, 0, 1, 0]);
        let counts = counts(4, |draw| choose(&servers, draw, everyone));
        assert!(counts[0] == 0.0 && counts[2] == 0.0, "{counts:?}");
        // The first from a random place on: each stands behind one server that is passed over.
        assert_shares(&counts, &[0.0, 1.0, 0.0, 1.0]);
    }
}
