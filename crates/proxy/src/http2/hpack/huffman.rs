//! The code of texts (RFC 7541, 5.2 and appendix B), in which common bytes are short.
//!
//! Codes are canonical: those of one length follow each other in the order of their bytes, and
//! those of the next length follow them. So the lengths of appendix B say all of it, and every
//! table here is made from them when this is compiled.

use super::decoder::Undecodable;

/// How many bytes a text has at most that these encode, with room to write a byte too many.
pub(crate) const fn room(encoded: usize) -> usize {
    encoded * 8 / SHORTEST as usize + 2
}

/// Decodes a text into `out`, which has [`room`] for it, and says how long it is.
pub(crate) fn decode(encoded: &[u8], out: &mut [u8]) -> Result<usize, Undecodable> {
    let mut input = encoded;
    // The next bits, the first one highest, and how many there are; zeros follow.
    let mut bits = 0_u64;
    let mut held = 0_u32;
    let mut at = 0;
    loop {
        if held < 32 {
            if let Some((word, rest)) = input.split_first_chunk::<4>() {
                input = rest;
                bits |= u64::from(u32::from_be_bytes(*word)) << (32 - held);
                held += 32;
            } else {
                for byte in std::mem::take(&mut input) {
                    bits |= u64::from(*byte) << (56 - held);
                    held += 8;
                }
                if held < 32 {
                    return decode_last(bits, held, out, at);
                }
            }
        }
        let found = FIRST[(bits >> (64 - FIRST_BITS)) as usize];
        if found.bits == 0 {
            let (byte, length) = rare(bits)?;
            *out.get_mut(at).ok_or(Undecodable::Huffman)? = byte;
            at += 1;
            bits <<= length;
            held -= length;
            continue;
        }
        let Some(two) = out.get_mut(at..at + 2) else { return Err(Undecodable::Huffman) };
        two.copy_from_slice(&found.bytes);
        at += usize::from(found.count);
        bits <<= found.bits;
        held -= u32::from(found.bits);
    }
}

/// Decodes the last bits, fewer than 32; before them come `at` bytes of the text.
fn decode_last(
    mut bits: u64,
    mut held: u32,
    out: &mut [u8],
    mut at: usize,
) -> Result<usize, Undecodable> {
    loop {
        let end = u64::MAX >> held;
        let found = FIRST[((bits | end) >> (64 - FIRST_BITS)) as usize];
        let length = if found.bits == 0 {
            // In padding alone they are as many ones as EOS has, or as good as.
            if held >= 8 || bits | end != u64::MAX {
                let (byte, length) = rare(bits | end)?;
                *out.get_mut(at).ok_or(Undecodable::Huffman)? = byte;
                length
            } else {
                return Ok(at);
            }
        } else {
            *out.get_mut(at).ok_or(Undecodable::Huffman)? = found.bytes[0];
            u32::from(LENGTHS[usize::from(found.bytes[0])])
        };
        // What is no whole code could be padding, but not as it is here.
        held = held.checked_sub(length).ok_or(Undecodable::Huffman)?;
        bits <<= length;
        at += 1;
    }
}

/// The byte whose code these bits begin with, which is longer than what `FIRST` knows.
#[cold]
fn rare(bits: u64) -> Result<(u8, u32), Undecodable> {
    let code = (bits >> 32) as u32;
    for (length, limit) in (FIRST_BITS + 1..).zip(&LIMITS[FIRST_BITS as usize + 1..]) {
        if code < limit.code {
            let before_end = (limit.code - code).div_ceil(1 << (32 - length));
            let place = limit.place.wrapping_sub(before_end as usize);
            let byte = ORDERED.get(place).ok_or(Undecodable::Huffman)?;
            return Ok((*byte, length));
        }
    }
    // EOS.
    Err(Undecodable::Huffman)
}

/// How many bytes the text takes.
#[inline]
pub(super) fn encoded_bytes(text: &[u8]) -> usize {
    let bits: usize = text.iter().map(|byte| usize::from(LENGTHS[usize::from(*byte)])).sum();
    bits.div_ceil(8)
}

