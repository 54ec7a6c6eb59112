//! Maintenance of a service.

use loadline_spanned::Key;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::value::{
    label::FilePath, one_or_more::OneOrMore, pattern::NetworkRange, quantity::Seconds,
};

/// What clients get while a service is in maintenance: 503 over HTTP, a closed connection
/// otherwise. `loadline maintenance SERVICE` switches it on without a reload, also where the file
/// has no such table, and `loadline activate SERVICE` off.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(crate) struct Maintenance {
    /// Whether the service is in maintenance.
    #[schemars(extend("default" = false))]
    pub(crate) enabled: Key<bool>,
    /// The page that clients get: a file, or several of different types. Default: the error page
    /// for 503.
    #[schemars(extend("examples" = ["maintenance.html"]))]
    pub(crate) page: Key<OneOrMore<FilePath>>,
    /// Value of the `Retry-After` header, in whole seconds. No header if omitted.
    #[schemars(extend("examples" = ["10m"]))]
    pub(crate) retry_after: Key<Seconds>,
    /// Addresses of clients that are served during maintenance, to test whether all is well again.
    pub(crate) allow: Key<OneOrMore<NetworkRange>>,
}
