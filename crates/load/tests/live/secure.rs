//! A server over TLS or HTTP/2 for the tests, on a thread of its own, and what it saw.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytes::Bytes;
use h2::{RecvStream, server::SendResponse};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::{
    RootCertStore, ServerConfig, SupportedProtocolVersion,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    server::WebPkiClientVerifier,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::oneshot,
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;

/// An authority that only these tests trust, and what it has signed.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate with its key, both as PEM.
pub(crate) struct Identity {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// What a server does with a request over HTTP/2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Http2Behaviour {
    /// Responses with 200 and ten bytes.
    Answer,
    /// Responds likewise after two interim responses with a field of 12 bytes each.
    Hint,
    /// Reads the body and answers with as many bytes.
    Echo,
    /// Resets each stream with this reason.
    Reset(h2::Reason),
    /// Answers one request of each connection and takes no more: GOAWAY.
    GoAway,
    /// Never answers.
    Hang,
}

/// How a server speaks.
pub(crate) struct Speech {
    pub(crate) tls: Option<ServerConfig>,
    pub(crate) http2: bool,
    pub(crate) manner: Http2Behaviour,
    /// How many streams it takes at a time over HTTP/2.
    pub(crate) streams: u32,
}

/// Serves until it is dropped.
pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    seen: Arc<Seen>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

#[derive(Default)]
struct Seen {
    connections: AtomicUsize,
    resumed: AtomicUsize,
    peers: Mutex<BTreeMap<IpAddr, usize>>,
    most_at_once: AtomicUsize,
    now: AtomicUsize,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        Self { issuer }
    }

    /// Its own certificate as PEM.
    pub(crate) fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// A certificate for `name`.
    pub(crate) fn sign(&self, name: &str) -> Identity {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap().pem();
        Identity { certificate, key: key.serialize_pem() }
    }

    /// A server's side of TLS that shows `identity`; it asks for a certificate of this authority
    /// where `of_client`.
    pub(crate) fn server(
        &self,
        identity: &Identity,
        versions: &[&'static SupportedProtocolVersion],
        of_client: bool,
    ) -> ServerConfig {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(versions)
            .unwrap();
        let builder = if of_client {
            let mut roots = RootCertStore::empty();
            roots.add(CertificateDer::from_pem_slice(self.pem().as_bytes()).unwrap()).unwrap();
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            builder.with_client_cert_verifier(verifier.unwrap())
        } else {
            builder.with_no_client_auth()
        };
        let chain = CertificateDer::from_pem_slice(identity.certificate.as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).unwrap();
        builder.with_single_cert(vec![chain], key).unwrap()
    }
}

impl Speech {
    /// HTTP/2 without TLS.
    pub(crate) fn plain_http2(manner: Http2Behaviour) -> Self {
        Self { tls: None, http2: true, manner, streams: 100 }
    }

    /// HTTP/1.1 or HTTP/2 over TLS, as is chosen by ALPN.
    pub(crate) fn secure(mut tls: ServerConfig, http2: bool) -> Self {
        let offered: &[&[u8]] = if http2 { &[b"h2", b"http/1.1"] } else { &[b"http/1.1"] };
        tls.alpn_protocols = offered.iter().map(|name| name.to_vec()).collect();
        Self { tls: Some(tls), http2, manner: Http2Behaviour::Answer, streams: 100 }
    }
}

impl Served {
    pub(crate) fn start(speech: Speech) -> Self {
        let listener = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], listener.local_addr().unwrap().port()));
        let (seen, (stop, stopped)) = (Arc::<Seen>::default(), oneshot::channel());
        let noted = Arc::clone(&seen);
        let thread = std::thread::spawn(move || {
            loadline_load::runtime().unwrap().block_on(async move {
                tokio::select! {
                    () = accept(TcpListener::from_std(listener).unwrap(), speech, noted) => {}
                    _ = stopped => {}
                }
            });
        });
        Self { address, seen, stop: Some(stop), thread: Some(thread) }
    }

    pub(crate) fn connections(&self) -> usize {
        self.seen.connections.load(Ordering::SeqCst)
    }

    /// TLS handshakes that resumed a session.
    pub(crate) fn resumed(&self) -> usize {
        self.seen.resumed.load(Ordering::SeqCst)
    }

    /// The most requests under way at a time, on all connections.
    pub(crate) fn most_at_once(&self) -> usize {
        self.seen.most_at_once.load(Ordering::SeqCst)
    }

    /// Connections by the address they came from.
    pub(crate) fn peers(&self) -> BTreeMap<IpAddr, usize> {
        self.seen.peers.lock().unwrap().clone()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

async fn accept(listener: TcpListener, speech: Speech, seen: Arc<Seen>) {
    let Speech { tls, http2, manner, streams } = speech;
    let tls = tls.map(|config| TlsAcceptor::from(Arc::new(config)));
    let mut tasks = JoinSet::new();
    loop {
        let (stream, peer) = listener.accept().await.unwrap();
        seen.connections.fetch_add(1, Ordering::SeqCst);
        *seen.peers.lock().unwrap().entry(peer.ip()).or_default() += 1;
        tasks.spawn(serve(stream, tls.clone(), (http2, manner, streams), Arc::clone(&seen)));
    }
}

async fn serve(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    (http2, manner, streams): (bool, Http2Behaviour, u32),
    seen: Arc<Seen>,
) {
    let Some(tls) = tls else {
        if http2 {
            return speak_http2(stream, manner, streams, seen).await;
        }
        return speak_http1(stream).await;
    };
    let Ok(stream) = tls.accept(stream).await else { return };
    let session = stream.get_ref().1;
    let resumed = session.handshake_kind() == Some(rustls::HandshakeKind::Resumed);
    seen.resumed.fetch_add(usize::from(resumed), Ordering::SeqCst);
    if session.alpn_protocol() == Some(b"h2") {
        speak_http2(stream, manner, streams, seen).await;
    } else {
        speak_http1(stream).await;
    }
}

async fn speak_http1(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    let mut request = Vec::new();
    while let Ok(count @ 1..) = stream.read_buf(&mut request).await {
        assert!(count < 16_384, "requests of the tests are short");
        if request.ends_with(b"\r\n\r\n") {
            request.clear();
            let answer = b"HTTP/1.1 200 OK\r\nServed-By: tls\r\nContent-Length: 2\r\n\r\nok";
            if stream.write_all(answer).await.is_err() || stream.flush().await.is_err() {
                return;
            }
        }
    }
}

async fn speak_http2(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    manner: Http2Behaviour,
    streams: u32,
    seen: Arc<Seen>,
) {
    let mut builder = h2::server::Builder::new();
    builder.max_concurrent_streams(streams);
    let Ok(mut connection) = builder.handshake::<_, Bytes>(stream).await else { return };
    let mut tasks = JoinSet::new();
    while let Some(Ok((request, answer))) = connection.accept().await {
        tasks.spawn(answer_http2(request.into_body(), answer, manner, Arc::clone(&seen)));
        if manner == Http2Behaviour::GoAway {
            connection.graceful_shutdown();
        }
    }
}

async fn answer_http2(
    mut body: RecvStream,
    mut answer: SendResponse<Bytes>,
    manner: Http2Behaviour,
    seen: Arc<Seen>,
) {
    let now = seen.now.fetch_add(1, Ordering::SeqCst) + 1;
    seen.most_at_once.fetch_max(now, Ordering::SeqCst);
    let mut received = Vec::new();
    while let Some(Ok(data)) = body.data().await {
        received.extend_from_slice(&data);
        body.flow_control().release_capacity(data.len()).unwrap();
    }
    tokio::task::yield_now().await;
    for _ in 0..if manner == Http2Behaviour::Hint { 2 } else { 0 } {
        let hint = http::Response::builder().status(103).header("link", "</a.css>");
        answer.send_informational(hint.body(()).unwrap()).unwrap();
    }
    let data = match manner {
        Http2Behaviour::Answer | Http2Behaviour::Hint | Http2Behaviour::GoAway => {
            Bytes::from_static(b"0123456789")
        }
        Http2Behaviour::Echo => received.into(),
        Http2Behaviour::Reset(reason) => return answer.send_reset(reason),
        Http2Behaviour::Hang => return std::future::pending().await,
    };
    seen.now.fetch_sub(1, Ordering::SeqCst);
    let head = http::Response::builder().header("served-by", "h2").body(()).unwrap();
    // The client may have gone.
    if let Ok(mut stream) = answer.send_response(head, false) {
        let _ = stream.send_data(data, true);
    }
}
