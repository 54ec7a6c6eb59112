//! The books of a run: every planned request has a ticket, every ticket is settled once.
//!
//! A [`Ticket`] is written when a request is due. It is settled by [`Ticket::end`]; one that is
//! dropped instead, because the run was ended, counts as cut off. So at any time
//! `planned = in flight + sum of the outcomes`, and no path through the generator can lose a
//! request or count it twice.

use std::{cell::RefCell, collections::BTreeMap, rc::Rc};

use loadline_core::{
    time::{Duration, Instant},
    units::Count,
};
use loadline_measure::{
    record::{Generator, LoadModel, LoadRecord, Outcomes, Percentiles, Phases, Spreads},
    statistics::Times,
};
use tokio::sync::Notify;

use crate::{
    health::{self, Signs},
    moments::Moments,
    outcome::{Outcome, Shortage},
    phases::PhaseTimes,
    plan::LoadPlan,
    run::Progress,
};

/// A whole response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WholeResponse {
    pub(crate) status: u16,
    /// Bytes read for it, head and body.
    pub(crate) bytes: u64,
    /// The value of the field that answers are counted by; none where it is absent or not asked.
    pub(crate) counted: Option<String>,
    /// How long each part of it took.
    pub(crate) phases: PhaseTimes,
}

/// The books, shared by everything that runs on the generator's thread.
pub(crate) struct Tally {
    books: RefCell<Books>,
    idle: Notify,
}

struct Books {
    start: Instant,
    started_unix_ms: u64,
    planned: u64,
    in_flight: u64,
    outcomes: Outcomes,
    response: Times,
    service: Times,
    lag: Times,
    phases: PhaseBooks,
    moments: Moments,
    bytes_read: u64,
    statuses: BTreeMap<u16, u64>,
    by_header: BTreeMap<String, u64>,
    reasons: BTreeMap<String, u64>,
    stale: u64,
    /// Connections that were opened.
    connections: u64,
    /// What was spoken over the connection opened last.
    protocol: String,
    /// How often the generator itself was out of something.
    shortages: BTreeMap<Shortage, u64>,
    /// The latest planned instant or end of a response: where the run ends in its figures.
    latest: Instant,
    /// The latest planned instant.
    last_planned: Instant,
    /// The latest send.
    last_sent: Instant,
    /// Requests that were neither sent nor should have been: dropped by the user's own limit, or
    /// cut off before their turn.
    not_owed: u64,
    recent: Recent,
}

/// The times of each phase.
struct PhaseBooks {
    dns: Times,
    connect: Times,
    tls: Times,
    first_byte: Times,
    body: Times,
}

/// What the progress display shows: the time since it was last asked.
struct Recent {
    since: Instant,
    response: Times,
}

/// One planned request.
#[must_use = "a ticket that is dropped counts as cut off"]
pub(crate) struct Ticket {
    tally: Rc<Tally>,
    planned: Instant,
    sent: Option<Instant>,
    settled: bool,
}

impl Tally {
    /// Empty books of a plan that has not begun and lasts so long, if that is known.
    pub(crate) fn new(lasts: Option<Duration>) -> Rc<Self> {
        let books = Books {
            start: Instant::ZERO,
            started_unix_ms: 0,
            planned: 0,
            in_flight: 0,
            outcomes: Outcomes::default(),
            response: Times::new(DIGITS),
            service: Times::new(DIGITS),
            lag: Times::new(DIGITS),
            phases: PhaseBooks::new(),
            moments: Moments::new(lasts),
            bytes_read: 0,
            statuses: BTreeMap::new(),
            by_header: BTreeMap::new(),
            reasons: BTreeMap::new(),
            stale: 0,
            connections: 0,
            protocol: String::new(),
            shortages: BTreeMap::new(),
            latest: Instant::ZERO,
            last_planned: Instant::ZERO,
            last_sent: Instant::ZERO,
            not_owed: 0,
            recent: Recent { since: Instant::ZERO, response: Times::new(RECENT_DIGITS) },
        };
        Rc::new(Self { books: RefCell::new(books), idle: Notify::new() })
    }

