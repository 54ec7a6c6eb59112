//! Finds the server of a group that answers with more 5xx than the others, beyond chance.
//!
//! Of each server its responses are counted, and those that were 5xx. A server is an outlier where,
//! over any of the spans that are remembered, its share exceeds that of the others by more than
//! `excess`, and the doubt about that is small enough, for two shares of the others:
//!
//! `evidence = min over r of  n * KL(p, r + excess) + N * KL(P, r)  >= needed`
//!
//! `p` of its `n` answers and `P` of the others' `N` were 5xx; `KL(p, q) = p ln(p/q) + (1-p)
//! ln((1-p)/(1-q))`. It is the logarithm of the likelihood ratio between what was seen and the
//! kindest explanation under which the server is within the excess, so chance alone reaches it with
//! a probability of about `exp(-needed)`. Nothing in it depends on a rate: eight 5xx in eight
//! answers speak as loud in a second as in an hour, while the others fail none. Where all fail
//! alike there is no excess; two errors are never evidence enough; where the others have not
//! answered meanwhile nothing is known of them.
//!
//! First `P` and `N` are those of the span. Where all fail alike for a while, and the server has
//! most of its requests then and the others have not, it would look worse than they (Simpson's
//! paradox). So each span is made of short intervals `k`, and the server is compared within each,
//! too (`needed` is less here, since that has less power):
//!
//! `P = sum of n[k] P[k] / n,   N = n^2 / sum of n[k]^2 / N[k]`
//!
//! `n P` are the 5xx expected of the server if its share is that of the others in each interval;
//! the share of `N` answers has the variance of `P`. An interval in which no other answered counts
//! nothing.
//!
//! Intervals end when errors are looked at and the others of the busiest server have given more
//! than a few answers. Spans begin at marks, which are set between intervals, and thinned out with
//! age: of their ages each second one is at least twice the one before. A server that comes back
//! begins anew, on trial: then less evidence takes it out again.
//!
//! Source: the generalized likelihood ratio over all beginnings, as in T. L. Lai, Sequential
//! Analysis, 2001; the bound of Chernoff. The comparison by intervals: W. G. Cochran, Biometrics,
//! 1954, and N. Mantel and W. Haenszel, J. Natl. Cancer Inst., 1959, standardized to the server's
//! own answers; the effective size of a sample: L. Kish, Survey Sampling, 1965.

use alloc::{collections::BTreeMap, vec::Vec};
use core::fmt;

use serde::{Deserialize, Serialize};

use crate::{
    decide::ledger::ServerId,
    time::{Duration, Instant},
    units::Ratio,
};

/// Answers, and how many of them were 5xx.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answers {
    /// All of them.
    pub all: u64,
    /// Responses with 5xx.
    pub errors: u64,
}

/// What is known of a server that takes part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub server: ServerId,
    pub answers: Answers,
    /// It has been out for its errors not long ago.
    pub on_trial: bool,
}

/// What speaks against a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// Responses of the server.
    pub own: Answers,
    /// Responses of the other servers of its group in the same time.
    pub others: Answers,
}

/// What is remembered of a group in which errors occur.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watch {
    tallies: BTreeMap<ServerId, Tally>,
    /// The oldest first.
    marks: Vec<Mark>,
    /// When errors were last looked at.
    looked_at: Option<Instant>,
    /// When errors are next looked at; none while there are none that are new.
    due: Option<Instant>,
}

/// What is known of a server that takes part.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    /// Its counts at the last look.
    counted: Answers,
    /// Responses in the interval that goes on.
    interval: Answers,
    /// All intervals before.
    compared: Compared,
}

/// Sums over intervals in which others answered as well.
#[derive(Clone, Copy, Debug, Default)]
struct Compared {
    own: Answers,
    /// 5xx of the server if its share were that of the others in each interval.
    expected: f64,
    /// The variance of that, in variances of one answer.
    variance: f64,
}

