//! The slow half: hears what happens, decides what follows, publishes plans.
//!
//! One owner calls it. After each [`Controller::handle`] the owner drains [`Controller::poll`],
//! and calls `handle` again at [`Controller::next_deadline`] at the latest, with
//! [`Input::Tick`] if nothing else has happened.

use alloc::{
    collections::{BTreeMap, VecDeque},
    string::String,
    sync::Arc,
    vec::Vec,
};
use core::net::SocketAddr;

mod outliers;

use crate::{
    departures::Departures,
    ejection::{RETURN_HOLD, may_eject},
    fleet::{Fleet, Group, HealthCheck, Service},
    health::Health,
    ledger::{Ledger, ServerId},
    management::Management,
    outlier::{Evidence, Watch},
    plan::Plan,
    planner::{self, GroupStatus},
    reason::Reason,
    roster::{Member, Place, Roster},
    time::{Duration, Instant},
};

/// What the controller hears.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "few are on their way at a time")]
pub enum Input {
    /// Time has passed.
    Tick,
    /// A new configuration, already checked.
    Reload(Fleet),
    /// A health check of a server ended.
    Checked {
        /// The server.
        server: ServerId,
        /// How long it took, if it passed; else why it did not.
        passed: Result<Passed, String>,
    },
    /// A server failed so many real requests in a row ([`crate::permit::Permit::fail`]).
    Failing {
        /// The server.
        server: ServerId,
        /// How many.
        errors_in_a_row: u32,
        /// Why the last of them failed.
        reason: Reason,
    },
    /// Servers of the group of this one answer 5xx ([`crate::permit::Permit::answered_5xx`]).
    Errs {
        /// The server.
        server: ServerId,
    },
    /// A server answered nobody while so many requests waited for it
    /// ([`crate::permit::Permit::suspect`]).
    Silent {
        /// The server.
        server: ServerId,
        /// How many.
        suspicions: u32,
    },
}

/// How long a check took that passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passed {
    /// The round trip, as the opening of a connection shows it.
    pub round_trip: Duration,
    /// All of it.
    pub whole: Duration,
}

/// What the controller wants done.
#[derive(Debug)]
pub enum Output {
    /// Requests are decided by this plan from now on.
    Publish(Arc<Plan>),
    /// A server is to be checked, and the result handed in as [`Input::Checked`].
    Check {
        /// The server.
        server: ServerId,
        /// The name of its service.
        service: String,
        /// Where it listens.
        address: SocketAddr,
        /// What to ask it.
        check: HealthCheck,
    },
    /// Something an operator wants to know.
    Notice(Notice),
}

/// What changed, for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The service.
    pub service: String,
    /// The group.
    pub group: String,
    /// What happened to the group or one of its servers.
    pub change: Change,
}

/// What happened to a server or a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Its checks pass again.
    Up(SocketAddr),
    /// Its checks fail, the last one for this reason.
    Down(SocketAddr, Arc<str>),
    /// Real requests failed on it, the last one for this reason; it is out for this long.
    Ejected(SocketAddr, Duration, Reason),
    /// It answered with more 5xx than the others of its group; it is out for this long.
    Outlier(SocketAddr, Duration, Evidence),
    /// It left requests without an answer and answered nobody; it is out for this long.
    Silent(SocketAddr, Duration),
    /// Its time out is over.
    Returned(SocketAddr),
    /// It was given nothing more, and so many requests that were still under way are cut.
    Cut(SocketAddr, u32),
    /// Too few servers of the group are healthy; others come first.
    Yields,
    /// Enough servers have been healthy for long enough.
    Recovered,
}

/// The slow half; see the module.
#[derive(Debug)]
pub struct Controller {
    fleet: Arc<Fleet>,
    ledger: Ledger,
    roster: Roster,
    departures: Departures,
    management: Management,
    /// By service and group name: whether the group yields, and since when it need not.
    standing: BTreeMap<(String, String), Standing>,
    /// By service and group name: what is known of groups in which errors occur.
    watches: BTreeMap<(String, String), Watch>,
    generation: u64,
    /// When slow starts move on; never while none is under way.
    next_step: Option<Instant>,
    outputs: VecDeque<Output>,
}

/// Whether a group yields to others.
#[derive(Clone, Copy, Debug, Default)]
struct Standing {
    yields: bool,
    well_since: Option<Instant>,
}

