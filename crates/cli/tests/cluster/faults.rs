//! What goes wrong with a store: each has a message, a metric, and requests are answered.

use std::{fs, path::Path, time::Duration};

use crate::{
    certificates,
    command::{cluster, publish},
    edge::{Edge, service},
    etcd::Etcd,
    served::Worker,
    traffic::{Demand, Server},
};

/// Waits for this fault of the edge, of which the log has to say this, and has a request answered.
fn assert_told(edge: &Edge, kind: &str, words: &[&str]) {
    assert_said(edge, kind, words);
    assert_eq!(edge.request(), "200");
}

/// Waits for this fault of the edge, of which the log has to say this.
fn assert_said(edge: &Edge, kind: &str, words: &[&str]) {
    edge.until_fault(kind);
    edge.until_logged(words);
    let sample = format!("loadline_cluster_faults_total{{kind=\"{kind}\"}} ");
    assert!(edge.metrics().contains(&sample));
}

const NO_VERSION: &str = "is not the number of a version";

fn user(folder: &Path, password: &str) -> String {
    let file = folder.join("password");
    fs::write(&file, password).unwrap();
    format!("user = \"loadline\"\npassword_file = {file:?}")
}

#[test]
fn a_wrong_password_is_told_and_the_right_one_is_taken() {
    let (etcd, worker) = (Etcd::start(), Worker::start(&[]));
    etcd.ask_for_passwords("readwrite", "/loadline/");
    let web = service("web", &worker.address);
    let wrong = user(etcd.folder(), "guessed");
    let edge = Edge::of(&etcd, "edge-1", &wrong, &web).start();
    assert_told(&edge, "denied", &["invalid user ID or password", "`password_file`"]);
    user(etcd.folder(), "password\n");
    edge.until(|it| it["joined"] == true && it["fault"].is_null());
}

#[test]
fn a_store_that_begins_to_ask_for_a_user_is_told_of_and_capacity_is_shared_again_after_it() {
    let (etcd, server) = (Etcd::start(), Server::start(Duration::ZERO));
    let web = service("web", &server.address) + "max_rate = \"100/s\"\n";
    let edge = Edge::of(&etcd, "edge-1", "when_away = \"keep\"", &web).start();
    edge.until(|it| it["sharing"]["leased"] == true);
    let _demand = Demand::begin(&edge.traffic, 2, 20);
    etcd.ask_for_passwords("readwrite", "/loadline/");
    // What two that ask all the time leave of its share may be nothing.
    assert_said(&edge, "denied", &["user name is empty", "`password_file`"]);
    edge.until(|it| it["sharing"]["leased"] == false && it["fault"]["kind"] == "denied");
    etcd.control(&["--user", "root:rootword", "auth", "disable"]);
    edge.until(|it| it["sharing"]["leased"] == true && it["fault"].is_null());
    let told = edge.log().matches("user name is empty; this edge").count();
    assert!((1..=2).contains(&told), "not a line for each attempt: {}", edge.log());
}

#[test]
fn a_prefix_that_the_user_may_not_use_is_told() {
    let (etcd, worker) = (Etcd::start(), Worker::start(&[]));
    etcd.ask_for_passwords("readwrite", "/loadline/");
    let cluster = user(etcd.folder(), "password") + "\nprefix = \"/others/\"";
    let edge = Edge::of(&etcd, "edge-1", &cluster, &service("web", &worker.address)).start();
    assert_told(&edge, "denied", &["permission denied", "`prefix`"]);
}

#[test]
fn a_store_that_may_only_be_read_still_brings_what_is_published() {
    let (etcd, worker) = (Etcd::start(), Worker::start(&[]));
    let edge = Edge::of(&etcd, "edge-1", &user(etcd.folder(), "password"), "");
    publish(&edge, &service("web", &worker.address));
    etcd.ask_for_passwords("read", "/loadline/");
    let edge = edge.start();
    assert_told(&edge, "denied", &["permission denied"]);
    let state = edge.until(|it| it["published"] == 1);
    assert_eq!((&state["configuration"], &state["joined"]), (&1.into(), &false.into()));
}

#[test]
fn a_store_with_a_certificate_that_is_old_or_of_strangers_is_not_spoken_to() {
    let (folder, strangers) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let worker = Worker::start(&[]);
    certificates::write(strangers.path(), false);
    let file = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let options = [
        format!("--cert-file={}", file("server.pem")),
        format!("--key-file={}", file("server.key")),
    ];
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let web = service("web", &worker.address);
    let trusting = |folder: &Path| format!("ca = {:?}", folder.join("ca.pem"));

    certificates::write(folder.path(), true);
    let old = Etcd::with("https", &options);
    let edge = Edge::of(&old, "edge-1", &trusting(folder.path()), &web).start();
    assert_told(&edge, "tls", &["xpired", "see `ca`"]);
    drop(old);

    certificates::write(folder.path(), false);
    let etcd = Etcd::with("https", &options);
    let edge = Edge::of(&etcd, "edge-1", &trusting(strangers.path()), &web).start();
    assert_told(&edge, "tls", &["invalid peer certificate"]);
    let edge = Edge::of(&etcd, "edge-2", &trusting(folder.path()), &web).start();
    edge.until(|it| it["joined"] == true);
}

