//! Requests through edges that share: what groups are given, and what one edge would have given.

use loadline_core::{
    cluster::WhenAway,
    decide::budget::default_burst,
    time::{Duration, Instant},
    units::Rate,
};
use loadline_sim::{
    Sharing, Simulation,
    cluster::{Cluster, ClusterFault, ClusterTrouble},
};

use crate::{
    calm,
    fleet::{EDGES, MAX_RATE, scenario},
};

/// The burst of a group, and one request for each edge that has a part of it.
fn stated() -> u64 {
    MAX_RATE + default_burst(Rate::per_sec(MAX_RATE)) + EDGES as u64
}

fn answered(sharing: &Sharing) -> u64 {
    sharing.record.outcomes.ok
}

/// The share of what one edge admits that is not admitted, in percent.
fn waste(load: f64, seconds: u64, seed: u64, cluster: Cluster) -> (f64, Sharing) {
    let shared = Simulation::shared(scenario(load, seconds, seed, false), cluster).run_shared();
    let one = Simulation::new(scenario(load, seconds, seed, true)).run();
    let one = one.outcomes.ok as f64;
    (100.0 * (one - answered(&shared) as f64) / one, shared)
}

fn assert_no_overshoot(sharing: &Sharing, what: &str) {
    for (group, most) in sharing.busiest[0].iter().enumerate() {
        assert!(*most <= stated(), "{what}: {most} in a second at group {group}");
    }
}

#[test]
fn no_group_is_over_its_capacity_and_little_is_wasted_while_demand_moves() {
    for load in [0.6, 0.8, 0.9, 1.0, 1.2] {
        let (waste, sharing) = waste(load, 130, 1, calm(3, WhenAway::Floor));
        let written = sharing.written as f64 / 130.0;
        eprintln!(
            "load {load}: waste {waste:.2} %, busiest {:?}, {written:.1} writes a second",
            sharing.busiest[0]
        );
        assert_no_overshoot(&sharing, &format!("load {load}"));
        assert!(waste <= 3.0, "{waste} % at load {load}");
    }
}

/// The store away twice, and two of the edges cut off from it.
fn with_faults(when_away: WhenAway) -> Cluster {
    let mut cluster = calm(3, when_away);
    let at = |second: u64| Instant::ZERO + Duration::from_secs(second);
    let fault = |second, lasts, what| ClusterFault {
        at: at(second),
        lasts: Duration::from_secs(lasts),
        what,
    };
    cluster.faults = vec![
        fault(20, 1, ClusterTrouble::StoreAway),
        fault(35, 8, ClusterTrouble::StoreAway),
        fault(55, 8, ClusterTrouble::CutOff(0)),
        fault(75, 8, ClusterTrouble::CutOff(2)),
    ];
    cluster
}

#[test]
fn a_store_that_is_away_and_edges_that_are_cut_off_let_no_group_overshoot() {
    let (waste, sharing) = waste(0.9, 100, 2, with_faults(WhenAway::Floor));
    eprintln!("floor: waste {waste:.2} %, busiest {:?}", sharing.busiest[0]);
    assert_no_overshoot(&sharing, "faults");
}

#[test]
fn what_is_kept_goes_on_being_used_and_is_too_much_once_at_most() {
    let (waste, sharing) = waste(0.9, 100, 2, with_faults(WhenAway::Keep));
    eprintln!("keep: waste {waste:.2} %, busiest {:?}", sharing.busiest[0]);
    assert!(waste <= 6.0, "{waste} %");
    for most in &sharing.busiest[0] {
        assert!(*most <= 2 * stated(), "{most} in a second");
    }
}
