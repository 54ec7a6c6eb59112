//! The slow half: takes inputs, keeps the state of all servers, publishes plans.
//!
//! One owner calls it. After each [`Controller::handle`] the owner drains [`Controller::poll`],
//! and calls `handle` again at [`Controller::next_deadline`] at the latest, with
//! [`Input::Tick`] if nothing else has happened.
//!
//! What an input costs grows with what it changes, not with what there is: it touches one group,
//! things with a time of their own wait in one queue, and a plan is made anew for the services that
//! were touched alone. `docs/decisions/0011-work-by-service.md` has the figures.

use alloc::{
    collections::{BTreeSet, VecDeque},
    string::String,
    sync::Arc,
    vec::Vec,
};
use core::net::SocketAddr;

mod inputs;
mod outliers;
mod publish;
mod reload;
mod snapshot;
mod succession;

use crate::{
    cluster::share::Share,
    decide::{
        ledger::{Ledger, ServerId, ServerState, Trouble},
        management::{Management, next_look},
        plan::Plan,
        reason::Reason,
        server_table::{Checks, Place, ServerEntry, ServerTable},
        service_plans::ServicePlans,
    },
    fleet::{Fleet, Group, HealthCheck, PolicyKind, Service},
    health::{checks::Health, draining::Draining, ejection::may_eject, outlier::Evidence},
    time::{Duration, Instant, timer_queue::TimerQueue},
    units::Ratio,
};
pub use inputs::Inputs;
use publish::planless;
use reload::turn_of;
pub use succession::KnownServer;

/// What the controller hears.
#[derive(Debug)]
pub enum Input {
    /// Time has passed.
    Tick,
    /// A new configuration, already checked.
    Reload(Arc<Fleet>),
    /// A health check of a server ended.
    Checked {
        /// Number of the server that was checked.
        server: ServerId,
        /// How long it took, if it passed; else why it did not.
        passed: Result<Passed, String>,
    },
    /// Others have checked a server whose check was due ([`crate::health::shared`]).
    Reported {
        /// Number of the server that was checked.
        server: ServerId,
        /// As for [`Input::Checked`], after their `rise` and `fall`.
        passed: Result<Passed, String>,
    },
    /// Others tell something else of a server than before: its check is due, unless one is under
    /// way.
    Recheck {
        /// Number of the server to check.
        server: ServerId,
    },
    /// A server failed so many real requests in a row ([`crate::decide::permit::Permit::fail`]).
    Failing {
        /// Number of the server that failed them.
        server: ServerId,
        /// How many.
        errors_in_a_row: u32,
        /// Why the last of them failed.
        reason: Reason,
    },
    /// Servers of the group of this one send 5xx
    /// ([`crate::decide::permit::Permit::answered_5xx`]).
    Errs {
        /// Number of one of the servers.
        server: ServerId,
    },
    /// A limit of the group of this server has begun or ended
    /// ([`crate::decide::permit::Permit::answered_well`]).
    Limit {
        /// Number of a server of the group.
        server: ServerId,
    },
    /// This edge may use so much of the capacity of a group from now on. May come before the
    /// configuration that names the group.
    Share {
        /// The name of the service.
        service: String,
        /// The name of the group.
        group: String,
        /// The part that is this edge's.
        share: Share,
    },
    /// Shares may be used until then, for ever if none; at once, without another plan.
    SharesUntil(Option<Instant>),
    /// A server answered nobody while so many requests waited for it
    /// ([`crate::decide::permit::Permit::suspect`]).
    Silent {
        /// Number of the server that is silent.
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
    /// Duration of the whole check.
    pub whole: Duration,
}

/// What the controller wants done.
#[derive(Debug)]
pub enum Output {
    /// Requests are decided by this plan from now on.
    Publish(Arc<Plan>),
    /// A server is to be checked, and the result handed in as [`Input::Checked`].
    Check {
        /// Number of the server to check.
        server: ServerId,
        /// The index of its service in [`Controller::fleet`].
        service: usize,
        /// The index of its group in the service.
        group: usize,
        /// Its own index in the group.
        index: usize,
        /// The address to check.
        address: SocketAddr,
        /// How to check it.
        check: HealthCheck,
        /// Held until the result is in, so that the server's number is not given to another.
        state: Arc<ServerState>,
        /// It is ejected: only a check from here can say whether it answers.
        is_ejected: bool,
        /// Which of several links to it comes next: another after each check that passed.
        turn: u16,
    },
    /// Something an operator wants to know.
    Notice(Notice),
}

/// What changed, for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Name of the service.
    pub service: String,
    /// Name of the group within the service.
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
    /// It left requests without a response and answered nobody; it is out for this long.
    Silent(SocketAddr, Duration),
    /// Its time out is over.
    Returned(SocketAddr),
    /// Its drain is over: so many requests still under way are cut.
    Cut(SocketAddr, u32),
    /// So many of so many servers of the group are healthy, less than this share; others come
    /// first.
    Yields(usize, usize, Ratio),
    /// All servers of the group are drained; others come first.
    Drained,
    /// Enough servers have been healthy for long enough.
    Recovered,
    /// More requests in flight bring no more responses: no more than so many are sent at a time.
    Limited(u32),
    /// As many could be answered as come: all are sent.
    Unlimited,
}

