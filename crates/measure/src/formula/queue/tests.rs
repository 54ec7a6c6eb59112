//! The queue against closed forms, and against a simulation within its own error.

use super::{
    simulation::{Service, run},
    *,
};
use proptest::prelude::*;
use std::{format, string::ToString as _};

fn queue(servers: u64, cv: f64) -> Queue {
    Queue::new(Count::new(servers), Duration::from_secs(1), cv).unwrap()
}

/// At that share of the capacity, with services of a second.
fn at(servers: u64, cv: f64, utilization: f64) -> Loaded {
    let milli = utilization * servers as f64 * 1e3;
    queue(servers, cv).at(Rate::milli_per_sec(libm::round(milli) as u64)).unwrap()
}

fn is_near(found: Duration, expected_secs: f64, relative: f64) -> bool {
    (found.as_secs_f64() - expected_secs).abs() <= relative * expected_secs + 2e-9
}

#[test]
fn one_exponential_server_has_its_closed_forms() {
    for percent in [10, 50, 80, 95] {
        let r = f64::from(percent) / 100.0;
        let loaded = at(1, 1.0, r);
        assert_eq!(loaded.utilization(), Ratio::percent(percent));
        assert_eq!(loaded.waiting(), Ratio::percent(percent));
        assert!(is_near(loaded.mean_wait(), r / (1.0 - r), 1e-9));
        assert!(is_near(loaded.mean_response(), 1.0 / (1.0 - r), 1e-9));
        for late in [0.5, 0.1, 0.01, 0.001] {
            let share = Ratio::from_f64(1.0 - late);
            let response = loaded.response_quantile(share).unwrap();
            let exact = -libm::log(late) / (1.0 - r);
            assert!(is_near(response, exact, 1e-4), "{percent} %, {late}: {response:?} {exact}");
            let wait = loaded.wait_quantile(share).unwrap();
            let exact = (libm::log(r / late) / (1.0 - r)).max(0.0);
            assert!(is_near(wait, exact, 1e-4), "{percent} %, {late}: {wait:?} {exact}");
        }
    }
}

#[test]
fn several_exponential_servers_have_the_closed_form_of_their_responses() {
    let (servers, r) = (4, 0.8);
    let waiting = erlang::c(4, r);
    let free = 4.0 * (1.0 - r);
    let response = at(servers, 1.0, r).response_quantile(Ratio::percent(99)).unwrap();
    let t = response.as_secs_f64();
    let after_wait = (free * libm::exp(-t) - libm::exp(-free * t)) / (free - 1.0);
    let exceeds = (1.0 - waiting) * libm::exp(-t) + waiting * after_wait;
    assert!((exceeds - 0.01).abs() < 1e-6, "{exceeds} at {t}");
}

#[test]
fn a_load_at_capacity_and_above_is_told_with_the_capacity() {
    let queue = Queue::new(Count::new(4), Duration::from_millis(800), 1.0).unwrap();
    assert_eq!(queue.capacity(), Rate::per_sec(5));
    for load in ["5/s", "7.5/s"] {
        let error = queue.at(load.parse().unwrap()).unwrap_err();
        let told = format!("the queue grows without bound at {load}; capacity is c/T = 5/s");
        assert_eq!(error.to_string(), told);
    }
    assert!(queue.at("4.999/s".parse().unwrap()).is_ok());
}

#[test]
fn the_load_line_is_the_last_load_within_the_bound() {
    let bound = Duration::from_secs(6);
    let share = Ratio::percent(99);
    for (servers, cv) in [(1, 1.0), (4, 1.0), (4, 0.0), (2, 0.5), (3, 2.0), (200, 0.0)] {
        let queue = queue(servers, cv);
        let Ok(line) = queue.load_line(share, bound) else {
            assert!(cv > 1.0, "services of cv {cv} alone are within 6 of their means");
            continue;
        };
        let within = queue.at(line).unwrap().response_quantile(share).unwrap();
        assert!(within <= bound + Duration::from_micros(1), "{servers}, {cv}: {within:?}");
        let beyond = Rate::milli_per_sec(line.as_milli_per_sec() + 2);
        let is_breached = match queue.at(beyond) {
            Ok(loaded) => loaded.response_quantile(share).unwrap() > bound,
            Err(error) => matches!(error, QueueError::Unbounded { .. }),
        };
        assert!(is_breached, "{servers}, {cv}: {line} is not the last");
    }
}

#[test]
fn one_exponential_server_has_a_closed_load_line() {
    let line = queue(1, 1.0).load_line(Ratio::percent(99), Duration::from_secs(10)).unwrap();
    let exact = 1.0 + libm::log(0.01) / 10.0;
    assert!((line.as_per_sec_f64() - exact).abs() < 2e-3, "{line} and not {exact}");
}

