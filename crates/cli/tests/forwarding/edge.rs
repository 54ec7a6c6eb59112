//! The real binary as the balancer, with its file.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _},
    process::{Child, Command, Stdio},
    thread::{self, sleep},
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{host::Host, network::Network};

/// A running `loadline serve`, ended when it is dropped.
pub(crate) struct Edge {
    process: Child,
    directory: tempfile::TempDir,
    log: Option<thread::JoinHandle<String>>,
}

impl Edge {
    /// Starts it on the balancer with this file, which lacks only its administration.
    pub(crate) fn start(network: &Network, file: &str) -> Self {
        Self::start_on(&network.balancer, file)
    }

    pub(crate) fn start_on(host: &Host, file: &str) -> Self {
        Self::start_with(host, file, &[])
    }

    /// The same with options.
    pub(crate) fn start_with(host: &Host, file: &str, options: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        write(&directory, file);
        let mut serve = host.command(env!("CARGO_BIN_EXE_loadline"));
        serve.arg("serve").args(options).arg(directory.path().join("loadline.toml"));
        serve.env("NO_COLOR", "1").env_remove("RUST_LOG");
        let mut process = serve.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut told = process.stderr.take().unwrap();
        let log = thread::spawn(move || {
            let mut log = String::new();
            told.read_to_string(&mut log).unwrap();
            log
        });
        let mut said = String::new();
        let mut lines = BufReader::new(process.stdout.take().unwrap());
        while !said.contains("administration on") {
            let read = lines.read_line(&mut said).unwrap();
            if read == 0 {
                process.wait().unwrap();
                panic!("it has not started: {}", log.join().unwrap());
            }
        }
        Self { process, directory, log: Some(log) }
    }

    /// Reads another file.
    pub(crate) fn reload(&self, file: &str) {
        write(&self.directory, file);
        let before = self.state()["generation"].clone();
        self.signal("HUP");
        self.until(|state| state["generation"] != before);
    }

    pub(crate) fn state(&self) -> Value {
        serde_json::from_str(&self.get("/api/state")).unwrap()
    }

    /// What `loadline l4 report` tells as JSON.
    pub(crate) fn report(&self) -> Value {
        serde_json::from_str(&self.l4(&["report", "--json"])).unwrap()
    }

    /// What a command of `loadline l4` prints.
    pub(crate) fn l4(&self, words: &[&str]) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_loadline"));
        command.arg("l4").args(words).arg(self.socket()).env_remove("RUST_LOG");
        let output = command.output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {told}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Packets that ended so.
    pub(crate) fn packets(&self, verdict: &str) -> u64 {
        self.report()["verdicts"][verdict]["packets"].as_u64().unwrap()
    }

    pub(crate) fn get(&self, path: &str) -> String {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--unix-socket"]).arg(self.socket());
        let output = curl.arg(format!("http://localhost{path}")).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    /// Waits for the state to be so.
    pub(crate) fn until(&self, is_so: impl Fn(&Value) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let state = self.state();
            if is_so(&state) {
                return;
            }
            assert!(Instant::now() < deadline, "still so: {state:#}");
            sleep(Duration::from_millis(50));
        }
    }

    /// The file of keepalived that belongs to its own.
    pub(crate) fn keepalived(&self) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_loadline"));
        command.args(["l4", "keepalived"]).arg(self.directory.path().join("loadline.toml"));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// As `kill -9` does.
    pub(crate) fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Ends it; what its log says.
    pub(crate) fn end(mut self) -> String {
        self.signal("TERM");
        assert!(self.process.wait().unwrap().success());
        self.log.take().unwrap().join().unwrap()
    }

    fn signal(&self, name: &str) {
        // `nsenter` has become the program.
        let process = self.process.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &process]).status().unwrap().success());
    }

    fn socket(&self) -> std::path::PathBuf {
        self.directory.path().join("admin.sock")
    }
}

impl Drop for Edge {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
        if let (true, Some(log)) = (thread::panicking(), self.log.take()) {
            println!("the log:\n{}", log.join().unwrap_or_default());
        }
    }
}

/// By a rename, as nobody may read half of it.
fn write(directory: &tempfile::TempDir, file: &str) {
    let path = |name: &str| directory.path().join(name);
    let text = format!("[admin]\nbind = {:?}\n{file}", path("admin.sock"));
    fs::write(path("next"), text).unwrap();
    fs::rename(path("next"), path("loadline.toml")).unwrap();
}

/// Longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
