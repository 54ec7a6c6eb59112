//! Requests and responses.

use std::{
    io::{BufReader, Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration as StdDuration, Instant},
};

use bytes::Bytes;
use h3::error::Code;
use http::{Request, StatusCode};
use loadline_core::{
    decide::ending::Ending,
    fleet::{HttpVersion, ProxyVersion},
};
use quinn::Endpoint;
use tokio::{
    task::{JoinSet, spawn_blocking},
    time::{sleep, timeout},
};

use crate::{
    authority::Authority,
    raw::{lines, next_frame, open},
    support::{
        Client, PATIENCE, Relay, Requests, config, field, fleet, get, head, request, rest, server,
        start, until,
    },
};

/// A server that answers each request with its head and its body.
fn echo() -> SocketAddr {
    server(|mut stream| {
        let reading = stream.try_clone().unwrap();
        let mut reader = BufReader::new(&reading);
        while let Some(head) = head(&mut reader) {
            let length = field(&head, "content-length").map_or(0, |it| it.parse().unwrap());
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            let all = head.len() + length;
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {all}\r\n\r\n{head}");
            stream.write_all(&[answer.into_bytes(), body].concat()).unwrap();
        }
    })
}

/// A server of HTTP/2 whose responses end with their heads, which have a status and nothing else.
fn bare() -> SocketAddr {
    server(|mut stream| {
        // Its settings, of which there are none.
        stream.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).unwrap();
        stream.read_exact(&mut [0; 24]).unwrap();
        let mut frame = [0; 9];
        while stream.read_exact(&mut frame).is_ok() {
            let [_, high, low, kind, _, id @ ..] = frame;
            let length = usize::from(u16::from_be_bytes([high, low]));
            stream.read_exact(&mut vec![0; length]).unwrap();
            if kind == 1 {
                // HEADERS with END_HEADERS and END_STREAM: 200.
                let answer = [&[0, 0, 1, 1, 5][..], &id, &[0x88]].concat();
                stream.write_all(&answer).unwrap();
            }
        }
    })
}

/// The response to a POST of `body`, of which the server sends back all it got.
async fn post(mut requests: Requests, body: Bytes) -> (StatusCode, Vec<u8>) {
    let request = Request::post("https://a.test/up").header("content-length", body.len());
    let mut stream = requests.send_request(request.body(()).unwrap()).await.unwrap();
    stream.send_data(body).await.unwrap();
    stream.finish().await.unwrap();
    let status = stream.recv_response().await.unwrap().status();
    (status, rest(&mut stream).await.unwrap())
}

#[tokio::test]
async fn an_answer_that_ends_with_its_head_has_no_length_that_its_server_did_not_send() {
    let authority = Authority::new();
    let mut fleet = fleet(bare(), &authority, 1);
    fleet.services[0].http_version = HttpVersion::Http2;
    let (_proxy, address) = start(&fleet);
    let mut client = Client::to(address, &authority).await;
    let mut stream = client.requests.send_request(request("GET", "/")).await.unwrap();
    stream.finish().await.unwrap();
    let answer = stream.recv_response().await.unwrap();
    assert_eq!(answer.status(), 200);
    assert!(!answer.headers().contains_key("content-length"), "{answer:?}");
    assert_eq!(rest(&mut stream).await.unwrap(), b"");
}

#[tokio::test]
async fn requests_with_and_without_bodies_are_answered_a_hundred_at_a_time() {
    let authority = Authority::new();
    let (_proxy, address) = start(&fleet(echo(), &authority, 2));
    let client = Client::to(address, &authority).await;
    let mut all = JoinSet::new();
    for index in 0..100_usize {
        let body = Bytes::from(vec![b'a' + (index % 20) as u8; index * 1_000]);
        let requests = client.requests.clone();
        all.spawn(async move { (body.clone(), post(requests, body).await) });
    }
    while let Some(done) = all.join_next().await {
        let (body, (status, answer)) = done.unwrap();
        assert_eq!(status, 200);
        assert!(answer.ends_with(&body), "{} of {}", answer.len(), body.len());
        assert!(String::from_utf8_lossy(&answer).contains("via: 3.0 loadline\r\n"));
    }
}

