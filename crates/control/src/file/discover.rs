//! Groups whose servers are found out, and who is asked for names, in the file.

use loadline_core::fleet::Family;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{
    place::{At, Key},
    value::{
        address::{DnsName, NameServer, Place},
        label::FilePath,
        number::Whole,
        quantity::Time,
        text::Text,
        word::Word,
    },
};

/// Where the servers of a group are listed: `file`, `dns` or `srv`. The list is followed: who comes
/// is given requests, who goes is given no more, and what is under way there ends. A list that
/// cannot be had or read changes nothing.
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
    /// Which addresses count, for `dns` and for the hosts of `srv`.
    #[schemars(extend("default" = "prefer-ipv4"))]
    pub(crate) family: Key<Text<Word<Family>>>,
    /// Whether a list without servers is taken, which for names is a response that there are no
    /// such records. It is refused otherwise, since it mostly is a mistake.
    #[schemars(extend("default" = false))]
    pub(crate) allow_empty: Key<bool>,
}

/// Who is asked for names, for groups with `discover`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(crate) struct Dns {
    /// Name servers: addresses, with a port where it is not 53. Those of `/etc/resolv.conf`, with
    /// its search list, if omitted.
    pub(crate) servers: Key<Vec<At<Text<NameServer>>>>,
    /// How long one of them may take for a response.
    #[schemars(extend("default" = "1s"))]
    pub(crate) timeout: Key<Time>,
    /// Further attempts for one question.
    #[schemars(extend("default" = 1))]
    pub(crate) attempts: Key<Whole<0, 10>>,
    /// The least time that a response counts, whatever its TTL. After a failure it is also the time
    /// to the next question, doubled with each in a row up to `max_ttl`.
    #[schemars(extend("default" = "1s"))]
    pub(crate) min_ttl: Key<Time>,
    /// The longest time that a response counts, at least `min_ttl`.
    #[schemars(extend("default" = "1m"))]
    pub(crate) max_ttl: Key<Time>,
    /// The longest that a start, or a reload, waits for the first response about a name. What comes
    /// later is put in force when it comes.
    #[schemars(extend("default" = "3s"))]
    pub(crate) start_wait: Key<Time>,
}
