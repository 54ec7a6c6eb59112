//! Random operations against a model: whatever happens in whatever order, the limits hold.

use std::{collections::BTreeMap, sync::Arc};

use loadline_core::{
    decide::{
        controller::{Controller, Input},
        ledger::ServerId,
        overflow_reason::OverflowReason,
        permit::Permit,
        plan::{Decision, PickContext, Plan, QueuePlace, QueuedDecision},
        reason::Reason,
    },
    fleet::{Capacity, Fleet, PolicyKind, Service, Then, WhenFull},
    time::{Duration, Instant},
    units::{Rate, Ratio},
};
use proptest::prelude::*;

use crate::fleets::{self, check, drain, fleet, group};

const RATE: u64 = 50;
const BURST: u32 = 4;
const PLACES: u32 = 6;
const QUEUE: u32 = 5;

#[derive(Clone, Copy, Debug)]
enum Op {
    Arrive(u64),
    Finish(usize),
    Fail(usize),
    Abandon(usize),
    LeaveQueue,
    Check { server: usize, passed: bool },
    Reload { scaler: u32 },
    Pass(u32),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => any::<u64>().prop_map(Op::Arrive),
        3 => any::<usize>().prop_map(Op::Finish),
        1 => any::<usize>().prop_map(Op::Fail),
        1 => any::<usize>().prop_map(Op::Abandon),
        1 => Just(Op::LeaveQueue),
        2 => (0usize..6, any::<bool>()).prop_map(|(server, passed)| Op::Check { server, passed }),
        1 => prop_oneof![Just(0), 10u32..=100].prop_map(|scaler| Op::Reload { scaler }),
        4 => (0u32..80).prop_map(Op::Pass),
    ]
}

fn config(policy: PolicyKind, near_scaler: u32) -> Fleet {
    let capacity = Capacity {
        max_rate: Some(Rate::per_sec(RATE)),
        burst: Some(BURST),
        max_in_flight: Some(PLACES),
        ..Capacity::default()
    };
    let mut groups = vec![group("near", 0, 3, capacity), group("far", 30, 3, capacity)];
    groups[0].scaler = Ratio::percent(near_scaler);
    let timeout = Duration::from_secs(1);
    let when_full = WhenFull::Queue { timeout, length: QUEUE, then: Then::Shed };
    fleet(Service { groups, policy, when_full, health: Some(check()), ..Service::named("web") })
}

/// The system under test with what the model knows of it.
struct World {
    policy: PolicyKind,
    controller: Controller,
    plan: Arc<Plan>,
    servers: Vec<ServerId>,
    now: Instant,
    permits: Vec<Permit>,
    places: Vec<QueuePlace>,
    /// Instants at which each group was given a request.
    given: BTreeMap<usize, Vec<Instant>>,
}

