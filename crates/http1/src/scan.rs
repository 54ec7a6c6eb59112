//! Byte classes, and the search for the end of a line.
//!
//! A head is read line by line and each byte is looked at once by the line search, eight at a
//! time: the first control character other than a tab must be the CR of a CR LF. That one test
//! finds the line end and refuses bare CR, bare LF, NUL and every other control character.

use crate::error::ParseError;

/// Whether `byte` may be part of a token (RFC 9110, 5.6.2): method, field name, option.
#[inline]
pub(crate) const fn is_token_byte(byte: u8) -> bool {
    TOKEN[byte as usize]
}

/// Whether `text` is a token: not empty, token bytes only.
pub(crate) fn is_token(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|&byte| is_token_byte(byte))
}

/// `text` without the spaces and tabs at its ends.
pub(crate) fn trim(text: &[u8]) -> &[u8] {
    let is_text = |byte: &u8| *byte != b' ' && *byte != b'\t';
    let Some(start) = text.iter().position(is_text) else { return &[] };
    let end = text.iter().rposition(is_text).map_or(start, |last| last + 1);
    &text[start..end]
}

/// Where the search for a line stands; survives until the bytes that are missing have come.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LineCursor {
    /// Start of the line that is not finished.
    pub(crate) line: usize,
    /// Bytes of the line before this position are known to have no control character.
    at: usize,
}

impl LineCursor {
    /// The next line as `(start, position of its CR)`, or `None` until its CR LF is in `window`.
    ///
    /// Each call goes on where the last one stopped, so a head that comes byte by byte costs no
    /// more than one that comes at once.
    #[inline]
    pub(crate) fn next_line(
        &mut self,
        window: &[u8],
    ) -> Result<Option<(usize, usize)>, ParseError> {
        let stop = first_control(window, self.at);
        self.at = stop;
        match (window.get(stop), window.get(stop + 1)) {
            (None, _) | (Some(b'\r'), None) => Ok(None),
            (Some(b'\r'), Some(b'\n')) => {
                let start = self.line;
                self.line = stop + 2;
                self.at = self.line;
                Ok(Some((start, stop)))
            }
            (Some(b'\r'), _) => Err(ParseError::BareCr),
            (Some(b'\n'), _) => Err(ParseError::BareLf),
            _ => Err(ParseError::ControlByte),
        }
    }
}

/// The first position at or after `from` that holds a control character other than a tab, or the
/// length of `bytes`.
#[inline]
fn first_control(bytes: &[u8], from: usize) -> usize {
    let mut at = from;
    while let Some(word) = bytes.get(at..at + 8) {
        let word = u64::from_le_bytes(word.try_into().expect("the slice has eight bytes"));
        let found = controls(word);
        if found == 0 {
            at += 8;
            continue;
        }
        at += (found.trailing_zeros() / 8) as usize;
        if bytes[at] != b'\t' {
            return at;
        }
        at += 1;
    }
    while at < bytes.len() && (bytes[at] == b'\t' || !bytes[at].is_ascii_control()) {
        at += 1;
    }
    at
}

/// The high bit of each byte of `word` below 0x20 or equal to 0x7f. Bits above the lowest one may
/// be false (a borrow ran through them); the lowest is exact, and the only one that is used.
#[inline]
const fn controls(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x8080_8080_8080_8080;
    let below_space = word.wrapping_sub(ONES * 0x20) & !word;
    let delete = word ^ (ONES * 0x7f);
    let is_delete = delete.wrapping_sub(ONES) & !delete;
    (below_space | is_delete) & HIGHS
}

const TOKEN: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = matches!(
            byte as u8,
            b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_'
                | b'`' | b'|' | b'~' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z'
        );
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_control_is_found_at_every_position_and_for_every_byte() {
        for length in 0..40 {
            for position in 0..length {
                for byte in 0..=255_u8 {
                    let mut text = vec![b'a'; length];
                    text[position] = byte;
                    let expected =
                        if byte.is_ascii_control() && byte != b'\t' { position } else { length };
                    assert_eq!(first_control(&text, 0), expected, "{byte} at {position}");
                }
            }
        }
    }

    #[test]
    fn a_line_is_found_once_its_line_feed_is_there() {
        let text = b"ab\tc\r\nd\r\n";
        let mut cursor = LineCursor::default();
        for end in 0..6 {
            assert_eq!(cursor.next_line(&text[..end]), Ok(None), "{end}");
        }
        assert_eq!(cursor.next_line(&text[..6]), Ok(Some((0, 4))));
        assert_eq!(cursor.next_line(text), Ok(Some((6, 7))));
        assert_eq!(cursor.next_line(text), Ok(None));
    }

    #[test]
    fn trim_takes_spaces_and_tabs_only() {
        assert_eq!(trim(b" \t a b\t "), b"a b");
        assert_eq!(trim(b" \t"), b"");
        assert_eq!(trim(b"\x0ba"), b"\x0ba");
    }
}
