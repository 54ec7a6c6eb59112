//! Servers that are simulated exactly, event by event: what a search is tried against.

use std::{cmp::Reverse, collections::BinaryHeap};

use rand::{RngExt as _, SeedableRng as _, rngs::Xoshiro256PlusPlus};

use super::{pace::Pace, station::Station};

/// How long jobs are, in seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Jobs {
    /// All alike.
    Fixed(f64),
    /// Exponential with this mean.
    Exponential(f64),
    /// With this mean and coefficient of variation.
    Lognormal { mean: f64, cv: f64 },
    /// Few jobs are much longer.
    Pareto { mean: f64, shape: f64 },
    /// Exponential of two means; this share of the jobs has the long one.
    Two { short: f64, long: f64, share: f64 },
    /// Of two lengths; this share of the jobs has the long one.
    Chance { short: f64, long: f64, share: f64 },
}

/// What a server does beside its jobs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Habit {
    None,
    /// Has as many cores as it needs, up to so many: looks every [`TICK`] seconds how many
    /// jobs were there, and has what they need for [`TARGET`] after so many seconds more.
    Scales {
        most: usize,
        ready: f64,
    },
    /// A part of the jobs is in the cache and this much shorter; the rest are fewer, down to
    /// `least`, by e for each `warms` jobs.
    Caches {
        hit: f64,
        warms: f64,
        least: f64,
    },
    /// Fails this share of the requests, whatever the load.
    Fails(f64),
    /// Refuses what is beyond a token bucket.
    Limits {
        rate: f64,
        burst: f64,
    },
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Server {
    pub(crate) jobs: Jobs,
    pub(crate) cores: usize,
    /// Whether the cores work on all jobs at once.
    pub(crate) sharing: bool,
    /// So many jobs may wait; more are refused.
    pub(crate) room: usize,
    pub(crate) pace: Pace,
    pub(crate) habit: Habit,
}

impl Server {
    /// A queue without end before so many cores.
    pub(crate) const fn new(jobs: Jobs, cores: usize) -> Self {
        let (pace, habit) = (Pace::Even, Habit::None);
        Self { jobs, cores, sharing: false, room: usize::MAX, pace, habit }
    }
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Ending {
    Ok,
    Refused,
    /// The client gave it up with the run.
    CutOff,
}

/// A request that ended: when it came, when it ended, how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    pub(crate) came: f64,
    pub(crate) at: f64,
    pub(crate) ending: Ending,
}

/// Where requests come from.
pub(crate) enum Source<'a> {
    /// At these instants.
    Open(std::iter::Peekable<Box<dyn Iterator<Item = f64> + 'a>>),
    /// Users who ask again at once, until then.
    Closed { asking: BinaryHeap<Reverse<u64>>, until: f64 },
}

impl<'a> Source<'a> {
    pub(crate) fn open(instants: impl Iterator<Item = f64> + 'a) -> Self {
        let instants: Box<dyn Iterator<Item = f64> + 'a> = Box::new(instants);
        Self::Open(instants.peekable())
    }

    pub(crate) fn closed(users: usize, from: f64, lasts: f64) -> Self {
        let asking = vec![Reverse(from.to_bits()); users];
        Self::Closed { asking: asking.into(), until: from + lasts }
    }

    fn due(&mut self) -> f64 {
        match self {
            Self::Open(instants) => instants.peek().copied().unwrap_or(f64::INFINITY),
            Self::Closed { asking, .. } => {
                asking.peek().map_or(f64::INFINITY, |Reverse(at)| f64::from_bits(*at))
            }
        }
    }

    fn take(&mut self) {
        match self {
            Self::Open(instants) => _ = instants.next(),
            Self::Closed { asking, .. } => _ = asking.pop(),
        }
    }

    fn answered(&mut self, at: f64) {
        if let Self::Closed { asking, until } = self
            && at < *until
        {
            asking.push(Reverse(at.to_bits()));
        }
    }
}

/// A server at work. It goes on while nobody asks it anything: its pauses come when they come, its
/// cache stays warm.
pub(crate) struct Host {
    server: Server,
    station: Station,
    draws: Xoshiro256PlusPlus,
    served: f64,
    tokens: (f64, f64),
    scaling: Scaling,
}

/// What an autoscaler remembers.
struct Scaling {
    tick: f64,
    since: f64,
    /// Jobs times seconds since the last tick, and at the ticks before.
    area: f64,
    areas: [f64; 3],
    /// How many cores were asked for at which tick.
    asked: Vec<(f64, usize)>,
}

impl Host {
    pub(crate) fn new(server: Server, seed: u64) -> Self {
        let draws = Xoshiro256PlusPlus::seed_from_u64(!seed);
        let scaling =
            Scaling { tick: TICK, since: 0.0, area: 0.0, areas: [0.0; 3], asked: Vec::new() };
        let station = Station::new(server.cores, server.sharing);
        Self { server, station, draws, served: 0.0, tokens: (0.0, 0.0), scaling }
    }

