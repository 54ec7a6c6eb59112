//! The file as it is written: every key, its meaning, its range, its default.
//!
//! These types are what the JSON Schema and `docs/configuration.md` are made of, so the first
//! paragraph of each comment is written for whoever writes the file. They know nothing of what
//! keys mean together; `assemble` does. Every key may be absent here, so that one error does not
//! hide the next.

mod access_log;
mod admin;
mod discover;
mod health;
mod l4;
mod manager;
mod routes;
mod standby;
mod sticky;
mod stream;
mod tls;
mod tracing;

use loadline_core::fleet::{
    Class, Forwarded, HashKey, HttpVersion, Overflow, PolicyKind, ProxyVersion, Then,
    UnderscoreHeaders, WhenFull,
};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{
    place::{At, Key, Named},
    value::{
        address::{Bind, Place},
        either::{TableOrFalse, TextOr},
        label::{FilePath, HeaderName, LogPlace, Name},
        link::Mac,
        number::{Number, Scaler, Whole},
        pattern::{NetworkRange, OneOrMore},
        quantity::{AnyRate, PERCENT, PositiveBitRate, PositiveRate, Share, Size, Time, TimeOrOff},
        text::Text,
        word::Word,
    },
};

pub(crate) use access_log::AccessLog;
pub(crate) use admin::Admin;
pub(crate) use discover::{Discover, Dns};
pub(crate) use health::{Health, Step};
pub(crate) use l4::{Forward, L4, Spoken};
pub(crate) use manager::Manager;
pub(crate) use routes::{HeaderEdits, Limit, Mirror, PathChange, Redirect, Route, Scheme};
pub(crate) use standby::Standby;
pub(crate) use sticky::Sticky;
pub(crate) use stream::NamedService;
pub(crate) use tls::{Certificate, ListenerTls, ServerTls};
pub(crate) use tracing::Tracing;

/// A configuration of loadline.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[schemars(title = "loadline", extend("required" = ["listener", "service"]))]
pub(crate) struct File {
    /// The process that takes traffic.
    pub(crate) edge: Key<Edge>,
    /// Metrics, API and dashboard, on an address apart. There are none if omitted.
    pub(crate) admin: Key<Admin>,
    /// Who is asked for names, for groups with `discover`.
    pub(crate) dns: Key<Dns>,
    /// Spans of requests for a collector. There are none if omitted.
    pub(crate) tracing: Key<Tracing>,
    /// Packet forwarding by the kernel, for listeners with `forward`.
    pub(crate) l4: Key<L4>,
    /// The places servers are in, and how far they are from each other.
    pub(crate) regions: Key<Named<Region>>,
    /// Where traffic comes in. At least one.
    pub(crate) listener: Key<Vec<At<Listener>>>,
    /// Where traffic goes, by name. At least one.
    pub(crate) service: Key<Named<Service>>,
}

/// The process that takes traffic.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(crate) struct Edge {
    /// The region this process is in. Needed where groups are in more than one region; the
    /// region of all groups otherwise, `local` where they name none.
    pub(crate) region: Key<Text<Name>>,
    /// Worker threads, each with its own listeners and server connections; 0 is one per core.
    #[schemars(extend("default" = 0))]
    pub(crate) threads: Key<Whole<0, 1024>>,
    /// A line for each request; none are written if omitted. A text says where they go, a table
    /// more. A change needs a restart.
    pub(crate) access_log: Key<TextOr<LogPlace, AccessLog>>,
    /// How long a drain waits for requests in flight before it cuts them; 0s cuts at once.
    #[schemars(extend("default" = "30s"))]
    pub(crate) drain_timeout: Key<TimeOrOff>,
    /// Client connections at a time, over all listeners; further ones wait until one ends. As many
    /// as the listeners allow if omitted.
    #[schemars(extend("examples" = [20000]))]
    pub(crate) max_connections: Key<Whole<1, 10_000_000>>,
    /// The user to go on as once every address is bound, so that it need not be root. The user
    /// who started it if omitted. A change needs a restart.
    #[schemars(extend("examples" = ["loadline"]))]
    pub(crate) user: Key<Text<Name>>,
    /// The group to go on as; that of `user` if omitted. A change needs a restart.
    #[schemars(extend("examples" = ["loadline"]))]
    pub(crate) group: Key<Text<Name>>,
    /// The path of a Unix socket for `loadline upgrade`, which its owner and root alone may use.
    /// There is none if omitted. A change needs a restart.
    #[schemars(extend("examples" = ["/run/loadline/control.sock"]))]
    pub(crate) control: Key<Text<FilePath>>,
    /// A file with the id of the process, for as long as it runs; there is none if omitted. After
    /// an upgrade it has that of the new process. A change needs a restart.
    #[schemars(extend("examples" = ["/run/loadline/loadline.pid"]))]
    pub(crate) pid_file: Key<Text<FilePath>>,
}

