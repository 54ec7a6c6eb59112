//! A failed attempt, or one that its server leaves without a response: retried or not.

use alloc::boxed::Box;
use core::mem;

use crate::{
    decide::{
        controller::Input,
        ending::{Ending, Fault},
        ledger::Trouble,
        permit::Permit,
        reason::Reason,
    },
    time::Duration,
};

use super::{Action, At, Charge, Failed, Failure, Machine, Progress, State, Unanswered, shorter};

impl Machine {
    /// An attempt has failed: blames the server if it is its fault, and tries the next if the
    /// request may be sent again.
    pub(super) fn failed(&mut self, at: &At<'_>, failed: &Failed) -> Action {
        let failure = Self::failure_of(failed);
        let is_stale = self.is_stale(at, failed, failure.ending);
        let repeatable = self.is_repeatable(&failed.progress);
        if is_stale && repeatable && matches!(self.state, State::Sent(_)) {
            self.resent = true;
            return Action::Resend;
        }
        let (State::Sent(permit) | State::Moving { from: permit, .. }) =
            mem::replace(&mut self.state, State::Over)
        else {
            return Action::None;
        };
        if self.tried.last() != Some(&permit.server()) {
            self.tried.push(permit.server());
        }
        if failed.progress.committed && failure.ending.fault() != Fault::Server {
            permit.end_errors();
        }
        let crowded = if failed.progress.crowded { permit.crowded() } else { None };
        if is_stale || failure.reason == Reason::ConnectionViolated {
            // A server may close what is idle, and many connections at a time: requests that meet
            // them are lost in a row, though it takes the next. What another response on a
            // connection did is told with that one.
            permit.count_failure();
            drop(permit);
        } else {
            self.blame(at, failure, permit);
        }
        self.failure = Some(failure);
        self.untold = !failed.progress.crowded && failure.ending.is_failure();
        let is_charged = self.charge != Charge::Nothing && failure.ending.fault() != Fault::Client;
        let is_free = failed.progress.crowded || is_charged;
        if is_free || self.may_repeat(at, failure, repeatable) {
            let action = self.pick(at);
            if let (Some(server), Action::End) = (crowded, &action) {
                server.group.auto.crowd_out();
            }
            return action;
        }
        self.take_back_charge(at);
        Action::End
    }

    /// The failure of an attempt. A response that breaks off is told as such, whatever the cause.
    fn failure_of(failed: &Failed) -> Failure {
        let Failed { reason, progress } = *failed;
        let ending = match reason.ending() {
            Ending::ServerReset | Ending::TlsFailed if progress.committed => Ending::ServerCut,
            Ending::ServerBad if progress.committed => Ending::ServerBodyBad,
            // They had agreed on TLS before.
            Ending::TlsFailed if progress.reused => Ending::ServerReset,
            ending => ending,
        };
        Failure { ending, reason }
    }

    /// Whether a kept connection had been closed meanwhile, which is nobody's fault, or a shared
    /// one for what came on it for somebody else.
    fn is_stale(&self, at: &At<'_>, failed: &Failed, ending: Ending) -> bool {
        let progress = &failed.progress;
        let unheard = progress.left && !progress.heard && ending == Ending::ServerReset;
        let soon = || self.permit().is_some_and(|permit| permit.may_be_stale(at.now));
        unheard && !self.resent && (!progress.sent || soon())
    }

    fn is_repeatable(&self, progress: &Progress) -> bool {
        let undone = !progress.sent || self.subject.idempotent;
        !progress.committed && !progress.touched && undone
    }

    fn may_repeat(&mut self, at: &At<'_>, failure: Failure, repeatable: bool) -> bool {
        // A server has responded to what is no upgrade, and the others would respond alike.
        let is_over =
            failure.ending.fault() == Fault::Client || failure.reason == Reason::NoUpgrade;
        if !repeatable || is_over {
            return false;
        }
        if !failure.ending.is_unsent() {
            return self.take_retry(at);
        }
        let may = at.plan.is_some_and(|plan| plan.may_reconnect(self.retries + 1));
        if may {
            self.charge(Charge::Counted);
        }
        may
    }

    /// Takes a further attempt out of the retry budget, if it has one left.
    fn take_retry(&mut self, at: &At<'_>) -> bool {
        let may = at.plan.is_some_and(|plan| plan.may_retry(self.retries + 1, at.now));
        if may {
            self.charge(Charge::Paid);
        }
        may
    }

    pub(super) fn charge(&mut self, charge: Charge) {
        self.retries += 1;
        self.charge = charge;
    }

    /// No server was found for the attempt: it was none, and costs nothing.
    pub(super) fn take_back_charge(&mut self, at: &At<'_>) {
        let charge = mem::take(&mut self.charge);
        if charge == Charge::Nothing {
            return;
        }
        self.retries -= 1;
        if let (Charge::Paid, Some(plan)) = (charge, at.plan) {
            plan.give_back_retry();
        }
    }

    /// Gives the permit back, and counts the failure against the server if it is the server's.
    fn blame(&mut self, at: &At<'_>, failure: Failure, permit: Permit) {
        if failure.ending.fault() != Fault::Server {
            return;
        }
        let state = permit.state().clone();
        let errors = permit.fail();
        let Some(rules) = at.plan.and_then(|plan| plan.ejection) else { return };
        let errors = match failure.reason {
            // It listens, and takes the next soon.
            Reason::BacklogFull => errors,
            _ => rules.errors_after(failure.ending, errors),
        };
        if errors >= rules.errors && state.tells(Trouble::Fails) {
            let (server, reason) = (state.id(), failure.reason);
            self.report =
                Some(Box::new(Input::Failing { server, errors_in_a_row: errors, reason }));
        }
    }

    /// Whether the attempt ends for want of a response: at the deadline, or because the server
    /// hangs and the request may go elsewhere.
    pub(super) fn unanswered(&mut self, at: &At<'_>, silence: &Unanswered) -> Action {
        let watched = self.patience > Duration::ZERO;
        let hangs = self.permit().is_some_and(Permit::hangs);
        if watched && hangs && silence.untouched && self.subject.idempotent && self.take_retry(at) {
            return Action::GiveUp(Reason::Hangs);
        }
        if !silence.expired {
            return Action::None;
        }
        let waited = silence.waited.filter(|waited| {
            watched && (silence.limit == Duration::ZERO || *waited < silence.limit)
        });
        let Some(waited) = waited else { return Action::GiveUp(silence.reason) };
        if !silence.late {
            self.suspect(at);
        }
        Action::Await(shorter(silence.limit.saturating_sub(waited), self.patience))
    }

    /// Counts the wait against the server, unless it has answered others meanwhile. Only once: one
    /// slow request is no sign, however slow it is.
    fn suspect(&mut self, at: &At<'_>) {
        let is_silent = self.permit().is_some_and(|it| it.is_silent(at.now, self.patience));
        let is_counted = mem::replace(&mut self.suspects, is_silent);
        let Some(permit) = self.permit().filter(|_| is_silent && !is_counted) else { return };
        let suspicions = permit.suspect();
        let rules = at.plan.and_then(|plan| plan.ejection);
        let suspected = rules.is_some_and(|rules| suspicions >= rules.errors);
        if suspected {
            permit.state().silence.begin_hang();
        }
        if suspected && permit.state().tells(Trouble::Hangs) {
            self.report = Some(Box::new(Input::Silent { server: permit.server(), suspicions }));
        }
    }
}
