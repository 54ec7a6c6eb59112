//! How far the clock of another machine is ahead of ours (see the parent module).

use loadline_core::time::{Duration, Instant};

/// A question about the other's clock and its answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct RoundTrip {
    pub(super) sent: Instant,
    pub(super) received: Instant,
    /// What the other's clock said in between.
    pub(super) theirs: Instant,
}

/// How far their clock is ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ahead {
    nanos: i128,
    /// How wrong that may be, to either side.
    pub(super) error: Duration,
}

impl Ahead {
    /// As the round trip of the least delay has it; none of no round trip.
    pub(super) fn of(trips: &[RoundTrip]) -> Option<Self> {
        let delay = |trip: &RoundTrip| trip.received.since(trip.sent);
        let best = trips.iter().min_by_key(|trip| delay(trip))?;
        let error = Duration::from_nanos(delay(best).as_nanos().div_ceil(2));
        let middle = best.sent + delay(best) / 2;
        let nanos = i128::from(best.theirs.as_nanos()) - i128::from(middle.as_nanos());
        Some(Self { nanos, error })
    }

    /// The agent's clock at this instant of ours.
    pub(super) fn theirs(self, ours: Instant) -> Instant {
        let nanos = i128::from(ours.as_nanos()) + self.nanos;
        Instant::from_nanos(u64::try_from(nanos.max(0)).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_is_known_of_no_round_trip_and_their_clock_never_runs_out() {
        assert_eq!(Ahead::of(&[]), None);
        let [early, late] = [Instant::ZERO, Instant::from_nanos(u64::MAX)];
        let behind = Ahead::of(&[RoundTrip { sent: late, received: late, theirs: early }]).unwrap();
        assert_eq!(behind.theirs(early), Instant::ZERO);
        let ahead = Ahead::of(&[RoundTrip { sent: early, received: early, theirs: late }]).unwrap();
        assert_eq!(ahead.theirs(late), late);
    }

    proptest! {
        /// However the delay is split between the ways, the true instant is within the error.
        #[test]
        fn the_instant_told_is_wrong_by_the_stated_error_at_most(
            ahead in -1_000_000_000_000i64..1_000_000_000_000,
            ways in prop::collection::vec((0u64..400_000_000, 0u64..400_000_000), 1..9),
        ) {
            let begun = 2_000_000_000_000;
            let trips: Vec<_> = ways.iter().map(|(there, back)| RoundTrip {
                sent: Instant::from_nanos(begun),
                received: Instant::from_nanos(begun + there + back),
                theirs: Instant::from_nanos((begun + there).checked_add_signed(ahead).unwrap()),
            }).collect();
            let found = Ahead::of(&trips).unwrap();
            let least = ways.iter().map(|(there, back)| there + back).min().unwrap();
            prop_assert_eq!(found.error.as_nanos(), least.div_ceil(2));
            let told = found.theirs(Instant::from_nanos(begun)).as_nanos();
            let truth = begun.checked_add_signed(ahead).unwrap();
            prop_assert!(told.abs_diff(truth) <= found.error.as_nanos());
        }
    }
}
