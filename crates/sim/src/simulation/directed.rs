//! Rules that choose servers in place of the policy, to be compared with it.

use std::fmt::Debug;

use loadline_core::{
    decide::{ledger::ServerId, plan::ServerPlan, probe_pool::ProbeResult},
    time::Instant,
};

use crate::{random::Random, simulation::Simulation, station::Station};

/// Chooses the server of each request, among those of the first group of the first service.
pub trait Director: Debug {
    /// The place of the server to which a request goes that comes in at this edge.
    fn choose(&mut self, edge: usize, servers: &mut Servers<'_>) -> usize;
}

/// The servers as a rule may see them.
#[derive(Debug)]
pub struct Servers<'a> {
    now: Instant,
    plans: &'a [ServerPlan],
    stations: &'a mut [Station],
    indices: &'a [u32],
    random: &'a mut Random,
}

impl Servers<'_> {
    /// The simulated time.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.now
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.plans.len()
    }

    /// Requests in flight from this edge at the server of this place.
    #[must_use]
    pub fn own(&self, place: usize) -> u32 {
        self.plans[place].state().in_flight()
    }

    /// What the server answers a probe now; nothing where it is out.
    pub fn ask(&mut self, place: usize) -> Option<ProbeResult> {
        let now = self.now;
        self.station(place).answer(now)
    }

    /// How many requests the server has served, and for how many seconds it was busy.
    pub fn used(&mut self, place: usize) -> (u64, f64) {
        let now = self.now;
        self.station(place).rare_mut().watch.as_mut().map_or((0, 0.0), |watch| watch.used(now))
    }

    /// A random number, uniform over all of `u64`.
    pub fn draw(&mut self) -> u64 {
        self.random.draw()
    }

    fn station(&mut self, place: usize) -> &mut Station {
        let index = usize::from(self.plans[place].index);
        &mut self.stations[self.indices[index] as usize]
    }
}

impl Simulation {
    /// Lets a rule choose the servers of the first service.
    #[must_use]
    pub fn directed_by(mut self, director: Box<dyn Director>) -> Self {
        self.stations.iter_mut().for_each(Station::watch);
        self.director = Some(director);
        self
    }

    /// The server chosen by the director, if there is one.
    pub(super) fn directed(&mut self, edge: usize) -> Option<ServerId> {
        let director = self.director.as_mut()?;
        let group = self.edges[edge].plan.services.get(0)?.groups.first()?;
        let mut servers = Servers {
            now: self.now,
            plans: &group.servers,
            stations: &mut self.stations,
            indices: &self.groups[0][usize::from(group.index)].stations,
            random: &mut self.random,
        };
        let place = director.choose(edge, &mut servers);
        Some(group.servers.get(place)?.state().id())
    }
}
