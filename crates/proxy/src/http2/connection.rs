//! One client connection: its streams come in here, and go on as sessions of their own.
//!
//! States: *greeting* (until the client's preface; bounded by `head`), *serving*, *leaving* (GOAWAY
//! is sent; for a second new streams are still taken, for the client may not know yet; those that
//! are open end). A connection leaves when it has had no stream for `keep_alive`, and when the
//! worker drains or the listener goes.
//!
//! What a client can do to a server with HTTP/2, and what bounds it:
//!
//! | attack | what bounds it |
//! |---|---|
//! | many streams | `http2.streams` at a time, more are refused (REFUSED_STREAM) |
//! | streams opened and reset (CVE-2023-44487) | `http2.resets`, [`unseen`] ones too |
//! | errors that make us reset (CVE-2025-8671) | `http2.resets`; h2: 1,024, then GOAWAY |
//! | endless CONTINUATION (CVE-2024-27316) | h2: what the longest head needs, then GOAWAY |
//! | heads that unpack to much (CVE-2016-6581) | [`HEADS`] times the listener's `limits` |
//! | PING, SETTINGS (CVE-2019-9512, -9515) | h2: reads on when its response is written |
//! | small DATA (CVE-2019-9518) | the windows: [`Backlogs`] keeps plain bytes |
//! | empty DATA (CVE-2019-9518) | 1,000 more than other frames, 10/s; then h2: 100, then GOAWAY |
//! | bodies that go on after their response | `core::decide::linger`: pause 5 s, 30 s, 32 MiB |
//! | slow windows (CVE-2019-9511, -9517) | the client's `idle`; [`SEND_BYTES`] wait for it |
//!
//! A connection that is given up for one of these counts as one request that ended `client-bad`,
//! and so does each request that h2 refuses as malformed. For some of those h2 gives up the
//! connection (against RFC 9113, 8.1.1): its other requests end `client-gone`.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    rc::Rc,
    task::{Context, Poll},
};

use h2::{Reason, RecvStream, server};
use http::Request;
use loadline_core::{
    decide::{ending::Ending, reason::Reason as Why},
    fleet::Http2Limits,
    time::Duration,
    units::Bytes,
};
use tokio::task::spawn_local;

use super::{
    backlog::{Backlogs, FRAMES_BUDGET},
    head::list_size,
    stream::{Opened, Stream},
    streams::{Streams, at_once},
    wire::Wire,
};
use crate::{
    http::session::{Origin, Session},
    io::{
        buffer::Buffers,
        peer::{Gone, Peer},
        socket::Socket,
    },
    runtime::timer::Timer,
    telemetry::reason::{of_client_violation, of_http2},
};

/// Answers the streams of a connection until it is over.
pub(crate) async fn serve(origin: Origin, client: Peer, timer: Timer) {
    let (mut origin, mut client) = (origin, client);
    origin.lines.set_http2();
    let Origin { worker, listener, .. } = &origin;
    let view = worker.view_at(listener);
    let Some(listener_context) = view.listener_context(listener) else { return };
    timer.arm(listener_context.timeouts.head);
    let keep_alive = listener_context.timeouts.keep_alive;
    let longest = list_size(listener_context.limits);
    let builder = builder(longest, listener_context.http2);
    // Asked for at once: a reload may have servers told of it while the connection lasts.
    let destination = client.socket.local_addr();
    let streams = Streams::new(&worker.timers, listener_context.http2.resets, destination);
    drop(view);
    if client.socket.is_plain()
        && let Err(ending) = greets(&mut client, &worker.buffers, &timer).await
    {
        if !client.rest.is_empty() {
            origin.end_unread(ending, 0);
        }
        return linger(client, &worker.buffers, &timer).await;
    }
    // Streams may be without timeouts.
    client.socket.keep_alive();
    let backlogs = Rc::new(Backlogs::of_client());
    let wire = Wire::new(client, PREFACE.len(), &backlogs, &origin.worker.timers);
    let wire = wire.for_client(longest);
    let cork = wire.cork();
    let mut greeting = pin!(builder.handshake(wire));
    let agreed = poll_fn(|cx| match greeting.as_mut().poll(cx) {
        Poll::Pending if timer.has_waited_enough(listener) => Poll::Ready(None),
        agreed => agreed.map(Some),
    });
    let h2 = match agreed.await {
        Some(Ok(h2)) => h2,
        Some(Err(error)) if error.is_library() => return end_violated(&origin, of_http2(&error)),
        None if timer.is_displaced() => return origin.end_unread(Ending::ClientSlow, 0),
        Some(Err(_)) | None => return,
    };
    timer.stop_waiting();
    timer.arm(keep_alive);
    let stage = ConnectionState::Serving;
    let mut connection = Connection { h2, origin, timer, keep_alive, streams, backlogs, stage };
    cork.put_in();
    poll_fn(|cx| {
        let over = connection.poll(cx);
        // What does not go out now is sent when the socket takes more.
        let _ = cork.poll_flush(cx);
        if !cork.is_full() {
            connection.streams.note_sending();
        }
        over
    })
    .await;
}

