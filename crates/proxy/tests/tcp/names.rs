//! TLS: passed through by the name the client asks for, or ended here.

use std::{
    fs,
    io::{ErrorKind, Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpStream},
    process::{Command, Stdio},
    sync::{Arc, mpsc::channel},
    thread,
};

use loadline_core::{
    decide::ending::Ending,
    fleet::{AccessLog, Fleet, ListenerTls, LogTarget, Protocol, ServerNames, ServerTls, TlsTerms},
    time::Duration,
};
use rustls::{
    ClientConfig, ClientConnection, ServerConfig, ServerConnection, StreamOwned,
    pki_types::ServerName,
    version::{TLS12, TLS13},
};

use crate::{
    authority::{Authority, read},
    support::{
        PATIENCE, Proxy, SHORT, echo, exactly, fleet, nobody, reset, server, service, until_closed,
    },
};

/// A server with a certificate for `name` that says it and sends one line back.
fn secured(authority: &Authority, name: &'static str) -> SocketAddr {
    speaking(authority, name, &[])
}

/// The same, of which clients that ask for protocols have to ask for one of these.
fn speaking(authority: &Authority, name: &'static str, protocols: &[&str]) -> SocketAddr {
    let (chain, key) = read(&authority.sign(&[name]));
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key);
    let mut config = config.unwrap();
    config.alpn_protocols = protocols.iter().map(|it| it.as_bytes().to_vec()).collect();
    let config = Arc::new(config);
    server(move |stream| {
        let connection = ServerConnection::new(config.clone()).unwrap();
        let mut stream = StreamOwned::new(connection, stream);
        // The peer may go at any time.
        let _ = stream.write_all(name.as_bytes());
        let mut line = [0; 4];
        if stream.read_exact(&mut line).is_ok() {
            let _ = stream.write_all(&line);
        }
        stream.conn.send_close_notify();
        let _ = stream.flush();
    })
}

fn client(
    address: SocketAddr,
    config: &Arc<ClientConfig>,
    name: &str,
) -> StreamOwned<ClientConnection, TcpStream> {
    let tcp = TcpStream::connect(address).unwrap();
    tcp.set_read_timeout(Some(PATIENCE)).unwrap();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    StreamOwned::new(ClientConnection::new(config.clone(), name).unwrap(), tcp)
}

/// Two services by name, and a third for the rest.
fn three(authority: &Authority) -> Fleet {
    let services = vec![
        service("rest", &[secured(authority, "rest.test")]),
        service("shop", &[secured(authority, "shop.test")]),
        service("wiki", &[secured(authority, "eu.wiki.test")]),
    ];
    let mut fleet = fleet(Protocol::TlsPassthrough, services);
    let names = vec![("shop.test".to_owned(), 1), ("*.wiki.test".to_owned(), 2)];
    fleet.listeners[0].names = ServerNames::new(names);
    fleet
}

#[test]
fn a_client_reaches_the_service_of_the_name_it_asks_for_and_its_certificate() {
    let authority = Authority::new();
    let proxy = Proxy::of(three(&authority));
    for versions in [&[&TLS13][..], &[&TLS12]] {
        let config = authority.client(versions, None);
        for name in ["shop.test", "eu.wiki.test", "rest.test"] {
            let mut client = client(proxy.address, &config, name);
            assert_eq!(exactly(&mut client, name.len()), name);
            client.write_all(b"ping").unwrap();
            assert_eq!(exactly(&mut client, 4), "ping");
            assert_eq!(until_closed(&mut client), "");
        }
    }
    let tallies = proxy.runtime.tallies();
    let reached = ["rest", "shop", "wiki"].map(|name| tallies.services.contains_key(name));
    assert_eq!(reached, [true; 3]);
}

#[test]
fn openssl_is_shown_the_certificate_of_the_server_itself() {
    let authority = Authority::new();
    let proxy = Proxy::of(three(&authority));
    for name in ["shop.test", "eu.wiki.test"] {
        let openssl = Command::new("openssl")
            .args(["s_client", "-connect", &proxy.address.to_string(), "-servername", name])
            .stdin(Stdio::null())
            .output()
            .expect("openssl is installed");
        let shown = certificate(&String::from_utf8_lossy(&openssl.stdout));
        let file = authority.file().replace("ca.pem", &format!("{name}.pem"));
        assert_eq!(shown, certificate(&fs::read_to_string(file).unwrap()), "{name}");
    }
}

