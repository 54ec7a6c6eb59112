//! Every policy through the front door: a controller, its plan, and picks.

use std::{net::Ipv4Addr, sync::Arc};

use loadline_core::{
    decide::{
        controller::{Controller, Input},
        ledger::ServerId,
        permit::Permit,
        plan::{Decision, PickContext, Plan, Refusal},
    },
    fleet::{Capacity, Group, PolicyKind, Server, Service, WhenFull},
    time::{Duration, Instant},
    units::Ratio,
};
use proptest::prelude::*;

use crate::{
    fleets::{drain, fleet},
    simulation::{
        Outcome, Simulation, THINK,
        draws::Draws,
        station::{Station, Weather},
    },
};

/// One service with one group, of which the policy and the servers matter.
struct TestEdge {
    controller: Controller,
    plan: Arc<Plan>,
    now: Instant,
    draws: Draws,
}

impl TestEdge {
    fn new(service: Service) -> Self {
        let now = Instant::from_nanos(1_000_000_000);
        let mut controller = Controller::new(now, fleet(service));
        let plan = drain(&mut controller).plan.unwrap();
        Self { controller, plan, now, draws: Draws(0) }
    }

    fn reload(&mut self, service: Service) {
        self.controller.handle(self.now, Input::Reload(fleet(service).into()));
        self.plan = drain(&mut self.controller).plan.unwrap();
    }

    /// Decides a request with a random key that has failed at `tried` already.
    fn pick(&mut self, tried: &[ServerId]) -> Decision {
        let (key, draw) = (self.draws.next(), self.draws.next());
        let ask = PickContext { now: self.now, key, draw, tried, stick: None };
        self.plan.services[0].pick(&ask)
    }

    fn permit(&mut self) -> Permit {
        match self.pick(&[]) {
            Decision::Send(permit) => permit,
            other => panic!("a server is open, yet {other:?}"),
        }
    }
}

/// A service that refuses when it is full, with a server for each weight and limit in flight.
fn service(policy: PolicyKind, servers: &[(u32, Option<u32>)]) -> Service {
    let servers = servers.iter().zip(1..).map(|((weight, max_in_flight), n)| Server {
        weight: *weight,
        capacity: Capacity { max_in_flight: *max_in_flight, ..Capacity::default() },
        ..Server::at((Ipv4Addr::new(10, 0, 0, n), 80).into())
    });
    let group = Group::within("near", servers.collect());
    Service { policy, when_full: WhenFull::Shed, groups: vec![group], ..Service::named("web") }
}

/// What may happen to an edge.
#[derive(Clone, Debug)]
enum Step {
    /// A request comes that has failed at these servers.
    Pick { tried: Vec<usize> },
    /// One of those in flight ends, answered after so many milliseconds.
    End { which: usize, millis: u64 },
    /// The same configuration is loaded again.
    Reload,
}

fn step(servers: usize) -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => prop::collection::vec(0..servers, 0..3).prop_map(|tried| Step::Pick { tried }),
        3 => (any::<usize>(), 1u64..300).prop_map(|(which, millis)| Step::End { which, millis }),
        1 => Just(Step::Reload),
    ]
}

fn case() -> impl Strategy<Value = (Vec<(u32, u32)>, Vec<Step>)> {
    prop::collection::vec((1u32..6, 1u32..4), 1..8).prop_flat_map(|servers| {
        let steps = prop::collection::vec(step(servers.len()), 1..80);
        (Just(servers), steps)
    })
}

proptest! {
    /// Whatever happens, a request goes to a server with room that has not failed it, and is
    /// refused only where there is none.
    #[test]
    fn a_server_is_chosen_if_and_only_if_one_is_open((servers, steps) in case()) {
        for &policy in PolicyKind::ALL {
            let limits = servers.iter().map(|(weight, max)| (*weight, Some(*max)));
            let limits: Vec<_> = limits.collect();
            let mut edge = TestEdge::new(service(policy, &limits));
            let mut held = Vec::new();
            for step in &steps {
                edge.now = edge.now + Duration::from_millis(5);
                match step {
                    Step::Reload => edge.reload(service(policy, &limits)),
                    Step::End { which, millis } => end(&mut held, *which, *millis),
                    Step::Pick { tried } => pick_rightly(&mut edge, &mut held, &servers, tried)?,
                }
            }
        }
    }
}

/// Ends one of the requests that are held, if any is.
fn end(held: &mut Vec<Permit>, which: usize, millis: u64) {
    if !held.is_empty() {
        let permit = held.swap_remove(which % held.len());
        let now = permit.since() + Duration::from_millis(millis);
        permit.answered(now);
        permit.finish(now);
    }
}

