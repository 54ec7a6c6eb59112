//! The rules for responses: framing by request and status, persistence, refusals.

use loadline_http1::{Framing, Method, ParseError, ResponseHead, Status};

fn parse(bytes: &[u8], to: Method) -> Result<ResponseHead, ParseError> {
    let mut head = ResponseHead::default();
    let status = head.parse(bytes, to)?;
    assert_eq!(status, Status::Complete(bytes.len()), "{}", bytes.escape_ascii());
    Ok(head)
}

#[test]
fn responses_that_are_refused() {
    use ParseError::*;
    let vectors: &[(&str, &[u8], ParseError)] = &[
        ("two digits", b"HTTP/1.1 20 OK\r\n", BadStatusLine),
        ("four digits", b"HTTP/1.1 2000 OK\r\n", BadStatusLine),
        ("status below 100", b"HTTP/1.1 099 OK\r\n", BadStatusLine),
        ("signed status", b"HTTP/1.1 +20 OK\r\n", BadStatusLine),
        ("two spaces", b"HTTP/1.1  200 OK\r\n", BadStatusLine),
        ("no status", b"HTTP/1.1\r\n", BadStatusLine),
        ("too short", b"HTTP\r\n", BadStatusLine),
        ("an empty line first", b"\r\nHTTP/1.1 200 OK\r\n", BadStatusLine),
        ("not HTTP", b"SSH-2.0-OpenSSH_9.2p1\r\n", BadVersion),
        ("HTTP/2.0", b"HTTP/2.0 200 OK\r\n", UnsupportedVersion),
        ("bare LF", b"HTTP/1.1 200 OK\n", BareLf),
        ("NUL in the reason", b"HTTP/1.1 200 O\0K\r\n", ControlByte),
        (
            "equal lengths",
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n",
            DuplicateContentLength,
        ),
        (
            "length and coding",
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
            LengthAndTransferEncoding,
        ),
        (
            "coding in HTTP/1.0",
            b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            TransferEncodingOnHttp10,
        ),
        (
            "unknown coding",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            UnknownTransferCoding,
        ),
        ("folded field", b"HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n", ObsFold),
    ];
    for (name, bytes, expected) in vectors {
        assert_eq!(parse(bytes, Method::Get).err(), Some(*expected), "{name}");
    }
}

#[test]
fn a_challenge_for_the_connection_is_told_from_one_for_the_request() {
    let vectors = [
        ("401 No\r\nWWW-Authenticate: Basic realm=\"a\", NTLM\r\n", true),
        ("401 No\r\nWWW-Authenticate: Basic\r\nWWW-Authenticate: NEGOTIATE\r\n", true),
        ("407 No\r\nProxy-Authenticate: NTLM TlRMTVNTUAAC\r\n", true),
        ("200 OK\r\nWWW-Authenticate: Negotiate oYG=\r\n", true),
        ("401 No\r\nWWW-Authenticate: Basic realm=\"NTLM\"\r\n", false),
        ("200 OK\r\n", false),
    ];
    for (response, expected) in vectors {
        let bytes = format!("HTTP/1.1 {response}\r\n");
        let head = parse(bytes.as_bytes(), Method::Get).unwrap();
        assert_eq!(head.authenticates_connection(), expected, "{response:?}");
    }
}

#[test]
fn framing_depends_on_request_and_status() {
    use Framing::{Chunked, Length, None, UntilClose};
    let vectors = [
        (Method::Get, "200 OK", "", UntilClose),
        (Method::Get, "200 OK", "Content-Length: 7\r\n", Length(7)),
        (Method::Get, "200 OK", "Content-Length: 0\r\n", None),
        (Method::Get, "200 OK", "Transfer-Encoding: chunked\r\n", Chunked),
        (Method::Head, "200 OK", "Content-Length: 7\r\n", None),
        (Method::Head, "200 OK", "Transfer-Encoding: chunked\r\n", None),
        (Method::Get, "304 Not Modified", "Content-Length: 7\r\n", None),
        (Method::Get, "204 No Content", "", None),
        (Method::Get, "100 Continue", "", None),
        (Method::Get, "103 Early Hints", "Content-Length: 7\r\n", None),
        (Method::Get, "101 Switching Protocols", "", None),
        (Method::Connect, "200 OK", "Content-Length: 7\r\n", None),
        (Method::Connect, "407 No", "Content-Length: 7\r\n", Length(7)),
    ];
    for (to, status, fields, framing) in vectors {
        let bytes = format!("HTTP/1.1 {status}\r\n{fields}\r\n").into_bytes();
        let head = parse(&bytes, to).unwrap();
        assert_eq!(head.framing(), framing, "{to:?} {status} {fields}");
    }
}

