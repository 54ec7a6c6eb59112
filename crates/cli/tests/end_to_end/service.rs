//! What a process manager and its neighbours see: the process id, the log, its rotation.

use std::{
    fs::{self, OpenOptions},
    io::{self, PipeWriter, Read as _, Write as _},
    net::TcpListener,
    os::{fd::AsRawFd as _, unix::fs::OpenOptionsExt as _},
    path::Path,
    process::{Command, Stdio},
    thread,
};

use rustix::fs::OFlags;
use serde_json::Value;

use crate::{
    becomes::becomes,
    process::{Process, file, loadline, run},
};

#[test]
fn the_process_id_is_in_the_file_for_as_long_as_the_process_runs() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pid");
    let pid_file = path.to_str().unwrap();
    let serve = ["serve", "--listen", "127.0.0.1:0", "--to", "127.0.0.1:9", "--pid-file"];
    let proxy = Process::start(&[&serve[..], &[pid_file]].concat());
    assert_eq!(fs::read_to_string(&path).unwrap(), format!("{}\n", proxy.id()));
    assert_eq!(proxy.terminate().code, Some(0));
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "nothing is left");
    let nowhere = directory.path().join("no/pid");
    let refused = loadline(&[&serve[..], &[nowhere.to_str().unwrap()]].concat()).output().unwrap();
    let log = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2), "{log}");
    assert!(log.contains("no/pid"), "{log}");
}

#[test]
fn reports_about_files_have_the_colours_and_the_letters_that_are_asked_for() {
    let path = file("colours-of-reports.toml", "[service.web]\n");
    let told = |variables: &[(&str, &str)]| {
        let mut command = loadline(&["check", path.to_str().unwrap()]);
        for name in ["NO_COLOR", "CLICOLOR_FORCE", "LC_ALL", "LC_CTYPE", "LANG"] {
            command.env_remove(name);
        }
        let output = command.envs(variables.iter().copied()).output().unwrap();
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(!told(&[]).contains('\x1b'));
    assert!(told(&[("CLICOLOR_FORCE", "1")]).contains('\x1b'));
    assert!(!told(&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]).contains('\x1b'));
    assert!(!told(&[("LC_ALL", "C.UTF-8")]).is_ascii());
    let plain = told(&[("LC_ALL", "C")]);
    assert!(plain.is_ascii(), "{plain}");
}

