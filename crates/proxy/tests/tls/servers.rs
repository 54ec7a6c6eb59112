//! TLS towards servers.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        mpsc::{Receiver, Sender, channel},
    },
    thread,
    time::{Duration as StdDuration, Instant},
};

use loadline_core::{
    decide::census::Condition,
    fleet::{Fleet, HealthCheck, Probe, ServerTls, TlsTerms},
    time::Duration,
};
use loadline_proxy::tls::Keys;
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use rustls::{ServerConfig, ServerConnection, StreamOwned, pki_types::PrivateKeyDer};

use crate::{
    authority::{Authority, read},
    support::{ask, becomes, echo, fleet, message, serve, start},
};

/// Longer than anything takes that goes right.
const PATIENCE: StdDuration = StdDuration::from_secs(10);

/// A server with a certificate for this name, and the TLS that fits it.
fn secured(authority: &Authority, name: &str) -> (Fleet, ServerTls) {
    let (chain, key) = read(&authority.sign(&[name]));
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key);
    let fleet = fleet(echo(Some(Arc::new(config.unwrap()))), None);
    let tls = ServerTls {
        authorities: Some(authority.file()),
        verify: true,
        name: Some(name.to_owned()),
        certificate: None,
        terms: TlsTerms::default(),
    };
    (fleet, tls)
}

fn status(mut fleet: Fleet, tls: ServerTls) -> String {
    fleet.services[0].tls = Some(tls);
    let (_proxy, address) = start(fleet);
    let mut client = TcpStream::connect(address).unwrap();
    let answer = ask(&mut client, b"hello").unwrap();
    assert!(answer.starts_with("HTTP/1.1 "), "{answer}");
    answer[9..12].to_owned()
}

#[test]
fn a_server_is_verified_by_name_and_connections_to_it_are_kept() {
    let authority = Authority::new();
    let (mut fleet, tls) = secured(&authority, "server.test");
    fleet.services[0].tls = Some(tls);
    let (_proxy, address) = start(fleet);
    let mut client = TcpStream::connect(address).unwrap();
    let body: Vec<u8> = (0..500_000_u32).map(|n| b'a' + (n % 19) as u8).collect();
    for _ in 0..3 {
        let answer = ask(&mut client, &body).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{}", &answer[..60]);
        assert!(answer.as_bytes().ends_with(&body));
    }
}

#[test]
fn both_workers_use_the_only_connection_that_a_far_server_takes() {
    let authority = Authority::new();
    let (mut fleet, tls) = secured(&authority, "server.test");
    fleet.edge.threads = 2;
    fleet.services[0].tls = Some(tls);
    fleet.services[0].groups[0].rtt = Some(Duration::from_millis(100));
    fleet.services[0].groups[0].servers[0].max_connections = 1;
    let (_proxy, address) = start(fleet);
    for _ in 0..40 {
        let mut client = TcpStream::connect(address).unwrap();
        client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
        // It is kept before the client's connection is closed.
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    }
}

#[test]
fn a_server_that_cannot_prove_its_name_gets_no_request() {
    let authority = Authority::new();
    let (fleet, tls) = secured(&authority, "server.test");
    let impostor = ServerTls { name: Some("bank.test".to_owned()), ..tls.clone() };
    assert_eq!(status(fleet.clone(), impostor), "502");
    let other = Authority::new();
    let stranger = ServerTls { authorities: Some(other.file()), ..tls.clone() };
    assert_eq!(status(fleet.clone(), stranger), "502");
    let unverified = ServerTls { verify: false, name: None, ..tls };
    assert_eq!(status(fleet, unverified), "200");
}

#[test]
fn a_self_signed_certificate_of_an_authority_is_enough_where_the_file_names_it() {
    // As `openssl req -x509` makes it.
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(["server.test".to_owned()]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let certificate = params.self_signed(&key).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), certificate.pem()).unwrap();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let chain = vec![certificate.der().clone()];
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key);
    let fleet = fleet(echo(Some(Arc::new(config.unwrap()))), None);
    let other = Authority::new();
    let (_, tls) = secured(&other, "server.test");
    assert_eq!(status(fleet.clone(), tls.clone()), "502", "it is not named");
    let authorities = Some(file.path().display().to_string());
    assert_eq!(status(fleet, ServerTls { authorities, ..tls }), "200");
}

