//! One request: pick a server, send, answer, record; again with another server where that is safe.
//!
//! A request is sent again if the server cannot have acted on it (nothing of it was sent), or if
//! acting twice is the same as acting once (an idempotent method, the body at hand) - and in
//! either case only while nothing of an answer has reached the client, the service's attempts are
//! not used up and its retry budget has something left.

use std::{cell::Cell, future::poll_fn, net::SocketAddr, pin::pin, rc::Rc, sync::Arc, task::Poll};

use loadline_core::{
    ending::{Ending, Fault},
    fleet::{HttpVersion, ProxyVersion},
    ledger::ServerId,
    plan::{Ask, Decision, Refusal},
    reason::Reason,
    time::Instant,
};
use loadline_http1::{Answer, Method, ParseError};

use crate::{
    access_log::{Asked, Line, Log, Times},
    attempt::Attempt,
    dial::{Dial, dial},
    door::Door,
    failure::Failure,
    grant::Grant,
    http2::{Link, Target},
    mirror::Copy,
    peer::Peer,
    pool::{Connection, Slot},
    proxy_protocol::{self, Ends},
    reason::of_io,
    request::Request,
    route::Route,
    rules::Reply,
    spans::{Outcome, Spans, Trace},
    timer::Timer,
    turn::after_the_others,
    view::{Entrance, View},
    waiting::Waiting,
    worker::Worker,
};

/// One request on its way.
#[derive(Debug)]
pub(crate) struct Exchange<'a> {
    pub(crate) worker: &'a Rc<Worker>,
    door: &'a Arc<Door>,
    pub(crate) entrance: &'a Entrance,
    pub(crate) client: &'a mut Peer,
    pub(crate) timer: &'a Timer,
    pub(crate) request: Request,
    pub(crate) route: Route,
    pub(crate) record: Record,
    /// Servers that have failed the request.
    tried: Vec<ServerId>,
    /// A place at another server, where the last has answered with a 5xx.
    elsewhere: Option<Grant>,
}

/// What is told about the request when it has ended.
#[derive(Debug, Default)]
pub(crate) struct Record {
    /// What the client was told, 0 for nothing yet.
    pub(crate) status: u16,
    /// Bytes sent to the client.
    pub(crate) bytes: u64,
    pub(crate) times: Times,
    retries: u32,
    overflowed: bool,
    /// Index of the group, and the server.
    server: Option<(usize, SocketAddr)>,
    /// How it ended, once that has been counted.
    pub(crate) ending: Option<Ending>,
    /// Why it, or the last attempt that was repeated, failed.
    reason: Option<Reason>,
    /// What is wrong with the client's message, if that is why.
    refused: Option<ParseError>,
}

/// What becomes of the client's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The next request may come.
    KeepAlive,
    /// It is closed.
    Close,
    /// It is closed after what the client is still sending has been read: a reset would take the
    /// answer from it.
    Linger,
    /// It is reset, since an orderly close would make a broken answer look whole.
    Reset,
    /// It goes on in HTTP/2, as its first bytes announce.
    Http2,
}

