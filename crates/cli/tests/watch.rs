//! `loadline watch` as people call it: what it names, what it prints, and its exit codes.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::{
    io::{BufRead as _, BufReader, Read as _},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use loadline_measure::record::{Document, Record, Resource, ResourceRecord, Role};

fn watch(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_loadline")).arg("watch").args(arguments).output().unwrap()
}

fn record(json: &[u8]) -> ResourceRecord {
    let document = Document::read(json).unwrap();
    let Record::Resources(record) = document.record else { panic!("resources are expected") };
    record
}

/// `sh` that runs a script with its input and output in our hands; killed where a test fails.
struct Shell(Child);

impl Shell {
    fn start(script: &str) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::null());
        Self(command.spawn().unwrap())
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // Both fail where it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_command_that_burns_is_limited_by_cpu() {
    let script = "timeout 3 sh -c 'while :; do :; done'; exit 7";
    let output = watch(&["--", "sh", "-c", script]);
    let page = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(7), "{page}");
    // Beside other tests it may get half a core of a machine that is full.
    let first = page.lines().find(|line| line.starts_with("Gave out first:"));
    assert!(first.is_some_and(|line| line.contains("CPU")), "{page}");
    assert!(page.contains("generator sh["), "{page}");
    assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");
}

#[test]
fn a_command_that_sleeps_accuses_nobody_and_keeps_its_output() {
    let output = watch(&["--", "sh", "-c", "sleep 1.5; echo slept"]);
    let page = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{page}");
    assert_eq!(output.stdout, b"slept\n");
    assert!(page.contains("Nothing ran out"), "{page}");
}

#[test]
fn the_record_is_a_document_with_every_part_of_the_run() {
    let kept = tempfile::NamedTempFile::new().unwrap();
    let path = kept.path().to_str().unwrap();
    let limit = "lo=1Gb/s";
    let output =
        watch(&["--json", "-o", path, "--interval=50ms", "--net-limit", limit, "--", "sleep", "1"]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(std::fs::read(path).unwrap(), output.stdout, "the file holds what is printed");
    let record = record(&output.stdout);
    assert_eq!(record.target, "sleep 1");
    assert_eq!(record.processes.len(), 1);
    assert_eq!(
        (record.processes[0].name.as_str(), record.processes[0].role),
        ("sleep", Role::Generator)
    );
    let (seconds, samples) = (record.elapsed.as_secs_f64(), record.samples.len());
    // The command may have begun a moment before the first look at it.
    assert!(seconds > 0.5 && samples >= 5, "{samples} samples in {seconds} s");
    assert!(record.samples.is_sorted_by_key(|sample| sample.at));
    let lo = record.machine.interfaces.iter().find(|interface| interface.name == "lo").unwrap();
    assert_eq!(lo.given_bytes_per_s, Some(125_000_000));
    assert!(record.sampler_cpu_share > 0.0 && record.sampler_cpu_share < 0.5);
}

#[test]
fn a_watch_of_a_process_ends_with_it() {
    let mut short = Shell::start("read line");
    let (pid, mut watching) = (short.pid(), Command::new(env!("CARGO_BIN_EXE_loadline")));
    let arguments = ["watch", "--json", "--interval=20ms", "--role"];
    watching.args(arguments).arg(format!("server={pid}")).stdout(Stdio::piped());
    let mut watching = watching.spawn().unwrap();
    // Until we ask how it ended it can be seen, as one that has: also by a watch that begins late.
    drop(short.0.stdin.take());
    let mut json = Vec::new();
    watching.stdout.take().unwrap().read_to_end(&mut json).unwrap();
    assert_eq!(watching.wait().unwrap().code(), Some(0));
    let record = record(&json);
    assert!(record.processes[0].ended);
    assert_eq!(record.processes[0].role, Role::Server);
}

/// Waits until the process has a handler for SIGTERM: before, the signal would just end it.
fn wait_until_it_catches_sigterm(pid: u32) {
    let until = Instant::now() + Duration::from_secs(60);
    let catches = || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = u64::from_str_radix(caught.unwrap().trim(), 16).unwrap();
        caught & (1 << (SIGTERM - 1)) != 0
    };
    while !catches() {
        assert!(Instant::now() < until, "it does not catch SIGTERM");
        std::thread::sleep(Duration::from_millis(5));
    }
}

const SIGTERM: u32 = 15;

