//! Times gathered into histograms, and what is printed of them.
//!
//! Count, shortest, mean and longest are exact; percentiles come from an HdrHistogram with three
//! significant digits, so they are at most 0.1 % off, and never outside shortest and longest.

use hdrhistogram::Histogram;
use loadline_core::time::Duration;
use serde::{Deserialize, Serialize};

use crate::record::{Bin, Latency, Spread};

/// Times of one kind. What is read is what was written, to the last count, so that times gathered
/// in several places can be added.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct Times {
    histogram: Histogram<u64>,
    shortest: Duration,
    longest: Duration,
    total_nanos: u128,
}

impl Times {
    /// None yet, with so many significant digits, 1 to 3.
    #[must_use]
    #[expect(clippy::missing_panics_doc, reason = "digits outside of the range are a bug")]
    pub fn new(digits: u8) -> Self {
        let histogram = Histogram::new_with_bounds(1, LONGEST.as_nanos(), digits)
            .expect("the bounds and digits are constants within the histogram's range");
        Self { histogram, shortest: Duration::MAX, longest: Duration::ZERO, total_nanos: 0 }
    }

    /// One more.
    pub fn record(&mut self, time: Duration) {
        self.histogram.saturating_record(time.as_nanos());
        self.shortest = self.shortest.min(time);
        self.longest = self.longest.max(time);
        self.total_nanos += u128::from(time.as_nanos());
    }

    /// All of others, which have as many significant digits.
    #[expect(clippy::missing_panics_doc, reason = "all histograms have the same bounds")]
    pub fn add(&mut self, others: &Self) {
        self.histogram.add(&others.histogram).expect("the bounds of both are the same");
        self.shortest = self.shortest.min(others.shortest);
        self.longest = self.longest.max(others.longest);
        self.total_nanos += others.total_nanos;
    }

    /// Forgets all of them.
    pub fn reset(&mut self) {
        self.histogram.reset();
        self.shortest = Duration::MAX;
        self.longest = Duration::ZERO;
        self.total_nanos = 0;
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The time that this share of them (0 to 1) does not exceed; zero where there is none.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Duration {
        if self.histogram.is_empty() {
            return Duration::ZERO;
        }
        let time = Duration::from_nanos(self.histogram.value_at_quantile(share));
        time.clamp(self.shortest, self.longest)
    }

    /// The longest; zero where there is none.
    #[must_use]
    pub fn longest(&self) -> Duration {
        self.longest
    }

    /// They in short; all zero where there is none.
    #[must_use]
    pub fn latency(&self) -> Latency {
        let count = self.count();
        if count == 0 {
            return Latency::default();
        }
        let mean = self.total_nanos / u128::from(count);
        Latency {
            count,
            min: self.shortest,
            mean: Duration::from_nanos(u64::try_from(mean).unwrap_or(u64::MAX)),
            stddev: Duration::from_nanos(self.histogram.stdev() as u64),
            p50: self.quantile(0.5),
            p90: self.quantile(0.9),
            p95: self.quantile(0.95),
            p99: self.quantile(0.99),
            p999: self.quantile(0.999),
            max: self.longest,
        }
    }

    /// The whole distribution.
    #[must_use]
    pub fn spread(&self) -> Spread {
        let recorded = self.histogram.iter_recorded();
        let bin = |value: hdrhistogram::iterators::IterationValue<u64>| Bin {
            up_to: Duration::from_nanos(value.value_iterated_to()).min(self.longest),
            count: value.count_since_last_iteration(),
        };
        Spread(recorded.map(bin).collect())
    }
}

/// Times as they are written: exact figures, and nanoseconds with their count for each bin.
#[derive(Serialize, Deserialize)]
struct Written {
    digits: u8,
    shortest: u64,
    longest: u64,
    total: u128,
    bins: Vec<(u64, u64)>,
}

impl From<Times> for Written {
    fn from(times: Times) -> Self {
        let recorded = times.histogram.iter_recorded();
        let bins = recorded
            .map(|value| (value.value_iterated_to(), value.count_since_last_iteration()))
            .collect();
        Self {
            digits: times.histogram.sigfig(),
            shortest: times.shortest.as_nanos(),
            longest: times.longest.as_nanos(),
            total: times.total_nanos,
            bins,
        }
    }
}

impl TryFrom<Written> for Times {
    type Error = &'static str;

