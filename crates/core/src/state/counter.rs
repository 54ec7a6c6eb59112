//! The counters of a service: each with its name in the API, its metric and its meaning.
//!
//! The proxy counts in an array of these; the API, the metrics, `docs/openapi.json` and the table
//! of `docs/operation.md` are made of this list.

use alloc::string::String;
use core::{
    fmt,
    ops::{Index, IndexMut},
};

use crate::compress::Algorithm;
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{MapAccess, Visitor},
    ser::SerializeMap,
};

/// What a counter says of itself.
struct About {
    /// In the API.
    name: &'static str,
    /// Without the prefix `loadline_` and without `_total`; none where only groups have it.
    metric: Option<&'static str>,
    /// A sentence for whoever reads it, without its full stop.
    meaning: &'static str,
}

impl About {
    /// A counter whose metric has its name.
    const fn named(name: &'static str, meaning: &'static str) -> Self {
        Self { name, metric: Some(name), meaning }
    }

    /// A counter whose metric has another name, as those from before there were caches.
    const fn counted(name: &'static str, metric: &'static str, meaning: &'static str) -> Self {
        Self { name, metric: Some(metric), meaning }
    }
}

/// A number of a service that only grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each says its meaning below")]
pub enum ServiceCounter {
    Overflowed,
    Retries,
    Queued,
    Displaced,
    SessionsKept,
    SessionsMoved,
    CacheHits,
    CacheStale,
    CacheRevalidated,
    CacheCollapsed,
    CacheMisses,
    CacheBypassed,
    CacheStored,
    CacheBytes,
    CacheMissBytes,
    CompressedZstd,
    CompressedGzip,
    CompressedBrotli,
    CompressionInput,
    CompressionOutput,
}

impl ServiceCounter {
    /// Every counter, in the order of the documentation.
    pub const ALL: &'static [Self] = &[
        Self::Overflowed,
        Self::Retries,
        Self::Queued,
        Self::Displaced,
        Self::SessionsKept,
        Self::SessionsMoved,
        Self::CacheHits,
        Self::CacheStale,
        Self::CacheRevalidated,
        Self::CacheCollapsed,
        Self::CacheMisses,
        Self::CacheBypassed,
        Self::CacheStored,
        Self::CacheBytes,
        Self::CacheMissBytes,
        Self::CompressedZstd,
        Self::CompressedGzip,
        Self::CompressedBrotli,
        Self::CompressionInput,
        Self::CompressionOutput,
    ];

    /// What counts responses that were compressed by this algorithm.
    #[must_use]
    pub const fn compressed_by(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::Zstd => Self::CompressedZstd,
            Algorithm::Gzip => Self::CompressedGzip,
            Algorithm::Brotli => Self::CompressedBrotli,
        }
    }

    const fn about(self) -> About {
        match self {
            Self::Overflowed => About {
                name: "overflowed",
                metric: None,
                meaning: "Requests sent past the nearest group, which was full or down",
            },
            Self::Retries => About::counted("retries", "retries", "Retries after failed attempts"),
            Self::Queued => About::counted("queued", "queued_requests", "Queued requests"),
            Self::Displaced => About::counted(
                "displaced",
                "displaced_requests",
                "Queued requests displaced by one of a higher class",
            ),
            Self::SessionsKept => About::counted(
                "sessions_kept",
                "session_kept_requests",
                "Requests sent to the server of their session, of sessions by cookie",
            ),
            Self::SessionsMoved => About::counted(
                "sessions_moved",
                "session_moved_requests",
                "Requests whose session by cookie moved: its server was full, out of rotation or \
                 gone",
            ),
            Self::CacheHits => {
                About::named("cache_hits", "Requests answered from the cache, fresh")
            }
            Self::CacheStale => {
                About::named("cache_stale", "Requests answered from the cache, stale")
            }
            Self::CacheRevalidated => About::named(
                "cache_revalidated",
                "Requests answered from the cache after revalidation",
            ),
            Self::CacheCollapsed => {
                About::named("cache_collapsed", "Requests that shared the fetch of another request")
            }
            Self::CacheMisses => {
                About::named("cache_misses", "Cache misses: requests fetched from servers")
            }
            Self::CacheBypassed => {
                About::named("cache_bypassed", "Requests that bypassed the cache")
            }
            Self::CacheStored => About::named("cache_stored", "Responses that were stored"),
            Self::CacheBytes => About::named("cache_bytes", "Bytes sent to clients from the cache"),
            Self::CacheMissBytes => {
                About::named("cache_miss_bytes", "Bytes sent to clients past the cache")
            }
            Self::CompressedZstd => About::counted(
                "compressed_zstd", "compressed_zstd_responses", "Responses compressed by zstd",
            ),
            Self::CompressedGzip => About::counted(
                "compressed_gzip", "compressed_gzip_responses", "Responses compressed by gzip",
            ),
            Self::CompressedBrotli => About::counted(
                "compressed_brotli",
                "compressed_brotli_responses",
                "Responses compressed by brotli",
            ),
            Self::CompressionInput => About::counted(
                "compression_input_bytes",
                "compression_input_bytes",
                "Bytes of response bodies before they were compressed",
            ),
            Self::CompressionOutput => About::counted(
                "compression_output_bytes",
                "compression_output_bytes",
                "Bytes of these response bodies after compression",
            ),
        }
    }

    /// The name in the API.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.about().name
    }

    /// The metric, without the prefix `loadline_` and without `_total`; none where only groups
    /// have it.
    #[must_use]
    pub const fn metric(self) -> Option<&'static str> {
        self.about().metric
    }

    /// What it counts, without a full stop.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        self.about().meaning
    }
}

