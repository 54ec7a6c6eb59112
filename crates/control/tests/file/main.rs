//! The configuration as its writers meet it: examples, errors, schema and reference.

mod acme;
mod cluster;
mod compression;
mod early_data;
mod examples;
mod forwarding;
mod hsts;
mod http3;
mod include;
mod malformed;
mod maps;
mod monitoring;
mod mutations;
mod reference;
mod rendering;
mod routes;
mod schema;
mod standby;
mod streams;

use std::{fs, path::PathBuf};

/// A file of the repository.
fn repository(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// Name and text of every example.
fn examples() -> Vec<(String, String)> {
    let folder = fs::read_dir(repository("examples")).expect("the folder of examples");
    let mut examples: Vec<_> = folder
        .map(|entry| entry.expect("an entry of the folder").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .map(|path| {
            let text = fs::read_to_string(&path).expect("an example that can be read");
            (path.file_name().expect("a file").to_string_lossy().into_owned(), text)
        })
        .collect();
    examples.sort();
    examples
}
