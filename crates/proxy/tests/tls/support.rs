//! A proxy, servers behind it and clients before it.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::Arc,
    thread, time,
};

use loadline_core::{
    fleet::{Certificate, Edge, Fleet, Group, Listener, ListenerTls, Protocol, Server, Service},
    time::Duration,
};
use loadline_proxy::runtime::Runtime;
use rustls::{
    ClientConfig, ClientConnection, ServerConfig, ServerConnection, StreamOwned,
    pki_types::ServerName,
};

pub(crate) use crate::becomes::becomes;

/// A fleet of one listener and one server.
pub(crate) fn fleet(server: SocketAddr, tls: Option<ListenerTls>) -> Fleet {
    let drain_timeout = Duration::from_secs(1);
    let edge = Edge { threads: 1, drain_timeout, ..Edge::within("here") };
    let listener = Listener {
        protocol: if tls.is_some() { Protocol::Https } else { Protocol::Http },
        max_connections: 1_000,
        tls,
        ..Listener::new(SocketAddr::from(([127, 0, 0, 1], 0)), 0)
    };
    let group =
        Group { rtt: Some(Duration::ZERO), ..Group::within("here", vec![Server::at(server)]) };
    let service = Service { groups: vec![group], ..Service::named("web") };
    Fleet::of(edge, vec![listener], vec![service])
}

/// A listener's TLS with these certificates.
pub(crate) fn with(certificates: Vec<Certificate>) -> Option<ListenerTls> {
    Some(ListenerTls::of(certificates))
}

pub(crate) fn start(fleet: Fleet) -> (Runtime, SocketAddr) {
    let runtime = Runtime::start(fleet).unwrap();
    let address = runtime.local_addrs()[0];
    (runtime, address)
}

/// A server that answers each request with the request itself, over TLS where it has a
/// configuration. It ends with the test process.
pub(crate) fn echo(tls: Option<Arc<ServerConfig>>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, tls) = (stream.unwrap(), tls.clone());
            thread::spawn(move || match tls {
                None => serve(stream),
                Some(config) => {
                    serve(StreamOwned::new(ServerConnection::new(config).unwrap(), stream));
                }
            });
        }
    });
    address
}

/// Answers each request with the request itself.
pub(crate) fn serve(mut stream: impl Read + Write) {
    while let Ok(request) = message(&mut stream) {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", request.len());
        if stream.write_all(&[head.into_bytes(), request].concat()).is_err() {
            return;
        }
    }
}

/// A whole message with a Content-Length, or without a body.
pub(crate) fn message(stream: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        bytes.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&bytes).to_ascii_lowercase();
    let length = head.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next());
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    stream.read_exact(&mut body)?;
    bytes.extend(body);
    Ok(bytes)
}

/// A client's connection that asked for `name`.
pub(crate) fn connect(
    address: SocketAddr,
    config: &Arc<ClientConfig>,
    name: &str,
) -> StreamOwned<ClientConnection, TcpStream> {
    let tcp = TcpStream::connect(address).unwrap();
    tcp.set_read_timeout(Some(time::Duration::from_secs(10))).unwrap();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    StreamOwned::new(ClientConnection::new(config.clone(), name).unwrap(), tcp)
}

/// Sends a request with this body and gives the whole response.
pub(crate) fn ask(stream: &mut (impl Read + Write), body: &[u8]) -> io::Result<String> {
    let length = body.len();
    let head = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n");
    stream.write_all(&[head.as_bytes(), body].concat())?;
    message(stream).map(|answer| String::from_utf8_lossy(&answer).into_owned())
}
