//! How a run goes in time: the books of each interval, kept while it runs.
//!
//! A request is planned in the interval of its planned instant, and ends in the interval in which
//! it ended, so that both sums over all intervals are those of the run. What is in flight at the
//! end of an interval is what was sent until then less what of it ended until then: what is only
//! due, or dropped, is not. The most that were in flight in an interval are counted as requests go
//! out; those of several generators are added, which is more than there were where they had their
//! most at different instants. Requests that time out after the plan and the last response have
//! moments later than the time the record says it took, which ends with those.
//!
//! Memory is bounded: where a run takes longer than [`MOST`] intervals, each two become one and
//! the interval is twice as long from then on. Percentiles stay those of all times in the merged
//! interval, since each keeps its spread, to 1 %.

use loadline_core::time::Duration;
use loadline_measure::{
    record::{Bin, Moment, Outcomes, Spread},
    statistics::Times,
};
use serde::{Deserialize, Serialize};

use crate::outcome::Outcome;

/// The intervals of a run. Times are offsets from the start of its plan.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Moments {
    interval: Duration,
    entries: Vec<Entry>,
    /// Response times of the interval of the latest end, not yet in its entry.
    current: Times,
    /// Index of that entry.
    open: usize,
    /// The latest instant entered.
    latest: Duration,
}

/// The books of one interval.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Entry {
    planned: u64,
    sent: u64,
    outcomes: Outcomes,
    /// How many of these had been sent.
    ended: u64,
    /// The most in flight at once.
    most: u64,
    bytes_read: u64,
    total: Duration,
    longest: Duration,
    spread: Spread,
}

impl Moments {
    /// None yet, for a plan that lasts so long, if that is known.
    pub(crate) fn new(lasts: Option<Duration>) -> Self {
        Self {
            interval: interval(lasts),
            entries: Vec::new(),
            current: Times::new(DIGITS),
            open: 0,
            latest: Duration::ZERO,
        }
    }

    /// Enters a request that is due at this instant.
    pub(crate) fn plan(&mut self, due: Duration) {
        let index = self.index(due);
        self.entries[index].planned += 1;
    }

    /// Enters the end of a request. One that ends before the latest instant entered, because
    /// nobody knows better, counts as ended then.
    pub(crate) fn end(&mut self, at: Duration, outcome: Outcome, bytes: u64) {
        let index = self.index(at.max(self.latest));
        if index != self.open {
            self.close();
            self.open = index;
        }
        let entry = &mut self.entries[index];
        outcome.count_in(&mut entry.outcomes);
        entry.bytes_read += bytes;
    }

    /// Enters when the request was sent that was ended last.
    pub(crate) fn sent(&mut self, at: Duration) {
        let index = self.index(at.min(self.latest));
        self.entries[index].sent += 1;
        self.entries[self.open].ended += 1;
    }

    /// Enters that a request goes out, with which so many are in flight. It was due, so that this
    /// is in the interval of the latest instant entered, or a little later.
    pub(crate) fn send(&mut self, in_flight: u64) {
        let Some(entry) = self.entries.last_mut() else { return };
        entry.most = entry.most.max(in_flight);
    }

    /// Enters the response time of the successful request that was ended last.
    pub(crate) fn record(&mut self, response: Duration) {
        self.current.record(response);
        let Some(entry) = self.entries.get_mut(self.open) else { return };
        entry.total = entry.total + response;
        entry.longest = entry.longest.max(response);
    }

    /// The moments at the ends of the intervals so far; the last is that of the latest instant
    /// entered. They count the responses that took `late_after` or longer.
    pub(crate) fn moments(&mut self, late_after: Option<Duration>) -> Vec<Moment> {
        self.close();
        self.complete_most();
        let (mut sent, mut ended) = (0_u64, 0);
        let moment = |(entry, number): (&Entry, u64)| {
            sent += entry.sent;
            ended += entry.ended;
            let whole = self.interval * number;
            let begun = whole.saturating_sub(self.interval);
            // An interval whose only instant is its first is shown whole: it has no length else.
            let at = if self.latest > begun { whole.min(self.latest) } else { whole };
            let in_flight = sent.saturating_sub(ended);
            let late = late_after.map(|limit| entry.spread.count_from(limit));
            Moment { in_flight, late, ..entry.moment(at) }
        };
        self.entries.iter().zip(1..).map(moment).collect()
    }

