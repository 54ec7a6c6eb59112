//! The configured limits of a group or a server.

use crate::units::{Rate, Ratio};

/// What a group or a server may be given; absent means not limited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capacity {
    /// Requests per second.
    pub max_rate: Option<Rate>,
    /// Requests that may come at once on top of an even `max_rate`; if omitted as
    /// [`Allowance::new`](crate::decide::budget::Allowance::new) says.
    pub burst: Option<u32>,
    /// Requests in flight at a time.
    pub max_in_flight: Option<u32>,
    /// Whether the limit of requests that wait for a response is found while they are served
    /// ([`crate::decide::concurrency`]); for groups, not for servers. If omitted it is if nothing
    /// else limits the group or its servers.
    pub auto: Option<bool>,
    /// Utilization as the servers report it (ORCA `endpoint-load-metrics`).
    pub max_utilization: Option<Ratio>,
}

impl Capacity {
    /// Whether a number limits anything.
    #[must_use]
    pub const fn is_written(&self) -> bool {
        self.max_rate.is_some() || self.max_in_flight.is_some() || self.max_utilization.is_some()
    }

    /// No number limits anything.
    pub const UNLIMITED: Self = Self {
        max_rate: None,
        burst: None,
        max_in_flight: None,
        auto: None,
        max_utilization: None,
    };
}
