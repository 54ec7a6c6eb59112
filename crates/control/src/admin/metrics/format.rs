//! The two text formats, and which of them a request gets.
//!
//! Prometheus asks for OpenMetrics first and for its own format next; curl asks for anything and
//! gets what promtool and most other readers know, as from programs with Prometheus' own library.

use std::{fmt, mem};

use memchr::memchr;

/// How metrics are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// The text format of Prometheus, version 0.0.4.
    Prometheus,
    /// <https://prometheus.io/docs/specs/om/open_metrics_spec/>, version 1.0.0.
    OpenMetrics,
}

impl Format {
    /// What the values of `Accept` prefer (RFC 9110, section 12.5.1).
    pub(crate) fn preferred<'a>(accept: impl Iterator<Item = &'a str>) -> Self {
        let (mut text, mut open_metrics) = (None, 0.0);
        for range in accept.flat_map(|value| value.split(',')) {
            let mut parts = range.split(';').map(str::trim);
            let media = parts.next().unwrap_or_default();
            let quality = parts.find_map(|it| it.strip_prefix("q=")).map_or(Some(1.0), number);
            let Some(quality) = quality else { continue };
            if media.eq_ignore_ascii_case("application/openmetrics-text") {
                open_metrics = quality.max(open_metrics);
            } else if ["text/plain", "text/*", "*/*"]
                .iter()
                .any(|it| media.eq_ignore_ascii_case(it))
            {
                text = Some(quality.max(text.unwrap_or_default()));
            }
        }
        if open_metrics > text.unwrap_or_default() { Self::OpenMetrics } else { Self::Prometheus }
    }

    /// The name of the format.
    pub(crate) const fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

fn number(quality: &str) -> Option<f64> {
    quality.parse().ok().filter(|it| (0.0..=1.0).contains(it))
}

/// Turns OpenMetrics, as it is written, into the text format of Prometheus: there the head of a
/// counter has the name of its samples, and nothing marks the end. Samples pass as they are.
pub(super) struct Prometheus<'a, W> {
    to: &'a mut W,
    line: Line,
    /// A comment, as far as it has been written.
    comment: String,
    help: String,
}

/// The line that is being written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Line {
    Empty,
    Sample,
    Comment,
}

impl<'a, W: fmt::Write> Prometheus<'a, W> {
    pub(super) const fn new(to: &'a mut W) -> Self {
        Self { to, line: Line::Empty, comment: String::new(), help: String::new() }
    }

    fn end_comment(&mut self) -> fmt::Result {
        let line = mem::take(&mut self.comment);
        if let Some(rest) = line.strip_prefix("# HELP ") {
            self.help = rest.to_owned();
        } else if let Some((name, kind)) =
            line.strip_prefix("# TYPE ").and_then(|it| it.split_once(' '))
        {
            let suffix = if kind == "counter" { "_total" } else { "" };
            let help = self.help.strip_prefix(name).unwrap_or_default();
            write!(self.to, "# HELP {name}{suffix}{help}\n# TYPE {name}{suffix} {kind}\n")?;
        } else if line != "# EOF" {
            writeln!(self.to, "{line}")?;
        }
        Ok(())
    }
}

impl<W: fmt::Write> fmt::Write for Prometheus<'_, W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text;
        while let Some(first) = rest.as_bytes().first() {
            let end = memchr(b'\n', rest.as_bytes());
            if self.line == Line::Empty {
                self.line = if *first == b'#' { Line::Comment } else { Line::Sample };
            }
            let (part, behind) = rest.split_at(end.map_or(rest.len(), |end| end + 1));
            if self.line == Line::Sample {
                self.to.write_str(part)?;
            } else {
                self.comment.push_str(&part[..end.unwrap_or(part.len())]);
            }
            if end.is_some() {
                let ended = mem::replace(&mut self.line, Line::Empty);
                if ended == Line::Comment {
                    self.end_comment()?;
                }
            }
            rest = behind;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use fmt::Write as _;

    use super::*;

    #[test]
    fn curl_and_promtool_get_what_they_read_and_prometheus_what_it_prefers() {
        let scrape = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,\
                      application/openmetrics-text;version=0.0.1;q=0.4,\
                      text/plain;version=1.0.0;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1";
        for (accept, format) in [
            (&[][..], Format::Prometheus),
            (&["*/*"], Format::Prometheus),
            (&["text/plain"], Format::Prometheus),
            (&["text/html,application/xml;q=0.9,*/*;q=0.8"], Format::Prometheus),
            (&[scrape], Format::OpenMetrics),
            (&["application/openmetrics-text"], Format::OpenMetrics),
            (&["text/plain;q=0.5", "application/OpenMetrics-Text"], Format::OpenMetrics),
            (&["application/openmetrics-text; q=0, text/plain; q=0"], Format::Prometheus),
            (&["application/openmetrics-text;q=0.2,text/plain;version=0.0.4"], Format::Prometheus),
            (&["application/openmetrics-text;q=none,;;,"], Format::Prometheus),
        ] {
            assert_eq!(Format::preferred(accept.iter().copied()), format, "{accept:?}");
        }
    }

    #[test]
    fn counters_are_announced_by_the_name_of_their_samples() {
        let text = "# HELP a What it counts.\n# TYPE a counter\na_total{b=\"c\"} 1\n\
                    # HELP d Other.\n# TYPE d gauge\nd 2.0\n# EOF\n";
        let same = "# HELP a_total What it counts.\n# TYPE a_total counter\na_total{b=\"c\"} 1\n\
                    # HELP d Other.\n# TYPE d gauge\nd 2.0\n";
        for length in [1, 2, 7, text.len()] {
            let mut written = String::new();
            let mut prometheus = Prometheus::new(&mut written);
            for piece in text.as_bytes().chunks(length) {
                prometheus.write_str(str::from_utf8(piece).unwrap()).unwrap();
            }
            assert_eq!(written, same, "written {length} bytes at a time");
        }
    }
}
