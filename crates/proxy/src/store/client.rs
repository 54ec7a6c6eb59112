//! The few requests of a search for credentials: to the metadata service of an instance, or to a
//! token service. A connection each.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, Uri, header::HOST};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use reqsign_core::{Error, HttpSend};
use rustls::pki_types::ServerName;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::TlsConnector;

use crate::tls::Dialing;

/// Sends requests, with TLS where their URL says so.
#[derive(Debug)]
pub(super) struct Client;

impl HttpSend for Client {
    async fn http_send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, Error> {
        let place = request.uri().to_string();
        let sent = timeout(LIMIT, send(request)).await;
        sent.unwrap_or_else(|_| Err(Error::unexpected(format!("{place} does not answer in time"))))
    }
}

async fn send(request: Request<Bytes>) -> Result<Response<Bytes>, Error> {
    let uri = request.uri().clone();
    let is_secure = uri.scheme_str() == Some("https");
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
    let port = uri.port_u16().unwrap_or(if is_secure { 443 } else { 80 });
    let stream = TcpStream::connect((&*host, port)).await.map_err(|error| wrong(&uri, &error))?;
    if !is_secure {
        return over(stream, request).await;
    }
    let dialing = Dialing::verified().map_err(|error| wrong(&uri, &error))?;
    let name = ServerName::try_from(host).map_err(|error| wrong(&uri, &error))?;
    let connector = TlsConnector::from(dialing.config());
    let stream = connector.connect(name, stream).await.map_err(|error| wrong(&uri, &error))?;
    over(stream, request).await
}

async fn over(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    request: Request<Bytes>,
) -> Result<Response<Bytes>, Error> {
    let uri = request.uri().clone();
    let broken = |error: hyper::Error| wrong(&uri, &error);
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await.map_err(broken)?;
    tokio::spawn(connection);
    let mut request = request.map(Full::new);
    if let Some(authority) = uri.authority()
        && let Ok(host) = HeaderValue::from_str(authority.as_str())
    {
        request.headers_mut().entry(HOST).or_insert(host);
    }
    let target = uri.path_and_query().map_or("/", |it| it.as_str());
    *request.uri_mut() = target.parse::<Uri>().map_err(|error| wrong(&uri, &error))?;
    let response = sender.send_request(request).await.map_err(broken)?;
    let (parts, body) = response.into_parts();
    let body = Limited::new(body, BODY_MAX).collect().await;
    let body = body.map_err(|error| Error::unexpected(format!("{uri}: {error}")))?;
    Ok(Response::from_parts(parts, body.to_bytes()))
}

fn wrong(uri: &Uri, error: &dyn std::error::Error) -> Error {
    Error::unexpected(format!("{uri}: {error}"))
}

/// Services of this kind are next door; outside of a cloud nobody is there.
const LIMIT: Duration = Duration::from_secs(3);

/// Far more than a token has.
const BODY_MAX: usize = 1 << 20;
