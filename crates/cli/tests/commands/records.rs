//! Every record that a command prints fits the schema that another one prints.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use serde_json::Value;

use crate::{ports::reserved, served::Worker};

/// A worker with 4 cores of 2 ms.
fn worker() -> Worker {
    Worker::start(&["--cores", "4", "--service-time", "2ms"])
}

fn loadline(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loadline"));
    command.args(args);
    command
}

fn printed(args: &[&str]) -> Value {
    let output = loadline(args).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|wrong| panic!("{args:?}: {wrong} {error}"))
}

/// Holds what a command prints against the schema, and gives its kind.
fn fits(args: &[&str]) -> String {
    let schema = jsonschema::validator_for(&printed(&["schema", "--records"])).unwrap();
    let record = printed(args);
    let wrong: Vec<String> =
        schema.iter_errors(&record).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(wrong.is_empty(), "{args:?}: {wrong:#?}");
    record["kind"].as_str().unwrap().to_owned()
}

#[test]
fn load_runs_of_every_kind() {
    let worker = worker();
    let url = worker.address.as_str();
    let runs: [&[&str]; 5] = [
        &["--users", "4", "--requests", "20"],
        &["--rate", "200", "--requests", "50", "--arrivals", "poisson"],
        &["--stages", "100/s:200ms, ..200/s:200ms", "--slo", "p99<1s, errors<1%"],
        &["--users", "2", "--duration", "300ms", "--no-keepalive", "--count-by", "x-served-by"],
        &["--users", "2", "--duration", "300ms", "--watch", "generator"],
    ];
    for args in runs {
        let watched = worker.process.id().to_string();
        let args: Vec<&str> =
            args.iter().map(|arg| if *arg == "generator" { &watched } else { *arg }).collect();
        assert_eq!(fits(&[&["bench", url, "--json", "--quiet"], &args[..]].concat()), "load");
    }
}

#[test]
fn a_run_in_which_nothing_went_well() {
    let closed = reserved().to_string();
    let args = ["bench", &closed, "--json", "--quiet", "--users", "1", "--requests", "3"];
    assert_eq!(fits(&args), "load");
}

#[test]
fn series_searches_and_watches() {
    let worker = worker();
    let url = worker.address.as_str();
    let port = url.rsplit(':').next().unwrap();
    assert_eq!(fits(&["ttfb", url, "-n", "5", "--json", "--quiet"]), "probe");
    assert_eq!(fits(&["ping", "127.0.0.1", "-c", "2", "--tcp", port, "--json", "-q"]), "probe");
    assert_eq!(fits(&["watch", "--json", "--", "sleep", "0.5"]), "resources");
    let times =
        ["--rung", "300ms", "--first-trial", "300ms", "--trial", "500ms", "--confirm", "1s"];
    let search = ["capacity", url, "--quick", "--slo", "p90<50ms", "--json", "--quiet"];
    assert_eq!(fits(&[&search[..], &times[..]].concat()), "capacity");
}

#[test]
fn formulas_comparisons_and_checks() {
    for formula in ["bandwidth", "ports", "replication", "fibre", "queue", "credits"] {
        assert_eq!(fits(&["plan", formula, "--json"]), "formula");
    }
    let worker = worker();
    let folder = tempfile::tempdir().unwrap();
    let files = ["a.json", "b.json"].map(|name| folder.path().join(name).display().to_string());
    for file in &files {
        let args =
            ["bench", &worker.address, "--users", "2", "--requests", "200", "-o", file, "-q"];
        assert!(loadline(&args).stdout(Stdio::null()).status().unwrap().success());
        assert!(fs::metadata(file).unwrap().len() > 0);
    }
    assert_eq!(fits(&["compare", &files[0], &files[1], "--json"]), "comparison");
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/minimal.toml");
    assert_eq!(fits(&["check", "--json", example.to_str().unwrap()]), "check");
    let wrong = folder.path().join("wrong.toml");
    fs::write(&wrong, "[[listener]]\nbnd = 1\n").unwrap();
    assert_eq!(fits(&["check", "--json", wrong.to_str().unwrap()]), "check");
}

#[test]
fn the_reference_in_docs_is_up_to_date() {
    for (page, args) in [("records.md", &["--records", "--markdown"][..]), RECORDS_SCHEMA] {
        let output = loadline(&[&["schema"], args].concat()).output().unwrap();
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page);
        assert!(fs::read(path).unwrap() == output.stdout, "{page}: run: make generated");
    }
}

const RECORDS_SCHEMA: (&str, &[&str]) = ("records.schema.json", &["--records"]);
