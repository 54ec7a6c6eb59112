//! Evictions beside each other: ours, plain ones of the textbook, two libraries, and the optimum.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use loadline_core::{
    cache::eviction::{Eviction, Slot},
    units::Bytes,
};

use crate::traces::{Request, mixed};

/// A cache of so many bytes, to which requests are made.
pub(crate) trait Cache {
    /// Whether the object is here; it is taken in if not.
    fn request(&mut self, request: Request) -> bool;
}

/// What is made of a capacity and of all requests that will come.
pub(crate) type New = fn(u64, &[Request]) -> Box<dyn Cache>;

/// All of them by name.
pub(crate) const ALL: [(&str, New); 8] = [
    ("loadline", |capacity, _| Box::new(S3Fifo::new(capacity))),
    ("S3-FIFO", |capacity, _| Box::new(Published::new(capacity))),
    ("quick_cache", |capacity, _| Box::new(Quick::new(capacity))),
    ("moka", |capacity, _| Box::new(Moka::new(capacity))),
    ("LRU", |capacity, _| Box::new(Lru::new(capacity))),
    ("SIEVE", |capacity, _| Box::new(Sieve::new(capacity))),
    ("LFU of all", |capacity, _| Box::new(Lfu::new(capacity))),
    ("optimum", |capacity, requests| Box::new(Belady::new(capacity, requests))),
];

/// What `loadline_core::cache::eviction` does.
pub(crate) struct S3Fifo {
    pub(crate) eviction: Eviction<u64>,
    slots: HashMap<u64, Slot>,
    evicted: Vec<(Slot, u64)>,
}

impl S3Fifo {
    pub(crate) fn new(capacity: u64) -> Self {
        let eviction = Eviction::new(Bytes::new(capacity));
        Self { eviction, slots: HashMap::new(), evicted: Vec::new() }
    }
}

impl Cache for S3Fifo {
    fn request(&mut self, (object, bytes): Request) -> bool {
        if let Some(slot) = self.slots.get(&object) {
            self.eviction.hit(*slot);
            return true;
        }
        let hash = mixed(object);
        let slot = self.eviction.insert(object, hash, Bytes::new(bytes), &mut self.evicted);
        for (_, evicted) in self.evicted.drain(..) {
            self.slots.remove(&evicted);
        }
        if let Ok(slot) = slot {
            self.slots.insert(object, slot);
        }
        false
    }
}

/// S3-FIFO as its authors describe it: a tenth of the room for the small queue, and a ghost that
/// remembers as many bytes as the main queue may have.
struct Published {
    rooms: [u64; 2],
    queues: [VecDeque<Request>; 2],
    bytes: [u64; 2],
    hits: HashMap<u64, u8>,
    now: u64,
    ghost: BTreeMap<u64, Request>,
    ghost_bytes: u64,
    remembered: HashMap<u64, u64>,
}

impl Published {
    fn new(capacity: u64) -> Self {
        let small = (capacity / 10).max(1);
        Self {
            rooms: [small, capacity - small],
            queues: Default::default(),
            bytes: [0; 2],
            hits: HashMap::new(),
            now: 0,
            ghost: BTreeMap::new(),
            ghost_bytes: 0,
            remembered: HashMap::new(),
        }
    }

    fn push(&mut self, queue: usize, request: Request) {
        self.queues[queue].push_back(request);
        self.bytes[queue] += request.1;
    }

    fn pop(&mut self, queue: usize) -> Option<Request> {
        let request = self.queues[queue].pop_front()?;
        self.bytes[queue] -= request.1;
        Some(request)
    }

    fn evict(&mut self) {
        if self.bytes[SMALL] < self.rooms[SMALL] && !self.queues[MAIN].is_empty() {
            return self.evict_main();
        }
        while let Some(request) = self.pop(SMALL) {
            if self.hits[&request.0] < 2 {
                self.hits.remove(&request.0);
                return self.remember(request);
            }
            self.hits.insert(request.0, 0);
            self.push(MAIN, request);
            if self.bytes[MAIN] > self.rooms[MAIN] {
                return self.evict_main();
            }
        }
        self.evict_main();
    }