impl<'a> Exchange<'a> {
    /// An exchange for a request that came in at `entrance` of `view`.
    pub(crate) fn new(
        (worker, door, view, entrance): (&'a Rc<Worker>, &'a Arc<Door>, &Rc<View>, &'a Entrance),
        (client, timer): (&'a mut Peer, &'a Timer),
        request: Request,
    ) -> Self {
        let route = Route::new(view.clone(), request.service);
        let times = Times { received: request.received, ..Times::default() };
        let record = Record { times, ..Record::default() };
        let (tried, elsewhere) = (Vec::new(), None);
        Self { worker, door, entrance, client, timer, request, route, record, tried, elsewhere }
    }

    /// Answers the request, until its door cuts what is left.
    pub(crate) async fn run_unless_cut(&mut self) -> Next {
        let door = self.door;
        let mut answered = pin!(self.run());
        poll_fn(|cx| match answered.as_mut().poll(cx) {
            Poll::Pending if door.is_cut() => Poll::Ready(Next::Reset),
            next => next,
        })
        .await
    }

    async fn run(&mut self) -> Next {
        after_the_others().await;
        if self.request.is_whole {
            let copy = self.request.copy.take();
            self.send_copy(copy);
        }
        let (ending, next) = if let Some(reply) = self.request.reply.take() {
            Box::pin(self.reply(&reply)).await
        } else {
            self.route.plan().count_request();
            match self.serve().await {
                Ok(served) => served,
                Err(failure) => {
                    self.record.reason = Some(failure.reason);
                    self.record.refused = failure.refused;
                    (failure.ending, self.answer(failure).await)
                }
            }
        };
        self.end(ending);
        self.worker.buffers.give_text(std::mem::take(&mut self.request.text));
        if let Some(asked) = self.request.asked.take() {
            self.worker.log.give_asked(asked);
        }
        next
    }

    /// Sends the copy of a request that has come whole.
    pub(crate) fn send_copy(&self, copy: Option<Box<Copy>>) {
        copy.into_iter().for_each(|copy| copy.send(self.worker, self.door));
    }

    /// Tries servers until one has answered, or until no further attempt is allowed.
    async fn serve(&mut self) -> Result<(Ending, Next), Failure> {
        let mut now = self.request.received;
        let mut last: Option<Failure> = None;
        loop {
            let grant = match (self.elsewhere.take(), last) {
                (Some(grant), _) => grant,
                (None, last) => match (self.pick(now).await, last) {
                    (Ok(grant), _) => grant,
                    (Err(_), Some(last)) => return Err(last),
                    (Err(failure), None) => {
                        self.note(failure, None);
                        return Err(failure);
                    }
                },
            };
            self.go_to(&grant);
            self.begin_span(&grant);
            let attempted = {
                let mut attempt = pin!(self.attempt(&grant));
                poll_fn(|cx| match attempt.as_mut().poll(cx) {
                    Poll::Pending if grant.is_cut() => Poll::Ready(Err(Failure::CUT)),
                    attempted => attempted,
                })
                .await
            };
            let failure = match attempted {
                Ok(_) if self.goes_elsewhere() => {
                    self.pass_over(&grant);
                    continue;
                }
                Ok((ending, next)) => {
                    self.finish(ending, grant);
                    return Ok((ending, next));
                }
                Err(failure) => failure,
            };
            self.tried.push(grant.server());
            now = self.worker.shared.clock.now();
            if let Some(trace) = &mut self.request.trace {
                trace.fail(failure.ending, now, &self.record.times);
            }
            self.note(failure, Some(&grant));
            self.blame(failure, grant);
            if !self.may_repeat(failure, now) || !self.route.renew(self.worker) {
                return Err(failure);
            }
            last = Some(failure);
        }
    }

    async fn pick(&mut self, now: Instant) -> Result<Grant, Failure> {
        let draw = self.worker.random.draw();
        let stick = self.request.session.server();
        // Taken out while it is asked about: waiting borrows the whole exchange.
        let tried = std::mem::take(&mut self.tried);
        let ask = Ask { now, key: self.request.key, draw, tried: &tried, stick };
        let picked = self.decide(ask).await;
        self.tried = tried;
        picked
    }

    async fn decide(&mut self, ask: Ask<'_>) -> Result<Grant, Failure> {
        Ok(match self.route.plan().pick(&ask) {
            Decision::Send(permit) => self.route.grant(permit),
            // Nobody waits for a copy, so it takes nobody's place.
            Decision::Queue(_) if self.request.is_copy => {
                return Err(Failure::refused(Refusal::Full));
            }
            Decision::Refuse(why) if self.request.is_copy => return Err(Failure::refused(why)),
            // In memory of its own: few requests wait, and all would have room for it.
            Decision::Queue(place) => Box::pin(self.waiting().wait(place, ask)).await?,
            Decision::Refuse(why) => Box::pin(self.waiting().refused(why, ask)).await?,
        })
    }

    fn go_to(&mut self, grant: &Grant) {
        if self.record.times.picked.is_none() {
            self.record.times.picked = Some(grant.since());
        }
        self.record.overflowed = grant.is_overflow();
        self.record.server = Some((grant.place().0, grant.address()));
    }

    /// Takes a place for the request at another server than the one of `grant`, which has answered
    /// with a 5xx; true if there is one.
    pub(crate) fn take_elsewhere(&mut self, grant: &Grant, now: Instant) -> bool {
        self.tried.push(grant.server());
        let (key, draw) = (self.request.key, self.worker.random.draw());
        let ask = Ask { now, key, draw, tried: &self.tried, stick: None };
        let permit = self.route.plan().retry_5xx(self.record.retries + 1, &ask);
        self.tried.pop();
        self.record.retries += u32::from(permit.is_some());
        self.elsewhere = permit.map(|permit| self.route.grant(permit));
        self.goes_elsewhere()
    }

    /// Forgets the answer of a server whose request goes elsewhere.
    fn pass_over(&mut self, grant: &Grant) {
        self.tried.push(grant.server());
        let now = self.worker.shared.clock.now();
        let status = std::mem::take(&mut self.record.status);
        if let Some(trace) = &mut self.request.trace {
            trace.pass_over(status, now, &self.record.times);
        }
    }

    /// Whether there is a place for the request at another server.
    pub(crate) const fn goes_elsewhere(&self) -> bool {
        self.elsewhere.is_some()
    }

    /// Begins the span of an attempt, and tells its server.
    fn begin_span(&mut self, grant: &Grant) {
        let Request { trace: Some(trace), text, .. } = &mut self.request else { return };
        let group = self.route.settings().groups.get(grant.place().0);
        let scheme = if self.route.desk().tls.is_some() { "https" } else { "http" };
        let asked = (group.map_or("-", |group| &group.name), scheme);
        trace.ask(text, self.worker.random.draw(), asked, (grant.address(), grant.since()));
    }

    /// Whether times are measured for its spans.
    pub(crate) fn is_sampled(&self) -> bool {
        self.request.trace.as_ref().is_some_and(|trace| trace.is_sampled())
    }

    fn waiting(&mut self) -> Waiting<'_> {
        let class = self.request.class.unwrap_or(self.route.settings().class);
        let Self { worker, client, route, .. } = self;
        Waiting { worker, client, route, class }
    }

