//! How slow the slowest cycle is that shows in the latencies.
//!
//! A service that collects garbage, flushes or runs a batch every so often is late in bursts. A
//! trial shorter than several such cycles sees none of them or too many, so its verdict is luck.
//! Bursts are what lies late without a pause of [`PAUSE`]; those that together hold most of what
//! was late count. They have a cycle if they are whole multiples of it apart, since one may have
//! come while nobody looked; bursts that come by chance are not. Where answers are late most of the
//! time no cycle shows.

use loadline_core::time::Duration;

use crate::moments::interval;

/// Requests that were late one soon after the other.
#[derive(Clone, Copy, Debug)]
struct Burst {
    /// Since the run began.
    at: Duration,
    lasts: Duration,
    /// About how many.
    late: f64,
}

/// What was late at these instants, in their order, in bursts with more than a `pause` between.
fn bursts(late: &[(Duration, f64)], pause: Duration) -> Vec<Burst> {
    let mut bursts: Vec<Burst> = Vec::new();
    for (at, late) in late {
        match bursts.last_mut() {
            Some(burst) if at.saturating_sub(burst.at + burst.lasts) <= pause => {
                burst.lasts = at.saturating_sub(burst.at);
                burst.late += late;
            }
            _ => bursts.push(Burst { at: *at, lasts: Duration::ZERO, late: *late }),
        }
    }
    bursts
}

/// What was late in runs near the load line, in the order of time.
#[derive(Clone, Debug, Default)]
pub(super) struct Lateness {
    looked: Duration,
    late: Duration,
    bursts: Vec<Burst>,
}

impl Lateness {
    /// Adds a run: its beginning, its length, and the late requests by time since its beginning.
    pub(super) fn add(&mut self, begun: Duration, lasts: Duration, late: &[(Duration, f64)]) {
        self.looked = self.looked + lasts;
        // What is late all the time by chance is between the bursts too.
        let moments = lasts.as_secs_f64() / interval(Some(lasts)).as_secs_f64();
        let usual = late.iter().map(|late| late.1).sum::<f64>() / moments;
        let late: Vec<_> = late.iter().filter(|late| late.1 > PEAK * usual).copied().collect();
        for burst in bursts(&late, PAUSE) {
            self.late = self.late + burst.lasts;
            self.bursts.push(Burst { at: begun + burst.at, ..burst });
        }
    }

    /// Time between bursts; none if they do not repeat.
    pub(super) fn cycle(&self) -> Option<Duration> {
        if self.late.as_secs_f64() > MOSTLY * self.looked.as_secs_f64() {
            return None;
        }
        let mut bursts = self.bursts.clone();
        bursts.sort_by(|one, other| other.late.total_cmp(&one.late));
        let enough = MOST * bursts.iter().map(|burst| burst.late).sum::<f64>();
        let mut sum = 0.0;
        bursts.retain(|burst| {
            let counts = sum < enough;
            sum += burst.late;
            counts
        });
        bursts.sort_by_key(|burst| burst.at);
        // One burst may last from the end of a run into the next.
        bursts.dedup_by(|next, burst| {
            let is_same = next.at.saturating_sub(burst.at + burst.lasts) <= PAUSE;
            if is_same {
                burst.lasts = (next.at + next.lasts).saturating_sub(burst.at);
            }
            is_same
        });
        if bursts.len() < FEWEST {
            return None;
        }
        let apart = |pair: &[Burst]| pair[1].at.saturating_sub(pair[0].at).as_secs_f64();
        let mut between: Vec<f64> = bursts.windows(2).map(apart).collect();
        between.sort_unstable_by(f64::total_cmp);
        whole_multiples(&between).map(|cycle| Duration::from_millis((cycle * 1e3) as u64))
    }
}

/// What nearly all of these times, shortest first, are whole multiples of.
fn whole_multiples(between: &[f64]) -> Option<f64> {
    let first = between[between.len() / 4];
    let times: f64 = between.iter().map(|time| (time / first).round()).sum();
    let cycle = between.iter().sum::<f64>() / times;
    let off = |time: &&f64| ((*time / cycle) - (*time / cycle).round().max(1.0)).abs() <= OFF;
    let whole = between.iter().filter(off).count();
    (cycle.is_finite() && whole as f64 >= NEARLY_ALL * between.len() as f64).then_some(cycle)
}

/// A moment of a burst has so many times as many late responses as all moments have on average.
const PEAK: f64 = 2.0;

/// Responses that are late this far from each other are so for reasons of their own.
const PAUSE: Duration = Duration::from_millis(500);

