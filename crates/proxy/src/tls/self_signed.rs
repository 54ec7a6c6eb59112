//! Recognizes a self-signed certificate of a server.

use std::sync::Arc;

use loadline_core::decide::reason::Reason;
use loadline_tls::is_of_authority;
use rustls::{CertificateError, Error, OtherError, pki_types::CertificateDer};
use webpki::EndEntityCert;

/// Why a certificate is refused: of an unknown issuer, whether that is the server itself.
pub(super) fn tell_apart(certificate: &CertificateDer<'_>, error: Error) -> Error {
    let is_unknown = matches!(error, Error::InvalidCertificate(CertificateError::UnknownIssuer));
    if (is_unknown || is_of_authority(&error)) && is_self_signed(certificate) {
        return CertificateError::Other(OtherError(Arc::new(Reason::SelfSigned))).into();
    }
    error
}

fn is_self_signed(certificate: &CertificateDer<'_>) -> bool {
    EndEntityCert::try_from(certificate).is_ok_and(|it| it.issuer() == it.subject())
}

#[cfg(test)]
mod tests {
    use std::{io, time::Duration};

    use loadline_tls::Verifier;
    use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, KeyPair, date_time_ymd};
    use rustls::{
        RootCertStore,
        client::danger::ServerCertVerifier as _,
        crypto::aws_lc_rs,
        pki_types::{ServerName, UnixTime},
    };

    use super::*;
    use crate::telemetry::reason;

    /// As `openssl req -x509` makes them where `is_ca`, for two years.
    fn self_signed(name: &str, is_ca: bool) -> CertificateDer<'static> {
        let mut params = CertificateParams::new(["server.test".to_owned()]).unwrap();
        if is_ca {
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        }
        params.distinguished_name.push(DnType::CommonName, name);
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2022, 1, 1);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone()
    }

    fn verify(
        certificate: &CertificateDer<'static>,
        authority: &CertificateDer<'static>,
        name: &'static str,
        day: u64,
    ) -> Result<(), Reason> {
        let mut roots = RootCertStore::empty();
        roots.add(authority.clone()).unwrap();
        let verifier = Verifier::trusting(roots, &aws_lc_rs::default_provider());
        let verifier = verifier.map_refusals(tell_apart);
        let now = UnixTime::since_unix_epoch(Duration::from_secs(day * 86_400));
        let name = ServerName::try_from(name).unwrap();
        let verified = verifier.verify_server_cert(certificate, &[], &name, &[], now);
        let of_io =
            |error: Error| reason::of_io(&io::Error::new(io::ErrorKind::InvalidData, error));
        verified.map(drop).map_err(of_io)
    }

    const IN_2021: u64 = 18_700;
    const IN_2023: u64 = 19_400;

    #[test]
    fn a_self_signed_certificate_that_is_not_trusted_is_told_as_such() {
        let [own, namesake] = [0; 2].map(|_| self_signed("server.test", true));
        let other = self_signed("other.test", true);
        let of_no_authority = self_signed("third.test", false);
        for (certificate, authority) in
            [(&own, &namesake), (&own, &other), (&of_no_authority, &own)]
        {
            let verified = verify(certificate, authority, "server.test", IN_2021);
            assert_eq!(verified, Err(Reason::SelfSigned));
        }
        assert_eq!(verify(&own, &own, "server.test", IN_2021), Ok(()));
        assert_eq!(verify(&own, &own, "other.test", IN_2021), Err(Reason::WrongName));
        assert_eq!(verify(&own, &own, "server.test", IN_2023), Err(Reason::CertificateExpired));
    }
}
