//! Opening QUIC connections: a UDP socket for each, and the handshake.
//!
//! Each connection has a socket and so a port of its own, as those of independent clients. The
//! socket is connected: where nobody listens the kernel says so at once, and the connection is
//! refused instead of waiting for its timeout.

use std::{
    cell::RefCell,
    io::{self, IoSliceMut},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
    time,
};

use loadline_linux::clock;
use quinn::{
    AsyncUdpSocket, ClientConfig, ConnectionError, Endpoint, EndpointConfig, IdleTimeout,
    TokioRuntime, TransportConfig, UdpPoller, VarInt,
    crypto::rustls::QuicClientConfig,
    udp::{RecvMeta, Transmit, UdpSocketState},
};
use rustls::pki_types::ServerName;
use socket2::{Domain, Type};
use tokio::{io::Interest, net::UdpSocket, sync::watch, task::JoinSet};

use crate::{
    connect::{NoConnection, Opened},
    http3::{Driver, Http3Connection},
    outcome::{Outcome, Shortage},
    tls::{self, TlsError},
    transport::{Protocol, Transport},
};

/// Opens connections for HTTP/3, and sees them end.
pub(crate) struct Quic {
    config: ClientConfig,
    /// What every connection has done for it, until its server has been told of the end.
    drivers: RefCell<JoinSet<()>>,
    stop: watch::Sender<()>,
}

impl Quic {
    /// Reads certificates and keys.
    ///
    /// # Errors
    /// [`TlsError`] where one cannot be used.
    pub(crate) fn new(transport: &Transport) -> Result<Self, TlsError> {
        let crypto = QuicClientConfig::try_from(tls::config(transport, Protocol::Http3)?);
        let mut config = ClientConfig::new(Arc::new(crypto.map_err(|_| TlsError::Quic)?));
        config.transport_config(Arc::new(settings()));
        let (stop, _) = watch::channel(());
        Ok(Self { config, drivers: RefCell::default(), stop })
    }

    /// Opens one connection. The caller sets the limit of time.
    ///
    /// # Errors
    /// [`NoConnection`] with the class of a request that needed it.
    pub(crate) async fn open(
        &self,
        address: SocketAddr,
        name: &ServerName<'static>,
        source: Option<IpAddr>,
    ) -> Result<Opened<Http3Connection>, NoConnection> {
        let begun = clock::now();
        let failed = |error: &io::Error| NoConnection {
            outcome: Outcome::of_connect_error(error),
            shortage: Shortage::of(error),
            reason: None,
        };
        let socket = Socket::open(address, source).map_err(|error| failed(&error))?;
        let (settings, runtime) = (EndpointConfig::default(), Arc::new(TokioRuntime));
        let endpoint = Endpoint::new_with_abstract_socket(settings, None, socket.clone(), runtime);
        let endpoint = endpoint.map_err(|error| failed(&error))?;
        let connecting = endpoint.connect_with(self.config.clone(), address, &name.to_str());
        let connecting = connecting.map_err(|error| NoConnection {
            outcome: Outcome::BadAnswer,
            shortage: None,
            reason: Some(error.to_string()),
        })?;
        let agreed = tokio::select! {
            agreed = connecting => agreed.map_err(|error| no_connection(&error)),
            () = socket.refused() => Err(failed(&io::ErrorKind::ConnectionRefused.into())),
        };
        let quinn = agreed?;
        let connect = clock::now().since(begun);
        let (wire, driver) = Http3Connection::open(quinn.clone()).await.map_err(|failure| {
            NoConnection { outcome: failure.outcome(), shortage: None, reason: None }
        })?;
        let drivers = &mut *self.drivers.borrow_mut();
        while drivers.try_join_next().is_some() {}
        drivers.spawn(drive(driver, quinn, (endpoint, socket), self.stop.subscribe()));
        Ok(Opened { wire, http2: false, protocol: "HTTP/3", connect, tls: None })
    }

    /// Closes every connection and waits until their servers have been told.
    pub(crate) async fn close(&self) {
        self.stop.send_replace(());
        let mut drivers = self.drivers.take();
        let all = async { while drivers.join_next().await.is_some() {} };
        // One whose packets get lost is not waited for.
        let _ = tokio::time::timeout(FAREWELL, all).await;
    }
}

/// Drives a connection until it is unused, has ended, nobody has the port at its other end, or all
/// have to end; then waits until its server has heard of it.
async fn drive(
    mut driver: Driver,
    quinn: quinn::Connection,
    (endpoint, socket): (Endpoint, Arc<Socket>),
    mut stop: watch::Receiver<()>,
) {
    tokio::select! {
        _ = driver.wait_idle() => {}
        _ = stop.changed() => {}
        () = socket.refused() => {}
    }
    quinn.close(NO_ERROR, b"");
    endpoint.wait_idle().await;
}

