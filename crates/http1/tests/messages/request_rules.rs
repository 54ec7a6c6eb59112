//! The rules for requests, one vector each: what is refused and why, what is accepted and how it
//! is understood. Most of the refused ones are ways to smuggle a request past a proxy.

use loadline_http1::{
    Framing, HeadLimits, Method, ParseError, RequestHead, Status, TargetForm, Version,
};

fn refusal(bytes: &[u8]) -> Option<ParseError> {
    RequestHead::default().parse(bytes).err()
}

/// A POST to `/` with these field lines (each with its line end) after Host.
fn with(fields: &str) -> Vec<u8> {
    format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n").into_bytes()
}

fn parsed(bytes: &[u8]) -> RequestHead {
    let mut head = RequestHead::default();
    let status = head.parse(bytes);
    assert!(matches!(status, Ok(Status::Complete(_))), "{status:?}: {}", bytes.escape_ascii());
    head
}

#[test]
fn request_lines_that_are_refused() {
    use ParseError::*;
    let vectors: &[(&str, &[u8], ParseError)] = &[
        ("no version", b"GET /\r\n\r\n", BadRequestLine),
        ("nothing but a method", b"GET\r\n\r\n", BadRequestLine),
        ("space before the method", b" GET / HTTP/1.1\r\n", BadMethod),
        ("no method", b"/ HTTP/1.1\r\n", BadMethod),
        ("method with a separator", b"G(T / HTTP/1.1\r\n", BadMethod),
        ("two spaces before the target", b"GET  / HTTP/1.1\r\n", BadRequestLine),
        ("two spaces before the version", b"GET /  HTTP/1.1\r\n", BadVersion),
        ("space in the target", b"GET /a b HTTP/1.1\r\n", BadVersion),
        ("tab in the target", b"GET /a\tb HTTP/1.1\r\n", BadRequestLine),
        ("tab instead of a space", b"GET\t/ HTTP/1.1\r\n", BadMethod),
        ("space after the version", b"GET / HTTP/1.1 \r\n", BadVersion),
        ("second request in the line", b"GET / HTTP/1.1 GET /b HTTP/1.1\r\n", BadVersion),
        ("lower-case version", b"GET / http/1.1\r\n", BadVersion),
        ("long version", b"GET / HTTP/1.10\r\n", BadVersion),
        ("version without a dot", b"GET / HTTP/11\r\n", BadVersion),
        ("not HTTP", b"GET / ICY/1.1\r\n", BadVersion),
        ("HTTP/2.0", b"GET / HTTP/2.0\r\n", UnsupportedVersion),
        ("HTTP/3.1", b"GET / HTTP/3.1\r\n", UnsupportedVersion),
        ("HTTP/0.9 spelt out", b"GET / HTTP/0.9\r\n", UnsupportedVersion),
        ("relative target", b"GET a HTTP/1.1\r\n", BadTarget),
        ("fragment", b"GET /a#b HTTP/1.1\r\n", BadTarget),
        ("byte beyond ASCII in the target", b"GET /\xc3\xa9 HTTP/1.1\r\n", BadTarget),
        ("asterisk with GET", b"GET * HTTP/1.1\r\n", BadTarget),
        ("unknown scheme", b"GET ftp://a/ HTTP/1.1\r\n", BadTarget),
        ("absolute without a host", b"GET http:///a HTTP/1.1\r\n", BadHost),
        ("absolute with user information", b"GET http://u@a/ HTTP/1.1\r\n", BadHost),
        ("CONNECT to a path", b"CONNECT /a HTTP/1.1\r\n", BadTarget),
        ("CONNECT without a port", b"CONNECT a HTTP/1.1\r\n", BadTarget),
        ("two empty lines first", b"\r\n\r\nGET / HTTP/1.1\r\n", LeadingEmptyLines),
        ("bare LF", b"GET / HTTP/1.1\nHost: a\r\n\r\n", BareLf),
        ("bare CR", b"GET / HTTP/1.1\rHost: a\r\n\r\n", BareCr),
        ("bare LF first", b"\nGET / HTTP/1.1\r\n", BareLf),
        ("NUL in the target", b"GET /\0 HTTP/1.1\r\n", ControlByte),
        ("DEL in the target", b"GET /\x7f HTTP/1.1\r\n", ControlByte),
        ("TLS on a plain port", b"\x16\x03\x01\x02\x00\x01", ControlByte),
    ];
    for (name, bytes, expected) in vectors {
        assert_eq!(refusal(bytes), Some(*expected), "{name}");
    }
}

