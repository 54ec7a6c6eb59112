//! Quantities as types: rates, counts, sizes, ratios, lengths. Integers inside, text form as in the
//! file.
//!
//! `Rate * Duration = Count`, `Count / Duration = Rate`. There is no conversion from a bare
//! number: a constructor names the unit.

use alloc::string::{String, ToString};
use core::{error::Error, fmt, ops, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::time::Duration;

/// A text that is not the quantity it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitError {
    text: String,
    what: &'static str,
    example: &'static str,
}

impl UnitError {
    pub(crate) fn duration(text: &str) -> Self {
        Self::new(text, DURATION, "`500ms`, `10s` or `1m30s`")
    }

    fn new(text: &str, what: &'static str, example: &'static str) -> Self {
        Self { text: text.to_string(), what, example }
    }

    /// What is wrong, without an example: "`300` is not a duration".
    #[must_use]
    pub fn fault(&self) -> String {
        let unknown = || alloc::format!("`{}` is not {}", self.text, self.what);
        self.fraction().map_or_else(unknown, |(fault, _)| fault)
    }

    /// What is wrong with a text that is right but for its decimals, and what to write instead; as
    /// [`Duration::fraction`], where a duration was expected.
    #[must_use]
    pub fn fraction(&self) -> Option<(String, String)> {
        if self.what == DURATION {
            return Duration::fraction(&self.text);
        }
        let fault = || alloc::format!("`{}` has more than three decimals", self.text);
        self.is_too_fine().then(|| (fault(), self.advice()))
    }

    /// Whether the same with three decimals is what it should be.
    fn is_too_fine(&self) -> bool {
        let shorter = || {
            let (whole, rest) = self.text.split_once('.')?;
            let decimals = rest.find(|c: char| !c.is_ascii_digit()).filter(|n| *n > 3)?;
            Some(alloc::format!("{whole}.{}{}", &rest[..3], &rest[decimals..]))
        };
        shorter().is_some_and(|shorter| match self.what {
            RATE => shorter.parse::<Rate>().is_ok(),
            SHARE => shorter.parse::<Ratio>().is_ok(),
            _ => false,
        })
    }

    fn advice(&self) -> String {
        alloc::format!("write it like {}", self.example)
    }

    /// What a right text looks like.
    #[must_use]
    pub fn example(&self) -> &'static str {
        self.example
    }
}

impl fmt::Display for UnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (fault, advice) = self.fraction().unwrap_or_else(|| (self.fault(), self.advice()));
        write!(f, "{fault}; {advice}")
    }
}

impl Error for UnitError {}

const DURATION: &str = "a duration";
const RATE: &str = "a rate";
const SHARE: &str = "a share";

/// Requests (or connections) per second, kept in thousandths; 0.001/s to 18 * 10^15/s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Rate(u64);

impl Rate {
    /// `n` per second.
    #[must_use]
    pub const fn per_sec(n: u64) -> Self {
        Self(n.saturating_mul(1_000))
    }

    /// `n` per thousand seconds.
    #[must_use]
    pub const fn milli_per_sec(n: u64) -> Self {
        Self(n)
    }

    /// Thousandths of a request per second.
    #[must_use]
    pub const fn as_milli_per_sec(self) -> u64 {
        self.0
    }

    /// Requests per second, with their fraction.
    #[must_use]
    pub fn as_per_sec_f64(self) -> f64 {
        self.0 as f64 / 1e3
    }

    /// The mean time from one request to the next, rounded up so that a budget made of it is
    /// never exceeded; [`Duration::MAX`] at a rate of zero.
    #[must_use]
    pub fn interval(self) -> Duration {
        match self.0 {
            0 => Duration::MAX,
            milli => Duration::from_nanos(MILLI_NANOS.div_ceil(milli)),
        }
    }

    /// The part that is lost of the rate that a text says, since rates are kept in thousandths per
    /// second: almost a half of 7/h, of which 3.6/h are left. None where it is no rate.
    #[must_use]
    pub fn cut_of(text: &str) -> Option<Ratio> {
        let (number, seconds) = rate_parts(text)?;
        Some(Ratio::part(number % seconds, number))
    }

