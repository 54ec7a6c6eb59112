//! Utilization as servers report it, and the share of traffic it leaves room for.
//!
//! Servers answer with the `endpoint-load-metrics` header or trailer of ORCA (Open Request Cost
//! Aggregation): `TEXT cpu_utilization=0.53, ...` or `JSON {"cpu_utilization": 0.53, ...}`.
//! `application_utilization` counts where it is given, else `cpu_utilization`. The named metric
//! `rif` is the requests in flight: `TEXT named_metrics.rif=12, ...` or
//! `JSON {"named_metrics": {"rif": 12}, ...}`.
//!
//! A report says what the traffic of the last moments has cost, so a gate that closes at the
//! target would open and close in turn. Instead the share `p` of requests that may enter is moved,
//! at most once a second: `p = p * target / utilization`, within 1 % and 100 %. Where nothing has
//! been reported for ten seconds, everything may enter, and the next report begins anew.

use core::sync::atomic::Ordering::Relaxed;

use crate::{
    decide::atomic::{AtomicU32, AtomicU64},
    time::{Duration, Instant},
    units::Ratio,
};

/// The name of the header or trailer.
pub const ORCA_HEADER: &str = "endpoint-load-metrics";

/// What a server reports of its load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadReport {
    /// The utilization.
    pub utilization: Option<Ratio>,
    /// Its requests in flight, from all edges.
    pub in_flight: Option<u32>,
}

impl LoadReport {
    /// Reads an ORCA report in its text or JSON form. Nothing is in it where it is of another form;
    /// figures that are missing, negative or no number are none.
    #[must_use]
    pub fn parse(report: &str) -> Self {
        let Some((form, metrics)) = report.trim().split_once(' ') else { return Self::default() };
        let (separators, in_flight): (&[char], _) = match form {
            "TEXT" => (&[','], "named_metrics.rif"),
            "JSON" => (&[',', '{', '}'], "rif"),
            _ => return Self::default(),
        };
        let value_of = |name: &str| {
            let value = metrics.split(separators).find_map(|metric| {
                let (key, value) = metric.split_once(['=', ':'])?;
                let key = key.trim().trim_matches('"');
                (key == name).then(|| value.trim().trim_matches('"').parse::<f64>().ok())?
            });
            value.filter(|value| value.is_finite() && *value >= 0.0)
        };
        let utilization =
            value_of("application_utilization").or_else(|| value_of("cpu_utilization"));
        Self {
            utilization: utilization.map(Ratio::from_f64),
            in_flight: value_of(in_flight).map(|value| value as u32),
        }
    }
}

/// The utilization of a server or a group, and the share of requests that may enter for it.
#[derive(Clone, Debug, Default)]
pub struct Utilization {
    /// Smoothed reports, in millionths.
    ppm: AtomicU32,
    reported_at: AtomicU64,
    /// What may not enter, in millionths: zero, the initial state, lets everything in.
    kept_out: AtomicU32,
    adjusted_at: AtomicU64,
}

impl Utilization {
    /// Takes a report in; with a target, adjusts the share that may enter.
    pub fn record(&self, now: Instant, report: Ratio, target: Option<Ratio>) {
        let fresh = self.mean(now);
        if fresh.is_none() {
            // What was kept out then says nothing of what everything, let in since, comes to.
            self.kept_out.store(0, Relaxed);
        }
        let next = fresh.map_or(report.as_ppm(), |old| {
            old.as_ppm() - old.as_ppm() / SAMPLES + report.as_ppm() / SAMPLES
        });
        self.ppm.store(next, Relaxed);
        self.reported_at.store(now.as_nanos().max(1), Relaxed);
        if let Some(target) = target {
            self.adjust(now, Ratio::ppm(next), target);
        }
    }

    /// The smoothed utilization; none before the first report and when the last is too old.
    #[must_use]
    pub fn mean(&self, now: Instant) -> Option<Ratio> {
        let at = self.reported_at.load(Relaxed);
        let fresh = at > 0 && now.since(Instant::from_nanos(at)) <= REPORT_LIFE;
        fresh.then(|| Ratio::ppm(self.ppm.load(Relaxed)))
    }

    /// Whether a request with this draw (uniform over all of `u64`) may enter.
    #[must_use]
    pub fn admits(&self, now: Instant, draw: u64) -> bool {
        let kept_out = self.kept_out.load(Relaxed);
        if kept_out == 0 || self.mean(now).is_none() {
            return true;
        }
        let mark = u128::from(draw) * u128::from(Ratio::ONE.as_ppm());
        (mark >> 64) >= u128::from(kept_out)
    }

