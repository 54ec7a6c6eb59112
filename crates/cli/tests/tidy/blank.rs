//! Rust source with its strings and comments blanked out, so that a rule sees code alone.
//!
//! Comments become spaces and the text inside literals becomes `_`; line breaks stay, so that line
//! and column numbers still point into the file. It is a lexer for literals and comments only:
//! everything else is copied.

/// Blanks comments and the contents of string and character literals.
pub(crate) fn blank(source: &str) -> String {
    let mut lexer = Lexer { rest: source, out: String::with_capacity(source.len()) };
    while !lexer.rest.is_empty() {
        lexer.token();
    }
    lexer.out
}

struct Lexer<'a> {
    rest: &'a str,
    out: String,
}

impl Lexer<'_> {
    fn token(&mut self) {
        if self.rest.starts_with("//") {
            let end = self.rest.find('\n').unwrap_or(self.rest.len());
            self.fill(end, ' ');
        } else if self.rest.starts_with("/*") {
            self.fill(block_comment_end(self.rest), ' ');
        } else if let Some(end) = raw_string_end(self.rest).filter(|_| !self.in_word()) {
            self.fill(end, '_');
        } else if self.rest.starts_with('"') {
            self.fill(quoted_end(self.rest, '"'), '_');
        } else if is_char_literal(self.rest) {
            self.fill(quoted_end(self.rest, '\''), '_');
        } else {
            let next = self.rest.chars().next().map_or(1, char::len_utf8);
            self.out.push_str(&self.rest[..next]);
            self.rest = &self.rest[next..];
        }
    }

    /// Whether the last character copied continues a word, as the `r` of `for` does.
    fn in_word(&self) -> bool {
        self.out.ends_with(|c: char| c.is_alphanumeric() || c == '_')
    }

    fn fill(&mut self, end: usize, with: char) {
        let (token, rest) = self.rest.split_at(end);
        self.out.extend(token.chars().map(|c| if c == '\n' { '\n' } else { with }));
        self.rest = rest;
    }
}

fn block_comment_end(text: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < text.len() {
        let tail = &text.as_bytes()[at..];
        let step = if tail.starts_with(b"/*") {
            depth += 1;
            2
        } else if tail.starts_with(b"*/") {
            depth -= 1;
            2
        } else {
            1
        };
        at += step;
        if depth == 0 {
            break;
        }
    }
    at
}

/// The end of `r"..."`, `r#"..."#`, `br"..."` or `cr"..."`, if the text begins with one.
fn raw_string_end(text: &str) -> Option<usize> {
    let body = text.strip_prefix(['b', 'c']).unwrap_or(text).strip_prefix('r')?;
    let hashes = body.len() - body.trim_start_matches('#').len();
    let inner = body[hashes..].strip_prefix('"')?;
    let closing = format!("\"{}", "#".repeat(hashes));
    let start = text.len() - inner.len();
    Some(inner.find(&closing).map_or(text.len(), |at| start + at + closing.len()))
}

fn quoted_end(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        if c == quote && !escaped {
            return at + 1;
        }
        escaped = c == '\\' && !escaped;
    }
    text.len()
}

/// Tells `'a'` from the lifetime `'a`.
fn is_char_literal(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next() == Some('\'') && (chars.next() == Some('\\') || chars.next() == Some('\''))
}

#[test]
fn comments_and_literals_are_blanked_and_code_is_kept() {
    let cases = [
        ("a(); // {", "a();     "),
        ("a /* { /* { */ } */ b", "a                   b"),
        (r#"f("{ \" }", x)"#, "f(________, x)"),
        (r###"f(r#"{ " "#, 1)"###, "f(_________, 1)"),
        (r"match c { '{' => '\'' }", "match c { ___ => ____ }"),
        ("fn f<'a>(x: &'a str) {", "fn f<'a>(x: &'a str) {"),
        ("\"a\nb\"", "__\n__"),
        ("for \"x\"", "for ___"),
    ];
    for (source, expected) in cases {
        assert_eq!(blank(source), expected, "of {source}");
    }
}
