//! An open-loop client: every request has a planned instant, and its response time counts from
//! there, whether or not the client or the proxy was late.
//!
//! It is not `loadline bench`, so that the product is not measured by itself. A thread of its own
//! keeps the plan, because the timers of tokio are a millisecond coarse. Connections are kept and
//! the last one returned goes out first. A kept connection that turns out closed before the first
//! byte of the response is replaced once by a new one, as browsers do, and the response says so. A
//! POST is never sent twice.

use std::cell::{Cell, RefCell};
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::{JoinSet, LocalSet};

/// A request to be sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlannedRequest {
    /// From the start of the plan.
    pub(crate) at: Duration,
    /// A POST, which nobody may send twice; else a GET.
    pub(crate) post: bool,
    /// On a connection of its own.
    pub(crate) fresh: bool,
    /// The object that is asked for; without, `/`.
    pub(crate) object: Option<u64>,
}

/// Which objects are asked for: a share of the requests for one of its own, the others for one of
/// a hundred.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Objects {
    /// 0 to 1.
    pub(crate) misses: f64,
    /// Which of the plans; each has other objects of its own.
    pub(crate) seed: u64,
}

impl Objects {
    fn draw(self, count: usize) -> Vec<u64> {
        let mut random = StdRng::seed_from_u64(!self.seed);
        let own = (self.seed + 1) * count as u64 + POPULAR;
        let draw = |index: u64| match random.random::<f64>() < self.misses {
            true => own + index,
            false => random.random_range(0..POPULAR),
        };
        (0..count as u64).map(draw).collect()
    }
}

/// Requests to a port of loopback.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load<'a> {
    pub(crate) port: u16,
    /// When the plan begins.
    pub(crate) start: Instant,
    pub(crate) asks: &'a [PlannedRequest],
    /// How long clients wait for a response.
    pub(crate) patience: Duration,
}

/// What became of one request.
#[derive(Clone, Debug)]
pub(crate) struct Response {
    pub(crate) ask: PlannedRequest,
    /// From the planned instant to the last byte, or to the failure.
    pub(crate) response_time: Duration,
    /// How late the client itself was.
    pub(crate) lag: Duration,
    /// A kept connection turned out closed, and a new one took its place.
    pub(crate) replaced: bool,
    /// Who served it (`X-Served-By`), or what went wrong.
    pub(crate) result: Result<String, String>,
}

/// The instants of `count` Poisson arrivals, from the start; the same for the same seed.
pub(crate) fn poisson(rate: f64, count: usize, seed: u64) -> Vec<Duration> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut at = 0.0;
    let mut arrival = || {
        at -= (1.0 - random.random::<f64>()).ln() / rate;
        Duration::from_secs_f64(at)
    };
    (0..count).map(|_| arrival()).collect()
}

/// GETs, by turns on new connections and on kept ones.
pub(crate) fn mix(plan: &[Duration]) -> Vec<PlannedRequest> {
    let asks = plan.iter().enumerate();
    asks.map(|(index, at)| PlannedRequest { fresh: index % 2 == 0, ..PlannedRequest::get(*at) })
        .collect()
}

impl Response {
    /// Whether a proxy said anything, be it that it failed.
    pub(crate) fn is_told(&self) -> bool {
        self.result.as_ref().map_or_else(|what| what.starts_with("HTTP/"), |_| true)
    }

    /// From the planned instant to the last byte, in milliseconds.
    pub(crate) fn millis(&self) -> f64 {
        self.response_time.as_secs_f64() * 1e3
    }
}

/// Sends a GET at each planned instant over kept connections, and waits for all responses.
pub(crate) fn run(port: u16, plan: &[Duration]) -> Result<Vec<Response>> {
    let asks: Vec<PlannedRequest> = plan.iter().copied().map(PlannedRequest::get).collect();
    send(port, &asks)
}

/// The same with a GET for an object each.
pub(crate) fn run_for(port: u16, plan: &[Duration], objects: Objects) -> Result<Vec<Response>> {
    let objects = objects.draw(plan.len()).into_iter().map(Some);
    let asks = plan.iter().copied().map(PlannedRequest::get).zip(objects);
    let asks: Vec<PlannedRequest> =
        asks.map(|(ask, object)| PlannedRequest { object, ..ask }).collect();
    send(port, &asks)
}

fn send(port: u16, asks: &[PlannedRequest]) -> Result<Vec<Response>> {
    Load { port, start: Instant::now() + AHEAD, asks, patience: TIMEOUT }.run()
}

