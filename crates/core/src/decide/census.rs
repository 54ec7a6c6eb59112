//! All groups and servers of a service in the order of the file, those without traffic included:
//! for metrics, the API and packet forwarding.

use alloc::{boxed::Box, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{
    decide::ledger::{Departed, GroupState, ServerState},
    time::Duration,
};

/// A configured group.
#[derive(Debug)]
pub struct GroupSnapshot {
    /// Round-trip time from this edge; [`Duration::MAX`] while not measured.
    pub distance: Duration,
    /// Its counters, kept from plan to plan.
    pub state: Arc<GroupState>,
    /// In the order of the file.
    pub servers: Box<[ServerSnapshot]>,
    /// What servers were given that it no longer has.
    pub(crate) departed: Arc<Departed>,
}

impl GroupSnapshot {
    /// Requests that its servers were given, with those that it no longer has.
    pub(crate) fn requests(&self) -> u64 {
        let here = self.servers.iter().map(|it| it.state.requests.get());
        here.sum::<u64>() + self.departed.requests()
    }
}

/// A configured server.
#[derive(Debug)]
pub struct ServerSnapshot {
    /// Its counters, kept from plan to plan.
    pub state: Arc<ServerState>,
    /// What checks and ejections say of it.
    pub condition: Condition,
    /// Why it is not up.
    pub reason: Option<Arc<str>>,
}

/// Condition of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Condition {
    /// Health checks pass.
    Up,
    /// Not checked yet, or no health checks; counts as healthy.
    #[default]
    Unchecked,
    /// Health checks fail.
    Down,
    /// Ejected for some time because requests failed (outlier ejection).
    Ejected,
    /// Drained: its weight or the scaler of its group is 0.
    Drained,
}

impl Condition {
    /// Every condition, in the order of the documentation.
    pub const ALL: [Self; 5] =
        [Self::Up, Self::Unchecked, Self::Down, Self::Ejected, Self::Drained];

    /// The name in metrics, API and dashboard.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Unchecked => "unchecked",
            Self::Down => "down",
            Self::Ejected => "ejected",
            Self::Drained => "drained",
        }
    }
}
