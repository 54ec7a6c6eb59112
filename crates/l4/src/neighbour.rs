//! Which link address packets towards a host are sent to, by the kernel's routes and its table of
//! neighbours.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket},
};

use loadline_linux::netlink::{Link, Netlink, Request, bits, family, route_address};
use netlink_packet_route::{
    neighbour::{NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState},
    route::{RouteAddress, RouteAttribute, RouteMessage, RouteType, RouteVia},
};
use nix::net::if_::if_nametoindex;
use rustix::io::Errno;

/// A conversation with the kernel about the network namespace it was opened in.
#[derive(Debug)]
pub(crate) struct Neighbours(Netlink);

/// What the kernel knows of the next hop towards a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Neighbour {
    /// Its link address.
    Known([u8; 6]),
    /// Nothing yet, or there is no route.
    Unknown,
    /// It was asked for, and nobody answered.
    Silent,
    /// It is at the interface of this index, to which our packets do not go.
    Elsewhere(u32),
}

/// The next hop of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hop {
    interface: u32,
    address: IpAddr,
}

impl Neighbours {
    /// Opens the conversation.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn open() -> io::Result<Self> {
        Netlink::open().map(Self)
    }

    /// The link address of the next hop towards a host, for packets that leave by `interface`. The
    /// kernel is made to ask for one that it does not know or has not heard of for some time, for
    /// the next time.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn find(&mut self, host: IpAddr, interface: &str) -> io::Result<Neighbour> {
        let Some(hop) = self.hop(host)? else { return Ok(Neighbour::Unknown) };
        if !self.is_at(hop, interface) {
            return Ok(Neighbour::Elsewhere(hop.interface));
        }
        let (found, is_fresh) = self.link(hop)?;
        if !is_fresh {
            // Nobody needs to take it, and it may fail where nobody answers.
            let _ = from_here().and_then(|(v4, v6)| match hop.address {
                IpAddr::V4(address) => v4.send_to(&[], (address, DISCARD)),
                // One of the link is of this interface alone.
                IpAddr::V6(address) => {
                    v6.send_to(&[], SocketAddrV6::new(address, DISCARD, 0, hop.interface))
                }
            });
        }
        Ok(found)
    }

    /// Whether packets that leave by an interface come to this hop: it is that one, or the bridge
    /// whose port that one is. Of an interface that is not there nothing is known.
    fn is_at(&mut self, hop: Hop, interface: &str) -> bool {
        let Ok(own) = if_nametoindex(interface) else { return true };
        let is_port = |link: Link| link.controller == Some(hop.interface);
        own == hop.interface || self.0.link(interface).is_ok_and(is_port)
    }

    /// The next hop; none without a route, or if the host is this machine.
    fn hop(&mut self, host: IpAddr) -> io::Result<Option<Hop>> {
        let mut message = RouteMessage::default();
        message.header.address_family = family(host);
        message.header.destination_prefix_length = bits(host);
        message.attributes.push(RouteAttribute::Destination(route_address(host)));
        let route = known(self.0.ask(Request::GetRoute, &message))?;
        Ok(route.and_then(|route| next_hop(host, &route)))
    }

    /// What is known of a hop at its interface, and whether the kernel still counts on it.
    fn link(&mut self, hop: Hop) -> io::Result<(Neighbour, bool)> {
        let mut message = NeighbourMessage::default();
        message.header.family = family(hop.address);
        message.header.ifindex = hop.interface;
        message.attributes.push(NeighbourAttribute::Destination(match hop.address {
            IpAddr::V4(v4) => NeighbourAddress::Inet(v4),
            IpAddr::V6(v6) => NeighbourAddress::Inet6(v6),
        }));
        let found: Option<NeighbourMessage> = known(self.0.ask(Request::GetNeighbour, &message))?;
        Ok(found.map_or((Neighbour::Unknown, false), |found| link_address(&found)))
    }
}

/// What the kernel has answered; none where there is nothing to tell.
fn known<T>(answered: io::Result<Option<T>>) -> io::Result<Option<T>> {
    match answered {
        Err(error) if is_absence(&error) => Ok(None),
        answered => answered,
    }
}

