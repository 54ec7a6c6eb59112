//! Other people's clients.

use std::process::Command;

use loadline_core::{
    decide::ending::Ending,
    fleet::{Certificate, ClientCheck, Fleet, ListenerTls, Protocol},
};

use crate::{
    authority::Authority,
    support::{OK, Proxy, answering, fleet, wait_until},
};

/// Has the listener speak TLS with this certificate.
pub(crate) fn https(fleet: &mut Fleet, certificate: Certificate) {
    fleet.listeners[0].protocol = Protocol::Https;
    fleet.listeners[0].tls = Some(ListenerTls::of(vec![certificate]));
}

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
    let authority = Authority::new();
    let mut fleet = fleet(answering(OK));
    https(&mut fleet, authority.sign(&["a.test"]));
    let proxy = Proxy::of(fleet);
    let url = format!("https://{}/", proxy.address);
    for (flag, version) in [("--http2", "2"), ("--http1.1", "1.1"), ("--no-alpn", "1.1")] {
        let said = output("curl", &["-sk", flag, "-w", SHAPE, &url, &url]);
        assert_eq!(said, format!("ok {version} 200\n").repeat(2), "{flag}");
    }
    proxy.expect(Ending::Complete, 6);
}

#[test]
fn curl_shows_its_certificate_in_every_version_of_tls_and_http() {
    let authority = Authority::new();
    let mut fleet = fleet(answering(OK));
    https(&mut fleet, authority.sign(&["a.test"]));
    let check = ClientCheck { authorities: authority.file(), required: true, subject_header: None };
    fleet.listeners[0].tls.as_mut().unwrap().clients = Some(check);
    let proxy = Proxy::of(fleet);
    let (port, known) = (proxy.address.port(), authority.sign(&["client.test"]).chain);
    let other = Authority::new();
    let stranger = other.sign(&["client.test"]);
    let (to, url) = (format!("a.test:{port}:127.0.0.1"), format!("https://a.test:{port}/"));
    let trust = ["-s", "--resolve", &to, "--cacert", &authority.file(), "-w", SHAPE];
    for tls in [["--tlsv1.2", "--tls-max", "1.2"], ["--tlsv1.3", "--tls-max", "1.3"]] {
        for (flag, version) in [("--http2", "2"), ("--http1.1", "1.1")] {
            let ask = |shown: &[&str]| {
                output("curl", &[&trust[..], &tls, &[flag], shown, &[&url]].concat())
            };
            assert_eq!(ask(&["--cert", &known]), format!("ok {version} 200\n"), "{tls:?} {flag}");
            for refused in [&[][..], &["--cert", &stranger.chain]] {
                assert_eq!(ask(refused), " 0 000\n", "{tls:?} {flag} {refused:?}");
            }
        }
    }
    wait_until(|| proxy.runtime.tallies().requests() == 12, "all told");
    let told = proxy.runtime.tallies();
    let counts = [Ending::Complete, Ending::ClientBad].map(|ending| told.count(ending));
    assert_eq!(counts, [4, 8], "refused handshakes: {told:?}");
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
