//! The streams of a connection: those that the client may still name, and those of which a session
//! still holds the socket.

use std::task::{Context, Waker};

use bytes::BytesMut;
use loadline_core::{decide::reason::Reason, time::Instant};

use super::window::ReceiveWindow;

/// Where a stream is kept. The place is another stream's once both sides have left it.
pub(super) type Slot = usize;

/// A stream (RFC 9113, 5.1).
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) id: u32,
    /// END_STREAM has come.
    pub(super) has_received_end: bool,
    /// END_STREAM has been written.
    pub(super) has_sent_end: bool,
    /// Its socket is gone; only the end of the request, an empty frame, is still to come.
    pub(super) is_left: bool,
    /// The head of its response has been written.
    pub(super) is_answered: bool,
    /// Why it ended before its time.
    pub(super) fault: Option<Reason>,
    pub(super) window: ReceiveWindow,
    /// Payload that nobody has taken yet.
    pub(super) received: BytesMut,
    /// Trailers, in the syntax of HTTP/1.
    pub(super) trailers: Vec<u8>,
    /// How much payload is still to come by the Content-Length of the head.
    pub(super) announced: Option<u64>,
    /// What the client takes of the response; below 0 where it has lowered the size.
    pub(super) send_window: i64,
    /// Payload that may be written at once.
    pub(super) granted: usize,
    /// When it got that, having waited.
    pub(super) granted_at: Option<Instant>,
    /// It waits for its turn to be granted some.
    pub(super) is_queued: bool,
    /// How much payload it has to write and waits for room for.
    pub(super) wanted: usize,
    /// Whom to wake when something has come.
    pub(super) reader: Option<Waker>,
    /// Whom to wake when something may be written, or the stream is over.
    pub(super) writer: Option<Waker>,
}

impl Stream {
    pub(super) const fn is_over(&self) -> bool {
        self.has_received_end && self.has_sent_end
    }

    /// Whether all has been said on both sides but for the client's END_STREAM.
    pub(super) fn lacks_the_end_alone(&self) -> bool {
        let is_whole = self.announced == Some(0) && self.received.is_empty();
        is_whole && self.has_sent_end && !self.has_received_end && self.fault.is_none()
    }

    /// Has whoever polls woken when something has come.
    pub(super) fn wait_to_read(&mut self, cx: &Context<'_>) {
        wait(&mut self.reader, cx);
    }

    /// Has whoever polls woken when something may be written, or the stream is over.
    pub(super) fn wait_to_write(&mut self, cx: &Context<'_>) {
        wait(&mut self.writer, cx);
    }

    pub(super) fn wake_reader(&mut self) {
        self.reader.take().into_iter().for_each(Waker::wake);
    }

    pub(super) fn wake_writer(&mut self) {
        self.writer.take().into_iter().for_each(Waker::wake);
    }
}

fn wait(waiting: &mut Option<Waker>, cx: &Context<'_>) {
    if !waiting.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
        *waiting = Some(cx.waker().clone());
    }
}

/// All streams of a connection.
#[derive(Debug, Default)]
pub(super) struct Table {
    slots: Vec<Option<Stream>>,
    free: Vec<Slot>,
    /// By number, those that are neither closed nor reset.
    open: Vec<(u32, Slot)>,
}

impl Table {
    /// How many the client has open.
    pub(super) const fn open(&self) -> usize {
        self.open.len()
    }

    /// The place of an open stream.
    pub(super) fn find(&self, id: u32) -> Option<Slot> {
        let at = self.open.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        Some(self.open[at].1)
    }

    /// An open stream.
    pub(super) fn open_mut(&mut self, id: u32) -> Option<&mut Stream> {
        let slot = self.find(id)?;
        self.get_mut(slot)
    }

    pub(super) fn get_mut(&mut self, slot: Slot) -> Option<&mut Stream> {
        self.slots.get_mut(slot)?.as_mut()
    }

    /// Takes in a stream, whose number is the highest so far.
    pub(super) fn insert(&mut self, stream: Stream) -> Slot {
        let id = stream.id;
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot] = Some(stream);
                slot
            }
            None => {
                self.slots.push(Some(stream));
                self.slots.len() - 1
            }
        };
        self.open.push((id, slot));
        slot
    }

    /// Notes that the client may not name a stream any more; false if it could not before.
    pub(super) fn close(&mut self, id: u32) -> bool {
        let found = self.open.binary_search_by_key(&id, |(id, _)| *id);
        found.map(|at| self.open.remove(at)).is_ok()
    }

    /// Forgets a stream.
    pub(super) fn remove(&mut self, slot: Slot) -> Option<Stream> {
        let stream = self.slots.get_mut(slot)?.take()?;
        self.free.push(slot);
        Some(stream)
    }

    /// The places of the open streams.
    pub(super) fn slots(&self) -> impl Iterator<Item = Slot> + use<> {
        let slots: Vec<_> = self.open.iter().map(|(_, slot)| *slot).collect();
        slots.into_iter()
    }

    /// Whether there is no stream, nor a socket of one.
    pub(super) const fn is_empty(&self) -> bool {
        self.slots.len() == self.free.len()
    }
}
