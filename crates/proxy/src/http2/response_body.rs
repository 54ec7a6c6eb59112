//! The body of a response on its way to a client: the bytes of an HTTP/1 body in, frames out.
//!
//! Where there is room the payload is written straight into the frame. Where there is none, a piece
//! is taken and counts as written when all of it has found room. Until then whoever writes waits,
//! and reads nothing from where the bytes come from.

use std::{
    io, mem,
    task::{Context, Poll, ready},
};

use loadline_core::{decide::reason::Reason, time::Instant};
use loadline_http1::BodyReader;

use super::{
    protocol::{ErrorCode, PIECE},
    stream::Handle,
};

/// A body whose head has gone.
#[derive(Debug)]
pub(super) struct ResponseBody {
    body: BodyReader,
    /// Payload that waits for room.
    held: Vec<u8>,
    /// How much of it has gone.
    gone: usize,
    /// Bytes that were taken and have not been reported as written.
    owed: usize,
    /// The end has been sent.
    is_over: bool,
    /// Room that is left after a write is kept for what is read next.
    keeps_room: bool,
}

impl ResponseBody {
    /// The body that `body` reads.
    pub(super) const fn new(body: BodyReader) -> Self {
        Self { body, held: Vec::new(), gone: 0, owed: 0, is_over: false, keeps_room: false }
    }

    /// Keeps room that a write leaves for what is read next, until it is returned.
    pub(super) const fn keep_room(&mut self) {
        self.keeps_room = true;
    }

    /// Leaves room that was kept to other streams.
    pub(super) fn return_room(&mut self, stream: &Handle) {
        self.keeps_room = false;
        self.leave_room(stream);
    }

    /// How much can be written at once.
    pub(super) fn room(&self, stream: &Handle, now: Instant) -> usize {
        if self.owed == 0 { stream.room(now) } else { 0 }
    }

    /// Ready when something that is read can be written at once: how much.
    pub(super) fn poll_room(&self, stream: &Handle, cx: &Context<'_>, now: Instant) -> Poll<usize> {
        // Of a stream that has failed the next write tells.
        stream.poll_room(self.ahead(), cx, now).map(|room| room.unwrap_or(usize::MAX))
    }

    /// What is to come of the body, as far as that is known.
    fn ahead(&self) -> usize {
        usize::try_from(self.body.payload_ahead()).unwrap_or(usize::MAX).max(PIECE)
    }

    /// Writes some of the body. Once this has been pending, the next call must begin with the same
    /// bytes.
    pub(super) fn poll_write(
        &mut self,
        stream: &Handle,
        cx: &mut Context<'_>,
        (bytes, now): (&[u8], Instant),
    ) -> Poll<io::Result<usize>> {
        if self.owed == 0 {
            if let Poll::Ready(room) = stream.poll_room(bytes.len(), cx, now) {
                let room = room.map_err(io::Error::other)?;
                return Poll::Ready(self.write_all(stream, &bytes[..room]));
            }
            // What is no payload needs no room, as the end of it.
            self.hold(&bytes[..bytes.len().min(PIECE)])?;
            if self.held.is_empty() {
                stream.protocol().return_grant(stream.slot());
            }
        }
        ready!(self.poll_flush(stream, cx, now)).map_err(io::Error::other)?;
        self.leave_room(stream);
        Poll::Ready(Ok(mem::take(&mut self.owed)))
    }

    /// What of its room a write leaves is for others, unless more is read at once.
    fn leave_room(&self, stream: &Handle) {
        if !self.keeps_room {
            stream.protocol().return_room(stream.slot());
        }
    }

    /// How much has gone of what a write was given that is pending, or was given up.
    pub(super) const fn begun(&self) -> usize {
        self.owed.saturating_sub(self.held.len() - self.gone)
    }

    /// Ends the body, which must be whole: one that is not is reset.
    pub(super) fn shut(&mut self, stream: &Handle) {
        if self.is_over {
            return;
        }
        if self.held.is_empty() && self.body.end_of_stream().is_ok() {
            self.end(stream);
        } else {
            stream.protocol().reset(stream.slot(), ErrorCode::INTERNAL_ERROR);
        }
    }

    /// Writes bytes for which there is room: how many.
    fn write_all(&mut self, stream: &Handle, bytes: &[u8]) -> io::Result<usize> {
        let mut consumed = 0;
        loop {
            let piece = (bytes.len() - consumed).min(PIECE);
            consumed += self.write(stream, &bytes[consumed..consumed + piece])?;
            if consumed == bytes.len() || self.body.is_finished() {
                break;
            }
        }
        self.leave_room(stream);
        Ok(consumed)
    }

    /// Writes one frame: how many bytes were for it.
    fn write(&mut self, stream: &Handle, bytes: &[u8]) -> io::Result<usize> {
        let (mut consumed, body) = (0, &mut self.body);
        let mut is_end = false;
        stream.protocol().write_data(stream.slot(), |out| {
            let fed = body.feed_data(bytes, |payload| out.extend_from_slice(payload));
            consumed = fed.map_or(0, |progress| progress.consumed);
            is_end = body.is_finished() && body.trailers().is_none();
            // Something behind the body, or no body at all.
            (consumed > 0).then_some(is_end).ok_or(io::ErrorKind::InvalidData)
        })?;
        self.is_over = is_end;
        if self.body.is_finished() && !is_end {
            self.end(stream);
        }
        Ok(consumed)
    }

    fn hold(&mut self, bytes: &[u8]) -> io::Result<()> {
        let held = &mut self.held;
        match self.body.feed_data(bytes, |payload| held.extend_from_slice(payload)) {
            Ok(progress) if progress.consumed > 0 => self.owed = progress.consumed,
            _ => return Err(io::ErrorKind::InvalidData.into()),
        }
        Ok(())
    }

    /// Writes what waits.
    fn poll_flush(
        &mut self,
        stream: &Handle,
        cx: &mut Context<'_>,
        now: Instant,
    ) -> Poll<Result<(), Reason>> {
        while self.gone < self.held.len() {
            let left = self.held.len() - self.gone;
            let more = if self.keeps_room { self.ahead() } else { 0 };
            let room = ready!(stream.poll_room(left.saturating_add(more), cx, now))?.min(left);
            let piece = &self.held[self.gone..self.gone + room];
            self.gone += room;
            let is_last = self.gone == self.held.len();
            self.is_over = is_last && self.body.is_finished() && self.body.trailers().is_none();
            let is_over = self.is_over;
            stream.protocol().write_data(stream.slot(), |out| {
                out.extend_from_slice(piece);
                Ok(is_over)
            })?;
        }
        (self.held, self.gone) = (Vec::new(), 0);
        if self.body.is_finished() && !self.is_over {
            self.end(stream);
        }
        Poll::Ready(Ok(()))
    }

    /// Sends the end of the stream by itself, which needs no room.
    fn end(&mut self, stream: &Handle) {
        self.is_over = true;
        let (mut protocol, slot) = (stream.protocol(), stream.slot());
        // A stream that has failed since is seen with the next call.
        let Some(trailers) = self.body.trailers() else {
            let _ = protocol.write_data(slot, |_| Ok::<_, Reason>(true));
            return;
        };
        let _ = protocol.write_head(slot, true, |encoder, out| {
            trailers.iter().for_each(|(name, value)| encoder.field(out, name, value));
        });
    }
}