    /// Begins: the plan counts from `start`, which is so many milliseconds after 1970.
    pub(crate) fn begin(&self, start: Instant, unix_ms: u64) {
        let mut books = self.books.borrow_mut();
        books.start = start;
        books.started_unix_ms = unix_ms;
        books.latest = start;
        books.recent.since = start;
    }

    /// The instant the plan counts from.
    pub(crate) fn start(&self) -> Instant {
        self.books.borrow().start
    }

    /// Enters a request that is due at `planned`.
    pub(crate) fn plan(self: &Rc<Self>, planned: Instant) -> Ticket {
        let mut books = self.books.borrow_mut();
        books.planned += 1;
        books.in_flight += 1;
        books.latest = books.latest.max(planned);
        books.last_planned = books.last_planned.max(planned);
        let due = planned.since(books.start);
        books.moments.plan(due);
        Ticket { tally: Rc::clone(self), planned, sent: None, settled: false }
    }

    /// Counts a kept connection that was closed under a request.
    pub(crate) fn count_stale(&self) {
        self.books.borrow_mut().stale += 1;
    }

    /// Counts a connection that was opened, over which `protocol` is spoken.
    pub(crate) fn count_connection(&self, protocol: &str) {
        let mut books = self.books.borrow_mut();
        books.connections += 1;
        if books.protocol != protocol {
            protocol.clone_into(&mut books.protocol);
        }
    }

    /// Counts a connection that could not be opened for want of something of the generator's own.
    pub(crate) fn count_shortage(&self, shortage: Shortage) {
        *self.books.borrow_mut().shortages.entry(shortage).or_default() += 1;
    }

    /// Notes why a TLS connection did not come about.
    pub(crate) fn count_reason(&self, reason: String) {
        let reasons = &mut self.books.borrow_mut().reasons;
        if reasons.len() < REASONS_MAX || reasons.contains_key(&reason) {
            *reasons.entry(reason).or_default() += 1;
        }
    }

    /// Requests entered and not settled.
    pub(crate) fn in_flight(&self) -> u64 {
        self.books.borrow().in_flight
    }

    /// Returns when nothing is in flight.
    pub(crate) async fn wait_idle(&self) {
        while self.in_flight() > 0 {
            self.idle.notified().await;
        }
    }

    /// How the run stands; the recent figures begin anew.
    pub(crate) fn progress(&self, now: Instant, fraction: f64) -> Progress {
        let mut books = self.books.borrow_mut();
        let recent = &mut books.recent;
        let answers = Count::new(recent.response.count());
        let (rate, p50, p99) = (
            answers / now.since(recent.since),
            recent.response.quantile(0.5),
            recent.response.quantile(0.99),
        );
        recent.since = now;
        recent.response.reset();
        Progress {
            elapsed: now.since(books.start),
            fraction: fraction.clamp(0.0, 1.0),
            planned: books.planned,
            in_flight: books.in_flight,
            outcomes: books.outcomes,
            rate,
            p50,
            p99,
        }
    }

    /// Requests planned so far.
    pub(crate) fn planned(&self) -> u64 {
        self.books.borrow().planned
    }

    /// The books closed: what is still in flight must have been dropped before. `cpu_share` is
    /// what the generator used of its core, if that is known.
    pub(crate) fn record(
        &self,
        plan: &LoadPlan,
        cpu_share: Option<f64>,
        interrupted: bool,
    ) -> LoadRecord {
        let mut books = self.books.borrow_mut();
        debug_assert_eq!(books.planned, books.outcomes.total() + books.in_flight);
        let elapsed = books.latest.since(books.start);
        let (response, spread) = (books.response.latency(), books.response.spread());
        let of_all = Percentiles::of_all(&response, &spread, books.outcomes.failed());
        LoadRecord {
            target: plan.targets[0].0.to_string(),
            protocol: books.protocol.clone(),
            started_unix_ms: books.started_unix_ms,
            model: plan.model(),
            elapsed,
            achieved: Count::new(books.outcomes.ok) / elapsed,
            planned: books.planned,
            outcomes: books.outcomes,
            response,
            response_of_all: Some(of_all),
            service: books.service.latency(),
            lag: books.lag.latency(),
            spreads: Spreads {
                response: spread,
                service: books.service.spread(),
                lag: books.lag.spread(),
            },
            phases: books.phases.phases(),
            moments: books.moments.moments(),
            bytes_read: books.bytes_read,
            statuses: books.statuses.clone(),
            by_header: books.by_header.clone(),
            reasons: books.reasons.clone(),
            connections: books.connections,
            stale: books.stale,
            interrupted,
            generator: books.generator(&plan.model(), cpu_share),
            objective: None,
            resources: None,
            simulation: None,
        }
    }
}

