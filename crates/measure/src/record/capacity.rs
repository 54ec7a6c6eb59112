//! A capacity search: the load line, how it was found, and how far to trust it.

use serde::{Deserialize, Serialize};

use super::{Arrivals, Criterion, Fault, Latency, Series, number};
use loadline_core::{time::Duration, units::Rate};

/// A capacity search, whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CapacityRecord {
    /// What was loaded: a URL.
    pub target: String,
    /// When it began, in milliseconds since 1970-01-01 UTC; 0 in records of older versions.
    #[serde(default)]
    pub started_unix_ms: u64,
    /// The objective as it was judged, for example `p99<300ms, errors<1%`.
    pub objective: String,
    /// How the planned instants of the trials lay.
    pub arrivals: Arrivals,
    /// What the seeds of all trials come from; the same seed gives the same plans.
    pub seed: u64,
    /// How the search ended.
    pub verdict: Verdict,
    /// The load line; none where none was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<LoadLine>,
    /// The highest load that was accepted below every one that was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted: Option<Bound>,
    /// The lowest load that was refused: what was breached just above the load line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<Bound>,
    /// How often each rate passed, of those that long trials were made at.
    #[serde(default)]
    pub tried: Vec<TestedRate>,
    /// From one burst of late responses to the next, as trials near the load line showed it; none
    /// where answers were not late in bursts. Trials last over several of it.
    #[serde(default, rename = "cycle_s", skip_serializing_if = "Option::is_none")]
    #[serde(with = "number::some_secs")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub cycle: Option<Duration>,
    /// The closed ladder, in the order it was climbed.
    pub rungs: Vec<Rung>,
    /// The scalability law fitted to the ladder; none with fewer than four sound rungs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scalability: Option<Scalability>,
    /// Every open-loop trial, in the order they were made.
    pub trials: Vec<Trial>,
    /// Where the curve bends, a hint only: it depends on the range that was looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub knee: Option<Knee>,
    /// Response time against planned rate, of the longest valid trial at each rate.
    pub curve: Series,
    /// What else there is to know before the figures are used.
    pub notes: Vec<String>,
}

/// How a capacity search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The load line was found: the objective holds over all long trials at it.
    Found,
    /// The highest load that the search may try still meets the objective.
    AtLeast,
    /// Not even the lowest load meets the objective.
    NoLoadMeets,
    /// The objective held over the confirming runs of no load, at lower and lower ones.
    Unconfirmed,
    /// The time was over before a load was confirmed.
    OutOfTime,
    /// The generator gave out before the service did.
    GeneratorInvalid,
    /// It was ended from outside.
    Interrupted,
}

/// The highest load at which the service still meets the objective.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LoadLine {
    /// The load, by all long trials together.
    #[serde(rename = "rate_per_s", with = "number::per_s")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub rate: Rate,
    /// The load of the confirming trials, a little below.
    #[serde(rename = "confirmed_per_s", with = "number::per_s")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub confirmed: Rate,
    /// Where the load line lies with some confidence.
    pub interval: Interval,
    /// The share of the load line that is to stay free, 0 to 1.
    pub headroom_share: f64,
    /// The load line less the headroom: what to write into a configuration.
    #[serde(rename = "max_rate_per_s", with = "number::per_s")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub max_rate: Rate,
}

/// An interval and where it comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Interval {
    /// Its lower end.
    #[serde(rename = "low_per_s", with = "number::per_s")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub low: Rate,
    /// Its upper end.
    #[serde(rename = "high_per_s", with = "number::per_s")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub high: Rate,
    /// How it was made.
    pub method: IntervalMethod,
    /// From how many trials.
    pub trials: u32,
}

/// How an interval round a load line was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum IntervalMethod {
    /// 95 % confidence: where what the long trials spent of what the objective allows crosses it,
    /// a power of the rate by quasi-likelihood, with the dispersion within and between the trials;
    /// widened where need be to hold the confirmed load, and by the precision.
    Regression95,
    /// From the highest accepted to the lowest refused load, and the width of the goal more on
    /// either side: the trials show no significant trend.
    Bracket,
}

