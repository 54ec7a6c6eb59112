//! Lines of an HAProxy configuration as words, and its sections.

use loadline_spanned::Span;

use super::branches::Branches;
use crate::{files::Files, model::Lines, write::VARIABLE};

/// A word and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) text: String,
    pub(super) span: Span,
}

/// A line with at least one word.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) words: Vec<Word>,
}

/// A section: the line that begins it, and those below it.
#[derive(Clone, Debug)]
pub(super) struct Section {
    pub(super) head: Line,
    pub(super) lines: Vec<Line>,
}

/// Words that begin a section.
pub(super) const SECTIONS: [&str; 20] = [
    "global", "defaults", "frontend", "backend", "listen", "peers", "resolvers", "cache",
    "userlist", "mailers", "program", "ring", "http-errors", "log-forward", "fcgi-app",
    "crt-store", "acme", "traces", "log-profile", "haterm",
];

impl Line {
    /// The word at `index`; empty where there is none.
    pub(super) fn word(&self, index: usize) -> &str {
        self.words.get(index).map_or("", |word| word.text.as_str())
    }

    /// Where the line begins.
    pub(super) fn at(&self) -> usize {
        self.words[0].span.start
    }

    /// The texts of the words from `index` on.
    pub(super) fn from(&self, index: usize) -> Vec<&str> {
        self.words.iter().skip(index).map(|word| word.text.as_str()).collect()
    }

    /// Where the word at `index` is, or the line ends without it.
    pub(super) fn span(&self, index: usize) -> Span {
        let last = self.words[self.words.len() - 1].span.clone();
        self.words.get(index).map_or(last, |word| word.span.clone())
    }

    /// Whether its words begin with these.
    pub(super) fn begins(&self, words: &[&str]) -> bool {
        words.iter().enumerate().all(|(index, word)| self.word(index) == *word)
    }
}

impl Section {
    pub(super) fn kind(&self) -> &str {
        self.head.word(0)
    }

    pub(super) fn name(&self) -> &str {
        self.head.word(1)
    }

    /// The defaults that it names behind `from`.
    pub(super) fn defaults(&self) -> Option<&str> {
        let takes = ["defaults", "frontend", "backend", "listen"].contains(&self.kind());
        let words = self.head.from(if self.kind() == "defaults" { 1 } else { 2 });
        let at = words.iter().position(|word| *word == "from").filter(|_| takes)?;
        words.get(at + 1).copied()
    }
}

/// The sections of the file that was added last, and lines of which it is not known whether HAProxy
/// reads them. What cannot be read is noted in `files`.
pub(super) fn sections(files: &mut Files, lines: &mut Lines) -> (Vec<Section>, Vec<Line>) {
    let text = files.last().to_owned();
    let (mut sections, mut conditional): (Vec<Section>, Vec<Line>) = (Vec::new(), Vec::new());
    let mut branches = Branches::default();
    let mut is_in_conditional = false;
    let mut start = 0;
    for row in text.split('\n') {
        let words = match words(row, start) {
            Ok(words) => words,
            Err(span) => {
                files.error(&span, "a quote that does not end", "close it on the same line");
                Vec::new()
            }
        };
        start += row.len() + 1;
        let Some(first) = words.first().cloned() else { continue };
        let mut line = Line { words };
        expand_address(&mut line);
        let around = branches.here();
        let is_branch = branches.follow(&line);
        let here = branches.here().filter(|_| !is_branch || around.is_some());
        if here == Some(false) || is_branch && here.is_some() {
            continue;
        }
        lines.add(first.span.start, uncommented(row));
        let is_section = SECTIONS.contains(&first.text.as_str());
        if is_section {
            is_in_conditional = here.is_none();
        }
        if here.is_none() || is_in_conditional {
            conditional.push(line);
        } else if is_section {
            sections.push(Section { head: line, lines: Vec::new() });
        } else if let Some(section) = sections.last_mut() {
            section.lines.push(line);
        } else {
            let message = format!("`{}` before the first section", first.text);
            files.error(&first.span, message, "begin with `global`, `defaults` or `frontend NAME`");
        }
    }
    (sections, conditional)
}

/// HAProxy finds variables of the environment in addresses without quotes, too.
fn expand_address(line: &mut Line) {
    let index = match line.word(0) {
        "bind" => 1,
        "server" => 2,
        "server-template" => 3,
        _ => return,
    };
    let Some(word) = line.words.get_mut(index) else { return };
    let mut parts = word.text.split('$');
    let mut expanded = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match variable(part) {
            Some((name, taken)) => {
                expanded += &format!("{VARIABLE}{{{name}}}{}", &part[taken..]);
            }
            None => expanded += &format!("${part}"),
        }
    }
    word.text = expanded;
}

/// A text with variables of the environment as a remark shows it.
pub(super) fn shown(text: &str) -> String {
    text.replace(VARIABLE, "$")
}

/// The text without its variables of the environment, in whose place there is nothing.
pub(super) fn without_variables(text: &str) -> String {
    let mut parts = text.split(VARIABLE);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |rest, part| rest + part.split_once('}').map_or(part, |(_, it)| it))
}

