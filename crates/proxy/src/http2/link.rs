//! One connection to a server, shared by the requests of a worker.
//!
//! States: *opening* (until the server's settings are here; requests wait), *open*, *retired* (no
//! more requests; those under way go on), *failed* (it never opened, or the server takes no
//! streams from its beginning on, and why). A link opens within the service's `connect`, and
//! retires when it has had no stream for `keep_alive`, when the server leaves (GOAWAY) or takes no
//! streams any more, and when it let a request time out: what is wrong with it may be the
//! connection.
//!
//! Streams are counted here and not left to h2 to queue, so that a request never waits behind the
//! server's MAX_CONCURRENT_STREAMS: the next one takes another link. Each stream's window is its
//! own and that of the connection has room for all of them, so that a client that does not read
//! holds up nobody else.

use std::{
    cell::{Cell, RefCell},
    future::{Future, poll_fn},
    mem,
    net::SocketAddr,
    pin::{Pin, pin},
    rc::Rc,
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use h2::client::{Builder, Connection, SendRequest};
use loadline_core::{
    decide::reason::{Phase, Reason},
    fleet::ServerTimeouts,
    time::{Duration, Instant},
};
use loadline_http1::HeadLimits;
use tokio::task::spawn_local;

use super::{
    backlog::{Backlogs, FRAMES_BUDGET},
    head::list_size,
    wire::Wire,
};
use crate::{
    runtime::timer::{Timer, Timers},
    telemetry::reason::of_http2,
    tls::Dialing,
    upstream::{
        dial::{Dial, dial},
        pool::Slot,
    },
};

/// A connection to a server.
#[derive(Debug)]
pub(crate) struct Link {
    state: RefCell<State>,
    /// Requests that wait for it to open.
    waiting: RefCell<Vec<Waker>>,
    /// Streams open or promised to requests.
    streams: Cell<usize>,
    /// Streams open.
    begun: Cell<usize>,
    /// How many there may be, as far as this server's links have told.
    max: Rc<Cell<usize>>,
    idle_since: Cell<Instant>,
    pub(super) timers: Rc<Timers>,
    pub(super) backlogs: Rc<Backlogs>,
    pub(super) is_secure: bool,
}

#[derive(Debug)]
enum State {
    Opening,
    Open(SendRequest<Bytes>),
    Retired,
    Failed(Reason),
}

/// Where a link goes and how.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) address: SocketAddr,
    /// In clear if omitted.
    pub(crate) tls: Option<Dialing>,
    pub(crate) timeouts: ServerTimeouts,
    /// The longest head of a response, in bytes.
    pub(crate) longest_head: usize,
}

impl Link {
    /// Begins to open a link; `max` is shared by the links to the server.
    pub(crate) fn open(
        target: Target,
        slot: Slot,
        timers: &Rc<Timers>,
        max: &Rc<Cell<usize>>,
    ) -> Rc<Self> {
        let link = Rc::new(Self {
            state: RefCell::new(State::Opening),
            waiting: RefCell::default(),
            streams: Cell::new(0),
            begun: Cell::new(0),
            max: max.clone(),
            idle_since: Cell::new(timers.coarse_now()),
            timers: timers.clone(),
            backlogs: Rc::default(),
            is_secure: target.tls.is_some(),
        });
        spawn_local(run(link.clone(), target, slot));
        link
    }

    /// Whether it takes, or is going to take, requests.
    pub(crate) fn is_wanted(&self) -> bool {
        matches!(*self.state.borrow(), State::Opening | State::Open(_))
    }

    /// Whether it is about to open.
    pub(super) fn is_opening(&self) -> bool {
        matches!(*self.state.borrow(), State::Opening)
    }

    /// Whether it is open already.
    pub(crate) fn is_open(&self) -> bool {
        matches!(*self.state.borrow(), State::Open(_))
    }

    /// Whether one more request may have a stream.
    pub(crate) fn has_room(&self) -> bool {
        self.is_wanted() && self.streams.get() < self.max()
    }

    fn max(&self) -> usize {
        if let State::Open(requests) = &*self.state.borrow() {
            self.max.set(requests.current_max_send_streams().clamp(1, STREAMS_MAX));
        }
        self.max.get()
    }

    /// Counts one more stream, until the seat is dropped.
    pub(super) fn enter(self: &Rc<Self>) -> Seat {
        self.streams.set(self.streams.get() + 1);
        Seat { link: self.clone(), stream: None }
    }

