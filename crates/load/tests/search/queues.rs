//! Queues that are simulated exactly, event by event: what a search is tried against.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
};

use loadline_core::{
    time::Duration,
    units::{Count, Rate},
};
use loadline_load::search::Measured;
use loadline_measure::{
    objective::Spent,
    record::Latency,
    statistics::sample::{mean, quantile},
};
use rand::{RngExt as _, SeedableRng as _, rngs::Xoshiro256PlusPlus};

/// How a server takes its jobs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// So many cores, one queue in order of arrival, every job as long as any other.
    Fixed { cores: usize },
    /// The same with exponential job lengths.
    Exponential { cores: usize },
    /// The same with lengths of a Pareto distribution of this shape: few jobs are much longer.
    Pareto { cores: usize, shape: f64 },
    /// One core that works on all jobs at once, each with the same share; exponential lengths.
    Sharing,
    /// No job waits for another, and this share of them takes so many seconds whatever the load; no
    /// time at all where it fails.
    Chance { share: f64, takes: f64 },
}

/// A server and its objective: so many jobs of so many seconds, a percentile below a limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Server {
    pub(crate) kind: Kind,
    /// The mean length of a job in seconds.
    pub(crate) job: f64,
    /// The percentile that is judged, 0 to 1.
    pub(crate) share: f64,
    /// Its limit in seconds.
    pub(crate) limit: f64,
    /// How the server works, whatever its jobs are.
    pub(crate) pace: Pace,
}

/// How fast a server works at what time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pace {
    /// Always alike.
    Even,
    /// For `lasts` seconds of each `every` it works at this part of its speed.
    Slow { every: f64, lasts: f64, speed: f64 },
    /// In its first seconds of life it is slower: at half its speed when it begins, and nearer to
    /// its whole speed by e for each so many seconds.
    Cold { warms: f64 },
}

impl Pace {
    /// The work that can be done until so many seconds after the server began.
    fn work(self, at: f64) -> f64 {
        match self {
            Self::Even => at,
            Self::Slow { every, lasts, speed } => {
                let (cycles, within) = ((at / every).floor(), at % every);
                let each = every - lasts * (1.0 - speed);
                cycles * each + within.min(lasts) * speed + (within - lasts).max(0.0)
            }
            Self::Cold { warms } => at - 0.5 * warms * (1.0 - (-at / warms).exp()),
        }
    }

    /// When so much work is done.
    fn done(self, work: f64) -> f64 {
        match self {
            Self::Even => work,
            Self::Slow { every, lasts, speed } => {
                let each = every - lasts * (1.0 - speed);
                let (cycles, within) = ((work / each).floor(), work % each);
                let slow = lasts * speed;
                let into = if within < slow { within / speed } else { lasts + (within - slow) };
                cycles * every + into
            }
            // Newton's method; the slope is never below one half.
            Self::Cold { warms } => (0..8).fold(work, |at, _| {
                at - (self.work(at) - work) / (1.0 - 0.5 * (-at / warms).exp())
            }),
        }
    }
}

impl Server {
    /// A server that always works alike, and its objective `p99 < limit`.
    pub(crate) const fn even(kind: Kind, job: f64, limit: f64) -> Self {
        Self { kind, job, share: 0.99, limit, pace: Pace::Even }
    }

    /// Answers to requests at these instants, in seconds since the server began.
    pub(crate) fn open(
        &self,
        instants: impl Iterator<Item = f64>,
        from: f64,
        seed: u64,
    ) -> Measured {
        self.judge(from, self.responses(instants, seed))
    }

    /// What share of so many requests at `rate` is late, over what is allowed.
    pub(crate) fn long_run(&self, rate: f64, requests: usize, seed: u64) -> f64 {
        let mut draws = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut at = if matches!(self.pace, Pace::Cold { .. }) { 1e4 } else { 0.0 };
        let instants = (0..requests).map(|_| {
            at += exponential(&mut draws) / rate;
            at
        });
        let (times, _) = self.responses(instants, seed);
        let late = times.iter().filter(|(_, time)| *time >= self.limit).count();
        late as f64 / times.len() as f64 / (1.0 - self.share)
    }

