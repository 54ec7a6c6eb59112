//! The protocol in the head of a request (RFC 9220): an extended CONNECT, `:protocol: websocket`.
//!
//! h3 0.0.8 knows no such protocol and refuses the whole head. So what a client sends is read here
//! first, up to the end of its HEADERS frame, and the line is taken out of it, whichever protocol
//! it says: one that is not WebSocket gets 501. Everything else is handed on as it came. Lines are
//! told apart by their first bits (RFC 9204, 4.5), and none is decoded: a name or value may be
//! plain or in Huffman's code, of which each text has one form.

use bytes::{Buf as _, Bytes, BytesMut};

/// The beginning of a stream, until its head is through.
#[derive(Debug)]
pub(super) struct Opening {
    /// What has come and cannot be judged yet.
    kept: BytesMut,
    /// Bytes of a frame that is not a head.
    passing: u64,
    /// The longest frame that is looked into; a longer one is for h3 to refuse.
    most: usize,
    is_over: bool,
    pub(super) protocol: Option<Protocol>,
}

/// What an extended CONNECT asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    WebSocket,
    Other,
}

impl Opening {
    pub(super) fn new(most: usize) -> Self {
        let kept = BytesMut::new();
        Self { kept, passing: 0, most, is_over: false, protocol: None }
    }

    /// Whether everything that comes is handed on as it is.
    pub(super) const fn is_over(&self) -> bool {
        self.is_over
    }

    /// Takes what has come; gives what h3 is to see of it, which may be nothing yet.
    pub(super) fn take(&mut self, piece: &[u8]) -> Bytes {
        self.kept.extend_from_slice(piece);
        let mut out = BytesMut::new();
        while !self.is_over && !self.kept.is_empty() {
            if self.passing > 0 {
                let count = usize::try_from(self.passing).unwrap_or(usize::MAX);
                let part = self.kept.split_to(count.min(self.kept.len()));
                self.passing -= part.len() as u64;
                out.unsplit(part);
            } else if !self.take_frame(&mut out) {
                break;
            }
        }
        if self.is_over {
            out.unsplit(self.kept.split());
        }
        out.freeze()
    }

    /// What is left where no more will come.
    pub(super) fn rest(&mut self) -> Bytes {
        self.is_over = true;
        self.kept.split().freeze()
    }

    /// Looks at the beginning of a frame; false where more has to come first.
    fn take_frame(&mut self, out: &mut BytesMut) -> bool {
        let mut reader: &[u8] = &self.kept;
        let (Some(kind), Some(length)) = (varint(&mut reader), varint(&mut reader)) else {
            return false;
        };
        let begin = self.kept.len() - reader.len();
        if kind != HEADERS {
            out.unsplit(self.kept.split_to(begin));
            self.passing = length;
            return true;
        }
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > self.most {
            self.is_over = true;
            return true;
        }
        let Some(block) = reader.get(..length) else { return false };
        self.is_over = true;
        if let Some((protocol, without)) = without_protocol(block) {
            self.protocol = Some(protocol);
            out.extend_from_slice(&[HEADERS as u8]);
            // Written in eight bytes whatever it is: it need not be short.
            out.extend_from_slice(&(0b11 << 62 | without.len() as u64).to_be_bytes());
            out.extend_from_slice(&without);
            self.kept.advance(begin + length);
        }
        true
    }
}

/// The protocol of a head, and its encoded lines without that; none where there is none, or where
/// they are cut off, which is for h3 to say.
fn without_protocol(block: &[u8]) -> Option<(Protocol, Vec<u8>)> {
    let mut reader = block;
    integer(&mut reader, 8)?;
    integer(&mut reader, 7)?;
    let mut found = None;
    while let Some(first) = reader.first().copied() {
        let line = reader;
        let protocol = match first.leading_zeros() {
            // Indexed.
            0 => integer(&mut reader, 6).map(|_| None),
            // A value with the name of another line.
            1 => integer(&mut reader, 4).and_then(|_| text(&mut reader, 7)).map(|_| None),
            // A name and a value.
            2 => name_and_value(&mut reader),
            // As the first two, with lines that a dynamic table would have.
            3 => integer(&mut reader, 4).map(|_| None),
            _ => integer(&mut reader, 3).and_then(|_| text(&mut reader, 7)).map(|_| None),
        };
        if let Some(protocol) = protocol? {
            let end = block.len() - reader.len();
            found = Some((protocol, block.len() - line.len()..end));
        }
    }
    let (protocol, line) = found?;
    Some((protocol, [&block[..line.start], &block[line.end..]].concat()))
}

/// The protocol that a line says, if it says one.
fn name_and_value(reader: &mut &[u8]) -> Option<Option<Protocol>> {
    let name = text(reader, 3)?;
    let value = text(reader, 7)?;
    let is = |(is_coded, bytes): (bool, &[u8]), [plain, coded]: [&[u8]; 2]| {
        bytes == if is_coded { coded } else { plain }
    };
    let protocol = if is(value, WEBSOCKET) { Protocol::WebSocket } else { Protocol::Other };
    Some(is(name, PROTOCOL).then_some(protocol))
}

