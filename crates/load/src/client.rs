//! Sends the requests of a run: which target, over which connection, until when.
//!
//! A kept connection may be closed by its server just when a request is written to it. One whose
//! end is seen before that is replaced by a new one. After that the request is sent once more on a
//! new connection, and counted once, by what became of it there, only where the server did not
//! fail at it: none of the request had come there when it closed the connection; or the method is
//! idempotent, the connection was idle for a second at least, and its end came within a round trip
//! and some milliseconds of the request. Any other end without a response is a reset. Over HTTP/2
//! and HTTP/3 it is the server that says which requests it has not looked at; those are sent again
//! for as long as it closes connections, and once where it refuses them alone.

use std::{borrow::Cow, cell::Cell, collections::HashMap, net::SocketAddr, rc::Rc};

use loadline_core::time::{Duration, Instant};
use loadline_linux::clock;
use loadline_measure::record::HostAddress;
use rustls::pki_types::ServerName;
use tokio::time::timeout;

use crate::{
    connect::{self, Connector, Endpoint, NoConnection, Opened},
    deadline::Deadlines,
    http1::{Connection, Failure},
    http2::Http2Connection,
    outcome::Outcome,
    phases::PhaseTimes,
    plan::LoadPlan,
    pool::Pool,
    request::Request,
    run::LoadError,
    sessions::{Session, Sessions},
    tally::{Tally, WholeResponse},
    target::Target,
    tls,
    transport::Protocol,
    weights::Turns,
};

/// Sends the requests of a plan, as often as asked.
pub(crate) struct Client {
    connector: Connector,
    hosts: Vec<Host>,
    routes: Vec<Route>,
    turns: Turns,
    timeout: Duration,
    keepalive: bool,
    limit: Option<u32>,
    /// The connections of everybody, where they are limited.
    shared: Rc<Pool>,
    deadlines: Deadlines,
    /// What the first look-up took, until a response has told it.
    dns: Cell<Option<Duration>>,
    tally: Rc<Tally>,
}

/// A target: what to send, and to which of the hosts.
struct Route {
    request: Request,
    host: usize,
}

/// Where the targets of a plan are, each server looked for once.
#[derive(Default)]
struct Found<'p> {
    endpoints: Vec<Endpoint>,
    /// Index of the endpoint of each server that was looked up.
    known: HashMap<(bool, Cow<'p, str>, u16), usize>,
    /// What the first look-up took.
    dns: Option<Duration>,
    /// Of those that are given by names.
    addresses: Vec<HostAddress>,
}

/// An endpoint and what is spoken there.
struct Host {
    endpoint: Endpoint,
    /// Whether requests share connections, as over HTTP/2 and HTTP/3.
    shares: bool,
    sessions: Sessions,
}

impl<'p> Found<'p> {
    /// The number of the endpoint that requests to `target` go to.
    async fn host_of(
        &mut self,
        target: &'p Target,
        (plan, connector): (&LoadPlan, &Connector),
    ) -> Result<usize, LoadError> {
        let key = (target.is_secure(), target.scoped_host(), target.port());
        if let Some(host) = self.known.get(&key) {
            return Ok(*host);
        }
        let tls = &plan.transport.tls;
        let name = target.is_secure().then(|| tls::server_name(target, tls)).transpose()?;
        let begun = clock::now();
        let addresses = connector.usable(connect::look_up(target).await?);
        let took = clock::now().since(begun);
        self.dns = self.dns.or(target.is_named().then_some(took));
        let endpoint = reachable(connector, (&addresses, name), plan.timeout).await;
        connector.check(&endpoint)?;
        if target.is_named() {
            let host = format!("{}:{}", target.host(), target.port());
            let (address, known) = (endpoint.address.to_string(), addresses.len() as u64);
            self.addresses.push(HostAddress { host, address, known });
        }
        let same = self.endpoints.iter().position(|other| *other == endpoint);
        let host = same.unwrap_or(self.endpoints.len());
        if same.is_none() {
            self.endpoints.push(endpoint);
        }
        self.known.insert(key, host);
        Ok(host)
    }
}

