//! The machine's monotonic clock, and a timer on it that is not late.
//!
//! tokio's timer counts whole milliseconds and rounds up, which would put up to a millisecond of
//! the generator's own lateness on every request. A timerfd is a high-resolution timer of the
//! kernel without slack; it wakes the runtime through the same epoll as the sockets, needs no
//! thread, and costs two system calls each time there is something to wait for.

use std::{io, os::fd::OwnedFd};

use loadline_core::time::{Duration, Instant};
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};
use tokio::io::unix::AsyncFd;

/// Now, in nanoseconds since the machine was started.
pub(crate) fn now() -> Instant {
    let time = clock_gettime(ClockId::Monotonic);
    let seconds = Duration::from_secs(time.tv_sec.unsigned_abs());
    Instant::ZERO + seconds + Duration::from_nanos(time.tv_nsec.unsigned_abs())
}

/// Milliseconds since 1970-01-01 UTC, as the machine believes.
pub(crate) fn unix_millis() -> u64 {
    since_1970().as_nanos() / 1_000_000
}

/// Time since 1970-01-01 UTC, as the machine believes.
pub(crate) fn since_1970() -> Duration {
    let time = clock_gettime(ClockId::Realtime);
    Duration::from_secs(time.tv_sec.unsigned_abs())
        + Duration::from_nanos(time.tv_nsec.unsigned_abs())
}

/// CPU time that the calling thread has used.
pub(crate) fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::from_secs(time.tv_sec.unsigned_abs())
        + Duration::from_nanos(time.tv_nsec.unsigned_abs())
}

/// Waits for instants, one at a time.
pub(crate) struct Timer {
    fd: AsyncFd<OwnedFd>,
}

impl Timer {
    /// A timer on the runtime of the caller.
    ///
    /// # Errors
    /// The system's error where no descriptor is left.
    #[expect(
        deprecated,
        reason = "its successor is `unsafe`, for types that may change their descriptor under \
                  the runtime; an `OwnedFd` that is never taken out cannot"
    )]
    pub(crate) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let fd = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Ok(Self { fd: AsyncFd::new(fd)? })
    }

    /// Returns at `instant` or as soon after it as the machine allows; at once if it has passed.
    ///
    /// # Errors
    /// The system's error; none is expected of a timer that could be made.
    pub(crate) async fn until(&mut self, instant: Instant) -> io::Result<()> {
        while now() < instant {
            if instant.since(now()) <= YIELD_BELOW {
                tokio::task::yield_now().await;
            } else {
                self.sleep(instant).await?;
            }
        }
        Ok(())
    }

    async fn sleep(&mut self, instant: Instant) -> io::Result<()> {
        let wake = instant.as_nanos() - YIELD_BELOW.as_nanos();
        let value = Timespec {
            tv_sec: (wake / NANOS_PER_SEC).cast_signed(),
            tv_nsec: (wake % NANOS_PER_SEC).cast_signed(),
        };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        // Setting the timer also forgets an expiry that nobody read.
        timerfd_settime(&self.fd, TimerfdTimerFlags::ABSTIME, &once)?;
        let mut ready = self.fd.readable().await?;
        ready.clear_ready();
        Ok(())
    }
}

/// The last stretch before an instant is spent looking at the sockets without sleeping: waking a
/// sleeping thread takes about this long.
const YIELD_BELOW: Duration = Duration::from_micros(20);

const NANOS_PER_SEC: u64 = 1_000_000_000;
