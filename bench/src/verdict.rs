//! One line for each thing that is judged: `PASS name measured (target)`.

use std::fmt;

use serde_json::{Value, json};

/// What was measured against what was wanted.
#[derive(Clone, Debug)]
pub(crate) struct Verdict {
    name: String,
    measured: f64,
    unit: &'static str,
    target: Target,
    /// Makes the verdict fail whatever was measured: the measurement itself went wrong.
    flaw: Option<String>,
}

/// What a figure is held against.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    AtMost(f64),
    AtLeast(f64),
    /// What would be good, without a judgement.
    Wish(f64),
}

impl Verdict {
    pub(crate) fn new(name: impl Into<String>, measured: f64, target: Target) -> Self {
        Self { name: name.into(), measured, unit: "", target, flaw: None }
    }

    pub(crate) fn unit(mut self, unit: &'static str) -> Self {
        self.unit = unit;
        self
    }

    /// Fails the verdict for a measurement that went wrong, if it did.
    pub(crate) fn flaw(mut self, flaw: Option<String>) -> Self {
        self.flaw = flaw;
        self
    }

    /// A figure that is not a number reaches no target.
    pub(crate) fn failed(&self) -> bool {
        let judged = !matches!(self.target, Target::Wish(_));
        (judged && !self.target.reached(self.measured)) || self.flaw.is_some()
    }

    pub(crate) fn to_json(&self) -> Value {
        json!({
            "name": self.name,
            "measured": self.measured,
            "unit": self.unit,
            "target": self.target.to_string(),
            "failed": self.failed(),
            "flaw": self.flaw,
        })
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.target {
            _ if self.failed() => "FAIL",
            Target::Wish(_) => "INFO",
            _ => "PASS",
        };
        let (name, target, unit) = (&self.name, self.target, self.unit);
        write!(f, "{word} {name} {}{unit} ({target}{unit})", target.told_apart(self.measured))?;
        self.flaw.as_ref().map_or(Ok(()), |flaw| write!(f, ": {flaw}"))
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(limit) => write!(f, "<= {}", Figure(*limit)),
            Self::AtLeast(limit) => write!(f, ">= {}", Figure(*limit)),
            Self::Wish(limit) => write!(f, "good is <= {}", Figure(*limit)),
        }
    }
}

/// The flaw of a figure whose client was late, by so many milliseconds at worst: it offered
/// something else than was planned, or nothing at all.
pub(crate) fn late_client(lag: f64, most: f64) -> Option<String> {
    if lag.is_nan() {
        return Some("the client asked nothing".to_owned());
    }
    (lag > most).then(|| format!("the client was {lag:.0} ms late"))
}

/// A number with as many decimals as its size deserves.
struct Figure(f64);

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.0;
        let decimals = if value == value.trunc() && value.abs() >= 2.0 || value == 0.0 {
            0
        } else if value.abs() < 10.0 {
            2
        } else {
            1
        };
        write!(f, "{value:.decimals$}")
    }
}

impl Target {
    /// Whether a figure is good; what is only a wish is judged the same, and told apart elsewhere.
    fn reached(self, measured: f64) -> bool {
        match self {
            Self::AtMost(limit) | Self::Wish(limit) => measured <= limit,
            Self::AtLeast(limit) => measured >= limit,
        }
    }

    /// The measured figure, exact enough to be told from the limit that it missed by a hair.
    fn told_apart(self, measured: f64) -> String {
        let short = Figure(measured).to_string();
        let looks_reached = short.parse().is_ok_and(|shown| self.reached(shown));
        if looks_reached && !self.reached(measured) { format!("{measured:.4}") } else { short }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_one_line_with_what_was_measured_and_wanted() {
        let line = |measured, target| Verdict::new("small", measured, target).to_string();
        assert_eq!(line(0.66, Target::AtMost(0.75)), "PASS small 0.66 (<= 0.75)");
        assert_eq!(line(0.76, Target::AtMost(0.75)), "FAIL small 0.76 (<= 0.75)");
        assert_eq!(line(8.0, Target::AtMost(0.0)), "FAIL small 8 (<= 0)");
        assert_eq!(line(1.2, Target::Wish(1.0)), "INFO small 1.20 (good is <= 1.00)");
        assert_eq!(line(0.9496, Target::AtLeast(0.95)), "FAIL small 0.9496 (>= 0.95)");
        assert_eq!(line(1.2, Target::AtLeast(0.95)), "PASS small 1.20 (>= 0.95)");
        assert_eq!(line(0.7004, Target::AtMost(0.7)), "FAIL small 0.7004 (<= 0.70)");
        let average = Verdict::new("average", 54.71, Target::AtMost(54.0)).unit(" ms");
        assert_eq!(average.to_string(), "FAIL average 54.7 ms (<= 54 ms)");
    }

    #[test]
    fn a_flaw_fails_even_what_is_only_reported() {
        let flawed = Verdict::new("a", 0.5, Target::Wish(1.0)).flaw(Some("3 errors".to_owned()));
        assert_eq!(flawed.to_string(), "FAIL a 0.50 (good is <= 1.00): 3 errors");
        assert!(!Verdict::new("a", 2.0, Target::Wish(1.0)).failed());
    }

    #[test]
    fn a_client_that_was_late_or_asked_nothing_is_a_flaw() {
        assert_eq!(late_client(20.0, 20.0), None);
        assert_eq!(late_client(20.4, 20.0).as_deref(), Some("the client was 20 ms late"));
        assert!(late_client(f64::NAN, 20.0).is_some());
    }

    #[test]
    fn what_is_not_a_number_fails() {
        assert!(Verdict::new("a", f64::NAN, Target::AtMost(1.0)).failed());
    }
}
