//! A server, a client that keeps its connection, and fleets that differ in their listeners.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    thread,
    time::Duration as StdDuration,
};

use loadline_core::{
    fleet::{Edge, Fleet, Group, Listener, Protocol, Server, Service},
    time::Duration,
};
use loadline_proxy::runtime::Runtime;

pub(crate) use crate::becomes::becomes;

/// Longer than anything takes that goes right.
pub(crate) const PATIENCE: StdDuration = StdDuration::from_secs(10);

const REQUEST: &str = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";

/// Any port of the loopback.
pub(crate) fn anywhere() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// A server that answers `GET /NAME` with its name and upgrades whatever asks for it to an echo.
pub(crate) fn server(name: &'static str) -> SocketAddr {
    let listener = TcpListener::bind(anywhere()).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            thread::spawn(move || serve(name, stream.unwrap()));
        }
    });
    address
}

fn serve(name: &str, stream: TcpStream) {
    let mut writer = stream.try_clone().unwrap();
    let mut reader = BufReader::new(stream);
    loop {
        let mut upgrades = false;
        loop {
            let mut line = String::new();
            if !matches!(reader.read_line(&mut line), Ok(1..)) {
                return;
            }
            upgrades |= line.to_ascii_lowercase().starts_with("upgrade:");
            if line == "\r\n" {
                break;
            }
        }
        if upgrades {
            let answer = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\n\
                          Upgrade: echo\r\n\r\n";
            writer.write_all(answer.as_bytes()).unwrap();
            // Ends when the proxy cuts it.
            let _ = std::io::copy(&mut reader, &mut writer);
            return;
        }
        let length = name.len();
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{name}");
        if writer.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

/// Who answers a client that comes now; nobody where a listener closes as it comes.
pub(crate) fn asked_anew(address: SocketAddr) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(REQUEST.as_bytes()).ok()?;
    let mut client = Client(BufReader::new(stream));
    client.0.fill_buf().is_ok_and(|bytes| !bytes.is_empty()).then(|| client.answer().1)
}

/// A client connection.
pub(crate) struct Client(BufReader<TcpStream>);

impl Client {
    pub(crate) fn to(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self(BufReader::new(stream))
    }

    pub(crate) fn send(&mut self, text: &str) {
        self.0.get_mut().write_all(text.as_bytes()).unwrap();
    }

    /// The head of a response, and its body.
    pub(crate) fn answer(&mut self) -> (String, String) {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert_ne!(self.0.read_line(&mut head).unwrap(), 0, "closed within {head:?}");
        }
        let head = head.to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
        self.0.read_exact(&mut body).unwrap();
        (head, String::from_utf8(body).unwrap())
    }

    /// Waits for something to come; true if the connection is reset instead.
    pub(crate) fn is_reset(&mut self) -> bool {
        self.0.fill_buf().is_err()
    }

    /// Who answers a request on this connection.
    pub(crate) fn ask(&mut self) -> String {
        self.send(REQUEST);
        self.answer().1
    }

    /// Turns the connection into an echo.
    pub(crate) fn upgrade(&mut self) {
        self.send("GET / HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n");
        assert!(self.answer().0.starts_with("http/1.1 101"));
    }

    /// Sends through the echo and reads it back.
    pub(crate) fn echo(&mut self, text: &str) {
        self.send(text);
        let mut back = vec![0; text.len()];
        self.0.read_exact(&mut back).unwrap();
        assert_eq!(back, text.as_bytes());
    }

    /// Waits for the other side to close; true if it was reset or closed before anything came.
    pub(crate) fn is_closed(&mut self) -> bool {
        match self.0.read(&mut [0]) {
            Ok(count) => count == 0,
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
}

/// A listener for the service at this index.
pub(crate) fn listener(bind: SocketAddr, service: usize) -> Listener {
    Listener::new(bind, service)
}

/// The same for bytes that mean nothing.
pub(crate) fn tcp(bind: SocketAddr, service: usize) -> Listener {
    Listener { protocol: Protocol::Tcp, ..Listener::new(bind, service) }
}

/// A fleet with these listeners and a service for each of these servers.
pub(crate) fn fleet(listeners: &[Listener], servers: &[SocketAddr]) -> Fleet {
    let drain_timeout = Duration::from_secs(20);
    let edge = Edge { threads: 2, drain_timeout, ..Edge::within("here") };
    let services = servers.iter().enumerate().map(|(index, address)| {
        let group = Group {
            rtt: Some(Duration::ZERO),
            ..Group::within("here", vec![Server::at(*address)])
        };
        Service { groups: vec![group], ..Service::named(&format!("service-{index}")) }
    });
    Fleet::of(edge, listeners.to_vec(), services.collect())
}

/// Waits until nobody listens at this address.
pub(crate) fn wait_until_refused(address: SocketAddr) {
    assert!(becomes(|| TcpStream::connect(address).is_err()), "{address} takes connections");
}

/// A tunnel that takes the only place of a listener, and a client that waits for it with a request.
pub(crate) fn occupied(proxy: &Runtime) -> (Client, Client) {
    let address = proxy.local_addrs()[0];
    let mut tunnel = Client::to(address);
    tunnel.upgrade();
    let mut next = Client::to(address);
    next.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    let held = || proxy.tallies().listeners.values().any(|listener| listener.held > 0);
    assert!(becomes(held), "it waits for the place of the first");
    (tunnel, next)
}
