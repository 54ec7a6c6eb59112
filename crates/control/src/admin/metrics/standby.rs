//! Metrics of balancers that stand by for each other. There are none where there is but one.

use loadline_core::state::{PeerCounts, PeerLink, Role, Standby, StandbyPeer, State};

use super::family::{Family, Subject, Tell};

pub(super) const FAMILIES: &[&dyn Family] = &[
    &STANDBY.gauge(
        "standby_active",
        "1 while this balancer is active, 0 while it is standby",
        |it| f64::from(it.role == Role::Active),
    ),
    &STANDBY.gauge(
        "standby_unplaced",
        "Flows and connections of the active balancer that do not fit in the tables here",
        |it| it.unplaced as f64,
    ),
    &STANDBY.counter(
        "standby_refused",
        "Datagrams from unknown senders or with bad authentication",
        |it| it.refused,
    ),
    &PEER.gauge("standby_whole", "1 while the standby is synchronized", |it| {
        f64::from(it.link == PeerLink::Whole)
    }),
    &PEER.gauge_if_any(
        "standby_lag_seconds",
        "Time the oldest datagram is unacknowledged; on a standby, time since the \
         last datagram of the active",
        |it| it.lag_s,
    ),
    &PEER.gauge_if_any(
        "standby_behind",
        "Records that the standby may not have in their current state",
        |it| it.behind.map(|facts| facts as f64),
    ),
    &RECORDS.counter("standby_records", "Records, by direction: sent or received", |it| *it),
    &DATAGRAMS.counter(
        "standby_datagrams",
        "Datagrams with records, by direction: sent, received or lost",
        |it| *it,
    ),
    &BYTES.counter(
        "standby_bytes",
        "Bytes of all datagrams with their headers, by direction: sent or received",
        |it| *it,
    ),
    &PEER.counter("standby_resynchronizations", "Full resynchronizations", |it| {
        it.counts.resynchronizations
    }),
];

const STANDBY: Subject<Standby> =
    Subject { labels: &[], each: |state, to| state.standby.iter().for_each(|it| to(&[], it)) };

const PEER: Subject<StandbyPeer> = Subject {
    labels: &["peer"],
    each: |state, to| peers(state).for_each(|peer| to(&[&peer.address], peer)),
};

const RECORDS: Subject<u64> = Subject {
    labels: DIRECTION,
    each: |state, to| {
        counts(state, to, "sent", |it| it.records_sent);
        counts(state, to, "received", |it| it.records_received);
    },
};

const DATAGRAMS: Subject<u64> = Subject {
    labels: DIRECTION,
    each: |state, to| {
        counts(state, to, "sent", |it| it.datagrams_sent);
        counts(state, to, "received", |it| it.datagrams_received);
        counts(state, to, "lost", |it| it.datagrams_lost);
    },
};

const BYTES: Subject<u64> = Subject {
    labels: DIRECTION,
    each: |state, to| {
        counts(state, to, "sent", |it| it.bytes_sent);
        counts(state, to, "received", |it| it.bytes_received);
    },
};

const DIRECTION: &[&str] = &["peer", "direction"];

fn counts(state: &State, to: Tell<'_, u64>, direction: &str, count: fn(&PeerCounts) -> u64) {
    peers(state).for_each(|peer| to(&[&peer.address, direction], &count(&peer.counts)));
}

fn peers(state: &State) -> impl Iterator<Item = &StandbyPeer> {
    state.standby.iter().flat_map(|standby| &standby.peers)
}

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
