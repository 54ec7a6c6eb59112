//! Requests of our own to others, a connection each: they are few.

use std::{error::Error as StdError, io, net::SocketAddr, path::Path, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{
    HeaderValue, Request, Response, Uri,
    header::{HOST, USER_AGENT},
};
use http_body_util::{BodyExt as _, Limited};
use hyper::{body::Body, client::conn::http1::handshake};
use hyper_util::rt::TokioIo;
use rustls::{RootCertStore, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, lookup_host},
    time::timeout,
};
use tokio_rustls::TlsConnector;

use crate::tls;

/// Sends requests. Copies are one client.
#[derive(Clone)]
pub(crate) struct Client(TlsConnector);

/// Whatever may go wrong.
pub(crate) type Anything = Box<dyn StdError + Send + Sync>;

impl Client {
    /// One that trusts the authorities in this file, or those of the system.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub(crate) fn trusting(authorities: Option<&str>) -> io::Result<Self> {
        let roots = match authorities {
            Some(path) => {
                let found = tls::authorities(Path::new(path));
                found.map_err(|why| io::Error::other(format!("`{path}` {why}")))?
            }
            None => {
                let mut roots = RootCertStore::empty();
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
                roots
            }
        };
        let config = tls::trusting(roots).map_err(io::Error::other)?.with_no_client_auth();
        Ok(Self(TlsConnector::from(Arc::new(config))))
    }

    /// Sends a request to the host of its URL, over TLS unless that says `http`. A response of more
    /// than 1 MiB is an error.
    ///
    /// # Errors
    /// Whatever goes wrong. Nothing here ends by time.
    pub(crate) async fn send<B>(&self, request: Request<B>) -> Result<Response<Bytes>, Anything>
    where
        B: Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<Anything>,
    {
        let uri = request.uri().clone();
        let host = uri.host().ok_or("a URL without a host")?.trim_matches(['[', ']']).to_owned();
        let is_plain = uri.scheme_str() == Some("http");
        let port = uri.port_u16().unwrap_or(if is_plain { 80 } else { 443 });
        let socket = connect(&by_turns(lookup_host((&*host, port)).await?)).await?;
        if is_plain {
            return over(socket, request, &uri).await;
        }
        let secure = self.0.connect(ServerName::try_from(host)?, socket).await;
        over(secure.map_err(|error| tls::in_words(&error))?, request, &uri).await
    }
}

/// The addresses of both families by turns, since all of one may be out of reach.
fn by_turns(addresses: impl Iterator<Item = SocketAddr>) -> Vec<SocketAddr> {
    let mut addresses = addresses.peekable();
    let is_first_v6 = addresses.peek().is_some_and(SocketAddr::is_ipv6);
    let (first, other): (Vec<_>, Vec<_>) =
        addresses.partition(|address| address.is_ipv6() == is_first_v6);
    let turns = 0..first.len().max(other.len());
    turns.flat_map(|at| first.get(at).into_iter().chain(other.get(at))).copied().collect()
}

/// Connects to the first address that answers. Each but the last has a moment, since one whose
/// packets are swallowed would take the time of all.
async fn connect(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    let none = || io::Error::new(io::ErrorKind::NotFound, "a host without an address");
    let (last, others) = addresses.split_last().ok_or_else(none)?;
    for address in others {
        if let Ok(Ok(socket)) = timeout(MOMENT, TcpStream::connect(address)).await {
            return Ok(socket);
        }
    }
    TcpStream::connect(last).await
}

async fn over<S, B>(stream: S, request: Request<B>, uri: &Uri) -> Result<Response<Bytes>, Anything>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Anything>,
{
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await?;
    // How it ends is told by its request.
    tokio::spawn(connection);
    let response = sender.send_request(in_origin_form(request, uri)?).await?;
    let (parts, body) = response.into_parts();
    let body = Limited::new(body, BODY_MAX).collect().await?.to_bytes();
    Ok(Response::from_parts(parts, body))
}

