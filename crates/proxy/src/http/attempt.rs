//! One request over one connection to one server.
//!
//! The request's body and the response are carried at the same time: a server may answer before the
//! body is through. States: *sending* (the head and what of the body came with it), *asking*
//! (until the head of the response; the rest of the request's body goes up meanwhile), *delivering*
//! (the response's body comes down) or *tunnelling*. From delivering on the attempt is *committed*:
//! the client has seen something, and nobody may try again.

mod error_page;
mod fill;
mod refused;

use std::{
    future::poll_fn,
    mem,
    task::{Context, Poll},
};

use loadline_core::{
    compress::Treatment,
    decide::{
        ending::Ending,
        interims::Interims,
        reason::{Phase, Reason},
        request::{Action, Event, Failed, Progress, shorter},
    },
    fleet::ServerTimeouts,
    health::grpc,
    time::{Duration, Instant},
};
use loadline_http1::{
    BodyReader, Forwarded, Framing, ParseError, ResponseHead, ResponseOptions, Status,
    write_response,
};

use crate::{
    http::{
        body_pace::BodyPace,
        driver::Place,
        exchange::{Exchange, Next},
        failure::{Again, Failure, of_client},
        relay::{Broken, Download, Relay},
    },
    http2::StreamFailure,
    io::{buffer::Buffer, peer::client_gone},
    store::Signed,
    telemetry::reason::{of_body_syntax, of_io, of_syntax},
    upstream::pool::Connection,
};

mod compressed;
mod delivery;
mod switch;
mod unanswered;

/// One request over one connection.
#[derive(Debug)]
pub(crate) struct Attempt<'e, 'a> {
    exchange: &'e mut Exchange<'a>,
    connection: Connection,
    /// What a store is asked instead of the request, where the server is one.
    signed: Option<Box<Signed>>,
    /// What the store is to be asked once more.
    again: Option<Again>,
    timeouts: ServerTimeouts,
    upload: Relay,
    /// The kernel took some of the request.
    sent: bool,
    /// Why the server took no more of the request before all that was at hand had gone.
    unfinished: Option<Reason>,
    /// The server said something.
    heard: bool,
    /// The client has seen some of the response; how its connection must go if that breaks off.
    committed: Option<Next>,
    /// The kernel looks whether both peers are still there, since no timeout does.
    is_probed: bool,
    /// Why the client's message was refused.
    refused: Option<ParseError>,
    /// What the client has taken over its body so far.
    pace: BodyPace,
    /// Since when the server owes a response.
    asked_at: Instant,
}

/// How an attempt went well.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Done {
    ending: Ending,
    next: Next,
    /// The server's connection may carry another request.
    reusable: bool,
}

impl<'e, 'a> Attempt<'e, 'a> {
    /// An attempt over `connection`, of what is `signed` where that is to a store.
    pub(crate) fn new(
        exchange: &'e mut Exchange<'a>,
        mut connection: Connection,
        signed: Option<Box<Signed>>,
    ) -> Self {
        connection.private |= exchange.request.authenticates_connection;
        let copy = exchange.request.copy.take();
        let upload = Relay::new(exchange.request.body.clone()).copied(copy);
        let timeouts = exchange.driver.route.settings().timeouts;
        Self {
            pace: BodyPace::of_silent(exchange.silent),
            exchange,
            connection,
            signed,
            again: None,
            timeouts,
            upload,
            sent: false,
            unfinished: None,
            heard: false,
            committed: None,
            is_probed: false,
            refused: None,
            asked_at: Instant::ZERO,
        }
    }

    /// Keeps the server's connection if it is good for another request, and says what a failure
    /// means for the request.
    pub(crate) fn conclude(
        mut self,
        carried: Result<Done, Reason>,
        place: &Place,
    ) -> Result<(Ending, Next), Failure> {
        match carried {
            Ok(Done { ending, next, reusable }) => {
                if reusable {
                    self.connection.peer.socket.finish();
                }
                if reusable && !self.exchange.driver.is_leaving() {
                    self.keep(place);
                }
                Ok((ending, next))
            }
            Err(reason) => {
                if matches!(reason.ending(), Ending::ServerTimeout | Ending::ServerStalled) {
                    self.connection.peer.socket.retire();
                }
                self.exchange.request.copy = self.upload.take_copy();
                Err(self.failure(reason))
            }
        }
    }

