//! One client connection: reads requests one after another, and answers each.
//!
//! A connection that waits for its next request holds its socket, the lines about its client and
//! nothing else: no buffer, no parser, no plan. States: *idle* (nothing of a request has come;
//! bounded by `head` at first and by `keep_alive` later), *reading a head* (bounded by `head`),
//! *in an exchange*. A client that begins in HTTP/2 is handed over; each of its streams comes back
//! as a session of one request.

use std::{
    future::{Future, poll_fn, ready},
    io,
    net::SocketAddr,
    pin::Pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, ready},
};

use loadline_core::{
    decide::{ending::Ending, linger::Linger, reason::Reason},
    fleet::HttpVersion,
    time::Duration,
};
use loadline_http1::{
    ClientLines, LocalReply, Method, ParseError, RequestHead, RequestLine, Status, Version,
};
use tokio::task::spawn_local;

use crate::{
    http::{
        exchange::{Exchange, Next},
        request::{From, Request},
    },
    http2,
    io::{
        buffer::Buffer,
        peer::{Gone, Peer},
        socket::Socket,
    },
    listener::handle::{ConnectionGuard, ListenerHandle},
    runtime::{timer::Timer, view::View, worker::Worker},
    telemetry::{
        access_log::{Line, Times, without_secrets, without_user},
        reason::of_client_tls,
    },
    tls::{ClientTls, Tls, VALIDATION_PROTOCOL},
    upstream::private::PrivateConnection,
};

/// One client connection, or one stream of it.
#[derive(Debug)]
pub(crate) struct Session {
    origin: Origin,
    client: Peer,
    timer: Timer,
    /// The head that is being read, where part of one has come.
    partial: Option<Box<RequestHead>>,
    /// The connection to a server that is for this client alone.
    private: Option<Box<PrivateConnection>>,
    /// Nothing has been read of it.
    is_new: bool,
    /// Whether it is new while the proxy ends, so that it has only a moment for its first request.
    is_hurried: bool,
}

/// A request, and the view of the configuration by which it was taken.
type Received = (Rc<View>, Box<Request>);

/// What becomes of the client's connection behind a response, and its own connection to a server.
type Answered = (Next, Option<Box<PrivateConnection>>);

/// Where a connection comes from, what its handshake has told, and its request line, where that
/// could be read.
type Client<'a> = (SocketAddr, Option<&'a ClientTls>, Option<RequestLine<'a>>);

/// The part of a session that is in memory of its own.
type Answering<'a, T = ()> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// Where requests come from: what the streams of a connection have in common.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    pub(crate) worker: Rc<Worker>,
    pub(crate) listener: Arc<ListenerHandle>,
    address: SocketAddr,
    pub(crate) lines: ClientLines,
    /// What its handshake has told; none in clear.
    tls: Option<Rc<ClientTls>>,
}

impl Origin {
    /// Where the streams of a connection from `address` to `listener` come from.
    pub(crate) fn new(
        (worker, listener): (&Rc<Worker>, &Arc<ListenerHandle>),
        address: SocketAddr,
        lines: ClientLines,
        tls: Option<Rc<ClientTls>>,
    ) -> Self {
        Self { worker: worker.clone(), listener: listener.clone(), address, lines, tls }
    }

    /// Counts and logs a stream, or a connection, that has ended before a head was there.
    pub(crate) fn end_unread(&self, ending: Ending, status: u16) {
        self.record(None, Refused::new(ending, status), 0);
    }

    /// As [`Origin::end_unread`], for a reason that says more than its ending.
    pub(crate) fn end_unread_because(&self, (ending, status): (Ending, u16), reason: &str) {
        let (at, tls) = ((&*self.worker, &*self.listener), self.tls.as_deref());
        record_because(at, (self.address, tls, None), (Refused::new(ending, status), 0), reason);
    }

    fn record(&self, asked: Option<RequestLine<'_>>, refused: Refused, bytes: usize) {
        let at = (&*self.worker, &*self.listener);
        record(at, (self.address, self.tls.as_deref(), asked), refused, bytes);
    }
}

/// Counts and logs a connection from `address` that has ended before anything was read of it, and
/// what it was told: a status, and in how many bytes.
pub(crate) fn end_unread(
    at: (&Worker, &ListenerHandle),
    address: SocketAddr,
    ending: Ending,
    (status, bytes): (u16, usize),
) {
    record(at, (address, None, None), Refused::new(ending, status), bytes);
}

