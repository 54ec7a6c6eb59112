//! A second hold on a running proxy, for whoever watches or changes it from another thread.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use loadline_core::{
    controller::Input,
    ending::Ending,
    fleet::Fleet,
    plan::Plan,
    reason::Reason,
    rules::CopyResult,
    state::{self, Counts, LastFailure, State},
};

use crate::{
    access_log::Log,
    doors::Passed,
    inbox::Inbox,
    inherit::Inherited,
    meter::ListenerTally,
    runtime::ReloadError,
    shared::{Shared, Stage},
    tally::ServiceTally,
    tls::Keys,
};

/// A hold on a running proxy. Cheap to copy; it keeps nothing running.
#[derive(Clone, Debug)]
pub struct Handle {
    pub(super) shared: Arc<Shared>,
    pub(super) inputs: Arc<Inbox>,
}

impl Handle {
    /// What the proxy does now. Rates are not known yet: [`State::measure_since`].
    #[must_use]
    pub fn state(&self) -> State {
        let plan = self.shared.plan();
        let now = self.shared.clock.now();
        let mut state = State::of(&plan, now);
        let tallies = self.shared.snapshot();
        state.draining = self.shared.stage() != Stage::Serving;
        state.log_lines_dropped = tallies.log_lines_dropped;
        state.spans_exported = tallies.spans_exported;
        state.spans_dropped = tallies.spans_dropped;
        state.certificates = self.shared.keys().certificates(unix_s());
        for listener in &mut state.listeners {
            let bind: Option<SocketAddr> = listener.address.parse().ok();
            if let Some(tally) = bind.and_then(|bind| tallies.listeners.get(&bind)) {
                tell(listener, tally);
            }
        }
        for service in &mut state.services {
            service.counts = tallies.services.get(&service.name).map(counts).unwrap_or_default();
        }
        for (id, server) in plan.server_ids().zip(state.servers_mut()) {
            server.connections = self.shared.connections(id);
            let failed = self.shared.failures.last(id);
            server.last_failure = failed.map(|(reason, at)| LastFailure {
                reason: reason.text().to_owned(),
                age_s: now.since(at).as_secs_f64(),
            });
        }
        state
    }

    /// The plan in force.
    #[must_use]
    pub fn plan(&self) -> Arc<Plan> {
        self.shared.plan()
    }

    /// Puts a new configuration in force as a whole. Requests under way go on; nothing that is
    /// counted is lost; listeners that stay are not touched. One that is taken out closes: what
    /// came through it has `drain_timeout` of the new configuration to end. Files for TLS are
    /// read again. How many threads there are and where the access log and spans go stays.
    ///
    /// # Errors
    /// [`ReloadError`] where an address or a file cannot be had; nothing has changed then.
    pub fn reload(&self, fleet: impl Into<Arc<Fleet>>) -> Result<(), ReloadError> {
        let fleet = fleet.into();
        let mut doors = self.shared.doors();
        if self.shared.stage() != Stage::Serving {
            return Err(ReloadError::Draining);
        }
        let keys = Keys::load(&fleet)?;
        let change = doors.prepare(&fleet.listeners, &mut Inherited::default())?;
        let deadline = self.shared.clock.now() + fleet.edge.drain_timeout;
        // Doors close before the plan without them comes, so that workers keep the one with them.
        doors.commit(change, deadline);
        doors.limit(fleet.edge.max_connections);
        self.shared.replace_keys(keys);
        self.amend(fleet);
        Ok(())
    }

    /// The sockets of all listeners, for a process that is to follow this one.
    #[must_use]
    pub fn sockets(&self) -> Vec<Passed> {
        self.shared.doors().passed()
    }

    /// The bound addresses, in the order of the listeners.
    #[must_use]
    pub fn local_addrs(&self) -> Vec<SocketAddr> {
        self.shared.doors().addresses()
    }

    /// Cuts whatever is left of a drain.
    pub fn cut(&self) {
        self.shared.stop();
    }

    /// Opens the file of the access log again by its name, for whoever moved it away.
    pub fn reopen_log(&self) {
        self.shared.log.iter().for_each(Log::reopen);
    }

    /// Puts a configuration in force that differs from the last in weights, scalers and capacities
    /// alone: no file is read.
    pub fn amend(&self, fleet: impl Into<Arc<Fleet>>) {
        self.inputs.send(Input::Reload(fleet.into()));
    }
}

/// Seconds since 1970.
fn unix_s() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_secs().cast_signed()
}

fn tell(listener: &mut state::Listener, tally: &ListenerTally) {
    listener.open = tally.open();
    listener.accepted = tally.accepted;
    let reasons = [("accept-failed", tally.unaccepted), ("proxy-header", tally.unintroduced)];
    listener.refused = reasons.map(|(reason, count)| (reason.to_owned(), count)).into();
    listener.held = tally.held;
    listener.handshakes = tally.handshakes;
    listener.handshakes_failed = tally.handshakes_failed;
    listener.received_bytes = tally.received;
    listener.sent_bytes = tally.sent;
}

fn counts(tally: &ServiceTally) -> Counts {
    let ending = |ending: Ending| (ending.name().to_owned(), tally.count(ending));
    let statuses = (1..).zip(tally.statuses).map(|(class, n)| (format!("{class}xx"), n));
    let reasons = Reason::ALL.iter().zip(&tally.reasons).filter(|(_, n)| **n > 0);
    let copies = CopyResult::ALL.iter().zip(tally.copies);
    Counts {
        copies: copies.map(|(result, n)| (result.name().to_owned(), n)).collect(),
        statuses: statuses.collect(),
        endings: Ending::ALL.map(ending).into(),
        reasons: reasons.map(|(reason, n)| (reason.text().to_owned(), *n)).collect(),
        overflowed: tally.overflowed,
        retries: tally.retries,
        queued: tally.queued,
        displaced: tally.displaced,
        sessions_kept: tally.sessions_kept,
        sessions_moved: tally.sessions_moved,
        duration: tally.latency.histogram(),
    }
}
