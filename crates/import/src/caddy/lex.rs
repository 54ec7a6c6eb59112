//! A Caddyfile as a tree of lines, with its snippets and the files that it imports.

use std::collections::BTreeMap;

use loadline_spanned::Span;

use crate::{Includes, files::Files, model::Lines};

/// A word and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) text: String,
    pub(super) span: Span,
    /// Whether a line begins with it.
    is_first: bool,
    is_quoted: bool,
}

/// A line and the block that it opens.
#[derive(Clone, Debug)]
pub(super) struct Directive {
    /// None for the block of global options.
    pub(super) words: Vec<Word>,
    pub(super) block: Option<Vec<Self>>,
}

/// Imports within each other.
const DEPTH_MAX: usize = 16;

impl Directive {
    pub(super) fn name(&self) -> &str {
        self.words.first().map_or("", |word| word.text.as_str())
    }

    pub(super) fn args(&self) -> Vec<&str> {
        self.words.iter().skip(1).map(|word| word.text.as_str()).collect()
    }

    pub(super) fn arg(&self, index: usize) -> &str {
        self.words.get(index + 1).map_or("", |word| word.text.as_str())
    }

    pub(super) fn at(&self) -> usize {
        self.words.first().map_or(0, |word| word.span.start)
    }

    pub(super) fn block(&self) -> &[Self] {
        self.block.as_deref().unwrap_or_default()
    }
}

/// Reads the file that was added last.
pub(super) fn tree(
    files: &mut Files,
    lines: &mut Lines,
    includes: &Includes<'_>,
) -> Vec<Directive> {
    let mut reader = Reader { files, lines, includes, snippets: BTreeMap::new() };
    reader.file(0, 0)
}

struct Reader<'a> {
    files: &'a mut Files,
    lines: &'a mut Lines,
    includes: &'a Includes<'a>,
    snippets: BTreeMap<String, Vec<Directive>>,
}

impl Reader<'_> {
    fn file(&mut self, start: usize, depth: usize) -> Vec<Directive> {
        let text = self.files.last().to_owned();
        let words = match words(&text, start) {
            Ok(words) => words,
            Err(span) => {
                self.files.error(&span, "a quote that does not end", "close it");
                return Vec::new();
            }
        };
        let mut words = words.into_iter().peekable();
        self.block(&mut words, None, depth)
    }

    /// Lines up to the end of the block that `opened`, or of the file.
    fn block(
        &mut self,
        words: &mut std::iter::Peekable<std::vec::IntoIter<Word>>,
        opened: Option<Span>,
        depth: usize,
    ) -> Vec<Directive> {
        let mut all = Vec::new();
        while let Some(first) = words.next() {
            if is_brace(&first, "}") {
                if opened.is_some() {
                    return all;
                }
                self.files.error(&first.span, "a brace that closes nothing", "leave it out");
                continue;
            }
            let mut line = vec![first];
            while let Some(word) = words.next_if(|word| !word.is_first || ends_with_comma(&line)) {
                line.push(word);
            }
            let opens = line.last().filter(|word| is_brace(word, "{")).map(|it| it.span.clone());
            if opens.is_some() {
                line.pop();
            }
            self.note(&line, opens.is_some());
            let block = opens.map(|span| self.block(words, Some(span), depth));
            self.finish(Directive { words: line, block }, depth, &mut all);
        }
        if let Some(span) = opened {
            self.files.error(&span, "a block that does not end", "close it with `}`");
        }
        all
    }

    /// Keeps a line, or what stands in its place.
    fn finish(&mut self, directive: Directive, depth: usize, all: &mut Vec<Directive>) {
        let name = directive.name();
        let snippet = name.strip_prefix('(').and_then(|it| it.strip_suffix(')'));
        if let (Some(snippet), Some(block)) = (snippet, &directive.block) {
            self.snippets.insert(snippet.to_owned(), block.clone());
            return;
        }
        if name != "import" || depth >= DEPTH_MAX {
            return all.push(directive);
        }
        let args: Vec<String> = directive.args().into_iter().skip(1).map(str::to_owned).collect();
        if let Some(block) = self.snippets.get(directive.arg(0)) {
            return all.extend(block.iter().map(|inner| filled(inner, &args)));
        }
        match (self.includes)(directive.arg(0)) {
            Ok(found) => {
                for (name, text) in found {
                    let start = self.files.add(name, text);
                    all.extend(self.file(start, depth + 1));
                }
            }
            Err(_) => all.push(directive),
        }
    }

    fn note(&mut self, words: &[Word], opens: bool) {
        let Some(first) = words.first() else { return };
        let mut text: Vec<_> = words.iter().map(|word| word.text.as_str()).collect();
        text.extend(opens.then_some("{ ... }"));
        self.lines.add(first.span.start, text.join(" ").replace('\n', " "));
    }
}

