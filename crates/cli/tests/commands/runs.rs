//! Real runs for tests of what is made of them: `loadline bench` against `loadline worker`.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use crate::served::Worker;

/// Runs `bench --json` against the worker and gives the path of the record. An invalid run is one
/// too: what else runs on this machine is not the subject here.
pub(crate) fn bench(worker: &Worker, options: &[&str], folder: &Path, name: &str) -> String {
    let arguments = [&["bench", &worker.address, "--json", "--quiet"], options].concat();
    let output = loadline(&arguments);
    let code = output.status.code();
    assert!(matches!(code, Some(0 | 98)), "{code:?}: {}", text(&output.stderr));
    let path = folder.join(format!("{name}.json"));
    fs::write(&path, output.stdout).unwrap();
    path.to_str().unwrap().to_owned()
}

pub(crate) fn loadline(arguments: &[&str]) -> Output {
    Command::new(PROGRAM).args(arguments).output().unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const PROGRAM: &str = env!("CARGO_BIN_EXE_loadline");
