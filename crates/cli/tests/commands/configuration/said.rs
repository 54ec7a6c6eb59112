//! What the binary says, and what no message may have in it.

use std::{path::Path, process::Command};

/// How a command ended, and all that it said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    /// Without the frame round quoted lines, and with each line break as a space.
    pub(crate) text: String,
}

/// Runs a command that ends by itself, in this directory.
pub(crate) fn loadline(args: &[&str], directory: &Path) -> Said {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loadline"));
    command.args(args).current_dir(directory).env("RUST_LOG", "warn").env("LC_ALL", "C.UTF-8");
    let ended = command.output();
    let ended = ended.expect("the binary starts");
    let said = [ended.stdout, ended.stderr].concat();
    let frame = |c: char| "│╭╰─┬×☞⚠·├▶╮╯".contains(c);
    let said = String::from_utf8_lossy(&said).replace(frame, " ");
    let text = said.split_whitespace().collect::<Vec<_>>().join(" ");
    Said { code: ended.status.code(), text }
}

impl Said {
    /// What is wrong with it: another code, a word that is missing, or what no message may have.
    pub(crate) fn faults(&self, code: i32, words: &[&str]) -> Vec<String> {
        let mut faults = Vec::new();
        if self.code != Some(code) {
            faults.push(format!("ended with {:?}, not {code}", self.code));
        }
        let missing = words.iter().filter(|word| !self.text.contains(**word));
        faults.extend(missing.map(|word| format!("does not say {word}")));
        let leaks = RUST.iter().filter(|leak| self.text.contains(**leak));
        faults.extend(leaks.map(|leak| format!("says {leak}")));
        faults.extend(repeated(&self.text).map(|part| format!("says twice {part}")));
        faults
    }
}

/// Parts of a message that follow each other as causes do, and are the same.
fn repeated(text: &str) -> Option<String> {
    let parts: Vec<&str> = text.split(": ").collect();
    let long = parts.windows(2).filter(|pair| pair[1].len() >= 8);
    long.filter(|pair| pair[0].ends_with(pair[1])).map(|pair| pair[1].to_owned()).next()
}

/// How values look where Rust prints them for its programmers.
const RUST: &[&str] =
    &["Some(", "None)", "Err(", "Ok(", "Os {", "Error {", "Error(", "{ kind:", "at path \""];

#[test]
fn a_cause_that_is_said_twice_is_found() {
    assert!(repeated("loadline: :80: Address in use: Address in use").is_some());
    assert!(repeated("loadline: :80: Address in use").is_none());
}
