//! Queues that are simulated exactly, event by event: what a search is tried against.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
};

use loadline_core::{
    record::Latency,
    time::Duration,
    units::{Count, Rate},
};
use loadline_load::search::Measured;
use rand::{RngExt as _, SeedableRng as _, rngs::Xoshiro256PlusPlus};

/// How a server takes its jobs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// So many cores, one queue in order of arrival, every job as long as any other.
    Fixed { cores: usize },
    /// The same with exponential job lengths.
    Exponential { cores: usize },
    /// One core that works on all jobs at once, each with the same share; exponential lengths.
    Sharing,
}

/// A server and its objective: so many jobs of so many seconds, `p99 < limit`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Server {
    pub(crate) kind: Kind,
    /// The mean length of a job in seconds.
    pub(crate) job: f64,
    /// The limit of the 99th percentile in seconds.
    pub(crate) limit: f64,
}

impl Server {
    /// Answers to requests at these instants, in seconds.
    pub(crate) fn open(&self, instants: impl Iterator<Item = f64>, seed: u64) -> Measured {
        self.judge(self.responses(instants, seed))
    }

    /// The 99th percentile of the response time at `rate` over so many requests, in seconds.
    pub(crate) fn long_run_p99(&self, rate: f64, requests: usize, seed: u64) -> f64 {
        let mut draws = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut at = 0.0;
        let instants = (0..requests).map(|_| {
            at += exponential(&mut draws) / rate;
            at
        });
        let (mut times, _) = self.responses(instants, seed);
        quantile(&mut times, 0.99)
    }

    /// Answers to so many users who ask again at once, for so many seconds.
    pub(crate) fn closed(&self, users: usize, lasts: f64, seed: u64) -> Measured {
        let mut draws = Xoshiro256PlusPlus::seed_from_u64(seed);
        let (mut desk, mut since) = (Desk::new(self.kind), vec![0.0; users]);
        for user in 0..users {
            desk.arrive(0.0, user, self.length(&mut draws));
        }
        let (mut times, mut now) = (Vec::new(), 0.0);
        while let Some(end) = desk.next_end() {
            now = end;
            let user = desk.finish(now);
            times.push(now - since[user]);
            if now < lasts {
                since[user] = now;
                desk.arrive(now, user, self.length(&mut draws));
            }
        }
        self.judge((times, now))
    }

    fn responses(&self, instants: impl Iterator<Item = f64>, seed: u64) -> (Vec<f64>, f64) {
        let mut draws = Xoshiro256PlusPlus::seed_from_u64(!seed);
        let mut desk = Desk::new(self.kind);
        let (mut since, mut times, mut now) = (Vec::new(), Vec::new(), 0.0);
        let mut instants = instants.peekable();
        loop {
            let due = instants.peek().copied().unwrap_or(f64::INFINITY);
            match desk.next_end() {
                Some(end) if end <= due => {
                    now = end;
                    times.push(now - since[desk.finish(now)]);
                }
                _ if due.is_finite() => {
                    instants.next();
                    desk.arrive(due, since.len(), self.length(&mut draws));
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
        }
    }

    fn judge(&self, (mut times, lasted): (Vec<f64>, f64)) -> Measured {
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        let (p50, p99) = (quantile(&mut times, 0.5), quantile(&mut times, 0.99));
        let count = times.len() as u64;
        let response = Latency {
            count,
            mean: seconds(mean),
            p50: seconds(p50),
            p99: seconds(p99),
            ..Latency::default()
        };
        Measured {
            achieved: rate(Count::new(count), lasted),
            response,
            met: p99 < self.limit,
            pressure: Some(p99 / self.limit),
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

fn quantile(times: &mut [f64], share: f64) -> f64 {
    let rank = (share * times.len() as f64).ceil() as usize;
    *times.select_nth_unstable_by(rank.max(1) - 1, f64::total_cmp).1
}

/// The jobs at a server. Times that are not negative are in order as their bits are.
#[derive(Debug)]
enum Desk {
    Queue {
        free: usize,
        serving: BinaryHeap<Reverse<(u64, usize)>>,
        waiting: VecDeque<(usize, f64)>,
    },
    /// Each of n jobs gets 1/n of the core: all advance on one clock that runs n times slower.
    Shared { ends: BinaryHeap<Reverse<(u64, usize)>>, clock: f64, at: f64 },
}

impl Desk {
    fn new(kind: Kind) -> Self {
        match kind {
            Kind::Fixed { cores } | Kind::Exponential { cores } => {
                Self::Queue { free: cores, serving: BinaryHeap::new(), waiting: VecDeque::new() }
            }
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
