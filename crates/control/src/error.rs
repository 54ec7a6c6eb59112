//! What is wrong with a configuration, where, and what would be right.

use std::{fmt, sync::Arc};

use miette::{Diagnostic, LabeledSpan, NamedSource, Severity, SourceCode};

use crate::place::Span;

/// Every error of one file.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{name}: {} in the configuration", counted(.errors.len()))]
pub struct ConfigErrors {
    name: String,
    errors: Vec<ConfigError>,
}

impl ConfigErrors {
    pub(crate) fn new(name: &str, errors: Vec<ConfigError>) -> Self {
        Self { name: name.to_owned(), errors }
    }

    /// The errors, in the order of the file; at least one.
    #[must_use]
    pub fn errors(&self) -> &[ConfigError] {
        &self.errors
    }
}

impl Diagnostic for ConfigErrors {
    fn related<'a>(&'a self) -> Option<Box<dyn Iterator<Item = &'a dyn Diagnostic> + 'a>> {
        Some(Box::new(self.errors.iter().map(|error| error as &dyn Diagnostic)))
    }
}

fn counted(errors: usize) -> String {
    if errors == 1 { "1 error".to_owned() } else { format!("{errors} errors") }
}

/// One error, or one warning, with its place in the file.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct ConfigError {
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
}

impl ConfigError {
    /// The problem `found` in the file `text`.
    pub(crate) fn placed(found: Problem, text: &Arc<NamedSource<String>>) -> Self {
        let (line, column) = position(text.inner(), found.span.start);
        Self {
            message: found.message,
            help: found.help,
            label: found.label,
            place: Some(Place { span: found.span, line, column }),
            warning: found.warning,
            text: Arc::clone(text),
        }
    }

    /// A problem that has no place in a file.
    pub(crate) fn unplaced(message: String, help: String) -> Self {
        Self {
            message,
            help,
            label: String::new(),
            place: None,
            warning: false,
            text: Arc::new(NamedSource::new("", String::new())),
        }
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

    /// Whether the file can be used all the same.
    #[must_use]
    pub fn is_warning(&self) -> bool {
        self.warning
    }
}

impl Diagnostic for ConfigError {
    fn severity(&self) -> Option<Severity> {
        Some(if self.warning { Severity::Warning } else { Severity::Error })
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        Some(Box::new(&self.help))
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.place.as_ref().map(|_| &*self.text as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let place = self.place.as_ref()?;
        let label = Some(self.label.clone());
        let length = place.span.end - place.span.start;
        Some(Box::new(std::iter::once(LabeledSpan::new(label, place.span.start, length))))
    }
}

/// A problem before it knows its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) span: Span,
    pub(crate) message: String,
    pub(crate) label: String,
    pub(crate) help: String,
    pub(crate) warning: bool,
}

/// Problems as they are found, and what else must not be blamed on the file because of them.
#[derive(Debug, Default)]
pub(crate) struct Problems {
    found: Vec<Problem>,
    /// Tables and lists out of which something unreadable was cut.
    damaged: Vec<Span>,
}

impl Problems {
    /// Notes an error at `span`.
    pub(crate) fn error(&mut self, span: &Span, message: String, label: &str, help: String) {
        self.note(span, message, label, help, false);
    }

    /// Notes something that works but is hardly meant.
    pub(crate) fn warning(&mut self, span: &Span, message: String, label: &str, help: String) {
        self.note(span, message, label, help, true);
    }

    /// Notes that something is absent from the table at `table`, unless it may be what could not
    /// be read there.
    pub(crate) fn absent(&mut self, table: &Span, at: &Span, message: String, help: String) {
        if !self.is_damaged(table) {
            self.error(at, message, "here", help);
        }
    }

    /// Remembers that something was cut out of the table or list at `span`.
    pub(crate) fn damage(&mut self, span: Span) {
        self.damaged.push(span);
    }

    /// Whether something was cut out of the table or list at `span`.
    pub(crate) fn is_damaged(&self, span: &Span) -> bool {
        self.damaged.contains(span)
    }

    /// Whether an error was found.
    pub(crate) fn failed(&self) -> bool {
        self.found.iter().any(|problem| !problem.warning)
    }

    /// The problems in the order of the file, with their places.
    pub(crate) fn placed(mut self, text: &Arc<NamedSource<String>>) -> Vec<ConfigError> {
        self.found.sort_by_key(|problem| problem.span.start);
        self.found.into_iter().map(|problem| ConfigError::placed(problem, text)).collect()
    }

    fn note(&mut self, span: &Span, message: String, label: &str, help: String, warning: bool) {
        let problem =
            Problem { span: span.clone(), message, label: label.to_owned(), help, warning };
        if !self.found.contains(&problem) {
            self.found.push(problem);
        }
    }
}

/// Line and column of a byte, both counted from 1, the column in characters.
fn position(text: &str, byte: usize) -> (usize, usize) {
    let before = text.get(..byte).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (line, before[start..].chars().count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_columns_are_counted_from_one_in_characters() {
        assert_eq!(position("ab\ncd", 0), (1, 1));
        assert_eq!(position("ab\ncd", 4), (2, 2));
        assert_eq!(position("é = 1\n", 3), (1, 3));
        assert_eq!(position("ab", 99), (1, 3));
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
