//! What is left at the end of a drain, and what a client has that leaves.

use std::{
    io::{BufReader, Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration as StdDuration, Instant},
};

use loadline_core::{decide::ending::Ending, fleet::Protocol, time::Duration};
use quinn::{ConnectionError, Endpoint, ReadError, ReadToEndError, RecvStream, VarInt};
use tokio::time::{sleep, timeout};

use crate::{
    authority::Authority,
    handshake::opening,
    raw::{frame, lines, next_frame, open},
    support::{
        Client, PATIENCE, Relay, config, exact_head, fleet, head, server, sized, start, until,
    },
};

/// H3_NO_ERROR (RFC 9114, 8.1).
const NO_ERROR: u32 = 0x100;

#[tokio::test]
async fn what_is_cut_at_the_end_of_a_drain_is_counted_as_drained() {
    let authority = Authority::new();
    let server = server(|mut stream| {
        let asked = exact_head(&mut BufReader::new(&stream)).unwrap();
        let begun = match asked.contains("upgrade") {
            true => opening(&asked),
            false => "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n".into(),
        };
        stream.write_all(begun.as_bytes()).unwrap();
        // Until the proxy ends it.
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let (proxy, address) = start(&fleet(server, &authority, 2));
    let client = Client::to(address, &authority).await;
    let mut asked = [
        ("GET", &[][..]),
        ("POST", &[("content-length", "9")]),
        ("CONNECT", &[(":protocol", "websocket"), ("sec-websocket-version", "13")]),
    ]
    .map(|(method, more)| {
        let first = (":method", method);
        [&[first, (":scheme", "https"), (":path", "/"), (":authority", "a.test")], more].concat()
    });
    // Pseudo-headers go first.
    asked[2].sort_by_key(|(name, _)| !name.starts_with(':'));
    let mut streams = Vec::new();
    for asked in &asked {
        let (mut send, mut receive) = open(&client.connection, &lines(asked)).await;
        send.write_all(&frame(0, b"x")).await.unwrap();
        assert_eq!(next_frame(&mut receive).await.0, 1, "answered in part");
        streams.push((send, receive));
    }
    let stopped = tokio::task::spawn_blocking(move || proxy.stop(Duration::ZERO));
    let tallies = stopped.await.unwrap();
    assert_eq!((tallies.count(Ending::Drained), tallies.requests()), (3, 3));
}

/// A server that begins a response to `/half`, and answers nothing else; how often it was asked.
fn unfinished() -> (SocketAddr, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = asked.clone();
    let address = server(move |mut stream| {
        let Some(head) = head(&mut BufReader::new(&stream)) else { return };
        if head.starts_with("get /half ") {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf").unwrap();
        }
        counted.fetch_add(1, SeqCst);
        // Until the proxy ends it.
        let _ = stream.read_to_end(&mut Vec::new());
    });
    (address, asked)
}

/// Two responses: one that has not begun, and one that has.
async fn in_flight(client: &Client, asked: &AtomicUsize) -> [RecvStream; 2] {
    let ask = async |path| {
        let (scheme, authority) = ((":scheme", "https"), (":authority", "a.test"));
        let head = lines(&[(":method", "GET"), scheme, (":path", path), authority]);
        let (mut send, receive) = open(&client.connection, &head).await;
        send.finish().unwrap();
        receive
    };
    let (none, mut half) = (ask("/none").await, ask("/half").await);
    assert_eq!(next_frame(&mut half).await.0, 1, "answered in part");
    until(|| asked.load(SeqCst) == 2).await;
    [none, half]
}

/// Waits until both are cut, each as its client can tell.
async fn assert_cut([mut none, mut half]: [RecvStream; 2]) {
    let (kind, head) = next_frame(&mut none).await;
    // `:status 503` by its place in the table.
    assert_eq!((kind, head[2]), (1, 0xdc), "{head:x?}");
    none.read_to_end(10_000).await.unwrap();
    let cut = half.read_to_end(10_000).await;
    assert!(matches!(cut, Err(ReadToEndError::Read(ReadError::Reset(_)))), "{cut:?}");
}

#[tokio::test]
async fn at_the_end_of_a_drain_who_waits_gets_503_and_a_response_under_way_is_reset() {
    let authority = Authority::new();
    let (server, asked) = unfinished();
    let (proxy, address) = start(&fleet(server, &authority, 2));
    let client = Client::to(address, &authority).await;
    let streams = in_flight(&client, &asked).await;
    let stopped = tokio::task::spawn_blocking(move || proxy.stop(Duration::ZERO));
    assert_cut(streams).await;
    let closed = timeout(PATIENCE, client.connection.closed()).await.unwrap();
    let ConnectionError::ApplicationClosed(closed) = closed else { panic!("{closed:?}") };
    assert_eq!(closed.error_code, VarInt::from_u32(NO_ERROR));
    let tallies = stopped.await.unwrap();
    assert_eq!((tallies.count(Ending::Drained), tallies.requests()), (2, 2));
}

#[tokio::test]
async fn behind_a_listener_that_goes_who_waits_gets_503_and_a_response_under_way_is_reset() {
    let authority = Authority::new();
    let (server, asked) = unfinished();
    let mut fleet = fleet(server, &authority, 2);
    let (proxy, address) = start(&fleet);
    let client = Client::to(address, &authority).await;
    let streams = in_flight(&client, &asked).await;
    fleet.edge.drain_timeout = Duration::from_millis(300);
    (fleet.listeners[0].protocol, fleet.listeners[0].tls) = (Protocol::Http, None);
    proxy.reload(fleet).unwrap();
    assert_cut(streams).await;
    until(|| proxy.tallies().count(Ending::Drained) == 2).await;
    let closed = timeout(PATIENCE, client.connection.closed()).await.unwrap();
    let ConnectionError::ApplicationClosed(closed) = closed else { panic!("{closed:?}") };
    assert_eq!(closed.error_code, VarInt::from_u32(NO_ERROR));
}

/// A server that breaks off each response.
fn cutting() -> SocketAddr {
    server(|mut stream| {
        if head(&mut BufReader::new(&stream)).is_some() {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf").unwrap();
        }
    })
}

/// Has a response that is cut, and a request that is malformed.
async fn have_streams_reset(client: &Client) {
    let mut asked =
        [(":method", "GET"), (":scheme", "https"), (":path", "/"), (":authority", "a.test")];
    for method in ["GET", "a b"] {
        asked[0] = (":method", method);
        let (mut send, mut receive) = open(&client.connection, &lines(&asked)).await;
        let _ = send.finish();
        assert!(receive.read_to_end(1_000).await.is_err(), "{method}");
    }
}

#[tokio::test]
async fn a_connection_whose_streams_were_reset_is_closed_once_it_has_been_idle() {
    let authority = Authority::new();
    let mut fleet = fleet(cutting(), &authority, 1);
    fleet.listeners[0].timeouts.keep_alive = Duration::from_secs(1);
    let (_proxy, address) = start(&fleet);
    let client = Client::to(address, &authority).await;
    have_streams_reset(&client).await;
    let closed = timeout(PATIENCE, client.connection.closed()).await.unwrap();
    let ConnectionError::ApplicationClosed(closed) = closed else { panic!("{closed:?}") };
    assert_eq!(closed.error_code, VarInt::from_u32(NO_ERROR));
}

#[tokio::test]
async fn a_stop_does_not_wait_for_streams_that_were_reset() {
    let authority = Authority::new();
    let (proxy, address) = start(&fleet(cutting(), &authority, 1));
    let client = Client::to(address, &authority).await;
    have_streams_reset(&client).await;
    let began = Instant::now();
    let stopped = tokio::task::spawn_blocking(move || proxy.stop(Duration::from_secs(20)));
    stopped.await.unwrap();
    assert!(began.elapsed() < StdDuration::from_secs(10), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_client_that_says_goaway_has_all_of_its_response_before_the_connection_is_closed() {
    let authority = Authority::new();
    let (server, _) = sized(b'a');
    let (proxy, address) = start(&fleet(server, &authority, 1));
    let relay = Relay::to(address).await;
    let mut endpoint = Endpoint::client((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    endpoint.set_default_client_config(config(&authority, 1 << 20));
    let connection = endpoint.connect(relay.address, "a.test").unwrap().await.unwrap();
    // A control stream with SETTINGS.
    let mut control = connection.open_uni().await.unwrap();
    control.write_all(&[0, 4, 0]).await.unwrap();
    relay.is_paused.store(true, SeqCst);
    let asked =
        [(":method", "GET"), (":scheme", "https"), (":path", "/100000"), (":authority", "a.test")];
    let (mut send, mut receive) = open(&connection, &lines(&asked)).await;
    send.finish().unwrap();
    // The proxy has given all of it to QUIC then, and the client has nothing of it.
    until(|| proxy.tallies().requests() == 1).await;
    control.write_all(&[7, 1, 0]).await.unwrap();
    sleep(StdDuration::from_millis(300)).await;
    relay.is_paused.store(false, SeqCst);
    let answer = timeout(PATIENCE, receive.read_to_end(200_000)).await.unwrap().unwrap();
    assert!(answer.len() > 100_000, "{} bytes", answer.len());
    let closed = timeout(PATIENCE, connection.closed()).await.unwrap();
    let ConnectionError::ApplicationClosed(closed) = closed else { panic!("{closed:?}") };
    assert_eq!(closed.error_code, VarInt::from_u32(NO_ERROR));
}
