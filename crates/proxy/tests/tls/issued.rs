//! Certificates that an authority issues while the listener serves.

use std::{
    fs,
    io::{self, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    sync::Arc,
    time::Duration,
};

use loadline_core::{
    fleet::{
        Certificate, Fleet, Listener, ListenerTls,
        acme::{Acme, Challenge, Issuer, Storage},
    },
    rules::{Action, Conditions, Redirect, Routes, Rule},
};
use rcgen::{CertificateParams, CustomExtension, KeyPair};
use rustls::{
    ClientConfig,
    client::Resumption,
    pki_types::{CertificateDer, PrivateKeyDer},
    version::TLS13,
};

use crate::{
    authority::{Authority, read},
    support::{ask, connect, echo, fleet, start, with},
};

/// A listener with certificates for `a.test` and `b.test` by ACME, and these.
fn issuing(certificates: Vec<Certificate>, challenge: Challenge) -> (Fleet, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let issuer = Issuer {
        directory: "https://ca.test/dir".to_owned(),
        email: None,
        authorities: None,
        external_account: None,
        challenge,
        state_dir: folder.path().display().to_string(),
        storage: Storage::Disk,
    };
    fs::create_dir(issuer.folder()).unwrap();
    let names = vec!["a.test".to_owned(), "b.test".to_owned()];
    let acme = Some(Acme { names, issuer: Arc::new(issuer) });
    let tls = ListenerTls { acme, ..with(certificates).unwrap() };
    (fleet(echo(None), Some(tls)), folder)
}

/// Where the certificate for `name` goes.
fn file(fleet: &Fleet, name: &str) -> String {
    fleet.listeners[0].tls.as_ref().unwrap().acme.as_ref().unwrap().issuer.certificate(name)
}

/// The certificate that whoever asks for `name` is shown.
fn shown(
    address: SocketAddr,
    client: &Arc<ClientConfig>,
    name: &str,
) -> io::Result<CertificateDer<'static>> {
    let mut client = ClientConfig::clone(client);
    // A session that is resumed has the certificate of its first handshake.
    client.resumption = Resumption::disabled();
    let mut stream = connect(address, &Arc::new(client), name);
    ask(&mut stream, b"x")?;
    let certificates = stream.conn.peer_certificates().unwrap();
    Ok(certificates[0].clone().into_owned())
}

#[test]
fn a_certificate_that_is_issued_is_shown_at_once_and_connections_of_before_go_on() {
    let authority = Authority::new();
    let client = authority.client(&[&TLS13], None);
    let (fleet, _folder) = issuing(vec![], Challenge::Http01);
    let file = file(&fleet, "a.test");
    let (runtime, address) = start(fleet);
    let refused = shown(address, &client, "a.test").unwrap_err();
    assert!(refused.to_string().contains("AccessDenied"), "{refused}");
    let issue = || {
        let signed = authority.sign_as("issued.pem", &["a.test"]);
        fs::copy(&signed.chain, &file).unwrap();
        runtime.handle().show_issued(&file).unwrap();
        read(&signed).0[0].clone()
    };
    let first = issue();
    assert_eq!(shown(address, &client, "a.test").unwrap(), first);
    let mut open = connect(address, &client, "a.test");
    ask(&mut open, b"one").unwrap();
    let second = issue();
    assert_eq!(shown(address, &client, "a.test").unwrap(), second);
    assert!(ask(&mut open, b"two").unwrap().contains("two"));
    let names: Vec<_> = runtime.handle().state().certificates.into_iter().collect();
    assert_eq!((names.len(), &names[0].file), (1, &file));
    fs::write(&file, "half a certif").unwrap();
    assert!(runtime.handle().show_issued(&file).is_err());
    assert_eq!(shown(address, &client, "a.test").unwrap(), second);
    assert!(shown(address, &client, "b.test").is_err(), "there is none yet");
}

