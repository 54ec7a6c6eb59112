//! Packets on their way, and the buffers they are kept in.
//!
//! A heap of (due, number, place) gives the earliest; of equals, the first that came. The packets
//! themselves stay at their places and do not move when the heap does. Buffers are used again, by
//! class of size, so that a busy router allocates nothing.

use std::{cmp::Reverse, collections::BinaryHeap};

use loadline_core::{time::Instant, units::Bytes};

/// A packet on its way.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Parcel {
    /// Virtio header and IP packet.
    pub(super) frame: Vec<u8>,
    /// The receiver's place in the topology.
    pub(super) to: usize,
    /// The link that counts it; none for packets of the router itself.
    pub(super) link: Option<usize>,
    /// How many it is on the wire, and their bytes.
    pub(super) packets: u64,
    pub(super) size: Bytes,
    /// Whether it was held back for others to pass.
    pub(super) held: bool,
    /// Whether it has passed the receiver's down limit.
    pub(super) arrived: bool,
}

/// All packets on their way.
#[derive(Debug, Default)]
pub(super) struct DueQueue {
    heap: BinaryHeap<Reverse<(Instant, u64, u32)>>,
    parcels: Vec<Option<Parcel>>,
    free: Vec<u32>,
    next: u64,
}

impl DueQueue {
    /// Keeps `parcel` until `due`.
    pub(super) fn push(&mut self, due: Instant, parcel: Parcel) {
        let place = self.free.pop().unwrap_or_else(|| {
            self.parcels.push(None);
            (self.parcels.len() - 1) as u32
        });
        self.parcels[place as usize] = Some(parcel);
        self.heap.push(Reverse((due, self.next, place)));
        self.next += 1;
    }

    /// When the earliest is due; none where nothing is under way.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse((due, ..))| *due)
    }

    /// The earliest, if it is due by `now`.
    pub(super) fn pop(&mut self, now: Instant) -> Option<(Instant, Parcel)> {
        if self.next_due()? > now {
            return None;
        }
        let Reverse((due, _, place)) = self.heap.pop()?;
        self.free.push(place);
        Some((due, self.parcels[place as usize].take()?))
    }
}

/// Buffers to use again.
#[derive(Debug, Default)]
pub(super) struct Buffers([Vec<Vec<u8>>; CLASSES.len()]);

impl Buffers {
    /// An empty buffer with room for `length` bytes.
    pub(super) fn take(&mut self, length: usize) -> Vec<u8> {
        let Some(class) = CLASSES.iter().position(|(size, _)| length <= *size) else {
            return Vec::with_capacity(length);
        };
        self.0[class].pop().unwrap_or_else(|| Vec::with_capacity(CLASSES[class].0))
    }

    /// Takes a buffer back.
    pub(super) fn give(&mut self, mut buffer: Vec<u8>) {
        let class = CLASSES.iter().position(|(size, _)| buffer.capacity() == *size);
        if let Some(class) = class.filter(|class| self.0[*class].len() < CLASSES[*class].1) {
            buffer.clear();
            self.0[class].push(buffer);
        }
    }
}

/// Sizes of buffers, each with the most that are kept unused, some 32 MiB a class: packets of
/// Ethernet's size, TCP in small pieces, and in the largest.
const CLASSES: [(usize, usize); 3] = [(2 << 10, 16_384), (16 << 10, 2_048), (66 << 10, 512)];

#[cfg(test)]
mod tests {
    use loadline_core::time::Duration;
    use proptest::prelude::*;

    use super::*;

    fn parcel(number: usize) -> Parcel {
        Parcel {
            frame: Vec::new(),
            to: number,
            link: None,
            packets: 1,
            size: Bytes::new(1),
            held: false,
            arrived: false,
        }
    }

    #[test]
    fn a_buffer_given_back_is_taken_again_by_what_fits_its_class() {
        let mut buffers = Buffers::default();
        let mut buffer = buffers.take(1_510);
        buffer.push(1);
        let place = buffer.as_ptr();
        buffers.give(buffer);
        assert_ne!(buffers.take(3_000).capacity(), 2 << 10);
        let again = buffers.take(60);
        assert!(again.is_empty() && again.as_ptr() == place);
        assert!(buffers.take(1 << 20).capacity() >= 1 << 20);
    }

    proptest! {
        #[test]
        fn packets_come_out_when_they_are_due_the_first_of_equals_first(
            steps in prop::collection::vec((0u64..50, 0u64..20), 1..200),
        ) {
            let mut due_queue = DueQueue::default();
            let mut waiting: Vec<(Instant, usize)> = Vec::new();
            let mut now = Instant::ZERO;
            for (number, (due, pause)) in steps.into_iter().enumerate() {
                let due = now + Duration::from_nanos(due);
                due_queue.push(due, parcel(number));
                waiting.push((due, number));
                now = now + Duration::from_nanos(pause);
                waiting.sort_unstable();
                while let Some((due, parcel)) = due_queue.pop(now) {
                    prop_assert_eq!((due, parcel.to), waiting.remove(0));
                }
                let next = waiting.first().map(|(due, _)| *due);
                prop_assert_eq!(due_queue.next_due(), next);
                prop_assert!(next.is_none_or(|due| due > now));
            }
        }
    }
}