impl Ticket {
    /// Notes that the request goes out now.
    pub(crate) fn send(&mut self, now: Instant) {
        self.sent = Some(now);
    }

    /// Settles the request: it was answered, or ended otherwise, at `now`.
    pub(crate) fn end(mut self, now: Instant, result: Result<WholeResponse, Outcome>) {
        self.settle(now, result);
    }

    fn settle(&mut self, now: Instant, result: Result<WholeResponse, Outcome>) {
        self.settled = true;
        let mut books = self.tally.books.borrow_mut();
        let outcome = result
            .as_ref()
            .map_or_else(|outcome| *outcome, |answer| Outcome::of_status(answer.status));
        books.count(now, outcome, result.as_ref().map_or(0, |answer| answer.bytes));
        let sent = self.sent.filter(|_| outcome != Outcome::Dropped);
        if let Some(sent) = sent {
            books.lag.record(sent.since(self.planned));
            books.last_sent = books.last_sent.max(sent);
        } else if self.sent.is_none() {
            books.not_owed += 1;
        }
        if let Ok(answer) = result {
            if outcome == Outcome::Ok {
                let service = now.since(sent.unwrap_or(self.planned));
                books.count_times(now.since(self.planned), service, &answer.phases);
            }
            books.count_answer(now, answer);
        }
        books.in_flight -= 1;
        if books.in_flight == 0 {
            self.tally.idle.notify_one();
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.settled {
            self.settle(self.planned, Err(Outcome::CutOff));
        }
    }
}

impl Books {
    /// Counts the end of a request, in the run and in its moment.
    fn count(&mut self, now: Instant, outcome: Outcome, bytes: u64) {
        outcome.count_in(&mut self.outcomes);
        self.bytes_read += bytes;
        self.moments.end(now.since(self.start), outcome, bytes);
    }

    /// Enters the times of a successful request.
    fn count_times(&mut self, response: Duration, service: Duration, phases: &PhaseTimes) {
        self.response.record(response);
        self.recent.response.record(response);
        self.moments.record(response);
        self.service.record(service);
        self.phases.record(phases);
    }

    fn count_answer(&mut self, now: Instant, answer: WholeResponse) {
        self.latest = self.latest.max(now);
        *self.statuses.entry(answer.status).or_default() += 1;
        let Some(value) = answer.counted else { return };
        *self.by_header.entry(value).or_default() += 1;
    }

    /// How the generator did.
    fn generator(&self, model: &LoadModel, cpu_share: Option<f64>) -> Generator {
        let short_of = |shortage| self.shortages.get(&shortage).copied().unwrap_or_default();
        health::judge(&Signs {
            open: matches!(model, LoadModel::Open { .. }),
            owed: self.planned - self.not_owed,
            sent: self.lag.count(),
            planned_for: self.last_planned.since(self.start),
            sent_for: self.last_sent.since(self.start),
            cpu_share,
            lag: self.lag.quantile(0.99),
            response: self.response.quantile(0.99),
            no_port: short_of(Shortage::Ports),
            no_descriptor: short_of(Shortage::Descriptors),
            no_memory: short_of(Shortage::Memory),
        })
    }
}

impl PhaseBooks {
    fn new() -> Self {
        let [dns, connect, tls, first_byte, body] = [(); 5].map(|()| Times::new(DIGITS));
        Self { dns, connect, tls, first_byte, body }
    }

