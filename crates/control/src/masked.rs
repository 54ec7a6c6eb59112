//! The text of a file as its errors show it: without the keys of sessions and the passwords, hashed
//! or not, which stand in it.
//!
//! An error shows the lines around it, and goes to a log when a file is read again. So the values
//! of keys called `key`, unless they are paths, and `users` of `basic_auth` with all in it become
//! stars, of which each line has as many as it had bytes: places in the text stay true, and a file
//! that is no TOML yet is masked as well.

use std::ops::Range;

/// The same text with stars for secrets.
pub(crate) fn masked(text: &str) -> String {
    let mut shown = text.to_owned();
    let keys = text.match_indices(KEY).filter_map(|(at, _)| value_of(text, at));
    let passwords = text.match_indices(USERS).flat_map(|(at, _)| passwords(text, at));
    for secret in keys.chain(passwords) {
        let star = |byte| if byte == b'\n' { '\n' } else { '*' };
        let stars: String = text[secret.clone()].bytes().map(star).collect();
        shown.replace_range(secret, &stars);
    }
    shown
}

/// Where the secret of the key at `at` stands, without its quotes; none where that is no key or the
/// path of a file.
fn value_of(text: &str, at: usize) -> Option<Range<usize>> {
    let (before, rest) = (&text[..at], &text[at + KEY.len()..]);
    if before.ends_with(is_of_name) {
        return None;
    }
    let rest = rest.trim_start_matches(QUOTES).trim_start_matches(BLANKS);
    let rest = rest.strip_prefix('=')?.trim_start_matches(BLANKS);
    let quote = rest.chars().next().filter(|c| QUOTES.contains(c))?;
    let (inside, _) = string_at(text, text.len() - rest.len(), quote);
    (!is_path(before, &text[inside.clone()])).then_some(inside)
}

/// Whether the value of a key that stands behind `before` is the path of a file, as that of a
/// certificate. Of a session it is none, whatever it looks like.
fn is_path(before: &str, value: &str) -> bool {
    let table = &before[before.rfind("\n[").unwrap_or(0)..];
    let inline = table.rfind('{').map(|open| &table[open..]).filter(|it| !it.contains('}'));
    let is_beside_chain = match inline {
        Some(inline) => inline.contains("chain"),
        None => table.lines().any(|line| line.trim_start().starts_with("chain")),
    };
    let is_of_session = ["sticky", "cookie"].iter().any(|name| table.contains(name));
    (is_beside_chain || ENDS_OF_PATHS.iter().any(|end| value.ends_with(end))) && !is_of_session
}

/// Where the passwords of the users that are named at `at` stand; none where that is no such key.
fn passwords(text: &str, at: usize) -> Vec<Range<usize>> {
    let (before, rest) = (text[..at].trim_end_matches(QUOTES), &text[at + USERS.len()..]);
    let outer = before.trim_end_matches(BLANKS).strip_suffix('.');
    let outer = outer.map(|it| it.trim_end_matches(BLANKS).trim_end_matches(QUOTES));
    let is_another = match outer {
        Some(outer) => !outer.ends_with("basic_auth"),
        None => before.ends_with(is_of_name),
    };
    if is_another || rest.starts_with(is_of_name) {
        return Vec::new();
    }
    let rest = rest.trim_start_matches(QUOTES).trim_start_matches(BLANKS);
    let inline = rest.strip_prefix('=').map(|value| value.trim_start_matches(BLANKS));
    let inline = inline.and_then(|value| value.strip_prefix('{'));
    let (part, ends): (&str, &[char]) = match (inline, rest.chars().next()) {
        (Some(table), _) => (table, &['}']),
        (None, Some(']')) if outer.is_some() => (rest, &['[']),
        (None, Some('.' | '=')) => (rest, &['\n', ',', '}']),
        _ => return Vec::new(),
    };
    values(text, text.len() - part.len(), ends)
}

