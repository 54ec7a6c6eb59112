//! Maps: a variable whose value is looked up by others, like nginx' `map` and HAProxy's map files.
//!
//! A lookup in `n` keys takes `O(log n)` comparisons; by prefix and suffix one more for each key
//! that is a part of the one before it, so that the longest is found; by expressions they are tried
//! one by one.

use alloc::{string::String, vec::Vec};
use core::fmt;

use super::{PatternError, Regex, Template, Variables};

/// A variable whose value is looked up.
#[derive(Clone, PartialEq, Eq)]
pub struct Map {
    name: String,
    of: Template,
    entries: Entries,
    default: String,
    /// Of all that decides about values.
    digest: u64,
}

/// How keys are compared with what is looked up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MapKind {
    /// They are equal.
    #[default]
    Exact,
    /// It begins with the key; of several the longest.
    Prefix,
    /// It ends with the key; of several the longest.
    Suffix,
    /// The expression matches a part of it; of several the first.
    Regex,
}

/// Why there is no map of some keys.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MapError {
    /// The second of these entries, by their index, has the key of the first.
    #[error("the key is there already")]
    Duplicate(usize, usize),
    /// The key of this entry is no expression.
    #[error("{1}")]
    Regex(usize, PatternError),
}

#[derive(Clone, PartialEq, Eq)]
enum Entries {
    /// In the order of the keys.
    Exact(Vec<(String, String)>),
    Parts(Parts),
    Regex(Vec<(Regex, String)>),
}

/// Keys that have to be the beginning, or the end.
#[derive(Clone, PartialEq, Eq)]
struct Parts {
    /// Keys (of suffixes backwards) in their order, with the place of the longest other key that is
    /// a beginning of it.
    keys: Vec<(Vec<u8>, String, Option<u32>)>,
    are_suffixes: bool,
}

impl Map {
    /// The variable `name`, which is looked up by the text `of`; it is `default` where that is none
    /// of the keys. In `of` the path is in its normal form, as routes see it, so that nobody gets
    /// around a map of `/admin` by `/%61dmin`.
    ///
    /// # Errors
    /// [`MapError`] for two keys that are the same, and a key that is no expression.
    pub fn new(
        (name, of): (&str, &Template),
        kind: MapKind,
        entries: Vec<(String, String)>,
        default: String,
    ) -> Result<Self, MapError> {
        let digest = digest(kind, &entries, &default);
        let entries = match kind {
            MapKind::Exact => Entries::Exact(in_order(entries)?),
            MapKind::Prefix => Entries::Parts(Parts::new(entries, false)?),
            MapKind::Suffix => Entries::Parts(Parts::new(entries, true)?),
            MapKind::Regex => {
                let compiled = entries.into_iter().enumerate().map(|(index, (key, value))| {
                    let wrong = |error| MapError::Regex(index, error);
                    Ok((Regex::part(&key).map_err(wrong)?, value))
                });
                Entries::Regex(compiled.collect::<Result<_, _>>()?)
            }
        };
        Ok(Self { name: name.into(), of: of.clone().of_normal_path(), entries, default, digest })
    }

    /// The name of the variable, without the dollar sign.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The template of the key that is looked up.
    #[must_use]
    pub const fn of(&self) -> &Template {
        &self.of
    }

    /// The value for this text.
    #[must_use]
    pub fn find(&self, text: &[u8]) -> &str {
        let found = match &self.entries {
            Entries::Exact(sorted) => {
                let at = sorted.binary_search_by(|(key, _)| key.as_bytes().cmp(text)).ok();
                at.map(|at| &sorted[at].1)
            }
            Entries::Parts(parts) => parts.find(text),
            Entries::Regex(list) => {
                list.iter().find(|(regex, _)| regex.matches(text)).map(|(_, value)| value)
            }
        };
        found.unwrap_or(&self.default)
    }

    /// The value for one request.
    #[must_use]
    pub fn value(&self, variables: &dyn Variables) -> &str {
        let mut text = Vec::new();
        self.of.write(variables, &mut text);
        self.find(&text)
    }

