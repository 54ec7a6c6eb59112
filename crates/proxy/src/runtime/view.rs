//! A worker's view of one plan: the plan, and what the worker derives from it once.
//!
//! A request keeps its view from its head to its end, so that indices into the plan stay true
//! whatever is published meanwhile.

use std::{
    borrow::Cow,
    cell::RefCell,
    collections::{BTreeSet, HashMap},
    net::SocketAddr,
    ptr,
    rc::Rc,
    sync::Arc,
};

use loadline_core::{
    decide::{
        ledger::ServerId,
        plan::{Plan, ServicePlan},
        service_plans::Exchanged,
    },
    fleet::{
        ClientTimeouts, ErrorPages, Forwarded, HashKey, Http2Limits, HttpVersion, Listener,
        PolicyKind, QuicCongestion, Service, Sticky, Store, UnderscoreHeaders,
    },
    rules::{
        Authentication, Network, RouteLimiters, Routes,
        client::{Trail, client_address, client_scheme, is_trusted},
    },
    units::Bytes,
};
use loadline_http1::{ForwardRules, HeadLimits, Known, RequestHead, ResponseHead, Underscores};
use rustls::ServerConfig;

use crate::{
    http::sticky::Sessions,
    http3,
    listener::handle::{ListenerHandle, ListenerKey},
    runtime::{service_contexts::ServiceContexts, wait_queue::Queue},
    store::{Remote, Remotes},
    telemetry::{access_log::Came, meter::ListenerCells, tally::Cells},
    tls::{ClientTls, Dialing, Keys},
    upstream::{
        idle::FAR,
        prewarm::{Warm, prewarmed},
    },
};

/// One plan with the contexts of one worker.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) plan: Arc<Plan>,
    /// In the order of the services of the plan.
    pub(crate) services: ServiceContexts,
    /// What follows from the fleet alone.
    at: Rc<Contexts>,
}

/// What one worker knows of the listeners of a fleet.
#[derive(Debug)]
struct Contexts {
    /// In the order of the listeners.
    keys: Vec<ListenerKey>,
    /// In the same order.
    listeners: Vec<Rc<ListenerContext>>,
    /// The longest head that any of them takes, in bytes.
    longest_head: usize,
    /// What TLS was made with when these were.
    made_with: Arc<Keys>,
    /// The services to whose servers connections are kept ready, by their indices.
    prewarmed: Vec<usize>,
}

/// Servers to which connections are not kept over another configuration.
#[derive(Debug)]
pub(crate) struct Outdated {
    /// Those that leave, or are connected to by other settings of TLS.
    pub(crate) all: BTreeSet<ServerId>,
    /// These, and where connections carry many requests those with other settings that hold for as
    /// long as the connections last.
    pub(crate) links: BTreeSet<ServerId>,
}

/// What goes with a service.
#[derive(Debug)]
pub(crate) struct ServiceContext {
    /// Its name, as part of what responses are stored under.
    pub(crate) name: Arc<[u8]>,
    /// How its requests are decided.
    pub(crate) plan: Arc<ServicePlan>,
    pub(crate) cells: Arc<Cells>,
    pub(crate) queue: Arc<Queue>,
    /// What is hashed, where sessions or the policy go by a hash.
    pub(crate) hash: Option<HashKey>,
    /// Whether answers are searched for reports of load.
    pub(crate) reads_load: bool,
    /// By index of the group.
    far: Vec<bool>,
    /// How connections to its servers are made; in clear if omitted.
    pub(crate) tls: Option<Dialing>,
    /// Where a cookie keeps sessions on one server.
    pub(crate) sessions: Option<Sessions>,
    /// The stores among its servers, and how those are reached that are not on this machine.
    stores: Vec<(Arc<Store>, Option<Arc<Remote>>)>,
    /// Servers to which connections are kept ready, if it is reached over HTTP.
    pub(crate) warm: Vec<Warm>,
}

