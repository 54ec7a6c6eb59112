//! A plan as it is sent to an agent. What is of the agent's own machine, certificates and source
//! addresses, is not in it.

use loadline_core::{time::Duration, units::Rate};
use loadline_measure::record::{Arrivals, Stage};
use serde::{Deserialize, Serialize};

use crate::{
    plan::{LoadPlan, Pattern, PlanError, Share, Until},
    timetable::Timetable,
    transport::{Protocol, Tls, TlsVersion, Transport},
};

/// A plan and which part of it to send.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Job {
    targets: Vec<(String, u32)>,
    protocol: Protocol,
    insecure: bool,
    server_name: Option<String>,
    tls_version: Option<TlsVersion>,
    connections: Option<u32>,
    pattern: JobPattern,
    max_rate: Option<Rate>,
    timeout: Duration,
    keepalive: bool,
    method: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    count_by: Option<String>,
    share: Share,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
enum JobPattern {
    Closed { users: u32, think: Duration, until: Until },
    Steady { rate: Rate, arrivals: Arrivals, seed: u64, end: End },
    Stages { stages: Vec<JobStage>, arrivals: Arrivals, seed: u64, end: End },
    Listed { instants: Vec<u64>, end: End },
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct End {
    until: Until,
    max_in_flight: Option<u32>,
}

/// A stage with exact figures, which those of a record are not.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct JobStage {
    from: Rate,
    to: Rate,
    lasts: Duration,
}

impl Job {
    /// This part of `plan`.
    pub(super) fn of(plan: &LoadPlan, share: Share) -> Self {
        let Transport { protocol, tls, connections, .. } = &plan.transport;
        let targets = plan.targets.iter().map(|(target, weight)| (target.to_string(), *weight));
        Self {
            targets: targets.collect(),
            protocol: *protocol,
            insecure: tls.insecure,
            server_name: tls.server_name.clone(),
            tls_version: tls.version,
            connections: *connections,
            pattern: JobPattern::of(&plan.pattern),
            max_rate: plan.max_rate,
            timeout: plan.timeout,
            keepalive: plan.keepalive,
            method: plan.method.clone(),
            headers: plan.headers.clone(),
            body: plan.body.clone(),
            count_by: plan.count_by.clone(),
            share,
        }
    }

    /// The plan for an agent whose connections go out as `own` says.
    ///
    /// # Errors
    /// Why it cannot be run.
    pub(super) fn plan(self, own: &Transport) -> Result<LoadPlan, PlanError> {
        let Share { number, of } = self.share;
        if number >= of {
            return Err(PlanError::Zero { what: "the number of parts" });
        }
        let mut targets = Vec::new();
        for (url, weight) in &self.targets {
            targets.push((url.parse()?, *weight));
        }
        let Some((first, _)) = targets.first().cloned() else {
            return Err(PlanError::Zero { what: "the number of URLs" });
        };
        let plan = LoadPlan {
            targets,
            transport: Transport {
                protocol: self.protocol,
                tls: Tls {
                    insecure: self.insecure,
                    server_name: self.server_name,
                    version: self.tls_version,
                    ..own.tls.clone()
                },
                sources: own.sources.clone(),
                connections: self.connections,
            },
            max_rate: self.max_rate,
            timeout: self.timeout,
            keepalive: self.keepalive,
            method: self.method,
            headers: self.headers,
            body: self.body,
            count_by: self.count_by,
            // Only who makes the record needs it.
            late_after: None,
            share: self.share,
            ..LoadPlan::new(first, self.pattern.pattern())
        };
        plan.check()?;
        Ok(plan)
    }
}

impl JobPattern {
    fn of(pattern: &Pattern) -> Self {
        match pattern {
            Pattern::Closed { users, think, until } => {
                Self::Closed { users: *users, think: *think, until: *until }
            }
            Pattern::Open { timetable, until, max_in_flight } => {
                let end = End { until: *until, max_in_flight: *max_in_flight };
                let (arrivals, seed) = (timetable.arrivals(), timetable.seed());
                let stages = timetable.parts().iter();
                let stages: Vec<_> =
                    stages.map(|&Stage { from, to, lasts }| JobStage { from, to, lasts }).collect();
                if let Some(listed) = timetable.listing() {
                    let instants = listed.iter().map(|at| at.as_nanos()).collect();
                    return Self::Listed { instants, end };
                }
                match stages.is_empty() {
                    true => Self::Steady { rate: timetable.peak_rate(), arrivals, seed, end },
                    false => Self::Stages { stages, arrivals, seed, end },
                }
            }
        }
    }

