//! One client connection: its streams come in here, and go on as sessions of their own.
//!
//! States: *greeting* (until the client's preface; bounded by `head`), *serving*, *leaving* (GOAWAY
//! is sent; until the client has seen it, or for a second, new streams are still taken; those that
//! are open end). A connection leaves when it has had no stream for `keep_alive`, and when the
//! worker drains or the listener goes.
//!
//! What a client can do to a server with HTTP/2, and what bounds it:
//!
//! | attack | what bounds it |
//! |---|---|
//! | many streams | `http2.streams` at a time, more are refused (REFUSED_STREAM) |
//! | streams opened and reset (CVE-2023-44487) | `http2.resets` |
//! | errors that make us reset (CVE-2025-8671) | `http2.resets`; 1,000, 10/s, then GOAWAY |
//! | endless CONTINUATION (CVE-2024-27316) | what the longest head needs, then GOAWAY |
//! | heads that unpack to much (CVE-2016-6581) | what is longer than `limits` is not kept |
//! | PING, SETTINGS (CVE-2019-9512, -9515) | nothing is read while 128 KiB wait for the client |
//! | small DATA (CVE-2019-9518) | the windows: payload is kept as plain bytes |
//! | empty DATA (CVE-2019-9518) | 1,000 more than other frames, 10/s; then GOAWAY |
//! | bodies that go on after their response | `core::decide::linger`: pause 5 s, 30 s, 32 MiB |
//! | slow windows (CVE-2019-9511, -9517) | the client's `idle`; 64 KiB wait for it |
//!
//! A connection that is given up for one of these counts as one request that ended `client-bad`,
//! and so does each malformed request, of which the stream is reset (RFC 9113, 8.1.1).

use std::{
    cell::{RefCell, RefMut},
    future::poll_fn,
    io, mem,
    rc::Rc,
    task::{Context, Poll, ready},
};

use loadline_core::{
    decide::{ending::Ending, reason::Reason, request::shorter},
    fleet::Http2Limits,
    time::Duration,
    units::Bytes,
};
use tokio::task::spawn_local;

use super::{
    head::list_size,
    protocol::{ErrorCode, Limits, Opened, PREFACE, Protocol},
    stream::{Request, Shared, Stream},
    streams::Streams,
};
use crate::{
    http::session::{Origin, Session},
    io::{
        buffer::{Buffer, Buffers},
        peer::{Gone, Peer},
        socket::Socket,
        untaken::Untaken,
    },
    runtime::timer::Timer,
    telemetry::reason::of_client_violation,
};

/// Answers the streams of a connection until it is over.
pub(crate) async fn serve(origin: Origin, client: Peer, timer: Timer) {
    let (mut origin, mut client) = (origin, client);
    origin.lines.set_http2();
    let Origin { worker, listener, .. } = &origin;
    let view = worker.view_at(listener);
    let Some(listener_context) = view.listener_context(listener) else { return };
    timer.arm(listener_context.timeouts.head);
    let (keep_alive, idle) = (listener_context.timeouts.keep_alive, listener_context.timeouts.idle);
    let limits = limits(list_size(listener_context.limits), listener_context.http2);
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
        return linger(client, &origin, &timer, None).await;
    }
    // Streams may be without timeouts.
    client.socket.keep_alive();
    let unread = (!client.rest.is_empty()).then(|| worker.buffers.take_with(&client.rest));
    client.rest = Vec::new();
    let protocol = RefCell::new(Protocol::new(limits));
    let shared = Rc::new(Shared { protocol, client: RefCell::new(client) });
    let state = ConnectionState::Greeting;
    let mut connection =
        Connection { shared, unread, origin, timer, keep_alive, idle, streams, state };
    poll_fn(|cx| connection.poll(cx)).await;
    connection.protocol().fail_all(connection.fault());
    // Sockets of streams may outlive it.
    let socket = mem::replace(&mut connection.client().socket, Socket::NOBODY);
    let Connection { origin, timer, state, .. } = connection;
    let mut client = Peer::new(socket);
    match state {
        ConnectionState::Left => linger(client, &origin, &timer, Some(idle)).await,
        ConnectionState::GivenUp => linger(client, &origin, &timer, None).await,
        _ => client.socket.shut(),
    }
}

