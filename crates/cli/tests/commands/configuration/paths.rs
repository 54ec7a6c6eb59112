//! Paths in a file count from its directory: at the start, after a reload and after an upgrade.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use super::said::loadline;
use crate::becomes::becomes;

#[test]
fn a_file_names_its_neighbours_wherever_loadline_is_started() {
    let site = ConfigurationTree::new();
    let checked = loadline(&["check", "etc/a.toml"], site.directory.path());
    assert_eq!(checked.code, Some(0), "{}", checked.text);
    let edge = Edge::start(&site);
    for name in ["access.log", "loadline.pid", "control.sock"] {
        assert!(site.etc(name).exists(), "{name}");
    }
    assert_eq!(site.pid(), Some(edge.0.id()));
    fs::rename(site.etc("tls"), site.etc("new")).unwrap();
    fs::rename(site.etc("web.toml"), site.etc("new/web.toml")).unwrap();
    site.write(&CONFIG.replace("tls/", "new/").replace("\"web.toml\"", "\"new/web.toml\""));
    site.signal("HUP", edge.0.id());
    assert!(becomes(|| site.log().contains("reloaded")));
    assert!(!site.log().contains("not reloaded"), "{}", site.log());
    let upgraded = loadline(&["upgrade", "etc/a.toml"], site.directory.path());
    assert_eq!(upgraded.code, Some(0), "{} {}", upgraded.text, site.log());
    let next = site.pid().unwrap();
    assert_ne!(next, edge.0.id());
    site.write(&CONFIG.replace("control.sock", "moved.sock"));
    let moved = loadline(&["upgrade", "etc/a.toml"], site.directory.path());
    let faults = moved.faults(2, &["moved.sock", "--socket with the old path, or kill -USR2"]);
    assert!(faults.is_empty(), "{faults:?}: {}", moved.text);
    site.signal("TERM", next);
    assert!(becomes(|| !site.etc("loadline.pid").exists()));
}

#[test]
fn a_reload_refuses_what_it_cannot_use_and_not_what_the_start_alone_needed() {
    let site = ConfigurationTree::new();
    let edge = Edge::start(&site);
    for name in ["token", "access.log"] {
        fs::remove_file(site.etc(name)).unwrap();
    }
    site.signal("HUP", edge.0.id());
    assert!(becomes(|| site.log().contains("reloaded")));
    assert!(!site.log().contains("not reloaded"), "{}", site.log());
    site.write(&CONFIG.replace("certificates = [\"tls/site", "certificates = [\"tls/none"));
    site.signal("HUP", edge.0.id());
    assert!(becomes(|| site.log().contains("not reloaded")));
    let log = site.log();
    let place =
        format!("a.toml:{}:25]", 1 + CONFIG[..CONFIG.find("tls = {").unwrap()].lines().count());
    assert!(log.contains(&place) && log.contains("cannot read the certificate"), "{log}");
}

#[test]
fn with_watch_a_certificate_that_comes_after_the_configuration_that_names_it_is_used() {
    let site = ConfigurationTree::new();
    let _edge = Edge::start_with(&site, &["--watch"]);
    site.write(&CONFIG.replace("certificates = [\"tls/site", "certificates = [\"tls/later"));
    assert!(becomes(|| site.log().contains("not reloaded")), "{}", site.log());
    fs::copy(site.etc("tls/site.pem"), site.etc("tls/later.pem")).unwrap();
    let is_reloaded = || site.log().replace("not reloaded", "").contains("reloaded");
    assert!(becomes(is_reloaded), "{}", site.log());
}

#[test]
fn with_watch_a_file_that_is_replaced_by_the_same_bytes_leaves_a_drained_server_drained() {
    let site = ConfigurationTree::new();
    let socket = site.directory.path().join("admin.sock");
    let bind = format!("bind = {socket:?}\ntoken_file");
    let config = CONFIG.replace("bind = \"127.0.0.1:0\"\ntoken_file", &bind);
    site.write(&config);
    let _edge = Edge::start_with(&site, &["--watch"]);
    let place = ["--at", socket.to_str().unwrap(), "--token-file", "etc/token", "--json"];
    let change = |what: &[&str]| loadline(&[what, &place].concat(), site.directory.path());
    let drained = change(&["drain", "127.0.0.1:9"]);
    assert_eq!(drained.code, Some(0), "{}", drained.text);
    fs::write(site.etc("next"), &config).unwrap();
    fs::rename(site.etc("next"), site.etc("a.toml")).unwrap();
    let is_noticed = || ["not read again", "reloaded"].iter().any(|it| site.log().contains(it));
    assert!(becomes(is_noticed), "{}", site.log());
    // Each change tells of all that are in force.
    let changes = change(&["maintenance", "web"]);
    assert!(changes.text.contains("\"mode\": \"drain\""), "{} {}", changes.text, site.log());
}

const CONFIG: &str = r#"[edge]
access_log = "access.log"
pid_file = "loadline.pid"
control = "control.sock"
drain_timeout = "0s"

[admin]
bind = "127.0.0.1:0"
token_file = "./token"

[[listener]]
bind = "127.0.0.1:0"
protocol = "https"
service = "web"
tls = { certificates = ["tls/site.pem"], client_authorities = "tls/site.pem" }

[service.web]
tls = { authorities = "../etc/tls/site.pem", certificate = { chain = "tls/site.pem" } }

[[service.web.group]]
discover = { file = "web.toml" }
"#;

/// A directory with a configuration in `etc`, and beside it all that it names.
struct ConfigurationTree {
    directory: tempfile::TempDir,
}

impl ConfigurationTree {
    fn new() -> Self {
        let site = Self { directory: tempfile::tempdir().unwrap() };
        fs::create_dir_all(site.etc("tls")).unwrap();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        fs::copy(root.join("examples/tls/localhost.pem"), site.etc("tls/site.pem")).unwrap();
        fs::write(site.etc("token"), "0123456789abcdef\n").unwrap();
        fs::write(site.etc("web.toml"), "servers = [\"127.0.0.1:9\"]\n").unwrap();
        site.write(CONFIG);
        site
    }

    fn etc(&self, name: &str) -> PathBuf {
        self.directory.path().join("etc").join(name)
    }

    fn write(&self, text: &str) {
        fs::write(self.etc("a.toml"), text).unwrap();
    }

    fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap()
    }

    fn pid(&self) -> Option<u32> {
        fs::read_to_string(self.etc("loadline.pid")).ok()?.trim().parse().ok()
    }

    fn signal(&self, name: &str, process: u32) {
        let told = Command::new("kill").args(["-s", name, &process.to_string()]).status();
        assert!(told.unwrap().success(), "{}", self.log());
    }
}

/// A process that serves; ended where the test has not.
struct Edge(Child);

impl Edge {
    fn start(site: &ConfigurationTree) -> Self {
        Self::start_with(site, &[])
    }

    fn start_with(site: &ConfigurationTree, arguments: &[&str]) -> Self {
        let log = fs::File::create(site.directory.path().join("log")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_loadline"));
        command.args(["serve", "etc/a.toml"]).args(arguments);
        command.current_dir(site.directory.path());
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let edge = Self(child);
        assert!(line.starts_with("listening on"), "{line}{}", site.log());
        edge
    }
}

impl Drop for Edge {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
