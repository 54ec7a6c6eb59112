//! The rules for bodies: chunks, trailers, lengths, ends of streams.

use loadline_http1::{
    BodyReader, Framing, HeadLimits, LAST_CHUNK, Method, ParseError, Progress, RequestHead,
    ResponseHead, Underscores,
};

fn chunked(bytes: &[u8]) -> Result<Progress, ParseError> {
    BodyReader::new(Framing::Chunked).feed(bytes)
}

#[test]
fn chunked_bodies_that_are_refused() {
    use ParseError::*;
    let vectors: &[(&str, &[u8], ParseError)] = &[
        ("no size", b"\r\n", BadChunkSize),
        ("extension without a size", b";a\r\n", BadChunkSize),
        ("sign", b"+5\r\n", BadChunkSize),
        ("minus", b"-1\r\n", BadChunkSize),
        ("0x", b"0x5\r\n", BadChunkSize),
        ("leading space", b" 5\r\n", BadChunkSize),
        ("trailing space", b"5 \r\n", BadChunkSize),
        ("trailing tab", b"5\t\r\n", BadChunkSize),
        ("space before an extension", b"5 ;a\r\n", BadChunkSize),
        ("not hexadecimal", b"5g\r\n", BadChunkSize),
        ("underscore", b"1_0\r\n", BadChunkSize),
        ("NUL", b"5\0\r\n", BadChunkSize),
        ("16 digits", b"1000000000000005\r\n", ChunkSizeOverflow),
        ("more bits than 64", b"10000000000000005\r\n", ChunkSizeOverflow),
        ("zeros without end", b"0000000000000000\r\n", ChunkSizeOverflow),
        ("bare LF after a size", b"5\nhello\r\n", BareLf),
        ("bare CR after a size", b"5\rhello\r\n", BareCr),
        ("bare LF in an extension", b"5;a\nhello\r\n", BareLf),
        ("bare CR in an extension", b"5;a\rb\r\n", BareCr),
        ("NUL in an extension", b"5;a\0\r\n", BadChunkExtension),
        ("semicolon without an extension", b"5;\r\n", BadChunkExtension),
        ("semicolon behind an extension", b"5;a;\r\n", BadChunkExtension),
        ("extension without a name", b"5;=a\r\n", BadChunkExtension),
        ("extension without a value", b"5;a=\r\n", BadChunkExtension),
        ("extension whose name is no token", b"5;a[=b\r\n", BadChunkExtension),
        ("extension whose value is no token", b"5;a=b=c\r\n", BadChunkExtension),
        ("something behind quotes", b"5;a=\"b\"c\r\n", BadChunkExtension),
        ("two names", b"5;a b\r\n", BadChunkExtension),
        ("open quote at the line end", b"5;a=\"b\r\n", BadChunkExtension),
        ("LF in quotes", b"5;a=\"\n\"\r\n", BadChunkExtension),
        ("escaped quote leaves it open", b"5;a=\"\\\"\r\n", BadChunkExtension),
        ("too little data", b"5\r\nhell\r\n0\r\n", MissingChunkEnd),
        ("too much data", b"5\r\nhello!\r\n", MissingChunkEnd),
        ("data ended by LF", b"5\r\nhello\n0\r\n", MissingChunkEnd),
        ("data ended by CR", b"5\r\nhello\r0\r\n", MissingChunkEnd),
        ("next size at once", b"5\r\nhello0\r\n\r\n", MissingChunkEnd),
        ("trailer Content-Length", b"0\r\nContent-Length: 5\r\n\r\n", ForbiddenTrailer),
        ("trailer Transfer-Encoding", b"0\r\ntransfer-encoding: x\r\n\r\n", ForbiddenTrailer),
        ("trailer Host", b"0\r\nHost: x\r\n\r\n", ForbiddenTrailer),
        ("trailer Connection", b"0\r\nConnection: close\r\n\r\n", ForbiddenTrailer),
        ("trailer Keep-Alive", b"0\r\nKeep-Alive: 1\r\n\r\n", ForbiddenTrailer),
        ("trailer with a space", b"0\r\nA : b\r\n\r\n", SpaceBeforeColon),
        ("trailer that is a request", b"0\r\nGET / HTTP/1.1\r\n\r\n", BadFieldName),
        ("folded trailer", b"0\r\nA: b\r\n c\r\n\r\n", ObsFold),
        ("bare LF in a trailer", b"0\r\nA: b\n\r\n", BareLf),
        ("bare LF ends the trailers", b"0\r\n\n", BareLf),
        ("bare CR ends the trailers", b"0\r\n\rX", BareCr),
        ("NUL in a trailer", b"0\r\nA: \0\r\n\r\n", ControlByte),
    ];
    for (name, bytes, expected) in vectors {
        assert_eq!(chunked(bytes), Err(*expected), "{name}");
        let mut reader = BodyReader::new(Framing::Chunked);
        let one_by_one = bytes.chunks(1).find_map(|byte| reader.feed(byte).err());
        assert_eq!(one_by_one, Some(*expected), "{name}, byte by byte");
    }
}