    fn evict_main(&mut self) {
        while let Some(request) = self.pop(MAIN) {
            let hits = self.hits.get_mut(&request.0).expect("it is here");
            if *hits == 0 {
                self.hits.remove(&request.0);
                return;
            }
            *hits -= 1;
            self.push(MAIN, request);
        }
    }

    fn remember(&mut self, request: Request) {
        self.now += 1;
        self.remembered.insert(request.0, self.now);
        self.ghost.insert(self.now, request);
        self.ghost_bytes += request.1;
        while self.ghost_bytes > self.rooms[MAIN] {
            let (_, (oldest, bytes)) = self.ghost.pop_first().expect("it has bytes");
            self.remembered.remove(&oldest);
            self.ghost_bytes -= bytes;
        }
    }

    /// Whether it was remembered, which it is not any more.
    fn recall(&mut self, object: u64) -> bool {
        let Some(at) = self.remembered.remove(&object) else { return false };
        self.ghost_bytes -= self.ghost.remove(&at).map_or(0, |(_, bytes)| bytes);
        true
    }
}

impl Cache for Published {
    fn request(&mut self, request: Request) -> bool {
        let (object, bytes) = request;
        if let Some(hits) = self.hits.get_mut(&object) {
            *hits = (*hits + 1).min(3);
            return true;
        }
        while self.bytes[SMALL] + self.bytes[MAIN] + bytes > self.rooms[SMALL] + self.rooms[MAIN] {
            self.evict();
        }
        let queue = if self.recall(object) { MAIN } else { SMALL };
        self.hits.insert(object, 0);
        self.push(queue, request);
        false
    }
}

const SMALL: usize = 0;
const MAIN: usize = 1;

struct Quick(quick_cache::sync::Cache<u64, u64, Weight>);

#[derive(Clone)]
struct Weight;

impl quick_cache::Weighter<u64, u64> for Weight {
    fn weight(&self, _: &u64, bytes: &u64) -> u64 {
        *bytes
    }
}

impl Quick {
    fn new(capacity: u64) -> Self {
        let options = quick_cache::OptionsBuilder::new()
            .shards(1)
            .estimated_items_capacity(100_000)
            .weight_capacity(capacity)
            .build()
            .expect("all is given");
        let hasher = quick_cache::DefaultHashBuilder::default();
        let lifecycle = quick_cache::sync::DefaultLifecycle::default();
        Self(quick_cache::sync::Cache::with_options(options, Weight, hasher, lifecycle))
    }
}

impl Cache for Quick {
    fn request(&mut self, (object, bytes): Request) -> bool {
        let hit = self.0.get(&object).is_some();
        if !hit {
            self.0.insert(object, bytes);
        }
        hit
    }
}

struct Moka {
    cache: moka::sync::Cache<u64, u64>,
    requests: u64,
}

impl Moka {
    fn new(capacity: u64) -> Self {
        let weight = |_: &u64, bytes: &u64| u32::try_from(*bytes).unwrap_or(u32::MAX);
        let cache = moka::sync::Cache::builder().max_capacity(capacity).weigher(weight).build();
        Self { cache, requests: 0 }
    }
}

impl Cache for Moka {
    fn request(&mut self, (object, bytes): Request) -> bool {
        let hit = self.cache.get(&object).is_some();
        if !hit {
            self.cache.insert(object, bytes);
        }
        self.requests += 1;
        if self.requests.is_multiple_of(16) {
            self.cache.run_pending_tasks();
        }
        hit
    }
}

/// The least recently used leaves.
struct Lru {
    room: u64,
    now: u64,
    used: HashMap<u64, (u64, u64)>,
    by_time: BTreeMap<u64, u64>,
}

impl Lru {
    fn new(capacity: u64) -> Self {
        Self { room: capacity, now: 0, used: HashMap::new(), by_time: BTreeMap::new() }
    }
}

impl Cache for Lru {
    fn request(&mut self, (object, bytes): Request) -> bool {
        self.now += 1;
        let before = self.used.insert(object, (self.now, bytes));
        self.by_time.insert(self.now, object);
        if let Some((at, _)) = before {
            self.by_time.remove(&at);
            return true;
        }
        while self.room < bytes {
            let (_, oldest) = self.by_time.pop_first().expect("it is smaller than the cache");
            self.room += self.used.remove(&oldest).expect("it is here").1;
        }
        self.room -= bytes;
        false
    }
}

