//! A listener as all workers share it: its identity in the file, its connections, and its end.
//!
//! States: *open*; *closing* since a reload took the listener out (no further connections; those
//! there are have one more request answered, or go on as they are, until a deadline); *cut* (what
//! is left has been closed). A listener never opens again: where the listener comes back it gets
//! another.

use std::{
    collections::HashMap,
    future::{Future, poll_fn},
    net::{IpAddr, SocketAddr},
    pin::{Pin, pin},
    sync::{
        Arc, OnceLock,
        atomic::{
            AtomicBool, AtomicU32, AtomicUsize,
            Ordering::{Relaxed, SeqCst},
        },
    },
    task::Poll,
};

use loadline_core::{fleet::Listener, rules::ClientKey, time::Instant};
use tokio::sync::Notify;

use crate::listener::clients::Clients;

/// Which listener of a file is meant. The address is enough to tell, but on port 0, where several
/// listeners may ask for the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ListenerKey {
    /// The address as configured; the port may be 0.
    pub(crate) bind: SocketAddr,
    /// How many listeners with the same address come before it.
    pub(crate) nth: usize,
}

impl ListenerKey {
    /// The keys of `listeners`, in their order.
    pub(crate) fn of(listeners: &[Listener]) -> impl Iterator<Item = Self> {
        let mut counts: HashMap<SocketAddr, usize> = HashMap::new();
        listeners.iter().map(move |listener| {
            let count = counts.entry(listener.bind).or_default();
            let nth = *count;
            *count += 1;
            Self { bind: listener.bind, nth }
        })
    }
}

/// A listener as all workers see it.
#[derive(Debug)]
pub(crate) struct ListenerHandle {
    pub(crate) key: ListenerKey,
    hint: AtomicUsize,
    connections: AtomicU32,
    limit: Arc<ConnectionLimit>,
    /// Shared with what the listener was before, and will be.
    pub(crate) clients: Arc<Clients>,
    /// A worker has a client for which there is no place, and nobody to displace for it.
    wanted: AtomicBool,
    /// When what is left of a closing listener is cut.
    deadline: OnceLock<Instant>,
    cut: AtomicBool,
    /// How many accept from it, over all workers.
    acceptors: AtomicUsize,
    /// Tells them that it closes.
    closes: Notify,
    /// Tells that none of them is left.
    abandoned: Notify,
    /// The line that offers HTTP/3 to clients of other versions, once it is served.
    alt_svc: OnceLock<Box<[u8]>>,
}

/// How many client connections there may be, over all listeners.
#[derive(Debug)]
pub(crate) struct ConnectionLimit {
    connections: AtomicU32,
    /// The most at a time.
    max: AtomicU32,
    /// Workers that wait for a place.
    waiting: AtomicU32,
    freed: Notify,
}

impl Default for ConnectionLimit {
    /// Nobody yet, and as many as like may come.
    fn default() -> Self {
        let (connections, waiting) = (AtomicU32::new(0), AtomicU32::new(0));
        Self { connections, max: AtomicU32::new(u32::MAX), waiting, freed: Notify::new() }
    }
}

impl ConnectionLimit {
    /// Lets so many in at a time from now on; those that are in stay.
    pub(crate) fn limit(&self, max: u32) {
        self.max.store(max, Relaxed);
        self.freed.notify_waiters();
    }

    /// Tells those who wait that a place may be free. Telling takes a lock that all workers share,
    /// so it is not done for nobody. Whoever waits says so before it looks for a place, and a place
    /// is given back before this is called: one of the two sees the other ([`SeqCst`]).
    fn tell_freed(&self) {
        if self.waiting.load(SeqCst) > 0 {
            self.freed.notify_waiters();
        }
    }
}

/// Somebody who waits for a place.
struct LimitWaiter<'a>(&'a ConnectionLimit);

impl<'a> LimitWaiter<'a> {
    fn at(limit: &'a ConnectionLimit) -> Self {
        limit.waiting.fetch_add(1, SeqCst);
        Self(limit)
    }
}

impl Drop for LimitWaiter<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, SeqCst);
    }
}

impl ListenerHandle {
    /// A listener without connections, for the listener that is number `hint`, and whose clients
    /// are part of this limit and each have what `clients` knows.
    pub(crate) fn new(
        (hint, key): (usize, ListenerKey),
        limit: &Arc<ConnectionLimit>,
        clients: Arc<Clients>,
    ) -> Self {
        Self {
            key,
            hint: AtomicUsize::new(hint),
            connections: AtomicU32::new(0),
            limit: limit.clone(),
            clients,
            wanted: AtomicBool::new(false),
            deadline: OnceLock::new(),
            cut: AtomicBool::new(false),
            acceptors: AtomicUsize::new(0),
            closes: Notify::new(),
            abandoned: Notify::new(),
            alt_svc: OnceLock::new(),
        }
    }

    /// Where among the listeners it is, but for a while after a reload.
    pub(crate) fn hint(&self) -> usize {
        self.hint.load(Relaxed)
    }

