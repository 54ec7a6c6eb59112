//! A handle to a running proxy, for threads that observe or change it.

use std::{collections::BTreeSet, net::SocketAddr, sync::Arc};

use loadline_core::{
    cluster::Share,
    decide::{
        controller::{Input, KnownServer},
        plan::Plan,
    },
    fleet::Fleet,
    jwt::{KeySet, KeyUrl},
    rules::Routes,
    state::{CachedObject, Part, Purge, Purged, State},
    time::Instant,
};

use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

use crate::{
    cache::unix_now,
    listener::{handle::ListenerHandle, inherited::Inherited, set::HandoverSockets},
    runtime::{
        ReloadError, SharedChecks, Survey,
        inbox::Inbox,
        shared::{Lifecycle, Shared},
    },
    telemetry::access_log::Log,
    tls::TlsError,
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
        let survey = self.survey();
        let edge = survey.edge();
        let State { services, .. } = survey.services(0..survey.service_count(), Part::Whole);
        State { services, ..edge }
    }

    /// What the proxy does, to be told part by part.
    #[must_use]
    pub fn survey(&self) -> Survey {
        Survey::new(self.shared.clone())
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
        let mut listeners = self.shared.listeners();
        if self.shared.stage() != Lifecycle::Serving {
            return Err(ReloadError::Draining);
        }
        let keys = self.shared.keys().reload(&fleet)?;
        let change = listeners.prepare(&fleet.listeners, &keys, &mut Inherited::default())?;
        let deadline = self.shared.clock.now() + fleet.edge.drain_timeout;
        // Listeners close before the plan without them comes: workers keep the one with them.
        listeners.commit(change, deadline);
        listeners.limit(fleet.edge.max_connections);
        self.shared.replace_keys(keys);
        self.amend(fleet);
        Ok(())
    }

    /// The sockets of all listeners, for a process that is to follow this one.
    #[must_use]
    pub fn sockets(&self) -> Vec<HandoverSockets> {
        self.shared.listeners().passed()
    }

    /// What a process that is to follow this one has to know of servers: which are down or ejected,
    /// or start slowly. Nothing where the controller has no time for it within a second.
    pub async fn known_servers(&self) -> Vec<KnownServer> {
        timeout(ANSWER_MAX, self.inputs.ask()).await.unwrap_or_default()
    }

    /// Takes no more connections in, since a process that follows does, and waits until no worker
    /// does any more. What is there goes on until [`Runtime::leave`](super::Runtime::leave).
    pub async fn leave(&self) {
        self.shared.leave();
        let handles = self.shared.listeners().handles();
        abandoned(handles).await;
    }

    /// Goes on as before, after a process that was to follow did not serve.
    pub fn reclaim(&self) {
        self.shared.listeners().reclaim();
    }

    /// The bound addresses, in the order of the listeners.
    #[must_use]
    pub fn local_addrs(&self) -> Vec<SocketAddr> {
        self.shared.listeners().addresses()
    }

    /// Makes checks of servers together with other edges from now on. Done once.
    pub fn share_checks(&self, with: Arc<dyn SharedChecks>) {
        self.shared.share_checks(with);
    }

    /// Looks again at servers of a service of which other edges tell something else than before.
    pub fn recheck(&self, service: &str, servers: &BTreeSet<SocketAddr>) {
        let plan = self.plan();
        let Some(at) = plan.fleet.services.position(service) else { return };
        let census = plan.services.get(at).into_iter().flat_map(|service| &service.census);
        for server in census.flat_map(|group| &group.servers) {
            if servers.contains(&server.state.address()) {
                self.inputs.send(Input::Recheck { server: server.state.id() });
            }
        }
    }

    /// Cuts whatever is left of a drain.
    pub fn cut(&self) {
        self.shared.stop();
    }

    /// The responses that are cached, those that were used most first, so many at most.
    #[must_use]
    pub fn cached(&self, most: usize) -> Vec<CachedObject> {
        self.shared.store.top(most, unix_now())
    }

    /// Takes out of the cache what `purge` names, or marks it stale; nothing where it names no URL.
    #[must_use]
    pub fn purge(&self, purge: &Purge) -> Purged {
        let Some(purge) = purge.normalized() else { return Purged::default() };
        let plan = self.shared.plan();
        let routes = plan.fleet.listeners.iter().map(|listener| &listener.routes);
        let rules = routes.flat_map(Routes::rules);
        let queries = rules.filter_map(|(_, rule)| rule.cache.as_ref()).map(|cache| &cache.query);
        let mut done = Purged::default();
        for purge in purge.with_fewer_parameters(queries) {
            let purged = self.shared.store.purge(&purge, unix_now());
            done.objects += purged.objects;
            done.fetches += purged.fetches;
            done.unrecorded = done.unrecorded.or(purged.unrecorded);
        }
        done
    }

    /// Shows the certificate that an authority has issued into this file, in handshakes from now
    /// on. Nothing else is read again, and no connection ends.
    ///
    /// # Errors
    /// [`TlsError`] where it cannot be used; nothing has changed then.
    pub fn show_issued(&self, file: &str) -> Result<(), TlsError> {
        self.shared.keys().show_issued(file)
    }

    /// How many requests have asked so far for a key of this URL that is not known.
    #[must_use]
    pub fn keys_asked(&self, url: &KeyUrl) -> u64 {
        self.shared.fetched_keys.of(url).asked()
    }

    /// Verifies tokens with these keys of a URL from now on, and tells the first `answered`
    /// requests that asked for one that there are no others. `is_away` if it gives none now.
    pub fn tell_keys(&self, url: &KeyUrl, keys: Option<Arc<KeySet>>, is_away: bool, answered: u64) {
        self.shared.fetched_keys.of(url).tell(keys, is_away, answered);
    }

    /// Waits until a request asks for a key that has not been waited for yet.
    pub async fn wait_for_key_asks(&self) {
        self.shared.fetched_keys.wait_for_asks().await;
    }

    /// Answers requests for `token` by which an authority verifies a name (RFC 8555, section 8.3)
    /// with this; not any more if omitted.
    pub fn answer_challenge(&self, token: &str, key_authorization: Option<&str>) {
        self.shared.challenges.answer_with(token, key_authorization);
    }

    /// Has requests for tokens that are not known wait, two seconds at most, until whoever hears of
    /// it has looked for them elsewhere. Only the first call counts.
    pub fn look_up_challenges(&self, lookups: mpsc::Sender<oneshot::Sender<()>>) {
        self.shared.challenges.look_up_by(lookups);
    }

    /// Shows this to an authority that verifies the name whose certificate goes into `file`
    /// (RFC 8737); nothing any more if omitted.
    ///
    /// # Errors
    /// [`TlsError::Key`] where the key cannot be used.
    pub fn validate_with(
        &self,
        file: &str,
        pair: Option<(CertificateDer<'static>, PrivateKeyDer<'static>)>,
    ) -> Result<(), TlsError> {
        self.shared.keys().validate_with(file, pair)
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

    /// The time by which shares end.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.shared.clock.now()
    }

    /// Gives this edge so much of the capacity of a group, from the next plan on.
    pub fn share(&self, service: &str, group: &str, share: Share) {
        let (service, group) = (service.to_owned(), group.to_owned());
        self.inputs.send(Input::Share { service, group, share });
    }

    /// Lets shares be used until then, for ever if none.
    pub fn shares_until(&self, until: Option<Instant>) {
        self.inputs.send(Input::SharesUntil(until));
    }

    /// Waits until every configuration and share that was given is in force at every worker: each
    /// request that comes from then on is decided by it, and each connection is taken in by it.
    pub async fn settled(&self) {
        self.inputs.settled().await;
        let closing = self.shared.listeners().closing();
        abandoned(closing).await;
    }
}

/// Waits until no worker accepts from these, which have been closed.
async fn abandoned(listeners: Vec<Arc<ListenerHandle>>) {
    let all = async {
        for listener in listeners {
            listener.abandoned().await;
        }
    };
    // A worker that has no time for so long takes in what waits there when it has.
    let _ = timeout(CLOSING_MAX, all).await;
}

/// Many times longer than a worker takes to be through with a listener that closes: it may wait
/// for a place for a client, or rest since it has too few descriptors.
const CLOSING_MAX: std::time::Duration = std::time::Duration::from_secs(1);

/// Longer than a controller takes for the largest of reloads, and short beside an upgrade.
const ANSWER_MAX: std::time::Duration = std::time::Duration::from_secs(1);
