//! The switches behind hosts on an Ethernet.
//!
//! A switch is a bridge in a network namespace of its own, which a descriptor of the lab's process
//! holds: with it, however it goes, switch and cables are gone. A cable is a pair of virtual
//! Ethernet interfaces, of which a host has one as `eth0`. What hosts send has its checksums worked
//! out, as on a wire: whoever rewrites packets would make wrong ones of those that are still due.

use std::{
    fs::{self, File},
    io,
    os::fd::AsFd as _,
    thread,
};

use nix::sched::{CloneFlags, setns, unshare};
use rustix::thread::{CapabilitySet, capabilities};

use super::{HostError, LabError, netlink::Netlink};
use crate::{
    topology::{HostSpec, InterfaceAddress, Topology},
    wan::send_with_checksums,
};

/// What every host on an Ethernet calls its interface there.
pub(super) const INTERFACE: &str = "eth0";

/// A switch that runs; dropping it takes it away, with the cables to it.
#[derive(Debug)]
pub(super) struct Switch {
    _namespace: File,
}

/// Whether this process may make the switches of the topology.
pub(super) fn check_rights(topology: &Topology) -> Result<(), LabError> {
    let effective = capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.effective);
    let lacks = |(_, right): &&(&str, CapabilitySet)| !effective.contains(*right);
    let missing: Vec<&str> = RIGHTS.iter().filter(lacks).map(|(name, _)| *name).collect();
    if topology.ethernets().is_empty() || missing.is_empty() {
        return Ok(());
    }
    Err(LabError::Rights { missing: missing.join(" and ") })
}

/// Makes the switches of a topology, with a cable to each of their hosts; `inits` are the hosts'
/// first processes.
pub(super) fn connect(topology: &Topology, inits: &[u32]) -> Result<Vec<Switch>, HostError> {
    let make_one = |(_, members): (InterfaceAddress, Vec<usize>)| {
        let ends: Vec<End<'_>> =
            members.iter().map(|&place| (&topology.hosts[place], inits[place])).collect();
        // Only this thread enters namespaces, and it ends.
        let made = thread::scope(|scope| scope.spawn(|| make(&ends)).join());
        made.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    };
    topology.ethernets().into_iter().map(make_one).collect()
}

/// A host with its first process.
type End<'e> = (&'e HostSpec, u32);

fn make(ends: &[End<'_>]) -> Result<Switch, HostError> {
    // All are opened before the first is entered.
    let open = |(host, init): &End<'_>| {
        let opened = File::open(format!("/proc/{init}/ns/net"));
        opened.map_err(failed(host, "show its network namespace"))
    };
    let inside = ends.iter().map(open).collect::<Result<Vec<File>, _>>()?;
    let first = ends[0].0;
    let (namespace, mut switch, bridge) = begin().map_err(failed(first, "have a switch"))?;
    for (number, (inside, (host, _))) in (1..).zip(inside.iter().zip(ends)) {
        let port = format!("port{number}");
        switch
            .add_pair(&port, INTERFACE, inside.as_fd())
            .and_then(|()| switch.link(&port))
            .and_then(|link| switch.add_port(link.index, bridge))
            .map_err(failed(host, "have a cable to its switch"))?;
    }
    for (inside, (host, _)) in inside.iter().zip(ends) {
        setns(inside, CloneFlags::CLONE_NEWNET)
            .map_err(io::Error::from)
            .and_then(|()| set_up(host.ethernet))
            .map_err(failed(host, "set its interface on the Ethernet up"))?;
    }
    Ok(Switch { _namespace: namespace })
}

fn failed(host: &HostSpec, what: &str) -> impl FnOnce(io::Error) -> HostError {
    let (host, what) = (host.name.clone(), what.to_owned());
    move |source| HostError::Failed { host, what, source }
}

/// A bridge in a network namespace that this thread has entered then.
fn begin() -> io::Result<(File, Netlink, u32)> {
    unshare(CloneFlags::CLONE_NEWNET)?;
    let namespace = File::open("/proc/thread-self/ns/net")?;
    // Only hosts are to speak there. Without IPv6 there is nothing to be silenced.
    let _ = fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
    let mut switch = Netlink::new()?;
    let bridge = switch.add_bridge(BRIDGE)?;
    switch.bring_up(bridge, &[])?;
    Ok((namespace, switch, bridge))
}

/// In the namespace of a host.
fn set_up(address: Option<InterfaceAddress>) -> io::Result<()> {
    send_with_checksums(INTERFACE)?;
    let mut netlink = Netlink::new()?;
    let index = netlink.link(INTERFACE)?.index;
    if let Some(address) = address {
        netlink.add_address(index, address)?;
    }
    netlink.bring_up(index, &[])
}

const BRIDGE: &str = "switch";

/// To make network namespaces and to enter those of hosts, and to make interfaces in them.
const RIGHTS: [(&str, CapabilitySet); 2] =
    [("CAP_SYS_ADMIN", CapabilitySet::SYS_ADMIN), ("CAP_NET_ADMIN", CapabilitySet::NET_ADMIN)];