    /// Says where it is now.
    pub(crate) fn move_to(&self, index: usize) {
        self.hint.store(index, Relaxed);
    }

    /// Takes no more connections in, and cuts those that are left at `deadline`.
    pub(crate) fn close(&self, deadline: Instant) {
        // Where it closes already the first deadline holds.
        let _ = self.deadline.set(deadline);
        self.closes.notify_waiters();
    }

    /// Whether connections may come in.
    pub(crate) fn is_open(&self) -> bool {
        self.deadline.get().is_none()
    }

    /// When what is left is cut; none while it is open.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.deadline.get().copied()
    }

    /// Whether a worker accepts from it.
    pub(crate) fn is_accepted_from(&self) -> bool {
        self.acceptors.load(SeqCst) > 0
    }

    /// Waits until no worker accepts from it.
    pub(crate) async fn abandoned(&self) {
        loop {
            let mut told = pin!(self.abandoned.notified());
            told.as_mut().enable();
            if !self.is_accepted_from() {
                return;
            }
            told.await;
        }
    }

    /// Ends what came through it; each connection finds out when its task is woken.
    pub(crate) fn cut(&self) {
        self.cut.store(true, Relaxed);
    }

    /// Whether nothing that came through it may go on.
    pub(crate) fn is_cut(&self) -> bool {
        self.cut.load(Relaxed)
    }

    /// Lets clients know that HTTP/3 is served at `port`.
    pub(crate) fn offer_http3(&self, port: u16) {
        let line = format!("Alt-Svc: h3=\":{port}\"; ma={ALT_SVC_SECS}\r\n");
        self.alt_svc.get_or_init(|| line.into_bytes().into());
    }

    /// The line that offers HTTP/3 (RFC 7838); empty where it is not served.
    pub(crate) fn alt_svc(&self) -> &[u8] {
        self.alt_svc.get().map_or(b"", |line| line)
    }

    /// Tells it from others for as long as it lives.
    pub(crate) fn id(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Asks whichever worker can to make room for a connection, or says that it is made.
    pub(crate) fn want_room(&self, wanted: bool) {
        self.wanted.store(wanted, Relaxed);
    }

    /// Whether a worker has been asked to make room.
    pub(crate) fn wants_room(&self) -> bool {
        self.wanted.load(Relaxed)
    }

    /// A place for one more connection under `max` and under the limit for all, if there is one.
    pub(crate) fn try_enter(self: &Arc<Self>, max: u32) -> Option<ConnectionGuard> {
        if !take(&self.connections, max) {
            return None;
        }
        if !take(&self.limit.connections, self.limit.max.load(Relaxed)) {
            self.connections.fetch_sub(1, SeqCst);
            return None;
        }
        Some(ConnectionGuard { listener: self.clone(), client: None })
    }

    /// A place beyond all limits, for whoever the kernel has let in already.
    pub(crate) fn enter_anyway(self: &Arc<Self>) -> ConnectionGuard {
        self.connections.fetch_add(1, Relaxed);
        self.limit.connections.fetch_add(1, Relaxed);
        ConnectionGuard { listener: self.clone(), client: None }
    }

    /// Waits until a connection may be taken in.
    pub(crate) async fn enter(self: &Arc<Self>, max: u32) -> ConnectionGuard {
        let _waits = LimitWaiter::at(&self.limit);
        loop {
            let mut freed = pin!(self.limit.freed.notified());
            freed.as_mut().enable();
            if let Some(pass) = self.try_enter(max) {
                return pass;
            }
            freed.await;
        }
    }
}

fn take(places: &AtomicU32, max: u32) -> bool {
    let more = |count| (count < max).then_some(count + 1);
    places.fetch_update(SeqCst, SeqCst, more).is_ok()
}

/// Who accepts from a listener on one worker, and is waited for when it closes.
#[derive(Debug)]
pub(crate) struct Acceptor {
    pub(crate) listener: Arc<ListenerHandle>,
}

impl Acceptor {
    /// One more of a listener.
    pub(crate) fn of(listener: Arc<ListenerHandle>) -> Self {
        listener.acceptors.fetch_add(1, SeqCst);
        Self { listener }
    }

    /// Has the task that awaits this woken when the listener closes, as long as what it gives is
    /// kept. It need not be polled: that would take a lock of all workers for each connection.
    pub(crate) async fn wake_at_close(&self) -> Pin<Box<dyn Future<Output = ()> + '_>> {
        let mut closes = Box::pin(self.listener.closes.notified());
        poll_fn(|cx| Poll::Ready(closes.as_mut().poll(cx).is_ready())).await;
        closes
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        if self.listener.acceptors.fetch_sub(1, SeqCst) == 1 {
            self.listener.abandoned.notify_waiters();
        }
    }
}

/// One connection's place under the limits of its listener and of all.
#[derive(Debug)]
pub(crate) struct ConnectionGuard {
    pub(crate) listener: Arc<ListenerHandle>,
    /// Its client, where connections per client are limited. Boxed, since it mostly is none.
    client: Option<Box<ClientKey>>,
}

