//! WebSocket over one stream (RFC 8441): an extended CONNECT, in HTTP/1 a GET that upgrades.
//!
//! HTTP/2 needs no key, HTTP/1 does. Towards a server of HTTP/1 it is drawn here, and what the
//! server answers to it is checked, as clients of HTTP/1 do (RFC 6455, 4.1): those of streams only
//! hear that their WebSocket is open. A client that sends a key all the same, as another proxy may,
//! gets the response to that one. To a client of HTTP/1 the response to its key is given here (RFC
//! 6455, 4.2.2), once the server of HTTP/2 has accepted.

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use h2::ext::Protocol;
use http::{
    HeaderMap, Method, Request,
    header::{CONTENT_LENGTH, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION},
    request::Parts,
};
use loadline_http1::{Known, RequestHead, ResponseHead, Status};

use super::{
    head::{ANY, write_fields, write_host},
    incoming::Coding,
};

/// Whether a request says how long its content is. A CONNECT has none (RFC 9110, 9.3.6): one that
/// says so is left a CONNECT, which the parser refuses.
pub(crate) fn has_length(parts: &Parts) -> bool {
    parts.headers.contains_key(CONTENT_LENGTH)
}

/// Whether a client has sent a key, and so expects the response to it.
pub(crate) fn has_key(parts: &Parts) -> bool {
    parts.headers.contains_key(SEC_WEBSOCKET_KEY)
}

/// Appends the head of the GET: how what follows has to be written. The key is made of `draws`, 128
/// random bits, where the client has sent none.
pub(crate) fn write_upgrade(out: &mut Vec<u8>, parts: &Parts, draws: [u64; 2]) -> Coding {
    let target = parts.uri.path_and_query().map_or("/", |it| it.as_str());
    for piece in ["GET ", target, " HTTP/1.1\r\n"] {
        out.extend_from_slice(piece.as_bytes());
    }
    write_host(out, &parts.uri, &parts.headers);
    write_fields(out, &parts.headers);
    write_handshake(out, (!has_key(parts)).then_some(draws));
    out.extend_from_slice(b"\r\n");
    Coding::Plain
}

/// Appends the fields that ask for a WebSocket in HTTP/1. The key is made of 128 random bits, if
/// they are given.
pub(super) fn write_handshake(out: &mut Vec<u8>, draws: Option<[u64; 2]>) {
    if let Some([high, low]) = draws {
        let bits = (u128::from(high) << 64) | u128::from(low);
        let key = BASE64_STANDARD.encode(bits.to_be_bytes());
        for piece in ["sec-websocket-key: ", &key, "\r\n"] {
            out.extend_from_slice(piece.as_bytes());
        }
    }
    out.extend_from_slice(UPGRADE_LINES.as_bytes());
}

/// What a client of HTTP/1 is told whose WebSocket a server of HTTP/2 has accepted.
#[derive(Debug)]
pub(super) struct Accept(String);

/// Makes an extended CONNECT of a GET that upgrades to the protocol `protocol`; none where that is
/// not a WebSocket, or nobody could be connected to.
pub(super) fn connect(request: &mut Request<()>, protocol: &[u8]) -> Option<Accept> {
    request.uri().authority()?;
    let is_websocket = request.method() == Method::GET
        && protocol.eq_ignore_ascii_case(b"websocket")
        && request.headers().contains_key(SEC_WEBSOCKET_VERSION);
    let key = request.headers_mut().remove(SEC_WEBSOCKET_KEY).filter(|_| is_websocket)?;
    *request.method_mut() = Method::CONNECT;
    request.extensions_mut().insert(Protocol::from_static("websocket"));
    Some(Accept(proof(key.as_bytes())))
}

/// What the response to a key says (RFC 6455, 4.2.2).
fn proof(key: &[u8]) -> String {
    BASE64_STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, &[key, GUID].concat()))
}

