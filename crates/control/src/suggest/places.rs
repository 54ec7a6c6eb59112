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
            "servers",
            "server",
            "endpoints",
            "lb-endpoints",
            "targets",
            "members",
            "hosts",
            "nodes",
            "addresses",
            "instances",
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
        &["path-prefix", "pathprefix", "path-beg", "uri-prefix"],
    ),
    place(
        &["listener.routes"],
        &["rewrite"],
        "rewrite = { prefix = \"/api/\", to = \"/\" }",
        &[
            "strip-prefix",
            "stripprefix",
            "prefix-rewrite",
            "path-rewrite",
            "replace-path",
            "handle-path",
        ],
    ),
    place(
        &["listener.routes"],
        &["limit"],
        "limit = { rate = \"10/s\" }",
        &["limit-req", "limit-req-zone", "rate-limit", "ratelimit", "throttle"],
    ),
    place(
        &["listener", "listener.routes"],
        &["max_body"],
        "",
        &[
            "client-max-body-size",
            "max-body-size",
            "max-request-body-size",
            "max-request-bytes",
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
    ("cache", KEPT, KEPT_BY),
    ("listener.routes.cache", KEPT, KEPT_BY),
];

const KEPT: &[&str] = &["ttl", "max-age", "expires", "default-ttl", "valid", "proxy-cache-valid"];

const KEPT_BY: &str = "servers say in `Cache-Control` how long a response is kept";
