//! An nginx configuration as a tree of directives, with the files that it includes.

use loadline_spanned::Span;

use crate::{Includes, files::Files, model::Lines};

#[derive(Clone, Debug)]
pub(super) struct Directive {
    pub(super) words: Vec<Word>,
    /// What is between its braces, where it has some.
    pub(super) block: Option<Vec<Self>>,
}

/// A word and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) text: String,
    pub(super) span: Span,
}

impl Directive {
    pub(super) fn name(&self) -> &str {
        &self.words[0].text
    }

    /// The argument at `index`; empty where there is none.
    pub(super) fn arg(&self, index: usize) -> &str {
        self.words.get(index + 1).map_or("", |word| word.text.as_str())
    }

    /// All arguments.
    pub(super) fn args(&self) -> Vec<&str> {
        self.words[1..].iter().map(|word| word.text.as_str()).collect()
    }

    /// Where it begins.
    pub(super) fn at(&self) -> usize {
        self.words[0].span.start
    }

    pub(super) fn block(&self) -> &[Self] {
        self.block.as_deref().unwrap_or_default()
    }
}

/// Includes within each other.
const DEPTH_MAX: usize = 16;

/// Blocks with entries that are no directives.
const OPAQUE: [&str; 6] = ["types", "map", "geo", "split_clients", "charset_map", "match"];

enum Token {
    Word(Word),
    Semicolon,
    Open(Span),
    Close(Span),
}

/// Reads the file that was added last, which begins at byte `start` of the whole.
pub(super) fn tree(
    files: &mut Files,
    lines: &mut Lines,
    includes: &Includes<'_>,
    start: usize,
    depth: usize,
) -> Vec<Directive> {
    let text = files.last().to_owned();
    let tokens = match tokens(&text, start) {
        Ok(tokens) => tokens,
        Err(span) => {
            files.error(&span, "a quote that does not end", "close it");
            return Vec::new();
        }
    };
    let mut reader = Reader { files, lines, includes, tokens: tokens.into_iter(), depth };
    reader.block(None, false)
}

struct Reader<'a> {
    files: &'a mut Files,
    lines: &'a mut Lines,
    includes: &'a Includes<'a>,
    tokens: std::vec::IntoIter<Token>,
    depth: usize,
}

impl Reader<'_> {
    /// Directives up to the end of the block that `opened`, or of the file.
    fn block(&mut self, opened: Option<Span>, is_opaque: bool) -> Vec<Directive> {
        let mut all = Vec::new();
        let mut words: Vec<Word> = Vec::new();
        while let Some(token) = self.tokens.next() {
            match token {
                Token::Word(word) => words.push(word),
                Token::Semicolon if words.is_empty() => {}
                Token::Semicolon => {
                    let directive = Directive { words: std::mem::take(&mut words), block: None };
                    self.finish(directive, is_opaque, &mut all);
                }
                Token::Open(span) => {
                    let words = std::mem::take(&mut words);
                    if words.is_empty() {
                        self.files.error(&span, "a block without a name", "name it: `server {`");
                    }
                    let is_inner = words.first().is_some_and(|it| is_opaque_name(&it.text));
                    // The line comes before those in it.
                    self.note(&words, is_opaque, true);
                    let block = Some(self.block(Some(span), is_opaque || is_inner));
                    all.extend((!words.is_empty()).then_some(Directive { words, block }));
                }
                Token::Close(span) => {
                    self.unfinished(&words);
                    if opened.is_none() {
                        self.files.error(&span, "a brace that closes nothing", "leave it out");
                        continue;
                    }
                    return all;
                }
            }
        }
        self.unfinished(&words);
        if let Some(span) = opened {
            self.files.error(&span, "a block that does not end", "close it with `}`");
        }
        all
    }

    fn unfinished(&mut self, words: &[Word]) {
        if let Some(last) = words.last() {
            let message = format!("`{}` does not end", words[0].text);
            self.files.error(&last.span, message, "end it with `;`");
        }
    }

    fn finish(&mut self, directive: Directive, is_opaque: bool, all: &mut Vec<Directive>) {
        self.note(&directive.words, is_opaque, false);
        if directive.name() == "include" && !is_opaque && self.depth < DEPTH_MAX {
            let pattern = directive.arg(0).to_owned();
            if let Ok(found) = (self.includes)(&pattern) {
                for (name, text) in found {
                    let start = self.files.add(name, text);
                    let more = tree(self.files, self.lines, self.includes, start, self.depth + 1);
                    all.extend(more);
                }
                return;
            }
        }
        all.push(directive);
    }

    fn note(&mut self, words: &[Word], is_opaque: bool, is_block: bool) {
        let (Some(first), false) = (words.first(), is_opaque) else { return };
        let mut text: Vec<_> = words.iter().map(|word| word.text.as_str()).collect();
        text.extend(is_block.then_some("{ ... }"));
        self.lines.add(first.span.start, text.join(" "));
    }
}

