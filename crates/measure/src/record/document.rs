//! Records read back from their files, with errors that say where and what would be right.

use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::{Value, from_slice, value::RawValue};

use super::{Document, Record, SCHEMA_VERSION};

/// A text that is not a record.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// It is not JSON at all.
    #[error("not JSON at line {line}, column {column}: {what}; a record is what --json prints")]
    Syntax {
        /// Counted from 1.
        line: usize,
        /// Counted from 1.
        column: usize,
        /// What the parser says.
        what: String,
    },
    /// It lacks `schema_version` or it is no whole number.
    #[error(
        "no `schema_version` at the top, so this is no record (or one of loadline before its \
         records had versions); a record has `\"schema_version\": {SCHEMA_VERSION}`, write it \
         with --json"
    )]
    NoVersion,
    /// It follows another schema.
    #[error(
        "`schema_version` is {found}, this loadline ({}) reads {SCHEMA_VERSION}; {}",
        env!("CARGO_PKG_VERSION"),
        advice(*found)
    )]
    Version {
        /// Which.
        found: u64,
    },
    /// Its `kind` is missing or unknown.
    #[error("`kind` is {found}; the kinds are {}", KINDS.join(", "))]
    Kind {
        /// What stands there.
        found: String,
    },
    /// A field is missing or wrong.
    #[error("line {line}, column {column}, in a record of kind `{kind}`: {what}")]
    Field {
        /// Counted from 1.
        line: usize,
        /// Counted from 1.
        column: usize,
        /// The kind it says it is.
        kind: String,
        /// What is wrong.
        what: String,
    },
}

impl Document {
    /// Reads the text of a record's file.
    ///
    /// # Errors
    /// [`DocumentError`] where it is not a record of today's schema.
    pub fn read(text: &[u8]) -> Result<Self, DocumentError> {
        // Editors of Windows put a mark there.
        let text = text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(text);
        let value: Value = from_slice(text).map_err(|error| DocumentError::Syntax {
            line: error.line(),
            column: error.column(),
            what: bare(&error),
        })?;
        let version = value.get("schema_version").and_then(Value::as_u64);
        match version.ok_or(DocumentError::NoVersion)? {
            found if found == u64::from(SCHEMA_VERSION) => {}
            found => return Err(DocumentError::Version { found }),
        }
        let kind = value.get("kind").and_then(Value::as_str);
        let kind = kind.ok_or_else(|| DocumentError::Kind { found: "missing".to_owned() })?;
        let record = record_of(kind, text);
        let record = record.ok_or_else(|| DocumentError::Kind { found: format!("`{kind}`") })?;
        let wrong = |error: serde_json::Error| DocumentError::Field {
            line: error.line(),
            column: error.column(),
            kind: kind.to_owned(),
            what: bare(&error),
        };
        let (record, Head { written_by }) =
            record.and_then(|record| Ok((record, from_slice(text)?))).map_err(wrong)?;
        Ok(Self { schema_version: SCHEMA_VERSION, written_by, record })
    }
}

/// A record inside another, as a study has that of a run. It is read as a document's own is: the
/// derived way is the code of all kinds a second time, a third of a megabyte.
impl<'de> Deserialize<'de> for Record {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(from)?;
        let text = text.get().as_bytes();
        let Kind { kind } = from_slice(text).map_err(|error| D::Error::custom(bare(&error)))?;
        let record = record_of(&kind, text)
            .ok_or_else(|| D::Error::custom(DocumentError::Kind { found: format!("`{kind}`") }))?;
        record.map_err(|error| {
            D::Error::custom(format!("in its record of kind `{kind}`: {}", bare(&error)))
        })
    }
}

/// The record of this kind in a text; none where there is no such kind. It is read from the text
/// itself and not from its value: only so is the place of an error known.
fn record_of(kind: &str, text: &[u8]) -> Option<serde_json::Result<Record>> {
    Some(match kind {
        "load" => from_slice(text).map(Record::Load),
        "capacity" => from_slice(text).map(Record::Capacity),
        "probe" => from_slice(text).map(Record::Probe),
        "resources" => from_slice(text).map(Record::Resources),
        "formula" => from_slice(text).map(Record::Formula),
        "comparison" => from_slice(text).map(Record::Comparison),
        "study" => from_slice(text).map(Record::Study),
        "check" => from_slice(text).map(Record::Check),
        "ranking" => from_slice(text).map(Record::Ranking),
        "plan" => from_slice(text).map(Record::Plan),
        "explanation" => from_slice(text).map(Record::Explanation),
        _ => return None,
    })
}

