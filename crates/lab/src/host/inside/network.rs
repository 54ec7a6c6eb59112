//! A host's interface, addresses, routes and settings.

use std::{
    fs::{self, File},
    io,
    net::IpAddr,
    os::fd::{AsFd, OwnedFd},
};

use netlink_packet_route::{link::LinkAttribute, route::RouteMetric};
use nix::sched::{CloneFlags, setns, unshare};

use super::super::{
    message::{Boot, Failure, RouteTo},
    netlink::Netlink,
};
use crate::{
    topology::InterfaceAddress,
    wan::{MacAddress, Port, PortError},
};

/// What a port is made of.
pub(super) type Parts = (OwnedFd, Option<MacAddress>);

/// Makes the network of a host in the network namespace of this process, which is new. Gives the
/// descriptor of its port, and the inner address where that is a packet socket.
pub(super) fn set_up(boot: &Boot, notes: &mut Vec<String>) -> Result<Parts, Failure> {
    set_all(FIRST)?;
    let port = open_port(boot, notes)?;
    let mut netlink = Netlink::new().map_err(Failure::of("speak with the kernel"))?;
    netlink
        .bring_up(LOOPBACK, &[])
        .map_err(Failure::of("bring its loopback up"))
        .map_err(|failure| Failure { refused: true, ..failure })?;
    let settings = [LinkAttribute::Mtu(boot.mtu), LinkAttribute::TxQueueLen(QUEUE)];
    let index = netlink.link(INTERFACE).map_err(Failure::of("find its interface"))?.index;
    netlink.bring_up(index, &settings).map_err(Failure::of("bring its interface up"))?;
    for &address in &boot.addresses {
        let what = format!("take the address {address}");
        netlink.add_address(index, InterfaceAddress::alone(address)).map_err(Failure::of(what))?;
    }
    for route in &boot.routes {
        set_route(&mut netlink, index, &boot.addresses, route)?;
    }
    if boot.forwards {
        set_all(FORWARD)?;
    }
    boot.settings.iter().try_for_each(|(name, value)| set(name, value))?;
    Ok(port)
}

/// Sets a route, for each kind of address that the host has.
fn set_route(
    netlink: &mut Netlink,
    index: u32,
    addresses: &[IpAddr],
    route: &RouteTo,
) -> Result<(), Failure> {
    let first = |v6: bool| addresses.iter().copied().find(|address| address.is_ipv6() == v6);
    for from in [first(false), first(true)].into_iter().flatten() {
        if route.to.is_some_and(|to| to.is_ipv6() != from.is_ipv6()) {
            continue;
        }
        let what = match &route.congestion {
            Some(congestion) => format!(
                "set a route with congestion control `{congestion}`, which must be among \
                 net.ipv4.tcp_available_congestion_control"
            ),
            None => "set a route".to_owned(),
        };
        netlink.set_route(index, from, route.to, metrics(route)).map_err(Failure::of(what))?;
    }
    Ok(())
}

/// The interface of a host.
pub(super) const INTERFACE: &str = "wan0";

fn metrics(route: &RouteTo) -> Vec<RouteMetric> {
    let congestion = route.congestion.clone().map(RouteMetric::CcAlgo);
    let initial = route.initial_window.map(RouteMetric::InitCwnd);
    let window = route.window_bytes.map(RouteMetric::Window);
    [congestion, initial, window].into_iter().flatten().collect()
}

fn open_port(boot: &Boot, notes: &mut Vec<String>) -> Result<Parts, Failure> {
    if !boot.tun {
        return open_pair();
    }
    match Port::open_tun(INTERFACE) {
        Ok(port) => Ok(port.into_parts()),
        Err(PortError::Closed { source }) if boot.veth => {
            notes.push(format!(
                "hosts are joined by veth pairs and packet sockets instead of TUN: \
                 /dev/net/tun cannot be opened ({source})"
            ));
            open_pair()
        }
        Err(error) => Err(no_port(error)),
    }
}