    /// What to send a request with, once the link is open.
    ///
    /// # Errors
    /// Why it did not open; nothing where it was open, but has no stream for the request.
    pub(super) fn poll_open(
        &self,
        cx: &Context<'_>,
    ) -> Poll<Result<SendRequest<Bytes>, Option<Reason>>> {
        let is_full = self.begun.get() >= self.max();
        match &*self.state.borrow() {
            State::Opening => {
                self.waiting.borrow_mut().push(cx.waker().clone());
                Poll::Pending
            }
            State::Open(requests) if !is_full => Poll::Ready(Ok(requests.clone())),
            State::Open(_) | State::Retired => Poll::Ready(Err(None)),
            State::Failed(reason) => Poll::Ready(Err(Some(*reason))),
        }
    }

    /// Counts the time without a stream from now.
    pub(super) fn stay(&self) {
        self.idle_since.set(self.timers.coarse_now());
    }

    /// Takes no more requests.
    pub(super) fn retire(&self) {
        if self.is_open() {
            self.turn(State::Retired);
        }
    }

    /// Retires where the server takes no streams: it may take them on another connection.
    fn retire_if_barred(&self) {
        let takes_none = |requests: &SendRequest<Bytes>| requests.current_max_send_streams() == 0;
        let is_barred =
            matches!(&*self.state.borrow(), State::Open(requests) if takes_none(requests));
        if is_barred {
            self.retire();
        }
    }

    fn turn(&self, state: State) {
        // What was is dropped when nothing is borrowed: a link without its handle ends.
        let was = mem::replace(&mut *self.state.borrow_mut(), state);
        drop(was);
        self.waiting.take().into_iter().for_each(Waker::wake);
    }

    /// Retires if there has been no stream for long enough; true if that has been said before.
    fn expire(&self, timer: &Timer, keep_alive: Duration) -> bool {
        let until = self.idle_since.get() + keep_alive;
        let now = self.timers.coarse_now();
        match (self.streams.get(), self.is_open()) {
            (0, false) => return true,
            (0, true) if now < until => timer.arm(until.since(now)),
            (0, true) => {
                self.retire();
                timer.arm(LEAVE);
            }
            _ => timer.arm(keep_alive),
        }
        false
    }
}

/// One stream in the count of a link.
#[derive(Debug)]
pub(super) struct Seat {
    link: Rc<Link>,
    /// Its number, once it is open.
    stream: Option<u32>,
}

impl Seat {
    pub(super) fn link(&self) -> &Link {
        &self.link
    }

    /// Another for the same stream.
    pub(super) fn again(&self) -> Self {
        let mut seat = self.link.enter();
        if let Some(stream) = self.stream {
            seat.begin(stream);
        }
        seat
    }

    /// Notes that the stream is open.
    pub(super) fn begin(&mut self, stream: u32) {
        self.stream = Some(stream);
        self.link.begun.set(self.link.begun.get() + 1);
        self.link.backlogs.note_call(stream);
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let link = &self.link;
        link.streams.set(link.streams.get() - 1);
        if let Some(stream) = self.stream {
            link.begun.set(link.begun.get() - 1);
            link.backlogs.forget_call(stream);
        }
        link.idle_since.set(link.timers.coarse_now());
    }
}

/// Opens a link and moves its frames until it is over.
async fn run(link: Rc<Link>, target: Target, slot: Slot) {
    let timer = Timer::here(&link.timers).await;
    let keep_alive = target.timeouts.keep_alive;
    let (requests, mut connection, _slot) = match greet(&link, &target, slot, &timer).await {
        Ok(open) => open,
        Err(reason) => return link.turn(State::Failed(reason)),
    };
    link.idle_since.set(link.timers.coarse_now());
    link.turn(State::Open(requests));
    timer.arm(keep_alive);
    poll_fn(|cx| {
        while Pin::new(&mut connection).poll(cx).is_pending() {
            link.backlogs.collect();
            link.retire_if_barred();
            if !timer.has_expired() {
                return Poll::Pending;
            }
            if link.expire(&timer, keep_alive) {
                break;
            }
        }
        Poll::Ready(())
    })
    .await;
    link.retire();
}

type Open = (SendRequest<Bytes>, Connection<Wire, Bytes>, Option<Slot>);