/// A service that is late for more of the time is not late in bursts.
const MOSTLY: f64 = 0.5;

/// Share of the late requests in the bursts that count; smaller bursts are chance.
const MOST: f64 = 0.9;

/// By chance a time is this near to a multiple in 3 of 10 cases ...
const OFF: f64 = 0.15;

/// ... and so many are in hardly any.
const NEARLY_ALL: f64 = 0.75;

/// One burst is no cycle, and neither is what came a few times by chance.
const FEWEST: usize = 6;

#[cfg(test)]
mod tests {
    use super::*;

    /// Late for `lasts` ms every `every` ms, with a little lateness by chance each second.
    fn lateness(every: u64, lasts: u64) -> Lateness {
        let mut lateness = Lateness::default();
        for run in 0..4 {
            let late = (0..100).filter_map(|slice| {
                let at = run * 10_000 + slice * 100;
                let burst = (at % every < lasts).then_some(9.0);
                let chance = (slice % 10 == 3).then_some(0.2);
                Some((Duration::from_millis(slice * 100), burst.or(chance)?))
            });
            lateness.add(
                Duration::from_secs(run * 10),
                Duration::from_secs(10),
                &late.collect::<Vec<_>>(),
            );
        }
        lateness
    }

    #[test]
    fn the_cycle_of_the_bursts_is_found_in_runs_that_are_hardly_longer() {
        let cycle = lateness(7_000, 400).cycle().expect("six bursts").as_secs_f64();
        assert!((5.5..8.5).contains(&cycle), "{cycle}");
        let cycle = lateness(2_000, 200).cycle().expect("twenty bursts").as_secs_f64();
        assert!((1.7..2.6).contains(&cycle), "{cycle}");
    }

    #[test]
    fn pauses_show_although_some_requests_are_late_all_the_time() {
        let mut lateness = Lateness::default();
        for run in 0..8 {
            let late = (0..30).map(|slice| {
                let pauses = (run * 3_000 + slice * 100) % 2_000 == 0;
                (Duration::from_millis(slice * 100), if pauses { 60.0 } else { 2.0 })
            });
            let begun = Duration::from_secs(run * 3);
            lateness.add(begun, Duration::from_secs(3), &late.collect::<Vec<_>>());
        }
        let cycle = lateness.cycle().expect("twelve pauses").as_secs_f64();
        assert!((1.9..2.1).contains(&cycle), "{cycle}");
    }

    #[test]
    fn bursts_that_come_by_chance_have_no_cycle() {
        let gaps = [700, 5_200, 1_100, 9_400, 2_300, 800, 14_000, 3_600, 1_900, 6_700, 900, 4_300];
        let late = gaps.iter().scan(0, |at, gap| {
            *at += gap;
            Some((Duration::from_millis(*at), 9.0))
        });
        let mut lateness = Lateness::default();
        lateness.add(Duration::ZERO, Duration::from_secs(60), &late.collect::<Vec<_>>());
        assert_eq!(lateness.cycle(), None);
    }

    #[test]
    fn bursts_of_runs_one_soon_after_the_other_are_not_0_s_apart() {
        let mut lateness = Lateness::default();
        for run in 0..8 {
            let late = [1, 98].map(|slice| (Duration::from_millis(slice * 100), 9.0));
            let begun = Duration::from_secs(run * 10);
            lateness.add(begun, Duration::from_secs(10), &late);
        }
        let cycle = lateness.cycle().expect("eight borders").as_secs_f64();
        assert!((9.5..10.5).contains(&cycle), "{cycle}");
    }

    #[test]
    fn a_burst_that_lasts_from_one_run_into_the_next_is_one() {
        let mut lateness = Lateness::default();
        for run in 0..8 {
            let late = [1, 94, 95, 96, 97, 98, 99];
            let late = late.map(|slice| (Duration::from_millis(slice * 100), 9.0));
            let begun = Duration::from_secs(run * 10);
            lateness.add(begun, Duration::from_secs(10), &late);
        }
        let cycle = lateness.cycle().expect("eight borders").as_secs_f64();
        assert!((9.5..10.5).contains(&cycle), "{cycle}");
    }

    #[test]
    fn what_is_late_always_or_once_has_no_cycle() {
        assert_eq!(lateness(500, 400).cycle(), None);
        assert_eq!(Lateness::default().cycle(), None);
        let mut once = Lateness::default();
        once.add(Duration::ZERO, Duration::from_secs(10), &[(Duration::from_secs(4), 50.0)]);
        assert_eq!(once.cycle(), None);
    }
}
