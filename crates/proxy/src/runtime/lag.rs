//! How long events wait until a worker hears of them: the lag of its event loop.

use std::{cell::Cell, time};

use loadline_core::time::Duration;

/// The lag as ticks show it, each of which comes late by as much as any event. It fades by half
/// from tick to tick.
#[derive(Debug, Default)]
pub(crate) struct Lag(Cell<time::Duration>);

impl Lag {
    /// A tick came so late.
    pub(super) fn observe(&self, late: time::Duration) {
        let late = late.saturating_sub(IDLE);
        self.0.set(late.max(self.0.get() / 2));
    }

    /// What it is now.
    pub(crate) fn get(&self) -> Duration {
        Duration::from_std(self.0.get())
    }
}

/// Ticks come late by so much where nothing else is to be done: timers are of whole milliseconds.
const IDLE: time::Duration = time::Duration::from_millis(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tick_that_comes_late_is_remembered_for_some_ticks_and_one_in_time_is_none() {
        let lag = Lag::default();
        let mut after = |millis| {
            lag.observe(time::Duration::from_millis(millis));
            lag.get().as_nanos() / 1_000_000
        };
        assert_eq!([1, 42, 1, 1].map(&mut after), [0, 40, 20, 10]);
        (0..30).for_each(|_| _ = after(1));
        assert_eq!(after(2), 0);
    }
}
