//! Forward authentication: a service says who may ask.

use loadline_spanned::{Key, Text};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::value::{
    label::{HeaderName, Name, UrlPath},
    one_or_more::OneOrMore,
};

/// Forward authentication, as `auth_request` of nginx, `forward_auth` of Caddy and `ForwardAuth` of
/// Traefik. The service is asked with the headers of the request, `GET` and no body, and is told
/// the request by `X-Forwarded-Method`, `X-Forwarded-Uri`, `X-Forwarded-Host`, `X-Forwarded-Proto`
/// and `X-Forwarded-For`. A response with 2xx lets the request in; any other one is the client's,
/// a redirect to a login for instance. Without a response the client gets 503.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[schemars(extend("required" = ["service"]))]
pub(crate) struct ForwardAuth {
    /// The service that is asked. Its own timeouts, retries and limits count.
    #[schemars(extend("examples" = ["auth"]))]
    pub(crate) service: Key<Text<Name>>,
    /// Path, with a query if need be, for which it is asked.
    #[schemars(extend("default" = "/", "examples" = ["/api/verify"]))]
    pub(crate) path: Key<Text<UrlPath>>,
    /// Headers of its response that servers get. What clients send under these names is dropped.
    #[schemars(extend("examples" = [["Remote-User", "Remote-Groups"]]))]
    pub(crate) copy_headers: Key<OneOrMore<HeaderName>>,
}
