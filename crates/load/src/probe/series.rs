//! A series in short: counts by class, and the latencies of what ended well.
//!
//! A series has hundreds of samples, not millions, so its percentiles are exact.

use loadline_core::time::Duration;
use loadline_measure::{
    record::{Outcomes, Phases, ProbeOutcome, ProbeSample, ProbeTarget},
    statistics::sample,
};

/// Fills in what follows from the samples of `target`.
pub(super) fn summarise(target: &mut ProbeTarget) {
    let samples = &target.samples;
    let mut outcomes = Outcomes::default();
    for sample in samples {
        sample.outcome.count_in(&mut outcomes);
    }
    let phase = |of: fn(&ProbeSample) -> Option<Duration>| {
        let good = samples.iter().filter(|sample| sample.outcome == ProbeOutcome::Ok);
        sample::latency(good.filter_map(of).collect())
    };
    target.outcomes = outcomes;
    target.time = phase(|sample| sample.time);
    target.phases = Phases {
        dns: phase(|sample| sample.dns),
        connect: phase(|sample| sample.connect),
        tls: phase(|sample| sample.tls),
        first_byte: phase(|sample| sample.first_byte),
        body: phase(|sample| sample.body),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(outcome: ProbeOutcome, ms: u64) -> ProbeSample {
        let time = Some(Duration::from_millis(ms));
        ProbeSample { outcome, time, ..ProbeSample::default() }
    }

    #[test]
    fn failures_are_counted_and_never_averaged_in() {
        let samples = vec![
            sample(ProbeOutcome::Ok, 30),
            sample(ProbeOutcome::ServerError, 1),
            sample(ProbeOutcome::Timeout, 5_000),
        ];
        let mut target = ProbeTarget { samples, ..ProbeTarget::default() };
        summarise(&mut target);
        let outcomes = Outcomes { ok: 1, server_error: 1, timeout: 1, ..Outcomes::default() };
        assert_eq!(target.outcomes, outcomes);
        assert_eq!((target.time.count, target.time.max), (1, Duration::from_millis(30)));
        assert_eq!(target.phases, Phases::default());
    }
}
