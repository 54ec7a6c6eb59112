//! Which responses are written to disk, and which are used that were read from there.

use crate::{cache::Metadata, time::Duration, time::UnixTime};

/// What becomes of a response that memory lets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It is written.
    Write,
    /// It is on disk already, as it is.
    There,
    /// It takes more than a segment has.
    TooLarge,
    /// It could hardly be used again.
    Useless,
}

/// Decides whether a response that memory evicts, or that is too large for memory, is written to
/// disk: unless it is there already, whatever can be used again. It takes `bytes` there, of which a
/// segment has `most`.
#[must_use]
pub fn admit(
    metadata: &Metadata,
    (bytes, most): (u64, u64),
    is_there: bool,
    now: UnixTime,
) -> Admission {
    let remains = metadata.lifetime.saturating_sub(metadata.age(now));
    if bytes > most {
        Admission::TooLarge
    } else if is_there {
        Admission::There
    } else if metadata.is_of_use(now) && (metadata.has_validator || remains >= WORTHWHILE) {
        Admission::Write
    } else {
        Admission::Useless
    }
}

/// Whether a response read from disk may be used. One received long after `now` shows that the
/// clock was set back since: its age would be understated.
#[must_use]
pub fn is_usable(metadata: &Metadata, now: UnixTime) -> bool {
    metadata.received.since(now) <= CLOCK_DRIFT
}

/// What is stale sooner, and cannot be validated, is not worth writing.
const WORTHWHILE: Duration = Duration::from_secs(1);

/// By so much a clock may be corrected without anything being lost.
const CLOCK_DRIFT: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixTime = UnixTime::from_secs(1_000_000);

    fn metadata(lifetime: u64) -> Metadata {
        Metadata {
            status: 200,
            generated: NOW,
            received: NOW,
            lifetime: Duration::from_secs(lifetime),
            stale_while_revalidate: None,
            stale_if_error: None,
            may_be_stale: true,
            needs_validation: false,
            has_validator: false,
            immutable: false,
            for_authorized: false,
        }
    }

    #[test]
    fn what_can_be_used_again_is_written_once() {
        let later = NOW + Duration::from_secs(59);
        let fresh = metadata(60);
        assert_eq!(admit(&fresh, (10, 10), false, later), Admission::Write);
        assert_eq!(admit(&fresh, (10, 10), true, later), Admission::There);
        assert_eq!(admit(&fresh, (11, 10), false, later), Admission::TooLarge);
        let later = NOW + Duration::from_secs(60);
        assert_eq!(admit(&fresh, (10, 10), false, later), Admission::Useless);
        let validated = Metadata { has_validator: true, ..fresh };
        assert_eq!(admit(&validated, (10, 10), false, later), Admission::Write);
    }

    #[test]
    fn a_clock_that_was_set_back_makes_nothing_younger() {
        let response = metadata(3_600);
        assert!(is_usable(&response, NOW - Duration::from_secs(60)));
        assert!(!is_usable(&response, NOW - Duration::from_secs(61)));
        assert!(is_usable(&response, NOW + Duration::from_secs(1 << 30)));
    }
}
