//! Stores of objects in the file.

use loadline_spanned::{Key, Text};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::value::store::{IndexName, StoreUrl};

/// A store with settings besides its URL.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[schemars(extend("required" = ["url"]))]
pub(crate) struct Store {
    /// Where the objects are: `file:///srv/www` is files below a directory of this machine. Paths
    /// of requests continue it.
    pub(crate) url: Key<Text<StoreUrl>>,
    /// The name that is appended to a path which ends with a slash.
    #[schemars(extend("default" = "index.html"))]
    pub(crate) index: Key<Text<IndexName>>,
}