#[derive(Clone, Debug)]
struct Mark {
    at: Instant,
    compared: BTreeMap<ServerId, Compared>,
}

impl Watch {
    /// Notes that there are errors.
    pub(crate) fn hear(&mut self, now: Instant) {
        let soonest = self.looked_at.map_or(now, |at| at + STEP);
        self.due.get_or_insert(soonest.max(now));
    }

    /// When it wants to look.
    pub(crate) const fn due(&self) -> Option<Instant> {
        self.due
    }

    /// The server against which most speaks, if that is enough.
    pub(crate) fn outlier(
        &self,
        samples: &[Sample],
        excess: Ratio,
    ) -> Option<(ServerId, Evidence)> {
        let total = self.interval();
        let until_now = samples.iter().filter_map(|sample| {
            let tally = self.tallies.get(&sample.server)?;
            Some((sample, tally.compared.plus(Compared::within(tally.interval, total))))
        });
        let until_now: Vec<(&Sample, Compared)> = until_now.collect();
        let suspects = self.marks.iter().flat_map(|mark| {
            let span = mark.since(&until_now);
            let total = span.iter().fold(Answers::default(), |sum, (_, it)| sum.plus(it.own));
            span.into_iter().map(move |(sample, compared)| {
                let evidence = Evidence { own: compared.own, others: total.less(compared.own) };
                let needed = if sample.on_trial { NEEDED_ON_TRIAL } else { NEEDED };
                let weight = compared.weight(&evidence, excess.as_f64(), needed);
                (weight, sample.server, evidence)
            })
        });
        let worst = suspects
            .filter(|suspect| suspect.0 >= 1.0)
            .reduce(|worst, next| if next.0 > worst.0 { next } else { worst });
        worst.map(|(_, server, evidence)| (server, evidence))
    }

    /// Takes in what has been counted up to now. Who is not among `samples` begins anew when it
    /// is again.
    pub(crate) fn mark(&mut self, now: Instant, samples: &[Sample]) {
        self.due = None;
        let answers: BTreeMap<_, _> =
            samples.iter().map(|sample| (sample.server, sample.answers)).collect();
        let left: Vec<ServerId> =
            self.tallies.keys().filter(|server| !answers.contains_key(server)).copied().collect();
        left.into_iter().for_each(|server| self.forget(server));
        if self.is_full_with(&answers) {
            self.end_interval(self.looked_at.unwrap_or(now));
        }
        let known = self.tallies.len();
        for (server, counted) in answers {
            let tally = self.tallies.entry(server).or_insert(Tally { counted, ..Tally::default() });
            tally.interval = tally.interval.plus(counted.less(tally.counted));
            tally.counted = counted;
        }
        if self.tallies.len() > known {
            self.end_interval(now);
        }
        self.looked_at = Some(now);
        self.thin_out(now);
    }

    /// Forgets what was counted of a server.
    pub(crate) fn forget(&mut self, server: ServerId) {
        self.tallies.remove(&server);
        for mark in &mut self.marks {
            mark.compared.remove(&server);
        }
    }

    /// Whether the interval that goes on would be long enough without what has been counted since
    /// the last look.
    fn is_full_with(&self, answers: &BTreeMap<ServerId, Answers>) -> bool {
        let (mut all, mut most) = (0, 0);
        for (server, tally) in &self.tallies {
            let new = answers.get(server).map_or(0, |now| now.less(tally.counted).all);
            all += tally.interval.all + new;
            most = most.max(tally.interval.all + new);
        }
        all - most > INTERVAL && self.interval().all > 0
    }

    /// Responses of all servers in the interval that goes on.
    fn interval(&self) -> Answers {
        self.tallies.values().fold(Answers::default(), |sum, tally| sum.plus(tally.interval))
    }

