//! A published measurement, made again: its runs, what was published beside what was measured,
//! and the verdicts.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

use super::{LoadRecord, Record, StudySimulation};

/// What a study measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StudyRecord {
    /// Which study.
    pub title: String,
    /// Whether every verdict is a pass.
    pub pass: bool,
    /// The verdicts, in the order they were given.
    pub verdicts: Vec<StudyVerdict>,
    /// The runs of a study that consists of load runs alone, in the order they were made.
    #[serde(default)]
    pub runs: Vec<StudyRun>,
    /// How it was made, where it was made in the lab.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lab: Option<Box<StudyLab>>,
}

/// A figure, its target, and whether one meets the other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StudyVerdict {
    /// What was judged.
    pub name: String,
    /// What was measured, with its unit.
    pub measured: String,
    /// What was asked for, with its unit.
    pub target: String,
    /// Whether `measured` meets `target`.
    pub pass: bool,
}

/// One load run and its name in the study.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StudyRun {
    /// For example "one region, 200/s".
    pub name: String,
    /// What was measured.
    pub record: LoadRecord,
}

/// A study in the lab: what was done, under which conditions, and every figure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StudyLab {
    /// The name of the study's file, without its ending.
    pub name: String,
    /// What it is about, a paragraph each.
    pub about: Vec<String>,
    /// The documents that published it.
    pub sources: Vec<String>,
    /// Whether it was shortened.
    pub quick: bool,
    /// So many times faster than published; figures are scaled back by it.
    pub speed: f64,
    /// What everything random was drawn from.
    pub seed: u64,
    /// When it began, in milliseconds since 1970-01-01 UTC.
    pub started_unix_ms: u64,
    /// How long it took.
    pub elapsed_s: f64,
    /// The machine, its kernel and the versions of the programs, by name.
    pub environment: BTreeMap<String, String>,
    /// The variants, those left out included.
    pub rows: Vec<StudyRow>,
    /// Round trips of the lab before the load, asked for and measured.
    pub delays: Vec<StudyDelay>,
    /// Every run, in the order they were made.
    pub phases: Vec<StudyPhase>,
    /// Published beside measured.
    pub figures: Vec<StudyFigure>,
    /// Published figures held against each other.
    pub checks: Vec<StudyCheck>,
    /// What is drawn.
    pub plots: Vec<StudyPlot>,
    /// What the simulator says of it; none where it was not asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulation: Option<Box<StudySimulation>>,
}

/// A variant of a study.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StudyRow {
    /// As in the file.
    pub name: String,
    /// As it is called.
    pub title: String,
    /// The tool it shows, where it is not loadline; such a row is not judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    /// Why it was left out; none where it was run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipped: Option<String>,
}

/// The round trip between two hosts before the load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StudyDelay {
    /// The row.
    pub row: String,
    /// The two hosts.
    pub between: [String; 2],
    /// As the file has it.
    pub asked_ms: f64,
    /// The median of what was measured.
    pub p50_ms: f64,
    /// 90 % of what was measured are at most this.
    pub p90_ms: f64,
    /// How many were measured.
    pub count: u64,
}

/// One run of one phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StudyPhase {
    /// The row.
    pub row: String,
    /// The phase.
    pub phase: String,
    /// The values it ran for.
    pub at: BTreeMap<String, String>,
    /// Which of its repetitions, counted from 1.
    pub repeat: u32,
    /// When it began, in milliseconds since 1970-01-01 UTC.
    pub started_unix_ms: u64,
    /// How long it took.
    pub elapsed_s: f64,
    /// The record that its command printed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<Box<Record>>,
    /// The records of the commands that ran beside it, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub beside: BTreeMap<String, Record>,
    /// Figures found in an output that is no record, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub readings: BTreeMap<String, Reading>,
    /// The share of the machine's CPU that its host took meanwhile.
    pub steal_share: f64,
    /// How late the router was with 99 % of the packets meanwhile; none where none was late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lateness_p99_ms: Option<f64>,
    /// What makes it invalid; empty in a valid one. An invalid run is in no figure.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<String>,
    /// Why it gave nothing; none where it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// Whether it was not run at all, for want of a tool or since the study ended early; its
    /// figures are not judged.
    #[serde(default)]
    pub skipped: bool,
}

/// A figure that was found: a number or a word.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Reading {
    /// A number.
    Number(f64),
    /// Anything else.
    Text(String),
}

