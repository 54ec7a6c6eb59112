//! Records from files, each with a name to call it by.

use std::path::{Path, PathBuf};

use loadline_measure::record::{Document, DocumentError, LoadRecord, Record};
use loadline_report::Named;

/// A file to read a record from, and what to call it: `before.json` or `NAME=FILE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    name: Option<String>,
    path: PathBuf,
}

/// A record that could not be had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    /// The file could not be read.
    #[error("cannot read `{path}`")]
    File {
        /// Which.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// It is no record.
    #[error("`{path}`")]
    Document {
        /// Which.
        path: String,
        /// Why.
        source: DocumentError,
    },
    /// It is a record of another kind.
    #[error("`{path}` holds a record of kind `{kind}`; only load runs (`load`) can be compared")]
    Kind {
        /// Which.
        path: String,
        /// Its kind.
        kind: &'static str,
    },
}

impl Source {
    /// From an argument. A name may stand before the path; a file that exists under the whole
    /// text is that file.
    pub(crate) fn parse(text: &str) -> Result<Self, std::convert::Infallible> {
        Ok(match text.split_once('=') {
            Some((name, path)) if !name.is_empty() && !Path::new(text).exists() => {
                Self { name: Some(name.to_owned()), path: path.into() }
            }
            _ => Self { name: None, path: text.into() },
        })
    }

    /// Reads the record.
    pub(crate) fn read(&self) -> Result<Document, ReadError> {
        let path = || self.path.display().to_string();
        let text = std::fs::read_to_string(&self.path)
            .map_err(|source| ReadError::File { path: path(), source })?;
        Document::read(text.as_bytes())
            .map_err(|source| ReadError::Document { path: path(), source })
    }

    /// Reads a load run.
    pub(crate) fn read_load(&self) -> Result<LoadRecord, ReadError> {
        let kind = match self.read()?.record {
            Record::Load(record) => return Ok(record),
            Record::Capacity(_) => "capacity",
            Record::Probe(_) => "probe",
            Record::Resources(_) => "resources",
            Record::Formula(_) => "formula",
            Record::Comparison(_) => "comparison",
            Record::Study(_) => "study",
            Record::Check(_) => "check",
            Record::Plan(_) => "plan",
            Record::Ranking(_) => "ranking",
            Record::Explanation(_) => "explanation",
        };
        Err(ReadError::Kind { path: self.path.display().to_string(), kind })
    }

    /// The given name, or the file's without its ending.
    fn short(&self) -> String {
        let stem = self.path.file_stem().unwrap_or(self.path.as_os_str());
        self.name.clone().unwrap_or_else(|| stem.to_string_lossy().into_owned())
    }

    /// The given name, or the whole path.
    fn long(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.path.display().to_string())
    }
}

/// Names of all sources, no two of them the same: short where that tells them apart, else the
/// paths, else numbered.
pub(crate) fn names(sources: &[Source]) -> Vec<String> {
    let (short, long) = (each(sources, Source::short), each(sources, Source::long));
    let several = |name: &String, all: &[String]| all.iter().filter(|one| *one == name).count() > 1;
    let name = |index: usize| match (&short[index], &long[index]) {
        (name, _) if !several(name, &short) => name.clone(),
        (_, name) if !several(name, &long) => name.clone(),
        (_, name) => format!("{name} #{}", index + 1),
    };
    (0..sources.len()).map(name).collect()
}

/// Reads all of them.
pub(crate) fn read_all(sources: &[Source]) -> Result<Vec<Named>, ReadError> {
    let read = |(source, name): (&Source, String)| {
        source.read().map(|document| Named { name, record: document.record })
    };
    sources.iter().zip(names(sources)).map(read).collect()
}

fn each(sources: &[Source], of: fn(&Source) -> String) -> Vec<String> {
    sources.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_as_short_as_they_can_be_and_never_the_same() {
        let sources = ["a/run.json", "b/run.json", "other.json", "slow=c.json", "x.json", "x.json"]
            .map(|text| Source::parse(text).unwrap());
        let expected = ["a/run.json", "b/run.json", "other", "slow", "x.json #5", "x.json #6"];
        assert_eq!(names(&sources), expected);
    }
}
