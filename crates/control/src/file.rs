//! The file as it is written: every key, its meaning, its range, its default.
//!
//! These types are what the JSON Schema and `docs/configuration.md` are made of, so the first
//! paragraph of each comment is written for whoever writes the file. They know nothing of what
//! keys mean together; `assemble` does. Every key may be absent here, so that one error does not
//! hide the next.

mod access_log;
mod acme;
mod admin;
mod basic_auth;
mod cache;
mod cluster;
mod compression;
mod discover;
mod forward_auth;
mod health;
mod jwt;
mod l4;
mod maintenance;
mod manager;
mod map;
mod routes;
mod shared_routes;
mod standby;
mod sticky;
mod store;
mod stream;
mod tls;
mod tracing;

use loadline_core::fleet::{
    Class, Forwarded, HashKey, HttpVersion, Overflow, PolicyKind, ProxyVersion, QuicCongestion,
    Then, UnderscoreHeaders, WhenFull,
};
use loadline_spanned::{At, Key, Named, Text};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::value::{
    address::{Bind, ServerPlace},
    either::{TableOrFalse, TableOrSwitch, TextOr},
    label::{FilePath, HeaderName, LogPlace, Name},
    link::Mac,
    number::{Number, Scaler, Whole},
    one_or_more::OneOrMore,
    pattern::NetworkRange,
    quantity::{AnyRate, PERCENT, PositiveBitRate, PositiveRate, Share, Size, Time, TimeOrOff},
    store::StoreUrl,
    word::Word,
};

pub(crate) use access_log::AccessLog;
pub(crate) use acme::{Acme, ExternalAccount};
pub(crate) use admin::Admin;
pub(crate) use basic_auth::BasicAuth;
pub(crate) use cache::{Cache, RouteCache};
pub(crate) use cluster::Cluster;
pub(crate) use compression::Compression;
pub(crate) use discover::{Discover, Dns};
pub(crate) use forward_auth::ForwardAuth;
pub(crate) use health::{Health, Step};
pub(crate) use jwt::Jwt;
pub(crate) use l4::{Forward, L4, Spoken};
pub(crate) use maintenance::Maintenance;
pub(crate) use manager::Manager;
pub(crate) use map::Map;
pub(crate) use routes::{Cors, HeaderEdits, Limit, Mirror, PathChange, Redirect, Route, Scheme};
pub(crate) use shared_routes::{ListenerRoutes, RouteList};
pub(crate) use standby::Standby;
pub(crate) use sticky::Sticky;
pub(crate) use store::{CredentialSource, Store};
pub(crate) use stream::NamedService;
pub(crate) use tls::{Certificate, ClientCertificate, ListenerTls, ServerTls};
pub(crate) use tracing::Tracing;

/// A configuration of loadline.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[schemars(title = "loadline", extend("required" = ["listener", "service"]))]
pub(crate) struct File {
    /// Configuration files to add to this one: files, folders (every `*.toml` in them) or patterns
    /// with `*`, read in the order of their names. Their lists and tables, of other names, are
    /// added to those of this file.
    #[schemars(extend("examples" = [["conf.d/*.toml"]]))]
    pub(crate) include: Key<Vec<Text<FilePath>>>,
    /// Settings of the process that takes traffic.
    pub(crate) edge: Key<Edge>,
    /// The admin interface: metrics, API and dashboard, on an address of its own. Off if omitted.
    pub(crate) admin: Key<Admin>,
    /// The store (etcd) that the edges of a cluster share. If omitted, this edge runs alone.
    pub(crate) cluster: Key<Cluster>,
    /// The DNS resolver, for groups with `discover`.
    pub(crate) dns: Key<Dns>,
    /// The response cache, which all routes with `cache` share.
    pub(crate) cache: Key<Cache>,
    /// Tracing: spans of requests, sent to an OTLP collector. Off if omitted.
    pub(crate) tracing: Key<Tracing>,
    /// Packet forwarding by the kernel (L4), for listeners with `forward`.
    pub(crate) l4: Key<L4>,
    /// Regions of servers, and the distances between them.
    pub(crate) regions: Key<Named<Region>>,
    /// Listeners, where traffic comes in. At least one.
    pub(crate) listener: Key<Vec<At<Listener>>>,
    /// Routes that several listeners share, by name: `[[routes.NAME]]`, as `[[listener.routes]]`.
    #[schemars(extend("examples" = [{ "site": [{ "path": "/api/", "service": "web" }] }]))]
    pub(crate) routes: Key<Named<RouteList>>,
    /// Maps, by name: each is a variable `$NAME` whose value is looked up by another variable.
    pub(crate) maps: Key<Named<Map>>,
    /// Services, where traffic goes, by name. At least one.
    pub(crate) service: Key<Named<Service>>,
}