    fn record(&mut self, times: &PhaseTimes) {
        let PhaseTimes { dns, connect, tls, first_byte, body } = *times;
        for (books, time) in [
            (&mut self.dns, dns),
            (&mut self.connect, connect),
            (&mut self.tls, tls),
            (&mut self.first_byte, first_byte),
            (&mut self.body, body),
        ] {
            if let Some(time) = time {
                books.record(time);
            }
        }
    }

    fn phases(&self) -> Phases {
        Phases {
            dns: self.dns.latency(),
            connect: self.connect.latency(),
            tls: self.tls.latency(),
            first_byte: self.first_byte.latency(),
            body: self.body.latency(),
        }
    }
}

/// Percentiles of a record are within 0.1 %.
const DIGITS: u8 = 3;
/// The display is read twice a second; two digits make that cheap.
const RECENT_DIGITS: u8 = 2;

/// Different reasons that are kept; a server has one or two.
const REASONS_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Until;
    use loadline_core::units::Rate;
    use proptest::prelude::*;

    const fn ms(n: u64) -> Instant {
        Instant::from_nanos(n * 1_000_000)
    }

    fn plan() -> LoadPlan {
        LoadPlan::closed("localhost", 1, Until::Requests(1)).unwrap()
    }

    fn answer(status: u16) -> Result<WholeResponse, Outcome> {
        let counted = Some("a".to_owned());
        let first_byte = Some(Duration::from_millis(4));
        let phases = PhaseTimes { first_byte, ..PhaseTimes::default() };
        Ok(WholeResponse { status, bytes: 100, counted, phases })
    }

    #[test]
    fn response_counts_from_the_plan_and_service_from_the_send() {
        let tally = Tally::new(None);
        let mut ticket = tally.plan(ms(10));
        ticket.send(ms(13));
        ticket.end(ms(20), answer(200));
        let record = tally.record(&plan(), None, false);
        assert_eq!(record.response.max, Duration::from_millis(10));
        assert_eq!(record.service.max, Duration::from_millis(7));
        assert_eq!(record.lag.max, Duration::from_millis(3));
        assert_eq!(record.elapsed, Duration::from_millis(20));
        assert_eq!((record.bytes_read, record.by_header["a"]), (100, 1));
    }

    #[test]
    fn a_request_that_timed_out_does_not_stretch_the_run() {
        let tally = Tally::new(None);
        for planned in [0, 100] {
            let mut ticket = tally.plan(ms(planned));
            ticket.send(ms(planned));
            ticket.end(ms(planned + 30_000), Err(Outcome::Timeout));
        }
        let record = tally.record(&plan(), None, false);
        assert_eq!(record.elapsed, Duration::from_millis(100));
        assert_eq!(record.outcomes.timeout, 2);
    }

    #[test]
    fn a_ticket_nobody_settled_is_cut_off() {
        let tally = Tally::new(None);
        let mut ticket = tally.plan(ms(0));
        ticket.send(ms(0));
        assert_eq!(tally.in_flight(), 1);
        drop(ticket);
        assert_eq!(tally.in_flight(), 0);
        assert_eq!(tally.record(&plan(), None, true).outcomes.cut_off, 1);
    }

    #[test]
    fn a_phase_counts_the_successful_requests_that_went_through_it() {
        let tally = Tally::new(None);
        for status in [200, 503, 200] {
            let mut ticket = tally.plan(ms(0));
            ticket.send(ms(0));
            ticket.end(ms(5), answer(status));
        }
        let phases = tally.record(&plan(), None, false).phases;
        assert_eq!((phases.first_byte.count, phases.connect.count), (2, 0));
        assert_eq!(phases.first_byte.max, Duration::from_millis(4));
    }

