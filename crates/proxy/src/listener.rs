//! Where client connections come in.
//!
//! Every worker has a socket of its own on each address (SO_REUSEPORT): the kernel shares
//! connections out by their addresses, and no worker wakes for another's. TCP_DEFER_ACCEPT lets a
//! connection through only when its first bytes are there, so that the first read need not wait;
//! not where the server may speak first.
//!
//! At the connection limit of the listener its workers stop accepting; further connections wait
//! in the kernel's backlog and are taken in as others end.

use std::{
    io,
    net::{SocketAddr, TcpListener, TcpStream},
    os::fd::OwnedFd,
    pin::pin,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    task::Poll,
    time::Duration,
};

use loadline_core::fleet::Listener;
use rustix::net::{SocketFlags, acceptfrom_with};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::{
    io::{Interest, unix::AsyncFd},
    sync::Notify,
    task::spawn_local,
};

use crate::{
    introduction::{IntroductionError, introduced},
    kernel::{defer_accept, watch},
    proxy_protocol::Ends,
    session::Session,
    stream_session::StreamSession,
    timer::Timer,
    view::View,
    worker::Worker,
};

/// A listener as all workers see it.
#[derive(Debug)]
pub(crate) struct Door {
    /// Index among the listeners of the plan.
    pub(crate) index: usize,
    /// The address as configured; the port may be 0.
    pub(crate) bind: SocketAddr,
    connections: AtomicU32,
    freed: Notify,
}

impl Door {
    /// A door nobody has come through.
    pub(crate) fn new(index: usize, bind: SocketAddr) -> Self {
        Self { index, bind, connections: AtomicU32::new(0), freed: Notify::new() }
    }

    fn try_enter(self: &Arc<Self>, max: u32) -> Option<Pass> {
        let enter = |count| (count < max).then_some(count + 1);
        let entered = self.connections.fetch_update(Relaxed, Relaxed, enter);
        entered.is_ok().then(|| Pass { door: self.clone() })
    }

    /// Waits until a connection may be taken in.
    async fn enter(self: &Arc<Self>, max: u32) -> Pass {
        loop {
            let mut freed = pin!(self.freed.notified());
            freed.as_mut().enable();
            if let Some(pass) = self.try_enter(max) {
                return pass;
            }
            freed.await;
        }
    }
}

/// One connection's place under the limit of its listener.
#[derive(Debug)]
pub(crate) struct Pass {
    pub(crate) door: Arc<Door>,
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.door.connections.fetch_sub(1, Relaxed);
        self.door.freed.notify_waiters();
    }
}

/// Binds `count` sockets to `address`; all get the port the kernel chose if it names none.
///
/// # Errors
/// The kernel's. An address that another process listens on is in use, even if that process
/// shares it: its connections would go to either at random.
pub(crate) fn bind(
    address: SocketAddr,
    count: usize,
    client_speaks_first: bool,
) -> io::Result<(SocketAddr, Vec<TcpListener>)> {
    let alone = socket(address)?;
    alone.bind(&address.into())?;
    drop(alone);
    let mut bound = address;
    let mut sockets = Vec::with_capacity(count);
    for _ in 0..count {
        let socket = socket(address)?;
        socket.set_reuse_port(true)?;
        socket.bind(&bound.into())?;
        if client_speaks_first {
            defer_accept(&socket)?;
        }
        socket.listen(BACKLOG)?;
        let socket = TcpListener::from(socket);
        bound = socket.local_addr()?;
        sockets.push(socket);
    }
    Ok((bound, sockets))
}

fn socket(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    // Accepted connections inherit it.
    socket.set_tcp_nodelay(true)?;
    Ok(socket)
}

/// Takes connections in until the worker drains or the listener is no longer configured.
pub(crate) async fn accept(worker: Rc<Worker>, door: Arc<Door>, listener: TcpListener) {
    let listener = match watch(listener) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!(%error, address = %door.bind, "cannot watch a listener");
            return;
        }
    };
    let timer = Timer::here(&worker.timers).await;
    while let Some(max) = worker.max_connections(&door) {
        if !ready(&worker, &listener, &timer).await {
            break;
        }
        let pass = door.enter(max).await;
        if let Err(error) = admit(&worker, &listener, pass) {
            tracing::warn!(%error, address = %door.bind, "cannot accept a connection");
            tokio::time::sleep(PAUSE).await;
        }
    }
    // Whoever is in the backlog was told that the connection is open.
    while let Some(pass) = door.try_enter(u32::MAX) {
        match accept_one(listener.get_ref()) {
            Ok((socket, client)) => take_in(&worker, socket, client, pass),
            Err(_) => break,
        }
    }
}

