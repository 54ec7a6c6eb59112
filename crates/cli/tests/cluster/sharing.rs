//! What edges give together of groups that have a capacity, through a real etcd.

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{
    command::cluster,
    edge::Edge,
    etcd::Etcd,
    traffic::{Demand, Server},
};

/// A service of one group that is refused what is over this capacity.
fn limited(server: &Server, capacity: &str) -> String {
    format!(
        "[service.web]\nwhen_full = \"shed\"\n[[service.web.group]]\nregion = \"here\"\n\
         servers = [{:?}]\n{capacity}\n",
        server.address
    )
}

fn sharing(etcd: &Etcd, name: &str, cluster: &str, more: &str) -> Edge {
    let cluster = format!("floor = \"5%\"\nmax_edges = 2\n{cluster}");
    Edge::of(etcd, name, &cluster, more).start()
}

/// What it may use of the only group.
fn share(cluster: &Value) -> f64 {
    cluster["sharing"]["services"][0]["groups"][0]["share"].as_f64().unwrap_or(-1.0)
}

/// How long it takes until this edge may use so much.
fn until_share(edge: &Edge, least: f64) -> Duration {
    let begun = Instant::now();
    edge.until(|it| share(it) >= least);
    begun.elapsed()
}

const RATE: &str = "max_rate = \"100/s\"\nburst = 10";

/// A second of that rate, its burst, one request for each edge, and one of each of four clients
/// that was let through before and was long on its way.
const MOST: usize = 100 + 10 + 2 + 4;

/// How many requests these clients have had answered.
fn asked(demands: &[&Demand]) -> u64 {
    let sum = |(given, refused): (u64, u64)| given + refused;
    demands.iter().map(|demand| sum(demand.counts())).sum()
}

/// What is due of this rate since then to clients that have asked so often.
fn due(asked: u64, rate: f64, since: Instant) -> f64 {
    (asked as f64).min(rate * since.elapsed().as_secs_f64())
}

/// Two edges that have begun to share a group.
fn two(etcd: &Etcd, server: &Server, cluster: &str, capacity: &str) -> (Edge, Edge) {
    let web = limited(server, capacity);
    let first = sharing(etcd, "edge-1", cluster, &web);
    let second = sharing(etcd, "edge-2", cluster, &web);
    until_both_share(&first, &second);
    (first, second)
}

fn until_both_share(first: &Edge, second: &Edge) {
    for edge in [first, second] {
        edge.until(|it| it["sharing"]["leased"] == true && it["sharing"]["edges"] == 2);
    }
}

#[test]
fn a_rate_is_kept_by_two_edges_together_and_its_shares_follow_demand() {
    let (etcd, server) = (Etcd::start(), Server::start(Duration::ZERO));
    let begun = Instant::now();
    let capacity = "max_rate = \"400/s\"\nburst = 40";
    let (first, second) = two(&etcd, &server, "", capacity);
    let near = Demand::begin(&first.traffic, 2, 180);
    let far = Demand::begin(&second.traffic, 2, 40);
    let at_first = until_share(&first, 0.7);
    sleep(Duration::from_secs(2));
    near.change(40);
    far.change(180);
    let took = until_share(&second, 0.7);
    let most = Duration::from_millis(1_500).max(at_first * 3);
    assert!(took < most, "the share follows after {took:?}, at first after {at_first:?}");
    let (settled, before) = (Instant::now(), asked(&[&near, &far]));
    sleep(Duration::from_secs(3));
    let due = due(asked(&[&near, &far]) - before, 400.0, settled);
    let (given, busiest) = (server.count(settled), server.busiest_second(begun));
    println!("the share followed after {took:?}, {given} of {due}, {busiest} in a second");
    assert!(given as f64 >= 0.9 * due, "{given} of {due}");
    // A second of the rate, the burst, one for each edge, and those that were on their way.
    assert!(busiest <= 400 + 40 + 2 + 4, "{busiest} in a second");
    assert_eq!((near.failed(), far.failed()), (0, 0));
    let told = cluster(&first, &["status"]).text;
    for words in ["web: asked for edge-1 ", "edge-2 ", "  here: edge-1 ", "floors 10.0 %"] {
        assert!(told.contains(words), "{words} in {told}");
    }
    let metrics = second.metrics();
    for words in [
        "loadline_cluster_sharing 1",
        "loadline_cluster_share{service=\"web\",group=\"here\"} 0.",
        "loadline_cluster_demand{service=\"web\"} ",
        "loadline_cluster_mismatch 0",
    ] {
        assert!(metrics.contains(words), "{words} in {metrics}");
    }
    first.until_logged(&["takes part in the sharing of capacity"]);
}

