//! One end of an exchange: its socket, and the bytes that were received and not used yet.

use std::{
    future::poll_fn,
    task::{Context, Poll, ready},
};

use loadline_core::{decide::reason::Reason, time::Duration};

use crate::{
    io::{
        buffer::{Buffer, Buffers},
        socket::Socket,
    },
    runtime::timer::Timer,
    telemetry::reason::of_io,
};

/// A connection to a client or to a server.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) socket: Socket,
    /// Part of a head, or the beginning of the next message. Empty, and without memory, as a rule.
    pub(crate) rest: Vec<u8>,
}

/// Why no bytes come from, or go to, a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gone {
    /// It closed its side in good order.
    Closed,
    /// The connection broke, and why.
    Broken(Reason),
    /// The deadline passed.
    Expired,
}

impl Gone {
    /// The same as a reason.
    pub(crate) const fn reason(self) -> Reason {
        match self {
            Self::Closed => Reason::Closed,
            Self::Broken(reason) => reason,
            Self::Expired => Reason::TimedOut,
        }
    }
}

impl Peer {
    /// A peer that has sent nothing yet.
    pub(crate) fn new(socket: Socket) -> Self {
        Self { socket, rest: Vec::new() }
    }

    /// Reads more: a buffer with what was left and at least one byte behind it.
    pub(crate) fn poll_fill(
        &mut self,
        cx: &mut Context<'_>,
        buffers: &Buffers,
    ) -> Poll<Result<Buffer, Gone>> {
        self.poll_fill_up_to(cx, buffers, usize::MAX)
    }

    /// As [`Peer::poll_fill`], and leaves all but `most` new bytes to the kernel.
    pub(crate) fn poll_fill_up_to(
        &mut self,
        cx: &mut Context<'_>,
        buffers: &Buffers,
        most: usize,
    ) -> Poll<Result<Buffer, Gone>> {
        let mut buffer = buffers.take_with_space(&self.rest, most);
        let space = buffer.space();
        let most = most.min(space.len());
        let read = self.socket.poll_read(cx, &mut space[..most]);
        if let Poll::Ready(Ok(count @ 1..)) = read {
            buffer.add(count);
            self.rest = Vec::new();
            return Poll::Ready(Ok(buffer));
        }
        buffers.give(buffer);
        Poll::Ready(Err(match ready!(read) {
            Ok(_) => Gone::Closed,
            Err(error) => Gone::Broken(of_io(&error)),
        }))
    }

    /// As [`Peer::poll_fill`], until the deadline.
    pub(crate) async fn fill(&mut self, buffers: &Buffers, timer: &Timer) -> Result<Buffer, Gone> {
        poll_fn(|cx| match self.poll_fill(cx, buffers) {
            Poll::Pending if timer.has_expired() => Poll::Ready(Err(Gone::Expired)),
            filled => filled,
        })
        .await
    }

    /// Sends all of `bytes`, until the deadline.
    pub(crate) async fn send(&mut self, bytes: &[u8], timer: &Timer) -> Result<(), Gone> {
        self.send_both([bytes, b""], timer).await.map(|_| ())
    }

    /// Sends all of the first piece and as much of the second as goes with it: how much that was.
    pub(crate) async fn send_both(
        &mut self,
        pieces: [&[u8]; 2],
        timer: &Timer,
    ) -> Result<usize, Gone> {
        let mut sent = 0;
        poll_fn(|cx| self.poll_send(cx, pieces, &mut sent, timer)).await?;
        Ok(sent - pieces[0].len())
    }

    /// The same, of which so many bytes have been sent: more as they go.
    pub(crate) fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        pieces: [&[u8]; 2],
        sent: &mut usize,
        timer: &Timer,
    ) -> Poll<Result<(), Gone>> {
        while *sent < pieces[0].len() {
            let head = &pieces[0][*sent..];
            let count = if pieces[1].is_empty() {
                self.socket.poll_write(cx, head)
            } else {
                self.socket.poll_write_both(cx, [head, pieces[1]])
            };
            match count {
                Poll::Ready(Ok(count @ 1..)) => *sent += count,
                Poll::Ready(Ok(_)) => return Poll::Ready(Err(Gone::Closed)),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(Gone::Broken(of_io(&error)))),
                Poll::Pending if self.is_late(timer) => return Poll::Ready(Err(Gone::Expired)),
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Whether it has let the deadline pass that it had to take something by. Of several responses
    /// that are sent one behind the other a client gets first what goes first. And the kernel says
    /// that there is room only when a third of its buffer is free: a slow client may have taken
    /// much before. A stream of HTTP/2 that waits for others of its connection is late when the
    /// connection is.
    pub(crate) fn is_late(&self, timer: &Timer) -> bool {
        if !timer.has_expired() {
            return false;
        }
        let waits_for_turn = matches!(&self.socket, Socket::Quic(it) if it.was_passed_over());
        if waits_for_turn {
            timer.arm_again();
            return false;
        }
        let since = self.socket.since_taken();
        !since.is_some_and(|since| timer.go_on_since(Duration::from_std(since)))
    }

    /// Keeps the bytes of `buffer` for later and gives the buffer back.
    pub(crate) fn keep(&mut self, buffer: Buffer, buffers: &Buffers) {
        if !buffer.filled().is_empty() {
            self.rest = buffer.filled().to_vec();
        }
        buffers.give(buffer);
    }
}

/// Why a request fails whose client is gone.
pub(crate) const fn client_gone(gone: Gone) -> Reason {
    match gone {
        Gone::Closed | Gone::Broken(_) => Reason::ClientGone,
        Gone::Expired => Reason::ClientTimeout,
    }
}
