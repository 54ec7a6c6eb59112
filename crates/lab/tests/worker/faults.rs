//! A worker that misbehaves as it was told to, over loopback.

use std::time::Instant;

use loadline_core::{
    time::Duration,
    units::{Bytes, Ratio},
};
use loadline_lab::{Config, Content, Fault};
use tokio::io::AsyncReadExt as _;

use crate::client::Running;

const GET: &str = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";

fn with(fault: Fault) -> Running {
    let fixed = Config::new(Content::Fixed { size: Bytes::new(100) });
    Running::start(Config { fault: Some(fault), ..fixed })
}

#[tokio::test]
async fn a_stall_holds_every_answer_until_its_end() {
    let lasts = Duration::from_secs(1);
    let worker = with(Fault::Stall { after: Duration::ZERO, lasts });
    let begin = Instant::now();
    assert_eq!(worker.connect().await.ask(GET).await.status, 200);
    assert!(begin.elapsed() >= lasts.to_std());
    let begin = Instant::now();
    assert_eq!(worker.connect().await.ask(GET).await.status, 200);
    assert!(begin.elapsed() < lasts.to_std(), "a stall comes once");
    let time = worker.stats().await.time;
    assert_eq!(time.count, 2);
    assert!(time.max >= lasts && time.min < lasts, "{time:?}");
}

#[tokio::test]
async fn a_status_replaces_every_answer_but_not_the_health_check() {
    let worker = with(Fault::Status(503));
    let mut client = worker.connect().await;
    assert_eq!(client.ask(GET).await.status, 503);
    assert_eq!(client.ask(GET).await.status, 503);
    let health = client.ask("GET /health-check HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert_eq!(health.status, 200);
    assert_eq!(worker.stats().await.answered, 2);
}

#[tokio::test]
async fn one_that_hangs_takes_the_request_and_says_nothing() {
    let worker = with(Fault::Hang);
    let mut client = worker.connect().await;
    client.send(GET.as_bytes()).await;
    worker.stats_once(|stats| stats.accepted == 1).await;
    let silent = client.stream.try_read(&mut [0]).unwrap_err();
    assert_eq!(silent.kind(), std::io::ErrorKind::WouldBlock);
    drop(client);
    let stats = worker.stats_once(|stats| stats.aborted == 1).await;
    assert_eq!((stats.accepted, stats.answered), (1, 0));
}

#[tokio::test]
async fn a_share_of_the_answers_is_a_reset() {
    let worker = with(Fault::Reset(Ratio::percent(50)));
    assert_eq!(worker.connect().await.ask(GET).await.status, 200);
    let mut client = worker.connect().await;
    client.send(GET.as_bytes()).await;
    let error = client.stream.read(&mut [0]).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    let stats = worker.stats().await;
    assert_eq!((stats.answered, stats.aborted), (1, 1));
}
