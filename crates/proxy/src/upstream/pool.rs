//! Connections to servers: opened, kept for the next request, closed when unused.
//!
//! Each worker keeps its own, and all together those to far servers; last in, first out: the
//! warmest is used first and the excess of a peak ages away. A kept connection on which anything
//! has happened - the server closed it, or sent what nobody asked for - is not used again; tokio
//! knows that from the kernel's events, so that looking costs no system call.
//!
//! `max_connections` of a server holds over all workers and counts kept connections too. Where it
//! is reached, requests go to another server as if this one had no capacity left.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeSet,
    io,
    net::{SocketAddr, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
};

use loadline_core::{
    decide::{ledger::ServerId, reason::Reason},
    fleet::socket_path,
    time::Instant,
};
use rustix::{
    io::Errno,
    net::{AddressFamily, SocketFlags, SocketType, connect, socket_with, sockopt},
};

use crate::{
    http2::Call,
    io::{peer::Peer, socket::Socket},
    runtime::shared::Shared,
    store::FileReply,
    tls::Dialing,
    upstream::{
        idle::{Common, Kept},
        unix,
    },
};

/// A connection to a server.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) peer: Peer,
    /// Whether it stood before the request came.
    pub(crate) reused: bool,
    /// Whether the last response was large: then the next probably is.
    pub(crate) large: bool,
    /// Whether a PROXY header named its client: then it is for no other client.
    pub(crate) read_proxy_header: bool,
    /// Whether a client has authenticated on it, or may have: then it is for no other client.
    pub(crate) private: bool,
    /// Its place in the count of connections; none for a stream, whose connection has one.
    slot: Option<Slot>,
}

impl Connection {
    /// Begins to connect. The connection may be written to at once: the write waits until it
    /// stands, and fails if it cannot.
    ///
    /// # Errors
    /// The kernel's, if not even the attempt can be made.
    pub(crate) fn open(address: SocketAddr, tls: Option<&Dialing>, slot: Slot) -> io::Result<Self> {
        let stream = match socket_path(address) {
            Some(path) => unix::open(&path)?,
            None => begin(address)?,
        };
        let mut socket = Socket::raw(stream);
        if let Some(tls) = tls {
            socket = socket.over(tls.begin(address)?);
        }
        Ok(Self { slot: Some(slot), ..Self::of(Peer::new(socket)) })
    }

    /// One stream of a connection that carries many, and has carried some where it is `reused`.
    pub(crate) fn shared(call: Box<Call>, reused: bool) -> Self {
        Self { reused, ..Self::of(Peer::new(Socket::Call(call))) }
    }

    /// Files of this machine, whose responses take no connection.
    pub(crate) fn to_files(reply: FileReply) -> Self {
        Self::of(Peer::new(Socket::File(Box::new(reply))))
    }

    /// One that was kept.
    pub(super) fn again(kept: Kept) -> Self {
        let (socket, slot, large) = kept.into_parts();
        Self { reused: true, large, slot: Some(slot), ..Self::of(Peer::new(socket)) }
    }

    /// A new one that counts nowhere.
    const fn of(peer: Peer) -> Self {
        Self {
            peer,
            reused: false,
            large: false,
            read_proxy_header: false,
            private: false,
            slot: None,
        }
    }

    /// What it is made of.
    pub(crate) fn into_parts(self) -> (Peer, Option<Slot>) {
        (self.peer, self.slot)
    }

    /// The connection to keep; none if it is for one client alone, or a stream.
    fn kept(self, until: Instant) -> Option<Kept> {
        let slot = self.slot.filter(|_| !self.read_proxy_header && !self.private)?;
        Some(Kept { idle: self.peer.socket.idle()?, slot, large: self.large, until })
    }

    /// The same connection with TLS on it, for one that stands already.
    ///
    /// # Errors
    /// What rustls finds wrong with the configuration.
    pub(crate) fn secured(self, address: SocketAddr, tls: &Dialing) -> io::Result<Self> {
        Ok(Self { peer: Peer::new(self.peer.socket.over(tls.begin(address)?)), ..self })
    }
}

