//! How many connections one client may have, whichever worker they came to.

use std::{
    io::{Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    sync::Arc,
    thread,
};

use loadline_core::{
    decide::ending::Ending,
    fleet::{AccessLog, ErrorPages, Fleet, Listener, LogFormat, LogTarget, Page, Pages, Statuses},
    time::Duration,
};
use loadline_proxy::{runtime::Runtime, telemetry::meter::ListenerTally};
use serde_json::Value;
use socket2::{Domain, Socket, Type};

use crate::{
    ports::reserved,
    support::{Client, PATIENCE, anywhere, becomes, fleet, listener, server, tcp},
};

const REQUEST: &str = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";

/// How a client of HTTP/2 begins.
const HTTP2: &str = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// Such a listener in front of one server, of which a client may have `max` connections.
fn limited(listener: Listener, max: u32) -> Fleet {
    let listener = Listener { max_connections_per_client: Some(max), ..listener };
    fleet(&[listener], &[server("one")])
}

fn start(fleet: Fleet) -> (Runtime, SocketAddr) {
    let proxy = Runtime::start(fleet).unwrap();
    let address = proxy.local_addrs()[0];
    (proxy, address)
}

/// A connection that has been served and stays; nothing if it was refused, or reset by a listener
/// that a reload has just taken away. Ends of connections are noticed a little later than they
/// happen.
fn served(address: SocketAddr) -> Option<Client> {
    let mut client = Client::to(address);
    client.send(REQUEST);
    if client.is_reset() {
        return None;
    }
    client.answer().0.starts_with("http/1.1 200 ").then_some(client)
}

/// A connection from this address of the loopback.
fn from(source: [u8; 4], to: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((source, 0)).into()).unwrap();
    socket.connect(&to.into()).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// The first line that `stream` gets for `text`; empty if it is closed.
fn first_line(mut stream: &TcpStream, text: &str) -> String {
    stream.write_all(text.as_bytes()).unwrap();
    let mut bytes = [0; 4_096];
    let count = stream.read(&mut bytes).unwrap_or(0);
    String::from_utf8_lossy(&bytes[..count]).lines().next().unwrap_or_default().to_owned()
}

#[test]
fn one_more_than_the_limit_gets_429_and_has_a_place_once_another_has_left() {
    let (proxy, address) = start(limited(listener(anywhere(), 0), 3));
    let mut kept: Vec<Client> = (0..3).map(|_| served(address).unwrap()).collect();
    let mut refused = Client::to(address);
    refused.send(REQUEST);
    let (head, body) = refused.answer();
    assert!(head.starts_with("http/1.1 429 ") && head.contains("connection: close"), "{head}");
    assert_eq!(body, "Too Many Requests\n");
    assert!(refused.is_closed());
    let other = from([127, 0, 0, 2], address);
    assert_eq!(first_line(&other, REQUEST), "HTTP/1.1 200 OK", "another client is not concerned");
    assert!(kept.iter_mut().all(|client| client.ask() == "one"), "nor is who was there before");
    let listeners = || proxy.tallies().listeners;
    assert!(becomes(|| listeners().values().all(|it| it.over_client_limit == 1)));
    assert!(becomes(|| proxy.tallies().count(Ending::ClientLimit) == 1));
    drop(kept.pop());
    assert!(becomes(|| served(address).is_some()));
    proxy.stop(Duration::ZERO);
}

#[test]
fn the_429_has_a_date_and_the_page_of_its_listener_and_none_for_head() {
    let page = Page { content_type: "text/plain".into(), body: Arc::from(&b"too many"[..]) };
    let error_pages = ErrorPages(vec![(Statuses::One(429), Pages(vec![page]))]);
    let (proxy, address) = start(limited(Listener { error_pages, ..listener(anywhere(), 0) }, 1));
    let _kept = served(address).unwrap();
    for (method, body) in [("GET", "too many"), ("HEAD", "")] {
        let mut told = String::new();
        let mut refused = from([127, 0, 0, 1], address);
        refused.write_all(REQUEST.replace("GET", method).as_bytes()).unwrap();
        refused.read_to_string(&mut told).unwrap();
        let (head, rest) = told.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 429 "), "{head}");
        assert!(head.contains("\r\nDate: ") && head.contains("\r\nContent-Length: 8"), "{head}");
        assert_eq!(rest, body, "{method}");
    }
    proxy.stop(Duration::ZERO);
}

#[test]
fn of_many_that_come_at_once_to_several_workers_exactly_so_many_stay() {
    let mut fleet = limited(listener(anywhere(), 0), 5);
    fleet.edge.threads = 4;
    let (proxy, address) = start(fleet);
    for _ in 0..3 {
        let comers: Vec<_> = (0..40).map(|_| thread::spawn(move || served(address))).collect();
        let comers: Vec<_> = comers.into_iter().map(|comer| comer.join().unwrap()).collect();
        let mut stayed: Vec<Client> = comers.into_iter().flatten().collect();
        assert_eq!(stayed.len(), 5);
        stayed.iter_mut().for_each(Client::upgrade);
        stayed.iter_mut().for_each(|client| client.echo("a tunnel counts as well"));
        drop(stayed);
        let open = || proxy.tallies().listeners.values().map(ListenerTally::open).sum::<u64>();
        assert!(becomes(|| open() == 0));
    }
    proxy.stop(Duration::ZERO);
}

#[test]
fn bytes_that_mean_nothing_are_closed_without_a_word() {
    let (proxy, address) = start(limited(tcp(anywhere(), 0), 1));
    let first = from([127, 0, 0, 1], address);
    assert_eq!(first_line(&first, REQUEST), "HTTP/1.1 200 OK");
    let mut second = Client::to(address);
    assert!(second.is_closed(), "before it has sent anything");
    drop(first);
    assert!(becomes(|| first_line(&from([127, 0, 0, 1], address), REQUEST) == "HTTP/1.1 200 OK"));
    proxy.stop(Duration::ZERO);
}

#[test]
fn the_access_log_has_a_line_for_each_connection_that_is_one_too_many() {
    let folder = tempfile::tempdir().unwrap();
    for (name, door, told) in [
        ("http", listener(anywhere(), 0), "HTTP/1.1 429 Too Many Requests"),
        ("tcp", tcp(anywhere(), 0), ""),
    ] {
        let path = folder.path().join(name);
        let target = LogTarget::File(path.display().to_string());
        let mut fleet = limited(door, 1);
        fleet.edge.access_log =
            Some(AccessLog { format: LogFormat::Json, ..AccessLog::to(target) });
        let (proxy, address) = start(fleet);
        let first = served(address).unwrap();
        assert_eq!(asked(address), told);
        assert!(becomes(|| proxy.tallies().count(Ending::ClientLimit) == 1));
        drop(first);
        proxy.stop(Duration::from_secs(5));
        let log = std::fs::read_to_string(path).unwrap();
        let lines = log.lines().map(|line| serde_json::from_str(line).unwrap());
        let refused: Vec<Value> =
            lines.filter(|it: &Value| it["ending"] == "client-limit").collect();
        let [line] = &refused[..] else { panic!("one line: {log}") };
        let status = if told.is_empty() { Value::Null } else { 429.into() };
        assert_eq!((&line["status"], &line["service"]), (&status, &"service-0".into()), "{line}");
        assert_eq!(line["bytes"].as_u64().unwrap() > 0, !told.is_empty(), "{line}");
        assert!(line["client"].as_str().unwrap().starts_with("127.0.0.1:"), "{line}");
    }
}

#[test]
fn http_2_counts_by_connection_and_one_too_many_is_closed_without_a_word_of_http_1() {
    let (proxy, address) = start(limited(listener(anywhere(), 0), 1));
    let mut first = Client::to(address);
    first.send(HTTP2);
    // Its own settings.
    assert!(!first.is_closed());
    let mut second = Client::to(address);
    second.send(HTTP2);
    assert!(second.is_closed());
    assert!(becomes(|| proxy.tallies().count(Ending::ClientLimit) == 1));
    proxy.stop(Duration::ZERO);
}

#[test]
fn behind_the_proxy_protocol_the_address_that_it_tells_counts() {
    let introduced = Listener { accept_proxy: true, ..listener(anywhere(), 0) };
    let (proxy, address) = start(limited(introduced, 1));
    let come = |client: &str| {
        let stream = from([127, 0, 0, 1], address);
        let text = format!("PROXY TCP4 {client} 192.0.2.1 4000 80\r\n{REQUEST}");
        (first_line(&stream, &text), stream)
    };
    let (first, _kept) = come("192.0.2.7");
    assert_eq!(first, "HTTP/1.1 200 OK");
    assert_eq!(come("192.0.2.7").0, "HTTP/1.1 429 Too Many Requests");
    assert_eq!(come("192.0.2.8").0, "HTTP/1.1 200 OK");
    proxy.stop(Duration::ZERO);
}

#[test]
fn a_trusted_proxy_brings_many_clients_and_is_not_counted() {
    let near =
        Listener { trusted_proxies: vec!["127.0.0.1".parse().unwrap()], ..listener(anywhere(), 0) };
    let (proxy, address) = start(limited(near, 1));
    let kept: Vec<_> = (0..3).map(|_| served(address)).collect();
    assert!(kept.iter().all(Option::is_some));
    proxy.stop(Duration::ZERO);
}

#[test]
fn what_a_client_has_counts_over_reloads_whatever_they_change_of_the_listener() {
    let (bind, server) = (reserved(), server("one"));
    let of = |listener: Listener, max| {
        let listener = Listener { max_connections_per_client: max, ..listener };
        fleet(&[listener], &[server])
    };
    let proxy = Runtime::start(of(listener(bind, 0), Some(2))).unwrap();
    let mut tunnel = served(bind).unwrap();
    tunnel.upgrade();
    let kept = served(bind).unwrap();
    assert!(served(bind).is_none());
    // Another protocol is another listener, which leaves the old one its connections.
    proxy.reload(of(tcp(bind, 0), Some(2))).unwrap();
    assert!(becomes(|| Client::to(bind).is_closed()), "nor is there a word of HTTP now");
    proxy.reload(of(listener(bind, 0), Some(3))).unwrap();
    assert!(becomes(|| asked(bind) == "HTTP/1.1 200 OK"), "one more may come");
    let third = becomes_served(bind);
    assert_eq!(asked(bind), "HTTP/1.1 429 Too Many Requests");
    proxy.reload(of(listener(bind, 0), Some(1))).unwrap();
    drop((kept, third));
    tunnel.echo("the last of three");
    assert!(becomes(|| asked(bind) == "HTTP/1.1 429 Too Many Requests"), "it has the only place");
    drop(tunnel);
    drop(becomes_served(bind));
    proxy.reload(of(listener(bind, 0), None)).unwrap();
    assert!(becomes(|| [served(bind), served(bind)].iter().all(Option::is_some)));
    proxy.stop(Duration::ZERO);
}

/// The first line of a response to a client that comes now.
fn asked(address: SocketAddr) -> String {
    first_line(&from(Ipv4Addr::LOCALHOST.octets(), address), REQUEST)
}

fn becomes_served(address: SocketAddr) -> Client {
    let mut found = None;
    let deadline = std::time::Instant::now() + PATIENCE;
    while found.is_none() && std::time::Instant::now() < deadline {
        found = served(address);
    }
    found.unwrap()
}
