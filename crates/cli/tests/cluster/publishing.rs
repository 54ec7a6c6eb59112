//! A configuration that is published to all edges.

use crate::{
    command::{cluster, publish},
    edge::{Edge, service},
    etcd::Etcd,
    served::Worker,
};

#[test]
fn what_is_published_runs_at_every_edge_and_is_rolled_back_by_one_command() {
    let (etcd, worker) = (Etcd::start(), Worker::start(&[]));
    let web = service("web", &worker.address);
    let first = Edge::of(&etcd, "edge-1", "", "");
    let told = publish(&first, &web);
    assert!(told.code == Some(0) && told.text.contains("published version 1"), "{}", told.text);
    let first = first.start();
    let second = Edge::of(&etcd, "edge-2", "", "").start();
    for edge in [&first, &second] {
        edge.until(|it| it["configuration"] == 1 && it["joined"] == true);
        assert_eq!(edge.request(), "200");
    }
    first.until(|it| it["edges"] == 2);
    let told = publish(&second, &web.replace("[service.web]", "[service.web]\nprewarm = 1"));
    assert_eq!(told.code, Some(0), "{}", told.text);
    assert!(told.text.contains("edge-1: runs it\nedge-2: runs it"), "{}", told.text);
    let told = cluster(&first, &["rollback"]);
    assert!(told.text.contains("version 1 is in force again\nedge-1: runs it"), "{}", told.text);
    for edge in [&first, &second] {
        edge.until_runs(1);
        assert_eq!(edge.request(), "200");
    }
    let told = cluster(&first, &["rollback", "7"]);
    assert!(told.text.contains("there is no version 7; there are: 1, 2"), "{}", told.text);
    let told = cluster(&first, &["status", "--json"]).text;
    let status: serde_json::Value = serde_json::from_str(&told).unwrap();
    assert_eq!((&status["current"], &status["edges"][1]["configuration"]), (&1.into(), &1.into()));
}

#[test]
fn a_rollback_goes_back_to_what_ran_and_not_to_what_was_rolled_back_from() {
    let etcd = Etcd::start();
    let edge = Edge::of(&etcd, "edge-1", "", "");
    let web = service("web", "127.0.0.1:1");
    let rolled_back = || cluster(&edge, &["rollback"]).text;
    assert_eq!(publish(&edge, &web).code, Some(0));
    for _ in 0..2 {
        assert_eq!(publish(&edge, &format!("# another\n{web}")).code, Some(0));
        let told = rolled_back();
        assert!(told.contains("version 1 is in force again"), "{told}");
    }
}

#[test]
fn a_file_that_is_wrong_is_not_published_and_its_place_is_told() {
    let etcd = Etcd::start();
    let edge = Edge::of(&etcd, "edge-1", "", "");
    let told = publish(&edge, "[service.web]\npolici = \"random\"\n");
    assert_eq!(told.code, Some(1), "{}", told.text);
    assert!(told.text.contains("site.toml:2") && told.text.contains("policy"), "{}", told.text);
    let own = service("web", "127.0.0.1:1") + "[edge]\nthreads = 1\n";
    let told = publish(&edge, &own);
    assert_eq!(told.code, Some(1), "{}", told.text);
    assert!(told.text.contains("it is each edge's own"), "{}", told.text);
    assert_eq!(etcd.control(&["get", "--prefix", "/loadline/", "--keys-only"]), "");
}