#[test]
fn fields_that_are_refused() {
    use ParseError::*;
    let vectors = [
        ("space before the colon", "A : b\r\n", SpaceBeforeColon),
        ("tab before the colon", "A\t: b\r\n", SpaceBeforeColon),
        ("smuggled chunked by a space", "Transfer-Encoding : chunked\r\n", SpaceBeforeColon),
        ("obsolete folding", "A: b\r\n c\r\n", ObsFold),
        ("coding on a folded line", "Transfer-Encoding:\r\n\tchunked\r\n", BadTransferEncoding),
        ("folding with a tab", "Transfer-Encoding: chunked\r\n\t, x\r\n", ObsFold),
        ("folding before any value", " A: b\r\n", ObsFold),
        ("empty name", ": b\r\n", EmptyFieldName),
        ("no colon", "Abc\r\n", BadFieldName),
        ("words without a colon", "A b\r\n", BadFieldName),
        ("parenthesis in a name", "A(b): c\r\n", BadFieldName),
        ("slash in a name", "A/b: c\r\n", BadFieldName),
        ("byte beyond ASCII in a name", "\u{e4}: c\r\n", BadFieldName),
        ("bare LF ends a field", "A: b\nB: c\r\n", BareLf),
        ("bare CR in a value", "A: b\rc\r\n", BareCr),
        ("CR CR LF", "A: b\r\r\n", BareCr),
        ("bare LF hides a field", "A: b\nTransfer-Encoding: chunked\r\n", BareLf),
        ("bare CR hides a field", "A: b\rTransfer-Encoding: chunked\r\n", BareCr),
        ("NUL in a value", "A: b\0c\r\n", ControlByte),
        ("NUL in a name", "A\0: c\r\n", ControlByte),
        ("vertical tab in a value", "A: b\x0bc\r\n", ControlByte),
        ("form feed in a value", "A: b\x0cc\r\n", ControlByte),
        ("escape in a value", "A: \x1b[0m\r\n", ControlByte),
        ("DEL in a value", "A: \x7f\r\n", ControlByte),
        ("second Host", "Host: b\r\n", DuplicateHost),
        ("equal second Host", "host: a\r\n", DuplicateHost),
    ];
    for (name, fields, expected) in vectors {
        assert_eq!(refusal(&with(fields)), Some(expected), "{name}");
    }
}

#[test]
fn framing_that_is_refused() {
    use ParseError::*;
    let cl = "Content-Length: 5\r\n";
    let te = "Transfer-Encoding: chunked\r\n";
    let vectors = [
        ("CL.TE", format!("{cl}{te}"), LengthAndTransferEncoding),
        ("TE.CL", format!("{te}{cl}"), LengthAndTransferEncoding),
        ("CL 0 with TE", format!("Content-Length: 0\r\n{te}"), LengthAndTransferEncoding),
        ("CL.CL equal", format!("{cl}{cl}"), DuplicateContentLength),
        ("CL.CL different", format!("{cl}Content-Length: 6\r\n"), DuplicateContentLength),
        ("CL.CL in other case", format!("{cl}CONTENT-LENGTH: 5\r\n"), DuplicateContentLength),
        ("TE.TE equal", format!("{te}{te}"), DuplicateTransferEncoding),
        (
            "TE.TE identity",
            format!("{te}Transfer-Encoding: identity\r\n"),
            DuplicateTransferEncoding,
        ),
        ("TE identity.TE", format!("Transfer-Encoding: identity\r\n{te}"), UnknownTransferCoding),
    ];
    for (name, fields, expected) in &vectors {
        assert_eq!(refusal(&with(fields)), Some(*expected), "{name}");
    }
}