impl ServiceContext {
    /// The context of a service with its plan.
    pub(crate) fn new(
        (service, plan): (&Service, Arc<ServicePlan>),
        cells: Arc<Cells>,
        queue: Arc<Queue>,
        tls: Option<Dialing>,
        remotes: &Remotes,
    ) -> Self {
        let hash = match &service.sticky {
            Some(Sticky::Hash(key)) => Some(key.clone()),
            _ => service.policy.hashes().then(|| service.hash.clone()),
        };
        let sessions = Sessions::of(service, &plan);
        let warm = Warm::of(service, &plan);
        let limits_load = service.groups.iter().any(|group| {
            group.capacity.max_utilization.is_some()
                || group.servers.iter().any(|server| server.capacity.max_utilization.is_some())
        });
        let stores = stores(service, remotes);
        let goes_by_load = match service.policy {
            PolicyKind::Prequal => true,
            PolicyKind::Managed => service.manager.uses_reports(),
            _ => false,
        };
        let reads_load = limits_load || goes_by_load;
        let mut far = vec![false; service.groups.len()];
        plan.groups.iter().for_each(|it| far[usize::from(it.index)] = it.distance >= FAR);
        let name = service.name.as_bytes().into();
        Self { name, plan, cells, queue, hash, reads_load, far, tls, sessions, stores, warm }
    }

    /// Whether some of its servers are stores.
    pub(crate) const fn has_store(&self) -> bool {
        !self.stores.is_empty()
    }

    /// Whether a context that is made with these `keys`, of the same service with the same plan,
    /// would say the same.
    fn stays_with(&self, keys: &Keys, service: &Service) -> bool {
        let is_reached = |(store, remote): &(Arc<Store>, Option<Arc<Remote>>)| {
            remote.is_some() || store.place.bucket().is_none()
        };
        let has_tls = match service.tls {
            None => self.tls.is_none(),
            Some(_) => keys.service_is(&service.name, self.tls.as_ref()),
        };
        has_tls && self.stores.iter().all(is_reached)
    }

    /// How this store is reached; none for one on this machine.
    pub(crate) fn remote(&self, store: &Arc<Store>) -> Option<&Arc<Remote>> {
        self.stores.iter().find(|(known, _)| known == store)?.1.as_ref()
    }

    /// Whether connections that are kept to the group at this index are for every worker.
    pub(crate) fn is_far(&self, group: usize) -> bool {
        self.far.get(group) == Some(&true)
    }
}

/// What goes with a listener. Heads are kept for use by one message after another.
#[derive(Debug)]
#[expect(clippy::vec_box, reason = "a waiting task holds a pointer rather than the whole head")]
pub(crate) struct ListenerContext {
    pub(crate) bind: SocketAddr,
    /// Index into the services of the plan.
    pub(crate) service: usize,
    /// Whether what no rule gives to a service is nobody's.
    pub(crate) routes_only: bool,
    /// What decides before the service gets a request.
    pub(crate) routes: Routes,
    /// Rate limits of the routes.
    pub(crate) limiters: RouteLimiters,
    pub(crate) timeouts: ClientTimeouts,
    pub(crate) limits: HeadLimits,
    /// How long the body of a request may be, where its rule does not say.
    max_body: Option<Bytes>,
    /// Authentication of requests without a rule.
    pub(crate) authentication: Option<Authentication>,
    /// What clients get where something fails, and the service has no page for it.
    pub(crate) error_pages: ErrorPages,
    /// The one version of HTTP that is spoken; the client chooses if omitted.
    pub(crate) http_version: Option<HttpVersion>,
    pub(crate) http2: Http2Limits,
    /// Whether HTTP/3 is served beside it.
    pub(crate) http3: bool,
    /// HTTP/3 is wanted, and TLS has no suite for it.
    pub(crate) lacks_quic_suite: bool,
    pub(crate) quic_congestion: QuicCongestion,
    pub(crate) rules: ForwardRules,
    /// Which peers are trusted in what they say of the clients behind them.
    trusted_proxies: Vec<Network>,
    underscores: Underscores,
    /// What clients are met with; in clear if omitted.
    pub(crate) tls: Option<Arc<ServerConfig>>,
    /// Whether requests of HTTP/3 may come before the handshake is over.
    pub(crate) early_data: bool,
    /// The line that keeps clients from coming in clear, for every response; empty for none.
    pub(crate) hsts: Box<[u8]>,
    /// The header that tells servers the subject of a client's certificate.
    pub(crate) subject_header: Option<String>,
    pub(crate) cells: Arc<ListenerCells>,
    max_connections: u32,
    requests: RefCell<Vec<Box<RequestHead>>>,
    responses: RefCell<Vec<Box<ResponseHead>>>,
}

