//! What faults do to requests, and to whose.

use std::{net::SocketAddr, sync::Arc};

use loadline_core::{
    fleet::{Edge, Server, Then, WhenFull},
    time::{Duration, Instant},
    units::Rate,
};
use loadline_sim::{
    Arrivals, OutageKind, ServiceTime, Simulation,
    scenario::{Discipline, Fault, Link, Selector, ServerModel, Source, Trouble},
};

use crate::fleets::one_server;

/// Half of the requests wait a second for a slow server and go to the other one then. The slow one
/// goes down while they are there.
#[test]
fn a_server_that_goes_down_fails_no_request_that_has_left_it() {
    let of = |time| ServerModel {
        time: ServiceTime::Constant(Duration::from_millis(time)),
        cores: 100,
        discipline: Discipline::ProcessorSharing,
        ..ServerModel::default()
    };
    let mut scenario = one_server(of(900), Rate::per_sec(1), 60, 1);
    let slow = SocketAddr::from(([127, 0, 0, 2], 80));
    let mut fleet = (*scenario.edges[0]).clone();
    let service = &mut fleet.services[0];
    service.groups[0].servers.push(Server::at(slow));
    service.timeouts.head = Duration::from_secs(1);
    scenario.edges = vec![Arc::new(fleet)];
    let whom = Selector { server: Some(slow), ..Selector::default() };
    scenario.servers.push((whom.clone(), Arc::new(of(60_000))));
    let at = Instant::ZERO + Duration::from_millis(1_500);
    scenario.faults =
        vec![Fault { at, lasts: None, what: Trouble::Outage(OutageKind::Down), whom }];
    scenario.warm_up = Duration::ZERO;
    let times: Vec<Duration> = (0..16).map(Duration::from_millis).collect();
    scenario.sources[0].arrivals = Arrivals::Listed(times.into());
    let record = Simulation::new(scenario).run();
    assert_eq!((record.planned, record.outcomes.ok), (16, 16), "{:?}", record.outcomes);
    let late = record.response.max;
    assert!(late >= Duration::from_millis(1_900), "none has left the slow server: {late}");
}

/// The second request waits, is sent, loses its server, and waits once more: 150 ms each time, not
/// what was left of the first.
#[test]
fn a_request_that_waits_again_after_its_server_went_down_may_wait_as_long_as_before() {
    let of = |time| ServerModel {
        time: ServiceTime::Constant(Duration::from_millis(time)),
        cores: 100,
        ..ServerModel::default()
    };
    let slow = SocketAddr::from(([127, 0, 0, 2], 80));
    let whom = Selector { server: Some(slow), ..Selector::default() };
    for seed in 0..8 {
        let mut scenario = one_server(of(150), Rate::per_sec(1), 60, seed);
        let mut fleet = (*scenario.edges[0]).clone();
        let service = &mut fleet.services[0];
        let timeout = Duration::from_millis(150);
        service.when_full = WhenFull::Queue { timeout, length: 2, then: Then::Shed };
        service.groups[0].capacity.max_rate = Some(Rate::per_sec(10));
        service.groups[0].capacity.burst = Some(1);
        service.groups[0].servers.push(Server::at(slow));
        scenario.edges = vec![Arc::new(fleet)];
        scenario.servers.push((whom.clone(), Arc::new(of(60_000))));
        let at = Instant::ZERO + Duration::from_millis(120);
        let what = Trouble::Outage(OutageKind::Down);
        scenario.faults = vec![Fault { at, lasts: None, what, whom: whom.clone() }];
        scenario.warm_up = Duration::ZERO;
        scenario.sources[0].arrivals =
            Arrivals::Listed([Duration::ZERO, Duration::from_millis(10)].into());
        let record = Simulation::new(scenario).run();
        assert_eq!((record.planned, record.outcomes.ok), (2, 2), "{:?}", record.outcomes);
    }
}

