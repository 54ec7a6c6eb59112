//! What TLS tells of a client: server name, version and cipher suite, certificate.

use std::{borrow::Cow, fmt::Write as _};

use rustls::{CipherSuite, ProtocolVersion, ServerConnection, pki_types::CertificateDer};
use x509_parser::{
    asn1_rs::{Any, Tag, ToDer as _},
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
    /// The cipher suite, by the name that OpenSSL has for it.
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
            cipher: suite.map(cipher).unwrap_or_default(),
            subject: subject(certificate).into(),
        }
    }
}

/// The name of a suite as OpenSSL, and so HAProxy and nginx, write it.
fn cipher(suite: CipherSuite) -> &'static str {
    use CipherSuite as Suite;
    match suite {
        Suite::TLS13_AES_128_GCM_SHA256 => "TLS_AES_128_GCM_SHA256",
        Suite::TLS13_AES_256_GCM_SHA384 => "TLS_AES_256_GCM_SHA384",
        Suite::TLS13_CHACHA20_POLY1305_SHA256 => "TLS_CHACHA20_POLY1305_SHA256",
        Suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 => "ECDHE-ECDSA-AES128-GCM-SHA256",
        Suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384 => "ECDHE-ECDSA-AES256-GCM-SHA384",
        Suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256 => "ECDHE-ECDSA-CHACHA20-POLY1305",
        Suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 => "ECDHE-RSA-AES128-GCM-SHA256",
        Suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 => "ECDHE-RSA-AES256-GCM-SHA384",
        Suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256 => "ECDHE-RSA-CHACHA20-POLY1305",
        other => other.as_str().unwrap_or_default(),
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

/// A value that is no text, or is of a type without a short name, is written as its DER encoding
/// (RFC 4514, 2.4).
fn write_attribute(out: &mut String, attribute: &AttributeTypeAndValue<'_>) {
    let (kind, value) = (attribute.attr_type(), attribute.attr_value());
    let short = oid2abbrev(kind, oid_registry()).ok();
    match short {
        Some(short) => out.push_str(short),
        None => out.push_str(&kind.to_id_string()),
    }
    out.push('=');
    match short.and_then(|_| text(value)) {
        Some(text) => write_value(out, &text),
        None => {
            out.push('#');
            // What was read can be written.
            let encoded = value.to_der_vec().unwrap_or_default();
            encoded.iter().for_each(|byte| write_byte(out, "", *byte));
        }
    }
}

/// The text of a value in UTF-8; none where it is no text.
fn text<'a>(value: &Any<'a>) -> Option<Cow<'a, str>> {
    let bytes = value.as_bytes();
    match value.tag() {
        Tag::NumericString | Tag::PrintableString | Tag::Utf8String | Tag::Ia5String => {
            str::from_utf8(bytes).ok().map(Cow::from)
        }
        // In fact Latin-1, as OpenSSL takes it too.
        Tag::TeletexString | Tag::VisibleString => {
            Some(bytes.iter().copied().map(char::from).collect())
        }
        Tag::BmpString => {
            let (units, rest) = bytes.as_chunks::<2>();
            let units = units.iter().map(|unit| u16::from_be_bytes(*unit));
            let text: Result<String, _> = char::decode_utf16(units).collect();
            text.ok().filter(|_| rest.is_empty()).map(Cow::from)
        }
        _ => None,
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
    use x509_parser::asn1_rs::Oid;

    fn subject(parts: &[(DnType, &str)]) -> String {
        let mut params = CertificateParams::new([]).unwrap();
        params.distinguished_name = DistinguishedName::new();
        parts.iter().for_each(|(kind, value)| params.distinguished_name.push(kind.clone(), *value));
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let (_, parsed) = X509Certificate::from_der(certificate.der()).unwrap();
        written(parsed.subject())
    }

    #[test]
    fn every_cipher_suite_has_the_name_that_openssl_has_for_it() {
        for suite in rustls::crypto::aws_lc_rs::ALL_CIPHER_SUITES {
            let name = cipher(suite.suite());
            let is_openssl = name.starts_with("TLS_AES_")
                || name.starts_with("TLS_CHACHA20_")
                || name.starts_with("ECDHE-");
            assert!(is_openssl, "{suite:?}: {name}");
        }
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

    #[test]
    fn a_value_in_another_encoding_is_utf8_and_one_that_is_no_text_is_its_der_in_hex() {
        let check = |kind: &[u64], tag, value: &[u8], expected: &str| {
            let (kind, value) = (Oid::from(kind).unwrap(), Any::from_tag_and_data(tag, value));
            let mut out = String::new();
            write_attribute(&mut out, &AttributeTypeAndValue::new(kind, value));
            assert_eq!(out, expected);
        };
        let name = [2, 5, 4, 3];
        check(&name, Tag::BmpString, b"\0M\0\xfc\0l\x20\xac", "CN=M\\C3\\BCl\\E2\\82\\AC");
        check(&name, Tag::TeletexString, b"M\xfcller", "CN=M\\C3\\BCller");
        check(&name, Tag::BmpString, b"\0a\0", "CN=#1E03006100");
        check(&name, Tag::OctetString, b"\x01\xab", "CN=#040201AB");
        let own = [1, 3, 6, 1, 4, 1, 32473, 9];
        check(&own, Tag::Utf8String, b"a", "1.3.6.1.4.1.32473.9=#0C0161");
    }
}
