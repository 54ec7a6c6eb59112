//! Relays a body in one direction: from a peer, through its body reader, to the other peer.
//!
//! Backpressure is that nothing is read while something is waiting to be written. A buffer is held
//! only while bytes are in it. The two directions of an exchange, and of a tunnel, are polled by
//! one task, so that a server may answer before it has seen the whole request.

use std::task::{Context, Poll, ready};

use loadline_core::decide::reason::Reason;
use loadline_http1::{BodyReader, Framing, ParseError};

use crate::{
    http::mirror::Copy,
    io::{
        buffer::{Buffer, Buffers},
        peer::{Gone, Peer},
        pipe::{PIPE_BYTES, Pipe},
        socket::Socket,
    },
    telemetry::reason::of_io,
};

/// One direction of a body.
#[derive(Debug)]
pub(crate) struct Relay {
    body: BodyReader,
    /// Passes on the payload alone, without its chunk framing.
    plain: bool,
    /// Bytes that wait to be written.
    buffer: Option<Buffer>,
    /// Payload behind them.
    pipe: Option<Pipe>,
    /// Whether the last read found so much that more is worth being spliced.
    bulk: bool,
    /// Whether bytes that have come wait at their source for room where they go.
    waits_for_room: bool,
    /// Whether bytes have moved since somebody last asked.
    moved: bool,
    /// Whether the source has given bytes, which may wait or be held back.
    has_read: bool,
    /// Nothing more will be passed on, complete or not.
    over: bool,
    /// Why splicing from the source failed. The kernel tells it once: a read then finds an end.
    failed: Option<Reason>,
    /// Bytes passed on.
    pub(crate) bytes: u64,
    /// What is read goes into this as well.
    copy: Option<Box<Copy>>,
}

/// What carries the body of a response to its client.
pub(crate) trait Download {
    /// Moves what can be moved; ready when the body is through.
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        buffers: &Buffers,
        from: &mut Peer,
        to: &mut Socket,
    ) -> Poll<Result<(), Broken>>;

    /// Whether bytes wait for the client, rather than for the server.
    fn waits_for_sink(&self) -> bool;

    /// Whether bytes have moved since the last call.
    fn has_moved(&mut self) -> bool;

    /// Bytes that were written to the client.
    fn written(&self) -> u64;
}

impl Download for Relay {
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        buffers: &Buffers,
        from: &mut Peer,
        to: &mut Socket,
    ) -> Poll<Result<(), Broken>> {
        Self::poll(self, cx, buffers, from, to)
    }

    fn waits_for_sink(&self) -> bool {
        Self::waits_for_sink(self)
    }

    fn has_moved(&mut self) -> bool {
        Self::has_moved(self)
    }

    fn written(&self) -> u64 {
        self.bytes
    }
}

/// Why a body did not get through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    /// The peer it comes from went away in the middle of it, and why.
    Source(Reason),
    /// The peer it goes to went away, and why.
    Sink(Reason),
    /// The body breaks a rule.
    Syntax(ParseError),
}

/// What is known about the bytes to come.
enum Ahead {
    /// Some are in the pipe.
    Payload,
    /// They are payload, and have not come yet.
    Nothing,
    /// They have to be read and parsed.
    Unknown,
}

impl Relay {
    /// A relay of what `body` says is to come.
    pub(crate) const fn new(body: BodyReader) -> Self {
        Self {
            over: body.is_finished(),
            body,
            plain: false,
            buffer: None,
            pipe: None,
            bulk: false,
            waits_for_room: false,
            moved: false,
            has_read: false,
            failed: None,
            bytes: 0,
            copy: None,
        }
    }

    /// The same, with what is read copied.
    pub(crate) fn copied(self, copy: Option<Box<Copy>>) -> Self {
        Self { copy, ..self }
    }

    /// What was copied so far.
    pub(crate) const fn take_copy(&mut self) -> Option<Box<Copy>> {
        self.copy.take()
    }

    /// A relay of everything until the end of the stream.
    pub(crate) const fn of_stream() -> Self {
        Self::new(BodyReader::new(Framing::UntilClose))
    }

    /// A relay of the rest of a body of which `buffer` has been accepted and must go first.
    pub(crate) fn going_on(body: BodyReader, plain: bool, buffer: Option<Buffer>) -> Self {
        let over = body.is_finished() && buffer.is_none();
        Self { plain, buffer, moved: true, over, ..Self::new(body) }
    }

    /// Makes bytes that came before the stream go first.
    pub(crate) fn begin_with(&mut self, early: &mut Vec<u8>, buffers: &Buffers) {
        if early.is_empty() {
            return;
        }
        self.buffer = Some(buffers.take_with(&std::mem::take(early)));
    }

