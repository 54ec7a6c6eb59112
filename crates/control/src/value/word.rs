//! Words: a value that is one of a few, each with its meaning.

use loadline_core::{
    cluster::WhenAway,
    compress,
    fleet::{
        Class, Family, Forwarded, HashKey, HttpVersion, LogField, LogFormat, Overflow, PolicyKind,
        Protocol, ProxyVersion, QuicCongestion, SameSite, Then, TlsVersion, UnderscoreHeaders,
        WhenFull,
        acme::{Challenge, Storage},
        forwarding::{Method, XdpMode},
    },
    jwt::Algorithm,
    rules::MapKind,
};
use loadline_spanned::{Complaint, Keyword, Textual};
use schemars::Schema;

use crate::{
    admin::Detail,
    file::{CredentialSource, Forward, Found, Repeated, Scheme, Spoken},
    suggest::Configuration,
};

/// One of the words of `T`.
#[derive(Clone, Debug)]
pub(crate) struct Word<T>(pub(crate) T);

impl<T: Keyword<Configuration>> Textual for Word<T> {
    fn expected() -> String {
        T::expected()
    }

    fn read(text: &str) -> Result<Self, Complaint> {
        T::find(text).map(Self)
    }

    fn schema() -> Schema {
        T::schema()
    }
}

impl Keyword<Configuration> for PolicyKind {
    const WHAT: &'static str = "a policy";

    fn words() -> Vec<(&'static str, Self, &'static str)> {
        Self::ALL.iter().map(|policy| (policy.name(), *policy, policy.meaning())).collect()
    }
}

impl Keyword<Configuration> for Challenge {
    const WHAT: &'static str = "a challenge";

    fn words() -> Vec<(&'static str, Self, &'static str)> {
        vec![
            ("http-01", Self::Http01, "A request to port 80 of the name (RFC 8555)."),
            (
                "tls-alpn-01",
                Self::TlsAlpn01,
                "A TLS handshake with port 443 of the name (RFC 8737).",
            ),
        ]
    }
}

impl Keyword<Configuration> for Storage {
    const WHAT: &'static str = "a certificate storage";

    fn words() -> Vec<(&'static str, Self, &'static str)> {
        vec![
            ("disk", Self::Disk, "The `state_dir` of this edge alone."),
            (
                "cluster",
                Self::Cluster,
                "The store of `[cluster]`: one edge gets them, all use them.",
            ),
        ]
    }
}

impl Keyword<Configuration> for HashKey {
    const WHAT: &'static str = "a hash key";

    fn words() -> Vec<(&'static str, Self, &'static str)> {
        vec![
            ("client-address", Self::ClientAddress, "The client's IP address."),
            ("path", Self::Path, "Path and query."),
        ]
    }
}

impl Keyword<Configuration> for Overflow {
    const WHAT: &'static str = "a rule of overflow";

    fn words() -> Vec<(&'static str, Self, &'static str)> {
        vec![
            ("capacity", Self::Capacity, "When the group is at its limit."),
            (
                "soonest",
                Self::Soonest,
                "When the expected wait near exceeds the extra round trip to a farther group.",
            ),
        ]
    }
}

impl Keyword<Configuration> for Repeated {
    const WHAT: &'static str = "a response to retry";

    fn words() -> Vec<(&'static str, Self, &'static str)> {
        vec![("5xx", Self::ServerErrors, "A status from 500 to 599.")]
    }
}

impl Keyword<Configuration> for WhenFull {
    const WHAT: &'static str = "a rule for full groups";

    fn words() -> Vec<(&'static str, Self, &'static str)> {
        vec![
            ("spread", Self::Spread, "Send over capacity, in proportion to it."),
            ("shed", Self::Shed, "Answer 503 with Retry-After at once."),
        ]
    }
}

impl Keyword<Configuration> for WhenAway {
    const WHAT: &'static str = "a rule for edges without the store";

