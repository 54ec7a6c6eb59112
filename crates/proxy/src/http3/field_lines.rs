//! The lines of a head and of trailers, as they come encoded: how many there are, and which of them
//! are pseudo-headers (RFC 9114, section 4.3).
//!
//! Of these each may come once, before all fields, and none in trailers. h3 0.0.8 takes the last of
//! several, wherever it is; who reads the first, as another proxy on the way may, sees another
//! request. A name is a place in the static table (RFC 9204, appendix A), plain, or in Huffman's
//! code, of which each text has one form.
//!
//! Some values are looked at, too. h3 cuts a fragment off the path, and takes a scheme without a
//! letter, and a CONNECT with half of what an extended one has.

use h3::error::Code;

use super::extended::{integer, text};
use crate::http2::huffman;

/// What comes in a HEADERS frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Section {
    Head,
    Trailers,
}

/// A text, and whether it is in Huffman's code.
type Text<'a> = (bool, &'a [u8]);

/// A pseudo-header.
struct Pseudo<'a> {
    /// In Huffman's code.
    name: &'a [u8],
    value: Text<'a>,
}

/// Looks whether pseudo-headers are where none may be, or twice, or say what they may not, whether
/// there are too many lines, and whether they need a dynamic table. Lines that are cut off are for
/// h3 to refuse.
///
/// # Errors
/// That of the stream; of the connection where it is that of QPACK.
pub(super) fn check(block: &[u8], section: Section) -> Result<(), Code> {
    let mut reader = block;
    let Some(required) = integer(&mut reader, 8) else { return Ok(()) };
    let has_sign = reader.first().is_some_and(|first| first & SIGN != 0);
    if integer(&mut reader, 7).is_none() {
        return Ok(());
    }
    if required > 0 || has_sign {
        return Err(Code::QPACK_DECOMPRESSION_FAILED);
    }
    let (mut seen, mut has_fields) = (0_u8, section == Section::Trailers);
    let (mut count, mut is_connect) = (0, false);
    while !reader.is_empty() {
        let Some(line) = next_line(&mut reader) else { return Ok(()) };
        count += 1;
        if count > LINES {
            return Err(Code::H3_EXCESSIVE_LOAD);
        }
        let Some(Pseudo { name, value }) = line else {
            has_fields = true;
            continue;
        };
        let index = PSEUDO.iter().position(|it| *it == name).ok_or(Code::H3_MESSAGE_ERROR)?;
        if has_fields || seen & 1 << index != 0 || !fits(index, value)? {
            return Err(Code::H3_MESSAGE_ERROR);
        }
        seen |= 1 << index;
        is_connect |= index == METHOD && is_so(value, |method| method == b"CONNECT")?;
    }
    // All of these in an extended CONNECT, none in another (RFC 9114, 4.4, and RFC 8441, 4).
    let parts = seen & EXTENDED;
    if is_connect && parts != 0 && parts != EXTENDED {
        return Err(Code::H3_MESSAGE_ERROR);
    }
    Ok(())
}

/// Whether the pseudo-header at this place may say that.
fn fits(index: usize, value: Text<'_>) -> Result<bool, Code> {
    match index {
        PATH => is_so(value, is_path),
        SCHEME => is_so(value, |scheme| !scheme.is_empty()),
        _ => Ok(true),
    }
}

/// Whether a target is path and query, or `*`, and no more than that.
fn is_path(target: &[u8]) -> bool {
    (target.starts_with(b"/") || target == b"*") && !target.contains(&b'#')
}

/// What `look` says of a text, for which no memory is taken unless it is long.
///
/// # Errors
/// If it is in no code that there is.
fn is_so((is_coded, text): Text<'_>, look: impl FnOnce(&[u8]) -> bool) -> Result<bool, Code> {
    if !is_coded {
        return Ok(look(text));
    }
    let room = huffman::room(text.len());
    let (mut short, mut long) = ([0_u8; SHORT], Vec::new());
    let out = match short.get_mut(..room) {
        Some(out) => out,
        None => {
            long.resize(room, 0);
            &mut long[..]
        }
    };
    let length = huffman::decode(text, out).map_err(|_| Code::QPACK_DECOMPRESSION_FAILED)?;
    Ok(out.get(..length).is_some_and(look))
}

