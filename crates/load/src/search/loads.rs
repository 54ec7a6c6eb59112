//! Trials by load, and whether they accept or refuse it: the classification of RFC 9971
//! (MLRsearch), with the objective of the search in the place of a loss ratio.
//!
//! A goal has a trial duration d, a duration sum S and an exceed ratio r. Trials of at least d are
//! long, others short; g and b are the times of those that met the objective and that did not:
//!
//! ```text
//! bad   = b_long + max(0, b_short - g_short r / (1 - r))
//! whole = max(g_long + bad, S)
//! accepted:  even if all time still missing were bad:  whole - g_long <= r whole
//! refused:   even if all time still missing were good: bad > r whole
//! ```
//! Between the two the load is undecided and needs another trial. Short trials can only speak
//! against a load: they are good too easily.

use std::collections::BTreeMap;

use loadline_core::{time::Duration, units::Rate};

/// What a load must show to be accepted, or refused.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Goal {
    /// Trials of this length count in full.
    pub(super) duration: Duration,
    /// The time of trials that decides.
    pub(super) sum: Duration,
    /// The share of that time that may be bad at an accepted load, 0 to 1.
    pub(super) exceed: f64,
    /// How close the bounds must come, as a share of the upper one.
    pub(super) width: f64,
}

/// What the trials say of a load under a goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Accepted,
    Refused,
    Undecided,
}

/// The relevant bounds of a goal. The upper one is the lowest refused load, and the lower one the
/// highest accepted load below it: what was accepted above a refused load was luck (RFC 9971
/// calls this a loss inversion).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Bounds {
    pub(super) lower: Option<Rate>,
    pub(super) upper: Option<Rate>,
}

/// The valid trials of every load.
#[derive(Clone, Debug, Default)]
pub(super) struct Loads {
    by_rate: BTreeMap<Rate, Vec<(Duration, bool)>>,
}

impl Loads {
    pub(super) fn add(&mut self, rate: Rate, lasts: Duration, met: bool) {
        self.by_rate.entry(rate).or_default().push((lasts, met));
    }

    pub(super) fn bounds(&self, goal: &Goal) -> Bounds {
        let of = |class| move |rate: &&Rate| self.class(**rate, goal) == class;
        let upper = self.by_rate.keys().find(of(Class::Refused)).copied();
        let below = |rate: &&Rate| upper.is_none_or(|upper| **rate < upper);
        let lower = self.by_rate.keys().rev().filter(below).find(of(Class::Accepted)).copied();
        Bounds { lower, upper }
    }

    pub(super) fn count(&self, goal: &Goal, class: Class) -> u32 {
        let many = self.by_rate.keys().filter(|rate| self.class(**rate, goal) == class).count();
        u32::try_from(many).unwrap_or(u32::MAX)
    }

    /// Whether any trial was long enough for `goal`.
    pub(super) fn have_tried(&self, goal: &Goal) -> bool {
        self.by_rate.keys().any(|rate| self.is_begun(*rate, goal))
    }

    /// A load between `bounds` with a long trial that has not decided it.
    pub(super) fn unfinished(&self, goal: &Goal, bounds: Bounds) -> Option<Rate> {
        let inside = |rate: &&Rate| {
            bounds.lower.is_none_or(|lower| **rate > lower)
                && bounds.upper.is_none_or(|upper| **rate < upper)
        };
        let open = |rate: &&Rate| {
            self.is_begun(**rate, goal) && self.class(**rate, goal) == Class::Undecided
        };
        self.by_rate.keys().filter(inside).find(open).copied()
    }

    fn is_begun(&self, rate: Rate, goal: &Goal) -> bool {
        let [good_long, bad_long, _, _] = self.sums(rate, goal.duration);
        good_long + bad_long > 0.0
    }

    /// The accepted loads that lie above a refused one.
    pub(super) fn inverted(&self, goal: &Goal) -> impl Iterator<Item = Rate> {
        let upper = self.bounds(goal).upper.unwrap_or(Rate::milli_per_sec(u64::MAX));
        let above = self.by_rate.keys().copied().filter(move |rate| *rate > upper);
        above.filter(|rate| self.class(*rate, goal) == Class::Accepted)
    }

    pub(super) fn class(&self, rate: Rate, goal: &Goal) -> Class {
        let [good_long, bad_long, good_short, bad_short] = self.sums(rate, goal.duration);
        let balance = good_short * goal.exceed / (1.0 - goal.exceed);
        let bad = bad_long + (bad_short - balance).max(0.0);
        let whole = (good_long + bad).max(goal.sum.as_secs_f64());
        if whole - good_long <= goal.exceed * whole {
            Class::Accepted
        } else if bad > goal.exceed * whole {
            Class::Refused
        } else {
            Class::Undecided
        }
    }

    /// The seconds of the trials at `rate` that met the objective, and of those that did not.
    pub(super) fn times(&self, rate: Rate) -> (Duration, Duration) {
        let trials = self.by_rate.get(&rate).map_or(&[][..], Vec::as_slice);
        let of = |which| trials.iter().filter(move |(_, met)| *met == which);
        (of(true).map(|(lasts, _)| *lasts).sum(), of(false).map(|(lasts, _)| *lasts).sum())
    }

    fn sums(&self, rate: Rate, long: Duration) -> [f64; 4] {
        let mut sums = [0.0; 4];
        for (lasts, met) in self.by_rate.get(&rate).into_iter().flatten() {
            let index = usize::from(*lasts < long) * 2 + usize::from(!*met);
            sums[index] += lasts.as_secs_f64();
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOAL: Goal = Goal {
        duration: Duration::from_secs(10),
        sum: Duration::from_secs(30),
        exceed: 0.5,
        width: 0.02,
    };

    fn class(trials: &[(u64, bool)]) -> Class {
        let mut loads = Loads::default();
        for (secs, met) in trials {
            loads.add(Rate::per_sec(1), Duration::from_secs(*secs), *met);
        }
        loads.class(Rate::per_sec(1), &GOAL)
    }

    #[test]
    fn two_of_three_long_trials_decide() {
        assert_eq!(class(&[]), Class::Undecided);
        assert_eq!(class(&[(10, true)]), Class::Undecided);
        assert_eq!(class(&[(10, true), (10, false)]), Class::Undecided);
        assert_eq!(class(&[(10, true), (10, true)]), Class::Accepted);
        assert_eq!(class(&[(10, true), (10, false), (10, true)]), Class::Accepted);
        assert_eq!(class(&[(10, false), (10, false)]), Class::Refused);
    }

    #[test]
    fn short_trials_speak_only_against_a_load() {
        assert_eq!(class(&[(3, true); 20]), Class::Undecided);
        assert_eq!(class(&[(3, false); 6]), Class::Refused);
        let mixed: Vec<_> = [(3, true), (3, false)].repeat(9);
        assert_eq!(class(&mixed), Class::Undecided, "good ones balance as many bad ones");
    }

    #[test]
    fn what_is_accepted_above_a_refused_load_is_no_bound() {
        let mut loads = Loads::default();
        for (rate, met) in [(100, true), (120, false), (140, true), (200, false)] {
            for _ in 0..2 {
                loads.add(Rate::per_sec(rate), GOAL.duration, met);
            }
        }
        let bounds = loads.bounds(&GOAL);
        assert_eq!(bounds.lower, Some(Rate::per_sec(100)));
        assert_eq!(bounds.upper, Some(Rate::per_sec(120)));
        assert_eq!(loads.inverted(&GOAL).collect::<Vec<_>>(), [Rate::per_sec(140)]);
    }
}
