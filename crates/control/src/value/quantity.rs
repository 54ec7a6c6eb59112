//! Quantities with a unit and a range: `Within<Ratio, 10_000, 1_000_000>` is a share from 1 % to
//! 100 %.

use loadline_core::{
    time::Duration,
    units::{BitRate, Bytes, Rate, Ratio, UnitError},
};
use loadline_spanned::{Complaint, Text, Textual};
use schemars::{Schema, json_schema};

/// Any time.
pub(crate) type AnyTime = Within<Duration, 0, { u64::MAX }>;
/// A time of which zero switches something off.
pub(crate) type TimeOrOff = Text<AnyTime>;
/// A time above zero.
pub(crate) type Time = Text<Within<Duration, 1, { u64::MAX }>>;
/// A time of whole seconds.
pub(crate) type AnySeconds = WholeSeconds<0, { u64::MAX }>;
/// A time of whole seconds above zero.
pub(crate) type Seconds = Text<WholeSeconds<1, { u64::MAX }>>;
/// A rate above zero.
pub(crate) type PositiveRate = Text<Within<Rate, 1, { u64::MAX }>>;
/// A rate, which may be zero.
pub(crate) type AnyRate = Text<Within<Rate, 0, { u64::MAX }>>;
/// A bit rate above zero.
pub(crate) type PositiveBitRate = Text<Within<BitRate, 1, { u64::MAX }>>;
/// A share from `MIN` to `MAX` parts per million.
pub(crate) type Share<const MIN: u64, const MAX: u64> = Text<Within<Ratio, MIN, MAX>>;
/// A size from `MIN` to `MAX` bytes.
pub(crate) type Size<const MIN: u64, const MAX: u64> = Text<Within<Bytes, MIN, MAX>>;

/// One hundredth, in parts per million.
pub(crate) const PERCENT: u64 = 10_000;

/// A kind of quantity, with an integer inside.
pub(crate) trait Quantity:
    Copy + std::fmt::Display + std::str::FromStr<Err = UnitError>
{
    /// With an article.
    const WHAT: &'static str;
    /// A regular expression for all of its texts.
    const PATTERN: &'static str;
    /// Texts as one would write them.
    const EXAMPLES: &'static [&'static str];
    /// Units as others write them, in small letters, and what they are called here.
    const OTHER_UNITS: &'static [(&'static str, &'static str)] = &[];

    fn of(integer: u64) -> Self;
    fn integer(self) -> u64;

    /// What is wrong where it is not what its text says.
    fn misread(self, _text: &str) -> Option<Complaint> {
        None
    }

    /// What is wrong with a text that cannot be read, where more is known than that.
    fn unread(_text: &str) -> Option<Complaint> {
        None
    }
}

/// What `text` most likely stands for: the same without spaces, or with another unit.
fn likely<Q: Quantity>(text: &str) -> Option<String> {
    let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit() && c != '.')?);
    let lower = unit.to_lowercase();
    let known = Q::OTHER_UNITS.iter().find(|(theirs, _)| *theirs == lower);
    let meant = format!("{number}{}", known.map_or(unit, |(_, ours)| ours));
    meant.parse::<Q>().is_ok().then_some(meant)
}

/// Whether a text is right but for the size of its whole numbers.
fn is_too_large<Q: Quantity>(text: &str) -> bool {
    let mut small = String::new();
    for c in text.chars() {
        // Of several digits one is left.
        if !c.is_ascii_digit() {
            small.push(c);
        } else if !small.ends_with('1') {
            small.push('1');
        }
    }
    !text.contains('.') && small.len() < text.len() && small.parse::<Q>().is_ok()
}

/// A quantity from `MIN` to `MAX`, both counted in the integer inside.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Within<Q, const MIN: u64, const MAX: u64>(pub(crate) Q);

impl<Q: Quantity, const MIN: u64, const MAX: u64> Within<Q, MIN, MAX> {
    /// "a share from 1% to 100%".
    fn described() -> String {
        let (what, low, high) = (Q::WHAT, Q::of(MIN), Q::of(MAX));
        match (MIN, MAX) {
            (0, u64::MAX) => what.to_owned(),
            (1, u64::MAX) => format!("{what} above zero"),
            (_, u64::MAX) => format!("{what} of at least {low}"),
            _ => format!("{what} from {low} to {high}"),
        }
    }

    fn examples() -> Vec<&'static str> {
        let fits = |text: &&&str| {
            let value = text.parse::<Q>().map(Q::integer);
            value.is_ok_and(|integer| (MIN..=MAX).contains(&integer))
        };
        Q::EXAMPLES.iter().filter(fits).copied().collect()
    }
}

