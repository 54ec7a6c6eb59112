//! The distance of a server: the least of the round trips that its last checks measured.
//!
//! What happens to a packet on its way only ever adds to its time: a queue, a busy host, a SYN that
//! is lost and sent again a second later. So the least of a few measurements says how long the way
//! is, where an average would follow each accident. It is that of two spans of [`SPAN`] checks, the
//! present and the one before: of the last 4 to 8. A way that becomes longer is trusted after
//! that many, one that becomes shorter at once.
//!
//! Source: the windowed minimum of BBR's `RTprop` (Cardwell et al., 2016).

use crate::time::Duration;

/// The least round trip of the last checks, in two spans. Whole microseconds, up to an hour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RoundTrip {
    /// Checks of the present span.
    count: u8,
    /// One more than the least of each span; 0 where there is none.
    present: u32,
    before: u32,
}

impl RoundTrip {
    /// Takes a measurement in.
    pub(crate) fn record(&mut self, time: Duration) {
        if self.count == SPAN {
            *self = Self { count: 0, present: 0, before: self.present };
        }
        let micros = u32::try_from(time.as_nanos() / 1_000).unwrap_or(u32::MAX - 1);
        self.count += 1;
        self.present = least(self.present, micros.saturating_add(1));
    }

    /// How far it is; none before the first measurement.
    pub(crate) fn get(self) -> Option<Duration> {
        let micros = least(self.present, self.before).checked_sub(1)?;
        Some(Duration::from_micros(u64::from(micros)))
    }
}

/// The lesser of two, of which 0 is none.
fn least(one: u32, other: u32) -> u32 {
    if one == 0 || other == 0 { one.max(other) } else { one.min(other) }
}

/// Whether a distance differs from what has been gone by until now by more than noise, so that the
/// order of groups may change: by a fifth and a millisecond.
pub(crate) fn is_news(old: Duration, new: Duration) -> bool {
    let gap = old.max(new).saturating_sub(old.min(new));
    gap > Duration::from_millis(1) && gap > old / 5
}

/// Long enough for three accidents in a row, short enough to follow a new way within a minute where
/// checks are five seconds apart.
const SPAN: u8 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn after(times: &[u64]) -> Option<Duration> {
        let mut round_trip = RoundTrip::default();
        times.iter().for_each(|millis| round_trip.record(Duration::from_millis(*millis)));
        round_trip.get()
    }

    #[test]
    fn accidents_change_nothing_and_a_new_way_is_found_out() {
        let some = |millis| Some(Duration::from_millis(millis));
        assert_eq!(after(&[]), None);
        assert_eq!(after(&[0]), some(0));
        assert_eq!(after(&[20, 1_020]), some(20));
        assert_eq!(after(&[20, 20, 20, 20, 1_020, 1_020, 1_020]), some(20));
        assert_eq!(after(&[20, 20, 20, 20, 90, 90, 90, 90, 90]), some(90));
        assert_eq!(after(&[90, 90, 90, 20]), some(20));
    }
}