/// Whether a server of HTTP/1 whose response is `head`, parsed from `bytes`, has switched to the
/// WebSocket that `request` asks for (RFC 6455, 4.1).
pub(crate) fn opens_websocket(head: &ResponseHead, bytes: &[u8], request: &[u8]) -> bool {
    let mut asked = RequestHead::new(ANY);
    let Ok(Status::Complete(_)) = asked.parse(request) else { return false };
    let key = asked.fields().get(request, SEC_WEBSOCKET_KEY.as_str());
    let fields = head.fields();
    let accept = fields.get(bytes, SEC_WEBSOCKET_ACCEPT.as_str());
    let lists = |known, option: &[u8]| {
        let values = fields.all_known(bytes, known);
        let mut options = values.flat_map(|value| value.split(|byte| *byte == b','));
        options.any(|it| it.trim_ascii().eq_ignore_ascii_case(option))
    };
    lists(Known::Upgrade, b"websocket")
        && lists(Known::Connection, b"upgrade")
        && key.is_some_and(|key| accept == Some(proof(key).as_bytes()))
}

impl Accept {
    /// Appends the head of the switch, for a response with these fields.
    pub(super) fn write(&self, out: &mut Vec<u8>, mut headers: HeaderMap) {
        headers.remove(SEC_WEBSOCKET_ACCEPT);
        headers.remove(CONTENT_LENGTH);
        out.extend_from_slice(b"HTTP/1.1 101 Switching Protocols\r\n");
        write_fields(out, &headers);
        for piece in [UPGRADE_LINES, "sec-websocket-accept: ", &self.0, "\r\n\r\n"] {
            out.extend_from_slice(piece.as_bytes());
        }
    }
}

const UPGRADE_LINES: &str = "connection: upgrade\r\nupgrade: websocket\r\n";

/// What a key is proven to have been read with (RFC 6455, 1.3).
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_sixteen_bytes_in_base64() {
        // The example of RFC 6455, 1.3: "the sample nonce".
        let bytes = u128::from_be_bytes(*b"the sample nonce");
        let (parts, ()) = Request::new(()).into_parts();
        let mut head = Vec::new();
        write_upgrade(&mut head, &parts, [(bytes >> 64) as u64, bytes as u64]);
        let head = String::from_utf8(head).unwrap();
        assert!(head.contains("\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n"), "{head}");
    }

    #[test]
    fn the_key_is_answered_as_in_the_example() {
        let request = || {
            Request::get("http://a.test/chat")
                .header(SEC_WEBSOCKET_VERSION, "13")
                .header(SEC_WEBSOCKET_KEY, "dGhlIHNhbXBsZSBub25jZQ==")
        };
        let mut asked = request().body(()).unwrap();
        let accept = connect(&mut asked, b"WebSocket").unwrap();
        assert_eq!(accept.0, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert_eq!(asked.method(), Method::CONNECT);
        assert!(!asked.headers().contains_key(SEC_WEBSOCKET_KEY));
        assert!(connect(&mut request().body(()).unwrap(), b"foo").is_none());
        assert!(
            connect(&mut request().method(Method::PUT).body(()).unwrap(), b"websocket").is_none()
        );
    }

    #[test]
    fn only_a_server_that_has_read_the_key_and_says_so_has_opened_a_websocket() {
        let asked = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\
                      Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
        let lines = [
            "Upgrade: WebSocket",
            "Connection: keep-alive, Upgrade",
            "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=",
        ];
        let opens = |lines: &[&str]| {
            let text = ["HTTP/1.1 101 Switching Protocols", &lines.join("\r\n"), "\r\n"];
            let (text, mut head) = (text.join("\r\n"), ResponseHead::new(ANY));
            head.parse(text.as_bytes(), loadline_http1::Method::Get).unwrap();
            opens_websocket(&head, text.as_bytes(), asked)
        };
        assert!(opens(&lines));
        for missing in 0..lines.len() {
            let mut left = lines.to_vec();
            left.remove(missing);
            assert!(!opens(&left), "{left:?}");
        }
        for other in ["Upgrade: h2c", "Connection: close", "Sec-WebSocket-Accept: x"] {
            let (name, _) = other.split_once(' ').unwrap();
            let with = |line: &&'static str| if line.starts_with(name) { other } else { *line };
            let lines: Vec<_> = lines.iter().map(with).collect();
            assert!(!opens(&lines), "{lines:?}");
        }
    }
}
