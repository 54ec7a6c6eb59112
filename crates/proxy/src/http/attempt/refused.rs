//! A response of a bucket that is no object: its code decides
//! ([`loadline_core::decide::store_response`]) which response the client gets from loadline.

use std::sync::Arc;

use loadline_core::{
    cache::Condition,
    decide::{
        ending::Ending,
        reason::{Phase, Reason},
        request::{Action, Event},
        store_response::{Verdict, element, judge, judge_head},
    },
    fleet::Page,
    time::Instant,
};
use loadline_http1::{Forwarded, Framing, LocalReply, Method, ResponseHead};

use super::{Attempt, Done, delivery::is_over};
use crate::{
    http::{exchange::Next, failure::Again},
    io::{
        buffer::Buffer,
        peer::{Gone, client_gone},
    },
    store::{Remote, Signed, is_object},
    telemetry::reason::of_body_syntax,
};

impl Attempt<'_, '_> {
    /// Whether a bucket is asked.
    pub(super) fn is_of_bucket(&self) -> bool {
        self.signed.as_ref().is_some_and(|signed| signed.request().is_some())
    }

    /// Ends the attempt as the response asks for.
    pub(super) async fn refused(
        &mut self,
        head: Box<ResponseHead>,
        buffer: Buffer,
        now: Instant,
    ) -> Result<Done, Reason> {
        if self.asks_error_page() {
            return self.take_error_page(&head, buffer, now).await;
        }
        let status = head.status();
        let unexplained = self.signed.as_deref().and_then(Signed::unexplained);
        if is_object(status) && unexplained.is_none() {
            return self.fail_condition(head, buffer, now).await;
        }
        // What is throttled is no fault of the store: whether a 503 is one its body says.
        if status >= 500 && status != 503 && self.is_given_up(status, now) {
            return Ok(self.discard(head, buffer));
        }
        let field = |name| {
            let value = head.fields().get(buffer.filled(), name);
            value.and_then(|it| std::str::from_utf8(it).ok()).unwrap_or_default().to_owned()
        };
        // Azure and MinIO tell their code in a field too, which HEAD has as well.
        let code = Some(field("x-ms-error-code")).filter(|it| !it.is_empty());
        let code = code.unwrap_or_else(|| field("x-minio-error-code"));
        let named = field("x-amz-bucket-region");
        // How long the object is, where none of it is in the range (RFC 9110 section 14.4).
        let is_beyond = status == BEYOND && unexplained.is_none();
        let range = Some(field("Content-Range")).filter(|it| is_beyond && !it.is_empty());
        let lines = range.map_or_else(String::new, |it| format!("Content-Range: {it}\r\n"));
        let (body, is_over) = self.read_all(&head, buffer, ERROR_MAX).await?;
        let reusable = is_over && head.keep_alive() && self.connection.peer.rest.is_empty();
        self.exchange.listener_context.give_response_head(head);
        let region = if named.is_empty() { element(&body, "Region") } else { &*named };
        // Of the region for which it was signed nothing is to be learnt.
        let is_known = self.signed.as_ref().is_some_and(|it| it.is_for_region(region));
        let region = if is_known { "" } else { region };
        let code = if code.is_empty() { element(&body, "Code") } else { &*code };
        let verdict = match unexplained {
            // It is HEAD alone that the store refuses.
            Some(told) if is_object(status) || status == BEYOND => Verdict::Replace(told),
            _ if self.method() == Method::Head => judge_head(status, code, region),
            _ => judge(status, code, region),
        };
        let fails = status == 503 && matches!(verdict, Verdict::Replace(500..));
        if fails && self.is_given_up(status, now) {
            return Ok(self.given_up(status, reusable));
        }
        let is_accepted = matches!(verdict, Verdict::Replace(..500) | Verdict::RenewOr(_));
        if let Some(remote) = self.remote().filter(|_| unexplained.is_some() && is_accepted) {
            remote.note_accepted(now);
        }
        let asks_cause = code.is_empty() && self.may_ask_cause(status, now);
        self.obey((verdict, region), (status, asks_cause), (&lines, reusable), now).await
    }

