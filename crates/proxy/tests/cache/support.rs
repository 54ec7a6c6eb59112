//! A scripted origin, raw clients, and a proxy with a cache between them.

use std::{
    io::{ErrorKind, Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
    time::{Duration as StdDuration, Instant},
};

use loadline_core::{
    decide::ending::Ending,
    fleet::{CacheLimits, Edge, Fleet, Group, Listener, Server, Service},
    rules::{Action, Caching, Conditions, Routes, Rule, Split},
    state::Cache,
    time::Duration,
    units::Bytes,
};
use loadline_proxy::runtime::Runtime;
use socket2::{Domain, Socket, Type};

/// Longer than anything takes that goes right.
pub(crate) const PATIENCE: StdDuration = StdDuration::from_secs(10);

/// A server that runs `script` for each request with its head and its number, over all connections.
pub(crate) struct Origin {
    pub(crate) address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Origin {
    pub(crate) fn new(
        script: impl Fn(&mut TcpStream, &str, usize) + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let (script, heads) = (Arc::new(script), asked.clone());
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, script, heads) = (stream.unwrap(), script.clone(), heads.clone());
                thread::spawn(move || serve(stream, &*script, &heads));
            }
        });
        Self { address, asked }
    }

    /// A server that answers every request with these bytes.
    pub(crate) fn answering(answer: impl Into<Vec<u8>>) -> Self {
        let answer = answer.into();
        Self::new(move |stream, _, _| send(stream, &answer))
    }

    /// The heads of all requests that have come.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    /// Waits until so many requests have come.
    pub(crate) fn wait_for(&self, count: usize) {
        wait_until(|| self.asked().len() >= count, "requests at the origin");
    }
}

/// Runs `script` for each request of a connection.
fn serve(
    mut stream: TcpStream,
    script: &impl Fn(&mut TcpStream, &str, usize),
    asked: &Mutex<Vec<String>>,
) {
    while let Some(head) = head(&mut stream) {
        let number = {
            let mut heads = asked.lock().unwrap();
            heads.push(head.clone());
            heads.len() - 1
        };
        script(&mut stream, &head, number);
    }
}

/// A response with these fields, and this body.
pub(crate) fn response(fields: &str, body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: {}\r\n\r\n{body}", body.len())
}

/// A response that is fresh for a minute.
pub(crate) fn fresh(body: &str) -> String {
    response("Cache-Control: max-age=60\r\n", body)
}

/// An interim response: who gets it waits for the fetch that brought it.
pub(crate) const HINTS: &str = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n";

/// Reads `HINTS`: the request of this client waits for the fetch from then on.
pub(crate) fn waits(client: &mut TcpStream) {
    let hints = head(client).expect("an interim response");
    assert!(hints.starts_with("HTTP/1.1 103 "), "{hints}");
}

/// A rule for every path that caches like this.
pub(crate) fn rule(caching: Caching) -> Rule {
    Rule {
        cache: Some(caching),
        ..Rule::new(Conditions::default(), Action::Service(Split::all(0)))
    }
}

/// A fleet of one service with one server, whose responses are cached.
pub(crate) fn fleet(server: SocketAddr) -> Fleet {
    let limits = CacheLimits { memory: Bytes::new(64 << 20), max_object: Bytes::new(8 << 20) };
    let edge = Edge {
        threads: 2,
        drain_timeout: Duration::from_secs(1),
        cache: limits,
        ..Edge::within("here")
    };
    let listener = Listener {
        routes: Routes::new(vec![rule(Caching::default())]),
        ..Listener::new(SocketAddr::from(([127, 0, 0, 1], 0)), 0)
    };
    let group =
        Group { rtt: Some(Duration::ZERO), ..Group::within("here", vec![Server::at(server)]) };
    let service = Service { groups: vec![group], ..Service::named("web") };
    Fleet::of(edge, vec![listener], vec![service])
}

/// A running proxy.
pub(crate) struct Proxy {
    pub(crate) runtime: Runtime,
    pub(crate) address: SocketAddr,
}

