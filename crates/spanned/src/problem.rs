//! What is wrong with a file, where, and what would be right.

use std::{
    collections::HashSet,
    fmt,
    sync::{Arc, OnceLock},
};

use miette::{Diagnostic, LabeledSpan, NamedSource, Severity, SourceCode};

use crate::{excerpt::Excerpt, kind::FileKind, place::Span, read::NOT_TOML};

/// A file that errors point into.
#[derive(Clone, Debug)]
pub struct Source {
    kind: &'static str,
    /// One or more, each with where it begins in the whole, and without a byte order mark: that is
    /// no column of its first line.
    parts: Vec<(usize, Arc<NamedSource<String>>)>,
}

impl Source {
    /// A file of the kind `K`, which errors call `name`.
    #[must_use]
    pub fn new<K: FileKind>(name: &str, text: String) -> Self {
        Self::of_parts::<K>(vec![(name.to_owned(), text)])
    }

    /// Files of the kind `K` that are read as one, by name and text; at least one. Places in it
    /// count as those of [`crate::read_parts`].
    #[must_use]
    pub fn of_parts<K: FileKind>(parts: Vec<(String, String)>) -> Self {
        let mut start = 0;
        let part = |(name, mut text): (String, String)| {
            let mark = if text.starts_with(MARK) { MARK.len_utf8() } else { 0 };
            let begin = start + mark;
            start += text.len() + 1;
            text.drain(..mark);
            (begin, Arc::new(NamedSource::new(name, text).with_language("TOML")))
        };
        Self { kind: K::NAME, parts: parts.into_iter().map(part).collect() }
    }

    /// Which file has the byte at `place` of the whole.
    fn part(&self, place: usize) -> usize {
        self.parts.partition_point(|(begin, _)| *begin <= place).max(1) - 1
    }

    /// Where each line of each file begins.
    fn lines(&self) -> Vec<Vec<usize>> {
        let lines = |text: &str| {
            let breaks = text.match_indices('\n').map(|(at, _)| at + 1);
            std::iter::once(0).chain(breaks).collect()
        };
        self.parts.iter().map(|(_, part)| lines(part.inner())).collect()
    }
}

/// Every error of one file.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{}: {} in the {}", .file.parts[0].1.name(), counted(.errors.len()), .file.kind)]
pub struct FileErrors {
    file: Source,
    errors: Vec<FileError>,
}

impl FileErrors {
    /// The errors, in the order of the file; at least one.
    #[must_use]
    pub fn errors(&self) -> &[FileError] {
        &self.errors
    }

    /// The same with what `help` says, by name and text, of a file that is not TOML.
    #[must_use]
    pub fn with_syntax_help(mut self, help: impl Fn(&str, &str) -> Option<String>) -> Self {
        for error in self.errors.iter_mut().filter(|it| it.message.starts_with(NOT_TOML)) {
            if let Some(help) = help(error.text.name(), error.text.inner()) {
                error.help = help;
            }
        }
        self
    }
}

impl Diagnostic for FileErrors {
    fn related<'a>(&'a self) -> Option<Box<dyn Iterator<Item = &'a dyn Diagnostic> + 'a>> {
        Some(Box::new(self.errors.iter().take(SHOWN_MAX).map(|error| error as &dyn Diagnostic)))
    }
}

fn counted(errors: usize) -> String {
    if errors == 1 { "1 error".to_owned() } else { format!("{errors} errors") }
}

/// One error, or one warning, with its place in the file.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct FileError {
    message: String,
    help: String,
    label: String,
    place: Option<Place>,
    warning: bool,
    text: Arc<NamedSource<String>>,
}

#[derive(Clone, Debug)]
struct Place {
    span: Span,
    line: usize,
    column: usize,
    /// What is printed in place of the file, once it is.
    excerpt: OnceLock<Option<Box<Excerpt>>>,
}

impl FileError {
    /// `lines` are those of the source, if the problem has a place; `before` is the last problem
    /// that is not after this one.
    fn new(found: Problem, source: &Source, lines: &[Vec<usize>], before: Option<&Self>) -> Self {
        let part = source.part(found.span.as_ref().map_or(0, |span| span.start));
        let (begin, text) = &source.parts[part];
        let before = before.filter(|it| Arc::ptr_eq(&it.text, text));
        let before = before.and_then(|it| it.place.as_ref());
        let place = found.span.map(|span| {
            let span = span.start.saturating_sub(*begin)..span.end.saturating_sub(*begin);
            let (line, column) = position(text.inner(), &lines[part], span.start, before);
            Place { span, line, column, excerpt: OnceLock::new() }
        });
        let Problem { message, label, help, warning, .. } = found;
        Self { message, help, label, place, warning, text: Arc::clone(text) }
    }

