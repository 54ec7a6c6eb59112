//! Opening connections: look the name up, connect, shake hands.

use std::{
    cell::Cell,
    io,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    task::{Context, Poll},
};

use loadline_core::time::Duration;
use loadline_linux::{clock, socket};
use nix::sys::socket::{setsockopt, sockopt::IpBindAddressNoPort};
use rustls::pki_types::ServerName;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpSocket, TcpStream},
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::{
    http1::Failure,
    http3::Http3Connection,
    outcome::{Outcome, Shortage},
    quic::Quic,
    run::LoadError,
    target::Target,
    tls,
    transport::{Protocol, TlsVersion, Transport},
};

/// Opens connections as a [`Transport`] says.
pub(crate) struct Connector {
    tls: Option<TlsConnector>,
    /// Where HTTP/3 is spoken.
    quic: Option<Quic>,
    /// Whether HTTP/2 is spoken without TLS.
    plain_http2: bool,
    /// What is spoken over TLS.
    secure: Protocol,
    sources: Vec<IpAddr>,
    /// Which of the sources is next.
    turn: Cell<usize>,
}

/// Where connections go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(crate) address: SocketAddr,
    /// The name to verify where TLS is spoken.
    pub(crate) name: Option<ServerName<'static>>,
}

/// A connection that was just opened.
pub(crate) struct Opened<W = Wire> {
    pub(crate) wire: W,
    /// Whether HTTP/2 is spoken, or else HTTP/1.1.
    pub(crate) http2: bool,
    /// What is spoken, in words.
    pub(crate) protocol: &'static str,
    /// How long the TCP connection took, or the handshake of QUIC, of which TLS is a part.
    pub(crate) connect: Duration,
    /// How long the TLS handshake took over TCP.
    pub(crate) tls: Option<Duration>,
}

/// Why there is no connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NoConnection {
    /// The class of a request that needed it.
    pub(crate) outcome: Outcome,
    /// The resource that the generator lacked, if that is why.
    pub(crate) shortage: Option<Shortage>,
    /// What TLS found wrong.
    pub(crate) reason: Option<String>,
}

/// The bytes of a connection, plain or through TLS.
pub(crate) enum Wire {
    Plain(TcpStream),
    Secure(Box<TlsStream<TcpStream>>),
}

impl NoConnection {
    /// What a request failed by that needed it.
    pub(crate) fn failure(self) -> Failure {
        match self.reason {
            Some(reason) => Failure::WithReason(self.outcome, reason),
            None => Failure::Ended(self.outcome),
        }
    }
}

