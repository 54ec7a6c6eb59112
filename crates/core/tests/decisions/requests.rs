//! The request machine under every order of events: each request ends once, nothing is kept.

use std::sync::Arc;

use loadline_core::{
    decide::{
        controller::{Controller, Input},
        ending::Ending,
        ledger::ServerId,
        permit::Permit,
        plan::{Plan, QueuePlace},
        queue::{Position, WaitQueue},
        reason::Reason,
        request::{Action, At, Event, Failed, Kind, Machine, Progress, Subject, Unanswered},
    },
    fleet::{Capacity, Class, Fleet, PolicyKind, Retry, Service, Then, WhenFull},
    state::State,
    time::{Duration, Instant},
    units::{Rate, Ratio},
};
use proptest::prelude::*;

use crate::fleets::{check, drain, fleet, group, passed, started};

const ATTEMPTS: u32 = 2;
const PLACES: u32 = 5;
const QUEUE: u32 = 4;
const REQUESTS: usize = 24;

/// What a step is made of: any number says something.
#[derive(Clone, Copy, Debug)]
struct Step {
    what: u8,
    request: usize,
    bits: u32,
    draw: u64,
}

/// A request, and what its carrier knows of it.
struct Carried {
    machine: Machine,
    class: Class,
    position: Option<Position>,
    /// Servers it was sent to, and how often again over another connection.
    sent_to: Vec<ServerId>,
    resent: u32,
    /// How often it has ended.
    endings: u32,
}

struct World {
    then: Then,
    controller: Controller,
    plan: Arc<Plan>,
    /// The service is in the plan in force.
    there: bool,
    servers: Vec<ServerId>,
    now: Instant,
    queue: WaitQueue<QueuePlace, ()>,
    waiting: u32,
    requests: Vec<Carried>,
}

fn config(then: Then, scaler: u32) -> Fleet {
    let capacity = Capacity { max_in_flight: Some(PLACES), ..Capacity::default() };
    let near = Capacity { auto: Some(true), ..capacity };
    let mut groups = vec![group("near", 0, 3, near), group("far", 30, 2, capacity)];
    groups[0].scaler = Ratio::percent(scaler);
    let when_full = WhenFull::Queue { timeout: Duration::from_secs(1), length: QUEUE, then };
    let retry = Retry { attempts: ATTEMPTS, on_5xx: true, ..Retry::default() };
    let policy = PolicyKind::LeastRequests;
    let health = Some(check());
    fleet(Service { groups, when_full, retry, policy, health, ..Service::named("web") })
}

impl World {
    fn new(then: Then) -> Self {
        let mut controller = Controller::new(Instant::ZERO, config(then, 100));
        let outputs = drain(&mut controller);
        Self {
            then,
            controller,
            plan: outputs.plan.unwrap(),
            there: true,
            servers: outputs.checks.iter().map(|(server, _)| *server).collect(),
            now: Instant::ZERO,
            queue: WaitQueue::default(),
            waiting: 0,
            requests: Vec::new(),
        }
    }

    fn step(&mut self, step: Step) {
        let bit = |at: u32| step.bits >> at & 1 == 1;
        match step.what % 16 {
            0..=3 => self.arrive(step),
            4 => self.forget(step),
            5 => self.now = self.now + Duration::from_millis(u64::from(step.bits % 200)),
            6 => {
                let server = self.servers[step.bits as usize % self.servers.len()];
                let passed = if bit(31) { Err("404".into()) } else { Ok(passed(1)) };
                self.hear(Input::Checked { server, passed });
            }
            7 => self.hear(Input::Reload(config(self.then, if bit(0) { 100 } else { 50 }).into())),
            8 => self.there ^= step.bits.is_multiple_of(8),
            _ if self.requests.is_empty() => {}
            _ => self.tell(step.request % self.requests.len(), event(step), step.draw),
        }
    }

    fn arrive(&mut self, step: Step) {
        let kind = [Kind::Message, Kind::Stream, Kind::Copy][step.bits as usize % 3];
        let class = Class::ALL[(step.bits >> 8) as usize % 3];
        let idempotent = step.bits >> 16 & 1 == 1;
        let subject = Subject { kind, key: step.draw, class, stick: None, idempotent };
        let machine = Machine::new(subject);
        let sent_to = Vec::new();
        let carried = Carried { machine, class, position: None, sent_to, resent: 0, endings: 0 };
        if self.requests.len() < REQUESTS {
            self.requests.push(carried);
            self.tell(self.requests.len() - 1, Event::Arrived, step.draw);
        }
    }

