//! What has come on the streams of a connection to a server and nobody has taken yet.
//!
//! Frames wait in h2 until whoever they are for has room: a client that does not read. Each of them
//! takes a few hundred bytes there however little is in it, so h2 allows so many small ones on a
//! connection and then gives it up, with everybody's streams. What a server may send is for the
//! windows to say. So when [`MANY`] small frames have come in a row, what waits is
//! taken out of h2 and kept as plain bytes. The window is given back when they are handed on.
//!
//! A connection holds the bytes of its window at most, in memory that grows by doubling, and
//! beside them some thousand frames.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    task::{Context, Poll, Waker, ready},
};

use bytes::{Bytes, BytesMut};
use h2::RecvStream;
use loadline_core::decide::reason::Reason;

use super::{head::trailer_text, inbound::Latest, incoming::Receive};
use crate::telemetry::reason::of_http2;

/// The streams of a connection that bring something.
#[derive(Debug, Default)]
pub(crate) struct Backlogs {
    slots: RefCell<Slots>,
    /// Small frames that have come since they were last taken out of h2.
    small: Cell<u32>,
    /// Of which streams something came last.
    latest: Cell<Latest>,
    /// The stream that the violation is charged to which ended the connection.
    charged: Cell<Option<u32>>,
    /// The streams of requests to the server.
    calls: RefCell<Vec<u32>>,
}

#[derive(Debug, Default)]
struct Slots {
    backlogs: Vec<Option<Backlog>>,
    free: Vec<usize>,
}

/// One stream.
#[derive(Debug)]
struct Backlog {
    stream: RecvStream,
    /// What was taken out of h2 and holds the window still.
    early: BytesMut,
}

/// What one stream brings.
#[derive(Debug)]
pub(crate) struct Receiver {
    backlogs: Rc<Backlogs>,
    slot: usize,
}

impl Backlogs {
    /// Notes of which streams something came last.
    pub(super) fn note_latest(&self, latest: Latest) {
        self.latest.set(latest);
    }

    /// Whether `stream` may have ended the connection by what came of it last.
    pub(super) fn is_suspect(&self, stream: u32) -> bool {
        self.latest.get().may_have(stream)
    }

    /// Notes a request of which the server may be told to have broken a rule.
    pub(super) fn note_call(&self, stream: u32) {
        self.calls.borrow_mut().push(stream);
    }

    /// Forgets one that is over.
    pub(super) fn forget_call(&self, stream: u32) {
        let mut calls = self.calls.borrow_mut();
        if let Some(at) = calls.iter().position(|call| *call == stream) {
            calls.swap_remove(at);
        }
    }

    /// Why `stream` failed. h2 ends a connection for what came on one stream (against RFC 9113,
    /// 8.1.1) without telling which: that is charged to one that it may have been, and once.
    pub(super) fn why(&self, error: &h2::Error, stream: u32) -> Reason {
        if !error.is_go_away() || error.is_remote() {
            return of_http2(error);
        }
        // It may have come on a stream that has ended, or that nobody has opened.
        let others = || self.calls.borrow().iter().any(|call| self.is_suspect(*call));
        if self.charged.get().is_none() && (self.is_suspect(stream) || !others()) {
            self.charged.set(Some(stream));
        }
        let is_charged = self.charged.get() == Some(stream);
        if is_charged { of_http2(error) } else { Reason::ConnectionViolated }
    }

    /// Takes a stream in, until the receiver is dropped.
    pub(super) fn hold(self: &Rc<Self>, stream: RecvStream) -> Receiver {
        let slots = &mut *self.slots.borrow_mut();
        let backlog = Some(Backlog { stream, early: BytesMut::new() });
        let slot = match slots.free.pop() {
            Some(slot) => {
                slots.backlogs[slot] = backlog;
                slot
            }
            None => {
                slots.backlogs.push(backlog);
                slots.backlogs.len() - 1
            }
        };
        Receiver { backlogs: self.clone(), slot }
    }

    /// Notes frames that take much more memory than their bytes.
    pub(super) fn add_small(&self, frames: u32) {
        self.small.set(self.small.get().saturating_add(frames));
    }

