//! Whether the servers work in batches: the more requests wait, the more are answered a second, and
//! many at once.
//!
//! They are known by the silence between their responses: these come by many, and next to nothing
//! of the time is spent while they do. Cores that work on requests of one size, and so end
//! together, spread theirs over a tenth of the time and more. Where these come in no time too, a
//! probe tells: with fewer in flight than there are cores, one wave of theirs comes in the time of
//! a response, and two batches do, since a request waits for the one under way before its own.
//!
//! What is special to batches while there is a limit:
//!
//! - a probe begins and ends with a batch, else it tells of up to one too many,
//! - fewer in flight bring fewer responses, so that a limit which followed the last ones would
//!   shrink by itself: it follows the most of late,
//! - the last response of a batch sees fewer in flight by the whole batch: a probe counts those
//!   that were allowed,
//! - a probe has smaller batches, which are done sooner, so that more may be in flight than it
//!   says, and still more as long as that has brought more responses.

use super::{Window, weight};

/// The last windows while a group may be full, each counting for [`REMEMBERED`] of the next.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Batches {
    seconds: f64,
    answers: f64,
    /// Seconds of silence, and how often it was.
    silent: f64,
    silences: f64,
    /// A probe has shown cores that end together.
    are_cores: bool,
    /// The most responses a second of late, and when the limit was measured last.
    best: f64,
    before: f64,
    /// These have become more since the time before: the limit may be far from deep enough.
    climbs: bool,
}

impl Batches {
    /// Takes in a window of a group that may be full, be it of a probe.
    pub(super) fn add(&mut self, window: &Window, is_probe: bool) {
        if is_probe {
            let latencies = window.seconds / (libm::exp2(window.log_latency) / 1e9);
            self.are_cores = f64::from(window.silences) < WAITING * latencies;
            return;
        }
        let add = |sum: &mut f64, value: f64| *sum = *sum * REMEMBERED + value;
        add(&mut self.seconds, window.seconds);
        add(&mut self.answers, window.answers.into());
        add(&mut self.silent, window.silent.min(window.seconds));
        add(&mut self.silences, window.silences.into());
    }

    /// Takes in that so many responses a second came with as many in flight as may be.
    pub(super) fn level(&mut self, per_sec: f64, seconds: f64) {
        let memory = if per_sec > self.best { MEMORY_OF_MORE } else { MEMORY };
        self.best += (per_sec - self.best) * weight(seconds, memory);
    }

    /// Begins with this rate.
    pub(super) fn begin(&mut self, per_sec: f64) {
        self.best = per_sec;
        self.before = 0.0;
        self.climbs = true;
    }

    /// The limit has been measured again.
    pub(super) fn probed(&mut self) {
        self.climbs = self.best > CLIMBS * self.before;
        self.before = self.best;
    }

    /// Responses a second of servers with enough to do, where they had so many last.
    pub(super) fn best(&self, per_sec: f64) -> f64 {
        if self.are_likely() { self.best.max(per_sec) } else { per_sec }
    }

    /// The share of the rate that counts as equal: whole batches show smaller differences.
    pub(super) fn same(&self, otherwise: f64) -> f64 {
        if self.are_likely() { SAME } else { otherwise }
    }

    /// How many times as many may be in flight as of servers that answer requests one by one.
    pub(super) fn deeper(&self) -> f64 {
        match (self.are_likely(), self.climbs) {
            (false, _) => 1.0,
            (true, false) => DEEPER,
            (true, true) => DEEPER_WHILE_MORE,
        }
    }

    /// Whether the servers work in batches.
    pub(super) fn are_likely(&self) -> bool {
        !self.are_cores
            && self.answers >= ENOUGH
            && self.answers >= BATCH * self.silences
            && self.silent >= SILENT * self.seconds
            && self.silent >= SILENCE_MIN * self.silences
    }
}

/// What a window counts for in the next one.
const REMEMBERED: f64 = 0.7;

/// Responses that tell enough.
const ENOUGH: f64 = 20.0;

/// Responses of a batch at least.
const BATCH: f64 = 7.0;

/// The part of the time without responses: 0.97 and more of batches, 0.5 to 0.92 of waves.
const SILENT: f64 = 0.95;

/// Seconds of a silence, on average.
const SILENCE_MIN: f64 = 0.03;

/// Batches in the time of a response, of a server that works in batches.
const WAITING: f64 = 1.25;

/// Seconds after which two thirds of the most responses a second are forgotten, and the same where
/// there are more.
const MEMORY: f64 = 30.0;
const MEMORY_OF_MORE: f64 = 1.0;

/// Share of the rate that counts as equal.
const SAME: f64 = 0.8;

/// How many times as deep the limit is: what a probe has in half of a batch takes less by this, or
/// by more where batches are far from full.
const DEEPER: f64 = 1.2;
const DEEPER_WHILE_MORE: f64 = 1.6;

/// So many times as many responses a second as when the limit was measured last are more.
const CLIMBS: f64 = 1.1;

#[cfg(test)]
mod tests {
    use super::*;

    /// Four waves of 32 responses, 150 ms each, of which this part is silent; each response took
    /// this many seconds.
    fn window(silent: f64, latency: f64) -> Window {
        Window {
            seconds: 0.6,
            answers: 128,
            failures: 0,
            asked: 200.0,
            log_latency: libm::log2(latency * 1e9),
            awaiting: 60.0,
            awaiting_now: 60.0,
            held: 0.0,
            was_full: true,
            was_turned_away: true,
            was_crowded: false,
            lag: 0.0,
            silences: 4,
            silent: silent * 0.6,
        }
    }

    #[test]
    fn responses_that_come_over_a_tenth_of_the_time_are_no_batches() {
        for (silent, are_batches) in [(0.98, true), (0.9, false)] {
            let mut batches = Batches::default();
            batches.add(&window(silent, 0.3), false);
            assert_eq!(batches.are_likely(), are_batches, "{silent} of the time");
        }
    }

    #[test]
    fn waves_that_last_as_long_as_a_response_in_a_probe_are_those_of_cores() {
        for (latency, are_batches) in [(0.3, true), (0.15, false)] {
            let mut batches = Batches::default();
            batches.add(&window(1.0, 0.3), false);
            batches.add(&window(1.0, latency), true);
            assert_eq!(batches.are_likely(), are_batches, "{latency} s a response");
        }
    }
}
