//! What a worker says, over loopback.

use std::{num::NonZeroU32, time::Duration as StdDuration};

use loadline_core::{time::Duration, units::Bytes};
use loadline_http1::Method;
use loadline_lab::{BindError, Config, Content, Pace, Picture, Worker};

use crate::client::Running;

const GET: &str = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";

fn fixed() -> Config {
    Config::new(Content::Fixed { size: Bytes::new(100) })
}

/// Two requests a second at most, so that a request waits if a test lets it.
fn slow() -> Config {
    let pace = Pace::Cores { cores: NonZeroU32::MIN, service: Duration::from_millis(500) };
    Config { pace, ..fixed() }
}

#[tokio::test]
async fn each_content_is_answered_as_published() {
    let quick = |content| Config { pace: Pace::Wait(Duration::ZERO), ..Config::new(content) };
    let mandelbrot = Running::start(quick(Content::Mandelbrot));
    let answer = mandelbrot.connect().await.ask(GET).await;
    assert_eq!((answer.status, answer.field("content-type")), (200, "image/png"));
    assert_eq!(answer.body, Picture::compute().to_png().unwrap());

    let page = Running::start(quick(Content::Page));
    let answer = page.connect().await.ask("GET /index.php HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert_eq!((answer.status, answer.body.len()), (200, 50_000));
    assert!(answer.field("content-type").starts_with("text/html"));

    let json = Running::start(quick(Content::Json));
    let answer = json.connect().await.ask(GET).await;
    assert_eq!((answer.status, answer.field("content-type")), (200, "application/json"));
    assert_eq!(answer.body, br#"{"hello": "world"}"#);

    let fixed = Running::start(fixed());
    let answer = fixed.connect().await.ask(GET).await;
    assert_eq!((answer.status, answer.body.len()), (200, 100));
}

#[tokio::test]
async fn an_answer_names_who_gave_it() {
    let unnamed = Running::start(Config { region: "us-central1".to_owned(), ..fixed() });
    let answer = unnamed.connect().await.ask(GET).await;
    assert_eq!(answer.field("x-served-by"), format!("us-central1/{}", unnamed.address.port()));
    let named = Running::start(Config { name: Some("near 1".to_owned()), ..fixed() });
    assert_eq!(named.connect().await.ask(GET).await.field("x-served-by"), "near 1");
}

#[tokio::test]
async fn an_answer_has_the_headers_that_were_asked_for() {
    let headers = vec![("Cache-Control".to_owned(), "max-age=60".to_owned())];
    let worker = Running::start(Config { headers, ..fixed() });
    assert_eq!(worker.connect().await.ask(GET).await.field("cache-control"), "max-age=60");
}

#[tokio::test]
async fn one_connection_carries_many_requests_sent_ahead_or_not() {
    let worker = Running::start(fixed());
    let mut client = worker.connect().await;
    for _ in 0..3 {
        let answer = client.ask(GET).await;
        assert!(answer.keep_alive && answer.find("connection").is_none());
    }
    client.send(GET.repeat(50).as_bytes()).await;
    for _ in 0..50 {
        assert_eq!(client.answer(Method::Get).await.status, 200);
    }
    let closing = client.ask("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await;
    assert_eq!(closing.field("connection"), "close");
    assert!(client.rest().await.is_empty());
    assert_eq!(worker.stats().await.answered, 54);
}

#[tokio::test]
async fn an_old_client_keeps_its_connection_only_if_it_asks() {
    let worker = Running::start(fixed());
    let mut client = worker.connect().await;
    let kept = client.ask("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").await;
    assert_eq!(kept.field("connection"), "keep-alive");
    let closed = client.ask("GET / HTTP/1.0\r\n\r\n").await;
    assert_eq!(closed.field("connection"), "close");
    assert!(client.rest().await.is_empty());
}

#[tokio::test]
async fn head_is_answered_with_the_head_of_a_get() {
    let worker = Running::start(fixed());
    let mut client = worker.connect().await;
    let answer = client.ask("HEAD / HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert_eq!((answer.status, answer.field("content-length")), (200, "100"));
    assert!(answer.body.is_empty());
    assert_eq!(client.ask(GET).await.status, 200, "nothing was left on the connection");
}

#[tokio::test]
async fn bodies_are_read_and_thrown_away() {
    let worker = Running::start(fixed());
    let mut client = worker.connect().await;
    let counted = format!(
        "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n{}",
        "a".repeat(100_000)
    );
    assert_eq!(client.ask(&counted).await.status, 200);
    let chunked = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n\
                   5\r\nhello\r\n0\r\n\r\n";
    assert_eq!(client.ask(chunked).await.status, 200);
    client.send(b"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n").await;
    client.send(b"Expect: 100-continue\r\n\r\n").await;
    assert_eq!(client.answer(Method::Put).await.status, 100);
    client.send(b"ok").await;
    assert_eq!(client.answer(Method::Put).await.status, 200);
    assert_eq!(worker.stats().await.answered, 3);
}

#[tokio::test]
async fn health_is_answered_at_once_while_work_waits() {
    let worker = Running::start(slow());
    let mut waiting = Vec::new();
    for _ in 0..3 {
        let mut client = worker.connect().await;
        client.send(GET.as_bytes()).await;
        waiting.push(client);
    }
    for path in ["/health-check", "/status.php"] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n");
        assert_eq!(worker.connect().await.ask(&request).await.status, 200);
    }
    let stats = worker.stats_once(|stats| stats.accepted == 3).await;
    assert_eq!(stats.answered, 0);
    assert_eq!((stats.in_service, stats.queued, stats.most_queued), (1, 2, 2));
}

#[tokio::test]
async fn the_tutorials_health_answer_is_a_status_line_and_the_end() {
    let worker = Running::start(Config { lenient_health: true, ..fixed() });
    let mut client = worker.connect().await;
    client.send(b"GET /health-check HTTP/1.1\r\nHost: x\r\n\r\n").await;
    let said = String::from_utf8(client.rest().await).unwrap();
    assert!(said.starts_with("HTTP/1.0 200 OK\r\n"), "{said}");
    assert!(!said.contains("\r\n\r\n"), "{said}");
}

#[tokio::test]
async fn what_is_not_there_is_404_and_what_is_not_http_is_400() {
    let worker = Running::start(fixed());
    let mut client = worker.connect().await;
    let missing = client.ask("GET /missing HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert_eq!((missing.status, missing.keep_alive), (404, true));
    let garbage = client.ask("\u{1}\u{2} what is this\r\n\r\n").await;
    assert_eq!((garbage.status, garbage.keep_alive), (400, false));
    assert!(client.rest().await.is_empty());
    let smuggled = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\
                    Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    assert_eq!(worker.connect().await.ask(smuggled).await.status, 400);
    let mut half = worker.connect().await;
    half.send(b"GET / HTTP/1.1\r\nHo").await;
    drop(half);
    let mut half_body = worker.connect().await;
    half_body.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf").await;
    drop(half_body);
    let stats = worker.stats_once(|stats| stats.refused >= 5).await;
    assert_eq!((stats.refused, stats.accepted), (5, 0));
}

#[tokio::test]
async fn a_caller_that_has_gone_is_worked_for_and_counted_as_aborted() {
    let pace = Pace::Cores { cores: NonZeroU32::MIN, service: Duration::from_millis(300) };
    let worker = Running::start(Config { pace, ..fixed() });
    let mut gone = worker.connect().await;
    gone.send(GET.as_bytes()).await;
    worker.stats_once(|stats| stats.accepted == 1).await;
    drop(gone);
    // Stands behind the one that has gone.
    assert_eq!(worker.connect().await.ask(GET).await.status, 200);
    let stats = worker.stats().await;
    assert_eq!((stats.accepted, stats.answered, stats.aborted), (2, 1, 1));
    assert_eq!(stats.most_queued, 1);
}

#[tokio::test]
async fn utilization_is_told_when_asked_for() {
    let pace = Pace::Cores { cores: NonZeroU32::MIN, service: Duration::from_millis(40) };
    let worker = Running::start(Config { pace, report_utilization: true, ..fixed() });
    let mut client = worker.connect().await;
    let mut last = 0.0;
    for _ in 0..3 {
        let answer = client.ask(GET).await;
        let told = answer.field("endpoint-load-metrics").strip_prefix("TEXT cpu_utilization=");
        let told: f64 = told.unwrap().parse().unwrap();
        assert!(told > last && told <= 1.0, "{told} after {last}: the core is never idle");
        last = told;
    }
    let silent = Running::start(fixed()).connect().await.ask(GET).await;
    assert_eq!(silent.find("endpoint-load-metrics"), None);
}

#[tokio::test]
async fn a_worker_told_to_stop_answers_what_it_has_and_refuses_the_rest() {
    let pace = Pace::Wait(Duration::from_millis(500));
    let worker = Running::start(Config { pace, ..fixed() });
    let address = worker.address;
    let mut idle = worker.connect().await;
    assert_eq!(idle.ask("GET /status.php HTTP/1.1\r\nHost: x\r\n\r\n").await.status, 200);
    let mut busy = worker.connect().await;
    busy.send(GET.as_bytes()).await;
    worker.stats_once(|stats| stats.accepted == 1).await;
    let ended = worker.tell_to_stop();
    assert!(idle.rest().await.is_empty(), "idle connections end at once");
    let answer = busy.answer(Method::Get).await;
    assert_eq!((answer.status, answer.field("connection")), (200, "close"));
    tokio::time::timeout(StdDuration::from_secs(10), ended).await.unwrap().unwrap().unwrap();
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn an_address_in_use_is_named() {
    let first = Worker::bind(fixed()).unwrap();
    let address = first.local_addr();
    let Err(error) = Worker::bind(Config { listen: address, ..fixed() }) else {
        panic!("two workers on {address}");
    };
    assert!(matches!(error, BindError::Listen { .. }));
    assert!(error.to_string().contains(&address.to_string()), "{error}");
}