    /// Answers to so many users who ask again at once, for so many seconds.
    pub(crate) fn closed(&self, users: usize, from: f64, lasts: f64, seed: u64) -> Measured {
        let mut draws = Xoshiro256PlusPlus::seed_from_u64(seed);
        let (mut desk, mut since) = (Station::new(self.kind), vec![from; users]);
        let begin = self.pace.work(from);
        for user in 0..users {
            desk.arrive(begin, user, self.length(&mut draws));
        }
        let (mut times, mut now) = (Vec::new(), from);
        while let Some(end) = desk.next_end() {
            now = self.pace.done(end);
            let user = desk.finish(end);
            times.push((since[user], now - since[user]));
            if now < from + lasts {
                since[user] = now;
                desk.arrive(end, user, self.length(&mut draws));
            }
        }
        self.judge(from, (times, now))
    }

    /// When each request came and how long it took, in the order in which they ended, and when the
    /// last did.
    fn responses(&self, instants: impl Iterator<Item = f64>, seed: u64) -> (Vec<(f64, f64)>, f64) {
        let mut draws = Xoshiro256PlusPlus::seed_from_u64(!seed);
        let mut desk = Station::new(self.kind);
        let (mut since, mut times, mut now) = (Vec::new(), Vec::new(), 0.0);
        let mut instants = instants.peekable();
        loop {
            let due = instants.peek().copied().unwrap_or(f64::INFINITY);
            let work = if due.is_finite() { self.pace.work(due) } else { f64::INFINITY };
            match desk.next_end() {
                Some(end) if end <= work => {
                    let came: f64 = since[desk.finish(end)];
                    now = self.pace.done(end).max(came);
                    times.push((came, now - came));
                }
                _ if due.is_finite() => {
                    instants.next();
                    desk.arrive(work, since.len(), self.length(&mut draws));
                    since.push(due);
                }
                _ => return (times, now),
            }
        }
    }

    fn length(&self, draws: &mut Xoshiro256PlusPlus) -> f64 {
        match self.kind {
            Kind::Fixed { .. } => self.job,
            Kind::Exponential { .. } | Kind::Sharing => self.job * exponential(draws),
            Kind::Pareto { shape, .. } => {
                let least = self.job * (shape - 1.0) / shape;
                least * (exponential(draws) / shape).exp()
            }
            Kind::Chance { share, takes } => {
                let uniform: f64 = draws.random();
                if uniform < share { takes } else { self.job }
            }
        }
    }

    fn judge(&self, from: f64, (answers, ended): (Vec<(f64, f64)>, f64)) -> Measured {
        let all = answers.len() as u64;
        let mut times: Vec<_> = answers.iter().map(|answer| answer.1).collect();
        times.retain(|time| *time > 0.0);
        if times.is_empty() {
            return Measured { met: true, spent: vec![Spent::default()], ..Measured::default() };
        }
        times.sort_unstable_by(f64::total_cmp);
        let count = times.len() as u64;
        let answered = count as f64 / all as f64;
        let quantile = |share| quantile(&times, share).expect("there are times");
        let (p50, p99) = (quantile(0.5), quantile(0.99));
        let judged =
            if self.share > answered { f64::INFINITY } else { quantile(self.share / answered) };
        let response = Latency {
            count,
            mean: seconds(mean(&times)),
            p50: seconds(p50),
            p99: seconds(p99),
            ..Latency::default()
        };
        let is_late = |time: f64| time >= self.limit || time <= 0.0;
        let late: Vec<_> = answers.iter().filter(|answer| is_late(answer.1)).collect();
        let spent = Spent { spent: late.len() as f64, allowed: (1.0 - self.share) * all as f64 };
        // By the tenth of a second in which they ended, as a run keeps them.
        let mut moments = std::collections::BTreeMap::new();
        for (came, time) in late {
            *moments.entry(((came + time - from) * 10.0) as u64).or_insert(0.0) += 1.0;
        }
        let late =
            moments.into_iter().map(|(tenth, count)| (Duration::from_millis(tenth * 100), count));
        Measured {
            achieved: rate(Count::new(count), ended - from),
            planned: all,
            response,
            met: judged < self.limit,
            pressure: Some(judged / self.limit),
            spent: vec![spent],
            late: late.collect(),
            ..Measured::default()
        }
    }
}

