//! The administration in the file: where it listens, who may change things.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::{
    admin::Detail,
    place::{At, Key},
    value::{
        address::AdminPlace,
        label::{FilePath, Host},
        text::Text,
        word::Word,
    },
};

/// Metrics, API and dashboard. There are none if omitted.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[schemars(extend("required" = ["bind"]))]
pub(crate) struct Admin {
    /// Where it listens, in clear: an address, better of the loopback, or the path of a Unix
    /// socket, which its owner alone may use. A change needs a restart.
    pub(crate) bind: Key<Text<AdminPlace>>,
    /// The file whose first line is the token that changes need. One is made and printed at each
    /// start if omitted.
    pub(crate) token_file: Key<Text<FilePath>>,
    /// Names by which it may be called besides its addresses and `localhost`. Others are refused,
    /// so that no page from elsewhere reads it through somebody's browser.
    #[schemars(extend("examples" = [["edge-1.internal"]]))]
    pub(crate) hosts: Key<Vec<At<Text<Host>>>>,
    /// Which series `/metrics` has. A change needs a restart.
    #[schemars(extend("default" = "servers"))]
    pub(crate) metrics: Key<Text<Word<Detail>>>,
}
