//! A connection in the shape h2 wants: tokio's traits.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::peer::Peer;

/// A connection, and what has been read of it already.
#[derive(Debug)]
pub(super) struct Wire(pub(super) Peer);

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Peer { socket, rest } = &mut self.0;
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
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.0.socket.poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut filled = pieces.iter().map(|piece| &**piece).filter(|piece| !piece.is_empty());
        let pieces = [filled.next().unwrap_or_default(), filled.next().unwrap_or_default()];
        self.0.socket.poll_write_both(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.socket.shut();
        Poll::Ready(Ok(()))
    }
}
