//! An edge of a cluster.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::etcd::Etcd;

/// The files of an edge, and its process while it runs; killed when it is dropped.
pub(crate) struct Edge {
    pub(crate) file: PathBuf,
    log: PathBuf,
    process: Option<Child>,
    pub(crate) traffic: String,
    admin: String,
    folder: tempfile::TempDir,
}

impl Edge {
    /// Files that name this store. `cluster` is added to the table of the cluster, `more` to the
    /// file.
    pub(crate) fn of(etcd: &Etcd, name: &str, cluster: &str, more: &str) -> Self {
        Self::at(&[etcd.url()], name, cluster, more)
    }

    /// Files that name the store at these URLs.
    pub(crate) fn at(urls: &[String], name: &str, cluster: &str, more: &str) -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let (file, log) = (folder.path().join("edge.toml"), folder.path().join("log"));
        fs::write(folder.path().join("token"), "0123456789abcdef0123456789abcdef").unwrap();
        let text = format!(
            "[edge]\nregion = \"here\"\n[admin]\nbind = \"127.0.0.1:0\"\n\
             token_file = \"token\"\n[cluster]\netcd = {urls:?}\nname = \"{name}\"\n\
             lease = \"2s\"\nstate_dir = \"state\"\n{cluster}\n[[listener]]\n\
             bind = \"127.0.0.1:0\"\nservice = \"web\"\n{more}\n"
        );
        fs::write(&file, text).unwrap();
        let (traffic, admin) = (String::new(), String::new());
        Self { file, log, process: None, traffic, admin, folder }
    }

    /// Writes something else in its file.
    pub(crate) fn edit(&self, from: &str, to: &str) {
        let text = fs::read_to_string(&self.file).unwrap();
        assert!(text.contains(from), "{from} in {text}");
        fs::write(&self.file, text.replace(from, to)).unwrap();
    }

    /// Starts it, which has to work.
    pub(crate) fn start(mut self) -> Self {
        self.begin();
        self
    }

    pub(crate) fn begin(&mut self) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_loadline"));
        command.arg("serve").arg(&self.file).env_remove("RUST_LOG").env("NO_COLOR", "1");
        command.stdout(Stdio::piped()).stderr(fs::File::create(&self.log).unwrap());
        let mut process = command.spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut after = |start: &str| {
            let line = lines.next().unwrap_or_else(|| panic!("{}", self.log())).unwrap();
            line.strip_prefix(start).unwrap_or_else(|| panic!("{line}")).to_owned()
        };
        let (traffic, admin) = (after("listening on "), after("administration on "));
        (self.traffic, self.admin, self.process) = (traffic, admin, Some(process));
    }

    /// What it says of the cluster.
    pub(crate) fn cluster(&self) -> Value {
        self.state()["cluster"].clone()
    }

    /// What it says of itself.
    pub(crate) fn state(&self) -> Value {
        let output = Command::new("curl")
            .args(["-sS", &format!("http://{}/api/state", self.admin)])
            .output()
            .unwrap();
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Asks until it is as wanted.
    pub(crate) fn until(&self, wanted: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let cluster = self.cluster();
            if wanted(&cluster) {
                return cluster;
            }
            assert!(Instant::now() < deadline, "stays {cluster:#}\n{}", self.log());
            sleep(Duration::from_millis(50));
        }
    }

    /// Waits until this version runs.
    pub(crate) fn until_runs(&self, version: u64) -> Value {
        self.until(|it| it["configuration"] == version)
    }

    /// Waits until this is what is wrong with the store.
    pub(crate) fn until_fault(&self, kind: &str) -> Value {
        self.until(|it| it["fault"]["kind"] == kind)
    }

    /// Waits until its log has all of these words: it is written after what they tell.
    pub(crate) fn until_logged(&self, words: &[&str]) {
        self.until(|_| words.iter().all(|it| self.log().contains(it)));
    }

    /// The status of a response to a request.
    pub(crate) fn request(&self) -> String {
        let url = format!("http://{}/", self.traffic);
        let command = ["-sS", "-o", "/dev/null", "-w", "%{http_code}", &url];
        let output = Command::new("curl").args(command).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    /// The samples of a metric.
    pub(crate) fn metrics(&self) -> String {
        let url = format!("http://{}/metrics", self.admin);
        let output = Command::new("curl").args(["-sS", &url]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    /// Ends it at once, without a word to anybody.
    pub(crate) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Of its process, which runs.
    pub(crate) fn id(&self) -> u32 {
        self.process.as_ref().unwrap().id()
    }

    /// Has another process take over from it, which nobody waits for: it ends when this is dropped.
    pub(crate) fn upgrade(&mut self) -> Successor {
        let mut command = Command::new(env!("CARGO_BIN_EXE_loadline"));
        let done = command.arg("upgrade").arg(&self.file).output().unwrap();
        let told = String::from_utf8(done.stdout).unwrap();
        let process = told.strip_prefix("process ").and_then(|told| told.split(' ').next());
        let process = process.unwrap_or_else(|| panic!("{told}{}", self.log()));
        Successor(process.to_owned())
    }

    /// Waits until its process has ended, which it has to do by itself.
    pub(crate) fn until_ended(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let ended = self.process.as_mut().and_then(|process| process.try_wait().unwrap());
            if let Some(status) = ended {
                assert!(status.success(), "{}", self.log());
                return;
            }
            assert!(Instant::now() < deadline, "{}", self.log());
            sleep(Duration::from_millis(50));
        }
    }

    /// Tells it to end, and waits for that.
    pub(crate) fn stop(&mut self) {
        let id = self.process.is_some().then(|| self.id().to_string());
        if let Some((mut process, id)) = self.process.take().zip(id) {
            assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
            assert!(process.wait().unwrap().success(), "{}", self.log());
        }
    }
}

impl Drop for Edge {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The id of a process that has taken over.
pub(crate) struct Successor(String);

impl Drop for Successor {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-KILL", &self.0]).status();
    }
}

/// A service of this name with this server.
pub(crate) fn service(name: &str, server: &str) -> String {
    format!(
        "[service.{name}]\n[[service.{name}.group]]\nregion = \"here\"\nservers = [{server:?}]\n"
    )
}

const PATIENCE: Duration = Duration::from_secs(30);
