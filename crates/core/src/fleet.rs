//! The fleet, as the file describes it: edge, regions, listeners, services, groups and servers.
//!
//! A [`Fleet`] is plain data that has been checked: indices are in range, names are unique,
//! every quantity is in its range. Whoever builds one (the configuration, a test, a simulation)
//! vouches for that.

mod access_log;
pub mod acme;
mod cache;
mod capacity;
mod compression;
mod discovery;
pub mod forwarding;
mod group;
mod health;
mod http2;
mod listeners;
mod names;
mod pages;
mod server_address;
mod services;
mod standby;
mod sticky;
mod store;
mod tls;
mod tracing;

use alloc::{
    string::{String, ToString},
    sync::Arc,
    vec::Vec,
};
use core::net::{IpAddr, SocketAddr};

use self::forwarding::{Affinity, Forwarding, Times};
use crate::{
    decide::manager::{self, Manager},
    rules::{Authentication, Network, Routes, client::is_trusted},
    time::Duration,
    units::{BitRate, Bytes, Rate, Ratio},
};

pub use crate::decide::policy::PolicyKind;
pub use access_log::{AccessLog, LogField, LogFormat, LogTarget};
pub use cache::{CacheLimits, DiskCache};
pub use capacity::Capacity;
pub use compression::{Compression, Levels};
pub use discovery::{Discovery, Family, ListPlace, Source};
pub use group::Group;
pub use health::{Ejection, HealthCheck, Probe};
pub use http2::{Http2Limits, HttpVersion};
pub use listeners::Listeners;
pub use names::ServerNames;
pub use pages::{ErrorPages, Maintenance, Page, Pages, Statuses};
pub use server_address::{ServerAddress, ServerAddressError, socket_path};
pub use services::Services;
pub use standby::Standby;
pub use sticky::{Class, Cookie, SameSite, Secret, Sticky};
pub use store::{Access, Bucket, Store, StorePlace};
pub use tls::{Certificate, ClientCheck, Hsts, ListenerTls, ServerTls, TlsTerms, TlsVersion};
pub use tracing::Tracing;

/// Everything one edge needs to know.
#[derive(Clone, Debug, PartialEq)]
pub struct Fleet {
    /// This process.
    pub edge: Edge,
    /// Where traffic comes in.
    pub listeners: Listeners,
    /// Where packets come in that the kernel forwards.
    pub forwarding: Forwarding,
    /// Services that it goes to.
    pub services: Services,
}

impl Fleet {
    /// What comes in at these listeners goes to these services; no packets are forwarded.
    #[must_use]
    pub fn of(edge: Edge, listeners: Vec<Listener>, services: Vec<Service>) -> Self {
        let (listeners, services) = (listeners.into(), services.into());
        Self { edge, listeners, forwarding: Forwarding::default(), services }
    }

    /// The second tier of the cache, if there is one and any route has a cache.
    #[must_use]
    pub fn disk_cache(&self) -> Option<&DiskCache> {
        let has_caches = self.listeners.iter().any(|listener| listener.routes.has_caches());
        self.edge.disk_cache.as_ref().filter(|_| has_caches)
    }
}

/// The process that takes traffic.
#[derive(Clone, Debug, PartialEq)]
pub struct Edge {
    /// The region this edge is in.
    pub region: String,
    /// Worker threads, each with its own listeners and server connections; 0 = one per core.
    pub threads: u32,
    /// A line for each request; none are written if omitted.
    pub access_log: Option<AccessLog>,
    /// Spans of requests; none are made if omitted.
    pub tracing: Option<Tracing>,
    /// How long a drain waits for requests in flight before it cuts them.
    pub drain_timeout: Duration,
    /// Client connections at a time, over all listeners; as many as those allow if omitted.
    pub max_connections: Option<u32>,
    /// What the cache may hold, where routes have one.
    pub cache: CacheLimits,
    /// The second tier of the cache; none if omitted.
    pub disk_cache: Option<DiskCache>,
    /// Server id in the QUIC connection ids of this edge, so that packets forwarded to several
    /// edges reach it; the same as [`Server::quic_server_id`] there.
    pub quic_server_id: Option<u16>,
}

impl Edge {
    /// An edge in this region with the documented defaults.
    #[must_use]
    pub fn within(region: &str) -> Self {
        Self {
            region: region.to_string(),
            threads: 0,
            access_log: None,
            tracing: None,
            drain_timeout: DRAIN_TIMEOUT,
            max_connections: None,
            cache: CacheLimits::default(),
            disk_cache: None,
            quic_server_id: None,
        }
    }
}

