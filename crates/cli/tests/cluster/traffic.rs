//! Clients that ask at a rate, and a server that notes when it is asked.

use std::{
    io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{
            AtomicBool, AtomicU32, AtomicU64,
            Ordering::{Relaxed, SeqCst},
        },
    },
    thread::{JoinHandle, sleep, spawn},
    time::{Duration, Instant},
};

/// A server of HTTP/1.1 on a port of its own, until the test process ends.
pub(crate) struct Server {
    pub(crate) address: String,
    noted: Arc<Noted>,
}

#[derive(Default)]
struct Noted {
    came: Mutex<Vec<Instant>>,
    in_flight: AtomicU32,
    most: AtomicU32,
}

impl Server {
    /// One that takes this long for each response.
    pub(crate) fn start(takes: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let noted = Arc::new(Noted::default());
        let by_all = noted.clone();
        spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let noted = by_all.clone();
                spawn(move || noted.serve(stream, takes));
            }
        });
        Self { address, noted }
    }

    /// The most requests that came within any second since then.
    pub(crate) fn busiest_second(&self, since: Instant) -> usize {
        let came: Vec<Instant> = self.came(since);
        let within = |first: usize| {
            let end = came[first] + Duration::from_secs(1);
            came[first..].partition_point(|at| *at < end)
        };
        (0..came.len()).map(within).max().unwrap_or(0)
    }

    /// How many requests have come since then.
    pub(crate) fn count(&self, since: Instant) -> usize {
        self.came(since).len()
    }

    /// The most requests that it had at a time since this was asked last.
    pub(crate) fn most_in_flight(&self) -> u32 {
        self.noted.most.swap(0, SeqCst)
    }

    fn came(&self, since: Instant) -> Vec<Instant> {
        let came = self.noted.came.lock().unwrap();
        came.iter().filter(|at| **at >= since).copied().collect()
    }
}

impl Noted {
    fn serve(&self, stream: TcpStream, takes: Duration) {
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
        let mut stream = stream;
        while let Some(first) = lines.next() {
            while lines.next().is_some_and(|line| !line.is_empty()) {}
            // Health checks are nobody's demand.
            let counts = first.starts_with("GET /counted ");
            if counts {
                self.came.lock().unwrap().push(Instant::now());
                self.most.fetch_max(self.in_flight.fetch_add(1, SeqCst) + 1, SeqCst);
            }
            sleep(takes);
            if counts {
                self.in_flight.fetch_sub(1, SeqCst);
            }
            if stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").is_err() {
                return;
            }
        }
    }
}

/// Clients of an edge; they end when it is dropped.
pub(crate) struct Demand {
    counts: Arc<Counts>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Counts {
    ended: AtomicBool,
    /// Requests per second of each client; 0 for as many as are answered.
    rate: AtomicU32,
    ok: AtomicU64,
    refused: AtomicU64,
    failed: AtomicU64,
    /// Microseconds.
    slowest: AtomicU64,
}

impl Demand {
    /// So many clients, each with a connection, that ask so often each.
    pub(crate) fn begin(edge: &str, clients: u32, rate: u32) -> Self {
        let counts = Arc::new(Counts { rate: rate.into(), ..Counts::default() });
        let ask = |_| {
            let (counts, edge) = (counts.clone(), edge.to_owned());
            spawn(move || counts.ask(&edge))
        };
        Self { threads: (0..clients).map(ask).collect(), counts }
    }

    pub(crate) fn change(&self, rate: u32) {
        self.counts.rate.store(rate, Relaxed);
    }

    /// Requests that ended otherwise than with 200 or 503.
    pub(crate) fn failed(&self) -> u64 {
        self.counts.failed.load(Relaxed)
    }

    /// Requests with a response of a server, and those that were refused.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.counts.ok.load(Relaxed), self.counts.refused.load(Relaxed))
    }

    /// The longest time to a response since this was asked last.
    pub(crate) fn slowest(&self) -> Duration {
        Duration::from_micros(self.counts.slowest.swap(0, Relaxed))
    }
}

impl Drop for Demand {
    fn drop(&mut self) {
        self.counts.ended.store(true, Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Counts {
    fn ask(&self, edge: &str) {
        let mut connection = None;
        let mut next = Instant::now();
        while !self.ended.load(Relaxed) {
            let begun = Instant::now();
            match asked(&mut connection, edge) {
                Some(200) => &self.ok,
                Some(503) => &self.refused,
                _ => {
                    connection = None;
                    &self.failed
                }
            }
            .fetch_add(1, Relaxed);
            let took = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
            self.slowest.fetch_max(took, Relaxed);
            let rate = self.rate.load(Relaxed);
            if rate > 0 {
                next = (next + Duration::from_secs(1) / rate).max(Instant::now() - LATE);
                sleep(next.saturating_duration_since(Instant::now()));
            }
        }
    }
}

/// The status of a response; none where there is none.
pub(crate) fn asked(connection: &mut Option<BufReader<TcpStream>>, edge: &str) -> Option<u16> {
    let stream = match connection.take().filter(is_open) {
        Some(stream) => stream,
        None => {
            let stream = TcpStream::connect(edge).ok()?;
            stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
            BufReader::new(stream)
        }
    };
    let stream = connection.insert(stream);
    stream.get_mut().write_all(b"GET /counted HTTP/1.1\r\nHost: shop\r\n\r\n").ok()?;
    let (mut line, mut length, mut status, mut closes) = (String::new(), 0, None, false);
    loop {
        line.clear();
        if stream.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        status = status.or_else(|| line.split(' ').nth(1)?.parse().ok());
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        closes |= line == "connection: close";
    }
    stream.take(length).read_to_end(&mut Vec::new()).ok()?;
    if closes {
        *connection = None;
    }
    status
}

/// Whether nobody has closed a connection on which nothing is awaited.
fn is_open(connection: &BufReader<TcpStream>) -> bool {
    let stream = connection.get_ref();
    let waits = |waits: bool| stream.set_nonblocking(!waits).is_ok();
    let seen = waits(false).then(|| stream.peek(&mut [0]));
    waits(true) && seen.is_some_and(|it| it.is_err_and(|it| it.kind() == ErrorKind::WouldBlock))
}

/// What was not asked in time is asked later, up to so much.
const LATE: Duration = Duration::from_millis(100);
