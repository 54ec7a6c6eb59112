//! The last minutes of each service, a sample a second, for the pictures of the dashboard.

use std::{
    collections::{BTreeMap, VecDeque},
    iter,
};

use loadline_core::state::{Service, State};
use schemars::JsonSchema;
use serde::Serialize;

/// The samples of every service there is.
#[derive(Debug, Default)]
pub(crate) struct History {
    lines: BTreeMap<String, Line>,
    looks: u64,
}

/// The last minutes of one service.
#[derive(Debug, Default)]
struct Line {
    /// Seconds that are known, up to [`SAMPLES`].
    seconds: usize,
    /// Of the last of these; before them nothing happened, which takes no memory.
    samples: VecDeque<Sample>,
    /// The last look that had the service.
    look: u64,
}

/// Figures of a service in one second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Sample {
    /// Requests that ended, per second.
    pub(crate) requests_per_s: f64,
    /// Requests sent past the nearest group, which was full or down, per second.
    pub(crate) overflow_per_s: f64,
    /// Requests that failed by fault of a server, of capacity or of loadline, per second.
    pub(crate) errors_per_s: f64,
    /// Requests in the queue, waiting for capacity.
    pub(crate) queued: f64,
    /// Median duration of requests in milliseconds; null if none ended.
    pub(crate) p50_ms: Option<f64>,
    /// 99th percentile of the duration of requests in milliseconds; null if none ended.
    pub(crate) p99_ms: Option<f64>,
}

impl History {
    /// Takes a measured state in, which is that of so many seconds; forgets services that are gone
    /// and what is too old.
    pub(crate) fn take(&mut self, state: &State, seconds: usize) {
        self.looks += 1;
        for service in &state.services {
            let line = match self.lines.get_mut(&service.name) {
                Some(line) => line,
                None => self.lines.entry(service.name.clone()).or_default(),
            };
            line.take(Sample::of(service), seconds);
            line.look = self.looks;
        }
        self.lines.retain(|_, line| line.look == self.looks);
    }

    /// The samples of a service, the oldest first.
    pub(crate) fn of(&self, service: &str) -> Vec<Sample> {
        let Some(line) = self.lines.get(service) else { return Vec::new() };
        let quiet = iter::repeat_n(Sample::default(), line.seconds - line.samples.len());
        quiet.chain(line.samples.iter().copied()).collect()
    }
}

impl Line {
    fn take(&mut self, sample: Sample, seconds: usize) {
        self.seconds = (self.seconds + seconds).min(SAMPLES);
        if self.samples.is_empty() && sample == Sample::default() {
            return;
        }
        self.samples.extend(iter::repeat_n(sample, seconds.min(SAMPLES)));
        let old = self.samples.len().saturating_sub(SAMPLES);
        self.samples.drain(..old);
        if self.samples.iter().all(|sample| *sample == Sample::default()) {
            self.samples = VecDeque::new();
        }
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
        (0..400).for_each(|_| history.take(&state, 1));
        assert_eq!(history.of("web").len(), SAMPLES);
        state.services.pop();
        history.take(&state, 1);
        assert!(history.of("api").is_empty());
    }

    #[test]
    fn a_service_that_nobody_asks_is_known_to_be_quiet_and_takes_no_memory() {
        let mut service = Service { name: "web".to_owned(), ..Service::default() };
        let mut history = History::default();
        let mut look = |service: &Service, seconds| {
            let services = vec![service.clone()];
            history.take(&State { services, ..State::default() }, seconds);
            let samples = &history.lines["web"].samples;
            (samples.capacity(), history.of("web"))
        };
        assert_eq!(look(&service, 3), (0, vec![Sample::default(); 3]));
        service.queued = 7;
        let (_, samples) = look(&service, 2);
        let waiting: Vec<f64> = samples.iter().map(|it| it.queued).collect();
        assert_eq!(waiting, [0.0, 0.0, 0.0, 7.0, 7.0], "a look that took two seconds to come");
        service.queued = 0;
        assert_eq!(look(&service, 400), (0, vec![Sample::default(); SAMPLES]));
    }
}
