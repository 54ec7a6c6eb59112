//! What Envoy is told, as JSON: pieces that each case puts together.
//!
//! As its peers it adds the client's address, keeps connections on both sides and has no limit that
//! a case could meet. What it does beyond that unless told - an identifier for every request,
//! headers with times, statistics of each route - is off.

use std::path::Path;

use serde_json::{Value, json};

/// Its whole file.
pub(crate) fn file(listeners: &[Value], clusters: &[Value]) -> String {
    json!({ "static_resources": { "listeners": listeners, "clusters": clusters } }).to_string()
}

/// The file of a case of one listener before one cluster.
pub(crate) fn simple(port: u16, servers: &[u16], certificate: Option<&Path>) -> String {
    file(&[listener(port, certificate, &json!({}))], &[cluster(servers, &json!({}))])
}

/// The same with HTTP/2 towards clients, over TLS.
pub(crate) fn http2(port: u16, servers: &[u16], certificate: &Path) -> String {
    let mut listener = listener(port, Some(certificate), &json!({ "codec_type": "HTTP2" }));
    let tls = &mut listener["filter_chains"][0]["transport_socket"]["typed_config"];
    tls["common_tls_context"]["alpn_protocols"] = json!(["h2"]);
    file(&[listener], &[cluster(servers, &json!({}))])
}

/// HTTP/3 towards clients, beside HTTP/2 on the TCP port of the same number.
pub(crate) fn http3(port: u16, servers: &[u16], certificate: &Path) -> String {
    let more = json!({
        "codec_type": "HTTP3",
        "common_http_protocol_options": { "idle_timeout": "300s" },
    });
    let mut quic = listener(port, Some(certificate), &more);
    let chain = &mut quic["filter_chains"][0];
    let mut tls = chain["transport_socket"]["typed_config"].take();
    if let Some(tls) = tls.as_object_mut() {
        tls.remove("@type");
    }
    tls["common_tls_context"]["alpn_protocols"] = json!(["h3"]);
    chain["transport_socket"] = json!({
        "name": "envoy.transport_sockets.quic",
        "typed_config": {
            "@type": format!("{EXTENSIONS}.transport_sockets.quic.v3.QuicDownstreamTransport"),
            "downstream_tls_context": tls,
        },
    });
    quic["name"] = json!(format!("quic-{port}"));
    quic["address"]["socket_address"]["protocol"] = json!("UDP");
    quic["udp_listener_config"] = json!({
        "quic_options": { "quic_protocol_options": { "max_concurrent_streams": 100 } },
        "downstream_socket_config": { "prefer_gro": true },
    });
    let tcp = listener(port, Some(certificate), &json!({ "codec_type": "HTTP2" }));
    file(&[quic, tcp], &[cluster(servers, &json!({}))])
}

/// A listener on a port of loopback that passes everything on to `web`, with TLS if there is a
/// certificate; `more` is what else its connection manager is told, or otherwise.
pub(crate) fn listener(port: u16, certificate: Option<&Path>, more: &Value) -> Value {
    let all = json!({ "match": { "prefix": "/" }, "route": route(&json!({})) });
    let manager = json!({
        "@type": format!("{MANAGER}.HttpConnectionManager"),
        "stat_prefix": "web",
        "codec_type": "HTTP1",
        "use_remote_address": true,
        "generate_request_id": false,
        "stream_idle_timeout": "300s",
        "route_config": routes(&[all]),
        "http_filters": [router()],
    });
    let mut chain = json!({
        "filters": [{
            "name": "envoy.filters.network.http_connection_manager",
            "typed_config": with(manager, more),
        }],
    });
    if let Some(path) = certificate {
        chain["transport_socket"] = tls(path);
        chain["transport_socket_connect_timeout"] = json!("10s");
    }
    json!({
        "name": format!("port-{port}"),
        "address": address(port),
        "tcp_backlog_size": 4096,
        "filter_chains": [chain],
    })
}

/// The cluster `web`; `more` is what else it is told, or otherwise.
pub(crate) fn cluster(servers: &[u16], more: &Value) -> Value {
    let endpoint = |port: &u16| json!({ "endpoint": { "address": address(*port) } });
    let endpoints: Vec<Value> = servers.iter().map(endpoint).collect();
    let cluster = json!({
        "name": "web",
        "type": "STATIC",
        "connect_timeout": "5s",
        "lb_policy": "ROUND_ROBIN",
        "circuit_breakers": { "thresholds": [{
            "max_connections": MOST, "max_pending_requests": MOST, "max_requests": MOST,
            "max_retries": MOST,
        }]},
    });
    with(with(cluster, &members("web", &endpoints)), more)
}

/// The name of a cluster, and who is in it.
pub(crate) fn members(name: &str, endpoints: &[Value]) -> Value {
    let members = json!({
        "cluster_name": name,
        "endpoints": [{ "lb_endpoints": endpoints }],
    });
    json!({ "name": name, "load_assignment": members })
}

/// One member of a cluster.
pub(crate) fn endpoint(port: u16, weight: u32) -> Value {
    json!({ "endpoint": { "address": address(port) }, "load_balancing_weight": weight })
}

/// All hosts, by these routes.
pub(crate) fn routes(routes: &[Value]) -> Value {
    json!({ "virtual_hosts": [{ "name": "all", "domains": ["*"], "routes": routes }] })
}

/// To the cluster `web` without a time limit; `more` is what else is told, or otherwise.
pub(crate) fn route(more: &Value) -> Value {
    with(json!({ "cluster": "web", "timeout": "0s" }), more)
}

/// The filter that forwards, which is the last.
pub(crate) fn router() -> Value {
    filter("router.v3.Router", &json!({ "suppress_envoy_headers": true }))
}

/// A filter of HTTP by the end of its type's name.
pub(crate) fn filter(name: &str, settings: &Value) -> Value {
    let kind = format!("{EXTENSIONS}.filters.http.{name}");
    let (short, _) = name.split_once('.').unwrap_or((name, ""));
    json!({
        "name": format!("envoy.filters.http.{short}"),
        "typed_config": with(json!({ "@type": kind }), settings),
    })
}

fn tls(certificate: &Path) -> Value {
    let file = json!({ "filename": certificate });
    json!({
        "name": "envoy.transport_sockets.tls",
        "typed_config": {
            "@type": format!("{EXTENSIONS}.transport_sockets.tls.v3.DownstreamTlsContext"),
            "disable_stateless_session_resumption": true,
            "disable_stateful_session_resumption": true,
            "common_tls_context": {
                "tls_certificates": [{ "certificate_chain": file, "private_key": file }],
                "tls_params": { "tls_maximum_protocol_version": "TLSv1_3" },
            },
        },
    })
}

/// A port of loopback.
pub(crate) fn address(port: u16) -> Value {
    json!({ "socket_address": { "address": "127.0.0.1", "port_value": port } })
}

/// An object with the keys of another in it, or in place of its own.
pub(crate) fn with(mut object: Value, more: &Value) -> Value {
    for (key, value) in more.as_object().into_iter().flatten() {
        object[key] = value.clone();
    }
    object
}

/// What the names of types begin with.
const EXTENSIONS: &str = "type.googleapis.com/envoy.extensions";
const MANAGER: &str =
    "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3";

/// Of anything: more than a case opens.
const MOST: u32 = 100_000;
