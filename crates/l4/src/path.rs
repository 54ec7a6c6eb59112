//! From whom to where: what flows are known by, as `struct tuple` has it.

use std::net::{IpAddr, SocketAddr};

use crate::{
    Frontend,
    layout::{Tuple, Tuple4, Tuple6, address},
};
use loadline_core::fleet::forwarding::Protocol;

/// The way of a flow's packets to its service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Path {
    /// Where it comes from.
    pub client: SocketAddr,
    /// Where it goes to.
    pub frontend: Frontend,
}

impl Path {
    /// `struct tuple`, where IPv4 takes the first word of an address.
    pub(crate) fn wide(&self) -> Tuple6 {
        wide(self.client, self.frontend.address, self.frontend.protocol)
    }

    /// Of a `struct tuple` of this family.
    pub(crate) fn read(wide: &Tuple6, is_v6: bool) -> Self {
        let [a, b, c, d] = [wide[32], wide[33], wide[34], wide[35]];
        let protocol = u32::from_ne_bytes([wide[36], wide[37], wide[38], wide[39]]);
        let protocol = if protocol == Protocol::Udp as u32 { Protocol::Udp } else { Protocol::Tcp };
        let at = |start, port| SocketAddr::new(read_address(wide, start, is_v6), port);
        let address = at(16, u16::from_be_bytes([c, d]));
        let client = at(0, u16::from_be_bytes([a, b]));
        Self { client, frontend: Frontend { address, protocol } }
    }
}

/// `struct tuple` of packets from one to the other.
pub(crate) fn wide(source: SocketAddr, destination: SocketAddr, protocol: Protocol) -> Tuple6 {
    let mut wide = [0; 40];
    wide[..16].copy_from_slice(&address(source.ip()));
    wide[16..32].copy_from_slice(&address(destination.ip()));
    wide[32..34].copy_from_slice(&source.port().to_be_bytes());
    wide[34..36].copy_from_slice(&destination.port().to_be_bytes());
    wide[36..].copy_from_slice(&(protocol as u32).to_ne_bytes());
    wide
}

/// `struct address` at a place of some bytes.
pub(crate) fn read_address(bytes: &[u8], start: usize, is_v6: bool) -> IpAddr {
    let mut ip = [0; 16];
    ip.copy_from_slice(&bytes[start..start + 16]);
    let [a, b, c, d, ..] = ip;
    if is_v6 { ip.into() } else { [a, b, c, d].into() }
}

/// A key that can be made and read.
pub(crate) trait Keyed: Tuple {
    /// The flows of this family.
    const FLOWS: &str;

    /// Of a `struct tuple`.
    fn narrow(wide: &Tuple6) -> Self;

    /// Client and frontend of the flow.
    fn path(&self) -> Path;
}

impl Keyed for Tuple4 {
    const FLOWS: &str = "flows4";

    fn narrow(wide: &Tuple6) -> Self {
        let mut key = [0; 16];
        key[..4].copy_from_slice(&wide[..4]);
        key[4..8].copy_from_slice(&wide[16..20]);
        key[8..].copy_from_slice(&wide[32..]);
        key
    }

    fn path(&self) -> Path {
        let mut wide = [0; 40];
        wide[..4].copy_from_slice(&self[..4]);
        wide[16..20].copy_from_slice(&self[4..8]);
        wide[32..].copy_from_slice(&self[8..]);
        Path::read(&wide, false)
    }
}

impl Keyed for Tuple6 {
    const FLOWS: &str = "flows6";

    fn narrow(wide: &Tuple6) -> Self {
        *wide
    }

    fn path(&self) -> Path {
        Path::read(self, true)
    }
}