    /// Adds those of another part of the same plan.
    pub(crate) fn add(&mut self, mut other: Self) {
        self.close();
        other.close();
        while self.interval < other.interval {
            self.halve();
        }
        while other.interval < self.interval {
            other.halve();
        }
        self.complete_most();
        other.complete_most();
        let length = self.entries.len().max(other.entries.len());
        self.entries.resize_with(length, Entry::default);
        for (entry, another) in self.entries.iter_mut().zip(other.entries) {
            let most = entry.most + another.most;
            *entry = Entry { most, ..Entry::merge(&[std::mem::take(entry), another]) };
        }
        self.latest = self.latest.max(other.latest);
    }

    /// The entry of an instant, which is there after this.
    fn index(&mut self, at: Duration) -> usize {
        self.latest = self.latest.max(at);
        let number = |interval: Duration| at.as_nanos() / interval.as_nanos();
        while number(self.interval) >= MOST {
            self.halve();
        }
        let index = number(self.interval) as usize;
        if index >= self.entries.len() {
            self.entries.resize_with(index + 1, Entry::default);
        }
        index
    }

    /// Makes one entry of each two.
    fn halve(&mut self) {
        self.close();
        self.interval = self.interval * 2;
        self.open /= 2;
        self.entries = self.entries.chunks(2).map(Entry::merge).collect();
    }

    /// Makes the most of an interval no less than what is in flight at its beginning and its end:
    /// nothing may go out in it.
    fn complete_most(&mut self) {
        let mut in_flight = 0_u64;
        for entry in &mut self.entries {
            let before = in_flight;
            in_flight = (in_flight + entry.sent).saturating_sub(entry.ended);
            entry.most = entry.most.max(before).max(in_flight);
        }
    }

    /// Puts the times of the open interval into its entry.
    fn close(&mut self) {
        let Some(entry) = self.entries.get_mut(self.open) else { return };
        if self.current.count() > 0 {
            entry.spread = merge(&entry.spread, &self.current.spread());
            self.current.reset();
        }
    }
}

impl Entry {
    fn merge(entries: &[Self]) -> Self {
        let mut all = Self::default();
        for entry in entries {
            all.planned += entry.planned;
            all.sent += entry.sent;
            all.ended += entry.ended;
            all.most = all.most.max(entry.most);
            all.outcomes = add(all.outcomes, entry.outcomes);
            all.bytes_read += entry.bytes_read;
            all.total = all.total + entry.total;
            all.longest = all.longest.max(entry.longest);
            all.spread = merge(&all.spread, &entry.spread);
        }
        all
    }

    fn moment(&self, at: Duration) -> Moment {
        let ok = self.outcomes.ok;
        let quantile = |share| self.spread.quantile(share).unwrap_or_default();
        Moment {
            at,
            planned: self.planned,
            most_in_flight: Some(self.most),
            outcomes: self.outcomes,
            bytes_read: self.bytes_read,
            mean: if ok == 0 { Duration::ZERO } else { self.total / ok },
            p50: quantile(0.5),
            p99: quantile(0.99),
            max: self.longest,
            ..Moment::default()
        }
    }
}

/// How long the intervals of a plan are that lasts so long, if that is known.
pub(crate) fn interval(lasts: Option<Duration>) -> Duration {
    let short = lasts.is_some_and(|lasts| lasts <= SHORT_PLAN);
    if short { FINE } else { COARSE }
}

/// The outcomes of both, class by class.
pub(crate) fn add(one: Outcomes, other: Outcomes) -> Outcomes {
    Outcomes {
        ok: one.ok + other.ok,
        client_error: one.client_error + other.client_error,
        server_error: one.server_error + other.server_error,
        connect_refused: one.connect_refused + other.connect_refused,
        connect_timeout: one.connect_timeout + other.connect_timeout,
        timeout: one.timeout + other.timeout,
        reset: one.reset + other.reset,
        bad_answer: one.bad_answer + other.bad_answer,
        dropped: one.dropped + other.dropped,
        cut_off: one.cut_off + other.cut_off,
    }
}

