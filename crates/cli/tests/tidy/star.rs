//! The star of dependencies: every crate may use the ground floor, no crate uses a neighbour, only
//! the program knows them all. On the ground floor itself every crate may use `core` alone.
//!
//! It is what keeps a crate readable alone, so it holds for tests and build scripts too.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;

const CORE: &str = "loadline-core";
const GROUND: [&str; 6] = [
    CORE, "loadline-http1", "loadline-linux", "loadline-measure", "loadline-spanned",
    "loadline-tls",
];
const PROGRAM: &str = "loadline";
/// Drives the program as a process, so that it measures what users run.
const BENCHMARK: &str = "loadline-bench";

/// Package to the packages of the workspace it depends on.
type Uses = BTreeMap<String, Vec<String>>;

#[test]
fn the_workspace_is_a_star() {
    let uses = read_uses();
    assert!(uses.len() >= 12, "read only {uses:?}");
    assert_eq!(offences(&uses), Vec::<String>::new());
}

/// What everybody needs is `core`: another crate that all use would be a second one.
#[test]
fn no_crate_but_core_is_used_by_all() {
    let uses = read_uses();
    let above = |user: &&String| {
        !GROUND.contains(&user.as_str()) && ![PROGRAM, BENCHMARK].contains(&user.as_str())
    };
    for ground in GROUND.iter().filter(|ground| **ground != CORE) {
        let without =
            uses.keys().filter(above).find(|user| !uses[*user].contains(&(*ground).into()));
        assert!(without.is_some(), "every crate uses {ground}");
    }
}

#[test]
fn a_neighbour_a_floor_with_a_floor_below_and_a_knowing_benchmark_are_caught() {
    let bad = [
        ("loadline-proxy", "loadline-load"),
        ("loadline-core", "loadline-http1"),
        ("loadline-http1", "loadline-measure"),
        ("loadline-bench", "loadline-core"),
        ("loadline-lab", "loadline"),
    ];
    for (user, used) in bad {
        let uses = Uses::from([(user.to_owned(), vec![used.to_owned()])]);
        assert_eq!(offences(&uses), [format!("{user} uses {used}")]);
    }
}

#[test]
fn the_ground_floor_and_the_program_are_free() {
    let all = vec!["loadline-core".to_owned(), "loadline-proxy".to_owned()];
    let uses = Uses::from([
        ("loadline".to_owned(), all),
        ("loadline-measure".to_owned(), vec![CORE.to_owned()]),
        ("loadline-proxy".to_owned(), GROUND.map(str::to_owned).to_vec()),
    ]);
    assert_eq!(offences(&uses), Vec::<String>::new());
}

fn offences(uses: &Uses) -> Vec<String> {
    let mut found = Vec::new();
    for (user, used) in uses {
        let wrong = used.iter().filter(|used| !may_use(user, used));
        found.extend(wrong.map(|used| format!("{user} uses {used}")));
    }
    found
}

fn may_use(user: &str, used: &str) -> bool {
    match user {
        PROGRAM => true,
        BENCHMARK => false,
        CORE => false,
        _ if GROUND.contains(&user) => used == CORE,
        _ => GROUND.contains(&used),
    }
}

fn read_uses() -> Uses {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    packages.iter().map(|package| (name(package), ours(package))).collect()
}

fn name(of: &Value) -> String {
    of["name"].as_str().unwrap().to_owned()
}

/// The dependencies that lie in the workspace: those with a path.
fn ours(package: &Value) -> Vec<String> {
    let dependencies = package["dependencies"].as_array().unwrap();
    dependencies.iter().filter(|dependency| dependency["path"].is_string()).map(name).collect()
}