/// The values of keys from `at` on, in quotes or not and also those in lists, until one of `ends`
/// stands outside of them.
fn values(text: &str, mut at: usize, ends: &[char]) -> Vec<Range<usize>> {
    let (mut found, mut is_value, mut lists) = (Vec::new(), false, 0_usize);
    while let Some(c) = text[at..].chars().next() {
        let is_list = is_value && c == '[';
        if lists == 0 && !is_list && ends.contains(&c) {
            break;
        }
        let mut next = at + c.len_utf8();
        match c {
            '=' => is_value = true,
            '[' if is_list => lists += 1,
            ']' if lists > 0 => lists -= 1,
            '#' => next = at + text[at..].find('\n').unwrap_or(text.len() - at),
            // A list that is not closed ends before the next table.
            '\n' if text[next..].starts_with('[') => (is_value, lists) = (false, 0),
            '\n' | ',' | '{' | '}' => is_value = lists > 0,
            '"' | '\'' => {
                let (inside, end) = string_at(text, at, c);
                next = end;
                found.extend(is_value.then_some(inside));
            }
            _ if is_value && !c.is_whitespace() => {
                let length = text[at..].find(is_after_bare).unwrap_or(text.len() - at);
                next = next.max(at + length);
                found.push(at..next);
            }
            _ => {}
        }
        at = next;
    }
    found
}

/// Whether a value without quotes has ended before this.
fn is_after_bare(c: char) -> bool {
    c.is_whitespace() || matches!(c, ',' | ']' | '}')
}

/// Where the string with its opening quotes at `at` stands without them, and where it ends with
/// the closing ones.
fn string_at(text: &str, at: usize, quote: char) -> (Range<usize>, usize) {
    let rest = &text[at..];
    let opening = rest.len() - rest.trim_start_matches(quote).len();
    let quotes = if opening >= QUOTES_OF_LINES { QUOTES_OF_LINES } else { 1 };
    let start = at + quotes;
    let end = start + length_of(&text[start..], quote, quotes);
    let closing = text[end..].chars().take(quotes).take_while(|c| *c == quote).count();
    (start..end, end + closing)
}

fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-')
}

/// How long a string is that goes on like this after its opening quotes. Where the closing ones are
/// missing it ends with its line, or with the text if it may have several lines.
fn length_of(inside: &str, quote: char, quotes: usize) -> usize {
    let (mut escaped, mut closing) = (false, 0);
    for (at, c) in inside.char_indices() {
        if c == '\n' && quotes < QUOTES_OF_LINES {
            return at;
        }
        closing = if c == quote && !escaped { closing + 1 } else { 0 };
        if closing == quotes {
            return at + 1 - quotes;
        }
        escaped = c == '\\' && quote == '"' && !escaped;
    }
    inside.len()
}

/// What a string that may have several lines is put in.
const QUOTES_OF_LINES: usize = 3;

/// What the keys of secrets are called; names of files are called so too.
const KEY: &str = "key";

/// What the table of users with their passwords is called.
const USERS: &str = "users";

/// What the names of files with keys end with.
const ENDS_OF_PATHS: [&str; 2] = [".key", ".pem"];

const QUOTES: [char; 2] = ['"', '\''];

