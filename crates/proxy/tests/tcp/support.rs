//! A proxy for TCP, servers behind it and clients before it.

use std::{
    io::{self, Read, Write},
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
        mpsc::{Receiver, channel},
    },
    thread,
    time::{Duration as StdDuration, Instant},
};

use loadline_core::{
    decide::ending::Ending,
    fleet::{Edge, Fleet, Group, Listener, Protocol, Server, Service},
    time::Duration,
};
use loadline_proxy::runtime::Runtime;
use socket2::{Domain, Socket, Type};

/// Longer than anything takes that goes right.
pub(crate) const PATIENCE: StdDuration = StdDuration::from_secs(5);

/// A short limit for what is meant to run into it.
pub(crate) const SHORT: Duration = Duration::from_millis(200);

/// Runs `script` for each connection to the address it gives.
pub(crate) fn server(script: impl Fn(TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let script = Arc::new(script);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, script) = (stream.unwrap(), script.clone());
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            thread::spawn(move || script(stream));
        }
    });
    address
}

/// A server that says `name`, then sends everything back, and closes when its client has.
pub(crate) fn echo(name: &'static str) -> SocketAddr {
    server(move |mut stream| {
        // The peer may go at any time.
        let _ = stream.write_all(name.as_bytes());
        let mut from = stream.try_clone().unwrap();
        let _ = io::copy(&mut from, &mut stream);
        let _ = stream.shutdown(Shutdown::Write);
    })
}

/// A server that tells all it reads until the end of the stream, or what went wrong, and closes.
pub(crate) fn listening() -> (SocketAddr, Receiver<io::Result<String>>) {
    let (told, heard) = channel();
    let address = server(move |mut stream| {
        let mut text = String::new();
        let read = stream.read_to_string(&mut text);
        // The test may be over.
        let _ = told.send(read.map(|_| text));
    });
    (address, heard)
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

/// A service with one group of these servers.
pub(crate) fn service(name: &str, servers: &[SocketAddr]) -> Service {
    Service { groups: vec![group("near", servers)], ..Service::named(name) }
}

/// A group of these servers.
pub(crate) fn group(name: &str, servers: &[SocketAddr]) -> Group {
    Group {
        name: name.into(),
        rtt: Some(Duration::ZERO),
        ..Group::within("here", servers.iter().copied().map(Server::at).collect())
    }
}

/// A fleet of one listener for these services, of which the first is what it names.
pub(crate) fn fleet(protocol: Protocol, services: Vec<Service>) -> Fleet {
    let drain_timeout = Duration::from_secs(1);
    let edge = Edge { threads: 1, drain_timeout, ..Edge::within("here") };
    let bind = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    Fleet::of(edge, vec![Listener { protocol, ..Listener::new(bind, 0) }], services)
}

/// A running proxy.
pub(crate) struct Proxy {
    pub(crate) runtime: Runtime,
    pub(crate) address: SocketAddr,
}

impl Proxy {
    pub(crate) fn of(fleet: Fleet) -> Self {
        let runtime = Runtime::start(fleet).unwrap();
        let address = runtime.local_addrs()[0];
        Self { runtime, address }
    }

    /// A proxy of TCP for one service of these servers.
    pub(crate) fn to(servers: &[SocketAddr]) -> Self {
        Self::of(fleet(Protocol::Tcp, vec![service("db", servers)]))
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Sends these bytes and the end of the stream, and gives all that comes back.
    pub(crate) fn ask(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect();
        stream.write_all(bytes).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        until_closed(&mut stream)
    }

    /// Waits until so many connections have ended like this, and checks that no other has.
    pub(crate) fn expect(&self, ending: Ending, count: u64) {
        let tallies = || self.runtime.tallies();
        wait_until(|| tallies().count(ending) >= count, ending.name());
        assert_eq!(tallies().count(ending), count, "{}", ending.name());
        let all = Ending::ALL.map(|ending| (ending.name(), tallies().count(ending)));
        let counted: Vec<_> = all.into_iter().filter(|(_, count)| *count > 0).collect();
        assert_eq!(counted.len(), 1, "{counted:?}");
    }
}

/// Waits, within patience, for a condition.
pub(crate) fn wait_until(condition: impl Fn() -> bool, what: &str) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "waited in vain for: {what}");
        thread::yield_now();
    }
}

/// Reads exactly so many bytes.
pub(crate) fn exactly(stream: &mut impl Read, count: usize) -> String {
    let mut bytes = vec![0; count];
    stream.read_exact(&mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

/// Reads to the end of the stream.
pub(crate) fn until_closed(stream: &mut impl Read) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// Closes a connection with a reset.
pub(crate) fn reset(stream: TcpStream) {
    socket2::SockRef::from(&stream).set_linger(Some(StdDuration::ZERO)).unwrap();
    drop(stream);
}

/// Counts the connections that `script` is run for.
pub(crate) fn counting(
    script: impl Fn(TcpStream) + Send + Sync + 'static,
) -> (SocketAddr, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let counter = count.clone();
    let address = server(move |stream| {
        counter.fetch_add(1, Relaxed);
        script(stream);
    });
    (address, count)
}