    fn words() -> Vec<(&'static str, Self, &'static str)> {
        vec![
            ("floor", Self::Floor, "Its `floor`: no group gets more than its capacity."),
            ("keep", Self::Keep, "Its last share, which other edges may also be given."),
        ]
    }
}

impl Keyword<Configuration> for compress::Algorithm {
    const WHAT: &'static str = "an algorithm";

    fn words() -> Vec<(&'static str, Self, &'static str)> {
        vec![
            ("zstd", Self::Zstd, "Zstandard: the least CPU time for the same size."),
            ("gzip", Self::Gzip, "What every client understands."),
            ("br", Self::Brotli, "Brotli: the smallest at high levels, the slowest at low ones."),
        ]
    }
}

impl Keyword<Configuration> for Then {
    const WHAT: &'static str = "a rule for a full queue";

    fn words() -> Vec<(&'static str, Self, &'static str)> {
        vec![
            ("shed", Self::Shed, "Answer 503 with Retry-After."),
            ("spread", Self::Spread, "Send over capacity, in proportion to it."),
        ]
    }
}

impl Keyword<Configuration> for Spoken {
    const WHAT: &'static str = "a protocol";

    fn words() -> Vec<(&'static str, Self, &'static str)> {
        let proxied = [
            (Protocol::Http, "HTTP/1.0, HTTP/1.1 and HTTP/2 in clear."),
            (Protocol::Https, "As `http`, over TLS; needs `tls`."),
            (Protocol::Tcp, "TCP: bytes both ways, one server for each connection."),
            (Protocol::Tls, "As `tcp`, over TLS that ends here; needs `tls`."),
            (
                Protocol::TlsPassthrough,
                "TLS that ends at the servers; only the server name is read, for `names`.",
            ),
        ];
        let proxied = proxied.map(|(word, meaning)| (word.name(), Self::Proxied(word), meaning));
        let udp = ("udp", Self::Udp, "UDP; only with `forward`.");
        proxied.into_iter().chain([udp]).collect()
    }
}

impl Keyword<Configuration> for Forward {
    const WHAT: &'static str = "a forwarding method";

    fn words() -> Vec<(&'static str, Self, &'static str)> {
        let proxy = "Client connections end here; loadline opens its own to servers.";
        let mac = "Packets go unchanged to the server's MAC address (direct server return). \
                   Servers are on the same network, have the service address on their loopback, \
                   and respond to clients directly.";
        let nat = "Addresses are rewritten, from one of `l4.return_addresses`; responses come back \
                   here. Servers need no setup.";
        let ipip = "Packets go through an IPIP tunnel to servers on any network, which respond to \
                    clients directly.";
        vec![
            ("proxy", Self::Proxy, proxy),
            ("mac", Self::By(Method::Mac), mac),
            ("nat", Self::By(Method::Nat), nat),
            ("ipip", Self::By(Method::Ipip), ipip),
        ]
    }
}

impl Keyword<Configuration> for Detail {
    const WHAT: &'static str = "a level of detail";

    fn words() -> Vec<(&'static str, Self, &'static str)> {
        let groups = "No series with a label `server`: for thousands of servers, each of which \
                      has a dozen.";
        vec![("servers", Self::Servers, "All series."), ("groups", Self::Groups, groups)]
    }
}

impl Keyword<Configuration> for XdpMode {
    const WHAT: &'static str = "an XDP mode";

    fn words() -> Vec<(&'static str, Self, &'static str)> {
        vec![
            (
                "auto",
                Self::Auto,
                "The first of native, generic and tcx that works; on a veth not native.",
            ),
            ("native", Self::Native, "In the network driver, before the kernel's network stack."),
            ("generic", Self::Generic, "In the network stack: with any driver, slower."),
            (
                "tcx",
                Self::Tcx,
                "In traffic control: works with GSO packets and checksum offload, as in virtual \
                 machines and containers.",
            ),
        ]
    }
}

impl Keyword<Configuration> for Class {
    const WHAT: &'static str = "a class of requests";

