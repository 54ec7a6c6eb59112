//! Which service a request is for, in which plan.

use std::{rc::Rc, sync::Arc};

use loadline_core::{
    decide::plan::ServicePlan,
    fleet::{Server, Service, Store},
};

use crate::{
    http::driver::Place,
    http2::Target,
    runtime::{
        view::{ServiceContext, View},
        worker::Worker,
    },
    telemetry::failures::Scene,
};

/// A service as a plan has it.
#[derive(Clone, Debug)]
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

    /// The plan and its contexts.
    pub(crate) const fn view(&self) -> &Rc<View> {
        &self.view
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
    pub(crate) fn service_context(&self) -> &ServiceContext {
        &self.view.services[self.service]
    }

    /// Goes by the plan now in force; false if it does not have the service any more.
    pub(crate) fn renew(&mut self, worker: &Worker) -> bool {
        let view = worker.view();
        if Rc::ptr_eq(&view, &self.view) {
            return true;
        }
        let (name, services) = (&self.settings().name, &view.plan.fleet.services);
        // It mostly stands where it stood.
        let is_here = services.get(self.service).is_some_and(|service| service.name == *name);
        let found = if is_here { Some(self.service) } else { services.position(name) };
        let Some(service) = found else { return false };
        *self = Self { view, service };
        true
    }

    /// Where a connection to the server at this place goes that others will use too, and so is made
    /// as the plan now in force says.
    pub(crate) fn target(&self, worker: &Worker, place: &Place) -> Target {
        let mut now = self.clone();
        now.renew(worker);
        Target {
            address: place.address,
            tls: now.service_context().tls.clone(),
            timeouts: now.settings().timeouts,
            longest_head: now.view.longest_head(),
        }
    }

    /// The scene of a failure at this place, or at no server.
    pub(crate) fn scene(&self, place: Option<&Place>) -> Scene<'_> {
        let Service { name, groups, .. } = self.settings();
        let group = |place: &Place| groups.get(place.group).map_or("-", |group| &group.name);
        let server = place.map(|place| (place.server, group(place), place.address));
        Scene { service: name, server }
    }

    /// The most connections to the server at this place.
    pub(crate) fn max_connections(&self, place: &Place) -> u32 {
        self.server(place).map_or(u32::MAX, |server| server.max_connections)
    }

    /// Whether a connection that is kept to the server at this place is for every worker: since the
    /// server is far, or since another worker may not open one beside it.
    pub(crate) fn shares(&self, place: &Place) -> bool {
        self.service_context().is_far(place.group) || self.max_connections(place) <= SCARCE
    }

    /// The store that is the server at this place; none of a service without any.
    pub(crate) fn store(&self, place: &Place) -> Option<&Arc<Store>> {
        self.service_context().has_store().then(|| self.server(place)?.store.as_ref()).flatten()
    }

    fn server(&self, place: &Place) -> Option<&Server> {
        self.settings().groups.get(place.group)?.servers.get(place.index)
    }
}

/// With no more connections to a server, workers that each keep some of them would soon leave none
/// for another: that is worth a lock a request.
pub(crate) const SCARCE: u32 = 256;
