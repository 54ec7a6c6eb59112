//! What tests of the cache have in common.

use loadline_core::{cache::Metadata, time::Duration};

use super::unix_now;

/// Of a response that has just come, and is fresh for an hour.
pub(super) fn fresh() -> Metadata {
    Metadata {
        status: 200,
        generated: unix_now(),
        received: unix_now(),
        lifetime: Duration::from_secs(3_600),
        stale_while_revalidate: None,
        stale_if_error: None,
        may_be_stale: true,
        needs_validation: false,
        has_validator: false,
        immutable: false,
        for_authorized: false,
    }
}
