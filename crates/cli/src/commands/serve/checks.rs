//! Health checks by the links of the packets.

use std::{
    io,
    net::SocketAddr,
    sync::{Mutex, PoisonError},
};

use loadline_core::{
    fleet::forwarding::{Protocol, ServerLink},
    time::{Duration, Instant},
};
use loadline_l4::{Check, Datapath};
use loadline_proxy::runtime::Detour;

use crate::commands::chain;

/// The programs that send them.
#[derive(Debug)]
pub(super) struct Checks(Mutex<loadline_l4::Checks>);

impl Checks {
    /// At this interface; none where the kernel has no such programs, which is told.
    pub(super) fn attach(interface: &str) -> Option<Self> {
        let attached = loadline_l4::Checks::attach(interface).map_err(anyhow::Error::from);
        let told = attached.inspect_err(|error| {
            tracing::warn!(
                "checks of `mac` and `ipip` go to the servers' own addresses: {}",
                chain(error)
            );
        });
        Some(Self(Mutex::new(told.ok()?)))
    }
}

impl Detour for Checks {
    fn lend(
        &self,
        port: u16,
        (server, protocol): (SocketAddr, Protocol),
        link: ServerLink,
        time: Duration,
    ) -> io::Result<()> {
        let now: Instant = Datapath::now();
        let check = Check { server, service: link.service, method: link.method, protocol };
        let mut checks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        checks.lend(now, (port, now + time), &check).map_err(io::Error::other)
    }
}