/// Appends the text in the code.
pub(crate) fn encode(text: &[u8], out: &mut Vec<u8>) {
    // The last bits that are not written yet, the last one lowest, fewer than 32.
    let mut bits = 0_u64;
    let mut held = 0_u32;
    for byte in text {
        let length = u32::from(LENGTHS[usize::from(*byte)]);
        bits = bits << length | u64::from(CODES[usize::from(*byte)]);
        held += length;
        if held >= 32 {
            held -= 32;
            out.extend_from_slice(&((bits >> held) as u32).to_be_bytes());
        }
    }
    // Padded with ones to a byte.
    let padded = (bits << 32 | 0xffff_ffff) >> held;
    let last = (padded as u32).to_be_bytes();
    out.extend_from_slice(&last[..held.div_ceil(8) as usize]);
}

/// What the next `FIRST_BITS` bits are.
#[derive(Clone, Copy)]
struct Found {
    /// One byte of a text, or two where both are that short.
    bytes: [u8; 2],
    count: u8,
    /// The length of all that is found; zero where the first code is longer than is looked at.
    bits: u8,
}

/// Two of the commonest bytes have 11 bits at most.
const FIRST_BITS: u32 = 11;
const SHORTEST: u32 = 5;
const LONGEST: usize = 30;

static FIRST: [Found; 1 << FIRST_BITS] = first();

const fn first() -> [Found; 1 << FIRST_BITS] {
    let none = Found { bytes: [0; 2], count: 0, bits: 0 };
    let mut table = [none; 1 << FIRST_BITS];
    let codes = canonical().codes;
    let mut byte = 0;
    while byte < 256 {
        let length = LENGTHS[byte] as u32;
        if length <= FIRST_BITS {
            let bits = length as u8;
            let found = Found { bytes: [byte as u8, 0], count: 1, bits };
            let mut at = (codes[byte] as usize) << (FIRST_BITS - length);
            let end = at + (1 << (FIRST_BITS - length));
            while at < end {
                table[at] = found;
                at += 1;
            }
        }
        byte += 1;
    }
    with_seconds(table)
}

/// Adds the second bytes, where their codes are whole.
const fn with_seconds(single: [Found; 1 << FIRST_BITS]) -> [Found; 1 << FIRST_BITS] {
    let mut table = single;
    let mut at = 0;
    while at < table.len() {
        let one = single[at];
        let next = single[(at << one.bits) & (single.len() - 1)];
        let bits = one.bits + next.bits;
        if one.bits > 0 && next.bits > 0 && bits as u32 <= FIRST_BITS {
            let bytes = [one.bytes[0], next.bytes[0]];
            table[at] = Found { bytes, count: 2, bits };
        }
        at += 1;
    }
    table
}

/// Where the codes of one length end.
#[derive(Clone, Copy)]
struct Limit {
    /// The first code that is longer, as the highest bits.
    code: u32,
    /// The place in `ORDERED` after the last byte with a code of this length.
    place: usize,
}

static LIMITS: [Limit; LONGEST + 1] = canonical().limits;
/// All bytes by their codes.
static ORDERED: [u8; 256] = canonical().ordered;
static CODES: [u32; 256] = canonical().codes;

struct Canonical {
    codes: [u32; 256],
    ordered: [u8; 256],
    limits: [Limit; LONGEST + 1],
}

const fn canonical() -> Canonical {
    let mut codes = [0; 256];
    let mut ordered = [0; 256];
    let mut limits = [Limit { code: 0, place: 0 }; LONGEST + 1];
    let mut next = 0_u32;
    let mut placed = 0_usize;
    let mut length = 1;
    while length <= LONGEST {
        next <<= 1;
        let mut byte = 0;
        while byte < 256 {
            if LENGTHS[byte] as usize == length {
                codes[byte] = next;
                ordered[placed] = byte as u8;
                placed += 1;
                next += 1;
            }
            byte += 1;
        }
        limits[length] = Limit { code: next << (32 - length), place: placed };
        length += 1;
    }
    Canonical { codes, ordered, limits }
}

