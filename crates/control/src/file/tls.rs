//! TLS in the file, towards clients and towards servers. Paths name PEM files.

use loadline_core::fleet::TlsVersion;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{
    place::{At, Key},
    value::{
        either::TextOr,
        label::{FilePath, HeaderName, Host, SuiteName},
        quantity::{AnyTime, TimeOrOff},
        text::Text,
        word::Word,
    },
};

/// TLS towards clients.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[schemars(extend("required" = ["certificates"]))]
pub(crate) struct ListenerTls {
    /// Files with a key and its certificate chain, or tables that name them apart. The name a
    /// client asks for decides which is shown, the first where none fits. At least one.
    pub(crate) certificates: Key<Vec<At<TextOr<FilePath, Certificate>>>>,
    /// Authorities that sign clients' certificates. Clients are asked for none if omitted.
    pub(crate) client_authorities: Key<Text<FilePath>>,
    /// Whether a client without a certificate is turned away.
    #[schemars(extend("default" = true))]
    pub(crate) client_required: Key<bool>,
    /// The header that tells servers the subject of a client's certificate, as RFC 4514 writes it:
    /// `CN=alice,O=Example`. What a client sends by this name never reaches a server.
    #[schemars(extend("examples" = ["X-Client-Subject"]))]
    pub(crate) client_subject_header: Key<Text<HeaderName>>,
    /// Whether clients that come back may resume their session and spare a full handshake.
    #[schemars(extend("default" = true))]
    pub(crate) resumption: Key<bool>,
    /// HSTS (RFC 6797), for `https`: who has had a response comes in clear no more for this long.
    /// Each response says so, in the place of what a server says, those of loadline itself
    /// included.
    #[schemars(extend("examples" = ["365d"]))]
    pub(crate) hsts: Key<TextOr<AnyTime, Hsts>>,
    /// The oldest version spoken.
    #[schemars(extend("default" = "1.2"))]
    pub(crate) min_version: Key<Text<Word<TlsVersion>>>,
    /// Cipher suites, the preferred one first; all safe ones if omitted.
    #[schemars(extend("examples" = [["TLS13_AES_128_GCM_SHA256"]]))]
    pub(crate) suites: Key<Vec<Text<SuiteName>>>,
}

/// What the header `Strict-Transport-Security` says.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[schemars(extend("required" = ["max_age"]))]
pub(crate) struct Hsts {
    /// For how long it holds, counted from each response, in whole seconds; "0s" takes it back.
    pub(crate) max_age: Key<TimeOrOff>,
    /// Whether it holds for every name below the host as well.
    #[schemars(extend("default" = false))]
    pub(crate) include_subdomains: Key<bool>,
    /// Whether browsers may know it before their first visit (hstspreload.org): that takes a year
    /// at least and all names below, and is hard to take back.
    #[schemars(extend("default" = false))]
    pub(crate) preload: Key<bool>,
}

/// TLS towards servers.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(crate) struct ServerTls {
    /// Authorities trusted instead of the system's.
    pub(crate) authorities: Key<Text<FilePath>>,
    /// Whether servers' certificates are verified. Without it anybody on the way can read along.
    #[schemars(extend("default" = true))]
    pub(crate) verify: Key<bool>,
    /// The name asked for and verified. If omitted that of each server as it is written, a host
    /// name or an address; of servers that are listed elsewhere (`discover`) the address.
    pub(crate) name: Key<Text<Host>>,
    /// What is shown to servers that ask for a certificate.
    pub(crate) certificate: Key<TextOr<FilePath, Certificate>>,
    /// The oldest version spoken.
    #[schemars(extend("default" = "1.2"))]
    pub(crate) min_version: Key<Text<Word<TlsVersion>>>,
    /// Cipher suites, the preferred one first; all safe ones if omitted.
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
    /// Its key; the file of the chain if omitted.
    pub(crate) key: Key<Text<FilePath>>,
    /// An OCSP response (DER) to staple.
    pub(crate) ocsp: Key<Text<FilePath>>,
}
