//! What the commands that measure a series share: times as they print them, and where the record
//! goes.

use loadline_core::{time::Duration, units::UnitError};
use loadline_measure::record::{Document, Outcomes, ProbeOutcome, ProbeRecord, Record};

use super::output_file::OutputFile;

/// Milliseconds without the unit, as ping prints them: `0.045`, `1.22`, `38.4`, `111`.
pub(super) fn figure(time: Duration) -> String {
    let ms = time.as_millis_f64();
    let decimals = match ms {
        ms if ms < 0.9995 => 3,
        ms if ms < 9.995 => 2,
        ms if ms < 99.95 => 1,
        _ => 0,
    };
    format!("{ms:.decimals$}")
}

/// What became of one, in the words of the documentation.
pub(super) fn class(outcome: ProbeOutcome) -> &'static str {
    let mut one = Outcomes::default();
    outcome.count_in(&mut one);
    let mut classes = one.classes().into_iter();
    classes.find(|(_, count)| *count > 0).map_or("ok", |(name, _)| name)
}

/// The classes of failures that occurred, `2 timeout, 1 reset`; empty where all is well.
pub(super) fn failures(outcomes: &Outcomes) -> String {
    let failed = outcomes.classes().into_iter().filter(|(name, count)| *name != "ok" && *count > 0);
    failed.map(|(name, count)| format!("{count} {name}")).collect::<Vec<_>>().join(", ")
}

/// A span with its unit, or as ping and curl take it, seconds: `200ms`, `0.2`, `1`.
pub(super) fn span(text: &str) -> Result<Duration, UnitError> {
    match text.trim().parse::<f64>() {
        Ok(seconds) if (0.0..=MOST_SECONDS).contains(&seconds) => {
            Ok(Duration::from_nanos((seconds * 1e9).round() as u64))
        }
        _ => text.parse(),
    }
}

/// A name that may be too long for its column, with its middle left out.
pub(super) fn shortened(name: &str, width: usize) -> String {
    let letters: Vec<char> = name.chars().collect();
    if letters.len() <= width {
        return name.to_owned();
    }
    let (head, tail) = (width.saturating_sub(1) / 2, width / 2);
    let start: String = letters[..head].iter().collect();
    let end: String = letters[letters.len() - tail..].iter().collect();
    format!("{start}…{end}")
}

/// Prints the page, or as JSON the record, and writes the record to the file asked for.
pub(super) fn deliver(
    record: ProbeRecord,
    page: &str,
    json: bool,
    file: Option<OutputFile>,
) -> anyhow::Result<()> {
    if file.is_none() && !json {
        return print(page);
    }
    let text = serde_json::to_string_pretty(&Document::new(Record::Probe(record)))? + "\n";
    let printed = print(if json { &text } else { page });
    file.map(|mut file| file.write(&text)).transpose()?;
    printed
}

/// Prints the result.
pub(super) fn print(text: &str) -> anyhow::Result<()> {
    super::print(text)
}

/// A year: more is a slip of the hand.
const MOST_SECONDS: f64 = 366.0 * 86_400.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_printed_as_ping_does() {
        for (micros, text) in
            [(45, "0.045"), (999, "0.999"), (1_220, "1.22"), (38_440, "38.4"), (110_818, "111")]
        {
            assert_eq!(figure(Duration::from_micros(micros)), text);
        }
        assert_eq!(figure(Duration::from_nanos(999_600)), "1.00");
    }

    #[test]
    fn a_span_without_a_unit_is_seconds() {
        for (text, millis) in [("0.2", 200), ("1", 1_000), ("250ms", 250), ("1m", 60_000)] {
            assert_eq!(span(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["-1", "inf", "NaN", "1e99", "soon", ""] {
            assert!(span(text).unwrap_err().to_string().contains("500ms"), "{text}");
        }
    }

    #[test]
    fn failures_are_named_with_their_counts() {
        let outcomes = Outcomes { ok: 7, timeout: 2, reset: 1, ..Outcomes::default() };
        assert_eq!(failures(&outcomes), "2 timeout, 1 reset");
        assert_eq!(failures(&Outcomes { ok: 7, ..Outcomes::default() }), "");
        assert_eq!(class(ProbeOutcome::ConnectRefused), "connect refused");
    }

    #[test]
    fn a_long_name_keeps_its_ends() {
        assert_eq!(shortened("localhost", 9), "localhost");
        assert_eq!(shortened("eu.frontend.example.org", 11), "eu.fr…e.org");
    }
}
