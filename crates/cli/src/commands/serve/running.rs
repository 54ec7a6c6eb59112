//! What runs, as the administration sees it: the proxy, and packet forwarding beside it.

use std::sync::Arc;

use loadline_control::admin::Engine;
use loadline_core::{
    fleet::Fleet,
    state::{Flow, State},
};
use loadline_proxy::runtime::Handle;

use super::forwarder::Forwarder;
use crate::commands::chain;

/// A hold on both.
pub(super) struct Running {
    pub(super) proxy: Handle,
    /// None where nothing was forwarded at the start.
    pub(super) forwarder: Option<Arc<Forwarder>>,
}

impl Engine for Running {
    fn state(&self) -> State {
        let forwarder = self.forwarder.as_ref();
        let forwarding = forwarder.and_then(|forwarder| forwarder.state());
        let standby = forwarder.and_then(|forwarder| forwarder.standby());
        State { forwarding, standby, ..self.proxy.state() }
    }

    fn reload(&self, fleet: Arc<Fleet>) -> Result<(), String> {
        if self.forwarder.is_none() && !fleet.forwarding.is_empty() {
            let error = "packet forwarding begins when loadline starts: start it anew";
            return Err(error.to_owned());
        }
        if fleet.forwarding.datapath != self.proxy.plan().fleet.forwarding.datapath {
            tracing::warn!("`[l4]` has changed, which is taken from the file at the start only");
        }
        self.proxy.reload(fleet).map_err(|error| error.to_string())
    }

    fn amend(&self, fleet: Arc<Fleet>) {
        self.proxy.amend(fleet);
    }

    fn flows(&self) -> Result<Vec<Flow>, String> {
        let forwarder = self.forwarder.as_ref();
        let flows = forwarder.map_or(Ok(Vec::new()), |forwarder| forwarder.flows());
        flows.map_err(|error| chain(&error))
    }
}
