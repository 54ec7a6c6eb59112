//! Cuts a request that is in flight at the end of a drain.

use std::{future::poll_fn, mem, pin::pin, task::Poll};

use loadline_core::decide::ending::Ending;

use super::{Exchange, Next};

impl Exchange<'_> {
    /// Answers the request, until its listener cuts what is left.
    pub(crate) async fn run_unless_cut(&mut self) -> Next {
        let (worker, listener) = (self.worker, self.listener);
        let is_mirrored = self.request.is_mirrored();
        // A drain waits for clients, and a copy has none.
        let is_cut = || listener.is_cut() || (is_mirrored && worker.is_leaving(listener));
        let answered = {
            let (mut answered, mut has_begun) = (pin!(self.run()), false);
            poll_fn(|cx| {
                // Before anything else: a connection that many share is cut as well, and that is
                // not its client's doing.
                let is_over = worker.is_stopped() || is_cut();
                if mem::replace(&mut has_begun, true) && is_over {
                    return Poll::Ready(None);
                }
                match answered.as_mut().poll(cx) {
                    Poll::Pending if is_cut() => Poll::Ready(None),
                    answered => answered.map(Some),
                }
            })
            .await
        };
        match answered {
            Some(next) => next,
            None => Box::pin(self.cut()).await,
        }
    }

    /// Tells the client that there will be no response, unless part of one has gone out. A client
    /// that does not take that at once is not waited for.
    async fn cut(&mut self) -> Next {
        if self.record.status != 0 {
            return Next::Reset;
        }
        let next = {
            let mut told = pin!(self.tell_failure(Ending::Drained));
            poll_fn(|cx| match told.as_mut().poll(cx) {
                Poll::Pending => Poll::Ready(Next::Reset),
                told => told,
            })
            .await
        };
        self.end(Ending::Drained);
        next
    }
}
