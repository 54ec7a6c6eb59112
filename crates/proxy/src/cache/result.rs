//! What the cache did for a request, as it is counted and logged.

use loadline_core::state::ServiceCounter;

/// What the cache did for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CacheResult {
    /// A fresh response was there.
    Hit,
    /// A stale one was used.
    Stale,
    /// A server confirmed that the stored response is still right.
    Revalidated,
    /// The response of another request's fetch was used.
    Collapsed,
    /// A server was asked for it.
    Miss,
    /// It went to a server as if there were no cache.
    Bypass,
}

impl CacheResult {
    /// The word in the access log.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::Stale => "stale",
            Self::Revalidated => "revalidated",
            Self::Collapsed => "collapsed",
            Self::Miss => "miss",
            Self::Bypass => "bypass",
        }
    }

    /// Where such requests are counted.
    pub(crate) const fn counter(self) -> ServiceCounter {
        match self {
            Self::Hit => ServiceCounter::CacheHits,
            Self::Stale => ServiceCounter::CacheStale,
            Self::Revalidated => ServiceCounter::CacheRevalidated,
            Self::Collapsed => ServiceCounter::CacheCollapsed,
            Self::Miss => ServiceCounter::CacheMisses,
            Self::Bypass => ServiceCounter::CacheBypassed,
        }
    }

    /// Whether its response is a server's, to a request that was sent for it.
    pub(crate) const fn is_of_server(self) -> bool {
        match self {
            Self::Hit | Self::Stale | Self::Revalidated | Self::Collapsed => false,
            Self::Miss | Self::Bypass => true,
        }
    }
}
