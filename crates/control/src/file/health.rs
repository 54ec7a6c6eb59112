//! Active checks in the file.

use loadline_core::health::advisor::Transport;
use loadline_spanned::{At, Key, Text};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::value::{
    advisor::{Advisor, Hex, ReplyCode, Said},
    either::{TextOrTrue, True},
    label::{GrpcService, Host, UrlPath},
    number::Whole,
    quantity::Time,
    word::Word,
};

/// Active health checks: one of `http`, `grpc`, `tcp`, `advisor` and `script`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[schemars(extend("oneOf" = [
    { "required": ["http"] }, { "required": ["grpc"] }, { "required": ["tcp"] },
    { "required": ["advisor"] }, { "required": ["script"] }
]))]
pub(crate) struct Health {
    /// HTTP check: a GET of this path has to get a 2xx or 3xx response.
    pub(crate) http: Key<Text<UrlPath>>,
    /// gRPC check: `grpc.health.v1.Health/Check` has to respond SERVING for this gRPC service, or
    /// with `true` for the server as a whole. Needs http_version = "2".
    pub(crate) grpc: Key<TextOrTrue<GrpcService>>,
    /// TCP check: a connection has to open.
    pub(crate) tcp: Key<True>,
    /// A built-in check of another protocol.
    pub(crate) advisor: Key<Text<Word<Advisor>>>,
    /// A scripted check: steps that send to the server or say what it has to respond.
    pub(crate) script: Key<Vec<At<Step>>>,
    /// Transport of the `script`.
    #[schemars(extend("default" = "tcp"))]
    pub(crate) transport: Key<Text<Word<Transport>>>,
    /// Host header of the check. Default: the server's address. Only with `http` and `grpc`.
    pub(crate) host: Key<Text<Host>>,
    /// Time from one check of a server to the next. Checks of several servers are spread over the
    /// interval; the first checks of up to 256 new servers are made at once.
    #[schemars(extend("default" = "1s"))]
    pub(crate) interval: Key<Time>,
    /// The interval while a server is between up and down (`rise`, `fall`), at most `interval`.
    /// Default: a quarter of `interval`.
    #[schemars(extend("default" = "250ms"))]
    pub(crate) fast_interval: Key<Time>,
    /// Timeout of a check.
    #[schemars(extend("default" = "500ms"))]
    pub(crate) timeout: Key<Time>,
    /// Successes in a row that bring a server up.
    #[schemars(extend("default" = 2))]
    pub(crate) rise: Key<Whole<1, 100>>,
    /// Failures in a row that bring a server down.
    #[schemars(extend("default" = 3))]
    pub(crate) fall: Key<Whole<1, 100>>,
    /// Whether a status line without headers, followed by the end of the connection, is accepted.
    /// Only with `http`.
    #[schemars(extend("default" = false))]
    pub(crate) lenient: Key<bool>,
}

/// One step of a script, with exactly one key. Expectations apply to what the server has sent since
/// the last `send`; each step reads on where the step before it ended.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[schemars(extend("minProperties" = 1, "maxProperties" = 1))]
pub(crate) struct Step {
    /// Send this text; `\r\n` ends a line.
    pub(crate) send: Key<Text<Said>>,
    /// Send these bytes.
    pub(crate) send_hex: Key<Text<Hex>>,
    /// The response has to begin with this text.
    pub(crate) expect: Key<Text<Said>>,
    /// The same in bytes; `?` matches any digit.
    pub(crate) expect_hex: Key<Text<Hex>>,
    /// The response has to contain this text.
    pub(crate) contains: Key<Text<Said>>,
    /// The same in bytes; `?` matches any digit.
    pub(crate) contains_hex: Key<Text<Hex>>,
    /// The response has to be a reply as in SMTP and FTP, of one line or many, whose code begins
    /// with these digits.
    pub(crate) reply: Key<Text<ReplyCode>>,
}
