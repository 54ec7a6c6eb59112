//! Which server of a group answers with more 5xx than the others do, beyond chance.
//!
//! Of each server its responses are counted, and those that were 5xx. A server is an outlier where,
//! over any of the spans that are remembered, its share exceeds that of the others in the same span
//! by more than `excess`, and the doubt about that is small enough:
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
//! Spans begin at marks, which are set when errors are looked at, and thinned out with age: of
//! their ages each second one is at least twice the one before. A server that comes back begins
//! anew, on trial: then less evidence takes it out again.
//!
//! Source: the generalized likelihood ratio over all beginnings, as in T. L. Lai, Sequential
//! Analysis, 2001; the bound of Chernoff.

use alloc::{collections::BTreeMap, vec::Vec};
use core::fmt;

use crate::{
    decide::ledger::ServerId,
    time::{Duration, Instant},
    units::Ratio,
};

/// Answers, and how many of them were 5xx.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// Responses of the server.
    pub own: Answers,
    /// Responses of the other servers of its group in the same time.
    pub others: Answers,
}

/// What is remembered of a group in which errors occur.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watch {
    /// The oldest first.
    marks: Vec<Mark>,
    /// When errors are next looked at; none while there are none that are new.
    due: Option<Instant>,
}

#[derive(Clone, Debug)]
struct Mark {
    at: Instant,
    answers: BTreeMap<ServerId, Answers>,
}

impl Watch {
    /// Notes that there are errors.
    pub(crate) fn hear(&mut self, now: Instant) {
        let soonest = self.marks.last().map_or(now, |mark| mark.at + STEP);
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
        let spans = self.marks.iter().map(|mark| mark.since(samples));
        let suspects = spans.flat_map(|span| {
            let total: Answers =
                span.iter().fold(Answers::default(), |sum, (_, own)| sum.plus(*own));
            span.into_iter().map(move |(sample, own)| {
                let evidence = Evidence { own, others: total.less(own) };
                let needed = if sample.on_trial { NEEDED_ON_TRIAL } else { NEEDED };
                (evidence.weight(excess.as_f64()) / needed, sample.server, evidence)
            })
        });
        let worst = suspects
            .filter(|suspect| suspect.0 >= 1.0)
            .reduce(|worst, next| if next.0 > worst.0 { next } else { worst });
        worst.map(|(_, server, evidence)| (server, evidence))
    }

    /// Remembers what has been counted up to now. Who is not among `samples` begins anew when it
    /// is again.
    pub(crate) fn mark(&mut self, now: Instant, samples: &[Sample]) {
        self.due = None;
        let answers: BTreeMap<_, _> =
            samples.iter().map(|sample| (sample.server, sample.answers)).collect();
        // Marks know nobody whom the last one does not.
        let left = self.marks.last().is_some_and(|last| last.knows_others_than(&answers));
        for mark in self.marks.iter_mut().filter(|_| left) {
            mark.answers.retain(|server, _| answers.contains_key(server));
        }
        self.marks.push(Mark { at: now, answers });
        self.thin_out(now);
    }

    /// Forgets what was counted of a server.
    pub(crate) fn forget(&mut self, server: ServerId) {
        for mark in &mut self.marks {
            mark.answers.remove(&server);
        }
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
    /// Responses of each server since then, for servers that took part then and now.
    fn since<'a>(&self, samples: &'a [Sample]) -> Vec<(&'a Sample, Answers)> {
        let both = samples.iter().filter_map(|sample| {
            let before = self.answers.get(&sample.server)?;
            Some((sample, sample.answers.less(*before)))
        });
        both.collect()
    }

    fn knows_others_than(&self, servers: &BTreeMap<ServerId, Answers>) -> bool {
        self.answers.keys().any(|server| !servers.contains_key(server))
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
        let (own, others) = (self.own.share(), self.others.share());
        if self.own.errors == 0 || self.others.all == 0 || own <= others + excess {
            return 0.0;
        }
        let (count, of_others) = (self.own.all as f64, self.others.all as f64);
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
        let (server, evidence) = watch.outlier(&later, excess).unwrap();
        assert_eq!(server, ServerId(1));
        let told = "20 of its last 20 responses were 5xx, 0 of 20 of the other servers";
        assert_eq!(evidence.to_string(), told);
        // A third that has just come has answered nothing in that time.
        let alone = [sample(1, 120, 20), sample(3, 500, 0)];
        assert_eq!(watch.outlier(&alone, excess), None);
        watch.forget(ServerId(1));
        assert_eq!(watch.outlier(&later, excess), None);
    }

    #[test]
    fn an_hour_is_remembered_by_a_few_dozen_marks() {
        let mut watch = Watch::default();
        for step in 0..72_000 {
            watch.mark(Instant::ZERO + STEP * step, &[sample(1, step, 0)]);
        }
        assert!((20..50).contains(&watch.marks.len()), "{}", watch.marks.len());
        let oldest = watch.marks[0].at;
        assert!(oldest < Instant::ZERO + Duration::from_secs(1_900), "{oldest:?}");
    }
}
