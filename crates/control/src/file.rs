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
pub(crate) use tls::{Certificate, ListenerTls, ServerTls};
pub(crate) use tracing::Tracing;

/// A configuration of loadline.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[schemars(title = "loadline", extend("required" = ["listener", "service"]))]
pub(crate) struct File {
    /// Further files of this configuration: a file, a folder (its `*.toml`), or files by a star, in
    /// the order of their names. Their lists and tables are added to those of this one.
    #[schemars(extend("examples" = [["conf.d/*.toml"]]))]
    pub(crate) include: Key<Vec<Text<FilePath>>>,
    /// Settings of the process that takes traffic.
    pub(crate) edge: Key<Edge>,
    /// The admin interface: metrics, API and dashboard, on an address of its own. Off if omitted.
    pub(crate) admin: Key<Admin>,
    /// The store (etcd) of a cluster of edges. If omitted, this edge is alone and needs none.
    pub(crate) cluster: Key<Cluster>,
    /// The DNS resolver, for groups with `discover`.
    pub(crate) dns: Key<Dns>,
    /// The cache of the routes with `cache`.
    pub(crate) cache: Key<Cache>,
    /// Tracing: spans of requests for a collector. Off if omitted.
    pub(crate) tracing: Key<Tracing>,
    /// Packet forwarding by the kernel, for listeners with `forward`.
    pub(crate) l4: Key<L4>,
    /// Regions of servers, and the distances between them.
    pub(crate) regions: Key<Named<Region>>,
    /// Listeners, where traffic comes in. At least one.
    pub(crate) listener: Key<Vec<At<Listener>>>,
    /// Routes that listeners share, by name: `[[routes.NAME]]`, as `[[listener.routes]]`.
    #[schemars(extend("examples" = [{ "site": [{ "path": "/api/", "service": "web" }] }]))]
    pub(crate) routes: Key<Named<RouteList>>,
    /// Maps: variables of headers and redirects that are looked up by others, by name.
    pub(crate) maps: Key<Named<Map>>,
    /// Services, where traffic goes, by name. At least one.
    pub(crate) service: Key<Named<Service>>,
}

/// Settings of the process that takes traffic.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(crate) struct Edge {
    /// The region this process is in. Needed where groups are in more than one region; the
    /// region of all groups otherwise, `local` where they name none.
    pub(crate) region: Key<Text<Name>>,
    /// Worker threads, each with its own listeners and server connections; 0 means one per core.
    /// A change needs a restart.
    #[schemars(extend("default" = 0))]
    pub(crate) threads: Key<Whole<0, 1024>>,
    /// The access log, a line for each request. Off if omitted. A text names the destination, a
    /// table has more settings. A change needs a restart.
    pub(crate) access_log: Key<TextOr<LogPlace, AccessLog>>,
    /// How long a drain waits for requests in flight before it cuts them; 0s cuts at once.
    #[schemars(extend("default" = "30s"))]
    pub(crate) drain_timeout: Key<TimeOrOff>,
    /// Maximum number of client connections over all listeners; further ones wait until one ends.
    /// If omitted, only the limits of the listeners apply.
    #[schemars(extend("examples" = [20000]))]
    pub(crate) max_connections: Key<Whole<1, 10_000_000>>,
    /// Written into the ids of QUIC connections, so that a balancer which forwards packets to
    /// several edges finds the one of a client whose address has changed: its file has the same
    /// `quic_server_id` at this server. A change needs a restart.
    #[schemars(extend("examples" = [7]))]
    pub(crate) quic_server_id: Key<Whole<1, 65_535>>,
    /// User to switch to once every address is bound, so that loadline need not run as root.
    /// Default: the user who started it. A change needs a restart.
    #[schemars(extend("examples" = ["loadline"]))]
    pub(crate) user: Key<Text<Name>>,
    /// Group to switch to. Default: the group of `user`. A change needs a restart.
    #[schemars(extend("examples" = ["loadline"]))]
    pub(crate) group: Key<Text<Name>>,
    /// The path of a Unix socket for `loadline upgrade`, which its owner and root alone may use.
    /// Off if omitted. A change needs a restart.
    #[schemars(extend("examples" = ["/run/loadline/control.sock"]))]
    pub(crate) control: Key<Text<FilePath>>,
    /// A file with the process id, for as long as the process runs. Off if omitted. After an
    /// upgrade it has the id of the new process. A change needs a restart.
    #[schemars(extend("examples" = ["/run/loadline/loadline.pid"]))]
    pub(crate) pid_file: Key<Text<FilePath>>,
}

