//! The cache in the file: how much it may hold, and what a route says of its own.

use loadline_spanned::{Key, Text};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::value::{
    label::{FilePath, HeaderName, Name},
    one_or_more::OneOrMore,
    quantity::{Size, TimeOrOff},
};

/// The cache that all routes with `cache` share, and all worker threads.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(crate) struct Cache {
    /// Memory for responses, all that is kept beside their bytes included.
    #[schemars(extend("default" = "256MiB"))]
    pub(crate) memory: Key<Size<{ 1 << 20 }, { 1 << 40 }>>,
    /// Maximum size of a body that is stored, in memory an eighth of `memory` at most. A longer one
    /// goes through to its client.
    #[schemars(extend("default" = "64MiB"))]
    pub(crate) max_object: Key<Size<1, { 1 << 40 }>>,
    /// Keeps on disk what memory has no room for, over a restart.
    pub(crate) disk: Key<DiskCache>,
}

/// A second tier of the cache, on disk: what memory evicts is written there.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[schemars(extend("required" = ["path", "size"]))]
pub(crate) struct DiskCache {
    /// A directory of its own. It is made if it is not there, and belongs to one process.
    #[schemars(extend("examples" = ["/var/cache/loadline"]))]
    pub(crate) path: Key<Text<FilePath>>,
    /// What its files may take together.
    #[schemars(extend("examples" = ["20GiB"]))]
    pub(crate) size: Key<Size<{ 64 << 20 }, { 1 << 50 }>>,
}

/// Stores responses and answers further requests from memory (RFC 9111). What may be stored, and
/// for how long, servers say in `Cache-Control`; see `docs/caching.md`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(crate) struct RouteCache {
    /// Query parameters that make no difference: they are neither part of the key nor sent to
    /// servers.
    #[schemars(extend("examples" = [["utm_source", "fbclid"]]))]
    pub(crate) ignore_query: Key<OneOrMore<Name>>,
    /// The only query parameters that make a difference; not together with `ignore_query`.
    #[schemars(extend("examples" = [["id"]]))]
    pub(crate) keep_query: Key<OneOrMore<Name>>,
    /// Request headers whose values are part of the key, beyond those that responses name in
    /// `Vary`.
    #[schemars(extend("examples" = [["Accept-Language"]]))]
    pub(crate) key_headers: Key<OneOrMore<HeaderName>>,
    /// How long a stale response is served where servers fail, unless it says `stale-if-error`
    /// itself or forbids it; 0s for never, whatever it says.
    #[schemars(extend("default" = "1h"))]
    pub(crate) stale_if_error: Key<TimeOrOff>,
    /// Whether such a response is also served where every group is full.
    #[schemars(extend("default" = true))]
    pub(crate) stale_when_full: Key<bool>,
    /// Stores what is longer in slices of this size, each fetched by a request with `Range` when it
    /// is needed. At most a sixteenth of `memory`, and half of `max_object`.
    #[schemars(extend("examples" = ["4MiB"]))]
    pub(crate) slice: Key<Size<{ 64 << 10 }, { 1 << 30 }>>,
    /// Whether responses say in `Cache-Status` what the cache did.
    #[schemars(extend("default" = true))]
    pub(crate) status: Key<bool>,
}
