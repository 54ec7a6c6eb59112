//! Caches of edges against what can be worked out, and what becomes of those that wait for one.

use std::{collections::HashMap, sync::Arc};

use loadline_core::{
    cache::eviction::{Eviction, Slot},
    fleet::{Then, WhenFull},
    time::{Duration, Instant},
    units::{Bytes, Rate},
};
use loadline_measure::record::{LoadRecord, SimulatedCache};
use loadline_sim::{
    Arrivals, OutageKind, Random, Scenario, ServiceTime, Simulation,
    scenario::{Cache, Fault, Objects, Selector, ServerModel, Trouble},
};

use crate::fleets::one_server;

/// In a cache that nothing has to leave, an object that is asked for `rate` times a second is
/// fetched, then fresh for `ttl`: of `1 + rate * ttl` requests one is no hit.
#[test]
fn what_is_fresh_for_a_while_is_hit_as_often_as_theory_says() {
    for (exponent, ttl) in [(0.8, 2), (1.0, 10), (1.0, 60), (1.2, 10)] {
        let (rate, ttl) = (1_000.0, Duration::from_secs(ttl));
        let mut scenario = with_cache(rate as u64, 400_000, Bytes::new(1 << 40));
        scenario.objects = vec![Some(Objects::new((COUNT, exponent), SIZES, Some(ttl)))];
        scenario.warm_up = Duration::from_secs(100);
        let cache = cache_of(&Simulation::new(scenario).run());
        let asked = |share: &f64| share * rate * ttl.as_secs_f64();
        let shares = popularity(exponent);
        let expected: f64 =
            shares.iter().map(|share| share * asked(share) / (1.0 + asked(share))).sum();
        let found = cache.hit_ratio + cache.collapsed as f64 / cache.requests as f64;
        assert!((found - expected).abs() < 0.01, "{found}, expected {expected}: {exponent}, {ttl}");
        assert!(cache.revalidations > cache.fetches / 2, "what was there is not fetched anew");
    }
}

/// The same eviction, driven by nothing but draws.
#[test]
fn what_stays_in_a_cache_is_what_the_same_eviction_keeps_alone() {
    for (exponent, share) in [(0.7, 20), (1.0, 20), (1.0, 100), (1.1, 10)] {
        let room = u64::from(COUNT) / share * SIZES.0.get();
        let mut scenario = with_cache(1_000, 300_000, Bytes::new(room));
        scenario.objects = vec![Some(Objects::new((COUNT, exponent), SIZES, None))];
        scenario.caches[0].warm = 200_000;
        let found = cache_of(&Simulation::new(scenario).run()).hit_ratio;
        let expected = alone(exponent, room);
        assert!((found - expected).abs() < 0.01, "{found}, expected {expected}: {exponent}");
    }
}

#[test]
fn requests_for_an_object_that_is_on_its_way_wait_for_it() {
    let scenario = at_once(100, Duration::from_millis(50));
    let record = Simulation::new(scenario).run();
    let cache = cache_of(&record);
    assert_eq!((cache.requests, cache.fetches, cache.collapsed), (100, 1, 99));
    assert_eq!(record.outcomes.ok, 100);
    assert_eq!(record.simulation.unwrap().groups[0].requests, 1);
}

#[test]
fn a_fetch_goes_on_when_its_client_has_gone() {
    let mut scenario = at_once(1, Duration::from_millis(50));
    scenario.sources[0].gives_up = Some(Duration::from_millis(10));
    let times = [0, 100, 200].map(Duration::from_millis);
    scenario.sources[0].arrivals = Arrivals::Listed(times.into());
    let record = Simulation::new(scenario).run();
    assert_eq!((record.outcomes.timeout, record.outcomes.ok), (1, 2), "{:?}", record.outcomes);
    assert_eq!((cache_of(&record).fetches, cache_of(&record).hits), (1, 2));
}

/// The nine that wait ask for themselves, as do two that come within a second.
#[test]
fn an_error_of_a_server_is_for_the_request_that_fetched_it_alone() {
    let mut scenario = at_once(10, Duration::from_millis(50));
    let times = [vec![Duration::ZERO; 10], vec![Duration::from_millis(900); 2]].concat();
    scenario.sources[0].arrivals = Arrivals::Listed(times.into());
    scenario.faults = vec![fault(Trouble::Errors(1.0), 0)];
    let record = Simulation::new(scenario).run();
    assert_eq!((record.outcomes.server_error, record.outcomes.total()), (12, 12));
    let cache = cache_of(&record);
    assert_eq!((cache.fetches, cache.collapsed, cache.objects), (12, 9, 0));
    assert_eq!(record.simulation.unwrap().groups[0].requests, 12);
}

