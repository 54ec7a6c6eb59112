//! What holds for every message: splits do not matter, arbitrary bytes do no harm, payloads come
//! out as they went in, and a forwarded head means what the client's did.

use std::net::{IpAddr, Ipv6Addr};

use loadline_http1::{
    BodyReader, ClientLines, ForwardRules, Forwarded, Framing, HeadLimits, LAST_CHUNK, Method,
    ParseError, RequestHead, RequestOptions, ResponseHead, ResponseOptions, Status, Trailers,
    lenient_status, write_chunk, write_request, write_response,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// Pieces that messages and attacks on them are made of, so that random sequences get far.
fn fragments() -> impl Strategy<Value = Vec<u8>> {
    let fragment = prop_oneof![
        8 => select(&[
            "GET / HTTP/1.1\r\n", "POST http://a/b HTTP/1.1\r\n", "OPTIONS * HTTP/1.0\r\n",
            "HTTP/1.1 200 OK\r\n", "HTTP/1.0 204 \r\n", "Host: a\r\n", "Content-Length: 5\r\n",
            "Transfer-Encoding: chunked\r\n", "Connection: close, X\r\n", "X: y\r\n",
            "Upgrade: websocket\r\n", "Connection: upgrade\r\n", "TE: trailers\r\n", "\r\n",
            "X-Forwarded-For: 1.2.3.4\r\n", "Via: 1.1 x\r\n", "Forwarded: for=x\r\n", "A:\t b \r\n",
        ][..]).prop_map(|text| text.as_bytes().to_vec()),
        2 => select(&["\r", "\n", " ", "\t", "\0", ":", ",", "GET", "chunked", "5\r\nhello\r\n",
            "0\r\n", ";a=\"", "\x7f", "HTTP/1.1"][..])
            .prop_map(|text| text.as_bytes().to_vec()),
        1 => vec(any::<u8>(), 0..12),
    ];
    vec(fragment, 0..14).prop_map(|parts| parts.concat())
}

/// The message in one piece with the head it gives, and the same fed in growing prefixes.
fn in_prefixes<H: Clone>(
    bytes: &[u8],
    cuts: &[usize],
    head: &H,
    parse: impl Fn(&mut H, &[u8]) -> Result<Status, ParseError>,
) -> (Result<Status, ParseError>, H) {
    let mut head = head.clone();
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
    cuts.sort_unstable();
    for cut in cuts {
        let result = parse(&mut head, &bytes[..cut]);
        if result != Ok(Status::Partial) {
            return (result, head);
        }
    }
    (parse(&mut head, bytes), head)
}

fn small_limits() -> impl Strategy<Value = HeadLimits> {
    (20..200_usize, 1..8_usize).prop_map(|(bytes, fields)| HeadLimits { bytes, fields })
}

/// What was consumed, whether the body ended, the payload, how many trailers.
type Read = Result<(usize, bool, Vec<u8>, Option<usize>), ParseError>;

/// Reads a body fed in pieces of these sizes, or in one piece.
fn read_body(framing: Framing, bytes: &[u8], sizes: &[usize]) -> Read {
    let mut reader = BodyReader::new(framing);
    let (mut at, mut data, mut sizes) = (0, Vec::new(), sizes.iter().cycle());
    while at < bytes.len() && !reader.is_finished() {
        let size = sizes.next().copied().unwrap_or(usize::MAX).clamp(1, bytes.len() - at);
        let piece = &bytes[at..at + size];
        at += reader.feed_data(piece, |payload| data.extend_from_slice(payload))?.consumed;
    }
    let trailers = reader.trailers().map(|trailers: &Trailers| trailers.iter().count());
    Ok((at, reader.is_finished(), data, trailers))
}

/// The framing that fields of another parser ask for; none if they contradict each other.
fn framing_of(fields: &[httparse::Header<'_>]) -> Option<Framing> {
    let named = |name: &str| {
        let fields = fields.iter().filter(|field| field.name.eq_ignore_ascii_case(name));
        fields.map(|field| field.value).collect::<Vec<_>>()
    };
    match (&named("content-length")[..], &named("transfer-encoding")[..]) {
        ([], []) => Some(Framing::None),
        ([], [coding]) => coding.eq_ignore_ascii_case(b"chunked").then_some(Framing::Chunked),
        ([length], []) => match std::str::from_utf8(length).ok()?.parse().ok()? {
            0 => Some(Framing::None),
            length => Some(Framing::Length(length)),
        },
        _ => None,
    }
}

/// A field that goes on unless Connection names it.
fn end_to_end_field() -> impl Strategy<Value = (String, String)> {
    ("x-[a-z]{1,6}", "[!-~]([ -~]{0,20}[!-~])?")
}

/// Fields that are for the proxy alone.
const HOPS: [&str; 4] = ["Connection", "Keep-Alive", "Proxy-Connection", "Upgrade"];

fn config() -> ProptestConfig {
    ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn requests_do_not_depend_on_how_they_are_split(
        bytes in fragments(), cuts in vec(any::<usize>(), 0..6), limits in small_limits(),
    ) {
        let mut whole = RequestHead::new(limits);
        let expected = whole.parse(&bytes);
        let head = RequestHead::new(limits);
        let (result, split) = in_prefixes(&bytes, &cuts, &head, RequestHead::parse);
        prop_assert_eq!(result, expected);
        prop_assert_eq!(split.fields().as_slice(), whole.fields().as_slice());
        prop_assert_eq!(split.keep_alive(), whole.keep_alive());
        if let Ok(Status::Complete(length)) = result {
            prop_assert!(length <= bytes.len() && length <= limits.bytes);
            prop_assert_eq!(split.framing(), whole.framing());
            prop_assert_eq!(split.host(&bytes), whole.host(&bytes));
        }
    }

    #[test]
    fn responses_do_not_depend_on_how_they_are_split(
        bytes in fragments(), cuts in vec(any::<usize>(), 0..6), limits in small_limits(),
    ) {
        let parse = |head: &mut ResponseHead, bytes: &[u8]| head.parse(bytes, Method::Get);
        let mut whole = ResponseHead::new(limits);
        let expected = parse(&mut whole, &bytes);
        let (result, split) = in_prefixes(&bytes, &cuts, &ResponseHead::new(limits), parse);
        prop_assert_eq!(result, expected);
        prop_assert_eq!(split.fields().as_slice(), whole.fields().as_slice());
        if result.is_ok_and(|status| status != Status::Partial) {
            prop_assert_eq!(split.framing(), whole.framing());
        }
    }

    #[test]
    fn arbitrary_bytes_are_read_and_forwarded_without_harm(
        bytes in fragments(),
        noise in vec(any::<u8>(), 0..80),
    ) {
        for bytes in [&bytes, &noise] {
            let mut request = RequestHead::default();
            if let Ok(Status::Complete(_)) = request.parse(bytes) {
                let address = IpAddr::V6(Ipv6Addr::LOCALHOST);
                let client = ClientLines::new(ForwardRules::default(), address, "http");
                let mut out = Vec::new();
                write_request(&mut out, bytes, &request, &client, RequestOptions::default());
                let again = RequestHead::default().parse(&out);
                prop_assert_eq!(again, Ok(Status::Complete(out.len())), "{}", out.escape_ascii());
            }
            let mut response = ResponseHead::default();
            if let Ok(Status::Complete(_)) = response.parse(bytes, Method::Get) {
                let mut out = Vec::new();
                let options = ResponseOptions { via: true, ..ResponseOptions::default() };
                let _ = write_response(&mut out, bytes, &response, options);
                let again = ResponseHead::default().parse(&out, Method::Get);
                prop_assert_eq!(again, Ok(Status::Complete(out.len())), "{}", out.escape_ascii());
            }
            for framing in [Framing::Chunked, Framing::UntilClose, Framing::Length(7)] {
                let _ = BodyReader::new(framing).feed(bytes);
            }
            let _ = lenient_status(bytes);
        }
    }

    #[test]
    fn another_parser_reads_the_same_in_a_forwarded_request(bytes in fragments()) {
        let mut head = RequestHead::default();
        if let Ok(Status::Complete(_)) = head.parse(&bytes) {
            let address = IpAddr::V6(Ipv6Addr::LOCALHOST);
            let client = ClientLines::new(ForwardRules::default(), address, "http");
            let mut out = Vec::new();
            write_request(&mut out, &bytes, &head, &client, RequestOptions::default());
            let mut fields = [httparse::EMPTY_HEADER; 128];
            let mut theirs = httparse::Request::new(&mut fields);
            prop_assert_eq!(theirs.parse(&out), Ok(httparse::Status::Complete(out.len())));
            let mut ours = RequestHead::default();
            prop_assert_eq!(ours.parse(&out), Ok(Status::Complete(out.len())));
            prop_assert_eq!(theirs.method.map(str::as_bytes), Some(head.method_text(&bytes)));
            prop_assert_eq!(theirs.path.map(str::as_bytes), Some(ours.target(&out)));
            let fields = theirs.headers.iter().map(|field| (field.name.as_bytes(), field.value));
            prop_assert!(fields.eq(ours.fields().iter(&out)));
            prop_assert_eq!(framing_of(theirs.headers), Some(head.framing()));
        }
    }

    #[test]
    fn another_parser_reads_the_same_in_a_forwarded_answer(bytes in fragments()) {
        let mut head = ResponseHead::default();
        if let Ok(Status::Complete(length)) = head.parse(&bytes, Method::Get) {
            let mut out = Vec::new();
            let written = write_response(&mut out, &bytes, &head, ResponseOptions::default());
            if written == Forwarded::Unchanged {
                out.extend_from_slice(&bytes[..length]);
            }
            let mut fields = [httparse::EMPTY_HEADER; 128];
            let mut theirs = httparse::Response::new(&mut fields);
            prop_assert_eq!(theirs.parse(&out), Ok(httparse::Status::Complete(out.len())));
            prop_assert_eq!(theirs.code, Some(head.status()));
            let framing = framing_of(theirs.headers);
            let has_none = matches!(head.status(), 100..200 | 204 | 304);
            match head.framing() {
                Framing::UntilClose => prop_assert_eq!(framing, Some(Framing::None)),
                Framing::None if has_none => {}
                ours => prop_assert_eq!(framing, Some(ours)),
            }
        }
    }

    #[test]
    fn chunked_input_does_not_depend_on_how_it_is_split(
        bytes in fragments(), sizes in vec(1..9_usize, 1..5), size in 0..5_u8,
    ) {
        let bytes = [format!("{size:x}\r\n").as_bytes(), &bytes].concat();
        let whole = read_body(Framing::Chunked, &bytes, &[]);
        prop_assert_eq!(read_body(Framing::Chunked, &bytes, &sizes), whole);
    }

    #[test]
    fn a_payload_comes_out_of_its_chunks_as_it_went_in(
        chunks in vec(vec(any::<u8>(), 0..60), 0..8), sizes in vec(1..40_usize, 1..5),
        trailers in vec(end_to_end_field(), 0..3),
    ) {
        let mut bytes = Vec::new();
        for chunk in &chunks {
            write_chunk(&mut bytes, chunk);
        }
        if trailers.is_empty() {
            bytes.extend_from_slice(LAST_CHUNK);
        } else {
            let lines: String = trailers.iter().map(|(n, v)| format!("{n}: {v}\r\n")).collect();
            bytes.extend_from_slice(format!("0\r\n{lines}\r\n").as_bytes());
        }
        let length = bytes.len();
        bytes.extend_from_slice(b"GET /next HTTP/1.1\r\n");
        let count = (!trailers.is_empty()).then_some(trailers.len());
        let expected = Ok((length, true, chunks.concat(), count));
        prop_assert_eq!(read_body(Framing::Chunked, &bytes, &sizes), expected);
    }

    #[test]
    fn a_forwarded_request_means_what_the_client_said(
        path in "/[a-z/?=&]{0,20}",
        absolute in any::<bool>(),
        fields in vec(end_to_end_field(), 0..8),
        hops in vec((select(&HOPS[..]), "[a-z]{1,8}"), 0..4),
        framing in select(&["", "Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n"][..]),
    ) {
        let prefix = if absolute { "http://other" } else { "" };
        let mut text = format!("POST {prefix}{path} HTTP/1.1\r\nHost: a\r\n{framing}");
        let named = fields.iter().map(|(name, value)| (name.as_str(), value));
        for (name, value) in named.chain(hops.iter().map(|(name, value)| (*name, value))) {
            text += &format!("{name}: {value}\r\n");
        }
        text += "\r\n";
        let mut before = RequestHead::default();
        prop_assert_eq!(before.parse(text.as_bytes()), Ok(Status::Complete(text.len())));
        let address = IpAddr::V6(Ipv6Addr::LOCALHOST);
        let client = ClientLines::new(ForwardRules::default(), address, "http");
        let mut out = Vec::new();
        write_request(&mut out, text.as_bytes(), &before, &client, RequestOptions::default());
        let mut after = RequestHead::default();
        prop_assert_eq!(after.parse(&out), Ok(Status::Complete(out.len())));
        prop_assert_eq!(after.method(), before.method());
        prop_assert_eq!(after.target(&out), before.path(text.as_bytes()));
        prop_assert_eq!(after.host(&out), before.host(text.as_bytes()));
        prop_assert_eq!(after.framing(), before.framing());
        prop_assert!(after.keep_alive() && !after.upgrade());
        let ours = |(name, _): &(&[u8], &[u8])| name.starts_with(b"x-");
        let kept: Vec<_> = after.fields().iter(&out).filter(ours).collect();
        let sent: Vec<_> = fields.iter().map(|(n, v)| (n.as_bytes(), v.as_bytes())).collect();
        prop_assert_eq!(kept, sent);
    }
}