/// Makes a pair of interfaces: the inner one here, the outer one in a network namespace of its own,
/// which lasts as long as the port.
fn open_pair() -> Result<Parts, Failure> {
    let own = || File::open("/proc/self/ns/net").map_err(Failure::of("find its network namespace"));
    let speak = || Netlink::new().map_err(Failure::of("speak with the kernel"));
    let (inside, mut inner) = (own()?, speak()?);
    unshare(CloneFlags::CLONE_NEWNET)
        .map_err(Failure::of("make a network namespace"))
        .map_err(|failure| Failure { refused: true, ..failure })?;
    set_all(FIRST)?;
    let (outside, mut outer) = (own()?, speak()?);
    inner
        .add_pair(INTERFACE, OUTER_INTERFACE, outside.as_fd())
        .map_err(Failure::of("make a pair of virtual Ethernet interfaces"))?;
    let up = outer.link(OUTER_INTERFACE).and_then(|link| {
        // Whatever the inner one sends must fit.
        let settings = [LinkAttribute::Mtu(LARGEST_MTU), LinkAttribute::TxQueueLen(QUEUE)];
        outer.bring_up(link.index, &settings)
    });
    up.map_err(Failure::of("bring the outer interface up"))?;
    let address = inner.link(INTERFACE).map_err(Failure::of("find its interface"))?.address;
    let port = Port::open_packet(OUTER_INTERFACE, address.unwrap_or_default());
    setns(inside, CloneFlags::CLONE_NEWNET)
        .map_err(Failure::of("return to its network namespace"))?;
    port.map(Port::into_parts).map_err(no_port)
}

fn no_port(error: PortError) -> Failure {
    Failure::of("have a port")(io::Error::other(error))
}

fn set_all(settings: &[(&str, &str)]) -> Result<(), Failure> {
    settings.iter().try_for_each(|(name, value)| match set(name, value) {
        // Only IPv6 may be missing: then there is nothing to set.
        Err(_) if name.starts_with("net.ipv6.") => Ok(()),
        other => other,
    })
}

/// Sets one of the kernel's settings; dots of the name part its directories.
fn set(name: &str, value: &str) -> Result<(), Failure> {
    let path = format!("/proc/sys/{}", name.replace('.', "/"));
    fs::write(path, value).map_err(Failure::of(format!("set {name} to {value}")))
}

/// The kernel gives the first interface of each network namespace this number.
const LOOPBACK: u32 = 1;

const OUTER_INTERFACE: &str = "wire";

const LARGEST_MTU: u32 = 65_521;

/// Packets: enough that the router's pauses of a few milliseconds lose none.
const QUEUE: u32 = 10_000;

/// Before there is an interface.
const FIRST: &[(&str, &str)] = &[
    // Any program may listen at port 80, whoever it runs as.
    ("net.ipv4.ip_unprivileged_port_start", "0"),
    // What one run learnt of a path is not to help the next.
    ("net.ipv4.tcp_no_metrics_save", "1"),
    // A shared address makes packets come from where no route leads back.
    ("net.ipv4.conf.all.rp_filter", "0"),
    ("net.ipv4.conf.default.rp_filter", "0"),
    // An interface has the addresses that it is given, and asks no router for more.
    ("net.ipv6.conf.default.addr_gen_mode", "1"),
    ("net.ipv6.conf.default.accept_ra", "0"),
    ("net.ipv6.conf.default.router_solicitations", "0"),
];

/// On a host that sends on what is not for itself, by the way it came.
const FORWARD: &[(&str, &str)] = &[
    ("net.ipv4.ip_forward", "1"),
    ("net.ipv6.conf.all.forwarding", "1"),
    ("net.ipv4.conf.all.send_redirects", "0"),
    ("net.ipv4.conf.wan0.send_redirects", "0"),
];
