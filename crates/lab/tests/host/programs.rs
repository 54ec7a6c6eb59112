//! Programs on a host: their words, their ends, and that none outlives its welcome.

use std::{
    env, fs,
    io::{BufRead, BufReader, Write},
    process::Command,
};

use loadline_core::time::Duration;
use loadline_lab::host::{Exit, Host, Lab, Output, Program, Signal};

use crate::support::{PATIENT, options, round_trip, row, start, udp, v4};

fn one_host() -> Lab {
    start(&row(1, Duration::from_millis(1)), &options())
}

fn shell(script: &str) -> Program {
    Program::new("sh").args(["-c", script])
}

#[test]
fn output_and_exit_code_come_back() {
    let lab = one_host();
    let ran = lab.hosts()[0].run(shell("echo out; echo err >&2; exit 7"), PATIENT).unwrap();
    assert_eq!(ran.exit, Exit::Code(7));
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("out\n", "err\n"));
}

#[test]
fn a_program_is_given_its_arguments_environment_directory_and_input() {
    let (lab, directory) = (one_host(), tempfile::tempdir().unwrap());
    fs::write(directory.path().join("in"), "read").unwrap();
    let program = shell("printf '%s|' \"$0 $1\" \"$WORD\" \"$(pwd)\" \"$(cat)\"")
        .args(["a b", "c"])
        .env("WORD", "two words")
        .dir(directory.path())
        .stdin(fs::File::open(directory.path().join("in")).unwrap());
    let ran = lab.hosts()[0].run(program, PATIENT).unwrap();
    let here = directory.path().display();
    assert_eq!(ran.stdout, format!("a b c|two words|{here}|read|"), "{}", ran.stderr);
}

#[test]
fn words_go_to_a_file_or_through_a_pipe_where_asked() {
    let (lab, mut file) = (one_host(), tempfile::tempfile().unwrap());
    file.write_all(b"before\n").unwrap();
    let program = shell("echo to the file; echo through >&2; read nothing; exec sleep 60")
        .stdout(Output::To(file.try_clone().unwrap()))
        .stderr(Output::Piped);
    let mut child = lab.hosts()[0].spawn(program).unwrap();
    let mut line = String::new();
    BufReader::new(child.take_stderr().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "through\n");
    assert!(child.take_stderr().is_none());
    assert_eq!(child.kill().unwrap(), Exit::Signal(9));
    let mut read = vec![0; 64];
    let length = std::os::unix::fs::FileExt::read_at(&file, &mut read, 0).unwrap();
    assert_eq!(&read[..length], b"before\nto the file\n");
}

#[test]
fn what_cannot_be_started_is_told_and_does_no_harm() {
    let lab = one_host();
    let host = &lab.hosts()[0];
    for _ in 0..20 {
        let said = host.spawn(Program::new("no-such-program")).unwrap_err().to_string();
        assert!(said.contains("h0") && said.contains("no-such-program"), "{said}");
    }
    let said = host.spawn(Program::new("true").dir("/nowhere")).unwrap_err().to_string();
    assert!(said.contains("/nowhere"), "{said}");
    assert!(host.run(Program::new("true"), PATIENT).unwrap().exit.success());
}

#[test]
fn many_short_programs_all_end_as_they_did() {
    let lab = one_host();
    let codes: Vec<u8> = (0..40).collect();
    let spawn = |code: &u8| lab.hosts()[0].spawn(shell(&format!("exit {code}"))).unwrap();
    let mut children: Vec<_> = codes.iter().map(spawn).collect();
    let ends = children.iter_mut().map(|child| child.wait_with_deadline(PATIENT).unwrap());
    let expected: Vec<Exit> = codes.into_iter().map(Exit::Code).collect();
    assert_eq!(ends.collect::<Vec<_>>(), expected);
}

