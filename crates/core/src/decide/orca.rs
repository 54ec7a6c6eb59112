//! Utilization as servers report it, and the share of traffic it leaves room for.
//!
//! Servers answer with the `endpoint-load-metrics` header or trailer of ORCA (Open Request Cost
//! Aggregation): `TEXT cpu_utilization=0.53, ...` or `JSON {"cpu_utilization": 0.53, ...}`.
//! `application_utilization` counts where it is given, else `cpu_utilization`. The named metric
//! `rif` is the requests in flight: `TEXT named_metrics.rif=12, ...` or
//! `JSON {"named_metrics": {"rif": 12}, ...}`.
//!
//! A report says what the traffic of the last moments has cost, so a gate that closes at the
//! target would open and close in turn. Instead the rate at which requests may enter is moved, at
//! most once a second: `limit = entered per second * target / utilization`, at least 1/s; where
//! requests had to wait for the limit it takes the place of what entered, and where none had to and
//! utilization is below its target there is none. It is a rate, not a share of requests, since who
//! waits in a queue asks more than once. It is kept as a [`Budget`](super::budget::Budget) keeps
//! one, with what comes in 100 ms as its burst. Where nothing has been reported for ten seconds,
//! everything may enter, and the next report begins anew.

use core::sync::atomic::Ordering::Relaxed;

use crate::{
    decide::atomic::AtomicU32,
    time::{Duration, Instant},
    units::Ratio,
};

/// What a server reports of its load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadReport {
    /// Its utilization; none if it reports none.
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

/// The utilization of a server or a group, and the rate at which requests may enter for it. Small,
/// since each server has one.
#[derive(Clone, Debug, Default)]
pub struct Utilization {
    /// Smoothed reports, in millionths.
    ppm: AtomicU32,
    /// In milliseconds; zero before the first report.
    reported_at: AtomicU32,
    /// Requests per second that may enter, as the bits of an `f32`; zero, the initial state, lets
    /// everything in.
    limit: AtomicU32,
    /// The theoretical arrival time of what has entered, in [`TICK`]s.
    empty_at: AtomicU32,
    /// When the limit was moved last, in milliseconds.
    adjusted_at: AtomicU32,
    /// Twice the requests that have entered since, and one more if any could not.
    entered: AtomicU32,
}

impl Utilization {
    /// Takes a report in; with a target, adjusts the rate at which requests may enter.
    pub fn record(&self, now: Instant, report: Ratio, target: Option<Ratio>) {
        let fresh = self.mean(now);
        if fresh.is_none() {
            // The limit of then says nothing of what everything, let in since, comes to.
            self.limit.store(0, Relaxed);
            self.entered.store(0, Relaxed);
            self.adjusted_at.store(millis(now), Relaxed);
        }
        let next = fresh.map_or(report.as_ppm(), |old| {
            old.as_ppm() - old.as_ppm() / SAMPLES + report.as_ppm() / SAMPLES
        });
        self.ppm.store(next, Relaxed);
        // A report may come by a clock that was read before that of the last one.
        if fresh.is_none() || passed(self.reported_at.load(Relaxed), now) > 0 {
            self.reported_at.store(millis(now).max(1), Relaxed);
        }
        if let Some(target) = target {
            self.adjust(now, Ratio::ppm(next), target);
        }
    }

    /// The smoothed utilization; none before the first report and when the last is too old.
    #[must_use]
    pub fn mean(&self, now: Instant) -> Option<Ratio> {
        let at = self.reported_at.load(Relaxed);
        let fresh = at > 0 && passed(at, now) <= REPORT_LIFE;
        fresh.then(|| Ratio::ppm(self.ppm.load(Relaxed)))
    }

    /// The first instant at which a request may enter.
    #[must_use]
    pub fn ready_at(&self, now: Instant) -> Instant {
        let Some(_) = self.interval(now) else { return now };
        let wait = self.debt(now, self.empty_at.load(Relaxed)).saturating_sub(TOLERANCE);
        now + Duration::from_nanos(u64::from(wait) * TICK)
    }

    /// Notes that a request could not enter.
    pub fn note_full(&self) {
        if self.entered.load(Relaxed).is_multiple_of(2) {
            self.entered.fetch_or(1, Relaxed);
        }
    }

    /// Lets a request in if it may enter.
    #[must_use]
    pub fn take(&self, now: Instant) -> bool {
        let Some(interval) = self.interval(now) else { return true };
        let take = |empty_at: u32| {
            let debt = self.debt(now, empty_at);
            (debt <= TOLERANCE).then(|| ticks(now).wrapping_add(debt + interval))
        };
        self.empty_at.fetch_update(Relaxed, Relaxed, take).is_ok()
    }