impl Controller {
    /// Starts with a configuration; the first plan is the first output.
    #[must_use]
    pub fn new(now: Instant, fleet: Fleet) -> Self {
        let mut controller = Self {
            fleet: Arc::new(fleet),
            ledger: Ledger::default(),
            roster: Roster::default(),
            departures: Departures::default(),
            management: Management::default(),
            standing: BTreeMap::new(),
            watches: BTreeMap::new(),
            generation: 0,
            next_step: None,
            outputs: VecDeque::new(),
        };
        controller.roster.enlist(now, &controller.fleet, &mut controller.ledger);
        let Self { departures, management, fleet, ledger, .. } = &mut controller;
        departures.settle(now, fleet, fleet, ledger);
        management.settle(now, fleet, ledger);
        ledger.limiters.settle(now, fleet);
        controller.publish(now);
        controller.order_checks(now);
        controller
    }

    /// Takes an input in.
    pub fn handle(&mut self, now: Instant, input: Input) {
        let changed = match input {
            Input::Tick => false,
            Input::Reload(fleet) => {
                self.reload(now, fleet);
                true
            }
            Input::Checked { server, passed } => {
                let back = passed.is_ok() && self.answers_again(now, server);
                if let Ok(passed) = &passed {
                    self.management.checked(server, passed.whole);
                }
                self.checked(now, server, passed.map(|passed| passed.round_trip)) || back
            }
            Input::Failing { server, errors_in_a_row, reason } => {
                self.failing(now, (server, errors_in_a_row), reason)
            }
            Input::Silent { server, suspicions } => {
                self.failing(now, (server, suspicions), Reason::Hangs)
            }
            Input::Errs { server } => {
                self.errs(now, server);
                false
            }
        };
        let outliers = self.eject_outliers(now);
        let returned = self.expire_ejections(now);
        let regained = self.settle_standing(now);
        let cut = self.cut_late(now);
        let Self { management, fleet, ledger, roster, .. } = self;
        let managed = management
            .look(now, fleet, ledger, |server| roster.get(server).is_some_and(Member::is_healthy));
        let stepped = self.next_step.is_some_and(|step| step <= now);
        if changed || outliers || returned || regained || cut || managed || stepped {
            self.publish(now);
        }
        self.order_checks(now);
    }

