//! One certificate of several edges: one of them asks, all show it. Each edge has an address of its
//! own, and the name server says which of them the authority asks.

use std::{
    fs,
    process::Command,
    thread::sleep,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use serde_json::{Value, json};

use crate::{edge::Edge, etcd::Etcd, pebble::Pebble};

const NONE: &[(&str, &str)] = &[("PEBBLE_WFE_NONCEREJECT", "0")];
const NAMES: &str = "names = [\"a.test\"]\nemail = \"you@example.com\"";

/// Edges 1 to `COUNT`, started at the same time.
fn start<const COUNT: usize>(etcd: &Etcd, pebble: &Pebble, in_clear: bool) -> [Edge; COUNT] {
    let mut nth = 0;
    let mut edges = [(); COUNT].map(|()| {
        nth += 1;
        Edge::of_cluster(nth, etcd, pebble, NAMES, in_clear)
    });
    edges.iter_mut().for_each(Edge::begin);
    edges
}

/// Where something of `a.test` is in the store.
fn key(pebble: &Pebble, kind: &str) -> String {
    let directory = pebble.directory();
    let issuer = directory.trim_start_matches("https://").replace([':', '/'], "-");
    format!("/loadline/acme/{kind}/{issuer}/a.test")
}

fn stored(etcd: &Etcd, pebble: &Pebble, kind: &str) -> Value {
    let text = etcd.control(&["get", "--print-value-only", &key(pebble, kind)]);
    serde_json::from_str(&text).unwrap_or_default()
}

fn until<T>(what: &str, found: impl Fn() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(40);
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what}");
        sleep(Duration::from_millis(20));
    }
}

/// Waits until all edges show the same, which is not `before`; it.
fn until_all_serve<const COUNT: usize>(edges: &[Edge; COUNT], before: Option<&str>) -> String {
    let mut shown = edges.iter().map(|edge| {
        let pem = until("a certificate", || {
            edge.certificate("a.test").filter(|pem| Some(&**pem) != before)
        });
        until("it is shown", || edge.request("a.test").status.success().then_some(()));
        pem
    });
    let first = shown.next().unwrap();
    assert!(shown.all(|pem| pem == first), "one certificate for all");
    first
}

#[test]
fn two_edges_that_start_at_once_make_one_order_and_a_third_asks_nobody() {
    let (etcd, pebble) = (Etcd::start(), Pebble::start(NONE, &json!({})));
    let edges = start::<2>(&etcd, &pebble, true);
    let pem = until_all_serve(&edges, None);
    assert_eq!((pebble.orders(), pebble.accounts()), (1, 1), "{}", pebble.log());
    let issued = |edge: &Edge| edge.acme()[0]["issued"].as_u64().unwrap();
    let all_issued = || edges.iter().map(issued).sum::<u64>();
    until("it is counted", || (all_issued() > 0).then_some(()));
    assert_eq!(all_issued(), 1);
    let by = stored(&etcd, &pebble, "certificates")["certificate"]["issued_by"].clone();
    for edge in &edges {
        let acme = edge.until(1, |it| it["asking"].is_null());
        assert_eq!((&acme[0]["issued_by"], &acme[0]["fault"]), (&by, &Value::Null));
        assert!(edge.get("/metrics").contains("loadline_acme_last_issued_timestamp_seconds{"));
    }
    let told = edges[0].cluster_status();
    assert!(told.contains("a.test: issued") && told.contains(by.as_str().unwrap()), "{told}");
    let mut third = Edge::of_cluster(3, &etcd, &pebble, NAMES, true);
    third.begin();
    let third = [third];
    assert_eq!(until_all_serve(&third, None), pem);
    assert_eq!((pebble.orders(), &third[0].acme()[0]["issued"]), (1, &json!(0)));

    // Renewal, which is weeks away: the authority wants it now, and is asked when.
    pebble.suggest_renewal(&pem);
    let mut record = until("it was asked when to renew", || {
        let record = stored(&etcd, &pebble, "certificates");
        (record["certificate"]["ask_s"].as_u64() > Some(0)).then_some(record)
    });
    record["not_before_s"] = json!(0);
    record["certificate"]["ask_s"] = json!(0);
    etcd.control(&["put", &key(&pebble, "certificates"), &record.to_string()]);
    let renewed = until_all_serve(&edges, Some(&pem));
    assert_eq!(until_all_serve(&third, Some(&pem)), renewed);
    assert_eq!((pebble.orders(), pebble.accounts()), (2, 1), "{}", pebble.log());
}