/// The line as a remark shows it: without its comment, with single spaces.
fn uncommented(row: &str) -> String {
    let mut kept = String::new();
    let (mut quote, mut escaped) = (None, false);
    for c in row.chars() {
        match (quote, c) {
            _ if escaped => escaped = false,
            (_, '\\') => escaped = true,
            (Some(open), c) if open == c => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            (None, '#') => break,
            _ => {}
        }
        kept.push(c);
    }
    kept.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The words of a line that begins at `start`; where a quote begins that does not end.
fn words(row: &str, start: usize) -> Result<Vec<Word>, Span> {
    let mut words = Vec::new();
    let mut word: Option<Word> = None;
    let mut quote: Option<(char, usize)> = None;
    let mut chars = row.char_indices();
    while let Some((index, c)) = chars.next() {
        let at = start + index;
        let is_double = matches!(quote, Some(('"', _)));
        if is_double
            && c == '$'
            && let Some((name, taken)) = variable(chars.as_str())
        {
            let started = word.get_or_insert_with(|| Word { text: String::new(), span: at..at });
            started.text += &format!("{VARIABLE}{{{name}}}");
            started.span.end = at + 1 + taken;
            chars.by_ref().take(taken).for_each(drop);
            continue;
        }
        match (quote, c) {
            (Some((open, _)), c) if c == open => quote = None,
            (None, '"' | '\'') => {
                quote = Some((c, at));
                word.get_or_insert_with(|| Word { text: String::new(), span: at..at });
            }
            (None, '#') => break,
            (None, ' ' | '\t' | '\r') => words.extend(word.take()),
            _ => {
                let escapes = quote.is_none_or(|(open, _)| open == '"') && c == '\\';
                let next = chars.clone().next().and_then(|(_, c)| escaped(c, is_double));
                let next = next.filter(|_| escapes);
                if next.is_some() {
                    chars.next();
                }
                let started =
                    word.get_or_insert_with(|| Word { text: String::new(), span: at..at });
                started.text.push(next.unwrap_or(c));
            }
        }
        if let Some(word) = &mut word {
            word.span.end = at + c.len_utf8();
        }
    }
    if let Some((_, at)) = quote {
        return Err(at..start + row.len());
    }
    words.extend(word);
    Ok(words)
}

/// The variable of the environment that a text behind a dollar sign begins with, as our file writes
/// it, and how many bytes it takes.
fn variable(text: &str) -> Option<(String, usize)> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let inside = text.strip_prefix('{');
    let rest = inside.unwrap_or(text);
    let length = rest.find(|c: char| !is_part(c)).unwrap_or(rest.len());
    let (name, rest) = rest.split_at(length);
    if !name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        return None;
    }
    if inside.is_none() {
        return Some((name.to_owned(), length));
    }
    let (default, _) = rest.split_once('}')?;
    let taken = length + default.len() + 2;
    match default.strip_prefix('-') {
        None if default.is_empty() => Some((name.to_owned(), taken)),
        Some(default) if default.is_ascii() => Some((format!("{name}:-{default}"), taken)),
        _ => None,
    }
}

/// What a character stands for behind a backslash; none where the backslash stays, as before those
/// of expressions.
fn escaped(c: char, is_double: bool) -> Option<char> {
    Some(match c {
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        ' ' | '#' | '\\' | '"' | '\'' => c,
        '$' if is_double => c,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(row: &str) -> Vec<String> {
        words(row, 0).unwrap_or_default().into_iter().map(|word| word.text).collect()
    }

    #[test]
    fn words_are_read_as_haproxy_reads_them() {
        assert_eq!(texts("\tbind :80 # all"), ["bind", ":80"]);
        assert_eq!(texts("a \"b c\"d 'e\\f' g\\ h \\#"), ["a", "b cd", "e\\f", "g h", "#"]);
        assert_eq!(texts("path_reg ^/a\\.b \\\\"), ["path_reg", "^/a\\.b", "\\"]);
        assert_eq!(texts("log-format \"\""), ["log-format", ""]);
        assert_eq!(words("a \"b", 10), Err(12..14));
    }

    #[test]
    fn variables_of_the_environment_stay_variables() {
        let texts = |row: &str| texts(row).join(" ").replace(VARIABLE, "@");
        assert_eq!(texts("a \"${B}\":80 \"$C-d\""), "a @{B}:80 @{C}-d");
        assert_eq!(texts("\"${B-x}\" \"\\$C\" '$D' $E"), "@{B:-x} $C $D $E");
        assert_eq!(texts("\"^/a$\" \"${\""), "^/a$ ${");
    }

    #[test]
    fn variables_in_addresses_need_no_quotes() {
        let address = |row: &str, index: usize| {
            let mut line = Line { words: words(row, 0).unwrap_or_default() };
            expand_address(&mut line);
            shown(line.word(index))
        };
        assert_eq!(address("bind :$PORT", 1), ":${PORT}");
        assert_eq!(address("bind \"$A\":${B}$", 1), "${A}:${B}$");
        assert_eq!(address("server s ${H}:${P} weight $W", 2), "${H}:${P}");
        assert_eq!(address("server s ${H}:${P} weight $W", 4), "$W");
        let text = format!("a{VARIABLE}{{B:-c}}:{VARIABLE}{{D}}e");
        assert_eq!(without_variables(&text), "a:e");
    }

    #[test]
    fn a_comment_is_not_part_of_a_line() {
        assert_eq!(uncommented("  a  'b # c'  # d"), "a 'b # c'");
    }
}