    /// The next thing to do, if any.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When to call [`Controller::handle`] again at the latest; none where only an input matters.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        let well = self.standing.values().filter(|standing| standing.yields);
        let regain = well.filter_map(|s| s.well_since).map(|since| since + RETURN_HOLD).min();
        let (cut, manage) = (self.departures.next_deadline(), self.management.next_deadline());
        let look = self.watches.values().filter_map(Watch::due).min();
        let all = [self.roster.next_deadline(), regain, self.next_step, cut, manage, look];
        all.into_iter().flatten().min()
    }

    /// What is configured now.
    #[must_use]
    pub fn fleet(&self) -> &Arc<Fleet> {
        &self.fleet
    }

    /// Whether a server may be given requests, as far as its checks and its errors go; none for a
    /// server that is not known.
    #[must_use]
    pub fn is_healthy(&self, server: ServerId) -> Option<bool> {
        self.roster.get(server).map(Member::is_healthy)
    }

    /// Panics where the state contradicts itself; for tests, after every step.
    ///
    /// # Panics
    /// On a defect of the controller.
    pub fn check_invariants(&self) {
        self.roster.check_invariants(&self.fleet);
        for (standing, state) in &self.standing {
            assert!(state.yields || state.well_since.is_none(), "{standing:?} waits for nothing");
        }
    }

    fn reload(&mut self, now: Instant, fleet: Fleet) {
        let before = core::mem::replace(&mut self.fleet, Arc::new(fleet));
        self.roster.enlist(now, &self.fleet, &mut self.ledger);
        self.departures.settle(now, &before, &self.fleet, &self.ledger);
        self.management.settle(now, &self.fleet, &mut self.ledger);
        self.ledger.limiters.settle(now, &self.fleet);
        let groups = group_keys(&self.fleet);
        self.forget_watches(&groups);
        self.ledger.retain(&self.fleet);
        self.standing.retain(|key, _| groups.contains(key));
    }

    fn checked(
        &mut self,
        now: Instant,
        server: ServerId,
        passed: Result<Duration, String>,
    ) -> bool {
        let Some(member) = self.roster.get_mut(server) else { return false };
        let (service, group) = member.place.of(&self.fleet);
        let Some(check) = &service.health else { return false };
        let (was_healthy, old_rtt) = (member.health.is_healthy(), member.rtt);
        let first = member.health == Health::Starting;
        let is_news = member.checked(now, passed, check);
        let (is_healthy, rtt) = (member.health.is_healthy(), member.rtt);
        if is_healthy == was_healthy {
            // The last of the first checks: what is told of the servers is out of date.
            let all_known = first && !self.roster.awaits_first_checks();
            return all_known || is_news || group.rtt.is_none() && old_rtt != rtt;
        }
        if is_healthy && !first {
            member.up_since = now;
        }
        let address = member.address;
        let change = match &member.down_for {
            None => Change::Up(address),
            Some(why) => Change::Down(address, why.clone()),
        };
        self.outputs.push_back(notice(service, group, change));
        true
    }

    fn failing(&mut self, now: Instant, (server, count): (ServerId, u32), why: Reason) -> bool {
        let silent = why == Reason::Hangs;
        let Some(place) = self.roster.get(server).map(|member| member.place) else { return false };
        let (service, group) = place.of(&self.fleet);
        let Some(rules) = &service.ejection else { return false };
        let (out, all) = self.roster.ejected_of(place.service);
        let Some(member) = self.roster.get_mut(server) else { return false };
        if count < rules.errors {
            return false;
        }
        let state = self.ledger.server(&service.name, &group.name, member.address);
        if member.ejected.is_out() {
            if silent {
                // Others could not even connect. Who waits for an answer may go elsewhere too.
                member.ejected.note_silence();
                state.silence.set_out(true);
            }
            return false;
        }
        if !may_eject(rules, out, all) {
            return false;
        }
        member.ejected.eject(now, rules, why);
        state.count_ejection();
        state.silence.set_out(silent);
        member.check_now(now);
        let time = member.ejected.until().map_or(Duration::ZERO, |until| until.since(now));
        let change = match silent {
            true => Change::Silent(member.address, time),
            false => Change::Ejected(member.address, time, why),
        };
        self.outputs.push_back(notice(service, group, change));
        true
    }

    /// Lets a server back in that was out for its silence and has answered a check. That a
    /// connection opened would say nothing: the kernel opens it for a process that is stopped.
    fn answers_again(&mut self, now: Instant, server: ServerId) -> bool {
        let Some(member) = self.roster.get_mut(server) else { return false };
        let (service, group) = member.place.of(&self.fleet);
        let asks = service.health.as_ref().is_some_and(|it| it.probe.asks_a_program());
        if !asks || !member.ejected.is_silent() {
            return false;
        }
        member.end_ejection(now);
        let address = member.address;
        self.ledger.server(&service.name, &group.name, address).silence.set_out(false);
        self.outputs.push_back(notice(service, group, Change::Returned(address)));
        true
    }

    /// Cuts what is left at servers that drained for long enough; says whether there was any. The
    /// plan that follows has every connection look.
    fn cut_late(&mut self, now: Instant) -> bool {
        let late = self.departures.cut_late(now);
        let notices = late.iter().map(|it| {
            let change = Change::Cut(it.state.address(), it.state.in_flight());
            Notice { service: it.service.clone(), group: it.group.clone(), change }
        });
        self.outputs.extend(notices.map(Output::Notice));
        !late.is_empty()
    }

    fn expire_ejections(&mut self, now: Instant) -> bool {
        let returned = self.roster.expire_ejections(now);
        let tried: Vec<Place> =
            returned.iter().filter(|it| it.ejected.was_outlier()).map(|it| it.place).collect();
        for member in &returned {
            let (service, group) = member.place.of(&self.fleet);
            self.ledger.server(&service.name, &group.name, member.address).silence.set_out(false);
            if member.health.is_healthy() {
                self.outputs.push_back(notice(service, group, Change::Returned(member.address)));
            }
        }
        let any = !returned.is_empty();
        tried.into_iter().for_each(|place| self.begin_trial(now, place));
        any
    }

    /// Moves groups behind the others or back; says whether any moved.
    fn settle_standing(&mut self, now: Instant) -> bool {
        let mut moved = false;
        for (s, service) in self.fleet.services.iter().enumerate() {
            for (g, group) in service.groups.iter().enumerate() {
                let healthy = self.roster.healthy_share(s, g);
                let well = healthy >= service.failover_threshold;
                let key = (service.name.clone(), group.name.clone());
                let standing = self.standing.entry(key).or_default();
                let Some(change) = standing.settle(now, well) else { continue };
                self.outputs.push_back(notice(service, group, change));
                moved = true;
            }
        }
        moved
    }

    fn order_checks(&mut self, now: Instant) {
        for (server, member) in self.roster.due_checks(now) {
            let (service, _) = member.place.of(&self.fleet);
            let Some(check) = service.health.clone() else { continue };
            self.outputs.push_back(Output::Check {
                server,
                service: service.name.clone(),
                address: member.address,
                check,
            });
        }
    }

    fn publish(&mut self, now: Instant) {
        // The plan comes before what is told of it.
        let place = self.outputs.len();
        self.settle_standing(now);
        let services = self.fleet.services.iter().enumerate();
        let status: Vec<Vec<GroupStatus>> = services
            .map(|(s, service)| {
                let groups = service.groups.iter().enumerate();
                groups.map(|(g, group)| self.status(now, (s, service), (g, group))).collect()
            })
            .collect();
        self.generation += 1;
        let plan = planner::plan(now, self.generation, &self.fleet, &mut self.ledger, &status);
        self.outputs.insert(place, Output::Publish(Arc::new(plan)));
        self.next_step = self.next_slow_start_step(now);
    }

    fn status(
        &self,
        now: Instant,
        (s, service): (usize, &Service),
        (g, group): (usize, &Group),
    ) -> GroupStatus {
        let key = (service.name.clone(), group.name.clone());
        let mut shares = self.roster.shares(now, s, g, planner::slow_start(service));
        for (share, server) in shares.iter_mut().zip(self.roster.ids(s, g)) {
            *share = *share * self.management.factor(server);
        }
        GroupStatus {
            distance: self.distance(s, g, group),
            yields: self.standing.get(&key).is_some_and(|standing| standing.yields),
            shares,
            conditions: self.roster.conditions(s, g),
        }
    }

    /// The round-trip time of the file, zero in the edge's own region, else what checks measured;
    /// a group that has not been reached yet counts as farther than any.
    fn distance(&self, service: usize, group_index: usize, group: &Group) -> Duration {
        let own = (group.region == self.fleet.edge.region).then_some(Duration::ZERO);
        let measured = || self.roster.measured_rtt(service, group_index);
        group.rtt.or(own).or_else(measured).unwrap_or(Duration::MAX)
    }

    fn next_slow_start_step(&self, now: Instant) -> Option<Instant> {
        let services = self.fleet.services.iter().enumerate();
        let steps = services.filter_map(|(s, service)| {
            let span = planner::slow_start(service);
            self.roster.is_starting(now, s, span).then(|| now + span / SLOW_START_STEPS)
        });
        steps.min()
    }
}

