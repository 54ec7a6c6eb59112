//! How many servers each group needs, and the runs that show it.

use serde::{Deserialize, Serialize};

use super::{Latency, Outcomes};

/// The fewest servers of each group with which an objective holds, whichever of the listed losses
/// happens.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlanRecord {
    /// The objective.
    pub objective: String,
    /// Whether the objective holds with the servers in `groups` in all runs of every case. If not,
    /// more servers do not help.
    pub met: bool,
    /// Servers needed in each group, in the order of the file.
    pub groups: Vec<PlannedGroup>,
    /// Losses that were tested, with the result for these servers.
    pub cases: Vec<PlannedCase>,
    /// Number of sizes that were tried.
    pub tried: u64,
    /// Number of simulated requests.
    pub simulated: u64,
}

/// Servers that a group needs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlannedGroup {
    /// Name of the service.
    pub service: String,
    /// Name of the group.
    pub name: String,
    /// Region of the group.
    pub region: String,
    /// Number of servers in the configuration that are not drained.
    pub servers_now: u32,
    /// Number of servers that are needed.
    pub servers: u32,
    /// Rate limit of so many servers in requests per second; null if there is none.
    pub max_rate_per_s: Option<f64>,
    /// Limit of requests in flight of so many servers; null if there is none.
    pub max_in_flight: Option<u64>,
    /// Highest load of the group in requests per second, as the mean over a run.
    pub load_per_s: f64,
    /// Case with that highest load.
    pub load_in: String,
    /// Number of runs that breach the objective with one server less; null if the group needs only
    /// one.
    pub breached_with_one_less: Option<RunCount>,
}

/// A loss and its result.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlannedCase {
    /// The loss: what is out of service.
    pub name: String,
    /// Number of runs in which the objective held. None of these runs was used to find the sizes.
    pub held: RunCount,
    /// Response times of the run with the traffic file's seed, successful requests only.
    pub response: Latency,
    /// Requests of that run by outcome.
    pub outcomes: Outcomes,
    /// Criteria of the objective as measured in that run.
    pub measured: Vec<String>,
}

/// A number of runs out of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunCount {
    /// Number of these runs.
    pub runs: u32,
    /// Number of all runs.
    pub of: u32,
}
