//! All listeners of the process: their sockets, which worker accepts from them, reloads.
//!
//! ```text
//! listeners of a file --prepare--> Change (bound, silent) --commit--> sockets to the workers
//!                        '--> refused, and nothing has changed
//! ```
//! A listener that stays keeps its sockets, so no connection on its way is lost. One that speaks
//! another protocol now keeps them too, with another handle: older connections go on as before. So
//! does one that asks clients for other certificates.
//! A new one is bound before anything changes, and listens when everything else has succeeded.
//! Sockets can come with the process ([`Inherited`]), and can be passed on.

use std::{
    collections::{HashMap, HashSet},
    io,
    net::{SocketAddr, TcpListener},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use loadline_core::{
    fleet::{Listener, Protocol},
    time::Instant,
};
use rustix::process::geteuid;
use socket2::SockRef;

use crate::{
    http3::{HandoverQuic, QuicSockets, Slot},
    listener::{
        accept::{BACKLOG, BindError, bind},
        clients::Clients,
        handle::{Acceptor, ConnectionLimit, ListenerHandle, ListenerKey},
        inherited::Inherited,
        syscalls::defer_accept,
    },
    tls::Keys,
};

/// The listeners of a process.
#[derive(Debug, Default)]
pub(crate) struct Listeners {
    entries: Vec<Entry>,
    limit: Arc<ConnectionLimit>,
    /// What closed lately: a worker may still hold a socket of it.
    closed: Vec<Closed>,
    inboxes: Vec<Arc<Inbox>>,
    /// Clients by listener, while any connection of it is open.
    clients: Vec<(ListenerKey, Weak<Clients>)>,
}

/// One listener.
#[derive(Clone, Debug)]
struct Entry {
    listener: Arc<ListenerHandle>,
    mode: ListenerMode,
    /// Where it is bound.
    address: SocketAddr,
    sockets: Vec<Arc<TcpListener>>,
    /// Those of HTTP/3, where it can be served beside.
    quic: Option<Arc<QuicSockets>>,
}

/// The sockets of a listener that is no longer there.
#[derive(Debug)]
struct Closed {
    listener: Weak<ListenerHandle>,
    address: SocketAddr,
    sockets: Vec<Weak<TcpListener>>,
    quic: Weak<QuicSockets>,
}

impl Closed {
    /// Whether a worker accepts from it still, and has its socket.
    fn is_accepted_from(&self) -> bool {
        self.listener.upgrade().is_some_and(|listener| listener.is_accepted_from())
    }
}

/// Properties of a listener that a connection keeps from its acceptance.
#[derive(Clone, Debug)]
struct ListenerMode {
    protocol: Protocol,
    accept_proxy: bool,
    /// The authorities of clients' certificates, and whether every client has one.
    clients: Option<(Authorities, bool)>,
}

/// Authorities of clients' certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Authorities {
    file: String,
    /// Of what was in the file.
    digest: Option<Vec<u8>>,
}

impl ListenerMode {
    /// That of a listener whose file of authorities has this digest.
    fn of(listener: &Listener, digest: Option<&[u8]>) -> Self {
        let Listener { protocol, accept_proxy, .. } = *listener;
        let check = listener.tls.as_ref().and_then(|tls| tls.clients.as_ref());
        let clients = check.map(|check| {
            let digest = digest.map(<[u8]>::to_vec);
            (Authorities { file: check.authorities.clone(), digest }, check.required)
        });
        Self { protocol, accept_proxy, clients }
    }

    /// Whether connections are kept when the listener becomes `next`: not those of clients without
    /// a certificate that is then required.
    fn is_kept_by(&self, next: &Self) -> bool {
        let is_shown = match (&self.clients, &next.clients) {
            (_, None) => true,
            (None, Some((_, required))) => !required,
            (Some((before, had)), Some((now, required))) => before == now && (*had || !required),
        };
        is_shown && (self.protocol, self.accept_proxy) == (next.protocol, next.accept_proxy)
    }
}

/// Sockets for one worker to accept from.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    accepting: Mutex<Vec<Opened<Arc<TcpListener>>>>,
    quic: Mutex<Vec<Opened<Slot>>>,
}

/// A listener, and a socket to accept its connections from.
type Opened<S> = (Arc<ListenerHandle>, S);

