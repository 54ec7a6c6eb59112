//! One seed is one record, to the byte: on every machine, and however fast it was made.
//!
//! The hashes are of the whole record as JSON. They change where a decision of `core`, a model of
//! the simulator or the record itself changes on purpose; nothing that only makes a run faster may
//! change them.

use std::{net::SocketAddr, sync::Arc};

use loadline_core::{
    fleet::{
        Capacity, Class, Edge, Fleet, Group, HealthCheck, Listeners, PolicyKind, Probe, Server,
        Service, Then, WhenFull, forwarding::Forwarding,
    },
    time::{Duration, Instant},
    units::{Rate, Ratio},
};
use loadline_sim::{
    Arrivals, OutageKind, Pauses, Scenario, ServiceTime, Simulation, Spacing, Stage,
    scenario::{
        Antagonist, ClientRetry, Discipline, Fault, Link, Selector, ServerModel, Source, Trouble,
    },
};

const MS: fn(u64) -> Duration = Duration::from_millis;

/// Two edges, three regions, every distribution, every kind of arrivals and of fault.
fn scenario(policy: PolicyKind) -> Scenario {
    let regions = ["near", "middle", "far"];
    let server = |group: usize, n: u8| {
        let address = SocketAddr::from(([10, 0, group as u8, n], 80));
        Server { weight: u32::from(n % 3) + 1, ..Server::at(address) }
    };
    let group = |index: usize| Group {
        name: regions[index].into(),
        region: regions[index].into(),
        rtt: Some(MS(20 * index as u64)),
        capacity: Capacity { max_rate: Some(Rate::per_sec(400)), ..Capacity::default() },
        scaler: Ratio::ONE,
        servers: (1..=7).map(|n| server(index, n)).collect(),
        discovery: None,
    };
    let health = HealthCheck {
        probe: Probe::Tcp,
        interval: MS(500),
        fast_interval: MS(100),
        timeout: MS(200),
        rise: 2,
        fall: 2,
        lenient: false,
    };
    let service = |name: &str, count| Service {
        policy,
        groups: (0..count).map(group).collect(),
        health: Some(health.clone()),
        when_full: WhenFull::Queue { timeout: MS(300), length: 50, then: Then::Shed },
        ..Service::named(name)
    };
    let fleet = |region: &str| {
        let (edge, forwarding, listeners) =
            (Edge::within(region), Forwarding::default(), Listeners::default());
        let services = vec![service("web", 3), service("api", 2)];
        Arc::new(Fleet { edge, forwarding, listeners, services: services.into() })
    };
    Scenario {
        edges: vec![fleet("near"), fleet("far")],
        seed: 42,
        lasts: Duration::from_secs(12),
        warm_up: Duration::from_secs(1),
        step: MS(500),
        sources: sources(),
        servers: servers(),
        links: vec![Link { between: ["near".into(), "far".into()], rtt: None, jitter: MS(2) }],
        faults: faults(),
        objects: Vec::new(),
        caches: Vec::new(),
        cluster: None,
    }
}

fn sources() -> Vec<Source> {
    let source = |name: &str, edge, service, arrivals| Source {
        name: name.into(),
        edge,
        service,
        arrivals,
        class: Class::Normal,
        clients: 100,
        distance: MS(10),
        gives_up: None,
        retry: ClientRetry::default(),
    };
    let open = |spacing, from, to| {
        let stage = Stage { from: Rate::per_sec(from), to: Rate::per_sec(to), lasts: MS(8_000) };
        Arrivals::Open { spacing, stages: [stage].into() }
    };
    let listed: Vec<Duration> = (0..1_000).map(|n| MS(n * n / 100)).collect();
    let patient = ClientRetry { times: 2, after: MS(50) };
    vec![
        Source { retry: patient, ..source("ramp", 0, 0, open(Spacing::Poisson, 100, 900)) },
        Source {
            gives_up: Some(MS(250)),
            class: Class::High,
            ..source("bursts", 1, 0, open(Spacing::Bursts(20), 200, 200))
        },
        source("even", 1, 1, open(Spacing::Constant, 150, 150)),
        source("users", 0, 1, Arrivals::Closed { users: 40, think: MS(100), requests: None }),
        source("list", 0, 0, Arrivals::Listed(listed.into())),
    ]
}