    #[test]
    fn what_the_users_own_limit_drops_was_not_owed_but_a_shortage_is_a_fault() {
        let open = LoadPlan::open("localhost", Rate::per_sec(1_000), Until::Requests(4)).unwrap();
        let tally = Tally::new(None);
        tally.begin(ms(0), 1_767_225_600_000);
        let mut ticket = tally.plan(ms(0));
        ticket.send(ms(0));
        ticket.end(ms(1), answer(200));
        tally.plan(ms(1)).end(ms(1), Err(Outcome::Dropped));
        let record = tally.record(&open, Some(0.5), false);
        assert_eq!((record.generator.sent_share, record.started_unix_ms), (1.0, 1_767_225_600_000));
        assert!(record.is_valid(), "{:?}", record.generator);
        let mut ticket = tally.plan(ms(2));
        ticket.send(ms(2));
        tally.count_shortage(Shortage::Ports);
        ticket.end(ms(2), Err(Outcome::Dropped));
        let generator = tally.record(&open, Some(0.5), false).generator;
        assert_eq!((generator.sent_share, generator.cpu_share), (0.5, 0.5));
        assert_eq!(generator.faults.len(), 2, "{generator:?}");
    }

    /// What a request can live through, as a random operation.
    fn any_fate() -> impl Strategy<Value = (Option<Result<u16, Outcome>>, bool)> {
        use Outcome::{BadAnswer, ConnectRefused, ConnectTimeout, Dropped, Reset, Timeout};
        let failures = [BadAnswer, ConnectRefused, ConnectTimeout, Dropped, Reset, Timeout];
        let ends = prop_oneof![
            3 => (100u16..=999).prop_map(|status| Some(Ok(status))),
            2 => prop::sample::select(failures.to_vec()).prop_map(|outcome| Some(Err(outcome))),
            1 => Just(None),
        ];
        (ends, any::<bool>())
    }

    proptest! {
        /// Whatever becomes of the requests, in whatever order, each is in exactly one class.
        #[test]
        fn the_books_balance_after_every_step(
            fates in prop::collection::vec(any_fate(), 0..80),
            order in any::<prop::sample::Index>(),
        ) {
            let tally = Tally::new(None);
            let mut open = Vec::new();
            for (i, (fate, sent)) in fates.iter().enumerate() {
                let mut ticket = tally.plan(ms(i as u64));
                if *sent {
                    ticket.send(ms(i as u64 + 1));
                }
                open.push((ticket, *fate));
            }
            while !open.is_empty() {
                let (ticket, fate) = open.swap_remove(order.index(open.len()));
                match fate {
                    Some(Ok(status)) => ticket.end(ms(100), answer(status)),
                    Some(Err(outcome)) => ticket.end(ms(100), Err(outcome)),
                    None => drop(ticket),
                }
                let books = tally.books.borrow();
                prop_assert_eq!(books.outcomes.total() + books.in_flight, books.planned);
            }
            let record = tally.record(&plan(), None, false);
            let outcomes = record.outcomes;
            let answered = outcomes.ok + outcomes.client_error + outcomes.server_error;
            prop_assert_eq!(outcomes.total(), fates.len() as u64);
            prop_assert_eq!(record.planned, outcomes.total());
            prop_assert_eq!(record.response.count, outcomes.ok);
            prop_assert_eq!(record.service.count, outcomes.ok);
            prop_assert_eq!(record.statuses.values().sum::<u64>(), answered);
            prop_assert_eq!(record.by_header.values().sum::<u64>(), answered);
            prop_assert_eq!(record.spreads.response.count(), outcomes.ok);
            prop_assert_eq!(record.phases.first_byte.count, outcomes.ok);
            let moments = &record.moments;
            let ended = moments.iter().map(|moment| moment.outcomes.total()).sum::<u64>();
            let planned = moments.iter().map(|moment| moment.planned).sum::<u64>();
            prop_assert_eq!((ended, planned), (outcomes.total(), record.planned));
            let bytes = moments.iter().map(|moment| moment.bytes_read).sum::<u64>();
            prop_assert_eq!(bytes, record.bytes_read);
            prop_assert_eq!(moments.last().map_or(0, |moment| moment.in_flight), 0);
            let lost = |fate: &(Option<Result<u16, Outcome>>, bool)| {
                !fate.1 || fate.0 == Some(Err(Outcome::Dropped))
            };
            let unsent = fates.iter().filter(|fate| lost(fate)).count() as u64;
            prop_assert_eq!(record.lag.count + unsent, outcomes.total());
        }
    }
}
