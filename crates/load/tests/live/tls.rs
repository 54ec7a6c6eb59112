//! `https://` targets: versions, certificates of both sides, and what is said when they are wrong.

use std::{io::Write as _, path::PathBuf};

use loadline_core::time::Duration;
use loadline_load::{
    LoadError, LoadPlan, Protocol, TlsVersion,
    probe::{self, TtfbPlan},
};
use loadline_measure::record::Outcomes;
use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use rustls::version::{TLS12, TLS13};

use crate::{
    one_user, run,
    secure::{Authority, Identity, Served, Speech},
    server::Server,
};

/// A file that is removed with its directory.
fn file(directory: &tempfile::TempDir, name: &str, text: &str) -> PathBuf {
    let path = directory.path().join(name);
    std::fs::File::create(&path).unwrap().write_all(text.as_bytes()).unwrap();
    path
}

/// A plan of one user for `localhost` at the server's port, who verifies nothing yet.
fn plan(server: &Served, requests: u64) -> LoadPlan {
    let mut plan = one_user(&format!("https://{}/", server.address), requests);
    plan.transport.tls.server_name = Some("localhost".to_owned());
    plan.transport.protocol = Protocol::Http1;
    plan
}

#[test]
fn each_version_is_spoken_when_it_is_asked_for_and_the_record_says_which() {
    let authority = Authority::new();
    let identity = authority.sign("localhost");
    let both = authority.server(&identity, &[&TLS12, &TLS13], false);
    let server = Served::start(Speech::secure(both, false));
    let directory = tempfile::tempdir().unwrap();
    let mut plan = plan(&server, 5);
    plan.transport.tls.authorities = Some(file(&directory, "ca.pem", &authority.pem()));
    for (only, protocol) in [
        (None, "HTTP/1.1 over TLS 1.3"),
        (Some(TlsVersion::V12), "HTTP/1.1 over TLS 1.2"),
        (Some(TlsVersion::V13), "HTTP/1.1 over TLS 1.3"),
    ] {
        plan.transport.tls.version = only;
        let record = run(&plan);
        assert_eq!((record.outcomes.ok, record.connections), (5, 1), "{only:?}");
        assert_eq!(record.protocol, protocol);
    }
}

#[test]
fn a_new_connection_per_request_resumes_the_session() {
    let authority = Authority::new();
    let tls = authority.server(&authority.sign("localhost"), &[&TLS13], false);
    let server = Served::start(Speech::secure(tls, false));
    let mut plan = plan(&server, 4);
    plan.transport.tls.insecure = true;
    plan.keepalive = false;
    let record = run(&plan);
    assert_eq!((record.outcomes.ok, record.connections), (4, 4));
    assert_eq!((server.connections(), server.resumed()), (4, 3));
}

#[test]
fn a_certificate_of_nobody_or_for_another_is_a_bad_answer() {
    let (trusted, other) = (Authority::new(), Authority::new());
    let directory = tempfile::tempdir().unwrap();
    let authorities = file(&directory, "ca.pem", &trusted.pem());
    for identity in [other.sign("localhost"), trusted.sign("example.org")] {
        let tls = trusted.server(&identity, &[&TLS12, &TLS13], false);
        let server = Served::start(Speech::secure(tls, false));
        let mut plan = plan(&server, 2);
        plan.transport.tls.authorities = Some(authorities.clone());
        let expected = Outcomes { bad_answer: 2, ..Outcomes::default() };
        let record = run(&plan);
        assert_eq!(record.outcomes, expected);
        let reasons: Vec<_> = record.reasons.into_iter().collect();
        assert!(matches!(&reasons[..], [(why, 2)] if why.contains("certificate")), "{reasons:?}");
        plan.transport.tls.insecure = true;
        assert_eq!(run(&plan).outcomes.ok, 2, "who verifies nothing is answered");
    }
}

/// As `openssl req -x509` makes it for `localhost`, with these purposes where there are any.
fn self_signed(purposes: &[ExtendedKeyUsagePurpose]) -> Identity {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.extended_key_usages = purposes.to_vec();
    let certificate = params.self_signed(&key).unwrap().pem();
    Identity { certificate, key: key.serialize_pem() }
}

#[test]
fn a_self_signed_certificate_of_an_authority_is_enough_where_it_is_trusted_itself() {
    let (other, identity) = (Authority::new(), self_signed(&[]));
    let directory = tempfile::tempdir().unwrap();
    let [itself, stranger] = [("itself.pem", &identity.certificate), ("ca.pem", &other.pem())]
        .map(|(name, text)| file(&directory, name, text));
    let tls = other.server(&identity, &[&TLS12, &TLS13], false);
    let server = Served::start(Speech::secure(tls, false));
    for (authorities, name, ok) in
        [(&itself, "localhost", 2), (&itself, "example.org", 0), (&stranger, "localhost", 0)]
    {
        let mut plan = plan(&server, 2);
        plan.transport.tls.authorities = Some(authorities.clone());
        plan.transport.tls.server_name = Some(name.to_owned());
        let outcomes = run(&plan).outcomes;
        assert_eq!((outcomes.ok, outcomes.bad_answer), (ok, 2 - ok), "{authorities:?} {name}");
    }
}

#[test]
fn a_trusted_certificate_of_an_authority_that_is_for_clients_is_a_bad_answer() {
    let identity = self_signed(&[ExtendedKeyUsagePurpose::ClientAuth]);
    let tls = Authority::new().server(&identity, &[&TLS12, &TLS13], false);
    let server = Served::start(Speech::secure(tls, false));
    let directory = tempfile::tempdir().unwrap();
    let mut plan = plan(&server, 2);
    plan.transport.tls.authorities = Some(file(&directory, "ca.pem", &identity.certificate));
    let record = run(&plan);
    assert_eq!(record.outcomes, Outcomes { bad_answer: 2, ..Outcomes::default() });
    let reasons: Vec<_> = record.reasons.into_iter().collect();
    let told = "invalid peer certificate: it is not for a server";
    assert!(matches!(&reasons[..], [(why, 2)] if why.contains(told)), "{reasons:?}");
}

