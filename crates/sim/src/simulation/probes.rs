//! Probes of policies that ask servers for their load: they take the way there and back, and cost
//! the server nothing.

use loadline_core::decide::{plan::GroupPlan, probe_pool::ProbeResult};

use crate::{events::Event, simulation::Simulation, slab::Handle};

/// A probe on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probe {
    edge: usize,
    service: usize,
    group: usize,
    server: u16,
    /// What the server has answered, once it has.
    result: Option<ProbeResult>,
}

impl Simulation {
    /// Asks the servers that the policy of a group wants to hear of after a request.
    pub(super) fn probe(&mut self, edge: usize, service: usize, group: usize) {
        if !self.groups[service][group].probes {
            return;
        }
        let draw = self.random.draw();
        let Some(plan) = self.group_plan(edge, service, group) else { return };
        let servers: Vec<u16> = plan.to_probe(self.now, draw).map(|server| server.index).collect();
        for server in servers {
            let probe = Probe { edge, service, group, server, result: None };
            let probe = self.probes.insert(probe);
            let way = self.way(edge, service, group);
            self.events.plan(self.now + way, Event::Probe(probe));
        }
    }

    /// A probe reaches its server, or the answer its edge.
    pub(super) fn probed(&mut self, handle: Handle) {
        let Some(probe) = self.probes.get(handle).copied() else { return };
        let Probe { edge, service, group, server, result } = probe;
        let station = self.groups[service][group].stations[usize::from(server)] as usize;
        let Some(result) = result else {
            let answer = self.stations[station].answer(self.now);
            let way = self.way(edge, service, group);
            match self.probes.get_mut(handle).filter(|_| answer.is_some()) {
                Some(probe) => {
                    probe.result = answer;
                    self.events.plan(self.now + way, Event::Probe(handle));
                }
                None => drop(self.probes.remove(handle)),
            }
            return;
        };
        self.probes.remove(handle);
        let draw = self.random.draw();
        let Some(plan) = self.group_plan(edge, service, group) else { return };
        if let Some(server) = plan.servers.iter().find(|it| it.index == server) {
            plan.probed(self.now, server, result, draw);
        }
    }

    fn group_plan(&self, edge: usize, service: usize, group: usize) -> Option<&GroupPlan> {
        let plan = self.edges[edge].plan.services.get(service)?;
        plan.groups.iter().find(|plan| usize::from(plan.index) == group)
    }
}
