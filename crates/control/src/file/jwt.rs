//! JSON Web Tokens: which bearers may ask.

use loadline_core::jwt::Algorithm;
use loadline_spanned::{Key, Named, Text};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::value::{
    label::{FilePath, HeaderName},
    one_or_more::OneOrMore,
    quantity::WholeSeconds,
    secret::Realm,
    token::{ClaimText, KeyPlace},
    word::Word,
};

/// JWT authentication: JSON Web Tokens (RFC 7519) as bearer tokens (RFC 6750). A request without a
/// valid token gets 401, one whose token lacks `claims` gets 403, and neither reaches a server.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[schemars(extend("required" = ["keys"]))]
pub(crate) struct Jwt {
    /// Keys that verify tokens, a JWK Set (RFC 7517). A file is read again at a reload. A URL,
    /// where the issuer publishes its keys, is fetched at the start, again as its `Cache-Control`
    /// says (between a minute and an hour), and when a token names an unknown key. `use`, `key_ops`
    /// and `alg` of keys are respected.
    #[schemars(extend("examples" = ["/etc/loadline/jwks.json"]))]
    pub(crate) keys: Key<Text<KeyPlace>>,
    /// CA certificates to trust instead of the system's, for a URL with `https`.
    #[schemars(extend("examples" = ["tls/localhost.pem"]))]
    pub(crate) ca: Key<Text<FilePath>>,
    /// Required issuer: the value of `iss`. Default: any.
    #[schemars(extend("examples" = ["https://issuer.example.com/"]))]
    pub(crate) issuer: Key<Text<ClaimText>>,
    /// Required audience: `aud` has to be, or as a list to contain, one of these. Default: any.
    #[schemars(extend("examples" = ["https://api.example.com"]))]
    pub(crate) audience: Key<OneOrMore<ClaimText>>,
    /// Accepted signature algorithms. Default: all of these, each with keys of its own kind only;
    /// HS256, HS384 and HS512 are for secrets (`kty` `oct`) in a file.
    #[schemars(extend("examples" = [["RS256", "ES256"]]))]
    pub(crate) algorithms: Key<OneOrMore<Word<Algorithm>>>,
    /// Clock skew that is tolerated in `exp`, `nbf` and `iat`, in whole seconds.
    #[schemars(extend("default" = "60s"))]
    pub(crate) leeway: Key<Text<WholeSeconds<0, HOUR>>>,
    /// Whether a token has to have an expiration time (`exp`).
    #[schemars(extend("default" = true))]
    pub(crate) require_exp: Key<bool>,
    /// Required claims, by name, each with a value or several of which one is enough. If the claim
    /// is a list in the token, or the words of `scope`, one of its items has to match. Dots lead
    /// into objects: `"realm_access.roles"`. A valid token without these claims gets 403.
    #[schemars(extend("examples" = [{ "role": "admin" }]))]
    pub(crate) claims: Key<Named<OneOrMore<ClaimText>>>,
    /// The header that has the token, with or without `Bearer` before it. Default: `Authorization`.
    #[schemars(extend("examples" = ["X-Token"]))]
    pub(crate) header: Key<Text<HeaderName>>,
    /// The cookie that has the token, instead of a header.
    #[schemars(extend("examples" = ["session"]))]
    pub(crate) cookie: Key<Text<HeaderName>>,
    /// The realm: the name of the protected area, sent to clients in `WWW-Authenticate`.
    #[schemars(extend("default" = "loadline"))]
    pub(crate) realm: Key<Text<Realm>>,
    /// Whether the header with the token is passed to servers. `request_headers = { set = { X-User
    /// = "$jwt_claim_sub" } }` tells them a claim.
    #[schemars(extend("default" = true))]
    pub(crate) pass_authorization: Key<bool>,
}

/// In nanoseconds: more would be no leeway.
const HOUR: u64 = 3_600_000_000_000;
