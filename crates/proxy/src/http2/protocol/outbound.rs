//! Responses to a client: heads, payload as the windows allow, resets, GOAWAY.
//!
//! A session writes its frames straight behind those of others, into one buffer that goes to the
//! socket as it is. What is in there is never taken back. Payload needs room: in the window of its
//! stream, in that of the connection, and in the buffer. Who finds none waits in a queue, and gets
//! a frame's worth when its turn comes, which nobody who comes later can take away.

use std::{
    collections::VecDeque,
    task::{Context, Poll},
};

use loadline_core::{decide::reason::Reason, time::Instant};

use super::{
    ErrorCode, Protocol,
    control::{WINDOW_FIRST, WINDOW_MAX},
    frame::{
        CONTINUATION, DATA, END_HEADERS, END_STREAM, FrameHeader, GOAWAY, HEADER, HEADERS, PING,
        RST_STREAM, WINDOW_UPDATE,
    },
    remember,
    table::Slot,
};
use crate::http2::hpack::Encoder;

/// Bytes on their way to the socket.
#[derive(Debug)]
pub(super) struct SendBuffer {
    bytes: Vec<u8>,
    /// How many of them the socket has taken.
    sent: usize,
    /// What the client takes of all streams together.
    pub(super) window: i64,
    /// Payload that was granted and not written yet.
    reserved: usize,
    /// Streams that wait for room, in their order.
    queue: VecDeque<Slot>,
    /// When the client last widened the window.
    pub(super) widened_at: Instant,
    /// When the client last took or said something.
    pub(super) now: Instant,
}

impl SendBuffer {
    pub(super) const fn new() -> Self {
        Self {
            bytes: Vec::new(),
            sent: 0,
            window: WINDOW_FIRST as i64,
            reserved: 0,
            queue: VecDeque::new(),
            widened_at: Instant::ZERO,
            now: Instant::ZERO,
        }
    }

    fn unsent(&self) -> usize {
        self.bytes.len() - self.sent
    }

    /// Makes the window larger; false where it would be larger than one can be. What is granted is
    /// part of it until it is written.
    pub(super) fn widen(&mut self, more: i64) -> bool {
        self.window += more;
        self.window + self.reserved as i64 <= WINDOW_MAX
    }

    /// The window, what is granted of it, and how many wait.
    #[cfg(test)]
    pub(super) fn state(&self) -> (i64, usize, usize) {
        (self.window, self.reserved, self.queue.len())
    }

    /// How much payload may be written behind what waits already. Little is none, so that frames
    /// do not become small where the socket takes little at a time.
    fn room(&self) -> usize {
        let room = SEND_BYTES.saturating_sub(self.unsent() + self.reserved);
        if room < ROOM_MIN { 0 } else { room }
    }

    /// Whether streams wait for room, or have been granted some that they have not used yet.
    fn is_awaited(&self) -> bool {
        self.reserved > 0 || !self.queue.is_empty()
    }

    /// The same in the window of a stream, and in that of all, which may both be below 0.
    fn room_in(&self, window: i64) -> usize {
        self.room().min(usize::try_from(self.window.min(window)).unwrap_or_default())
    }
}

impl Protocol {
    /// What the socket is to take next.
    pub(in super::super) fn unsent(&self) -> &[u8] {
        &self.out.bytes[self.out.sent..]
    }

    /// Whether so much waits for the socket that no whole frame fits.
    pub(in super::super) fn is_full(&self) -> bool {
        self.out.unsent() + PIECE > SEND_BYTES
    }

    /// Whether so much waits for the socket that nothing more should be read: it may have to be
    /// responded to (CVE-2019-9512, CVE-2019-9515).
    pub(in super::super) fn is_congested(&self) -> bool {
        self.out.unsent() > 2 * SEND_BYTES
    }

    /// Notes that the socket has taken bytes, at `now`.
    pub(in super::super) fn advance(&mut self, count: usize, now: Instant) {
        let out = &mut self.out;
        (out.sent, out.now) = (out.sent + count, now);
        if out.sent == out.bytes.len() {
            out.sent = 0;
            match self.streams.open() {
                0 => out.bytes = Vec::new(),
                _ => {
                    out.bytes.clear();
                    out.bytes.shrink_to(2 * SEND_BYTES);
                }
            }
        } else if out.sent > out.unsent() {
            // No byte is moved more often than one is sent.
            out.bytes.drain(..out.sent);
            out.sent = 0;
        }
        self.grant();
    }