fn is_opaque_name(name: &str) -> bool {
    OPAQUE.contains(&name)
}

/// The tokens of a file; where a quote begins that does not end.
fn tokens(text: &str, start: usize) -> Result<Vec<Token>, Span> {
    let mut tokens = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start();
        let at = text.len() - rest.len();
        let span = start + at..start + at + 1;
        let Some(c) = rest.chars().next() else { return Ok(tokens) };
        match c {
            '#' => rest = rest.find('\n').map_or("", |end| &rest[end..]),
            ';' | '{' | '}' => {
                let is_code = c == '{' && is_code(&tokens);
                tokens.push(match c {
                    ';' => Token::Semicolon,
                    '{' => Token::Open(span),
                    _ => Token::Close(span),
                });
                rest = &rest[1..];
                if is_code {
                    rest = after_code(rest);
                }
            }
            _ => {
                let (word, length) = word(rest).ok_or(span)?;
                let span = start + at..start + at + length;
                tokens.push(Token::Word(Word { text: word, span }));
                rest = &rest[length..];
            }
        }
    }
}

/// Whether a brace opens a block of another language.
fn is_code(tokens: &[Token]) -> bool {
    matches!(tokens.last(), Some(Token::Word(word)) if word.text.ends_with("_by_lua_block"))
}

/// What begins with the brace that ends a block of another language.
fn after_code(text: &str) -> &str {
    let mut depth = 1_usize;
    let end = text.find(|c| {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        depth == 0
    });
    end.map_or("", |end| &text[end..])
}

/// The word that a text begins with, and how many bytes it takes.
fn word(text: &str) -> Option<(String, usize)> {
    let mut word = String::new();
    let mut chars = text.char_indices().peekable();
    let first = chars.peek().map(|(_, c)| *c);
    let quote = first.filter(|c| matches!(c, '"' | '\''));
    if quote.is_some() {
        chars.next();
    }
    let mut last = '\0';
    while let Some((index, c)) = chars.next() {
        match (quote, c) {
            (Some(open), c) if c == open => return Some((word, index + 1)),
            (None, c) if c.is_whitespace() || c == ';' => return Some((word, index)),
            // A brace belongs to a word only as that of a variable.
            (None, '{') if last != '$' => return Some((word, index)),
            (_, '\\') => {
                match chars.next().map(|(_, c)| c) {
                    Some('t') => word.push('\t'),
                    Some('r') => word.push('\r'),
                    Some('n') => word.push('\n'),
                    Some(c @ ('"' | '\'' | '\\')) => word.push(c),
                    // Expressions keep theirs.
                    other => {
                        word.push('\\');
                        word.extend(other);
                    }
                }
            }
            (_, c) => word.push(c),
        }
        last = c;
    }
    quote.is_none().then_some((word, text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Vec<Directive>, bool) {
        let (mut files, mut lines) = (Files::default(), Lines::default());
        files.add("nginx.conf".to_owned(), text.to_owned());
        let none = |_: &str| Err(std::io::ErrorKind::NotFound.into());
        let tree = tree(&mut files, &mut lines, &none, 0, 0);
        (tree, files.failed())
    }

    #[test]
    fn directives_and_blocks_are_a_tree() {
        let (tree, failed) = read(
            "a 'b c' d\\n\\.e; # x\nserver { location ~ \"^/[0-9]{3}$\" { return 301 ${x}y; } }",
        );
        assert!(!failed);
        assert_eq!(tree[0].args(), ["b c", "d\n\\.e"]);
        let location = &tree[1].block()[0];
        assert_eq!(location.args(), ["~", "^/[0-9]{3}$"]);
        assert_eq!(location.block()[0].args(), ["301", "${x}y"]);
    }

    #[test]
    fn code_of_other_languages_is_not_read() {
        let (tree, failed) = read("content_by_lua_block { if a then x = { ';' } end } listen 80;");
        assert!(!failed);
        assert_eq!(tree.len(), 2);
    }

    #[test]
    fn what_does_not_end_is_an_error() {
        for text in ["server {", "}", "listen 80", "a 'b;", "{ }"] {
            assert!(read(text).1, "{text}");
        }
    }
}
