//! The lenient reading of a health check's answer.
//!
//! Some small servers answer a probe with a status line and close, without the empty line that
//! ends a head and sometimes without the end of the line. A strict parser waits for more. Where a
//! check is configured as lenient, the end of the stream after a status line is a response too.

/// The status in `bytes`, all that came before the end of the stream, if they begin with a status
/// line: `HTTP/`, digit, `.`, digit, space, three digits, and then nothing, white space or a line
/// end.
#[must_use]
pub fn lenient_status(bytes: &[u8]) -> Option<u16> {
    let rest = bytes.strip_prefix(b"HTTP/")?;
    let [b'0'..=b'9', b'.', b'0'..=b'9', b' ', digits @ ..] = rest else { return None };
    let (code, after) = digits.split_at_checked(3)?;
    let is_status = code.iter().all(u8::is_ascii_digit) && code[0] != b'0';
    let ends = matches!(after.first(), None | Some(b' ' | b'\t' | b'\r' | b'\n'));
    (is_status && ends)
        .then(|| code.iter().fold(0, |status, digit| status * 10 + u16::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::lenient_status;

    #[test]
    fn a_status_line_cut_short_by_the_end_of_the_stream_is_an_answer() {
        let vectors: [(&[u8], Option<u16>); 12] = [
            (b"HTTP/1.1 200 OK\r\n", Some(200)),
            (b"HTTP/1.1 200 OK\n", Some(200)),
            (b"HTTP/1.1 200 O", Some(200)),
            (b"HTTP/1.0 503", Some(503)),
            (b"HTTP/1.1 200\r\nA: b\r\n\r\n", Some(200)),
            (b"HTTP/1.1 2000", None),
            (b"HTTP/1.1 20", None),
            (b"HTTP/1.1 020", None),
            (b"HTTP/1.1  200", None),
            (b"http/1.1 200", None),
            (b"200 OK", None),
            (b"", None),
        ];
        for (bytes, status) in vectors {
            assert_eq!(lenient_status(bytes), status, "{:?}", bytes.escape_ascii().to_string());
        }
    }
}
