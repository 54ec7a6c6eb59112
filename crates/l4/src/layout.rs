//! Keys and values of the tables as `bpf/types.h` lays them out: bytes, in the machine's order but
//! for addresses and ports, which are in the network's.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use aya::Pod;
use loadline_core::{
    fleet::forwarding::{Affinity, Method, Protocol},
    time::Instant,
};

use crate::ports::{Direction, Port};

/// Where clients reach a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Frontend {
    /// Address and port.
    pub address: SocketAddr,
    /// TCP or UDP.
    pub protocol: Protocol,
}

/// A server, of the family of its service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Server {
    /// Its address; of `mac` only for people.
    pub address: IpAddr,
    /// Its port with `nat`; zero for that of the service.
    pub port: u16,
    /// The number of the service whose server it is; none where several services share it.
    pub service: Option<u32>,
    /// The link address of the next hop towards it.
    pub mac: [u8; 6],
    /// Whether the server is up. Its flows go to others if it is not.
    pub is_up: bool,
}

/// The identity of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServerName {
    /// Where it is.
    pub address: IpAddr,
    /// Its port with `nat`; zero where packets keep theirs.
    pub port: u16,
    /// The service whose server it is, so that it can be down in one service and up in another.
    /// None with `nat`: a port that is lent towards an address and port is lent once.
    pub service: Option<u32>,
}

/// What all services share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Our address in the outer header of an IPv4 tunnel.
    pub tunnel4: Ipv4Addr,
    /// The same of IPv6.
    pub tunnel6: Ipv6Addr,
    /// The largest IP packet that the networks towards the servers carry, in bytes.
    pub mtu: u32,
    /// From where servers see NAT connections come, at most [`MAX_RETURNS`] of each family.
    pub returns: Vec<IpAddr>,
    /// The first port of each return address.
    pub first_port: u16,
    /// How many ports from there.
    pub ports: u16,
}

/// Return addresses of one family.
pub const MAX_RETURNS: usize = 16;

/// `struct address`.
pub(crate) fn address(of: IpAddr) -> [u8; 16] {
    match of {
        IpAddr::V6(ip) => ip.octets(),
        IpAddr::V4(ip) => {
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&ip.octets());
            bytes
        }
    }
}

/// `struct service_key4` or `struct service_key6`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ServiceKey {
    V4([u8; 8]),
    V6([u8; 20]),
}

impl ServiceKey {
    /// Of a service.
    pub(crate) fn of(frontend: &Frontend) -> Self {
        Self::new(frontend.address, frontend.protocol as u8)
    }

    /// A key that marks the address as ours.
    pub(crate) fn own(ip: IpAddr) -> Self {
        Self::new(SocketAddr::new(ip, 0), 0)
    }

    fn new(at: SocketAddr, protocol: u8) -> Self {
        let port = u16::from_ne_bytes(at.port().to_be_bytes());
        let port_protocol = (u32::from(port) | u32::from(protocol) << 16).to_ne_bytes();
        match at.ip() {
            IpAddr::V4(ip) => {
                let mut key = [0; 8];
                key[..4].copy_from_slice(&ip.octets());
                key[4..].copy_from_slice(&port_protocol);
                Self::V4(key)
            }
            IpAddr::V6(ip) => {
                let mut key = [0; 20];
                key[..16].copy_from_slice(&ip.octets());
                key[16..].copy_from_slice(&port_protocol);
                Self::V6(key)
            }
        }
    }
}

/// `struct service`.
pub(crate) fn service(
    number: u32,
    (method, affinity): (Method, Affinity),
    half: u8,
    has_quic_ids: bool,
) -> [u8; 8] {
    let mut value = [0; 8];
    value[..4].copy_from_slice(&number.to_ne_bytes());
    value[4] = method as u8;
    value[5] = half;
    value[6] = u8::from(affinity.is_of_client());
    value[7] = u8::from(has_quic_ids);
    value
}

/// `QUIC_KEY`: a number in connection ids of a service.
pub(crate) fn quic_key(service: u32, id: u16) -> u32 {
    service << 16 | u32::from(id)
}

impl ServerName {
    /// Whether `nat` lends ports towards it.
    #[must_use]
    pub(crate) const fn is_of_nat(&self) -> bool {
        self.port != 0
    }
}

