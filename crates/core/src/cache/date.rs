//! HTTP dates: RFC 9110 section 5.6.7, all three forms.
//!
//! `Sun, 06 Nov 1994 08:49:37 GMT` is what is written; `Sunday, 06-Nov-94 08:49:37 GMT` and
//! `Sun Nov  6 08:49:37 1994` are read too. Names are read in any case; anything else that differs
//! from these forms is no date, since a date that is guessed keeps content alive that is not.

use crate::time::{Duration, UnixTime, civil_from_days};

/// Reads a date of any of the three forms. `now` places years of two digits: one that would be
/// more than 50 years ahead was in the century before.
#[must_use]
pub fn parse_date(text: &[u8], now: UnixTime) -> Option<UnixTime> {
    let comma = text.iter().position(|&byte| byte == b',');
    match comma {
        Some(3) => imf_date(text),
        Some(comma) => rfc850_date(text, comma, now),
        None => asctime_date(text),
    }
}

/// Writes a date of the preferred form. Years are 0 to 9999; a moment outside is written as the
/// nearest one inside.
#[must_use]
pub fn format_date(at: UnixTime) -> [u8; 29] {
    let secs = at.as_secs().clamp(YEAR_0_SECS, YEAR_9999_SECS);
    let (days, second) = (secs.div_euclid(DAY_SECS), secs.rem_euclid(DAY_SECS));
    let (year, month, day) = civil_from_days(days);
    let mut out = *b"Ddd, 00 Mmm 0000 00:00:00 GMT";
    // 1970-01-01 was a Thursday.
    let weekday = (days + 3).rem_euclid(7) as usize;
    out[..3].copy_from_slice(&WEEKDAYS[weekday].as_bytes()[..3]);
    out[8..11].copy_from_slice(MONTHS[month as usize - 1].as_bytes());
    write_digits(&mut out[5..7], day);
    write_digits(&mut out[12..16], year);
    write_digits(&mut out[17..19], second / 3_600);
    write_digits(&mut out[20..22], second / 60 % 60);
    write_digits(&mut out[23..25], second % 60);
    out
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`
fn imf_date(text: &[u8]) -> Option<UnixTime> {
    let right = text.len() == 29
        && is_weekday(&text[..3], 3)
        && holds(text, &[(4, b' '), (7, b' '), (11, b' '), (16, b' '), (25, b' ')])
        && text[26..].eq_ignore_ascii_case(b"GMT");
    if !right {
        return None;
    }
    let date = (digits(&text[12..16])?, month(&text[8..11])?, digits(&text[5..7])?);
    moment(date, &text[17..25])
}

/// `Sunday, 06-Nov-94 08:49:37 GMT`
fn rfc850_date(text: &[u8], comma: usize, now: UnixTime) -> Option<UnixTime> {
    let rest = text.get(comma + 1..)?;
    let right = is_weekday(&text[..comma], usize::MAX)
        && rest.len() == 23
        && holds(rest, &[(0, b' '), (3, b'-'), (7, b'-'), (10, b' '), (19, b' ')])
        && rest[20..].eq_ignore_ascii_case(b"GMT");
    if !right {
        return None;
    }
    let (month, day) = (month(&rest[4..7])?, digits(&rest[1..3])?);
    let (this_year, ..) = civil_from_days(now.as_secs().div_euclid(DAY_SECS));
    let year = this_year - this_year.rem_euclid(100) + digits(&rest[8..10])?;
    let at = |year| moment((year, month, day), &rest[11..19]);
    let limit = now + Duration::from_secs(50 * YEAR_SECS);
    // The nearest century that is not more than 50 years ahead.
    [year + 100, year, year - 100].into_iter().filter_map(at).find(|&at| at <= limit)
}

/// `Sun Nov  6 08:49:37 1994`
fn asctime_date(text: &[u8]) -> Option<UnixTime> {
    let right = text.len() == 24
        && is_weekday(&text[..3], 3)
        && holds(text, &[(3, b' '), (7, b' '), (10, b' '), (19, b' ')]);
    if !right {
        return None;
    }
    let day = if text[8] == b' ' { digits(&text[9..10])? } else { digits(&text[8..10])? };
    moment((digits(&text[20..24])?, month(&text[4..7])?, day), &text[11..19])
}

/// A date and `hh:mm:ss`; second 60 is a leap second and read as the next minute.
fn moment((year, month, day): (i64, i64, i64), clock: &[u8]) -> Option<UnixTime> {
    if !holds(clock, &[(2, b':'), (5, b':')]) {
        return None;
    }
    let (hour, minute) = (digits(&clock[..2])?, digits(&clock[3..5])?);
    let second = digits(&clock[6..8])?;
    let days = days_from_civil(year, month, day);
    let right = hour < 24 && minute < 60 && second <= 60;
    // A day that does not exist comes back as another one.
    (right && civil_from_days(days) == (year, month, day))
        .then(|| UnixTime::from_secs(days * DAY_SECS + hour * 3_600 + minute * 60 + second))
}

/// Days from 1970-01-01 to a date of the Gregorian calendar; Howard Hinnant's algorithm
/// (<https://howardhinnant.github.io/date_algorithms.html>).
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

fn holds(text: &[u8], at: &[(usize, u8)]) -> bool {
    at.iter().all(|&(at, byte)| text.get(at) == Some(&byte))
}

/// Whether `name` is a weekday, or its first `letters` letters.
fn is_weekday(name: &[u8], letters: usize) -> bool {
    WEEKDAYS.iter().any(|day| {
        let day = day.as_bytes();
        name.eq_ignore_ascii_case(&day[..letters.min(day.len())])
    })
}

fn month(name: &[u8]) -> Option<i64> {
    let at = MONTHS.iter().position(|month| name.eq_ignore_ascii_case(month.as_bytes()))?;
    Some(at as i64 + 1)
}

fn digits(text: &[u8]) -> Option<i64> {
    let all = text.iter().all(u8::is_ascii_digit);
    all.then(|| text.iter().fold(0, |number, digit| number * 10 + i64::from(digit - b'0')))
}

fn write_digits(out: &mut [u8], mut number: i64) {
    for digit in out.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

const DAY_SECS: i64 = 86_400;
const YEAR_SECS: u64 = 31_556_952;
const YEAR_0_SECS: i64 = -62_167_219_200;
const YEAR_9999_SECS: i64 = 253_402_300_799;
const WEEKDAYS: [&str; 7] =
    ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// 2026-11-24 12:00:00 UTC.
    const NOW: UnixTime = UnixTime::from_secs(1_795_521_600);

    fn secs(text: &str) -> Option<i64> {
        parse_date(text.as_bytes(), NOW).map(UnixTime::as_secs)
    }

    #[test]
    fn the_three_forms_of_the_rfc_are_the_same_moment() {
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
            "sUN, 06 nOV 1994 08:49:37 gMT",
        ] {
            assert_eq!(secs(text), Some(784_111_777), "{text}");
        }
    }

    #[test]
    fn a_year_of_two_digits_is_at_most_50_years_ahead() {
        assert_eq!(secs("Thursday, 18-Aug-50 02:01:18 GMT"), Some(2_544_400_878));
        assert_eq!(secs("Tuesday, 18-Aug-76 02:01:18 GMT"), Some(3_364_941_678));
        assert_eq!(secs("Thursday, 18-Aug-77 02:01:18 GMT"), Some(240_717_678));
        let eve = UnixTime::from_secs(946_684_799); // 1999-12-31 23:59:59
        let next = parse_date(b"Saturday, 01-Jan-00 00:00:00 GMT", eve).unwrap();
        assert_eq!(next.as_secs(), 946_684_800);
    }

    #[test]
    fn what_is_no_date_is_not_guessed() {
        for text in [
            "",
            "0",
            "-1",
            "Thu, 18 Aug 2050 02:01:18 UTC",
            "Thu, 18 Aug 2050 02:01:18 AEST",
            "Thu, 18 Aug 50 02:01:18 GMT",
            "Thu 18 Aug 2050 02:01:18 GMT",
            "Thu, 18  Aug  2050 02:01:18 GMT",
            "Thu, 18-Aug-2050 02:01:18 GMT",
            "Thu, 18 Aug 2050 02.01.18 GMT",
            "Thu, 18 Aug 2050 2:01:18 GMT",
            "Thu, 30 Feb 2050 02:01:18 GMT",
            "Thu, 18 Aug 2050 24:01:18 GMT",
            "Thu, 00 Aug 2050 02:01:18 GMT",
            "Xyz, 18 Aug 2050 02:01:18 GMT",
            "Thu, 18 Aug 2050 02:01:18 GMT ",
            "Thu, 18 Aug 2050 02:01:18 +000",
            ",",
            "Thursday,",
        ] {
            assert_eq!(secs(text), None, "{text}");
        }
        assert_eq!(parse_date(&[0xff; 29], NOW), None);
    }

    #[test]
    fn leap_days_and_leap_seconds_exist() {
        assert_eq!(secs("Thu, 29 Feb 2024 00:00:00 GMT"), Some(1_709_164_800));
        assert_eq!(secs("Wed, 29 Feb 2023 00:00:00 GMT"), None);
        assert_eq!(secs("Sat, 31 Dec 2016 23:59:60 GMT"), Some(1_483_228_800));
    }

    #[test]
    fn far_moments_are_written_as_the_nearest_date() {
        assert_eq!(&format_date(UnixTime::EPOCH), b"Thu, 01 Jan 1970 00:00:00 GMT");
        let end = format_date(UnixTime::from_millis(i64::MAX));
        assert_eq!(&end, b"Fri, 31 Dec 9999 23:59:59 GMT");
        let start = format_date(UnixTime::from_millis(i64::MIN));
        assert_eq!(&start, b"Sat, 01 Jan 0000 00:00:00 GMT");
    }

    proptest! {
        #[test]
        fn a_date_reads_what_it_writes(secs in YEAR_0_SECS..=YEAR_9999_SECS) {
            let at = UnixTime::from_secs(secs);
            prop_assert_eq!(parse_date(&format_date(at), NOW), Some(at));
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(text in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = parse_date(&text, NOW);
        }
    }
}
