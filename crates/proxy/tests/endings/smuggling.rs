//! Requests that two parsers could read differently are refused, and the connection is closed.

use loadline_core::decide::ending::Ending;

use crate::support::{OK, Proxy, Scripted};

/// What stands between `POST / HTTP/1.1\r\nHost: x\r\n` and a smuggled second request.
const SMUGGLERS: [&[u8]; 22] = [
    b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
    b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    b"Content-Length: 5, 5\r\n\r\nhello",
    b"Content-Length: +5\r\n\r\nhello",
    b"Content-Length: 0x5\r\n\r\nhello",
    b"Content-Length: 99999999999999999999\r\n\r\nhello",
    b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    b"Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n",
    b"X: a\r\n Content-Length: 5\r\n\r\nhello",
    b"X: a\nContent-Length: 5\r\n\r\nhello",
    b"X: a\rContent-Length: 5\r\n\r\nhello",
    b"X: a\0b\r\n\r\n",
    b": a\r\n\r\n",
    b"Host: y\r\n\r\n",
    b"Transfer-Encoding: chunked\r\n\r\nzz\r\n\r\n",
    b"Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n",
    b"Transfer-Encoding: chunked\r\n\r\n2\r\nhello\r\n0\r\n\r\n",
];

const SMUGGLED: &[u8] = b"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n";

#[test]
fn smugglers_are_refused_and_what_follows_is_never_read() {
    for smuggler in SMUGGLERS {
        let server = Scripted::answering(OK);
        let proxy = Proxy::to(&[server.address]);
        let request = [b"POST / HTTP/1.1\r\nHost: x\r\n", smuggler, SMUGGLED].concat();
        let answer = proxy.ask(&request);
        let shown = smuggler.escape_ascii();
        let refused = answer.starts_with("HTTP/1.1 400 ") || answer.starts_with("HTTP/1.1 501 ");
        assert!(refused, "{shown}: {answer}");
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{shown}: {answer}");
        proxy.expect(Ending::ClientBad, 1);
    }
}

#[test]
fn other_versions_and_methods_without_sense_are_refused_by_name() {
    let server = Scripted::answering(OK);
    let proxy = Proxy::to(&[server.address]);
    for (request, status) in [
        (&b"GET / HTTP/2.0\r\nHost: x\r\n\r\n"[..], "505"),
        (b"GET / HTTP/1.1\r\n\r\n", "400"),
        (b"GET  / HTTP/1.1\r\nHost: x\r\n\r\n", "400"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", "400"),
    ] {
        let answer = proxy.ask(request);
        let expected = format!("HTTP/1.1 {status} ");
        assert!(answer.starts_with(&expected), "{}: {answer}", request.escape_ascii());
    }
    proxy.expect(Ending::ClientBad, 4);
    assert_eq!(server.connections(), 0);
}
