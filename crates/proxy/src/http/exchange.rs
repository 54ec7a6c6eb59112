//! One request from its head to its end: carries out the actions of its machine
//! ([`loadline_core::decide::request`]), and records the result.

mod cached;
mod coded;
mod compressed;
mod cut;
mod in_part;
mod local_reply;
mod object;
mod ruled;
mod short_body;
mod sliced;
mod stand_in;
mod stored;

use std::{
    borrow::Cow, cell::Cell, future::poll_fn, mem, net::SocketAddr, pin::pin, rc::Rc, sync::Arc,
    task::Poll, thread::panicking,
};

use loadline_core::{
    decide::{
        ending::Ending,
        overflow_reason::OverflowReason,
        reason::Reason,
        request::{Action, Event, Kind, Subject},
    },
    fleet::{HttpVersion, ProxyVersion},
    state::ServiceCounter,
    time::{Duration, Instant},
};
use loadline_http1::ParseError;

use crate::{
    cache::CacheResult,
    http::{
        attempt::Attempt,
        driver::{Driver, Place},
        failure::{Again, Failure},
        mirror::Copy,
        request::Request,
        route::Route,
    },
    http2::Link,
    io::peer::{Peer, client_gone},
    listener::{
        handle::ListenerHandle,
        proxy_protocol::{self, Ends},
    },
    runtime::{
        timer::Timer,
        view::{ListenerContext, View},
        worker::Worker,
        yield_once::yield_once,
    },
    store::Signed,
    telemetry::{
        access_log::{Asked, Came, Line, Log, Times},
        reason::of_io,
        spans::{Outcome, Spans, Trace},
    },
    upstream::{
        dial::{Dial, dial},
        pool::{Connection, Slot},
    },
};

/// One request on its way.
#[derive(Debug)]
pub(crate) struct Exchange<'a> {
    pub(crate) worker: &'a Rc<Worker>,
    pub(crate) listener: &'a Arc<ListenerHandle>,
    pub(crate) listener_context: &'a ListenerContext,
    pub(crate) client: &'a mut Peer,
    pub(crate) timer: &'a Timer,
    /// In memory of its own: it would be moved, and take its place, once more in each future that
    /// it passes through.
    pub(crate) request: Box<Request>,
    pub(crate) driver: Driver,
    pub(crate) record: Record,
    /// For how long the client had sent nothing of its body when that was no longer waited for.
    pub(crate) silent: Duration,
    /// How the client's connection has to go, where it has seen part of a response that broke off.
    committed: Option<Next>,
}

/// What is told about the request when it has ended.
#[derive(Debug, Default)]
pub(crate) struct Record {
    /// What the client was told, 0 for nothing yet.
    pub(crate) status: u16,
    /// Bytes sent to the client.
    pub(crate) bytes: u64,
    pub(crate) times: Times,
    /// Whether it counts as overflow; of a fetch, the fetch does.
    overflowed: bool,
    /// Why it, or the fetch that was begun for it, went past the nearest group.
    overflow: Option<OverflowReason>,
    /// Further attempts of the fetch that was begun for it.
    retries: u32,
    /// Index of the group, and the server.
    pub(crate) server: Option<(usize, SocketAddr)>,
    /// How it ended, once that has been counted.
    pub(crate) ending: Option<Ending>,
    /// Why it, or the last attempt that was repeated, failed.
    pub(crate) reason: Option<Reason>,
    /// What is wrong with the client's message, if that is why.
    refused: Option<ParseError>,
    /// Result of the cache, where the route has one.
    cache: Option<CacheResult>,
    /// Bytes of slices that are not from where that says.
    elsewhere: u64,
}

/// What becomes of the client's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The next request may come.
    KeepAlive,
    /// It is closed.
    Close,
    /// The connection is closed after what the client still sends has been read: a reset could
    /// destroy the response.
    Linger,
    /// It is reset, since an orderly close would make a broken answer look whole.
    Reset,
    /// It goes on in HTTP/2, as its first bytes announce.
    Http2,
}

