//! Whether packets from here to the servers bear an address of this balancer's own.
//!
//! Of the addresses of an interface the kernel prefers over IPv6 the one that has most in common
//! with the destination (RFC 6724, rule 8). That can be a service address, which the servers have
//! themselves, so that they drop what comes from it, health checks and tunnels alike.

use std::{collections::BTreeSet, net::IpAddr};

use loadline_core::decide::plan::Plan;

use crate::neighbour::own_address;

/// Tells of service and return addresses that packets to servers come from, and what mends it.
pub(super) fn tell_wrong_sources(plan: &Plan, interface: &str) {
    let forwarding = &plan.fleet.forwarding;
    let services: BTreeSet<usize> = forwarding.frontends.iter().map(|it| it.service).collect();
    let services = services.iter().filter_map(|service| plan.fleet.services.get(*service));
    let servers = services.flat_map(|service| &service.groups).flat_map(|group| &group.servers);
    let servers: BTreeSet<IpAddr> = servers.map(|server| server.address.ip()).collect();
    for address in wrong_sources(&forwarding.moving_addresses(), &servers, own_address) {
        tracing::warn!(
            %address,
            "health checks and tunnels to servers come from a service or return address, and are \
             dropped there: `ip address change {address}/128 dev {interface} preferred_lft 0`"
        );
    }
}

/// Those of the `moving` addresses that the kernel chooses towards servers. Over IPv4 it chooses
/// one of the servers' network, which no /32 is.
fn wrong_sources(
    moving: &[IpAddr],
    servers: &BTreeSet<IpAddr>,
    own: impl Fn(IpAddr) -> Option<IpAddr>,
) -> BTreeSet<IpAddr> {
    if !moving.iter().any(IpAddr::is_ipv6) {
        return BTreeSet::new();
    }
    let servers = servers.iter().filter(|server| server.is_ipv6());
    let chosen = servers.filter_map(|server| own(*server));
    chosen.filter(|own| moving.contains(own)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_address_that_checks_come_from_is_told() {
        let v6 = |last: u16| IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, last]);
        let v4 = |last: u8| IpAddr::from([10, 0, 0, last]);
        let servers = BTreeSet::from([v4(1), v6(1), v6(2), v6(3)]);
        let own = |server: IpAddr| match server {
            IpAddr::V4(_) => Some(v4(100)),
            _ if server == v6(1) => Some(v6(100)),
            _ if server == v6(2) => Some(v6(8)),
            _ => None,
        };
        let moving = [v4(100), v6(100), v6(200)];
        assert_eq!(wrong_sources(&moving, &servers, own), BTreeSet::from([v6(100)]));
        let asked = |_| panic!("there is nothing to ask the kernel for");
        assert!(wrong_sources(&[v4(100)], &servers, asked).is_empty());
    }
}
