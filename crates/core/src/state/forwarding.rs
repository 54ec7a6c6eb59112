//! Counters of packet forwarding, as plain data.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    format,
    string::{String, ToString},
    vec::Vec,
};
use core::{
    fmt,
    net::{IpAddr, SocketAddr},
    str::FromStr,
};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::words::number;
use crate::fleet::{Fleet, Listener, PolicyKind, forwarding::Method};

/// State of packet forwarding, with counters since it was started.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Forwarding {
    /// Network interface.
    pub interface: String,
    /// Mode of attachment: `native`, `generic` or `tcx`; `detached` once the interface was deleted.
    pub mode: String,
    /// Received frames by verdict.
    pub verdicts: BTreeMap<String, Traffic>,
    /// TCP connections opened, retransmitted first packets included.
    pub opened: u64,
    /// Rates between the last two measurements.
    pub rates: ForwardingRates,
    /// Addresses whose packets are forwarded.
    pub frontends: Vec<Frontend>,
    /// Servers that get packets, including those that are leaving.
    pub servers: Vec<ForwardedServer>,
    /// Tables of the flows that are remembered while servers change, for IPv4 and IPv6.
    #[serde(default)]
    pub flow_tables: Vec<FlowTable>,
}

/// Packets and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Traffic {
    /// Packets.
    pub packets: u64,
    /// Bytes of the frames.
    pub bytes: u64,
}

/// Rates of packet forwarding between two measurements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ForwardingRates {
    /// Packets forwarded per second.
    pub packets_per_s: f64,
    /// Kilobytes (1000 bytes) of frames forwarded per second.
    pub kilobytes_per_s: f64,
    /// TCP connections opened per second.
    pub connections_per_s: f64,
}

/// An address whose packets are forwarded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Frontend {
    /// Address and port.
    pub address: String,
    /// `tcp` or `udp`.
    pub protocol: String,
    /// `mac`, `nat` or `ipip`.
    pub method: String,
    /// Name of the service.
    pub service: String,
}

/// A table of flows that are remembered while servers change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FlowTable {
    /// `ipv4` or `ipv6`.
    pub family: String,
    /// Flows at the last count; they are counted while servers change. Null on a standby balancer.
    pub flows: Option<u64>,
    /// Maximum number of flows: `max_flows`.
    pub max_flows: u64,
}

/// A server that gets forwarded packets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ForwardedServer {
    /// Address of the server, with its port for `nat`.
    pub address: String,
    /// Service of the server; null for `nat`, where services share servers.
    pub service: Option<String>,
    /// `mac`, `nat` or `ipip`; null if the service was removed.
    pub method: Option<String>,
    /// Number of the server in the tables.
    pub number: u16,
    /// MAC address of the next hop; null until it is known.
    pub link: Option<String>,
    /// `up`, `down` or `leaving`.
    pub condition: String,
    /// Packets sent to the server.
    pub packets: u64,
    /// Bytes of IP packets sent to the server.
    pub bytes: u64,
    /// TCP connections opened, retransmitted first packets included.
    pub opened: u64,
    /// FIN and RST packets from clients.
    pub closed: u64,
    /// Free ports of return addresses towards the server; null without `nat`.
    pub free_ports: Option<u64>,
}

impl Forwarding {
    /// The mode of what is not attached.
    pub const DETACHED: &str = "detached";

    /// Whether packets on the interface are forwarded.
    #[must_use]
    pub fn is_attached(&self) -> bool {
        self.mode != Self::DETACHED
    }

    /// What is forwarded now, in words.
    #[must_use]
    pub fn sentence(&self) -> String {
        if !self.is_attached() {
            return format!("forwarding: {} was deleted", self.interface);
        }
        let ForwardingRates { packets_per_s, connections_per_s, .. } = self.rates;
        let [packets, connections] = [packets_per_s, connections_per_s].map(number);
        format!("forwarding: {packets} packets/s, {connections} connections/s")
    }

    /// That packets of a service are forwarded, in words; none where they are not.
    #[must_use]
    pub fn service_sentence(&self, service: &str) -> Option<String> {
        let frontends = self.frontends.iter().filter(|it| it.service == service);
        let methods: BTreeSet<&str> = frontends.map(|it| &*it.method).collect();
        let methods = Vec::from_iter(methods).join(" and ");
        let said = "are not counted here: loadline l4 report tells of them";
        (!methods.is_empty()).then(|| format!("Packets that go on by {methods} {said}."))
    }