fn link_address(known: &NeighbourMessage) -> (Neighbour, bool) {
    match known.header.state {
        NeighbourState::Incomplete => return (Neighbour::Unknown, false),
        NeighbourState::Failed => return (Neighbour::Silent, false),
        _ => {}
    }
    let address: Option<[u8; 6]> = known.attributes.iter().find_map(|attribute| match attribute {
        NeighbourAttribute::LinkLayerAddress(bytes) => bytes.as_slice().try_into().ok(),
        _ => None,
    });
    let is_fresh = address.is_some() && known.header.state != NeighbourState::Stale;
    (address.map_or(Neighbour::Unknown, Neighbour::Known), is_fresh)
}

fn next_hop(host: IpAddr, route: &RouteMessage) -> Option<Hop> {
    let (mut interface, mut address) = (None, host);
    for attribute in &route.attributes {
        match attribute {
            RouteAttribute::Oif(index) => interface = Some(*index),
            RouteAttribute::Gateway(RouteAddress::Inet(v4))
            | RouteAttribute::Via(RouteVia::Inet(v4)) => address = (*v4).into(),
            // A host of IPv4 may be behind a router of IPv6 (RFC 8950).
            RouteAttribute::Gateway(RouteAddress::Inet6(v6))
            | RouteAttribute::Via(RouteVia::Inet6(v6)) => address = (*v6).into(),
            _ => {}
        }
    }
    let is_sent = route.header.kind == RouteType::Unicast;
    interface.filter(|_| is_sent).map(|interface| Hop { interface, address })
}

/// Which of our addresses packets to a host bear; none where there is no way to it.
#[must_use]
pub(crate) fn own_address(host: IpAddr) -> Option<IpAddr> {
    let (v4, v6) = from_here().ok()?;
    let socket = if host.is_ipv6() { v6 } else { v4 };
    socket.connect(SocketAddr::new(host, DISCARD)).ok()?;
    socket.local_addr().ok().map(|address| address.ip())
}

/// A socket of each family; that of IPv4 twice where there is no IPv6.
fn from_here() -> io::Result<(UdpSocket, UdpSocket)> {
    let v4 = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    let v6 = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)).or_else(|_| v4.try_clone())?;
    Ok((v4, v6))
}

fn is_absence(error: &io::Error) -> bool {
    let absences = [Errno::NOENT, Errno::NETUNREACH, Errno::HOSTUNREACH, Errno::NODEV];
    absences.iter().any(|it| error.raw_os_error() == Some(it.raw_os_error()))
}

/// The port of the discard service (RFC 863): whatever comes there is thrown away.
const DISCARD: u16 = 9;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_of_ipv4_is_reached_by_a_router_of_ipv6() {
        let (host, router) = (IpAddr::from([10, 9, 0, 1]), Ipv6Addr::LOCALHOST);
        let mut route = RouteMessage::default();
        route.header.kind = RouteType::Unicast;
        route.attributes =
            vec![RouteAttribute::Oif(7), RouteAttribute::Via(RouteVia::Inet6(router))];
        let expected = Hop { interface: 7, address: router.into() };
        assert_eq!(next_hop(host, &route), Some(expected));
    }

    #[test]
    fn the_kernel_is_asked_again_for_an_address_that_it_has_not_heard_of_for_some_time() {
        let known = |state| {
            let mut message = NeighbourMessage::default();
            message.header.state = state;
            message.attributes.push(NeighbourAttribute::LinkLayerAddress(vec![2; 6]));
            link_address(&message)
        };
        let address = Neighbour::Known([2; 6]);
        assert_eq!(known(NeighbourState::Reachable), (address, true));
        assert_eq!(known(NeighbourState::Permanent), (address, true));
        assert_eq!(known(NeighbourState::Stale), (address, false));
        assert_eq!(known(NeighbourState::Incomplete), (Neighbour::Unknown, false));
        assert_eq!(known(NeighbourState::Failed), (Neighbour::Silent, false));
    }
}
