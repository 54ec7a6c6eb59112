//! Groups whose servers are discovered.

use alloc::string::String;
use core::{
    fmt,
    net::{IpAddr, SocketAddr},
};

use serde::{Deserialize, Serialize};

use super::Server;

/// How the servers of a group are found out.
#[derive(Clone, Debug, PartialEq)]
pub struct Discovery {
    /// Where they are listed.
    pub source: Source,
    /// Settings of each server beside its address, weight and priority.
    pub template: Server,
}

/// A list of servers that somebody else keeps. Groups with the same source share the list.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Source {
    /// Where it is.
    pub place: ListPlace,
    /// Whether a list without servers is taken; it is mostly a mistake.
    pub allow_empty: bool,
}

/// Where a list of servers is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ListPlace {
    /// A file, by its path.
    File(String),
    /// The addresses of a name (A and AAAA records), each with this port.
    Addresses {
        /// The name.
        name: String,
        /// The port of every server.
        port: u16,
        /// Which addresses count.
        family: Family,
    },
    /// The servers of a service (SRV records), with their ports, priorities and weights.
    Services {
        /// The name, `_http._tcp.web.internal` and the like.
        name: String,
        /// Which addresses of their hosts count.
        family: Family,
    },
}

impl ListPlace {
    /// Whether it is asked of name servers.
    #[must_use]
    pub const fn is_name(&self) -> bool {
        !matches!(self, Self::File(_))
    }

    /// The address that `server` of this list has in the list `other` of the same name; none if it
    /// has no place there, or the names differ.
    pub(crate) fn same_server(&self, other: &Self, server: SocketAddr) -> Option<SocketAddr> {
        let (port, family) = match (self, other) {
            (one, other) if one == other => return Some(server),
            (Self::Addresses { name, .. }, Self::Addresses { name: other, port, family })
                if name == other =>
            {
                (*port, family)
            }
            (Self::Services { name, .. }, Self::Services { name: other, family })
                if name == other =>
            {
                (server.port(), family)
            }
            _ => return None,
        };
        family.counts(server.ip()).then(|| (server.ip(), port).into())
    }
}

/// Which addresses of a name count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// IPv4; IPv6 where there is none, since a host with both is one server.
    #[default]
    PreferV4,
    /// IPv4 alone.
    V4,
    /// IPv6 alone.
    V6,
    /// Both, each a server of its own.
    All,
}

impl Family {
    const fn counts(self, ip: IpAddr) -> bool {
        match self {
            Self::PreferV4 | Self::All => true,
            Self::V4 => ip.is_ipv4(),
            Self::V6 => ip.is_ipv6(),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            ListPlace::File(path) => write!(f, "file {path}"),
            ListPlace::Addresses { name, port, .. } => write!(f, "name {name}, port {port}"),
            ListPlace::Services { name, .. } => write!(f, "SRV records of {name}"),
        }
    }
}
