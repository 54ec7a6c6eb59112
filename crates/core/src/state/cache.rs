//! What the cache of an edge holds, and what is to be taken out of it.

use alloc::string::String;

use serde::{Deserialize, Serialize};

/// What the cache holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cache {
    /// Responses that are stored, and what is known of keys beside them.
    pub objects: u64,
    /// Memory that they take, all that is kept beside their bytes included.
    pub bytes: u64,
    /// Memory that bodies take which are coming in.
    pub arriving_bytes: u64,
    /// Memory that all may take.
    pub memory_bytes: u64,
    /// Fetches under way.
    pub fetches: u64,
    /// Responses that had to leave for others since the start.
    pub evicted: u64,
}

/// A response that is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CachedObject {
    /// What was asked for.
    pub url: String,
    /// The status code.
    pub status: u16,
    /// Length of the body.
    pub bytes: u64,
    /// Requests that were answered with it.
    pub hits: u64,
    /// Seconds since it was generated.
    pub age_s: u64,
    /// Seconds until it is stale, negative since it is.
    pub ttl_s: i64,
}

/// What is to be taken out of the cache: all that one of these names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Purge {
    /// A whole URL, `https://example.com/path?query`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The beginning of URLs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// A tag that servers gave them in `Cache-Tag` or `Surrogate-Key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// Mark them stale instead: they may still be used as stale responses are, and are validated
    /// rather than fetched anew.
    #[serde(default)]
    pub soft: bool,
}

/// What a purge has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Purged {
    /// Responses that were taken out, or marked stale.
    pub objects: u64,
    /// Fetches that were under way, whose responses are not stored any more.
    pub fetches: u64,
}

impl Purge {
    /// Whether it names something, and one thing alone.
    #[must_use]
    pub fn is_clear(&self) -> bool {
        let named = [&self.url, &self.prefix, &self.tag];
        let mut named = named.into_iter().flatten();
        named.next().is_some_and(|name| !name.is_empty()) && named.next().is_none()
    }
}
