//! Which load to try next: a bracket, then bisection through goals that grow stricter.
//!
//! ```text
//! goal 0: short trials, wide    goal 1: in between    goal 2: final trials, final width
//!   bracket both ways, bisect     bounds again, ...     bounds again, bisect, done
//! ```
//! Each goal first tries the bounds of the one before it with its own longer trials. A bound that
//! does not hold is left behind in steps that double, and the bisection goes on from there. A load
//! that is undecided is tried again before any other.

use loadline_core::units::Rate;

use super::loads::{Bounds, Class, Goal, Loads};

/// What the trials so far ask for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Ask {
    /// A trial under this goal, by its index.
    Trial { rate: Rate, goal: usize, bracketing: bool },
    /// Nothing: these bounds fulfil the last goal.
    Narrow { lower: Rate, upper: Rate },
    /// Nothing: the highest load that may be tried is accepted.
    Ceiling { lower: Rate },
    /// Nothing: the lowest load that may be tried is refused.
    Floor { upper: Rate },
}

/// Where a search begins and what it may try.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    pub(super) lowest: Rate,
    pub(super) guess: Rate,
    pub(super) highest: Rate,
}

/// What to do next under `goals`, given all trials so far. A goal that was begun is not gone back
/// from: what its longer trials take away from the bounds they also find again.
pub(super) fn next(loads: &Loads, goals: &[Goal], range: &Range) -> Ask {
    let begun = goals.iter().rposition(|goal| loads.have_tried(goal)).unwrap_or(0);
    let mut hint = match begun.checked_sub(1) {
        Some(before) => loads.bounds(&goals[before]),
        None => Bounds::default(),
    };
    for (index, goal) in goals.iter().enumerate().skip(begun) {
        let bounds = loads.bounds(goal);
        if let Some(rate) = loads.unfinished(goal, bounds) {
            return Ask::Trial { rate, goal: index, bracketing: false };
        }
        let rate = match (bounds.lower, bounds.upper) {
            (Some(lower), Some(upper)) if is_narrow(lower, upper, goal) => {
                hint = bounds;
                continue;
            }
            (Some(lower), Some(upper)) => between(lower, upper),
            _ => match missing(loads, goal, index, bounds, hint, range) {
                Ok(rate) => rate,
                Err(end) => return end,
            },
        };
        let bracketing = bounds.lower.is_none() || bounds.upper.is_none();
        return Ask::Trial { rate, goal: index, bracketing };
    }
    match (hint.lower, hint.upper) {
        (Some(lower), Some(upper)) => Ask::Narrow { lower, upper },
        _ => Ask::Trial { rate: range.guess, goal: 0, bracketing: true },
    }
}

/// The load that may become the bound that `bounds` lack, or why there is none.
fn missing(
    loads: &Loads,
    goal: &Goal,
    index: usize,
    bounds: Bounds,
    hint: Bounds,
    range: &Range,
) -> Result<Rate, Ask> {
    match (bounds.lower, bounds.upper) {
        (None, None) => Ok(hint.lower.or(hint.upper).unwrap_or(range.guess)),
        (None, Some(upper)) if upper <= range.lowest => Err(Ask::Floor { upper }),
        (None, Some(upper)) => {
            let factor = 1.0 - stride(goal, index, loads.count(goal, Class::Refused)).min(0.5);
            let step = scale(upper, factor).max(range.lowest);
            Ok(hint.lower.filter(|rate| *rate < upper).map_or(step, |rate| rate.max(step)))
        }
        (Some(lower), None) if lower >= range.highest => Err(Ask::Ceiling { lower }),
        (Some(lower), None) => {
            let factor = 1.0 + stride(goal, index, loads.count(goal, Class::Accepted));
            let step = scale(lower, factor).min(range.highest);
            Ok(hint.upper.filter(|rate| *rate > lower).map_or(step, |rate| rate.min(step)))
        }
        (Some(lower), Some(upper)) => Ok(between(lower, upper)),
    }
}

