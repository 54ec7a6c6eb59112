//! One socket of a listener: who reads it, and which connections are taken in.
//!
//! States: *waiting* (somebody has the port, processes before this one hold every generation, the
//! listener wants no HTTP/3 or its TLS cannot; looked at again every second), *serving*, *leaving*
//! (no new connections; those there are end as theirs do).

use std::{
    cell::Cell,
    fmt,
    future::{Future as _, poll_fn},
    io::{self, IoSliceMut},
    mem,
    net::{IpAddr, SocketAddr},
    pin::{Pin, pin},
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, ready},
};

use loadline_core::time::{Duration, Instant};
use quinn::{
    AsyncUdpSocket, ConnectionError, Endpoint, EndpointConfig, Incoming, Runtime as _,
    TokioRuntime, UdpPoller, VarInt,
    udp::{RecvMeta, Transmit},
};
use tokio::task::{spawn_local, yield_now};

use super::{
    config::Config,
    connection::{self, LOOK, canonical},
    first_packets::{FirstPackets, PER_SECOND},
    handshake::{Handshake, Unproven},
    offload::Offload,
    sockets::{Joined, Lease, QuicSockets},
};
use crate::{
    listener::handle::{Acceptor, ListenerHandle},
    runtime::{clock::Clock, timer::Timer, worker::Worker},
    telemetry::meter::Meter,
};

/// A socket of a listener that a worker is to read.
pub(crate) type Slot = (Arc<QuicSockets>, usize);

/// What reads one socket for a worker.
struct SocketReader {
    worker: Rc<Worker>,
    handle: Arc<ListenerHandle>,
    sockets: Arc<QuicSockets>,
    slot: usize,
    timer: Timer,
    /// Connections whose clients have not shown yet that their addresses are their own.
    unproven: Rc<Unproven>,
    /// Connections that were refused for want of a place, and have not been told of.
    refused: Cell<u64>,
}

/// Serves HTTP/3 at one socket beside a listener for as long as it is there.
pub(crate) async fn listen(worker: Rc<Worker>, acceptor: Acceptor, (sockets, slot): Slot) {
    let timer = Timer::here(&worker.timers).await;
    let _wakes = acceptor.wake_at_close().await;
    let handle = acceptor.listener.clone();
    let unproven = Rc::new(Unproven::new());
    let refused = Cell::new(0);
    let reader = SocketReader { worker, handle, sockets, slot, timer, unproven, refused };
    let (mut is_told, mut is_warned) = (slot > 0, slot > 0);
    while !reader.is_leaving() {
        if !reader.is_wanted() {
            if reader.lacks_suite() {
                reader.sockets.unreserve();
                if !mem::replace(&mut is_warned, true) {
                    let address = reader.sockets.address();
                    tracing::warn!(%address, "no HTTP/3: QUIC needs TLS13_AES_128_GCM_SHA256");
                }
            }
            reader.sockets.close_idle();
        } else {
            is_warned = slot > 0;
            match reader.sockets.join(slot) {
                Ok(Some(joined)) => {
                    is_told = slot > 0;
                    reader.serve(joined).await;
                }
                Ok(None) => {}
                Err(error) if !is_told => {
                    is_told = true;
                    let address = reader.sockets.address();
                    tracing::warn!(%address, %error, "no HTTP/3 yet: cannot have its UDP port");
                }
                Err(_) => {}
            }
        }
        reader.pause().await;
    }
}

impl SocketReader {
    /// Takes connections in while they are wanted, and TLS of the listener can be used.
    async fn serve(&self, joined: Joined) {
        let Joined { lease, socket, ids, tokens } = joined;
        let ids = ids.of_server(self.worker.view().plan.fleet.edge.quic_server_id);
        let mut config = Config::new(Arc::new(tokens));
        let Some(first) = self.config(&mut config) else { return };
        let mut settings = EndpointConfig::default();
        settings.cid_generator(move || Box::new(ids));
        let first_packets = Arc::new(FirstPackets::new(socket.clone()));
        let opened = socket.try_clone().and_then(|own| {
            let own = TokioRuntime.wrap_udp_socket(own)?;
            let offload = Offload::new(own.clone(), socket);
            let (first_packets, lease) = (first_packets.clone(), lease.clone());
            let clock = self.worker.shared.clock;
            let leased = Leased { socket: own, offload, first_packets, clock, _lease: lease };
            let socket = Arc::new(leased);
            let config = Some((*first).clone());
            Endpoint::new_with_abstract_socket(settings, config, socket, Arc::new(TokioRuntime))
        });
        let address = self.sockets.address();
        let endpoint = match opened {
            Ok(endpoint) => endpoint,
            Err(error) => {
                tracing::warn!(%address, %error, "no HTTP/3 yet: cannot read its UDP port");
                return;
            }
        };
        if self.slot == 0 {
            tracing::info!(%address, "HTTP/3 is served");
        }
        self.handle.offer_http3(address.port());
        self.take_in_all(&endpoint, (&lease, &first_packets), &mut config).await;
        endpoint.set_server_config(None);
        self.turn_away(&endpoint).await;
        self.sockets.leave(&lease);
        spawn_local(until_idle(self.worker.clone(), self.sockets.clone(), endpoint));
    }

