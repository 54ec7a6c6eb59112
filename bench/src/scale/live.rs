//! The servers of the service that is asked: each at its own address of loopback, on either of two
//! ports, so that a client sees by the response which line of the file is in force.
//!
//! Their checks can be made to fail and succeed by turns: each is then a health change.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

/// Servers that run until this is dropped.
#[derive(Debug)]
pub(crate) struct Live {
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    alternating: AtomicBool,
    checks: AtomicU64,
    changes: AtomicU64,
}

/// What was checked until now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Checks {
    pub(crate) answered: u64,
    /// Of these, those that were answered otherwise than the one of the same server before.
    pub(crate) changes: u64,
}

/// One server.
#[derive(Debug)]
struct Server {
    /// What its responses say.
    mark: u8,
    sick: AtomicBool,
    shared: Arc<Shared>,
}

impl Live {
    /// Starts those of both ports; what they answer is the place of their port.
    pub(crate) fn start(ports: [u16; 2]) -> Result<Self> {
        let shared = Arc::new(Shared::default());
        let mut listeners = Vec::new();
        for (port, mark) in ports.into_iter().zip(MARKS) {
            for ip in addresses() {
                let listener = TcpListener::bind(SocketAddr::new(IpAddr::V4(ip), port))
                    .with_context(|| format!("listen on {ip}:{port}"))?;
                listener.set_nonblocking(true)?;
                let server =
                    Server { mark, sick: AtomicBool::new(false), shared: Arc::clone(&shared) };
                listeners.push((listener, Arc::new(server)));
            }
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel::<()>();
        let serve = async move {
            for (listener, server) in listeners {
                tokio::spawn(accept(listener, server));
            }
            // It also ends when the sender is gone.
            let _ = stopped.await;
        };
        let thread = thread::spawn(move || runtime.block_on(serve));
        Ok(Self { shared, stop: Some(stop), thread: Some(thread) })
    }

    /// Lets each check fail whose predecessor at the same server succeeded, or ends that.
    pub(crate) fn alternate(&self, on: bool) {
        self.shared.alternating.store(on, Relaxed);
    }

    /// Waits until the checks are under way, each server has had a few.
    pub(crate) fn wait_for_checks(&self, patience: Duration) -> Result<()> {
        let (start, first) = (Instant::now(), self.checks().answered);
        while self.checks().answered < first + 3 * u64::from(SERVERS) {
            ensure!(start.elapsed() < patience, "{:?} after {patience:?}", self.checks());
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// What was checked until now.
    pub(crate) fn checks(&self) -> Checks {
        let Shared { checks, changes, .. } = &*self.shared;
        Checks { answered: checks.load(Relaxed), changes: changes.load(Relaxed) }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        drop(self.stop.take());
        // A thread that panicked has said so.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Server {
    fn answer(&self, request: &[u8]) -> String {
        let mut status = "200 OK";
        if request.starts_with(CHECK) {
            let before = self.sick.load(Relaxed);
            let sick = self.shared.alternating.load(Relaxed) && !before;
            self.sick.store(sick, Relaxed);
            self.shared.checks.fetch_add(1, Relaxed);
            self.shared.changes.fetch_add(u64::from(sick != before), Relaxed);
            status = if sick { "503 Service Unavailable" } else { status };
        }
        let mark = char::from(self.mark);
        format!("HTTP/1.1 {status}\r\nContent-Length: 1\r\n\r\n{mark}")
    }
}

async fn accept(listener: TcpListener, server: Arc<Server>) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(serve(stream, Arc::clone(&server)));
    }
}

async fn serve(mut stream: TcpStream, server: Arc<Server>) {
    let mut request = Vec::with_capacity(1024);
    while stream.read_buf(&mut request).await.is_ok_and(|length| length > 0) {
        if request.ends_with(b"\r\n\r\n") {
            if stream.write_all(server.answer(&request).as_bytes()).await.is_err() {
                return;
            }
            request.clear();
        }
    }
}

/// Of the servers, on both ports.
pub(crate) fn addresses() -> impl Iterator<Item = Ipv4Addr> {
    (1..=SERVERS).map(|last| Ipv4Addr::new(127, 0, 2, last))
}

/// What servers of the first port answer, and those of the second.
pub(crate) const MARKS: [u8; 2] = *b"AB";

const CHECK: &[u8] = b"GET /health ";

pub(crate) const SERVERS: u8 = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_that_alternate_are_changes_and_others_are_not() {
        let shared = Arc::new(Shared::default());
        let server = Server { mark: b'B', sick: AtomicBool::new(false), shared: shared.clone() };
        let status = |text: &str| server.answer(text.as_bytes())[9..12].to_owned();
        let check = || status("GET /health HTTP/1.1\r\n\r\n");
        assert_eq!((check(), check()), ("200".to_owned(), "200".to_owned()));
        shared.alternating.store(true, Relaxed);
        assert_eq!((check(), check(), check()), ("503".into(), "200".into(), "503".into()));
        assert_eq!(status("GET / HTTP/1.1\r\n\r\n"), "200", "requests are always answered");
        let live = Live { shared, stop: None, thread: None };
        assert_eq!(live.checks(), Checks { answered: 5, changes: 3 });
    }
}
