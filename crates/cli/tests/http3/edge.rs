//! loadline as a process with HTTP/3.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::origin;

/// A proxy with a certificate that nobody trusts, before a server of its own.
pub(crate) struct Edge {
    process: Child,
    pub(crate) port: u16,
    directory: tempfile::TempDir,
}

impl Edge {
    pub(crate) fn start() -> Self {
        let edge = Self::with("");
        // Not as long as a client of another test has the UDP port.
        wait_until("HTTP/3 is served", || log(&edge.directory).contains("HTTP/3 is served"));
        edge
    }

    /// One whose listener has these keys as well.
    pub(crate) fn with(keys: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let own = rcgen::generate_simple_self_signed(names).unwrap();
        fs::write(at("own.pem"), own.cert.pem() + &own.signing_key.serialize_pem()).unwrap();
        let config = format!(
            "[[listener]]\nbind = \"127.0.0.1:0\"\nprotocol = \"https\"\n\
             tls = {{ certificates = [\"own.pem\"] }}\nservice = \"web\"\n{keys}\n\
             [[service.web.group]]\nservers = [\"{}\"]\n",
            origin::start()
        );
        fs::write(at("edge.toml"), config).unwrap();
        let mut command = loadline(&["serve", at("edge.toml").to_str().unwrap()]);
        let command = command.stderr(fs::File::create(at("log")).unwrap()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = line.trim_end().rsplit(':').next().unwrap().parse();
        let port = port.unwrap_or_else(|_| panic!("{line}{}", log(&directory)));
        Self { process, port, directory }
    }

    pub(crate) fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// The path of its certificate.
    pub(crate) fn certificate(&self) -> String {
        self.directory.path().join("own.pem").display().to_string()
    }

    /// Checks that it has neither ended nor met a panic.
    pub(crate) fn assert_sound(&mut self) {
        let (ended, log) = (self.process.try_wait().unwrap(), log(&self.directory));
        assert!(ended.is_none() && !log.contains("panicked"), "{ended:?}: {log}");
    }
}

impl Drop for Edge {
    fn drop(&mut self) {
        // It may have ended by itself; that is for the test to find out.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn log(directory: &tempfile::TempDir) -> String {
    fs::read_to_string(directory.path().join("log")).unwrap()
}

pub(crate) fn loadline(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loadline"));
    command.args(arguments).env_remove("RUST_LOG");
    command
}

pub(crate) fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// A program of Python beside this file.
pub(crate) fn script(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/http3").join(name)
}

/// What a program printed; its failure fails the test.
pub(crate) fn said(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = String::from_utf8_lossy(&stdout).trim_end().to_owned();
    let error = String::from_utf8_lossy(&stderr);
    assert!(status.success(), "{command:?}: {status}: {text}\n{error}");
    text
}
