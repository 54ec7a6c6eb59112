//! Every listener of the process: its sockets, who takes them in, and how a reload changes them.
//!
//! ```text
//! listeners of a file --prepare--> Change (bound, silent) --commit--> sockets to the workers
//!                        '--> refused, and nothing has changed
//! ```
//! A listener that stays keeps its sockets, so no connection on its way is lost. One that speaks
//! another protocol now keeps them too, with another handle: older connections go on as before.
//! A new one is bound before anything changes, and listens when everything else has succeeded.
//! Sockets can come with the process ([`Inherited`]), and can be passed on.

use std::{
    io,
    net::{SocketAddr, TcpListener},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use loadline_core::{
    fleet::{Listener, Protocol},
    time::Instant,
};
use socket2::SockRef;

use crate::listener::{
    accept::{BACKLOG, BindError, bind},
    handle::{ConnectionLimit, ListenerHandle, ListenerKey},
    inherited::Inherited,
    syscalls::defer_accept,
};

/// The listeners of a process.
#[derive(Debug, Default)]
pub(crate) struct Listeners {
    entries: Vec<Entry>,
    limit: Arc<ConnectionLimit>,
    /// What closed lately: a worker may still hold a socket of it.
    closed: Vec<(SocketAddr, Vec<Weak<TcpListener>>)>,
    inboxes: Vec<Arc<Inbox>>,
}

/// One listener.
#[derive(Clone, Debug)]
struct Entry {
    listener: Arc<ListenerHandle>,
    mode: ListenerMode,
    /// Where it is bound.
    address: SocketAddr,
    sockets: Vec<Arc<TcpListener>>,
}

/// What a connection is to the listener it came by; fixed when it is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ListenerMode {
    protocol: Protocol,
    accept_proxy: bool,
}

/// What one worker is to accept connections from.
#[derive(Debug, Default)]
pub(crate) struct Inbox(Mutex<Vec<Opened>>);

