//! Figures as people read them: three digits that matter, the unit always there.

use loadline_core::{
    time::{Duration, civil_from_days},
    units::{Rate, Ratio},
};

/// Milliseconds: `0.38 ms`, `38.4 ms`, `371 ms`, `11076 ms`.
#[must_use]
pub fn millis(span: Duration) -> String {
    let ms = span.as_millis_f64();
    let decimals = match ms {
        ms if ms < 0.995 => 2,
        ms if ms < 99.95 => 1,
        _ => 0,
    };
    format!("{ms:.decimals$} ms")
}

/// A share in percent: `0.5 %`, `49.8 %`, `100 %`; one decimal unless it is whole.
#[must_use]
pub fn percent(share: Ratio) -> String {
    let percent = share.as_f64() * 100.0;
    if (percent - percent.round()).abs() < 0.05 {
        format!("{percent:.0} %")
    } else {
        format!("{percent:.1} %")
    }
}

/// A share in percent, always with one decimal: `0.5 %`, `100.0 %`.
pub(crate) fn percent_to_tenths(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// A bare number with three digits that matter: `0.384`, `3.84`, `38.4`, `384`, `3840`.
#[must_use]
pub fn digits(value: f64) -> String {
    let decimals = match value.abs() {
        size if size < 0.0005 => 0,
        size if size < 0.9995 => 3,
        size if size < 9.995 => 2,
        size if size < 99.95 => 1,
        _ => 0,
    };
    let text = format!("{value:.decimals$}");
    if text == "-0" { "0".to_owned() } else { text }
}

/// A number with five digits that matter, whole numbers whole: `150500`, `112.5`, `28.672`.
#[must_use]
pub fn five_digits(value: f64) -> String {
    if value.fract() == 0.0 {
        return format!("{value:.0}");
    }
    let before_point = value.abs().log10().floor() as i32 + 1;
    let decimals = (5 - before_point).clamp(0, MOST_DECIMALS) as usize;
    let text = format!("{value:.decimals$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// A rate: `0.5/s`, `40/s`, `38.8/s`, `12345/s`.
#[must_use]
pub fn per_second(rate: Rate) -> String {
    let text = digits(rate.as_per_sec_f64());
    let text = if text.contains('.') { text.trim_end_matches('0') } else { &text };
    format!("{}/s", text.trim_end_matches('.'))
}

/// A URL without its scheme and without a path that says nothing.
#[must_use]
pub fn bare_url(url: &str) -> &str {
    url.split_once("://").map_or(url, |(_, rest)| rest.trim_end_matches('/'))
}

/// An instant as `2026-11-21 07:20:14 UTC`.
#[must_use]
pub fn utc(unix_ms: u64) -> String {
    let (days, second) = (unix_ms / 86_400_000, unix_ms / 1_000 % 86_400);
    let (year, month, day) = civil_from_days(days.cast_signed());
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

/// More are beyond what a formula knows.
const MOST_DECIMALS: i32 = 6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_that_matter_and_the_unit() {
        let cases = [
            (384_500, "384 ms"),
            (11_075_500, "11076 ms"),
            (38_449, "38.4 ms"),
            (99_960, "100 ms"),
            (996, "1.0 ms"),
            (380, "0.38 ms"),
            (0, "0.00 ms"),
        ];
        for (micros, text) in cases {
            assert_eq!(millis(Duration::from_micros(micros)), text);
        }
    }

    #[test]
    fn a_bare_number_has_three_digits_that_matter() {
        let cases = [
            (0.0, "0"),
            (-0.0001, "0"),
            (0.38449, "0.384"),
            (0.9996, "1.00"),
            (38.449, "38.4"),
            (-384.4, "-384"),
            (11_075.5, "11076"),
        ];
        for (value, text) in cases {
            assert_eq!(digits(value), text);
        }
        assert_eq!(per_second(Rate::milli_per_sec(12_500)), "12.5/s");
        assert_eq!(per_second(Rate::per_sec(40)), "40/s");
        assert_eq!(per_second(Rate::per_sec(1_200)), "1200/s");
    }

    #[test]
    fn figures_of_formulas_have_five_digits_and_whole_numbers_all() {
        for (value, text) in [
            (0.0, "0"),
            (150_500.0, "150500"),
            (4_300.666, "4300.7"),
            (28.672, "28.672"),
            (1.262_32, "1.2623"),
            (460.8, "460.8"),
            (0.000_115, "0.000115"),
            (123_456.7, "123457"),
            (99.999_99, "100"),
            (-2.5, "-2.5"),
        ] {
            assert_eq!(five_digits(value), text);
        }
    }

    #[test]
    fn instants_are_dates() {
        let cases = [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_400_000, "2000-02-29 00:00:00 UTC"),
            (1_795_245_614_999, "2026-11-21 07:20:14 UTC"),
            (4_107_542_399_000, "2100-02-28 23:59:59 UTC"),
        ];
        for (instant, text) in cases {
            assert_eq!(utc(instant), text);
        }
    }

    #[test]
    fn a_whole_share_has_no_decimal() {
        assert_eq!(percent(Ratio::ONE), "100 %");
        assert_eq!(percent(Ratio::part(249, 500)), "49.8 %");
        assert_eq!(percent(Ratio::ZERO), "0 %");
    }
}
