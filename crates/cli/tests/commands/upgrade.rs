//! A new process takes over from the one that runs, and nobody notices.

use std::{
    fs,
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream, UdpSocket},
    os::unix::{
        fs::{MetadataExt as _, chown, symlink},
        net::{UnixDatagram, UnixStream},
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use crate::{served::Worker, skipped::skipped};
use serde_json::Value;

/// A proxy with its file, and whoever has taken over from it.
struct Edge {
    first: Child,
    processes: Vec<String>,
    directory: tempfile::TempDir,
    address: String,
}

impl Edge {
    fn start(worker: &Worker) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), worker, "", Stdio::inherit())
    }

    /// With `more` in its file, which may name files of the directory, and its log in `log`.
    fn start_in(directory: tempfile::TempDir, worker: &Worker, more: &str, log: Stdio) -> Self {
        write(directory.path(), &worker.address, more);
        Self::started(directory, log)
    }

    /// With the file that is in the directory.
    fn started(directory: tempfile::TempDir, log: Stdio) -> Self {
        Self::started_with(&[], directory, log)
    }

    /// The same, with these variables of the environment.
    fn started_with(variables: &[(&str, &Path)], directory: tempfile::TempDir, log: Stdio) -> Self {
        let file = directory.path().join("loadline.toml");
        let mut first = loadline(&["serve", file.to_str().unwrap()]);
        first.envs(variables.iter().copied()).stderr(log);
        Self::started_by(first, directory)
    }

    /// By this command, with the file that is in the directory.
    fn started_by(mut first: Command, directory: tempfile::TempDir) -> Self {
        let mut first = first.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(first.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").unwrap().to_owned();
        let processes = vec![first.id().to_string()];
        Self { first, processes, directory, address }
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join("loadline.toml")
    }

    fn write(&self, server: &str, more: &str) {
        write(self.directory.path(), server, more);
    }

    /// Upgrades; the exit code and what was told.
    fn upgrade(&mut self) -> (Option<i32>, String) {
        let file = self.file();
        self.upgrade_by(&[file.to_str().unwrap()])
    }

    fn upgrade_by(&mut self, args: &[&str]) -> (Option<i32>, String) {
        let done = loadline(&[&["upgrade"][..], args].concat()).output().unwrap();
        let told = String::from_utf8(done.stdout).unwrap();
        if let Some(process) = told.strip_prefix("process ") {
            self.processes.push(process.split(' ').next().unwrap().to_owned());
        }
        (done.status.code(), told + &String::from_utf8(done.stderr).unwrap())
    }

    /// The process id in the file that the configuration names.
    fn pid(&self) -> Option<String> {
        let text = fs::read_to_string(self.directory.path().join("pid")).ok()?;
        Some(text.trim().to_owned())
    }

    /// Puts a configuration in the place of the first whose servers are those of a name, and which
    /// waits for 20 s for them. Gives the name server, which answers nobody.
    fn write_waiting(&self) -> UdpSocket {
        let name_server = UdpSocket::bind("127.0.0.1:0").unwrap();
        name_server.set_read_timeout(Some(PATIENCE)).unwrap();
        let more = format!(
            "[dns]\nservers = [\"{}\"]\ntimeout = \"20s\"\nstart_wait = \"20s\"\n",
            name_server.local_addr().unwrap()
        );
        let group = "discover = { dns = \"web.test:80\" }";
        write_group(self.directory.path(), group, &more);
        name_server
    }

    /// Whether the first process ends well, and soon.
    fn ends(&mut self) -> bool {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if let Some(status) = self.first.try_wait().unwrap() {
                self.processes.retain(|it| *it != self.first.id().to_string());
                return status.success();
            }
            thread::yield_now();
        }
        false
    }

    fn signal(&self, name: &str) {
        let last = self.processes.last().unwrap();
        assert!(Command::new("kill").args(["-s", name, last]).status().unwrap().success());
    }
}

impl Drop for Edge {
    fn drop(&mut self) {
        if let Some(last) = self.processes.last() {
            let _ = Command::new("kill").args(["-s", "KILL", last]).status();
        }
        // The first has ended by itself unless it is the last.
        let _ = self.first.kill();
        let _ = self.first.wait();
    }
}

fn loadline(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loadline"));
    command.args(args).env("NO_COLOR", "1").env_remove("RUST_LOG");
    command
}

/// Writes a configuration with one server and `more`. By a rename, as nobody may read half of it.
fn write(directory: &Path, server: &str, more: &str) {
    write_group(directory, &format!("servers = [\"{server}\"]"), more);
}

