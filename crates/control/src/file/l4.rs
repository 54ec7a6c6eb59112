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
    /// The interface on which packets come in and leave. It has the service addresses and the
    /// return addresses.
    pub(crate) interface: Key<Text<Interface>>,
    /// How the program is attached to it.
    #[schemars(extend("default" = "auto"))]
    pub(crate) xdp_mode: Key<Text<Word<XdpMode>>>,
    /// Source addresses of `nat` connections to servers, at most 16 of each family. Responses come
    /// back to them, so nothing else may use them.
    pub(crate) return_addresses: Key<Vec<At<Text<HostIp>>>>,
    /// The first port of each return address.
    #[schemars(extend("default" = 1024))]
    pub(crate) first_port: Key<Whole<1, 65_535>>,
    /// Ports of each return address, from `first_port` on: it allows as many connections to each
    /// server at a time, `fin_timeout` after their end included. Default: all up to 65535.
    #[schemars(extend("default" = 64512))]
    pub(crate) ports: Key<Whole<1, 65_535>>,
    /// Our addresses in the outer header of `ipip`, one of each family. Default: those that the
    /// kernel selects towards the servers.
    pub(crate) tunnel_addresses: Key<Vec<At<Text<HostIp>>>>,
    /// Maximum size of IP packets on the networks to the servers, in bytes. With `ipip`, packets of
    /// clients may have 20 bytes less, 40 with IPv6: lower the MTU or the MSS of the servers.
    #[schemars(extend("default" = 1500))]
    pub(crate) mtu: Key<Whole<576, 65_535>>,
    /// Maximum number of services, half a megabyte each; a service counts once for each method and
    /// family it is reached by. In each family there is room for 8 addresses and ports for each,
    /// and for 1024 at least.
    #[schemars(extend("default" = 16))]
    pub(crate) max_services: Key<Whole<1, 1024>>,
    /// Maximum number of servers over all services, draining ones included. With `mac` and `ipip` a
    /// server counts once for each service it is in, and there as `max_services` counts.
    #[schemars(extend("default" = 4096))]
    pub(crate) max_servers: Key<Whole<1, 32_767>>,
    /// The same for servers of `nat`; each takes 4 bytes for every port of every return address.
    #[schemars(extend("default" = 64))]
    pub(crate) max_nat_servers: Key<Whole<1, 32_767>>,
    /// Maximum number of flows of one family that are remembered while servers change, about 100
    /// bytes each.
    #[schemars(extend("default" = 262144))]
    pub(crate) max_flows: Key<Whole<1, 16_777_216>>,
    /// Maximum number of `nat` connections of one family at a time, about 350 bytes each.
    #[schemars(extend("default" = 131072))]
    pub(crate) max_nat_connections: Key<Whole<1, 16_777_216>>,
    /// Other balancers that know every connection of the active one and take over when it fails:
    /// `docs/standby.md`. If omitted, there is no standby.
    pub(crate) standby: Key<Standby>,
}