    /// Sends the request over a kept connection; over a new one if there is none, or if it turns
    /// out that the server had closed it.
    async fn attempt(&mut self, grant: &Grant) -> Result<(Ending, Next), Failure> {
        if self.route.settings().http_version == HttpVersion::Http2 {
            return Box::pin(self.call(grant)).await;
        }
        let introduces = self.route.settings().send_proxy;
        let mut kept = match introduces {
            None => self.worker.pools.take(&self.worker.shared, grant.server()),
            Some(_) => None,
        };
        // One place in the code, so that one place in memory, carries whichever it is.
        loop {
            let was_kept = kept.is_some();
            let connection = match (kept.take(), introduces) {
                (Some(connection), _) => connection,
                (None, None) => self.open(grant)?,
                (None, Some(version)) => {
                    let slot = self.slot(grant)?;
                    let introduced = Box::pin(self.introduce(version, grant, slot)).await;
                    introduced.map_err(Failure::new)?
                }
            };
            let mut attempt = Attempt::new(self, connection);
            let carried = attempt.carry(grant).await;
            match attempt.conclude(carried, grant) {
                Err(failure) if was_kept && failure.stale && failure.repeatable => {}
                done => return done,
            }
        }
    }

    /// The right to one more connection to the server.
    fn slot(&self, grant: &Grant) -> Result<Slot, Failure> {
        let max = self.route.max_connections(grant);
        let slot = self.worker.pools.slot(&self.worker.shared, grant.server(), max);
        slot.ok_or_else(|| Failure { crowded: true, ..Failure::new(Reason::NoConnection) })
    }

    /// A new connection to the server, which may not stand yet.
    fn open(&self, grant: &Grant) -> Result<Connection, Failure> {
        let (slot, tls) = (self.slot(grant)?, self.route.desk().tls.as_ref());
        let opened = Connection::open(grant.address(), tls, slot);
        opened.map_err(|error| Failure::new(of_io(&error)))
    }

    /// Sends the request as a stream of a connection that many share; as one of another if the
    /// server has left meanwhile, or refuses it.
    async fn call(&mut self, grant: &Grant) -> Result<(Ending, Next), Failure> {
        let mut is_first = true;
        loop {
            let Some(connection) = self.share(grant) else {
                return Err(Failure { crowded: true, ..Failure::new(Reason::NoConnection) });
            };
            let mut attempt = Attempt::new(self, connection);
            let carried = attempt.carry(grant).await;
            let done = attempt.conclude(carried, grant);
            let Err(failure) = done else { return done };
            if !(is_first && failure.stale && failure.repeatable) {
                return Err(Failure { stale: failure.stale && is_first, ..failure });
            }
            is_first = false;
        }
    }