fn write_group(directory: &Path, group: &str, more: &str) {
    let (control, pid) = (directory.join("control"), directory.join("pid"));
    let text = format!(
        "[edge]\ncontrol = {control:?}\npid_file = {pid:?}\ndrain_timeout = \"5s\"\n\
         [[listener]]\nbind = \"127.0.0.1:0\"\nservice = \"web\"\n{more}[service.web]\n\
         [[service.web.group]]\n{group}\n"
    );
    fs::write(directory.join("next"), text).unwrap();
    fs::rename(directory.join("next"), directory.join("loadline.toml")).unwrap();
}

#[test]
fn the_new_process_serves_http3_while_the_old_one_drains() {
    let worker = Worker::start(&[]);
    let directory = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(["a.test".to_owned()]).unwrap();
    let pem = made.cert.pem() + &made.signing_key.serialize_pem();
    fs::write(directory.path().join("site.pem"), pem).unwrap();
    let log = directory.path().join("log");
    let more = "[[listener]]\nbind = \"127.0.0.1:0\"\nprotocol = \"https\"\nservice = \"web\"\n\
                tls = { certificates = [\"site.pem\"] }\n";
    let mut edge = Edge::start_in(directory, &worker, more, fs::File::create(&log).unwrap().into());
    let served = || fs::read_to_string(&log).unwrap().matches("HTTP/3 is served").count();
    let until_served = |times| {
        let deadline = Instant::now() + PATIENCE;
        while served() < times {
            assert!(Instant::now() < deadline, "{}", fs::read_to_string(&log).unwrap());
            thread::sleep(Duration::from_millis(10));
        }
    };
    until_served(1);
    for upgrades in 1..=2 {
        let (code, told) = edge.upgrade();
        assert_eq!(code, Some(0), "{told}");
        until_served(upgrades + 1);
    }
    assert!(!fs::read_to_string(&log).unwrap().contains("no HTTP/3"));
}

/// The response to a client that comes now.
fn asked_anew(address: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response
}

#[test]
fn once_an_upgrade_is_told_of_the_old_process_takes_nobody_in() {
    let worker = Worker::start(&[]);
    let says = |name: usize| {
        format!("routes = [{{ answer = {{ status = 200, body = \"process {name}\" }} }}]\n")
    };
    let directory = tempfile::tempdir().unwrap();
    let mut edge = Edge::start_in(directory, &worker, &says(0), Stdio::inherit());
    for upgrades in 1..=4 {
        edge.write(&worker.address, &says(upgrades));
        let (code, told) = edge.upgrade();
        assert_eq!(code, Some(0), "{told}");
        for _ in 0..10 {
            let response = asked_anew(&edge.address);
            assert!(response.ends_with(&format!("process {upgrades}")), "{response}");
        }
    }
}

/// What an admin interface says of how ready it is.
fn readiness(admin: &Path) -> io::Result<String> {
    let mut stream = UnixStream::connect(admin)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
    let mut response = String::new();
    stream.read_to_string(&mut response)?;
    Ok(response)
}

#[test]
fn an_edge_is_ready_all_the_while_it_is_upgraded() {
    let worker = Worker::start(&[]);
    let directory = tempfile::tempdir().unwrap();
    let admin = directory.path().join("admin");
    let more = format!("[admin]\nbind = {admin:?}\n");
    let mut edge = Edge::start_in(directory, &worker, &more, Stdio::inherit());
    let has_ended = AtomicBool::new(false);
    let (upgrades, answers) = thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let mut answers = Vec::new();
            while !has_ended.load(Ordering::Relaxed) {
                // A connection may end unanswered with the process that took it in.
                answers.extend(readiness(&admin).ok().filter(|it| !it.is_empty()));
            }
            answers
        });
        let upgrades: Vec<_> = (0..4).map(|_| edge.upgrade()).collect();
        has_ended.store(true, Ordering::Relaxed);
        (upgrades, asking.join().unwrap())
    });
    assert!(upgrades.iter().all(|(code, _)| *code == Some(0)), "{upgrades:?}");
    assert!(!answers.is_empty());
    let other = answers.iter().find(|it| !it.starts_with("HTTP/1.1 200 "));
    assert_eq!(other, None, "of {} answers", answers.len());
}

