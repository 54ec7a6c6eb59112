//! Metrics of balancers that stand by for each other. There are none where there is but one.

use loadline_core::state::{PeerCounts, PeerLink, Role, Standby, StandbyPeer, State};

use super::{Family, Read, Samples};

pub(super) const FAMILIES: &[Family] = &[
    Family {
        name: "standby_active",
        help: "1 while this balancer is active, 0 while it is standby",
        labels: &[],
        read: Read::Gauge(|state, to| {
            one(state, to, |it| f64::from(u8::from(it.role == Role::Active)));
        }),
    },
    Family {
        name: "standby_unplaced",
        help: "Flows and connections of the active that do not fit in the tables here",
        labels: &[],
        read: Read::Gauge(|state, to| one(state, to, |it| it.unplaced as f64)),
    },
    Family {
        name: "standby_refused",
        help: "Datagrams from unknown senders or with bad authentication",
        labels: &[],
        read: Read::Counter(|state, to| one(state, to, |it| it.refused)),
    },
    Family {
        name: "standby_whole",
        help: "1 while the standby of the two is synchronized",
        labels: PEER,
        read: Read::Gauge(|state, to| {
            peers(state, to, |it| Some(f64::from(u8::from(it.link == PeerLink::Whole))));
        }),
    },
    Family {
        name: "standby_lag_seconds",
        help: "Time the oldest datagram is unacknowledged; on a standby, time since the \
               last datagram of the active",
        labels: PEER,
        read: Read::Gauge(|state, to| peers(state, to, |it| it.lag_s)),
    },
    Family {
        name: "standby_behind",
        help: "Records that the standby may not have in their current state",
        labels: PEER,
        read: Read::Gauge(|state, to| peers(state, to, |it| it.behind.map(|facts| facts as f64))),
    },
    Family {
        name: "standby_records",
        help: "Records, by direction: sent or received",
        labels: DIRECTION,
        read: Read::Counter(|state, to| {
            counts(state, to, "sent", |it| it.records_sent);
            counts(state, to, "received", |it| it.records_received);
        }),
    },
    Family {
        name: "standby_datagrams",
        help: "Datagrams with records, by direction: sent, received or lost",
        labels: DIRECTION,
        read: Read::Counter(|state, to| {
            counts(state, to, "sent", |it| it.datagrams_sent);
            counts(state, to, "received", |it| it.datagrams_received);
            counts(state, to, "lost", |it| it.datagrams_lost);
        }),
    },
    Family {
        name: "standby_bytes",
        help: "Bytes of all datagrams with their headers, by direction: sent or received",
        labels: DIRECTION,
        read: Read::Counter(|state, to| {
            counts(state, to, "sent", |it| it.bytes_sent);
            counts(state, to, "received", |it| it.bytes_received);
        }),
    },
    Family {
        name: "standby_resynchronizations",
        help: "Full resynchronizations",
        labels: PEER,
        read: Read::Counter(|state, to| peers(state, to, |it| Some(it.counts.resynchronizations))),
    },
];

fn one<T>(state: &State, samples: &mut Samples<'_, T>, value: impl Fn(&Standby) -> T) {
    if let Some(standby) = &state.standby {
        samples.add(&[], value(standby));
    }
}

fn peers<T>(
    state: &State,
    samples: &mut Samples<'_, T>,
    value: impl Fn(&StandbyPeer) -> Option<T>,
) {
    for peer in state.standby.iter().flat_map(|standby| &standby.peers) {
        if let Some(value) = value(peer) {
            samples.add(&[&peer.address], value);
        }
    }
}

fn counts(
    state: &State,
    samples: &mut Samples<'_, u64>,
    name: &str,
    value: impl Fn(&PeerCounts) -> u64,
) {
    for peer in state.standby.iter().flat_map(|standby| &standby.peers) {
        samples.add(&[&peer.address, name], value(&peer.counts));
    }
}

const PEER: &[&str] = &["peer"];
const DIRECTION: &[&str] = &["peer", "direction"];

#[cfg(test)]
mod tests {
    use super::super::{Detail, Format, tests::text};
    use super::*;

    #[test]
    fn a_pair_is_shown_with_its_peer_and_one_alone_is_not() {
        assert!(
            !text(State::default(), Detail::Servers, Format::OpenMetrics)
                .contains("\nloadline_standby")
        );
        let counts = PeerCounts { records_sent: 7, datagrams_lost: 2, ..PeerCounts::default() };
        let address = "10.0.0.2:4343".to_owned();
        let peer =
            StandbyPeer { address, link: PeerLink::Whole, lag_s: Some(0.5), behind: None, counts };
        let standby =
            Standby { role: Role::Active, role_s: 1.0, unplaced: 0, refused: 3, peers: vec![peer] };
        let state = State { standby: Some(standby), ..State::default() };
        let text = text(state, Detail::Servers, Format::OpenMetrics);
        for line in [
            "loadline_standby_active 1.0",
            "loadline_standby_refused_total 3",
            "loadline_standby_lag_seconds{peer=\"10.0.0.2:4343\"} 0.5",
            "loadline_standby_records_total{peer=\"10.0.0.2:4343\",direction=\"sent\"} 7",
            "loadline_standby_datagrams_total{peer=\"10.0.0.2:4343\",direction=\"lost\"} 2",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
    }
}
