//! What HTTP/3 takes beside HTTP/2: the time of a long upload and download through the proxy, and
//! the memory of a connection that waits.
//!
//! `cargo bench -p loadline-proxy --bench http3`. Client, proxy and server share the machine: the
//! ratio of the two versions says more than either figure.
#![expect(clippy::unwrap_used, reason = "a bench ends with what goes wrong")]
#![expect(clippy::print_stdout, reason = "it prints what it has measured")]

use std::{
    env,
    future::poll_fn,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    process::{Command, Stdio},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use bytes::{Buf as _, Bytes};
use http::Request;
use loadline_core::fleet::{
    Certificate, Edge, Fleet, Group, Listener, ListenerTls, Protocol, Server, Service,
};
use loadline_proxy::runtime::Runtime;
use quinn::{Endpoint, TransportConfig, VarInt, crypto::rustls::QuicClientConfig};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, pem::PemObject as _},
};

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let arguments: Vec<String> = env::args().collect();
    if let [_, what, address, certificate] = arguments.as_slice()
        && what == "clients"
    {
        return runtime.block_on(hold_connections(address.parse().unwrap(), certificate));
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("site.pem").display().to_string();
    let made = rcgen::generate_simple_self_signed(["a.test".to_owned()]).unwrap();
    std::fs::write(&file, made.cert.pem() + &made.signing_key.serialize_pem()).unwrap();
    let proxy = Runtime::start(fleet(server(), &file)).unwrap();
    let address = proxy.local_addrs()[0];
    runtime.block_on(async {
        for round in 1..=3 {
            let [up, down] = over_http2(address, &file).await;
            println!("round {round}: HTTP/2 upload {up:.0} MB/s, download {down:.0} MB/s");
            let [up, down] = over_http3(address, &file).await;
            println!("round {round}: HTTP/3 upload {up:.0} MB/s, download {down:.0} MB/s");
        }
    });
    let before = resident();
    let mut clients = Command::new(env::current_exe().unwrap())
        .args(["clients", &address.to_string(), &file])
        .stdout(Stdio::piped())
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    BufReader::new(clients.stdout.as_mut().unwrap()).read_line(&mut String::new()).unwrap();
    let after = resident();
    println!("a waiting connection of HTTP/3: {} bytes", (after - before) / CONNECTIONS as u64);
    drop(clients.stdin.take());
    clients.wait().unwrap();
}

fn fleet(server: SocketAddr, file: &str) -> Fleet {
    let certificate = Certificate { chain: file.to_owned(), key: file.to_owned(), staple: None };
    let tls = ListenerTls::of(vec![certificate]);
    let group = Group {
        rtt: Some(loadline_core::time::Duration::ZERO),
        ..Group::within("here", vec![Server::at(server)])
    };
    let listener = Listener {
        protocol: Protocol::Https,
        max_connections: 10_000,
        tls: Some(tls),
        ..Listener::new((Ipv4Addr::LOCALHOST, 0).into(), 0)
    };
    Fleet::of(
        Edge { threads: 1, ..Edge::within("here") },
        vec![listener],
        vec![Service { groups: vec![group], ..Service::named("web") }],
    )
}

/// Reads what a POST brings, and sends as much for a GET.
fn server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().map(Result::unwrap) {
            thread::spawn(move || serve(stream));
        }
    });
    address
}

fn serve(mut stream: TcpStream) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    while let Some(head) = head(&mut reader) {
        let (came, sent) = if head.starts_with("POST") { (SIZE, 0) } else { (0, SIZE) };
        std::io::copy(&mut reader.by_ref().take(came as u64), &mut std::io::sink()).unwrap();
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {sent}\r\n\r\n").unwrap();
        for _ in 0..sent / PIECE {
            stream.write_all(&[b'x'; PIECE]).unwrap();
        }
    }
}

/// The head of the next request; none at the end.
fn head(reader: &mut BufReader<TcpStream>) -> Option<String> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).unwrap() == 0 {
            return None;
        }
    }
    Some(head)
}

fn tls(file: &str, protocol: &[u8]) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(file).unwrap()).unwrap();
    let mut config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![protocol.to_vec()];
    config
}

fn request(method: &str) -> Request<()> {
    let request = Request::builder().method(method).uri("https://a.test/");
    let request = if method == "POST" { request.header("content-length", SIZE) } else { request };
    request.body(()).unwrap()
}

