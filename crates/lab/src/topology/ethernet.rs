//! Hosts on one Ethernet: they reach each other by link addresses, without a router between.
//!
//! Hosts whose addresses there are of one network share a switch.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

use super::{Topology, is_of_one_host};

/// An address of an interface, and how long the prefix is that its network has in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterfaceAddress {
    /// IPv4 or IPv6 address.
    pub address: IpAddr,
    /// Bits of it that are those of the network.
    pub prefix: u8,
}

/// Why hosts cannot be on an Ethernet so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EthernetError {
    /// Not an address of a host in a network.
    #[error(
        "`{text}` is no address on an Ethernet; write that of one host with the length of its \
         network's prefix, like 10.1.0.1/24"
    )]
    Address {
        /// What it is.
        text: String,
    },
    /// Nobody else is there.
    #[error(
        "host `{host}` is alone on the Ethernet {network}; give another host an address of that \
         network"
    )]
    Alone {
        /// The host's name.
        host: String,
        /// Address and prefix of the Ethernet.
        network: InterfaceAddress,
    },
    /// Two hosts have one address.
    #[error(
        "hosts `{host}` and `{other}` have the address {address} on their Ethernet; give each one \
         of its own"
    )]
    Twice {
        /// One host's name.
        host: String,
        /// The other's.
        other: String,
        /// Address that both have.
        address: IpAddr,
    },
    /// One network is a part of another.
    #[error(
        "the Ethernets {network} of host `{host}` and {other_network} of host `{other}` overlap; \
         write one prefix for hosts of one Ethernet, and other networks for others"
    )]
    Overlap {
        /// One host's name.
        host: String,
        /// Address and prefix of the one.
        network: InterfaceAddress,
        /// The other's name.
        other: String,
        /// Address and prefix of the other.
        other_network: InterfaceAddress,
    },
    /// An address would be on both.
    #[error(
        "the Ethernet {network} holds {address}, which host `{host}` has towards the router; \
         choose a network apart"
    )]
    Routed {
        /// The host's name.
        host: String,
        /// Its address.
        address: IpAddr,
        /// Address and prefix of the network.
        network: InterfaceAddress,
    },
}

impl InterfaceAddress {
    /// An address without a network around it.
    #[must_use]
    pub const fn alone(address: IpAddr) -> Self {
        Self { address, prefix: if address.is_ipv4() { 32 } else { 128 } }
    }

    /// The network, as its first address.
    #[must_use]
    pub fn network(self) -> Self {
        let address = match self.address {
            IpAddr::V4(v4) => {
                let host = u32::MAX.checked_shr(self.prefix.into()).unwrap_or(0);
                Ipv4Addr::from_bits(v4.to_bits() & !host).into()
            }
            IpAddr::V6(v6) => {
                let host = u128::MAX.checked_shr(self.prefix.into()).unwrap_or(0);
                Ipv6Addr::from_bits(v6.to_bits() & !host).into()
            }
        };
        Self { address, ..self }
    }

    /// Whether the address is of this network.
    #[must_use]
    pub fn holds(self, address: IpAddr) -> bool {
        address.is_ipv4() == self.address.is_ipv4()
            && Self { address, ..self }.network() == self.network()
    }

    /// Whether a host can have it: the first and the last address of a network are nobody's.
    fn is_of_a_host(self) -> bool {
        let shortest = if self.address.is_ipv4() { 8 } else { 48 };
        let longest = if self.address.is_ipv4() { 30 } else { 126 };
        let last = match self.address {
            IpAddr::V4(v4) => {
                v4.to_bits() | u32::MAX.checked_shr(self.prefix.into()).unwrap_or(0) == v4.to_bits()
            }
            IpAddr::V6(_) => false,
        };
        (shortest..=longest).contains(&self.prefix)
            && is_of_one_host(self.address)
            && self.network() != self
            && !last
    }
}

impl FromStr for InterfaceAddress {
    type Err = EthernetError;

    fn from_str(text: &str) -> Result<Self, EthernetError> {
        let parse = || {
            let (address, prefix) = text.split_once('/')?;
            let parsed = Self { address: address.parse().ok()?, prefix: prefix.parse().ok()? };
            parsed.is_of_a_host().then_some(parsed)
        };
        parse().ok_or_else(|| EthernetError::Address { text: text.to_owned() })
    }
}

impl fmt::Display for InterfaceAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

