//! Packet forwarding: method, addresses and limits of its tables.

use alloc::{collections::BTreeSet, string::String, vec::Vec};
use core::{
    fmt,
    net::{IpAddr, SocketAddr},
};

use serde::{Deserialize, Serialize};

use super::Standby;
use crate::time::Duration;

/// What the kernel forwards.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Forwarding {
    /// The program and its tables; absent only without frontends.
    pub datapath: Option<Datapath>,
    /// Where packets come in.
    pub frontends: Vec<Frontend>,
    /// Other balancers; none where this is the only one.
    pub standby: Option<Standby>,
}

impl Forwarding {
    /// Whether nothing is forwarded.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.frontends.is_empty()
    }

    /// The service addresses, each once.
    #[must_use]
    pub fn addresses(&self) -> BTreeSet<IpAddr> {
        self.frontends.iter().map(|frontend| frontend.address.ip()).collect()
    }

    /// How a health check of a service reaches a server as its packets do, where that is another
    /// way than to the server's own address. Of several service addresses of its family each `turn`
    /// is another's.
    #[must_use]
    pub fn link(&self, service: usize, server: IpAddr, turn: u16) -> Option<ServerLink> {
        let direct = self.frontends.iter().filter(|it| {
            let is_direct = it.method != Method::Nat && it.service == service;
            is_direct && it.address.is_ipv6() == server.is_ipv6()
        });
        let links = direct.map(|it| ServerLink { method: it.method, service: it.address.ip() });
        let links: BTreeSet<ServerLink> = links.collect();
        let turn = usize::from(turn).checked_rem(links.len())?;
        links.into_iter().nth(turn)
    }

    /// What the active of several balancers has, and nobody else: the service addresses, then the
    /// return addresses.
    #[must_use]
    pub fn moving_addresses(&self) -> Vec<IpAddr> {
        let returns = self.datapath.iter().flat_map(|it| it.return_addresses.iter().copied());
        self.addresses().into_iter().chain(returns).collect()
    }
}

/// An address whose packets are forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frontend {
    /// Address and port, neither of them left open.
    pub address: SocketAddr,
    /// TCP or UDP.
    pub protocol: Protocol,
    /// How packets reach the servers.
    pub method: Method,
    /// Index into [`Fleet::services`](super::Fleet::services).
    pub service: usize,
}

/// To a service address at a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServerLink {
    /// By `mac` or `ipip`.
    pub method: Method,
    /// The service address.
    pub service: IpAddr,
}

/// The program in the kernel and its tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datapath {
    /// The interface on which packets come in and leave.
    pub interface: String,
    /// How the program is attached to the interface.
    pub mode: XdpMode,
    /// From where servers see NAT connections come.
    pub return_addresses: Vec<IpAddr>,
    /// The first port of each return address.
    pub first_port: u16,
    /// How many ports from there.
    pub ports: u16,
    /// Our addresses in the outer header of tunnels, one of each family at most; the kernel is
    /// asked for one if omitted.
    pub tunnel_addresses: Vec<IpAddr>,
    /// The largest IP packet that the networks towards the servers carry, in bytes.
    pub mtu: u32,
    /// Services that the tables have room for.
    pub services: u32,
    /// Servers.
    pub servers: u16,
    /// Servers of NAT.
    pub nat_servers: u16,
    /// Flows of one family that are remembered while servers change.
    pub flows: u32,
    /// NAT connections of one family.
    pub nat_connections: u32,
}

impl Datapath {
    /// On this interface, with the documented defaults.
    #[must_use]
    pub const fn on(interface: String) -> Self {
        Self {
            interface,
            mode: XdpMode::Auto,
            return_addresses: Vec::new(),
            first_port: 1_024,
            ports: u16::MAX - 1_023,
            tunnel_addresses: Vec::new(),
            mtu: 1_500,
            services: 16,
            servers: 4_096,
            nat_servers: 64,
            flows: 262_144,
            nat_connections: 131_072,
        }
    }

