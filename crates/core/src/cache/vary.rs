//! Which of several responses for one key a request selects: RFC 9111 section 4.1.
//!
//! A response names in `Vary` the request fields that selected it. Their values, brought to a
//! normal form, are its *secondary key*: two requests with the same normal forms select the same
//! response. The normal form follows what each field means; of an unknown one, which may be no
//! list, only white space at commas and the division in lines do not count.

use alloc::{boxed::Box, format, vec::Vec};

use super::field::{Fields, parts, unquote};

/// What a response says in `Vary`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Vary {
    /// Something that no request shows: no request selects the response again.
    Everything,
    /// The values of these request fields, in lower case, sorted, each once. None if it has no
    /// `Vary`.
    Fields(Box<[Vec<u8>]>),
}

impl Vary {
    /// What the fields of a response say.
    #[must_use]
    pub fn of(fields: Fields<'_>) -> Self {
        let mut names: Vec<Vec<u8>> = fields.list("vary").map(<[u8]>::to_ascii_lowercase).collect();
        if names.iter().any(|name| name == b"*") {
            return Self::Everything;
        }
        names.sort_unstable();
        names.dedup();
        Self::Fields(names.into())
    }

    /// The secondary key of a request for a response with this `Vary`; `None` if it has none.
    /// Two requests select the same response if and only if their keys are equal.
    #[must_use]
    pub fn secondary_key(&self, request: Fields<'_>) -> Option<Vec<u8>> {
        let Self::Fields(names) = self else { return None };
        let mut key = Vec::new();
        for name in names {
            key.extend_from_slice(name);
            // A field that is not there differs from one that is empty.
            match normal_value(name, request) {
                None => key.push(b'\n'),
                Some(value) => {
                    key.push(b':');
                    key.extend_from_slice(&value);
                    key.push(b'\n');
                }
            }
        }
        Some(key)
    }
}

/// The value of a request field in normal form; `None` if it is not there.
fn normal_value(name: &[u8], request: Fields<'_>) -> Option<Vec<u8>> {
    let name = core::str::from_utf8(name).ok()?;
    if !request.has(name) {
        return None;
    }
    let value = match name {
        "accept-encoding" | "accept-language" | "accept-charset" => {
            preferences(request, name, true)
        }
        "accept" => preferences(request, name, false),
        _ => joined(request.all(name).flat_map(parts)),
    };
    Some(value)
}

/// A list of preferences, whose order means nothing: sorted, each once, with its weight in
/// thousandths; names in lower case if `fold`.
fn preferences(request: Fields<'_>, name: &str, fold: bool) -> Vec<u8> {
    let mut wanted: Vec<Vec<u8>> = request
        .list(name)
        .map(|member| {
            let (weight, name) = weighted(member);
            let mut text = if fold { name.to_ascii_lowercase() } else { name.to_vec() };
            text.extend_from_slice(format!(";{weight}").as_bytes());
            text
        })
        .collect();
    wanted.sort_unstable();
    wanted.dedup();
    joined(wanted.iter().map(Vec::as_slice))
}

fn joined<'a>(values: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut all = Vec::new();
    for (index, value) in values.enumerate() {
        if index > 0 {
            all.push(b',');
        }
        all.extend_from_slice(value);
    }
    all
}

/// A member of a list of preferences without its weight, and the weight in thousandths: 1,000 if
/// it has none (RFC 9110 section 12.4.2). An invalid weight stays part of the name.
fn weighted(member: &[u8]) -> (u16, &[u8]) {
    let Some(at) = member.iter().rposition(|&byte| byte == b';') else { return (1_000, member) };
    let parameter = member[at + 1..].trim_ascii();
    match parameter {
        [b'q' | b'Q', b'=', digits @ ..] => match thousandths(unquote(digits).unwrap_or(digits)) {
            Some(weight) => (weight, member[..at].trim_ascii()),
            None => (1_000, member),
        },
        _ => (1_000, member),
    }
}

