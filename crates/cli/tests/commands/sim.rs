//! `loadline sim` as people call it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn sim(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loadline"));
    command.current_dir(root()).arg("sim").args(args).output().unwrap()
}

/// The record that is printed with --json.
fn record(args: &[&str]) -> Value {
    let output = sim(&[args, &["--json"]].concat());
    let error = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|wrong| panic!("{wrong}: {error}"))
}

/// What is wrong with a traffic file of this text.
fn complaint(text: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("traffic.toml");
    fs::write(&file, text).unwrap();
    let output = sim(&[TWO_REGIONS, "--traffic", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1), "{text}");
    String::from_utf8(output.stderr).unwrap()
}

fn group<'r>(record: &'r Value, region: &str) -> &'r Value {
    let groups = record["simulation"]["groups"].as_array().unwrap();
    groups.iter().find(|group| group["region"] == region).unwrap()
}

#[test]
fn the_traffic_file_of_the_documentation_runs_the_same_each_time() {
    let page = fs::read_to_string(root().join("docs/simulating.md")).unwrap();
    let (_, rest) = page.split_once("```toml\n").unwrap();
    let (text, _) = rest.split_once("```").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("traffic.toml");
    fs::write(&file, text).unwrap();
    let args = [TWO_REGIONS, "--traffic", file.to_str().unwrap(), "--json"];
    let (one, other) = (sim(&args), sim(&args));
    assert!(one.status.success(), "{}", String::from_utf8_lossy(&one.stderr));
    assert_eq!(one.stdout, other.stdout);
    let another = sim(&[&args[..], &["--seed", "2"]].concat());
    assert_ne!(one.stdout, another.stdout);
    let record: Value = serde_json::from_slice(&one.stdout).unwrap();
    assert_eq!(record["kind"], "load");
    let outcomes = record["outcomes"].as_object().unwrap().values();
    let sum: u64 = outcomes.map(|count| count.as_u64().unwrap()).sum();
    assert!(sum > 20_000, "{sum}");
    assert_eq!(record["planned"], sum);
}

#[test]
fn the_near_region_gets_its_capacity_and_the_far_one_the_excess() {
    let record = record(&[TWO_REGIONS, "--traffic", "x1.2"]);
    let near = group(&record, "europe-west3")["requests"].as_f64().unwrap();
    let far = group(&record, "us-central1");
    // 168/s for a minute, of which the near region may be given 100/s and its burst.
    assert!((5_800.0..=6_012.0).contains(&near), "{near}");
    assert_eq!(far["overflowed"], far["requests"]);
    assert!(record["outcomes"]["ok"].as_f64() >= Some(0.999 * 60.0 * 168.0 - 300.0));
}

#[test]
fn a_lost_region_costs_what_the_other_has_no_capacity_for() {
    let lose = ["--lose", "region=us-central1", "--at", "20s"];
    let args = [&["what-if", TWO_REGIONS][..], &lose[..]].concat();
    let record = record(&args);
    let failed =
        1.0 - record["outcomes"]["ok"].as_f64().unwrap() / record["planned"].as_f64().unwrap();
    // 40 of 140 a second have no place for 40 of 60 seconds.
    assert!((0.15..0.21).contains(&failed), "{failed}");
    let output = sim(&args);
    let page = String::from_utf8(output.stdout).unwrap();
    assert!(page.contains("timed out in the queue"), "{page}");
    let nobody = sim(&["what-if", TWO_REGIONS, "--lose", "region=mars"]);
    let error = String::from_utf8(nobody.stderr).unwrap();
    assert_eq!(nobody.status.code(), Some(1));
    assert!(error.contains("the configuration has no server of region `mars`"), "{error}");
}

#[test]
fn an_objective_that_is_breached_has_its_exit_code() {
    let code = |slo| sim(&[TWO_REGIONS, "--slo", slo]).status.code();
    assert_eq!(code("p99<10s"), Some(0));
    assert_eq!(code("p99<1ms"), Some(99));
}

#[test]
fn a_traffic_file_that_cannot_be_has_an_error_at_its_place() {
    for (text, place, message) in [
        ("[[source]]\nrate = \"-5/s\"\n", "traffic.toml:2:8", "`-5/s` is not"),
        ("[[source]]\nrate = \"0/s\"\n", "traffic.toml:2:8", "no request comes"),
        ("[[source]]\ntimes = []\n", "traffic.toml:2:9", "no request comes"),
        ("[[source]]\nrate = \"5/s\"\nservice = \"wob\"\n", ":3:11", "no service `wob`"),
        ("[[server]]\nregion = \"mars\"\n", "traffic.toml:2:10", "no region `mars`"),
        ("[[server]]\ndistribution = \"gamma\"\n", ":2:16", "`gamma` is none of constant"),
        ("[[server]]\ndistribution = \"pareto\"\nshape = 0.5\n", ":3:9", "above 1, found 0.5"),
        ("[[fault]]\nat = \"1s\"\nwhat = \"slow\"\n", "traffic.toml:1:1", "needs `factor`"),
        ("duration = \"0s\"\n", "traffic.toml:1:12", "expected more than 0s"),
        ("sources = 3\n", "traffic.toml:1:1", "unknown key `sources`"),
    ] {
        let complaint = complaint(text);
        assert!(complaint.contains(place), "{text}: {complaint}");
        assert!(complaint.contains(message), "{text}: {complaint}");
    }
}

const TWO_REGIONS: &str = "examples/two-regions.toml";
