//! Texts as one tree of TOML: several put together, variables put in.

use std::borrow::Cow;

use serde_spanned::Spanned;
use toml::de::{DeArray, DeTable, DeValue, Error};

use crate::{place::Span, problem::Problems, variables::Variables};

/// A tree, and where in it a variable is the whole value.
pub(crate) struct Tree<'t> {
    pub(crate) root: Spanned<DeValue<'t>>,
    /// Places of such values, with the text written there.
    lone: Vec<(Span, String)>,
}

impl<'t> Tree<'t> {
    /// The tree of `texts`, whose places count as if they followed each other, a byte between
    /// them; or the first error of TOML with the index and the start of its text.
    pub(crate) fn of(
        texts: &[&'t str],
        variables: Option<&'t Variables<'_>>,
        problems: &mut Problems,
    ) -> Result<Self, (usize, usize, Error)> {
        let mut whole: Option<Spanned<DeTable<'t>>> = None;
        let mut start = 0;
        for (index, text) in texts.iter().enumerate() {
            let (root, errors) = DeTable::parse_recoverable(text);
            let place = |error: &Error| error.span().map_or(0, |span| span.start);
            // Only the first error in the text is told: the others mostly follow from it.
            if let Some(error) = errors.into_iter().min_by_key(place) {
                return Err((index, start, error));
            }
            match &mut whole {
                None => whole = Some(root),
                Some(whole) => {
                    merge(whole.get_mut(), shifted_table(root.into_inner(), start), 0, problems);
                }
            }
            start += text.len() + 1;
        }
        let root = whole.unwrap_or_else(|| Spanned::new(0..0, DeTable::new()));
        let root = Spanned::new(root.span(), DeValue::Table(root.into_inner()));
        let mut tree = Self { root, lone: Vec::new() };
        if let Some(variables) = variables.filter(|it| it.count() > 0) {
            let mut expansion = Expansion { variables, lone: Vec::new(), problems };
            expansion.stays(&mut tree.root);
            tree.lone = expansion.lone;
        }
        Ok(tree)
    }

    /// In how many places a variable is the whole value.
    pub(crate) const fn lone(&self) -> usize {
        self.lone.len()
    }

    /// Makes the value of a variable at `place` the number or truth value that it looks like;
    /// false where there is none.
    pub(crate) fn retype(&mut self, place: &Span, variables: Option<&'t Variables<'_>>) -> bool {
        let Some(index) = self.lone.iter().position(|(span, _)| span == place) else {
            return false;
        };
        let (_, written) = self.lone.swap_remove(index);
        let value = variables.and_then(|it| it.value(&written));
        let value = value.and_then(|value| DeValue::parse(value).ok()).map(Spanned::into_inner);
        let value = value.filter(|it| it.is_integer() || it.is_float() || it.is_bool());
        let (Some(value), Some(slot)) = (value, text_at(&mut self.root, place)) else {
            return false;
        };
        *slot = value;
        true
    }

    /// The keys that lead to the value at `place`.
    pub(crate) fn path(&self, place: &Span) -> Vec<&str> {
        let mut path = Vec::new();
        lead_to(&self.root, place, &mut path);
        path
    }
}

/// Adds to `path` the keys that lead from `node` to `place`; false where it is not below.
fn lead_to<'n>(node: &'n Spanned<DeValue<'_>>, place: &Span, path: &mut Vec<&'n str>) -> bool {
    if node.span() == *place {
        return true;
    }
    match node.get_ref() {
        DeValue::Table(table) => table.iter().any(|(key, value)| {
            path.push(key.get_ref());
            let found = lead_to(value, place, path);
            if !found {
                path.pop();
            }
            found
        }),
        DeValue::Array(array) => array.iter().any(|value| lead_to(value, place, path)),
        _ => false,
    }
}

