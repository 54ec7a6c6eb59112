//! The machine's clocks, as instants and spans of the core.

use loadline_core::time::{Duration, Instant};
use rustix::time::{ClockId, Timespec, clock_gettime};

/// Now, in nanoseconds since the machine was started.
pub(crate) fn now() -> Instant {
    Instant::ZERO + span(clock_gettime(ClockId::Monotonic))
}

/// The processor time the calling thread has used since it began.
pub(crate) fn thread_time() -> Duration {
    span(clock_gettime(ClockId::ThreadCPUTime))
}

fn span(time: Timespec) -> Duration {
    let seconds = Duration::from_secs(time.tv_sec.unsigned_abs());
    seconds + Duration::from_nanos(time.tv_nsec.unsigned_abs())
}