    fn try_from(written: Written) -> Result<Self, &'static str> {
        if !(1..=3).contains(&written.digits) {
            return Err("times have 1 to 3 significant digits");
        }
        let mut times = Self::new(written.digits);
        let mut all: u64 = 0;
        for (nanos, count) in written.bins {
            all = all.checked_add(count).ok_or("there are more times than can be counted")?;
            times.histogram.saturating_record_n(nanos, count);
        }
        let span = written.shortest..=written.longest;
        if all > 0 && span.is_empty() {
            return Err("the shortest of the times is longer than the longest");
        }
        times.shortest = Duration::from_nanos(written.shortest);
        times.longest = Duration::from_nanos(written.longest);
        times.total_nanos = written.total;
        Ok(times)
    }
}

/// The spread of a latency in at most ten bars whose bounds grow by the same factor, at least
/// 1.002; their counts sum to all. Times too short to be told, as those of hits in a simulated
/// cache, which may be zero, have a bar before these.
#[must_use]
pub fn bars(latency: &Latency, spread: &Spread) -> Vec<Bin> {
    if latency.count == 0 {
        return Vec::new();
    }
    let first = (latency.min < SHORTEST).then_some(SHORTEST.min(latency.max));
    let told = spread.0.iter().map(|bin| bin.up_to).find(|up_to| *up_to > SHORTEST);
    let low = if first.is_some() { told } else { Some(latency.min) };
    let number = BARS - u32::from(first.is_some());
    let bounds = low.into_iter().flat_map(|low| geometric(low, latency.max, number));
    let mut bars: Vec<_> =
        first.into_iter().chain(bounds).map(|up_to| Bin { up_to, count: 0 }).collect();
    let last = bars.len() - 1;
    bars[last].up_to = latency.max;
    for bin in &spread.0 {
        let bar = bars.partition_point(|bar| bar.up_to < bin.up_to).min(last);
        bars[bar].count += bin.count;
    }
    bars
}

/// At most so many bounds up to `max`, which grow by the same factor.
fn geometric(min: Duration, max: Duration, most: u32) -> impl Iterator<Item = Duration> {
    let ratio = max.as_nanos() as f64 / min.as_nanos().max(1) as f64;
    let distinct = (ratio.ln() / FINEST.ln()).ceil().max(1.0);
    let number = most.min(distinct as u32);
    (1..=number).map(move |i| min.scale(ratio.powf(f64::from(i) / f64::from(number))))
}

/// The shortest time that is not told as 0.00 ms.
const SHORTEST: Duration = Duration::from_micros(10);

/// Longer times count as this one in the percentiles.
const LONGEST: Duration = Duration::from_secs(3_600);

/// As many lines as leave room for the rest of the page on a terminal of 24 lines.
const BARS: u32 = 10;

