//! What a stream brings: frames in, the bytes of an HTTP/1 message out.
//!
//! Of the body there is never more here than one piece. The window is given back when it is
//! taken, and it is taken when there is room for it further on, so a slow receiver slows its
//! sender down and nobody else.

use std::{
    io,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use loadline_core::decide::reason::Reason;

use super::backlog::Receiver;

/// What a body comes from, of either version that has streams.
pub(crate) trait Receive {
    /// The next piece of payload; none at the end.
    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Reason>>>;

    /// What follows the payload, in the syntax of HTTP/1.
    fn poll_trailers(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Vec<u8>>, Reason>>;
}

/// The receiving half of a stream, as HTTP/1.
#[derive(Debug)]
pub(crate) struct Incoming<R = Receiver> {
    receive: R,
    coding: Coding,
    stage: ReadState,
    /// Syntax that goes first: a head, the size of a chunk, trailers.
    text: Vec<u8>,
    /// Bytes of `text` that were read.
    gone: usize,
    /// Payload behind it.
    data: Bytes,
    /// What ends the chunk.
    tail: &'static [u8],
}

/// How the body is written in HTTP/1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coding {
    /// Unchanged: its length is known, or it is another protocol rather than a body.
    Plain,
    /// In chunks.
    Chunked,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadState {
    Data,
    Trailers,
    Over,
    Broken(Reason),
}

impl<R: Receive> Incoming<R> {
    /// A message that begins with the head `text`.
    pub(crate) const fn new(text: Vec<u8>, coding: Coding, receive: R) -> Self {
        Self {
            receive,
            coding,
            stage: ReadState::Data,
            text,
            gone: 0,
            data: Bytes::new(),
            tail: b"",
        }
    }

    /// Reads what is there; 0 at the end of the message.
    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let mut count = 0;
        loop {
            count += self.copy(&mut into[count..]);
            if count == into.len() {
                return Poll::Ready(Ok(count));
            }
            match self.poll_more(cx) {
                Poll::Ready(Ok(true)) => {}
                nothing if count == 0 => return nothing.map_ok(|_| 0),
                // The end, and what is wrong, is seen again.
                _ => return Poll::Ready(Ok(count)),
            }
        }
    }

    /// Hands out what is in memory.
    fn copy(&mut self, into: &mut [u8]) -> usize {
        let mut count = take(&self.text[self.gone..], into);
        self.gone += count;
        if self.gone == self.text.len() && self.gone > 0 {
            (self.text, self.gone) = (Vec::new(), 0);
        }
        let of_data = take(&self.data, &mut into[count..]);
        self.data = self.data.split_off(of_data);
        count += of_data;
        let of_tail = take(self.tail, &mut into[count..]);
        self.tail = &self.tail[of_tail..];
        count + of_tail
    }

    /// Takes the next frame; false at the end.
    fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        match self.stage {
            ReadState::Data => match ready!(self.receive.poll_data(cx)) {
                Some(Ok(data)) => self.begin_data(data),
                Some(Err(reason)) => self.stage = ReadState::Broken(reason),
                None => self.stage = ReadState::Trailers,
            },
            ReadState::Trailers => match ready!(self.receive.poll_trailers(cx)) {
                Ok(trailers) => self.end(&trailers.unwrap_or_default()),
                Err(reason) => self.stage = ReadState::Broken(reason),
            },
            ReadState::Over => return Poll::Ready(Ok(false)),
            ReadState::Broken(reason) => return Poll::Ready(Err(io::Error::other(reason))),
        }
        Poll::Ready(Ok(true))
    }

    fn begin_data(&mut self, data: Bytes) {
        if self.coding == Coding::Chunked && !data.is_empty() {
            self.text.extend_from_slice(format!("{:x}\r\n", data.len()).as_bytes());
            self.tail = b"\r\n";
        }
        self.data = data;
    }

    fn end(&mut self, trailers: &[u8]) {
        self.stage = ReadState::Over;
        if self.coding == Coding::Chunked {
            self.text.extend_from_slice(b"0\r\n");
            self.text.extend_from_slice(trailers);
            self.text.extend_from_slice(b"\r\n");
        }
    }
}

impl Incoming {
    /// Ready when the stream has ended behind a message of which nothing is missing, or brings more
    /// than it should.
    pub(super) fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.stage == ReadState::Data && self.receive.is_over() {
            return Poll::Ready(());
        }
        while let Ok(true) = ready!(self.poll_more(cx)) {
            if !self.data.is_empty() {
                break;
            }
        }
        Poll::Ready(())
    }
}

/// Copies as much as fits.
fn take(from: &[u8], into: &mut [u8]) -> usize {
    let count = from.len().min(into.len());
    into[..count].copy_from_slice(&from[..count]);
    count
}