/// Begins to connect by TCP.
fn begin(address: SocketAddr) -> io::Result<TcpStream> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    sockopt::set_tcp_nodelay(&socket, true)?;
    match connect(&socket, &address) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(TcpStream::from(socket)),
        // As of a route that is a blackhole.
        Err(Errno::INVAL) => Err(io::Error::other(Reason::InvalidAddress)),
        Err(error) => Err(error.into()),
    }
}

/// One open connection in the count of its server.
#[derive(Debug)]
pub(crate) struct Slot {
    open: Arc<AtomicU32>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Relaxed);
    }
}

/// The kept connections of one worker.
#[derive(Debug)]
pub(crate) struct Pools {
    /// By number of the server.
    pools: RefCell<Vec<Option<Pool>>>,
    /// Servers that have a pool.
    known: RefCell<Vec<ServerId>>,
    /// Which of these is swept next.
    swept: Cell<usize>,
}

#[derive(Debug)]
struct Pool {
    /// Where its server is among those that have a pool.
    place: usize,
    kept: Vec<Kept>,
    common: Arc<Common>,
    /// Connections that are being opened before a request needs them.
    warming: u32,
    /// No more of these before.
    warm_again: Instant,
}

impl Pools {
    /// No connections.
    pub(crate) const fn new() -> Self {
        let known = RefCell::new(Vec::new());
        Self { pools: RefCell::new(Vec::new()), known, swept: Cell::new(0) }
    }

    /// A kept connection that is good for use, if there is one. Those that were made by other
    /// settings of TLS than `tls`, before a reload, are closed.
    pub(crate) fn take(
        &self,
        shared: &Shared,
        server: ServerId,
        tls: Option<&Dialing>,
    ) -> Option<Connection> {
        self.know(shared, server);
        self.last(server, tls)
    }

    /// The connection that was kept last.
    fn last(&self, server: ServerId, tls: Option<&Dialing>) -> Option<Connection> {
        let mut pools = self.pools.borrow_mut();
        let pool = pools.get_mut(server.index())?.as_mut()?;
        // What is common has carried answers; where there is any, the worker's own has not.
        let taken = pool.common.take(tls).or_else(|| {
            let mut own = std::iter::from_fn(|| pool.kept.pop());
            own.find_map(|mut kept| kept.is_good(tls).then_some(kept))
        });
        taken.map(Connection::again)
    }

    /// Keeps a connection until `until` for the next message, unless it is for one client alone;
    /// for all workers if it is shared. Streams are not kept.
    pub(crate) fn keep(
        &self,
        (server, is_shared): (ServerId, bool),
        connection: Connection,
        until: Instant,
    ) {
        let Some(kept) = connection.kept(until) else { return };
        let mut pools = self.pools.borrow_mut();
        match pools.get_mut(server.index()) {
            Some(Some(pool)) if is_shared => pool.common.keep(kept),
            Some(Some(pool)) => pool.kept.push(kept),
            _ => {}
        }
    }

    /// The right to open one more connection; none if `max` are open.
    pub(crate) fn slot(&self, shared: &Shared, server: ServerId, max: u32) -> Option<Slot> {
        self.know(shared, server);
        let pools = self.pools.borrow();
        let open = &pools[server.index()].as_ref()?.common.open;
        let more = |count| (count < max).then_some(count + 1);
        open.fetch_update(Relaxed, Relaxed, more).ok()?;
        Some(Slot { open: open.clone() })
    }

    /// Makes room for connections to a server.
    fn know(&self, shared: &Shared, server: ServerId) {
        let mut pools = self.pools.borrow_mut();
        if pools.len() <= server.index() {
            pools.resize_with(server.index() + 1, || None);
        }
        pools[server.index()].get_or_insert_with(|| self.pool(server, shared.common(server)));
    }

    /// A pool of a server that has none.
    fn pool(&self, server: ServerId, common: Arc<Common>) -> Pool {
        let mut known = self.known.borrow_mut();
        known.push(server);
        let place = known.len() - 1;
        Pool { place, kept: Vec::new(), common, warming: 0, warm_again: Instant::ZERO }
    }

