//! One client connection: its streams come in here, and go on as sessions of their own.
//!
//! States as in HTTP/2: *serving*; *leaving* (GOAWAY is sent, also to a client that has sent one
//! and been answered; streams that crossed it are answered); *left* (further streams are refused).
//! It is closed when nothing is under way and the client has acknowledged what was sent.
//!
//! A connection whose client asks from another address than it began with is left, too: quinn goes
//! on to an address before it is proved, and does not tell when it is. All requests of a connection
//! have the address of its handshake; a client that has moved makes another connection.
//!
//! What a client can do too much of:
//!
//! | attack | what bounds it |
//! |---|---|
//! | many streams, of either kind | `http2.streams`, and six: QUIC gives no credit for more |
//! | streams that have to be reset | after 1,000 the connection is left |
//! | streams opened and reset | `http2.resets`, as in HTTP/2; then EXCESSIVE_LOAD |
//! | heads that unpack to much | the listener's `limits`, and h3's limit above it |
//! | heads of many lines | the listener's `limits`, and 6,000 before h3 has them |
//! | heads and other frames that are long | twice that, for a frame that is not DATA |
//! | many connections | `max_connections_per_client`, once the handshake has proved the address |
//! | forged addresses | three times what came, and a packet (RFC 9000, 8.1); Retry under load |
//! | handshakes that fail | ten lines a second in the access log, unless the address is proved |

use std::{
    cell::Cell,
    future::{self, Future, poll_fn},
    net::{IpAddr, SocketAddr},
    pin::{Pin, pin},
    rc::Rc,
    task::{Context, Poll},
};

use bytes::Bytes;
use h3::{
    error::{Code, ConnectionError, LocalError},
    frame::FrameStream,
    quic::StreamId,
    server::{self, RequestStream},
    stream::BufRecvStream,
};
use http::{HeaderMap, HeaderValue, Method, Request, header::TE};
use loadline_core::{decide::ending::Ending, time::Duration};
use loadline_http1::ClientLines;
use quinn::{Connecting, VarInt, crypto::rustls::HandshakeData};
use rustls::pki_types::CertificateDer;
use tokio::{sync::watch, task::spawn_local};

use super::{
    arrivals::{Arrival, Arrivals, StreamControl},
    handshake::{Handshake, Unproven},
    no_request::NoRequest,
    quic::{BidiStream, Connection},
    send::Sender,
    stream::{Opened, Stream},
};
use crate::{
    http::session::{Origin, Session},
    http2::{Streams, list_size},
    io::socket::Socket,
    listener::{clients::refuse, handle::ConnectionGuard},
    runtime::{timer::Timer, worker::Worker},
    telemetry::meter::Meter,
    tls::ClientTls,
};

/// Answers the streams of a connection until it is over. `unproven` is dropped once the client has
/// proven its address.
pub(super) async fn serve(
    worker: Rc<Worker>,
    (connecting, unproven): (Connecting, Option<Rc<Unproven>>),
    mut pass: ConnectionGuard,
) {
    let listener = pass.listener.clone();
    let view = worker.view_at(&listener);
    let Some(context) = view.listener_context(&listener) else { return };
    let meter = Rc::new(Meter::new(&context.cells));
    drop(view);
    // It takes several times the memory that a connection needs while it waits.
    let begun = Box::pin(begin(&worker, (connecting, unproven), &mut pass, &meter)).await;
    let Some(mut served) = begun else { return };
    let end = served.run(&mut pass).await;
    let Streaming { origin, quinn, .. } = &*served.streaming;
    if let Some(code) = served.arrivals.breached_by().or(end.code()) {
        let reason = format!("HTTP/3 violated by the client: {code}");
        origin.end_unread_because((Ending::ClientBad, 0), &reason);
    }
    if end == End::Abused {
        close(quinn, Code::H3_EXCESSIVE_LOAD);
    }
    let stats = quinn.stats();
    meter.received(usize::try_from(stats.udp_rx.bytes).unwrap_or_default());
    meter.sent(usize::try_from(stats.udp_tx.bytes).unwrap_or_default());
}

