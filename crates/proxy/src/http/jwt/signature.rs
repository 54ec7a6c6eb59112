//! Signatures of tokens (RFC 7518, section 3).

use aws_lc_rs::{
    hmac,
    signature::{
        ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ECDSA_P521_SHA512_FIXED, ED25519,
        RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512,
        RSA_PSS_2048_8192_SHA256, RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512,
        RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
    },
};
use loadline_core::jwt::{Algorithm, Curve, Key, Material};

/// Whether `key` has made this signature of `input` in this way. It takes tens of microseconds.
pub(super) fn is_by(key: &Key, algorithm: Algorithm, input: &[u8], signature: &[u8]) -> bool {
    let public = |kind: &'static dyn VerificationAlgorithm, bytes: &[u8]| {
        UnparsedPublicKey::new(kind, bytes).verify(input, signature).is_ok()
    };
    match &key.material {
        Material::Rsa { n, e } => rsa(algorithm).is_some_and(|parameters| {
            RsaPublicKeyComponents { n, e }.verify(parameters, input, signature).is_ok()
        }),
        Material::Ec { curve: Curve::P256, point } => public(&ECDSA_P256_SHA256_FIXED, point),
        Material::Ec { curve: Curve::P384, point } => public(&ECDSA_P384_SHA384_FIXED, point),
        Material::Ec { curve: Curve::P521, point } => public(&ECDSA_P521_SHA512_FIXED, point),
        Material::Ed25519(bytes) => public(&ED25519, bytes),
        Material::Secret(secret) => hmac_of(algorithm).is_some_and(|kind| {
            hmac::verify(&hmac::Key::new(kind, secret), input, signature).is_ok()
        }),
    }
}

fn rsa(algorithm: Algorithm) -> Option<&'static RsaParameters> {
    Some(match algorithm {
        Algorithm::Rs256 => &RSA_PKCS1_2048_8192_SHA256,
        Algorithm::Rs384 => &RSA_PKCS1_2048_8192_SHA384,
        Algorithm::Rs512 => &RSA_PKCS1_2048_8192_SHA512,
        Algorithm::Ps256 => &RSA_PSS_2048_8192_SHA256,
        Algorithm::Ps384 => &RSA_PSS_2048_8192_SHA384,
        Algorithm::Ps512 => &RSA_PSS_2048_8192_SHA512,
        _ => return None,
    })
}

fn hmac_of(algorithm: Algorithm) -> Option<hmac::Algorithm> {
    Some(match algorithm {
        Algorithm::Hs256 => hmac::HMAC_SHA256,
        Algorithm::Hs384 => hmac::HMAC_SHA384,
        Algorithm::Hs512 => hmac::HMAC_SHA512,
        _ => return None,
    })
}