    /// What is wrong.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What would be right.
    #[must_use]
    pub fn help_text(&self) -> &str {
        &self.help
    }

    /// The line, counted from 1; 0 where the problem is not in the text of the file.
    #[must_use]
    pub fn line(&self) -> usize {
        self.place.as_ref().map_or(0, |place| place.line)
    }

    /// The column in characters, counted from 1; 0 where the problem is not in the text.
    #[must_use]
    pub fn column(&self) -> usize {
        self.place.as_ref().map_or(0, |place| place.column)
    }

    /// The name of the file that it is in.
    #[must_use]
    pub fn file(&self) -> &str {
        self.text.name()
    }

    /// Whether the file can be used all the same.
    #[must_use]
    pub fn is_warning(&self) -> bool {
        self.warning
    }
}

impl Diagnostic for FileError {
    fn severity(&self) -> Option<Severity> {
        Some(if self.warning { Severity::Warning } else { Severity::Error })
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        Some(Box::new(&self.help))
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        let place = self.place.as_ref()?;
        Some(place.excerpt(&self.text).map_or(&*self.text as &dyn SourceCode, |it| it))
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let place = self.place.as_ref()?;
        let label = Some(self.label.clone());
        let span = place.excerpt(&self.text).map_or(&place.span, Excerpt::span);
        let length = span.end - span.start;
        Some(Box::new(std::iter::once(LabeledSpan::new(label, span.start, length))))
    }
}

impl Place {
    /// What is printed in place of `text`; none where its lines are short.
    fn excerpt(&self, text: &NamedSource<String>) -> Option<&Excerpt> {
        let make = || Excerpt::new(text, &self.span, self.line).map(Box::new);
        self.excerpt.get_or_init(make).as_deref()
    }
}

/// A problem before it knows its file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Problem {
    span: Option<Span>,
    message: String,
    label: String,
    help: String,
    warning: bool,
}

/// Problems as they are found, and what else must not be blamed on the file because of them.
#[derive(Clone, Debug, Default)]
pub struct Problems {
    found: Vec<Problem>,
    errors: usize,
    /// Tables and lists out of which something unreadable was cut.
    damaged: Vec<Span>,
}

impl Problems {
    /// Notes an error at `span`.
    pub fn error(
        &mut self,
        span: &Span,
        message: impl Into<String>,
        label: &str,
        help: impl Into<String>,
    ) {
        self.note(Some(span), message.into(), label, help.into(), false);
    }

    /// Notes something that works but is hardly meant.
    pub fn warning(
        &mut self,
        span: &Span,
        message: impl Into<String>,
        label: &str,
        help: impl Into<String>,
    ) {
        self.note(Some(span), message.into(), label, help.into(), true);
    }

    /// Notes an error that has no place in the text of the file.
    pub fn unplaced(&mut self, message: impl Into<String>, help: impl Into<String>) {
        self.note(None, message.into(), "", help.into(), false);
    }

    /// Notes that something is absent from the table at `table`, unless it may be what could not
    /// be read there.
    pub fn absent(&mut self, table: &Span, at: &Span, message: String, help: String) {
        if !self.is_damaged(table) {
            self.error(at, message, "here", help);
        }
    }

    /// Remembers that something was cut out of the table or list at `span`.
    pub(crate) fn damage(&mut self, span: Span) {
        self.damaged.push(span);
    }

    /// Whether something was cut out of the table or list at `span`.
    #[must_use]
    pub fn is_damaged(&self, span: &Span) -> bool {
        self.damaged.contains(span)
    }

    /// Whether an error was found.
    #[must_use]
    pub fn failed(&self) -> bool {
        self.errors > 0
    }

    /// Whether there are more errors than are printed. What is slow to tell of each is not worth
    /// while for further ones.
    #[must_use]
    pub const fn are_many(&self) -> bool {
        self.errors > SHOWN_MAX
    }

    /// The warnings, in the order of the file.
    ///
    /// # Errors
    /// The errors without the warnings, where there is one.
    pub fn settle(self, source: &Source) -> Result<Vec<FileError>, FileErrors> {
        if self.failed() { Err(self.into_errors(source)) } else { Ok(self.told(source, true)) }
    }

    /// The errors, in the order of the file; those without a place in it come last.
    #[must_use]
    pub fn into_errors(self, source: &Source) -> FileErrors {
        FileErrors { errors: self.told(source, false), file: source.clone() }
    }