    /// Appends a frame.
    pub(super) fn write(&mut self, frame: FrameHeader, payload: &[u8]) {
        frame.write(&mut self.out.bytes, payload);
        self.wake_driver();
    }

    /// Appends the head of a response, interim or final, that `encode` writes; with `ends` it has
    /// nothing behind it. Trailers are the same, and always end their stream.
    pub(in super::super) fn write_head(
        &mut self,
        slot: Slot,
        ends: bool,
        encode: impl FnOnce(&mut Encoder, &mut Vec<u8>),
    ) -> Result<(), Reason> {
        let stream = self.streams.get_mut(slot).ok_or(Reason::Closed)?;
        if let Some(fault) = stream.fault {
            return Err(fault);
        }
        let id = stream.id;
        let out = &mut self.out.bytes;
        let at = out.len();
        out.extend_from_slice(&[0; HEADER]);
        self.encoder.begin(out);
        encode(&mut self.encoder, out);
        let length = out.len() - at - HEADER;
        let mut frame = FrameHeader::new(HEADERS, if ends { END_STREAM } else { 0 }, id);
        if length > self.peer.frame {
            let block = out.split_off(at);
            split_block(out, frame, &block[HEADER..], self.peer.frame);
        } else {
            frame.flags |= END_HEADERS;
            out[at..at + HEADER].copy_from_slice(&frame.bytes(length));
        }
        if ends {
            self.end_sent(slot);
        }
        self.wake_driver();
        Ok(())
    }

    /// Notes that the head that was written last on a stream is not interim.
    pub(in super::super) fn note_answered(&mut self, slot: Slot) {
        if let Some(stream) = self.streams.get_mut(slot) {
            stream.is_answered = true;
        }
    }

    /// How much payload may be written on a stream at once; nothing where others wait for that.
    pub(in super::super) fn room(&mut self, slot: Slot) -> usize {
        let Some(stream) = self.streams.get_mut(slot) else { return 0 };
        match (stream.granted, self.out.is_awaited()) {
            (0, true) => 0,
            (0, false) => self.out.room_in(stream.send_window),
            (granted, _) => granted,
        }
    }

    /// Ready when up to `most` bytes of payload may be written on a stream: how many.
    pub(in super::super) fn poll_room(
        &mut self,
        slot: Slot,
        most: usize,
        cx: &Context<'_>,
    ) -> Poll<Result<usize, Reason>> {
        let is_turn = !self.out.is_awaited();
        let Some(stream) = self.streams.get_mut(slot) else {
            return Poll::Ready(Err(Reason::Closed));
        };
        if let Some(fault) = stream.fault {
            return Poll::Ready(Err(fault));
        }
        if stream.granted == 0 && is_turn {
            let room = self.out.room_in(stream.send_window).min(most);
            self.reserve(slot, room);
        }
        let Some(stream) = self.streams.get_mut(slot) else { return Poll::Pending };
        if stream.granted > 0 {
            return Poll::Ready(Ok(stream.granted.min(most)));
        }
        stream.wanted = most;
        stream.wait_to_write(cx);
        self.queue(slot);
        Poll::Pending
    }

    /// Appends a frame of payload that `fill` writes: no more than there is room for, and than
    /// [`PIECE`]; it says whether the stream ends behind it.
    pub(in super::super) fn write_data<E>(
        &mut self,
        slot: Slot,
        fill: impl FnOnce(&mut Vec<u8>) -> Result<bool, E>,
    ) -> Result<(), E> {
        let Some(stream) = self.streams.get_mut(slot) else { return Ok(()) };
        let (id, is_open) = (stream.id, stream.fault.is_none());
        let out = &mut self.out.bytes;
        let at = out.len();
        out.extend_from_slice(&[0; HEADER]);
        let filled = fill(out);
        let length = out.len() - at - HEADER;
        let ends = *filled.as_ref().unwrap_or(&false);
        if filled.is_ok() && is_open && (length > 0 || ends) {
            let frame = FrameHeader::new(DATA, if ends { END_STREAM } else { 0 }, id);
            out[at..at + HEADER].copy_from_slice(&frame.bytes(length));
            self.use_grant(slot, length, ends);
        } else {
            out.truncate(at);
        }
        filled.map(|_| ())
    }

