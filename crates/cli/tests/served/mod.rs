//! A test server as a process of the binary, for as long as a test wants it.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
};

/// `loadline worker fixed` on a port of its own; ended when it is dropped.
pub(crate) struct Worker {
    pub(crate) process: Child,
    /// Where it listens.
    pub(crate) address: String,
}

impl Worker {
    pub(crate) fn start(options: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_loadline"));
        command.args(["worker", "fixed", "--listen", "127.0.0.1:0"]).args(options);
        let (process, address) = listening(&mut command);
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

/// Starts a command that says first where it listens, and says where that is.
pub(crate) fn listening(command: &mut Command) -> (Child, String) {
    let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("listening on ").unwrap().to_owned();
    (process, address)
}
