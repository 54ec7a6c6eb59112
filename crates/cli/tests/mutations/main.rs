//! The swarm against a core with faults: each of the [list](list) must be found within as many
//! cases as a test run has.
//!
//! It builds a copy of what the swarm needs in `target/tmp/mutations`, once with all faults, of
//! which each run chooses one by its number in `FAULT`. It is not part of `cargo test`: `make
//! mutations`.
//! `ONLY=text` tries the faults with that in their names.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod list;

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

use list::{MUTATIONS, Mutation};

#[test]
fn the_swarm_finds_each_fault() {
    let copy = Copy::make();
    copy.mutate();
    let (found, output) = copy.swarm(None);
    assert!(!found && output.contains("test result: ok"), "without a fault:\n{output}");
    let only = env::var("ONLY").unwrap_or_default();
    let mut missed = Vec::new();
    let chosen = MUTATIONS.iter().enumerate();
    for (number, mutation) in chosen.filter(|(_, mutation)| mutation.name.contains(&only)) {
        let began = Instant::now();
        let (found, output) = copy.swarm(Some(number));
        let first = output.lines().find(|line| line.starts_with("SEED="));
        let seconds = began.elapsed().as_secs();
        println!("{} ({seconds} s): {}", mutation.name, first.unwrap_or("not found"));
        if !found {
            missed.push(format!("{}:\n{output}", mutation.name));
        }
    }
    assert!(missed.is_empty(), "not found:\n{}", missed.join("\n"));
}

/// A workspace of the crates that the swarm needs, and of the swarm.
struct Copy {
    root: PathBuf,
    workspace: PathBuf,
}

impl Copy {
    fn make() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
        let workspace = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mutations");
        let copy = Self { root, workspace };
        for name in CRATES {
            for part in ["Cargo.toml", "src", "benches", "examples"] {
                copy.put(&format!("crates/{name}/{part}"), &format!("crates/{name}/{part}"));
            }
        }
        for part in ["Cargo.lock", "rust-toolchain.toml", "examples"] {
            copy.put(part, part);
        }
        copy.put("crates/cli/tests/swarm", "crates/swarm/tests/swarm");
        copy.put("crates/cli/tests/mutations", "crates/swarm/tests/mutations");
        copy.write("crates/swarm/Cargo.toml", SWARM);
        copy.write("crates/swarm/src/lib.rs", "//! Nothing but tests.\n");
        let manifest = fs::read_to_string(copy.root.join("Cargo.toml")).unwrap();
        let members = "members = [\"bench\", \"crates/*\"]";
        assert!(manifest.contains(members), "the manifest has other members");
        copy.write("Cargo.toml", &manifest.replace(members, "members = [\"crates/*\"]"));
        copy
    }

    /// Copies a file or a directory of the repository, where there is one.
    fn put(&self, from: &str, to: &str) {
        let from = self.root.join(from);
        if from.is_dir() {
            for entry in fs::read_dir(&from).unwrap() {
                let name = entry.unwrap().file_name();
                let name = name.to_str().unwrap();
                let from = from.join(name);
                let from = from.strip_prefix(&self.root).unwrap();
                self.put(from.to_str().unwrap(), &format!("{to}/{name}"));
            }
        } else if let Ok(text) = fs::read_to_string(&from) {
            self.write(to, &text);
        }
    }

    /// What is the same stays as old as it is, so that it is not built again.
    fn write(&self, to: &str, text: &str) {
        let path = self.workspace.join(to);
        if fs::read_to_string(&path).ok().as_deref() != Some(text) {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    /// Puts all faults there, and what chooses one of them.
    fn mutate(&self) {
        let mut texts = BTreeMap::new();
        let text = |file| fs::read_to_string(self.root.join("crates/core/src").join(file)).unwrap();
        texts.insert("lib.rs", text("lib.rs") + CHOICE);
        for (number, Mutation { name, file, old, new }) in MUTATIONS.iter().enumerate() {
            let text = texts.entry(file).or_insert_with(|| text(file));
            assert_eq!(text.matches(old).count(), 1, "{name}: {file}");
            assert!(new.contains("FAULT"), "{name}: what chooses it?");
            *text = text.replace(old, &new.replace("FAULT", &format!("crate::fault({number})")));
        }
        for (file, text) in texts {
            self.write(&format!("crates/core/src/{file}"), &text);
        }
    }

    /// Whether it finds something where the fault of that number is chosen, and what it says.
    fn swarm(&self, fault: Option<usize>) -> (bool, String) {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args([
            "test",
            "--quiet",
            "--offline",
            "--package",
            "swarm",
            "--test",
            "swarm",
            "promises_hold",
        ]);
        cargo.env("CARGO_TARGET_DIR", self.workspace.join("target"));
        cargo.env("CARGO_PROFILE_DEV_DEBUG", "0").env("RUSTFLAGS", "-Awarnings");
        cargo.env("FAULT", fault.map(|number| number.to_string()).unwrap_or_default());
        cargo.envs([("STOP", "1"), ("SHRINK", "0")]).env_remove("SEED").env_remove("SEEDS");
        let output = cargo.current_dir(&self.workspace).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        assert!(text.contains("running 1 test"), "it does not build:\n{text}");
        (text.lines().any(|line| line.starts_with("SEED=")), text)
    }
}

const CRATES: [&str; 6] = ["control", "core", "linux", "measure", "sim", "spanned"];

/// Numbers are those of the list.
const CHOICE: &str = r#"
extern crate std;

pub(crate) fn fault(number: usize) -> bool {
    static CHOSEN: std::sync::OnceLock<Option<usize>> = std::sync::OnceLock::new();
    *CHOSEN.get_or_init(|| std::env::var("FAULT").ok()?.parse().ok()) == Some(number)
}
"#;

const SWARM: &str = r#"[package]
name = "swarm"
version = "0.1.0"
edition = "2024"

[dev-dependencies]
loadline-control.workspace = true
loadline-core = { workspace = true, features = ["schema"] }
loadline-measure.workspace = true
loadline-sim.workspace = true
"#;
