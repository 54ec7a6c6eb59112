//! A series in short: counts by class, and the latencies of what ended well.
//!
//! A series has hundreds of samples, not millions, so its percentiles are exact: the p-quantile of
//! n times is the one of rank ceil(p n), as a sample that was measured (nearest rank, Hyndman and
//! Fan's definition 1). The standard deviation is that of the whole, sqrt(E(x^2) - E(x)^2), which
//! ping prints as mdev.

use loadline_core::time::Duration;
use loadline_measure::record::{Latency, Outcomes, Phases, ProbeOutcome, ProbeSample, ProbeTarget};

/// Fills in what follows from the samples of `target`.
pub(super) fn summarise(target: &mut ProbeTarget) {
    let samples = &target.samples;
    let mut outcomes = Outcomes::default();
    for sample in samples {
        sample.outcome.count_in(&mut outcomes);
    }
    let phase = |of: fn(&ProbeSample) -> Option<Duration>| {
        let good = samples.iter().filter(|sample| sample.outcome == ProbeOutcome::Ok);
        latency(good.filter_map(of).collect())
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

/// The times in short; all zero where there are none.
fn latency(mut times: Vec<Duration>) -> Latency {
    times.sort_unstable();
    let (Some(min), Some(max)) = (times.first().copied(), times.last().copied()) else {
        return Latency::default();
    };
    let count = times.len() as f64;
    let mean = times.iter().map(|time| time.as_nanos() as f64).sum::<f64>() / count;
    let squares = times.iter().map(|time| (time.as_nanos() as f64 - mean).powi(2)).sum::<f64>();
    let quantile = |share: f64| {
        let rank = (share * count).ceil() as usize;
        times[rank.clamp(1, times.len()) - 1]
    };
    Latency {
        count: times.len() as u64,
        min,
        mean: Duration::from_nanos(mean.round() as u64),
        stddev: Duration::from_nanos((squares / count).sqrt().round() as u64),
        p50: quantile(0.5),
        p90: quantile(0.9),
        p95: quantile(0.95),
        p99: quantile(0.99),
        p999: quantile(0.999),
        max,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(outcome: ProbeOutcome, ms: u64) -> ProbeSample {
        let time = Some(Duration::from_millis(ms));
        ProbeSample { outcome, time, ..ProbeSample::default() }
    }

    #[test]
    fn the_published_pings_give_the_published_figures() {
        // "rtt min/avg/max/mdev = 1.163/1.195/1.229/0.039 ms", to the hundredth as printed there.
        let times = [1_220, 1_200, 1_160, 1_170, 1_200].map(Duration::from_micros);
        let figures = latency(times.to_vec());
        assert_eq!(figures.min, Duration::from_micros(1_160));
        assert_eq!(figures.mean, Duration::from_micros(1_190));
        assert_eq!(figures.p50, Duration::from_micros(1_200));
        assert_eq!(figures.max, Duration::from_micros(1_220));
        assert_eq!(figures.stddev, Duration::from_nanos(21_909));
    }

    #[test]
    fn percentiles_are_times_that_were_measured() {
        let figures = latency((1..=500).map(Duration::from_millis).collect());
        assert_eq!(figures.p50, Duration::from_millis(250));
        assert_eq!(figures.p95, Duration::from_millis(475));
        assert_eq!(figures.p999, Duration::from_millis(500));
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
