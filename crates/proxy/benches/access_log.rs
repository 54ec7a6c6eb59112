//! What a line of the access log costs the worker that writes it, by format.
//!
//! `cargo bench -p loadline-proxy --bench access_log`. A small request costs the proxy about
//! 12 us in all, of which a log may take 8 %: about 0.9 us.

use std::net::SocketAddr;

use divan::{Bencher, counter::ItemsCount};
use loadline_core::{
    decide::ending::Ending,
    fleet::LogFormat,
    time::{Duration, Instant},
};
use loadline_proxy::telemetry::access_log::{Came, Line, Times, Writer};

fn main() {
    divan::main();
}

#[divan::bench(args = [LogFormat::Text, LogFormat::Combined, LogFormat::Json])]
fn line(bencher: Bencher<'_, '_>, format: LogFormat) {
    let at = |micros| Instant::ZERO + Duration::from_micros(micros);
    let line = Line {
        client: SocketAddr::from(([203, 0, 113, 9], 41_234)),
        method: b"GET",
        target: b"/articles/2026/11/load-lines?page=3&session=12345",
        version: "HTTP/1.1",
        referer: b"https://www.example.org/articles/",
        agent: b"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko)",
        status: 200,
        bytes: 1324,
        service: "web",
        server: Some(("europe-west3", SocketAddr::from(([10, 0, 0, 11], 8080)))),
        ending: Ending::Complete,
        reason: "",
        came: Came::default(),
        retries: 0,
        times: Times {
            received: at(10_000),
            picked: Some(at(10_002)),
            sent: Some(at(10_200)),
            answered: Some(at(48_000)),
            ended: at(48_100),
            ..Times::default()
        },
        trace: None,
    };
    bencher.counter(ItemsCount::new(LINES)).bench_local(|| {
        let mut writer = Writer::new(format);
        for _ in 0..LINES {
            writer.add(&line);
        }
        writer.take()
    });
}

/// As many as are handed over at a time.
const LINES: usize = 128;
