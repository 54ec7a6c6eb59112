//! What requests are for, and the caches of edges.

use loadline_core::{time::Duration, units::Bytes};
use loadline_spanned::At;

use super::Reader;
use crate::{
    scenario::{Cache, Objects},
    traffic::file::{CacheEntry, ObjectsEntry},
};

impl Reader<'_> {
    /// By the index of the service; empty where nothing is said.
    pub(super) fn objects(&mut self, entries: &[At<ObjectsEntry>]) -> Vec<Option<Objects>> {
        let mut objects = Vec::new();
        for at in entries {
            objects.resize_with(self.fleet.services.len(), || None);
            let Some(service) = self.service(&at.span, at.value.service.as_ref()) else { continue };
            if objects[service].is_some() {
                let name = &self.fleet.services[service].name;
                let message = format!("the objects of service `{name}` are said twice");
                self.error(&at.span, message, "leave one of the tables out");
            }
            objects[service] = self.objects_of(at);
        }
        objects
    }

    fn objects_of(&mut self, at: &At<ObjectsEntry>) -> Option<Objects> {
        let entry = &at.value;
        let Some(count) = &entry.count else {
            let help = "add how many there are: count = 100000";
            self.error(&at.span, "`objects` needs `count`".to_owned(), help);
            return None;
        };
        if !(1..=COUNT_MAX).contains(&count.value) {
            let message = format!("expected 1 to {COUNT_MAX}, found {}", count.value);
            self.error(&count.span, message, "write it like 100000");
            return None;
        }
        let zipf = self.not_negative(entry.zipf.as_ref(), EXPONENT_MAX);
        let variation = self.not_negative(entry.variation.as_ref(), VARIATION_MAX);
        let size = entry.size.as_ref().and_then(|at| self.some_bytes(at));
        let ttl = self.positive(entry.ttl.as_ref());
        let sizes = (size.unwrap_or(SIZE), variation.unwrap_or(0.0));
        Some(Objects::new((count.value, zipf.unwrap_or(1.0)), sizes, ttl))
    }

    /// A number from 0 to `most`.
    fn not_negative(&mut self, at: Option<&At<f64>>, most: f64) -> Option<f64> {
        let at = at?;
        if !(0.0..=most).contains(&at.value) {
            let message = format!("expected a number from 0 to {most}, found {}", at.value);
            self.error(&at.span, message, "write it like 0.9");
            return None;
        }
        Some(at.value)
    }

    fn some_bytes(&mut self, at: &At<Bytes>) -> Option<Bytes> {
        if at.value == Bytes::new(0) {
            self.error(&at.span, "expected more than 0B".to_owned(), "write it like \"10kB\"");
            return None;
        }
        Some(at.value)
    }

    /// The caches of the edges in these regions.
    pub(super) fn caches(
        &mut self,
        entries: &[At<CacheEntry>],
        regions: &[String],
        objects: &[Option<Objects>],
    ) -> Vec<Cache> {
        let mut caches: Vec<Cache> = Vec::new();
        for at in entries {
            if objects.is_empty() {
                let help = "say what requests are for in a table: [[objects]] count = 100000";
                self.error(&at.span, "the cache has nothing to store".to_owned(), help);
            }
            let Some(size) = self.cache_size(at) else { continue };
            let all = objects.iter().flatten().map(|objects| objects.count() as u64).sum::<u64>();
            at.value.warm.iter().for_each(|at| self.at_most(WARM_MAX, at.value, &at.span));
            let warm = at.value.warm.as_ref().map_or((5 * all).min(WARM), |at| at.value);
            let stale = at.value.stale_if_error.as_ref();
            let for_ever = !objects.is_empty() && !objects.iter().flatten().any(Objects::has_ttl);
            let without = stale.filter(|_| for_ever).map(|at| &at.span);
            self.needs(("stale_if_error", without), "`ttl` in [[objects]]");
            let stale = stale.map_or(STALE_IF_ERROR, |at| at.value);
            for edge in self.edges_of(at, regions) {
                if caches.iter().any(|cache| cache.edge == edge) {
                    let message = format!("the edge in {} has a cache already", regions[edge]);
                    self.error(&at.span, message, "an edge has one cache");
                }
                caches.push(Cache { edge, size, warm, stale_if_error: stale });
            }
        }
        caches
    }

    fn cache_size(&mut self, at: &At<CacheEntry>) -> Option<Bytes> {
        let Some(size) = &at.value.size else {
            let help = "add what it may take: size = \"1GB\"";
            self.error(&at.span, "`cache` needs `size`".to_owned(), help);
            return None;
        };
        self.some_bytes(size)
    }

    fn edges_of(&mut self, at: &At<CacheEntry>, regions: &[String]) -> Vec<usize> {
        let Some(edge) = &at.value.edge else { return (0..regions.len()).collect() };
        let names: Vec<&str> = regions.iter().map(String::as_str).collect();
        let index = names.iter().position(|name| *name == edge.value);
        if index.is_none() {
            let message = format!("no requests come in at an edge in `{}`", edge.value);
            let help = format!("edges of sources are in {}", names.join(", "));
            self.error(&edge.span, message, help);
        }
        index.into_iter().collect()
    }
}

/// The popularity of each takes 8 bytes.
const COUNT_MAX: u32 = 10_000_000;

/// Beyond this the first object is nearly all that is asked for.
const EXPONENT_MAX: f64 = 10.0;

/// Sizes of the web have 2 to 10.
const VARIATION_MAX: f64 = 100.0;

/// A picture, a script.
const SIZE: Bytes = Bytes::new(10_000);

/// Takes a tenth of a second.
const WARM: u64 = 500_000;

/// As of the proxy's cache.
const STALE_IF_ERROR: Duration = Duration::from_secs(3_600);

/// Takes half a minute.
const WARM_MAX: u64 = 100_000_000;
