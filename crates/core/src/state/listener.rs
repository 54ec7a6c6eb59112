//! Client connections of a listener, as plain data.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::{String, ToString},
    vec::Vec,
};

use serde::{Deserialize, Serialize};

use crate::fleet::{self, Protocol};

/// State of a listener, with counters since the start of the process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Listener {
    /// Address of the listener, as in the file.
    pub address: String,
    /// Protocol: `http`, `https`, `tcp`, `tls` or `tls-passthrough`.
    pub protocol: String,
    /// Maximum number of connections.
    pub max_connections: u32,
    /// Maximum number of connections of one client; null without a limit.
    #[serde(default)]
    pub max_connections_per_client: Option<u32>,
    /// Open connections.
    pub open: u64,
    /// Accepted connections.
    pub accepted: u64,
    /// Refused connections by reason: `accept-failed` (mostly no file descriptor left),
    /// `proxy-header` (PROXY header bad, cut or late), `client-limit` (`max_connections_per_client`
    /// reached), `max-connections` (`max_connections` reached, HTTP/3 only).
    pub refused: BTreeMap<String, u64>,
    /// Number of times that accepting stopped because `max_connections` was reached. New
    /// connections then waited in the kernel's backlog.
    pub held: u64,
    /// Completed TLS handshakes.
    pub handshakes: u64,
    /// Failed TLS handshakes: refused by either side, cut or too slow.
    pub handshakes_failed: u64,
    /// Bytes received from clients, TLS and framing included.
    pub received_bytes: u64,
    /// Bytes sent to clients, TLS and framing included.
    pub sent_bytes: u64,
}

impl Listener {
    /// Listeners of which nothing has been counted; of several with the same address the first.
    pub(super) fn all(listeners: &[fleet::Listener]) -> Vec<Self> {
        firsts(listeners, |listener| listener.bind).map(Self::of).collect()
    }

    fn of(listener: &fleet::Listener) -> Self {
        Self {
            address: listener.bind.to_string(),
            protocol: listener.protocol.name().to_string(),
            max_connections: listener.max_connections,
            max_connections_per_client: listener.max_connections_per_client,
            ..Self::default()
        }
    }
}

/// Those that have another key than each before them.
fn firsts<T, K: Ord>(all: &[T], key: impl Fn(&T) -> K) -> impl Iterator<Item = &T> {
    let mut known = BTreeSet::new();
    all.iter().filter(move |it| known.insert(key(it)))
}

impl Protocol {
    /// The name in the file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
            Self::Tcp => "tcp",
            Self::Tls => "tls",
            Self::TlsPassthrough => "tls-passthrough",
        }
    }
}

#[cfg(test)]
mod tests {
    use core::{cell::Cell, cmp::Ordering};

    use super::*;

    /// A key that counts how often it is compared.
    struct Counted<'a>(u32, &'a Cell<u32>);

    impl Ord for Counted<'_> {
        fn cmp(&self, other: &Self) -> Ordering {
            self.1.set(self.1.get() + 1);
            self.0.cmp(&other.0)
        }
    }

    impl PartialOrd for Counted<'_> {
        fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
            Some(self.cmp(other))
        }
    }

    impl PartialEq for Counted<'_> {
        fn eq(&self, other: &Self) -> bool {
            self.cmp(other) == Ordering::Equal
        }
    }

    impl Eq for Counted<'_> {}

    #[test]
    fn of_ten_thousand_listeners_none_is_compared_with_all_others() {
        let compared = Cell::new(0);
        let all: Vec<u32> = (0..10_000).chain([7, 7]).collect();
        let firsts = firsts(&all, |it| Counted(*it, &compared));
        assert!(firsts.copied().eq(0..10_000));
        assert!(compared.get() < 1_000_000, "{} times", compared.get());
    }
}
