//! Outlier ejection (passive): a server whose requests fail is ejected for some time.
//!
//! ```text
//! In --errors in a row--> Out until now + time * 2^n --time over, no doubt--> In, on trial
//! ```
//! `n` counts ejections that follow each other closely. Where the service checks its servers, the
//! doubt lasts until a check has passed or the server is down: whoever answers no check is given no
//! requests, which would find that out only by waiting for a connection in vain. Back in, the
//! server's count of errors in a row still stands, so that one more failure takes it out again and
//! one success clears it.

use alloc::string::{String, ToString};

use serde::{Deserialize, Serialize};

use crate::{
    decide::{ending::Ending, reason::Reason},
    fleet::Ejection,
    health::outlier::Evidence,
    time::{Duration, Instant},
};

/// Where a server stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ejected {
    until: Option<Instant>,
    /// Why it was taken out last, if not as an outlier.
    reason: Option<Reason>,
    /// Evidence of its share of 5xx, if that was the reason for the last ejection.
    evidence: Option<Evidence>,
    /// A check has passed since it was taken out.
    vouched: bool,
    /// When it last came back, and after how many ejections in a row.
    returned_at: Instant,
    in_a_row: u32,
    /// What that was before it was taken out for its silence.
    before_silence: Option<u32>,
    /// When a check last showed that it answers, though it was out for its silence.
    answered_at: Option<Instant>,
}

/// An ejection that goes on in a process with another clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownEjection {
    /// Time until the server may come back.
    pub left: Duration,
    /// [`Reason::text`] of why it is out; none for an outlier.
    #[serde(default)]
    pub reason: Option<String>,
    /// Evidence of its share of 5xx, if that is why it is out.
    #[serde(default)]
    pub evidence: Option<Evidence>,
    /// How many ejections in a row it is.
    #[serde(default)]
    pub in_a_row: u32,
    /// Whether a check has passed since the server was taken out.
    #[serde(default)]
    pub vouched: bool,
}

impl Ejected {
    /// The ejection, for a process that follows; none while the server is in.
    #[must_use]
    pub fn known(&self, now: Instant) -> Option<KnownEjection> {
        let left = self.until?.since(now);
        Some(KnownEjection {
            left,
            reason: self.reason.map(|reason| reason.text().to_string()),
            evidence: self.evidence,
            in_a_row: self.in_a_row,
            vouched: self.vouched,
        })
    }

    /// Goes on with an ejection of the process before.
    #[must_use]
    pub fn resumed(now: Instant, known: &KnownEjection) -> Self {
        let of_text = |text: &str| Reason::ALL.iter().copied().find(|it| it.text() == text);
        let reason = known.reason.as_deref().and_then(of_text);
        let before = known.in_a_row.saturating_sub(1);
        Self {
            // Who may come back already does so at the next look, not before the first plan.
            until: Some(now + known.left.max(Duration::from_nanos(1))),
            reason,
            evidence: known.evidence,
            vouched: known.vouched,
            in_a_row: known.in_a_row,
            before_silence: (reason == Some(Reason::Hangs)).then_some(before),
            ..Self::default()
        }
    }

    /// Whether the server is out.
    #[must_use]
    pub fn is_out(&self) -> bool {
        self.until.is_some()
    }

    /// Whether the server has been out and is back in.
    #[must_use]
    pub fn is_back(&self) -> bool {
        !self.is_out() && (self.reason.is_some() || self.evidence.is_some())
    }

    /// When the server may come back; none while it is in.
    #[must_use]
    pub fn until(&self) -> Option<Instant> {
        self.until
    }

