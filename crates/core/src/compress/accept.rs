//! What a client says of content codings (RFC 9110, 12.5.3).

use super::{Algorithm, elements};

/// The weight of each coding in `Accept-Encoding`, in thousandths: 0 for one that is refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AcceptEncoding {
    /// In the order of [`Algorithm`].
    weights: [Option<u16>; Algorithm::ALL.len()],
    identity: Option<u16>,
    others: Option<u16>,
}

impl AcceptEncoding {
    /// Reads the values of the field, of which there may be several. A client that says nothing
    /// gets the response as it is: few that can decompress keep silent about it. So does one whose
    /// field breaks the grammar.
    #[must_use]
    pub fn parse<'a>(values: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut accepted = Self::default();
        for element in values.into_iter().flat_map(elements) {
            if accepted.add(element).is_none() {
                return Self::default();
            }
        }
        accepted
    }

    /// The algorithm that the client likes best among those `offered`, which come in the order
    /// that decides where it likes two equally. None where it would rather have the response as it
    /// is. A client that refuses that, and all that is offered, gets it all the same: a server may
    /// disregard the field, and half of the clients that say so do not mean it.
    #[must_use]
    pub fn choose(&self, offered: &[Algorithm]) -> Option<Algorithm> {
        let mut best = None;
        // Identity is acceptable unless it is refused, and liked less than what is mentioned.
        let mut least = self.identity.or(self.others).unwrap_or(0).max(1);
        for algorithm in offered {
            let weight = self.weight(*algorithm);
            if weight >= least {
                (best, least) = (Some(*algorithm), weight + 1);
            }
        }
        best
    }

    fn weight(&self, algorithm: Algorithm) -> u16 {
        self.weights[algorithm as usize].or(self.others).unwrap_or(0)
    }

    /// Takes in `coding[;q=weight]`; none if that is not what it is.
    fn add(&mut self, element: &[u8]) -> Option<()> {
        let mut parts = element.splitn(2, |byte| *byte == b';');
        let coding = parts.next().unwrap_or_default().trim_ascii_end();
        let weight = parts.next().map_or(Some(WHOLE), parse_weight)?;
        if coding.is_empty() || !coding.iter().all(|byte| is_token(*byte)) {
            return None;
        }
        let slot = match coding {
            b"*" => &mut self.others,
            _ if coding.eq_ignore_ascii_case(b"identity") => &mut self.identity,
            _ => match known(coding) {
                Some(algorithm) => &mut self.weights[algorithm as usize],
                None => return Some(()),
            },
        };
        // Of two that contradict each other, the one counts that asks for less.
        *slot = Some(slot.map_or(weight, |before| before.min(weight)));
        Some(())
    }
}

/// The algorithm of a coding; of others than ours the client may say what it likes.
fn known(coding: &[u8]) -> Option<Algorithm> {
    if coding.eq_ignore_ascii_case(b"x-gzip") {
        return Some(Algorithm::Gzip);
    }
    Algorithm::ALL.into_iter().find(|it| coding.eq_ignore_ascii_case(it.coding().as_bytes()))
}

/// Reads `q=0.5` as 500 (RFC 9110, 12.4.2).
fn parse_weight(text: &[u8]) -> Option<u16> {
    let [b'q' | b'Q', b'=', value @ ..] = text.trim_ascii() else { return None };
    let (whole, digits) = match value {
        [whole @ (b'0' | b'1')] | [whole @ (b'0' | b'1'), b'.'] => (whole, &b""[..]),
        [whole @ (b'0' | b'1'), b'.', digits @ ..] if digits.len() <= 3 => (whole, digits),
        _ => return None,
    };
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digit = |place: usize| u16::from(digits.get(place).map_or(0, |digit| digit - b'0'));
    let parts = digit(0) * 100 + digit(1) * 10 + digit(2);
    let weight = u16::from(whole - b'0') * WHOLE + parts;
    (weight <= WHOLE).then_some(weight)
}