/// The slow half; see the module.
#[derive(Debug)]
pub struct Controller {
    fleet: Arc<Fleet>,
    ledger: Ledger,
    server_table: ServerTable,
    draining: Draining,
    management: Management,
    timers: TimerQueue<Due>,
    /// Services whose plans are to be made anew.
    touched: BTreeSet<usize>,
    /// Whether a plan is to be published though no service was touched.
    reloaded: bool,
    /// As they were published last.
    plans: ServicePlans,
    /// Servers whose waiting requests have to look at the next plan.
    urgent: Vec<ServerId>,
    /// The same for published plans, each with the generation.
    told: Arc<[(u64, ServerId)]>,
    generation: u64,
    configuration: u64,
    outputs: VecDeque<Output>,
}

/// What a timer is set for. Services and groups are known by their places in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    /// An ejection ends.
    Return(ServerId),
    /// Failures of a server that could not be ejected may be told again.
    HearAgain(ServerId),
    /// A server that has joined its group counts as one of its servers, whether it serves or not.
    JoinTimeout(ServerId),
    /// A group may have been well for long enough.
    Regain(usize, usize),
    /// A slow start moves on.
    Step(usize),
    /// Errors of a group are looked at.
    Watch(usize, usize),
    /// The manager looks.
    Manage(usize),
    /// What is left at a server that drains is cut.
    Cut,
    Check(ServerId),
}

impl Controller {
    /// Takes an input in.
    pub fn handle(&mut self, now: Instant, input: Input) {
        self.handle_all(now, core::iter::once(input));
    }

    /// Takes inputs in that came together, in this order: one plan follows from all of them.
    pub fn handle_all(&mut self, now: Instant, inputs: impl IntoIterator<Item = Input>) {
        for input in inputs {
            if matches!(input, Input::Reload(_)) {
                // What was touched before has its place in the fleet of before.
                self.publish(now);
            }
            self.take(now, input);
        }
        let mut checks = Vec::new();
        while let Some(due) = self.timers.pop(now) {
            self.meet(now, due, &mut checks);
        }
        self.publish(now);
        checks.into_iter().for_each(|server| self.order_check(server));
    }

    fn take(&mut self, now: Instant, input: Input) {
        match input {
            Input::Tick => {}
            Input::Reload(fleet) => self.reload(now, &fleet),
            Input::Checked { server, passed } => {
                self.answers(now, server, &passed);
                self.checked(now, server, passed, Health::after);
            }
            Input::Reported { server, passed } => {
                self.checked(now, server, passed, Health::told);
            }
            Input::Recheck { server } => self.recheck(now, server),
            Input::Failing { server, errors_in_a_row, reason } => {
                self.failing(now, (server, errors_in_a_row), reason);
            }
            Input::Silent { server, suspicions } => {
                self.failing(now, (server, suspicions), Reason::Hangs);
            }
            Input::Errs { server } => self.errs(now, server),
            Input::Limit { server } => self.note_limit(server),
            Input::Share { service, group, share } => self.share(&service, &group, share),
            Input::SharesUntil(until) => self.ledger.set_shares_until(until),
        }
    }

    /// The next thing to do, if any.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When to call [`Controller::handle`] again at the latest; none where only an input matters.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// What is configured now.
    #[must_use]
    pub fn fleet(&self) -> &Arc<Fleet> {
        &self.fleet
    }

    /// The service of a server, where it listens, and whether it is up by its checks alone; none
    /// for a server that is not known.
    #[must_use]
    pub fn checked_server(&self, server: ServerId) -> Option<(&Service, SocketAddr, bool)> {
        let place = self.server_table.place(server)?;
        let entry = self.server_table.at(place);
        Some((place.of(&self.fleet).0, entry.address(), entry.health.is_healthy()))
    }

    /// Whether a server may be given requests, as far as its checks and its errors go; none for a
    /// server that is not known.
    #[must_use]
    pub fn is_healthy(&self, server: ServerId) -> Option<bool> {
        self.server_table.get(server).map(ServerEntry::is_healthy)
    }