    /// The first value of which `is` holds, the default one last.
    #[must_use]
    pub fn find_value(&self, is: impl Fn(&str) -> bool) -> Option<&str> {
        let is = |value: &&String| is(value);
        let own = match &self.entries {
            Entries::Exact(list) => list.iter().map(|(_, value)| value).find(is),
            Entries::Parts(parts) => parts.keys.iter().map(|(_, value, _)| value).find(is),
            Entries::Regex(list) => list.iter().map(|(_, value)| value).find(is),
        };
        own.or_else(|| Some(&self.default).filter(is)).map(String::as_str)
    }

    fn len(&self) -> usize {
        match &self.entries {
            Entries::Exact(list) => list.len(),
            Entries::Parts(parts) => parts.keys.len(),
            Entries::Regex(list) => list.len(),
        }
    }
}

/// With a digest of its entries, of which there may be many.
impl fmt::Debug for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, of, digest, .. } = self;
        write!(f, "${name} of {of} ({} keys, {digest:016x})", self.len())
    }
}

impl Parts {
    fn new(entries: Vec<(String, String)>, are_suffixes: bool) -> Result<Self, MapError> {
        let turned = |key: String| {
            let mut key = key.into_bytes();
            if are_suffixes {
                key.reverse();
            }
            key
        };
        let entries = entries.into_iter().map(|(key, value)| (turned(key), value)).collect();
        let mut keys: Vec<(Vec<u8>, String, Option<u32>)> = Vec::new();
        // Those that are beginnings of the last one, the longest last.
        let mut open: Vec<u32> = Vec::new();
        for (at, (key, value)) in (0..).zip(in_order::<Vec<u8>>(entries)?) {
            while open.pop_if(|last| !key.starts_with(&keys[*last as usize].0)).is_some() {}
            keys.push((key, value, open.last().copied()));
            open.push(at);
        }
        Ok(Self { keys, are_suffixes })
    }

    /// The value of the longest key with which the text begins or ends. Keys that begin with one
    /// follow it, and what the text begins with comes before it: so the last key up to the text
    /// is, or begins with, every key that is looked for.
    fn find(&self, text: &[u8]) -> Option<&String> {
        let turned: Vec<u8>;
        let text = if self.are_suffixes {
            turned = text.iter().rev().copied().collect();
            &turned
        } else {
            text
        };
        let mut next = self.keys.partition_point(|(key, ..)| &**key <= text).checked_sub(1);
        while let Some(at) = next {
            let (key, value, shorter) = &self.keys[at];
            if text.starts_with(key) {
                return Some(value);
            }
            next = shorter.map(|at| at as usize);
        }
        None
    }
}

