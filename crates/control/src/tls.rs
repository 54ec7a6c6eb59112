//! What is wrong with a connection of our own over TLS, in words.

use std::io;

use loadline_core::decide::reason::Reason;
use rustls::{CertificateError, Error, InvalidMessage};

/// What the error says, in words where the TLS library has the names of its code.
pub(crate) fn in_words(error: &io::Error) -> String {
    match error.get_ref().and_then(|inner| inner.downcast_ref()) {
        Some(Error::InvalidCertificate(why)) => match of_certificate(why) {
            Some(reason) => format!("invalid peer certificate: {reason}"),
            None => error.to_string(),
        },
        Some(Error::InvalidMessage(InvalidMessage::InvalidContentType)) => {
            Reason::NotTls.text().to_owned()
        }
        _ => error.to_string(),
    }
}

/// The reason for what the library does not tell in words of its own.
fn of_certificate(error: &CertificateError) -> Option<Reason> {
    Some(match error {
        CertificateError::UnknownIssuer => Reason::UnknownIssuer,
        CertificateError::BadSignature => Reason::CertificateSignature,
        CertificateError::BadEncoding => Reason::CertificateEncoding,
        CertificateError::UnhandledCriticalExtension => Reason::CertificateExtension,
        CertificateError::UnsupportedSignatureAlgorithmContext { .. }
        | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            Reason::CertificateAlgorithm
        }
        CertificateError::Other(other) => match other.0.downcast_ref() {
            Some(webpki::Error::CaUsedAsEndEntity) => Reason::CertificateOfAuthority,
            _ => Reason::CertificateInvalid,
        },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::OtherError;

    use super::*;

    #[test]
    fn a_certificate_that_is_not_trusted_is_told_in_words_and_not_by_names_of_code() {
        let of_authority = OtherError(Arc::new(webpki::Error::CaUsedAsEndEntity));
        let told = |error| in_words(&io::Error::new(io::ErrorKind::InvalidData, error));
        assert_eq!(
            told(Error::InvalidCertificate(CertificateError::Other(of_authority))),
            "invalid peer certificate: certificate of an authority (CA:TRUE) used by a server"
        );
        assert_eq!(
            told(Error::InvalidCertificate(CertificateError::UnknownIssuer)),
            "invalid peer certificate: unable to get local issuer certificate: unknown authority"
        );
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        assert_eq!(in_words(&refused), refused.to_string());
    }
}