#[test]
fn requests_in_flight_are_kept_by_two_edges_together() {
    let (etcd, server) = (Etcd::start(), Server::start(Duration::from_millis(50)));
    let web = limited(&server, "max_in_flight = 10");
    let first = sharing(&etcd, "edge-1", "", &web);
    let second = sharing(&etcd, "edge-2", "", &web);
    let near = Demand::begin(&first.traffic, 12, 20);
    let far = Demand::begin(&second.traffic, 12, 5);
    until_share(&first, 0.5);
    near.change(5);
    far.change(20);
    until_share(&second, 0.5);
    let most = server.most_in_flight();
    assert!((6..=10).contains(&most), "{most} in flight");
    assert_eq!((near.failed(), far.failed()), (0, 0));
}

#[test]
fn a_small_group_that_nobody_asks_for_is_shared_all_the_same() {
    let server = Server::start(Duration::ZERO);
    for capacity in ["max_rate = \"12/min\"", "max_in_flight = 12"] {
        let etcd = Etcd::start();
        let (first, second) = two(&etcd, &server, "", capacity);
        for edge in [&first, &second] {
            until_share(edge, 0.2);
        }
        let told = cluster(&first, &["status"]).text;
        assert!(told.contains("  here: edge-1 ") && told.contains(" %, free "), "{told}");
        if capacity.contains("in_flight") {
            assert_eq!([first.request(), second.request()], ["200", "200"]);
        }
    }
}

#[test]
fn the_share_of_an_edge_is_free_at_once_when_it_leaves_and_after_its_lease_when_it_is_killed() {
    let (etcd, server) = (Etcd::start(), Server::start(Duration::ZERO));
    let begun = Instant::now();
    let web = limited(&server, RATE);
    // Long beside what a busy machine takes to move shares.
    let edge = |name| {
        let edge = Edge::of(&etcd, name, "floor = \"5%\"\nmax_edges = 2", &web);
        edge.edit("lease = \"2s\"", "lease = \"8s\"");
        edge.start()
    };
    let (first, mut second) = (edge("edge-1"), edge("edge-2"));
    until_both_share(&first, &second);
    let near = Demand::begin(&first.traffic, 2, 60);
    let [left, killed] = [true, false].map(|leaves| {
        let far = Demand::begin(&second.traffic, 2, 60);
        until_share(&second, 0.4);
        second.until(|_| far.counts().0 > 0);
        drop(far);
        if leaves {
            second.stop();
        } else {
            second.kill();
        }
        let took = until_share(&first, 0.85);
        second.begin();
        second.until(|it| it["sharing"]["leased"] == true);
        took
    });
    // The lease, which etcd looks at twice a second, besides a move of shares.
    assert!(left < killed && killed < Duration::from_secs(10) + left * 2, "{left:?}, {killed:?}");
    let busiest = server.busiest_second(begun);
    assert!(busiest <= MOST, "{busiest} in a second");
    assert_eq!(near.failed(), 0);
}

