//! Authentication and ACME challenges: what an exchange waits for before a server is chosen.

use std::{
    future::poll_fn,
    pin::{Pin, pin},
    task::Poll,
};

use loadline_core::{decide::reason::Reason, rules::ForwardAuth};

use super::Exchange;
use crate::http::{
    basic_auth,
    forward_auth::{self, Asking},
    jwt::{Away, Pending},
    passwords::Busy,
    reply::Reply,
    rules::Check,
};

impl Exchange<'_> {
    /// Answers an authority of whose token another edge was told, whatever a rule would have
    /// answered.
    pub(super) async fn look_up_challenge(&mut self, path: &[u8]) {
        let found = self.worker.shared.challenges.look_up(path).await;
        if let Some(reply) = found {
            (self.request.check, self.request.copy, self.request.wanted) = (None, None, None);
            self.request.reply = Some(Box::new(reply));
        }
    }

    /// Waits until it is known who is asking. Where that does not come out as it should, the
    /// response says so, whatever another rule would have answered.
    pub(super) async fn authenticate(&mut self, check: Check) {
        let refusal = match check {
            Check::Password(check) => self.check_password(*check).await,
            Check::Token(pending) => self.check_token(&pending).await,
            Check::Service(check) => self.ask_service(*check).await,
        };
        self.has_waited();
        if let Err(reply) = refusal {
            self.request.copy = None;
            self.request.reply = Some(reply);
        }
    }

    /// A wait is over, for which no server is to be blamed.
    pub(super) fn has_waited(&mut self) {
        let now = self.worker.shared.clock.now();
        self.record.times.wait_again(now.since(self.request.received));
        self.request.received = now;
    }

    /// Asks a service. In memory of its own, since what asks is an exchange as well.
    async fn ask_service(&mut self, check: forward_auth::Check) -> Result<(), Box<Reply>> {
        let auth = check.auth.clone();
        self.watch_client();
        let Self { worker, listener, listener_context, client, request, driver, .. } = self;
        let asking = Asking { worker, listener, listener_context, view: driver.route.view() };
        let mut asked: Pin<Box<dyn Future<Output = _> + '_>> = Box::pin(check.ask(request, asking));
        let answered = poll_fn(|cx| match asked.as_mut().poll(cx) {
            Poll::Pending if client.socket.poll_reset(cx).is_ready() => Poll::Ready(Err(())),
            answered => answered.map(Ok),
        });
        let response = match answered.await {
            Ok(Some(response)) => response,
            Ok(None) => return Err(Box::new(Reply::busy(Reason::AuthServiceFailed))),
            Err(()) => return Err(Box::new(Reply::unwanted())),
        };
        drop(asked);
        if !ForwardAuth::lets_in(response.status()) {
            let own = [&self.worker.date.now()[..], &self.own_lines()].concat();
            return Err(Box::new(Reply::of_service(&response, &own)));
        }
        self.request.change_head(&auth.copied(response.fields()));
        Ok(())
    }

    async fn check_password(&mut self, check: basic_auth::Check) -> Result<(), Box<Reply>> {
        let basic_auth::Check { shown, refusal } = check;
        let worker = self.worker;
        let mut checked = pin!(worker.shared.passwords.check(shown, &worker.passwords));
        let answered = poll_fn(|cx| match checked.as_mut().poll(cx) {
            Poll::Pending => {
                self.watch_client();
                self.client.socket.poll_reset(cx).map(|()| None)
            }
            answered => answered.map(Some),
        });
        match answered.await {
            Some(Ok(true)) => Ok(()),
            Some(Ok(false)) => Err(Box::new(refusal)),
            Some(Err(Busy)) => Err(Box::new(Reply::busy(Reason::PasswordChecksBusy))),
            None => Err(Box::new(Reply::unwanted())),
        }
    }

    async fn check_token(&mut self, pending: &Pending) -> Result<(), Box<Reply>> {
        // A token that is not verified may name anybody.
        self.log_user(b"");
        let (tokens, all) = (&self.worker.tokens, &self.worker.shared.fetched_keys);
        match pending.verify(tokens, all).await {
            Ok(Ok(claims)) => {
                let mut user = Vec::new();
                claims.write("sub", &mut user);
                self.log_user(&user);
                Ok(())
            }
            Ok(Err(refusal)) => Err(Box::new(Reply::refused(&pending.jwt, refusal))),
            Err(Away) => Err(Box::new(Reply::busy(Reason::TokenKeysAway))),
        }
    }

    fn log_user(&mut self, user: &[u8]) {
        if let Some(asked) = &mut self.request.asked {
            asked.set_user(user);
        }
    }
}