/// A place servers are in.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(crate) struct Region {
    /// Round-trip times to other regions, by name. Either of two regions may give it. Health
    /// checks measure what the file does not say.
    #[schemars(extend("examples" = [{ "europe-west3": "110ms" }]))]
    pub(crate) rtt: Key<Named<TimeOrOff>>,
}

/// An address that takes traffic for one service.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[schemars(extend("required" = ["bind", "service"]))]
pub(crate) struct Listener {
    /// The address to bind. A port alone, `:8080`, is every IPv4 address of the machine.
    pub(crate) bind: Key<Text<Bind>>,
    /// What is spoken there; `tcp` where packets are forwarded and nothing is said.
    #[schemars(extend("default" = "http"))]
    pub(crate) protocol: Key<Text<Word<Spoken>>>,
    /// How traffic reaches the servers. Every way but `proxy` forwards packets unread, which needs
    /// the table `[l4]` and a whole address in `bind`; `protocol` is `tcp` or `udp` then, and no
    /// key but `bind`, `protocol` and `service` makes sense. Servers are chosen by Maglev with
    /// their weights, in the nearest group that has any; `policy`, capacities and `when_full` are
    /// for requests.
    #[schemars(extend("default" = "proxy"))]
    pub(crate) forward: Key<Text<Word<Forward>>>,
    /// The name of the service that gets the traffic, or what of it no route is for.
    pub(crate) service: Key<Text<Name>>,
    /// Routes, of which the first that matches decides about a request.
    pub(crate) routes: Key<Vec<At<Route>>>,
    /// Services by the server name that clients ask for, for the protocol `tls-passthrough`;
    /// `service` gets whatever none of them names.
    pub(crate) names: Key<Vec<At<NamedService>>>,
    /// Whether every connection has to begin with a header of the PROXY protocol, version 1 or 2,
    /// which tells whose it is. Whoever reaches this address is trusted.
    #[schemars(extend("default" = false))]
    pub(crate) accept_proxy: Key<bool>,
    /// Client connections at a time; further ones wait in the kernel's backlog.
    #[schemars(extend("default" = 10000))]
    pub(crate) max_connections: Key<Whole<1, 1_000_000>>,
    /// How long clients may take.
    pub(crate) timeouts: Key<ClientTimeouts>,
    /// How large a head may be, of requests and of responses.
    pub(crate) limits: Key<HeadLimits>,
    /// The one version of HTTP that is spoken. Both are if omitted: over TLS the client chooses
    /// by ALPN, in clear by how it begins.
    pub(crate) http_version: Key<Text<Word<HttpVersion>>>,
    /// What clients may do with HTTP/2.
    pub(crate) http2: Key<Http2Limits>,
    /// Which headers tell the server about the client.
    #[schemars(extend("default" = "x-forwarded"))]
    pub(crate) forwarded: Key<Text<Word<Forwarded>>>,
    /// Proxies in front, whose word is taken: `X-Forwarded-For`, `-Proto`, `-Host` and whatever
    /// else begins so, `X-Real-IP` and `Forwarded` stay as they say, lists extended, and the client
    /// that they name is the client in logs, rules, limits and hashes. From anybody else these
    /// headers are replaced, or left out. With `accept_proxy` it is the address in the PROXY header
    /// that has to be one of these.
    pub(crate) trusted_proxies: Key<OneOrMore<NetworkRange>>,
    /// What becomes of header names with an underscore, which some servers take for a hyphen:
    /// `Content_Length` for `Content-Length`.
    #[schemars(extend("default" = "drop"))]
    pub(crate) underscore_headers: Key<Text<Word<UnderscoreHeaders>>>,
    /// TLS, for the protocols `https` and `tls`.
    pub(crate) tls: Key<ListenerTls>,
}

