//! Counters of endings by service, and their sums over all workers.
//!
//! Each worker counts in cells of its own, which it alone writes: a relaxed load, an addition and
//! a relaxed store, no locked instruction. Whoever wants the figures adds the workers up.

use std::{
    borrow::Borrow,
    collections::BTreeMap,
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use loadline_core::{
    decide::{ending::Ending, reason::Reason},
    rules::CopyResult,
    state::{Counters, ServiceCounter},
};

use crate::telemetry::{
    latency::{Latencies, Latency},
    meter::ListenerTally,
};

/// The classes of statuses: 1xx are tunnels, and the last is for 600 to 999, which mean nothing in
/// HTTP and yet come from some servers.
pub const CLASSES: [&str; 6] = ["1xx", "2xx", "3xx", "4xx", "5xx", "other"];

/// What has been counted so far, over all workers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tallies {
    /// By name of the service, removed services included.
    pub services: BTreeMap<String, ServiceTally>,
    /// By the address of the file, removed listeners included. Listeners that leave the choice of
    /// the port to the kernel are counted together where their address is the same.
    pub listeners: BTreeMap<SocketAddr, ListenerTally>,
    /// Access log lines that were given up because the writer did not keep up.
    pub log_lines_dropped: u64,
    /// Spans that the collector has taken.
    pub spans_exported: u64,
    /// Spans that were given up because the collector did not keep up, or refused them.
    pub spans_dropped: u64,
}

impl Tallies {
    /// How many requests of all services ended like this.
    #[must_use]
    pub fn count(&self, ending: Ending) -> u64 {
        self.services.values().map(|tally| tally.count(ending)).sum()
    }

    /// How many requests have ended.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.services.values().map(ServiceTally::requests).sum()
    }
}

/// What has been counted of one service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceTally {
    /// Requests by how they ended, in the order of [`Ending::ALL`].
    pub endings: Vec<u64>,
    /// Requests and attempts that failed by why, in the order of [`Reason::ALL`].
    pub reasons: Vec<u64>,
    /// Requests by the class of the status their client was told, in the order of [`CLASSES`];
    /// those that were told none are in no class.
    pub statuses: [u64; CLASSES.len()],
    /// Whatever is a number and no more.
    pub counters: Counters,
    /// Copies of other services' requests, in the order of [`CopyResult::ALL`].
    pub copies: [u64; CopyResult::ALL.len()],
    /// Times from the head of the request to the end of the response.
    pub latency: Latencies,
}

impl ServiceTally {
    /// How many requests ended like this.
    #[must_use]
    pub fn count(&self, ending: Ending) -> u64 {
        self.endings.get(ending as usize).copied().unwrap_or(0)
    }

    /// How many requests have ended.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.endings.iter().sum()
    }
}

/// Counters of one service that one worker writes and anybody reads.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Cells {
    endings: Each<ENDINGS>,
    reasons: Each<REASONS>,
    statuses: [Count; CLASSES.len()],
    counters: [Count; ServiceCounter::ALL.len()],
    copies: [Count; CopyResult::ALL.len()],
    pub(crate) nanos: Latency,
}

impl Cells {
    /// Counts the end of a request. `status` is what the client was told, 0 for nothing.
    pub(crate) fn end(&self, ending: Ending, status: u16) {
        self.endings.0[ending as usize].add(1);
        let class = usize::from(status / 100).min(CLASSES.len()).wrapping_sub(1);
        if let Some(class) = self.statuses.get(class) {
            class.add(1);
        }
    }

    /// Counts why a request or an attempt failed.
    pub(crate) fn fail(&self, reason: Reason) {
        self.reasons.0[reason as usize].add(1);
    }

    /// Adds to a counter.
    pub(crate) fn add(&self, counter: ServiceCounter, n: u64) {
        self.counters[counter as usize].add(n);
    }

    /// Counts a copy of another service's request, or that there is none.
    pub(crate) fn copy(&self, result: CopyResult) {
        self.copies[result as usize].add(1);
    }
}

impl Summed for Cells {
    type Sum = ServiceTally;

