//! When a disk that has failed is tried again.

use crate::time::{Duration, Instant};

/// A disk as it was found last. One that has failed is left alone for twice as long each time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retry {
    failures: u32,
    next: Instant,
}

impl Retry {
    /// Notes a failure: true where it worked before.
    pub fn failed(&mut self, now: Instant) -> bool {
        let wait = FIRST * (1 << self.failures.min(DOUBLINGS));
        self.next = now + wait.min(LONGEST);
        self.failures = self.failures.saturating_add(1);
        self.failures == 1
    }

    /// Notes a success: true if the disk had failed before.
    pub fn worked(&mut self) -> bool {
        let had_failed = self.failures > 0;
        *self = Self::default();
        had_failed
    }

    /// Whether it works, as far as is known.
    #[must_use]
    pub const fn works(&self) -> bool {
        self.failures == 0
    }

    /// How long it is left alone; zero where it may be tried.
    #[must_use]
    pub const fn wait(&self, now: Instant) -> Duration {
        self.next.since(now)
    }
}

/// A fault that is over at once costs little.
const FIRST: Duration = Duration::from_secs(1);

/// What has failed for long is found to work within this.
const LONGEST: Duration = Duration::from_secs(300);

/// More than the longest wait takes.
const DOUBLINGS: u32 = 9;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_tried_again_after_twice_as_long_each_time_up_to_five_minutes() {
        let mut retry = Retry::default();
        let now = Instant::from_nanos(5);
        assert_eq!((retry.works(), retry.wait(now)), (true, Duration::ZERO));
        assert!(retry.failed(now), "it worked before");
        let mut waits = [0; 12];
        for wait in &mut waits {
            *wait = retry.wait(now).as_nanos() / 1_000_000_000;
            assert!(!retry.failed(now));
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]);
        assert!(retry.worked() && !retry.worked());
        assert_eq!((retry.works(), retry.wait(now)), (true, Duration::ZERO));
    }
}
