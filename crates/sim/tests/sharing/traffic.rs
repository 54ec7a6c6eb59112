//! Requests through edges that share: what groups are given, and what one edge would have given.

use loadline_core::{
    cluster::WhenAway,
    fleet::WhenFull,
    time::{Duration, Instant},
};
use loadline_sim::{
    Sharing, Simulation,
    cluster::{Cluster, ClusterFault, ClusterTrouble},
};

use crate::{calm, fleet::Site, settings::QUEUE};

fn answered(sharing: &Sharing) -> u64 {
    sharing.record.outcomes.ok
}

/// The share of what one edge admits that is not admitted, in percent.
pub(crate) fn waste(site: &Site, seconds: u64, seed: u64, cluster: Cluster) -> (f64, Sharing) {
    let shared = Simulation::shared(site.scenario(seconds, seed, false), cluster).run_shared();
    let one = Simulation::new(site.scenario(seconds, seed, true)).run();
    let one = one.outcomes.ok as f64;
    (100.0 * (one - answered(&shared) as f64) / one, shared)
}

pub(crate) fn assert_no_overshoot(site: &Site, sharing: &Sharing, what: &str) {
    let stated = site.most_in_a_second();
    for (group, most) in sharing.busiest[0].iter().enumerate() {
        assert!(*most <= stated, "{what}: {most} in a second at group {group}");
    }
}

/// `shed` refuses at once what a queue would let wait for the next of its share.
#[test]
fn no_group_is_over_its_capacity_and_little_is_wasted_while_demand_moves() {
    for (load, shed, queue) in LOADS {
        for (when_full, most) in [(WhenFull::Shed, shed), (QUEUE, queue)] {
            let site = Site { when_full, ..Site::measured(300, 30, load) };
            let (waste, sharing) = waste(&site, 130, 1, calm(3, WhenAway::Floor));
            let written = sharing.written as f64 / 130.0;
            let rule = if when_full == QUEUE { "queue" } else { "shed" };
            let busiest = &sharing.busiest[0];
            eprintln!(
                "load {load}, {rule}: waste {waste:.2} %, {busiest:?}, {written:.1} writes/s"
            );
            assert_no_overshoot(&site, &sharing, &format!("load {load}"));
            assert!(waste <= most, "{waste} % at load {load}, {rule}");
        }
    }
}

/// The part of all capacity that is wanted, and the most that is wasted of it, in percent.
const LOADS: [(f64, f64, f64); 5] =
    [(0.6, 1.5, 0.5), (0.8, 2.5, 0.5), (0.9, 3.0, 1.0), (1.0, 4.5, 3.0), (1.2, 4.5, 3.0)];

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
    let site = Site::measured(300, 30, 0.9);
    let (waste, sharing) = waste(&site, 100, 2, with_faults(WhenAway::Floor));
    eprintln!("floor: waste {waste:.2} %, busiest {:?}", sharing.busiest[0]);
    assert_no_overshoot(&site, &sharing, "faults");
}

#[test]
fn what_is_kept_goes_on_being_used_and_is_too_much_once_at_most() {
    let site = Site::measured(300, 30, 0.9);
    let (waste, sharing) = waste(&site, 100, 2, with_faults(WhenAway::Keep));
    eprintln!("keep: waste {waste:.2} %, busiest {:?}", sharing.busiest[0]);
    assert!(waste <= 9.0, "{waste} %");
    for most in &sharing.busiest[0] {
        assert!(*most <= 2 * site.most_in_a_second(), "{most} in a second");
    }
}