/// A connection and its streams.
struct Connection {
    shared: Rc<Shared>,
    /// Bytes of the client that wait until the requests before them have been accepted.
    unread: Option<Buffer>,
    origin: Origin,
    timer: Timer,
    keep_alive: Duration,
    /// How long the client may take nothing that waits for it; zero is for ever.
    idle: Duration,
    streams: Rc<Streams>,
    state: ConnectionState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionState {
    /// The preface has not come yet.
    Greeting,
    Serving,
    /// GOAWAY has been sent; streams opened before the client has seen it are answered.
    Leaving,
    /// It has seen it, or there has been time to; new streams are refused.
    Left,
    /// The client has done what it must not, or too much.
    GivenUp,
}

impl Connection {
    fn protocol(&self) -> RefMut<'_, Protocol> {
        self.shared.protocol.borrow_mut()
    }

    fn client(&self) -> RefMut<'_, Peer> {
        self.shared.client.borrow_mut()
    }

    /// Moves bytes and takes streams in; ready when the connection is over.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.protocol().begin_poll(cx);
        if self.origin.listener.is_cut() {
            return Poll::Ready(());
        }
        let is_over = self.poll_frames(cx).is_ready() || self.poll_time(cx).is_ready();
        // What does not go out now is sent when the socket takes more.
        let sent = self.poll_send(cx);
        self.protocol().end_poll();
        match sent {
            Poll::Ready(Err(_)) => Poll::Ready(()),
            _ if is_over => Poll::Ready(()),
            // All has been said.
            Poll::Ready(Ok(())) if self.has_left() => Poll::Ready(()),
            _ => Poll::Pending,
        }
    }

    /// Takes what has come; ready when nothing more does.
    fn poll_frames(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut accepted = 0;
        for _ in 0..TURN {
            self.leave_if_due();
            accepted += self.accept();
            if self.streams.is_abused() {
                self.give_up(ErrorCode::ENHANCE_YOUR_CALM);
            }
            // Those that are open have their turn first.
            if accepted >= STREAMS_TURN {
                break;
            }
            if self.state == ConnectionState::GivenUp {
                return Poll::Pending;
            }
            if self.protocol().is_congested() {
                match self.poll_send(cx) {
                    Poll::Ready(Ok(())) => {}
                    Poll::Ready(Err(_)) => return Poll::Ready(()),
                    Poll::Pending => return Poll::Pending,
                }
            }
            let Ok(buffer) = ready!(self.poll_fill(cx)) else { return Poll::Ready(()) };
            self.receive(buffer);
        }
        // Others of the worker have their turn first.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<Result<Buffer, Gone>> {
        match self.unread.take() {
            Some(buffer) => Poll::Ready(Ok(buffer)),
            None => self.client().poll_fill(cx, &self.origin.worker.buffers),
        }
    }

    fn receive(&mut self, mut buffer: Buffer) {
        let worker = &self.origin.worker;
        let now = worker.timers.coarse_now();
        let taken = self.protocol().receive(buffer.filled(), now, &worker.random);
        match taken {
            Ok(count) if count < buffer.filled().len() => {
                buffer.consume(count);
                self.unread = Some(buffer);
            }
            Ok(_) => worker.buffers.give(buffer),
            Err(code) => {
                worker.buffers.give(buffer);
                // What came before it counts as it would have without it.
                self.accept();
                self.give_up(code);
            }
        }
        if self.state == ConnectionState::Greeting && self.protocol().is_greeted() {
            self.state = ConnectionState::Serving;
            self.timer.stop_waiting();
            self.timer.arm(self.keep_alive);
        }
    }

    fn poll_send(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.shared.poll_send(cx, self.origin.worker.timers.coarse_now())
    }

    /// Has the requests answered that have come: how many.
    fn accept(&mut self) -> usize {
        let mut accepted = 0;
        loop {
            let opened = self.protocol().accept();
            let Some(opened) = opened else { break };
            self.open(opened);
            accepted += 1;
        }
        let malformed = self.protocol().take_malformed();
        for _ in 0..malformed {
            drop(self.streams.enter());
            end_violated(&self.origin, ErrorCode::PROTOCOL_ERROR);
        }
        let taken_back = self.protocol().take_taken_back();
        (0..taken_back).for_each(|_| self.streams.take_back());
        let refused = self.protocol().take_refused();
        (0..refused).for_each(|_| end_violated(&self.origin, ErrorCode::REFUSED_STREAM));
        accepted + malformed
    }

    /// Has a stream answered.
    fn open(&self, opened: Opened) {
        let (origin, place) = (self.origin.clone(), self.streams.enter());
        let mut request = Request::new(opened, &self.shared);
        if !request.is_undecided() {
            let stream = Stream::new(request, place);
            spawn_local(Session::answer_stream(origin, Socket::Stream(stream)));
            return;
        }
        spawn_local(async move {
            let timer = Timer::here(&origin.worker.timers).await;
            timer.arm(END_WAIT);
            request.decide(&timer).await;
            drop(timer);
            let stream = Stream::new(request, place);
            Box::pin(Session::answer_stream(origin, Socket::Stream(stream))).await;
        });
    }

    /// Does what is due by the clock; ready when the connection is over.
    fn poll_time(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.state == ConnectionState::Greeting {
            return self.poll_greeting();
        }
        while self.timer.has_expired() {
            if self.expire(cx) {
                return Poll::Ready(());
            }
        }
        Poll::Pending
    }

    /// Waits for the preface.
    fn poll_greeting(&self) -> Poll<()> {
        if !self.timer.has_waited_enough(&self.origin.listener) {
            return Poll::Pending;
        }
        if self.timer.is_displaced() {
            self.origin.end_unread(Ending::ClientSlow, 0);
        }
        Poll::Ready(())
    }

    /// Leaves if there has been no stream for long enough; true if that has been said before.
    fn expire(&mut self, cx: &mut Context<'_>) -> bool {
        let now = self.origin.worker.timers.coarse_now();
        let until = self.streams.idle_since().map(|since| since + self.keep_alive);
        match (self.state, until) {
            (ConnectionState::GivenUp, _) => return true,
            // The end of a response is on its way.
            (_, Some(_)) if self.waits_for_client(cx) => {
                self.streams.rest_from(now);
                self.timer.arm(shorter(LEAVE, self.idle));
            }
            (ConnectionState::Serving, None) => self.timer.arm(self.keep_alive),
            (ConnectionState::Serving, Some(until)) if now < until => {
                self.timer.arm(until.since(now));
            }
            (ConnectionState::Serving, Some(_)) => self.leave(),
            (ConnectionState::Left, Some(_)) => return true,
            _ => {
                self.finish_leaving();
                self.timer.arm(LEAVE);
            }
        }
        false
    }

    /// Whether something waits for a client that takes it, if slowly.
    fn waits_for_client(&self, cx: &mut Context<'_>) -> bool {
        if self.poll_send(cx).is_ready() {
            return false;
        }
        let since = self.client().socket.since_taken();
        let is_late = |since| self.idle > Duration::ZERO && Duration::from_std(since) >= self.idle;
        since.is_some_and(|since| !is_late(since))
    }

    fn leave_if_due(&mut self) {
        let Origin { worker, listener, .. } = &self.origin;
        if self.state == ConnectionState::Serving && worker.is_leaving(listener) {
            self.leave();
        }
        if self.protocol().is_leave_seen() {
            self.finish_leaving();
        }
    }

    /// Sends GOAWAY and lets the streams end.
    fn leave(&mut self) {
        self.state = ConnectionState::Leaving;
        self.protocol().leave();
        self.timer.arm(LEAVE);
    }

    /// Refuses new streams from now on.
    fn finish_leaving(&mut self) {
        if matches!(self.state, ConnectionState::Serving | ConnectionState::Leaving) {
            self.state = ConnectionState::Left;
            self.protocol().go_away(ErrorCode::NO_ERROR);
        }
    }

    /// Whether the client has been told that the connection ends, and the last stream has.
    fn has_left(&self) -> bool {
        match self.state {
            ConnectionState::GivenUp => true,
            ConnectionState::Left => self.protocol().is_idle(),
            _ => false,
        }
    }

    /// Counts and logs the connection as one bad request, once, and tells the client.
    fn give_up(&mut self, code: ErrorCode) {
        if self.state != ConnectionState::GivenUp {
            self.state = ConnectionState::GivenUp;
            end_violated(&self.origin, code);
            let mut protocol = self.protocol();
            protocol.fail_all(self.fault());
            protocol.go_away(code);
            self.timer.arm(LEAVE);
        }
    }

    /// Why streams end that end with the connection.
    fn fault(&self) -> Reason {
        match self.state {
            ConnectionState::GivenUp => Reason::ConnectionViolated,
            _ => Reason::Closed,
        }
    }
}

