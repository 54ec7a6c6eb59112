//! Queue: waits and responses of one queue before c equal servers, and the load line by formula.
//!
//! Arrivals are independent of each other (Poisson) at a rate l, each takes a server for a time of
//! mean T, first come, first served, without bound. With the utilization r = l T / c below 1:
//!
//! | service times | queue | probability to wait | mean wait | wait above t |
//! |---|---|---|---|---|
//! | cv = 1, exponential | M/M/c | Erlang C (1917), exact | C T / (c (1 - r)), exact | exact |
//! | cv = 0, constant | M/D/c | exact, `constant` | exact | asymptote, exact for long waits |
//! | any other cv, gamma | M/G/c | Erlang C | times (1 + cv^2) / 2 | exponential of that mean |
//!
//! cv is the standard deviation of the service times over their mean. The factor of the last row
//! is Lee and Longton's (1959), Allen and Cunneen's for Poisson arrivals; with one server it is
//! Pollaczek and Khinchine's formula and exact. The response is the wait and the service, taken as
//! independent of each other.
//!
//! At r = 1 and above the queue grows without bound; c / T is the capacity.

mod constant;
mod erlang;
mod gamma;
mod wait;

#[cfg(test)]
mod simulation;

use super::{FormulaError, above_zero};
use gamma::Gamma;
use loadline_core::{
    time::Duration,
    units::{Count, Rate, Ratio},
};
use wait::Wait;

/// Equal servers behind one queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Queue {
    servers: u32,
    service: Duration,
    cv: f64,
}

/// Why a queue has no response.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueueError {
    /// An input out of range.
    #[error(transparent)]
    Formula(#[from] FormulaError),
    /// A load at or above the capacity.
    #[error("the queue grows without bound at {load}; capacity is c/T = {capacity}")]
    Unbounded {
        /// Arrivals per second.
        load: Rate,
        /// Capacity of the servers.
        capacity: Rate,
    },
    /// A bound that the service times alone exceed.
    #[error("no load keeps {share} within {bound}: of the services alone {alone} end within it")]
    Unreachable {
        /// The share that was to be within the bound.
        share: Ratio,
        /// The longest response time that was to be kept.
        bound: Duration,
        /// The share of services that are.
        alone: Ratio,
    },
}

impl Queue {
    /// `servers` of mean service time `service` with this coefficient of variation.
    ///
    /// # Errors
    /// [`FormulaError`] where there are no servers or more than 10,000, the service takes no time
    /// or more than 1000 s, or `cv` is neither 0 nor 0.01 to 10.
    pub fn new(servers: Count, service: Duration, cv: f64) -> Result<Self, FormulaError> {
        let most = u64::from(MOST_SERVERS);
        let servers = match servers.get() {
            n @ 1.. if n <= most => n as u32,
            n => return Err(FormulaError::range("a number of servers", n, "1 to 10000")),
        };
        above_zero("a service time", service)?;
        if service > LONGEST_SERVICE {
            return Err(FormulaError::range("a service time", service, "at most 1000s"));
        }
        if cv != 0.0 && !CV_RANGE.contains(&cv) {
            return Err(FormulaError::range("a coefficient of variation", cv, "0 or 0.01 to 10"));
        }
        Ok(Self { servers, service, cv })
    }

    /// The rate at which all servers are busy all the time: c / T.
    #[must_use]
    pub fn capacity(&self) -> Rate {
        Count::new(u64::from(self.servers)) / self.service
    }

    /// What a request meets at that load.
    ///
    /// # Errors
    /// [`QueueError::Unbounded`] at capacity and above, [`QueueError::Formula`] at a load of zero.
    pub fn at(&self, load: Rate) -> Result<Loaded, QueueError> {
        above_zero("a load", load)?;
        let utilization = load.as_per_sec_f64() * self.service.as_secs_f64() / self.servers();
        if utilization >= 1.0 {
            return Err(QueueError::Unbounded { load, capacity: self.capacity() });
        }
        Ok(self.loaded(utilization))
    }

    /// The load line: the highest load at which that share of responses is within the bound.
    ///
    /// # Errors
    /// [`QueueError::Unreachable`] where none is, [`QueueError::Formula`] where the share is
    /// neither above 0 nor below 1.
    pub fn load_line(&self, share: Ratio, bound: Duration) -> Result<Rate, QueueError> {
        let late = 1.0 - between_none_and_all(share)?;
        let services_late = self.service_exceeds(bound.as_secs_f64());
        if services_late > late {
            let alone = nearest(1.0 - services_late);
            return Err(QueueError::Unreachable { share, bound, alone });
        }
        let (mut met, mut breached) = (0.0, 1.0);
        for _ in 0..BISECTIONS {
            let middle = (met + breached) / 2.0;
            if self.loaded(middle).response_exceeds(bound.as_secs_f64()) <= late {
                met = middle;
            } else {
                breached = middle;
            }
        }
        let per_sec = met * self.servers() / self.service.as_secs_f64();
        Ok(Rate::milli_per_sec((per_sec * 1e3) as u64))
    }

    fn loaded(&self, utilization: f64) -> Loaded {
        let wait = if self.cv == 0.0 {
            constant::wait(self.servers, self.service.as_secs_f64(), utilization)
        } else {
            erlang::wait(self.servers, self.service.as_secs_f64(), utilization, self.cv)
        };
        Loaded { queue: *self, utilization, wait }
    }