#[test]
fn a_bound_that_the_service_alone_exceeds_has_no_load_line() {
    let constant = queue(4, 0.0).load_line(Ratio::percent(50), Duration::from_millis(999));
    let told = constant.unwrap_err().to_string();
    assert_eq!(told, "no load keeps 50% within 999ms: of the services alone 0% end within it");
    let exponential = queue(4, 1.0).load_line(Ratio::percent(99), Duration::from_secs(4));
    assert!(exponential.unwrap_err().to_string().contains("alone 98.1684%"));
}

#[test]
fn inputs_that_mean_nothing_are_refused() {
    let second = Duration::from_secs(1);
    for (servers, service, cv, told) in [
        (0, second, 1.0, "a number of servers of 0"),
        (10_001, second, 1.0, "1 to 10000"),
        (1, Duration::ZERO, 1.0, "a service time of 0s"),
        (1, Duration::from_secs(1_001), 1.0, "at most 1000s"),
        (1, second, -1.0, "a coefficient of variation of -1"),
        (1, second, 0.001, "0 or 0.01 to 10"),
        (1, second, f64::NAN, "a coefficient of variation of NaN"),
    ] {
        let error = Queue::new(Count::new(servers), service, cv).unwrap_err().to_string();
        assert!(error.contains(told), "{error}");
    }
    assert!(queue(1, 1.0).at(Rate::default()).is_err());
    let loaded = at(1, 1.0, 0.5);
    assert!(loaded.wait_quantile(Ratio::ONE).is_err());
    assert!(loaded.response_quantile(Ratio::ZERO).is_err());
    assert!(queue(1, 1.0).load_line(Ratio::ONE, second).is_err());
}

/// The model's error is what it may be off beyond the simulation's own.
fn agree(servers: u64, utilization: f64, service: Service, cv: f64, model_error: f64) {
    let found = run(servers as u32, utilization, service, REQUESTS, 7);
    let loaded = at(servers, cv, utilization);
    let what = format!("{servers} servers at {utilization}, {service:?}");
    let (mean, simulated) = (loaded.mean_wait().as_secs_f64(), found.mean_wait);
    let allowed = 4.0 * found.error + model_error * simulated;
    assert!((mean - simulated).abs() <= allowed, "{what}: mean {mean}, simulated {simulated}");
    let waiting = loaded.waiting().as_f64();
    assert!((waiting - found.waiting).abs() < 0.02, "{what}: {waiting}, {}", found.waiting);
    for percent in [50, 95, 99] {
        let exact = found.response_quantile(f64::from(percent) / 100.0);
        let response = loaded.response_quantile(Ratio::percent(percent)).unwrap().as_secs_f64();
        let allowed = (0.05 + model_error) * exact;
        assert!((response - exact).abs() <= allowed, "{what}: p{percent} {response}, {exact}");
    }
}

const REQUESTS: usize = 200_000;

#[test]
fn exponential_services_agree_with_the_simulation() {
    for (servers, utilization) in [(1, 0.5), (1, 0.8), (4, 0.8), (8, 0.9)] {
        agree(servers, utilization, Service::Exponential, 1.0, 0.0);
    }
}

#[test]
fn constant_services_agree_with_the_simulation() {
    for (servers, utilization) in [(1, 0.5), (2, 0.8), (4, 0.6), (4, 0.9), (16, 0.9)] {
        agree(servers, utilization, Service::Constant, 0.0, 0.0);
    }
}

#[test]
fn services_in_between_agree_within_the_error_of_two_moments() {
    for (servers, utilization) in [(1, 0.8), (2, 0.8), (4, 0.9)] {
        agree(servers, utilization, Service::Erlang(4), 0.5, 0.05);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn more_load_waits_longer_and_one_pool_waits_less_than_two(
        servers in 1..60u64,
        cv in prop_oneof![Just(0.0), Just(1.0), 0.1..3.0f64],
        low in 0.05..0.9f64,
        more in 0.01..0.09f64,
    ) {
        let (less, more) = (at(servers, cv, low), at(servers, cv, low + more));
        prop_assert!(less.mean_wait() <= more.mean_wait());
        prop_assert!(less.waiting() <= more.waiting());
        let pool = at(servers * 2, cv, low);
        prop_assert!(pool.mean_wait() <= less.mean_wait());
        let p99 = |loaded: &Loaded| loaded.response_quantile(Ratio::percent(99)).unwrap();
        prop_assert!(p99(&less) <= p99(&more) + Duration::from_nanos(10));
        prop_assert!(less.response_quantile(Ratio::percent(50)).unwrap() <= p99(&less));
    }
}
