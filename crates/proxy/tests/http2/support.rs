//! A proxy between clients made of h2 and scripted servers that speak HTTP/1.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    thread,
    time::{Duration as StdDuration, Instant},
};

use bytes::Bytes;
use h2::{
    RecvStream,
    client::{Builder, SendRequest},
};
use http::{HeaderMap, Request, Response};
use loadline_core::{
    decide::ending::Ending,
    fleet::{Edge, Fleet, Group, Listener, Server, Service},
    time::Duration,
};
use loadline_proxy::runtime::Runtime;

/// Longer than anything takes that goes right.
pub(crate) const PATIENCE: StdDuration = StdDuration::from_secs(10);

/// A short limit for what is meant to run into it.
pub(crate) const SHORT: Duration = Duration::from_millis(200);

/// A response of two bytes.
pub(crate) const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

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

/// A server that answers each request without a body with these bytes.
pub(crate) fn answering(answer: &'static [u8]) -> SocketAddr {
    server(move |mut stream| {
        while head(&mut stream).is_some() {
            stream.write_all(answer).unwrap();
        }
    })
}

/// A server that answers each request with all it got of it, up to `end`.
pub(crate) fn showing(end: &'static str) -> SocketAddr {
    server(move |mut stream| {
        while let Some(request) = until(&mut stream, end) {
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", request.len());
            stream.write_all((answer + &request).as_bytes()).unwrap();
        }
    })
}

/// Reads a head to its empty line; none at the end of the stream.
pub(crate) fn head(stream: &mut TcpStream) -> Option<String> {
    until(stream, "\r\n\r\n")
}

/// Reads up to this; none at the end of the stream.
pub(crate) fn until(stream: &mut TcpStream, end: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut byte = [0];
    while !bytes.ends_with(end.as_bytes()) {
        if stream.read(&mut byte).ok()? == 0 {
            return None;
        }
        bytes.push(byte[0]);
    }
    Some(String::from_utf8(bytes).unwrap())
}

/// A fleet of one listener and one server.
pub(crate) fn fleet(server: SocketAddr) -> Fleet {
    let drain_timeout = Duration::from_secs(1);
    let edge = Edge { threads: 1, drain_timeout, ..Edge::within("here") };
    let listener = Listener {
        max_connections: 1_000,
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
    pub(crate) fn to(server: SocketAddr) -> Self {
        Self::of(fleet(server))
    }

    pub(crate) fn of(fleet: Fleet) -> Self {
        let runtime = Runtime::start(fleet).unwrap();
        let address = runtime.local_addrs()[0];
        Self { runtime, address }
    }

    /// A client that greets with prior knowledge.
    pub(crate) async fn client(&self) -> Client {
        self.client_with(&Builder::new()).await
    }

    pub(crate) async fn client_with(&self, builder: &Builder) -> Client {
        let stream = tokio::net::TcpStream::connect(self.address).await.unwrap();
        let (requests, connection) = builder.handshake(stream).await.unwrap();
        // How it ends is seen by each stream.
        tokio::spawn(async move { connection.await.is_ok() });
        Client { requests }
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

/// Waits, within patience, for a condition.
pub(crate) fn wait_until(condition: impl Fn() -> bool, what: &str) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "waited in vain for: {what}");
        thread::yield_now();
    }
}

/// One connection of a client.
pub(crate) struct Client {
    pub(crate) requests: SendRequest<Bytes>,
}

impl Client {
    /// Sends a request without a body.
    pub(crate) async fn ask(&self, request: Request<()>) -> Result<FullResponse, h2::Error> {
        let mut requests = self.requests.clone().ready().await?;
        let (answer, _) = requests.send_request(request, true)?;
        FullResponse::read(answer.await?).await
    }

    /// Sends a request whose body is this, then these trailers.
    pub(crate) async fn send(
        &self,
        request: Request<()>,
        body: &'static [u8],
        trailers: Option<HeaderMap>,
    ) -> Result<FullResponse, h2::Error> {
        let mut requests = self.requests.clone().ready().await?;
        let (answer, mut stream) = requests.send_request(request, false)?;
        stream.send_data(Bytes::from_static(body), trailers.is_none())?;
        if let Some(trailers) = trailers {
            stream.send_trailers(trailers)?;
        }
        FullResponse::read(answer.await?).await
    }
}

/// A response read to its end.
#[derive(Debug)]
pub(crate) struct FullResponse {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: Option<HeaderMap>,
}

impl FullResponse {
    pub(crate) async fn read(response: Response<RecvStream>) -> Result<Self, h2::Error> {
        let (parts, mut stream) = response.into_parts();
        let mut body = Vec::new();
        while let Some(data) = stream.data().await {
            let data = data?;
            body.extend_from_slice(&data);
            stream.flow_control().release_capacity(data.len())?;
        }
        let trailers = stream.trailers().await?;
        Ok(Self { status: parts.status.as_u16(), headers: parts.headers, body, trailers })
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }
}

/// A GET of a page at `a.test`.
pub(crate) fn get() -> Request<()> {
    Request::get("http://a.test/page?q").body(()).unwrap()
}

/// A POST to a page at `a.test`.
pub(crate) fn post() -> Request<()> {
    Request::post("http://a.test/page").body(()).unwrap()
}