/// How long clients may take; 0s switches a limit off.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(crate) struct ClientTimeouts {
    /// From the first byte of a head, or from the accept, to its last byte; the same for the first
    /// message of TLS and the header of the PROXY protocol.
    #[schemars(extend("default" = "10s"))]
    pub(crate) head: Key<TimeOrOff>,
    /// Without a byte in either direction while a message is under way. Where it is not HTTP that
    /// is spoken, the shorter of this and the service's holds for the whole connection.
    #[schemars(extend("default" = "60s"))]
    pub(crate) idle: Key<TimeOrOff>,
    /// Between two requests of a kept connection.
    #[schemars(extend("default" = "60s"))]
    pub(crate) keep_alive: Key<TimeOrOff>,
    /// The slowest a body may come: it may take as long as `head` says and as its bytes take at
    /// this rate, without the time that it waits for the server. Absent, only `idle` bounds it, for
    /// a stream (gRPC, events) may be silent for long; where there are none, 2kb/s is good.
    pub(crate) body_rate: Key<PositiveBitRate>,
}

/// How large a head may be, of requests and of responses.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(crate) struct HeadLimits {
    /// The whole head.
    #[schemars(extend("default" = "16KiB"))]
    pub(crate) size: Key<HeadSize>,
    /// Header fields.
    #[schemars(extend("default" = 100))]
    pub(crate) fields: Key<Whole<1, 1000>>,
}

/// What a client may do on one connection of HTTP/2. How large its heads may be is said by
/// `limits`, for both versions.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(crate) struct Http2Limits {
    /// Streams at a time; further ones are refused.
    #[schemars(extend("default" = 100))]
    pub(crate) streams: Key<Whole<1, 10_000>>,
    /// What a client may send on a stream before the server has taken it.
    #[schemars(extend("default" = "256KiB"))]
    pub(crate) window: Key<Size<1024, { 1 << 30 }>>,
    /// The same for all streams of a connection together.
    #[schemars(extend("default" = "1MiB"))]
    pub(crate) connection_window: Key<Size<65_536, { 1 << 30 }>>,
    /// Streams that a client may take back before they are answered, in the long run; ten seconds'
    /// worth at once. More end the connection, if they are more than half of all it had.
    #[schemars(extend("default" = "20/s"))]
    pub(crate) resets: Key<PositiveRate>,
}

/// From 256 B, which fits a request line and a Host, to 1 MiB.
type HeadSize = Size<256, { 1 << 20 }>;

