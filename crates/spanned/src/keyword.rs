//! Keywords: a value that is one of a few words, each with its meaning.

use schemars::{Schema, json_schema};

use crate::{kind::FileKind, text::Complaint};

/// A value that is written as one of a few words in files of the kind `K`.
pub trait Keyword<K: FileKind>: Sized {
    /// What the words name, with an article.
    const WHAT: &'static str;

    /// Each word, what it stands for, and what it means.
    fn words() -> Vec<(&'static str, Self, &'static str)>;

    /// What is expected: the words.
    #[must_use]
    fn expected() -> String {
        let quoted = |(word, ..): (&str, _, _)| format!("\"{word}\"");
        let words: Vec<String> = Self::words().into_iter().map(quoted).collect();
        format!("{}: {}", Self::WHAT, words.join(", "))
    }

    /// What `text` stands for.
    ///
    /// # Errors
    /// The text is none of the words.
    fn find(text: &str) -> Result<Self, Complaint> {
        let mut words = Self::words();
        let names: Vec<&str> = words.iter().map(|(word, ..)| *word).collect();
        match names.iter().position(|word| *word == text) {
            Some(index) => Ok(words.swap_remove(index).1),
            None => {
                let message = format!("`{text}` is not {}", Self::WHAT);
                Err(Complaint::new(message, K::known(text, &names)))
            }
        }
    }

    /// The JSON Schema of the words.
    #[must_use]
    fn schema() -> Schema {
        let options: Vec<_> = Self::words()
            .into_iter()
            .map(|(word, _, meaning)| json_schema!({ "const": word, "description": meaning }))
            .collect();
        json_schema!({ "type": "string", "title": Self::WHAT, "oneOf": options })
    }
}
