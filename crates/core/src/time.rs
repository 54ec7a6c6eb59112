//! Instants and durations as integers of nanoseconds.
//!
//! The core owns its time types so that a test, a simulation and a record can start at zero and
//! print exactly what happened. A shell converts the machine's monotonic clock in one place.

pub(crate) mod timer_queue;
mod unix;

use alloc::{
    format,
    string::{String, ToString},
};
use core::{fmt, iter, ops, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::units::UnitError;

pub use unix::{UnixTime, civil_from_days};

/// A point on a monotonic clock, in nanoseconds since an origin the shell chose (process start,
/// or zero in a simulation).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Instant(u64);

impl Instant {
    /// The origin of the clock.
    pub const ZERO: Self = Self(0);

    /// The instant `nanos` nanoseconds after the origin.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the origin.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Time from `earlier` to `self`; zero where `earlier` is not earlier.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }
}

impl ops::Add<Duration> for Instant {
    type Output = Self;

    /// Saturates at the end of the clock, 584 years after its origin.
    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration.0))
    }
}

/// A span of time in whole nanoseconds, at most 584 years. Arithmetic saturates.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Duration(u64);

impl Duration {
    /// No time at all.
    pub const ZERO: Self = Self(0);
    /// The longest span.
    pub const MAX: Self = Self(u64::MAX);

    /// `nanos` nanoseconds.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// `micros` microseconds.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros.saturating_mul(1_000))
    }

    /// `millis` milliseconds.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// `secs` seconds.
    #[must_use]
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(NANOS_PER_SEC))
    }

    /// The span in nanoseconds.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The span in milliseconds, with its fraction.
    #[must_use]
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// What is wrong with a text that is a duration but for a fraction, and what to write instead;
    /// none of any other text.
    #[must_use]
    pub fn fraction(text: &str) -> Option<(String, String)> {
        let (whole, rest) = text.split_once('.')?;
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let (fraction, unit) = rest.split_at(digits);
        let (_, parts, smaller) = FINER.iter().find(|(larger, ..)| *larger == unit)?;
        let scale = 10_u64.checked_pow(u32::try_from(digits).ok()?)?;
        let number: u64 = format!("{whole}{fraction}").parse().ok()?;
        let (number, rest) = (number.checked_mul(*parts)? / scale, number * parts % scale);
        let help = match rest {
            0 if fraction.bytes().all(|digit| digit == b'0') => format!("write `{whole}{unit}`"),
            0 => format!("write `{number}{smaller}`"),
            _ => "write whole numbers, each with its unit: `1s500ms`".to_string(),
        };
        Some((format!("`{text}` is not a duration of whole numbers"), help))
    }

    /// The span in seconds, with its fraction.
    #[must_use]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The same span as the standard library's type.
    #[must_use]
    pub const fn to_std(self) -> core::time::Duration {
        core::time::Duration::from_nanos(self.0)
    }

    /// The same span from the standard library's type; saturates at [`Duration::MAX`].
    #[must_use]
    pub fn from_std(duration: core::time::Duration) -> Self {
        Self(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }

    /// `self` less `other`, not below zero.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// `self` times `factor`; a factor below zero or not a number gives zero.
    #[must_use]
    pub fn scale(self, factor: f64) -> Self {
        Self((self.0 as f64 * factor) as u64)
    }
}

impl ops::Add for Duration {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl ops::Mul<u64> for Duration {
    type Output = Self;

    fn mul(self, times: u64) -> Self {
        Self(self.0.saturating_mul(times))
    }
}

impl ops::Div<u64> for Duration {
    type Output = Self;

    /// Division by zero gives [`Duration::MAX`].
    fn div(self, parts: u64) -> Self {
        Self(self.0.checked_div(parts).unwrap_or(u64::MAX))
    }
}

impl iter::Sum for Duration {
    fn sum<I: Iterator<Item = Self>>(spans: I) -> Self {
        spans.fold(Self::ZERO, ops::Add::add)
    }
}

impl fmt::Display for Duration {
    /// Prints what [`FromStr`] reads: the largest unit that leaves no remainder ("90s", "1500us").
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("0s");
        }
        let (unit, nanos) = UNITS
            .iter()
            .rev()
            .find(|(_, nanos)| self.0.is_multiple_of(*nanos))
            .expect("every span is a multiple of a nanosecond");
        write!(f, "{}{unit}", self.0 / nanos)
    }
}

impl fmt::Debug for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Duration {
    type Err = UnitError;

    /// Reads one or more whole numbers with a unit each, largest first or not: `500ms`, `1m30s`.
    ///
    /// # Errors
    /// [`UnitError`] where a number or a unit is missing or unknown, or the sum overflows.
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let wrong = || UnitError::duration(text);
        let mut rest = text.trim();
        if rest.is_empty() {
            return Err(wrong());
        }
        let mut total = 0u64;
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
            let (number, tail) = rest.split_at(digits);
            let letters = tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len());
            let (unit, tail) = tail.split_at(letters);
            let nanos = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?.1;
            let number: u64 = number.parse().map_err(|_| wrong())?;
            let span = number.checked_mul(nanos).ok_or_else(wrong)?;
            total = total.checked_add(span).ok_or_else(wrong)?;
            rest = tail;
        }
        Ok(Self(total))
    }
}

impl TryFrom<String> for Duration {
    type Error = UnitError;

    fn try_from(text: String) -> Result<Self, UnitError> {
        text.parse()
    }
}

impl From<Duration> for String {
    fn from(duration: Duration) -> Self {
        duration.to_string()
    }
}

const NANOS_PER_SEC: u64 = 1_000_000_000;

/// How many of a smaller unit a larger one has.
const FINER: [(&str, u64, &str); 6] = [
    ("us", 1_000, "ns"),
    ("ms", 1_000, "us"),
    ("s", 1_000, "ms"),
    ("m", 60, "s"),
    ("h", 60, "m"),
    ("d", 24, "h"),
];

/// Names and lengths of the units, shortest first.
const UNITS: [(&str, u64); 7] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", NANOS_PER_SEC),
    ("m", 60 * NANOS_PER_SEC),
    ("h", 3_600 * NANOS_PER_SEC),
    ("d", 86_400 * NANOS_PER_SEC),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_reads_what_it_prints() {
        for text in ["500ms", "90s", "1m", "2h", "1500us", "7ns", "0s"] {
            let span: Duration = text.parse().unwrap();
            assert_eq!(span.to_string().parse::<Duration>().unwrap(), span, "{text}");
        }
        assert_eq!("1m30s".parse::<Duration>().unwrap(), Duration::from_secs(90));
    }

    #[test]
    fn a_duration_without_a_unit_is_refused_with_an_example() {
        for text in ["5", "", "s", "5 s", "1.5s", "-1s", "3x", "99999999999d"] {
            let error = text.parse::<Duration>().unwrap_err();
            assert!(error.to_string().contains("500ms"), "{text}: {error}");
        }
    }

    #[test]
    fn instants_never_run_backwards_into_huge_spans() {
        let (early, late) = (Instant::from_nanos(5), Instant::from_nanos(9));
        assert_eq!(late.since(early), Duration::from_nanos(4));
        assert_eq!(early.since(late), Duration::ZERO);
        let end = Instant::from_nanos(u64::MAX);
        assert_eq!(end + Duration::from_secs(1), end);
    }
}
