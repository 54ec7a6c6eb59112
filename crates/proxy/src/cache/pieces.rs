//! The bytes of a body in the order in which they came, by their places in it.
//!
//! Servers that send little at a time would make many small pieces, each with an allocation of its
//! own and, for every reader, a system call. Once such pieces have as many bytes as [`PIECE`], or
//! are [`RUN`] in number, they become one: a byte is copied about once more.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

/// What there is of a body.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    /// Each with the place of its first byte.
    list: VecDeque<(u64, Bytes)>,
    end: u64,
    /// How many small ones are at the end, and their bytes.
    run: (usize, usize),
}

impl Pieces {
    /// The place behind the last byte.
    pub(super) const fn end(&self) -> u64 {
        self.end
    }

    /// How much there is, from the first byte that is not forgotten.
    pub(super) fn held(&self) -> u64 {
        self.list.front().map_or(0, |(start, _)| self.end - start)
    }

    /// Appends bytes.
    pub(super) fn push(&mut self, bytes: Bytes) {
        if bytes.is_empty() {
            return;
        }
        let length = bytes.len();
        self.list.push_back((self.end, bytes));
        self.end += length as u64;
        if length >= PIECE {
            self.run = (0, 0);
            return;
        }
        self.run = (self.run.0 + 1, self.run.1 + length);
        if self.run.1 >= PIECE {
            self.merge();
            self.run = (0, 0);
        } else if self.run.0 >= RUN {
            self.merge();
            self.run.0 = 1;
        }
    }

    /// The bytes from this place to the end of their piece; none if there are none yet.
    pub(super) fn after(&self, place: u64) -> Option<Bytes> {
        let index = self.list.partition_point(|(start, _)| *start <= place).checked_sub(1)?;
        let (start, bytes) = &self.list[index];
        let skipped = usize::try_from(place - start).ok()?;
        (skipped < bytes.len()).then(|| bytes.slice(skipped..))
    }

    /// Forgets pieces of which all bytes are before this place.
    pub(super) fn forget(&mut self, place: u64) {
        while let Some((start, bytes)) = self.list.front() {
            if start + bytes.len() as u64 > place {
                return;
            }
            self.list.pop_front();
            self.run = (0, 0);
        }
    }

    /// All pieces, now that no more come.
    pub(super) fn seal(&mut self) -> Box<[Bytes]> {
        self.merge();
        self.list.iter().map(|(_, bytes)| bytes.clone()).collect()
    }

    /// Makes one piece of the small ones at the end.
    fn merge(&mut self) {
        let (count, bytes) = self.run;
        if count < 2 {
            return;
        }
        let mut merged = BytesMut::with_capacity(bytes);
        let mut start = self.end;
        for (place, piece) in self.list.drain(self.list.len() - count..) {
            start = start.min(place);
            merged.extend_from_slice(&piece);
        }
        self.list.push_back((start, merged.freeze()));
    }
}

/// A piece of so many bytes is worth a system call of its own.
pub(super) const PIECE: usize = 64 << 10;

/// Small pieces that are kept as they are.
const RUN: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pieces: &Pieces, mut place: u64) -> Vec<u8> {
        let mut all = Vec::new();
        while let Some(piece) = pieces.after(place) {
            all.extend_from_slice(&piece);
            place += piece.len() as u64;
        }
        all
    }

    #[test]
    fn what_comes_in_any_pieces_is_read_from_any_place() {
        let body: Vec<u8> = (0..300_000_u32).map(|n| (n % 251) as u8).collect();
        for size in [1, 999, 1_460, 70_000] {
            let mut pieces = Pieces::default();
            body.chunks(size).for_each(|piece| pieces.push(Bytes::copy_from_slice(piece)));
            for place in [0, 1, 65_536, 299_999, 300_000] {
                assert!(read(&pieces, place as u64) == body[place..], "{size} {place}");
            }
            let sealed = pieces.seal();
            assert!(sealed.concat() == body, "{size}");
            assert!(sealed.len() <= 6, "{size}: {}", sealed.len());
        }
    }

    #[test]
    fn what_is_forgotten_is_gone_and_the_rest_keeps_its_places() {
        let mut pieces = Pieces::default();
        (0..10_u8).for_each(|n| pieces.push(Bytes::copy_from_slice(&[n; 100])));
        pieces.forget(250);
        assert_eq!(pieces.after(100), None);
        assert_eq!(pieces.after(250).map(|piece| piece.len()), Some(50));
        assert_eq!((pieces.end(), pieces.held()), (1_000, 800));
        pieces.forget(1_000);
        assert_eq!(pieces.held(), 0);
    }
}
