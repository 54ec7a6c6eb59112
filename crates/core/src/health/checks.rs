//! The health of a server by its checks alone: `rise`, `fall`.
//!
//! ```text
//!             passed                    failed, `fall` in a row
//! Starting ----------> Up <-----------------------------------------.
//!     \                 \ failed: Up { failures }                    |
//!      \ failed          `----------------------------> Down         |
//!       `-------------------------------------------->  Down { passes }
//!                                    passed, `rise` in a row: back Up
//! ```
//! Before its first check a server counts as healthy: there is nothing better to go by.

use crate::{fleet::HealthCheck, time::Duration};

/// Where a server stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Health {
    /// Not checked yet.
    #[default]
    Starting,
    /// Healthy, with so many failures in a row since the last pass.
    Up {
        /// Fewer than `fall`.
        failures: u32,
    },
    /// Not healthy, with so many passes in a row since the last failure.
    Down {
        /// Fewer than `rise`.
        passes: u32,
    },
}

impl Health {
    /// The state after a check.
    #[must_use]
    pub fn after(self, passed: bool, check: &HealthCheck) -> Self {
        match (self, passed) {
            (Self::Starting | Self::Up { .. }, true) => Self::Up { failures: 0 },
            (Self::Starting | Self::Down { .. }, false) => Self::Down { passes: 0 },
            (Self::Up { failures }, false) if failures + 1 >= check.fall => {
                Self::Down { passes: 0 }
            }
            (Self::Up { failures }, false) => Self::Up { failures: failures + 1 },
            (Self::Down { passes }, true) if passes + 1 >= check.rise => Self::Up { failures: 0 },
            (Self::Down { passes }, true) => Self::Down { passes: passes + 1 },
        }
    }

    /// The state where others have checked, with `rise` and `fall` of their own.
    #[must_use]
    pub fn told(self, passed: bool, _: &HealthCheck) -> Self {
        if passed { Self::Up { failures: 0 } } else { Self::Down { passes: 0 } }
    }

    /// Whether the server may be given requests.
    #[must_use]
    pub fn is_healthy(self) -> bool {
        !matches!(self, Self::Down { .. })
    }

    /// Time to the next check: the fast interval while the state is about to change.
    #[must_use]
    pub fn interval(self, check: &HealthCheck) -> Duration {
        match self {
            Self::Up { failures: 0 } | Self::Down { passes: 0 } => check.interval,
            _ => check.fast_interval,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::Probe;
    use proptest::prelude::*;

    fn check(rise: u32, fall: u32) -> HealthCheck {
        HealthCheck {
            probe: Probe::Tcp,
            interval: Duration::from_secs(1),
            fast_interval: Duration::from_millis(100),
            timeout: Duration::from_millis(500),
            rise,
            fall,
            lenient: false,
        }
    }

    #[test]
    fn a_server_goes_down_after_fall_failures_and_up_after_rise_passes() {
        let check = check(2, 3);
        let mut health = Health::default();
        let mut story = alloc::vec::Vec::new();
        for passed in [true, false, false, false, true, true] {
            health = health.after(passed, &check);
            story.push(health.is_healthy());
        }
        assert_eq!(story, [true, true, true, false, false, true]);
    }

    #[test]
    fn the_first_check_decides_at_once() {
        assert!(!Health::default().after(false, &check(3, 3)).is_healthy());
        assert!(Health::default().after(true, &check(3, 3)).is_healthy());
    }

    #[test]
    fn checks_come_faster_while_the_state_is_changing() {
        let check = check(2, 2);
        let steady = Health::Up { failures: 0 };
        assert_eq!(steady.interval(&check), check.interval);
        assert_eq!(steady.after(false, &check).interval(&check), check.fast_interval);
    }

    proptest! {
        #[test]
        fn only_a_run_of_rise_or_fall_changes_the_state(
            rise in 1u32..5, fall in 1u32..5,
            results in prop::collection::vec(any::<bool>(), 1..200),
        ) {
            let check = check(rise, fall);
            let mut health = Health::Up { failures: 0 };
            let (mut run, mut last) = (0, true);
            for passed in results {
                run = if passed == last { run + 1 } else { 1 };
                last = passed;
                let before = health.is_healthy();
                health = health.after(passed, &check);
                if health.is_healthy() != before {
                    let needed = if passed { rise } else { fall };
                    prop_assert!(passed != before && run >= needed);
                }
            }
        }
    }
}
