//! HTTP/2 towards a client (RFC 9113) without I/O: bytes in, streams out; responses in, bytes out.
//!
//! | | |
//! |---|---|
//! | `frame`, `window`, `table` | frames, windows, streams |
//! | `inbound` | bytes from the client: cut into frames, in their order |
//! | `control` | frames that change windows, settings, streams |
//! | `heads` | header blocks: requests that begin, trailers |
//! | `receiving` | what sessions take of their streams |
//! | `outbound` | responses: heads, payload as the windows allow, resets, GOAWAY |
//!
//! What breaks a rule of one stream resets that stream (RFC 9113, 5.4.2). What breaks one of the
//! connection is an error of [`Protocol::receive`], and ends it.
//!
//! Payload waits here in both directions: what has come until a session takes it, bounded by the
//! windows, and what goes out until the socket takes it, bounded by [`SEND_BYTES`] and a
//! head for each stream.

mod control;
mod frame;
mod heads;
mod inbound;
mod outbound;
mod receiving;
mod table;
#[cfg(test)]
mod tests;
mod window;

use std::{
    collections::VecDeque,
    task::{Context, Waker},
};

use loadline_core::decide::reason::Reason;

pub(crate) use self::outbound::SEND_BYTES;
use self::{
    control::{PeerSettings, WINDOW_FIRST},
    inbound::Reader,
    outbound::SendBuffer,
    table::{Slot, Table},
    window::ReceiveWindow,
};
pub(super) use self::{frame::ErrorCode, inbound::PREFACE, outbound::PIECE, receiving::WaitsFor};
use super::{
    hpack::{Decoder, Encoder},
    level::Level,
    request_head::{Head, RequestText},
};

/// What a client may do on the connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Streams at a time.
    pub(super) streams: u32,
    /// Bytes that may wait on a stream.
    pub(super) window: u32,
    /// Bytes that may wait on all streams together.
    pub(super) connection_window: u32,
    /// The size of the longest head, as HTTP/2 counts it (RFC 9113, 6.5.2).
    pub(super) longest_head: u32,
}

/// A connection from its preface to its end.
#[derive(Debug)]
pub(super) struct Protocol {
    limits: Limits,
    reader: Reader,
    decoder: Decoder,
    encoder: Encoder,
    head: RequestText,
    streams: Table,
    /// The highest stream that the client has opened.
    newest: u32,
    window: ReceiveWindow,
    /// The client has acknowledged our settings.
    is_settled: bool,
    peer: PeerSettings,
    /// Frames with nothing in them.
    empty: Level,
    out: SendBuffer,
    /// Requests that nobody has taken yet.
    opened: VecDeque<Opened>,
    /// Malformed requests that nobody has counted yet.
    malformed: usize,
    /// The same of requests beyond the limit.
    refused: usize,
    /// The same of requests that their client has reset before they were answered.
    taken_back: usize,
    /// Streams that were reset for what their client did.
    errors: Level,
    /// Streams that were reset here, the last ones: what was on its way is ignored.
    reset: VecDeque<u32>,
    /// Streams that ended otherwise, the last ones.
    closed: VecDeque<u32>,
    /// The last stream that is taken, where new ones are refused.
    last: Option<u32>,
    /// The client knows that the connection ends, or ends it itself.
    is_leave_seen: bool,
    driver: Option<Waker>,
    /// The driver has been woken, or is polled now.
    is_due: bool,
}

/// A request whose head has come.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) slot: Slot,
    pub(super) head: Head,
}

impl Protocol {
    /// A connection on which nothing has come. Our settings are to be sent at once.
    pub(super) fn new(limits: Limits) -> Self {
        let mut protocol = Self {
            limits,
            reader: Reader::new(),
            decoder: Decoder::new(),
            encoder: Encoder::new(),
            head: RequestText::new(limits.longest_head as usize),
            streams: Table::default(),
            newest: 0,
            window: ReceiveWindow::new(WINDOW_FIRST),
            is_settled: false,
            peer: PeerSettings::default(),
            empty: Level::new(),
            out: SendBuffer::new(),
            opened: VecDeque::new(),
            malformed: 0,
            refused: 0,
            taken_back: 0,
            errors: Level::new(),
            reset: VecDeque::new(),
            closed: VecDeque::new(),
            last: None,
            is_leave_seen: false,
            driver: None,
            is_due: false,
        };
        protocol.begin();
        protocol
    }

