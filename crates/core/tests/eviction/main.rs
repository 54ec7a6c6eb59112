//! Hit ratios of the cache beside other evictions, on the same requests.
//!
//! `cargo bench -p loadline-core --bench eviction` shows more of them.

mod policies;
mod traces;

use policies::{ALL, Cache, S3Fifo};
use traces::{Request, Zipf, looped, scanned, shifting, sized, steady};

#[test]
fn as_many_hits_as_with_the_best_eviction_known_at_every_popularity() {
    for exponent in [0.7, 0.9, 1.0, 1.1] {
        let zipf = Zipf::new(OBJECTS, exponent);
        let ratios = ratios(ROOM, &steady(&zipf, REQUESTS));
        let best = best_known(&ratios);
        assert!(ratios[0].1 >= 0.99 * best.1, "zipf {exponent}: {ratios:?}");
    }
}

#[test]
fn a_scan_displaces_nothing_that_is_popular() {
    let zipf = Zipf::new(OBJECTS, 1.0);
    let alone = ratio(ROOM, &steady(&zipf, REQUESTS));
    // A third of the requests are for what is asked for once.
    let scanned = ratio(ROOM, &scanned(&zipf, REQUESTS, (4 * ROOM, 2 * ROOM)));
    assert!(scanned * 3.0 / 2.0 >= 0.98 * alone, "{scanned} with scans, {alone} without");
}

#[test]
fn a_loop_that_does_not_fit_leaves_its_room_to_what_is_popular() {
    let zipf = Zipf::new(OBJECTS, 1.0);
    let ratios = ratios(ROOM, &looped(&zipf, REQUESTS, ROOM * 6 / 5));
    let lru = ratios.iter().find(|(name, _)| *name == "LRU").expect("it is one of them");
    assert!(ratios[0].1 >= 1.5 * lru.1, "{ratios:?}");
}

#[test]
fn what_is_popular_now_is_here_soon() {
    let zipf = Zipf::new(OBJECTS, 1.0);
    let ratios = ratios(ROOM, &shifting(&zipf, REQUESTS, (OBJECTS / 10, 10)));
    assert!(ratios[0].1 >= 0.99 * best_known(&ratios).1, "{ratios:?}");
}

#[test]
fn sizes_that_differ_cost_few_hits() {
    let zipf = Zipf::new(OBJECTS, 1.0);
    let requests = sized(&steady(&zipf, REQUESTS));
    let ratios = ratios(ROOM * 16_000, &requests);
    assert!(ratios[0].1 >= 0.98 * best_known(&ratios).1, "{ratios:?}");
    let mut cache = S3Fifo::new(ROOM * 16_000);
    for request in requests {
        cache.request(request);
        assert!(cache.eviction.bytes() <= cache.eviction.capacity());
    }
}

/// The best of those that do not know the future, nor every request that ever was.
fn best_known(ratios: &[(&'static str, f64)]) -> (&'static str, f64) {
    let known = ratios[1..].iter().filter(|(name, _)| !["LFU of all", "optimum"].contains(name));
    *known.max_by(|one, other| one.1.total_cmp(&other.1)).expect("there are some")
}

fn ratios(capacity: u64, requests: &[Request]) -> Vec<(&'static str, f64)> {
    let all = ALL.iter().map(|(name, new)| (*name, hits(&mut *new(capacity, requests), requests)));
    all.collect()
}

fn ratio(capacity: u64, requests: &[Request]) -> f64 {
    hits(&mut S3Fifo::new(capacity), requests)
}

/// The hit ratio in the second half of the requests.
fn hits(cache: &mut dyn Cache, requests: &[Request]) -> f64 {
    let (first, second) = requests.split_at(requests.len() / 2);
    for request in first {
        cache.request(*request);
    }
    let hits = second.iter().filter(|request| cache.request(**request)).count();
    hits as f64 / second.len() as f64
}

const OBJECTS: u64 = 10_000;
const REQUESTS: u64 = 200_000;

/// Objects for which there is room: 5 %.
const ROOM: u64 = OBJECTS / 20;
