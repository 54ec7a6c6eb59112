//! How a controller begins: with nothing, or with what one of another process knew of its servers.

use alloc::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    string::String,
    sync::Arc,
    vec::Vec,
};
use core::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::{Controller, Due, Input};
use crate::{
    cluster::share::Share,
    decide::{
        ledger::Ledger,
        management::Management,
        planner,
        server_table::{Checks, Place, ServerEntry, ServerTable},
        service_plans::ServicePlans,
    },
    fleet::Fleet,
    health::{
        checks::Health,
        draining::Draining,
        ejection::{Ejected, KnownEjection},
    },
    time::{Duration, Instant, timer_queue::TimerQueue},
};

/// What is known of a server, for a process with another clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownServer {
    /// Name of the service.
    pub service: String,
    /// Name of the group within the service.
    pub group: String,
    /// Where the server listens.
    pub address: SocketAddr,
    /// Whether it is up by its checks.
    #[serde(default)]
    pub is_up: bool,
    /// Why its last check failed, if it is down by its checks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down_for: Option<String>,
    /// Its ejection, if it is out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ejection: Option<KnownEjection>,
    /// For how long it has been up, if its slow start goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up_for: Option<Duration>,
}

impl Controller {
    /// Starts with a configuration; the first plan is the first output.
    #[must_use]
    pub fn new(now: Instant, fleet: impl Into<Arc<Fleet>>) -> Self {
        Self::shared(now, fleet, None, &[])
    }

    /// The same for one edge of several, and for one that follows another process. Of each group
    /// with a limit it gives the share `floor`, until it is told another; none where it is alone,
    /// and gives all. What the process before knew of servers that are still there holds until
    /// their checks, which begin as they do without it, say otherwise.
    #[must_use]
    pub fn shared(
        now: Instant,
        fleet: impl Into<Arc<Fleet>>,
        floor: Option<Share>,
        known: &[KnownServer],
    ) -> Self {
        let fleet = fleet.into();
        let nothing = Fleet::of(fleet.edge.clone(), Vec::new(), Vec::new());
        let mut controller = Self {
            fleet: Arc::new(nothing),
            ledger: Ledger::default(),
            server_table: ServerTable::default(),
            draining: Draining::default(),
            management: Management::default(),
            timers: TimerQueue::default(),
            touched: BTreeSet::new(),
            reloaded: false,
            plans: ServicePlans::default(),
            urgent: Vec::new(),
            told: Arc::default(),
            generation: 0,
            configuration: 0,
            outputs: VecDeque::new(),
        };
        controller.ledger.floor = floor;
        controller.reload(now, &fleet);
        controller.take_over(now, known);
        controller.handle(now, Input::Tick);
        controller
    }

    /// What a controller that follows this one has to know of its servers.
    #[must_use]
    pub fn known_servers(&self, now: Instant) -> Vec<KnownServer> {
        let mut known = Vec::new();
        for (service, of) in self.fleet.services.iter().zip(self.server_table.services()) {
            let slow_start = planner::slow_start(service);
            for (group, of) in service.groups.iter().zip(&of.groups) {
                let servers = of.entries.iter().map(|entry| {
                    let (service, group) = (&*service.name, &*group.name);
                    KnownServer::of((service, group), entry, (now, slow_start))
                });
                known.extend(servers.filter(KnownServer::says_something));
            }
        }
        known
    }

    /// Goes on with what was known of servers that are still there.
    fn take_over(&mut self, now: Instant, known: &[KnownServer]) {
        let known = known.iter().map(|it| ((&*it.service, &*it.group, it.address), it));
        let known: BTreeMap<(&str, &str, SocketAddr), &KnownServer> = known.collect();
        if known.is_empty() {
            return;
        }
        let fleet = self.fleet.clone();
        for (s, service) in fleet.services.iter().enumerate() {
            for (g, group) in service.groups.iter().enumerate() {
                for (n, server) in group.servers.iter().enumerate() {
                    let key = (&*service.name, &*group.name, server.address);
                    if let Some(known) = known.get(&key) {
                        self.go_on(now, Place { service: s, group: g, server: n }, known);
                    }
                }
            }
        }
    }

    fn go_on(&mut self, now: Instant, place: Place, known: &KnownServer) {
        let ejects = self.fleet.services[place.service].ejection.is_some();
        let entry = self.server_table.at_mut(place);
        let is_checked = entry.checks != Checks::Off;
        // Its first check decides at once, as that of any server.
        entry.was_up = known.is_up && is_checked;
        if let Some(why) = known.down_for.as_deref().filter(|_| is_checked) {
            entry.health = Health::Down { passes: 0 };
            entry.down_for = Some(why.into());
        }
        if let Some(ejection) = known.ejection.as_ref().filter(|_| ejects) {
            *entry.ejected_mut() = Ejected::resumed(now, ejection);
            entry.state.silence.set_out(entry.ejected().is_silent());
            self.timers.set(Due::Return(entry.id()), entry.returns_at());
        }
        if let Some(up_for) = known.up_for {
            entry.start_on(now, up_for);
        }
    }
}

impl KnownServer {
    fn of(
        (service, group): (&str, &str),
        entry: &ServerEntry,
        (now, slow_start): (Instant, Duration),
    ) -> Self {
        let is_down = !entry.health.is_healthy();
        let starts = entry.is_healthy() && entry.is_starting(now, slow_start);
        Self {
            service: service.into(),
            group: group.into(),
            address: entry.address(),
            is_up: entry.was_up || matches!(entry.health, Health::Up { .. }),
            down_for: is_down.then(|| entry.down_for.as_deref().unwrap_or_default().into()),
            ejection: entry.ejected().known(now),
            up_for: entry.up_for(now).filter(|_| starts),
        }
    }

    fn says_something(&self) -> bool {
        let is_out = self.down_for.is_some() || self.ejection.is_some();
        self.is_up || is_out || self.up_for.is_some()
    }
}
