//! An etcd of one member.

use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use crate::ports::reserved;

/// Ended when it is dropped.
pub(crate) struct Etcd {
    process: Option<Child>,
    port: u16,
    peer_port: u16,
    /// `https` where it has certificates.
    scheme: &'static str,
    options: Vec<String>,
    folder: tempfile::TempDir,
}

impl Etcd {
    /// One in clear.
    pub(crate) fn start() -> Self {
        Self::with("http", &[])
    }

    /// One with further options.
    pub(crate) fn with(scheme: &'static str, options: &[&str]) -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let options = options.iter().map(ToString::to_string).collect();
        let (port, peer_port) = (free_port(), free_port());
        let mut etcd = Self { process: None, port, peer_port, scheme, options, folder };
        etcd.begin();
        etcd
    }

    /// Starts it again with what it knew.
    pub(crate) fn begin(&mut self) {
        let (client, peer) = (self.url(), format!("http://127.0.0.1:{}", self.peer_port));
        let log = fs::File::create(self.folder.path().join("log")).unwrap();
        let mut command = Command::new("etcd");
        command.arg("--data-dir").arg(self.folder.path().join("data")).args([
            "--listen-client-urls",
            &client,
            "--advertise-client-urls",
            &client,
            "--listen-peer-urls",
            &peer,
            "--initial-advertise-peer-urls",
            &peer,
            "--initial-cluster",
            &format!("default={peer}"),
        ]);
        command.args(&self.options).stdout(Stdio::null()).stderr(log);
        let process = command.spawn();
        let process =
            process.unwrap_or_else(|error| panic!("etcd: {error}; `make test` installs it"));
        self.process = Some(process);
        let deadline = Instant::now() + PATIENCE;
        while !fs::read_to_string(self.folder.path().join("log")).unwrap().contains(READY) {
            assert!(Instant::now() < deadline, "etcd is ready");
            sleep(Duration::from_millis(20));
        }
    }

    /// Kills it.
    pub(crate) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("{}://127.0.0.1:{}", self.scheme, self.port)
    }

    /// What `etcdctl` says, which has to do it.
    pub(crate) fn control(&self, args: &[&str]) -> String {
        let output = Command::new("etcdctl")
            .env("ETCDCTL_API", "3")
            .args(["--endpoints", &self.url()])
            .args(args)
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{args:?}: {told}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Asks for passwords from now on: of `root` and of `loadline`, who may do this below a prefix.
    pub(crate) fn ask_for_passwords(&self, kind: &str, prefix: &str) {
        self.control(&["user", "add", "root:rootword"]);
        self.control(&["user", "grant-role", "root", "root"]);
        self.control(&["role", "add", "edges"]);
        self.control(&["role", "grant-permission", "edges", "--prefix=true", kind, prefix]);
        self.control(&["user", "add", "loadline:password"]);
        self.control(&["user", "grant-role", "loadline", "edges"]);
        self.control(&["auth", "enable"]);
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A port at which nobody listens unless the test has somebody do so.
pub(crate) fn free_port() -> u16 {
    reserved().port()
}

const READY: &str = "ready to serve client requests";
const PATIENCE: Duration = Duration::from_secs(30);