fn servers() -> Vec<(Selector, Arc<ServerModel>)> {
    let at = |group: u8, n: u8| Selector {
        server: Some(SocketAddr::from(([10, 0, group, n], 80))),
        ..Selector::default()
    };
    let mean = MS(15);
    let taking = |time| ServerModel { time, ..ServerModel::default() };
    let (short, long) = (MS(5), MS(100));
    let models = [
        (Selector::default(), taking(ServiceTime::Lognormal { mean, variation: 1.5 })),
        (at(0, 1), taking(ServiceTime::Pareto { mean, shape: 2.2 })),
        (at(0, 2), taking(ServiceTime::TwoKinds { short, long, long_share: 0.1 })),
        (at(0, 3), taking(ServiceTime::Empirical([short, mean, long].into()))),
        (at(1, 1), ServerModel { queue: Some(3), ..taking(ServiceTime::Constant(mean)) }),
        (
            at(1, 2),
            ServerModel { discipline: Discipline::ProcessorSharing, ..ServerModel::default() },
        ),
        (
            at(2, 1),
            ServerModel {
                pauses: Some(Pauses { every: MS(3_000), lasts: MS(150) }),
                antagonist: Some(Antagonist { most: 0.5, every: MS(400) }),
                warm_up: MS(2_000),
                cores: 4,
                ..ServerModel::default()
            },
        ),
    ];
    models.map(|(selector, model)| (selector, Arc::new(model))).into()
}

fn faults() -> Vec<Fault> {
    let region = |name: &str| Selector { region: Some(name.into()), ..Selector::default() };
    let fault = |at, lasts, what, whom| Fault {
        at: Instant::ZERO + MS(at),
        lasts: Some(MS(lasts)),
        what,
        whom,
    };
    let one =
        Selector { server: Some(SocketAddr::from(([10, 0, 0, 5], 80))), ..Selector::default() };
    vec![
        fault(2_000, 1_000, Trouble::Slow(3.0), region("near")),
        fault(3_500, 800, Trouble::Outage(OutageKind::Down), one.clone()),
        fault(5_000, 700, Trouble::Outage(OutageKind::Unreachable), region("middle")),
        fault(6_500, 400, Trouble::Stall, one),
        fault(7_500, 1_000, Trouble::Errors(0.3), region("near")),
        fault(9_000, 1_000, Trouble::Traffic(1.7), Selector::default()),
    ]
}

/// FNV-1a of 64 bits (Fowler, Noll, Vo).
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

fn record(policy: PolicyKind) -> String {
    serde_json::to_string(&Simulation::new(scenario(policy)).run()).expect("a record is JSON")
}

#[test]
fn the_record_of_each_policy_is_the_one_that_was_written_down() {
    let measured = PolicyKind::ALL.iter().map(|policy| {
        let record = record(*policy);
        (policy.name(), record.len(), hash(record.as_bytes()))
    });
    let measured: Vec<_> = measured.collect();
    assert_eq!(measured, RECORDS, "{measured:#x?}");
}

/// Name of the policy, bytes of the record, its hash.
const RECORDS: [(&str, usize, u64); 11] = [
    ("round-robin", 434_728, 0xb9a9_be54_76f0_6236),
    ("random", 492_412, 0x65b9_e2f2_e792_38ff),
    ("least-requests", 396_008, 0xbf90_f170_fbab_ebc4),
    ("power-of-two", 399_656, 0xb967_c475_e85f_f01e),
    ("prequal", 390_892, 0xd8a3_e80e_15dc_bd54),
    ("peak-ewma", 389_287, 0x0574_f393_cec3_e57e),
    ("lowest-latency", 444_783, 0x4a36_1c53_d3ac_d9d6),
    ("latency-weighted", 430_946, 0x1834_c683_f822_f78a),
    ("maglev", 439_523, 0x1907_05d9_4adb_02e9),
    ("bounded-hash", 402_725, 0xb1ac_f82b_52c8_a6df),
    ("managed", 424_902, 0x756a_aa3a_e0d6_2067),
];
