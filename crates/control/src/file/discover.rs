//! Groups whose servers are found out, and who is asked for names, in the file.

use loadline_core::fleet::Family;
use loadline_spanned::{At, Key, Text};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::value::{
    address::{DnsName, NameServer, Place},
    label::FilePath,
    number::Whole,
    quantity::Time,
    word::Word,
};

/// Service discovery: where the list of a group's servers comes from, `file`, `dns` or `srv`.
/// loadline follows the list: added servers get requests, removed ones are drained. A list that
/// cannot be fetched or read changes nothing.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[schemars(extend("oneOf" = [
    { "required": ["file"] }, { "required": ["dns"] }, { "required": ["srv"] }
]))]
pub(crate) struct Discover {
    /// The path of a TOML file, or a JSON file if its name ends in `.json`, with the key `servers`:
    /// a list of addresses, or of tables with `address`, `weight` and `priority`.
    #[schemars(extend("examples" = ["/etc/loadline/web.json"]))]
    pub(crate) file: Key<Text<FilePath>>,
    /// A host name and a port: every address of the name (A or AAAA records) is a server.
    pub(crate) dns: Key<Text<Place>>,
    /// A DNS name with SRV records, which have host, port, priority and weight of each server.
    pub(crate) srv: Key<Text<DnsName>>,
    /// IP versions of the addresses that are used, for `dns` and for the hosts of `srv`.
    #[schemars(extend("default" = "prefer-ipv4"))]
    pub(crate) family: Key<Text<Word<Family>>>,
    /// Whether an empty list is accepted; for DNS, a response without such records. If not, it is
    /// rejected, as it is mostly a mistake.
    #[schemars(extend("default" = false))]
    pub(crate) allow_empty: Key<bool>,
}

/// The DNS resolver, for groups with `discover`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(crate) struct Dns {
    /// Addresses of name servers, with a port if it is not 53. Default: those of
    /// `/etc/resolv.conf`, with its search list.
    pub(crate) servers: Key<Vec<At<Text<NameServer>>>>,
    /// Timeout of a query to one name server.
    #[schemars(extend("default" = "1s"))]
    pub(crate) timeout: Key<Time>,
    /// Maximum number of retries of a query.
    #[schemars(extend("default" = 1))]
    pub(crate) attempts: Key<Whole<0, 10>>,
    /// Minimum time that a DNS response is used, whatever its TTL. After a failure the next query
    /// comes after this time, doubled with each failure in a row up to `max_ttl`.
    #[schemars(extend("default" = "1s"))]
    pub(crate) min_ttl: Key<Time>,
    /// Maximum time that a DNS response is used, at least `min_ttl`.
    #[schemars(extend("default" = "1m"))]
    pub(crate) max_ttl: Key<Time>,
    /// Maximum time that a start or a reload waits for the first DNS response. A later response is
    /// applied when it comes.
    #[schemars(extend("default" = "3s"))]
    pub(crate) start_wait: Key<Time>,
}