    /// A stream to the server; none if it has all the connections it may have.
    fn share(&self, grant: &Grant) -> Option<Connection> {
        let (worker, server) = (self.worker, grant.server());
        let open = |streams: &Rc<Cell<usize>>| {
            let max = self.route.max_connections(grant);
            let slot = worker.pools.slot(&worker.shared, server, max)?;
            let target = Target {
                address: grant.address(),
                tls: self.route.desk().tls.clone(),
                timeouts: self.route.settings().timeouts,
                longest_head: worker.view().longest_head(),
            };
            Some(Link::open(target, slot, &worker.timers, streams))
        };
        let (call, reused) = worker.links.call(server, open)?;
        Some(Connection::shared(call, reused))
    }

    /// Opens a connection that begins with a PROXY header. It is for this client alone, so it
    /// carries one request.
    async fn introduce(
        &self,
        version: ProxyVersion,
        grant: &Grant,
        slot: Slot,
    ) -> Result<Connection, Reason> {
        let destination = self.client.socket.local_addr().unwrap_or(self.entrance.bind);
        let mut header = Vec::new();
        proxy_protocol::write(
            &mut header,
            version,
            Some(Ends { source: self.request.client, destination }),
        );
        let to = Dial {
            address: grant.address(),
            tls: self.route.desk().tls.as_ref(),
            header: &header,
            limit: self.route.settings().timeouts.connect,
        };
        dial(to, slot, self.timer).await
    }

    fn finish(&mut self, ending: Ending, grant: Grant) {
        let now = self.worker.shared.clock.now();
        self.record.times.ended = now;
        // How long a tunnel stays open says nothing about how long requests take.
        if ending == Ending::Complete {
            grant.finish(now);
        }
    }

    /// Gives the permit back, and counts the failure against the server if it is the server's.
    fn blame(&self, failure: Failure, grant: Grant) {
        if failure.ending.fault() != Fault::Server || failure.stale {
            return;
        }
        let server = grant.server();
        let errors = grant.fail();
        let Some(rules) = self.route.settings().ejection else { return };
        let errors = rules.errors_after(failure.ending, errors);
        if errors >= rules.errors {
            self.worker.shared.report_failing(server, errors, failure.reason);
        }
    }

    /// Counts why an attempt failed, or why there is none, and warns of it.
    fn note(&mut self, failure: Failure, grant: Option<&Grant>) {
        if failure.ending.is_failure() && !failure.stale {
            self.record.reason = Some(failure.reason);
            let Worker { shared, failures, .. } = &**self.worker;
            failures.note(
                shared,
                &self.route.desk().cells,
                self.route.scene(grant),
                failure.reason,
            );
        }
    }

    fn may_repeat(&mut self, failure: Failure, now: Instant) -> bool {
        if failure.crowded || failure.paid {
            return true;
        }
        let safe = failure.repeatable && failure.ending.fault() != Fault::Client;
        if safe && failure.ending.is_unsent() {
            let may = self.route.plan().may_reconnect(self.record.retries + 1);
            self.record.retries += u32::from(may);
            return may;
        }
        safe && self.take_retry(now)
    }

    /// Takes a further attempt out of the budget, if it has one left.
    pub(crate) fn take_retry(&mut self, now: Instant) -> bool {
        let may = self.route.plan().may_retry(self.record.retries + 1, now);
        self.record.retries += u32::from(may);
        may
    }

    /// Tells the client of a failure, if it is not too late.
    async fn answer(&mut self, failure: Failure) -> Next {
        if let Some(next) = failure.committed {
            return next;
        }
        let refused = failure.refused.map(ParseError::status);
        let Some(status) = refused.or(failure.ending.status()) else { return Next::Close };
        let again = failure.ending.fault() == Fault::Capacity || failure.ending == Ending::NoServer;
        let close = self.must_close() || failure.ending.fault() == Fault::Client;
        let answer = Answer {
            status,
            retry_after: again.then(|| self.retry_after()),
            close,
            to_head: self.request.method == Method::Head,
            extra: &self.entrance.hsts,
        };
        let mut text = self.worker.buffers.take_text();
        answer.write(&mut text);
        self.tell(text, status, close).await
    }

    #[cold]
    fn retry_after(&self) -> u32 {
        let now = self.worker.shared.clock.now();
        self.route.plan().retry_after(now, self.worker.random.draw())
    }