    /// Lets the last `count` connections that this worker keeps stay until `until`: how many there
    /// are too few.
    pub(crate) fn lacking(&self, server: ServerId, count: u32, until: Instant) -> u32 {
        let mut pools = self.pools.borrow_mut();
        let Some(Some(pool)) = pools.get_mut(server.index()) else { return count };
        let common = pool.common.stay(count as usize, until);
        for kept in pool.kept.iter_mut().rev().take(count as usize - common) {
            kept.until = kept.until.max(until);
        }
        let ready = u32::try_from(common + pool.kept.len()).unwrap_or(u32::MAX);
        count.saturating_sub(ready.saturating_add(pool.warming))
    }

    /// Whether it is time to open connections to a server that no request needs yet.
    pub(crate) fn may_warm(&self, server: ServerId, now: Instant) -> bool {
        let pools = self.pools.borrow();
        let pool = pools.get(server.index()).and_then(Option::as_ref);
        pool.is_none_or(|pool| pool.warm_again <= now)
    }

    /// Notes that so many are being opened, and that no more are before `again`.
    pub(crate) fn warming(&self, server: ServerId, count: u32, again: Instant) {
        if let Some(Some(pool)) = self.pools.borrow_mut().get_mut(server.index()) {
            pool.warming += count;
            pool.warm_again = pool.warm_again.max(again);
        }
    }

    /// Keeps a new connection behind all others, since connections that have carried responses send
    /// faster; or delays the next attempt if it did not open.
    pub(crate) fn warmed(
        &self,
        (server, is_shared): (ServerId, bool),
        opened: Result<Connection, Instant>,
        until: Instant,
    ) {
        let mut pools = self.pools.borrow_mut();
        let Some(Some(pool)) = pools.get_mut(server.index()) else { return };
        // It counts for one pool alone, and may have left that.
        pool.warming = pool.warming.saturating_sub(1);
        match opened {
            Ok(opened) => opened.kept(until).into_iter().for_each(|it| match is_shared {
                true => pool.common.keep_below(it),
                false => pool.kept.insert(0, it),
            }),
            Err(again) => pool.warm_again = pool.warm_again.max(again),
        }
    }

    /// Closes what is kept to these servers, whose numbers may soon be given to others.
    pub(crate) fn close(&self, leaving: &BTreeSet<ServerId>) {
        let (mut pools, mut known) = (self.pools.borrow_mut(), self.known.borrow_mut());
        for server in leaving {
            let pool = pools.get_mut(server.index()).and_then(Option::take);
            let Some(Pool { place, common, .. }) = pool else { continue };
            common.clear();
            known.swap_remove(place);
            // The last one takes its place.
            if let Some(last) = known.get(place)
                && let Some(pool) = &mut pools[last.index()]
            {
                pool.place = place;
            }
        }
    }

    /// Closes what has been kept for too long or has been closed by its server. Of very many
    /// servers a part has its turn.
    pub(crate) fn sweep(&self, now: Instant) {
        let (mut pools, known) = (self.pools.borrow_mut(), self.known.borrow());
        let count = known.len().min(SWEPT_LEAST.max(known.len() / SWEEPS));
        let first = self.swept.replace(self.swept.get() + count);
        for id in (first..first + count).map(|at| known[at % known.len()]) {
            if let Some(pool) = &mut pools[id.index()] {
                pool.kept.retain_mut(|kept| kept.stays(now));
                pool.common.sweep(now);
            }
        }
    }
}

/// Sweeps within which each server has its turn: those of a second.
const SWEEPS: usize = 40;

/// So many servers are swept in some microseconds.
const SWEPT_LEAST: usize = 1_000;

#[cfg(test)]
mod tests {
    use std::{io::Write, net::TcpListener};

    use loadline_core::{decide::ledger::Ledger, time::Duration};

    use super::*;