#[test]
fn chunked_bodies_and_where_they_end() {
    let vectors: [(&[u8], &[u8]); 6] = [
        (LAST_CHUNK, b""),
        (b"5\r\nhello\r\n0\r\n\r\n", b"hello"),
        (b"005\r\nhello\r\n00\r\n\r\n", b"hello"),
        (b"5;a=b;c=\"d;\\\" e\"\r\nhello\r\n0;x\r\n\r\n", b"hello"),
        (b"A\r\n0123456789\r\n1\r\n\r\r\n0\r\n\r\n", b"0123456789\r"),
        (b"1\r\n\n\r\n0\r\nA: b\r\nC:\r\n\r\n", b"\n"),
    ];
    for (bytes, payload) in vectors {
        let name = bytes.escape_ascii();
        let followed = [bytes, b"GET / HTTP/1.1\r\n"].concat();
        let mut data = Vec::new();
        let progress = BodyReader::new(Framing::Chunked)
            .feed_data(&followed, |piece| data.extend_from_slice(piece));
        let ended = progress.map(|progress| (progress.consumed, progress.finished));
        assert_eq!(ended, Ok((bytes.len(), true)), "{name}");
        assert_eq!(data, payload, "{name}");
    }
}

/// A chunked body of a POST, fed in these pieces: what is passed on of it.
fn passed_on(underscores: Underscores, pieces: &[&[u8]]) -> Result<String, ParseError> {
    let mut head = RequestHead::default().with_underscores(underscores);
    head.parse(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")?;
    let (mut reader, mut out) = (head.body(), Vec::new());
    for piece in pieces {
        let progress = reader.feed(piece)?;
        out.extend_from_slice(&piece[..progress.passed]);
        if progress.has_trailers() {
            reader.write_trailers(&mut out);
        }
    }
    assert!(reader.is_finished());
    Ok(String::from_utf8(out).expect("the body was text"))
}

#[test]
fn a_trailer_with_an_underscore_is_dropped_refused_or_kept() {
    let body = "1\r\na\r\n0\r\nA:1\r\nContent_Length:  5 \r\nB: 2 \r\n\r\n";
    let left = "1\r\na\r\n0\r\nA:1\r\nB: 2\r\n\r\n";
    let kept = "1\r\na\r\n0\r\nA:1\r\nContent_Length:  5\r\nB: 2\r\n\r\n";
    for at in 0..=body.len() {
        let (head, tail) = body.as_bytes().split_at(at);
        let pieces = [head, tail, b"GET / HTTP/1.1"];
        assert_eq!(passed_on(Underscores::Drop, &pieces).as_deref(), Ok(left), "{at}");
        assert_eq!(passed_on(Underscores::Keep, &pieces).as_deref(), Ok(kept), "{at}");
        let refused = Err(ParseError::UnderscoreInName);
        assert_eq!(passed_on(Underscores::Refuse, &pieces), refused, "{at}");
    }
    assert_eq!(ParseError::UnderscoreInName.status(), 400);
    let none = "1\r\na\r\n0\r\n\r\n";
    for at in 0..=none.len() {
        let (head, tail) = none.as_bytes().split_at(at);
        assert_eq!(passed_on(Underscores::Drop, &[head, tail]).as_deref(), Ok(none), "{at}");
    }
}

#[test]
fn a_trailer_that_says_nothing_there_is_left_out_and_the_others_pass() {
    let body = "1\r\na\r\n0\r\nDate: x\r\ngrpc-status: 0\r\nExpect: x\r\nForwarded: for=x\r\n\
        X-Forwarded-For: x\r\nX-Forwarded-Port: 1\r\nAlt-Svc: x\r\nMax-Forwards: 1\r\nB: 2\r\n\r\n";
    let left = "1\r\na\r\n0\r\ngrpc-status: 0\r\nB: 2\r\n\r\n";
    for underscores in [Underscores::Drop, Underscores::Keep, Underscores::Refuse] {
        for at in 0..=body.len() {
            let (head, tail) = body.as_bytes().split_at(at);
            assert_eq!(passed_on(underscores, &[head, tail]).as_deref(), Ok(left), "{at}");
        }
    }
    let mut reader = BodyReader::new(Framing::Chunked);
    assert!(reader.feed(b"0\r\nDate: x\r\n\r\n").unwrap().finished);
    assert!(reader.trailers().is_none(), "none is left");
}

#[test]
fn trailers_of_hidden_names_are_left_out_however_they_come() {
    let body = "1\r\na\r\n0\r\nx-user: root\r\nB: 2\r\nVia: x\r\nX-User-Id: 3\r\n\r\n";
    for at in 0..=body.len() {
        let names = vec!["X-User".to_owned(), "via".to_owned()];
        let mut reader = BodyReader::new(Framing::Chunked).without_trailers(names);
        let mut out = Vec::new();
        for piece in [&body[..at], &body[at..]] {
            let progress = reader.feed(piece.as_bytes()).unwrap();
            out.extend_from_slice(&piece.as_bytes()[..progress.passed]);
            if progress.has_trailers() {
                reader.write_trailers(&mut out);
            }
        }
        assert_eq!(out, b"1\r\na\r\n0\r\nB: 2\r\nX-User-Id: 3\r\n\r\n", "{at}");
    }
}

#[test]
fn trailers_are_kept_for_who_asks() {
    let mut reader = BodyReader::new(Framing::Chunked);
    reader.feed(b"0\r\nA: b\r\nendpoint-load-met").unwrap();
    assert!(reader.trailers().is_none(), "they are not complete");
    reader.feed(b"rics: JSON {}\r\n\r\nnext").unwrap();
    let trailers = reader.trailers().unwrap();
    assert_eq!(trailers.get("a"), Some(&b"b"[..]));
    assert_eq!(trailers.load_metrics(), Some(&b"JSON {}"[..]));
    assert_eq!(trailers.iter().count(), 2);
}

#[test]
fn extensions_and_trailers_are_bounded() {
    let extension = |length: usize| format!("1;{}\r\n", "x".repeat(length)).into_bytes();
    assert!(chunked(&extension(256)).is_ok());
    assert_eq!(chunked(&extension(257)), Err(ParseError::ChunkExtensionTooLong));
    let long = format!("0\r\nA: {}", "x".repeat(16 * 1024));
    assert_eq!(chunked(long.as_bytes()), Err(ParseError::TrailersTooLarge));
    let many = format!("0\r\n{}", "A: b\r\n".repeat(101));
    assert_eq!(chunked(many.as_bytes()), Err(ParseError::TrailersTooLarge));
}

#[test]
fn trailers_may_be_as_large_as_heads() {
    let limits = HeadLimits { bytes: 100, fields: 3 };
    let head = "Host: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let mut request = RequestHead::new(limits);
    request.parse(format!("POST / HTTP/1.1\r\n{head}").as_bytes()).unwrap();
    let mut response = ResponseHead::new(limits);
    response.parse(format!("HTTP/1.1 200 OK\r\n{head}").as_bytes(), Method::Get).unwrap();
    for body in [request.body(), response.body()] {
        let read = |trailers: &str| {
            body.clone().feed(format!("0\r\n{trailers}\r\n").as_bytes()).map(|it| it.finished)
        };
        assert_eq!(read(&"A: b\r\n".repeat(3)), Ok(true));
        assert_eq!(read(&"A: b\r\n".repeat(4)), Err(ParseError::TrailersTooLarge));
        assert_eq!(read(&format!("A: {}\r\n", "x".repeat(92))), Ok(true));
        assert_eq!(read(&format!("A: {}\r\n", "x".repeat(94))), Err(ParseError::TrailersTooLarge));
    }
}

#[test]
fn a_counted_body_ends_at_its_length() {
    let mut reader = BodyReader::new(Framing::Length(5));
    assert_eq!(reader.feed(b"hel"), Ok(so_far(3, false)));
    assert_eq!(reader.payload_ahead(), 2);
    assert_eq!(reader.end_of_stream(), Err(ParseError::TruncatedBody));
    assert_eq!(reader.feed(b"loGET"), Ok(so_far(2, true)));
    assert_eq!(reader.feed(b"GET"), Ok(so_far(0, true)));
    assert_eq!(reader.end_of_stream(), Ok(()));
}

#[test]
fn only_some_bodies_may_end_with_the_connection() {
    let mut until_close = BodyReader::new(Framing::UntilClose);
    assert_eq!(until_close.feed(b"abc"), Ok(so_far(3, false)));
    assert_eq!(until_close.end_of_stream(), Ok(()));
    assert!(until_close.is_finished());
    let mut chunked = BodyReader::new(Framing::Chunked);
    chunked.feed(b"0\r\n").unwrap();
    assert_eq!(chunked.end_of_stream(), Err(ParseError::TruncatedBody));
    assert_eq!(BodyReader::new(Framing::None).end_of_stream(), Ok(()));
}

#[test]
fn payload_can_be_moved_past_the_reader() {
    let mut reader = BodyReader::new(Framing::Chunked);
    reader.feed(b"5\r\nh").unwrap();
    assert_eq!(reader.payload_ahead(), 4);
    reader.skip(3);
    reader.skip(1);
    assert_eq!(reader.payload_ahead(), 0);
    assert!(reader.feed(b"\r\n0\r\n\r\n").unwrap().finished);
    let mut counted = BodyReader::new(Framing::Length(5));
    counted.skip(5);
    assert!(counted.is_finished());
}

fn so_far(consumed: usize, finished: bool) -> Progress {
    Progress { consumed, passed: consumed, finished }
}
