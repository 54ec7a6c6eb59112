//! Which link address packets towards a host are sent to, by the kernel's routes and its table of
//! neighbours.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket},
};

use loadline_linux::netlink::{Netlink, Request, bits, family, route_address};
use netlink_packet_route::{
    neighbour::{NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState},
    route::{RouteAddress, RouteAttribute, RouteMessage, RouteType, RouteVia},
};
use rustix::io::Errno;

/// A conversation with the kernel about the network namespace it was opened in.
#[derive(Debug)]
pub(crate) struct Neighbours(Netlink);

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

    /// The link address of the next hop towards a host. None where the kernel does not know it: it
    /// is made to ask then, for the next time.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn find(&mut self, host: IpAddr) -> io::Result<Option<[u8; 6]>> {
        let Some(hop) = self.hop(host)? else { return Ok(None) };
        let found = self.link(hop)?;
        if found.is_none() {
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

    /// The next hop; none without a route, or if the host is this machine.
    fn hop(&mut self, host: IpAddr) -> io::Result<Option<Hop>> {
        let mut message = RouteMessage::default();
        message.header.address_family = family(host);
        message.header.destination_prefix_length = bits(host);
        message.attributes.push(RouteAttribute::Destination(route_address(host)));
        let route = known(self.0.ask(Request::GetRoute, &message))?;
        Ok(route.and_then(|route| next_hop(host, &route)))
    }

    fn link(&mut self, hop: Hop) -> io::Result<Option<[u8; 6]>> {
        let mut message = NeighbourMessage::default();
        message.header.family = family(hop.address);
        message.header.ifindex = hop.interface;
        message.attributes.push(NeighbourAttribute::Destination(match hop.address {
            IpAddr::V4(v4) => NeighbourAddress::Inet(v4),
            IpAddr::V6(v6) => NeighbourAddress::Inet6(v6),
        }));
        let found: Option<NeighbourMessage> = known(self.0.ask(Request::GetNeighbour, &message))?;
        let Some(found) = found else { return Ok(None) };
        if matches!(found.header.state, NeighbourState::Incomplete | NeighbourState::Failed) {
            return Ok(None);
        }
        Ok(found.attributes.iter().find_map(|attribute| match attribute {
            NeighbourAttribute::LinkLayerAddress(bytes) => bytes.as_slice().try_into().ok(),
            _ => None,
        }))
    }
}

/// What the kernel has answered; none where there is nothing to tell.
fn known<T>(answered: io::Result<Option<T>>) -> io::Result<Option<T>> {
    match answered {
        Err(error) if is_absence(&error) => Ok(None),
        answered => answered,
    }
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
}