    /// Frames with a verdict that begins with these letters: `send`, `pass`, `drop`.
    #[must_use]
    pub fn sum(&self, kind: &str) -> Traffic {
        let some = self.verdicts.iter().filter(|(name, _)| name.starts_with(kind));
        some.fold(Traffic::default(), |sum, (_, more)| Traffic {
            packets: sum.packets + more.packets,
            bytes: sum.bytes + more.bytes,
        })
    }

    /// Fills in the rates by comparing with an earlier look.
    pub(super) fn measure(&mut self, before: Option<&Self>, seconds: f64) {
        let none = Self::default();
        let before = before.unwrap_or(&none);
        let (now, then) = (self.sum("send"), before.sum("send"));
        let rate = |now, then| super::measure::rate(now, then, seconds);
        self.rates = ForwardingRates {
            packets_per_s: rate(now.packets, then.packets),
            kilobytes_per_s: rate(now.bytes, then.bytes) / 1e3,
            connections_per_s: rate(self.opened, before.opened),
        };
    }
}

/// The policy that a service at this place of the file goes by. Packets go by a ring, whatever the
/// file says for requests, unless its weights are managed.
pub(super) fn policy_of(fleet: &Fleet, service: usize) -> PolicyKind {
    let policy = fleet.services.get(service).map_or(PolicyKind::DEFAULT, |it| it.policy);
    let sends = |it: &Listener| {
        let mut named = it.names.services().chain(it.routes.services());
        it.service == service && !it.routes_only || named.any(|named| named == service)
    };
    let mut frontends = fleet.forwarding.frontends.iter();
    let is_forwarded = frontends.any(|it| it.service == service);
    if policy == PolicyKind::Managed || !is_forwarded || fleet.listeners.iter().any(sends) {
        return policy;
    }
    PolicyKind::Maglev
}

/// A remembered flow or NAT connection.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Flow {
    /// Address and port of the client.
    pub client: String,
    /// Address and port that the client connects to.
    pub frontend: String,
    /// `tcp` or `udp`.
    pub protocol: String,
    /// Name of the service; empty if the service was removed.
    pub service: String,
    /// `mac`, `nat` or `ipip`; empty if the service was removed.
    pub method: String,
    /// Address of the server.
    pub server: String,
    /// Source address and port that the server sees (`nat`); absent otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lent: Option<String>,
    /// Whether the NAT connection has ended and only keeps its port for `fin_timeout`.
    pub closed: bool,
    /// Seconds since the last packet, to about a second.
    pub idle_s: f64,
}

/// Filter of flows; all flows if empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct FlowFilter {
    /// Client: an address, or an address and a port.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub client: Option<FlowEnd>,
    /// Server: an address, or an address and a port.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub server: Option<FlowEnd>,
    /// The name of a service.
    pub service: Option<String>,
    /// `mac`, `nat` or `ipip`.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub method: Option<Method>,
    /// Maximum number of flows.
    pub limit: Option<usize>,
}

impl FlowFilter {
    /// Whether this is one of those that are wanted.
    #[must_use]
    pub fn wants(&self, flow: &Flow) -> bool {
        let place = |wanted: Option<FlowEnd>, place: &str| {
            wanted.is_none_or(|wanted| place.parse().is_ok_and(|place| wanted.fits(place)))
        };
        place(self.client, &flow.client)
            && place(self.server, &flow.server)
            && self.service.as_ref().is_none_or(|wanted| *wanted == flow.service)
            && self.method.is_none_or(|wanted| wanted.name() == flow.method)
    }
}

/// One end of flows: an address, with a port or at any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FlowEnd {
    ip: IpAddr,
    port: Option<u16>,
}

/// What is no end of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("no address: write 10.0.3.7 or fd00::7, with a port 10.0.3.7:80 or [fd00::7]:80")]
pub struct FlowEndError;

impl FlowEnd {
    /// Whether both are of one address, and of one port where both have one.
    fn fits(self, other: Self) -> bool {
        let same_port = self.port.zip(other.port).is_none_or(|(one, other)| one == other);
        self.ip == other.ip && same_port
    }
}

impl FromStr for FlowEnd {
    type Err = FlowEndError;

