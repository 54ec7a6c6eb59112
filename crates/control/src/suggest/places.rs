//! Where the file says what HAProxy, nginx, Envoy, Traefik and Caddy say by a key of theirs.

/// Keys of the file, and the tables that have all of them.
pub(super) struct Place {
    pub(super) tables: &'static [&'static str],
    pub(super) keys: &'static [&'static str],
    /// How they are written; empty where that is plain.
    pub(super) example: &'static str,
    /// What they are called elsewhere, in small letters with hyphens.
    words: &'static [&'static str],
}

/// The places of what is called `typed` elsewhere, the most likely one first.
pub(super) fn places(typed: &str) -> impl Iterator<Item = &'static Place> {
    let typed = hyphened(typed);
    PLACES.iter().filter(move |place| place.words.contains(&typed.as_str()))
}

/// Why the table `here` has nothing like `typed`.
pub(super) fn note(typed: &str, here: &str) -> Option<&'static str> {
    let typed = hyphened(typed);
    let is_it =
        |(table, words, _): &&(&str, &[&str], _)| *table == here && words.contains(&typed.as_str());
    NOTES.iter().find(is_it).map(|(.., note)| *note)
}

fn hyphened(typed: &str) -> String {
    typed.to_lowercase().replace(['_', ' '], "-")
}

const fn place(
    tables: &'static [&'static str],
    keys: &'static [&'static str],
    example: &'static str,
    words: &'static [&'static str],
) -> Place {
    Place { tables, keys, example, words }
}

pub(super) const PLACES: &[Place] = &[
    // Servers and where they are.
    place(
        &["service.NAME.group"],
        &["servers"],
        "",
        &[
            "servers", "server", "endpoints", "lb-endpoints", "targets", "members", "hosts",
            "nodes", "addresses", "instances",
        ],
    ),
    place(
        &["service.NAME.group"],
        &["region"],
        "",
        &["zone", "availability-zone", "locality", "datacenter", "dc"],
    ),
    place(&["service.NAME.group.servers"], &["priority"], "priority = 1", &["backup"]),
    place(&["listener.routes", "service.NAME.group.servers"], &["priority"], "", &["priority"]),
    // What may be asked of them.
    place(
        &["service.NAME"],
        &["policy"],
        "",
        &["balance", "lb-policy", "lb-algorithm", "algorithm", "load-balancing"],
    ),
    place(
        &["edge", "listener"],
        &["max_connections"],
        "",
        &["maxconn", "max-conn", "max-conns", "worker-connections"],
    ),
    place(
        &["service.NAME.group"],
        &["max_in_flight"],
        "",
        &["maxconn", "max-conn", "max-conns", "max-requests"],
    ),
    place(&["service.NAME.ejection"], &["errors"], "", &["max-fails"]),
    place(&["service.NAME.ejection"], &["time"], "", &["fail-timeout"]),
    // Times.
    place(&["listener", "service.NAME"], &["timeouts"], "", &["timeout", "timeouts"]),
    place(
        &["service.NAME.timeouts"],
        &["connect"],
        "",
        &["proxy-connect-timeout", "grpc-connect-timeout", "connect-timeout", "timeout-connect"],
    ),
    place(
        &["service.NAME.timeouts"],
        &["head", "idle"],
        "",
        &["proxy-read-timeout", "grpc-read-timeout", "timeout-server"],
    ),
    place(&["service.NAME.timeouts"], &["idle"], "", &["proxy-send-timeout", "grpc-send-timeout"]),
    place(
        &["listener.timeouts"],
        &["head"],
        "",
        &["client-header-timeout", "timeout-http-request", "read-header-timeout"],
    ),
    place(
        &["listener.timeouts"],
        &["idle"],
        "",
        &["client-body-timeout", "send-timeout", "timeout-client"],
    ),
    place(
        &["listener.timeouts", "service.NAME.timeouts"],
        &["keep_alive"],
        "",
        &["keepalive-timeout", "timeout-http-keep-alive"],
    ),
    // Requests and responses.
    place(
        &["listener.routes"],
        &["host"],
        "",
        &["server-name", "host", "vhost", "domain", "domains"],
    ),
    place(&["service.NAME.tls"], &["name"], "", &["server-name", "sni"]),
    place(
        &["listener.routes"],
        &["path"],
        "path = \"/api/\"",
        &["path", "path-prefix", "pathprefix", "path-beg", "uri-prefix", "prefix", "match"],
    ),
    place(
        &["cache.disk"],
        &["path"],
        "disk = { path = \"/var/cache/loadline\", size = \"20GiB\" }",
        &["path"],
    ),
    place(
        &["listener.routes"],
        &["path"],
        "path = \"~/users/[0-9]+\"",
        &["path-regex", "path-regexp", "path-reg", "uri-regex"],
    ),
    place(
        &["listener.routes"],
        &["source"],
        "source = \"10.0.0.0/8\", and deny = 403 in a route after it",
        &[
            "allow", "allowlist", "allow-list", "allowed-ips", "ip", "ips", "ip-allow-list",
            "ip-allowlist", "ip-whitelist", "whitelist", "from", "client", "client-ip",
            "remote-ip", "source-ip", "source-ranges",
        ],
    ),
    place(&["service.NAME.group.servers"], &["address"], "", &["ip", "ips"]),
    place(
        &["listener.routes"],
        &["answer"],
        "answer = { status = 503, body = \"back soon\" }",
        &["status", "body", "respond", "response", "static-response", "direct-response"],
    ),
    place(
        &["listener.routes"],
        &["answer"],
        "answer = { status = 503 }, or redirect = { location = \"https://www.example.com/\" }",
        &["return"],
    ),
    place(
        &["listener.routes"],
        &["split"],
        "split = { web = 95, canary = 5 }",
        &["weights", "weight", "weighted-clusters", "weighted-services", "canary"],
    ),
    place(
        &["service.NAME.group.servers"],
        &["weight"],
        "{ address = \"10.0.0.1:80\", weight = 5 }",
        &["weights", "weight"],
    ),
    place(
        &["listener.routes"],
        &["request_headers"],
        "request_headers = { set = { Host = \"www.example.com\" } }",
        &[
            "host-header", "host-rewrite", "upstream-host", "proxy-set-header", "set-header",
            "set-headers", "header-up",
        ],
    ),
    place(
        &["listener.routes"],
        &["answer_headers"],
        "answer_headers = { set = { X-Frame-Options = \"DENY\" } }",
        &["response-headers", "response-header", "add-header", "add-headers", "header-down"],
    ),
    place(
        &["listener.routes"],
        &["rewrite"],
        "rewrite = { prefix = \"/api/\", to = \"/\" }",
        &[
            "strip-prefix", "stripprefix", "prefix-rewrite", "path-rewrite", "replace-path",
            "handle-path",
        ],
    ),
    place(
        &["listener.routes"],
        &["limit"],
        "limit = { rate = \"10/s\" }",
        &["limit", "limit-req", "limit-req-zone", "rate-limit", "ratelimit", "throttle"],
    ),
    place(
        &["listener", "listener.routes"],
        &["max_body"],
        "",
        &[
            "client-max-body-size", "max-body-size", "max-request-body-size", "max-request-bytes",
            "body-limit",
        ],
    ),
    place(
        &["service.NAME"],
        &["compress"],
        "compress = true",
        &["gzip", "brotli", "compression", "encode"],
    ),
];