/// What a record inside another says that it is.
#[derive(Deserialize)]
struct Kind {
    kind: String,
}

/// The fields of a document beside those of its record and those checked before.
#[derive(Deserialize)]
struct Head {
    written_by: String,
}

/// The error without its place, which stands elsewhere.
fn bare(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or(text.clone(), |(what, _)| what.to_owned())
}

fn advice(found: u64) -> &'static str {
    if found > u64::from(SCHEMA_VERSION) {
        "a newer loadline wrote it: read it with that"
    } else {
        "an older loadline wrote it: run the test again, or read it with that"
    }
}

/// The kinds of records, as `kind` names them.
const KINDS: [&str; 11] = [
    "load", "capacity", "probe", "resources", "formula", "comparison", "study", "check", "plan",
    "ranking", "explanation",
];

#[cfg(test)]
mod tests {
    use super::{
        super::{LoadRecord, StudyLab, StudyPhase, StudyRecord},
        *,
    };

    #[test]
    fn a_record_reads_back_as_it_was_written() {
        let record =
            LoadRecord { planned: 7, statuses: [(200, 7)].into(), ..LoadRecord::default() };
        let document = Document::new(Record::Load(record));
        let text = serde_json::to_string_pretty(&document).unwrap();
        assert_eq!(Document::read(text.as_bytes()).unwrap(), document);
        let marked = format!("\u{feff}{text}");
        assert_eq!(Document::read(marked.as_bytes()).unwrap(), document);
    }

    #[test]
    fn a_record_inside_a_study_reads_back_and_is_told_of_where_it_is_wrong() {
        let load = LoadRecord { planned: 7, ..LoadRecord::default() };
        let phase =
            StudyPhase { record: Some(Box::new(Record::Load(load))), ..StudyPhase::default() };
        let lab = Some(Box::new(StudyLab { phases: vec![phase], ..StudyLab::default() }));
        let study = StudyRecord { lab, ..StudyRecord::default() };
        let document = Document::new(Record::Study(study));
        let text = serde_json::to_string_pretty(&document).unwrap();
        assert_eq!(Document::read(text.as_bytes()).unwrap(), document);
        for (right, wrong, told) in [
            ("\"planned\": 7", "\"planned\": \"x\"", "in its record of kind `load`: "),
            ("\"kind\": \"load\"", "\"kind\": \"lo\"", "`kind` is `lo`; the kinds are load, "),
        ] {
            let text = text.replace(right, wrong);
            let error = Document::read(text.as_bytes()).unwrap_err().to_string();
            assert!(
                error.contains("in a record of kind `study`: ") && error.contains(told),
                "{error}"
            );
        }
    }

    #[test]
    fn what_is_no_record_is_told_with_its_place_and_what_would_be_right() {
        let text =
            serde_json::to_string_pretty(&Document::new(Record::Load(LoadRecord::default())));
        let text = text.unwrap();
        let cases = [
            ("{\n  \"a\": }".to_owned(), "line 2, column 8"),
            ("{}".to_owned(), "has `\"schema_version\": 2`, write it with --json"),
            ("[1]".to_owned(), "no `schema_version`"),
            (text.replace("_version\": 2", "_version\": 1"), "an older loadline wrote it"),
            (text.replace("_version\": 2", "_version\": 3"), "a newer loadline wrote it"),
            (text.replace("\"load\"", "\"lode\""), "`lode`; the kinds are load, capacity"),
            (text.replace("\"planned\": 0", "\"planned\": -3"), "invalid value"),
            (text.replace("\"planned\"", "\"planed\""), "missing field `planned`"),
        ];
        for (text, told) in cases {
            let error = Document::read(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(told), "{told:?} is not in {error:?}");
        }
    }

    #[test]
    fn a_wrong_field_is_told_with_its_line() {
        let document = Document::new(Record::Load(LoadRecord::default()));
        let text = serde_json::to_string_pretty(&document).unwrap();
        let wrong = text.replace("\"planned\": 0", "\"planned\": \"many\"");
        let line = 1 + wrong.lines().position(|line| line.contains("many")).unwrap();
        let error = Document::read(wrong.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(&format!("line {line}, column")), "{error}");
    }
}