#[test]
fn a_fetch_that_gets_no_response_fails_for_all_that_wait() {
    let mut scenario = at_once(10, Duration::from_millis(50));
    scenario.faults = vec![fault(Trouble::Outage(OutageKind::Down), 0)];
    let record = Simulation::new(scenario).run();
    assert_eq!((record.outcomes.server_error, record.outcomes.total()), (10, 10));
    assert_eq!((cache_of(&record).fetches, cache_of(&record).objects), (1, 0));
}

/// It is fresh for a second, and the servers fail from the second one on.
#[test]
fn what_is_stored_is_used_where_servers_fail_for_as_long_as_it_may() {
    for (what, stale, ok) in [
        (Trouble::Errors(1.0), 0, 2),
        (Trouble::Errors(1.0), 3, 6),
        (Trouble::Outage(OutageKind::Down), 0, 2),
        (Trouble::Outage(OutageKind::Down), 3, 6),
        (Trouble::Outage(OutageKind::Down), 60, 8),
    ] {
        let mut scenario = at_once(1, Duration::from_millis(50));
        let ttl = Some(Duration::from_secs(1));
        scenario.objects = vec![Some(Objects::new((1, 1.0), SIZES, ttl))];
        scenario.caches[0].stale_if_error = Duration::from_secs(stale);
        let times = (0..8).map(|n| Duration::from_millis(700 * n));
        scenario.sources[0].arrivals = Arrivals::Listed(times.collect());
        scenario.faults = vec![fault(what, 1_000)];
        let record = Simulation::new(scenario).run();
        assert_eq!((record.outcomes.ok, record.outcomes.total()), (ok, 8), "{what:?}, {stale} s");
        assert_eq!(cache_of(&record).stale, ok - 2, "{what:?}, {stale} s");
    }
}

/// One request a second may go to the server, and others would wait for the next for an hour.
#[test]
fn what_is_stored_is_used_at_once_where_there_is_no_capacity() {
    let mut scenario = at_once(1, Duration::from_millis(1));
    let mut fleet = (*scenario.edges[0]).clone();
    let service = &mut fleet.services[0];
    let timeout = Duration::from_secs(3_600);
    service.when_full = WhenFull::Queue { timeout, length: 100, then: Then::Shed };
    service.groups[0].capacity.max_rate = Some(Rate::per_sec(1));
    service.groups[0].capacity.burst = Some(1);
    scenario.edges = vec![Arc::new(fleet)];
    let ttl = Some(Duration::from_millis(10));
    scenario.objects = vec![Some(Objects::new((1, 1.0), SIZES, ttl))];
    scenario.caches[0].stale_if_error = Duration::from_secs(3_600);
    let times = (0..80).map(|n| Duration::from_millis(100 * n));
    scenario.sources[0].arrivals = Arrivals::Listed(times.collect());
    let record = Simulation::new(scenario).run();
    assert_eq!((record.outcomes.ok, record.outcomes.total()), (80, 80));
    assert!(record.response.max <= Duration::from_millis(2), "{}", record.response.max);
    let cache = cache_of(&record);
    let given = record.simulation.unwrap().groups[0].requests;
    assert!((8..=9).contains(&given), "{given}");
    // Those that no server got are not among those that were sent to servers.
    assert_eq!((cache.fetches, cache.stale), (given, 80 - given), "{cache:?}");
    assert_eq!(cache.bytes_fetched, 1_000);
    let over_time: u64 = cache.moments.iter().map(|it| it.fetches).sum();
    assert_eq!(over_time, given);
}

#[test]
fn a_cache_that_is_lost_leaves_its_load_to_the_servers_until_it_is_full_again() {
    let mut scenario = with_cache(1_000, 60_000, Bytes::new(u64::from(COUNT) / 20 * 1_000));
    scenario.objects = vec![Some(Objects::new((COUNT, 1.0), SIZES, None))];
    scenario.caches[0].warm = 200_000;
    scenario.step = Duration::from_secs(1);
    let (at, lasts) = (Instant::ZERO + Duration::from_secs(20), Some(Duration::from_secs(10)));
    let whom = Selector::default();
    scenario.faults = vec![Fault { at, lasts, what: Trouble::Cache, whom }];
    let cache = cache_of(&Simulation::new(scenario).run());
    let load = |from: usize, to: usize| {
        let moments = &cache.moments[from..to];
        moments.iter().map(|it| it.fetches_per_s).sum::<f64>() / moments.len() as f64
    };
    let (before, out, cold, late) = (load(5, 19), load(21, 29), load(30, 31), load(55, 59));
    assert!(before < 400.0 && (950.0..1_050.0).contains(&out), "{before} before, {out} while out");
    assert!(cold > 1.15 * before && cold < out, "{cold} in its first second, {before} before");
    assert!((0.9..1.15).contains(&(late / before)), "{late} at the end, {before} before");
}

