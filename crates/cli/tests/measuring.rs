//! What a measurement must not hide: the binary beside wrk and beside the server's own record.
#![expect(clippy::unwrap_used, reason = "a test helper fails the test it helps")]

mod served;

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    process::Command,
    thread,
};

use loadline_measure::record::{Document, LoadRecord, Record};

use served::Worker;

/// The worker's own record of its responses.
fn stats(worker: &Worker) -> serde_json::Value {
    let mut stream = TcpStream::connect(&worker.address).unwrap();
    write!(stream, "GET /stats HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

fn bench(args: &[&str]) -> LoadRecord {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loadline"));
    let output = command.arg("bench").args(args).args(["--json", "--quiet"]).output().unwrap();
    let document = Document::read(&output.stdout).unwrap();
    let Record::Load(record) = document.record else { panic!("a load record is expected") };
    record
}

/// The p99 that wrk prints, in milliseconds, and how many time-outs it counts.
fn wrk(url: &str) -> (f64, u64) {
    let args = ["-t1", "-c8", "-d10s", "--latency", url];
    let output = Command::new("wrk").args(args).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let p99 = text.lines().find_map(|line| line.trim().strip_prefix("99%")).unwrap().trim();
    let digits = p99.trim_end_matches(char::is_alphabetic);
    let unit = match &p99[digits.len()..] {
        "us" => 1e-3,
        "ms" => 1.0,
        _ => 1e3,
    };
    let timeouts = text.split("timeout ").nth(1).map_or("0", |rest| rest.lines().next().unwrap());
    (digits.parse::<f64>().unwrap() * unit, timeouts.parse().unwrap())
}

#[test]
fn a_stall_of_two_seconds_shows_in_the_p99_and_not_in_that_of_wrk() {
    let stalling =
        ["--cores", "8", "--service-time", "4ms", "--stall", "2s", "--stall-after", "4s"];
    let (ours, theirs) = (Worker::start(&stalling), Worker::start(&stalling));
    let (record, (wrk_p99, timeouts)) = thread::scope(|scope| {
        let wrk = scope.spawn(|| wrk(&format!("http://{}/", theirs.address)));
        let record = bench(&[&ours.address, "--rate", "1000", "--duration", "10s"]);
        (record, wrk.join().unwrap())
    });
    assert_eq!(record.outcomes.ok, 10_000);
    assert!(record.response.p99.as_millis_f64() > 1_500.0, "{:?}", record.response);
    // It leaves out of its percentiles what took longer than its time-out, 2 s.
    assert!(wrk_p99 < 1_500.0, "wrk says {wrk_p99} ms, {timeouts} time-outs");
    assert_eq!(timeouts, 8);
}

#[test]
fn the_p99_agrees_with_the_record_of_the_server() {
    let worker = Worker::start(&["--cores", "4", "--service-time", "10ms"]);
    let args = ["--rate", "300", "--arrivals", "poisson", "--requests", "900"];
    let record = bench(&[&[worker.address.as_str()], &args[..]].concat());
    let stats = stats(&worker);
    assert_eq!(stats["time"]["count"], 900);
    assert_eq!(record.outcomes.ok, 900);
    let theirs = stats["time"]["p99_ms"].as_f64().unwrap();
    let ours = record.service.p99.as_millis_f64();
    // The way there and back is not in the server's time; a busy machine makes it longer, and the
    // generator says then that it was kept from its work.
    assert!(theirs >= 10.0 && ours + 0.1 >= theirs, "{ours} ms here, {theirs} ms there");
    if ours >= theirs + 10.0 {
        let faults = &record.generator.faults;
        assert!(!faults.is_empty(), "{ours} ms here, {theirs} ms there");
        println!("not judged, {ours} ms here, {theirs} ms there: {faults:?}");
    }
}