impl Load<'_> {
    /// Sends each request at its instant and waits for all responses.
    pub(crate) fn run(self) -> Result<Vec<Response>> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("build a runtime")?;
        let (start, asks) = (self.start, self.asks);
        let (due, planned) = mpsc::unbounded_channel();
        thread::scope(|scope| {
            let pacer = scope.spawn(move || pace(start, asks, &due));
            let answers = LocalSet::new().block_on(&runtime, self.answer_all(planned));
            pacer.join().ok().context("the thread that keeps the plan panicked")?;
            answers
        })
    }

    async fn answer_all(
        self,
        mut planned: mpsc::UnboundedReceiver<PlannedRequest>,
    ) -> Result<Vec<Response>> {
        let pool = Rc::new(Pool { port: self.port, idle: RefCell::default() });
        let mut tasks = JoinSet::new();
        while let Some(ask) = planned.recv().await {
            tasks.spawn_local(answer(Rc::clone(&pool), self.start, ask, self.patience));
        }
        let mut answers = Vec::new();
        while let Some(answer) = tasks.join_next().await {
            answers.push(answer.context("a request panicked")?);
        }
        Ok(answers)
    }
}

fn pace(start: Instant, asks: &[PlannedRequest], due: &mpsc::UnboundedSender<PlannedRequest>) {
    for ask in asks {
        thread::sleep((start + ask.at).saturating_duration_since(Instant::now()));
        if due.send(*ask).is_err() {
            return;
        }
    }
}

async fn answer(
    pool: Rc<Pool>,
    start: Instant,
    ask: PlannedRequest,
    patience: Duration,
) -> Response {
    let instant = start + ask.at;
    let lag = instant.elapsed();
    let replaced = Cell::new(false);
    let result = match tokio::time::timeout(patience, pool.exchange(ask, &replaced)).await {
        Ok(result) => result.map_err(|failure| failure.0),
        Err(_) => Err(format!("no answer in {patience:?}")),
    };
    Response { ask, response_time: instant.elapsed(), lag, replaced: replaced.get(), result }
}

struct Pool {
    port: u16,
    idle: RefCell<Vec<TcpStream>>,
}

/// Why there is no response, and whether not a byte of one came.
struct Failure(String, bool);

impl Pool {
    async fn exchange(
        &self,
        ask: PlannedRequest,
        replaced: &Cell<bool>,
    ) -> Result<String, Failure> {
        let kept = if ask.fresh { None } else { self.idle.borrow_mut().pop() };
        if let Some(stream) = kept {
            match self.exchange_on(stream, ask).await {
                Err(Failure(_, true)) if !ask.post => replaced.set(true),
                outcome => return outcome,
            }
        }
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        let stream = TcpStream::connect(address).await.map_err(early("connect"))?;
        stream.set_nodelay(true).map_err(early("set nodelay"))?;
        self.exchange_on(stream, ask).await
    }

    async fn exchange_on(
        &self,
        mut stream: TcpStream,
        ask: PlannedRequest,
    ) -> Result<String, Failure> {
        stream.write_all(ask.text().as_bytes()).await.map_err(early("send"))?;
        let mut received = Vec::with_capacity(1024);
        loop {
            let early = received.is_empty();
            let length = stream
                .read_buf(&mut received)
                .await
                .map_err(|error| Failure(format!("receive: {error}"), early))?;
            if length == 0 {
                return Err(Failure("closed before the answer was complete".to_owned(), early));
            }
            let Some(head) = Head::parse(&received) else { continue };
            let head = head.map_err(|what| Failure(what, false))?;
            if received.len() >= head.total {
                if !(head.closes || ask.fresh) {
                    self.idle.borrow_mut().push(stream);
                }
                return Ok(head.served_by);
            }
        }
    }
}

impl PlannedRequest {
    /// A GET for `/` on a kept connection.
    pub(crate) const fn get(at: Duration) -> Self {
        Self { at, post: false, fresh: false, object: None }
    }

    fn text(self) -> String {
        let method = if self.post { "POST" } else { "GET" };
        let close = if self.fresh { "Connection: close\r\n" } else { "" };
        let (length, body) = if self.post { ("Content-Length: 5\r\n", "hello") } else { ("", "") };
        let path = self.object.map_or_else(|| "/".to_owned(), |object| format!("/k/{object}"));
        format!("{method} {path} HTTP/1.1\r\nHost: bench\r\n{close}{length}\r\n{body}")
    }
}