impl<Q: Quantity, const MIN: u64, const MAX: u64> Textual for Within<Q, MIN, MAX> {
    fn expected() -> String {
        let example = Self::examples().first().copied().unwrap_or_default();
        format!("{}, in quotes: \"{example}\"", Self::described())
    }

    fn read(text: &str) -> Result<Self, Complaint> {
        // The type itself reads what stands between spaces, as in lists.
        let padded = Some(text).filter(|text| text.trim() != *text);
        if let Some(meant) = padded.and_then(likely::<Q>) {
            let message = format!("`{text}` is not {}", Q::WHAT);
            return Err(Complaint::new(message, format!("write `{meant}`")));
        }
        let quantity: Q = text.parse().map_err(|error: UnitError| {
            if is_too_large::<Q>(text) {
                let help = format!("write a smaller one, like {}", error.example());
                return Complaint::new(format!("`{text}` is too large"), help);
            }
            let help = match likely::<Q>(text) {
                Some(meant) => format!("write `{meant}`"),
                None => format!("write it with its unit, like {}", error.example()),
            };
            let wrong = || Complaint::new(format!("`{text}` is not {}", Q::WHAT), help);
            Q::unread(text).unwrap_or_else(wrong)
        })?;
        if let Some(complaint) = quantity.misread(text) {
            return Err(complaint);
        }
        if !(MIN..=MAX).contains(&quantity.integer()) {
            let message = format!("`{text}` is out of range");
            return Err(Complaint::new(message, format!("write {}", Self::described())));
        }
        Ok(Self(quantity))
    }

    fn schema() -> Schema {
        json_schema!({
            "type": "string",
            "title": Self::described(),
            "pattern": Q::PATTERN,
            "examples": Self::examples(),
        })
    }
}

/// A time from `MIN` to `MAX` nanoseconds that headers and tokens count in whole seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WholeSeconds<const MIN: u64, const MAX: u64>(pub(crate) Duration);

impl<const MIN: u64, const MAX: u64> WholeSeconds<MIN, MAX> {
    fn examples() -> Vec<&'static str> {
        let all = <Duration as Quantity>::EXAMPLES.iter();
        all.filter(|text| Self::read(text).is_ok()).copied().collect()
    }
}

impl<const MIN: u64, const MAX: u64> Textual for WholeSeconds<MIN, MAX> {
    fn expected() -> String {
        let example = Self::examples().first().copied().unwrap_or_default();
        format!("{}, in quotes: \"{example}\"", Within::<Duration, MIN, MAX>::described())
    }

    fn read(text: &str) -> Result<Self, Complaint> {
        let time = Within::<Duration, MIN, MAX>::read(text)?.0;
        let seconds = time.as_nanos() / Duration::from_secs(1).as_nanos();
        if Duration::from_secs(seconds) == time {
            return Ok(Self(time));
        }
        // Zero is mostly another thing than a short time.
        let help = match seconds {
            0 => "write `1s`".to_owned(),
            _ => format!("write `{seconds}s` or `{}s`", seconds + 1),
        };
        Err(Complaint::new(format!("`{text}` is not in whole seconds"), help))
    }

    fn schema() -> Schema {
        let title = Within::<Duration, MIN, MAX>::described();
        let pattern = <Duration as Quantity>::PATTERN;
        json_schema!({
            "type": "string",
            "title": title,
            "pattern": pattern,
            "examples": Self::examples(),
        })
    }
}

impl Quantity for Duration {
    const WHAT: &'static str = "a duration";
    const PATTERN: &'static str = "^([0-9]+(ns|us|ms|s|m|h|d))+$";
    const EXAMPLES: &'static [&'static str] = &["500ms", "10s", "1m30s"];
    const OTHER_UNITS: &'static [(&'static str, &'static str)] = &[
        ("msec", "ms"),
        ("s", "s"),
        ("sec", "s"),
        ("secs", "s"),
        ("second", "s"),
        ("seconds", "s"),
        ("min", "m"),
        ("mins", "m"),
        ("minute", "m"),
        ("minutes", "m"),
        ("hour", "h"),
        ("hours", "h"),
        ("day", "d"),
        ("days", "d"),
    ];

    fn of(integer: u64) -> Self {
        Self::from_nanos(integer)
    }

    fn integer(self) -> u64 {
        self.as_nanos()
    }

    fn unread(text: &str) -> Option<Complaint> {
        let (message, help) = Self::fraction(text)?;
        Some(Complaint::new(message, help))
    }
}

