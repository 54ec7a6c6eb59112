//! A server that hangs: it takes requests and answers none.
//!
//! Checks find that out after seconds. The requests themselves know earlier: one that has waited
//! for `P = max(floor, 10 * mean latency)`, while its server answered nobody, *suspects* the
//! server, once, however much longer it waits. So one slow request is no sign, not on a quiet
//! server either; as many in a row as there may be errors are (`ejection.errors`). A response to
//! anybody clears them all.
//!
//! ```text
//! answering --a request waits P, no response to anybody--> suspected --errors requests--> out
//!     ^------------------- a response to anybody -------------'
//! ```
//!
//! Back from its time out, suspicions still stand: a single request that waits in vain takes the
//! server out again.

use core::sync::atomic::Ordering::Relaxed;

use crate::{
    decide::atomic::{AtomicBool, AtomicU32, AtomicU64},
    time::{Duration, Instant},
};

/// Whether a server has answered anybody lately.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stall {
    /// When it last answered, in nanoseconds.
    heard_at: AtomicU64,
    suspicions: AtomicU32,
    /// It was taken out for its silence.
    out: AtomicBool,
}

impl Stall {
    /// It answered somebody.
    pub(crate) fn heard(&self, now: Instant) {
        self.heard_at.store(now.as_nanos(), Relaxed);
        if self.suspicions.load(Relaxed) != 0 {
            self.suspicions.store(0, Relaxed);
            self.out.store(false, Relaxed);
        }
    }

    /// When it last answered; the origin before the first time.
    pub(crate) fn heard_at(&self) -> Instant {
        Instant::from_nanos(self.heard_at.load(Relaxed))
    }

    /// Whether it has answered nobody for the whole patience.
    pub(crate) fn is_silent(&self, now: Instant, patience: Duration) -> bool {
        now.since(self.heard_at()) >= patience
    }

    /// One request more has waited in vain while it was silent: how many suspect the server now.
    pub(crate) fn suspect(&self) -> u32 {
        self.suspicions.fetch_add(1, Relaxed) + 1
    }

    /// Takes note that the server is out for its silence, or back.
    pub(crate) fn set_out(&self, out: bool) {
        self.out.store(out, Relaxed);
    }

    /// Whether whoever waits for this server does better elsewhere.
    pub(crate) fn is_out(&self) -> bool {
        self.out.load(Relaxed)
    }
}

/// How long a server may answer nobody; zero, that is for ever, where nothing is known of it or
/// the floor is zero.
pub(crate) fn patience(floor: Duration, latency: Duration) -> Duration {
    if floor == Duration::ZERO || latency == Duration::ZERO {
        return Duration::ZERO;
    }
    floor.max(latency * USUAL_TIMES)
}

/// Ten times the usual latency without any response happens to no server that works, short of a
/// pause of its runtime, for which the floor is.
const USUAL_TIMES: u64 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn at(ms: u64) -> Instant {
        Instant::ZERO + MS * ms
    }

    #[test]
    fn a_slow_request_beside_others_that_are_answered_is_no_suspicion() {
        let silence = Stall::default();
        silence.heard(at(900));
        assert!(!silence.is_silent(at(1_000), MS * 500));
        assert!(silence.is_silent(at(1_400), MS * 500));
    }

    #[test]
    fn suspicions_add_up_until_anybody_is_answered() {
        let silence = Stall::default();
        silence.heard(at(100));
        assert_eq!((silence.suspect(), silence.suspect()), (1, 2));
        silence.set_out(true);
        silence.heard(at(5_000));
        assert!(!silence.is_out());
        assert_eq!(silence.suspect(), 1);
    }

    #[test]
    fn patience_follows_the_latency_and_needs_to_know_it() {
        let floor = MS * 500;
        assert_eq!(patience(floor, MS * 20), floor);
        assert_eq!(patience(floor, MS * 380), MS * 3_800);
        assert_eq!(patience(floor, Duration::ZERO), Duration::ZERO);
        assert_eq!(patience(Duration::ZERO, MS * 20), Duration::ZERO);
    }
}