    /// Handles a timer that is due.
    fn meet(&mut self, now: Instant, due: Due, checks: &mut Vec<ServerId>) {
        match due {
            Due::Return(server) => self.end_ejection(now, server),
            Due::HearAgain(server) => {
                self.server_table
                    .get(server)
                    .into_iter()
                    .for_each(|entry| entry.state.hear_again());
            }
            Due::JoinTimeout(server) => self.end_joining(server),
            Due::Regain(service, _) | Due::Step(service) => {
                self.touched.insert(service);
            }
            Due::Watch(service, group) => self.look_at_errors(now, (service, group)),
            Due::Manage(service) => self.manage(now, service),
            Due::Cut => self.cut_late(now),
            Due::Check(server) => checks.push(server),
        }
    }

    /// Looks at a server now whose check is not under way.
    fn recheck(&mut self, now: Instant, server: ServerId) {
        let waits = |entry: &ServerEntry| entry.checks == Checks::Waiting;
        if self.server_table.get(server).is_some_and(waits) {
            self.timers.set(Due::Check(server), Some(now));
        }
    }

    /// Lets a server back in that was out for its silence and has answered a check of this edge.
    /// That a connection opened would say nothing: the kernel opens it for a process that is
    /// stopped.
    fn answers(&mut self, now: Instant, server: ServerId, passed: &Result<Passed, String>) {
        let Some(place) = self.server_table.place(server) else { return };
        let check = &place.of(&self.fleet).0.health;
        let asks = check.as_ref().is_some_and(|check| check.probe.asks_a_program());
        if passed.is_ok() && asks && self.server_table.at(place).ejected().is_silent() {
            self.server_table.at_mut(place).ejected_mut().overturn(now);
            self.let_in(now, place);
        }
    }

    fn checked(
        &mut self,
        now: Instant,
        server: ServerId,
        passed: Result<Passed, String>,
        turn: fn(Health, bool, &HealthCheck) -> Health,
    ) {
        let Some(place) = self.server_table.place(server) else { return };
        let fleet = self.fleet.clone();
        let (service, group) = place.of(&fleet);
        let Some(check) = &service.health else { return };
        if let (Ok(passed), PolicyKind::Managed) = (&passed, service.policy) {
            self.management.checked(server, passed.whole);
        }
        let known = self.server_table.group_mut(place.service, place.group);
        let entry = &mut known.entries[place.server];
        let first = entry.health == Health::Starting;
        let (was_healthy, was_far) = (entry.health.is_healthy(), entry.round_trip.get());
        let counted = entry.counted().is_some();
        let health = turn(entry.health, passed.is_ok(), check);
        let is_news = entry.checked(passed.map(|passed| passed.round_trip), health);
        let next = match first {
            true => turn_of(now, server, check.interval),
            false => now + entry.health.interval(check),
        };
        self.timers.set(Due::Check(server), Some(next));
        self.timers.set(Due::Return(server), entry.returns_at());
        let turned = entry.health.is_healthy() != was_healthy;
        let has_joined = entry.counted().is_some() != counted;
        if turned {
            if !was_healthy {
                entry.come_up(now);
            }
            let change = match &entry.down_for {
                None => Change::Up(entry.address()),
                Some(why) => Change::Down(entry.address(), why.clone()),
            };
            self.outputs.push_back(notice(service, group, change));
        }
        let is_measured = group.rtt.is_none() && group.region != fleet.edge.region;
        let moved = is_measured
            && was_far != known.entries[place.server].round_trip.get()
            && known.measure_distance();
        // Once all of a service are known, what is told of its servers is out of date.
        let all_known =
            first && !self.server_table.servers(place.service).any(ServerEntry::awaits_first_check);
        if turned || has_joined || is_news || moved || all_known {
            self.touched.insert(place.service);
        }
    }

    fn failing(&mut self, now: Instant, (server, count): (ServerId, u32), why: Reason) {
        let silent = why == Reason::Hangs;
        let Some(place) = self.server_table.place(server) else { return };
        let (service, _) = place.of(&self.fleet);
        let (out, all) = self.server_table.ejected_of(place.service);
        let entry = self.server_table.at_mut(place);
        let rules = service.ejection.as_ref().filter(|rules| count >= rules.errors);
        let Some(rules) = rules else { return entry.state.hear_again() };
        // That it fails is known until it is back; that it hangs, too, would be news.
        entry.state.hear_again_of(Trouble::Hangs);
        if entry.is_ejected() {
            if silent && !entry.ejected().is_silent() {
                // Others could not even connect. Who waits for a response may go elsewhere too.
                entry.ejected_mut().note_silence();
                entry.state.silence.set_out(true);
                self.urgent.push(server);
                self.touched.insert(place.service);
            }
            return;
        }
        let answers_checks = silent && entry.ejected().was_overturned(now);
        if answers_checks || !may_eject(rules, out, all) {
            // It is not told of at every request that nothing can be done about.
            entry.state.hear_no_more();
            self.timers.set(Due::HearAgain(server), Some(now + HEAR_AGAIN));
            return;
        }
        entry.ejected_mut().eject(now, rules, why);
        entry.state.silence.set_out(silent);
        self.urgent.extend(silent.then_some(server));
        let address = entry.address();
        self.ejected(now, place, |time| match silent {
            true => Change::Silent(address, time),
            false => Change::Ejected(address, time, why),
        });
    }