/// Settings of the process that takes traffic.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(crate) struct Edge {
    /// The region of this process. Required if groups are in more than one region. Default: the
    /// region of the groups, or `local` if they name none.
    pub(crate) region: Key<Text<Name>>,
    /// Worker threads, each with its own listeners and server connections; 0 means one per core.
    /// A change needs a restart.
    #[schemars(extend("default" = 0))]
    pub(crate) threads: Key<Whole<0, 1024>>,
    /// The access log, a line for each request: its destination, or a table. Off if omitted. A
    /// change needs a restart.
    pub(crate) access_log: Key<TextOr<LogPlace, AccessLog>>,
    /// Maximum time that requests in flight may go on at a stop, at an upgrade or when their
    /// listener is removed; 0s cuts at once. Connections of `forward` listeners end at once.
    #[schemars(extend("default" = "30s"))]
    pub(crate) drain_timeout: Key<TimeOrOff>,
    /// Maximum number of client connections over all listeners; further ones wait until one ends.
    /// If omitted, only the limits of the listeners apply.
    #[schemars(extend("examples" = [20000]))]
    pub(crate) max_connections: Key<Whole<1, 10_000_000>>,
    /// The id of this edge in the connection ids of QUIC. A balancer that forwards packets to
    /// several edges finds by it the edge of a client whose address has changed: set the same
    /// `quic_server_id` at this server in the balancer's file. A change needs a restart.
    #[schemars(extend("examples" = [7]))]
    pub(crate) quic_server_id: Key<Whole<1, 65_535>>,
    /// User to switch to once every address is bound, so that loadline need not run as root.
    /// Default: the user who started it. A change needs a restart.
    #[schemars(extend("examples" = ["loadline"]))]
    pub(crate) user: Key<Text<Name>>,
    /// Group to switch to. Default: the group of `user`. A change needs a restart.
    #[schemars(extend("examples" = ["loadline"]))]
    pub(crate) group: Key<Text<Name>>,
    /// The path of a Unix socket for `loadline upgrade`. Only its owner and root may use it. Off if
    /// omitted. A change needs a restart.
    #[schemars(extend("examples" = ["/run/loadline/control.sock"]))]
    pub(crate) control: Key<Text<FilePath>>,
    /// The path of a file with the process id, after an upgrade that of the new process. It is
    /// removed at the end. Off if omitted. A change needs a restart.
    #[schemars(extend("examples" = ["/run/loadline/loadline.pid"]))]
    pub(crate) pid_file: Key<Text<FilePath>>,
}

/// A region of servers.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(crate) struct Region {
    /// Round-trip times to other regions, by name. It is enough to write it at one of two regions.
    /// If neither has it, health checks measure it.
    #[schemars(extend("examples" = [{ "europe-west3": "110ms" }]))]
    pub(crate) rtt: Key<Named<TimeOrOff>>,
}