impl Standing {
    /// Yields at once; comes back after [`RETURN_HOLD`] without interruption.
    fn settle(&mut self, now: Instant, well: bool) -> Option<Change> {
        if !well {
            self.well_since = None;
            let news = !self.yields;
            self.yields = true;
            return news.then_some(Change::Yields);
        }
        if !self.yields {
            return None;
        }
        let since = *self.well_since.get_or_insert(now);
        (now.since(since) >= RETURN_HOLD).then(|| {
            *self = Self::default();
            Change::Recovered
        })
    }
}

fn notice(service: &Service, group: &Group, change: Change) -> Output {
    let (service, group) = (service.name.clone(), group.name.clone());
    Output::Notice(Notice { service, group, change })
}

fn group_keys(fleet: &Fleet) -> Vec<(String, String)> {
    let services = fleet.services.iter();
    services
        .flat_map(|service| service.groups.iter().map(move |group| (service, group)))
        .map(|(service, group)| (service.name.clone(), group.name.clone()))
        .collect()
}

impl Place {
    /// The service and the group of this place.
    fn of<'a>(&self, fleet: &'a Fleet) -> (&'a Service, &'a Group) {
        let service = &fleet.services[self.service];
        (service, &service.groups[self.group])
    }
}

/// A slow start moves on in twenty steps: fine enough that none is a jump of load.
const SLOW_START_STEPS: u64 = 20;
