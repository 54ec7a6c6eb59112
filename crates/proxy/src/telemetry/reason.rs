//! Maps errors of the kernel, TLS, HTTP/1 and HTTP/2 to reasons.

use std::io;

use loadline_core::decide::{ending::Ending, reason::Reason};
use loadline_http1::ParseError;
use rustix::io::Errno;
use rustls::{
    AlertDescription, CertificateError, Error, InvalidMessage, PeerIncompatible, PeerMisbehaved,
};

/// Why reading from, or writing to, a server failed.
pub(crate) fn of_io(error: &io::Error) -> Reason {
    if let Some(inner) = error.get_ref() {
        if let Some(reason) = inner.downcast_ref() {
            return *reason;
        }
        if let Some(error) = inner.downcast_ref() {
            return of_tls(error);
        }
        if let Some(error) = inner.downcast_ref() {
            return of_http2(error);
        }
    }
    match Errno::from_io_error(error) {
        Some(Errno::CONNREFUSED) => Reason::ConnectionRefused,
        Some(Errno::NOENT) => Reason::NoSocket,
        Some(Errno::HOSTUNREACH) => Reason::NoRouteToHost,
        Some(Errno::NETUNREACH | Errno::NETDOWN) => Reason::NetworkUnreachable,
        Some(Errno::HOSTDOWN) => Reason::HostDown,
        Some(Errno::CONNRESET | Errno::CONNABORTED) => Reason::Reset,
        Some(Errno::PIPE) => Reason::BrokenPipe,
        Some(Errno::TIMEDOUT) => Reason::TimedOut,
        Some(Errno::ACCESS) => Reason::ConnectProhibited,
        Some(Errno::NOPROTOOPT) => Reason::ProtocolUnreachable,
        Some(Errno::PERM) => Reason::ConnectForbidden,
        Some(Errno::ADDRNOTAVAIL | Errno::ADDRINUSE) => Reason::NoLocalPort,
        Some(Errno::MFILE | Errno::NFILE) => Reason::TooManyFiles,
        Some(Errno::NOMEM | Errno::NOBUFS) => Reason::NoMemory,
        _ => of_kind(error.kind()),
    }
}

/// As [`of_io`], of an error that is not the kernel's.
fn of_kind(kind: io::ErrorKind) -> Reason {
    match kind {
        io::ErrorKind::UnexpectedEof => Reason::TlsUnexpectedEof,
        io::ErrorKind::ConnectionReset => Reason::Reset,
        io::ErrorKind::BrokenPipe | io::ErrorKind::WriteZero => Reason::BrokenPipe,
        io::ErrorKind::TimedOut => Reason::TimedOut,
        io::ErrorKind::InvalidData => Reason::TlsError,
        _ => Reason::SystemError,
    }
}

/// Why TLS with a server failed.
fn of_tls(error: &Error) -> Reason {
    match error {
        Error::InvalidCertificate(error) => of_certificate(error),
        Error::AlertReceived(alert) => of_alert(*alert),
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => Reason::NotTls,
        Error::InvalidMessage(InvalidMessage::UnknownProtocolVersion) => Reason::TlsVersion,
        Error::InvalidMessage(_) => Reason::TlsMalformed,
        Error::InappropriateMessage { .. } | Error::InappropriateHandshakeMessage { .. } => {
            Reason::TlsUnexpected
        }
        Error::PeerIncompatible(error) => match error {
            PeerIncompatible::ServerDoesNotSupportTls12Or13
            | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig
            | PeerIncompatible::Tls12NotOffered
            | PeerIncompatible::Tls12NotOfferedOrEnabled => Reason::TlsVersion,
            PeerIncompatible::NoKxGroupsInCommon => Reason::TlsGroup,
            PeerIncompatible::NoSignatureSchemesInCommon
            | PeerIncompatible::NoCertificateRequestSignatureSchemesInCommon => {
                Reason::TlsSignatureScheme
            }
            _ => Reason::TlsIncompatible,
        },
        Error::PeerMisbehaved(error) => match error {
            PeerMisbehaved::SelectedUnofferedCipherSuite
            | PeerMisbehaved::SelectedUnusableCipherSuiteForVersion => Reason::TlsCipher,
            PeerMisbehaved::SelectedUnofferedKxGroup | PeerMisbehaved::WrongGroupForKeyShare => {
                Reason::TlsGroup
            }
            PeerMisbehaved::SelectedUnofferedApplicationProtocol => Reason::AlpnUnoffered,
            _ => Reason::TlsMisbehaved,
        },
        Error::NoCertificatesPresented => Reason::NoCertificate,
        Error::DecryptError => Reason::TlsBadMac,
        Error::PeerSentOversizedRecord => Reason::TlsOversized,
        _ => Reason::TlsError,
    }
}

