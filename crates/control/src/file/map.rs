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

/// A map, as `map` of nginx: the variable `$NAME`, whose value is looked up by another variable,
/// for headers that routes set, redirects (`location`) and rewrites. Entries are in `values`, in
/// `file`, or in both. Keys are case-sensitive; `$host` is in lower case.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[schemars(extend("required" = ["of"]))]
pub(crate) struct Map {
    /// The text that is looked up, with variables of the request. The path is decoded and without
    /// `.` and `..`, as routes compare it.
    #[schemars(extend("examples" = ["$host"]))]
    pub(crate) of: Key<Text<HeaderTemplate>>,
    /// How the text of `of` is compared with the keys.
    #[schemars(extend("default" = "exact"))]
    pub(crate) kind: Key<Text<Word<MapKind>>>,
    /// Values by key.
    #[schemars(extend("examples" = [{ "blog.example.com": "blog" }], "propertyNames" = {}))]
    pub(crate) values: Key<Named<Text<HeaderText>>>,
    /// A file with an entry on each line: the key, spaces, and the value, which is the rest of the
    /// line. A line that begins with `#` is a comment. A reload reads the file again.
    #[schemars(extend("examples" = ["/etc/loadline/hosts.map"]))]
    pub(crate) file: Key<Text<FilePath>>,
    /// The value if no key matches.
    #[schemars(extend("default" = ""))]
    pub(crate) default: Key<Text<HeaderText>>,
}
