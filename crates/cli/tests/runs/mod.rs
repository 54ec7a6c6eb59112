//! Real runs for tests of what is made of them: `loadline bench` against `loadline worker`.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Output, Stdio},
};

/// A test server that answers a few bytes, until it is dropped.
pub(crate) struct Worker {
    process: Child,
    address: String,
}

impl Worker {
    pub(crate) fn start(options: &[&str]) -> Self {
        let mut process = Command::new(PROGRAM)
            .args(["worker", "fixed", "--listen", "127.0.0.1:0"])
            .args(options)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").unwrap().to_owned();
        Self { process, address }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may have ended by itself; that is for the test to find out.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

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
