//! What may stand in the fields of HTTP/2 (RFC 9113, 8.2 and 8.3), byte by byte.

/// Why a message is malformed (RFC 9113, 8.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Malformed {
    /// A name is empty, or has bytes that it may not have: letters in upper case too.
    Name,
    /// A value has bytes that it may not have.
    Value,
    /// A field is about one connection (8.2.2).
    OfConnection,
    /// A pseudo-header field is none of a request, or stands in trailers.
    UnknownPseudo,
    /// A pseudo-header field comes again.
    RepeatedPseudo,
    /// A pseudo-header field comes behind other fields.
    LatePseudo,
    /// A pseudo-header field is not there that has to be.
    MissingPseudo,
    /// A pseudo-header field is there that does not go with the method (8.5; RFC 8441, 4).
    UnfitPseudo,
    /// The length of the body is no number, or is said in two ways, or there is no body.
    Length,
}

/// What becomes of a field by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// It goes on as it is.
    Plain,
    Host,
    Cookie,
    ContentLength,
    Trailer,
    /// The key of a WebSocket.
    Key,
    Te,
    /// It goes no further.
    Dropped,
    /// It may not be there.
    OfConnection,
}

impl Class {
    #[inline]
    pub(super) fn of(name: &[u8]) -> Self {
        let (class, text): (Self, &[u8]) = match (name.len(), name.first()) {
            (2, Some(b't')) => (Self::Te, b"te"),
            (4, Some(b'h')) => (Self::Host, b"host"),
            (6, Some(b'c')) => (Self::Cookie, b"cookie"),
            (7, Some(b't')) => (Self::Trailer, b"trailer"),
            (7, Some(b'u')) => (Self::OfConnection, b"upgrade"),
            (10, Some(b'c')) => (Self::OfConnection, b"connection"),
            (10, Some(b'k')) => (Self::OfConnection, b"keep-alive"),
            (14, Some(b'c')) => (Self::ContentLength, b"content-length"),
            (14, Some(b'h')) => (Self::Dropped, b"http2-settings"),
            (16, Some(b'p')) => (Self::OfConnection, b"proxy-connection"),
            (17, Some(b's')) => (Self::Key, b"sec-websocket-key"),
            (17, Some(b't')) => (Self::OfConnection, b"transfer-encoding"),
            _ => return Self::Plain,
        };
        if name == text { class } else { Self::Plain }
    }
}

/// The class of a field that may stand in a message.
///
/// # Errors
/// If it may not.
#[inline]
pub(super) fn checked(name: &[u8], value: &[u8]) -> Result<Class, Malformed> {
    if name.is_empty() || !are_all(NAME, name) {
        return Err(Malformed::Name);
    }
    if !is_value(value) {
        return Err(Malformed::Value);
    }
    let class = Class::of(name);
    let is_of_connection =
        class == Class::OfConnection || (class == Class::Te && value != b"trailers");
    if is_of_connection { Err(Malformed::OfConnection) } else { Ok(class) }
}

/// Appends one trailer field. The parser refuses those that may not be there in HTTP/1 either.
///
/// # Errors
/// If it may not be there in HTTP/2.
pub(super) fn write_trailer(out: &mut Vec<u8>, name: &[u8], value: &[u8]) -> Result<(), Malformed> {
    if name.first() == Some(&b':') {
        return Err(Malformed::UnknownPseudo);
    }
    checked(name, value)?;
    write_line(out, name, value);
    Ok(())
}

