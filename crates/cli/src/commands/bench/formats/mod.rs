//! The forms a result is printed in.

mod csv;
mod hdr;
mod httperf;
mod siege;

use loadline_measure::record::{Document, LoadRecord, Record};

use super::page;

/// The formats of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    /// Text for people
    Text,
    /// Output like siege's
    Siege,
    /// Output like httperf's
    Httperf,
    /// The record as JSON
    Json,
    /// CSV, a line for each interval of the run
    Csv,
    /// Response times by percentile (HdrHistogram)
    Hdr,
}

impl Format {
    /// The result in this form, with its line ends.
    pub(super) fn write(self, record: &LoadRecord) -> serde_json::Result<String> {
        Ok(match self {
            Self::Text => page::write(record),
            Self::Siege => siege::write(record),
            Self::Httperf => httperf::write(record, httperf::CpuTime::of_this_process()),
            Self::Json => json(record)?,
            Self::Csv => csv::write(record),
            Self::Hdr => hdr::write(record),
        })
    }
}

/// The document that `--json` prints and `--output` writes.
pub(super) fn json(record: &LoadRecord) -> serde_json::Result<String> {
    let document = Document::new(Record::Load(record.clone()));
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}
