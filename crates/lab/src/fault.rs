//! Faults on purpose, for the tools that must notice them.
//!
//! A fault strikes when the work of a request is done and its response is due: work costs what it
//! costs in either case, and health checks and `/stats` are never touched.

use std::sync::{
    OnceLock,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use loadline_core::{
    time::{Duration, Instant},
    units::Ratio,
};

/// How a worker misbehaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// No response goes out for a while, as in a long collection of garbage; all of them at its
    /// end.
    Stall {
        /// When it begins, counted from the first request.
        after: Duration,
        /// How long it takes.
        lasts: Duration,
    },
    /// Every response has this status.
    Status(u16),
    /// No response ever goes out; the connection stays open.
    Hang,
    /// This share of the responses is a reset of the connection, spread evenly.
    Reset(Ratio),
}

/// What happens to a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultOutcome {
    /// The response is sent.
    Sent,
    /// The response is sent at this instant.
    Held(Instant),
    /// Another one goes out, of this status.
    Replaced(u16),
    /// Nothing goes out.
    Withheld,
    /// The connection is reset.
    Reset,
}

/// A fault and how far it has come.
#[derive(Debug)]
pub(crate) struct Faults {
    fault: Option<Fault>,
    first: OnceLock<Instant>,
    number: AtomicU64,
}

impl Faults {
    pub(crate) fn new(fault: Option<Fault>) -> Self {
        Self { fault, first: OnceLock::new(), number: AtomicU64::new(0) }
    }

    /// Notes a request that came.
    pub(crate) fn note_request(&self, now: Instant) {
        if let Some(Fault::Stall { .. }) = self.fault {
            self.first.get_or_init(|| now);
        }
    }

    /// The fate of a response that is due.
    pub(crate) fn fate(&self, now: Instant) -> FaultOutcome {
        match self.fault {
            None => FaultOutcome::Sent,
            Some(Fault::Stall { after, lasts }) => {
                let begin = *self.first.get_or_init(|| now) + after;
                let end = begin + lasts;
                if (begin..end).contains(&now) {
                    FaultOutcome::Held(end)
                } else {
                    FaultOutcome::Sent
                }
            }
            Some(Fault::Status(status)) => FaultOutcome::Replaced(status),
            Some(Fault::Hang) => FaultOutcome::Withheld,
            Some(Fault::Reset(share)) => {
                let number = self.number.fetch_add(1, Relaxed);
                let resets = share.of(number + 1) > share.of(number);
                if resets { FaultOutcome::Reset } else { FaultOutcome::Sent }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(n: u64) -> Instant {
        Instant::from_nanos(n * 1_000_000)
    }

    #[test]
    fn a_stall_holds_what_is_due_in_it_until_its_end() {
        let lasts = Duration::from_millis(200);
        let faults = Faults::new(Some(Fault::Stall { after: Duration::from_millis(100), lasts }));
        faults.note_request(ms(1_000));
        faults.note_request(ms(1_050));
        assert_eq!(faults.fate(ms(1_099)), FaultOutcome::Sent);
        assert_eq!(faults.fate(ms(1_100)), FaultOutcome::Held(ms(1_300)));
        assert_eq!(faults.fate(ms(1_299)), FaultOutcome::Held(ms(1_300)));
        assert_eq!(faults.fate(ms(1_300)), FaultOutcome::Sent);
    }

    #[test]
    fn a_share_of_resets_is_spread_evenly() {
        let fates = |percent: u32| {
            let faults = Faults::new(Some(Fault::Reset(Ratio::ppm(percent * 10_000))));
            (0..100).map(|_| faults.fate(ms(0))).collect::<Vec<_>>()
        };
        assert_eq!(
            fates(50)[..4],
            [FaultOutcome::Sent, FaultOutcome::Reset, FaultOutcome::Sent, FaultOutcome::Reset]
        );
        assert_eq!(fates(30).iter().filter(|fate| **fate == FaultOutcome::Reset).count(), 30);
        assert!(fates(100).iter().all(|fate| *fate == FaultOutcome::Reset));
        assert!(fates(0).iter().all(|fate| *fate == FaultOutcome::Sent));
    }
}