/// A listener: addresses that take traffic, with the same settings.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[schemars(extend("required" = ["bind"], "anyOf" = [
    { "required": ["service"] }, { "required": ["routes"] }
]))]
pub(crate) struct Listener {
    /// The address to bind, or a list of them; each address has limits and counts of its own. A
    /// port alone, `:8080`, is every IPv4 address of the machine; `[::]:8080` is every IPv6
    /// address, and every IPv4 one too unless `net.ipv6.bindv6only` is 1.
    pub(crate) bind: Key<OneOrMore<Bind>>,
    /// Protocol of the listener. With `forward` other than `proxy` the default is `tcp`.
    #[schemars(extend("default" = "http"))]
    pub(crate) protocol: Key<Text<Word<Spoken>>>,
    /// How traffic reaches the servers. Every method but `proxy` forwards packets unread: it needs
    /// the table `[l4]`, IP and port in `bind` and the `protocol` `tcp` or `udp`, and no other key
    /// but `service`. Servers are chosen by Maglev hashing with their weights, in the nearest group
    /// that has any: no limit or queue applies.
    #[schemars(extend("default" = "proxy"))]
    pub(crate) forward: Key<Text<Word<Forward>>>,
    /// The service that gets the traffic; with `routes`, the service for requests that match no
    /// route, which get 404 if it is omitted.
    pub(crate) service: Key<Text<Name>>,
    /// Routes; the first that matches decides. A name stands for the list `[[routes.NAME]]`.
    pub(crate) routes: Key<ListenerRoutes>,
    /// Services by the server name (SNI) of the client, for the protocol `tls-passthrough`;
    /// `service` gets all other connections. Rejected as `client-bad`: a ClientHello of more than
    /// 16 KiB, and a server name that is no valid host name.
    pub(crate) names: Key<Vec<At<NamedService>>>,
    /// Whether every connection has to begin with a PROXY protocol header (version 1 or 2), which
    /// has the client's address. It is trusted from every peer, whatever `trusted_proxies` says.
    #[schemars(extend("default" = false))]
    pub(crate) accept_proxy: Key<bool>,
    /// Maximum number of client connections; further ones wait in the kernel's backlog.
    #[schemars(extend("default" = 10000))]
    pub(crate) max_connections: Key<Whole<1, 1_000_000>>,
    /// Maximum number of connections of one client at a time, over all workers. A client is an IPv4
    /// address or an IPv6 /64; with `accept_proxy` the address in the PROXY header. A further
    /// connection gets 429 if it is HTTP/1 without TLS, and is closed at once otherwise.
    /// Connections of `trusted_proxies` are not counted. No limit if omitted.
    #[schemars(extend("examples" = [100]))]
    pub(crate) max_connections_per_client: Key<Whole<1, 1_000_000>>,
    /// Timeouts towards clients.
    pub(crate) timeouts: Key<ClientTimeouts>,
    /// Limits of request and response headers.
    pub(crate) limits: Key<HeadLimits>,
    /// Maximum size of a request body, for routes without `max_body`. A larger one gets 413. No
    /// limit if omitted.
    pub(crate) max_body: Key<Size<0, { 1 << 50 }>>,
    /// Basic authentication for every request of the listener, unless its route has its own.
    pub(crate) basic_auth: Key<BasicAuth>,
    /// JWT authentication for every request of the listener, unless its route has its own.
    pub(crate) jwt: Key<Jwt>,
    /// Forward authentication for every request of the listener, unless its route has its own.
    pub(crate) forward_auth: Key<ForwardAuth>,
    /// Pages for errors that loadline itself answers, if the service has no page for the status:
    /// files by status (`503`) or class (`5xx`). Of several files for one status the client's
    /// `Accept` selects one by its type (`.html`, `.json`, `.txt`, `.xml`). Responses of servers
    /// are not changed. A reload reads the files again.
    #[schemars(extend("examples" = [{ "503": ["busy.html", "busy.json"], "5xx": "error.html" }]))]
    pub(crate) error_pages: Key<Named<OneOrMore<FilePath>>>,
    /// The only HTTP version of the listener. Default: both, 1.1 and 2; over TLS the client chooses
    /// by ALPN, without TLS by its first bytes.
    pub(crate) http_version: Key<Text<Word<HttpVersion>>>,
    /// Limits of HTTP/2 connections.
    pub(crate) http2: Key<Http2Limits>,
    /// Whether an `https` listener serves HTTP/3 too, on the UDP port of the same number, offered
    /// by `Alt-Svc`. The limits of `http2` apply. Not with `http_version` or `accept_proxy`.
    #[schemars(extend("default" = true))]
    pub(crate) http3: Key<bool>,
    /// Congestion control of HTTP/3 connections.
    #[schemars(extend("default" = "bbr"))]
    pub(crate) quic_congestion: Key<Text<Word<QuicCongestion>>>,
    /// Headers that tell servers the client's address.
    #[schemars(extend("default" = "x-forwarded"))]
    pub(crate) forwarded: Key<Text<Word<Forwarded>>>,
    /// Addresses of trusted proxies in front. Their `X-Forwarded-*`, `X-Real-IP` and `Forwarded`
    /// headers are kept, lists are extended, and the client in `X-Forwarded-For` or `Forwarded` is
    /// the client of logs, rules, limits and hashes. From all others these headers are replaced or
    /// removed. With `accept_proxy` the address in the PROXY header is compared.
    pub(crate) trusted_proxies: Key<OneOrMore<NetworkRange>>,
    /// What happens to headers with an underscore in their name, which some servers read as a
    /// hyphen: `Content_Length` as `Content-Length`.
    #[schemars(extend("default" = "drop"))]
    pub(crate) underscore_headers: Key<Text<Word<UnderscoreHeaders>>>,
    /// TLS, for the protocols `https` and `tls`.
    pub(crate) tls: Key<ListenerTls>,
}

