//! The requests to an authority, a connection each: a certificate takes about ten in a month.

use std::{
    error::Error as StdError,
    fs, io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{
    HeaderValue, Request, StatusCode, Uri,
    header::{HOST, RETRY_AFTER, USER_AGENT},
};
use http_body_util::{BodyExt as _, Limited};
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use loadline_core::fleet::acme::Issuer;
use rustls::{
    ClientConfig, RootCertStore,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, ServerName, pem::PemObject as _},
};
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::TlsConnector;

/// Sends requests over TLS. Copies are one client.
#[derive(Clone)]
pub(super) struct Client {
    tls: TlsConnector,
    retry_after_s: Arc<AtomicU64>,
}

type Anything = Box<dyn StdError + Send + Sync>;

impl Client {
    /// One that trusts whom the file says, or the system.
    pub(super) fn of(issuer: &Issuer) -> io::Result<Self> {
        let mut roots = RootCertStore::empty();
        match &issuer.authorities {
            Some(path) => {
                let wrong = |why: &dyn StdError| io::Error::other(format!("`{path}`: {why}"));
                let file = fs::read(path).map_err(|error| wrong(&error))?;
                for certificate in CertificateDer::pem_slice_iter(&file) {
                    let certificate = certificate.map_err(|error| wrong(&error))?;
                    roots.add(certificate).map_err(|error| wrong(&error))?;
                }
            }
            None => {
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            }
        }
        let provider = Arc::new(aws_lc_rs::default_provider());
        let config =
            ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.map_err(io::Error::other)?;
        let config = config.with_root_certificates(roots).with_no_client_auth();
        Ok(Self { tls: TlsConnector::from(Arc::new(config)), retry_after_s: Arc::default() })
    }

    /// How long the authority wants to be left alone, in seconds, where it has said so since this
    /// was asked last.
    pub(super) fn take_retry_after(&self) -> Option<u64> {
        Some(self.retry_after_s.swap(0, Relaxed)).filter(|seconds| *seconds > 0)
    }

    async fn send(self, request: Request<BodyWrapper<Bytes>>) -> Result<BytesResponse, Anything> {
        let uri = request.uri().clone();
        let host = uri.host().ok_or("a URL without a host")?.trim_matches(['[', ']']).to_owned();
        if uri.scheme_str() != Some("https") {
            return Err("a URL that is not https".into());
        }
        let socket = TcpStream::connect((&*host, uri.port_u16().unwrap_or(443))).await?;
        let stream = self.tls.connect(ServerName::try_from(host)?, socket).await?;
        let (mut sender, connection) = handshake(TokioIo::new(stream)).await?;
        // How it ends is told by its request.
        tokio::spawn(connection);
        let response = sender.send_request(in_origin_form(request, &uri)?).await?;
        let (parts, body) = response.into_parts();
        let asks = [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE];
        if asks.contains(&parts.status) {
            let given = parts.headers.get(RETRY_AFTER).and_then(|it| it.to_str().ok());
            let seconds = given.and_then(|text| text.trim().parse().ok());
            self.retry_after_s.fetch_max(seconds.unwrap_or(0), Relaxed);
        }
        let body = Limited::new(body, BODY_MAX).collect().await?.to_bytes();
        Ok(BytesResponse { parts, body: Box::new(body) })
    }
}

/// As it goes over a connection: the path alone, with the host beside it.
fn in_origin_form(
    mut request: Request<BodyWrapper<Bytes>>,
    uri: &Uri,
) -> Result<Request<BodyWrapper<Bytes>>, http::Error> {
    let authority = uri.authority().map_or("", |it| it.as_str());
    request.headers_mut().insert(HOST, HeaderValue::from_str(authority)?);
    request.headers_mut().insert(USER_AGENT, HeaderValue::from_static(NAME));
    *request.uri_mut() = uri.path_and_query().map_or("/", |it| it.as_str()).parse()?;
    Ok(request)
}

impl HttpClient for Client {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let (client, place) = (self.clone(), request.uri().to_string());
        Box::pin(async move {
            let told = |why: &dyn std::fmt::Display| Error::Other(format!("{place}: {why}").into());
            match timeout(LIMIT, client.send(request)).await {
                Ok(sent) => sent.map_err(|error| told(&error)),
                Err(_) => Err(told(&"no answer in time")),
            }
        })
    }
}

const NAME: &str = concat!("loadline/", env!("CARGO_PKG_VERSION"));

/// Authorities answer within seconds, or are in trouble.
const LIMIT: Duration = Duration::from_secs(30);

/// Far more than a chain of certificates has.
const BODY_MAX: usize = 1 << 20;
