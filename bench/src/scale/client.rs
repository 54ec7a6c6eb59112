//! The client: single questions that tell which configuration is in force, and a steady load.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

/// One question on a connection of its own; the last byte of the response.
pub(crate) fn ask(port: u16, host: &str, patience: Duration) -> io::Result<u8> {
    let mut connection = Connection::open(port, host, patience)?;
    connection.send()?;
    connection.receive()?;
    connection.received.last().copied().ok_or_else(|| ErrorKind::UnexpectedEof.into())
}

/// What became of a steady load.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Paced {
    pub(crate) answers: u64,
    pub(crate) elapsed: Duration,
}

impl Paced {
    /// Responses per second.
    pub(crate) fn rate(self) -> f64 {
        self.answers as f64 / self.elapsed.as_secs_f64()
    }
}

/// Sends a request over each of ten connections every millisecond, which is 10,000 a second,
/// whatever the responses say. A proxy that takes longer for ten gets the next later.
pub(crate) fn pace(port: u16, host: &str, duration: Duration) -> Result<Paced> {
    let open = || Connection::open(port, host, PATIENCE);
    let mut connections: Vec<Connection> =
        (0..CONNECTIONS).map(|_| open()).collect::<io::Result<_>>().context("connect")?;
    let start = Instant::now();
    let mut answers = 0;
    for turn in 0.. {
        let due = start + TURN * turn;
        if due >= start + duration {
            break;
        }
        thread::sleep(due.saturating_duration_since(Instant::now()));
        if start.elapsed() >= duration {
            break;
        }
        connections.iter_mut().try_for_each(Connection::send).context("send a request")?;
        connections.iter_mut().try_for_each(Connection::receive).context("receive an answer")?;
        answers += connections.len() as u64;
    }
    Ok(Paced { answers, elapsed: start.elapsed() })
}

struct Connection {
    stream: TcpStream,
    request: String,
    received: Vec<u8>,
}

impl Connection {
    fn open(port: u16, host: &str, patience: Duration) -> io::Result<Self> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let stream = TcpStream::connect_timeout(&address, patience)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_nodelay(true)?;
        let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
        Ok(Self { stream, request, received: Vec::new() })
    }

    fn send(&mut self) -> io::Result<()> {
        self.stream.write_all(self.request.as_bytes())
    }

    /// One whole response.
    fn receive(&mut self) -> io::Result<()> {
        self.received.clear();
        let mut piece = [0; 1024];
        while !is_whole(&self.received) {
            let length = self.stream.read(&mut piece)?;
            if length == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            self.received.extend_from_slice(&piece[..length]);
        }
        Ok(())
    }
}

/// Whether head and body are there; every response here says its length.
fn is_whole(answer: &[u8]) -> bool {
    let Some(end) = answer.windows(4).position(|window| window == b"\r\n\r\n") else {
        return false;
    };
    let head = String::from_utf8_lossy(&answer[..end]).to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    let length = length.and_then(|value| value.trim().parse::<usize>().ok());
    length.is_some_and(|length| answer.len() >= end + 4 + length)
}

const CONNECTIONS: usize = 10;
const TURN: Duration = Duration::from_millis(1);
const PATIENCE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend;

    #[test]
    fn an_answer_is_whole_with_its_body() {
        assert!(!is_whole(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nx"));
        assert!(is_whole(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nxy"));
        assert!(!is_whole(b"HTTP/1.1 200 OK\r\n"));
    }

    #[test]
    fn a_steady_load_is_answered_and_a_question_too() {
        let port = backend::start();
        let paced = pace(port, "a", Duration::from_millis(20)).unwrap();
        assert!(paced.answers > 0 && paced.rate() <= 11_000.0, "{paced:?}");
        assert_eq!(ask(port, "a", PATIENCE).unwrap(), b'x');
    }
}
