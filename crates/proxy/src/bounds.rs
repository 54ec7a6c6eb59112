//! The most that clients can make a proxy hold at a time, as its configuration limits it.
//!
//! All of it is an upper bound: memory is taken when bytes come and given back when they have
//! gone, so that a proxy in use holds far less.

use loadline_core::{
    fleet::{Fleet, HttpVersion, Listener},
    units::Bytes,
};

use crate::{buffer::BUFFER_BYTES, http2::SEND_BYTES};

/// The most that clients can make a proxy hold at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Their connections, through all listeners.
    pub connections: u64,
    /// Memory of so many connections while they wait for requests.
    pub idle: Bytes,
    /// Memory where each of them has as much under way as it may.
    pub full: Bytes,
    /// Descriptors: one for each client, and one for a server of each.
    pub descriptors: u64,
}

impl Bounds {
    /// The bounds of a fleet. Where fewer connections are allowed in all than its listeners would
    /// take, the dearest ones count.
    #[must_use]
    pub fn of(fleet: &Fleet) -> Self {
        let mut left = u64::from(fleet.edge.max_connections.unwrap_or(u32::MAX));
        let mut costs: Vec<Cost> = fleet.listeners.iter().map(Cost::of).collect();
        costs.sort_by_key(|cost| std::cmp::Reverse(cost.full));
        let (mut connections, mut idle, mut full) = (0_u64, 0_u64, 0_u64);
        for cost in costs {
            let taken = cost.connections.min(left);
            left -= taken;
            connections += taken;
            idle = idle.saturating_add(taken.saturating_mul(cost.idle));
            full = full.saturating_add(taken.saturating_mul(cost.full));
        }
        let descriptors = 2 * connections;
        Self { connections, idle: Bytes::new(idle), full: Bytes::new(full), descriptors }
    }
}

/// What one connection of a listener can cost, in bytes.
struct Cost {
    connections: u64,
    idle: u64,
    full: u64,
}

impl Cost {
    fn of(listener: &Listener) -> Self {
        let tls = if listener.protocol.ends_tls() { TLS_FULL } else { 0 };
        let idle = if listener.protocol.ends_tls() { TLS_IDLE } else { IDLE };
        let head = listener.limits.size.get();
        // What the client sends and what its server sends, and a head as it came and as it goes.
        let buffer = (BUFFER_BYTES as u64).max(head);
        let one = IDLE + 2 * buffer + 2 * head;
        let full = if speaks_http2(listener) { http2(listener, one) } else { one };
        Self { connections: listener.max_connections.into(), idle, full: full + tls }
    }
}

fn speaks_http2(listener: &Listener) -> bool {
    listener.protocol.is_http() && listener.http_version != Some(HttpVersion::Http11)
}

/// The window that bodies fill, and for each stream what one request costs and what waits for the
/// client.
fn http2(listener: &Listener, one: u64) -> u64 {
    let limits = &listener.http2;
    limits.connection_window.get() + u64::from(limits.streams) * (one + SEND_BYTES as u64)
}

/// A connection that waits for a request; 760 B were measured (`loadline-bench run --only idle`).
const IDLE: u64 = 1_000;

/// The same with TLS 1.3; 8.7 kB were measured.
const TLS_IDLE: u64 = 12_000;

/// What rustls holds at most of records that come and go: 64 KiB each way and one record of either.
const TLS_FULL: u64 = TLS_IDLE + 2 * (64 << 10) + 2 * (16 << 10);

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use loadline_core::fleet::{Edge, Forwarding, Protocol};

    use super::*;

    fn fleet(listeners: &[(u32, Protocol)], max_connections: Option<u32>) -> Fleet {
        let listener = |(max_connections, protocol): &(u32, Protocol)| Listener {
            max_connections: *max_connections,
            protocol: *protocol,
            http_version: Some(HttpVersion::Http11),
            ..Listener::new(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), 0)
        };
        let edge = Edge { max_connections, ..Edge::within("here") };
        Fleet {
            edge,
            forwarding: Forwarding::default(),
            listeners: listeners.iter().map(listener).collect(),
            services: vec![],
        }
    }

    #[test]
    fn listeners_add_up() {
        let both = [(100, Protocol::Http), (10, Protocol::Https)];
        let bounds = Bounds::of(&fleet(&both, None));
        assert_eq!((bounds.connections, bounds.descriptors), (110, 220));
        assert_eq!(bounds.idle.get(), 100 * 1_000 + 10 * 12_000);
        let one = 1_000 + 2 * (128 << 10) + 2 * (16 << 10);
        assert_eq!(bounds.full.get(), 110 * one + 10 * TLS_FULL);
    }

    #[test]
    fn of_fewer_in_all_the_dearest_count() {
        let both = [(100, Protocol::Http), (10, Protocol::Https)];
        let bounds = Bounds::of(&fleet(&both, Some(15)));
        assert_eq!((bounds.connections, bounds.idle.get()), (15, 5 * 1_000 + 10 * 12_000));
    }

    #[test]
    fn each_stream_costs_what_a_request_does() {
        let mut many = fleet(&[(1, Protocol::Http)], None);
        let one = Bounds::of(&many).full.get();
        many.listeners[0].http_version = None;
        assert_eq!(Bounds::of(&many).full.get(), (1 << 20) + 100 * (one + (64 << 10)));
    }
}
