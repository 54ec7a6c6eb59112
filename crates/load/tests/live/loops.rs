//! The two loops: how many requests, and when.

use std::{
    io::Write as _,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use loadline_core::{time::Duration, units::Rate};
use loadline_load::{LoadPlan, Pattern, Timetable, Until};
use loadline_measure::record::{Arrivals, LoadModel, LoadRecord, Outcomes};

use crate::{
    assert_accounts, assert_or_kept,
    ports::reserved,
    run,
    server::{Server, read_request, wait_closed},
};

const EMPTY: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

#[test]
fn four_users_with_twenty_requests_each_send_eighty() {
    let server = Server::answering(EMPTY);
    let mut plan = LoadPlan::closed(&server.url(), 4, Until::Requests(20)).unwrap();
    assert_eq!(run(&plan).outcomes, Outcomes { ok: 80, ..Outcomes::default() });
    assert_eq!(server.connections(), 4);
    plan.keepalive = false;
    assert_eq!(run(&plan).outcomes.ok, 80);
    assert_eq!(server.connections(), 84);
}

#[test]
fn a_closed_loop_ends_with_its_duration_and_its_last_answer() {
    let server = Server::start(|_, mut stream| {
        while read_request(&mut stream) {
            std::thread::sleep(std::time::Duration::from_millis(40));
            if stream.write_all(EMPTY).is_err() {
                break;
            }
        }
    });
    let span = Duration::from_millis(100);
    let plan = LoadPlan::closed(&server.url(), 2, Until::Elapsed(span)).unwrap();
    let record = run(&plan);
    assert_eq!(record.outcomes.ok, record.planned);
    assert!((2..=6).contains(&record.planned), "planned {}", record.planned);
    assert!(record.elapsed >= span, "the requests under way at the end were waited for");
}

#[test]
fn users_together_send_no_more_than_the_highest_rate() {
    let server = Server::answering(EMPTY);
    let until = Until::Elapsed(Duration::from_millis(500));
    for users in [1, 4] {
        let mut plan = LoadPlan::closed(&server.url(), users, until).unwrap();
        plan.max_rate = Some(Rate::per_sec(20));
        let record = run(&plan);
        assert!((1..=10).contains(&record.planned), "planned {}", record.planned);
        assert_eq!(record.outcomes.ok, record.planned);
    }
}

#[test]
fn a_port_that_refuses_does_not_keep_a_closed_loop_from_ending() {
    let until = Until::Elapsed(Duration::from_millis(50));
    let record = run(&LoadPlan::closed(&reserved().to_string(), 3, until).unwrap());
    assert_eq!(record.outcomes.connect_refused, record.planned);
    assert!(record.planned >= 3);
}

/// Requests went out on time, or the generator says of itself that it was kept from it. A timer of
/// whole milliseconds, rounded up, would have a median lag of half of one, and no fault.
fn assert_prompt(record: &LoadRecord) {
    let lag = record.lag.p50;
    assert_or_kept(lag < Duration::from_micros(400), record, &format!("median lag {lag}"));
}

#[test]
fn an_open_loop_sends_at_the_planned_instants() {
    let arrivals = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&arrivals);
    let server = Server::start(move |_, mut stream| {
        while read_request(&mut stream) {
            noted.lock().unwrap().push(Instant::now());
            if stream.write_all(EMPTY).is_err() {
                break;
            }
        }
    });
    let (rate, until) = (Rate::per_sec(200), Until::Requests(60));
    let mut plan = LoadPlan::open(&server.url(), rate, until).unwrap();
    let poisson = Timetable::steady(rate, Arrivals::Poisson, 11);
    let Pattern::Open { timetable, .. } = &mut plan.pattern else { unreachable!() };
    timetable.clone_from(&poisson);
    let before = Instant::now();
    let record = run(&plan);
    let arrivals = arrivals.lock().unwrap();
    for (arrival, offset) in arrivals.iter().zip(poisson.instants(until)) {
        assert!(arrival.duration_since(before) >= offset.to_std(), "sent before its instant");
    }
    assert_eq!((arrivals.len(), record.outcomes.ok), (60, 60));
    assert_prompt(&record);
}