/// As [`end_unread`], of one that was told nothing, for a reason that says more than its ending.
pub(crate) fn end_unread_because(
    at: (&Worker, &ListenerHandle),
    address: SocketAddr,
    ending: Ending,
    reason: &str,
) {
    record_because(at, (address, None, None), (Refused::new(ending, 0), 0), reason);
}

fn record(at: (&Worker, &ListenerHandle), client: Client<'_>, refused: Refused, bytes: usize) {
    let error = refused.error.map(|error| error.to_string());
    let reason = refused.reason.or(Reason::of(refused.ending)).map(Reason::text);
    let reason = error.as_deref().or(reason);
    record_because(at, client, (refused, bytes), reason.unwrap_or_default());
}

fn record_because(
    (worker, listener): (&Worker, &ListenerHandle),
    (client, tls, asked): Client<'_>,
    (refused, bytes): (Refused, usize),
    reason: &str,
) {
    let view = worker.view_at(listener);
    let Some(listener_context) = view.listener_context(listener) else { return };
    view.services[listener_context.service].cells.end(refused.ending, refused.status);
    let Some(log) = &worker.shared.log else { return };
    let now = worker.shared.clock.now();
    let service = &view.plan.fleet.services[listener_context.service].name;
    let method = view.listener(listener).map_or("", |it| Line::method_of(it.protocol));
    let line = Line {
        client,
        method: asked.map_or(method.as_bytes(), |it| it.method),
        target: asked.map_or(b"", |it| without_user(without_secrets(&log.settings, it.target))),
        version: asked.map_or("-", |it| it.version),
        referer: b"",
        agent: b"",
        status: refused.status,
        bytes: bytes as u64,
        service: if listener_context.routes_only { "-" } else { service },
        server: None,
        ending: refused.ending,
        reason,
        retries: 0,
        times: Times { received: now, ended: now, ..Times::default() },
        trace: None,
        came: listener_context.came(b"", tls),
    };
    worker.log.add(log, worker.shared.clock, &line);
}

/// Why a request is not even tried.
#[derive(Clone, Copy, Debug)]
struct Refused {
    ending: Ending,
    status: u16,
    /// What is wrong with the message, if that is why.
    error: Option<ParseError>,
    /// What says more than the ending, if anything does.
    reason: Option<Reason>,
    /// Whether it is a HEAD, whose response has no body.
    to_head: bool,
}

/// Why there is no request.
#[derive(Clone, Copy, Debug)]
enum Stop {
    /// The connection is over.
    Over,
    /// The listener is full, and the client has been longest about its head.
    Displaced,
    /// The connection is to go on in HTTP/2.
    Http2,
    Refused(Refused),
}

impl Refused {
    const fn new(ending: Ending, status: u16) -> Self {
        Self { ending, status, error: None, reason: None, to_head: false }
    }

    /// A message that breaks a rule, as far as it has come.
    fn bad(error: ParseError, message: &[u8]) -> Self {
        let to_head = message.starts_with(b"HEAD ");
        Self { error: Some(error), to_head, ..Self::new(Ending::ClientBad, error.status()) }
    }
}

impl std::convert::From<Refused> for Stop {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused)
    }
}

impl Session {
    /// Takes care of a connection that has just been accepted.
    ///
    /// What the task holds while it waits is what an idle connection costs. So everything the
    /// session needs is put together here rather than in the task, where each value that is moved
    /// takes its place twice, and whatever is long or rare has memory of its own.
    pub(crate) fn spawn(
        worker: &Rc<Worker>,
        socket: Socket,
        address: SocketAddr,
        pass: ConnectionGuard,
    ) {
        let Some(mut session) = Self::new(worker, socket, address, &pass) else { return };
        spawn_local(async move {
            session.timer.bind_here().await;
            if let Err(error) = session.agree().await {
                return session.note_failed_handshake(&error);
            }
            session.note_tls();
            let next = session.run().await;
            session.leave(next).await;
            drop(pass);
        });
    }

    /// The session of a connection; none if it is not wanted any more.
    fn new(
        worker: &Rc<Worker>,
        mut socket: Socket,
        address: SocketAddr,
        pass: &ConnectionGuard,
    ) -> Option<Self> {
        let view = worker.view_at(&pass.listener);
        let listener_context = view.listener_context(&pass.listener)?;
        if let Some(config) = &listener_context.tls {
            let tls = Tls::server(config.clone());
            let tls = tls.inspect_err(|error| tracing::debug!(%address, %error, "no TLS")).ok()?;
            socket = socket.over(tls);
        }
        let timer = Timer::unbound(&worker.timers);
        timer.arm(listener_context.timeouts.head);
        let scheme = if socket.is_plain() { "http" } else { "https" };
        let lines = ClientLines::new(listener_context.rules, address.ip(), scheme);
        let (worker, listener) = (worker.clone(), pass.listener.clone());
        let origin = Origin { worker, listener, address, lines, tls: None };
        let client = Peer::new(socket);
        let (partial, private) = (None, None);
        Some(Self { origin, client, timer, partial, private, is_new: true, is_hurried: false })
    }

