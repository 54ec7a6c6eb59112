//! How streams to servers end: behind their response, or behind a request that was given up.

use std::{
    future::poll_fn,
    io::Write as _,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
        mpsc,
    },
    time::Duration as StdDuration,
};

use bytes::Bytes;
use h2::Reason;
use http::{HeaderMap, HeaderValue, Method, Request, Response};
use loadline_core::{
    decide::ending::Ending,
    fleet::{Compression, HttpVersion},
    units::Rate,
};
use tokio::{
    sync::Semaphore,
    time::{sleep, timeout},
};

use crate::{
    frames::{ACK, DATA, END_HEADERS, END_STREAM, HEADERS, RST_STREAM, Raw, SETTINGS},
    scripted::{Asked, Scripted},
    support::{FullResponse, PATIENCE, Proxy, fleet, get, post, server, wait_until},
};

/// Long enough for a proxy to end a stream that it takes for through.
const MOMENT: StdDuration = StdDuration::from_millis(200);

/// What a server has seen of its streams.
#[derive(Clone)]
struct Seen {
    reset: Arc<AtomicUsize>,
    ended: Arc<AtomicUsize>,
    /// A permit for each response that its client has.
    answered: Arc<Semaphore>,
}

/// A server whose responses have a length, and end a moment after their clients have them, with
/// trailers at one path.
fn ending_late(seen: &Seen) -> Scripted {
    let seen = seen.clone();
    Scripted::new(move |mut asked: Asked| {
        let seen = seen.clone();
        async move {
            let body = "many words ".repeat(1_000);
            let head = Response::builder()
                .header("content-length", body.len())
                .header("content-type", "text/plain");
            let is_head = asked.request.method() == Method::HEAD;
            let mut stream = asked.respond.send_response(head.body(()).unwrap(), false).unwrap();
            if !is_head {
                stream.send_data(body.into(), false).unwrap();
            }
            let late = async {
                seen.answered.acquire().await.unwrap().forget();
                sleep(MOMENT).await;
            };
            tokio::select! {
                () = late => {}
                _ = poll_fn(|cx| stream.poll_reset(cx)) => {
                    seen.reset.fetch_add(1, Relaxed);
                    return;
                }
            }
            match asked.request.uri().path() {
                "/trailers" => stream.send_trailers(HeaderMap::new()).unwrap(),
                _ => stream.send_data(Bytes::new(), true).unwrap(),
            }
            seen.ended.fetch_add(1, Relaxed);
        }
    })
}

#[tokio::test]
async fn a_response_whose_end_comes_in_a_frame_of_its_own_is_whole_for_its_server_too() {
    let [reset, ended] = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
    let seen = Seen { reset, ended, answered: Arc::new(Semaphore::new(0)) };
    let server = ending_late(&seen);
    let mut fleet = server.fleet();
    fleet.services[0].compression = Some(Compression::default());
    let proxy = Proxy::of(fleet);
    let client = proxy.client().await;
    let ask = |method: Method, path: &str, accepted: &'static str| {
        let request = Request::builder().method(method).uri(format!("http://a.test/{path}"));
        request.header("accept-encoding", HeaderValue::from_static(accepted)).body(()).unwrap()
    };
    for (method, path, accepted, least) in [
        (Method::GET, "plain", "identity", 11_000),
        (Method::GET, "trailers", "identity", 11_000),
        (Method::GET, "compressed", "gzip", 1),
        (Method::HEAD, "head", "identity", 0),
    ] {
        // A client waits for no end: the server sends it behind this.
        let answer = client.ask(ask(method, path, accepted)).await.unwrap();
        seen.answered.add_permits(1);
        assert_eq!(answer.status, 200);
        assert!(answer.body.len() >= least, "{path}: {} bytes", answer.body.len());
        assert_eq!(answer.headers.contains_key("content-encoding"), path == "compressed");
    }
    let all = seen.clone();
    let over = move || all.ended.load(Relaxed) + all.reset.load(Relaxed) == 4;
    tokio::task::spawn_blocking(|| wait_until(over, "the ends")).await.unwrap();
    assert_eq!((seen.ended.load(Relaxed), seen.reset.load(Relaxed)), (4, 0));
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn an_end_that_never_comes_is_waited_for_a_second() {
    let reset = Arc::new(AtomicUsize::new(0));
    let count = reset.clone();
    let server = Scripted::new(move |mut asked: Asked| {
        let count = count.clone();
        async move {
            let head = Response::builder().header("content-length", 2).body(()).unwrap();
            let mut stream = asked.respond.send_response(head, false).unwrap();
            stream.send_data("ok".into(), false).unwrap();
            let reason = timeout(PATIENCE, poll_fn(|cx| stream.poll_reset(cx))).await;
            assert_eq!(reason.unwrap().unwrap(), Reason::CANCEL);
            count.fetch_add(1, Relaxed);
        }
    });
    let proxy = server.proxy();
    let client = proxy.client().await;
    for _ in 0..3 {
        assert_eq!(client.ask(get()).await.unwrap().text(), "ok");
    }
    let all = move || wait_until(|| reset.load(Relaxed) == 3, "the streams to be reset");
    tokio::task::spawn_blocking(all).await.unwrap();
    assert_eq!(client.ask(get()).await.unwrap().text(), "ok");
    assert_eq!(server.connections(), 1);
}

