//! When a worker answers, over loopback. Bounds from above are wide: a busy machine is late, and
//! that is not what is tested. Nothing may be early.

use std::{num::NonZeroU32, time::Instant};

use loadline_core::time::Duration;
use loadline_lab::{Config, Content, Pace};

use crate::client::Running;

const GET: &str = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
const SERVICE: Duration = Duration::from_millis(20);

fn two_cores() -> Config {
    let pace = Pace::Cores { cores: NonZeroU32::new(2).unwrap(), service: SERVICE };
    Config { pace, ..Config::new(Content::Mandelbrot) }
}

/// Sends `n` requests at once, a connection each, and gives the time until the last response.
async fn burst(worker: &Running, n: usize) -> Duration {
    let mut clients = Vec::new();
    for _ in 0..n {
        clients.push(worker.connect().await);
    }
    let begin = Instant::now();
    for client in &mut clients {
        client.send(GET.as_bytes()).await;
    }
    for client in &mut clients {
        assert_eq!(client.answer(loadline_http1::Method::Get).await.status, 200);
    }
    Duration::from_std(begin.elapsed())
}

/// The least of three, since what a machine is busy with only adds.
async fn shortest(worker: &Running, n: usize) -> Duration {
    let first = burst(worker, n).await;
    first.min(burst(worker, n).await).min(burst(worker, n).await)
}

#[tokio::test]
async fn a_burst_takes_as_long_as_the_cores_need_for_it() {
    let worker = Running::start(two_cores());
    let least = shortest(&worker, 40).await;
    assert!(least >= SERVICE * 20 && least < SERVICE * 25, "40 requests on 2 cores took {least}");
    let stats = worker.stats().await;
    assert_eq!((stats.answered, stats.most_queued), (120, 38));
    worker.stop().await;
}

#[tokio::test]
async fn distance_makes_an_answer_late_and_no_core_busy() {
    let delay = Duration::from_millis(30);
    let worker = Running::start(Config { delay, ..two_cores() });
    let least = shortest(&worker, 20).await;
    assert!(least >= SERVICE * 10 + delay && least < SERVICE * 15 + delay, "{least}");
}

#[tokio::test]
async fn what_has_no_cores_waits_side_by_side() {
    let pace = Pace::Wait(SERVICE);
    let worker = Running::start(Config { pace, ..Config::new(Content::Json) });
    let least = shortest(&worker, 100).await;
    assert!(least >= SERVICE && least < SERVICE * 10, "{least}");
}

#[tokio::test]
async fn burning_answers_what_it_drew() {
    let service = Duration::from_millis(5);
    let pace = Pace::Burn { cores: NonZeroU32::MIN, service };
    let worker = Running::start(Config { pace, ..Config::new(Content::Mandelbrot) });
    let took = burst(&worker, 4).await;
    assert!(took >= service * 4, "{took}");
    assert_eq!(worker.stats().await.answered, 4);
}
