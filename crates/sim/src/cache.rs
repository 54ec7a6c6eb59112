//! Caches of edges: which objects they have, which are on their way, and what was counted.
//!
//! What stays in a cache is decided by `core`, as in the proxy. An object is asked for by its
//! popularity (Zipf's law), has a size and a time to live. Requests for an object that is on its
//! way wait for it.

use std::{collections::HashMap, sync::Arc};

use loadline_core::{
    cache::eviction::{Eviction, Slot},
    time::{Duration, Instant},
    units::Bytes,
};
use loadline_measure::record::{CacheMoment, SimulatedCache};

use crate::{random::Random, slab::Handle};

/// What the requests of a service are for.
#[derive(Clone, Debug, PartialEq)]
pub struct Objects {
    /// The share of requests for the objects up to each, the most popular first.
    up_to: Arc<[f64]>,
    /// The mean of their sizes, at least 1.
    size: f64,
    /// Of the normal distribution of the logarithms of their sizes; 0 where all are alike.
    sigma: f64,
    /// How long one is fresh; for ever if none.
    ttl: Option<Duration>,
}

/// A cache of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cache {
    /// Index of the edge.
    pub edge: usize,
    /// What it may take.
    pub size: Bytes,
    /// How many requests it has seen when the run begins.
    pub warm: u64,
    /// How long what is not fresh any more is used where servers fail or have no capacity.
    pub stale_if_error: Duration,
}

/// One object: the index of its service, and its place by popularity, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Object {
    service: u32,
    number: u32,
}

/// What a cache says of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lookup {
    /// It is answered at once.
    Hit,
    /// The object is on its way, and the request waits for it.
    Joins,
    /// It goes to a server, and the response is stored.
    Fetches,
    /// It goes to a server, and nothing is stored.
    Passes,
}

/// The cache of an edge in a run.
#[derive(Debug)]
pub(crate) struct EdgeCache {
    eviction: Eviction<Object>,
    stored: HashMap<Object, Stored>,
    /// Objects on their way, with the requests that wait for each.
    fetches: HashMap<Object, Vec<Handle>>,
    evicted: Vec<(Slot, Object)>,
    /// Objects of which nothing is stored and whose servers have failed: until when nobody waits
    /// for anybody else.
    failing: HashMap<Object, Instant>,
    /// How many faults keep it out of use.
    out: u32,
    stale_if_error: Duration,
    counts: SimulatedCache,
    /// Since the last point of the timeline.
    moment: CacheMoment,
    sampled: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Stored {
    slot: Slot,
    /// Until when it is fresh; for ever if none.
    expires: Option<Instant>,
}

impl Objects {
    /// So many objects, the n-th of which is asked for in proportion to `1 / n^exponent` (G. K.
    /// Zipf; of the web L. Breslau et al., INFOCOM 1999). Sizes have this mean and are lognormal,
    /// with this standard deviation over mean; 0 if all are alike.
    #[must_use]
    pub fn new(
        (count, exponent): (u32, f64),
        (size, variation): (Bytes, f64),
        ttl: Option<Duration>,
    ) -> Self {
        let mut sum = 0.0;
        let mut add = |n: u32| {
            sum += libm::pow(f64::from(n), -exponent);
            sum
        };
        let mut up_to: Vec<f64> = (1..=count.max(1)).map(&mut add).collect();
        up_to.iter_mut().for_each(|share| *share /= sum);
        let sigma = libm::sqrt(libm::log(1.0 + variation * variation));
        Self { up_to: up_to.into(), size: size.get().max(1) as f64, sigma, ttl }
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.up_to.len()
    }

    /// Whether what was fetched is not fresh for ever.
    pub(crate) fn has_ttl(&self) -> bool {
        self.ttl.is_some()
    }

