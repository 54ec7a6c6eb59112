//! One client connection: its streams come in here, and go on as sessions of their own.
//!
//! States as in HTTP/2: *serving*; *leaving* (GOAWAY is sent, streams that crossed it are
//! answered); *left* (further streams are refused). It is closed when nothing is under way and the
//! client has acknowledged what was sent. What a client can do too much of:
//!
//! | attack | what bounds it |
//! |---|---|
//! | many streams, of either kind | `http2.streams`, and six: QUIC gives no credit for more |
//! | streams opened and reset | `http2.resets`, as in HTTP/2; then EXCESSIVE_LOAD |
//! | heads that unpack to much | the listener's `head_limit`, and h3's limit above it |
//! | heads and other frames that are long | twice that, for a frame that is not DATA |
//! | forged addresses | RFC 9000, 8.1: three times what came; retry tokens under load |

use std::{
    future::{Future, poll_fn},
    net::SocketAddr,
    pin::pin,
    rc::Rc,
    task::{Context, Poll},
};

use bytes::Bytes;
use h3::{error::Code, server};
use http::{HeaderMap, header::TE};
use loadline_core::{decide::ending::Ending, time::Duration};
use loadline_http1::ClientLines;
use quinn::{Connecting, VarInt, crypto::rustls::HandshakeData};
use rustls::pki_types::CertificateDer;
use tokio::task::spawn_local;

use super::{
    quic::{Connection, LastStopped, Stopped},
    stream::Stream,
};
use crate::{
    http::session::{Origin, Session},
    http2::{Streams, list_size},
    io::socket::Socket,
    listener::handle::ConnectionGuard,
    runtime::{timer::Timer, worker::Worker},
    telemetry::meter::Meter,
    tls::ClientTls,
};

/// Answers the streams of a connection until it is over.
pub(super) async fn serve(worker: Rc<Worker>, connecting: Connecting, pass: ConnectionGuard) {
    let listener = &pass.listener;
    let timer = Timer::here(&worker.timers).await;
    let view = worker.view_at(listener);
    let Some(context) = view.listener_context(listener) else { return };
    let meter = Meter::new(&context.cells);
    let (keep_alive, head) = (context.timeouts.keep_alive, context.timeouts.head);
    let (limits, rules) = (context.limits, context.rules);
    let streams = Streams::new(&worker.timers, context.http2.resets);
    let cells = view.services[context.service].cells.clone();
    drop(view);
    timer.arm(head);
    let agreed = within(&timer, connecting).await.and_then(Result::ok);
    meter.handshake(agreed.is_some());
    let Some(quinn) = agreed else { return };
    let address = canonical(quinn.remote_address());
    let mut lines = ClientLines::new(rules, address.ip(), "https");
    lines.set_http3();
    let tls = Rc::new(client_tls(&quinn));
    let origin = Origin::new((&worker, listener), address, lines, Some(tls));
    let last = LastStopped::default();
    let fields = u64::from(list_size(limits)).min(FIELDS_BYTES);
    let mut builder = server::builder();
    builder.max_field_section_size(fields).send_grease(false);
    // One that is somewhat too long is answered with 431.
    let connection = Connection::new(quinn.clone(), last.clone(), 2 * fields);
    let greeted = within(&timer, builder.build(connection));
    let Some(Ok(h3)) = greeted.await else { return };
    timer.arm(keep_alive);
    let (stage, pending) = (Stage::Serving, Rc::new(()));
    let mut served = Served { h3, origin, timer, keep_alive, head, streams, pending, last, stage };
    if served.run().await == End::Abused {
        cells.end(Ending::ClientBad, 0);
        let code = u32::try_from(Code::H3_EXCESSIVE_LOAD.value()).unwrap_or_default();
        quinn.close(VarInt::from_u32(code), b"");
    }
    let stats = quinn.stats();
    meter.received(usize::try_from(stats.udp_rx.bytes).unwrap_or_default());
    meter.sent(usize::try_from(stats.udp_tx.bytes).unwrap_or_default());
}

/// A connection that is agreed on.
struct Served {
    h3: server::Connection<Connection, Bytes>,
    origin: Origin,
    timer: Timer,
    keep_alive: Duration,
    /// How long a head may take.
    head: Duration,
    streams: Rc<Streams>,
    /// Held by each stream until its client has all of the response.
    pending: Rc<()>,
    last: LastStopped,
    stage: Stage,
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
    Abused,
}

/// What a connection has to do next.
enum Event {
    Stream(Box<server::RequestResolver<Connection, Bytes>>),
    Leave,
    Expired,
    End(End),
}

