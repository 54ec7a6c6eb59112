//! A proxy with HTTP/3, scripted servers of HTTP/1 behind it, and clients of quinn and h3.

use std::{
    collections::VecDeque,
    future::poll_fn,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    panic::Location,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    thread,
    time::{Duration as StdDuration, Instant},
};

use bytes::{Buf as _, Bytes};
use h3::client::{RequestStream, SendRequest};
use http::{Request, StatusCode};
use loadline_core::{
    fleet::{Edge, Fleet, Group, Listener, ListenerTls, Protocol, Server, Service},
    time::Duration,
};
use loadline_proxy::runtime::Runtime;
use quinn::{ClientConfig, Endpoint, TransportConfig, VarInt, crypto::rustls::QuicClientConfig};
use rustls::version::TLS13;
use tokio::net::UdpSocket;

use crate::{authority::Authority, handshake::opening};

pub(crate) type Requests = SendRequest<h3_quinn::OpenStreams, Bytes>;
pub(crate) type Stream = RequestStream<h3_quinn::BidiStream<Bytes>, Bytes>;

/// Longer than anything takes that goes right.
pub(crate) const PATIENCE: StdDuration = StdDuration::from_secs(20);

/// A fleet of one listener with HTTP/3 and one server.
pub(crate) fn fleet(server: SocketAddr, authority: &Authority, threads: u32) -> Fleet {
    let drain_timeout = Duration::from_secs(20);
    let edge = Edge { threads, drain_timeout, ..Edge::within("here") };
    let tls = ListenerTls::of(vec![authority.sign(&["a.test"])]);
    let listener = Listener {
        protocol: Protocol::Https,
        max_connections: 1_000,
        tls: Some(tls),
        ..Listener::new((Ipv4Addr::LOCALHOST, 0).into(), 0)
    };
    let group =
        Group { rtt: Some(Duration::ZERO), ..Group::within("here", vec![Server::at(server)]) };
    let service = Service { groups: vec![group], ..Service::named("web") };
    Fleet::of(edge, vec![listener], vec![service])
}

/// A proxy at a port that is free for UDP as well: whoever else uses the machine may have it.
pub(crate) fn start(fleet: &Fleet) -> (Runtime, SocketAddr) {
    for _ in 0..100 {
        let runtime = Runtime::start(fleet.clone()).unwrap();
        let address = runtime.local_addrs()[0];
        if runtime.handle().sockets()[0].quic.is_some() {
            return (runtime, address);
        }
        runtime.stop(Duration::ZERO);
    }
    panic!("no port is free for both");
}

/// What a server has been asked.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    pub(crate) connections: AtomicUsize,
    pub(crate) requests: AtomicUsize,
}

/// A server that answers `/N/...` with N bytes of its own letter, and counts. A body is read first.
pub(crate) fn sized(letter: u8) -> (SocketAddr, Arc<Asked>) {
    let asked = Arc::new(Asked::default());
    let counts = asked.clone();
    let address = server(move |stream| {
        counts.connections.fetch_add(1, SeqCst);
        answer_all(&stream, letter, &counts);
    });
    (address, asked)
}

fn answer_all(mut stream: &TcpStream, letter: u8, counts: &Asked) -> Option<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let head = head(&mut reader)?;
        counts.requests.fetch_add(1, SeqCst);
        let length = field(&head, "content-length").map_or(0, |it| it.parse().unwrap());
        reader.by_ref().take(length).read_to_end(&mut Vec::new()).ok()?;
        let path = head.split(' ').nth(1).unwrap_or_default();
        let size = path.split('/').nth(1).and_then(|size| size.parse().ok()).unwrap_or(0);
        let mut answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n").into_bytes();
        answer.resize(answer.len() + size, letter);
        stream.write_all(&answer).ok()?;
    }
}

/// A server that runs `script` for each connection. It ends with the test process.
pub(crate) fn server(script: impl Fn(TcpStream) + Clone + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, script) = (stream.unwrap(), script.clone());
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            thread::spawn(move || script(stream));
        }
    });
    address
}

/// The head of the next request, in lower case; none at the end.
pub(crate) fn head(reader: &mut BufReader<&TcpStream>) -> Option<String> {
    exact_head(reader).map(|head| head.to_ascii_lowercase())
}

/// The same as it came.
pub(crate) fn exact_head(reader: &mut BufReader<&TcpStream>) -> Option<String> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if !matches!(reader.read_line(&mut head), Ok(1..)) {
            return None;
        }
    }
    Some(head)
}

/// Opens the WebSocket that a request asks for: its head, in lower case.
pub(crate) fn open_websocket(mut stream: &TcpStream) -> String {
    let asked = exact_head(&mut BufReader::new(stream)).unwrap();
    stream.write_all(opening(&asked).as_bytes()).unwrap();
    asked.to_ascii_lowercase()
}

