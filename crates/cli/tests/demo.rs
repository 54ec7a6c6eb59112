//! `loadline demo` as people run it: what it prints, writes and leaves behind.
//!
//! Figures that depend on how busy the machine is may fail or be invalid here without failing the
//! test: then the demo has to say so, by its lines and by its exit status.
#![expect(clippy::unwrap_used, reason = "a test helper fails the test it helps")]

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _},
    net::{SocketAddr, TcpStream},
    path::PathBuf,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

/// What a busy machine may take to start some processes.
const PATIENCE: Duration = Duration::from_secs(20);

fn demo(name: &str) -> (Command, PathBuf, PathBuf) {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let (page, json) = (folder.join("report.html"), folder.join("report.json"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_loadline"));
    command.args(["demo", "--quick", "--report"]).arg(&page).arg("--json").arg(&json);
    (command, page, json)
}

#[test]
fn the_demo_judges_every_part_and_leaves_a_page_and_no_process() {
    let (mut command, page, json) = demo("demo-whole");
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let is = |word: &'static str| move |line: &&str| line.starts_with(word);
    let (passes, fails, is_invalid) = (is("PASS "), is("FAIL "), is("INVALID "));
    let is_verdict = |line: &&str| passes(line) || fails(line) || is_invalid(line);
    let lines: Vec<&str> = text.lines().filter(is_verdict).collect();
    assert!(lines.len() >= 20, "{text}{}", String::from_utf8_lossy(&output.stderr));
    let code = match (lines.iter().any(fails), lines.iter().any(is_invalid)) {
        (true, _) => 3,
        (_, true) => 98,
        _ => 0,
    };
    assert_eq!(output.status.code(), Some(code), "{text}");

    // These hold however slow the machine is.
    let exact = [
        "near region killed, failed 0 of ",
        "requests accounted for ",
        "requests to the near region ",
    ];
    for name in exact {
        let line = lines.iter().find(|line| line.contains(name));
        assert!(line.is_some_and(passes), "{name}: {text}");
    }

    let html = fs::read_to_string(page).unwrap();
    assert_eq!(html.matches("<svg").count(), 8, "four pictures in two widths");
    let report: Value = serde_json::from_slice(&fs::read(json).unwrap()).unwrap();
    assert_eq!(report["verdicts"].as_array().unwrap().len(), lines.len());
    assert_eq!(report["pass"], lines.iter().all(passes));
    for run in report["runs"].as_array().unwrap() {
        let target = run["record"]["target"].as_str().unwrap();
        assert!(!listens(target), "a process still listens at {target}");
    }
}

#[test]
fn an_interrupted_demo_ends_at_once_with_all_it_started() {
    let (mut command, _, _) = demo("demo-interrupted");
    let mut demo = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut notices = BufReader::new(demo.stderr.take().unwrap());
    // The third step begins with its workers and proxies, which it keeps under load for seconds.
    for _ in 0..3 {
        notices.read_line(&mut String::new()).unwrap();
    }
    let begun = Instant::now();
    while children(demo.id()).len() < 10 {
        assert!(begun.elapsed() < PATIENCE, "not 9 workers and a proxy: {:?}", children(demo.id()));
        thread::sleep(Duration::from_millis(10));
    }
    let told = Command::new("kill").args(["-s", "INT", &demo.id().to_string()]).status().unwrap();
    assert!(told.success());
    let mut rest = String::new();
    // The children hold this end too: it ends when the last of them has.
    notices.read_to_string(&mut rest).unwrap();
    assert_eq!(demo.wait().unwrap().code(), Some(2));
    assert!(rest.contains("interrupted"), "{rest}");
}

fn listens(url: &str) -> bool {
    let address = url.trim_start_matches("http://").trim_end_matches('/');
    TcpStream::connect(address.parse::<SocketAddr>().unwrap()).is_ok()
}

/// Processes whose parent is `parent`.
fn children(parent: u32) -> Vec<String> {
    let is_child = |status: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix("PPid:"));
        line.is_some_and(|id| id.trim() == parent.to_string())
    };
    let processes = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let statuses = processes.map(|process| process.path().join("status"));
    statuses
        .filter_map(|file| fs::read_to_string(file).ok())
        .filter(|text| is_child(text))
        .collect()
}
