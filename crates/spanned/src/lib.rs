//! TOML with places: a file into a type of serde, and errors that point into it.
//!
//! ```text
//! path --load--> text --read--> At<File> --meaning--> what the file says
//!                  |               |            |
//!                  +----------- Problems -------+--settle--> warnings, or FileErrors
//! ```
//! A file type is made of [`At`], [`Key`] and [`Named`], which know where they stand; its values
//! of [`Text`], whose errors say what would be right. All errors of a file are collected in
//! [`Problems`] and reported together.
#![forbid(unsafe_code)]

mod deserialize;
mod excerpt;
mod keyword;
mod kind;
mod place;
mod problem;
mod read;
mod suggest;
mod text;
mod tree;
mod variables;

pub use keyword::Keyword;
pub use kind::FileKind;
pub use place::{At, Key, NAME_PATTERN, Named, Span};
pub use problem::{FileError, FileErrors, Problems, SHOWN_MAX, Source};
pub use read::{decoded, load, read, read_parts, texts_of};
pub use suggest::{expected, known, nearest};
pub use text::{Complaint, Text, Textual, VARIABLES_HELP, has_variable, read_text};
pub use variables::LookUp;
