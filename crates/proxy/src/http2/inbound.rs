//! Frames on their way to h2: what is kept from it, and what is counted.
//!
//! A frame DATA in which there is nothing, not even the end, means nothing (RFC 9113, 6.1), yet
//! h2 ends a connection with the 101st that ever came on it. Some servers send one with each
//! response. So they are left out here, as long as there are not many more of them than of other
//! frames ([`Level`]); the others are left to h2.

use loadline_core::time::Instant;

use super::{backlog::SMALL, level::Level};

/// Where in the frames of one direction the reader is.
#[derive(Debug)]
pub(super) struct Inbound {
    /// Bytes before the next header.
    ahead: usize,
    /// A header, of which part has come, or all.
    header: [u8; HEADER],
    /// How much of it has come.
    come: usize,
    /// How many of its bytes, the last ones, h2 is still to see.
    due: usize,
    /// Small frames since somebody last asked.
    small: u32,
    /// Of empty frames.
    empty: Level,
    latest: Latest,
}

/// The streams of messages of which something came with the last read: what breaks a rule of the
/// connection is among it, as h2 looks at all that has come before it reads on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Latest {
    streams: [u32; LATEST],
    /// How many they are; more than there is room for are any.
    count: usize,
}

impl Latest {
    /// Whether something came, or may have come, of this one.
    pub(super) fn may_have(&self, stream: u32) -> bool {
        self.count > LATEST || self.streams[..self.count].contains(&stream)
    }

    fn add(&mut self, stream: u32) {
        if stream == 0 || self.streams.get(self.count.wrapping_sub(1)) == Some(&stream) {
            return;
        }
        if let Some(slot) = self.streams.get_mut(self.count) {
            *slot = stream;
        }
        self.count = (self.count + 1).min(LATEST + 1);
    }
}

impl Inbound {
    /// Frames from the first one on.
    pub(super) const fn new() -> Self {
        Self {
            ahead: 0,
            header: [0; HEADER],
            come: 0,
            due: 0,
            small: 0,
            empty: Level::new(),
            latest: Latest { streams: [0; LATEST], count: 0 },
        }
    }

    /// Of which streams something came with the last read.
    pub(super) const fn latest(&self) -> Latest {
        self.latest
    }

    /// Takes out of `bytes`, which have just been read, what h2 is not to see: what is left. A
    /// header that is cut in two is kept until the rest of it comes.
    pub(super) fn sift(&mut self, bytes: &mut [u8], now: Instant) -> usize {
        let (mut at, mut kept) = (0, 0);
        self.latest.count = 0;
        if self.ahead > 0 {
            self.note_stream();
        }
        while at < bytes.len() {
            let passed = self.ahead.min(bytes.len() - at);
            if kept < at {
                bytes.copy_within(at..at + passed, kept);
            }
            self.ahead -= passed;
            (at, kept) = (at + passed, kept + passed);
            let begun = HEADER.min(bytes.len() - at);
            self.header[..begun].copy_from_slice(&bytes[at..at + begun]);
            if begun < HEADER {
                self.come = begun;
                break;
            }
            at += HEADER;
            if self.wants(now) {
                bytes[kept..kept + HEADER].copy_from_slice(&self.header);
                kept += HEADER;
            }
        }
        kept
    }

    /// Where the rest of a header goes that was cut in two; nothing if none was.
    pub(super) fn missing(&mut self) -> &mut [u8] {
        match self.come {
            0 => &mut [],
            come => &mut self.header[come..],
        }
    }

    /// Takes so many bytes that were missing; none at the end.
    pub(super) fn complete(&mut self, count: usize, now: Instant) {
        self.come += count;
        if count == 0 {
            self.header.rotate_right(HEADER - self.come);
            (self.due, self.come) = (self.come, 0);
        } else if self.come == HEADER {
            self.come = 0;
            self.due = if self.wants(now) { HEADER } else { 0 };
        }
    }

    /// Bytes of a header that h2 is still to see.
    pub(super) fn due(&self) -> &[u8] {
        &self.header[HEADER - self.due..]
    }

    /// Notes that h2 has seen so many of them.
    pub(super) const fn pass(&mut self, count: usize) {
        self.due -= count;
    }

    /// How many small frames have come since the last call.
    pub(super) const fn take_small(&mut self) -> u32 {
        std::mem::replace(&mut self.small, 0)
    }

    /// Notes whose frame has come, if it is of a message.
    fn note_stream(&mut self) {
        let [_, _, _, kind, _, stream @ ..] = self.header;
        if matches!(kind, DATA | HEADERS | CONTINUATION) {
            self.latest.add(u32::from_be_bytes(stream) & STREAM);
        }
    }

    /// Goes on to the frame of `header`; whether h2 is to see it.
    fn wants(&mut self, now: Instant) -> bool {
        let [a, b, c, kind, flags, stream @ ..] = self.header;
        let length = u32::from_be_bytes([0, a, b, c]) as usize;
        self.ahead = length;
        self.note_stream();
        if length > 0 {
            let is_open = kind == DATA && flags & END_STREAM == 0;
            self.small += u32::from(is_open && (length < SMALL || flags & PADDED != 0));
            if matches!(kind, DATA | HEADERS) {
                self.empty.lower();
            }
            return true;
        }
        if kind != DATA || flags != 0 || stream == [0; 4] {
            return true;
        }
        self.empty.rise(now)
    }
}

/// Bytes of a frame before its payload (RFC 9113, 4.1).
const HEADER: usize = 9;

const DATA: u8 = 0;
const HEADERS: u8 = 1;

const CONTINUATION: u8 = 9;

