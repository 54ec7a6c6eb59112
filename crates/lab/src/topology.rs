//! What a lab's network is: hosts with addresses, and one link for each direction between two.
//!
//! A link goes one way, so that two directions may differ; [`LinkSpec::both`] makes a pair. A
//! packet from one host to another passes, in this order:
//!
//! ```text
//! sender's up limit -> loss -> limit of the link -> delay and jitter -> receiver's down limit
//! ```
//!
//! Sizes are those of IP packets: what an Ethernet or a radio adds is not counted.
//!
//! Beside the links hosts can share an Ethernet, which no packet of a link passes.

mod ethernet;

use std::{collections::HashSet, net::IpAddr};

use loadline_core::{
    time::Duration,
    units::{BitRate, Bytes, Ratio},
};

pub use ethernet::{EthernetError, InterfaceAddress};

/// Hosts and the links between them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// At most 256; links name them by their place here.
    pub hosts: Vec<HostSpec>,
    /// At most one for each ordered pair of hosts. Between hosts without one, nothing goes.
    pub links: Vec<LinkSpec>,
    /// What loss, jitter and reordering are drawn from: one seed and one order of packets give
    /// one outcome.
    pub seed: u64,
}

/// One host as the network sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostSpec {
    /// Visible ASCII without blanks, unlike any other host's.
    pub name: String,
    /// IPv4 and IPv6. An address that several hosts have is answered by the one with the shortest
    /// delay from the sender (anycast); of equals, by the first.
    pub addresses: Vec<IpAddr>,
    /// Its address on an Ethernet; hosts whose addresses are of one network share one.
    pub ethernet: Option<InterfaceAddress>,
    /// What the host can send to all others together; no limit if omitted.
    pub up: Option<Limit>,
    /// What the host can receive from all others together; no limit if omitted.
    pub down: Option<Limit>,
}

/// A rate and the queue before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// At least 1 kb/s.
    pub rate: BitRate,
    /// What may wait, the packet under way included; a packet that finds no room is dropped. At
    /// least 2 kB, so that one packet of 1,500 bytes has room.
    pub queue: Bytes,
}

/// The way from one host to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkSpec {
    /// The sender's place in [`Topology::hosts`].
    pub from: usize,
    /// The receiver's place in [`Topology::hosts`].
    pub to: usize,
    /// One way, at most 60 s. Half the round-trip time where both directions are alike.
    pub delay: Duration,
    /// A uniform draw from zero to this is added for each packet. Order is kept all the same.
    pub jitter: Duration,
    /// How much goes at once; no limit if omitted.
    pub limit: Option<Limit>,
    /// The share of packets that never arrive, each drawn alone.
    pub loss: Ratio,
    /// The share of packets held back for a further uniform draw from zero to the jitter, or to
    /// 1 ms where that is longer, while those behind pass them.
    pub reorder: Ratio,
}

/// Why a topology cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TopologyError {
    /// None, or too many.
    #[error("there are {count} hosts; a lab has 1 to {MOST_HOSTS}")]
    HostCount {
        /// How many there are.
        count: usize,
    },
    /// No name, or not one to be printed.
    #[error("a host is called `{name}`; a name is visible ASCII without blanks, like `pop-1`")]
    Name {
        /// Name that several have.
        name: String,
    },
    /// Two hosts are called the same.
    #[error("two hosts are called `{name}`; give each a name of its own")]
    NameTwice {
        /// Name that cannot be one.
        name: String,
    },
    /// An address that no host can have for itself.
    #[error("host `{host}` has the address {address}; use one of a single host, like 10.1.0.1")]
    Address {
        /// The host's name.
        host: String,
        /// Address that is not of a single host.
        address: IpAddr,
    },
    /// One host has an address twice.
    #[error("host `{host}` has the address {address} twice; name it once")]
    AddressTwice {
        /// The host's name.
        host: String,
        /// Address that the host has twice.
        address: IpAddr,
    },
    /// Hosts cannot be on an Ethernet so.
    #[error(transparent)]
    Ethernet(#[from] EthernetError),
    /// A link ends where no host is.
    #[error("a link names host number {host} of {count}; they count from 0")]
    NoSuchHost {
        /// Number of the host, from 0.
        host: usize,
        /// How many hosts there are.
        count: usize,
    },
    /// A link from a host to itself.
    #[error("a link goes from `{host}` to itself; what a host sends itself never leaves it")]
    Loop {
        /// The host's name.
        host: String,
    },
    /// One direction has two links.
    #[error("two links go from `{from}` to `{to}`; describe each direction once")]
    LinkTwice {
        /// The sender's name.
        from: String,
        /// The receiver's name.
        to: String,
    },
    /// A delay or jitter beyond reason.
    #[error("{what} is {span}; at most {LONGEST_DELAY} is possible")]
    Delay {
        /// Name of the delay or jitter.
        what: String,
        /// How long it is.
        span: Duration,
    },
    /// A share above one.
    #[error("{what} is {share}; at most 100% is possible")]
    Share {
        /// Name of the share.
        what: String,
        /// What it is.
        share: Ratio,
    },
    /// A rate at which nothing comes through in reasonable time.
    #[error("the rate of {what} is {rate}; it is at least {LEAST_RATE}, or absent for no limit")]
    Rate {
        /// The link or host with the limit.
        what: String,
        /// What it is.
        rate: BitRate,
    },
    /// A queue without room for a packet.
    #[error("the queue of {what} is {queue}; it is at least {LEAST_QUEUE}, room for one packet")]
    Queue {
        /// The link or host with the limit.
        what: String,
        /// What it is.
        queue: Bytes,
    },
}