/// A line of a snippet, with the arguments of its import.
fn filled(directive: &Directive, args: &[String]) -> Directive {
    let mut made = directive.clone();
    for word in &mut made.words {
        for (index, arg) in args.iter().enumerate() {
            word.text = word.text.replace(&format!("{{args[{index}]}}"), arg);
        }
    }
    made.block = made.block.map(|block| block.iter().map(|it| filled(it, args)).collect());
    made
}

fn is_brace(word: &Word, brace: &str) -> bool {
    !word.is_quoted && word.text == brace
}

fn ends_with_comma(line: &[Word]) -> bool {
    line.last().is_some_and(|word| word.text.ends_with(','))
}

/// The words of a file; where a quote begins that does not end.
fn words(text: &str, start: usize) -> Result<Vec<Word>, Span> {
    let mut words = Vec::new();
    let mut is_first = true;
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let at = start + text.len() - rest.len();
        if c == '\n' {
            is_first = true;
        } else if c == '#' {
            rest = rest.find('\n').map_or("", |end| &rest[end..]);
            continue;
        } else if let Some(after) = rest.strip_prefix("\\\r\n").or(rest.strip_prefix("\\\n")) {
            rest = after;
            continue;
        } else if !c.is_whitespace() {
            let (word, length) = word(rest).ok_or(at..at + c.len_utf8())?;
            let is_quoted = matches!(c, '"' | '`') || marker(rest).is_some();
            words.push(Word { text: word, span: at..at + length, is_first, is_quoted });
            is_first = false;
            rest = &rest[length..];
            continue;
        }
        rest = &rest[c.len_utf8()..];
    }
    Ok(words)
}

/// The marker of the lines that a text begins with; none where it begins with others.
fn marker(text: &str) -> Option<&str> {
    let (marker, _) = text.strip_prefix("<<")?.split_once('\n')?;
    let marker = marker.trim_end_matches('\r');
    let is_of_marker = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    (!marker.is_empty() && marker.chars().all(is_of_marker)).then_some(marker)
}

/// The lines up to one that begins with the marker, without the indentation that it has.
fn lines_to(marker: &str, text: &str) -> Option<(String, usize)> {
    let start = text.find('\n')? + 1;
    let mut end = start;
    for line in text[start..].split_inclusive('\n') {
        let bare = line.trim_start();
        let indent = &line[..line.len() - bare.len()];
        if bare.starts_with(marker) {
            let inside = text[start..end].lines();
            let inside = inside.map(|line| line.strip_prefix(indent).unwrap_or(line));
            let inside: Vec<&str> = inside.collect();
            return Some((inside.join("\n"), end + indent.len() + marker.len()));
        }
        end += line.len();
    }
    None
}

/// The word that a text begins with, and how many bytes it takes.
fn word(text: &str) -> Option<(String, usize)> {
    if let Some(marker) = marker(text) {
        return lines_to(marker, text);
    }
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '`'));
    let Some(quote) = quote else {
        let end = text.find(char::is_whitespace).unwrap_or(text.len());
        return Some((text[..end].to_owned(), end));
    };
    let mut word = String::new();
    let mut chars = text.char_indices().skip(1);
    while let Some((index, c)) = chars.next() {
        match c {
            c if c == quote => return Some((word, index + 1)),
            '\\' if quote == '"' && text[index + 1..].starts_with(['"', '\\']) => {
                word.extend(chars.next().map(|(_, c)| c));
            }
            c => word.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Vec<Directive>, bool) {
        let (mut files, mut lines) = (Files::default(), Lines::default());
        files.add("Caddyfile".to_owned(), text.to_owned());
        let none = |_: &str| Err(std::io::ErrorKind::NotFound.into());
        let tree = tree(&mut files, &mut lines, &none);
        (tree, files.failed())
    }

    #[test]
    fn lines_blocks_and_snippets_are_a_tree() {
        let (tree, failed) = read(
            "(log) {\n\theader X {args[0]}\n}\na.example,\nb.example {\n\timport log y\n\
             \trespond \"a \\\"b\\\" {\" 200 # c\n}\n",
        );
        assert!(!failed);
        assert_eq!(tree.len(), 1);
        assert_eq!(tree[0].words.len(), 2);
        assert_eq!(tree[0].block()[0].args(), ["X", "y"]);
        assert_eq!(tree[0].block()[1].args(), ["a \"b\" {", "200"]);
    }

    #[test]
    fn lines_between_markers_are_one_word() {
        let (tree, failed) = read(
            "a {\n\trespond <<EOF\n\t\tone {\n\n\t\t  two # \"\n\t\tEOF 200\n\trespond <<x y\n}\n",
        );
        assert!(!failed);
        assert_eq!(tree[0].block()[0].args(), ["one {\n\n  two # \"", "200"]);
        assert_eq!(tree[0].block()[1].args(), ["<<x", "y"]);
    }

    #[test]
    fn what_does_not_end_is_an_error() {
        for text in ["a {\n", "}\n", "a \"b\n", "a <<B\nb\n"] {
            assert!(read(text).1, "{text}");
        }
    }
}