/// Picks, and compares with what is known of the servers from the permits that are held.
fn pick_rightly(
    edge: &mut TestEdge,
    held: &mut Vec<Permit>,
    servers: &[(u32, u32)],
    tried: &[usize],
) -> Result<(), TestCaseError> {
    let is_open = |at: &usize| {
        let used = held.iter().filter(|permit| permit.place().1 == *at).count();
        used < servers[*at].1 as usize && !tried.contains(at)
    };
    let open: Vec<usize> = (0..servers.len()).filter(is_open).collect();
    let group = &edge.plan.services[0].groups[0];
    let ids: Vec<ServerId> = tried.iter().map(|at| group.servers[*at].state().id()).collect();
    match edge.pick(&ids) {
        Decision::Send(permit) => {
            prop_assert!(open.contains(&permit.place().1), "{:?} of {:?}", permit, open);
            held.push(permit);
        }
        other => prop_assert!(open.is_empty(), "{:?} though {:?} are open", other, open),
    }
    Ok(())
}

/// With requests that stay a while, what every policy gives is in proportion to weights; those
/// that look at loads are exact to the few requests in flight, those that draw to chance.
#[test]
fn weights_are_followed_under_load() {
    let weights = [(1, None), (2, None), (3, None), (4, None)];
    for policy in PolicyKind::ALL.iter().copied().filter(|p| *p != PolicyKind::LowestLatency) {
        let given = shares(&service(policy, &weights), &[200; 4], 20_000);
        for (share, expected) in given.iter().zip([0.1, 0.2, 0.3, 0.4]) {
            assert!((share - expected).abs() < 0.015, "{policy:?}: {given:?}");
        }
    }
}

/// Three servers answer after 10 ms, the fourth after 100 ms.
#[test]
fn a_slow_server_is_given_what_each_policy_says() {
    let servers = [(1, None); 4];
    let share_of_slow = |policy| shares(&service(policy, &servers), &[10, 10, 10, 100], 20_000)[3];
    let cases = [
        (PolicyKind::RoundRobin, 0.2499..0.2501),
        (PolicyKind::Random, 0.23..0.27),
        (PolicyKind::Maglev, 0.23..0.27),
        // One of its requests ends where 10 of the others do, and one in flight is enough to be
        // passed over while another server is idle.
        (PolicyKind::LeastRequests, 0.01..0.05),
        (PolicyKind::PowerOfTwo, 0.01..0.12),
        (PolicyKind::PeakEwma, 0.0..0.02),
        (PolicyKind::LowestLatency, 0.0..0.01),
        // 1/100 of 3/10 + 1/100 is 3.2 %.
        (PolicyKind::LatencyWeighted, 0.025..0.04),
        (PolicyKind::BoundedHash, 0.01..0.1),
    ];
    for (policy, expected) in cases {
        let share = share_of_slow(policy);
        assert!(expected.contains(&share), "{policy:?}: {share}, expected {expected:?}");
    }
}

#[test]
fn a_reload_does_not_start_the_round_again() {
    let servers = [(1, None); 5];
    let mut edge = TestEdge::new(service(PolicyKind::RoundRobin, &servers));
    let places: Vec<usize> = (0..15)
        .map(|_| {
            edge.reload(service(PolicyKind::RoundRobin, &servers));
            edge.permit().place().1
        })
        .collect();
    assert_eq!(places, [0, 1, 2, 3, 4].repeat(3));
}

#[test]
fn what_a_limit_on_utilization_lets_in_goes_to_all_servers() {
    for policy in [PolicyKind::Random, PolicyKind::LatencyWeighted, PolicyKind::PowerOfTwo] {
        let mut service = service(policy, &[(1, None); 10]);
        service.groups[0].capacity.max_utilization = Some(Ratio::percent(20));
        let mut edge = TestEdge::new(service);
        for _ in 0..=1_000 {
            edge.now = edge.now + Duration::from_millis(1);
            edge.permit().report_utilization(edge.now, Ratio::percent(80));
        }
        let mut given = [0; 10];
        let mut refused = 0;
        for _ in 0..8_000 {
            edge.now = edge.now + Duration::from_millis(1);
            match edge.pick(&[]) {
                Decision::Send(permit) => given[permit.place().1] += 1,
                Decision::Refuse(Refusal::Full) => refused += 1,
                other => panic!("{other:?}"),
            }
        }
        assert!((5_800..6_100).contains(&refused), "{policy:?}: {refused} of 8000 are kept out");
        assert!(given.iter().all(|n| (140..280).contains(n)), "{policy:?}: {given:?}");
    }
}

