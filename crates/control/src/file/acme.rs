//! Certificates by ACME, in the file.

use loadline_core::fleet::acme::{Challenge, Storage};
use loadline_spanned::{At, Key, Text};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::value::{
    acme::{DirectoryUrl, Email},
    label::{FilePath, Name, ServerName},
    word::Word,
};

/// Certificates that a certificate authority issues by ACME (RFC 8555): Let's Encrypt, or another
/// in `directory`. They are renewed automatically. By this table you agree to the terms of service
/// of the authority.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(crate) struct Acme {
    /// Email address for messages of the authority, if a certificate is revoked for example.
    #[schemars(extend("examples" = ["you@example.com"]))]
    pub(crate) email: Key<Text<Email>>,
    /// DNS names, each of which gets a certificate of its own. Default: the hosts of the listener's
    /// routes, without wildcards.
    #[schemars(extend("examples" = [["www.example.com"]]))]
    pub(crate) names: Key<Vec<At<Text<ServerName>>>>,
    /// URL of the authority's ACME directory. Default: that of Let's Encrypt.
    #[schemars(extend("examples" = ["https://acme-v02.api.letsencrypt.org/directory"]))]
    pub(crate) directory: Key<Text<DirectoryUrl>>,
    /// Whether to use the staging environment of Let's Encrypt, for tests: its rate limits are
    /// high, and no browser trusts its certificates. Not with `directory`.
    #[schemars(extend("default" = false))]
    pub(crate) staging: Key<bool>,
    /// CA certificates to trust instead of the system's, for connections to the directory.
    #[schemars(extend("examples" = ["tls/localhost.pem"]))]
    pub(crate) ca: Key<Text<FilePath>>,
    /// ACME challenge: how the authority verifies that a name leads here. Default: `http-01` if a
    /// listener of the file takes HTTP without TLS, otherwise `tls-alpn-01`.
    #[schemars(extend("examples" = ["http-01"]))]
    pub(crate) challenge: Key<Text<Word<Challenge>>>,
    /// External account binding, for an authority that requires it.
    pub(crate) external_account: Key<ExternalAccount>,
    /// Where the account key, the certificates and their keys are: on this edge alone, or in the
    /// store of the cluster, where one edge gets the certificates for all. Default: `cluster` with
    /// `[cluster]`, otherwise `disk`.
    #[schemars(extend("examples" = ["disk"]))]
    pub(crate) storage: Key<Text<Word<Storage>>>,
    /// Directory for the account key, the certificates and their keys, readable by their owner
    /// alone; with `storage = "cluster"` for copies of the certificates. One process at a time may
    /// use it.
    #[schemars(extend("default" = "/var/lib/loadline/acme"))]
    pub(crate) state_dir: Key<Text<FilePath>>,
}

/// An account with the authority that was made outside of ACME (external account binding, RFC 8555,
/// section 7.3.4).
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[schemars(extend("required" = ["kid", "key_file"]))]
pub(crate) struct ExternalAccount {
    /// Key identifier (`kid`) of the account.
    #[schemars(extend("examples" = ["kid-1"]))]
    pub(crate) kid: Key<Text<Name>>,
    /// File whose first line is the HMAC key of the account in base64url, as the authority gives
    /// it.
    #[schemars(extend("examples" = ["/etc/loadline/acme.key"]))]
    pub(crate) key_file: Key<Text<FilePath>>,
}
