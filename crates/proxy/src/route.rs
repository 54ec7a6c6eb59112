//! Which service a request is for, in which plan.

use std::rc::Rc;

use loadline_core::{fleet::Service, permit::Permit, plan::ServicePlan};

use crate::{
    failures::Scene,
    grant::Grant,
    view::{Desk, View},
    worker::Worker,
};

/// A service as a plan has it.
#[derive(Debug)]
pub(crate) struct Route {
    view: Rc<View>,
    /// Index among the services of the plan.
    service: usize,
}

impl Route {
    /// The service at this index of `view`.
    pub(crate) const fn new(view: Rc<View>, service: usize) -> Self {
        Self { view, service }
    }

    /// How requests are decided.
    pub(crate) fn plan(&self) -> &ServicePlan {
        self.view.service(self.service)
    }

    /// How the service is configured.
    pub(crate) fn settings(&self) -> &Service {
        &self.view.plan.fleet.services[self.service]
    }

    /// What the worker keeps for the service.
    pub(crate) fn desk(&self) -> &Desk {
        &self.view.desks[self.service]
    }

    /// Goes by the plan now in force; false if it does not have the service any more.
    pub(crate) fn renew(&mut self, worker: &Worker) -> bool {
        let view = worker.view();
        if Rc::ptr_eq(&view, &self.view) {
            return true;
        }
        let name = &self.settings().name;
        let found = view.plan.fleet.services.iter().position(|service| service.name == *name);
        let Some(service) = found else { return false };
        *self = Self { view, service };
        true
    }

    /// A permit of this service with what it has to do when it ends.
    pub(crate) fn grant(&self, permit: Permit) -> Grant {
        Grant::new(permit, &self.view, self.service)
    }

    /// Where it failed if it failed with `grant`, or without any.
    pub(crate) fn scene(&self, grant: Option<&Grant>) -> Scene<'_> {
        let Service { name, groups, .. } = self.settings();
        let group = |grant: &Grant| groups.get(grant.place().0).map_or("-", |group| &group.name);
        let server = grant.map(|grant| (grant.server(), group(grant), grant.address()));
        Scene { service: name, server }
    }

    /// The most connections to the server of `grant`.
    pub(crate) fn max_connections(&self, grant: &Grant) -> u32 {
        let (group, server) = grant.place();
        let groups = self.settings().groups.get(group);
        groups.and_then(|group| group.servers.get(server)).map_or(u32::MAX, |s| s.max_connections)
    }
}
