//! Starting, reloading, stopping.

use std::{fs, net::TcpListener, process::Stdio};

use serde_json::Value;

use crate::process::{Process, file, loadline, run};

fn config(listen: &str, servers: &[&Process]) -> String {
    let servers: Vec<String> = servers.iter().map(|s| format!("\"{}\"", s.address)).collect();
    format!(
        "[[listener]]\nbind = \"{listen}\"\nprotocol = \"http\"\nservice = \"web\"\n\
         [service.web]\n[[service.web.group]]\nregion = \"here\"\nservers = [{}]\n",
        servers.join(", ")
    )
}

#[test]
fn a_reload_under_load_drops_nothing_and_a_wrong_file_changes_nothing() {
    let (first, second) = (Process::fixed(), Process::fixed());
    let path = file("reload.toml", &config("127.0.0.1:0", &[&first]));
    let proxy = Process::start(&["serve", path.to_str().unwrap()]);
    let url = proxy.url("/");
    let args = ["bench", &url, "--rate", "500", "--duration", "4s", "--json", "--quiet"];
    let count = ["--count-by", "X-Served-By"];
    let mut load = loadline(&[&args[..], &count[..]].concat());
    let load = load.stdout(Stdio::piped()).spawn().unwrap();
    // Each state of the file is seen in force before the next is written.
    for (text, answer) in [
        (config("127.0.0.1:0", &[&second]), &second),
        ("servers = nonsense".to_owned(), &second),
        (config("127.0.0.1:0", &[&first]), &first),
        (config("127.0.0.1:0", &[&second]), &second),
    ] {
        fs::write(&path, text).unwrap();
        proxy.signal("HUP");
        let expected = served_by(&answer.address);
        let seen = (0..2_000).any(|_| served_by(&proxy.address) == expected);
        assert!(seen, "the reload did not come into force");
    }
    let record: Value = serde_json::from_slice(&load.wait_with_output().unwrap().stdout).unwrap();
    assert_eq!(record["outcomes"]["ok"], 2_000, "{record}");
    let servers = record["by_header"].as_object().unwrap();
    assert_eq!(servers.len(), 2, "both files were in force: {servers:?}");
    let ended = proxy.terminate();
    assert!(ended.log.contains("nonsense"), "the wrong file was told: {}", ended.log);
    fs::remove_file(path).unwrap();
}

/// Which worker answers at this address.
fn served_by(address: &str) -> String {
    let answer = run("curl", &["-sS", "-i", &format!("http://{address}/")]);
    let answer = String::from_utf8_lossy(&answer.stdout).into_owned();
    let line = answer.lines().find_map(|line| line.strip_prefix("X-Served-By: "));
    line.unwrap_or_default().to_owned()
}

#[test]
fn a_request_under_way_ends_before_the_proxy_does() {
    let worker = Process::start(&["worker", "page", "--listen", "127.0.0.1:0"]);
    let proxy = Process::proxy(&[&worker]);
    let url = proxy.url("/");
    let client = std::thread::spawn(move || run("curl", &["-sS", "-w", "%{http_code}", &url]));
    // The worker waits 300 ms with the request: it is under way once the worker has it.
    let stats = worker.url("/stats");
    let in_service = || {
        let stats: Value = serde_json::from_slice(&run("curl", &["-s", &stats]).stdout).unwrap();
        stats["accepted"] == 1
    };
    assert!((0..1_000).any(|_| in_service()), "the request reaches the worker");
    let ended = proxy.terminate();
    let page = client.join().unwrap();
    assert!(page.stdout.len() >= 50_000 && page.stdout.ends_with(b"200"), "the answer is whole");
    assert_eq!(ended.code, Some(0));
    assert_eq!(ended.endings()["complete"], 1);
}

#[test]
fn an_address_in_use_is_named_and_ends_with_2() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let args = ["serve", "--listen", &address, "--to", "127.0.0.1:9"];
    let refused = loadline(&args).output().unwrap();
    let log = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2), "{log}");
    assert!(log.contains(&address) && log.contains("in use"), "{log}");
}

#[test]
fn a_wrong_file_or_argument_ends_with_1_and_points_at_the_place() {
    let path = file("wrong.toml", "[service.web]\npolicy = \"least-request\"\n");
    let wrong = loadline(&["serve", path.to_str().unwrap()]).output().unwrap();
    let log = String::from_utf8(wrong.stderr).unwrap();
    assert_eq!(wrong.status.code(), Some(1), "{log}");
    assert!(log.contains(":2:") && log.contains("least-requests"), "{log}");
    for args in [&["serve"][..], &["serve", "--listen", ":0"], &["serve", "--nonsense"]] {
        assert_eq!(loadline(args).output().unwrap().status.code(), Some(1), "{args:?}");
    }
    fs::remove_file(path).unwrap();
}