/// One figure of one row: published beside measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StudyFigure {
    /// As formulas call it.
    pub name: String,
    /// As it is called.
    pub title: String,
    /// The row; empty for a figure over several rows.
    pub row: String,
    /// Its unit; empty for a bare number.
    pub unit: String,
    /// What was published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published: Option<f64>,
    /// Where: the document and the place in it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// What was measured, scaled back to the speed of what was published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<Reading>,
    /// How many runs are in it.
    pub runs: u64,
    /// How many were invalid and are not.
    pub invalid: u64,
    /// How many gave nothing; one is enough to fail a figure that is judged.
    #[serde(default)]
    pub failed: u64,
    /// What it has to be, in words; empty where it is only shown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub target: String,
    /// What can be said of it.
    pub finding: StudyFinding,
    /// Why, where that needs saying.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// What can be said of a figure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum StudyFinding {
    /// It is what it has to be.
    Pass,
    /// It is not.
    Fail,
    /// It is not expected to be, and `reason` says why.
    NotReproduced,
    /// It is shown and not judged.
    #[default]
    Shown,
    /// All its runs were invalid.
    Invalid,
}

/// A published figure worked out from others that were published with it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StudyCheck {
    /// What is worked out.
    pub title: String,
    /// From what.
    pub formula: String,
    /// What comes out.
    pub computed: f64,
    /// What is printed.
    pub printed: f64,
    /// The unit of both.
    pub unit: String,
    /// Where it is printed.
    pub source: String,
    /// Whether both agree to the digits that are printed.
    pub agrees: bool,
    /// What follows from it.
    pub note: String,
}

/// A picture of the report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StudyPlot {
    /// What it shows.
    pub title: String,
    /// How it is drawn.
    pub kind: StudyPlotKind,
    /// The phase it shows.
    pub phase: String,
    /// The variable along x.
    pub x: String,
    /// What the variable is, with its unit.
    pub x_title: String,
    /// The quantity and its unit.
    pub unit: String,
    /// The lines: a name and the points, scaled back to the speed of what was published.
    pub lines: Vec<StudyLine>,
    /// The rows it shows.
    pub rows: Vec<String>,
    /// The values of the phase it shows; all where empty.
    pub at: BTreeMap<String, String>,
}

/// How a picture is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum StudyPlotKind {
    /// Lines over a variable of the phase.
    #[default]
    Curve,
    /// Groups of bars, one group for each value of the variable.
    Bars,
    /// Single requests by their number.
    Series,
    /// A run and the machine over time.
    Time,
    /// Published figures beside measured ones.
    Beside,
}

/// A line of a picture, or a colour of its bars.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StudyLine {
    /// Its name.
    pub name: String,
    /// What stands at x, and the value; none where nothing valid was measured.
    pub points: Vec<(String, Option<f64>)>,
}

impl StudyVerdict {
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

/// Exactly one line, `PASS name measured (target)` or `FAIL name measured (target)`, whatever its
/// parts contain, so that a script can count lines.
impl fmt::Display for StudyVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [name, measured, target] =
            [&self.name, &self.measured, &self.target].map(|part| one_line(part));
        write!(f, "{} {name} {measured} ({target})", self.word())
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

impl StudyPhase {
    /// Whether its figures may be used.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.faults.is_empty() && self.failed.is_none()
    }
}

impl StudyLab {
    /// A figure as measured at this lab's speed, as it is at the speed of what was published:
    /// times grow, rates shrink, everything else stays.
    #[must_use]
    pub fn scaled(speed: f64, value: f64, unit: &str) -> f64 {
        match unit {
            "ns" | "us" | "ms" | "s" | "min" => value * speed,
            rate if rate.ends_with("/s") => value / speed,
            _ => value,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_grow_with_the_speed_and_rates_shrink() {
        let scaled = |value, unit| StudyLab::scaled(10.0, value, unit);
        assert_eq!([scaled(38.0, "ms"), scaled(200.0, "/s"), scaled(7.0, "%")], [380.0, 20.0, 7.0]);
    }

    #[test]
    fn a_verdict_is_one_line() {
        let pass = StudyVerdict::new("run 1 average", "58.1 ms", "at most 61.2 ms", true);
        assert_eq!(pass.to_string(), "PASS run 1 average 58.1 ms (at most 61.2 ms)");
        let fail = StudyVerdict { pass: false, ..pass };
        assert_eq!(fail.to_string(), "FAIL run 1 average 58.1 ms (at most 61.2 ms)");
    }

    #[test]
    fn a_line_break_inside_a_part_does_not_make_two_lines() {
        let verdict = StudyVerdict::new("a\nb", "1\r\n2", "3", true);
        assert_eq!(verdict.to_string(), "PASS a b 1 2 (3)");
    }

    #[test]
    fn a_study_of_before_the_lab_still_reads() {
        let text = r#"{"title":"t","pass":true,"verdicts":[],"runs":[]}"#;
        let record: StudyRecord = serde_json::from_str(text).unwrap();
        assert_eq!(record.lab, None);
        let reading: Vec<Reading> = serde_json::from_str(r#"[1.5,"network"]"#).unwrap();
        assert_eq!(reading, [Reading::Number(1.5), Reading::Text("network".into())]);
    }
}