impl<'a> Exchange<'a> {
    /// The lines of every response of our own.
    pub(crate) fn own_lines(&self) -> Cow<'_, [u8]> {
        self.listener_context.own_lines(self.listener)
    }

    /// An exchange for a request that came in at `listener_context` of `view`.
    pub(crate) fn new(
        (worker, listener, view, listener_context): (
            &'a Rc<Worker>,
            &'a Arc<ListenerHandle>,
            &Rc<View>,
            &'a ListenerContext,
        ),
        (client, timer): (&'a mut Peer, &'a Timer),
        request: Box<Request>,
    ) -> Self {
        let route = Route::new(view.clone(), request.service);
        let subject = Subject {
            kind: if request.is_copy { Kind::Copy } else { Kind::Message },
            key: request.key,
            class: request.class.unwrap_or(route.settings().class),
            stick: request.stick(),
            idempotent: request.is_repeatable(),
        };
        let driver = Driver::new(route, subject);
        let times = Times { received: request.received, ..Times::default() };
        let record = Record { times, ..Record::default() };
        Self {
            worker,
            listener,
            listener_context,
            client,
            timer,
            request,
            driver,
            record,
            silent: Duration::ZERO,
            committed: None,
        }
    }

    async fn run(&mut self) -> Next {
        if let Some(path) = self.request.challenge.take() {
            Box::pin(self.look_up_challenge(&path)).await;
        }
        let wanted = self.request.wanted.take_if(|wanted| wanted.is_retrieval());
        if wanted.is_none() {
            // The cache has its turn before it responds.
            yield_once().await;
        }
        if let Some(check) = self.request.check.take() {
            Box::pin(self.authenticate(check)).await;
        }
        if self.request.awaits_body() {
            Box::pin(self.await_body()).await;
        }
        if self.request.is_whole {
            let copy = self.request.copy.take();
            self.send_copy(copy);
        }
        let (ending, next) = if self.client.socket.is_taken_back() {
            // No server has to begin what nobody waits for.
            let reason = self.client.socket.why_reset();
            self.record.reason = Some(reason);
            (reason.ending(), Next::Reset)
        } else if let Some(error) = self.request.refused {
            Box::pin(self.refuse(error)).await
        } else if let Some(reply) = self.request.reply.take() {
            Box::pin(self.reply(reply)).await
        } else if let Some(wanted) = wanted {
            match Box::pin(self.cached(wanted)).await {
                Some(answered) => answered,
                None => self.pass_on().await,
            }
        } else {
            self.pass_on().await
        };
        self.end(ending);
        self.worker.buffers.give_text(mem::take(&mut self.request.text));
        if let Some(asked) = self.request.asked.take() {
            self.worker.log.give_asked(asked);
        }
        next
    }

    /// Sends the copy of a request that has come whole.
    pub(crate) fn send_copy(&self, copy: Option<Box<Copy>>) {
        copy.into_iter().for_each(|copy| copy.send(self.worker, self.listener));
    }

    /// Does what the machine says until a server has answered, or until the request has failed.
    async fn serve(&mut self) -> Option<(Ending, Next)> {
        let mut action = self.tell(self.request.received, Event::Arrived);
        loop {
            if let Action::Displace | Action::Join { .. } = action {
                // In memory of its own: few requests wait, and all would have room for it.
                let Self { driver, worker, client, record, .. } = self;
                action =
                    Box::pin(driver.wait_for_room(worker, client, &mut record.times, action)).await;
            }
            let (Action::Send, Some(place)) = (action, self.driver.place()) else {
                self.note(None);
                return None;
            };
            self.go_to(&place);
            self.timer.wait_on(place.server);
            let server = self.driver.server();
            let attempted = {
                let mut attempt = pin!(self.attempt(&place));
                poll_fn(|cx| match attempt.as_mut().poll(cx) {
                    Poll::Pending if server.as_ref().is_some_and(|it| it.is_cut()) => {
                        Poll::Ready(None)
                    }
                    attempted => attempted.map(Some),
                })
                .await
            };
            action = match attempted {
                Some(Ok((ending, next))) => match self.ended(ending) {
                    action @ Action::Send => action,
                    _ => return Some((ending, next)),
                },
                Some(Err(action)) => action,
                None => self.failed(&Failure::cut(self.record.status)),
            };
        }
    }

    /// Tells the machine what has happened.
    pub(crate) fn tell(&mut self, now: Instant, event: Event) -> Action {
        self.driver.handle(self.worker, now, event)
    }

    /// An attempt has ended without a failure, or its response was given up for another server's.
    fn ended(&mut self, ending: Ending) -> Action {
        let now = self.worker.shared.clock.now();
        let action = self.tell(now, Event::Ended(ending));
        if let Action::Send = action {
            self.pass_over(now);
        } else {
            self.record.times.ended = now;
        }
        action
    }

    /// An attempt has failed: tells the machine, counts why, and warns of it.
    fn failed(&mut self, failure: &Failure) -> Action {
        let (now, place) = (self.worker.shared.clock.now(), self.driver.place());
        (self.record.refused, self.committed) = (failure.refused, failure.committed);
        let action = self.tell(now, Event::Failed(failure.failed));
        if let Action::Resend = action {
            return action;
        }
        let is_sent = !failure.failed.progress.crowded || matches!(action, Action::End);
        match &mut self.request.trace {
            Some(trace) if is_sent => {
                trace.fail(self.driver.failure().ending, now, &self.record.times);
            }
            Some(trace) => trace.forget(),
            None => {}
        }
        self.note(place.as_ref());
        action
    }

    fn go_to(&mut self, place: &Place) {
        self.record.times.picked.get_or_insert(place.since);
        self.record.overflow = place.overflow;
        self.record.overflowed = place.overflow.is_some();
        self.record.server = Some((place.group, place.address));
        self.begin_span(place);
    }

    /// The head of a server's response has come.
    pub(crate) fn note_head(&mut self, now: Instant, status: u16) {
        self.record.times.answered = Some(now);
        if let Some(trace) = &mut self.request.trace {
            trace.hear(status);
        }
    }

    /// Forgets the response of a server whose request goes elsewhere.
    fn pass_over(&mut self, now: Instant) {
        self.record.status = 0;
        if let Some(trace) = &mut self.request.trace {
            trace.pass_over(now, &self.record.times);
        }
    }

    /// Begins the span of an attempt, and tells its server.
    fn begin_span(&mut self, place: &Place) {
        let Request { trace: Some(trace), text, .. } = &mut *self.request else { return };
        let route = &self.driver.route;
        let group = route.settings().groups.get(place.group);
        let scheme = if route.service_context().tls.is_some() { "https" } else { "http" };
        let asked = (group.map_or("-", |group| &group.name), place.overflow, scheme);
        trace.ask(text, self.worker.random.draw(), asked, (place.address, place.since));
    }

    /// Whether times are measured for its spans.
    pub(crate) fn is_sampled(&self) -> bool {
        self.request.trace.as_ref().is_some_and(|trace| trace.is_sampled())
    }

    /// Sends the request over a kept or shared connection; over another if there is none, or if it
    /// turns out that the server had closed it. Where it fails, what is done next.
    async fn attempt(&mut self, place: &Place) -> Result<(Ending, Next), Action> {
        let settings = self.driver.route.settings();
        let (is_shared, proxy_version) =
            (settings.http_version == HttpVersion::Http2, settings.send_proxy);
        let store = self.driver.route.store(place).cloned();
        let (mut takes_kept, mut may_renew) = (!is_shared && proxy_version.is_none(), true);
        let mut then = None;
        // One place in the code, so that one place in memory, carries whichever it is.
        loop {
            let signed = match &store {
                None => None,
                Some(store) => match Box::pin(self.sign(store, (then, may_renew))).await {
                    Ok(signed) => signed.map(Box::new),
                    Err(reason) => return Err(self.failed(&Failure::new(reason))),
                },
            };
            let asks_page = signed.as_deref().is_some_and(Signed::is_for_error_page);
            let known = (store.as_ref(), signed.as_deref());
            let opened = match (self.known(known, place, &mut takes_kept), proxy_version) {
                (Some(connection), _) => Ok(connection),
                (None, _) if is_shared => self.share(place).ok_or(Failure::CROWDED),
                (None, None) => self.open(place),
                (None, Some(version)) => Box::pin(self.introduce(version, place)).await,
            };
            let carried = match opened {
                Ok(connection) => {
                    let mut attempt = Attempt::new(self, connection, signed);
                    let carried = attempt.carry().await;
                    attempt.conclude(carried, place)
                }
                Err(failure) => Err(failure),
            };
            match carried {
                Err(Failure { again: Some(Again::Signed), .. }) if may_renew => {
                    may_renew = false;
                    // What was refused without a word may be granted now.
                    then = then.filter(|it| !matches!(it, Again::Cause { .. }));
                    continue;
                }
                Err(Failure { again: Some(it), .. }) if it != Again::Signed && then != Some(it) => {
                    then = Some(it);
                    continue;
                }
                Err(failure) if asks_page && self.does_without_page(store.as_ref(), &failure) => {
                    then = Some(Again::NoPage);
                    continue;
                }
                _ => {}
            }
            match carried.map_err(|failure| self.failed(&failure)) {
                Err(Action::Resend) => {}
                done => return done,
            }
        }
    }

    /// The right to one more connection to the server.
    fn slot(&self, place: &Place) -> Result<Slot, Failure> {
        let max = self.driver.route.max_connections(place);
        let slot = self.worker.pools.slot(&self.worker.shared, place.server, max);
        slot.ok_or(Failure::CROWDED)
    }

    /// A new connection to the server, which may not stand yet.
    fn open(&self, place: &Place) -> Result<Connection, Failure> {
        let (slot, tls) = (self.slot(place)?, self.driver.route.service_context().tls.as_ref());
        let opened = Connection::open(place.address, tls, slot);
        opened.map_err(|error| Failure::new(of_io(&error)))
    }

    /// A stream to the server; none if it has all the connections it may have.
    fn share(&self, place: &Place) -> Option<Connection> {
        let (worker, route) = (self.worker, &self.driver.route);
        let open = |streams: &Rc<Cell<usize>>| {
            let max = route.max_connections(place);
            let slot = worker.pools.slot(&worker.shared, place.server, max)?;
            Some(Link::open(route.target(worker, place), slot, &worker.timers, streams))
        };
        let (call, reused) = worker.links.call(place.server, open)?;
        Some(Connection::shared(call, reused))
    }

    /// Opens a connection that begins with a PROXY header. It is for this client alone, so it
    /// carries one request.
    async fn introduce(&self, version: ProxyVersion, place: &Place) -> Result<Connection, Failure> {
        let slot = self.slot(place)?;
        let destination = self.client.socket.local_addr().unwrap_or(self.listener_context.bind);
        let mut header = Vec::new();
        proxy_protocol::write(
            &mut header,
            version,
            Some(Ends { source: self.request.client, destination }),
        );
        let to = Dial {
            address: place.address,
            tls: self.driver.route.service_context().tls.as_ref(),
            header: &header,
            limit: self.driver.route.settings().timeouts.connect,
        };
        dial(to, slot, self.timer).await.map_err(Failure::new)
    }

    /// Counts why an attempt failed, or why there was none, and warns of it: once.
    fn note(&mut self, place: Option<&Place>) {
        if let Some(failure) = self.driver.take_untold() {
            self.record.reason = Some(failure.reason);
            self.count_failure(place, failure.reason);
        }
    }

    /// Counts why the response of the server is given up, if that is a failure.
    pub(crate) fn note_given_up(&mut self) {
        let place = self.driver.place();
        self.note(place.as_ref());
    }

    pub(crate) fn count_failure(&self, place: Option<&Place>, reason: Reason) {
        let (Worker { shared, failures, .. }, route) = (&**self.worker, &self.driver.route);
        failures.note(shared, &route.service_context().cells, route.scene(place), reason);
    }

    /// Tells the client of a failure, if it is not too late.
    async fn answer(&mut self) -> (Ending, Next) {
        let failure = self.driver.failure();
        self.record.reason = Some(failure.reason);
        let next = match self.committed {
            Some(next) => next,
            None => self.tell_failure(failure.ending).await,
        };
        (failure.ending, next)
    }

    /// Whether the connection cannot be used again after a response of our own.
    fn must_close(&self) -> bool {
        !self.request.keep_alive || !self.request.is_whole || self.is_leaving()
    }

    /// Whether the connection is not to be used again though its client could.
    pub(crate) fn is_leaving(&self) -> bool {
        self.worker.is_leaving(self.listener)
    }

    /// Watches for a reset by the client meanwhile. A connection that is not used again is not
    /// worth the system call; others are watched for their next request at the latest.
    pub(crate) fn watch_client(&mut self) {
        if self.request.keep_alive && self.request.is_whole {
            // Where that fails it shows with the next request.
            let _ = self.client.socket.watch();
        }
    }

    /// Passes an interim response on (RFC 9110, 15.2), but not to a client that cannot know it.
    pub(crate) async fn pass_interim(&mut self, head: &[u8]) -> Result<(), Reason> {
        if self.request.version.is_http10() {
            return Ok(());
        }
        self.timer.arm(self.listener_context.timeouts.idle);
        let sent = self.client.send(head, self.timer).await;
        self.record.bytes += head.len() as u64;
        sent.map_err(client_gone)
    }

    /// Counts the request and writes its line.
    fn end(&mut self, ending: Ending) {
        let ending = self.unless_too_large(ending);
        self.record.ending = Some(ending);
        let record = &mut self.record;
        record.bytes += self.client.socket.begun() as u64;
        if record.times.ended == Instant::ZERO {
            record.times.ended = self.worker.shared.clock.now();
        }
        let cells = &self.driver.route.service_context().cells;
        cells.add(ServiceCounter::Retries, u64::from(self.driver.retries()));
        cells.add(ServiceCounter::Overflowed, u64::from(record.overflowed));
        if self.request.fetch.is_some() {
            // Those are counted that wait for it.
            return;
        }
        record.count_cache(cells);
        cells.end(ending, record.status);
        cells.nanos.add(record.times.ended.since(record.times.received).as_nanos());
        if let Some(log) = &self.worker.shared.log
            && !self.client.socket.is_taking()
        {
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
            service: self.driver.route.settings().name.clone(),
            status: self.record.status,
            ending,
            retries: self.retries(),
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
        let settings = self.driver.route.settings();
        let name = |group: usize| settings.groups.get(group).map_or("-", |group| &group.name);
        Line {
            client: self.request.client,
            method: asked.map_or(b"", Asked::method),
            target: asked.map_or(b"", Asked::target),
            referer: asked.map_or(b"", Asked::referer),
            agent: asked.map_or(b"", Asked::agent),
            version: self.client.socket.http_version(self.request.version),
            status: self.record.status,
            bytes: if self.client.socket.is_nobody() { 0 } else { self.record.bytes },
            service: if self.request.has_no_service { "-" } else { &settings.name },
            server: self.record.server.map(|(group, address)| (name(group), address)),
            ending,
            reason: reason.unwrap_or_default(),
            retries: self.retries(),
            times: self.record.times,
            trace: self.request.trace.as_ref().map(|trace| trace.id()),
            came: Came {
                scheme: asked.map_or("", Asked::scheme),
                cache: self.record.cache.map_or("", CacheResult::name),
                request_id: asked.map_or(b"", Asked::request_id),
                user: asked.map_or(b"", Asked::user),
                overflow_reason: self.record.overflow.map_or("", OverflowReason::name),
                ..self
                    .listener_context
                    .came(asked.map_or(b"", Asked::host), self.request.tls.as_deref())
            },
        }
    }
}

impl Drop for Exchange<'_> {
    /// A request that is dropped on its way was cut at the end of a drain, or its task panics. That
    /// of a client that waits for it is dropped when the client is gone.
    fn drop(&mut self) {
        let is_left = self.client.socket.is_taking() && !self.listener.is_cut();
        let ending = if is_left { Ending::ClientGone } else { Ending::Drained };
        if self.record.ending.is_none() {
            self.end(if panicking() { Ending::Internal } else { ending });
        }
    }
}
