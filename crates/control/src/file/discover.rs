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

/// Where the servers of a group are listed: `file`, `dns` or `srv`. loadline follows the list:
/// added servers get requests, removed ones are drained. A list that cannot be fetched or read
/// changes nothing.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[schemars(extend("oneOf" = [
    { "required": ["file"] }, { "required": ["dns"] }, { "required": ["srv"] }
]))]
pub(crate) struct Discover {
    /// A file of TOML, or of JSON where its name ends in `.json`, with the key `servers`:
    /// addresses, or tables of `address`, `weight` and `priority`.
    #[schemars(extend("examples" = ["/etc/loadline/web.json"]))]
    pub(crate) file: Key<Text<FilePath>>,
    /// A name and a port: every address of the name (A or AAAA records) is a server.
    pub(crate) dns: Key<Text<Place>>,
    /// The name of a service: its SRV records say host, port, priority and weight of each server.
    pub(crate) srv: Key<Text<DnsName>>,
    /// Which addresses are used, for `dns` and for the hosts of `srv`.
    #[schemars(extend("default" = "prefer-ipv4"))]
    pub(crate) family: Key<Text<Word<Family>>>,
    /// Whether an empty list is accepted, which for DNS is a response that there are no such
    /// records. It is rejected otherwise, since it mostly is a mistake.
    #[schemars(extend("default" = false))]
    pub(crate) allow_empty: Key<bool>,
}

/// The DNS resolver, for groups with `discover`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(crate) struct Dns {
    /// Name servers: addresses, with a port where it is not 53. Default: those of
    /// `/etc/resolv.conf`, with its search list.
    pub(crate) servers: Key<Vec<At<Text<NameServer>>>>,
    /// Timeout of a query to one name server.
    #[schemars(extend("default" = "1s"))]
    pub(crate) timeout: Key<Time>,
    /// Retries of a query.
    #[schemars(extend("default" = 1))]
    pub(crate) attempts: Key<Whole<0, 10>>,
    /// Minimum time that a response is used, whatever its TTL. It is also the time to the next
    /// query after a failure, doubled with each failure in a row up to `max_ttl`.
    #[schemars(extend("default" = "1s"))]
    pub(crate) min_ttl: Key<Time>,
    /// Maximum time that a response is used, at least `min_ttl`.
    #[schemars(extend("default" = "1m"))]
    pub(crate) max_ttl: Key<Time>,
    /// Maximum time that a start, or a reload, waits for the first DNS response. A later one is
    /// applied when it comes.
    #[schemars(extend("default" = "3s"))]
    pub(crate) start_wait: Key<Time>,
}