/// The first certificate in a text, without the ends of its lines.
fn certificate(text: &str) -> String {
    let body = text.split("-----BEGIN CERTIFICATE-----").nth(1).unwrap();
    body.split("-----END").next().unwrap().split_whitespace().collect()
}

#[test]
fn a_hello_that_drips_in_is_waited_for() {
    let authority = Authority::new();
    let proxy = Proxy::of(three(&authority));
    let config = authority.client(&[&TLS13], None);
    let mut tcp = TcpStream::connect(proxy.address).unwrap();
    tcp.set_read_timeout(Some(PATIENCE)).unwrap();
    tcp.set_nodelay(true).unwrap();
    let name = ServerName::try_from("shop.test").unwrap();
    let mut connection = ClientConnection::new(config, name).unwrap();
    let mut hello = Vec::new();
    connection.write_tls(&mut hello).unwrap();
    for piece in hello.chunks(7) {
        tcp.write_all(piece).unwrap();
        thread::yield_now();
    }
    assert_eq!(exactly(&mut StreamOwned::new(connection, tcp), 9), "shop.test");
}

#[test]
fn what_is_no_hello_is_closed_and_named() {
    let authority = Authority::new();
    let mut fleet = three(&authority);
    fleet.listeners[0].timeouts.head = SHORT;
    let proxy = Proxy::of(fleet.clone());
    assert_eq!(proxy.ask(b"GET / HTTP/1.1\r\nHost: shop.test\r\n\r\n"), "");
    proxy.expect(Ending::ClientBad, 1);

    let proxy = Proxy::of(fleet.clone());
    let mut slow = proxy.connect();
    slow.write_all(b"\x16\x03\x01").unwrap();
    assert_eq!(until_closed(&mut slow), "");
    proxy.expect(Ending::ClientTimeout, 1);

    let proxy = Proxy::of(fleet);
    assert_eq!(proxy.ask(b"\x16\x03\x01"), "");
    assert_eq!(proxy.ask(b""), "", "and one that says nothing at all is not counted");
    proxy.expect(Ending::ClientGone, 1);
}

#[test]
fn the_access_log_says_why_a_hello_is_refused() {
    let authority = Authority::new();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.log");
    let mut fleet = three(&authority);
    fleet.edge.access_log = Some(AccessLog::to(LogTarget::File(path.display().to_string())));
    let proxy = Proxy::of(fleet);
    for hello in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        b"\x16\x03\x01\x40\x00\x01\x00\x40\x00",
        b"\x16\x03\x01\x00\x05\x02",
    ] {
        let mut client = proxy.connect();
        client.write_all(hello).unwrap();
        // The end, which may be a reset.
        let _ = client.read_to_end(&mut Vec::new());
    }
    proxy.expect(Ending::ClientBad, 3);
    proxy.runtime.stop(Duration::from_secs(1));
    let log = fs::read_to_string(&path).unwrap();
    for reason in [
        "first record does not look like a TLS handshake",
        "ClientHello of more than 16 KiB",
        "malformed ClientHello",
    ] {
        assert!(log.contains(reason), "{reason}: {log}");
    }
}

/// A listener that ends TLS with this authority's certificate for `name`.
fn ending(authority: &Authority, name: &str, server: SocketAddr) -> Fleet {
    let mut fleet = fleet(Protocol::Tls, vec![service("db", &[server])]);
    fleet.listeners[0].tls = Some(ListenerTls::of(vec![authority.sign(&[name])]));
    fleet
}

#[test]
fn tls_may_end_here_with_bare_bytes_behind_it() {
    let authority = Authority::new();
    let answering = server(|mut stream| {
        let question = until_closed(&mut stream);
        stream.write_all(format!("{} bytes", question.len()).as_bytes()).unwrap();
    });
    let proxy = Proxy::of(ending(&authority, "db.test", answering));
    let mut config = (*authority.client(&[&TLS13, &TLS12], None)).clone();
    config.alpn_protocols = vec![b"postgresql".to_vec()];
    let mut client = client(proxy.address, &Arc::new(config), "db.test");
    client.write_all(&vec![b'x'; 1_000_000]).unwrap();
    client.conn.send_close_notify();
    client.flush().unwrap();
    assert_eq!(until_closed(&mut client), "1000000 bytes", "half closed, on both sides");
    proxy.expect(Ending::Complete, 1);
}