    fn failure(&self, reason: Reason) -> Failure {
        let fate = self.connection.peer.socket.fate();
        let progress = Progress {
            reused: self.connection.reused,
            left: match fate {
                StreamFailure::Refused | StreamFailure::Lost => true,
                StreamFailure::Reset => false,
                StreamFailure::Unknown | StreamFailure::Unsent(_) => self.connection.reused,
            },
            sent: self.sent && !fate.is_undone(),
            touched: self.is_touched(),
            heard: self.heard,
            committed: self.committed.is_some(),
            ..Progress::NOTHING
        };
        let failed = Failed { reason, progress };
        Failure { failed, refused: self.refused, committed: self.committed, again: self.again }
    }

    /// Whether some of the request's body has been read that is not at hand any more.
    const fn is_touched(&self) -> bool {
        self.upload.has_read()
    }

    /// Sends the request and passes the response on.
    pub(crate) async fn carry(&mut self) -> Result<Done, Reason> {
        self.send().await?;
        let (mut head, mut buffer) = match (self.ask().await, self.unfinished) {
            (Err(reason), Some(first)) if reason.ending() == first.ending() => return Err(first),
            (answered, _) => answered?,
        };
        self.connection.private |= head.authenticates_connection();
        let now = self.exchange.worker.shared.clock.now();
        self.exchange.note_head(now, head.status());
        if self.is_of_bucket() {
            self.check_range(&head, buffer.filled())?;
            let condition = self.condition(&head, buffer.filled());
            if !self.is_given(&head, condition) {
                return Box::pin(self.refused(head, buffer, now)).await;
            }
            self.hide_rest(&mut head, &mut buffer, condition)?;
        }
        let status = counted_status(&head, buffer.filled());
        let came = Event::Head { status, untouched: !self.is_touched() };
        if let Action::Discard = self.exchange.tell(now, came) {
            return Ok(self.discard(head, buffer));
        }
        self.check_switch(&head, buffer.filled())?;
        self.tell_cache(&head, buffer.filled());
        if self.exchange.is_stood_in_for(head.status()) {
            return Ok(self.discard(head, buffer));
        }
        if self.exchange.driver.route.service_context().reads_load {
            self.exchange.driver.report_load(now, head.load_metrics(buffer.filled()));
        }
        let fetch = self.exchange.request.fetch.clone();
        let done = if head.tunnels() {
            self.tunnel(&head, buffer).await?
        } else if let Some(fetch) = fetch {
            Box::pin(self.fill(&fetch, &head, buffer)).await?
        } else {
            self.deliver(&head, buffer).await?
        };
        self.exchange.listener_context.give_response_head(head);
        Ok(done)
    }

