//! The kinds of servers that the search is tuned on and judged by.

use super::{
    pace::Pace,
    searches::{Kind, Slo},
    server::{Habit, Jobs, Server},
};

/// Twelve kinds. Load lines and floors are those that `--truth` finds with runs of ten million
/// requests: the line is known to 0.1 %, the floor to a fifth.
pub(crate) const KINDS: [Kind; 12] = [
    Kind {
        name: "even",
        server: Server::new(Jobs::Fixed(0.000_5), 2),
        slo: Slo::Percentile(99.0, 4.0),
        exact: 3_402.4,
        floor_s: 30.0,
    },
    Kind {
        name: "exponential",
        server: Server::new(Jobs::Exponential(0.001), 4),
        slo: Slo::Percentile(99.0, 8.0),
        exact: 3_349.5,
        floor_s: 54.0,
    },
    Kind {
        name: "lognormal",
        server: Server::new(Jobs::Lognormal { mean: 0.004, cv: 1.5 }, 16),
        slo: Slo::Percentile(95.0, 20.0),
        exact: 3_656.0,
        floor_s: 49.0,
    },
    Kind {
        name: "Pareto",
        server: Server::new(Jobs::Pareto { mean: 0.005, shape: 2.6 }, 16),
        slo: Slo::Percentile(95.0, 15.0),
        exact: 2_952.5,
        floor_s: 40.0,
    },
    Kind {
        name: "short queue",
        server: Server { room: 12, ..Server::new(Jobs::Exponential(0.005), 8) },
        slo: Slo::Errors(1.0),
        exact: 1_328.7,
        floor_s: 46.0,
    },
    Kind {
        name: "stall every 7 s",
        server: Server {
            pace: Pace::Slow { every: 7.0, lasts: 0.4, speed: 0.0 },
            ..Server::new(Jobs::Exponential(0.01), 8)
        },
        slo: Slo::Percentile(90.0, 200.0),
        exact: 554.2,
        floor_s: 622.0,
    },
    Kind {
        name: "two kinds of requests",
        server: Server::new(Jobs::Two { short: 0.000_2, long: 0.02, share: 0.02 }, 16),
        slo: Slo::Percentile(95.0, 4.0),
        exact: 19_968.0,
        floor_s: 90.0,
    },
    Kind {
        name: "autoscaling",
        server: Server {
            habit: Habit::Scales { most: 16, ready: 3.0 },
            ..Server::new(Jobs::Exponential(0.005), 4)
        },
        slo: Slo::Percentile(95.0, 20.0),
        exact: 2_949.0,
        floor_s: 27.0,
    },
    Kind {
        name: "warming cache",
        server: Server {
            habit: Habit::Caches { hit: 0.2, warms: 10_000.0, least: 0.1 },
            ..Server::new(Jobs::Exponential(0.01), 8)
        },
        slo: Slo::Percentile(95.0, 25.0),
        exact: 2_622.5,
        floor_s: 65.0,
    },
    Kind {
        name: "processor sharing",
        server: Server { sharing: true, ..Server::new(Jobs::Exponential(0.004), 8) },
        slo: Slo::Percentile(95.0, 20.0),
        exact: 1_725.8,
        floor_s: 28.0,
    },
    Kind {
        name: "rate limiter",
        server: Server {
            habit: Habit::Limits { rate: 1_000.0, burst: 50.0 },
            ..Server::new(Jobs::Exponential(0.002), 4)
        },
        slo: Slo::Errors(1.0),
        exact: 1_001.3,
        floor_s: 13.0,
    },
    Kind {
        name: "garbage collection",
        server: Server {
            pace: Pace::Slow { every: 2.0, lasts: 0.04, speed: 0.0 },
            ..Server::new(Jobs::Exponential(0.004), 16)
        },
        slo: Slo::Percentile(95.0, 24.0),
        exact: 3_097.0,
        floor_s: 91.0,
    },
];

/// Kinds that breach their objective by chance at every load: no load is to be found.
pub(crate) const BREACHED: [Kind; 3] = [
    Kind {
        name: "late by chance",
        server: Server::new(Jobs::Chance { short: 0.01, long: 0.5, share: 0.02 }, usize::MAX),
        slo: Slo::Percentile(99.0, 300.0),
        exact: 0.0,
        floor_s: 0.0,
    },
    Kind {
        name: "late by chance, 4 cores",
        server: Server::new(Jobs::Chance { short: 0.01, long: 0.5, share: 0.02 }, 4),
        slo: Slo::Percentile(99.0, 300.0),
        exact: 0.0,
        floor_s: 0.0,
    },
    Kind {
        name: "errors by chance",
        server: Server { habit: Habit::Fails(0.02), ..Server::new(Jobs::Fixed(0.02), 2) },
        slo: Slo::Errors(1.0),
        exact: 0.0,
        floor_s: 0.0,
    },
];
