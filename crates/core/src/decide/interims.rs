//! How many interim responses a server may send before its response.
//!
//! A server that works for long may say so every now and then (102), for as long as it takes, but
//! one that sends nothing else keeps everybody on the way busy. So each counts for `EVERY` of
//! time, and what was not used is saved up to `SAVED_MAX`: 32 at once, and 32 a second.

use crate::time::{Duration, Instant};

/// The interim responses to one request.
#[derive(Clone, Copy, Debug)]
pub struct Interims {
    /// Until when those that came have used up the time.
    used: Instant,
}

impl Interims {
    /// None has come yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { used: Instant::ZERO }
    }

    /// Whether one that comes at `now` is not one too many.
    pub fn admit(&mut self, now: Instant) -> bool {
        self.used = self.used.max(now) + EVERY;
        self.used.since(now) <= SAVED_MAX
    }
}

impl Default for Interims {
    fn default() -> Self {
        Self::new()
    }
}

/// Far more often than anybody wants to hear of progress.
const EVERY: Duration = Duration::from_micros(31_250);

/// More than any server sends at once: 32 times [`EVERY`].
const SAVED_MAX: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of those that come every `pause` are admitted, of 1,000 at most.
    fn admitted(pause: Duration) -> u64 {
        let mut interims = Interims::new();
        let at = |n: u64| Instant::ZERO + Duration::from_secs(9) + pause * n;
        (0..1_000).find(|n| !interims.admit(at(*n))).unwrap_or(1_000)
    }

    #[test]
    fn a_server_may_tell_of_its_progress_for_as_long_as_it_works() {
        assert_eq!(admitted(Duration::from_millis(50)), 1_000);
        assert_eq!(admitted(EVERY), 1_000);
    }

    #[test]
    fn a_server_that_sends_nothing_else_is_stopped() {
        assert_eq!(admitted(Duration::ZERO), 32);
        assert_eq!(admitted(Duration::from_micros(15_625)), 63);
    }
}
