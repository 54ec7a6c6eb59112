//! Our own load generator over HTTP/3.

use std::process::Output;

use loadline_measure::record::{Document, LoadRecord, Outcomes, ProbeRecord, Record};

use crate::edge::{Edge, loadline};

fn run(arguments: &[&str]) -> Output {
    let output = loadline(arguments).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {error}");
    output
}

pub(crate) fn bench(arguments: &[&str]) -> LoadRecord {
    let output = run(&[&["bench", "-k", "--json", "-q"], arguments].concat());
    let document = Document::read(&output.stdout).unwrap();
    let Record::Load(record) = document.record else { panic!("a load record is expected") };
    record
}

fn ttfb(arguments: &[&str]) -> ProbeRecord {
    let output = run(&[&["ttfb", "--http3", "-k", "--json", "-q"], arguments].concat());
    let document = Document::read(&output.stdout).unwrap();
    let Record::Probe(record) = document.record else { panic!("a probe record is expected") };
    record
}

#[test]
fn a_run_has_every_request_answered_over_one_connection() {
    let mut edge = Edge::start();
    let url = edge.url() + "/1000";
    let record = bench(&["--http3", &url, "--users", "20", "-n", "50"]);
    assert_eq!(record.outcomes, Outcomes { ok: 1_000, ..Outcomes::default() });
    assert_eq!((record.protocol.as_str(), record.connections), ("HTTP/3", 1));
    assert!(record.bytes_read > 1_000 * 1_000, "{}", record.bytes_read);
    assert_eq!((record.phases.connect.count, record.phases.tls.count), (1, 0));
    assert_eq!(record.phases.first_byte.count, 1_000);
    edge.assert_sound();
}

#[test]
fn connections_are_as_many_as_asked_and_bodies_go_up() {
    let mut edge = Edge::start();
    let url = edge.url();
    let body = "x".repeat(100_000);
    let body = ["-X", "POST", "--body", &body];
    let sizes = [&["--http3", &url, "--connections", "4", "--rate", "200", "-n", "100"][..], &body]
        .concat();
    let record = bench(&sizes);
    assert_eq!(record.outcomes, Outcomes { ok: 100, ..Outcomes::default() });
    assert!((1..=4).contains(&record.connections), "{}", record.connections);
    let users = ["--connections", "4", "--users", "16", "-n", "10"];
    assert_eq!(bench(&[&["--http3", &*url][..], &users].concat()).connections, 4);
    edge.assert_sound();
}

#[test]
fn the_handshake_of_quic_is_the_connect_of_ttfb() {
    let edge = Edge::start();
    let url = edge.url().replace("127.0.0.1", "localhost") + "/10";
    let record = ttfb(&[&url, "-n", "5"]);
    let target = &record.targets[0];
    assert_eq!((target.protocol.as_str(), target.connections), ("HTTP/3", 5));
    for sample in &target.samples {
        assert!(sample.connect.is_some() && sample.tls.is_none(), "{sample:?}");
        let parts = [sample.dns, sample.connect, sample.first_byte].into_iter().flatten();
        assert!(parts.sum::<loadline_core::time::Duration>() <= sample.time.unwrap(), "{sample:?}");
    }
    let kept = ttfb(&[&url, "-n", "5", "--keepalive"]);
    assert_eq!((kept.targets[0].connections, kept.targets[0].outcomes.ok), (1, 5));
}

#[test]
fn a_port_where_nobody_speaks_http3_refuses() {
    let edge = Edge::with("http3 = false");
    let url = edge.url();
    let record = bench(&["--http3", &url, "--users", "1", "-n", "3"]);
    assert_eq!(record.outcomes, Outcomes { connect_refused: 3, ..Outcomes::default() });
}

#[test]
fn a_certificate_is_verified_unless_it_is_not_to_be() {
    let edge = Edge::start();
    let url = edge.url() + "/10";
    let ask = |trust: &[&str]| {
        let arguments = [&["bench", "--http3", "-n", "2", "--users", "1", &url], trust].concat();
        String::from_utf8(loadline(&arguments).output().unwrap().stdout).unwrap()
    };
    let strange = ask(&[]);
    assert!(strange.contains("bad answer") && strange.contains("UnknownIssuer"), "{strange}");
    let known = ask(&["--cacert", &edge.certificate()]);
    assert!(known.contains("HTTP/3") && known.contains("status 200: 2"), "{known}");
}

#[test]
fn a_capacity_is_searched_over_http3() {
    let edge = Edge::start();
    let url = edge.url() + "/10";
    let search = ["--slo", "p99<1s", "--max-rate", "400/s", "--rung=100ms", "--first-trial=200ms"];
    let lengths = ["--trial=300ms", "--trial-sum=1s", "--confirm=500ms", "--within=5s"];
    let arguments = [&["capacity", "--http3", "-k", "--json", &url], &search[..], &lengths];
    let output = loadline(&arguments.concat()).output().unwrap();
    // Too busy a machine is told, and is a search over HTTP/3 too.
    assert!(matches!(output.status.code(), Some(0 | 98)), "{output:?}");
    let document = Document::read(&output.stdout).unwrap();
    let Record::Capacity(record) = document.record else { panic!("a capacity record") };
    assert!(record.rungs.iter().any(|rung| rung.met), "{:?}", record.rungs);
}

#[test]
fn http3_without_tls_is_wrong_usage() {
    for (arguments, told) in [
        (&["bench", "http://localhost/", "--users", "1", "--http3"][..], "write https://"),
        (&["ttfb", "localhost", "--http3"], "write https://"),
        (&["capacity", "localhost", "--slo", "p99<1s", "--http3"], "write https://"),
        (&["ttfb", "https://localhost/", "--http3", "--http2"], "cannot be used with"),
        (&["ttfb", "https://localhost/", "--http3", "--tls-max", "1.2"], "TLS 1.3"),
        (&["bench", "https://localhost/", "--users", "1", "--http3", "--no-keepalive"], "HTTP/3"),
    ] {
        let output = loadline(arguments).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {error}");
        assert!(error.contains(told), "{arguments:?}: {error}");
    }
}