#[test]
fn persistence_interim_and_tunnels() {
    let get = |text: &str| parse(text.as_bytes(), Method::Get).unwrap();
    assert!(get("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n").keep_alive());
    assert!(!get("HTTP/1.1 200 OK\r\n\r\n").keep_alive(), "the body ends with the connection");
    assert!(!get("HTTP/1.1 204 No\r\nConnection: close\r\n\r\n").keep_alive());
    assert!(!get("HTTP/1.0 204 No\r\n\r\n").keep_alive());
    assert!(get("HTTP/1.0 204 No\r\nConnection: keep-alive\r\n\r\n").keep_alive());
    assert!(get("HTTP/1.1 103 Early Hints\r\n\r\n").is_interim());
    let switched = get("HTTP/1.1 101 Switching Protocols\r\n\r\n");
    assert!(switched.tunnels() && !switched.is_interim() && !switched.keep_alive());
    assert!(parse(b"HTTP/1.1 200 OK\r\n\r\n", Method::Connect).unwrap().tunnels());
}

#[test]
fn reasons_are_optional_and_load_metrics_are_found() {
    let reason = |bytes: &'static [u8]| parse(bytes, Method::Get).unwrap().reason(bytes);
    assert_eq!(reason(b"HTTP/1.1 404 Not Found\r\n\r\n"), b"Not Found");
    assert_eq!(reason(b"HTTP/1.1 200 \r\n\r\n"), b"");
    assert_eq!(reason(b"HTTP/1.1 200\r\n\r\n"), b"");
    assert_eq!(reason(b"HTTP/1.1 200 \xc3\xa4\tb\r\n\r\n"), b"\xc3\xa4\tb");
    let bytes = b"HTTP/1.1 200\r\nEndpoint-Load-Metrics: TEXT cpu_utilization=0.3\r\n\r\n";
    let head = parse(bytes, Method::Get).unwrap();
    assert_eq!(head.load_metrics(bytes), Some(&b"TEXT cpu_utilization=0.3"[..]));
}

#[test]
fn sizes_of_chunks_that_old_servers_pad_with_white_space_are_taken() {
    let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let read = |bytes: &[u8], piece: usize| {
        let (mut reader, mut data) = (parse(head, Method::Get)?.body(), Vec::new());
        for piece in bytes.chunks(piece) {
            reader.feed_data(piece, |piece| data.extend_from_slice(piece))?;
        }
        assert!(reader.is_finished(), "{}", bytes.escape_ascii());
        Ok(data)
    };
    let bodies: [&[u8]; 4] = [
        b"5 \r\nhello\r\n0\r\n\r\n",
        b"5   \t \r\nhello\r\n0  \r\n\r\n",
        b"5 ;a=b\r\nhello\r\n0\r\n\r\n",
        b"5 \t; a = \"b\" \r\nhello\r\n0\t\r\n\r\n",
    ];
    for body in bodies {
        for piece in [1, body.len()] {
            assert_eq!(read(body, piece).as_deref(), Ok(&b"hello"[..]), "{}", body.escape_ascii());
        }
    }
    let endless = [b"5", &[b' '; 300][..]].concat();
    let refused: [(&[u8], ParseError); 5] = [
        (b" 5\r\n", ParseError::BadChunkSize),
        (b"5 5\r\n", ParseError::BadChunkExtension),
        (b"5 \nhello", ParseError::BareLf),
        (b"5 \rhello", ParseError::BareCr),
        (&endless, ParseError::ChunkExtensionTooLong),
    ];
    for (body, error) in refused {
        assert_eq!(read(body, 1), Err(error), "{}", body.escape_ascii());
    }
}