/// A server that takes one connection, says which requests come, and answers when it is told to.
fn taking_one(config: ServerConfig) -> (SocketAddr, Receiver<()>, Sender<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let ((came, comes), (go, goes)) = (channel(), channel());
    thread::spawn(move || {
        let (tcp, _) = listener.accept().unwrap();
        let mut stream = StreamOwned::new(ServerConnection::new(config.into()).unwrap(), tcp);
        while message(&mut stream).is_ok() && came.send(()).is_ok() && goes.recv().is_ok() {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
        }
    });
    (address, comes, go)
}

#[test]
fn a_reload_that_has_servers_verified_ends_connections_that_were_made_without() {
    let (authority, other) = (Authority::new(), Authority::new());
    let (mut fleet, tls) = secured(&authority, "server.test");
    fleet.services[0].tls = Some(ServerTls { verify: false, ..tls.clone() });
    let (proxy, address) = start(fleet.clone());
    let mut client = TcpStream::connect(address).unwrap();
    assert!(ask(&mut client, b"").unwrap().starts_with("HTTP/1.1 200"));
    fleet.services[0].tls = Some(ServerTls { authorities: Some(other.file()), ..tls });
    proxy.reload(fleet).unwrap();
    let refused = || ask(&mut client, b"").unwrap().starts_with("HTTP/1.1 502");
    assert!(becomes(refused), "the server is never verified");
}

#[test]
fn a_reload_with_another_authority_in_the_same_file_ends_connections_of_the_one_before() {
    let (authority, other) = (Authority::new(), Authority::new());
    let (mut fleet, tls) = secured(&authority, "server.test");
    fleet.services[0].tls = Some(tls);
    let (proxy, address) = start(fleet.clone());
    let mut client = TcpStream::connect(address).unwrap();
    assert!(ask(&mut client, b"").unwrap().starts_with("HTTP/1.1 200"));
    std::fs::copy(other.file(), authority.file()).unwrap();
    proxy.reload(fleet).unwrap();
    let refused = || ask(&mut client, b"").unwrap().starts_with("HTTP/1.1 502");
    assert!(becomes(refused), "whom nobody trusts any more is still asked");
}

#[test]
fn a_connection_that_carries_a_request_at_a_reload_is_kept_if_tls_stays_as_it_is() {
    let (authority, other) = (Authority::new(), Authority::new());
    for stays in [true, false] {
        let (_, tls) = secured(&authority, "server.test");
        let (chain, key) = read(&authority.sign(&["server.test"]));
        let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key);
        let (server, came, go) = taking_one(config.unwrap());
        let mut fleet = fleet(server, None);
        fleet.services[0].tls = Some(tls.clone());
        let (proxy, address) = start(fleet.clone());
        let asking = thread::spawn(move || {
            let mut client = TcpStream::connect(address).unwrap();
            assert!(ask(&mut client, b"").unwrap().starts_with("HTTP/1.1 200"));
            client
        });
        came.recv_timeout(PATIENCE).unwrap();
        let authorities = if stays { tls.authorities.clone() } else { Some(other.file()) };
        fleet.services[0].tls = Some(ServerTls { authorities, ..tls });
        let next = fleet.listeners[0].max_connections + 1;
        fleet.listeners[0].max_connections = next;
        proxy.reload(fleet).unwrap();
        while proxy.handle().plan().fleet.listeners[0].max_connections != next {
            thread::yield_now();
        }
        go.send(()).unwrap();
        let mut client = asking.join().unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        // It may be gone already.
        let _ = go.send(());
        let answer = ask(&mut client, b"").unwrap_or_default();
        assert_eq!(answer.starts_with("HTTP/1.1 200"), stays, "{answer}");
        assert_eq!(came.try_recv().is_ok(), stays, "whether the server was asked over it");
    }
}

