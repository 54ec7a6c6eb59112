//! A connection to a server in the shape h2 wants: tokio's traits.
//!
//! What is read passes an [`Inbound`] first. After many small frames nothing more is read until
//! what waits of them has been taken out of h2 ([`Backlogs`]).

use std::{
    io::{self, IoSlice},
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{
    backlog::{Backlogs, READ_BYTES},
    inbound::Inbound,
};
use crate::{io::peer::Peer, runtime::timer::Timers};

/// A connection, and what has been read of it already.
#[derive(Debug)]
pub(super) struct Wire {
    peer: Peer,
    inbound: Inbound,
    backlogs: Rc<Backlogs>,
    timers: Rc<Timers>,
}

impl Wire {
    /// A connection on which nothing has come.
    pub(super) fn new(peer: Peer, backlogs: &Rc<Backlogs>, timers: &Rc<Timers>) -> Self {
        Self { peer, inbound: Inbound::new(), backlogs: backlogs.clone(), timers: timers.clone() }
    }
}

/// Reads on; 0 at the end.
fn poll_read(
    Peer { socket, rest }: &mut Peer,
    cx: &mut Context<'_>,
    into: &mut [u8],
) -> Poll<io::Result<usize>> {
    if rest.is_empty() {
        return socket.poll_read(cx, into);
    }
    let early = into.len().min(rest.len());
    into[..early].copy_from_slice(&rest[..early]);
    rest.drain(..early);
    Poll::Ready(Ok(early))
}

impl AsyncRead for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { peer, inbound, backlogs, timers } = self.get_mut();
        if backlogs.are_due() {
            // It is woken when this turn is over, and with it what was due.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        loop {
            let due = inbound.due().len().min(into.remaining());
            if due > 0 {
                into.put_slice(&inbound.due()[..due]);
                inbound.pass(due);
                return Poll::Ready(Ok(()));
            }
            let missing = inbound.missing();
            if !missing.is_empty() {
                let count = ready!(poll_read(peer, cx, missing))?;
                inbound.complete(count, timers.coarse_now());
                backlogs.note_latest(inbound.latest());
                continue;
            }
            let room = into.initialize_unfilled_to(into.remaining().min(READ_BYTES));
            let count = ready!(poll_read(peer, cx, room))?;
            let kept = inbound.sift(&mut room[..count], timers.coarse_now());
            into.advance(kept);
            backlogs.note_latest(inbound.latest());
            backlogs.add_small(inbound.take_small());
            if kept > 0 || count == 0 {
                return Poll::Ready(Ok(()));
            }
        }
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
        self.get_mut().peer.socket.poll_write_both(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let socket = &mut self.get_mut().peer.socket;
        ready!(socket.poll_flush(cx))?;
        socket.shut();
        Poll::Ready(Ok(()))
    }
}
