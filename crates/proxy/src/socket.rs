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

use crate::pipe::Pipe;

/// A non-blocking TCP connection.
#[derive(Debug)]
pub(crate) struct Socket {
    io: Io,
}

#[derive(Debug)]
enum Io {
    Raw(net::TcpStream),
    Watched(TcpStream),
    /// Registering failed; the connection is closed.
    Lost,
}

impl Socket {
    /// Takes a socket that is non-blocking.
    pub(crate) fn raw(stream: net::TcpStream) -> Self {
        Self { io: Io::Raw(stream) }
    }

    /// Reads what is there; 0 at the end of the stream.
    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        if let Io::Raw(stream) = &mut self.io {
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
        if let Io::Raw(stream) = &mut self.io {
            match stream.write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
        }
        Pin::new(self.watched()?).poll_write(cx, bytes)
    }

    /// Writes two pieces, one behind the other, in one system call.
    pub(crate) fn poll_write_both(
        &mut self,
        cx: &mut Context<'_>,
        pieces: [&[u8]; 2],
    ) -> Poll<io::Result<usize>> {
        let pieces = pieces.map(IoSlice::new);
        if let Io::Raw(stream) = &mut self.io {
            match stream.write_vectored(&pieces) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
        }
        Pin::new(self.watched()?).poll_write_vectored(cx, &pieces)
    }

    /// As [`Socket::poll_write`], with more to come at once: the kernel need not send yet.
    pub(crate) fn poll_write_more(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let flags = SendFlags::MORE | SendFlags::NOSIGNAL;
        let stream = self.watched()?;
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
        let stream = self.watched()?;
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
        let stream = self.watched()?;
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
        self.watched().map(|_| ())
    }

    /// Whether neither bytes nor the end of the stream have come. Costs a system call only if
    /// something has.
    pub(crate) fn is_quiet(&mut self) -> bool {
        let mut byte = [0];
        let found = match &mut self.io {
            Io::Raw(stream) => stream.read(&mut byte),
            Io::Watched(stream) => stream.try_read(&mut byte),
            Io::Lost => return false,
        };
        matches!(found, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Waits for the peer to close or reset the connection. Bytes that come first end the watch:
    /// the peer is there, and what it sends is for later.
    pub(crate) fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Ok(stream) = self.watched() else { return Poll::Ready(()) };
        let mut byte = [0];
        match ready!(stream.poll_peek(cx, &mut ReadBuf::new(&mut byte))) {
            Ok(1..) => Poll::Pending,
            _ => Poll::Ready(()),
        }
    }

    /// Says that nothing more will be sent.
    pub(crate) fn shut(&self) {
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

    fn watched(&mut self) -> io::Result<&mut TcpStream> {
        if let Io::Raw(_) = self.io
            && let Io::Raw(stream) = mem::replace(&mut self.io, Io::Lost)
        {
            self.io = Io::Watched(TcpStream::from_std(stream)?);
        }
        match &mut self.io {
            Io::Watched(stream) => Ok(stream),
            _ => Err(io::ErrorKind::NotConnected.into()),
        }
    }
}

/// Idle time after which the kernel asks whether the peer of a tunnel is still there.
const TUNNEL_PROBE: Duration = Duration::from_secs(60);
