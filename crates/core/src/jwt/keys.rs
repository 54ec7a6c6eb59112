//! Keys that verify tokens (RFC 7517, RFC 7518), and which of them fits a token.
//!
//! A key is of one kind, and each algorithm wants one kind: what a token says of itself can neither
//! make a public key into a secret nor have a signature taken for right that is none.

use alloc::{string::String, vec::Vec};
use core::fmt;

use super::Signed;

/// How a token is signed (RFC 7518, section 3; RFC 8037).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Algorithm {
    /// RSA, PKCS #1 v1.5, SHA-256.
    Rs256,
    /// RSA, PKCS #1 v1.5, SHA-384.
    Rs384,
    /// RSA, PKCS #1 v1.5, SHA-512.
    Rs512,
    /// RSA, PSS, SHA-256.
    Ps256,
    /// RSA, PSS, SHA-384.
    Ps384,
    /// RSA, PSS, SHA-512.
    Ps512,
    /// ECDSA with P-256 and SHA-256.
    Es256,
    /// ECDSA with P-384 and SHA-384.
    Es384,
    /// ECDSA with P-521 and SHA-512.
    Es512,
    /// Ed25519.
    EdDsa,
    /// HMAC with SHA-256.
    Hs256,
    /// HMAC with SHA-384.
    Hs384,
    /// HMAC with SHA-512.
    Hs512,
}

/// A curve of ECDSA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Curve {
    /// NIST P-256.
    P256,
    /// NIST P-384.
    P384,
    /// NIST P-521.
    P521,
}

/// What a signature is verified with.
#[derive(Clone, PartialEq, Eq)]
pub enum Material {
    /// A public key of RSA, both numbers in big-endian order without zeros before them.
    Rsa {
        /// The modulus, big-endian.
        n: Vec<u8>,
        /// The public exponent, big-endian.
        e: Vec<u8>,
    },
    /// A public key of ECDSA.
    Ec {
        /// The elliptic curve that its point is on.
        curve: Curve,
        /// Its point, uncompressed: 4, x, y.
        point: Vec<u8>,
    },
    /// A public key of Ed25519.
    Ed25519(Vec<u8>),
    /// A secret that whoever signs has as well.
    Secret(Vec<u8>),
}

/// A key that verifies tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Its name (`kid`).
    pub id: Option<String>,
    /// The only algorithm it is for; all that fit if omitted.
    pub algorithm: Option<Algorithm>,
    /// The key itself.
    pub material: Material,
}

/// Keys that verify tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeySet {
    keys: Vec<Key>,
}

/// Why a key verifies nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// `use` or `key_ops` say so.
    #[error("it is not for signatures (`use`, `key_ops`)")]
    Use,
    /// A kind that is not known.
    #[error("`kty` or `crv` is none of RSA, EC with P-256, P-384 or P-521, OKP with Ed25519, oct")]
    Kind,
    /// Of no algorithm that is known, or of one for another kind.
    #[error("`alg` is not known, or not for this kind of key")]
    Algorithm,
    /// A member is missing or is not what it should be.
    #[error("`{0}` is missing or damaged")]
    Damaged(&'static str),
    /// RSA below 2048 bits or above 8192.
    #[error("RSA of {0} bits: use 2048 to 8192")]
    Length(usize),
    /// A secret that can be guessed.
    #[error("a secret of {0} bytes can be guessed: use 32 or more, at random")]
    Short(usize),
    /// A secret that everybody can read.
    #[error("a secret that can be fetched is none")]
    Published,
}

impl Algorithm {
    /// Every algorithm.
    pub const ALL: [Self; 13] = [
        Self::Rs256,
        Self::Rs384,
        Self::Rs512,
        Self::Ps256,
        Self::Ps384,
        Self::Ps512,
        Self::Es256,
        Self::Es384,
        Self::Es512,
        Self::EdDsa,
        Self::Hs256,
        Self::Hs384,
        Self::Hs512,
    ];

    /// The name in headers of tokens and in keys.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Rs384 => "RS384",
            Self::Rs512 => "RS512",
            Self::Ps256 => "PS256",
            Self::Ps384 => "PS384",
            Self::Ps512 => "PS512",
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
            Self::Es512 => "ES512",
            Self::EdDsa => "EdDSA",
            Self::Hs256 => "HS256",
            Self::Hs384 => "HS384",
            Self::Hs512 => "HS512",
        }
    }

    /// The algorithm of a name; `Ed25519` is the newer name of the one `EdDSA` that there is
    /// (RFC 9864).
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        let name = if name == "Ed25519" { "EdDSA" } else { name };
        Self::ALL.into_iter().find(|it| it.name() == name)
    }
}

impl Key {
    /// Whether a signature of this algorithm can be by this key. A secret is at least as long as
    /// what it makes (RFC 7518, 3.2).
    #[must_use]
    pub fn fits(&self, algorithm: Algorithm) -> bool {
        use Algorithm::{
            EdDsa, Es256, Es384, Es512, Hs256, Hs384, Hs512, Ps256, Ps384, Ps512, Rs256, Rs384,
            Rs512,
        };
        let is_of_kind = match (&self.material, algorithm) {
            (Material::Rsa { .. }, Rs256 | Rs384 | Rs512 | Ps256 | Ps384 | Ps512)
            | (Material::Ec { curve: Curve::P256, .. }, Es256)
            | (Material::Ec { curve: Curve::P384, .. }, Es384)
            | (Material::Ec { curve: Curve::P521, .. }, Es512)
            | (Material::Ed25519(_), EdDsa) => true,
            (Material::Secret(secret), Hs256) => secret.len() >= 32,
            (Material::Secret(secret), Hs384) => secret.len() >= 48,
            (Material::Secret(secret), Hs512) => secret.len() >= 64,
            _ => false,
        };
        is_of_kind && self.algorithm.is_none_or(|own| own == algorithm)
    }
}

impl KeySet {
    /// A set of these, of which no more than [`KEYS_MAX`] count.
    #[must_use]
    pub fn new(mut keys: Vec<Key>) -> Self {
        keys.truncate(KEYS_MAX);
        Self { keys }
    }

    /// All of them.
    #[must_use]
    pub fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// Whether no token can be right.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The keys that may have signed a token: those with the id that it names, and those that have
    /// none; all where it names none.
    pub fn fitting<'a>(&'a self, signed: &'a Signed) -> impl Iterator<Item = &'a Key> {
        let is_named = |key: &Key| key.id.is_none() || key.id == signed.key_id;
        let fits = move |key: &&Key| {
            (signed.key_id.is_none() || is_named(key)) && key.fits(signed.algorithm)
        };
        self.keys.iter().filter(fits)
    }

    /// Whether a token names a key that is not among them.
    #[must_use]
    pub fn lacks(&self, signed: &Signed) -> bool {
        signed.key_id.is_some() && self.keys.iter().all(|key| key.id != signed.key_id)
    }
}

/// Keys are secret where they are secrets.
impl fmt::Debug for Material {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rsa { .. } => "Rsa",
            Self::Ec { .. } => "Ec",
            Self::Ed25519(_) => "Ed25519",
            Self::Secret(_) => "Secret",
        })
    }
}

/// Keys of one set: issuers have a handful, and a token that names none is tried with all.
pub const KEYS_MAX: usize = 64;