    /// Counts an error of the store: whether another is asked instead, or what is stored is given.
    fn is_given_up(&mut self, status: u16, now: Instant) -> bool {
        let came = Event::Head { status, untouched: !self.is_touched() };
        let is_given_up = matches!(self.exchange.tell(now, came), Action::Discard);
        is_given_up || self.exchange.is_stood_in_for(status)
    }

    /// Does what a response of this status asks for; `asks_cause` where it may be another that is
    /// refused without a word.
    async fn obey(
        &mut self,
        (verdict, region): (Verdict, &str),
        (status, asks_cause): (u16, bool),
        (lines, reusable): (&str, bool),
        now: Instant,
    ) -> Result<Done, Reason> {
        match verdict {
            Verdict::RenewOr(_) if self.renew().await => {
                self.again = Some(Again::Signed);
                Err(Reason::StoreRefuses)
            }
            Verdict::Replace(told) | Verdict::RenewOr(told) if asks_cause => {
                self.again = Some(Again::Cause { is_missing: told == 404 });
                Err(Reason::StoreRefuses)
            }
            Verdict::Replace(404) if self.has_unknown_error_page(now) => {
                self.again = Some(Again::ErrorPage);
                Err(Reason::StoreRefuses)
            }
            Verdict::Replace(told) | Verdict::RenewOr(told) => {
                if status < 500 {
                    let came = Event::Head { status: told, untouched: !self.is_touched() };
                    let _ = self.exchange.tell(now, came);
                }
                self.replace(told, lines, reusable, now).await
            }
            Verdict::Fail(reason) => Err(reason),
            Verdict::Renew(reason) => {
                self.again = self.renew().await.then_some(Again::Signed);
                Err(reason)
            }
            Verdict::Region(reason) => {
                self.again = self.learn_region(region).then_some(Again::Signed);
                Err(reason)
            }
        }
    }

    /// Responds to a client that wants another object than this one, or what is beyond its end.
    async fn fail_condition(
        &mut self,
        head: Box<ResponseHead>,
        buffer: Buffer,
        now: Instant,
    ) -> Result<Done, Reason> {
        let (status, lines) = match (self.condition(&head, buffer.filled()), head.framing()) {
            (Condition::Failed, _) => (CONDITION_FAILED, String::new()),
            (_, Framing::Length(length)) => {
                (BEYOND, format!("Content-Range: bytes */{length}\r\n"))
            }
            _ => (BEYOND, String::new()),
        };
        // An object that is still to come would be taken for the next response.
        let reusable = is_over(&head, &buffer) && head.keep_alive();
        self.exchange.worker.buffers.give(buffer);
        self.exchange.listener_context.give_response_head(head);
        let came = Event::Head { status, untouched: !self.is_touched() };
        let _ = self.exchange.tell(now, came);
        self.replace(status, &lines, reusable, now).await
    }

    /// Whether it is to be asked by GET why a HEAD got this status, with which no reason comes: a
    /// token has expired, a key is wrong, or it is about the object.
    fn may_ask_cause(&self, status: u16, now: Instant) -> bool {
        let is_head = matches!(status, 400 | 403) && self.method() == Method::Head;
        is_head && self.remote().is_some_and(|remote| remote.may_refuse(now))
    }

    /// Has the credentials read anew, which is done once for a request: whether there are others.
    async fn renew(&self) -> bool {
        match (self.remote(), &self.signed) {
            (Some(remote), Some(signed)) if signed.may_renew() => {
                remote.renew(signed, self.timeouts.connect).await
            }
            _ => false,
        }
    }

    fn learn_region(&self, region: &str) -> bool {
        let signed = self.signed.as_deref();
        self.remote().zip(signed).is_some_and(|(remote, it)| remote.learn_region(it, region))
    }

