//! The machine's clocks, as instants and spans of the core.

use loadline_core::time::{Duration, Instant};
use rustix::time::{ClockId, Timespec, clock_gettime};

/// Now by the monotonic clock: nanoseconds since the machine was started.
#[must_use]
pub fn now() -> Instant {
    Instant::ZERO + span(clock_gettime(ClockId::Monotonic))
}

/// Time since 1970-01-01 UTC, as the machine believes.
#[must_use]
pub fn since_1970() -> Duration {
    span(clock_gettime(ClockId::Realtime))
}

/// Milliseconds since 1970-01-01 UTC, as the machine believes.
#[must_use]
pub fn unix_millis() -> u64 {
    since_1970().as_nanos() / 1_000_000
}

/// The processor time that the calling thread has used since it began.
#[must_use]
pub fn thread_time() -> Duration {
    span(clock_gettime(ClockId::ThreadCPUTime))
}

fn span(time: Timespec) -> Duration {
    let seconds = Duration::from_secs(time.tv_sec.unsigned_abs());
    seconds + Duration::from_nanos(time.tv_nsec.unsigned_abs())
}
