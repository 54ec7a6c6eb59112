//! A TCP connection, which is registered with the runtime at the first call that would block.

use std::{
    io::{self, IoSlice, Read, Write},
    mem,
    net::{self, SocketAddr},
    pin::Pin,
    task::{Context, Poll, ready},
};

use rustix::io::ioctl_fionread;
use tokio::{
    io::{AsyncRead, AsyncWrite, Interest, ReadBuf},
    net::TcpStream,
};

use crate::telemetry::meter::Meter;

/// The TCP connection itself, and where it is counted if a client opened it.
#[derive(Debug)]
pub(crate) struct Io {
    pub(super) link: Link,
    pub(super) meter: Option<Meter>,
    /// Where its client opened it to, if a PROXY header says that.
    pub(super) destination: Option<Box<SocketAddr>>,
}

#[derive(Debug)]
pub(super) enum Link {
    Raw(net::TcpStream),
    Watched(TcpStream),
    /// Registering failed; the connection is closed.
    Lost,
}

impl Io {
    /// Reads what is there; 0 at the end of the stream.
    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        if let Link::Raw(stream) = &mut self.link {
            match stream.read(into) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return Poll::Ready(self.received(done)),
            }
        }
        let mut space = ReadBuf::new(into);
        ready!(Pin::new(self.watched()?).poll_read(cx, &mut space))?;
        Poll::Ready(self.received(Ok(space.filled().len())))
    }

    /// Writes as much as the kernel takes.
    pub(crate) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if let Link::Raw(stream) = &mut self.link {
            match stream.write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return Poll::Ready(self.sent(done)),
            }
        }
        let done = ready!(Pin::new(self.watched()?).poll_write(cx, bytes));
        Poll::Ready(self.sent(done))
    }

    /// Writes as much of the pieces, one behind the other, as the kernel takes.
    pub(crate) fn poll_write_vectored(
        &mut self,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if let Link::Raw(stream) = &mut self.link {
            match stream.write_vectored(pieces) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return Poll::Ready(self.sent(done)),
            }
        }
        let done = ready!(Pin::new(self.watched()?).poll_write_vectored(cx, pieces));
        Poll::Ready(self.sent(done))
    }

    /// Reads what is there, or says that it would block, and wakes nobody later.
    pub(crate) fn try_read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let done = match &mut self.link {
            Link::Raw(stream) => stream.read(into),
            Link::Watched(stream) => stream.try_read(into),
            Link::Lost => Err(io::ErrorKind::NotConnected.into()),
        };
        self.received(done)
    }

    /// Whether neither bytes nor the end of the stream have come. Costs a system call only if
    /// something has.
    pub(crate) fn is_quiet(&mut self) -> bool {
        let found = self.try_read(&mut [0]);
        matches!(found, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Whether bytes wait to be read; the end of the stream is none.
    pub(super) fn has_unread(&self) -> bool {
        let unread = match &self.link {
            Link::Raw(stream) => ioctl_fionread(stream).map_err(io::Error::from),
            Link::Watched(stream) => {
                stream.try_io(Interest::READABLE, || Ok(ioctl_fionread(stream)?))
            }
            Link::Lost => Ok(0),
        };
        unread.is_ok_and(|unread| unread > 0)
    }

    pub(super) const fn is_watched(&self) -> bool {
        matches!(self.link, Link::Watched(_))
    }

    /// Leaves the reactor that it was registered with: the next call that would block registers it
    /// with that of the thread that makes it.
    ///
    /// # Errors
    /// The kernel's. The connection is closed.
    pub(crate) fn unwatch(&mut self) -> io::Result<()> {
        if let Link::Watched(_) = self.link
            && let Link::Watched(stream) = mem::replace(&mut self.link, Link::Lost)
        {
            self.link = Link::Raw(stream.into_std()?);
        }
        Ok(())
    }

    /// Writes what the kernel takes, or says that it would block, and wakes nobody later.
    pub(crate) fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let done = match &mut self.link {
            Link::Raw(stream) => stream.write(bytes),
            Link::Watched(stream) => stream.try_write(bytes),
            Link::Lost => Err(io::ErrorKind::NotConnected.into()),
        };
        self.sent(done)
    }

    /// Waits for the peer to reset a connection that is watched. That is not told while bytes, or
    /// the end of the stream, wait to be read. Costs no system call.
    pub(super) fn poll_reset(&self, cx: &mut Context<'_>) -> Poll<()> {
        let Link::Watched(stream) = &self.link else { return Poll::Pending };
        let is_reset = stream.poll_read_ready(cx).is_ready()
            && stream.try_io(Interest::ERROR, || Ok(())).is_ok();
        if is_reset { Poll::Ready(()) } else { Poll::Pending }
    }

    pub(super) fn watched(&mut self) -> io::Result<&mut TcpStream> {
        if let Link::Raw(_) = self.link
            && let Link::Raw(stream) = mem::replace(&mut self.link, Link::Lost)
        {
            self.link = Link::Watched(TcpStream::from_std(stream)?);
        }
        match &mut self.link {
            Link::Watched(stream) => Ok(stream),
            _ => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Counts what was read.
    pub(super) fn received(&self, done: io::Result<usize>) -> io::Result<usize> {
        if let (Some(meter), Ok(bytes)) = (&self.meter, &done) {
            meter.received(*bytes);
        }
        done
    }

    /// Counts what was written.
    pub(super) fn sent(&self, done: io::Result<usize>) -> io::Result<usize> {
        if let (Some(meter), Ok(bytes)) = (&self.meter, &done) {
            meter.sent(*bytes);
        }
        done
    }
}
