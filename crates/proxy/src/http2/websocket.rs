//! WebSocket over one stream (RFC 8441): an extended CONNECT, in HTTP/1 a GET that upgrades.
//!
//! HTTP/2 needs no key, HTTP/1 does: it is drawn here. What the server answers to it is not
//! checked; the client's own handshake is the extended CONNECT.

use h2::ext::Protocol;
use http::{Method, request::Parts, uri::Authority};

use super::head::{write_fields, write_host};

/// Whether a request asks for a WebSocket.
pub(super) fn is_asked_for(parts: &Parts) -> bool {
    let protocol = parts.extensions.get::<Protocol>();
    parts.method == Method::CONNECT && protocol.is_some_and(|it| it.as_str() == "websocket")
}

/// Appends the head of the GET. `draws` are 128 random bits.
pub(super) fn write_upgrade(out: &mut Vec<u8>, parts: &Parts, draws: [u64; 2]) {
    let target = parts.uri.path_and_query().map_or("/", |it| it.as_str());
    for piece in ["GET ", target, " HTTP/1.1\r\n"] {
        out.extend_from_slice(piece.as_bytes());
    }
    write_host(out, parts.uri.authority().map(Authority::as_str), &parts.headers);
    write_fields(out, &parts.headers);
    out.extend_from_slice(b"connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-key: ");
    write_key(out, draws);
    out.extend_from_slice(b"\r\n\r\n");
}

/// 16 bytes in base64 (RFC 4648, 4): five groups of three, and one byte with two signs of padding.
fn write_key(out: &mut Vec<u8>, draws: [u64; 2]) {
    let bits = (u128::from(draws[0]) << 64) | u128::from(draws[1]);
    let sextets = (0..21).map(|at| (bits >> (122 - 6 * at)) & 0x3f);
    out.extend(sextets.map(|sextet| ALPHABET[sextet as usize]));
    out.push(ALPHABET[((bits & 0x3) << 4) as usize]);
    out.extend_from_slice(b"==");
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_sixteen_bytes_in_base64() {
        // The example of RFC 6455, 1.3: "the sample nonce".
        let bytes = u128::from_be_bytes(*b"the sample nonce");
        let mut key = Vec::new();
        write_key(&mut key, [(bytes >> 64) as u64, bytes as u64]);
        assert_eq!(key, b"dGhlIHNhbXBsZSBub25jZQ==");
    }
}