/// Answers at once, but stands still from `from` to `to` after the first request.
fn stalling(from: u64, to: u64) -> Server {
    let begun = OnceLock::new();
    Server::start(move |_, mut stream| {
        while read_request(&mut stream) {
            let begun = *begun.get_or_init(Instant::now);
            let now = begun.elapsed();
            let [from, to] = [from, to].map(std::time::Duration::from_millis);
            if (from..to).contains(&now) {
                std::thread::sleep(to - now);
            }
            if stream.write_all(EMPTY).is_err() {
                break;
            }
        }
    })
}

/// A stall of 2 s in 10 s at 1,000 per second, at five times the speed: 400 ms in 2 s. A fifth of
/// the requests are planned into the stall, evenly; so their 95th percentile, which is that of
/// 99 % of all, waits 95 % of it.
#[test]
fn a_stall_shows_in_the_p99_of_an_open_loop_and_hides_from_a_closed_one() {
    let server = stalling(800, 1_200);
    let until = Until::Elapsed(Duration::from_secs(2));
    let open = run(&LoadPlan::open(&server.url(), Rate::per_sec(1_000), until).unwrap());
    assert_eq!((open.planned, open.outcomes.ok), (2_000, 2_000));
    assert!(open.response.p99 > Duration::from_millis(300), "p99 {}", open.response.p99);
    let stalled = open.moments.iter().map(|moment| moment.in_flight).max();
    assert!(stalled > Some(200), "{stalled:?} were under way at most");

    let server = stalling(300, 700);
    let until = Until::Elapsed(Duration::from_secs(1));
    let closed = run(&LoadPlan::closed(&server.url(), 4, until).unwrap());
    assert!(closed.response.max > Duration::from_millis(300), "max {}", closed.response.max);
    let p99 = closed.response.p99;
    assert_or_kept(p99 < Duration::from_millis(100), &closed, &format!("p99 {p99}"));
}

/// The coordinated-omission test: one request stalls the server for 300 ms. Those planned for that
/// time are sent all the same, and their response times show the wait.
#[test]
fn a_stalled_server_does_not_slow_the_schedule_nor_hide_behind_it() {
    let turn = Arc::new(Mutex::new(0));
    let server = Server::start(move |_, mut stream| {
        while read_request(&mut stream) {
            let mut served = turn.lock().unwrap();
            *served += 1;
            if *served == 20 {
                std::thread::sleep(std::time::Duration::from_millis(300));
            }
            drop(served);
            if stream.write_all(EMPTY).is_err() {
                break;
            }
        }
    });
    let plan = LoadPlan::open(&server.url(), Rate::per_sec(100), Until::Requests(60)).unwrap();
    let record = run(&plan);
    assert_eq!(record.outcomes.ok, 60);
    assert!(record.response.max >= Duration::from_millis(300), "{}", record.response.max);
    // Thirty requests were planned into the stall; they waited 300, 290, ... 10 ms.
    assert!(record.response.p90 >= Duration::from_millis(150), "p90 {}", record.response.p90);
    let (lag, elapsed) = (record.lag.p95, record.elapsed);
    let is_prompt = lag < Duration::from_millis(100) && elapsed < Duration::from_millis(900);
    assert_or_kept(is_prompt, &record, &format!("lag p95 {lag}, elapsed {elapsed}"));
}

#[test]
fn a_generator_at_its_limit_shows_it_in_the_lag() {
    let server = Server::answering(EMPTY);
    let plan = LoadPlan::open(&server.url(), Rate::per_sec(100), Until::Requests(70)).unwrap();
    // The progress callback runs on the generator's own thread: this one holds it up for 100 ms.
    let held = AtomicU64::new(0);
    let hold = |_: &_| {
        held.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(std::time::Duration::from_millis(100));
    };
    let record =
        loadline_load::runtime().unwrap().block_on(loadline_load::run(&plan, hold)).unwrap();
    assert_accounts(&record);
    assert!(held.load(Ordering::Relaxed) >= 1, "once in half a second");
    assert!(record.lag.max >= Duration::from_millis(80), "lag max {}", record.lag.max);
    assert!(record.response.max >= record.lag.max);
    assert!(record.service.max < record.response.max);
    let faults = &record.generator.faults;
    assert!(faults.iter().any(|fault| fault.what.contains("lag's p99")), "{faults:?}");
}

