//! The head of a request as a store reads it: lines that were written for a server a moment ago, so
//! nothing of them is checked once more.

use loadline_core::cache::Field;

/// A request for an object.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<'a> {
    pub(super) method: &'a [u8],
    /// The path as it was sent, without its query.
    pub(super) path: &'a [u8],
    /// Its query, with the question mark; empty without one.
    pub(super) query: &'a [u8],
    lines: &'a [u8],
}

impl<'a> Asked<'a> {
    /// Reads the head with which `text` begins.
    pub(super) fn of(text: &'a [u8]) -> Self {
        let end = text.windows(4).position(|it| it == b"\r\n\r\n").unwrap_or(text.len());
        let head = &text[..end];
        let first = head.iter().position(|byte| *byte == b'\r').unwrap_or(head.len());
        let mut words = head[..first].split(|byte| *byte == b' ');
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let mark = target.iter().position(|byte| *byte == b'?').unwrap_or(target.len());
        let (path, query) = target.split_at(mark);
        Self { method, path, query, lines: head.get(first + 2..).unwrap_or_default() }
    }

    /// Its fields in their order.
    pub(super) fn fields(self) -> impl Iterator<Item = Field<'a>> {
        self.lines.split(|byte| *byte == b'\n').filter_map(|line| {
            let colon = line.iter().position(|byte| *byte == b':')?;
            Some(Field::new(&line[..colon], line[colon + 1..].trim_ascii()))
        })
    }
}

/// A request for the first byte of what the head with which `text` begins asks for.
pub(crate) fn first_byte(text: &[u8]) -> Vec<u8> {
    [&b"GET "[..], Asked::of(text).path, b" HTTP/1.1\r\nRange: bytes=0-0\r\n\r\n"].concat()
}

/// A path without its percent-encoding, which is undone once.
pub(super) fn decoded(path: &[u8]) -> Vec<u8> {
    let digit = |byte: Option<&u8>| char::from(*byte?).to_digit(16);
    let (mut out, mut at) = (Vec::with_capacity(path.len()), 0);
    while let Some(byte) = path.get(at) {
        match (byte, digit(path.get(at + 1)), digit(path.get(at + 2))) {
            (b'%', Some(high), Some(low)) => {
                out.push((high * 16 + low) as u8);
                at += 3;
            }
            _ => {
                out.push(*byte);
                at += 1;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_up_to_its_end() {
        let text = b"GET /a%20b?x=/ HTTP/1.1\r\nHost: x\r\nrange:  bytes=0-1 \r\n\r\nRange: 2\r\n";
        let asked = Asked::of(text);
        assert_eq!((asked.method, asked.path), (&b"GET"[..], &b"/a%20b"[..]));
        let fields: Vec<_> = asked.fields().collect();
        assert_eq!(fields, [Field::new(b"Host", b"x"), Field::new(b"range", b"bytes=0-1")]);
        assert_eq!(Asked::of(b"").fields().count(), 0);
    }

    #[test]
    fn percent_encoding_is_undone_once() {
        assert_eq!(decoded(b"/a%2Fb%2525+%e2%82%ac%zz%"), "/a/b%25+\u{20ac}%zz%".as_bytes());
    }
}
