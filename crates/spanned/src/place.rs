//! Values that know where in the file they stand.
//!
//! A file type is read with [`At`] round whatever an error may have to point at, [`Key`] for a key
//! that may be absent, and [`Named`] for a table whose keys the user chose.

use std::{borrow::Cow, fmt, marker::PhantomData, ops::Range};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer,
    de::{Error as _, MapAccess, SeqAccess, Visitor},
};

use crate::deserialize::PLACED;

/// Bytes of the file, from the first to one past the last.
pub type Span = Range<usize>;

/// A value and its place.
#[derive(Clone, Debug)]
pub struct At<T> {
    /// What stands there.
    pub value: T,
    /// Where it stands.
    pub span: Span,
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for At<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_tuple_struct(PLACED, 2, PlacedVisitor(PhantomData))
    }
}

struct PlacedVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for PlacedVisitor<T> {
    type Value = At<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of a file")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut placed: A) -> Result<At<T>, A::Error> {
        let (Some(place), Some(value)) = (placed.next_element()?, placed.next_element()?) else {
            return Err(A::Error::invalid_length(0, &self));
        };
        Ok(At { value, span: unpacked(place) })
    }
}

/// A place as one number: the code that reads two is copied for every type of a file. Files are
/// shorter than 4 GiB.
pub(crate) const fn packed(span: &Span) -> u64 {
    (span.start as u64) << 32 | span.end as u64
}

const fn unpacked(place: u64) -> Span {
    (place >> 32) as usize..(place & 0xffff_ffff) as usize
}

impl<T: JsonSchema> JsonSchema for At<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

/// A key of the file that may be absent. Tables have dozens of them, of which a file of thousands
/// of tables gives two or three: so what is given is apart.
#[derive(Clone, Debug)]
pub struct Key<T>(Option<Box<At<T>>>);

impl<T> Key<T> {
    /// The value and its place, where the file has the key.
    #[must_use]
    pub fn at(&self) -> Option<&At<T>> {
        self.0.as_deref()
    }

    /// The value, where the file has the key.
    #[must_use]
    pub fn get(&self) -> Option<&T> {
        self.0.as_ref().map(|at| &at.value)
    }

    /// The value, to be changed.
    pub fn get_mut(&mut self) -> Option<&mut T> {
        self.at_mut().map(|at| &mut at.value)
    }

    /// The value, to be changed, and its place.
    pub fn at_mut(&mut self) -> Option<&mut At<T>> {
        self.0.as_deref_mut()
    }

    /// Whether the file has the key.
    #[must_use]
    pub fn given(&self) -> bool {
        self.0.is_some()
    }

    /// The place of the value, or of the table where the key is absent.
    #[must_use]
    pub fn place_or(&self, table: &Span) -> Span {
        self.0.as_ref().map_or_else(|| table.clone(), |at| at.span.clone())
    }
}

impl<T> Default for Key<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Key<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::deserialize(deserializer).map(|at| Self(Some(at)))
    }
}

impl<T: JsonSchema> JsonSchema for Key<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

/// A table whose keys are names the user chose, in the order of the file.
#[derive(Clone, Debug)]
pub struct Named<T>(Vec<(At<String>, At<T>)>);

impl<T> Named<T> {
    /// Each name with what it names.
    pub fn iter(&self) -> std::slice::Iter<'_, (At<String>, At<T>)> {
        self.0.iter()
    }

    /// Whether nothing is named.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What is named, to be changed.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut At<T>> {
        self.0.iter_mut().map(|(_, value)| value)
    }
}

impl<'n, T> IntoIterator for &'n Named<T> {
    type Item = &'n (At<String>, At<T>);
    type IntoIter = std::slice::Iter<'n, (At<String>, At<T>)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

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
        while let Some(entry) = map.next_entry::<At<String>, At<T>>()? {
            entries.push(entry);
        }
        // The TOML reader hands tables over in the order of the alphabet.
        entries.sort_by_key(|(name, _)| name.span.start);
        Ok(Named(entries))
    }
}

impl<T: JsonSchema> JsonSchema for Named<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("NamedTableOf{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "propertyNames": { "pattern": NAME_PATTERN },
            "additionalProperties": generator.subschema_for::<T>(),
        })
    }
}

/// What a name may be made of: it appears in log lines and in labels of metrics.
pub const NAME_PATTERN: &str = "^[A-Za-z0-9._-]+$";
