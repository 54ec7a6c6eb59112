//! What a worker counts, and how it tells.

use std::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use loadline_core::time::Duration;
use loadline_measure::{record::Latency, statistics::Times};
use serde::{Deserialize, Serialize};

use crate::{cores::Load, service::lock};

/// What `GET /stats` answers, as JSON. Health checks and `/stats` itself are not counted.
///
/// At every instant `accepted` is `answered` + `aborted` + those still open.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stats {
    /// The name told in `X-Served-By`.
    pub name: String,
    /// The region the worker says it is in.
    pub region: String,
    /// Requests for work that came complete.
    pub accepted: u64,
    /// Requests answered while their caller was still there.
    pub answered: u64,
    /// Requests whose caller had closed its side or broken the connection before the response was
    /// out. They were worked on all the same.
    pub aborted: u64,
    /// Requests refused: no HTTP, no such path, or cut short.
    pub refused: u64,
    /// Requests on a core; where nothing limits their number, all that are open.
    pub in_service: u64,
    /// Requests that wait for a core.
    pub queued: u64,
    /// The most that ever waited for a core at once.
    pub most_queued: u64,
    /// Time from a complete request to its response handed to the kernel.
    pub time: Latency,
}

/// The counts while they grow.
#[derive(Debug)]
pub(crate) struct Counters {
    pub(crate) accepted: AtomicU64,
    pub(crate) answered: AtomicU64,
    pub(crate) aborted: AtomicU64,
    pub(crate) refused: AtomicU64,
    times: Mutex<Times>,
}

impl Counters {
    /// None yet.
    pub(crate) fn new() -> Self {
        Self {
            accepted: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            aborted: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            times: Mutex::new(Times::new(DIGITS)),
        }
    }

    /// Notes how long a response took.
    pub(crate) fn took(&self, time: Duration) {
        lock(&self.times).record(time);
    }

    /// Requests accepted and neither answered nor aborted.
    pub(crate) fn open(&self) -> u64 {
        let closed = self.answered.load(Relaxed) + self.aborted.load(Relaxed);
        self.accepted.load(Relaxed).saturating_sub(closed)
    }

    /// All counts at this moment.
    pub(crate) fn stats(&self, name: &str, region: &str, load: Load) -> Stats {
        Stats {
            name: name.to_owned(),
            region: region.to_owned(),
            accepted: self.accepted.load(Relaxed),
            answered: self.answered.load(Relaxed),
            aborted: self.aborted.load(Relaxed),
            refused: self.refused.load(Relaxed),
            in_service: load.in_service,
            queued: load.queued,
            most_queued: load.most_queued,
            time: lock(&self.times).latency(),
        }
    }
}

/// Counts one more.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}

/// Times are within 0.1 %.
const DIGITS: u8 = 3;
