//! The cache: its limits, and what a route says of its own. Everything has a default.

use loadline_core::{
    fleet::{CacheLimits, DiskCache},
    rules::{Caching, QueryKey},
    time::Duration,
};
use loadline_spanned::{At, Key, Problems};

use super::set;
use crate::{
    file::{self, File},
    value::{either::TableOrSwitch, label::ParameterName, one_or_more::OneOrMore},
};

/// What the cache of the edge may hold.
pub(super) fn limits(given: &Key<file::Cache>, problems: &mut Problems) -> CacheLimits {
    let mut limits = CacheLimits::default();
    let Some(given) = given.at() else { return limits };
    set(&given.value.memory, |size| &size.0.0, &mut limits.memory);
    limits.max_object = limits.max_object.min(limits.memory);
    set(&given.value.max_object, |size| &size.0.0, &mut limits.max_object);
    if limits.max_object > limits.memory {
        let place = given.value.max_object.place_or(&given.span);
        let message = format!("an object of {} does not fit", limits.max_object);
        let help = format!("write at most {}, or raise `memory`", limits.memory);
        problems.error(&place, message, "more than `memory`", help);
    }
    limits
}

/// Where the cache of the edge keeps what memory has no room for.
pub(super) fn disk(given: &Key<file::Cache>, problems: &mut Problems) -> Option<DiskCache> {
    let At { value, span } = given.get()?.disk.at()?;
    let mut missing = |what: &str, help: &str| {
        let message = format!("a cache on disk without `{what}`");
        problems.absent(span, span, message, help.to_owned());
    };
    let (path, size) = (value.path.get(), value.size.get());
    if path.is_none() {
        missing("path", "write path = \"/var/cache/loadline\"");
    }
    if size.is_none() {
        missing("size", "write size = \"20GiB\"");
    }
    Some(DiskCache { path: path?.0.0.clone(), size: size?.0.0 })
}

/// Warns of slices that are cut, since memory would not store them.
pub(super) fn warn_of_slices(file: &File, limits: CacheLimits, problems: &mut Problems) {
    let longest = limits.longest_slice();
    let listeners = file.listener.get().into_iter().flatten();
    let lists = listeners.filter_map(|it| Some(it.value.routes.get()?.list()));
    for route in lists.flatten() {
        let Some(TableOrSwitch::Table(cache)) = route.value.cache.get() else { continue };
        let Some(slice) = cache.slice.at().filter(|it| it.value.0.0 > longest) else { continue };
        let message = format!("slices of {} are cut to {longest}", slice.value.0.0);
        let help = "write at most a sixteenth of `memory` and half of `max_object` of [cache]";
        problems.warning(&slice.span, message, "too long", help);
    }
}

/// How a route caches; nothing where the file does not want that.
pub(super) fn caching(
    given: &Key<TableOrSwitch<file::RouteCache>>,
    problems: &mut Problems,
) -> Option<Caching> {
    let file = match given.get()? {
        TableOrSwitch::Switch(on) => return on.then(Caching::default),
        TableOrSwitch::Table(table) => table,
    };
    if let (Some(_), Some(keep)) = (file.ignore_query.at(), file.keep_query.at()) {
        let message = "parameters to ignore and parameters to keep".to_owned();
        problems.error(&keep.span, message, "never used", "leave one of them out".to_owned());
    }
    let ignored = names(&file.ignore_query).map(QueryKey::Ignore);
    let kept = || names(&file.keep_query).map(QueryKey::Keep);
    let headers = file.key_headers.get().into_iter().flat_map(OneOrMore::iter);
    let mut caching = Caching {
        query: ignored.or_else(kept).unwrap_or(QueryKey::All),
        headers: headers.map(|name| name.0.clone()).collect(),
        ..Caching::default()
    };
    if let Some(time) = file.stale_if_error.get() {
        let given = Some(time.0.0).filter(|time| *time > Duration::ZERO);
        (caching.settings.stale_if_error, caching.settings.stale_if_full) = (given, given);
    }
    if file.stale_when_full.get() == Some(&false) {
        caching.settings.stale_if_full = None;
    }
    set(&file.status, |on| on, &mut caching.status);
    let slice = file.slice.get().and_then(|size| u32::try_from(size.0.0.get()).ok());
    caching.slice = slice.unwrap_or_default();
    Some(caching)
}

fn names(given: &Key<OneOrMore<ParameterName>>) -> Option<Vec<String>> {
    Some(given.get()?.iter().map(|name| name.0.clone()).collect())
}
