//! A connection in the shape h2 wants: tokio's traits.
//!
//! h2 flushes after each DATA frame. Over TLS each would be a system call of its own, so a
//! connection to a client is corked: records are sealed and wait until h2 has written all it has,
//! or until rustls holds as many as it may (64 KiB). [`Cork::poll_flush`] sends them together.

use std::{
    cell::{Cell, RefCell},
    io::{self, IoSlice},
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::io::peer::Peer;

/// A connection, and what has been read of it already.
#[derive(Debug)]
pub(super) struct Wire(Rc<Shared>);

/// Decides when a [`Wire`] sends what was written to it.
#[derive(Debug)]
pub(super) struct Cork(Rc<Shared>);

#[derive(Debug)]
struct Shared {
    peer: RefCell<Peer>,
    is_corked: Cell<bool>,
}

impl Wire {
    /// A connection that sends what is written to it at once.
    pub(super) fn new(peer: Peer) -> Self {
        Self(Rc::new(Shared { peer: RefCell::new(peer), is_corked: Cell::new(false) }))
    }

    /// What can keep back what is written to it.
    pub(super) fn cork(&self) -> Cork {
        Cork(self.0.clone())
    }
}

impl Cork {
    /// Keeps records of TLS back from now on. Whoever calls it has to call [`Cork::poll_flush`]
    /// after each turn of h2.
    pub(super) fn put_in(&self) {
        self.0.is_corked.set(true);
    }

    /// Sends what was kept back. A connection that is broken has nothing to send: h2 sees that
    /// with its next read or write.
    pub(super) fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.0.peer.borrow_mut().socket.poll_flush(cx).map(|_| ())
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Peer { socket, rest } = &mut *self.0.peer.borrow_mut();
        if !rest.is_empty() {
            let early = into.remaining().min(rest.len());
            into.put_slice(&rest[..early]);
            rest.drain(..early);
            return Poll::Ready(Ok(()));
        }
        let count = ready!(socket.poll_read(cx, into.initialize_unfilled()))?;
        into.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut filled = pieces.iter().map(|piece| &**piece).filter(|piece| !piece.is_empty());
        let pieces = [filled.next().unwrap_or_default(), filled.next().unwrap_or_default()];
        let socket = &mut self.0.peer.borrow_mut().socket;
        match self.0.is_corked.get() {
            true => socket.poll_write_corked(cx, pieces),
            false => socket.poll_write_both(cx, pieces),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let socket = &mut self.0.peer.borrow_mut().socket;
        ready!(socket.poll_flush(cx))?;
        socket.shut();
        Poll::Ready(Ok(()))
    }
}
