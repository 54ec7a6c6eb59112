//! Servers that hang, and those that are slow: a dozen unlike services, of which each gets a few
//! slow requests at a time, as from somebody who opens a page of reports.

use std::{cmp::Reverse, collections::BinaryHeap, sync::Arc};

use loadline_core::{
    decide::{
        controller::{Change, Controller, Input},
        ending::Ending,
        ledger::ServerId,
        permit::Permit,
        plan::{Decision, PickContext, Plan},
        reason::Reason,
        request::{Action, At, Event, Failed, Kind, Machine, Progress, Subject, Unanswered},
    },
    fleet::{Capacity, Class, HealthCheck, PolicyKind, Probe, Service},
    time::{Duration, Instant},
};

use crate::{
    fleets::{check, drain, fleet, group, passed, started},
    simulation::draws::Draws,
};

/// Mean time of a request in milliseconds, requests per second, the shortest slow request in
/// milliseconds; the longest takes twice that.
const SERVICES: [(u64, u64, u64); 12] = [
    (1, 2, 800),
    (1, 100, 1_000),
    (1, 10_000, 1_000),
    (5, 1, 1_000),
    (5, 3, 1_000),
    (5, 1_000, 2_000),
    (20, 2, 2_000),
    (30, 3, 4_000),
    (50, 50, 1_500),
    (200, 5, 3_000),
    (1_000, 3, 12_000),
    (3_000, 1, 12_000),
];

const SLOW_AT_ONCE: usize = 12;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Arrives,
    Answered { request: usize, attempt: u32 },
    Waits { request: usize, attempt: u32 },
}

struct Sent {
    machine: Machine,
    attempt: u32,
    at: Instant,
    takes: Duration,
}

struct World {
    controller: Controller,
    plan: Arc<Plan>,
    now: Instant,
    due: BinaryHeap<Reverse<(Instant, usize, What)>>,
    planned: usize,
    requests: Vec<Option<Sent>>,
    draws: Draws,
    mean: Duration,
    gap: Duration,
    hangs: Option<ServerId>,
    /// When servers were ejected because they answered nobody.
    silent: Vec<Instant>,
}

impl World {
    fn new((mean, rate, _): (u64, u64, u64)) -> Self {
        let groups = vec![group("near", 0, 3, Capacity::default())];
        let policy = PolicyKind::RoundRobin;
        let (controller, plan) = started(Service { groups, policy, ..Service::named("web") });
        let mut world = Self {
            controller,
            plan,
            now: Instant::ZERO,
            due: BinaryHeap::new(),
            planned: 0,
            requests: Vec::new(),
            draws: Draws(mean * 31 + rate),
            mean: Duration::from_millis(mean),
            gap: Duration::from_nanos(1_000_000_000 / rate),
            hangs: None,
            silent: Vec::new(),
        };
        world.plan_at(Duration::ZERO, What::Arrives);
        world
    }

    fn plan_at(&mut self, after: Duration, what: What) {
        self.planned += 1;
        self.due.push(Reverse((self.now + after, self.planned, what)));
    }

    fn drawn(&mut self, mean: Duration) -> Duration {
        Duration::from_nanos((mean.as_nanos() as f64 * self.draws.exponential()) as u64)
    }

    fn run_until(&mut self, end: Instant) {
        while let Some(Reverse((at, _, what))) = self.due.peek().copied()
            && at <= end
        {
            self.due.pop();
            while let Some(deadline) = self.controller.next_deadline().filter(|it| *it <= at) {
                self.now = deadline;
                self.hear(Input::Tick);
            }
            self.now = at;
            self.meet(what);
        }
        self.now = end;
    }

    fn meet(&mut self, what: What) {
        match what {
            What::Arrives => {
                let (takes, gap) = (self.drawn(self.mean), self.drawn(self.gap));
                self.ask(takes);
                self.plan_at(gap, What::Arrives);
            }
            What::Answered { request, attempt } => {
                let Some(sent) = self.sent(request, attempt) else { return };
                if sent.machine.permit().map(Permit::server) != self.hangs || self.hangs.is_none() {
                    self.tell(request, Event::Head { status: 200, untouched: true });
                    self.tell(request, Event::Ended(Ending::Complete));
                    self.requests[request] = None;
                }
            }
            What::Waits { request, attempt } => {
                if self.sent(request, attempt).is_some() {
                    self.owes(request, true);
                }
            }
        }
    }

