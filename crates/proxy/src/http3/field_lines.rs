//! The lines of a head and of trailers, as they come encoded: how many there are, and which of them
//! are pseudo-headers (RFC 9114, section 4.3).
//!
//! Of these each may come once, before all fields, and none in trailers. h3 0.0.8 takes the last of
//! several, wherever it is; who reads the first, as another proxy on the way may, sees another
//! request. A name is a place in the static table (RFC 9204, appendix A), plain, or in Huffman's
//! code, of which each text has one form.

use h3::error::Code;

use super::extended::{integer, text};

/// What comes in a HEADERS frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Section {
    Head,
    Trailers,
}

/// Looks whether pseudo-headers are where none may be, or twice, whether there are too many lines,
/// and whether they need a dynamic table. Lines that are cut off are for h3 to refuse.
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
    let mut count = 0;
    while let Some(name) = next_name(&mut reader) {
        count += 1;
        if count > LINES {
            return Err(Code::H3_EXCESSIVE_LOAD);
        }
        let Some(pseudo) = name else {
            has_fields = true;
            continue;
        };
        let index = PSEUDO.iter().position(|it| *it == pseudo).ok_or(Code::H3_MESSAGE_ERROR)?;
        if has_fields || seen & 1 << index != 0 {
            return Err(Code::H3_MESSAGE_ERROR);
        }
        seen |= 1 << index;
    }
    Ok(())
}

/// The pseudo-header of the next line, in Huffman's code; none inside where it is a field, none at
/// the end.
fn next_name<'a>(reader: &mut &'a [u8]) -> Option<Option<&'a [u8]>> {
    let first = *reader.first()?;
    match first.leading_zeros() {
        // A line of the table.
        0 => {
            let place = integer(reader, 6)?;
            Some((first & 0x40 != 0).then(|| at(place)).flatten())
        }
        // A value with a name of the table.
        1 => {
            let place = integer(reader, 4)?;
            text(reader, 7)?;
            Some((first & 0x10 != 0).then(|| at(place)).flatten())
        }
        // A name and a value.
        2 => {
            let (is_coded, name) = text(reader, 3)?;
            text(reader, 7)?;
            Some(if is_coded { coded(name) } else { plain(name) })
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

/// The pseudo-header at a place of the static table.
const fn at(place: u64) -> Option<&'static [u8]> {
    match place {
        0 => Some(PSEUDO[0]),
        1 => Some(PSEUDO[1]),
        15..=21 => Some(PSEUDO[2]),
        22 | 23 => Some(PSEUDO[3]),
        24..=28 | 63..=71 => Some(STATUS),
        _ => None,
    }
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

    const PATH: &[u8] = &[0xc1];
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
        for once in [GET, &path, PATH] {
            assert!(!head(&[once]));
        }
        assert!(head(&[PATH, GET, &path]) && head(&[&path, &line(b":path", false)]));
        assert!(head(&[GET, &[0xd4]]), "GET and POST");
        // The length of a name in ten bytes, of which nine say nothing.
        let long = [&[0x27][..], &[0x80; 8], &[0], b":method", &[1, b'/']].concat();
        assert!(!head(&[&long]) && head(&[GET, &long]));
    }

    #[test]
    fn none_comes_behind_a_field_nor_in_trailers_nor_without_being_known() {
        let field = line(b"x", false);
        assert!(!head(&[GET, PATH, &field]) && head(&[GET, &field, PATH]));
        // `accept: */*`, by its line.
        assert!(head(&[GET, &[0xdd], PATH]));
        assert_eq!(check(&[0, 0, 0xc1], Section::Trailers), Err(Code::H3_MESSAGE_ERROR));
        assert_eq!(check(&[&[0, 0][..], &field].concat(), Section::Trailers), Ok(()));
        for status in [&[0xd9][..], &line(b":status", false), &line(STATUS, true)] {
            assert!(head(&[status]));
        }
        assert!(head(&[&line(b":version", false)]) && head(&[&line(b":Path", false)]));
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
