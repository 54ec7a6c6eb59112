//! Metrics of the cache on disk. Without one there are none.

use loadline_core::state::{DiskCache, State};

use super::{Family, Read, Samples};

fn disk<T>(state: &State, samples: &mut Samples<'_, T>, value: fn(&DiskCache) -> T) {
    let disk = state.cache.as_ref().and_then(|cache| cache.disk.as_ref());
    disk.into_iter().for_each(|disk| samples.add(&[], value(disk)));
}

/// The metrics of the cache on disk.
pub(super) const FAMILIES: &[Family] = &[
    Family {
        name: "cache_disk_up",
        help: "1 if the directory of the cache on disk is open and works, otherwise 0",
        labels: &[],
        read: Read::Gauge(|state, to| disk(state, to, |it| f64::from(u8::from(it.up)))),
    },
    Family {
        name: "cache_disk_objects",
        help: "Responses on disk",
        labels: &[],
        read: Read::Gauge(|state, to| disk(state, to, |it| it.objects as f64)),
    },
    Family {
        name: "cache_disk_bytes",
        help: "Bytes that the files of the cache on disk take",
        labels: &[],
        read: Read::Gauge(|state, to| disk(state, to, |it| it.bytes as f64)),
    },
    Family {
        name: "cache_disk_size_bytes",
        help: "Bytes that they may take",
        labels: &[],
        read: Read::Gauge(|state, to| disk(state, to, |it| it.size_bytes as f64)),
    },
    Family {
        name: "cache_disk_index_bytes",
        help: "Memory for the index of the cache on disk",
        labels: &[],
        read: Read::Gauge(|state, to| disk(state, to, |it| it.index_bytes as f64)),
    },
    Family {
        name: "cache_disk_queued_bytes",
        help: "Bytes that wait to be written to disk",
        labels: &[],
        read: Read::Gauge(|state, to| disk(state, to, |it| it.queued_bytes as f64)),
    },
    Family {
        name: "cache_disk_hits",
        help: "Responses read from disk",
        labels: &[],
        read: Read::Counter(|state, to| disk(state, to, |it| it.hits)),
    },
    Family {
        name: "cache_disk_read_bytes",
        help: "Bytes of responses read from disk",
        labels: &[],
        read: Read::Counter(|state, to| disk(state, to, |it| it.read_bytes)),
    },
    Family {
        name: "cache_disk_reads_refused",
        help: "Responses fetched instead, since too many waited for the disk or it was too slow",
        labels: &[],
        read: Read::Counter(|state, to| disk(state, to, |it| it.reads_refused)),
    },
    Family {
        name: "cache_disk_writes",
        help: "Responses written to disk",
        labels: &[],
        read: Read::Counter(|state, to| disk(state, to, |it| it.written)),
    },
    Family {
        name: "cache_disk_written_bytes",
        help: "Bytes of responses written to disk",
        labels: &[],
        read: Read::Counter(|state, to| disk(state, to, |it| it.written_bytes)),
    },
    Family {
        name: "cache_disk_writes_refused",
        help: "Responses not written: the disk does not keep up or fails, or they are too large",
        labels: &[],
        read: Read::Counter(|state, to| disk(state, to, |it| it.writes_refused)),
    },
    Family {
        name: "cache_disk_writes_failed",
        help: "Responses that the disk failed to write",
        labels: &[],
        read: Read::Counter(|state, to| disk(state, to, |it| it.writes_failed)),
    },
    Family {
        name: "cache_disk_damaged",
        help: "Records on disk that were not what had been written, or could not be read",
        labels: &[],
        read: Read::Counter(|state, to| disk(state, to, |it| it.damaged)),
    },
    Family {
        name: "cache_disk_reclaimed",
        help: "Segments on disk whose room was needed",
        labels: &[],
        read: Read::Counter(|state, to| disk(state, to, |it| it.reclaimed)),
    },
];