impl Topology {
    /// Networks that are Ethernets, each with the hosts on it by their places.
    #[must_use]
    pub fn ethernets(&self) -> Vec<(InterfaceAddress, Vec<usize>)> {
        let mut found: Vec<(InterfaceAddress, Vec<usize>)> = Vec::new();
        for (place, host) in self.hosts.iter().enumerate() {
            let Some(network) = host.ethernet.map(InterfaceAddress::network) else { continue };
            match found.iter_mut().find(|(known, _)| *known == network) {
                Some((_, members)) => members.push(place),
                None => found.push((network, vec![place])),
            }
        }
        found
    }

    /// Whether this host can be on an Ethernet as it says, with the other hosts as they are.
    ///
    /// # Errors
    /// The first thing that cannot be, and what would be right.
    pub fn check_ethernet(&self, place: usize) -> Result<(), EthernetError> {
        let Some(host) = self.hosts.get(place) else { return Ok(()) };
        let Some(own) = host.ethernet else { return Ok(()) };
        if !own.is_of_a_host() {
            return Err(EthernetError::Address { text: own.to_string() });
        }
        let (network, name) = (own.network(), || host.name.clone());
        let mut alone = true;
        for (_, other) in self.hosts.iter().enumerate().filter(|(other, _)| *other != place) {
            let Some(theirs) = other.ethernet else { continue };
            let (other, other_network) = (other.name.clone(), theirs.network());
            if theirs.address == own.address {
                return Err(EthernetError::Twice { host: name(), other, address: own.address });
            }
            if network != other_network
                && (network.holds(theirs.address) || other_network.holds(own.address))
            {
                return Err(EthernetError::Overlap { host: name(), network, other, other_network });
            }
            alone &= network != other_network;
        }
        if alone {
            return Err(EthernetError::Alone { host: name(), network });
        }
        let routed = |host: &super::HostSpec| {
            let found = host.addresses.iter().find(|address| network.holds(**address));
            found.map(|address| (host.name.clone(), *address))
        };
        match self.hosts.iter().find_map(routed) {
            Some((host, address)) => Err(EthernetError::Routed { host, address, network }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::HostSpec;

    /// Hosts `a`, `b`, ... at 10.0.0.1, ..., with these addresses on Ethernets.
    fn hosts(ethernets: &[&str]) -> Topology {
        let host = |(number, text): (u8, &&str)| HostSpec {
            ethernet: Some(text.parse().unwrap()),
            ..HostSpec::new(
                &char::from(b'a' + number).to_string(),
                &[IpAddr::from([10, 0, 0, number + 1])],
            )
        };
        Topology { hosts: (0..).zip(ethernets).map(host).collect(), ..Topology::default() }
    }

    #[test]
    fn hosts_of_one_network_share_an_ethernet() {
        let topology = hosts(&["10.1.0.1/24", "fd00:1::1/64", "10.1.0.2/24", "fd00:1::2/64"]);
        assert_eq!(topology.check(), Ok(()));
        let shared: Vec<_> = topology.ethernets().into_iter().map(|(_, hosts)| hosts).collect();
        assert_eq!(shared, [[0, 2], [1, 3]]);
        assert_eq!(topology.ethernets()[0].0.to_string(), "10.1.0.0/24");
        assert_eq!(topology.ethernets()[1].0.to_string(), "fd00:1::/64");
    }

    #[test]
    fn what_cannot_be_is_told_with_what_would_be_right() {
        let cases: [(&[&str], &str); 4] = [
            (&["10.1.0.1/24"], "give another host an address of that network"),
            (&["10.1.0.1/24", "10.1.0.1/24"], "hosts `a` and `b` have the address 10.1.0.1"),
            (&["10.1.0.1/24", "10.1.0.2/16"], "write one prefix for hosts of one Ethernet"),
            (&["10.0.0.9/24", "10.0.0.8/24"], "holds 10.0.0.1, which host `a` has towards"),
        ];
        for (ethernets, part) in cases {
            let said = hosts(ethernets).check().unwrap_err().to_string();
            assert!(said.contains(part), "`{said}` does not say `{part}`");
        }
        for text in ["10.1.0.1", "10.1.0.1/31", "10.1.0.0/24", "10.1.0.255/24", "::1/64", "/8"] {
            let said = text.parse::<InterfaceAddress>().unwrap_err().to_string();
            assert!(said.contains("like 10.1.0.1/24"), "{said}");
        }
    }
}
