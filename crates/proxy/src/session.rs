//! One client connection: reads requests one after another and has each answered.
//!
//! A connection that waits for its next request holds its socket, the lines about its client and
//! nothing else: no buffer, no parser, no plan. States: *idle* (nothing of a request has come;
//! bounded by `head` at first and by `keep_alive` later), *reading a head* (bounded by `head`),
//! *in an exchange*. A client that begins in HTTP/2 is handed over; each of its streams comes back
//! as a session of one request.

use std::{future::poll_fn, io, net::SocketAddr, rc::Rc, sync::Arc, task::Poll};

use loadline_core::{ending::Ending, time::Duration};
use loadline_http1::{Answer, ClientLines, Method, ParseError, RequestHead, Status};
use rustls::ServerConfig;
use tokio::task::spawn_local;

use crate::{
    access_log::{Line, Times},
    buffer::Buffer,
    exchange::{Exchange, Next},
    http2::{self, Stream},
    listener::{Door, Pass},
    peer::{Gone, Peer},
    request::{From, Request},
    socket::Socket,
    timer::Timer,
    tls::Tls,
    view::View,
    worker::Worker,
};

/// One client connection, or one stream of it.
#[derive(Debug)]
pub(crate) struct Session {
    origin: Origin,
    client: Peer,
    timer: Timer,
    /// Nothing has been read of it.
    is_new: bool,
}

/// Where requests come from: what the streams of a connection have in common.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    pub(crate) worker: Rc<Worker>,
    pub(crate) door: Arc<Door>,
    address: SocketAddr,
    lines: ClientLines,
}

/// Why a request is not even tried.
#[derive(Clone, Copy, Debug)]
struct Refused {
    ending: Ending,
    status: u16,
}

/// Why there is no request.
#[derive(Clone, Copy, Debug)]
enum Stop {
    /// The connection is over.
    Over,
    /// The connection is to go on in HTTP/2.
    Http2,
    Refused(Refused),
}

impl Refused {
    const fn bad(error: ParseError) -> Self {
        Self { ending: Ending::ClientBad, status: error.status() }
    }
}

impl std::convert::From<Refused> for Stop {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused)
    }
}

impl Session {
    /// Takes care of a connection that has just been accepted.
    pub(crate) fn spawn(
        worker: &Rc<Worker>,
        stream: std::net::TcpStream,
        address: SocketAddr,
        pass: Pass,
    ) {
        let worker = worker.clone();
        spawn_local(async move {
            let mut client = Peer::new(Socket::raw(stream));
            let timer = Timer::here(&worker.timers).await;
            let view = worker.view();
            let Some(entrance) = view.entrance(pass.door.index, pass.door.bind) else { return };
            timer.arm(entrance.timeouts.head);
            let scheme = if entrance.tls.is_some() { "https" } else { "http" };
            let lines = ClientLines::new(entrance.rules, address.ip(), scheme);
            let tls = entrance.tls.clone();
            drop(view);
            if let Some(config) = tls {
                match Box::pin(secure(client, config, &timer)).await {
                    Ok(secured) => client = secured,
                    Err(error) => return tracing::debug!(%address, %error, "no TLS"),
                }
            }
            let origin = Origin { worker, door: pass.door.clone(), address, lines };
            let mut session = Self { origin, client, timer, is_new: true };
            match session.run().await {
                Next::Linger => Box::pin(session.linger()).await,
                Next::Reset => session.client.socket.reset(),
                Next::KeepAlive | Next::Close => {}
                Next::Http2 => {
                    let Self { origin, client, timer, .. } = session;
                    Box::pin(http2::serve(origin, client, timer)).await;
                }
            }
        });
    }

    /// Answers the one request of a stream, and ends the stream.
    pub(crate) async fn answer_stream(origin: Origin, stream: Box<Stream>) {
        let timer = Timer::here(&origin.worker.timers).await;
        let client = Peer::new(Socket::Stream(stream));
        let mut session = Self { origin, client, timer, is_new: false };
        match session.next().await {
            Next::Reset => session.client.socket.reset(),
            _ => session.client.socket.shut(),
        }
    }

    /// Answers requests until the connection is to be closed: how.
    async fn run(&mut self) -> Next {
        if self.client.socket.protocol() == Some(b"h2") {
            return Next::Http2;
        }
        loop {
            let next = self.next().await;
            if next != Next::KeepAlive {
                return next;
            }
        }
    }

    /// Answers one request.
    async fn next(&mut self) -> Next {
        match self.next_request().await {
            Ok((view, request)) => Box::pin(self.answer(view, request)).await,
            Err(Stop::Over) => Next::Close,
            Err(Stop::Http2) => Next::Http2,
            Err(Stop::Refused(refused)) => Box::pin(self.refuse(refused)).await,
        }
    }

