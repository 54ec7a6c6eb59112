//! An edge that gets its certificates from pebble.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{etcd::Etcd, pebble::Pebble};

/// Its files, and its process while it runs; killed when it is dropped.
pub(crate) struct Edge {
    folder: tempfile::TempDir,
    process: Option<Child>,
    admin: String,
    address: String,
    tls_port: u16,
    root: PathBuf,
}

impl Edge {
    /// One that is told this of the authority beside directory, CA and state directory, and that
    /// takes requests in clear or not.
    pub(crate) fn of(pebble: &Pebble, acme: &str, in_clear: bool) -> Self {
        Self::at("127.0.0.1", pebble, ("", acme), in_clear)
    }

    /// The `nth` of a cluster with this store, at an address of its own.
    pub(crate) fn of_cluster(
        nth: u32,
        etcd: &Etcd,
        pebble: &Pebble,
        acme: &str,
        in_clear: bool,
    ) -> Self {
        let cluster = format!(
            "[cluster]\netcd = [{:?}]\nname = \"edge-{nth}\"\nlease = \"2s\"\n\
             state_dir = \"cluster\"\n",
            etcd.url()
        );
        Self::at(&format!("127.0.0.{nth}"), pebble, (&cluster, acme), in_clear)
    }

    fn at(address: &str, pebble: &Pebble, (cluster, acme): (&str, &str), in_clear: bool) -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let ok = "routes = [{ answer = { status = 200, body = \"served\" } }]";
        let mut text = format!(
            "{cluster}[admin]\nbind = \"127.0.0.1:0\"\n[[listener]]\nbind = \"{address}:{}\"\n\
             protocol = \"https\"\nservice = \"web\"\n{ok}\n[listener.tls.acme]\n\
             directory = {:?}\nca = {:?}\nstate_dir = \"state\"\n{acme}\n",
            pebble.tls_port,
            pebble.directory(),
            pebble.authorities(),
        );
        if in_clear {
            let redirect = "routes = [{ redirect = { scheme = \"https\" } }]";
            text += &format!(
                "[[listener]]\nbind = \"{address}:{}\"\nservice = \"web\"\n{redirect}\n",
                pebble.http_port
            );
        }
        text += "[service.web]\n[[service.web.group]]\nservers = [\"127.0.0.1:1\"]\n";
        fs::write(folder.path().join("edge.toml"), text).unwrap();
        let (process, admin) = (None, String::new());
        let (tls_port, root) = (pebble.tls_port, pebble.root());
        Self { folder, process, admin, address: address.to_owned(), tls_port, root }
    }

    pub(crate) fn begin(&mut self) {
        let log = fs::OpenOptions::new().create(true).append(true).open(self.log_file()).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_loadline"));
        command.arg("serve").arg(self.folder.path().join("edge.toml"));
        command.env_remove("RUST_LOG").env("NO_COLOR", "1");
        let mut process = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut lines = lines.map(Result::unwrap);
        let place = lines.find_map(|it| it.strip_prefix("administration on ").map(str::to_owned));
        self.admin = place.unwrap_or_else(|| panic!("{}", self.log()));
        self.process = Some(process);
    }

    /// Ends it at once, without a word to anybody.
    pub(crate) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Tells it something by a signal.
    pub(crate) fn signal(&self, name: &str) {
        let id = self.process.as_ref().unwrap().id().to_string();
        assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
    }

    /// Writes the configuration anew, with this in the place of that.
    pub(crate) fn edit(&self, from: &str, to: &str) {
        let path = self.folder.path().join("edge.toml");
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{from} in {text}");
        fs::write(path, text.replacen(from, to, 1)).unwrap();
    }

    /// What it says of certificates by ACME.
    pub(crate) fn acme(&self) -> Vec<Value> {
        let state: Value = serde_json::from_str(&self.get("/api/state")).unwrap();
        state["acme"].as_array().cloned().unwrap_or_default()
    }

    /// Asks until so many certificates are as wanted.
    pub(crate) fn until(&self, count: usize, wanted: impl Fn(&Value) -> bool) -> Vec<Value> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let acme = self.acme();
            if acme.iter().filter(|it| wanted(it)).count() >= count {
                return acme;
            }
            assert!(Instant::now() < deadline, "{acme:#?}\n{}", self.log());
            sleep(Duration::from_millis(50));
        }
    }

    /// Waits until its log has all of these words: it is written after what they tell.
    pub(crate) fn until_logged(&self, words: &[&str]) {
        self.until(1, |_| words.iter().all(|it| self.log().contains(it)));
    }

    pub(crate) fn get(&self, path: &str) -> String {
        let url = format!("http://{}{path}", self.admin);
        let output = Command::new("curl").args(["-sS", &url]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    /// A request to this name, whose certificate has to be right.
    pub(crate) fn request(&self, name: &str) -> Output {
        let port = self.tls_port;
        Command::new("curl")
            .args(["-sS", "--max-time", "10", "--cacert"])
            .arg(&self.root)
            .args(["--resolve", &format!("{name}:{port}:{}", self.address)])
            .arg(format!("https://{name}:{port}/"))
            .output()
            .unwrap()
    }

    /// Sends such a request, which has to be served.
    pub(crate) fn serves(&self, name: &str) {
        let output = self.request(name);
        let said = String::from_utf8_lossy(&output.stdout);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(said, "served", "{name}: {error}\n{}", self.log());
    }

    /// The file of the certificate for `name`.
    pub(crate) fn certificate(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.state().join(format!("{name}.pem"))).ok()
    }

    /// The only folder of its state directory.
    pub(crate) fn state(&self) -> PathBuf {
        let mut folders = fs::read_dir(self.folder.path().join("state")).into_iter().flatten();
        folders.next().map(|it| it.unwrap().path()).unwrap_or_default()
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    fn log_file(&self) -> PathBuf {
        self.folder.path().join("log")
    }
}

impl Drop for Edge {
    fn drop(&mut self) {
        self.kill();
    }
}

const PATIENCE: Duration = Duration::from_secs(40);
