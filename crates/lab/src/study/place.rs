//! Values of a study that have more than one form.

use std::fmt;

use loadline_spanned::{At, Named};
use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer},
};

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
                let found = rows.iter().find(|(name, _)| name.value == row);
                found.map(|(_, at)| at.value.clone())
            }
        }
    }

    /// The names of rows in it, with their places.
    pub(crate) fn rows(&self) -> impl Iterator<Item = &At<String>> {
        let rows = match self {
            Self::All(_) => None,
            Self::Each(rows) => Some(rows),
        };
        rows.into_iter().flat_map(Named::iter).map(|(name, _)| name)
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