const BLANKS: [char; 2] = [' ', '\t'];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_keys_become_stars_of_the_same_length() {
        for (text, shown) in [
            ("key = \"hush\"", "key = \"****\""),
            ("{ a = 1, key='hu\"sh', b = \"key\" }", "{ a = 1, key='*****', b = \"key\" }"),
            ("sticky.\"key\"\t= \"h\\\"ush\" # x", "sticky.\"key\"\t= \"******\" # x"),
            ("key = \"hüsh\nkey = 1", "key = \"*****\nkey = 1"),
            ("key = \"\"\"hush\"\"\" # x", "key = \"\"\"****\"\"\" # x"),
            ("key = '''\nhu''sh\n'''\na = 1", "key = '''\n******\n'''\na = 1"),
            ("key = \"\"\"\nhu\\\"\"\"sh\"\"\"", "key = \"\"\"\n********\"\"\""),
            ("key = \"\"\"\nhush\nmore", "key = \"\"\"\n****\n****"),
            ("key = \"\"\nb = \"x\"", "key = \"\"\nb = \"x\""),
            ("keys = \"a\"\nmonkey = \"b\"\nkey", "keys = \"a\"\nmonkey = \"b\"\nkey"),
        ] {
            assert_eq!(masked(text), shown);
        }
    }

    #[test]
    fn the_path_of_the_key_of_a_certificate_is_shown() {
        for shown in [
            "key = \"shop.key\"",
            "[[listener]]\ncertificate = { chain = \"a\", key = \"b\" }",
            "[service.web.sticky]\nkey = 1\n[[listener.certificates]]\nchain = \"a\"\nkey = \"b\"",
        ] {
            assert_eq!(masked(shown), shown);
        }
        for (text, shown) in [
            ("sticky.key = \"my.key\"", "sticky.key = \"******\""),
            (
                "a = 1\n[web.sticky]\ncookie = \"lb\"\nkey = \"a.key\"",
                "a = 1\n[web.sticky]\ncookie = \"lb\"\nkey = \"*****\"",
            ),
            ("{ chain = \"a\" }\nkey = 'hush'", "{ chain = \"a\" }\nkey = '****'"),
        ] {
            assert_eq!(masked(text), shown);
        }
    }

    #[test]
    fn passwords_of_users_become_stars_hashed_or_not() {
        for (text, shown) in [
            (
                "{ users = { a = \"$5$b\", \"b}\" = 'c' }, realm = \"x\" }",
                "{ users = { a = \"****\", \"b}\" = '*' }, realm = \"x\" }",
            ),
            (
                "[web.basic_auth.users] # a = \"b\"\na = \"$2y$\"\n\n[web]\nb = \"c\"",
                "[web.basic_auth.users] # a = \"b\"\na = \"****\"\n\n[web]\nb = \"c\"",
            ),
            (
                "basic_auth.users.a = \"b\"\nrealm = \"x\"",
                "basic_auth.users.a = \"*\"\nrealm = \"x\"",
            ),
            ("[basic_auth]\nusers.\"a.b\" = \"c", "[basic_auth]\nusers.\"a.b\" = \"*"),
            ("users = \"a:b\"", "users = \"***\""),
            ("basic_auth={users=\"a:b\"}", "basic_auth={users=\"***\"}"),
            ("users=[\"a:b\", 'c']\nd = \"e\"", "users=[\"***\", '*']\nd = \"e\""),
            ("users = [\n\"a:b\"\n]\nd = \"e\"", "users = [\n\"***\"\n]\nd = \"e\""),
            ("users = [\"a:b\"\n[web]\nd = \"e\"", "users = [\"***\"\n[web]\nd = \"e\""),
            ("users={a=123, b = 4.5}\nd = 1", "users={a=***, b = ***}\nd = 1"),
            (
                "[ web . \"basic_auth\" . users ]\na = [\"b\"]\n[web]\nd = \"e\"",
                "[ web . \"basic_auth\" . users ]\na = [\"*\"]\n[web]\nd = \"e\"",
            ),
            ("basic_auth . users . a = \"b\"", "basic_auth . users . a = \"*\""),
            ("users_file = \"a\"\nservice = \"users\"", "users_file = \"a\"\nservice = \"users\""),
            ("a = [\"b\", \"users\"]\nc = \"d\"", "a = [\"b\", \"users\"]\nc = \"d\""),
            ("[service.users]\npolicy = \"first\"", "[service.users]\npolicy = \"first\""),
        ] {
            assert_eq!(masked(text), shown);
        }
    }
}