impl ListenerContext {
    /// The context of a listener with the limits of its routes, which meets clients with `tls` and
    /// is counted in `cells`.
    pub(crate) fn new(
        (listener, limiters): (&Listener, RouteLimiters),
        tls: Option<Arc<ServerConfig>>,
        cells: Arc<ListenerCells>,
    ) -> Self {
        let bytes = usize::try_from(listener.limits.size.get()).unwrap_or(usize::MAX);
        Self {
            bind: listener.bind,
            service: listener.service,
            routes_only: listener.routes_only,
            routes: listener.routes.clone(),
            limiters,
            timeouts: listener.timeouts,
            limits: HeadLimits { bytes, fields: listener.limits.fields as usize },
            max_body: listener.max_body,
            authentication: listener.authentication.clone(),
            error_pages: listener.error_pages.clone(),
            http_version: listener.http_version,
            http2: listener.http2,
            http3: listener.serves_http3() && tls.as_deref().is_some_and(http3::has_suite),
            lacks_quic_suite: listener.serves_http3()
                && !tls.as_deref().is_none_or(http3::has_suite),
            quic_congestion: listener.quic_congestion,
            rules: rules(listener.forwarded),
            trusted_proxies: listener.trusted_proxies.clone(),
            underscores: underscores(listener.underscore_headers),
            tls,
            early_data: listener.tls.as_ref().is_some_and(|tls| tls.early_data),
            hsts: hsts(listener),
            subject_header: listener
                .tls
                .as_ref()
                .and_then(|tls| tls.clients.as_ref()?.subject_header.clone()),
            cells,
            max_connections: listener.max_connections,
            requests: RefCell::default(),
            responses: RefCell::default(),
        }
    }

    /// Whether a context that is made with `tls` of `listener` and its `limiters` would say the
    /// same as this one, which was made of `before`.
    fn stays_with(
        &self,
        tls: Option<&Arc<ServerConfig>>,
        (before, listener): (&Listener, &Listener),
        limiters: &RouteLimiters,
    ) -> bool {
        let is_unlimited = |limiters: &RouteLimiters| limiters.iter().all(Option::is_none);
        // Equal routes may count their limits and copies apart.
        self.tls.as_ref().map(Arc::as_ptr) == tls.map(Arc::as_ptr)
            && self.routes.is_same_as(&listener.routes)
            && (Arc::ptr_eq(&self.limiters, limiters)
                || is_unlimited(&self.limiters) && is_unlimited(limiters))
            && (ptr::eq(before, listener) || before == listener)
    }

    /// The most client connections at a time.
    pub(crate) fn max_connections(&self) -> u32 {
        self.max_connections
    }

    /// How long the body of a request may be that the rule of this rank decides.
    pub(crate) fn max_body(&self, rank: Option<usize>) -> Option<u64> {
        let rule = rank.and_then(|rank| self.routes.rules().get(rank)).map(|(_, rule)| rule);
        let own = rule.and_then(|rule| rule.max_body);
        own.or(self.max_body).map(Bytes::get)
    }

    /// How a request came that asked for `host`, for the access log.
    pub(crate) fn came<'a>(&self, host: &'a [u8], tls: Option<&'a ClientTls>) -> Came<'a> {
        let (scheme, listener) = (self.scheme(), Some(self.bind));
        Came { host, scheme, listener, ..ClientTls::came(tls) }
    }

