//! Timestamps as text. Lines of one second share theirs, which is formatted once.

use std::io::Write as _;

use loadline_core::time::civil_from_days;

/// How a point in time is written, always in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// RFC 3339 with milliseconds: `2026-11-21T04:00:00.123Z`.
    Rfc3339,
    /// The Common Log Format: `21/Nov/2026:04:00:00 +0000`.
    Common,
}

/// A writer of points in time that remembers the last second.
#[derive(Debug)]
pub(super) struct Stamps {
    style: Style,
    second: u64,
    text: Vec<u8>,
}

impl Stamps {
    pub(super) const fn new(style: Style) -> Self {
        Self { style, second: u64::MAX, text: Vec::new() }
    }

    /// Adds the point in time so many milliseconds after 1970 began.
    pub(super) fn add(&mut self, out: &mut Vec<u8>, millis: u64) {
        let second = millis / 1000;
        if second != self.second {
            self.second = second;
            self.text = self.style.text(second);
        }
        out.extend_from_slice(&self.text);
        match self.style {
            Style::Rfc3339 => {
                let digits = [millis / 100, millis / 10, millis].map(|it| b'0' + (it % 10) as u8);
                out.push(b'.');
                out.extend_from_slice(&digits);
                out.push(b'Z');
            }
            Style::Common => out.extend_from_slice(b" +0000"),
        }
    }
}

impl Style {
    fn text(self, second: u64) -> Vec<u8> {
        let (year, month, day) = civil_from_days((second / 86_400).cast_signed());
        let (hour, minute, second) = (second / 3600 % 24, second / 60 % 60, second % 60);
        let mut text = Vec::new();
        // Writing into memory cannot fail.
        let _ = match self {
            Self::Rfc3339 => write!(text, "{year:04}-{month:02}-{day:02}T"),
            Self::Common => write!(text, "{day:02}/{}/{year:04}:", MONTHS[month as usize - 1]),
        };
        let _ = write!(text, "{hour:02}:{minute:02}:{second:02}");
        text
    }
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

#[cfg(test)]
mod tests {
    use super::*;

    fn told(style: Style, millis: u64) -> String {
        let mut out = Vec::new();
        Stamps::new(style).add(&mut out, millis);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn timestamps_know_leap_years() {
        let at = |secs: u64| told(Style::Rfc3339, secs * 1000);
        assert_eq!(at(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(at(951_782_400), "2000-02-29T00:00:00.000Z");
        assert_eq!(at(1_795_233_599), "2026-11-21T03:59:59.000Z");
        assert_eq!(told(Style::Common, 1_795_233_599_042), "21/Nov/2026:03:59:59 +0000");
    }

    #[test]
    fn the_remembered_second_is_not_told_for_another() {
        let mut stamps = Stamps::new(Style::Rfc3339);
        let mut out = Vec::new();
        for millis in [7, 999, 1000, 123] {
            stamps.add(&mut out, millis);
        }
        let seconds: Vec<&str> = std::str::from_utf8(&out).unwrap().split_terminator('Z').collect();
        let ends: Vec<&str> = seconds.iter().map(|it| &it[17..]).collect();
        assert_eq!(ends, ["00.007", "00.999", "01.000", "00.123"]);
    }
}
