//! What each proxy is told of the two regions.

use serde_json::{Value, json};

use super::DISTANCE;
use crate::envoy;

pub(super) fn loadline(port: u16, near: &[u16], far: &[u16]) -> String {
    let servers = |ports: &[u16]| {
        ports.iter().map(|port| format!("\"127.0.0.1:{port}\"")).collect::<Vec<_>>().join(", ")
    };
    format!(
        r#"[edge]
region = "near"
threads = 1

[regions.near]
rtt = {{ far = "{DISTANCE}" }}

[[listener]]
bind = "127.0.0.1:{port}"
service = "web"

[service.web]
policy = "round-robin"
overflow = "soonest"

[[service.web.group]]
region = "near"
per_server = {{ max_in_flight = 2 }}
servers = [{near}]

[[service.web.group]]
region = "far"
per_server = {{ max_in_flight = 3 }}
servers = [{far}]
"#,
        near = servers(near),
        far = servers(far),
    )
}

/// No other configuration of HAProxy reached both a short average and no failure. It takes the
/// number of places written down twice, and still sends 6 % far at half load.
pub(super) fn haproxy(port: u16, near: &[u16], far: &[u16]) -> String {
    let servers = |ports: &[u16], places: u32| {
        let line = |port: &u16| format!("    server s{port} 127.0.0.1:{port} maxconn {places}\n");
        ports.iter().map(line).collect::<String>()
    };
    format!(
        r"global
    maxconn 2000
    nbthread 1
defaults
    mode http
    balance leastconn
    http-reuse always
    timeout connect 5s
    timeout client 30s
    timeout server 30s
    timeout queue 5s
frontend f
    bind 127.0.0.1:{port}
    use_backend far if {{ be_conn(near) ge {NEAR_PLACES} }} {{ be_conn(far) lt {FAR_PLACES} }}
    default_backend near
backend near
{near}backend far
{far}",
        near = servers(near, NEAR_PLACES / 3),
        far = servers(far, FAR_PLACES.div_ceil(3)),
    )
}

/// Envoy's zone-aware routing: each zone has its edge and half of the servers, so that an edge
/// sends nothing away as long as its servers live, however full they are.
pub(super) fn zone_aware(port: u16, near: &[u16], far: &[u16]) -> String {
    let edges = json!({ "load_assignment": zones("edges", &[port], &[1]) });
    let local = envoy::cluster(&[], &with_name("edges", edges));
    let settings = json!({
        "lb_policy": "LEAST_REQUEST",
        "load_assignment": zones("web", near, far),
        "common_lb_config": { "zone_aware_lb_config": {
            "routing_enabled": { "value": 100.0 }, "min_cluster_size": 1,
        }},
    });
    let mut file = in_zone(port, &[envoy::cluster(&[], &settings), local]);
    file["cluster_manager"] = json!({ "local_cluster_name": "edges" });
    file.to_string()
}

/// Envoy's load-aware locality policy, by the utilization that servers report with each response
/// (ORCA). Weights are made as often as it allows, and follow at once.
pub(super) fn load_aware(port: u16, near: &[u16], far: &[u16]) -> String {
    let policies = |name: &str, version: &str, settings: Value| {
        let kind = format!("{POLICIES}.{name}.v3.{version}");
        let mut typed = settings;
        typed["@type"] = json!(kind);
        let config = json!({
            "name": format!("envoy.load_balancing_policies.{name}"), "typed_config": typed,
        });
        json!({ "policies": [{ "typed_extension_config": config }] })
    };
    let server = policies("least_request", "LeastRequest", json!({}));
    let settings = json!({
        "load_balancing_policy": policies("load_aware_locality", "LoadAwareLocality", json!({
            "endpoint_picking_policy": server,
            "weight_update_period": "0.1s",
        })),
        "load_assignment": zones("web", near, far),
    });
    in_zone(port, &[envoy::cluster(&[], &settings)]).to_string()
}

/// An Envoy near.
fn in_zone(port: u16, clusters: &[Value]) -> Value {
    json!({
        "node": { "id": "near", "cluster": "edges", "locality": { "zone": "near" } },
        "static_resources": {
            "listeners": [envoy::listener(port, None, &json!({}))], "clusters": clusters,
        },
    })
}

fn with_name(name: &str, mut cluster: Value) -> Value {
    cluster["name"] = json!(name);
    cluster
}

fn zones(cluster: &str, near: &[u16], far: &[u16]) -> Value {
    let zone = |name: &str, ports: &[u16]| {
        let servers: Vec<Value> = ports.iter().map(|port| envoy::endpoint(*port, 1)).collect();
        json!({ "locality": { "zone": name }, "lb_endpoints": servers })
    };
    json!({ "cluster_name": cluster, "endpoints": [zone("near", near), zone("far", far)] })
}

const POLICIES: &str = "type.googleapis.com/envoy.extensions.load_balancing_policies";

/// The cores near: as many requests as can be worked on.
const NEAR_PLACES: u32 = 6;
/// The same far, and those that are on their way meanwhile: 6 x (38 + 30) / 38. With 6 HAProxy
/// would leave cores idle there, and be slower. (loadline is told places by server: two cores near;
/// far three, the two that work and one on its way.)
const FAR_PLACES: u32 = 11;