    /// Handles an ejection; `change` is the notice, given its duration.
    fn ejected(&mut self, now: Instant, place: Place, change: impl Fn(Duration) -> Change) {
        let (service, group) = place.of(&self.fleet);
        let entry = self.server_table.at(place);
        entry.state.count_ejection();
        let id = entry.id();
        if entry.checks == Checks::Waiting {
            self.timers.set(Due::Check(id), Some(now));
        }
        self.timers.set(Due::Return(id), entry.returns_at());
        let time = entry.ejected().until().map_or(Duration::ZERO, |until| until.since(now));
        self.outputs.push_back(notice(service, group, change(time)));
        self.touched.insert(place.service);
    }

    /// Tells that the group has found its limit, or has none any more.
    fn note_limit(&mut self, server: ServerId) {
        let Some(place) = self.server_table.place(server) else { return };
        let (service, group) = place.of(&self.fleet);
        let found = &self.server_table.at(place).state.group.auto;
        let change = match found.stage().limits() {
            true => Change::Limited(found.allowed()),
            false => Change::Unlimited,
        };
        self.outputs.push_back(notice(service, group, change));
    }

    fn share(&mut self, service: &str, group: &str, share: Share) {
        self.ledger.group(service, group).set_share(share);
        let at = self.position(service);
        self.touched.extend(at);
    }

    /// Lets a server back in whose time is over.
    fn end_ejection(&mut self, now: Instant, server: ServerId) {
        let Some(place) = self.server_table.place(server) else { return };
        self.let_in(now, place);
        if self.server_table.at(place).ejected().was_outlier() {
            self.begin_trial(now, place);
        }
    }

    fn let_in(&mut self, now: Instant, place: Place) {
        let (service, group) = place.of(&self.fleet);
        let entry = self.server_table.at_mut(place);
        entry.end_ejection(now);
        self.timers.set(Due::Return(entry.id()), None);
        if entry.health.is_healthy() {
            self.outputs.push_back(notice(service, group, Change::Returned(entry.address())));
        }
        self.touched.insert(place.service);
    }

    fn end_joining(&mut self, server: ServerId) {
        let Some(place) = self.server_table.place(server) else { return };
        if core::mem::take(&mut self.server_table.at_mut(place).is_joining) {
            self.touched.insert(place.service);
        }
    }

    /// Cuts requests still under way at servers whose drain is over, and has them look at the next
    /// plan.
    fn cut_late(&mut self, now: Instant) {
        for late in self.draining.cut_late(now) {
            let change = Change::Cut(late.state.address(), late.state.in_flight());
            let (service, group) = (late.service.clone(), late.group.clone());
            self.outputs.push_back(Output::Notice(Notice { service, group, change }));
            self.urgent.push(late.state.id());
        }
        self.timers.set(Due::Cut, self.draining.next_deadline());
    }

    fn manage(&mut self, now: Instant, service: usize) {
        let Some(of) = self.fleet.services.get(service) else { return };
        if self.management.look(now, of, &self.server_table.services()[service].groups) {
            self.touched.insert(service);
        }
        self.timers.set(Due::Manage(service), next_look(now, of));
    }

    fn order_check(&mut self, server: ServerId) {
        let Some(place) = self.server_table.place(server) else { return };
        let Some(check) = place.of(&self.fleet).0.health.clone() else { return };
        let entry = self.server_table.at_mut(place);
        entry.checks = Checks::UnderWay;
        let (address, state, turn) = (entry.address(), entry.state.clone(), entry.turn);
        let is_ejected = entry.ejected().until().is_some();
        self.outputs.push_back(Output::Check {
            server,
            service: place.service,
            group: place.group,
            index: place.server,
            address,
            check,
            state,
            is_ejected,
            turn,
        });
    }
}

fn notice(service: &Service, group: &Group, change: Change) -> Output {
    let (service, group) = (service.name.clone(), group.name.clone());
    Output::Notice(Notice { service, group, change })
}

impl Place {
    /// The service and the group of this place.
    fn of<'a>(&self, fleet: &'a Fleet) -> (&'a Service, &'a Group) {
        let service = &fleet.services[self.service];
        (service, &service.groups[self.group])
    }
}

/// How often it is looked whether a server may be ejected that fails and could not be.
const HEAR_AGAIN: Duration = Duration::from_millis(100);
