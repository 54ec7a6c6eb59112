//! A published measurement, made again: its runs, and the verdicts on them.

use alloc::{string::String, vec::Vec};

use serde::{Deserialize, Serialize};

use super::LoadRecord;

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
    /// The runs, in the order they were made.
    pub runs: Vec<StudyRun>,
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