    /// Places that the tables have for addresses and ports of one family: one for each of a
    /// service, and one for each address of a service or for responses.
    #[must_use]
    pub const fn places(&self) -> u32 {
        let many = self.services.saturating_mul(8);
        if many < 1_024 { 1_024 } else { many }
    }
}

/// How a program is attached to an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XdpMode {
    /// The first of the others that works; on a veth interface not native.
    #[default]
    Auto,
    /// In the driver.
    Native,
    /// In the network stack.
    Generic,
    /// In traffic control.
    Tcx,
}

/// How packets reach a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// By the server's link address, the packet unchanged. The server is on the same network, has
    /// the service address on its loopback, and answers the client itself.
    Mac = 1,
    /// With addresses and ports rewritten, in both directions.
    Nat = 2,
    /// In an IP-in-IP tunnel to a server on any network, which answers the client itself.
    Ipip = 3,
}

/// What packets of a service speak; the number is that of the IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// TCP.
    Tcp = 6,
    /// UDP.
    Udp = 17,
}

impl Method {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Mac, Self::Nat, Self::Ipip];

    /// The name in the file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mac => "mac",
            Self::Nat => "nat",
            Self::Ipip => "ipip",
        }
    }
}

impl Protocol {
    /// The name in the file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How long a connection is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// Time after its end.
    pub fin: Duration,
    /// Without a packet.
    pub stale: Duration,
}

impl Default for Times {
    /// Those of IBM's load balancer.
    fn default() -> Self {
        Self { fin: Duration::from_secs(30), stale: Duration::from_secs(300) }
    }
}

/// What keeps a client on a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Affinity {
    /// A connection.
    #[default]
    Connection,
    /// A client's address with all its connections, until this long after its last packet.
    Client(Duration),
}

impl Affinity {
    /// Whether a client stays.
    #[must_use]
    pub const fn is_of_client(self) -> bool {
        matches!(self, Self::Client(_))
    }

    /// How long after its last packet it is still to be found on its server, where connections that
    /// are silent for `stale` are over.
    #[must_use]
    pub fn lasts(self, stale: Duration) -> Duration {
        match self {
            Self::Connection => stale,
            Self::Client(time) => stale.max(time),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_of_a_server_take_each_service_address_of_its_family_in_turn() {
        let at = |address: &str, method, service| Frontend {
            address: address.parse().unwrap(),
            protocol: Protocol::Tcp,
            method,
            service,
        };
        let frontends = alloc::vec![
            at("10.0.0.1:80", Method::Nat, 0),
            at("10.0.0.2:80", Method::Mac, 0),
            at("10.0.0.2:443", Method::Mac, 0),
            at("10.0.0.3:80", Method::Ipip, 0),
            at("10.0.0.4:80", Method::Mac, 1),
            at("[fd00::2]:80", Method::Mac, 0),
        ];
        let forwarding = Forwarding { frontends, ..Forwarding::default() };
        let link = |server: &str, turn| forwarding.link(0, server.parse().unwrap(), turn);
        let to =
            |method, service: &str| Some(ServerLink { method, service: service.parse().unwrap() });
        let [mac, ipip] = [to(Method::Mac, "10.0.0.2"), to(Method::Ipip, "10.0.0.3")];
        assert_eq!([0, 1, 2, 3].map(|turn| link("10.0.1.1", turn)), [mac, ipip, mac, ipip]);
        let v6 = to(Method::Mac, "fd00::2");
        assert_eq!([0, 1].map(|turn| link("fd00::1:1", turn)), [v6, v6]);
        assert_eq!(forwarding.link(2, "10.0.1.1".parse().unwrap(), 0), None);
    }

    #[test]
    fn a_client_stays_for_as_long_as_its_connections_at_least() {
        let [short, long] = [5, 9].map(Duration::from_secs);
        assert_eq!(Affinity::Connection.lasts(short), short);
        assert_eq!(Affinity::Client(long).lasts(short), long);
        assert_eq!(Affinity::Client(short).lasts(long), long);
    }
}
