//! The text of a file as its errors show it: without the keys of sessions, which stand in it.
//!
//! An error shows the lines around it, and goes to a log when a file is read again. So the values
//! of all keys called `key` become stars, of which each line has as many as it had bytes: places in
//! the text stay true, and a file that is no TOML yet is masked as well.

use std::ops::Range;

/// The same text with stars for secrets.
pub(crate) fn masked(text: &str) -> String {
    let mut shown = text.to_owned();
    for (at, _) in text.match_indices(KEY) {
        if let Some(secret) = value_of(text, at) {
            let star = |byte| if byte == b'\n' { '\n' } else { '*' };
            let stars: String = text[secret.clone()].bytes().map(star).collect();
            shown.replace_range(secret, &stars);
        }
    }
    shown
}

/// Where the value of the key at `at` stands, without its quotes; none where that is no key.
fn value_of(text: &str, at: usize) -> Option<Range<usize>> {
    let (before, rest) = (&text[..at], &text[at + KEY.len()..]);
    if before.ends_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '-')) {
        return None;
    }
    let rest = rest.trim_start_matches(['"', '\'']).trim_start_matches(BLANKS);
    let rest = rest.strip_prefix('=')?.trim_start_matches(BLANKS);
    let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let opening = rest.len() - rest.trim_start_matches(quote).len();
    let quotes = if opening >= QUOTES_OF_LINES { QUOTES_OF_LINES } else { 1 };
    let inside = &rest[quotes..];
    let start = text.len() - inside.len();
    Some(start..start + length_of(inside, quote, quotes))
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

/// What the keys of secrets are called; names of files are called so too, and lose nothing by it.
const KEY: &str = "key";

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
}