    /// Gives the answer of a rule.
    async fn reply(&mut self, reply: &Reply) -> (Ending, Next) {
        let close = self.must_close();
        let to_head = self.request.method == Method::Head;
        let mut text = self.worker.buffers.take_text();
        reply.write(&self.entrance.hsts, (close, to_head), &mut text);
        let next = self.tell(text, reply.status, close).await;
        let told = self.record.status != 0;
        (if told { Ending::Ruled } else { Ending::ClientGone }, next)
    }

    /// Whether the connection cannot be used again after an answer of our own.
    fn must_close(&self) -> bool {
        !self.request.keep_alive || !self.request.is_whole || self.is_leaving()
    }

    /// Whether the connection is not to be used again though its client could.
    pub(crate) fn is_leaving(&self) -> bool {
        self.worker.is_leaving(self.door)
    }

    /// Sends an answer of our own.
    async fn tell(&mut self, text: Vec<u8>, status: u16, close: bool) -> Next {
        self.timer.arm(self.entrance.timeouts.idle);
        let sent = self.client.send(&text, self.timer).await;
        if sent.is_ok() {
            self.record.status = status;
            self.record.bytes = text.len() as u64;
        }
        self.worker.buffers.give_text(text);
        match (sent, close, self.request.is_whole) {
            (Err(_), _, _) => Next::Close,
            (Ok(()), false, _) => Next::KeepAlive,
            (Ok(()), true, true) => Next::Close,
            (Ok(()), true, false) => Next::Linger,
        }
    }

    /// Counts the request and writes its line.
    fn end(&mut self, ending: Ending) {
        self.record.ending = Some(ending);
        let record = &mut self.record;
        if record.times.ended == Instant::ZERO {
            record.times.ended = self.worker.shared.clock.now();
        }
        let cells = &self.route.desk().cells;
        cells.end(ending, record.status);
        cells.nanos.add(record.times.ended.since(record.times.received).as_nanos());
        cells.retries.add(u64::from(record.retries));
        cells.overflowed.add(u64::from(record.overflowed));
        if let Some(log) = &self.worker.shared.log {
            self.log(log, ending);
        }
        if let Some(spans) = &self.worker.shared.spans
            && let Some(trace) = self.request.trace.take()
        {
            self.tell_spans(spans, *trace, ending);
        }
    }

    #[cold]
    fn tell_spans(&self, spans: &Spans, trace: Trace, ending: Ending) {
        trace.end(spans, || Outcome {
            client: self.request.client,
            version: self.client.socket.http_version(self.request.version),
            service: self.route.settings().name.clone(),
            status: self.record.status,
            ending,
            retries: self.record.retries,
            times: self.record.times,
        });
    }

    #[cold]
    fn log(&self, log: &Log, ending: Ending) {
        if log.wants(ending, self.record.status, &self.worker.random) {
            let refused = self.record.refused.map(|error| error.to_string());
            let reason = self.record.reason.or(Reason::of(ending)).map(Reason::text);
            let line = self.line(ending, refused.as_deref().or(reason));
            self.worker.log.add(log, self.worker.shared.clock, &line);
        }
    }

    fn line<'b>(&'b self, ending: Ending, reason: Option<&'b str>) -> Line<'b> {
        let asked = self.request.asked.as_deref();
        let settings = self.route.settings();
        let name = |group: usize| settings.groups.get(group).map_or("-", |group| &group.name);
        Line {
            client: self.request.client,
            method: asked.map_or(b"", Asked::method),
            target: asked.map_or(b"", Asked::target),
            referer: asked.map_or(b"", Asked::referer),
            agent: asked.map_or(b"", Asked::agent),
            version: self.client.socket.http_version(self.request.version),
            status: self.record.status,
            bytes: self.record.bytes,
            service: &settings.name,
            server: self.record.server.map(|(group, address)| (name(group), address)),
            ending,
            reason: reason.unwrap_or_default(),
            retries: self.record.retries,
            times: self.record.times,
            trace: self.request.trace.as_ref().map(|trace| trace.id()),
            came: self.entrance.came(asked.map_or(b"", Asked::host), self.request.tls.as_deref()),
        }
    }
}

impl Drop for Exchange<'_> {
    /// A request that is dropped on its way was cut at the end of a drain.
    fn drop(&mut self) {
        if self.record.ending.is_none() {
            self.end(Ending::Drained);
        }
    }
}
