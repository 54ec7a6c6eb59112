//! What outlives a request: reloads, drains, the access log, limits on connections to servers.

use std::{
    fs,
    io::{ErrorKind, Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpStream},
    sync::{Arc, Barrier, Mutex, mpsc::channel},
    thread,
};

use loadline_core::{
    decide::ending::Ending,
    fleet::{AccessLog, LogFormat, LogTarget, Then, WhenFull},
    state::ServiceCounter,
    time::Duration,
};
use socket2::SockRef;

use crate::support::{OK, PATIENCE, Proxy, SHORT, Scripted, exactly, fleet, head, until_closed};

/// A server that switches protocols and sends everything back.
fn echo() -> Scripted {
    Scripted::new(|mut stream, _| {
        if head(&mut stream).is_none() {
            return;
        }
        let answer = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\n\
            Connection: upgrade\r\n\r\n";
        stream.write_all(answer).unwrap();
        let mut back = stream.try_clone().unwrap();
        // The peer may go at any time.
        let _ = std::io::copy(&mut stream, &mut back);
    })
}

/// The place that it has would be taken for ever: the server has nothing to say, so nothing is ever
/// sent to the client.
#[test]
fn a_tunnel_ends_when_a_client_that_has_said_all_is_reset() {
    let (said_all, has_said_all) = channel();
    let server = Scripted::new(move |mut stream, _| {
        head(&mut stream).unwrap();
        let answer =
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n";
        stream.write_all(answer).unwrap();
        until_closed(&mut stream);
        said_all.send(stream).unwrap();
    });
    let proxy = Proxy::to(&[server.address]);
    let client = upgraded(&proxy);
    client.shutdown(Shutdown::Write).unwrap();
    let _open = has_said_all.recv_timeout(PATIENCE).unwrap();
    reset(client);
    proxy.expect(Ending::Tunnel, 1);
}

#[test]
fn a_tunnel_ends_with_its_client_though_its_server_takes_no_more() {
    let (told, heard) = channel();
    let server = ponging(move |stream| told.send(stream).unwrap());
    let proxy = Proxy::to(&[server.address]);
    let mut client = pinged(&proxy);
    let _open = heard.recv_timeout(PATIENCE).unwrap();
    client.set_write_timeout(Some(SHORT.to_std())).unwrap();
    while client.write_all(&[b'x'; 65_536]).is_ok() {}
    reset(client);
    proxy.expect(Ending::Tunnel, 1);
}

/// A server that switches protocols, says `pong` to `ping`, and goes on as `then` says.
fn ponging(then: impl Fn(TcpStream) + Send + Sync + 'static) -> Scripted {
    Scripted::new(move |mut stream, _| {
        head(&mut stream).unwrap();
        let answer =
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n";
        stream.write_all(answer).unwrap();
        assert_eq!(exactly(&mut stream, 4), "ping");
        stream.write_all(b"pong").unwrap();
        then(stream);
    })
}

fn pinged(proxy: &Proxy) -> TcpStream {
    let mut client = upgraded(proxy);
    client.write_all(b"ping").unwrap();
    assert_eq!(exactly(&mut client, 4), "pong");
    client
}

fn reset(stream: TcpStream) {
    SockRef::from(&stream).set_linger(Some(std::time::Duration::ZERO)).unwrap();
    drop(stream);
}

