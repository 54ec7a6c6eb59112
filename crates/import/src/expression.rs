//! Expressions of other programs, made into such that match all of a text.

use std::{iter::Peekable, str::Chars};

/// What takes the place of `^` and `$` in an expression.
pub(crate) struct Anchors {
    pub(crate) start: &'static str,
    pub(crate) end: &'static str,
    /// A character that nothing of it may match but these.
    pub(crate) never: Option<char>,
}

/// A text as an expression that matches it alone.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if ".+*?()|[]{}^$\\".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// What takes the place of what an expression found, where groups have one digit behind `mark`, as
/// in nginx (`$`) and HAProxy (`\\`): a name of ours goes as far as letters and digits go. The
/// expression found has so many groups, all of it included; one that it has not is empty there.
pub(crate) fn replacement(to: &str, mark: char, groups: usize) -> String {
    let mut ours = String::new();
    let mut chars = to.chars().peekable();
    let is_of_name = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
    while let Some(c) = chars.next() {
        match c {
            c if c == mark => match chars.next() {
                Some(c) if c.to_digit(10).is_some_and(|group| group as usize >= groups) => {}
                Some(digit @ '0'..='9') if chars.peek().is_some_and(is_of_name) => {
                    ours.extend(['$', '{', digit, '}']);
                }
                Some(digit @ '0'..='9') => ours.extend(['$', digit]),
                Some('$') => ours.push_str("$$"),
                other => ours.extend(other),
            },
            '$' => ours.push_str("$$"),
            c => ours.push(c),
        }
    }
    ours
}

/// An expression that has to match all of a path where `regex` finds a part of it.
pub(crate) fn whole(regex: &str) -> String {
    around(regex, ".*")
}

/// An expression for replacements: it finds the first of several parts, so that groups hold what
/// they hold in the original.
pub(crate) fn first(regex: &str) -> String {
    around(regex, ".*?")
}

fn around(regex: &str, before: &str) -> String {
    let is_one = |text: &str| !text.contains('|') && !text.ends_with("\\$");
    match regex.strip_prefix('^') {
        Some(rest) if is_one(rest) && rest.ends_with('$') => rest[..rest.len() - 1].to_owned(),
        Some(rest) if is_one(rest) => format!("(?s){rest}.*"),
        _ => format!("(?s){before}(?:{regex}).*"),
    }
}

/// An expression for the host, as one for `Host`, which may have a port behind it.
pub(crate) fn host(regex: &str) -> Result<String, String> {
    let port = Anchors { start: "^", end: "(?::[0-9]+)?$", never: None };
    Ok(whole(&anchored(regex, &port)?))
}

/// The expression with other anchors.
///
/// # Errors
/// What of it cannot be changed so.
pub(crate) fn anchored(regex: &str, anchors: &Anchors) -> Result<String, String> {
    let mut out = String::new();
    let mut chars = regex.chars().peekable();
    let mut is_count = false;
    while let Some(c) = chars.next() {
        match c {
            '\\' => out += &escaped(chars.next(), false, anchors.never)?,
            '[' => out += &class(&mut chars, anchors.never)?,
            '{' | '}' => {
                is_count = c == '{';
                out.push(c);
            }
            '^' => out.push_str(anchors.start),
            '$' => out.push_str(anchors.end),
            '.' => match anchors.never {
                Some(never) => out.extend(['[', '^', never, ']']),
                None => out.push('.'),
            },
            c if Some(c) == anchors.never && !is_count => return Err(NEVER.to_owned()),
            c => out.push(c),
        }
    }
    Ok(out)
}

