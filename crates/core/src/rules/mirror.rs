//! Mirroring: part of the requests of a rule also go to another service, which answers nobody.
//!
//! A copy must cost the clients nothing: it is made only while fewer than
//! [`Mirror::in_flight_max`] are under way and of no longer body than [`Mirror::body_max`], so that
//! what copies hold of memory is bounded by the product. It never waits for capacity.

use alloc::sync::Arc;

use crate::{
    decide::{
        atomic::AtomicU32,
        ledger::{release, reserve},
    },
    units::{Bytes, Ratio},
};

/// Which requests are copied, and where the copies go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mirror {
    /// Index into [`crate::fleet::Fleet::services`].
    pub service: usize,
    /// The part of the requests that is copied, 0 % to 100 %.
    pub share: Ratio,
    /// The longest body that is copied, as it comes, chunk sizes included.
    pub body_max: Bytes,
    /// Copies under way at a time, over all workers.
    pub in_flight_max: u32,
}

impl Mirror {
    /// Whether the request with this draw, even over all numbers of 64 bits, is copied.
    #[must_use]
    pub fn takes(&self, draw: u64) -> bool {
        let all = u128::from(Ratio::ONE.as_ppm());
        // The product of numbers of 64 and of 20 bits; its upper part is below `all`.
        (u128::from(draw) * all) >> 64 < u128::from(self.share.as_ppm())
    }
}

/// The copies of the requests of one rule that are under way, shared by all workers.
#[derive(Debug)]
pub struct Copies {
    /// The terms.
    pub mirror: Mirror,
    under_way: AtomicU32,
}

impl Copies {
    /// None yet.
    pub(super) fn new(mirror: &Mirror) -> Arc<Self> {
        Arc::new(Self { mirror: *mirror, under_way: AtomicU32::new(0) })
    }

    /// A place for one more, until it is dropped; none where all are taken.
    #[must_use]
    pub fn enter(self: &Arc<Self>) -> Option<CopyPlace> {
        let entered = reserve(&self.under_way, self.mirror.in_flight_max);
        entered.then(|| CopyPlace(self.clone()))
    }
}

/// The place of one copy that is under way.
#[derive(Debug)]
pub struct CopyPlace(Arc<Copies>);

impl Drop for CopyPlace {
    fn drop(&mut self) {
        release(&self.0.under_way);
    }
}

/// What became of a copy, or why there is none. Each has a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum CopyResult {
    /// It was answered, with any status.
    Answered,
    /// It failed.
    Failed,
    /// There was no room for it: as many as may be were under way, or the service was full.
    Full,
    /// The body was longer than may be copied.
    TooLarge,
    /// The body did not come to its end, or a drain began, which waits for no copies.
    Cut,
}

impl CopyResult {
    /// Every result, in the order of their counters.
    pub const ALL: [Self; 5] =
        [Self::Answered, Self::Failed, Self::Full, Self::TooLarge, Self::Cut];

    /// The name in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Failed => "failed",
            Self::Full => "full",
            Self::TooLarge => "too-large",
            Self::Cut => "cut",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mirror(share: Ratio) -> Mirror {
        Mirror { service: 0, share, body_max: Bytes::new(10), in_flight_max: 2 }
    }

    #[test]
    fn draws_that_are_even_are_copied_in_the_share_that_is_asked_for() {
        for (share, expected) in [(0, 0), (25, 250), (100, 1_000)] {
            let mirror = mirror(Ratio::percent(share));
            let copied = (0..1_000).filter(|draw| mirror.takes(draw * (u64::MAX / 999))).count();
            assert!(copied.abs_diff(expected) <= 1, "{share} %: {copied}");
        }
        assert!(mirror(Ratio::ONE).takes(u64::MAX));
    }

    #[test]
    fn no_more_copies_are_under_way_than_may_be() {
        let copies = Copies::new(&mirror(Ratio::ONE));
        let (first, _second) = (copies.enter(), copies.enter());
        assert!(first.is_some() && copies.enter().is_none());
        drop(first);
        assert!(copies.enter().is_some());
    }
}
