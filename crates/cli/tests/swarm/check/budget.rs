//! No group and no server is given more than it may have: in flight at an edge never more than
//! `max_in_flight`, in any window `W` never more than `max_rate * W + burst`, both times the scaler
//! and, for groups, the share of servers in use. An edge that has a share of it may be a request
//! over the burst, for it has a whole one at least. Services that spread are over it on purpose.

use loadline_sim::trace::{Fact, Step, What};

use super::Checker;
use crate::account::Account;

pub(super) struct Budget;

impl Checker for Budget {
    fn see(&mut self, account: &Account, fact: &Fact) -> Result<(), String> {
        let What::Request(number, Step::Sent { server, .. }) = fact.what else { return Ok(()) };
        if account.spreads(server.service as usize) {
            return Ok(());
        }
        let edge = account.requests.get(&number).map_or(0, |request| request.edge);
        let group = account.group(edge, server);
        match group.excess(fact.at, server.server, account.edges_share) {
            None => Ok(()),
            Some(excess) => Err(format!(
                "request {number} is sent to server {} of group {} of service {} at edge {edge}: \
                 {excess}",
                server.server, server.group, server.service
            )),
        }
    }
}