/// Opens a connection and exchanges settings. Nothing of a request has been sent where this fails.
async fn greet(link: &Link, target: &Target, slot: Slot, timer: &Timer) -> Result<Open, Reason> {
    let to = Dial {
        address: target.address,
        tls: target.tls.as_ref(),
        header: &[],
        limit: target.timeouts.connect,
    };
    let (peer, slot) = dial(to, slot, timer).await?.into_parts();
    if !peer.socket.is_plain() && peer.socket.protocol() != Some(b"h2") {
        return Err(Reason::AlpnNotHttp2);
    }
    // Streams may be without timeouts.
    peer.socket.keep_alive();
    let wire = Wire::new(peer, &link.backlogs, &link.timers);
    let mut greeting = pin!(builder(target.longest_head).handshake(wire));
    let greeted = poll_fn(|cx| match greeting.as_mut().poll(cx) {
        Poll::Pending if timer.has_expired() => Poll::Ready(Err(Reason::SettingsTimeout)),
        greeted => greeted.map_err(|error| unopened(&error)),
    });
    let (requests, mut connection) = greeted.await?;
    let settled = poll_fn(|cx| {
        let polled = Pin::new(&mut connection).poll(cx);
        match polled {
            Poll::Ready(Ok(())) => Poll::Ready(Err(Reason::ClosedBeforeSettings)),
            Poll::Ready(Err(error)) => Poll::Ready(Err(unopened(&error))),
            Poll::Pending if requests.current_max_send_streams() != UNTOLD => Poll::Ready(Ok(())),
            Poll::Pending if timer.has_expired() => Poll::Ready(Err(Reason::SettingsTimeout)),
            Poll::Pending => Poll::Pending,
        }
    });
    settled.await?;
    // On another connection it would take none either.
    if requests.current_max_send_streams() == 0 {
        return Err(Reason::Http2Leaving);
    }
    Ok((requests, connection, slot))
}

/// Why a link never opened: an error before the server's settings came.
pub(crate) fn unopened(error: &h2::Error) -> Reason {
    let reason = of_http2(error);
    match reason {
        _ if error.is_library() => Reason::NotHttp2,
        Reason::BrokenPipe | Reason::Closed => Reason::ClosedBeforeSettings,
        reason => reason.during(Phase::Await),
    }
}

fn builder(longest_head: usize) -> Builder {
    let list = list_size(HeadLimits { bytes: longest_head, fields: FIELDS_MAX });
    let list = list.saturating_add(STREAM_WINDOW);
    let mut builder = Builder::new();
    builder
        .enable_push(false)
        .initial_max_send_streams(UNTOLD)
        .max_header_list_size(list)
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(STREAM_WINDOW * STREAMS_MAX as u32)
        .data_frame_budget(FRAMES_BUDGET)
        .max_send_buffer_size(SEND_BYTES)
        .max_local_error_reset_streams(None)
        .max_concurrent_reset_streams(RESETS)
        .reset_stream_duration(LATE);
    builder
}

/// Streams on a link, even where the server takes more: what a link can hold of our memory is
/// this times [`STREAM_WINDOW`], and what one broken connection can cut.
pub(super) const STREAMS_MAX: usize = 100;

/// What a server may send on a stream before the client has taken it: 100 Mbit/s at 20 ms.
const STREAM_WINDOW: u32 = 256 << 10;

/// What is taken of a request before the server's window has room for it, for each stream.
const SEND_BYTES: usize = 64 << 10;

/// Streams that were reset and are remembered, so that what was on its way is ignored: 2 MB for a
/// link at the most. What comes on others is answered by RST_STREAM (RFC 9113, 5.1), however often:
/// h2 would give up the link, with all its streams, after the 1,024th in its life.
const RESETS: usize = 4_096;

/// How long they are. It is more than a round trip, and than a server takes to see the reset.
const LATE: std::time::Duration = std::time::Duration::from_secs(10);

/// Stands for the server's MAX_CONCURRENT_STREAMS until it has sent its settings; it has 32 bits,
/// and where it sends none h2 takes `usize::MAX`.
pub(crate) const UNTOLD: usize = usize::MAX - 1;

/// More fields than any listener takes. The exact limits are the parser's; of a head that is longer
/// by another [`STREAM_WINDOW`] h2 does not tell that it is that.
const FIELDS_MAX: usize = 1_000;

/// How long a link that is not used any more may take to say so.
const LEAVE: Duration = Duration::from_secs(1);
