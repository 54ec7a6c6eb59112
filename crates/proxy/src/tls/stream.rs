//! TLS over a socket, with the interface of a socket.
//!
//! rustls keeps the state and does no I/O. Reading pulls records from the socket until one has
//! payload; writing seals what it is given and returns only when all of it is with the kernel, so
//! that nobody above has to flush. A handshake goes on inside whichever of the two is called.

use std::{
    io::{self, ErrorKind, IoSlice, Read, Write},
    mem,
    sync::Arc,
    task::{Context, Poll, ready},
};

use loadline_core::decide::reason::Phase;
use rustls::{
    ClientConfig, ClientConnection, Connection, ServerConfig, ServerConnection,
    pki_types::ServerName,
};

use super::{client::ClientTls, keys::Settings};
use crate::io::socket::Io;

/// One side of a TLS connection.
#[derive(Debug)]
pub(crate) struct Tls {
    connection: Connection,
    /// Payload that is sealed and not yet reported as written.
    owed: usize,
    /// The kernel has taken some of that.
    has_begun: bool,
    /// The peer has sent something.
    has_heard: bool,
    /// By which settings a connection to a server was made.
    settings: Option<Arc<Settings>>,
}

impl Tls {
    /// The side of a server that waits for a client's hello.
    ///
    /// # Errors
    /// What rustls finds wrong with the configuration.
    pub(crate) fn server(config: Arc<ServerConfig>) -> Result<Box<Self>, rustls::Error> {
        Ok(Self::over(Connection::Server(ServerConnection::new(config)?)))
    }

    /// The side of a client that asks for `name`.
    ///
    /// # Errors
    /// What rustls finds wrong with the configuration.
    pub(crate) fn client(
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
    ) -> Result<Box<Self>, rustls::Error> {
        Ok(Self::over(Connection::Client(ClientConnection::new(config, name)?)))
    }

    fn over(connection: Connection) -> Box<Self> {
        Box::new(Self { connection, owed: 0, has_begun: false, has_heard: false, settings: None })
    }

    /// Notes by which settings it is made.
    pub(super) fn made_by(mut self: Box<Self>, settings: &Arc<Settings>) -> Box<Self> {
        self.settings = Some(settings.clone());
        self
    }

    /// By which settings it was made; none of a client's.
    pub(super) const fn settings(&self) -> Option<&Arc<Settings>> {
        self.settings.as_ref()
    }

    /// Whether the peer has sent something.
    pub(crate) const fn has_heard(&self) -> bool {
        self.has_heard
    }

    /// What is known of a client with which TLS is agreed on; nothing of a server.
    pub(crate) fn client_tls(&self) -> Option<ClientTls> {
        match &self.connection {
            Connection::Server(connection) => Some(ClientTls::of(connection)),
            Connection::Client(_) => None,
        }
    }

    /// How far a connection to a server has come.
    pub(crate) fn phase(&self) -> Phase {
        match (self.connection.is_handshaking(), self.connection.wants_write()) {
            (false, _) => Phase::Send,
            (true, false) => Phase::Handshake,
            // What is said first goes out as soon as the connection stands.
            (true, true) => Phase::Connect,
        }
    }

    /// The protocol that both sides agreed on (RFC 7301), if any.
    pub(crate) fn protocol(&self) -> Option<&[u8]> {
        self.connection.alpn_protocol()
    }