impl Client {
    /// A client for `plan`: reads certificates, looks up names and, where the protocol is for the
    /// server to choose, asks it with one connection.
    ///
    /// # Errors
    /// [`LoadError`] where the plan, a file or a name cannot be used.
    pub(crate) async fn open(plan: &LoadPlan, tally: Rc<Tally>) -> Result<Self, LoadError> {
        let targets = || plan.targets.iter().map(|(target, _)| target);
        let transport = &plan.transport;
        let mut connector = Connector::new(transport, targets())?;
        let mut found = Found::default();
        let mut routes = Vec::new();
        for target in targets() {
            let request = Request::of(plan, target)?;
            let host = found.host_of(target, (plan, &connector)).await?;
            routes.push(Route { request, host });
        }
        let Found { endpoints, dns, addresses, .. } = found;
        tally.note_addresses(addresses);
        if transport.protocol == Protocol::Auto {
            let http2 = all_choose_http2(&connector, &endpoints, plan.timeout).await;
            connector.settle(transport, http2)?;
        }
        let limit = transport.connections.map(|limit| plan.share.dealt(limit));
        let shared = Rc::new(Pool::new(endpoints.len(), limit));
        let hosts = endpoints.into_iter().map(|endpoint| Host {
            shares: connector.speaks_http3() || connector.speaks_http2(&endpoint),
            sessions: Sessions::new(limit),
            endpoint,
        });
        Ok(Self {
            hosts: hosts.collect(),
            connector,
            routes,
            turns: Turns::new(plan.targets.iter().map(|(_, weight)| *weight)).dealt(plan.share),
            timeout: plan.timeout,
            keepalive: plan.keepalive,
            limit,
            shared,
            deadlines: Deadlines::default(),
            dns: Cell::new(dns),
            tally,
        })
    }

    /// Connections for one user of a closed loop, or for all requests of an open one. Where
    /// connections are limited it is the same pool for everybody.
    pub(crate) fn pool(&self) -> Rc<Pool> {
        match self.limit {
            Some(_) => Rc::clone(&self.shared),
            None => Rc::new(Pool::new(self.hosts.len(), None)),
        }
    }

    /// Closes what has to be told of its end.
    pub(crate) async fn close(&self) {
        self.connector.close().await;
    }

    /// Watches over the deadlines; must run for as long as requests are under way.
    pub(crate) async fn keep_deadlines(self: Rc<Self>) {
        self.deadlines.keep(self.timeout.to_std()).await;
    }

    /// Sends the request of the next target at `now` and reads the response.
    ///
    /// # Errors
    /// The class of the request where there is no whole response.
    pub(crate) async fn fetch(&self, pool: &Pool, now: Instant) -> Result<WholeResponse, Outcome> {
        let route = &self.routes[self.turns.next()];
        let deadline = now + self.timeout;
        let opening = Cell::new(false);
        let answered = if self.hosts[route.host].shares {
            self.deadlines.within(deadline, self.fetch_shared(route, &opening)).await
        } else {
            self.deadlines.within(deadline, self.fetch_http1((pool, now), route, &opening)).await
        };
        match answered {
            Some(Ok(mut answer)) => {
                answer.phases.dns = self.dns.take();
                Ok(answer)
            }
            Some(Err(outcome)) => Err(outcome),
            None if opening.get() => Err(Outcome::ConnectTimeout),
            None => Err(Outcome::Timeout),
        }
    }

    async fn fetch_http1(
        &self,
        (pool, now): (&Pool, Instant),
        route: &Route,
        opening: &Cell<bool>,
    ) -> Result<WholeResponse, Outcome> {
        let permit = pool.permit(route.host).await;
        let queued = permit.is_some().then(|| clock::now().since(now));
        if let Some(mut connection) = pool.take(route.host).await {
            match connection.exchange(&route.request).await {
                Ok((mut answer, again)) => {
                    answer.phases.queued = queued;
                    self.put_back(pool, route, connection, again);
                    return Ok(answer);
                }
                Err(Failure::Unprocessed) => self.tally.count_stale(),
                Err(failure) => return Err(self.ended(failure)),
            }
        }
        opening.set(true);
        let opened = self.connect(&self.hosts[route.host]).await?;
        opening.set(false);
        let phases = phases(&opened);
        let mut connection = Connection::new(opened.wire, opened.connect);
        let answered = connection.exchange(&route.request).await;
        let (mut answer, again) = answered.map_err(|failure| self.ended(failure))?;
        self.put_back(pool, route, connection, again);
        answer.phases = PhaseTimes { queued, ..answer.phases.after(phases) };
        Ok(answer)
    }

    fn put_back(&self, pool: &Pool, route: &Route, connection: Connection, again: bool) {
        if again && self.keepalive {
            pool.put(route.host, connection);
        }
    }