/// A region, where servers are.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(crate) struct Region {
    /// Round-trip times to other regions, by name; either of two regions may have it. If neither
    /// does, health checks measure it.
    #[schemars(extend("examples" = [{ "europe-west3": "110ms" }]))]
    pub(crate) rtt: Key<Named<TimeOrOff>>,
}

/// An address that takes traffic for one service, or several that do the same.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[schemars(extend("required" = ["bind"], "anyOf" = [
    { "required": ["service"] }, { "required": ["routes"] }
]))]
pub(crate) struct Listener {
    /// The address to bind, or a list of addresses, each with the same settings and counts of its
    /// own. A port alone, `:8080`, is every IPv4 address of the machine, `[::]:8080` every IPv6
    /// address, and every IPv4 one too unless `net.ipv6.bindv6only` is 1.
    pub(crate) bind: Key<OneOrMore<Bind>>,
    /// Protocol of the listener. With `forward` other than `proxy` the default is `tcp`.
    #[schemars(extend("default" = "http"))]
    pub(crate) protocol: Key<Text<Word<Spoken>>>,
    /// How traffic reaches the servers. Every method but `proxy` forwards packets without reading
    /// them, which needs the table `[l4]` and a whole address in `bind`; `protocol` is `tcp` or
    /// `udp` then, and no key but `bind`, `protocol` and `service` makes sense. Servers are chosen
    /// by Maglev with their weights, in the nearest group that has any; `policy`, capacities and
    /// `when_full` are for requests.
    #[schemars(extend("default" = "proxy"))]
    pub(crate) forward: Key<Text<Word<Forward>>>,
    /// The name of the service that gets the traffic; with `routes`, the requests that match none,
    /// which get 404 without it.
    pub(crate) service: Key<Text<Name>>,
    /// Routes; the first match decides. A name stands for the routes of that name in `[routes]`.
    pub(crate) routes: Key<ListenerRoutes>,
    /// Services by the server name (SNI) of the client, for the protocol `tls-passthrough`;
    /// `service` gets all other connections.
    pub(crate) names: Key<Vec<At<NamedService>>>,
    /// Whether every connection has to begin with a header of the PROXY protocol, version 1 or 2,
    /// with the client's address. Every peer that reaches this address is trusted in that, without
    /// an entry in `trusted_proxies`.
    #[schemars(extend("default" = false))]
    pub(crate) accept_proxy: Key<bool>,
    /// Maximum number of client connections; further ones wait in the kernel's backlog.
    #[schemars(extend("default" = 10000))]
    pub(crate) max_connections: Key<Whole<1, 1_000_000>>,
    /// Maximum number of connections of one client at a time, over all workers: of one IPv4
    /// address, or of one /64 of IPv6; with `accept_proxy` of the address in the PROXY header. A
    /// further one gets 429 where HTTP/1 comes in clear, and is closed at once otherwise.
    /// Connections of `trusted_proxies` are not counted. No limit if omitted.
    #[schemars(extend("examples" = [100]))]
    pub(crate) max_connections_per_client: Key<Whole<1, 1_000_000>>,
    /// Timeouts towards clients.
    pub(crate) timeouts: Key<ClientTimeouts>,
    /// Limits of request and response headers.
    pub(crate) limits: Key<HeadLimits>,
    /// Maximum size of a request body, where the route has none. A longer one gets 413. No limit
    /// if omitted.
    pub(crate) max_body: Key<Size<0, { 1 << 50 }>>,
    /// Basic authentication for every request of the listener, where its route does not say
    /// otherwise.
    pub(crate) basic_auth: Key<BasicAuth>,
    /// Tokens of JWT for every request of the listener, where its route does not say otherwise.
    pub(crate) jwt: Key<Jwt>,
    /// Forward authentication for every request of the listener, where its route does not say
    /// otherwise.
    pub(crate) forward_auth: Key<ForwardAuth>,
    /// Pages for errors that loadline tells clients of itself, where the service has none: files by
    /// status, or by hundred. Of several files for one the type decides (`.html`, `.json`, `.txt`,
    /// `.xml`) that the client's `Accept` prefers. Responses of servers stay as they are. Files
    /// are read again at a reload.
    #[schemars(extend("examples" = [{ "503": ["busy.html", "busy.json"], "5xx": "error.html" }]))]
    pub(crate) error_pages: Key<Named<OneOrMore<FilePath>>>,
    /// Restricts the listener to one HTTP version. Default: both; over TLS the client chooses by
    /// ALPN, without TLS by its first bytes.
    pub(crate) http_version: Key<Text<Word<HttpVersion>>>,
    /// Limits of HTTP/2 connections.
    pub(crate) http2: Key<Http2Limits>,
    /// Serves HTTP/3 beside HTTPS, on the UDP port of the same number, and offers it by `Alt-Svc`.
    /// Not with `http_version` or `accept_proxy`. `http2` limits its connections, too.
    #[schemars(extend("default" = true))]
    pub(crate) http3: Key<bool>,
    /// How HTTP/3 finds out how fast a client's network is.
    #[schemars(extend("default" = "bbr"))]
    pub(crate) quic_congestion: Key<Text<Word<QuicCongestion>>>,
    /// Headers in which servers get the client's address.
    #[schemars(extend("default" = "x-forwarded"))]
    pub(crate) forwarded: Key<Text<Word<Forwarded>>>,
    /// Trusted proxies in front: their `X-Forwarded-For`, `-Proto`, `-Host` and other headers of
    /// that prefix, `X-Real-IP` and `Forwarded` are kept, lists extended, and the client that they
    /// name is the client in logs, rules, limits and hashes. From other clients these headers are
    /// replaced or removed. With `accept_proxy` the address in the PROXY header is looked for here.
    pub(crate) trusted_proxies: Key<OneOrMore<NetworkRange>>,
    /// How headers are treated whose name has an underscore, which some servers read as a hyphen:
    /// `Content_Length` for `Content-Length`.
    #[schemars(extend("default" = "drop"))]
    pub(crate) underscore_headers: Key<Text<Word<UnderscoreHeaders>>>,
    /// TLS, for the protocols `https` and `tls`.
    pub(crate) tls: Key<ListenerTls>,
}

