//! The PROXY protocol: told to us, and told on.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    process::Command,
    thread,
};

use loadline_core::{
    decide::ending::Ending,
    fleet::{AccessLog, Fleet, HealthCheck, LogTarget, Probe, Protocol, ProxyVersion},
    time::Duration,
};

use crate::{
    ports::reserved,
    support::{
        PATIENCE, Proxy, SHORT, exactly, fleet, listening, nobody, server, service, until_closed,
        wait_until,
    },
};

/// A header of version 2 from 192.0.2.7:4000 to 192.0.2.1:443, with an extension.
const BINARY: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x10\
    \xc0\0\x02\x07\xc0\0\x02\x01\x0f\xa0\x01\xbb\x04\0\x01\0";

const LINE: &[u8] = b"PROXY TCP4 192.0.2.7 192.0.2.1 4000 443\r\n";

/// TCP, with headers wanted from clients and sent to servers.
fn between(accept: bool, send: Option<ProxyVersion>, server: SocketAddr) -> Fleet {
    let mut service = service("db", &[server]);
    service.send_proxy = send;
    let mut fleet = fleet(Protocol::Tcp, vec![service]);
    fleet.listeners[0].accept_proxy = accept;
    fleet
}

#[test]
fn what_is_told_is_told_on_in_either_version() {
    let (address, heard) = listening();
    for (header, version, told) in [
        (LINE, ProxyVersion::V1, "PROXY TCP4 192.0.2.7 192.0.2.1 4000 443\r\nhello"),
        (BINARY, ProxyVersion::V1, "PROXY TCP4 192.0.2.7 192.0.2.1 4000 443\r\nhello"),
        (b"PROXY TCP6 ::1 ::2 1 2\r\n", ProxyVersion::V1, "PROXY TCP6 ::1 ::2 1 2\r\nhello"),
    ] {
        let proxy = Proxy::of(between(true, Some(version), address));
        assert_eq!(proxy.ask(&[header, b"hello"].concat()), "");
        assert_eq!(heard.recv_timeout(PATIENCE).unwrap().unwrap(), told);
    }
    let version_2 = server(|mut stream| {
        let mut header = [0; 28];
        stream.read_exact(&mut header).unwrap();
        stream.write_all(if header[16..] == BINARY[16..28] { b"same" } else { b"lost" }).unwrap();
    });
    let proxy = Proxy::of(between(true, Some(ProxyVersion::V2), version_2));
    assert_eq!(proxy.ask(LINE), "same");
}

#[test]
fn servers_are_told_the_address_of_a_client_that_came_itself() {
    let (address, heard) = listening();
    let proxy = Proxy::of(between(false, Some(ProxyVersion::V1), address));
    let mut client = proxy.connect();
    let (own, at) = (client.local_addr().unwrap(), proxy.address);
    client.write_all(b"hello").unwrap();
    drop(client);
    let expected = format!("PROXY TCP4 127.0.0.1 127.0.0.1 {} {}\r\nhello", own.port(), at.port());
    assert_eq!(heard.recv_timeout(PATIENCE).unwrap().unwrap(), expected);
}

#[test]
fn a_header_that_speaks_for_nobody_leaves_the_address_as_it_is() {
    let (address, heard) = listening();
    let proxy = Proxy::of(between(true, Some(ProxyVersion::V1), address));
    for header in [&b"PROXY UNKNOWN\r\n"[..], b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0"] {
        assert_eq!(proxy.ask(header), "");
        let told = heard.recv_timeout(PATIENCE).unwrap().unwrap();
        assert!(told.starts_with("PROXY TCP4 127.0.0.1 127.0.0.1 "), "{told}");
    }
}

#[test]
fn a_header_may_drip_in_and_what_follows_it_is_not_lost() {
    let (address, heard) = listening();
    let proxy = Proxy::of(between(true, None, address));
    let mut client = proxy.connect();
    client.set_nodelay(true).unwrap();
    for byte in BINARY {
        client.write_all(&[*byte]).unwrap();
        thread::yield_now();
    }
    client.write_all(b"and then").unwrap();
    drop(client);
    assert_eq!(heard.recv_timeout(PATIENCE).unwrap().unwrap(), "and then");
    let received = proxy.runtime.handle().state().listeners[0].received_bytes;
    assert_eq!(received, BINARY.len() as u64 + 8, "the header is counted too");
}