#[test]
fn the_authority_may_ask_an_edge_that_has_not_asked_it() {
    for in_clear in [true, false] {
        let (etcd, pebble) = (Etcd::start(), Pebble::start(NONE, &json!({})));
        // Nobody has the lock before the second edge is held.
        let [lock, held] = [key(&pebble, "locks"), r#"{"edge":"test","since_s":0}"#.to_owned()];
        etcd.control(&["put", &lock, &held]);
        pebble.lead("a.test", "127.0.0.2");
        let edges = start::<2>(&etcd, &pebble, in_clear);
        for edge in &edges {
            edge.until(1, |it| it["asking"]["edge"] == "test");
        }
        edges[1].signal("-STOP");
        etcd.control(&["del", &lock]);
        edges[0].until(1, |it| it["asking"]["edge"] == "edge-1");
        edges[1].signal("-CONT");
        until_all_serve(&edges, None);
        let by = stored(&etcd, &pebble, "certificates")["certificate"]["issued_by"].clone();
        assert_eq!((pebble.orders(), by), (1, json!("edge-1")), "{}", edges[0].log());
        let failures = |edge: &Edge| edge.acme()[0]["failures"].clone();
        assert_eq!(edges.each_ref().map(failures), [0, 0], "{}", edges[0].log());
    }
}

#[test]
fn an_order_of_an_edge_that_is_killed_is_ended_by_another() {
    let (etcd, pebble) = (Etcd::start(), Pebble::start(NONE, &json!({})));
    let mut edges = start::<2>(&etcd, &pebble, true);
    let asking = until("a lock", || {
        let lock = stored(&etcd, &pebble, "locks");
        lock["edge"].as_str().map(str::to_owned)
    });
    let (asks, other) = if asking == "edge-1" { (0, 1) } else { (1, 0) };
    pebble.lead("a.test", &format!("127.0.0.{}", other + 1));
    let order = until("an order", || {
        let record = stored(&etcd, &pebble, "certificates");
        record["order"]["url"].as_str().map(str::to_owned)
    });
    edges[asks].kill();
    assert_eq!(stored(&etcd, &pebble, "certificates")["certificate"], Value::Null, "in the middle");
    edges[other].until(1, |it| it["issued"] == 1);
    edges[other].serves("a.test");
    edges[other].until_logged(&["an order is resumed", &order]);
    assert_eq!(pebble.orders(), 1, "{}", pebble.log());
    edges[asks].begin();
    until_all_serve(&edges, None);
    assert_eq!(pebble.orders(), 1);
}

#[test]
fn edges_without_their_store_show_what_they_have_and_order_nothing() {
    let (mut etcd, pebble) = (Etcd::start(), Pebble::start(NONE, &json!({})));
    let mut edges = start::<2>(&etcd, &pebble, true);
    let pem = until_all_serve(&edges, None);
    etcd.kill();
    edges.iter().for_each(|edge| edge.serves("a.test"));
    // One that starts meanwhile has a copy, and one without a certificate waits.
    edges[0].kill();
    edges[1].kill();
    fs::remove_file(edges[1].state().join("a.test.pem")).unwrap();
    edges.iter_mut().for_each(Edge::begin);
    edges[0].serves("a.test");
    sleep(Duration::from_secs(2));
    assert!(!edges[1].request("a.test").status.success());
    assert_eq!(pebble.orders(), 1, "nobody orders without the store");
    etcd.begin();
    assert_eq!(until_all_serve(&edges, None), pem);
    assert_eq!(pebble.orders(), 1);
}

/// Puts a certificate for `a.test` from ten days ago into the state directory of an edge that does
/// not run.
fn put_certificate(edge: &Edge, pebble: &Pebble, days_left: u64) -> String {
    let key_pair = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(["a.test".to_owned()]).unwrap();
    let days = |days| Duration::from_secs(86_400 * days);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    (params.not_before, params.not_after) =
        (epoch + (now - days(10)), epoch + (now + days(days_left)));
    let pem = key_pair.serialize_pem() + &params.self_signed(&key_pair).unwrap().pem();
    let issuer = key(pebble, "certificates").split('/').nth(4).unwrap().to_owned();
    let folder = edge.folder().join("state").join(issuer);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("a.test.pem"), &pem).unwrap();
    pem
}

#[test]
fn a_certificate_that_an_edge_has_had_alone_becomes_that_of_all() {
    let (etcd, pebble) = (Etcd::start(), Pebble::start(NONE, &json!({})));
    let mut edges = [1, 2].map(|nth| Edge::of_cluster(nth, &etcd, &pebble, NAMES, true));
    let pem = put_certificate(&edges[0], &pebble, 80);
    // Of two that start at once the other may ask first.
    edges[0].begin();
    until("it is everybody's", || {
        let record = stored(&etcd, &pebble, "certificates");
        record["certificate"].is_object().then_some(())
    });
    edges[1].begin();
    let taken = until("it is taken over", || edges[1].certificate("a.test"));
    assert_eq!((taken, pebble.orders()), (pem, 0), "{}", edges[1].log());
}

#[test]
fn a_certificate_that_ends_soon_while_the_store_is_away_is_told_of_loudly() {
    let (mut etcd, pebble) = (Etcd::start(), Pebble::start(NONE, &json!({})));
    etcd.kill();
    let mut edge = Edge::of_cluster(1, &etcd, &pebble, NAMES, true);
    put_certificate(&edge, &pebble, 1);
    edge.begin();
    let told = "ERROR";
    until(told, || {
        let log = edge.log();
        (log.contains(told) && log.contains("ends soon, and is not renewed")).then_some(())
    });
    assert_eq!(pebble.orders(), 0);
}

#[test]
fn with_storage_on_disk_each_edge_asks_for_itself() {
    let (etcd, pebble) = (Etcd::start(), Pebble::start(NONE, &json!({})));
    let names = format!("{NAMES}\nstorage = \"disk\"");
    let mut edge = Edge::of_cluster(1, &etcd, &pebble, &names, true);
    edge.begin();
    edge.until(1, |it| it["issued"] == 1);
    assert_eq!(stored(&etcd, &pebble, "certificates"), Value::Null);
    assert!(edge.state().join("account.json").exists());
}

impl Edge {
    /// What `loadline cluster status` says of its cluster.
    fn cluster_status(&self) -> String {
        let file = self.folder().join("edge.toml");
        let mut command = Command::new(env!("CARGO_BIN_EXE_loadline"));
        let output = command.args(["cluster", "status", "--edge"]).arg(file).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}
