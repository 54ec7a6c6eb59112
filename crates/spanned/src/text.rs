//! Values written as quoted text: quantities, words, addresses, names.

use std::{borrow::Cow, fmt, marker::PhantomData};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer,
    de::{Error, Visitor},
};

/// A value that is read from text.
pub trait Textual: Sized {
    /// What is expected, with an article and an example: "a duration like \"500ms\"".
    const EXPECTED: &'static str = "a text";

    /// What it is called in the JSON Schema.
    const TITLE: &'static str = "a text";

    /// A regular expression that fits every right text.
    const PATTERN: Option<&'static str> = None;

    /// Some right texts.
    const EXAMPLES: &'static [&'static str] = &[];

    /// The fewest characters it has.
    const LENGTH_MIN: usize = 0;

    /// [`EXPECTED`](Self::EXPECTED), where that needs no computing.
    #[must_use]
    fn expected() -> String {
        Self::EXPECTED.to_owned()
    }

    /// Reads the text.
    ///
    /// # Errors
    /// What is wrong with it.
    fn read(text: &str) -> Result<Self, Complaint>;

    /// The JSON Schema of the text.
    #[must_use]
    fn schema() -> Schema {
        let mut schema = json_schema!({ "type": "string", "title": Self::TITLE });
        if let Some(pattern) = Self::PATTERN {
            schema.insert("pattern".to_owned(), pattern.into());
        }
        if !Self::EXAMPLES.is_empty() {
            schema.insert("examples".to_owned(), Self::EXAMPLES.into());
        }
        if Self::LENGTH_MIN > 0 {
            schema.insert("minLength".to_owned(), Self::LENGTH_MIN.into());
        }
        schema
    }
}

/// What is wrong with a value, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// What is wrong.
    pub message: String,
    /// What would be right.
    pub help: String,
}

impl Complaint {
    /// A complaint of these two texts.
    pub fn new(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { message: message.into(), help: help.into() }
    }

    /// The two halves of a complaint that travelled through serde as one text.
    pub(crate) fn from_carried(text: &str) -> Option<Self> {
        let (message, help) = text.split_once(CARRIED)?;
        Some(Self::new(message, help))
    }

    /// The same about `text`, whose writer may have meant something to be put into it.
    fn about(self, text: &str) -> Self {
        if has_variable(text) { Self::new(self.message, VARIABLES_HELP) } else { self }
    }

    /// As an error of serde, which carries nothing but text.
    #[must_use]
    pub fn carried<E: Error>(&self) -> E {
        E::custom(format_args!("{}{CARRIED}{}", self.message, self.help))
    }
}

/// Whether something like `${NAME}` or `$NAME` stands in `text`.
#[must_use]
pub fn has_variable(text: &str) -> bool {
    let bare = text.strip_prefix('$').and_then(|rest| rest.chars().next());
    text.contains("${") || bare.is_some_and(|c| c.is_ascii_uppercase())
}

/// What to do where a variable stands.
pub const VARIABLES_HELP: &str = "an environment variable is written \"${NAME}\" in a \
                                         configuration, in quotes, and in no other file";

/// Reads a value that stands in the file as text.
///
/// # Errors
/// What is wrong with it, as an error of serde.
pub fn read_text<T: Textual, E: Error>(text: &str) -> Result<T, E> {
    T::read(text).map_err(|complaint| complaint.about(text).carried())
}

/// A value that stands in the file as text.
#[derive(Clone, Debug)]
pub struct Text<T>(pub T);

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
        read_text(text).map(Text)
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
