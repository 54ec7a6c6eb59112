//! The time that a client still has for the body of its request (`body_rate`).
//!
//! The rule is that of Apache's `mod_reqtimeout`: a body may take `head + bytes / body_rate`, so
//! that whoever sends a byte a second is cut although each byte restarts `idle`. Counted is only
//! the time in which the client was waited for: that a server reads slowly is no fault of its own.

use std::mem;

use loadline_core::{
    decide::request::shorter,
    fleet::ClientTimeouts,
    time::{Duration, Instant},
    units::BitRate,
};

/// What a client has taken so far. States: the client is waited for, or the server is.
#[derive(Debug, Default)]
pub(crate) struct BodyPace {
    waited: Duration,
    /// Since when the client is waited for; none while it is the server.
    since: Option<Instant>,
    /// For how long it had sent nothing before it was waited for here.
    silent: Duration,
}

impl BodyPace {
    /// What a client has taken that has been waited for already, and sent nothing, for so long.
    pub(crate) const fn of_silent(silent: Duration) -> Self {
        Self { waited: silent, since: None, silent }
    }

    /// How long the client may be waited for from `now` on, `bytes` of its body having come. None
    /// where its time is over: the deadline set before holds. Zero is for ever.
    pub(crate) fn wait(
        &mut self,
        now: Instant,
        limits: &ClientTimeouts,
        bytes: u64,
    ) -> Option<Duration> {
        let idle = match limits.idle {
            Duration::ZERO => Duration::ZERO,
            idle => idle.saturating_sub(mem::take(&mut self.silent)).max(Duration::from_nanos(1)),
        };
        if limits.body_rate == BitRate::default() {
            return Some(idle);
        }
        let went_on = self.since.is_some();
        self.pause(now);
        self.since = Some(now);
        let grace = if limits.head == Duration::ZERO { GRACE } else { limits.head };
        let allowed = grace.as_nanos().saturating_add(nanos(bytes, limits.body_rate));
        match allowed.saturating_sub(self.waited.as_nanos()) {
            0 if went_on => None,
            left => Some(shorter(idle, Duration::from_nanos(left.max(1)))),
        }
    }

    /// Notes that until `now` the client was not allowed to send.
    pub(crate) fn forgive(&mut self, now: Instant) {
        self.since = self.since.map(|_| now);
    }

    /// Notes that from `now` on it is the server that is waited for.
    pub(crate) fn pause(&mut self, now: Instant) {
        if let Some(since) = self.since.take() {
            let waited = self.waited.as_nanos().saturating_add(now.since(since).as_nanos());
            self.waited = Duration::from_nanos(waited);
        }
    }
}

/// What `bytes` take at `rate`, which is above zero.
fn nanos(bytes: u64, rate: BitRate) -> u64 {
    let nanos = u128::from(bytes) * 8_000_000_000 / u128::from(rate.bits_per_sec().max(1));
    u64::try_from(nanos).unwrap_or(u64::MAX)
}

/// Grace period where heads may take any time: the default limit of heads.
const GRACE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn limits() -> ClientTimeouts {
        ClientTimeouts { body_rate: BitRate::new(8_000), ..ClientTimeouts::default() }
    }

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + SECOND * seconds
    }

    #[test]
    fn without_a_rate_every_byte_restarts_the_time() {
        let mut pace = BodyPace::default();
        let limits = ClientTimeouts::default();
        assert_eq!(pace.wait(at(0), &limits, 0), Some(limits.idle));
        assert_eq!(pace.wait(at(5_000), &limits, 1), Some(limits.idle));
    }

    #[test]
    fn a_body_that_drips_is_over_when_its_grace_is_and_one_that_flows_is_not() {
        let (mut drips, mut flows) = (BodyPace::default(), BodyPace::default());
        assert_eq!(drips.wait(at(0), &limits(), 0), Some(SECOND * 10));
        assert_eq!(flows.wait(at(0), &limits(), 0), Some(SECOND * 10));
        assert_eq!(drips.wait(at(9), &limits(), 9), Some(Duration::from_millis(1_009)));
        assert_eq!(flows.wait(at(9), &limits(), 9_000), Some(SECOND * 10));
        assert_eq!(drips.wait(at(11), &limits(), 11), None, "and no byte restarts it");
        assert_eq!(flows.wait(at(18), &limits(), 80_000), Some(SECOND * 60), "but idle holds");
    }

    #[test]
    fn silence_before_a_server_was_asked_is_part_of_the_time_once() {
        let second_of_silence = || BodyPace::of_silent(SECOND);
        let idle = |idle| ClientTimeouts { idle, ..ClientTimeouts::default() };
        let mut pace = second_of_silence();
        assert_eq!(pace.wait(at(1), &idle(SECOND * 3), 0), Some(SECOND * 2));
        assert_eq!(pace.wait(at(2), &idle(SECOND * 3), 1), Some(SECOND * 3), "it goes on");
        let over = Some(Duration::from_nanos(1));
        assert_eq!(second_of_silence().wait(at(1), &idle(SECOND), 0), over);
        let for_ever = idle(Duration::ZERO);
        assert_eq!(second_of_silence().wait(at(1), &for_ever, 0), Some(Duration::ZERO));
        assert_eq!(second_of_silence().wait(at(1), &limits(), 0), Some(SECOND * 9), "by its rate");
    }

    #[test]
    fn time_that_the_server_takes_is_not_the_clients() {
        let mut pace = BodyPace::default();
        pace.wait(at(0), &limits(), 0);
        pace.pause(at(4));
        assert_eq!(pace.wait(at(1_000), &limits(), 0), Some(SECOND * 6));
    }
}
