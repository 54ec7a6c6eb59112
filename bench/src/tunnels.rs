//! Upgraded connections, as of WebSockets: each says something four times a second to a server that
//! says it back. One that is cut is counted and opened again.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinSet, LocalSet};
use tokio::time::{sleep, timeout};

/// Tunnels that are held open by a thread of their own.
#[derive(Debug)]
pub(crate) struct Tunnels {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<Seen>>,
}

/// What became of them.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) echoes: u64,
    pub(crate) cuts: Vec<Cut>,
}

/// A tunnel that did not end by itself.
#[derive(Debug)]
pub(crate) struct Cut {
    pub(crate) opened: Instant,
    pub(crate) ended: Instant,
}

impl Tunnels {
    /// Opens `count`, one after another, to the port `proxy` of loopback, behind which the port
    /// `server` is, where this listens.
    pub(crate) fn open(proxy: u16, server: u16, count: u32) -> Result<Self> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, server))
            .context("listen for tunnels")?;
        listener.set_nonblocking(true)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let stop = Arc::new(AtomicBool::new(false));
        let flag = stop.clone();
        let thread = thread::spawn(move || {
            LocalSet::new().block_on(&runtime, hold_all(listener, proxy, count, flag))
        });
        Ok(Self { stop, thread })
    }

    /// Ends them and tells what became of them.
    pub(crate) fn close(self) -> Result<Seen> {
        self.stop.store(true, Relaxed);
        self.thread.join().ok().context("the thread of the tunnels panicked")?
    }
}

async fn hold_all(
    listener: std::net::TcpListener,
    proxy: u16,
    count: u32,
    stop: Arc<AtomicBool>,
) -> Result<Seen> {
    let echo = tokio::task::spawn_local(echo_all(TcpListener::from_std(listener)?));
    let mut tasks = JoinSet::new();
    for index in 0..count {
        tasks.spawn_local(hold(proxy, PAUSE * index, stop.clone()));
    }
    let mut all = Seen::default();
    while let Some(seen) = tasks.join_next().await {
        let seen = seen.context("a tunnel panicked")?;
        all.echoes += seen.echoes;
        all.cuts.extend(seen.cuts);
    }
    echo.abort();
    Ok(all)
}

/// Keeps one open.
async fn hold(proxy: u16, delay: Duration, stop: Arc<AtomicBool>) -> Seen {
    let mut seen = Seen::default();
    sleep(delay).await;
    while !stop.load(Relaxed) {
        let opened = Instant::now();
        if talk(proxy, &stop, &mut seen.echoes).await.is_err() {
            seen.cuts.push(Cut { opened, ended: Instant::now() });
            sleep(PAUSE).await;
        }
    }
    seen
}

async fn talk(proxy: u16, stop: &AtomicBool, echoes: &mut u64) -> Result<()> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy)).await?;
    stream.set_nodelay(true)?;
    stream.write_all(UPGRADE).await?;
    let head = timeout(PATIENCE, head(&mut stream)).await??;
    ensure!(head.starts_with(b"HTTP/1.1 101 "), "{}", head.escape_ascii());
    while !stop.load(Relaxed) {
        let mut back = [0; WORD.len()];
        stream.write_all(WORD).await?;
        timeout(PATIENCE, stream.read_exact(&mut back)).await??;
        ensure!(&back == WORD, "{}", back.escape_ascii());
        *echoes += 1;
        sleep(PAUSE).await;
    }
    Ok(())
}

async fn echo_all(listener: TcpListener) {
    while let Ok((stream, _)) = listener.accept().await {
        // A tunnel that breaks is what its client counts.
        tokio::task::spawn_local(async move { echo(stream).await.ok() });
    }
}

async fn echo(mut stream: TcpStream) -> Result<()> {
    head(&mut stream).await?;
    stream.write_all(SWITCHED).await?;
    let (mut from, mut to) = stream.split();
    tokio::io::copy(&mut from, &mut to).await?;
    Ok(())
}

/// A head, which nothing follows before it is answered.
async fn head(stream: &mut TcpStream) -> Result<Vec<u8>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        ensure!(stream.read_buf(&mut head).await? > 0, "closed after {}", head.escape_ascii());
    }
    Ok(head)
}

const UPGRADE: &[u8] = b"GET / HTTP/1.1\r\nHost: bench\r\nConnection: Upgrade\r\n\
    Upgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
    Sec-WebSocket-Version: 13\r\n\r\n";
const SWITCHED: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\
    Upgrade: websocket\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";
const WORD: &[u8; 4] = b"ping";
/// Between two words, and between two tunnels that are opened.
const PAUSE: Duration = Duration::from_millis(250);
const PATIENCE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::free_ports;

    #[test]
    fn tunnels_without_a_proxy_are_not_cut_and_hear_themselves() {
        let [port] = free_ports().unwrap();
        let tunnels = Tunnels::open(port, port, 2).unwrap();
        thread::sleep(PAUSE * 3);
        let seen = tunnels.close().unwrap();
        assert!(seen.echoes >= 2 && seen.cuts.is_empty(), "{seen:?}");
    }
}
