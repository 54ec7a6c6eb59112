//! What the workers share: the plan, the wait queues, counters, the inbox of the controller.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{
            AtomicU8,
            Ordering::{AcqRel, Acquire, Relaxed},
        },
    },
};

use arc_swap::{ArcSwap, cache::Cache};
use loadline_core::decide::{
    controller::Input, ledger::ServerId, plan::Plan, service_plans::Exchanged,
};

use crate::{
    cache::Store,
    http::{acme::Challenges, jwt::FetchedKeys, passwords::Passwords},
    listener::set::Listeners,
    runtime::{
        clock::Clock, engine::StartError, inbox::Inbox, shared_checks::SharedChecks,
        wait_queue::Queue,
    },
    store::Remotes,
    telemetry::{
        access_log::Log,
        efforts::Efforts,
        failures::FailuresOfAll,
        meter::ListenerCells,
        spans::Spans,
        tally::{Cells, Registry, Tallies},
    },
    tls::Keys,
    upstream::idle::Common,
};

/// The state that all workers of a process share.
#[derive(Debug)]
pub struct Shared {
    plan: Arc<ArcSwap<Plan>>,
    inputs: Arc<Inbox>,
    pub(crate) clock: Clock,
    pub(crate) registry: Registry<String, Cells>,
    pub(crate) meters: Registry<SocketAddr, ListenerCells>,
    pub(crate) log: Option<Log>,
    pub(crate) spans: Option<Spans>,
    pub(crate) failures: FailuresOfAll,
    /// What is cached, over any reload.
    pub(crate) store: Arc<Store>,
    keys: ArcSwap<Keys>,
    listeners: Mutex<Listeners>,
    queues: Mutex<BTreeMap<String, Arc<Queue>>>,
    pub(crate) remotes: Remotes,
    /// Connections by server.
    common: Mutex<Vec<Arc<Common>>>,
    pub(crate) efforts: Efforts,
    pub(crate) passwords: Passwords,
    pub(crate) fetched_keys: FetchedKeys,
    pub(crate) challenges: Challenges,
    stage: AtomicU8,
    /// How many workers there are.
    pub(crate) workers: usize,
    shared_checks: OnceLock<Arc<dyn SharedChecks>>,
}

/// A worker's own copy of the plan, renewed when it is looked at.
pub(crate) type PlanCache = Cache<Arc<ArcSwap<Plan>>, Arc<Plan>>;

/// How far the process is from its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Lifecycle {
    /// It takes traffic.
    Serving,
    /// Another process takes the connections that come; each that is here is answered once more.
    Leaving,
    /// It takes no more connections and lets requests end.
    Draining,
    /// It cuts what is left.
    Stopped,
}

impl Shared {
    /// The state for workers that begin with `plan` and `keys`. Servers that fail requests are
    /// reported to `inputs`. `clock` is the one by which the plan was made.
    ///
    /// # Errors
    /// [`StartError::AccessLog`] if the plan asks for an access log that cannot be opened,
    /// [`StartError::Thread`] if it asks for spans and their thread cannot be started.
    pub(crate) fn new(
        plan: Arc<Plan>,
        inputs: Arc<Inbox>,
        clock: Clock,
        listeners: Listeners,
        keys: Keys,
    ) -> Result<Arc<Self>, StartError> {
        let store = Arc::new(Store::new(plan.fleet.edge.cache, clock));
        let log = plan.fleet.edge.access_log.as_ref().map(|settings| {
            let target = settings.to.clone();
            Log::open(settings).map_err(|source| StartError::AccessLog { target, source })
        });
        let log = log.transpose()?;
        let tracing = plan.fleet.edge.tracing.as_ref();
        let spans = tracing.map(|settings| Spans::start(settings, clock)).transpose();
        let spans = spans.map_err(StartError::Thread)?;
        Ok(Arc::new(Self {
            plan: Arc::new(ArcSwap::new(plan)),
            inputs,
            clock,
            registry: Registry::default(),
            meters: Registry::default(),
            log,
            spans,
            failures: FailuresOfAll::default(),
            store,
            keys: ArcSwap::from_pointee(keys),
            workers: listeners.inboxes().len(),
            listeners: Mutex::new(listeners),
            queues: Mutex::default(),
            remotes: Remotes::default(),
            common: Mutex::default(),
            efforts: Efforts::default(),
            passwords: Passwords::default(),
            fetched_keys: FetchedKeys::default(),
            challenges: Challenges::default(),
            stage: AtomicU8::new(Lifecycle::Serving as u8),
            shared_checks: OnceLock::new(),
        }))
    }