impl Topology {
    /// Whether such a network can be.
    ///
    /// # Errors
    /// The first thing that cannot be, and what would be right.
    pub fn check(&self) -> Result<(), TopologyError> {
        let count = self.hosts.len();
        if count == 0 || count > MOST_HOSTS {
            return Err(TopologyError::HostCount { count });
        }
        let mut names = HashSet::new();
        for host in &self.hosts {
            host.check()?;
            if !names.insert(&host.name) {
                return Err(TopologyError::NameTwice { name: host.name.clone() });
            }
        }
        (0..count).try_for_each(|host| self.check_ethernet(host))?;
        let mut pairs = HashSet::new();
        for link in &self.links {
            self.check_link(link)?;
            if !pairs.insert((link.from, link.to)) {
                let [from, to] = [link.from, link.to].map(|host| self.hosts[host].name.clone());
                return Err(TopologyError::LinkTwice { from, to });
            }
        }
        Ok(())
    }

    /// Whether `link` can be between these hosts; another link may be in its place already.
    ///
    /// # Errors
    /// The first thing that cannot be, and what would be right.
    pub fn check_link(&self, link: &LinkSpec) -> Result<(), TopologyError> {
        let name = |host: usize| {
            let none = TopologyError::NoSuchHost { host, count: self.hosts.len() };
            self.hosts.get(host).map(|host| host.name.clone()).ok_or(none)
        };
        let (from, to) = (name(link.from)?, name(link.to)?);
        if link.from == link.to {
            return Err(TopologyError::Loop { host: from });
        }
        link.check(&format!("the link from `{from}` to `{to}`"))
    }

    /// The host of that name, as links name it.
    #[must_use]
    pub fn host(&self, name: &str) -> Option<usize> {
        self.hosts.iter().position(|host| host.name == name)
    }
}

impl HostSpec {
    /// A host without limits.
    #[must_use]
    pub fn new(name: &str, addresses: &[IpAddr]) -> Self {
        Self { name: name.to_owned(), addresses: addresses.to_vec(), ..Self::default() }
    }

    fn check(&self) -> Result<(), TopologyError> {
        if self.name.is_empty() || !self.name.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(TopologyError::Name { name: self.name.clone() });
        }
        let mut seen = HashSet::new();
        for &address in &self.addresses {
            let host = self.name.clone();
            if !is_of_one_host(address) {
                return Err(TopologyError::Address { host, address });
            }
            if !seen.insert(address) {
                return Err(TopologyError::AddressTwice { host, address });
            }
        }
        let check = |limit: Option<Limit>, way| match limit {
            Some(limit) => limit.check(&format!("{way} of host `{}`", self.name)),
            None => Ok(()),
        };
        check(self.up, "the up limit")?;
        check(self.down, "the down limit")
    }
}

impl Limit {
    fn check(self, what: &str) -> Result<(), TopologyError> {
        let what = what.to_owned();
        if self.rate < LEAST_RATE {
            return Err(TopologyError::Rate { what, rate: self.rate });
        }
        if self.queue < LEAST_QUEUE {
            return Err(TopologyError::Queue { what, queue: self.queue });
        }
        Ok(())
    }
}

impl LinkSpec {
    /// A link that does nothing but take its time.
    #[must_use]
    pub const fn new(from: usize, to: usize, delay: Duration) -> Self {
        let jitter = Duration::ZERO;
        Self { from, to, delay, jitter, limit: None, loss: Ratio::ZERO, reorder: Ratio::ZERO }
    }

    /// The same the other way.
    #[must_use]
    pub const fn back(self) -> Self {
        Self { from: self.to, to: self.from, ..self }
    }

    /// This one and the same the other way.
    #[must_use]
    pub const fn both(self) -> [Self; 2] {
        [self, self.back()]
    }

    /// Whether both go from the same host to the same other.
    #[must_use]
    pub fn is_beside(&self, other: &Self) -> bool {
        (self.from, self.to) == (other.from, other.to)
    }

    fn check(&self, name: &str) -> Result<(), TopologyError> {
        for (what, span) in [("delay", self.delay), ("jitter", self.jitter)] {
            if span > LONGEST_DELAY {
                return Err(TopologyError::Delay { what: format!("the {what} of {name}"), span });
            }
        }
        for (what, share) in [("loss", self.loss), ("reordering", self.reorder)] {
            if share > Ratio::ONE {
                return Err(TopologyError::Share { what: format!("the {what} of {name}"), share });
            }
        }
        self.limit.map_or(Ok(()), |limit| limit.check(name))
    }
}

