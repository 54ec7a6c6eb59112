//! Everything that was measured and judged, for programs to read.

use loadline_core::record::LoadRecord;
use serde::{Deserialize, Serialize};

use crate::verdict::Verdict;

/// What a study measured: its runs in order, and the verdicts on them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Which study.
    pub title: String,
    /// Whether every verdict is PASS.
    pub pass: bool,
    /// The verdicts, in the order they were given.
    pub verdicts: Vec<Verdict>,
    /// The runs, in the order they were made.
    pub runs: Vec<Run>,
}

/// One load run and its name in the study.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// For example "one region, 200/s".
    pub name: String,
    /// What was measured.
    pub record: LoadRecord,
}

/// A report that could not be written as JSON.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the report `{title}` as JSON")]
pub struct ReportError {
    title: String,
    source: serde_json::Error,
}

impl Report {
    /// A report of these runs; it passes when every verdict does.
    #[must_use]
    pub fn new(title: impl Into<String>, runs: Vec<Run>, verdicts: Vec<Verdict>) -> Self {
        let pass = verdicts.iter().all(|verdict| verdict.pass);
        Self { title: title.into(), pass, verdicts, runs }
    }

    /// The report as indented JSON that ends with a line break.
    ///
    /// # Errors
    /// [`ReportError`] where a field has no JSON form; none of today's fields is such.
    pub fn to_json(&self) -> Result<String, ReportError> {
        let json = serde_json::to_string_pretty(self)
            .map_err(|source| ReportError { title: self.title.clone(), source })?;
        Ok(json + "\n")
    }
}

#[cfg(test)]
mod tests {
    use loadline_core::{
        record::{Arrivals, LoadModel, Outcomes},
        time::Duration,
        units::Rate,
    };

    use super::*;

    #[test]
    fn a_report_reads_back_as_it_was_written() {
        let record = LoadRecord {
            target: "http://127.0.0.1:1/".into(),
            model: LoadModel::Open {
                rate: Rate::per_sec(200),
                arrivals: Arrivals::Constant,
                seed: 1,
                stages: Vec::new(),
            },
            elapsed: Duration::from_millis(2_500),
            planned: 500,
            outcomes: Outcomes { ok: 500, ..Outcomes::default() },
            bytes_read: 1,
            statuses: [(200, 500)].into(),
            by_header: [("near-1".into(), 500)].into(),
            ..LoadRecord::default()
        };
        let runs = vec![Run { name: "run 1".into(), record }];
        let verdict = Verdict::new("run 1", "1 ms", "2 ms", false);
        let report = Report::new("demo", runs, vec![verdict]);
        assert!(!report.pass);
        let read: Report = serde_json::from_str(&report.to_json().unwrap()).unwrap();
        assert_eq!(read, report);
    }
}