    /// Decides requests by `plan` from now on. Requests that wait for a service that is decided
    /// otherwise than before are decided anew.
    pub fn publish(&self, plan: Arc<Plan>) {
        let before = self.plan.swap(plan);
        let plan = self.plan();
        if before.configuration != plan.configuration {
            self.store.limit(plan.fleet.edge.cache);
            if self.stage() == Lifecycle::Serving {
                self.store.keep_on(plan.fleet.disk_cache());
            }
            self.failures.forget(&plan.services.other_servers_since(&before.services));
        }
        let Exchanged { before: were, now } = plan.services.exchanged_since(&before.services);
        let were = were.iter().map(|at| &*before.fleet.services[*at].name);
        let are = now.iter().map(|at| &*plan.fleet.services[*at].name);
        let names: BTreeSet<&str> = were.chain(are).collect();
        let queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        let concerned = names.into_iter().filter_map(|name| queues.get(name));
        concerned.for_each(|queue| queue.notify());
    }

    /// Who makes checks together with this edge, if anybody.
    pub(super) fn shared_checks(&self) -> Option<&Arc<dyn SharedChecks>> {
        self.shared_checks.get()
    }

    /// Makes checks together with others from now on; whoever came first stays.
    pub(super) fn share_checks(&self, with: Arc<dyn SharedChecks>) {
        self.shared_checks.get_or_init(|| with);
    }

    /// Makes TLS connections with `keys` from the next plan on. Until then those that only the
    /// present plan needs are kept.
    pub(crate) fn replace_keys(&self, keys: Keys) {
        let plan = self.plan();
        self.keys.store(Arc::new(keys.beside(&self.keys(), &plan.fleet)));
    }

    /// The listeners.
    pub(crate) fn listeners(&self) -> MutexGuard<'_, Listeners> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What TLS connections are made with.
    pub(crate) fn keys(&self) -> Arc<Keys> {
        self.keys.load_full()
    }

    /// Stops accepting connections, which another process does from now on, and closes each one
    /// after its next response.
    pub(crate) fn leave(&self) {
        self.end_accepting(Lifecycle::Leaving);
    }

    /// Stops accepting connections, and closes each one after the response it is waiting for.
    pub fn drain(&self) {
        self.end_accepting(Lifecycle::Draining);
    }

    /// The sockets close as soon as each worker has taken in who waits there.
    fn end_accepting(&self, stage: Lifecycle) {
        // A reload holds these while it opens others, and opens none after this.
        let mut listeners = self.listeners();
        self.stage.fetch_max(stage as u8, AcqRel);
        listeners.release();
    }

    /// What has been counted so far.
    #[must_use]
    pub fn snapshot(&self) -> Tallies {
        let log_lines_dropped = self.log_lines_dropped();
        let (services, listeners) = (self.registry.sums(), self.meters.sums());
        let [spans_exported, spans_dropped] = self.spans_counted();
        Tallies { services, listeners, log_lines_dropped, spans_exported, spans_dropped }
    }

    /// Access log lines given up because the writer did not keep up.
    pub(crate) fn log_lines_dropped(&self) -> u64 {
        self.log.as_ref().map_or(0, Log::dropped)
    }

    /// Spans that were exported, and those that were given up.
    pub(crate) fn spans_counted(&self) -> [u64; 2] {
        self.spans.as_ref().map(Spans::counts).unwrap_or_default()
    }

    /// The plan in force.
    pub(crate) fn plan(&self) -> Arc<Plan> {
        self.plan.load_full()
    }

    pub(crate) fn plan_cache(&self) -> PlanCache {
        Cache::new(self.plan.clone())
    }

    /// Cuts every connection that is left.
    pub(crate) fn stop(&self) {
        self.stage.fetch_max(Lifecycle::Stopped as u8, AcqRel);
    }

    pub(crate) fn stage(&self) -> Lifecycle {
        match self.stage.load(Acquire) {
            0 => Lifecycle::Serving,
            1 => Lifecycle::Leaving,
            2 => Lifecycle::Draining,
            _ => Lifecycle::Stopped,
        }
    }

    /// Tells the controller what a request has shown of a server.
    pub(crate) fn report(&self, report: Input) {
        self.inputs.send(report);
    }

    /// The queue of a service, which outlives any plan.
    pub(crate) fn queue(&self, service: &str) -> Arc<Queue> {
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        let queue = queues.entry(service.to_owned()).or_insert_with(|| Arc::new(Queue::new()));
        queue.clone()
    }

    /// Open connections to a server, over all workers.
    pub(crate) fn connections(&self, server: ServerId) -> u32 {
        let common = self.common.lock().unwrap_or_else(PoisonError::into_inner);
        common.get(server.index()).map_or(0, |common| common.open.load(Relaxed))
    }

    /// What all workers know of the connections to a server.
    pub(crate) fn common(&self, server: ServerId) -> Arc<Common> {
        let mut common = self.common.lock().unwrap_or_else(PoisonError::into_inner);
        if common.len() <= server.index() {
            common.resize_with(server.index() + 1, Arc::default);
        }
        common[server.index()].clone()
    }
}