#[test]
fn a_connection_that_does_not_say_whose_it_is_reaches_nobody() {
    let (address, heard) = listening();
    let mut fleet = between(true, None, address);
    fleet.listeners[0].timeouts.head = SHORT;
    let closed = |bytes: &[u8], ending| {
        let proxy = Proxy::of(fleet.clone());
        let mut client = proxy.connect();
        client.write_all(bytes).unwrap();
        // What was not read makes the end a reset.
        let _ = client.read_to_end(&mut Vec::new());
        proxy.expect(ending, 1);
    };
    closed(b"SSH-2.0-OpenSSH\r\n", Ending::ClientBad);
    closed(b"PROXY TCP4 localhost localhost 1 2\r\n", Ending::ClientBad);
    closed(b"PROXY TCP4 192.0.2.7", Ending::ClientTimeout);
    closed(&BINARY[..20], Ending::ClientTimeout);
    let proxy = Proxy::of(fleet.clone());
    let mut client = proxy.connect();
    client.write_all(&BINARY[..20]).unwrap();
    drop(client);
    proxy.expect(Ending::ClientGone, 1);
    assert!(heard.try_recv().is_err(), "no server heard of any of them");
}

#[test]
fn the_access_log_says_why_a_header_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.log");
    let mut fleet = between(true, None, nobody());
    fleet.edge.access_log = Some(AccessLog::to(LogTarget::File(path.display().to_string())));
    let proxy = Proxy::of(fleet);
    let long = [&BINARY[..14], &5015_u16.to_be_bytes()].concat();
    for header in
        [&b"SSH-2.0-OpenSSH\r\n"[..], b"PROXY TCP4 192.0.2.7 192.0.2.1 70000 443\r\n", &long]
    {
        let mut client = proxy.connect();
        client.write_all(header).unwrap();
        // What was not read makes the end a reset.
        let _ = client.read_to_end(&mut Vec::new());
    }
    proxy.expect(Ending::ClientBad, 3);
    proxy.connect().write_all(&BINARY[..20]).unwrap();
    let is_gone = || proxy.runtime.tallies().count(Ending::ClientGone) == 1;
    wait_until(is_gone, "the end of a client inside its header");
    proxy.runtime.stop(Duration::from_secs(1));
    let log = fs::read_to_string(&path).unwrap();
    for (ending, reason) in [
        ("client-bad", "no PROXY header at the beginning"),
        ("client-bad", "malformed PROXY line: a port that is not a number from 0 to 65535"),
        (
            "client-bad",
            "a PROXY header with 5015 bytes of addresses and extensions: at most 4096 are taken",
        ),
        ("client-gone", "closed inside the PROXY header"),
    ] {
        let (begin, end) = (format!(" TCP \"-\" - - 0 db/- {ending} 0 "), format!("\"{reason}\""));
        let told = log.lines().any(|line| line.contains(&begin) && line.contains(&end));
        assert!(told, "{reason}: {log}");
    }
}

/// A server that answers each request with the request itself.
fn mirror() -> SocketAddr {
    server(|mut stream| {
        loop {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                match stream.read(&mut byte) {
                    Ok(1) => head.push(byte[0]),
                    _ => return,
                }
            }
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", head.len());
            stream.write_all(&[answer.as_bytes(), &head].concat()).unwrap();
        }
    })
}

#[test]
fn the_client_of_a_request_is_the_one_that_was_told() {
    let mut fleet = between(true, None, mirror());
    fleet.listeners[0].protocol = Protocol::Http;
    let proxy = Proxy::of(fleet);
    let mut client = proxy.connect();
    let ask = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    client.write_all(&[BINARY, ask, ask].concat()).unwrap();
    client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let answers = until_closed(&mut client);
    assert_eq!(answers.matches("X-Forwarded-For: 192.0.2.7\r\n").count(), 3, "{answers}");
    proxy.expect(Ending::Complete, 3);
    // The same from curl, which introduces itself.
    let curl = Command::new("curl")
        .args(["-sS", "--haproxy-protocol", &format!("http://{}/", proxy.address)])
        .output()
        .expect("curl is installed");
    let said = String::from_utf8_lossy(&curl.stdout);
    assert!(said.contains("X-Forwarded-For: 127.0.0.1\r\n"), "{said}");
}

/// A server that answers with the line that its connection begins with.
fn telling() -> SocketAddr {
    server(|mut stream| {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            line.push(exactly(&mut stream, 1).into_bytes()[0]);
        }
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(exactly(&mut stream, 1).into_bytes()[0]);
        }
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", line.len());
        stream.write_all(&[head.as_bytes(), &line].concat()).unwrap();
        // Kept open, in vain.
        until_closed(&mut stream);
    })
}

#[test]
fn each_request_tells_its_server_whose_it_is_and_no_connection_is_shared() {
    let mut fleet = between(false, Some(ProxyVersion::V1), telling());
    fleet.listeners[0].protocol = Protocol::Http;
    let proxy = Proxy::of(fleet);
    for _ in 0..2 {
        let mut client = proxy.connect();
        let (own, at) = (client.local_addr().unwrap().port(), proxy.address.port());
        let line = format!("\r\n\r\nPROXY TCP4 127.0.0.1 127.0.0.1 {own} {at}\r\n");
        for connection in ["keep-alive", "close"] {
            let ask = format!("GET / HTTP/1.1\r\nHost: x\r\nConnection: {connection}\r\n\r\n");
            client.write_all(ask.as_bytes()).unwrap();
        }
        let answers = until_closed(&mut client);
        assert_eq!(answers.matches(&line).count(), 2, "{answers}");
    }
    proxy.expect(Ending::Complete, 4);
}