impl Quantity for Rate {
    const WHAT: &'static str = "a rate";
    const PATTERN: &'static str = "^[0-9]+(\\.[0-9]{1,3})?/(s|m|min|h)$";
    const EXAMPLES: &'static [&'static str] = &["100/s", "0.5/s", "30/m"];
    const OTHER_UNITS: &'static [(&'static str, &'static str)] = &[
        ("r/s", "/s"),
        ("rps", "/s"),
        ("qps", "/s"),
        ("req/s", "/s"),
        ("/sec", "/s"),
        ("/second", "/s"),
        ("r/m", "/m"),
        ("rpm", "/m"),
        ("/minute", "/m"),
        ("/hour", "/h"),
    ];

    fn of(integer: u64) -> Self {
        Self::milli_per_sec(integer)
    }

    fn integer(self) -> u64 {
        self.as_milli_per_sec()
    }

    fn misread(self, text: &str) -> Option<Complaint> {
        let message = || format!("`{text}` would be cut to {self}");
        Self::is_cut(text).then(|| Complaint::new(message(), Self::STEPS))
    }

    fn unread(text: &str) -> Option<Complaint> {
        let (message, _) = text.parse::<Self>().err()?.fraction()?;
        Some(Complaint::new(message, Self::STEPS))
    }
}

impl Quantity for Ratio {
    const WHAT: &'static str = "a share";
    const PATTERN: &'static str = "^[0-9]+(\\.[0-9]{1,3})?%$";
    const EXAMPLES: &'static [&'static str] = &["80%", "12.5%"];
    const OTHER_UNITS: &'static [(&'static str, &'static str)] = &[("percent", "%")];

    fn of(integer: u64) -> Self {
        Self::ppm(u32::try_from(integer).unwrap_or(u32::MAX))
    }

    fn integer(self) -> u64 {
        u64::from(self.as_ppm())
    }

    fn unread(text: &str) -> Option<Complaint> {
        let (message, help) = text.parse::<Self>().err()?.fraction()?;
        Some(Complaint::new(message, help))
    }
}

impl Quantity for BitRate {
    const WHAT: &'static str = "a bit rate";
    const PATTERN: &'static str = "^[0-9]+(\\.[0-9]+)?(b|kb|Mb|Gb|Kib|Mib|Gib)/s$";
    const EXAMPLES: &'static [&'static str] = &["2kb/s", "1Mb/s"];

    fn of(integer: u64) -> Self {
        Self::new(integer)
    }

    fn integer(self) -> u64 {
        self.bits_per_sec()
    }
}

