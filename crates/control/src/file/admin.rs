//! The administration in the file: where it listens, who may change things.

use loadline_spanned::{At, Key, Text};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{
    admin::Detail,
    value::{
        address::AdminPlace,
        label::{FilePath, Host},
        word::Word,
    },
};

/// The admin interface: metrics, API and dashboard. Off if omitted.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[schemars(extend("required" = ["bind"]))]
pub(crate) struct Admin {
    /// Address to listen on, without TLS, preferably of the loopback interface; or the path of a
    /// Unix socket, which only its owner may use. A change needs a restart.
    pub(crate) bind: Key<Text<AdminPlace>>,
    /// File whose first line is the token that changes need. If omitted, a token is generated and
    /// printed at each start. A change needs a restart.
    pub(crate) token_file: Key<Text<FilePath>>,
    /// Host names accepted besides IP addresses and `localhost`. Others are rejected, as protection
    /// against DNS rebinding. A change needs a restart.
    #[schemars(extend("examples" = [["edge-1.internal"]]))]
    pub(crate) hosts: Key<Vec<At<Text<Host>>>>,
    /// Detail of `/metrics`: with or without series of each server. A change needs a restart.
    #[schemars(extend("default" = "servers"))]
    pub(crate) metrics: Key<Text<Word<Detail>>>,
}
