//! Patterns that are one text at a place: all of a path, its begin, its end, or anywhere in it. Of
//! these it can be told what two have in common.

use crate::condition::Path;

/// A text, and where it has to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fragment {
    text: String,
    /// Whether nothing is before it.
    is_begin: bool,
    /// Whether nothing is behind it.
    is_end: bool,
    ignores_case: bool,
}

impl Fragment {
    /// None where the pattern asks for anything else.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let plain = |text: &String, is_end| {
            Some(Self { text: text.clone(), is_begin: true, is_end, ignores_case: false })
        };
        match path {
            Path::Exact(path) => plain(path, true),
            Path::Begins(start) => plain(start, false),
            Path::Regex(regex) => {
                let bare = regex.strip_prefix("(?i)");
                let (ignores_case, regex) = (bare.is_some(), bare.unwrap_or(regex));
                let begun = regex.strip_prefix('^');
                let (is_begin, regex) = (begun.is_some(), begun.unwrap_or(regex));
                let ended = regex.strip_suffix('$');
                let (is_end, regex) = (ended.is_some(), ended.unwrap_or(regex));
                Some(Self { text: unescaped(regex)?, is_begin, is_end, ignores_case })
            }
        }
    }

    /// Whether all that has this has the other, too.
    pub(crate) fn implies(&self, other: &Self) -> bool {
        let (own, asked) = match other.ignores_case {
            true => (self.text.to_ascii_lowercase(), other.text.to_ascii_lowercase()),
            false if self.ignores_case => return false,
            false => (self.text.clone(), other.text.clone()),
        };
        match (other.is_begin, other.is_end) {
            (false, false) => own.contains(&asked),
            (true, false) => self.is_begin && own.starts_with(&asked),
            (false, true) => self.is_end && own.ends_with(&asked),
            (true, true) => self.is_begin && self.is_end && own == asked,
        }
    }

    /// Whether nothing has both, as far as that can be told.
    pub(crate) fn excludes(&self, other: &Self) -> bool {
        let (own, asked) = match self.ignores_case || other.ignores_case {
            true => (self.text.to_ascii_lowercase(), other.text.to_ascii_lowercase()),
            false => (self.text.clone(), other.text.clone()),
        };
        let differs_in = |is_same_end: bool, fits: fn(&str, &str) -> bool| {
            is_same_end && !fits(&own, &asked) && !fits(&asked, &own)
        };
        differs_in(self.is_begin && other.is_begin, |one, start| one.starts_with(start))
            || differs_in(self.is_end && other.is_end, |one, end| one.ends_with(end))
            || self.is_whole() && !holds(&own, &asked, other)
            || other.is_whole() && !holds(&asked, &own, self)
    }

    fn is_whole(&self) -> bool {
        self.is_begin && self.is_end
    }
}

/// Whether a whole text has the other one where `place` asks for it.
fn holds(whole: &str, text: &str, place: &Fragment) -> bool {
    match (place.is_begin, place.is_end) {
        (false, false) => whole.contains(text),
        (true, false) => whole.starts_with(text),
        (false, true) => whole.ends_with(text),
        (true, true) => whole == text,
    }
}

/// The text that an expression finds, where it is nothing but a text.
fn unescaped(regex: &str) -> Option<String> {
    let mut text = String::new();
    let mut chars = regex.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => text.push(chars.next().filter(char::is_ascii_punctuation)?),
            c if ".+*?()|[]{}^$".contains(c) => return None,
            c => text.push(c),
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fragment(regex: &str) -> Fragment {
        Fragment::of(&Path::Regex(regex.to_owned())).unwrap_or_else(|| panic!("{regex}"))
    }

    #[test]
    fn texts_at_places_are_within_each_other_or_exclude_each_other() {
        for (one, other, implies, excludes) in [
            ("\\.jpg$", "\\.png$", false, true),
            ("x\\.jpg$", "\\.jpg$", true, false),
            ("(?i)\\.jpg$", "\\.jpg$", false, false),
            ("\\.jpg$", "(?i)\\.JPG$", true, false),
            ("^/a$", "^/b$", false, true),
            ("^/a$", "^/a", true, false),
            ("^/ab$", "/b", false, true),
            ("^/a", "\\.jpg$", false, false),
            ("^/a", "^/b", false, true),
            ("^/admin", "min", true, false),
            ("admin", "static", false, false),
        ] {
            let (one, other) = (fragment(one), fragment(other));
            assert_eq!(one.implies(&other), implies, "{one:?} {other:?}");
            assert_eq!(one.excludes(&other), excludes, "{one:?} {other:?}");
            assert_eq!(other.excludes(&one), excludes, "{one:?} {other:?}");
        }
    }

    #[test]
    fn an_expression_that_asks_for_more_is_no_text() {
        for regex in ["\\.(gif|jpg)$", "^/[0-9]+$", "a.c", "\\d", "/x\\", "(?s)a", "a|b"] {
            assert_eq!(Fragment::of(&Path::Regex(regex.to_owned())), None, "{regex}");
        }
    }
}
