//! Fleets and plans for tests.

use std::{net::SocketAddr, sync::Arc};

use loadline_core::{
    decide::{
        controller::{Change, Controller, Input, Output, Passed},
        permit::Permit,
        plan::{Decision, PickContext, Plan},
    },
    fleet::{Capacity, Edge, Fleet, Group, HealthCheck, Probe, Server, Service},
    time::{Duration, Instant},
};

/// A fleet of one service "web", seen from region "near".
pub(crate) fn fleet(service: Service) -> Fleet {
    let edge = Edge { threads: 1, ..Edge::within("near") };
    Fleet::of(edge, vec![], vec![service])
}

/// A group of servers in the region of its name.
pub(crate) fn group(name: &str, rtt_ms: u64, servers: u8, capacity: Capacity) -> Group {
    let first_octet = name.as_bytes()[0];
    let server = |n| Server {
        max_connections: u32::MAX,
        ..Server::at(SocketAddr::from(([127, first_octet, 0, n], 80)))
    };
    Group {
        rtt: Some(Duration::from_millis(rtt_ms)),
        capacity,
        ..Group::within(name, (0..servers).map(server).collect())
    }
}

/// A check every second, two passes up, two failures down.
pub(crate) fn check() -> HealthCheck {
    HealthCheck {
        probe: Probe::Tcp,
        interval: Duration::from_secs(1),
        fast_interval: Duration::from_millis(100),
        timeout: Duration::from_millis(500),
        rise: 2,
        fall: 2,
        lenient: false,
    }
}

/// A check that passed, all of it in its round trip.
pub(crate) fn passed(millis: u64) -> Passed {
    let time = Duration::from_millis(millis);
    Passed { round_trip: time, whole: time }
}

/// What a controller put out since it was last asked.
pub(crate) struct Outputs {
    /// The newest plan, if any.
    pub(crate) plan: Option<Arc<Plan>>,
    /// What happened to servers and groups.
    pub(crate) changes: Vec<Change>,
    /// Servers to check.
    pub(crate) checks: Vec<(loadline_core::decide::ledger::ServerId, SocketAddr)>,
}

/// Drains a controller.
pub(crate) fn drain(controller: &mut Controller) -> Outputs {
    let mut outputs = Outputs { plan: None, changes: vec![], checks: vec![] };
    while let Some(output) = controller.poll() {
        match output {
            Output::Publish(plan) => outputs.plan = Some(plan),
            Output::Check { server, address, .. } => outputs.checks.push((server, address)),
            Output::Notice(notice) => outputs.changes.push(notice.change),
        }
    }
    controller.check_invariants();
    outputs
}

/// A controller for one service and its first plan.
pub(crate) fn started(service: Service) -> (Controller, Arc<Plan>) {
    let mut controller = Controller::new(Instant::ZERO, fleet(service));
    let plan = drain(&mut controller).plan.expect("the first output is a plan");
    (controller, plan)
}

/// Hands an input in and gives the plan that is in force after it.
pub(crate) fn after(
    controller: &mut Controller,
    plan: Arc<Plan>,
    now: Instant,
    input: Input,
) -> Arc<Plan> {
    controller.handle(now, input);
    drain(controller).plan.unwrap_or(plan)
}

/// How many requests at a time the first service of a plan may be given.
pub(crate) fn places(plan: &Plan, now: Instant) -> usize {
    let ask = PickContext { now, key: 0, draw: 0, tried: &[], stick: None };
    let send = || match plan.services[0].pick(&ask) {
        Decision::Send(permit) => Some(permit),
        _ => None,
    };
    let permits: Vec<Permit> = std::iter::from_fn(send).collect();
    permits.len()
}