/// Timeouts of client connections; 0s switches one off.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(crate) struct ClientTimeouts {
    /// Maximum time to receive a request header, from its first byte or, if nothing comes, from 1s
    /// after the connection. Also limits the first message of TLS and the PROXY protocol header.
    #[schemars(extend("default" = "10s"))]
    pub(crate) head: Key<TimeOrOff>,
    /// Maximum wait for a byte of the request body, or for the client to take more of the response.
    /// Without HTTP, the shorter of this and the service's `idle` applies to the whole connection.
    #[schemars(extend("default" = "60s"))]
    pub(crate) idle: Key<TimeOrOff>,
    /// Maximum time between two requests of a keep-alive connection.
    #[schemars(extend("default" = "60s"))]
    pub(crate) keep_alive: Key<TimeOrOff>,
    /// Minimum rate of a request body: a client has the time of `head`, plus that of the bytes sent
    /// at this rate; time spent waiting for the server does not count. Off if omitted, as a stream
    /// (gRPC, events) may be silent for long: then only `idle` applies. Without streams, 2kb/s is a
    /// good value.
    pub(crate) body_rate: Key<PositiveBitRate>,
}

/// Limits of request and response headers.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(crate) struct HeadLimits {
    /// Maximum size of the whole header.
    #[schemars(extend("default" = "16KiB"))]
    pub(crate) size: Key<HeadSize>,
    /// Maximum number of header fields.
    #[schemars(extend("default" = 100))]
    pub(crate) fields: Key<Whole<1, 1000>>,
}