    /// Ends the interval, and sets a mark.
    fn end_interval(&mut self, at: Instant) {
        let total = self.interval();
        for tally in self.tallies.values_mut() {
            let interval = core::mem::take(&mut tally.interval);
            tally.compared = tally.compared.plus(Compared::within(interval, total));
        }
        let compared = self.tallies.iter().map(|(server, tally)| (*server, tally.compared));
        self.marks.push(Mark { at, compared: compared.collect() });
    }

    fn thin_out(&mut self, now: Instant) {
        self.marks.retain(|mark| now.since(mark.at) <= LONGEST);
        let age = |mark: &Mark| now.since(mark.at);
        let mut at = self.marks.len().saturating_sub(2);
        while at > 0 {
            if age(&self.marks[at - 1]) <= age(&self.marks[at + 1]) * 2 {
                self.marks.remove(at);
            }
            at -= 1;
        }
    }
}

impl Mark {
    /// What has been compared of each server since then, for servers that took part then and now.
    fn since<'a>(&self, now: &[(&'a Sample, Compared)]) -> Vec<(&'a Sample, Compared)> {
        let both = now.iter().filter_map(|(sample, compared)| {
            let before = self.compared.get(&sample.server)?;
            Some((*sample, compared.less(*before)))
        });
        both.collect()
    }
}

impl Compared {
    /// What an interval says of a server, in which all servers together gave `total`.
    fn within(own: Answers, total: Answers) -> Self {
        let others = total.less(own);
        if others.all == 0 {
            return Self::default();
        }
        let count = own.all as f64;
        let variance = count * count / others.all as f64;
        Self { own, expected: count * others.share(), variance }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            own: self.own.plus(other.own),
            expected: self.expected + other.expected,
            variance: self.variance + other.variance,
        }
    }

    fn less(self, other: Self) -> Self {
        Self {
            own: self.own.less(other.own),
            expected: self.expected - other.expected,
            variance: self.variance - other.variance,
        }
    }

    /// The evidence over the span and within its intervals, the smaller in parts of what is needed.
    fn weight(&self, over_span: &Evidence, excess: f64, needed: f64) -> f64 {
        let of_span = over_span.weight(excess) / needed;
        if of_span < 1.0 {
            return of_span;
        }
        let count = self.own.all as f64;
        let others = ((self.expected / count).clamp(0.0, 1.0), count * count / self.variance);
        of_span.min(weight(self.own, others, excess) / (needed * WITHIN_INTERVALS))
    }
}

impl Answers {
    fn plus(self, other: Self) -> Self {
        Self { all: self.all + other.all, errors: self.errors + other.errors }
    }

    fn less(self, other: Self) -> Self {
        let errors = self.errors.saturating_sub(other.errors);
        // Counted one after the other, so that an error may be there before its response.
        Self { all: self.all.saturating_sub(other.all).max(errors), errors }
    }

    fn share(self) -> f64 {
        self.errors as f64 / self.all.max(1) as f64
    }
}

impl Evidence {
    /// How much it is, in nats; zero where there is no excess.
    fn weight(&self, excess: f64) -> f64 {
        weight(self.own, (self.others.share(), self.others.all as f64), excess)
    }
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { own, others } = self;
        write!(
            f,
            "{} of its last {} responses were 5xx, {} of {} of the other servers",
            own.errors, own.all, others.errors, others.all
        )
    }
}

/// What answers of a server are beside others, of this share of 5xx and so many, in nats.
fn weight(answers: Answers, (others, of_others): (f64, f64), excess: f64) -> f64 {
    let (own, count) = (answers.share(), answers.all as f64);
    if answers.errors == 0 || of_others == 0.0 || own <= others + excess {
        return 0.0;
    }
    // Convex in the true share `r` of the others: the slope grows with it.
    let (mut low, mut high) = (others, own - excess);
    for _ in 0..BISECTIONS {
        let r = f64::midpoint(low, high);
        let q = r + excess;
        let slope = count * ((1.0 - own) / (1.0 - q) - own / q)
            + of_others * ((1.0 - others) / (1.0 - r) - others / r);
        if slope < 0.0 { low = r } else { high = r }
    }
    let r = f64::midpoint(low, high);
    count * divergence(own, r + excess) + of_others * divergence(others, r)
}