/// It is out of reach for a moment, and down before it is done.
#[test]
fn a_server_that_goes_down_after_it_was_out_of_reach_responds_to_nobody() {
    let model = ServerModel {
        time: ServiceTime::Constant(Duration::from_secs(5)),
        ..ServerModel::default()
    };
    let mut scenario = one_server(model, Rate::per_sec(1), 10, 1);
    scenario.warm_up = Duration::ZERO;
    let fault = |at, lasts: Option<u64>, kind| Fault {
        at: Instant::ZERO + Duration::from_secs(at),
        lasts: lasts.map(Duration::from_secs),
        what: Trouble::Outage(kind),
        whom: Selector::default(),
    };
    scenario.faults =
        vec![fault(1, Some(1), OutageKind::Unreachable), fault(3, None, OutageKind::Down)];
    scenario.sources[0].arrivals = Arrivals::Listed([Duration::ZERO].into());
    let outcomes = Simulation::new(scenario).run().outcomes;
    assert_eq!((outcomes.ok, outcomes.total()), (0, 1), "{outcomes:?}");
}

/// Its server is elsewhere and goes on, for nobody.
#[test]
fn what_an_edge_has_under_way_is_lost_with_its_region() {
    for (kind, gives_up, expected) in [
        (OutageKind::Down, None, (1, 0)),
        (OutageKind::Unreachable, Some(Duration::from_secs(1)), (0, 1)),
        (OutageKind::Unreachable, None, (1, 0)),
    ] {
        let model = ServerModel {
            time: ServiceTime::Constant(Duration::from_secs(2)),
            ..ServerModel::default()
        };
        let mut scenario = one_server(model, Rate::per_sec(1), 10, 1);
        scenario.warm_up = Duration::ZERO;
        let mut fleet = (*scenario.edges[0]).clone();
        fleet.services[0].groups[0].region = "far".into();
        let here = Arc::new(fleet.clone());
        fleet.edge = Edge::within("far");
        scenario.edges = vec![here, Arc::new(fleet)];
        scenario.sources[0].arrivals = Arrivals::Listed([Duration::ZERO].into());
        scenario.sources[0].gives_up = gives_up;
        let at = Instant::ZERO + Duration::from_millis(500);
        let whom = Selector { region: Some("near".into()), ..Selector::default() };
        scenario.faults = vec![Fault { at, lasts: None, what: Trouble::Outage(kind), whom }];
        let outcomes = Simulation::new(scenario).run().outcomes;
        let found = (outcomes.connect_timeout, outcomes.timeout);
        assert_eq!((found, outcomes.total()), (expected, 1), "{kind:?}, {outcomes:?}");
    }
}

/// Its own edge is 100 ms away from the one that is left, as its configuration or a link says it.
#[test]
fn clients_of_a_lost_region_have_the_way_to_the_edge_that_is_left_before_them() {
    let ms = Duration::from_millis;
    for (rtt, link) in [(Some(ms(100)), None), (None, Some(ms(100))), (Some(ms(3)), Some(ms(100)))]
    {
        let model = ServerModel { time: ServiceTime::Constant(ms(2)), ..ServerModel::default() };
        let mut scenario = one_server(model, Rate::per_sec(1), 10, 1);
        scenario.warm_up = Duration::ZERO;
        let mut fleet = (*scenario.edges[0]).clone();
        fleet.services[0].groups[0].region = "far".into();
        fleet.services[0].groups[0].rtt = rtt;
        let here = Arc::new(fleet.clone());
        fleet.services[0].groups[0].rtt = None;
        fleet.edge = Edge::within("far");
        scenario.edges = vec![here, Arc::new(fleet)];
        let between = ["far".into(), "near".into()];
        let link = link.map(|rtt| Link { between, rtt: Some(rtt), jitter: Duration::ZERO });
        scenario.links = link.into_iter().collect();
        scenario.sources[0].arrivals = Arrivals::Listed([ms(8_000)].into());
        scenario.sources[0].distance = ms(5);
        let at = Instant::ZERO + ms(4_000);
        let whom = Selector { region: Some("near".into()), ..Selector::default() };
        let what = Trouble::Outage(OutageKind::Unreachable);
        scenario.faults = vec![Fault { at, lasts: None, what, whom }];
        let record = Simulation::new(scenario.clone()).run();
        let (found, expected) = (record.response.max, ms(107));
        let off = found.max(expected).saturating_sub(found.min(expected));
        assert!(off < expected.scale(0.002), "{found}, expected {expected}");
        scenario.sources[0].gives_up = Some(ms(90));
        let outcomes = Simulation::new(scenario).run().outcomes;
        assert_eq!((outcomes.timeout, outcomes.total()), (1, 1), "{outcomes:?}");
    }
}

