//! A conversation with the kernel about interfaces, addresses, routes and neighbours.

use std::{convert::Infallible, fmt, io, net::IpAddr};

use netlink_packet_core::{
    DecodeError, Emitable, NLA_HEADER_SIZE, NLM_F_ACK, NLM_F_REQUEST, NetlinkDeserializable,
    NetlinkHeader, NetlinkMessage, NetlinkPayload, NetlinkSerializable, NlasIterator, Parseable,
    parse_string,
};
use netlink_packet_route::{
    AddressFamily,
    link::{LinkAttribute, LinkMessage},
    route::RouteAddress,
};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};

/// A conversation about one network namespace.
pub struct Netlink {
    socket: Socket,
    sequence: u32,
}

/// What a request does: the types of messages in `linux/rtnetlink.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Makes an interface.
    NewLink = 16,
    /// Asks for an interface.
    GetLink = 18,
    /// Changes an interface.
    SetLink = 19,
    /// Gives an interface an address.
    NewAddress = 20,
    /// Sets a route.
    NewRoute = 24,
    /// Asks for the route to an address.
    GetRoute = 26,
    /// Asks for the link address of a neighbour.
    GetNeighbour = 30,
}

/// A message as it is sent. The library's own type for any message would bring the code of all
/// hundred kinds of them, half a megabyte.
struct Message {
    kind: u16,
    bytes: Vec<u8>,
}

impl Netlink {
    /// About the network namespace that the calling thread is in now.
    ///
    /// # Errors
    /// The kernel's.
    pub fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Self { socket, sequence: 0 })
    }

    /// Gives an order.
    ///
    /// # Errors
    /// The kernel's.
    pub fn tell(&mut self, what: Request, body: &impl Emitable, flags: u16) -> io::Result<()> {
        self.send(what, body, flags | NLM_F_ACK).map(|_| ())
    }

    /// Sends one request and reads its answer: none where that is an acknowledgement.
    ///
    /// # Errors
    /// The kernel's.
    pub fn ask<A: Parseable<[u8]>>(
        &mut self,
        what: Request,
        body: &impl Emitable,
    ) -> io::Result<Option<A>> {
        // The answer to what asks for something is of the type that makes it.
        let answer = self.send(what, body, 0)?.filter(|answer| answer.kind == what as u16 & !0b11);
        answer.map(|answer| A::parse(&answer.bytes).map_err(io::Error::other)).transpose()
    }

    /// The interface of this name.
    ///
    /// # Errors
    /// The kernel's, where there is none.
    pub fn link(&mut self, interface: &str) -> io::Result<Link> {
        let mut message = LinkMessage::default();
        message.attributes.push(LinkAttribute::IfName(interface.to_owned()));
        self.ask(Request::GetLink, &message)?.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn send(
        &mut self,
        what: Request,
        body: &impl Emitable,
        flags: u16,
    ) -> io::Result<Option<Message>> {
        self.sequence += 1;
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | flags;
        header.sequence_number = self.sequence;
        let mut message = Message { kind: what as u16, bytes: vec![0; body.buffer_len()] };
        body.emit(&mut message.bytes);
        let mut request = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(message));
        request.finalize();
        let mut bytes = vec![0; request.buffer_len()];
        request.serialize(&mut bytes);
        self.socket.send(&bytes, 0)?;
        loop {
            let (bytes, _) = self.socket.recv_from_full()?;
            let answer = NetlinkMessage::<Message>::deserialize(&bytes);
            let answer = answer.map_err(io::Error::other)?;
            if answer.header.sequence_number != self.sequence {
                continue;
            }
            return match answer.payload {
                NetlinkPayload::Error(error) if error.code.is_some() => Err(error.to_io()),
                NetlinkPayload::InnerMessage(inner) => Ok(Some(inner)),
                _ => Ok(None),
            };
        }
    }
}

/// An interface as the kernel tells of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// The kind of a virtual one, as `ip link add type` has it.
    pub kind: Option<String>,
    /// Index of the bridge or bond whose port it is.
    pub controller: Option<u32>,
}

impl Parseable<[u8]> for Link {
    fn parse(message: &[u8]) -> Result<Self, DecodeError> {
        let attributes = message.get(LINK_HEADER..).unwrap_or_default();
        let controller = attribute(attributes, IFLA_MASTER).and_then(|it| it.try_into().ok());
        let kind =
            attribute(attributes, IFLA_LINKINFO).and_then(|it| attribute(it, IFLA_INFO_KIND));
        let kind = kind.map(parse_string).transpose()?;
        Ok(Self { kind, controller: controller.map(u32::from_ne_bytes) })
    }
}

/// The value of the first attribute with this number.
fn attribute(attributes: &[u8], number: u16) -> Option<&[u8]> {
    let found = NlasIterator::new(attributes).flatten().find(|it| it.kind() == number)?;
    let length = usize::from(found.length());
    found.into_inner().get(NLA_HEADER_SIZE..length)
}

impl NetlinkSerializable for Message {
    fn message_type(&self) -> u16 {
        self.kind
    }

    fn buffer_len(&self) -> usize {
        self.bytes.len()
    }

    fn serialize(&self, buffer: &mut [u8]) {
        buffer.copy_from_slice(&self.bytes);
    }
}

impl NetlinkDeserializable for Message {
    type Error = Infallible;

    fn deserialize(header: &NetlinkHeader, payload: &[u8]) -> Result<Self, Infallible> {
        Ok(Self { kind: header.message_type, bytes: payload.to_vec() })
    }
}

impl fmt::Debug for Netlink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Netlink").finish_non_exhaustive()
    }
}

/// The family of an address.
#[must_use]
pub fn family(address: IpAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 }
}

/// The length of a prefix that is the address alone.
#[must_use]
pub fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// The address as a route has it.
#[must_use]
pub fn route_address(address: IpAddr) -> RouteAddress {
    match address {
        IpAddr::V4(v4) => RouteAddress::Inet(v4),
        IpAddr::V6(v6) => RouteAddress::Inet6(v6),
    }
}

/// Length of `struct ifinfomsg`.
const LINK_HEADER: usize = 16;

/// What an interface is a port of.
const IFLA_MASTER: u16 = 10;

/// What is told of virtual interfaces, and their kind in it.
const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_KIND: u16 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_veth_is_told_from_a_network_card_and_a_port_from_one_that_is_none() {
        let mut message = vec![0_u8; LINK_HEADER];
        let link = |message: &[u8]| Link::parse(message).unwrap();
        // IFLA_IFNAME of eth0.
        message.extend([9, 0, 3, 0]);
        message.extend(*b"eth0\0\0\0\0");
        assert_eq!(link(&message), Link::default());
        message.extend([8, 0, 10, 0, 7, 0, 0, 0]);
        message.extend([16, 0, 18, 0, 9, 0, 1, 0]);
        message.extend(*b"veth\0\0\0\0");
        let kind = Some("veth".to_owned());
        assert_eq!(link(&message), Link { kind, controller: Some(7) });
        assert_eq!(link(&[]), Link::default());
    }
}
