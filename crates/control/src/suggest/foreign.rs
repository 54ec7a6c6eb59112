//! What HAProxy, nginx, Envoy and other load balancers call what the file has another name for.

/// Each name of the file that `typed` stands for elsewhere, and what has to be said with it.
pub(super) fn meanings(typed: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let typed = typed.to_lowercase().replace(['_', ' '], "-");
    let means = move |(.., words): &&(_, _, &[&str])| words.contains(&typed.as_str());
    WORDS.iter().filter(means).map(|(ours, with, _)| (*ours, *with))
}

/// Ours, what has to be said with it, and theirs in small letters with hyphens. A name that means
/// several things is in several rows: the first that may stand at a place is the one.
const WORDS: &[(&str, &str, &[&str])] = &[
    // Policies.
    ("round-robin", "", &["roundrobin", "static-rr", "rr", "wrr", "weighted-round-robin"]),
    (
        "least-requests",
        "",
        &[
            "leastconn", "least-conn", "least-connections", "least-request", "lc", "wlc",
            "least-outstanding-requests", "least-loaded", "fewest", "weighted-least-request",
        ],
    ),
    ("least-requests", "with a `priority` for each of its servers", &["first"]),
    ("least-requests", "and a table `sticky`", &["sticky"]),
    (
        "power-of-two",
        "",
        &[
            "p2c", "random(2)", "random-two", "random-two-least-conn", "two-choices",
            "power-of-two-choices",
        ],
    ),
    ("lowest-latency", "", &["least-time", "leasttime", "least-response-time", "fastest"]),
    ("peak-ewma", "", &["ewma", "p2c-ewma"]),
    ("random", "", &["random-choose", "random-choice", "rand"]),
    (
        "maglev",
        "with hash = \"client-address\"",
        &["source", "ip-hash", "iphash", "client-ip-hash", "source-ip", "sh", "src"],
    ),
    ("maglev", "", &["maglev-hash"]),
    ("maglev", "with hash = { header = \"host\" }", &["hdr(host)"]),
    ("maglev", "with hash = \"path\"", &["uri", "uri-hash", "url-hash"]),
    (
        "maglev",
        "with hash = { header = \"...\" }",
        &["hdr", "header", "header-hash", "url-param", "cookie", "rdp-cookie"],
    ),
    (
        "bounded-hash",
        "",
        &["hash", "ring-hash", "ringhash", "consistent", "consistent-hash", "chash", "ketama"],
    ),
    // What is hashed.
    (
        "client-address",
        "",
        &[
            "source", "src", "ip", "ip-hash", "client-ip", "source-ip", "remote-addr",
            "$remote-addr", "$binary-remote-addr",
        ],
    ),
    ("path", "", &["uri", "url", "$request-uri", "$uri"]),
    // Who may ask.
    ("basic_auth", "", &["auth-basic", "basicauth", "basic-auth", "http-auth", "auth"]),
    ("jwt", "", &["auth-jwt", "jwt-authn", "jwt-verify", "jwt-auth", "jwtauth", "oidc"]),
    (
        "keys",
        "",
        &[
            "auth-jwt-key-file", "auth-jwt-key-request", "remote-jwks", "local-jwks", "jwks",
            "jwks-uri",
        ],
    ),
    ("users_file", "", &["auth-basic-user-file", "usersfile", "htpasswd", "userlist"]),
    // Variables.
    ("client_address", "", &["remote-addr", "binary-remote-addr", "realip-remote-addr", "ip"]),
    ("client_port", "", &["remote-port", "src-port"]),
    ("client_certificate", "", &["ssl-client-s-dn", "ssl-c-s-dn"]),
    ("host", "", &["http-host", "authority"]),
    ("method", "", &["request-method"]),
    ("path", "", &["uri", "document-uri", "request-uri"]),
    ("query", "", &["args", "query-string"]),
    ("request_id", "", &["unique-id", "uuid", "x-request-id"]),
    ("user", "", &["remote-user", "http-auth-user"]),
    ("server_name", "", &["ssl-server-name", "ssl-fc-sni", "sni"]),
    ("tls_cipher", "", &["ssl-cipher", "ssl-fc-cipher"]),
    ("tls_version", "", &["ssl-protocol", "ssl-fc-protocol"]),
    // Protocols.
    ("http", "", &["http1", "http2", "http/1.1", "http/2", "h2", "h2c", "grpc", "ws", "websocket"]),
    ("https", "", &["wss", "grpcs", "h2s"]),
    ("tcp", "", &["stream", "l4", "raw"]),
    ("tls", "", &["ssl", "tls-termination", "tls-terminate"]),
    ("tls-passthrough", "", &["passthrough", "ssl-passthrough", "sni"]),
    // Tables of the file.
    (
        "listener",
        "",
        &[
            "frontend", "frontends", "entrypoint", "entrypoints", "entry-points", "listen",
            "server", "http", "stream", "virtual-host",
        ],
    ),
    (
        "service",
        "",
        &[
            "backend", "backends", "upstream", "upstreams", "cluster", "clusters", "pool", "pools",
            "default-backend", "use-backend", "proxy-pass", "target", "route-to",
        ],
    ),
    ("edge", "", &["global", "defaults", "process", "main", "worker", "node"]),
    ("admin", "", &["stats", "metrics", "prometheus", "api", "dashboard", "status"]),
    ("dns", "", &["resolver", "resolvers"]),
    ("tracing", "", &["opentelemetry", "otel", "otlp", "jaeger", "zipkin"]),
    // Keys of the edge.
    ("threads", "", &["nbthread", "nbproc", "worker-processes", "workers", "concurrency"]),
    (
        "max_connections",
        "",
        &["maxconn", "max-conn", "max-conns", "worker-connections", "connection-limit"],
    ),
    ("max_connections_per_client", "", &["limit-conn", "src-conn-cur", "max-conns-per-ip"]),
    ("pid_file", "", &["pid", "pidfile"]),
    ("access_log", "", &["log", "accesslog", "log-file", "logging", "httplog"]),
    ("drain_timeout", "", &["hard-stop-after", "worker-shutdown-timeout", "drain-time", "grace"]),
    ("user", "", &["uid", "run-as"]),
    ("group", "", &["gid"]),
    // Keys of a listener.
    ("bind", "", &["listen", "address", "addr", "port", "listen-address", "socket-address"]),
    ("protocol", "", &["mode", "proto", "type", "scheme"]),
    (
        "tls",
        "",
        &["ssl", "https", "certificate", "certificates", "cert", "crt", "transport-socket"],
    ),
    ("routes", "", &["acl", "location", "locations", "rules", "virtual-hosts", "paths"]),
    ("accept_proxy", "", &["proxy-protocol", "proxyprotocol", "accept-proxy-protocol"]),
    ("send_proxy", "", &["proxy-protocol", "send-proxy-v2", "send-proxy-protocol"]),
    ("trusted_proxies", "", &["set-real-ip-from", "real-ip-from", "forwardedfor", "trusted-ips"]),
    ("http_version", "", &["alpn", "http2", "h2", "proxy-http-version", "proto"]),
    (
        "timeouts",
        "",
        &["timeout", "connect-timeout", "timeout-client", "timeout-server", "idle-timeout"],
    ),
    ("limits", "", &["max-header-size", "large-client-header-buffers", "bufsize"]),
    (
        "head",
        "",
        &[
            "http-request", "timeout-http-request", "client-header-timeout", "read-header",
            "response", "server", "client",
        ],
    ),
    ("keep_alive", "", &["keepalive", "keepalive-timeout", "http-keep-alive"]),
    ("idle", "", &["read", "send", "tunnel", "idle-timeout"]),
    ("connect", "", &["connect-timeout", "proxy-connect-timeout"]),
    // Keys of a service.
    (
        "policy",
        "",
        &[
            "balance", "balancer", "algorithm", "lb", "lb-policy", "lb-algorithm", "lb-method",
            "load-balancing", "strategy", "method", "least-conn", "ip-hash",
        ],
    ),
    ("hash", "", &["hash-on", "hash-key", "hash-policy", "hash-type"]),
    (
        "health",
        "",
        &[
            "check", "checks", "health-check", "healthcheck", "health-checks", "httpchk",
            "option-httpchk", "tcp-check", "active-health", "probe",
        ],
    ),
    ("group", "", &["groups", "backends", "locality", "load-assignment"]),
    (
        "ejection",
        "",
        &["outlier-detection", "outlier", "observe", "passive-health", "circuit-breaker"],
    ),
    (
        "retry",
        "",
        &[
            "retries", "retry-policy", "retry-on", "num-retries", "redispatch",
            "proxy-next-upstream",
        ],
    ),
    ("sticky", "", &["stick", "stick-table", "stickiness", "session", "affinity", "cookie"]),
    ("when_full", "", &["queue", "timeout-queue", "overload", "overflow-action"]),
    ("prewarm", "", &["keepalive", "preconnect", "min-idle", "idle-connections"]),
    ("class", "", &["priority", "priority-class"]),
    // Keys of groups and servers.
    (
        "servers",
        "",
        &[
            "server", "endpoints", "lb-endpoints", "targets", "members", "hosts", "nodes",
            "backends", "backend", "instances", "upstream", "upstreams", "addresses",
        ],
    ),
    (
        "max_in_flight",
        "",
        &[
            "max-requests", "max-concurrency", "concurrency", "concurrent", "limit",
            "max-connections", "maxconn", "max-inflight", "in-flight",
        ],
    ),
    (
        "max_rate",
        "",
        &["rate", "rps", "qps", "rate-limit", "max-rps", "max-qps", "max-rate-per-instance"],
    ),
    ("scaler", "", &["capacity-scaler"]),
    ("region", "", &["zone", "locality", "location", "datacenter", "dc", "site"]),
    ("rtt", "", &["latency", "distance", "ping"]),
    ("discover", "", &["discovery", "eds", "sd", "resolve", "srv", "dns", "service-discovery"]),
    ("address", "", &["addr", "host", "ip", "url", "endpoint", "port", "hostname"]),
    ("weight", "= 0", &["disabled", "down", "drain"]),
    ("priority", "= 1", &["backup"]),
    // Keys of checks.
    ("http", "", &["path", "uri", "url", "http-path", "httpchk", "http-health-check", "request"]),
    ("grpc", "= true", &["grpc-health-check", "grpc-service", "grpc-check", "service-name"]),
    ("tcp", "= true", &["tcp-check", "tcp-health-check", "connect"]),
    ("rise", "", &["passes", "healthy-threshold", "success-threshold", "successes", "healthy"]),
    (
        "fall",
        "",
        &[
            "fails", "unhealthy-threshold", "failure-threshold", "failures", "unhealthy",
            "max-fails",
        ],
    ),
    ("interval", "", &["inter", "period", "period-seconds", "frequency", "every"]),
    ("fast_interval", "", &["fastinter", "downinter", "unhealthy-interval"]),
    ("host", "", &["hostname", "authority", "host-header", "vhost", "server-name"]),
    ("script", "", &["send", "expect", "match", "tcp-check"]),
    // Keys of retries and ejection.
    ("attempts", "", &["num-retries", "max-retries", "retries", "count", "max", "tries"]),
    ("on", "", &["retry-on", "conditions", "when"]),
    (
        "errors",
        "",
        &["max-fails", "error-limit", "consecutive-5xx", "consecutive-errors", "failures"],
    ),
    ("time", "", &["fail-timeout", "base-ejection-time", "duration"]),
    ("time_max", "", &["max-ejection-time"]),
    ("share_max", "", &["max-ejection-percent"]),
    // What happens when every group is full.
    ("shed", "", &["reject", "deny", "drop", "503", "fail", "error"]),
    ("spread", "", &["overflow", "spill", "spillover", "overload", "any"]),
    // TLS.
    (
        "certificates",
        "",
        &["certificate", "cert", "certs", "crt", "crt-list", "ssl-certificate", "chain", "pem"],
    ),
    (
        "certificates",
        "= [{ chain = \"...\", key = \"...\" }]",
        &["key", "private-key", "ssl-certificate-key"],
    ),
    ("chain", "", &["cert", "certificate", "crt", "fullchain", "ssl-certificate"]),
    ("key", "", &["private-key", "ssl-certificate-key", "keyfile"]),
    (
        "client_authorities",
        "",
        &[
            "ca", "ca-file", "client-ca", "ssl-client-certificate", "authorities",
            "validation-context",
        ],
    ),
    (
        "authorities",
        "",
        &["ca", "ca-file", "cacert", "trusted-ca", "proxy-ssl-trusted-certificate"],
    ),
    ("client_required", "", &["verify", "ssl-verify-client", "require-client-certificate"]),
    ("verify", "", &["insecure", "insecure-skip-verify", "proxy-ssl-verify", "skip-verify"]),
    ("name", "", &["sni", "server-name", "verifyhost", "proxy-ssl-name"]),
    (
        "min_version",
        "",
        &["version", "protocols", "ssl-protocols", "ssl-min-ver", "min-tls-version"],
    ),
    ("suites", "", &["ciphers", "ciphersuites", "cipher-suites", "ssl-ciphers"]),
    ("1.2", "", &["tlsv1.2", "tls1.2", "tlsv12"]),
    ("1.3", "", &["tlsv1.3", "tls1.3", "tlsv13"]),
    // The access log.
    ("to", "", &["path", "file", "target", "output"]),
    ("format", "", &["log-format", "style"]),
];
