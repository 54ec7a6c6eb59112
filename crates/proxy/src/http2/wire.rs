//! A connection in the shape h2 wants: tokio's traits.
//!
//! h2 flushes after each DATA frame. Over TLS each would be a system call of its own, so a
//! connection to a client is corked: records are sealed and wait until h2 has written all it has,
//! or until rustls holds as many as it may (64 KiB). [`Cork::poll_flush`] sends them together.
//!
//! What is read passes an [`Inbound`] first. After many small frames nothing more is read until
//! what waits of them has been taken out of h2 ([`Backlogs`]).

use std::{
    cell::{Cell, RefCell},
    io::{self, IoSlice},
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{
    backlog::{Backlogs, READ_BYTES},
    inbound::Inbound,
    offered::Offered,
    outbound::Outbound,
};
use crate::{io::peer::Peer, runtime::timer::Timers};

/// A connection, and what has been read of it already.
#[derive(Debug)]
pub(super) struct Wire {
    shared: Rc<Shared>,
    inbound: Inbound,
    offered: Offered,
    /// Where what h2 resets is looked for.
    outbound: Option<Outbound>,
    backlogs: Rc<Backlogs>,
    timers: Rc<Timers>,
}

/// Decides when a [`Wire`] sends what was written to it.
#[derive(Debug)]
pub(super) struct Cork(Rc<Shared>);

#[derive(Debug)]
struct Shared {
    peer: RefCell<Peer>,
    is_corked: Cell<bool>,
    /// It took no more when it was last written to, so that h2 holds something back.
    is_full: Cell<bool>,
}

impl Wire {
    /// A connection that sends what is written to it at once. What is read of it is frames behind
    /// a `preface` of so many bytes.
    pub(super) fn new(
        peer: Peer,
        preface: usize,
        backlogs: &Rc<Backlogs>,
        timers: &Rc<Timers>,
    ) -> Self {
        Self {
            shared: Rc::new(Shared {
                peer: RefCell::new(peer),
                is_corked: Cell::new(false),
                is_full: Cell::new(false),
            }),
            inbound: Inbound::behind(preface),
            offered: Offered::new(None),
            outbound: None,
            backlogs: backlogs.clone(),
            timers: timers.clone(),
        }
    }

    /// The same to a client, which is told that this is the size of the longest head.
    pub(super) fn for_client(self, size: u32) -> Self {
        let offered = Offered::new(Some(size));
        Self { offered, outbound: Some(Outbound::default()), ..self }
    }

    /// What can keep back what is written to it.
    pub(super) fn cork(&self) -> Cork {
        Cork(self.shared.clone())
    }
}

impl Shared {
    /// Reads on; 0 at the end.
    fn poll_read(&self, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        let Peer { socket, rest } = &mut *self.peer.borrow_mut();
        if rest.is_empty() {
            return socket.poll_read(cx, into);
        }
        let early = into.len().min(rest.len());
        into[..early].copy_from_slice(&rest[..early]);
        rest.drain(..early);
        Poll::Ready(Ok(early))
    }
}

impl Cork {
    /// Keeps records of TLS back from now on. Whoever calls it has to call [`Cork::poll_flush`]
    /// after each turn of h2.
    pub(super) fn put_in(&self) {
        self.0.is_corked.set(true);
    }

    /// Whether h2 has more to write than could be taken in its last turn.
    pub(super) fn is_full(&self) -> bool {
        self.0.is_full.get()
    }

    /// Sends what was kept back. A connection that is broken has nothing to send: h2 sees that
    /// with its next read or write.
    pub(super) fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.0.peer.borrow_mut().socket.poll_flush(cx).map(|_| ())
    }
}

fn note_latest(backlogs: &Backlogs, inbound: &Inbound) {
    if backlogs.charges_streams() {
        backlogs.note_latest(inbound.latest());
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { shared, inbound, backlogs, timers, .. } = self.get_mut();
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
                let count = ready!(shared.poll_read(cx, missing))?;
                inbound.complete(count, timers.coarse_now());
                note_latest(backlogs, inbound);
                continue;
            }
            let room = into.initialize_unfilled_to(into.remaining().min(READ_BYTES));
            let count = ready!(shared.poll_read(cx, room))?;
            let kept = inbound.sift(&mut room[..count], timers.coarse_now());
            into.advance(kept);
            note_latest(backlogs, inbound);
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
        let [first, second] =
            [filled.next().unwrap_or_default(), filled.next().unwrap_or_default()];
        let Self { shared, offered, outbound, backlogs, .. } = self.get_mut();
        let changed = offered.put_in(first);
        let pieces = [changed.as_deref().unwrap_or(first), second];
        let socket = &mut shared.peer.borrow_mut().socket;
        let written = match shared.is_corked.get() {
            true => socket.poll_write_corked(cx, pieces),
            false => socket.poll_write_both(cx, pieces),
        };
        shared.is_full.set(written.is_pending());
        if let Poll::Ready(Ok(count)) = written {
            if let Some(outbound) = outbound {
                outbound.pass(pieces, count, |stream| backlogs.note_malformed(stream));
            }
            offered.pass(count);
        }
        written
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let socket = &mut self.shared.peer.borrow_mut().socket;
        ready!(socket.poll_flush(cx))?;
        socket.shut();
        Poll::Ready(Ok(()))
    }
}
