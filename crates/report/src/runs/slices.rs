//! The moments of a run as the slices of a plot: rates per second, and never more than a plot
//! can show.

use loadline_core::time::Duration;
use loadline_measure::record::{Moment, Outcomes};

/// What happened between two instants.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Slice {
    pub(super) from: Duration,
    pub(super) until: Duration,
    pub(super) planned: u64,
    pub(super) outcomes: Outcomes,
    /// The most that were in flight at once.
    pub(super) in_flight: u64,
    /// The mean of the moments' medians, weighted by their responses.
    pub(super) p50: Duration,
    /// The largest of the moments' 99th percentiles: a plot must not hide the worst.
    pub(super) p99: Duration,
    /// The longest.
    pub(super) max: Duration,
}

impl Slice {
    /// The middle of it, in seconds.
    pub(super) fn middle(&self) -> f64 {
        f64::midpoint(self.from.as_secs_f64(), self.until.as_secs_f64())
    }

    /// This count per second of the slice.
    pub(super) fn per_second(&self, count: u64) -> f64 {
        count as f64 / self.length().max(f64::MIN_POSITIVE)
    }

    /// A time in milliseconds; not a number where nothing was answered.
    pub(super) fn millis(&self, of: fn(&Self) -> Duration) -> f64 {
        if self.outcomes.ok == 0 { f64::NAN } else { of(self).as_millis_f64() }
    }

    fn length(&self) -> f64 {
        self.until.saturating_sub(self.from).as_secs_f64()
    }

    fn add(&mut self, other: &Self) {
        let (answers, more) = (self.outcomes.ok, other.outcomes.ok);
        let share = more as f64 / answers.saturating_add(more).max(1) as f64;
        self.p50 = self.p50.scale(1.0 - share) + other.p50.scale(share);
        self.until = other.until;
        self.planned = self.planned.saturating_add(other.planned);
        self.outcomes = sum(&self.outcomes, &other.outcomes);
        self.in_flight = self.in_flight.max(other.in_flight);
        self.p99 = self.p99.max(other.p99);
        self.max = self.max.max(other.max);
    }
}

/// The slices of a run, [`MOST`] at most, of [`FEWEST`] requests in the mean: rates over a few
/// requests are noise. A last one of less than half the usual length is joined with the one before
/// it for the same reason. The last moment ends with its last event, the last slice with the run.
pub(super) fn slices(moments: &[Moment], elapsed: Duration) -> Vec<Slice> {
    let mut from = Duration::ZERO;
    let slice = |moment: &Moment| {
        let slice = Slice {
            from,
            until: moment.at,
            planned: moment.planned,
            outcomes: moment.outcomes,
            in_flight: moment.most_in_flight(),
            p50: moment.p50,
            p99: moment.p99,
            max: moment.max,
        };
        from = moment.at;
        slice
    };
    let mut all: Vec<_> = moments.iter().map(slice).collect();
    if let Some(last) = all.last_mut() {
        last.until = last.until.max(elapsed);
    }
    let planned = all.iter().fold(0_u64, |sum, slice| sum.saturating_add(slice.planned));
    let slices = usize::try_from(planned / FEWEST).unwrap_or(MOST).clamp(1, MOST);
    let mut joined: Vec<_> = all.chunks(all.len().div_ceil(slices).max(1)).map(join).collect();
    if let [.., before, last] = joined.as_slice()
        && last.length() < before.length() / 2.0
        && let Some(short) = joined.pop()
        && let Some(last) = joined.last_mut()
    {
        last.add(&short);
    }
    joined
}

fn join(slices: &[Slice]) -> Slice {
    let mut slices = slices.iter();
    let mut all = slices.next().cloned().unwrap_or_default();
    slices.for_each(|slice| all.add(slice));
    all
}

