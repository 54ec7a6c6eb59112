//! What goes wrong, and when.

use loadline_core::{
    fleet::Fleet,
    time::{Duration, Instant},
};

use crate::{
    arrivals::Factor,
    cache::EdgeCache,
    events::{Attempt, Event},
    observer::Ended,
    scenario::{Fault, Scenario, Source, Trouble},
    simulation::Simulation,
    slab::Handle,
    station::{Outage, OutageKind},
    trace::Step,
    watch::Watch,
};

impl Simulation {
    /// Tells each server beforehand what will go wrong with it, and plans the rest.
    pub(super) fn plan_faults(&mut self) {
        for (index, fault) in self.scenario.faults.clone().iter().enumerate() {
            for station in self.stations_of(fault) {
                self.strike(station, fault);
            }
            let event = |begins| Event::Fault { index: index as u32, begins };
            // Sources begin with what they are multiplied by then.
            let is_begun = fault.at == Instant::ZERO && matches!(fault.what, Trouble::Traffic(_));
            if !is_begun {
                self.events.plan(fault.at, event(true));
            }
            if let Some(end) = fault.end() {
                self.events.plan(end, event(false));
            }
        }
    }

    /// The stations that have a fault.
    fn stations_of(&self, fault: &Fault) -> Vec<usize> {
        if !fault.what.is_of_servers() {
            return Vec::new();
        }
        let Some(fleet) = self.scenario.edges.first() else { return Vec::new() };
        let mut hit = Vec::new();
        for (service, stations) in fleet.services.iter().zip(&self.groups) {
            for (group, stations) in service.groups.iter().zip(stations) {
                let names = (group.name.as_str(), group.region.as_str());
                let fits = |address| fault.whom.fits(&service.name, names, address);
                let servers = group.servers.iter().zip(&stations.stations);
                let servers = servers.filter(|(server, _)| fits(server.address));
                hit.extend(servers.map(|(_, station)| *station as usize));
            }
        }
        // A server of two services has its faults once.
        hit.sort_unstable();
        hit.dedup();
        hit
    }

    fn strike(&mut self, station: usize, fault: &Fault) {
        let station = &mut self.stations[station];
        let (begin, end) = (fault.at, fault.end());
        match fault.what {
            Trouble::Outage(kind) => {
                station.rare_mut().outages.push(Outage { begin, end, kind });
                if let (OutageKind::Down, Some(end)) = (kind, end) {
                    station.warm_up(end);
                }
            }
            Trouble::Slow(factor) => station.rare_mut().speed.multiply(begin, end, 1.0 / factor),
            Trouble::Stall => station.rare_mut().speed.multiply(begin, end, 0.0),
            Trouble::Errors(share) => station.rare_mut().errors.push((begin, end, share)),
            Trouble::Traffic(_) | Trouble::Cache | Trouble::StoreAway | Trouble::CutOff => {}
        }
    }

    /// A fault begins or ends.
    pub(super) fn fault(&mut self, index: usize, begins: bool) {
        let fault = self.scenario.faults[index].clone();
        match fault.what {
            Trouble::Outage(kind) => {
                self.move_clients();
                if begins {
                    self.lose_edges(&fault, kind);
                }
                if begins && kind == OutageKind::Down {
                    self.stations_of(&fault).into_iter().for_each(|station| self.kill(station));
                }
            }
            // The next departure is another where the speed is.
            Trouble::Slow(_) | Trouble::Stall => {
                let hit = self.stations_of(&fault);
                hit.into_iter().for_each(|station| self.slow_shared(station));
            }
            Trouble::Cache if begins => {
                self.lose_caches(fault.whom.region.as_ref(), fault.lasts.is_some());
            }
            Trouble::Cache => self.restore_caches(fault.whom.region.as_ref()),
            Trouble::Traffic(_) => {
                (0..self.sources.len()).for_each(|source| self.change_users(source));
            }
            Trouble::Errors(_) | Trouble::StoreAway | Trouble::CutOff => {}
        }
    }

    /// Ends what shares the cores of a station.
    fn kill(&mut self, station: usize) {
        let rare = self.stations[station].rare_mut();
        let Some(sharing) = &mut rare.sharing else { return };
        rare.watch.iter_mut().for_each(Watch::clear);
        for request in sharing.clear(self.now, &rare.speed) {
            // Those that have gone elsewhere meanwhile do not notice.
            let here = self.requests.get(request).filter(|it| it.station as usize == station);
            if let Some(number) = here.map(|request| request.attempt) {
                self.resets(Attempt { request, number }, false);
            }
        }
    }

