//! A timer on the monotonic clock that is not late.
//!
//! tokio's timer counts whole milliseconds and rounds up: 38 ms of service would measure as 39, and
//! up to a millisecond of a generator's own lateness would stand on every request. A timerfd is a
//! high-resolution timer of the kernel without slack; it wakes the runtime through the same epoll
//! as the sockets, needs no thread, and costs two system calls each time there is something to wait
//! for.

use std::{io, os::fd::OwnedFd};

use loadline_core::time::{Duration, Instant};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::unix::AsyncFd;

use crate::clock::now;

/// Waits for instants, one at a time.
#[derive(Debug)]
pub struct Timer {
    fd: AsyncFd<OwnedFd>,
}

impl Timer {
    /// A timer on the runtime of the caller.
    ///
    /// # Errors
    /// The system's where no descriptor is left.
    #[expect(
        deprecated,
        reason = "its successor is `unsafe`, for types that may change their descriptor under \
                  the runtime; an `OwnedFd` that is never taken out cannot"
    )]
    pub fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let fd = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Ok(Self { fd: AsyncFd::new(fd)? })
    }

    /// Returns at `instant` or as soon after it as the machine allows; at once if it has passed.
    ///
    /// # Errors
    /// The system's; none is expected of a timer that could be made.
    pub async fn until(&mut self, instant: Instant) -> io::Result<()> {
        while now() < instant {
            if instant.since(now()) <= YIELD_BELOW {
                tokio::task::yield_now().await;
            } else {
                self.set(instant, YIELD_BELOW)?;
                self.expired().await?;
            }
        }
        Ok(())
    }

    /// Has it expire `lead` before `instant`; at once if that has passed. An expiry that nobody has
    /// seen is forgotten.
    ///
    /// # Errors
    /// The system's; none is expected of a timer that could be made.
    pub(crate) fn set(&self, instant: Instant, lead: Duration) -> io::Result<()> {
        // Zero would take the timer back instead of letting it expire at once.
        let wake = instant.as_nanos().saturating_sub(lead.as_nanos()).max(1);
        let value = Timespec {
            tv_sec: (wake / NANOS_PER_SEC).cast_signed(),
            tv_nsec: (wake % NANOS_PER_SEC).cast_signed(),
        };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        timerfd_settime(&self.fd, TimerfdTimerFlags::ABSTIME, &once)?;
        Ok(())
    }

    /// Returns when it has expired.
    ///
    /// # Errors
    /// The system's; none is expected of a timer that could be made.
    pub(crate) async fn expired(&self) -> io::Result<()> {
        let mut ready = self.fd.readable().await?;
        // Setting it again forgets the expiry, so it need not be read.
        ready.clear_ready();
        Ok(())
    }
}

/// The last stretch before an instant is spent looking at the sockets without sleeping: waking a
/// sleeping thread takes about this long.
const YIELD_BELOW: Duration = Duration::from_micros(20);

const NANOS_PER_SEC: u64 = 1_000_000_000;