/// Whether a byte may stand in a token (RFC 9110, 5.6.2).
const fn is_token(byte: u8) -> bool {
    matches!(byte, b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.' | b'^'..=b'`' | b'|' | b'~')
        || byte.is_ascii_alphanumeric()
}

/// The weight of what is accepted without reserve.
const WHOLE: u16 = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    /// What is chosen where all are offered in the usual order.
    fn chosen(header: &str) -> Option<&'static str> {
        let accepted = AcceptEncoding::parse([header.as_bytes()]);
        accepted.choose(&Algorithm::ALL).map(Algorithm::coding)
    }

    #[test]
    fn the_best_liked_coding_is_chosen_and_the_order_of_the_server_decides_ties() {
        for (header, expected) in [
            ("gzip, deflate, br, zstd", Some("zstd")),
            ("gzip, deflate, br", Some("gzip")),
            ("gzip;q=1.0, br;q=0.9, zstd;q=0.8", Some("gzip")),
            ("GZIP", Some("gzip")),
            ("x-gzip", Some("gzip")),
            ("compress, deflate, pack200-gzip", None),
            ("br ; q=0.001", Some("br")),
            ("gzip;Q=0.5,br;q=0.50", Some("gzip")),
            (", ,gzip,,", Some("gzip")),
        ] {
            assert_eq!(chosen(header), expected, "{header}");
        }
    }

    #[test]
    fn what_is_refused_is_not_chosen() {
        for (header, expected) in [
            ("", None),
            ("gzip;q=0", None),
            ("gzip;q=0.000, br;q=0", None),
            ("*;q=0", None),
            ("zstd;q=0, *", Some("gzip")),
            ("zstd;q=0, br;q=0, *;q=0.1", Some("gzip")),
            ("gzip, gzip;q=0", None),
        ] {
            assert_eq!(chosen(header), expected, "{header}");
        }
    }

    #[test]
    fn identity_wins_only_where_it_is_liked_better() {
        for (header, expected) in [
            ("identity", None),
            ("identity, gzip;q=0.5", None),
            ("identity;q=0.5, gzip", Some("gzip")),
            ("identity, gzip", Some("gzip")),
            ("identity;q=0, gzip;q=0.1", Some("gzip")),
            // Nothing is left that it would take: it gets the response as it is.
            ("identity;q=0", None),
            ("*;q=0.5, zstd;q=0.1, br;q=0.1, gzip;q=0.1", None),
            ("*", Some("zstd")),
        ] {
            assert_eq!(chosen(header), expected, "{header}");
        }
    }

    #[test]
    fn a_field_that_breaks_the_grammar_asks_for_nothing() {
        for header in [
            "gzip;q=1.1", "gzip;q=-1", "gzip;q=", "gzip;q=0.1234", "gzip;q=2", "gzip;q=.5",
            "gzip;level=9", "gzip q=1", "gz ip", "gzip;q=1;q=0", ";q=1", "gzip, br\u{e9}",
            "gzip;q=0,5", "\"gzip\"", "gzip;q=1.001",
        ] {
            assert_eq!(chosen(header), None, "{header}");
        }
    }

    #[test]
    fn several_fields_are_one_list_and_none_is_no_wish() {
        let accepted = AcceptEncoding::parse([&b"gzip;q=0.5"[..], b"br"]);
        assert_eq!(accepted.choose(&[Algorithm::Gzip, Algorithm::Brotli]), Some(Algorithm::Brotli));
        assert_eq!(accepted.choose(&[Algorithm::Gzip]), Some(Algorithm::Gzip));
        assert_eq!(accepted.choose(&[Algorithm::Zstd]), None);
        assert_eq!(AcceptEncoding::parse([]).choose(&Algorithm::ALL), None);
    }

    #[test]
    fn no_bytes_make_it_choose_what_was_not_offered_or_panic() {
        let pieces: [&[u8]; 12] = [
            b"gzip", b"br", b"zstd", b"*", b"identity", b";q=0", b";q=1.0", b",", b" ", b"\xff",
            b"\"", b"\t",
        ];
        for n in 0..12_usize.pow(4) {
            let value: alloc::vec::Vec<u8> =
                (0..4).flat_map(|place| pieces[n / 12_usize.pow(place) % 12]).copied().collect();
            let accepted = AcceptEncoding::parse([&value[..]]);
            for offered in [&[Algorithm::Gzip][..], &[Algorithm::Zstd, Algorithm::Brotli]] {
                assert!(accepted.choose(offered).is_none_or(|it| offered.contains(&it)));
            }
        }
    }
}
