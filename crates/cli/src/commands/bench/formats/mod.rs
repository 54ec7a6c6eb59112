//! The forms a result is printed in.

mod csv;
mod hdr;
mod httperf;
mod siege;

use loadline_measure::record::{Document, LoadRecord, Record};

use super::page;

/// The forms a result is printed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    /// A page for people
    Text,
    /// The lines of siege
    Siege,
    /// The lines of httperf
    Httperf,
    /// The record
    Json,
    /// A line for each moment of the run
    Csv,
    /// The response times by percentile
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
