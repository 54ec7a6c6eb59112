//! How a client's connection ends whose server has ended: the client still takes what the server
//! said.

use std::{
    future::poll_fn,
    task::{Context, Poll},
};

use loadline_core::time::Duration;

use super::StreamSession;
use crate::{
    io::{peer::Peer, untaken::Untaken},
    listener::handle::ConnectionGuard,
    runtime::worker::Worker,
};

impl StreamSession {
    /// Resets the client's connection, once the client has what the server said before.
    pub(super) async fn cut(mut self) {
        let (mut untaken, mut watch) = (self.untaken(), None);
        while let (Some(pause), false) = (self.pause(&mut untaken), untaken.is_nothing()) {
            let broken = self.within(pause, |client, cx| client.socket.poll_broken(cx, &mut watch));
            if broken.await.is_some() {
                break;
            }
        }
        self.client.socket.reset();
    }

    /// Reads what a client still sends to a server that has closed, and throws it away while the
    /// client takes what the server said, and for a while after: closing at once would take the
    /// last bytes from the client.
    pub(super) async fn linger(&mut self) {
        let (mut untaken, worker) = (self.untaken(), self.worker.clone());
        while let Some(pause) = self.pause(&mut untaken) {
            match self.within(pause, |client, cx| client.poll_fill(cx, &worker.buffers)).await {
                Some(Ok(buffer)) => worker.buffers.give(buffer),
                Some(Err(_)) => return,
                None => {}
            }
        }
    }

    /// What `poll` gives within this pause; none too where the client is not waited for any longer.
    async fn within<T>(
        &mut self,
        pause: Duration,
        mut poll: impl FnMut(&mut Peer, &mut Context<'_>) -> Poll<T>,
    ) -> Option<T> {
        let Self { worker, client, timer, pass, .. } = self;
        timer.arm(pause);
        poll_fn(|cx| match poll(client, cx) {
            Poll::Pending if timer.has_expired() || is_over(worker, pass) => Poll::Ready(None),
            polled => polled.map(Some),
        })
        .await
    }

    fn untaken(&self) -> Untaken {
        Untaken::of(&self.client.socket, self.worker.timers.coarse_now())
    }

    /// How long the client may be waited for until this is asked again; none if it may not be.
    fn pause(&self, untaken: &mut Untaken) -> Option<Duration> {
        let pause = untaken.pause(&self.client.socket, self.worker.timers.coarse_now(), self.idle);
        pause.filter(|_| !is_over(&self.worker, &self.pass))
    }
}

/// Whether no client is waited for any longer.
fn is_over(worker: &Worker, pass: &ConnectionGuard) -> bool {
    worker.is_stopped() || pass.listener.is_cut()
}
