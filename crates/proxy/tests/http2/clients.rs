//! Other people's clients.

use std::{fs, process::Command};

use loadline_core::{
    ending::Ending,
    fleet::{Certificate, ListenerTls, Protocol, TlsTerms},
};
use rcgen::generate_simple_self_signed;

use crate::support::{OK, Proxy, answering, fleet};

fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}"));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn curl_is_answered_in_the_version_it_asks_for() {
    let proxy = Proxy::to(answering(OK));
    let url = format!("http://{}/", proxy.address);
    for (flag, version) in [
        ("--http2-prior-knowledge", "2"),
        ("--http1.1", "1.1"),
        // The upgrade to h2c is no longer part of the standard (RFC 9113, 3.1).
        ("--http2", "1.1"),
    ] {
        let said = output("curl", &["-s", flag, "-w", SHAPE, &url]);
        assert_eq!(said, format!("ok {version} 200\n"), "{flag}");
    }
    proxy.expect(Ending::Complete, 3);
}

#[test]
fn curl_agrees_on_a_version_over_tls() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.pem").display().to_string();
    let made = generate_simple_self_signed(["a.test".to_owned()]).unwrap();
    fs::write(&path, made.cert.pem() + &made.signing_key.serialize_pem()).unwrap();
    let certificate = Certificate { chain: path.clone(), key: path, staple: None };
    let mut fleet = fleet(answering(OK));
    fleet.listeners[0].protocol = Protocol::Https;
    fleet.listeners[0].tls = Some(ListenerTls {
        certificates: vec![certificate],
        clients: None,
        resumption: true,
        terms: TlsTerms::default(),
    });
    let proxy = Proxy::of(fleet);
    let url = format!("https://{}/", proxy.address);
    for (flag, version) in [("--http2", "2"), ("--http1.1", "1.1"), ("--no-alpn", "1.1")] {
        let said = output("curl", &["-sk", flag, "-w", SHAPE, &url, &url]);
        assert_eq!(said, format!("ok {version} 200\n").repeat(2), "{flag}");
    }
    proxy.expect(Ending::Complete, 6);
}

#[test]
fn h2load_has_ten_thousand_requests_answered() {
    let proxy = Proxy::to(answering(OK));
    let url = format!("http://{}/", proxy.address);
    let report = output("h2load", &["-n10000", "-c10", "-m20", &url]);
    assert!(report.contains("10000 succeeded, 0 failed, 0 errored, 0 timeout"), "{report}");
    proxy.expect(Ending::Complete, 10_000);
}

const SHAPE: &str = " %{http_version} %{response_code}\n";