#[test]
fn a_reload_says_which_changes_need_a_restart() {
    let worker = Worker::start(&[]);
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let told = fs::File::create(&log).unwrap();
    let edge = Edge::start_in(directory, &worker, "", told.into());
    let text = fs::read_to_string(edge.file()).unwrap();
    let other = text.replace("[edge]\n", "[edge]\nthreads = 3\naccess_log = \"stdout\"\n")
        + "[cluster]\netcd = [\"http://127.0.0.1:1\"]\nid = \"shop\"\nname = \"e1\"\n";
    fs::write(edge.file(), other).unwrap();
    edge.signal("HUP");
    let deadline = Instant::now() + PATIENCE;
    while !fs::read_to_string(&log).unwrap().contains("reloaded") {
        assert!(Instant::now() < deadline, "{}", fs::read_to_string(&log).unwrap());
        thread::yield_now();
    }
    let told = fs::read_to_string(&log).unwrap();
    let changed: Vec<_> = told.lines().filter(|line| line.contains("needs a restart")).collect();
    let keys = ["`edge.threads`", "`edge.access_log`", "`cluster`"];
    assert_eq!(changed.len(), keys.len(), "{told}");
    assert!(changed.iter().zip(keys).all(|(line, key)| line.contains(key)), "{told}");
}

/// A proxy that becomes the user `nobody`, and has its access log in a directory of that user.
fn start_as_nobody(directory: tempfile::TempDir, worker: &Worker, told: Stdio) -> Edge {
    chown(directory.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    write(directory.path(), &worker.address, "");
    let file = directory.path().join("loadline.toml");
    let log = directory.path().join("access.log");
    let other = format!("[edge]\nuser = \"nobody\"\naccess_log = {log:?}\n");
    let text = fs::read_to_string(&file).unwrap().replace("[edge]\n", &other);
    fs::write(&file, text).unwrap();
    Edge::started(directory, told)
}

#[test]
fn a_process_that_runs_as_another_user_can_be_upgraded_with_its_access_log() {
    if !rustix::process::geteuid().is_root() {
        return skipped("an access log of another user: needs root");
    }
    let worker = Worker::start(&[]);
    let mut edge = start_as_nobody(tempfile::tempdir().unwrap(), &worker, Stdio::inherit());
    let (code, told) = edge.upgrade();
    assert_eq!(code, Some(0), "{told}");
}

#[test]
fn a_new_address_that_overlaps_one_of_the_user_before_says_that_it_needs_a_restart() {
    if !rustix::process::geteuid().is_root() {
        return skipped("an address that root has bound: needs root");
    }
    let worker = Worker::start(&[]);
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let told = fs::File::create(&log).unwrap();
    let edge = start_as_nobody(directory, &worker, told.into());
    let everywhere = edge.address.replace("127.0.0.1", "");
    let text = fs::read_to_string(edge.file()).unwrap();
    fs::write(edge.file(), text.replace("127.0.0.1:0", &everywhere)).unwrap();
    edge.signal("HUP");
    let deadline = Instant::now() + PATIENCE;
    while !fs::read_to_string(&log).unwrap().contains("not reloaded") {
        assert!(Instant::now() < deadline, "{}", fs::read_to_string(&log).unwrap());
        thread::yield_now();
    }
    let told = fs::read_to_string(&log).unwrap();
    let why = format!("it overlaps {}, which was bound before the change", edge.address);
    assert!(told.contains(&why), "{told}");
}

#[test]
fn a_link_in_the_place_of_the_access_log_gives_no_file_of_root_away() {
    if !rustix::process::geteuid().is_root() {
        return skipped("an access log of another user: needs root");
    }
    let worker = Worker::start(&[]);
    let directory = tempfile::tempdir().unwrap();
    let [victim, log] = ["victim", "access.log"].map(|name| directory.path().join(name));
    fs::write(&victim, "secret\n").unwrap();
    symlink(&victim, &log).unwrap();
    let mut edge = start_as_nobody(directory, &worker, Stdio::inherit());
    // Whoever answers this has become its user.
    assert_eq!(edge.upgrade().0, Some(2));
    assert_eq!(fs::metadata(&victim).unwrap().uid(), 0);
}

#[test]
fn upgrades_and_reloads_under_load_fail_no_request() {
    let worker = Worker::start(&[]);
    let mut edge = Edge::start(&worker);
    let url = format!("http://{}/", edge.address);
    let load = ["bench", &url, "--rate", "200", "--duration", "6s", "--json", "--quiet"];
    let load = loadline(&load).stdout(Stdio::piped()).spawn().unwrap();
    for round in 0..2 {
        for _ in 0..10 {
            let more = "[[listener]]\nbind = \"127.0.0.1:0\"\nservice = \"web\"\n";
            edge.write(&worker.address, more);
            edge.signal("HUP");
            edge.write(&worker.address, "");
            edge.signal("HUP");
        }
        let (code, told) = edge.upgrade();
        assert_eq!(code, Some(0), "upgrade {round}: {told}");
    }
    let record: Value = serde_json::from_slice(&load.wait_with_output().unwrap().stdout).unwrap();
    assert_eq!(record["outcomes"]["ok"], 1_200, "{record}");
    assert!(edge.first.wait().unwrap().success(), "the first process ends once it is through");
}

#[test]
fn a_server_that_hangs_and_is_known_to_be_down_gets_no_request_of_the_new_process_either() {
    let worker = Worker::start(&[]);
    // Its kernel takes connections, and nobody answers.
    let hangs = TcpListener::bind("127.0.0.1:0").unwrap();
    let directory = tempfile::tempdir().unwrap();
    // The new process finds that out by itself later than the requests below have ended.
    let group = format!(
        "servers = [\"{}\", \"{}\"]\n\
         [service.web.health]\nhttp = \"/\"\ninterval = \"3s\"\ntimeout = \"3s\"\n",
        hangs.local_addr().unwrap(),
        worker.address
    );
    write_group(directory.path(), &group, "");
    let file = directory.path().join("loadline.toml");
    let text = fs::read_to_string(&file).unwrap();
    let policy = "[service.web]\npolicy = \"round-robin\"\n";
    fs::write(&file, text.replace("[service.web]\n", policy)).unwrap();
    let log = directory.path().join("log");
    let mut edge = Edge::started(directory, fs::File::create(&log).unwrap().into());
    let deadline = Instant::now() + PATIENCE;
    while !fs::read_to_string(&log).unwrap().contains("server is down") {
        assert!(Instant::now() < deadline, "{}", fs::read_to_string(&log).unwrap());
        thread::sleep(Duration::from_millis(10));
    }
    let (code, told) = edge.upgrade();
    assert_eq!(code, Some(0), "{told}");
    let url = format!("http://{}/", edge.address);
    for _ in 0..4 {
        let asked = ["-sf", "--max-time", "1", "-X", "POST", &url];
        let answered = Command::new("curl").args(asked).output().unwrap();
        assert!(answered.status.success(), "{}", fs::read_to_string(&log).unwrap());
    }
}

#[test]
fn a_new_process_that_cannot_start_is_told_with_its_reason_and_the_old_one_goes_on() {
    let worker = Worker::start(&[]);
    let mut edge = Edge::start(&worker);
    let control = edge.directory.path().join("control");
    fs::write(edge.file(), "[service.web]\npolicy = \"least-request\"\n").unwrap();
    let asked = ["upgrade", "--socket", control.to_str().unwrap()];
    let refused = loadline(&asked).output().unwrap();
    let told = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2), "{told}");
    assert!(told.contains("least-request"), "{told}");
    let url = format!("http://{}/", edge.address);
    let answered = Command::new("curl").args(["-sf", &url]).output().unwrap();
    assert!(answered.status.success(), "the old one serves");
    edge.write(&worker.address, "");
    assert_eq!(edge.upgrade().0, Some(0), "and can be upgraded later");
}