/// A listener, and a socket to accept its connections from.
pub(crate) type Opened = (Arc<ListenerHandle>, Arc<TcpListener>);

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
            HandoverSockets { bind, nth, sockets: entry.sockets.clone() }
        };
        self.entries.iter().map(pass).collect()
    }

    /// Makes ready what `listeners` ask for and is not there, of sockets that were inherited where
    /// there are some.
    ///
    /// # Errors
    /// [`BindError`] for the first address that cannot be had.
    pub(crate) fn prepare(
        &mut self,
        listeners: &[Listener],
        inherited: &mut Inherited,
    ) -> Result<Change, BindError> {
        let mut change = Change { entries: Vec::new(), opened: Vec::new() };
        for (index, (listener, key)) in listeners.iter().zip(ListenerKey::of(listeners)).enumerate()
        {
            let Listener { protocol, accept_proxy, .. } = *listener;
            let mode = ListenerMode { protocol, accept_proxy };
            let known = self.entries.iter().find(|entry| entry.listener.key == key);
            let known = known.cloned();
            if let Some(entry) = known.as_ref().filter(|entry| entry.mode == mode) {
                change.entries.push(entry.clone());
                continue;
            }
            let (address, sockets) = match known {
                Some(entry) => (entry.address, entry.sockets),
                None => self.sockets(key, inherited).map_err(BindError::at(key.bind))?,
            };
            let handle = Arc::new(ListenerHandle::new(index, key, &self.limit));
            change.opened.push(index);
            change.entries.push(Entry { listener: handle, mode, address, sockets });
        }
        change.listen()?;
        Ok(change)
    }

    /// Sockets for a listener that is not there: inherited, about to be closed, or new.
    fn sockets(
        &mut self,
        key: ListenerKey,
        inherited: &mut Inherited,
    ) -> io::Result<(SocketAddr, Vec<Arc<TcpListener>>)> {
        let mut found = inherited.take(key);
        if let Some((_, closing)) = self.closed.iter().find(|(address, _)| *address == key.bind) {
            found.extend(closing.iter().filter_map(Weak::upgrade));
        }
        if let Some(first) = found.first() {
            return Ok((first.local_addr()?, found));
        }
        // The check whether somebody else is there would find ourselves.
        let port = key.bind.port();
        let is_ours = port != 0 && self.entries.iter().any(|entry| entry.address.port() == port);
        let (address, sockets) = bind(key.bind, self.inboxes.len().max(1), is_ours)?;
        Ok((address, sockets.into_iter().map(Arc::new).collect()))
    }

    /// Lets so many clients in at a time, through all listeners.
    pub(crate) fn limit(&self, max: Option<u32>) {
        self.limit.limit(max.unwrap_or(u32::MAX));
    }

    /// Hands what is new to the workers, and closes what is no longer there at `deadline`.
    pub(crate) fn commit(&mut self, change: Change, deadline: Instant) {
        let Change { entries, opened } = change;
        self.closed.retain(|(_, sockets)| sockets.iter().any(|it| it.strong_count() > 0));
        for gone in self.entries.drain(..) {
            if entries.iter().any(|entry| Arc::ptr_eq(&entry.listener, &gone.listener)) {
                continue;
            }
            gone.listener.close(deadline);
            self.closed.push((gone.address, gone.sockets.iter().map(Arc::downgrade).collect()));
        }
        self.entries = entries;
        for index in opened {
            self.hand_out(&self.entries[index]);
        }
    }

    /// Gives the sockets up. Those that workers accept from close with them, unless another process
    /// has them too.
    pub(crate) fn release(&mut self) {
        self.entries.iter_mut().for_each(|entry| entry.sockets.clear());
    }

    /// Every socket goes to a worker, and every worker gets one: some share where there are fewer.
    fn hand_out(&self, entry: &Entry) {
        let (workers, sockets) = (self.inboxes.len(), entry.sockets.len());
        if workers == 0 || sockets == 0 {
            return;
        }
        for pair in 0..workers.max(sockets) {
            let opened = (entry.listener.clone(), entry.sockets[pair % sockets].clone());
            self.inboxes[pair % workers].lock().push(opened);
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
    /// Takes out what passes `is_wanted`; what is closed already is forgotten.
    pub(crate) fn take(&self, is_wanted: impl Fn(&ListenerHandle) -> bool) -> Vec<Opened> {
        let mut waiting = self.lock();
        waiting.retain(|(handle, _)| handle.is_open());
        waiting.extract_if(.., |(handle, _)| is_wanted(handle)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Opened>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn listener(port: u16) -> Listener {
        Listener::new((Ipv4Addr::LOCALHOST, port).into(), 0)
    }

    /// Puts listeners in force; what each of two workers is to accept from then.
    fn put(listeners: &mut Listeners, wanted: &[Listener]) -> [Vec<Opened>; 2] {
        let change = listeners.prepare(wanted, &mut Inherited::default()).unwrap();
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
        assert_eq!(first[0].0.key.nth, 1);
        assert_eq!(listeners.addresses()[0].port(), port, "the old one stays where it was");
    }

    #[test]
    fn one_address_that_cannot_be_had_leaves_everything_as_it_was() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = taken.local_addr().unwrap().port();
        let mut listeners = Listeners::new(2);
        let opened = put(&mut listeners, &[listener(0)]);
        let before = listeners.addresses();
        let wrong = [listener(0), listener(0), listener(port)];
        let error = listeners.prepare(&wrong, &mut Inherited::default()).unwrap_err();
        assert!(error.to_string().contains(&port.to_string()), "{error}");
        assert_eq!(listeners.addresses(), before);
        assert!(opened[0][0].0.is_open());
        assert!(listeners.inboxes()[0].take(|_| true).is_empty());
    }

    #[test]
    fn what_is_taken_out_closes_and_comes_back_on_the_sockets_that_are_left() {
        let mut listeners = Listeners::new(2);
        let [first, second] = put(&mut listeners, &[listener(0)]);
        let port = listeners.addresses()[0].port();
        // The same address by its number, as a file would say it.
        let [_, _] = put(&mut listeners, &[]);
        assert!(!first[0].0.is_open());
        let [again, _] = put(&mut listeners, &[listener(port)]);
        assert!(!Arc::ptr_eq(&first[0].0, &again[0].0), "another handle");
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
        assert!(!first[0].0.is_open() && changed[0].0.is_open());
        assert!(Arc::ptr_eq(&first[0].1, &changed[0].1));
    }
}
