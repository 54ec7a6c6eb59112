//! Request fields that are not part of the key and yet change what servers answer.
//!
//! Whoever sends one of them gets a response that was made for it, and from the cache everybody
//! else gets it too: *cache poisoning* (James Kettle, "Practical Web Cache Poisoning", 2018, and
//! "Web Cache Entanglement", 2020). So where a cache is on, a proxy removes them from what clients
//! send, or the response is not stored ([`Refusal::Unkeyed`](super::Refusal::Unkeyed)).

use super::field::{Field, Fields};

/// Whether a server may answer otherwise because of this field of a client, though no key has it:
/// another host, path, scheme or method than the request's, as frameworks and servers read them.
///
/// `X-Forwarded-Proto` and `Forwarded` are none of them: a proxy writes them by what the key has.
#[must_use]
pub fn changes_unkeyed(name: &[u8]) -> bool {
    let may_be =
        matches!(name.first(), Some(b'X' | b'x' | b'B' | b'b' | b'R' | b'r' | b'F' | b'f'));
    may_be && (NAMES.iter().any(|known| is_read_as(name, known)) || is_underscored_scheme(name))
}

/// The fields of a request that servers get: without those that change responses and are no part of
/// the key ([`changes_unkeyed`]). Of each name the last ones stay, as many as `own` says: a proxy
/// has written these itself, by what the key has, or the key has their values.
pub fn keyed_fields<'a>(
    request: Fields<'a>,
    own: impl Fn(&[u8]) -> usize,
) -> impl Iterator<Item = Field<'a>> {
    let is_own = move |at: usize, name: &[u8]| {
        let behind = request.0[at + 1..].iter();
        behind.filter(|other| other.name.eq_ignore_ascii_case(name)).count() < own(name)
    };
    let all = request.iter().enumerate();
    all.filter(move |(at, field)| !changes_unkeyed(field.name) || is_own(*at, field.name))
        .map(|(_, field)| field)
}

/// No proxy writes it like this.
fn is_underscored_scheme(name: &[u8]) -> bool {
    name.contains(&b'_') && is_read_as(name, "x-forwarded-proto")
}

/// Whether a server may take `name` for `known`: to CGI, WSGI, PHP and Rack an underscore is a
/// hyphen.
fn is_read_as(name: &[u8], known: &str) -> bool {
    let is_same = |(byte, known): (&u8, u8)| match *byte {
        b'_' => known == b'-',
        byte => byte.eq_ignore_ascii_case(&known),
    };
    name.len() == known.len() && name.iter().zip(known.bytes()).all(is_same)
}

/// Names in order of what they change: the host, the path, the scheme and port, the method.
const NAMES: [&str; 32] = [
    "x-forwarded-host",
    "x-forwarded-server",
    "x-original-host",
    "x-host",
    "x-http-host-override",
    "x-forwarded-by",
    "x-backend-host",
    "base-url",
    "x-original-url",
    "x-rewrite-url",
    "x-original-uri",
    "x-override-url",
    "x-forwarded-uri",
    "x-forwarded-url",
    "x-forwarded-path",
    "x-forwarded-prefix",
    "x-request-uri",
    "x-script-name",
    "request-uri",
    "x-forwarded-scheme",
    "x-forwarded-protocol",
    "x-forwarded-ssl",
    "x-forwarded-port",
    "x-scheme",
    "x-url-scheme",
    "front-end-https",
    "x-arr-ssl",
    "x-http-method-override",
    "x-http-method",
    "x-method-override",
    "x-forwarded-method",
    "x-amz-website-redirect-location",
];

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;
    use crate::cache::field::tests::lines;

    #[test]
    fn what_a_proxy_writes_itself_stays_and_what_clients_say_beside_it_does_not() {
        let all = lines(&[
            "X-Forwarded-Port: 1", "X-Scheme: evil", "x-forwarded-port: 2", "Accept: a",
            "X-Forwarded-Port: 443", "X_Forwarded_Port: 3",
        ]);
        let kept = |count: usize| -> Vec<Field<'_>> {
            let own = |name: &[u8]| match name.eq_ignore_ascii_case(b"x-forwarded-port") {
                true => count,
                false => 0,
            };
            keyed_fields(Fields(&all), own).collect()
        };
        assert_eq!(kept(0), [all[3]]);
        assert_eq!(kept(1), [all[3], all[4]]);
        assert_eq!(kept(2), [all[2], all[3], all[4]]);
    }

    #[test]
    fn names_are_known_in_any_case_and_harmless_ones_are_left_alone() {
        assert!(changes_unkeyed(b"X-Forwarded-Host"));
        assert!(changes_unkeyed(b"x-HTTP-method-OVERRIDE"));
        for name in NAMES {
            assert!(changes_unkeyed(name.as_bytes()), "{name}");
            let underscored = name.to_ascii_uppercase().replace('-', "_");
            assert!(changes_unkeyed(underscored.as_bytes()), "{underscored}");
        }
        assert!(changes_unkeyed(b"X_Forwarded-Host") && changes_unkeyed(b"x_forwarded_proto"));
        for harmless in ["host", "x-forwarded-for", "x-forwarded-proto", "forwarded", "cookie", ""]
        {
            assert!(!changes_unkeyed(harmless.as_bytes()), "{harmless}");
        }
    }
}