    /// The object that a request is for, by what is drawn for it.
    pub(crate) fn draw(&self, service: usize, random: &mut Random) -> Object {
        let draw = random.uniform();
        let number = self.up_to.partition_point(|share| *share < draw);
        Object { service: service as u32, number: number.min(self.up_to.len() - 1) as u32 }
    }

    fn size(&self, object: Object) -> Bytes {
        if self.sigma == 0.0 {
            return Bytes::new(self.size as u64);
        }
        let normal = Random::stream(SIZES, object.key()).normal();
        let size = self.size * libm::exp(self.sigma * normal - self.sigma * self.sigma / 2.0);
        Bytes::new((size as u64).max(1))
    }
}

impl Object {
    fn key(self) -> u64 {
        u64::from(self.service) << 32 | u64::from(self.number)
    }
}

impl EdgeCache {
    pub(crate) fn new(cache: Cache, region: &str) -> Self {
        let counts = SimulatedCache {
            edge: region.to_owned(),
            size: cache.size.get(),
            ..SimulatedCache::default()
        };
        Self {
            eviction: Eviction::new(cache.size),
            stored: HashMap::new(),
            fetches: HashMap::new(),
            evicted: Vec::new(),
            failing: HashMap::new(),
            out: 0,
            stale_if_error: cache.stale_if_error,
            counts,
            moment: CacheMoment::default(),
            sampled: Instant::ZERO,
        }
    }

    /// Looks up an object; the request counts in the whole run if it `counts`.
    pub(crate) fn look_up(
        &mut self,
        now: Instant,
        object: Object,
        of: &Objects,
        counts: bool,
    ) -> Lookup {
        let bytes = of.size(object).get();
        let lookup = self.find(now, object);
        let hits = u64::from(lookup == Lookup::Hit);
        self.moment.requests += 1;
        self.moment.hits += hits;
        self.moment.bytes += bytes;
        if counts {
            let counts = &mut self.counts;
            counts.requests += 1;
            counts.hits += hits;
            counts.collapsed += u64::from(lookup == Lookup::Joins);
            counts.bytes += bytes;
        }
        lookup
    }

    /// What becomes of a request.
    fn find(&mut self, now: Instant, object: Object) -> Lookup {
        if self.out > 0 {
            return Lookup::Passes;
        }
        if let Some(stored) = self.stored.get(&object) {
            self.eviction.hit(stored.slot);
            if stored.expires.is_none_or(|expires| now < expires) {
                return Lookup::Hit;
            }
        }
        if self.failing.get(&object).is_some_and(|until| now < *until) {
            return Lookup::Passes;
        }
        if self.fetches.contains_key(&object) {
            return Lookup::Joins;
        }
        self.fetches.insert(object, Vec::new());
        Lookup::Fetches
    }

    /// A request waits for an object that is on its way.
    pub(crate) fn join(&mut self, object: Object, request: Handle) {
        self.fetches.entry(object).or_default().push(request);
    }

    /// Whether an object is here that may be used where its servers fail.
    pub(crate) fn has_instead(&self, now: Instant, object: Object) -> bool {
        let expires = self.stored.get(&object).map(|stored| stored.expires);
        expires.is_some_and(|expires| {
            expires.is_none_or(|expires| now <= expires + self.stale_if_error)
        })
    }

    /// An object has come; gives the requests that have waited for it.
    pub(crate) fn fetched(&mut self, now: Instant, object: Object, of: &Objects) -> Vec<Handle> {
        if self.out == 0 {
            self.store(object, of, of.ttl.map(|ttl| now + ttl));
        }
        self.failing.remove(&object);
        self.not_fetched(object)
    }

    /// An object has not come; gives the requests that have waited for it.
    pub(crate) fn not_fetched(&mut self, object: Object) -> Vec<Handle> {
        self.fetches.remove(&object).unwrap_or_default()
    }

    /// The server of an object has failed: where nothing is stored of it, each request is for
    /// itself for a while.
    pub(crate) fn pass(&mut self, now: Instant, object: Object) {
        if !self.stored.contains_key(&object) {
            self.failing.insert(object, now + FAILED);
        }
    }