    /// Whether so much is lost of the rate that a text says that it would be another rate.
    #[must_use]
    pub fn is_cut(text: &str) -> bool {
        Self::cut_of(text).is_some_and(|cut| cut > RATE_CUT_MAX)
    }

    /// How a rate is written of which nothing is lost.
    pub const STEPS: &'static str =
        "write 0.001/s, which is 3.6/h, or a multiple of it: these are its steps";

    /// This share of the rate, rounded down.
    #[must_use]
    pub fn share(self, ratio: Ratio) -> Self {
        Self(ratio.of(self.0))
    }
}

impl ops::Mul<Duration> for Rate {
    type Output = Count;

    /// What arrives at this rate in that time, rounded down.
    fn mul(self, span: Duration) -> Count {
        Count(scaled(self.0, span.as_nanos(), MILLI_NANOS))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, milli) = (self.0 / 1_000, self.0 % 1_000);
        if milli == 0 {
            return write!(f, "{whole}/s");
        }
        let fraction = alloc::format!("{milli:03}");
        write!(f, "{whole}.{}/s", fraction.trim_end_matches('0'))
    }
}

impl FromStr for Rate {
    type Err = UnitError;

    /// Reads `100/s`, `0.5/s`, `30/m`, `1000/h`; at most three decimals.
    ///
    /// # Errors
    /// [`UnitError`] where the number or the unit is missing or out of range.
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let wrong = || UnitError::new(text, RATE, "`100/s`, `0.5/s` or `30/m`");
        let (number, seconds) = rate_parts(text).ok_or_else(wrong)?;
        Ok(Self(number / seconds))
    }
}

/// Less than this is lost of a rate by its unit without a word.
const RATE_CUT_MAX: Ratio = Ratio::percent(10);

/// The number of a rate in thousandths, and in how many seconds.
fn rate_parts(text: &str) -> Option<(u64, u64)> {
    let (number, unit) = text.trim().split_once('/')?;
    let seconds = match unit {
        "s" => 1,
        "m" | "min" => 60,
        "h" => 3_600,
        _ => return None,
    };
    Some((thousandths(number)?, seconds))
}

/// A number of requests, connections or servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Count(u64);

impl Count {
    /// `n` of them.
    #[must_use]
    pub const fn new(n: u64) -> Self {
        Self(n)
    }

    /// The bare number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl ops::Div<Duration> for Count {
    type Output = Rate;

    /// The mean rate of so many in that time, rounded down; zero for no time.
    fn div(self, span: Duration) -> Rate {
        Rate(scaled(self.0, MILLI_NANOS, span.as_nanos()))
    }
}

/// A size in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Bytes(u64);

impl Bytes {
    /// `n` bytes.
    #[must_use]
    pub const fn new(n: u64) -> Self {
        Self(n)
    }

    /// The number of bytes.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, size) = BYTE_UNITS
            .iter()
            .rev()
            .find(|(_, size)| self.0 != 0 && self.0.is_multiple_of(*size))
            .unwrap_or(&BYTE_UNITS[0]);
        write!(f, "{}{unit}", self.0 / size)
    }
}

impl FromStr for Bytes {
    type Err = UnitError;

    /// Reads a whole number with its unit: `512B`, `16KiB`, `50kB`, `1MiB`.
    ///
    /// # Errors
    /// [`UnitError`] where the number or the unit is missing, unknown or too large.
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let wrong = || UnitError::new(text, "a size", "`16KiB`, `50kB` or `512B`");
        let trimmed = text.trim();
        let digits = trimmed.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let (number, unit) = trimmed.split_at(digits);
        let size = BYTE_UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?.1;
        let number: u64 = number.parse().map_err(|_| wrong())?;
        number.checked_mul(size).map(Self).ok_or_else(wrong)
    }
}

/// A share in parts per million; above one is allowed (a scale), at most 4294.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Ratio(u32);

impl Ratio {
    /// Nothing.
    pub const ZERO: Self = Self(0);
    /// All of it.
    pub const ONE: Self = Self(1_000_000);

