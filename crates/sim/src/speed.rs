//! How fast a server works over time: 1 is as fast as it is, 0 stands still.

use loadline_core::time::{Duration, Instant};

use crate::{random::Random, scenario::Antagonist};

/// A speed that changes at known times, and the pauses on top of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Speed {
    /// From when on which factor; 1 before the first.
    steps: Vec<(Instant, f64)>,
    pauses: Vec<Pauses>,
}

/// It stands still for `lasts` at the end of every `every`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pauses {
    /// From the end of one pause to the end of the next; above `lasts`.
    pub every: Duration,
    /// How long one is.
    pub lasts: Duration,
}

impl Speed {
    /// Multiplies the speed by `factor` from `begin` to `end`, for ever if there is none.
    pub(crate) fn multiply(&mut self, begin: Instant, end: Option<Instant>, factor: f64) {
        let before = self.at_step(begin);
        if !self.steps.iter().any(|(at, _)| *at == begin) {
            self.steps.push((begin, before));
        }
        if let Some(end) = end {
            let after = self.at_step(end);
            if !self.steps.iter().any(|(at, _)| *at == end) {
                self.steps.push((end, after));
            }
        }
        self.steps.sort_by_key(|(at, _)| *at);
        let within = |at: Instant| at >= begin && end.is_none_or(|end| at < end);
        let inside = self.steps.iter_mut().filter(|(at, _)| within(*at));
        inside.for_each(|(_, speed)| *speed *= factor);
    }

    /// Lets another program take its shares of what has no steps yet, until then.
    pub(crate) fn share(&mut self, antagonist: Antagonist, until: Instant, random: &mut Random) {
        let mut at = Instant::ZERO;
        while at < until {
            self.steps.push((at, 1.0 - antagonist.most * random.uniform()));
            at = at + antagonist.every.scale(random.exponential()).max(SHORTEST);
        }
    }

    pub(crate) fn pause(&mut self, pauses: Pauses) {
        self.pauses.push(pauses);
    }

    /// When work of this length at full speed is done; none if never.
    pub(crate) fn end(&self, begin: Instant, work: Duration) -> Option<Instant> {
        if self.steps.is_empty() && self.pauses.is_empty() {
            return Some(begin + work);
        }
        let (mut at, mut left) = (begin, work.as_nanos() as f64);
        loop {
            let speed = self.at(at);
            let change = self.change_after(at);
            if speed > 0.0 {
                let end = at + Duration::from_nanos(libm::round(left / speed) as u64);
                if change.is_none_or(|change| end <= change) {
                    return Some(end);
                }
            }
            let change = change?;
            left = (left - change.since(at).as_nanos() as f64 * speed).max(0.0);
            at = change;
        }
    }

    /// How much work is done from `begin` to `end`, in nanoseconds at full speed.
    pub(crate) fn work_between(&self, begin: Instant, end: Instant) -> f64 {
        if self.steps.is_empty() && self.pauses.is_empty() {
            return end.since(begin).as_nanos() as f64;
        }
        let (mut at, mut done) = (begin, 0.0);
        while at < end {
            let next = self.change_after(at).map_or(end, |change| change.min(end));
            done += next.since(at).as_nanos() as f64 * self.at(at);
            at = next;
        }
        done
    }

    pub(crate) fn at(&self, at: Instant) -> f64 {
        let paused = self.pauses.iter().any(|pauses| pauses.into(at) >= pauses.working());
        if paused { 0.0 } else { self.at_step(at) }
    }

    fn at_step(&self, at: Instant) -> f64 {
        let after = self.steps.partition_point(|(from, _)| *from <= at);
        if after == 0 { 1.0 } else { self.steps[after - 1].1 }
    }

    /// When the speed changes next; none if it does not. While stopped there are no pauses.
    fn change_after(&self, at: Instant) -> Option<Instant> {
        let step = self.steps.partition_point(|(from, _)| *from <= at);
        let step = self.steps.get(step).map(|(from, _)| *from);
        if self.at_step(at) == 0.0 {
            return step;
        }
        let pause = self.pauses.iter().map(|pauses| pauses.change_after(at));
        pause.chain(step).min()
    }
}

