//! Why an attempt ends for want of a response, and whose fault that is.

use loadline_core::decide::{
    reason::{Phase, Reason},
    request::{Action, Event, Unanswered},
};

use super::Attempt;

impl Attempt<'_, '_> {
    /// What of the response is awaited.
    pub(super) const fn phase(&self) -> Phase {
        if self.connection.peer.rest.is_empty() { Phase::Await } else { Phase::Head }
    }

    /// Why the attempt ends for want of a response, if it does.
    pub(super) fn waits_in_vain(&mut self) -> Option<Reason> {
        let expired = self.exchange.timer.has_expired();
        if !expired && !self.exchange.driver.hangs() {
            return None;
        }
        let timers = &self.exchange.worker.timers;
        let now = timers.coarse_now();
        if expired && self.is_held_back() {
            self.pace.forgive(now);
            self.exchange.timer.arm_again();
            return None;
        }
        let silence = Unanswered {
            expired,
            late: timers.was_late(),
            waited: self.upload.is_over().then(|| now.since(self.asked_at)),
            limit: self.timeouts.head,
            untouched: !self.is_touched(),
            reason: self.late(),
        };
        match self.exchange.tell(now, Event::Unanswered(silence)) {
            Action::GiveUp(reason) => return Some(reason),
            Action::Await(limit) => self.exchange.timer.arm(limit),
            _ => {}
        }
        None
    }

    /// Who let the deadline pass while the response was awaited.
    pub(super) fn late(&self) -> Reason {
        match (self.upload.is_over(), self.upload.waits_for_sink()) {
            (true, _) => self.phase().timeout(),
            (false, true) => Reason::UploadTimeout,
            (false, false) => Reason::ClientTimeout,
        }
    }

    /// Whether the client is waited for, which may not go on with its request: a slow server holds
    /// what else comes on its connection.
    fn is_held_back(&self) -> bool {
        let waits_for_client = !self.upload.is_over() && !self.upload.waits_for_sink();
        waits_for_client && self.exchange.client.socket.is_held_back()
    }
}