    async fn take_in_all(
        &self,
        endpoint: &Endpoint,
        (lease, first_packets): (&Arc<Lease>, &FirstPackets),
        config: &mut Config,
    ) {
        self.timer.arm(AGAIN);
        let mut told = [None; 2];
        loop {
            let mut accept = pin!(endpoint.accept());
            let next = poll_fn(|cx| {
                if self.is_leaving() {
                    return Poll::Ready(None);
                }
                if self.timer.has_expired() {
                    self.timer.arm(AGAIN);
                    self.tell_dropped(first_packets, &mut told[0]);
                    self.tell_refused(&mut told[1]);
                    if !self.is_wanted() || !self.sockets.is_current(lease) {
                        return Poll::Ready(None);
                    }
                }
                accept.as_mut().poll(cx)
            });
            let Some(incoming) = next.await else { return };
            self.take_in(incoming, config);
            // Each costs as much as several requests, which do not wait for all that have come.
            yield_now().await;
        }
    }

    /// Says once a minute at most that packets are dropped.
    fn tell_dropped(&self, first_packets: &FirstPackets, told: &mut Option<Instant>) {
        let now = self.worker.shared.clock.now();
        first_packets.review(now);
        if told.is_some_and(|told| now < told + TELL_AGAIN) {
            return;
        }
        let dropped = first_packets.take_dropped();
        if dropped > 0 {
            *told = Some(now);
            tracing::warn!(
                address = %self.sockets.address(), dropped,
                "HTTP/3: first packets of new clients dropped: over {PER_SECOND}/s at a worker"
            );
        }
    }

    /// Says once a minute at most that connections are refused.
    fn tell_refused(&self, told: &mut Option<Instant>) {
        let now = self.worker.shared.clock.now();
        if self.refused.get() > 0 && told.is_none_or(|told| now >= told + TELL_AGAIN) {
            *told = Some(now);
            tracing::warn!(
                address = %self.sockets.address(), connections = self.refused.take(),
                "HTTP/3: refused: there are max_connections"
            );
        }
    }

    /// Leaves those who have just come to another process, to which they will try again, or refuses
    /// them where there is none.
    async fn turn_away(&self, endpoint: &Endpoint) {
        let mut accept = pin!(endpoint.accept());
        while let Some(Some(incoming)) = poll_fn(|cx| match accept.as_mut().poll(cx) {
            Poll::Ready(incoming) => Poll::Ready(Some(incoming)),
            Poll::Pending => Poll::Ready(None),
        })
        .await
        {
            if self.worker.has_successor() {
                incoming.ignore();
            } else {
                incoming.refuse();
            }
            accept.set(endpoint.accept());
        }
    }

    fn take_in(&self, incoming: Incoming, config: &mut Config) {
        let Self { worker, handle, .. } = self;
        let Some(max) = worker.max_connections(handle) else { return incoming.refuse() };
        let is_proven = incoming.remote_address_validated();
        if !is_proven && Rc::strong_count(&self.unproven) > UNPROVEN_MAX && incoming.may_retry() {
            // Fails only where a token has been shown.
            let _ = incoming.retry();
            return;
        }
        let Some(config) = self.config(config) else { return incoming.refuse() };
        let Some(pass) = handle.try_enter(max) else {
            self.count_refusal();
            return incoming.refuse();
        };
        let client = canonical(incoming.remote_address());
        let unproven = (!is_proven).then(|| self.unproven.clone());
        match incoming.accept_with(config) {
            Ok(connecting) => {
                spawn_local(connection::serve(worker.clone(), (connecting, unproven), pass));
            }
            Err(error) => self.count_failure(client, unproven, &error),
        }
    }

    /// Counts and logs a connection whose first packet was enough to refuse it.
    #[cold]
    fn count_failure(
        &self,
        client: SocketAddr,
        unproven: Option<Rc<Unproven>>,
        error: &ConnectionError,
    ) {
        let Self { worker, handle, .. } = self;
        let view = worker.view_at(handle);
        let Some(context) = view.listener_context(handle) else { return };
        let meter = Rc::new(Meter::new(&context.cells));
        Handshake::new((worker, handle), &meter, client, unproven).fail(Some(error));
    }

    /// Counts a connection for which the listener has no place. One of TCP waits for it in the
    /// kernel.
    #[cold]
    fn count_refusal(&self) {
        let view = self.worker.view_at(&self.handle);
        if let Some(context) = view.listener_context(&self.handle) {
            context.cells.full.add(1);
            self.refused.set(self.refused.get() + 1);
        }
    }

