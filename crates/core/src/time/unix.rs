//! The wall clock, for the dates that HTTP messages carry.

use core::ops;

use serde::{Deserialize, Serialize};

use super::Duration;

/// A moment on the wall clock, in milliseconds since 1970-01-01 00:00:00 UTC, negative before.
///
/// Arithmetic saturates 292 million years from there. What measures spans with it derives it from
/// a monotonic clock and one offset, so that a clock that is set does not change any age.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct UnixTime(i64);

impl UnixTime {
    /// 1970-01-01 00:00:00 UTC.
    pub const EPOCH: Self = Self(0);

    /// `millis` milliseconds after the epoch.
    #[must_use]
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// `secs` seconds after the epoch.
    #[must_use]
    pub const fn from_secs(secs: i64) -> Self {
        Self(secs.saturating_mul(1_000))
    }

    /// Milliseconds since the epoch.
    #[must_use]
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// Whole seconds since the epoch, rounded towards the past.
    #[must_use]
    pub const fn as_secs(self) -> i64 {
        self.0.div_euclid(1_000)
    }

    /// The same moment without its fraction of a second, as an HTTP date tells it.
    #[must_use]
    pub const fn to_whole_secs(self) -> Self {
        Self::from_secs(self.as_secs())
    }

    /// Time from `earlier` to `self`; zero if `earlier` is not earlier.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        let millis = self.0.saturating_sub(earlier.0);
        Duration::from_millis(u64::try_from(millis).unwrap_or(0))
    }
}

impl ops::Add<Duration> for UnixTime {
    type Output = Self;

    /// Fractions of a millisecond are dropped.
    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add_unsigned(millis(span)))
    }
}

impl ops::Sub<Duration> for UnixTime {
    type Output = Self;

    /// Fractions of a millisecond are dropped.
    fn sub(self, span: Duration) -> Self {
        Self(self.0.saturating_sub_unsigned(millis(span)))
    }
}

const fn millis(span: Duration) -> u64 {
    span.as_nanos() / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_before_the_epoch_are_rounded_towards_the_past() {
        assert_eq!(UnixTime::from_millis(-1).as_secs(), -1);
        assert_eq!(UnixTime::from_millis(1_999).to_whole_secs(), UnixTime::from_secs(1));
    }

    #[test]
    fn a_span_is_never_negative_and_never_overflows() {
        let (early, late) = (UnixTime::from_secs(5), UnixTime::from_secs(9));
        assert_eq!(late.since(early), Duration::from_secs(4));
        assert_eq!(early.since(late), Duration::ZERO);
        assert!(early + Duration::MAX > late);
        assert_eq!((late - Duration::from_secs(10)).as_secs(), -1);
        assert_eq!(
            UnixTime::from_millis(i64::MAX) + Duration::MAX,
            UnixTime::from_millis(i64::MAX)
        );
    }
}