impl Proxy {
    pub(crate) fn before(origin: &Origin) -> Self {
        Self::of(fleet(origin.address))
    }

    pub(crate) fn of(fleet: Fleet) -> Self {
        let runtime = Runtime::start(fleet).unwrap();
        let address = runtime.local_addrs()[0];
        Self { runtime, address }
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Connects as the client with this address of loopback.
    pub(crate) fn connect_from(&self, client: Ipv4Addr) -> TcpStream {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from((client, 0)).into()).unwrap();
        socket.connect(&self.address.into()).unwrap();
        let stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Sends a request on a connection of its own and keeps that.
    pub(crate) fn begin(&self, request: &str) -> TcpStream {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).unwrap();
        stream
    }

    /// Sends these bytes on a connection of their own and gives all that comes until it is closed.
    pub(crate) fn ask(&self, request: &str) -> String {
        until_closed(&mut self.begin(request))
    }

    /// A GET of this target with these fields, on a connection of its own.
    pub(crate) fn get(&self, target: &str, fields: &str) -> String {
        self.ask(&get(target, fields))
    }

    /// Waits until so many requests have ended like this.
    pub(crate) fn expect(&self, ending: Ending, count: u64) {
        let start = Instant::now();
        while self.runtime.tallies().count(ending) < count {
            assert!(start.elapsed() < PATIENCE, "{count} {}: {:?}", ending.name(), self.counted());
            thread::yield_now();
        }
        assert_eq!(self.runtime.tallies().count(ending), count, "{:?}", self.counted());
    }

    /// What the cache holds.
    pub(crate) fn cache(&self) -> Cache {
        self.runtime.handle().state().cache.expect("a route has a cache")
    }

    /// How many requests have ended how.
    pub(crate) fn counted(&self) -> Vec<(&'static str, u64)> {
        let tallies = self.runtime.tallies();
        let all = Ending::ALL.map(|ending| (ending.name(), tallies.count(ending)));
        all.into_iter().filter(|(_, count)| *count > 0).collect()
    }
}

/// A GET of this target with these fields that asks to close the connection.
pub(crate) fn get(target: &str, fields: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{fields}\r\n")
}

/// The body of a response.
pub(crate) fn body(response: &str) -> &str {
    response.split_once("\r\n\r\n").map_or("", |(_, body)| body)
}

/// The value of a field.
pub(crate) fn field<'a>(response: &'a str, name: &str) -> Option<&'a str> {
    let head = response.split("\r\n\r\n").next().unwrap_or_default();
    head.lines().find_map(|line| {
        let (other, value) = line.split_once(": ")?;
        other.eq_ignore_ascii_case(name).then_some(value)
    })
}

/// What the cache says that it did.
pub(crate) fn status(response: &str) -> &str {
    field(response, "cache-status").unwrap_or_default()
}

/// Waits, within patience, for a condition.
pub(crate) fn wait_until(condition: impl Fn() -> bool, what: &str) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "waited in vain for: {what}");
        thread::yield_now();
    }
}

/// Sends to a client that may have left.
pub(crate) fn send(stream: &mut TcpStream, bytes: impl AsRef<[u8]>) {
    // Its connection then ends, which its reader sees.
    let _ = stream.write_all(bytes.as_ref());
}

/// Reads a head to its empty line; none at the end of the stream.
pub(crate) fn head(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    let mut byte = [0];
    while !bytes.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).ok()? == 0 {
            return None;
        }
        bytes.push(byte[0]);
    }
    Some(String::from_utf8(bytes).unwrap())
}

/// Reads exactly so many bytes.
pub(crate) fn exactly(stream: &mut TcpStream, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    stream.read_exact(&mut bytes).unwrap();
    bytes
}

/// Reads to the end of the stream; a reset ends it too.
pub(crate) fn until_closed(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    loop {
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(count) => bytes.extend_from_slice(&piece[..count]),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
            Err(error) => panic!("not closed: {error}; {}", String::from_utf8_lossy(&bytes)),
        }
    }
    String::from_utf8(bytes).unwrap()
}