    fn pattern(self) -> Pattern {
        let (timetable, End { until, max_in_flight }) = match self {
            Self::Closed { users, think, until } => return Pattern::Closed { users, think, until },
            Self::Steady { rate, arrivals, seed, end } => {
                (Timetable::steady(rate, arrivals, seed), end)
            }
            Self::Stages { stages, arrivals, seed, end } => {
                let stage = |JobStage { from, to, lasts }| Stage { from, to, lasts };
                (Timetable::stages(stages.into_iter().map(stage).collect(), arrivals, seed), end)
            }
            Self::Listed { instants, end } => {
                let instants = instants.into_iter().map(Duration::from_nanos).collect();
                (Timetable::listed(instants), end)
            }
        };
        Pattern::Open { timetable, until, max_in_flight }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sent(plan: &LoadPlan, share: Share) -> Result<LoadPlan, PlanError> {
        let text = serde_json::to_string(&Job::of(plan, share)).unwrap();
        serde_json::from_str::<Job>(&text).unwrap().plan(&Transport::default())
    }

    fn any_timetable() -> impl Strategy<Value = Timetable> {
        let kinds = vec![Arrivals::Constant, Arrivals::Poisson, Arrivals::Uniform];
        let stage =
            (0u64..100_000, 1u64..100_000, 1u64..3_000_000_000).prop_map(|(from, to, nanos)| {
                Stage {
                    from: Rate::milli_per_sec(from),
                    to: Rate::milli_per_sec(to),
                    lasts: Duration::from_nanos(nanos),
                }
            });
        prop_oneof![
            (1u64..10_000_000, prop::sample::select(kinds.clone()), any::<u64>()).prop_map(
                |(rate, kind, seed)| Timetable::steady(Rate::milli_per_sec(rate), kind, seed)
            ),
            (prop::collection::vec(stage, 1..4), prop::sample::select(kinds), any::<u64>())
                .prop_map(|(stages, kind, seed)| Timetable::stages(stages, kind, seed)),
            prop::collection::vec(any::<u32>(), 1..50).prop_map(|nanos| {
                let at = |nanos| Duration::from_nanos(u64::from(nanos));
                Timetable::listed(nanos.into_iter().map(at).collect())
            }),
        ]
    }

    proptest! {
        /// The plan that an agent has is that of its leader, to the nanosecond.
        #[test]
        fn a_plan_arrives_as_it_was_sent(timetable in any_timetable(), requests in 1u64..200) {
            let until = Until::Requests(requests);
            let mut plan = LoadPlan::open("a.example:81/b?c", Rate::per_sec(1), until).unwrap();
            plan.pattern = Pattern::Open { timetable, until, max_in_flight: Some(9) };
            plan.headers.push(("A".into(), "b".into()));
            plan.body = vec![0, 255];
            plan.max_rate = Some(Rate::milli_per_sec(7));
            if let Ok(()) = plan.check() {
                let got = sent(&plan, Share { number: 1, of: 3 }).unwrap();
                prop_assert_eq!(&got.pattern, &plan.pattern);
                prop_assert_eq!(&got.targets, &plan.targets);
                prop_assert_eq!((&got.headers, &got.body), (&plan.headers, &plan.body));
                prop_assert_eq!(got.max_rate, plan.max_rate);
                prop_assert_eq!(got.share, Share { number: 1, of: 3 });
            }
        }

        #[test]
        fn no_text_panics(text: String) {
            let _ = serde_json::from_str::<Job>(&text);
        }
    }

    #[test]
    fn what_an_agent_has_of_its_own_is_kept_and_a_part_of_nothing_refused() {
        let mut plan = LoadPlan::closed("https://a.example/", 4, Until::Requests(1)).unwrap();
        plan.transport.tls.insecure = true;
        plan.transport.tls.authorities = Some("/of/the/leader.pem".into());
        let mut own = Transport::default();
        own.tls.authorities = Some("/of/the/agent.pem".into());
        own.sources = vec!["127.0.0.2".parse().unwrap()];
        let got = Job::of(&plan, Share::default()).plan(&own).unwrap().transport;
        assert!(got.tls.insecure);
        assert_eq!((&got.tls.authorities, &got.sources), (&own.tls.authorities, &own.sources));
        for share in [Share { number: 0, of: 0 }, Share { number: 3, of: 3 }] {
            assert!(sent(&plan, share).is_err(), "{share:?}");
        }
    }
}
