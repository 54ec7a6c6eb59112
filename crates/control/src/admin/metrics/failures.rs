//! Metrics of failures.

use super::{
    family::{Family, Subject},
    services::by_word,
};

const REASONS: Subject<u64> = Subject {
    labels: &["service", "reason"],
    each: |state, to| by_word(state, to, |it| &it.counts.reasons),
};

/// The metrics of failures.
pub(super) const FAMILIES: &[&dyn Family] = &[&REASONS.counter(
    "request_failures",
    "Failed requests and retried attempts, by reason",
    |it| *it,
)];