#[test]
fn content_lengths_that_are_refused() {
    use ParseError::{BadContentLength, ContentLengthOverflow};
    let vectors = [
        ("5, 5", BadContentLength),
        ("5,6", BadContentLength),
        ("+5", BadContentLength),
        ("-5", BadContentLength),
        ("-0", BadContentLength),
        ("5 6", BadContentLength),
        ("5\t6", BadContentLength),
        ("", BadContentLength),
        ("five", BadContentLength),
        ("0x5", BadContentLength),
        ("5;a", BadContentLength),
        ("5.0", BadContentLength),
        ("1e3", BadContentLength),
        ("\"5\"", BadContentLength),
        ("1_000", BadContentLength),
        ("\u{0665}", BadContentLength),
        ("9223372036854775808", ContentLengthOverflow),
        ("18446744073709551621", ContentLengthOverflow),
        ("99999999999999999999999999999999", ContentLengthOverflow),
    ];
    for (value, expected) in vectors {
        let bytes = with(&format!("Content-Length: {value}\r\n"));
        assert_eq!(refusal(&bytes), Some(expected), "{value:?}");
    }
}

#[test]
fn transfer_codings_that_are_refused() {
    use ParseError::{BadTransferEncoding, UnknownTransferCoding};
    let vectors = [
        ("chunked, chunked", BadTransferEncoding),
        ("chunked, gzip", BadTransferEncoding),
        ("chunked, identity", BadTransferEncoding),
        ("chunked,", BadTransferEncoding),
        (", chunked", BadTransferEncoding),
        ("", BadTransferEncoding),
        ("chunked;q=1", BadTransferEncoding),
        ("\"chunked\"", BadTransferEncoding),
        ("chunked foo", BadTransferEncoding),
        ("chun ked", BadTransferEncoding),
        ("[chunked]", BadTransferEncoding),
        ("xchunked", UnknownTransferCoding),
        ("chunkedx", UnknownTransferCoding),
        ("chunk", UnknownTransferCoding),
        ("identity", UnknownTransferCoding),
        ("gzip", UnknownTransferCoding),
        ("gzip, chunked", UnknownTransferCoding),
        ("identity, chunked", UnknownTransferCoding),
    ];
    for (value, expected) in vectors {
        let bytes = with(&format!("Transfer-Encoding: {value}\r\n"));
        assert_eq!(refusal(&bytes), Some(expected), "{value:?}");
    }
    let http10 = b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(refusal(http10), Some(ParseError::TransferEncodingOnHttp10));
}

#[test]
fn hosts_that_are_refused() {
    let vectors = [
        "", " ", ":80", "a b", "a, b", "u@a", "a/b", "a:b", "a:80:80", "a:99999", "[::1", "a\tb",
        "a?b",
    ];
    for host in vectors {
        let bytes = format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n").into_bytes();
        assert_eq!(refusal(&bytes), Some(ParseError::BadHost), "{host:?}");
    }
    assert_eq!(refusal(b"GET / HTTP/1.1\r\n\r\n"), Some(ParseError::MissingHost));
    let absolute = b"GET http://a/ HTTP/1.1\r\n\r\n";
    assert_eq!(refusal(absolute), Some(ParseError::MissingHost));
    let old = b"GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n";
    assert_eq!(refusal(old), Some(ParseError::DuplicateHost));
}

#[test]
fn other_limits() {
    let connect = b"CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\nContent-Length: 5\r\n\r\n";
    assert_eq!(refusal(connect), Some(ParseError::ConnectWithBody));
    let names = vec!["x"; 33].join(",");
    let bytes = with(&format!("Connection: {names}\r\n"));
    assert_eq!(refusal(&bytes), Some(ParseError::TooManyConnectionOptions));
}

