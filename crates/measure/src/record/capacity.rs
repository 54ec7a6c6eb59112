//! A capacity search: the load line, how it was found, and how far to trust it.

use serde::{Deserialize, Serialize};

use super::{Arrivals, Criterion, Fault, Latency, Series, number};
use loadline_core::{time::Duration, units::Rate};

/// A capacity search: the load line and every trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CapacityRecord {
    /// URL that was loaded.
    pub target: String,
    /// Start of the search, in milliseconds since 1970-01-01 UTC; 0 in records of older versions.
    #[serde(default)]
    pub started_unix_ms: u64,
    /// The objective as it was judged, for example `p99<300ms, errors<1%`.
    pub objective: String,
    /// Distribution of the planned send times in trials.
    pub arrivals: Arrivals,
    /// Seed of the search, from which those of all trials are derived; the same seed gives the same
    /// plans.
    pub seed: u64,
    /// How the search ended.
    pub verdict: Verdict,
    /// The load line; absent if none was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<LoadLine>,
    /// The highest accepted load below all refused ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted: Option<Bound>,
    /// The lowest refused load, with the criteria that it breached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<Bound>,
    /// Rates at which long trials were made, with how many of them met the objective.
    #[serde(default)]
    pub tried: Vec<TestedRate>,
    /// Time from one burst of late responses to the next, in seconds, measured near the load line;
    /// absent if there are no such bursts. Trials last several such cycles.
    #[serde(default, rename = "cycle_s", skip_serializing_if = "Option::is_none")]
    #[serde(with = "number::some_secs")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub cycle: Option<Duration>,
    /// Closed-loop tests with a growing number of users, in the order of the tests.
    pub rungs: Vec<Rung>,
    /// The universal scalability law fitted to `rungs`; absent with fewer than four usable rungs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scalability: Option<Scalability>,
    /// All open-loop trials, in the order of the tests.
    pub trials: Vec<Trial>,
    /// The knee of the curve. Only a hint: it depends on the range of rates that was tested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub knee: Option<Knee>,
    /// Response time by planned rate, from the longest valid trial at each rate.
    pub curve: Series,
    /// Remarks to read before the figures are used.
    pub notes: Vec<String>,
}

/// How a capacity search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The load line was found: the objective holds over all long trials at that load together.
    Found,
    /// The highest load that the search may try meets the objective.
    AtLeast,
    /// The lowest load of the search breaches the objective.
    NoLoadMeets,
    /// Confirming runs breached the objective at every load that was tried, lower and lower ones.
    Unconfirmed,
    /// The time limit of the search ended before a load was confirmed.
    OutOfTime,
    /// The load generator reached its limit before the service did.
    GeneratorInvalid,
    /// The search was interrupted by a signal.
    Interrupted,
}

/// The highest load at which the service still meets the objective.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LoadLine {
    /// The load line in requests per second, estimated from all long trials.
    #[serde(rename = "rate_per_s", with = "number::per_s")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub rate: Rate,
    /// Load of the confirming trials in requests per second, a little below the load line.
    #[serde(rename = "confirmed_per_s", with = "number::per_s")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub confirmed: Rate,
    /// Confidence interval of the load line.
    pub interval: Interval,
    /// Share of the load line that is kept free as headroom, 0 to 1.
    pub headroom_share: f64,
    /// The load line minus the headroom: `max_rate` for the configuration.
    #[serde(rename = "max_rate_per_s", with = "number::per_s")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub max_rate: Rate,
}

/// An interval of loads and the method that gives it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Interval {
    /// Lower end, in requests per second.
    #[serde(rename = "low_per_s", with = "number::per_s")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub low: Rate,
    /// Upper end, in requests per second.
    #[serde(rename = "high_per_s", with = "number::per_s")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub high: Rate,
    /// Method of the interval.
    pub method: IntervalMethod,
    /// Number of trials that it is estimated from.
    pub trials: u32,
}

/// Method of the interval of a load line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum IntervalMethod {
    /// 95 % confidence interval by regression: over the long trials, the spent share of the
    /// objective's allowance is fitted as a power of the rate (quasi-likelihood, with the
    /// dispersion within and between trials); the load line is where it reaches 1. Widened to
    /// contain the confirmed load if necessary, and by the precision.
    Regression95,
    /// From the highest accepted to the lowest refused load, widened on both sides by the width
    /// that the search aims at. Used if the trials show no significant trend.
    Bracket,
}

