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

/// The access log: a line for each request. `docs/operation.md` explains the lines.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[schemars(extend("required" = ["to"]))]
pub(crate) struct AccessLog {
    /// Destination: `stdout`; the path of a file, to which lines are appended, and which SIGUSR1
    /// and SIGHUP reopen; `syslog` for `/dev/log`; `syslog:PATH` for another Unix socket;
    /// `syslog://ADDRESS` for UDP. Lines are as of syslog(3) on a socket and of RFC 5424 over UDP.
    pub(crate) to: Key<Text<LogPlace>>,
    /// Format of a line.
    #[schemars(extend("default" = "text"))]
    pub(crate) format: Key<Text<Word<LogFormat>>>,
    /// Share of successful requests that are logged, sampled at random: those that ended well, with
    /// a status below 400. All others are logged.
    #[schemars(extend("default" = "100%"))]
    pub(crate) successes: Key<Share<0, { 100 * PERCENT }>>,
    /// Whether the URLs of requests and referers are logged with their query; if not, they end at
    /// the `?`.
    #[schemars(extend("default" = true))]
    pub(crate) query: Key<bool>,
    /// Additional fields: `host`, `scheme`, `listener`, `server_name`, `tls_version`, `tls_cipher`,
    /// `client_certificate`, `cache`, `user`, `overflow_reason`, `request_id`. They are members in
    /// JSON, and `host="www.example.com"` at the end of a line otherwise. Default: all but
    /// `request_id` in JSON, otherwise none.
    #[schemars(extend("examples" = [["host", "tls_version"]]))]
    pub(crate) fields: Key<Vec<Text<Word<LogField>>>>,
}