    fn servers(&self) -> f64 {
        f64::from(self.servers)
    }

    /// The probability that a service takes longer than `secs`.
    fn service_exceeds(&self, secs: f64) -> f64 {
        match self.gamma() {
            None if secs < self.service.as_secs_f64() => 1.0,
            None => 0.0,
            Some(gamma) => 1.0 - gamma.within(secs),
        }
    }

    /// The distribution of service times; none where they are constant.
    fn gamma(&self) -> Option<Gamma> {
        (self.cv != 0.0).then(|| Gamma::new(self.service.as_secs_f64(), self.cv))
    }
}

/// A queue at a load that it can carry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Loaded {
    queue: Queue,
    utilization: f64,
    wait: Wait,
}

impl Loaded {
    /// The share of the servers' time that is used.
    #[must_use]
    pub fn utilization(&self) -> Ratio {
        nearest(self.utilization)
    }

    /// The share of requests that find all servers busy.
    #[must_use]
    pub fn waiting(&self) -> Ratio {
        nearest(self.wait.probability)
    }

    /// The mean time before a server takes a request.
    #[must_use]
    pub fn mean_wait(&self) -> Duration {
        from_secs(self.wait.mean)
    }

    /// The mean time from arrival to the end of the service.
    #[must_use]
    pub fn mean_response(&self) -> Duration {
        self.mean_wait() + self.queue.service
    }

    /// The wait that this share of requests does not exceed.
    ///
    /// # Errors
    /// [`FormulaError`] where the share is neither above 0 nor below 1.
    pub fn wait_quantile(&self, share: Ratio) -> Result<Duration, FormulaError> {
        Ok(from_secs(self.wait.quantile(between_none_and_all(share)?)))
    }

    /// The response time that this share of requests does not exceed.
    ///
    /// # Errors
    /// [`FormulaError`] where the share is neither above 0 nor below 1.
    pub fn response_quantile(&self, share: Ratio) -> Result<Duration, FormulaError> {
        let late = 1.0 - between_none_and_all(share)?;
        if self.queue.cv == 0.0 {
            return Ok(self.queue.service + self.wait_quantile(share)?);
        }
        let (mut below, mut above) = (0.0, self.queue.service.as_secs_f64());
        while self.response_exceeds(above) > late {
            (below, above) = (above, above * 2.0);
        }
        for _ in 0..BISECTIONS {
            let middle = (below + above) / 2.0;
            if self.response_exceeds(middle) > late {
                below = middle;
            } else {
                above = middle;
            }
        }
        Ok(from_secs(above))
    }

    /// The probability that a response takes longer than `secs`: that the service alone does, or
    /// that the wait fills what it leaves, summed over thin slices of the service times.
    fn response_exceeds(&self, secs: f64) -> f64 {
        let service = self.queue.service.as_secs_f64();
        let Some(gamma) = self.queue.gamma() else {
            return if secs < service { 1.0 } else { self.wait.exceeds(secs - service) };
        };
        let from = (service * (1.0 - SPREADS * self.queue.cv)).max(0.0);
        let to = secs.min(service * (1.0 + SPREADS * self.queue.cv));
        let mut exceeds = 1.0 - gamma.within(to);
        if to <= from {
            return exceeds;
        }
        let width = (to - from) / f64::from(SLICES);
        let mut within = gamma.within(from);
        for slice in 0..SLICES {
            let start = from + width * f64::from(slice);
            let next = gamma.within(start + width);
            exceeds += (next - within) * self.wait.exceeds(secs - start - width / 2.0);
            within = next;
        }
        exceeds.clamp(0.0, 1.0)
    }
}

fn between_none_and_all(share: Ratio) -> Result<f64, FormulaError> {
    if share == Ratio::ZERO || share >= Ratio::ONE {
        return Err(FormulaError::range("a percentile", share, "above 0% and below 100%"));
    }
    Ok(share.as_f64())
}

/// To the nearest millionth, so that 95 % are not told as 94.9999 %.
fn nearest(share: f64) -> Ratio {
    Ratio::ppm(libm::round(share * 1e6) as u32)
}

fn from_secs(secs: f64) -> Duration {
    Duration::from_nanos(libm::round(secs * 1e9) as u64)
}

/// Keeps the work of a page under a second; more servers than these are one pool hardly anywhere.
const MOST_SERVERS: u32 = 10_000;

/// The smallest rate, 0.001/s, is the capacity of one server with it.
const LONGEST_SERVICE: Duration = Duration::from_secs(1_000);

/// Below, the gamma distribution is a needle that a constant tells as well; above, its mean is
/// made of a few giants, and formulas of two moments say little.
const CV_RANGE: core::ops::RangeInclusive<f64> = 0.01..=10.0;

/// Halves an interval to the precision of a floating-point number.
const BISECTIONS: u32 = 52;

/// Slices of the service times; the error of a tail is of the order of 1 / SLICES^2.
const SLICES: u32 = 500;

/// Standard deviations on each side of the mean beyond which no service counts: exp(-20) of an
/// exponential.
const SPREADS: f64 = 20.0;

#[cfg(test)]
mod tests;