    /// `n` hundredths.
    #[must_use]
    pub const fn percent(n: u32) -> Self {
        Self(n.saturating_mul(10_000))
    }

    /// `n` millionths.
    #[must_use]
    pub const fn ppm(n: u32) -> Self {
        Self(n)
    }

    /// Millionths.
    #[must_use]
    pub const fn as_ppm(self) -> u32 {
        self.0
    }

    /// `part` of `whole`, rounded down; zero of zero is zero.
    #[must_use]
    pub fn part(part: u64, whole: u64) -> Self {
        Self(u32::try_from(scaled(part, 1_000_000, whole)).unwrap_or(u32::MAX))
    }

    /// The ratio of a floating-point number; not a number and negative ones give zero.
    #[must_use]
    pub fn from_f64(value: f64) -> Self {
        Self((value * 1e6) as u32)
    }

    /// The ratio as a number, 1.0 for all of it.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        f64::from(self.0) / 1e6
    }

    /// This share of `n`, rounded down.
    #[must_use]
    pub fn of(self, n: u64) -> u64 {
        scaled(n, u64::from(self.0), 1_000_000)
    }
}

impl ops::Mul for Ratio {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        Self(u32::try_from(self.of(u64::from(other.0))).unwrap_or(u32::MAX))
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.0 / 10_000, self.0 % 10_000);
        if rest == 0 {
            return write!(f, "{whole}%");
        }
        let fraction = alloc::format!("{rest:04}");
        write!(f, "{whole}.{}%", fraction.trim_end_matches('0'))
    }
}

impl FromStr for Ratio {
    type Err = UnitError;

    /// Reads `80%` or `99.5%`; at most three decimals.
    ///
    /// # Errors
    /// [`UnitError`] where the percent sign or the number is missing or too large.
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let wrong = || UnitError::new(text, SHARE, "`80%`");
        let number = text.trim().strip_suffix('%').ok_or_else(wrong)?;
        let ppm = thousandths(number).ok_or_else(wrong)?.checked_mul(10).ok_or_else(wrong)?;
        u32::try_from(ppm).map(Self).map_err(|_| wrong())
    }
}

/// A rate of transmission in bits per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct BitRate(u64);

impl BitRate {
    /// `n` bits per second.
    #[must_use]
    pub const fn new(n: u64) -> Self {
        Self(n)
    }

    /// Bits per second.
    #[must_use]
    pub const fn bits_per_sec(self) -> u64 {
        self.0
    }

    /// Millions of bits per second, with their fraction.
    #[must_use]
    pub fn as_megabits_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }
}

impl fmt::Display for BitRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_decimal(f, self.0, &BIT_RATE_UNITS[..4])
    }
}

impl FromStr for BitRate {
    type Err = UnitError;

    /// Reads a number and its unit: `180Mb/s`, `28.672Mb/s`, `1Gb/s`, `180Mib/s`.
    ///
    /// # Errors
    /// [`UnitError`] where the number or the unit is missing, unknown or too large, or there are
    /// more decimals than the unit has bits.
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let wrong = || UnitError::new(text, "a bit rate", "`180Mb/s`, `1Gb/s` or `180Mib/s`");
        decimal(text, &BIT_RATE_UNITS).map(Self).ok_or_else(wrong)
    }
}

/// A length in whole metres.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Distance(u64);

impl Distance {
    /// `n` metres.
    #[must_use]
    pub const fn from_metres(n: u64) -> Self {
        Self(n)
    }

    /// Metres.
    #[must_use]
    pub const fn metres(self) -> u64 {
        self.0
    }

    /// Kilometres, with their fraction.
    #[must_use]
    pub fn as_km_f64(self) -> f64 {
        self.0 as f64 / 1e3
    }
}

impl fmt::Display for Distance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_decimal(f, self.0, &DISTANCE_UNITS)
    }
}

impl FromStr for Distance {
    type Err = UnitError;

    /// Reads a number and its unit: `7500km`, `0.5km`, `200m`.
    ///
    /// # Errors
    /// [`UnitError`] where the number or the unit is missing, unknown or too large, or parts of a
    /// metre are given.
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let wrong = || UnitError::new(text, "a distance", "`7500km` or `200m`");
        decimal(text, &DISTANCE_UNITS).map(Self).ok_or_else(wrong)
    }
}