/// Timeouts towards clients; 0s switches one off.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(crate) struct ClientTimeouts {
    /// From the first byte of a request header, or from the accept, to its last byte; also for the
    /// first message of TLS and the header of the PROXY protocol.
    #[schemars(extend("default" = "10s"))]
    pub(crate) head: Key<TimeOrOff>,
    /// Time without a byte in either direction during a request or response. For protocols other
    /// than HTTP, the shorter of this and the service's applies to the whole connection.
    #[schemars(extend("default" = "60s"))]
    pub(crate) idle: Key<TimeOrOff>,
    /// Time between two requests of a keep-alive connection.
    #[schemars(extend("default" = "60s"))]
    pub(crate) keep_alive: Key<TimeOrOff>,
    /// Minimum rate of a request body: it may take the time of `head` plus that of its bytes at
    /// this rate, the time that it waits for the server excluded. If omitted, only `idle` bounds
    /// it, since a stream (gRPC, events) may be silent for long; without streams, 2kb/s is a good
    /// value.
    pub(crate) body_rate: Key<PositiveBitRate>,
}

/// Limits of request and response headers.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(crate) struct HeadLimits {
    /// Size of the whole header.
    #[schemars(extend("default" = "16KiB"))]
    pub(crate) size: Key<HeadSize>,
    /// Number of header fields.
    #[schemars(extend("default" = 100))]
    pub(crate) fields: Key<Whole<1, 1000>>,
}

