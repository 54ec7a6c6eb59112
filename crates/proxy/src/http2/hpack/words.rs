//! Texts eight bytes at a time: hashed, compared, in lower case.

/// Eight bytes or fewer, the first one lowest; zeros follow.
pub(super) type Word = u64;

/// Hashes a text after others, whose hash is `seed`, with each word changed by `map`.
#[inline]
pub(super) fn hash(seed: u64, text: &[u8], map: impl Fn(Word) -> Word) -> u64 {
    let mut hash = seed ^ text.len() as u64;
    let mut rest = text;
    while rest.len() > 16
        && let Some((sixteen, after)) = rest.split_first_chunk::<16>()
    {
        let both = u128::from_le_bytes(*sixteen);
        hash = fold(hash ^ map(both as u64), SECOND ^ map((both >> 64) as u64));
        rest = after;
    }
    // The two last words may overlap those before them and each other.
    let (first, last) = if let Some(last) = text.last_chunk::<16>() {
        let both = u128::from_le_bytes(*last);
        (both as u64, (both >> 64) as u64)
    } else {
        ends(text)
    };
    fold(hash ^ map(first), SECOND ^ map(last))
}

/// Whether the text is this one, with each of its words changed by `map`.
#[inline]
pub(super) fn is_same(text: &[u8], other: &[u8], map: impl Fn(Word) -> Word) -> bool {
    if text.len() != other.len() {
        return false;
    }
    let pairs = text.as_chunks().0.iter().zip(other.as_chunks().0);
    for (word, other) in pairs {
        if map(u64::from_le_bytes(*word)) != u64::from_le_bytes(*other) {
            return false;
        }
    }
    let (first, last) = ends(text);
    (map(first), map(last)) == ends(other)
}

/// The first and the last word of a text; of one of less than eight bytes, what makes up all of it.
#[inline]
fn ends(text: &[u8]) -> (Word, Word) {
    if let (Some(first), Some(last)) = (text.first_chunk(), text.last_chunk()) {
        (u64::from_le_bytes(*first), u64::from_le_bytes(*last))
    } else if let (Some(first), Some(last)) = (text.first_chunk(), text.last_chunk()) {
        (u64::from(u32::from_le_bytes(*first)), u64::from(u32::from_le_bytes(*last)))
    } else {
        (text.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)), 0)
    }
}

/// The word in lower case.
#[inline]
pub(super) const fn lower(word: Word) -> Word {
    let low = word & (EACH * 0x7f);
    // The highest bit of each byte says whether it is beyond a letter; no sum leaves its byte.
    let from_a = low + EACH * (0x80 - b'A' as u64);
    let beyond_z = low + EACH * (0x7f - b'Z' as u64);
    let upper = (from_a ^ beyond_z) & !word & (EACH * 0x80);
    word | upper >> 2
}

const EACH: u64 = 0x0101_0101_0101_0101;

/// A product whose halves are one.
#[inline]
const fn fold(a: u64, b: u64) -> u64 {
    let product = (a ^ FIRST) as u128 * b as u128;
    product as u64 ^ (product >> 64) as u64
}

/// Odd, and half of their bits are ones.
const FIRST: u64 = 0x9e37_79b9_7f4a_7c15;
const SECOND: u64 = 0xd1b5_4a32_d192_ed03;

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_byte_in_lower_case_is_as_the_library_has_it() {
        for byte in 0..=255_u8 {
            for at in 0..8 {
                let mut bytes = [b'Z', b'[', 0xff, b'@', b'z', 0, 0x80, b'A'];
                bytes[at] = byte;
                let expected = u64::from_le_bytes(bytes.map(|byte| byte.to_ascii_lowercase()));
                assert_eq!(lower(u64::from_le_bytes(bytes)), expected);
            }
        }
    }

    #[test]
    fn texts_that_differ_in_one_byte_are_not_the_same_and_have_different_hashes() {
        for length in 0..70 {
            let text = vec![b'a'; length];
            let mut seen = HashSet::from([hash(1, &text, |word| word)]);
            assert!(is_same(&text, &text, |word| word));
            assert!(!is_same(&text, &[&text[..], b"a"].concat(), |word| word));
            for at in 0..length {
                let mut other = text.clone();
                other[at] = b'b';
                assert!(!is_same(&text, &other, |word| word), "byte {at} of {length}");
                assert!(!is_same(&other, &text, |word| word), "byte {at} of {length}");
                assert!(seen.insert(hash(1, &other, |word| word)), "byte {at} of {length}");
            }
        }
    }

    #[test]
    fn a_text_in_capitals_is_as_that_in_small_letters() {
        for length in 0..70 {
            let text = vec![b'x'; length];
            for at in 0..length {
                let mut other = text.clone();
                other[at] = b'X';
                assert!(is_same(&other, &text, lower));
                assert_eq!(hash(1, &other, lower), hash(1, &text, |word| word));
            }
        }
    }
}