/// Limits of one HTTP/2 or HTTP/3 connection of a client. Headers are limited by `limits`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(crate) struct Http2Limits {
    /// Maximum number of concurrent streams; further ones are refused, and count as `client-bad`.
    #[schemars(extend("default" = 100))]
    pub(crate) streams: Key<Whole<1, 10_000>>,
    /// Flow-control window of a stream: bytes that a client may send ahead of the server.
    #[schemars(extend("default" = "256KiB"))]
    pub(crate) window: Key<Size<1024, { 1 << 30 }>>,
    /// Flow-control window of the connection, for all its streams together.
    #[schemars(extend("default" = "1MiB"))]
    pub(crate) connection_window: Key<Size<65_536, { 1 << 30 }>>,
    /// Long-term rate at which a client may reset streams before their response, ten seconds' worth
    /// at once. Beyond it the connection is closed, if more than half of its streams were reset.
    #[schemars(extend("default" = "20/s"))]
    pub(crate) resets: Key<PositiveRate>,
}

/// From 256 B, which fits a request line and a Host, to 1 MiB.
type HeadSize = Size<256, { 1 << 20 }>;

/// A service: groups of servers, a policy, health checks and overload rules.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[schemars(extend("required" = ["group"]))]
pub(crate) struct Service {
    /// Load-balancing policy: how a server of a group is chosen.
    #[schemars(extend("default" = PolicyKind::DEFAULT.name()))]
    pub(crate) policy: Key<Text<Word<PolicyKind>>>,
    /// Hash key of the policies `maglev` and `bounded-hash`.
    #[schemars(extend("default" = "client-address"))]
    pub(crate) hash: Key<TextOr<Word<HashKey>, HashHeader>>,
    /// How the policy `managed` computes weights.
    pub(crate) manager: Key<Manager>,
    /// Session persistence. Off if omitted.
    pub(crate) sticky: Key<Sticky>,
    /// Priority class of requests whose route has none. A higher class leaves the queue first, and
    /// displaces a lower one when the queue is full.
    #[schemars(extend("default" = "normal"))]
    pub(crate) class: Key<Text<Word<Class>>>,
    /// When requests overflow from the nearest group to the next. `soonest` needs `max_rate` or
    /// `max_in_flight` on a group or on its servers.
    #[schemars(extend("default" = "capacity"))]
    pub(crate) overflow: Key<Text<Word<Overflow>>>,
    /// What happens when every group is full: a word, or a table for a queue.
    #[schemars(extend("default" = { "queue": "1s", "length": 200, "then": "shed" }))]
    pub(crate) when_full: Key<TextOr<Word<WhenFull>, Queue>>,
    /// Healthy share of a group's servers below which the group comes after the others, until it is
    /// reached again for 3 s. A new server of a group in use counts once healthy, or after 60 s.
    #[schemars(extend("default" = "70%"))]
    pub(crate) failover_threshold: Key<Share<0, { 100 * PERCENT }>>,
    /// Time in which a server that came up or back from maintenance rises to full weight; 0s: off.
    /// No effect with `lowest-latency`, `maglev`, `bounded-hash` and `sticky` by hash or header.
    #[schemars(extend("default" = "0s"))]
    pub(crate) slow_start: Key<TimeOrOff>,
    /// Active health checks. If omitted, every server counts as healthy.
    pub(crate) health: Key<Health>,
    /// Outlier ejection (passive): a server whose requests fail is ejected for some time; `false`
    /// switches it off.
    pub(crate) ejection: Key<TableOrFalse<Ejection>>,
    /// Maximum time of requests on a draining server: one removed from the file or its list, or
    /// with weight 0. What is left is cut, tunnels and long streams too; 0s cuts at once. No limit
    /// if omitted.
    #[schemars(extend("examples" = ["1m"]))]
    pub(crate) drain_timeout: Key<TimeOrOff>,
    /// When a failed request may be retried on another server.
    pub(crate) retry: Key<Retry>,
    /// Timeouts of server connections.
    pub(crate) timeouts: Key<ServerTimeouts>,
    /// With `forward = "nat"`: time without a packet after which a closed connection gives its port
    /// back. At least the TIME_WAIT of clients and servers.
    #[schemars(extend("default" = "30s"))]
    pub(crate) fin_timeout: Key<Time>,
    /// With `forward`: how long an idle connection is remembered. At least as long as servers keep
    /// idle connections.
    #[schemars(extend("default" = "5m"))]
    pub(crate) stale_timeout: Key<Time>,
    /// TLS to the servers. Plain text if omitted.
    pub(crate) tls: Key<ServerTls>,
    /// PROXY protocol version of the header that tells servers the client's address at the start of
    /// each connection. HTTP then opens a connection for each request, as a keep-alive one would
    /// name the wrong client. Off if omitted.
    pub(crate) send_proxy: Key<Text<Word<ProxyVersion>>>,
    /// HTTP version towards servers, of health checks too. With `2` many requests share a
    /// connection.
    #[schemars(extend("default" = "1.1"))]
    pub(crate) http_version: Key<Text<Word<HttpVersion>>>,
    /// Idle connections that each worker keeps open to each server, with the TLS handshake done, so
    /// that no request waits for a handshake with a distant server; not for `tcp` and `tls`. They
    /// are opened at start and after a reload, replaced when they close, and take at most half of
    /// `max_connections`. With http_version = "2" one is kept for any number above 0.
    #[schemars(extend("default" = 0))]
    pub(crate) prewarm: Key<Whole<0, 1000>>,
    /// Compresses responses for clients that accept it: `true` for the defaults, or a table.
    #[schemars(extend("default" = false))]
    pub(crate) compress: Key<TableOrSwitch<Compression>>,
    /// Maximum size of a response body, as the server sends it. A larger one becomes a 502; one of
    /// unknown length is cut, with the client's connection. No limit if omitted.
    pub(crate) max_response_body: Key<Size<0, { 1 << 50 }>>,
    /// Pages for errors that loadline itself answers, as `error_pages` of a listener.
    #[schemars(extend("examples" = [{ "503": "busy.html" }]))]
    pub(crate) error_pages: Key<Named<OneOrMore<FilePath>>>,
    /// What clients get while the service is in maintenance.
    pub(crate) maintenance: Key<Maintenance>,
    /// The groups of servers. At least one.
    pub(crate) group: Key<Vec<At<Group>>>,
}

