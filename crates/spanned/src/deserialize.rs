//! The values of a file, as serde reads them.
//!
//! toml's own deserializer hands over a table in four ways (as it is, as a date, with its place,
//! with its place and as a date), and each way is a copy of the code of every type that a file
//! may hold: megabytes. This one has one way, and calls of a visitor only what was asked for.

use std::{fmt, mem::replace, vec};

use serde::{
    Deserialize, Deserializer,
    de::{
        DeserializeSeed, Error as _, Expected, IntoDeserializer as _, MapAccess, SeqAccess,
        Unexpected, Visitor,
    },
    forward_to_deserialize_any,
};
use serde_spanned::Spanned;
use toml::de::{DeString, DeValue};

use crate::place::{Span, packed};

/// Reads a `T` from a value of a file.
///
/// # Errors
/// The first fault, with its place.
pub(crate) fn deserialize<'t, T: Deserialize<'t>>(
    value: Spanned<DeValue<'t>>,
) -> Result<T, ReadError> {
    T::deserialize(Node(value))
}

/// What the name of a tuple struct has to be so that its fields are the place of a value,
/// [`packed`], and the value. Files have no other tuple structs.
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

    fn number<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        let (number, span) = self.into_number(&visitor)?;
        let read = match number {
            Unexpected::Signed(number) => visitor.visit_i64(number),
            Unexpected::Unsigned(number) => visitor.visit_u64(number),
            Unexpected::Float(number) => visitor.visit_f64(number),
            other => Err(ReadError::invalid_type(other, &visitor)),
        };
        at(read, span)
    }

    fn text<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        let (text, span) = self.into_text(&visitor)?;
        at(visitor.visit_str(&text), span)
    }

    fn table<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        let (entries, span) = self.into_entries(&visitor)?;
        at(visitor.visit_map(entries), span)
    }

    fn list<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        let (elements, span) = self.into_elements(&visitor)?;
        at(visitor.visit_seq(elements), span)
    }

    // What follows is no copy for each type that is read.

    fn into_number(
        self,
        expected: &dyn Expected,
    ) -> Result<(Unexpected<'static>, Span), ReadError> {
        match number(self.0.get_ref()) {
            Some(number) => Ok((number, self.0.span())),
            None => Err(self.unlike(expected)),
        }
    }

    fn into_text(self, expected: &dyn Expected) -> Result<(DeString<'de>, Span), ReadError> {
        let span = self.0.span();
        match self.0.into_inner() {
            DeValue::String(text) => Ok((text, span)),
            other => Err(Self(Spanned::new(span, other)).unlike(expected)),
        }
    }

    fn into_entries(self, expected: &dyn Expected) -> Result<(Entries<'de>, Span), ReadError> {
        let span = self.0.span();
        match self.0.into_inner() {
            DeValue::Table(table) => Ok((Entries { rest: table.into_iter(), value: None }, span)),
            other => Err(Self(Spanned::new(span, other)).unlike(expected)),
        }
    }

    fn into_elements(self, expected: &dyn Expected) -> Result<(Elements<'de>, Span), ReadError> {
        let span = self.0.span();
        match self.0.into_inner() {
            DeValue::Array(list) => Ok((Elements(list.into_iter()), span)),
            other => Err(Self(Spanned::new(span, other)).unlike(expected)),
        }
    }

    /// An error: the value is not of the expected type.
    fn unlike(&self, expected: &dyn Expected) -> ReadError {
        let found = match self.0.get_ref() {
            DeValue::String(text) => Unexpected::Str(text),
            value @ (DeValue::Integer(_) | DeValue::Float(_)) => {
                number(value).unwrap_or(Unexpected::Other("a number out of range"))
            }
            DeValue::Boolean(value) => Unexpected::Bool(*value),
            DeValue::Datetime(_) => Unexpected::Other("a date"),
            DeValue::Array(_) => Unexpected::Other("a list"),
            DeValue::Table(_) => Unexpected::Other("a table"),
        };
        ReadError::invalid_type(found, expected).at(self.0.span())
    }
}

/// The result; an error without a place gets this one.
fn at<T>(read: Result<T, ReadError>, span: Span) -> Result<T, ReadError> {
    match read {
        Ok(value) => Ok(value),
        Err(error) => Err(error.at(span)),
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
            DeValue::Boolean(value) => at(visitor.visit_bool(*value), self.0.span()),
            DeValue::Datetime(_) => Err(self.unlike(&visitor)),
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
        match name {
            PLACED => visitor.visit_seq(Placed { is_told: false, value: Some(self) }),
            _ => Err(self.unlike(&visitor)),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        let (text, span) = self.into_text(&visitor)?;
        at(visitor.visit_enum(text.into_deserializer()), span)
    }

    forward_to_deserialize_any! {
        bool i128 u128 bytes byte_buf unit unit_struct ignored_any
    }
}

/// What `seed` makes of a value; an error that has no place has that of the value.
fn element<'de, S: DeserializeSeed<'de>>(seed: S, value: Node<'de>) -> Result<S::Value, ReadError> {
    let span = value.0.span();
    at(seed.deserialize(value), span)
}

/// The entries of a table, by their keys.
struct Entries<'de> {
    rest: toml::map::IntoIter<Spanned<DeString<'de>>, Spanned<DeValue<'de>>>,
    value: Option<Spanned<DeValue<'de>>>,
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = ReadError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, ReadError> {
        let Some((key, value)) = self.rest.next() else { return Ok(None) };
        self.value = Some(value);
        Ok(Some(element(seed, Node::key(key))?))
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

impl<'de> SeqAccess<'de> for Elements<'de> {
    type Error = ReadError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, ReadError> {
        let Some(value) = self.0.next() else { return Ok(None) };
        Ok(Some(element(seed, Node(value))?))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.0.len())
    }
}

/// A value after its place.
struct Placed<'de> {
    is_told: bool,
    value: Option<Node<'de>>,
}

impl<'de> SeqAccess<'de> for Placed<'de> {
    type Error = ReadError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, ReadError> {
        if let (false, Some(value)) = (replace(&mut self.is_told, true), &self.value) {
            let place = packed(&value.0.span()).into_deserializer();
            return Ok(Some(seed.deserialize(place)?));
        }
        let Some(value) = self.value.take() else { return Ok(None) };
        Ok(Some(seed.deserialize(value)?))
    }
}
