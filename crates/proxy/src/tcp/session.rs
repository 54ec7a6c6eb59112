//! One client connection that is relayed unread: to one server, until both sides have ended.
//!
//! A server is chosen by the same plan as for a request. The connection is one request in flight
//! for as long as it lasts, and takes one from the rate. States: *greeting* (the handshake of TLS,
//! or its first message, which tells the server name; bounded by `head`), *reaching* (picking a
//! server, waiting for room, connecting; while nothing has been sent another server may be tried)
//! and *carrying* (bounded by `idle` without a byte either way).
//!
//! What is counted and what the access log says of a connection it says of it as of a request. Its
//! latency is the time to connect. Only failing to connect counts against a server: a connection
//! that breaks later may have any reason.

mod linger;

use std::{
    future::poll_fn,
    io,
    net::{IpAddr, SocketAddr},
    rc::Rc,
    task::{Poll, ready},
};

use loadline_core::{
    decide::{
        ending::Ending,
        overflow_reason::OverflowReason,
        reason::Reason,
        request::{Action, Event, Kind, Subject, shorter},
    },
    fleet::{Listener, Protocol},
    state::ServiceCounter,
    time::{Duration, Instant},
};
use tokio::task::spawn_local;

use crate::{
    http::{
        driver::{Driver, Place},
        failure::Failure,
        route::Route,
    },
    io::{
        peer::{Gone, Peer},
        socket::Socket,
    },
    listener::{
        handle::{ConnectionGuard, ListenerHandle},
        proxy_protocol::{self, Ends},
    },
    runtime::{random::hash, timer::Timer, view::View, worker::Worker},
    tcp::{
        client_hello::{self, Hello},
        tunnel::{End, Tunnel},
    },
    telemetry::{
        access_log::{Came, Line, Log, Times},
        reason::of_client_tls,
    },
    tls::{ClientTls, Tls},
    upstream::{
        dial::{Dial, dial},
        pool::Connection,
    },
};

/// One client connection.
#[derive(Debug)]
pub(crate) struct StreamSession {
    worker: Rc<Worker>,
    client: Peer,
    ends: Ends,
    timer: Timer,
    /// Without a byte either way.
    idle: Duration,
    record: Record,
    /// One place under the limit of the listener.
    pass: ConnectionGuard,
}

/// What is told about the connection when it has ended.
#[derive(Debug)]
struct Record {
    worker: Rc<Worker>,
    driver: Driver,
    client: SocketAddr,
    protocol: &'static str,
    /// The server name the client asked for.
    name: Option<String>,
    /// The address of the listener in the file.
    listener: SocketAddr,
    /// What the handshake has told, where the log is to know it.
    tls: Option<Box<ClientTls>>,
    bytes: u64,
    times: Times,
    /// Why it went past the nearest group, if it did.
    overflow: Option<OverflowReason>,
    /// Index of the group, and the server.
    server: Option<(usize, SocketAddr)>,
    /// Why it, or the last attempt that was repeated, failed.
    reason: Option<Reason>,
    /// The same in more words, of TLS with the client.
    told: Option<Box<str>>,
    counted: bool,
}

/// Why a client is not given a server.
enum Unheard {
    /// It opened a connection and closed it again, as browsers and health checks do.
    Silent,
    /// Anything else.
    Ended(Ending),
}

impl StreamSession {
    /// Takes care of a connection for which a listener of `view` does.
    pub(crate) fn spawn(
        worker: &Rc<Worker>,
        mut client: Socket,
        view: &Rc<View>,
        ends: Ends,
        pass: ConnectionGuard,
    ) {
        let Some(index) = view.position(&pass.listener) else { return };
        let listener_context = view.listener_context(&pass.listener);
        if let Some(config) =
            listener_context.and_then(|listener_context| listener_context.tls.clone())
        {
            match Tls::server(config) {
                Ok(tls) => client = client.over(tls),
                Err(error) => return tracing::error!(%error, "no TLS"),
            }
        }
        let (worker, view) = (worker.clone(), view.clone());
        spawn_local(async move {
            let listener = &view.plan.fleet.listeners[index];
            let timer = Timer::here(&worker.timers).await;
            timer.arm(listener.timeouts.head);
            let session = Self {
                record: Record::new(&worker, &view, listener, ends.source),
                client: Peer::new(client),
                ends,
                timer,
                idle: listener.timeouts.idle,
                worker,
                pass,
            };
            session.run(&view, listener).await;
        });
    }

