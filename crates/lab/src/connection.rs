//! One connection: requests come, answers go, one at a time and in order.
//!
//! ```text
//! read a head -> discard its body -> route -> work -> answer -> again, or close
//! ```
//!
//! Requests sent ahead wait in the buffer, or in the kernel once that is full. While a request is
//! worked on nobody looks at the socket; whether the caller has gone shows when the response is
//! due.

use std::{
    io::{self, ErrorKind, IoSlice},
    sync::Arc,
    time::Duration as StdDuration,
};

use loadline_core::time::Duration;
use loadline_http1::{
    BodyReader, CONTINUE, Framing, HeadLimits, Method, ParseError, RequestHead, Status,
};
use loadline_linux::clock;
use socket2::SockRef;
use tokio::{io::AsyncWriteExt as _, net::TcpStream, sync::watch, time::timeout};

use crate::{
    answer::{After, LENIENT_HEALTH, PreparedResponse, Route},
    fault::FaultOutcome,
    server::Server,
    stats::count,
    unit::Choice,
};

/// Answers what comes on `stream` until the client ends it, breaks a rule, or `stop` turns true
/// and nothing is under way.
pub(crate) async fn converse(stream: TcpStream, server: Arc<Server>, stop: watch::Receiver<bool>) {
    let head = RequestHead::new(HeadLimits::default());
    let mut connection = Connection { stream, server, stop, head, input: Vec::new() };
    loop {
        match connection.exchange().await {
            Ok(After::Keep | After::KeepAndTell) => {}
            Ok(After::Close) | Err(Trouble::Gone) => return,
            Err(Trouble::Refused(error)) => return connection.refuse(error).await,
        }
    }
}

struct Connection {
    stream: TcpStream,
    server: Arc<Server>,
    stop: watch::Receiver<bool>,
    head: RequestHead,
    /// What has come and not been used.
    input: Vec<u8>,
}

/// What the response needs to know of a request.
#[derive(Clone, Copy)]
struct Request {
    route: Option<Route>,
    method: Method,
    framing: Framing,
    expects_continue: bool,
    after: After,
}

/// Why there is no further exchange.
enum Trouble {
    /// The client has gone, in whatever way.
    Gone,
    /// It sent what is not HTTP.
    Refused(ParseError),
}

impl Connection {
    async fn exchange(&mut self) -> Result<After, Trouble> {
        let Some(mut request) = self.next_request().await? else {
            return Ok(After::Close);
        };
        self.discard_body(request).await?;
        match request.route {
            Some(Route::Work) => return self.work(request).await,
            Some(Route::Forward(choice)) => return self.forward(request, choice).await,
            Some(Route::Health) if self.server.lenient_health => {
                self.write(LENIENT_HEALTH.as_bytes(), &[]).await?;
                return Ok(After::Close);
            }
            _ => {}
        }
        if *self.stop.borrow() {
            request.after = After::Close;
        }
        let answer = self.ready_answer(request.route);
        self.send(request, &answer).await?;
        Ok(request.after)
    }

    /// The next head, or nothing where the client or the worker ends the connection between two
    /// requests.
    async fn next_request(&mut self) -> Result<Option<Request>, Trouble> {
        loop {
            if let Status::Complete(length) = self.head.parse(&self.input)? {
                let request = self.parsed();
                self.input.drain(..length);
                return Ok(Some(request));
            }
            if self.read_unless_stopped().await? > 0 {
                continue;
            }
            if !self.input.is_empty() {
                count(&self.server.counters.refused);
            }
            return Ok(None);
        }
    }

    fn parsed(&self) -> Request {
        let after = match (self.head.keep_alive(), self.head.version().is_http10()) {
            (false, _) => After::Close,
            (true, true) => After::KeepAndTell,
            (true, false) => After::Keep,
        };
        Request {
            route: self.server.route(self.head.path(&self.input)),
            method: self.head.method(),
            framing: self.head.framing(),
            expects_continue: self.head.expects_continue(),
            after,
        }
    }

    async fn discard_body(&mut self, request: Request) -> Result<(), Trouble> {
        let mut body = BodyReader::new(request.framing);
        if request.expects_continue && self.input.is_empty() {
            self.write(CONTINUE, &[]).await?;
        }
        loop {
            let progress = body.feed(&self.input)?;
            self.input.drain(..progress.consumed);
            if progress.finished {
                return Ok(());
            }
            if self.read().await? == 0 {
                count(&self.server.counters.refused);
                return Err(Trouble::Gone);
            }
        }
    }

    async fn work(&mut self, mut request: Request) -> Result<After, Trouble> {
        let server = Arc::clone(&self.server);
        let came = clock::now();
        count(&server.counters.accepted);
        server.faults.note_request(came);
        let awake_at = server.awake_at(came);
        let worked = async {
            server.service.until(awake_at).await?;
            server.service.work().await
        };
        let Ok(picture) = worked.await else {
            count(&server.counters.aborted);
            return Err(Trouble::Gone);
        };
        let mut answer = server.work_done(picture);
        match server.faults.fate(clock::now()) {
            FaultOutcome::Sent => {}
            FaultOutcome::Held(until) => server.service.until(until).await?,
            FaultOutcome::Replaced(status) => {
                answer = PreparedResponse::text(status, "a fault on purpose\n");
            }
            FaultOutcome::Withheld => {
                self.wait_for_the_end().await;
                count(&server.counters.aborted);
                return Err(Trouble::Gone);
            }
            FaultOutcome::Reset => {
                // Without it the end of the connection is an orderly one.
                let _ = SockRef::from(&self.stream).set_linger(Some(StdDuration::ZERO));
                count(&server.counters.aborted);
                return Err(Trouble::Gone);
            }
        }
        let has_gone = self.peer_has_gone();
        if has_gone || *self.stop.borrow() {
            request.after = After::Close;
        }
        // One that has only ended its own side still reads, so the response goes out all the same.
        let sent = self.send(request, &answer).await;
        let lost = has_gone || sent.is_err();
        server.counters.took(clock::now().since(came));
        count(if lost { &server.counters.aborted } else { &server.counters.answered });
        sent.map(|()| request.after)
    }