#[test]
fn an_edge_that_is_upgraded_fails_no_request_and_gives_a_group_no_more_than_its_capacity() {
    let (etcd, server) = (Etcd::start(), Server::start(Duration::ZERO));
    let begun = Instant::now();
    let web = limited(&server, RATE);
    let edge = |name| {
        let cluster = "floor = \"5%\"\nmax_edges = 3";
        Edge::of(&etcd, name, cluster, &web)
    };
    let mut first = edge("edge-1");
    first.edit("[admin]", "control = \"control\"\ndrain_timeout = \"5s\"\n[admin]");
    first.begin();
    let second = edge("edge-2").start();
    let near = Demand::begin(&first.traffic, 2, 35);
    let far = Demand::begin(&second.traffic, 2, 5);
    until_share(&first, 0.7);
    let _successor = first.upgrade();
    first.until_ended();
    let took = until_share(&first, 0.7);
    println!("the share is that of the new process after {took:?}");
    let busiest = server.busiest_second(begun);
    assert!(busiest <= MOST + 1, "{busiest} in a second");
    assert_eq!((near.failed(), far.failed()), (0, 0));
    let told = first.cluster();
    assert_eq!(told["sharing"]["edges"], 2, "the process before has left: {told:#}");
}

#[test]
fn edges_without_their_store_use_their_floors_and_no_request_waits_for_it() {
    let (mut etcd, server) = (Etcd::start(), Server::start(Duration::ZERO));
    let begun = Instant::now();
    let (first, second) = two(&etcd, &server, "", RATE);
    let demands = [&first, &second].map(|edge| Demand::begin(&edge.traffic, 1, 90));
    until_share(&first, 0.3);
    etcd.kill();
    for edge in [&first, &second] {
        edge.until(|it| it["sharing"]["leased"] == false && (share(it) - 0.05).abs() < 1e-6);
    }
    for demand in &demands {
        let _ = demand.slowest();
    }
    let alone = Instant::now();
    sleep(Duration::from_secs(3));
    let (given, seconds) = (server.count(alone) as f64, alone.elapsed().as_secs_f64());
    // Twice 5/s, two bursts of one, and what was on its way.
    assert!((20.0..=10.0 * seconds + 4.0).contains(&given), "{given} in {seconds} s");
    for demand in &demands {
        let slowest = demand.slowest();
        assert!(slowest < Duration::from_millis(1_500), "{slowest:?}");
    }
    first.until_logged(&["no lease of the store"]);
    etcd.begin();
    for edge in [&first, &second] {
        until_share(edge, 0.3);
    }
    let demands = demands.each_ref();
    let (settled, before) = (Instant::now(), asked(&demands));
    sleep(Duration::from_secs(2));
    let due = due(asked(&demands) - before, 100.0, settled);
    let (given, busiest) = (server.count(settled), server.busiest_second(begun));
    assert!(given as f64 >= 0.85 * due && busiest <= MOST, "{given} of {due}, {busiest} at most");
    assert!(demands.iter().all(|demand| demand.failed() == 0));
}

#[test]
fn edges_that_keep_what_they_had_go_on_without_their_store() {
    let (mut etcd, server) = (Etcd::start(), Server::start(Duration::ZERO));
    let begun = Instant::now();
    let (first, second) = two(&etcd, &server, "when_away = \"keep\"", RATE);
    let demands = [&first, &second].map(|edge| Demand::begin(&edge.traffic, 1, 70));
    for edge in [&first, &second] {
        until_share(edge, 0.4);
    }
    etcd.kill();
    for edge in [&first, &second] {
        edge.until(|it| it["sharing"]["leased"] == false && share(it) >= 0.4);
    }
    let demands = demands.each_ref();
    let (alone, before) = (Instant::now(), asked(&demands));
    sleep(Duration::from_secs(3));
    let due = due(asked(&demands) - before, 100.0, alone);
    let (given, busiest) = (server.count(alone), server.busiest_second(begun));
    assert!(given as f64 >= 0.8 * due && busiest <= MOST, "{given} of {due}, {busiest} at most");
    assert!(demands.iter().all(|demand| demand.failed() == 0));
}