/// Shakes hands and greets; none where that fails or the client has too many connections.
async fn begin(
    worker: &Rc<Worker>,
    (connecting, unproven): (Connecting, Option<Rc<Unproven>>),
    pass: &mut ConnectionGuard,
    meter: &Rc<Meter>,
) -> Option<Box<Served>> {
    let listener = &pass.listener.clone();
    let timer = Timer::here(&worker.timers).await;
    let view = worker.view_at(listener);
    let context = view.listener_context(listener)?;
    let (keep_alive, head) = (context.timeouts.keep_alive, context.timeouts.head);
    let (limits, rules, takes_early) = (context.limits, context.rules, context.early_data);
    let (resets, most) = (context.http2.resets, context.http2.streams);
    let port = context.bind.port();
    drop(view);
    timer.arm(head);
    let client = canonical(connecting.remote_address());
    let handshake = Handshake::new((worker, listener), meter, client, unproven);
    let (quinn, confirmed) = handshake.agree(connecting, takes_early, (&timer, head)).await?;
    if confirmed.is_none() && !enter_client(worker, pass, &quinn) {
        return None;
    }
    let address = canonical(quinn.remote_address());
    let destination = quinn.local_ip().map(|ip| SocketAddr::new(ip, port));
    let streams = Streams::new(&worker.timers, resets, destination);
    let mut lines = ClientLines::new(rules, address.ip(), "https");
    lines.set_http3();
    let tls = Rc::new(client_tls(&quinn));
    let origin = Origin::new((worker, listener), address, lines, Some(tls));
    let longest = u64::from(list_size(limits));
    let arrivals = Arrivals::new(usize::try_from(longest).unwrap_or(usize::MAX), most);
    let mut builder = server::builder();
    builder.max_field_section_size(longest).enable_extended_connect(true).send_grease(false);
    let greeted = within(&timer, builder.build(Connection::new(quinn.clone(), arrivals.clone())));
    let Some(Ok(h3)) = greeted.await else { return None };
    timer.arm(keep_alive);
    let (stage, pending) = (Stage::Serving, Rc::new(()));
    let confirmation = confirmed.clone().map(confirmation);
    let broken = Cell::new(0);
    let streaming = Rc::new(Streaming { quinn, origin, streams, head, confirmed, broken });
    Some(Box::new(Served {
        h3,
        streaming,
        address: address.ip(),
        timer,
        keep_alive,
        confirmation,
        pending,
        arrivals,
        told: None,
        stage,
    }))
}

/// Whether a handshake has proved the address of its client, once it is over.
type Confirmation = Pin<Box<dyn Future<Output = bool>>>;

fn confirmation(mut confirmed: watch::Receiver<bool>) -> Confirmation {
    Box::pin(async move { confirmed.wait_for(|it| *it).await.is_ok() })
}

/// Counts a connection as one of its client's, or closes it where the client has as many as it may.
/// Not before the handshake is over: until then the address may be forged, and its places somebody
/// else's.
fn enter_client(worker: &Worker, pass: &mut ConnectionGuard, quinn: &quinn::Connection) -> bool {
    let listener = &pass.listener.clone();
    let address = canonical(quinn.remote_address());
    let view = worker.view_at(listener);
    let has_entered = view.listener(listener).is_none_or(|it| pass.enter_client(it, address.ip()));
    if !has_entered {
        close(quinn, Code::H3_EXCESSIVE_LOAD);
        refuse(worker, listener, address, None);
    }
    has_entered
}

/// A connection that is agreed on.
struct Served {
    h3: server::Connection<Connection, Bytes>,
    streaming: Rc<Streaming>,
    /// Of the client, when the connection began.
    address: IpAddr,
    timer: Timer,
    keep_alive: Duration,
    /// Until it has come, where it has to be waited for.
    confirmation: Option<Confirmation>,
    /// Held by each stream until its client has all of the response.
    pending: Rc<()>,
    arrivals: Rc<Arrivals>,
    /// What the last GOAWAY said.
    told: Option<StreamId>,
    stage: Stage,
}

/// What the streams of a connection have in common.
struct Streaming {
    quinn: quinn::Connection,
    origin: Origin,
    streams: Rc<Streams>,
    /// How long a head may take.
    head: Duration,
    /// Whether the handshake is over, where that is not certain.
    confirmed: Option<watch::Receiver<bool>>,
    /// Streams that were reset, or had no request.
    broken: Cell<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Serving,
    Leaving,
    Left,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Over,
    /// The client has done too much of something.
    Abused,
    /// The client broke a rule, and h3 has closed the connection with this code.
    Bad(Code),
}

