//! A worker to talk to, and the other end of a connection to it.

use std::{net::SocketAddr, time::Duration};

use loadline_http1::{BodyReader, Method, ResponseHead, Status};
use loadline_lab::{Config, RunError, Stats, Worker};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::oneshot,
    task::JoinHandle,
    time::timeout,
};

/// A worker that runs until the test is over.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<Result<(), RunError>>,
}

impl Running {
    pub(crate) fn start(config: Config) -> Self {
        let worker = Worker::bind(config).unwrap();
        let address = worker.local_addr();
        let (stop, stopped) = oneshot::channel::<()>();
        let until_stopped = async {
            let _ = stopped.await;
        };
        let ended = tokio::spawn(worker.run(until_stopped));
        Self { address, stop, ended }
    }

    pub(crate) async fn connect(&self) -> Client {
        let stream = TcpStream::connect(self.address).await.unwrap();
        Client { stream, input: Vec::new() }
    }

    pub(crate) async fn stats(&self) -> Stats {
        let answer = self.connect().await.ask("GET /stats HTTP/1.1\r\nHost: x\r\n\r\n").await;
        assert_eq!(answer.field("content-type"), "application/json");
        serde_json::from_slice(&answer.body).unwrap()
    }

    /// Returns the counts once they are as wanted.
    pub(crate) async fn stats_once(&self, wanted: impl Fn(&Stats) -> bool) -> Stats {
        let asking = async {
            loop {
                let stats = self.stats().await;
                if wanted(&stats) {
                    return stats;
                }
            }
        };
        timeout(PATIENCE, asking).await.expect("the worker never counts what was wanted")
    }

    /// Tells the worker to stop, and returns when it has.
    pub(crate) async fn stop(self) {
        self.tell_to_stop().await.unwrap().unwrap();
    }

    /// Tells the worker to stop; what is returned is done when it has.
    pub(crate) fn tell_to_stop(self) -> JoinHandle<Result<(), RunError>> {
        self.stop.send(()).unwrap();
        self.ended
    }
}

/// One connection.
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    input: Vec<u8>,
}

/// A response, taken apart.
#[derive(Debug)]
pub(crate) struct ParsedResponse {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
    pub(crate) keep_alive: bool,
}

impl ParsedResponse {
    pub(crate) fn field(&self, name: &str) -> &str {
        self.find(name).unwrap_or_else(|| panic!("no {name} in {}", self.head))
    }

    pub(crate) fn find(&self, name: &str) -> Option<&str> {
        let mut fields = self.head.lines().filter_map(|line| line.split_once(": "));
        fields.find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

impl Client {
    pub(crate) async fn ask(&mut self, request: &str) -> ParsedResponse {
        self.send(request.as_bytes()).await;
        let method = Method::of(request.split(' ').next().unwrap().as_bytes());
        self.answer(method).await
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// The next response, to a request with this method.
    pub(crate) async fn answer(&mut self, method: Method) -> ParsedResponse {
        let mut head = ResponseHead::default();
        let length = loop {
            match head.parse(&self.input, method).unwrap() {
                Status::Complete(length) => break length,
                Status::Partial => assert_ne!(self.read().await, 0, "closed before an answer"),
            }
        };
        let text = String::from_utf8(self.input.drain(..length).collect()).unwrap();
        let mut reader = BodyReader::new(head.framing());
        let mut body = Vec::new();
        loop {
            let progress = reader.feed_data(&self.input, |data| body.extend_from_slice(data));
            let progress = progress.unwrap();
            self.input.drain(..progress.consumed);
            if progress.finished {
                break;
            }
            assert_ne!(self.read().await, 0, "closed within an answer");
        }
        ParsedResponse { status: head.status(), head: text, body, keep_alive: head.keep_alive() }
    }

    /// Everything until the worker closes the connection.
    pub(crate) async fn rest(&mut self) -> Vec<u8> {
        while self.read().await > 0 {}
        std::mem::take(&mut self.input)
    }

    async fn read(&mut self) -> usize {
        let read = self.stream.read_buf(&mut self.input);
        timeout(PATIENCE, read).await.expect("the worker says nothing").unwrap()
    }
}

/// No test waits this long unless the worker hangs.
const PATIENCE: Duration = Duration::from_secs(10);
