//! What keeps sessions on a server, in the file.

use loadline_core::fleet::{HashKey, SameSite};
use loadline_spanned::{Key, Text};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::value::{
    label::{HeaderName, UrlPath},
    quantity::{Seconds, Time},
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
    /// The name of a session cookie, which the first response sets. For HTTP only.
    pub(crate) cookie: Key<Text<HeaderName>>,
    /// Secret from which the values of the cookie are derived, at least 16 characters, the same on
    /// all edges. A value does not reveal the server. Only with `cookie`.
    pub(crate) key: Key<Text<SessionKey>>,
    /// Lifetime of the cookie, in whole seconds. Default: until the browser is closed. Only with
    /// `cookie`.
    pub(crate) ttl: Key<Seconds>,
    /// `Path` of the cookie. Only with `cookie`.
    #[schemars(extend("default" = "/"))]
    pub(crate) path: Key<Text<UrlPath>>,
    /// `Secure` attribute of the cookie: it is sent over TLS only. Only with `cookie`.
    #[schemars(extend("default" = false))]
    pub(crate) secure: Key<bool>,
    /// `SameSite` attribute: whether the cookie is sent with cross-site requests. Only with
    /// `cookie`.
    #[schemars(extend("default" = "lax"))]
    pub(crate) same_site: Key<Text<Word<SameSite>>>,
    /// Property of a request that identifies its session.
    pub(crate) hash: Key<Text<Word<HashKey>>>,
    /// How long after its last packet a client keeps its server although servers change, at least
    /// `stale_timeout`. Only with `hash = "client-address"`, for listeners with `forward`.
    pub(crate) time: Key<Time>,
    /// The header whose value identifies a session; without it the client's address does.
    pub(crate) header: Key<Text<HeaderName>>,
}