/// The histogram tells no times apart that are closer together than half of this.
const FINEST: f64 = 1.002;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_recorded_is_all_zero() {
        assert_eq!(Times::new(3).latency(), Latency::default());
        assert!(bars(&Latency::default(), &Spread::default()).is_empty());
    }

    #[test]
    fn percentiles_of_a_known_series_are_right() {
        let mut times = Times::new(3);
        for ms in 1..=1_000 {
            times.record(Duration::from_millis(ms));
        }
        let latency = times.latency();
        assert_eq!(latency.count, 1_000);
        assert_eq!(latency.min, Duration::from_millis(1));
        assert_eq!(latency.mean, Duration::from_micros(500_500));
        assert_eq!(latency.max, Duration::from_secs(1));
        for (measured, right) in [
            (latency.p50, 500.0),
            (latency.p90, 900.0),
            (latency.p99, 990.0),
            (latency.p999, 999.0),
        ] {
            let error = measured.as_millis_f64() / right - 1.0;
            assert!(error.abs() < 0.001, "{measured} for {right} ms");
        }
    }

    #[test]
    fn times_within_two_percent_are_more_than_one_bar() {
        let mut times = Times::new(3);
        for micros in 100_000..101_500 {
            times.record(Duration::from_micros(micros));
        }
        let bars = bars(&times.latency(), &times.spread());
        assert!(bars.len() >= 5, "{bars:?}");
        assert!(bars.iter().all(|bar| bar.count > 0), "{bars:?}");
    }

    #[test]
    fn times_all_alike_are_one_bar() {
        let mut times = Times::new(3);
        for _ in 0..7 {
            times.record(Duration::from_millis(5));
        }
        let bars = bars(&times.latency(), &times.spread());
        assert_eq!(bars, [Bin { up_to: Duration::from_millis(5), count: 7 }]);
    }

    #[test]
    fn hits_in_a_cache_that_take_no_time_have_a_bar_before_those_of_the_misses() {
        let mut times = Times::new(3);
        for time in [0, 0, 0, 90, 100, 1_000].map(Duration::from_millis) {
            times.record(time);
        }
        let mut bars = bars(&times.latency(), &times.spread());
        assert_eq!(bars.remove(0), Bin { up_to: Duration::from_micros(10), count: 3 });
        assert_eq!(bars.len(), 9);
        assert!(bars[0].up_to > Duration::from_millis(90), "{bars:?}");
        assert!(bars.is_sorted_by(|one, other| one.up_to < other.up_to), "{bars:?}");
        assert_eq!(bars.iter().map(|bar| bar.count).sum::<u64>(), 3);
    }

    #[test]
    fn times_of_nothing_but_zero_are_one_bar() {
        let mut times = Times::new(3);
        times.record(Duration::ZERO);
        let bars = bars(&times.latency(), &times.spread());
        assert_eq!(bars, [Bin { up_to: Duration::ZERO, count: 1 }]);
    }

    #[test]
    fn times_that_contradict_themselves_are_refused() {
        for (wrong, told) in [
            (r#"{"digits":9,"shortest":0,"longest":0,"total":0,"bins":[]}"#, "1 to 3"),
            (r#"{"digits":3,"shortest":2,"longest":1,"total":3,"bins":[[1,2]]}"#, "shortest"),
            (
                r#"{"digits":3,"shortest":1,"longest":1,"total":3,
                    "bins":[[1,18446744073709551615],[9,9]]}"#,
                "more times",
            ),
        ] {
            let error = serde_json::from_str::<Times>(wrong).unwrap_err().to_string();
            assert!(error.contains(told), "{error}");
        }
    }

    proptest! {
        /// Times gathered in three places, written, read and added say what they would together.
        #[test]
        fn times_of_several_places_add_up_exactly(
            nanos in prop::collection::vec((0u64..8_000_000_000_000, 0usize..3), 0..300),
        ) {
            let mut whole = Times::new(3);
            let mut parts = [(); 3].map(|()| Times::new(3));
            for (time, place) in &nanos {
                whole.record(Duration::from_nanos(*time));
                parts[*place].record(Duration::from_nanos(*time));
            }
            let mut sum = Times::new(3);
            for part in &parts {
                let written = serde_json::to_string(part).unwrap();
                sum.add(&serde_json::from_str(&written).unwrap());
            }
            prop_assert_eq!(sum.latency(), whole.latency());
            prop_assert_eq!(sum.spread(), whole.spread());
        }

        #[test]
        fn every_time_is_in_one_bar_and_the_figures_are_in_order(
            nanos in prop::collection::vec(0u64..8_000_000_000_000, 1..200)
        ) {
            let mut times = Times::new(3);
            for time in &nanos {
                times.record(Duration::from_nanos(*time));
            }
            let bars = bars(&times.latency(), &times.spread());
            prop_assert_eq!(bars.iter().map(|bar| bar.count).sum::<u64>(), nanos.len() as u64);
            prop_assert!(bars.is_sorted_by_key(|bar| bar.up_to));
            let l = times.latency();
            let order = [l.min, l.p50, l.p90, l.p95, l.p99, l.p999, l.max];
            prop_assert!(order.is_sorted(), "{:?}", order);
            prop_assert!(l.min <= l.mean && l.mean <= l.max);
        }
    }
}