/// A load that was accepted or refused, and by which trials.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Bound {
    /// The load.
    #[serde(rename = "rate_per_s", with = "number::per_s")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub rate: Rate,
    /// The time of the trials at it that met the objective.
    #[serde(rename = "met_s", with = "number::secs")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub met: Duration,
    /// The time of those that did not.
    #[serde(rename = "breached_s", with = "number::secs")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub breached: Duration,
    /// What was measured in its last trial that decided as the bound does.
    pub criteria: Vec<Criterion>,
}

/// A rate that long trials were made at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TestedRate {
    /// The planned rate.
    #[serde(rename = "rate_per_s", with = "number::per_s")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub rate: Rate,
    /// How many long trials were made at it.
    pub trials: u32,
    /// How many of them met the objective, each for itself.
    pub passed: u32,
    /// How long they lasted together.
    #[serde(rename = "lasted_s", with = "number::secs")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub lasted: Duration,
    /// What all of them spent together of what the objective allows, by the worst criterion: of
    /// `p95<300ms` the share of requests that were late over 5 %. At most 1 where the objective
    /// holds over all of them; none where it allows nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent_share: Option<f64>,
}

/// A rung of the closed ladder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Rung {
    /// Users at a time, without think time.
    pub users: u32,
    /// Successful answers per second.
    #[serde(rename = "throughput_per_s", with = "number::per_s")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub throughput: Rate,
    /// Their response times.
    pub response: Latency,
    /// Whether the objective was met.
    pub met: bool,
    /// Throughput times mean response time over users, less one: 0 by Little's law.
    pub little_error: f64,
    /// Whether Little's law is off by so much that the rung is left out of the fit.
    pub suspect: bool,
}

/// The universal scalability law X(N) = gamma N / (1 + alpha (N - 1) + beta N (N - 1)), Gunther
/// 1993, by least squares over the sound rungs, no coefficient below zero.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Scalability {
    /// The throughput of one user.
    pub gamma_per_s: f64,
    /// Contention: the part of the work that waits in turn.
    pub alpha: f64,
    /// Coherence: the price of each pair of users.
    pub beta: f64,
    /// The root mean square of the relative residuals.
    pub residual_share: f64,
    /// Over so many rungs.
    pub rungs: u32,
    /// The number of users with the most throughput; none where it only levels off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_users: Option<f64>,
    /// The most throughput the law allows, at `peak_users` or with users without end; none where
    /// it is without bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_per_s: Option<f64>,
    /// Whether that is so far above the best rung, or without bound, that it was not seen but
    /// computed.
    pub extrapolated: bool,
}

/// An open-loop trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Trial {
    /// What it was made for.
    pub purpose: Purpose,
    /// The planned rate.
    #[serde(rename = "rate_per_s", with = "number::per_s")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub rate: Rate,
    /// How long requests were planned.
    #[serde(rename = "lasts_s", with = "number::secs")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub lasts: Duration,
    /// Which plan of random arrivals.
    pub seed: u64,
    /// Successful answers per second.
    #[serde(rename = "achieved_per_s", with = "number::per_s")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub achieved: Rate,
    /// Response times, from the planned instant.
    pub response: Latency,
    /// Whether the objective was met.
    pub met: bool,
    /// The worst measured value as a multiple of its limit, 1 at the edge of the objective; none
    /// where the criteria give no such number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pressure: Option<f64>,
    /// The criteria of the objective.
    pub criteria: Vec<Criterion>,
    /// What made it invalid; an invalid trial decides nothing.
    pub faults: Vec<Fault>,
}

/// What a trial was made for.
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

/// Where a curve bends, by Kneedle (Satopaa, Albrecht, Irwin, Raghavan 2011) on mean response time
/// against rate, both scaled to 0..1 over the range.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Knee {
    /// The rate at the bend.
    #[serde(rename = "rate_per_s", with = "number::per_s")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub rate: Rate,
    /// Where the range begins.
    #[serde(rename = "from_per_s", with = "number::per_s")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub from: Rate,
    /// Where it ends.
    #[serde(rename = "to_per_s", with = "number::per_s")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub to: Rate,
    /// How far the curve hangs below its chord there, 0 to 1.
    pub depth: f64,
}