/// A header to hash.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[schemars(extend("required" = ["header"]))]
pub(crate) struct HashHeader {
    /// The header whose value is hashed; without it the client's address is.
    pub(crate) header: Key<Text<HeaderName>>,
}

/// A bounded queue for requests that find every group full.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[schemars(extend("required" = ["queue"]))]
pub(crate) struct Queue {
    /// Maximum wait of a request.
    pub(crate) queue: Key<Time>,
    /// Maximum number of waiting requests.
    #[schemars(extend("default" = 200))]
    pub(crate) length: Key<Whole<1, 1_000_000>>,
    /// What happens to requests that do not fit or have waited too long.
    #[schemars(extend("default" = "shed"))]
    pub(crate) then: Key<Text<Word<Then>>>,
}

/// Outlier ejection (passive).
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(crate) struct Ejection {
    /// Errors in a row that eject a server. A refused connection alone ejects it.
    #[schemars(extend("default" = 3))]
    pub(crate) errors: Key<Whole<1, 1000>>,
    /// Time of the first ejection; it doubles with each further one in a row, up to `time_max`.
    /// With health checks it lasts at least until one passes or the server is down.
    #[schemars(extend("default" = "1s"))]
    pub(crate) time: Key<Time>,
    /// Maximum time of an ejection, at least `time`.
    #[schemars(extend("default" = "30s"))]
    pub(crate) time_max: Key<Time>,
    /// Maximum share of a service's servers that may be ejected at a time.
    #[schemars(extend("default" = "50%"))]
    pub(crate) share_max: Key<Share<0, { 100 * PERCENT }>>,
    /// Time after which a waiting request counts as an error if its server has responded to none
    /// meanwhile; ten times the usual latency or twice the longest recent one, if that is more.
    /// When it is ejected, waiting requests that are safe to retry leave it. 0s switches it off.
    #[schemars(extend("default" = "500ms"))]
    pub(crate) silence: Key<TimeOrOff>,
    /// How far the share of 5xx in a server's responses may exceed that of the rest of its group,
    /// beyond chance, before the server is ejected. 100% switches it off.
    #[schemars(extend("default" = "25%"))]
    pub(crate) excess_5xx: Key<Share<PERCENT, { 100 * PERCENT }>>,
}

