//! The rate of a plan as it changes in time, its integral, and the inverse of that.
//!
//! With the rate `r(t)` the plan has held `R(t) = integral of r from 0 to t` requests at `t`. The
//! request at position `x` (a number of requests, with its fraction) is due at `R^-1(x)`. Constant
//! arrivals lie at the positions 0, 1, 2 ...; a Poisson process of the rate `r(t)` is a Poisson
//! process of rate one in these positions (time change: Lewis and Shedler 1979, section 1). So
//! one function serves every kind of arrivals, and nothing drifts from stage to stage.
//!
//! Within a stage of length `L` from rate `f` to rate `g`:
//! `R(t) = f t + (g - f) t^2 / 2L`, and its inverse, written so that nothing cancels,
//! `t = 2x / (f + sqrt(f^2 + 2 (g - f) x / L))`.

use std::sync::Arc;

use loadline_core::{time::Duration, units::Rate};
use loadline_measure::record::Stage;

/// Stages one after another, beginning at zero.
#[derive(Clone, Debug)]
pub(crate) struct Curve {
    pieces: Arc<[Piece]>,
    /// Where the last of them ends.
    total: Position,
    lasts: Duration,
}

/// A number of requests with its fraction, in units of half a millionth of a millionth: a rate in
/// thousandths times a span in nanoseconds, doubled, is such a number without rounding.
pub(crate) type Position = u128;

/// The position after one request.
pub(crate) const ONE: Position = 2_000_000_000_000;

#[derive(Clone, Copy, Debug)]
struct Piece {
    begins: Duration,
    /// The integral at its beginning.
    before: Position,
    stage: Stage,
}

impl Curve {
    /// The same rate for ever.
    pub(crate) fn steady(rate: Rate) -> Self {
        Self::new(&[Stage { from: rate, to: rate, lasts: Duration::MAX }])
    }

    /// These stages; nothing is planned after the last.
    pub(crate) fn new(stages: &[Stage]) -> Self {
        let (mut total, mut lasts) = (0, Duration::ZERO);
        let pieces = stages.iter().map(|stage| {
            let piece = Piece { begins: lasts, before: total, stage: *stage };
            total = piece.integral(stage.lasts);
            lasts = lasts + stage.lasts;
            piece
        });
        let pieces = pieces.collect();
        Self { pieces, total, lasts }
    }

    /// How long it is.
    pub(crate) fn lasts(&self) -> Duration {
        self.lasts
    }

    /// When this position is reached; none where that is not before the end.
    pub(crate) fn due(&self, position: Position) -> Option<Duration> {
        if position >= self.total {
            return None;
        }
        let after = self.pieces.partition_point(|piece| piece.before <= position);
        let piece = self.pieces[..after].last()?;
        Some(piece.due(position))
    }

    /// The position reached at `time`, the last one after the end.
    pub(crate) fn integral(&self, time: Duration) -> Position {
        let after = self.pieces.partition_point(|piece| piece.begins <= time);
        let Some(piece) = self.pieces[..after].last() else { return 0 };
        piece.integral(time.saturating_sub(piece.begins).min(piece.stage.lasts))
    }

    /// The highest rate at any time.
    pub(crate) fn peak(&self) -> Rate {
        let rates = self.pieces.iter().map(|piece| piece.stage.from.max(piece.stage.to));
        rates.max().unwrap_or_default()
    }
}

impl Piece {
    /// The integral from the beginning of the plan to `time` after the beginning of the piece.
    fn integral(&self, time: Duration) -> Position {
        let time = u128::from(time.as_nanos());
        let lasts = u128::from(self.stage.lasts.as_nanos()).max(1);
        let [from, to] =
            [self.stage.from, self.stage.to].map(|rate| u128::from(rate.as_milli_per_sec()));
        let level = from.saturating_mul(2 * time);
        // The square over the length in two steps, for the product not to overflow.
        let (whole, rest) = (time * time / lasts, time * time % lasts);
        let change = to.abs_diff(from);
        let change = change.saturating_mul(whole).saturating_add(change * rest / lasts);
        let own =
            if to < from { level.saturating_sub(change) } else { level.saturating_add(change) };
        self.before.saturating_add(own)
    }

    /// When the plan is at `position`, which lies within the piece.
    fn due(&self, position: Position) -> Duration {
        let Stage { from, to, lasts } = self.stage;
        let position = position - self.before;
        let nanos = if from == to {
            let nanos = position.checked_div(2 * u128::from(from.as_milli_per_sec())).unwrap_or(0);
            u64::try_from(nanos).unwrap_or(u64::MAX)
        } else {
            let [from, to] = [from, to].map(|rate| rate.as_milli_per_sec() as f64);
            let change = (to - from) / lasts.as_nanos() as f64;
            let root = (from * from + change * position as f64).max(0.0).sqrt();
            // At position zero of a ramp from zero this is 0 / 0, which the cast makes zero.
            (position as f64 / (from + root)) as u64
        };
        self.begins + Duration::from_nanos(nanos.min(lasts.as_nanos() - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stage(from: u64, to: u64, secs: u64) -> Stage {
        let [from, to] = [from, to].map(Rate::per_sec);
        Stage { from, to, lasts: Duration::from_secs(secs) }
    }

    #[test]
    fn a_ramp_from_zero_reaches_a_quarter_of_its_requests_at_half_its_time() {
        let ramp = Curve::new(&[stage(0, 100, 10)]);
        assert_eq!(ramp.integral(Duration::from_secs(10)), 500 * ONE);
        assert_eq!(ramp.due(0), Some(Duration::ZERO));
        assert_eq!(ramp.due(125 * ONE), Some(Duration::from_secs(5)));
        assert_eq!(ramp.due(500 * ONE), None);
    }

    #[test]
    fn a_pause_holds_the_next_request_until_it_is_over() {
        let curve = Curve::new(&[stage(10, 10, 1), stage(0, 0, 5), stage(10, 10, 1)]);
        assert_eq!(curve.due(9 * ONE), Some(Duration::from_millis(900)));
        assert_eq!(curve.due(10 * ONE), Some(Duration::from_secs(6)));
        assert_eq!(curve.due(19 * ONE), Some(Duration::from_millis(6_900)));
        assert_eq!(curve.due(20 * ONE), None);
    }

    proptest! {
        /// The inverse undoes the integral, up or down, to the nanosecond that it rounds to.
        #[test]
        fn the_inverse_undoes_the_integral(
            from in 0u64..1_000_000, to in 1u64..1_000_000, ms in 1u64..600_000, share in 0f64..1.0,
        ) {
            let [from, to] = [from, to].map(Rate::milli_per_sec);
            let lasts = Duration::from_millis(ms);
            let curve = Curve::new(&[Stage { from, to, lasts }]);
            let position = (curve.total as f64 * share) as u128;
            prop_assume!(position < curve.total);
            let due = curve.due(position).unwrap();
            let slack = Duration::from_nanos(2);
            prop_assert!(curve.integral(due.saturating_sub(slack)) <= position);
            prop_assert!(curve.integral(due + slack) >= position);
        }
    }
}
