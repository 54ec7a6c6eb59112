//! What has to be known of a request before anybody is asked.

use loadline_core::decide::reason::Reason;

use super::Exchange;
use crate::http::{basic_auth::Check, passwords::Busy, reply::Reply};

impl Exchange<'_> {
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
