//! The server behind the caches where what it is asked for counts: a thread for each connection.
//!
//! Every object has the same length and lifetime and a tag; it is there after the same delay. A
//! request that has the tag gets a 304, which counts as well.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use socket2::{Domain, Socket, Type};

/// What its responses are like.
#[derive(Clone, Copy, Debug)]
pub(super) struct Objects {
    pub(super) length: usize,
    pub(super) cache_control: &'static str,
    pub(super) delay: Duration,
    /// In which its body is sent.
    pub(super) pace: Option<Pace>,
}

/// Pieces of a body, one after each pause.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    pub(super) bytes: usize,
    pub(super) pause: Duration,
}

/// A server that runs until it is dropped.
pub(super) struct Origin {
    pub(super) port: u16,
    requests: Arc<AtomicU64>,
    ended: Arc<AtomicBool>,
}

impl Origin {
    /// Begins to serve, on a port that is free if it is 0.
    pub(super) fn start(port: u16, objects: Objects) -> Result<Self> {
        let listener = listen(port).context("listen as the server of caches")?;
        let port = listener.local_addr()?.port();
        let origin = Self { port, requests: Arc::default(), ended: Arc::default() };
        let (requests, ended) = (origin.requests.clone(), origin.ended.clone());
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if ended.load(Relaxed) {
                    return;
                }
                let (requests, ended) = (requests.clone(), ended.clone());
                // A connection that breaks off is the cache's to notice.
                thread::spawn(move || drop(serve(&stream, objects, &requests, &ended)));
            }
        });
        Ok(origin)
    }

    /// Requests that it has been sent.
    pub(super) fn requests(&self) -> u64 {
        self.requests.load(Relaxed)
    }
}

impl Drop for Origin {
    /// New connections are refused from now on, and those that are there get nothing more.
    fn drop(&mut self) {
        self.ended.store(true, Relaxed);
        // Wakes the thread that accepts, which closes the listener.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
    }
}

fn serve(
    stream: &TcpStream,
    objects: Objects,
    requests: &AtomicU64,
    ended: &AtomicBool,
) -> Result<()> {
    stream.set_nodelay(true)?;
    let body = vec![b'x'; objects.length];
    let mut reader = BufReader::new(stream);
    while let Some(has_tag) = read_request(&mut reader)? {
        if ended.load(Relaxed) {
            return Ok(());
        }
        requests.fetch_add(1, Relaxed);
        thread::sleep(objects.delay);
        let (status, body) =
            if has_tag { ("304 Not Modified", &[][..]) } else { ("200 OK", &*body) };
        let length = match has_tag {
            true => String::new(),
            false => format!("Content-Length: {}\r\n", body.len()),
        };
        let head = format!(
            "HTTP/1.1 {status}\r\nETag: \"1\"\r\nCache-Control: {}\r\n{length}\r\n",
            objects.cache_control
        );
        let mut stream = stream;
        let Some(pace) = objects.pace else {
            stream.write_all(&[head.as_bytes(), body].concat())?;
            continue;
        };
        stream.write_all(head.as_bytes())?;
        for piece in body.chunks(pace.bytes) {
            thread::sleep(pace.pause);
            stream.write_all(piece)?;
        }
    }
    Ok(())
}

/// Reads a head: whether it has the tag; none at the end of the connection.
fn read_request(reader: &mut BufReader<&TcpStream>) -> Result<Option<bool>> {
    let mut has_tag = false;
    let mut line = String::new();
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        has_tag |= line.to_ascii_lowercase().starts_with("if-none-match:");
        if line == "\r\n" {
            return Ok(Some(has_tag));
        }
    }
}

fn listen(port: u16) -> Result<TcpListener> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)).into())?;
    socket.listen(4096)?;
    Ok(socket.into())
}
