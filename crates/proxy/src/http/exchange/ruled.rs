//! What has to be known of a request before anybody is asked.

use loadline_core::decide::reason::Reason;

use super::Exchange;
use crate::http::{basic_auth::Check, passwords::Busy, reply::Reply};

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

    /// Waits until it is known whether the password is right. Where it is not, the response says
    /// so, whatever another rule would have answered.
    pub(super) async fn authenticate(&mut self, check: Check) {
        let Check { shown, refusal } = check;
        let passwords = &self.worker.shared.passwords;
        let reply = match passwords.check(shown, &self.worker.passwords).await {
            Ok(true) => return,
            Ok(false) => refusal,
            Err(Busy) => {
                self.record.reason = Some(Reason::PasswordChecksBusy);
                Reply::busy()
            }
        };
        self.request.copy = None;
        self.request.reply = Some(Box::new(reply));
    }
}
