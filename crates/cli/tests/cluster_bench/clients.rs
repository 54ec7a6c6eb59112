//! Clients that ask at random times (Poisson), and what one budget would have given them.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    },
    thread::{JoinHandle, sleep, spawn},
    time::{Duration, Instant},
};

use crate::traffic::asked;

/// Clients of an edge, each with a connection; they end when it is dropped.
pub(crate) struct Clients {
    asking: Arc<Asking>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Asking {
    ended: AtomicBool,
    /// Requests per thousand seconds of each.
    rate: AtomicU32,
    failed: AtomicU32,
    arrivals: Mutex<Vec<Arrival>>,
}

#[derive(Clone, Copy)]
struct Arrival {
    at: Instant,
    took: Duration,
    /// Whether a server responded.
    given: bool,
}

impl Clients {
    /// So many, who begin when they are told how often.
    pub(crate) fn begin(edge: &str, clients: u32) -> Self {
        let asking = Arc::<Asking>::default();
        let ask = |nth| {
            let (asking, edge) = (asking.clone(), edge.to_owned());
            spawn(move || asking.ask(&edge, nth))
        };
        Self { threads: (1..=clients).map(ask).collect(), asking }
    }

    /// Requests per thousand seconds of each client.
    pub(crate) fn change(&self, rate: u32) {
        self.asking.rate.store(rate, Relaxed);
    }

    /// Requests that ended otherwise than with 200 or 503.
    pub(crate) fn failed(&self) -> u32 {
        self.asking.failed.load(Relaxed)
    }

    /// Requests with a response of a server, and the others.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let arrivals = self.asking.arrivals.lock().unwrap();
        let given = arrivals.iter().filter(|it| it.given).count();
        (given, arrivals.len() - given)
    }

    /// How long a response of a server took since then, at this quantile.
    pub(crate) fn took(&self, since: Instant, quantile: f64) -> Duration {
        let arrivals = self.asking.arrivals.lock().unwrap();
        let given = arrivals.iter().filter(|it| it.given && it.at >= since);
        let mut took: Vec<Duration> = given.map(|it| it.took).collect();
        took.sort_unstable();
        took[(took.len() as f64 * quantile) as usize]
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        self.asking.ended.store(true, Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Asking {
    fn ask(&self, edge: &str, nth: u32) {
        let mut connection = None;
        let mut next = Instant::now();
        let port = edge.rsplit(':').next().and_then(|port| port.parse::<u64>().ok());
        let mut random = (port.unwrap_or(1) << 32) + u64::from(nth) * 0x9e37_79b9;
        while !self.ended.load(Relaxed) {
            let rate = self.rate.load(Relaxed);
            if rate == 0 {
                sleep(LATE);
                next = Instant::now();
                continue;
            }
            let gap = exponential(&mut random) * 1e3 / f64::from(rate);
            next = (next + Duration::from_secs_f64(gap)).max(Instant::now() - LATE);
            sleep(next.saturating_duration_since(Instant::now()));
            let at = Instant::now();
            let status = asked(&mut connection, edge);
            let arrival = Arrival { at, took: at.elapsed(), given: status == Some(200) };
            if !matches!(status, Some(200 | 503)) {
                connection = None;
                self.failed.fetch_add(1, Relaxed);
            }
            self.arrivals.lock().unwrap().push(arrival);
        }
    }
}

/// A random number of mean 1 (xorshift, Marsaglia 2003).
fn exponential(state: &mut u64) -> f64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    let uniform = ((*state >> 11) + 1) as f64 / (1_u64 << 53) as f64;
    -uniform.ln()
}

/// What clients of several edges asked for, in order.
pub(crate) struct Arrivals {
    since: Instant,
    all: Vec<Arrival>,
}

impl Arrivals {
    pub(crate) fn since(since: Instant) -> Self {
        Self { since, all: Vec::new() }
    }

    pub(crate) fn add(&mut self, clients: &Clients) {
        let arrivals = clients.asking.arrivals.lock().unwrap();
        self.all.extend(arrivals.iter().filter(|it| it.at >= self.since));
        self.all.sort_unstable_by_key(|it| it.at);
    }

    pub(crate) fn asked(&self) -> u64 {
        self.all.len() as u64
    }

    /// Those with a response of a server.
    pub(crate) fn given(&self) -> u64 {
        self.all.iter().filter(|it| it.given).count() as u64
    }

    /// What a single budget of this rate and burst would have given.
    pub(crate) fn could(&self, rate: u32, burst: u32) -> u64 {
        let (mut left, mut at, mut given) = (f64::from(burst), self.since, 0);
        for arrival in &self.all {
            left += f64::from(rate) * arrival.at.duration_since(at).as_secs_f64();
            left = left.min(f64::from(burst));
            at = arrival.at;
            if left >= 1.0 {
                (left, given) = (left - 1.0, given + 1);
            }
        }
        given
    }
}

/// What was not asked in time is asked later, up to so much.
const LATE: Duration = Duration::from_millis(100);
