//! Values written as quoted text: quantities, words, addresses, names.

use std::{borrow::Cow, fmt, marker::PhantomData};

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{
    Deserialize, Deserializer,
    de::{Error, Visitor},
};

/// A value that is read from text.
pub(crate) trait Textual: Sized {
    /// What is expected, with an article and an example: "a duration like \"500ms\"".
    fn expected() -> String;

    /// Reads the text.
    fn read(text: &str) -> Result<Self, Complaint>;

    /// The JSON Schema of the text.
    fn schema() -> Schema;
}

/// What is wrong with a value, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Complaint {
    pub(crate) message: String,
    pub(crate) help: String,
}

impl Complaint {
    pub(crate) fn new(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { message: message.into(), help: help.into() }
    }

    /// The two halves of a complaint that travelled through serde as one text.
    pub(crate) fn from_carried(text: &str) -> Option<Self> {
        let (message, help) = text.split_once(CARRIED)?;
        Some(Self::new(message, help))
    }

    /// As an error of serde, which carries nothing but text.
    pub(crate) fn carried<E: Error>(&self) -> E {
        E::custom(format_args!("{}{CARRIED}{}", self.message, self.help))
    }
}

/// A value that stands in the file as text.
#[derive(Clone, Debug)]
pub(crate) struct Text<T>(pub(crate) T);

impl<'de, T: Textual> Deserialize<'de> for Text<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextVisitor(PhantomData))
    }
}

struct TextVisitor<T>(PhantomData<T>);

impl<T: Textual> Visitor<'_> for TextVisitor<T> {
    type Value = Text<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&T::expected())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        T::read(text).map(Text).map_err(|complaint| complaint.carried())
    }
}

impl<T: Textual> JsonSchema for Text<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Text".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        T::schema()
    }
}

/// Parts message and help: a character that no message holds.
const CARRIED: char = '\u{1f}';
