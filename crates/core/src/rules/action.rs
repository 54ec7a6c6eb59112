//! The action of a rule.

use alloc::{string::String, sync::Arc, vec::Vec};

use super::{
    Map, Redirect, Regex, Replacement, Template, Variables,
    normal::{self, Byte, Decoded},
    pattern::is_under,
};

/// What is done with a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// A service answers it.
    Service(Split),
    /// The client is sent elsewhere.
    Redirect(Redirect),
    /// loadline answers, or denies.
    Respond(DirectResponse),
}

/// Services and their shares of the requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// At least one, of which one has a weight.
    shares: Vec<Share>,
    total: u64,
}

/// A service and its part of the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Index into [`crate::fleet::Fleet::services`].
    pub service: usize,
    /// Its part, in proportion to the others'; 0 gets none.
    pub weight: u32,
}

impl Split {
    /// All to one service.
    #[must_use]
    pub fn all(service: usize) -> Self {
        Self { shares: [Share { service, weight: 1 }].into(), total: 1 }
    }

    /// In proportion to weights; none where they are all zero.
    #[must_use]
    pub fn by_weight(shares: Vec<Share>) -> Option<Self> {
        let total = shares.iter().map(|share| u64::from(share.weight)).sum();
        (total > 0).then_some(Self { shares, total })
    }

    /// The service for a draw, even over all numbers of 64 bits.
    #[must_use]
    pub fn choose(&self, draw: u64) -> usize {
        // The product of two numbers of 64 bits has 128, and its upper half is below `total`.
        let mut point = ((u128::from(draw) * u128::from(self.total)) >> 64) as u64;
        for share in &self.shares {
            let weight = u64::from(share.weight);
            if point < weight {
                return share.service;
            }
            point -= weight;
        }
        unreachable!("a point is below the sum of the weights")
    }

    /// The services and their weights.
    #[must_use]
    pub fn shares(&self) -> &[Share] {
        &self.shares
    }
}

/// A response that is made here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectResponse {
    /// 200 to 599.
    pub status: u16,
    /// Names and values.
    pub headers: Vec<(String, Template)>,
    /// What it says.
    pub body: String,
}

/// Changes of header fields: first some are removed, then set, then added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeaderEdits {
    /// Names of fields that are dropped.
    pub remove: Vec<String>,
    /// Fields that replace all of their name.
    pub set: Vec<(String, Template)>,
    /// Fields that come beside those of their name.
    pub add: Vec<(String, Template)>,
}

impl HeaderEdits {
    /// Whether nothing is changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.remove.is_empty() && self.set.is_empty() && self.add.is_empty()
    }

    /// Whether a field of the message does not stay.
    #[must_use]
    pub fn drops(&self, name: &[u8]) -> bool {
        self.dropped().any(|own| own.as_bytes().eq_ignore_ascii_case(name))
    }

    /// The names of fields of the message that do not stay.
    pub fn dropped(&self) -> impl Iterator<Item = &String> {
        self.remove.iter().chain(self.set.iter().map(|field| &field.0))
    }

    /// Makes the changes of `other` as well.
    pub fn extend(&mut self, other: Self) {
        self.remove.extend(other.remove);
        self.set.extend(other.set);
        self.add.extend(other.add);
    }

    /// The fields that come in.
    pub fn fields(&self) -> impl Iterator<Item = &(String, Template)> {
        self.set.iter().chain(&self.add)
    }

    /// How many fields of this name come in.
    #[must_use]
    pub fn count(&self, name: &[u8]) -> usize {
        self.fields().filter(|(own, _)| own.as_bytes().eq_ignore_ascii_case(name)).count()
    }

    /// The same for one request, without variables; none where they have none.
    #[must_use]
    pub fn filled_in(&self, variables: &dyn Variables) -> Option<Self> {
        if self.fields().all(|(_, value)| value.is_literal()) {
            return None;
        }
        let fill = |fields: &[(String, Template)]| {
            let filled = fields.iter().map(|(name, value)| {
                let mut text = Vec::new();
                value.write(variables, &mut text);
                (name.clone(), Template::literal_bytes(&text))
            });
            filled.collect()
        };
        Some(Self { remove: self.remove.clone(), set: fill(&self.set), add: fill(&self.add) })
    }
}