/// `:status: 200`.
const FOUND: &[u8] = b"\x88";

/// The first byte of the head of a POST.
const POSTED: Option<&u8> = Some(&0x83);

/// A server that answers a POST at once and anything else when it has been given up.
fn too_late(connections: &Arc<AtomicUsize>, asked: &Arc<AtomicUsize>) -> SocketAddr {
    let (connections, asked) = (connections.clone(), asked.clone());
    server(move |stream| {
        connections.fetch_add(1, Relaxed);
        let mut client = Raw::accept(stream);
        client.send(SETTINGS, ACK, 0, b"").unwrap();
        while let Ok(frame) = client.receive() {
            let is_due = match frame.kind {
                HEADERS => {
                    asked.fetch_add(1, Relaxed);
                    frame.payload.first() == POSTED
                }
                kind => kind == RST_STREAM,
            };
            if is_due {
                let _ = client.send(HEADERS, END_HEADERS | END_STREAM, frame.stream, FOUND);
            }
        }
    })
}

#[tokio::test]
async fn responses_to_requests_that_were_given_up_never_end_the_connection_to_a_server() {
    let [connections, asked] = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
    let mut fleet = fleet(too_late(&connections, &asked));
    fleet.services[0].http_version = HttpVersion::Http2;
    fleet.listeners[0].http2.resets = Rate::per_sec(10_000);
    let proxy = Proxy::of(fleet);
    let client = proxy.client().await;
    for number in 1..=2_000 {
        let mut requests = client.requests.clone().ready().await.unwrap();
        let (_answer, mut stream) = requests.send_request(get(), true).unwrap();
        while asked.load(Relaxed) < number {
            tokio::task::yield_now().await;
        }
        stream.send_reset(Reason::CANCEL);
    }
    assert_eq!(client.ask(post()).await.unwrap().status, 200);
    assert_eq!(connections.load(Relaxed), 1);
}

/// A server whose first connection takes no streams from its first request on.
fn closing_the_first(connections: &Arc<AtomicUsize>) -> SocketAddr {
    let connections = connections.clone();
    server(move |stream| {
        let number = connections.fetch_add(1, Relaxed);
        let mut client = Raw::accept(stream);
        client.send(SETTINGS, ACK, 0, b"").unwrap();
        while let Ok(frame) = client.receive() {
            if frame.kind != HEADERS {
                continue;
            }
            if number == 0 {
                // MAX_CONCURRENT_STREAMS.
                client.send(SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 0]).unwrap();
            }
            let _ = client.send(HEADERS, END_HEADERS | END_STREAM, frame.stream, FOUND);
        }
    })
}

#[tokio::test]
async fn a_connection_on_which_the_server_takes_no_streams_gets_no_more_requests() {
    let connections = Arc::new(AtomicUsize::new(0));
    let mut fleet = fleet(closing_the_first(&connections));
    fleet.services[0].http_version = HttpVersion::Http2;
    let proxy = Proxy::of(fleet);
    let client = proxy.client().await;
    for _ in 0..3 {
        assert_eq!(client.ask(get()).await.unwrap().status, 200);
    }
    assert_eq!(connections.load(Relaxed), 2);
    proxy.expect(Ending::Complete, 3);
}

/// A server that takes no streams on any connection.
fn taking_none(connections: &Arc<AtomicUsize>) -> SocketAddr {
    let connections = connections.clone();
    server(move |mut stream| {
        connections.fetch_add(1, Relaxed);
        // SETTINGS with MAX_CONCURRENT_STREAMS.
        stream.write_all(&[0, 0, 6, SETTINGS, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0]).unwrap();
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    })
}

#[tokio::test]
async fn a_server_that_takes_no_streams_gets_no_further_connection_for_the_same_attempt() {
    let connections = Arc::new(AtomicUsize::new(0));
    let mut fleet = fleet(taking_none(&connections));
    fleet.services[0].http_version = HttpVersion::Http2;
    fleet.services[0].retry.attempts = 0;
    let proxy = Proxy::of(fleet);
    assert_eq!(proxy.client().await.ask(get()).await.unwrap().status, 502);
    assert_eq!(connections.load(Relaxed), 1);
    proxy.expect(Ending::ServerReset, 1);
}