    fn adjust(&self, now: Instant, measured: Ratio, target: Ratio) {
        let last = self.adjusted_at.load(Relaxed);
        let due = now.since(Instant::from_nanos(last)) >= ADJUST_INTERVAL;
        let now = now.as_nanos();
        if !due || self.adjusted_at.compare_exchange(last, now, Relaxed, Relaxed).is_err() {
            return;
        }
        let one = Ratio::ONE.as_ppm();
        let entering = f64::from(one - self.kept_out.load(Relaxed).min(one));
        let wanted = entering * target.as_f64() / measured.as_f64().max(1e-6);
        let entering = wanted.clamp(ENTERING_MIN, f64::from(one)) as u32;
        self.kept_out.store(one - entering, Relaxed);
    }
}

/// Weight of the past in reports.
const SAMPLES: u32 = 8;

/// A server that has reported nothing for so long is not limited by what it said last.
const REPORT_LIFE: Duration = Duration::from_secs(10);

/// Long enough for a change of traffic to show in the reports (they average over about a second).
const ADJUST_INTERVAL: Duration = Duration::from_secs(1);

/// One request in a hundred always enters, so that reports go on coming.
const ENTERING_MIN: f64 = 10_000.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_a_report_are_read() {
        let cases = [
            ("TEXT cpu_utilization=0.53", Some(530_000)),
            ("TEXT mem_utilization=0.9, cpu_utilization=0.25", Some(250_000)),
            ("TEXT cpu_utilization=0.3,application_utilization=1.5", Some(1_500_000)),
            (r#"JSON {"cpu_utilization": 0.3, "rps_fractional": 10}"#, Some(300_000)),
            (r#"JSON {"application_utilization":0.7}"#, Some(700_000)),
            ("TEXT mem_utilization=0.9", None),
            ("TEXT cpu_utilization=-1", None),
            ("TEXT cpu_utilization=NaN", None),
            ("BIN AAAA", None),
            ("cpu_utilization=0.5", None),
            ("", None),
        ];
        for (report, ppm) in cases {
            let parsed = LoadReport::parse(report);
            assert_eq!(parsed.utilization.map(Ratio::as_ppm), ppm, "{report}");
        }
    }

    #[test]
    fn requests_in_flight_are_a_named_metric() {
        let cases = [
            ("TEXT named_metrics.rif=12,cpu_utilization=0.5", Some(12)),
            (r#"JSON {"cpu_utilization": 0.3, "named_metrics": {"rif": 7}}"#, Some(7)),
            ("TEXT named_metrics.rif=-3", None),
            ("TEXT rif=3", None),
        ];
        for (report, in_flight) in cases {
            assert_eq!(LoadReport::parse(report).in_flight, in_flight, "{report}");
        }
    }

    /// A group whose utilization is proportional to what enters settles at its target.
    #[test]
    fn the_share_that_enters_settles_where_utilization_meets_its_target() {
        let group = Utilization::default();
        let target = Ratio::percent(80);
        let mut draw = 1u64;
        let mut entered_late = 0;
        let mut used = 1.6;
        for second in 1..=40 {
            let mut entered = 0;
            for step in 0..1_000 {
                let now = Instant::from_nanos(second * 1_000_000_000 + step * 1_000_000);
                draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                if group.admits(now, draw) {
                    entered += 1;
                    group.record(now, Ratio::from_f64(used), Some(target));
                }
            }
            used = 1.6 * f64::from(entered) / 1_000.0;
            entered_late = entered;
        }
        assert!((450..=550).contains(&entered_late), "{entered_late} of 1000 enter");
    }

    #[test]
    fn without_reports_everything_enters_again() {
        let group = Utilization::default();
        let start = Instant::from_nanos(5_000_000_000);
        group.record(start, Ratio::percent(400), Some(Ratio::percent(80)));
        assert!(!group.admits(start, 0));
        assert!(group.admits(start + Duration::from_secs(11), 0));
    }

    #[test]
    fn after_a_silence_the_share_of_before_is_not_applied_again() {
        let group = Utilization::default();
        let (start, target) = (Instant::from_nanos(5_000_000_000), Some(Ratio::percent(80)));
        for second in 0..5 {
            group.record(start + Duration::from_secs(second), Ratio::percent(400), target);
        }
        assert!(!group.admits(start + Duration::from_secs(5), 0));
        let later = start + Duration::from_secs(60);
        group.record(later, Ratio::percent(40), target);
        assert!(group.admits(later, 0), "it reports half of its target");
        group.record(later + Duration::from_secs(60), Ratio::percent(160), target);
        let entering = |mark: u64| group.admits(later + Duration::from_secs(60), mark);
        assert!(!entering(u64::MAX / 100 * 45) && entering(u64::MAX / 100 * 55), "half enters");
    }
}
