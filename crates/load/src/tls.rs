//! TLS as a client: whom to trust, what to show, which versions.
//!
//! Made once for a run from the switches of [`Tls`], so that a file that cannot be used is told
//! before the first request. Sessions are resumed as rustls does by default.

use std::{
    fmt, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use loadline_tls::Verifier;
use rustls::{
    ClientConfig, ProtocolVersion, RootCertStore, SupportedProtocolVersion,
    client::WantsClientCert,
    crypto::aws_lc_rs,
    pki_types::{
        CertificateDer, PrivateKeyDer, ServerName,
        pem::{self, PemObject},
    },
};
use tokio_rustls::TlsConnector;

use crate::{
    http1::Failure,
    outcome::Outcome,
    target::Target,
    transport::{Protocol, Tls, TlsVersion, Transport},
};

/// Why TLS cannot be spoken as asked.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file of certificates or keys cannot be read.
    #[error("cannot read the {what} in `{}`: it must be a PEM file", path.display())]
    File {
        /// What should be in it.
        what: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// What was wrong with it.
        source: pem::Error,
    },
    /// A file holds no certificate that can be used.
    #[error("`{}` holds no {what}; one begins with -----BEGIN CERTIFICATE-----", path.display())]
    Empty {
        /// What should be in it.
        what: &'static str,
        /// Path of the file.
        path: PathBuf,
    },
    /// The system has no CA certificates.
    #[error("the system has no trusted authorities; name a file of them, or verify nothing")]
    NoAuthorities,
    /// A key was given without a certificate.
    #[error("a client's key needs the client's certificate as well")]
    LoneKey,
    /// The certificate and the key are not a pair.
    #[error("the client's certificate and key cannot be used together")]
    Pair(#[source] rustls::Error),
    /// A name that no certificate can be for.
    #[error("`{name}` is no name or address that a certificate can be for")]
    Name {
        /// The name as it was given.
        name: String,
    },
    /// The library lacks what every QUIC connection begins with.
    #[error("QUIC is not available: it needs TLS13_AES_128_GCM_SHA256")]
    Quic,
    /// The library refuses the versions asked for.
    #[error("this version of TLS is not available")]
    Version(#[source] rustls::Error),
}

/// What opens TLS on a connection as `transport` says, speaking `protocol` above it.
///
/// # Errors
/// [`TlsError`] where a file or the pair of certificate and key cannot be used.
pub(crate) fn connector(
    transport: &Transport,
    protocol: Protocol,
) -> Result<TlsConnector, TlsError> {
    Ok(TlsConnector::from(config(transport, protocol)?))
}

/// The client's side of TLS, as [`connector`].
///
/// # Errors
/// As [`connector`].
pub(crate) fn config(
    transport: &Transport,
    protocol: Protocol,
) -> Result<Arc<ClientConfig>, TlsError> {
    let tls = &transport.tls;
    let provider = Arc::new(aws_lc_rs::default_provider());
    // The first random number of a process takes some 100 ms, in which its source is filled: here,
    // and not in the first handshake, whose time is measured. Where it fails the handshake says so.
    let _ = provider.secure_random.fill(&mut [0; 32]);
    let only = if protocol == Protocol::Http3 { Some(TlsVersion::V13) } else { tls.version };
    let verifier = match tls.insecure {
        true => Verifier::trusting_all(&provider),
        false => Verifier::trusting(authorities(tls)?, &provider),
    };
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions(only))
        .map_err(TlsError::Version)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    let mut config = with_client_certificate(builder, tls)?;
    let offered: &[&[u8]] = match protocol {
        Protocol::Auto => &[ALPN_HTTP2, ALPN_HTTP1],
        Protocol::Http1 => &[ALPN_HTTP1],
        Protocol::Http2 => &[ALPN_HTTP2],
        Protocol::Http3 => &[ALPN_HTTP3],
    };
    config.alpn_protocols = offered.iter().map(|name| name.to_vec()).collect();
    Ok(Arc::new(config))
}

/// Whether a certificate can be for this name.
#[must_use]
pub fn is_server_name(name: &str) -> bool {
    ServerName::try_from(name).is_ok()
}

/// The name that the server of `target` must have a certificate for.
///
/// # Errors
/// [`TlsError::Name`] where it can be none.
pub(crate) fn server_name(target: &Target, tls: &Tls) -> Result<ServerName<'static>, TlsError> {
    let name = tls.server_name.as_deref().unwrap_or_else(|| target.host());
    ServerName::try_from(name.to_owned()).map_err(|_| TlsError::Name { name: name.to_owned() })
}

/// The class of a connection whose TLS ended in this error. An alert is the server's refusal; what
/// rustls itself finds wrong, a certificate above all, is a bad response.
pub(crate) fn outcome_of(error: &io::Error) -> Outcome {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(rustls::Error::AlertReceived(_)) => Outcome::ConnectRefused,
        Some(_) => Outcome::BadAnswer,
        None => Outcome::Reset,
    }
}

/// What a connection failed by whose TLS ended in this error.
pub(crate) fn failure_of(error: &io::Error) -> Failure {
    match outcome_of(error) {
        Outcome::Reset => Failure::Ended(Outcome::Reset),
        outcome => Failure::WithReason(outcome, in_words(error)),
    }
}