    /// A carrier that is dropped, wherever its request stands.
    fn forget(&mut self, step: Step) {
        if !self.requests.is_empty() {
            let forgotten = self.requests.swap_remove(step.request % self.requests.len());
            self.leave(forgotten.position);
        }
    }

    fn leave(&mut self, position: Option<Position>) {
        let left = position.and_then(|position| self.queue.leave(position));
        self.waiting -= u32::from(left.is_some());
    }

    fn hear(&mut self, input: Input) {
        self.controller.handle(self.now, input);
        self.plan = drain(&mut self.controller).plan.unwrap_or(self.plan.clone());
    }

    /// Tells a request what has happened, and does what it says.
    fn tell(&mut self, index: usize, event: Event, draw: u64) {
        let ends = matches!(event, Event::Ended(_));
        let plan = self.plan.clone();
        let plan = self.there.then(|| &plan.services[0]);
        let carried = &mut self.requests[index];
        let had = carried.machine.permit().map(Permit::server);
        let action =
            carried.machine.handle(&At { now: self.now, draw, plan, lag: Duration::ZERO }, event);
        if let Some(report) = carried.machine.poll_report() {
            self.hear(report);
        }
        let carried = &mut self.requests[index];
        match action {
            Action::Send => {
                let server = carried.machine.permit().unwrap().server();
                assert!(!carried.sent_to.contains(&server), "asked twice");
                carried.sent_to.push(server);
                carried.resent = 0;
            }
            Action::Resend => {
                assert_eq!(carried.machine.permit().map(Permit::server), had);
                carried.resent += 1;
                assert_eq!(carried.resent, 1, "one connection was stale");
            }
            Action::End => carried.endings += 1,
            Action::None if ends && had.is_some() => carried.endings += 1,
            Action::Displace => {
                let left = self.queue.displace(carried.class);
                let place = left.map(|left| left.place);
                self.waiting -= u32::from(place.is_some());
                return self.tell(index, Event::Room(place), draw);
            }
            Action::Join { place, until } => {
                assert!(until > self.now);
                carried.position = Some(self.queue.join(carried.class, place));
                self.waiting += 1;
                return;
            }
            _ => return,
        }
        let position = carried.position.take();
        self.leave(position);
    }

    fn check(&self) {
        let permits = || self.requests.iter().flat_map(|carried| carried.machine.permits());
        let service = &self.plan.services[0];
        assert_eq!(service.state().queued(), self.waiting, "each place is somebody's");
        assert!(self.waiting <= QUEUE);
        for group in &service.groups {
            let of_group = |permit: &&Permit| permit.place().0 == usize::from(group.index);
            let mine = permits().filter(of_group).count() as u32;
            assert_eq!(group.state().in_flight(), mine, "each permit is somebody's");
            assert!(group.state().auto().awaiting() <= mine, "who waits for an answer was sent");
        }
        for carried in &self.requests {
            let Carried { machine, endings, .. } = carried;
            assert!(*endings <= 1 && machine.retries() <= ATTEMPTS);
            assert!(*endings == 0 || machine.permit().is_none(), "what has ended holds nothing");
        }
    }

    fn end(mut self) {
        while !self.requests.is_empty() {
            self.forget(Step { what: 0, request: 0, bits: 0, draw: 0 });
        }
        self.check();
        assert_eq!(self.waiting, 0);
    }
}

fn event(step: Step) -> Event {
    let bit = |at: u32| step.bits >> at & 1 == 1;
    let reason = Reason::ALL[(step.bits >> 8) as usize % Reason::ALL.len()];
    match step.bits % 16 {
        0 | 1 => Event::First,
        2 => Event::Displaced,
        3 => Event::Overdue,
        4 => Event::ClientGone,
        5 => Event::Connected,
        6 => Event::Unanswered(Unanswered {
            expired: bit(16),
            late: bit(17),
            waited: bit(18).then(|| Duration::from_millis(u64::from(step.bits >> 20))),
            limit: Duration::from_millis(u64::from(step.bits >> 24)),
            untouched: bit(19),
            reason,
        }),
        7 | 8 => {
            let status = [200, 302, 404, 500][(step.bits >> 8) as usize % 4];
            Event::Head { status, untouched: bit(19) }
        }
        9 => Event::Head { status: 503, untouched: true },
        10 | 11 => Event::Ended(if bit(20) { Ending::Complete } else { Ending::Tunnel }),
        12 => Event::Arrived,
        _ => Event::Failed(Failed {
            reason,
            progress: Progress {
                crowded: bit(24),
                reused: bit(25),
                left: bit(25) || bit(26),
                sent: bit(27),
                touched: bit(28),
                heard: bit(29),
                committed: bit(30),
            },
        }),
    }
}