#[test]
fn checks_speak_for_themselves() {
    let (told, heard) = std::sync::mpsc::channel();
    let address = server(move |mut stream| {
        // The test may be over.
        let _ = told.send(exactly(&mut stream, 15));
    });
    let mut fleet = between(false, Some(ProxyVersion::V1), address);
    fleet.services[0].health = Some(HealthCheck {
        probe: Probe::Tcp,
        interval: SHORT,
        fast_interval: SHORT,
        timeout: SHORT,
        rise: 1,
        fall: 1,
        lenient: false,
    });
    let _proxy = Proxy::of(fleet);
    assert_eq!(heard.recv_timeout(PATIENCE).unwrap(), "PROXY UNKNOWN\r\n");
}

#[test]
fn haproxy_understands_what_is_sent_and_is_understood() {
    let mirror = mirror();
    for (version, sends) in [(ProxyVersion::V1, "send-proxy"), (ProxyVersion::V2, "send-proxy-v2")]
    {
        // curl -> haproxy -> loadline -> mirror, then curl -> loadline -> haproxy -> mirror.
        let mut behind = between(true, None, mirror);
        behind.listeners[0].protocol = Protocol::Http;
        let behind = Proxy::of(behind);
        let haproxy = Haproxy::start("", "", &format!("{} {sends}", behind.address));
        let answer = haproxy.ask();
        assert!(answer.contains("X-Forwarded-For: 127.0.0.1\r\n"), "{answer}");

        let haproxy = Haproxy::start("accept-proxy", "option forwardfor", &mirror.to_string());
        let before = Proxy::of(between(true, Some(version), haproxy.address));
        let mut client = before.connect();
        let ask = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        client.write_all(&[LINE, ask].concat()).unwrap();
        let answer = until_closed(&mut client);
        assert!(answer.to_lowercase().contains("x-forwarded-for: 192.0.2.7\r\n"), "{answer}");
    }
}

/// A running HAProxy, which ends with the test.
struct Haproxy {
    process: std::process::Child,
    address: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Haproxy {
    fn start(bind: &str, option: &str, server: &str) -> Self {
        let address = reserved();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("haproxy.cfg");
        let text = format!(
            "defaults\n mode http\n timeout connect 5s\n timeout client 5s\n timeout server 5s\n\
             listen all\n bind {address} {bind}\n {option}\n server one {server}\n"
        );
        fs::write(&file, text).unwrap();
        let process = Command::new("haproxy").arg("-f").arg(&file).spawn();
        let process = process.expect("haproxy is installed");
        let start = std::time::Instant::now();
        while TcpStream::connect(address).is_err() {
            assert!(start.elapsed() < PATIENCE, "haproxy does not listen");
            thread::yield_now();
        }
        Self { process, address, _folder: folder }
    }

    fn ask(&self) -> String {
        let mut client = TcpStream::connect(self.address).unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        until_closed(&mut client)
    }
}

impl Drop for Haproxy {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn many_connections_with_headers_keep_their_own_addresses() {
    let saying = server(|mut stream| {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            line.push(exactly(&mut stream, 1).into_bytes()[0]);
        }
        stream.write_all(&line).unwrap();
    });
    let proxy = Proxy::of(between(true, Some(ProxyVersion::V1), saying));
    for port in 1..50 {
        let line = format!("PROXY TCP4 192.0.2.7 192.0.2.1 {port} 443\r\n");
        assert_eq!(proxy.ask(line.as_bytes()), line);
    }
    proxy.expect(Ending::Complete, 49);
}

#[test]
fn a_server_of_http_is_told_where_its_client_opened_the_connection_to() {
    let mut fleet = between(true, Some(ProxyVersion::V1), telling());
    fleet.listeners[0].protocol = Protocol::Http;
    let proxy = Proxy::of(fleet);
    let mut client = proxy.connect();
    let ask = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    client.write_all(&[LINE, ask].concat()).unwrap();
    let answer = until_closed(&mut client);
    assert!(answer.ends_with(std::str::from_utf8(LINE).unwrap()), "{answer}");
}

#[test]
fn a_check_of_the_port_is_no_client_that_went_away() {
    let (address, _heard) = listening();
    let proxy = Proxy::of(between(true, None, address));
    for resets in [false, true] {
        let client = proxy.connect();
        if resets {
            let at_once = Some(std::time::Duration::ZERO);
            socket2::SockRef::from(&client).set_linger(at_once).unwrap();
        }
    }
    // It is taken in behind them.
    let mut client = proxy.connect();
    client.write_all(b"SSH-2.0-OpenSSH\r\n").unwrap();
    let _ = client.read_to_end(&mut Vec::new());
    proxy.expect(Ending::ClientBad, 1);
}
