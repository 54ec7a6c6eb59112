//! gRPC by its reference implementation on both sides: every kind of call, errors, deadlines,
//! metadata. It shares no code with the proxy, which uses h2 on both of its sides.

use std::{
    io::{BufRead as _, BufReader},
    net::SocketAddr,
    process::{Child, Command, Stdio},
};

use loadline_core::{
    decide::ending::Ending,
    fleet::{Fleet, HttpVersion, ServerTls, TlsTerms},
};

use crate::{
    authority::Authority,
    clients::https,
    support::{Proxy, fleet, wait_until},
};

/// A script of Python as a server; killed when it is dropped.
pub(crate) struct Script {
    process: Child,
    pub(crate) address: SocketAddr,
}

impl Script {
    /// Starts `script server` and waits for the port it prints.
    pub(crate) fn serve(script: &str, arguments: &[&str]) -> Self {
        let mut process = python(script, "server", arguments).stdout(Stdio::piped()).spawn();
        let output = process.as_mut().unwrap().stdout.take().unwrap();
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).unwrap();
        let port = line.trim().parse().expect("the script prints its port, or why it cannot");
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        Self { process: process.unwrap(), address }
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        // Both fail where it has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The distribution's Python, whose modules `scripts/setup test` installs.
fn python(script: &str, role: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new("/usr/bin/python3");
    let path = format!("{}/tests/http2/{script}", env!("CARGO_MANIFEST_DIR"));
    command.arg(path).arg(role).args(arguments);
    command
}

/// Runs `script client`, which ends well or says what was wrong.
pub(crate) fn run(script: &str, arguments: &[&str]) {
    let output = python(script, "client", arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}

fn behind(server: &Script) -> Fleet {
    let mut fleet = fleet(server.address);
    fleet.services[0].http_version = HttpVersion::Http2;
    fleet
}

/// All 12 calls are counted, and the one that the client took back as such. Of the one whose
/// deadline passes the server may tell in time, or the client be gone first.
fn expect(proxy: &Proxy) {
    let counted = || {
        let tallies = proxy.runtime.tallies();
        [Ending::Complete, Ending::ClientGone].map(|ending| tallies.count(ending))
    };
    wait_until(|| [[10, 2], [11, 1]].contains(&counted()), "all calls to be counted");
    assert_eq!(proxy.runtime.tallies().requests(), 12);
}

#[test]
fn every_kind_of_call_works_in_clear() {
    let server = Script::serve("grpc_calls.py", &[]);
    let proxy = Proxy::of(behind(&server));
    run("grpc_calls.py", &[&proxy.address.to_string()]);
    expect(&proxy);
}

#[test]
fn every_kind_of_call_works_over_tls_on_both_sides() {
    let authority = Authority::new();
    let certificate = authority.sign(&["a.test"]);
    let server = Script::serve("grpc_calls.py", &[&certificate.chain]);
    let mut fleet = behind(&server);
    fleet.services[0].tls = Some(ServerTls {
        authorities: Some(authority.file()),
        verify: true,
        name: Some("a.test".to_owned()),
        certificate: None,
        terms: TlsTerms::default(),
    });
    https(&mut fleet, certificate);
    let proxy = Proxy::of(fleet);
    run("grpc_calls.py", &[&proxy.address.to_string(), &authority.file()]);
    expect(&proxy);
}
