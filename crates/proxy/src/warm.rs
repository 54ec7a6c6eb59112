//! Connections to servers that stand before the first request needs them.
//!
//! A handshake with a server costs a round trip, with TLS two or three: nothing beside, and the
//! most of what a user waits for where the server is far away. So each worker keeps `prewarm`
//! unused connections to each server that can be given requests. Every tick it looks how many
//! there are; what lacks is opened, TLS included, and waits below those that have carried answers,
//! whose congestion windows have grown. Those that are ready do not age; what a service without
//! `prewarm` leaves behind does, as any kept connection.
//!
//! A server that does not answer, or closes what is unused, is left alone for a while each time.
//! Whether it is healthy is for requests and checks to tell.

use std::{
    cell::Cell,
    net::SocketAddr,
    rc::{Rc, Weak},
};

use loadline_core::{
    fleet::{Fleet, HttpVersion, Listener, ServerTimeouts},
    ledger::ServerId,
    plan::{GroupPlan, Plan},
    time::{Duration, Instant},
};
use tokio::task::spawn_local;

use crate::{
    dial::{Dial, dial},
    http2::{Link, Target},
    pool::{Connection, Slot},
    reason::of_io,
    timer::{Timer, Timers},
    tls::Dialing,
    view::View,
    worker::Worker,
};

/// A server to which connections are kept ready.
#[derive(Debug)]
pub(crate) struct Warm {
    server: ServerId,
    address: SocketAddr,
    /// Index into the services of the plan.
    service: usize,
    /// How many are to be ready.
    count: u32,
    /// How many may be open when another is added.
    most: u32,
}

impl Warm {
    /// Those that `plan` asks for: servers in use, of services that are reached over HTTP.
    pub(crate) fn of(plan: &Plan) -> Vec<Self> {
        let mut all = Vec::new();
        for (service, settings) in plan.fleet.services.iter().enumerate() {
            let is_wanted = settings.prewarm > 0 && settings.send_proxy.is_none();
            if is_wanted && is_reached(&plan.fleet, service) {
                for group in &plan.services[service].groups {
                    all.extend(of_group(plan, service, group));
                }
            }
        }
        all
    }
}

fn of_group(plan: &Plan, service: usize, group: &GroupPlan) -> impl Iterator<Item = Warm> {
    let settings = &plan.fleet.services[service];
    let configured = &settings.groups[usize::from(group.index)].servers;
    group.servers.iter().map(move |server| {
        let configured = &configured[usize::from(server.index)];
        Warm {
            server: server.state().id(),
            address: configured.address,
            service,
            count: settings.prewarm,
            most: configured.max_connections.div_ceil(2),
        }
    })
}

/// Whether requests come to the service at this index.
fn is_reached(fleet: &Fleet, service: usize) -> bool {
    let leads_there = |listener: &Listener| {
        listener.service == service || listener.routes.services().any(|it| it == service)
    };
    fleet.listeners.iter().any(|listener| listener.protocol.is_http() && leads_there(listener))
}

/// Opens what the present plan wants to be ready and is not.
pub(crate) fn keep_warm(worker: &Rc<Worker>, now: Instant) {
    let view = worker.view();
    for warm in &view.warm {
        match view.plan.fleet.services[warm.service].http_version {
            HttpVersion::Http11 => fill(worker, &view, warm, now),
            HttpVersion::Http2 => link(worker, &view, warm, now),
        }
    }
}

fn fill(worker: &Rc<Worker>, view: &View, warm: &Warm, now: Instant) {
    let timeouts = view.plan.fleet.services[warm.service].timeouts;
    let lacking = worker.pools.lacking(warm.server, warm.count, now + stay(timeouts));
    if lacking == 0 || !worker.pools.may_warm(warm.server, now) {
        return;
    }
    let mut opening = 0;
    while opening < lacking
        && let Some(slot) = worker.pools.slot(&worker.shared, warm.server, warm.most)
    {
        let tls = view.desks[warm.service].tls.clone();
        let to = Opening { server: warm.server, address: warm.address, tls, timeouts };
        spawn_local(to.run(Rc::downgrade(worker), worker.timers.clone(), slot));
        opening += 1;
    }
    worker.pools.warming(warm.server, opening, now + PAUSE);
}

/// One connection of many streams is enough.
fn link(worker: &Worker, view: &View, warm: &Warm, now: Instant) {
    if worker.links.keep_ready(warm.server) || !worker.pools.may_warm(warm.server, now) {
        return;
    }
    let open = |streams: &Rc<Cell<usize>>| {
        let slot = worker.pools.slot(&worker.shared, warm.server, warm.most)?;
        let target = Target {
            address: warm.address,
            tls: view.desks[warm.service].tls.clone(),
            timeouts: view.plan.fleet.services[warm.service].timeouts,
            longest_head: view.longest_head(),
        };
        Some(Link::open(target, slot, &worker.timers, streams))
    };
    worker.links.open(warm.server, open);
    worker.pools.warming(warm.server, 0, now + PAUSE_AFTER_FAILURE);
}

/// A connection that is being opened.
struct Opening {
    server: ServerId,
    address: SocketAddr,
    tls: Option<Dialing>,
    timeouts: ServerTimeouts,
}

impl Opening {
    /// Opens it and gives it to the worker, unless that has ended meanwhile.
    async fn run(self, worker: Weak<Worker>, timers: Rc<Timers>, slot: Slot) {
        let timer = Timer::here(&timers).await;
        let to = Dial {
            address: self.address,
            tls: self.tls.as_ref(),
            header: &[],
            limit: self.timeouts.connect,
        };
        // In the reactor's hands, so that looking at it every tick costs no system call.
        let watched = |mut connection: Connection| match connection.peer.socket.watch() {
            Ok(()) => Ok(connection),
            Err(error) => Err(of_io(&error)),
        };
        let dialled = dial(to, slot, &timer).await.and_then(watched);
        let Some(worker) = worker.upgrade() else { return };
        let now = timers.coarse_now();
        let opened = dialled.map_err(|reason| {
            tracing::debug!(address = %self.address, %reason, "no connection to keep ready");
            now + PAUSE_AFTER_FAILURE
        });
        worker.pools.warmed(self.server, opened, now + stay(self.timeouts));
    }
}

/// How long a connection that is ready may stay before that is said again, at every tick.
fn stay(timeouts: ServerTimeouts) -> Duration {
    timeouts.keep_alive.max(STAY_LEAST)
}

/// Many ticks, so that a late one closes nothing.
const STAY_LEAST: Duration = Duration::from_secs(1);

/// Between two batches to a server: one that closes what it accepts is not knocked at for ever.
const PAUSE: Duration = Duration::from_millis(250);

/// The same after one that did not open.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(1);
