//! The head of a response on its way to the client: conditions, hidden headers, changes of rules,
//! and the state of both connections after it.

use loadline_core::{
    cache::{Condition, Fields, Response, is_for_the_cache, range_counts},
    compress::Treatment,
    decide::{ending::Ending, reason::Reason},
};
use loadline_http1::{
    BodyReader, Forwarded, Framing, Known, ResponseHead, ResponseOptions, write_response,
};

use super::{Attempt, Done};
use crate::{
    cache::{asks_for_all, condition, fields_of, request_fields, unix_now},
    http::{
        compress::head::edit_response,
        driver::Place,
        exchange::{Exchange, Next},
        failure::Again,
        rules::field_name,
    },
    io::buffer::Buffer,
    store::{Signed, hide_rest, is_object, leaves_out_conditions, make_not_modified},
    telemetry::reason::{of_body_syntax, of_syntax},
    upstream::private::PrivateConnection,
};

impl Attempt<'_, '_> {
    /// Has a bucket asked once more, for all of the object, where it has looked at a range that
    /// `If-Range` makes void (RFC 9110 section 13.1.5): not all stores know that. So it is where
    /// the range is beyond the end and there are conditions of which the bucket was not told: they
    /// come first (section 13.2.2). A part for which it was not asked is nobody's.
    pub(super) fn check_range(&mut self, head: &ResponseHead, bytes: &[u8]) -> Result<(), Reason> {
        if self.asks_for_us() || !matches!(head.status(), 206 | 416) {
            return Ok(());
        }
        let told = self.signed.as_deref().and_then(Signed::request).unwrap_or_default();
        let told = request_fields(told);
        let told = Fields(&told);
        if head.status() == 206 && !told.has("range") {
            return Err(Reason::WrongRange);
        }
        let asked = request_fields(&self.exchange.request.text);
        let asked = Fields(&asked);
        if !range_counts(asked, Fields(&fields_of(head, bytes)), unix_now()) {
            self.again = Some(Again::Whole);
            return Err(Reason::WrongRange);
        }
        if head.status() == 416 && told.has("range") && leaves_out_conditions(asked, told) {
            self.again = Some(Again::Conditions);
            return Err(Reason::WrongRange);
        }
        Ok(())
    }

    /// Whether the client gets this response of a bucket, or hears that it has the object.
    pub(super) fn is_given(&self, head: &ResponseHead, condition: Condition) -> bool {
        let is_beyond = self.signed.as_deref().is_some_and(Signed::is_beyond);
        !self.asks_for_us()
            && is_object(head.status())
            && match condition {
                Condition::Send => !is_beyond,
                Condition::NotModified => true,
                Condition::Failed => false,
            }
    }

    /// What the conditions of the request make of a bucket's object: stores are told only those
    /// that all of them read alike.
    pub(super) fn condition(&self, head: &ResponseHead, bytes: &[u8]) -> Condition {
        let asked = request_fields(&self.exchange.request.text);
        let asked = Fields(&asked);
        if asks_for_all(asked) {
            return Condition::Send;
        }
        let fields = fields_of(head, bytes);
        let object = Response { status: head.status(), fields: Fields(&fields) };
        let by_date = !asked.has("if-none-match");
        match condition(&object, asked, unix_now()) {
            // When it was changed is not known (RFC 9110 section 13.1.3).
            Condition::NotModified if by_date && !object.fields.has("last-modified") => {
                Condition::Send
            }
            condition => condition,
        }
    }

    /// Leaves in the head of a bucket's object what clients may see of it, which is a 304 where
    /// they have it already. All that is done with the response goes by that.
    pub(super) fn hide_rest(
        &self,
        head: &mut ResponseHead,
        buffer: &mut Buffer,
        condition: Condition,
    ) -> Result<(), Reason> {
        let length = head.head_len();
        let mut shown = buffer.filled()[..length].to_vec();
        hide_rest(&mut shown);
        if condition == Condition::NotModified {
            make_not_modified(&mut shown, is_over(head, buffer) && head.keep_alive());
            let buffers = &self.exchange.worker.buffers;
            buffers.give(std::mem::replace(buffer, buffers.take_with(&shown)));
        } else {
            buffer.replace_first(length, &shown);
        }
        head.parse(buffer.filled(), self.exchange.request.method).map_err(of_syntax)?;
        Ok(())
    }

    /// Writes the head for the client, unless it is the one in `buf`. A body that is compressed may
    /// go in chunks.
    pub(super) fn write_head(
        &self,
        head: &ResponseHead,
        buf: &[u8],
        (keep_alive, dechunk): (bool, bool),
        (treatment, in_chunks): (Treatment, bool),
    ) -> (Vec<u8>, Forwarded) {
        let Exchange { worker, request, listener_context, .. } = &*self.exchange;
        let (client, hsts) = (request.version, &*listener_context.hsts);
        let passed = request.wanted.as_ref().map(|wanted| wanted.passed_line());
        let has_date = head.fields().has(Known::Date);
        let date = (!has_date).then(|| worker.date.now());
        let options = ResponseOptions {
            client,
            keep_alive,
            dechunk,
            hsts,
            alt_svc: listener_context.alt_svc(self.exchange.listener),
            extra: passed.unwrap_or_default(),
            date: date.as_ref().map_or(b"", |line| line),
            ..ResponseOptions::default()
        };
        let mut text = worker.buffers.take_text();
        let forwarded = write_response(&mut text, buf, head, options);
        let bytes = &buf[..head.head_len()];
        let forwarded = match request.hides_tags {
            true => leave_out_tags(forwarded, bytes, &mut text),
            false => forwarded,
        };
        let mut forwarded = self.change_head(forwarded, bytes, &mut text);
        if treatment != Treatment::Keep {
            forwarded = edit_response(treatment, in_chunks, forwarded, bytes, &mut text);
        }
        (text, forwarded)
    }