#[test]
fn an_edge_that_never_saw_its_store_uses_its_floor_from_the_first_request_on() {
    let (mut etcd, server) = (Etcd::start(), Server::start(Duration::ZERO));
    etcd.kill();
    let begun = Instant::now();
    let edge = sharing(&etcd, "edge-1", "when_away = \"keep\"", &limited(&server, RATE));
    let demand = Demand::begin(&edge.traffic, 1, 90);
    sleep(Duration::from_secs(2));
    let (given, seconds) = (server.count(begun) as f64, begun.elapsed().as_secs_f64());
    assert!((5.0..=5.0 * seconds + 2.0).contains(&given), "{given} of 5/s in {seconds} s");
    assert_eq!(demand.failed(), 0);
}

#[test]
fn edges_that_differ_in_their_floors_are_told_and_serve() {
    let (etcd, server) = (Etcd::start(), Server::start(Duration::ZERO));
    let web = limited(&server, RATE);
    let first = sharing(&etcd, "edge-1", "", &web);
    let demand = Demand::begin(&first.traffic, 1, 50);
    until_share(&first, 0.3);
    let second = Edge::of(&etcd, "edge-2", "floor = \"10%\"\nmax_edges = 2", &web).start();
    for edge in [&first, &second] {
        edge.until(|it| it["sharing"]["mismatch"] == true);
        edge.until_logged(&["edges differ in `floor` or `max_edges`"]);
    }
    let metrics = second.metrics();
    assert!(metrics.contains("loadline_cluster_mismatch 1"), "{metrics}");
    assert!(metrics.contains("loadline_cluster_faults_total{kind=\"mismatch\"} 1"), "{metrics}");
    // Its budget begins with nothing, and earns 10 a second.
    second.until(|_| second.request() == "200");
    assert_eq!(demand.failed(), 0);
}

#[test]
fn a_table_that_nobody_can_read_moves_no_share_and_a_new_one_is_begun_when_it_is_removed() {
    let (etcd, server) = (Etcd::start(), Server::start(Duration::ZERO));
    let begun = Instant::now();
    let (first, _second) = two(&etcd, &server, "", RATE);
    let demand = Demand::begin(&first.traffic, 1, 50);
    until_share(&first, 0.3);
    for (value, words) in [
        ("seven", "holds something that is not a table of shares"),
        (TOO_MUCH, "gives more than there is"),
    ] {
        etcd.control(&["put", "/loadline/sharing/shares/web", value]);
        first.until_logged(&[words]);
        let ((given, _), since) = (demand.counts(), Instant::now());
        // With its floor alone that would take six seconds.
        first.until(|_| demand.counts().0 > given + 30);
        let took = since.elapsed();
        assert!(took < Duration::from_secs(4), "it goes on with what it had: {took:?}");
        etcd.control(&["del", "/loadline/sharing/shares/web"]);
        first.until(|it| share(it) < 0.1);
        until_share(&first, 0.3);
    }
    assert!(first.metrics().contains("loadline_cluster_faults_total{kind=\"value\"}"));
    assert_eq!(demand.failed(), 0);
    assert!(server.busiest_second(begun) <= MOST);
}

/// A table with a share of more than the whole.
const TOO_MUCH: &str = r#"{"version":1,"reserved":0,"groups":{"here":[
    {"session":1,"share":1099511627776,"bound":1099511627776,"since":0},
    {"session":2,"share":1099511627776,"bound":1099511627776,"since":0}]}}"#;

#[test]
fn a_store_that_may_only_be_read_is_told_and_leaves_edges_their_floors() {
    let (etcd, server) = (Etcd::start(), Server::start(Duration::ZERO));
    etcd.ask_for_passwords("read", "/loadline/");
    let file = etcd.folder().join("password");
    std::fs::write(&file, "password").unwrap();
    let user = format!("user = \"loadline\"\npassword_file = {file:?}");
    let begun = Instant::now();
    let edge = sharing(&etcd, "edge-1", &user, &limited(&server, RATE));
    let demand = Demand::begin(&edge.traffic, 1, 50);
    edge.until(|it| it["sharing"]["fault"]["kind"] == "denied");
    edge.until_logged(&["capacity is not shared"]);
    assert!(server.busiest_second(begun) <= 7, "its floor");
    assert_eq!(demand.failed(), 0);
}
