//! The values of a file, as serde reads them.
//!
//! toml's own deserializer hands over a table in four ways (as it is, as a date, with its place,
//! with its place and as a date), and each way is a copy of the code of every type that a file
//! may hold: megabytes. This one has one way, and calls of a visitor only what was asked for.

use std::{fmt, vec};

use serde::{
    Deserialize, Deserializer,
    de::{
        DeserializeSeed, Error as _, IntoDeserializer as _, MapAccess, SeqAccess, Unexpected,
        Visitor,
    },
    forward_to_deserialize_any,
};
use serde_spanned::Spanned;
use toml::de::{DeArray, DeString, DeTable, DeValue};

use crate::place::Span;

/// Reads a `T` from a value of a file.
///
/// # Errors
/// The first fault, with its place.
pub(crate) fn deserialize<'t, T: Deserialize<'t>>(
    value: Spanned<DeValue<'t>>,
) -> Result<T, ReadError> {
    T::deserialize(Node(value))
}

/// What the name of a tuple struct has to be so that its fields are the first byte of a value, the
/// byte past its last, and the value.
pub(crate) const PLACED: &str = "$loadline_placed";

/// Why a value cannot be read, and where it stands.
#[derive(Debug)]
pub(crate) struct ReadError(Box<(String, Option<Span>)>);

impl ReadError {
    pub(crate) fn message(&self) -> &str {
        &self.0.0
    }

    pub(crate) fn span(&self) -> Option<Span> {
        self.0.1.clone()
    }

    /// The same at `span`, if it has no place yet.
    fn at(mut self, span: Span) -> Self {
        self.0.1.get_or_insert(span);
        self
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl std::error::Error for ReadError {}

impl serde::de::Error for ReadError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(Box::new((message.to_string(), None)))
    }
}

/// A value, or a key as the text that it is.
struct Node<'de>(Spanned<DeValue<'de>>);

impl<'de> Node<'de> {
    fn key(key: Spanned<DeString<'de>>) -> Self {
        let span = key.span();
        Self(Spanned::new(span, DeValue::String(key.into_inner())))
    }

    /// What `read` makes of the value; an error that has no place has this one.
    fn read<T>(
        self,
        read: impl FnOnce(DeValue<'de>) -> Result<T, ReadError>,
    ) -> Result<T, ReadError> {
        let span = self.0.span();
        read(self.0.into_inner()).map_err(|error| error.at(span))
    }

    fn number<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        self.read(|value| match number(&value) {
            Some(Unexpected::Signed(number)) => visitor.visit_i64(number),
            Some(Unexpected::Unsigned(number)) => visitor.visit_u64(number),
            Some(Unexpected::Float(number)) => visitor.visit_f64(number),
            _ => Err(unlike(&value, &visitor)),
        })
    }

    fn text<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        self.read(|value| match value {
            DeValue::String(text) => visitor.visit_str(&text),
            other => Err(unlike(&other, &visitor)),
        })
    }

    fn table<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        self.read(|value| match value {
            DeValue::Table(table) => visitor.visit_map(Entries::of(table)),
            other => Err(unlike(&other, &visitor)),
        })
    }

    fn list<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        self.read(|value| match value {
            DeValue::Array(list) => visitor.visit_seq(Elements::of(list)),
            other => Err(unlike(&other, &visitor)),
        })
    }
}

/// A number, of the kind that holds it; none where it is no number, or one too large for all kinds.
fn number(value: &DeValue<'_>) -> Option<Unexpected<'static>> {
    match value {
        DeValue::Integer(number) => {
            let (digits, radix) = (number.as_str(), number.radix());
            let signed = i64::from_str_radix(digits, radix).map(Unexpected::Signed);
            signed.or_else(|_| u64::from_str_radix(digits, radix).map(Unexpected::Unsigned)).ok()
        }
        DeValue::Float(number) => {
            let finite = |it: &f64| it.is_finite() || number.as_str().contains(['i', 'n']);
            number.as_str().parse().ok().filter(finite).map(Unexpected::Float)
        }
        _ => None,
    }
}

/// That `value` is not what `visitor` expects.
fn unlike<'de, V: Visitor<'de>>(value: &DeValue<'_>, visitor: &V) -> ReadError {
    let found = match value {
        DeValue::String(text) => Unexpected::Str(text),
        DeValue::Integer(_) | DeValue::Float(_) => {
            number(value).unwrap_or(Unexpected::Other("a number out of range"))
        }
        DeValue::Boolean(value) => Unexpected::Bool(*value),
        DeValue::Datetime(_) => Unexpected::Other("a date"),
        DeValue::Array(_) => Unexpected::Other("a list"),
        DeValue::Table(_) => Unexpected::Other("a table"),
    };
    ReadError::invalid_type(found, visitor)
}

macro_rules! read_as {
    ($way:ident: $($method:ident)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
            self.$way(visitor)
        })*
    };
}