/// The counters of one service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters([u64; ServiceCounter::ALL.len()]);

impl Index<ServiceCounter> for Counters {
    type Output = u64;

    fn index(&self, counter: ServiceCounter) -> &u64 {
        &self.0[counter as usize]
    }
}

impl IndexMut<ServiceCounter> for Counters {
    fn index_mut(&mut self, counter: ServiceCounter) -> &mut u64 {
        &mut self.0[counter as usize]
    }
}

impl Serialize for Counters {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for counter in ServiceCounter::ALL {
            map.serialize_entry(counter.name(), &self[*counter])?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Counters {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_struct("Counters", &NAMES, ByName)
    }
}

/// Reads counters by name; those of an older edge lack the newest, which are 0.
struct ByName;

impl<'de> Visitor<'de> for ByName {
    type Value = Counters;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("counters by name")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Counters, A::Error> {
        let mut counters = Counters::default();
        while let Some((name, count)) = map.next_entry::<String, u64>()? {
            if let Some(counter) = ServiceCounter::ALL.iter().find(|it| it.name() == name) {
                counters[*counter] = count;
            }
        }
        Ok(counters)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Counters {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> alloc::borrow::Cow<'static, str> {
        "Counters".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let described = |counter: &ServiceCounter| {
            let mut schema = generator.subschema_for::<u64>();
            schema.insert("description".into(), alloc::format!("{}.", counter.meaning()).into());
            (counter.name(), schema)
        };
        let properties: alloc::collections::BTreeMap<_, _> =
            ServiceCounter::ALL.iter().map(described).collect();
        schemars::json_schema!({ "type": "object", "properties": properties, "required": NAMES })
    }
}

const NAMES: [&str; ServiceCounter::ALL.len()] = {
    let mut names = [""; ServiceCounter::ALL.len()];
    let mut index = 0;
    while index < names.len() {
        names[index] = ServiceCounter::ALL[index].name();
        index += 1;
    }
    names
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_told_by_name_and_one_that_is_absent_is_zero() {
        let mut counters = Counters::default();
        for (n, counter) in (1..).zip(ServiceCounter::ALL) {
            counters[*counter] = n;
        }
        let text = serde_json::to_string(&counters).expect("plain numbers");
        assert!(text.contains("\"retries\":2"), "{text}");
        assert_eq!(serde_json::from_str::<Counters>(&text).expect("what was written"), counters);
        assert_eq!(serde_json::from_str::<Counters>("{}").expect("none"), Counters::default());
    }
}
