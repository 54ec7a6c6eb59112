//! Spans of time as caches are told them.

use core::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use crate::time::Duration;

/// A number of whole seconds, at most 2^31, which stands for all that is more: RFC 9111 section
/// 1.2.2. It takes four bytes even where there may be none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "Duration", into = "Duration")]
pub struct DeltaSeconds(NonZeroU32);

impl DeltaSeconds {
    /// 2^31 s, for which all longer times stand (RFC 9111 section 1.2.2).
    pub const MAX: Self = Self::from_secs(1 << 31);

    /// So many seconds, at most [`Self::MAX`].
    #[must_use]
    pub const fn from_secs(secs: u32) -> Self {
        let secs = if secs > 1 << 31 { 1 << 31 } else { secs };
        Self(NonZeroU32::MIN.saturating_add(secs))
    }

    /// The number of seconds.
    #[must_use]
    pub const fn as_secs(self) -> u32 {
        self.0.get() - 1
    }
}

impl From<Duration> for DeltaSeconds {
    fn from(span: Duration) -> Self {
        u32::try_from(span.as_nanos() / NANOS_PER_SEC).map_or(Self::MAX, Self::from_secs)
    }
}

impl From<DeltaSeconds> for Duration {
    fn from(seconds: DeltaSeconds) -> Self {
        Self::from_secs(seconds.as_secs().into())
    }
}

const NANOS_PER_SEC: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_kept_up_to_the_most_that_caches_tell_apart() {
        let through = |span: Duration| Duration::from(DeltaSeconds::from(span));
        for secs in [0, 1, 86_400, 1 << 31] {
            assert_eq!(through(Duration::from_secs(secs)), Duration::from_secs(secs));
        }
        for more in [Duration::from_secs((1 << 31) + 1), Duration::MAX] {
            assert_eq!(through(more), DeltaSeconds::MAX.into());
        }
        assert_eq!(size_of::<Option<DeltaSeconds>>(), 4);
    }
}
