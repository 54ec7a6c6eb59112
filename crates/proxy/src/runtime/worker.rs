//! One thread of the proxy: its runtime, its sessions, and what they share.
//!
//! Everything here belongs to one thread and is reached through cells, never through a lock.
//! Workers have nothing in common but [`Shared`]: there, behind a lock, lie connections that are
//! kept to far servers (`idle.rs`).

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, BTreeSet},
    net::{SocketAddr, TcpListener},
    rc::Rc,
    sync::Arc,
};

use loadline_core::{
    decide::plan::{Plan, ServicePlan},
    fleet::{Listener, Service},
    rules::RouteLimiters,
    time::{Duration, Instant},
};
use tokio::{
    runtime::Runtime,
    task::{JoinHandle, LocalSet, spawn_local},
    time::{MissedTickBehavior, interval, sleep},
};

use crate::{
    http::{compress::encoders::Encoders, jwt::Tokens, passwords::Recent},
    http2::Links,
    http3,
    io::buffer::Buffers,
    listener::{
        accept::accept,
        handle::{Acceptor, ListenerHandle, ListenerKey},
        set::Inbox,
    },
    runtime::{
        date_line::DateLine,
        lag::Lag,
        random::Random,
        shared::{Lifecycle, PlanCache, Shared},
        timer::{TICK, Timer, Timers},
        view::{ListenerContext, ServiceContext, View},
    },
    telemetry::{access_log::LogBuffer, failures::Failures, meter::ListenerCells, tally::Cells},
    upstream::{pool::Pools, prewarm::keep_warm},
};

/// A listener that closes, and the last view that has its listener.
type Closing = (Arc<ListenerHandle>, Option<Rc<View>>);

/// What a worker counts; it outlives any plan.
#[derive(Debug, Default)]
struct Counters {
    services: BTreeMap<String, Arc<Cells>>,
    listeners: BTreeMap<SocketAddr, Arc<ListenerCells>>,
}

/// One thread of the proxy.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) shared: Arc<Shared>,
    pub(crate) timers: Rc<Timers>,
    pub(crate) buffers: Buffers,
    pub(crate) pools: Pools,
    pub(crate) links: Links,
    pub(crate) random: Random,
    pub(crate) date: DateLine,
    pub(crate) log: LogBuffer,
    pub(crate) encoders: Encoders,
    /// Passwords that this worker knows to be right.
    pub(crate) passwords: RefCell<Recent>,
    /// Tokens that this worker has verified.
    pub(crate) tokens: RefCell<Tokens>,
    pub(crate) failures: Failures,
    pub(crate) lag: Rc<Lag>,
    plans: RefCell<PlanCache>,
    view: RefCell<Rc<View>>,
    inbox: Arc<Inbox>,
    /// What it accepts connections from.
    listeners: RefCell<Vec<Arc<ListenerHandle>>>,
    /// Listeners that close, each with its last view if that is not the present one.
    closing: RefCell<Vec<Closing>>,
    /// Some of them have not been told.
    closes: Cell<bool>,
    counters: RefCell<Counters>,
    stage: Cell<Lifecycle>,
    /// Endpoints of HTTP/3 that take nobody in any more, and have clients to be told that it ends.
    pub(crate) endpoints: Cell<usize>,
    /// Connections of HTTP/3 whose streams were cut, and have not ended yet.
    pub(crate) cutting: Cell<usize>,
    /// The generation of the plan of the last tick.
    looked_at: Cell<u64>,
}