#[test]
fn a_process_without_proc_serves_and_says_what_is_missing_when_it_is_upgraded() {
    let own_proc = |then: &str, args: &[&str]| {
        let mut command = Command::new("unshare");
        let line = format!("mount -t tmpfs none /proc && {then}");
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c", &line]).args(args);
        command
    };
    if !own_proc("true", &[]).output().is_ok_and(|tried| tried.status.success()) {
        return skipped("a machine without /proc: needs user namespaces");
    }
    let worker = Worker::start(&[]);
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), &worker.address, "");
    let file = directory.path().join("loadline.toml");
    let args = [env!("CARGO_BIN_EXE_loadline"), file.to_str().unwrap()];
    let first = own_proc("exec \"$0\" serve \"$1\"", &args);
    let mut edge = Edge::started_by(first, directory);
    let (code, told) = edge.upgrade();
    assert_eq!(code, Some(2), "{told}");
    assert!(told.contains("no /proc/self/exe available"), "{told}");
    assert!(asked_anew(&edge.address).starts_with("HTTP/1.1 200 "), "it goes on");
}

#[test]
fn an_upgrade_that_is_refused_is_told_to_the_process_manager_at_once() {
    let worker = Worker::start(&[]);
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("notify");
    let manager = UnixDatagram::bind(&place).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let told = || {
        let mut text = [0; 4_096];
        let length = manager.recv(&mut text).unwrap();
        String::from_utf8(text[..length].to_vec()).unwrap()
    };
    write(directory.path(), &worker.address, "");
    let variables = [("NOTIFY_SOCKET", place.as_path())];
    let edge = Edge::started_with(&variables, directory, Stdio::inherit());
    assert_eq!(told(), "READY=1");
    fs::write(edge.file(), "[service.web]\npolicy = \"least-request\"\n").unwrap();
    edge.signal("USR2");
    let status = told();
    assert!(status.starts_with("STATUS=not upgraded: "), "{status}");
    assert!(status.contains("least-request") && !status.contains('\n'), "{status}");
}

