//! The state of a running proxy, read in parts, so that a reader never holds all of it at once.

use std::{
    net::SocketAddr,
    ops::Range,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use loadline_core::{
    decide::{ending::Ending, plan::Plan, reason::Reason},
    fleet::Service,
    rules::CopyResult,
    state::{self, Counts, LastFailure, Part, State},
};

use crate::{
    runtime::shared::{Lifecycle, Shared},
    telemetry::{
        meter::ListenerTally,
        tally::{CLASSES, ServiceTally},
    },
};

/// What a proxy does by the plan that was in force when it was asked for, so that the services are
/// the same however long the telling takes. Figures are those of the moment in which each is told.
#[derive(Debug)]
pub struct Survey {
    shared: Arc<Shared>,
    plan: Arc<Plan>,
}

impl Survey {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let plan = shared.plan();
        Self { shared, plan }
    }

    /// All but the services. Rates are not known yet: [`State::measure_since`].
    #[must_use]
    pub fn edge(&self) -> State {
        let shared = &self.shared;
        let mut state = State::of_edge(&self.plan, shared.clock.now());
        // One that leaves is followed: who asks at the common address is to send here still.
        state.draining = shared.stage() >= Lifecycle::Draining;
        state.log_lines_dropped = shared.log_lines_dropped();
        [state.spans_exported, state.spans_dropped] = shared.spans_counted();
        let compresses = |service: &Service| service.compression.is_some();
        state.compression_effort =
            self.plan.fleet.services.iter().any(compresses).then(|| shared.efforts.least());
        state.certificates = shared.keys().certificates(unix_s());
        let caches = self.plan.fleet.listeners.iter().any(|listener| listener.routes.has_caches());
        state.cache = caches.then(|| shared.store.state());
        let tallies = shared.meters.sums();
        for listener in &mut state.listeners {
            let bind: Option<SocketAddr> = listener.address.parse().ok();
            if let Some(tally) = bind.and_then(|bind| tallies.get(&bind)) {
                tell(listener, tally);
            }
        }
        state
    }

    /// How many services there are.
    #[must_use]
    pub fn service_count(&self) -> usize {
        self.plan.services.len()
    }

    /// The place of this service in the file, if it is there.
    #[must_use]
    pub fn place(&self, service: &str) -> Option<usize> {
        self.plan.fleet.services.position(service)
    }

    /// This part of the services at these places in the file, and nothing else.
    #[must_use]
    pub fn services(&self, places: Range<usize>, part: Part) -> State {
        let now = self.shared.clock.now();
        let mut state = State::of_services(&self.plan, places.clone(), part, now);
        if matches!(part, Part::Service | Part::Whole) {
            for service in &mut state.services {
                let tally = self.shared.registry.sum(service.name.as_str());
                service.counts = tally.as_ref().map(counts).unwrap_or_default();
            }
        }
        for (id, server) in self.plan.server_ids_of(places).zip(state.servers_mut()) {
            server.connections = self.shared.connections(id);
            let failed = self.shared.failures.last(id);
            server.last_failure = failed.map(|(reason, at)| LastFailure {
                reason: reason.text().to_owned(),
                age_s: now.since(at).as_secs_f64(),
            });
        }
        state
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
    let reasons = [
        ("accept-failed", tally.unaccepted),
        ("proxy-header", tally.bad_proxy_headers),
        ("client-limit", tally.over_client_limit),
        ("max-connections", tally.full),
    ];
    listener.refused = reasons.map(|(reason, count)| (reason.to_owned(), count)).into();
    listener.held = tally.held;
    listener.handshakes = tally.handshakes;
    listener.handshakes_failed = tally.handshakes_failed;
    listener.received_bytes = tally.received;
    listener.sent_bytes = tally.sent;
}

fn counts(tally: &ServiceTally) -> Counts {
    let ending = |ending: Ending| (ending.name().to_owned(), tally.count(ending));
    let statuses = CLASSES.into_iter().zip(tally.statuses).map(|(class, n)| (class.to_owned(), n));
    let reasons = Reason::ALL.iter().zip(&tally.reasons).filter(|(_, n)| **n > 0);
    let copies = CopyResult::ALL.iter().zip(tally.copies);
    Counts {
        copies: copies.map(|(result, n)| (result.name().to_owned(), n)).collect(),
        statuses: statuses.collect(),
        endings: Ending::ALL.map(ending).into(),
        reasons: reasons.map(|(reason, n)| (reason.text().to_owned(), *n)).collect(),
        counters: tally.counters,
        duration: tally.latency.histogram(),
    }
}
