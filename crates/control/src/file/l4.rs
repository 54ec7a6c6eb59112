//! Packet forwarding in the file.

use loadline_core::fleet::{
    Protocol,
    forwarding::{Method, XdpMode},
};
use loadline_spanned::{At, Key, Text};
use schemars::JsonSchema;
use serde::Deserialize;

use super::Standby;
use crate::value::{
    link::{HostIp, Interface},
    number::Whole,
    word::Word,
};

/// What is done with what comes in at a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forward {
    Proxy,
    By(Method),
}

/// What is spoken at a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spoken {
    Proxied(Protocol),
    Udp,
}

/// Packet forwarding by the kernel (XDP or TCX), for listeners with `forward`. It needs CAP_BPF,
/// CAP_NET_ADMIN and CAP_PERFMON, or root, at the start. A change needs a restart.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[schemars(extend("required" = ["interface"]))]
pub(crate) struct L4 {
    /// The network interface on which packets come in and leave. It has the service addresses and
    /// the return addresses.
    pub(crate) interface: Key<Text<Interface>>,
    /// How the XDP or TCX program is attached to the interface.
    #[schemars(extend("default" = "auto"))]
    pub(crate) xdp_mode: Key<Text<Word<XdpMode>>>,
    /// Source addresses of `nat` connections to servers, at most 16 of IPv4 and 16 of IPv6.
    /// Responses come back to them, so nothing else may use these addresses.
    pub(crate) return_addresses: Key<Vec<At<Text<HostIp>>>>,
    /// The first source port of `nat` connections at each return address.
    #[schemars(extend("default" = 1024))]
    pub(crate) first_port: Key<Whole<1, 65_535>>,
    /// Number of source ports of each return address, from `first_port` on. To each server there
    /// are at most so many connections for each return address, including those that ended less
    /// than `fin_timeout` ago. Default: all ports up to 65535.
    #[schemars(extend("default" = 64512))]
    pub(crate) ports: Key<Whole<1, 65_535>>,
    /// Source addresses of `ipip` tunnels, at most one of IPv4 and one of IPv6. Default: those that
    /// the kernel selects towards the servers.
    pub(crate) tunnel_addresses: Key<Vec<At<Text<HostIp>>>>,
    /// Maximum size of IP packets on the networks to the servers, in bytes. With `ipip`, packets of
    /// clients have to be 20 bytes smaller, 40 with IPv6: lower the MTU or the MSS of the servers.
    #[schemars(extend("default" = 1500))]
    pub(crate) mtu: Key<Whole<576, 65_535>>,
    /// Maximum number of services; each takes half a megabyte of memory. A service counts once for
    /// each `forward` method, and once for IPv4 and for IPv6. For each IP version there is room for
    /// 8 times as many addresses with ports, and for 1024 at least.
    #[schemars(extend("default" = 16))]
    pub(crate) max_services: Key<Whole<1, 1024>>,
    /// Maximum number of servers of all services, draining ones included. With `mac` and `ipip` a
    /// server counts once for each service, as `max_services` counts services.
    #[schemars(extend("default" = 4096))]
    pub(crate) max_servers: Key<Whole<1, 32_767>>,
    /// Maximum number of servers with `nat`; each takes 4 bytes for every port of every return
    /// address.
    #[schemars(extend("default" = 64))]
    pub(crate) max_nat_servers: Key<Whole<1, 32_767>>,
    /// Maximum number of flows that are remembered while servers change, for IPv4 and IPv6 each;
    /// about 100 bytes each.
    #[schemars(extend("default" = 262144))]
    pub(crate) max_flows: Key<Whole<1, 16_777_216>>,
    /// Maximum number of `nat` connections at a time, for IPv4 and IPv6 each; about 350 bytes each.
    #[schemars(extend("default" = 131072))]
    pub(crate) max_nat_connections: Key<Whole<1, 16_777_216>>,
    /// Standby balancers, which know every connection of the active one and take over when it
    /// fails: see `docs/standby.md`. Off if omitted.
    pub(crate) standby: Key<Standby>,
}