    async fn run(mut self, view: &Rc<View>, listener: &Listener) {
        let greeted = self.greet(view, listener).await;
        match greeted {
            Ok(()) => self.timer.stop_waiting(),
            Err(Unheard::Ended(_)) if self.timer.is_displaced() => {
                return self.record.end(Ending::ClientSlow);
            }
            Err(Unheard::Silent) => return self.record.forget(),
            Err(Unheard::Ended(ending)) => return self.record.end(ending),
        }
        let maintenance = self.record.driver.route.settings().maintenance.as_ref();
        if maintenance.is_some_and(|it| it.stops(self.ends.source.ip())) {
            return self.record.end(Ending::Maintenance);
        }
        match self.reach().await {
            Some(server) => self.carry(server).await,
            None => self.record.end(self.record.driver.failure().ending),
        }
    }

    /// Learns what the client says before a server is chosen.
    async fn greet(&mut self, view: &Rc<View>, listener: &Listener) -> Result<(), Unheard> {
        match listener.protocol {
            Protocol::Tls => {
                self.agree().await?;
                if self.worker.shared.log.as_ref().is_some_and(Log::tells_tls) {
                    self.record.tls = self.client.socket.client_tls().map(Box::new);
                }
            }
            Protocol::TlsPassthrough => {
                self.record.name = self.asked_name().await?;
                let named = self.record.name.as_deref().and_then(|name| listener.names.find(name));
                let route = Route::new(view.clone(), named.unwrap_or(listener.service));
                self.record.driver = driver(route, self.ends.source);
            }
            Protocol::Http | Protocol::Https | Protocol::Tcp => return Ok(()),
        }
        // From here on it is the plan and the servers that take time.
        self.record.times.received = self.worker.shared.clock.now();
        Ok(())
    }

    /// Waits for the client to agree to TLS.
    async fn agree(&mut self) -> Result<(), Unheard> {
        let Self { worker, client, timer, pass, .. } = self;
        let mut is_hurried = false;
        let agreed = poll_fn(|cx| {
            let agreed = match client.socket.poll_handshake(cx) {
                Poll::Pending if is_late(worker, timer, &pass.listener, &mut is_hurried) => {
                    Err(io::ErrorKind::TimedOut.into())
                }
                agreed => ready!(agreed),
            };
            Poll::Ready(client.socket.handshaken(agreed))
        });
        agreed.await.map_err(|error| self.no_tls(&error))
    }

    /// What is told of a client with which TLS is not agreed on.
    fn no_tls(&mut self, error: &io::Error) -> Unheard {
        tracing::debug!(client = %self.ends.source, %error, "no TLS");
        match error.kind() {
            io::ErrorKind::TimedOut => Unheard::Ended(Ending::ClientTimeout),
            _ if !self.client.socket.has_heard() => Unheard::Silent,
            io::ErrorKind::InvalidData => {
                self.record.reason = Some(Reason::ClientTls);
                self.record.told = Some(of_client_tls(error).into());
                Unheard::Ended(Ending::ClientBad)
            }
            _ => Unheard::Ended(Ending::ClientGone),
        }
    }

    /// Reads the first message of TLS, and leaves it for the server.
    async fn asked_name(&mut self) -> Result<Option<String>, Unheard> {
        let Self { worker, client, timer, ends, record, pass, .. } = self;
        let mut is_hurried = false;
        loop {
            let read = poll_fn(|cx| match client.poll_fill(cx, &worker.buffers) {
                Poll::Pending if is_late(worker, timer, &pass.listener, &mut is_hurried) => {
                    Poll::Ready(Err(Gone::Expired))
                }
                read => read,
            });
            let buffer = read.await.map_err(|gone| match gone {
                Gone::Closed | Gone::Broken(_) if client.rest.is_empty() => Unheard::Silent,
                Gone::Closed | Gone::Broken(_) => Unheard::Ended(Ending::ClientGone),
                Gone::Expired => Unheard::Ended(Ending::ClientTimeout),
            })?;
            let hello = client_hello::read(buffer.filled());
            client.keep(buffer, &worker.buffers);
            match hello {
                Ok(Hello::Partial) => {}
                Ok(Hello::Whole(name)) => return Ok(name),
                Err(error) => {
                    tracing::debug!(client = %ends.source, %error, "no server name");
                    record.reason = Some(error.reason());
                    return Err(Unheard::Ended(Ending::ClientBad));
                }
            }
        }
    }

    /// Does what the machine says until a connection to a server stands; none where it has failed.
    async fn reach(&mut self) -> Option<Connection> {
        let mut action = self.record.tell(self.record.times.received, Event::Arrived);
        loop {
            if let Action::Displace | Action::Join { .. } = action {
                let Self { worker, client, record, .. } = self;
                let Record { driver, times, .. } = record;
                action = driver.wait_for_room(worker, client, times, action).await;
            }
            let (Action::Send, Some(place)) = (action, self.record.driver.place()) else {
                self.record.note_untold(None);
                return None;
            };
            self.record.go_to(&place);
            action = match self.connect(&place).await {
                Ok(connection) => return Some(connection),
                Err(failure) => self.record.failed(&failure),
            };
        }
    }

