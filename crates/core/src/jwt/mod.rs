//! JSON Web Tokens (RFC 7519): which are accepted, and the response to all others.
//!
//! ```text
//! token --signature, by a key that fits--> times, issuer, audience --> required claims --> in
//!            | no                              | no                       | no
//!            v                                 v                          v
//!           401                               401                        403
//! ```
//! A signature is verified elsewhere, with the keys that [`KeySet::fitting`] gives. It comes before
//! the claims, although those are cheaper to check: the response to a token that nobody has signed
//! says nothing of the issuer or the audience that are right, whatever the token says of itself.
//! Nor would it save much: whoever wants to cost us a signature writes a token whose claims are
//! right.

mod claims;
mod keys;
mod refresh;

use alloc::{
    borrow::ToOwned as _,
    format,
    string::{String, ToString as _},
    sync::Arc,
    vec::Vec,
};

use crate::{
    decide::reason::Reason,
    rules::{DirectResponse, Template},
    time::Duration,
};

pub use claims::{Claims, RequiredClaim};
pub use keys::{Algorithm, Curve, KEYS_MAX, Key, KeySet, Material, Unusable};
pub use refresh::Refresh;

/// Which bearers of tokens may ask for what a listener or a route has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Jwt {
    /// What is protected, as clients are told.
    pub realm: String,
    /// Who signs tokens.
    pub keys: KeySource,
    /// Whose tokens count (`iss`); anybody's that a key has signed if omitted.
    pub issuer: Option<String>,
    /// For whom a token has to be (`aud`), one of these; for anybody if there are none.
    pub audiences: Vec<String>,
    /// How tokens may be signed.
    pub algorithms: Vec<Algorithm>,
    /// By how much other clocks may be wrong.
    pub leeway: Duration,
    /// Whether a token has to have an end (`exp`).
    pub requires_exp: bool,
    /// Claims that a token must have besides; 403 without them.
    pub claims: Vec<RequiredClaim>,
    /// Where the token is in a request.
    pub place: TokenPlace,
    /// Whether servers get the header with the token.
    pub pass_authorization: bool,
}

impl Jwt {
    /// Lets in whoever has a token of the `Authorization` header that one of `keys` has signed, by
    /// any algorithm, and that ends (with a leeway of 60 s).
    #[must_use]
    pub fn new(realm: String, keys: KeySource) -> Self {
        Self {
            realm,
            keys,
            issuer: None,
            audiences: Vec::new(),
            algorithms: Algorithm::ALL.into(),
            leeway: Duration::from_secs(60),
            requires_exp: true,
            claims: Vec::new(),
            place: TokenPlace::Authorization,
            pass_authorization: true,
        }
    }
}

/// Where the keys are that verify tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// In a file.
    File {
        /// Path of the file with the key set.
        path: String,
        /// Keys in the file when the configuration was read.
        keys: Arc<KeySet>,
    },
    /// Where their issuer publishes them.
    Url(KeyUrl),
}

/// Where an issuer publishes its keys.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyUrl {
    /// By `https`, or by `http`.
    pub url: String,
    /// A file with the authorities that are trusted; those of the system if omitted.
    pub authorities: Option<String>,
}

/// Where a request has its token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenPlace {
    /// In `Authorization`, behind `Bearer` (RFC 6750).
    Authorization,
    /// In this header, with or without `Bearer`.
    Header(String),
    /// In this cookie.
    Cookie(String),
}

/// What the header of a token says of its signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signed {
    /// How it is signed.
    pub algorithm: Algorithm,
    /// With which key, if it says so (`kid`).
    pub key_id: Option<String>,
}

/// Why the bearer of a token is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is no token.
    #[error("a token is needed")]
    Missing,
    /// Of two a server might believe the other one.
    #[error("more than one token")]
    Several,
    /// It is longer than [`TOKEN_MAX`].
    #[error("the token is too long")]
    TooLong,
    /// It does not have three parts, or they are invalid.
    #[error("the token is malformed")]
    Malformed,
    /// `none`, or one that is not known or not allowed.
    #[error("the algorithm of the token is not allowed")]
    Algorithm,
    /// It is to be understood in a way that is not (`crit`).
    #[error("the token has a critical extension")]
    Critical,
    /// No key has the id that it names.
    #[error("the key of the token is not known")]
    UnknownKey,
    /// The signature matches no fitting key.
    #[error("the signature of the token is wrong")]
    Signature,
    /// It never expires.
    #[error("the token has no end")]
    NoExp,
    /// It has expired.
    #[error("the token has expired")]
    Expired,
    /// It is not valid yet, or was issued in the future.
    #[error("the token is not valid yet")]
    NotYet,
    /// It has another issuer.
    #[error("the token is of another issuer")]
    Issuer,
    /// It is for another audience.
    #[error("the token is for another audience")]
    Audience,
    /// It is valid, but lacks required claims.
    #[error("the token has not the claims that are needed")]
    Claims,
}

