//! A fetch: a request of the cache's own, for whoever reads what it brings.
//!
//! It is an exchange like any other, with its permit, its class and its place in the queue; its
//! client is nobody. It goes on when whoever asked for it has left, unless what it brings cannot be
//! stored. When it ends, however that is, all who wait for it are free.

use std::{cell::RefCell, net::SocketAddr, rc::Rc, sync::Arc};

use loadline_core::{
    cache::{Fields, Settings},
    decide::{ending::Ending, ledger::ServerId, overflow_reason::OverflowReason},
    time::UnixTime,
};
use tokio::task::spawn_local;

use super::{
    arrival::{Arrival, Failed},
    object::{Object, Response},
    store::{Key, Store},
    sweeps::Closed,
    wanted::{Wanted, request_fields, write_fetch},
};
use crate::{
    http::{exchange::Exchange, request::Request},
    io::{peer::Peer, socket::Socket},
    listener::handle::ListenerHandle,
    runtime::{clock::Clock, timer::Timer, view::View, worker::Worker},
    telemetry::access_log::Times,
};

/// What a fetch is for, and what it has brought so far.
#[derive(Debug)]
pub(crate) struct Fetch {
    pub(super) store: Arc<Store>,
    pub(super) clock: Clock,
    pub(super) arrival: Arc<Arrival>,
    pub(super) wanted: Wanted,
    /// What is stored, and whether that is to be validated rather than replaced.
    pub(super) stored: Option<(Arc<Object>, bool)>,
    /// Keys by which others join the fetch.
    pub(super) keys: RefCell<[Option<Key>; 2]>,
    /// Purges that had come when it began.
    pub(super) epoch: u64,
    /// The `Range` of whoever it was begun for.
    pub(super) range: Option<Box<[u8]>>,
}

/// Where a response came from, or was to come from.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Via {
    /// Index of the group, and the server.
    pub(crate) server: Option<(usize, SocketAddr)>,
    /// The number by which sessions know that server.
    pub(crate) id: Option<ServerId>,
    /// Why it is not of the nearest group.
    pub(crate) overflow: Option<OverflowReason>,
    /// Further attempts.
    pub(crate) retries: u32,
    /// Bytes at its beginning that were stored already.
    pub(crate) stored: u64,
    pub(crate) times: Times,
}

/// A fetch that is about to begin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start<'a> {
    pub(crate) worker: &'a Rc<Worker>,
    pub(crate) listener: &'a Arc<ListenerHandle>,
    pub(crate) view: &'a Rc<View>,
    /// Whether nobody waits for it, so that it uses only spare capacity.
    pub(crate) in_background: bool,
}

impl Fetch {
    /// A fetch under this key.
    pub(crate) fn new(
        (store, clock): (&Arc<Store>, Clock),
        (key, arrival): (Key, Arc<Arrival>),
        wanted: &Wanted,
        stored: Option<(Arc<Object>, bool)>,
    ) -> Self {
        Self {
            epoch: store.epoch(),
            store: store.clone(),
            clock,
            arrival,
            wanted: wanted.clone(),
            stored,
            keys: RefCell::new([Some(key), None]),
            range: None,
        }
    }

    /// What the operator says of the cache.
    pub(super) fn settings(&self) -> &Settings {
        &self.wanted.caching().settings
    }

    /// What is stored and has to be validated.
    pub(super) fn validated(&self) -> Option<&Arc<Object>> {
        self.stored.as_ref().filter(|(_, validates)| *validates).map(|(object, _)| object)
    }

    /// Begins it, on behalf of `asked`.
    pub(crate) fn begin(mut self, start: Start<'_>, asked: &Request) {
        self.range = Fields(&request_fields(&asked.text)).first("range").map(Into::into);
        let mut request = Request {
            is_copy: start.in_background,
            offer: asked.offer,
            class: asked.class,
            session: asked.session,
            asked_path: asked.asked_path.clone(),
            received: start.worker.shared.clock.now(),
            ..asked.on_behalf(start.worker.buffers.take_text())
        };
        let stored = self.validated().cloned();
        let stored = stored.as_ref().map(|stored| stored.response.fields());
        write_fetch(&asked.text, &self.wanted, stored.as_deref(), &mut request.text);
        request.fetch = Some(Rc::new(self));
        let (worker, listener) = (start.worker.clone(), start.listener.clone());
        let view = start.view.clone();
        spawn_local(async move { run(request, &worker, &listener, &view).await });
    }

    /// Keeps `bytes` more of the body whole, if there is memory for it.
    pub(super) fn reserve(&self, bytes: u64) -> bool {
        self.store.reserve(bytes).map(|more| self.arrival.reserve(more)).is_some()
    }

    /// Lets those join who ask for the same by the key of its response. Where it is closed nobody
    /// joins, and what is stored keeps its place: it may be newer.
    pub(super) fn share(&self, response: &Response) {
        let mut keys = self.keys.borrow_mut();
        let [Some(first), other] = &mut *keys else { return };
        if !self.store.is_open(first, &self.arrival) {
            return;
        }
        let key = self.store.place(&self.wanted.url, response);
        if *first != key && self.store.share(first, &key, &self.arrival) {
            *other = Some(key);
        }
    }

    /// The key by which it is joined: that of its response, once that is known.
    pub(super) fn key(&self) -> Option<Key> {
        self.keys.borrow().iter().rev().flatten().next().cloned()
    }

    /// Marks its end; none if somebody has closed it, since what it brings is not to be stored. It
    /// is closed once that is stored: who comes meanwhile has to find it or what it has brought.
    /// What was begun before it for the same is closed now.
    pub(super) fn ended(&self) -> Option<Closed> {
        let keys = self.keys.borrow();
        let ended = keys.iter().flatten().map(|key| self.store.ended(key, &self.arrival));
        ended.reduce(|first, second| first.filter(|_| second.is_some())).flatten()
    }

    /// Lets nobody join any more; none if somebody saw to that before, since what it brings is not
    /// to be stored.
    pub(super) fn close(&self) -> Option<Closed> {
        let keys = self.keys.take();
        let closed = keys.iter().flatten().map(|key| self.store.close(key, &self.arrival));
        closed.reduce(|first, second| first.filter(|_| second.is_some())).flatten()
    }

    fn end(&self, failed: Failed, via: Via) {
        self.close();
        self.arrival.fail(failed, via);
    }
}

impl Drop for Fetch {
    /// Cut on its way, unless it has ended.
    fn drop(&mut self) {
        self.end(Failed { ending: Ending::Drained, reason: None }, Via::default());
    }
}

async fn run(
    request: Request,
    worker: &Rc<Worker>,
    listener: &Arc<ListenerHandle>,
    view: &Rc<View>,
) {
    let (Some(listener_context), Some(fetch)) =
        (view.listener_context(listener), request.fetch.clone())
    else {
        return;
    };
    let timer = Timer::here(&worker.timers).await;
    let mut nobody = Peer::new(Socket::NOBODY);
    let at = (worker, listener, view, listener_context);
    let mut exchange = Exchange::new(at, (&mut nobody, &timer), Box::new(request));
    exchange.run_unless_cut().await;
    let record = &exchange.record;
    let ending = record.ending.unwrap_or(Ending::Drained);
    fetch.end(Failed { ending, reason: record.reason }, exchange.via());
}

/// The time of the wall clock.
pub(crate) fn unix_now() -> UnixTime {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let millis = since.unwrap_or_default().as_millis();
    UnixTime::from_millis(i64::try_from(millis).unwrap_or(i64::MAX))
}