    /// Makes what is left of a text go first, which is kept elsewhere as well.
    pub(crate) fn begin_with_rest(&mut self, text: &[u8], buffers: &Buffers) {
        self.buffer = Some(buffers.take_with(text));
        self.over = false;
    }

    /// Whether nothing is left to do.
    pub(crate) const fn is_over(&self) -> bool {
        self.over
    }

    /// Whether the body got through whole.
    pub(crate) const fn is_complete(&self) -> bool {
        self.over && self.body.is_finished() && !self.waits_for_sink()
    }

    /// Stops: what is still to come is not wanted.
    pub(crate) const fn abandon(&mut self) {
        self.over = true;
    }

    /// Whether bytes wait for the peer they go to, rather than for the one they come from.
    pub(crate) const fn waits_for_sink(&self) -> bool {
        self.buffer.is_some() || self.pipe.is_some() || self.waits_for_room
    }

    /// Whether it is the peer they come from that has to move next: a client that stalls its own
    /// request leaves the server nothing to respond to.
    pub(crate) const fn waits_for_source(&self) -> bool {
        !self.over && !self.waits_for_sink()
    }

    /// Whether some of the body has been read that its source does not give again.
    pub(crate) const fn has_read(&self) -> bool {
        self.has_read
    }

    /// Whether bytes have moved since the last call.
    pub(crate) const fn has_moved(&mut self) -> bool {
        std::mem::replace(&mut self.moved, false)
    }

    /// The reader, for what it found at the end.
    pub(crate) const fn body(&self) -> &BodyReader {
        &self.body
    }

