//! The last minutes of each service, a sample a second, for the pictures of the dashboard.

use std::collections::{BTreeMap, VecDeque};

use loadline_core::state::{Service, State};
use schemars::JsonSchema;
use serde::Serialize;

/// The samples of every service there is.
#[derive(Debug, Default)]
pub(crate) struct History(BTreeMap<String, VecDeque<Sample>>);

/// One second of a service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Sample {
    /// Requests that ended, per second.
    pub(crate) requests_per_s: f64,
    /// Requests sent to a group other than the nearest, per second.
    pub(crate) overflow_per_s: f64,
    /// Requests that failed by fault of a server, of capacity or of loadline, per second.
    pub(crate) errors_per_s: f64,
    /// Requests that wait for capacity.
    pub(crate) queued: f64,
    /// Half of the requests took no longer, in milliseconds; none where none ended.
    pub(crate) p50_ms: Option<f64>,
    /// 99 of 100 requests took no longer, in milliseconds; none where none ended.
    pub(crate) p99_ms: Option<f64>,
}

impl History {
    /// Takes a measured state in; forgets services that are gone and what is too old.
    pub(crate) fn take(&mut self, state: &State) {
        self.0.retain(|name, _| state.services.iter().any(|service| service.name == *name));
        for service in &state.services {
            let samples = self.0.entry(service.name.clone()).or_default();
            if samples.len() == SAMPLES {
                samples.pop_front();
            }
            samples.push_back(Sample::of(service));
        }
    }

    /// The samples of a service, the oldest first.
    pub(crate) fn of(&self, service: &str) -> Vec<Sample> {
        self.0.get(service).into_iter().flatten().copied().collect()
    }
}

impl Sample {
    fn of(service: &Service) -> Self {
        let rates = &service.rates;
        Self {
            requests_per_s: rates.requests_per_s,
            overflow_per_s: rates.overflow_per_s,
            errors_per_s: rates.errors_per_s,
            queued: f64::from(service.queued),
            p50_ms: rates.p50_ms,
            p99_ms: rates.p99_ms,
        }
    }
}

/// Five minutes.
pub(crate) const SAMPLES: usize = 300;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_than_five_minutes_of_services_that_are_there_are_kept() {
        let named = |name: &str| Service { name: name.to_owned(), ..Service::default() };
        let mut state = State { services: vec![named("web"), named("api")], ..State::default() };
        let mut history = History::default();
        (0..400).for_each(|_| history.take(&state));
        assert_eq!(history.of("web").len(), SAMPLES);
        state.services.pop();
        history.take(&state);
        assert!(history.of("api").is_empty());
    }
}
