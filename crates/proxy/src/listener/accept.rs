//! Binds the sockets of listeners and accepts client connections.
//!
//! Every worker has a socket of its own on each address (SO_REUSEPORT): the kernel shares
//! connections out by their addresses, and no worker wakes for another's. TCP_DEFER_ACCEPT lets a
//! connection through only when its first bytes are there, so that the first read need not wait;
//! not where the server may speak first.
//!
//! Which sockets there are is decided in `set`. At the connection limit of the listener the
//! client that has been longest about its head gives its place to the next that comes (`heads`).
//! Where there is none, further connections wait in the kernel's backlog and are taken in as others
//! end.

use std::{
    io,
    net::{SocketAddr, TcpListener, TcpStream},
    os::fd::OwnedFd,
    rc::Rc,
    sync::Arc,
    task::Poll,
    time::Duration,
};

use loadline_core::{decide::coalesce::Coalesced, fleet::Listener, time};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    net::{SocketFlags, acceptfrom_with},
};
use socket2::{Domain, Protocol, SockRef, Type};
use tokio::{
    io::{Interest, unix::AsyncFd},
    task::spawn_local,
    time::timeout,
};

use crate::{
    http::session::{Session, end_unread_because},
    io::socket::Socket,
    listener::{
        clients::refuse,
        handle::{Acceptor, ConnectionGuard, ListenerHandle},
        proxy_header::{ProxyHeaderError, read_proxy_header},
        proxy_protocol::Ends,
        syscalls::watch,
    },
    runtime::{
        timer::{TICK, Timer},
        view::View,
        worker::Worker,
    },
    tcp::session::StreamSession,
    telemetry::{
        meter::{ListenerCells, Meter},
        tally::Count,
    },
};

/// Why the address of a listener cannot be had.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {source}{}", hint(*.address, .source))]
pub struct BindError {
    /// As configured.
    pub address: SocketAddr,
    /// In use, no such address, not permitted.
    pub source: io::Error,
}

impl BindError {
    /// The error of the kernel about `address`.
    pub(crate) fn at(address: SocketAddr) -> impl FnOnce(io::Error) -> Self {
        move |source| Self { address, source }
    }
}

/// What is missing where the kernel does not permit it.
fn hint(address: SocketAddr, source: &io::Error) -> &'static str {
    let privileged = (1..1024).contains(&address.port());
    if source.kind() != io::ErrorKind::PermissionDenied || !privileged {
        return "";
    }
    "; ports below 1024 are for root (or CAP_NET_BIND_SERVICE): start again as root, or have \
     the process manager open it (systemd socket activation)"
}

/// Binds `count` sockets to `address`; all get the port the kernel chose if it names none. They do
/// not listen yet.
///
/// # Errors
/// The kernel's. An address that another process listens on is in use, even if that process
/// shares it: its connections would go to either at random. That is not looked for where
/// `is_shared` with sockets of this process.
pub(crate) fn bind(
    address: SocketAddr,
    count: usize,
    is_shared: bool,
) -> io::Result<(SocketAddr, Vec<TcpListener>)> {
    if !is_shared {
        socket(address)?.bind(&address.into())?;
    }
    let mut bound = address;
    let mut sockets = Vec::with_capacity(count);
    for _ in 0..count {
        let socket = socket(address)?;
        socket.set_reuse_port(true)?;
        socket.bind(&bound.into())?;
        let socket = TcpListener::from(socket);
        bound = socket.local_addr()?;
        sockets.push(socket);
    }
    Ok((bound, sockets))
}

fn socket(address: SocketAddr) -> io::Result<socket2::Socket> {
    let socket =
        socket2::Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    set_up(&SockRef::from(&socket))?;
    Ok(socket)
}

/// Sets what every listening socket needs; the connections it accepts inherit all but the first.
///
/// # Errors
/// The kernel's.
pub(crate) fn set_up(socket: &SockRef<'_>) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_notsent_lowat(UNSENT_MAX)
}

