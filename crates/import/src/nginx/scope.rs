//! Directives in force at a place: its own, and those of the blocks around it.

use super::lex::Directive;

/// The blocks around a place, the innermost last.
#[derive(Clone, Debug, Default)]
pub(super) struct Scope<'a> {
    blocks: Vec<&'a [Directive]>,
}

impl<'a> Scope<'a> {
    /// The same with one more block inside.
    pub(super) fn with(&self, block: &'a [Directive]) -> Self {
        let mut blocks = self.blocks.clone();
        blocks.push(block);
        Self { blocks }
    }

    /// The blocks up to this one.
    pub(super) fn up_to(&self, block: &[Directive]) -> Self {
        let at = self.blocks.iter().position(|it| std::ptr::eq(*it, block));
        let count = at.map_or(self.blocks.len(), |at| at + 1);
        Self { blocks: self.blocks.iter().take(count).copied().collect() }
    }

    /// The innermost block.
    pub(super) fn own(&self) -> &'a [Directive] {
        self.blocks.last().copied().unwrap_or_default()
    }

    /// All directives of this name of the innermost block that has any.
    pub(super) fn nearest(&self, name: &str) -> Vec<&'a Directive> {
        self.nearest_of(&[name])
    }

    /// The same of several names that go together.
    pub(super) fn nearest_of(&self, names: &[&str]) -> Vec<&'a Directive> {
        let here = |block: &&'a [Directive]| -> Vec<&'a Directive> {
            block.iter().filter(|it| names.contains(&it.name())).collect()
        };
        self.blocks.iter().rev().map(here).find(|found| !found.is_empty()).unwrap_or_default()
    }

    /// The first argument of the directive of this name that is in force.
    pub(super) fn value(&self, name: &str) -> Option<&'a str> {
        self.nearest(name).last().map(|directive| directive.arg(0)).filter(|it| !it.is_empty())
    }
}