/// The text at `place`.
fn text_at<'n, 't>(
    node: &'n mut Spanned<DeValue<'t>>,
    place: &Span,
) -> Option<&'n mut DeValue<'t>> {
    if node.span() == *place && node.get_ref().is_str() {
        return Some(node.get_mut());
    }
    match node.get_mut() {
        DeValue::Table(table) => table.iter_mut().find_map(|(_, value)| text_at(value, place)),
        DeValue::Array(array) => array.iter_mut().find_map(|value| text_at(value, place)),
        _ => None,
    }
}

/// Puts variables into a tree.
struct Expansion<'a> {
    variables: &'a Variables<'a>,
    lone: Vec<(Span, String)>,
    problems: &'a mut Problems,
}

impl Expansion<'_> {
    /// Expands variables in `node`; false if one has no value, so that the node has to be removed.
    fn stays(&mut self, node: &mut Spanned<DeValue<'_>>) -> bool {
        let span = node.span();
        match node.get_mut() {
            DeValue::String(text) => return self.text(text, span),
            DeValue::Array(array) => {
                let before = array.len();
                let elements = std::mem::replace(array, DeArray::new()).into_iter();
                let kept = elements.filter_map(|mut it| self.stays(&mut it).then_some(it));
                *array = kept.collect::<DeArray<'_>>();
                if array.len() < before {
                    self.problems.damage(span);
                }
            }
            DeValue::Table(table) => {
                let entries = table.iter_mut();
                let lost = entries.filter_map(|(key, it)| (!self.stays(it)).then(|| key.clone()));
                let lost: Vec<_> = lost.collect();
                for key in &lost {
                    table.remove(key);
                    self.problems.damage(span.clone());
                }
            }
            _ => {}
        }
        true
    }

    fn text(&mut self, text: &mut Cow<'_, str>, span: Span) -> bool {
        match self.variables.put_into(text) {
            Ok(None) => {}
            Ok(Some(with)) => {
                if self.variables.value(text).is_some() {
                    self.lone.push((span, text.to_string()));
                }
                *text = Cow::Owned(with);
            }
            Err(complaint) => {
                self.problems.error(&span, complaint.message, "this", complaint.help);
                return false;
            }
        }
        true
    }
}

/// Puts the entries of `other` into `whole`: lists of the top go on, tables of the top are filled,
/// all else stands in one file.
fn merge<'t>(whole: &mut DeTable<'t>, other: DeTable<'t>, depth: usize, problems: &mut Problems) {
    for (key, value) in other {
        let Some(present) = whole.get_mut(&key) else {
            whole.insert(key, value);
            continue;
        };
        match (present.get_mut(), value.into_inner()) {
            (DeValue::Array(list), DeValue::Array(more)) if depth == 0 => {
                more.into_iter().for_each(|it| list.push(it));
            }
            (DeValue::Table(table), DeValue::Table(more)) if depth == 0 => {
                merge(table, more, depth + 1, problems);
            }
            _ => {
                let message = format!("`{}` stands in another file too", key.get_ref());
                problems.error(&key.span(), message, "a second time", "keep one of the two");
            }
        }
    }
}

fn shifted_table(table: DeTable<'_>, by: usize) -> DeTable<'_> {
    let mut moved = DeTable::new();
    for (key, value) in table {
        let span = key.span();
        let key = Spanned::new(span.start + by..span.end + by, key.into_inner());
        moved.insert(key, shifted(value, by));
    }
    moved
}

fn shifted(node: Spanned<DeValue<'_>>, by: usize) -> Spanned<DeValue<'_>> {
    let span = node.span();
    let value = match node.into_inner() {
        DeValue::Array(array) => {
            DeValue::Array(array.into_iter().map(|it| shifted(it, by)).collect::<DeArray<'_>>())
        }
        DeValue::Table(table) => DeValue::Table(shifted_table(table, by)),
        other => other,
    };
    Spanned::new(span.start + by..span.end + by, value)
}
