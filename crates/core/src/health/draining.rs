//! Draining servers: the deadline of what is still in flight with them.
//!
//! A server *stays* while the fleet has it with a weight and its group with a scaler above zero.
//! Otherwise it *drains*: it is given nothing, what is under way goes on, and connections that are
//! done with are closed. Where there is a limit (of the server, else of its service) what is left
//! then is *cut*. A limit that changes meanwhile counts from when the drain began. A server that
//! the fleet no longer has keeps the limit it had.

use alloc::{
    collections::BTreeMap,
    string::{String, ToString},
    sync::Arc,
    vec::Vec,
};
use core::net::SocketAddr;

use crate::{
    decide::ledger::{Leave, Ledger, ServerId, ServerState, ServiceChange},
    fleet::{Group, Server, Service},
    time::{Duration, Instant},
    units::Ratio,
};

/// Every server that drains or is cut.
#[derive(Clone, Debug, Default)]
pub(crate) struct Draining(BTreeMap<ServerId, DrainingServer>);

/// One server on its way out.
#[derive(Clone, Debug)]
pub(crate) struct DrainingServer {
    /// The name of its service.
    pub service: String,
    /// The name of its group.
    pub group: String,
    pub state: Arc<ServerState>,
    since: Instant,
    /// None where nothing is ever cut.
    limit: Option<Duration>,
    cut: bool,
}

impl Draining {
    /// Counts in this ledger.
    pub(crate) fn count_in(&mut self, ledger: &mut Ledger) {
        for DrainingServer { service, group, state, .. } in self.0.values_mut() {
            *state = ledger.server(service, group, state.address());
        }
    }

    /// Finds out which servers leave when services change; the ledger must still know the servers
    /// of before, and those of now.
    pub(crate) fn settle(&mut self, now: Instant, changes: &[ServiceChange<'_>], ledger: &Ledger) {
        self.0.retain(|_, server| server.state.in_flight() > 0);
        changes.iter().for_each(|change| self.settle_service(now, change, ledger));
    }

    /// The same for one service.
    fn settle_service(&mut self, now: Instant, change: &ServiceChange<'_>, ledger: &Ledger) {
        let ServiceChange { name, before, after: configured } = change;
        let limit_of = |service: Option<&Service>| service.and_then(|it| it.drain_timeout);
        let limit_if_gone = limit_of(configured.or(*before));
        let limit_changed = configured.is_some() && limit_if_gone != limit_of(*before);
        let configured = configured.map(Configured::of);
        for (group, state) in ledger.servers(name) {
            let intent = |all: &Configured<'_>| all.intent(group, state.address());
            let limit = match configured.as_ref().map_or(Intent::Gone, intent) {
                Intent::Stays => {
                    state.set_leave(Leave::Stays);
                    self.0.remove(&state.id());
                    continue;
                }
                Intent::Drains(limit) => limit,
                Intent::Gone => match self.0.get(&state.id()) {
                    Some(server) if !limit_changed => server.limit,
                    _ => limit_if_gone,
                },
            };
            let server = self.0.entry(state.id()).or_insert_with(|| {
                state.set_leave(Leave::Drains);
                let (service, group) = (name.to_string(), group.to_string());
                let (state, cut) = (state.clone(), false);
                DrainingServer { service, group, state, since: now, limit, cut }
            });
            server.limit = limit;
        }
    }

    /// Cuts servers whose drain is over; gives those that still have requests in flight.
    pub(crate) fn cut_late(&mut self, now: Instant) -> Vec<&DrainingServer> {
        let late = self.0.values_mut().filter(|it| it.until().is_some_and(|until| until <= now));
        let cut = late.filter_map(|server| {
            server.cut = true;
            server.state.set_leave(Leave::Cut);
            (server.state.in_flight() > 0).then_some(&*server)
        });
        cut.collect()
    }

    /// When the next server is cut.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.0.values().filter_map(DrainingServer::until).min()
    }
}

impl DrainingServer {
    fn until(&self) -> Option<Instant> {
        let limit = self.limit.filter(|_| !self.cut);
        limit.map(|limit| self.since + limit)
    }
}

/// What a fleet has in mind for a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Intent {
    Stays,
    /// The server stays and gets no new requests, with the time limit.
    Drains(Option<Duration>),
    Gone,
}

/// The servers of a service that the fleet has, by group and address.
struct Configured<'a> {
    drain_timeout: Option<Duration>,
    servers: BTreeMap<(&'a str, SocketAddr), (&'a Group, &'a Server)>,
}

impl<'a> Configured<'a> {
    fn of(service: &'a Service) -> Self {
        let of_group = |group: &'a Group| {
            let entry = move |server: &'a Server| ((&*group.name, server.address), (group, server));
            group.servers.iter().map(entry)
        };
        let servers = service.groups.iter().flat_map(of_group).collect();
        Self { drain_timeout: service.drain_timeout, servers }
    }

    fn intent(&self, group: &str, address: SocketAddr) -> Intent {
        match self.servers.get(&(group, address)) {
            None => Intent::Gone,
            Some((group, server)) if server.weight > 0 && group.scaler > Ratio::ZERO => {
                Intent::Stays
            }
            Some((_, server)) => Intent::Drains(server.drain_timeout.or(self.drain_timeout)),
        }
    }
}
