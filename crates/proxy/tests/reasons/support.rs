//! A proxy in front of one failing server, and the line that its access log has for it.

use std::{
    any::Any,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::Arc,
    thread,
    time::Duration as StdDuration,
};

use loadline_core::{
    decide::ending::Ending,
    fleet::{
        AccessLog, Edge, Fleet, Group, HttpVersion, Listener, LogFormat, LogTarget, Server,
        ServerTimeouts, ServerTls, Service,
    },
    time::Duration,
};
use loadline_proxy::runtime::Runtime;
use serde_json::Value;
use socket2::SockRef;

/// A short limit for what is meant to run into it.
pub(crate) const SHORT: Duration = Duration::from_millis(300);

/// Longer than anything takes that goes right.
const LONG: Duration = Duration::from_secs(20);

pub(crate) const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

/// One way to fail.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    ending: Ending,
    reason: &'static str,
    request: Vec<u8>,
    pub(crate) fleet: Fleet,
    /// What has to stay while the case runs.
    pub(crate) kept: Vec<Box<dyn Any + Send + Sync>>,
}

impl Case {
    /// A server at `address`, which is given time.
    pub(crate) fn new(
        name: &'static str,
        address: SocketAddr,
        (ending, reason): (Ending, &'static str),
    ) -> Self {
        let mut fleet = fleet(address);
        fleet.services[0].timeouts =
            ServerTimeouts { connect: LONG, head: LONG, idle: LONG, keep_alive: LONG };
        Self { name, ending, reason, request: GET.to_vec(), fleet, kept: Vec::new() }
    }

    /// The same in a hurry.
    pub(crate) fn hurried(mut self, change: impl Fn(&mut ServerTimeouts)) -> Self {
        change(&mut self.fleet.services[0].timeouts);
        self
    }

    pub(crate) fn over(mut self, tls: ServerTls) -> Self {
        self.fleet.services[0].tls = Some(tls);
        self
    }

    pub(crate) fn by_http2(mut self) -> Self {
        self.fleet.services[0].http_version = HttpVersion::Http2;
        self
    }

    pub(crate) fn asking(self, request: Vec<u8>) -> Self {
        Self { request, ..self }
    }

    pub(crate) fn expected(&self) -> String {
        format!("{}: {}", self.ending.name(), self.reason)
    }

    /// Sends the request; ending and reason in the access log.
    pub(crate) fn run(&self) -> String {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("access.log");
        let mut fleet = self.fleet.clone();
        let target = LogTarget::File(path.display().to_string());
        fleet.edge.access_log =
            Some(AccessLog { format: LogFormat::Json, ..AccessLog::to(target) });
        let runtime = Runtime::start(fleet).unwrap();
        let mut client = TcpStream::connect(runtime.local_addrs()[0]).unwrap();
        client.set_read_timeout(Some(LONG.to_std())).unwrap();
        let mut writing = client.try_clone().unwrap();
        let request = self.request.clone();
        // Who does not read the response may not get rid of the request, and the other way round.
        let writing = thread::spawn(move || drop(writing.write_all(&request)));
        // A reset ends the response too.
        let _ = client.read_to_end(&mut Vec::new());
        drop(client);
        writing.join().unwrap();
        runtime.stop(Duration::from_secs(5));
        let log = std::fs::read_to_string(path).unwrap();
        let line: Value = serde_json::from_str(log.lines().next().unwrap()).unwrap();
        let text = |key: &str| line[key].as_str().unwrap_or("-").to_owned();
        format!("{}: {}", text("ending"), text("reason"))
    }
}

/// A fleet of one service with one server.
pub(crate) fn fleet(server: SocketAddr) -> Fleet {
    let group =
        Group { rtt: Some(Duration::ZERO), ..Group::within("here", vec![Server::at(server)]) };
    let listener = Listener {
        max_connections: 1_000,
        ..Listener::new(SocketAddr::from(([127, 0, 0, 1], 0)), 0)
    };
    Fleet::of(
        Edge { threads: 1, ..Edge::within("here") },
        vec![listener],
        vec![Service { groups: vec![group], ..Service::named("web") }],
    )
}

/// A server that runs `script` for each connection. It ends with the test process.
pub(crate) fn scripted(script: impl Fn(TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let script = Arc::new(script);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, script) = (stream.unwrap(), script.clone());
            stream.set_read_timeout(Some(LONG.to_std())).unwrap();
            thread::spawn(move || script(stream));
        }
    });
    address
}

/// Reads a head of HTTP/1 to its empty line.
pub(crate) fn head(stream: &mut TcpStream) {
    let mut bytes = Vec::new();
    let mut byte = [0];
    while !bytes.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => bytes.push(byte[0]),
            _ => return,
        }
    }
}

/// Writes, and waits for the proxy to leave. That it has left before is as good.
pub(crate) fn say(mut stream: TcpStream, bytes: &[u8]) {
    let _ = stream.write_all(bytes);
    wait(stream);
}

/// Waits for the proxy to leave.
pub(crate) fn wait(mut stream: TcpStream) {
    let _ = std::io::copy(&mut stream, &mut std::io::sink());
}

/// Writes, and closes in good order when all has been read.
pub(crate) fn end(mut stream: TcpStream, bytes: &[u8]) {
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    wait(stream);
}

/// Closes the connection by a reset.
pub(crate) fn reset(stream: TcpStream) {
    SockRef::from(&stream).set_linger(Some(StdDuration::ZERO)).unwrap();
    drop(stream);
}
