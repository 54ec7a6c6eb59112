//! The cache of a rule: the key of responses, and when a stale one is served.
//!
//! What may be stored and for how long is for the response to say ([`crate::cache`]); here is what
//! an operator adds to that.

use alloc::{string::String, vec::Vec};

use super::{Rule, Variable, Variables, pattern::decoded};
use crate::cache::Settings;

/// How responses to the requests of a rule are cached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caching {
    /// Which parameters of the query are part of the key. Servers see no other.
    pub query: QueryKey,
    /// Request headers whose values are part of the key.
    pub headers: Vec<String>,
    /// What is allowed beside what the responses say.
    pub settings: Settings,
    /// Whether responses carry `Cache-Status` (RFC 9211).
    pub status: bool,
    /// The bytes of each slice in which longer content is stored; 0 for none.
    pub slice: u32,
}

impl Default for Caching {
    fn default() -> Self {
        Self {
            query: QueryKey::All,
            headers: Vec::new(),
            settings: Settings::default(),
            status: true,
            slice: 0,
        }
    }
}

/// Which parameters of a query are part of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueryKey {
    /// All, in the order in which they came.
    All,
    /// All but these.
    Ignore(Vec<String>),
    /// These alone.
    Keep(Vec<String>),
}

impl QueryKey {
    /// Whether this parameter, `name=value` or a name alone, is part of the key. Names are compared
    /// decoded, as the conditions of rules do; what is part of the key is there as it came, so that
    /// requests have one key only where servers see the same.
    fn has(&self, parameter: &[u8]) -> bool {
        let name = parameter.split(|byte| *byte == b'=').next().unwrap_or_default();
        let listed = |names: &[String]| names.iter().any(|other| decoded(name).eq(other.bytes()));
        match self {
            Self::All => true,
            Self::Ignore(names) => !listed(names),
            Self::Keep(names) => listed(names),
        }
    }

    /// Appends a target with what of its query is part of the key, and says whether that is less
    /// than all.
    pub fn write(&self, target: &[u8], out: &mut Vec<u8>) -> bool {
        let mark = target.iter().position(|byte| *byte == b'?');
        let (Some(mark), false) = (mark, *self == Self::All) else {
            out.extend_from_slice(target);
            return false;
        };
        out.extend_from_slice(&target[..mark]);
        let (mut before, mut less) = (b'?', false);
        for parameter in target[mark + 1..].split(|byte| *byte == b'&') {
            if self.has(parameter) {
                out.push(before);
                out.extend_from_slice(parameter);
                before = b'&';
            } else {
                less = true;
            }
        }
        less
    }

    /// Appends what of a query, which has no question mark, is part of the key.
    pub fn write_query(&self, query: &[u8], out: &mut Vec<u8>) {
        let kept = query.split(|byte| *byte == b'&').filter(|parameter| self.has(parameter));
        for (index, parameter) in kept.enumerate() {
            if index > 0 {
                out.push(b'&');
            }
            out.extend_from_slice(parameter);
        }
    }
}

/// The variables of a request whose response others get: of the query they have what is part of the
/// key, and so have the headers and paths for servers that are made of them.
pub struct KeyedVariables<'v> {
    /// Those of the request.
    pub all: &'v dyn Variables,
    /// What is part of the key; all if omitted.
    pub query: Option<&'v QueryKey>,
}

impl<'v> KeyedVariables<'v> {
    /// Those that servers are told by `rule`; others get the response, too, if the request is for
    /// the cache and the rule has one.
    #[must_use]
    pub fn of(rule: &'v Rule, all: &'v dyn Variables, is_for_cache: bool) -> Self {
        let cached = rule.cache.as_ref().filter(|_| is_for_cache);
        Self { all, query: cached.map(|caching| &caching.query) }
    }
}

impl Variables for KeyedVariables<'_> {
    fn write(&self, variable: Variable, out: &mut Vec<u8>) {
        match (variable, self.query) {
            (Variable::Query, Some(key)) => {
                let mut query = Vec::new();
                self.all.write(variable, &mut query);
                key.write_query(&query, out);
            }
            _ => self.all.write(variable, out),
        }
    }

    fn write_claim(&self, name: &str, out: &mut Vec<u8>) {
        self.all.write_claim(name, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::Template;

    fn written(key: &QueryKey, target: &str) -> (String, bool) {
        let mut out = Vec::new();
        let less = key.write(target.as_bytes(), &mut out);
        (String::from_utf8(out).expect("what was text"), less)
    }

    #[test]
    fn parameters_that_do_not_matter_are_left_out_of_the_key() {
        let ignore = QueryKey::Ignore(Vec::from(["utm_source".into(), "fbclid".into()]));
        let keep = QueryKey::Keep(Vec::from(["id".into()]));
        for (key, target, expected, less) in [
            (&QueryKey::All, "/a?b=1&utm_source=x", "/a?b=1&utm_source=x", false),
            (&ignore, "/a?b=1&utm_source=x&c", "/a?b=1&c", true),
            (&ignore, "/a?utm_source=x&fbclid", "/a", true),
            (&ignore, "/a?b=1", "/a?b=1", false),
            (&ignore, "/a", "/a", false),
            (&ignore, "/a?%75tm_source=x&b=1", "/a?b=1", true),
            (&ignore, "/a?utm%5Fsource&%66bclid%3d=1", "/a?%66bclid%3d=1", true),
            (&keep, "/a?b=1&id=2&id=3", "/a?id=2&id=3", true),
            (&keep, "/a?b=1&%69d=2&i%64", "/a?%69d=2&i%64", true),
        ] {
            assert_eq!(written(key, target), (expected.into(), less), "{target}");
            let (_, query) = target.split_once('?').unwrap_or_default();
            let (_, expected) = expected.split_once('?').unwrap_or_default();
            let mut out = Vec::new();
            key.write_query(query.as_bytes(), &mut out);
            assert_eq!(out, expected.as_bytes(), "{target}");
        }
    }

    struct Named;

    impl Variables for Named {
        fn write(&self, variable: Variable, out: &mut Vec<u8>) {
            let all = if variable == Variable::Query { "b=1&utm=x" } else { variable.name() };
            out.extend_from_slice(all.as_bytes());
        }

        fn write_claim(&self, name: &str, out: &mut Vec<u8>) {
            out.extend_from_slice(name.as_bytes());
        }
    }

    #[test]
    fn a_variable_has_of_the_query_what_is_part_of_the_key() {
        let ignore = QueryKey::Ignore(Vec::from(["utm".into()]));
        let template = Template::read("$path?$query $jwt_claim_sub").expect("a template");
        for (query, expected) in [
            (None, "path?b=1&utm=x sub"),
            (Some(&QueryKey::All), "path?b=1&utm=x sub"),
            (Some(&ignore), "path?b=1 sub"),
        ] {
            let mut out = Vec::new();
            template.write(&KeyedVariables { all: &Named, query }, &mut out);
            assert_eq!(String::from_utf8(out).as_deref(), Ok(expected));
        }
    }

    #[test]
    fn parameters_with_brackets_and_colons_are_named_as_they_are_read() {
        let names = ["ids[]".into(), "filter[price]".into(), "utm:source".into(), "a b".into()];
        let keep = QueryKey::Keep(Vec::from(names));
        let kept = "/?ids[]=1&ids%5B%5d=2&filter%5Bprice]=3&utm%3Asource=4&a+b=5&a%20b=6";
        assert_eq!(written(&keep, kept), (kept.into(), false));
        assert_eq!(written(&keep, "/?ids=1&a%2Bb=2&utm"), ("/".into(), true));
    }
}