impl End {
    /// How a connection ends that h3 gives up: it may have closed it for what its client did.
    const fn of(error: &ConnectionError) -> Self {
        match error {
            ConnectionError::Local { error: LocalError::Application { code, .. }, .. }
                if code.value() != Code::H3_NO_ERROR.value() =>
            {
                Self::Bad(*code)
            }
            _ => Self::Over,
        }
    }

    /// To which code what the client did belongs, if it did something.
    const fn code(self) -> Option<Code> {
        match self {
            Self::Over => None,
            Self::Abused => Some(Code::H3_EXCESSIVE_LOAD),
            Self::Bad(code) => Some(code),
        }
    }
}

/// What a connection has to do next.
enum Event {
    Leave,
    Expired,
    /// Nothing may go on.
    Cut,
    End(End),
}

impl Served {
    async fn run(&mut self, pass: &mut ConnectionGuard) -> End {
        loop {
            match poll_fn(|cx| self.poll(cx, pass)).await {
                Event::Leave => self.leave().await,
                Event::Expired if self.expire().await => return End::Over,
                Event::Expired => {}
                Event::Cut => {
                    self.let_cut_leave().await;
                    return End::Over;
                }
                Event::End(end) => return end,
            }
        }
    }

    /// Has streams answered until there is something else to do.
    fn poll(&mut self, cx: &mut Context<'_>, pass: &mut ConnectionGuard) -> Poll<Event> {
        if !self.enter(cx, pass) {
            return Poll::Ready(Event::End(End::Over));
        }
        loop {
            let Streaming { origin, streams, broken, .. } = &*self.streaming;
            if origin.listener.is_cut() || origin.worker.is_stopped() {
                return Poll::Ready(Event::Cut);
            }
            if streams.is_abused() {
                return Poll::Ready(Event::End(End::Abused));
            }
            let leaves = origin.worker.is_leaving(&origin.listener) || broken.get() >= BROKEN_MAX;
            if self.stage == Stage::Serving && leaves {
                return Poll::Ready(Event::Leave);
            }
            match self.h3.poll_accept_request_stream(cx) {
                Poll::Ready(Ok(Some(stream))) => {
                    self.open(stream);
                    if self.stage == Stage::Serving && self.has_moved() {
                        return Poll::Ready(Event::Leave);
                    }
                }
                // The client has said GOAWAY, and QUIC has all of its responses. A stream that
                // never had a head keeps h3 from saying so, until `keep_alive`.
                Poll::Ready(Ok(None)) if self.stage == Stage::Serving => {
                    return Poll::Ready(Event::Leave);
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Event::End(End::of(&error))),
                Poll::Ready(Ok(None)) | Poll::Pending if self.timer.has_expired() => {
                    return Poll::Ready(Event::Expired);
                }
                Poll::Ready(Ok(None)) | Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Takes no more streams, and waits until those that are cut have said so and the client has
    /// it: quinn sends nothing more of a connection that is closed.
    async fn let_cut_leave(&self) {
        let worker = &self.streaming.origin.worker;
        worker.cutting.set(worker.cutting.get() + 1);
        let until = worker.timers.coarse_now() + CUT_MAX;
        let mut is_last = false;
        while !is_last {
            // quinn does not tell when a reset has left: it has until the next look.
            is_last = Rc::strong_count(&self.pending) == 1 || worker.timers.coarse_now() >= until;
            self.timer.arm(LOOK);
            within(&self.timer, future::pending::<()>()).await;
        }
        worker.cutting.set(worker.cutting.get() - 1);
    }

    /// Takes the place among its client's as soon as the handshake is over; false where there is
    /// none.
    fn enter(&mut self, cx: &mut Context<'_>, pass: &mut ConnectionGuard) -> bool {
        let Some(confirmation) = &mut self.confirmation else { return true };
        let Poll::Ready(is_confirmed) = confirmation.as_mut().poll(cx) else { return true };
        self.confirmation = None;
        let Streaming { quinn, origin, .. } = &*self.streaming;
        // One that fails is being closed.
        !is_confirmed || enter_client(&origin.worker, pass, quinn)
    }

    /// Has a stream answered.
    fn open(&self, stream: BidiStream) {
        let Some(arrival) = self.arrivals.take() else { return };
        let resolver = self.h3.create_resolver(FrameStream::new(BufRecvStream::new(stream)));
        let (streaming, pending) = (self.streaming.clone(), self.pending.clone());
        // A task is moved as it begins and ends, so a large one is boxed.
        spawn_local(Box::pin(async move {
            let control = arrival.control.clone();
            let had_request = streaming.answer(resolver, arrival).await;
            streaming.close_for(&control);
            if let Some(cut) = control.take_cut() {
                Box::pin(streaming.let_out(&control, cut)).await;
            }
            // Its client may not have all of the response yet.
            poll_fn(|cx| control.poll_stopped(cx)).await;
            streaming.note_end(&control, had_request);
            drop(pending);
        }));
    }

    /// Whether the client has, or pretends to have, another address than in the beginning.
    fn has_moved(&self) -> bool {
        canonical(self.streaming.quinn.remote_address()).ip() != self.address
    }

    /// Leaves if nothing has been under way for long enough; true when it can be closed.
    async fn expire(&mut self) -> bool {
        let now = self.streaming.origin.worker.timers.coarse_now();
        let is_pending = Rc::strong_count(&self.pending) > 1;
        let until = self.streaming.streams.idle_since().filter(|_| !is_pending);
        match until.map(|since| since + self.keep_alive) {
            None if self.stage == Stage::Serving => self.timer.arm(self.keep_alive),
            None => {
                if self.stage == Stage::Leaving {
                    self.stage = Stage::Left;
                    self.go_away(0).await;
                }
                self.timer.arm(LEAVE);
            }
            Some(_) if self.stage != Stage::Serving => return true,
            Some(until) if now < until => self.timer.arm(until.since(now)),
            Some(_) => self.leave().await,
        }
        false
    }

    /// Sends GOAWAY and lets the streams end.
    async fn leave(&mut self) {
        self.stage = Stage::Leaving;
        self.go_away(CROSSING).await;
        self.timer.arm(LEAVE);
    }

    /// Says how many more streams are answered, at most.
    async fn go_away(&mut self, more: u64) {
        let end = self.arrivals.end_after(more);
        // Fails where the connection is over, which is seen next.
        let _ = self.h3.inner.shutdown(&mut self.told, end).await;
    }
}

impl Streaming {
    /// Has the request of a stream answered, once its head has come; false where it has none.
    async fn answer(
        &self,
        resolver: server::RequestResolver<Connection, Bytes>,
        Arrival { control, is_early }: Arrival,
    ) -> bool {
        let place = self.streams.enter();
        let timer = Timer::here(&self.origin.worker.timers).await;
        timer.arm(self.head);
        let parts = {
            let mut reading = pin!(self.request(resolver, &control, is_early));
            let read = within(&timer, reading.as_mut()).await;
            if read.is_none() {
                control.abort_with(Code::H3_REQUEST_INCOMPLETE);
            }
            control.reset_unless_ended();
            read
        };
        let (request, stream) = match parts {
            Some(Ok(parts)) => parts,
            Some(Err(none)) => {
                let refused = || control.refusal().map(NoRequest::bad);
                none.or_else(refused).into_iter().for_each(|it| it.note(&self.origin));
                return false;
            }
            None => {
                self.origin.end_unread(Ending::ClientTimeout, 0);
                return false;
            }
        };
        timer.arm(END_WAIT);
        let random = &self.origin.worker.random;
        let draws = [random.draw(), random.draw()];
        let opening = Opened { place, control: control.clone(), draws };
        let stream = Stream::open(request, stream, opening, &timer).await;
        drop(timer);
        Session::answer_stream(self.origin.clone(), Socket::Quic(stream)).await;
        true
    }

    /// Closes the connection if the stream has broken a rule of it.
    fn close_for(&self, control: &StreamControl) {
        let codes =
            [Code::H3_FRAME_ERROR, Code::H3_FRAME_UNEXPECTED, Code::QPACK_DECOMPRESSION_FAILED];
        let broken = codes.into_iter().find(|code| control.refusal() == Some(code.value()));
        broken.into_iter().for_each(|code| close(&self.quinn, code));
    }

    /// Gives what has been written of a response that is broken off time to leave, then resets it.
    async fn let_out(&self, control: &StreamControl, cut: Box<Sender>) {
        let timer = Timer::here(&self.origin.worker.timers).await;
        timer.arm(CUT_WAIT);
        within(&timer, poll_fn(|cx| control.poll_stopped(cx))).await;
        drop(cut);
    }

    /// Counts a stream that was reset, or had no request.
    fn note_end(&self, control: &StreamControl, had_request: bool) {
        let is_broken = control.is_reset() || !had_request;
        self.broken.set(self.broken.get() + u32::from(is_broken));
    }

    /// The head of a request. One that came before the handshake was over may have been recorded
    /// and sent again: where that could do harm it waits for the handshake, and otherwise its
    /// server is told (RFC 8470).
    async fn request(
        &self,
        resolver: server::RequestResolver<Connection, Bytes>,
        control: &StreamControl,
        is_early: bool,
    ) -> Result<(Request<()>, RequestStream<BidiStream, Bytes>), Option<NoRequest>> {
        let resolved = resolver.resolve_request().await;
        let (mut request, mut stream) =
            resolved.map_err(|error| NoRequest::of(&error, &self.quinn))?;
        control.reset_unless_ended();
        if has_connection_fields(request.headers()) {
            stream.stop_sending(Code::H3_MESSAGE_ERROR);
            stream.stop_stream(Code::H3_MESSAGE_ERROR);
            return Err(Some(NoRequest::bad(Code::H3_MESSAGE_ERROR.value())));
        }
        if control.has_protocol() && request.method() != Method::CONNECT {
            stream.stop_sending(Code::H3_MESSAGE_ERROR);
            stream.stop_stream(Code::H3_MESSAGE_ERROR);
            return Err(Some(NoRequest::bad(Code::H3_MESSAGE_ERROR.value())));
        }
        let confirmed = self.confirmed.clone().filter(|_| is_early);
        if let Some(mut confirmed) = confirmed
            && !*confirmed.borrow_and_update()
        {
            if request.method().is_safe() {
                request.headers_mut().insert(EARLY_DATA, HeaderValue::from_static("1"));
            } else if confirmed.wait_for(|it| *it).await.is_err() {
                return Err(Some(NoRequest::GONE));
            }
        }
        Ok((request, stream))
    }
}

/// Whether there are fields that a connection of HTTP/1 has, which make a request malformed
/// (RFC 9114, section 4.2).
fn has_connection_fields(headers: &HeaderMap) -> bool {
    let has = |name: &&str| headers.contains_key(*name);
    let is_trailers = |te: &HeaderValue| te.as_bytes().eq_ignore_ascii_case(b"trailers");
    let te = headers.get_all(TE).iter().any(|te| !is_trailers(te));
    te || CONNECTION_FIELDS.iter().any(has)
}

/// What comes of `work` before the timer expires.
pub(super) async fn within<T>(timer: &Timer, work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(work);
    poll_fn(|cx: &mut Context<'_>| match work.as_mut().poll(cx) {
        Poll::Pending if timer.has_expired() => Poll::Ready(None),
        done => done.map(Some),
    })
    .await
}

fn close(quinn: &quinn::Connection, code: Code) {
    let code = u32::try_from(code.value()).unwrap_or_default();
    quinn.close(VarInt::from_u32(code), b"");
}

pub(super) fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

fn client_tls(quinn: &quinn::Connection) -> ClientTls {
    let told = quinn.handshake_data().and_then(|data| data.downcast::<HandshakeData>().ok());
    let chain = quinn.peer_identity();
    let chain = chain.and_then(|it| it.downcast::<Vec<CertificateDer<'static>>>().ok());
    let certificate = chain.as_ref().and_then(|chain| chain.first());
    ClientTls::of_quic(told.and_then(|data| data.server_name), certificate)
}

/// Streams that a client may have opened before it hears that the connection ends.
const CROSSING: u64 = 100;

const CONNECTION_FIELDS: [&str; 5] =
    ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];

/// Streams that are reset, or end without a request, before a connection is left: quinn and h3 keep
/// something of each as long as the connection.
const BROKEN_MAX: u32 = 1_000;

/// How long what has been written of a response that is broken off has to leave: a round trip and a
/// lost packet, on most paths.
const CUT_WAIT: Duration = Duration::from_millis(250);

/// How long the streams of a connection that is cut have: as long, and time to be reset after it.
const CUT_MAX: Duration = Duration::from_millis(500);

/// How often it is looked whether they are over, at most: a timer is met some 25 ms late.
pub(super) const LOOK: Duration = Duration::from_millis(1);

/// How long it may take to hear it.
const LEAVE: Duration = Duration::from_secs(1);

/// Says that a request may be one that somebody else has recorded (RFC 8470, 5.1).
const EARLY_DATA: &str = "early-data";

/// How long a GET waits for its end, which most clients send with it, to be known to have no body.
const END_WAIT: Duration = Duration::from_secs(1);