/// The lengths of the codes of all bytes (appendix B). EOS, which is no byte, has 30 bits.
const LENGTHS: [u8; 256] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28,
    28, 28, 28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5,
    5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6,
    6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22,
    23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22,
    21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20,
    22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19,
    21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22,
    22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decoded(encoded: &[u8]) -> Result<Vec<u8>, Undecodable> {
        let mut out = vec![0; room(encoded.len())];
        let length = decode(encoded, &mut out)?;
        out.truncate(length);
        Ok(out)
    }

    /// A bit at a time, as appendix B is read.
    fn reference(encoded: &[u8]) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        let (mut code, mut length) = (0_u32, 0_u8);
        for bit in encoded.iter().flat_map(|byte| (0..8).rev().map(move |at| byte >> at & 1)) {
            (code, length) = (code << 1 | u32::from(bit), length + 1);
            let is_it = |byte: &usize| LENGTHS[*byte] == length && CODES[*byte] == code;
            if let Some(byte) = (0..256).find(is_it) {
                out.push(byte as u8);
                (code, length) = (0, 0);
            } else if length == 30 {
                return None;
            }
        }
        (length < 8 && code == (1 << length) - 1).then_some(out)
    }

    #[test]
    fn the_codes_are_those_of_appendix_b() {
        let some = [
            (b'0', 0x0),
            (b't', 0x9),
            (b' ', 0x14),
            (b'!', 0x3f8),
            (b'?', 0x3fc),
            (b'<', 0x7ffc),
            (b'\\', 0x7fff0),
            (b'A', 0x21),
            (b'Z', 0xfd),
            (b'~', 0x1ffd),
            (0, 0x1ff8),
            (1, 0x7f_ffd8),
            (10, 0x3fff_fffc),
            (22, 0x3fff_fffe),
            (127, 0xfff_fffc),
            (128, 0xf_ffe6),
            (200, 0x3ff_ffe2),
            (249, 0xfff_fffe),
            (255, 0x3ff_ffee),
        ];
        for (byte, code) in some {
            assert_eq!(CODES[usize::from(byte)], code, "{byte}");
        }
        // What is left is EOS.
        assert_eq!(LIMITS[30].code >> 2, 0x3fff_ffff);
    }

    #[test]
    fn every_byte_is_decoded_at_every_place() {
        for byte in 0..=255 {
            for before in 0..20 {
                let mut text = vec![b'e'; before];
                text.extend([byte, byte, b'x', byte]);
                let mut encoded = Vec::new();
                encode(&text, &mut encoded);
                assert_eq!(encoded.len(), encoded_bytes(&text));
                assert_eq!(decoded(&encoded), Ok(text));
            }
        }
    }

    #[test]
    fn padding_of_a_byte_or_more_is_refused() {
        // "1" is 00001.
        assert_eq!(decoded(&[0x0f]), Ok(b"1".to_vec()));
        assert_eq!(decoded(&[0x0f, 0xff]), Err(Undecodable::Huffman));
        assert_eq!(decoded(&[0xff]), Err(Undecodable::Huffman));
        assert_eq!(decoded(&[0x0f, 0xff, 0xff]), Err(Undecodable::Huffman));
        assert_eq!(decoded(&[0x08, 0x42, 0x10, 0x84, 0x21, 0xff]), Err(Undecodable::Huffman));
    }

    #[test]
    fn padding_with_zeros_is_refused() {
        assert_eq!(decoded(&[0x08]), Err(Undecodable::Huffman));
        assert_eq!(decoded(&[0x0e]), Err(Undecodable::Huffman));
    }

    #[test]
    fn the_end_of_the_string_in_it_is_refused() {
        assert_eq!(decoded(&[0xff, 0xff, 0xff, 0xff]), Err(Undecodable::Huffman));
        assert_eq!(decoded(&[0xff, 0xff, 0xff, 0xfc]), Err(Undecodable::Huffman));
        let longer = [0xff, 0xff, 0xff, 0xfc, 0x08, 0x42, 0x10, 0x84, 0x21];
        assert_eq!(decoded(&longer), Err(Undecodable::Huffman));
    }

    #[test]
    fn an_empty_text_is_empty() {
        assert_eq!(decoded(&[]), Ok(Vec::new()));
        assert_eq!(encoded_bytes(&[]), 0);
    }

    proptest! {
        #[test]
        fn whatever_comes_is_read_as_bit_by_bit(
            bytes in prop::collection::vec(any::<u8>(), 0..24), high in 0..6u32,
        ) {
            // Many ones lead to codes that are rare.
            let ones = 0xff_u8.checked_shl(8 - high).unwrap_or(0);
            let bytes: Vec<u8> = bytes.iter().map(|byte| byte | ones).collect();
            prop_assert_eq!(decoded(&bytes).ok(), reference(&bytes));
        }

        #[test]
        fn what_is_encoded_is_decoded(text in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut encoded = Vec::new();
            encode(&text, &mut encoded);
            prop_assert_eq!(encoded.len(), encoded_bytes(&text));
            prop_assert_eq!(decoded(&encoded), Ok(text.clone()));
            prop_assert_eq!(reference(&encoded), Some(text));
        }
    }
}