/// `n * times / parts` without overflow on the way, rounded down; zero for no parts.
fn scaled(n: u64, times: u64, parts: u64) -> u64 {
    let product = u128::from(n) * u128::from(times);
    let quotient = product.checked_div(u128::from(parts)).unwrap_or(0);
    u64::try_from(quotient).unwrap_or(u64::MAX)
}

/// A decimal number with at most three decimals, in thousandths.
fn thousandths(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || fraction.len() > 3 {
        return None;
    }
    let scale = 10u64.pow(3 - fraction.len() as u32);
    let fraction = fraction.parse::<u64>().ok()? * scale;
    whole.parse::<u64>().ok()?.checked_mul(1_000)?.checked_add(fraction)
}

/// Writes a number in the largest unit that it reaches, with the decimals that it has there.
fn write_decimal(f: &mut fmt::Formatter<'_>, n: u64, units: &[(&str, u64)]) -> fmt::Result {
    let (unit, size) = units.iter().rev().find(|(_, size)| n >= *size).unwrap_or(&units[0]);
    let rest = n % size;
    if rest == 0 {
        return write!(f, "{}{unit}", n / size);
    }
    let width = size.ilog10() as usize;
    let fraction = alloc::format!("{rest:0width$}");
    write!(f, "{}.{}{unit}", n / size, fraction.trim_end_matches('0'))
}

/// A decimal number and its unit, in the smallest of the units; none where parts of it are left.
fn decimal(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(digits);
    let size = units.iter().find(|(name, _)| *name == unit)?.1;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if !is_number(whole) || !is_number(fraction) || fraction.len() > MOST_DECIMALS {
        return None;
    }
    let scale = 10u128.pow(fraction.len() as u32);
    let parts = fraction.parse::<u128>().ok()? * u128::from(size);
    let parts = parts.is_multiple_of(scale).then_some(parts / scale)?;
    let whole = u128::from(whole.parse::<u64>().ok()?) * u128::from(size);
    u64::try_from(whole + parts).ok()
}

macro_rules! text_form {
    ($($unit:ty),*) => {$(
        impl TryFrom<String> for $unit {
            type Error = UnitError;

            fn try_from(text: String) -> Result<Self, UnitError> {
                text.parse()
            }
        }

        impl From<$unit> for String {
            fn from(value: $unit) -> Self {
                value.to_string()
            }
        }
    )*};
}
text_form!(Rate, Bytes, Ratio, BitRate, Distance);

/// Nanoseconds in a thousand seconds: one request at one thousandth per second.
const MILLI_NANOS: u64 = 1_000_000_000_000;

const BYTE_UNITS: [(&str, u64); 7] = [
    ("B", 1),
    ("kB", 1_000),
    ("KiB", 1 << 10),
    ("MB", 1_000_000),
    ("MiB", 1 << 20),
    ("GB", 1_000_000_000),
    ("GiB", 1 << 30),
];

/// The decimal ones first: they are what is printed.
const BIT_RATE_UNITS: [(&str, u64); 7] = [
    ("b/s", 1),
    ("kb/s", 1_000),
    ("Mb/s", 1_000_000),
    ("Gb/s", 1_000_000_000),
    ("Kib/s", 1 << 10),
    ("Mib/s", 1 << 20),
    ("Gib/s", 1 << 30),
];

const DISTANCE_UNITS: [(&str, u64); 2] = [("m", 1), ("km", 1_000)];

