//! One active health check: a TCP connect, or over it TLS, a GET in the version of HTTP that the
//! service has, a call of gRPC, or a script; a script in datagrams; a ping.
//!
//! A check uses a connection of its own and measures the round trip by its connect; one without a
//! connection measures it by the whole.

mod grpc;
mod link;
mod ping;
mod script;

use std::{io, mem, net::SocketAddr, time::Instant};

use bytes::Bytes;
use h2::client::{Connection, SendRequest};
use http::Uri;
use loadline_core::{
    decide::{
        controller::Passed,
        reason::{Phase, Reason},
    },
    fleet::{HealthCheck, HttpVersion, Probe, ProxyVersion, ServerAddress, socket_path},
    health::{advisor::Transport, grpc::Refusal},
    time::Duration,
};
use loadline_http1::{
    BuildError, Framing, MessageBuilder, Method, ParseError, ResponseHead, Status, lenient_status,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    time::{sleep, timeout},
};
use tokio_rustls::TlsConnector;

pub use self::link::Detour;
pub(super) use self::link::Lane;
use self::script::ScriptError;
use crate::{
    http2::{UNTOLD, unopened},
    listener::proxy_protocol,
    runtime::random::Random,
    telemetry::reason::{of_http2, of_io, of_syntax},
    tls::{Dialing, TlsError},
};

/// How connections to the server are made.
#[derive(Clone, Debug)]
pub(super) struct Way {
    /// In clear if omitted.
    pub(super) tls: Option<Dialing>,
    /// The PROXY header they begin with.
    pub(super) send_proxy: Option<ProxyVersion>,
    pub(super) version: HttpVersion,
    /// Straight to the server if omitted.
    pub(super) lane: Option<Lane>,
}

