//! What takes the place of the part of a path that an expression matches: text in which `$1` and
//! `$name` stand for what its groups have, `${1}` too, and `$$` for a dollar sign.

use alloc::{borrow::ToOwned as _, string::String, vec::Vec};

use super::{Regex, normal};

/// Text with groups of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replacement(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Group(usize),
}

/// A name of a group that the expression has not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the expression has no group `{0}`")]
pub struct UnknownGroup(pub String);

impl Replacement {
    /// Reads a text as the file has it, with the groups of `regex`.
    ///
    /// # Errors
    /// The first group that `regex` has not.
    pub fn read(text: &str, regex: &Regex) -> Result<Self, UnknownGroup> {
        let (mut parts, mut literal, mut rest) = (Vec::new(), String::new(), text);
        while let Some(at) = rest.find('$') {
            let after = &rest[at + 1..];
            literal.push_str(&rest[..at]);
            let Some((name, behind)) = name_at(after) else {
                literal.push('$');
                rest = after.strip_prefix('$').unwrap_or(after);
                continue;
            };
            let group = regex.group(name).ok_or_else(|| UnknownGroup(name.to_owned()))?;
            parts.extend([Part::Text(core::mem::take(&mut literal)), Part::Group(group)]);
            rest = behind;
        }
        literal.push_str(rest);
        parts.push(Part::Text(literal));
        Ok(Self(parts))
    }

    /// Writes `path` with this in the place of the first match, percent-encoded; false and nothing
    /// where `regex` does not match.
    pub(super) fn write(&self, path: &[u8], regex: &Regex, out: &mut Vec<u8>) -> bool {
        let Some(groups) = regex.captures(path) else { return false };
        let Some(all) = groups.get(0) else { return false };
        let start = out.len();
        normal::encode(&path[..all.start()], out);
        for part in &self.0 {
            match part {
                Part::Text(text) => normal::encode_written(text.as_bytes(), out),
                Part::Group(group) => {
                    let found = groups.get(*group).map_or(&b""[..], |found| found.as_bytes());
                    normal::encode(found, out);
                }
            }
        }
        normal::encode(&path[all.end()..], out);
        if out.get(start) != Some(&b'/') {
            out.insert(start, b'/');
        }
        true
    }
}

/// The name of a group behind a dollar sign, and what is behind that; none where there is none.
fn name_at(text: &str) -> Option<(&str, &str)> {
    if let Some(braced) = text.strip_prefix('{') {
        return braced.split_once('}');
    }
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let end = text.find(|c| !is_of_name(c)).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(regex: &str, to: &str, path: &str) -> Option<String> {
        let regex = Regex::part(regex).unwrap();
        let mut out = Vec::new();
        let changes =
            Replacement::read(to, &regex).unwrap().write(path.as_bytes(), &regex, &mut out);
        changes.then(|| String::from_utf8(out).expect("what is encoded is ASCII"))
    }

    #[test]
    fn groups_are_encoded_and_what_the_text_has_encoded_stays() {
        for (regex, to, path, expected) in [
            ("^/users/([0-9]+)/", "/u/$1/v2/", "/users/17/name", "/u/17/v2/name"),
            ("^/a/(?P<name>.*)$", "/b/${name}x/$name", "/a/c", "/b/cx/c"),
            ("^/a/(.*)$", "/b%20c%2fd/$1", "/a/e f%20", "/b%20c%2Fd/e%20f%2520"),
            ("^/a$", "/b c/\u{e9}/100%/$$1", "/a", "/b%20c/%C3%A9/100%25/$1"),
            ("^/a(/x)?$", "$1", "/a", "/"),
            ("^/a/", "", "/a/b", "/b"),
            ("b+", "x", "/a b/bb", "/a%20x/bb"),
        ] {
            assert_eq!(written(regex, to, path).as_deref(), Some(expected), "{regex} {to} {path}");
        }
        assert_eq!(written("^/users/([0-9]+)/", "/u/$1", "/users/x/"), None);
    }

    #[test]
    fn a_group_that_the_expression_has_not_is_told() {
        let regex = Regex::part("^/(a)/(?P<name>b)$").unwrap();
        for (to, unknown) in
            [("/$1_x", "1_x"), ("/$3", "3"), ("/$nme", "nme"), ("/${1x}", "1x"), ("/${}", "")]
        {
            let wrong = Replacement::read(to, &regex);
            assert_eq!(wrong, Err(UnknownGroup(unknown.to_owned())), "{to}");
        }
        for to in ["/$0${1}_x$2$name", "/$", "/$-", "/${1", "/$$9"] {
            assert!(Replacement::read(to, &regex).is_ok(), "{to}");
        }
    }
}