/// Why TLS with a client failed, in the words for servers where those fit.
pub(crate) fn of_client_tls(error: &io::Error) -> String {
    match error.get_ref().and_then(|inner| inner.downcast_ref()) {
        None => Reason::ClientTls.text().to_owned(),
        Some(error) => of_client(error),
    }
}

/// As [`of_client_tls`], where the client has ended a handshake of QUIC with an alert.
pub(crate) fn of_client_alert(alert: u8) -> String {
    of_client(&Error::AlertReceived(alert.into()))
}

/// As [`of_client_tls`], where quinn has ended a handshake, which keeps no more of an error of
/// rustls than its text.
pub(crate) fn of_client_quic(told: &str) -> String {
    let known = [
        Error::NoApplicationProtocol,
        Error::NoCertificatesPresented,
        PeerIncompatible::NoCipherSuitesInCommon.into(),
        PeerIncompatible::NoKxGroupsInCommon.into(),
        PeerIncompatible::NoSignatureSchemesInCommon.into(),
        CertificateError::UnknownIssuer.into(),
        CertificateError::Revoked.into(),
        CertificateError::BadSignature.into(),
        CertificateError::BadEncoding.into(),
    ];
    if let Some(error) = known.into_iter().find(|error| error.to_string() == told) {
        return of_client(&error);
    }
    // These tell of times as well.
    let dated = [
        ("certificate expired", CertificateError::Expired),
        ("certificate not valid yet", CertificateError::NotValidYet),
    ];
    match dated.into_iter().find(|(beginning, _)| told.contains(beginning)) {
        Some((_, error)) => of_client(&Error::InvalidCertificate(error)),
        None => format!("{}: {told}", Reason::ClientTls),
    }
}

fn of_client(error: &Error) -> String {
    let why = match error {
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            "wrong version number: it speaks no TLS".to_owned()
        }
        Error::PeerIncompatible(PeerIncompatible::NoCipherSuitesInCommon) => {
            "no shared cipher".to_owned()
        }
        Error::NoApplicationProtocol => "no application protocol in common".to_owned(),
        Error::General(_) => error.to_string(),
        _ => of_tls(error).text().replace("server", "client"),
    };
    format!("{}: {why}", Reason::ClientTls)
}

fn of_certificate(error: &CertificateError) -> Reason {
    match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            Reason::CertificateExpired
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            Reason::CertificateNotYetValid
        }
        CertificateError::UnknownIssuer => Reason::UnknownIssuer,
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            Reason::WrongName
        }
        CertificateError::Revoked => Reason::CertificateRevoked,
        CertificateError::UnknownRevocationStatus | CertificateError::ExpiredRevocationList => {
            Reason::RevocationUnknown
        }
        CertificateError::BadSignature => Reason::CertificateSignature,
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            Reason::CertificatePurpose
        }
        CertificateError::BadEncoding => Reason::CertificateEncoding,
        CertificateError::UnhandledCriticalExtension => Reason::CertificateExtension,
        CertificateError::UnsupportedSignatureAlgorithmContext { .. }
        | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            Reason::CertificateAlgorithm
        }
        CertificateError::Other(error) => match error.0.downcast_ref() {
            Some(reason) => *reason,
            None => match error.0.downcast_ref() {
                Some(webpki::Error::CaUsedAsEndEntity) => Reason::CertificateOfAuthority,
                Some(webpki::Error::UnsupportedCertVersion) => Reason::CertificateVersion,
                _ => Reason::CertificateInvalid,
            },
        },
        _ => Reason::CertificateInvalid,
    }
}

