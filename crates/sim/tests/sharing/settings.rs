//! What sharing wastes in unlike settings: a table, and the most that is accepted of each.

use loadline_core::{
    cluster::WhenAway,
    fleet::{Then, WhenFull},
    time::Duration,
};
use loadline_sim::Spacing;

use crate::{
    calm,
    fleet::{Changes, Site},
    traffic::{assert_no_overshoot, waste},
};

/// What a service does that says nothing of it.
pub(crate) const QUEUE: WhenFull =
    WhenFull::Queue { timeout: Duration::from_secs(1), length: 200, then: Then::Shed };

/// So many edges, each with a group beside it.
fn ring(edges: usize, parts: Vec<f64>) -> Site {
    let far = |one: usize, other: usize| {
        let apart = one.abs_diff(other);
        match apart.min(edges - apart) {
            0 => 1,
            apart => 20 + 30 * apart as u64,
        }
    };
    let rtts = (0..edges).map(|one| (0..edges).map(|other| far(one, other)).collect()).collect();
    Site { rtts, parts, ..Site::measured(200, 20, 0.9) }
}

/// Parts in proportion to 1, 1/2, 1/3 and so on.
fn skewed(edges: usize) -> Vec<f64> {
    let all: f64 = (1..=edges).map(|rank| 1.0 / rank as f64).sum();
    (1..=edges).map(|rank| 1.0 / rank as f64 / all).collect()
}

fn even(edges: usize) -> Vec<f64> {
    vec![1.0 / edges as f64; edges]
}

/// What is different, the site, the round trips to the store, the most that is wasted, in percent.
type Setting = (&'static str, Site, &'static [u64], f64);

/// The site that is measured, with one thing changed.
fn measured() -> Vec<Setting> {
    let site = || Site::measured(300, 30, 0.9);
    let steady = || Site { changes: Changes::Never, ..site() };
    let batches = Spacing::Bursts(5);
    vec![
        ("as measured", site(), RTTS, 3.0),
        ("100/s a group, burst 10", Site::measured(100, 10, 0.9), RTTS, 5.0),
        ("20/s a group, burst 12", Site::measured(20, 12, 0.9), RTTS, 9.5),
        ("5,000/s a group, burst 500", Site::measured(5_000, 500, 0.9), RTTS, 2.0),
        ("load 60 %", Site { load: 0.6, ..site() }, RTTS, 1.5),
        ("load 120 %", Site { load: 1.2, ..site() }, RTTS, 5.0),
        ("steady", steady(), RTTS, 1.0),
        ("steady, 100/s, burst 10", Site { rate: 100, burst: 10, ..steady() }, RTTS, 2.5),
        ("steady, load 95 %", Site { load: 0.95, ..steady() }, RTTS, 1.8),
        ("rises and falls evenly", Site { changes: Changes::Evenly, ..site() }, RTTS, 4.5),
        ("even arrivals", Site { spacing: Spacing::Constant, ..site() }, RTTS, 2.5),
        ("batches of 5", Site { spacing: batches, ..site() }, RTTS, 9.0),
        ("batches of 5, steady", Site { spacing: batches, ..steady() }, RTTS, 5.0),
        ("store 2 ms away", site(), &[2], 1.8),
        ("store 300 ms away", site(), &[300], 9.0),
        ("queue of 1 s", Site { when_full: QUEUE, ..site() }, RTTS, 0.7),
    ]
}

fn others() -> Vec<Setting> {
    let never = Changes::Never;
    let pair = Site { rate: 50, burst: 12, changes: never, ..ring(2, even(2)) };
    let small = Site { rate: 20, burst: 12, ..ring(10, skewed(10)) };
    vec![
        ("2 edges, 50/s, steady", pair, &[20], 1.5),
        ("6 edges, 200/s, steady", Site { changes: never, ..ring(6, even(6)) }, &[10, 40, 80], 1.0),
        ("10 edges, 200/s, skewed", ring(10, skewed(10)), &[10, 40, 80, 120], 4.5),
        ("10 edges, 20/s, skewed", small, &[10, 40, 80, 120], 7.5),
    ]
}

#[test]
fn little_is_refused_that_one_edge_would_have_served_in_unlike_settings() {
    let mut wasteful = Vec::new();
    for (name, site, rtts, most) in measured().into_iter().chain(others()) {
        let mut cluster = calm(site.rtts.len() as u32, WhenAway::Floor);
        cluster.rtts = rtts.iter().copied().map(Duration::from_millis).collect();
        let seconds = if site.rate > 1_000 { 60 } else { 130 };
        let (waste, sharing) = waste(&site, seconds, 1, cluster);
        let busiest = sharing.busiest[0].iter().copied().max().unwrap_or(0);
        let (stated, written) = (site.most_in_a_second(), sharing.written as f64 / seconds as f64);
        eprintln!("| {name} | {waste:.2} | {busiest} of {stated} | {written:.1} |");
        assert_no_overshoot(&site, &sharing, name);
        assert!(written <= 200.0, "{name}: {written} writes a second");
        if waste > most {
            wasteful.push(format!("{name}: {waste:.2} % (at most {most})"));
        }
    }
    assert!(wasteful.is_empty(), "{wasteful:#?}");
}

/// As in `make bench-cluster`.
const RTTS: &[u64] = &[30, 110, 160];