/// The Kullback-Leibler divergence of two coins, in nats.
fn divergence(p: f64, q: f64) -> f64 {
    let part = |p: f64, q: f64| if p > 0.0 { p * libm::log(p / q) } else { 0.0 };
    part(p, q) + part(1.0 - p, 1.0 - q)
}

/// Nats. Where the others fail nothing and `excess` is a quarter, eight 5xx in a row are enough; a
/// decision of record 9 has the figures.
const NEEDED: f64 = 10.0;

/// Nats: under the same conditions three 5xx in a row.
const NEEDED_ON_TRIAL: f64 = 3.5;

/// The part of that which is needed within intervals. The server's part of the answers varies from
/// one short interval to the next by chance, so that the same answers are less evidence there: a
/// server that always fails is found as early as without them.
const WITHIN_INTERVALS: f64 = 0.7;

/// An interval goes on while the others of the busiest server have given no more answers than this.
/// Where five fail none, and `excess` is a quarter, that is evidence of 5 ln 4 < 7 nats, whatever
/// the server itself did meanwhile: one interval in which traffic shifts is not enough.
const INTERVAL: u64 = 5;

/// Errors are looked at so often at most: short against the second after which an outlier is to
/// be out, long against a look.
const STEP: Duration = Duration::from_millis(50);

/// What is older says nothing of now. At a request in three minutes a server has had twenty.
const LONGEST: Duration = Duration::from_secs(3_600);

