//! A hundred thousand requests: nothing is lost, and everybody counts the same.

use serde_json::Value;

use crate::process::{Process, loadline, run};

const REQUESTS: u64 = 100_000;

/// Answers a worker says it gave.
pub(crate) fn answered(worker: &Process) -> u64 {
    let stats = run("curl", &["-s", &worker.url("/stats")]);
    let stats: Value = serde_json::from_slice(&stats.stdout).unwrap();
    stats["answered"].as_u64().unwrap()
}

/// wrk runs for a time, not for a number of requests, and leaves what is under way when its time
/// is up: at most one request a connection. Everything else must agree to the last request.
#[test]
fn a_hundred_thousand_requests_by_wrk_without_an_error() {
    let workers = [Process::fixed(), Process::fixed()];
    let proxy = Process::proxy(&[&workers[0], &workers[1]]);
    let (mut asked, mut runs) = (0, 0);
    while asked < REQUESTS {
        let wrk = run("wrk", &["-t1", "-c64", "-d3s", &proxy.url("/")]);
        let report = String::from_utf8(wrk.stdout).unwrap();
        assert!(!report.contains("Socket errors") && !report.contains("Non-2xx"), "{report}");
        let line = report.lines().find(|line| line.contains(" requests in ")).unwrap();
        asked += line.split_whitespace().next().unwrap().parse::<u64>().unwrap();
        runs += 1;
        assert!(runs <= 20, "{asked} requests in {runs} runs of 3 s");
    }
    let served: u64 = workers.iter().map(answered).sum();
    let ended = proxy.terminate();
    let endings = ended.endings();
    let count = |name: &str| endings.get(name).copied().unwrap_or(0);
    let proxied = count("complete") + count("client-gone");
    assert_eq!(proxied, endings.values().sum::<u64>(), "no other ending: {endings:?}");
    assert_eq!(served, proxied, "servers and proxy");
    assert!(proxied - asked <= 64 * runs, "{proxied} proxied, {asked} counted by wrk");
}

#[test]
fn a_hundred_thousand_requests_by_loadline_bench_and_every_count_agrees() {
    let workers = [Process::fixed(), Process::fixed()];
    let proxy = Process::proxy(&[&workers[0], &workers[1]]);
    let url = proxy.url("/");
    let args = ["bench", &url, "--users", "50", "--requests", "2000", "--json", "--quiet"];
    let bench = loadline(&args).output().unwrap();
    let record: Value = serde_json::from_slice(&bench.stdout).unwrap();
    assert_eq!(record["outcomes"]["ok"], REQUESTS, "{record}");
    assert_eq!(record["planned"], REQUESTS);
    let served: Vec<u64> = workers.iter().map(answered).collect();
    assert_eq!(served.iter().sum::<u64>(), REQUESTS);
    assert!(served.iter().all(|count| *count > REQUESTS / 3), "both take part: {served:?}");
    assert_eq!(proxy.terminate().endings()["complete"], REQUESTS);
}
