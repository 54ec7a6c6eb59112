//! `loadline cluster` as an operator runs it.

use std::{fs, process::Command};

use crate::edge::Edge;

/// What it printed, on both ways, and how it ended.
pub(crate) struct Printed {
    pub(crate) code: Option<i32>,
    pub(crate) text: String,
}

/// Runs it with the file of an edge.
pub(crate) fn cluster(edge: &Edge, args: &[&str]) -> Printed {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loadline"));
    command.arg("cluster").args(args).arg("--edge").arg(&edge.file);
    let output = command.env_remove("RUST_LOG").env("NO_COLOR", "1").output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    Printed { code: output.status.code(), text: String::from_utf8(text).unwrap() }
}

/// Publishes this text.
pub(crate) fn publish(edge: &Edge, text: &str) -> Printed {
    let file = edge.folder().join("site.toml");
    fs::write(&file, text).unwrap();
    cluster(edge, &["publish", file.to_str().unwrap()])
}