impl ConnectionGuard {
    /// Counts it as one of the client with this address, if `listener` limits them; false where
    /// the client has as many as it may.
    #[must_use]
    pub(crate) fn enter_client(&mut self, listener: &Listener, address: IpAddr) -> bool {
        let Some(max) = listener.max_connections_of(address) else { return true };
        let client = ClientKey::of(address);
        let has_entered = self.listener.clients.try_enter(client, max);
        self.client = has_entered.then(|| Box::new(client));
        has_entered
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        if let Some(client) = &self.client {
            self.listener.clients.leave(**client);
        }
        self.listener.connections.fetch_sub(1, SeqCst);
        self.listener.limit.connections.fetch_sub(1, SeqCst);
        self.listener.limit.tell_freed();
    }
}

/// How long a client remembers the offer: a day.
const ALT_SVC_SECS: u32 = 86_400;

#[cfg(test)]
mod tests {
    use std::{
        net::Ipv4Addr,
        task::{Context, Wake, Waker},
    };

    use super::*;

    fn key() -> ListenerKey {
        ListenerKey { bind: (Ipv4Addr::LOCALHOST, 0).into(), nth: 0 }
    }

    #[tokio::test]
    async fn at_the_limit_the_next_one_waits_for_a_place() {
        let handle = Arc::new(ListenerHandle::new((0, key()), &Arc::default(), Arc::default()));
        let pass = handle.enter(1).await;
        assert!(handle.try_enter(1).is_none());
        let mut next = pin!(handle.enter(1));
        let now = poll_fn(|cx| Poll::Ready(next.as_mut().poll(cx).is_ready())).await;
        assert!(!now);
        drop(pass);
        next.await;
    }

    #[tokio::test]
    async fn a_connection_that_closes_takes_no_lock_of_all_workers_where_nobody_waits() {
        let handle = Arc::new(ListenerHandle::new((0, key()), &Arc::default(), Arc::default()));
        // It hears of every call from here on, though it has not been polled.
        let mut told = pin!(handle.limit.freed.notified());
        drop(handle.enter(1).await);
        let is_told = poll_fn(|cx| Poll::Ready(told.as_mut().poll(cx).is_ready())).await;
        assert!(!is_told);
    }

    #[tokio::test]
    async fn a_place_at_one_listener_is_one_less_at_all() {
        let limit = Arc::<ConnectionLimit>::default();
        let listener = |hint| ListenerHandle::new((hint, key()), &limit, Arc::default());
        let listeners = [0, 1].map(|hint| Arc::new(listener(hint)));
        limit.limit(1);
        let pass = listeners[0].enter(9).await;
        assert!(listeners[1].try_enter(9).is_none() && listeners[0].try_enter(9).is_none());
        let mut next = pin!(listeners[1].enter(9));
        let now = poll_fn(|cx| Poll::Ready(next.as_mut().poll(cx).is_ready())).await;
        assert!(!now);
        drop(pass);
        drop(next.await);
        assert!(listeners[0].try_enter(9).is_some(), "who was refused holds no place");
    }

    #[derive(Default)]
    struct Woken(AtomicU32);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, SeqCst);
        }
    }

    #[test]
    fn who_accepts_from_a_listener_is_woken_when_it_closes_and_waited_for() {
        let handle = Arc::new(ListenerHandle::new((0, key()), &Arc::default(), Arc::default()));
        let acceptors = [(); 2].map(|()| Acceptor::of(handle.clone()));
        let wakers = [(); 2].map(|()| Arc::new(Woken::default()));
        let mut kept = Vec::new();
        for (acceptor, woken) in acceptors.iter().zip(&wakers) {
            let waker = Waker::from(woken.clone());
            match pin!(acceptor.wake_at_close()).poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(closes) => kept.push(closes),
                Poll::Pending => panic!("it waits for nothing"),
            }
        }
        handle.close(Instant::ZERO);
        assert_eq!([0, 1].map(|of| wakers[of].0.load(SeqCst)), [1, 1]);
        drop(kept);
        let mut abandoned = pin!(handle.abandoned());
        let mut is_over =
            || abandoned.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
        let [first, second] = acceptors;
        assert!(!is_over());
        drop(first);
        assert!(!is_over());
        drop(second);
        assert!(is_over());
    }

    #[test]
    fn listeners_on_port_0_are_told_apart_by_their_order() {
        let any = Listener::new(key().bind, 0);
        let other = Listener::new((Ipv4Addr::LOCALHOST, 80).into(), 0);
        let keys: Vec<ListenerKey> = ListenerKey::of(&[any.clone(), other.clone(), any]).collect();
        assert_eq!(keys[0], key());
        assert_eq!(keys[1], ListenerKey { bind: other.bind, nth: 0 });
        assert_eq!(keys[2], ListenerKey { nth: 1, ..key() });
    }
}
