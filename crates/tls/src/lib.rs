//! Verification of the certificate of a server, for every crate that is a TLS client.
//!
//! A [`Verifier`] decides as rustls does, except that the certificate of a server may be that of
//! an authority (CA:TRUE, as `openssl req -x509` makes it) if it is trusted itself.
#![forbid(unsafe_code)]

use std::sync::Arc;

use rustls::{
    CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_cert_signed_by_trust_anchor, verify_server_name,
    },
    crypto::{
        CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
    },
    pki_types::{CertificateDer, ServerName, UnixTime},
    server::ParsedCertificate,
};
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// Verifies the certificate of a server, and that the server has the key to it.
#[derive(Debug)]
pub struct Verifier {
    /// Those that it trusts; none where it trusts every certificate.
    authorities: Option<Arc<RootCertStore>>,
    algorithms: WebPkiSupportedAlgorithms,
    map: MapRefusal,
}

/// From a certificate that is refused and the reason to the reason that is told.
pub type MapRefusal = fn(&CertificateDer<'_>, Error) -> Error;

impl Verifier {
    /// Trusts what these authorities have signed, and their own certificates.
    #[must_use]
    pub fn trusting(authorities: impl Into<Arc<RootCertStore>>, provider: &CryptoProvider) -> Self {
        Self { authorities: Some(authorities.into()), ..Self::trusting_all(provider) }
    }

    /// Trusts every certificate; its holder must still have the key to it.
    #[must_use]
    pub fn trusting_all(provider: &CryptoProvider) -> Self {
        let algorithms = provider.signature_verification_algorithms;
        Self { authorities: None, algorithms, map: |_, error| error }
    }

    /// Tells what `map` makes of the reason for which a certificate is refused.
    #[must_use]
    pub fn map_refusals(self, map: MapRefusal) -> Self {
        Self { map, ..self }
    }

    fn verify(
        &self,
        authorities: &RootCertStore,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<(), Error> {
        let parsed = ParsedCertificate::try_from(certificate)?;
        let signed = verify_server_cert_signed_by_trust_anchor(
            &parsed, authorities, intermediates, now, self.algorithms.all,
        );
        match signed {
            // Its dates have been found right before, and nothing else.
            Err(error) if is_of_authority(&error) && is_among(certificate, authorities) => {
                verify_purpose(certificate)?;
            }
            signed => signed?,
        }
        verify_server_name(&parsed, name)
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if let Some(authorities) = &self.authorities {
            let verified = self.verify(authorities, certificate, intermediates, name, now);
            verified.map_err(|error| (self.map)(certificate, error))?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// Whether nothing but this was found: CA:TRUE, as `openssl req -x509` writes it.
#[must_use]
pub fn is_of_authority(error: &Error) -> bool {
    let Error::InvalidCertificate(CertificateError::Other(why)) = error else { return false };
    matches!(why.0.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity))
}

/// Whether a certificate has the name and the key of one of the authorities.
fn is_among(certificate: &CertificateDer<'_>, authorities: &RootCertStore) -> bool {
    let mut own = RootCertStore::empty();
    let is_read = own.add(certificate.clone()).is_ok();
    is_read && own.roots.iter().all(|it| authorities.roots.contains(it))
}

/// Whether a certificate is for servers, or does not say for what it is.
fn verify_purpose(certificate: &CertificateDer<'_>) -> Result<(), CertificateError> {
    let parsed = X509Certificate::from_der(certificate);
    let (_, parsed) = parsed.map_err(|_| CertificateError::BadEncoding)?;
    let uses = parsed.extended_key_usage().map_err(|_| CertificateError::BadEncoding)?;
    let is_for_servers = uses.is_none_or(|uses| uses.value.server_auth || uses.value.any);
    if is_for_servers { Ok(()) } else { Err(CertificateError::InvalidPurpose) }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rcgen::{
        BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
        date_time_ymd,
    };
    use rustls::crypto::aws_lc_rs;

    use super::*;

    /// As `openssl req -x509` makes them, for two years.
    fn self_signed(name: &str, purposes: &[ExtendedKeyUsagePurpose]) -> CertificateDer<'static> {
        let mut params = CertificateParams::new(["server.test".to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = purposes.to_vec();
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2022, 1, 1);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone()
    }

    fn trusting(authority: &CertificateDer<'static>) -> Verifier {
        let mut roots = RootCertStore::empty();
        roots.add(authority.clone()).unwrap();
        Verifier::trusting(roots, &aws_lc_rs::default_provider())
    }

    fn verify(
        verifier: &Verifier,
        certificate: &CertificateDer<'static>,
        name: &'static str,
        day: u64,
    ) -> Result<(), Error> {
        let now = UnixTime::since_unix_epoch(Duration::from_secs(day * 86_400));
        let name = ServerName::try_from(name).unwrap();
        verifier.verify_server_cert(certificate, &[], &name, &[], now).map(drop)
    }

    const IN_2021: u64 = 18_700;
    const IN_2023: u64 = 19_400;

    #[test]
    fn a_self_signed_certificate_of_an_authority_is_accepted_where_it_is_trusted_itself() {
        let [own, namesake] = [0; 2].map(|_| self_signed("server.test", &[]));
        let verifier = trusting(&own);
        assert_eq!(verify(&verifier, &own, "server.test", IN_2021), Ok(()));
        let other = verify(&verifier, &own, "other.test", IN_2021).unwrap_err();
        let Error::InvalidCertificate(why) = &other else { panic!("{other}") };
        assert!(matches!(why, CertificateError::NotValidForNameContext { .. }), "{other}");
        let late = verify(&verifier, &own, "server.test", IN_2023).unwrap_err();
        let Error::InvalidCertificate(why) = &late else { panic!("{late}") };
        assert!(matches!(why, CertificateError::ExpiredContext { .. }), "{late}");
        for stranger in [namesake, self_signed("other.test", &[])] {
            let refused = verify(&trusting(&stranger), &own, "server.test", IN_2021).unwrap_err();
            assert!(is_of_authority(&refused), "{refused}");
        }
    }

    #[test]
    fn a_trusted_certificate_of_an_authority_that_is_for_clients_is_not_one_of_a_server() {
        use ExtendedKeyUsagePurpose::{Any, ClientAuth, ServerAuth};
        let refused = Err(Error::InvalidCertificate(CertificateError::InvalidPurpose));
        for (purposes, expected) in [
            (vec![ClientAuth], refused),
            (vec![ClientAuth, ServerAuth], Ok(())),
            (vec![Any], Ok(())),
        ] {
            let own = self_signed("server.test", &purposes);
            let verified = verify(&trusting(&own), &own, "server.test", IN_2021);
            assert_eq!(verified, expected, "{purposes:?}");
        }
    }

    #[test]
    fn a_refusal_is_told_as_it_is_mapped() {
        let own = self_signed("server.test", &[]);
        let verifier = trusting(&self_signed("other.test", &[]));
        let verifier = verifier.map_refusals(|_, _| CertificateError::Revoked.into());
        let refused = Err(Error::InvalidCertificate(CertificateError::Revoked));
        assert_eq!(verify(&verifier, &own, "server.test", IN_2021), refused);
    }

    #[test]
    fn every_certificate_is_accepted_where_all_are_trusted() {
        let verifier = Verifier::trusting_all(&aws_lc_rs::default_provider());
        let own = self_signed("server.test", &[]);
        assert_eq!(verify(&verifier, &own, "other.test", IN_2023), Ok(()));
    }
}