/// Limits of one HTTP/2 connection of a client. `limits` bounds the headers of both versions.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(crate) struct Http2Limits {
    /// Maximum number of concurrent streams; further ones are refused.
    #[schemars(extend("default" = 100))]
    pub(crate) streams: Key<Whole<1, 10_000>>,
    /// Flow-control window of a stream: what a client may send before the server has taken it.
    #[schemars(extend("default" = "256KiB"))]
    pub(crate) window: Key<Size<1024, { 1 << 30 }>>,
    /// Flow-control window of the connection, for all its streams together.
    #[schemars(extend("default" = "1MiB"))]
    pub(crate) connection_window: Key<Size<65_536, { 1 << 30 }>>,
    /// Streams that a client may reset before their response, as a long-term rate; ten seconds'
    /// worth at once. More close the connection, if they are more than half of all its streams.
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
    /// How a server is chosen inside a group.
    #[schemars(extend("default" = PolicyKind::DEFAULT.name()))]
    pub(crate) policy: Key<Text<Word<PolicyKind>>>,
    /// Hash key of the policies `maglev` and `bounded-hash`.
    #[schemars(extend("default" = "client-address"))]
    pub(crate) hash: Key<TextOr<Word<HashKey>, HashHeader>>,
    /// How the policy `managed` computes weights.
    pub(crate) manager: Key<Manager>,
    /// Session persistence. Off if omitted.
    pub(crate) sticky: Key<Sticky>,
    /// Priority class of requests whose route has none: in the queue those of a higher class go
    /// first, and displace those of a lower class when it is full.
    #[schemars(extend("default" = "normal"))]
    pub(crate) class: Key<Text<Word<Class>>>,
    /// When requests overflow from the nearest group to the next. `soonest` needs `max_rate` or
    /// `max_in_flight` on a group or on its servers.
    #[schemars(extend("default" = "capacity"))]
    pub(crate) overflow: Key<Text<Word<Overflow>>>,
    /// What happens when every group is full: a word, or a table for a queue.
    #[schemars(extend("default" = { "queue": "1s", "length": 200, "then": "shed" }))]
    pub(crate) when_full: Key<TextOr<Word<WhenFull>, Queue>>,
    /// Healthy share of a group's servers below which the next group goes first, until it holds for
    /// 3 s again. A server that joins a group in use counts once it is healthy, or after 60 s.
    #[schemars(extend("default" = "70%"))]
    pub(crate) failover_threshold: Key<Share<0, { 100 * PERCENT }>>,
    /// Time over which the weight of a server that came up rises to its full value; 0s switches it
    /// off. No effect with `lowest-latency`, which does not look at weights.
    #[schemars(extend("default" = "0s"))]
    pub(crate) slow_start: Key<TimeOrOff>,
    /// Active health checks. If omitted, every server counts as healthy.
    pub(crate) health: Key<Health>,
    /// Passive ejection: errors of real requests eject a server for some time; `false` switches it
    /// off.
    pub(crate) ejection: Key<TableOrFalse<Ejection>>,
    /// How long requests on a draining server may take: one that is removed from the file or its
    /// list, or whose weight becomes 0. The rest is then cut, tunnels and long streams too; 0s cuts
    /// at once. No limit if omitted.
    #[schemars(extend("examples" = ["1m"]))]
    pub(crate) drain_timeout: Key<TimeOrOff>,
    /// When a failed request may be retried on another server.
    pub(crate) retry: Key<Retry>,
    /// Timeouts towards servers.
    pub(crate) timeouts: Key<ServerTimeouts>,
    /// Where packets are forwarded by `nat`: how long after its end a connection keeps its port,
    /// without a packet. At least as long as clients and servers keep theirs in TIME_WAIT.
    #[schemars(extend("default" = "30s"))]
    pub(crate) fin_timeout: Key<Time>,
    /// Where packets are forwarded: how long an idle connection is remembered. At least as long as
    /// servers keep idle connections.
    #[schemars(extend("default" = "5m"))]
    pub(crate) stale_timeout: Key<Time>,
    /// TLS to the servers. Plain text if omitted.
    pub(crate) tls: Key<ServerTls>,
    /// PROXY protocol header sent first on each connection to a server, with the client's address.
    /// Off if omitted. HTTP then uses a connection for each request, since a keep-alive one would
    /// name the wrong client.
    pub(crate) send_proxy: Key<Text<Word<ProxyVersion>>>,
    /// HTTP version to the servers. With `2` many requests share a connection; health checks use it
    /// too.
    #[schemars(extend("default" = "1.1"))]
    pub(crate) http_version: Key<Text<Word<HttpVersion>>>,
    /// Idle connections that each worker keeps open to each server, with the TLS handshake done, so
    /// that no request waits for a handshake with a distant server. They are opened at start and
    /// after a reload, replaced when they close, and take at most half of `max_connections`. With
    /// http_version = "2" one is kept for any number above 0.
    #[schemars(extend("default" = 0))]
    pub(crate) prewarm: Key<Whole<0, 1000>>,
    /// Compresses responses for clients that accept it: `true` for the defaults, or a table.
    #[schemars(extend("default" = false))]
    pub(crate) compress: Key<TableOrSwitch<Compression>>,
    /// Maximum size of a response body, as the server sends it. A longer one gets 502; where it is
    /// known only later, the client's connection is cut there. No limit if omitted.
    pub(crate) max_response_body: Key<Size<0, { 1 << 50 }>>,
    /// Pages for errors that loadline tells clients of itself, as those of a listener.
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
    /// The header whose value is hashed; the client's address where a request has none.
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
    /// What happens to those that do not fit or waited too long.
    #[schemars(extend("default" = "shed"))]
    pub(crate) then: Key<Text<Word<Then>>>,
}