/// The same for a worker that accepts from it now.
pub(crate) type Accepted<S> = (Acceptor, S);

/// Other listeners, ready to be put in force. Dropping it changes nothing.
#[derive(Debug)]
pub(crate) struct Change {
    entries: Vec<Entry>,
    /// Indices of those that workers do not accept from yet.
    opened: Vec<usize>,
}

/// The sockets of one listener, for whoever takes them over.
#[derive(Clone, Debug)]
pub struct HandoverSockets {
    /// The address of the file; the port may be 0.
    pub bind: SocketAddr,
    /// How many listeners with the same address come before it.
    pub nth: usize,
    /// Its sockets.
    pub sockets: Vec<Arc<TcpListener>>,
    /// Those of HTTP/3.
    pub quic: Option<HandoverQuic>,
}

impl Listeners {
    /// No listeners yet, for this many workers.
    pub(crate) fn new(workers: usize) -> Self {
        let inboxes = (0..workers).map(|_| Arc::default()).collect();
        Self { inboxes, ..Self::default() }
    }

    /// What each worker is to accept from, in their order.
    pub(crate) fn inboxes(&self) -> &[Arc<Inbox>] {
        &self.inboxes
    }

    /// The bound addresses, in the order of the listeners.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.entries.iter().map(|entry| entry.address).collect()
    }

    /// The sockets of all listeners.
    pub(crate) fn passed(&self) -> Vec<HandoverSockets> {
        let pass = |entry: &Entry| {
            let ListenerKey { bind, nth } = entry.listener.key;
            let quic = entry.quic.as_ref().and_then(|quic| quic.pass_on());
            HandoverSockets { bind, nth, sockets: entry.sockets.clone(), quic }
        };
        self.entries.iter().map(pass).collect()
    }

    /// Makes ready what `listeners`, whose TLS is that of `keys`, ask for and is not there, of
    /// sockets that were inherited where there are some.
    ///
    /// # Errors
    /// [`BindError`] for the first address that cannot be had.
    pub(crate) fn prepare(
        &mut self,
        listeners: &[Listener],
        keys: &Keys,
        inherited: &mut Inherited,
    ) -> Result<Change, BindError> {
        let mut change = Change { entries: Vec::new(), opened: Vec::new() };
        let places = self.entries.iter().enumerate().map(|(at, it)| (it.listener.key, at));
        let places: HashMap<ListenerKey, usize> = places.collect();
        for (index, (listener, key)) in listeners.iter().zip(ListenerKey::of(listeners)).enumerate()
        {
            let mode = ListenerMode::of(listener, keys.client_authorities(key));
            let known = places.get(&key).map(|at| self.entries[*at].clone());
            if let Some(entry) = known.as_ref().filter(|entry| entry.mode.is_kept_by(&mode)) {
                change.entries.push(Entry { mode, ..entry.clone() });
                continue;
            }
            let (address, sockets, quic) = match known {
                Some(entry) => (entry.address, entry.sockets, entry.quic),
                None => {
                    let sockets = self.sockets(key, inherited);
                    let (address, sockets) = sockets.map_err(BindError::at(key.bind))?;
                    (address, sockets, None)
                }
            };
            let quic = quic.or_else(|| self.quic(key, address, inherited));
            let quic = quic.filter(|_| mode.protocol == Protocol::Https);
            if listener.serves_http3() {
                open_quic(quic.as_deref());
            }
            let clients = self.clients(key);
            let handle = Arc::new(ListenerHandle::new((index, key), &self.limit, clients));
            change.opened.push(index);
            change.entries.push(Entry { listener: handle, mode, address, sockets, quic });
        }
        change.listen()?;
        Ok(change)
    }

    /// The clients of a listener, shared with its earlier configurations.
    fn clients(&mut self, key: ListenerKey) -> Arc<Clients> {
        self.clients.retain(|(_, clients)| clients.strong_count() > 0);
        let known = self.clients.iter().find(|(of, _)| *of == key);
        known.and_then(|(_, clients)| clients.upgrade()).unwrap_or_else(|| {
            let new = Arc::default();
            self.clients.push((key, Arc::downgrade(&new)));
            new
        })
    }

    /// Sockets for a listener that is not there: inherited, about to be closed, or new.
    fn sockets(
        &mut self,
        key: ListenerKey,
        inherited: &mut Inherited,
    ) -> io::Result<(SocketAddr, Vec<Arc<TcpListener>>)> {
        // Asked before its sockets are looked for: whoever accepts no more has closed them.
        let at_bind = |closed: &Closed| closed.address == key.bind && closed.is_accepted_from();
        let is_closing = self.closed.iter().any(at_bind);
        let mut found = inherited.take(key);
        if let Some(closing) = self.closed.iter().find(|closed| closed.address == key.bind) {
            found.extend(closing.sockets.iter().filter_map(Weak::upgrade));
        }
        if let Some(first) = found.first() {
            return Ok((first.local_addr()?, found));
        }
        // The check whether somebody else is there would find ourselves.
        let port = key.bind.port();
        let is_ours = port != 0 && self.entries.iter().any(|entry| entry.address.port() == port);
        let bound = bind(key.bind, self.inboxes.len().max(1), is_ours || is_closing);
        let (address, sockets) = bound.map_err(|error| self.explain(key.bind, error))?;
        Ok((address, sockets.into_iter().map(Arc::new).collect()))
    }

    /// Says where `bind` is in use by ourselves: only the user who bound a port can share it, which
    /// may have been another.
    fn explain(&self, bind: SocketAddr, error: io::Error) -> io::Error {
        let (ip, user) = (bind.ip(), geteuid().as_raw());
        let overlaps = |other: SocketAddr| {
            let is_any = ip.is_unspecified() || other.ip().is_unspecified();
            other.port() == bind.port() && (is_any || other.ip() == ip)
        };
        let is_of_another = |socket: &Arc<TcpListener>| {
            rustix::fs::fstat(&**socket).is_ok_and(|about| about.st_uid != user)
        };
        let first = self
            .entries
            .iter()
            .find(|entry| overlaps(entry.address) && entry.sockets.iter().any(is_of_another));
        let Some(first) = first.filter(|_| error.kind() == io::ErrorKind::AddrInUse) else {
            return error;
        };
        let why = format!(
            "{error}; it overlaps {}, which was bound before the change to edge.user: restart",
            first.address
        );
        io::Error::new(error.kind(), why)
    }

    /// UDP sockets for such a listener: inherited, about to be closed, or to be bound.
    fn quic(
        &self,
        key: ListenerKey,
        address: SocketAddr,
        inherited: &mut Inherited,
    ) -> Option<Arc<QuicSockets>> {
        let passed = inherited.take_quic(key);
        let passed = passed.and_then(|passed| QuicSockets::passed_on(address, passed));
        let closing = || {
            let closed = self.closed.iter().find(|closed| closed.address == address)?;
            closed.quic.upgrade()
        };
        let new = || Arc::new(QuicSockets::new(address, self.inboxes.len().max(1)));
        Some(passed.map(Arc::new).or_else(closing).unwrap_or_else(new))
    }

    /// Lets so many clients in at a time, through all listeners.
    pub(crate) fn limit(&self, max: Option<u32>) {
        self.limit.limit(max.unwrap_or(u32::MAX));
    }

    /// Hands what is new to the workers, and closes what is no longer there at `deadline`.
    pub(crate) fn commit(&mut self, change: Change, deadline: Instant) {
        let Change { entries, opened } = change;
        self.closed.retain(|closed| {
            let is_accepting = closed.sockets.iter().any(|it| it.strong_count() > 0);
            is_accepting || closed.quic.strong_count() > 0
        });
        let staying: HashSet<usize> = entries.iter().map(|entry| entry.listener.id()).collect();
        for gone in self.entries.drain(..) {
            if staying.contains(&gone.listener.id()) {
                continue;
            }
            gone.listener.close(deadline);
            self.closed.push(Closed {
                listener: Arc::downgrade(&gone.listener),
                address: gone.address,
                sockets: gone.sockets.iter().map(Arc::downgrade).collect(),
                quic: gone.quic.as_ref().map(Arc::downgrade).unwrap_or_default(),
            });
        }
        self.inboxes.iter().for_each(|inbox| inbox.forget_closed());
        self.entries = entries;
        self.entries.iter().enumerate().for_each(|(at, entry)| entry.listener.move_to(at));
        for index in opened {
            self.hand_out(&self.entries[index]);
        }
    }

    /// The listeners that close, and that workers accept from still.
    pub(crate) fn closing(&self) -> Vec<Arc<ListenerHandle>> {
        let handles = self.closed.iter().filter_map(|closed| closed.listener.upgrade());
        handles.filter(|listener| listener.is_accepted_from()).collect()
    }

    /// All listeners, with those that close.
    pub(crate) fn handles(&self) -> Vec<Arc<ListenerHandle>> {
        let mut handles = self.closing();
        handles.extend(self.entries.iter().map(|entry| entry.listener.clone()));
        handles
    }

    /// Gives the sockets up. Those that workers accept from close with them, unless another process
    /// has them too.
    pub(crate) fn release(&mut self) {
        for entry in &mut self.entries {
            entry.sockets.clear();
            entry.quic = None;
        }
    }

    /// Has new clients of HTTP/3 come here; they wait until workers take them in.
    pub(crate) fn reserve(&self) {
        self.entries.iter().filter_map(|entry| entry.quic.as_ref()).for_each(|quic| quic.reserve());
    }

    /// Goes on after a process that was to follow did not serve.
    pub(crate) fn reclaim(&self) {
        self.entries.iter().filter_map(|entry| entry.quic.as_ref()).for_each(|quic| quic.reclaim());
    }

    /// Every socket goes to a worker, and every worker gets one: some share where there are fewer.
    fn hand_out(&self, entry: &Entry) {
        let (workers, sockets) = (self.inboxes.len(), entry.sockets.len());
        if workers == 0 || sockets == 0 {
            return;
        }
        for pair in 0..workers.max(sockets) {
            let opened = (entry.listener.clone(), entry.sockets[pair % sockets].clone());
            lock(&self.inboxes[pair % workers].accepting).push(opened);
        }
        for slot in 0..entry.quic.as_ref().map_or(0, |quic| quic.slots()) {
            let opened = entry.quic.clone().map(|quic| (entry.listener.clone(), (quic, slot)));
            lock(&self.inboxes[slot % workers].quic).extend(opened);
        }
    }
}

