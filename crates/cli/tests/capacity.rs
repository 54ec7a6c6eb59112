//! `loadline capacity` as people run it: live against workers whose capacity is known.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

#[path = "../../core/tests/ports/mod.rs"]
mod ports;
mod served;
#[path = "../../core/tests/skipped/mod.rs"]
mod skipped;

use std::process::{Command, Output};

use loadline_measure::record::{CapacityRecord, Document, Purpose, Record, Verdict};

use ports::reserved;
use served::Worker;
use skipped::skipped;

fn worker(cores: u32, service_time: &str) -> Worker {
    Worker::start(&["--cores", &cores.to_string(), "--service-time", service_time])
}

fn capacity(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loadline"));
    command.arg("capacity").args(arguments).output().unwrap()
}

/// A search, its record and what it said meanwhile; none where the machine
/// was too busy to find anything, which the search then has to say by all it leaves.
fn search(address: &str, lengths: &[&str], arguments: &[&str]) -> Option<(CapacityRecord, String)> {
    let output = capacity(&[&[address, "--json"], lengths, arguments].concat());
    let said = String::from_utf8(output.stderr).unwrap();
    let document = Document::read(&output.stdout).unwrap();
    let Record::Capacity(record) = document.record else { panic!("a capacity record") };
    if record.verdict == Verdict::GeneratorInvalid {
        assert_eq!(output.status.code(), Some(98), "{said}");
        assert!(record.found.is_none() && said.contains("invalid, "), "{said}");
        skipped("a machine that sends on time; only that it is told was tested");
        return None;
    }
    let is_unwritten = arguments.contains(&"--write") && record.found.is_none();
    assert_eq!(output.status.code(), Some(if is_unwritten { 98 } else { 0 }), "{said}");
    Some((record, said))
}

fn assert_near(record: &CapacityRecord, exact: f64, said: &str) {
    let found = record.found.as_ref().unwrap().rate.as_per_sec_f64();
    assert!((found / exact - 1.0).abs() < 0.1, "found {found}/s, is {exact}/s\n{said}");
}

/// The 95th percentile in seconds at `cores` that take `job` seconds for each request, when
/// requests come independent of each other: every core takes its jobs in turn.
fn p95(rate: f64, cores: usize, job: f64) -> f64 {
    const REQUESTS: usize = 200_000;
    let (mut state, mut arrival) = (7_u64, 0.0_f64);
    let mut free = vec![0.0_f64; cores];
    let mut times: Vec<f64> = (0..REQUESTS)
        .map(|request| {
            // Vigna's splitmix64: a constant added, then two rounds of mixing.
            state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            let uniform = ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64;
            arrival -= (-uniform).ln_1p() / rate;
            let core = &mut free[request % cores];
            *core = core.max(arrival) + job;
            *core - arrival
        })
        .collect();
    *times.select_nth_unstable_by(REQUESTS * 95 / 100, f64::total_cmp).1
}

/// The highest rate that keeps the 95th percentile under `limit` seconds.
fn exact(cores: usize, job: f64, limit: f64) -> f64 {
    let (mut low, mut high) = (0.0, cores as f64 / job);
    for _ in 0..10 {
        let middle = 0.5 * (low + high);
        if p95(middle, cores, job) < limit { low = middle } else { high = middle }
    }
    low
}

#[test]
fn random_arrivals_at_sixteen_cores_reach_what_the_queue_allows() {
    let worker = worker(16, "50ms");
    let Some((record, said)) = search(&worker.address, LONG, &["--slo", "p95<80ms"]) else {
        return;
    };
    assert_eq!(record.verdict, Verdict::Found);
    assert_near(&record, exact(16, 0.05, 0.08), &said);
    assert!(record.objective.ends_with("errors<1%"), "{}", record.objective);
    assert_eq!(record.trials.last().unwrap().purpose, Purpose::Confirmation);
    for part in ["1 user: ", "bracket ", "bisect ", "confirm ", "[before: "] {
        assert!(said.contains(part), "{part:?} is not in\n{said}");
    }
}

/// A file with a rate that `--write` replaces.
const GUESSED: &str = "\
[[listener]]
bind = \"127.0.0.1:8080\"
service = \"web\"

