//! The server behind the proxies: as little work as a server can do, so that the proxy is what
//! gives out first.
//!
//! One thread, edge-triggered epoll, answers made in advance: 100 B at `/s`, 1 kB at whatever
//! begins with `/k`, 50 kB at `/m`, 10 MB at `/l`. It knows GET without a body, one request per
//! read and no pipelining, which is what proxies send it. It has no response to a POST: it waits
//! for a body that never ends.

use std::fs::File;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::time::SystemTime;

use anyhow::{Context as _, Result};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::fs::{MemfdFlags, memfd_create, sendfile};
use rustix::io::Errno;
use socket2::{Domain, Socket, Type};

/// Serve as the target of the proxies: 100 B at `/s`, 50 kB at `/m`, 10 MB at `/l`
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Ports of loopback
    #[arg(required = true)]
    ports: Vec<u16>,
    /// Bytes that the kernel may hold of a response [default: as it sees fit]
    #[arg(long, value_name = "BYTES")]
    send_buffer: Option<usize>,
    /// Let responses be cached for an hour
    #[arg(long)]
    cacheable: bool,
    /// Keep what is long in files in memory and send it by sendfile(2), without a copy
    #[arg(long)]
    sendfile: bool,
}

/// Serves on every given port of loopback until the process is ended.
pub(crate) fn serve(args: &Args) -> Result<()> {
    Backend::bind(args)?.run()
}

struct Backend {
    epoll: OwnedFd,
    listeners: Vec<TcpListener>,
    /// The token of a connection is its place here, behind those of the listeners.
    connections: Vec<Option<Connection>>,
    vacant: Vec<usize>,
    answers: Answers,
}

/// In the order of their first requests below.
type Answers = [Answer; 4];

/// A response, its head included.
struct Answer {
    bytes: Box<[u8]>,
    /// The same as a file in memory, if it is sent from there.
    file: Option<OwnedFd>,
}

struct Connection {
    stream: TcpStream,
    head: Vec<u8>,
    answer: usize,
    sent: Option<usize>,
}

impl Backend {
    fn bind(args: &Args) -> Result<Self> {
        let Args { ports, send_buffer, cacheable, sendfile } = args;
        let epoll = epoll::create(CreateFlags::CLOEXEC).context("create an epoll")?;
        let mut listeners = Vec::new();
        for (token, port) in ports.iter().enumerate() {
            let listener =
                listen(*port, *send_buffer).with_context(|| format!("listen on port {port}"))?;
            watch(&epoll, &listener, token, EventFlags::IN)?;
            listeners.push(listener);
        }
        let answer = |length| Answer::new(answer(length, *cacheable), *sendfile);
        let answers = [answer(100)?, answer(50_000)?, answer(10_000_000)?, answer(1_000)?];
        Ok(Self { epoll, listeners, connections: Vec::new(), vacant: Vec::new(), answers })
    }

    fn run(mut self) -> Result<()> {
        let mut events = [const { MaybeUninit::uninit() }; EVENTS];
        loop {
            let (ready, _) = match epoll::wait(&self.epoll, &mut events, None) {
                Err(Errno::INTR) => continue,
                waited => waited.context("wait for events")?,
            };
            for event in ready.iter() {
                self.handle(event.data.u64() as usize)?;
            }
        }
    }

    fn handle(&mut self, token: usize) -> io::Result<()> {
        let Some(place) = token.checked_sub(self.listeners.len()) else {
            return self.accept(token);
        };
        let Some(Some(connection)) = self.connections.get_mut(place) else { return Ok(()) };
        if connection.advance(&self.answers).is_err() {
            self.connections[place] = None;
            self.vacant.push(place);
        }
        Ok(())
    }

    fn accept(&mut self, listener: usize) -> io::Result<()> {
        loop {
            let stream = match self.listeners[listener].accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            stream.set_nonblocking(true)?;
            stream.set_nodelay(true)?;
            let place = self.vacant.pop().unwrap_or(self.connections.len());
            let interest = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
            watch(&self.epoll, &stream, place + self.listeners.len(), interest)?;
            let connection = Connection { stream, head: Vec::new(), answer: 0, sent: None };
            if place == self.connections.len() {
                self.connections.push(None);
            }
            self.connections[place] = Some(connection);
        }
    }
}

impl Connection {
    /// Reads and writes until one of the two would block; an error ends the connection.
    fn advance(&mut self, answers: &Answers) -> io::Result<()> {
        let outcome = loop {
            if let Some(sent) = self.sent {
                match answers[self.answer].send(&self.stream, sent) {
                    Ok(more) => self.note_sent(sent + more, answers),
                    Err(error) => break error,
                }
            } else if let Err(error) = self.read() {
                break error;
            }
        };
        if outcome.kind() == ErrorKind::WouldBlock { Ok(()) } else { Err(outcome) }
    }

