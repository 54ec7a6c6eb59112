//! How much of a request is still read and discarded after its response.
//!
//! A client may be told something before it has sent all of its request: 403, 413, 429, a redirect.
//! Many read that only when they have sent everything, and a reset that comes while they send takes
//! the response from them, in HTTP/1 (RFC 9112, 9.6) as over HTTP/2, where the reset of the stream
//! is allowed (RFC 9113, 8.1) and yet loses the response to curl 7.88 and httpx. So what they send
//! goes on being read, as nginx does (`lingering_close`), while they send without a pause of
//! [`PAUSE_MAX`], for at most [`TIME_MAX`] and [`BYTES_MAX`]. Those who send for ever are cut.

use crate::time::{Duration, Instant};

/// What may still be read of a request that has its response.
#[derive(Clone, Copy, Debug)]
pub struct Linger {
    until: Instant,
    pause: Duration,
    /// Bytes that may still come.
    left: u64,
}

impl Linger {
    /// Begins at `now`, for a client that may be silent for `idle` within a message; zero is for
    /// ever.
    #[must_use]
    pub fn new(now: Instant, idle: Duration) -> Self {
        let pause = if idle == Duration::ZERO { PAUSE_MAX } else { idle.min(PAUSE_MAX) };
        Self { until: now + TIME_MAX, pause, left: BYTES_MAX }
    }

    /// How long to wait for more at `now`, `bytes` having come since this was last asked; none when
    /// it is enough.
    pub fn wait(&mut self, now: Instant, bytes: u64) -> Option<Duration> {
        self.left = self.left.saturating_sub(bytes);
        let time = self.until.since(now);
        (self.left > 0 && time > Duration::ZERO).then_some(time.min(self.pause))
    }
}

/// Without a byte: longer than the network loses and repeats a packet. What nginx waits.
pub const PAUSE_MAX: Duration = Duration::from_secs(5);

/// In all: 10 MB at 3 Mbit/s. What nginx waits.
pub const TIME_MAX: Duration = Duration::from_secs(30);

/// Bytes of a body that are still read after the response: three times the usual upload limits, so
/// that a body slightly over them is read to its end.
pub const BYTES_MAX: u64 = 32 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn a_client_that_pauses_is_waited_for_as_long_as_its_idle_time_and_five_seconds_at_most() {
        let wait = |idle| Linger::new(at(0), idle).wait(at(0), 0);
        assert_eq!(wait(Duration::from_secs(60)), Some(PAUSE_MAX));
        assert_eq!(wait(Duration::from_secs(1)), Some(Duration::from_secs(1)));
        assert_eq!(wait(Duration::ZERO), Some(PAUSE_MAX));
    }

    #[test]
    fn a_client_that_drips_is_cut_after_thirty_seconds() {
        let mut linger = Linger::new(at(0), Duration::ZERO);
        for second in 0..30 {
            let wait = linger.wait(at(second * 1_000), 1);
            assert_eq!(wait, Some(PAUSE_MAX.min(Duration::from_secs(30 - second))));
        }
        assert_eq!(linger.wait(at(30_000), 1), None);
    }

    #[test]
    fn a_client_that_sends_for_ever_is_cut_after_so_many_bytes() {
        let mut linger = Linger::new(at(0), Duration::ZERO);
        assert!(linger.wait(at(0), BYTES_MAX - 1).is_some());
        assert_eq!(linger.wait(at(0), 1), None);
        assert_eq!(linger.wait(at(0), u64::MAX), None);
    }
}