#[test]
fn until_it_is_there_the_other_certificates_of_the_listener_are_shown_and_a_reload_keeps_it() {
    let authority = Authority::new();
    let client = authority.client(&[&TLS13], None);
    let given = authority.sign_as("given.pem", &["a.test", "c.test"]);
    let (fleet, _folder) = issuing(vec![given.clone()], Challenge::Http01);
    let (file, given) = (file(&fleet, "a.test"), read(&given).0[0].clone());
    let (runtime, address) = start(fleet.clone());
    assert_eq!(shown(address, &client, "a.test").unwrap(), given);
    let signed = authority.sign_as("issued.pem", &["a.test"]);
    fs::copy(&signed.chain, &file).unwrap();
    runtime.handle().show_issued(&file).unwrap();
    let issued = read(&signed).0[0].clone();
    assert_eq!(shown(address, &client, "a.test").unwrap(), issued);
    assert_eq!(shown(address, &client, "c.test").unwrap(), given);
    runtime.handle().reload(fleet.clone()).unwrap();
    assert_eq!(shown(address, &client, "a.test").unwrap(), issued);
    drop(runtime);
    let (_runtime, address) = start(fleet);
    assert_eq!(shown(address, &client, "a.test").unwrap(), issued, "after a restart");
}

#[test]
fn an_authority_that_verifies_by_tls_sees_its_certificate_and_nobody_else_does() {
    let authority = Authority::new();
    let given = authority.sign_as("given.pem", &["a.test"]);
    let (fleet, _folder) = issuing(vec![given.clone()], Challenge::TlsAlpn01);
    let file = file(&fleet, "a.test");
    let (runtime, address) = start(fleet);
    let client = authority.client(&[&TLS13], None);
    let verifying = |others: &[&str]| {
        let mut config = (*client).clone();
        let protocols = ["acme-tls/1"].iter().chain(others);
        config.alpn_protocols = protocols.map(|it| it.as_bytes().to_vec()).collect();
        Arc::new(config)
    };
    let verifier = verifying(&[]);
    let refused = || shown(address, &verifier, "a.test").unwrap_err().to_string();
    assert!(refused().contains("AccessDenied"), "nothing is verified: {}", refused());
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec!["a.test".to_owned()]).unwrap();
    params.custom_extensions = vec![CustomExtension::new_acme_identifier(&[7; 32])];
    let made = params.self_signed(&key).unwrap().der().clone();
    let private = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    runtime.handle().validate_with(&file, Some((made, private))).unwrap();
    // No client believes it, whose extension none knows; pebble does in the tests of the binary.
    assert!(refused().contains("invalid peer certificate"), "{}", refused());
    let given = read(&given).0[0].clone();
    assert_eq!(shown(address, &client, "a.test").unwrap(), given);
    assert_eq!(shown(address, &verifying(&["http/1.1"]), "a.test").unwrap(), given);
    runtime.handle().validate_with(&file, None).unwrap();
    assert!(refused().contains("AccessDenied"), "it is over: {}", refused());
}

#[test]
fn an_authority_that_verifies_by_http_is_answered_before_any_rule() {
    let mut fleet = fleet(echo(None), None);
    let redirect = Redirect {
        status: 301,
        scheme: Some("https".into()),
        host: None,
        path: None,
        location: None,
    };
    let rule = Rule::new(Conditions::default(), Action::Redirect(redirect));
    fleet.listeners[0] = Listener { routes: Routes::new(vec![rule]), ..fleet.listeners[0].clone() };
    let (runtime, address) = start(fleet);
    let get = |path: &str| {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let head = format!("GET {path} HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let path = "/.well-known/acme-challenge/token";
    assert!(get(path).starts_with("HTTP/1.1 301"));
    runtime.handle().answer_challenge("token", Some("token.thumbprint"));
    let answer = get(path);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.ends_with("\r\n\r\ntoken.thumbprint"), "{answer}");
    assert!(get("/.well-known/acme-challenge/other").starts_with("HTTP/1.1 301"));
    assert_eq!(runtime.handle().state().services[0].counts.endings["ruled"], 3);
    runtime.handle().answer_challenge("token", None);
    assert!(get(path).starts_with("HTTP/1.1 301"));
}
