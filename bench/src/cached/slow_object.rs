//! Thousands of clients ask at the same moment for an object that nobody has yet and that its
//! server sends slowly; a hundredth of them, the first among these, read a thousand bytes a second.
//! How often is the server asked, what does the cache take meanwhile, and does anybody wait for
//! those who are slow?

use std::cell::RefCell;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpStream;
use tokio::task::{JoinSet, LocalSet};
use tokio::time::{sleep, timeout};

use super::origin::{Objects, Origin, Pace};
use super::server::{Cache, Running};
use crate::peers::Workshop;
use crate::process::{self, tcp_memory};
use crate::run::{Effort, Section};
use crate::verdict::{Target, Verdict};

/// Lets all of them ask each cache.
pub(super) fn measure(
    caches: &[Cache],
    workshop: &Workshop,
    effort: Effort,
    section: &mut Section,
) -> Result<()> {
    let clients = CLIENTS.min(process::descriptor_limit() as usize / 2 - 100);
    let length = if effort.is_quick { SMALL } else { LARGE };
    let slow = clients / ONE_SLOW_IN;
    println!("\n{NAME}: {clients} clients, {slow} of them slow, {length} bytes\n{COLUMNS}");
    let mut figures = Vec::new();
    for cache in caches {
        let seen = ask(*cache, clients, length, workshop)?;
        println!(
            "{:9}{:>10}{:>10}{:>6}{:>14.2}{:>12.1}{:>12.1}{:>12.1}",
            cache.name(),
            seen.requests,
            seen.failed,
            seen.cut,
            seen.first.as_secs_f64(),
            seen.last.as_secs_f64(),
            seen.memory as f64 / 1e6,
            seen.tcp as f64 / 1e6,
        );
        if *cache == Cache::Loadline {
            seen.judge(clients, length).into_iter().for_each(|verdict| section.judge(verdict));
        }
        figures.push(json!({ "proxy": cache.name(), "clients": clients, "slow": slow,
            "length": length, "requests_to_the_server": seen.requests, "failed": seen.failed,
            "cut": seen.cut, "first_byte_s": seen.first.as_secs_f64(),
            "last_s": seen.last.as_secs_f64(), "memory": seen.memory, "tcp": seen.tcp }));
    }
    section.record(NAME, figures);
    Ok(())
}

/// What came of it.
struct Seen {
    /// That the server got.
    requests: u64,
    /// Of those who are not slow.
    failed: usize,
    /// Slow ones that had lost their response when the others had theirs.
    cut: usize,
    /// When half of the others had begun to get their response.
    first: Duration,
    /// When the last of the others had all of it.
    last: Duration,
    /// By how much the cache grew at most, in bytes, and the kernel for all connections.
    memory: u64,
    tcp: u64,
}

impl Seen {
    fn judge(&self, clients: usize, length: usize) -> [Verdict; 3] {
        let failed = (self.failed > 0).then(|| format!("{} clients got no response", self.failed));
        let cut = (self.cut > 0).then(|| format!("{} slow clients were cut", self.cut));
        let each = self.memory.saturating_sub(length as u64) as f64 / clients as f64;
        // A fast client that waited for a slow one would take as long as that.
        let of_slow = self.last.as_secs_f64() / (length as f64 / SLOW_PACE as f64);
        let name = |what: &str| format!("{NAME}, {what}");
        [
            Verdict::new(name("requests to the server"), self.requests as f64, Target::AtMost(1.0))
                .flaw(failed.clone()),
            Verdict::new(name("memory beside the object, each client"), each, Target::AtMost(EACH))
                .unit(" B")
                .flaw(cut.clone()),
            Verdict::new(
                name("last fast client, of a slow one's time"),
                of_slow,
                Target::AtMost(0.1),
            )
            .flaw(failed.or(cut)),
        ]
    }
}

fn ask(cache: Cache, clients: usize, length: usize, workshop: &Workshop) -> Result<Seen> {
    let pace = Pace { bytes: length / PIECES, pause: TAKES / PIECES as u32 };
    let cache_control = "max-age=3600";
    let objects = Objects { length, cache_control, delay: Duration::ZERO, pace: Some(pace) };
    let origin = Origin::start(0, objects)?;
    let running = cache.start(workshop, origin.port)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut seen = LocalSet::new().block_on(&runtime, crowd(&running, clients, length as u64))?;
    seen.requests = origin.requests();
    Ok(seen)
}

/// All clients, until those that are not slow have all they asked for.
async fn crowd(running: &Running, clients: usize, length: u64) -> Result<Seen> {
    let port = running.contender.port;
    let before = (running.memory()?, tcp_memory()?);
    let mut slow = JoinSet::new();
    let mut fast = JoinSet::new();
    let slow_streams = connect_all(port, clients / ONE_SLOW_IN, Some(SLOW_BUFFER)).await?;
    let fast_streams = connect_all(port, clients - slow_streams.len(), None).await?;
    let begin = Instant::now();
    let scratch = Rc::new(RefCell::new(vec![0; 64 << 10]));
    for stream in slow_streams {
        slow.spawn_local(read_slowly(stream));
    }
    for stream in fast_streams {
        fast.spawn_local(read_all(stream, length, scratch.clone()));
    }
    let (mut most, mut looked) = (before, begin);
    let mut firsts = Vec::new();
    let (mut failed, mut last) = (0, begin);
    while !fast.is_empty() {
        let ended = timeout(LOOK, fast.join_next()).await;
        if looked.elapsed() >= LOOK {
            looked = Instant::now();
            most = (most.0.max(running.memory()?), most.1.max(tcp_memory()?));
        }
        let Ok(Some(ended)) = ended else { continue };
        match ended? {
            Ok([first, whole]) => {
                firsts.push(first - begin);
                last = last.max(whole);
            }
            Err(_) => failed += 1,
        }
    }
    let mut cut = 0;
    while slow.try_join_next().is_some() {
        cut += 1;
    }
    firsts.sort_unstable();
    Ok(Seen {
        requests: 0,
        failed,
        cut,
        first: firsts.get(firsts.len() / 2).copied().unwrap_or_default(),
        last: last - begin,
        memory: most.0 - before.0,
        tcp: most.1 - before.1,
    })
}