    /// Answers the one request of a stream, and ends the stream.
    pub(crate) async fn answer_stream(origin: Origin, stream: Socket) {
        let timer = Timer::here(&origin.worker.timers).await;
        let client = Peer::new(stream);
        let (partial, private) = (None, None);
        let mut session =
            Self { origin, client, timer, partial, private, is_new: false, is_hurried: false };
        let next = session.next().await;
        match next {
            Next::Reset => session.client.socket.reset(),
            Next::Linger => session.linger().await,
            _ => session.client.socket.shut(),
        }
    }

    /// Agrees with the client on TLS, where the listener has it.
    fn agree(&mut self) -> impl Future<Output = io::Result<()>> {
        poll_fn(|cx| {
            let Self { origin: Origin { worker, listener, .. }, client, timer, .. } = self;
            let agreed = match client.socket.poll_handshake(cx) {
                Poll::Pending => {
                    worker.hurry(timer, listener, &mut self.is_hurried);
                    match timer.has_waited_enough(listener) || listener.is_cut() {
                        true => Err(io::ErrorKind::TimedOut.into()),
                        false => return Poll::Pending,
                    }
                }
                Poll::Ready(agreed) => agreed,
            };
            Poll::Ready(client.socket.handshaken(agreed))
        })
    }

    /// Counts and logs a client with which TLS is not agreed on; not one that has said nothing, as
    /// browsers, health checks and scanners do.
    fn note_failed_handshake(&self, error: &io::Error) {
        if self.timer.is_displaced() {
            return self.record(DISPLACED, 0);
        }
        let Origin { worker, listener, address, .. } = &self.origin;
        tracing::debug!(%address, %error, "no TLS");
        if !self.client.socket.has_heard() {
            return;
        }
        let ending = match error.kind() {
            io::ErrorKind::TimedOut => Ending::ClientTimeout,
            io::ErrorKind::InvalidData => Ending::ClientBad,
            _ => Ending::ClientGone,
        };
        let refused = Refused::new(ending, 0);
        if ending != Ending::ClientBad {
            return self.record(refused, 0);
        }
        let (at, reason) = ((&**worker, &**listener), of_client_tls(error));
        record_because(at, (*address, None, None), (refused, 0), &reason);
    }

    /// Keeps what the handshake has told, for rules, servers and the access log.
    fn note_tls(&mut self) {
        self.origin.tls = self.client.socket.client_tls().map(Rc::new);
    }

    /// Answers requests until the connection is to be closed: how.
    async fn run(&mut self) -> Next {
        let protocol = self.client.socket.protocol();
        if protocol == Some(VALIDATION_PROTOCOL) {
            // An authority has seen what it wanted to see.
            return Next::Close;
        }
        let agreed = protocol == Some(b"h2");
        if agreed || self.speaks_only_http2() {
            return Next::Http2;
        }
        loop {
            let next = self.next().await;
            if next != Next::KeepAlive {
                return next;
            }
        }
    }

    fn speaks_only_http2(&self) -> bool {
        let Origin { worker, listener, .. } = &self.origin;
        let view = worker.view_at(listener);
        let listener_context = view.listener_context(listener);
        listener_context.is_some_and(|listener_context| {
            listener_context.http_version == Some(HttpVersion::Http2)
        })
    }

