//! `loadline ping` as people call it: on the loopback, by ICMP where this machine allows it.

use std::{
    net::{Ipv6Addr, TcpListener},
    process::{Command, Output},
};

use crate::skipped::skipped;
use loadline_measure::record::{Document, Outcomes, ProbeKind, ProbeRecord, Record};

fn ping(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_loadline")).arg("ping").args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn record(output: &Output) -> ProbeRecord {
    let document = Document::read(&output.stdout).unwrap();
    let Record::Probe(record) = document.record else { panic!("a probe record is expected") };
    record
}

/// A port of the loopback that is taken and not listened on while the socket lives.
fn closed_port() -> (tokio::net::TcpSocket, u16) {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let port = socket.local_addr().unwrap().port();
    (socket, port)
}

#[test]
fn both_loopbacks_answer_and_stand_in_one_table() {
    let first = text(&ping(&["-c", "1", "127.0.0.1"]).stdout);
    if first.contains("no ICMP here") {
        // The fallback needs a port 80, which nobody has to have here.
        assert!(first.contains("by TCP connect to port 80"), "{first}");
        assert!(first.contains("net.ipv4.ping_group_range"), "{first}");
        return skipped("ICMP sockets (net.ipv4.ping_group_range)");
    }
    let output = ping(&["-c", "3", "-i", "0.02", "127.0.0.1", "::1"]);
    let page = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{page}");
    for part in [
        "PING ::1 (::1) by ICMP echo",
        "64 bytes from 127.0.0.1: icmp_seq=1 ",
        "64 bytes from ::1: icmp_seq=3 ",
        "--- 127.0.0.1 ping statistics ---",
        "3 packets transmitted, 3 received, 0% packet loss, time ",
        "rtt min/avg/max/mdev = ",
        "host       sent  loss %",
    ] {
        assert!(page.contains(part), "{part:?} is not in\n{page}");
    }
}

#[test]
fn an_open_port_answers_over_both_families() {
    let both = || {
        let v4 = TcpListener::bind("127.0.0.1:0").unwrap();
        // Another may have the port of the other family.
        let v6 = TcpListener::bind((Ipv6Addr::LOCALHOST, v4.local_addr().unwrap().port()));
        v6.ok().map(|v6| (v4, v6))
    };
    let (v4, _v6) = (0..100).find_map(|_| both()).expect("a port of both families");
    let port = v4.local_addr().unwrap().port().to_string();
    let output = ping(&["--tcp", &port, "-c", "4", "-i", "10ms", "--json", "127.0.0.1", "::1"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("connected to 127.0.0.1: tcp_seq=4 time="));
    let record = record(&output);
    assert_eq!((record.probe, record.planned), (ProbeKind::Ping, 4));
    for target in &record.targets {
        assert_eq!(target.outcomes, Outcomes { ok: 4, ..Outcomes::default() });
        assert_eq!((target.connections, target.time.count), (4, 4));
        assert!(target.time.p50.as_millis_f64() < 500.0, "{:?}", target.time);
        assert!(target.samples.is_sorted_by_key(|sample| sample.number));
        assert!(target.samples.is_sorted_by_key(|sample| sample.at));
    }
}

#[test]
fn a_closed_port_is_all_loss_and_no_time() {
    let (_guard, port) = closed_port();
    let port = port.to_string();
    let open = ["--tcp", &port, "-c", "3", "-i", "10ms", "127.0.0.1"];
    let output = ping(&open);
    let page = text(&output.stdout);
    assert_eq!(output.status.code(), Some(2), "{page}");
    assert!(page.contains("no answer from 127.0.0.1: tcp_seq=3: connect refused"), "{page}");
    assert!(page.contains("3 packets transmitted, 0 received, 100% packet loss"), "{page}");
    assert!(page.contains("not received: 3 connect refused"), "{page}");
    assert!(!page.contains("rtt "), "a refusal has no time:\n{page}");
}

#[test]
fn a_port_that_takes_no_more_connections_is_given_up_after_the_timeout() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _guard = runtime.enter();
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
    // A queue of no length holds one connection, and this is it.
    let listener = socket.listen(0).unwrap();
    let _waiting = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let shut = ["--tcp", &port, "-c", "3", "-i", "10ms", "-W", "50ms", "--json", "127.0.0.1"];
    let output = ping(&shut);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("tcp_seq=3 within 50ms"), "{}", text(&output.stderr));
    let record = record(&output);
    let target = &record.targets[0];
    assert_eq!(target.outcomes, Outcomes { connect_timeout: 3, ..Outcomes::default() });
    assert_eq!((target.time.count, target.connections), (0, 0));
}

#[test]
fn the_record_is_written_to_a_file_too() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ping.json");
    let file = path.to_str().unwrap();
    let output = ping(&["--tcp", &port, "-c", "2", "-i", "1ms", "-q", "-o", file, "127.0.0.1"]);
    assert_eq!(output.status.code(), Some(0));
    let page = text(&output.stdout);
    assert!(page.starts_with("\n--- 127.0.0.1 ping statistics ---"), "no lines with -q:\n{page}");
    let document = Document::read(&std::fs::read(path).unwrap()).unwrap();
    let Record::Probe(record) = document.record else { panic!("a probe record is expected") };
    assert_eq!(record.targets[0].samples.len(), 2);
}

#[test]
fn a_file_that_cannot_be_written_is_told_before_the_first_ping() {
    let folder = tempfile::tempdir().unwrap();
    for path in [folder.path().join("no/ping.json"), folder.path().to_owned()] {
        let output = ping(&["-c", "1", "127.0.0.1", "-o", path.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(2));
        assert_eq!(text(&output.stdout), "", "nothing was sent");
        assert!(text(&output.stderr).contains("cannot write `"), "{}", text(&output.stderr));
    }
}

#[test]
fn wrong_usage_leaves_the_file_of_the_record_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ping.json");
    let output = ping(&["-c", "0", "127.0.0.1", "-o", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(!path.exists());
}

#[test]
fn ping_counts_by_the_letter_of_ttfb_too() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    for flag in ["-c", "-n", "--count"] {
        let output = ping(&["--tcp", &port, flag, "2", "-i", "1ms", "--json", "127.0.0.1"]);
        assert_eq!(output.status.code(), Some(0), "{flag}: {}", text(&output.stderr));
        assert_eq!(record(&output).planned, 2, "{flag}");
    }
    let help = text(&ping(&["--help"]).stdout);
    assert!(
        help.contains("-c, --count <N>") && help.contains("alias") && help.contains("-n"),
        "{help}"
    );
}

#[test]
fn wrong_usage_is_told_apart_from_failure() {
    for (arguments, code, told) in [
        (&["-c", "0", "127.0.0.1"][..], 1, "above zero"),
        (&["-i", "0", "127.0.0.1"], 1, "above zero"),
        (&["--tcp", "0", "127.0.0.1"], 1, "--tcp"),
        (&["-4", "-6", "127.0.0.1"], 1, "cannot be used with"),
        (&["-c", "-5", "127.0.0.1"], 1, "no quantity can be below zero"),
        (&["http://127.0.0.1/"], 1, "`loadline ttfb` takes URLs"),
        (&["127.0.0.1:80"], 1, "--tcp"),
        (&["a b"], 1, "write a name or an address"),
        (&[""], 1, "write a name or an address"),
        (&[], 1, "HOST"),
        (&["-4", "::1"], 2, "no address for the host `::1`"),
    ] {
        let output = ping(arguments);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {error}");
        assert!(error.contains(told), "{arguments:?}: {error}");
    }
}