fn settings() -> TransportConfig {
    let mut settings = TransportConfig::default();
    settings
        .stream_receive_window(WINDOW)
        .receive_window(VarInt::MAX)
        .datagram_receive_buffer_size(None)
        .max_idle_timeout(Some(IdleTimeout::from(VarInt::from_u32(SILENCE_MS))))
        .keep_alive_interval(Some(PING));
    settings
}

/// Why a handshake did not end well.
fn no_connection(error: &ConnectionError) -> NoConnection {
    let outcome = match error {
        ConnectionError::TimedOut => Outcome::ConnectTimeout,
        ConnectionError::ConnectionClosed(_)
        | ConnectionError::ApplicationClosed(_)
        | ConnectionError::Reset => Outcome::ConnectRefused,
        // What is wrong with the server's certificate, above all.
        ConnectionError::TransportError(_) | ConnectionError::VersionMismatch => Outcome::BadAnswer,
        ConnectionError::LocallyClosed | ConnectionError::CidsExhausted => Outcome::Reset,
    };
    NoConnection { outcome, shortage: None, reason: Some(tls::in_words(error)) }
}

/// A connected UDP socket. quinn's own keeps to itself what the kernel says about the other end.
#[derive(Debug)]
struct Socket {
    io: UdpSocket,
    state: UdpSocketState,
    /// Whether nobody has the port at the other end.
    refused: AtomicBool,
}

impl Socket {
    fn open(address: SocketAddr, source: Option<IpAddr>) -> io::Result<Arc<Self>> {
        let socket = socket2::Socket::new(Domain::for_address(address), Type::DGRAM, None)?;
        // The kernel takes as much as net.core.rmem_max allows.
        let _ = socket.set_recv_buffer_size(BUFFER_BYTES);
        let any: IpAddr = match address {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        socket.bind(&SocketAddr::new(source.unwrap_or(any), 0).into())?;
        socket.connect(&address.into())?;
        socket.set_nonblocking(true)?;
        let state = UdpSocketState::new((&socket).into())?;
        let io = UdpSocket::from_std(socket.into())?;
        Ok(Arc::new(Self { io, state, refused: AtomicBool::new(false) }))
    }

    /// Waits until the kernel says that nobody has the port at the other end.
    async fn refused(&self) {
        while !self.refused.load(Ordering::Relaxed) {
            // Fails where the event loop ends, and the connection with it.
            if self.io.ready(Interest::ERROR).await.is_err() {
                return;
            }
            self.note(self.io.take_error().ok().flatten().as_ref());
            let seen = || Err::<(), _>(io::ErrorKind::WouldBlock.into());
            let _ = self.io.try_io(Interest::ERROR, seen);
        }
    }

    fn note(&self, error: Option<&io::Error>) {
        if error.is_some_and(|error| error.kind() == io::ErrorKind::ConnectionRefused) {
            self.refused.store(true, Ordering::Relaxed);
        }
    }
}

impl AsyncUdpSocket for Socket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(Writable(self))
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let send = || self.state.try_send((&self.io).into(), transmit);
        match self.io.try_io(Interest::WRITABLE, send) {
            // The packet is lost, and is sent again as others that are.
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
                self.note(Some(&error));
                Ok(())
            }
            sent => sent,
        }
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.io.poll_recv_ready(cx))?;
            let receive = || self.state.recv((&self.io).into(), buffers, meta);
            match self.io.try_io(Interest::READABLE, receive) {
                Err(error) => self.note(Some(&error)),
                received => return Poll::Ready(received),
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.local_addr()
    }

    fn max_transmit_segments(&self) -> usize {
        self.state.max_gso_segments()
    }

    fn max_receive_segments(&self) -> usize {
        self.state.gro_segments()
    }

    fn may_fragment(&self) -> bool {
        self.state.may_fragment()
    }
}

/// Whether a socket takes packets again; its connection is the only one that asks.
#[derive(Debug)]
struct Writable(Arc<Socket>);

impl UdpPoller for Writable {
    fn poll_writable(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.io.poll_send_ready(cx)
    }
}

/// Of a stream: so wide that it never holds a response back, since what is read is thrown away at
/// once.
const WINDOW: VarInt = VarInt::from_u32(1 << 30);

/// H3_NO_ERROR (RFC 9114, section 8.1).
const NO_ERROR: VarInt = VarInt::from_u32(0x100);

/// A server of which nothing has been heard for so long is gone.
const SILENCE_MS: u32 = 30_000;

/// Keeps a connection at rest open, as one of TCP stays.
const PING: time::Duration = time::Duration::from_secs(10);

/// Longer than three timeouts of a probe towards any place on Earth.
const FAREWELL: time::Duration = time::Duration::from_secs(2);

/// Packets that wait while the generator does something else.
const BUFFER_BYTES: usize = 2 << 20;