/// The step away from a bound that did not hold, as a share of it: doubling and halving under the
/// first goal, afterwards the goal's width, twice as much each time.
fn stride(goal: &Goal, index: usize, steps: u32) -> f64 {
    if index == 0 {
        return 1.0;
    }
    (goal.width * 2f64.powi(steps.saturating_sub(1).cast_signed())).min(1.0)
}

fn is_narrow(lower: Rate, upper: Rate, goal: &Goal) -> bool {
    let (lower, upper) = (lower.as_per_sec_f64(), upper.as_per_sec_f64());
    // Rates are kept in thousandths: closer ones cannot be told apart.
    upper - lower <= (goal.width * upper).max(0.002)
}

/// The geometric mean: the middle of what is a ratio.
fn between(lower: Rate, upper: Rate) -> Rate {
    let mean = (lower.as_per_sec_f64() * upper.as_per_sec_f64()).sqrt();
    rate_of(mean)
}

pub(super) fn scale(rate: Rate, factor: f64) -> Rate {
    rate_of(rate.as_per_sec_f64() * factor)
}

/// A rate of so many per second, not below the least there is. Four digits are all that a search
/// can tell, and make a rate that people can read.
pub(super) fn rate_of(per_sec: f64) -> Rate {
    let milli = (per_sec * 1e3).max(1.0);
    let digit = 10f64.powf((milli.log10().floor() - 3.0).max(0.0));
    Rate::milli_per_sec(((milli / digit).round() * digit) as u64)
}

#[cfg(test)]
mod tests {
    use loadline_core::time::Duration;
    use proptest::prelude::*;

    use super::*;

    const RANGE: Range = Range {
        lowest: Rate::per_sec(1),
        guess: Rate::per_sec(100),
        highest: Rate::per_sec(1_000_000),
    };

    fn goals() -> [Goal; 3] {
        [(3, 3, 0.08), (5, 10, 0.04), (10, 30, 0.02)].map(|(duration, sum, width)| Goal {
            duration: Duration::from_secs(duration),
            sum: Duration::from_secs(sum),
            exceed: 0.5,
            width,
        })
    }

    /// The end of a search and how many trials it took.
    fn search(mut meets: impl FnMut(Rate) -> bool) -> (Ask, usize) {
        let (goals, mut loads) = (goals(), Loads::default());
        for trials in 0..500 {
            match next(&loads, &goals, &RANGE) {
                Ask::Trial { rate, goal, .. } => {
                    loads.add(rate, goals[goal].duration, meets(rate));
                }
                end => return (end, trials),
            }
        }
        panic!("no end after 500 trials");
    }

    #[test]
    fn a_sharp_line_is_bracketed_from_either_side() {
        for line in [3.0, 99.0, 100.0, 101.0, 12_345.0] {
            let (end, trials) = search(|rate| rate.as_per_sec_f64() < line);
            let Ask::Narrow { lower, upper } = end else { panic!("{end:?}") };
            let (lower, upper) = (lower.as_per_sec_f64(), upper.as_per_sec_f64());
            assert!(lower < line && line <= upper, "{lower}..{upper} round {line}");
            assert!(upper / lower < 1.021 && trials < 40, "{lower}..{upper}, {trials} trials");
        }
    }

    #[test]
    fn a_search_ends_where_nothing_and_where_everything_is_met() {
        assert_eq!(search(|_| false).0, Ask::Floor { upper: RANGE.lowest });
        assert_eq!(search(|_| true).0, Ask::Ceiling { lower: RANGE.highest });
    }

    #[test]
    fn a_lucky_short_trial_is_left_behind_when_long_ones_refuse_it() {
        let mut first = true;
        let (end, _) = search(|rate| std::mem::take(&mut first) || rate < Rate::per_sec(60));
        let Ask::Narrow { lower, upper } = end else { panic!("{end:?}") };
        assert!(lower < Rate::per_sec(60) && upper >= Rate::per_sec(60), "{lower}..{upper}");
    }

    proptest! {
        #[test]
        fn whatever_trials_say_a_search_ends(answers in prop::collection::vec(any::<bool>(), 500)) {
            let mut answers = answers.into_iter().chain(std::iter::repeat(false));
            search(|_| answers.next().unwrap_or_default());
        }
    }
}