    fn told(mut self, source: &Source, warnings: bool) -> Vec<FileError> {
        self.found.sort_by_key(|problem| problem.span.as_ref().map_or(usize::MAX, |it| it.start));
        let mut told = HashSet::new();
        let found = self.found.into_iter().filter(|problem| problem.warning == warnings);
        let once: Vec<Problem> = found.filter(|problem| told.insert(problem.clone())).collect();
        let lines = if once.is_empty() { Vec::new() } else { source.lines() };
        let mut told = Vec::with_capacity(once.len());
        for problem in once {
            told.push(FileError::new(problem, source, &lines, told.last()));
        }
        told
    }

    fn note(
        &mut self,
        span: Option<&Span>,
        message: String,
        label: &str,
        help: String,
        warning: bool,
    ) {
        let label = label.to_owned();
        self.errors += usize::from(!warning);
        self.found.push(Problem { span: span.cloned(), message, label, help, warning });
    }
}

/// Line and column of a byte, both counted from 1, the column in characters; `lines` is where each
/// line begins. It is counted from the place `before`, where that is in the same line.
fn position(text: &str, lines: &[usize], byte: usize, before: Option<&Place>) -> (usize, usize) {
    let line = lines.partition_point(|start| *start <= byte).max(1);
    let is_in_line = |it: &&Place| it.line == line && text.is_char_boundary(it.span.start);
    let (start, column) = before
        .filter(is_in_line)
        .map_or((lines[line - 1], 1), |before| (before.span.start, before.column));
    let between = text.get(start..byte).unwrap_or(&text[start..]);
    (line, between.chars().count() + column)
}

/// The byte order mark of editors of Windows.
const MARK: char = '\u{feff}';

/// More errors or warnings than anyone reads in one go. Each that is printed costs a look through
/// the file.
pub const SHOWN_MAX: usize = 50;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_columns_are_counted_from_one_in_characters() {
        for (text, byte, place) in [
            ("ab\ncd", 0, (1, 1)),
            ("ab\ncd", 4, (2, 2)),
            ("ab\ncd", 3, (2, 1)),
            ("é = 1\n", 3, (1, 3)),
            ("ab", 99, (1, 3)),
        ] {
            let source = Source { kind: "file", parts: vec![(0, named(text))] };
            assert_eq!(position(text, &source.lines()[0], byte, None), place, "{text:?}, {byte}");
        }
    }

    fn named(text: &str) -> Arc<NamedSource<String>> {
        Arc::new(NamedSource::new("a.toml", text.to_owned()))
    }

    #[test]
    fn what_is_noted_twice_is_told_once_in_the_order_of_the_file() {
        let source = Source { kind: "file", parts: vec![(0, named("a\nb\nc\n"))] };
        let mut problems = Problems::default();
        for at in [4, 2, 4] {
            problems.warning(&(at..at + 1), format!("at {at}"), "here", "");
        }
        let told = problems.settle(&source).unwrap();
        let told: Vec<(usize, &str)> = told.iter().map(|it| (it.line(), it.message())).collect();
        assert_eq!(told, [(2, "at 2"), (3, "at 4")]);
    }

    #[test]
    fn columns_of_one_line_are_counted_on_from_the_one_before() {
        let source = Source { kind: "file", parts: vec![(0, named("é\nxé, é, é\né"))] };
        let mut problems = Problems::default();
        for at in [12, 4, 15, 8, 99] {
            problems.error(&(at..at + 2), "wrong", "here", "");
        }
        let errors = problems.into_errors(&source);
        let told: Vec<_> = errors.errors().iter().map(|it| (it.line(), it.column())).collect();
        assert_eq!(told, [(2, 2), (2, 5), (2, 8), (3, 1), (3, 2)]);
    }

    #[test]
    fn a_byte_order_mark_is_no_column() {
        struct Any;
        impl FileKind for Any {
            const NAME: &'static str = "file";
            const REFERENCE: &'static str = "";
        }
        let part = |name: &str| (name.to_owned(), "\u{feff}a\nb".to_owned());
        let source = Source::of_parts::<Any>(vec![part("a.toml"), part("b.toml")]);
        let mut problems = Problems::default();
        for at in [0, 3, 5, 10, 12] {
            problems.error(&(at..at + 1), "wrong", "here", format!("{at}"));
        }
        let errors = problems.into_errors(&source);
        let told = errors.errors().iter().map(|it| (it.file(), it.line(), it.column()));
        let (a, b) = ("a.toml", "b.toml");
        let expected = [(a, 1, 1), (a, 1, 1), (a, 2, 1), (b, 1, 1), (b, 2, 1)];
        assert_eq!(told.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn what_was_cut_out_of_a_table_is_not_missed_there() {
        let mut problems = Problems::default();
        problems.damage(3..9);
        problems.absent(&(3..9), &(3..9), "no servers".to_owned(), String::new());
        assert!(!problems.failed());
        problems.absent(&(20..29), &(20..29), "no servers".to_owned(), String::new());
        assert!(problems.failed());
    }
}
