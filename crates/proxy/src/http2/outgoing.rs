//! What a stream takes: the bytes of an HTTP/1 body in, frames out.
//!
//! Bytes are taken in pieces. What counts as written of one is what has found room in the peer's
//! window and in the memory set aside for the stream. Until that is all of it whoever writes waits,
//! and reads nothing from where the bytes come from.

use std::{
    io,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use h2::{Reason, SendStream};
use http::HeaderMap;
use loadline_http1::BodyReader;

use super::head::fields;

/// The sending half of a stream, once its head has gone.
#[derive(Debug)]
pub(super) struct Outgoing {
    send: SendStream<Bytes>,
    body: BodyReader,
    /// Payload that waits for the window.
    held: Bytes,
    /// Bytes that were taken and have not been reported as written.
    owed: usize,
    /// The end has been sent.
    over: bool,
}

impl Outgoing {
    /// What takes the bytes that `body` reads.
    pub(super) const fn new(send: SendStream<Bytes>, body: BodyReader) -> Self {
        Self { send, body, held: Bytes::new(), owed: 0, over: false }
    }

    /// Writes some of the body: as much of a piece as has found room. The next call must go on
    /// behind that, and once this has been pending begin with the same bytes.
    pub(super) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.owed == 0 {
            self.take(bytes)?;
        }
        let waited = self.held.len();
        if self.poll_flush(cx)?.is_pending() && self.held.len() == waited {
            return Poll::Pending;
        }
        // As long as something is held, so much is left of the bytes.
        let gone = self.owed - self.held.len();
        self.owed = self.held.len();
        Poll::Ready(Ok(gone))
    }

    /// Ends the body, which must be whole: one that is not is reset.
    pub(super) fn shut(&mut self) {
        if self.over {
            return;
        }
        if !self.is_through() || self.end().is_err() {
            self.reset();
        }
    }

    /// Whether that is all of the body if nothing more comes.
    fn is_through(&mut self) -> bool {
        self.over || self.held.is_empty() && self.body.end_of_stream().is_ok()
    }

    /// Ends the stream so that nobody takes what there was of the body for the whole. What h2 has
    /// not sent yet is not sent any more.
    fn reset(&mut self) {
        self.send.send_reset(Reason::INTERNAL_ERROR);
    }

    fn take(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut payload = Vec::with_capacity(bytes.len().min(PIECE));
        let piece = &bytes[..bytes.len().min(PIECE)];
        let fed = self.body.feed_data(piece, |data| payload.extend_from_slice(data));
        match fed {
            Ok(progress) if progress.consumed > 0 => self.owed = progress.consumed,
            // Something behind the body, or no body at all.
            _ => return Err(io::ErrorKind::InvalidData.into()),
        }
        self.held = payload.into();
        Ok(())
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.held.is_empty() {
            self.send.reserve_capacity(self.held.len());
            // Room that is there already is not announced again.
            let room = match self.send.capacity() {
                0 => ready!(self.send.poll_capacity(cx)).ok_or(io::ErrorKind::BrokenPipe)?,
                room => Ok(room),
            };
            let room = room.map_err(io::Error::other)?;
            let piece = self.held.split_to(room.min(self.held.len()));
            let is_last = self.held.is_empty() && self.is_whole() && self.trailers().is_none();
            self.send.send_data(piece, is_last).map_err(io::Error::other)?;
            self.over = is_last;
        }
        if self.is_whole() && !self.over {
            self.end()?;
        }
        Poll::Ready(Ok(()))
    }

    /// Sends the end of the stream by itself, which needs no window.
    fn end(&mut self) -> io::Result<()> {
        self.over = true;
        let ended = match self.trailers() {
            Some(trailers) => self.send.send_trailers(trailers),
            None => self.send.send_data(Bytes::new(), true),
        };
        ended.map_err(io::Error::other)
    }

    const fn is_whole(&self) -> bool {
        self.body.is_finished()
    }

    fn trailers(&self) -> Option<HeaderMap> {
        self.body.trailers().map(|trailers| fields(trailers.iter()))
    }
}

/// Taken at a time: with its header of 9 B, a frame that fills one record of TLS (RFC 8446, 5.1).
const PIECE: usize = (16 << 10) - 9;