impl Worker {
    /// Serves until the process drains and the last session has ended, or is cut.
    pub(crate) fn run(runtime: &Runtime, shared: Arc<Shared>, inbox: Arc<Inbox>) {
        let tasks = LocalSet::new();
        tasks.block_on(runtime, async {
            let worker = Rc::new(Self::new(shared, inbox));
            spawn_local(worker.lag.clone().watch(worker.shared.clock));
            let mut accepting: Vec<JoinHandle<()>> = Vec::new();
            let mut ticks = interval(TICK);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                let due = ticks.tick().await;
                worker.lag.probe(worker.shared.clock.now(), due.elapsed());
                worker.tick();
                accepting.retain(|listener| !listener.is_finished());
                accepting.extend(worker.open_listeners());
                // Each session holds its worker.
                let alone = accepting.is_empty() && Rc::strong_count(&worker) == 1;
                let through = alone && worker.stage.get() != Lifecycle::Serving;
                if through || worker.is_stopped() {
                    break;
                }
            }
            worker.let_end().await;
        });
    }

    /// Waits until connections that were cut have told their clients: a response that ends with its
    /// connection would look whole, and QUIC clients would hear nothing.
    async fn let_end(self: &Rc<Self>) {
        let mut left = usize::MAX;
        for _ in 0..GOODBYES {
            let count = Rc::strong_count(self);
            let is_quiet = count == 1 || count >= left;
            if is_quiet && self.endpoints.get() == 0 {
                return;
            }
            left = count;
            sleep(GOODBYE).await;
            // What is cut has a moment by its timer.
            self.timers.sweep(self.shared.clock.now());
        }
    }

    fn new(shared: Arc<Shared>, inbox: Arc<Inbox>) -> Self {
        let mut plans = shared.plan_cache();
        let plan = plans.load().clone();
        let counters = RefCell::default();
        let view = view(&shared, &counters, plan, None);
        let timers = Rc::new(Timers::default());
        timers.sweep(shared.clock.now());
        let buffers = Buffers::new();
        buffers.fit(view.longest_head());
        Self {
            timers,
            buffers,
            pools: Pools::new(),
            links: Links::default(),
            random: Random::new(),
            date: DateLine::new(),
            log: LogBuffer::default(),
            encoders: Encoders::new(shared.efforts.enlist()),
            failures: Failures::default(),
            lag: Rc::default(),
            passwords: RefCell::default(),
            tokens: RefCell::default(),
            plans: RefCell::new(plans),
            view: RefCell::new(view),
            inbox,
            listeners: RefCell::default(),
            closing: RefCell::default(),
            closes: Cell::new(false),
            counters,
            stage: Cell::new(Lifecycle::Serving),
            endpoints: Cell::new(0),
            cutting: Cell::new(0),
            looked_at: Cell::new(0),
            shared,
        }
    }

    /// The plan in force and what goes with it.
    pub(crate) fn view(&self) -> Rc<View> {
        let mut plans = self.plans.borrow_mut();
        let plan = plans.load();
        let mut current = self.view.borrow_mut();
        if !Arc::ptr_eq(plan, &current.plan) {
            self.notice_closing();
            // Who came in through a listener that closes is still served as its listener said.
            for (_, last) in self.closing.borrow_mut().iter_mut() {
                last.get_or_insert_with(|| current.clone());
            }
            let next = view(&self.shared, &self.counters, plan.clone(), Some(&current));
            let before = std::mem::replace(&mut *current, next);
            // Nobody comes or leaves but by another configuration.
            if before.plan.configuration != current.plan.configuration {
                self.buffers.fit(current.longest_head());
                let outdated = current.outdated(&before);
                self.pools.close(&outdated.all);
                self.links.retire(&outdated.links);
            }
        }
        current.clone()
    }

    /// The view by which what comes through `listener` is served.
    pub(crate) fn view_at(&self, listener: &ListenerHandle) -> Rc<View> {
        let view = self.view();
        if listener.is_open() {
            return view;
        }
        let closing = self.closing.borrow();
        let known = closing.iter().find(|(other, _)| std::ptr::eq(&raw const **other, listener));
        known.and_then(|(_, last)| last.clone()).unwrap_or(view)
    }

    /// Whether connections are closed after the response they wait for, and none are added.
    pub(crate) fn is_leaving(&self, listener: &ListenerHandle) -> bool {
        self.stage.get() != Lifecycle::Serving || !listener.is_open()
    }

    /// Whether another process takes the clients that come.
    pub(crate) fn has_successor(&self) -> bool {
        self.stage.get() == Lifecycle::Leaving
    }

    /// Whether what is left is about to be cut.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stage.get() == Lifecycle::Stopped
    }

    /// Whether an idle connection may wait for another request. It may while another process goes
    /// on, or the listener alone closes: a client that is just sending one is answered.
    pub(crate) fn waits_for_more(&self, listener: &ListenerHandle) -> bool {
        self.stage.get() <= Lifecycle::Leaving && !listener.is_cut()
    }

    /// Gives a client that has sent no request yet a second from when no more are wanted: it may
    /// have come through the accept queue just now, and has been told that it is connected.
    pub(crate) fn hurry(&self, timer: &Timer, listener: &ListenerHandle, is_hurried: &mut bool) {
        if !*is_hurried && !self.waits_for_more(listener) && !listener.is_cut() {
            *is_hurried = true;
            timer.arm(FIRST_WAIT);
        }
    }

    /// The connection limit of a listener; none if no more are wanted there.
    pub(crate) fn max_connections(&self, listener: &ListenerHandle) -> Option<u32> {
        let view = self.view();
        let listener_context = view.listener_context(listener);
        listener_context
            .filter(|_| !self.is_leaving(listener))
            .map(ListenerContext::max_connections)
    }

    /// Begins to accept from what is new and in the plan. At the end only those who wait there
    /// already are taken in.
    fn open_listeners(self: &Rc<Self>) -> Vec<JoinHandle<()>> {
        let is_last = self.stage.get() != Lifecycle::Serving;
        let view = self.view();
        let is_known = |listener: &ListenerHandle| view.listener_context(listener).is_some();
        for (acceptor, slot) in self.inbox.take_quic(is_known) {
            spawn_local(http3::listen(self.clone(), acceptor, slot));
        }
        let opened = self.inbox.take(|listener| is_last || is_known(listener));
        let begin = |(acceptor, socket): (Acceptor, Arc<TcpListener>)| {
            self.listeners.borrow_mut().push(acceptor.listener.clone());
            spawn_local(accept(self.clone(), acceptor, socket))
        };
        opened.into_iter().map(begin).collect()
    }

    /// Notes which listeners close.
    fn notice_closing(&self) {
        let mut listeners = self.listeners.borrow_mut();
        let mut closing = self.closing.borrow_mut();
        let known = closing.len();
        closing.extend(
            listeners
                .extract_if(.., |listener| !listener.is_open())
                .map(|listener| (listener, None)),
        );
        if closing.len() > known {
            self.closes.set(true);
        }
    }

    /// Cuts what is left behind listeners whose time is over; true if there are any.
    fn cut_late(&self, now: Instant) -> bool {
        let mut closing = self.closing.borrow_mut();
        let known = closing.len();
        closing.retain(|(listener, _)| {
            let late = listener.deadline().is_some_and(|deadline| deadline <= now);
            if late {
                listener.cut();
            }
            !late
        });
        closing.len() < known
    }

    /// Makes room at listeners that are full where another worker could not.
    fn make_room(&self) {
        for listener in self.listeners.borrow().iter().filter(|listener| listener.wants_room()) {
            if self.timers.displace(listener) {
                listener.want_room(false);
            }
        }
    }

    /// What is done every now and then rather than for each request.
    fn tick(self: &Rc<Self>) {
        let now = self.shared.clock.now();
        self.timers.sweep(now);
        self.make_room();
        self.pools.sweep(now);
        self.encoders.look(now);
        self.shared.log.iter().for_each(|log| self.log.flush(log, self.shared.clock));
        let stage = self.shared.stage();
        let known = self.looked_at.replace(self.view().plan.generation);
        let urgent = self.view().plan.urgent_since(known).map(BTreeSet::from_iter);
        self.notice_closing();
        let changes = [
            self.stage.replace(stage) != stage,
            self.closes.take(),
            urgent.is_none(),
            self.cut_late(now),
        ];
        if changes.contains(&true) {
            self.timers.wake_all();
        }
        if let Some(servers) = urgent.filter(|servers| !servers.is_empty()) {
            self.timers.wake_those_on(&servers);
        }
        if stage == Lifecycle::Serving {
            keep_warm(self, now);
        }
    }
}

