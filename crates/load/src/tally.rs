//! The books of a run: every planned request has a ticket, every ticket is settled once.
//!
//! A [`Ticket`] is written when a request is due. It is settled by [`Ticket::end`]; one that is
//! dropped instead, because the run was ended, counts as cut off. So at any time
//! `planned = in flight + sum of the outcomes`, and no path through the generator can lose a
//! request or count it twice.

use std::{cell::RefCell, collections::BTreeMap, rc::Rc};

use loadline_core::{
    record::{LoadRecord, Outcomes, Spreads},
    time::Instant,
    units::Count,
};
use tokio::sync::Notify;

use crate::{
    outcome::{Outcome, Shortage},
    phases::PhaseTimes,
    plan::LoadPlan,
    run::Progress,
    summary::Times,
};

/// A whole answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
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
    planned: u64,
    in_flight: u64,
    outcomes: Outcomes,
    response: Times,
    service: Times,
    lag: Times,
    bytes_read: u64,
    statuses: BTreeMap<u16, u64>,
    by_header: BTreeMap<String, u64>,
    stale: u64,
    /// Connections that were opened.
    connections: u64,
    /// What was spoken over the connection opened last.
    protocol: String,
    /// How often the generator itself was out of something.
    shortages: BTreeMap<Shortage, u64>,
    /// The latest planned instant or end of an answer: where the run ends in its figures.
    latest: Instant,
    recent: Recent,
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
    /// Empty books of a plan that has not begun.
    pub(crate) fn new() -> Rc<Self> {
        let books = Books {
            start: Instant::ZERO,
            planned: 0,
            in_flight: 0,
            outcomes: Outcomes::default(),
            response: Times::new(DIGITS),
            service: Times::new(DIGITS),
            lag: Times::new(DIGITS),
            bytes_read: 0,
            statuses: BTreeMap::new(),
            by_header: BTreeMap::new(),
            stale: 0,
            connections: 0,
            protocol: String::new(),
            shortages: BTreeMap::new(),
            latest: Instant::ZERO,
            recent: Recent { since: Instant::ZERO, response: Times::new(RECENT_DIGITS) },
        };
        Rc::new(Self { books: RefCell::new(books), idle: Notify::new() })
    }

    /// Begins: the plan counts from `start`.
    pub(crate) fn begin(&self, start: Instant) {
        let mut books = self.books.borrow_mut();
        books.start = start;
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
        let answers = Count::new(recent.response.latency().count);
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

    /// The books closed: what is still in flight must have been dropped before.
    pub(crate) fn record(&self, plan: &LoadPlan, interrupted: bool) -> LoadRecord {
        let books = self.books.borrow();
        debug_assert_eq!(books.planned, books.outcomes.total() + books.in_flight);
        let elapsed = books.latest.since(books.start);
        LoadRecord {
            target: plan.targets[0].0.to_string(),
            protocol: books.protocol.clone(),
            model: plan.model(),
            elapsed,
            achieved: Count::new(books.outcomes.ok) / elapsed,
            planned: books.planned,
            outcomes: books.outcomes,
            response: books.response.latency(),
            service: books.service.latency(),
            lag: books.lag.latency(),
            spreads: Spreads {
                response: books.response.spread(),
                service: books.service.spread(),
                lag: books.lag.spread(),
            },
            bytes_read: books.bytes_read,
            statuses: books.statuses.clone(),
            by_header: books.by_header.clone(),
            connections: books.connections,
            stale: books.stale,
            interrupted,
            ..LoadRecord::default()
        }
    }
}

impl Ticket {
    /// Notes that the request goes out now.
    pub(crate) fn send(&mut self, now: Instant) {
        self.sent = Some(now);
    }

    /// Settles the request: it was answered, or ended otherwise, at `now`.
    pub(crate) fn end(mut self, now: Instant, result: Result<Answer, Outcome>) {
        self.settle(now, result);
    }