#[test]
fn a_head_at_its_limit_is_accepted_and_one_beyond_it_is_not() {
    let limits = HeadLimits { bytes: 64, fields: 2 };
    let sized = |length: usize| {
        let fixed = "GET / HTTP/1.1\r\nHost: a\r\nB: \r\n\r\n".len();
        format!("GET / HTTP/1.1\r\nHost: a\r\nB: {}\r\n\r\n", "x".repeat(length - fixed))
    };
    let parse = |text: &str| RequestHead::new(limits).parse(text.as_bytes());
    assert_eq!(parse(&sized(64)), Ok(Status::Complete(64)));
    assert_eq!(parse(&sized(65)), Err(ParseError::HeadTooLarge));
    assert_eq!(parse(&sized(65)[..63]), Ok(Status::Partial));
    assert_eq!(parse(&format!("GET /{}", "x".repeat(60))), Err(ParseError::TargetTooLong));
    let many = "GET / HTTP/1.1\r\nHost: a\r\nB: c\r\nD: e\r\n\r\n";
    assert_eq!(parse(many), Err(ParseError::TooManyFields));
    assert_eq!(parse("GET / HTTP/1.1\r\nHost: a\r\nB: c\r\n\r\n"), Ok(Status::Complete(33)));
}

#[test]
fn targets_and_hosts_as_they_are_understood() {
    type Vector = (&'static [u8], TargetForm, &'static [u8], Option<&'static [u8]>);
    let vectors: [Vector; 9] = [
        (b"GET /a?b HTTP/1.1\r\nHost: c:80\r\n\r\n", TargetForm::Origin, b"/a?b", Some(b"c:80")),
        (b"GET //a HTTP/1.0\r\n\r\n", TargetForm::Origin, b"//a", None),
        (b"GET http://a/b HTTP/1.1\r\nHost: c\r\n\r\n", TargetForm::Absolute, b"/b", Some(b"a")),
        (b"GET HTTPS://a:1 HTTP/1.1\r\nHost: c\r\n\r\n", TargetForm::Absolute, b"/", Some(b"a:1")),
        (b"GET http://a?b HTTP/1.1\r\nHost: c\r\n\r\n", TargetForm::Absolute, b"?b", Some(b"a")),
        (b"CONNECT a:1 HTTP/1.1\r\nHost: c\r\n\r\n", TargetForm::Authority, b"a:1", Some(b"a:1")),
        (b"OPTIONS * HTTP/1.1\r\nHost: c\r\n\r\n", TargetForm::Asterisk, b"*", Some(b"c")),
        (b"GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", TargetForm::Origin, b"/", Some(b"[::1]:80")),
        (b"GET http://a/ HTTP/1.1\r\nHost:\r\n\r\n", TargetForm::Absolute, b"/", Some(b"a")),
    ];
    for (bytes, form, path, host) in vectors {
        let head = parsed(bytes);
        let name = bytes.escape_ascii();
        assert_eq!(head.target_form(), form, "{name}");
        assert_eq!(head.path(bytes), path, "{name}");
        assert_eq!(head.host(bytes), host, "{name}");
    }
}

#[test]
fn framing_as_it_is_understood() {
    let vectors = [
        ("", Framing::None),
        ("Content-Length: 0\r\n", Framing::None),
        ("Content-Length: 5\r\n", Framing::Length(5)),
        ("Content-Length:5\r\n", Framing::Length(5)),
        ("content-length: \t 005\t\r\n", Framing::Length(5)),
        ("Content-Length: 9223372036854775807\r\n", Framing::Length(i64::MAX as u64)),
        ("Transfer-Encoding: chunked\r\n", Framing::Chunked),
        ("TRANSFER-ENCODING:\tChunKED \r\n", Framing::Chunked),
    ];
    for (fields, framing) in vectors {
        assert_eq!(parsed(&with(fields)).framing(), framing, "{fields:?}");
    }
}

#[test]
fn persistence_depends_on_the_version() {
    let vectors = [
        ("1.1", "", true),
        ("1.1", "Connection: close\r\n", false),
        ("1.1", "Connection: foo, CLOSE ,bar\r\n", false),
        ("1.1", "Connection: keep-alive\r\nConnection: close\r\n", false),
        ("1.1", "Proxy-Connection: close\r\n", true),
        ("1.0", "", false),
        ("1.0", "Connection: Keep-Alive\r\n", true),
        ("1.0", "Connection: keep-alive, close\r\n", false),
    ];
    for (version, fields, keeps) in vectors {
        let bytes = format!("GET / HTTP/{version}\r\nHost: a\r\n{fields}\r\n").into_bytes();
        assert_eq!(parsed(&bytes).keep_alive(), keeps, "{version} {fields:?}");
    }
}

#[test]
fn upgrades_need_both_fields_and_never_lead_to_h2c() {
    let vectors = [
        ("Connection: upgrade\r\nUpgrade: websocket\r\n", true),
        ("Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n", true),
        ("Connection: upgrade\r\n", false),
        ("Upgrade: websocket\r\n", false),
        ("Connection: upgrade\r\nUpgrade: h2c\r\n", false),
        ("Connection: upgrade\r\nUpgrade: h2c,, H2C\r\n", false),
        ("Connection: upgrade\r\nUpgrade: h2c, websocket\r\n", true),
        ("Connection: upgrade\r\nUpgrade: tcp\r\nContent-Length: 5\r\n", true),
    ];
    for (fields, upgrade) in vectors {
        assert_eq!(parsed(&with(fields)).upgrade(), upgrade, "{fields:?}");
    }
    let old = b"GET / HTTP/1.0\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
    assert!(!parsed(old).upgrade());
}

#[test]
fn credentials_for_the_connection_are_told_from_those_for_the_request() {
    let vectors = [
        ("Authorization: NTLM TlRMTVNTUAAB\r\n", true),
        ("authorization:negotiate YII=\r\n", true),
        ("Proxy-Authorization: Negotiate YII=\r\n", true),
        ("Authorization: Bearer NTLM\r\n", false),
        ("Authorization: Basic eA==\r\nX: NTLM\r\n", false),
        ("Authorization: NTLMv3 eA==\r\n", false),
        ("", false),
    ];
    for (fields, expected) in vectors {
        assert_eq!(parsed(&with(fields)).authenticates_connection(), expected, "{fields:?}");
    }
}

#[test]
fn expectations_and_trailers() {
    let expects = parsed(&with("Expect: 100-Continue\r\nContent-Length: 1\r\n"));
    assert!(expects.expects_continue());
    assert!(!parsed(&with("Expect: 100-continue\r\n")).expects_continue(), "nothing to send");
    assert!(parsed(&with("TE: deflate, trailers\r\n")).accepts_trailers());
    assert!(!parsed(&with("TE: deflate\r\n")).accepts_trailers());
}

#[test]
fn one_empty_line_before_a_request_is_skipped() {
    let bytes = b"\r\nGET / HTTP/1.0\r\n\r\n";
    let head = parsed(bytes);
    assert_eq!(head.method(), Method::Get);
    assert_eq!(head.version(), Version::Http10);
    assert_eq!(head.head_len(), bytes.len());
}

#[test]
fn one_head_serves_one_message_after_another() {
    let mut head = RequestHead::default();
    let first = with("Content-Length: 5\r\nConnection: close\r\n");
    assert!(head.parse(&first).is_ok());
    assert_eq!(head.parse(b"GE\0"), Err(ParseError::ControlByte));
    let second = b"GET /b HTTP/1.1\r\nHost: b\r\n\r\nrest";
    assert_eq!(head.parse(second), Ok(Status::Complete(second.len() - 4)));
    assert_eq!((head.framing(), head.keep_alive()), (Framing::None, true));
    assert_eq!(head.fields().len(), 1);
}

/// A head of one megabyte in one line, a byte at a time: a parser that looks at what it has seen
/// again would look at five hundred thousand million bytes and not come to an end.
#[test]
fn a_slow_drip_costs_no_more_than_the_bytes_it_brings() {
    let limits = HeadLimits { bytes: 2 << 20, fields: 100 };
    let value = "x".repeat(1 << 20);
    let bytes = with(&format!("A: {value}\r\n"));
    let mut head = RequestHead::new(limits);
    for end in 0..bytes.len() {
        assert_eq!(head.parse(&bytes[..end]), Ok(Status::Partial));
    }
    assert_eq!(head.parse(&bytes), Ok(Status::Complete(bytes.len())));
}