const fn of_alert(alert: AlertDescription) -> Reason {
    use AlertDescription as Alert;
    match alert {
        Alert::UnexpectedMessage => Reason::AlertUnexpectedMessage,
        Alert::BadRecordMac => Reason::AlertBadRecordMac,
        Alert::RecordOverflow => Reason::AlertRecordOverflow,
        Alert::HandshakeFailure => Reason::AlertHandshakeFailure,
        Alert::BadCertificate => Reason::AlertBadCertificate,
        Alert::UnsupportedCertificate => Reason::AlertUnsupportedCertificate,
        Alert::CertificateRevoked => Reason::AlertCertificateRevoked,
        Alert::CertificateExpired => Reason::AlertCertificateExpired,
        Alert::CertificateUnknown => Reason::AlertCertificateUnknown,
        Alert::IllegalParameter => Reason::AlertIllegalParameter,
        Alert::UnknownCA => Reason::AlertUnknownCa,
        Alert::AccessDenied => Reason::AlertAccessDenied,
        Alert::DecodeError => Reason::AlertDecodeError,
        Alert::DecryptError => Reason::AlertDecryptError,
        Alert::ProtocolVersion => Reason::AlertProtocolVersion,
        Alert::InsufficientSecurity => Reason::AlertInsufficientSecurity,
        Alert::InternalError => Reason::AlertInternalError,
        Alert::InappropriateFallback => Reason::AlertInappropriateFallback,
        Alert::UserCanceled => Reason::AlertUserCanceled,
        Alert::MissingExtension => Reason::AlertMissingExtension,
        Alert::UnsupportedExtension => Reason::AlertUnsupportedExtension,
        Alert::UnrecognisedName => Reason::AlertUnrecognizedName,
        Alert::CertificateRequired => Reason::AlertCertificateRequired,
        Alert::NoApplicationProtocol => Reason::AlertNoApplicationProtocol,
        _ => Reason::AlertOther,
    }
}

/// Which rule of HTTP/1 a response breaks.
pub(crate) const fn of_syntax(error: ParseError) -> Reason {
    match error {
        ParseError::HeadTooLarge => Reason::HeadTooLarge,
        ParseError::TooManyFields => Reason::TooManyFields,
        ParseError::BareLf => Reason::BareLf,
        ParseError::BareCr => Reason::BareCr,
        ParseError::ControlByte => Reason::ControlByte,
        ParseError::BadVersion => Reason::BadVersion,
        ParseError::UnsupportedVersion => Reason::UnsupportedVersion,
        ParseError::BadStatusLine => Reason::BadStatusLine,
        ParseError::ObsFold => Reason::ObsFold,
        ParseError::SpaceBeforeColon => Reason::SpaceBeforeColon,
        ParseError::EmptyFieldName => Reason::EmptyFieldName,
        ParseError::BadFieldName => Reason::BadFieldName,
        ParseError::DuplicateContentLength => Reason::DuplicateContentLength,
        ParseError::BadContentLength => Reason::BadContentLength,
        ParseError::ContentLengthOverflow => Reason::ContentLengthOverflow,
        ParseError::LengthAndTransferEncoding => Reason::LengthAndTransferEncoding,
        ParseError::DuplicateTransferEncoding => Reason::DuplicateTransferEncoding,
        ParseError::BadTransferEncoding => Reason::BadTransferEncoding,
        ParseError::UnknownTransferCoding => Reason::UnknownTransferCoding,
        ParseError::TransferEncodingOnHttp10 => Reason::TransferEncodingOnHttp10,
        ParseError::TooManyConnectionOptions => Reason::TooManyConnectionOptions,
        ParseError::BadChunkSize => Reason::BadChunkSize,
        ParseError::ChunkSizeOverflow => Reason::ChunkSizeOverflow,
        ParseError::BadChunkExtension => Reason::BadChunkExtension,
        ParseError::ChunkExtensionTooLong => Reason::ChunkExtensionTooLong,
        ParseError::MissingChunkEnd => Reason::MissingChunkEnd,
        ParseError::ForbiddenTrailer => Reason::ForbiddenTrailer,
        ParseError::TrailersTooLarge => Reason::TrailersTooLarge,
        ParseError::BodyTooLarge => Reason::BodyTooLarge,
        ParseError::TruncatedBody => Reason::ClosedInBody,
        // The others are of requests alone.
        _ => Reason::Malformed,
    }
}