    /// Notes that payload has been written, and the end behind it if it `ends` the stream.
    fn use_grant(&mut self, slot: Slot, length: usize, ends: bool) {
        let Some(stream) = self.streams.get_mut(slot) else { return };
        let used = length.min(stream.granted);
        stream.granted -= used;
        self.out.reserved -= used;
        if ends {
            self.end_sent(slot);
        }
        self.wake_driver();
    }

    /// Resets a stream for a reason of ours.
    pub(in super::super) fn reset(&mut self, slot: Slot, code: ErrorCode) {
        let Some(stream) = self.streams.get_mut(slot) else { return };
        if stream.fault.is_none() && !stream.is_over() {
            let id = stream.id;
            self.write_reset(id, code);
            self.fail(slot, Reason::Closed);
        }
    }

    /// Forgets a stream whose socket is dropped. One of which something is missing is reset: that
    /// its client should go on sending is not wanted, or nothing more will come. Where nothing is
    /// but END_STREAM, in a frame of its own, that is waited for: a reset would be taken for an
    /// error by clients that have sent everything.
    pub(in super::super) fn forget(&mut self, slot: Slot) {
        let Some(stream) = self.streams.get_mut(slot) else { return };
        if stream.lacks_the_end_alone() {
            (stream.is_left, stream.reader, stream.writer) = (true, None, None);
            return;
        }
        let code = if stream.has_sent_end { ErrorCode::NO_ERROR } else { ErrorCode::CANCEL };
        self.reset(slot, code);
        self.forget_received(slot);
        self.return_grant(slot);
        self.streams.remove(slot);
        if self.last.is_some() {
            // It may have been the one that the end of the connection waits for.
            self.wake_driver();
        }
    }

    /// Says that the connection is about to end: streams are still taken until the client has
    /// seen it (RFC 9113, 6.8).
    pub(in super::super) fn leave(&mut self) {
        self.write_goaway(LAST_STREAM, ErrorCode::NO_ERROR);
        self.write(FrameHeader::new(PING, 0, 0), &LEAVE_PING);
    }

    /// Says that the connection ends for this reason: no more streams are taken. Said again, it is
    /// of the same stream: the client may have asked others for those behind it (RFC 9113, 6.8).
    pub(in super::super) fn go_away(&mut self, code: ErrorCode) {
        let last = *self.last.get_or_insert(self.newest);
        self.write_goaway(last, code);
    }

    fn write_goaway(&mut self, last: u32, code: ErrorCode) {
        let payload = [last.to_be_bytes(), code.0.to_be_bytes()].concat();
        self.write(FrameHeader::new(GOAWAY, 0, 0), &payload);
    }

    /// Resets the first stream of which only END_STREAM is missing, if there is one: its place is
    /// needed.
    pub(super) fn reset_left(&mut self) {
        let mut slots = self.streams.slots();
        let is_left = |slot: &Slot| self.streams.get_mut(*slot).is_some_and(|it| it.is_left);
        if let Some(slot) = slots.find(is_left) {
            self.reset(slot, ErrorCode::NO_ERROR);
        }
    }

    pub(super) fn write_reset(&mut self, id: u32, code: ErrorCode) {
        let most = super::RESET_KEPT.max(self.limits.streams as usize);
        remember(&mut self.reset, id, most);
        self.write(FrameHeader::new(RST_STREAM, 0, id), &code.0.to_be_bytes());
    }

    /// Gives bytes that were taken back to the windows they came through.
    pub(super) fn release(&mut self, id: u32, bytes: usize) {
        if let Some(slot) = self.streams.find(id) {
            self.release_stream(slot, bytes);
        }
        self.release_connection(bytes);
    }

    /// The same for bytes that a session has taken.
    pub(super) fn release_taken(&mut self, slot: Slot, bytes: usize) {
        self.release_stream(slot, bytes);
        self.release_connection(bytes);
    }

    fn release_stream(&mut self, slot: Slot, bytes: usize) {
        let Some(stream) = self.streams.get_mut(slot) else { return };
        let (id, is_wanted) = (stream.id, !stream.has_received_end && stream.fault.is_none());
        if let Some(more) = stream.window.release(bytes).filter(|_| is_wanted) {
            self.write(FrameHeader::new(WINDOW_UPDATE, 0, id), &more.to_be_bytes());
        }
    }

