//! How much of what is harmless now and then a peer may do on a connection.
//!
//! The level L rises by 1 each time and falls by r = 10 per second, never below 0. L > 1,000 is too
//! much. It counts frames DATA without anything in them, which mean nothing (RFC 9113, 6.1) and yet
//! some peers send (CVE-2019-9518): of those it also falls by 1 with each frame that brings
//! something. And it counts streams of clients that were reset for what these did (CVE-2025-8671).

use loadline_core::time::Instant;

/// The level, and when it was last looked at.
#[derive(Debug)]
pub(super) struct Level {
    level: u64,
    at: Instant,
}

impl Level {
    pub(super) const fn new() -> Self {
        Self { level: 0, at: Instant::ZERO }
    }

    /// Lets the level fall by 1.
    pub(super) const fn lower(&mut self) {
        self.level = self.level.saturating_sub(1);
    }

    /// Lets it rise by 1; whether that is too much.
    pub(super) fn rise(&mut self, now: Instant) -> bool {
        let worn = now.since(self.at).as_nanos() / (1_000_000_000 / PER_SEC);
        if worn > 0 {
            self.level = self.level.saturating_sub(worn);
            self.at = now;
        }
        self.level += 1;
        self.level > LEVEL_MAX
    }
}

const LEVEL_MAX: u64 = 1_000;

/// How fast the level falls by itself.
const PER_SEC: u64 = 10;

#[cfg(test)]
mod tests {
    use loadline_core::time::Duration;

    use super::*;

    #[test]
    fn empty_frames_are_too_many_when_they_are_many_more_than_others() {
        let mut empty = Level::new();
        for number in 0..5_000 {
            empty.lower();
            assert!(!empty.rise(Instant::ZERO), "one with each other frame: {number}");
        }
        for number in 0..5_000 {
            let now = Instant::ZERO + Duration::from_millis(number * 100);
            assert!(!empty.rise(now), "10 a second: {number}");
        }
        let now = Instant::ZERO + Duration::from_secs(500);
        let taken = (0..2_000).filter(|_| !empty.rise(now)).count();
        assert!((990..=1_010).contains(&taken), "{taken} at once");
    }
}
