//! One edge's part in the sharing: a state machine without I/O.
//!
//! Its owner hands in what happens ([`Participant::handle`]), carries out what it wants
//! ([`Participant::poll`], to the end, in order), and hands in [`Event::Observed`] at
//! [`Participant::next_deadline`]. Several requests may be under way to the store at once; each is
//! answered at most once, and need not be answered at all.

use alloc::{
    collections::{BTreeMap, VecDeque},
    string::String,
    vec::Vec,
};

use crate::{
    cluster::{
        demand::Demand,
        table::{Entry, Report, Revision, ServiceReport, SessionId, Table},
    },
    time::{Duration, Instant},
};

mod coordinator;
mod event;
mod lease;
mod local;
mod overview;
mod settings;
mod view;

use coordinator::Goal;
pub use event::{
    Action, Answer, Change, Contents, Event, GroupObservation, Observation, RequestId,
    SharedService,
};
use lease::{Lease, LeaseRequest};
use local::Local;
use overview::Counts;
pub use settings::{Settings, WhenAway};
use view::View;

/// The state machine; see the module.
#[derive(Debug)]
pub struct Participant {
    settings: Settings,
    lease: Lease,
    view: Option<View>,
    locals: Vec<Local>,
    /// By service, where this edge was elected.
    goals: BTreeMap<String, Goal>,
    told: Option<LastReport>,
    actions: VecDeque<Action>,
    requests: u64,
    observed: Instant,
    /// What [`Action::Until`] said last.
    until: Option<Instant>,
    left: bool,
    counts: Counts,
}

/// The last report.
#[derive(Debug)]
struct LastReport {
    session: SessionId,
    report: Report,
    at: Instant,
    id: RequestId,
}

