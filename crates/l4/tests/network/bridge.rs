//! Hosts on one bridge, as on an Ethernet.

use std::net::IpAddr;

use rustix::thread::{CapabilitySet, capabilities};

use crate::{host::Host, skipped::skipped};

/// The bridge itself; none where the rights of root are missing, which is told.
pub(crate) fn bridge() -> Option<Host> {
    let rights = capabilities(None).unwrap().effective;
    if !rights.contains(CapabilitySet::SYS_ADMIN | CapabilitySet::NET_ADMIN) {
        skipped("CAP_SYS_ADMIN and CAP_NET_ADMIN, for namespaces and XDP");
        return None;
    }
    let hub = Host::new();
    hub.run("ip link add hub type bridge");
    hub.run("ip link set hub up");
    Some(hub)
}

/// The address of a host, of the same parts in both families.
pub(crate) fn at(net: u16, host: u16, v6: bool) -> IpAddr {
    match v6 {
        true => IpAddr::from([0xfd00, 0, 0, 0, 0, 0, net, host]),
        false => IpAddr::from([10, 0, net as u8, host as u8]),
    }
}

/// An address without a network around it.
pub(crate) fn alone(address: IpAddr) -> String {
    format!("{address}/{}", if address.is_ipv6() { 128 } else { 32 })
}

/// A host on the bridge, whose end there has its name.
pub(crate) fn member(hub: &Host, name: &str, net: u16, number: u16) -> Host {
    let host = Host::new();
    let there = host.path();
    hub.run(&format!("ip link add {name} type veth peer name eth0 netns {there}"));
    hub.run(&format!("ip link set {name} master hub"));
    hub.run(&format!("ip link set {name} up"));
    host.run(&format!("ip link set eth0 address 02:00:00:00:00:{number:02x}"));
    host.run(&format!("ip address add {}/16 dev eth0", at(net, number, false)));
    host.run(&format!("ip address add {}/64 dev eth0 nodad", at(net, number, true)));
    host.run("ip link set eth0 up");
    host
}

/// A server, which has these service addresses as well and does not say so.
pub(crate) fn silent_server(hub: &Host, number: u16, services: &[u16]) -> Host {
    let host = member(hub, &format!("server{number}"), 1, number);
    for setting in ["all.arp_ignore=1", "all.arp_announce=2", "all.rp_filter=0", "eth0.rp_filter=0"]
    {
        host.run(&format!("sysctl -q net.ipv4.conf.{setting}"));
    }
    for (part, v6) in services.iter().flat_map(|part| [(*part, false), (*part, true)]) {
        host.run(&format!("ip address add {} dev lo nodad", alone(at(0, part, v6))));
    }
    host
}

/// Lets packets of a host leave with checksums of their own, as they do on a wire.
pub(crate) fn work_out_checksums(host: &Host) {
    host.run("ethtool -K eth0 tx off");
}