/// A hand goes from the oldest to the newest; what was asked for since is passed over once.
struct Sieve {
    room: u64,
    now: u64,
    hand: u64,
    objects: HashMap<u64, (u64, bool)>,
    by_time: BTreeMap<u64, Request>,
}

impl Sieve {
    fn new(capacity: u64) -> Self {
        let (objects, by_time) = (HashMap::new(), BTreeMap::new());
        Self { room: capacity, now: 0, hand: 0, objects, by_time }
    }

    fn evict(&mut self) {
        loop {
            let next = self.by_time.range(self.hand..).next();
            let next = next.or_else(|| self.by_time.iter().next());
            let (at, (object, bytes)) = next.map(|(at, object)| (*at, *object)).expect("not empty");
            self.hand = at + 1;
            let visited = &mut self.objects.get_mut(&object).expect("it is here").1;
            if !std::mem::take(visited) {
                self.by_time.remove(&at);
                self.objects.remove(&object);
                self.room += bytes;
                return;
            }
        }
    }
}

impl Cache for Sieve {
    fn request(&mut self, (object, bytes): Request) -> bool {
        if let Some((_, visited)) = self.objects.get_mut(&object) {
            *visited = true;
            return true;
        }
        while self.room < bytes {
            self.evict();
        }
        self.now += 1;
        self.room -= bytes;
        self.objects.insert(object, (self.now, false));
        self.by_time.insert(self.now, (object, bytes));
        false
    }
}

/// Remembers of every object how often it was asked for by byte, and keeps those asked for most.
struct Lfu {
    room: u64,
    requests: HashMap<u64, u64>,
    here: BTreeSet<(u64, u64, u64)>,
}

impl Lfu {
    fn new(capacity: u64) -> Self {
        Self { room: capacity, requests: HashMap::new(), here: BTreeSet::new() }
    }
}

impl Cache for Lfu {
    fn request(&mut self, (object, bytes): Request) -> bool {
        let worth = |requests: u64| requests * 1_000_000 / bytes;
        let requests = self.requests.entry(object).or_default();
        let was_here = self.here.remove(&(worth(*requests), object, bytes));
        *requests += 1;
        let this = (worth(*requests), object, bytes);
        if was_here {
            self.here.insert(this);
            return true;
        }
        while self.room < bytes && self.here.first().is_some_and(|least| least.0 < this.0) {
            self.room += self.here.pop_first().expect("there is a first").2;
        }
        if self.room >= bytes {
            self.room -= bytes;
            self.here.insert(this);
        }
        false
    }
}

/// Knows what will come, and keeps what comes soonest (L. A. Belady, 1966); an upper bound where
/// all objects have one size.
struct Belady {
    room: u64,
    next: std::vec::IntoIter<u64>,
    coming: HashMap<u64, u64>,
    by_time: BTreeSet<(u64, Request)>,
}

impl Belady {
    fn new(capacity: u64, requests: &[Request]) -> Self {
        let mut seen = HashMap::new();
        let mut next: Vec<u64> = Vec::with_capacity(requests.len());
        for (at, (object, _)) in requests.iter().enumerate().rev() {
            next.push(seen.insert(*object, at as u64).unwrap_or(u64::MAX));
        }
        next.reverse();
        let (next, coming, by_time) = (next.into_iter(), HashMap::new(), BTreeSet::new());
        Self { room: capacity, next, coming, by_time }
    }
}

impl Cache for Belady {
    fn request(&mut self, request: Request) -> bool {
        let (object, bytes) = request;
        let next = self.next.next().expect("the requests it was made with");
        let before = self.coming.remove(&object);
        if let Some(before) = before {
            self.by_time.remove(&(before, request));
            self.room += bytes;
        }
        while self.room < bytes && self.by_time.last().is_some_and(|last| last.0 > next) {
            let (_, (object, bytes)) = self.by_time.pop_last().expect("there is a last");
            self.coming.remove(&object);
            self.room += bytes;
        }
        if self.room >= bytes {
            self.room -= bytes;
            self.coming.insert(object, next);
            self.by_time.insert((next, request));
        }
        before.is_some()
    }
}