    /// Notes that a request for an object is sent to a server; it counts in the whole run if it
    /// `counts`.
    pub(crate) fn is_sent(&mut self, object: Object, of: &Objects, counts: bool) {
        let has_body = self.stored.contains_key(&object);
        let bytes = if has_body { 0 } else { of.size(object).get() };
        self.moment.fetches += 1;
        self.moment.bytes_fetched += bytes;
        if counts {
            self.counts.fetches += 1;
            self.counts.revalidations += u64::from(has_body);
            self.counts.bytes_fetched += bytes;
        }
    }

    /// Notes that a request is answered with what is stale.
    pub(crate) fn answers_stale(&mut self, counts: bool) {
        self.counts.stale += u64::from(counts);
    }

    /// Lets the cache see a request before the run begins.
    pub(crate) fn warm(&mut self, object: Object, of: &Objects, age: f64) {
        match self.stored.get(&object) {
            Some(stored) => self.eviction.hit(stored.slot),
            None => {
                // It has come some time within its time to live.
                let expires = of.ttl.map(|ttl| Instant::ZERO + ttl.scale(1.0 - age));
                self.store(object, of, expires);
            }
        }
    }

    fn store(&mut self, object: Object, of: &Objects, expires: Option<Instant>) {
        if let Some(stored) = self.stored.get_mut(&object) {
            stored.expires = expires;
            return;
        }
        let hash = Random::stream(HASHES, object.key()).draw();
        let slot = self.eviction.insert(object, hash, of.size(object), &mut self.evicted);
        for (_, evicted) in self.evicted.drain(..) {
            self.stored.remove(&evicted);
        }
        if let Ok(slot) = slot {
            self.stored.insert(object, Stored { slot, expires });
        }
    }

    /// Everything in it is lost; it stays out until it is [back](EdgeCache::is_back) as often.
    pub(crate) fn lose(&mut self, stays_out: bool) {
        self.eviction = Eviction::new(self.eviction.capacity());
        self.stored.clear();
        self.failing.clear();
        self.out += u32::from(stays_out);
    }

    /// Drops the fetches of an edge that is lost.
    pub(crate) fn lose_fetches(&mut self) {
        self.fetches.clear();
    }

    /// A fault has ended; after the last one it is in use again, empty.
    pub(crate) fn is_back(&mut self) {
        self.out = self.out.saturating_sub(1);
    }

    /// A point of the timeline.
    pub(crate) fn sample(&mut self, now: Instant) {
        let seconds = now.since(self.sampled).as_secs_f64();
        self.sampled = now;
        let moment = std::mem::take(&mut self.moment);
        let fetches_per_s = if seconds > 0.0 { moment.fetches as f64 / seconds } else { 0.0 };
        let at = now.since(Instant::ZERO);
        let stored = self.eviction.bytes().get();
        self.counts.moments.push(CacheMoment { at, fetches_per_s, stored, ..moment });
    }

    /// What was counted.
    pub(crate) fn finish(mut self, now: Instant) -> SimulatedCache {
        if now > self.sampled {
            self.sample(now);
        }
        let objects = self.eviction.len() as u64;
        let SimulatedCache { requests, hits, bytes, bytes_fetched, .. } = self.counts;
        let share = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
        let hit_ratio = share(hits, requests);
        let byte_hit_ratio = share(bytes.saturating_sub(bytes_fetched), bytes);
        SimulatedCache { objects, hit_ratio, byte_hit_ratio, ..self.counts }
    }
}

/// As in the proxy.
const FAILED: Duration = Duration::from_secs(1);

/// Seeds of what every run has in common: sizes of objects, and hashes of their names.
const SIZES: u64 = 0x5ee_d512;
const HASHES: u64 = 0x5ee_d4a5;