/// As it goes over a connection: the path alone, with the host beside it.
fn in_origin_form<B>(mut request: Request<B>, uri: &Uri) -> Result<Request<B>, http::Error> {
    let authority = uri.authority().map_or("", |it| it.as_str());
    request.headers_mut().insert(HOST, HeaderValue::from_str(authority)?);
    request.headers_mut().insert(USER_AGENT, HeaderValue::from_static(NAME));
    *request.uri_mut() = uri.path_and_query().map_or("/", |it| it.as_str()).parse()?;
    Ok(request)
}

const NAME: &str = concat!("loadline/", env!("CARGO_PKG_VERSION"));

/// Far more than a chain of certificates or a set of keys has.
const BODY_MAX: usize = 1 << 20;

/// Longer than a connection takes to stand, as a rule.
const MOMENT: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use http_body_util::Empty;
    use rcgen::ExtendedKeyUsagePurpose::ClientAuth;
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        join,
        net::{TcpListener, TcpSocket},
    };
    use tokio_rustls::TlsAcceptor;

    use super::*;
    use crate::tls::tests::self_signed;

    #[test]
    fn both_families_are_tried_by_turns() {
        let order = |addresses: &[&str]| -> Vec<String> {
            let addresses = addresses.iter().map(|it| it.parse().unwrap());
            by_turns(addresses).iter().map(ToString::to_string).collect()
        };
        let given = ["[::1]:1", "[::2]:1", "[::3]:1", "10.0.0.1:1", "10.0.0.2:1"];
        let expected = ["[::1]:1", "10.0.0.1:1", "[::2]:1", "10.0.0.2:1", "[::3]:1"];
        assert_eq!(order(&given), expected);
        assert_eq!(order(&["10.0.0.1:1"]), ["10.0.0.1:1"]);
        assert!(order(&[]).is_empty());
    }

    /// What a client that trusts the file is answered by this server.
    async fn ask(server: &TlsAcceptor, authorities: &str) -> Result<Bytes, String> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}/", listener.local_addr().unwrap());
        let client = Client::trusting(Some(authorities)).unwrap();
        let asked = client.send(Request::get(url).body(Empty::<Bytes>::new()).unwrap());
        let serve = async {
            let (socket, _) = listener.accept().await.unwrap();
            let (mut stream, mut request) = (server.accept(socket).await?, Vec::new());
            stream.read_buf(&mut request).await?;
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await?;
            stream.flush().await?;
            // It stays open until the client has gone.
            stream.read_to_end(&mut request).await
        };
        let (answered, _) = join!(asked, serve);
        answered.map(Response::into_body).map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn a_self_signed_certificate_of_an_authority_is_enough_where_the_file_has_it() {
        let (server, file) = self_signed(&[]);
        let (_, other) = self_signed(&[]);
        assert_eq!(ask(&server, file.path().to_str().unwrap()).await.unwrap(), "ok");
        let refused = ask(&server, other.path().to_str().unwrap()).await.unwrap_err();
        assert!(refused.contains("certificate of an authority (CA:TRUE)"), "{refused}");
    }

    #[tokio::test]
    async fn a_trusted_certificate_of_an_authority_that_is_for_clients_is_refused() {
        let (server, file) = self_signed(&[ClientAuth]);
        let refused = ask(&server, file.path().to_str().unwrap()).await.unwrap_err();
        let told =
            "invalid peer certificate: unsuitable certificate purpose: it is not for a server";
        assert_eq!(refused, told);
    }

    #[tokio::test]
    async fn an_address_whose_packets_are_swallowed_gives_way_to_the_next() {
        let full = TcpSocket::new_v4().unwrap();
        full.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        // Its queue has one place, and packets of further connections are dropped.
        let full = full.listen(0).unwrap();
        let swallowing = full.local_addr().unwrap();
        let _first = TcpStream::connect(swallowing).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let answering = listener.local_addr().unwrap();
        let addresses = [swallowing, answering];
        let socket = timeout(10 * MOMENT, connect(&addresses)).await.unwrap().unwrap();
        assert_eq!(socket.peer_addr().unwrap(), answering);
    }
}
