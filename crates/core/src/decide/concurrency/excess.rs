//! How many more requests come than are answered: the evidence that a group is full.
//!
//! Two sums of what came less what was answered, which never fall below zero (CUSUM, Page 1954).
//! The sudden one counts a response 1.34 times, which tells twice the load from 0.85 of it soonest:
//! `(2 - 0.85) / ln(2 / 0.85)`. With Poisson arrivals at 0.85 of the capacity and exponential
//! service times it reaches `h` with a probability of `exp(-0.395 h)`: one in a million for 35. The
//! standing one is for loads just above the capacity: the requests of a second, 140 at least.
//!
//! A batch of requests that come at once must not look like a load that stays: no window adds more
//! than a third of the one and an eighth of the other.
//!
//! Users who wait for their answers before they ask again are never more in flight than they are,
//! however unevenly they and the servers run: a sum proves nothing unless it has brought a quarter
//! more in flight than there were before it began, in the last half minute.

/// Requests that came, less responses: two sums.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Excess {
    sudden: Sum,
    standing: Sum,
    /// The most in flight, of which two thirds are forgotten after [`MEMORY`].
    highest: f64,
}

/// One of the two sums, and the most in flight before it began.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    value: f64,
    before: f64,
}

impl Excess {
    /// Takes in a window in which so many came and were answered, at this many responses a second.
    pub(super) fn add(&mut self, asked: f64, answered: f64, per_sec: f64) {
        self.sudden.add((asked - WORTH * answered).min(sudden(per_sec) / 3.0));
        self.standing.add((asked - answered).min(standing(per_sec) / 8.0));
    }

    /// Takes in how many are in flight after so many seconds, be it in the servers or held back.
    pub(super) fn level(&mut self, in_flight: f64, seconds: f64) {
        self.highest -= self.highest * super::weight(seconds, MEMORY);
        self.highest = self.highest.max(in_flight);
        for sum in [&mut self.sudden, &mut self.standing] {
            if sum.value <= 0.0 {
                sum.before = self.highest;
            }
        }
    }

    /// Begins anew.
    pub(super) fn clear(&mut self) {
        self.sudden.value = 0.0;
        self.standing.value = 0.0;
    }

    /// Forgets that more than this were in flight: those were a queue, and no users who are always
    /// there.
    pub(super) fn forget_queue(&mut self, in_flight: f64) {
        self.highest = self.highest.min(in_flight);
        self.sudden.before = self.sudden.before.min(in_flight);
        self.standing.before = self.standing.before.min(in_flight);
    }

    /// Reduces the sums where nothing is slower than usual: what came is under way, not queued.
    pub(super) fn discount(&mut self, per_sec: f64) {
        self.sudden.value = self.sudden.value.min(sudden(per_sec) * 2.0 / 3.0);
        self.sudden.before = self.highest;
        self.standing = Sum { value: 0.0, before: self.highest };
    }

    /// Whether chance does not explain the sums, with `in_flight` requests.
    pub(super) fn is_proof(&self, in_flight: f64, per_sec: f64) -> bool {
        self.sudden.is_proof(sudden(per_sec), in_flight)
            || self.standing.is_proof(standing(per_sec), in_flight)
    }

    /// Whether it is enough to hold back what is more.
    pub(super) fn is_hint(&self, per_sec: f64) -> bool {
        self.sudden.value >= sudden(per_sec) * 0.3
    }

    /// Whether the excess is too small to hold anything back.
    pub(super) fn is_little(&self, per_sec: f64) -> bool {
        self.sudden.value < sudden(per_sec) * 0.2
    }
}

impl Sum {
    fn add(&mut self, more: f64) {
        self.value = (self.value + more).max(0.0);
    }

    fn is_proof(&self, enough: f64, in_flight: f64) -> bool {
        self.value >= enough && in_flight >= MORE * self.before
    }
}

/// Whether a window of so few responses is worth looking at: so much has come meanwhile.
pub(super) fn is_surge(asked: f64, answered: f64) -> bool {
    asked - WORTH * answered >= SUDDEN / 3.0
}

/// Requests that prove a sudden excess: what many responses a second vary by grows with them.
pub(super) fn sudden(per_sec: f64) -> f64 {
    (per_sec * 0.04).max(SUDDEN)
}

/// Requests that prove a standing excess.
fn standing(per_sec: f64) -> f64 {
    per_sec.max(STANDING)
}

/// What a response counts for in the sudden sum.
const WORTH: f64 = 1.34;

/// See the module.
const SUDDEN: f64 = 35.0;

/// As many more may be in flight of a service whose load and latency grow together.
const STANDING: f64 = 140.0;

/// How many more in flight than before are more than the same users.
const MORE: f64 = 1.25;

/// Seconds after which two thirds of the most in flight are forgotten.
const MEMORY: f64 = 30.0;
