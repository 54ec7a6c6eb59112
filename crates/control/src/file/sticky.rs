//! What keeps sessions on a server, in the file.

use loadline_core::fleet::{HashKey, SameSite};
use loadline_spanned::{Key, Text};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::value::{
    label::{HeaderName, UrlPath},
    quantity::Time,
    secret::SessionKey,
    word::Word,
};

/// Session persistence: `cookie`, `hash` or `header`. Sessions of a server that is full, drained,
/// unhealthy or gone move to others.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[schemars(extend("oneOf" = [
    { "required": ["cookie", "key"] }, { "required": ["hash"] }, { "required": ["header"] }
]))]
pub(crate) struct Sticky {
    /// The name of a cookie that the first response sets. For HTTP only.
    pub(crate) cookie: Key<Text<HeaderName>>,
    /// Secret that the value of the cookie is derived with, 16 characters at least; the same on all
    /// edges. The value does not reveal the server. Only with `cookie`.
    pub(crate) key: Key<Text<SessionKey>>,
    /// How long browsers keep the cookie. Default: until they are closed. Only with `cookie`.
    pub(crate) ttl: Key<Time>,
    /// The path the cookie is sent for. Only with `cookie`.
    #[schemars(extend("default" = "/"))]
    pub(crate) path: Key<Text<UrlPath>>,
    /// Whether the cookie is sent over TLS only. Only with `cookie`.
    #[schemars(extend("default" = false))]
    pub(crate) secure: Key<bool>,
    /// Whether the cookie is sent with cross-site requests. Only with `cookie`.
    #[schemars(extend("default" = "lax"))]
    pub(crate) same_site: Key<Text<Word<SameSite>>>,
    /// What identifies a session.
    pub(crate) hash: Key<Text<Word<HashKey>>>,
    /// How long after its last packet a client keeps its server while servers change, at least
    /// `stale_timeout`. Only with `hash = "client-address"`, for listeners with `forward`.
    pub(crate) time: Key<Time>,
    /// A header whose value identifies a session; the client's address where a request has none.
    pub(crate) header: Key<Text<HeaderName>>,
}