    /// Moves what can be moved; ready when the body is through.
    pub(crate) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        buffers: &Buffers,
        from: &mut Peer,
        to: &mut Socket,
    ) -> Poll<Result<(), Broken>> {
        to.keep_room();
        let polled = self.poll_rounds(cx, buffers, from, to);
        to.return_room();
        polled
    }

    fn poll_rounds(
        &mut self,
        cx: &mut Context<'_>,
        buffers: &Buffers,
        from: &mut Peer,
        to: &mut Socket,
    ) -> Poll<Result<(), Broken>> {
        for _ in 0..ROUNDS {
            let ahead = match to.is_plain() {
                true => self.poll_splice(cx, buffers, from),
                false => Ahead::Unknown,
            };
            match self.poll_write(cx, buffers, to) {
                Poll::Ready(Ok(())) if self.body.is_finished() => {
                    self.over = true;
                    return Poll::Ready(Ok(()));
                }
                Poll::Ready(Ok(())) => {}
                waits_or_fails => return waits_or_fails,
            }
            match ahead {
                Ahead::Payload => continue,
                Ahead::Nothing => return Poll::Pending,
                Ahead::Unknown => {}
            }
            let room = ready!(self.poll_room(cx, from, to));
            match from.poll_fill_up_to(cx, buffers, room) {
                Poll::Ready(Ok(buffer)) => self.accept(buffer, buffers, from)?,
                Poll::Ready(Err(gone)) => self.end(gone)?,
                Poll::Pending => return Poll::Pending,
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Ready when what comes next can go on: how much of it. Where nobody knows whether something
    /// has come it is read, and waits here: its source must not be taken for one that has sent it.
    fn poll_room(&mut self, cx: &mut Context<'_>, from: &mut Peer, to: &Socket) -> Poll<usize> {
        let room = match to.room() {
            0 if ready!(from.socket.poll_readable(cx)) => to.poll_room(cx),
            0 => Poll::Ready(usize::MAX),
            room => Poll::Ready(room),
        };
        // That it waits now is the source's doing: it has sent something.
        self.moved |= room.is_pending() && !self.waits_for_room;
        self.waits_for_room = room.is_pending();
        room
    }

    /// Moves payload that is long enough into a pipe, if all before it has gone or is in memory.
    /// Where nobody knows how long it is, what came last tells.
    fn poll_splice(&mut self, cx: &mut Context<'_>, buffers: &Buffers, from: &mut Peer) -> Ahead {
        if self.pipe.is_some() {
            return Ahead::Payload;
        }
        let length = self.body.payload_ahead();
        let long = if length == u64::MAX { self.bulk } else { length >= SPLICE_MIN };
        let splices = long && self.copy.is_none() && from.rest.is_empty() && from.socket.splices();
        if !splices {
            return Ahead::Unknown;
        }
        let Some(mut pipe) = buffers.pipes.take() else { return Ahead::Unknown };
        let most = length.min(self.bytes.clamp(SPLICE_MIN, PIPE_BYTES as u64));
        let most = usize::try_from(most).unwrap_or(PIPE_BYTES);
        let moved = from.socket.poll_splice_into(cx, &mut pipe, most);
        if let Poll::Ready(Ok(count @ 1..)) = moved {
            self.body.skip(count as u64);
            (self.moved, self.has_read) = (true, true);
            self.bulk = count as u64 >= SPLICE_MIN;
            self.pipe = Some(pipe);
            return Ahead::Payload;
        }
        buffers.pipes.give(pipe);
        if moved.is_pending() {
            return Ahead::Nothing;
        }
        // The end, which is seen again after what came before it has been written.
        if let Poll::Ready(Err(error)) = moved {
            self.failed = Some(of_io(&error));
        }
        Ahead::Unknown
    }

    /// Writes what is in memory, then what is in the pipe.
    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        buffers: &Buffers,
        to: &mut Socket,
    ) -> Poll<Result<(), Broken>> {
        while let Some(buffer) = &mut self.buffer {
            if buffer.filled().is_empty() {
                self.buffer.take().into_iter().for_each(|buffer| buffers.give(buffer));
                break;
            }
            let written = match self.pipe {
                None => to.poll_write(cx, buffer.filled()),
                Some(_) => to.poll_write_more(cx, buffer.filled()),
            };
            let count = ready!(written).map_err(|error| Broken::Sink(of_io(&error)))?;
            buffer.consume(count);
            self.count(count, to)?;
        }
        while let Some(pipe) = &mut self.pipe {
            if pipe.held == 0 {
                self.pipe.take().into_iter().for_each(|pipe| buffers.pipes.give(pipe));
                break;
            }
            let count = ready!(to.poll_splice_out_of(cx, pipe));
            self.count(count.map_err(|error| Broken::Sink(of_io(&error)))?, to)?;
        }
        Poll::Ready(Ok(()))
    }

    /// Notes that so many bytes were written. Who has taken much may be given much at once.
    fn count(&mut self, count: usize, to: &Socket) -> Result<(), Broken> {
        let before = self.bytes;
        self.bytes += count as u64;
        self.moved = true;
        if before < TRUSTED && self.bytes >= TRUSTED {
            to.take_freely();
        }
        if count == 0 { Err(Broken::Sink(Reason::BrokenPipe)) } else { Ok(()) }
    }

    /// Takes the bytes of this body out of `buffer` and leaves what follows to `from`.
    fn accept(
        &mut self,
        mut buffer: Buffer,
        buffers: &Buffers,
        from: &mut Peer,
    ) -> Result<(), Broken> {
        (self.moved, self.failed) = (true, None);
        let mut payload = Vec::new();
        let progress = if self.plain {
            self.body.feed_data(buffer.filled(), |piece| payload.extend_from_slice(piece))
        } else {
            self.body.feed(buffer.filled())
        };
        let progress = progress.map_err(Broken::Syntax)?;
        let consumed = progress.consumed;
        self.has_read |= consumed > 0;
        self.bulk = consumed as u64 >= SPLICE_MIN;
        if consumed < buffer.filled().len() {
            from.rest = buffer.filled()[consumed..].to_vec();
        }
        buffer.truncate(progress.passed);
        if progress.has_trailers() && !self.plain {
            // They may be longer than the piece that they end with.
            let mut rest = buffer.filled().to_vec();
            self.body.write_trailers(&mut rest);
            buffers.give(std::mem::replace(&mut buffer, buffers.take_with(&rest)));
        }
        if let Some(copy) = self.copy.take() {
            self.copy = copy.with(buffer.filled());
        }
        if self.plain {
            buffer.replace(&payload);
        }
        match buffer.filled() {
            [] => buffers.give(buffer),
            _ => self.buffer = Some(buffer),
        }
        Ok(())
    }

    fn end(&mut self, gone: Gone) -> Result<(), Broken> {
        match gone {
            Gone::Closed => match self.failed {
                Some(reason) => Err(Broken::Source(reason)),
                None => self.body.end_of_stream().map_err(|_| Broken::Source(Reason::Closed)),
            },
            Gone::Broken(_) | Gone::Expired => Err(Broken::Source(gone.reason())),
        }
    }
}

/// Payload that is worth being spliced: at 50 kB the two more system calls cost what is saved, at
/// 200 kB a fifth is saved, at 1 MB almost half.
const SPLICE_MIN: u64 = 64 << 10;

/// Whoever has taken so much of a body reads at a pace at which the kernel's own limits hold less
/// than waking for every 128 KB costs.
const TRUSTED: u64 = 512 << 10;

/// Buffers moved before other connections get their turn: 2 MiB, about half a millisecond.
const ROUNDS: u32 = 16;