impl Served {
    async fn run(&mut self) -> End {
        loop {
            match self.next().await {
                Event::Stream(resolver) => self.open(*resolver),
                Event::Leave => self.leave().await,
                Event::Expired if self.expire().await => return End::Over,
                Event::Expired => {}
                Event::End(end) => return end,
            }
        }
    }

    async fn next(&mut self) -> Event {
        let Self { h3, origin, timer, streams, stage, .. } = self;
        let mut accept = pin!(h3.accept());
        poll_fn(|cx| {
            let Origin { worker, listener, .. } = &*origin;
            if listener.is_cut() {
                return Poll::Ready(Event::End(End::Over));
            }
            if streams.is_abused() {
                return Poll::Ready(Event::End(End::Abused));
            }
            if *stage == Stage::Serving && worker.is_leaving(listener) {
                return Poll::Ready(Event::Leave);
            }
            match accept.as_mut().poll(cx) {
                Poll::Ready(Ok(Some(stream))) => Poll::Ready(Event::Stream(Box::new(stream))),
                Poll::Ready(_) => Poll::Ready(Event::End(End::Over)),
                Poll::Pending if timer.has_expired() => Poll::Ready(Event::Expired),
                Poll::Pending => Poll::Pending,
            }
        })
        .await
    }

    /// Has a stream answered.
    fn open(&self, resolver: server::RequestResolver<Connection, Bytes>) {
        let Some([stopped, taken]) = self.last.take() else { return };
        let (origin, streams, head) = (self.origin.clone(), self.streams.clone(), self.head);
        let pending = self.pending.clone();
        spawn_local(async move {
            answer(origin, resolver, stopped, (streams, head)).await;
            taken.await;
            drop(pending);
        });
    }

    /// Leaves if nothing has been under way for long enough; true when it can be closed.
    async fn expire(&mut self) -> bool {
        let now = self.origin.worker.timers.coarse_now();
        let is_pending = Rc::strong_count(&self.pending) > 1;
        let until = self.streams.idle_since().filter(|_| !is_pending);
        match until.map(|since| since + self.keep_alive) {
            None if self.stage == Stage::Serving => self.timer.arm(self.keep_alive),
            None => {
                if self.stage == Stage::Leaving {
                    self.stage = Stage::Left;
                    // Fails where the connection is over, which is seen next.
                    let _ = self.h3.shutdown(0).await;
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
        // Fails where the connection is over, which is seen next.
        let _ = self.h3.shutdown(CROSSING).await;
        self.timer.arm(LEAVE);
    }
}

/// Has the request of a stream answered, once its head has come.
async fn answer(
    origin: Origin,
    resolver: server::RequestResolver<Connection, Bytes>,
    stopped: Stopped,
    (streams, head): (Rc<Streams>, Duration),
) {
    let place = streams.enter();
    let timer = Timer::here(&origin.worker.timers).await;
    timer.arm(head);
    let opened = within(&timer, async {
        let (request, mut stream) = resolver.resolve_request().await.ok()?;
        if has_connection_fields(request.headers()) {
            stream.stop_sending(Code::H3_MESSAGE_ERROR);
            stream.stop_stream(Code::H3_MESSAGE_ERROR);
            return None;
        }
        Stream::open(request, stream, stopped, place).await.ok()
    });
    let Some(Some(stream)) = opened.await else { return };
    drop(timer);
    Session::answer_stream(origin, Socket::Quic(stream)).await;
}

/// Whether there are fields that a connection of HTTP/1 has, which make a request malformed
/// (RFC 9114, section 4.2).
fn has_connection_fields(headers: &HeaderMap) -> bool {
    let has = |name: &&str| headers.contains_key(*name);
    let te = headers.get_all(TE).iter().any(|te| te != "trailers");
    te || CONNECTION_FIELDS.iter().any(has)
}

/// What comes of `work` before the timer expires.
async fn within<T>(timer: &Timer, work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(work);
    poll_fn(|cx: &mut Context<'_>| match work.as_mut().poll(cx) {
        Poll::Pending if timer.has_expired() => Poll::Ready(None),
        done => done.map(Some),
    })
    .await
}

fn canonical(address: SocketAddr) -> SocketAddr {
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
const CROSSING: usize = 100;

const CONNECTION_FIELDS: [&str; 5] =
    ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];

/// How long it may take to hear it.
const LEAVE: Duration = Duration::from_secs(1);

/// At 32 bytes for a field at the least, fewer fields than a table of them takes (2^15).
const FIELDS_BYTES: u64 = 1_000_000;
