//! What keeps sessions on a server, in the file.

use loadline_core::fleet::{HashKey, SameSite};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{
    place::Key,
    value::{
        label::{HeaderName, UrlPath},
        quantity::Time,
        secret::SessionKey,
        text::Text,
        word::Word,
    },
};

/// What keeps the requests of a session on one server: `cookie`, `hash` or `header`. A server that
/// is full, drained, unhealthy or gone gives its sessions up to others.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[schemars(extend("oneOf" = [
    { "required": ["cookie", "key"] }, { "required": ["hash"] }, { "required": ["header"] }
]))]
pub(crate) struct Sticky {
    /// The name of a cookie that the first response sets. HTTP alone.
    pub(crate) cookie: Key<Text<HeaderName>>,
    /// What the value of the cookie is derived with, 16 characters at least; the same on all edges.
    /// Nobody can tell from the value which server it stands for. Only with `cookie`.
    pub(crate) key: Key<Text<SessionKey>>,
    /// How long browsers keep the cookie; until they are closed if omitted. Only with `cookie`.
    pub(crate) ttl: Key<Time>,
    /// The path the cookie is sent for. Only with `cookie`.
    #[schemars(extend("default" = "/"))]
    pub(crate) path: Key<Text<UrlPath>>,
    /// Whether the cookie is sent over TLS alone. Only with `cookie`.
    #[schemars(extend("default" = false))]
    pub(crate) secure: Key<bool>,
    /// Whether the cookie is sent with requests that other sites cause. Only with `cookie`.
    #[schemars(extend("default" = "lax"))]
    pub(crate) same_site: Key<Text<Word<SameSite>>>,
    /// What is the same in all requests of a session.
    pub(crate) hash: Key<Text<Word<HashKey>>>,
    /// How long after its last packet a client keeps its server while servers change, at least
    /// `stale_timeout`. Only with `hash = "client-address"`, for listeners with `forward`.
    pub(crate) time: Key<Time>,
    /// A header whose value is; the client's address where a request has none.
    pub(crate) header: Key<Text<HeaderName>>,
}
