//! What the frames of a stream say, before h3 has them.
//!
//! h3 0.0.8 takes an empty DATA frame for the end of a response, panics where DATA is cut off, and
//! does not tell which requests a GOAWAY excludes.

use bytes::{Buf as _, Bytes, BytesMut};

/// The frames of a response.
#[derive(Debug, Default)]
pub(super) struct ResponseFrames {
    /// The beginning of a frame whose length has not come.
    kept: BytesMut,
    /// What is to come of a frame.
    left: u64,
}

impl ResponseFrames {
    /// Takes what has come; gives what h3 is to see of it, which may be nothing yet: everything but
    /// empty DATA frames.
    pub(super) fn take(&mut self, piece: Bytes) -> Bytes {
        if self.left >= piece.len() as u64 {
            self.left -= piece.len() as u64;
            return piece;
        }
        self.kept.extend_from_slice(&piece);
        let mut out = BytesMut::new();
        while !self.kept.is_empty() {
            if self.left > 0 {
                let count = usize::try_from(self.left).unwrap_or(usize::MAX);
                let part = self.kept.split_to(count.min(self.kept.len()));
                self.left -= part.len() as u64;
                out.unsplit(part);
                continue;
            }
            let mut reader: &[u8] = &self.kept;
            let (Some(kind), Some(length)) = (varint(&mut reader), varint(&mut reader)) else {
                break;
            };
            let begin = self.kept.len() - reader.len();
            if (kind, length) == (DATA, 0) {
                self.kept.advance(begin);
            } else {
                out.unsplit(self.kept.split_to(begin));
                self.left = length;
            }
        }
        out.freeze()
    }

    /// Whether a frame has not come whole of which the length has.
    pub(super) const fn is_cut_off(&self) -> bool {
        self.left > 0
    }

    /// What is left where no more will come: a frame that is cut off in its type or length.
    pub(super) fn rest(&mut self) -> Bytes {
        self.kept.split().freeze()
    }
}

/// A stream that only the server sends: its control stream, or another.
#[derive(Debug, Default)]
pub(super) struct ServerFrames {
    kept: Vec<u8>,
    kind: Option<u64>,
}

impl ServerFrames {
    /// Takes what has come; gives the first request that is not answered, if a GOAWAY says so.
    pub(super) fn take(&mut self, piece: &[u8]) -> Option<u64> {
        let mut end = None;
        if self.kind.is_none_or(|kind| kind == CONTROL) {
            self.kept.extend_from_slice(piece);
            while let Some(said) = self.next() {
                end = said.or(end);
            }
        }
        end
    }

    /// Reads the next frame, or the type of the stream; none where more has to come first.
    fn next(&mut self) -> Option<Option<u64>> {
        let mut reader: &[u8] = &self.kept;
        let mut said = None;
        if self.kind.is_none() {
            self.kind = Some(varint(&mut reader)?);
        } else if self.kind == Some(CONTROL) {
            let (kind, length) = (varint(&mut reader)?, varint(&mut reader)?);
            let (mut payload, rest) = reader.split_at_checked(usize::try_from(length).ok()?)?;
            said = if kind == GOAWAY { varint(&mut payload) } else { None };
            reader = rest;
        } else {
            return None;
        }
        self.kept.drain(..self.kept.len() - reader.len());
        Some(said)
    }
}

/// An integer of QUIC (RFC 9000, 16).
fn varint(reader: &mut &[u8]) -> Option<u64> {
    let length = 1 << (reader.first()? >> 6);
    let (bytes, rest) = reader.split_at_checked(length)?;
    *reader = rest;
    let value = bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
    Some(value & (u64::MAX >> (66 - 8 * length as u32)))
}

/// The type of the control stream (RFC 9114, 6.2.1).
const CONTROL: u64 = 0;

/// Types of frames (RFC 9114, 7.2).
const DATA: u64 = 0;
const GOAWAY: u64 = 7;

#[cfg(test)]
mod tests {
    use super::*;

    /// What h3 sees of a response that comes in pieces of this size, and whether it is cut off.
    fn seen(stream: &[u8], size: usize) -> (Vec<u8>, bool) {
        let mut frames = ResponseFrames::default();
        let mut seen = Vec::new();
        for piece in stream.chunks(size) {
            seen.extend_from_slice(&frames.take(Bytes::copy_from_slice(piece)));
        }
        let is_cut_off = frames.is_cut_off();
        seen.extend_from_slice(&frames.rest());
        (seen, is_cut_off)
    }

    #[test]
    fn empty_data_is_not_seen_however_it_is_written_and_cut() {
        let (head, data): (&[u8], &[u8]) = (&[1, 3, 0, 0, 0xd9], &[0, 4, 0, 0, 0, 0]);
        let empty: &[u8] = &[0, 0, 0x40, 0, 0x80, 0, 0, 0];
        let stream = [head, empty, data, empty, data, empty, &[0x21, 0]].concat();
        for size in 1..=stream.len() {
            let expected = [head, data, data, &[0x21, 0]].concat();
            assert_eq!(seen(&stream, size), (expected, false), "{size}");
        }
    }

    #[test]
    fn a_frame_that_is_cut_off_is_known_and_half_a_length_is_for_h3_to_judge() {
        for size in 1..4 {
            assert_eq!(seen(&[0, 3, 1], size), (vec![0, 3, 1], true), "{size}");
            assert_eq!(seen(&[0, 0x40], size), (vec![0, 0x40], false), "{size}");
        }
    }

    #[test]
    fn the_control_stream_says_which_requests_are_not_answered_and_no_other_does() {
        let frames: &[u8] = &[4, 0, 7, 2, 0x40, 8, 0x21, 1, 9, 7, 1, 4];
        for size in 1..=frames.len() {
            let mut control = ServerFrames::default();
            let stream = [&[0], frames].concat();
            let said = stream.chunks(size).filter_map(|piece| control.take(piece));
            assert_eq!(said.last(), Some(4), "{size}");
        }
        assert_eq!(ServerFrames::default().take(&[&[2], frames].concat()), None);
    }
}
