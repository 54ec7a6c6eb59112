//! What TLS has told of a client: the name it asked for, what both agreed on, who it proved to be.

use std::fmt::Write as _;

use rustls::{ProtocolVersion, ServerConnection, pki_types::CertificateDer};
use x509_parser::{
    objects::{oid_registry, oid2abbrev},
    prelude::{FromDer as _, X509Certificate},
    x509::{AttributeTypeAndValue, X509Name},
};

use crate::telemetry::access_log::Came;

/// What is known of a client by its handshake. Empty texts stand for what is not.
#[derive(Debug, Default)]
pub(crate) struct ClientTls {
    /// The server name it asked for.
    pub(crate) name: Box<str>,
    /// The version of TLS.
    pub(crate) version: &'static str,
    /// The cipher suite.
    pub(crate) cipher: &'static str,
    /// The subject of its certificate, as RFC 4514 writes it; printable ASCII.
    pub(crate) subject: Box<str>,
}

impl ClientTls {
    /// The same for the access log.
    pub(crate) fn came(tls: Option<&Self>) -> Came<'_> {
        let Some(tls) = tls else { return Came::default() };
        Came {
            server_name: &tls.name,
            tls_version: tls.version,
            tls_cipher: tls.cipher,
            client_certificate: &tls.subject,
            ..Came::default()
        }
    }

    /// That of a connection of QUIC, whose client asked for `name` and showed `certificate`.
    pub(crate) fn of_quic(name: Option<String>, certificate: Option<&CertificateDer<'_>>) -> Self {
        Self {
            name: name.unwrap_or_default().into(),
            // QUIC has no other (RFC 9001, 4.2).
            version: "TLSv1.3",
            cipher: "",
            subject: subject(certificate).into(),
        }
    }

    /// That of a connection that both sides have agreed on.
    pub(super) fn of(connection: &ServerConnection) -> Self {
        let certificate = connection.peer_certificates().and_then(|chain| chain.first());
        let suite = connection.negotiated_cipher_suite().map(|suite| suite.suite());
        Self {
            name: connection.server_name().unwrap_or_default().into(),
            version: match connection.protocol_version() {
                Some(ProtocolVersion::TLSv1_3) => "TLSv1.3",
                Some(ProtocolVersion::TLSv1_2) => "TLSv1.2",
                _ => "",
            },
            cipher: suite.and_then(|suite| suite.as_str()).unwrap_or_default(),
            subject: subject(certificate).into(),
        }
    }
}

fn subject(certificate: Option<&CertificateDer<'_>>) -> String {
    let parsed = certificate.and_then(|it| X509Certificate::from_der(it).ok());
    parsed.map_or_else(String::new, |(_, it)| written(it.subject()))
}

/// A name as RFC 4514 writes it: the last part first.
fn written(name: &X509Name<'_>) -> String {
    let mut out = String::new();
    let parts: Vec<_> = name.iter().collect();
    for (index, part) in parts.into_iter().rev().enumerate() {
        for (nth, attribute) in part.iter().enumerate() {
            if nth > 0 {
                out.push('+');
            } else if index > 0 {
                out.push(',');
            }
            write_attribute(&mut out, attribute);
        }
    }
    out
}

fn write_attribute(out: &mut String, attribute: &AttributeTypeAndValue<'_>) {
    let kind = attribute.attr_type();
    match oid2abbrev(kind, oid_registry()) {
        Ok(short) => out.push_str(short),
        Err(_) => out.push_str(&kind.to_id_string()),
    }
    out.push('=');
    match attribute.as_str() {
        Ok(text) => write_value(out, text),
        Err(_) => {
            out.push('#');
            attribute.as_slice().iter().for_each(|byte| write_byte(out, "", *byte));
        }
    }
}

/// Escapes what means something in a name, and all that is not printable ASCII.
fn write_value(out: &mut String, text: &str) {
    let last = text.len().saturating_sub(1);
    for (index, byte) in text.bytes().enumerate() {
        let at_edge =
            (byte == b' ' && (index == 0 || index == last)) || (byte == b'#' && index == 0);
        match byte {
            b',' | b'+' | b'"' | b'\\' | b'<' | b'>' | b';' => {
                out.push('\\');
                out.push(char::from(byte));
            }
            b' '..=b'~' if !at_edge => out.push(char::from(byte)),
            byte => write_byte(out, "\\", byte),
        }
    }
}

fn write_byte(out: &mut String, before: &str, byte: u8) {
    // Writing into memory cannot fail.
    let _ = write!(out, "{before}{byte:02X}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

    fn subject(parts: &[(DnType, &str)]) -> String {
        let mut params = CertificateParams::new([]).unwrap();
        params.distinguished_name = DistinguishedName::new();
        parts.iter().for_each(|(kind, value)| params.distinguished_name.push(kind.clone(), *value));
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let (_, parsed) = X509Certificate::from_der(certificate.der()).unwrap();
        written(parsed.subject())
    }

    #[test]
    fn a_subject_is_written_as_openssl_and_nginx_write_it() {
        let parts = [
            (DnType::CountryName, "DE"),
            (DnType::OrganizationName, "Example, Inc."),
            (DnType::CommonName, "alice"),
        ];
        assert_eq!(subject(&parts), "CN=alice,O=Example\\, Inc.,C=DE");
        let odd = [(DnType::CommonName, " a\r\nX-Admin: yes \u{e9}")];
        assert_eq!(subject(&odd), "CN=\\20a\\0D\\0AX-Admin: yes \\C3\\A9");
        assert_eq!(subject(&[]), "");
    }
}