/// As [`failure_of`], of an error from the h2 crate, which keeps its kind and its text alone.
pub(crate) fn failure_by_text(error: &io::Error) -> Failure {
    let reason = in_words(error);
    match error.kind() {
        io::ErrorKind::InvalidData if reason.starts_with(ALERT) => {
            Failure::WithReason(Outcome::ConnectRefused, reason)
        }
        io::ErrorKind::InvalidData => Failure::WithReason(Outcome::BadAnswer, reason),
        _ => Failure::Ended(Outcome::Reset),
    }
}

/// What an error of the TLS library says, and in words where that is a name of its code.
pub(crate) fn in_words(error: &dyn fmt::Display) -> String {
    let of_other = |name| format!("Other(OtherError({name}))");
    error
        .to_string()
        .replace(&of_other(OF_AUTHORITY), "it is that of a certificate authority, not of a server")
        .replace(&of_other(OF_OLD_VERSION), "it is of X.509 version 1, and version 3 is needed")
        .replace(OF_OTHER_PURPOSE, "it is not for a server")
}

/// The version spoken; none before a handshake.
pub(crate) fn version_of(spoken: Option<ProtocolVersion>) -> Option<TlsVersion> {
    match spoken? {
        ProtocolVersion::TLSv1_2 => Some(TlsVersion::V12),
        ProtocolVersion::TLSv1_3 => Some(TlsVersion::V13),
        _ => None,
    }
}

fn versions(only: Option<TlsVersion>) -> &'static [&'static SupportedProtocolVersion] {
    match only {
        None => rustls::ALL_VERSIONS,
        Some(TlsVersion::V12) => &ONLY_12,
        Some(TlsVersion::V13) => &ONLY_13,
    }
}

fn authorities(tls: &Tls) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    if let Some(path) = &tls.authorities {
        let (added, _) = roots.add_parsable_certificates(certificates(AUTHORITIES, path)?);
        if added == 0 {
            return Err(TlsError::Empty { what: AUTHORITIES, path: path.clone() });
        }
        return Ok(roots);
    }
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() { Err(TlsError::NoAuthorities) } else { Ok(roots) }
}

fn with_client_certificate(
    builder: rustls::ConfigBuilder<ClientConfig, WantsClientCert>,
    tls: &Tls,
) -> Result<ClientConfig, TlsError> {
    let Some(certificate) = &tls.certificate else {
        let lone = tls.key.is_some();
        return if lone { Err(TlsError::LoneKey) } else { Ok(builder.with_no_client_auth()) };
    };
    let chain = certificates("client's certificate", certificate)?;
    let path = tls.key.as_ref().unwrap_or(certificate);
    let key = PrivateKeyDer::from_pem_file(path).map_err(|source| TlsError::File {
        what: "client's key",
        path: path.clone(),
        source,
    })?;
    builder.with_client_auth_cert(chain, key).map_err(TlsError::Pair)
}

fn certificates(what: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let failed = |source| TlsError::File { what, path: path.to_owned(), source };
    let found = CertificateDer::pem_file_iter(path).map_err(failed)?;
    let found = found.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    if found.is_empty() {
        return Err(TlsError::Empty { what, path: path.to_owned() });
    }
    Ok(found)
}

/// What HTTP/2 over TLS is called in the handshake (RFC 9113, section 3.1).
pub(crate) const ALPN_HTTP2: &[u8] = b"h2";

/// RFC 9114, section 3.1.
const ALPN_HTTP3: &[u8] = b"h3";

const ALPN_HTTP1: &[u8] = b"http/1.1";

static ONLY_12: [&SupportedProtocolVersion; 1] = [&rustls::version::TLS12];
static ONLY_13: [&SupportedProtocolVersion; 1] = [&rustls::version::TLS13];

const AUTHORITIES: &str = "authorities";

/// What webpki calls it.
const OF_AUTHORITY: &str = "CaUsedAsEndEntity";

/// As `openssl x509 -req` makes it where no extensions are given.
const OF_OLD_VERSION: &str = "UnsupportedCertVersion";

/// What rustls calls a certificate that is for clients alone, for example.
const OF_OTHER_PURPOSE: &str = "InvalidPurpose";

/// How the TLS library begins to say what the other side found wrong.
const ALERT: &str = "received fatal alert";

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::{CertificateError, OtherError};

    #[test]
    fn an_error_that_went_through_h2_is_of_the_class_that_it_was() {
        let alert = rustls::AlertDescription::CertificateRequired;
        let errors = [rustls::Error::AlertReceived(alert), rustls::Error::DecryptError];
        for error in errors.map(|error| io::Error::new(io::ErrorKind::InvalidData, error)) {
            let through_h2 = io::Error::new(error.kind(), error.to_string());
            assert_eq!(failure_by_text(&through_h2), failure_of(&error));
            assert!(matches!(failure_of(&error), Failure::WithReason(..)), "{error}");
        }
        let reset = io::ErrorKind::ConnectionReset.into();
        assert_eq!(failure_by_text(&reset), failure_of(&reset));
    }

    #[test]
    fn a_certificate_that_no_server_may_have_is_told_in_words() {
        for (error, expected) in [
            (
                webpki::Error::CaUsedAsEndEntity,
                "invalid peer certificate: it is that of a certificate authority, not of a server",
            ),
            (
                webpki::Error::UnsupportedCertVersion,
                "invalid peer certificate: it is of X.509 version 1, and version 3 is needed",
            ),
        ] {
            let other = CertificateError::Other(OtherError(Arc::new(error)));
            assert_eq!(in_words(&rustls::Error::InvalidCertificate(other)), expected);
        }
        let revoked = rustls::Error::InvalidCertificate(CertificateError::Revoked);
        assert_eq!(in_words(&revoked), revoked.to_string());
    }
}