fn rate(count: Count, lasted: f64) -> Rate {
    count / seconds(lasted)
}

fn seconds(time: f64) -> Duration {
    Duration::from_nanos((time * 1e9) as u64)
}

fn exponential(draws: &mut Xoshiro256PlusPlus) -> f64 {
    let uniform: f64 = draws.random();
    -(-uniform).ln_1p()
}

/// The jobs at a server. Times that are not negative are in order as their bits are.
#[derive(Debug)]
enum Station {
    Queue {
        free: usize,
        serving: BinaryHeap<Reverse<(u64, usize)>>,
        waiting: VecDeque<(usize, f64)>,
    },
    /// Each of n jobs gets 1/n of the core: all advance on one clock that runs n times slower.
    Shared { ends: BinaryHeap<Reverse<(u64, usize)>>, clock: f64, at: f64 },
}

impl Station {
    fn new(kind: Kind) -> Self {
        match kind {
            Kind::Fixed { cores } | Kind::Exponential { cores } | Kind::Pareto { cores, .. } => {
                Self::Queue { free: cores, serving: BinaryHeap::new(), waiting: VecDeque::new() }
            }
            Kind::Chance { .. } => Self::Queue {
                free: usize::MAX,
                serving: BinaryHeap::new(),
                waiting: VecDeque::new(),
            },
            Kind::Sharing => Self::Shared { ends: BinaryHeap::new(), clock: 0.0, at: 0.0 },
        }
    }

    fn arrive(&mut self, now: f64, id: usize, length: f64) {
        self.advance(now);
        match self {
            Self::Queue { free: 0, waiting, .. } => waiting.push_back((id, length)),
            Self::Queue { free, serving, .. } => {
                *free -= 1;
                serving.push(Reverse(((now + length).to_bits(), id)));
            }
            Self::Shared { ends, clock, .. } => {
                ends.push(Reverse(((*clock + length).to_bits(), id)));
            }
        }
    }

    fn next_end(&self) -> Option<f64> {
        match self {
            Self::Queue { serving, .. } => {
                serving.peek().map(|Reverse((end, _))| f64::from_bits(*end))
            }
            Self::Shared { ends, clock, at } => ends
                .peek()
                .map(|Reverse((end, _))| at + (f64::from_bits(*end) - clock) * ends.len() as f64),
        }
    }

    /// Ends the job that ends next, `now`, and says which it is.
    fn finish(&mut self, now: f64) -> usize {
        self.advance(now);
        match self {
            Self::Queue { free, serving, waiting } => {
                let Reverse((_, done)) = serving.pop().expect("the caller saw that one ends");
                match waiting.pop_front() {
                    Some((id, length)) => serving.push(Reverse(((now + length).to_bits(), id))),
                    None => *free += 1,
                }
                done
            }
            Self::Shared { ends, .. } => ends.pop().expect("the caller saw that one ends").0.1,
        }
    }

    fn advance(&mut self, now: f64) {
        if let Self::Shared { ends, clock, at } = self {
            *clock += (now - *at) / ends.len().max(1) as f64;
            *at = now;
            if ends.is_empty() {
                // Nobody is there: the shared clock starts anew and keeps its precision.
                *clock = 0.0;
            }
        }
    }
}
