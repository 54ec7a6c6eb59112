//! The closed ladder: 1, 2, 4 ... users without think time, each rung checked by Little's law.
//!
//! N users who do not think are always all at the server, so throughput times response time is N
//! (Little 1961). Where it is not, within [`LITTLE`] and what the ends of a short run blur, the
//! rung's figures do not belong together and nothing is derived from them.

use loadline_core::{time::Duration, units::Rate};
use loadline_measure::record::Rung;

use super::{Config, Measured};

/// The rungs climbed so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Ladder {
    pub(super) rungs: Vec<Rung>,
    over: bool,
    /// The most users who did not wait for each other.
    steady: Option<u32>,
}

impl Ladder {
    /// How many users the next rung has; none where the ladder has shown what it can.
    pub(super) fn next(&self, config: &Config) -> Option<u32> {
        let users = self.rungs.last().map_or(1, |rung| rung.users.saturating_mul(2));
        if !self.over && users <= config.most_users {
            return Some(users);
        }
        self.is_warming().then_some(self.steady?)
    }

    /// Whether a service that was too slow for one user becomes faster under load, as one does
    /// whose cache was cold: the same users are there again until it does no more.
    fn is_warming(&self) -> bool {
        if self.rungs.first().is_none_or(|rung| rung.met) {
            return false;
        }
        let same: Vec<_> = self.rungs.iter().filter(|it| Some(it.users) == self.steady).collect();
        let throughput = |back: usize| same[same.len() - back].throughput.as_per_sec_f64();
        same.len() <= 2 || (same.len() < REPEATS && throughput(1) > throughput(3) * (1.0 + WARMER))
    }

    /// Takes what was measured with so many users.
    pub(super) fn add(&mut self, users: u32, lasts: Duration, measured: &Measured) {
        let at_once =
            measured.achieved.as_per_sec_f64() * measured.response.mean.as_millis_f64() / 1e3;
        let little_error = at_once / f64::from(users) - 1.0;
        let blur = measured.response.mean.as_secs_f64() / lasts.as_secs_f64();
        let rung = Rung {
            users,
            throughput: measured.achieved,
            response: measured.response.clone(),
            met: measured.met,
            little_error,
            suspect: !measured.faults.is_empty() || little_error.abs() > LITTLE + blur,
        };
        let before = self.best().as_per_sec_f64();
        let grew = rung.throughput.as_per_sec_f64() >= before * (1.0 + GROWTH);
        let far = !measured.met && measured.pressure.is_none_or(|pressure| pressure > FAR);
        self.over |= far || !measured.faults.is_empty() || (self.rungs.len() >= RUNGS && !grew);
        let first = self.rungs.first().map_or(rung.response.mean, |rung| rung.response.mean);
        if rung.response.mean <= first.scale(STEADY) {
            self.steady = self.steady.max(Some(users));
        }
        self.rungs.push(rung);
    }

    /// The highest throughput of any rung.
    pub(super) fn best(&self) -> Rate {
        self.rungs.iter().map(|rung| rung.throughput).max().unwrap_or_default()
    }

    /// The load to begin an open-loop search with: the highest throughput at which users still saw
    /// the objective met, else that of one user.
    pub(super) fn guess(&self) -> Rate {
        let met = self.rungs.iter().filter(|rung| rung.met).map(|rung| rung.throughput).max();
        met.or(self.rungs.first().map(|rung| rung.throughput)).unwrap_or_default()
    }

    /// The part of the guess below which no load need be tried.
    pub(super) fn depth(&self) -> f64 {
        if self.rungs.iter().any(|rung| rung.met) { DEEPEST } else { SHALLOW }
    }

    /// The median response time of one user: what a service at rest answers in.
    pub(super) fn at_rest(&self) -> Duration {
        self.rungs.first().map_or(Duration::ZERO, |rung| rung.response.p50)
    }
}

/// How far Little's law may be off in a sound run.
const LITTLE: f64 = 0.05;

/// Throughput that grows by less than this has stopped growing.
const GROWTH: f64 = 0.05;

/// A pressure above this is far beyond the objective: more users tell nothing about it.
const FAR: f64 = 3.0;

/// A service that cannot meet its objective at this part of what users got cannot meet it.
const DEEPEST: f64 = 64.0;

/// Where one user breached the objective it is not for want of capacity: there was no queue.
const SHALLOW: f64 = 8.0;

/// Where the mean response time is within this multiple of one user's, users do not wait.
const STEADY: f64 = 1.5;

/// A service warms up while its throughput grows by this over two rungs, of so many at most.
const WARMER: f64 = 0.02;
const REPEATS: usize = 40;

/// So many rungs are climbed at least before growth counts, for the scalability fit.
const RUNGS: usize = 3;
