//! The right to send one request to one server.
//!
//! Dropping a permit gives the capacity back, on every path: answered, failed, cancelled.

use alloc::sync::Arc;
use core::{cell::Cell, net::SocketAddr, sync::atomic::Ordering::Relaxed};

use crate::{
    decide::{
        ledger::{ServerId, ServerState, release},
        overflow_reason::OverflowReason,
    },
    health::stall,
    time::{Duration, Instant},
    units::Ratio,
};

/// The right to send one request to one server.
#[derive(Debug)]
#[must_use = "a dropped permit gives its capacity back at once"]
pub struct Permit {
    pub(crate) server: Arc<ServerState>,
    pub(crate) since: Instant,
    pub(crate) terms: PermitContext,
    /// Whether it counts among the requests of its group that wait for a response.
    awaits: Cell<bool>,
}

/// Under which circumstances the permit was given.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PermitContext {
    /// Index of the group in the service, as in the file.
    pub group: u16,
    /// Index of the server in the group, as in the file.
    pub server: u16,
    /// Why it went past the nearest group, if it did.
    pub overflow: Option<OverflowReason>,
    /// Whether it is beyond what the group may be given.
    pub over_capacity: bool,
    /// Whether the policy needs the peak latency.
    pub tracks_peak: bool,
    /// Requests that were ahead of it, for policies that learn how fast servers are beside each
    /// other.
    pub ahead: Option<u32>,
    /// Whether the group's limit is found while requests are served.
    pub finds_limit: bool,
    /// Whether the server's share of 5xx is compared with that of the others.
    pub compares_5xx: bool,
    pub server_utilization: Option<Ratio>,
    pub group_utilization: Option<Ratio>,
}

impl Permit {
    /// A permit for a place that is taken.
    pub(crate) const fn new(
        server: Arc<ServerState>,
        since: Instant,
        terms: PermitContext,
    ) -> Self {
        Self { server, since, terms, awaits: Cell::new(terms.finds_limit) }
    }

    /// The server to send to.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// The server's number.
    #[must_use]
    pub fn server(&self) -> ServerId {
        self.server.id()
    }

    /// What is counted of the server.
    #[must_use]
    pub fn state(&self) -> &Arc<ServerState> {
        &self.server
    }

    /// Index of the group in its service and of the server in the group, as in the file.
    #[must_use]
    pub fn place(&self) -> (usize, usize) {
        (usize::from(self.terms.group), usize::from(self.terms.server))
    }

    /// Whether the request left the nearest group since that is full or out.
    #[must_use]
    pub fn is_overflow(&self) -> bool {
        self.terms.overflow.is_some()
    }

    /// Why the request left the nearest group; none where it did not.
    #[must_use]
    pub fn overflow_reason(&self) -> Option<OverflowReason> {
        self.terms.overflow
    }

    /// When the permit was given.
    #[must_use]
    pub fn since(&self) -> Instant {
        self.since
    }

    /// Records that the head of a response came that is not a 5xx, or that a connection stands: the
    /// server is alive, and this fast.
    pub fn answered(&self, now: Instant) {
        let latency = now.since(self.since);
        self.heard(now, latency);
        if self.server.errs.load(Relaxed) {
            self.server.errs.store(false, Relaxed);
        }
    }

    /// Learns how long a request can take without a hang, given the `patience` with its server. At
    /// most twice the patience counts: a few requests that hang look like slow ones. All counts
    /// where nothing was known, so that the patience was zero, for ever.
    pub(crate) fn learn_longest(&self, now: Instant, patience: Duration) {
        let took = now.since(self.since);
        let latency = if patience == Duration::ZERO { took } else { took.min(patience * 2) };
        if latency >= stall::SLOW && !self.server.silence.has_delayed(self.since) {
            self.server.group.longest.record(now, latency);
        }
    }

    /// Records that the response is a good one, so that its latency says how full the group is.
    /// Failures are left out: they are often fast, and would make a broken server look empty. The
    /// response has waited for this edge, up to `lag` or so. True if the controller is to be told
    /// ([`Input::Limit`](crate::decide::controller::Input::Limit)).
    #[must_use = "the controller says when a limit begins and ends"]
    pub fn answered_well(&self, now: Instant, lag: Duration) -> bool {
        self.awaits.replace(false) && self.server.group.auto.answered(now, self.since, lag)
    }

    /// Records that a connection stands whose bytes mean nothing here: nobody waits for a response.
    pub fn connected(&self, now: Instant) {
        self.answered(now);
        self.end_errors();
        if self.awaits.replace(false) {
            self.server.group.auto.leave();
        }
    }

    /// Records that nothing was sent, since the server has all the connections it may have: that is
    /// no failure, and no request that it was given. Gives the server where a limit is found that
    /// must hear of it if the request is refused.
    pub(crate) fn crowded(&self) -> Option<Arc<ServerState>> {
        self.server.requests.take_back();
        if self.is_overflow() {
            self.server.group.overflowed.take_back();
        }
        if self.terms.over_capacity {
            self.server.group.over_capacity.take_back();
        }
        self.awaits.replace(false).then(|| {
            self.server.group.auto.leave();
            self.server.clone()
        })
    }

