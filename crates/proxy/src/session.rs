//! One client connection: reads requests one after another and has each answered.
//!
//! A connection that waits for its next request holds its socket, the lines about its client and
//! nothing else: no buffer, no parser, no plan. States: *idle* (nothing of a request has come;
//! bounded by `head` at first and by `keep_alive` later), *reading a head* (bounded by `head`),
//! *in an exchange*.

use std::{future::poll_fn, io, net::SocketAddr, rc::Rc, sync::Arc, task::Poll};

use loadline_core::{ending::Ending, time::Duration};
use loadline_http1::{Answer, ClientLines, Method, ParseError, RequestHead, Status};
use rustls::ServerConfig;
use tokio::task::spawn_local;

use crate::{
    access_log::{Line, Times},
    buffer::Buffer,
    exchange::{Exchange, Next},
    listener::Pass,
    peer::{Gone, Peer},
    request::{From, Request},
    socket::Socket,
    timer::Timer,
    tls::Tls,
    view::View,
    worker::Worker,
};

/// One client connection.
#[derive(Debug)]
pub(crate) struct Session {
    worker: Rc<Worker>,
    client: Peer,
    address: SocketAddr,
    lines: ClientLines,
    timer: Timer,
    pass: Pass,
}

/// Why a request is not even tried.
#[derive(Clone, Copy, Debug)]
struct Refused {
    ending: Ending,
    status: u16,
}

impl Refused {
    const fn bad(error: ParseError) -> Self {
        Self { ending: Ending::ClientBad, status: error.status() }
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
            let mut session = Self { worker, client, address, lines, timer, pass };
            match session.run().await {
                Next::Linger => Box::pin(session.linger()).await,
                Next::Reset => session.client.socket.reset(),
                Next::KeepAlive | Next::Close => {}
            }
        });
    }

    /// Answers requests until the connection is to be closed: how.
    async fn run(&mut self) -> Next {
        loop {
            let next = match self.next_request().await {
                Ok(Some((view, request))) => Box::pin(self.answer(view, request)).await,
                Ok(None) => return Next::Close,
                Err(refused) => Box::pin(self.refuse(refused)).await,
            };
            if next != Next::KeepAlive {
                return next;
            }
        }
    }

    /// Reads until a request is complete; none if the connection is over.
    async fn next_request(&mut self) -> Result<Option<(Rc<View>, Request)>, Refused> {
        let mut partial: Option<Box<RequestHead>> = None;
        loop {
            let read = match &partial {
                None if !self.client.rest.is_empty() => Ok(self.pipelined()),
                None => self.first_bytes().await,
                Some(_) => self.client.fill(&self.worker.buffers, &self.timer).await,
            };
            let mut buffer = match (read, &partial) {
                (Ok(buffer), _) => buffer,
                (Err(_), None) => return Ok(None),
                (Err(Gone::Expired), Some(_)) => {
                    return Err(Refused { ending: Ending::ClientTimeout, status: 408 });
                }
                (Err(_), Some(_)) => return Err(Refused { ending: Ending::ClientGone, status: 0 }),
            };
            let view = self.worker.view();
            let door = &self.pass.door;
            let Some(entrance) = view.entrance(door.index, door.bind) else { return Ok(None) };
            let is_first = partial.is_none();
            let mut head = partial.take().unwrap_or_else(|| entrance.take_request_head());
            if let Status::Partial = head.parse(buffer.filled()).map_err(Refused::bad)? {
                if is_first {
                    self.timer.arm(entrance.timeouts.head);
                }
                self.client.keep(buffer, &self.worker.buffers);
                partial = Some(head);
                continue;
            }
            if head.method() == Method::Connect {
                return Err(Refused { ending: Ending::ClientBad, status: 501 });
            }
            let from = From { address: self.address, lines: &self.lines };
            let request = Request::take(&self.worker, (&view, entrance), &head, &mut buffer, from);
            entrance.give_request_head(head);
            self.client.keep(buffer, &self.worker.buffers);
            return Ok(Some((view, request.map_err(Refused::bad)?)));
        }
    }

    /// A request, or part of one, that came together with the one before.
    fn pipelined(&mut self) -> Buffer {
        let mut buffer = self.worker.buffers.take();
        buffer.append(&std::mem::take(&mut self.client.rest));
        buffer
    }

    /// Waits for a request to begin, unless the connection is not wanted any more.
    async fn first_bytes(&mut self) -> Result<Buffer, Gone> {
        let Self { worker, client, timer, pass, .. } = self;
        poll_fn(|cx| match client.poll_fill(cx, &worker.buffers) {
            Poll::Pending => {
                let unwanted = worker.max_connections(&pass.door).is_none();
                let over = unwanted || timer.has_expired();
                if over { Poll::Ready(Err(Gone::Expired)) } else { Poll::Pending }
            }
            filled => filled,
        })
        .await
    }

    async fn answer(&mut self, view: Rc<View>, request: Request) -> Next {
        let Self { worker, client, address, timer, pass, .. } = self;
        let Some(entrance) = view.entrance(pass.door.index, pass.door.bind) else {
            return Next::Close;
        };
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
        let (worker, door) = (&self.worker, &self.pass.door);
        let view = worker.view();
        let Some(entrance) = view.entrance(door.index, door.bind) else { return };
        view.desks[entrance.service].cells.end(refused.ending, refused.status);
        let Some(log) = &worker.shared.log else { return };
        let now = worker.shared.clock.now();
        let line = Line {
            client: self.address,
            method: "-",
            target: "-",
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
        while let Ok(buffer) = self.client.fill(&self.worker.buffers, &self.timer).await {
            self.worker.buffers.give(buffer);
        }
    }
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
