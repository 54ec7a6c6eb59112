//! Random draws for decisions: cheap, one generator for each worker, of no use for secrets.

use std::{
    cell::Cell,
    hash::{BuildHasher, RandomState},
};

/// wyrand: one addition and one multiplication of 64 x 64 bits for each draw.
#[derive(Debug)]
pub(crate) struct Random {
    state: Cell<u64>,
}

impl Random {
    /// A generator seeded by the standard library's source of randomness.
    pub(crate) fn new() -> Self {
        Self { state: Cell::new(RandomState::new().hash_one(0)) }
    }

    /// A number, uniform over all of `u64`.
    pub(crate) fn draw(&self) -> u64 {
        let state = self.state.get().wrapping_add(0x2d35_8dcc_aa6c_78a5);
        self.state.set(state);
        let product = u128::from(state) * u128::from(state ^ 0x8bb8_4b93_962e_acc9);
        (product as u64) ^ (product >> 64) as u64
    }
}

/// A hash of `bytes`, the same in every worker and every process, so that edges agree on where a
/// key belongs (FNV-1a, then a finishing mix, since its upper bits are weak for short keys).
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    let fnv = bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mixed = (fnv ^ (fnv >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    mixed ^ (mixed >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_spread_evenly() {
        let random = Random::new();
        let mut counts = [0u32; 16];
        for _ in 0..16_000 {
            counts[(random.draw() >> 60) as usize] += 1;
        }
        assert!(counts.iter().all(|&count| (800..1200).contains(&count)), "{counts:?}");
    }

    #[test]
    fn neighbouring_keys_hash_far_apart() {
        let (one, two) = (hash(b"10.0.0.1"), hash(b"10.0.0.2"));
        assert!((one ^ two).count_ones() > 16, "{one:x} {two:x}");
        assert_eq!(one, hash(b"10.0.0.1"));
    }
}
