//! One thread of the proxy: its runtime, its sessions, and what they share.
//!
//! Everything here belongs to one thread and is reached through cells, never through a lock.
//! Workers have nothing in common but [`Shared`].

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    net::TcpListener,
    rc::Rc,
    sync::Arc,
};

use loadline_core::plan::Plan;
use tokio::{
    runtime::Runtime,
    task::{JoinHandle, LocalSet, spawn_local},
    time::{MissedTickBehavior, interval},
};

use crate::{
    access_log::LogBuffer,
    buffer::Buffers,
    listener::{Door, accept},
    pool::Pools,
    random::Random,
    shared::{PlanCache, Shared, Stage},
    tally::Cells,
    timer::{TICK, Timers},
    view::{Desk, Entrance, View},
};

/// One thread of the proxy.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) shared: Arc<Shared>,
    pub(crate) timers: Rc<Timers>,
    pub(crate) buffers: Buffers,
    pub(crate) pools: Pools,
    pub(crate) random: Random,
    pub(crate) log: LogBuffer,
    plans: RefCell<PlanCache>,
    view: RefCell<Rc<View>>,
    /// Counters by service; they outlive any plan.
    cells: RefCell<BTreeMap<String, Arc<Cells>>>,
    stage: Cell<Stage>,
}

impl Worker {
    /// Serves until the process drains and the last session has ended, or is cut.
    pub(crate) fn run(
        runtime: &Runtime,
        shared: Arc<Shared>,
        doors: Vec<(Arc<Door>, TcpListener)>,
    ) {
        let tasks = LocalSet::new();
        tasks.block_on(runtime, async {
            let worker = Rc::new(Self::new(shared));
            let doors = doors.into_iter();
            let doors: Vec<_> = doors
                .map(|(door, socket)| spawn_local(accept(worker.clone(), door, socket)))
                .collect();
            let mut ticks = interval(TICK);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                worker.tick();
                let closed = doors.iter().all(JoinHandle::is_finished);
                // Each session holds its worker.
                let through = worker.is_draining() && closed && Rc::strong_count(&worker) == 1;
                if through || worker.stage.get() == Stage::Stopped {
                    break;
                }
            }
        });
    }

    fn new(shared: Arc<Shared>) -> Self {
        let mut plans = shared.plan_cache();
        let plan = plans.load().clone();
        let cells = RefCell::default();
        let view = view(&shared, &cells, plan);
        let timers = Rc::new(Timers::default());
        timers.sweep(shared.clock.now());
        let buffers = Buffers::new();
        buffers.fit(view.longest_head());
        Self {
            timers,
            buffers,
            pools: Pools::new(),
            random: Random::new(),
            log: LogBuffer::default(),
            plans: RefCell::new(plans),
            view: RefCell::new(view),
            cells,
            stage: Cell::new(Stage::Serving),
            shared,
        }
    }

    /// The plan in force and what goes with it.
    pub(crate) fn view(&self) -> Rc<View> {
        let mut plans = self.plans.borrow_mut();
        let plan = plans.load();
        let mut current = self.view.borrow_mut();
        if !Arc::ptr_eq(plan, &current.plan) {
            *current = view(&self.shared, &self.cells, plan.clone());
            self.buffers.fit(current.longest_head());
        }
        current.clone()
    }

    /// Whether connections are closed after the answer they wait for.
    pub(crate) fn is_draining(&self) -> bool {
        self.stage.get() != Stage::Serving
    }

    /// The connection limit of a listener; none if no more are wanted there.
    pub(crate) fn max_connections(&self, door: &Door) -> Option<u32> {
        let view = self.view();
        let entrance = view.entrance(door.index, door.bind);
        entrance.filter(|_| !self.is_draining()).map(Entrance::max_connections)
    }

    /// What is done every now and then rather than for each request.
    fn tick(&self) {
        let now = self.shared.clock.now();
        self.timers.sweep(now);
        self.pools.sweep(now);
        self.shared.log.iter().for_each(|log| self.log.flush(log));
        let stage = self.shared.stage();
        if self.stage.replace(stage) != stage {
            self.timers.wake_all();
        }
        let known = self.view.borrow().plan.generation;
        if self.view().plan.generation != known {
            self.timers.wake_all();
        }
    }
}

impl Drop for Worker {
    /// The sessions are gone; the lines of those that were cut are not to be lost.
    fn drop(&mut self) {
        self.shared.log.iter().for_each(|log| self.log.flush(log));
    }
}

fn view(
    shared: &Shared,
    cells: &RefCell<BTreeMap<String, Arc<Cells>>>,
    plan: Arc<Plan>,
) -> Rc<View> {
    let keys = shared.keys();
    let mut cells = cells.borrow_mut();
    let desk = |service: &loadline_core::fleet::Service| {
        let name = &service.name;
        let cells = cells.entry(name.clone()).or_insert_with(|| shared.registry.enlist(name));
        Desk::new(service, cells.clone(), shared.queue(name), keys.service(name))
    };
    let desks = plan.fleet.services.iter().map(desk).collect();
    View::new(plan, desks, &keys)
}
