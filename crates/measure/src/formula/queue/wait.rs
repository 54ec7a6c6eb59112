//! The distribution of the wait: nothing for some, and a tail that falls exponentially.

/// How long requests wait, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Wait {
    /// The probability to wait at all.
    pub(super) probability: f64,
    /// The mean over all requests.
    pub(super) mean: f64,
    /// The logarithm of the tail's height at zero, were it exponential from there.
    pub(super) ln_front: f64,
    /// How fast the tail falls, per second.
    pub(super) decay: f64,
}

impl Wait {
    /// A wait that is exponential for those who wait.
    pub(super) fn exponential(probability: f64, mean_of_waiting: f64) -> Self {
        Self {
            probability,
            mean: probability * mean_of_waiting,
            ln_front: libm::log(probability),
            decay: 1.0 / mean_of_waiting,
        }
    }

    /// The probability to wait longer than `secs`.
    pub(super) fn exceeds(&self, secs: f64) -> f64 {
        libm::exp(self.ln_front - self.decay * secs).min(self.probability)
    }

    /// The wait that this share does not exceed.
    pub(super) fn quantile(&self, share: f64) -> f64 {
        let late = 1.0 - share;
        if late >= self.probability {
            return 0.0;
        }
        ((self.ln_front - libm::log(late)) / self.decay).max(0.0)
    }
}