/// The times of both.
fn merge(one: &Spread, other: &Spread) -> Spread {
    let mut bins: Vec<Bin> = Vec::with_capacity(one.0.len() + other.0.len());
    let mut sorted = [one.0.as_slice(), &other.0].concat();
    sorted.sort_by_key(|bin| bin.up_to);
    for bin in sorted {
        match bins.last_mut() {
            Some(last) if last.up_to == bin.up_to => last.count += bin.count,
            _ => bins.push(bin),
        }
    }
    Spread(bins)
}

/// A plan of this length or shorter has fine moments, so that there is something to see.
const SHORT_PLAN: Duration = Duration::from_secs(20);

const FINE: Duration = Duration::from_millis(100);
const COARSE: Duration = Duration::from_secs(1);

/// Twenty minutes by the second; more than the dots of a picture as wide as a screen.
const MOST: u64 = 1_200;

/// Percentiles of a moment are within 1 %, which keeps a spread to some hundred bins.
const DIGITS: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn a_moment_holds_what_was_planned_and_what_ended_in_its_interval() {
        let mut moments = Moments::new(Some(Duration::from_secs(1)));
        for due in [0, 50] {
            moments.plan(ms(due));
        }
        moments.end(ms(60), Outcome::Ok, 10);
        moments.sent(ms(0));
        moments.record(ms(60));
        for due in [100, 150] {
            moments.plan(ms(due));
        }
        moments.end(ms(190), Outcome::Ok, 10);
        moments.sent(ms(50));
        moments.record(ms(140));
        moments.end(ms(230), Outcome::Timeout, 0);
        moments.sent(ms(100));
        moments.end(ms(230), Outcome::Dropped, 0);
        let moments = moments.moments(Some(ms(100)));
        let shown: Vec<_> =
            moments.iter().map(|m| (m.at, m.planned, m.outcomes.total(), m.in_flight)).collect();
        assert_eq!(shown, [(ms(100), 2, 1, 1), (ms(200), 2, 1, 1), (ms(230), 0, 2, 0)]);
        assert_eq!((moments[0].p50, moments[0].max), (ms(60), ms(60)));
        assert_eq!((moments[1].mean, moments[1].max), (ms(140), ms(140)));
        assert_eq!((moments[0].late, moments[1].late), (Some(0), Some(1)));
        assert_eq!((moments[2].p99, moments[2].outcomes.timeout), (Duration::ZERO, 1));
    }

    #[test]
    fn a_stall_shows_as_moments_in_which_nothing_ended() {
        let mut moments = Moments::new(None);
        for second in 0..5 {
            moments.plan(Duration::from_secs(second));
        }
        for second in 0..5 {
            moments.end(ms(4_500), Outcome::Ok, 0);
            moments.sent(Duration::from_secs(second));
            moments.record(ms(4_500 - 1_000 * second));
        }
        let in_flight: Vec<_> =
            moments.moments(None).iter().map(|moment| moment.in_flight).collect();
        assert_eq!(in_flight, [1, 2, 3, 4, 0]);
    }

    /// Those beyond the user's own limit are due, and then dropped.
    #[test]
    fn a_request_that_is_only_due_is_not_in_flight() {
        let mut moments = Moments::new(Some(Duration::from_secs(1)));
        for _ in 0..3 {
            moments.plan(ms(90));
        }
        for _ in 0..2 {
            moments.end(ms(110), Outcome::Dropped, 0);
        }
        moments.end(ms(190), Outcome::Timeout, 0);
        moments.sent(ms(90));
        let in_flight: Vec<_> =
            moments.moments(None).iter().map(|moment| moment.in_flight).collect();
        assert_eq!(in_flight, [1, 0]);
    }

    #[test]
    fn the_most_in_flight_of_several_generators_is_at_most_the_sum() {
        let part = |in_flight| {
            let mut moments = Moments::new(Some(Duration::from_secs(1)));
            moments.plan(ms(10));
            moments.send(in_flight);
            moments.end(ms(20), Outcome::Ok, 0);
            moments.sent(ms(10));
            moments
        };
        let mut all = part(2);
        all.add(part(3));
        assert_eq!(all.moments(None)[0].most_in_flight, Some(5));
    }

    #[test]
    fn a_long_run_is_kept_in_few_moments_whose_percentiles_are_of_all_their_times() {
        let mut moments = Moments::new(None);
        // Ten hours: in each second one request of 1 ms, in each tenth second one of 100 ms.
        let seconds = 36_000;
        for second in 0..seconds {
            let slow = second % 10 == 0;
            moments.plan(Duration::from_secs(second));
            moments.end(Duration::from_secs(second), Outcome::Ok, 1);
            moments.record(ms(if slow { 100 } else { 1 }));
        }
        assert_eq!(moments.interval, Duration::from_secs(32));
        let moments = moments.moments(None);
        assert!((600..=1_200).contains(&moments.len()), "{}", moments.len());
        assert_eq!(moments.iter().map(|moment| moment.outcomes.ok).sum::<u64>(), seconds);
        for moment in &moments {
            let [p50, p99] = [moment.p50, moment.p99].map(Duration::as_millis_f64);
            assert!((p50 - 1.0).abs() <= 0.01 && (p99 - 100.0).abs() <= 1.0, "{moment:?}");
        }
        assert_eq!(moments[0].at, Duration::from_secs(32));
    }

    const OUTCOMES: [Outcome; 4] =
        [Outcome::Ok, Outcome::ServerError, Outcome::Timeout, Outcome::Dropped];

    proptest! {
        /// Whatever happens when, the moments add up to the run, and each says rightly how many
        /// requests were under way at its end.
        #[test]
        fn the_moments_sum_to_the_totals(
            requests in prop::collection::vec(
                (0u64..3_000_000, 1u64..40_000, prop::sample::select(OUTCOMES.to_vec())), 1..100
            ),
            short: bool,
        ) {
            let lasts = short.then_some(ms(1));
            let mut moments = Moments::new(lasts);
            // Events in the order of their time; the end of a request comes after its plan.
            let mut events: Vec<_> = requests.iter().flat_map(|(due, takes, outcome)| {
                [(*due, None), (due + takes, Some((*outcome, *takes)))]
            }).collect();
            events.sort_by_key(|(at, _)| *at);
            let (mut totals, mut bytes, mut longest) = (Outcomes::default(), 0, 0);
            for (at, end) in &events {
                let Some((outcome, takes)) = end else {
                    moments.plan(ms(*at));
                    continue;
                };
                outcome.count_in(&mut totals);
                bytes += takes;
                moments.end(ms(*at), *outcome, *takes);
                if *outcome != Outcome::Dropped {
                    moments.sent(ms(at - takes));
                }
                if *outcome == Outcome::Ok {
                    moments.record(ms(*takes));
                    longest = longest.max(*takes);
                }
            }
            let moments = moments.moments(None);
            prop_assert!(moments.len() as u64 <= MOST);
            let sum = moments.iter().fold(Outcomes::default(), |sum, m| add(sum, m.outcomes));
            prop_assert_eq!(sum, totals);
            prop_assert_eq!(moments.iter().map(|m| m.planned).sum::<u64>(), requests.len() as u64);
            prop_assert_eq!(moments.iter().map(|m| m.bytes_read).sum::<u64>(), bytes);
            prop_assert_eq!(moments.iter().map(|m| m.max).max(), Some(ms(longest)));
            prop_assert!(moments.is_sorted_by(|one, other| one.at < other.at));
            let last = events.last().map(|(at, _)| *at).unwrap_or_default();
            for moment in &moments[..moments.len() - 1] {
                let under_way = |(due, takes, outcome): &&(u64, u64, Outcome)| {
                    let sent = *outcome != Outcome::Dropped && ms(*due) < moment.at;
                    sent && ms(due + takes) >= moment.at
                };
                prop_assert_eq!(moment.in_flight, requests.iter().filter(under_way).count() as u64);
            }
            prop_assert_eq!(moments.last().map(|moment| moment.in_flight), Some(0));
            prop_assert!(moments.last().is_some_and(|moment| moment.at >= ms(last)));
            for moment in &moments {
                prop_assert!(moment.p50 <= moment.p99 && moment.p99 <= moment.max);
                prop_assert!(moment.mean <= moment.max);
            }
        }
    }
}