    /// Passes the request on to a machine, and what that answers back.
    async fn forward(&mut self, mut request: Request, choice: Choice) -> Result<After, Trouble> {
        let server = Arc::clone(&self.server);
        let Some(unit) = &server.unit else { return Err(Trouble::Gone) };
        let came = clock::now();
        count(&server.counters.accepted);
        let answer = unit.forward(choice).await;
        if *self.stop.borrow() {
            request.after = After::Close;
        }
        let sent = self.send(request, &answer).await;
        server.counters.took(clock::now().since(came));
        count(if sent.is_err() { &server.counters.aborted } else { &server.counters.answered });
        sent.map(|()| request.after)
    }

    /// Returns when the client has ended the connection, or the worker stops.
    async fn wait_for_the_end(&mut self) {
        while let Ok(1..) = self.read_unless_stopped().await {
            self.input.clear();
        }
    }

    /// The response to what takes no work.
    fn ready_answer(&self, route: Option<Route>) -> PreparedResponse {
        match route {
            Some(Route::Stats) => {
                // A record of texts and numbers always has a JSON form.
                PreparedResponse::json(serde_json::to_vec(&self.server.stats()).unwrap_or_default())
            }
            Some(Route::Health | Route::Work | Route::Forward(_)) => {
                PreparedResponse::text(200, "ok\n")
            }
            None => {
                count(&self.server.counters.refused);
                PreparedResponse::text(404, "no such path\n")
            }
        }
    }

    /// Says what was wrong, and waits a moment for the client to read it: closing while bytes of
    /// it are unread would reset the connection and destroy the response.
    async fn refuse(&mut self, error: ParseError) {
        count(&self.server.counters.refused);
        let answer = PreparedResponse::text(error.status(), &format!("{error}\n"));
        let (head, body) = self.server.wire(&answer, Method::Get, After::Close);
        if self.write(head.as_bytes(), body).await.is_err() || self.stream.shutdown().await.is_err()
        {
            return;
        }
        let drain = async {
            while let Ok(1..) = self.read().await {
                self.input.clear();
            }
        };
        let _ = timeout(LINGER.to_std(), drain).await;
    }

    async fn send(&self, request: Request, answer: &PreparedResponse) -> Result<(), Trouble> {
        let (head, body) = self.server.wire(answer, request.method, request.after);
        self.write(head.as_bytes(), body).await?;
        Ok(())
    }

    async fn write(&self, head: &[u8], body: &[u8]) -> io::Result<()> {
        let mut slices = [IoSlice::new(head), IoSlice::new(body)];
        let mut rest = &mut slices[..];
        // Drops the body if it is empty.
        IoSlice::advance_slices(&mut rest, 0);
        while !rest.is_empty() {
            match self.stream.try_write_vectored(rest) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => IoSlice::advance_slices(&mut rest, written),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.stream.writable().await?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads what there is behind `input`, waiting for something; 0 at the end.
    async fn read(&mut self) -> io::Result<usize> {
        loop {
            match self.try_read() {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.stream.readable().await?;
                }
                result => return result,
            }
        }
    }

    /// As [`read`](Self::read); 0 also where the worker stops and nothing is there to read.
    async fn read_unless_stopped(&mut self) -> io::Result<usize> {
        loop {
            match self.try_read() {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                result => return result,
            }
            if *self.stop.borrow() {
                return Ok(0);
            }
            tokio::select! {
                ready = self.stream.readable() => ready?,
                _ = self.stop.changed() => {}
            }
        }
    }

    fn try_read(&mut self) -> io::Result<usize> {
        self.input.reserve(READ_SIZE);
        self.stream.try_read_buf(&mut self.input)
    }

    /// Whether the client has ended or broken the connection. What it sent ahead is kept, up to a
    /// bound.
    fn peer_has_gone(&mut self) -> bool {
        if self.input.len() >= READ_AHEAD {
            return false;
        }
        match self.try_read() {
            Ok(length) => length == 0,
            Err(error) => error.kind() != ErrorKind::WouldBlock,
        }
    }
}

impl From<io::Error> for Trouble {
    fn from(_: io::Error) -> Self {
        Self::Gone
    }
}

impl From<ParseError> for Trouble {
    fn from(error: ParseError) -> Self {
        Self::Refused(error)
    }
}

/// Room made for one read: several pipelined requests, or a good piece of a body.
const READ_SIZE: usize = 4 * 1024;

/// How much of later requests is read while one is worked on.
const READ_AHEAD: usize = 64 * 1024;

/// How long a refused client has to read why.
const LINGER: Duration = Duration::from_secs(1);