#[tokio::test]
async fn a_body_that_breaks_a_rule_of_http2_is_told_as_a_bad_body() {
    /// `:status: 200` and `content-length: 9`.
    const NINE: &[u8] = b"\x88\x0f\x0d\x019";
    let bodies: [&[(u8, u8, &[u8])]; 3] = [
        &[(DATA, END_STREAM, b"short")],
        &[(DATA, 0, b"long"), (DATA, END_STREAM, b" and longer")],
        &[(DATA, 0, b"no end"), (HEADERS, END_HEADERS, b"\x00\x01x\x01y")],
    ];
    for frames in bodies {
        let (told, heard) = mpsc::channel();
        let heard = Arc::new(Mutex::new(heard));
        let mut fleet = fleet(server(move |stream| {
            let mut client = Raw::accept(stream);
            client.send(SETTINGS, ACK, 0, b"").unwrap();
            let asked = client.until(HEADERS).stream;
            client.send(HEADERS, END_HEADERS, asked, NINE).unwrap();
            heard.lock().unwrap().recv_timeout(PATIENCE).expect("the client has the head");
            for (kind, flags, payload) in frames {
                client.send(*kind, *flags, asked, payload).unwrap();
            }
            while client.receive().is_ok() {}
        }));
        fleet.services[0].http_version = HttpVersion::Http2;
        let proxy = Proxy::of(fleet);
        let mut requests = proxy.client().await.requests.ready().await.unwrap();
        let head = requests.send_request(get(), true).unwrap().0.await.unwrap();
        told.send(()).unwrap();
        FullResponse::read(head).await.unwrap_err();
        proxy.expect(Ending::ServerBodyBad, 1);
    }
}

/// A server that answers the third of five requests on its first connection with a field whose name
/// is in upper case, which h2 takes for a violation of the connection, and all others with 200.
fn invalid_once(connections: &Arc<AtomicUsize>) -> SocketAddr {
    let connections = connections.clone();
    server(move |stream| {
        let number = connections.fetch_add(1, Relaxed);
        let mut client = Raw::accept(stream);
        client.send(SETTINGS, ACK, 0, b"").unwrap();
        if number == 0 {
            let asked = [(); 5].map(|()| client.until(HEADERS).stream);
            client
                .send(HEADERS, END_HEADERS | END_STREAM, asked[2], b"\x88\x00\x01X\x01y")
                .unwrap();
        }
        while let Ok(frame) = client.receive() {
            if frame.kind == HEADERS {
                let _ = client.send(HEADERS, END_HEADERS | END_STREAM, frame.stream, FOUND);
            }
        }
    })
}

#[tokio::test]
async fn requests_beside_one_whose_response_ends_the_connection_are_sent_again_over_another() {
    let connections = Arc::new(AtomicUsize::new(0));
    let mut fleet = fleet(invalid_once(&connections));
    fleet.services[0].http_version = HttpVersion::Http2;
    let proxy = Proxy::of(fleet);
    let client = proxy.client().await;
    let asked: Vec<_> = (0..5)
        .map(|_| {
            let mut requests = client.requests.clone();
            requests.send_request(get(), true).unwrap().0
        })
        .collect();
    let mut told = Vec::new();
    for answer in asked {
        told.push(answer.await.unwrap().status().as_u16());
    }
    told.sort_unstable();
    assert_eq!(told, [200, 200, 200, 200, 502]);
    assert_eq!(connections.load(Relaxed), 2);
    let counted = |ending| proxy.runtime.tallies().count(ending);
    let all = || counted(Ending::ServerBad) == 1 && counted(Ending::Complete) == 4;
    wait_until(all, "one that is told as bad, and the others");
}

#[tokio::test]
async fn a_server_that_sends_on_a_stream_that_nobody_opened_is_told_as_bad() {
    let mut fleet = fleet(server(|stream| {
        let mut client = Raw::accept(stream);
        client.send(SETTINGS, ACK, 0, b"").unwrap();
        let asked = client.until(HEADERS).stream;
        client.send(HEADERS, END_HEADERS | END_STREAM, asked + 2, FOUND).unwrap();
        while client.receive().is_ok() {}
    }));
    fleet.services[0].http_version = HttpVersion::Http2;
    let proxy = Proxy::of(fleet);
    let answer = proxy.client().await.ask(get()).await.unwrap();
    assert_eq!(answer.status, 502);
    proxy.expect(Ending::ServerBad, 1);
}
