//! Tells the manager how many connections the servers have whose weights it makes.

use std::{collections::BTreeSet, net::SocketAddr};

use loadline_core::{decide::plan::Plan, time};
use loadline_l4::{TableError, forwarder::load::managed};

use super::tables::Tables;

impl Tables {
    /// Counts the connections of all such servers, by all methods.
    pub(super) fn tell_loads(&mut self, now: time::Instant, plan: &Plan) -> Result<(), TableError> {
        let mut before = std::mem::take(&mut self.loads);
        for (service, server) in managed(plan) {
            let (mut opened, mut closed) = (0, 0);
            for number in self.numbers_of(&service.name, server.address()) {
                let count = self.datapath.server_count(number)?;
                opened += count.opened;
                closed += count.closed;
            }
            let key = (service.name.clone(), server.address());
            let mut load = before.remove(&key).unwrap_or_default();
            let since = load.look(now, opened, closed, service.flow_times.stale);
            server.tell_forwarded(since, load.open());
            self.loads.insert(key, load);
        }
        Ok(())
    }

    /// What a server of a service is known by, in all services that lead there.
    fn numbers_of(&mut self, service: &str, address: SocketAddr) -> BTreeSet<u16> {
        let forwarded_services =
            self.wanted.iter().filter(|(forwarded, _)| forwarded.service == service);
        let names = forwarded_services.filter_map(|(forwarded, wanted)| {
            let target = wanted.targets.iter().find(|target| target.address == address)?;
            Some(forwarded.name(target))
        });
        names.filter_map(|name| self.numbers.of(name)).collect()
    }
}
