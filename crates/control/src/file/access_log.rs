//! The access log in the file: where it goes, how it is written, what it leaves out.

use loadline_core::fleet::{LogField, LogFormat};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{
    place::Key,
    value::{
        label::LogPlace,
        quantity::{PERCENT, Share},
        text::Text,
        word::Word,
    },
};

/// A line for each request, which `docs/operation.md` explains.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[schemars(extend("required" = ["to"]))]
pub(crate) struct AccessLog {
    /// Where lines go: `stdout`; the path of a file, which is appended to, and opened again at
    /// SIGUSR1 and SIGHUP; `syslog`, which is `/dev/log`; `syslog:` and the path of another Unix
    /// socket; `syslog://` and an address, by UDP.
    pub(crate) to: Key<Text<LogPlace>>,
    /// How a line is written.
    #[schemars(extend("default" = "text"))]
    pub(crate) format: Key<Text<Word<LogFormat>>>,
    /// The part, drawn at random, of the requests that ended well and with a status below 400 that
    /// have a line. Of the others each has one.
    #[schemars(extend("default" = "100%"))]
    pub(crate) successes: Key<Share<0, { 100 * PERCENT }>>,
    /// Whether lines tell what stands behind a `?` in targets and referers; where not, they end
    /// there.
    #[schemars(extend("default" = true))]
    pub(crate) query: Key<bool>,
    /// What lines say beside what each does: `host`, `scheme`, `listener`, `server_name`,
    /// `tls_version`, `tls_cipher`, `client_certificate`. At the end as `host="www.example.com"`,
    /// as members of JSON; if omitted JSON has all and the others none.
    #[schemars(extend("examples" = [["host", "tls_version"]]))]
    pub(crate) fields: Key<Vec<Text<Word<LogField>>>>,
}
