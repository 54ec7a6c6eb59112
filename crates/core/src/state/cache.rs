//! Contents of the cache of an edge, and purges.

use alloc::{format, string::String, vec::Vec};

use serde::{Deserialize, Serialize};

use super::{Counters, Service, ServiceCounter, words::number};
use crate::{cache::key_of_url, rules::QueryKey};

/// State of the cache.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cache {
    /// Number of stored responses.
    pub objects: u64,
    /// Memory of stored responses, headers and bookkeeping included.
    pub bytes: u64,
    /// Memory of bodies that are being fetched.
    pub arriving_bytes: u64,
    /// Memory of bodies that are no longer stored but still being sent to clients.
    #[serde(default)]
    pub sending_bytes: u64,
    /// Memory limit of the cache.
    pub memory_bytes: u64,
    /// Fetches in progress.
    pub fetches: u64,
    /// Responses evicted since the start.
    pub evicted: u64,
    /// The cache on disk; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<DiskCache>,
}

/// State of the cache on disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DiskCache {
    /// Whether the directory is open and the disk works.
    pub up: bool,
    /// Number of responses on disk.
    pub objects: u64,
    /// Size of the files.
    pub bytes: u64,
    /// Maximum size of the files.
    pub size_bytes: u64,
    /// Memory of the index.
    pub index_bytes: u64,
    /// Bytes waiting to be written.
    pub queued_bytes: u64,
    /// Purges that apply to responses on disk.
    pub purges: u64,
    /// Responses read from disk since the start.
    pub hits: u64,
    /// Their size on disk.
    pub read_bytes: u64,
    /// Responses not read because too many requests waited for the disk or it took too long.
    pub reads_refused: u64,
    /// Responses written to disk.
    pub written: u64,
    /// Their size on disk.
    pub written_bytes: u64,
    /// Responses not written because the disk does not keep up or fails, or because they are too
    /// large.
    pub writes_refused: u64,
    /// Responses that the disk failed to write.
    pub writes_failed: u64,
    /// Damaged records: they could not be read, or are not what was written.
    pub damaged: u64,
    /// Segments deleted to make room.
    pub reclaimed: u64,
}

/// A stored response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CachedObject {
    /// URL of the response.
    pub url: String,
    /// The status code.
    pub status: u16,
    /// Length of the body.
    pub bytes: u64,
    /// Requests answered from the cache with this response.
    pub hits: u64,
    /// Age in seconds (as in the `Age` header).
    pub age_s: u64,
    /// Seconds until the response is stale; negative if it is stale.
    pub ttl_s: i64,
}

/// A purge: exactly one of `url`, `prefix` and `tag`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Purge {
    /// A complete URL, `https://example.com/path?query`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// A prefix of URLs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// A tag that servers give to responses in `Cache-Tag` or `Surrogate-Key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// Whether responses are marked stale instead of removed: they may still be served as stale
    /// responses, and are revalidated instead of fetched anew.
    #[serde(default)]
    pub soft: bool,
}

/// Result of a purge.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Purged {
    /// Number of responses removed, or marked stale.
    pub objects: u64,
    /// Number of fetches in progress whose responses will not be stored.
    pub fetches: u64,
    /// Why the purge was not recorded on disk, where a restart could undo it; absent if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unrecorded: Option<String>,
}

/// What part a cache has in the responses of a service since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CacheShare {
    /// Of the requests to routes with a cache, 0 to 1, for which no server was asked alone.
    pub requests: f64,
    /// Of their bytes; none where none were sent.
    pub bytes: Option<f64>,
    /// Requests that were answered with a stale response.
    pub stale: u64,
    /// Requests that were answered by another's fetch.
    pub collapsed: u64,
}

impl CacheShare {
    /// That of a service with these counts; none where no request asked a cache.
    #[must_use]
    pub fn of(counters: &Counters) -> Option<Self> {
        let sum = |all: &[ServiceCounter]| all.iter().map(|it| counters[*it]).sum::<u64>();
        let part = |of: u64, rest: u64| (of + rest > 0).then(|| of as f64 / (of + rest) as f64);
        Some(Self {
            requests: part(sum(HITS), sum(MISSES))?,
            bytes: part(
                counters[ServiceCounter::CacheBytes],
                counters[ServiceCounter::CacheMissBytes],
            ),
            stale: counters[ServiceCounter::CacheStale],
            collapsed: counters[ServiceCounter::CacheCollapsed],
        })
    }
}

impl Service {
    /// What its cache does, in words; none where no request asked one.
    #[must_use]
    pub fn cache_sentence(&self) -> Option<String> {
        let CacheShare { requests, bytes, stale, collapsed } =
            CacheShare::of(&self.counts.counters)?;
        let bytes =
            bytes.map_or_else(String::new, |it| format!(", {:.1} % of the bytes", it * 100.0));
        let requests = requests * 100.0;
        Some(format!(
            "The cache answers {requests:.1} % of the requests to routes with a cache{bytes}; \
             {stale} stale, {collapsed} collapsed."
        ))
    }
}

