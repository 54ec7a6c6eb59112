//! Checking the certificate of a server, and telling one that vouches for itself apart.

use std::sync::Arc;

use loadline_core::decide::reason::Reason;
use rustls::{
    CertificateError, DigitallySignedStruct, Error, OtherError, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    pki_types::{CertificateDer, ServerName, UnixTime},
};
use webpki::EndEntityCert;

/// Decides as rustls does, and says of an unknown issuer whether it is the server itself.
#[derive(Debug)]
pub(super) struct Verified(pub(super) Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for Verified {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = self.0.verify_server_cert(certificate, intermediates, name, ocsp, now);
        verified.map_err(|error| match error {
            Error::InvalidCertificate(CertificateError::UnknownIssuer)
                if is_self_signed(certificate) =>
            {
                let why = OtherError(Arc::new(Reason::SelfSigned));
                Error::InvalidCertificate(CertificateError::Other(why))
            }
            error => error,
        })
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

fn is_self_signed(certificate: &CertificateDer<'_>) -> bool {
    EndEntityCert::try_from(certificate).is_ok_and(|it| it.issuer() == it.subject())
}