/// What clients reach: groups of servers, a policy, health checks and overload rules.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[schemars(extend("required" = ["group"]))]
pub(crate) struct Service {
    /// How a server is chosen inside a group.
    #[schemars(extend("default" = PolicyKind::DEFAULT.name()))]
    pub(crate) policy: Key<Text<Word<PolicyKind>>>,
    /// What the policies `maglev` and `bounded-hash` hash.
    #[schemars(extend("default" = "client-address"))]
    pub(crate) hash: Key<TextOr<Word<HashKey>, HashHeader>>,
    /// How the policy `managed` makes weights.
    pub(crate) manager: Key<Manager>,
    /// What keeps the requests of a session on one server. Nothing does if omitted.
    pub(crate) sticky: Key<Sticky>,
    /// How much requests matter for which no route says it, where not all can be served: waiting
    /// ones of a higher class go first, and take the places of lower ones in a full queue.
    #[schemars(extend("default" = "normal"))]
    pub(crate) class: Key<Text<Word<Class>>>,
    /// When a request leaves the near group. `soonest` needs `max_rate` or `max_in_flight` on a
    /// group or on its servers.
    #[schemars(extend("default" = "capacity"))]
    pub(crate) overflow: Key<Text<Word<Overflow>>>,
    /// What happens when every group is full: a word, or a table for a queue.
    #[schemars(extend("default" = { "queue": "1s", "length": 200, "then": "shed" }))]
    pub(crate) when_full: Key<TextOr<Word<WhenFull>, Queue>>,
    /// Healthy share of a group's servers below which it yields to the next group.
    #[schemars(extend("default" = "70%"))]
    pub(crate) failover_threshold: Key<Share<0, { 100 * PERCENT }>>,
    /// Time over which a server that came up gets its full weight; 0s switches it off.
    #[schemars(extend("default" = "0s"))]
    pub(crate) slow_start: Key<TimeOrOff>,
    /// Active checks. Every server counts as healthy if omitted.
    pub(crate) health: Key<Health>,
    /// Passive ejection: errors of real requests take a server out for a while; `false`
    /// switches it off.
    pub(crate) ejection: Key<TableOrFalse<Ejection>>,
    /// How long what is under way with a server may go on that is given nothing more: one that
    /// leaves the file or its list, or whose weight becomes 0. What is left is then cut, tunnels
    /// and long streams too; 0s cuts at once. It may go on for ever if omitted.
    #[schemars(extend("examples" = ["1m"]))]
    pub(crate) drain_timeout: Key<TimeOrOff>,
    /// When a failed request may be sent again, to another server.
    pub(crate) retry: Key<Retry>,
    /// How long servers may take.
    pub(crate) timeouts: Key<ServerTimeouts>,
    /// Where packets are forwarded by `nat`: how long after its end a connection keeps its port,
    /// without a packet. At least as long as clients and servers keep theirs in TIME_WAIT.
    #[schemars(extend("default" = "30s"))]
    pub(crate) fin_timeout: Key<Time>,
    /// Where packets are forwarded: how long a connection may be silent and still be known. At
    /// least as long as servers keep idle connections.
    #[schemars(extend("default" = "5m"))]
    pub(crate) stale_timeout: Key<Time>,
    /// TLS towards the servers. In clear if omitted.
    pub(crate) tls: Key<ServerTls>,
    /// The header of the PROXY protocol that begins each connection to a server and tells it whose
    /// it is. None if omitted. HTTP then takes a connection for each request, since a kept one
    /// would tell the wrong client.
    pub(crate) send_proxy: Key<Text<Word<ProxyVersion>>>,
    /// What is spoken with the servers, where it is HTTP. Over `2` many requests share a
    /// connection; health checks speak it too.
    #[schemars(extend("default" = "1.1"))]
    pub(crate) http_version: Key<Text<Word<HttpVersion>>>,
    /// Connections that each worker keeps open and unused to each server, with TLS agreed on, so
    /// that no request waits for a handshake with a server that is far away. They are opened at
    /// start and after a reload, replaced when they close, and take at most half of
    /// `max_connections`. With http_version = "2" one is kept for any number above 0.
    #[schemars(extend("default" = 0))]
    pub(crate) prewarm: Key<Whole<0, 1000>>,
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
    /// The longest wait of one request.
    pub(crate) queue: Key<Time>,
    /// The most requests that wait at a time.
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
    /// The first time out; doubled with each ejection in a row, up to `time_max`. With checks
    /// also until one has passed, or the server is down.
    #[schemars(extend("default" = "1s"))]
    pub(crate) time: Key<Time>,
    /// The longest time out, at least `time`.
    #[schemars(extend("default" = "30s"))]
    pub(crate) time_max: Key<Time>,
    /// The largest share of a service's servers that may be out by ejection.
    #[schemars(extend("default" = "50%"))]
    pub(crate) share_max: Key<Share<0, { 100 * PERCENT }>>,
    /// A request that has waited so long, or ten times the usual latency where that is more,
    /// counts as an error if its server answered nobody meanwhile; 0s switches it off. Requests
    /// that may be repeated leave a server that is ejected for that.
    #[schemars(extend("default" = "500ms"))]
    pub(crate) silence: Key<TimeOrOff>,
    /// By how much the share of 5xx among a server's responses may exceed that of the other servers
    /// of its group. Beyond that, and beyond chance, it is ejected; 100% switches it off.
    #[schemars(extend("default" = "25%"))]
    pub(crate) excess_5xx: Key<Share<PERCENT, { 100 * PERCENT }>>,
}

/// When a failed request may be sent again.
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
    /// Responses that are failures too, of which there is one: "5xx". Idempotent requests whose
    /// body is at hand then go to another server that has room at once; where none has, and where
    /// all answer so, the client is given the last response.
    pub(crate) on: Key<Vec<Text<Word<Repeated>>>>,
}

/// A response for which a request goes to another server, if repeating it is safe.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Repeated {
    ServerErrors,
}

/// How long servers may take; 0s switches a limit off.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(crate) struct ServerTimeouts {
    /// To open a connection; cannot be switched off.
    #[schemars(extend("default" = "3s"))]
    pub(crate) connect: Key<Time>,
    /// From the sent request to the head of the response.
    #[schemars(extend("default" = "60s"))]
    pub(crate) head: Key<TimeOrOff>,
    /// Without a byte while a message is under way.
    #[schemars(extend("default" = "60s"))]
    pub(crate) idle: Key<TimeOrOff>,
    /// A kept connection without use.
    #[schemars(extend("default" = "30s"))]
    pub(crate) keep_alive: Key<TimeOrOff>,
}