/// Of three, which hold from 1 s to 5 s together, the first ends at 2 s; the one without an end at
/// 3 s empties the cache and says nothing of how long it is out.
#[test]
fn a_cache_that_several_faults_keep_out_comes_back_after_the_last() {
    let mut scenario = at_once(1, Duration::from_millis(1));
    let times: Vec<Duration> = (0..8).map(|n| Duration::from_millis(500 + 1_000 * n)).collect();
    scenario.sources[0].arrivals = Arrivals::Listed(times.into());
    let fault = |at, lasts: Option<u64>| Fault {
        at: Instant::ZERO + Duration::from_secs(at),
        lasts: lasts.map(Duration::from_secs),
        what: Trouble::Cache,
        whom: Selector::default(),
    };
    scenario.faults = vec![fault(1, Some(1)), fault(1, Some(4)), fault(3, None)];
    // The first is fetched, four find it out, one fetches anew, two are hits.
    let cache = cache_of(&Simulation::new(scenario).run());
    assert_eq!((cache.requests, cache.fetches, cache.hits), (8, 6, 2));
}

#[test]
fn an_object_that_is_too_large_for_the_cache_goes_to_the_servers_each_time() {
    let mut scenario = at_once(1, Duration::from_millis(1));
    scenario.objects = vec![Some(Objects::new((1, 1.0), (Bytes::new(2_000), 0.0), None))];
    scenario.caches[0].size = Bytes::new(10_000);
    let times = [0, 100, 200].map(Duration::from_millis);
    scenario.sources[0].arrivals = Arrivals::Listed(times.into());
    let cache = cache_of(&Simulation::new(scenario).run());
    assert_eq!((cache.requests, cache.fetches, cache.bytes_fetched), (3, 3, 6_000));
}

/// Of all servers, from so many milliseconds on.
fn fault(what: Trouble, at: u64) -> Fault {
    let at = Instant::ZERO + Duration::from_millis(at).max(Duration::from_nanos(1));
    Fault { at, lasts: None, what, whom: Selector::default() }
}

/// So many requests for one object at the beginning, of servers that take this long.
fn at_once(requests: usize, time: Duration) -> Scenario {
    let mut scenario = with_cache(1, 10, Bytes::new(1_000_000));
    let model = ServerModel { time: ServiceTime::Constant(time), ..ServerModel::default() };
    scenario.servers = vec![(Selector::default(), model.into())];
    scenario.objects = vec![Some(Objects::new((1, 1.0), SIZES, None))];
    scenario.sources[0].arrivals = Arrivals::Listed(vec![Duration::ZERO; requests].into());
    scenario
}

/// Requests at random, through a cache of this size to servers that are fast enough for all.
fn with_cache(rate: u64, requests: u64, size: Bytes) -> Scenario {
    let time = ServiceTime::Constant(Duration::from_micros(10));
    let model = ServerModel { time, cores: 4, ..ServerModel::default() };
    let mut scenario = one_server(model, Rate::per_sec(rate), requests, 1);
    scenario.warm_up = Duration::ZERO;
    scenario.caches = vec![Cache { edge: 0, size, warm: 0, stale_if_error: Duration::ZERO }];
    scenario
}

fn cache_of(record: &LoadRecord) -> SimulatedCache {
    record.simulation.as_ref().expect("a simulated run").caches[0].clone()
}

/// The hit ratio of the eviction alone in as many requests, after as many as the cache has seen.
fn alone(exponent: f64, room: u64) -> f64 {
    let mut up_to = popularity(exponent);
    let mut sum = 0.0;
    up_to.iter_mut().for_each(|share| {
        sum += *share;
        *share = sum;
    });
    let mut random = Random::stream(42, 7);
    let mut eviction = Eviction::new(Bytes::new(room));
    let mut slots: HashMap<usize, Slot> = HashMap::new();
    let mut hits = 0;
    for number in 0..500_000 {
        let draw = random.uniform();
        let object = up_to.partition_point(|share| *share < draw);
        if let Some(slot) = slots.get(&object) {
            eviction.hit(*slot);
            hits += u64::from(number >= 200_000);
            continue;
        }
        let mut evicted = Vec::new();
        let hash = Random::stream(9, object as u64).draw();
        let slot = eviction.insert(object, hash, SIZES.0, &mut evicted).expect("room was made");
        for (_, object) in evicted {
            slots.remove(&object);
        }
        slots.insert(object, slot);
    }
    hits as f64 / 300_000.0
}

/// The share of requests for each object.
fn popularity(exponent: f64) -> Vec<f64> {
    let weights: Vec<f64> = (1..=COUNT).map(|n| f64::from(n).powf(-exponent)).collect();
    let sum: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / sum).collect()
}

const COUNT: u32 = 10_000;

/// All of 1 kB.
const SIZES: (Bytes, f64) = (Bytes::new(1_000), 0.0);