impl Change {
    /// Lets connections come to what is new. They wait until workers take them in.
    fn listen(&self) -> Result<(), BindError> {
        for entry in self.opened.iter().map(|index| &self.entries[*index]) {
            let client_first = entry.mode.protocol != Protocol::Tcp || entry.mode.accept_proxy;
            for socket in &entry.sockets {
                let listening = defer_accept(&**socket, client_first)
                    .and_then(|()| SockRef::from(&**socket).listen(BACKLOG));
                listening.map_err(BindError::at(entry.listener.key.bind))?;
            }
        }
        Ok(())
    }
}

impl Inbox {
    /// Takes out what passes `is_wanted`.
    pub(crate) fn take(
        &self,
        is_wanted: impl Fn(&ListenerHandle) -> bool,
    ) -> Vec<Accepted<Arc<TcpListener>>> {
        take(&self.accepting, is_wanted)
    }

    /// The same of HTTP/3.
    pub(crate) fn take_quic(
        &self,
        is_wanted: impl Fn(&ListenerHandle) -> bool,
    ) -> Vec<Accepted<Slot>> {
        take(&self.quic, is_wanted)
    }

    /// Forgets what has closed before a worker took it.
    fn forget_closed(&self) {
        lock(&self.accepting).retain(|(listener, _)| listener.is_open());
        lock(&self.quic).retain(|(listener, _)| listener.is_open());
    }
}

