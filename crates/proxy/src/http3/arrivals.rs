//! The streams that come in, and what is known of each beside what h3 has of it.

use std::{cell::Cell, future::Future, pin::Pin, rc::Rc};

use h3::quic::StreamId;

/// Resolves when a stream's client has taken everything, to false, or wants no more, to true.
pub(super) type Stopped = Pin<Box<dyn Future<Output = bool>>>;

/// A stream that has come in, beside what h3 has of it.
pub(super) struct Arrival {
    /// For who waits for the client to take the response back, and to have it.
    pub(super) stopped: [Stopped; 2],
    pub(super) control: Rc<StreamControl>,
    pub(super) id: u64,
    /// Whether its handshake was not over: what it says may have been recorded and sent again.
    pub(super) is_early: bool,
}

/// What is decided and learnt of a stream while h3 has it.
pub(super) struct StreamControl {
    /// Streams of a higher one are sent first.
    order: Cell<i32>,
    /// Whether it is ended, rather than reset, when h3 gives it up: h3 has answered by itself.
    ends: Cell<bool>,
    /// With which code its request was refused.
    refusal: Cell<Option<u64>>,
    is_websocket: Cell<bool>,
}

impl StreamControl {
    pub(super) fn new() -> Rc<Self> {
        let (order, ends, is_websocket) = (Cell::new(0), Cell::new(true), Cell::new(false));
        Rc::new(Self { order, ends, refusal: Cell::new(None), is_websocket })
    }

    pub(super) fn set_order(&self, order: i32) {
        self.order.set(order);
    }

    /// Has it reset if it is given up before its end.
    pub(super) fn reset_unless_ended(&self) {
        self.ends.set(false);
    }

    pub(super) fn order(&self) -> i32 {
        self.order.get()
    }

    /// Whether it is ended when it is given up.
    pub(super) fn ends(&self) -> bool {
        self.ends.get()
    }

    /// Has a response that is broken off say with which code its request was refused.
    pub(super) fn refuse(&self, code: u64) {
        self.refusal.set(Some(code));
    }

    /// With which code its request was refused, if it was.
    pub(super) fn refusal(&self) -> Option<u64> {
        self.refusal.get()
    }

    pub(super) fn set_websocket(&self, is_websocket: bool) {
        self.is_websocket.set(is_websocket);
    }

    /// Whether its head asks for a WebSocket.
    pub(super) fn is_websocket(&self) -> bool {
        self.is_websocket.get()
    }
}

/// The streams that come in.
pub(super) struct Arrivals {
    last: Cell<Option<Arrival>>,
    /// The id behind it.
    next: Cell<u64>,
    /// The first id that is refused.
    end: Cell<u64>,
    /// The longest frame with a head.
    longest_head: usize,
}

impl Arrivals {
    pub(super) fn new(longest_head: usize) -> Rc<Self> {
        let (next, end) = (Cell::new(0), Cell::new(u64::MAX));
        Rc::new(Self { last: Cell::default(), next, end, longest_head })
    }

    /// Lets `arrival` be taken.
    pub(super) fn put(&self, arrival: Arrival) {
        self.last.set(Some(arrival));
    }

    /// The longest frame with a head.
    pub(super) const fn longest_head(&self) -> usize {
        self.longest_head
    }

    /// The last one that has come.
    pub(super) fn take(&self) -> Option<Arrival> {
        self.last.take()
    }

    /// Refuses streams beyond `more` of them: what GOAWAY has to say.
    pub(super) fn end_after(&self, more: u64) -> StreamId {
        self.end.set(self.next.get() + more * ID_STEP);
        StreamId::try_from(self.end.get()).expect("ids of streams are far from their end")
    }

    /// Whether a stream is one of those that are answered.
    pub(super) fn admits(&self, id: u64) -> bool {
        if id >= self.end.get() {
            return false;
        }
        self.next.set(id + ID_STEP);
        true
    }
}

/// From one request of a client to its next (RFC 9000, 2.1).
const ID_STEP: u64 = 4;