/// Takes connections in until the worker drains or the listener closes. `acceptor` comes before
/// the socket, and so is given up after it: whoever waits for that finds the socket closed.
pub(crate) async fn accept(worker: Rc<Worker>, acceptor: Acceptor, listener: Arc<TcpListener>) {
    let handle = &acceptor.listener;
    let listener = loop {
        match watch(listener.clone()) {
            Ok(listener) => break listener,
            // Who accepted from it for the listener that it was is about to end.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && handle.is_open() => {
                tokio::time::sleep(PAUSE).await;
            }
            Err(error) => {
                tracing::error!(%error, address = %handle.key.bind, "cannot watch a listener");
                return;
            }
        }
    };
    let timer = Timer::here(&worker.timers).await;
    let _wakes = acceptor.wake_at_close().await;
    let mut failures = Coalesced::new(TELL_AGAIN);
    while let Some(max) = worker.max_connections(handle) {
        if !ready(&worker, handle, &listener, &timer).await {
            break;
        }
        let pass = match handle.try_enter(max) {
            Some(pass) => pass,
            None => {
                count(&worker, handle, |cells| &cells.held);
                match enter(&worker, handle, &listener).await {
                    Some(pass) => pass,
                    None => break,
                }
            }
        };
        if let Err(error) = admit(&worker, &listener, pass) {
            count(&worker, handle, |cells| &cells.unaccepted);
            if let Some(times) = failures.note(worker.shared.clock.now(), &(), 1) {
                let address = handle.key.bind;
                tracing::warn!(%error, %address, times, "cannot accept a connection");
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
    // Whoever is in the backlog was told that the connection is open. So was a client whose first
    // bytes are awaited (TCP_DEFER_ACCEPT), but the kernel hands it over with these alone.
    while let Ok((socket, client)) = accept_one(listener.get_ref()) {
        take_in(&worker, socket, client, handle.enter_anyway());
    }
}

/// A place for the connection that has come, which somebody who is slow may have to make; none
/// when it is the last that is taken in here.
async fn enter(
    worker: &Worker,
    handle: &Arc<ListenerHandle>,
    listener: &Watched,
) -> Option<ConnectionGuard> {
    let mut asked = false;
    while let Some(max) = worker.max_connections(handle) {
        if let Some(pass) = handle.try_enter(max) {
            return Some(pass);
        }
        // What a tick has made since is about to be free.
        let is_made = asked && !handle.wants_room();
        if !is_made && is_awaited(listener) {
            handle.want_room(!worker.timers.displace(handle));
        }
        asked = handle.wants_room();
        // Until then somebody may have become slow enough.
        if let Ok(pass) = timeout(TICK, handle.enter(max)).await {
            handle.want_room(false);
            return Some(pass);
        }
    }
    handle.want_room(false);
    None
}

/// Whether a connection has really come: that the listener was ready is known from before.
fn is_awaited(listener: &Watched) -> bool {
    let mut listening = [PollFd::new(listener.get_ref(), PollFlags::IN)];
    poll(&mut listening, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}

/// Waits for a connection; false when none is wanted any more.
async fn ready(
    worker: &Worker,
    handle: &ListenerHandle,
    listener: &Watched,
    _wakes: &Timer,
) -> bool {
    std::future::poll_fn(|cx| {
        if worker.is_leaving(handle) {
            return Poll::Ready(false);
        }
        listener
            .poll_read_ready(cx)
            .map(|ready| ready.map(|mut guard| guard.retain_ready()).is_ok())
    })
    .await
}

fn admit(worker: &Rc<Worker>, listener: &Watched, pass: ConnectionGuard) -> io::Result<()> {
    match listener.try_io(Interest::READABLE, |listener| accept_one(listener)) {
        Ok((socket, client)) => {
            take_in(worker, socket, client, pass);
            Ok(())
        }
        Err(error) if is_momentary(&error) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Hands a connection on to whoever speaks its protocol, once it is known whose it is.
fn take_in(worker: &Rc<Worker>, stream: TcpStream, client: SocketAddr, pass: ConnectionGuard) {
    let view = worker.view_at(&pass.listener);
    let Some(listener) = view.listener(&pass.listener) else { return };
    let Some(listener_context) = view.listener_context(&pass.listener) else { return };
    let meter = Meter::new(&listener_context.cells);
    if !listener.accept_proxy {
        let socket = Socket::accepted(stream, meter, None);
        return hand_on(worker, socket, client, (&view, listener), pass);
    }
    let limit = listener.timeouts.head;
    let worker = worker.clone();
    spawn_local(async move {
        let of_client = (stream, &meter);
        let read = read_proxy_header((&worker, &pass.listener), of_client, limit).await;
        let (stream, ends) = match read {
            Ok(read) => read,
            Err(error) => return reject_proxy_header(&worker, &pass.listener, client, &error),
        };
        let view = worker.view_at(&pass.listener);
        let Some(listener) = view.listener(&pass.listener) else { return };
        let socket = Socket::accepted(stream, meter, ends.map(|ends| ends.destination));
        let source = ends.map_or(client, |ends| ends.source);
        hand_on(&worker, socket, source, (&view, listener), pass);
    });
}

fn hand_on(
    worker: &Rc<Worker>,
    socket: Socket,
    source: SocketAddr,
    at: (&Rc<View>, &Listener),
    mut pass: ConnectionGuard,
) {
    if !pass.enter_client(at.1, source.ip()) {
        return refuse(worker, &pass.listener, source, Some(socket));
    }
    if at.1.protocol.is_http() {
        return Session::spawn(worker, socket, source, pass);
    }
    match socket.local_addr() {
        Some(destination) => {
            let ends = Ends { source, destination };
            StreamSession::spawn(worker, socket, at.0, ends, pass);
        }
        None => tracing::debug!(client = %source, "gone already"),
    }
}

/// Counts and logs a connection with a bad PROXY header; one without any bytes is ignored. Closed
/// without a response: it is not known what the client understands.
fn reject_proxy_header(
    worker: &Worker,
    handle: &ListenerHandle,
    client: SocketAddr,
    error: &ProxyHeaderError,
) {
    tracing::debug!(%client, %error, "no PROXY header");
    if let Some(ending) = error.ending() {
        count(worker, handle, |cells| &cells.bad_proxy_headers);
        end_unread_because((worker, handle), client, ending, &error.reason());
    }
}

/// Counts something that has to do with a listener rather than with one of its connections.
fn count(worker: &Worker, handle: &ListenerHandle, which: fn(&ListenerCells) -> &Count) {
    if let Some(listener_context) = worker.view_at(handle).listener_context(handle) {
        which(&listener_context.cells).add(1);
    }
}

/// Whether the listener is in order and just has no connection to give.
fn is_momentary(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted, WouldBlock};
    matches!(error.kind(), WouldBlock | Interrupted | ConnectionAborted | ConnectionReset)
}

fn accept_one(listener: &TcpListener) -> io::Result<(TcpStream, SocketAddr)> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let (socket, client): (OwnedFd, _) = acceptfrom_with(listener, flags)?;
    let client = client.and_then(|client| SocketAddr::try_from(client).ok());
    let client = client.ok_or(io::ErrorKind::ConnectionAborted)?;
    // On a socket of both versions an address of version 4 comes written as one of version 6.
    let client = SocketAddr::new(client.ip().to_canonical(), client.port());
    Ok((TcpStream::from(socket), client))
}

/// A listening socket that the reactor watches.
type Watched = AsyncFd<Arc<TcpListener>>;

/// Connections the kernel holds for us; it caps this at net.core.somaxconn.
pub(crate) const BACKLOG: i32 = 4096;

/// Bytes the kernel takes for a client beyond those it may send, until the client has shown that
/// it reads (`Socket::take_freely`). Without it, it takes up to 4 MB for one that reads slowly, and
/// the memory of all TCP connections is gone after a few hundred.
const UNSENT_MAX: u32 = 128 << 10;

/// After this it is said again that connections cannot be accepted.
const TELL_AGAIN: time::Duration = time::Duration::from_secs(60);

/// Rest after an error such as too few descriptors: trying at once would only burn time.
const PAUSE: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn all_sockets_of_a_listener_share_the_port_the_kernel_chose() {
        let (address, sockets) = bind((Ipv4Addr::LOCALHOST, 0).into(), 3, false).unwrap();
        assert_ne!(address.port(), 0);
        assert!(sockets.iter().all(|socket| socket.local_addr().unwrap() == address));
    }

    #[test]
    fn an_address_that_is_taken_is_refused_even_if_it_could_be_shared() {
        let (address, sockets) = bind((Ipv4Addr::LOCALHOST, 0).into(), 1, false).unwrap();
        SockRef::from(&sockets[0]).listen(1).unwrap();
        let error = bind(address, 1, false).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        assert!(bind(address, 1, true).is_ok(), "but not by this process itself");
    }

    #[test]
    fn what_is_not_permitted_is_told_with_what_is_missing() {
        let denied = || io::Error::from(io::ErrorKind::PermissionDenied);
        let told = BindError::at("0.0.0.0:443".parse().unwrap())(denied()).to_string();
        assert!(told.contains("CAP_NET_BIND_SERVICE"), "{told}");
        let other = BindError::at("0.0.0.0:8443".parse().unwrap())(denied()).to_string();
        assert!(!other.contains("CAP_NET_BIND_SERVICE"), "{other}");
    }
}
