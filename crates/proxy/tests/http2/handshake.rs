//! How a server of HTTP/1 opens a WebSocket.

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64::prelude::{BASE64_STANDARD, Engine as _};

/// The response that opens the WebSocket which a request with this head asks for.
pub(crate) fn opening(head: &str) -> String {
    format!(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Accept: {}\r\n\r\n",
        accept(head)
    )
}

/// What it says of the key (RFC 6455, 4.2.2).
pub(crate) fn accept(head: &str) -> String {
    let is_key = |name: &str| name.eq_ignore_ascii_case("sec-websocket-key");
    let mut fields = head.lines().filter_map(|line| line.split_once(": "));
    let key = fields.find_map(|(name, value)| is_key(name).then_some(value)).unwrap();
    let proof = format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    BASE64_STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, proof.as_bytes()))
}

/// What opens none, though it begins as if it did.
pub(crate) fn not_opening(head: &str) -> [String; 4] {
    let whole = opening(head);
    let accept = accept(head);
    [
        whole.replace("Upgrade: websocket\r\n", ""),
        whole.replace("Upgrade: websocket", "Upgrade: tls/1.3"),
        whole.replace("Connection: upgrade\r\n", ""),
        whole.replace(&accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="),
    ]
}
