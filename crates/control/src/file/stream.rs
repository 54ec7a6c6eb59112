//! Traffic that is not HTTP in the file: services by the server name of TLS.

use loadline_spanned::{Key, Text};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::value::label::{Name, ServerName};

/// A server name and the service that gets its connections.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[schemars(extend("required" = ["name", "service"]))]
pub(crate) struct NamedService {
    /// The server name (SNI) of the client. `*.example.com` is every name below `example.com`; an
    /// exact name takes precedence, then the longest.
    pub(crate) name: Key<Text<ServerName>>,
    /// The service that gets the connections.
    pub(crate) service: Key<Text<Name>>,
}