    /// The line that offers HTTP/3; empty where it is not served.
    pub(crate) fn alt_svc<'a>(&self, listener: &'a ListenerHandle) -> &'a [u8] {
        if self.http3 { listener.alt_svc() } else { b"" }
    }

    /// The lines of every response of our own.
    pub(crate) fn own_lines<'a>(&'a self, listener: &'a ListenerHandle) -> Cow<'a, [u8]> {
        match self.alt_svc(listener) {
            [] => Cow::Borrowed(&*self.hsts),
            alt_svc => Cow::Owned([&*self.hsts, alt_svc].concat()),
        }
    }

    /// By which scheme of URLs it is reached.
    pub(crate) const fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    /// Whether `peer` is trusted in what it says of the clients behind it.
    pub(crate) fn trusts(&self, peer: SocketAddr) -> bool {
        is_trusted(peer.ip(), &self.trusted_proxies)
    }

    /// The client and the scheme of a request from `peer`, a trusted proxy. The header of
    /// `rules.forwarded` counts; the other one if that is absent.
    pub(crate) fn client(
        &self,
        peer: SocketAddr,
        head: &RequestHead,
        bytes: &[u8],
    ) -> (SocketAddr, &'static str) {
        let (fields, trusted) = (head.fields(), &self.trusted_proxies);
        let told = |known| {
            let mut trails = [(Trail::XForwardedFor, known), (Trail::Forwarded, Known::Forwarded)];
            if self.rules.forwarded {
                trails.reverse();
            }
            trails.into_iter().find(|(_, known)| fields.has(*known))
        };
        let address = told(Known::XForwardedFor).map_or(peer, |(trail, known)| {
            client_address(peer, trusted, trail, fields.all_known(bytes, known))
        });
        let scheme = told(Known::XForwardedProto).and_then(|(trail, known)| {
            client_scheme(peer, trusted, trail, fields.all_known(bytes, known))
        });
        (address, scheme.unwrap_or(self.scheme()))
    }

    pub(crate) fn take_request_head(&self) -> Box<RequestHead> {
        let kept = self.requests.borrow_mut().pop();
        let new = || RequestHead::new(self.limits).with_underscores(self.underscores);
        kept.unwrap_or_else(|| Box::new(new()))
    }

    /// Keeps a head, but for one that was begun before the settings changed.
    pub(crate) fn give_request_head(&self, head: Box<RequestHead>) {
        if head.reads_by(self.limits, self.underscores) {
            self.requests.borrow_mut().push(head);
        }
    }

    pub(crate) fn take_response_head(&self) -> Box<ResponseHead> {
        let kept = self.responses.borrow_mut().pop();
        kept.unwrap_or_else(|| Box::new(ResponseHead::new(self.limits)))
    }

    pub(crate) fn give_response_head(&self, mut head: Box<ResponseHead>) {
        head.reset();
        self.responses.borrow_mut().push(head);
    }
}

impl Contexts {
    /// Those of `plan`, made with these `keys`. What is the same as `before` is not made anew: all
    /// of them, where no listener is another. `make` makes the context of a listener.
    fn new(
        plan: &Plan,
        before: Option<&View>,
        keys: &Arc<Keys>,
        mut make: impl FnMut((&Listener, ListenerKey), RouteLimiters) -> ListenerContext,
    ) -> Rc<Self> {
        let fleet = &plan.fleet;
        if let Some(same) = before.filter(|before| before.serves_at_as(plan, keys)) {
            return same.at.clone();
        }
        let listener_keys: Vec<ListenerKey> = ListenerKey::of(&fleet.listeners).collect();
        let were = before.into_iter().flat_map(|before| before.at.keys.iter().enumerate());
        let places: HashMap<ListenerKey, usize> = were.map(|(at, key)| (*key, at)).collect();
        let known = |index: usize, listener: &Listener, limiters: &RouteLimiters| {
            let before = before?;
            let at = *places.get(&listener_keys[index])?;
            let context = before.at.listeners.get(at)?;
            let pair = (before.plan.fleet.listeners.get(at)?, listener);
            let tls = keys.listener(listener, listener_keys[index]);
            context.stays_with(tls.as_ref(), pair, limiters).then(|| context.clone())
        };
        let listeners = fleet.listeners.iter().enumerate().map(|(index, listener)| {
            let limiters = plan.limiters(index);
            let known = known(index, listener, &limiters);
            known.unwrap_or_else(|| Rc::new(make((listener, listener_keys[index]), limiters)))
        });
        let listeners: Vec<_> = listeners.collect();
        Rc::new(Self {
            keys: listener_keys,
            longest_head: listeners.iter().map(|it| it.limits.bytes).max().unwrap_or(0),
            listeners,
            made_with: keys.clone(),
            prewarmed: prewarmed(fleet),
        })
    }
}

