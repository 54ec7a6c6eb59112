//! What Caddy is told, as JSON: pieces that each case puts together.
//!
//! As its peers it adds the client's address and keeps connections on both sides. Its API, logs of
//! requests and certificates by itself are off.

use std::path::Path;

use serde_json::{Value, json};

use crate::envoy::with;

/// The file of a case of one port before these servers, with these versions of HTTP.
pub(crate) fn simple(
    port: u16,
    servers: &[u16],
    certificate: Option<&Path>,
    protocols: &[&str],
) -> String {
    let more = json!({ "protocols": protocols, "idle_timeout": "300s" });
    let web = server(port, certificate.is_some(), &proxy(servers, &json!({})), &more);
    file(&json!({ "web": web }), certificate)
}

/// Its whole file: servers by name, and the certificate of those with TLS. No session is resumed.
pub(crate) fn file(servers: &Value, certificate: Option<&Path>) -> String {
    let mut apps = json!({ "http": { "servers": servers } });
    if let Some(pem) = certificate {
        apps["tls"] = json!({
            "certificates": { "load_files": [{ "certificate": pem, "key": pem }] },
            "session_tickets": { "disabled": true },
        });
    }
    json!({
        "admin": { "disabled": true },
        "logging": { "logs": { "default": { "level": "ERROR" } } },
        "apps": apps,
    })
    .to_string()
}

/// What listens on a port of loopback; `more` is what else it is told, or otherwise.
pub(crate) fn server(port: u16, is_secure: bool, handler: &Value, more: &Value) -> Value {
    let mut server = json!({
        "listen": [format!("127.0.0.1:{port}")],
        "protocols": ["h1"],
        "automatic_https": { "disable": true },
        "routes": [{ "handle": [handler] }],
    });
    if is_secure {
        server["tls_connection_policies"] = json!([{}]);
    }
    with(server, more)
}

/// The handler that forwards, in turn; `more` is what else it is told, or otherwise.
pub(crate) fn proxy(servers: &[u16], more: &Value) -> Value {
    let upstreams: Vec<Value> =
        servers.iter().map(|port| json!({ "dial": format!("127.0.0.1:{port}") })).collect();
    let proxy = json!({
        "handler": "reverse_proxy",
        "upstreams": upstreams,
        "load_balancing": { "selection_policy": { "policy": "round_robin" } },
        "transport": {
            "protocol": "http",
            "keep_alive": { "max_idle_conns_per_host": 1024 },
        },
    });
    with(proxy, more)
}
