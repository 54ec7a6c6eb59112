//! What a plan says to a forwarder: which servers the packets of a service may go to.
//!
//! Packets are no requests: nothing is known of capacity or overflow. New connections go to the
//! first group in the order they are filled, which is the nearest that has servers.

use std::{collections::BTreeMap, net::SocketAddr};

use loadline_core::{
    decide::{census::Condition, plan::Plan},
    time::Duration,
};

/// A server of a service whose packets are forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// Where it listens.
    pub(super) address: SocketAddr,
    /// The link address of the next hop, where the file says it.
    pub(super) link: Option<[u8; 6]>,
    /// What its connection ids of QUIC have in them.
    pub(super) quic_server_id: Option<u16>,
    /// Its share of new connections; none at 0.
    pub(super) weight: u32,
    /// Whether it is there. Connections leave one that is not.
    pub(super) is_up: bool,
    /// How long connections may stay once it is given nothing more; for ever if omitted.
    pub(super) drain: Option<Duration>,
}

/// The servers of the service at this index, by their addresses.
#[must_use]
pub(super) fn targets(plan: &Plan, service: usize) -> Vec<Target> {
    let (Some(of), Some(ways)) = (plan.fleet.services.get(service), plan.services.get(service))
    else {
        return Vec::new();
    };
    let mut found: BTreeMap<SocketAddr, Target> = BTreeMap::new();
    for (g, (group, enrolled)) in of.groups.iter().zip(&*ways.census).enumerate() {
        let first = ways.groups.first().filter(|first| usize::from(first.index) == g);
        for (s, (server, known)) in group.servers.iter().zip(&enrolled.servers).enumerate() {
            let given = first
                .and_then(|first| first.servers.iter().find(|given| usize::from(given.index) == s));
            let target = Target {
                address: server.address,
                link: server.link,
                quic_server_id: server.quic_server_id,
                weight: given.map_or(0, |given| given.weight),
                is_up: known.condition != Condition::Down,
                drain: server.drain_timeout.or(of.drain_timeout),
            };
            let known = found.entry(server.address).or_insert(target);
            known.weight = known.weight.max(target.weight);
            known.is_up |= target.is_up;
        }
    }
    found.into_values().collect()
}