/// When a failed request may be retried.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(crate) struct Retry {
    /// Maximum number of retries of one request; 0 switches retries off.
    #[schemars(extend("default" = 2))]
    pub(crate) attempts: Key<Whole<0, 3>>,
    /// Maximum share of retries among the requests of a service.
    #[schemars(extend("default" = "20%"))]
    pub(crate) budget: Key<Share<0, { 100 * PERCENT }>>,
    /// Rate of retries allowed when `budget` is used up, for services with few requests.
    #[schemars(extend("default" = "10/s"))]
    pub(crate) min_rate: Key<AnyRate>,
    /// Responses to retry; "5xx" is the only value. Idempotent requests whose body is buffered go
    /// to another server if one has room at once; if none has, or all respond so, the client gets
    /// the last response. None if omitted.
    pub(crate) on: Key<Vec<Text<Word<Repeated>>>>,
}

/// A response for which a request goes to another server, if repeating it is safe.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Repeated {
    ServerErrors,
}

/// Timeouts of server connections; 0s switches one off.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(crate) struct ServerTimeouts {
    /// Maximum time to open a connection; cannot be switched off.
    #[schemars(extend("default" = "3s"))]
    pub(crate) connect: Key<Time>,
    /// Maximum time from the sent request to the response header.
    #[schemars(extend("default" = "60s"))]
    pub(crate) head: Key<TimeOrOff>,
    /// Maximum time without a byte during a request or response.
    #[schemars(extend("default" = "60s"))]
    pub(crate) idle: Key<TimeOrOff>,
    /// Maximum time that an unused connection is kept open.
    #[schemars(extend("default" = "30s"))]
    pub(crate) keep_alive: Key<TimeOrOff>,
}

/// The servers of one service in one region: `servers`, `discover` or `store`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[schemars(extend("oneOf" = [
    { "required": ["servers"] }, { "required": ["discover"] }, { "required": ["store"] }
]))]
pub(crate) struct Group {
    /// Region of the group. Default: the region of the edge.
    pub(crate) region: Key<Text<Name>>,
    /// Name of the group, unique in the service. Default: the name of the region.
    pub(crate) name: Key<Text<Name>>,
    /// Round-trip time from this edge to the group. Default: the distance of its region.
    pub(crate) rtt: Key<TimeOrOff>,
    /// Automatic limit of the group's requests in flight (adaptive concurrency): the number at
    /// which more requests bring no more responses, at most `max_in_flight`. HTTP only. Default:
    /// `auto` if neither the group nor its servers have a limit, otherwise `none`.
    pub(crate) capacity: Key<Text<Word<Found>>>,
    /// Maximum rate of requests of the group as a whole. No limit if omitted.
    pub(crate) max_rate: Key<PositiveRate>,
    /// Requests that may come at once on top of an even `max_rate`. Default: 12, or `max_rate` over
    /// 100 ms if that is more; up to 128 while requests come in batches. With 1, each wait in the
    /// queue wastes 1 to 2 ms of `max_rate`.
    pub(crate) burst: Key<Burst>,
    /// Maximum number of requests in flight of the group as a whole. No limit if omitted.
    pub(crate) max_in_flight: Key<InFlight>,
    /// Maximum mean utilization that the group's servers report (ORCA `endpoint-load-metrics`). No
    /// limit if omitted.
    pub(crate) max_utilization: Key<Utilization>,
    /// Factor of the group's capacity: 0 drains the group, 1 uses all of it.
    #[schemars(extend("default" = 1.0))]
    pub(crate) scaler: Key<Number<Scaler>>,
    /// Limits of each server that does not set its own.
    pub(crate) per_server: Key<PerServer>,
    /// The servers: addresses, Unix sockets (`unix:/run/app.sock`, `unix:@name`), or tables with
    /// more settings. At least one, and 65,535 at most.
    pub(crate) servers: Key<Vec<At<TextOr<ServerPlace, Server>>>>,
    /// Where the list of servers comes from, instead of `servers`.
    pub(crate) discover: Key<Discover>,
    /// An object store or directory that answers GET and HEAD instead of servers: its URL, or a
    /// table with more settings.
    pub(crate) store: Key<TextOr<StoreUrl, Store>>,
}

