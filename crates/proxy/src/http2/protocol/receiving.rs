//! What a session takes of its stream.

use std::task::{Context, Poll};

use bytes::Bytes;
use loadline_core::{decide::reason::Reason, time::Instant};

use super::{Protocol, outbound::PIECE, table::Slot};

impl Protocol {
    /// The next piece of payload; none at its end.
    pub(in super::super) fn poll_data(
        &mut self,
        slot: Slot,
        cx: &Context<'_>,
    ) -> Poll<Option<Result<Bytes, Reason>>> {
        let Some(stream) = self.streams.get_mut(slot) else { return Poll::Ready(None) };
        if let Some(fault) = stream.fault {
            return Poll::Ready(Some(Err(fault)));
        }
        if !stream.received.is_empty() {
            let piece = stream.received.len().min(PIECE);
            let piece = stream.received.split_to(piece).freeze();
            self.release_taken(slot, piece.len());
            return Poll::Ready(Some(Ok(piece)));
        }
        if stream.has_received_end {
            return Poll::Ready(None);
        }
        stream.wait_to_read(cx);
        Poll::Pending
    }

    /// Ready when it is known whether a request has a body: whether it has none.
    pub(in super::super) fn poll_bodiless(
        &mut self,
        slot: Slot,
        cx: &Context<'_>,
    ) -> Poll<Result<bool, Reason>> {
        let Some(stream) = self.streams.get_mut(slot) else { return Poll::Ready(Ok(false)) };
        if let Some(fault) = stream.fault {
            return Poll::Ready(Err(fault));
        }
        if !stream.received.is_empty() {
            return Poll::Ready(Ok(false));
        }
        if stream.has_received_end {
            return Poll::Ready(Ok(stream.trailers.is_empty()));
        }
        stream.wait_to_read(cx);
        Poll::Pending
    }

    /// What follows the payload, in the syntax of HTTP/1.
    pub(in super::super) fn take_trailers_of(&mut self, slot: Slot) -> Vec<u8> {
        let stream = self.streams.get_mut(slot);
        stream.map(|stream| std::mem::take(&mut stream.trailers)).unwrap_or_default()
    }

    /// Ready when the client has reset a stream, or is gone.
    pub(in super::super) fn poll_fault(&mut self, slot: Slot, cx: &Context<'_>) -> Poll<()> {
        let Some(stream) = self.streams.get_mut(slot) else { return Poll::Ready(()) };
        if stream.fault.is_some() {
            return Poll::Ready(());
        }
        stream.wait_to_write(cx);
        Poll::Pending
    }

    /// Why a stream is over that is not in order.
    pub(in super::super) fn fault(&mut self, slot: Slot) -> Option<Reason> {
        self.streams.get_mut(slot)?.fault
    }

    /// Whether the client may send hardly anything, since what came on other streams has not been
    /// taken: it may leave room unused that is less than a frame.
    pub(in super::super) const fn is_held_back(&self) -> bool {
        self.window.left() < PIECE as i64
    }

    /// What a stream waits for that has something to write.
    pub(in super::super) fn waits_for(&mut self, slot: Slot) -> WaitsFor {
        match self.streams.get_mut(slot) {
            Some(stream) if stream.send_window <= 0 => WaitsFor::Stream(stream.granted_at),
            _ if self.out.window <= 0 => WaitsFor::Connection(self.out.widened_at),
            _ => WaitsFor::Socket,
        }
    }
}

/// Who is to make room for a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum WaitsFor {
    /// The client in the window of the stream; when some was granted last that was waited for.
    Stream(Option<Instant>),
    /// The client in the window of the connection; when it was widened last.
    Connection(Instant),
    /// The socket, and the streams whose turn comes first.
    Socket,
}
