//! Integers whose first byte they share with what precedes them (RFC 7541, 5.1).
//!
//! A value below the mask of the shared byte is in it; one that is not has seven bits in each of
//! the bytes that follow, the lowest first.

use super::decoder::Undecodable;

/// Reads the integer that begins in the bits of `first` under `mask`, all of them the lowest, and
/// goes on in `rest`.
#[inline]
pub(super) fn read(first: u8, mask: u8, rest: &mut &[u8]) -> Result<u32, Undecodable> {
    let start = first & mask;
    if start < mask {
        return Ok(u32::from(start));
    }
    read_more(mask, rest)
}

fn read_more(mask: u8, rest: &mut &[u8]) -> Result<u32, Undecodable> {
    let mut value = u32::from(mask);
    for at in 0..MOST {
        let Some((&byte, after)) = rest.split_first() else { return Err(Undecodable::Incomplete) };
        *rest = after;
        // Four times seven bits and a byte: no sum leaves 32 bits.
        value += u32::from(byte & 0x7f) << (7 * at);
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(Undecodable::Integer)
}

/// Appends the integer after the bits of `high`, which are none of the mask's.
#[inline]
pub(super) fn write(out: &mut Vec<u8>, high: u8, mask: u8, value: usize) {
    let Some(more) = value.checked_sub(usize::from(mask)) else {
        // Less than a mask, which is a byte.
        out.push(high | value as u8);
        return;
    };
    out.push(high | mask);
    write_more(out, more);
}

fn write_more(out: &mut Vec<u8>, mut more: usize) {
    while more >= 0x80 {
        out.push(more as u8 | 0x80);
        more >>= 7;
    }
    out.push(more as u8);
}

/// So many bytes after the first one hold 268 million, more than any block has. What is longer is
/// padded with zeros to keep us busy, or too big.
const MOST: u32 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn read_whole(bytes: &[u8], mask: u8) -> Result<(u32, usize), Undecodable> {
        let (first, mut rest) = bytes.split_first().unwrap();
        read(*first, mask, &mut rest).map(|value| (value, rest.len()))
    }

    #[test]
    fn the_examples_of_the_rfc_are_read_and_written() {
        let cases: [(&[u8], u8, u32); 3] =
            [(&[0x0a], 0x1f, 10), (&[0x1f, 0x9a, 0x0a], 0x1f, 1337), (&[0x2a], 0xff, 42)];
        for (bytes, mask, value) in cases {
            assert_eq!(read_whole(bytes, mask), Ok((value, 0)));
            let mut out = Vec::new();
            write(&mut out, 0, mask, value as usize);
            assert_eq!(out, bytes);
        }
    }

    #[test]
    fn what_is_written_is_read_again_at_every_boundary() {
        for mask in [0x0f, 0x1f, 0x3f, 0x7f] {
            let edges = [0, 1, 14, 15, 30, 31, 62, 63, 126, 127, 128, 254, 255, 256, 4096, 16_511];
            for value in edges.into_iter().chain([1 << 21, (1 << 28) - 1]) {
                let mut out = Vec::new();
                write(&mut out, 0x80, mask, value as usize);
                assert_eq!(read_whole(&out, mask), Ok((value, 0)), "{value} after {mask:#x}");
            }
        }
    }

    #[test]
    fn an_integer_of_many_bytes_is_refused_even_if_they_are_zeros() {
        assert_eq!(read_whole(&[0x7f, 0x80, 0x80, 0x80, 0x00], 0x7f), Ok((127, 0)));
        let long = [0x7f, 0x80, 0x80, 0x80, 0x80, 0x00];
        assert_eq!(read_whole(&long, 0x7f), Err(Undecodable::Integer));
        let big = [0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];
        assert_eq!(read_whole(&big, 0x7f), Err(Undecodable::Integer));
    }

    #[test]
    fn an_integer_that_ends_early_is_refused() {
        assert_eq!(read_whole(&[0x7f], 0x7f), Err(Undecodable::Incomplete));
        assert_eq!(read_whole(&[0x7f, 0x80], 0x7f), Err(Undecodable::Incomplete));
    }
}