#[test]
fn a_program_that_ignores_being_asked_is_killed_with_what_it_started() {
    let lab = one_host();
    let host = &lab.hosts()[0];
    let stubborn = "trap '' TERM; sleep 600 & echo ready; while :; do wait; done";
    let mut child = host.spawn(shell(stubborn).stdout(Output::Piped)).unwrap();
    let mut line = String::new();
    BufReader::new(child.take_stdout().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(child.stop(Duration::from_millis(50)).unwrap(), Exit::Signal(9));
    crate::support::eventually("only the first process is left", || processes(host) == 1);
    assert_eq!(child.stop(PATIENT).unwrap(), Exit::Signal(9), "an end stays what it was");
}

#[test]
fn a_program_that_ends_when_asked_is_not_killed() {
    let lab = one_host();
    let polite = "trap 'exit 3' TERM; echo ready; while :; do sleep 0.01; done";
    let mut child = lab.hosts()[0].spawn(shell(polite).stdout(Output::Piped)).unwrap();
    let mut line = String::new();
    BufReader::new(child.take_stdout().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(child.try_wait().unwrap(), None);
    assert_eq!(child.stop(PATIENT).unwrap(), Exit::Code(3));
    child.signal(Signal::TERM).unwrap();
}

#[test]
fn what_takes_too_long_is_killed_and_its_last_words_are_told() {
    let lab = one_host();
    let late = lab.hosts()[0].run(shell("echo so far; sleep 600"), Duration::from_millis(300));
    let said = late.unwrap_err().to_string();
    assert!(said.contains("within 300ms") && said.contains("so far"), "{said}");
}

#[test]
fn a_host_has_processes_and_a_name_of_its_own() {
    let lab = start(&row(2, Duration::from_millis(1)), &options());
    let _child = lab.hosts()[1].spawn(Program::new("sleep").arg("600")).unwrap();
    assert_eq!(processes(&lab.hosts()[0]), 1);
    assert_eq!(processes(&lab.hosts()[1]), 2);
    let named = lab.hosts()[1].run(Program::new("uname").arg("-n"), PATIENT).unwrap();
    assert_eq!(named.stdout, "h1\n");
}

#[test]
fn another_process_can_join_a_host() {
    let lab = start(&row(2, Duration::from_millis(1)), &options());
    let _child = lab.hosts()[1].spawn(Program::new("sleep").arg("600")).unwrap();
    let joined = Command::new(env!("CARGO_BIN_EXE_loadline-host"))
        .args(["enter", &lab.hosts()[1].init().to_string(), "sh", "-c"])
        .arg("uname -n; pwd; echo /proc/[0-9]*; exit 5")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&joined.stdout);
    let here = env::current_dir().unwrap();
    let mut lines = said.lines();
    assert_eq!(lines.next(), Some("h1"), "{joined:?}");
    assert_eq!(lines.next(), here.to_str());
    assert_eq!(lines.next().unwrap_or_default().split(' ').count(), 3, "{said}");
    assert_eq!(joined.status.code(), Some(5));
}

#[test]
fn what_a_host_has_used_is_counted() {
    let lab = start(&row(2, Duration::from_millis(1)), &options());
    let host = &lab.hosts()[0];
    let before = host.usage().unwrap();
    let busy = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
    assert!(host.run(shell(busy), PATIENT).unwrap().exit.success());
    let (here, there) = (udp(host, v4(1)), udp(&lab.hosts()[1], v4(2)));
    round_trip(&here, &there, there.local_addr().unwrap());
    let after = host.usage().unwrap();
    assert!(after.cpu >= before.cpu + Duration::from_millis(20), "{before:?} {after:?}");
    // 4 bytes behind 28 of headers, each way.
    assert!(after.wide.sent.get() >= before.wide.sent.get() + 32, "{before:?} {after:?}");
    assert!(after.wide.received.get() >= before.wide.received.get() + 32, "{before:?} {after:?}");
    let idle = lab.hosts()[1].usage().unwrap();
    assert!(idle.cpu < Duration::from_millis(20), "{idle:?}");
}

/// As the host itself sees them, without the program that counts.
fn processes(host: &Host) -> usize {
    let listed = host.run(shell("echo /proc/[0-9]*"), PATIENT).unwrap();
    listed.stdout.split_whitespace().count() - 1
}
