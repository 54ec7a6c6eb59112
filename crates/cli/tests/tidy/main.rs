//! The house rules, checked on every Rust file of the repository.
//!
//! Clippy checks what it can (see `clippy.toml`); this checks the rest, and the limits exactly.
//! Each rule in `rules` is fed something bad in its own tests, to see that it would be caught.
#![expect(clippy::unwrap_used, reason = "what cannot be read fails the test")]

mod blank;
mod blocks;
mod rules;
mod star;

use std::fs;
use std::path::{Path, PathBuf};

use rules::{File, machine_paths, offences};

#[test]
fn every_rust_file_keeps_the_house_rules() {
    let root = root();
    let sources: Vec<PathBuf> =
        ["crates", "bench"].iter().flat_map(|dir| files(&root.join(dir), "rs")).collect();
    assert!(sources.len() > 10, "found only {sources:?}");
    let mut found = Vec::new();
    for source in &sources {
        let text = fs::read_to_string(source).unwrap();
        let path = source.strip_prefix(&root).unwrap().to_str().unwrap();
        found.extend(offences(&File { path, text: &text }));
    }
    assert!(found.is_empty(), "{} offences:\n{}", found.len(), found.join("\n"));
}

/// That each is right is tested where the configuration is read.
#[test]
fn every_example_begins_with_what_it_shows_and_the_readme_leads_there() {
    let root = root();
    let readme = fs::read_to_string(root.join("README.md")).unwrap();
    assert!(readme.contains("(examples/"), "the README does not link to the examples");
    let silent: Vec<PathBuf> = files(&root.join("examples"), "toml")
        .into_iter()
        .filter(|example| !fs::read_to_string(example).unwrap().starts_with("# "))
        .collect();
    assert!(silent.is_empty(), "do not say what they show: {silent:?}");
}

#[test]
fn no_page_and_no_manifest_holds_a_path_of_one_machine() {
    let root = root();
    let texts = ["md", "toml"].iter().flat_map(|extension| files(&root, extension));
    for path in texts {
        let text = fs::read_to_string(&path).unwrap();
        let found: Vec<String> = machine_paths(&text).collect();
        assert!(found.is_empty(), "{}: {found:?}", path.display());
    }
}

#[test]
fn every_library_and_program_is_linted_by_the_workspace() {
    for manifest in files(&root(), "toml") {
        let text = fs::read_to_string(&manifest).unwrap();
        // What is fuzzed is a workspace of its own, which has none to take.
        let apart = text.contains("[workspace]\n");
        let linted = text.contains("[lints]\nworkspace = true") || !text.contains("[package]");
        let linted = linted || apart;
        assert!(linted, "{} does not take the workspace's lints", manifest.display());
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Every file under a directory with this extension; what is built or hidden is left out.
fn files(dir: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let Ok(entries) = fs::read_dir(dir) else { return found };
    for entry in entries.map(Result::unwrap) {
        let path = entry.path();
        let name = entry.file_name();
        if name == "target" || name.to_string_lossy().starts_with('.') {
            continue;
        }
        if path.is_dir() {
            found.extend(files(&path, extension));
        } else if path.extension().is_some_and(|is| is == extension) {
            found.push(path);
        }
    }
    found.sort();
    found
}