    /// Reads until a request is complete.
    async fn next_request(&mut self) -> Result<(Rc<View>, Request), Stop> {
        let mut partial: Option<Box<RequestHead>> = None;
        loop {
            let Self { origin, client, timer, .. } = self;
            let worker = &origin.worker;
            let read = match &partial {
                None if !client.rest.is_empty() => Ok(self.pipelined()),
                None => self.first_bytes().await,
                Some(_) => client.fill(&worker.buffers, timer).await,
            };
            let mut buffer = read.map_err(|gone| Stop::before_request(gone, partial.is_some()))?;
            let Self { origin, client, timer, .. } = self;
            let Origin { worker, door, address, lines } = origin;
            let view = worker.view();
            let entrance = view.entrance(door.index, door.bind).ok_or(Stop::Over)?;
            let is_first = partial.is_none();
            let mut head = partial.take().unwrap_or_else(|| entrance.take_request_head());
            let parsed = head.parse(buffer.filled());
            if parsed.is_err() && self.is_new && announces_http2(client, buffer.filled()) {
                client.keep(buffer, &worker.buffers);
                return Err(Stop::Http2);
            }
            if let Status::Partial = parsed.map_err(Refused::bad)? {
                if is_first {
                    timer.arm(entrance.timeouts.head);
                }
                client.keep(buffer, &worker.buffers);
                partial = Some(head);
                continue;
            }
            if head.method() == Method::Connect {
                return Err(Stop::Refused(Refused { ending: Ending::ClientBad, status: 501 }));
            }
            self.is_new = false;
            let from = From { address: *address, lines };
            let request = Request::take(worker, (&view, entrance), &head, &mut buffer, from);
            entrance.give_request_head(head);
            client.keep(buffer, &worker.buffers);
            return Ok((view, request.map_err(Refused::bad)?));
        }
    }

    /// A request, or part of one, that came together with the one before.
    fn pipelined(&mut self) -> Buffer {
        let mut buffer = self.origin.worker.buffers.take();
        buffer.append(&std::mem::take(&mut self.client.rest));
        buffer
    }

    /// Waits for a request to begin, unless the connection is not wanted any more.
    async fn first_bytes(&mut self) -> Result<Buffer, Gone> {
        let Self { origin: Origin { worker, door, .. }, client, timer, .. } = self;
        poll_fn(|cx| match client.poll_fill(cx, &worker.buffers) {
            Poll::Pending => {
                let unwanted = worker.max_connections(door).is_none();
                let over = unwanted || timer.has_expired();
                if over { Poll::Ready(Err(Gone::Expired)) } else { Poll::Pending }
            }
            filled => filled,
        })
        .await
    }

    async fn answer(&mut self, view: Rc<View>, request: Request) -> Next {
        let Self { origin: Origin { worker, door, address, .. }, client, timer, .. } = self;
        let Some(entrance) = view.entrance(door.index, door.bind) else { return Next::Close };
        let at = (&**worker, &view, entrance);
        let mut exchange = Exchange::new(at, (client, *address, timer), request);
        let next = exchange.run().await;
        timer.arm(entrance.timeouts.keep_alive);
        next
    }

    /// Tells the client why its message is refused. The connection is closed: where the next
    /// message would begin is anybody's guess.
    async fn refuse(&mut self, refused: Refused) -> Next {
        let mut text = Vec::new();
        if refused.status != 0 {
            Answer::closing(refused.status).write(&mut text);
        }
        self.timer.arm(LINGER);
        let told = self.client.send(&text, &self.timer).await.is_ok();
        self.record(refused, if told { text.len() } else { 0 });
        if told { Next::Linger } else { Next::Close }
    }

    fn record(&self, refused: Refused, bytes: usize) {
        let Origin { worker, door, address, .. } = &self.origin;
        let view = worker.view();
        let Some(entrance) = view.entrance(door.index, door.bind) else { return };
        view.desks[entrance.service].cells.end(refused.ending, refused.status);
        let Some(log) = &worker.shared.log else { return };
        let now = worker.shared.clock.now();
        let line = Line {
            client: *address,
            method: "-",
            target: "-",
            version: "-",
            status: refused.status,
            bytes: bytes as u64,
            service: &view.plan.fleet.services[entrance.service].name,
            server: None,
            ending: refused.ending,
            retries: 0,
            times: Times { received: now, ended: now, ..Times::default() },
        };
        worker.log.add(log, &line);
    }

    /// Closes the connection so that the client can read the last answer: what it is still
    /// sending is read and thrown away for a while.
    async fn linger(&mut self) {
        self.client.socket.shut();
        self.timer.arm(LINGER);
        let buffers = &self.origin.worker.buffers;
        while let Ok(buffer) = self.client.fill(buffers, &self.timer).await {
            buffers.give(buffer);
        }
    }
}

impl Stop {
    /// Why no bytes came, of which some are there or none.
    const fn before_request(gone: Gone, has_begun: bool) -> Self {
        match (gone, has_begun) {
            (_, false) => Self::Over,
            (Gone::Expired, true) => {
                Self::Refused(Refused { ending: Ending::ClientTimeout, status: 408 })
            }
            (_, true) => Self::Refused(Refused { ending: Ending::ClientGone, status: 0 }),
        }
    }
}

/// Whether a client begins in HTTP/2 without having asked (RFC 9113, 3.3). Over TLS it has to ask.
fn announces_http2(client: &Peer, bytes: &[u8]) -> bool {
    client.socket.is_plain() && bytes.starts_with(b"PRI * HTTP/2.0\r\n")
}

/// Puts TLS on a connection and waits for the client to agree to it.
async fn secure(client: Peer, config: Arc<ServerConfig>, timer: &Timer) -> io::Result<Peer> {
    let tls = Tls::server(config).map_err(io::Error::other)?;
    let mut peer = Peer::new(client.socket.over(tls));
    poll_fn(|cx| match peer.socket.poll_handshake(cx) {
        Poll::Pending if timer.has_expired() => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
        agreed => agreed,
    })
    .await?;
    Ok(peer)
}

/// How long a client may take to notice that the connection is over.
const LINGER: Duration = Duration::from_secs(1);