impl Quantity for Bytes {
    const WHAT: &'static str = "a size";
    const PATTERN: &'static str = "^[0-9]+(B|kB|KiB|MB|MiB|GB|GiB)$";
    const EXAMPLES: &'static [&'static str] = &["16KiB", "50kB", "512B"];
    // `k`, `m` and `g` are those of nginx and HAProxy: powers of 1024.
    const OTHER_UNITS: &'static [(&'static str, &'static str)] = &[
        ("b", "B"),
        ("bytes", "B"),
        ("k", "KiB"),
        ("m", "MiB"),
        ("g", "GiB"),
        ("kb", "kB"),
        ("mb", "MB"),
        ("gb", "GB"),
        ("kib", "KiB"),
        ("mib", "MiB"),
        ("gib", "GiB"),
    ];

    fn of(integer: u64) -> Self {
        Self::new(integer)
    }

    fn integer(self) -> u64 {
        self.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Percent = Within<Ratio, PERCENT, { 100 * PERCENT }>;

    #[test]
    fn a_quantity_out_of_its_range_says_the_range() {
        assert_eq!(Percent::read("1%").unwrap().0, Ratio::percent(1));
        let complaint = Percent::read("300%").unwrap_err();
        assert_eq!(complaint.message, "`300%` is out of range");
        assert_eq!(complaint.help, "write a share from 1% to 100%");
    }

    #[test]
    fn a_quantity_as_others_write_it_is_told_as_it_is_written_here() {
        type Positive = Within<Rate, 1, { u64::MAX }>;
        type Large = Within<Bytes, 0, { u64::MAX }>;
        let cases = [
            (AnyTime::read("5 s").unwrap_err(), "write `5s`"),
            (AnyTime::read("30sec").unwrap_err(), "write `30s`"),
            (AnyTime::read("30S").unwrap_err(), "write `30s`"),
            (AnyTime::read("2min").unwrap_err(), "write `2m`"),
            (AnyTime::read("1.5s").unwrap_err(), "write `1500ms`"),
            (AnyTime::read("0.25h").unwrap_err(), "write `15m`"),
            (AnyTime::read("0.0001m").unwrap_err(), "write whole numbers, each with its unit"),
            (AnyTime::read("30").unwrap_err(), "with its unit, like `500ms`"),
            (Large::read("10m").unwrap_err(), "write `10MiB`"),
            (Large::read("10 MB").unwrap_err(), "write `10MB`"),
            (Large::read("10mb").unwrap_err(), "write `10MB`"),
            (Large::read("1.5MB").unwrap_err(), "with its unit, like `16KiB`"),
            (Positive::read("100r/s").unwrap_err(), "write `100/s`"),
            (Positive::read("100 rps").unwrap_err(), "write `100/s`"),
            (Positive::read("60/minute").unwrap_err(), "write `60/m`"),
            (Percent::read("80 %").unwrap_err(), "write `80%`"),
            (Percent::read(" 80%").unwrap_err(), "write `80%`"),
            (AnyTime::read("1m30s ").unwrap_err(), "write `1m30s`"),
            (Large::read("\t1MiB\n").unwrap_err(), "write `1MiB`"),
            (Positive::read("1/s ").unwrap_err(), "write `1/s`"),
            (Within::<BitRate, 0, 9>::read(" 1b/s").unwrap_err(), "write `1b/s`"),
        ];
        for (complaint, help) in cases {
            assert!(complaint.help.contains(help), "{}: {}", complaint.message, complaint.help);
        }
    }

    #[test]
    fn a_time_that_headers_count_in_seconds_has_no_part_of_one() {
        for (text, help) in [
            ("1ms", "write `1s`"),
            ("999ms", "write `1s`"),
            ("1999ms", "write `1s` or `2s`"),
            ("1m500ms", "write `60s` or `61s`"),
        ] {
            let complaint = AnySeconds::read(text).unwrap_err();
            assert_eq!(complaint.message, format!("`{text}` is not in whole seconds"));
            assert_eq!(complaint.help, help, "{text}");
        }
        for text in ["0s", "1000ms", "1m30s", "365d"] {
            assert!(AnySeconds::read(text).is_ok(), "{text}");
        }
        let none = WholeSeconds::<1, { u64::MAX }>::read("0s").unwrap_err();
        assert_eq!(none.help, "write a duration above zero");
        assert_eq!(AnySeconds::expected(), "a duration, in quotes: \"10s\"");
    }

    #[test]
    fn a_quantity_that_is_too_large_is_told_so() {
        for complaint in [
            AnyTime::read("1000000d").unwrap_err(),
            AnyTime::read("99999999999999999999s").unwrap_err(),
            Within::<Rate, 1, { u64::MAX }>::read("99999999999999999999/s").unwrap_err(),
            Within::<Bytes, 0, { u64::MAX }>::read("99999999999999999999MiB").unwrap_err(),
        ] {
            assert!(complaint.message.contains("is too large"), "{}", complaint.message);
            assert!(complaint.help.contains("a smaller one"), "{}", complaint.help);
        }
    }

    #[test]
    fn a_rate_of_too_many_decimals_is_told_the_steps_of_rates() {
        type Positive = Within<Rate, 1, { u64::MAX }>;
        for text in ["0.0001/s", "1.0005/s", "0.00001/m"] {
            let complaint = Positive::read(text).unwrap_err();
            let message = format!("`{text}` has more than three decimals");
            assert_eq!((complaint.message, &*complaint.help), (message, Rate::STEPS));
        }
        for text in ["1.00x1/s", "1.0001/x", "1.0001", "1.0001/"] {
            let complaint = Positive::read(text).unwrap_err();
            assert!(complaint.message.ends_with("is not a rate"), "{}", complaint.message);
        }
    }

    #[test]
    fn a_share_of_too_many_decimals_is_told_how_many_there_may_be() {
        let complaint = Percent::read("12.3456%").unwrap_err();
        assert_eq!(complaint.message, "`12.3456%` has more than three decimals");
        assert_eq!(complaint.help, "write it like `80%`");
    }

    #[test]
    fn a_rate_that_its_unit_would_cut_to_another_is_refused_with_what_it_would_be() {
        type Positive = Within<Rate, 1, { u64::MAX }>;
        assert!(Positive::read("0/s").unwrap_err().help.contains("above zero"));
        for (text, message) in [
            ("7/h", "`7/h` would be cut to 0.001/s"),
            ("3/h", "`3/h` would be cut to 0/s"),
            ("0.1/m", "`0.1/m` would be cut to 0.001/s"),
        ] {
            let complaint = Positive::read(text).unwrap_err();
            assert_eq!((&*complaint.message, &*complaint.help), (message, Rate::STEPS));
        }
        for text in ["3.6/h", "100/h", "1/m", "0.001/s", "30/m"] {
            assert!(Positive::read(text).is_ok(), "{text}");
        }
        assert_eq!(Positive::expected(), "a rate above zero, in quotes: \"100/s\"");
    }
}
