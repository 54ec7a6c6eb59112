//! TLS in the file, towards clients and towards servers. Paths name PEM files.

use loadline_core::fleet::TlsVersion;
use loadline_spanned::{At, Key, Text};
use schemars::JsonSchema;
use serde::Deserialize;

use super::Acme;
use crate::value::{
    acme::Email,
    either::TextOr,
    label::{FilePath, HeaderName, HostName, SuiteName},
    quantity::AnySeconds,
    word::Word,
};

/// TLS of client connections.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[schemars(extend("anyOf" = [{ "required": ["certificates"] }, { "required": ["acme"] }]))]
pub(crate) struct ListenerTls {
    /// PEM files with a private key and its certificate chain, or tables with separate files. Of
    /// those for the server name (SNI) of the client, the first is used whose signatures the client
    /// can verify: one for the name itself before one with a wildcard. If the client can verify
    /// none of them, the first of these is used; if none is for that name, the first of all. At
    /// least one, unless there is `acme`.
    pub(crate) certificates: Key<Vec<At<TextOr<FilePath, Certificate>>>>,
    /// Certificates by ACME: the email address for an account with Let's Encrypt, or a table. They
    /// take precedence over `certificates`, which are used until ACME has issued.
    pub(crate) acme: Key<TextOr<Email, Acme>>,
    /// CA certificates that verify client certificates, which have to be of X.509 version 3. If
    /// omitted, clients are not asked for one.
    pub(crate) client_authorities: Key<Text<FilePath>>,
    /// Whether clients without a certificate are rejected. Only with `client_authorities`.
    #[schemars(extend("default" = true))]
    pub(crate) client_required: Key<bool>,
    /// Header that tells servers the subject of the client's certificate in the form of RFC 4514:
    /// `CN=alice,O=Example`. A header of this name from a client never reaches a server.
    #[schemars(extend("examples" = ["X-Client-Subject"]))]
    pub(crate) client_subject_header: Key<Text<HeaderName>>,
    /// Whether clients may resume their TLS session without a full handshake. Sessions stay good
    /// over a reload that changes neither the TLS settings of the listener nor its certificates and
    /// authorities, and end with a restart or upgrade. A session ends too when a certificate that
    /// its client has shown expires.
    #[schemars(extend("default" = true))]
    pub(crate) resumption: Key<bool>,
    /// Whether returning clients of HTTP/3 may send requests with their first packet (0-RTT), which
    /// saves a round trip. An attacker can record that packet and send it again: switch it on only
    /// if no GET changes anything. GET, HEAD, OPTIONS and TRACE reach servers with `Early-Data: 1`
    /// (RFC 8470), to which a server may respond 425; other methods wait for the handshake. Not
    /// with `client_authorities`.
    #[schemars(extend("default" = false))]
    pub(crate) early_data: Key<bool>,
    /// HSTS (RFC 6797), for `https`: how long browsers use only TLS after a response, in whole
    /// seconds, or a table. All responses have the header, those of loadline itself too; it
    /// replaces that of a server.
    #[schemars(extend("examples" = ["365d"]))]
    pub(crate) hsts: Key<TextOr<AnySeconds, Hsts>>,
    /// Minimum TLS version.
    #[schemars(extend("default" = "1.2"))]
    pub(crate) min_version: Key<Text<Word<TlsVersion>>>,
    /// Cipher suites, the preferred one first. Those of TLS 1.2 need a certificate with a key of
    /// their kind, ECDSA or RSA. Default: all safe ones.
    #[schemars(extend("examples" = [["TLS13_AES_128_GCM_SHA256"]]))]
    pub(crate) suites: Key<Vec<Text<SuiteName>>>,
}

/// The header `Strict-Transport-Security`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[schemars(extend("required" = ["max_age"]))]
pub(crate) struct Hsts {
    /// How long browsers use only TLS, from each response on, in whole seconds; "0s" revokes it.
    pub(crate) max_age: Key<Text<AnySeconds>>,
    /// Whether HSTS applies to all subdomains of the host too.
    #[schemars(extend("default" = false))]
    pub(crate) include_subdomains: Key<bool>,
    /// Whether browsers may preload HSTS before the first visit (hstspreload.org). This needs a
    /// `max_age` of at least a year and `include_subdomains`, and is hard to revoke.
    #[schemars(extend("default" = false))]
    pub(crate) preload: Key<bool>,
}

/// TLS of server connections.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(crate) struct ServerTls {
    /// CA certificates to trust instead of the system's.
    pub(crate) authorities: Key<Text<FilePath>>,
    /// Whether certificates of servers are verified. If not, a man in the middle can read the
    /// traffic.
    #[schemars(extend("default" = true))]
    pub(crate) verify: Key<bool>,
    /// Server name for SNI and verification. Default: the host name or address of each server as
    /// the file has it; with `discover` the address.
    pub(crate) name: Key<Text<HostName>>,
    /// Client certificate for servers that request one.
    pub(crate) certificate: Key<TextOr<FilePath, ClientCertificate>>,
    /// Minimum TLS version.
    #[schemars(extend("default" = "1.2"))]
    pub(crate) min_version: Key<Text<Word<TlsVersion>>>,
    /// Cipher suites, the preferred one first. Default: all safe ones.
    #[schemars(extend("examples" = [["TLS13_AES_128_GCM_SHA256"]]))]
    pub(crate) suites: Key<Vec<Text<SuiteName>>>,
}

/// A certificate in separate PEM files.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[schemars(extend("required" = ["chain"]))]
pub(crate) struct Certificate {
    /// PEM file of the certificate chain: the certificate, then intermediate ones.
    pub(crate) chain: Key<Text<FilePath>>,
    /// PEM file of the private key. Default: the file of `chain`.
    pub(crate) key: Key<Text<FilePath>>,
    /// File of an OCSP response (DER) to staple.
    pub(crate) ocsp: Key<Text<FilePath>>,
}

/// A client certificate in separate PEM files.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[schemars(extend("required" = ["chain"]))]
pub(crate) struct ClientCertificate {
    /// PEM file of the certificate chain: the certificate, then intermediate ones.
    pub(crate) chain: Key<Text<FilePath>>,
    /// PEM file of the private key. Default: the file of `chain`.
    pub(crate) key: Key<Text<FilePath>>,
}
