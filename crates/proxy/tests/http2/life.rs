//! The life of a connection: its streams, its idle time, its end.

use std::{
    fs,
    io::Write as _,
    net::{SocketAddr, TcpStream},
    sync::{Arc, Barrier},
    thread,
    time::Duration as StdDuration,
};

use h2::{Reason, client::Builder};
use loadline_core::{
    decide::ending::Ending,
    fleet::{AccessLog, HttpVersion, Listener, LogFormat, LogTarget, Server},
    time::Duration,
};

use crate::{
    frames::{
        DATA, END_HEADERS, END_STREAM, Frame, GET, GOAWAY, HEADERS, Raw, SETTINGS, WINDOW_UPDATE,
    },
    scripted::Scripted,
    support::{OK, Proxy, SHORT, answering, fleet, get, head, server, wait_until},
};

#[tokio::test]
async fn a_drain_says_goaway_and_lets_streams_end() {
    let (asked, drained) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
    let (here, there) = (asked.clone(), drained.clone());
    let proxy = Proxy::to(server(move |mut stream| {
        head(&mut stream);
        here.wait();
        there.wait();
        stream.write_all(OK).unwrap();
    }));
    let client = proxy.client().await;
    let requests = client.requests.clone();
    let answer = tokio::spawn(async move { client.ask(get()).await });
    tokio::task::spawn_blocking(move || asked.wait()).await.unwrap();
    let stopped = thread::spawn(move || proxy.runtime.stop(Duration::from_secs(10)));
    // GOAWAY: no new stream may be opened, and the library says so.
    let refused = loop {
        match requests.clone().ready().await {
            Ok(_) => tokio::task::yield_now().await,
            Err(refused) => break refused,
        }
    };
    assert_eq!(refused.reason(), Some(Reason::NO_ERROR), "{refused}");
    tokio::task::spawn_blocking(move || drained.wait()).await.unwrap();
    assert_eq!(answer.await.unwrap().unwrap().text(), "ok");
    let tallies = stopped.join().unwrap();
    assert_eq!((tallies.requests(), tallies.count(Ending::Complete)), (1, 1));
}

#[test]
fn an_idle_connection_is_told_and_closed() {
    let mut fleet = fleet(answering(OK));
    fleet.listeners[0].timeouts.keep_alive = SHORT;
    let proxy = Proxy::of(fleet);
    // It does not even answer the ping that comes with GOAWAY.
    let mut client = Raw::connect(proxy.address);
    let last = |goaway: Frame| goaway.payload[..4].to_vec();
    assert_eq!(last(client.until(GOAWAY)), [0x7f, 0xff, 0xff, 0xff], "streams are still taken");
    assert_eq!(last(client.until(GOAWAY)), [0; 4], "and none was (RFC 9113, 6.8)");
    while client.receive().is_ok() {}
}

/// How much of a response of this length comes to a client that reads nothing for so long that its
/// connection would have ended, of a proxy that is stopped meanwhile or not.
fn read_late(length: usize, is_stopped: bool) -> usize {
    let mut fleet = fleet(server(move |mut stream| {
        head(&mut stream);
        let _ = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
        let _ = stream.write_all(&vec![b'x'; length]);
    }));
    if !is_stopped {
        fleet.listeners[0].timeouts.keep_alive = SHORT;
    }
    let proxy = Proxy::of(fleet);
    let mut client = Raw::connect_narrowly(proxy.address);
    // INITIAL_WINDOW_SIZE.
    client.send(SETTINGS, 0, 0, &[0, 4, 0x3f, 0xff, 0xff, 0xff]).unwrap();
    client.send(WINDOW_UPDATE, 0, 0, &[0x3f, 0, 0, 0]).unwrap();
    client.send(HEADERS, END_HEADERS | END_STREAM, 1, GET).unwrap();
    client.until(HEADERS);
    let stopped = thread::spawn(move || match is_stopped {
        true => {
            proxy.runtime.stop(Duration::from_secs(10));
            None
        }
        false => Some(proxy),
    });
    thread::sleep(StdDuration::from_secs(3));
    let mut came = 0;
    while came < length
        && let Ok(frame) = client.receive()
    {
        came += if frame.kind == DATA { frame.payload.len() } else { 0 };
    }
    drop(stopped.join());
    came
}

