//! Responses of loadline itself: to a failed request, and those of rules.

use std::future::poll_fn;

use loadline_core::{
    decide::{
        ending::{Ending, Fault},
        reason::Reason,
    },
    fleet::Page,
    rules::Cors,
};
use loadline_http1::{LocalReply, Method, ParseError};

use super::{Exchange, Next};
use crate::{
    http::reply::Reply,
    io::{
        peer::{Peer, client_gone},
        socket::Socket,
    },
};

impl Exchange<'_> {
    /// The lines of a response that nobody else has given.
    pub(crate) fn lines_of_reply(&self) -> Vec<u8> {
        [&self.worker.date.now()[..], &self.own_lines(), &self.request.cors].concat()
    }

    /// Tells the client of a failure, if there is something to tell.
    pub(super) async fn tell_failure(&mut self, ending: Ending) -> Next {
        let refused = self.record.refused.map(ParseError::status);
        let Some(status) = refused.or(ending.status()) else { return Next::Close };
        let again = ending.fault() == Fault::Capacity || ending == Ending::NoServer;
        let retry_after = again.then(|| self.retry_after());
        self.tell_status(status, retry_after, ending.fault() == Fault::Client).await
    }

    /// Tells the client what is wrong with its message.
    pub(super) async fn refuse(&mut self, error: ParseError) -> (Ending, Next) {
        self.record.refused = Some(error);
        (Ending::ClientBad, self.tell_failure(Ending::ClientBad).await)
    }

    /// Gives a response of our own, after which the connection may have to be closed.
    pub(super) async fn tell_status(
        &mut self,
        status: u16,
        retry_after: Option<u32>,
        closes: bool,
    ) -> Next {
        let close = self.must_close() || closes;
        let answer = LocalReply {
            status,
            retry_after,
            close,
            to_head: self.request.method == Method::Head,
            page: self.page(status).map(|page| (&*page.content_type, &*page.body)),
            extra: &self.lines_of_reply(),
        };
        let mut text = self.worker.buffers.take_text();
        answer.write(&mut text);
        self.send_answer(text, status, close).await.unwrap_or(Next::Close)
    }

    /// How a request ends that seems to end like this. A client that takes no head as long as that
    /// of its response has not left, and its server is not to blame.
    pub(super) fn unless_too_large(&mut self, ending: Ending) -> Ending {
        let Some(told) = self.client.socket.told_instead() else { return ending };
        self.record.status = told;
        if ending != Ending::ClientGone {
            return ending;
        }
        let reason = Reason::HeadOverClientLimit;
        self.record.reason = Some(reason);
        self.count_failure(None, reason);
        reason.ending()
    }

    #[cold]
    fn retry_after(&self) -> u32 {
        let now = self.worker.shared.clock.now();
        self.driver.route.plan().retry_after(now, self.worker.random.draw())
    }

    /// Whether a response of this status, which switches to nothing, would tell the client that its
    /// WebSocket is open (RFC 8441, section 5).
    pub(crate) fn would_seem_switched(&self, status: u16) -> bool {
        self.asks_by_stream() && (200..300).contains(&status)
    }

    /// Whether a stream is to become a WebSocket: its client knows nothing of what HTTP/1 says.
    pub(crate) fn asks_by_stream(&self) -> bool {
        let is_stream = matches!(self.client.socket, Socket::Stream(_) | Socket::Quic(_));
        is_stream && self.request.upgrade
    }

    /// How the connection is closed behind a response that has gone out whole. Where something of
    /// the client is unread the kernel would reset it, and drop what of the response is still to go
    /// (RFC 9112, section 9.6). That is looked for where it costs nothing, or behind more than the
    /// client has got at once.
    pub(crate) fn closing(&self) -> Next {
        let Peer { socket, rest } = &*self.client;
        let looks = socket.is_watched() || self.record.bytes > FIRST_FLIGHT;
        let has_unread = !rest.is_empty() || looks && socket.has_unread();
        if has_unread { Next::Linger } else { Next::Close }
    }

    /// Gives the response of a rule.
    pub(super) async fn reply(&mut self, mut reply: Box<Reply>) -> (Ending, Next) {
        if self.would_seem_switched(reply.status) {
            self.count_failure(None, Reason::NoUpgrade);
            return (Ending::NoUpgrade, self.tell_failure(Ending::NoUpgrade).await);
        }
        // What an operator wants, as maintenance, has no reason and no warning.
        if let (Some(reason), true) = (reply.reason, reply.ending.is_failure()) {
            self.count_failure(None, reason);
        }
        if !self.request.cors.is_empty() {
            reply.drop_fields(Cors::is_ours);
        }
        reply.drop_fields(|name| name.eq_ignore_ascii_case(b"date"));
        let close = self.must_close();
        let to_head = self.request.method == Method::Head;
        let mut text = self.worker.buffers.take_text();
        let page = self.page(reply.status).filter(|_| reply.gives_way());
        reply.write((&self.lines_of_reply(), page), (close, to_head), &mut text);
        match self.send_answer(text, reply.status, close).await {
            Ok(next) => {
                self.record.reason = reply.reason;
                (reply.ending, next)
            }
            Err(reason) => {
                self.record.reason = Some(reason);
                (reason.ending(), Next::Close)
            }
        }
    }

    /// Sends a response of our own: why it did not go out whole, where it did not.
    async fn send_answer(
        &mut self,
        text: Vec<u8>,
        status: u16,
        close: bool,
    ) -> Result<Next, Reason> {
        self.timer.arm(self.listener_context.timeouts.idle);
        // Whoever ends this on its way has to know that part of it may have gone out.
        self.record.status = status;
        let mut sent = 0;
        let told = poll_fn(|cx| {
            let before = sent;
            let told = self.client.poll_send(cx, [&text, b""], &mut sent, self.timer);
            // Interim responses may have gone before.
            self.record.bytes += (sent - before) as u64;
            if told.is_pending() && sent > before {
                self.timer.arm_again();
            }
            told
        })
        .await;
        self.worker.buffers.give_text(text);
        if sent == 0 {
            self.record.status = 0;
        }
        told.map_err(client_gone)?;
        Ok(match (close, self.request.is_whole) {
            (false, _) => Next::KeepAlive,
            (true, true) => self.closing(),
            (true, false) => Next::Linger,
        })
    }

    /// The page for a status: that of the service, or else that of the listener.
    pub(crate) fn page(&self, status: u16) -> Option<&Page> {
        let accept = &self.request.accept;
        let service = Some(self.driver.route.settings()).filter(|_| !self.request.has_no_service);
        let of_service = service.and_then(|service| service.error_pages.find(status, accept));
        of_service.or_else(|| self.listener_context.error_pages.find(status, accept))
    }
}

/// What goes out on a new connection without waiting (RFC 6928): ten segments.
const FIRST_FLIGHT: u64 = 14 << 10;