async fn connect_all(port: u16, count: usize, buffer: Option<usize>) -> Result<Vec<TcpStream>> {
    let mut streams = Vec::with_capacity(count);
    for _ in 0..count {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
        if let Some(buffer) = buffer {
            socket.set_recv_buffer_size(buffer)?;
        }
        socket.set_nonblocking(true)?;
        let socket = tokio::net::TcpSocket::from_std_stream(socket.into());
        let place = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        streams.push(socket.connect(place).await.context("connect")?);
    }
    Ok(streams)
}

async fn send(stream: &TcpStream) -> Result<()> {
    stream.writable().await?;
    let sent = stream.try_write(REQUEST)?;
    ensure!(sent == REQUEST.len(), "the request is short enough for one write");
    Ok(())
}

/// When its first bytes came, and its last ones.
async fn read_all(
    stream: TcpStream,
    length: u64,
    scratch: Rc<RefCell<Vec<u8>>>,
) -> Result<[Instant; 2]> {
    send(&stream).await?;
    let (mut head, mut first) = (Vec::new(), None);
    let mut left = None;
    while left != Some(0) {
        timeout(PATIENCE, stream.readable()).await.context("nothing more came")??;
        let scratch = &mut *scratch.borrow_mut();
        let count = match stream.try_read(scratch) {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => continue,
            read => read?,
        };
        ensure!(count > 0, "closed");
        first.get_or_insert_with(Instant::now);
        let Some(of_body) = left else {
            head.extend_from_slice(&scratch[..count]);
            let Some(end) = head.windows(4).position(|it| it == b"\r\n\r\n") else { continue };
            ensure!(head.starts_with(b"HTTP/1.1 200"), "{}", head[..end].escape_ascii());
            left = length.checked_sub((head.len() - end - 4) as u64);
            ensure!(left.is_some(), "more than the object");
            continue;
        };
        left = Some(u64::checked_sub(of_body, count as u64).context("more than the object")?);
    }
    Ok([first.unwrap_or_else(Instant::now), Instant::now()])
}

/// Until the response is whole, or lost.
async fn read_slowly(stream: TcpStream) -> Result<()> {
    send(&stream).await?;
    let mut piece = vec![0; SLOW_PACE];
    loop {
        sleep(Duration::from_secs(1)).await;
        match stream.try_read(&mut piece) {
            Ok(0) => return Ok(()),
            Err(error) if error.kind() != std::io::ErrorKind::WouldBlock => return Ok(()),
            _ => {}
        }
    }
}

pub(super) const NAME: &str = "cache, slow object";
const COLUMNS: &str = "           requests    failed   cut  first byte, s     last, s  memory, MB  \
                       kernel, MB";
const CLIENTS: usize = 10_000;
const ONE_SLOW_IN: usize = 100;
/// What a slow client takes in a second, and what its kernel holds for it.
const SLOW_PACE: usize = 1_000;
const SLOW_BUFFER: usize = 4096;
const LARGE: usize = 50_000_000;
const SMALL: usize = 5_000_000;
/// How long the server takes for the object, in how many pieces.
const TAKES: Duration = Duration::from_secs(5);
const PIECES: usize = 100;
/// Most bytes of memory that a client may cost beside the object.
const EACH: f64 = 20_000.0;
const LOOK: Duration = Duration::from_millis(200);
const PATIENCE: Duration = Duration::from_secs(120);
const REQUEST: &[u8] = b"GET /k/1 HTTP/1.1\r\nHost: localhost\r\n\r\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_request_memory_for_each_client_and_waiting_for_slow_ones_fail() {
        let failed = |change: fn(&mut Seen)| {
            let (first, last) = (Duration::ZERO, Duration::from_secs(9));
            let (requests, memory) = (1, 101_000_000);
            let mut seen = Seen { requests, failed: 0, cut: 0, first, last, memory, tcp: 0 };
            change(&mut seen);
            seen.judge(1_000, 100_000_000).map(|verdict| verdict.failed())
        };
        assert_eq!(failed(|_| {}), [false; 3]);
        assert_eq!(failed(|seen| seen.requests = 2), [true, false, false]);
        assert_eq!(failed(|seen| seen.failed = 1), [true, false, true]);
        assert_eq!(failed(|seen| seen.memory = 200_000_000), [false, true, false]);
        assert_eq!(failed(|seen| seen.last = Duration::from_secs(20_000)), [false, false, true]);
        assert_eq!(failed(|seen| seen.cut = 1), [false, true, true]);
    }
}
