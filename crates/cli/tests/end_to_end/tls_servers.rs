//! `--to https://...`: servers are verified by the host they are named by, as curl would.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

use crate::process::{Process, file, loadline, run};

pub(crate) type Authority = CertifiedIssuer<'static, KeyPair>;

/// An authority of the test's own, and the file of its certificate.
pub(crate) fn authority(name: &str) -> (Authority, String) {
    let mut params = CertificateParams::new([]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, name);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let path = file("ca.pem", &authority.pem()).display().to_string();
    (authority, path)
}

/// The file of a certificate for this name, and of its key.
pub(crate) fn certificate(authority: &Authority, name: &str) -> String {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new([name.to_owned()]).unwrap();
    let certificate = certificate.signed_by(&key, authority).unwrap();
    file("server.pem", &(certificate.pem() + &key.serialize_pem())).display().to_string()
}

/// A server that answers with its first name, and has a certificate for each. Clients that ask for
/// none of them are shown the first.
fn secured(authority: &Authority, host: &str, names: &[&str]) -> (Process, u16) {
    let files: Vec<String> = names.iter().map(|name| certificate(authority, name)).collect();
    let text = format!(
        "[[listener]]\nbind = \"{host}:0\"\nprotocol = \"https\"\nservice = \"none\"\n\
         tls = {{ certificates = {files:?} }}\n\
         routes = [{{ answer = {{ body = \"{}\" }} }}]\n\
         [[service.none.group]]\nservers = [\"127.0.0.1:9\"]\n",
        names[0],
    );
    let server = Process::start(&["serve", file("server.toml", &text).to_str().unwrap()]);
    let port = server.address.rsplit(':').next().unwrap().parse().unwrap();
    (server, port)
}

fn proxy(args: &[&str], roots: Option<&str>) -> Process {
    let mut command = loadline(&[&["serve", "--listen", "127.0.0.1:0"], args].concat());
    command.envs(roots.map(|path| ("SSL_CERT_FILE", path)));
    Process::of_command(command)
}

/// What curl gets, and its status.
fn got(proxy: &Process) -> String {
    let output = run("curl", &["-sS", "-w", " %{http_code}", &proxy.url("/")]);
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn servers_by_https_prove_the_names_and_addresses_they_are_named_by() {
    let (authority, ca) = authority("authority");
    let (_named, named) = secured(&authority, "127.0.0.1", &["other.test", "localhost"]);
    let (_v4, v4) = secured(&authority, "127.0.0.1", &["127.0.0.1"]);
    let (_v6, v6) = secured(&authority, "[::1]", &["::1"]);
    let urls = [
        format!("https://localhost:{named}"),
        format!("https://127.0.0.1:{v4}/"),
        format!("HTTPS://[::1]:{v6}"),
    ];
    let to: Vec<&str> = urls.iter().flat_map(|url| ["--to", url]).collect();
    let trusting = proxy(&[&to[..], &["--cacert", &ca]].concat(), None);
    let expected = ["127.0.0.1 200", "::1 200", "other.test 200"].map(str::to_owned);
    let (mut answers, start) = (BTreeSet::new(), Instant::now());
    while answers.len() < expected.len() && start.elapsed() < Duration::from_secs(20) {
        answers.insert(got(&trusting));
    }
    answers.extend((0..6).map(|_| got(&trusting)));
    assert_eq!(answers, BTreeSet::from(expected));
    let system = proxy(&to, Some(&ca));
    assert!((0..6).all(|_| got(&system).ends_with(" 200")), "the system's roots are trusted");
}

#[test]
fn a_server_of_another_name_or_authority_is_a_502_that_the_log_explains() {
    let (authority, ca) = authority("authority");
    let (_server, port) = secured(&authority, "127.0.0.1", &["other.test"]);
    let (stranger, _) = self::authority("stranger");
    let (_strange, strange) = secured(&stranger, "127.0.0.1", &["localhost"]);
    for (url, why) in [
        (format!("https://localhost:{port}"), "hostname mismatch"),
        (format!("https://127.0.0.1:{port}"), "hostname mismatch"),
        (format!("https://localhost:{strange}"), "unable to get local issuer certificate"),
    ] {
        let verifying = proxy(&["--to", &url, "--cacert", &ca], None);
        assert!(got(&verifying).ends_with(" 502"), "{url}");
        let log = verifying.terminate().log;
        assert!(log.contains("WARN") && log.contains(why), "{url}: {log}");
        for insecure in ["--insecure", "-k"] {
            let believing = proxy(&["--to", &url, insecure], None);
            assert!(got(&believing).ends_with(" 200"), "{url} {insecure}");
        }
    }
}

#[test]
fn what_cannot_be_served_over_tls_is_told_before_it_starts() {
    for (args, told) in [
        (&["--to", "https://10.0.0.1", "--to", "http://10.0.0.2"][..], "https://10.0.0.1"),
        (&["--to", "https://10.0.0.1", "--to", "10.0.0.2:80"], "all servers"),
        (&["--to", "http://10.0.0.1", "--insecure"], "--insecure"),
        (&["--to", "10.0.0.1:443", "--cacert", "ca.pem"], "--cacert"),
        (&["--to", "https://10.0.0.1/path"], "path"),
        (&["--to", "https://u:secret@10.0.0.1"], "user"),
        (&["--to", "wss://10.0.0.1"], "https://host"),
        (&["--to", "https://10.0.0.1", "--cacert", "/no/such.pem"], "/no/such.pem"),
        (&["--to", "https://10.0.0.1", "--cacert", "ca.pem", "-k"], "cannot be used with"),
    ] {
        let mut command = loadline(&[&["serve", "--listen", "127.0.0.1:0"], args].concat());
        let output = command.output().unwrap();
        let log = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{args:?}: {log}");
        assert!(log.contains(told) && !log.contains("secret"), "{args:?}: {log}");
    }
}