    fn add_to(&self, tally: &mut ServiceTally) {
        tally.endings.resize(ENDINGS, 0);
        for (sum, count) in tally.endings.iter_mut().zip(&self.endings.0) {
            *sum += count.get();
        }
        tally.reasons.resize(REASONS, 0);
        for (sum, count) in tally.reasons.iter_mut().zip(&self.reasons.0) {
            *sum += count.get();
        }
        for (sum, count) in tally.statuses.iter_mut().zip(&self.statuses) {
            *sum += count.get();
        }
        for counter in ServiceCounter::ALL {
            tally.counters[*counter] += self.counters[*counter as usize].get();
        }
        for (sum, count) in tally.copies.iter_mut().zip(&self.copies) {
            *sum += count.get();
        }
        self.nanos.add_to(&mut tally.latency);
    }
}

/// A counter for each of many.
#[derive(Debug)]
struct Each<const N: usize>([Count; N]);

impl<const N: usize> Default for Each<N> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Count::default()))
    }
}

/// A counter with one writer.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    /// Adds `n`. Only the owning worker may.
    pub(crate) fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Counters that are added up over all workers.
pub(crate) trait Summed: Default {
    type Sum: Default;

    fn add_to(&self, sum: &mut Self::Sum);
}

/// Every worker's cells, by what they count.
#[derive(Debug)]
pub(crate) struct Registry<K, C> {
    cells: Mutex<BTreeMap<K, Vec<Arc<C>>>>,
}

impl<K, C> Default for Registry<K, C> {
    fn default() -> Self {
        Self { cells: Mutex::default() }
    }
}

impl<K: Ord + Clone, C: Summed> Registry<K, C> {
    /// New cells for `key`. A worker asks once for each one it comes to know.
    pub(crate) fn enlist(&self, key: &K) -> Arc<C> {
        let cells = Arc::new(C::default());
        let mut registered = self.cells.lock().unwrap_or_else(PoisonError::into_inner);
        registered.entry(key.clone()).or_default().push(cells.clone());
        cells
    }

    /// The sum of one of them, if anybody has counted it.
    pub(crate) fn sum<Q: Ord + ?Sized>(&self, key: &Q) -> Option<C::Sum>
    where
        K: Borrow<Q>,
    {
        let registered = self.cells.lock().unwrap_or_else(PoisonError::into_inner);
        registered.get(key).map(|cells| sum(cells))
    }

    /// The sums.
    pub(crate) fn sums(&self) -> BTreeMap<K, C::Sum> {
        let registered = self.cells.lock().unwrap_or_else(PoisonError::into_inner);
        registered.iter().map(|(key, cells)| (key.clone(), sum(cells))).collect()
    }
}

fn sum<C: Summed>(cells: &[Arc<C>]) -> C::Sum {
    let mut sum = C::Sum::default();
    cells.iter().for_each(|cells| cells.add_to(&mut sum));
    sum
}

/// How many reasons there are.
const REASONS: usize = Reason::ALL.len();

/// How many endings there are.
const ENDINGS: usize = Ending::ALL.len();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sums_are_over_all_workers_and_by_service() {
        let registry = Registry::<&str, Cells>::default();
        let (one, two) = (registry.enlist(&"web"), registry.enlist(&"web"));
        let other = registry.enlist(&"api");
        one.end(Ending::Complete, 200);
        two.end(Ending::Complete, 404);
        two.end(Ending::ClientGone, 0);
        other.end(Ending::Shed, 503);
        for status in [600, 799, 999] {
            other.end(Ending::Complete, status);
        }

        let services = registry.sums().into_iter().map(|(name, sum)| (name.to_owned(), sum));
        let tallies = Tallies { services: services.collect(), ..Tallies::default() };
        let web = &tallies.services["web"];
        assert_eq!(web.count(Ending::Complete), 2);
        assert_eq!(web.statuses, [0, 1, 0, 1, 0, 0]);
        assert_eq!(tallies.services["api"].statuses, [0, 0, 0, 0, 1, 3]);
        assert_eq!((web.requests(), tallies.requests()), (3, 7));
        assert_eq!(tallies.count(Ending::Shed), 1);
    }
}