impl Connector {
    /// A connector to `targets`; certificates and keys are read now, and every source address is
    /// tried.
    ///
    /// # Errors
    /// [`LoadError`] where a file or a source address cannot be used.
    pub(crate) fn new<'a>(
        transport: &Transport,
        mut targets: impl Iterator<Item = &'a Target>,
    ) -> Result<Self, LoadError> {
        let protocol = transport.protocol;
        let secure = targets.any(Target::is_secure);
        let is_quic = protocol == Protocol::Http3;
        let tls = (secure && !is_quic).then(|| tls::connector(transport, protocol)).transpose()?;
        let quic = is_quic.then(|| Quic::new(transport)).transpose()?;
        for source in &transport.sources {
            bound(*source)
                .map_err(|error| LoadError::Source { address: *source, source: error })?;
        }
        Ok(Self {
            tls,
            quic,
            plain_http2: protocol == Protocol::Http2,
            secure: protocol,
            sources: transport.sources.clone(),
            turn: Cell::new(0),
        })
    }

    /// Leaves the server no choice any more: over TLS, HTTP/2 or else HTTP/1.1.
    ///
    /// # Errors
    /// [`LoadError`] where a file has changed meanwhile.
    pub(crate) fn settle(&mut self, transport: &Transport, http2: bool) -> Result<(), LoadError> {
        self.secure = if http2 { Protocol::Http2 } else { Protocol::Http1 };
        if self.tls.is_some() {
            self.tls = Some(tls::connector(transport, self.secure)?);
        }
        Ok(())
    }

    /// Whether HTTP/2 is spoken to `endpoint`, once that is settled.
    pub(crate) fn speaks_http2(&self, endpoint: &Endpoint) -> bool {
        if endpoint.name.is_some() { self.secure == Protocol::Http2 } else { self.plain_http2 }
    }

    /// Whether HTTP/3 is spoken to every endpoint.
    pub(crate) const fn speaks_http3(&self) -> bool {
        self.quic.is_some()
    }

    /// Whether one of the sources can reach `endpoint`.
    ///
    /// # Errors
    /// [`LoadError::Family`] where none has an address of its family.
    pub(crate) fn check(&self, endpoint: &Endpoint) -> Result<(), LoadError> {
        let address = endpoint.address;
        match self.sources.first() {
            Some(source) if self.next_source(address).is_none() => {
                Err(LoadError::Family { source_address: *source, address })
            }
            _ => Ok(()),
        }
    }

    /// Those of the addresses of a host that one of the sources can reach; all where none is.
    pub(crate) fn usable(&self, mut addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
        let reached = |address: &SocketAddr| {
            self.sources.iter().any(|source| source.is_ipv4() == address.is_ipv4())
        };
        if addresses.iter().any(reached) {
            addresses.retain(reached);
        }
        addresses
    }

    /// Opens one connection. The caller sets the limit of time.
    ///
    /// # Errors
    /// [`NoConnection`] with the class of a request that needed it.
    pub(crate) async fn open(&self, endpoint: &Endpoint) -> Result<Opened, NoConnection> {
        let begun = clock::now();
        let stream = self.tcp(endpoint.address).await.map_err(|error| NoConnection {
            outcome: Outcome::of_connect_error(&error),
            shortage: Shortage::of(&error),
            reason: None,
        })?;
        // Without this a long body's last segment waits for the acknowledgement of the one
        // before. Where it cannot be set the connection is broken, and the exchange will say so.
        let _ = stream.set_nodelay(true);
        let connected = clock::now();
        let connect = connected.since(begun);
        let (Some(name), Some(tls)) = (&endpoint.name, &self.tls) else {
            let http2 = self.plain_http2;
            let (wire, protocol) = (Wire::Plain(stream), protocol(http2, None));
            return Ok(Opened { wire, http2, protocol, connect, tls: None });
        };
        let stream = tls.connect(name.clone(), stream).await.map_err(|error| NoConnection {
            outcome: tls::outcome_of(&error),
            shortage: None,
            reason: Some(tls::in_words(&error)),
        })?;
        let session = stream.get_ref().1;
        let http2 = session.alpn_protocol() == Some(tls::ALPN_HTTP2);
        if self.secure == Protocol::Http2 && !http2 {
            let reason = Some("the server does not choose HTTP/2".to_owned());
            return Err(NoConnection { outcome: Outcome::BadAnswer, shortage: None, reason });
        }
        let protocol = protocol(http2, tls::version_of(session.protocol_version()));
        let wire = Wire::Secure(Box::new(stream));
        Ok(Opened { wire, http2, protocol, connect, tls: Some(clock::now().since(connected)) })
    }

    /// Opens one connection for HTTP/3. The caller sets the limit of time.
    ///
    /// # Errors
    /// As [`Connector::open`].
    pub(crate) async fn open_http3(
        &self,
        endpoint: &Endpoint,
    ) -> Result<Opened<Http3Connection>, NoConnection> {
        let (Some(quic), Some(name)) = (&self.quic, &endpoint.name) else {
            let reason = Some("HTTP/3 is spoken to https:// alone".to_owned());
            return Err(NoConnection { outcome: Outcome::BadAnswer, shortage: None, reason });
        };
        quic.open(endpoint.address, name, self.next_source(endpoint.address)).await
    }

    /// Whether anybody takes a connection there.
    pub(crate) async fn reaches(&self, endpoint: &Endpoint) -> bool {
        match self.quic {
            Some(_) => self.open_http3(endpoint).await.is_ok(),
            None => TcpStream::connect(endpoint.address).await.is_ok(),
        }
    }

    /// Closes what is open of QUIC. Connections of TCP are closed as they are dropped.
    pub(crate) async fn close(&self) {
        if let Some(quic) = &self.quic {
            quic.close().await;
        }
    }

    async fn tcp(&self, address: SocketAddr) -> io::Result<TcpStream> {
        if self.sources.is_empty() {
            return TcpStream::connect(address).await;
        }
        let source = self.next_source(address).ok_or(io::ErrorKind::Unsupported)?;
        bound(source)?.connect(address).await
    }

    /// The next source among those of the family of `address`.
    fn next_source(&self, address: SocketAddr) -> Option<IpAddr> {
        let count = self.sources.len();
        let turns = (0..count).map(|step| (self.turn.get() + step) % count);
        let turn =
            turns.into_iter().find(|turn| self.sources[*turn].is_ipv4() == address.is_ipv4())?;
        self.turn.set((turn + 1) % count);
        Some(self.sources[turn])
    }
}