#[test]
fn a_client_without_tls_does_not_get_in_where_it_is_asked_for() {
    let authority = Authority::new();
    let proxy = Proxy::of(ending(&authority, "db.test", echo("secret")));
    let answer = {
        let mut tcp = proxy.connect();
        tcp.write_all(b"hello, is there anybody?\r\n").unwrap();
        let mut bytes = Vec::new();
        // An alert, then the end, which may be a reset.
        let _ = tcp.read_to_end(&mut bytes);
        bytes
    };
    assert!(!answer.windows(6).any(|bytes| bytes == b"secret"));
    proxy.expect(Ending::ClientBad, 1);
}

/// TLS to servers that have to prove this name.
fn proven(authority: &Authority, name: &str) -> ServerTls {
    ServerTls {
        authorities: Some(authority.file()),
        verify: true,
        name: Some(name.to_owned()),
        certificate: None,
        terms: TlsTerms::default(),
    }
}

#[test]
fn servers_of_bare_bytes_may_be_reached_by_tls_and_must_prove_their_name() {
    let authority = Authority::new();
    // It refuses who asks for HTTP.
    let database = speaking(&authority, "db.test", &["postgresql"]);
    let mut service = service("db", &[nobody(), database]);
    let tls = proven(&authority, "db.test");
    service.tls = Some(tls.clone());
    let proxy = Proxy::of(fleet(Protocol::Tcp, vec![service.clone()]));
    for _ in 0..3 {
        assert_eq!(exactly(&mut proxy.connect(), 7), "db.test");
    }
    service.tls = Some(ServerTls { name: Some("bank.test".to_owned()), ..tls });
    // The one that refuses would be the last to be tried as often as not.
    service.groups[0].servers.remove(0);
    let proxy = Proxy::of(fleet(Protocol::Tcp, vec![service]));
    assert_eq!(until_closed(&mut proxy.connect()), "");
    proxy.expect(Ending::TlsFailed, 1);
}

#[test]
fn a_check_of_a_port_that_wants_tls_is_no_client_and_one_that_breaks_off_is_no_bad_one() {
    let authority = Authority::new();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.log");
    let mut fleet = ending(&authority, "db.test", echo("secret"));
    let proxy = Proxy::of(fleet.clone());
    drop(proxy.connect());
    reset(proxy.connect());
    let mut leaving = proxy.connect();
    leaving.write_all(b"\x16\x03\x01").unwrap();
    drop(leaving);
    proxy.expect(Ending::ClientGone, 1);

    fleet.edge.access_log = Some(AccessLog::to(LogTarget::File(path.display().to_string())));
    let proxy = Proxy::of(fleet);
    let mut stranger = proxy.connect();
    stranger.write_all(b"hello, is there anybody?\r\n").unwrap();
    // An alert, then the end, which may be a reset.
    let _ = stranger.read_to_end(&mut Vec::new());
    proxy.expect(Ending::ClientBad, 1);
    proxy.runtime.stop(Duration::from_secs(1));
    let log = fs::read_to_string(&path).unwrap();
    let told = "TLS handshake with the client failed: wrong version number: it speaks no TLS";
    assert!(log.contains(told), "{log}");
}

#[test]
fn a_connection_over_tls_on_which_nothing_happens_ends_with_a_close_notify() {
    let authority = Authority::new();
    let mut fleet = ending(&authority, "db.test", echo("hello"));
    fleet.listeners[0].timeouts.idle = SHORT;
    let proxy = Proxy::of(fleet);
    let config = authority.client(&[&TLS13], None);
    // Without a close_notify this is an unexpected end.
    assert_eq!(until_closed(&mut client(proxy.address, &config, "db.test")), "hello");
    proxy.expect(Ending::Idle, 1);
}