/// Links for every ordered pair of hosts, where host `i` stands at `places[i]` and `delay` tells
/// the one-way delay between two places, also of a place to itself.
#[must_use]
pub fn mesh<P>(places: &[P], delay: impl Fn(&P, &P) -> Duration) -> Vec<LinkSpec> {
    let mut links = Vec::new();
    for (from, here) in places.iter().enumerate() {
        for (to, there) in places.iter().enumerate().filter(|(to, _)| *to != from) {
            links.push(LinkSpec::new(from, to, delay(here, there)));
        }
    }
    links
}

fn is_of_one_host(address: IpAddr) -> bool {
    let special = address.is_unspecified() || address.is_multicast() || address.is_loopback();
    let local = match address {
        IpAddr::V4(v4) => v4.is_broadcast() || v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local() || v6.to_ipv4_mapped().is_some(),
    };
    !special && !local
}

/// Each may have a link to every other; studies have fewer than twenty.
const MOST_HOSTS: usize = 256;

/// Nothing on Earth or around it is further; a slip in a unit is.
const LONGEST_DELAY: Duration = Duration::from_secs(60);

/// A packet of 1,500 bytes then takes 12 s.
const LEAST_RATE: BitRate = BitRate::new(1_000);

const LEAST_QUEUE: Bytes = Bytes::new(2_000);

#[cfg(test)]
mod tests {
    use super::*;

    fn two_hosts() -> Topology {
        let host = |name: &str, address: &str| HostSpec::new(name, &[address.parse().unwrap()]);
        let hosts = vec![host("de", "10.1.0.1"), host("us", "fd00::2")];
        let links = LinkSpec::new(0, 1, Duration::from_millis(55)).both().to_vec();
        Topology { hosts, links, seed: 1 }
    }

    /// What is said of a topology with one thing changed.
    fn said(change: impl FnOnce(&mut Topology)) -> String {
        let mut topology = two_hosts();
        change(&mut topology);
        topology.check().unwrap_err().to_string()
    }

    #[test]
    fn a_right_topology_is_right() {
        assert_eq!(two_hosts().check(), Ok(()));
        assert_eq!(two_hosts().host("us"), Some(1));
    }

    #[test]
    fn what_cannot_be_is_told_with_what_would_be_right() {
        let cases = [
            (said(|t| t.hosts.clear()), "1 to 256"),
            (said(|t| t.hosts[0].name.clear()), "like `pop-1`"),
            (said(|t| t.hosts[0].name = "us".into()), "a name of its own"),
            (said(|t| t.hosts[0].addresses = vec!["224.0.0.1".parse().unwrap()]), "10.1.0.1"),
            (said(|t| t.hosts[0].addresses = vec!["::1".parse().unwrap()]), "single host"),
            (said(|t| t.hosts[1].addresses = vec!["fd00::2".parse().unwrap(); 2]), "once"),
            (said(|t| t.links[0].to = 2), "count from 0"),
            (said(|t| t.links[0].to = 0), "from `de` to itself"),
            (said(|t| t.links[1] = t.links[0]), "two links go from `de` to `us`"),
            (said(|t| t.links[0].delay = Duration::from_secs(61)), "at most 1m"),
            (said(|t| t.links[0].loss = Ratio::percent(101)), "the loss of the link from `de`"),
            (said(|t| t.hosts[0].up = Some(limit(999, 9_000))), "at least 1kb/s"),
            (said(|t| t.links[0].limit = Some(limit(1_000_000, 1_999))), "at least 2kB"),
        ];
        for (said, part) in cases {
            assert!(said.contains(part), "`{said}` does not say `{part}`");
        }
    }

    fn limit(rate: u64, queue: u64) -> Limit {
        Limit { rate: BitRate::new(rate), queue: Bytes::new(queue) }
    }

    #[test]
    fn the_same_address_at_two_hosts_is_anycast() {
        let mut topology = two_hosts();
        topology.hosts[1].addresses = vec!["10.9.9.9".parse().unwrap()];
        topology.hosts[0].addresses.push("10.9.9.9".parse().unwrap());
        assert_eq!(topology.check(), Ok(()));
    }

    #[test]
    fn a_mesh_joins_every_two_hosts_by_the_delay_of_their_places() {
        let places = ["eu", "us", "us"];
        let links = mesh(&places, |a, b| Duration::from_millis(if a == b { 1 } else { 55 }));
        assert_eq!(links.len(), 6);
        let delay = |from, to| links.iter().find(|l| (l.from, l.to) == (from, to)).unwrap().delay;
        assert_eq!(delay(1, 2), Duration::from_millis(1));
        assert_eq!(delay(2, 0), Duration::from_millis(55));
    }
}