impl Wire {
    /// Whether nothing has come, neither an end nor bytes nobody asked for. Bytes of TLS that are
    /// no bytes of the application, a session ticket above all, are taken in.
    pub(crate) async fn is_quiet(&mut self) -> bool {
        if let Self::Plain(stream) = self {
            let read = stream.try_read(&mut [0]);
            return matches!(read, Err(error) if error.kind() == io::ErrorKind::WouldBlock);
        }
        std::future::poll_fn(|cx| {
            let mut byte = [0];
            let read = Pin::new(&mut *self).poll_read(cx, &mut ReadBuf::new(&mut byte));
            Poll::Ready(read.is_pending())
        })
        .await
    }

    /// Bytes that were sent and that the other side has not acknowledged.
    pub(crate) fn unacknowledged(&self) -> usize {
        let stream = match self {
            Self::Plain(stream) => stream,
            Self::Secure(stream) => stream.get_ref().0,
        };
        socket::unacknowledged(stream).map_or(0, |bytes| bytes as usize)
    }
}

/// Every address of the host.
///
/// # Errors
/// [`LoadError::Resolve`] where there is none.
pub(crate) async fn look_up(target: &Target) -> Result<Vec<SocketAddr>, LoadError> {
    let failed = |source| LoadError::Resolve { host: target.host().to_owned(), source };
    let host = target.scoped_host();
    let found = tokio::net::lookup_host((&*host, target.port())).await.map_err(failed)?;
    let addresses: Vec<_> = found.collect();
    if addresses.is_empty() {
        return Err(failed(io::ErrorKind::NotFound.into()));
    }
    Ok(addresses)
}

/// A socket that will connect from `source`. Its port is chosen when it connects, so that one port
/// can be in use to several addresses at a time.
fn bound(source: IpAddr) -> io::Result<TcpSocket> {
    let (socket, any_port) = match source {
        IpAddr::V4(address) => (TcpSocket::new_v4()?, SocketAddr::from((address, 0))),
        IpAddr::V6(address) => (TcpSocket::new_v6()?, SocketAddr::from((address, 0))),
    };
    setsockopt(&socket, IpBindAddressNoPort, &true)?;
    socket.bind(any_port)?;
    Ok(socket)
}

/// What is spoken, as it stands in records.
const fn protocol(http2: bool, tls: Option<TlsVersion>) -> &'static str {
    match (http2, tls) {
        (false, None) => "HTTP/1.1",
        (false, Some(TlsVersion::V12)) => "HTTP/1.1 over TLS 1.2",
        (false, Some(TlsVersion::V13)) => "HTTP/1.1 over TLS 1.3",
        (true, None) => "HTTP/2",
        (true, Some(TlsVersion::V12)) => "HTTP/2 over TLS 1.2",
        (true, Some(TlsVersion::V13)) => "HTTP/2 over TLS 1.3",
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Secure(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Secure(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Secure(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Secure(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_the_addresses_of_a_name_those_count_that_a_source_can_reach() {
        let (four, six) = ("127.0.0.1:80".parse().unwrap(), "[::1]:80".parse().unwrap());
        let usable = |sources: &[&str], addresses: &[SocketAddr]| {
            let sources = sources.iter().map(|source| source.parse().unwrap()).collect();
            let transport = Transport { sources, ..Transport::default() };
            let connector = Connector::new(&transport, std::iter::empty()).unwrap();
            connector.usable(addresses.to_vec())
        };
        assert_eq!(usable(&["127.0.0.2"], &[six, four]), [four]);
        assert_eq!(usable(&["127.0.0.2"], &[six]), [six], "it is told that it cannot be reached");
        assert_eq!(usable(&[], &[six, four]), [six, four]);
    }
}