    fn server() -> (TcpListener, SocketAddr, ServerId) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let id = Ledger::default().server("web", "near", address).id();
        (listener, address, id)
    }

    /// Pools that know a server, and a slot of it.
    fn pools(id: ServerId) -> (Pools, Slot) {
        let common = Arc::new(Common::default());
        common.open.store(1, Relaxed);
        let slot = Slot { open: common.open.clone() };
        let pools = Pools::new();
        let mut known = pools.pools.borrow_mut();
        known.resize_with(id.index() + 1, || None);
        known[id.index()] = Some(pools.pool(id, common));
        drop(known);
        (pools, slot)
    }

    const LATER: Instant = Instant::from_nanos(u64::MAX);

    #[test]
    fn a_kept_connection_is_used_again_unless_it_is_too_old() {
        let (listener, address, id) = server();
        let (pools, slot) = pools(id);
        let connection = Connection::open(address, None, slot).unwrap();
        let _accepted = listener.accept().unwrap();
        pools.keep((id, false), connection, Instant::ZERO + Duration::from_secs(1));
        let connection = pools.last(id, None).expect("kept");
        assert!(connection.reused);
        pools.keep((id, false), connection, Instant::ZERO + Duration::from_secs(1));
        pools.sweep(Instant::ZERO + Duration::from_secs(1));
        assert!(pools.last(id, None).is_none());
    }

    #[test]
    fn what_is_to_be_ready_stays_and_lies_below_what_was_used() {
        let (listener, address, id) = server();
        let (pools, slot) = pools(id);
        let second = Slot { open: slot.open.clone() };
        second.open.store(2, Relaxed);
        let after = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        let mut used = Connection::open(address, None, slot).unwrap();
        used.large = true;
        let fresh = Connection::open(address, None, second).unwrap();
        let _accepted = (listener.accept().unwrap(), listener.accept().unwrap());
        pools.keep((id, false), used, after(1));
        assert_eq!(pools.lacking(id, 2, after(5)), 1);
        pools.warming(id, 1, after(2));
        assert_eq!(pools.lacking(id, 2, after(5)), 0, "the one being opened counts");
        assert!(!pools.may_warm(id, after(1)) && pools.may_warm(id, after(2)));
        pools.warmed((id, false), Ok(fresh), after(1));
        assert_eq!(pools.lacking(id, 2, after(9)), 0);
        pools.sweep(after(5));
        assert!(
            pools.last(id, None).is_some_and(|it| it.large),
            "the one with the larger window first"
        );
        assert_eq!(pools.lacking(id, 2, after(9)), 1, "one that is in use is not ready");
    }

    #[test]
    fn connections_to_servers_that_leave_are_not_kept() {
        let (listener, address, id) = server();
        let (pools, slot) = pools(id);
        let open = slot.open.clone();
        let connection = Connection::open(address, None, slot).unwrap();
        let _accepted = listener.accept().unwrap();
        pools.keep((id, false), connection, LATER);
        pools.close(&BTreeSet::new());
        assert_eq!(open.load(Relaxed), 1);
        pools.close(&[id].into());
        assert!(pools.last(id, None).is_none());
        assert_eq!(open.load(Relaxed), 0, "its slot is free");
    }

    #[test]
    fn a_server_that_leaves_is_swept_no_more_and_every_other_is_still() {
        let (mut ledger, pools) = (Ledger::default(), Pools::new());
        let ids = [1, 2, 3, 4].map(|port| {
            let address = ([127, 0, 0, 1], port).into();
            ledger.server("web", "near", address).id()
        });
        for id in ids {
            let pool = pools.pool(id, Arc::default());
            pools.pools.borrow_mut().push(Some(pool));
        }
        let known = || pools.known.borrow().iter().copied().collect::<BTreeSet<_>>();
        for gone in [1, 0, 3] {
            pools.close(&[ids[gone]].into());
            assert!(!known().contains(&ids[gone]));
            let all = pools.pools.borrow();
            for (place, id) in pools.known.borrow().iter().enumerate() {
                assert_eq!(all[id.index()].as_ref().map(|pool| pool.place), Some(place));
            }
        }
        assert_eq!(known(), BTreeSet::from([ids[2]]));
    }

    #[test]
    fn a_connection_on_which_something_happened_is_not_used_again() {
        let (listener, address, id) = server();
        let (pools, slot) = pools(id);
        let open = slot.open.clone();
        let connection = Connection::open(address, None, slot).unwrap();
        let (mut accepted, _) = listener.accept().unwrap();
        accepted.write_all(b"HTTP/1.1 408 Request Timeout\r\n\r\n").unwrap();
        pools.keep((id, false), connection, LATER);
        assert!(pools.last(id, None).is_none());
        assert_eq!(open.load(Relaxed), 0, "its slot is free");
    }
}
