//! What leader and agent say to each other.

use loadline_core::{
    time::{Duration, Instant},
    units::Rate,
};
use loadline_measure::record::Outcomes;
use serde::{Deserialize, Serialize};

use super::job::Job;
use crate::{figures::Figures, run::Progress};

/// The first words of a leader.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Hello {
    /// Of loadline: figures of other versions may mean something else.
    pub(super) version: String,
    pub(super) nonce: [u8; 32],
}

/// The first answer of an agent.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Welcome {
    /// Proof that the agent knows the token.
    Proof { nonce: [u8; 32], proof: [u8; 32] },
    /// It is of this version and serves no other.
    Version(String),
}

/// The leader's proof in return.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Proof(pub(super) [u8; 32]);

/// A message of the leader.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Order {
    /// Get ready to send your part of this.
    Job(Box<Job>),
    /// Ask for the agent's clock.
    Ping,
    /// Begin at this instant of your clock.
    Begin(Instant),
    /// End the run; what is under way is cut off.
    Stop,
}

/// A message of an agent.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Report {
    /// The agent is free and now serves this leader alone.
    Free,
    /// The run can begin.
    Ready,
    /// The run cannot begin or go on, and why.
    Refused(String),
    /// The agent's clock.
    Pong(Instant),
    /// How the run stands.
    Progress(PartProgress),
    /// The run is over.
    Done(Box<Figures>),
}

/// How the part of an agent stands, as [`Progress`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct PartProgress {
    elapsed: Duration,
    fraction: f64,
    planned: u64,
    in_flight: u64,
    outcomes: Outcomes,
    rate: Rate,
    p50: Duration,
    p99: Duration,
}

impl From<&Progress> for PartProgress {
    fn from(progress: &Progress) -> Self {
        let Progress { elapsed, fraction, planned, in_flight, outcomes, rate, p50, p99 } =
            *progress;
        Self { elapsed, fraction, planned, in_flight, outcomes, rate, p50, p99 }
    }
}

impl PartProgress {
    /// How the whole stands: sums, and of times those of the slowest part.
    pub(super) fn together(parts: &[Self]) -> Progress {
        let slowest =
            |time: fn(&Self) -> Duration| parts.iter().map(time).max().unwrap_or_default();
        let sum = |count: fn(&Self) -> u64| parts.iter().map(count).sum();
        let least = parts.iter().map(|part| part.fraction).fold(1.0, f64::min);
        let none = Outcomes::default();
        Progress {
            elapsed: slowest(|part| part.elapsed),
            fraction: least,
            planned: sum(|part| part.planned),
            in_flight: sum(|part| part.in_flight),
            outcomes: parts.iter().fold(none, |sum, part| crate::moments::add(sum, part.outcomes)),
            rate: Rate::milli_per_sec(sum(|part| part.rate.as_milli_per_sec())),
            p50: slowest(|part| part.p50),
            p99: slowest(|part| part.p99),
        }
    }
}