    pub(super) fn release_connection(&mut self, bytes: usize) {
        if let Some(more) = self.window.release(bytes) {
            self.write(FrameHeader::new(WINDOW_UPDATE, 0, 0), &more.to_be_bytes());
        }
    }

    /// Lets a stream that waits for room wait for its turn, if it may write at all.
    pub(super) fn queue(&mut self, slot: Slot) {
        let Some(stream) = self.streams.get_mut(slot) else { return };
        if stream.wanted > 0 && !stream.is_queued && stream.send_window > 0 {
            stream.is_queued = true;
            self.out.queue.push_back(slot);
        }
    }

    /// Grants the first in the queue a frame's worth each, as long as there is room.
    pub(super) fn grant(&mut self) {
        while let Some(slot) = self.out.queue.front().copied() {
            if self.out.room_in(i64::MAX) == 0 {
                return;
            }
            self.out.queue.pop_front();
            let Some(stream) = self.streams.get_mut(slot) else { continue };
            stream.is_queued = false;
            let room = self.out.room_in(stream.send_window).min(stream.wanted.min(PIECE));
            if room > 0 {
                stream.granted_at = Some(self.out.now);
                stream.wake_writer();
                self.reserve(slot, room);
            }
        }
    }

    fn reserve(&mut self, slot: Slot, bytes: usize) {
        let Some(stream) = self.streams.get_mut(slot) else { return };
        if bytes > 0 {
            stream.wanted = 0;
        }
        stream.granted += bytes;
        stream.send_window -= bytes as i64;
        self.out.window -= bytes as i64;
        self.out.reserved += bytes;
    }

    /// Takes back what a stream was granted and has not used. It waits for no more, until it says
    /// so again.
    pub(in super::super) fn return_grant(&mut self, slot: Slot) {
        let Some(stream) = self.streams.get_mut(slot) else { return };
        stream.wanted = 0;
        if std::mem::take(&mut stream.is_queued) {
            self.out.queue.retain(|queued| *queued != slot);
        }
        self.return_room(slot);
    }

    /// Takes back what a stream was granted and has not used; it may wait for more. It is the turn
    /// of others.
    pub(in super::super) fn return_room(&mut self, slot: Slot) {
        self.revoke(slot, usize::MAX);
        self.grant();
    }

    /// Takes up to `most` bytes back that a stream was granted, for others.
    /// Its window has room for the rest only, where the client has lowered it.
    pub(super) fn revoke(&mut self, slot: Slot, most: usize) {
        let Some(stream) = self.streams.get_mut(slot) else { return };
        let bytes = stream.granted.min(most);
        stream.granted -= bytes;
        stream.send_window += bytes as i64;
        self.out.window += bytes as i64;
        self.out.reserved -= bytes;
    }

    fn end_sent(&mut self, slot: Slot) {
        let Some(stream) = self.streams.get_mut(slot) else { return };
        stream.has_sent_end = true;
        if stream.is_over() {
            let id = stream.id;
            self.note_closed(id);
        }
        self.return_grant(slot);
    }
}

/// Appends a block that is too long for one frame.
fn split_block(out: &mut Vec<u8>, first: FrameHeader, block: &[u8], longest: usize) {
    let mut frame = first;
    let mut pieces = block.chunks(longest).peekable();
    while let Some(piece) = pieces.next() {
        if pieces.peek().is_none() {
            frame.flags |= END_HEADERS;
        }
        frame.write(out, piece);
        frame = FrameHeader::new(CONTINUATION, 0, first.stream);
    }
}

/// The longest payload of a frame: with its header, one record of TLS (RFC 8446, 5.1). There is no
/// client that takes less (RFC 9113, 6.5.2).
pub(in super::super) const PIECE: usize = (16 << 10) - HEADER;

/// Payload that waits for the socket, of all streams together; control frames and heads may be
/// more.
pub(crate) const SEND_BYTES: usize = 64 << 10;

/// Less room is waited for to become more: a frame's worth, as shares would not be equal otherwise.
const ROOM_MIN: usize = PIECE;

/// Stands for all streams that a client may open before it has seen a GOAWAY.
const LAST_STREAM: u32 = (1 << 31) - 1;

/// What is in the PING that tells when a client has seen a GOAWAY.
pub(super) const LEAVE_PING: [u8; 8] = *b"loadline";
