//! Processes of the binary under test.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead as _, BufReader, Read as _},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

use crate::becomes::becomes;

/// A worker or a proxy that is ready; killed where a test fails before it was stopped.
pub(crate) struct Process {
    child: Child,
    pub(crate) address: String,
}

/// How a process ended.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) log: String,
}

impl Process {
    /// Starts `loadline` with these arguments and waits for its first address.
    pub(crate) fn start(args: &[&str]) -> Self {
        Self::listening::<1>(args).0
    }

    /// The same with the addresses of its first listeners.
    pub(crate) fn listening<const N: usize>(args: &[&str]) -> (Self, [String; N]) {
        Self::of(loadline(args).stderr(Stdio::piped()))
    }

    /// The same, telling all that it can into a file.
    pub(crate) fn telling_all(args: &[&str], log: &Path) -> Self {
        let log = fs::File::create(log).unwrap();
        Self::of::<1>(loadline(args).env("RUST_LOG", "trace").stderr(log)).0
    }

    /// As [`Process::listening`], with the log there.
    pub(crate) fn telling<const N: usize>(
        args: &[&str],
        log: impl Into<Stdio>,
    ) -> (Self, [String; N]) {
        Self::of(loadline(args).stderr(log))
    }

    /// Starts this command of `loadline` as [`Process::start`] does.
    pub(crate) fn of_command(mut command: Command) -> Self {
        Self::of::<1>(command.stderr(Stdio::piped())).0
    }

    fn of<const N: usize>(command: &mut Command) -> (Self, [String; N]) {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
        let addresses = [(); N].map(|()| {
            let line = said.next().transpose().unwrap().unwrap_or_default();
            line.strip_prefix("listening on ").map(str::to_owned).ok_or(line)
        });
        if let Some(Err(line)) = addresses.iter().find(|address| address.is_err()) {
            panic!("{command:?} did not start: {line}{}", end(child).log);
        }
        let addresses = addresses.map(Result::unwrap);
        (Self { child, address: addresses[0].clone() }, addresses)
    }

    /// Its memory that is not shared with a file, in bytes.
    pub(crate) fn memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
        line.split_whitespace().next().unwrap().parse::<u64>().unwrap() << 10
    }

    /// A test server that answers at once with 100 bytes.
    pub(crate) fn fixed() -> Self {
        Self::start(&["worker", "fixed", "--listen", "127.0.0.1:0"])
    }

    /// A proxy in front of these servers.
    pub(crate) fn proxy(servers: &[&Self]) -> Self {
        let mut args = vec!["serve", "--listen", "127.0.0.1:0"];
        servers.iter().for_each(|server| args.extend(["--to", &server.address]));
        Self::start(&args)
    }

    /// The URL of a path on it.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal by name.
    pub(crate) fn signal(&self, name: &str) {
        let told = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status();
        assert!(told.unwrap().success());
    }

    /// Waits for it to end by itself.
    pub(crate) fn wait(mut self) -> Ended {
        let child = std::mem::replace(&mut self.child, idle());
        end(child)
    }

    /// Asks it to stop and waits for it.
    pub(crate) fn terminate(self) -> Ended {
        self.signal("TERM");
        self.wait()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail where the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Ended {
    /// How requests ended, by the name of the ending, as the proxy tells when it stops.
    pub(crate) fn endings(&self) -> BTreeMap<String, u64> {
        let line = self.log.lines().find(|line| line.contains("stopped")).unwrap();
        let pairs = line.split_whitespace().filter_map(|word| word.split_once('='));
        pairs.filter_map(|(name, count)| Some((name.to_owned(), count.parse().ok()?))).collect()
    }
}

/// `loadline` with these arguments, as [`Process::start`] starts it, and the file that it tells
/// into: for who waits for what it tells.
pub(crate) fn logging(args: &[&str]) -> (Process, PathBuf) {
    let log = file("log", "");
    let told = fs::File::create(&log).unwrap();
    (Process::telling::<1>(args, told).0, log)
}

/// Waits until a log has these words.
pub(crate) fn until_logged(log: &Path, words: &str) {
    let told = || fs::read_to_string(log).unwrap();
    assert!(becomes(|| told().contains(words)), "{words} in {}", told());
}

/// The binary under test with these arguments; plain text in its log.
pub(crate) fn loadline(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loadline"));
    command.args(args).env("NO_COLOR", "1").env_remove("RUST_LOG");
    command
}

/// Runs a client to its end.
pub(crate) fn run(program: &str, args: &[&str]) -> Output {
    let output = Command::new(program).args(args).output();
    output.unwrap_or_else(|error| panic!("{program}: {error}; `make test` installs it"))
}

/// A file of its own for a test, removed with the target directory.
pub(crate) fn file(name: &str, text: &str) -> PathBuf {
    static FILES: AtomicU32 = AtomicU32::new(0);
    let number = FILES.fetch_add(1, Relaxed);
    let name = format!("{}-{number}-{name}", std::process::id());
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, text).unwrap();
    path
}

fn end(mut child: Child) -> Ended {
    let mut log = String::new();
    if let Some(mut stderr) = child.stderr.take() {
        stderr.read_to_string(&mut log).unwrap();
    }
    Ended { code: child.wait().unwrap().code(), log }
}

/// A process that has ended, to stand where another was taken out.
fn idle() -> Child {
    Command::new("true").spawn().unwrap()
}
