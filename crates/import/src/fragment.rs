//! Patterns that are one text at a place: all of a path, its begin, its end, or anywhere in it. Of
//! these it can be told what two have in common.

use crate::{
    condition::{Path, has_alternatives},
    expression::escape,
};

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

    /// The expression for what begins with this text and has what the other expression finds. None
    /// where a part that is found may begin within the text, and not only at one place of it.
    pub(crate) fn before(&self, regex: &str) -> Option<String> {
        let bare = regex.strip_prefix("(?i)");
        let (flag, bare) = (if bare.is_some() { "(?i)" } else { "" }, bare.unwrap_or(regex));
        let (first, _) = leading(bare);
        if !self.is_begin || self.is_end || first.is_empty() || has_alternatives(bare) {
            return None;
        }
        let ignores_case = self.ignores_case || !flag.is_empty();
        let (own, first) = match ignores_case {
            true => (self.text.to_ascii_lowercase(), first.to_ascii_lowercase()),
            false => (self.text.clone(), first),
        };
        let ends = own.char_indices().map(|(at, _)| &own[at..]);
        let is_common = |end: &&str| end.starts_with(&first) || first.starts_with(*end);
        let common: Vec<&str> = ends.filter(is_common).collect();
        let text = escape(&self.text);
        let start = if self.ignores_case { format!("^(?i:{text})") } else { format!("^{text}") };
        match common.as_slice() {
            [] => Some(format!("{start}.*(?:{regex})")),
            [end] if first.starts_with(*end) => {
                let rest = without(bare, end);
                let is_same = !ignores_case || !end.contains(|c: char| c.is_ascii_alphabetic());
                let both = || format!("{start}(?:.*{})?(?:{flag}{rest})", escape(end));
                (is_same && !rest.starts_with('+')).then(both)
            }
            _ => None,
        }
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

/// The text with which all that an expression finds has to begin, and what of the expression is
/// behind it. What may be missing or repeated is not of the text.
pub(crate) fn leading(regex: &str) -> (String, &str) {
    let (mut text, mut rest) = (String::new(), regex);
    loop {
        let mut chars = rest.chars();
        let is_text = |c: &char| c.is_ascii_punctuation() && !matches!(c, '<' | '>');
        let next = match chars.next() {
            Some('\\') => chars.next().filter(is_text),
            other => other.filter(|c| !".+*?()|[]{}^$".contains(*c)),
        };
        let Some(c) = next else { break };
        text.push(c);
        rest = chars.as_str();
    }
    if rest.starts_with(['?', '*', '{']) {
        text.pop();
    }
    (text, rest)
}

/// The expression without the text with which it begins.
fn without<'a>(regex: &'a str, text: &str) -> &'a str {
    text.chars().fold(regex, |rest, c| {
        let rest = rest.strip_prefix('\\').unwrap_or(rest);
        rest.strip_prefix(c).unwrap_or(rest)
    })
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
    fn what_is_found_behind_a_text_is_one_expression_with_it() {
        for (start, regex, expected) in [
            ("^/files/", "\\.php$", Some("^/files/.*(?:\\.php$)")),
            ("^/a\\+b/", "(?i)\\.(gif|jpg)$", Some("^/a\\+b/.*(?:(?i)\\.(gif|jpg)$)")),
            ("^/a\\.b/", "\\.(gif|jpg)$", None),
            ("(?i)^/Files", "\\.php$", Some("^(?i:/Files).*(?:\\.php$)")),
            // What is found may begin with the slash at the end of the text.
            ("^/files/", "/\\.ht", Some("^/files/(?:.*/)?(?:\\.ht)")),
            ("^/files/", "(?i)/\\.ht", Some("^/files/(?:.*/)?(?:(?i)\\.ht)")),
            ("^/files/", "s/x", Some("^/files/(?:.*s/)?(?:x)")),
            ("^/files/", "(?i)s/x", None),
            ("^/a\\.php/", "\\.php$", None),
            ("^/a/a/", "/a/", None),
            ("^/files/", "[0-9]$", None),
            ("^/files/", "^/files/x", None),
            ("^/files/", "x|y", None),
            ("^/files/", "/+x", None),
            ("^/files/", "x?y", None),
            ("^/files$", "x", None),
            ("/files", "x", None),
        ] {
            assert_eq!(fragment(start).before(regex).as_deref(), expected, "{start} {regex}");
        }
    }

    #[test]
    fn an_expression_that_asks_for_more_is_no_text() {
        for regex in ["\\.(gif|jpg)$", "^/[0-9]+$", "a.c", "\\d", "/x\\", "(?s)a", "a|b"] {
            assert_eq!(Fragment::of(&Path::Regex(regex.to_owned())), None, "{regex}");
        }
    }
}