#[test]
fn a_client_that_reads_late_gets_all_of_its_response_though_its_connection_is_about_to_end() {
    let lengths = [130_000, 150_000, 170_000, 190_000];
    let cases = lengths.map(|length| [(length, false), (length, true)]).concat();
    let reading = cases.iter().map(|&(length, is_stopped)| {
        (length, is_stopped, thread::spawn(move || read_late(length, is_stopped)))
    });
    for (length, is_stopped, came) in reading.collect::<Vec<_>>() {
        assert_eq!(came.join().unwrap(), length, "stopped: {is_stopped}");
    }
}

#[tokio::test]
async fn an_answer_that_takes_longer_than_idle_connections_may_live_is_waited_for() {
    let mut fleet = fleet(server(|mut stream| {
        while head(&mut stream).is_some() {
            thread::sleep(SHORT.to_std() * 3);
            stream.write_all(OK).unwrap();
        }
    }));
    fleet.listeners[0].timeouts.keep_alive = SHORT;
    let proxy = Proxy::of(fleet);
    assert_eq!(proxy.client().await.ask(get()).await.unwrap().text(), "ok");
}

/// A server that has one request and answers nothing, and what waits for it to be asked.
fn silent() -> (SocketAddr, Arc<Barrier>) {
    let asked = Arc::new(Barrier::new(2));
    let here = asked.clone();
    let silent = server(move |mut stream| {
        head(&mut stream);
        here.wait();
        // Until the proxy ends it.
        head(&mut stream);
    });
    (silent, asked)
}

/// Clients of gRPC would take CANCEL for their own doing.
#[tokio::test]
async fn a_request_that_is_cut_at_the_end_of_a_drain_is_told_so_and_not_cancelled() {
    let (silent, asked) = silent();
    let proxy = Proxy::to(silent);
    let client = proxy.client().await;
    let answer = tokio::spawn(async move { client.ask(get()).await });
    tokio::task::spawn_blocking(move || asked.wait()).await.unwrap();
    let stopped = thread::spawn(move || proxy.runtime.stop(SHORT));
    assert_eq!(answer.await.unwrap().unwrap().status, 503);
    let tallies = stopped.join().unwrap();
    assert_eq!((tallies.requests(), tallies.count(Ending::Drained)), (1, 1));
}

#[tokio::test]
async fn a_request_that_is_cut_with_its_server_is_told_so_and_not_cancelled() {
    let (silent, asked) = silent();
    let other = answering(OK);
    let with = |weights: [u32; 2]| {
        let mut fleet = fleet(silent);
        fleet.services[0].drain_timeout = Some(SHORT);
        let servers = [silent, other].into_iter().zip(weights);
        let server = |(address, weight)| Server { weight, ..Server::at(address) };
        fleet.services[0].groups[0].servers = servers.map(server).collect();
        fleet
    };
    let proxy = Proxy::of(with([1, 0]));
    let client = proxy.client().await;
    let answer = tokio::spawn(async move { client.ask(get()).await });
    tokio::task::spawn_blocking(move || asked.wait()).await.unwrap();
    proxy.runtime.reload(with([0, 1])).unwrap();
    assert_eq!(answer.await.unwrap().unwrap().status, 503);
    proxy.expect(Ending::Drained, 1);
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

#[tokio::test]
async fn peers_that_vanish_behind_streams_without_a_timeout_are_looked_for_by_the_kernel() {
    let server = Scripted::new(async |mut asked| {
        let _open = asked.begin();
        std::future::pending::<()>().await;
    });
    let mut fleet = server.fleet();
    fleet.listeners[0].timeouts.idle = Duration::ZERO;
    fleet.services[0].timeouts.idle = Duration::ZERO;
    let proxy = Proxy::of(fleet);
    let client = proxy.client().await;
    let mut requests = client.requests.clone().ready().await.unwrap();
    let (answer, _) = requests.send_request(get(), true).unwrap();
    let _open = answer.await.unwrap();
    let end = |address: SocketAddr| format!(":{:04X}", address.port());
    let (own, far) = (end(proxy.address), end(server.address));
    wait_until(|| is_probed(|local, _| local.ends_with(&own)), "the client to be probed");
    wait_until(|| is_probed(|_, remote| remote.ends_with(&far)), "the server to be probed");
}

#[tokio::test]
async fn a_request_taken_back_is_taken_from_its_server_too() {
    let (asked, closed) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
    let (here, there) = (asked.clone(), closed.clone());
    let proxy = Proxy::to(server(move |mut stream| {
        head(&mut stream);
        here.wait();
        assert!(head(&mut stream).is_none());
        there.wait();
    }));
    let client = proxy.client().await;
    let mut requests = client.requests.clone().ready().await.unwrap();
    let (answer, mut stream) = requests.send_request(get(), true).unwrap();
    tokio::task::spawn_blocking(move || asked.wait()).await.unwrap();
    stream.send_reset(Reason::CANCEL);
    drop(answer);
    tokio::task::spawn_blocking(move || closed.wait()).await.unwrap();
    proxy.expect(Ending::ClientGone, 1);
}

#[tokio::test]
async fn each_stream_has_its_line_in_the_access_log() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log");
    let mut fleet = fleet(answering(OK));
    fleet.edge.access_log = Some(AccessLog::to(LogTarget::File(path.display().to_string())));
    let proxy = Proxy::of(fleet);
    let client = proxy.client().await;
    for _ in 0..3 {
        client.ask(get()).await.unwrap();
    }
    drop(client);
    proxy.runtime.stop(Duration::from_secs(10));
    let log = fs::read_to_string(path).unwrap();
    let complete = |line: &&str| {
        line.contains(" GET \"/page?q\" HTTP/2.0 200 ") && line.contains(" complete ")
    };
    assert_eq!(log.lines().filter(complete).count(), 3, "{log}");
}

