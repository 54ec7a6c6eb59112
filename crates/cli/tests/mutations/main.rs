//! The swarm against a core with faults: each of the [list](list) must be found within as many
//! cases as a test run has.
//!
//! It builds a copy of what the swarm needs in `target/tmp/copy-swarm`, once with all faults, of
//! which each run chooses one by its number in `FAULT`. It is not part of `cargo test`: `make
//! mutations`. `ONLY=text` tries the faults with that in their names.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

#[path = "../copied/mod.rs"]
mod copied;
mod list;

use std::{collections::BTreeMap, env, fs, path::Path, time::Instant};

use copied::Copy;
use list::{MUTATIONS, Mutation};

#[test]
fn the_swarm_finds_each_fault() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let copy = Copy::of(&root, "swarm", &mutated(&root));
    let (found, output) = swarm(&copy, None);
    assert!(!found && output.contains("test result: ok"), "without a fault:\n{output}");
    let only = env::var("ONLY").unwrap_or_default();
    let mut missed = Vec::new();
    let chosen = MUTATIONS.iter().enumerate();
    for (number, mutation) in chosen.filter(|(_, mutation)| mutation.name.contains(&only)) {
        let began = Instant::now();
        let (found, output) = swarm(&copy, Some(number));
        let first = output.lines().find(|line| line.starts_with("SEED="));
        let seconds = began.elapsed().as_secs();
        println!("{} ({seconds} s): {}", mutation.name, first.unwrap_or("not found"));
        if !found {
            missed.push(format!("{}:\n{output}", mutation.name));
        }
    }
    assert!(missed.is_empty(), "not found:\n{}", missed.join("\n"));
}

/// What is built in the place of the repository's files: `core` with all faults and what chooses
/// one of them, and nothing of the crates that the swarm does not need.
fn mutated(root: &Path) -> BTreeMap<String, String> {
    let mut texts = BTreeMap::new();
    let core = |file: &str| format!("crates/core/src/{file}");
    let text = |file: &str| fs::read_to_string(root.join(core(file))).unwrap();
    texts.insert(core("lib.rs"), text("lib.rs") + CHOICE);
    for (number, Mutation { name, file, old, new }) in MUTATIONS.iter().enumerate() {
        let text = texts.entry(core(file)).or_insert_with(|| text(file));
        assert_eq!(text.matches(old).count(), 1, "{name}: {file}");
        assert!(new.contains("FAULT"), "{name}: what chooses it?");
        *text = text.replace(old, &new.replace("FAULT", &format!("crate::fault({number})")));
    }
    let crates = fs::read_dir(root.join("crates")).unwrap();
    let names = crates.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    for name in names.filter(|name| !NEEDED.contains(&name.as_str()) && name != "cli") {
        texts.insert(format!("crates/{name}/src/lib.rs"), "//! Nothing.\n".to_owned());
    }
    texts.insert("crates/cli/src/main.rs".to_owned(), "//! Nothing.\nfn main() {}\n".to_owned());
    texts
}

/// Whether the swarm finds something where the fault of that number is chosen, and what it says.
fn swarm(copy: &Copy, fault: Option<usize>) -> (bool, String) {
    let mut cargo = copy.cargo(&["debug=false"]);
    cargo.args(["--quiet", "promises_hold"]);
    cargo.env("FAULT", fault.map(|number| number.to_string()).unwrap_or_default());
    cargo.envs([("STOP", "1"), ("SHRINK", "0")]).env_remove("SEED").env_remove("SEEDS");
    let output = cargo.output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(text.contains("running 1 test"), "it does not build:\n{text}");
    (text.lines().any(|line| line.starts_with("SEED=")), text)
}

/// The crates that the swarm needs.
const NEEDED: [&str; 7] = ["control", "core", "linux", "measure", "sim", "spanned", "tls"];

/// Numbers are those of the list.
const CHOICE: &str = r#"
extern crate std;

pub(crate) fn fault(number: usize) -> bool {
    static CHOSEN: std::sync::OnceLock<Option<usize>> = std::sync::OnceLock::new();
    *CHOSEN.get_or_init(|| std::env::var("FAULT").ok()?.parse().ok()) == Some(number)
}
"#;