    /// Makes the rule's changes of the head, and tells the client of its session: `bytes` as the
    /// server wrote it, `text` as it is to be sent, if that is not the same.
    pub(super) fn change_head(
        &self,
        mut forwarded: Forwarded,
        bytes: &[u8],
        text: &mut Vec<u8>,
    ) -> Forwarded {
        let Exchange { request, driver, .. } = &*self.exchange;
        if let Some(changes) = &request.changes {
            forwarded = changes.of_answer(forwarded, bytes, text);
        }
        let service_context = driver.route.service_context();
        if let (Some(sessions), Some(place)) = (&service_context.sessions, driver.place())
            // What asks on behalf of a client has no session.
            && !self.exchange.client.socket.is_taking()
        {
            forwarded = sessions.keep(place.server, request.session, (forwarded, bytes), text);
        }
        forwarded
    }

    /// Counts the request among those of its session, now that its client gets this response.
    pub(super) fn count_session(&self) {
        let Exchange { request, driver, client, .. } = &*self.exchange;
        let service_context = driver.route.service_context();
        if service_context.sessions.is_some()
            && !client.socket.is_taking()
            && let Some(place) = driver.place()
        {
            request.session.count(place.server, &service_context.cells);
        }
    }

    /// Leaves out a length that a server of HTTP/2 did not send: clients of gRPC take it for
    /// metadata.
    pub(super) fn hide_length(&mut self) {
        if self.connection.peer.socket.adds_length() {
            self.exchange.client.socket.hide_length();
        }
    }

    /// Accepts what of the body came with the head. What comes behind the body belongs to nobody:
    /// the connection is not used again.
    pub(super) fn take_early(
        &mut self,
        body: &mut BodyReader,
        head: &ResponseHead,
        buffer: &mut Buffer,
        payload: Option<&mut Vec<u8>>,
    ) -> Result<(), Reason> {
        let length = head.head_len();
        let early = &buffer.filled()[length..];
        let dechunk = payload.is_some();
        let progress = match payload {
            Some(text) => body.feed_data(early, |piece| text.extend_from_slice(piece)),
            None => body.feed(early),
        };
        let progress = progress.map_err(of_body_syntax)?;
        if progress.consumed < early.len() {
            self.connection.peer.rest = early[progress.consumed..].to_vec();
        }
        buffer.truncate(if dechunk { length } else { length + progress.passed });
        if progress.has_trailers() && !dechunk {
            let mut trailers = Vec::new();
            body.write_trailers(&mut trailers);
            buffer.append(&trailers);
        }
        Ok(())
    }

    /// What becomes of both connections after a response that has gone out whole.
    pub(super) fn done(&self, head: &ResponseHead, body: &BodyReader, keep_alive: bool) -> Done {
        if self.exchange.driver.route.service_context().reads_load
            && let Some(trailers) = body.trailers()
        {
            let now = self.exchange.worker.shared.clock.now();
            self.exchange.driver.report_load(now, trailers.load_metrics());
        }
        let next = match (keep_alive, self.upload.is_complete()) {
            (true, _) => Next::KeepAlive,
            (false, true) => self.exchange.closing(),
            (false, false) => Next::Linger,
        };
        let through = self.upload.is_complete() && self.unfinished.is_none();
        let reusable = head.keep_alive() && through && self.connection.peer.rest.is_empty();
        Done { ending: Ending::Complete, next, reusable }
    }

    /// Keeps the connection to the server for the next request; a private one for that of its
    /// client.
    pub(super) fn keep(self, place: &Place) {
        let Self { exchange, connection, timeouts, .. } = self;
        let until = exchange.worker.timers.coarse_now() + timeouts.keep_alive;
        let route = &exchange.driver.route;
        if !connection.private {
            let to = (place.server, route.shares(place));
            return exchange.worker.pools.keep(to, connection, until);
        }
        let service = route.service_context().name.clone();
        let to = exchange.driver.server().map(|server| (server, service));
        let private = to.and_then(|to| PrivateConnection::new(to, connection, until));
        exchange.request.private = private;
    }
}

/// Whether nothing follows the head of a response with which `buffer` begins.
pub(super) fn is_over(head: &ResponseHead, buffer: &Buffer) -> bool {
    let is_bare = matches!(head.framing(), Framing::None | Framing::Length(0));
    is_bare && buffer.filled().len() == head.head_len()
}

/// Takes what is for the cache alone out of the head of a response that passes it: `head` as the
/// server wrote it, `text` as it is to be sent, if that is not the same.
fn leave_out_tags(forwarded: Forwarded, head: &[u8], text: &mut Vec<u8>) -> Forwarded {
    let is_end = |byte: &u8| *byte == b'\n';
    let is_tag = |line: &[u8]| is_for_the_cache(field_name(line));
    if !head.split_inclusive(is_end).any(is_tag) {
        return forwarded;
    }
    let old = match forwarded {
        Forwarded::Unchanged => head.to_vec(),
        Forwarded::Rewritten => std::mem::take(text),
    };
    let kept = old.split_inclusive(is_end).filter(|line| !is_tag(line));
    kept.for_each(|line| text.extend_from_slice(line));
    Forwarded::Rewritten
}