    /// Whether h2 has to be relieved before it reads on.
    pub(super) fn are_due(&self) -> bool {
        self.small.get() >= MANY
    }

    /// Relieves h2, where that is due. To be called after each turn of h2.
    pub(super) fn collect(&self) {
        if self.are_due() {
            self.small.set(0);
            self.slots.borrow_mut().backlogs.iter_mut().flatten().for_each(Backlog::collect);
        }
    }

    fn with<T>(&self, slot: usize, run: impl FnOnce(&mut Backlog) -> T) -> Option<T> {
        self.slots.borrow_mut().backlogs.get_mut(slot)?.as_mut().map(run)
    }
}

impl Backlog {
    /// Takes what has come out of h2. Only what is there is asked for: whoever waits for more has
    /// told h2 whom to wake, and that must stay so.
    fn collect(&mut self) {
        let mut cx = Context::from_waker(Waker::noop());
        while self.stream.flow_control().used_capacity() > self.early.len() {
            let Poll::Ready(Some(Ok(data))) = self.stream.poll_data(&mut cx) else { return };
            self.early.extend_from_slice(&data);
        }
    }

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Failed>>> {
        let data = match self.early.len() {
            0 => ready!(self.stream.poll_data(cx)),
            early => Some(Ok(self.early.split_to(early.min(PIECE)).freeze())),
        };
        if self.early.is_empty() {
            // What it shares with the last piece is free when that has gone.
            self.early = BytesMut::new();
        }
        if let Some(Ok(data)) = &data {
            // Refused only if it is more than was received.
            let _ = self.stream.flow_control().release_capacity(data.len());
        }
        Poll::Ready(data.map(|data| data.map_err(|error| self.failed(error))))
    }

    fn poll_trailers(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Vec<u8>>, Failed>> {
        let trailers = ready!(self.stream.poll_trailers(cx));
        let trailers = trailers.map(|trailers| trailers.as_ref().map(trailer_text));
        Poll::Ready(trailers.map_err(|error| self.failed(error)))
    }

    fn failed(&self, error: h2::Error) -> Failed {
        (error, self.stream.stream_id().as_u32())
    }
}

/// Why nothing more comes, and of which stream.
type Failed = (h2::Error, u32);

impl Receiver {
    /// Whether all has come and has been taken.
    pub(super) fn is_over(&self) -> bool {
        let is_over =
            |backlog: &mut Backlog| backlog.early.is_empty() && backlog.stream.is_end_stream();
        self.backlogs.with(self.slot, is_over).unwrap_or(true)
    }

    fn why(&self, (error, stream): &Failed) -> Reason {
        self.backlogs.why(error, *stream)
    }
}

impl Receive for Receiver {
    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Reason>>> {
        let polled = self.backlogs.with(self.slot, |backlog| backlog.poll_data(cx));
        let data = ready!(polled.unwrap_or(Poll::Ready(None)));
        Poll::Ready(data.map(|data| data.map_err(|failed| self.why(&failed))))
    }

    fn poll_trailers(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Vec<u8>>, Reason>> {
        let polled = self.backlogs.with(self.slot, |backlog| backlog.poll_trailers(cx));
        let trailers = ready!(polled.unwrap_or(Poll::Ready(Ok(None))));
        Poll::Ready(trailers.map_err(|failed| self.why(&failed)))
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let slots = &mut *self.backlogs.slots.borrow_mut();
        if let Some(backlog) = slots.backlogs.get_mut(self.slot).map(Option::take) {
            slots.free.push(self.slot);
            drop(backlog);
        }
    }
}

/// Frames that h2 charges for what they cost beside their bytes (its threshold).
pub(super) const SMALL: usize = 256;

/// Small frames after which h2 is relieved.
const MANY: u32 = 500;

/// Read at a time.
pub(super) const READ_BYTES: usize = 64 << 10;

/// What h2 allows small frames on a connection to cost, [`SMALL`] bytes each less what is in them:
/// [`MANY`] of them, and those of ten bytes that two reads can bring, of which the first may wait
/// in h2 until something could be sent.
pub(super) const FRAMES_BUDGET: usize = SMALL * (MANY as usize + 2 * READ_BYTES / 10);

/// Handed on at a time.
const PIECE: usize = 16 << 10;
