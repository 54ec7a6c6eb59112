//! Values of Caddy: durations and sizes, which may have decimals, as ours.

use loadline_core::{time::Duration, units::Bytes};

/// A duration as our file writes it; none for what is none.
pub(super) fn duration(text: &str) -> Option<String> {
    if text == "0" {
        return Some("0s".to_owned());
    }
    if text.parse::<Duration>().is_ok() {
        return Some(text.to_owned());
    }
    let (mut nanos, mut rest) = (0_u128, text);
    while !rest.is_empty() {
        let (number, unit, behind) = amount(rest)?;
        let (_, size) = TIMES.iter().find(|(name, _)| *name == unit)?;
        nanos = nanos.checked_add(times(number, *size)?)?;
        rest = behind;
    }
    let nanos = u64::try_from(nanos).ok().filter(|nanos| *nanos > 0)?;
    Some(Duration::from_nanos(nanos).to_string())
}

/// The same of one above zero.
pub(super) fn positive(text: &str) -> Option<String> {
    duration(text).filter(|it| it.parse::<Duration>() != Ok(Duration::ZERO))
}

/// A size as our file writes it; none for what is none.
pub(super) fn size(text: &str) -> Option<String> {
    if text.parse::<Bytes>().is_ok() {
        return Some(text.to_owned());
    }
    let lower = text.to_ascii_lowercase();
    let (number, unit, behind) = amount(&lower)?;
    let (_, size) = SIZES.iter().find(|(name, _)| *name == unit.trim().trim_end_matches('b'))?;
    let bytes = u64::try_from(times(number, *size)?).ok()?;
    behind.is_empty().then(|| format!("{bytes}B"))
}

/// The number that a text begins with, its unit, and what is behind that.
fn amount(text: &str) -> Option<(&str, &str, &str)> {
    let is_number = |c: char| c.is_ascii_digit() || c == '.';
    let (number, rest) = text.split_at(text.find(|c: char| !is_number(c)).unwrap_or(text.len()));
    let (unit, behind) = rest.split_at(rest.find(is_number).unwrap_or(rest.len()));
    (!number.is_empty()).then_some((number, unit, behind))
}

/// A number with decimals times a unit, rounded down.
fn times(number: &str, unit: u128) -> Option<u128> {
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let digits = u32::try_from(part.len()).ok()?;
    let all: u128 = format!("{whole}{part}").parse().ok()?;
    Some(all.checked_mul(unit)? / 10_u128.checked_pow(digits)?)
}

const TIMES: [(&str, u128); 9] = [
    ("ns", 1),
    ("us", 1_000),
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];

/// Without the `b` behind them.
const SIZES: [(&str, u128); 9] = [
    ("", 1),
    ("k", 1_000),
    ("ki", 1 << 10),
    ("m", 1_000_000),
    ("mi", 1 << 20),
    ("g", 1_000_000_000),
    ("gi", 1 << 30),
    ("t", 1_000_000_000_000),
    ("ti", 1 << 40),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_sizes_with_decimals_are_written_without() {
        for (text, expected) in [
            ("10s", Some("10s")),
            ("1m30s", Some("1m30s")),
            ("0", Some("0s")),
            ("1.5s", Some("1500ms")),
            ("1.5h10m", Some("100m")),
            ("250\u{b5}s", Some("250us")),
            ("5", None),
            ("1.2.3s", None),
            ("soon", None),
        ] {
            assert_eq!(duration(text).as_deref(), expected, "{text}");
        }
        assert_eq!((positive("0s"), positive("1s").as_deref()), (None, Some("1s")));
        for (text, expected) in [
            ("10MB", Some("10MB")),
            ("1.5GB", Some("1500000000B")),
            ("10mb", Some("10000000B")),
            ("2 KiB", Some("2048B")),
            ("512", Some("512B")),
            ("many", None),
        ] {
            assert_eq!(size(text).as_deref(), expected, "{text}");
        }
    }
}
