//! The current limits of a group or a server, and what of them is used.

use crate::{
    decide::{
        budget::{Allowance, Budget},
        orca::Utilization,
        overflow_reason::OverflowReason,
    },
    time::Instant,
    units::Ratio,
};

/// What a group or a server may be given now: the capacity times scaler and health.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub rate: Option<Allowance>,
    /// [`u32::MAX`] where not limited.
    pub in_flight: u32,
    pub utilization: Option<Ratio>,
}

/// What is counted for the limits that time opens again: of rate and of utilization.
#[derive(Clone, Debug, Default)]
pub(crate) struct Admission {
    pub budget: Budget,
    pub utilization: Utilization,
}

impl Limits {
    /// No limit at all.
    #[cfg(test)]
    pub(crate) const NONE: Self = Self { rate: None, in_flight: u32::MAX, utilization: None };

    /// Whether there is a limit that time opens again.
    pub(crate) const fn is_gated(&self) -> bool {
        self.rate.is_some() || self.utilization.is_some()
    }

    /// Whether rate and utilization have room for a request; nothing is taken yet.
    pub(crate) fn has_room(&self, admission: &Admission, now: Instant) -> bool {
        if self.rate.as_ref().is_some_and(|allowance| admission.budget.ready_at(allowance) > now) {
            return false;
        }
        let is_open = self.utilization.is_none() || admission.utilization.ready_at(now) <= now;
        if !is_open {
            admission.utilization.note_full();
        }
        is_open
    }

    /// When they let the next request in, if that is later than `now`.
    pub(crate) fn ready_at(&self, admission: &Admission, now: Instant) -> Option<Instant> {
        let by_rate = self.rate.as_ref().map(|allowance| admission.budget.ready_at(allowance));
        let by_utilization = self.utilization.map(|_| admission.utilization.ready_at(now));
        by_rate.max(by_utilization).filter(|ready| *ready > now)
    }

    /// Which limit leaves no room for a request at `now`, with so many in flight.
    pub(crate) fn full_by(
        &self,
        admission: &Admission,
        in_flight: u32,
        now: Instant,
    ) -> Option<OverflowReason> {
        let is_full = |allowance| admission.budget.ready_at(allowance) > now;
        if self.rate.as_ref().is_some_and(is_full) {
            Some(OverflowReason::MaxRate)
        } else if self.utilization.is_some() && admission.utilization.ready_at(now) > now {
            Some(OverflowReason::MaxUtilization)
        } else {
            (in_flight >= self.in_flight).then_some(OverflowReason::MaxInFlight)
        }
    }

    /// Takes a request out of both, if both let it in.
    pub(crate) fn take(&self, admission: &Admission, now: Instant) -> bool {
        if self.rate.as_ref().is_some_and(|allowance| !admission.budget.take(allowance, now)) {
            return false;
        }
        if self.utilization.is_none() || admission.utilization.take(now) {
            return true;
        }
        self.rate.iter().for_each(|allowance| admission.budget.give_back(allowance));
        false
    }

    /// Gives back what [`Limits::take`] took, for a request that is not sent.
    pub(crate) fn give_back(&self, admission: &Admission) {
        self.rate.iter().for_each(|allowance| admission.budget.give_back(allowance));
        if self.utilization.is_some() {
            admission.utilization.give_back();
        }
    }
}