pub(crate) fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

/// A client's end, and its connection.
pub(crate) struct Client {
    pub(crate) endpoint: Endpoint,
    pub(crate) connection: quinn::Connection,
    pub(crate) requests: Requests,
}

/// How clients of `authority` connect; at most `window` bytes of a response are on their way.
pub(crate) fn config(authority: &Authority, window: u32) -> ClientConfig {
    let mut tls = (*authority.client(&[&TLS13], None)).clone();
    tls.alpn_protocols = vec![b"h3".to_vec()];
    tls.enable_early_data = true;
    let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).unwrap()));
    let mut transport = TransportConfig::default();
    transport.stream_receive_window(VarInt::from_u32(window));
    config.transport_config(Arc::new(transport));
    config
}

impl Client {
    pub(crate) async fn to(address: SocketAddr, authority: &Authority) -> Self {
        Self::with(address, config(authority, 1 << 20)).await
    }

    pub(crate) async fn with(address: SocketAddr, config: ClientConfig) -> Self {
        let mut endpoint = Endpoint::client((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        endpoint.set_default_client_config(config);
        Self::over(endpoint, address).await
    }

    /// Another connection of an endpoint.
    pub(crate) async fn over(endpoint: Endpoint, address: SocketAddr) -> Self {
        let connection = endpoint.connect(address, "a.test").unwrap().await.unwrap();
        let (mut driver, requests) =
            h3::client::new(h3_quinn::Connection::new(connection.clone())).await.unwrap();
        tokio::spawn(async move { poll_fn(|cx| driver.poll_close(cx)).await });
        Self { endpoint, connection, requests }
    }

    pub(crate) async fn get(&self, path: &str) -> (StatusCode, Vec<u8>) {
        get(self.requests.clone(), path).await.unwrap()
    }
}

pub(crate) fn request(method: &str, path: &str) -> Request<()> {
    let uri = format!("https://a.test{path}");
    Request::builder().method(method).uri(uri).body(()).unwrap()
}

pub(crate) async fn get(
    mut requests: Requests,
    path: &str,
) -> Result<(StatusCode, Vec<u8>), h3::error::StreamError> {
    let mut stream = requests.send_request(request("GET", path)).await?;
    stream.finish().await?;
    let status = stream.recv_response().await?.status();
    Ok((status, rest(&mut stream).await?))
}

/// What is left of a body.
pub(crate) async fn rest(stream: &mut Stream) -> Result<Vec<u8>, h3::error::StreamError> {
    let mut all = Vec::new();
    while let Some(mut data) = stream.recv_data().await? {
        all.extend_from_slice(&data.copy_to_bytes(data.remaining()));
    }
    Ok(all)
}

/// Waits for something that happens, if all goes right.
#[track_caller]
pub(crate) fn until(has_happened: impl Fn() -> bool) -> impl Future<Output = ()> {
    let (place, began) = (Location::caller(), Instant::now());
    async move {
        while !has_happened() {
            assert!(began.elapsed() < PATIENCE, "it has not happened: {place}");
            tokio::time::sleep(StdDuration::from_millis(2)).await;
        }
    }
}

/// Passes packets on between one client and a proxy.
pub(crate) struct Relay {
    pub(crate) address: SocketAddr,
    /// What comes from the proxy waits.
    pub(crate) is_paused: Arc<AtomicBool>,
}

impl Relay {
    pub(crate) async fn to(proxy: SocketAddr) -> Self {
        let near = Arc::new(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap());
        let far = Arc::new(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap());
        far.connect(proxy).await.unwrap();
        let relay = Self { address: near.local_addr().unwrap(), is_paused: Arc::default() };
        let is_paused = relay.is_paused.clone();
        tokio::spawn(async move {
            let (mut client, mut waiting) = (None, VecDeque::new());
            let (mut there, mut back) = ([0; 2_000], [0; 2_000]);
            let mut looks = tokio::time::interval(StdDuration::from_millis(1));
            loop {
                tokio::select! {
                    Ok((length, from)) = near.recv_from(&mut there) => {
                        client = Some(from);
                        let _ = far.send(&there[..length]).await;
                    }
                    Ok(length) = far.recv(&mut back) => waiting.push_back(back[..length].to_vec()),
                    _ = looks.tick() => {}
                }
                while let (false, Some(client)) = (is_paused.load(SeqCst), client) {
                    let Some(packet) = waiting.pop_front() else { break };
                    let _ = near.send_to(&packet, client).await;
                }
            }
        });
        relay
    }
}