/// Words of others to which nothing corresponds in a table, and why.
pub(super) const NOTES: &[(&str, &[&str], &str)] = &[
    ("service.NAME.health", &["port", "address"], "a check goes to the address of its server"),
    (
        "service.NAME.health",
        &["type", "protocol", "kind", "mode"],
        "the kind of a check is its key: http = \"/\", tcp = true",
    ),
    (
        "service.NAME.health",
        &["status", "expected-status", "expect-status", "success-codes", "codes", "matcher"],
        "a response with 2xx or 3xx passes",
    ),
    (
        "service.NAME.health",
        &["header", "headers", "http-headers"],
        "of the headers of a check the host alone can be set: host = \"www.example.com\"",
    ),
    ("service.NAME.health", &["method"], "a check by `http` is a GET"),
    ("service.NAME.maintenance", STATUS, "clients of a service in maintenance get 503"),
    ("listener.routes.limit", STATUS, "a request above the limit gets 429"),
    (
        "listener.routes.redirect",
        &["port"],
        "the port stands in `host`: host = \"www.example.com:8443\"",
    ),
    (
        "listener.routes.redirect",
        &["to", "url", "uri", "target"],
        "a whole URL is `location`: location = \"https://www.example.com/\"",
    ),
    (
        "listener.routes.redirect",
        &["path", "prefix", "regex"],
        "the path is changed by `rewrite`: rewrite = { prefix = \"/a/\", to = \"/b/\" }",
    ),
    ("listener.routes", &["headers"], HEADERS_CHANGED),
    ("listener", &["header", "headers"], HEADERS_CHANGED),
    ("service.NAME", &["header", "headers"], HEADERS_CHANGED),
    ("listener", WEBSOCKET, WEBSOCKET_PASSES),
    ("listener.routes", WEBSOCKET, WEBSOCKET_PASSES),
    ("service.NAME", WEBSOCKET, WEBSOCKET_PASSES),
    ("cache", KEPT, KEPT_BY),
    ("listener.routes.cache", KEPT, KEPT_BY),
];

const STATUS: &[&str] = &["status", "code", "status-code"];

const HEADERS_CHANGED: &str = "routes change headers: request_headers or answer_headers = { set = \
                               { NAME = \"...\" } }; `header` of a route is a condition";

const WEBSOCKET: &[&str] = &["websocket", "websockets", "upgrade", "upgrade-configs"];

const WEBSOCKET_PASSES: &str = "a WebSocket passes without a key of its own";

const KEPT: &[&str] = &["ttl", "max-age", "expires", "default-ttl", "valid", "proxy-cache-valid"];

const KEPT_BY: &str = "servers say in `Cache-Control` how long a response is kept";