    fn from_str(text: &str) -> Result<Self, FlowEndError> {
        let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
        let at = text.parse().map(|at: SocketAddr| (at.ip(), Some(at.port())));
        let alone = |ip: IpAddr| (ip, None);
        let (ip, port) =
            at.or_else(|_| bare.unwrap_or(text).parse().map(alone)).map_err(|_| FlowEndError)?;
        Ok(Self { ip: ip.to_canonical(), port })
    }
}

impl fmt::Display for FlowEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => write!(f, "{}", SocketAddr::new(self.ip, port)),
            None => write!(f, "{}", self.ip),
        }
    }
}

impl TryFrom<String> for FlowEnd {
    type Error = FlowEndError;

    fn try_from(text: String) -> Result<Self, FlowEndError> {
        text.parse()
    }
}

impl From<FlowEnd> for String {
    fn from(end: FlowEnd) -> Self {
        end.to_string()
    }
}

#[cfg(test)]
mod tests {
    use alloc::borrow::ToOwned;

    use super::*;

    #[test]
    fn flows_are_wanted_by_address_with_or_without_a_port() {
        let flow = Flow {
            client: "[fd00::7]:5000".to_owned(),
            server: "10.0.0.1".to_owned(),
            service: "web".to_owned(),
            method: "mac".to_owned(),
            ..Flow::default()
        };
        let by = |client: &str, server: &str| FlowFilter {
            client: Some(client.parse().unwrap()),
            server: Some(server.parse().unwrap()),
            ..FlowFilter::default()
        };
        assert!(FlowFilter::default().wants(&flow));
        assert!(by("fd00::7", "10.0.0.1").wants(&flow));
        assert!(by("[fd00::7]:5000", "10.0.0.1:80").wants(&flow));
        assert!(by("[fd00::7]", "::ffff:10.0.0.1").wants(&flow));
        assert!(!by("[fd00::7]:5001", "10.0.0.1").wants(&flow));
        assert!(!by("fd00::7", "10.0.0.2").wants(&flow));
        let service = FlowFilter { service: Some("api".to_owned()), ..FlowFilter::default() };
        assert!(!service.wants(&flow));
        let wanted = |method| FlowFilter { method: Some(method), ..FlowFilter::default() };
        assert!(wanted(Method::Mac).wants(&flow) && !wanted(Method::Nat).wants(&flow));
    }

    #[test]
    fn what_is_no_end_of_a_flow_is_no_filter() {
        for wrong in ["", "foo", "10.0.0.21:99999", "10.0.0.0/24", "[fd00::1", "fd00::1]:80"] {
            assert_eq!(wrong.parse::<FlowEnd>(), Err(FlowEndError), "{wrong}");
        }
    }

    #[test]
    fn what_is_forwarded_is_said_of_the_edge_and_of_each_service() {
        let frontend = |method: &str| Frontend {
            method: method.to_owned(),
            service: "web".to_owned(),
            ..Frontend::default()
        };
        let mut of = Forwarding {
            interface: "eth0".to_owned(),
            frontends: ["nat", "mac", "nat"].map(frontend).into(),
            ..Forwarding::default()
        };
        of.rates.packets_per_s = 25.0;
        assert_eq!(of.sentence(), "forwarding: 25 packets/s, 0 connections/s");
        let told = "Packets that go on by mac and nat are not counted here: loadline l4 report \
                    tells of them.";
        assert_eq!(of.service_sentence("web").as_deref(), Some(told));
        assert_eq!(of.service_sentence("api"), None);
        of.mode = Forwarding::DETACHED.to_owned();
        assert_eq!(of.sentence(), "forwarding: eth0 was deleted");
    }

    #[test]
    fn rates_are_of_what_was_forwarded() {
        let traffic = |packets, bytes| Traffic { packets, bytes };
        let verdicts = [
            ("send-mac".to_owned(), traffic(30, 3_000)),
            ("send-nat".to_owned(), traffic(10, 1_000)),
            ("drop-no-server".to_owned(), traffic(5, 500)),
        ];
        let mut now = Forwarding { verdicts: verdicts.into(), opened: 8, ..Forwarding::default() };
        now.measure(None, 2.0);
        let ForwardingRates { packets_per_s, kilobytes_per_s, connections_per_s } = now.rates;
        assert!((packets_per_s - 20.0).abs() < 1e-9 && (kilobytes_per_s - 2.0).abs() < 1e-9);
        assert!((connections_per_s - 4.0).abs() < 1e-9);
        assert_eq!(now.sum("drop"), traffic(5, 500));
    }
}
