//! Room for what is read for a peer: streams of HTTP/2 share what their connection takes, and wait
//! for their turn. Until then what is for them stays with the kernel, where it came from: bytes
//! that were read long before they are written have left the processor's caches, and hold a buffer.

use std::task::{Context, Poll};

use super::Socket;

impl Socket {
    /// How much of what is read next it takes at once. Peers that share with nobody take anything:
    /// what they do not is written later.
    pub(crate) fn room(&self) -> usize {
        if let Self::Stream(stream) = self { stream.room() } else { usize::MAX }
    }

    /// Ready when it is its turn to take something: how much.
    pub(crate) fn poll_room(&self, cx: &Context<'_>) -> Poll<usize> {
        match self {
            Self::Stream(stream) => stream.poll_room(cx),
            _ => Poll::Ready(usize::MAX),
        }
    }

    /// Keeps room that a write leaves for what is read next, until it is returned.
    pub(crate) const fn keep_room(&mut self) {
        if let Self::Stream(stream) = self {
            stream.keep_room();
        }
    }

    /// Leaves room that was kept to others.
    pub(crate) fn return_room(&mut self) {
        if let Self::Stream(stream) = self {
            stream.return_room();
        }
    }

    /// Whether a client may not go on with its request, since others of its connection hold what
    /// may come.
    pub(crate) fn is_held_back(&self) -> bool {
        matches!(self, Self::Stream(stream) if stream.is_held_back())
    }

    /// Ready when something has come: whether that is known here before it is read, without a
    /// system call.
    pub(crate) fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        let has_payload = match self {
            Self::Plain(_) => false,
            Self::Secure(_, tls) => tls.has_payload(),
            _ => return Poll::Ready(false),
        };
        if has_payload {
            return Poll::Ready(true);
        }
        // What is wrong with it the next read tells.
        self.watched().map_or(Poll::Ready(true), |stream| stream.poll_read_ready(cx).map(|_| true))
    }
}
