//! A study in the lab and in the simulator, figure by figure.

use serde::{Deserialize, Serialize};

use super::Reading;

/// Figures of a study in the simulator, beside those of the lab.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StudySimulation {
    /// Where the figures of the lab come from; empty if there are none.
    pub measured: String,
    /// Seed of the simulation.
    pub seed: u64,
    /// Figures of the lab, the simulator or both.
    pub figures: Vec<SimulatedFigure>,
    /// Phases that were not simulated.
    pub not_simulated: Vec<NotSimulated>,
}

/// One figure in the lab and in the simulator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SimulatedFigure {
    /// Name of the figure in formulas.
    pub name: String,
    /// Title of the figure in the report.
    pub title: String,
    /// Row (variant) of the study; empty for a figure over several rows.
    pub row: String,
    /// Unit; empty for a bare number.
    pub unit: String,
    /// Value that the lab measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<Reading>,
    /// Value of the simulation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulated: Option<Reading>,
    /// Allowed difference of the two values, in words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub band: String,
    /// Whether they agree.
    pub agreement: Agreement,
    /// Why the values differ, or why one of them is missing.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// Whether the values of lab and simulator agree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Agreement {
    /// The difference is within `band`.
    Agrees,
    /// The difference is beyond `band`.
    Differs,
    /// The difference is beyond `band`, and the study explains why.
    Explained,
    /// One of the two values is missing.
    #[default]
    NotCompared,
}

/// A phase that was not simulated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NotSimulated {
    /// Row (variant) of the study.
    pub row: String,
    /// Phase of the study; empty if no phase of the row was simulated.
    pub phase: String,
    /// Why it was not simulated.
    pub reason: String,
}