impl Participant {
    /// An edge that has heard nothing yet.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            lease: Lease::new(settings.lease, settings.margin),
            settings,
            view: None,
            locals: Vec::new(),
            goals: BTreeMap::new(),
            told: None,
            actions: VecDeque::new(),
            requests: 0,
            observed: Instant::ZERO,
            until: None,
            left: false,
            counts: Counts::default(),
        }
    }

    /// Takes in what has happened.
    pub fn handle(&mut self, now: Instant, event: Event) {
        let is_of_others = self.is_of_others(&event);
        match event {
            Event::Configured(services) => self.configure(services),
            Event::Observed(observations) => {
                self.observed = now;
                let locals = self.locals.iter_mut().zip(observations);
                locals.for_each(|(local, observation)| local.observe(now, observation));
            }
            Event::Read(contents) => self.read(now, contents),
            Event::Changed(revision, changes) => {
                changes.into_iter().for_each(|change| self.change(now, revision, change));
            }
            Event::Answered(id, answer) => self.answered(now, id, answer),
            Event::Leave => self.leave(),
        }
        if self.left {
            return;
        }
        self.keep_lease(now);
        if !is_of_others {
            self.apply(now);
            self.report(now);
        }
        self.write_tables(now);
    }

    /// Whether the event has only reports of other edges, which change nothing for this edge.
    fn is_of_others(&self, event: &Event) -> bool {
        let Event::Changed(_, changes) = event else { return false };
        let own = self.session();
        changes.iter().all(|it| matches!(it, Change::Report(by, ..) if Some(*by) != own))
    }

    /// The next thing to do. `now` is when it is done: leases are counted from then.
    pub fn poll(&mut self, now: Instant) -> Option<Action> {
        let action = self.actions.pop_front()?;
        if let Action::Join(id) | Action::KeepAlive(id, _) = action {
            self.lease.asked(id, now);
        }
        Some(action)
    }

    /// When [`Event::Observed`] is to be handed in at the latest; none once it has left.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        let look = self.observed + Demand::PERIOD;
        let ends = self.lease.until().filter(|until| *until > self.observed);
        (!self.left).then(|| ends.map_or(look, |ends| look.min(ends)))
    }

    /// What the operator says.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The session that this edge has, if any.
    #[must_use]
    pub fn session(&self) -> Option<SessionId> {
        self.lease.session()
    }

    /// Whether its shares may be used now, so that it has more than its floor.
    #[must_use]
    pub fn is_joined(&self, now: Instant) -> bool {
        self.lease.is_valid(now)
    }

    /// Whether this edge computes the shares, as far as it knows.
    #[must_use]
    pub fn is_elected(&self) -> bool {
        let elected = self.view.as_ref().and_then(View::elected);
        elected.is_some() && elected == self.session()
    }

    /// The sessions that there are, with their reports, as far as it knows.
    pub fn sessions(&self) -> impl Iterator<Item = (SessionId, &Report)> {
        let reports = self.view.iter().flat_map(|view| &view.reports);
        reports.map(|(session, report)| (*session, report))
    }

    /// The table of a service, as far as it knows.
    #[must_use]
    pub fn table(&self, service: &str) -> Option<&Table> {
        self.view.as_ref()?.tables.get(service).map(|(_, table)| table)
    }

    fn configure(&mut self, services: Vec<SharedService>) {
        let mut before = core::mem::take(&mut self.locals);
        for service in services {
            let at = before.iter().position(|local| local.name == service.name);
            let known = at.map(|at| before.swap_remove(at));
            self.locals.push(Local::new(service, known));
        }
    }

    fn read(&mut self, now: Instant, contents: Contents) {
        // A store that was set back, or is another. Whether this one still knows the session is
        // told by the next renewal: what is read may be older than the session.
        if self.view.as_ref().is_some_and(|view| contents.revision < view.revision) {
            self.lose_session(now);
        }
        self.view = Some(View::read(contents));
        self.lease.reconnected(now);
    }

    fn change(&mut self, now: Instant, revision: Revision, change: Change) {
        let Some(view) = &mut self.view else { return };
        if revision < view.revision {
            return;
        }
        let ended = if let Change::Ended(session) = &change { Some(*session) } else { None };
        if matches!(change, Change::Table(..)) {
            self.counts.allotted = Some(now);
        }
        view.change(revision, change);
        if ended.is_some() && ended == self.session() {
            self.lose_session(now);
        }
    }

    fn lose_session(&mut self, now: Instant) {
        self.lease.lose(now);
        self.told = None;
    }

    fn answered(&mut self, now: Instant, id: RequestId, answer: Answer) {
        if self.lease.answered(now, id, answer) {
            if answer == Answer::SessionLost {
                self.told = None;
            }
            return;
        }
        if answer != Answer::SessionLost {
            // The watch shows what was written, and what it does not show is tried again.
            return;
        }
        if self.told.as_ref().is_some_and(|told| told.id == id) {
            self.lose_session(now);
        }
        self.locals.iter_mut().for_each(|local| local.refused(id));
    }

    fn leave(&mut self) {
        self.left = true;
        self.actions.clear();
        for local in &mut self.locals {
            local.leave(&mut self.actions);
        }
        self.actions.extend(self.lease.session().map(Action::Leave));
    }

    fn keep_lease(&mut self, now: Instant) {
        let Some(ask) = self.lease.due(now) else { return };
        let id = self.next_id();
        self.lease.ask(id, ask);
        self.actions.push_back(match ask {
            LeaseRequest::Join => Action::Join(id),
            LeaseRequest::KeepAlive(session) => Action::KeepAlive(id, session),
        });
    }

    /// Brings shares into force, as the table and the lease say.
    fn apply(&mut self, now: Instant) {
        let valid = self.lease.is_valid(now);
        let keeps = self.settings.when_away == WhenAway::Keep;
        let kept = keeps && (!valid || self.lease.is_new(now));
        let session = self.session();
        // More is in force only while it ends by itself; less needs no end.
        let until = self.lease.until().filter(|_| valid && !keeps);
        let news = (self.until != until).then_some(Action::Until(until));
        self.until = until;
        let (before, after) = if until.is_some() { (news, None) } else { (None, news) };
        self.actions.extend(before);
        for local in &mut self.locals {
            let table = self.view.as_ref().and_then(|view| view.tables.get(&local.name));
            local.follow(session, table.map(|(_, table)| table));
            local.apply((valid, kept), self.settings.floor(), &mut self.actions);
        }
        self.actions.extend(after);
    }

    /// Tells the others what they have to know, if there is anything, and not too often.
    fn report(&mut self, now: Instant) {
        let Some(session) = self.session() else { return };
        let (name, floors) = (self.settings.name.clone(), Some(self.settings.floors()));
        let report = Report { name, floors, services: self.services() };
        if let Some(told) = self.told.as_ref().filter(|told| told.session == session) {
            let since = now.since(told.at);
            let known = self.view.as_ref().and_then(|view| view.reports.get(&session));
            let is_lost = known != Some(&told.report) && since >= PATIENCE;
            let is_news = is_news(&told.report, &report);
            let may = self.is_awaited(session, &told.report, &report)
                || (is_news && since >= self.gap())
                || is_lost;
            if !may {
                return;
            }
        }
        let id = self.next_id();
        self.actions.push_back(Action::Report(id, session, report.clone()));
        self.told = Some(LastReport { session, report, at: now, id });
    }

    /// Reports on the services of this edge; on one it no longer has, only the version it has seen.
    fn services(&self) -> BTreeMap<String, ServiceReport> {
        let floor = self.settings.floor();
        let tables = self.view.iter().flat_map(|view| &view.tables);
        let gone = tables.filter(|(_, (_, table))| {
            let of_this = |entry: &Entry| Some(entry.session) == self.session();
            table.groups.values().flatten().any(of_this)
        });
        let gone = gone.map(|(name, (_, table))| {
            (name.clone(), ServiceReport { seen: table.version, ..ServiceReport::default() })
        });
        let locals = self.locals.iter().map(|local| (local.name.clone(), local.report(floor)));
        gone.chain(locals).collect()
    }

    /// Whether somebody waits for what this edge has not told yet.
    fn is_awaited(&self, session: SessionId, told: &Report, report: &Report) -> bool {
        let tables = self.view.iter().flat_map(|view| &view.tables);
        let mut services = tables.map(|(name, (_, table))| {
            let (told, now) = (told.services.get(name), report.services.get(name));
            table.groups.iter().any(|(group, entries)| {
                let mut own = entries.iter().filter(|entry| entry.session == session);
                own.any(|entry| entry.bound_now(now, group) < entry.bound_now(told, group))
            })
        });
        let gone = |(name, now): (&String, &ServiceReport)| {
            now.seen == 0 && told.services.get(name).is_some_and(|told| told.seen > 0)
        };
        services.any(|awaited| awaited) || report.services.iter().any(gone)
    }

    /// Writes tables: as the elected edge, towards the goal; otherwise, to take what this edge
    /// lacks. None while other floors are kept, since more might be given then than there is.
    fn write_tables(&mut self, now: Instant) {
        let Some(session) = self.session().filter(|_| self.lease.is_valid(now)) else { return };
        let known = self.view.as_ref().is_some_and(|view| view.reports.contains_key(&session));
        if !known || self.others_differ() {
            return;
        }
        let reserved = self.settings.floors().sum();
        let elected = self.is_elected();
        for at in 0..self.locals.len() {
            let local = &self.locals[at];
            let view = self.view.as_ref();
            let table = view.and_then(|view| view.tables.get(&local.name));
            let differs = table.is_some_and(|(_, table)| table.reserved != reserved);
            if differs || !local.may_write(now, table.map(|(revision, _)| *revision)) {
                continue;
            }
            let moved = if elected { self.moved(now, at) } else { None };
            let is_moved = moved.is_some();
            let table = moved.or_else(|| self.sliced(now, session, at));
            let Some((replaces, table)) = table else { continue };
            let count = &mut self.counts;
            *(if is_moved { &mut count.allotments } else { &mut count.slices }) += 1;
            let id = self.next_id();
            let local = &mut self.locals[at];
            local.writes(now, id, replaces);
            let service = local.name.clone();
            self.actions.push_back(Action::Table { id, session, service, replaces, table });
        }
    }

    /// The next table as the elected edge wants it.
    fn moved(&mut self, now: Instant, at: usize) -> Option<(Option<Revision>, Table)> {
        let (gap, floors) = (self.gap(), self.settings.floors());
        if now < self.locals[at].wrote() + gap / 4 {
            return None;
        }
        let (view, service) = (self.view.as_mut()?, &self.locals[at].name);
        let Some((revision, table)) = view.tables.get(service) else {
            let version = view.revision + 1;
            let table = Table { version, reserved: floors.sum(), groups: BTreeMap::new() };
            let may = view.may_begin(now, service, self.settings.lease);
            return may.then_some((None, table));
        };
        let goal = self.goals.entry(service.clone()).or_default();
        goal.update((now, gap), view, service, floors);
        goal.table(view, service, table).map(|table| (Some(*revision), table))
    }

    /// The next table where this edge is short and something is free.
    fn sliced(
        &self,
        now: Instant,
        session: SessionId,
        at: usize,
    ) -> Option<(Option<Revision>, Table)> {
        let gap = self.gap();
        let local = &self.locals[at];
        if !local.is_short(self.settings.floor()) || now < local.wrote() + gap {
            return None;
        }
        let view = self.view.as_ref()?;
        let (revision, table) = view.tables.get(&local.name)?;
        let mut next = table.next(&local.name, &view.reports);
        let taken = local.slice(self.settings.floor(), session, &mut next);
        taken.then_some((Some(*revision), next))
    }

    /// How long after one report comes the next, and after one allotment the next: the more edges,
    /// the longer, so that all of them together write about as often.
    fn gap(&self) -> Duration {
        let sessions = self.view.as_ref().map_or(1, |view| view.reports.len()) as u64;
        (GAP_PER_EDGE * sessions).clamp(GAP_MIN, GAP_MAX)
    }

    fn next_id(&mut self) -> RequestId {
        self.requests += 1;
        RequestId(self.requests)
    }
}

/// Whether what has changed since the last report is more than noise.
fn is_news(told: &Report, now: &Report) -> bool {
    told.services.len() != now.services.len()
        || now
            .services
            .iter()
            .any(|(name, now)| told.services.get(name).is_none_or(|told| local::is_news(told, now)))
}

/// Time after which something missing from the store is told again.
const PATIENCE: Duration = Duration::from_secs(1);

const GAP_PER_EDGE: Duration = Duration::from_millis(15);
const GAP_MIN: Duration = Duration::from_millis(100);
const GAP_MAX: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests;
