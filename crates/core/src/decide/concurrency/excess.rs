//! How many more requests come than are answered: the evidence that a group is full.
//!
//! Two sums of what came less what was answered, which never fall below zero (CUSUM, Page 1954).
//! The sudden one counts a response 1.34 times, which tells twice the load from 0.85 of it soonest:
//! `(2 - 0.85) / ln(2 / 0.85)`. With Poisson arrivals at 0.85 of the capacity and exponential
//! service times it reaches `h` with a probability of `exp(-0.395 h)`: one in a million for 35. The
//! standing one is for loads just above the capacity: the requests of a second, a hundred at least.
//!
//! A batch of requests that come at once must not look like a load that stays: no window adds more
//! than a third of the one and an eighth of the other.

/// What came beyond what was answered.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Excess {
    sudden: f64,
    standing: f64,
}

impl Excess {
    /// Takes in a window in which so many came and were answered, at this many responses a second.
    pub(super) fn add(&mut self, asked: f64, answered: f64, per_sec: f64) {
        let (most, most_standing) = (sudden(per_sec) / 3.0, standing(per_sec) / 8.0);
        self.sudden = (self.sudden + (asked - WORTH * answered).min(most)).max(0.0);
        self.standing = (self.standing + (asked - answered).min(most_standing)).max(0.0);
    }

    /// Nothing is slower than usual, so that what came is on its way and not in a queue.
    pub(super) fn discount(&mut self, per_sec: f64) {
        self.sudden = self.sudden.min(sudden(per_sec) * 2.0 / 3.0);
        self.standing = 0.0;
    }

    /// Whether chance does not explain it.
    pub(super) fn is_proof(&self, per_sec: f64) -> bool {
        self.sudden >= sudden(per_sec) || self.standing >= standing(per_sec)
    }

    /// Whether it is enough to hold back what is more.
    pub(super) fn is_hint(&self, per_sec: f64) -> bool {
        self.sudden >= sudden(per_sec) * 0.3
    }

    /// Whether it is so little that nothing need be held back.
    pub(super) fn is_little(&self, per_sec: f64) -> bool {
        self.sudden < sudden(per_sec) * 0.2
    }
}

/// Whether a window of so few responses is worth looking at: so much has come meanwhile.
pub(super) fn is_surge(asked: f64, answered: f64) -> bool {
    asked - WORTH * answered >= SUDDEN / 3.0
}

/// Requests that prove a sudden excess: what many responses a second vary by grows with them.
fn sudden(per_sec: f64) -> f64 {
    (per_sec * 0.04).max(SUDDEN)
}

/// Requests that prove a standing excess.
fn standing(per_sec: f64) -> f64 {
    per_sec.max(100.0)
}

/// What a response counts for in the sudden sum.
const WORTH: f64 = 1.34;

/// See the module.
const SUDDEN: f64 = 35.0;
