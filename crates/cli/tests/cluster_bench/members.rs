//! An etcd of three members.

use std::{
    fs::File,
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::etcd::free_port;

/// Killed when it is dropped.
pub(crate) struct Members {
    members: Vec<EtcdMember>,
    folder: tempfile::TempDir,
}

struct EtcdMember {
    client: String,
    peer: String,
    process: Option<Child>,
}

impl Members {
    /// Three, of which one leads.
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let address = || format!("127.0.0.1:{}", free_port());
        let member = |_| EtcdMember { client: address(), peer: address(), process: None };
        let mut members = Self { members: (0..3).map(member).collect(), folder };
        members.begin_all();
        members
    }

    pub(crate) fn addresses(&self) -> impl Iterator<Item = &str> {
        self.members.iter().map(|member| &*member.client)
    }

    /// Starts all, and waits until one leads.
    pub(crate) fn begin_all(&mut self) {
        (0..self.members.len()).for_each(|nth| self.begin(nth));
        self.until_led();
    }

    pub(crate) fn kill_all(&mut self) {
        (0..self.members.len()).for_each(|nth| self.kill(nth));
    }

    /// Starts one with what it knew.
    pub(crate) fn begin(&mut self, nth: usize) {
        let peers = self.members.iter().enumerate();
        let peers: Vec<String> =
            peers.map(|(nth, it)| format!("member-{nth}=http://{}", it.peer)).collect();
        let member = &mut self.members[nth];
        let [client, peer] = [&member.client, &member.peer].map(|it| format!("http://{it}"));
        let name = format!("member-{nth}");
        let log = File::create(self.folder.path().join(format!("{name}.log"))).unwrap();
        let mut command = Command::new("etcd");
        command.arg("--data-dir").arg(self.folder.path().join(&name));
        for (option, value) in [
            ("--name", &*name),
            ("--listen-client-urls", &client),
            ("--advertise-client-urls", &client),
            ("--listen-peer-urls", &peer),
            ("--initial-advertise-peer-urls", &peer),
            ("--initial-cluster", &peers.join(",")),
        ] {
            command.args([option, value]);
        }
        member.process = Some(command.stdout(Stdio::null()).stderr(log).spawn().unwrap());
    }

    pub(crate) fn kill(&mut self, nth: usize) {
        if let Some(mut process) = self.members[nth].process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Waits until one leads, and says which.
    pub(crate) fn until_led(&self) -> usize {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(leader) = (0..self.members.len()).find(|nth| self.leads(*nth)) {
                return leader;
            }
            assert!(Instant::now() < deadline, "a member leads");
            sleep(Duration::from_millis(20));
        }
    }

    /// Whether it runs, and says that it leads.
    fn leads(&self, nth: usize) -> bool {
        let member = &self.members[nth];
        if member.process.is_none() {
            return false;
        }
        let output = Command::new("etcdctl")
            .env("ETCDCTL_API", "3")
            .args([
                "--endpoints", &member.client, "--dial-timeout", "1s", "--command-timeout", "1s",
            ])
            .args(["endpoint", "status", "-w", "json"])
            .output()
            .unwrap();
        let told: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let status = &told[0]["Status"];
        status["leader"].is_u64() && status["leader"] == status["header"]["member_id"]
    }
}

impl Drop for Members {
    fn drop(&mut self) {
        self.kill_all();
    }
}

const PATIENCE: Duration = Duration::from_secs(30);