    async fn connect(&mut self, place: &Place) -> Result<Connection, Failure> {
        let Self { worker, record, timer, .. } = self;
        let route = &record.driver.route;
        let max = route.max_connections(place);
        let slot = worker.pools.slot(&worker.shared, place.server, max).ok_or(Failure::CROWDED)?;
        timer.wait_on(place.server);
        let settings = route.settings();
        let mut header = Vec::new();
        if let Some(version) = settings.send_proxy {
            proxy_protocol::write(&mut header, version, Some(self.ends));
        }
        let to = Dial {
            address: place.address,
            tls: route.service_context().tls.as_ref(),
            header: &header,
            limit: settings.timeouts.connect,
        };
        let connection = dial(to, slot, timer).await.map_err(Failure::new)?;
        let now = worker.shared.clock.now();
        record.times.sent = Some(now);
        let _ = record.tell(now, Event::Connected);
        Ok(connection)
    }

    /// Carries bytes both ways, and passes on how it ended.
    async fn carry(mut self, mut server: Connection) {
        let ended = self.exchange_bytes(&mut server.peer).await;
        let ending = ended.unwrap_or_else(Reason::ending);
        if let Err(reason) = ended {
            self.record.note(reason, self.record.driver.place().as_ref());
        }
        let _ = self.record.tell(self.worker.shared.clock.now(), Event::Ended(ending));
        self.record.end(ending);
        match ending {
            // An orderly end would make what was cut look whole.
            Ending::ClientGone => server.peer.socket.reset(),
            Ending::ServerCut => {
                drop(server);
                self.cut().await;
            }
            Ending::Complete => {
                // Frees the place at the server while the client reads the last bytes.
                drop(server);
                self.linger().await;
            }
            Ending::Idle => {
                server.peer.socket.notify_close();
                self.client.socket.notify_close();
            }
            _ => {
                server.peer.socket.reset();
                self.client.socket.reset();
            }
        }
    }

    async fn exchange_bytes(&mut self, server: &mut Peer) -> Result<Ending, Reason> {
        self.idle = shorter(self.idle, self.record.driver.route.settings().timeouts.idle);
        let Self { worker, client, timer, record, pass, .. } = self;
        let limit = self.idle;
        if limit == Duration::ZERO {
            client.socket.keep_alive();
            server.socket.keep_alive();
        }
        let mut tunnel = Tunnel::between(&worker.buffers, client, server);
        timer.arm(limit);
        poll_fn(|cx| {
            let end = tunnel.poll(cx, &worker.buffers, client, server);
            record.bytes = tunnel.down.bytes;
            if record.bytes > 0 && record.times.answered.is_none() {
                record.times.answered = Some(worker.shared.clock.now());
            }
            if tunnel.has_moved() {
                timer.arm(limit);
            }
            match end {
                Poll::Ready(End::Closed) => Poll::Ready(Ok(Ending::Complete)),
                Poll::Ready(End::ClientBroken) => Poll::Ready(Err(Reason::ClientGone)),
                Poll::Ready(End::ServerBroken(_)) => Poll::Ready(Err(Reason::StreamReset)),
                Poll::Pending
                    if pass.listener.is_cut() || record.driver.is_cut() || worker.is_stopped() =>
                {
                    Poll::Ready(Err(Reason::DrainOver))
                }
                Poll::Pending if timer.has_expired() => Poll::Ready(silent(&tunnel)),
                Poll::Pending => Poll::Pending,
            }
        })
        .await
    }
}

impl Record {
    fn new(worker: &Rc<Worker>, view: &Rc<View>, listener: &Listener, client: SocketAddr) -> Self {
        Self {
            worker: worker.clone(),
            driver: driver(Route::new(view.clone(), listener.service), client),
            client,
            protocol: Line::method_of(listener.protocol),
            name: None,
            listener: listener.bind,
            tls: None,
            bytes: 0,
            times: Times { received: worker.shared.clock.now(), ..Times::default() },
            overflow: None,
            server: None,
            reason: None,
            told: None,
            counted: false,
        }
    }

    /// Tells nothing.
    const fn forget(&mut self) {
        self.counted = true;
    }

    /// Tells the machine what has happened.
    fn tell(&mut self, now: Instant, event: Event) -> Action {
        self.driver.handle(&self.worker, now, event)
    }

    fn go_to(&mut self, place: &Place) {
        self.times.picked.get_or_insert(place.since);
        self.overflow = place.overflow;
        self.server = Some((place.group, place.address));
    }