    /// Ready when both sides have agreed and everything of ours has gone out.
    pub(crate) fn poll_handshake(
        &mut self,
        io: &mut Io,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            ready!(self.poll_flush(io, cx))?;
            if !self.connection.is_handshaking() {
                return Poll::Ready(Ok(()));
            }
            if ready!(self.poll_take(io, cx))? == 0 {
                return Poll::Ready(Err(ErrorKind::UnexpectedEof.into()));
            }
        }
    }

    /// Reads payload; 0 where the peer said that no more comes. A stream that just ends is an
    /// error: somebody may have cut it.
    pub(crate) fn poll_read(
        &mut self,
        io: &mut Io,
        cx: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            match self.connection.reader().read(into) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
            // Part of a handshake or an alert may have to go before more can come. A peer that
            // takes nothing any more may have said something before.
            let flushed = self.poll_flush(io, cx);
            match (ready!(self.poll_take(io, cx)), flushed) {
                (Ok(1..), _) => {}
                (_, Poll::Ready(Err(error))) => return Poll::Ready(Err(error)),
                (taken, _) => drop(taken?),
            }
        }
    }

    /// Writes two pieces, one behind the other. Once this has been pending, the next call must
    /// begin with the same bytes: some of them are on their way.
    pub(crate) fn poll_write(
        &mut self,
        io: &mut Io,
        cx: &mut Context<'_>,
        pieces: [&[u8]; 2],
    ) -> Poll<io::Result<usize>> {
        if self.owed == 0 {
            ready!(self.poll_handshake(io, cx))?;
            self.owed = self.connection.writer().write_vectored(&pieces.map(IoSlice::new))?;
            self.has_begun = false;
        }
        ready!(self.poll_flush(io, cx))?;
        Poll::Ready(Ok(mem::take(&mut self.owed)))
    }

    /// Whether some of what [`Tls::poll_write`] was given is on its way, and has not been reported
    /// as written.
    pub(crate) const fn has_begun(&self) -> bool {
        self.owed > 0 && self.has_begun
    }

    /// Seals two pieces, one behind the other, for [`Tls::poll_flush`] to send. Sends by itself
    /// when rustls holds as much as it may.
    pub(crate) fn poll_seal(
        &mut self,
        io: &mut Io,
        cx: &mut Context<'_>,
        pieces: [&[u8]; 2],
    ) -> Poll<io::Result<usize>> {
        loop {
            match self.connection.writer().write_vectored(&pieces.map(IoSlice::new))? {
                0 if self.connection.wants_write() => ready!(self.poll_flush(io, cx))?,
                sealed => return Poll::Ready(Ok(sealed)),
            }
        }
    }

    /// Whether payload has been opened that nobody has read.
    pub(crate) fn has_payload(&mut self) -> bool {
        // An error is seen by the next read.
        let state = self.connection.process_new_packets();
        state.is_ok_and(|state| state.plaintext_bytes_to_read() > 0)
    }

    /// Whether the peer has sent neither payload nor the end. New session tickets are neither.
    pub(crate) fn is_quiet(&mut self, io: &mut Io) -> bool {
        loop {
            match self.connection.read_tls(&mut Now(io)) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Ok(1..) => {}
                _ => return false,
            }
            match self.connection.process_new_packets() {
                Ok(state) if state.plaintext_bytes_to_read() > 0 => return false,
                Ok(state) if state.peer_has_closed() => return false,
                Ok(_) => {}
                Err(_) => return false,
            }
        }
    }

    /// Waits for the peer to say that no more comes, or to vanish. Payload that comes first ends
    /// the watch.
    pub(crate) fn poll_closed(&mut self, io: &mut Io, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            match self.connection.process_new_packets() {
                Ok(state) if state.plaintext_bytes_to_read() > 0 => return Poll::Pending,
                Ok(state) if !state.peer_has_closed() => {}
                _ => return Poll::Ready(()),
            }
            match ready!(self.poll_take(io, cx)) {
                Ok(1..) => {}
                _ => return Poll::Ready(()),
            }
        }
    }

    /// Says that no more comes, if the kernel takes that at once.
    pub(crate) fn close(&mut self, io: &mut Io) {
        self.connection.send_close_notify();
        // Where it does not go out the peer sees a cut, which it has to expect at any time.
        let _ = self.connection.write_tls(&mut Now(io));
    }

    /// Takes records from the socket and opens them; 0 at the end of the stream.
    fn poll_take(&mut self, io: &mut Io, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let count = match self.connection.read_tls(&mut Wire { io, cx }) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Poll::Pending,
            taken => taken?,
        };
        self.has_heard |= count > 0;
        if let Err(error) = self.connection.process_new_packets() {
            // The alert that says why, for the peer's log.
            let _ = self.connection.write_tls(&mut Wire { io, cx });
            return Poll::Ready(Err(io::Error::new(ErrorKind::InvalidData, error)));
        }
        Poll::Ready(Ok(count))
    }

    /// Sends what is sealed; ready when the kernel has all of it.
    pub(crate) fn poll_flush(&mut self, io: &mut Io, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.connection.wants_write() {
            match self.connection.write_tls(&mut Wire { io, cx }) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Poll::Pending,
                Ok(0) => return Poll::Ready(Err(ErrorKind::WriteZero.into())),
                written => written?,
            };
            self.has_begun = true;
        }
        Poll::Ready(Ok(()))
    }
}

