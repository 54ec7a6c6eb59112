//! Header fields as the rules of the cache see them: slices of somebody else's buffer.

/// One header field line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    /// The name, in any case.
    pub name: &'a [u8],
    /// The value, without white space around it.
    pub value: &'a [u8],
}

impl<'a> Field<'a> {
    /// A line of a name and a value.
    #[must_use]
    pub const fn new(name: &'a [u8], value: &'a [u8]) -> Self {
        Self { name, value }
    }

    /// Whether this is a line of the field `name`.
    #[must_use]
    pub fn is(&self, name: &str) -> bool {
        self.name.len() == name.len() && is_same(self.name, name.as_bytes())
    }
}

/// The comparison is long, and most names differ in their length.
#[inline(never)]
fn is_same(name: &[u8], other: &[u8]) -> bool {
    name.eq_ignore_ascii_case(other)
}

/// The header fields of a message, in the order received.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a>(pub &'a [Field<'a>]);

impl<'a> Fields<'a> {
    /// Every line.
    pub fn iter(self) -> impl Iterator<Item = Field<'a>> {
        self.0.iter().copied()
    }

    /// The values of all lines of the field `name`.
    pub fn all(self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        self.iter().filter(move |field| field.is(name)).map(|field| field.value)
    }

    /// Whether there is a line of the field `name`.
    #[must_use]
    pub fn has(self, name: &str) -> bool {
        self.all(name).next().is_some()
    }

    /// The value of the first line of the field `name`.
    #[must_use]
    pub fn first(self, name: &str) -> Option<&'a [u8]> {
        self.all(name).next()
    }

    /// The value of a field that may be there once. Lines that say the same count as one; lines
    /// that contradict each other say nothing.
    #[must_use]
    pub fn single(self, name: &str) -> Option<&'a [u8]> {
        let first = self.first(name)?;
        (!self.contradicts(name)).then_some(first)
    }

    /// Whether two lines of the field `name` differ.
    #[must_use]
    pub fn contradicts(self, name: &str) -> bool {
        let mut values = self.all(name);
        let first = values.next();
        values.any(|value| Some(value) != first)
    }

    /// The members of a list field, over all its lines: RFC 9110 section 5.6.1. Empty members are
    /// left out, white space around members too.
    pub fn list(self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        self.all(name).flat_map(members)
    }
}

/// The members of a comma-separated list. Commas inside quoted strings do not separate; a quote
/// that nothing closes is an ordinary character, so that it hides no member behind it.
pub fn members(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    parts(value).filter(|member| !member.is_empty())
}

/// Members as [`members`] gives them, with the empty ones.
pub(super) fn parts(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(value);
    core::iter::from_fn(move || {
        let value = rest?;
        let end = member_end(value);
        rest = value.get(end + 1..);
        Some(value[..end].trim_ascii())
    })
}

fn member_end(value: &[u8]) -> usize {
    let mut at = 0;
    while let Some(&byte) = value.get(at) {
        match byte {
            b',' => return at,
            b'"' => at += quoted_length(&value[at..]).unwrap_or(1),
            _ => at += 1,
        }
    }
    at
}

/// The length of the quoted string with which `text` begins, quotes included.
pub(super) fn quoted_length(text: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        match *text.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// What is between the quotes, if `text` is one quoted string; its escapes are left as they are.
pub(super) fn unquote(text: &[u8]) -> Option<&[u8]> {
    let quoted = text.first() == Some(&b'"') && quoted_length(text) == Some(text.len());
    quoted.then(|| &text[1..text.len() - 1])
}

#[cfg(test)]
pub(super) mod tests {
    use std::vec::Vec;

    use super::*;

    /// Lines of `NAME: VALUE`.
    pub(in crate::cache) fn lines<'a>(text: &[&'a str]) -> Vec<Field<'a>> {
        text.iter()
            .map(|line| {
                let (name, value) = line.split_once(':').unwrap();
                Field::new(name.as_bytes(), value.trim().as_bytes())
            })
            .collect()
    }

    fn split(value: &str) -> Vec<&str> {
        members(value.as_bytes()).map(|m| core::str::from_utf8(m).unwrap()).collect()
    }

    #[test]
    fn a_list_is_split_at_commas_outside_of_quotes() {
        assert_eq!(split("a, b ,,c"), ["a", "b", "c"]);
        assert_eq!(split(r#"a="x, y", b"#), [r#"a="x, y""#, "b"]);
        assert_eq!(split(r#"a="x\", y", b"#), [r#"a="x\", y""#, "b"]);
        assert!(split(" , ").is_empty());
    }

    #[test]
    fn a_quote_that_is_never_closed_hides_nothing() {
        assert_eq!(split(r#"private="a, no-store"#), [r#"private="a"#, "no-store"]);
        assert_eq!(split(r#"a="\"#), [r#"a="\"#]);
    }

    #[test]
    fn lines_that_contradict_each_other_say_nothing() {
        let same = lines(&["ETag: \"a\"", "etag: \"a\""]);
        assert_eq!(Fields(&same).single("etag"), Some(&b"\"a\""[..]));
        let other = lines(&["ETag: \"a\"", "etag: \"b\""]);
        assert_eq!(Fields(&other).single("etag"), None);
        assert!(Fields(&other).contradicts("ETAG"));
    }
}
