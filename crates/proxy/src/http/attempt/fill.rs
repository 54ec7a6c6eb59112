//! Receives a response into the cache instead of sending it to a client.

use bytes::{Bytes, BytesMut};
use loadline_core::{
    decide::{
        ending::Ending,
        reason::{Phase, Reason},
    },
    fleet::Page,
    state::ServiceCounter,
};
use loadline_http1::{BodyReader, LocalReply, Method, ResponseHead};

use super::{Attempt, Done};
use crate::{
    cache::{Came, Fetch, Filling, unix_now},
    http::exchange::Next,
    io::{buffer::Buffer, peer::Gone},
    telemetry::reason::{of_body_syntax, of_syntax},
};

impl Attempt<'_, '_> {
    /// Takes the response to a fetch.
    pub(super) async fn fill(
        &mut self,
        fetch: &Fetch,
        head: &ResponseHead,
        mut buffer: Buffer,
    ) -> Result<Done, Reason> {
        let mut body = self.body_of(head)?;
        self.committed = Some(Next::Close);
        self.exchange.record.status = head.status();
        self.exchange.timer.arm(self.timeouts.idle);
        let filling = self.begin(fetch, head, buffer.filled())?;
        buffer.consume(head.head_len());
        let filled = self.fill_body(fetch, filling, &mut body, buffer).await;
        filled.map_err(|reason| self.breaking_off(reason, head.framing()))?;
        let through = self.upload.is_complete() && self.unfinished.is_none();
        let is_over = body.is_finished() && self.connection.peer.rest.is_empty();
        let reusable = head.keep_alive() && through && is_over;
        Ok(Done { ending: Ending::Complete, next: Next::KeepAlive, reusable })
    }

    /// Takes a response of our own for the one to a fetch.
    pub(super) fn fill_instead(
        &mut self,
        fetch: &Fetch,
        (status, page, extra): (u16, Option<&Page>, &[u8]),
        reusable: bool,
    ) -> Result<Done, Reason> {
        self.committed = Some(Next::Close);
        self.exchange.record.status = status;
        let mut text = Vec::new();
        let page = page.map(|page| (&*page.content_type, &*page.body));
        LocalReply { close: false, page, extra, ..LocalReply::closing(status) }.write(&mut text);
        let mut head = self.exchange.listener_context.take_response_head();
        head.parse(&text, Method::Get).map_err(of_syntax)?;
        let mut filling = self.begin(fetch, &head, &text)?;
        if let Some(filling) = &mut filling {
            let body = Bytes::copy_from_slice(&text[head.head_len()..]);
            fetch.append(filling, &self.exchange.request.text, body);
        }
        self.exchange.listener_context.give_response_head(head);
        self.finish_filling(fetch, filling);
        Ok(Done { ending: Ending::Complete, next: Next::KeepAlive, reusable })
    }

    /// Tells the fetch of the head that `bytes` begin with.
    fn begin(
        &self,
        fetch: &Fetch,
        head: &ResponseHead,
        bytes: &[u8],
    ) -> Result<Option<Filling>, Reason> {
        fetch.answered(&self.came(head, bytes))
    }

    fn finish_filling(&self, fetch: &Fetch, filling: Option<Filling>) {
        if filling.is_some_and(|filling| fetch.finish(filling)) {
            let cells = &self.exchange.driver.route.service_context().cells;
            cells.add(ServiceCounter::CacheStored, 1);
        }
    }

    /// Tells the cache what the response says of what is stored.
    pub(super) fn tell_cache(&self, head: &ResponseHead, bytes: &[u8]) {
        let Some(wanted) = &self.exchange.request.wanted else { return };
        let store = &self.exchange.worker.shared.store;
        match (wanted.is_retrieval(), self.exchange.request.method) {
            (true, Method::Head) => store.learn_from_head(wanted, &self.came(head, bytes)),
            (true, _) => {}
            (false, _) => store.invalidate_by(wanted, head, bytes),
        }
    }

    fn came<'b>(&'b self, head: &'b ResponseHead, bytes: &'b [u8]) -> Came<'b> {
        let record = &self.exchange.record;
        let (now, received) = (self.exchange.worker.shared.clock.now(), unix_now());
        let requested = received - now.since(record.times.picked.unwrap_or(now));
        let (asked, via) = (&self.exchange.request.text, self.exchange.via());
        Came { head, bytes, asked, requested, received, via }
    }

    async fn fill_body(
        &mut self,
        fetch: &Fetch,
        mut filling: Option<Filling>,
        body: &mut BodyReader,
        mut buffer: Buffer,
    ) -> Result<(), Reason> {
        loop {
            let mut payload = BytesMut::with_capacity(buffer.filled().len());
            let fed = body.feed_data(buffer.filled(), |piece| payload.extend_from_slice(piece));
            let consumed = fed.map_err(of_body_syntax)?.consumed;
            if consumed < buffer.filled().len() {
                self.connection.peer.rest = buffer.filled()[consumed..].to_vec();
            }
            self.exchange.worker.buffers.give(buffer);
            if let Some(filling) = &mut filling {
                fetch.append(filling, &self.exchange.request.text, payload.freeze());
            }
            if body.is_finished() || filling.as_ref().is_some_and(Filling::has_all) {
                break;
            }
            match self.more(fetch).await? {
                Some(more) => buffer = more,
                None => break body.end_of_stream().map_err(|_| Reason::ClosedInBody)?,
            }
        }
        self.finish_filling(fetch, filling);
        Ok(())
    }

    /// Reads more of the body, once there is room for it; none at the end of the stream.
    async fn more(&mut self, fetch: &Fetch) -> Result<Option<Buffer>, Reason> {
        fetch.room().await.map_err(|_| Reason::ClientGone)?;
        let (worker, timer) = (self.exchange.worker, self.exchange.timer);
        timer.arm(self.timeouts.idle);
        match self.connection.peer.fill(&worker.buffers, timer).await {
            Ok(buffer) => Ok(Some(buffer)),
            Err(Gone::Closed) => Ok(None),
            Err(Gone::Expired) => Err(Reason::BodyTimeout),
            Err(gone) => Err(gone.reason().during(Phase::Body)),
        }
    }
}
