//! TLS in the file, towards clients and towards servers. Paths name PEM files.

use loadline_core::fleet::TlsVersion;
use loadline_spanned::{At, Key, Text};
use schemars::JsonSchema;
use serde::Deserialize;

use super::Acme;
use crate::value::{
    acme::Email,
    either::TextOr,
    label::{FilePath, HeaderName, Host, SuiteName},
    quantity::{AnyTime, TimeOrOff},
    word::Word,
};

/// TLS towards clients.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[schemars(extend("anyOf" = [{ "required": ["certificates"] }, { "required": ["acme"] }]))]
pub(crate) struct ListenerTls {
    /// Files with a key and its certificate chain, or tables that name them apart. The server name
    /// (SNI) of the client selects one, the first where none matches; of several for that name the
    /// first whose signatures the client can verify. At least one, or `acme`.
    pub(crate) certificates: Key<Vec<At<TextOr<FilePath, Certificate>>>>,
    /// Certificates by ACME: the email address for the account with Let's Encrypt, or a table. They
    /// go before those of `certificates`, which are shown until they are there.
    pub(crate) acme: Key<TextOr<Email, Acme>>,
    /// CA certificates for client certificates. If omitted, none are requested.
    pub(crate) client_authorities: Key<Text<FilePath>>,
    /// Whether a client without a certificate is rejected.
    #[schemars(extend("default" = true))]
    pub(crate) client_required: Key<bool>,
    /// Header in which servers get the subject of a client's certificate, as RFC 4514 writes it:
    /// `CN=alice,O=Example`. A header of this name from a client never reaches a server.
    #[schemars(extend("examples" = ["X-Client-Subject"]))]
    pub(crate) client_subject_header: Key<Text<HeaderName>>,
    /// Whether returning clients may resume their session without a full handshake.
    #[schemars(extend("default" = true))]
    pub(crate) resumption: Key<bool>,
    /// Whether returning clients of HTTP/3 may send requests with their first packet (0-RTT), which
    /// saves a round trip. Whoever records that packet can send it again, so methods other than
    /// GET, HEAD, OPTIONS and TRACE wait for the handshake, and the others reach servers with
    /// `Early-Data: 1` (RFC 8470), to which a server may respond 425. Switch it on if no GET
    /// changes anything. Not with `client_authorities`.
    #[schemars(extend("default" = false))]
    pub(crate) early_data: Key<bool>,
    /// HSTS (RFC 6797), for `https`: browsers that got a response use TLS only for this long. Each
    /// response has the header, those of loadline itself included; it replaces that of a server.
    #[schemars(extend("examples" = ["365d"]))]
    pub(crate) hsts: Key<TextOr<AnyTime, Hsts>>,
    /// Minimum TLS version.
    #[schemars(extend("default" = "1.2"))]
    pub(crate) min_version: Key<Text<Word<TlsVersion>>>,
    /// Cipher suites, the preferred one first. Default: all safe ones.
    #[schemars(extend("examples" = [["TLS13_AES_128_GCM_SHA256"]]))]
    pub(crate) suites: Key<Vec<Text<SuiteName>>>,
}

/// The header `Strict-Transport-Security`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[schemars(extend("required" = ["max_age"]))]
pub(crate) struct Hsts {
    /// How long it is valid, counted from each response, in whole seconds; "0s" revokes it.
    pub(crate) max_age: Key<TimeOrOff>,
    /// Whether it applies to every name below the host as well.
    #[schemars(extend("default" = false))]
    pub(crate) include_subdomains: Key<bool>,
    /// Whether browsers may preload it before the first visit (hstspreload.org): that takes a year
    /// at least and all names below, and is hard to revoke.
    #[schemars(extend("default" = false))]
    pub(crate) preload: Key<bool>,
}

/// TLS towards servers.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(crate) struct ServerTls {
    /// CA certificates to trust instead of the system's.
    pub(crate) authorities: Key<Text<FilePath>>,
    /// Whether servers' certificates are verified. Without it a man in the middle can read the
    /// traffic.
    #[schemars(extend("default" = true))]
    pub(crate) verify: Key<bool>,
    /// Server name for SNI and verification. Default: that of each server as it is written, a host
    /// name or an address; of servers that are listed elsewhere (`discover`) the address.
    pub(crate) name: Key<Text<Host>>,
    /// Client certificate for servers that request one.
    pub(crate) certificate: Key<TextOr<FilePath, Certificate>>,
    /// Minimum TLS version.
    #[schemars(extend("default" = "1.2"))]
    pub(crate) min_version: Key<Text<Word<TlsVersion>>>,
    /// Cipher suites, the preferred one first. Default: all safe ones.
    #[schemars(extend("examples" = [["TLS13_AES_128_GCM_SHA256"]]))]
    pub(crate) suites: Key<Vec<Text<SuiteName>>>,
}

/// A certificate whose files are apart.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[schemars(extend("required" = ["chain"]))]
pub(crate) struct Certificate {
    /// The certificate, then the intermediate ones.
    pub(crate) chain: Key<Text<FilePath>>,
    /// Its key. Default: the file of the chain.
    pub(crate) key: Key<Text<FilePath>>,
    /// An OCSP response (DER) to staple.
    pub(crate) ocsp: Key<Text<FilePath>>,
}
