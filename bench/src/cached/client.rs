//! The clients of the comparisons that count rather than time: connections that are kept, one
//! request after another.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

/// A connection to a port of loopback.
pub(super) struct Client {
    stream: TcpStream,
    host: String,
    received: Vec<u8>,
}

impl Client {
    /// Connects.
    pub(super) fn connect(port: u16) -> Result<Self> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { stream, host: format!("127.0.0.1:{port}"), received: Vec::new() })
    }

    /// Asks for an object and takes its body in; an error if the response is not a 200.
    pub(super) fn fetch(&mut self, object: u64) -> Result<()> {
        self.send(object)?;
        self.receive()
    }

    /// Asks for an object.
    pub(super) fn send(&mut self, object: u64) -> Result<()> {
        let text = format!("GET /k/{object} HTTP/1.1\r\nHost: {}\r\n\r\n", self.host);
        self.stream.write_all(text.as_bytes()).context("send a request")
    }

    /// Takes the response in; an error if it is not a 200.
    pub(super) fn receive(&mut self) -> Result<()> {
        self.received.clear();
        let mut piece = [0; 16 << 10];
        loop {
            let count = self.stream.read(&mut piece).context("read a response")?;
            ensure!(count > 0, "closed after {}", self.received.escape_ascii());
            self.received.extend_from_slice(&piece[..count]);
            let Some(length) = self.length()? else { continue };
            if self.received.len() >= length {
                return Ok(());
            }
        }
    }

    /// Bytes of the whole response; none as long as its head is not complete.
    fn length(&self) -> Result<Option<usize>> {
        let end = self.received.windows(4).position(|window| window == b"\r\n\r\n");
        let Some(end) = end else { return Ok(None) };
        let head = String::from_utf8_lossy(&self.received[..end]);
        ensure!(head.starts_with("HTTP/1.1 200"), "{head}");
        let mut fields = head.split("\r\n").filter_map(|line| line.split_once(": "));
        let length = fields.find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
        let (_, length) = length.context("a response without a length")?;
        Ok(Some(end + 4 + length.trim().parse::<usize>()?))
    }
}

const PATIENCE: Duration = Duration::from_secs(10);