/// Counts and logs what has no request, since its client broke a rule of HTTP/2.
fn end_violated(origin: &Origin, code: ErrorCode) {
    let violation = of_client_violation(Reason::http2_violation(code.0));
    origin.end_unread_because((Ending::ClientBad, 0), &violation);
}

/// Reads until the client has said [`PREFACE`], which stays to be read; how it ends if it has not.
/// Over TLS that is left to the protocol: our settings need not wait for it then.
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

/// Closes a connection that ends for something that has been said, and reads what still comes while
/// the client takes what was sent, once in `idle` at least, and for a while after: it would see a
/// reset otherwise, and lose what it has not read yet. Without `idle` it has that while from now.
async fn linger(mut client: Peer, origin: &Origin, timer: &Timer, idle: Option<Duration>) {
    let Origin { worker, listener, .. } = origin;
    let now = worker.timers.coarse_now();
    let (mut untaken, idle) = match idle {
        Some(idle) => (Untaken::since_taken(&client.socket, now), idle),
        None => (Untaken::of(&client.socket, now), LEAVE),
    };
    client.socket.shut();
    while let Some(pause) = untaken.pause(&client.socket, worker.timers.coarse_now(), idle)
        && !listener.is_cut()
    {
        timer.arm(pause);
        match client.fill(&worker.buffers, timer).await {
            Ok(buffer) => worker.buffers.give(buffer),
            Err(Gone::Expired) => {}
            Err(_) => return,
        }
    }
}

fn limits(longest_head: u32, limits: Http2Limits) -> Limits {
    let size = |bytes: Bytes| u32::try_from(bytes.get()).unwrap_or(WINDOW_MAX).min(WINDOW_MAX);
    Limits {
        streams: limits.streams,
        window: size(limits.window),
        connection_window: size(limits.connection_window),
        longest_head,
    }
}

/// Buffers that are read before other tasks have a turn.
const TURN: usize = 8;

/// Streams that are taken in before those that are open have a turn.
const STREAMS_TURN: usize = 50;

/// The largest window there can be (RFC 9113, 6.9.1).
const WINDOW_MAX: u32 = (1 << 31) - 1;

/// How long a client may take to notice that the connection is over.
const LEAVE: Duration = Duration::from_secs(1);

/// How long a GET waits for its end, to be known to have no body: most clients send it at once.
const END_WAIT: Duration = Duration::from_secs(1);