    /// What connections are made with; none where TLS of the listener cannot be used.
    fn config(&self, config: &mut Config) -> Option<Arc<quinn::ServerConfig>> {
        let view = self.worker.view_at(&self.handle);
        view.listener_context(&self.handle).and_then(|context| config.of(context))
    }

    fn is_leaving(&self) -> bool {
        self.worker.is_leaving(&self.handle)
    }

    fn is_wanted(&self) -> bool {
        let view = self.worker.view_at(&self.handle);
        view.listener_context(&self.handle).is_some_and(|context| context.http3)
    }

    fn lacks_suite(&self) -> bool {
        let view = self.worker.view_at(&self.handle);
        view.listener_context(&self.handle).is_some_and(|context| context.lacks_quic_suite)
    }

    async fn pause(&self) {
        self.timer.arm(AGAIN);
        poll_fn(|_| match self.is_leaving() || self.timer.has_expired() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await;
    }
}

/// Keeps the worker until the clients of an endpoint have been told that their connections are
/// over, and its sockets for a listener that comes back meanwhile. At the end of a drain
/// connections that are cut tell it as they end, and the rest is told then.
async fn until_idle(worker: Rc<Worker>, sockets: Arc<QuicSockets>, endpoint: Endpoint) {
    worker.endpoints.set(worker.endpoints.get() + 1);
    let timer = Timer::here(&worker.timers).await;
    let mut idle = pin!(endpoint.wait_idle());
    let mut is_cut = false;
    poll_fn(|cx| {
        let is_due = timer.has_expired();
        if is_due && worker.cutting.get() == 0 {
            endpoint.close(VarInt::from_u32(NO_ERROR), b"");
            return Poll::Ready(());
        }
        if is_due || worker.is_stopped() && !mem::replace(&mut is_cut, true) {
            timer.arm(LOOK);
        }
        idle.as_mut().poll(cx)
    })
    .await;
    worker.endpoints.set(worker.endpoints.get() - 1);
    drop((timer, sockets));
}

/// A socket that is let go of when the last connection of its endpoint is over.
struct Leased {
    socket: Arc<dyn AsyncUdpSocket>,
    offload: Offload,
    first_packets: Arc<FirstPackets>,
    clock: Clock,
    _lease: Arc<Lease>,
}

impl fmt::Debug for Leased {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.socket.fmt(f)
    }
}

impl AsyncUdpSocket for Leased {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        self.socket.clone().create_io_poller()
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        self.offload.try_send(transmit)
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let received = ready!(self.socket.poll_recv(cx, bufs, meta))?;
        for (packet, meta) in bufs.iter().zip(&mut meta[..received]) {
            // Of several in one buffer all are of one client.
            let is_read = is_answerable(meta)
                && self.first_packets.admit(&packet[..meta.len], || self.clock.now());
            if !is_read {
                meta.len = 0;
            }
        }
        Poll::Ready(Ok(received))
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    fn max_transmit_segments(&self) -> usize {
        self.offload.max_segments(|| self.clock.now())
    }

    fn max_receive_segments(&self) -> usize {
        self.socket.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.socket.may_fragment()
    }
}

/// Whether a packet can be answered: nothing can be sent to port 0, nor from an address of many.
fn is_answerable(meta: &RecvMeta) -> bool {
    let is_of_one = match meta.dst_ip.map(|ip| ip.to_canonical()) {
        None => true,
        Some(IpAddr::V4(ip)) => !(ip.is_multicast() || ip.is_broadcast() || ip.is_unspecified()),
        Some(IpAddr::V6(ip)) => !(ip.is_multicast() || ip.is_unspecified()),
    };
    meta.addr.port() != 0 && is_of_one
}

/// H3_NO_ERROR (RFC 9114, 8.1).
const NO_ERROR: u32 = 0x100;

/// How often it is looked whether HTTP/3 can or should be served.
const AGAIN: Duration = Duration::from_secs(1);

/// With so many handshakes under way at a socket a client has to show first that its address is its
/// own: one more round trip.
const UNPROVEN_MAX: usize = 128;

/// After this it is said again that packets are dropped.
const TELL_AGAIN: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_from_port_0_or_to_an_address_of_many_is_not_answered() {
        let is_answerable = |from: &str, to: Option<&str>| {
            let (addr, dst_ip) = (from.parse().unwrap(), to.map(|to| to.parse().unwrap()));
            is_answerable(&RecvMeta { addr, dst_ip, ..RecvMeta::default() })
        };
        let client = "192.0.2.1:443";
        for own in [None, Some("192.0.2.9"), Some("::ffff:192.0.2.9"), Some("2001:db8::9")] {
            assert!(is_answerable(client, own), "{own:?}");
            assert!(!is_answerable("192.0.2.1:0", own), "{own:?}");
        }
        let many = ["255.255.255.255", "::ffff:255.255.255.255", "224.0.0.1", "ff02::1"];
        for to in many.into_iter().chain(["0.0.0.0", "::"]) {
            assert!(!is_answerable(client, Some(to)), "{to}");
        }
    }
}