/// `0`, `1`, or one of them with up to three digits after the point, at most 1.
fn thousandths(text: &[u8]) -> Option<u16> {
    let (whole, fraction) = match text {
        [whole] => (whole, &[][..]),
        [whole, b'.', fraction @ ..] if fraction.len() <= 3 => (whole, fraction),
        _ => return None,
    };
    if !matches!(whole, b'0' | b'1') || !fraction.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digit = |at: usize| u16::from(fraction.get(at).map_or(0, |digit| digit - b'0'));
    let weight = u16::from(whole - b'0') * 1_000 + digit(0) * 100 + digit(1) * 10 + digit(2);
    (weight <= 1_000).then_some(weight)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::cache::field::{Field, tests::lines};

    fn same(vary: &str, one: &[&str], other: &[&str]) -> bool {
        let vary = Vary::of(Fields(&[Field::new(b"vary", vary.as_bytes())]));
        let key = |request: &[&str]| vary.secondary_key(Fields(&lines(request))).unwrap();
        key(one) == key(other)
    }

    #[test]
    fn a_star_anywhere_matches_nothing() {
        for lines_of_vary in
            [&["Vary: *"][..], &["Vary: *, Foo"], &["Vary: Foo, *"], &["Vary:", "Vary: *"]]
        {
            let lines = lines(lines_of_vary);
            assert_eq!(Vary::of(Fields(&lines)), Vary::Everything, "{lines_of_vary:?}");
            assert_eq!(Vary::Everything.secondary_key(Fields(&[])), None);
        }
    }

    #[test]
    fn only_the_fields_named_select() {
        assert!(same("Foo", &["Foo: 1", "Other: 2"], &["Other: 3", "foo: 1"]));
        assert!(!same("Foo", &["Foo: 1"], &["Foo: 2"]));
        assert!(!same("Foo", &["Foo: 1"], &[]));
        assert!(!same("Foo", &["Foo:"], &[]));
        assert!(!same("Foo, Bar", &["Foo: 1", "Bar: a"], &["Foo: 1"]));
        assert!(same("Foo, Bar, Baz", &["Foo: 1", "Baz: 7"], &["Baz: 7", "Foo: 1"]));
        assert!(!same("Foo, Bar", &["Foo: 1", "Bar: 2"], &["Foo: 2", "Bar: 1"]));
    }

    #[test]
    fn lines_and_white_space_around_members_mean_nothing() {
        assert!(same("Foo", &["Foo: 1, 2"], &["Foo: 1", "Foo: 2"]));
        assert!(same("Foo", &["Foo: 1,2"], &["Foo:  1 , 2 "]));
        assert!(!same("Foo", &["Foo: 1, 2"], &["Foo: 2, 1"]));
        assert!(!same("Foo", &["Foo: a b"], &["Foo: a  b"]));
        assert!(!same("Foo", &["Foo: A"], &["Foo: a"]));
    }

    #[test]
    fn two_cookies_or_values_of_an_unknown_field_with_other_commas_have_responses_of_their_own() {
        for name in ["Foo", "Cookie"] {
            let field = |value: &str| std::format!("{name}: {value}");
            for (one, other) in [("a,b", "a,,b"), ("a", "a,"), ("a", ",a"), (",", "")] {
                assert!(!same(name, &[&field(one)], &[&field(other)]), "{one} {other}");
            }
        }
        assert!(same(
            "Accept-Encoding",
            &["Accept-Encoding: gzip,,br"],
            &["Accept-Encoding: gzip,br"]
        ));
    }

    #[test]
    fn the_order_of_preferences_means_nothing_and_their_weights_do() {
        assert!(same(
            "Accept-Encoding",
            &["Accept-Encoding: gzip, br"],
            &["Accept-Encoding: BR,gzip;q=1.0"]
        ));
        assert!(!same(
            "Accept-Encoding",
            &["Accept-Encoding: gzip, br"],
            &["Accept-Encoding: gzip, br;q=0"]
        ));
        assert!(!same(
            "Accept-Encoding",
            &["Accept-Encoding: gzip"],
            &["Accept-Encoding: gzip, br"]
        ));
        assert!(same(
            "Accept-Language",
            &["Accept-Language: en, de"],
            &["Accept-Language:  De ,   eN"]
        ));
        assert!(same("Accept", &["Accept: a/b;v=1, c/d;q=0.5"], &["Accept: c/d; q=0.500,a/b;v=1"]));
        assert!(!same("Accept", &["Accept: a/b;q=2"], &["Accept: a/b"]));
    }

    proptest! {
        #[test]
        fn different_values_of_an_unknown_field_never_share_a_key(
            one in "[a-c \",;=]{0,6}", other in "[a-c \",;=]{0,6}",
        ) {
            let (one, other) = (one.trim(), other.trim());
            let normal = |value: &str| -> Vec<Vec<u8>> {
                parts(value.as_bytes()).map(<[u8]>::to_vec).collect()
            };
            let (a, b) = (std::format!("Foo: {one}"), std::format!("Foo: {other}"));
            prop_assert_eq!(same("Foo", &[&a], &[&b]), normal(one) == normal(other));
        }
    }
}
