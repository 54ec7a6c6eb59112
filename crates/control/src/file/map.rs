//! Maps in the file: variables that are looked up.

use loadline_core::rules::MapKind;
use loadline_spanned::{Key, Named, Text};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::value::{
    label::FilePath,
    pattern::{HeaderTemplate, HeaderText},
    word::Word,
};

/// A variable whose value is looked up: `$NAME` in headers that routes set, and in the `location`
/// of a redirect. Entries are in `values`, in `file`, or in both. Case matters; `$host` is in lower
/// case.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[schemars(extend("required" = ["of"]))]
pub(crate) struct Map {
    /// What is looked up: a text with variables of the request. The path is decoded and without
    /// `.` and `..`, as routes compare it.
    #[schemars(extend("examples" = ["$host"]))]
    pub(crate) of: Key<Text<HeaderTemplate>>,
    /// How it is compared with the keys.
    #[schemars(extend("default" = "exact"))]
    pub(crate) kind: Key<Text<Word<MapKind>>>,
    /// Values by key.
    #[schemars(extend("examples" = [{ "blog.example.com": "blog" }], "propertyNames" = {}))]
    pub(crate) values: Key<Named<Text<HeaderText>>>,
    /// A file with an entry a line: the key, spaces, and the value, which is the rest of the line.
    /// A line that begins with `#` is a comment. It is read again at a reload.
    #[schemars(extend("examples" = ["/etc/loadline/hosts.map"]))]
    pub(crate) file: Key<Text<FilePath>>,
    /// The value where no key matches.
    #[schemars(extend("default" = ""))]
    pub(crate) default: Key<Text<HeaderText>>,
}