/// The bytes that the access log has of a response of which a client takes so many, and no more.
async fn logged(window: u32) -> u64 {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log");
    let mut fleet = fleet(server(|mut stream| {
        head(&mut stream);
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 16000\r\n\r\n").unwrap();
        stream.write_all(&[b'x'; 16_000]).unwrap();
        // Until the proxy ends it.
        head(&mut stream);
    }));
    let target = LogTarget::File(path.display().to_string());
    fleet.edge.access_log = Some(AccessLog { format: LogFormat::Json, ..AccessLog::to(target) });
    let proxy = Proxy::of(fleet);
    let mut builder = Builder::new();
    builder.initial_window_size(window);
    let client = proxy.client_with(&builder).await;
    let mut requests = client.requests.clone().ready().await.unwrap();
    let (answer, mut stream) = requests.send_request(get(), true).unwrap();
    let mut body = answer.await.unwrap().into_body();
    let mut came = 0;
    while came < window as usize {
        came += body.data().await.unwrap().unwrap().len();
    }
    stream.send_reset(Reason::CANCEL);
    let ended = tokio::task::spawn_blocking(move || {
        proxy.expect(Ending::ClientGone, 1);
        proxy.runtime.stop(SHORT);
    });
    ended.await.unwrap();
    let line = fs::read_to_string(path).unwrap();
    let line: serde_json::Value = serde_json::from_str(line.trim()).unwrap();
    line["bytes"].as_u64().unwrap()
}

#[tokio::test]
async fn the_access_log_has_what_a_client_got_of_a_response_that_it_took_back() {
    let (some, more) = (logged(1_000).await, logged(2_000).await);
    assert_eq!(more, some + 1_000);
    assert!((1_001..2_000).contains(&some), "{some} with a head");
}

#[test]
fn a_connection_that_is_given_up_has_its_line_in_the_access_log() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log");
    let mut fleet = fleet(answering(OK));
    fleet.edge.access_log = Some(AccessLog::to(LogTarget::File(path.display().to_string())));
    fleet.listeners[0].http_version = Some(HttpVersion::Http2);
    fleet.listeners[0].timeouts.head = SHORT;
    let introduced = Listener { accept_proxy: true, ..fleet.listeners[0].clone() };
    fleet.listeners.push(introduced);
    let proxy = Proxy::of(fleet);
    let counted = |ending| proxy.runtime.tallies().count(ending);
    let say = |address, bytes: &[u8]| {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(bytes).unwrap();
        stream
    };
    let addresses = proxy.runtime.local_addrs();
    let streams = addresses.iter().map(|it| say(it, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
    let _open: Vec<_> = streams.collect();
    let mut raw = Raw::connect(proxy.address);
    raw.send(DATA, 0, 0, b"of no stream").unwrap();
    wait_until(|| counted(Ending::ClientBad) == 3, "two of HTTP/1 and a bad frame");
    let _stalled = say(&addresses[0], b"PRI * HTTP/2.0\r\n");
    wait_until(|| counted(Ending::ClientTimeout) == 1, "one that says half of what it must");
    proxy.runtime.stop(SHORT);
    let log = fs::read_to_string(path).unwrap();
    let lines = |ending| log.lines().filter(|line| line.contains(ending)).count();
    let found = [" - \"-\" - - 0 ", " web/- client-bad 0 ", " web/- client-timeout 0 "].map(lines);
    assert_eq!(found, [4, 3, 1], "{log}");
}
