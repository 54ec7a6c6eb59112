//! What a server tells of itself when it is probed, as Prequal's servers do: the requests in flight
//! at it, and the median of its latest latencies at about that many.
//!
//! Source: B. Wydrowski et al., Load is not what you should balance: Introducing Prequal, NSDI
//! 2024, section 4: each latency is kept with the requests in flight when its request came. Where
//! none of the latest came to about as many, which the paper does not speak of, they are taken in
//! proportion: otherwise a server that has emptied would be known for the latencies of its longest
//! queue, and never be asked again.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap, VecDeque},
};

use loadline_core::{
    decide::probe_pool::ProbeResult,
    time::{Duration, Instant},
};

use crate::slab::Handle;

/// The requests at a server, and how long the last ones took.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    /// Requests whose end is known: the end, the arrival, and how many were ahead.
    known: BinaryHeap<Reverse<(Instant, Instant, u32)>>,
    /// Those that share the cores.
    sharing: BTreeMap<Handle, (Instant, u32)>,
    /// When the latest ones ended, how many were ahead of each, and how long it took.
    latest: VecDeque<(Instant, u32, Duration)>,
    cores: f64,
    /// Requests that are done.
    served: u64,
    /// Core seconds, in nanoseconds, that it has been busy until `since`.
    busy: f64,
    since: Instant,
}

impl Watch {
    pub(crate) fn new(cores: u32) -> Self {
        Self {
            known: BinaryHeap::new(),
            sharing: BTreeMap::new(),
            latest: VecDeque::new(),
            cores: f64::from(cores),
            served: 0,
            busy: 0.0,
            since: Instant::ZERO,
        }
    }

    /// A request comes whose end is known.
    pub(crate) fn come(&mut self, now: Instant, end: Instant) {
        self.pass(now);
        let ahead = self.in_flight();
        self.known.push(Reverse((end, now, ahead)));
    }

    /// A request comes to share the cores.
    pub(crate) fn join(&mut self, now: Instant, request: Handle) {
        self.pass(now);
        let ahead = self.in_flight();
        self.sharing.insert(request, (now, ahead));
    }

    /// A request that shared the cores is done.
    pub(crate) fn depart(&mut self, now: Instant, request: Handle) {
        self.pass(now);
        if let Some((came, ahead)) = self.sharing.remove(&request) {
            self.note(now, ahead, now.since(came));
        }
    }

    /// Forgets the requests of a server that went down.
    pub(crate) fn clear(&mut self) {
        self.known.clear();
        self.sharing.clear();
    }

    /// What it says now.
    pub(crate) fn answer(&mut self, now: Instant) -> ProbeResult {
        self.pass(now);
        let in_flight = self.in_flight();
        let mut nearest: Vec<(u32, u32, Duration)> = (0..)
            .zip(self.latest.iter().rev())
            .take_while(|(_, (at, ..))| now.since(*at) <= AGE_MAX)
            .map(|(age, (_, ahead, latency))| {
                let latency = latency.scale(further(in_flight, *ahead));
                (ahead.abs_diff(in_flight), age, latency)
            })
            .collect();
        nearest.sort_unstable();
        nearest.truncate(NEAREST);
        let mut latencies: Vec<Duration> = nearest.iter().map(|(.., latency)| *latency).collect();
        latencies.sort_unstable();
        let latency = latencies.get(latencies.len() / 2).copied().unwrap_or_default();
        ProbeResult { in_flight, latency }
    }

    /// How many requests are done, and the share of its cores that has been busy since the start,
    /// in seconds.
    pub(crate) fn used(&mut self, now: Instant) -> (u64, f64) {
        self.pass(now);
        (self.served, self.busy / self.cores / 1e9)
    }

    fn in_flight(&self) -> u32 {
        (self.known.len() + self.sharing.len()) as u32
    }

    /// Removes requests that are done.
    fn pass(&mut self, now: Instant) {
        while let Some(Reverse((end, came, ahead))) = self.known.peek().copied()
            && end <= now
        {
            self.advance(end);
            self.known.pop();
            self.note(end, ahead, end.since(came));
        }
        self.advance(now);
    }

    fn advance(&mut self, now: Instant) {
        let busy = f64::from(self.in_flight()).min(self.cores);
        self.busy += busy * now.since(self.since).as_nanos() as f64;
        self.since = self.since.max(now);
    }

    fn note(&mut self, now: Instant, ahead: u32, latency: Duration) {
        self.served += 1;
        if self.latest.len() == LATEST {
            self.latest.pop_front();
        }
        self.latest.push_back((now, ahead, latency));
    }
}

/// Factor on a latency with `ahead` requests ahead, for `in_flight` now: 1 if they are about equal,
/// else in proportion.
fn further(in_flight: u32, ahead: u32) -> f64 {
    let ratio = f64::from(in_flight + 1) / f64::from(ahead + 1);
    if ratio > ABOUT { ratio / ABOUT } else { (ratio * ABOUT).min(1.0) }
}

/// Twice as many are about as many.
const ABOUT: f64 = 2.0;

/// The paper does not say how many; these are of some seconds at a dozen requests a second.
const LATEST: usize = 32;

/// Oldest latencies that count: older ones say nothing of a machine that others share.
const AGE_MAX: Duration = Duration::from_secs(10);

/// Of those the nearest in load.
const NEAREST: usize = 9;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latency_is_that_of_requests_that_came_to_as_many() {
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        let mut watch = Watch::new(2);
        for n in 0..10 {
            watch.come(at(n * 100), at(n * 100 + 10));
            watch.come(at(n * 100), at(n * 100 + 30));
        }
        let idle = watch.answer(at(1_000));
        assert_eq!(idle, ProbeResult { in_flight: 0, latency: Duration::from_millis(10) });
        watch.come(at(1_000), at(2_000));
        let busy = watch.answer(at(1_001));
        assert_eq!(busy, ProbeResult { in_flight: 1, latency: Duration::from_millis(30) });
        assert_eq!(watch.used(at(1_001)), (20, 0.2005));
        watch.clear();
        let forgotten = ProbeResult { in_flight: 0, latency: Duration::ZERO };
        assert_eq!(watch.answer(at(15_000)), forgotten);
    }
}