    fn words() -> Vec<(&'static str, Self, &'static str)> {
        vec![
            ("high", Self::High, "Served before all others."),
            ("normal", Self::Normal, "Between high and low."),
            ("low", Self::Low, "Refused first."),
        ]
    }
}

impl Keyword<Configuration> for Found {
    const WHAT: &'static str = "a capacity";

    fn words() -> Vec<(&'static str, Self, &'static str)> {
        vec![
            ("auto", Self::Auto, "Requests in flight up to where more bring no more responses."),
            ("none", Self::None, "No limit is found: all requests are sent."),
        ]
    }
}

impl Keyword<Configuration> for CredentialSource {
    const WHAT: &'static str = "a source of credentials";

    fn words() -> Vec<(&'static str, Self, &'static str)> {
        vec![
            (
                "default",
                Self::Default,
                "As the AWS SDKs find them: environment, shared files, web identity, the \
                 container or the instance.",
            ),
            ("anonymous", Self::Anonymous, "None: requests are not signed."),
        ]
    }
}

impl Keyword<Configuration> for SameSite {
    const WHAT: &'static str = "a SameSite value";

    fn words() -> Vec<(&'static str, Self, &'static str)> {
        vec![
            ("lax", Self::Lax, "Sent where the user follows a link."),
            ("strict", Self::Strict, "Never sent."),
            ("none", Self::None, "Always sent; needs `secure`."),
        ]
    }
}

impl Keyword<Configuration> for Scheme {
    const WHAT: &'static str = "a scheme";

    fn words() -> Vec<(&'static str, Self, &'static str)> {
        vec![("http", Self::Http, "In clear."), ("https", Self::Https, "Over TLS.")]
    }
}

impl Keyword<Configuration> for ProxyVersion {
    const WHAT: &'static str = "a version of the PROXY protocol";

    fn words() -> Vec<(&'static str, Self, &'static str)> {
        vec![("v1", Self::V1, "A line of text."), ("v2", Self::V2, "A binary header.")]
    }
}

impl Keyword<Configuration> for HttpVersion {
    const WHAT: &'static str = "a version of HTTP";

    fn words() -> Vec<(&'static str, Self, &'static str)> {
        vec![
            ("1.1", Self::Http11, "One request after another on a connection."),
            ("2", Self::Http2, "Many at a time: over TLS by ALPN, in clear by prior knowledge."),
        ]
    }
}

impl Keyword<Configuration> for TlsVersion {
    const WHAT: &'static str = "a version of TLS";

    fn words() -> Vec<(&'static str, Self, &'static str)> {
        vec![("1.2", Self::V12, "TLS 1.2 and 1.3."), ("1.3", Self::V13, "TLS 1.3 alone.")]
    }
}

impl Keyword<Configuration> for LogField {
    const WHAT: &'static str = "a log field";

    fn words() -> Vec<(&'static str, Self, &'static str)> {
        let meaning = |field| match field {
            Self::Host => "The host the client asked for.",
            Self::Scheme => "`http` or `https`, as the client came.",
            Self::Listener => "The address of the listener, as the file has it.",
            Self::ServerName => "The server name of the client's TLS (SNI).",
            Self::User => "The user of `basic_auth`, or the subject of a token of `jwt`.",
            Self::TlsVersion => "The version of TLS towards the client.",
            Self::TlsCipher => "The cipher suite towards the client.",
            Self::ClientCertificate => "The subject of the client's certificate (RFC 4514).",
            Self::RequestId => {
                "The id of the request, as `$request_id` in headers: that of a trusted proxy \
                 (`X-Request-Id`), or a new one."
            }
            Self::Cache => {
                "What the cache did: hit, stale, revalidated, collapsed, miss or bypass."
            }
            Self::OverflowReason => {
                "Why the request went past the nearest group: max-rate, out and others."
            }
        };
        Self::ALL.map(|field| (field.name(), field, meaning(field))).into()
    }
}

impl Keyword<Configuration> for Algorithm {
    const WHAT: &'static str = "an algorithm of signatures";

