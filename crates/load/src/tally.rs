//! The books of a run: every planned request has a ticket, every ticket is settled once.
//!
//! A [`Ticket`] is written when a request is due. It is settled by [`Ticket::end`]; one that is
//! dropped instead, because the run was ended, counts as cut off. So at any time
//! `planned = in flight + sum of the outcomes`, and no path through the generator can lose a
//! request or count it twice.

use std::{cell::RefCell, rc::Rc};

use loadline_core::{
    time::{Duration, Instant},
    units::Count,
};
use loadline_measure::{record::HostAddress, statistics::Times};
use tokio::sync::Notify;

use crate::{
    figures::Figures,
    outcome::{Outcome, Shortage},
    phases::PhaseTimes,
    run::Progress,
};

/// A whole response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WholeResponse {
    pub(crate) status: u16,
    /// Its bytes, head and body.
    pub(crate) bytes: u64,
    /// Those of its heads, interim ones included.
    pub(crate) head_bytes: u64,
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
    /// When the run was interrupted; none before.
    interrupted: Option<Instant>,
    in_flight: u64,
    /// Of these, those that went out.
    sent: u64,
    figures: Figures,
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
    /// Empty books of a plan that has not begun and lasts so long, if that is known.
    pub(crate) fn new(lasts: Option<Duration>) -> Rc<Self> {
        let books = Books {
            start: Instant::ZERO,
            interrupted: None,
            in_flight: 0,
            sent: 0,
            figures: Figures::new(lasts),
            recent: Recent { since: Instant::ZERO, response: Times::new(RECENT_DIGITS) },
        };
        Rc::new(Self { books: RefCell::new(books), idle: Notify::new() })
    }

    /// Begins: the plan counts from `start`, which is so many milliseconds after 1970.
    pub(crate) fn begin(&self, start: Instant, unix_ms: u64) {
        let mut books = self.books.borrow_mut();
        books.start = start;
        books.figures.started_unix_ms = unix_ms;
        books.recent.since = start;
    }

    /// The instant the plan counts from.
    pub(crate) fn start(&self) -> Instant {
        self.books.borrow().start
    }

    /// Enters a request that is due at `planned`.
    pub(crate) fn plan(self: &Rc<Self>, planned: Instant) -> Ticket {
        let mut books = self.books.borrow_mut();
        books.in_flight += 1;
        let due = planned.since(books.start);
        books.figures.plan(due);
        Ticket { tally: Rc::clone(self), planned, sent: None, settled: false }
    }

    /// Counts a kept connection that was closed under a request.
    pub(crate) fn count_stale(&self) {
        self.books.borrow_mut().figures.stale += 1;
    }

    /// Counts a connection that was opened, over which `protocol` is spoken.
    pub(crate) fn count_connection(&self, protocol: &str) {
        let figures = &mut self.books.borrow_mut().figures;
        figures.connections += 1;
        if figures.protocol != protocol {
            protocol.clone_into(&mut figures.protocol);
        }
    }

    /// Notes where requests will go.
    pub(crate) fn note_addresses(&self, addresses: Vec<HostAddress>) {
        self.books.borrow_mut().figures.addresses.extend(addresses);
    }

    /// Counts a connection that could not be opened for want of something of the generator's own.
    pub(crate) fn count_shortage(&self, shortage: Shortage) {
        *self.books.borrow_mut().figures.shortages.entry(shortage).or_default() += 1;
    }

    /// Notes why a TLS connection did not come about.
    pub(crate) fn count_reason(&self, reason: String) {
        self.books.borrow_mut().figures.count_reasons(reason, 1);
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
            planned: books.figures.planned,
            in_flight: books.in_flight,
            outcomes: books.figures.outcomes,
            rate,
            p50,
            p99,
        }
    }

    /// Requests planned so far.
    pub(crate) fn planned(&self) -> u64 {
        self.books.borrow().figures.planned
    }

    /// Notes that the run ends now, before its plan does: tickets dropped from now on are cut off
    /// then.
    pub(crate) fn interrupt(&self, now: Instant) {
        let books = &mut *self.books.borrow_mut();
        books.interrupted = Some(now);
        books.figures.go_on(now.since(books.start));
    }

    /// The books closed: what is still in flight must have been dropped before. `cpu_share` is
    /// what the generator used of its core, if that is known.
    pub(crate) fn close(&self, cpu_share: Option<f64>, interrupted: bool) -> Figures {
        let books = self.books.borrow();
        let figures = &books.figures;
        debug_assert_eq!(figures.planned, figures.outcomes.total() + books.in_flight);
        let mut closed = figures.clone();
        (closed.cpu_share, closed.interrupted) = (cpu_share, interrupted);
        closed
    }
}

