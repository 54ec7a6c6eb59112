//! Who is there, and who is elected.

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

use crate::{
    command::cluster,
    edge::{Edge, service},
    etcd::Etcd,
    served::Worker,
};

/// A service of one group that is shared.
fn shared(server: &str) -> String {
    service("web", server) + "max_rate = \"1000/s\"\n"
}

#[test]
fn edges_see_each_other_and_the_oldest_is_elected_until_it_leaves() {
    let (etcd, worker) = (Etcd::start(), Worker::start(&[]));
    let web = shared(&worker.address);
    let mut first = Edge::of(&etcd, "edge-1", "", &web);
    first.edit("lease = \"2s\"", "lease = \"10s\"");
    first.begin();
    first.until(|it| it["joined"] == true && it["elected"] == "edge-1");
    let second = Edge::of(&etcd, "edge-2", "", &web).start();
    second.until(|it| it["edges"] == 2 && it["elected"] == "edge-1");
    first.until(|it| it["edges"] == 2);
    let told = cluster(&second, &["status"]).text;
    for words in ["edge-1", "edge-2", "elected: edge-1", "its own file"] {
        assert!(told.contains(words), "{words} in {told}");
    }
    assert!(first.metrics().contains("loadline_cluster_elected 1"));
    assert!(second.metrics().contains("loadline_cluster_elected 0"));
    let begun = Instant::now();
    first.stop();
    second.until(|it| it["edges"] == 1 && it["elected"] == "edge-2");
    assert!(begun.elapsed().as_secs() < 8, "it need not wait for the end of the lease");
    assert_eq!(second.request(), "200");
}

#[test]
fn the_edge_that_is_shown_as_elected_is_the_one_that_divides_the_capacity_while_it_has_a_lease() {
    let (mut etcd, worker) = (Etcd::start(), Worker::start(&[]));
    let first = Edge::of(&etcd, "edge-1", "", &service("web", &worker.address)).start();
    first.until(|it| it["joined"] == true);
    let second = Edge::of(&etcd, "edge-2", "", &shared(&worker.address)).start();
    second.until(|it| it["elected"] == "edge-2" && it["sharing"]["elected"] == true);
    assert!(second.metrics().contains("\nloadline_cluster_elected 1"));
    let told = cluster(&second, &["status"]).text;
    assert!(told.contains("elected: edge-2"), "{told}");
    assert!(first.cluster()["elected"].is_null());
    assert!(!first.metrics().contains("\nloadline_cluster_elected"));
    etcd.kill();
    second.until(|it| it["elected"].is_null() && it["sharing"]["elected"] == false);
    assert!(second.metrics().contains("\nloadline_cluster_elected 0"));
}

#[test]
fn an_edge_that_is_killed_is_gone_when_its_lease_is_over_and_comes_back_at_once() {
    let (etcd, worker) = (Etcd::start(), Worker::start(&[]));
    let web = service("web", &worker.address);
    let mut first = Edge::of(&etcd, "edge-1", "", &web).start();
    first.until(|it| it["joined"] == true);
    let second = Edge::of(&etcd, "edge-2", "", &web).start();
    second.until(|it| it["edges"] == 2);
    first.kill();
    second.until(|it| it["edges"] == 1);
    first.begin();
    first.until(|it| it["joined"] == true && it["edges"] == 2);
    first.kill();
    // Its key is still there, and it knows that it is its own.
    first.begin();
    first.until(|it| it["joined"] == true);
    first.stop();
    assert!(!first.log().contains("another edge has joined"), "{}", first.log());
}

#[test]
fn an_edge_with_the_name_of_another_is_told_so_and_serves() {
    let (etcd, worker) = (Etcd::start(), Worker::start(&[]));
    let web = service("web", &worker.address);
    let first = Edge::of(&etcd, "edge-1", "", &web).start();
    first.until(|it| it["joined"] == true);
    let second = Edge::of(&etcd, "edge-1", "", &web).start();
    second.until_fault("name");
    assert_eq!(second.request(), "200");
    second.until_logged(&["another edge has joined as `edge-1`"]);
    assert_eq!(first.cluster()["joined"], true);
}

#[test]
fn an_edge_with_the_name_of_another_has_its_floor_alone_until_the_name_is_free() {
    let (etcd, worker) = (Etcd::start(), Worker::start(&[]));
    let web = shared(&worker.address);
    let mut first = Edge::of(&etcd, "edge-1", "", &web).start();
    first.until(|it| it["joined"] == true && it["sharing"]["leased"] == true);
    let second = Edge::of(&etcd, "edge-1", "", &web).start();
    // It has tried again and again, for as long as it takes to get a lease for sharing.
    let told = second.until(|it| it["faults"]["name"].as_u64() >= Some(4));
    assert_eq!(told["sharing"]["leased"], false, "{told:#}");
    let share = told["sharing"]["services"][0]["groups"][0]["share"].as_f64().unwrap();
    assert!((share - 0.01).abs() < 1e-6, "{told:#}");
    let sessions = ["get", "--prefix", "--keys-only", "/loadline/sharing/edges/"];
    let sessions = etcd.control(&sessions);
    assert_eq!(sessions.matches("/loadline/").count(), 1, "{sessions}");
    first.stop();
    second.until(|it| it["joined"] == true && it["sharing"]["leased"] == true);
}

#[test]
fn the_identity_of_a_cluster_is_written_again_where_it_is_removed() {
    let (etcd, worker) = (Etcd::start(), Worker::start(&[]));
    let edge = Edge::of(&etcd, "edge-1", "", &service("web", &worker.address)).start();
    edge.until(|it| it["joined"] == true);
    let identity = || etcd.control(&["get", "/loadline/cluster", "--print-value-only"]);
    let before = identity();
    etcd.control(&["del", "--prefix", "/loadline/"]);
    edge.until(|_| !identity().is_empty());
    assert_eq!(identity(), before);
    edge.until(|it| it["joined"] == true && it["edges"] == 1);
}

#[test]
fn an_edge_goes_on_without_its_store_and_joins_again_when_it_is_back() {
    let (mut etcd, worker) = (Etcd::start(), Worker::start(&[]));
    etcd.kill();
    let mut edge = Edge::of(&etcd, "edge-1", "", &service("web", &worker.address)).start();
    edge.until_fault("unreachable");
    assert_eq!(edge.request(), "200");
    assert!(edge.metrics().contains("loadline_cluster_connected 0"));
    etcd.begin();
    edge.until(|it| it["joined"] == true && it["fault"].is_null());
    etcd.kill();
    edge.until_fault("unreachable");
    assert_eq!(edge.request(), "200");
    etcd.begin();
    edge.until(|it| it["joined"] == true);
    edge.stop();
    let told = edge.log().matches("this edge goes on with what it has").count();
    assert!((2..=4).contains(&told), "not a line for each attempt: {}", edge.log());
}

#[test]
fn an_edge_whose_store_was_away_for_longer_than_its_lease_knows_its_own_name() {
    let (mut etcd, worker) = (Etcd::start(), Worker::start(&[]));
    let mut edge = Edge::of(&etcd, "edge-1", "", &service("web", &worker.address)).start();
    edge.until(|it| it["joined"] == true);
    etcd.kill();
    edge.until_fault("unreachable");
    // The lease is 2 s, by the clock of the edge; the store begins to count anew.
    sleep(Duration::from_secs(3));
    etcd.begin();
    edge.until(|it| it["joined"] == true && it["fault"].is_null());
    edge.stop();
    assert!(!edge.log().contains("another edge has joined"), "{}", edge.log());
}