    async fn fetch_shared(
        &self,
        route: &Route,
        opening: &Cell<bool>,
    ) -> Result<WholeResponse, Outcome> {
        let host = &self.hosts[route.host];
        let opened = Cell::new(PhaseTimes::default());
        if !self.keepalive {
            opening.set(true);
            let session = self.begin(host, &opened).await?;
            opening.set(false);
            let answered = session.exchange(&route.request).await;
            return self.conclude(answered, opened.get());
        }
        let mut was_refused = false;
        loop {
            opening.set(true);
            let place = host.sessions.place(async || self.begin(host, &opened).await).await?;
            opening.set(false);
            let answered = place.session().exchange(&route.request).await;
            if answered != Err(Failure::Unprocessed) || !place.reused {
                return self.conclude(answered, opened.get());
            }
            // A connection that takes no more requests is replaced, however many of them do so.
            let is_refused = place.session().is_open().await;
            if is_refused && was_refused {
                return self.conclude(answered, opened.get());
            }
            was_refused |= is_refused;
            self.tally.count_stale();
        }
    }

    fn conclude(
        &self,
        answered: Result<WholeResponse, Failure>,
        opened: PhaseTimes,
    ) -> Result<WholeResponse, Outcome> {
        let mut answer = answered.map_err(|failure| self.ended(failure))?;
        answer.phases = answer.phases.after(opened);
        Ok(answer)
    }

    /// Opens a session and notes what it took.
    async fn begin(&self, host: &Host, took: &Cell<PhaseTimes>) -> Result<Session, Outcome> {
        if self.connector.speaks_http3() {
            let opened = self.counted(self.connector.open_http3(&host.endpoint).await)?;
            took.set(phases(&opened));
            return Ok(Session::Http3(opened.wire));
        }
        let opened = self.connect(host).await?;
        took.set(phases(&opened));
        let session = Http2Connection::open(opened.wire).await;
        session.map(Session::Http2).map_err(|failure| self.ended(failure))
    }

    async fn connect(&self, host: &Host) -> Result<Opened, Outcome> {
        self.counted(self.connector.open(&host.endpoint).await)
    }

    /// The class of a request that is not sent again; counts why it failed, where that is known.
    fn ended(&self, failure: Failure) -> Outcome {
        if let Failure::WithReason(_, reason) = &failure {
            self.tally.count_reason(reason.clone());
        }
        failure.outcome()
    }

    /// Counts what became of a connection.
    fn counted<W>(&self, opened: Result<Opened<W>, NoConnection>) -> Result<Opened<W>, Outcome> {
        match opened {
            Ok(opened) => {
                self.tally.count_connection(opened.protocol);
                Ok(opened)
            }
            Err(NoConnection { outcome, shortage, reason }) => {
                if let Some(reason) = reason {
                    self.tally.count_reason(reason);
                }
                if let Some(shortage) = shortage {
                    self.tally.count_shortage(shortage);
                }
                Err(outcome)
            }
        }
    }
}

/// What opening the connection took.
fn phases<W>(opened: &Opened<W>) -> PhaseTimes {
    PhaseTimes { connect: Some(opened.connect), tls: opened.tls, ..PhaseTimes::default() }
}

/// Whether every endpoint that speaks TLS chooses HTTP/2. One that cannot be reached does not: the
/// run will say what is wrong with it.
async fn all_choose_http2(
    connector: &Connector,
    endpoints: &[Endpoint],
    patience: Duration,
) -> bool {
    let patience = patience.min(PROBE_PATIENCE).to_std();
    for endpoint in endpoints.iter().filter(|endpoint| endpoint.name.is_some()) {
        match timeout(patience, connector.open(endpoint)).await {
            Ok(Ok(opened)) if opened.http2 => {}
            _ => return false,
        }
    }
    true
}

/// The one endpoint that requests to a target go to. Names like `localhost` have several addresses,
/// and the server often listens on one of them only: the first that takes a connection is used, or
/// else the first.
async fn reachable(
    connector: &Connector,
    (addresses, name): (&[SocketAddr], Option<ServerName<'static>>),
    patience: Duration,
) -> Endpoint {
    let patience = patience.min(PROBE_PATIENCE).to_std();
    for address in addresses.iter().filter(|_| addresses.len() > 1) {
        let endpoint = Endpoint { address: *address, name: name.clone() };
        if let Ok(true) = timeout(patience, connector.reaches(&endpoint)).await {
            return endpoint;
        }
    }
    Endpoint { address: addresses[0], name }
}

/// An address that does not answer in this time is not the one the server is reached at.
pub(crate) const PROBE_PATIENCE: Duration = Duration::from_secs(1);