/// FNV-1a (64 bits), with a byte that no text has behind each.
fn digest(kind: MapKind, entries: &[(String, String)], default: &str) -> u64 {
    let texts = entries.iter().flat_map(|(key, value)| [key.as_str(), value]);
    let bytes = texts.chain([default]).flat_map(|text| text.bytes().chain([0xff]));
    bytes.chain([kind as u8]).fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Entries in the order of their keys, none of which is there twice.
fn in_order<K: Ord>(entries: Vec<(K, String)>) -> Result<Vec<(K, String)>, MapError> {
    let mut numbered: Vec<(usize, (K, String))> = entries.into_iter().enumerate().collect();
    numbered.sort_by(|a, b| a.1.0.cmp(&b.1.0));
    if let Some([first, second]) = numbered.array_windows().find(|[a, b]| a.1.0 == b.1.0) {
        return Err(MapError::Duplicate(first.0, second.0));
    }
    Ok(numbered.into_iter().map(|(_, entry)| entry).collect())
}

#[cfg(test)]
mod tests {
    use alloc::{format, string::ToString as _, vec};

    use proptest::prelude::*;

    use super::*;
    use crate::rules::Variable;

    fn map(kind: MapKind, entries: &[(&str, &str)]) -> Result<Map, MapError> {
        let of = Template::read("$host").expect("a template");
        let entries = entries.iter().map(|(key, value)| (key.to_string(), value.to_string()));
        Map::new(("color", &of), kind, entries.collect(), "grey".to_string())
    }

    #[test]
    fn each_kind_finds_what_it_should_and_the_default_else() {
        let keys = [("a.b", "1"), ("b", "2"), ("x.a.b", "3")];
        for (kind, cases) in [
            (MapKind::Exact, [("a.b", "1"), ("b", "2"), ("x.a.b", "3"), ("y.a.b", "grey")]),
            (MapKind::Prefix, [("a.bc", "1"), ("bc", "2"), ("x.a.bc", "3"), ("x.a", "grey")]),
            (MapKind::Suffix, [("ya.b", "1"), ("yb", "2"), ("yx.a.b", "3"), ("b.", "grey")]),
            (MapKind::Regex, [("xa.bx", "1"), ("xbx", "2"), ("x.a.b", "1"), ("x", "grey")]),
        ] {
            let map = map(kind, &keys).expect("a map");
            for (text, expected) in cases {
                assert_eq!(map.find(text.as_bytes()), expected, "{kind:?} {text}");
            }
        }
    }

    #[test]
    fn an_empty_map_and_an_empty_text_have_the_default() {
        for kind in [MapKind::Exact, MapKind::Prefix, MapKind::Suffix, MapKind::Regex] {
            assert_eq!(map(kind, &[]).expect("a map").find(b"x"), "grey");
            assert_eq!(map(kind, &[("a", "1")]).expect("a map").find(b""), "grey");
        }
    }

    #[test]
    fn what_is_there_twice_or_no_expression_is_told_by_its_place() {
        let twice = [("a", "1"), ("b", "2"), ("a", "3")];
        for kind in [MapKind::Exact, MapKind::Prefix, MapKind::Suffix] {
            assert_eq!(map(kind, &twice), Err(MapError::Duplicate(0, 2)), "{kind:?}");
        }
        let wrong = map(MapKind::Regex, &[("a", "1"), ("(", "2")]);
        assert!(matches!(wrong, Err(MapError::Regex(1, _))), "{wrong:?}");
    }

    struct Request;

    impl Variables for Request {
        fn write(&self, variable: Variable, out: &mut Vec<u8>) {
            out.extend_from_slice(match variable {
                Variable::Host => b"a.b",
                Variable::Path => b"/%61dmin",
                Variable::NormalPath => b"/admin",
                _ => b"",
            });
        }
    }

    #[test]
    fn a_map_is_a_variable_and_sees_the_path_in_its_normal_form() {
        let of = Template::read("$host$path").expect("a template");
        let entries = vec![("a.b/admin".to_string(), "no".to_string())];
        let map = Map::new(("access", &of), MapKind::Exact, entries, "yes".to_string());
        let map = alloc::sync::Arc::new(map.expect("a map"));
        let known = |name: &str| (name == "access").then(|| map.clone());
        let template = Template::read_with("$access: $path", &known).expect("a template");
        let mut out = Vec::new();
        template.write(&Request, &mut out);
        assert_eq!(out, b"no: /%61dmin");
        assert_eq!(template.to_string(), "$access: $path");
        assert!(!template.is_literal());
        assert_eq!(template.unknown_to_routes(), None);
        let told = format!("{map:?}");
        assert!(told.starts_with("$access of $host$path (1 keys, "), "{told}");
    }

    #[test]
    fn maps_that_say_something_else_are_told_apart() {
        let of = |kind, entries: &[(&str, &str)]| format!("{:?}", map(kind, entries));
        let one = of(MapKind::Exact, &[("a", "bc")]);
        assert_eq!(one, of(MapKind::Exact, &[("a", "bc")]));
        assert_ne!(one, of(MapKind::Exact, &[("ab", "c")]));
        assert_ne!(one, of(MapKind::Prefix, &[("a", "bc")]));
    }

    proptest! {
        #[test]
        fn the_longest_prefix_and_suffix_are_those_of_a_search_one_by_one(
            keys in prop::collection::btree_set("[ab]{1,5}", 0..20),
            texts in prop::collection::vec("[abc]{0,8}", 1..20),
        ) {
            let entries: Vec<(&str, &str)> = keys.iter().map(|key| (&**key, &**key)).collect();
            let prefixes = map(MapKind::Prefix, &entries).expect("a map");
            let suffixes = map(MapKind::Suffix, &entries).expect("a map");
            for text in &texts {
                let longest = |fits: &dyn Fn(&str) -> bool| {
                    let fitting = keys.iter().filter(|key| fits(key));
                    fitting.max_by_key(|key| key.len()).map_or("grey", |key| key)
                };
                let expected = longest(&|key| text.starts_with(key));
                prop_assert_eq!(prefixes.find(text.as_bytes()), expected);
                let expected = longest(&|key| text.ends_with(key));
                prop_assert_eq!(suffixes.find(text.as_bytes()), expected);
            }
        }
    }
}
