//! h2spec, every one of its cases (<https://github.com/summerwind/h2spec>).
//!
//! The server behind the proxy answers with more than a few bytes: two cases shrink a window to
//! less than the response, and are skipped where it is as short.

use std::{
    io::{Read as _, Write as _},
    net::SocketAddr,
    process::Command,
};

use loadline_core::fleet::{Fleet, HttpVersion};

use crate::{
    authority::Authority,
    clients::https,
    support::{Proxy, fleet, head, server},
};

const LONG: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\nhello, world\n";

/// A server that answers when it has all of a request: a response that comes before ends the
/// stream, and what is wrong further on is not seen any more.
fn attentive() -> SocketAddr {
    server(|mut stream| {
        while let Some(request) = head(&mut stream) {
            // A body in chunks ends as a head does.
            if request.contains("chunked") && head(&mut stream).is_none() {
                return;
            }
            // Who answers before it has come leaves the proxy nothing to find wrong with it.
            if stream.read_exact(&mut vec![0; body_bytes(&request)]).is_err() {
                return;
            }
            stream.write_all(LONG).unwrap();
        }
    })
}

fn body_bytes(request: &str) -> usize {
    let named = |line: &str| {
        let (name, value) = line.split_once(": ")?;
        if name.eq_ignore_ascii_case("content-length") { value.parse().ok() } else { None }
    };
    request.lines().find_map(named).unwrap_or(0)
}

/// Has all cases tried, and what h2spec found printed.
fn conforms(fleet: Fleet, options: &[&str]) {
    let proxy = Proxy::of(fleet);
    let port = proxy.address.port().to_string();
    // A case that waits in vain is given up after ten seconds.
    let mut h2spec = Command::new("h2spec");
    h2spec.args(["--strict", "--timeout", "10", "--host", "127.0.0.1", "--port", &port]);
    let output = h2spec.args(options).output();
    let output = output.unwrap_or_else(|error| panic!("h2spec: {error}; see scripts/setup"));
    let report = String::from_utf8_lossy(&output.stdout);
    let failures = report.find("Failures:").map_or("", |at| &report[at..]);
    assert!(output.status.success(), "{failures}{}", String::from_utf8_lossy(&output.stderr));
    let found = report.lines().rev().find(|line| line.contains(" tests, ")).unwrap_or_default();
    assert_eq!(found, "146 tests, 146 passed, 0 skipped, 0 failed");
}

#[test]
fn every_case_of_h2spec_passes_in_clear() {
    let mut fleet = fleet(attentive());
    fleet.listeners[0].http_version = Some(HttpVersion::Http2);
    conforms(fleet, &[]);
}

#[test]
fn every_case_of_h2spec_passes_over_tls() {
    let authority = Authority::new();
    let mut fleet = fleet(attentive());
    https(&mut fleet, authority.sign(&["a.test"]));
    conforms(fleet, &["--tls", "--insecure"]);
}