/// As many as the largest decimal unit has.
const MOST_DECIMALS: usize = 9;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_times_a_span_is_a_count_and_back() {
        let rate = Rate::per_sec(200);
        assert_eq!(rate * Duration::from_millis(2_500), Count::new(500));
        assert_eq!(Count::new(500) / Duration::from_millis(2_500), rate);
        assert_eq!(rate.interval(), Duration::from_millis(5));
        assert_eq!(Rate::default().interval(), Duration::MAX);
    }

    #[test]
    fn an_interval_is_rounded_so_that_the_rate_is_never_exceeded() {
        let third = Rate::per_sec(3).interval();
        assert_eq!(third.as_nanos(), 333_333_334);
    }

    #[test]
    fn quantities_read_what_they_print() {
        for text in ["100/s", "0.5/s", "1234.567/s"] {
            assert_eq!(text.parse::<Rate>().unwrap().to_string(), text);
        }
        for text in ["80%", "99.5%", "0%", "0.123%"] {
            assert_eq!(text.parse::<Ratio>().unwrap().to_string(), text);
        }
        for text in ["512B", "16KiB", "50kB", "1MiB", "0B"] {
            assert_eq!(text.parse::<Bytes>().unwrap().to_string(), text);
        }
        assert_eq!("30/m".parse::<Rate>().unwrap(), Rate::milli_per_sec(500));
        for text in ["180Mb/s", "28.672Mb/s", "1.000000001Gb/s", "0b/s", "999b/s"] {
            assert_eq!(text.parse::<BitRate>().unwrap().to_string(), text);
        }
        for text in ["7500km", "0m", "999m", "119.5km"] {
            assert_eq!(text.parse::<Distance>().unwrap().to_string(), text);
        }
        assert_eq!("180Mib/s".parse::<BitRate>().unwrap(), BitRate::new(188_743_680));
    }

    #[test]
    fn what_is_lost_of_a_rate_by_its_unit_is_told() {
        let cut = |text| Rate::cut_of(text).map(Ratio::as_ppm);
        assert_eq!(cut("3.6/h"), Some(0));
        assert_eq!(cut("7/h"), Some(485_714));
        assert_eq!(cut("3/h"), Some(1_000_000));
        assert_eq!(cut("1/m"), Some(40_000));
        assert_eq!(cut("0/s"), Some(0));
        assert_eq!(cut("7"), None);
        assert!(Rate::is_cut("7/h") && !Rate::is_cut("1/m") && !Rate::is_cut("7"));
    }

    #[test]
    fn a_wrong_unit_is_refused_with_an_example() {
        for text in ["100", "100/x", "-1/s", "1.2345/s", "/s", "1e3/s"] {
            assert!(text.parse::<Rate>().is_err(), "{text}");
        }
        for text in ["80", "0.8", "%", "5000000%"] {
            assert!(text.parse::<Ratio>().is_err(), "{text}");
        }
        for text in ["16", "16K", "1.5MiB", ""] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
        for text in ["180", "180MB/s", "1.5b/s", "Mb/s", "1e3b/s", "99999999999Gb/s", "1.Mb/s"] {
            assert!(text.parse::<BitRate>().is_err(), "{text}");
        }
        for text in ["7500", "7500 km", "1.0005km", "-1km", "5mi"] {
            assert!(text.parse::<Distance>().is_err(), "{text}");
        }
        assert!("x".parse::<Rate>().unwrap_err().to_string().contains("`100/s`"));
    }

    #[test]
    fn a_number_of_too_many_decimals_is_told_so() {
        let told = |text: &str| {
            let rate = text.parse::<Rate>().map_err(|error| error.to_string());
            rate.expect_err("it has too many decimals")
        };
        let expected = "`73.6842/s` has more than three decimals; write it like `100/s`, `0.5/s` \
                        or `30/m`";
        assert_eq!(told("73.6842/s"), expected);
        for text in ["73.6842", "73.6842/x", "x.6842/s", "73.68/x"] {
            assert!(told(text).contains("is not a rate; write it like"), "{}", told(text));
        }
        let share = "12.3456%".parse::<Ratio>().unwrap_err();
        assert_eq!(share.fault(), "`12.3456%` has more than three decimals");
        let time = |text: &str| text.parse::<Duration>().unwrap_err().to_string();
        for (text, written) in [("12.5ms", "12500us"), ("20.0ms", "20ms"), ("1.50s", "1500ms")] {
            let expected =
                alloc::format!("`{text}` is not a duration of whole numbers; write `{written}`");
            assert_eq!(time(text), expected);
        }
        assert!(time("0.5").contains("is not a duration; write it like"), "{}", time("0.5"));
    }
}