    /// Whether it is out because it answered nobody.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        self.reason() == Some(Reason::Hangs)
    }

    /// Why the server is out; none while it is in.
    #[must_use]
    pub fn reason(&self) -> Option<Reason> {
        self.reason.filter(|_| self.is_out())
    }

    /// Evidence of its share of 5xx, if that is the reason for its ejection.
    #[must_use]
    pub fn evidence(&self) -> Option<Evidence> {
        self.evidence.filter(|_| self.is_out())
    }

    /// Whether it was last taken out for its share of 5xx.
    #[must_use]
    pub fn was_outlier(&self) -> bool {
        self.evidence.is_some()
    }

    /// Whether it has come back not long ago, after it had been out for its share of 5xx.
    #[must_use]
    pub fn is_on_trial(&self, now: Instant, rules: &Ejection) -> bool {
        self.evidence.is_some() && now.since(self.returned_at) <= rules.time_max
    }

    /// Whether a check has passed since the server was taken out.
    #[must_use]
    pub fn is_vouched(&self) -> bool {
        self.vouched
    }

    /// A check has passed.
    pub fn vouch(&mut self) {
        self.vouched = true;
    }

    /// Takes note that the server, which is out already, answers nobody.
    pub fn note_silence(&mut self) {
        self.reason = Some(Reason::Hangs);
    }

    /// A check shows that the server, which is out for its silence, answers: that does not count
    /// as one of the ejections in a row.
    pub fn overturn(&mut self, now: Instant) {
        self.answered_at = Some(now);
        self.in_a_row = self.before_silence.take().unwrap_or(self.in_a_row);
    }

    /// Whether a check has overturned its ejection for silence just now: what silences requests
    /// does not silence checks, and would take it out again at once.
    #[must_use]
    pub fn was_overturned(&self, now: Instant) -> bool {
        self.answered_at.is_some_and(|at| now.since(at) < OVERTURNED)
    }

    /// Lets the server back in.
    pub fn end(&mut self, now: Instant) {
        self.until = None;
        self.returned_at = now;
    }

    /// Takes the server out, for its silence ([`Reason::Hangs`]) or for errors.
    pub fn eject(&mut self, now: Instant, rules: &Ejection, reason: Reason) {
        (self.reason, self.evidence) = (Some(reason), None);
        let before = self.take_out(now, rules);
        self.before_silence = (reason == Reason::Hangs).then_some(before);
    }

    /// Takes the server out for its share of 5xx.
    pub fn eject_outlier(&mut self, now: Instant, rules: &Ejection, evidence: Evidence) {
        (self.reason, self.evidence) = (None, Some(evidence));
        self.take_out(now, rules);
        self.before_silence = None;
    }

    /// Takes the server out, and says after how many ejections in a row.
    fn take_out(&mut self, now: Instant, rules: &Ejection) -> u32 {
        self.vouched = false;
        let quiet = now.since(self.returned_at) > rules.time_max;
        let before = if quiet { 0 } else { self.in_a_row };
        self.in_a_row = before + 1;
        let time = rules.time * (1u64 << before.min(DOUBLINGS_MAX));
        self.until = Some(now + time.min(rules.time_max));
        before
    }
}

impl Ejection {
    /// How many errors in a row it is when a request ends like this on a server that has had
    /// `errors` with it. Where nobody listens no further request has to find that out.
    #[must_use]
    pub const fn errors_after(&self, ending: Ending, errors: u32) -> u32 {
        if ending.is_refusal() && errors < self.errors { self.errors } else { errors }
    }
}

/// Whether one more of `servers` may be out when `out` are already.
#[must_use]
pub fn may_eject(rules: &Ejection, out: usize, servers: usize) -> bool {
    (out as u64 + 1) * 1_000_000 <= servers as u64 * u64::from(rules.share_max.as_ppm())
}

/// The longest ejection in a row multiplies the first by 1024, far over any sensible maximum.
const DOUBLINGS_MAX: u32 = 10;

/// For how long a server is not taken out for its silence after a check has overturned that.
const OVERTURNED: Duration = Duration::from_secs(1);

/// How long a group must have stayed at or above its failover threshold to come first again:
/// several checks at the usual interval, so that a server that flaps does not move the traffic
/// of a region to and fro.
pub(crate) const RETURN_HOLD: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_ejection_in_a_row_lasts_twice_as_long_up_to_the_longest() {
        let rules = Ejection::default();
        let mut ejected = Ejected::default();
        let mut now = Instant::ZERO + Duration::from_secs(100);
        let mut lengths = alloc::vec::Vec::new();
        for _ in 0..7 {
            ejected.eject(now, &rules, Reason::EmptyReply);
            let until = ejected.until().unwrap();
            lengths.push(until.since(now).as_secs_f64() as u64);
            assert!(ejected.is_out());
            ejected.end(until);
            now = until;
        }
        assert_eq!(lengths, [1, 2, 4, 8, 16, 30, 30]);
        ejected.eject(now + Duration::from_secs(31), &rules, Reason::EmptyReply);
        let until = ejected.until().unwrap();
        assert_eq!(until.since(now), Duration::from_secs(32));
    }

    #[test]
    fn no_more_than_the_largest_share_is_out() {
        let rules = Ejection::default();
        assert!(may_eject(&rules, 2, 6) && !may_eject(&rules, 3, 6));
        assert!(!may_eject(&rules, 0, 1));
    }
}
