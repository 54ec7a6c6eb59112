//! A conversation with the kernel about interfaces, addresses, routes and neighbours.

use std::{fmt, io, net::IpAddr};

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage, route::RouteAddress};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};

/// A conversation about one network namespace.
pub struct Netlink {
    socket: Socket,
    sequence: u32,
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
    pub fn tell(&mut self, message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        self.ask(message, flags | NLM_F_ACK).map(|_| ())
    }

    /// Sends one request and reads its answer: none where that is an acknowledgement.
    ///
    /// # Errors
    /// The kernel's.
    pub fn ask(
        &mut self,
        message: RouteNetlinkMessage,
        flags: u16,
    ) -> io::Result<Option<RouteNetlinkMessage>> {
        self.sequence += 1;
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | flags;
        header.sequence_number = self.sequence;
        let mut request = NetlinkMessage::new(header, NetlinkPayload::from(message));
        request.finalize();
        let mut bytes = vec![0; request.buffer_len()];
        request.serialize(&mut bytes);
        self.socket.send(&bytes, 0)?;
        loop {
            let (bytes, _) = self.socket.recv_from_full()?;
            let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&bytes);
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
