//! Values with two forms: a word or a table, a word or `true`, a table or `false`.

use std::{borrow::Cow, fmt, marker::PhantomData};

use loadline_spanned::{Complaint, Textual, read_text};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, Visitor, value::MapAccessDeserializer},
};

/// A text, or a table that says more.
#[derive(Clone, Debug)]
pub(crate) enum TextOr<A, B> {
    Text(A),
    Table(B),
}

impl<'de, A: Textual, B: Deserialize<'de>> Deserialize<'de> for TextOr<A, B> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextOrVisitor(PhantomData))
    }
}

struct TextOrVisitor<A, B>(PhantomData<(A, B)>);

impl<'de, A: Textual, B: Deserialize<'de>> Visitor<'de> for TextOrVisitor<A, B> {
    type Value = TextOr<A, B>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, or a table", A::expected())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        read_text(text).map(TextOr::Text)
    }

    fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<Self::Value, M::Error> {
        B::deserialize(MapAccessDeserializer::new(map)).map(TextOr::Table)
    }
}

impl<A: Textual, B: JsonSchema> JsonSchema for TextOr<A, B> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("TextOr{}", B::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "oneOf": [A::schema(), generator.subschema_for::<B>()] })
    }
}

/// A text, or `true` for what is meant where nothing is said.
#[derive(Clone, Debug)]
pub(crate) enum TextOrTrue<A> {
    Text(A),
    True,
}

impl<'de, A: Textual> Deserialize<'de> for TextOrTrue<A> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextOrTrueVisitor(PhantomData))
    }
}

struct TextOrTrueVisitor<A>(PhantomData<A>);

impl<A: Textual> Visitor<'_> for TextOrTrueVisitor<A> {
    type Value = TextOrTrue<A>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "true, or {}", A::expected())
    }

    fn visit_bool<E: Error>(self, on: bool) -> Result<Self::Value, E> {
        if on { Ok(TextOrTrue::True) } else { Err(says_nothing()) }
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        read_text(text).map(TextOrTrue::Text)
    }
}

impl<A: Textual> JsonSchema for TextOrTrue<A> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "TextOrTrue".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "oneOf": [{ "const": true }, A::schema()] })
    }
}

/// A table, or `false` to switch off what it would set.
#[derive(Clone, Debug)]
pub(crate) enum TableOrFalse<B> {
    Table(B),
    False,
}

impl<'de, B: Deserialize<'de>> Deserialize<'de> for TableOrFalse<B> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TableOrFalseVisitor(PhantomData))
    }
}

struct TableOrFalseVisitor<B>(PhantomData<B>);

impl<'de, B: Deserialize<'de>> Visitor<'de> for TableOrFalseVisitor<B> {
    type Value = TableOrFalse<B>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table, or false")
    }

    fn visit_bool<E: Error>(self, on: bool) -> Result<Self::Value, E> {
        if on {
            let help = "leave the key out for the defaults, or write a table, or false";
            return Err(Complaint::new("`true` says nothing here", help).carried());
        }
        Ok(TableOrFalse::False)
    }

    fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<Self::Value, M::Error> {
        B::deserialize(MapAccessDeserializer::new(map)).map(TableOrFalse::Table)
    }
}

impl<B: JsonSchema> JsonSchema for TableOrFalse<B> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("{}OrFalse", B::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "oneOf": [{ "const": false }, generator.subschema_for::<B>()] })
    }
}

/// A table, or `true` for its defaults, or `false` to switch off what it would set.
#[derive(Clone, Debug)]
pub(crate) enum TableOrSwitch<B> {
    Table(B),
    Switch(bool),
}

impl<'de, B: Deserialize<'de>> Deserialize<'de> for TableOrSwitch<B> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TableOrSwitchVisitor(PhantomData))
    }
}

struct TableOrSwitchVisitor<B>(PhantomData<B>);

impl<'de, B: Deserialize<'de>> Visitor<'de> for TableOrSwitchVisitor<B> {
    type Value = TableOrSwitch<B>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("true, false, or a table")
    }

    fn visit_bool<E: Error>(self, on: bool) -> Result<Self::Value, E> {
        Ok(TableOrSwitch::Switch(on))
    }

    fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<Self::Value, M::Error> {
        B::deserialize(MapAccessDeserializer::new(map)).map(TableOrSwitch::Table)
    }
}

impl<B: JsonSchema> JsonSchema for TableOrSwitch<B> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("{}OrSwitch", B::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "oneOf": [{ "type": "boolean" }, generator.subschema_for::<B>()] })
    }
}

/// The value `true`, where nothing else makes sense.
#[derive(Clone, Copy, Debug)]
pub(crate) struct True;

impl<'de> Deserialize<'de> for True {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if bool::deserialize(deserializer)? {
            return Ok(Self);
        }
        Err(says_nothing())
    }
}

/// What is wrong with `false` where nothing is switched on.
fn says_nothing<E: Error>() -> E {
    Complaint::new("`false` says nothing here", "write true or leave the key out").carried()
}

impl JsonSchema for True {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "True".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "const": true, "title": "`true`" })
    }
}