#[test]
fn a_server_that_asks_for_a_certificate_refuses_who_has_none() {
    let authority = Authority::new();
    let identity = authority.sign("localhost");
    let directory = tempfile::tempdir().unwrap();
    let client = authority.sign("client");
    let pair = format!("{}{}", client.certificate, client.key);
    for version in [&TLS12, &TLS13] {
        let tls = authority.server(&identity, &[version], true);
        let server = Served::start(Speech::secure(tls, true));
        for protocol in [Protocol::Http1, Protocol::Http2] {
            let mut plan = plan(&server, 2);
            plan.transport.tls.insecure = true;
            plan.transport.protocol = protocol;
            let refused = Outcomes { connect_refused: 2, ..Outcomes::default() };
            let record = run(&plan);
            assert_eq!(record.outcomes, refused, "{protocol:?}, {version:?}");
            let reasons: Vec<_> = record.reasons.iter().collect();
            let [(why, 2)] = &reasons[..] else { panic!("{protocol:?}, {version:?}: {reasons:?}") };
            assert!(why.starts_with("received fatal alert: "), "{why}");
            plan.transport.tls.certificate = Some(file(&directory, "client.pem", &pair));
            assert_eq!(run(&plan).outcomes.ok, 2, "{protocol:?}, {version:?}");
        }
    }
}

#[test]
fn ttfb_says_why_a_certificate_or_its_absence_is_refused() {
    let authority = Authority::new();
    let identity = authority.sign("localhost");
    let directory = tempfile::tempdir().unwrap();
    let stranger = file(&directory, "ca.pem", &Authority::new().pem());
    for (of_client, outcomes, told) in [
        (false, Outcomes { bad_answer: 2, ..Outcomes::default() }, "invalid peer certificate: "),
        (true, Outcomes { connect_refused: 2, ..Outcomes::default() }, "received fatal alert: "),
    ] {
        let tls = authority.server(&identity, &[&TLS13], of_client);
        let server = Served::start(Speech::secure(tls, false));
        let mut request = plan(&server, 1);
        request.transport.tls.insecure = of_client;
        request.transport.tls.authorities = (!of_client).then(|| stranger.clone());
        let plan = TtfbPlan {
            requests: vec![request],
            count: 2,
            interval: Duration::ZERO,
            keepalive: false,
        };
        let measured = probe::ttfb(&plan, |_| (), std::future::pending());
        let record = loadline_load::runtime().unwrap().block_on(measured).unwrap();
        let target = &record.targets[0];
        assert_eq!(target.outcomes, outcomes, "{:?}", target.reasons);
        let reasons: Vec<_> = target.reasons.iter().collect();
        let [(why, 2)] = &reasons[..] else { panic!("{reasons:?}") };
        assert!(why.starts_with(told), "{why}");
    }
}

#[test]
fn a_server_that_speaks_no_tls_is_a_bad_answer() {
    let server = Server::answering(b"HTTP/1.1 400 Bad Request\r\n\r\n\r\n\r\n");
    let mut plan = one_user(&server.url().replace("http:", "https:"), 2);
    plan.transport.tls.insecure = true;
    plan.transport.protocol = Protocol::Http1;
    plan.timeout = Duration::from_secs(1);
    let outcomes = run(&plan).outcomes;
    // Its thread waits for the end of a request that does not come, or closes on the garbage.
    assert_eq!(outcomes.bad_answer + outcomes.connect_timeout + outcomes.reset, 2);
}

#[test]
fn a_file_that_cannot_be_used_is_named_before_the_run() {
    let authority = Authority::new();
    let identity = authority.sign("localhost");
    let directory = tempfile::tempdir().unwrap();
    let empty = file(&directory, "empty.pem", "");
    let chain = file(&directory, "chain.pem", &identity.certificate);
    let strange = file(&directory, "key.pem", &authority.sign("localhost").key);
    let absent = directory.path().join("absent.pem");
    let base = one_user("https://127.0.0.1:9/", 1);
    let with = |change: &dyn Fn(&mut loadline_load::Tls)| {
        let mut plan = base.clone();
        change(&mut plan.transport.tls);
        plan
    };
    for (plan, part) in [
        (with(&|tls| tls.authorities = Some(absent.clone())), "absent.pem"),
        (with(&|tls| tls.authorities = Some(empty.clone())), "BEGIN CERTIFICATE"),
        (
            with(&|tls| {
                tls.insecure = true;
                tls.certificate = Some(chain.clone());
            }),
            "client's key",
        ),
        (
            with(&|tls| {
                tls.insecure = true;
                (tls.certificate, tls.key) = (Some(chain.clone()), Some(strange.clone()));
            }),
            "cannot be used together",
        ),
        (
            with(&|tls| {
                tls.insecure = true;
                tls.key = Some(strange.clone());
            }),
            "certificate as well",
        ),
        (
            with(&|tls| {
                tls.insecure = true;
                tls.server_name = Some("no name".to_owned());
            }),
            "no name",
        ),
    ] {
        let error = refused(&plan).to_string();
        assert!(error.contains(part), "{part}: {error}");
    }
}

fn refused(plan: &LoadPlan) -> LoadError {
    let runtime = loadline_load::runtime().unwrap();
    runtime.block_on(loadline_load::run(plan, |_| ())).unwrap_err()
}