/// An address that takes traffic for one service.
#[derive(Clone, Debug, PartialEq)]
pub struct Listener {
    /// The address to bind.
    pub bind: SocketAddr,
    /// What is spoken there.
    pub protocol: Protocol,
    /// Index into [`Fleet::services`]; for whatever [`Listener::names`] does not name.
    pub service: usize,
    /// Whether what no rule is for belongs to no service; [`Listener::service`] counts it.
    pub routes_only: bool,
    /// Rules that decide about a request before [`Listener::service`] gets it; for HTTP.
    pub routes: Routes,
    /// Services by the server name of TLS, for [`Protocol::Tls`] and
    /// [`Protocol::TlsPassthrough`].
    pub names: ServerNames,
    /// Whether every connection has to begin with a PROXY protocol header.
    pub accept_proxy: bool,
    /// Client connections at a time; further ones wait in the kernel's backlog.
    pub max_connections: u32,
    /// Connections of one client ([`crate::rules::ClientKey`]) at a time, at least 1; as many as it
    /// likes if omitted.
    pub max_connections_per_client: Option<u32>,
    /// How long clients may take.
    pub timeouts: ClientTimeouts,
    /// How large a head may be.
    pub limits: HeadLimits,
    /// How long the body of a request may be.
    pub max_body: Option<Bytes>,
    /// Who may ask for what no rule is for; everybody if omitted.
    pub authentication: Option<Authentication>,
    /// What clients get where something fails, and the service has no page for it.
    pub error_pages: ErrorPages,
    /// The one version of HTTP that is spoken; the client chooses if omitted.
    pub http_version: Option<HttpVersion>,
    /// What clients may do with HTTP/2.
    pub http2: Http2Limits,
    /// Whether HTTP/3 is spoken beside HTTPS, on the UDP port of the same number.
    pub http3: bool,
    /// How it finds out how much a client's network takes.
    pub quic_congestion: QuicCongestion,
    /// What is told to the server about the client.
    pub forwarded: Forwarded,
    /// Peers trusted in what they say of the clients behind them ([`crate::rules::client`]).
    pub trusted_proxies: Vec<Network>,
    /// What becomes of header names with an underscore.
    pub underscore_headers: UnderscoreHeaders,
    /// TLS; in clear if omitted.
    pub tls: Option<ListenerTls>,
}

impl Listener {
    /// A listener for the service at this index that speaks HTTP, with the documented defaults.
    #[must_use]
    pub fn new(bind: SocketAddr, service: usize) -> Self {
        Self {
            bind,
            protocol: Protocol::Http,
            service,
            routes_only: false,
            routes: Routes::default(),
            names: ServerNames::default(),
            accept_proxy: false,
            max_connections: CONNECTIONS_MAX,
            max_connections_per_client: None,
            timeouts: ClientTimeouts::default(),
            limits: HeadLimits::default(),
            max_body: None,
            authentication: None,
            error_pages: ErrorPages::default(),
            http_version: None,
            http2: Http2Limits::default(),
            http3: true,
            quic_congestion: QuicCongestion::Bbr,
            forwarded: Forwarded::XForwarded,
            trusted_proxies: Vec::new(),
            underscore_headers: UnderscoreHeaders::Drop,
            tls: None,
        }
    }
}

impl Listener {
    /// Whether clients can come by HTTP/3: over QUIC there is no PROXY header, and one version
    /// alone is another.
    #[must_use]
    pub fn serves_http3(&self) -> bool {
        let is_free = self.http_version.is_none() && !self.accept_proxy;
        self.http3 && is_free && self.protocol == Protocol::Https
    }

    /// The most connections at a time of the client with this address; none for a trusted proxy,
    /// through which many come.
    #[must_use]
    pub fn max_connections_of(&self, client: IpAddr) -> Option<u32> {
        self.max_connections_per_client.filter(|_| !is_trusted(client, &self.trusted_proxies))
    }
}

/// What a listener speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP in clear.
    Http,
    /// HTTP over TLS.
    Https,
    /// Anything over TCP: bytes both ways.
    Tcp,
    /// The same over TLS, which ends here.
    Tls,
    /// TLS that the server ends; only the name that its client asks for is read.
    TlsPassthrough,
}

impl Protocol {
    /// Whether messages are HTTP, rather than bytes that mean nothing here.
    #[must_use]
    pub const fn is_http(self) -> bool {
        matches!(self, Self::Http | Self::Https)
    }

    /// Whether TLS towards the client ends here.
    #[must_use]
    pub const fn ends_tls(self) -> bool {
        matches!(self, Self::Https | Self::Tls)
    }
}

/// A version of the PROXY protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyVersion {
    /// A line of text.
    V1,
    /// A binary header.
    V2,
}