    fn note_sent(&mut self, sent: usize, answers: &Answers) {
        self.sent = (sent < answers[self.answer].bytes.len()).then_some(sent);
    }

    fn read(&mut self) -> io::Result<()> {
        let mut buffer = [0; READ];
        let length = self.stream.read(&mut buffer)?;
        if length == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        self.head.extend_from_slice(&buffer[..length]);
        if self.head.ends_with(b"\r\n\r\n") {
            if self.head.starts_with(b"POST ") {
                self.head.clear();
                return Ok(());
            }
            self.answer = match self.head.get(..6) {
                Some(b"GET /m") => 1,
                Some(b"GET /l") => 2,
                Some(b"GET /k") => 3,
                _ => 0,
            };
            self.head.clear();
            self.sent = Some(0);
        }
        Ok(())
    }
}

impl Answer {
    fn new(bytes: Box<[u8]>, sendfile: bool) -> Result<Self> {
        let file = (sendfile && bytes.len() >= LONG).then(|| -> Result<OwnedFd> {
            let mut file = File::from(memfd_create("answer", MemfdFlags::CLOEXEC)?);
            file.write_all(&bytes).context("write a file in memory")?;
            Ok(file.into())
        });
        Ok(Self { file: file.transpose()?, bytes })
    }

    /// Sends what the connection takes from `sent` on.
    fn send(&self, mut stream: &TcpStream, sent: usize) -> io::Result<usize> {
        let Some(file) = &self.file else { return stream.write(&self.bytes[sent..]) };
        Ok(sendfile(stream, file, Some(&mut (sent as u64)), self.bytes.len() - sent)?)
    }
}

/// The backlog of the standard library's listeners, 128, is short for a thousand connections.
fn listen(port: u16, send_buffer: Option<usize>) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    // Accepted connections inherit it.
    send_buffer.map_or(Ok(()), |bytes| socket.set_send_buffer_size(bytes))?;
    socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)).into())?;
    socket.listen(4096)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

fn watch(epoll: &OwnedFd, source: impl AsFd, token: usize, flags: EventFlags) -> io::Result<()> {
    epoll::add(epoll, source, EventData::new_u64(token as u64), flags)?;
    Ok(())
}

fn answer(length: usize, cacheable: bool) -> Box<[u8]> {
    let cache = if cacheable { "Cache-Control: max-age=3600\r\n" } else { "" };
    // A response of yesterday that may be kept for an hour is no hit for a cache that reads dates.
    let date = httpdate::fmt_http_date(SystemTime::now());
    let head = format!(
        "HTTP/1.1 200 OK\r\nServer: bench\r\nDate: {date}\r\n\
         Content-Type: text/plain\r\n{cache}Content-Length: {length}\r\n\r\n"
    );
    [head.into_bytes(), vec![b'x'; length]].concat().into_boxed_slice()
}

/// What is worth a file, in bytes.
const LONG: usize = 16 << 10;

const EVENTS: usize = 512;
/// A request of 11 headers is 700 B.
const READ: usize = 4096;

/// The port of one whose thread lasts as long as the test process.
#[cfg(test)]
pub(crate) fn start() -> u16 {
    start_with(false)
}

#[cfg(test)]
fn start_with(sendfile: bool) -> u16 {
    let args = Args { ports: vec![0], send_buffer: None, cacheable: false, sendfile };
    let backend = Backend::bind(&args).expect("a free port");
    let port = backend.listeners[0].local_addr().expect("it listens").port();
    std::thread::spawn(move || backend.run());
    port
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(stream: &mut TcpStream, path: &str) -> usize {
        stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).unwrap();
        let expected = answer(if path == "/m" { 50_000 } else { 100 }, false);
        let mut got = vec![0; expected.len()];
        stream.read_exact(&mut got).unwrap();
        assert!(got.starts_with(b"HTTP/1.1 200 OK\r\n"));
        got.iter().filter(|byte| **byte == b'x').count()
    }

    #[test]
    fn one_connection_gets_both_answers_in_turn() {
        let text = "text/plain".matches('x').count();
        for sendfile in [false, true] {
            let port = start_with(sendfile);
            let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
            for (path, length) in [("/s", 100), ("/m", 50_000), ("/s", 100)] {
                assert_eq!(ask(&mut stream, path), length + text);
            }
        }
    }
}
