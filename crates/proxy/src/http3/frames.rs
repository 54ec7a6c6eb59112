//! How long the frames of a stream say they are (RFC 9114, section 7.1).
//!
//! h3 has all of a frame in memory before it reads it, unless it is DATA. A frame that says that it
//! is longer than a head may be is refused before it comes.

/// The frames that have come, as far as their types and lengths are known.
#[derive(Debug)]
pub(super) struct FrameLengths {
    /// What a frame other than DATA may have.
    max: u64,
    stage: Stage,
    /// The integer that comes, as far as it has come, and how many bytes of it are missing.
    integer: u64,
    missing: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The type of a stream of one direction.
    Stream,
    /// The type of a frame.
    Type,
    /// The length of a frame of this type.
    Length(u64),
    /// So much of a frame is to come.
    Payload(u64),
    /// A stream without frames.
    Other,
}

impl FrameLengths {
    /// Those of a request stream.
    pub(super) const fn of_request(max: u64) -> Self {
        Self { max, stage: Stage::Type, integer: 0, missing: 0 }
    }

    /// Those of a stream of one direction, which may be the control stream.
    pub(super) const fn of_uni(max: u64) -> Self {
        Self { stage: Stage::Stream, ..Self::of_request(max) }
    }

    /// Whether what comes next keeps within the limit.
    pub(super) fn fit(&mut self, mut bytes: &[u8]) -> bool {
        while let Some((&first, rest)) = bytes.split_first() {
            match self.stage {
                Stage::Other => return true,
                Stage::Payload(left) => {
                    let count = usize::try_from(left).map_or(bytes.len(), |it| it.min(bytes.len()));
                    bytes = &bytes[count..];
                    let left = left - count as u64;
                    self.stage = if left == 0 { Stage::Type } else { Stage::Payload(left) };
                }
                _ => {
                    bytes = rest;
                    if self.complete(first) && !self.enter() {
                        return false;
                    }
                }
            }
        }
        true
    }

    /// Takes a byte of an integer (RFC 9000, section 16); true with its last.
    fn complete(&mut self, byte: u8) -> bool {
        if self.missing == 0 {
            self.missing = 1 << (byte >> 6);
            self.integer = u64::from(byte & 0x3f);
        } else {
            self.integer = self.integer << 8 | u64::from(byte);
        }
        self.missing -= 1;
        self.missing == 0
    }

    /// Goes on behind an integer; false where it is too long a length.
    fn enter(&mut self) -> bool {
        self.stage = match self.stage {
            Stage::Stream if self.integer == CONTROL => Stage::Type,
            Stage::Type => Stage::Length(self.integer),
            Stage::Length(kind) if kind != DATA && self.integer > self.max => return false,
            Stage::Length(_) if self.integer == 0 => Stage::Type,
            Stage::Length(_) => Stage::Payload(self.integer),
            _ => Stage::Other,
        };
        true
    }
}

const CONTROL: u64 = 0;
const DATA: u64 = 0;

#[cfg(test)]
mod tests {
    use super::*;

    /// HEADERS of two bytes, DATA of 2^30 - 1 of which one has come.
    const REQUEST: &[u8] = &[1, 2, 0, 0, 0, 0xbf, 0xff, 0xff, 0xff, 9];

    #[test]
    fn data_may_be_of_any_length_and_what_comes_in_pieces_is_read_the_same() {
        for size in 1..=REQUEST.len() {
            let mut lengths = FrameLengths::of_request(2);
            assert!(REQUEST.chunks(size).all(|piece| lengths.fit(piece)), "{size}");
            assert_eq!(lengths.stage, Stage::Payload((1 << 30) - 2), "{size}");
        }
    }

    #[test]
    fn another_frame_that_is_too_long_is_refused_by_its_length_alone() {
        assert!(!FrameLengths::of_request(1).fit(REQUEST));
        let mut lengths = FrameLengths::of_request(100);
        // A frame without payload, then trailers of 16 kB.
        assert!(lengths.fit(&[0x21, 0, 1, 0x7f]) && !lengths.fit(&[0xff]));
    }

    #[test]
    fn of_one_direction_only_the_control_stream_has_frames() {
        assert!(!FrameLengths::of_uni(100).fit(&[0, 4, 0x7f, 0xff]));
        assert!(FrameLengths::of_uni(100).fit(&[2, 4, 0x7f, 0xff, 0xff, 0xff]));
    }
}
