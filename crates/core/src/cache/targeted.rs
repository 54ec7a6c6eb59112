//! Cache directives for one class of caches, such as `CDN-Cache-Control`: RFC 9213.
//!
//! The value is a dictionary of RFC 8941 section 3.2, read strictly: one mistake anywhere and the
//! field says nothing. A known directive of another type than RFC 9213 gives it is such a mistake.

use alloc::vec::Vec;

use super::{
    directives::{Name, ResponseDirectives},
    field::Fields,
};
use crate::time::Duration;

/// The field for content delivery networks and reverse proxies.
pub const CDN_CACHE_CONTROL: &str = "CDN-Cache-Control";

/// The directives of the field `target`; `None` if it is not there, empty or invalid.
pub(super) fn directives(fields: Fields<'_>, target: &str) -> Option<ResponseDirectives> {
    let mut lines = fields.all(target);
    let mut value = lines.next()?.to_vec();
    for line in lines {
        value.extend_from_slice(b", ");
        value.extend_from_slice(line);
    }
    let members = dictionary(&value)?;
    let mut directives = ResponseDirectives { targeted: true, ..ResponseDirectives::default() };
    for (at, (key, item)) in members.iter().enumerate() {
        // Of a key that is there twice the last one counts: RFC 8941 section 4.2.2.
        if members[at + 1..].iter().any(|(later, _)| later == key) {
            continue;
        }
        match (Name::of(key), item) {
            (None, _) | (Some(_), Item::Boolean(false)) => {}
            (Some(name), Item::Integer(secs)) if name.takes_span() => {
                let secs = u64::try_from(*secs).unwrap_or(0);
                directives.set_span(name, Duration::from_secs(secs));
            }
            (Some(name), _) if name.takes_span() => return None,
            // Names of fields are not withheld singly here: the whole response is.
            (Some(_), _) => directives.set_flag(key),
        }
    }
    (!members.is_empty()).then_some(directives)
}

/// A value, as far as directives need it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Item {
    Boolean(bool),
    Integer(i64),
    Other,
}

fn dictionary(value: &[u8]) -> Option<Vec<(&[u8], Item)>> {
    let mut parser = Parser { rest: value.trim_ascii() };
    let mut members = Vec::new();
    while !parser.rest.is_empty() {
        let key = parser.key()?;
        let item = if parser.take(b'=') { parser.member()? } else { Item::Boolean(true) };
        parser.parameters()?;
        members.push((key, item));
        parser.skip(b" \t");
        if parser.rest.is_empty() {
            break;
        }
        parser.expect(b',')?;
        parser.skip(b" \t");
        // A comma at the end is a mistake.
        parser.peek()?;
    }
    Some(members)
}