/// How a path becomes another. It is given in its normal form, without the query. In what it
/// becomes, what the file has percent-encoded stays so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathChange {
    /// Always this path.
    Whole(String),
    /// Another prefix, where the path is below the first ([`super::Path::Prefix`]).
    Prefix {
        /// Without a slash at its end.
        from: String,
        /// Without a slash at its end.
        to: String,
    },
    /// The first match of an expression becomes something else.
    Regex {
        /// What is replaced.
        pattern: Regex,
        /// What each match is replaced by.
        to: Replacement,
    },
    /// What a map says, which is found out by [`PathChange::filled_in`]; where it says nothing the
    /// path stays.
    Map(Arc<Map>),
}

impl PathChange {
    /// What a map makes of it for one request; none where it is by no map, or that says nothing.
    #[must_use]
    pub fn filled_in(&self, variables: &dyn Variables) -> Option<Self> {
        let Self::Map(map) = self else { return None };
        let value = map.value(variables);
        let slash = if value.starts_with('/') { "" } else { "/" };
        (!value.is_empty()).then(|| Self::Whole([slash, value].concat()))
    }

    /// Writes what becomes of a path that came as `raw`; false and nothing where it stays. Behind a
    /// prefix it goes on as it came, `%2F` too, if nothing in it leads out of there.
    pub fn write_raw(&self, raw: &[u8], path: &[u8], out: &mut Vec<u8>) -> bool {
        let Self::Prefix { from, to } = self else { return self.write(path, out) };
        let Some(rest) = raw_rest(raw, from) else { return self.write(path, out) };
        normal::encode_written(to.as_bytes(), out);
        out.extend_from_slice(if to.is_empty() && rest.is_empty() { b"/" } else { rest });
        true
    }

    /// Writes what becomes of a path, percent-encoded; false and nothing where it stays.
    pub fn write(&self, path: &[u8], out: &mut Vec<u8>) -> bool {
        match self {
            Self::Whole(to) => normal::encode_written(to.as_bytes(), out),
            Self::Map(_) => return false,
            Self::Prefix { from, to } => {
                if !is_under(path, from) {
                    return false;
                }
                let rest = &path[from.len()..];
                normal::encode_written(to.as_bytes(), out);
                normal::encode(if to.is_empty() && rest.is_empty() { b"/" } else { rest }, out);
            }
            Self::Regex { pattern, to } => return to.write(path, pattern, out),
        }
        true
    }
}