impl Server {
    /// Its identity.
    #[must_use]
    pub const fn name(&self) -> ServerName {
        ServerName { address: self.address, port: self.port, service: self.service }
    }

    /// `struct server`.
    pub(crate) fn value(&self) -> [u8; 32] {
        let mut value = [0; 32];
        value[..6].copy_from_slice(&self.mac);
        value[6] = u8::from(self.is_up);
        value[8..10].copy_from_slice(&self.port.to_be_bytes());
        value[16..].copy_from_slice(&address(self.address));
        value
    }
}

impl Settings {
    /// `struct settings`.
    pub(crate) fn value(&self) -> [u8; 24] {
        let mut value = [0; 24];
        value[..4].copy_from_slice(&self.tunnel4.octets());
        value[4..20].copy_from_slice(&self.tunnel6.octets());
        value[20..].copy_from_slice(&self.mtu.to_ne_bytes());
        value
    }

    /// Return addresses of one family.
    pub(crate) fn returns(&self, v6: bool) -> impl Iterator<Item = IpAddr> {
        self.returns.iter().copied().filter(move |ip| ip.is_ipv6() == v6)
    }

    /// All ports to lend towards a server of this family.
    pub(crate) fn ports(&self, v6: bool) -> impl Iterator<Item = Port> + use<> {
        Port::all(self.returns(v6).count() as u16, self.first_port, self.ports)
    }

    /// Which port this is; none where the address is not one of ours.
    pub(crate) fn place(&self, at: &SocketAddr) -> Option<Port> {
        let address = self.returns(at.is_ipv6()).position(|ip| ip == at.ip())?;
        Some(Port { address: address as u16, port: at.port() })
    }
}

/// `struct tuple4` or `struct tuple`, the key of a flow.
pub(crate) trait Tuple: Pod + PartialEq {
    /// The table of responses.
    const BACK: &str;
    /// The table of the client's packets.
    const FORWARD: &str;

    /// Where packets of the flow go.
    fn destination(&self) -> SocketAddr;

    /// The key of the other direction.
    fn peer(nat: &Nat) -> Self;
}

pub(crate) type Tuple4 = [u8; 16];
pub(crate) type Tuple6 = [u8; 40];

impl Tuple for Tuple4 {
    const BACK: &str = "nat_return4";
    const FORWARD: &str = "nat_forward4";

    fn destination(&self) -> SocketAddr {
        let [_, _, _, _, a, b, c, d, _, _, high, low, ..] = *self;
        SocketAddr::from(([a, b, c, d], u16::from_be_bytes([high, low])))
    }

    fn peer(nat: &Nat) -> Self {
        let tuple = Tuple6::peer(nat);
        let mut key = [0; 16];
        key[..4].copy_from_slice(&tuple[..4]);
        key[4..8].copy_from_slice(&tuple[16..20]);
        key[8..].copy_from_slice(&tuple[32..]);
        key
    }
}

impl Tuple for Tuple6 {
    const BACK: &str = "nat_return6";
    const FORWARD: &str = "nat_forward6";

    fn destination(&self) -> SocketAddr {
        let mut ip = [0; 16];
        ip.copy_from_slice(&self[16..32]);
        SocketAddr::from((ip, u16::from_be_bytes([self[34], self[35]])))
    }

    fn peer(nat: &Nat) -> Self {
        let mut key = [0; 40];
        key.copy_from_slice(&nat.0[64..]);
        key
    }
}

/// `struct nat`: one direction of a NAT connection.
pub(crate) struct Nat(pub(crate) [u8; NAT]);

/// Size in bytes.
pub(crate) const NAT: usize = 104;

impl Nat {
    pub(crate) fn server(&self) -> u16 {
        u16::from_ne_bytes([self.0[42], self.0[43]])
    }

    pub(crate) fn service(&self) -> u16 {
        u16::from_ne_bytes([self.0[46], self.0[47]])
    }

    /// Whether nothing in this direction has closed it.
    pub(crate) fn is_open(&self) -> bool {
        self.0[44] == 0
    }

    pub(crate) fn seen(&self) -> Direction {
        let mut last = [0; 8];
        last.copy_from_slice(&self.0[48..56]);
        let closing = self.0[44];
        Direction {
            last: Instant::from_nanos(u64::from_ne_bytes(last)),
            has_fin: closing & 1 != 0,
            has_rst: closing & 2 != 0,
        }
    }
}
