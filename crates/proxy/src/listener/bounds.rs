//! Upper bounds of client connections, and of their memory, by the limits of the configuration.
//!
//! All of it is an upper bound: memory is taken when bytes come and given back when they have
//! gone, so that a proxy in use holds far less.

use loadline_core::{
    fleet::{Fleet, HttpVersion, Listener},
    units::Bytes,
};

use crate::{
    http2::SEND_BYTES, http3::SEND_BYTES as QUIC_SEND_BYTES, io::buffer::BUFFER_BYTES,
    runtime::engine::threads, upstream::prewarm::prewarmed,
};

/// The most that clients can make a proxy hold at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Their connections, through all listeners.
    pub connections: u64,
    /// Memory of so many connections while they wait for requests.
    pub idle: Bytes,
    /// Memory of one request under way, where it can be most.
    pub request: Bytes,
    /// Connections to servers that are kept ready (`prewarm`), by all workers.
    pub ready: u64,
    /// Descriptors: one for each client, one for a server of each, and those that are kept ready.
    pub descriptors: u64,
}

impl Bounds {
    /// The bounds of a fleet. Where fewer connections are allowed in all than its listeners would
    /// take, the dearest ones count.
    #[must_use]
    pub fn of(fleet: &Fleet) -> Self {
        let mut left = u64::from(fleet.edge.max_connections.unwrap_or(u32::MAX));
        let mut listeners: Vec<&Listener> = fleet.listeners.iter().collect();
        listeners.sort_by_key(|listener| std::cmp::Reverse(idle(listener)));
        let (mut connections, mut memory) = (0_u64, 0_u64);
        for listener in &listeners {
            let taken = u64::from(listener.max_connections).min(left);
            left -= taken;
            connections += taken;
            memory = memory.saturating_add(taken.saturating_mul(idle(listener)));
        }
        let request = listeners.iter().map(|listener| request(listener)).max().unwrap_or(0);
        let (idle, request) = (Bytes::new(memory), Bytes::new(request));
        let ready = ready(fleet);
        Self { connections, idle, request, ready, descriptors: 2 * connections + ready }
    }
}

/// Connections that all workers keep ready where every group is given requests.
fn ready(fleet: &Fleet) -> u64 {
    let workers = threads(&fleet.edge) as u64;
    let of_service = |index: usize| -> u64 {
        let service = &fleet.services[index];
        let each = match service.http_version {
            HttpVersion::Http11 => u64::from(service.prewarm),
            HttpVersion::Http2 => 1,
        };
        let servers = service.groups.iter().flat_map(|group| &group.servers);
        let most = servers.map(|server| u64::from(server.max_connections.div_ceil(2)));
        most.map(|most| most.min(each * workers)).sum()
    };
    prewarmed(fleet).into_iter().map(of_service).sum()
}

/// A connection that waits for a request, in bytes.
fn idle(listener: &Listener) -> u64 {
    match listener.protocol.ends_tls() {
        true if listener.serves_http3() => QUIC_IDLE,
        true => TLS_IDLE,
        false => IDLE,
    }
}

/// A request under way: what the client sends and what its server sends, a head as it came and as
/// it goes, what waits for a client of HTTP/2, and what TLS holds of records. HTTP/3 keeps what its
/// client has not acknowledged, and what its server has not taken, instead of the kernel.
fn request(listener: &Listener) -> u64 {
    let head = listener.limits.size.get();
    let both = 2 * (BUFFER_BYTES as u64).max(head) + 2 * head;
    // The buffer has grown by doubling.
    let waiting = if speaks_http2(listener) { 2 * SEND_BYTES as u64 } else { 0 };
    let tls = if listener.protocol.ends_tls() { TLS_RECORDS } else { 0 };
    let upload = listener.http2.window.min(listener.http2.connection_window).get();
    let quic = if listener.serves_http3() { QUIC_SEND_BYTES + upload } else { 0 };
    both + (waiting + tls).max(quic)
}

fn speaks_http2(listener: &Listener) -> bool {
    listener.protocol.is_http() && listener.http_version != Some(HttpVersion::Http11)
}