/// The share is then right to a millionth.
const BISECTIONS: u32 = 20;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use proptest::prelude::*;

    const QUARTER: f64 = 0.25;

    fn answers(all: u64, errors: u64) -> Answers {
        Answers { all, errors }
    }

    fn weight(own: (u64, u64), others: (u64, u64)) -> f64 {
        let (own, others) = (answers(own.0, own.1), answers(others.0, others.1));
        Evidence { own, others }.weight(QUARTER)
    }

    fn sample(server: u32, all: u64, errors: u64) -> Sample {
        Sample { server: ServerId(server), answers: answers(all, errors), on_trial: false }
    }

    #[test]
    fn eight_errors_in_a_row_are_enough_beside_others_that_fail_none_and_two_never_are() {
        assert!(weight((8, 8), (1_000, 0)) >= NEEDED && weight((7, 7), (1_000, 0)) < NEEDED);
        assert!(weight((3, 3), (1_000, 0)) >= NEEDED_ON_TRIAL);
        assert!(weight((2, 2), (1_000_000, 0)) < NEEDED_ON_TRIAL);
        assert!(weight((50, 50), (3, 0)) < NEEDED, "three answers say little of the others");
        assert!(weight((30, 30), (1_000, 300)) >= NEEDED);
    }

    proptest! {
        /// Within the excess there is none, and more of the same is more.
        #[test]
        fn evidence_grows_with_what_is_seen_and_is_none_within_the_excess(
            (all, errors) in (1u64..2_000).prop_flat_map(|all| (Just(all), 0..=all)),
            (others, failed) in (0u64..2_000).prop_flat_map(|all| (Just(all), 0..=all)),
        ) {
            let once = weight((all, errors), (others, failed));
            let twice = weight((2 * all, 2 * errors), (2 * others, 2 * failed));
            prop_assert!(once >= 0.0 && once.is_finite() && twice.is_finite());
            prop_assert!(libm::fabs(twice - 2.0 * once) <= 1e-6 * (1.0 + twice));
            let excess = errors as f64 / all as f64 - failed as f64 / others.max(1) as f64;
            prop_assert!(excess > QUARTER || once == 0.0);
        }
    }

    #[test]
    fn only_what_servers_have_answered_in_the_same_time_is_compared() {
        let excess = Ratio::percent(25);
        let at = |ms| Instant::ZERO + Duration::from_millis(ms);
        let mut watch = Watch::default();
        watch.hear(at(0));
        assert_eq!(watch.due(), Some(at(0)));
        watch.mark(at(0), &[sample(1, 100, 0), sample(2, 100, 0)]);
        watch.hear(at(10));
        assert_eq!(watch.due(), Some(at(50)), "not more often than every 50 ms");
        let later = [sample(1, 120, 20), sample(2, 120, 0)];
        watch.mark(at(50), &later);
        let (server, evidence) = watch.outlier(&later, excess).unwrap();
        assert_eq!(server, ServerId(1));
        let told = "20 of its last 20 responses were 5xx, 0 of 20 of the other servers";
        assert_eq!(evidence.to_string(), told);
        // A third that has just come has answered nothing in that time.
        let alone = [sample(1, 120, 20), sample(3, 500, 0)];
        let mut left = watch.clone();
        left.mark(at(100), &alone);
        assert_eq!(left.outlier(&alone, excess), None);
        watch.forget(ServerId(1));
        assert_eq!(watch.outlier(&later, excess), None);
    }

    /// Looks at two servers every 50 ms: at first the second has ten times the requests of the
    /// first, then the first those of the second, while so many of ten are 5xx.
    fn after_a_shift(fail: [u64; 2]) -> Option<ServerId> {
        let mut watch = Watch::default();
        let mut samples = [sample(1, 0, 0), sample(2, 0, 0)];
        for look in 0..40u32 {
            watch.mark(Instant::ZERO + STEP * u64::from(look), &samples);
            let within = look >= 20;
            let requests = if within { [100, 10] } else { [10, 100] };
            for ((sample, requests), fail) in samples.iter_mut().zip(requests).zip(fail) {
                sample.answers.all += requests;
                sample.answers.errors += if within { requests * fail / 10 } else { 0 };
            }
        }
        watch.outlier(&samples, Ratio::percent(25)).map(|(server, _)| server)
    }

    #[test]
    fn traffic_that_shifts_into_a_fault_of_all_makes_no_outlier_and_hides_none() {
        let of_all = weight((2_200, 1_200), (2_200, 120));
        assert!(of_all >= NEEDED, "over the whole time it looks like one: {of_all}");
        assert_eq!(after_a_shift([6, 6]), None);
        assert_eq!(after_a_shift([10, 10]), None);
        assert_eq!(after_a_shift([10, 5]), Some(ServerId(1)));
        assert_eq!(after_a_shift([5, 10]), Some(ServerId(2)));
    }

    #[test]
    fn a_server_that_had_all_requests_while_it_failed_is_none() {
        let excess = Ratio::percent(25);
        let at = |look: u64| Instant::ZERO + STEP * look;
        let mut watch = Watch::default();
        watch.mark(at(0), &[sample(1, 0, 0), sample(2, 0, 0)]);
        watch.mark(at(1), &[sample(1, 100, 1), sample(2, 100, 0)]);
        watch.mark(at(2), &[sample(1, 5_100, 5_001), sample(2, 100, 0)]);
        let later = [sample(1, 5_200, 5_001), sample(2, 1_100, 1)];
        watch.mark(at(3), &later);
        assert_eq!(watch.outlier(&later, excess), None);
    }

    #[test]
    fn an_hour_is_remembered_by_a_few_dozen_marks() {
        let mut watch = Watch::default();
        for step in 0..72_000 {
            let answers = 6 * step;
            let samples = [sample(1, answers, 0), sample(2, answers, 0)];
            watch.mark(Instant::ZERO + STEP * step, &samples);
        }
        assert!((20..50).contains(&watch.marks.len()), "{}", watch.marks.len());
        let oldest = watch.marks[0].at;
        assert!(oldest < Instant::ZERO + Duration::from_secs(1_900), "{oldest:?}");
    }
}