#[test]
fn a_rate_beyond_the_generator_makes_the_run_invalid() {
    let until = Until::Elapsed(Duration::from_millis(20));
    let rate = Rate::per_sec(1_000_000);
    let record = run(&LoadPlan::open(&reserved().to_string(), rate, until).unwrap());
    assert_eq!(record.planned, 20_000, "all are sent, if late");
    let generator = &record.generator;
    assert!(generator.sent_share < 0.9, "{generator:?}");
    assert!(generator.faults[0].what.contains("of the planned rate"), "{generator:?}");
}

#[test]
fn a_user_thinks_between_an_answer_and_its_next_request() {
    let requests = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&requests);
    let server = Server::start(move |user, mut stream| {
        while read_request(&mut stream) {
            noted.lock().unwrap().push((user, Instant::now()));
            if stream.write_all(EMPTY).is_err() {
                break;
            }
        }
    });
    let mut plan = LoadPlan::closed(&server.url(), 3, Until::Requests(5)).unwrap();
    let Pattern::Closed { think, .. } = &mut plan.pattern else { unreachable!() };
    *think = Duration::from_millis(30);
    let record = run(&plan);
    assert_eq!(record.outcomes.ok, 15);
    assert!(record.elapsed >= Duration::from_millis(120), "elapsed {}", record.elapsed);
    // The think time is in no latency, and the generator does not add its own to it.
    let p50 = record.response.p50;
    assert_or_kept(p50 < Duration::from_millis(20), &record, &format!("p50 {p50}"));
    assert_prompt(&record);
    let requests = requests.lock().unwrap();
    for user in 0..3 {
        let own: Vec<_> = requests.iter().filter(|(other, _)| *other == user).collect();
        assert_eq!(own.len(), 5);
        for pair in own.windows(2) {
            let between = pair[1].1.duration_since(pair[0].1);
            assert!(between.as_millis() >= 30, "user {user} thought for {between:?}");
        }
    }
}

#[test]
fn stages_are_sent_as_planned_and_stand_in_the_record() {
    let server = Server::answering(EMPTY);
    let stages = loadline_load::parse_stages("20/s:200ms, ..100/s:500ms").unwrap();
    let timetable = Timetable::stages(stages.clone(), Arrivals::Constant, 0);
    let until = timetable.end().unwrap();
    let pattern = Pattern::Open { timetable, until, max_in_flight: None };
    let record = run(&LoadPlan::new(server.url().parse().unwrap(), pattern));
    // 20/s x 0.2 s + (20/s + 100/s) / 2 x 0.5 s.
    assert_eq!((record.planned, record.outcomes.ok), (34, 34));
    let LoadModel::Open { rate, stages: recorded, .. } = &record.model else { unreachable!() };
    assert_eq!((*rate, recorded), (Rate::milli_per_sec(48_571), &stages));
    let planned: Vec<_> = record.moments.iter().take(7).map(|moment| moment.planned).collect();
    // By the moment k of the ramp, 4 + 2k + 0.8k^2, rounded up.
    assert_eq!(planned, [2, 2, 3, 5, 6, 7, 9]);
}

#[test]
fn a_run_that_is_ended_cuts_off_what_is_under_way_and_plans_no_more() {
    let server = Server::start(|_, mut stream| wait_closed(&mut stream));
    let until = Until::Elapsed(Duration::from_secs(60));
    let plan = LoadPlan::open(&server.url(), Rate::per_sec(100), until).unwrap();
    let soon = async { tokio::time::sleep(std::time::Duration::from_millis(120)).await };
    let begun = Instant::now();
    let record = loadline_load::runtime()
        .unwrap()
        .block_on(loadline_load::measure(&plan, |_| (), soon))
        .unwrap();
    assert_accounts(&record);
    assert!(record.interrupted);
    assert_eq!(record.outcomes.cut_off, record.planned);
    let most = u64::try_from(begun.elapsed().as_millis()).unwrap() / 10 + 2;
    assert!((1..=most).contains(&record.planned), "planned {} of {most}", record.planned);
}

#[test]
fn an_open_loop_uses_few_connections_again_and_again() {
    let server = Server::answering(EMPTY);
    let plan = LoadPlan::open(&server.url(), Rate::per_sec(500), Until::Requests(500)).unwrap();
    assert_eq!(run(&plan).outcomes.ok, 500);
    assert!(server.connections() < 250, "{} connections", server.connections());
}