#[test]
fn the_process_id_in_the_file_is_that_of_the_process_that_serves() {
    let worker = Worker::start(&[]);
    let mut edge = Edge::start(&worker);
    assert_eq!(edge.pid(), Some(edge.first.id().to_string()));
    let (code, told) = edge.upgrade();
    assert_eq!(code, Some(0), "{told}");
    assert_eq!(edge.pid().as_ref(), edge.processes.last());
    assert!(edge.ends());
    assert_eq!(edge.pid().as_ref(), edge.processes.last(), "the first leaves it to the second");
    edge.signal("TERM");
    let deadline = Instant::now() + PATIENCE;
    while edge.pid().is_some() {
        assert!(Instant::now() < deadline, "it goes with the last");
        thread::yield_now();
    }
    edge.processes.clear();
}

#[test]
fn the_sockets_of_control_and_admin_stay_for_the_next_process_and_go_with_the_last() {
    let worker = Worker::start(&[]);
    let directory = tempfile::tempdir().unwrap();
    let sockets = ["control", "admin"].map(|name| directory.path().join(name));
    let more = format!("[admin]\nbind = {:?}\n", sockets[1]);
    let mut edge = Edge::start_in(directory, &worker, &more, Stdio::inherit());
    let (code, told) = edge.upgrade();
    assert_eq!(code, Some(0), "{told}");
    assert!(edge.ends());
    assert!(sockets.iter().all(|path| path.exists()), "the second process answers there");
    edge.signal("TERM");
    let deadline = Instant::now() + PATIENCE;
    while sockets.iter().any(|path| path.exists()) {
        assert!(Instant::now() < deadline, "they go with the last");
        thread::yield_now();
    }
    edge.processes.clear();
}

#[test]
fn sockets_at_whose_path_the_next_process_does_not_listen_go_with_the_first() {
    let worker = Worker::start(&[]);
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let (old, new) = (["control", "admin"].map(path), ["control-2", "admin-2"].map(path));
    let more = format!("[admin]\nbind = {:?}\n", old[1]);
    let mut edge = Edge::start_in(directory, &worker, &more, Stdio::inherit());
    let mut text = fs::read_to_string(edge.file()).unwrap();
    for (old, new) in old.iter().zip(&new) {
        text = text.replace(&format!("{old:?}"), &format!("{new:?}"));
    }
    fs::write(edge.file(), text).unwrap();
    let (code, told) = edge.upgrade_by(&["--socket", old[0].to_str().unwrap()]);
    assert_eq!(code, Some(0), "{told}");
    assert!(edge.ends());
    assert!(!old.iter().any(|path| path.exists()), "nobody answers there");
    assert!(new.iter().all(|path| path.exists()), "the second process answers there");
    edge.signal("TERM");
    let deadline = Instant::now() + PATIENCE;
    while new.iter().any(|path| path.exists()) {
        assert!(Instant::now() < deadline, "they go with the last");
        thread::yield_now();
    }
    edge.processes.clear();
}

#[test]
fn who_is_told_to_stop_while_the_next_process_starts_stops() {
    let worker = Worker::start(&[]);
    let mut edge = Edge::start(&worker);
    let name_server = edge.write_waiting();
    edge.signal("USR2");
    name_server.recv(&mut [0; 512]).unwrap();
    edge.signal("TERM");
    assert!(edge.ends());
    assert!(TcpStream::connect(&edge.address).is_err(), "and so does the next");
    assert_eq!(edge.pid(), None);
}

#[test]
fn who_is_told_to_stop_while_a_reload_asks_for_names_stops() {
    let worker = Worker::start(&[]);
    let mut edge = Edge::start(&worker);
    let name_server = edge.write_waiting();
    edge.signal("HUP");
    name_server.recv(&mut [0; 512]).unwrap();
    edge.signal("TERM");
    assert!(edge.ends());
}

/// Longer than anything takes that goes right, and shorter than a name is waited for.
const PATIENCE: Duration = Duration::from_secs(15);

/// The user of that name, on every Linux.
const NOBODY: u32 = 65_534;