/// Which headers tell the server about the client. Those that come in stay, and lists are extended,
/// where they are a trusted proxy's; from anybody else none goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forwarded {
    /// `X-Forwarded-For`, `-Proto` and `-Host`.
    XForwarded,
    /// RFC 7239 `Forwarded`.
    Rfc7239,
    /// None.
    Off,
}

/// How a sender of QUIC finds out how much the network takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuicCongestion {
    /// By the rate at which packets arrive (BBR, draft-cardwell-iccrg-bbr-congestion-control-00).
    Bbr,
    /// By packets that are lost (CUBIC, RFC 9438).
    Cubic,
}

/// What becomes of header names with an underscore, in heads and trailers of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnderscoreHeaders {
    /// They are as if they had not come.
    Drop,
    /// A request that has one is answered 400.
    Refuse,
    /// They go on to the server.
    Keep,
}

/// How long a client may take. [`Duration::ZERO`] switches a limit off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientTimeouts {
    /// From the first byte of a head (or the accept) to its last.
    pub head: Duration,
    /// Without a byte while it is waited for: for its body, or until it takes more of a response.
    pub idle: Duration,
    /// Between two requests of a kept connection.
    pub keep_alive: Duration,
    /// The slowest a body may come, beyond what comes within `head`; zero for as slow as it likes.
    pub body_rate: BitRate,
}

impl Default for ClientTimeouts {
    fn default() -> Self {
        Self {
            head: Duration::from_secs(10),
            idle: Duration::from_secs(60),
            keep_alive: Duration::from_secs(60),
            body_rate: BitRate::default(),
        }
    }
}

/// How large a head may be, of requests and of responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadLimits {
    /// Bytes of the whole head, 256 B to 1 MiB.
    pub size: Bytes,
    /// Header fields, 1 to 1000.
    pub fields: u32,
}

impl Default for HeadLimits {
    fn default() -> Self {
        Self { size: Bytes::new(16 << 10), fields: 100 }
    }
}

/// What clients reach; owns groups, a policy, health checks and overload rules.
#[derive(Clone, Debug, PartialEq)]
pub struct Service {
    /// Unique name.
    pub name: String,
    /// How a server is chosen inside a group.
    pub policy: PolicyKind,
    /// What a consistent-hash policy hashes.
    pub hash: HashKey,
    /// How the policy `managed` makes weights.
    pub manager: Manager,
    /// What keeps the requests of a session on one server; absent, nothing does.
    pub sticky: Option<Sticky>,
    /// How much requests matter for which no rule says it.
    pub class: Class,
    /// When a request leaves the near group.
    pub overflow: Overflow,
    /// What happens when every group is full.
    pub when_full: WhenFull,
    /// Healthy share below which a group yields to the next, 0 % to 100 %.
    pub failover_threshold: Ratio,
    /// Time over which a server that came up gets its full weight; zero switches it off.
    pub slow_start: Duration,
    /// Active checks; absent, every server counts as healthy.
    pub health: Option<HealthCheck>,
    /// Passive ejection on errors; absent, errors eject nobody.
    pub ejection: Option<Ejection>,
    /// How long what is under way with a server may go on that is given nothing more; for ever
    /// if omitted.
    pub drain_timeout: Option<Duration>,
    /// When a failed request may be sent again.
    pub retry: Retry,
    /// How long servers may take.
    pub timeouts: ServerTimeouts,
    /// How long connections are remembered whose packets are forwarded.
    pub flow_times: Times,
    /// What stays with a server where packets are forwarded.
    pub affinity: Affinity,
    /// TLS towards the servers; in clear if omitted.
    pub tls: Option<ServerTls>,
    /// The PROXY protocol header that tells servers whose connection it is; none if omitted.
    pub send_proxy: Option<ProxyVersion>,
    /// What is spoken with the servers, where it is HTTP.
    pub http_version: HttpVersion,
    /// Connections that each worker keeps ready to each server, where it is HTTP; 0 opens one only
    /// when a request needs it.
    pub prewarm: u32,
    /// How its responses are compressed; as the servers send them if omitted.
    pub compression: Option<Compression>,
    /// The largest body of a response, as the server sends it; no limit if omitted.
    pub max_response_body: Option<Bytes>,
    /// What clients get where something fails.
    pub error_pages: ErrorPages,
    /// Response to clients during maintenance; a line of text if omitted.
    pub maintenance: Option<Maintenance>,
    /// The servers, by region.
    pub groups: Vec<Group>,
}

