//! JSON Web Tokens: which bearers may ask.

use loadline_core::jwt::Algorithm;
use loadline_spanned::{Key, Named, Text};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::value::{
    label::{FilePath, HeaderName},
    one_or_more::OneOrMore,
    quantity::Within,
    secret::Realm,
    token::{ClaimText, KeyPlace},
    word::Word,
};

/// JSON Web Tokens (RFC 7519) as bearer tokens (RFC 6750). A request without a token that is right
/// gets 401, one whose token lacks `claims` gets 403, and neither costs a server anything.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[schemars(extend("required" = ["keys"]))]
pub(crate) struct Jwt {
    /// The keys that verify tokens, a JWK Set (RFC 7517): a file, which is read again at a reload,
    /// or the URL where the issuer publishes them, which is fetched at the start, again as its
    /// `Cache-Control` says (between a minute and an hour), and when a token names a key that is
    /// not known. `use`, `key_ops` and `alg` of a key count.
    #[schemars(extend("examples" = ["/etc/loadline/jwks.json"]))]
    pub(crate) keys: Key<Text<KeyPlace>>,
    /// CA certificates to trust instead of the system's, for a URL by https.
    #[schemars(extend("examples" = ["tls/localhost.pem"]))]
    pub(crate) ca: Key<Text<FilePath>>,
    /// Whose tokens count: what `iss` has to be. Default: those of anybody that a key has signed.
    #[schemars(extend("examples" = ["https://issuer.example.com/"]))]
    pub(crate) issuer: Key<Text<ClaimText>>,
    /// For whom a token has to be: what `aud` has to be or, as a list, to have one of. Default: for
    /// anybody.
    #[schemars(extend("examples" = ["https://api.example.com"]))]
    pub(crate) audience: Key<OneOrMore<ClaimText>>,
    /// How tokens may be signed. Default: all of these, each with keys of its kind alone; HS256,
    /// HS384 and HS512 are for secrets (`kty` `oct`) in a file.
    #[schemars(extend("examples" = [["RS256", "ES256"]]))]
    pub(crate) algorithms: Key<OneOrMore<Word<Algorithm>>>,
    /// By how much the clocks of issuers may be wrong, for `exp`, `nbf` and `iat`.
    #[schemars(extend("default" = "60s"))]
    pub(crate) leeway: Key<Text<Within<loadline_core::time::Duration, 0, HOUR>>>,
    /// Whether a token has to have an end (`exp`).
    #[schemars(extend("default" = true))]
    pub(crate) require_exp: Key<bool>,
    /// Claims that a token has to have, with the value or the values one of which will do; a list
    /// in the token has to have one of them, and so do the words of `scope`. Dots lead into
    /// objects: `"realm_access.roles"`. A token that is right but has them not gets 403.
    #[schemars(extend("examples" = [{ "role": "admin" }]))]
    pub(crate) claims: Key<Named<OneOrMore<ClaimText>>>,
    /// A header with the token, with or without `Bearer` before it. Default: `Authorization`.
    #[schemars(extend("examples" = ["X-Token"]))]
    pub(crate) header: Key<Text<HeaderName>>,
    /// A cookie with the token, instead of a header.
    #[schemars(extend("examples" = ["session"]))]
    pub(crate) cookie: Key<Text<HeaderName>>,
    /// The name of what is protected, as clients are told in `WWW-Authenticate`.
    #[schemars(extend("default" = "loadline"))]
    pub(crate) realm: Key<Text<Realm>>,
    /// Whether servers get the header with the token. They can be told claims by
    /// `request_headers = { set = { X-User = "$jwt_claim_sub" } }`.
    #[schemars(extend("default" = true))]
    pub(crate) pass_authorization: Key<bool>,
}

/// In nanoseconds: more would be no leeway.
const HOUR: u64 = 3_600_000_000_000;
