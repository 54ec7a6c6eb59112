//! What the access log says of requests for which the cache asks servers.

use std::{
    net::Shutdown,
    sync::{Mutex, mpsc::channel},
    thread,
    time::Duration as StdDuration,
};

use loadline_core::{
    decide::ending::Ending,
    fleet::{AccessLog, Fleet, Group, LogField, LogFormat, LogTarget, Server},
    state::ServiceCounter,
    time::Duration,
};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::{
    HINTS, Origin, Proxy, body, fleet, fresh, get, response, send, status, until_closed, waits,
};

/// The same with a log in JSON in this folder.
fn logging(fleet: Fleet, folder: &TempDir) -> Fleet {
    let target = LogTarget::File(folder.path().join("access.log").display().to_string());
    let fields = vec![LogField::Cache, LogField::OverflowReason];
    let log = AccessLog { format: LogFormat::Json, fields, ..AccessLog::to(target) };
    Fleet { edge: loadline_core::fleet::Edge { access_log: Some(log), ..fleet.edge }, ..fleet }
}

/// Stops the proxy: the lines of its log.
fn lines(proxy: Proxy, folder: &TempDir) -> Vec<Value> {
    proxy.runtime.stop(Duration::from_secs(5));
    written(folder)
}

/// The lines of the log, once the proxy has stopped.
fn written(folder: &TempDir) -> Vec<Value> {
    let log = std::fs::read_to_string(folder.path().join("access.log")).unwrap();
    log.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A server that closes each connection when it has read a request.
fn closing() -> Origin {
    Origin::new(|stream, _, _| drop(stream.shutdown(Shutdown::Both)))
}

#[test]
fn a_fetch_that_fails_is_a_miss_with_its_server_its_retries_and_its_times() {
    let (one, two) = (closing(), closing());
    let folder = tempfile::tempdir().unwrap();
    let mut fleet = logging(fleet(one.address), &folder);
    fleet.services[0].groups[0].servers.push(Server::at(two.address));
    let proxy = Proxy::of(fleet);
    assert!(proxy.get("/a", "").starts_with("HTTP/1.1 502 "));
    proxy.expect(Ending::ServerReset, 1);
    let counters = proxy.runtime.tallies().services["web"].counters;
    assert_eq!((counters[ServiceCounter::CacheMisses], counters[ServiceCounter::Retries]), (1, 1));
    let lines = lines(proxy, &folder);
    let [line] = &lines[..] else { panic!("one line: {lines:?}") };
    assert_eq!((&line["cache"], &line["retries"]), (&"miss".into(), &1.into()), "{line}");
    assert_eq!((&line["group"], &line["ending"]), (&"here".into(), &"server-reset".into()));
    let servers = [one.address, two.address].map(|address| Value::from(address.to_string()));
    assert!(servers.contains(&line["server"]), "{line}");
    assert!(line["queue_ms"].is_number() && line["connect_ms"].is_number(), "{line}");
    assert_eq!(line["first_byte_ms"], Value::Null, "{line}");
}

#[test]
fn a_fetch_for_which_there_is_no_server_is_a_miss_that_has_waited_for_none() {
    let origin = Origin::answering("");
    let folder = tempfile::tempdir().unwrap();
    let mut fleet = logging(fleet(origin.address), &folder);
    fleet.services[0].groups[0].servers.clear();
    let proxy = Proxy::of(fleet);
    assert!(proxy.get("/a", "").starts_with("HTTP/1.1 503 "));
    let lines = lines(proxy, &folder);
    let [line] = &lines[..] else { panic!("one line: {lines:?}") };
    assert_eq!((&line["cache"], &line["server"]), (&"miss".into(), &Value::Null), "{line}");
    assert_eq!(line["queue_ms"], Value::Null, "{line}");
}

#[test]
fn a_request_says_why_its_fetch_went_past_the_nearest_group_and_it_counts_once() {
    let origin = Origin::answering(fresh("far"));
    let folder = tempfile::tempdir().unwrap();
    let mut fleet = logging(fleet(origin.address), &folder);
    let groups = &mut fleet.services[0].groups;
    groups.push(Group {
        name: "far".into(),
        rtt: Some(Duration::from_millis(30)),
        ..groups[0].clone()
    });
    groups[0].servers.clear();
    let proxy = Proxy::of(fleet);
    for _ in 0..2 {
        assert_eq!(body(&proxy.get("/a", "")), "far");
    }
    let counters = proxy.runtime.stop(Duration::from_secs(5)).services["web"].counters;
    assert_eq!(counters[ServiceCounter::Overflowed], 1);
    let lines = written(&folder);
    let of = |cache: &str| lines.iter().find(|line| line["cache"] == cache).unwrap();
    assert_eq!(of("miss")["overflow_reason"], "out");
    assert_eq!(of("hit")["overflow_reason"], Value::Null);
}

#[test]
fn the_wait_for_a_fetch_that_was_for_another_is_no_time_of_connecting() {
    let (tell, told) = channel();
    let told = Mutex::new(told);
    let origin = Origin::new(move |stream, _, number| {
        if number == 0 {
            send(stream, HINTS);
            told.lock().unwrap().recv().unwrap();
        }
        send(stream, response("Cache-Control: no-store\r\n", "mine"));
    });
    let folder = tempfile::tempdir().unwrap();
    let proxy = Proxy::of(logging(fleet(origin.address), &folder));
    let mut first = proxy.begin(&get("/a", ""));
    waits(&mut first);
    let mut second = proxy.begin(&get("/a", ""));
    waits(&mut second);
    // The time that is measured below.
    thread::sleep(StdDuration::from_millis(400));
    tell.send(()).unwrap();
    for (client, why) in [(&mut first, "fwd=uri-miss"), (&mut second, "fwd=miss")] {
        let answer = until_closed(client);
        assert!(status(&answer).contains(why), "{answer}");
    }
    let lines = lines(proxy, &folder);
    let passed: Vec<&Value> = lines.iter().filter(|line| line["cache"] == "bypass").collect();
    let [line] = passed[..] else { panic!("one of two: {lines:?}") };
    let time = |key: &str| line[key].as_f64().unwrap();
    let phases = time("queue_ms") + time("connect_ms") + time("first_byte_ms");
    assert!(time("queue_ms") >= 400.0 && phases <= time("total_ms") + 1.0, "{line}");
}
