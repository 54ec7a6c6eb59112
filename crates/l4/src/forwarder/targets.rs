//! What a plan says to a forwarder: which servers the packets of a service may go to.
//!
//! Packets are no requests: nothing is known of capacity or overflow. New connections go to the
//! first group in the order they are filled, which is the nearest that has servers.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    net::SocketAddr,
};

use loadline_core::{
    decide::{census::Condition, plan::Plan},
    time::Duration,
    units::Ratio,
};

/// A server of a service whose packets are forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// Where it listens.
    pub(super) address: SocketAddr,
    /// The link address of the next hop, where the file says it.
    pub(super) link: Option<[u8; 6]>,
    /// Server id in its QUIC connection ids.
    pub(super) quic_server_id: Option<u16>,
    /// Its share of new connections; none at 0.
    pub(super) weight: u32,
    /// Whether the server is up. Connections leave one that is not.
    pub(super) is_up: bool,
    /// Whether it is to have no connections any more: its weight, or the scaler of its group, is 0.
    pub(super) is_drained: bool,
    /// How long connections may stay then, or once it is no longer wanted; for ever if omitted.
    pub(super) drain: Option<Duration>,
}

impl Target {
    /// Joins the same server of another group or service: it is up if one of them is.
    pub(super) fn join(&mut self, other: &Self) {
        self.link = self.link.or(other.link);
        self.weight = self.weight.max(other.weight);
        self.is_up |= other.is_up;
        self.is_drained &= other.is_drained;
        self.drain = self.drain.zip(other.drain).map(|(one, other)| one.max(other));
    }
}

/// The servers of the service at this index, by their addresses.
#[must_use]
pub(super) fn targets(plan: &Plan, service: usize) -> Vec<Target> {
    let (Some(of), Some(ways)) = (plan.fleet.services.get(service), plan.services.get(service))
    else {
        return Vec::new();
    };
    let is_stopped = of.maintenance.as_ref().is_some_and(|it| it.enabled);
    let mut found: BTreeMap<SocketAddr, Target> = BTreeMap::new();
    for (g, (group, here)) in of.groups.iter().zip(&*ways.census).enumerate() {
        let first = ways.groups.first().filter(|_| !is_stopped);
        let first = first.filter(|first| usize::from(first.index) == g);
        for (s, (server, known)) in group.servers.iter().zip(&here.servers).enumerate() {
            let given = first
                .and_then(|first| first.servers.iter().find(|given| usize::from(given.index) == s));
            let target = Target {
                address: server.address,
                link: server.link,
                quic_server_id: server.quic_server_id,
                weight: given.map_or(0, |given| given.weight),
                is_up: known.condition != Condition::Down,
                is_drained: server.weight == 0 || group.scaler == Ratio::ZERO,
                drain: server.drain_timeout.or(of.drain_timeout),
            };
            match found.entry(server.address) {
                Entry::Vacant(new) => drop(new.insert(target)),
                Entry::Occupied(mut known) => known.get_mut().join(&target),
            }
        }
    }
    found.into_values().collect()
}

#[cfg(test)]
mod tests {
    use loadline_core::{
        decide::controller::{Controller, Output},
        fleet::{Edge, Fleet, Group, Maintenance, Server, Service},
        time::Instant,
    };

    use super::*;

    fn service() -> Service {
        let servers = [1, 2].map(|host| Server::at(([10, 0, 0, host], 80).into()));
        let group = Group::within("near", servers.into());
        Service { groups: vec![group], ..Service::named("web") }
    }

    fn targets_of(service: Service) -> Vec<Target> {
        let fleet = Fleet::of(Edge::within("near"), Vec::new(), vec![service]);
        let Some(Output::Publish(plan)) = Controller::new(Instant::ZERO, fleet).poll() else {
            panic!("no plan")
        };
        targets(&plan, 0)
    }

    #[test]
    fn a_server_that_drains_is_told_apart_from_one_that_others_go_before() {
        let mut of = service();
        of.groups[0].servers[0].weight = 0;
        of.groups[0].servers[0].drain_timeout = Some(Duration::from_secs(30));
        let far = Group { name: "far".into(), region: "far".into(), ..service().groups.remove(0) };
        let servers = vec![Server::at(([10, 0, 1, 1], 80).into())];
        of.groups.push(Group { rtt: Some(Duration::from_secs(1)), servers, ..far });
        let targets = targets_of(of);
        let is_drained: Vec<bool> = targets.iter().map(|it| it.is_drained).collect();
        assert_eq!(is_drained, [true, false, false]);
        assert_eq!(targets[0].drain, Some(Duration::from_secs(30)));
        assert_eq!((targets[0].weight, targets[2].weight), (0, 0));
        assert!(targets[1].weight > 0);
    }

    #[test]
    fn a_service_in_maintenance_takes_no_new_connections_and_keeps_those_it_has() {
        let maintenance = Some(Maintenance { enabled: true, ..Maintenance::default() });
        let targets = targets_of(Service { maintenance, ..service() });
        assert!(targets.iter().all(|it| it.weight == 0), "{targets:?}");
        assert!(targets.iter().all(|it| it.is_up && !it.is_drained), "{targets:?}");
        let off = Some(Maintenance::default());
        let targets = targets_of(Service { maintenance: off, ..service() });
        assert!(targets.iter().all(|it| it.weight > 0), "{targets:?}");
    }
}
