//! The cache in the file: how much it may hold, and what a route says of its own.

use loadline_spanned::{Key, Text};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::value::{
    label::{FilePath, HeaderName, ParameterName},
    one_or_more::OneOrMore,
    quantity::{Size, TimeOrOff},
};

/// The response cache, which all routes with `cache` and all worker threads share.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(crate) struct Cache {
    /// Maximum memory for responses: bodies, headers, keys and what is kept beside them.
    #[schemars(extend("default" = "256MiB"))]
    pub(crate) memory: Key<Size<{ 1 << 20 }, { 1 << 40 }>>,
    /// Maximum size of a body that is stored; in memory at most an eighth of `memory`. A larger one
    /// is sent to its client and not stored.
    #[schemars(extend("default" = "64MiB"))]
    pub(crate) max_object: Key<Size<1, { 1 << 40 }>>,
    /// A second tier on disk, for what memory has no room for. It survives a restart.
    pub(crate) disk: Key<DiskCache>,
}

/// A second tier of the cache, on disk: responses that are evicted from memory are written there.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[schemars(extend("required" = ["path", "size"]))]
pub(crate) struct DiskCache {
    /// A directory for the cache alone, created if it does not exist. One process at a time may use
    /// it.
    #[schemars(extend("examples" = ["/var/cache/loadline"]))]
    pub(crate) path: Key<Text<FilePath>>,
    /// Maximum size of all files together.
    #[schemars(extend("examples" = ["20GiB"]))]
    pub(crate) size: Key<Size<{ 64 << 20 }, { 1 << 50 }>>,
}

/// Caching of responses (RFC 9111). Servers say in `Cache-Control` what may be stored, and for how
/// long; see `docs/caching.md`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(crate) struct RouteCache {
    /// Query parameters to leave out of the cache key, by their decoded names, as `ids[]`. They are
    /// not sent to servers either.
    #[schemars(extend("examples" = [["utm_source", "fbclid"]]))]
    pub(crate) ignore_query: Key<OneOrMore<ParameterName>>,
    /// The only query parameters in the cache key, by their decoded names; others are left out, and
    /// not sent to servers either. Not with `ignore_query`.
    #[schemars(extend("examples" = [["id"]]))]
    pub(crate) keep_query: Key<OneOrMore<ParameterName>>,
    /// Request headers whose values are part of the cache key, besides those that responses name in
    /// `Vary`.
    #[schemars(extend("examples" = [["Accept-Language"]]))]
    pub(crate) key_headers: Key<OneOrMore<HeaderName>>,
    /// How long a stale response is served when servers fail, unless the response has
    /// `stale-if-error` or forbids it; 0s never serves it, whatever the response says.
    #[schemars(extend("default" = "1h"))]
    pub(crate) stale_if_error: Key<TimeOrOff>,
    /// Whether such a stale response is also served when every group is full.
    #[schemars(extend("default" = true))]
    pub(crate) stale_when_full: Key<bool>,
    /// Slice size: larger responses are stored in slices of this size, each fetched with `Range`
    /// when it is needed. At most a sixteenth of `memory` and half of `max_object`. Off if omitted.
    #[schemars(extend("examples" = ["4MiB"]))]
    pub(crate) slice: Key<Size<{ 64 << 10 }, { 1 << 30 }>>,
    /// Whether responses have the header `Cache-Status`, which says what the cache did.
    #[schemars(extend("default" = true))]
    pub(crate) status: Key<bool>,
}