#[tokio::test]
async fn a_body_goes_on_while_the_port_of_its_client_changes() {
    let authority = Authority::new();
    let (_proxy, address) = start(&fleet(echo(), &authority, 2));
    let client = Client::to(address, &authority).await;
    let body = Bytes::from(vec![b'x'; 8 << 20]);
    let answer = tokio::spawn(post(client.requests.clone(), body.clone()));
    while client.connection.stats().udp_tx.bytes < 1 << 20 {
        tokio::task::yield_now().await;
    }
    client.endpoint.rebind(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()).unwrap();
    let (status, answer) = answer.await.unwrap();
    assert_eq!(status, 200);
    assert!(answer.ends_with(&body));
}

/// Whose address the server is told; none where the client is to make another connection.
async fn told_address(client: &Client) -> Option<String> {
    let (_, head) = get(client.requests.clone(), "/").await.ok()?;
    let head = String::from_utf8(head).unwrap();
    Some(field(&head, "x-forwarded-for").unwrap().to_owned())
}

#[tokio::test]
async fn a_client_that_has_moved_is_known_by_its_new_address_once_it_has_proved_that() {
    let authority = Authority::new();
    let (_proxy, address) = start(&fleet(echo(), &authority, 2));
    let client = Client::to(address, &authority).await;
    assert_eq!(told_address(&client).await.as_deref(), Some("127.0.0.1"));
    let moved = Ipv4Addr::new(127, 0, 0, 2);
    client.endpoint.rebind(UdpSocket::bind((moved, 0)).unwrap()).unwrap();
    let began = Instant::now();
    while let Some(told) = told_address(&client).await {
        assert_eq!(told, "127.0.0.1", "nobody has proved another to be its own");
        assert!(began.elapsed() < PATIENCE, "it may stay");
        sleep(StdDuration::from_millis(5)).await;
    }
    let again = Client::over(client.endpoint.clone(), address).await;
    assert_eq!(told_address(&again).await.as_deref(), Some("127.0.0.2"));
}

#[tokio::test]
async fn a_client_that_takes_its_request_back_ends_it_as_in_http2() {
    let authority = Authority::new();
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let server = silent.local_addr().unwrap();
    let (proxy, address) = start(&fleet(server, &authority, 2));
    let mut client = Client::to(address, &authority).await;
    let mut stream = client.requests.send_request(request("GET", "/")).await.unwrap();
    stream.finish().await.unwrap();
    let _asked = spawn_blocking(move || silent.accept().unwrap()).await.unwrap();
    stream.stop_sending(Code::H3_REQUEST_CANCELLED);
    until(|| proxy.tallies().count(Ending::ClientGone) == 1).await;
}

/// A server that answers with 150,000 bytes, or with 2 for `/short`, and how often it has. Who has
/// got little so far has a small congestion window: most of what comes next waits in the proxy.
/// Less than a socket takes: nothing is lost on the way, so that what is sent first ends first.
fn large() -> (SocketAddr, Arc<AtomicUsize>) {
    let written = Arc::new(AtomicUsize::new(0));
    let counted = written.clone();
    let address = server(move |mut stream| {
        while let Some(head) = head(&mut BufReader::new(&stream)) {
            let size = if head.starts_with("get /short ") { 2 } else { 150_000 };
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n");
            stream.write_all(&[head.into_bytes(), vec![b'a'; size]].concat()).unwrap();
            counted.fetch_add(1, SeqCst);
        }
    });
    (address, written)
}

