//! The same configuration with more servers, or fewer.

use std::{
    net::{IpAddr, Ipv6Addr, SocketAddr},
    sync::Arc,
};

use loadline_core::{
    fleet::{Capacity, Fleet, Group, Server},
    units::Rate,
};

use super::Sizes;
use crate::{
    Scenario,
    scenario::{Selector, ServerModel},
};

/// Servers, and what they are like.
type ModelEntry = (Selector, Arc<ServerModel>);

/// All groups so many times as large, rounded up, and none larger than can be.
pub(super) fn times(now: &Sizes, factor: f64) -> Sizes {
    let size =
        |servers: &u32| ((f64::from(*servers) * factor).ceil() as u32).min(Group::SERVERS_MAX);
    now.iter().map(|groups| groups.iter().map(size).collect()).collect()
}

/// The groups that have servers, the largest first.
pub(super) fn places(sizes: &Sizes) -> Vec<(usize, usize)> {
    let services = sizes.iter().enumerate();
    let groups = services.flat_map(|(service, groups)| {
        groups.iter().enumerate().map(move |(group, size)| (*size, (service, group)))
    });
    let mut places: Vec<_> = groups.filter(|(size, _)| *size > 0).collect();
    places.sort_by_key(|(size, _)| std::cmp::Reverse(*size));
    places.into_iter().map(|(_, place)| place).collect()
}

/// The scenario without drained servers: they are given nothing, and more of them do not help. A
/// group of which all are drained keeps them: it is drained, and not without servers.
pub(super) fn without_drained(scenario: &Scenario) -> Scenario {
    let mut scenario = scenario.clone();
    for fleet in &mut scenario.edges {
        for service in Arc::make_mut(fleet).services.iter_mut() {
            let groups = service.groups.iter_mut().filter(|group| has_use(group));
            groups.for_each(|group| group.servers.retain(takes_part));
        }
    }
    scenario
}

/// Servers of each group that are not drained, by service.
pub(super) fn sizes(scenario: &Scenario) -> Sizes {
    let size = |group: &Group| {
        let servers = group.servers.iter().filter(|server| takes_part(server)).count();
        u32::try_from(servers).unwrap_or(u32::MAX)
    };
    let services = scenario.services().iter();
    services.map(|service| service.groups.iter().map(size).collect()).collect()
}

/// Whether not all servers of a group are drained.
pub(super) fn has_use(group: &Group) -> bool {
    group.servers.iter().any(takes_part)
}

/// Whether a server is not drained.
pub(super) const fn takes_part(server: &Server) -> bool {
    server.weight > 0
}

/// The scenario with groups of these sizes: the first servers of each, and where there are more
/// than now, copies of them. What a group may be given grows with its servers.
pub(super) fn resized(scenario: &Scenario, now: &Sizes, sizes: &Sizes) -> Scenario {
    let mut scenario = scenario.clone();
    for fleet in &mut scenario.edges {
        let mut fleet_of_sizes = Fleet::clone(fleet);
        let services = fleet_of_sizes.services.iter_mut().zip(sizes.iter().zip(now));
        for (service, (sizes, now)) in services {
            for (group, (size, now)) in service.groups.iter_mut().zip(sizes.iter().zip(now)) {
                resize(group, *size, *now);
            }
        }
        *fleet = Arc::new(fleet_of_sizes);
    }
    let most = sizes.iter().flatten().zip(now.iter().flatten());
    let copies = most.map(|(size, now)| size.div_ceil((*now).max(1))).max().unwrap_or(1);
    scenario.servers = with_copies(&scenario.servers, copies);
    scenario
}

/// Copies of a server that has a model of its own have it, too: in its place, for the last entry
/// that selects a server holds.
fn with_copies(models: &[ModelEntry], copies: u32) -> Vec<ModelEntry> {
    let with_copies = models.iter().flat_map(|(of, model)| {
        let copies = if of.server.is_some() { copies } else { 1 };
        let server = move |copy| of.server.map(|address| copied(address, copy));
        let of_copy = move |copy| Selector { server: server(copy), ..of.clone() };
        (0..copies).map(move |copy| (of_copy(copy), model.clone()))
    });
    with_copies.collect()
}

fn resize(group: &mut Group, size: u32, now: u32) {
    if now == 0 || size == now {
        return;
    }
    let copy = |index: u32| {
        let of = &group.servers[(index % now) as usize];
        Server { address: copied(of.address, index / now), ..of.clone() }
    };
    group.servers = (0..size).map(copy).collect();
    let factor = f64::from(size) / f64::from(now);
    let times = |number: u32| (f64::from(number) * factor).round().max(1.0) as u32;
    let Capacity { max_rate, burst, max_in_flight, .. } = &mut group.capacity;
    *max_rate = max_rate.map(|rate| times_rate(rate, factor));
    *burst = burst.map(times);
    *max_in_flight = max_in_flight.map(times);
}