/// What is behind a prefix in a path as it came, where both mean in it what they mean in the normal
/// form. A path that begins with two slashes would be a host for many.
fn raw_rest<'a>(raw: &'a [u8], prefix: &str) -> Option<&'a [u8]> {
    let mut decoded = Decoded { rest: raw };
    let is_below = prefix.bytes().all(|expected| match decoded.next() {
        Some(Byte::Plain(byte)) => byte == expected,
        Some(Byte::Encoded(byte)) => byte == expected && byte != b'/',
        None => false,
    });
    let rest = decoded.rest;
    let is_path = rest.is_empty() || rest.starts_with(b"/") && !rest.starts_with(b"//");
    (is_below && is_path && !normal::has_dots(rest)).then_some(rest)
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use proptest::prelude::*;

    use super::*;
    use crate::rules::Variable;

    struct Nothing;

    impl Variables for Nothing {
        fn write(&self, _: Variable, _: &mut Vec<u8>) {}
    }

    fn changed(change: &PathChange, path: &str) -> Option<String> {
        let mut out = vec![];
        let changes = change.write(path.as_bytes(), &mut out);
        changes.then(|| String::from_utf8(out).expect("what is encoded is ASCII"))
    }

    #[test]
    fn a_variable_that_is_not_utf_8_goes_into_a_header_as_it_came() {
        struct Latin1;

        impl Variables for Latin1 {
            fn write(&self, _: Variable, out: &mut Vec<u8>) {
                out.extend_from_slice(b"m\xfcller");
            }
        }

        let value = Template::read("<$user>").expect("a variable");
        let edits = HeaderEdits { set: vec![("X-User".into(), value)], ..HeaderEdits::default() };
        let filled = edits.filled_in(&Latin1).expect("it has a variable");
        let mut written = vec![];
        filled.set[0].1.write(&Nothing, &mut written);
        assert_eq!(written, b"<m\xfcller>");
    }

    #[test]
    fn a_prefix_is_replaced_at_the_border_of_a_segment() {
        let change = |from: &str, to: &str| PathChange::Prefix { from: from.into(), to: to.into() };
        for (from, to, path, expected) in [
            ("/api", "", "/api/users", Some("/users")),
            ("/api", "", "/api", Some("/")),
            ("/api", "/v2", "/api", Some("/v2")),
            ("/api", "/v2", "/apis", None),
            ("", "/v2", "/users", Some("/v2/users")),
            ("/api", "", "/api/a b?", Some("/a%20b%3F")),
        ] {
            assert_eq!(changed(&change(from, to), path).as_deref(), expected, "{from} {path}");
        }
    }

    #[test]
    fn what_is_behind_a_prefix_goes_on_as_it_came() {
        let change = |from: &str, to: &str| PathChange::Prefix { from: from.into(), to: to.into() };
        for (from, to, raw, expected) in [
            ("/gitlab", "", "/gitlab/api/group%2Fproject", Some("/api/group%2Fproject")),
            ("/gitlab", "/v2", "/gitlab/a//b%20c", Some("/v2/a//b%20c")),
            ("/gitlab", "", "/gitlab", Some("/")),
            ("", "/v2", "/%2F", Some("/v2/%2F")),
            ("/gitlab", "", "/%67itlab/a%2Fb", Some("/a%2Fb")),
            ("/gr\u{f6}\u{df}e", "", "/gr%C3%B6%C3%9Fe/a%2Fb", Some("/a%2Fb")),
            ("/a b", "", "/a%20b/c%2Fd", Some("/c%2Fd")),
            ("/100%", "", "/100%25/a%2Fb", Some("/a%2Fb")),
            // The prefix has slashes that are encoded or doubled, or the rest leads elsewhere.
            ("/gitlab", "", "/gitlab%2Fa%2Fb", Some("/a/b")),
            ("/a/b", "", "/a%2Fb/c%2Fd", Some("/c/d")),
            ("/gitlab", "", "/gitlab//a%2Fb", Some("/a/b")),
            ("/gitlab", "", "/gitlab/a%2F..%2Fb", Some("/b")),
            ("/gitlab", "", "/gitlab/../gitlab/a%2fb", Some("/a/b")),
            ("/gitlab", "", "/gitlab/../a", None),
            ("/a%20b", "", "/a%20b/c", None),
        ] {
            let (mut scratch, mut out) = (vec![], vec![]);
            let path = normal::path(raw.as_bytes(), &mut scratch);
            let changes = change(from, to).write_raw(raw.as_bytes(), path, &mut out);
            let written = changes.then(|| String::from_utf8(out).expect("ASCII"));
            assert_eq!(written.as_deref(), expected, "{from} {raw}");
        }
    }

    proptest! {
        #[test]
        fn what_goes_on_as_it_came_is_the_path_that_rules_have_seen(
            raw in "/(a|%61|%C3%A9|%25|a/a|a%2Fa)(%2F|%2e|%[0-9]|[/.a%]){0,9}",
            from in "/(a|\u{e9}|%|a/a)",
            to in "(/b)?",
        ) {
            let normal = |path: &[u8]| normal::path(path, &mut vec![]).to_vec();
            let change = PathChange::Prefix { from, to };
            let (mut as_came, mut as_seen) = (vec![], vec![]);
            let path = normal(raw.as_bytes());
            let changes = change.write_raw(raw.as_bytes(), &path, &mut as_came);
            prop_assert_eq!(changes, change.write(&path, &mut as_seen));
            prop_assert_eq!(normal(&as_came), normal(&as_seen));
        }
    }

    #[test]
    fn a_path_that_the_file_has_encoded_is_not_encoded_twice() {
        let whole = |to: &str| changed(&PathChange::Whole(to.into()), "/").expect("a path");
        assert_eq!(whole("/b%20c%2fd"), "/b%20c%2Fd");
        assert_eq!(whole("/b c/\u{e9}/100%"), "/b%20c/%C3%A9/100%25");
        let change = PathChange::Prefix { from: "/a".into(), to: "/b%20c".into() };
        assert_eq!(changed(&change, "/a/%20").as_deref(), Some("/b%20c/%2520"));
    }

    #[test]
    fn draws_that_are_even_split_in_proportion_to_the_weights() {
        let share = |service, weight| Share { service, weight };
        let split = Split::by_weight(vec![share(4, 90), share(7, 0), share(5, 10)]);
        let split = split.expect("weights");
        let mut given = [0_u32; 8];
        for draw in 0..1_000u64 {
            given[split.choose(draw * (u64::MAX / 999))] += 1;
        }
        assert!(given[4].abs_diff(900) <= 1 && given[5].abs_diff(100) <= 1, "{given:?}");
        assert_eq!(given[7], 0);
        assert_eq!(Split::by_weight(vec![share(1, 0)]), None);
    }
}