/// The next line, if it is a pseudo-header; none outside where it is cut off.
fn next_line<'a>(reader: &mut &'a [u8]) -> Option<Option<Pseudo<'a>>> {
    let first = *reader.first()?;
    match first.leading_zeros() {
        // A line of the table.
        0 => {
            let place = integer(reader, 6)?;
            let line = (first & 0x40 != 0).then(|| at(place)).flatten();
            Some(line.map(|(name, value)| Pseudo { name, value: (false, value) }))
        }
        // A value with a name of the table.
        1 => {
            let (place, value) = (integer(reader, 4)?, text(reader, 7)?);
            let line = (first & 0x10 != 0).then(|| at(place)).flatten();
            Some(line.map(|(name, _)| Pseudo { name, value }))
        }
        // A name and a value.
        2 => {
            let ((is_coded, name), value) = (text(reader, 3)?, text(reader, 7)?);
            let name = if is_coded { coded(name) } else { plain(name) };
            Some(name.map(|name| Pseudo { name, value }))
        }
        // As the first two, with lines that a dynamic table would have.
        3 => integer(reader, 4).map(|_| None),
        _ => {
            integer(reader, 3)?;
            text(reader, 7)?;
            Some(None)
        }
    }
}

/// The pseudo-header at a place of the static table, and its value.
const fn at(place: u64) -> Option<(&'static [u8], &'static [u8])> {
    let (name, value): (&[u8], &[u8]) = match place {
        0 => (PSEUDO[0], b""),
        1 => (PSEUDO[PATH], b"/"),
        15 => (PSEUDO[METHOD], b"CONNECT"),
        // It does not matter which of the others it is.
        16..=21 => (PSEUDO[METHOD], b"GET"),
        22 => (PSEUDO[SCHEME], b"http"),
        23 => (PSEUDO[SCHEME], b"https"),
        24..=28 | 63..=71 => (STATUS, b""),
        _ => return None,
    };
    Some((name, value))
}

/// A name in Huffman's code, if it begins with a colon.
fn coded(name: &[u8]) -> Option<&[u8]> {
    name.first().is_some_and(|first| first >> 1 == COLON).then_some(name)
}

fn plain(name: &[u8]) -> Option<&[u8]> {
    let known = || PLAIN.iter().position(|it| *it == name).map_or(STATUS, |index| PSEUDO[index]);
    name.starts_with(b":").then(known)
}

/// More than any listener allows (1,000). h3 has fields in a map of the crate http, of 2^15 places
/// at most, which panics where it would need more: beyond three quarters of them, or beyond a fifth
/// where names are made to collide.
const LINES: u32 = 6_000;

/// The base is before the entries that are needed, as it cannot be before none (RFC 9204, 4.5.1.2).
const SIGN: u8 = 0x80;

/// The code of a colon, seven bits.
const COLON: u8 = 0x5c;

/// The pseudo-headers of requests.
const PLAIN: [&[u8]; 5] = [b":authority", b":path", b":method", b":scheme", b":protocol"];

/// The places of some of them.
const PATH: usize = 1;
const METHOD: usize = 2;
const SCHEME: usize = 3;

/// What an extended CONNECT has, by these places: the protocol too.
const EXTENDED: u8 = 1 << PATH | 1 << SCHEME | 1 << 4;

/// Most targets take less room, decoded.
const SHORT: usize = 512;

