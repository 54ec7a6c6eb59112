//! What bytes come from and go to: a TCP connection, TLS over it, a stream of HTTP/2 from a client
//! or to a server, files; or nobody at all.
//!
//! The reactor hears of a TCP connection only when it must. It is *raw* at first: system calls go
//! straight to it. The first one that would block registers it, and from then on it is *watched*:
//! tokio knows from the kernel's events whether trying is worthwhile. A client that connects, asks,
//! is answered and leaves is never registered, which saves two of its eight system calls.

mod length;
mod room;
mod send_file;
mod taken;
mod tcp;

use std::{
    io::{self, IoSlice},
    net::{self, Shutdown, SocketAddr},
    os::fd::{AsFd, BorrowedFd},
    task::{Context, Poll, ready},
    time::Duration,
};

use loadline_core::decide::reason::{Phase, Reason};
use loadline_http1::Version;
use loadline_linux::socket::{since_sent, unacknowledged};
use rustix::{
    net::{SendFlags, send},
    pipe::{SpliceFlags, splice},
};
use socket2::{SockRef, TcpKeepalive};
use tokio::{
    io::{Interest, ReadBuf},
    net::TcpStream,
};

pub(crate) use self::tcp::Io;
use self::{taken::Taken, tcp::Link};
use crate::{
    http2::{Call, Stream, StreamFailure},
    http3,
    io::{hang_up::HangUp, pipe::Pipe},
    store::FileReply,
    telemetry::meter::Meter,
    tls::{ClientTls, Tls},
    upstream::idle::Idle,
};

/// Where bytes come from and go to without blocking.
#[derive(Debug)]
pub(crate) enum Socket {
    /// Bytes go to the kernel and come from it as they are.
    Plain(Io),
    /// TLS is between.
    Secure(Io, Box<Tls>),
    /// One request of many on a client's connection, in the syntax of HTTP/1.
    Stream(Box<Stream>),
    /// The same over QUIC.
    Quic(Box<http3::Stream>),
    /// The same on a server's connection.
    Call(Box<Call>),
    /// Files, which respond to one request in the syntax of HTTP/1.
    File(Box<FileReply>),
    /// Nobody: takes everything, says nothing. The client of a request of our own, which keeps what
    /// it takes where the response is waited for.
    Nobody(Option<Box<Taken>>),
}

impl Socket {
    /// Takes a socket that is non-blocking.
    pub(crate) const fn raw(stream: net::TcpStream) -> Self {
        Self::Plain(Io { link: Link::Raw(stream), meter: None, destination: None })
    }

    /// As [`Socket::raw`], for the connection of a client, which may have told where it opened it
    /// to.
    pub(crate) fn accepted(
        stream: net::TcpStream,
        meter: Meter,
        destination: Option<SocketAddr>,
    ) -> Self {
        let destination = destination.map(Box::new);
        Self::Plain(Io { link: Link::Raw(stream), meter: Some(meter), destination })
    }

    /// The same connection with TLS on it from now on.
    pub(crate) fn over(self, tls: Box<Tls>) -> Self {
        match self {
            Self::Plain(io) | Self::Secure(io, _) => Self::Secure(io, tls),
            Self::Stream(_) | Self::Quic(_) | Self::Call(_) | Self::File(_) | Self::Nobody(_) => {
                self
            }
        }
    }

    /// Whether bytes go to the kernel and come from it as they are.
    pub(crate) const fn is_plain(&self) -> bool {
        matches!(self, Self::Plain(_))
    }

    /// Whether what comes next from it can go into a pipe.
    pub(crate) fn splices(&self) -> bool {
        match self {
            Self::Plain(_) => true,
            Self::File(reply) => reply.splices(),
            _ => false,
        }
    }

    /// Whether it is one request of many on a server's connection.
    pub(crate) const fn is_call(&self) -> bool {
        matches!(self, Self::Call(_))
    }