#[test]
fn a_client_that_ends_without_close_notify_has_said_all_and_gets_the_answer() {
    let authority = Authority::new();
    let answering = server(|mut stream| {
        // So that much is still on its way when the client ends.
        thread::sleep(SHORT.to_std());
        let question = until_closed(&mut stream);
        stream.write_all(format!("{} bytes", question.len()).as_bytes()).unwrap();
    });
    let proxy = Proxy::of(ending(&authority, "db.test", answering));
    let config = authority.client(&[&TLS13], None);
    let mut client = client(proxy.address, &config, "db.test");
    client.write_all(&vec![b'x'; 1_000_000]).unwrap();
    client.flush().unwrap();
    client.sock.shutdown(Shutdown::Write).unwrap();
    assert_eq!(until_closed(&mut client), "1000000 bytes");
    proxy.expect(Ending::Complete, 1);
}

#[test]
fn what_a_client_says_after_its_server_arrives_though_it_leaves_without_close_notify() {
    let authority = Authority::new();
    let (told, heard) = channel();
    let saying = server(move |mut stream| {
        stream.write_all(b"all").unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        thread::sleep(SHORT.to_std());
        told.send(stream.read_to_end(&mut Vec::new()).map_err(|error| error.kind())).unwrap();
    });
    let proxy = Proxy::of(ending(&authority, "db.test", saying));
    let config = authority.client(&[&TLS13], None);
    let mut client = client(proxy.address, &config, "db.test");
    assert_eq!(until_closed(&mut client), "all");
    client.write_all(&vec![b'x'; 1_000_000]).unwrap();
    client.flush().unwrap();
    drop(client);
    assert_eq!(heard.recv_timeout(PATIENCE).unwrap(), Ok(1_000_000));
    proxy.expect(Ending::Complete, 1);
}

#[test]
fn a_server_over_tls_sees_whether_its_client_has_ended_with_a_close_notify() {
    let authority = Authority::new();
    let (chain, key) = read(&authority.sign(&["db.test"]));
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key);
    let config = Arc::new(config.unwrap());
    let (told, heard) = channel();
    let listening = server(move |stream| {
        let connection = ServerConnection::new(config.clone()).unwrap();
        let mut stream = StreamOwned::new(connection, stream);
        let mut question = Vec::new();
        let end = stream.read_to_end(&mut question).map_err(|error| error.kind());
        told.send((question.len(), end.map(drop))).unwrap();
        stream.write_all(b"bye").unwrap();
        stream.conn.send_close_notify();
        stream.flush().unwrap();
    });
    let mut fleet = ending(&authority, "db.test", listening);
    fleet.services[0].tls = Some(proven(&authority, "db.test"));
    let proxy = Proxy::of(fleet);
    let config = authority.client(&[&TLS13], None);
    for (notifies, end) in [(true, Ok(())), (false, Err(ErrorKind::UnexpectedEof))] {
        let mut client = client(proxy.address, &config, "db.test");
        client.write_all(b"hello").unwrap();
        if notifies {
            client.conn.send_close_notify();
        }
        client.flush().unwrap();
        client.sock.shutdown(Shutdown::Write).unwrap();
        assert_eq!(heard.recv_timeout(PATIENCE).unwrap(), (5, end));
        assert_eq!(until_closed(&mut client), "bye");
    }
    proxy.expect(Ending::Complete, 2);
}

#[test]
fn a_client_over_tls_that_resets_its_connection_has_gone_away() {
    let authority = Authority::new();
    let (told, heard) = channel();
    let listening = server(move |mut stream| {
        told.send(Ok(exactly(&mut stream, 5).len())).unwrap();
        told.send(stream.read(&mut [0]).map_err(|error| error.kind())).unwrap();
    });
    let proxy = Proxy::of(ending(&authority, "db.test", listening));
    let config = authority.client(&[&TLS13], None);
    let mut client = client(proxy.address, &config, "db.test");
    client.write_all(b"hello").unwrap();
    client.flush().unwrap();
    assert_eq!(heard.recv_timeout(PATIENCE).unwrap(), Ok(5));
    reset(client.sock);
    assert_eq!(heard.recv_timeout(PATIENCE).unwrap(), Err(ErrorKind::ConnectionReset));
    proxy.expect(Ending::ClientGone, 1);
}