/// The same in Huffman's code.
const PSEUDO: [&[u8]; 5] = [
    &[0xb8, 0x3b, 0x53, 0x39, 0xec, 0x32, 0x7d, 0x7f],
    &[0xb9, 0x58, 0xd3, 0x3f],
    &[0xb9, 0x49, 0x53, 0x39, 0xe4],
    &[0xb8, 0x82, 0x4e, 0x5a, 0x4b],
    &[0xb9, 0x5d, 0x87, 0x49, 0xc8, 0x7a, 0x3f],
];

/// `:status`, which like any other is not of requests.
const STATUS: &[u8] = &[0xb8, 0x84, 0x8d, 0x36, 0xa3];

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: &[u8] = &[0xc1];
    const GET: &[u8] = &[0xd1];

    fn line(name: &[u8], is_coded: bool) -> Vec<u8> {
        let length = name.len() as u8;
        let first = 0x20 | u8::from(is_coded) << 3;
        let length = if length < 7 { vec![first | length] } else { vec![first | 7, length - 7] };
        [&length[..], name, &[1, b'/']].concat()
    }

    /// Whether lines are refused as those of a head.
    fn head(lines: &[&[u8]]) -> bool {
        check(&[&[0, 0][..], &lines.concat()].concat(), Section::Head).is_err()
    }

    #[test]
    fn there_are_no_more_lines_than_the_map_takes_whatever_their_names_are() {
        let fields = |count| [&[0, 0][..], &line(b"x", false).repeat(count)].concat();
        for section in [Section::Head, Section::Trailers] {
            assert_eq!(check(&fields(6_000), section), Ok(()));
            assert_eq!(check(&fields(6_001), section), Err(Code::H3_EXCESSIVE_LOAD));
        }
    }

    #[test]
    fn lines_that_need_a_dynamic_table_are_refused_for_there_is_none() {
        for prefix in [&[1, 0][..], &[0x65, 0], &[0xff, 0, 0], &[0, 0x80], &[0, 0xff, 0]] {
            for section in [Section::Head, Section::Trailers] {
                let refused = Err(Code::QPACK_DECOMPRESSION_FAILED);
                assert_eq!(check(prefix, section), refused, "{prefix:x?}");
            }
        }
        assert_eq!(check(&[0, 0x7f, 5, 0xd1], Section::Head), Ok(()), "a base of no meaning");
    }

    #[test]
    fn a_pseudo_header_comes_once_however_it_is_written() {
        for (index, name) in PLAIN.iter().enumerate() {
            let (plain, coded) = (line(name, false), line(PSEUDO[index], true));
            assert!(!head(&[&plain]) && !head(&[&coded]), "{index}");
            for twice in [[&plain, &plain], [&plain, &coded], [&coded, &coded]] {
                assert!(head(&[twice[0], twice[1]]), "{index}");
            }
        }
        // `:path` by its line, and by its name with another value.
        let path = [0x51, 2, b'/', b'a'];
        for once in [GET, &path, ROOT] {
            assert!(!head(&[once]));
        }
        assert!(head(&[ROOT, GET, &path]) && head(&[&path, &line(b":path", false)]));
        assert!(head(&[GET, &[0xd4]]), "GET and POST");
        // The length of a name in ten bytes, of which nine say nothing.
        let long = [&[0x27][..], &[0x80; 8], &[0], b":method", &[1, b'/']].concat();
        assert!(!head(&[&long]) && head(&[GET, &long]));
    }

    #[test]
    fn none_comes_behind_a_field_nor_in_trailers_nor_without_being_known() {
        let field = line(b"x", false);
        assert!(!head(&[GET, ROOT, &field]) && head(&[GET, &field, ROOT]));
        // `accept: */*`, by its line.
        assert!(head(&[GET, &[0xdd], ROOT]));
        assert_eq!(check(&[0, 0, 0xc1], Section::Trailers), Err(Code::H3_MESSAGE_ERROR));
        assert_eq!(check(&[&[0, 0][..], &field].concat(), Section::Trailers), Ok(()));
        for status in [&[0xd9][..], &line(b":status", false), &line(STATUS, true)] {
            assert!(head(&[status]));
        }
        assert!(head(&[&line(b":version", false)]) && head(&[&line(b":Path", false)]));
    }

    /// A line with the name at a place of the static table, and this value, plain and in Huffman's
    /// code.
    fn both(place: u8, value: &str) -> [Vec<u8>; 2] {
        let mut coded = Vec::new();
        huffman::encode(value.as_bytes(), &mut coded);
        [(0, value.as_bytes()), (0x80, &coded[..])].map(|(coded, value)| {
            let length = value.len() as u8;
            assert!(length < 0x7f);
            [&[0x50 | place, coded | length], value].concat()
        })
    }

    #[test]
    fn a_path_with_a_fragment_or_that_is_none_is_refused_plain_and_in_huffmans_code() {
        let refused = ["/adm#x", "/#", "#", "/a?b#c", "", "?a", "a", "*/", "**", "http://a.test/"];
        let taken = ["/", "/a?b=%23", "/*", "*"];
        for (paths, is_refused) in [(&refused[..], true), (&taken[..], false)] {
            for path in paths {
                for line in both(1, path) {
                    assert_eq!(head(&[GET, &line]), is_refused, "{path}");
                }
            }
        }
        // More than is decoded without memory of its own.
        let mut coded = Vec::new();
        huffman::encode(&[&b"/".repeat(1_000)[..], b"#"].concat(), &mut coded);
        let length = coded.len() - 127;
        let first = [0x51, 0xff, length as u8 | 0x80, (length >> 7) as u8];
        assert!(head(&[&[&first[..], &coded].concat()]));
    }

    #[test]
    fn a_path_in_no_code_that_there_is_is_refused_with_its_connection() {
        // Two bytes of padding, which may be seven bits.
        let block = [&[0, 0, 0x51, 0x82][..], &[0xff, 0xff]].concat();
        assert_eq!(check(&block, Section::Head), Err(Code::QPACK_DECOMPRESSION_FAILED));
    }

    #[test]
    fn a_scheme_has_a_letter() {
        assert!(both(6, "").iter().all(|line| head(&[GET, &scheme(line)])));
        assert!(both(6, "https").iter().all(|line| !head(&[GET, &scheme(line)])));
        assert!(!head(&[GET, &[0xd6]]) && !head(&[GET, &[0xd7]]), "by its line");
    }

    /// A line of `both` with the name of place 22, which is too far for one byte.
    fn scheme(line: &[u8]) -> Vec<u8> {
        [&[0x5f, 22 - 15], &line[1..]].concat()
    }

    #[test]
    fn a_connect_has_all_that_an_extended_one_has_or_nothing_of_it() {
        let protocol = line(b":protocol", false);
        let parts: [&[u8]; 3] = [ROOT, &[0xd7], &protocol];
        let named = |line: &[u8]| [&[0x5f, 0], &line[1..]].concat();
        let [plain, coded] = both(0, "CONNECT").map(|line| named(&line));
        for connect in [&[0xcf][..], &plain, &coded] {
            for set in 0..8 {
                let has = |index: &usize| set & 1 << index != 0;
                let with: Vec<_> = (0..3).filter(has).map(|index| parts[index]).collect();
                let lines = [&[connect][..], &with[..]].concat();
                assert_eq!(head(&lines), set != 0 && set != 7, "{set}");
            }
        }
        assert!(!head(&[GET, ROOT]), "another method has a path alone");
    }

    #[test]
    fn what_is_cut_off_or_of_a_dynamic_table_is_left_to_others() {
        let whole = [&[0, 0][..], GET, &line(b":path", false), &line(b"x", false)].concat();
        for end in 0..=whole.len() {
            assert_eq!(check(&whole[..end], Section::Head), Ok(()), "{end}");
        }
        for other in [&[0x80][..], &[0x40, 1, b'v'], &[0x10], &[0x00, 1, b'v']] {
            assert!(!head(&[GET, other]));
        }
    }
}
