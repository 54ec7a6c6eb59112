//! How many connections a server has whose packets are forwarded; the manager is told of those
//! whose weights it makes.

use std::{collections::BTreeSet, net::SocketAddr};

use loadline_core::{
    decide::{ledger::ServerState, plan::Plan},
    fleet::{PolicyKind, Service},
    time::{Duration, Instant},
};

use super::tables::Tables;
use crate::error::TableError;

/// Connections of a server, by the packets that clients sent it.
///
/// A first packet opens one and a FIN or RST closes one; what a client sends again counts again,
/// and one that just falls silent closes nothing. So that such errors do not add up, what is open
/// is forgotten by and by, as fast as a connection may be silent for:
///
/// ```text
/// open = max(0, open * exp(-elapsed / stale) + opened - closed)
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Load {
    opened: u64,
    closed: u64,
    looked: Option<Instant>,
    open: f64,
}

impl Load {
    /// Takes the counts of a server since its start; gives the connections opened since the last
    /// look. A count that fell is ignored.
    pub(super) fn look(&mut self, now: Instant, opened: u64, closed: u64, stale: Duration) -> u64 {
        let elapsed = self.looked.replace(now).map_or(Duration::ZERO, |before| now.since(before));
        let opened_since = opened.saturating_sub(self.opened);
        let closed_since = closed.saturating_sub(self.closed);
        (self.opened, self.closed) = (opened, closed);
        let faded = self.open * (-elapsed.as_secs_f64() / stale.as_secs_f64()).exp();
        self.open = (faded + opened_since as f64 - closed_since as f64).max(0.0);
        opened_since
    }

    /// Connections that are open.
    #[must_use]
    pub(super) const fn open(&self) -> f64 {
        self.open
    }
}

impl Tables {
    /// Counts the connections of all such servers, by all methods.
    pub(super) fn tell_loads(&mut self, now: Instant, plan: &Plan) -> Result<(), TableError> {
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

    /// Numbers of a server of a service, in all services that lead to it.
    fn numbers_of(&self, service: &str, address: SocketAddr) -> BTreeSet<u16> {
        let forwarded_services =
            self.wanted.iter().filter(|(forwarded, _)| forwarded.service == service);
        let names = forwarded_services.filter_map(|(forwarded, wanted)| {
            let target = wanted.targets.iter().find(|target| target.address == address)?;
            Some(forwarded.name(self.service_numbers.of(forwarded)?, target))
        });
        names.flat_map(|name| self.numbers.in_all_services(name)).collect()
    }
}

/// The servers whose weights the manager makes, with their services. It knows what the proxy gives
/// them; [`ServerState::tell_forwarded`] is for what is forwarded to them.
fn managed(plan: &Plan) -> impl Iterator<Item = (&Service, &ServerState)> {
    let services = plan.fleet.services.iter().zip(plan.services.iter());
    let managed = services.filter(|(service, _)| service.policy == PolicyKind::Managed);
    managed.flat_map(|(service, plan)| {
        let servers = plan.census.iter().flat_map(|group| &group.servers);
        servers.map(move |it| (service, &*it.state))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STALE: Duration = Duration::from_secs(300);

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn what_was_opened_and_not_closed_is_open() {
        let mut load = Load::default();
        assert_eq!(load.look(at(1), 10, 2, STALE), 10);
        assert!((load.open() - 8.0).abs() < 1e-9);
        assert_eq!(load.look(at(2), 15, 14, STALE), 5);
        let faded = 8.0 * f64::exp(-1.0 / 300.0) + 5.0 - 12.0;
        assert!((load.open() - faded).abs() < 1e-9, "{}", load.open());
    }

    #[test]
    fn errors_of_counting_do_not_add_up() {
        let (mut more, mut less) = (Load::default(), Load::default());
        for second in 1..10_000 {
            // One in a hundred is never closed; of the others one in a hundred closes twice.
            more.look(at(second), 100 * second, 99 * second, STALE);
            less.look(at(second), 100 * second, 101 * second, STALE);
        }
        assert!(more.open() < 1.01 * 300.0, "{}", more.open());
        assert!(less.open() < 1e-9, "{}", less.open());
    }

    #[test]
    fn a_count_that_begins_anew_opens_nothing() {
        let mut load = Load::default();
        load.look(at(1), 1_000, 900, STALE);
        assert_eq!(load.look(at(2), 3, 1, STALE), 0);
        assert_eq!(load.look(at(3), 5, 1, STALE), 2);
    }
}