    fn sent(&self, request: usize, attempt: u32) -> Option<&Sent> {
        self.requests[request].as_ref().filter(|sent| sent.attempt == attempt)
    }

    fn ask(&mut self, takes: Duration) {
        let (kind, class) = (Kind::Message, Class::Normal);
        let machine = Machine::new(Subject { kind, key: 0, class, stick: None, idempotent: true });
        self.requests.push(Some(Sent { machine, attempt: 0, at: self.now, takes }));
        self.tell(self.requests.len() - 1, Event::Arrived);
    }

    /// The server of this request has not answered yet.
    fn owes(&mut self, request: usize, expired: bool) {
        let Some(sent) = &self.requests[request] else { return };
        let silence = Unanswered {
            expired,
            late: false,
            waited: Some(self.now.since(sent.at)),
            limit: Duration::from_secs(3_600),
            untouched: true,
            reason: Reason::ResponseTimeout,
        };
        self.tell(request, Event::Unanswered(silence));
    }

    fn tell(&mut self, request: usize, event: Event) {
        let Some(sent) = &mut self.requests[request] else { return };
        let at =
            At { now: self.now, draw: 0, plan: Some(&self.plan.services[0]), lag: Duration::ZERO };
        let action = sent.machine.handle(&at, event);
        let report = sent.machine.poll_report();
        match action {
            Action::Send => {
                sent.attempt += 1;
                sent.at = self.now;
                let (attempt, patience, takes) =
                    (sent.attempt, sent.machine.patience(), sent.takes);
                self.plan_at(takes, What::Answered { request, attempt });
                if patience > Duration::ZERO {
                    self.plan_at(patience, What::Waits { request, attempt });
                }
            }
            Action::Await(time) => {
                let attempt = sent.attempt;
                self.plan_at(time, What::Waits { request, attempt });
            }
            Action::GiveUp(reason) => {
                let progress = Progress { sent: true, ..Progress::NOTHING };
                self.tell(request, Event::Failed(Failed { reason, progress }));
            }
            Action::None | Action::Forward => {}
            other => panic!("nothing is full and nothing fails, yet {other:?}"),
        }
        report.into_iter().for_each(|report| self.hear(report));
    }

    fn hear(&mut self, input: Input) {
        self.controller.handle(self.now, input);
        let outputs = drain(&mut self.controller);
        self.plan = outputs.plan.unwrap_or(self.plan.clone());
        if outputs.changes.iter().any(|change| matches!(change, Change::Silent(..))) {
            self.silent.push(self.now);
            for request in 0..self.requests.len() {
                let permit = self.requests[request].as_ref().and_then(|it| it.machine.permit());
                if permit.is_some_and(Permit::hangs) {
                    self.owes(request, false);
                }
            }
        }
    }
}

fn first_server(plan: &Plan, millis: u64) -> ServerId {
    let now = Instant::ZERO + Duration::from_millis(millis);
    let ask = PickContext { now, key: 0, draw: 0, tried: &[], stick: None };
    let Decision::Send(permit) = plan.services[0].pick(&ask) else { panic!("nothing is full") };
    permit.server()
}

#[test]
fn slow_requests_that_come_now_and_then_take_no_server_out_and_a_hang_does() {
    for service @ (mean, rate, slow) in SERVICES {
        let mut world = World::new(service);
        let period = if rate > 50 { 5_000 } else { 60_000 };
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        for burst in 1..=8 {
            world.run_until(at(burst * period));
            for _ in 0..SLOW_AT_ONCE {
                let longer = (slow as f64 * world.draws.uniform()) as u64;
                world.ask(Duration::from_millis(slow + longer));
            }
        }
        let begins = 9 * period + 4 * slow;
        world.run_until(at(begins));
        let late: Vec<_> = world.silent.iter().filter(|it| **it >= at(5 * period)).collect();
        assert!(late.is_empty(), "{service:?}: {late:?} of {:?}", world.silent);

        let known = world.silent.len();
        world.hangs = Some(first_server(&world.plan, begins));
        // A busy server is known by its ordinary requests, at once.
        let is_busy = rate >= 1_000;
        let by_slow_ones = if is_busy { 0 } else { 4 * slow };
        let within = by_slow_ones + 40 * mean + 600 + 40_000 / rate;
        for millis in (0..within).step_by(10) {
            world.run_until(at(begins + millis));
            if world.silent.len() > known {
                break;
            }
        }
        assert_eq!(world.silent.len(), known + 1, "{service:?}: not found in {within} ms");
    }
}

