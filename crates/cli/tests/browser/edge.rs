//! loadline as a process, for a browser to look at.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
};

use crate::page::Page;

/// A proxy with its dashboard, before a server that answers at once.
pub(crate) struct Edge {
    _server: Process,
    proxy: Process,
    traffic: String,
    pub(crate) admin: String,
    _directory: tempfile::TempDir,
}

impl Edge {
    pub(crate) fn start() -> Self {
        let (server, lines) = Process::start(&["worker", "fixed", "--listen", "127.0.0.1:0"], 1);
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("edge.toml");
        let config = format!(
            "[admin]\nbind = \"127.0.0.1:0\"\n[[listener]]\nbind = \"127.0.0.1:0\"\n\
             service = \"web\"\n[[service.web.group]]\nregion = \"here\"\nmax_rate = \"500/s\"\n\
             servers = [\"{}\"]\n",
            place(&lines[0])
        );
        fs::write(&file, config).unwrap();
        let (proxy, lines) = Process::start(&["serve", file.to_str().unwrap()], 3);
        let (traffic, admin) = (place(&lines[0]), place(&lines[1]));
        Self { _server: server, proxy, traffic, admin, _directory: directory }
    }

    /// Its dashboard on a screen.
    pub(crate) fn dashboard(&self, screen: (u32, u32)) -> Page {
        Page::open(&format!("http://{}/", self.admin), screen)
    }

    /// Stops it with SIGSTOP as if it hung, or has it go on with SIGCONT.
    pub(crate) fn signal(&self, name: &str) {
        let id = self.proxy.0.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &id]).status().unwrap().success());
    }

    /// Forty requests a second for a minute, or until it is dropped.
    pub(crate) fn load(&self) -> Process {
        let url = format!("http://{}/", self.traffic);
        Process::start(&["bench", &url, "--rate", "40", "--duration", "60s"], 0).0
    }
}

/// A process that is killed when it is dropped.
pub(crate) struct Process(Child);

impl Process {
    /// Starts it and waits for its first lines, all that it prints while it runs.
    pub(crate) fn start(args: &[&str], lines: usize) -> (Self, Vec<String>) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_loadline"));
        let command = command.args(args).env_remove("RUST_LOG").stderr(Stdio::null());
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let told = BufReader::new(child.stdout.take().unwrap()).lines().take(lines);
        let told = told.map(Result::unwrap).collect();
        (Self(child), told)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The address at the end of a line.
pub(crate) fn place(line: &str) -> String {
    line.rsplit(' ').next().unwrap().to_owned()
}
