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

/// Year, month (1 to 12) and day (1 to 31) of the date so many days after 1970-01-01;
/// Howard Hinnant's algorithm (<https://howardhinnant.github.io/date_algorithms.html>).
#[must_use]
pub fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
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
