//! A proxy of HAProxy: its own lines and those of its defaults.

use super::lex::{Line, Section};

/// A `frontend`, `backend` or `listen`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Proxy<'a> {
    pub(super) section: &'a Section,
    /// With the lines that these have from others.
    pub(super) defaults: Option<&'a Section>,
}

impl<'a> Proxy<'a> {
    /// The last line that begins with these words: its own, or that of its defaults. None where
    /// the last one says `no`.
    pub(super) fn last(&self, words: &[&str]) -> Option<&'a Line> {
        let own = self.section.lines.iter().rev();
        let all = own.chain(self.defaults.into_iter().flat_map(|it| it.lines.iter().rev()));
        let mut all = all.filter(|line| {
            line.begins(words)
                || line.word(0) == "no" && {
                    words.iter().enumerate().all(|(index, word)| line.word(index + 1) == *word)
                }
        });
        all.next().filter(|line| line.word(0) != "no")
    }

    /// The value behind these words.
    pub(super) fn value(&self, words: &[&str]) -> Option<&'a str> {
        self.last(words).map(|line| line.word(words.len())).filter(|value| !value.is_empty())
    }

    pub(super) fn is_http(&self) -> bool {
        self.value(&["mode"]) == Some("http")
    }

    pub(super) fn name(&self) -> &'a str {
        self.section.name()
    }

    /// Its own lines that begin with this word.
    pub(super) fn lines(&self, word: &'static str) -> impl Iterator<Item = &'a Line> {
        self.section.lines.iter().filter(move |line| line.word(0) == word)
    }
}
