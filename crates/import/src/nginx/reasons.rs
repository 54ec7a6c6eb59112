//! Why directives of nginx have no counterpart.

use std::borrow::Cow;

use super::{
    lex::Directive,
    values::{Literals, template},
};

/// Why the directive is not carried over.
pub(super) fn reason(directive: &Directive) -> Cow<'static, str> {
    let name = directive.name();
    if name == "map" && template(directive.arg(0), Literals::default()).is_err() {
        let why = format!("loadline has no variable like `{}` to look up", directive.arg(0));
        return why.into();
    }
    let found = REASONS.iter().find(|(start, _)| {
        start.strip_suffix('*').map_or(*start == name, |start| name.starts_with(start))
    });
    found.map_or(UNKNOWN, |(_, why)| why).into()
}

/// Whether nothing is lost without it.
pub(super) fn is_needless(name: &str) -> bool {
    NEEDLESS.contains(&name)
}

/// Whether it asks for nothing, as it is without it.
pub(super) fn is_off(directive: &Directive) -> bool {
    matches!(
        (directive.name(), directive.arg(0)),
        ("auth_basic" | "auth_request" | "auth_jwt", "off") | ("satisfy", "all")
    )
}

const UNKNOWN: &str = "loadline has nothing that corresponds, or the import does not know it";
const PROCESS: &str = "the service unit of loadline does this (examples/loadline.service)";
const PROTECTED: &str = "THIS PROTECTED SOMETHING: the imported file does not ask for it";
const PASSWORDS: &str = "THIS PROTECTED SOMETHING: the imported file does not ask for it; \
                         `basic_auth = { users_file = ... }` on the route does, with hashes of \
                         bcrypt or SHA-crypt";
const AUTH_REQUEST: &str = "THIS PROTECTED SOMETHING: the imported file does not ask for it; \
                            `forward_auth` on the route does";
const LANGUAGE: &str =
    "loadline speaks HTTP to servers: put a server with HTTP before the application";
const TUNING: &str = "loadline needs no such setting";
const LOG: &str =
    "say where the access log goes: [edge] access_log = \"syslog\", \"stdout\" or a path";
const CIPHERS: &str =
    "all suites of loadline are safe ones; `tls.suites` and `tls.min_version` restrict them";
const CODE: &str = "there are no scripts";

/// What loadline does in any case.
const NEEDLESS: [&str; 25] = [
    "proxy_http_version",
    "proxy_ssl_server_name",
    "grpc_ssl_server_name",
    "sendfile",
    "tcp_nopush",
    "tcp_nodelay",
    "default_type",
    "keepalive",
    "http2",
    "http3",
    "ssl_session_cache",
    "ssl_session_timeout",
    "ssl_session_tickets",
    "zone",
    "types",
    "types_hash_max_size",
    "server_names_hash_bucket_size",
    "ssl_prefer_server_ciphers",
    "ssl_protocols",
    "proxy_set_header",
    "proxy_redirect",
    "gzip_vary",
    "gzip_disable",
    "gzip_proxied",
    "types_hash_bucket_size",
];

const REASONS: [(&str, &str); 56] = [
    ("include", "the file could not be read"),
    ("user", PROCESS),
    ("pid", PROCESS),
    ("daemon", PROCESS),
    ("worker_*", "one worker a core; [edge] threads says otherwise"),
    ("load_module", "no modules"),
    ("error_log", "the process logs to standard error, which systemd keeps"),
    ("access_log", LOG),
    ("log_format", LOG),
    ("log_not_found", LOG),
    ("open_log_file_cache", LOG),
    ("auth_basic*", PASSWORDS),
    ("auth_request*", AUTH_REQUEST),
    ("auth_*", PROTECTED),
    ("secure_link*", PROTECTED),
    ("satisfy", PROTECTED),
    ("valid_referers", PROTECTED),
    ("limit_conn*", "connections by client: `max_connections_per_client` of the listener"),
    ("fastcgi_*", LANGUAGE),
    ("uwsgi_*", LANGUAGE),
    ("scgi_*", LANGUAGE),
    ("memcached_*", LANGUAGE),
    ("map", "`[maps]` of loadline looks variables up too; write the table by hand"),
    ("geo", "`source` and `source_file` on a route ask for the address"),
    ("geoip*", "`source` and `source_file` on a route ask for the address"),
    ("split_clients", "`split` on a route divides requests between services"),
    ("set", "there are no variables but those of the request"),
    (
        "error_page",
        "`error_pages` of listener or service names files for failures of loadline's own; \
         responses of servers pass",
    ),
    ("proxy_intercept_errors", "responses of servers pass"),
    ("proxy_buffer*", TUNING),
    ("proxy_busy_buffers_size", TUNING),
    ("proxy_temp*", TUNING),
    ("proxy_max_temp_file_size", TUNING),
    ("proxy_request_buffering", "bodies are passed on as they come"),
    ("proxy_next_upstream*", "`retry` on the service says what is sent again"),
    ("proxy_cache_*", "loadline stores what responses allow (RFC 9111), for as long as they say"),
    ("proxy_no_cache", "loadline stores what responses allow (RFC 9111)"),
    ("proxy_ignore_headers", "what servers say of caching is obeyed"),
    ("proxy_hide_header", "write answer_headers.remove on the route"),
    ("proxy_cookie_*", "cookies of servers pass as they are"),
    ("sub_filter*", "bodies are not changed"),
    (
        "expires",
        "write answer_headers.set = { Cache-Control = \"...\" } on the route; errors have it too, \
         where nginx adds it to responses with 2xx and 3xx alone",
    ),
    ("ssl_ciphers", CIPHERS),
    ("ssl_dhparam", CIPHERS),
    ("ssl_ecdh_curve", CIPHERS),
    ("ssl_conf_command", CIPHERS),
    ("ssl_crl", PROTECTED),
    ("ssl_ocsp*", PROTECTED),
    ("ssl_stapling*", "`ocsp` of a certificate names a file with the response to staple"),
    ("ssl_preread", "`tls-passthrough` reads the server name: a listener with `names`"),
    ("lua_*", CODE),
    ("js_*", CODE),
    ("perl*", CODE),
    ("gzip*", "`compress` on the service has levels, types and a least size"),
    ("stub_status", "metrics and the dashboard are at [admin] bind = \"127.0.0.1:9090\""),
    ("resolver*", "names are resolved once; `discover` on a group follows them"),
];
