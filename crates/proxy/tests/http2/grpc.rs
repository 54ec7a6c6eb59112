//! gRPC by its reference implementation on both sides: every kind of call, errors, deadlines,
//! metadata. It shares no code with the proxy, nor with the h2 crate.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::SocketAddr,
    process::{Child, ChildStdout, Command, Stdio},
};

use loadline_core::{
    decide::{census::Condition, ending::Ending},
    fleet::{Fleet, HealthCheck, HttpVersion, Probe, ServerTls, TlsTerms},
    time::Duration,
};

use crate::{
    authority::Authority,
    clients::https,
    support::{Proxy, fleet, wait_until},
};

/// A script of Python as a server; killed when it is dropped.
pub(crate) struct Script {
    process: Child,
    output: BufReader<ChildStdout>,
    pub(crate) address: SocketAddr,
}

impl Script {
    /// Starts `script server` and waits for the port it prints.
    pub(crate) fn serve(script: &str, arguments: &[&str]) -> Self {
        let mut command = python(script, "server", arguments);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let port = line.trim().parse().expect("the script prints its port, or why it cannot");
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        Self { process, output, address }
    }

    /// Tells the script a line, and waits until it has obeyed.
    fn tell(&mut self, line: &str) {
        let input = self.process.stdin.as_mut().unwrap();
        input.write_all(format!("{line}\n").as_bytes()).unwrap();
        self.output.read_line(&mut String::new()).unwrap();
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
    fleet.services[0].tls = Some(trusting(&authority));
    https(&mut fleet, certificate);
    let proxy = Proxy::of(fleet);
    run("grpc_calls.py", &[&proxy.address.to_string(), &authority.file()]);
    expect(&proxy);
}

/// TLS towards servers with the name `a.test` that this authority has signed for.
fn trusting(authority: &Authority) -> ServerTls {
    ServerTls {
        authorities: Some(authority.file()),
        verify: true,
        name: Some("a.test".to_owned()),
        certificate: None,
        terms: TlsTerms::default(),
    }
}

/// The server of a fleet whose health is asked for, many times a second.
fn checked(mut fleet: Fleet, service: &str) -> Proxy {
    fleet.services[0].health = Some(HealthCheck {
        probe: Probe::Grpc { service: service.to_owned(), host: None },
        interval: Duration::from_millis(20),
        fast_interval: Duration::from_millis(20),
        timeout: Duration::from_secs(10),
        rise: 1,
        fall: 1,
        lenient: false,
    });
    Proxy::of(fleet)
}

/// Waits until the server is up, where there is no reason, or down for this one.
fn wait_for(proxy: &Proxy, reason: Option<&str>) {
    let condition = if reason.is_none() { Condition::Up } else { Condition::Down };
    let is_so = || {
        let server = proxy.runtime.handle().state().services[0].groups[0].servers[0].clone();
        server.condition == condition && (server.reason.as_deref() == reason || reason.is_none())
    };
    wait_until(is_so, &format!("the server to be {condition:?} ({reason:?})"));
}

#[test]
fn a_server_is_up_while_its_health_service_says_serving_and_down_with_the_reason_else() {
    let mut server = Script::serve("health_service.py", &[]);
    server.tell(" 1");
    server.tell("a.B 1");
    let [whole, one] = ["", "a.B"].map(|service| checked(behind(&server), service));
    let other = checked(behind(&server), "a.C");
    wait_for(&whole, None);
    wait_for(&one, None);
    wait_for(&other, Some("gRPC status 5 NOT_FOUND: unknown service"));
    for (status, reason) in [
        (2, Some("health status NOT_SERVING")),
        (1, None),
        (3, Some("health status SERVICE_UNKNOWN")),
        (0, Some("health status UNKNOWN")),
        (1, None),
    ] {
        server.tell(&format!("a.B {status}"));
        wait_for(&one, reason);
        wait_for(&whole, None);
    }
    drop(server);
    wait_for(&one, Some("connection refused"));
}

#[test]
fn a_server_without_a_health_service_is_down_with_a_reason_that_says_so() {
    let server = Script::serve("grpc_calls.py", &[]);
    let proxy = checked(behind(&server), "");
    wait_for(&proxy, Some("gRPC status 12 UNIMPLEMENTED: Method not found!"));
}

#[test]
fn health_is_asked_for_over_tls_where_servers_have_it() {
    let authority = Authority::new();
    let certificate = authority.sign(&["a.test"]);
    let mut server = Script::serve("health_service.py", &[&certificate.chain]);
    let mut fleet = behind(&server);
    fleet.services[0].tls = Some(trusting(&authority));
    let proxy = checked(fleet, "");
    wait_for(&proxy, Some("gRPC status 5 NOT_FOUND: unknown service"));
    server.tell(" 1");
    wait_for(&proxy, None);
    server.tell(" 2");
    wait_for(&proxy, Some("health status NOT_SERVING"));
}