/// Passive ejection.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(crate) struct Ejection {
    /// Errors in a row that eject a server. A refused connection counts as that many.
    #[schemars(extend("default" = 3))]
    pub(crate) errors: Key<Whole<1, 1000>>,
    /// Time of the first ejection; doubled with each in a row, up to `time_max`. With health checks
    /// it also lasts until one has passed, or the server is down.
    #[schemars(extend("default" = "1s"))]
    pub(crate) time: Key<Time>,
    /// Maximum time of an ejection, at least `time`.
    #[schemars(extend("default" = "30s"))]
    pub(crate) time_max: Key<Time>,
    /// Maximum share of a service's servers that may be ejected at a time.
    #[schemars(extend("default" = "50%"))]
    pub(crate) share_max: Key<Share<0, { 100 * PERCENT }>>,
    /// A request that has waited so long counts as an error if its server sent no response to any
    /// request meanwhile; ten times the usual latency, or twice the longest of late, where that is
    /// more. 0s switches it off. Requests that may be repeated leave a server that is ejected so.
    #[schemars(extend("default" = "500ms"))]
    pub(crate) silence: Key<TimeOrOff>,
    /// By how much the share of 5xx among a server's responses may exceed that of the other servers
    /// of its group. Beyond that, and beyond chance, it is ejected; 100% switches it off.
    #[schemars(extend("default" = "25%"))]
    pub(crate) excess_5xx: Key<Share<PERCENT, { 100 * PERCENT }>>,
}

/// When a failed request may be retried.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(crate) struct Retry {
    /// Further attempts for one request; 0 switches retries off.
    #[schemars(extend("default" = 2))]
    pub(crate) attempts: Key<Whole<0, 3>>,
    /// Retries as a share of requests.
    #[schemars(extend("default" = "20%"))]
    pub(crate) budget: Key<Share<0, { 100 * PERCENT }>>,
    /// Retries that are always allowed, so that a quiet service can retry too.
    #[schemars(extend("default" = "10/s"))]
    pub(crate) min_rate: Key<AnyRate>,
    /// Responses that count as failures; "5xx" is the only value. Idempotent requests whose body is
    /// buffered then go to another server that has room at once; if none has, or all respond so,
    /// the client gets the last response.
    pub(crate) on: Key<Vec<Text<Word<Repeated>>>>,
}

/// A response for which a request goes to another server, if repeating it is safe.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Repeated {
    ServerErrors,
}

