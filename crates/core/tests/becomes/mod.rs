//! What comes to hold in another thread or process, a moment after it was caused.

use std::{
    thread,
    time::{Duration, Instant},
};

/// Whether something comes to hold, within more than it takes.
pub(crate) fn becomes(mut holds: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + Duration::from_secs(20);
    while Instant::now() < deadline {
        if holds() {
            return true;
        }
        thread::yield_now();
    }
    false
}
