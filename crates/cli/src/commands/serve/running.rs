//! What runs, as the administration sees it: the proxy, and packet forwarding beside it.

use std::{ops::Range, pin::Pin, sync::Arc};

use loadline_control::{
    acme,
    admin::{Engine, Survey},
    cluster::View,
    jwks,
};
use loadline_core::{
    fleet::Fleet,
    state::{CachedObject, Flow, Part, Purge, Purged, State},
};
use loadline_l4::Forwarder;
use loadline_proxy::runtime::{self, Handle};

use crate::{commands::chain, process_log};

/// A hold on both.
pub(super) struct Running {
    pub(super) proxy: Handle,
    /// None where nothing was forwarded at the start.
    pub(super) forwarder: Option<Arc<Forwarder>>,
    /// None where this edge is alone.
    pub(super) cluster: Option<View>,
    pub(super) acme: acme::View,
    keys: jwks::View,
}

impl Running {
    pub(super) fn new(
        proxy: Handle,
        forwarder: Option<Arc<Forwarder>>,
        cluster: Option<View>,
        (acme, keys): (acme::View, jwks::View),
    ) -> Self {
        Self { proxy, forwarder, cluster, acme, keys }
    }
}

impl Engine for Running {
    fn survey(&self) -> Box<dyn Survey> {
        Box::new(SurveyOfBoth {
            proxy: self.proxy.survey(),
            forwarder: self.forwarder.clone(),
            cluster: self.cluster.clone(),
            acme: self.acme.clone(),
            keys: self.keys.clone(),
        })
    }

    fn reload(&self, fleet: Arc<Fleet>) -> Result<(), String> {
        if self.forwarder.is_none() && !fleet.forwarding.is_empty() {
            let error = "packet forwarding needs a restart";
            return Err(error.to_owned());
        }
        self.proxy.reload(fleet).map_err(|error| error.to_string())
    }

    fn amend(&self, fleet: Arc<Fleet>) {
        self.proxy.amend(fleet);
    }

    fn settled(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(self.proxy.settled())
    }

    fn flows(&self) -> Result<Vec<Flow>, String> {
        let forwarder = self.forwarder.as_ref();
        let flows = forwarder.map_or(Ok(Vec::new()), |forwarder| forwarder.flows());
        flows.map_err(|error| chain(&error.into()))
    }

    fn cached(&self, most: usize) -> Vec<CachedObject> {
        self.proxy.cached(most)
    }

    fn purge(&self, purge: &Purge) -> Purged {
        self.proxy.purge(purge)
    }
}

/// What both do.
struct SurveyOfBoth {
    proxy: runtime::Survey,
    forwarder: Option<Arc<Forwarder>>,
    cluster: Option<View>,
    acme: acme::View,
    keys: jwks::View,
}

impl Survey for SurveyOfBoth {
    fn edge(&self) -> State {
        let forwarder = self.forwarder.as_ref();
        let counted = forwarder.map_or(Ok(None), |forwarder| forwarder.state());
        let forwarding = counted.unwrap_or_else(|error| {
            tracing::warn!("packets cannot be counted: {}", chain(&error.into()));
            None
        });
        let standby = forwarder.and_then(|forwarder| forwarder.standby());
        let cluster = self.cluster.as_ref().map(View::state);
        let (acme, jwt) = (self.acme.certificates(), self.keys.keys());
        let process_log_lines_dropped = process_log::dropped();
        let proxy = self.proxy.edge();
        State { process_log_lines_dropped, forwarding, standby, cluster, acme, jwt, ..proxy }
    }

    fn service_count(&self) -> usize {
        self.proxy.service_count()
    }

    fn place(&self, service: &str) -> Option<usize> {
        self.proxy.place(service)
    }

    fn services(&self, places: Range<usize>, part: Part) -> State {
        self.proxy.services(places, part)
    }
}