    fn slow_shared(&mut self, station: usize) {
        if self.stations[station].sharing().is_some() {
            self.plan_departure(station);
        }
    }

    /// The factor on its traffic now.
    pub(super) fn traffic_factor(&self, source: &Source) -> f64 {
        let holds =
            |(begin, end, _): &Factor| *begin <= self.now && end.is_none_or(|end| self.now < end);
        let factors = self.scenario.traffic_factors(source).into_iter().filter(holds);
        factors.map(|(.., factor)| factor).product()
    }

    /// Clients of an edge whose region is out come in at the nearest edge that is not, by way of
    /// their own.
    fn move_clients(&mut self) {
        let out: Vec<bool> = (0..self.scenario.edges.len()).map(|edge| self.is_out(edge)).collect();
        for (source, clients) in self.scenario.sources.iter().zip(&mut self.sources) {
            let far = |edge: usize| rtt_between(&self.scenario, source.edge, edge);
            let open = (0..out.len()).filter(|edge| !out[*edge]);
            let nearest = || open.min_by_key(|edge| (far(*edge).unwrap_or(Duration::MAX), *edge));
            let moved = if out[source.edge] { nearest() } else { None };
            clients.detour = moved.and_then(far).unwrap_or_default();
            clients.edge = if out[source.edge] { moved } else { Some(source.edge) };
        }
    }

    /// Ends what the edges of a lost region have under way. Clients of those that are down hear so;
    /// of those out of reach they hear nothing until they give up; who never would has failed.
    fn lose_edges(&mut self, fault: &Fault, kind: OutageKind) {
        let edges = self.scenario.edges.iter();
        let lost = edges.map(|fleet| fault.takes_out(&fleet.edge.region));
        let lost: Vec<bool> = lost.collect();
        let caches = self.caches.iter_mut().zip(&lost).filter(|(_, lost)| **lost);
        caches.filter_map(|(cache, _)| cache.as_mut()).for_each(EdgeCache::lose_fetches);
        let hit = self.requests.iter().filter(|(_, request)| lost[request.edge as usize]);
        let hit: Vec<Handle> = hit.map(|(handle, _)| handle).collect();
        for handle in hit {
            self.leave(handle);
            self.lose(handle, kind);
        }
    }

    fn lose(&mut self, handle: Handle, kind: OutageKind) {
        let Some(request) = self.requests.get_mut(handle) else { return };
        let (client, abandoned) = (request.client, request.abandoned);
        let gives_up = self.scenario.sources[client.source as usize].gives_up.is_some();
        if kind == OutageKind::Unreachable && gives_up && !abandoned {
            request.machine.abandon();
            request.fetches = false;
            return self.note(client, Step::Lost);
        }
        self.cast_off(handle);
        self.requests.discard(handle);
        if !abandoned {
            self.note(client, Step::Lost);
            self.fail(client, Ended::Unreachable);
        }
    }

    /// Whether the whole region of an edge is out.
    fn is_out(&self, edge: usize) -> bool {
        let here = &self.scenario.edges[edge].edge.region;
        self.scenario.faults.iter().any(|fault| {
            let holds =
                fault.at <= self.now && fault.end().is_none_or(|end: Instant| self.now < end);
            holds && fault.takes_out(here)
        })
    }
}

/// From one edge to another and back, as the link between them says or the configuration of either;
/// none where neither does.
fn rtt_between(scenario: &Scenario, one: usize, other: usize) -> Option<Duration> {
    let (one, other) = (&scenario.edges[one], &scenario.edges[other]);
    let (from, to) = (&one.edge.region, &other.edge.region);
    let said = || rtt_to(one, to).into_iter().chain(rtt_to(other, from)).min();
    scenario.link_between(from, to).and_then(|link| link.rtt).or_else(said)
}

/// From an edge to a region and back, as its configuration says it.
fn rtt_to(fleet: &Fleet, region: &str) -> Option<Duration> {
    let groups = fleet.services.iter().flat_map(|service| &service.groups);
    groups.filter(|group| group.region == region).filter_map(|group| group.rtt).min()
}
