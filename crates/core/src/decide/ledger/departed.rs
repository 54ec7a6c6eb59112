//! The requests of servers that a group no longer has.

use alloc::{collections::BTreeMap, sync::Arc, vec::Vec};
use core::net::SocketAddr;

use crate::decide::ledger::ServerState;

/// What servers were given that have left their group. A plan has that of the moment it was made,
/// so that a server is counted here or among those of the plan, and never in both.
#[derive(Debug, Default)]
pub(crate) struct Departed {
    /// Requests that servers were given of which nothing is known any more.
    requests: u64,
    /// Servers that left with the last change: the plan before it may still give them requests.
    forgotten: Vec<Arc<ServerState>>,
    /// Servers that the ledger still knows, since requests are in flight with them.
    lingering: Vec<Arc<ServerState>>,
}

impl Departed {
    /// Requests that they were given.
    pub(crate) fn requests(&self) -> u64 {
        self.requests + sum(&self.forgotten) + sum(&self.lingering)
    }

    /// The same after another change: these are the ones that it left behind.
    pub(super) fn after(
        &self,
        forgotten: Vec<Arc<ServerState>>,
        lingering: Vec<Arc<ServerState>>,
    ) -> Self {
        Self { requests: self.requests + sum(&self.forgotten), forgotten, lingering }
    }

    /// The same in another ledger, which knows these servers.
    pub(super) fn snapshot(&self, servers: &BTreeMap<SocketAddr, Arc<ServerState>>) -> Self {
        let lingering = self.lingering.iter().filter_map(|it| servers.get(&it.address()));
        self.after(Vec::new(), lingering.cloned().collect())
    }
}

fn sum(servers: &[Arc<ServerState>]) -> u64 {
    servers.iter().map(|server| server.requests.get()).sum()
}