/// Whether a capacity is found that the file does not say.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Found {
    Auto,
    None,
}

/// Limits of each server of a group.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(crate) struct PerServer {
    /// Maximum rate of requests. No limit if omitted.
    pub(crate) max_rate: Key<PositiveRate>,
    /// Requests that may come at once on top of an even `max_rate`. Default: 12, or `max_rate` over
    /// 100 ms if more.
    pub(crate) burst: Key<Burst>,
    /// Maximum number of requests in flight from this service at this edge. No limit if omitted.
    pub(crate) max_in_flight: Key<InFlight>,
    /// Maximum utilization that the server reports (ORCA). No limit if omitted.
    pub(crate) max_utilization: Key<Utilization>,
    /// Maximum number of connections, over all workers. Beyond it a request goes to another server,
    /// or gets 503 if none has room; only `max_in_flight` makes requests wait.
    #[schemars(extend("default" = 1024))]
    pub(crate) max_connections: Key<Connections>,
}

/// A server with settings besides its address.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[schemars(extend("required" = ["address"]))]
pub(crate) struct Server {
    /// Address of the server. A host name is resolved once, when the file is loaded.
    pub(crate) address: Key<Text<ServerPlace>>,
    /// Weight: the server's share of the group's traffic, relative to the others; 0 drains it.
    #[schemars(extend("default" = 1))]
    pub(crate) weight: Key<Whole<0, 1000>>,
    /// Priority tier, the lowest first: a server takes part only while no server of the group with
    /// a lower value is healthy, or for requests that all of those failed: above 0 it is a backup.
    #[schemars(extend("default" = 0))]
    pub(crate) priority: Key<Whole<0, 65535>>,
    /// Maximum rate of requests. Default: `per_server.max_rate`.
    pub(crate) max_rate: Key<PositiveRate>,
    /// Requests that may come at once on top of an even `max_rate`. Default: `per_server.burst`.
    pub(crate) burst: Key<Burst>,
    /// Maximum number of requests in flight. Default: `per_server.max_in_flight`.
    pub(crate) max_in_flight: Key<InFlight>,
    /// Maximum utilization that the server reports. Default: `per_server.max_utilization`.
    pub(crate) max_utilization: Key<Utilization>,
    /// Maximum number of connections, over all workers. Default: `per_server.max_connections`.
    pub(crate) max_connections: Key<Connections>,
    /// With `forward`: the MAC address of the server, or of the router towards it. Default: from
    /// the kernel's neighbour table.
    pub(crate) mac: Key<Text<Mac>>,
    /// With `forward`: the `edge.quic_server_id` of the loadline at this address, so that QUIC
    /// connections stay there when clients change their address.
    #[schemars(extend("examples" = [7]))]
    pub(crate) quic_server_id: Key<Whole<1, 65_535>>,
}

type Burst = Whole<1, 1_000_000>;
type InFlight = Whole<1, { u32::MAX }>;
type Utilization = Share<PERCENT, { 100 * PERCENT }>;
type Connections = Whole<1, 1_000_000>;