fn step() -> impl Strategy<Value = Step> {
    (any::<u8>(), any::<usize>(), any::<u32>(), any::<u64>())
        .prop_map(|(what, request, bits, draw)| Step { what, request, bits, draw })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn every_order_of_events_ends_each_request_once_and_gives_everything_back(
        spreads in any::<bool>(),
        steps in prop::collection::vec(step(), 1..400),
    ) {
        let mut world = World::new(if spreads { Then::Spread } else { Then::Shed });
        for step in steps {
            world.step(step);
            world.check();
        }
        world.end();
    }
}

#[test]
fn ten_million_random_events_break_nothing() {
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    // Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014.
    let mut draw = || {
        seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (seed ^ seed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    };
    for world in 0..1_000 {
        let mut world = World::new(if world % 2 == 0 { Then::Spread } else { Then::Shed });
        for _ in 0..10_000 {
            let what = draw() as u8;
            let request = draw() as usize;
            world.step(Step { what, request, bits: draw() as u32, draw: draw() });
            world.check();
        }
        world.end();
    }
}

/// One server fails everything, and no retry is left: the group may still be given all its rate.
#[test]
fn a_5xx_that_may_not_be_retried_costs_its_group_nothing() {
    let capacity =
        Capacity { max_rate: Some(Rate::per_sec(10)), burst: Some(4), ..Capacity::default() };
    let groups = vec![group("near", 0, 2, capacity)];
    let retry =
        Retry { on_5xx: true, budget: Ratio::ZERO, min_rate: Rate::default(), ..Retry::default() };
    let (_, plan) =
        started(Service { groups, retry, when_full: WhenFull::Shed, ..Service::named("web") });
    let at = At { now: Instant::ZERO, draw: 0, plan: Some(&plan.services[0]), lag: Duration::ZERO };
    let send = |_: &u32| {
        let subject = Subject {
            kind: Kind::Message,
            key: 0,
            class: Class::Normal,
            stick: None,
            idempotent: true,
        };
        let mut request = Machine::new(subject);
        let sent = matches!(request.handle(&at, Event::Arrived), Action::Send);
        let answer = request.handle(&at, Event::Head { status: 500, untouched: true });
        assert!(!matches!(answer, Action::Discard), "no retry is left");
        sent
    };
    assert_eq!((0..10).filter(send).count(), 4);
}

#[test]
fn a_5xx_that_is_retried_is_a_failure_of_its_server_and_has_a_reason() {
    let groups = vec![group("near", 0, 2, Capacity::default())];
    let retry = Retry { on_5xx: true, ..Retry::default() };
    let (_, plan) = started(Service { groups, retry, ..Service::named("web") });
    let at = At { now: Instant::ZERO, draw: 0, plan: Some(&plan.services[0]), lag: Duration::ZERO };
    let head = |status| Event::Head { status, untouched: true };
    let cases = [
        (500, Reason::Answered500),
        (503, Reason::Answered503),
        (501, Reason::Answered5xx),
        (599, Reason::Answered5xx),
    ];
    for (status, reason) in cases {
        let mut request = request(Kind::Message);
        assert!(matches!(request.handle(&at, Event::Arrived), Action::Send));
        assert!(matches!(request.handle(&at, head(status)), Action::Discard));
        assert_eq!(request.take_untold().map(|failure| failure.reason), Some(reason));
        let sent = request.handle(&at, Event::Ended(Ending::Complete));
        assert!(matches!(sent, Action::Send), "{sent:?}");
        assert!(matches!(request.handle(&at, head(200)), Action::Forward));
        assert!(request.take_untold().is_none(), "once");
    }
    let state = State::of(&plan, at.now);
    let servers = &state.services[0].groups[0].servers;
    assert_eq!(servers.iter().map(|server| server.failures).sum::<u64>(), 4);
}

/// A request that may be sent again.
fn request(kind: Kind) -> Machine {
    let class = Class::Normal;
    Machine::new(Subject { kind, key: 0, class, stick: None, idempotent: true })
}

/// A failure of which nothing has reached the client, or some of a response.
fn failed(reason: Reason, committed: bool) -> Event {
    let progress = Progress { sent: true, heard: committed, committed, ..Progress::NOTHING };
    Event::Failed(Failed { reason, progress })
}

/// Two errors in a row of three, then a request that the server answers, then two again.
#[test]
fn errors_are_no_longer_in_a_row_after_a_tunnel_a_stream_or_a_response_that_the_client_ends() {
    let head = |status| Event::Head { status, untouched: false };
    let cases = [
        (Kind::Message, vec![head(101)], true),
        (Kind::Message, vec![head(200), Event::Ended(Ending::Tunnel)], true),
        (Kind::Message, vec![head(200), failed(Reason::ClientGone, true)], true),
        (Kind::Stream, vec![Event::Connected], true),
        (Kind::Message, vec![failed(Reason::ClientGone, false)], false),
        (Kind::Message, vec![head(200), failed(Reason::EmptyReply, true)], false),
    ];
    for (number, (kind, events, clears)) in cases.into_iter().enumerate() {
        let groups = vec![group("near", 0, 1, Capacity::default())];
        let (_, plan) = started(Service { groups, ..Service::named("web") });
        let at =
            At { now: Instant::ZERO, draw: 0, plan: Some(&plan.services[0]), lag: Duration::ZERO };
        let tell = |kind, events: Vec<Event>| {
            let mut request = request(kind);
            assert!(matches!(request.handle(&at, Event::Arrived), Action::Send));
            events.into_iter().for_each(|event| drop(request.handle(&at, event)));
            request.poll_report().is_some()
        };
        let err = || tell(Kind::Message, vec![failed(Reason::EmptyReply, false)]);
        assert!(!err() && !err(), "two are not enough: {number}");
        let told = tell(kind, events) | err();
        assert_eq!(!told, clears, "{number}");
    }
}

#[test]
fn what_another_response_did_to_the_connection_is_not_told_of_a_server_once_more() {
    let groups = vec![group("near", 0, 1, Capacity::default())];
    let (_, plan) = started(Service { groups, ..Service::named("web") });
    let at = At { now: Instant::ZERO, draw: 0, plan: Some(&plan.services[0]), lag: Duration::ZERO };
    let lost = || {
        let progress = Progress { sent: true, left: true, ..Progress::NOTHING };
        Event::Failed(Failed { reason: Reason::ConnectionViolated, progress })
    };
    for _ in 0..100 {
        let mut request = request(Kind::Message);
        assert!(matches!(request.handle(&at, Event::Arrived), Action::Send));
        assert!(matches!(request.handle(&at, lost()), Action::Resend), "over another connection");
        assert!(matches!(request.handle(&at, lost()), Action::End), "but once");
        assert_eq!(request.failure().unwrap().ending, Ending::ServerReset);
        assert!(request.poll_report().is_none());
    }
}

#[test]
fn a_server_that_breaks_a_rule_behind_its_head_has_sent_a_bad_body() {
    let groups = vec![group("near", 0, 1, Capacity::default())];
    let (_, plan) = started(Service { groups, ..Service::named("web") });
    let at = At { now: Instant::ZERO, draw: 0, plan: Some(&plan.services[0]), lag: Duration::ZERO };
    for (committed, ending) in [(false, Ending::ServerBad), (true, Ending::ServerBodyBad)] {
        let mut request = request(Kind::Message);
        assert!(matches!(request.handle(&at, Event::Arrived), Action::Send));
        let ended = request.handle(&at, failed(Reason::http2_violation(1), committed));
        assert!(matches!(ended, Action::End));
        assert_eq!(request.failure().unwrap().ending, ending);
    }
}

#[test]
fn a_retry_for_which_there_is_no_server_is_not_counted_and_costs_nothing() {
    let retry =
        Retry { attempts: 2, budget: Ratio::ZERO, min_rate: Rate::per_sec(2), ..Retry::default() };
    let service = |servers| {
        let groups = vec![group("near", 0, servers, Capacity::default())];
        started(Service { groups, retry, ejection: None, ..Service::named("web") })
    };
    for reason in [Reason::EmptyReply, Reason::ConnectionRefused] {
        let (_, plan) = service(1);
        let at =
            At { now: Instant::ZERO, draw: 0, plan: Some(&plan.services[0]), lag: Duration::ZERO };
        let mut alone = request(Kind::Message);
        assert!(matches!(alone.handle(&at, Event::Arrived), Action::Send));
        assert!(matches!(alone.handle(&at, failed(reason, false)), Action::End));
        assert_eq!(alone.retries(), 0, "{reason:?}");
    }
    let (_, plan) = service(2);
    let at = At { now: Instant::ZERO, draw: 0, plan: Some(&plan.services[0]), lag: Duration::ZERO };
    let both_fail = || {
        let mut request = request(Kind::Message);
        assert!(matches!(request.handle(&at, Event::Arrived), Action::Send));
        let again = request.handle(&at, failed(Reason::EmptyReply, false));
        if matches!(again, Action::Send) {
            let third = request.handle(&at, failed(Reason::EmptyReply, false));
            assert!(matches!(third, Action::End), "both servers were tried");
        }
        request.retries()
    };
    assert_eq!([(); 3].map(|()| both_fail()), [1, 1, 0], "the budget is two");
}