impl Jwt {
    /// Whether these claims, whose signature is right, let their bearer in at `now_s`, in seconds
    /// since 1970.
    ///
    /// # Errors
    /// The first of them that does not.
    pub fn judge(&self, claims: &Claims, now_s: i64) -> Result<(), Refusal> {
        let leeway_s = self.leeway_s();
        let latest_s = now_s.saturating_add(leeway_s);
        match claims.exp {
            None if self.requires_exp => return Err(Refusal::NoExp),
            Some(exp) if exp.saturating_add(leeway_s) <= now_s => return Err(Refusal::Expired),
            _ => {}
        }
        if claims.nbf.is_some_and(|nbf| nbf > latest_s)
            || claims.iat.is_some_and(|iat| iat > latest_s)
        {
            return Err(Refusal::NotYet);
        }
        if self.issuer.as_ref().is_some_and(|issuer| claims.values("iss") != [issuer.as_str()]) {
            return Err(Refusal::Issuer);
        }
        let is_for_us = |audience: &String| self.audiences.contains(audience);
        if !self.audiences.is_empty() && !claims.values("aud").iter().any(is_for_us) {
            return Err(Refusal::Audience);
        }
        let has_all = self.claims.iter().all(|required| required.is_met_by(claims));
        if has_all { Ok(()) } else { Err(Refusal::Claims) }
    }

    /// Until when claims that are right now stay so, in seconds since 1970.
    #[must_use]
    pub fn right_until_s(&self, claims: &Claims) -> i64 {
        claims.exp.map_or(i64::MAX, |exp| exp.saturating_add(self.leeway_s()))
    }

    /// The header that has the token, unless it is a cookie.
    #[must_use]
    pub fn header(&self) -> Option<&str> {
        match &self.place {
            TokenPlace::Authorization => Some("Authorization"),
            TokenPlace::Header(name) => Some(name),
            TokenPlace::Cookie(_) => None,
        }
    }

    /// The response to whoever is not let in (RFC 6750, section 3).
    #[must_use]
    pub fn challenge(&self, refusal: Refusal) -> DirectResponse {
        let realm = self.realm.replace('\\', "\\\\").replace('"', "\\\"");
        let mut value = format!("Bearer realm=\"{realm}\"");
        let (status, body, error) = match refusal {
            Refusal::Missing => (401, "Unauthorized\n", None),
            Refusal::Claims => (403, "Forbidden\n", Some("insufficient_scope")),
            _ => (401, "Unauthorized\n", Some("invalid_token")),
        };
        if let Some(error) = error {
            value.push_str(&format!(", error=\"{error}\", error_description=\"{refusal}\""));
        }
        let headers = [("WWW-Authenticate".to_owned(), Template::literal(&value))];
        DirectResponse { status, headers: Vec::from(headers), body: body.to_string() }
    }

    fn leeway_s(&self) -> i64 {
        i64::try_from(self.leeway.as_nanos() / 1_000_000_000).unwrap_or(i64::MAX)
    }
}

impl KeySource {
    /// The path of the file, or the URL.
    #[must_use]
    pub fn place(&self) -> &str {
        match self {
            Self::File { path, .. } => path,
            Self::Url(KeyUrl { url, .. }) => url,
        }
    }
}

impl Refusal {
    /// The reason that it is counted under.
    #[must_use]
    pub const fn reason(self) -> Reason {
        match self {
            Self::Missing => Reason::NoToken,
            Self::Several | Self::TooLong | Self::Malformed | Self::Critical => {
                Reason::TokenMalformed
            }
            Self::Algorithm | Self::UnknownKey | Self::Signature => Reason::TokenSignature,
            Self::Expired => Reason::TokenExpired,
            Self::NoExp | Self::NotYet | Self::Issuer | Self::Audience => Reason::TokenClaims,
            Self::Claims => Reason::TokenInsufficient,
        }
    }
}

/// The longest token that is read, in bytes: those of a directory with hundreds of groups have
/// 10 kB.
pub const TOKEN_MAX: usize = 16 << 10;

#[cfg(test)]
mod tests;
