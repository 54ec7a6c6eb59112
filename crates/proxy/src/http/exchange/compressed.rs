//! Compresses a response on its way to the one client that it was fetched for.
//!
//! What is stored is compressed once, when all of it is there ([`super::coded`]). What is not, or
//! would have to be validated for the next client, is compressed as it comes, as on a route without
//! a cache: in the client's pace, and what the server has said when it pauses arrives at once.

use std::{future::poll_fn, task::Poll};

use loadline_core::{
    compress::Algorithm,
    decide::{ending::Ending, reason::Reason},
    fleet::Compression,
};
use tokio::task::yield_now;

use super::{Exchange, coded::SLICE, stored::Broken};
use crate::{
    cache::{Failed, Reader, Response},
    http::compress::encoder::{Encoder, Operation},
    runtime::yield_once::yield_once,
};

/// A body that is coming in, and the compressed form of what has come.
pub(super) struct Compressed {
    reader: Reader,
    algorithm: Algorithm,
    encoder: Encoder,
    /// What the encoder gave last.
    output: Vec<u8>,
    /// Something that has come may still be in the encoder.
    holds: bool,
    /// The encoder has given all there is.
    is_over: bool,
    /// Bytes that came, and what they became.
    plain: u64,
    coded: u64,
}

impl Compressed {
    /// The form by `algorithm` of what `reader` brings.
    pub(super) fn new(reader: Reader, algorithm: Algorithm, encoder: Encoder) -> Box<Self> {
        let (output, holds, is_over) = (Vec::new(), false, false);
        Box::new(Self { reader, algorithm, encoder, output, holds, is_over, plain: 0, coded: 0 })
    }

    /// Compresses a slice of the body, which has been taken then.
    fn encode(&mut self, slice: &[u8], operation: Operation) -> Result<(), Broken> {
        let encoded = self.encoder.encode(slice, operation, &mut self.output);
        encoded.map_err(|_| Broken::Source(FAILED))?;
        self.holds = operation == Operation::Process;
        self.is_over = operation == Operation::Finish;
        self.reader.advance(slice.len() as u64);
        self.plain += slice.len() as u64;
        Ok(())
    }

    /// Whether the server pauses: nothing more has come, not even that the reactor has still to
    /// tell of.
    async fn pauses(&self) -> bool {
        if !self.lacks_more().await {
            return false;
        }
        yield_now().await;
        self.lacks_more().await
    }

    async fn lacks_more(&self) -> bool {
        poll_fn(|cx| Poll::Ready(self.reader.poll_piece(cx).is_pending())).await
    }
}

impl Exchange<'_> {
    /// What compresses a body that is coming in; none where it is sent as it is.
    pub(super) fn encoder(
        &self,
        compression: &Compression,
        algorithm: Algorithm,
        (response, reader): (&Response, &Reader),
    ) -> Option<Encoder> {
        if reader.whole_length().is_some_and(|length| compression.is_short(length)) {
            return None;
        }
        let encoders = &self.worker.encoders;
        let level = encoders.level(algorithm, compression.levels)?;
        encoders.take(algorithm, level, response.length.complete()).ok()
    }

    /// The next bytes of a compressed form; empty at its end. While more is waited for, what goes
    /// before is sent.
    pub(super) async fn compressed<'b>(
        &mut self,
        body: &'b mut Compressed,
        text: &mut Vec<u8>,
    ) -> Result<&'b [u8], Broken> {
        body.output.clear();
        while body.output.is_empty() && !body.is_over {
            if body.holds && body.pauses().await {
                body.encode(b"", Operation::Flush)?;
                continue;
            }
            let piece = match self.arriving(&body.reader, text).await {
                // What has come goes before that.
                Err(Broken::Source(_)) if body.holds => {
                    body.encode(b"", Operation::Flush)?;
                    continue;
                }
                arrived => arrived?,
            };
            let slice = &piece[..piece.len().min(SLICE)];
            let is_last = slice.is_empty();
            body.encode(slice, if is_last { Operation::Finish } else { Operation::Process })?;
            if !is_last {
                yield_once().await;
            }
        }
        body.coded += body.output.len() as u64;
        Ok(body.output.as_slice())
    }

    /// Counts what was compressed, and keeps the encoder for another response.
    pub(super) fn conclude(&self, body: Compressed) {
        self.count_coded(body.algorithm, body.plain, body.coded);
        self.worker.encoders.give(body.encoder);
    }
}

/// How a body ends whose encoder cannot go on.
const FAILED: Failed = Failed { ending: Ending::Internal, reason: Some(Reason::SystemError) };