/// A class of characters, of which the `[` has been read.
fn class(chars: &mut Peekable<Chars<'_>>, never: Option<char>) -> Result<String, String> {
    let is_negative = chars.next_if_eq(&'^').is_some();
    let mut inner = String::new();
    // Where it comes first, it does not end the class.
    if chars.next_if_eq(&']').is_some() {
        inner.push_str("\\]");
    }
    loop {
        match chars.next() {
            None => return Err("a class of characters without an end".to_owned()),
            Some(']') => break,
            Some('\\') => inner += &escaped(chars.next(), true, never.filter(|_| is_negative))?,
            Some('[') if chars.next_if_eq(&':').is_some() => {
                inner.push_str("[:");
                inner.extend(chars.by_ref().take_while(|c| *c != ']'));
                inner.push(']');
            }
            // They mean more within a class of a route than in PCRE.
            Some(c @ ('[' | '&' | '~')) => inner.extend(['\\', c]),
            Some('-') if inner.ends_with('-') => inner.push_str("\\-"),
            Some(c) => inner.push(c),
        }
    }
    Ok(match (is_negative, never) {
        (true, never) => format!("[^{}{inner}]", never.map(String::from).unwrap_or_default()),
        (false, Some(never)) => format!("[[{inner}]&&[^{never}]]"),
        (false, None) => format!("[{inner}]"),
    })
}

fn escaped(c: Option<char>, is_class: bool, never: Option<char>) -> Result<String, String> {
    match (c, never) {
        (Some('A' | 'z' | 'Z'), _) => Err("an expression with `\\A` or `\\z`".to_owned()),
        (Some('S' | 'D' | 'W'), Some(_)) if is_class => Err(NEVER.to_owned()),
        (Some(c @ ('S' | 'D' | 'W')), Some(never)) => {
            Ok(format!("[^\\{}{never}]", c.to_ascii_lowercase()))
        }
        (Some(c), _) => Ok(format!("\\{c}")),
        (None, _) => Ok("\\".to_owned()),
    }
}

const NEVER: &str =
    "the expression goes beyond a comma, where HAProxy compares what is between two";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::condition::compile;

    #[test]
    fn a_found_part_becomes_an_expression_for_the_whole() {
        for (regex, expected) in [
            ("\\.php$", "(?s).*(?:\\.php$).*"),
            ("^/a/[0-9]+$", "/a/[0-9]+"),
            ("^/a", "(?s)/a.*"),
            ("^/a|b", "(?s).*(?:^/a|b).*"),
        ] {
            assert_eq!(whole(regex), expected);
        }
        assert_eq!(first("/v1/(.*)"), "(?s).*?(?:/v1/(.*)).*");
    }

    #[test]
    fn groups_have_one_digit() {
        assert_eq!(replacement("/b/$1_$2x", '$', 3), "/b/${1}_${2}x");
        assert_eq!(replacement("/b/$1/$2", '$', 3), "/b/$1/$2");
        assert_eq!(replacement("/d/\\1y$10", '\\', 2), "/d/${1}y$$10");
    }

    #[test]
    fn a_group_that_the_expression_has_not_is_left_out() {
        assert_eq!(replacement("/new/$1", '$', 1), "/new/");
        assert_eq!(replacement("/\\1/\\2x/\\0", '\\', 2), "/$1/x/$0");
    }

    #[test]
    fn an_escaped_dollar_sign_is_no_group() {
        assert_eq!(replacement("/\\$1/\\\\", '\\', 2), "/$$1/\\");
    }

    #[test]
    fn a_host_may_have_a_port() {
        for (regex, host, expected) in [
            ("^www\\.(.+)$", "www.example.com:8080", true),
            ("(?i)^a[$]b$", "a$b:80", true),
            ("^[[:alpha:]$]+\\.b$", "a$.b:80", true),
            ("^[a[&~+--]+$", "a[&~,-", true),
            ("^a\\.b$", "a.b.c", false),
        ] {
            let made = super::host(regex).unwrap_or_default();
            let regex = compile(&format!("^(?:{made})$"));
            assert_eq!(regex.is_ok_and(|it| it.is_match(host.as_bytes())), expected, "{made}");
        }
    }
}
