//! Detects a server that hangs: it takes requests and answers none.
//!
//! Checks find that out after seconds. The requests themselves know earlier: one that has waited
//! for `P = max(floor, 10 * mean latency, 2 * longest latency of late)`, while its server answered
//! nobody, *suspects* the server, once, however much longer it waits. One slow request proves
//! nothing; `ejection.errors` of them in a row, with no response between, do.
//!
//! The longest latency is that of the group, since the same slow requests go to all of its servers.
//! What a hang has delayed is left out, for it says how long that lasted. Two requests that hang
//! look like two that are slow: so of each no more counts than twice the `P` that it was sent with,
//! if there was one, and 15 s at most. And where many requests are in flight they are not all of
//! the slow ones, so that their silence needs no longer.
//!
//! ```text
//! answering --a request waits P, no response to anybody--> suspected --errors requests--> out
//!     ^------------------- a response to anybody -------------'
//! ```
//!
//! Back from its time out, suspicions still stand: a single request that waits in vain takes the
//! server out again.
//!
//! A server that goes on with responses that take long, as with streams of events, does not hang.
//! That bytes came is noted without the time, as it happens so often: it counts as of when somebody
//! looks, once. What is left of a short response is left out, or each hang would be found that much
//! later.

use core::sync::atomic::Ordering::Relaxed;

use crate::{
    decide::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64},
    time::{Duration, Instant},
};

/// Whether a server has answered anybody lately.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stall {
    /// When it last answered, in nanoseconds.
    heard_at: AtomicU64,
    suspicions: AtomicU16,
    /// Whether it was ejected for its silence.
    out: AtomicBool,
    /// Whether more of a response has come since somebody last looked.
    goes_on: AtomicBool,
    hang_end: HangEnd,
}

impl Stall {
    /// Notes that the server has answered a request.
    pub(crate) fn heard(&self, now: Instant) {
        self.heard_at.store(now.as_nanos(), Relaxed);
        if self.suspicions.load(Relaxed) != 0 {
            self.suspicions.store(0, Relaxed);
            self.out.store(false, Relaxed);
        }
        self.hang_end.heard(now);
    }

    /// Notes that the server has sent more of a response that takes long.
    pub(crate) fn heard_more(&self) {
        if !self.goes_on.load(Relaxed) {
            self.goes_on.store(true, Relaxed);
        }
    }

    /// Whether a hang, which is over now, delayed the response to a request of `since`.
    pub(crate) fn has_delayed(&self, since: Instant) -> bool {
        self.hang_end.has_delayed(since)
    }

    /// When it last answered; the origin before the first time.
    pub(crate) fn heard_at(&self) -> Instant {
        Instant::from_nanos(self.heard_at.load(Relaxed))
    }

    /// Whether it has answered nobody for the whole patience, nor sent more of a response: that is
    /// taken for an answer of now.
    pub(crate) fn is_silent(&self, now: Instant, patience: Duration) -> bool {
        if now.since(self.heard_at()) < patience {
            return false;
        }
        let goes_on = self.goes_on.swap(false, Relaxed);
        if goes_on {
            self.heard(now);
        }
        !goes_on
    }

    /// One request more has waited in vain while it was silent: how many suspect the server now.
    pub(crate) fn suspect(&self) -> u32 {
        u32::from(self.suspicions.fetch_add(1, Relaxed)) + 1
    }

