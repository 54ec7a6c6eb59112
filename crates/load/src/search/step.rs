//! What a search asks for, and what it is told of it.

use loadline_core::{time::Duration, units::Rate};
use loadline_measure::{
    objective::{Objective, Spent},
    record::{CapacityRecord, Criterion, Fault, Latency, LoadRecord, Outcomes, Purpose},
};

/// What to run next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// A closed loop of so many users without think time.
    Ladder {
        /// Users at a time.
        users: u32,
        /// For how long.
        duration: Duration,
    },
    /// An open loop.
    Trial {
        /// The planned rate.
        rate: Rate,
        /// For how long requests are planned.
        duration: Duration,
        /// Which plan of random arrivals.
        seed: u64,
        /// Purpose of the trial.
        purpose: Purpose,
    },
    /// Wait until a light probe finds the service back at rest: nothing in flight, and answers
    /// within this time again.
    CoolDown {
        /// The median response time to wait for.
        at_rest: Duration,
    },
    /// Nothing any more.
    Done(Box<CapacityRecord>),
}

/// What came of a step.
#[derive(Clone, Debug, PartialEq)]
pub enum Observation {
    /// Of [`Step::Ladder`] and [`Step::Trial`].
    Run(Box<Measured>),
    /// Of [`Step::CoolDown`]: whether the service came to rest in the time there was.
    Cooled {
        /// Whether it did.
        at_rest: bool,
    },
    /// The run was cut off because the time of the search was over.
    OutOfTime,
    /// Someone wants the search to end now.
    Interrupted,
    /// No run can be made any more, for this reason.
    GeneratorLost(String),
}

/// What a search must know of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// Successful answers per second.
    pub achieved: Rate,
    /// Requests that became due.
    pub planned: u64,
    /// Their response times.
    pub response: Latency,
    /// Whether the objective was met.
    pub met: bool,
    /// The worst measured value as a multiple of its limit, where the objective gives one.
    pub pressure: Option<f64>,
    /// What was measured, by criterion.
    pub criteria: Vec<Criterion>,
    /// What makes the run invalid.
    pub faults: Vec<Fault>,
    /// Spent and allowed amount of each criterion.
    pub spent: Vec<Spent>,
    /// When requests were late since the run began, in the order of time, and about how many.
    pub late: Vec<(Duration, f64)>,
}

/// Why a service cannot be searched: it answered nothing at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{target} answered none of {planned} requests: {class} ({count} of them){reason}")]
pub struct NoAnswer {
    target: String,
    planned: u64,
    /// The most frequent class of failure.
    class: &'static str,
    count: u64,
    /// What TLS found wrong, where it did.
    reason: String,
}

impl NoAnswer {
    /// The error for a valid run without any response, of whatever status; none if requests were
    /// cut off that might have got one.
    #[must_use]
    pub fn of(run: &LoadRecord) -> Option<Self> {
        let Outcomes { ok, client_error, server_error, .. } = run.outcomes;
        if !run.is_valid() || ok + client_error + server_error > 0 {
            return None;
        }
        let failed = Outcomes { cut_off: 0, ..run.outcomes };
        let (class, count) = failed.classes().into_iter().max_by_key(|(_, count)| *count)?;
        let reason = run.reasons.iter().max_by_key(|(_, count)| **count);
        let reason = reason.map(|(reason, _)| format!("; {reason}")).unwrap_or_default();
        let (target, planned) = (run.target.clone(), run.planned);
        (count > 0).then_some(Self { target, planned, class, count, reason })
    }
}

impl Measured {
    /// What a run says whose record holds its verdict on an objective; a run without one meets it.
    #[must_use]
    pub fn of(run: &LoadRecord, asked: &Objective) -> Self {
        let objective = run.objective.as_ref();
        Self {
            achieved: run.achieved,
            planned: run.planned,
            response: run.response.clone(),
            met: objective.is_none_or(loadline_measure::record::ObjectiveRecord::is_met),
            pressure: asked.pressure(run),
            criteria: objective.map_or_else(Vec::new, |objective| objective.criteria.clone()),
            faults: run.generator.faults.clone(),
            spent: asked.spent(run),
            late: asked.late(run),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_that_refuses_every_connection_is_told_so() {
        let of = |outcomes: Outcomes| LoadRecord {
            target: "http://127.0.0.1:1/".to_owned(),
            planned: outcomes.total(),
            outcomes,
            ..LoadRecord::default()
        };
        let refused = Outcomes { connect_refused: 40, reset: 2, cut_off: 1, ..Outcomes::default() };
        let told = NoAnswer::of(&of(refused)).map(|none| none.to_string());
        let expected = "http://127.0.0.1:1/ answered none of 43 requests: connect refused (40 of \
                        them)";
        assert_eq!(told.as_deref(), Some(expected));
        let mut secure = of(refused);
        secure.reasons = [("invalid peer certificate".to_owned(), 40)].into();
        let told = NoAnswer::of(&secure).map(|none| none.to_string()).unwrap_or_default();
        assert!(told.ends_with("(40 of them); invalid peer certificate"), "{told}");
        for outcomes in [
            Outcomes { server_error: 1, ..refused },
            Outcomes { cut_off: 1, ..Outcomes::default() },
            Outcomes::default(),
        ] {
            assert_eq!(NoAnswer::of(&of(outcomes)), None, "{outcomes:?}");
        }
    }
}
