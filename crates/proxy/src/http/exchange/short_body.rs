//! Reads a short body before a server is chosen, so that the request can be retried.
//!
//! Many clients write the two one after the other. A request can be sent again only if it is at
//! hand whole, so what is missing is waited for, but not for long.

use loadline_core::{decide::request::shorter, time::Duration};

use super::Exchange;
use crate::{http::request::Request, io::buffer::Buffer};

impl Exchange<'_> {
    /// Waits for what is missing of the body. If that is late it is passed on as it comes: within
    /// what is left of the client's time.
    pub(super) async fn await_body(&mut self) {
        let Self { worker, client, timer, request, listener_context, silent, .. } = self;
        timer.arm(shorter(listener_context.timeouts.idle, WAIT));
        let mut heard_at = worker.timers.coarse_now();
        while !request.body.is_finished() {
            let Ok(mut buffer) = client.fill(&worker.buffers, timer).await else { break };
            heard_at = worker.timers.coarse_now();
            request.take_body(&mut buffer);
            client.keep(buffer, &worker.buffers);
        }
        request.is_whole = request.body.is_finished();
        *silent = worker.timers.coarse_now().since(heard_at);
        self.has_waited();
    }
}

impl Request {
    /// Whether what is missing of its body is waited for before a server is asked.
    pub(super) const fn awaits_body(&self) -> bool {
        self.is_short && self.reply.is_none() && self.refused.is_none()
    }

    /// Takes what has come of the body out of `buffer`, which keeps what follows it.
    fn take_body(&mut self, buffer: &mut Buffer) {
        let missing = usize::try_from(self.body.payload_ahead()).unwrap_or(usize::MAX);
        let came = &buffer.filled()[..missing.min(buffer.filled().len())];
        self.text.extend_from_slice(came);
        self.copy = self.copy.take().and_then(|copy| copy.with(came));
        let count = came.len();
        self.body.skip(count as u64);
        buffer.consume(count);
    }
}

/// Longer than the way of a second packet from anywhere.
const WAIT: Duration = Duration::from_secs(1);
