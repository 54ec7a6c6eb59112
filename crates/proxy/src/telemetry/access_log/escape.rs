//! Escapes what clients send, so that nobody can end or forge a line of the log.
//!
//! Everything written is printable ASCII. Between quotes of the text formats what is not becomes
//! `\xNN`; in JSON it becomes `\uNNNN`, and what is not UTF-8 the replacement character.

/// Adds `bytes` for a place between double quotes.
pub(super) fn quoted(out: &mut Vec<u8>, bytes: &[u8]) {
    pieces(out, bytes, |out, byte| match byte {
        b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
        _ => out.extend_from_slice(&[b'\\', b'x', digit(byte >> 4), digit(byte & 15)]),
    });
}

/// Adds `bytes` for a place between spaces.
pub(super) fn word(out: &mut Vec<u8>, bytes: &[u8]) {
    for piece in bytes.split_inclusive(|&byte| byte == b' ') {
        match piece.split_last() {
            Some((b' ', rest)) => {
                quoted(out, rest);
                out.extend_from_slice(b"\\x20");
            }
            _ => quoted(out, piece),
        }
    }
}

/// Adds `bytes` as the inside of a JSON string.
pub(super) fn json(out: &mut Vec<u8>, bytes: &[u8]) {
    if bytes.is_ascii() {
        return pieces(out, bytes, |out, byte| match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            _ => unit(out, u16::from(byte)),
        });
    }
    for character in String::from_utf8_lossy(bytes).chars() {
        match u8::try_from(character) {
            Ok(byte) if byte.is_ascii() => json(out, &[byte]),
            _ => character.encode_utf16(&mut [0; 2]).iter().for_each(|&it| unit(out, it)),
        }
    }
}

/// Copies what is harmless in runs, and gives the rest to `escape` byte by byte.
fn pieces(out: &mut Vec<u8>, bytes: &[u8], escape: impl Fn(&mut Vec<u8>, u8)) {
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|&byte| !is_harmless(byte)) {
        out.extend_from_slice(&rest[..at]);
        escape(out, rest[at]);
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
}

const fn is_harmless(byte: u8) -> bool {
    matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\'
}

/// Adds one unit of UTF-16.
fn unit(out: &mut Vec<u8>, unit: u16) {
    let [high, low] = unit.to_be_bytes();
    let digits = [high >> 4, high & 15, low >> 4, low & 15].map(digit);
    out.extend_from_slice(b"\\u");
    out.extend_from_slice(&digits);
}

const fn digit(value: u8) -> u8 {
    b"0123456789abcdef"[value as usize]
}
