//! A study in the lab and in the simulator, figure by figure.

use serde::{Deserialize, Serialize};

use super::Reading;

/// What the simulator says of a study, beside what the lab measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StudySimulation {
    /// Where the figures of the lab are from; empty where there are none.
    pub measured: String,
    /// What the simulation drew everything random from.
    pub seed: u64,
    /// Every figure that the lab or the simulator has.
    pub figures: Vec<SimulatedFigure>,
    /// What was not simulated.
    pub not_simulated: Vec<NotSimulated>,
}

/// One figure in the lab and in the simulator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SimulatedFigure {
    /// As formulas call it.
    pub name: String,
    /// As it is called.
    pub title: String,
    /// The row; empty for a figure over several rows.
    pub row: String,
    /// Its unit; empty for a bare number.
    pub unit: String,
    /// What the lab measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<Reading>,
    /// What the simulator says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulated: Option<Reading>,
    /// How far apart both may be, in words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub band: String,
    /// Whether they agree.
    pub agreement: Agreement,
    /// Why they do not, or why there is only one of them.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// Whether lab and simulator agree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Agreement {
    /// They are within the band.
    Agrees,
    /// They are not.
    Differs,
    /// They are not, and the study says why.
    Explained,
    /// One of the two is missing.
    #[default]
    NotCompared,
}

/// A phase that was not simulated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NotSimulated {
    /// The row.
    pub row: String,
    /// The phase; empty where the whole row was not.
    pub phase: String,
    /// Why.
    pub reason: String,
}