impl<'de> Deserializer<'de> for Node<'de> {
    type Error = ReadError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self.0.get_ref() {
            DeValue::String(_) => self.text(visitor),
            DeValue::Integer(_) | DeValue::Float(_) => self.number(visitor),
            DeValue::Boolean(value) => {
                let value = *value;
                self.read(|_| visitor.visit_bool(value))
            }
            DeValue::Datetime(_) => self.read(|value| Err(unlike(&value, &visitor))),
            DeValue::Array(_) => self.list(visitor),
            DeValue::Table(_) => self.table(visitor),
        }
    }

    read_as! { number: deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
    deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_f32 deserialize_f64 }
    read_as! { text: deserialize_str deserialize_string deserialize_char deserialize_identifier }
    read_as! { table: deserialize_map }
    read_as! { list: deserialize_seq }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        visitor.visit_some(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        self.table(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        self.list(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        let span = self.0.span();
        match name {
            PLACED => {
                let place = [span.end, span.start].map(Some);
                visitor.visit_seq(Placed { place, value: Some(self) })
            }
            _ => self.list(visitor),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        self.read(|value| match value {
            DeValue::String(text) => visitor.visit_enum(text.into_deserializer()),
            other => Err(unlike(&other, &visitor)),
        })
    }

    forward_to_deserialize_any! {
        bool i128 u128 bytes byte_buf unit unit_struct ignored_any
    }
}

/// What `seed` makes of a value; an error that has no place has that of the value.
fn element<'de, S: DeserializeSeed<'de>>(seed: S, value: Node<'de>) -> Result<S::Value, ReadError> {
    let span = value.0.span();
    seed.deserialize(value).map_err(|error| error.at(span))
}

/// The entries of a table, by their keys.
struct Entries<'de> {
    rest: toml::map::IntoIter<Spanned<DeString<'de>>, Spanned<DeValue<'de>>>,
    value: Option<Spanned<DeValue<'de>>>,
}

impl<'de> Entries<'de> {
    fn of(table: DeTable<'de>) -> Self {
        Self { rest: table.into_iter(), value: None }
    }
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = ReadError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, ReadError> {
        let Some((key, value)) = self.rest.next() else { return Ok(None) };
        self.value = Some(value);
        element(seed, Node::key(key)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, ReadError> {
        match self.value.take() {
            Some(value) => element(seed, Node(value)),
            None => Err(ReadError::custom("a value was asked for before its key")),
        }
    }
}

/// The elements of a list.
struct Elements<'de>(vec::IntoIter<Spanned<DeValue<'de>>>);

impl<'de> Elements<'de> {
    fn of(list: DeArray<'de>) -> Self {
        Self(list.into_iter())
    }
}

impl<'de> SeqAccess<'de> for Elements<'de> {
    type Error = ReadError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, ReadError> {
        self.0.next().map(|value| element(seed, Node(value))).transpose()
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.0.len())
    }
}

/// A value after its place.
struct Placed<'de> {
    /// What is left of the place, the last first.
    place: [Option<usize>; 2],
    value: Option<Node<'de>>,
}

impl<'de> SeqAccess<'de> for Placed<'de> {
    type Error = ReadError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, ReadError> {
        let [end, start] = &mut self.place;
        if let Some(byte) = start.take().or_else(|| end.take()) {
            return seed.deserialize(byte.into_deserializer()).map(Some);
        }
        self.value.take().map(|value| seed.deserialize(value)).transpose()
    }
}
