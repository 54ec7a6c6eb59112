//! Values that know where in the file they stand, and tables whose keys the user chose.

use std::{fmt, marker::PhantomData, ops::Range};

use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer},
};
use serde_spanned::Spanned;

/// Bytes of the file, from the first to one past the last.
pub(crate) type Span = Range<usize>;

/// Text and its place.
pub(crate) type Text = Spanned<String>;

/// A table whose keys are names the user chose, in the order of the file.
#[derive(Clone, Debug)]
pub(crate) struct Named<T>(pub(crate) Vec<(Text, Spanned<T>)>);

impl<T> Default for Named<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Named<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(NamedVisitor(PhantomData))
    }
}

struct NamedVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for NamedVisitor<T> {
    type Value = Named<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry::<Text, Spanned<T>>()? {
            entries.push(entry);
        }
        // The TOML reader hands tables over in the order of the alphabet.
        entries.sort_by_key(|(name, _)| name.span().start);
        Ok(Named(entries))
    }
}

/// A number or text, kept as text: what stands in argument lists and sweeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Word(pub(crate) String);

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WordVisitor)
    }
}

struct WordVisitor;

impl Visitor<'_> for WordVisitor {
    type Value = Word;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text in quotes or a number")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Word, E> {
        Ok(Word(text.to_owned()))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Word, E> {
        Ok(Word(number.to_string()))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Word, E> {
        Ok(Word(number.to_string()))
    }
}

/// One text or a list of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct OneOrMore(pub(crate) Vec<String>);

impl<'de> Deserialize<'de> for OneOrMore {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OneOrMoreVisitor)
    }
}

struct OneOrMoreVisitor;

impl<'de> Visitor<'de> for OneOrMoreVisitor {
    type Value = OneOrMore;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text in quotes or a list of texts")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<OneOrMore, E> {
        Ok(OneOrMore(vec![text.to_owned()]))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<OneOrMore, A::Error> {
        let mut texts = Vec::new();
        while let Some(text) = seq.next_element()? {
            texts.push(text);
        }
        Ok(OneOrMore(texts))
    }
}

/// A value for every row, or a table with one for each.
#[derive(Clone, Debug)]
pub(crate) enum ByRow<T> {
    /// The same for all.
    All(T),
    /// By the name of the row.
    Each(Named<T>),
}

impl<T: Clone> ByRow<T> {
    /// The value for a row.
    pub(crate) fn of(&self, row: &str) -> Option<T> {
        match self {
            Self::All(value) => Some(value.clone()),
            Self::Each(rows) => {
                let found = rows.0.iter().find(|(name, _)| name.get_ref() == row);
                found.map(|(_, value)| value.get_ref().clone())
            }
        }
    }

    /// The names of rows in it, with their places.
    pub(crate) fn rows(&self) -> impl Iterator<Item = &Text> {
        let rows = match self {
            Self::All(_) => &[][..],
            Self::Each(rows) => &rows.0,
        };
        rows.iter().map(|(name, _)| name)
    }
}

impl<'de> Deserialize<'de> for ByRow<f64> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ByRowVisitor)
    }
}

struct ByRowVisitor;

impl<'de> Visitor<'de> for ByRowVisitor {
    type Value = ByRow<f64>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, or a table with one for each row: { loadline = 123, direct = 230 }")
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Self::Value, E> {
        Ok(ByRow::All(number as f64))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Self::Value, E> {
        Ok(ByRow::All(number))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        Named::deserialize(MapAccessDeserializer::new(map)).map(ByRow::Each)
    }
}
