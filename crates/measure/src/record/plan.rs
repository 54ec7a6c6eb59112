//! How many servers each group needs, and the runs that show it.

use serde::{Deserialize, Serialize};

use super::{Latency, Outcomes};

/// The fewest servers with which an objective holds, whatever of a list is lost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlanRecord {
    /// The objective, as it was judged.
    pub objective: String,
    /// Whether the objective holds with the servers of `groups` in all runs of every case; else
    /// more do not change that.
    pub met: bool,
    /// What is needed where, in the order of the file.
    pub groups: Vec<PlannedGroup>,
    /// What was lost, and how it went with these servers.
    pub cases: Vec<PlannedCase>,
    /// Which sizes were tried, until these were found.
    pub tried: u64,
    /// Requests that were simulated.
    pub simulated: u64,
}

/// What a group needs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlannedGroup {
    /// The service.
    pub service: String,
    /// Its name.
    pub name: String,
    /// Where it is.
    pub region: String,
    /// The servers that the configuration has.
    pub servers_now: u32,
    /// The servers that it needs.
    pub servers: u32,
    /// What as many may be given, in requests per second; none where nothing limits their rate.
    pub max_rate_per_s: Option<f64>,
    /// What they may have in flight; none where nothing limits it.
    pub max_in_flight: Option<u64>,
    /// The most that they are given, in requests per second: the mean over a run.
    pub load_per_s: f64,
    /// The case in which that is.
    pub load_in: String,
    /// In how many runs the objective is breached with one server less here; none where there is
    /// only one.
    pub breached_with_one_less: Option<RunCount>,
}

/// What was lost, and how it went.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlannedCase {
    /// What was lost.
    pub name: String,
    /// In how many runs the objective held, none of which was used to find the sizes.
    pub held: RunCount,
    /// Responses of the run of the traffic's own seed, successful requests only.
    pub response: Latency,
    /// What became of its requests.
    pub outcomes: Outcomes,
    /// Its criteria as they were measured.
    pub measured: Vec<String>,
}

/// So many of so many runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunCount {
    /// How many.
    pub runs: u32,
    /// Of how many.
    pub of: u32,
}
