//! The truth by brute force: runs far longer than any search, and how long any method takes that
//! counts what it sees.

use rand::{SeedableRng as _, rngs::Xoshiro256PlusPlus};

use super::{
    searches::Kind,
    server::{Host, Source, exponential},
};

/// What requests at `rate` spend of what the objective allows, window by window, once the server
/// is warm.
pub(crate) fn spending(kind: &Kind, rate: f64, window: f64, windows: usize, seed: u64) -> Vec<f64> {
    let mut draws = Xoshiro256PlusPlus::seed_from_u64(seed);
    let warm = (0.1 * window * windows as f64).max(300_000.0 / rate).max(300.0);
    let ends = warm + window * windows as f64;
    let mut at = 0.0;
    let instants = std::iter::from_fn(|| {
        at += exponential(&mut draws) / rate;
        (at < ends).then_some(at)
    });
    let (mut late, mut all) = (vec![0u64; windows], 0u64);
    Host::new(kind.server, seed).serve(Source::open(instants), f64::INFINITY, |request| {
        if request.came < warm {
            return;
        }
        all += 1;
        if kind.slo.spends(&request) {
            late[((request.came - warm) / window) as usize] += 1;
        }
    });
    let allowed = kind.slo.allowed() * all as f64 / windows as f64;
    late.into_iter().map(|late| late as f64 / allowed).collect()
}

/// What requests spend at `rate` of what they may.
pub(crate) fn pressure(kind: &Kind, rate: f64, requests: f64, seed: u64) -> f64 {
    spending(kind, rate, requests / rate, 1, seed)[0]
}

/// The load line, and its standard error: by bisection with short runs, then by a straight line in
/// logarithms through runs of so many requests within 2 % of it.
pub(crate) fn line(kind: &Kind, requests: f64) -> (f64, f64) {
    let (mut low, mut high) = (0.3 * kind.exact, 3.0 * kind.exact);
    while high > 1.01 * low {
        let middle = (low * high).sqrt();
        if pressure(kind, middle, requests / 20.0, 1) <= 1.0 { low = middle } else { high = middle }
    }
    let near = (low * high).sqrt();
    let runs: Vec<(f64, f64)> = [-0.02, 0.02, -0.01, 0.01, 0.0, 0.0]
        .iter()
        .zip(2..)
        .map(|(x, seed)| (*x, pressure(kind, near * f64::exp(*x), requests, seed).ln()))
        .collect();
    // The rates lie even round `near`.
    let squares: f64 = runs.iter().map(|run| run.0 * run.0).sum();
    let slope = runs.iter().map(|run| run.0 * run.1).sum::<f64>() / squares;
    let count = runs.len() as f64;
    let level = runs.iter().map(|run| run.1).sum::<f64>() / count;
    let rest: f64 = runs.iter().map(|run| (run.1 - level - slope * run.0).powi(2)).sum();
    let exact = near * (-level / slope).exp();
    (exact, exact * (rest / (count - 2.0) / count).sqrt() / slope)
}

/// The least time in which the load line is known to `within` in 95 of 100 cases by counting what
/// is late: all of it spent at the line, with a slope that is known. And that slope.
pub(crate) fn floor(kind: &Kind, within: f64, windows: usize) -> (f64, f64) {
    let at = spending(kind, kind.exact, WINDOW, windows, 5);
    let mean = at.iter().sum::<f64>() / at.len() as f64;
    let variance = at.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / (at.len() - 1) as f64;
    let requests = kind.exact * WINDOW * windows as f64;
    let aside = |factor| pressure(kind, kind.exact * factor, requests, 6);
    let slope = (aside(1.02) / aside(0.98)).ln() / (1.02f64 / 0.98).ln();
    let wanted = within / 1.96 * slope;
    (variance / (mean * mean) * WINDOW / (wanted * wanted), slope)
}

/// Ten stalls of the slowest kind.
const WINDOW: f64 = 70.0;
