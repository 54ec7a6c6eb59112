//! The access log in the file: where it goes, how it is written, what it leaves out.

use loadline_core::fleet::{LogField, LogFormat};
use loadline_spanned::{Key, Text};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::value::{
    label::LogPlace,
    quantity::{PERCENT, Share},
    word::Word,
};

/// A line for each request, which `docs/operation.md` explains.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[schemars(extend("required" = ["to"]))]
pub(crate) struct AccessLog {
    /// Destination: `stdout`; the path of a file, which is appended to, and reopened at SIGUSR1 and
    /// SIGHUP; `syslog`, which is `/dev/log`; `syslog:` and the path of another Unix socket;
    /// `syslog://` and an address, by UDP.
    pub(crate) to: Key<Text<LogPlace>>,
    /// Format of a line.
    #[schemars(extend("default" = "text"))]
    pub(crate) format: Key<Text<Word<LogFormat>>>,
    /// Share, sampled at random, of the requests that ended well and with a status below 400 that
    /// are logged. All others are logged.
    #[schemars(extend("default" = "100%"))]
    pub(crate) successes: Key<Share<0, { 100 * PERCENT }>>,
    /// Whether targets and referers are logged with their query; if not, they end at the `?`.
    #[schemars(extend("default" = true))]
    pub(crate) query: Key<bool>,
    /// Further fields of a line: `host`, `scheme`, `listener`, `server_name`, `tls_version`,
    /// `tls_cipher`, `client_certificate`, `cache`, `user`, `request_id`. At the end as
    /// `host="www.example.com"`, as members of JSON. Default: all but `request_id` in JSON, none
    /// otherwise.
    #[schemars(extend("examples" = [["host", "tls_version"]]))]
    pub(crate) fields: Key<Vec<Text<Word<LogField>>>>,
}
