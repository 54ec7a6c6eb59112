//! A certificate that an authority has issued, and the keys and requests for one.

use instant_acme::CertificateIdentifier;
use loadline_core::acme::Lifetime;
use rcgen::{CertificateParams, CustomExtension, DistinguishedName, KeyPair};
use rustls::{
    crypto::aws_lc_rs,
    pki_types::{
        CertificateDer, CertificateSigningRequestDer, PrivateKeyDer, ServerName, UnixTime,
        pem::PemObject as _,
    },
    sign::CertifiedKey,
};
use webpki::EndEntityCert;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::{Pair, fault::Fault};

/// What is known of a certificate that is held.
#[derive(Clone, Debug)]
pub(super) struct Issued {
    pub(super) lifetime: Lifetime,
    /// A draw that stays the same for this certificate.
    pub(super) draw: u64,
    /// Its identifier for renewal information (RFC 9773); none if it has none.
    pub(super) identifier: Option<CertificateIdentifier<'static>>,
}

impl Issued {
    /// That of a file with its key, if clients can be shown it for `name`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn read(pem: &str, name: &str) -> Result<Self, Fault> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
        let chain = chain.map_err(|_| Fault::refused("the certificate is not PEM"))?;
        let key = PrivateKeyDer::from_pem_slice(pem.as_bytes());
        let key = key.map_err(|_| Fault::refused("the key is not PEM"))?;
        let Some(first) = chain.first().cloned() else {
            return Err(Fault::refused("there is no certificate"));
        };
        let server = ServerName::try_from(name).map_err(Fault::refused)?;
        let certificate = EndEntityCert::try_from(&first);
        let certificate = certificate.map_err(|_| Fault::refused("the certificate is damaged"))?;
        if certificate.verify_is_valid_for_subject_name(&server).is_err() {
            let names: Vec<_> = certificate.valid_dns_names().collect();
            let names = if names.is_empty() { "no name".to_owned() } else { names.join(", ") };
            return Err(Fault::refused(format!("it is for {names}, not for `{name}`")));
        }
        CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider())
            .map_err(Fault::refused)?;
        let (_, parsed) = X509Certificate::from_der(&first).map_err(Fault::refused)?;
        let seconds = |at: i64| u64::try_from(at).unwrap_or(0);
        let validity = parsed.validity();
        // No two signatures end alike, and nobody chooses how one does.
        let signature = &parsed.signature_value.data;
        let draw = signature.iter().rev().take(8).fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        Ok(Self {
            lifetime: Lifetime {
                not_before_s: seconds(validity.not_before.timestamp()),
                not_after_s: seconds(validity.not_after.timestamp()),
                suggested: None,
            },
            draw,
            identifier: CertificateIdentifier::try_from(&first).ok(),
        })
    }
}

/// A new key, in PEM.
pub(super) fn new_key() -> Result<String, Fault> {
    Ok(KeyPair::generate().map_err(Fault::local)?.serialize_pem())
}

/// A request for a certificate for `name` with this key.
pub(super) fn request(
    name: &str,
    key: &str,
) -> Result<CertificateSigningRequestDer<'static>, Fault> {
    let key = KeyPair::from_pem(key).map_err(Fault::refused)?;
    let mut params = CertificateParams::new([name.to_owned()]).map_err(Fault::refused)?;
    params.distinguished_name = DistinguishedName::new();
    Ok(params.serialize_request(&key).map_err(Fault::local)?.der().clone())
}

/// What tls-alpn-01 is answered with (RFC 8737, section 3): `digest` is that of the key
/// authorization.
pub(super) fn validation(name: &str, digest: &[u8]) -> Result<Pair, Fault> {
    let key = KeyPair::generate().map_err(Fault::local)?;
    let mut params = CertificateParams::new([name.to_owned()]).map_err(Fault::refused)?;
    params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
    let certificate = params.self_signed(&key).map_err(Fault::local)?;
    let private = PrivateKeyDer::try_from(key.serialize_der()).map_err(Fault::local)?;
    Ok((certificate.der().clone(), private))
}

/// Seconds since 1970.
pub(super) fn now_s() -> u64 {
    UnixTime::now().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_for_other_names_is_refused_with_the_names_that_it_is_for() {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["b.test".to_owned(), "*.c.test".to_owned()]).unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let pem = format!("{}\n{}", key.serialize_pem().trim_end(), certificate.pem());
        assert!(Issued::read(&pem, "b.test").is_ok());
        let fault = Issued::read(&pem, "a.test").unwrap_err();
        assert_eq!(fault.why, "it is for b.test, *.c.test, not for `a.test`");
    }
}
