//! What the runs of a search say of one criterion.

use loadline_core::time::Duration;
use loadline_measure::objective::Spent;

use super::{
    runs::Run,
    scatter::{self, Scatter},
};

/// The evidence of one run on one criterion.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    /// The logarithm of the rate offered.
    pub(super) x: f64,
    pub(super) spent: f64,
    pub(super) allowed: f64,
    /// How what was spent is scattered over the run; nothing where that is not known.
    pub(super) scatter: Scatter,
}

/// Those of the runs that say something of a criterion.
pub(super) fn points(runs: &[&Run], criterion: usize, cycle: Option<Duration>) -> Vec<Point> {
    let point = |run: &&Run| {
        let Spent { spent, allowed } = *run.spent.get(criterion)?;
        let scatter = scatter::of(run, spent, cycle);
        let x = run.offered.as_per_sec_f64().ln();
        (spent.is_finite() && allowed > 0.0).then_some(Point { x, spent, allowed, scatter })
    };
    runs.iter().filter_map(point).collect()
}