/// Timeouts towards servers; 0s switches one off.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(crate) struct ServerTimeouts {
    /// To open a connection; cannot be switched off.
    #[schemars(extend("default" = "3s"))]
    pub(crate) connect: Key<Time>,
    /// From the sent request to the response header.
    #[schemars(extend("default" = "60s"))]
    pub(crate) head: Key<TimeOrOff>,
    /// Time without a byte during a request or response.
    #[schemars(extend("default" = "60s"))]
    pub(crate) idle: Key<TimeOrOff>,
    /// Time that an unused connection is kept.
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
    /// Whether loadline discovers how many requests in flight the group can take before more bring
    /// no more responses, up to `max_in_flight` if that is set. For HTTP. If omitted, it does if
    /// neither the group nor its servers have another limit.
    pub(crate) capacity: Key<Text<Word<Found>>>,
    /// Requests per second for the group as a whole. No limit if omitted.
    pub(crate) max_rate: Key<PositiveRate>,
    /// Requests at once on top of an even `max_rate`; of 1, each that waits loses 1 to 2 ms of it.
    /// Default: 12, or the rate over 100 ms if more, and up to 128 where requests come in batches.
    pub(crate) burst: Key<Burst>,
    /// Requests in flight at a time for the group as a whole. No limit if omitted.
    pub(crate) max_in_flight: Key<InFlight>,
    /// Mean utilization of the group as its servers report it (ORCA `endpoint-load-metrics`). No
    /// limit if omitted.
    pub(crate) max_utilization: Key<Utilization>,
    /// The part of the capacity in use: 0 drains the group.
    #[schemars(extend("default" = 1.0))]
    pub(crate) scaler: Key<Number<Scaler>>,
    /// Limits of each server that does not set its own.
    pub(crate) per_server: Key<PerServer>,
    /// The servers: addresses, Unix sockets (`unix:/run/app.sock`, `unix:@name`), or tables with
    /// more settings. At least one.
    pub(crate) servers: Key<Vec<At<TextOr<ServerPlace, Server>>>>,
    /// Where the servers are listed, if they are not written here.
    pub(crate) discover: Key<Discover>,
    /// A store of objects that takes the place of the servers, for GET and HEAD: its URL, or a
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
    /// Requests per second. No limit if omitted.
    pub(crate) max_rate: Key<PositiveRate>,
    /// Requests that may come at once on top of an even `max_rate`. Default: 12, or the rate over
    /// 100 ms where that is more.
    pub(crate) burst: Key<Burst>,
    /// Requests in flight at a time. No limit if omitted.
    pub(crate) max_in_flight: Key<InFlight>,
    /// Utilization as the server reports it. No limit if omitted.
    pub(crate) max_utilization: Key<Utilization>,
    /// Connections at a time, over all workers. Beyond it a request goes to another server, or gets
    /// 503 where none has room; `max_in_flight` is the limit at which requests wait.
    #[schemars(extend("default" = 1024))]
    pub(crate) max_connections: Key<Connections>,
}

/// A server with settings besides its address.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[schemars(extend("required" = ["address"]))]
pub(crate) struct Server {
    /// Where it listens. A host name is resolved once, when the file is loaded.
    pub(crate) address: Key<Text<ServerPlace>>,
    /// Its share of the group's traffic, relative to the other servers; 0 drains it.
    #[schemars(extend("default" = 1))]
    pub(crate) weight: Key<Whole<0, 1000>>,
    /// Priority tier, the lowest first: a server takes part only while no server of the group with
    /// a lower value is healthy, so any value above 0 makes it a backup.
    #[schemars(extend("default" = 0))]
    pub(crate) priority: Key<Whole<0, 65535>>,
    /// Requests per second. Default: `per_server.max_rate` of the group.
    pub(crate) max_rate: Key<PositiveRate>,
    /// Requests that may come at once on top of an even `max_rate`. Default: `per_server.burst`.
    pub(crate) burst: Key<Burst>,
    /// Requests in flight at a time. Default: `per_server.max_in_flight`.
    pub(crate) max_in_flight: Key<InFlight>,
    /// Utilization as the server reports it. Default: `per_server.max_utilization`.
    pub(crate) max_utilization: Key<Utilization>,
    /// Connections at a time, over all workers. Default: `per_server.max_connections`.
    pub(crate) max_connections: Key<Connections>,
    /// Where packets are forwarded: the link address of the server, or of the router towards it.
    /// Default: as the kernel's neighbour table has it.
    pub(crate) mac: Key<Text<Mac>>,
    /// Where packets are forwarded: the `edge.quic_server_id` of the loadline at this address, so
    /// that its QUIC connections stay there when clients change their address.
    #[schemars(extend("examples" = [7]))]
    pub(crate) quic_server_id: Key<Whole<1, 65_535>>,
}

type Burst = Whole<1, 1_000_000>;
type InFlight = Whole<1, { u32::MAX }>;
type Utilization = Share<PERCENT, { 100 * PERCENT }>;
type Connections = Whole<1, 1_000_000>;
