//! A counter of requests that no reader ever sees go down.

use core::sync::atomic::Ordering::Relaxed;

use crate::decide::atomic::AtomicU64;

/// Requests that were given something, in the lower 48 bits. Above them stand those that were not
/// sent after all: the next ones are not counted for them. So the count is too high by those at
/// most, and a reader never sees it fall, which would look like a restart.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestCount(AtomicU64);

impl RequestCount {
    /// Counts a request.
    pub(crate) fn add(&self) {
        let stands_for_one = |count: u64| count.checked_sub(UNSENT);
        if self.0.load(Relaxed) < UNSENT
            || self.0.fetch_update(Relaxed, Relaxed, stands_for_one).is_err()
        {
            self.0.fetch_add(1, Relaxed);
        }
    }

    /// Takes back a request that was counted.
    pub(crate) fn take_back(&self) {
        self.0.fetch_add(UNSENT, Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed) % UNSENT
    }
}

/// One request that was counted and not sent.
const UNSENT: u64 = 1 << 48;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_is_taken_back_stands_for_the_next_and_the_count_never_falls() {
        let count = RequestCount::default();
        (0..3).for_each(|_| count.add());
        for _ in 0..100 {
            count.take_back();
            assert_eq!(count.get(), 3);
            count.add();
            assert_eq!(count.get(), 3);
        }
        count.add();
        assert_eq!(count.get(), 4);
    }
}