/// A load that was accepted or refused, with the evidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Bound {
    /// The load in requests per second.
    #[serde(rename = "rate_per_s", with = "number::per_s")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub rate: Rate,
    /// Duration of the trials at this load that met the objective, in seconds.
    #[serde(rename = "met_s", with = "number::secs")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub met: Duration,
    /// Duration of the trials at this load that breached the objective, in seconds.
    #[serde(rename = "breached_s", with = "number::secs")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub breached: Duration,
    /// Criteria as measured in the last trial that agrees with the decision.
    pub criteria: Vec<Criterion>,
}

/// A rate at which long trials were made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TestedRate {
    /// Planned rate in requests per second.
    #[serde(rename = "rate_per_s", with = "number::per_s")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub rate: Rate,
    /// Number of long trials at this rate.
    pub trials: u32,
    /// Number of these trials that met the objective, each judged alone.
    pub passed: u32,
    /// Duration of these trials together, in seconds.
    #[serde(rename = "lasted_s", with = "number::secs")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub lasted: Duration,
    /// Spent share of what the objective allows, over all these trials, of the worst criterion: for
    /// `p95<300ms` the share of late requests divided by 5 %. At most 1 if the objective holds over
    /// all of them; absent if the objective allows no failures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent_share: Option<f64>,
}

/// A closed-loop test with a fixed number of users.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Rung {
    /// Concurrent users, without think time.
    pub users: u32,
    /// Successful answers per second.
    #[serde(rename = "throughput_per_s", with = "number::per_s")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub throughput: Rate,
    /// Response times of successful requests.
    pub response: Latency,
    /// Whether the objective was met.
    pub met: bool,
    /// `throughput * mean response time / users - 1`, which is 0 by Little's law.
    pub little_error: f64,
    /// Whether `little_error` is so large that the rung is left out of the fit.
    pub suspect: bool,
}

/// The universal scalability law X(N) = gamma N / (1 + alpha (N - 1) + beta N (N - 1)), Gunther
/// 1993, fitted by least squares to the usable rungs, with no coefficient below zero.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Scalability {
    /// Throughput of one user, in requests per second.
    pub gamma_per_s: f64,
    /// Contention: the serial part of the work, 0 to 1.
    pub alpha: f64,
    /// Coherence (crosstalk): the cost of each pair of users.
    pub beta: f64,
    /// Root mean square of the relative residuals of the fit.
    pub residual_share: f64,
    /// Number of rungs in the fit.
    pub rungs: u32,
    /// Number of users with the highest throughput; absent if the throughput only levels off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_users: Option<f64>,
    /// Highest throughput by the law, in requests per second, at `peak_users` or with infinitely
    /// many users; absent if it is unbounded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_per_s: Option<f64>,
    /// Whether the peak lies far beyond the best rung or is unbounded: it was computed, not
    /// measured.
    pub extrapolated: bool,
}

/// An open-loop trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Trial {
    /// Purpose of the trial.
    pub purpose: Purpose,
    /// Planned rate in requests per second.
    #[serde(rename = "rate_per_s", with = "number::per_s")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub rate: Rate,
    /// Planned duration in seconds.
    #[serde(rename = "lasts_s", with = "number::secs")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub lasts: Duration,
    /// Seed of the plan of random arrivals.
    pub seed: u64,
    /// Successful answers per second.
    #[serde(rename = "achieved_per_s", with = "number::per_s")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub achieved: Rate,
    /// Response times of successful requests, from the planned send time.
    pub response: Latency,
    /// Whether the objective was met.
    pub met: bool,
    /// The worst measured value divided by its limit; 1 is at the limit of the objective. Absent if
    /// no criterion has such a number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pressure: Option<f64>,
    /// Criteria of the objective as measured.
    pub criteria: Vec<Criterion>,
    /// Why the trial is invalid; empty if it is valid. An invalid trial decides nothing.
    pub faults: Vec<Fault>,
}

/// Purpose of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// To find a load that meets the objective and one that does not.
    Bracket,
    /// To see the curve well below the load line.
    Curve,
    /// To narrow the bracket.
    Bisection,
    /// To confirm what was found.
    Confirmation,
}

/// The knee of a curve, by Kneedle (Satopaa, Albrecht, Irwin, Raghavan 2011) on mean response time
/// by rate, both scaled to 0..1 over the range.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Knee {
    /// Rate at the knee, in requests per second.
    #[serde(rename = "rate_per_s", with = "number::per_s")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub rate: Rate,
    /// Lowest rate of the range.
    #[serde(rename = "from_per_s", with = "number::per_s")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub from: Rate,
    /// Highest rate of the range.
    #[serde(rename = "to_per_s", with = "number::per_s")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub to: Rate,
    /// Distance of the curve below its chord at the knee, 0 to 1.
    pub depth: f64,
}