/// Waits for a connection; false when none is wanted any more.
async fn ready(worker: &Worker, listener: &AsyncFd<TcpListener>, _wakes: &Timer) -> bool {
    std::future::poll_fn(|cx| {
        if worker.is_draining() {
            return Poll::Ready(false);
        }
        listener
            .poll_read_ready(cx)
            .map(|ready| ready.map(|mut guard| guard.retain_ready()).is_ok())
    })
    .await
}

fn admit(worker: &Rc<Worker>, listener: &AsyncFd<TcpListener>, pass: Pass) -> io::Result<()> {
    match listener.try_io(Interest::READABLE, accept_one) {
        Ok((socket, client)) => {
            take_in(worker, socket, client, pass);
            Ok(())
        }
        Err(error) if is_momentary(&error) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Hands a connection on to whoever speaks its protocol, once it is known whose it is.
fn take_in(worker: &Rc<Worker>, stream: TcpStream, client: SocketAddr, pass: Pass) {
    let view = worker.view();
    let Some(listener) = listener(&view, &pass.door) else { return };
    if !listener.accept_proxy {
        return hand_on(worker, stream, (client, None), (&view, listener), pass);
    }
    let limit = listener.timeouts.head;
    let worker = worker.clone();
    spawn_local(async move {
        let (stream, ends) = match introduced(stream, limit).await {
            Ok(introduced) => introduced,
            Err(error) => return turn_away(&worker, &pass.door, client, &error),
        };
        let view = worker.view();
        let Some(listener) = self::listener(&view, &pass.door) else { return };
        hand_on(&worker, stream, (client, ends), (&view, listener), pass);
    });
}

fn hand_on(
    worker: &Rc<Worker>,
    stream: TcpStream,
    (client, told): (SocketAddr, Option<Ends>),
    at: (&Rc<View>, &Listener),
    pass: Pass,
) {
    let source = told.map_or(client, |ends| ends.source);
    if at.1.protocol.is_http() {
        return Session::spawn(worker, stream, source, pass);
    }
    let own = || stream.local_addr().map(|destination| Ends { source, destination });
    match told.map_or_else(own, Ok) {
        Ok(ends) => StreamSession::spawn(worker, stream, at.0, ends, pass),
        Err(error) => tracing::debug!(%client, %error, "gone already"),
    }
}

/// The listener behind a door, if it still is in the plan.
fn listener<'a>(view: &'a View, door: &Door) -> Option<&'a Listener> {
    view.plan.fleet.listeners.get(door.index).filter(|listener| listener.bind == door.bind)
}

/// Counts a connection that does not say whose it is. It is closed without a word: what would be
/// understood at its other end is not known.
fn turn_away(worker: &Worker, door: &Door, client: SocketAddr, error: &IntroductionError) {
    tracing::debug!(%client, %error, "no PROXY header");
    let view = worker.view();
    if let Some(listener) = listener(&view, door) {
        view.desks[listener.service].cells.end(error.ending(), 0);
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
    Ok((TcpStream::from(socket), client.ok_or(io::ErrorKind::ConnectionAborted)?))
}

/// Connections the kernel holds for us; it caps this at net.core.somaxconn.
const BACKLOG: i32 = 4096;

/// Rest after an error such as too few descriptors: trying at once would only burn time.
const PAUSE: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn all_sockets_of_a_listener_share_the_port_the_kernel_chose() {
        let (address, sockets) = bind((Ipv4Addr::LOCALHOST, 0).into(), 3, true).unwrap();
        assert_ne!(address.port(), 0);
        assert!(sockets.iter().all(|socket| socket.local_addr().unwrap() == address));
    }

    #[test]
    fn an_address_that_is_taken_is_refused_even_if_it_could_be_shared() {
        let (address, _sockets) = bind((Ipv4Addr::LOCALHOST, 0).into(), 1, true).unwrap();
        let error = bind(address, 1, true).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    }

    #[tokio::test]
    async fn at_the_limit_the_next_one_waits_for_a_place() {
        let door = Arc::new(Door::new(0, (Ipv4Addr::LOCALHOST, 0).into()));
        let pass = door.enter(1).await;
        assert!(door.try_enter(1).is_none());
        let mut next = pin!(door.enter(1));
        let now = std::future::poll_fn(|cx| Poll::Ready(next.as_mut().poll(cx).is_ready())).await;
        assert!(!now);
        drop(pass);
        next.await;
    }
}
