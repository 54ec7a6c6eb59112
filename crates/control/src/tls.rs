//! Connections of our own over TLS: what is trusted, and what is wrong with one, in words.

use std::{fs, io, path::Path, sync::Arc};

use loadline_core::decide::reason::Reason;
use loadline_tls::Verifier;
use rustls::{
    CertificateError, ClientConfig, ConfigBuilder, Error, InvalidMessage, RootCertStore,
    client::WantsClientCert,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, pem::PemObject as _},
};

/// What the configuration of a client begins with that trusts these authorities.
///
/// # Errors
/// What the TLS library says.
pub(crate) fn trusting(
    authorities: RootCertStore,
) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, Error> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = Verifier::trusting(authorities, &provider);
    let config =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(config.dangerous().with_custom_certificate_verifier(Arc::new(verifier)))
}

/// The authorities of a file.
///
/// # Errors
/// What is wrong with it, behind its name.
pub(crate) fn authorities(path: &Path) -> Result<RootCertStore, String> {
    let file = fs::read(path).map_err(|error| format!("cannot be read: {error}"))?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&file).collect();
    let found = found.map_err(|_| "holds no whole certificate in PEM")?;
    if found.is_empty() {
        return Err("holds no `-----BEGIN CERTIFICATE-----`".to_owned());
    }
    let mut roots = RootCertStore::empty();
    for certificate in found {
        roots.add(certificate).map_err(|_| "holds a certificate that is not X.509")?;
    }
    Ok(roots)
}

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
        CertificateError::InvalidPurpose => Reason::CertificatePurpose,
        CertificateError::BadEncoding => Reason::CertificateEncoding,
        CertificateError::UnhandledCriticalExtension => Reason::CertificateExtension,
        CertificateError::UnsupportedSignatureAlgorithmContext { .. }
        | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            Reason::CertificateAlgorithm
        }
        CertificateError::Other(other) => match other.0.downcast_ref() {
            Some(webpki::Error::CaUsedAsEndEntity) => Reason::CertificateOfAuthority,
            Some(webpki::Error::UnsupportedCertVersion) => Reason::CertificateVersion,
            _ => Reason::CertificateInvalid,
        },
        _ => return None,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Write as _;

    use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, KeyPair};
    use rustls::{OtherError, ServerConfig, pki_types::PrivateKeyDer};
    use tempfile::NamedTempFile;
    use tokio_rustls::TlsAcceptor;

    use super::*;

    /// A server with a certificate as `openssl req -x509` makes it for 127.0.0.1, with these
    /// purposes where there are any, and the file of that certificate.
    pub(crate) fn self_signed(
        purposes: &[ExtendedKeyUsagePurpose],
    ) -> (TlsAcceptor, NamedTempFile) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.extended_key_usages = purposes.to_vec();
        let certificate = params.self_signed(&key).unwrap();
        let mut file = NamedTempFile::new().unwrap();
        file.write_all(certificate.pem().as_bytes()).unwrap();
        let provider = Arc::new(aws_lc_rs::default_provider());
        let config =
            ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap();
        let config = config.unwrap().with_no_client_auth();
        let config = config.with_single_cert(vec![certificate.der().clone()], key).unwrap();
        (TlsAcceptor::from(Arc::new(config)), file)
    }

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
