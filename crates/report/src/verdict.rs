//! Whether a figure is where it should be, as one line of text.

use std::fmt;

/// A measured figure, its target, and whether one meets the other.
///
/// Prints as exactly one line, `PASS name measured (target)` or `FAIL name measured (target)`,
/// whatever its parts contain, so that a script can count lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// What was judged.
    pub name: String,
    /// What was measured, with its unit.
    pub measured: String,
    /// What was asked for, with its unit.
    pub target: String,
    /// Whether `measured` meets `target`.
    pub pass: bool,
}

impl Verdict {
    /// The verdict on a figure that was judged elsewhere.
    #[must_use]
    pub fn new(
        name: impl Into<String>,
        measured: impl Into<String>,
        target: impl Into<String>,
        pass: bool,
    ) -> Self {
        Self { name: name.into(), measured: measured.into(), target: target.into(), pass }
    }

    /// `PASS` or `FAIL`.
    #[must_use]
    pub fn word(&self) -> &'static str {
        if self.pass { "PASS" } else { "FAIL" }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [name, measured, target] =
            [&self.name, &self.measured, &self.target].map(|part| one_line(part));
        write!(f, "{} {name} {measured} ({target})", self.word())
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_one_line() {
        let pass = Verdict::new("run 1 average", "58.1 ms", "at most 61.2 ms", true);
        assert_eq!(pass.to_string(), "PASS run 1 average 58.1 ms (at most 61.2 ms)");
        let fail = Verdict { pass: false, ..pass };
        assert_eq!(fail.to_string(), "FAIL run 1 average 58.1 ms (at most 61.2 ms)");
    }

    #[test]
    fn a_line_break_inside_a_part_does_not_make_two_lines() {
        let verdict = Verdict::new("a\nb", "1\r\n2", "3", true);
        assert_eq!(verdict.to_string(), "PASS a b 1 2 (3)");
    }
}
