//! A share of a group's capacity.

use core::ops;

use serde::{Deserialize, Serialize};

use crate::units::Rate;

/// A part of the capacity of a group, in parts of 2^40: what sums to the [whole](Share::WHOLE) at
/// most gives rates, places and utilisations that sum to the capacity at most, for up to 200 edges
/// and any capacity.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Share(u64);

impl Share {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// All of it.
    pub const WHOLE: Self = Self(1 << 40);

    /// So many parts of 2^40, [`Share::WHOLE`] at most.
    #[must_use]
    pub const fn from_parts(parts: u64) -> Self {
        Self(if parts > Self::WHOLE.0 { Self::WHOLE.0 } else { parts })
    }

    /// Parts of 2^40.
    #[must_use]
    pub const fn parts(self) -> u64 {
        self.0
    }

    /// `part` of `whole`, rounded down; nothing of nothing.
    #[must_use]
    pub fn part(part: u64, whole: u64) -> Self {
        let parts = u128::from(part) * u128::from(Self::WHOLE.0);
        let parts = parts.checked_div(u128::from(whole)).unwrap_or(0);
        Self::from_parts(u64::try_from(parts).unwrap_or(u64::MAX))
    }

    /// This much of `amount`, rounded down.
    #[must_use]
    pub fn of(self, amount: u64) -> u64 {
        ((u128::from(self.0) * u128::from(amount)) >> 40) as u64
    }

    /// This much of a rate, rounded down.
    #[must_use]
    pub fn of_rate(self, rate: Rate) -> Rate {
        Rate::milli_per_sec(self.of(rate.as_milli_per_sec()))
    }

    /// The whole places of `places` that this is. `Share::part(n, places)` is `n` of them, though
    /// it was rounded down, and places still sum to `places` at most: `n` shares of the whole gain
    /// `n * places / 2^40` in all, less than one.
    #[must_use]
    pub fn of_places(self, places: u32) -> u32 {
        if self.0 == 0 {
            return 0;
        }
        ((u128::from(self.0 + 1) * u128::from(places)) >> 40) as u32
    }

    /// The rest after `other` was taken; nothing if that is more.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl ops::Add for Share {
    type Output = Self;

    /// [`Share::WHOLE`] at most.
    fn add(self, other: Self) -> Self {
        Self::from_parts(self.0.saturating_add(other.0))
    }
}
