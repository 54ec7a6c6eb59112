//! Metrics of failures.

use super::{Family, Read, services::by_word};

/// The metrics of failures.
pub(super) const FAMILIES: &[Family] = &[Family {
    name: "request_failures",
    help: "Failed requests and retried attempts, by reason",
    labels: &["service", "reason"],
    read: Read::Counter(|state, to| by_word(state, to, |it| &it.counts.reasons)),
}];