    /// The bucket that the attempt goes to.
    pub(super) fn remote(&self) -> Option<&Arc<Remote>> {
        let driver = &self.exchange.driver;
        let store = driver.route.store(&driver.place()?)?;
        driver.route.service_context().remote(store)
    }

    /// Reads a body of at most so many bytes, and whether that was all.
    pub(super) async fn read_all(
        &mut self,
        head: &ResponseHead,
        mut buffer: Buffer,
        most: usize,
    ) -> Result<(Vec<u8>, bool), Reason> {
        let worker = self.exchange.worker;
        let mut body = head.body();
        let mut text = Vec::new();
        self.exchange.timer.arm(self.timeouts.idle);
        buffer.consume(head.head_len());
        loop {
            let fed = body.feed_data(buffer.filled(), |piece| text.extend_from_slice(piece));
            let is_more = fed.is_ok_and(|progress| progress.consumed < buffer.filled().len());
            worker.buffers.give(buffer);
            fed.map_err(of_body_syntax)?;
            if body.is_finished() || text.len() > most {
                return Ok((text, body.is_finished() && !is_more));
            }
            buffer = match self.connection.peer.fill(&worker.buffers, self.exchange.timer).await {
                Ok(buffer) => buffer,
                Err(Gone::Closed) => return Ok((text, false)),
                Err(gone) => return Err(gone.reason().during(Phase::Body)),
            };
        }
    }

    /// Responds with this status, and these lines in the head, instead of the store.
    pub(super) async fn replace(
        &mut self,
        status: u16,
        lines: &str,
        reusable: bool,
        now: Instant,
    ) -> Result<Done, Reason> {
        let kept = self.error_page(status, now);
        let of_store = kept.as_ref().and_then(|it| it.page.as_ref());
        let coding = kept.as_ref().filter(|_| of_store.is_some()).map_or("", |it| &it.coding);
        let lines = [lines, coding].concat().into_bytes();
        if let Some(fetch) = self.exchange.request.fetch.clone() {
            return self.fill_instead(&fetch, (status, of_store, &*lines), reusable);
        }
        let keep_alive = self.may_keep_alive();
        let text = self.write_instead((status, of_store, &*lines), keep_alive);
        self.committed = Some(Next::Close);
        self.count_session();
        let exchange = &mut *self.exchange;
        exchange.record.status = status;
        exchange.timer.arm(exchange.listener_context.timeouts.idle);
        exchange.client.send(&text, exchange.timer).await.map_err(client_gone)?;
        exchange.record.bytes += text.len() as u64;
        let next = if keep_alive { Next::KeepAlive } else { exchange.closing() };
        Ok(Done { ending: Ending::Complete, next, reusable })
    }

    /// A response of our own in the place of a store's, with what the rule changes of that.
    fn write_instead(
        &self,
        (status, page, lines): (u16, Option<&Page>, &[u8]),
        keep_alive: bool,
    ) -> Vec<u8> {
        let exchange = &*self.exchange;
        let page = page.or_else(|| exchange.page(status));
        // The lines of CORS are among the changes.
        let own = [&exchange.worker.date.now()[..], &exchange.own_lines(), lines].concat();
        let answer = LocalReply {
            status,
            retry_after: None,
            close: !keep_alive,
            to_head: exchange.request.method == Method::Head,
            page: page.map(|page| (&*page.content_type, &*page.body)),
            extra: &own,
        };
        let mut text = Vec::new();
        answer.write(&mut text);
        let end = text.windows(4).position(|it| it == b"\r\n\r\n").map_or(0, |at| at + 4);
        let body = text.split_off(end);
        let _ = self.change_head(Forwarded::Rewritten, b"", &mut text);
        text.extend_from_slice(&body);
        text
    }
}

const CONDITION_FAILED: u16 = 412;

const BEYOND: u16 = 416;

/// Errors of stores are some hundred bytes; what is longer is none.
const ERROR_MAX: usize = 16 << 10;
