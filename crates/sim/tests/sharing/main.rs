//! Sharing between edges under whatever the ways to the store do: what must be true at every
//! moment, and how soon it is right again. `SEED=n` replays one run.

mod fleet;
mod model;
mod settings;
mod traffic;

use loadline_core::{
    cluster::{Settings, WhenAway},
    time::{Duration, Instant},
    units::Ratio,
};
use loadline_sim::{
    Random,
    cluster::{Cluster, ClusterFault, ClusterTrouble},
};
use model::{Model, PLACES, RATE};

fn settings(edges: u32, when_away: WhenAway) -> Settings {
    Settings {
        name: String::new(),
        lease: Duration::from_secs(3),
        margin: Duration::from_secs(1),
        floor: Ratio::percent(1),
        edges,
        when_away,
    }
}

fn calm(edges: u32, when_away: WhenAway) -> Cluster {
    Cluster {
        settings: settings(edges, when_away),
        rtts: [30, 110, 160].map(Duration::from_millis).to_vec(),
        jitter: Duration::from_millis(2),
        loss: 0.0,
        duplicates: 0.0,
        faults: Vec::new(),
        has_tables: false,
    }
}

/// Three to six edges with everything that may go wrong, until the 40th second.
fn wild(seed: u64, when_away: WhenAway) -> (Cluster, usize) {
    let mut random = Random::stream(seed, 1);
    let mut below = |bound: u64| random.draw() % bound;
    let edges = 2 + below(5) as usize;
    let mut cluster = calm(edges as u32, when_away);
    cluster.jitter = Duration::from_millis(below(300));
    cluster.loss = below(20) as f64 / 100.0;
    cluster.duplicates = below(20) as f64 / 100.0;
    cluster.faults = (0..below(12))
        .map(|_| {
            let edge = below(edges as u64) as usize;
            let what = match below(6) {
                5 => ClusterTrouble::Stalls(edge),
                0 | 1 => ClusterTrouble::CutOff(edge),
                2 => ClusterTrouble::StoreAway,
                3 => ClusterTrouble::Killed(edge),
                _ => ClusterTrouble::Leaves(edge),
            };
            let at = Instant::ZERO + Duration::from_millis(below(30_000));
            ClusterFault { at, lasts: Duration::from_millis(below(9_000)), what }
        })
        .collect();
    (cluster, edges)
}

fn seeds(count: u64) -> impl Iterator<Item = u64> {
    let one = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok());
    let range = one.map_or(0..count, |seed: u64| seed..seed + 1);
    range.into_iter()
}

const END: Instant = Instant::from_nanos(60_000_000_000);

#[test]
fn the_shares_in_force_never_sum_to_more_than_the_whole() {
    for seed in seeds(200) {
        let (cluster, edges) = wild(seed, WhenAway::Floor);
        let mut model = Model::new(cluster, edges, seed);
        model.run(END, |model| {
            model.assert_sums(&format!("SEED={seed}"));
            model.assert_in_flight(&format!("SEED={seed}"));
        });
    }
}

#[test]
fn what_is_kept_without_a_store_is_all_that_is_too_much() {
    for seed in seeds(100) {
        let (cluster, edges) = wild(seed, WhenAway::Keep);
        let mut model = Model::new(cluster, edges, seed);
        model.run(END, |model| model.assert_sums_of_joined(&format!("SEED={seed}")));
    }
}

#[test]
fn two_seconds_after_all_is_well_everything_is_given_to_whoever_wants_it() {
    let mut longest = Duration::ZERO;
    for seed in seeds(100) {
        let (cluster, edges) = wild(seed, WhenAway::Floor);
        let lossless = Cluster { loss: 0.0, jitter: Duration::from_millis(5), ..cluster };
        let well = lossless.faults.iter().map(|fault| fault.at + fault.lasts).max();
        // Sessions of processes that are gone still have to end.
        let known = well.unwrap_or(Instant::ZERO) + lossless.settings.lease;
        let mut model = Model::new(lossless, edges, seed);
        model.run(known, |_| {});
        let mut after = Duration::ZERO;
        while !model.is_all_used() && after < Duration::from_secs(5) {
            after = after + Duration::from_millis(50);
            model.run(known + after, |_| {});
        }
        longest = longest.max(after);
        model.assert_all_is_used(&format!("SEED={seed}"));
    }
    eprintln!("everything is given after {longest} at most");
    assert!(longest <= Duration::from_secs(2), "{longest}");
}

#[test]
fn a_step_of_demand_is_followed_within_a_second() {
    let mut model = Model::new(calm(3, WhenAway::Floor), 3, 1);
    model.demand = vec![RATE / 3.0; 3];
    let step = Instant::ZERO + Duration::from_secs(20);
    model.run(step, |_| {});
    model.demand = vec![RATE * 0.1, RATE * 0.1, RATE * 1.7];
    let mut followed = None;
    model.run(step + Duration::from_secs(3), |model| {
        let covered = model.covered(2);
        if covered >= 0.97 * RATE * 1.7 && followed.is_none() {
            followed = Some(model.now.since(step));
        }
    });
    let followed = followed.expect("never");
    eprintln!("followed in {followed}");
    assert!(followed <= Duration::from_secs(1), "{followed}");
}

#[test]
fn fifty_edges_write_no_more_than_two_hundred_times_a_second() {
    let mut model = Model::new(calm(50, WhenAway::Floor), 50, 3);
    model.demand = vec![2.0 * RATE / 60.0; 50];
    model.run(Instant::ZERO + Duration::from_secs(20), |_| {});
    let mut random = Random::stream(4, 4);
    let (mut most, mut all) = (0, 0);
    for second in 20..60_u64 {
        let before = model.run.as_ref().map_or(0, |run| run.store().written());
        for demand in &mut model.demand {
            *demand = 3.0 * RATE / 50.0 * random.uniform();
        }
        model.run(Instant::ZERO + Duration::from_secs(second + 1), |_| {});
        let written = model.run.as_ref().map_or(0, |run| run.store().written()) - before;
        most = most.max(written);
        all += written;
    }
    eprintln!("writes a second: {} on average, {most} at most", all / 40);
    assert!(most <= 200, "{most} writes in a second");
}

#[test]
fn a_table_that_was_deleted_doubles_no_share() {
    for seed in seeds(20) {
        let mut cluster = calm(4, WhenAway::Floor);
        cluster.jitter = Duration::from_millis(60);
        let mut model = Model::new(cluster, 4, seed);
        let mut deleted = false;
        model.run(END, |model| {
            model.assert_sums(&format!("SEED={seed}"));
            if !deleted && model.now >= Instant::ZERO + Duration::from_secs(10) {
                deleted = true;
                model.delete_table();
            }
        });
        model.assert_all_is_used(&format!("SEED={seed}"));
    }
}

#[test]
fn whole_places_are_shared() {
    let mut model = Model::new(calm(3, WhenAway::Floor), 3, 5);
    model.demand = vec![RATE; 3];
    model.run(Instant::ZERO + Duration::from_secs(20), |_| {});
    let places: u32 = (0..3).map(|edge| model.places(edge)).sum();
    assert!((PLACES - 1..=PLACES).contains(&places), "{places} of {PLACES}");
}