/// The servers of one service in one region: either `servers` or `discover`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[schemars(extend("oneOf" = [{ "required": ["servers"] }, { "required": ["discover"] }]))]
pub(crate) struct Group {
    /// Where the group is; the region of the edge if omitted.
    pub(crate) region: Key<Text<Name>>,
    /// A name that is unique in the service; the name of the region if omitted.
    pub(crate) name: Key<Text<Name>>,
    /// Round-trip time from this edge to the group; the distance of its region if omitted.
    pub(crate) rtt: Key<TimeOrOff>,
    /// Whether it is found how many requests the group can have in flight before more bring no more
    /// answers, up to `max_in_flight` where that is given. For HTTP. If omitted it is found if no
    /// other limit is given for the group or its servers.
    pub(crate) capacity: Key<Text<Word<Found>>>,
    /// Requests per second for the group as a whole. Not limited if omitted.
    pub(crate) max_rate: Key<PositiveRate>,
    /// Requests that may come at once on top of an even `max_rate`; 12 if omitted, or the rate
    /// over 100 ms where that is more, and up to 128 where requests come in batches.
    pub(crate) burst: Key<Burst>,
    /// Requests in flight at a time for the group as a whole. Not limited if omitted.
    pub(crate) max_in_flight: Key<InFlight>,
    /// Mean utilization of the group as its servers report it (ORCA `endpoint-load-metrics`).
    /// Not limited if omitted.
    pub(crate) max_utilization: Key<Utilization>,
    /// The part of the capacity in use: 0 drains the group.
    #[schemars(extend("default" = 1.0))]
    pub(crate) scaler: Key<Number<Scaler>>,
    /// Limits of each server that does not set its own.
    pub(crate) per_server: Key<PerServer>,
    /// The servers: addresses, or tables that say more. At least one.
    pub(crate) servers: Key<Vec<At<TextOr<Place, Server>>>>,
    /// Where the servers are listed, if they are not written here.
    pub(crate) discover: Key<Discover>,
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
    /// Requests per second. Not limited if omitted.
    pub(crate) max_rate: Key<PositiveRate>,
    /// Requests that may come at once on top of an even `max_rate`; 12 if omitted, or the rate
    /// over 100 ms where that is more.
    pub(crate) burst: Key<Burst>,
    /// Requests in flight at a time. Not limited if omitted.
    pub(crate) max_in_flight: Key<InFlight>,
    /// Utilization as the server reports it. Not limited if omitted.
    pub(crate) max_utilization: Key<Utilization>,
    /// Connections at a time, over all workers.
    #[schemars(extend("default" = 1024))]
    pub(crate) max_connections: Key<Connections>,
}

/// A server that says more than its address.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[schemars(extend("required" = ["address"]))]
pub(crate) struct Server {
    /// Where it listens. A host name is resolved once, when the file is loaded.
    pub(crate) address: Key<Text<Place>>,
    /// Its share of the group's traffic, relative to the other servers; 0 drains it.
    #[schemars(extend("default" = 1))]
    pub(crate) weight: Key<Whole<0, 1000>>,
    /// The lower the earlier: it takes part only while no server of the group with a lower one is
    /// healthy, so that any above 0 is a backup.
    #[schemars(extend("default" = 0))]
    pub(crate) priority: Key<Whole<0, 65535>>,
    /// Requests per second; `per_server.max_rate` of the group if omitted.
    pub(crate) max_rate: Key<PositiveRate>,
    /// Requests that may come at once on top of an even `max_rate`; `per_server.burst` if
    /// omitted.
    pub(crate) burst: Key<Burst>,
    /// Requests in flight at a time; `per_server.max_in_flight` if omitted.
    pub(crate) max_in_flight: Key<InFlight>,
    /// Utilization as the server reports it; `per_server.max_utilization` if omitted.
    pub(crate) max_utilization: Key<Utilization>,
    /// Connections at a time, over all workers; `per_server.max_connections` if omitted.
    pub(crate) max_connections: Key<Connections>,
    /// Where packets are forwarded: the link address of the server, or of the router towards it.
    /// The kernel's table of neighbours is asked if omitted.
    pub(crate) mac: Key<Text<Mac>>,
}

type Burst = Whole<1, 1_000_000>;
type InFlight = Whole<1, { u32::MAX }>;
type Utilization = Share<PERCENT, { 100 * PERCENT }>;
type Connections = Whole<1, 1_000_000>;