impl Pauses {
    fn working(&self) -> u64 {
        self.every.saturating_sub(self.lasts).as_nanos()
    }

    /// Nanoseconds since the end of the last pause.
    fn into(&self, at: Instant) -> u64 {
        at.as_nanos() % self.every.as_nanos().max(1)
    }

    fn change_after(&self, at: Instant) -> Instant {
        let into = self.into(at);
        let every = self.every.as_nanos().max(1);
        let next = if into < self.working() { self.working() } else { every };
        at + Duration::from_nanos(next - into)
    }
}

/// No two steps are at the same instant.
const SHORTEST: Duration = Duration::from_micros(1);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn second(n: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(n)
    }

    #[test]
    fn a_slow_minute_makes_work_in_it_longer_and_no_other() {
        let mut speed = Speed::default();
        speed.multiply(second(60), Some(second(120)), 0.5);
        let ten = Duration::from_secs(10);
        assert_eq!(speed.end(second(0), ten), Some(second(10)));
        assert_eq!(speed.end(second(60), ten), Some(second(80)));
        assert_eq!(speed.end(second(115), ten), Some(second(115) + Duration::from_millis(12_500)));
        assert_eq!(speed.end(second(120), ten), Some(second(130)));
    }

    #[test]
    fn two_slow_times_that_overlap_multiply() {
        let mut speed = Speed::default();
        speed.multiply(second(0), Some(second(20)), 0.5);
        speed.multiply(second(10), None, 0.5);
        assert_eq!(speed.end(second(10), Duration::from_secs(1)), Some(second(14)));
        assert_eq!(speed.end(second(30), Duration::from_secs(1)), Some(second(32)));
    }

    #[test]
    fn an_antagonist_takes_half_of_its_most_on_average() {
        let mut speed = Speed::default();
        let antagonist = Antagonist { most: 0.6, every: Duration::from_secs(1) };
        speed.share(antagonist, second(4_000), &mut Random::stream(3, 0));
        let done = speed.work_between(second(0), second(4_000)) / 4e12;
        assert!((done - 0.7).abs() < 0.02, "{done}");
        let least = speed.steps.iter().map(|step| step.1).fold(1.0, f64::min);
        assert!((0.4..0.41).contains(&least), "{least}");
    }

    #[test]
    fn a_server_that_stands_still_for_ever_ends_nothing() {
        let mut speed = Speed::default();
        speed.multiply(second(1), None, 0.0);
        assert_eq!(speed.end(second(0), Duration::from_secs(1)), Some(second(1)));
        assert_eq!(speed.end(second(0), Duration::from_secs(2)), None);
    }

    #[test]
    fn a_server_with_pauses_that_stands_still_for_ever_ends_nothing() {
        let mut speed = Speed::default();
        speed.pause(Pauses { every: second(3).since(second(0)), lasts: Duration::from_secs(1) });
        speed.multiply(second(4), Some(second(6)), 0.0);
        speed.multiply(second(10), None, 0.0);
        assert_eq!(speed.end(second(0), Duration::from_secs(4)), Some(second(7)));
        assert_eq!(speed.end(second(10), Duration::from_secs(1)), None);
        assert_eq!(speed.work_between(second(10), second(100)), 0.0);
    }

    proptest! {
        #[test]
        fn what_is_done_until_the_end_is_the_work(
            begin in 0u64..100, work_ms in 1u64..20_000, slow in 1u64..50, factor in 0.1f64..3.0,
            every_ms in 100u64..5_000,
        ) {
            let mut speed = Speed::default();
            speed.multiply(second(slow), Some(second(slow + 7)), factor);
            let every = Duration::from_millis(every_ms);
            speed.pause(Pauses { every, lasts: every / 4 });
            let work = Duration::from_millis(work_ms);
            let end = speed.end(second(begin), work).expect("it goes on");
            let done = speed.work_between(second(begin), end);
            prop_assert!((done - work.as_nanos() as f64).abs() < 1_000.0, "{done} of {work}");
        }
    }
}
