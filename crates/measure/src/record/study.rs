//! A published measurement, made again: its runs, what was published beside what was measured,
//! and the verdicts.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

use super::{LoadRecord, Record, StudySimulation};

/// Results of a study.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StudyRecord {
    /// Title of the study.
    pub title: String,
    /// Whether all verdicts pass.
    pub pass: bool,
    /// Verdicts, in the order of the study.
    pub verdicts: Vec<StudyVerdict>,
    /// Runs of a study that has only load runs (`loadline demo`), in order.
    #[serde(default)]
    pub runs: Vec<StudyRun>,
    /// Details of a study in the lab; absent for others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lab: Option<Box<StudyLab>>,
}

/// A figure with its target, and whether it meets it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StudyVerdict {
    /// Name of the figure.
    pub name: String,
    /// Measured value with its unit.
    pub measured: String,
    /// Target with its unit.
    pub target: String,
    /// Whether `measured` meets `target`; false if that could not be judged.
    pub pass: bool,
    /// Whether the figure could not be judged, because runs that it needs are invalid.
    #[serde(default)]
    pub invalid: bool,
}

/// A load run of a study.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StudyRun {
    /// Name of the run, for example "one region, 200/s".
    pub name: String,
    /// Record of the load run.
    pub record: LoadRecord,
}

/// A study in the lab: its runs, their conditions and all figures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StudyLab {
    /// Name of the study's file, without its extension.
    pub name: String,
    /// Description of the study, one item for each paragraph.
    pub about: Vec<String>,
    /// Source documents.
    pub sources: Vec<String>,
    /// Whether the study was shortened (`--quick`).
    pub quick: bool,
    /// Speed compared with the published measurement; figures are scaled back by it.
    pub speed: f64,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Start, in milliseconds since 1970-01-01 UTC.
    pub started_unix_ms: u64,
    /// Duration in seconds.
    pub elapsed_s: f64,
    /// Machine, kernel and versions of programs, by name.
    pub environment: BTreeMap<String, String>,
    /// Rows (variants) of the study, skipped ones included.
    pub rows: Vec<StudyRow>,
    /// Round-trip times of the lab before the load, configured and measured.
    pub delays: Vec<StudyDelay>,
    /// All runs, in order.
    pub phases: Vec<StudyPhase>,
    /// Figures: published and measured values.
    pub figures: Vec<StudyFigure>,
    /// Consistency checks of published figures.
    pub checks: Vec<StudyCheck>,
    /// Plots of the report.
    pub plots: Vec<StudyPlot>,
    /// Simulation of the study; absent without `--sim`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulation: Option<Box<StudySimulation>>,
}

/// A row (variant) of a study.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StudyRow {
    /// Name of the row in the file.
    pub name: String,
    /// As it is called.
    pub title: String,
    /// Peer: the tool of this row, if it is not loadline. Rows of peers are not judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    /// Why the row was skipped; absent if it was run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipped: Option<String>,
}

/// Round-trip time between two hosts before the load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StudyDelay {
    /// The row.
    pub row: String,
    /// The two hosts.
    pub between: [String; 2],
    /// Configured round-trip time in milliseconds.
    pub asked_ms: f64,
    /// Measured median in milliseconds.
    pub p50_ms: f64,
    /// Measured 90th percentile in milliseconds.
    pub p90_ms: f64,
    /// Number of measurements.
    pub count: u64,
}

/// A run of a phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StudyPhase {
    /// The row.
    pub row: String,
    /// The phase.
    pub phase: String,
    /// Values of the phase's `for` variables in this run.
    pub at: BTreeMap<String, String>,
    /// Number of the repetition, from 1.
    pub repeat: u32,
    /// Start, in milliseconds since 1970-01-01 UTC.
    pub started_unix_ms: u64,
    /// Duration in seconds.
    pub elapsed_s: f64,
    /// Record that the command printed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<Box<Record>>,
    /// Records of commands that ran in parallel (`beside`), by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub beside: BTreeMap<String, Record>,
    /// Figures taken from an output that is not a record (`measure`), by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub readings: BTreeMap<String, Reading>,
    /// CPU steal during the run: share of the machine's CPU that its host took.
    pub steal_share: f64,
    /// Lateness of the WAN router with packets during the run: 99th percentile in milliseconds;
    /// absent if none was late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lateness_p99_ms: Option<f64>,
    /// Why the run is invalid; absent if it is valid. Invalid runs count in no figure.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<String>,
    /// Why the run has no result; absent if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// Whether the run was skipped, because a tool is missing or the study ended early. Its figures
    /// are not judged.
    #[serde(default)]
    pub skipped: bool,
}

/// Value of a figure: a number or a text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Reading {
    /// A number.
    Number(f64),
    /// A text.
    Text(String),
}

