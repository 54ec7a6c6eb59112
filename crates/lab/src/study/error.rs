//! What is wrong with a study file, where, and what would be right.

use std::{fmt, sync::Arc};

use miette::{Diagnostic, LabeledSpan, NamedSource, SourceCode};

use super::place::Span;

/// Every error of one study file.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{name}: {} in the study", counted(.errors.len()))]
pub struct StudyErrors {
    name: String,
    errors: Vec<StudyError>,
}

/// One error with its place in the file.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct StudyError {
    message: String,
    help: String,
    span: Span,
    line: usize,
    text: Arc<NamedSource<String>>,
}

impl StudyErrors {
    /// The errors, in the order of the file; at least one.
    #[must_use]
    pub fn errors(&self) -> &[StudyError] {
        &self.errors
    }
}

impl StudyError {
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

    /// The line it stands in, counted from 1.
    #[must_use]
    pub fn line(&self) -> usize {
        self.line
    }
}

impl Diagnostic for StudyErrors {
    fn related<'a>(&'a self) -> Option<Box<dyn Iterator<Item = &'a dyn Diagnostic> + 'a>> {
        Some(Box::new(self.errors.iter().map(|error| error as &dyn Diagnostic)))
    }
}

impl Diagnostic for StudyError {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        Some(Box::new(&self.help))
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        Some(&*self.text as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let length = self.span.end - self.span.start;
        let label = LabeledSpan::new(Some("here".to_owned()), self.span.start, length);
        Some(Box::new(std::iter::once(label)))
    }
}

/// Problems as they are found, each once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Problems(Vec<(Span, String, String)>);

impl Problems {
    /// Notes what is wrong at `span` and what would be right.
    pub(crate) fn note(&mut self, span: Span, message: impl Into<String>, help: impl Into<String>) {
        let problem = (span, message.into(), help.into());
        if !self.0.contains(&problem) {
            self.0.push(problem);
        }
    }

    /// Whether nothing is wrong.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The errors in the order of the file `name` with this text.
    pub(crate) fn into_errors(mut self, name: &str, text: &str) -> StudyErrors {
        self.0.sort_by_key(|(span, ..)| span.start);
        let source = Arc::new(NamedSource::new(name, text.to_owned()).with_language("TOML"));
        let error = |(span, message, help): (Span, String, String)| StudyError {
            line: text.get(..span.start).unwrap_or(text).matches('\n').count() + 1,
            message,
            help,
            span,
            text: Arc::clone(&source),
        };
        let errors = self.0.into_iter().map(error).collect();
        StudyErrors { name: name.to_owned(), errors }
    }
}

/// A help text: the nearest of the names that would be right, or all of them.
pub(crate) fn known<'a>(typed: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.into_iter().collect();
    // A third of the letters may differ: `polcy` is near `policy`, `cat` is not near `dog`.
    let near = (typed.chars().count() / 3).max(1);
    let distances = names.iter().map(|name| (strsim::osa_distance(typed, name), *name));
    let found = distances.filter(|(distance, _)| *distance <= near).min();
    let all = names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    match found {
        Some((_, name)) => format!("did you mean `{name}`?"),
        None if names.is_empty() => "nothing is allowed here".to_owned(),
        None => format!("expected one of {all}"),
    }
}

fn counted(errors: usize) -> String {
    if errors == 1 { "1 error".to_owned() } else { format!("{errors} errors") }
}