#[tokio::test]
async fn what_a_frame_says_is_urgent_goes_first_whatever_the_head_says() {
    let authority = Authority::new();
    let (server, written) = large();
    let (_proxy, address) = start(&fleet(server, &authority, 1));
    let relay = Relay::to(address).await;
    let mut endpoint = Endpoint::client((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    endpoint.set_default_client_config(config(&authority, 1 << 20));
    let connection = endpoint.connect(relay.address, "a.test").unwrap().await.unwrap();
    let mut control = connection.open_uni().await.unwrap();
    control.write_all(&[0, 4, 0]).await.unwrap();
    let ask = async |path| {
        let (scheme, authority) = ((":scheme", "https"), (":authority", "a.test"));
        let head = [(":method", "GET"), scheme, (":path", path), authority, ("priority", "u=5")];
        let (mut send, receive) = open(&connection, &lines(&head)).await;
        send.finish().unwrap();
        receive
    };
    assert!(ask("/short").await.read_to_end(1_000).await.unwrap().len() > 2);
    // PRIORITY_UPDATE of stream 12, which has been read once stream 4 is through.
    control.write_all(&[0x80, 0x0f, 7, 0, 4, 12, b'u', b'=', b'0']).await.unwrap();
    assert!(ask("/short").await.read_to_end(1_000).await.unwrap().len() > 2);
    relay.is_paused.store(true, SeqCst);
    let mut first = ask("/").await;
    until(|| written.load(SeqCst) == 3).await;
    let mut second = ask("/").await;
    until(|| written.load(SeqCst) == 4).await;
    // Whoever hands on a request that comes now has seen both responses.
    let _last = ask("/short").await;
    until(|| written.load(SeqCst) == 5).await;
    relay.is_paused.store(false, SeqCst);
    let mut all = JoinSet::new();
    all.spawn(async move { (1, first.read_to_end(500_000).await.unwrap().len()) });
    all.spawn(async move { (2, second.read_to_end(500_000).await.unwrap().len()) });
    let mut order = Vec::new();
    while let Some(done) = all.join_next().await {
        let (number, length) = done.unwrap();
        assert!(length > 150_000, "{number}: {length}");
        order.push(number);
    }
    assert_eq!(order, [2, 1]);
}

#[tokio::test]
async fn an_urgent_response_goes_before_one_that_was_asked_for_earlier() {
    let authority = Authority::new();
    let (server, written) = large();
    let (_proxy, address) = start(&fleet(server, &authority, 1));
    let relay = Relay::to(address).await;
    let client = Client::to(relay.address, &authority).await;
    assert_eq!(client.get("/short").await.1.len(), 2);
    relay.is_paused.store(true, SeqCst);
    let ask = async |path: &str, priority: &str| {
        let mut asked = request("GET", path);
        asked.headers_mut().insert("priority", priority.parse().unwrap());
        let mut stream = client.requests.clone().send_request(asked).await.unwrap();
        stream.finish().await.unwrap();
        stream
    };
    let mut later = ask("/", "u=7").await;
    until(|| written.load(SeqCst) == 2).await;
    let mut urgent = ask("/", "u=0").await;
    until(|| written.load(SeqCst) == 3).await;
    // Whoever hands on a request that comes now has seen both responses, and sent a part of the
    // first.
    let _last = ask("/short", "u=7").await;
    until(|| written.load(SeqCst) == 4).await;
    relay.is_paused.store(false, SeqCst);
    let mut all = JoinSet::new();
    // Who is asked first is told of first where both ends have come.
    all.spawn(async move {
        urgent.recv_response().await.unwrap();
        assert_eq!(rest(&mut urgent).await.unwrap().len(), 150_000);
        "urgent"
    });
    all.spawn(async move {
        later.recv_response().await.unwrap();
        assert_eq!(rest(&mut later).await.unwrap().len(), 150_000);
        "later"
    });
    assert_eq!(all.join_next().await.unwrap().unwrap(), "urgent");
    assert_eq!(all.join_next().await.unwrap().unwrap(), "later");
}

#[tokio::test]
async fn a_proxy_header_names_the_address_that_the_client_asked() {
    let (tell, told) = std::sync::mpsc::channel();
    let server = server(move |stream| {
        let head = head(&mut BufReader::new(&stream)).unwrap();
        tell.send(head).unwrap();
        (&stream).write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
    });
    let authority = Authority::new();
    let mut fleet = fleet(server, &authority, 1);
    fleet.listeners[0].bind = (Ipv4Addr::UNSPECIFIED, 0).into();
    fleet.services[0].send_proxy = Some(ProxyVersion::V1);
    let (_proxy, address) = start(&fleet);
    let client = Client::to((Ipv4Addr::LOCALHOST, address.port()).into(), &authority).await;
    assert_eq!(client.get("/").await.0, 200);
    let seen = told.recv().unwrap();
    assert!(seen.starts_with("proxy tcp4 127.0.0.1 127.0.0.1 "), "{seen}");
}

#[tokio::test]
async fn a_proxy_header_that_comes_by_a_reload_names_the_address_that_an_open_connection_asked() {
    let authority = Authority::new();
    let mut fleet = fleet(echo(), &authority, 1);
    fleet.listeners[0].bind = (Ipv4Addr::UNSPECIFIED, 0).into();
    let (proxy, address) = start(&fleet);
    let kept = Client::to((Ipv4Addr::LOCALHOST, address.port()).into(), &authority).await;
    assert_eq!(kept.get("/").await.0, 200);
    fleet.services[0].send_proxy = Some(ProxyVersion::V1);
    proxy.reload(fleet).unwrap();
    let asked = async {
        loop {
            let (_, seen) = kept.get("/").await;
            if seen.starts_with(b"proxy ") {
                break String::from_utf8(seen).unwrap();
            }
        }
    };
    let seen = timeout(PATIENCE, asked).await.expect("the reload to be in force");
    assert!(seen.starts_with("proxy tcp4 127.0.0.1 127.0.0.1 "), "{seen}");
}

/// A server whose response has a long header for `/head`, and a long trailer for `/trailers`.
fn long() -> SocketAddr {
    server(|mut stream| {
        let long = format!("X-Long: {}\r\n", "v".repeat(2_000));
        let reading = stream.try_clone().unwrap();
        let mut reader = BufReader::new(&reading);
        while let Some(asked) = head(&mut reader) {
            let chunks = "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n";
            let answer = match asked.split(' ').nth(1).unwrap() {
                "/head" => format!("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n{long}\r\nok"),
                "/trailers" => format!("HTTP/1.1 200 OK\r\n{chunks}{long}\r\n"),
                _ => "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_owned(),
            };
            if stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    })
}

#[tokio::test]
async fn a_response_with_a_longer_head_than_its_client_takes_is_a_502_and_no_client_is_gone() {
    let authority = Authority::new();
    let (proxy, address) = start(&fleet(long(), &authority, 1));
    let mut endpoint = Endpoint::client((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    endpoint.set_default_client_config(config(&authority, 1 << 20));
    let connection = endpoint.connect(address, "a.test").unwrap().await.unwrap();
    // SETTINGS_MAX_FIELD_SECTION_SIZE of 1,000.
    let mut control = connection.open_uni().await.unwrap();
    control.write_all(&[0, 4, 3, 6, 0x43, 0xe8]).await.unwrap();
    let ask = async |path: &str| {
        let (scheme, authority) = ((":scheme", "https"), (":authority", "a.test"));
        let asked = lines(&[(":method", "GET"), scheme, (":path", path), authority]);
        let (mut send, mut receive) = open(&connection, &asked).await;
        send.finish().unwrap();
        let (kind, head) = next_frame(&mut receive).await;
        assert_eq!(kind, 1, "{path}");
        (head, receive.read_to_end(5_000).await.unwrap())
    };
    // The settings have been read by then. `:status 200` by its place in the table.
    assert_eq!(ask("/").await.0[2], 0xd9);
    for _ in 0..10 {
        let (head, rest) = ask("/head").await;
        // `:status 502` with a value of its own, plain or in Huffman's code.
        let is_502 = head.windows(3).any(|it| it == b"502" || it == [0x82, 0x6c, 0x02]);
        assert!(is_502 && rest.is_empty(), "{head:x?} {rest:x?}");
    }
    let (head, rest) = ask("/trailers").await;
    assert_eq!((head[2], rest.len()), (0xd9, 4), "the trailers are left out: {rest:x?}");
    until(|| proxy.tallies().count(Ending::ServerHeadTooLarge) == 10).await;
    until(|| proxy.tallies().count(Ending::Complete) == 2).await;
    assert_eq!(proxy.tallies().count(Ending::ClientGone), 0);
}
