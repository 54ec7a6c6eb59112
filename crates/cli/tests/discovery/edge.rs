//! A proxy that follows lists, with its administration.

use std::{
    fs,
    io::{BufRead as _, BufReader, Lines},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::served::Worker;

/// A proxy for one service `web` with one group; killed when it is dropped.
pub(crate) struct Edge {
    child: Child,
    pub(crate) traffic: String,
    pub(crate) admin: String,
    log: PathBuf,
    _folder: tempfile::TempDir,
}

impl Edge {
    /// A proxy whose only group has these lines; `more` stands at the top of the file.
    pub(crate) fn start(more: &str, group: &str) -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let (file, log) = (folder.path().join("edge.toml"), folder.path().join("log"));
        let token = folder.path().join("token");
        fs::write(&token, TOKEN).unwrap();
        let text = format!(
            "{more}\n[admin]\nbind = \"127.0.0.1:0\"\ntoken_file = {token:?}\n\
             [[listener]]\nbind = \"127.0.0.1:0\"\nservice = \"web\"\n[service.web]\n\
             [[service.web.group]]\nregion = \"here\"\n{group}\n"
        );
        fs::write(&file, text).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_loadline"));
        let command = command.arg("serve").arg(&file).env_remove("RUST_LOG").env("NO_COLOR", "1");
        let command = command.stdout(Stdio::piped()).stderr(fs::File::create(&log).unwrap());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut after = |start: &str| after(&mut lines, start, &log);
        let (traffic, admin) = (after("listening on "), after("administration on "));
        Self { child, traffic, admin, log, _folder: folder }
    }

    /// Offers 100 requests per second for so many seconds; the record comes at the end.
    pub(crate) fn load(&self, seconds: u32) -> Child {
        let (url, duration) = (format!("http://{}/", self.traffic), format!("{seconds}s"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_loadline"));
        command
            .args(["bench", &url, "--rate", "100", "--duration", &duration, "--json", "--quiet"]);
        command.stdout(Stdio::piped()).spawn().unwrap()
    }

    /// What is told of the only group.
    pub(crate) fn group(&self) -> Value {
        let service = curl(&[&format!("http://{}/api/services/web", self.admin)]);
        let service: Value = serde_json::from_str(&service).unwrap();
        service["groups"][0].clone()
    }

    /// Asks for the group until it is as wanted, for twenty seconds.
    pub(crate) fn until(&self, wanted: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let group = self.group();
            if wanted(&group) {
                return group;
            }
            assert!(Instant::now() < deadline, "stays {group:#}\n{}", self.log());
        }
    }

    /// Waits until its log has all of these words: it is written after what they tell.
    pub(crate) fn until_logged(&self, words: &[&str]) {
        self.until(|_| words.iter().all(|it| self.log().contains(it)));
    }

    /// Tells it to end, and waits for that.
    pub(crate) fn stop(&mut self) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        assert!(self.child.wait().unwrap().success(), "{}", self.log());
    }

    /// Waits until the servers of the group are these.
    pub(crate) fn until_servers(&self, servers: &[&Worker]) -> Value {
        let mut wanted: Vec<&str> = servers.iter().map(|it| it.address.as_str()).collect();
        wanted.sort_unstable();
        self.until(|group| addresses(group) == wanted)
    }

    /// Sends a change of a server of the group.
    pub(crate) fn change(&self, server: &str, body: &str) {
        let url = format!("http://{}/api/services/web/groups/here/servers/{server}", self.admin);
        let auth = format!("Authorization: Bearer {TOKEN}");
        let answer =
            curl(&["-f", "-H", &auth, "-H", "Content-Type: application/json", "-d", body, &url]);
        assert!(answer.contains("changes"), "{answer}");
    }

    /// The changes as lines for the file.
    pub(crate) fn lines(&self) -> String {
        curl(&[&format!("http://{}/api/changes.toml", self.admin)])
    }

    /// The value of a sample.
    pub(crate) fn metric(&self, series: &str) -> String {
        let text = curl(&[&format!("http://{}/metrics", self.admin)]);
        let line = text.lines().find_map(|line| line.strip_prefix(series));
        line.unwrap_or_else(|| panic!("{series} in {text}")).trim().to_owned()
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }
}

impl Drop for Edge {
    fn drop(&mut self) {
        // Both fail where it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The addresses of the servers of a group, in their order.
pub(crate) fn addresses(group: &Value) -> Vec<&str> {
    let servers = group["servers"].as_array().into_iter().flatten();
    let mut addresses: Vec<&str> = servers.map(|it| it["address"].as_str().unwrap()).collect();
    addresses.sort_unstable();
    addresses
}

/// Waits for a load to end, of which every request has to be answered well.
pub(crate) fn assert_all_well(load: Child) {
    let output = load.wait_with_output().unwrap();
    let record: Value = serde_json::from_slice(&output.stdout).unwrap();
    let outcomes = record["outcomes"].as_object().unwrap();
    let failed: Vec<_> = outcomes.iter().filter(|it| it.0 != "ok" && *it.1 != 0).collect();
    assert!(failed.is_empty() && outcomes["ok"].as_u64() > Some(0), "{outcomes:?}");
}

/// Puts a file in the place of another at once.
pub(crate) fn replace(path: &Path, text: &str) {
    let next = path.with_extension("next");
    fs::write(&next, text).unwrap();
    fs::rename(&next, path).unwrap();
}

fn curl(args: &[&str]) -> String {
    let output = Command::new("curl").arg("-sS").args(args).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

fn after(lines: &mut Lines<BufReader<ChildStdout>>, start: &str, log: &Path) -> String {
    let line = lines.next().unwrap_or_else(|| panic!("{}", fs::read_to_string(log).unwrap()));
    let line = line.unwrap();
    line.strip_prefix(start).unwrap_or_else(|| panic!("{line}")).to_owned()
}

const TOKEN: &str = "0123456789abcdef0123456789abcdef";
