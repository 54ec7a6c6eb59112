//! The closed ladder: 1, 2, 4 ... users without think time, each rung checked by Little's law.
//!
//! N users who do not think are always all at the server, so throughput times response time is N
//! (Little 1961). Where it is not, within [`LITTLE`] and what the ends of a short run blur, the
//! rung's figures do not belong together and nothing is derived from them. Users together send no
//! more than the highest load that may be tried: where that holds them back, the ladder ends.

use loadline_core::{time::Duration, units::Rate};
use loadline_measure::{objective::Spent, record::Rung};

use super::{Config, Measured, rates::scale};

/// The rungs climbed so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Ladder {
    pub(super) rungs: Vec<Rung>,
    /// What one user spent of each criterion.
    alone: Vec<Spent>,
    end: End,
    /// Whether the users of the last rung sent all that they may.
    is_held: bool,
}

/// Whether more users would tell more.
#[derive(Clone, Copy, Debug, Default)]
enum End {
    #[default]
    Open,
    /// More users got no more; the same for longer may.
    Level,
    Over,
}

impl Ladder {
    /// How many users the next rung has, and whether it is to show if the service grows when load
    /// stays; none where the ladder has shown what it can.
    pub(super) fn next(&self, config: &Config) -> Option<(u32, bool)> {
        let last = self.rungs.last().map_or(0, |rung| rung.users);
        let users = last.saturating_mul(2).max(1);
        match self.end {
            End::Open => (users <= config.most_users).then_some((users, false)),
            End::Level => Some((last, true)),
            End::Over => None,
        }
    }

    /// Takes what was measured with so many users, who may send so much together.
    pub(super) fn add(
        &mut self,
        (users, highest): (u32, Rate),
        lasts: Duration,
        measured: &Measured,
    ) {
        let sent = measured.planned as f64 / lasts.as_secs_f64();
        self.is_held = sent >= highest.as_per_sec_f64() * HELD;
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
        let responses = rung.response.count.max(1) as f64;
        let growth = match self.end {
            End::Level => STILL_GROWS.max(2.0 / responses.sqrt()),
            _ => GROWTH,
        };
        let grew = rung.throughput.as_per_sec_f64() >= before * (1.0 + growth);
        let far = !measured.met && measured.pressure.is_none_or(|pressure| pressure > FAR);
        self.end = match self.end {
            _ if self.is_held || !measured.faults.is_empty() => End::Over,
            End::Level if !grew => End::Over,
            End::Open if far || (self.rungs.len() >= RUNGS && !grew) => End::Level,
            _ => End::Open,
        };
        if users == 1 {
            self.alone.clone_from(&measured.spent);
        }
        match self.rungs.last_mut().filter(|last| last.users == users) {
            Some(last) => *last = rung,
            None => self.rungs.push(rung),
        }
    }

    /// The rungs whose users sent as fast as the service let them.
    pub(super) fn free(&self) -> &[Rung] {
        let held = usize::from(self.is_held && !self.rungs.is_empty());
        &self.rungs[..self.rungs.len() - held]
    }

    /// The number of users who sent all that they may.
    pub(super) fn held(&self) -> Option<u32> {
        self.rungs.last().filter(|_| self.is_held).map(|rung| rung.users)
    }

    /// The highest throughput of any rung.
    pub(super) fn best(&self) -> Rate {
        self.rungs.iter().map(|rung| rung.throughput).max().unwrap_or_default()
    }

    /// What one user alone spent of each criterion.
    pub(super) fn alone(&self) -> &[Spent] {
        &self.alone
    }

    /// The load to begin an open-loop search with: the highest throughput at which users still saw
    /// the objective met, else that of one user, and no more than a part of the highest.
    pub(super) fn guess(&self) -> Rate {
        let met = self.rungs.iter().filter(|rung| rung.met).map(|rung| rung.throughput).max();
        let met = met.or(self.rungs.first().map(|rung| rung.throughput)).unwrap_or_default();
        met.min(scale(self.best(), NEAR_BEST[1]))
    }

    /// The load to try where this one held: the line is likely a little below the highest
    /// throughput.
    pub(super) fn above(&self, lower: Rate) -> Rate {
        let double = scale(lower, 2.0);
        let parts = NEAR_BEST.map(|part| scale(self.best(), part));
        parts.into_iter().find(|part| *part > lower && *part < double).unwrap_or(double)
    }

    /// The load to try where this one did not hold.
    pub(super) fn below(&self, upper: Rate) -> Rate {
        let half = scale(upper, 0.5);
        let parts = NEAR_BEST.map(|part| scale(self.best(), part));
        parts.into_iter().rfind(|part| *part < upper && *part > half).unwrap_or(half)
    }

    /// The part of the guess below which no load need be tried.
    pub(super) fn depth(&self) -> f64 {
        if self.rungs.first().is_some_and(|rung| rung.met) { DEEPEST } else { SHALLOW }
    }

    /// The median response time of one user: what a service at rest answers in.
    pub(super) fn at_rest(&self) -> Duration {
        self.rungs.first().map_or(Duration::ZERO, |rung| rung.response.p50)
    }

    /// The 99th percentile of the response time with one user.
    pub(super) fn slowest_at_rest(&self) -> Duration {
        self.rungs.first().map_or(Duration::ZERO, |rung| rung.response.p99)
    }
}

/// How far Little's law may be off in a sound run.
const LITTLE: f64 = 0.05;

/// Who sends this part of the highest load waited for a turn more than for the service: so many
/// are sent in turns, and the last of them may be after the end.
const HELD: f64 = 0.9;

/// Throughput that grows by less than this has stopped growing.
const GROWTH: f64 = 0.05;

/// Of load that stays for some seconds less says that the service still warms up.
const STILL_GROWS: f64 = 0.02;

/// A pressure above this is far beyond the objective: more users tell nothing about it.
const FAR: f64 = 3.0;

/// Most lines lie between these parts of the highest throughput.
const NEAR_BEST: [f64; 4] = [0.7, 0.85, 1.0, 1.15];

/// A service that cannot meet its objective at this part of what users got cannot meet it.
const DEEPEST: f64 = 64.0;

/// Where one user breached the objective it is not for want of capacity: there was no queue.
const SHALLOW: f64 = 8.0;

/// So many rungs are climbed at least before growth counts, for the scalability fit.
const RUNGS: usize = 3;