/// Half of its second is done when the server becomes half as fast: 500 ms and another second.
#[test]
fn a_server_that_shares_its_cores_and_becomes_slow_keeps_the_work_that_it_has_done() {
    let begin = Instant::ZERO + Duration::from_millis(500);
    let fault = |what, lasts| vec![Fault { at: begin, lasts, what, whom: Selector::default() }];
    let for_300_ms = Some(Duration::from_millis(300));
    let cases = [
        (fault(Trouble::Slow(2.0), None), 1_500),
        (fault(Trouble::Slow(2.0), for_300_ms), 1_150),
        (fault(Trouble::Stall, for_300_ms), 1_300),
    ];
    for (faults, expected) in cases {
        let model = ServerModel {
            time: ServiceTime::Constant(Duration::from_secs(1)),
            discipline: Discipline::ProcessorSharing,
            ..ServerModel::default()
        };
        let mut scenario = one_server(model, Rate::per_sec(1), 10, 1);
        scenario.warm_up = Duration::ZERO;
        scenario.faults = faults;
        scenario.sources[0].arrivals = Arrivals::Listed([Duration::ZERO].into());
        let record = Simulation::new(scenario).run();
        let (found, expected) = (record.response.max, Duration::from_millis(expected));
        let off = found.max(expected).saturating_sub(found.min(expected));
        assert!(off < expected.scale(0.002), "{found}, expected {expected}");
    }
}

/// The second request comes to a server out of reach, and its client gives up after 20 s.
#[test]
fn a_client_that_gives_up_after_the_plan_makes_the_run_no_longer_and_its_rate_no_lower() {
    let model = ServerModel {
        time: ServiceTime::Constant(Duration::from_millis(10)),
        ..ServerModel::default()
    };
    let mut scenario = one_server(model, Rate::per_sec(1), 10, 1);
    scenario.warm_up = Duration::ZERO;
    let at = Instant::ZERO + Duration::from_millis(9_900);
    let what = Trouble::Outage(OutageKind::Unreachable);
    scenario.faults = vec![Fault { at, lasts: None, what, whom: Selector::default() }];
    let source = &mut scenario.sources[0];
    source.arrivals = Arrivals::Listed([Duration::ZERO, Duration::from_millis(9_950)].into());
    source.gives_up = Some(Duration::from_secs(20));
    let record = Simulation::new(scenario).run();
    assert_eq!((record.outcomes.ok, record.outcomes.timeout), (1, 1), "{:?}", record.outcomes);
    assert_eq!(record.elapsed, Duration::from_secs(10));
    assert_eq!(record.achieved, Rate::milli_per_sec(100));
}

/// It is 50 ms to the server, which then works 100 ms for a client that has gone; whoever comes a
/// millisecond later waits for that.
#[test]
fn a_request_that_is_given_up_on_its_way_costs_its_server_as_much_as_later() {
    let ms = Duration::from_millis;
    for gives_up in [49, 51] {
        for discipline in [Discipline::FirstCome, Discipline::ProcessorSharing] {
            let time = ServiceTime::Constant(ms(100));
            let model = ServerModel { time, discipline, ..ServerModel::default() };
            let mut scenario = one_server(model, Rate::per_sec(1), 10, 1);
            scenario.warm_up = Duration::ZERO;
            let mut fleet = (*scenario.edges[0]).clone();
            fleet.services[0].groups[0].rtt = Some(ms(100));
            scenario.edges = vec![Arc::new(fleet)];
            let template = scenario.sources[0].clone();
            let source = |at, gives_up| Source {
                arrivals: Arrivals::Listed([ms(at)].into()),
                gives_up,
                ..template.clone()
            };
            scenario.sources = vec![source(0, Some(ms(gives_up))), source(1, None)];
            let record = Simulation::new(scenario).run();
            assert_eq!((record.outcomes.ok, record.outcomes.timeout), (1, 1));
            let (found, expected) = (record.response.max, ms(299));
            let off = found.max(expected).saturating_sub(found.min(expected));
            assert!(off < expected.scale(0.002), "{gives_up} ms, {discipline:?}: {found}");
        }
    }
}