#[test]
fn requests_that_were_slow_before_anything_was_known_are_known_as_the_longest() {
    let mut world = World::new((1, 100, 0));
    let at = |millis| Instant::ZERO + Duration::from_millis(millis);
    (0..3).for_each(|_| world.ask(Duration::from_secs(5)));
    world.run_until(at(10_000));
    // Nobody else asks any more who could be answered meanwhile.
    world.gap = Duration::from_secs(3_600);
    world.run_until(at(11_000));
    (0..24).for_each(|_| world.ask(Duration::from_millis(1_500)));
    world.run_until(at(15_000));
    assert!(world.silent.is_empty(), "{:?}", world.silent);
}

#[test]
fn a_server_that_streams_for_long_does_not_hang_and_the_rest_of_a_short_response_says_nothing() {
    let groups = vec![group("near", 0, 1, Capacity::default())];
    let (_, plan) = started(Service { groups, ..Service::named("web") });
    let at = |millis| Instant::ZERO + Duration::from_millis(millis);
    let ask = PickContext { now: at(100), key: 0, draw: 0, tried: &[], stick: None };
    let Decision::Send(permit) = plan.services[0].pick(&ask) else { panic!("nothing is full") };
    let patience = Duration::from_millis(500);
    permit.answered(at(100));
    permit.heard_more(at(300));
    assert!(permit.is_silent(at(700), patience), "the rest of a short one");
    permit.heard_more(at(1_200));
    assert!(!permit.is_silent(at(1_300), patience), "a stream");
    assert!(permit.is_silent(at(1_800), patience), "that goes on no more");
}

/// Answers the checks that the controller orders, and gives what it tells.
fn all_checks_pass(controller: &mut Controller, now: Instant) -> Vec<Change> {
    let mut changes = Vec::new();
    loop {
        let outputs = drain(controller);
        changes.extend(outputs.changes);
        if outputs.checks.is_empty() {
            return changes;
        }
        for (server, _) in outputs.checks {
            controller.handle(now, Input::Checked { server, passed: Ok(passed(1)) });
        }
    }
}

#[test]
fn a_hang_whose_checks_pass_ejects_once_a_second_and_later_errors_for_as_long_as_at_first() {
    let probe = Probe::Http { path: "/health".to_owned(), host: None };
    let groups = vec![group("near", 0, 4, Capacity::default())];
    let health = Some(HealthCheck { probe, ..check() });
    let service = Service { groups, health, ..Service::named("web") };
    let mut controller = Controller::new(Instant::ZERO, fleet(service));
    let first = drain(&mut controller);
    let (server, _) = first.checks[0];
    for (server, _) in first.checks {
        controller.handle(Instant::ZERO, Input::Checked { server, passed: Ok(passed(1)) });
    }

    let at = |millis| Instant::ZERO + Duration::from_millis(millis);
    let mut told = Vec::new();
    for millis in 10..2_000 {
        controller.handle(at(millis), Input::Silent { server, suspicions: 3 });
        let changes = all_checks_pass(&mut controller, at(millis));
        told.extend(changes.into_iter().map(|change| (millis, change)));
    }
    let ejected = told.iter().filter(|(_, change)| matches!(change, Change::Silent(..)));
    let ejected: Vec<u64> = ejected.map(|(millis, _)| *millis).collect();
    assert_eq!(ejected, [10, 1_010], "{told:?}");

    let reason = Reason::EmptyReply;
    controller.handle(at(3_000), Input::Failing { server, errors_in_a_row: 3, reason });
    let changes = all_checks_pass(&mut controller, at(3_000));
    let [Change::Ejected(_, time, _)] = changes[..] else { panic!("{changes:?}") };
    assert_eq!(time, Duration::from_secs(1), "the first that counts");
}
