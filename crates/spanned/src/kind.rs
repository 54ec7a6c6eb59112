//! Kinds of files: what messages and help texts say of one beyond what its types say.

use crate::suggest::known;

/// A kind of file.
pub trait FileKind {
    /// What messages call it: "configuration".
    const NAME: &'static str;
    /// Where all that is allowed in it is described.
    const REFERENCE: &'static str;

    /// A help text for a word that is none of `names`.
    #[must_use]
    fn known(typed: &str, names: &[&str]) -> String {
        known(typed, names)
    }

    /// A help text for a key where only `names` may stand.
    #[must_use]
    fn key(typed: &str, names: &[&str]) -> String {
        Self::known(typed, names)
    }

    /// The text of such a file as its errors show it: of the same length, without secrets.
    #[must_use]
    fn shown(text: String) -> String {
        text
    }

    /// Whether the value to which these keys lead, from the top of the file on, is a secret, which
    /// messages do not have.
    #[must_use]
    fn is_secret(_path: &[&str]) -> bool {
        false
    }

    /// How the key to which these keys lead, from the top of the file on, may be written as a
    /// table; none where that is not known.
    #[must_use]
    fn table(_path: &[&str]) -> Option<&'static str> {
        None
    }
}
