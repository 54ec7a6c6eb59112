//! Forward authentication: a service says who may ask.

use loadline_spanned::{Key, Text};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::value::{
    label::{HeaderName, Name, UrlPath},
    one_or_more::OneOrMore,
};

/// Forward authentication, as `auth_request` of nginx, `forward_auth` of Caddy and `ForwardAuth` of
/// Traefik. The authentication service gets a `GET` without a body, with the headers of the request
/// and `X-Forwarded-Method`, `X-Forwarded-Uri`, `X-Forwarded-Host`, `X-Forwarded-Proto` and
/// `X-Forwarded-For`. A response with 2xx lets the request in; any other response, a redirect to a
/// login for instance, goes to the client. Without a response the client gets 503.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[schemars(extend("required" = ["service"]))]
pub(crate) struct ForwardAuth {
    /// The authentication service. Its own timeouts, retries and limits apply.
    #[schemars(extend("examples" = ["auth"]))]
    pub(crate) service: Key<Text<Name>>,
    /// The path that the authentication service is asked for, with a query if needed.
    #[schemars(extend("default" = "/", "examples" = ["/api/verify"]))]
    pub(crate) path: Key<Text<UrlPath>>,
    /// Headers of the authentication response to copy to the request for the server. Headers of
    /// these names from clients are dropped.
    #[schemars(extend("examples" = [["Remote-User", "Remote-Groups"]]))]
    pub(crate) copy_headers: Key<OneOrMore<HeaderName>>,
}