    /// Ready when the handshake is through; at once without TLS.
    pub(crate) fn poll_handshake(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Secure(io, tls) => tls.poll_handshake(io, cx),
            _ => Poll::Ready(Ok(())),
        }
    }

    /// How far a connection to a server has come to which nothing has been sent.
    pub(crate) fn phase(&self) -> Phase {
        match self {
            Self::Secure(_, tls) => tls.phase(),
            Self::Plain(_) | Self::Stream(_) | Self::Quic(_) | Self::File(_) | Self::Nobody(_) => {
                Phase::Connect
            }
            Self::Call(_) => Phase::Send,
        }
    }

    /// Whether it waits for a connection that many share.
    pub(crate) fn is_opening(&self) -> bool {
        matches!(self, Self::Call(call) if call.is_opening())
    }

    /// Counts how a handshake with a client ended, where there was one.
    pub(crate) fn handshaken<E>(&self, agreed: Result<(), E>) -> Result<(), E> {
        if let Self::Secure(Io { meter: Some(meter), .. }, _) = self {
            meter.handshake(agreed.is_ok());
        }
        agreed
    }

    /// Whether a peer with which TLS is not agreed on yet has sent something.
    pub(crate) fn has_heard(&self) -> bool {
        matches!(self, Self::Secure(_, tls) if tls.has_heard())
    }

    /// What is known of a client with which TLS is agreed on; nothing where it came in clear.
    pub(crate) fn client_tls(&self) -> Option<ClientTls> {
        match self {
            Self::Secure(_, tls) => tls.client_tls(),
            Self::Plain(_)
            | Self::Stream(_)
            | Self::Quic(_)
            | Self::Call(_)
            | Self::File(_)
            | Self::Nobody(_) => None,
        }
    }

    /// The protocol that a TLS handshake agreed on (RFC 7301), if any.
    pub(crate) fn protocol(&self) -> Option<&[u8]> {
        match self {
            Self::Secure(_, tls) => tls.protocol(),
            Self::Plain(_)
            | Self::Stream(_)
            | Self::Quic(_)
            | Self::Call(_)
            | Self::File(_)
            | Self::Nobody(_) => None,
        }
    }

    /// The version of HTTP in which a message came that reads as one of `version`.
    pub(crate) const fn http_version(&self, version: Version) -> &'static str {
        match (self, version) {
            (Self::Stream(_), _) => "HTTP/2.0",
            (Self::Quic(_), _) => "HTTP/3.0",
            (_, Version::Http11) => "HTTP/1.1",
            (_, Version::Http10) => "HTTP/1.0",
        }
    }

    /// Reads what is there; 0 at the end of the stream.
    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(io) => io.poll_read(cx, into),
            Self::Secure(io, tls) => tls.poll_read(io, cx, into),
            Self::Stream(stream) => stream.poll_read(cx, into),
            Self::Quic(stream) => stream.poll_read(cx, into),
            Self::Call(call) => call.poll_read(cx, into),
            Self::File(reply) => Poll::Ready(reply.read(into)),
            Self::Nobody(_) => Poll::Pending,
        }
    }

    /// Writes as much as is taken. Once this has been pending, the next write must begin with the
    /// same bytes.
    pub(crate) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(io) => io.poll_write(cx, bytes),
            Self::Secure(io, tls) => tls.poll_write(io, cx, [bytes, &[]]),
            Self::Stream(stream) => stream.poll_write(cx, bytes),
            Self::Quic(stream) => stream.poll_write(cx, bytes),
            Self::Call(call) => call.poll_write(cx, bytes),
            Self::File(reply) => Poll::Ready(reply.write(bytes)),
            Self::Nobody(taken) => Poll::Ready(taken::take(taken, [bytes, &[]])),
        }
    }

    /// Whether some of what a write was given that is pending, or has failed, is on its way.
    pub(crate) fn has_begun_write(&self) -> bool {
        matches!(self, Self::Secure(_, tls) if tls.has_begun())
    }

    /// How much a client has got of what a write was given that is pending, or was given up; none
    /// where that is not known.
    pub(crate) fn begun(&self) -> usize {
        if let Self::Stream(stream) = self { stream.begun() } else { 0 }
    }

    /// Writes two pieces, one behind the other, in one system call.
    pub(crate) fn poll_write_both(
        &mut self,
        cx: &mut Context<'_>,
        pieces: [&[u8]; 2],
    ) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(io) => io.poll_write_vectored(cx, &pieces.map(IoSlice::new)),
            Self::Secure(io, tls) => tls.poll_write(io, cx, pieces),
            Self::Stream(stream) => stream.poll_write(cx, pieces[0]),
            Self::Quic(stream) => stream.poll_write(cx, pieces[0]),
            Self::Call(call) => call.poll_write(cx, pieces[0]),
            Self::File(reply) => Poll::Ready(reply.write(pieces[0])),
            Self::Nobody(taken) => Poll::Ready(taken::take(taken, pieces)),
        }
    }

    /// As [`Socket::poll_write_both`], except that TLS may keep it until [`Socket::poll_flush`].
    pub(crate) fn poll_write_corked(
        &mut self,
        cx: &mut Context<'_>,
        pieces: [&[u8]; 2],
    ) -> Poll<io::Result<usize>> {
        match self {
            Self::Secure(io, tls) => tls.poll_seal(io, cx, pieces),
            _ => self.poll_write_both(cx, pieces),
        }
    }

    /// Sends what TLS has kept.
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Secure(io, tls) => tls.poll_flush(io, cx),
            _ => Poll::Ready(Ok(())),
        }
    }

    /// As [`Socket::poll_write`], with more to come at once: the kernel need not send yet.
    pub(crate) fn poll_write_more(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let flags = SendFlags::MORE | SendFlags::NOSIGNAL;
        let io = self.io()?;
        let stream = io.watched()?;
        loop {
            ready!(stream.poll_write_ready(cx))?;
            let sent = stream.try_io(Interest::WRITABLE, || Ok(send(&*stream, bytes, flags)?));
            match sent {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return Poll::Ready(io.sent(done)),
            }
        }
    }

    /// Moves up to `most` bytes into an empty pipe; 0 at the end of the stream.
    pub(crate) fn poll_splice_into(
        &mut self,
        cx: &mut Context<'_>,
        pipe: &mut Pipe,
        most: usize,
    ) -> Poll<io::Result<usize>> {
        if let Self::File(reply) = self {
            return Poll::Ready(reply.splice_into(pipe, most));
        }
        let io = self.io()?;
        let stream = io.watched()?;
        loop {
            ready!(stream.poll_read_ready(cx))?;
            let moved = stream.try_io(Interest::READABLE, || {
                Ok(splice(&*stream, None, &pipe.write, None, most, SpliceFlags::NONBLOCK)?)
            });
            match moved {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => {
                    pipe.held += *done.as_ref().unwrap_or(&0);
                    return Poll::Ready(io.received(done));
                }
            }
        }
    }

    /// Moves bytes out of a pipe that has some.
    pub(crate) fn poll_splice_out_of(
        &mut self,
        cx: &mut Context<'_>,
        pipe: &mut Pipe,
    ) -> Poll<io::Result<usize>> {
        let io = self.io()?;
        let stream = io.watched()?;
        loop {
            ready!(stream.poll_write_ready(cx))?;
            let moved = stream.try_io(Interest::WRITABLE, || {
                Ok(splice(&pipe.read, None, &*stream, None, pipe.held, SpliceFlags::NONBLOCK)?)
            });
            match moved {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => {
                    pipe.held -= *done.as_ref().unwrap_or(&0);
                    return Poll::Ready(io.sent(done));
                }
            }
        }
    }

    /// Registers the socket, for one of which the next read is known to have to wait.
    ///
    /// # Errors
    /// The kernel's, if it cannot watch one more descriptor.
    pub(crate) fn watch(&mut self) -> io::Result<()> {
        match self {
            Self::Stream(_) | Self::Quic(_) | Self::Call(_) | Self::File(_) | Self::Nobody(_) => {
                Ok(())
            }
            Self::Plain(_) | Self::Secure(..) => self.watched().map(|_| ()),
        }
    }

    /// The connection between two messages; none for a stream of many, which ends with its own.
    pub(crate) fn idle(self) -> Option<Idle> {
        match self {
            Self::Plain(io) => Some(Idle { io, tls: None }),
            Self::Secure(io, tls) => Some(Idle { io, tls: Some(tls) }),
            Self::Stream(_) | Self::Quic(_) | Self::Call(_) | Self::File(_) | Self::Nobody(_) => {
                None
            }
        }
    }

    /// Waits for the peer to close or reset the connection. Bytes that come first end the watch:
    /// the peer is there, and what it sends is for later.
    pub(crate) fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            Self::Stream(stream) => return stream.poll_reset(cx),
            Self::Quic(stream) => return stream.poll_reset(cx),
            Self::Secure(io, tls) => return tls.poll_closed(io, cx),
            Self::Nobody(_) => return Poll::Pending,
            _ => {}
        }
        let Ok(stream) = self.watched() else { return Poll::Ready(()) };
        let mut byte = [0];
        match ready!(stream.poll_peek(cx, &mut ReadBuf::new(&mut byte))) {
            Ok(1..) => Poll::Pending,
            _ => Poll::Ready(()),
        }
    }

    /// Whether the kernel has bytes of the peer that nobody has read. Costs a system call where
    /// something has come, or where the connection is not watched.
    pub(crate) fn has_unread(&self) -> bool {
        matches!(self, Self::Plain(io) | Self::Secure(io, _) if io.has_unread())
    }

    /// Whether it is watched, so that what has come is known.
    pub(crate) const fn is_watched(&self) -> bool {
        matches!(self, Self::Plain(io) | Self::Secure(io, _) if io.is_watched())
    }

    /// Waits for the peer to take its request back: to reset its stream, or its connection where
    /// that is watched. The end of what it sends does not say so: it may still read.
    pub(crate) fn poll_reset(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            Self::Stream(stream) => stream.poll_reset(cx),
            Self::Quic(stream) => stream.poll_reset(cx),
            Self::Plain(io) | Self::Secure(io, _) => io.poll_reset(cx),
            Self::Call(_) | Self::File(_) | Self::Nobody(_) => Poll::Pending,
        }
    }

    /// Waits for the peer to vanish of which all has been read. The watch is begun where there is
    /// none yet.
    pub(crate) fn poll_broken(
        &mut self,
        cx: &mut Context<'_>,
        watch: &mut Option<Box<HangUp>>,
    ) -> Poll<()> {
        let Some(fd) = self.as_fd() else { return self.poll_reset(cx) };
        if watch.is_none() {
            // Without it a peer that has vanished is noticed when something is sent to it.
            let Ok(begun) = HangUp::of(fd) else { return Poll::Pending };
            *watch = Some(Box::new(begun));
        }
        watch.as_ref().map_or(Poll::Pending, |watch| watch.poll(cx))
    }

    /// The same of a peer of which not all has been read: that it has said all and was told the end
    /// as well is no reason to give up what it said.
    pub(crate) fn poll_lost(
        &mut self,
        cx: &mut Context<'_>,
        watch: &mut Option<Box<HangUp>>,
    ) -> Poll<()> {
        ready!(self.poll_broken(cx, watch));
        match watch {
            Some(watch) if !watch.is_reset() => Poll::Pending,
            _ => Poll::Ready(()),
        }
    }

    /// Whether its stream was over before its request could be answered.
    pub(crate) fn is_taken_back(&self) -> bool {
        matches!(self, Self::Stream(stream) if stream.is_taken_back())
    }

    /// Why a stream is over that has been reset.
    pub(crate) fn why_reset(&mut self) -> Reason {
        match self {
            Self::Stream(stream) => stream.why_reset(),
            _ => Reason::ClientGone,
        }
    }

    /// The status that the client was told instead of a head longer than it takes, 0 if that was
    /// too long as well; none where the head has gone out.
    pub(crate) const fn told_instead(&self) -> Option<u16> {
        match self {
            Self::Quic(stream) => stream.told_instead(),
            _ => None,
        }
    }

    /// What is known of a request that failed, beyond that its connection broke.
    pub(crate) const fn fate(&self) -> StreamFailure {
        match self {
            Self::Call(call) => call.fate(),
            Self::Plain(_)
            | Self::Secure(..)
            | Self::Stream(_)
            | Self::Quic(_)
            | Self::File(_)
            | Self::Nobody(_) => StreamFailure::Unknown,
        }
    }

    /// Lets no other request follow on a connection that is shared.
    pub(crate) fn retire(&self) {
        if let Self::Call(call) = self {
            call.retire();
        }
    }

    /// Lets what is left of a whole response's stream come.
    pub(crate) fn finish(&mut self) {
        if let Self::Call(call) = self {
            call.finish();
        }
    }

    /// Says that nothing more will be sent.
    pub(crate) fn shut(&mut self) {
        self.notify_close();
        self.shut_unnotified();
    }

    /// The same without saying by TLS that nothing was cut, where nobody knows.
    pub(crate) fn shut_unnotified(&mut self) {
        match self {
            Self::Plain(_) | Self::Secure(..) => {}
            Self::Stream(stream) => return stream.shut(),
            Self::Quic(stream) => return stream.shut(),
            Self::Call(call) => return call.shut(),
            Self::File(_) | Self::Nobody(_) => return,
        }
        // Fails if the peer has gone already, which is as good.
        let _ = self.as_fd().map(|fd| SockRef::from(&fd).shutdown(Shutdown::Write));
    }

    /// Says by TLS that the connection ends here and was not cut (RFC 9112, section 9.8), before it
    /// is closed.
    pub(crate) fn notify_close(&mut self) {
        if let Self::Secure(io, tls) = self {
            tls.close(io);
        }
    }

    /// Closes the connection so that the peer cannot take what it got for the whole.
    pub(crate) fn reset(self) {
        match self {
            Self::Stream(mut stream) => return stream.reset(),
            Self::Quic(mut stream) => return stream.reset(),
            _ => {}
        }
        // Without it the peer sees an orderly end; nothing better is left to do.
        let _ = self.as_fd().map(|fd| SockRef::from(&fd).set_linger(Some(Duration::ZERO)));
    }

    /// How many bytes of all that was sent to it the peer may not have: a reset would take them
    /// away.
    pub(crate) fn unsent(&self) -> u32 {
        self.as_fd().and_then(|fd| unacknowledged(&fd).ok()).unwrap_or(0)
    }

    /// How long ago a peer for which something waits made room for some of it, if that is known.
    pub(crate) fn since_taken(&self) -> Option<Duration> {
        if let Self::Stream(stream) = self {
            return stream.since_taken();
        }
        self.as_fd().and_then(|fd| since_sent(&fd).ok().flatten())
    }

    /// Lets the kernel find out about a peer that has vanished, for connections without timeouts.
    pub(crate) fn keep_alive(&self) {
        let params = TcpKeepalive::new().with_time(PEER_PROBE);
        // A connection without it works, but may outlive its peer.
        let _ = self.as_fd().map(|fd| SockRef::from(&fd).set_tcp_keepalive(&params));
    }

    /// Lets the kernel take as much for the peer as its own limits allow.
    pub(crate) fn take_freely(&self) {
        // Where it fails, bytes go in smaller steps.
        let _ = self.as_fd().map(|fd| SockRef::from(&fd).set_tcp_notsent_lowat(u32::MAX));
    }

    /// The address the peer opened the connection to, if that is known.
    pub(crate) fn local_addr(&self) -> Option<SocketAddr> {
        match self {
            Self::Stream(stream) => return stream.destination(),
            Self::Quic(stream) => return stream.destination(),
            Self::Plain(Io { destination: Some(told), .. })
            | Self::Secure(Io { destination: Some(told), .. }, _) => return Some(**told),
            _ => {}
        }
        self.as_fd().and_then(|fd| SockRef::from(&fd).local_addr().ok()?.as_socket())
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        let (Self::Plain(io) | Self::Secure(io, _)) = self else { return None };
        match &io.link {
            Link::Raw(stream) => Some(stream.as_fd()),
            Link::Watched(stream) => Some(stream.as_fd()),
            Link::Lost => None,
        }
    }

    fn watched(&mut self) -> io::Result<&mut TcpStream> {
        self.io()?.watched()
    }

    fn io(&mut self) -> io::Result<&mut Io> {
        match self {
            Self::Plain(io) | Self::Secure(io, _) => Ok(io),
            Self::Stream(_) | Self::Quic(_) | Self::Call(_) | Self::File(_) | Self::Nobody(_) => {
                Err(io::ErrorKind::Unsupported.into())
            }
        }
    }
}

impl From<Idle> for Socket {
    fn from(Idle { io, tls }: Idle) -> Self {
        match tls {
            None => Self::Plain(io),
            Some(tls) => Self::Secure(io, tls),
        }
    }
}

/// Idle time after which the kernel asks whether a peer is still there.
const PEER_PROBE: Duration = Duration::from_secs(60);
