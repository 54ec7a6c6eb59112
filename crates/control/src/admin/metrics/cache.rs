//! Metrics of the cache on disk. Without one there are none.

use loadline_core::state::DiskCache;

use super::family::{Family, Subject};

const DISK: Subject<DiskCache> = Subject {
    labels: &[],
    each: |state, to| {
        let disk = state.cache.as_ref().and_then(|cache| cache.disk.as_ref());
        disk.into_iter().for_each(|disk| to(&[], disk));
    },
};

/// The metrics of the cache on disk.
pub(super) const FAMILIES: &[&dyn Family] = &[
    &DISK.gauge(
        "cache_disk_up",
        "1 if the directory of the cache on disk is open and works, otherwise 0",
        |it| f64::from(it.up),
    ),
    &DISK.gauge("cache_disk_objects", "Responses on disk", |it| it.objects as f64),
    &DISK.gauge("cache_disk_bytes", "Bytes that the files of the cache on disk take", |it| {
        it.bytes as f64
    }),
    &DISK.gauge("cache_disk_size_bytes", "Maximum size of the cache on disk", |it| {
        it.size_bytes as f64
    }),
    &DISK.gauge("cache_disk_index_bytes", "Memory for the index of the cache on disk", |it| {
        it.index_bytes as f64
    }),
    &DISK.gauge("cache_disk_queued_bytes", "Bytes that wait to be written to disk", |it| {
        it.queued_bytes as f64
    }),
    &DISK.counter("cache_disk_hits", "Responses read from disk", |it| it.hits),
    &DISK.counter("cache_disk_read_bytes", "Bytes of responses read from disk", |it| it.read_bytes),
    &DISK.counter(
        "cache_disk_reads_refused",
        "Responses fetched from servers because the disk was slow or too many waited for it",
        |it| it.reads_refused,
    ),
    &DISK.counter("cache_disk_writes", "Responses written to disk", |it| it.written),
    &DISK.counter("cache_disk_written_bytes", "Bytes of responses written to disk", |it| {
        it.written_bytes
    }),
    &DISK.counter(
        "cache_disk_writes_refused",
        "Responses not written: the disk does not keep up or fails, or they are too large",
        |it| it.writes_refused,
    ),
    &DISK.counter("cache_disk_writes_failed", "Responses that the disk failed to write", |it| {
        it.writes_failed
    }),
    &DISK.counter("cache_disk_damaged", "Damaged records on disk", |it| it.damaged),
    &DISK.counter("cache_disk_reclaimed", "Segments on disk deleted to make room", |it| {
        it.reclaimed
    }),
];