    fn settle(&mut self, now: Instant, result: Result<Answer, Outcome>) {
        self.settled = true;
        let mut books = self.tally.books.borrow_mut();
        let outcome = result
            .as_ref()
            .map_or_else(|outcome| *outcome, |answer| Outcome::of_status(answer.status));
        outcome.count_in(&mut books.outcomes);
        let sent = self.sent.filter(|_| outcome != Outcome::Dropped);
        if let Some(sent) = sent {
            books.lag.record(sent.since(self.planned));
        }
        if outcome == Outcome::Ok {
            let response = now.since(self.planned);
            books.response.record(response);
            books.recent.response.record(response);
            books.service.record(now.since(sent.unwrap_or(self.planned)));
        }
        if let Ok(answer) = result {
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
    fn count_answer(&mut self, now: Instant, answer: Answer) {
        self.latest = self.latest.max(now);
        self.bytes_read += answer.bytes;
        *self.statuses.entry(answer.status).or_default() += 1;
        let Some(value) = answer.counted else { return };
        *self.by_header.entry(value).or_default() += 1;
    }
}

/// Percentiles of a record are within 0.1 %.
const DIGITS: u8 = 3;
/// The display is read twice a second; two digits make that cheap.
const RECENT_DIGITS: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Until;
    use loadline_core::time::Duration;
    use proptest::prelude::*;

    const fn ms(n: u64) -> Instant {
        Instant::from_nanos(n * 1_000_000)
    }

    fn plan() -> LoadPlan {
        LoadPlan::closed("localhost", 1, Until::Requests(1)).unwrap()
    }

    fn answer(status: u16) -> Result<Answer, Outcome> {
        let counted = Some("a".to_owned());
        Ok(Answer { status, bytes: 100, counted, ..Answer::default() })
    }

    #[test]
    fn response_counts_from_the_plan_and_service_from_the_send() {
        let tally = Tally::new();
        let mut ticket = tally.plan(ms(10));
        ticket.send(ms(13));
        ticket.end(ms(20), answer(200));
        let record = tally.record(&plan(), false);
        assert_eq!(record.response.max, Duration::from_millis(10));
        assert_eq!(record.service.max, Duration::from_millis(7));
        assert_eq!(record.lag.max, Duration::from_millis(3));
        assert_eq!(record.elapsed, Duration::from_millis(20));
        assert_eq!((record.bytes_read, record.by_header["a"]), (100, 1));
    }

    #[test]
    fn a_request_that_timed_out_does_not_stretch_the_run() {
        let tally = Tally::new();
        for planned in [0, 100] {
            let mut ticket = tally.plan(ms(planned));
            ticket.send(ms(planned));
            ticket.end(ms(planned + 30_000), Err(Outcome::Timeout));
        }
        let record = tally.record(&plan(), false);
        assert_eq!(record.elapsed, Duration::from_millis(100));
        assert_eq!(record.outcomes.timeout, 2);
    }

    #[test]
    fn a_ticket_nobody_settled_is_cut_off() {
        let tally = Tally::new();
        let mut ticket = tally.plan(ms(0));
        ticket.send(ms(0));
        assert_eq!(tally.in_flight(), 1);
        drop(ticket);
        assert_eq!(tally.in_flight(), 0);
        assert_eq!(tally.record(&plan(), true).outcomes.cut_off, 1);
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
            let tally = Tally::new();
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
            let record = tally.record(&plan(), false);
            let outcomes = record.outcomes;
            let answered = outcomes.ok + outcomes.client_error + outcomes.server_error;
            prop_assert_eq!(outcomes.total(), fates.len() as u64);
            prop_assert_eq!(record.planned, outcomes.total());
            prop_assert_eq!(record.response.count, outcomes.ok);
            prop_assert_eq!(record.service.count, outcomes.ok);
            prop_assert_eq!(record.statuses.values().sum::<u64>(), answered);
            prop_assert_eq!(record.by_header.values().sum::<u64>(), answered);
            prop_assert_eq!(record.spreads.response.count(), outcomes.ok);
            let lost = |fate: &(Option<Result<u16, Outcome>>, bool)| {
                !fate.1 || fate.0 == Some(Err(Outcome::Dropped))
            };
            let unsent = fates.iter().filter(|fate| lost(fate)).count() as u64;
            prop_assert_eq!(record.lag.count + unsent, outcomes.total());
        }
    }
}
