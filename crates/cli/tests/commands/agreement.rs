//! `loadline lab simulate`: the studies of the lab in the simulator, beside the published pages.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn simulate(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loadline"));
    command.current_dir(root()).args(["lab", "simulate"]).args(args).output().unwrap()
}

/// What is said of a study, `lab.simulation` of its record.
fn simulation(args: &[&str]) -> Value {
    let output = simulate(&[args, &["--json"]].concat());
    let error = String::from_utf8_lossy(&output.stderr);
    let record: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|wrong| panic!("{args:?}: {wrong}: {error}"));
    record["lab"]["simulation"].clone()
}

fn counted(simulation: &Value, agreement: &str) -> usize {
    let figures = simulation["figures"].as_array().unwrap();
    figures.iter().filter(|figure| figure["agreement"] == agreement).count()
}

#[test]
fn the_studies_say_in_the_simulator_what_they_say_in_the_lab() {
    for (study, agree, explained) in
        [("capacity", 33, 5), ("policies", 58, 0), ("small-box", 11, 1)]
    {
        let simulation = simulation(&[study, "--beside", "docs/studies"]);
        let differ: Vec<_> = simulation["figures"].as_array().unwrap().iter().collect();
        let differ: Vec<_> =
            differ.into_iter().filter(|figure| figure["agreement"] == "differs").collect();
        assert!(differ.is_empty(), "{study}: {differ:#?}");
        assert!(counted(&simulation, "agrees") >= agree, "{study} compares less than it did");
        assert_eq!(counted(&simulation, "explained"), explained, "{study}");
    }
}

#[test]
fn every_phase_of_every_study_is_simulated_or_says_why_not() {
    for study in ["latency", "network", "forwarding", "small-box"] {
        let simulation = simulation(&[study]);
        let left_out = simulation["not_simulated"].as_array().unwrap();
        assert!(!left_out.is_empty(), "{study}");
        for one in left_out {
            assert_ne!(one["reason"], "", "{study}: {one}");
        }
    }
}

#[test]
fn the_region_that_is_lost_in_the_lab_was_predicted_by_what_if() {
    let simulation = simulation(&["examples/lab/region-lost.toml"]);
    let of = |name: &str| {
        let mut figures = simulation["figures"].as_array().unwrap().iter();
        let figure = figures.find(|figure| figure["name"] == name).unwrap();
        figure["simulated"].as_f64().unwrap()
    };
    let mut what_if = Command::new(env!("CARGO_BIN_EXE_loadline"));
    what_if.current_dir(root()).args(["sim", "what-if", "examples/three-regions.toml"]);
    what_if.args(["--traffic", "examples/traffic/three-regions.toml", "--traffic", "x1.5"]);
    let output = what_if.args(["--lose", "region=us", "--at", "10s", "--json"]).output().unwrap();
    let predicted: Value = serde_json::from_slice(&output.stdout).unwrap();
    let near = |name: &str, predicted: &Value| {
        let (lab, predicted) = (of(name), predicted.as_f64().unwrap());
        assert!((lab / predicted - 1.0).abs() < 0.1, "{name}: {lab}, predicted {predicted}");
    };
    near("ok", &predicted["outcomes"]["ok"]);
    near("shed", &predicted["outcomes"]["server_error"]);
    near("p95", &predicted["response"]["p95_ms"]);
}

#[test]
fn the_same_study_is_the_same_to_the_byte() {
    let once = || simulate(&["capacity", "--json", "--seed", "7"]).stdout;
    assert_eq!(once(), once());
}
