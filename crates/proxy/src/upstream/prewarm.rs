//! Prewarming: connections to servers that are open before the first request needs them.
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
//!
//! Half of the descriptors are left to clients and their requests: once the other half is in use
//! nothing more is opened.

use std::{
    cell::Cell,
    collections::BTreeSet,
    io::stderr,
    os::fd::AsRawFd as _,
    rc::{Rc, Weak},
    sync::Arc,
};

use loadline_core::{
    decide::{
        ledger::ServerState,
        plan::{GroupPlan, ServicePlan},
    },
    fleet::{Fleet, HttpVersion, ServerTimeouts, Service},
    time::{Duration, Instant},
};
use rustix::{
    io::fcntl_dupfd_cloexec,
    process::{Resource, getrlimit},
};
use tokio::task::spawn_local;

use crate::{
    http::route::SCARCE,
    http2::{Link, Target},
    runtime::{
        timer::{Timer, Timers},
        view::View,
        worker::Worker,
    },
    telemetry::reason::of_io,
    tls::Dialing,
    upstream::{
        dial::{Dial, dial},
        pool::{Connection, Slot},
    },
};

/// A server to which connections are kept ready.
#[derive(Debug)]
pub(crate) struct Warm {
    server: Arc<ServerState>,
    /// How many are to be ready.
    count: u32,
    /// How many may be open when another is added.
    most: u32,
}

impl Warm {
    /// Connections to keep ready for a service: to its servers in use.
    pub(crate) fn of(settings: &Service, plan: &ServicePlan) -> Vec<Self> {
        if settings.prewarm == 0 {
            return Vec::new();
        }
        let of_group = |group| warm_of_group(settings, group);
        plan.groups.iter().flat_map(of_group).collect()
    }
}

fn warm_of_group(settings: &Service, group: &GroupPlan) -> impl Iterator<Item = Warm> {
    let configured = &settings.groups[usize::from(group.index)].servers;
    group.servers.iter().map(move |server| {
        let configured = &configured[usize::from(server.index)];
        Warm {
            server: server.state().clone(),
            count: settings.prewarm,
            most: configured.max_connections.div_ceil(2),
        }
    })
}

/// The services, by their indices, that want connections to be ready and are reached over HTTP.
pub(crate) fn prewarmed(fleet: &Fleet) -> Vec<usize> {
    let listeners = fleet.listeners.iter().filter(|listener| listener.protocol.is_http());
    let reached = listeners.flat_map(|it| it.routes.services().chain([it.service]));
    let wants = |index: &usize| {
        let settings = &fleet.services[*index];
        settings.prewarm > 0 && settings.send_proxy.is_none()
    };
    let reached: BTreeSet<usize> = reached.filter(wants).collect();
    reached.into_iter().collect()
}

/// Opens what the present plan wants to be ready and is not.
pub(crate) fn keep_warm(worker: &Rc<Worker>, now: Instant) {
    let view = worker.view();
    let mut room = Room { workers: worker.shared.workers, left: None };
    for (service, warm) in view.warm() {
        match view.plan.fleet.services[service].http_version {
            HttpVersion::Http11 => fill(worker, &view, (service, warm), (now, &mut room)),
            HttpVersion::Http2 => link(worker, &view, (service, warm), (now, &mut room)),
        }
    }
}

/// How many connections a worker may open at one tick.
struct Room {
    workers: usize,
    /// Counted once one is to be opened.
    left: Option<usize>,
}

impl Room {
    /// Whether one more may be opened.
    fn take(&mut self) -> bool {
        let left = self.left.get_or_insert_with(|| spare_descriptors() / self.workers.max(1));
        let has_room = *left > 0;
        *left = left.saturating_sub(1);
        has_room
    }
}

/// How many descriptors are free among the lower half of those that may be open.
fn spare_descriptors() -> usize {
    let Some(most) = getrlimit(Resource::Nofile).current else { return usize::MAX };
    // The kernel gives the lowest number that is free.
    let Ok(next) = fcntl_dupfd_cloexec(stderr(), 0) else { return 0 };
    let half = usize::try_from(most / 2).unwrap_or(usize::MAX);
    half.saturating_sub(usize::try_from(next.as_raw_fd()).unwrap_or(0))
}

fn fill(
    worker: &Rc<Worker>,
    view: &View,
    (service, warm): (usize, &Warm),
    (now, room): (Instant, &mut Room),
) {
    let timeouts = view.plan.fleet.services[service].timeouts;
    let server = warm.server.id();
    let lacking = worker.pools.lacking(server, warm.count, now + stay(timeouts));
    if lacking == 0 || !worker.pools.may_warm(server, now) {
        return;
    }
    let mut opening = 0;
    while opening < lacking
        && room.take()
        && let Some(slot) = worker.pools.slot(&worker.shared, server, warm.most)
    {
        let tls = view.services[service].tls.clone();
        let is_shared = warm.most <= SCARCE.div_ceil(2);
        let to = Opening { server: warm.server.clone(), is_shared, tls, timeouts };
        spawn_local(to.run(Rc::downgrade(worker), worker.timers.clone(), slot));
        opening += 1;
    }
    worker.pools.warming(server, opening, now + PAUSE);
}

/// One connection of many streams is enough.
fn link(
    worker: &Worker,
    view: &View,
    (service, warm): (usize, &Warm),
    (now, room): (Instant, &mut Room),
) {
    let server = warm.server.id();
    if worker.links.keep_ready(server) || !worker.pools.may_warm(server, now) || !room.take() {
        return;
    }
    let open = |streams: &Rc<Cell<usize>>| {
        let slot = worker.pools.slot(&worker.shared, server, warm.most)?;
        let target = Target {
            address: warm.server.address(),
            tls: view.services[service].tls.clone(),
            timeouts: view.plan.fleet.services[service].timeouts,
            longest_head: view.longest_head(),
        };
        Some(Link::open(target, slot, &worker.timers, streams))
    };
    worker.links.open(server, open);
    worker.pools.warming(server, 0, now + PAUSE_AFTER_FAILURE);
}

/// A connection that is being opened.
struct Opening {
    /// Held, so that its number is given to no other server meanwhile.
    server: Arc<ServerState>,
    /// Whether it is for every worker.
    is_shared: bool,
    tls: Option<Dialing>,
    timeouts: ServerTimeouts,
}

impl Opening {
    /// Opens it and gives it to the worker, unless that has ended meanwhile.
    async fn run(self, worker: Weak<Worker>, timers: Rc<Timers>, slot: Slot) {
        let timer = Timer::here(&timers).await;
        let to = Dial {
            address: self.server.address(),
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
            let address = self.server.address();
            tracing::debug!(%address, %reason, "no connection to keep ready");
            now + PAUSE_AFTER_FAILURE
        });
        let to = (self.server.id(), self.is_shared);
        worker.pools.warmed(to, opened, now + stay(self.timeouts));
    }
}

/// How long a connection that is ready may stay before that is said again, at every tick.
fn stay(timeouts: ServerTimeouts) -> Duration {
    timeouts.keep_alive.max(STAY_LEAST)
}

/// Least time that a ready connection stays: many ticks, so that a late tick closes nothing.
const STAY_LEAST: Duration = Duration::from_secs(1);

/// Time between two batches to a server, so that one that closes what it accepts gets no flood.
const PAUSE: Duration = Duration::from_millis(250);

/// Time after a batch that did not open.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(1);
