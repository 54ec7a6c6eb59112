//! Checking the certificate of a server, and telling one that vouches for itself apart.

use std::sync::Arc;

use loadline_core::decide::reason::Reason;
use rustls::{
    CertificateError, DigitallySignedStruct, Error, OtherError, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_name,
    },
    pki_types::{CertificateDer, ServerName, UnixTime},
    server::ParsedCertificate,
};
use webpki::EndEntityCert;
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// Decides as rustls does, except that the certificate of a server may be that of an authority if
/// it is trusted itself, and says of an unknown issuer whether it is the server itself.
#[derive(Debug)]
pub(super) struct Verified {
    pub(super) verifier: Arc<WebPkiServerVerifier>,
    /// Those that it trusts.
    pub(super) authorities: Arc<RootCertStore>,
}

impl Verified {
    /// Whether it has the name and the key of an authority that is trusted.
    fn trusts(&self, certificate: &CertificateDer<'_>) -> bool {
        let mut own = RootCertStore::empty();
        let is_read = own.add(certificate.clone()).is_ok();
        is_read && own.roots.iter().all(|it| self.authorities.roots.contains(it))
    }
}

impl ServerCertVerifier for Verified {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified =
            self.verifier.verify_server_cert(certificate, intermediates, name, ocsp, now);
        let Err(error) = verified else {
            return Ok(ServerCertVerified::assertion());
        };
        let is_authority = is_of_authority(&error);
        // Its dates have been found right before, and nothing else.
        if is_authority && self.trusts(certificate) {
            verify_purpose(certificate).map_err(Error::InvalidCertificate)?;
            verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
            return Ok(ServerCertVerified::assertion());
        }
        let is_unknown =
            matches!(error, Error::InvalidCertificate(CertificateError::UnknownIssuer));
        if (is_authority || is_unknown) && is_self_signed(certificate) {
            let why = OtherError(Arc::new(Reason::SelfSigned));
            return Err(Error::InvalidCertificate(CertificateError::Other(why)));
        }
        Err(error)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}

/// Whether nothing but this was found: CA:TRUE, as `openssl req -x509` writes it.
fn is_of_authority(error: &Error) -> bool {
    let Error::InvalidCertificate(CertificateError::Other(why)) = error else { return false };
    matches!(why.0.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity))
}

/// Whether a certificate is for servers, or does not say for what it is.
fn verify_purpose(certificate: &CertificateDer<'_>) -> Result<(), CertificateError> {
    let parsed = X509Certificate::from_der(certificate);
    let (_, parsed) = parsed.map_err(|_| CertificateError::BadEncoding)?;
    let uses = parsed.extended_key_usage().map_err(|_| CertificateError::BadEncoding)?;
    let is_for_servers = uses.is_none_or(|uses| uses.value.server_auth || uses.value.any);
    if is_for_servers { Ok(()) } else { Err(CertificateError::InvalidPurpose) }
}

fn is_self_signed(certificate: &CertificateDer<'_>) -> bool {
    EndEntityCert::try_from(certificate).is_ok_and(|it| it.issuer() == it.subject())
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
    fn self_signed(name: &str) -> CertificateDer<'static> {
        self_signed_for(name, &[])
    }

    fn self_signed_for(
        name: &str,
        purposes: &[ExtendedKeyUsagePurpose],
    ) -> CertificateDer<'static> {
        let mut params = CertificateParams::new(["server.test".to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = purposes.to_vec();
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2022, 1, 1);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone()
    }

    fn trusting(authority: &CertificateDer<'static>) -> Verified {
        let mut roots = RootCertStore::empty();
        roots.add(authority.clone()).unwrap();
        let authorities = Arc::new(roots);
        let provider = Arc::new(aws_lc_rs::default_provider());
        let verifier =
            WebPkiServerVerifier::builder_with_provider(authorities.clone(), provider).build();
        Verified { verifier: verifier.unwrap(), authorities }
    }

    fn verify(
        certificate: &CertificateDer<'static>,
        authority: &CertificateDer<'static>,
        name: &'static str,
        day: u64,
    ) -> Result<(), Reason> {
        let now = UnixTime::since_unix_epoch(Duration::from_secs(day * 86_400));
        let name = ServerName::try_from(name).unwrap();
        let verified = trusting(authority).verify_server_cert(certificate, &[], &name, &[], now);
        verified.map(drop).map_err(|error| crate::telemetry::reason::of_io(&io_of(error)))
    }

    const IN_2021: u64 = 18_700;
    const IN_2023: u64 = 19_400;

    #[test]
    fn a_self_signed_certificate_of_an_authority_is_accepted_where_it_is_trusted_itself() {
        let (own, namesake) = (self_signed("server.test"), self_signed("server.test"));
        assert_eq!(verify(&own, &own, "server.test", IN_2021), Ok(()));
        assert_eq!(verify(&own, &own, "other.test", IN_2021), Err(Reason::WrongName));
        assert_eq!(verify(&own, &own, "server.test", IN_2023), Err(Reason::CertificateExpired));
        for stranger in [namesake, self_signed("other.test")] {
            assert_eq!(verify(&own, &stranger, "server.test", IN_2021), Err(Reason::SelfSigned));
        }
    }

    #[test]
    fn a_trusted_certificate_of_an_authority_that_is_for_clients_is_not_one_of_a_server() {
        use ExtendedKeyUsagePurpose::{Any, ClientAuth, ServerAuth};
        for (purposes, expected) in [
            (vec![ClientAuth], Err(Reason::CertificatePurpose)),
            (vec![ClientAuth, ServerAuth], Ok(())),
            (vec![Any], Ok(())),
        ] {
            let own = self_signed_for("server.test", &purposes);
            assert_eq!(verify(&own, &own, "server.test", IN_2021), expected, "{purposes:?}");
        }
    }

    fn io_of(error: Error) -> std::io::Error {
        std::io::Error::new(std::io::ErrorKind::InvalidData, error)
    }
}