impl View {
    /// The view of `plan`, made with these `keys`. `service_context` makes the context of a
    /// service, `listener_context` that of a listener.
    /// What is the same as `before` is not made anew: a plan is mostly another for one service.
    pub(crate) fn new(
        plan: Arc<Plan>,
        before: Option<&Self>,
        keys: &Arc<Keys>,
        mut service_context: impl FnMut(&Service, Arc<ServicePlan>) -> ServiceContext,
        listener_context: impl FnMut((&Listener, ListenerKey), RouteLimiters) -> ListenerContext,
    ) -> Rc<Self> {
        let known = before.filter(|before| before.plan.configuration == plan.configuration);
        let at = match known {
            Some(known) => known.at.clone(),
            None => Contexts::new(&plan, before, keys, listener_context),
        };
        // Another configuration may come with other keys.
        let has_keys = |before: &Self| Arc::ptr_eq(&before.at.made_with, keys);
        let has_keys = known.is_some() || before.is_some_and(has_keys);
        let stays = |context: &ServiceContext, index: usize| {
            context.stays_with(keys, &plan.fleet.services[index])
        };
        let mut make = |index: usize, decided: &Arc<ServicePlan>| {
            Rc::new(service_context(&plan.fleet.services[index], decided.clone()))
        };
        let services = match before {
            Some(before) => {
                let plans = (&before.plan.services, &plan.services);
                before.services.followed_by(plans, has_keys, stays, make)
            }
            None => plan.services.iter().enumerate().map(|(at, it)| make(at, it)).collect(),
        };
        Rc::new(Self { plan, services, at })
    }

    /// Whether what goes with listeners is the same for `plan` and these `keys`.
    fn serves_at_as(&self, plan: &Plan, keys: &Arc<Keys>) -> bool {
        let (before, after) = (&self.plan.fleet, &plan.fleet);
        Arc::ptr_eq(&self.at.made_with, keys)
            && before.listeners.share(&after.listeners)
            && self.plan.shares_limiters(plan)
            && are_reached_alike(&self.plan, plan)
    }

    /// What goes with the listener of `handle`, if the plan has it.
    pub(crate) fn listener_context(&self, handle: &ListenerHandle) -> Option<&ListenerContext> {
        self.position(handle).map(|index| &*self.at.listeners[index])
    }

    /// The listener of `handle`, if the plan has it.
    pub(crate) fn listener(&self, handle: &ListenerHandle) -> Option<&Listener> {
        self.position(handle).map(|index| &self.plan.fleet.listeners[index])
    }

    /// Where among the listeners the one of `handle` is.
    pub(crate) fn position(&self, handle: &ListenerHandle) -> Option<usize> {
        let (keys, hint) = (&self.at.keys, handle.hint());
        if keys.get(hint) == Some(&handle.key) {
            return Some(hint);
        }
        keys.iter().position(|key| *key == handle.key)
    }

    /// How requests for a service are decided.
    pub(crate) fn service(&self, index: usize) -> &ServicePlan {
        &self.services[index].plan
    }

