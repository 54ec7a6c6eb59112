//! One value or a list of them, each with its place.

use std::{borrow::Cow, fmt, iter, marker::PhantomData};

use loadline_spanned::{At, Complaint, Span, Text, Textual, read_text};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer,
    de::{Error, SeqAccess, Visitor},
};

/// A text, or a list of at least one, whose elements know where they stand.
#[derive(Clone, Debug)]
pub(crate) enum OneOrMore<T> {
    One(T),
    List(Vec<At<Text<T>>>),
}

impl<T> OneOrMore<T> {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        let (one, list) = match self {
            Self::One(value) => (Some(value), &[][..]),
            Self::List(list) => (None, list.as_slice()),
        };
        one.into_iter().chain(list.iter().map(|at| &at.value.0))
    }

    /// The same, to be changed.
    pub(crate) fn each_mut<'a>(
        &'a mut self,
        span: &'a Span,
    ) -> impl Iterator<Item = (&'a mut T, &'a Span)> {
        let (one, list) = match self {
            Self::One(value) => (Some((value, span)), Default::default()),
            Self::List(list) => (None, list.as_mut_slice()),
        };
        let list = list.iter_mut().map(|at| (&mut at.value.0, &at.span));
        one.into_iter().chain(list)
    }

    /// Each value with its place, where the whole is at `span`.
    pub(crate) fn each<'a>(&'a self, span: &'a Span) -> impl Iterator<Item = (&'a T, &'a Span)> {
        let places = match self {
            Self::One(_) => &[][..],
            Self::List(list) => list.as_slice(),
        };
        let places = places.iter().map(|at| &at.span).chain(iter::once(span));
        self.iter().zip(places)
    }
}

impl<'de, T: Textual> Deserialize<'de> for OneOrMore<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OneOrMoreVisitor(PhantomData))
    }
}

struct OneOrMoreVisitor<T>(PhantomData<T>);

impl<'de, T: Textual> Visitor<'de> for OneOrMoreVisitor<T> {
    type Value = OneOrMore<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, or a list", T::expected())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        read_text(text).map(OneOrMore::One)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut list = Vec::new();
        while let Some(one) = seq.next_element()? {
            list.push(one);
        }
        if list.is_empty() {
            let help = format!("write {}, or a list of them", T::expected());
            return Err(Complaint::new("an empty list", help).carried());
        }
        Ok(OneOrMore::List(list))
    }
}

impl<T: Textual> JsonSchema for OneOrMore<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "OneOrMore".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "oneOf": [T::schema(), { "type": "array", "items": T::schema(), "minItems": 1 }],
        })
    }
}