/// A connection that waits for a request; 760 B were measured (`loadline-bench run --only idle`).
const IDLE: u64 = 1_000;

/// The same with TLS 1.3; 8.7 kB were measured.
const TLS_IDLE: u64 = 12_000;

/// The same of HTTP/3; 49 kB were measured (`cargo bench -p loadline-proxy --bench http3`).
const QUIC_IDLE: u64 = 60_000;

/// What is asked of the kernel for packets of HTTP/3 that wait for a worker: 20 ms at 1.6 Gbit/s.
pub const QUIC_PACKETS: Bytes = Bytes::new(4 << 20);

/// What rustls holds at most of records that come and go: 64 KiB each way and one record of either.
const TLS_RECORDS: u64 = 2 * (64 << 10) + 2 * (16 << 10);

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use loadline_core::fleet::{Edge, Group, Protocol, Server, Service};

    use super::*;

    fn fleet(listeners: &[(u32, Protocol)], max_connections: Option<u32>) -> Fleet {
        let listener = |(max_connections, protocol): &(u32, Protocol)| Listener {
            max_connections: *max_connections,
            protocol: *protocol,
            http3: false,
            http_version: Some(HttpVersion::Http11),
            ..Listener::new(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), 0)
        };
        let edge = Edge { max_connections, ..Edge::within("here") };
        let services = vec![Service::named("web")];
        Fleet::of(edge, listeners.iter().map(listener).collect(), services)
    }

    #[test]
    fn listeners_add_up() {
        let both = [(100, Protocol::Http), (10, Protocol::Https)];
        let bounds = Bounds::of(&fleet(&both, None));
        assert_eq!((bounds.connections, bounds.descriptors), (110, 220));
        assert_eq!(bounds.idle.get(), 100 * 1_000 + 10 * 12_000);
        assert_eq!(bounds.request.get(), 2 * (128 << 10) + 2 * (16 << 10) + TLS_RECORDS);
    }

    #[test]
    fn connections_that_are_kept_ready_by_each_worker_count_up_to_half_of_the_most() {
        let mut one = fleet(&[(100, Protocol::Http)], None);
        one.edge.threads = 4;
        let server = |max_connections| Server {
            max_connections,
            ..Server::at(SocketAddr::from((Ipv4Addr::LOCALHOST, 80)))
        };
        one.services[0].groups = vec![Group::within("here", [1_000, 10].map(server).into())];
        assert_eq!(Bounds::of(&one).descriptors, 200);
        one.services[0].prewarm = 3;
        let bounds = Bounds::of(&one);
        assert_eq!((bounds.ready, bounds.descriptors), (12 + 5, 217));
        one.services[0].http_version = HttpVersion::Http2;
        assert_eq!(Bounds::of(&one).ready, 4 + 4);
    }

    #[test]
    fn of_fewer_in_all_the_dearest_count() {
        let both = [(100, Protocol::Http), (10, Protocol::Https)];
        let bounds = Bounds::of(&fleet(&both, Some(15)));
        assert_eq!((bounds.connections, bounds.idle.get()), (15, 5 * 1_000 + 10 * 12_000));
    }

    #[test]
    fn what_waits_for_a_client_of_http_2_counts() {
        let mut one = fleet(&[(1, Protocol::Http)], None);
        let before = Bounds::of(&one).request.get();
        one.listeners[0].http_version = None;
        assert_eq!(Bounds::of(&one).request.get(), before + (128 << 10));
    }

    #[test]
    fn what_http_3_keeps_of_a_response_and_an_upload_counts() {
        let mut one = fleet(&[(10, Protocol::Https)], None);
        one.listeners[0].http_version = None;
        let without = Bounds::of(&one);
        one.listeners[0].http3 = true;
        let with = Bounds::of(&one);
        assert_eq!(with.idle.get(), 10 * QUIC_IDLE);
        let less = TLS_RECORDS + (128 << 10);
        assert_eq!(with.request.get(), without.request.get() - less + (4 << 20) + (256 << 10));
    }
}