[[service.web.group]]
max_rate = \"100/s\" # guessed
servers = [\"127.0.0.1:8081\"]
";

#[test]
fn even_arrivals_at_twenty_cores_reach_what_the_cores_can_do_and_the_file_is_told() {
    let worker = worker(20, "50ms");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("loadline.toml");
    std::fs::write(&file, GUESSED).unwrap();
    let path = file.to_str().unwrap();
    let arrivals = ["--slo", "p95<100ms", "--arrivals", "constant", "--headroom", "25%"];
    let edit = ["--write", path, "--group", "web/local"];
    let Some((record, said)) = search(&worker.address, SHORT, &[&arrivals[..], &edit].concat())
    else {
        assert_eq!(std::fs::read_to_string(&file).unwrap(), GUESSED, "it is left as it was");
        return;
    };
    assert_near(&record, 400.0, &said);
    let max_rate = record.found.unwrap().max_rate;
    let written = std::fs::read_to_string(&file).unwrap();
    assert_eq!(written, GUESSED.replace("100/s", &max_rate.to_string()));
    assert!((270.0..330.0).contains(&max_rate.as_per_sec_f64()), "{max_rate}");
}

/// One user would send hundreds a second. Only a lower bound comes of it, which is not written.
#[test]
fn the_users_of_the_closed_loop_keep_to_the_highest_rate_as_the_trials_do() {
    let worker = worker(4, "1ms");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("loadline.toml");
    std::fs::write(&file, GUESSED).unwrap();
    let path = file.to_str().unwrap();
    let ceiling = ["--slo", "p95<500ms", "--max-rate", "50/s", "--within", "60s"];
    let edit = ["--write", path, "--group", "web/local"];
    let found = search(&worker.address, SHORT, &[&ceiling[..], &edit].concat());
    assert_eq!(std::fs::read_to_string(&file).unwrap(), GUESSED);
    let Some((record, said)) = found else { return };
    assert_eq!(record.verdict, Verdict::AtLeast, "{said}");
    let left = format!("only a lower bound was found (--max-rate): {path} is left as it is");
    assert!(said.contains(&left), "{said}");
    let most = record.rungs.iter().map(|rung| rung.throughput.as_per_sec_f64()).fold(0.0, f64::max);
    assert!((1.0..=50.5).contains(&most), "{most}/s\n{said}");
    assert!(record.notes.iter().any(|note| note.contains("--max-rate")), "{:?}", record.notes);
}

#[test]
fn a_service_that_is_too_slow_at_any_load_exits_with_99() {
    let worker = worker(1, "20ms");
    let quick = ["--rung", "200ms", "--first-trial", "100ms", "--trial", "100ms", "--quick"];
    let output = capacity(&[&[&*worker.address, "--slo", "p50<15ms"], &quick[..]].concat());
    let page = String::from_utf8(output.stdout).unwrap();
    // A machine that is too busy to send on time cannot tell either, and says that.
    let (code, told) = match output.status.code() {
        Some(98) => {
            skipped("a machine that sends on time; only that it is told was tested");
            (98, "unknown: the generator ran out first")
        }
        _ => (99, "none: not even"),
    };
    assert_eq!(output.status.code(), Some(code), "{page}");
    assert!(page.contains(told), "{page}");
    assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");
}

#[test]
fn wrong_usage_is_told_before_anything_is_loaded() {
    let closed = reserved().to_string();
    for (arguments, told) in [
        (&["--slo", "fast"][..], "p99<300ms"),
        (&[], "--slo"),
        (&["--slo", "p99<1s", "--write", "x.toml"], "--group"),
        (&["--slo", "p99<1s", "--write", "/no/such.toml", "--group", "web"], "/no/such.toml"),
        (&["--slo", "p99<1s", "--rung", "5"], "500ms"),
    ] {
        let output = capacity(&[&[&*closed], arguments].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(said.contains(told), "{arguments:?}: {said}");
    }
}

/// Long enough for 10 % where requests come at random.
const LONG: &[&str] = &[
    "--rung=400ms", "--first-trial=500ms", "--trial=5s", "--trial-sum=40s", "--confirm=10s",
    "--precision=4%", "--within=200s",
];

/// Long enough for 10 % where they come evenly, short enough for a test.
const SHORT: &[&str] = &[
    "--rung=400ms", "--first-trial=500ms", "--trial=1500ms", "--trial-sum=3s", "--confirm=2s",
    "--precision=4%",
];