fn early(doing: &str) -> impl Fn(std::io::Error) -> Failure {
    move |error| Failure(format!("{doing}: {error}"), true)
}

/// What the client must know of the head of a response.
#[derive(Debug, PartialEq)]
struct Head {
    /// Bytes of head and body together.
    total: usize,
    closes: bool,
    served_by: String,
}

impl Head {
    /// Nothing while the head is incomplete; a description of a response that is not a success.
    fn parse(received: &[u8]) -> Option<Result<Self, String>> {
        let end = received.windows(4).position(|window| window == b"\r\n\r\n")?;
        let text = String::from_utf8_lossy(&received[..end]);
        let mut lines = text.split("\r\n");
        let status = lines.next().unwrap_or_default();
        if status.split(' ').nth(1) != Some("200") {
            return Some(Err(status.to_owned()));
        }
        let mut head = Self { total: end + 4, closes: false, served_by: String::new() };
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            let value = value.trim();
            match name.to_ascii_lowercase().as_str() {
                "content-length" => match value.parse::<usize>() {
                    Ok(length) => head.total = end + 4 + length,
                    Err(error) => return Some(Err(format!("content-length {value}: {error}"))),
                },
                "connection" => head.closes = value.eq_ignore_ascii_case("close"),
                "x-served-by" => value.clone_into(&mut head.served_by),
                _ => {}
            }
        }
        Some(Ok(head))
    }
}

/// Time for threads to start before the first request is due.
const AHEAD: Duration = Duration::from_millis(10);
/// Objects that many requests ask for.
const POPULAR: u64 = 100;
const TIMEOUT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn arrivals_come_at_the_rate_and_twice_the_same() {
        let plan = poisson(200.0, 20_000, 7);
        let seconds = plan.last().unwrap().as_secs_f64();
        assert!((95.0..105.0).contains(&seconds), "20,000 at 200/s took {seconds} s");
        assert!(plan.is_sorted());
        assert_eq!(plan, poisson(200.0, 20_000, 7));
        assert_ne!(plan, poisson(200.0, 20_000, 8));
    }

    #[test]
    fn a_head_is_read_when_it_is_complete() {
        let head = b"HTTP/1.1 200 OK\r\nX-Served-By: far/1\r\ncontent-length: 3\r\n\r\n";
        assert_eq!(Head::parse(&head[..head.len() - 1]), None);
        let expected = Head { total: head.len() + 3, closes: false, served_by: "far/1".to_owned() };
        assert_eq!(Head::parse(head), Some(Ok(expected)));
        let refused = b"HTTP/1.1 503 Service Unavailable\r\n\r\n";
        let status = "HTTP/1.1 503 Service Unavailable".to_owned();
        assert_eq!(Head::parse(refused), Some(Err(status)));
    }

    /// A server that answers the first request of each connection and closes on the second.
    fn fickle_server() -> u16 {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut request = [0; "GET / HTTP/1.1\r\nHost: bench\r\n\r\n".len()];
                stream.read_exact(&mut request).unwrap();
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
                stream.read_exact(&mut request).ok();
            }
        });
        port
    }

    #[test]
    fn a_kept_connection_that_closes_is_replaced_once() {
        let plan = [Duration::ZERO, Duration::from_millis(50), Duration::from_millis(100)];
        let answers = run(fickle_server(), &plan).unwrap();
        let failed: Vec<_> = answers.iter().filter(|answer| answer.result.is_err()).collect();
        assert!(failed.is_empty(), "{failed:?}");
        assert_eq!(answers.len(), 3);
        assert_eq!(answers.iter().filter(|answer| answer.replaced).count(), 2);
    }

    #[test]
    fn a_post_is_sent_once() {
        let get = PlannedRequest::get(Duration::ZERO);
        let post = PlannedRequest { at: Duration::from_millis(50), post: true, ..get };
        let (start, asks) = (Instant::now() + AHEAD, [get, post]);
        let load = Load { port: fickle_server(), start, asks: &asks, patience: TIMEOUT };
        let answers = load.run().unwrap();
        assert!(answers[0].result.is_ok(), "{answers:?}");
        assert!(answers[1].result.is_err() && !answers[1].is_told(), "{answers:?}");
    }

    #[test]
    fn nobody_listening_is_a_failure_and_not_a_hang() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let answers = run(port, &[Duration::ZERO]).unwrap();
        assert!(answers[0].result.as_ref().unwrap_err().starts_with("connect"));
    }
}
