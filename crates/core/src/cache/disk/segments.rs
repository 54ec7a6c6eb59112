//! How a size is divided into segments, and which of them leave.

use crate::units::Bytes;

/// Size limits of the files, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// All files together.
    pub size: u64,
    /// One segment.
    pub segment: u64,
    /// The record of purges.
    pub purges: u64,
}

impl Shape {
    /// For files that together take `size`, at least [`SIZE_MIN`].
    #[must_use]
    pub fn of(size: Bytes) -> Self {
        let size = size.get().max(SIZE_MIN.get());
        let segment = (size / SEGMENTS).min(SEGMENT_MAX);
        Self { size, segment, purges: (size / SEGMENTS).min(PURGES_MAX) }
    }

    /// How many of the oldest segments have to leave before a further one is begun. `segments` is
    /// what each takes, the oldest first. The room of one more is left free, for one that has left
    /// and is still being read.
    #[must_use]
    pub fn leaving(&self, segments: &[u64]) -> usize {
        // A record of purges may be twice as long as what counts of it, before it is written anew.
        let room = self.size.saturating_sub(2 * self.segment + 3 * self.purges);
        let mut bytes: u64 = segments.iter().sum();
        let mut leaving = 0;
        while leaving < segments.len() && (bytes > room || segments.len() - leaving >= SEGMENTS_MAX)
        {
            bytes -= segments[leaving];
            leaving += 1;
        }
        leaving
    }

    /// Up to which number purges are forgotten, where a record of those that count takes `bytes`:
    /// up to the epoch of the oldest segment, since no older response is left. `epochs` are those
    /// of the segments, the oldest first. The second is how many segments leave so that the record
    /// of purges stays within its room.
    #[must_use]
    pub fn forgotten(&self, epochs: &[u64], bytes: u64) -> (u64, usize) {
        let leaving = usize::from(bytes > self.purges).min(epochs.len());
        (epochs.get(leaving).copied().unwrap_or(u64::MAX), leaving)
    }
}

/// The least that a cache on disk may have.
pub const SIZE_MIN: Bytes = Bytes::new(1 << 20);

/// So many segments the size is made of: what leaves at a time is a small part.
const SEGMENTS: u64 = 64;

/// Offsets in a segment have 32 bits.
const SEGMENT_MAX: u64 = 2 << 30;

/// A record of half a million URLs; it is read at the start as a whole.
const PURGES_MAX: u64 = 64 << 20;

/// Each is an open file. There are more than the size has where a process is started often, and
/// begins one each time.
const SEGMENTS_MAX: usize = 1_024;

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn files_never_take_more_than_their_size(
            size in SIZE_MIN.get()..1 << 45, fill in prop::collection::vec(0..=100u64, 1..200),
        ) {
            let shape = Shape::of(Bytes::new(size));
            let mut segments: Vec<u64> = Vec::new();
            for part in fill {
                let leaving = shape.leaving(&segments);
                let gone: u64 = segments.drain(..leaving).sum();
                segments.push(shape.segment / 100 * part);
                let files: u64 = segments.iter().sum();
                prop_assert!(files + 3 * shape.purges <= size);
                // No more leaves than has to.
                let room = 3 * shape.segment + 3 * shape.purges;
                prop_assert!(gone == 0 || files + gone + room > size);
            }
        }
    }

    #[test]
    fn purges_count_for_as_long_as_there_is_anything_older() {
        let shape = Shape::of(Bytes::new(64 << 20));
        assert_eq!(shape.forgotten(&[3, 7, 9], 100), (3, 0));
        assert_eq!(shape.forgotten(&[3, 7, 9], shape.purges + 1), (7, 1));
        assert_eq!(shape.forgotten(&[3], shape.purges + 1), (u64::MAX, 1));
        assert_eq!(shape.forgotten(&[], 0), (u64::MAX, 0));
    }

    #[test]
    fn many_small_segments_leave_before_there_are_too_many_files() {
        let shape = Shape::of(Bytes::new(1 << 40));
        let many: Vec<u64> = core::iter::repeat_n(100, SEGMENTS_MAX).collect();
        assert_eq!(shape.leaving(&many), 1);
        assert_eq!(shape.leaving(&many[1..]), 0);
    }
}
