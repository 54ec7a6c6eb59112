//! Stages of a plan in short: `10/s:60s, ..50/s:5m, 400/s:5m`.
//!
//! Each item is a rate and how long it lasts. Two dots before the rate make it the end of an even
//! ramp, which begins at the rate before it; before the first stage that is zero.

use loadline_core::{
    time::Duration,
    units::{Rate, UnitError},
};
use loadline_measure::record::Stage;

/// Why a text is not a list of stages.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StageError {
    /// A stage is not a rate and a time.
    #[error("stage {number}, `{item}`, is not RATE:TIME; {EXAMPLE}")]
    Form {
        /// Which one, counted from 1.
        number: usize,
        /// As it was given.
        item: String,
    },
    /// The rate or the time of a stage cannot be read.
    #[error("stage {number}, `{item}`: {source}")]
    Unit {
        /// Which one, counted from 1.
        number: usize,
        /// As it was given.
        item: String,
        /// What is wrong with it.
        source: UnitError,
    },
    /// The rate of a stage would be another one, since rates are kept in thousandths per second.
    #[error("stage {number}, `{item}`: its rate would be cut to {rate}; {}", Rate::STEPS)]
    Cut {
        /// Which one, counted from 1.
        number: usize,
        /// As it was given.
        item: String,
        /// What would be left of its rate.
        rate: Rate,
    },
    /// A stage takes no time.
    #[error("stage {number}, `{item}`, lasts no time; {EXAMPLE}")]
    Instant {
        /// Which one, counted from 1.
        number: usize,
        /// As it was given.
        item: String,
    },
    /// No stage has a rate above zero.
    #[error("the stages hold no request; {EXAMPLE}")]
    Nothing,
}

/// Reads a list of stages. Spaces around items, their rates and times do not matter; a comma at
/// the end neither.
///
/// # Errors
/// [`StageError`] naming the first stage that is wrong, with a right one.
pub fn parse_stages(text: &str) -> Result<Vec<Stage>, StageError> {
    let mut stages = Vec::new();
    let mut rate = Rate::default();
    let text = text.trim();
    for (item, number) in text.strip_suffix(',').unwrap_or(text).split(',').zip(1..) {
        let stage = parse_stage(item.trim(), number, rate)?;
        rate = stage.to;
        stages.push(stage);
    }
    let nothing = |stage: &Stage| stage.from.max(stage.to) == Rate::default();
    if stages.iter().all(nothing) { Err(StageError::Nothing) } else { Ok(stages) }
}

/// One stage, where the one before it ended at the rate `before`.
fn parse_stage(item: &str, number: usize, before: Rate) -> Result<Stage, StageError> {
    let named = || item.to_owned();
    let wrong_unit = |source| StageError::Unit { number, item: named(), source };
    let Some((rate, lasts)) = item.split_once(':') else {
        return Err(StageError::Form { number, item: named() });
    };
    let (ramp, rate) = match rate.trim().strip_prefix("..") {
        Some(rate) => (true, rate),
        None => (false, rate),
    };
    let to: Rate = rate.parse().map_err(wrong_unit)?;
    if Rate::is_cut(rate) {
        return Err(StageError::Cut { number, item: named(), rate: to });
    }
    let lasts: Duration = lasts.parse().map_err(wrong_unit)?;
    if lasts == Duration::ZERO {
        return Err(StageError::Instant { number, item: named() });
    }
    Ok(Stage { from: if ramp { before } else { to }, to, lasts })
}

const EXAMPLE: &str = "write them like `10/s:60s, ..50/s:5m, 400/s:5m`";

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stage(from: u64, to: u64, secs: u64) -> Stage {
        let [from, to] = [from, to].map(Rate::per_sec);
        Stage { from, to, lasts: Duration::from_secs(secs) }
    }

    #[test]
    fn two_dots_ramp_from_the_rate_before() {
        let stages = parse_stages("10/s:60s, ..50/s:5m,400/s : 5m,").unwrap();
        assert_eq!(stages, [stage(10, 10, 60), stage(10, 50, 300), stage(400, 400, 300)]);
        let alone = parse_stages("..100/s:10s").unwrap();
        assert_eq!(alone, [stage(0, 100, 10)]);
        let down = parse_stages("100/s:1s, ..0/s:10s").unwrap();
        assert_eq!(down[1], stage(100, 0, 10));
    }

    #[test]
    fn what_is_wrong_with_a_stage_is_said_with_a_right_one() {
        for (text, parts) in [
            ("", ["stage 1", "`10/s:60s, ..50/s:5m"]),
            ("10/s:60s, 50/s", ["stage 2, `50/s`", "RATE:TIME"]),
            ("10/s:60s,,50/s:1s", ["stage 2, ``", "RATE:TIME"]),
            ("10:60s", ["stage 1, `10:60s`", "`100/s`"]),
            ("10/s:60s, ...5/s:1s", ["stage 2", "`100/s`"]),
            ("10/s:60", ["stage 1", "`1m30s`"]),
            ("10/s:1h, 7/h:1h", ["stage 2, `7/h:1h`", "cut to 0.001/s; write 0.001/s"]),
            ("10/s:0s", ["stage 1, `10/s:0s`", "lasts no time"]),
            ("0/s:10s", ["no request", "400/s:5m"]),
        ] {
            let error = parse_stages(text).unwrap_err().to_string();
            for part in parts {
                assert!(error.contains(part), "{text}: {error}");
            }
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text: String) {
            let _ = parse_stages(&text);
        }
    }
}