impl Cache {
    /// What it holds, in words.
    #[must_use]
    pub fn sentence(&self) -> String {
        let megabytes = |bytes: u64| number(bytes as f64 / 1e6);
        format!(
            "cache: {} objects, {} of {} MB",
            self.objects,
            megabytes(self.bytes + self.arriving_bytes + self.sending_bytes),
            megabytes(self.memory_bytes)
        )
    }
}

const HITS: &[ServiceCounter] = &[
    ServiceCounter::CacheHits,
    ServiceCounter::CacheStale,
    ServiceCounter::CacheRevalidated,
    ServiceCounter::CacheCollapsed,
];

const MISSES: &[ServiceCounter] = &[ServiceCounter::CacheMisses, ServiceCounter::CacheBypassed];

impl Purge {
    /// Whether it names something, and one thing alone.
    #[must_use]
    pub fn is_clear(&self) -> bool {
        let named = [&self.url, &self.prefix, &self.tag];
        let mut named = named.into_iter().flatten();
        named.next().is_some_and(|name| !name.is_empty()) && named.next().is_none()
    }

    /// The same with its URL, or the beginning of URLs, as the cache has them: with scheme and host
    /// in small letters, without the port that the scheme has anyway, and without a fragment. None
    /// where one has no scheme and no host.
    #[must_use]
    pub fn normalized(&self) -> Option<Self> {
        let key = |url: &Option<String>, is_whole| match url {
            Some(url) => key_of_url(url, is_whole).map(Some),
            None => Some(None),
        };
        let (url, prefix) = (key(&self.url, true)?, key(&self.prefix, false)?);
        Some(Self { url, prefix, ..self.clone() })
    }

    /// One for each URL that requests for its URL have where routes leave out parameters: itself,
    /// and those `without` them.
    #[must_use]
    pub fn with_fewer_parameters<'q>(
        &self,
        without: impl Iterator<Item = &'q QueryKey>,
    ) -> Vec<Self> {
        let mut all = Vec::from([self.clone()]);
        let Some(url) = &self.url else { return all };
        for query in without {
            let mut written = Vec::new();
            let is_less = query.write(url.as_bytes(), &mut written);
            let url = String::from_utf8(written).ok().filter(|_| is_less);
            if let Some(url) = url.filter(|url| all.iter().all(|it| it.url.as_ref() != Some(url))) {
                all.push(Self { url: Some(url), ..self.clone() });
            }
        }
        all
    }

    /// Why a URL is refused.
    pub const NO_URL: &str = "a URL, or the beginning of one, begins with `http://` or `https://` \
                              and a host in ASCII: `xn--bcher-kva.example` for `bücher.example`";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_purge_names_a_url_as_the_cache_has_it_and_those_without_ignored_parameters() {
        let none = Purge { url: None, prefix: None, tag: None, soft: true };
        let purge = Purge { url: Some("HTTP://H:80?id=1&utm=x#top".into()), ..none.clone() };
        let purge = purge.normalized().unwrap();
        assert_eq!(purge.url.as_deref(), Some("http://h/?id=1&utm=x"));
        let ignore = QueryKey::Ignore(Vec::from(["utm".into()]));
        let keep = QueryKey::Keep(Vec::from(["id".into()]));
        let queries = [QueryKey::All, ignore, keep];
        let all = purge.with_fewer_parameters(queries.iter());
        let urls: Vec<_> = all.iter().filter_map(|it| it.url.as_deref()).collect();
        assert_eq!(urls, ["http://h/?id=1&utm=x", "http://h/?id=1"]);
        assert!(all.iter().all(|it| it.soft));
        let prefix = Purge { prefix: Some("HTTP://H/A".into()), ..none.clone() };
        assert_eq!(prefix.normalized().unwrap().prefix.as_deref(), Some("http://h/A"));
        let tag = Purge { tag: Some("A".into()), ..none.clone() };
        assert_eq!(tag.normalized(), Some(tag));
        assert_eq!(Purge { prefix: Some("/a".into()), ..none }.normalized(), None);
    }

    #[test]
    fn a_service_tells_what_part_its_cache_has() {
        let mut service = Service::default();
        assert_eq!(service.cache_sentence(), None);
        let counters = &mut service.counts.counters;
        counters[ServiceCounter::CacheHits] = 6;
        counters[ServiceCounter::CacheStale] = 2;
        counters[ServiceCounter::CacheCollapsed] = 1;
        counters[ServiceCounter::CacheMisses] = 3;
        let told = "The cache answers 75.0 % of the requests to routes with a cache; 2 stale, 1 \
                    collapsed.";
        assert_eq!(service.cache_sentence().as_deref(), Some(told));
        let counters = &mut service.counts.counters;
        counters[ServiceCounter::CacheBytes] = 900;
        counters[ServiceCounter::CacheMissBytes] = 100;
        let told = "The cache answers 75.0 % of the requests to routes with a cache, 90.0 % of \
                    the bytes; 2 stale, 1 collapsed.";
        assert_eq!(service.cache_sentence().as_deref(), Some(told));
        let cache =
            Cache { objects: 12, bytes: 3_000_000, memory_bytes: 64_000_000, ..Cache::default() };
        assert_eq!(cache.sentence(), "cache: 12 objects, 3 of 64 MB");
    }
}