    /// Servers to which connections of `before` are not to be used any more. Only services that are
    /// not the same as before are looked at.
    pub(crate) fn outdated(&self, before: &Self) -> Outdated {
        let keep_alive = |view: &Self, at: usize| view.plan.fleet.services[at].timeouts.keep_alive;
        let is_same_head = self.longest_head() == before.longest_head();
        let all = |view: &Self| (0..view.services.len()).collect();
        let Exchanged { before: were, now } = match is_same_head {
            true => self.services.exchanged_since(&before.services),
            false => Exchanged { before: all(before), now: all(self) },
        };
        let names = were.into_iter().map(|at| (&*before.services[at].name, at));
        let known: HashMap<&[u8], usize> = names.collect();
        let all = self.plan.services.leaving_since(&before.plan.services);
        let mut outdated = Outdated { links: all.clone(), all };
        for index in now {
            let service = &self.services[index];
            let Some(&at) = known.get(&*service.name) else { continue };
            let is_alike =
                Dialing::are_alike(before.services[at].tls.as_ref(), service.tls.as_ref());
            let stays = is_same_head && keep_alive(self, index) == keep_alive(before, at);
            if is_alike && stays {
                continue;
            }
            let servers = service.plan.census.iter().flat_map(|group| &group.servers);
            let servers = servers.map(|server| server.state.id());
            outdated.links.extend(servers.clone());
            outdated.all.extend(servers.filter(|_| !is_alike));
        }
        outdated
    }

    /// Servers to which connections are kept ready, with the indices of their services.
    pub(crate) fn warm(&self) -> impl Iterator<Item = (usize, &Warm)> {
        let services = self.at.prewarmed.iter();
        services.flat_map(|index| self.services[*index].warm.iter().map(|warm| (*index, warm)))
    }

    /// The longest head a listener takes, in bytes.
    pub(crate) fn longest_head(&self) -> usize {
        self.at.longest_head
    }
}

/// Whether services of a plan are to be connected to before a request comes as those of `before`
/// are. Those with the same plan are the same.
fn are_reached_alike(before: &Plan, after: &Plan) -> bool {
    let is_alike =
        |index: usize| before.fleet.services[index].prewarm == after.fleet.services[index].prewarm;
    before.services.len() == after.services.len()
        && after.services.changed_since(&before.services).all(is_alike)
}

/// The stores among the servers of a service, each once.
fn stores(service: &Service, remotes: &Remotes) -> Vec<(Arc<Store>, Option<Arc<Remote>>)> {
    let mut stores: Vec<(Arc<Store>, Option<Arc<Remote>>)> = Vec::new();
    let templates = service.groups.iter().filter_map(|it| Some(&it.discovery.as_ref()?.template));
    let servers = service.groups.iter().flat_map(|group| &group.servers).chain(templates);
    for store in servers.filter_map(|server| server.store.as_ref()) {
        if stores.iter().all(|(known, _)| known != store) {
            let remote = store.place.bucket().and_then(|bucket| remotes.of(bucket));
            stores.push((store.clone(), remote));
        }
    }
    stores
}

fn hsts(listener: &Listener) -> Box<[u8]> {
    let hsts = listener.tls.as_ref().and_then(|tls| tls.hsts);
    let line = hsts.map(|hsts| format!("Strict-Transport-Security: {hsts}\r\n"));
    line.unwrap_or_default().into_bytes().into()
}

const fn underscores(setting: UnderscoreHeaders) -> Underscores {
    match setting {
        UnderscoreHeaders::Drop => Underscores::Drop,
        UnderscoreHeaders::Refuse => Underscores::Refuse,
        UnderscoreHeaders::Keep => Underscores::Keep,
    }
}

fn rules(forwarded: Forwarded) -> ForwardRules {
    let (x_forwarded, rfc7239) = match forwarded {
        Forwarded::XForwarded => (true, false),
        Forwarded::Rfc7239 => (false, true),
        Forwarded::Off => (false, false),
    };
    ForwardRules {
        x_forwarded,
        x_forwarded_host: x_forwarded,
        forwarded: rfc7239,
        ..ForwardRules::default()
    }
}