    /// An attempt to reach a server has failed.
    fn failed(&mut self, failure: &Failure) -> Action {
        let (now, place) = (self.worker.shared.clock.now(), self.driver.place());
        let action = self.tell(now, Event::Failed(failure.failed));
        self.note_untold(place.as_ref());
        action
    }

    /// Counts why an attempt to reach a server failed, or why there is none, and warns of it.
    fn note_untold(&mut self, place: Option<&Place>) {
        let untold = self.driver.take_untold();
        untold.into_iter().for_each(|failure| self.note(failure.reason, place));
    }

    /// Counts why it, or an attempt to reach a server, failed, and warns of it.
    fn note(&mut self, reason: Reason, place: Option<&Place>) {
        self.reason = Some(reason);
        if reason.ending().is_failure() {
            let (Worker { shared, failures, .. }, route) = (&*self.worker, &self.driver.route);
            failures.note(shared, &route.service_context().cells, route.scene(place), reason);
        }
    }

    /// Counts the connection and writes its line.
    fn end(&mut self, ending: Ending) {
        self.counted = true;
        self.times.ended = self.worker.shared.clock.now();
        let cells = &self.driver.route.service_context().cells;
        cells.nanos.add(self.times.ended.since(self.times.received).as_nanos());
        cells.add(ServiceCounter::Retries, u64::from(self.driver.retries()));
        cells.add(ServiceCounter::Overflowed, u64::from(self.overflow.is_some()));
        // Last: who sees that it has ended finds all of it counted.
        cells.end(ending, 0);
        if let Some(log) = &self.worker.shared.log {
            self.log(log, ending);
        }
    }

    #[cold]
    fn log(&self, log: &Log, ending: Ending) {
        if log.wants(ending, 0, &self.worker.random) {
            self.worker.log.add(log, self.worker.shared.clock, &self.line(ending));
        }
    }

    fn came(&self) -> Came<'_> {
        let told = ClientTls::came(self.tls.as_deref());
        let server_name = self.name.as_deref().unwrap_or(told.server_name);
        let overflow_reason = self.overflow.map_or("", OverflowReason::name);
        Came { listener: Some(self.listener), server_name, overflow_reason, ..told }
    }

    /// The protocol stands where a request has its method, the server name where it has its target.
    fn line(&self, ending: Ending) -> Line<'_> {
        let settings = self.driver.route.settings();
        let reason = self.reason.or(Reason::of(ending)).map_or("", Reason::text);
        let name = |group: usize| settings.groups.get(group).map_or("-", |group| &group.name);
        Line {
            client: self.client,
            method: self.protocol.as_bytes(),
            target: self.name.as_deref().unwrap_or_default().as_bytes(),
            version: "-",
            referer: b"",
            agent: b"",
            status: 0,
            bytes: self.bytes,
            service: &settings.name,
            server: self.server.map(|(group, address)| (name(group), address)),
            ending,
            reason: self.told.as_deref().unwrap_or(reason),
            retries: self.driver.retries(),
            times: self.times,
            trace: None,
            came: self.came(),
        }
    }
}

impl Drop for Record {
    /// A connection that is dropped on its way was cut at the end of a drain.
    fn drop(&mut self) {
        if !self.counted {
            self.end(Ending::Drained);
        }
    }
}

/// Whether a client has taken too long for what it says first.
fn is_late(
    worker: &Worker,
    timer: &Timer,
    listener: &ListenerHandle,
    is_hurried: &mut bool,
) -> bool {
    worker.hurry(timer, listener, is_hurried);
    timer.has_waited_enough(listener) || listener.is_cut()
}

/// Who caused the timeout: the peer that takes no data, or nobody.
const fn silent(tunnel: &Tunnel) -> Result<Ending, Reason> {
    match (tunnel.up.waits_for_sink(), tunnel.down.waits_for_sink()) {
        (_, true) => Err(Reason::ClientTimeout),
        (true, false) => Err(Reason::StreamTimeout),
        (false, false) => Ok(Ending::Idle),
    }
}

/// What drives a connection of this client through the machine.
fn driver(route: Route, client: SocketAddr) -> Driver {
    let key = route.service_context().hash.as_ref().map_or(0, |_| address_key(client.ip()));
    let class = route.settings().class;
    let kind = Kind::Stream;
    Driver::new(route, Subject { kind, key, class, stick: None, idempotent: false })
}

/// The hash of a client's address: the same for both ways of writing version 4.
fn address_key(address: IpAddr) -> u64 {
    match address.to_canonical() {
        IpAddr::V4(address) => hash(&address.octets()),
        IpAddr::V6(address) => hash(&address.octets()),
    }
}