/// Reads a structured field from its start: RFC 8941 section 4.2.
struct Parser<'a> {
    rest: &'a [u8],
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let is = self.peek() == Some(byte);
        if is {
            self.rest = &self.rest[1..];
        }
        is
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        self.take(byte).then_some(())
    }

    fn skip(&mut self, bytes: &[u8]) {
        self.take_while(|byte| bytes.contains(&byte));
    }

    fn take_while(&mut self, wanted: impl Fn(u8) -> bool) -> &'a [u8] {
        let end = self.rest.iter().position(|&byte| !wanted(byte)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    fn key(&mut self) -> Option<&'a [u8]> {
        let first = self.peek()?;
        (first.is_ascii_lowercase() || first == b'*').then(|| {
            self.take_while(|byte| {
                byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-.*".contains(&byte)
            })
        })
    }

    fn member(&mut self) -> Option<Item> {
        if !self.take(b'(') {
            return self.bare_item();
        }
        loop {
            self.skip(b" ");
            if self.take(b')') {
                return Some(Item::Other);
            }
            self.bare_item()?;
            self.parameters()?;
            if !matches!(self.peek()?, b' ' | b')') {
                return None;
            }
        }
    }

    fn parameters(&mut self) -> Option<()> {
        while self.take(b';') {
            self.skip(b" ");
            self.key()?;
            if self.take(b'=') {
                self.bare_item()?;
            }
        }
        Some(())
    }

    fn bare_item(&mut self) -> Option<Item> {
        match self.peek()? {
            b'?' => self.boolean(),
            b'"' => self.string(),
            b':' => self.byte_sequence(),
            b'-' | b'0'..=b'9' => self.number(),
            byte if byte.is_ascii_alphabetic() || byte == b'*' => {
                self.take_while(|byte| {
                    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(&byte)
                });
                Some(Item::Other)
            }
            _ => None,
        }
    }

    fn boolean(&mut self) -> Option<Item> {
        self.expect(b'?')?;
        match self.peek()? {
            b'0' => self.expect(b'0').map(|()| Item::Boolean(false)),
            _ => self.expect(b'1').map(|()| Item::Boolean(true)),
        }
    }

    fn string(&mut self) -> Option<Item> {
        self.expect(b'"')?;
        loop {
            let (&byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            match byte {
                b'"' => return Some(Item::Other),
                b'\\' if !(self.take(b'"') || self.take(b'\\')) => return None,
                b'\\' | b' '..=b'~' => {}
                _ => return None,
            }
        }
    }

    fn byte_sequence(&mut self) -> Option<Item> {
        self.expect(b':')?;
        self.take_while(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte));
        self.expect(b':').map(|()| Item::Other)
    }

    /// An integer of at most 15 digits, or a decimal of at most 12 and 3.
    fn number(&mut self) -> Option<Item> {
        let negative = self.take(b'-');
        let whole = self.take_while(|byte| byte.is_ascii_digit());
        if self.take(b'.') {
            let fraction = self.take_while(|byte| byte.is_ascii_digit());
            let right = (1..=12).contains(&whole.len()) && (1..=3).contains(&fraction.len());
            return right.then_some(Item::Other);
        }
        let right = (1..=15).contains(&whole.len());
        right.then(|| {
            let number = whole.iter().fold(0, |n: i64, digit| n * 10 + i64::from(digit - b'0'));
            Item::Integer(if negative { -number } else { number })
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::cache::field::tests::lines;

    fn read(value: &str) -> Option<ResponseDirectives> {
        let field = crate::cache::Field::new(b"cdn-cache-control", value.as_bytes());
        directives(Fields(&[field]), CDN_CACHE_CONTROL)
    }

    fn max_age(value: &str) -> Option<u64> {
        read(value)?.max_age.map(|span| span.as_nanos() / 1_000_000_000)
    }

    #[test]
    fn directives_are_members_of_a_dictionary() {
        let all = read("foo=bar;a=1, max-age=60, no-store, s-maxage=5;x, l=(1 \"a\";b), b=:YQ==:");
        let all = all.unwrap();
        assert!(all.no_store && all.targeted && !all.no_cache);
        assert_eq!(all.s_maxage, Some(Duration::from_secs(5)));
        assert_eq!(max_age("max-age=1, max-age=60"), Some(60));
        assert_eq!(max_age("max-age=-1"), Some(0));
        assert_eq!(max_age("max-age=99999999999"), Some(Duration::MAX.as_nanos() / 1_000_000_000));
        assert!(!read("no-store=?0, max-age=1").unwrap().no_store);
        assert!(read("private=\"x\"").unwrap().private);
    }

    #[test]
    fn one_mistake_and_the_field_says_nothing() {
        for value in [
            "", " ", "max-age=10000, &&&&&", "max-age=\"10000\"", "max-age =100", "max-age= 100",
            "MaX-aGe=3600", "max-age=1,", "max-age=1,,a", "max-age=1 a", "max-age", "max-age=1.0",
            "max-age=1234567890123456", "a=\"", "a=\"\\x\"", "a=(1", "a=(1,2)", "a=?2", "a=:YQ",
            "a=-", "a=1.", "a=\u{e9}", "a;=1",
        ] {
            assert_eq!(read(value), None, "{value}");
        }
    }

    #[test]
    fn lines_are_one_dictionary_and_a_valid_field_replaces_cache_control() {
        let two = lines(&[
            "CDN-Cache-Control: max-age=60",
            "CDN-Cache-Control: immutable",
            "Cache-Control: no-store",
        ]);
        let read = ResponseDirectives::of(Fields(&two), &[CDN_CACHE_CONTROL]);
        assert!(read.immutable && !read.no_store && read.max_age.is_some());
        let wrong = lines(&["CDN-Cache-Control: max-age=60,", "Cache-Control: no-store"]);
        assert!(ResponseDirectives::of(Fields(&wrong), &[CDN_CACHE_CONTROL]).no_store);
    }

    proptest! {
        #[test]
        fn any_value_is_read_without_a_panic(value in prop::collection::vec(any::<u8>(), 0..60)) {
            let field = [crate::cache::Field::new(b"cdn-cache-control", &value)];
            let _ = directives(Fields(&field), CDN_CACHE_CONTROL);
        }

        #[test]
        fn what_follows_from_the_grammar_is_read(secs in 0u32.., key in "[a-z*][a-z0-9_*.-]{0,8}") {
            prop_assume!(Name::of(key.as_bytes()).is_none());
            let value = std::format!("{key}=\"a, \\\" b\", max-age={secs}, {key}9=?1");
            prop_assert_eq!(max_age(&value), Some(u64::from(secs)));
        }
    }
}
