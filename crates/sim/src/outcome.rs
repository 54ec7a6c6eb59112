//! What became of a run.

use loadline_measure::record::{LoadRecord, SimulationRecord};

/// What became of a run: the record that a load test would have written, and what only a simulation
/// knows.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// As of a load test.
    pub load: LoadRecord,
    /// Where requests went, and why.
    pub simulation: SimulationRecord,
}