    /// Gives back a request that was let in and is not sent.
    pub fn give_back(&self) {
        let interval = interval(self.limit()).unwrap_or(0);
        self.empty_at.fetch_sub(interval, Relaxed);
    }

    /// Counts a request that has entered, whether or not it was to wait for the limit.
    pub fn count(&self) {
        self.entered.fetch_add(2, Relaxed);
    }

    fn limit(&self) -> f32 {
        f32::from_bits(self.limit.load(Relaxed))
    }

    /// Ticks from one request to the next; none where everything may enter.
    fn interval(&self, now: Instant) -> Option<u32> {
        interval(self.limit()).filter(|_| self.mean(now).is_some())
    }

    /// Ticks until what has entered has had its time. What is farther ahead than a limit can make
    /// it is of an earlier turn of the ticks, and over.
    fn debt(&self, now: Instant, empty_at: u32) -> u32 {
        let ahead = empty_at.wrapping_sub(ticks(now));
        if ahead <= DEBT_MAX { ahead } else { 0 }
    }

    fn adjust(&self, now: Instant, measured: Ratio, target: Ratio) {
        let last = self.adjusted_at.load(Relaxed);
        let passed = passed(last, now);
        let adjusts = passed >= ADJUST_INTERVAL
            && self.adjusted_at.compare_exchange(last, millis(now), Relaxed, Relaxed).is_ok();
        if !adjusts {
            return;
        }
        let entered = self.entered.swap(0, Relaxed);
        if passed > REPORT_LIFE {
            // There was no target; what entered meanwhile was not counted.
            return;
        }
        let (entered, some_waited) = (entered / 2, entered % 2 == 1);
        let room = (target.as_f64() / measured.as_f64().max(1e-6)) as f32;
        let before = self.limit();
        let limit = match before > 0.0 && some_waited {
            true => (before * room).max(LIMIT_MIN),
            false if room >= 1.0 => 0.0,
            false => (entered as f32 * 1e3 / passed as f32 * room).max(LIMIT_MIN),
        };
        if before <= 0.0 {
            self.empty_at.store(ticks(now), Relaxed);
        }
        self.limit.store(limit.to_bits(), Relaxed);
    }
}

/// Ticks from one request to the next at so many a second; none where everything may enter.
fn interval(limit: f32) -> Option<u32> {
    (limit > 0.0).then(|| ((TICKS_PER_SEC / limit + 0.5) as u32).max(1))
}

/// A tick of the clock, which is at this one again after 18 minutes.
const fn ticks(now: Instant) -> u32 {
    (now.as_nanos() / TICK) as u32
}

/// A millisecond, of 49 days.
const fn millis(now: Instant) -> u32 {
    (now.as_nanos() / 1_000_000) as u32
}

/// Milliseconds from `at` to `now`; none where that is a little before it, for each worker reads
/// the clock by itself, and a request may have waited since it was read.
fn passed(at: u32, now: Instant) -> u32 {
    let passed = millis(now).wrapping_sub(at);
    if passed > u32::MAX - BEHIND { 0 } else { passed }
}

/// Weight of the past in reports.
const SAMPLES: u32 = 8;

/// Milliseconds after which a report no longer limits its server.
const REPORT_LIFE: u32 = 10_000;

/// Milliseconds: so far behind another a clock may have been read.
const BEHIND: u32 = 3_600_000;

/// Milliseconds, long enough for a change of traffic to show in the reports (they average over
/// about a second).
const ADJUST_INTERVAL: u32 = 1_000;

/// Requests per second that are always let in, so that reports go on coming.
const LIMIT_MIN: f32 = 1.0;

/// Nanoseconds.
const TICK: u64 = 256;
const TICKS_PER_SEC: f32 = 1e9 / TICK as f32;

/// 100 ms in ticks: what timers and chance let pass is not lost.
const TOLERANCE: u32 = (100_000_000 / TICK) as u32;

