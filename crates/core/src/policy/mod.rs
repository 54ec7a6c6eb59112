//! How a server is chosen inside a group: one file each, one closed list.
//!
//! A policy has two functions: `build` makes what it needs to know (a schedule, a table) when a
//! plan is made; `choose` picks among the servers that are open, for one request, without
//! allocating, locking or reading a clock. `None` means no server is open.

use crate::{
    fleet::PolicyKind,
    plan::{Ask, GroupPlan, ServerPlan},
};

mod least_requests;

/// A policy with what it has built for the servers of one group.
#[derive(Debug)]
pub(crate) enum Chooser {
    LeastRequests,
}

impl Chooser {
    /// Prepares a policy for these servers.
    pub(crate) fn build(_kind: PolicyKind, _servers: &[ServerPlan]) -> Self {
        Self::LeastRequests
    }

    /// Chooses among the servers for which `open` holds.
    pub(crate) fn choose<'a>(
        &self,
        group: &'a GroupPlan,
        ask: &Ask<'_>,
        open: impl Fn(&ServerPlan) -> bool,
    ) -> Option<&'a ServerPlan> {
        match self {
            Self::LeastRequests => least_requests::choose(&group.servers, ask.draw, open),
        }
    }
}

/// A place among `len` servers, evenly drawn; zero where there are none.
fn start_at(draw: u64, len: usize) -> usize {
    ((u128::from(draw) * len as u128) >> 64) as usize
}