/// Two edges that know the same servers agree on where a key goes, and so does a later plan in
/// which another server is missing.
#[test]
fn a_key_has_the_same_server_on_every_edge_and_while_others_come_and_go() {
    for policy in [PolicyKind::Maglev, PolicyKind::BoundedHash] {
        let servers = [(1, None); 10];
        let mut here = TestEdge::new(service(policy, &servers));
        let mut reversed = service(policy, &servers);
        reversed.groups[0].servers.reverse();
        let mut there = TestEdge::new(reversed);
        let before: Vec<_> = (0..2_000).map(|_| here.permit().address()).collect();
        let elsewhere: Vec<_> = (0..2_000).map(|_| there.permit().address()).collect();
        assert_eq!(before, elsewhere, "{policy:?}");
        here.reload(service(policy, &servers[..9]));
        here.draws = Draws(0);
        let after = (0..2_000).map(|_| here.permit().address());
        let gone = (Ipv4Addr::new(10, 0, 0, 10), 80).into();
        let moved = before.iter().zip(after).filter(|(old, new)| *old != new && **old != gone);
        let moved = moved.count();
        assert!(moved <= 20, "{policy:?}: {moved} of 1800 keys moved needlessly");
    }
}

/// How long requests take, each by a draw of its own.
#[derive(Clone, Copy, Debug)]
enum ServiceTime {
    /// 10 ms and up to a twentieth.
    Even,
    /// 10 ms on average, exponential.
    Random,
    /// A tenth of a millisecond, and 5 ms once in 500.
    AtOnce,
}

impl ServiceTime {
    /// In seconds.
    fn draw(self, draws: &mut Draws) -> f64 {
        match self {
            Self::Even => 0.01 + draws.uniform() / 2_000.0,
            Self::Random => 0.01 * draws.exponential(),
            Self::AtOnce if draws.next().is_multiple_of(500) => 0.005,
            Self::AtOnce => 6e-5 + 6e-5 * draws.exponential(),
        }
    }
}

/// Servers that are never busy.
fn idle() -> Station {
    Station::new(1_000, Weather::default())
}

/// How many of the requests each server was given.
fn counts(servers: usize, outcomes: &[Outcome]) -> Vec<usize> {
    let mut counts = vec![0; servers];
    let servers = outcomes.iter().filter_map(|it| it.answered).map(|(_, (_, server))| server);
    servers.for_each(|server| counts[server] += 1);
    counts
}

/// Sends requests a millisecond apart to servers of these latencies, in milliseconds, and gives
/// the part of them that each server was given.
fn shares(service: &Service, latencies: &[u32], requests: u32) -> Vec<f64> {
    let mut simulation = Simulation::new(service, 1, &idle(), 0);
    for (server, millis) in service.groups[0].servers.iter().zip(latencies) {
        let speeds = vec![(0.0, 1_000.0 / f64::from(*millis))];
        let station = Station::new(1_000, Weather { speeds, ..Weather::default() });
        simulation.stations.insert(server.address, station);
    }
    for n in 0..requests {
        simulation.arrive(1.0 + f64::from(n) / 1_000.0, 0, (1.0, true));
    }
    let given = counts(latencies.len(), &simulation.run());
    given.iter().map(|count| *count as f64 / f64::from(requests)).collect()
}

/// Keeps so many requests in flight until all are sent; gives how many each server was given.
fn given(service: &Service, users: usize, requests: usize, time: ServiceTime) -> Vec<usize> {
    let mut simulation = Simulation::new(service, 1, &idle(), 0);
    let outcomes =
        simulation.keep_in_flight(users, requests, |draws, now| (now + THINK, time.draw(draws)));
    counts(service.groups[0].servers.len(), &outcomes)
}

/// Ties go round by weight: where nothing is in flight, all servers are tied.
#[test]
fn least_requests_shares_requests_one_after_another_by_weight() {
    for weights in [&[1, 1, 2][..], &[10, 20, 70]] {
        let servers: Vec<_> = weights.iter().map(|weight| (*weight, None)).collect();
        let total: u32 = weights.iter().sum();
        for (users, requests) in [1, 10, 100].into_iter().flat_map(|n| [(n, 60), (n, 6_000)]) {
            let service = service(PolicyKind::LeastRequests, &servers);
            let given = given(&service, users, requests, ServiceTime::Even);
            for (count, weight) in given.iter().zip(weights) {
                let share = *count as f64 / requests as f64 - f64::from(*weight) / f64::from(total);
                assert!(share.abs() < 0.02, "{weights:?} {users} {requests}: {given:?}");
            }
            assert!(weights[0] > 1 || users > 1 || requests > 60 || given == [15, 15, 30]);
        }
    }
}

/// Of equal servers none is preferred for a slow response or two: each share is within five
/// standard deviations of what chance would make it.
#[test]
fn equal_servers_are_given_equal_shares() {
    let mut unequal = Vec::new();
    for &policy in PolicyKind::ALL {
        for time in [ServiceTime::Even, ServiceTime::Random, ServiceTime::AtOnce] {
            for users in [1, 3, 10, 30, 100] {
                let given = given(&service(policy, &[(1, None); 3]), users, 3_000, time);
                if given.iter().any(|count| count.abs_diff(1_000) > 130) {
                    unequal.push((policy, time, users, given));
                }
            }
        }
    }
    assert!(unequal.is_empty(), "{unequal:#?}");
}
