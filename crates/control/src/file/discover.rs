//! Groups whose servers are found out, in the file.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::{
    place::Key,
    value::{label::FilePath, text::Text},
};

/// Where the servers of a group are listed. The list is followed: who comes is given requests, who
/// goes is given no more, and what is under way there ends. A list that cannot be had or read
/// changes nothing.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[schemars(extend("required" = ["file"]))]
pub(crate) struct Discover {
    /// A file of TOML, or of JSON where its name ends in `.json`, with the key `servers`:
    /// addresses, or tables of `address`, `weight` and `priority`.
    #[schemars(extend("examples" = ["/etc/loadline/web.json"]))]
    pub(crate) file: Key<Text<FilePath>>,
    /// Whether a list without servers is taken. It is refused otherwise, since it mostly is a
    /// mistake.
    #[schemars(extend("default" = false))]
    pub(crate) allow_empty: Key<bool>,
}
