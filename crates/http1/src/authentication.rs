//! Schemes of authentication that hold for the connection and not for the message (RFC 4559, 6).

/// Whether a challenge, or credentials, are of such a scheme.
pub(crate) fn is_of_connection(text: &[u8]) -> bool {
    let scheme = text.split(|byte| matches!(byte, b' ' | b'\t')).next().unwrap_or_default();
    SCHEMES.iter().any(|known| scheme.eq_ignore_ascii_case(known))
}

const SCHEMES: [&[u8]; 4] = [b"Negotiate", b"NTLM", b"Nego2", b"Kerberos"];