/// A figure of a row: published and measured value.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StudyFigure {
    /// Name of the figure in formulas.
    pub name: String,
    /// As it is called.
    pub title: String,
    /// Row (variant) of the study; empty for a figure over several rows.
    pub row: String,
    /// Unit; empty for a bare number.
    pub unit: String,
    /// Published value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published: Option<f64>,
    /// Source of the published value: document and place in it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// Measured value, scaled back to the speed of the published measurement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<Reading>,
    /// Number of runs in the figure.
    pub runs: u64,
    /// Number of invalid runs, which are left out.
    pub invalid: u64,
    /// Number of runs without a result; one is enough to fail a figure that is judged.
    #[serde(default)]
    pub failed: u64,
    /// Target in words; absent if the figure is not judged.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub target: String,
    /// Verdict on the figure.
    pub finding: StudyFinding,
    /// Reason for the verdict; absent if there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// Verdict on a figure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum StudyFinding {
    /// The figure meets its target.
    Pass,
    /// The figure misses its target.
    Fail,
    /// The figure misses its target as expected; `reason` says why.
    NotReproduced,
    /// The figure is not judged.
    #[default]
    Shown,
    /// All runs of the figure were invalid.
    Invalid,
}

/// A consistency check: a published figure computed from other published ones.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StudyCheck {
    /// Title of the figure.
    pub title: String,
    /// Formula.
    pub formula: String,
    /// Computed value.
    pub computed: f64,
    /// Published value.
    pub printed: f64,
    /// Unit of both values.
    pub unit: String,
    /// Source of the published value.
    pub source: String,
    /// Whether both agree to the published digits.
    pub agrees: bool,
    /// Conclusion.
    pub note: String,
}

/// A plot of the report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StudyPlot {
    /// Title of the plot.
    pub title: String,
    /// Kind of plot.
    pub kind: StudyPlotKind,
    /// Phase whose runs are shown.
    pub phase: String,
    /// Variable on the x axis.
    pub x: String,
    /// Title of the x axis, with its unit.
    pub x_title: String,
    /// Title of the y axis, with its unit.
    pub unit: String,
    /// Lines of the plot, scaled back to the speed of the published measurement.
    pub lines: Vec<StudyLine>,
    /// Rows that are shown.
    pub rows: Vec<String>,
    /// Values of the phase's `for` variables that are shown; all if empty.
    pub at: BTreeMap<String, String>,
}

/// Kind of a plot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum StudyPlotKind {
    /// Lines by a variable of the phase.
    #[default]
    Curve,
    /// Groups of bars, one group for each value of the variable.
    Bars,
    /// Single requests by number.
    Series,
    /// A run and the use of the machine over time.
    Time,
    /// Published and measured figures side by side.
    Beside,
}

/// A line of a plot, or one colour of its bars.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StudyLine {
    /// Name of the line.
    pub name: String,
    /// Points: the x value, and the y value or null if nothing valid was measured.
    pub points: Vec<(String, Option<f64>)>,
}

impl StudyVerdict {
    /// The verdict on a figure that was judged elsewhere, of valid runs.
    #[must_use]
    pub fn new(
        name: impl Into<String>,
        measured: impl Into<String>,
        target: impl Into<String>,
        pass: bool,
    ) -> Self {
        let (name, measured, target) = (name.into(), measured.into(), target.into());
        Self { name, measured, target, pass, invalid: false }
    }

    /// Whether the figure was judged, and misses its target.
    #[must_use]
    pub fn fails(&self) -> bool {
        !self.pass && !self.invalid
    }

    /// `PASS`, `FAIL` or `INVALID`.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match (self.invalid, self.pass) {
            (true, _) => "INVALID",
            (_, true) => "PASS",
            (_, false) => "FAIL",
        }
    }
}

/// Exactly one line, `PASS name measured (target)` or the same with `FAIL` or `INVALID`, whatever
/// its parts contain, so that a script can count lines.
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
        let invalid = StudyVerdict { invalid: true, ..fail };
        assert_eq!(invalid.to_string(), "INVALID run 1 average 58.1 ms (at most 61.2 ms)");
    }

    #[test]
    fn a_line_break_inside_a_part_does_not_make_two_lines() {
        let verdict = StudyVerdict::new("a\nb", "1\r\n2", "3", true);
        assert_eq!(verdict.to_string(), "PASS a b 1 2 (3)");
    }

    #[test]
    fn a_verdict_of_before_there_were_invalid_ones_still_reads() {
        let text = r#"{"name":"a","measured":"1 ms","target":"2 ms","pass":true}"#;
        let verdict: StudyVerdict = serde_json::from_str(text).unwrap();
        assert_eq!(verdict, StudyVerdict::new("a", "1 ms", "2 ms", true));
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