    /// Closes the connection, or hands it on.
    fn leave(mut self, next: Next) -> Answering<'static> {
        match next {
            Next::Linger => Box::pin(self.linger()),
            Next::Reset => {
                self.client.socket.reset();
                Box::pin(ready(()))
            }
            Next::KeepAlive | Next::Close => {
                self.client.socket.notify_close();
                Box::pin(ready(()))
            }
            Next::Http2 => {
                let Self { origin, client, timer, .. } = self;
                Box::pin(http2::serve(origin, client, timer))
            }
        }
    }

    /// Answers one request.
    async fn next(&mut self) -> Next {
        let request = poll_fn(|cx| self.poll_request(cx)).await;
        let (next, private) = self.respond(request).await;
        if private.is_some() {
            self.private = private;
        }
        next
    }

    /// Does what the request, or the lack of one, asks for, in memory that is free again while
    /// the connection waits.
    fn respond(&mut self, request: Result<Received, Stop>) -> Answering<'_, Answered> {
        match request {
            Ok((view, mut request)) => {
                let service = &view.services[request.service].name;
                let now = self.origin.worker.timers.coarse_now();
                let mut private = self.private.take_if(|private| private.is_of(service));
                request.go_over(private.take_if(|private| private.stays(now)));
                Box::pin(self.answer(view, request))
            }
            Err(Stop::Over) => Box::pin(ready((Next::Close, None))),
            Err(Stop::Displaced) => {
                self.record(DISPLACED, 0);
                Box::pin(ready((Next::Close, None)))
            }
            Err(Stop::Http2) => Box::pin(ready((Next::Http2, None))),
            Err(Stop::Refused(refused)) => Box::pin(self.refuse(refused)),
        }
    }

    /// Reads until a request is complete.
    fn poll_request(&mut self, cx: &mut Context<'_>) -> Poll<Result<Received, Stop>> {
        loop {
            let mut buffer = ready!(self.poll_bytes(cx))?;
            let Self { origin, client, timer, partial, is_new, .. } = self;
            let Origin { worker, listener, address, lines, tls } = origin;
            let view = worker.view_at(listener);
            let listener_context = view.listener_context(listener).ok_or(Stop::Over)?;
            let is_first = partial.is_none();
            let mut head = partial.take().unwrap_or_else(|| listener_context.take_request_head());
            let parsed = head.parse(buffer.filled());
            let may_switch = *is_new && listener_context.http_version.is_none();
            if parsed.is_err() && may_switch && announces_http2(client, buffer.filled()) {
                client.keep(buffer, &worker.buffers);
                return Poll::Ready(Err(Stop::Http2));
            }
            if let Err(error) = parsed {
                let refused = Refused::bad(error, buffer.filled());
                client.keep(buffer, &worker.buffers);
                return Poll::Ready(Err(refused.into()));
            }
            if let Ok(Status::Partial) = parsed {
                if is_first {
                    timer.arm(listener_context.timeouts.head);
                }
                client.keep(buffer, &worker.buffers);
                *partial = Some(head);
                continue;
            }
            if head.method() == Method::Connect {
                client.keep(buffer, &worker.buffers);
                return Poll::Ready(Err(CONNECT.into()));
            }
            if *is_new || !is_first {
                timer.stop_waiting();
            }
            *is_new = false;
            let is_trusted = listener_context.trusts(*address);
            let (client_address, scheme) = if is_trusted {
                listener_context.client(*address, &head, buffer.filled())
            } else {
                (*address, listener_context.scheme())
            };
            let tls = tls.as_ref();
            let (peer, address) = (&*address, client_address);
            let from = From { address, scheme, peer, lines, is_trusted, tls };
            let request =
                Request::take(worker, (&view, listener_context), &head, &mut buffer, from);
            listener_context.give_request_head(head);
            client.keep(buffer, &worker.buffers);
            return Poll::Ready(Ok((view, request)));
        }
    }

    /// Reads the first bytes of a request, or more of one that has begun.
    fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Result<Buffer, Stop>> {
        let Self { origin, client, timer, partial, is_new, is_hurried, .. } = self;
        let Origin { worker, listener, .. } = origin;
        if partial.is_none() && !client.rest.is_empty() {
            return Poll::Ready(Ok(self.pipelined()));
        }
        match client.poll_fill(cx, &worker.buffers) {
            Poll::Ready(read) => {
                Poll::Ready(read.map_err(|gone| Stop::before_request(gone, partial.is_some())))
            }
            Poll::Pending => {
                let in_head = *is_new || partial.is_some();
                let late =
                    if in_head { timer.has_waited_enough(listener) } else { timer.has_expired() };
                let unwanted = partial.is_none() && !worker.waits_for_more(listener);
                if unwanted && *is_new {
                    worker.hurry(timer, listener, is_hurried);
                }
                if timer.is_displaced() {
                    return Poll::Ready(Err(Stop::Displaced));
                }
                if late || unwanted && !*is_hurried {
                    let stop = Stop::before_request(Gone::Expired, partial.is_some());
                    return Poll::Ready(Err(stop));
                }
                Poll::Pending
            }
        }
    }

    /// A request, or part of one, that came together with the one before.
    fn pipelined(&mut self) -> Buffer {
        self.origin.worker.buffers.take_with(&std::mem::take(&mut self.client.rest))
    }

    async fn answer(&mut self, view: Rc<View>, request: Box<Request>) -> Answered {
        let Self { origin: Origin { worker, listener, .. }, client, timer, .. } = self;
        let Some(listener_context) = view.listener_context(listener) else {
            return (Next::Close, None);
        };
        let at = (&*worker, &*listener, &view, listener_context);
        let mut exchange = Exchange::new(at, (client, timer), request);
        let next = exchange.run_unless_cut().await;
        exchange.timer.arm(exchange.listener_context.timeouts.keep_alive);
        (next, exchange.request.private.take())
    }

    /// Tells the client why its message is refused. The connection is closed: where the next
    /// message would begin is anybody's guess.
    async fn refuse(&mut self, refused: Refused) -> Answered {
        let mut text = Vec::new();
        if refused.status != 0 {
            let Origin { worker, listener, .. } = &self.origin;
            let view = worker.view_at(listener);
            let context = view.listener_context(listener);
            let own = context.map(|it| it.own_lines(listener));
            let page = context.and_then(|it| it.error_pages.find(refused.status, b""));
            let page = page.map(|page| (&*page.content_type, &*page.body));
            let extra = &[&worker.date.now()[..], own.as_deref().unwrap_or_default()].concat();
            let to_head = refused.to_head;
            let reply = LocalReply { page, extra, to_head, ..LocalReply::closing(refused.status) };
            reply.write(&mut text);
        }
        self.timer.arm(LINGER);
        let told = self.client.send(&text, &self.timer).await.is_ok();
        self.record(refused, if told { text.len() } else { 0 });
        self.client.rest = Vec::new();
        (if told { Next::Linger } else { Next::Close }, None)
    }

    /// Counts and logs a request that is refused, of which the client's bytes are at hand.
    fn record(&self, refused: Refused, bytes: usize) {
        let Peer { socket, rest } = &self.client;
        let is_stream = matches!(socket, Socket::Stream(_) | Socket::Quic(_));
        let asked = RequestLine::read(rest).map(|line| RequestLine {
            version: if is_stream { socket.http_version(Version::Http11) } else { line.version },
            ..line
        });
        self.origin.record(asked, refused, bytes);
    }

    /// Ends the connection, or the stream, so that the client can read the last response: what it
    /// is still sending is read and thrown away for a while.
    async fn linger(mut self) {
        self.client.socket.shut();
        let Origin { worker, listener, .. } = &self.origin;
        let view = worker.view_at(listener);
        let idle = view
            .listener_context(listener)
            .map_or(LINGER, |listener_context| listener_context.timeouts.idle);
        drop(view);
        let mut linger = Linger::new(worker.timers.coarse_now(), idle);
        let mut came = 0;
        while let Some(limit) = linger.wait(worker.timers.coarse_now(), came) {
            self.timer.arm(limit);
            let Ok(buffer) = self.client.fill(&worker.buffers, &self.timer).await else { return };
            came = buffer.filled().len() as u64;
            worker.buffers.give(buffer);
        }
    }
}