impl Ticket {
    /// Notes that the request goes out now.
    pub(crate) fn send(&mut self, now: Instant) {
        if self.sent.replace(now).is_none() {
            let books = &mut *self.tally.books.borrow_mut();
            books.sent += 1;
            books.figures.send(books.sent);
        }
    }

    /// Settles the request: it was answered, or ended otherwise, at `now`.
    pub(crate) fn end(mut self, now: Instant, result: Result<WholeResponse, Outcome>) {
        self.settle(now, result);
    }

    fn settle(&mut self, now: Instant, result: Result<WholeResponse, Outcome>) {
        self.settled = true;
        let books = &mut *self.tally.books.borrow_mut();
        let outcome = result
            .as_ref()
            .map_or_else(|outcome| *outcome, |answer| Outcome::of_status(answer.status));
        let (ended, figures) = (now.since(books.start), &mut books.figures);
        figures.count(ended, outcome, result.as_ref().map_or(0, |answer| answer.bytes));
        let sent = self.sent.filter(|_| outcome != Outcome::Dropped);
        if let Some(sent) = sent {
            figures.count_send(sent.since(self.planned), sent.since(books.start));
        } else if self.sent.is_none() {
            figures.not_owed += 1;
        }
        if let Ok(answer) = result {
            if outcome == Outcome::Ok {
                let response = now.since(self.planned);
                let queued = answer.phases.queued.unwrap_or_default();
                let service = now.since(sent.unwrap_or(self.planned)).saturating_sub(queued);
                figures.count_times(response, service, &answer.phases);
                books.recent.response.record(response);
            }
            figures.count_answer(ended, answer);
        }
        books.sent -= u64::from(self.sent.is_some());
        books.in_flight -= 1;
        if books.in_flight == 0 {
            self.tally.idle.notify_one();
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.settled {
            let interrupted = self.tally.books.borrow().interrupted;
            self.settle(interrupted.unwrap_or(self.planned), Err(Outcome::CutOff));
        }
    }
}

/// The display is read twice a second; two digits make that cheap.
const RECENT_DIGITS: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{LoadPlan, Pattern, Until};
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
        Ok(WholeResponse { status, bytes: 100, head_bytes: 40, counted, phases })
    }

    #[test]
    fn response_counts_from_the_plan_and_service_from_the_send() {
        let tally = Tally::new(None);
        let mut ticket = tally.plan(ms(10));
        ticket.send(ms(13));
        ticket.end(ms(20), answer(200));
        let record = tally.close(None, false).record(&plan());
        assert_eq!(record.response.max, Duration::from_millis(10));
        assert_eq!(record.service.max, Duration::from_millis(7));
        assert_eq!(record.lag.max, Duration::from_millis(3));
        assert_eq!(record.elapsed, Duration::from_millis(20));
        assert_eq!((record.bytes_read, record.head_bytes), (100, 40));
        assert_eq!(record.by_header["a"], 1);
    }

    /// Two requests are answered before an interval ends, a third one takes two more.
    #[test]
    fn the_most_in_flight_is_that_between_the_ends_of_intervals_too() {
        let tally = Tally::new(Some(Duration::from_secs(1)));
        let sent = |at| {
            let mut ticket = tally.plan(ms(at));
            ticket.send(ms(at));
            ticket
        };
        for ticket in [sent(0), sent(50)] {
            ticket.end(ms(95), answer(200));
        }
        let slow = sent(150);
        tally.plan(ms(160)).end(ms(160), Err(Outcome::Dropped));
        slow.end(ms(350), answer(200));
        let moments = tally.close(None, false).record(&plan()).moments;
        let shown: Vec<_> =
            moments.iter().map(|moment| (moment.in_flight, moment.most_in_flight)).collect();
        assert_eq!(shown, [(0, Some(2)), (1, Some(1)), (1, Some(1)), (0, Some(1))]);
    }

    #[test]
    fn what_a_request_waits_for_one_of_a_few_connections_is_no_service_time() {
        let tally = Tally::new(None);
        let mut ticket = tally.plan(ms(10));
        ticket.send(ms(10));
        let mut answer = answer(200).unwrap();
        answer.phases.queued = Some(Duration::from_millis(6));
        ticket.end(ms(20), Ok(answer));
        let record = tally.close(None, false).record(&plan());
        assert_eq!(record.response.max, Duration::from_millis(10));
        assert_eq!(record.service.max, Duration::from_millis(4));
    }

    #[test]
    fn a_request_that_timed_out_does_not_stretch_the_run_beyond_its_plan() {
        let tally = Tally::new(Some(Duration::from_millis(100)));
        for planned in [0, 100] {
            let mut ticket = tally.plan(ms(planned));
            ticket.send(ms(planned));
            ticket.end(ms(planned + 30_000), Err(Outcome::Timeout));
        }
        let record = tally.close(None, false).record(&plan());
        assert_eq!(record.elapsed, Duration::from_millis(100));
        assert_eq!(record.outcomes.timeout, 2);
    }

    #[test]
    fn a_request_that_timed_out_does_not_stretch_an_open_loop_of_a_number_of_requests() {
        let plan = LoadPlan::open("localhost", Rate::per_sec(10), Until::Requests(2)).unwrap();
        let tally = Tally::new(plan.lasts());
        for (planned, ended, result) in [(0, 50, answer(200)), (100, 30_100, Err(Outcome::Timeout))]
        {
            let mut ticket = tally.plan(ms(planned));
            ticket.send(ms(planned));
            ticket.end(ms(ended), result);
        }
        let record = tally.close(None, false).record(&plan);
        assert_eq!(record.elapsed, Duration::from_millis(200));
        assert_eq!((record.outcomes.ok, record.outcomes.timeout), (1, 1));
        assert_eq!(record.achieved, Rate::per_sec(5));
    }

    /// A server that answers the first request and then hangs.
    #[test]
    fn users_who_send_a_number_of_requests_are_at_it_until_the_last_has_failed() {
        let tally = Tally::new(None);
        for (planned, ended, result) in [(0, 5, answer(200)), (5, 4_000, Err(Outcome::Timeout))] {
            let mut ticket = tally.plan(ms(planned));
            ticket.send(ms(planned));
            ticket.end(ms(ended), result);
        }
        let record = tally.close(None, false).record(&plan());
        assert_eq!(record.elapsed, Duration::from_secs(4));
        assert_eq!(record.achieved, Rate::milli_per_sec(250));
    }

    #[test]
    fn a_run_of_which_nothing_was_answered_lasts_until_its_last_failure() {
        let tally = Tally::new(None);
        for _ in 0..2 {
            let mut ticket = tally.plan(ms(0));
            ticket.send(ms(0));
            ticket.end(ms(30_000), Err(Outcome::Timeout));
        }
        let record = tally.close(None, false).record(&plan());
        assert_eq!(record.elapsed, Duration::from_secs(30));
        assert_eq!(record.achieved, Rate::default());
    }

    /// One user is answered at once, and then nothing but time-outs.
    #[test]
    fn the_time_in_which_nothing_was_answered_belongs_to_the_run() {
        let tally = Tally::new(Some(Duration::from_secs(3)));
        let mut first = tally.plan(ms(0));
        first.send(ms(0));
        first.end(ms(1), answer(200));
        for planned in [1, 1_001, 2_001] {
            let mut ticket = tally.plan(ms(planned));
            ticket.send(ms(planned));
            ticket.end(ms(planned + 1_000), Err(Outcome::Timeout));
        }
        let record = tally.close(None, false).record(&plan());
        assert_eq!(record.elapsed, Duration::from_secs(3));
        assert!(record.achieved < Rate::per_sec(1), "{}", record.achieved);
    }

    /// Of ten seconds at one request in two, nearly two come after the last response.
    #[test]
    fn a_slow_open_loop_has_the_rate_that_it_was_planned_with() {
        let rate = Rate::milli_per_sec(500);
        for (until, requests) in
            [(Until::Elapsed(Duration::from_secs(10)), 5), (Until::Requests(1), 1)]
        {
            let plan = LoadPlan::open("localhost", rate, until).unwrap();
            for interrupted in [false, true] {
                let tally = Tally::new(plan.lasts());
                for number in 0..requests {
                    let mut ticket = tally.plan(ms(number * 2_000));
                    ticket.send(ms(number * 2_000));
                    ticket.end(ms(number * 2_000 + 1), answer(200));
                }
                let record = tally.close(None, interrupted).record(&plan);
                assert_eq!(record.achieved == rate, !interrupted, "{until:?}: {record:?}");
            }
        }
    }

    /// The interactive response time law, with a response time of zero.
    #[test]
    fn a_user_who_thinks_two_seconds_sends_a_request_in_two() {
        for (until, requests) in
            [(Until::Elapsed(Duration::from_secs(4)), 2), (Until::Requests(3), 3)]
        {
            let mut plan = LoadPlan::closed("localhost", 1, until).unwrap();
            let Pattern::Closed { think, .. } = &mut plan.pattern else { unreachable!() };
            *think = Duration::from_secs(2);
            let tally = Tally::new(plan.lasts());
            for number in 0..requests {
                let mut ticket = tally.plan(ms(number * 2_000));
                ticket.send(ms(number * 2_000));
                ticket.end(ms(number * 2_000), answer(200));
            }
            let record = tally.close(None, false).record(&plan);
            assert_eq!(record.achieved, Rate::milli_per_sec(500), "{until:?}: {record:?}");
        }
    }

    #[test]
    fn an_interrupted_run_lasts_until_then_and_cuts_off_what_is_no_failure() {
        let tally = Tally::new(Some(Duration::from_secs(60)));
        let mut first = tally.plan(ms(0));
        first.send(ms(0));
        first.end(ms(1), answer(200));
        let mut ticket = tally.plan(ms(1));
        ticket.send(ms(1));
        tally.interrupt(ms(2_000));
        drop(ticket);
        let record = tally.close(None, true).record(&plan());
        assert_eq!(record.elapsed, Duration::from_secs(2));
        assert_eq!((record.outcomes.ok, record.outcomes.cut_off), (1, 1));
        assert_eq!(record.response_of_all.unwrap().max, Duration::from_millis(1));
    }

    #[test]
    fn a_ticket_nobody_settled_is_cut_off() {
        let tally = Tally::new(None);
        let mut ticket = tally.plan(ms(0));
        ticket.send(ms(0));
        assert_eq!(tally.in_flight(), 1);
        drop(ticket);
        assert_eq!(tally.in_flight(), 0);
        assert_eq!(tally.close(None, true).record(&plan()).outcomes.cut_off, 1);
    }

    #[test]
    fn a_phase_counts_the_successful_requests_that_went_through_it() {
        let tally = Tally::new(None);
        for status in [200, 503, 200] {
            let mut ticket = tally.plan(ms(0));
            ticket.send(ms(0));
            ticket.end(ms(5), answer(status));
        }
        let phases = tally.close(None, false).record(&plan()).phases;
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
        let record = tally.close(Some(0.5), false).record(&open);
        assert_eq!((record.generator.sent_share, record.started_unix_ms), (1.0, 1_767_225_600_000));
        assert!(record.is_valid(), "{:?}", record.generator);
        let mut ticket = tally.plan(ms(2));
        ticket.send(ms(2));
        tally.count_shortage(Shortage::Ports);
        ticket.end(ms(2), Err(Outcome::Dropped));
        let generator = tally.close(Some(0.5), false).record(&open).generator;
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
                let figures = &books.figures;
                prop_assert_eq!(figures.outcomes.total() + books.in_flight, figures.planned);
            }
            let record = tally.close(None, false).record(&plan());
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
