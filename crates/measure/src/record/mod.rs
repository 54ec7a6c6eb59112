//! What the tools write: plain data that any crate can print, draw or compare.
//!
//! A [`Document`] is one record in a file: the version of the schema, the kind, and the record's
//! own fields beside them. Keys carry their unit (`p99_ms`, `elapsed_s`, `rate_per_s`), counts
//! have none. New fields do not raise the version; a field that goes or changes its meaning does.

mod agreement;
mod capacity;
mod check;
mod comparison;
mod document;
mod explanation;
mod formula;
mod latency;
mod load;
pub(crate) mod number;
mod objective;
mod plan;
mod probe;
mod ranking;
mod resources;
mod simulation;
mod study;

use serde::Serialize;

pub use agreement::{Agreement, NotSimulated, SimulatedFigure, StudySimulation};
pub use capacity::{
    Bound, CapacityRecord, Interval, IntervalMethod, Knee, LoadLine, Purpose, Rung, Scalability,
    TestedRate, Trial, Verdict,
};
pub use check::{CheckRecord, Problem, Severity};
pub use comparison::{ComparedFigure, ComparedRun, ComparisonRecord, Finding, Measured};
pub use document::DocumentError;
pub use explanation::{ExplainedGroup, ExplainedServer, ExplainedStep, ExplanationRecord};
pub use formula::{Column, FormulaCurve, FormulaRecord, FormulaResult, Quantity};
pub use latency::{Bin, Latency, Percentiles, Series, Spread};
pub use load::{
    AgentRecord, Arrivals, Fault, Generator, HostAddress, LoadModel, LoadPlanRecord, LoadRecord,
    Moment, Outcomes, Phases, Spreads, Stage,
};
pub use objective::{Criterion, ObjectiveRecord};
pub use plan::{PlanRecord, PlannedCase, PlannedGroup, RunCount};
pub use probe::{ProbeKind, ProbeOutcome, ProbeRecord, ProbeSample, ProbeTarget};
pub use ranking::{RankedPolicy, RankingRecord};
pub use resources::{
    Bottleneck, BottleneckVerdict, Cpu, Interface, InterfaceSample, Machine, Process,
    ProcessSample, Resource, ResourceRecord, Role, Sample, Sockets,
};
pub use simulation::{
    CacheMoment, GroupMoment, SimulatedCache, SimulatedGroup, SimulatedNotice, SimulatedSource,
    SimulationRecord,
};
pub use study::{
    Reading, StudyCheck, StudyDelay, StudyFigure, StudyFinding, StudyLab, StudyLine, StudyPhase,
    StudyPlot, StudyPlotKind, StudyRecord, StudyRow, StudyRun, StudyVerdict,
};

/// The version of the schema of every record.
pub const SCHEMA_VERSION: u32 = 2;

/// One record in a file.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Document {
    /// Version of the schema of this record: [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Version of loadline that wrote the record.
    pub written_by: String,
    /// The record.
    #[serde(flatten)]
    pub record: Record,
}

/// A record of any kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
#[expect(clippy::large_enum_variant, reason = "a process holds a handful of records")]
pub enum Record {
    /// A load test.
    Load(LoadRecord),
    /// A capacity search.
    Capacity(CapacityRecord),
    /// Series of single requests or pings.
    Probe(ProbeRecord),
    /// Use of a machine's resources over time.
    Resources(ResourceRecord),
    /// A formula with its inputs and results.
    Formula(FormulaRecord),
    /// Two load runs compared.
    Comparison(ComparisonRecord),
    /// A study: its runs, figures and verdicts.
    Study(StudyRecord),
    /// Errors and warnings of a configuration.
    Check(CheckRecord),
    /// Servers that each group needs for an objective.
    Plan(PlanRecord),
    /// Load-balancing policies compared on the same requests.
    Ranking(RankingRecord),
    /// One simulated request, decision by decision.
    Explanation(ExplanationRecord),
}

impl Document {
    /// A document of today's schema.
    #[must_use]
    pub fn new(record: Record) -> Self {
        let written_by = env!("CARGO_PKG_VERSION").into();
        Self { schema_version: SCHEMA_VERSION, written_by, record }
    }
}