    /// Records that the head of a 5xx came. Such answers are often fast, and would make a broken
    /// server look like the best one: their latency counts only where it is longer than usual. True
    /// if the controller is to be told
    /// ([`Input::Errs`](crate::decide::controller::Input::Errs)).
    #[must_use = "the controller ejects servers that answer with more 5xx than others"]
    pub fn answered_5xx(&self, now: Instant) -> bool {
        let latency = now.since(self.since);
        let usual = self.server.latency.get();
        self.heard(now, if usual > Duration::ZERO { latency.max(usual) } else { usual });
        if self.awaits.replace(false) {
            self.server.group.auto.failed();
        }
        self.server.errs.store(true, Relaxed);
        if !self.terms.compares_5xx {
            return false;
        }
        self.server.answers_5xx.fetch_add(1, Relaxed);
        // Who is given nothing more is looked at no more, and would take the word from the others.
        if self.server.is_leaving() {
            return false;
        }
        let told = &self.server.group.errors_told;
        !told.load(Relaxed) && !told.swap(true, Relaxed)
    }

    /// The server is alive; `latency` is zero where it says nothing.
    fn heard(&self, now: Instant, latency: Duration) {
        self.server.silence.heard(now);
        if self.terms.compares_5xx {
            self.server.answers.fetch_add(1, Relaxed);
        }
        if latency > Duration::ZERO {
            self.server.latency.record(latency);
            if let Some(ahead) = self.terms.ahead {
                self.server.learn(&self.server.group, ahead, latency);
            }
            if self.terms.tracks_peak {
                self.server.peak.record(now, latency);
            }
        }
    }

    /// How long the server may leave this request and all others without a response before it is
    /// suspected to hang, at least `floor`; zero where that cannot be said.
    #[must_use]
    pub fn patience(&self, floor: Duration) -> Duration {
        let own = self.server.latency.get();
        let usual = if own == Duration::ZERO { self.server.group.held.get() } else { own };
        let many = self.server.in_flight.load(Relaxed) >= stall::MANY;
        let longest = if many { Duration::ZERO } else { self.server.group.longest.at(self.since) };
        stall::patience(floor, usual, longest)
    }

    /// Records that more of the response, or of a tunnel, came: where that takes long the server
    /// does not hang.
    pub fn heard_more(&self, now: Instant) {
        if now.since(self.since) >= stall::STREAM {
            self.server.silence.heard_more();
        }
    }

    /// Whether the server has answered nobody for all of `patience`, nor sent more of a response.
    #[must_use]
    pub fn is_silent(&self, now: Instant, patience: Duration) -> bool {
        self.server.silence.is_silent(now, patience)
    }

    /// Records that this request has waited while the server was silent, and gives how many in a
    /// row have.
    #[must_use = "the controller ejects a server after a number of suspicions"]
    pub fn suspect(&self) -> u32 {
        self.server.silence.suspect()
    }

    /// Whether a failure now can be that of a kept connection which the server had closed before
    /// the request came. That shows after a round trip, and no response is faster; later, the
    /// server has worked on the request.
    #[must_use]
    pub fn may_be_stale(&self, now: Instant) -> bool {
        let longest = match self.server.latency.get() {
            Duration::ZERO => STALE_MAX,
            usual => (usual * 2).clamp(STALE_MIN, STALE_MAX),
        };
        now.since(self.since) <= longest
    }

    /// Whether the server is given nothing more ([`ServerState::is_leaving`]).
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        self.server.is_leaving()
    }

    /// Whether the request may not go on ([`ServerState::is_cut`]).
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.server.is_cut()
    }

    /// Whether the server is out because it answers nobody.
    #[must_use]
    pub fn hangs(&self) -> bool {
        self.server.silence.is_out()
    }

    /// Records how long the request took in all, and that it was no failure of the server.
    pub fn finish(self, now: Instant) {
        self.server.group.held.record(now.since(self.since));
        self.end_errors();
    }

    /// Records that the server did its part, however long the request takes yet or who ended it:
    /// its next error is the first in a row.
    pub fn end_errors(&self) {
        if self.server.errors_in_a_row.load(Relaxed) != 0 {
            self.server.errors_in_a_row.store(0, Relaxed);
        }
    }

    /// Counts a failure of the server that is none in a row, since it says nothing of the next
    /// request.
    pub(crate) fn count_failure(&self) {
        self.server.failures.fetch_add(1, Relaxed);
    }

    /// Records a failure of the server and gives how many it has had in a row.
    #[must_use = "the controller ejects a server after a number of failures"]
    pub fn fail(self) -> u32 {
        self.server.errs.store(true, Relaxed);
        self.count_failure();
        self.server.errors_in_a_row.fetch_add(1, Relaxed) + 1
    }

    /// Takes in what the server reported of its utilization.
    pub fn report_utilization(&self, now: Instant, report: Ratio) {
        self.server.admission.utilization.record(now, report, self.terms.server_utilization);
        self.server.group.admission.utilization.record(now, report, self.terms.group_utilization);
    }

    /// Takes in how many requests the server reported to have in flight, from all edges.
    pub fn report_in_flight(&self, now: Instant, in_flight: u32) {
        self.server.report_in_flight(now, in_flight);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.awaits.get() {
            self.server.group.auto.failed();
        }
        self.server.release();
        release(&self.server.group.in_flight);
    }
}

/// What a round trip may take beyond the usual latency of a server that is near.
const STALE_MIN: Duration = Duration::from_millis(100);

/// Longer than any round trip.
const STALE_MAX: Duration = Duration::from_secs(1);