#[inline]
pub(super) fn write_line(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.reserve(name.len() + value.len() + 4);
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// Whether this may be a value: no control characters but tabs.
#[inline]
pub(super) fn is_value(value: &[u8]) -> bool {
    let (words, rest) = value.as_chunks::<8>();
    let mut controls = words.iter().fold(0, |found, word| found | has_control(*word));
    if let ([_, ..], Some(last)) = (rest, value.last_chunk::<8>()) {
        controls |= has_control(*last);
    } else {
        let found = rest.iter().any(|byte| is_control(*byte));
        controls |= u64::from(found);
    }
    // Tabs are rare enough to be looked for then.
    controls == 0 || !value.iter().any(|byte| is_control(*byte) && *byte != b'\t')
}

/// Other than 0 if one of the bytes is a control character.
#[inline]
const fn has_control(word: [u8; 8]) -> u64 {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const TOP: u64 = ONES << 7;
    let word = u64::from_ne_bytes(word);
    let deleted = word ^ (ONES * 0x7f);
    let below_space = word.wrapping_sub(ONES * 0x20) & !word;
    (below_space | (deleted.wrapping_sub(ONES) & !deleted)) & TOP
}

const fn is_control(byte: u8) -> bool {
    byte < b' ' || byte == 0x7f
}

/// Whether this may be a method.
pub(super) fn is_method(text: &[u8]) -> bool {
    !text.is_empty() && are_all(METHOD, text)
}

/// Whether this may be a scheme.
pub(super) fn is_scheme(text: &[u8]) -> bool {
    (1..=LONGEST_SCHEME).contains(&text.len()) && are_all(SCHEME, text)
}

/// Whether this is one word, as an authority is. The parser refuses what is none.
pub(super) fn is_authority(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(u8::is_ascii_graphic)
}

/// Whether this may be path and query, or `*`. What the parser refuses, as fragments and letters
/// that are not of ASCII, is left to it; what browsers escape and curl does not passes, as in
/// HTTP/1.
pub(super) fn is_path(text: &[u8]) -> bool {
    matches!(text, [b'/' | b'?' | b'#', ..] | b"*") && are_all(VISIBLE, text)
}

/// Whether all bytes are of one of the sets below.
#[inline]
fn are_all(set: u8, text: &[u8]) -> bool {
    let sets = |byte: &u8| SETS[usize::from(*byte)];
    let (words, rest) = text.as_chunks::<4>();
    let all = rest.iter().fold(set, |all, byte| all & sets(byte));
    let of_word = |[a, b, c, d]: &[u8; 4]| (sets(a) & sets(b)) & (sets(c) & sets(d));
    words.iter().fold(all, |all, word| all & of_word(word)) == set
}

const NAME: u8 = 1;
const METHOD: u8 = 1 << 1;
const SCHEME: u8 = 1 << 2;
const VISIBLE: u8 = 1 << 3;

/// The sets that each byte belongs to.
static SETS: [u8; 256] = {
    let mut sets = [0; 256];
    let mut at = 0;
    while at < sets.len() {
        sets[at] = sets_of(at as u8);
        at += 1;
    }
    sets
};

const fn sets_of(byte: u8) -> u8 {
    let is_token = byte.is_ascii_alphanumeric()
        || matches!(byte, b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.')
        || matches!(byte, b'^' | b'_' | b'`' | b'|' | b'~');
    let is_of_scheme = byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.' | b'~');
    let mut sets = 0;
    if is_token && !byte.is_ascii_uppercase() {
        sets |= NAME;
    }
    if is_token {
        sets |= METHOD;
    }
    if is_of_scheme {
        sets |= SCHEME;
    }
    if byte > b' ' && byte != 0x7f {
        sets |= VISIBLE;
    }
    sets
}

/// No scheme comes near.
const LONGEST_SCHEME: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_tokens_in_lower_case() {
        for byte in 0..=u8::MAX {
            let is_name = checked(&[b'x', byte], b"").is_ok();
            let lower = byte.to_ascii_lowercase() == byte;
            let known = http::HeaderName::from_bytes(&[b'x', byte]).is_ok();
            // The library takes a quote for part of a token.
            assert_eq!(is_name, lower && known && byte != b'"', "{byte}");
        }
        assert_eq!(checked(b"", b"1"), Err(Malformed::Name));
        assert_eq!(checked(b"X", b"1"), Err(Malformed::Name));
    }

    #[test]
    fn values_have_no_control_characters_but_tabs_wherever_they_stand() {
        for byte in 0..=u8::MAX {
            let expected = (byte >= 0x20 && byte != 0x7f) || byte == b'\t';
            for length in 1..20 {
                for at in 0..length {
                    for filler in [b'x', b'\t', 0x80] {
                        let mut value = vec![filler; length];
                        value[at] = byte;
                        assert_eq!(is_value(&value), expected, "{byte} at {at} of {length}");
                    }
                }
            }
        }
        assert!(is_value(b""));
    }

    #[test]
    fn methods_and_schemes_are_what_the_library_takes() {
        for byte in 0..0x7f {
            let text = [b'a', byte, b'b'];
            assert_eq!(is_method(&text), http::Method::from_bytes(&text).is_ok(), "{byte}");
            assert_eq!(is_scheme(&text), http::uri::Scheme::try_from(&text[..]).is_ok(), "{byte}");
        }
        assert!(is_authority(b"[::1]:80") && !is_authority(b"") && !is_authority(b"a b"));
    }

    #[test]
    fn a_path_has_what_a_target_of_http1_has_and_what_its_parser_is_to_refuse() {
        for byte in 0..=u8::MAX {
            let is_taken = byte.is_ascii_graphic() || byte >= 0x80;
            assert_eq!(is_path(&[b'/', byte]), is_taken, "{byte}");
            assert_eq!(is_path(&[b'/', b'?', byte]), is_taken, "{byte}");
            assert_eq!(is_path(&[byte, b'a']), matches!(byte, b'/' | b'?' | b'#'), "{byte}");
        }
        assert!(is_path(b"*") && !is_path(b"") && !is_path(b"http://a.test/"));
    }

    #[test]
    fn trailers_are_fields_that_are_not_about_the_connection() {
        let mut out = Vec::new();
        write_trailer(&mut out, b"grpc-status", b"0").unwrap();
        write_trailer(&mut out, b"te", b"trailers").unwrap();
        for (name, value, why) in [
            (&b":path"[..], &b"/"[..], Malformed::UnknownPseudo),
            (b"", b"", Malformed::Name),
            (b"X-Sum", b"1", Malformed::Name),
            (b"x:", b"1", Malformed::Name),
            (b"x-sum", b"1\r\nhost: b", Malformed::Value),
            (b"connection", b"x", Malformed::OfConnection),
            (b"transfer-encoding", b"chunked", Malformed::OfConnection),
            (b"te", b"gzip", Malformed::OfConnection),
        ] {
            assert_eq!(write_trailer(&mut out, name, value), Err(why), "{}", name.escape_ascii());
        }
        assert_eq!(out, b"grpc-status: 0\r\nte: trailers\r\n");
    }
}
