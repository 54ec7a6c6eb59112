//! The text of the files that are read, and places in it.

use loadline_spanned::{FileErrors, FileKind, Problems, Source, Span};

/// A configuration of another program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Foreign;

impl FileKind for Foreign {
    const NAME: &'static str = "configuration to import";
    const REFERENCE: &'static str = "docs/importing.md";
}

/// Files that are read as one, with what is wrong in them.
#[derive(Debug, Default)]
pub(crate) struct Files {
    /// By name and text.
    parts: Vec<(String, String)>,
    problems: Problems,
}

impl Files {
    /// Adds a file, and says at which byte of the whole it begins.
    pub(crate) fn add(&mut self, name: String, text: String) -> usize {
        let start = self.parts.iter().map(|(_, text)| text.len() + 1).sum();
        self.parts.push((name, text));
        start
    }

    /// The text of the file that was added last.
    pub(crate) fn last(&self) -> &str {
        self.parts.last().map_or("", |(_, text)| text)
    }

    /// Notes that something at a place of the whole cannot be read.
    pub(crate) fn error(&mut self, span: &Span, message: impl Into<String>, help: &str) {
        self.problems.error(span, message, "here", help);
    }

    /// The line that is at a byte of the whole: the name of its file unless it is the first, its
    /// number from 1, and the column in characters.
    pub(crate) fn place(&self, at: usize) -> (Option<&str>, usize, usize) {
        let mut start = 0;
        for (index, (name, text)) in self.parts.iter().enumerate() {
            if at <= start + text.len() {
                let before = text.get(..at - start).unwrap_or(text);
                let line = before.matches('\n').count() + 1;
                let column = before.chars().rev().take_while(|it| *it != '\n').count() + 1;
                return ((index > 0).then_some(name), line, column);
            }
            start += text.len() + 1;
        }
        (None, 1, 1)
    }

    /// Whether something cannot be read.
    pub(crate) fn failed(&self) -> bool {
        self.problems.failed()
    }

    /// What cannot be read.
    pub(crate) fn into_errors(self) -> FileErrors {
        self.problems.into_errors(&Source::of_parts::<Foreign>(self.parts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_of_its_file() {
        let mut files = Files::default();
        assert_eq!(files.add("a".to_owned(), "one\ntwo\n".to_owned()), 0);
        let start = files.add("b".to_owned(), "x\n  y".to_owned());
        assert_eq!(start, 9);
        assert_eq!(files.place(4), (None, 2, 1));
        assert_eq!(files.place(start + 4), (Some("b"), 2, 3));
        assert_eq!(files.last(), "x\n  y");
    }
}