/// The bits of a stream's number in four bytes.
const STREAM: u32 = 0x7fff_ffff;

/// Streams that are told apart of those that come with one read: of a head, or a full frame, each.
const LATEST: usize = 15;

const END_STREAM: u8 = 1;
const PADDED: u8 = 8;

#[cfg(test)]
mod tests {
    use loadline_core::time::Duration;

    use super::*;

    fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
        let length = (payload.len() as u32).to_be_bytes();
        [&length[1..], &[kind, flags, 0, 0, 0, stream], payload].concat()
    }

    /// What h2 sees of `bytes` that come in pieces of this length, with room for as many.
    fn seen(bytes: &[u8], piece: usize) -> Vec<u8> {
        let mut inbound = Inbound::new();
        inbound.ahead = 3;
        let (mut left, mut seen) = (bytes, Vec::new());
        let mut read = |into: &mut [u8]| {
            let count = into.len().min(left.len());
            into[..count].copy_from_slice(&left[..count]);
            left = &left[count..];
            count
        };
        loop {
            let due = inbound.due().len().min(piece);
            if due > 0 {
                seen.extend_from_slice(&inbound.due()[..due]);
                inbound.pass(due);
            } else if !inbound.missing().is_empty() {
                let count = read(inbound.missing());
                inbound.complete(count, Instant::ZERO);
            } else {
                let mut room = vec![0; piece];
                let count = read(&mut room);
                if count == 0 {
                    return seen;
                }
                let kept = inbound.sift(&mut room[..count], Instant::ZERO);
                seen.extend_from_slice(&room[..kept]);
            }
        }
    }

    #[test]
    fn frames_without_anything_in_them_are_left_out_however_they_are_cut() {
        let whole = [
            b"pre".to_vec(),
            frame(HEADERS, 4, 1, b"abc"),
            frame(DATA, 0, 1, b""),
            frame(DATA, 0, 1, b""),
            frame(DATA, 0, 1, &[0; 20]),
            frame(DATA, END_STREAM, 1, b""),
            frame(DATA, 0, 0, b""),
            frame(4, 0, 0, b""),
            frame(DATA, 0, 3, b""),
            frame(DATA, 0, 3, b"end")[..11].to_vec(),
        ];
        let wanted: Vec<u8> = [0, 1, 4, 5, 6, 7, 9].map(|at| whole[at].clone()).concat();
        for piece in 1..100 {
            assert_eq!(seen(&whole.concat(), piece), wanted, "in pieces of {piece}");
        }
    }

    #[test]
    fn a_header_that_breaks_off_is_passed_on_as_it_is() {
        for piece in 1..20 {
            assert_eq!(seen(b"pre\0\0\0\0", piece), b"pre\0\0\0\0", "in pieces of {piece}");
        }
    }

    #[test]
    fn frames_without_anything_in_them_are_left_out_as_long_as_they_are_not_many_more() {
        let mut inbound = Inbound::new();
        let mut pass = |bytes: &[u8], millis: u64| {
            let now = Instant::ZERO + Duration::from_millis(millis);
            inbound.sift(&mut bytes.to_vec(), now) > 0
        };
        let (empty, full) = (frame(DATA, 0, 1, b""), frame(DATA, 0, 1, b"x"));
        for number in 0..5_000 {
            assert!(pass(&full, 0) && !pass(&empty, 0), "one with each other frame: {number}");
        }
        for number in 0..5_000 {
            assert!(!pass(&empty, number * 100), "10 a second: {number}");
        }
        let left_out = (0..2_000).filter(|_| !pass(&empty, 500_000)).count();
        assert!((990..=1_010).contains(&left_out), "{left_out} at once");
    }

    #[test]
    fn small_frames_are_counted() {
        let mut inbound = Inbound::new();
        for (frame, small) in [
            (frame(DATA, 0, 1, &[0; 255]), 1),
            (frame(DATA, 0, 1, &[0; 256]), 0),
            (frame(DATA, PADDED, 1, &[0; 300]), 1),
            (frame(DATA, END_STREAM, 1, b"x"), 0),
            (frame(HEADERS, 0, 1, b"x"), 0),
        ] {
            inbound.sift(&mut frame.clone(), Instant::ZERO);
            assert_eq!(inbound.take_small(), small, "{frame:?}");
        }
    }

    #[test]
    fn it_is_known_of_which_streams_something_came_with_the_last_read() {
        let mut inbound = Inbound::new();
        let mut read = |bytes: &[u8]| {
            inbound.sift(&mut bytes.to_vec(), Instant::ZERO);
            let latest = inbound.latest();
            (1..=200).filter(|stream| latest.may_have(*stream)).collect::<Vec<u32>>()
        };
        assert!(read(&frame(4, 0, 0, b"settings")).is_empty());
        let begun = [frame(HEADERS, 4, 1, b"x"), frame(DATA, 0, 3, b"abc")].concat();
        assert_eq!(read(&begun[..begun.len() - 2]), [1, 3]);
        assert_eq!(read(b"b"), [3]);
        assert_eq!(read(b"c"), [3]);
        let kinds = [(3, 5), (8, 7), (CONTINUATION, 9), (DATA, 9), (HEADERS, 11)];
        let frames = kinds.map(|(kind, stream)| frame(kind, 0, stream, b"1234"));
        assert_eq!(read(&frames.concat()), [9, 11]);
        let many: Vec<_> = (1..=16).map(|stream| frame(DATA, 0, stream, b"x")).collect();
        assert_eq!(read(&many[..15].concat()), (1..=15).collect::<Vec<_>>());
        assert_eq!(read(&many.concat()).len(), 200, "too many to tell apart");
    }
}