#[test]
fn a_store_that_wants_a_certificate_of_edges_takes_theirs_and_no_edge_without() {
    let (folder, worker) = (tempfile::tempdir().unwrap(), Worker::start(&[]));
    certificates::write(folder.path(), false);
    let file = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let options = [
        format!("--cert-file={}", file("server.pem")),
        format!("--key-file={}", file("server.key")),
        format!("--trusted-ca-file={}", file("ca.pem")),
        "--client-cert-auth".to_owned(),
    ];
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let etcd = Etcd::with("https", &options);
    let web = service("web", &worker.address);
    let ca = format!("ca = {:?}\n", file("ca.pem"));
    let own = format!(
        "{ca}certificate = {{ chain = {:?}, key = {:?} }}",
        file("edge.pem"),
        file("edge.key")
    );
    let edge = Edge::of(&etcd, "edge-1", &own, &web).start();
    edge.until(|it| it["joined"] == true);
    let stranger = Edge::of(&etcd, "edge-2", &ca, &web).start();
    stranger.until(|it| !it["fault"].is_null());
    assert_eq!((stranger.request(), edge.cluster()["edges"].clone()), ("200".into(), 1.into()));
}

#[test]
fn two_clusters_on_one_prefix_by_accident_are_kept_apart() {
    let (etcd, worker) = (Etcd::start(), Worker::start(&[]));
    let shop = Edge::of(&etcd, "shop-1", "", &service("web", &worker.address)).start();
    shop.until(|it| it["joined"] == true);
    let mail = Edge::of(&etcd, "mail-1", "", &service("mail", &worker.address));
    mail.edit("service = \"web\"", "service = \"mail\"");
    let mail = mail.start();
    assert_told(&mail, "foreign", &["belong to another cluster", "`web`", "`mail`", "`prefix`"]);
    let named = Edge::of(&etcd, "shop-2", "id = \"bank\"", &service("web", &worker.address));
    let named = named.start();
    assert_told(&named, "foreign", &["this edge is one of `bank`"]);
    assert_eq!(shop.cluster()["edges"], 1);
}

#[test]
fn a_store_that_is_full_is_told_and_edges_that_were_there_stay() {
    let (etcd, worker) =
        (Etcd::with("http", &["--quota-backend-bytes=3000000"]), Worker::start(&[]));
    let web = service("web", &worker.address);
    let first = Edge::of(&etcd, "edge-1", "", &web).start();
    first.until(|it| it["joined"] == true);
    fill(&etcd);
    let second = Edge::of(&etcd, "edge-2", "", &web).start();
    assert_told(&second, "full", &["space exceeded", "alarm disarm"]);
    let told = publish(&first, &web.replace("web", "more"));
    assert_ne!(told.code, Some(0), "{}", told.text);
    assert!(cluster(&first, &["status"]).text.contains("NOSPACE"));
    assert_eq!((first.request(), first.cluster()["joined"].clone()), ("200".into(), true.into()));
    etcd.control(&["del", "--prefix", "fill"]);
    let found = etcd.control(&["get", "none", "-w", "json"]);
    let found: serde_json::Value = serde_json::from_str(&found).unwrap();
    etcd.control(&["compact", &found["header"]["revision"].to_string()]);
    etcd.control(&["defrag"]);
    etcd.control(&["alarm", "disarm"]);
    second.until(|it| it["joined"] == true && it["fault"].is_null());
}

/// Writes until etcd takes no more.
fn fill(etcd: &Etcd) {
    let value = "x".repeat(100_000);
    for nth in 0..100 {
        let key = format!("fill{nth}");
        let done = std::process::Command::new("etcdctl")
            .env("ETCDCTL_API", "3")
            .args(["--endpoints", &etcd.url(), "put", &key, &value])
            .output()
            .unwrap();
        if !done.status.success() {
            return;
        }
    }
    panic!("etcd takes ten megabytes");
}

#[test]
fn a_value_that_nobody_can_read_changes_nothing_and_is_told() {
    let (etcd, worker) = (Etcd::start(), Worker::start(&[]));
    let edge = Edge::of(&etcd, "edge-1", "", "");
    publish(&edge, &service("web", &worker.address));
    let edge = edge.start();
    edge.until(|it| it["configuration"] == 1 && it["joined"] == true);
    etcd.control(&["put", "/loadline/configuration/current", "seven"]);
    etcd.control(&["put", "/loadline/members/edge-9", "{"]);
    let told = ["`/loadline/members/edge-9` holds something that is not a member", NO_VERSION];
    edge.until_logged(&told);
    assert_told(&edge, "value", &told);
    assert_eq!(edge.cluster()["configuration"], 1);
    let told = cluster(&edge, &["status"]).text;
    assert!(told.contains("unreadable: the key `/loadline/members/edge-9`"), "{told}");
    let told = publish(&edge, &service("web", "127.0.0.1:1"));
    assert_eq!(told.code, Some(2), "{}", told.text);
    let remedy = "`etcdctl del /loadline/configuration/current`";
    assert!(told.text.contains(remedy), "{}", told.text);
    etcd.control(&["put", "/loadline/configuration/current", "8"]);
    edge.until(|it| it["refused"].is_string());
    etcd.control(&["put", "/loadline/configuration/current", "1"]);
    etcd.control(&["del", "/loadline/members/edge-9"]);
    edge.until(|it| it["refused"].is_null() && it["fault"].is_null());
    assert_eq!(edge.request(), "200");
}