impl Stop {
    /// Why no bytes came, of which some are there or none.
    const fn before_request(gone: Gone, has_begun: bool) -> Self {
        match (gone, has_begun) {
            (_, false) => Self::Over,
            (Gone::Expired, true) => Self::Refused(Refused::new(Ending::ClientTimeout, 408)),
            (_, true) => Self::Refused(Refused::new(Ending::ClientGone, 0)),
        }
    }
}

/// Whether a client begins in HTTP/2 without having asked (RFC 9113, 3.3). Over TLS it has to ask.
fn announces_http2(client: &Peer, bytes: &[u8]) -> bool {
    client.socket.is_plain() && bytes.starts_with(b"PRI * HTTP/2.0\r\n")
}

/// Closed without a response: one would only hold the place that another is waiting for.
const DISPLACED: Refused = Refused::new(Ending::ClientSlow, 0);

/// A client takes loadline for a forward proxy.
const CONNECT: Refused =
    Refused { reason: Some(Reason::Connect), ..Refused::new(Ending::ClientBad, 501) };

/// How long a client may take to take in why its message is refused.
const LINGER: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    /// The sizes of the allocator go in steps: behind this one comes 2,048.
    #[test]
    fn a_request_that_waits_takes_1792_bytes_beside_itself() {
        fn size<F: Future>(_: impl Fn(&'static mut Session, Rc<View>, Box<Request>) -> F) -> usize {
            size_of::<F>()
        }
        let bytes = size(Session::answer);
        assert!(bytes <= 1_792, "{bytes}");
    }
}
