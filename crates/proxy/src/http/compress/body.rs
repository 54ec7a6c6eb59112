//! A body from the server, through an encoder, to the client.
//!
//! As bytes arrive: a piece is read only when what came before it has been written, so a slow
//! client slows its server down, and what is held is bounded: a buffer that was read, its
//! compressed form, and the encoder. When the server pauses, what it has said is flushed, so that
//! events and long polls arrive at once.
//!
//! The worker's other connections go on meanwhile: [`SLICE`] is compressed at a time, then
//! everybody who has been waiting has a turn.

use std::{
    pin::pin,
    task::{Context, Poll, ready},
};

use loadline_core::decide::reason::Reason;
use loadline_http1::BodyReader;

use super::{
    encoder::{Encoder, EncoderFailed, Operation},
    encoders::Encoders,
};
use crate::{
    http::relay::{Broken, Download},
    io::{
        buffer::{Buffer, Buffers},
        peer::{Gone, Peer},
        socket::Socket,
    },
    telemetry::reason::of_io,
};

/// A response body that is being compressed.
#[derive(Debug)]
pub(crate) struct CompressedBody {
    body: BodyReader,
    encoder: Encoder,
    /// What came from the server and has not been compressed.
    input: Option<Buffer>,
    /// What waits to be written, beginning with the head, from `written` on.
    output: Vec<u8>,
    written: usize,
    /// Whether it goes in chunks; it ends with the connection otherwise.
    in_chunks: bool,
    stage: Stage,
    /// Why it breaks off when what has come of it has gone.
    cut: Option<Reason>,
    /// Whether bytes have moved since somebody last asked.
    moved: bool,
    /// Bytes written, head included.
    bytes: u64,
    /// Payload that came, and what it became.
    pub(crate) plain: u64,
    pub(crate) compressed: u64,
}

/// State of the encoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Everything has been flushed to the client.
    Flushed,
    /// Something, while more may come at once.
    Gathering,
    /// Something, and the server has paused for a moment.
    Paused,
    /// It has given all there is.
    Finished,
}

impl CompressedBody {
    /// The body that `body` reads, behind this head. `input` is what came of it with its own head.
    pub(crate) fn begin(
        (body, encoder): (BodyReader, Encoder),
        input: Buffer,
        head: Vec<u8>,
        in_chunks: bool,
    ) -> Self {
        let input = Some(input).filter(|input| !input.filled().is_empty());
        Self {
            body,
            encoder,
            input,
            output: head,
            written: 0,
            in_chunks,
            stage: Stage::Flushed,
            cut: None,
            moved: false,
            bytes: 0,
            plain: 0,
            compressed: 0,
        }
    }

    /// Gives everything back that can be used again.
    pub(crate) fn give_back(self, encoders: &Encoders, buffers: &Buffers) -> BodyReader {
        encoders.give(self.encoder);
        buffers.give_text(self.output);
        self.input.into_iter().for_each(|input| buffers.give(input));
        self.body
    }

    /// Compresses the next slice of what has come. What follows the body is left to `from`.
    fn encode_slice(&mut self, buffers: &Buffers, from: &mut Peer) -> Result<(), Broken> {
        let Some(mut input) = self.input.take() else { return Ok(()) };
        let start = self.begin_chunk();
        let slice = &input.filled()[..input.filled().len().min(SLICE)];
        let (encoder, output) = (&mut self.encoder, &mut self.output);
        let (mut plain, mut encoded) = (0, Ok(()));
        let progress = self.body.feed_data(slice, |piece| {
            plain += piece.len() as u64;
            if encoded.is_ok() {
                encoded = encoder.encode(piece, Operation::Process, output);
            }
        });
        let consumed = progress.map_err(Broken::Syntax)?.consumed;
        encoded.map_err(failed)?;
        self.plain += plain;
        if plain > 0 {
            self.stage = Stage::Gathering;
        }
        input.consume(consumed);
        if self.body.is_finished() {
            self.finish(start)?;
            from.rest = input.filled().to_vec();
            buffers.give(input);
            return Ok(());
        }
        self.end_chunk(start);
        match input.filled() {
            [] => buffers.give(input),
            _ => self.input = Some(input),
        }
        Ok(())
    }

    /// Lets the client have all that has come.
    fn flush(&mut self) -> Result<(), Broken> {
        let start = self.begin_chunk();
        self.encoder.encode(b"", Operation::Flush, &mut self.output).map_err(failed)?;
        self.stage = Stage::Flushed;
        self.end_chunk(start);
        Ok(())
    }

    /// Breaks the body off behind all of it that has come, which the client can make use of.
    fn break_off(&mut self, why: Reason) -> Result<(), Broken> {
        self.cut = Some(why);
        if self.stage == Stage::Flushed { Ok(()) } else { self.flush() }
    }

