//! Who signs tokens, and what lets in whom it names.

use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use loadline_core::jwt::{Jwt, Key, KeySet, KeySource, Material};

/// Signs tokens.
pub(crate) struct Issuer(Ed25519KeyPair);

impl Issuer {
    pub(crate) fn new() -> Self {
        Self(Ed25519KeyPair::generate().unwrap())
    }

    /// A token with these claims that counts for an hour.
    pub(crate) fn token(&self, claims: &str) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        self.signed(&format!("{{\"exp\":{},\"iss\":\"us\"{claims}}}", now + 3_600))
    }

    pub(crate) fn signed(&self, payload: &str) -> String {
        let parts = ["{\"alg\":\"EdDSA\",\"kid\":\"a\"}", payload];
        let input = parts.map(|part| BASE64_URL_SAFE_NO_PAD.encode(part)).join(".");
        let signature = BASE64_URL_SAFE_NO_PAD.encode(self.0.sign(input.as_bytes()));
        format!("{input}.{signature}")
    }

    /// Lets in whom it names.
    pub(crate) fn jwt(&self) -> Jwt {
        let key = Key {
            id: Some("a".to_owned()),
            algorithm: None,
            material: Material::Ed25519(self.0.public_key().as_ref().to_vec()),
        };
        let keys = Arc::new(KeySet::new(vec![key]));
        let keys = KeySource::File { path: "jwks.json".to_owned(), keys };
        Jwt { issuer: Some("us".to_owned()), ..Jwt::new("api".to_owned(), keys) }
    }
}
