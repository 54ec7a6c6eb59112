//! Protection against DNS rebinding: a page of another site must not read the admin interface
//! through the browser of somebody who may.
//!
//! Such a page needs a name of its own that resolves to our address, and the browser then sends
//! that name as `Host`. So on an address only hosts are served that no stranger can point at us:
//! IP addresses, `localhost`, and the names that the file lists. A browser cannot reach a Unix
//! socket, so there any will do; the same in HTTP/1.0 without a `Host`, which browsers always send.

use std::{net::IpAddr, sync::Arc};

use axum::{
    Json,
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, StatusCode, Version, header::HOST},
    middleware::Next,
    response::{IntoResponse, Response},
};
use serde_json::json;

/// The hosts by which the administration may be called.
#[derive(Clone, Debug)]
pub(super) struct Hosts {
    /// None where any will do.
    names: Option<Arc<[String]>>,
}

impl Hosts {
    /// Any host.
    pub(super) const fn any() -> Self {
        Self { names: None }
    }

    /// IP addresses, `localhost` and these names.
    pub(super) fn named(names: &[String]) -> Self {
        Self {
            names: Some(names.iter().map(|name| without_port(name).to_ascii_lowercase()).collect()),
        }
    }

    fn allows(&self, headers: &HeaderMap) -> bool {
        let (Some(names), Some(host)) = (&self.names, headers.get(HOST)) else { return true };
        let name = host.to_str().unwrap_or_default();
        let name = without_port(name).to_ascii_lowercase();
        let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
        let is_address = bare.unwrap_or(&name).parse::<IpAddr>().is_ok();
        is_address || name == "localhost" || name.ends_with(".localhost") || names.contains(&name)
    }
}

/// Refuses requests for hosts that are not ours, and those that do not say for which they are
/// (RFC 9112, 3.2).
pub(super) async fn check(State(hosts): State<Hosts>, request: Request, next: Next) -> Response {
    let count = request.headers().get_all(HOST).iter().count();
    if count > 1 || count == 0 && request.version() == Version::HTTP_11 {
        let error = json!({ "error": "a request has one `Host`" });
        return (StatusCode::BAD_REQUEST, Json(error)).into_response();
    }
    if hosts.allows(request.headers()) {
        return next.run(request).await;
    }
    let host = request
        .headers()
        .get(HOST)
        .map_or("", |host: &HeaderValue| host.to_str().unwrap_or_default());
    let error = format!(
        "`{host}` is no name of this administration: call it by its address or as localhost, or \
         list the name as `hosts` in the table [admin]"
    );
    (StatusCode::MISDIRECTED_REQUEST, Json(json!({ "error": error }))).into_response()
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_hosts_that_no_stranger_can_point_here_are_served() {
        let hosts = Hosts::named(&["Edge-1.internal".to_owned()]);
        let allows =
            |host: &str| hosts.allows(&HeaderMap::from_iter([(HOST, host.parse().unwrap())]));
        for good in [
            "127.0.0.1:9090", "10.0.0.1", "[::1]:9090", "localhost:9090", "LOCALHOST",
            "dash.localhost", "edge-1.internal:80",
        ] {
            assert!(allows(good), "{good}");
        }
        for bad in [
            "rebind.example:9090", "127.0.0.1.example", "localhost.example", "xlocalhost", "",
            "edge-1.internal.example", "127.0.0.1:9090@example",
        ] {
            assert!(!allows(bad), "{bad}");
        }
        assert!(hosts.allows(&HeaderMap::new()));
        assert!(Hosts::any().allows(&HeaderMap::from_iter([(HOST, "x".parse().unwrap())])));
    }
}