    /// The next request, in the order they came.
    pub(super) fn accept(&mut self) -> Option<Opened> {
        self.opened.pop_front()
    }

    /// How many requests were malformed since this was last asked. They have been reset.
    pub(super) const fn take_malformed(&mut self) -> usize {
        std::mem::replace(&mut self.malformed, 0)
    }

    /// How many requests were refused since this was last asked: more than may be open at a time.
    pub(super) const fn take_refused(&mut self) -> usize {
        std::mem::replace(&mut self.refused, 0)
    }

    /// How many requests their client has reset before they were answered since this was last
    /// asked.
    pub(super) const fn take_taken_back(&mut self) -> usize {
        std::mem::replace(&mut self.taken_back, 0)
    }

    /// Whether there is no stream, nor a socket of one.
    pub(super) fn is_idle(&self) -> bool {
        self.streams.is_empty() && self.opened.is_empty()
    }

    /// Whether the client has seen the GOAWAY of [`Protocol::leave`], or has sent one.
    pub(super) const fn is_leave_seen(&self) -> bool {
        self.is_leave_seen
    }

    /// Ends all streams for this reason, but those that are over.
    pub(super) fn fail_all(&mut self, reason: Reason) {
        for slot in self.streams.slots() {
            self.fail(slot, reason);
        }
    }

    /// Notes the task that moves bytes, which is polled now.
    pub(super) fn begin_poll(&mut self, cx: &Context<'_>) {
        self.is_due = true;
        if !self.driver.as_ref().is_some_and(|driver| driver.will_wake(cx.waker())) {
            self.driver = Some(cx.waker().clone());
        }
    }

    /// The task that moves bytes.
    pub(super) const fn driver(&self) -> Option<&Waker> {
        self.driver.as_ref()
    }

    /// Notes that the task has done what there is to do, and is to be woken for more.
    pub(super) const fn end_poll(&mut self) {
        self.is_due = false;
    }

    fn wake_driver(&mut self) {
        if !std::mem::replace(&mut self.is_due, true) {
            self.driver.iter().for_each(Waker::wake_by_ref);
        }
    }

    /// Ends a stream for this reason: the client may not name it any more, what it sent is
    /// forgotten.
    fn fail(&mut self, slot: Slot, reason: Reason) {
        let Some(stream) = self.streams.get_mut(slot) else { return };
        let (id, is_left) = (stream.id, stream.is_left);
        stream.fault = Some(reason);
        stream.wake_reader();
        stream.wake_writer();
        self.streams.close(id);
        self.forget_received(slot);
        self.return_grant(slot);
        if is_left {
            self.forget(slot);
        }
    }

    /// Gives what waits on a stream back to the window of the connection.
    fn forget_received(&mut self, slot: Slot) {
        let Some(stream) = self.streams.get_mut(slot) else { return };
        let bytes = stream.received.len();
        stream.received = bytes::BytesMut::new();
        self.release_connection(bytes);
    }

    /// Resets a stream of which the client has broken a rule.
    ///
    /// # Errors
    /// `ENHANCE_YOUR_CALM` if that has happened too often.
    fn reset_for(&mut self, id: u32, code: ErrorCode) -> Result<(), ErrorCode> {
        if self.errors.rise(self.out.now) {
            return Err(ErrorCode::ENHANCE_YOUR_CALM);
        }
        self.write_reset(id, code);
        if let Some(slot) = self.streams.find(id) {
            self.fail(slot, Reason::http2_violation(code.0));
        }
        Ok(())
    }

    /// Notes that a stream has ended in order, or by the client.
    fn note_closed(&mut self, id: u32) {
        self.streams.close(id);
        remember(&mut self.closed, id, CLOSED_KEPT);
    }
}

/// Keeps the last `most` streams.
fn remember(streams: &mut VecDeque<u32>, id: u32, most: usize) {
    if streams.len() == most {
        streams.pop_front();
    }
    streams.push_back(id);
}

/// More than a client may have had open when it learns that we have reset them, by default. Where
/// it may have more, as many are kept.
const RESET_KEPT: usize = 256;

/// Enough to tell a client which rule it breaks that goes on with a stream it has ended.
const CLOSED_KEPT: usize = 8;