/// Which rule of HTTP/1 the body of a response breaks, whose head has been read.
pub(crate) fn of_body_syntax(error: ParseError) -> Reason {
    match of_syntax(error) {
        Reason::BareLf => Reason::BareLfInBody,
        Reason::BareCr => Reason::BareCrInBody,
        reason if reason.ending() == Ending::ServerBad => Reason::BadTrailer,
        reason => reason,
    }
}

/// Which rule of HTTP/2 a client broke, in the words for servers.
pub(crate) fn of_client_violation(violation: Reason) -> String {
    violation.text().replace("server", "client")
}

/// Why a stream of HTTP/2, or its connection, failed.
pub(crate) fn of_http2(error: &h2::Error) -> Reason {
    if let Some(error) = error.get_io() {
        return of_io(error);
    }
    let code = error.reason().map_or(u32::MAX, u32::from);
    match (error.is_remote(), error.is_go_away()) {
        (true, true) => Reason::http2_goaway(code),
        (true, false) => Reason::http2_reset(code),
        (false, _) => Reason::http2_violation(code),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use loadline_core::decide::ending::Fault;
    use rustls::OtherError;

    use super::*;

    #[test]
    fn errors_of_the_kernel_are_told_as_it_tells_them() {
        for (errno, told) in [
            (Errno::CONNREFUSED, "connection refused"),
            (Errno::HOSTUNREACH, "no route to host"),
            (Errno::NETUNREACH, "network is unreachable"),
            (Errno::HOSTDOWN, "host is down"),
            (Errno::ACCESS, "permission denied: prohibited by a router or firewall"),
            (Errno::NOPROTOOPT, "protocol not available: the host refuses TCP"),
            (Errno::PERM, "operation not permitted: a local rule forbids to connect"),
            (Errno::CONNRESET, "connection reset by peer"),
            (Errno::MFILE, "too many open files"),
            (Errno::ADDRNOTAVAIL, "cannot assign requested address: no local port is free"),
            (Errno::IO, "a system call failed"),
        ] {
            assert_eq!(of_io(&errno.into()).text(), told);
        }
    }

    #[test]
    fn a_failed_handshake_with_a_client_is_told_by_what_the_client_did() {
        let of_version_1 = OtherError(Arc::new(webpki::Error::UnsupportedCertVersion));
        let of_version_1 = CertificateError::Other(of_version_1);
        for (error, told) in [
            (Error::AlertReceived(AlertDescription::UnknownCA), "TLS alert from the client: unkn"),
            (Error::InvalidCertificate(CertificateError::Expired), "certificate has expired"),
            (Error::InvalidCertificate(of_version_1), "certificate of X.509 version 1, version 3"),
            (PeerIncompatible::NoCipherSuitesInCommon.into(), "no shared cipher"),
            (Error::NoCertificatesPresented, "peer did not return a certificate"),
        ] {
            let text = of_client_tls(&io::Error::new(io::ErrorKind::InvalidData, error));
            let told = format!("TLS handshake with the client failed: {told}");
            assert!(text.starts_with(&told), "{text}");
        }
    }

    #[test]
    fn a_failed_handshake_over_quic_is_told_as_the_same_over_tcp() {
        for error in [
            Error::NoApplicationProtocol,
            Error::NoCertificatesPresented,
            PeerIncompatible::NoCipherSuitesInCommon.into(),
            PeerIncompatible::NoKxGroupsInCommon.into(),
            CertificateError::UnknownIssuer.into(),
            Error::General("no server certificate chain resolved".to_owned()),
        ] {
            let over_quic = of_client_quic(&error.to_string());
            let over_tcp = of_client_tls(&io::Error::new(io::ErrorKind::InvalidData, error));
            assert_eq!(over_quic, over_tcp);
        }
        let expired = "invalid peer certificate: certificate expired: verification time 2 (UNIX)";
        assert!(of_client_quic(expired).ends_with(": certificate has expired"));
        let told = "TLS handshake with the client failed: TLS alert from the client: unknown ca";
        assert!(of_client_alert(48).starts_with(told));
    }

    #[test]
    fn a_server_behind_a_firewall_that_prohibits_is_to_blame_and_a_local_rule_is_not() {
        for (errno, fault) in [
            (Errno::ACCESS, Fault::Server),
            (Errno::NOPROTOOPT, Fault::Server),
            (Errno::PERM, Fault::Proxy),
        ] {
            assert_eq!(of_io(&errno.into()).ending().fault(), fault, "{errno}");
        }
    }
}