#[test]
fn a_server_with_an_address_in_its_certificate_needs_no_name() {
    let authority = Authority::new();
    let (fleet, tls) = secured(&authority, "127.0.0.1");
    assert_eq!(status(fleet, ServerTls { name: None, ..tls }), "200");
}

#[test]
fn a_server_that_is_written_with_a_host_name_is_verified_by_it() {
    let authority = Authority::new();
    let (fleet, tls) = secured(&authority, "server.test");
    let tls = ServerTls { name: None, ..tls };
    let written = |host: &str| {
        let mut fleet = fleet.clone();
        fleet.services[0].groups[0].servers[0].host = Some(host.to_owned());
        status(fleet, tls.clone())
    };
    assert_eq!(written("server.test"), "200");
    assert_eq!(written("server.test."), "200", "the root's dot is no part of the name");
    assert_eq!(written("bank.test"), "502");
}

#[test]
fn an_address_with_two_host_names_is_refused_rather_than_asked_for_one_of_them() {
    let authority = Authority::new();
    let (mut fleet, tls) = secured(&authority, "server.test");
    let service = &mut fleet.services[0];
    let mut far = service.groups[0].clone();
    "far".clone_into(&mut far.name);
    service.groups.push(far);
    service.tls = Some(ServerTls { name: None, ..tls });
    service.groups[0].servers[0].host = Some("a.test".to_owned());
    assert!(Keys::load(&fleet).is_ok());
    fleet.services[0].groups[1].servers[0].host = Some("b.test".to_owned());
    let error = Keys::load(&fleet).unwrap_err().to_string();
    assert!(error.contains("`a.test` and `b.test`") && error.contains("tls.name"), "{error}");
}

#[test]
fn health_checks_speak_tls_as_the_traffic_does() {
    let authority = Authority::new();
    let (mut fleet, tls) = secured(&authority, "server.test");
    fleet.services[0].health = Some(HealthCheck {
        probe: Probe::Http { path: "/".into(), host: None },
        interval: Duration::from_millis(20),
        fast_interval: Duration::from_millis(20),
        timeout: Duration::from_secs(10),
        rise: 1,
        fall: 1,
        lenient: false,
    });
    fleet.services[0].tls = Some(ServerTls { name: Some("bank.test".to_owned()), ..tls.clone() });
    let (failing, address) = start(fleet.clone());
    let condition = || failing.handle().state().services[0].groups[0].servers[0].condition;
    let is_down = || condition() == Condition::Down;
    assert!(becomes(is_down), "checks never find out what a request does");
    let answer = ask(&mut TcpStream::connect(address).unwrap(), b"").unwrap();
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    fleet.services[0].tls = Some(tls);
    let (_proxy, address) = start(fleet);
    let begin = Instant::now();
    while begin.elapsed() < 5 * StdDuration::from_millis(20) {
        let answer = ask(&mut TcpStream::connect(address).unwrap(), b"").unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
}

#[test]
fn the_handshake_is_through_before_the_first_request_where_connections_are_kept_ready() {
    let authority = Authority::new();
    let (_, tls) = secured(&authority, "server.test");
    let (chain, key) = read(&authority.sign(&["server.test"]));
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key);
    let config = Arc::new(config.unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut fleet = fleet(listener.local_addr().unwrap(), None);
    fleet.services[0].tls = Some(tls);
    fleet.services[0].prewarm = 1;
    let (agreed, agrees) = channel();
    thread::spawn(move || {
        // Only the first: a request that needs another waits in vain.
        let (tcp, _) = listener.accept().unwrap();
        let mut stream = StreamOwned::new(ServerConnection::new(config).unwrap(), tcp);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock).unwrap();
        }
        agreed.send(()).unwrap();
        serve(stream);
    });
    let (_proxy, address) = start(fleet);
    agrees.recv_timeout(StdDuration::from_secs(10)).expect("no request is needed for it");
    let answer = ask(&mut TcpStream::connect(address).unwrap(), b"hello").unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}