#[test]
fn a_tunnel_that_its_server_breaks_is_broken_for_its_client_and_no_success() {
    let (go_on, may) = channel();
    let may = Mutex::new(may);
    let server = ponging(move |stream| {
        may.lock().unwrap().recv_timeout(PATIENCE).unwrap();
        reset(stream);
    });
    let proxy = Proxy::to(&[server.address]);
    let mut client = pinged(&proxy);
    go_on.send(()).unwrap();
    let error = client.read(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    proxy.expect(Ending::ServerCut, 1);
}

#[test]
fn a_tunnel_that_its_client_breaks_is_broken_for_its_server() {
    let (tell, told) = channel();
    let server = ponging(move |mut stream| {
        tell.send(stream.read(&mut [0]).map_err(|error| error.kind())).unwrap();
    });
    let proxy = Proxy::to(&[server.address]);
    reset(pinged(&proxy));
    assert_eq!(told.recv_timeout(PATIENCE).unwrap(), Err(ErrorKind::ConnectionReset));
    proxy.expect(Ending::Tunnel, 1);
}

/// Whether the kernel is to ask, on a connection with such ends, if the peer is still there: the
/// timer of an established connection (01) is that of keepalive (02).
fn is_probed(is_it: impl Fn(&str, &str) -> bool) -> bool {
    let table = fs::read_to_string("/proc/net/tcp").unwrap();
    table.lines().any(|line| {
        let fields: Vec<_> = line.split_whitespace().collect();
        fields[3] == "01" && fields[5].starts_with("02:") && is_it(fields[1], fields[2])
    })
}

#[test]
fn peers_of_a_stream_without_an_idle_timeout_are_looked_for_by_the_kernel() {
    let server = Scripted::new(|mut stream, _| {
        head(&mut stream);
        let begun = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
        stream.write_all(begun).unwrap();
        // Until the proxy ends it.
        until_closed(&mut stream);
    });
    let end = |address: SocketAddr| format!(":{:04X}", address.port());
    for is_off in [true, false] {
        let mut fleet = fleet(&[server.address]);
        if is_off {
            fleet.listeners[0].timeouts.idle = Duration::ZERO;
            fleet.services[0].timeouts.idle = Duration::ZERO;
        }
        let proxy = Proxy::of(fleet);
        let mut client = proxy.connect();
        client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        head(&mut client).unwrap();
        let (own, far) = (end(proxy.address), end(server.address));
        let to_client = || is_probed(|local, _| local.ends_with(&own));
        let to_server = || is_probed(|_, remote| remote.ends_with(&far));
        if is_off {
            crate::support::wait_until(|| to_client() && to_server(), "both to be probed");
        } else {
            assert!(!to_client(), "the timeout looks for it");
        }
    }
}

#[test]
fn a_server_that_takes_one_connection_serves_the_requests_of_all_workers() {
    let server = Scripted::answering(OK);
    let mut fleet = fleet(&[server.address]);
    fleet.edge.threads = 2;
    fleet.services[0].groups[0].servers[0].max_connections = 1;
    let proxy = Proxy::of(fleet);
    for number in 0..40 {
        assert!(proxy.get().starts_with("HTTP/1.1 200 "), "request {number}");
    }
    assert_eq!(server.connections(), 1);
}

fn upgraded(proxy: &Proxy) -> TcpStream {
    let mut client = proxy.connect();
    let ask = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n";
    client.write_all(ask).unwrap();
    assert!(head(&mut client).unwrap().starts_with("HTTP/1.1 101 "));
    client
}

fn ask(client: &mut TcpStream) -> String {
    client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let answer = head(client).unwrap();
    assert_eq!(exactly(client, 2), "ok");
    answer
}

#[test]
fn a_reload_moves_requests_but_no_connection() {
    let (old, new) = (echo(), Scripted::answering(OK));
    let proxy = Proxy::to(&[old.address]);
    let mut tunnel = upgraded(&proxy);
    proxy.runtime.reload(fleet(&[new.address])).unwrap();
    let mut kept = proxy.connect();
    // The controller hears of the reload on a thread of its own: until then the old server is
    // asked, which knows nothing but tunnels.
    let start = std::time::Instant::now();
    while new.connections() == 0 {
        assert!(start.elapsed() < PATIENCE);
        drop(proxy.get());
    }
    for _ in 0..3 {
        assert!(ask(&mut kept).starts_with("HTTP/1.1 200 "));
    }
    tunnel.write_all(b"still here").unwrap();
    assert_eq!(exactly(&mut tunnel, 10), "still here");
}

#[test]
fn a_drain_lets_requests_end_and_says_so() {
    let (reached, answer) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
    let (at, go) = (reached.clone(), answer.clone());
    let server = Scripted::new(move |mut stream, _| {
        while let Some(head) = head(&mut stream) {
            if head.starts_with("GET /slow ") {
                at.wait();
                go.wait();
            }
            stream.write_all(OK).unwrap();
        }
    });
    let proxy = Proxy::to(&[server.address]);
    let address = proxy.address;
    let mut idle = proxy.connect();
    ask(&mut idle);
    let mut busy = proxy.connect();
    busy.write_all(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    reached.wait();
    let stopped = thread::spawn(move || proxy.runtime.stop(Duration::from_secs(5)));
    assert_eq!(until_closed(&mut idle), "", "an idle connection is closed at once");
    answer.wait();
    let last = until_closed(&mut busy);
    assert!(last.contains("\r\nConnection: close\r\n") && last.ends_with("ok"), "{last}");
    let tallies = stopped.join().unwrap();
    assert_eq!((tallies.count(Ending::Complete), tallies.requests()), (2, 2));
    assert!(TcpStream::connect(address).is_err(), "nobody listens any more");
}

#[test]
fn what_is_left_at_the_end_of_a_drain_is_cut_and_counted() {
    let server = Scripted::new(|mut stream, _| {
        head(&mut stream);
        until_closed(&mut stream);
    });
    let echo = echo();
    let proxy = Proxy::to(&[server.address]);
    let tunnels = Proxy::to(&[echo.address]);
    let mut waiting = proxy.connect();
    waiting.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut tunnel = upgraded(&tunnels);
    crate::support::wait_until(|| server.connections() == 1, "the request");
    let tallies = proxy.runtime.stop(SHORT);
    let told = until_closed(&mut waiting);
    assert!(told.starts_with("HTTP/1.1 503 ") && told.contains("\r\nConnection: close\r\n"));
    assert_eq!((tallies.count(Ending::Drained), tallies.requests()), (1, 1));
    let tallies = tunnels.runtime.stop(SHORT);
    assert_eq!(until_closed(&mut tunnel), "");
    assert_eq!(tallies.count(Ending::Drained), 1);
}

#[test]
fn what_is_cut_at_the_end_of_a_drain_has_in_the_access_log_what_its_client_got() {
    const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n";
    let (has_head, go_on) = channel();
    let go_on = Mutex::new(go_on);
    let pausing = Scripted::new(move |mut stream, _| {
        head(&mut stream);
        stream.write_all(HEAD.as_bytes()).unwrap();
        // The body comes when the client has the head.
        go_on.lock().unwrap().recv_timeout(PATIENCE).unwrap();
        stream.write_all(&[b'x'; 100]).unwrap();
        until_closed(&mut stream);
    });
    let folder = tempfile::tempdir().unwrap();
    let drained = |name: &str, server: &Scripted, cut: &dyn Fn(&Proxy) -> (TcpStream, usize)| {
        let path = folder.path().join(name);
        let target = LogTarget::File(path.display().to_string());
        let mut fleet = fleet(&[server.address]);
        fleet.edge.access_log =
            Some(AccessLog { format: LogFormat::Json, ..AccessLog::to(target) });
        let proxy = Proxy::of(fleet);
        let (_client, got) = cut(&proxy);
        proxy.runtime.stop(SHORT);
        let line = fs::read_to_string(path).unwrap();
        let line: serde_json::Value = serde_json::from_str(line.trim()).unwrap();
        assert_eq!((&line["ending"], &line["bytes"]), (&"drained".into(), &got.into()), "{line}");
    };
    drained("download", &pausing, &|proxy| {
        let mut client = proxy.connect();
        client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let head = head(&mut client).unwrap();
        has_head.send(()).unwrap();
        exactly(&mut client, 100);
        (client, head.len() + 100)
    });
    drained("tunnel", &echo(), &|proxy| {
        let mut client = proxy.connect();
        let ask = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n";
        client.write_all(ask).unwrap();
        let head = head(&mut client).unwrap();
        client.write_all(b"hello").unwrap();
        exactly(&mut client, 5);
        (client, head.len() + 5)
    });
}

#[test]
fn the_access_log_has_interim_responses_that_go_before_one_of_our_own() {
    let server = Scripted::answering_once(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let target = LogTarget::File(path.display().to_string());
    let mut fleet = fleet(&[server.address]);
    fleet.edge.access_log = Some(AccessLog { format: LogFormat::Json, ..AccessLog::to(target) });
    let proxy = Proxy::of(fleet);
    let ask = b"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    let told = proxy.ask(ask);
    assert!(told.starts_with("HTTP/1.1 103 ") && told.contains("HTTP/1.1 502 "), "{told}");
    proxy.runtime.stop(SHORT);
    let line = fs::read_to_string(path).unwrap();
    let line: serde_json::Value = serde_json::from_str(line.trim()).unwrap();
    assert_eq!(line["bytes"], told.len(), "{line}");
}

#[test]
fn the_access_log_has_a_line_for_each_request() {
    let path = std::env::temp_dir().join(format!("loadline-log-{}", std::process::id()));
    let server = Scripted::answering(OK);
    let mut fleet = fleet(&[server.address]);
    fleet.edge.access_log = Some(AccessLog::to(LogTarget::File(path.display().to_string())));
    let proxy = Proxy::of(fleet);
    proxy.ask(b"GET /a?b=\"c\" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    proxy.ask(b"GET / HTTP/1.1\r\nHost : x\r\n\r\n");
    assert_eq!(proxy.runtime.stop(SHORT).requests(), 2);
    let log = fs::read_to_string(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let lines: Vec<&str> = log.lines().collect();
    let [whole, refused] = lines[..] else { panic!("two lines: {log}") };
    let server =
        format!(" GET \"/a?b=\\\"c\\\"\" HTTP/1.1 200 96 web/here/{} complete 0 ", server.address);
    assert!(whole.contains(" 127.0.0.1:") && whole.contains(&server), "{whole}");
    let times = whole.rsplit(' ').take(4).filter(|time| time.parse::<f64>().is_ok());
    assert_eq!(times.count(), 4, "{whole}");
    let line = " GET \"/\" HTTP/1.1 400 ";
    assert!(refused.contains(line) && refused.contains(" web/- client-bad 0 "), "{refused}");
}

#[test]
fn the_access_log_has_the_request_line_of_what_is_refused_where_it_could_be_read() {
    let log = tempfile::NamedTempFile::new().unwrap();
    let server = Scripted::answering(OK);
    let mut fleet = fleet(&[server.address]);
    let target = LogTarget::File(log.path().display().to_string());
    fleet.edge.access_log = Some(AccessLog { query: false, ..AccessLog::to(target) });
    fleet.listeners[0].timeouts.head = SHORT;
    let proxy = Proxy::of(fleet);
    let cases = [
        ("GET /a?b=c HTTP/1.1\r\n\r\n", " GET \"/a?\" HTTP/1.1 400 "),
        ("GET /b HTTP/2.0\r\nHost: x\r\n\r\n", " GET \"/b\" HTTP/2.0 505 "),
        ("PUT /c HTTP/1.0\r\nX (: y\r\n\r\n", " PUT \"/c\" HTTP/1.0 400 "),
        ("CONNECT x:443 HTTP/1.1\r\nHost: x:443\r\n\r\n", " CONNECT \"x:443\" HTTP/1.1 501 "),
        ("GET /d HTTP/1.1\r\nHost: x\r\n", " GET \"/d\" HTTP/1.1 408 "),
        ("GET /e#f HTTP/1.1\r\nHost: x\r\n\r\n", " - \"-\" - 400 "),
    ];
    cases.iter().for_each(|(request, _)| drop(proxy.ask(request.as_bytes())));
    proxy.runtime.stop(SHORT);
    let lines = fs::read_to_string(log.path()).unwrap();
    for (request, line) in cases {
        assert_eq!(lines.matches(line).count(), 1, "{request:?}: {lines}");
    }
    assert!(!lines.contains("b=c"), "{lines}");
}

#[test]
fn a_server_is_given_no_more_connections_than_it_may_have() {
    let held = Scripted::new(|mut stream, _| {
        head(&mut stream);
        until_closed(&mut stream);
    });
    let mut fleet = fleet(&[held.address]);
    fleet.services[0].groups[0].servers[0].max_connections = 1;
    fleet.services[0].when_full = WhenFull::Shed;
    let proxy = Proxy::of(fleet);
    let mut first = proxy.connect();
    first.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    crate::support::wait_until(|| held.connections() == 1, "the first");
    let second = proxy.get();
    assert!(second.starts_with("HTTP/1.1 503 ") && second.contains("\r\nRetry-After: 1\r\n"));
    proxy.expect(Ending::Shed, 1);
}

#[test]
fn a_request_for_which_the_queue_has_no_time_is_spread_if_that_is_the_rule() {
    let together = Arc::new(Barrier::new(2));
    let meet = together.clone();
    let server = Scripted::new(move |mut stream, _| {
        while head(&mut stream).is_some() {
            meet.wait();
            stream.write_all(OK).unwrap();
        }
    });
    let mut fleet = fleet(&[server.address]);
    fleet.services[0].groups[0].capacity.max_in_flight = Some(1);
    fleet.services[0].when_full = WhenFull::Queue { timeout: SHORT, length: 5, then: Then::Spread };
    let proxy = Arc::new(Proxy::of(fleet));
    // The server answers only when it has both at once.
    let answers = [0, 1].map(|_| {
        let proxy = proxy.clone();
        thread::spawn(move || proxy.get())
    });
    for answer in answers {
        assert!(answer.join().unwrap().starts_with("HTTP/1.1 200 "));
    }
    proxy.expect(Ending::Complete, 2);
    assert_eq!(proxy.runtime.tallies().services["web"].counters[ServiceCounter::Queued], 1);
}
