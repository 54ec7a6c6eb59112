//! A TCP connection that the reactor hears of only when it must.
//!
//! A socket is *raw* at first: system calls go straight to it. The first one that would block
//! registers it, and from then on it is *watched*: tokio knows from the kernel's events whether
//! trying is worthwhile. A client that connects, asks, is answered and leaves is never registered,
//! which saves two of its eight system calls.

use std::{
    io::{self, IoSlice, Read, Write},
    mem,
    net::{self, Shutdown},
    os::fd::{AsFd, BorrowedFd},
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use rustix::{
    net::{SendFlags, send},
    pipe::{SpliceFlags, splice},
};
use socket2::{SockRef, TcpKeepalive};
use tokio::{
    io::{AsyncRead, AsyncWrite, Interest, ReadBuf},
    net::TcpStream,
};

use crate::{pipe::Pipe, tls::Tls};

/// A non-blocking TCP connection, with TLS on it or without.
#[derive(Debug)]
pub(crate) struct Socket {
    io: Io,
    tls: Option<Box<Tls>>,
}

/// The TCP connection itself.
#[derive(Debug)]
pub(crate) enum Io {
    Raw(net::TcpStream),
    Watched(TcpStream),
    /// Registering failed; the connection is closed.
    Lost,
}

impl Socket {
    /// Takes a socket that is non-blocking.
    pub(crate) fn raw(stream: net::TcpStream) -> Self {
        Self { io: Io::Raw(stream), tls: None }
    }

    /// The same connection with TLS on it from now on.
    pub(crate) fn over(self, tls: Box<Tls>) -> Self {
        Self { io: self.io, tls: Some(tls) }
    }

    /// Whether bytes go to the kernel and come from it as they are.
    pub(crate) const fn is_plain(&self) -> bool {
        self.tls.is_none()
    }

    /// Ready when the handshake is through; at once without TLS.
    pub(crate) fn poll_handshake(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.tls {
            Some(tls) => tls.poll_handshake(&mut self.io, cx),
            None => Poll::Ready(Ok(())),
        }
    }

    /// Reads what is there; 0 at the end of the stream.
    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.tls {
            None => self.io.poll_read(cx, into),
            Some(tls) => tls.poll_read(&mut self.io, cx, into),
        }
    }

    /// Writes as much as the kernel takes. Once this has been pending, the next write must begin
    /// with the same bytes.
    pub(crate) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.tls {
            None => self.io.poll_write(cx, bytes),
            Some(tls) => tls.poll_write(&mut self.io, cx, [bytes, &[]]),
        }
    }

    /// Writes two pieces, one behind the other, in one system call.
    pub(crate) fn poll_write_both(
        &mut self,
        cx: &mut Context<'_>,
        pieces: [&[u8]; 2],
    ) -> Poll<io::Result<usize>> {
        match &mut self.tls {
            None => self.io.poll_write_vectored(cx, &pieces.map(IoSlice::new)),
            Some(tls) => tls.poll_write(&mut self.io, cx, pieces),
        }
    }

    /// As [`Socket::poll_write`], with more to come at once: the kernel need not send yet.
    pub(crate) fn poll_write_more(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let flags = SendFlags::MORE | SendFlags::NOSIGNAL;
        let stream = self.io.watched()?;
        loop {
            ready!(stream.poll_write_ready(cx))?;
            let sent = stream.try_io(Interest::WRITABLE, || Ok(send(&*stream, bytes, flags)?));
            match sent {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
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
        let stream = self.io.watched()?;
        loop {
            ready!(stream.poll_read_ready(cx))?;
            let moved = stream.try_io(Interest::READABLE, || {
                Ok(splice(&*stream, None, &pipe.write, None, most, SpliceFlags::NONBLOCK)?)
            });
            match moved {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => {
                    pipe.held += *done.as_ref().unwrap_or(&0);
                    return Poll::Ready(done);
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
        let stream = self.io.watched()?;
        loop {
            ready!(stream.poll_write_ready(cx))?;
            let moved = stream.try_io(Interest::WRITABLE, || {
                Ok(splice(&pipe.read, None, &*stream, None, pipe.held, SpliceFlags::NONBLOCK)?)
            });
            match moved {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => {
                    pipe.held -= *done.as_ref().unwrap_or(&0);
                    return Poll::Ready(done);
                }
            }
        }
    }

    /// Registers the socket, for one of which the next read is known to have to wait.
    ///
    /// # Errors
    /// The kernel's, if it cannot watch one more descriptor.
    pub(crate) fn watch(&mut self) -> io::Result<()> {
        self.io.watched().map(|_| ())
    }

    /// Whether neither bytes nor the end of the stream have come. Costs a system call only if
    /// something has.
    pub(crate) fn is_quiet(&mut self) -> bool {
        match &mut self.tls {
            Some(tls) => tls.is_quiet(&mut self.io),
            None => {
                let found = self.io.try_read(&mut [0]);
                matches!(found, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
            }
        }
    }

    /// Waits for the peer to close or reset the connection. Bytes that come first end the watch:
    /// the peer is there, and what it sends is for later.
    pub(crate) fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Ok(stream) = self.io.watched() else { return Poll::Ready(()) };
        let mut byte = [0];
        match ready!(stream.poll_peek(cx, &mut ReadBuf::new(&mut byte))) {
            Ok(1..) => Poll::Pending,
            _ => Poll::Ready(()),
        }
    }

    /// Says that nothing more will be sent.
    pub(crate) fn shut(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.close(&mut self.io);
        }
        // Fails if the peer has gone already, which is as good.
        let _ = self.as_fd().map(|fd| SockRef::from(&fd).shutdown(Shutdown::Write));
    }

    /// Closes the connection so that the peer cannot take what it got for the whole.
    pub(crate) fn reset(self) {
        // Without it the peer sees an orderly end; nothing better is left to do.
        let _ = self.as_fd().map(|fd| SockRef::from(&fd).set_linger(Some(Duration::ZERO)));
    }

    /// Lets the kernel find out about a peer that has vanished, for connections without timeouts.
    pub(crate) fn keep_alive(&self) {
        let params = TcpKeepalive::new().with_time(TUNNEL_PROBE);
        // A tunnel without it works, but may outlive its peer.
        let _ = self.as_fd().map(|fd| SockRef::from(&fd).set_tcp_keepalive(&params));
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.io {
            Io::Raw(stream) => Some(stream.as_fd()),
            Io::Watched(stream) => Some(stream.as_fd()),
            Io::Lost => None,
        }
    }
}

impl Io {
    /// Reads what is there; 0 at the end of the stream.
    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        if let Self::Raw(stream) = self {
            match stream.read(into) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
        }
        let mut space = ReadBuf::new(into);
        ready!(Pin::new(self.watched()?).poll_read(cx, &mut space))?;
        Poll::Ready(Ok(space.filled().len()))
    }

    /// Writes as much as the kernel takes.
    pub(crate) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if let Self::Raw(stream) = self {
            match stream.write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
        }
        Pin::new(self.watched()?).poll_write(cx, bytes)
    }

    /// Writes as much of the pieces, one behind the other, as the kernel takes.
    pub(crate) fn poll_write_vectored(
        &mut self,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if let Self::Raw(stream) = self {
            match stream.write_vectored(pieces) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
        }
        Pin::new(self.watched()?).poll_write_vectored(cx, pieces)
    }

    /// Reads what is there, or says that it would block, and wakes nobody later.
    pub(crate) fn try_read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Raw(stream) => stream.read(into),
            Self::Watched(stream) => stream.try_read(into),
            Self::Lost => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Writes what the kernel takes, or says that it would block, and wakes nobody later.
    pub(crate) fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Raw(stream) => stream.write(bytes),
            Self::Watched(stream) => stream.try_write(bytes),
            Self::Lost => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    fn watched(&mut self) -> io::Result<&mut TcpStream> {
        if let Self::Raw(_) = self
            && let Self::Raw(stream) = mem::replace(self, Self::Lost)
        {
            *self = Self::Watched(TcpStream::from_std(stream)?);
        }
        match self {
            Self::Watched(stream) => Ok(stream),
            _ => Err(io::ErrorKind::NotConnected.into()),
        }
    }
}

/// Idle time after which the kernel asks whether the peer of a tunnel is still there.
const TUNNEL_PROBE: Duration = Duration::from_secs(60);