#[test]
fn the_log_has_no_colours_where_it_is_no_terminal() {
    let path = file("colours.toml", "[service.web]\n");
    let mut command = loadline(&["serve", path.to_str().unwrap()]);
    let log = command.env_remove("NO_COLOR").output().unwrap().stderr;
    assert!(!log.contains(&0x1b), "{}", String::from_utf8_lossy(&log));
    let serve = ["serve", "--listen", "127.0.0.1:0", "--to", "127.0.0.1:9"];
    let mut command = loadline(&serve);
    command.env_remove("NO_COLOR").stdout(Stdio::null()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let id = child.id().to_string();
    // It heeds signals before it does anything else.
    let heeds = format!("/proc/{id}/status");
    let is_ready = || {
        let status = fs::read_to_string(&heeds).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        u64::from_str_radix(caught.trim(), 16).unwrap() >> (15 - 1) & 1 == 1
    };
    assert!(becomes(is_ready));
    assert!(Command::new("kill").arg(&id).status().unwrap().success());
    let log = child.wait_with_output().unwrap().stderr;
    let text = String::from_utf8_lossy(&log);
    assert!(text.contains("stopped") && !log.contains(&0x1b), "{text}");
}

#[test]
fn each_line_of_the_log_is_json_where_that_is_asked_for() {
    let right = "[[listener]]\nbind = \"127.0.0.1:0\"\nservice = \"web\"\n[service.web]\n\
                 [[service.web.group]]\nservers = [\"127.0.0.1:9\"]\n";
    let path = file("json.toml", right);
    let proxy = Process::start(&["serve", path.to_str().unwrap(), "--log-format", "json"]);
    fs::write(&path, format!("{right}policy = 3\n")).unwrap();
    proxy.signal("HUP");
    // The reload is told before the end is, or given up for it.
    let ended = proxy.terminate();
    let told = lines(&ended.log);
    let said = |text: &str| told.iter().any(|it| it["message"].as_str().unwrap().contains(text));
    assert!(said("stopped") && said("draining"), "{}", ended.log);
    let wrong = loadline(&["serve", path.to_str().unwrap(), "--log-format", "json"]);
    let wrong = { wrong }.output().unwrap();
    let told = lines(&String::from_utf8(wrong.stderr).unwrap());
    assert_eq!((wrong.status.code(), told[0]["level"].as_str()), (Some(1), Some("ERROR")));
    assert_eq!(told[0]["line"], 7, "{told:?}");
}

#[test]
fn a_log_that_nobody_reads_holds_up_neither_requests_nor_the_end() {
    let worker = Process::fixed();
    let listener = |service: &str, server: &str| {
        format!(
            "[[listener]]\nbind = \"127.0.0.1:0\"\nservice = \"{service}\"\n\
             [service.{service}]\n[[service.{service}.group]]\nservers = [\"{server}\"]\n"
        )
    };
    let config = listener("web", &worker.address) + &listener("away", "127.0.0.1:9");
    let path = file("unread.toml", &format!("[edge]\nthreads = 1\n{config}"));
    let (_reader, log) = io::pipe().unwrap();
    let again = log.try_clone().unwrap();
    let (proxy, [web, away]) = Process::telling(&["serve", path.to_str().unwrap()], log);
    fill(&again);

    let ask = |address: &str| {
        let args = ["-s", "-m", "10", "-o", "/dev/null", "-w", "%{http_code}", address];
        String::from_utf8(run("curl", &args).stdout).unwrap()
    };
    // That the server is away is told.
    assert_eq!([&away, &web].map(|address| ask(address)), ["502", "200"]);
    fs::write(&path, "no file").unwrap();
    proxy.signal("HUP");
    assert_eq!(ask(&web), "200");
    proxy.signal("TERM");
    let status = format!("/proc/{}/status", proxy.id());
    assert!(becomes(|| fs::read_to_string(&status).unwrap().contains("State:\tZ")));
    assert_eq!(proxy.wait().code, Some(0));
}

#[test]
fn spans_that_the_collector_refuses_are_told_to_be_dropped_and_do_not_wait() {
    let worker = Process::fixed();
    let collector = TcpListener::bind("127.0.0.1:0").unwrap();
    let config = format!(
        "[tracing]\nendpoint = \"http://{}\"\nsample = \"100%\"\n[[listener]]\n\
         bind = \"127.0.0.1:0\"\nservice = \"web\"\n[service.web]\n\
         [[service.web.group]]\nservers = [\"{}\"]\n",
        collector.local_addr().unwrap(),
        worker.address
    );
    thread::spawn(move || {
        for mut stream in collector.incoming().map(Result::unwrap) {
            let answer = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
            assert!(stream.read(&mut [0; 4096]).unwrap() > 0);
            stream.write_all(answer).unwrap();
            let _ = stream.read_to_end(&mut Vec::new());
        }
    });
    let proxy = Process::start(&["serve", file("refused.toml", &config).to_str().unwrap()]);
    assert!(run("curl", &["-sSf", &proxy.url("/")]).status.success());
    let log = proxy.terminate().log;
    assert!(log.contains("spans are dropped") && !log.contains("spans wait"), "{log}");
}

/// Fills a pipe, by a description of its own: whoever else writes there waits.
fn fill(pipe: &PipeWriter) {
    let path = format!("/proc/self/fd/{}", pipe.as_raw_fd());
    let mut options = OpenOptions::new();
    options.write(true).custom_flags(OFlags::NONBLOCK.bits() as i32);
    let mut pipe = options.open(path).unwrap();
    while pipe.write_all(&[b'x'; 4096]).is_ok() {}
}

/// The objects of a log.
fn lines(log: &str) -> Vec<Value> {
    let line = |line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"));
    log.lines().map(line).collect()
}

#[test]
fn logrotate_as_documented_moves_the_access_log_and_no_line_is_lost() {
    let worker = Process::fixed();
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let place = |name: &str| directory.path().join(name).display().to_string();
    let (log, pid) = (place("access.log"), place("loadline.pid"));
    let config = format!(
        "[edge]\naccess_log = {log:?}\npid_file = {pid:?}\n[[listener]]\n\
         bind = \"127.0.0.1:0\"\nservice = \"web\"\n[service.web]\n\
         [[service.web.group]]\nservers = [\"{}\"]\n",
        worker.address
    );
    let path = file("rotated.toml", &config);
    let proxy = Process::start(&["serve", path.to_str().unwrap()]);
    let stanza = documented_stanza().replace("/var/log/loadline/*.log", &log);
    let stanza = stanza.replace("/run/loadline/loadline.pid", &pid);
    fs::write(place("logrotate"), &stanza).unwrap();
    let rotate = || {
        let state = place("state");
        let done = run("logrotate", &["--force", "--state", &state, &place("logrotate")]);
        assert!(done.status.success(), "{stanza}{}", String::from_utf8_lossy(&done.stderr));
    };
    let moved = place("access.log.1");
    let ask = |path: &str| assert!(run("curl", &["-sSf", &proxy.url(path)]).status.success());
    ask("/?first");
    assert!(becomes(|| has(&log, "/?first")));
    rotate();
    ask("/?second");
    assert!(becomes(|| has(&log, "/?second") || has(&moved, "/?second")));
    assert!(becomes(|| Path::new(&log).exists()), "the log is opened again by its name");
    ask("/?third");
    assert!(becomes(|| has(&log, "/?third")));
    assert!(has(&moved, "/?first") && !has(&log, "/?first"));
    rotate();
    assert!(has(&moved, "/?third"), "what was the log is moved on");
    assert!(Path::new(&place("access.log.2.gz")).exists(), "and what was moved is compressed");
    proxy.terminate();
}

/// The lines for logrotate in `docs/operation.md`.
fn documented_stanza() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("docs/operation.md")).unwrap();
    let start = page.find("/var/log/loadline/*.log {").unwrap();
    let length = page[start..].find("```").unwrap();
    page[start..start + length].to_owned()
}

fn has(path: &str, text: &str) -> bool {
    fs::read_to_string(path).is_ok_and(|log| log.contains(text))
}