#[test]
fn a_watch_without_a_command_tells_what_it_saw_when_it_is_terminated() {
    let watched = Shell::start("read line");
    let mut watching = Command::new(env!("CARGO_BIN_EXE_loadline"));
    watching.args(["watch", "--json", "--pid", &watched.pid()]).stdout(Stdio::piped());
    let mut watching = watching.spawn().unwrap();
    wait_until_it_catches_sigterm(watching.id());
    let pid = watching.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    let mut json = Vec::new();
    watching.stdout.take().unwrap().read_to_end(&mut json).unwrap();
    assert_eq!(watching.wait().unwrap().code(), Some(0));
    assert_eq!(record(&json).target, format!("process {}", watched.pid()));
}

#[test]
fn an_interrupt_goes_to_the_command_and_the_page_is_printed() {
    let mut watching = Command::new(env!("CARGO_BIN_EXE_loadline"));
    let script = "trap 'exit 5' INT; echo ready; while :; do sleep 0.05; done";
    watching.args(["watch", "--", "sh", "-c", script]);
    watching.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut watching = watching.spawn().unwrap();
    let mut output = BufReader::new(watching.stdout.take().unwrap());
    output.read_line(&mut String::new()).unwrap();
    let pid = watching.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let mut page = String::new();
    watching.stderr.take().unwrap().read_to_string(&mut page).unwrap();
    assert_eq!(watching.wait().unwrap().code(), Some(5), "{page}");
    assert!(page.contains("watched: sh -c trap"), "{page}");
}

#[test]
fn a_watch_without_a_command_lasts_as_long_as_it_is_told() {
    let burner = Shell::start("while :; do :; done");
    let pid = burner.pid();
    let output = watch(&["--json", "--duration=2500ms", "--pid", &pid]);
    assert_eq!(output.status.code(), Some(0));
    let record = record(&output.stdout);
    assert!((2.4..4.0).contains(&record.elapsed.as_secs_f64()), "{}", record.elapsed);
    let first = record.verdict.first().map(|first| first.resource);
    let cpu = [Resource::WatchedCpu, Resource::MachineCpu, Resource::Steal];
    // Where others took the processor from it for half of the time, it is remarked only.
    let remarked = record.verdict.remarks.iter().any(|remark| remark.contains("of sh["));
    assert!(first.map_or(remarked, |first| cpu.contains(&first)), "{:?}", record.verdict);
}

#[test]
fn what_cannot_be_is_told_with_its_exit_code() {
    for (arguments, code, told) in [
        (&["--", "/no/such/program"][..], 127, "cannot start `/no/such/program`"),
        (&["--pid", "4294967295"], 1, "no process 4294967295"),
        (&[], 1, "required"),
        (&["--pid", "1", "--duration", "5"], 1, "500ms"),
        (&["--net-limit", "180", "--pid", "1"], 1, "180Mb/s"),
        (&["--role", "proxy=1"], 1, "lb, server, generator"),
        (&["--interval", "1ms", "--pid", "1"], 1, "10ms"),
        (&["--duration", "1s", "--", "true"], 1, "cannot be used with"),
        (&["-o", "/no/such/place/run.json", "--", "true"], 2, "/no/such/place/run.json"),
    ] {
        let output = watch(arguments);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {error}");
        assert!(error.contains(told), "{arguments:?}: {error}");
    }
    let ended = watch(&["--", "sh", "-c", "kill -TERM $$"]);
    assert_eq!(ended.status.code(), Some(128 + 15));
}

#[test]
fn a_bench_that_watches_has_the_resources_on_its_own_axis() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loadline"));
    command.args(["worker", "fixed", "--listen=127.0.0.1:0"]).stdout(Stdio::piped());
    let mut worker = Shell(command.spawn().unwrap());
    let mut first = String::new();
    BufReader::new(worker.0.stdout.take().unwrap()).read_line(&mut first).unwrap();
    let address = first.trim_end().strip_prefix("listening on ").unwrap();
    let server = format!("server={}", worker.pid());
    let bench = |last: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_loadline"));
        command.args(["bench", address, "--users=2", "--duration=1500ms", "--watch", &server]);
        command.args(last).output().unwrap()
    };
    let output = bench(&["--json"]);
    let document = Document::read(&output.stdout).unwrap();
    let Record::Load(load) = document.record else { panic!("a load record is expected") };
    let resources = load.resources.unwrap();
    let roles: Vec<Role> = resources.processes.iter().map(|process| process.role).collect();
    assert_eq!(roles, [Role::Server, Role::Generator]);
    assert!(resources.started_unix_ms.abs_diff(load.started_unix_ms) < 1_000);
    assert!(resources.samples.iter().any(|sample| sample.cpu.busy() > 0.0));
    let page = String::from_utf8(bench(&["--quiet"]).stdout).unwrap();
    assert!(page.contains("watched: http://"), "{page}");
    assert!(page.contains("ave out"), "{page}");
}