/// In ticks: the tolerance, the second of a request at the least limit, and as much for a clock
/// that was read before.
const DEBT_MAX: u32 = TOLERANCE + (2_000_000_000 / TICK) as u32;

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

    const TARGET: Option<Ratio> = Some(Ratio::percent(80));

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    /// How many of a thousand requests enter in the second that begins at `from`, of which each
    /// reports that `used` is in use.
    fn second(group: &Utilization, from: u64, used: f64) -> u64 {
        let enters = |millis: &u64| {
            let now = at(from + millis);
            let enters = group.take(now);
            if enters {
                group.count();
                group.record(now, Ratio::from_f64(used), TARGET);
            } else {
                group.note_full();
            }
            enters
        };
        (0..1_000).filter(enters).count() as u64
    }

    /// The same in each of these seconds.
    fn seconds(group: &Utilization, mut numbers: core::ops::RangeInclusive<u64>, used: f64) {
        assert!(numbers.all(|n| second(group, n * 1_000, used) > 0), "some enter in each");
    }

    /// A group whose utilization is proportional to what enters settles at its target.
    #[test]
    fn the_rate_that_enters_settles_where_utilization_meets_its_target() {
        let group = Utilization::default();
        let (mut used, mut entered) = (1.6, 0);
        for n in 1..=40 {
            entered = second(&group, n * 1_000, used);
            used = 1.6 * entered as f64 / 1_000.0;
        }
        assert!((450..=550).contains(&entered), "{entered} of 1000 enter");
    }

    #[test]
    fn who_asks_often_does_not_enter_sooner() {
        let group = Utilization::default();
        seconds(&group, 1..=3, 1.6);
        let mut entered = 0;
        for millis in 4_000..5_000 {
            let now = at(millis);
            let enters = (0..50).any(|_| group.take(now));
            if !enters {
                let ready = group.ready_at(now);
                assert!(ready > now && ready.since(now) <= Duration::from_millis(5), "{ready:?}");
            }
            entered += u64::from(enters);
        }
        assert!((225..=400).contains(&entered), "{entered}: a quarter, and what comes in 100 ms");
    }

    #[test]
    fn what_is_not_sent_is_given_back() {
        let group = Utilization::default();
        seconds(&group, 1..=2, 1.6);
        let now = at(4_000);
        while group.take(now) {}
        let ready = group.ready_at(now);
        group.give_back();
        assert!(group.take(now) && !group.take(now));
        assert_eq!(group.ready_at(now), ready);
    }

    #[test]
    fn below_its_target_nothing_waits() {
        let group = Utilization::default();
        seconds(&group, 1..=2, 1.6);
        seconds(&group, 3..=20, 0.4);
        assert_eq!(second(&group, 21_000, 0.4), 1_000);
    }

    #[test]
    fn a_clock_that_was_read_a_little_earlier_does_not_lift_the_limit() {
        let group = Utilization::default();
        seconds(&group, 1..=3, 1.6);
        let entered = second(&group, 4_000, 1.6);
        let used = Ratio::from_f64(1.6);
        for millis in [5_001, 4_999, 4_100] {
            group.record(at(millis), used, TARGET);
            let mean = group.mean(at(millis - 5));
            assert!(mean.is_some_and(|mean| mean > Ratio::percent(150)), "{mean:?}");
        }
        let again = second(&group, 5_002, 1.6);
        assert!(again <= entered, "{again}, {entered} before");
        let limited = (0..1_000u64).filter(|_| group.take(at(6_000))).count();
        assert!(limited < 100, "{limited}: what comes in 100 ms");
    }

    #[test]
    fn a_target_that_a_reload_sets_begins_with_what_enters_then() {
        let group = Utilization::default();
        let used = Ratio::from_f64(1.6);
        (1..3_600).for_each(|second| group.record(at(second * 1_000), used, None));
        assert_eq!(second(&group, 3_600_000, 1.6), 1_000, "nothing is known of what enters");
        let entered = second(&group, 3_601_000, 1.6);
        assert!((500..=610).contains(&entered), "{entered}: half, and what comes in 100 ms");
    }

    #[test]
    fn without_reports_everything_enters_again() {
        let group = Utilization::default();
        seconds(&group, 1..=2, 4.0);
        let entered = |from: u64| (0..1_000u64).filter(|n| group.take(at(from + n))).count();
        assert!(entered(4_000) < 1_000);
        assert_eq!(entered(15_000), 1_000);
    }

    #[test]
    fn after_a_silence_the_limit_of_before_is_not_applied_again() {
        let group = Utilization::default();
        seconds(&group, 1..=5, 4.0);
        assert!(second(&group, 6_000, 4.0) < 100);
        assert_eq!(second(&group, 60_000, 1.6), 1_000, "what it comes to is not known yet");
        let entered = second(&group, 61_000, 1.6);
        assert!((500..=610).contains(&entered), "{entered}: half, and what comes in 100 ms");
    }
}