impl World {
    fn new(policy: PolicyKind) -> Self {
        let mut controller = Controller::new(Instant::ZERO, config(policy, 100));
        let outputs = drain(&mut controller);
        let servers = outputs.checks.iter().map(|(server, _)| *server).collect();
        let plan = outputs.plan.expect("a first plan");
        let (permits, places, given) = (vec![], vec![], BTreeMap::new());
        Self { policy, controller, plan, servers, now: Instant::ZERO, permits, places, given }
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Arrive(draw) => self.arrive(draw),
            Op::Finish(n) => self.end(n, Permit::finish),
            Op::Abandon(n) => self.end(n, |permit, _| drop(permit)),
            Op::Fail(n) => self.fail(n),
            Op::LeaveQueue => drop(self.places.pop()),
            Op::Check { server, passed } => self.hear(Input::Checked {
                server: self.servers[server],
                passed: passed.then(|| fleets::passed(1)).ok_or_else(String::new),
            }),
            Op::Reload { scaler } => self.hear(Input::Reload(config(self.policy, scaler).into())),
            Op::Pass(millis) => {
                self.now = self.now + Duration::from_millis(u64::from(millis));
                self.hear(Input::Tick);
            }
        }
        self.serve_queue();
    }

    fn ask(&self, draw: u64) -> PickContext<'static> {
        PickContext { now: self.now, key: draw, draw, tried: &[], stick: None }
    }

    fn arrive(&mut self, draw: u64) {
        let full_before = self.has_room();
        match self.plan.clone().services[0].pick(&self.ask(draw)) {
            Decision::Send(permit) => self.sent(permit, &full_before),
            Decision::Queue(place) => self.places.push(place),
            Decision::Refuse(_) => {}
        }
    }

    /// By group, as in the file: whether the model says there is room. A group that is not in the
    /// plan has none.
    fn has_room(&self) -> [bool; 2] {
        [0, 1].map(|index| {
            let groups = &self.plan.services[0].groups;
            let group = groups.iter().find(|group| usize::from(group.index) == index);
            group.is_some_and(|group| group.has_room_at(self.now))
        })
    }

    fn sent(&mut self, permit: Permit, had_room: &[bool; 2]) {
        let (index, _) = permit.place();
        let order = self.plan.services[0].groups.iter().map(|group| usize::from(group.index));
        let nearer: Vec<usize> = order.take_while(|at| *at != index).collect();
        assert!(nearer.iter().all(|at| !had_room[*at]), "{nearer:?} had room, {index} was given");
        self.check_reason(&permit);
        self.given.entry(index).or_default().push(self.now);
        self.permits.push(permit);
    }

    /// A request says why it went past the near group, and only then.
    fn check_reason(&self, permit: &Permit) {
        let groups = &self.plan.services[0].groups;
        let (near, first) = (groups.iter().find(|group| group.index == 0), groups[0].index);
        let reason = permit.overflow_reason();
        let is_right = match (permit.place().0, near) {
            (0, _) => reason.is_none(),
            (_, None) => reason == Some(OverflowReason::Out),
            (_, Some(_)) if first != 0 => reason == Some(OverflowReason::Yields),
            _ => matches!(reason, Some(OverflowReason::MaxRate | OverflowReason::MaxInFlight)),
        };
        assert!(is_right, "{reason:?} of {permit:?}");
    }

    fn end(&mut self, n: usize, how: impl FnOnce(Permit, Instant)) {
        if !self.permits.is_empty() {
            let permit = self.permits.swap_remove(n % self.permits.len());
            how(permit, self.now);
        }
    }

    fn fail(&mut self, n: usize) {
        if self.permits.is_empty() {
            return;
        }
        let permit = self.permits.swap_remove(n % self.permits.len());
        let server = permit.server();
        let errors_in_a_row = permit.fail();
        self.hear(Input::Failing { server, errors_in_a_row, reason: Reason::EmptyReply });
    }

    fn hear(&mut self, input: Input) {
        self.controller.handle(self.now, input);
        if let Some(plan) = drain(&mut self.controller).plan {
            self.plan = plan;
        }
    }

    fn serve_queue(&mut self) {
        while !self.places.is_empty() {
            let had_room = self.has_room();
            let plan = self.plan.clone();
            let QueuedDecision::Send(permit) = plan.services[0].pick_queued(&self.ask(7)) else {
                return;
            };
            self.sent(permit, &had_room);
            self.places.remove(0);
        }
    }

    fn check(&self) {
        self.controller.check_invariants();
        let service = &self.plan.services[0];
        assert_eq!(service.state().queued() as usize, self.places.len());
        assert!(self.places.len() <= QUEUE as usize);
        for group in &service.groups {
            let index = usize::from(group.index);
            let mine = self.permits.iter().filter(|permit| permit.place().0 == index).count();
            assert_eq!(group.state().in_flight() as usize, mine, "permits and counts agree");
            assert!(mine <= PLACES as usize, "{mine} in flight");
        }
    }

    /// No window of any length was given more than rate x window + burst.
    fn check_windows(&self) {
        for given in self.given.values() {
            for (first, start) in given.iter().enumerate() {
                for (last, end) in given.iter().enumerate().skip(first) {
                    let allowed = end.since(*start).as_nanos() * RATE / 1_000_000_000;
                    let count = (last - first + 1) as u64;
                    assert!(count <= allowed + u64::from(BURST), "{count} in a window");
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn limits_hold_and_permits_never_leak(
        policy in 0..PolicyKind::ALL.len(),
        ops in prop::collection::vec(op(), 1..300),
    ) {
        let mut world = World::new(PolicyKind::ALL[policy]);
        for op in ops {
            world.apply(op);
            world.check();
        }
        world.check_windows();
        world.permits.clear();
        world.places.clear();
        world.check();
    }
}
