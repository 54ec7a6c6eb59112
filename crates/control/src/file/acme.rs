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
/// with a directory. They are renewed by themselves. This means to agree with the terms of service
/// of the authority.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(crate) struct Acme {
    /// Where the authority may write to, if a certificate is revoked for example.
    #[schemars(extend("examples" = ["you@example.com"]))]
    pub(crate) email: Key<Text<Email>>,
    /// What there is to be a certificate for, each for one name. Default: the hosts of the routes
    /// of the listener, without wildcards.
    #[schemars(extend("examples" = [["www.example.com"]]))]
    pub(crate) names: Key<Vec<At<Text<ServerName>>>>,
    /// The directory of the authority. Default: that of Let's Encrypt.
    #[schemars(extend("examples" = ["https://acme-v02.api.letsencrypt.org/directory"]))]
    pub(crate) directory: Key<Text<DirectoryUrl>>,
    /// Whether the staging environment of Let's Encrypt issues, whose limits are wide and whose
    /// certificates no browser trusts: to try whether it works. Not with `directory`.
    #[schemars(extend("default" = false))]
    pub(crate) staging: Key<bool>,
    /// CA certificates to trust instead of the system's, for the directory.
    #[schemars(extend("examples" = ["tls/localhost.pem"]))]
    pub(crate) ca: Key<Text<FilePath>>,
    /// How the authority verifies that a name leads here. Default: `http-01` where a listener of
    /// the file takes HTTP in clear, otherwise `tls-alpn-01`.
    #[schemars(extend("examples" = ["http-01"]))]
    pub(crate) challenge: Key<Text<Word<Challenge>>>,
    /// An account with the authority, for one that wants one (external account binding).
    pub(crate) external_account: Key<ExternalAccount>,
    /// Who has account key, certificates and their keys: this edge alone, or all edges of the
    /// cluster, of which one asks the authority then. Default: `cluster` with `[cluster]`,
    /// otherwise `disk`.
    #[schemars(extend("examples" = ["disk"]))]
    pub(crate) storage: Key<Text<Word<Storage>>>,
    /// Directory for account key, certificates and their keys, readable to their owner alone; with
    /// `storage = "cluster"` for copies of the certificates. It is used by one process at a time.
    #[schemars(extend("default" = "/var/lib/loadline/acme"))]
    pub(crate) state_dir: Key<Text<FilePath>>,
}

/// An account that exists with the authority outside of ACME (RFC 8555, section 7.3.4).
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[schemars(extend("required" = ["kid", "key_file"]))]
pub(crate) struct ExternalAccount {
    /// Its key identifier.
    #[schemars(extend("examples" = ["kid-1"]))]
    pub(crate) kid: Key<Text<Name>>,
    /// File whose first line is its HMAC key, as the authority gives it: base64url.
    #[schemars(extend("examples" = ["/etc/loadline/acme.key"]))]
    pub(crate) key_file: Key<Text<FilePath>>,
}
