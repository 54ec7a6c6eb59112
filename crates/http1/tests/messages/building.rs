//! Messages made here are messages that are read here.

use loadline_http1::{
    BodyReader, BuildError, CONTINUE, Framing, LAST_CHUNK, LocalReply, MessageBuilder, Method,
    RequestHead, ResponseHead, Status, write_chunk,
};

#[test]
fn a_built_request_reads_as_it_was_meant() {
    let mut out = Vec::new();
    MessageBuilder::request(&mut out, "POST", "/a?b", "c:80")
        .and_then(|request| request.field("X-Y", "z"))
        .unwrap()
        .finish(Framing::Length(3));
    let mut head = RequestHead::default();
    assert_eq!(head.parse(&out), Ok(Status::Complete(out.len())));
    assert_eq!(head.method(), Method::Post);
    assert_eq!(head.path(&out), b"/a?b");
    assert_eq!(head.host(&out), Some(&b"c:80"[..]));
    assert_eq!(head.framing(), Framing::Length(3));
    assert_eq!(head.fields().get(&out, "x-y"), Some(&b"z"[..]));
}

#[test]
fn parts_that_would_break_out_of_their_place_are_refused() {
    let mut out = Vec::new();
    let error = |method, target, host, out: &mut Vec<u8>| {
        MessageBuilder::request(out, method, target, host).err()
    };
    assert_eq!(error("G T", "/", "a", &mut out), Some(BuildError::Method("G T".into())));
    assert_eq!(error("GET", "/ a", "a", &mut out), Some(BuildError::Target("/ a".into())));
    assert_eq!(error("GET", "/", "a\r\n", &mut out), Some(BuildError::Host("a\r\n".into())));
    for (name, value) in [("A", "b\r\nC: d"), ("A:", "b"), ("", "b"), ("A", "b\0")] {
        let request = MessageBuilder::request(&mut out, "GET", "/", "a").unwrap();
        let expected = BuildError::Field { name: name.into(), value: value.into() };
        assert_eq!(request.field(name, value).err(), Some(expected));
    }
}

#[test]
fn built_answers_and_chunks_read_as_they_were_meant() {
    let mut out = Vec::new();
    MessageBuilder::response(&mut out, 200).finish(Framing::Chunked);
    write_chunk(&mut out, b"hello, ");
    write_chunk(&mut out, b"");
    write_chunk(&mut out, b"world");
    out.extend_from_slice(LAST_CHUNK);
    let mut head = ResponseHead::default();
    let Ok(Status::Complete(length)) = head.parse(&out, Method::Get) else { panic!() };
    let mut body = Vec::new();
    let mut reader = BodyReader::new(head.framing());
    let progress = reader.feed_data(&out[length..], |piece| body.extend_from_slice(piece));
    assert!(progress.unwrap().finished);
    assert_eq!(body, b"hello, world");
}

#[test]
fn answers_of_ones_own_are_complete() {
    let mut out = Vec::new();
    let shed = LocalReply {
        retry_after: Some(2),
        close: false,
        extra: b"X: y\r\n",
        ..LocalReply::closing(503)
    };
    shed.write(&mut out);
    let expected = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\n\
        Content-Length: 20\r\nRetry-After: 2\r\nX: y\r\nConnection: keep-alive\r\n\r\n\
        Service Unavailable\n";
    assert_eq!(String::from_utf8(out).unwrap(), expected);
    let mut out = Vec::new();
    LocalReply { to_head: true, ..LocalReply::closing(400) }.write(&mut out);
    assert!(out.ends_with(b"Connection: close\r\n\r\n"));
    let interim = ResponseHead::default().parse(CONTINUE, Method::Put);
    assert_eq!(interim, Ok(Status::Complete(CONTINUE.len())));
}