/// A socket in the shape rustls wants: what has to wait would block, and the task is woken.
struct Wire<'a, 'b> {
    io: &'a mut Io,
    cx: &'a mut Context<'b>,
}

impl Read for Wire<'_, '_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        blocking(self.io.poll_read(self.cx, into))
    }
}

impl Write for Wire<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        blocking(self.io.poll_write(self.cx, bytes))
    }

    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        blocking(self.io.poll_write_vectored(self.cx, pieces))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// As [`Wire`], for one look that wakes nobody later.
struct Now<'a>(&'a mut Io);

impl Read for Now<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.try_read(into)
    }
}

impl Write for Now<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn blocking<T>(poll: Poll<io::Result<T>>) -> io::Result<T> {
    match poll {
        Poll::Ready(done) => done,
        Poll::Pending => Err(ErrorKind::WouldBlock.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::poll_fn,
        net::{TcpListener, TcpStream},
        sync::mpsc::channel,
        thread,
        time::Duration,
    };

    use super::*;
    use crate::{io::socket::Socket, tls::Dialing};
    use rustls::{StreamOwned, pki_types::PrivateKeyDer};

    /// A connection to a server that does this with its end of it, once TLS is agreed on.
    async fn to<T: Send + 'static>(
        server: impl FnOnce(StreamOwned<ServerConnection, TcpStream>) -> T + Send + 'static,
    ) -> (Socket, thread::JoinHandle<T>) {
        let own = rcgen::generate_simple_self_signed(["a.test".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(own.signing_key.serialize_der()).unwrap();
        let config = ServerConfig::builder().with_no_client_auth();
        let config = config.with_single_cert(vec![own.cert.der().clone()], key).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let serving = thread::spawn(move || {
            let (mut tcp, _) = listener.accept().unwrap();
            let mut tls = ServerConnection::new(Arc::new(config)).unwrap();
            while tls.is_handshaking() || tls.wants_write() {
                tls.complete_io(&mut tcp).unwrap();
            }
            server(StreamOwned::new(tls, tcp))
        });
        let (config, name) = Dialing::unverified().unwrap().to(address);
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nonblocking(true).unwrap();
        let mut socket = Socket::raw(stream).over(Tls::client(config, name).unwrap());
        poll_fn(|cx| socket.poll_handshake(cx)).await.unwrap();
        (socket, serving)
    }

    #[tokio::test]
    async fn what_a_server_says_before_it_leaves_is_read_though_it_takes_nothing_any_more() {
        let (mut socket, serving) = to(|mut stream| {
            stream.write_all(b"early").unwrap();
            while stream.sock.peek(&mut [0; 2]).unwrap() < 2 {}
            // With bytes unread this resets the connection.
        })
        .await;
        let written = poll_fn(|cx| socket.poll_write(cx, b"the request")).await;
        assert_eq!(written.unwrap(), 11);
        serving.join().unwrap();
        let mut failed = None;
        while failed.is_none() {
            failed = poll_fn(|cx| socket.poll_write(cx, b"more")).await.err();
        }
        let mut read = [0; 9];
        let count = poll_fn(|cx| socket.poll_read(cx, &mut read)).await.unwrap();
        assert_eq!(&read[..count], b"early");
        assert!(poll_fn(|cx| socket.poll_read(cx, &mut read)).await.is_err());
    }

    #[tokio::test]
    async fn a_request_that_is_half_with_a_server_is_known_to_have_begun() {
        let (done, is_done) = channel::<()>();
        let (mut socket, serving) = to(move |mut stream| {
            while is_done.try_recv().is_err() {
                let _ = stream.sock.read(&mut [0; 4096]).unwrap();
                thread::sleep(Duration::from_millis(1));
            }
        })
        .await;
        assert!(!socket.has_begun_write());
        let text = vec![b'a'; 1 << 20];
        loop {
            let written = poll_fn(|cx| Poll::Ready(socket.poll_write(cx, &text))).await;
            assert!(written.is_pending() || !socket.has_begun_write());
            if socket.has_begun_write() {
                break;
            }
        }
        done.send(()).unwrap();
        serving.join().unwrap();
        assert!(poll_fn(|cx| socket.poll_write(cx, &text)).await.is_err());
        assert!(socket.has_begun_write());
    }
}
