//! `loadline bench` as people call it: what it prints, and its exit codes.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    process::{Command, Output},
};

use loadline_core::record::{Document, LoadModel, Outcomes, Record, SCHEMA_VERSION};

/// A server that answers every request with ten bytes, until the test ends.
fn server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().map(Result::unwrap) {
            std::thread::spawn(move || answer_all(stream));
        }
    });
    address
}

fn answer_all(mut stream: TcpStream) {
    let lines = BufReader::new(stream.try_clone().unwrap()).lines();
    for _end_of_head in lines.map_while(Result::ok).filter(String::is_empty) {
        if stream.write_all(ANSWER).is_err() {
            break;
        }
    }
}

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nX-Served-By: a\r\nContent-Length: 10\r\n\r\n0123456789";

fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_loadline")).arg("bench").args(arguments).output().unwrap()
}

#[test]
fn four_users_with_twenty_requests_each_print_a_page_that_adds_up() {
    let url = format!("{}/path", server());
    let output = bench(&[&url, "--users", "4", "--requests", "20", "--count-by", "x-served-by"]);
    let page = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{page}");
    for part in ["closed loop, 4 users", "80  of 80 planned", "header a: 80", "status 200: 80"] {
        assert!(page.contains(part), "{part:?} is not in\n{page}");
    }
}

#[test]
fn the_json_of_an_open_loop_is_a_load_record() {
    let url = format!("http://{}/", server());
    let output = bench(&[&url, "--rate", "200", "--requests", "50", "--json"]);
    assert_eq!(output.status.code(), Some(0));
    let document: Document = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document.schema_version, SCHEMA_VERSION);
    let Record::Load(record) = document.record else { panic!("a load record is expected") };
    assert!(matches!(record.model, LoadModel::Open { .. }));
    assert_eq!(record.outcomes, Outcomes { ok: 50, ..Outcomes::default() });
    assert_eq!((record.planned, record.bytes_read), (50, 50 * ANSWER.len() as u64));
    assert_eq!(record.spreads.response.count(), 50);
}

#[test]
fn a_server_that_is_not_there_is_counted_and_no_failure_to_run() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let output = bench(&[&closed.to_string(), "--users", "1", "--requests", "3"]);
    let page = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(page.contains("connect refused          3"), "{page}");
}

#[test]
fn wrong_usage_is_told_and_exits_with_one() {
    for (arguments, told) in [
        (&["localhost"][..], "--users"),
        (&["localhost", "--users", "1", "--rate", "5"], "cannot be used with"),
        (&["localhost", "--users", "1", "--seed", "5"], "cannot be used with"),
        (&["localhost", "--users", "0"], "above zero"),
        (&["localhost", "--rate", "0"], "above zero"),
        (&["localhost", "--rate", "fast"], "100/s"),
        (&["localhost", "--users", "1", "--duration", "5"], "500ms"),
        (&["https://localhost", "--users", "1"], "TLS"),
        (&["localhost", "--users", "1", "-H", "X"], "Accept: text/html"),
        (&["localhost", "--users", "1", "-H", "Connection: close"], "--no-keepalive"),
        (&["localhost", "--users", "1", "--body", "@/no/such/file"], "/no/such/file"),
    ] {
        let output = bench(arguments);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {error}");
        assert!(error.contains(told), "{arguments:?}: {error}");
    }
}
