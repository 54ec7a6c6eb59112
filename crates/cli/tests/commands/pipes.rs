//! Pipes whose reader has gone: nothing panics, and exit codes stay what they are.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, pipe},
    process::{Command, Stdio},
};

use crate::runs::{loadline, text};

/// A pipe that nobody reads any more.
fn closed() -> Stdio {
    let (reader, writer) = pipe().unwrap();
    drop(reader);
    writer.into()
}

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loadline"));
    command.args(args);
    command
}

#[test]
fn an_error_that_nobody_reads_has_its_exit_code_and_is_no_panic() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing");
    let missing = missing.to_str().unwrap();
    let wrong: [&[&str]; 7] = [
        &["check", missing],
        &["report", missing],
        &["upgrade", missing],
        &["serve", "--listen", "nowhere", "--to", "127.0.0.1:1"],
        &["bench", "127.0.0.1:1", "--rate", "0"],
        &["lab", "run", missing],
        &["ping", "--count", "0", "127.0.0.1"],
    ];
    for args in wrong {
        let ended = command(args).stderr(closed()).stdout(Stdio::null()).status().unwrap();
        assert_eq!(ended.code(), Some(1), "{args:?}");
    }
    let watched = command(&["watch", "--", "true"]).stderr(closed()).status().unwrap();
    assert_eq!(watched.code(), Some(0), "the command's own");
}

#[test]
fn an_edge_whose_log_nobody_reads_any_more_goes_on_serving() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.toml");
    let listener = "[[listener]]\nbind = \"127.0.0.1:0\"\nservice = \"web\"\n\
                    routes = [{ path = \"/\", answer = { status = 204 } }]\n";
    let site = format!("{listener}[[service.web.group]]\nservers = [\"127.0.0.1:1\"]\n");
    fs::write(&file, &site).unwrap();
    let mut edge = command(&["serve", file.to_str().unwrap(), "--watch"])
        .stdout(Stdio::piped())
        .stderr(closed())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(edge.stdout.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("listening on ").unwrap_or_default().to_owned();
    let signal = |name: &str| {
        let kill = Command::new("kill").args(["-s", name, &edge.id().to_string()]).status();
        assert!(kill.unwrap().success());
    };
    // What it has to say of a wrong file goes nowhere.
    fs::write(&file, "wrong").unwrap();
    signal("HUP");
    let answered = Command::new("curl")
        .args(["-s", "-o", "/dev/null", "-w", "%{http_code}", &format!("http://{address}/")])
        .output()
        .unwrap();
    signal("TERM");
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    assert_eq!(edge.wait().unwrap().code(), Some(0));
    assert_eq!(text(&answered.stdout), "204", "{address}");
}

#[test]
fn a_result_that_is_written_to_a_file_is_written_though_nobody_reads_the_page() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ping.json");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let args = ["ping", "--tcp", &port, "-c", "1", "-o", path.to_str().unwrap(), "127.0.0.1"];
    let ended = command(&args).stdout(closed()).stderr(closed()).status().unwrap();
    assert_eq!(ended.code(), Some(0));
    assert!(fs::read_to_string(&path).unwrap().contains("\"schema_version\""));
    assert!(loadline(&["report", path.to_str().unwrap(), "-o", "-"]).status.success());
}