fn rate(began: Instant) -> f64 {
    SIZE as f64 / 1e6 / began.elapsed().as_secs_f64()
}

async fn over_http2(address: SocketAddr, file: &str) -> [f64; 2] {
    let tcp = tokio::net::TcpStream::connect(address).await.unwrap();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(tls(file, b"h2")));
    let stream = connector.connect("a.test".try_into().unwrap(), tcp).await.unwrap();
    let mut builder = h2::client::Builder::new();
    builder.initial_window_size(WINDOW).initial_connection_window_size(4 * WINDOW);
    let (mut requests, connection) = builder.handshake(stream).await.unwrap();
    tokio::spawn(connection);
    let began = Instant::now();
    let (response, mut body) = requests.send_request(request("POST"), false).unwrap();
    let mut left = SIZE;
    while left > 0 {
        body.reserve_capacity(left.min(PIECE));
        let room = poll_fn(|cx| body.poll_capacity(cx)).await.unwrap().unwrap();
        body.send_data(Bytes::from(vec![b'x'; room]), room == left).unwrap();
        left -= room;
    }
    response.await.unwrap();
    let up = rate(began);
    let began = Instant::now();
    let (response, _) = requests.send_request(request("GET"), true).unwrap();
    let mut body = response.await.unwrap().into_body();
    let mut came = 0;
    while let Some(piece) = body.data().await {
        let length = piece.unwrap().len();
        came += length;
        body.flow_control().release_capacity(length).unwrap();
    }
    assert_eq!(came, SIZE);
    [up, rate(began)]
}

fn quic(file: &str) -> Endpoint {
    let crypto = QuicClientConfig::try_from(tls(file, b"h3")).unwrap();
    let mut config = quinn::ClientConfig::new(Arc::new(crypto));
    let mut transport = TransportConfig::default();
    transport
        .stream_receive_window(VarInt::from_u32(WINDOW))
        .receive_window(VarInt::from_u32(4 * WINDOW))
        .keep_alive_interval(Some(Duration::from_secs(5)));
    config.transport_config(Arc::new(transport));
    let mut endpoint = Endpoint::client((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    endpoint.set_default_client_config(config);
    endpoint
}

async fn over_http3(address: SocketAddr, file: &str) -> [f64; 2] {
    let connection = quic(file).connect(address, "a.test").unwrap().await.unwrap();
    let opened = h3::client::new(h3_quinn::Connection::new(connection)).await;
    let (mut driver, mut requests) = opened.unwrap();
    tokio::spawn(async move { poll_fn(|cx| driver.poll_close(cx)).await });
    let began = Instant::now();
    let mut stream = requests.send_request(request("POST")).await.unwrap();
    for _ in 0..SIZE / PIECE {
        stream.send_data(Bytes::from(vec![b'x'; PIECE])).await.unwrap();
    }
    stream.finish().await.unwrap();
    stream.recv_response().await.unwrap();
    let up = rate(began);
    let began = Instant::now();
    let mut stream = requests.send_request(request("GET")).await.unwrap();
    stream.finish().await.unwrap();
    stream.recv_response().await.unwrap();
    let mut came = 0;
    while let Some(piece) = stream.recv_data().await.unwrap() {
        came += piece.remaining();
    }
    assert_eq!(came, SIZE);
    [up, rate(began)]
}

/// Opens connections, has one request answered on each, and says so on the standard output.
async fn hold_connections(address: SocketAddr, file: &str) {
    let endpoint = quic(file);
    let mut held = Vec::new();
    for _ in 0..CONNECTIONS {
        let connection = endpoint.connect(address, "a.test").unwrap().await.unwrap();
        let opened = h3::client::new(h3_quinn::Connection::new(connection.clone())).await;
        let (mut driver, requests) = opened.unwrap();
        tokio::spawn(async move { poll_fn(|cx| driver.poll_close(cx)).await });
        held.push((connection, requests));
    }
    println!("connected");
    let done = || std::io::stdin().read_line(&mut String::new());
    tokio::task::spawn_blocking(done).await.unwrap().unwrap();
}

/// Bytes of memory that this process has.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4_096
}

/// Of an upload and of a download.
const SIZE: usize = 100 * PIECE * 16;

const PIECE: usize = 64 << 10;

const WINDOW: u32 = 1 << 20;

const CONNECTIONS: usize = 500;