fn times_rate(rate: Rate, factor: f64) -> Rate {
    Rate::milli_per_sec((rate.as_per_sec_f64() * factor * 1e3).round() as u64)
}

/// The address of a copy of a server, in the block for packets that go nowhere (RFC 6666): servers
/// that share an address have copies that share one. Copy 0 is the server.
fn copied(address: SocketAddr, copy: u32) -> SocketAddr {
    if copy == 0 {
        return address;
    }
    let low = match address.ip() {
        IpAddr::V4(ip) => u64::from(u32::from(ip)),
        IpAddr::V6(ip) => u128::from(ip) as u64 ^ (u128::from(ip) >> 64) as u64,
    };
    let family = u128::from(address.is_ipv6());
    let bits = 0x0100 << 112 | family << 96 | u128::from(copy) << 64 | u128::from(low);
    SocketAddr::new(Ipv6Addr::from(bits).into(), address.port())
}

/// The servers of a group that requests go to while all are healthy: without those that are drained
/// and those that stand by.
pub(crate) fn in_use(group: &Group) -> impl Iterator<Item = &Server> {
    let taking_part = || group.servers.iter().filter(|server| takes_part(server));
    let first = taking_part().map(|server| server.priority).min();
    taking_part().filter(move |server| Some(server.priority) == first)
}

/// What a group may be given: requests per second, and in flight.
pub(crate) fn limits(group: &Group) -> (Option<f64>, Option<u64>) {
    let servers = || in_use(group).map(|server| &server.capacity);
    let rate = |capacity: &Capacity| capacity.max_rate.map(Rate::as_per_sec_f64);
    let rates = servers().map(rate).try_fold(0.0_f64, |sum, rate| Some(sum + rate?));
    let in_flight = |capacity: &Capacity| capacity.max_in_flight.map(u64::from);
    let all_in_flight: Option<u64> = servers().map(in_flight).sum();
    let scaler = group.scaler.as_f64();
    let rate = least(rate(&group.capacity), rates).map(|rate| rate * scaler);
    let all = least(in_flight(&group.capacity), all_in_flight);
    (rate, all.map(|all| (all as f64 * scaler) as u64))
}

fn least<T: PartialOrd>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(if other < one { other } else { one }),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_group_grows_beyond_the_numbers_of_its_servers() {
        assert_eq!(times(&vec![vec![3, 2_000]], 64.0), [[192, 65_535]]);
    }

    #[test]
    fn a_copy_is_like_its_server_where_a_later_entry_selects_both() {
        let at = |last| SocketAddr::from(([10, 0, 0, last], 80));
        let one = |last| Selector { server: Some(at(last)), ..Selector::default() };
        let model = |cores| Arc::new(ServerModel { cores, ..ServerModel::default() });
        let all = Selector::default();
        let models = [(one(1), model(2)), (all, model(3)), (one(2), model(4))];
        let models = with_copies(&models, 3);
        let cores = |server| {
            let fits = |(of, _): &&ModelEntry| of.fits("web", ("near", "eu"), server);
            models.iter().rev().find(fits).map(|(_, model)| model.cores)
        };
        for copy in 0..3 {
            assert_eq!(cores(copied(at(1), copy)), Some(3), "copy {copy}");
            assert_eq!(cores(copied(at(2), copy)), Some(4), "copy {copy}");
        }
    }

    #[test]
    fn a_group_of_twice_the_servers_may_be_given_twice_as_much() {
        let at = |last| SocketAddr::from(([10, 0, 0, last], 80));
        let mut group = Group {
            name: "near".into(),
            region: "eu".into(),
            rtt: None,
            capacity: Capacity {
                max_rate: Some(Rate::per_sec(100)),
                max_in_flight: Some(7),
                ..Capacity::UNLIMITED
            },
            scaler: loadline_core::units::Ratio::ONE,
            servers: vec![Server::at(at(1)), Server::at(at(2))],
            discovery: None,
        };
        resize(&mut group, 5, 2);
        assert_eq!(limits(&group), (Some(250.0), Some(18)));
        let mut addresses: Vec<_> = group.servers.iter().map(|server| server.address).collect();
        assert_eq!(addresses[..2], [at(1), at(2)]);
        addresses.sort_unstable();
        addresses.dedup();
        assert_eq!(addresses.len(), 5);
        resize(&mut group, 1, 5);
        assert_eq!((group.servers.len(), limits(&group).0), (1, Some(50.0)));
        group.servers.clear();
        assert_eq!(limits(&group).0.map(|rate| rate.to_string()).as_deref(), Some("0"));
    }
}