/// A connection whose client has greeted.
struct Connection {
    h2: server::Connection<Wire, bytes::Bytes>,
    origin: Origin,
    timer: Timer,
    keep_alive: Duration,
    streams: Rc<Streams>,
    backlogs: Rc<Backlogs>,
    stage: ConnectionState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionState {
    Serving,
    /// GOAWAY has been sent; streams opened before the client has seen it are answered.
    Leaving,
    /// There has been time to see it; new streams are refused.
    Left,
    /// The client has done what it must not, or too much.
    GivenUp,
}

impl Connection {
    /// Takes streams in; ready when the connection is over.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Origin { worker, listener, .. } = &self.origin;
        if listener.is_cut() {
            return Poll::Ready(());
        }
        if worker.is_leaving(listener) && self.stage == ConnectionState::Serving {
            self.leave();
        }
        if self.streams.is_abused() && self.stage != ConnectionState::GivenUp {
            self.give_up(Why::http2_violation(Reason::ENHANCE_YOUR_CALM.into()));
            self.h2.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
        }
        let mut taken = 0;
        loop {
            while let Poll::Ready(next) = self.h2.poll_accept(cx) {
                let (request, mut respond) = match next {
                    Some(Ok(stream)) => stream,
                    Some(Err(error)) => {
                        self.count_malformed();
                        if error.is_library() {
                            self.give_up(of_http2(&error));
                        }
                        return Poll::Ready(());
                    }
                    None => {
                        self.count_malformed();
                        return Poll::Ready(());
                    }
                };
                self.backlogs.note_accepted(respond.stream_id().as_u32());
                match self.stage {
                    ConnectionState::Left | ConnectionState::GivenUp => {
                        respond.send_reset(Reason::REFUSED_STREAM);
                    }
                    ConnectionState::Serving | ConnectionState::Leaving => {
                        self.open(request, respond);
                    }
                }
                taken += 1;
                if taken == TURN {
                    // Those that were reset before they came here are to be counted first.
                    self.backlogs.collect();
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
            }
            self.count_malformed();
            self.backlogs.collect();
            if !self.timer.has_expired() {
                return Poll::Pending;
            }
            if self.expire() {
                return Poll::Ready(());
            }
        }
    }

    /// Has a stream answered.
    fn open(&self, request: Request<RecvStream>, respond: server::SendResponse<bytes::Bytes>) {
        let random = &self.origin.worker.random;
        let draws = [random.draw(), random.draw()];
        let (origin, mut place) = (self.origin.clone(), self.streams.enter());
        let mut opened = Opened::new(request, &self.backlogs);
        if !opened.is_undecided() {
            let stream = Stream::new(opened, respond, draws, place);
            spawn_local(Session::answer_stream(origin, Socket::Stream(stream)));
            return;
        }
        spawn_local(async move {
            let timer = Timer::here(&origin.worker.timers).await;
            timer.arm(END_WAIT);
            opened.decide(&timer).await;
            drop(timer);
            if opened.is_taken_back() {
                place.abandon();
            }
            let stream = Stream::new(opened, respond, draws, place);
            Box::pin(Session::answer_stream(origin, Socket::Stream(stream))).await;
        });
    }

    /// Leaves if there has been no stream for long enough; true if that has been said before.
    fn expire(&mut self) -> bool {
        let now = self.origin.worker.timers.coarse_now();
        let until = self.streams.idle_since().map(|since| since + self.keep_alive);
        match until {
            None if self.stage == ConnectionState::Serving => self.timer.arm(self.keep_alive),
            None => {
                if self.stage == ConnectionState::Leaving {
                    self.stage = ConnectionState::Left;
                }
                self.timer.arm(LEAVE);
            }
            Some(_) if self.stage != ConnectionState::Serving => return true,
            Some(until) if now < until => self.timer.arm(until.since(now)),
            Some(_) => self.leave(),
        }
        false
    }

