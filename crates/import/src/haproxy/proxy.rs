//! A proxy of HAProxy: its own lines and those of its defaults.

use std::iter;

use super::lex::{Line, Section};

/// A section of defaults.
#[derive(Clone, Copy, Debug)]
pub(super) struct Defaults<'a> {
    pub(super) section: &'a Section,
    /// The one that it is made from, by its place among all: its lines come first.
    pub(super) parent: Option<usize>,
}

/// A `frontend`, `backend` or `listen`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Proxy<'a> {
    pub(super) section: &'a Section,
    pub(super) defaults: Option<Defaults<'a>>,
    /// Those of the whole file.
    pub(super) all_defaults: &'a [Defaults<'a>],
}

impl<'a> Proxy<'a> {
    /// The last line that begins with these words: its own, or that of its defaults. None where
    /// the last one says `no`.
    pub(super) fn last(&self, words: &[&str]) -> Option<&'a Line> {
        let own = self.section.lines.iter().rev();
        let mut all = own.chain(self.of_defaults()).filter(|line| {
            line.begins(words)
                || line.word(0) == "no" && {
                    words.iter().enumerate().all(|(index, word)| line.word(index + 1) == *word)
                }
        });
        all.next().filter(|line| line.word(0) != "no")
    }

    /// The lines of its defaults, the last one first.
    pub(super) fn of_defaults(&self) -> impl Iterator<Item = &'a Line> {
        let all = self.all_defaults;
        let parent = move |it: &Defaults<'a>| all.get(it.parent?).copied();
        let sections = iter::successors(self.defaults, parent);
        sections.flat_map(|it| it.section.lines.iter().rev())
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