    /// Sends the head and what came with it; connects if need be.
    async fn send(&mut self) -> Result<(), Reason> {
        let Self { exchange, connection, signed, sent, timeouts, .. } = self;
        let limit = if connection.reused { timeouts.head } else { timeouts.connect };
        exchange.timer.arm(limit);
        let signed = signed.as_deref().and_then(Signed::request);
        let mut text = signed.unwrap_or(&exchange.request.text);
        let all = poll_fn(|cx| {
            while !text.is_empty() {
                match connection.peer.socket.poll_write(cx, text) {
                    Poll::Ready(Ok(count @ 1..)) => {
                        *sent = true;
                        text = &text[count..];
                        exchange.timer.arm(timeouts.idle);
                    }
                    Poll::Ready(Ok(_)) => return Poll::Ready(Err(Reason::Closed)),
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(of_io(&error))),
                    // The rest follows while the response is awaited, which may come before.
                    Poll::Pending if *sent && connection.peer.socket.is_call() => break,
                    // A connection that many share has a limit of its own, and says why it failed.
                    Poll::Pending if connection.peer.socket.is_opening() => return Poll::Pending,
                    Poll::Pending if exchange.timer.has_expired() => {
                        return Poll::Ready(Err(Reason::TimedOut));
                    }
                    Poll::Pending => return Poll::Pending,
                }
            }
            Poll::Ready(Ok(()))
        });
        let sent = all.await;
        if !text.is_empty() && sent.is_ok() {
            self.upload.begin_with_rest(text, &exchange.worker.buffers);
        }
        if let Err(reason) = sent {
            let socket = &self.connection.peer.socket;
            self.sent |= socket.has_begun_write();
            let had_begun = self.sent || self.connection.reused;
            let reason = reason.during(if had_begun { Phase::Send } else { socket.phase() });
            if !self.sent || reason.ending() != Ending::ServerReset {
                return Err(reason);
            }
            // It may have answered.
            self.unfinished = Some(reason);
            self.upload.abandon();
        }
        self.expect_answer()
    }

    fn expect_answer(&mut self) -> Result<(), Reason> {
        // The response cannot be there yet: trying to read it would be in vain.
        self.connection.peer.socket.watch().map_err(|error| of_io(&error))?;
        self.exchange.watch_client();
        self.arm();
        if self.exchange.worker.shared.log.is_some() || self.exchange.is_sampled() {
            self.exchange.record.times.sent = Some(self.exchange.worker.shared.clock.now());
        }
        Ok(())
    }

    /// Sets the deadline for whoever has to move next while the response is awaited.
    fn arm(&mut self) {
        let now = self.exchange.worker.timers.coarse_now();
        let limit = if self.upload.is_over() {
            self.asked_at = now;
            Some(shorter(self.timeouts.head, self.exchange.driver.patience()))
        } else if self.upload.waits_for_sink() {
            self.pace.pause(now);
            Some(self.timeouts.idle)
        } else {
            self.pace.wait(now, &self.exchange.listener_context.timeouts, self.upload.bytes)
        };
        limit.into_iter().for_each(|limit| self.exchange.timer.arm(limit));
    }

    /// Waits for the head of the response and passes interim ones on: the head, and the bytes that
    /// it begins. Memory for it is taken when the first bytes come.
    async fn ask(&mut self) -> Result<(Box<ResponseHead>, Buffer), Reason> {
        let method = self.method();
        let mut buffer = poll_fn(|cx| self.poll_answer(cx)).await?;
        let mut head = self.exchange.listener_context.take_response_head();
        let mut interims = Interims::new();
        loop {
            while !buffer.filled().is_empty() {
                let parsed = head.parse(buffer.filled(), method);
                match parsed.map_err(of_syntax)? {
                    Status::Partial => break,
                    Status::Complete(_) if !head.is_interim() => return Ok((head, buffer)),
                    Status::Complete(length) => {
                        if !interims.admit(self.exchange.worker.timers.coarse_now()) {
                            return Err(Reason::TooManyInterims);
                        }
                        self.pass_interim(&head, &buffer).await?;
                        buffer.consume(length);
                    }
                }
            }
            self.connection.peer.keep(buffer, &self.exchange.worker.buffers);
            buffer = poll_fn(|cx| self.poll_answer(cx)).await?;
        }
    }

    fn poll_answer(&mut self, cx: &mut Context<'_>) -> Poll<Result<Buffer, Reason>> {
        self.poll_upload(cx)?;
        let buffers = &self.exchange.worker.buffers;
        let room = if self.connection.large { 0 } else { self.exchange.client.socket.room() };
        match self.connection.peer.poll_fill_up_to(cx, buffers, room.max(HEAD_BYTES)) {
            Poll::Ready(Ok(buffer)) => {
                self.heard = true;
                Poll::Ready(Ok(buffer))
            }
            Poll::Ready(Err(gone)) => Poll::Ready(Err(gone.reason().during(self.phase()))),
            Poll::Pending if self.exchange.client.socket.poll_reset(cx).is_ready() => {
                Poll::Ready(Err(self.exchange.client.socket.why_reset()))
            }
            Poll::Pending => {
                self.waits_in_vain().map_or(Poll::Pending, |reason| Poll::Ready(Err(reason)))
            }
        }
    }

    /// Gives up a response; its connection is good for another request if it has come whole.
    fn discard(&mut self, head: Box<ResponseHead>, mut buffer: Buffer) -> Done {
        let mut body = head.body();
        let taken = self.take_early(&mut body, &head, &mut buffer, None);
        let is_over = taken.is_ok() && body.is_finished() && self.connection.peer.rest.is_empty();
        let (status, reusable) = (head.status(), is_over && head.keep_alive());
        self.exchange.worker.buffers.give(buffer);
        self.exchange.listener_context.give_response_head(head);
        self.given_up(status, reusable)
    }

    /// The end of an attempt whose response is given up.
    fn given_up(&mut self, status: u16, reusable: bool) -> Done {
        self.exchange.note_given_up();
        self.exchange.record.status = status;
        self.exchange.request.copy = self.upload.take_copy();
        let reusable = reusable && self.upload.is_complete();
        Done { ending: Ending::Complete, next: Next::KeepAlive, reusable }
    }

    /// Moves the request's body up. A server that stops reading may still have a response.
    fn poll_upload(&mut self, cx: &mut Context<'_>) -> Result<(), Reason> {
        if self.upload.is_over() {
            return Ok(());
        }
        let buffers = &self.exchange.worker.buffers;
        let server = &mut self.connection.peer.socket;
        match self.upload.poll(cx, buffers, self.exchange.client, server) {
            Poll::Ready(Err(Broken::Source(reason))) => {
                let (reason, refused) = of_client(reason);
                self.refused = refused;
                return Err(reason);
            }
            Poll::Ready(Err(Broken::Syntax(error))) => {
                self.refused = Some(error);
                return Err(Reason::ClientBad);
            }
            Poll::Ready(Err(Broken::Sink(_))) => self.upload.abandon(),
            // It may be long before the next bytes of the body come.
            Poll::Pending => buffers.trim_text(&mut self.exchange.request.text),
            Poll::Ready(Ok(())) => {}
        }
        if self.upload.is_complete() {
            self.exchange.send_copy(self.upload.take_copy());
        }
        if self.upload.has_moved() || self.upload.is_over() {
            self.arm();
        }
        Ok(())
    }

    /// Passes an interim response on, or gives it to those who wait for a fetch.
    async fn pass_interim(&mut self, head: &ResponseHead, buffer: &Buffer) -> Result<(), Reason> {
        let mut text = Vec::new();
        let bytes = &buffer.filled()[..head.head_len()];
        let interim = match write_response(&mut text, bytes, head, ResponseOptions::default()) {
            Forwarded::Unchanged => bytes,
            Forwarded::Rewritten => &text,
        };
        match &self.exchange.request.fetch {
            Some(fetch) => fetch.interim(interim),
            None => self.exchange.pass_interim(interim).await?,
        }
        self.arm();
        Ok(())
    }

    /// Passes the response on.
    async fn deliver(&mut self, head: &ResponseHead, mut buffer: Buffer) -> Result<Done, Reason> {
        let treatment = self.treatment(head, &buffer);
        if let (Treatment::Compress(algorithm), true) = (treatment, head.framing() != Framing::None)
        {
            // In memory of its own, which others need not have.
            return Box::pin(self.compress(algorithm, head, buffer)).await;
        }
        let until_close = head.framing() == Framing::UntilClose;
        let dechunk =
            self.exchange.request.version.is_http10() && head.framing() == Framing::Chunked;
        let keep_alive = self.may_keep_alive() && !(until_close || dechunk);
        let (mut text, forwarded) =
            self.write_head(head, buffer.filled(), (keep_alive, dechunk), (treatment, false));
        let mut body = self.body_of(head)?;
        self.take_early(&mut body, head, &mut buffer, dechunk.then_some(&mut text))?;

        self.commit(head, until_close || dechunk);
        if forwarded == Forwarded::Rewritten {
            buffer.consume(head.head_len());
            buffer = self.send_text(&text, buffer).await?;
        }
        self.exchange.worker.buffers.give_text(text);
        let mut download = Relay::going_on(body, dechunk, Some(buffer));
        self.carry_body(&mut download, head).await?;
        Ok(self.done(head, download.body(), keep_alive))
    }

    /// Reads the body of a response; an error if that is known to be over the limit.
    fn body_of(&self, head: &ResponseHead) -> Result<BodyReader, Reason> {
        let body = head.body();
        match self.exchange.driver.route.settings().max_response_body {
            None => Ok(body),
            Some(most) => body.limited(most.get()).map_err(of_syntax),
        }
    }

    /// What becomes of the response that `buffer` begins with.
    fn treatment(&self, head: &ResponseHead, buffer: &Buffer) -> Treatment {
        let Exchange { request, driver, .. } = &*self.exchange;
        match &driver.route.settings().compression {
            None => Treatment::Keep,
            Some(compression) => self.treat(compression, &request.offer, head, buffer),
        }
    }

    /// Whether nothing but the response itself is against using the client's connection again.
    fn may_keep_alive(&self) -> bool {
        let Exchange { request, .. } = &*self.exchange;
        request.keep_alive && self.upload.is_complete() && !self.exchange.is_leaving()
    }

    /// The client sees something from now on; a body that ends with its connection can only be
    /// broken off by a reset.
    fn commit(&mut self, head: &ResponseHead, ends_with_connection: bool) {
        self.committed = Some(if ends_with_connection { Next::Reset } else { Next::Close });
        self.count_session();
        self.hide_length();
        self.exchange.record.status = head.status();
        let limit = match self.exchange.request.is_mirrored() {
            true => shorter(self.timeouts.idle, COPY_BODY_MAX),
            false => self.exchange.listener_context.timeouts.idle,
        };
        self.exchange.timer.arm(limit);
    }

    /// Carries the body to the client, and what is left of the request's to the server.
    async fn carry_body(
        &mut self,
        download: &mut impl Download,
        head: &ResponseHead,
    ) -> Result<(), Reason> {
        let delivered = poll_fn(|cx| self.poll_delivery(cx, download)).await;
        delivered.map_err(|reason| self.breaking_off(reason, head.framing()))?;
        self.connection.large = self.exchange.record.bytes >= LARGE;
        Ok(())
    }

    /// Sends a rewritten head, in one piece with the body if that is short.
    async fn send_text(&mut self, text: &[u8], mut buffer: Buffer) -> Result<Buffer, Reason> {
        let Exchange { client, timer, record, .. } = &mut *self.exchange;
        let sent = client.send_both([text, buffer.filled()], timer).await;
        let of_body = sent.map_err(client_gone)?;
        record.bytes += (text.len() + of_body) as u64;
        buffer.consume(of_body);
        Ok(buffer)
    }

    fn poll_delivery(
        &mut self,
        cx: &mut Context<'_>,
        download: &mut impl Download,
    ) -> Poll<Result<(), Reason>> {
        let moved = self.upload.bytes;
        self.poll_upload(cx)?;
        let Exchange { worker, client, timer, listener_context, request, record, driver, .. } =
            &mut *self.exchange;
        let (server, written) = (&mut self.connection.peer, download.written());
        let polled = download.poll(cx, &worker.buffers, server, &mut client.socket);
        record.bytes += download.written() - written;
        match polled {
            Poll::Ready(Ok(())) => return Poll::Ready(Ok(())),
            Poll::Ready(Err(Broken::Source(reason))) => {
                return Poll::Ready(Err(reason.during(Phase::Body)));
            }
            Poll::Ready(Err(Broken::Sink(_))) => return Poll::Ready(Err(Reason::ClientGone)),
            Poll::Ready(Err(Broken::Syntax(error))) => {
                return Poll::Ready(Err(of_body_syntax(error)));
            }
            Poll::Pending if client.socket.poll_reset(cx).is_ready() => {
                return Poll::Ready(Err(Reason::ClientGone));
            }
            // Its limit is for the whole body, which may be an endless stream of events.
            Poll::Pending if request.is_mirrored() => {
                return match timer.has_expired() {
                    true => Poll::Ready(Err(Reason::ClientGone)),
                    false => Poll::Pending,
                };
            }
            Poll::Pending => {}
        }
        let for_client = download.waits_for_sink() || self.upload.waits_for_source();
        let has_moved = download.has_moved();
        if has_moved || self.upload.bytes > moved {
            // What waits for a slow client may have been sent long ago.
            if has_moved && !download.waits_for_sink() {
                driver.heard_more(worker.timers.coarse_now());
            }
            let limit =
                if for_client { listener_context.timeouts.idle } else { self.timeouts.idle };
            timer.arm(limit);
            if limit == Duration::ZERO && !mem::replace(&mut self.is_probed, true) {
                client.socket.keep_alive();
                server.socket.keep_alive();
            }
        }
        match for_client {
            true if !download.waits_for_sink() && client.socket.is_held_back() => {
                timer.arm_again();
                Poll::Pending
            }
            true if client.is_late(timer) => Poll::Ready(Err(Reason::ClientTimeout)),
            false if timer.has_expired() => Poll::Ready(Err(Reason::BodyTimeout)),
            _ => Poll::Pending,
        }
    }

    /// Why a response breaks off, of which this is seen.
    fn breaking_off(&self, reason: Reason, framing: Framing) -> Reason {
        let in_chunks = framing == Framing::Chunked && !self.connection.peer.socket.is_call();
        match reason {
            Reason::ClosedInBody if in_chunks => Reason::ClosedInChunks,
            reason => reason,
        }
    }
}

/// The status that a response counts as for its server. To a call of gRPC that fails without a
/// message it is 200, and the head says why.
fn counted_status(head: &ResponseHead, bytes: &[u8]) -> u16 {
    if head.status() != 200 || head.framing() != Framing::None {
        return head.status();
    }
    let field = |name| head.fields().get(bytes, name);
    let is_grpc = field("content-type").is_some_and(|it| it.starts_with(b"application/grpc"));
    field("grpc-status").filter(|_| is_grpc).map_or(200, grpc::counted_status)
}

/// The longest time for the body of a response that nobody waits for.
const COPY_BODY_MAX: Duration = Duration::from_secs(10);

/// What is read of a response that will be large: its head. The rest need not come into memory.
const HEAD_BYTES: usize = 4 << 10;

/// A response of so many bytes is worth being spliced from its head on.
const LARGE: u64 = 128 << 10;