#[test]
fn an_edge_that_cannot_run_what_was_published_goes_on_and_says_why() {
    let (etcd, worker) = (Etcd::start(), Worker::start(&[]));
    let first = Edge::of(&etcd, "edge-1", "", "");
    publish(&first, &service("web", &worker.address));
    let first = first.start();
    let second = Edge::of(&etcd, "edge-2", "", &service("mail", &worker.address)).start();
    second.until(|it| it["configuration"] == 1 && it["edges"] == 2);
    let both = service("web", &worker.address) + &service("mail", &worker.address);
    let told = publish(&first, &both);
    assert_eq!(told.code, Some(3), "{}", told.text);
    assert!(told.text.contains("edge-1: runs it\nedge-2: refused it: "), "{}", told.text);
    let state = second.until(|it| it["refused"].is_string());
    assert_eq!(state["configuration"], 1);
    assert!(state["refused"].as_str().unwrap().contains("mail"), "{state:#}");
    assert!(second.metrics().contains("loadline_cluster_configuration_refused_total 1"));
    for edge in [&first, &second] {
        assert_eq!(edge.request(), "200");
    }
    let told = cluster(&first, &["status"]).text;
    assert!(told.contains("refused version 2: "), "{told}");
    assert_eq!(cluster(&first, &["rollback"]).code, Some(0));
    second.until(|it| it["refused"].is_null() && it["published"] == 1);
}

#[test]
fn an_edge_starts_with_what_it_had_while_the_store_is_away() {
    let (mut etcd, worker) = (Etcd::start(), Worker::start(&[]));
    let web = service("web", &worker.address);
    let mut edge = Edge::of(&etcd, "edge-1", "", "");
    publish(&edge, &web);
    edge.begin();
    edge.until(|it| it["configuration"] == 1 && it["joined"] == true);
    let told = publish(&edge, &format!("# two\n{web}"));
    assert_eq!(told.code, Some(0), "{}", told.text);
    edge.stop();
    etcd.kill();
    edge.begin();
    assert_eq!(edge.request(), "200");
    edge.until_runs(2);
    etcd.begin();
    assert_eq!(cluster(&edge, &["rollback"]).code, Some(0));
    edge.until_runs(1);
}

#[test]
fn an_edge_takes_what_a_new_store_has_although_its_number_is_that_of_what_it_runs() {
    let (old, new, worker) = (Etcd::start(), Etcd::start(), Worker::start(&[]));
    let web = service("web", &worker.address);
    let mut edge = Edge::of(&old, "edge-1", "", "");
    publish(&edge, &web);
    edge.begin();
    edge.until(|it| it["configuration"] == 1 && it["joined"] == true);
    edge.stop();
    edge.edit(&old.url(), &new.url());
    let told = publish(&edge, &(web + &service("mail", &worker.address)));
    assert!(told.text.contains("published version 1"), "{}", told.text);
    edge.begin();
    edge.until(|it| it["joined"] == true);
    edge.until(|_| edge.state()["services"].as_array().is_some_and(|all| all.len() == 2));
    edge.until(|_| cluster(&edge, &["status"]).text.contains("  version 1\n"));
}

#[test]
fn what_is_published_to_a_store_that_has_lost_its_data_runs_at_every_edge_and_has_a_new_number() {
    let (etcd, worker) = (Etcd::start(), Worker::start(&[]));
    let web = service("web", &worker.address);
    let edge = Edge::of(&etcd, "edge-1", "", "");
    publish(&edge, &web);
    let edge = edge.start();
    edge.until(|it| it["configuration"] == 1 && it["joined"] == true);
    etcd.control(&["del", "--prefix", "/loadline/"]);
    let members = ["get", "--prefix", "/loadline/members/", "--keys-only"];
    edge.until(|_| !etcd.control(&members).is_empty());
    let told = publish(&edge, &(web + &service("mail", &worker.address)));
    assert!(told.text.contains("published version 2"), "{}", told.text);
    assert!(told.text.contains("edge-1: runs it"), "{}", told.text);
    assert_eq!(edge.state()["services"].as_array().map(Vec::len), Some(2));
}

#[test]
fn an_edge_that_has_nothing_to_run_says_what_would_help() {
    let etcd = Etcd::start();
    let edge = Edge::of(&etcd, "edge-1", "", "");
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_loadline"))
        .arg("serve")
        .arg(&edge.file)
        .output()
        .unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("loadline cluster publish FILE"), "{told}");
}