fn take<S>(
    waiting: &Mutex<Vec<Opened<S>>>,
    is_wanted: impl Fn(&ListenerHandle) -> bool,
) -> Vec<Accepted<S>> {
    let mut waiting = lock(waiting);
    let wanted = waiting.extract_if(.., |(handle, _)| is_wanted(handle));
    // Under the lock: of what closes meanwhile either this is waited for, or nothing was taken.
    wanted.map(|(handle, socket)| (Acceptor::of(handle), socket)).collect()
}

fn lock<T>(waiting: &Mutex<T>) -> MutexGuard<'_, T> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Binds them now, while the process may bind low ports; a worker tries again where it fails.
fn open_quic(quic: Option<&QuicSockets>) {
    if let Some(Err(error)) = quic.map(QuicSockets::open) {
        tracing::debug!(%error, "no UDP port yet");
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn listener(port: u16) -> Listener {
        Listener::new((Ipv4Addr::LOCALHOST, port).into(), 0)
    }

    type Taken = Accepted<Arc<TcpListener>>;

    /// Puts listeners in force; what each of two workers is to accept from then.
    fn put(listeners: &mut Listeners, wanted: &[Listener]) -> [Vec<Taken>; 2] {
        let change =
            listeners.prepare(wanted, &Keys::default(), &mut Inherited::default()).unwrap();
        listeners.commit(change, Instant::ZERO);
        let inboxes = listeners.inboxes();
        [0, 1].map(|worker| inboxes[worker].take(|_| true))
    }

    #[test]
    fn each_worker_gets_a_socket_of_each_new_listener_and_nothing_of_the_others() {
        let mut listeners = Listeners::new(2);
        let [first, second] = put(&mut listeners, &[listener(0)]);
        let port = listeners.addresses()[0].port();
        assert_eq!(first.len(), 1);
        assert!(!Arc::ptr_eq(&first[0].1, &second[0].1), "sockets of their own");
        let [first, _second] = put(&mut listeners, &[listener(0), listener(0)]);
        assert_eq!(first.len(), 1, "the old one is not handed out again");
        assert_eq!(first[0].0.listener.key.nth, 1);
        assert_eq!(listeners.addresses()[0].port(), port, "the old one stays where it was");
    }

    #[test]
    fn a_listener_is_known_where_it_is_behind_one_that_is_inserted() {
        let mut listeners = Listeners::new(2);
        let [first, _] = put(&mut listeners, &[listener(0)]);
        let other = Listener::new((Ipv4Addr::new(127, 0, 0, 2), 0).into(), 0);
        let [second, _] = put(&mut listeners, &[other, listener(0)]);
        assert_eq!([&first, &second].map(|opened| opened[0].0.listener.hint()), [1, 0]);
    }

    #[test]
    fn one_address_that_cannot_be_had_leaves_everything_as_it_was() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = taken.local_addr().unwrap().port();
        let mut listeners = Listeners::new(2);
        let opened = put(&mut listeners, &[listener(0)]);
        let before = listeners.addresses();
        let wrong = [listener(0), listener(0), listener(port)];
        let prepared = listeners.prepare(&wrong, &Keys::default(), &mut Inherited::default());
        let error = prepared.unwrap_err();
        assert!(error.to_string().contains(&port.to_string()), "{error}");
        assert_eq!(listeners.addresses(), before);
        assert!(opened[0][0].0.listener.is_open());
        assert!(listeners.inboxes()[0].take(|_| true).is_empty());
    }

    #[test]
    fn what_is_taken_out_closes_and_comes_back_on_the_sockets_that_are_left() {
        let mut listeners = Listeners::new(2);
        let [first, second] = put(&mut listeners, &[listener(0)]);
        let port = listeners.addresses()[0].port();
        // The same address by its number, as a file would say it.
        let [_, _] = put(&mut listeners, &[]);
        assert!(!first[0].0.listener.is_open());
        let [again, _] = put(&mut listeners, &[listener(port)]);
        assert!(!Arc::ptr_eq(&first[0].0.listener, &again[0].0.listener), "another handle");
        assert!(Arc::ptr_eq(&first[0].1, &again[0].1), "the same socket");
        drop((first, second, again));
        let [_, _] = put(&mut listeners, &[]);
        let [anew, _] = put(&mut listeners, &[listener(port)]);
        assert_eq!(anew.len(), 1);
    }

    #[test]
    fn another_protocol_is_another_handle_of_the_same_sockets() {
        let mut listeners = Listeners::new(2);
        let [first, _second] = put(&mut listeners, &[listener(0)]);
        let tcp = Listener { protocol: Protocol::Tcp, ..listener(0) };
        let [changed, _] = put(&mut listeners, &[tcp]);
        assert!(!first[0].0.listener.is_open() && changed[0].0.listener.is_open());
        assert!(Arc::ptr_eq(&first[0].1, &changed[0].1));
    }
}
