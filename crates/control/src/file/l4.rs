//! Packet forwarding in the file.

use loadline_core::{
    fleet::{Protocol, XdpMode},
    forwarding::Method,
};
use schemars::JsonSchema;
use serde::Deserialize;

use super::Standby;
use crate::{
    place::{At, Key},
    value::{
        link::{HostIp, Interface},
        number::Whole,
        text::Text,
        word::Word,
    },
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

/// Packet forwarding by the kernel (XDP or TCX), for listeners with `forward`. It takes CAP_BPF,
/// CAP_NET_ADMIN and CAP_PERFMON, or root, at the start. A change needs a restart.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[schemars(extend("required" = ["interface"]))]
pub(crate) struct L4 {
    /// The interface on which packets come in, and leave again. It has the service addresses and
    /// the return addresses.
    pub(crate) interface: Key<Text<Interface>>,
    /// How the program is attached to it.
    #[schemars(extend("default" = "auto"))]
    pub(crate) xdp_mode: Key<Text<Word<XdpMode>>>,
    /// From where servers see the connections of `nat` come, at most 16 of each family. Answers
    /// come back to them, so they are for nothing else.
    pub(crate) return_addresses: Key<Vec<At<Text<HostIp>>>>,
    /// The first port of each return address.
    #[schemars(extend("default" = 1024))]
    pub(crate) first_port: Key<Whole<1, 65_535>>,
    /// Ports of each return address, from `first_port` on: so many connections to each server at a
    /// time, `fin_timeout` after their end included. All up to 65535 if omitted.
    #[schemars(extend("default" = 64512))]
    pub(crate) ports: Key<Whole<1, 65_535>>,
    /// Our addresses in the outer header of `ipip`, one of each family. Those that the kernel would
    /// take towards the servers if omitted.
    pub(crate) tunnel_addresses: Key<Vec<At<Text<HostIp>>>>,
    /// The largest IP packet that the networks towards the servers carry, in bytes. With `ipip`
    /// packets of clients may have 20 less, 40 with IPv6: lower the MTU or the MSS of the servers.
    #[schemars(extend("default" = 1500))]
    pub(crate) mtu: Key<Whole<576, 65_535>>,
    /// Services that the tables have room for, half a megabyte each; a service counts once for
    /// each method and family it is reached by.
    #[schemars(extend("default" = 16))]
    pub(crate) max_services: Key<Whole<1, 1024>>,
    /// Servers that the tables have room for, over all services, with those that are about to
    /// leave.
    #[schemars(extend("default" = 4096))]
    pub(crate) max_servers: Key<Whole<1, 32_767>>,
    /// The same for servers of `nat`; each takes 4 bytes for every port of every return address.
    #[schemars(extend("default" = 64))]
    pub(crate) max_nat_servers: Key<Whole<1, 32_767>>,
    /// Flows of one family that are remembered while servers change, about 100 bytes each.
    #[schemars(extend("default" = 262144))]
    pub(crate) max_flows: Key<Whole<1, 16_777_216>>,
    /// Connections of one family that `nat` carries at a time, about 350 bytes each.
    #[schemars(extend("default" = 131072))]
    pub(crate) max_nat_connections: Key<Whole<1, 16_777_216>>,
    /// Other balancers that know every connection of the one that is active, and take over when it
    /// fails: `docs/standby.md`. This is the only one if omitted.
    pub(crate) standby: Key<Standby>,
}
