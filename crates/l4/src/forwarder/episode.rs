//! Something that comes again and again, told when it begins and when it is over.

use loadline_core::time::{Duration, Instant};

/// What grows while it lasts, looked at from time to time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Episode {
    /// The count at the last look.
    seen: u64,
    /// The count before it began, and when it grew last.
    lasting: Option<(u64, Instant)>,
}

/// What is to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EpisodeReport {
    /// It began.
    Began,
    /// The episode is over, with this many events.
    Over(u64),
}

impl Episode {
    /// Looks at the count; what is to be told now, if anything.
    pub(super) fn look(&mut self, now: Instant, count: u64) -> Option<EpisodeReport> {
        let has_grown = count > self.seen;
        let before = std::mem::replace(&mut self.seen, count);
        match (self.lasting, has_grown) {
            (None, false) => None,
            (None, true) => {
                self.lasting = Some((before, now));
                Some(EpisodeReport::Began)
            }
            (Some((start, _)), true) => {
                self.lasting = Some((start, now));
                None
            }
            (Some((start, last)), false) => {
                let is_over = now.since(last) >= CALM;
                is_over.then(|| {
                    self.lasting = None;
                    EpisodeReport::Over(count.saturating_sub(start))
                })
            }
        }
    }
}

/// An episode ends after this time without an event.
const CALM: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_told_once_when_it_begins_and_once_when_it_is_over() {
        let at = |secs| Instant::ZERO + Duration::from_secs(secs);
        let mut episode = Episode::default();
        let looks = [(0, 0), (1, 3), (2, 7), (8, 7), (9, 9), (18, 9), (19, 9), (20, 9), (40, 10)];
        let told: Vec<_> =
            looks.iter().filter_map(|(secs, count)| episode.look(at(*secs), *count)).collect();
        assert_eq!(told, [EpisodeReport::Began, EpisodeReport::Over(9), EpisodeReport::Began]);
    }
}