impl Drop for Worker {
    /// The sessions are gone; the lines of those that were cut are not to be lost, nor how many
    /// have failed.
    fn drop(&mut self) {
        self.shared.log.iter().for_each(|log| self.log.flush(log, self.shared.clock));
        self.failures.leave_rest(&self.shared, &self.counters.get_mut().services);
    }
}

/// The view of `plan`, which follows that of another.
fn view(
    shared: &Shared,
    counters: &RefCell<Counters>,
    plan: Arc<Plan>,
    before: Option<&View>,
) -> Rc<View> {
    let keys = shared.keys();
    let Counters { services, listeners } = &mut *counters.borrow_mut();
    let service_context = |service: &Service, decided: Arc<ServicePlan>| {
        let name = &service.name;
        let cells = services.entry(name.clone()).or_insert_with(|| shared.registry.enlist(name));
        ServiceContext::new(
            (service, decided),
            cells.clone(),
            shared.queue(name),
            keys.service(service),
            &shared.remotes,
        )
    };
    let mut cells = |bind: SocketAddr| {
        let cells = listeners.entry(bind).or_insert_with(|| shared.meters.enlist(&bind));
        cells.clone()
    };
    let listener_context = |(listener, key): (&Listener, ListenerKey), limiters: RouteLimiters| {
        let tls = keys.listener(listener, key);
        ListenerContext::new((listener, limiters), tls, cells(listener.bind))
    };
    View::new(plan, before, &keys, service_context, listener_context)
}

/// How long a client that has just connected may take for its first request when the proxy ends.
const FIRST_WAIT: Duration = Duration::from_secs(1);

/// Time for one round of closing packets. There is another round while connections still end.
const GOODBYE: std::time::Duration = std::time::Duration::from_millis(20);

/// Most rounds.
const GOODBYES: u32 = 50;

#[cfg(test)]
mod tests;