    /// Begins a hang: enough requests suspect one, whether or not the server may be ejected.
    pub(crate) fn begin_hang(&self) {
        self.hang_end.begin();
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

/// When a server answered again after its last hang, in seconds, the begun one counted: all bits
/// while it hangs.
#[derive(Clone, Debug, Default)]
struct HangEnd(AtomicU32);

impl HangEnd {
    /// Notes that the server hangs.
    fn begin(&self) {
        self.0.store(u32::MAX, Relaxed);
    }

    /// Notes that the server has answered a request.
    fn heard(&self, now: Instant) {
        if self.0.load(Relaxed) == u32::MAX {
            self.0.store(seconds(now).saturating_add(1), Relaxed);
        }
    }

    /// Whether the hang delayed the response to a request of `since`.
    fn has_delayed(&self, since: Instant) -> bool {
        seconds(since) < self.0.load(Relaxed)
    }
}

fn seconds(at: Instant) -> u32 {
    u32::try_from(at.as_nanos() / 1_000_000_000).unwrap_or(u32::MAX - 1)
}

/// The longest latency of late: so long a request can take though nothing hangs.
#[derive(Clone, Debug, Default)]
pub(crate) struct LongestLatency {
    nanos: AtomicU64,
    at: AtomicU64,
}

impl LongestLatency {
    /// Takes a latency of at least [`SLOW`] in.
    pub(crate) fn record(&self, now: Instant, latency: Duration) {
        let latency = latency.min(LONGEST_MAX);
        if latency >= self.at(now) {
            self.nanos.store(latency.as_nanos(), Relaxed);
            self.at.store(now.as_nanos(), Relaxed);
        }
    }

    /// The longest as of `now`; zero where none was long.
    pub(crate) fn at(&self, now: Instant) -> Duration {
        let age = now.since(Instant::from_nanos(self.at.load(Relaxed)));
        if age > MEMORY {
            return Duration::ZERO;
        }
        Duration::from_nanos(self.nanos.load(Relaxed))
    }
}

/// How long a server may answer nobody, whose mean latency and longest one of late are these; zero,
/// that is for ever, where nothing is known of it or the floor is zero.
pub(crate) fn patience(floor: Duration, latency: Duration, longest: Duration) -> Duration {
    if floor == Duration::ZERO || latency == Duration::ZERO {
        return Duration::ZERO;
    }
    floor.max(latency * USUAL_TIMES).max(longest * LONGEST_TIMES)
}

/// Ten times the usual latency without any response happens to no server that works, short of a
/// pause of its runtime, for which the floor is.
const USUAL_TIMES: u64 = 10;

/// Among a few slow requests some take longer than all before.
const LONGEST_TIMES: u64 = 2;

/// Longer ones count as this: a hang must be found though requests were very slow.
const LONGEST_MAX: Duration = Duration::from_secs(15);

/// Shorter ones are not worth a look: twice that is far below any sensible floor.
pub(crate) const SLOW: Duration = Duration::from_millis(50);

/// A response under way for so long is a stream, or is as good as one.
pub(crate) const STREAM: Duration = Duration::from_secs(1);

/// So many in flight at a server are not all slow.
pub(crate) const MANY: u32 = 16;

/// Reports that are asked for every few minutes are slow every few minutes.
const MEMORY: Duration = Duration::from_secs(600);

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
    fn a_server_that_goes_on_with_a_response_is_silent_only_when_no_more_of_it_comes() {
        let silence = Stall::default();
        silence.heard(at(100));
        assert_eq!(silence.suspect(), 1);
        silence.heard_more();
        assert!(!silence.is_silent(at(1_000), MS * 500), "an answer of now");
        assert_eq!(silence.suspect(), 1, "the first in a row");
        assert!(!silence.is_silent(at(1_400), MS * 500));
        assert!(silence.is_silent(at(1_500), MS * 500), "once");
    }

    #[test]
    fn patience_follows_the_latency_and_needs_to_know_it() {
        let floor = MS * 500;
        let never = Duration::ZERO;
        assert_eq!(patience(floor, MS * 20, never), floor);
        assert_eq!(patience(floor, MS * 380, never), MS * 3_800);
        assert_eq!(patience(floor, MS * 20, MS * 1_500), MS * 3_000);
        assert_eq!(patience(floor, Duration::ZERO, MS * 1_500), Duration::ZERO);
        assert_eq!(patience(Duration::ZERO, MS * 20, MS * 1_500), Duration::ZERO);
    }

    #[test]
    fn the_longest_latency_is_remembered_for_ten_minutes() {
        let longest = LongestLatency::default();
        longest.record(at(1_000), MS * 900);
        longest.record(at(300_000), MS * 200);
        assert_eq!(longest.at(at(601_000)), MS * 900);
        assert_eq!(longest.at(at(601_001)), Duration::ZERO);
        longest.record(at(700_000), MS * 200);
        assert_eq!(longest.at(at(700_000)), MS * 200);
        longest.record(at(700_000), MS * 40_000);
        assert_eq!(longest.at(at(700_000)), MS * 15_000, "or a hang is not found");
    }

    #[test]
    fn what_was_sent_before_the_end_of_a_hang_was_delayed_by_it() {
        let hang = HangEnd::default();
        hang.heard(at(100));
        assert!(!hang.has_delayed(at(50)));
        hang.begin();
        hang.heard(at(5_000));
        hang.heard(at(9_000));
        assert!(hang.has_delayed(at(600)) && hang.has_delayed(at(4_999)));
        assert!(!hang.has_delayed(at(6_000)));
    }
}