    /// Ends the body, whose last chunk began at `start`.
    fn finish(&mut self, start: usize) -> Result<(), Broken> {
        self.encoder.encode(b"", Operation::Finish, &mut self.output).map_err(failed)?;
        self.stage = Stage::Finished;
        self.end_chunk(start);
        if self.in_chunks {
            self.output.extend_from_slice(b"0\r\n");
            match self.body.trailers() {
                Some(_) => self.body.write_trailers(&mut self.output),
                None => self.output.extend_from_slice(b"\r\n"),
            }
        }
        Ok(())
    }

    /// Leaves room for the size of a chunk: where it begins.
    fn begin_chunk(&mut self) -> usize {
        let start = self.output.len();
        if self.in_chunks {
            self.output.extend_from_slice(&[0; SIZE_LINE]);
        }
        start
    }

    /// Frames what was written since [`Self::begin_chunk`] as a chunk, or takes it back if that is
    /// nothing: an empty chunk would be the last.
    fn end_chunk(&mut self, start: usize) {
        let room = if self.in_chunks { SIZE_LINE } else { 0 };
        let length = self.output.len() - start - room;
        self.compressed += length as u64;
        if !self.in_chunks {
            return;
        }
        if length == 0 {
            self.output.truncate(start);
            return;
        }
        let line = format!("{length:x}\r\n");
        self.output[start..start + line.len()].copy_from_slice(line.as_bytes());
        self.output.copy_within(start + SIZE_LINE.., start + line.len());
        self.output.truncate(start + line.len() + length);
        self.output.extend_from_slice(b"\r\n");
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, to: &mut Socket) -> Poll<Result<(), Broken>> {
        while self.written < self.output.len() {
            let written = to.poll_write(cx, &self.output[self.written..]);
            let count = ready!(written).map_err(|error| Broken::Sink(of_io(&error)))?;
            if count == 0 {
                return Poll::Ready(Err(Broken::Sink(Reason::BrokenPipe)));
            }
            self.written += count;
            self.bytes += count as u64;
            self.moved = true;
        }
        self.output.clear();
        self.written = 0;
        Poll::Ready(Ok(()))
    }

    /// Takes the end of the server's connection.
    fn end(&mut self, gone: Gone) -> Result<(), Broken> {
        match gone {
            Gone::Closed if self.body.end_of_stream().is_ok() => {
                let start = self.begin_chunk();
                self.finish(start)
            }
            Gone::Closed | Gone::Broken(_) | Gone::Expired => self.break_off(gone.reason()),
        }
    }
}

impl Download for CompressedBody {
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        buffers: &Buffers,
        from: &mut Peer,
        to: &mut Socket,
    ) -> Poll<Result<(), Broken>> {
        let mut has_worked = false;
        loop {
            // The head goes together with what is at hand of the body.
            if self.stage == Stage::Flushed && self.bytes == 0 && !has_worked {
                has_worked = self.input.is_some();
                self.encode_slice(buffers, from)?;
            }
            ready!(self.poll_write(cx, to))?;
            if let Some(cut) = self.cut {
                return Poll::Ready(Err(Broken::Source(cut)));
            }
            if self.stage == Stage::Finished {
                return Poll::Ready(Ok(()));
            }
            if self.input.is_some() {
                if has_worked {
                    return let_others_go_first(cx);
                }
                has_worked = true;
                self.encode_slice(buffers, from)?;
                continue;
            }
            match (from.poll_fill(cx, buffers), self.stage) {
                (Poll::Ready(Ok(buffer)), _) => {
                    self.input = Some(buffer);
                    self.moved = true;
                }
                (Poll::Ready(Err(gone)), _) => self.end(gone)?,
                (Poll::Pending, Stage::Gathering) => {
                    // More may have come that the reactor has not told of.
                    self.stage = Stage::Paused;
                    return let_others_go_first(cx);
                }
                (Poll::Pending, Stage::Paused) => self.flush()?,
                (Poll::Pending, Stage::Flushed | Stage::Finished) => return Poll::Pending,
            }
        }
    }

    fn waits_for_sink(&self) -> bool {
        self.written < self.output.len()
    }

    fn has_moved(&mut self) -> bool {
        std::mem::take(&mut self.moved)
    }

    fn written(&self) -> u64 {
        self.bytes
    }
}

/// Lets every other task go first that has something to do, those included that the reactor has
/// still to hear of.
fn let_others_go_first(cx: &mut Context<'_>) -> Poll<Result<(), Broken>> {
    // Wakes this task once the reactor has been asked; an ordinary wake leaves it behind whatever
    // else is ready, and the reactor is asked after 61 turns only.
    pin!(tokio::task::yield_now()).poll(cx).map(Ok)
}

fn failed(_: EncoderFailed) -> Broken {
    Broken::Source(Reason::SystemError)
}

/// What is compressed before others have a turn: a fifth of a millisecond at the default level of
/// gzip, less with zstd.
const SLICE: usize = 32 << 10;

/// Room for the size of a chunk, which may be 4 GB in 8 digits, and the end of its line.
const SIZE_LINE: usize = 10;
