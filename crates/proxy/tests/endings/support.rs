//! Scripted servers, raw clients, and a proxy between them.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::{Duration as StdDuration, Instant},
};

use loadline_core::{
    decide::{census::Condition, ending::Ending},
    fleet::{Edge, Fleet, Group, Listener, Server, Service},
    time::Duration,
};
use loadline_proxy::runtime::Runtime;
use socket2::{Domain, Socket, Type};

/// Longer than anything takes that goes right.
pub(crate) const PATIENCE: StdDuration = StdDuration::from_secs(5);

/// A short limit for what is meant to run into it, and that nothing else does on a busy machine.
pub(crate) const SHORT: Duration = Duration::from_millis(500);

/// A response of two bytes.
pub(crate) const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// A server that runs `script` for each connection, with its number.
pub(crate) struct Scripted {
    pub(crate) address: SocketAddr,
    connections: Arc<AtomicUsize>,
}

impl Scripted {
    pub(crate) fn new(script: impl Fn(TcpStream, usize) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let (script, count) = (Arc::new(script), connections.clone());
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, script) = (stream.unwrap(), script.clone());
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                let number = count.fetch_add(1, Relaxed);
                thread::spawn(move || script(stream, number));
            }
        });
        Self { address, connections }
    }

    /// A server that answers each request with these bytes and keeps the connection.
    pub(crate) fn answering(answer: &'static [u8]) -> Self {
        Self::new(move |mut stream, _| {
            while head(&mut stream).is_some() {
                stream.write_all(answer).unwrap();
            }
        })
    }

    /// A server that answers the first request with these bytes and closes.
    pub(crate) fn answering_once(answer: &'static [u8]) -> Self {
        Self::new(move |mut stream, _| {
            if head(&mut stream).is_some() {
                stream.write_all(answer).unwrap();
            }
        })
    }

    /// Connections that were opened to it.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Relaxed)
    }
}

/// An address where nobody listens, and nobody else comes to listen while the test runs: a socket
/// keeps its port.
pub(crate) fn nobody() -> SocketAddr {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    std::mem::forget(socket);
    address
}

/// A fleet of one service with one group of these servers.
pub(crate) fn fleet(servers: &[SocketAddr]) -> Fleet {
    let drain_timeout = Duration::from_secs(1);
    let edge = Edge { threads: 1, drain_timeout, ..Edge::within("here") };
    let listener = Listener {
        max_connections: 1_000,
        ..Listener::new(SocketAddr::from(([127, 0, 0, 1], 0)), 0)
    };
    let group = Group {
        rtt: Some(Duration::ZERO),
        ..Group::within("here", servers.iter().copied().map(Server::at).collect())
    };
    let service = Service { groups: vec![group], ..Service::named("web") };
    Fleet::of(edge, vec![listener], vec![service])
}

/// A running proxy.
pub(crate) struct Proxy {
    pub(crate) runtime: Runtime,
    pub(crate) address: SocketAddr,
}

impl Proxy {
    pub(crate) fn to(servers: &[SocketAddr]) -> Self {
        Self::of(fleet(servers))
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

    /// Sends these bytes on a connection of their own and gives all that comes until it is closed.
    pub(crate) fn ask(&self, request: &[u8]) -> String {
        let mut stream = self.connect();
        stream.write_all(request).unwrap();
        until_closed(&mut stream)
    }

    /// A GET that asks to close the connection afterwards.
    pub(crate) fn get(&self) -> String {
        self.ask(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    }

    /// Waits until so many requests have ended like this, and checks that no other has.
    pub(crate) fn expect(&self, ending: Ending, count: u64) {
        let tallies = || self.runtime.tallies();
        wait_until(|| tallies().count(ending) >= count, ending.name());
        let counted: Vec<_> = Ending::ALL.map(|e| (e.name(), tallies().count(e))).into();
        let others = counted.iter().filter(|(name, count)| *name != ending.name() && *count > 0);
        assert_eq!(others.count(), 0, "{counted:?}");
        assert_eq!(tallies().count(ending), count);
    }
}

/// Waits until this server of the only group is ejected in what requests go by.
pub(crate) fn ejected(proxy: &Proxy, server: usize) {
    let state = || proxy.runtime.handle().state();
    let condition = || state().services[0].groups[0].servers[server].condition;
    wait_until(|| condition() == Condition::Ejected, "the ejection");
}

/// Waits, within patience, for a condition.
pub(crate) fn wait_until(condition: impl Fn() -> bool, what: &str) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "waited in vain for: {what}");
        thread::yield_now();
    }
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
pub(crate) fn exactly(stream: &mut TcpStream, count: usize) -> String {
    let mut bytes = vec![0; count];
    stream.read_exact(&mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

/// Reads to the end of the stream; a reset ends it too.
pub(crate) fn until_closed(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        match stream.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => bytes.extend_from_slice(&chunk[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => break,
            Err(error) => panic!("not closed: {error}; {}", String::from_utf8_lossy(&bytes)),
        }
    }
    String::from_utf8(bytes).unwrap()
}