/// A text whose length has so many bits in its first byte, and whether it is in Huffman's code.
pub(super) fn text<'a>(reader: &mut &'a [u8], bits: u32) -> Option<(bool, &'a [u8])> {
    let is_coded = reader.first()? & (1 << bits) != 0;
    let length = usize::try_from(integer(reader, bits)?).ok()?;
    let (text, rest) = reader.split_at_checked(length)?;
    *reader = rest;
    Some((is_coded, text))
}

/// An integer that begins in the last bits of a byte (RFC 7541, 5.1), of as many bytes as h3 takes.
pub(super) fn integer(reader: &mut &[u8], bits: u32) -> Option<u64> {
    let (&first, rest) = reader.split_first()?;
    *reader = rest;
    let most = (1_u64 << bits) - 1;
    let mut value = u64::from(first) & most;
    if value < most {
        return Some(value);
    }
    for shift in (0..63).step_by(7) {
        let (&byte, rest) = reader.split_first()?;
        *reader = rest;
        value += u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// An integer of QUIC (RFC 9000, 16).
pub(super) fn varint(reader: &mut &[u8]) -> Option<u64> {
    let length = 1 << (reader.first()? >> 6);
    let (bytes, rest) = reader.split_at_checked(length)?;
    *reader = rest;
    let value = bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
    Some(value & (u64::MAX >> (66 - 8 * length as u32)))
}

/// The type of the frame with a head (RFC 9114, 7.2.2).
const HEADERS: u64 = 1;

/// `:protocol`, plain and in Huffman's code.
const PROTOCOL: [&[u8]; 2] = [b":protocol", &[0xb9, 0x5d, 0x87, 0x49, 0xc8, 0x7a, 0x3f]];

/// `websocket`, likewise.
const WEBSOCKET: [&[u8]; 2] = [b"websocket", &[0xf0, 0x58, 0xd0, 0x72, 0x75, 0x2a, 0x7f]];

#[cfg(test)]
mod tests {
    use super::*;

    /// `:method GET`, a path with a name from the table, and these lines.
    fn block(lines: &[&[u8]]) -> Vec<u8> {
        let before: &[u8] = &[0, 0, 0xd1, 0x51, 2, b'/', b'a'];
        [before, &lines.concat(), &[0xc1]].concat()
    }

    fn line(name: (u8, &[u8]), value: (u8, &[u8])) -> Vec<u8> {
        let length = name.1.len() as u8;
        let name_length = if length < 7 { vec![length] } else { vec![7, length - 7] };
        let first = vec![0x20 | name.0 << 3 | name_length[0]];
        let second = vec![value.0 << 7 | value.1.len() as u8];
        [first, name_length[1..].to_vec(), name.1.to_vec(), second, value.1.to_vec()].concat()
    }

    fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
        [&[kind, 0x40, payload.len() as u8], payload].concat()
    }

    /// What h3 sees of a stream that comes in pieces of this size, and its protocol.
    fn seen(stream: &[u8], size: usize) -> (Vec<u8>, Option<Protocol>) {
        let mut opening = Opening::new(1_000);
        let mut seen = Vec::new();
        for piece in stream.chunks(size) {
            seen.extend_from_slice(&opening.take(piece));
        }
        seen.extend_from_slice(&opening.rest());
        (seen, opening.protocol)
    }

    /// A line that says a protocol, the name in Huffman's code if `name` is 1, `value` likewise.
    fn protocol(name: u8, (value, text): (u8, &[u8])) -> Vec<u8> {
        line((name, PROTOCOL[name as usize]), (value, text))
    }

    #[test]
    fn the_line_is_taken_out_however_it_is_written_and_cut() {
        let values: [(u8, &[u8], Protocol); 5] = [
            (0, WEBSOCKET[0], Protocol::WebSocket),
            (1, WEBSOCKET[1], Protocol::WebSocket),
            (0, b"WebSocket", Protocol::Other),
            (0, b"webtransport", Protocol::Other),
            (0, WEBSOCKET[1], Protocol::Other),
        ];
        for (value, text, said) in values {
            for name in 0..2 {
                let (with, without) = (block(&[&protocol(name, (value, text))]), block(&[]));
                let stream = [frame(0x21, b"unknown"), frame(1, &with), frame(0, b"body")].concat();
                let length = (0b11 << 62 | without.len() as u64).to_be_bytes();
                let expected =
                    [&frame(0x21, b"unknown"), &[1][..], &length, &without, &frame(0, b"body")];
                for size in 1..stream.len() {
                    assert_eq!(seen(&stream, size), (expected.concat(), Some(said)), "{size}");
                }
            }
        }
    }

    #[test]
    fn everything_else_comes_as_it_was() {
        let websocket = protocol(0, (0, WEBSOCKET[0]));
        let cut = &block(&[&websocket])[..20];
        let long = frame(1, &block(&[&line((0, b"x"), (0, &[b'v'; 100]))]));
        let streams = [
            frame(1, cut),
            frame(1, &[]),
            frame(0, b"no head"),
            [frame(1, &block(&[])), frame(1, &block(&[&websocket]))].concat(),
            long[..50].to_vec(),
            [vec![1, 0xff], vec![0xff; 20]].concat(),
            vec![0xc0],
        ];
        for stream in streams {
            for size in 1..=stream.len() {
                assert_eq!(seen(&stream, size), (stream.clone(), None), "{stream:?} by {size}");
            }
        }
    }
}