    /// Counts and logs the connection as one bad request, once.
    fn give_up(&mut self, violation: Why) {
        if self.stage != ConnectionState::GivenUp {
            self.stage = ConnectionState::GivenUp;
            end_violated(&self.origin, violation);
        }
    }

    /// Counts and logs the requests that h2 has refused as malformed.
    fn count_malformed(&self) {
        for _ in 0..self.backlogs.take_malformed() {
            drop(self.streams.enter());
            end_violated(&self.origin, Why::http2_violation(Reason::PROTOCOL_ERROR.into()));
        }
    }

    /// Sends GOAWAY and lets the streams end.
    fn leave(&mut self) {
        self.stage = ConnectionState::Leaving;
        self.h2.graceful_shutdown();
        self.timer.arm(LEAVE);
    }
}

/// Counts and logs what has no request, since its client broke a rule of HTTP/2.
fn end_violated(origin: &Origin, violation: Why) {
    origin.end_unread_because((Ending::ClientBad, 0), &of_client_violation(violation));
}

/// Reads until the client has said [`PREFACE`], which stays to be read; how it ends if it has not.
/// Over TLS that is left to h2, whose settings need not wait for it then.
async fn greets(client: &mut Peer, buffers: &Buffers, timer: &Timer) -> Result<(), Ending> {
    loop {
        let said = client.rest.len().min(PREFACE.len());
        if !PREFACE.starts_with(&client.rest[..said]) {
            return Err(Ending::ClientBad);
        }
        if said == PREFACE.len() {
            return Ok(());
        }
        match client.fill(buffers, timer).await {
            Ok(buffer) => client.keep(buffer, buffers),
            Err(Gone::Expired) => return Err(Ending::ClientTimeout),
            Err(_) => return Err(Ending::ClientGone),
        }
    }
}

/// Closes a connection on which something else came, and reads what still comes for a while: the
/// client would see a reset otherwise, and no end (RFC 9113, 3.4).
async fn linger(mut client: Peer, buffers: &Buffers, timer: &Timer) {
    client.socket.shut();
    timer.arm(LEAVE);
    while let Ok(buffer) = client.fill(buffers, timer).await {
        buffers.give(buffer);
    }
}

fn builder(longest_head: u32, limits: Http2Limits) -> server::Builder {
    let mut builder = server::Builder::new();
    let size = |bytes: Bytes| u32::try_from(bytes.get()).unwrap_or(WINDOW_MAX).min(WINDOW_MAX);
    builder
        .max_header_list_size(longest_head.saturating_mul(HEADS))
        .max_concurrent_streams(limits.streams)
        .initial_window_size(size(limits.window))
        .initial_connection_window_size(size(limits.connection_window))
        .data_frame_budget(FRAMES_BUDGET)
        .max_send_buffer_size(SEND_BYTES)
        .max_pending_accept_reset_streams(unseen(limits))
        .enable_connect_protocol();
    builder
}

/// Streams that may be reset before h2 has handed them out: as many as may be at once, and all that
/// a client may have open. Whether they are too many is decided where the others are counted.
fn unseen(limits: Http2Limits) -> usize {
    at_once(limits.resets).max(u64::from(limits.streams)).try_into().unwrap_or(usize::MAX)
}

/// Streams that are taken in before those that are open have a turn.
const TURN: u32 = 50;

/// How many times as long as the longest a head may be for the parser to refuse it, so that it is
/// counted and logged as in HTTP/1. h2 refuses those that are longer, and does not tell. Clients
/// are told of the longest ([`Wire::for_client`]).
const HEADS: u32 = 4;

/// What a client begins with (RFC 9113, 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The largest window there can be (RFC 9113, 6.9.1).
const WINDOW_MAX: u32 = (1 << 31) - 1;

/// What is taken of a response before the client's window has room for it, for each stream.
pub(crate) const SEND_BYTES: usize = 64 << 10;

/// How long a GET waits for its end, to be known to have no body: most clients send it at once.
const END_WAIT: Duration = Duration::from_secs(1);

/// How long a client may take to notice that the connection is over.
const LEAVE: Duration = Duration::from_secs(1);