impl Service {
    /// A service with the documented defaults and no groups yet.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_string(),
            policy: PolicyKind::DEFAULT,
            hash: HashKey::ClientAddress,
            manager: manager::DEFAULT,
            sticky: None,
            class: Class::Normal,
            overflow: Overflow::Capacity,
            when_full: WhenFull::Queue {
                timeout: Duration::from_secs(1),
                length: 200,
                then: Then::Shed,
            },
            failover_threshold: Ratio::percent(70),
            slow_start: Duration::ZERO,
            health: None,
            ejection: Some(Ejection::default()),
            drain_timeout: None,
            retry: Retry::default(),
            timeouts: ServerTimeouts::default(),
            flow_times: Times::default(),
            affinity: Affinity::default(),
            tls: None,
            send_proxy: None,
            http_version: HttpVersion::Http11,
            prewarm: 0,
            compression: None,
            max_response_body: None,
            error_pages: ErrorPages::default(),
            maintenance: None,
            groups: Vec::new(),
        }
    }
}

/// What a consistent-hash policy hashes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HashKey {
    /// The client's IP address.
    ClientAddress,
    /// Path and query.
    Path,
    /// The value of this header; the client's address where it is absent.
    Header(String),
}

/// When a request leaves the near group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// Over the group's budget.
    Capacity,
    /// When the expected wait near exceeds the extra distance far.
    Soonest,
}

/// What happens when every group is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// Over capacity, in proportion to it.
    Spread,
    /// Wait in a bounded queue, then do as `then` says.
    Queue {
        /// The longest wait of one request.
        timeout: Duration,
        /// The most requests that wait at a time.
        length: u32,
        /// What happens to those that do not fit or waited too long.
        then: Then,
    },
    /// 503 with Retry-After at once.
    Shed,
}

/// What happens to a request for which the queue has no room or no time left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// 503 with Retry-After.
    Shed,
    /// Over capacity, in proportion to it.
    Spread,
}

/// When a failed request may be sent again, to another server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// Further attempts for one request, 0 to 3.
    pub attempts: u32,
    /// Retries as a share of requests.
    pub budget: Ratio,
    /// Retries per second that are always allowed, so that a quiet service can retry too.
    pub min_rate: Rate,
    /// Whether a 5xx of a server is a failure that may be repeated.
    pub on_5xx: bool,
}

impl Default for Retry {
    fn default() -> Self {
        Self { attempts: 2, budget: Ratio::percent(20), min_rate: Rate::per_sec(10), on_5xx: false }
    }
}

/// How long a server may take. [`Duration::ZERO`] switches a limit off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerTimeouts {
    /// To open a connection.
    pub connect: Duration,
    /// From the sent request to the head of the response.
    pub head: Duration,
    /// Without a byte while a message is under way.
    pub idle: Duration,
    /// A kept connection without use.
    pub keep_alive: Duration,
}

impl Default for ServerTimeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(3),
            head: Duration::from_secs(60),
            idle: Duration::from_secs(60),
            keep_alive: Duration::from_secs(30),
        }
    }
}

/// One address.
#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    /// Where it listens.
    pub address: SocketAddr,
    /// The host name that it was written as, for TLS to ask for and to verify.
    pub host: Option<String>,
    /// Share of the group's traffic, 0 to 1000; 0 drains.
    pub weight: u32,
    /// Whether its weight is 0 for an operator has put it into maintenance.
    pub in_maintenance: bool,
    /// The lower the earlier: it takes part only while no server of a lower one may, or for what
    /// all of those have failed.
    pub priority: u16,
    /// As [`Service::drain_timeout`], for this server alone.
    pub drain_timeout: Option<Duration>,
    /// What this server may be given.
    pub capacity: Capacity,
    /// Connections to this server at a time, over all workers.
    pub max_connections: u32,
    /// The link address of the next hop towards it, for packets that are forwarded; the kernel is
    /// asked if omitted.
    pub link: Option<[u8; 6]>,
    /// The [`Edge::quic_server_id`] of the edge that it is, so that forwarded packets of its QUIC
    /// connections find it.
    pub quic_server_id: Option<u16>,
    /// Whose objects it responds with, where it is no server of HTTP that knows for itself.
    pub store: Option<Arc<Store>>,
}

impl Server {
    /// A server at this address with the documented defaults.
    #[must_use]
    pub const fn at(address: SocketAddr) -> Self {
        Self {
            address,
            host: None,
            weight: 1,
            in_maintenance: false,
            priority: 0,
            drain_timeout: None,
            capacity: Capacity::UNLIMITED,
            max_connections: SERVER_CONNECTIONS_MAX,
            link: None,
            quic_server_id: None,
            store: None,
        }
    }
}

/// With two sockets an exchange this fits the usual hard limit of open files many times.
const CONNECTIONS_MAX: u32 = 10_000;

/// What one server commonly allows, and far from the 28,000 ports of one address.
const SERVER_CONNECTIONS_MAX: u32 = 1_024;

/// Long enough for most requests, and what process managers grant before they kill.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(30);