/// Why a check failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum ProbeError {
    /// This machine lacks what a check takes; the server is not to blame.
    #[error("no check can be made now: {0}")]
    Scarce(io::Error),
    /// Not finished in the time the check allows; how far it had come.
    #[error("{} ({})", .0.timeout(), .1)]
    Timeout(Phase, Duration),
    /// The connection could not be opened, or broke.
    #[error("{0}")]
    Connection(#[from] io::Error),
    /// The path or the host of the check cannot be put into a request.
    #[error("the check cannot be sent: {0}")]
    Request(#[from] BuildError),
    /// Not an HTTP response.
    #[error("{}", of_syntax(*.0))]
    Answer(#[from] ParseError),
    /// The server gave up on HTTP/2.
    #[error("{}", of_http2(.0))]
    Http2(#[from] h2::Error),
    /// The server never spoke HTTP/2.
    #[error("{0}")]
    NotHttp2(Reason),
    /// The host of the check cannot be asked for.
    #[error("the check cannot be sent: {0}")]
    Target(#[from] http::Error),
    /// Not what a healthy server of gRPC says.
    #[error(transparent)]
    Grpc(#[from] Refusal),
    /// Closed before the head of the response was whole.
    #[error("closed before the answer was whole")]
    Closed,
    /// Not what the script of the check expects.
    #[error(transparent)]
    Script(#[from] ScriptError),
    /// TLS cannot be spoken at all.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A response, but not 2xx or 3xx.
    #[error("answered {0}")]
    Status(u16),
}

/// Checks a server, as soon as this machine has what that takes; says how long it took.
///
/// # Errors
/// [`ProbeError`] where the server does not pass.
pub(super) async fn probe(
    address: SocketAddr,
    way: &Way,
    check: &HealthCheck,
) -> Result<Passed, ProbeError> {
    let mut is_told = false;
    loop {
        let error = match probe_once(address, way, check).await {
            Err(ProbeError::Scarce(error)) => error,
            result => return result,
        };
        if !mem::replace(&mut is_told, true) {
            let server = ServerAddress(address);
            tracing::warn!(%server, "the health check waits, it cannot be made now: {error}");
        }
        sleep(AGAIN).await;
    }
}

async fn probe_once(
    address: SocketAddr,
    way: &Way,
    check: &HealthCheck,
) -> Result<Passed, ProbeError> {
    let started = Instant::now();
    let mut phase = Phase::Await;
    let attempt = timeout(check.timeout.to_std(), attempt(address, way, check, &mut phase)).await;
    let attempt = attempt.unwrap_or_else(|_| Err(ProbeError::Timeout(phase, check.timeout)));
    let round_trip = attempt.map_err(|error| error.during(phase))?;
    Ok(Passed { round_trip, whole: Duration::from_std(started.elapsed()) })
}

impl ProbeError {
    /// The same in the words of the access log, where those know it.
    fn during(self, phase: Phase) -> Self {
        let (Self::Connection(error) | Self::Script(ScriptError::Connection(error))) = self else {
            return self;
        };
        Self::Connection(match of_io(&error).during(phase) {
            Reason::SystemError => error,
            reason => io::Error::other(reason),
        })
    }
}

/// One check; gives the round trip.
async fn attempt(
    address: SocketAddr,
    way: &Way,
    check: &HealthCheck,
    phase: &mut Phase,
) -> Result<Duration, ProbeError> {
    let started = Instant::now();
    match &check.probe {
        Probe::Ping => {
            ping::ping(address.ip(), Random::new().draw()).await.map_err(link::scarce)?;
        }
        Probe::Script { script, .. } if script.transport == Transport::Udp => {
            let socket = link::associate(address, way.lane.as_ref(), check).await?;
            script::exchange(socket, script).await?;
        }
        _ => return over_connection(address, way, check, phase).await,
    }
    Ok(Duration::from_std(started.elapsed()))
}

async fn over_connection(
    address: SocketAddr,
    way: &Way,
    check: &HealthCheck,
    phase: &mut Phase,
) -> Result<Duration, ProbeError> {
    let started = Instant::now();
    *phase = Phase::Connect;
    let mut stream = link::connect(address, way.lane.as_ref(), check).await?;
    let round_trip = Duration::from_std(started.elapsed());
    if let Some(version) = way.send_proxy {
        let mut header = Vec::new();
        // Nobody's connection: the check speaks for itself.
        proxy_protocol::write(&mut header, version, None);
        stream.write_all(&header).await?;
    }
    let tls = match &way.tls {
        None if check.probe == Probe::Tls => Some(Dialing::unverified()?),
        tls => tls.clone(),
    };
    match tls {
        None => {
            *phase = Phase::Await;
            ask(stream, (address, way), check).await?;
        }
        Some(tls) => {
            let (config, name) = tls.to(address);
            *phase = Phase::Handshake;
            let stream = TlsConnector::from(config).connect(name, stream).await?;
            *phase = Phase::Await;
            ask(stream, (address, way), check).await?;
        }
    }
    Ok(round_trip)
}

async fn ask<S: AsyncRead + AsyncWrite + Unpin>(
    mut stream: S,
    (address, way): (SocketAddr, &Way),
    check: &HealthCheck,
) -> Result<(), ProbeError> {
    let own = || match socket_path(address) {
        Some(_) => "localhost".to_owned(),
        None => address.to_string(),
    };
    let scheme = if way.tls.is_some() { "https" } else { "http" };
    let (path, host) = match &check.probe {
        Probe::Http { path, host } => (path, host.clone().unwrap_or_else(own)),
        Probe::Grpc { service, host } => {
            let host = host.clone().unwrap_or_else(own);
            return grpc::check(stream, (service, &host), (scheme, check.timeout)).await;
        }
        Probe::Script { script, .. } => return Ok(script::converse(stream, script).await?),
        Probe::Tcp | Probe::Tls | Probe::Ping => return Ok(()),
    };
    let status = if way.version == HttpVersion::Http2 {
        status_of_stream(stream, (scheme, &host, path)).await?
    } else {
        stream.write_all(&request(path, &host)?).await?;
        status(&mut stream, check.lenient).await?
    };
    match status {
        200..=399 => Ok(()),
        other => Err(ProbeError::Status(other)),
    }
}

/// The status that a stream of HTTP/2 is answered with.
async fn status_of_stream<S>(
    stream: S,
    (scheme, host, path): (&str, &str, &str),
) -> Result<u16, ProbeError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let target = Uri::builder().scheme(scheme).authority(host).path_and_query(path).build()?;
    let request = http::Request::get(target).header("user-agent", "loadline-health").body(())?;
    let (requests, connection) = handshake(stream, &mut h2::client::Builder::new()).await?;
    let sender = requests.clone();
    let answer = async {
        let (answer, _) = sender.ready().await?.send_request(request, true)?;
        Ok(answer.await?.status().as_u16())
    };
    answered(&requests, connection, answer).await
}

type Http2<S> = (SendRequest<Bytes>, Connection<S, Bytes>);

/// Begins with HTTP/2.
async fn handshake<S>(stream: S, builder: &mut h2::client::Builder) -> Result<Http2<S>, ProbeError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let opened = builder.initial_max_send_streams(UNTOLD).handshake(stream).await;
    opened.map_err(|error| ProbeError::NotHttp2(unopened(&error)))
}

/// Waits for the answer to a request on a connection that [`handshake`] gave.
async fn answered<S, T>(
    requests: &SendRequest<Bytes>,
    connection: Connection<S, Bytes>,
    answer: impl Future<Output = Result<T, ProbeError>>,
) -> Result<T, ProbeError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut answer = std::pin::pin!(answer);
    let answer = tokio::select! {
        biased;
        answer = &mut answer => answer,
        ended = connection => match ended {
            // What came before the end has been handed out.
            Ok(()) => answer.await,
            Err(error) => Err(error.into()),
        },
    };
    answer.map_err(|error| match error {
        ProbeError::Http2(error) if requests.current_max_send_streams() == UNTOLD => {
            ProbeError::NotHttp2(unopened(&error))
        }
        error => error,
    })
}

fn request(path: &str, host: &str) -> Result<Vec<u8>, BuildError> {
    let mut request = Vec::with_capacity(256);
    MessageBuilder::request(&mut request, "GET", path, host)?
        .field("User-Agent", "loadline-health")?
        .field("Connection", "close")?
        .finish(Framing::None);
    Ok(request)
}

async fn status<S>(stream: &mut S, lenient: bool) -> Result<u16, ProbeError>
where
    S: AsyncRead + Unpin,
{
    let mut head = ResponseHead::default();
    let mut bytes = Vec::with_capacity(1024);
    loop {
        let read = stream.read_buf(&mut bytes).await?;
        match parse(&mut head, &mut bytes) {
            Ok(Status::Complete(_)) => return Ok(head.status()),
            Ok(Status::Partial) if read > 0 => {}
            Ok(Status::Partial) | Err(_) if read == 0 && lenient => {
                return lenient_status(&bytes).ok_or(ProbeError::Closed);
            }
            Ok(Status::Partial) => return Err(ProbeError::Closed),
            Err(error) if !lenient => return Err(error.into()),
            // A sloppy server's line ends do not parse; its status line decides at the end.
            Err(_) if bytes.len() < ANSWER_MAX => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Reads the head of a response behind interim ones, which are taken out of `bytes`.
fn parse(head: &mut ResponseHead, bytes: &mut Vec<u8>) -> Result<Status, ParseError> {
    loop {
        match head.parse(bytes, Method::Get)? {
            Status::Complete(length) if head.is_interim() => drop(bytes.drain(..length)),
            parsed => return Ok(parsed),
        }
    }
}

/// A lenient check reads no further than this.
const ANSWER_MAX: usize = 16 << 10;

/// What this machine lacks is looked for again after this long.
const AGAIN: std::time::Duration = std::time::Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicU16, AtomicUsize, Ordering},
    };

    use super::*;
    use loadline_core::{
        fleet::forwarding::{Method, Protocol, ServerLink},
        health::advisor::{Pattern, Script, Step},
    };
    use rustix::io::Errno;
    use tokio::net::{TcpListener, TcpSocket, UdpSocket};

    fn check(probe: Probe, lenient: bool) -> HealthCheck {
        HealthCheck {
            probe,
            interval: Duration::from_secs(1),
            fast_interval: Duration::from_secs(1),
            timeout: Duration::from_millis(300),
            rise: 1,
            fall: 1,
            lenient,
        }
    }

    fn http() -> Probe {
        Probe::Http { path: "/health-check".into(), host: None }
    }

    /// In clear, by HTTP/1.
    const PLAIN: Way =
        Way { tls: None, send_proxy: None, version: HttpVersion::Http11, lane: None };

    /// A server that reads a request, answers these bytes and closes.
    async fn answering(answer: &'static [u8]) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 1024];
            let _ = stream.read(&mut request).await.unwrap();
            stream.write_all(answer).await.unwrap();
        });
        address
    }

    /// Lends nothing at first.
    #[derive(Debug, Default)]
    struct Lender {
        asked: AtomicUsize,
        port: AtomicU16,
    }

    impl Detour for Lender {
        fn lend(
            &self,
            port: u16,
            _: (SocketAddr, Protocol),
            _: ServerLink,
            _: Duration,
        ) -> io::Result<()> {
            self.port.store(port, Ordering::Relaxed);
            match self.asked.fetch_add(1, Ordering::Relaxed) {
                0 => Err(io::Error::other("no place in the table")),
                _ => Ok(()),
            }
        }
    }

    #[tokio::test]
    async fn a_server_is_not_down_because_its_check_found_no_place_at_this_machine() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let lender = Arc::new(Lender::default());
        let link = ServerLink { method: Method::Mac, service: address.ip() };
        let way = Way { lane: Some(Lane { link, detour: lender.clone() }), ..PLAIN };
        probe(address, &way, &check(Probe::Tcp, false)).await.unwrap();
        assert_eq!(lender.asked.load(Ordering::Relaxed), 2);
        // The port is free at once.
        let own = TcpSocket::new_v4().unwrap();
        own.bind(([0; 4], lender.port.load(Ordering::Relaxed)).into()).unwrap();
    }

    #[test]
    fn what_this_machine_lacks_is_not_a_fault_of_a_server() {
        let is_scarce = |errno: Errno| matches!(link::scarce(errno.into()), ProbeError::Scarce(_));
        assert!([Errno::MFILE, Errno::NOBUFS, Errno::ADDRINUSE].into_iter().all(is_scarce));
        assert!(![Errno::CONNREFUSED, Errno::NETUNREACH].into_iter().any(is_scarce));
    }

    #[tokio::test]
    async fn a_2xx_or_3xx_passes_and_anything_else_is_named() {
        for status in ["200 OK", "302 Found"] {
            let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").leak();
            let address = answering(answer.as_bytes()).await;
            assert!(probe(address, &PLAIN, &check(http(), false)).await.is_ok(), "{status}");
        }
        let address = answering(b"HTTP/1.1 503 Busy\r\n\r\n").await;
        let failed = probe(address, &PLAIN, &check(http(), false)).await.unwrap_err();
        assert_eq!(failed.to_string(), "answered 503");
        let address = answering(b"SSH-2.0-OpenSSH\r\n").await;
        assert!(matches!(
            probe(address, &PLAIN, &check(http(), false)).await,
            Err(ProbeError::Answer(_))
        ));
    }

    #[tokio::test]
    async fn what_a_server_says_before_its_answer_is_not_the_answer() {
        let interim = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n\
                       HTTP/1.1 102 Processing\r\n\r\n";
        for (rest, fault) in [
            ("HTTP/1.1 204 No Content\r\n\r\n", None),
            ("HTTP/1.1 503 Busy\r\n\r\n", Some("answered 503")),
            ("", Some("closed before the answer was whole")),
        ] {
            for lenient in [false, true] {
                let address = answering(format!("{interim}{rest}").leak().as_bytes()).await;
                let checked = probe(address, &PLAIN, &check(http(), lenient)).await;
                let found = checked.err().map(|error| error.to_string());
                assert_eq!(found.as_deref(), fault, "{rest}, lenient: {lenient}");
            }
        }
    }

    #[tokio::test]
    async fn the_tutorials_server_passes_only_where_the_check_is_lenient() {
        const TUTORIAL: &[u8] = b"HTTP/1.0 200 OK\r\nServer: BaseHTTP/0.3 Python/2.7.13\r\n";
        let address = answering(TUTORIAL).await;
        assert!(matches!(
            probe(address, &PLAIN, &check(http(), false)).await,
            Err(ProbeError::Closed)
        ));
        let address = answering(TUTORIAL).await;
        assert!(probe(address, &PLAIN, &check(http(), true)).await.is_ok());
    }

    #[tokio::test]
    async fn a_server_of_http2_is_asked_in_http2() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let mut streams = h2::server::handshake(stream).await.unwrap();
                while let Some(Ok((request, mut respond))) = streams.accept().await {
                    let is_asked = request.uri().path() == "/health-check";
                    let mut answer = http::Response::new(());
                    *answer.status_mut() = if is_asked { 204 } else { 404 }.try_into().unwrap();
                    respond.send_response(answer, true).unwrap();
                }
            }
        });
        let way = Way { version: HttpVersion::Http2, ..PLAIN };
        assert!(probe(address, &way, &check(http(), false)).await.is_ok());
        let other = Probe::Http { path: "/".into(), host: Some("a.test".into()) };
        let failed = probe(address, &way, &check(other, false)).await.unwrap_err();
        assert_eq!(failed.to_string(), "answered 404");
    }

    #[tokio::test]
    async fn a_server_of_http1_that_is_asked_in_http2_is_told_to_be_that() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let answer = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
                stream.write_all(answer).await.unwrap();
                let _ = stream.read_to_end(&mut Vec::new()).await;
            }
        });
        let way = Way { version: HttpVersion::Http2, ..PLAIN };
        for asked in [http(), Probe::Grpc { service: String::new(), host: None }] {
            let failed = probe(address, &way, &check(asked, false)).await.unwrap_err();
            assert_eq!(failed.to_string(), Reason::NotHttp2.text());
        }
    }

    #[tokio::test]
    async fn a_server_of_http2_over_tls_that_refuses_the_scheme_http_passes() {
        let own = rcgen::generate_simple_self_signed(["a.test".to_owned()]).unwrap();
        let key = rustls::pki_types::PrivateKeyDer::try_from(own.signing_key.serialize_der());
        let config = rustls::ServerConfig::builder().with_no_client_auth();
        let config = config.with_single_cert(vec![own.cert.der().clone()], key.unwrap()).unwrap();
        let tls = tokio_rustls::TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let stream = tls.accept(stream).await.unwrap();
            let mut streams = h2::server::handshake(stream).await.unwrap();
            while let Some(Ok((request, mut respond))) = streams.accept().await {
                if request.uri().scheme_str() == Some("https") {
                    respond.send_response(http::Response::new(()), true).unwrap();
                } else {
                    respond.send_reset(h2::Reason::PROTOCOL_ERROR);
                }
            }
        });
        let tls = Some(Dialing::unverified().unwrap());
        let way = Way { tls, version: HttpVersion::Http2, ..PLAIN };
        let check = HealthCheck { timeout: Duration::from_secs(10), ..check(http(), false) };
        probe(address, &way, &check).await.unwrap();
    }

    /// As nginx with `keepalive_requests 1` does: SETTINGS, HEADERS with `:status: 200` that end
    /// the stream, and GOAWAY, in one packet with the end of the connection.
    #[tokio::test]
    async fn a_server_of_http2_that_answers_and_closes_at_once_passes() {
        const ANSWER: &[u8] = b"\0\0\0\x04\0\0\0\0\0\
            \0\0\x01\x01\x05\0\0\0\x01\x88\
            \0\0\x08\x07\0\0\0\0\0\0\0\0\x01\0\0\0\0";
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut asked = Vec::new();
                // The preface, SETTINGS, and the request, which ends its stream.
                while !asked.windows(5).any(|it| it[0] == 1 && it[1] & 1 == 1 && it[2..] == [0; 3])
                    && stream.read_buf(&mut asked).await.unwrap() > 0
                {}
                stream.write_all(ANSWER).await.unwrap();
                stream.shutdown().await.unwrap();
                // Closing with bytes unread would reset the connection.
                let _ = stream.read_to_end(&mut asked).await;
            }
        });
        let way = Way { version: HttpVersion::Http2, ..PLAIN };
        for _ in 0..20 {
            probe(address, &way, &check(http(), false)).await.unwrap();
        }
    }

    fn script(name: &str, script: Script) -> Probe {
        Probe::Script { name: name.to_owned(), script }
    }

    #[tokio::test]
    async fn a_script_over_a_connection_tells_at_which_step_it_broke() {
        let redis = Script {
            transport: Transport::Tcp,
            steps: vec![
                Step::Send(b"PING\r\n".to_vec()),
                Step::Expect(Pattern::exact(b"+PONG\r\n")),
            ],
        };
        let check = check(script("redis", redis), false);
        let address = answering(b"+PONG\r\n").await;
        assert!(probe(address, &PLAIN, &check).await.is_ok());
        let address = answering(b"-LOADING\r\n").await;
        let failed = probe(address, &PLAIN, &check).await.unwrap_err();
        let told = "step 2: expected \"+PONG\\r\\n\", heard \"-LOADING\\r\\n\"";
        assert_eq!(failed.to_string(), told);
        let address = answering(b"+PO").await;
        let failed = probe(address, &PLAIN, &check).await.unwrap_err();
        assert!(failed.to_string().starts_with("closed at step 2"), "{failed}");
    }

    #[tokio::test]
    async fn a_name_server_is_asked_in_a_datagram() {
        let server = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = server.local_addr().unwrap();
        let check = check(script("DNS", Script::dns()), false);
        let answering = tokio::spawn(async move {
            for code in [0, 2] {
                let mut packet = [0; 64];
                let (length, from) = server.recv_from(&mut packet).await.unwrap();
                (packet[2], packet[3]) = (0x80, code);
                server.send_to(&packet[..length], from).await.unwrap();
            }
        });
        assert!(probe(address, &PLAIN, &check).await.is_ok());
        let failed = probe(address, &PLAIN, &check).await.unwrap_err();
        assert!(matches!(failed, ProbeError::Script(ScriptError::Mismatch(_))), "{failed}");
        answering.await.unwrap();
        let refused = probe(address, &PLAIN, &check).await.unwrap_err();
        assert_eq!(refused.to_string(), "connection refused", "as of any other check");
    }

    #[tokio::test]
    async fn tls_is_more_than_a_connection() {
        let address = answering(b"220 in clear\r\n").await;
        let failed = probe(address, &PLAIN, &check(Probe::Tls, false)).await.unwrap_err();
        assert!(matches!(failed, ProbeError::Connection(_)), "{failed}");
    }

    #[tokio::test]
    async fn a_server_that_accepts_and_says_nothing_fails_in_time_but_passes_a_tcp_check() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let failed = probe(address, &PLAIN, &check(http(), false)).await.unwrap_err();
        assert_eq!(failed.to_string(), "timed out while waiting for the response (300ms)");
        assert!(probe(address, &PLAIN, &check(Probe::Tcp, false)).await.is_ok());
        drop(listener);
        let refused = probe(address, &PLAIN, &check(Probe::Tcp, false)).await;
        assert!(matches!(refused, Err(ProbeError::Connection(_))));
    }
}