    fn words() -> Vec<(&'static str, Self, &'static str)> {
        let meaning = |algorithm| match algorithm {
            Self::Rs256 => "RSA (PKCS #1 v1.5) with SHA-256.",
            Self::Rs384 => "RSA (PKCS #1 v1.5) with SHA-384.",
            Self::Rs512 => "RSA (PKCS #1 v1.5) with SHA-512.",
            Self::Ps256 => "RSA (PSS) with SHA-256.",
            Self::Ps384 => "RSA (PSS) with SHA-384.",
            Self::Ps512 => "RSA (PSS) with SHA-512.",
            Self::Es256 => "ECDSA with P-256 and SHA-256.",
            Self::Es384 => "ECDSA with P-384 and SHA-384.",
            Self::Es512 => "ECDSA with P-521 and SHA-512.",
            Self::EdDsa => "Ed25519.",
            Self::Hs256 => "HMAC with SHA-256, for a secret of 32 bytes or more.",
            Self::Hs384 => "HMAC with SHA-384, for a secret of 48 bytes or more.",
            Self::Hs512 => "HMAC with SHA-512, for a secret of 64 bytes or more.",
        };
        Self::ALL.map(|algorithm| (algorithm.name(), algorithm, meaning(algorithm))).into()
    }
}

impl Keyword<Configuration> for LogFormat {
    const WHAT: &'static str = "a log format";

    fn words() -> Vec<(&'static str, Self, &'static str)> {
        vec![
            ("text", Self::Text, "Fields separated by spaces."),
            (
                "combined",
                Self::Combined,
                "The Combined Log Format, followed by the ending and times.",
            ),
            ("json", Self::Json, "An object of JSON."),
        ]
    }
}

impl Keyword<Configuration> for Family {
    const WHAT: &'static str = "a family of addresses";

    fn words() -> Vec<(&'static str, Self, &'static str)> {
        vec![
            (
                "prefer-ipv4",
                Self::PreferV4,
                "IPv4; IPv6 where there is none, since a host with both is one server.",
            ),
            ("ipv4", Self::V4, "IPv4 alone."),
            ("ipv6", Self::V6, "IPv6 alone."),
            ("all", Self::All, "Both; each address is a server."),
        ]
    }
}

impl Keyword<Configuration> for Forwarded {
    const WHAT: &'static str = "a forwarding header";

    fn words() -> Vec<(&'static str, Self, &'static str)> {
        vec![
            ("x-forwarded", Self::XForwarded, "`X-Forwarded-For`, `-Proto` and `-Host`."),
            ("rfc7239", Self::Rfc7239, "The `Forwarded` header of RFC 7239."),
            ("off", Self::Off, "None; headers of `trusted_proxies` pass through."),
        ]
    }
}

impl Keyword<Configuration> for MapKind {
    const WHAT: &'static str = "a kind of map";

    fn words() -> Vec<(&'static str, Self, &'static str)> {
        vec![
            ("exact", Self::Exact, "The text equals the key."),
            ("prefix", Self::Prefix, "The text begins with the key; the longest key wins."),
            ("suffix", Self::Suffix, "The text ends with the key; the longest key wins."),
            ("regex", Self::Regex, "The key is a regular expression; the first match wins."),
        ]
    }
}

impl Keyword<Configuration> for QuicCongestion {
    const WHAT: &'static str = "a congestion control algorithm";

    fn words() -> Vec<(&'static str, Self, &'static str)> {
        vec![
            ("bbr", Self::Bbr, "BBR: by the delivery rate; losses do not slow it down."),
            ("cubic", Self::Cubic, "CUBIC: by losses, as TCP; slow if packets are lost by chance."),
        ]
    }
}

impl Keyword<Configuration> for UnderscoreHeaders {
    const WHAT: &'static str = "a rule for headers with an underscore";

    fn words() -> Vec<(&'static str, Self, &'static str)> {
        vec![
            ("drop", Self::Drop, "They are dropped before any rule."),
            ("refuse", Self::Refuse, "The request gets 400."),
            ("keep", Self::Keep, "They are passed on."),
        ]
    }
}