    /// Serves what comes until nothing more does, or until `cut`; returns when that was.
    pub(crate) fn serve(
        &mut self,
        mut source: Source<'_>,
        cut: f64,
        mut each: impl FnMut(Ended),
    ) -> f64 {
        let pace = self.server.pace;
        let (mut came, mut now) = (Vec::new(), 0.0_f64);
        loop {
            let due = source.due();
            let end = self.station.next_end().map_or(f64::INFINITY, |end| pace.done(end));
            let next = due.min(end);
            // The autoscaler must not live through the time until a `cut` that does not come.
            if next.is_infinite() {
                return now;
            }
            self.scale_until(next.min(cut));
            let end = self.station.next_end().unwrap_or(f64::INFINITY);
            let at = pace.done(end);
            if due.min(at) >= cut {
                let left = self.station.clear().into_iter();
                let left = left.map(|id| Ended { came: came[id], at: cut, ending: Ending::CutOff });
                left.for_each(&mut each);
                return cut;
            }
            if at <= due {
                let came = came[self.station.finish(end)];
                now = at.max(came);
                each(Ended { came, at: now, ending: Ending::Ok });
                source.answered(now);
                continue;
            }
            source.take();
            if self.takes(due) {
                let length = self.length();
                self.station.arrive(pace.work(due), came.len(), length);
                came.push(due);
            } else {
                now = now.max(due + REFUSAL);
                each(Ended { came: due, at: due + REFUSAL, ending: Ending::Refused });
                source.answered(due + REFUSAL);
            }
        }
    }

    fn takes(&mut self, at: f64) -> bool {
        if let Habit::Limits { rate, burst } = self.server.habit {
            let (tokens, before) = self.tokens;
            let tokens = (tokens + (at - before) * rate).min(burst);
            let takes = tokens >= 1.0;
            self.tokens = (if takes { tokens - 1.0 } else { tokens }, at);
            return takes;
        }
        if let Habit::Fails(share) = self.server.habit
            && self.draws.random::<f64>() < share
        {
            return false;
        }
        self.station.is_free() || self.station.waiting() < self.server.room
    }

    fn length(&mut self) -> f64 {
        self.served += 1.0;
        let whole = match self.server.jobs {
            Jobs::Fixed(length) => length,
            Jobs::Exponential(mean) => mean * exponential(&mut self.draws),
            Jobs::Lognormal { mean, cv } => {
                let variance = (cv * cv).ln_1p();
                mean * (variance.sqrt() * normal(&mut self.draws) - 0.5 * variance).exp()
            }
            Jobs::Pareto { mean, shape } => {
                let least = mean * (shape - 1.0) / shape;
                least * (exponential(&mut self.draws) / shape).exp()
            }
            Jobs::Two { short, long, share } => {
                let uniform: f64 = self.draws.random();
                let mean = if uniform < share { long } else { short };
                mean * exponential(&mut self.draws)
            }
            Jobs::Chance { short, long, share } => {
                let uniform: f64 = self.draws.random();
                if uniform < share { long } else { short }
            }
        };
        if let Habit::Caches { hit, warms, least } = self.server.habit {
            let uniform: f64 = self.draws.random();
            let misses = least + (1.0 - least) * (-self.served / warms).exp();
            return if uniform < misses { whole } else { whole * hit };
        }
        whole
    }

    /// The autoscaler's ticks until then.
    fn scale_until(&mut self, now: f64) {
        let Habit::Scales { most, ready } = self.server.habit else { return };
        let scaling = &mut self.scaling;
        while scaling.tick <= now {
            scaling.area += self.station.jobs() as f64 * (scaling.tick - scaling.since);
            scaling.since = scaling.tick;
            scaling.areas.rotate_left(1);
            scaling.areas[2] = std::mem::take(&mut scaling.area);
            let jobs = scaling.areas.iter().sum::<f64>() / (TICK * scaling.areas.len() as f64);
            let wanted = ((jobs / TARGET).ceil() as usize).clamp(self.server.cores, most);
            let tick = scaling.tick;
            scaling.asked.push((tick, wanted));
            scaling.asked.retain(|(at, _)| tick - at <= ready + KEPT);
            let there = scaling.asked.iter().filter(|(at, _)| tick - at >= ready);
            let cores = there.map(|(_, wanted)| *wanted).max().unwrap_or(self.server.cores);
            self.station.scale(tick, cores);
            scaling.tick += TICK;
        }
        scaling.area += self.station.jobs() as f64 * (now - scaling.since).max(0.0);
        scaling.since = now.max(scaling.since);
    }
}

pub(crate) fn exponential(draws: &mut Xoshiro256PlusPlus) -> f64 {
    let uniform: f64 = draws.random();
    -(-uniform).ln_1p()
}

/// Box and Muller 1958.
fn normal(draws: &mut Xoshiro256PlusPlus) -> f64 {
    let angle: f64 = draws.random();
    (2.0 * exponential(draws)).sqrt() * (std::f64::consts::TAU * angle).cos()
}

/// How long it takes to say no.
const REFUSAL: f64 = 0.000_5;

/// An autoscaler looks so often, in seconds, as Knative's does; at the last three together ...
const TICK: f64 = 2.0;

/// ... wants so many jobs at a core ...
const TARGET: f64 = 0.7;

/// ... and keeps what it had for so long.
const KEPT: f64 = 60.0;
