//! The one place where the machine's clock becomes the core's [`Instant`].

use std::time;

use loadline_core::time::{Duration, Instant};

/// A monotonic clock with its own origin; copies tell the same time.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: time::Instant,
}

impl Clock {
    /// A clock whose origin is now.
    #[must_use]
    pub fn start() -> Self {
        Self { origin: time::Instant::now() }
    }

    /// The time. Reading it is a call into the kernel's page of about 25 ns: a request does so at
    /// most three times (its head, the head of the response, the end).
    #[must_use]
    pub fn now(&self) -> Instant {
        let elapsed = self.origin.elapsed();
        Instant::ZERO + Duration::from_std(elapsed)
    }

    /// `instant` on tokio's clock, for the few waits that must be precise.
    pub(crate) fn to_tokio(self, instant: Instant) -> tokio::time::Instant {
        let since = instant.since(Instant::ZERO).to_std().min(FAR);
        tokio::time::Instant::from_std(self.origin + since)
    }
}

/// A century: far enough to be never, near enough not to overflow.
const FAR: time::Duration = time::Duration::from_secs(100 * 365 * 86_400);
