//! Whether a service has become another while it was searched: a cache warmed, instances came.
//!
//! The long runs in the order they were made in are cut in two. What each part spent, over what the
//! line expects of it, is the same where the service is; the logarithm of the quotient of both
//! varies by the dispersion that runs show within their part (a two-sample test of quasi-likelihood,
//! McCullagh, Nelder 1989). The search looks after each run, so it takes [`SURE`] to be sure.

use loadline_measure::objective::Spent;

use super::{
    estimate::Crossing,
    runs::{self, Run},
};

/// From which of the runs on the service is another than before; none where it is the same.
pub(super) fn since(runs: &[&Run], line: &Crossing) -> Option<usize> {
    let cuts = (FEWEST..=runs.len().saturating_sub(FEWEST)).map(|cut| (cut, score(runs, cut, line)));
    let (cut, score) = cuts.max_by(|one, other| one.1.total_cmp(&other.1))?;
    (score > SURE).then_some(cut)
}

/// From which of the long runs on the service is another than in the short ones before, where all
/// long runs held at loads at which short ones did not, or the other way round.
pub(super) fn beyond(long: &[&Run], all: &[Run]) -> Option<usize> {
    if long.len() < FEWEST {
        return None;
    }
    let least = long.iter().map(|run| run.lasts).min()?;
    let short: Vec<_> = all.iter().filter(|run| run.lasts < least).collect();
    let (short, bounds) = (runs::bounds(&short), runs::bounds(long));
    let rates = || long.iter().map(|run| run.rate);
    let above = bounds.upper.is_none() && rates().max() >= short.upper;
    let below = bounds.lower.is_none() && rates().min() <= short.lower;
    ((above && short.upper.is_some()) || below).then_some(0)
}

/// How many standard deviations both parts are apart, by the worst criterion.
fn score(runs: &[&Run], cut: usize, line: &Crossing) -> f64 {
    let criteria = runs.iter().map(|run| run.spent.len()).min().unwrap_or(0);
    let of = |criterion: usize| {
        let at = line.at.as_per_sec_f64();
        let pair = |run: &&Run| {
            let Spent { spent, allowed } = run.spent[criterion];
            let power = (line.slope * (run.offered.as_per_sec_f64() / at - 1.0)).clamp(-30.0, 30.0).exp();
            (spent, allowed * power)
        };
        let pairs: Vec<_> = runs.iter().map(pair).collect();
        apart(&pairs[..cut], &pairs[cut..])
    };
    (0..criteria).map(of).fold(0.0, f64::max)
}

/// How many standard deviations apart two parts are, each run what it spent and was expected to.
fn apart(before: &[(f64, f64)], after: &[(f64, f64)]) -> f64 {
    let level = |part: &[(f64, f64)]| {
        let (spent, expected) = part.iter().fold((0.5, 0.5), |sum, it| (sum.0 + it.0, sum.1 + it.1));
        (spent / expected, spent)
    };
    let ((one, spent), (other, more)) = (level(before), level(after));
    let squares = |part: &[(f64, f64)], level: f64| {
        let each = part.iter().map(|(spent, expected)| {
            let mean = (expected * level).max(1e-9);
            (spent - mean).powi(2) / mean
        });
        each.sum::<f64>()
    };
    let freedom = (before.len() + after.len() - 2) as f64;
    let dispersion = ((squares(before, one) + squares(after, other)) / freedom).max(1.0);
    (other / one).ln().abs() / (dispersion * (1.0 / spent + 1.0 / more)).sqrt()
}

/// Fewer runs are no part.
const FEWEST: usize = 3;

/// So many standard deviations are no chance.
const SURE: f64 = 4.5;