fn sum(a: &Outcomes, b: &Outcomes) -> Outcomes {
    Outcomes {
        ok: a.ok.saturating_add(b.ok),
        client_error: a.client_error.saturating_add(b.client_error),
        server_error: a.server_error.saturating_add(b.server_error),
        connect_refused: a.connect_refused.saturating_add(b.connect_refused),
        connect_timeout: a.connect_timeout.saturating_add(b.connect_timeout),
        timeout: a.timeout.saturating_add(b.timeout),
        reset: a.reset.saturating_add(b.reset),
        bad_answer: a.bad_answer.saturating_add(b.bad_answer),
        dropped: a.dropped.saturating_add(b.dropped),
        cut_off: a.cut_off.saturating_add(b.cut_off),
    }
}

/// A plot of 700 pixels shows no more lines than this apart.
const MOST: usize = 240;
/// The standard deviation of such a count is a third of it.
const FEWEST: u64 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(millis: u64, ok: u64) -> Moment {
        Moment {
            at: Duration::from_millis(millis),
            planned: ok,
            outcomes: Outcomes { ok, timeout: 1, ..Outcomes::default() },
            p50: Duration::from_millis(ok),
            max: Duration::from_millis(ok),
            ..Moment::default()
        }
    }

    #[test]
    fn few_requests_are_seen_over_a_longer_time() {
        let moments: Vec<_> = (1..=100).map(|tenth| moment(tenth * 100, tenth % 2)).collect();
        let slices = slices(&moments, Duration::from_secs(10));
        assert_eq!(slices.len(), 5);
        assert!(slices.iter().all(|slice| slice.planned == 10), "{slices:?}");
        let medians: Vec<_> = slices.iter().map(|slice| slice.millis(|slice| slice.p50)).collect();
        assert!(medians.iter().all(|median| (median - 1.0).abs() < 1e-3), "{medians:?}");
    }

    #[test]
    fn nothing_is_lost_when_moments_are_joined() {
        let moments: Vec<_> = (1..=1_000).map(|second| moment(second * 1_000, second)).collect();
        let slices = slices(&moments, Duration::from_secs(1_000));
        assert!(slices.len() <= MOST);
        assert_eq!(slices.iter().map(|slice| slice.outcomes.ok).sum::<u64>(), 500_500);
        assert_eq!(slices.iter().map(|slice| slice.outcomes.timeout).sum::<u64>(), 1_000);
        assert_eq!(slices.last().map(|last| (last.until, last.max.as_millis_f64() as u64)), {
            Some((Duration::from_secs(1_000), 1_000))
        });
    }

    #[test]
    fn counts_too_large_to_be_added_are_the_largest() {
        let mut moments: Vec<_> = (1..=1_000).map(|second| moment(second * 1_000, 1)).collect();
        for moment in &mut moments {
            moment.planned = u64::MAX;
            moment.outcomes = Outcomes { ok: u64::MAX, timeout: u64::MAX, ..moment.outcomes };
        }
        let slices = slices(&moments, Duration::from_secs(1_000));
        assert!(slices.iter().all(|slice| slice.outcomes.timeout == u64::MAX), "{slices:?}");
    }

    #[test]
    fn a_last_moment_of_a_few_milliseconds_makes_no_rate_of_its_own() {
        let moments = [moment(1_000, 40), moment(2_000, 40), moment(2_004, 3)];
        let slices = slices(&moments, Duration::from_millis(2_004));
        assert_eq!(slices.len(), 2);
        assert_eq!(slices[1].outcomes.ok, 43);
        assert!((slices[1].per_second(43) - 42.83).abs() < 0.01);
    }

    /// Ten requests per second for a second: the tenth ends a few milliseconds after it is due.
    #[test]
    fn the_last_slice_ends_with_the_run_and_not_with_its_last_event() {
        let moments: Vec<_> = (1..10).map(|tenth| moment(tenth * 100, 10)).collect();
        let slices = slices(&[&moments[..], &[moment(903, 10)]].concat(), Duration::from_secs(1));
        let rates: Vec<_> = slices.iter().map(|slice| slice.per_second(slice.planned)).collect();
        assert_eq!(rates.len(), 10);
        assert!(rates.iter().all(|rate| (rate - 100.0).abs() < 0.1), "{rates:?}");
    }
}
