//! Switches a connection to another protocol (Upgrade, CONNECT).

use std::{future::poll_fn, mem, task::Poll};

use loadline_core::decide::{ending::Ending, reason::Reason};
use loadline_http1::{Forwarded, Known, ResponseHead, ResponseOptions, write_response};

use super::{Attempt, Done};
use crate::{
    http::exchange::{Exchange, Next},
    http2::opens_websocket,
    io::{buffer::Buffer, peer::client_gone, socket::Socket},
    tcp::tunnel::{End, tunnel},
};

impl Attempt<'_, '_> {
    /// Refuses a switch that does not say to what (RFC 9110, 15.2.2), and a response that would
    /// tell a client that its WebSocket is open, which it is not.
    pub(super) fn check_switch(&self, head: &ResponseHead, bytes: &[u8]) -> Result<(), Reason> {
        let Exchange { request, .. } = &*self.exchange;
        let seems_to_open = match head.tunnels() {
            true if !head.fields().has(Known::Upgrade) => return Err(Reason::NamelessSwitch),
            true => self.exchange.asks_by_stream() && !opens_websocket(head, bytes, &request.text),
            false => self.exchange.would_seem_switched(head.status()),
        };
        if seems_to_open { Err(Reason::NoUpgrade) } else { Ok(()) }
    }

    /// Switches to the other protocol, if the client asked for one.
    pub(super) async fn tunnel(
        &mut self,
        head: &ResponseHead,
        mut buffer: Buffer,
    ) -> Result<Done, Reason> {
        if !self.exchange.request.upgrade {
            return Err(Reason::UnaskedSwitch);
        }
        self.finish_request().await?;
        let mut text = Vec::new();
        let hsts = &self.exchange.listener_context.hsts;
        let options = ResponseOptions { hsts, ..ResponseOptions::default() };
        let forwarded = write_response(&mut text, buffer.filled(), head, options);
        let bytes = &buffer.filled()[..head.head_len()];
        if self.change_head(forwarded, bytes, &mut text) == Forwarded::Unchanged {
            text.extend_from_slice(bytes);
        }
        buffer.consume(head.head_len());
        self.connection.peer.keep(buffer, &self.exchange.worker.buffers);
        self.committed = Some(Next::Close);
        self.count_session();
        let Exchange { worker, client, timer, record, driver, .. } = &mut *self.exchange;
        record.status = head.status();
        client.send(&text, timer).await.map_err(client_gone)?;
        record.bytes += text.len() as u64;
        // In memory of its own: few requests become tunnels, and all would have room for it.
        let (server, bytes) = (&mut self.connection.peer, &mut record.bytes);
        let heard = || driver.heard_more(worker.timers.coarse_now());
        let end = Box::pin(tunnel(&worker.buffers, client, server, bytes, heard)).await;
        Ok(self.close(end))
    }

    /// Passes on how a tunnel has ended: an orderly end would make what was cut look whole (RFC
    /// 8441, section 5). As for streams of TCP, its server is not blamed where it breaks.
    fn close(&mut self, end: End) -> Done {
        let closed = Done { ending: Ending::Tunnel, next: Next::Close, reusable: false };
        match end {
            End::Closed => closed,
            End::ClientBroken => {
                mem::replace(&mut self.connection.peer.socket, Socket::NOBODY).reset();
                closed
            }
            End::ServerBroken(_) => {
                let reason = Reason::StreamReset;
                let place = self.exchange.driver.place();
                self.exchange.record.reason = Some(reason);
                self.exchange.count_failure(place.as_ref(), reason);
                Done { ending: reason.ending(), next: Next::Reset, ..closed }
            }
        }
    }

    /// Sends what is left of the request: the other protocol begins behind it (RFC 9110, 7.8).
    async fn finish_request(&mut self) -> Result<(), Reason> {
        if !self.upload.is_over() {
            self.arm();
        }
        poll_fn(|cx| {
            self.poll_upload(cx)?;
            let (client, timer) = (&mut self.exchange.client.socket, self.exchange.timer);
            match self.upload.is_over() {
                true => Poll::Ready(Ok(())),
                false if client.poll_reset(cx).is_ready() => Poll::Ready(Err(client.why_reset())),
                false if timer.has_expired() => Poll::Ready(Err(self.late())),
                false => Poll::Pending,
            }
        })
        .await?;
        match self.unfinished {
            None if self.upload.is_complete() => Ok(()),
            reason => Err(reason.unwrap_or(Reason::BrokenPipe)),
        }
    }
}
