//! What comes: when, and how much work each request is.

use super::draws::Draws;

/// How long a request takes on a core that is free, in seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Work {
    Constant(f64),
    /// Its mean.
    Exponential(f64),
    /// Its mean, and its standard deviation over its mean.
    Lognormal(f64, f64),
    /// Its mean and its shape, a thousand means at most.
    Pareto(f64, f64),
    /// Short ones and long ones, and how many are long.
    Two(f64, f64, f64),
    /// Short ones of this mean, and this share of long ones that need no core, of this mean.
    LongPolls(f64, f64, f64),
}

impl Work {
    /// Seconds of work, and whether it needs a core.
    pub(crate) fn draw(self, draws: &mut Draws) -> (f64, bool) {
        let seconds = match self {
            Self::Constant(mean) => mean,
            Self::Exponential(mean) => mean * draws.exponential(),
            Self::Lognormal(mean, variation) => {
                let variance = (1.0 + variation * variation).ln();
                mean * (variance.sqrt() * draws.normal() - variance / 2.0).exp()
            }
            Self::Pareto(mean, shape) => {
                let least = mean * (shape - 1.0) / shape;
                (least / draws.uniform().powf(1.0 / shape)).min(mean * 1_000.0)
            }
            Self::Two(short, long, share) if draws.uniform() >= share => short.min(long),
            Self::Two(_, long, _) => long,
            Self::LongPolls(_, share, mean) if draws.uniform() < share => {
                return (mean * (0.5 + draws.uniform()), false);
            }
            Self::LongPolls(short, ..) => short * draws.exponential(),
        };
        (seconds, true)
    }

    /// Its mean, in seconds on a core.
    pub(crate) fn mean(self) -> f64 {
        match self {
            Self::Constant(mean)
            | Self::Exponential(mean)
            | Self::Lognormal(mean, _)
            | Self::Pareto(mean, _)
            | Self::LongPolls(mean, ..) => mean,
            Self::Two(short, long, share) => short * (1.0 - share) + long * share,
        }
    }
}

/// When requests come.
#[derive(Clone, Debug)]
pub(crate) enum Arrivals {
    /// So many a second, evenly.
    Even(f64),
    /// At random, at these rates, each for so many seconds.
    Poisson(Vec<(f64, f64)>),
    /// At random, so many a second, and this many at once every so many seconds.
    Batches(f64, usize, f64),
    /// So many a second, this many at once, at random.
    Bursts(f64, usize),
}

impl Arrivals {
    /// At random for thirty seconds.
    pub(crate) fn poisson(per_sec: f64) -> Self {
        Self::Poisson(vec![(per_sec, SECONDS)])
    }

    /// Seconds of all arrivals, in order.
    pub(crate) fn times(&self, draws: &mut Draws) -> Vec<f64> {
        self.times_within(SECONDS, draws)
    }

    /// The same for traffic that lasts so long, where it has no phases.
    pub(crate) fn times_within(&self, seconds: f64, draws: &mut Draws) -> Vec<f64> {
        match self {
            Self::Even(rate) => (1..=(rate * seconds) as u64).map(|n| n as f64 / rate).collect(),
            Self::Poisson(phases) => phased(phases, draws),
            Self::Batches(rate, size, every) => {
                let mut times = phased(&[(*rate, seconds)], draws);
                let batches = (0..).map(|n| (f64::from(n) + 0.5) * every);
                for at in batches.take_while(|at| *at < seconds) {
                    times.extend(std::iter::repeat_n(at, *size));
                }
                times.sort_by(f64::total_cmp);
                times
            }
            Self::Bursts(rate, size) => {
                let bursts = phased(&[(rate / *size as f64, seconds)], draws);
                bursts.into_iter().flat_map(|at| std::iter::repeat_n(at, *size)).collect()
            }
        }
    }
}

fn phased(phases: &[(f64, f64)], draws: &mut Draws) -> Vec<f64> {
    let (mut times, mut begin) = (Vec::new(), 0.0);
    for (rate, seconds) in phases {
        let mut at = begin;
        begin += seconds;
        loop {
            at += draws.exponential() / rate;
            if at >= begin {
                break;
            }
            times.push(at);
        }
    }
    times
}

/// How long traffic lasts that has no phases.
const SECONDS: f64 = 30.0;
