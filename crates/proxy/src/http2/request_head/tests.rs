//! Heads of both syntaxes side by side.

use h2::ext::Protocol as AskedFor;
use http::{
    HeaderName, HeaderValue, Method, Request,
    request::Parts,
    uri::{Authority, Parts as UriParts, PathAndQuery, Scheme, Uri},
};
use loadline_http1::{HeadLimits, ParseError, RequestHead, Status};
use proptest::{collection::vec, prelude::*, sample::select};

use super::*;
use crate::http2::{
    head::{ANY, write_request},
    websocket::{has_length, write_upgrade},
};

type Field = (Vec<u8>, Vec<u8>);

const LONG: usize = 1 << 20;

/// Fields from lines; a name may begin with a colon.
fn fields(lines: &str) -> Vec<Field> {
    let field = |line: &str| {
        let colon = line[1..].find(':').unwrap() + 1;
        (line[..colon].into(), line[colon + 1..].trim_start_matches(' ').into())
    };
    lines.lines().filter(|line| !line.is_empty()).map(field).collect()
}

fn head_of(fields: &[Field], longest: usize, is_over: bool) -> Result<Head, Malformed> {
    let mut text = RequestText::new(longest);
    fields.iter().for_each(|(name, value)| text.field(name, value));
    text.finish(is_over, || [1, 2])
}

fn text_of(lines: &str, is_over: bool) -> String {
    String::from_utf8(head_of(&fields(lines), LONG, is_over).unwrap().text).unwrap()
}

fn parsed(text: &[u8], bytes: usize) -> Result<RequestHead, ParseError> {
    let mut head = RequestHead::new(HeadLimits { bytes, fields: usize::MAX });
    let status = head.parse(text)?;
    assert_eq!(status, Status::Complete(text.len()), "{}", text.escape_ascii());
    Ok(head)
}

const GET: &str = ":method:GET\n:scheme:https\n:path:/a?q\n:authority:a.test\n";
const POST: &str = ":method:POST\n:scheme:http\n:authority:a.test\n:path:/\n";
const CONNECT: &str = ":method:CONNECT\n:authority:a.test:1\n";
const EXTENDED: &str = ":method:CONNECT\n:scheme:https\n:path:/c\n:authority:a.test\n:protocol:";

#[test]
fn a_request_is_said_in_http1() {
    let no_authority = ":method:GET\n:scheme:http\n:path:/\n";
    let get = "GET /a?q HTTP/1.1\r\nhost: a.test\r\n";
    let post = "POST / HTTP/1.1\r\nhost: a.test\r\n";
    let heads = [
        (GET, "", true, get, ""),
        (GET, "accept: */*\nx-a: 1\nx-a: 2", true, get, "accept: */*\r\nx-a: 1\r\nx-a: 2\r\n"),
        (GET, "x-empty:\nte: trailers", true, get, "x-empty: \r\nte: trailers\r\n"),
        (GET, "http2-settings: AA\nx: 1", true, get, "x: 1\r\n"),
        (GET, "cookie: a=1\nx: 1\ncookie: b=2", true, get, "x: 1\r\ncookie: a=1; b=2\r\n"),
        (GET, "cookie:", true, get, "cookie: \r\n"),
        (GET, "host: a.test", true, get, ""),
        (GET, "x: 1\nhost: A.test:443", true, get, "x: 1\r\n"),
        (GET, "x: 1\nhost: a.test:80", true, get, "host: a.test:80\r\nx: 1\r\n"),
        (GET, "host: a.test\nhost: a.test", true, get, "host: a.test\r\n"),
        (POST, "host: a.test:80", false, post, "transfer-encoding: chunked\r\n"),
        (no_authority, "x: 1\nhost: b", true, "GET / HTTP/1.1\r\nhost: b\r\n", "x: 1\r\n"),
        (GET, "", false, get, "transfer-encoding: chunked\r\n"),
        (POST, "", true, post, "content-length: 0\r\n"),
        (POST, "content-length: 5\nx: 1", false, post, "x: 1\r\ncontent-length: 5\r\n"),
        (POST, "content-length: 0", true, post, "content-length: 0\r\n"),
        (
            POST,
            "content-length: 5\ntrailer: x-sum",
            false,
            post,
            "trailer: x-sum\r\ntransfer-encoding: chunked\r\n",
        ),
        (
            POST,
            "content-length: 5\ncontent-length: 5",
            false,
            post,
            "content-length: 5\r\ncontent-length: 5\r\n",
        ),
        (CONNECT, "x: 1", false, "CONNECT a.test:1 HTTP/1.1\r\nhost: a.test:1\r\n", "x: 1\r\n"),
        (":method:CONNECT\n", "", true, "CONNECT / HTTP/1.1\r\n", ""),
    ];
    for (pseudo, lines, is_over, first, rest) in heads {
        let text = text_of(&format!("{pseudo}{lines}"), is_over);
        assert_eq!(text, format!("{first}{rest}\r\n"), "{pseudo}{lines}");
    }
}

#[test]
fn an_extended_connect_is_a_get_that_upgrades_or_is_left_to_be_refused() {
    let handshake = "connection: upgrade\r\nupgrade: websocket\r\n\r\n";
    let websocket = format!("{EXTENDED}websocket\nsec-websocket-version: 13\n");
    let begin = "GET /c HTTP/1.1\r\nhost: a.test\r\nsec-websocket-version: 13\r\n";
    let drawn = "sec-websocket-key: AAAAAAAAAAEAAAAAAAAAAg==\r\n";
    assert_eq!(text_of(&websocket, false), format!("{begin}{drawn}{handshake}"));
    let with_key = format!("{websocket}sec-websocket-key: abc");
    let head = head_of(&fields(&with_key), LONG, false).unwrap();
    assert!(head.has_key && head.coding == Coding::Plain);
    let expected = format!("{begin}sec-websocket-key: abc\r\n{handshake}");
    assert_eq!(head.text, expected.as_bytes());
    let connect = "CONNECT a.test:443 HTTP/1.1\r\nhost: a.test\r\n";
    let other = format!("{EXTENDED}connect-udp\n");
    assert_eq!(text_of(&other, false), format!("{connect}\r\n"));
    let with_length = format!("{websocket}content-length: 3\nhost: b");
    let rest = "host: b\r\nsec-websocket-version: 13\r\ncontent-length: 3\r\n\r\n";
    assert_eq!(text_of(&with_length, false), format!("{connect}{rest}"));
}

#[test]
fn what_else_is_known_of_a_request() {
    let known = |lines: &str, is_over| {
        let head = head_of(&fields(lines), LONG, is_over).unwrap();
        (head.method, head.content_length, head.may_lack_body, head.coding)
    };
    let (other, plain, chunked) = (http1::Method::Other, Coding::Plain, Coding::Chunked);
    let post = |lines: &str| format!("{POST}{lines}");
    let head = GET.replace("GET", "HEAD");
    assert_eq!(known(GET, true), (other, None, false, plain));
    assert_eq!(known(GET, false), (other, None, true, chunked));
    assert_eq!(known(&head, false), (http1::Method::Head, None, true, chunked));
    assert_eq!(known(&format!("{GET}content-length: 2"), false), (other, Some(2), false, plain));
    assert_eq!(known(POST, false), (other, None, false, chunked));
    let (twice, announced) = ("content-length: 2\n", "content-length: 2\ntrailer: x");
    assert_eq!(known(&post(&twice.repeat(2)), false), (other, None, false, plain));
    assert_eq!(known(&post(announced), false), (other, Some(2), false, chunked));
}

#[test]
fn a_request_that_turns_out_to_have_no_body_is_as_one_whose_head_ends_it() {
    for lines in [GET.into(), format!("{GET}x: 1\ncookie: a")] {
        let head = head_of(&fields(&lines), LONG, false).unwrap().without_body();
        let whole = head_of(&fields(&lines), LONG, true).unwrap();
        assert_eq!((head.text, head.coding), (whole.text, whole.coding), "{lines}");
        assert!(!head.may_lack_body);
    }
}

#[test]
fn a_malformed_request_is_none_and_the_next_is_as_if_it_had_not_been() {
    use Malformed::*;
    let mut malformed = vec![
        (format!("{GET}X: 1"), Name),
        (format!("{GET}x y: 1"), Name),
        (format!("{GET}x\": 1"), Name),
        (format!("{GET}x: a\rb"), Value),
        (format!("{GET}x: a\0b"), Value),
        (format!("{GET}x: a\x7fb"), Value),
        (format!("{GET}cookie: \x01"), Value),
        (format!("{GET}te: gzip"), OfConnection),
        (format!("{GET}te: trailers, gzip"), OfConnection),
        (format!("x: 1\n{GET}"), MissingPseudo),
        (format!("{GET}x: 1\n:path:/"), LatePseudo),
        (format!("{GET}:status:200"), UnknownPseudo),
        (format!("{GET}:x:1"), UnknownPseudo),
        (format!("{GET}:Path:/"), UnknownPseudo),
        (format!("{GET}:protocol:websocket"), UnfitPseudo),
        (format!("{CONNECT}:path:/"), UnfitPseudo),
        (format!("{CONNECT}:scheme:https"), UnfitPseudo),
        (format!("{EXTENDED}websocket").replace(":path:/c\n", ""), MissingPseudo),
        (format!("{EXTENDED}websocket").replace(":scheme:https\n", ""), MissingPseudo),
        (format!("{EXTENDED}websocket\n:protocol:websocket"), RepeatedPseudo),
        (String::new(), MissingPseudo),
        (format!("{POST}content-length: x"), Length),
        (format!("{POST}content-length:"), Length),
        (format!("{POST}content-length: +1"), Length),
        (format!("{POST}content-length: 1, 1"), Length),
        (format!("{POST}content-length: 12345678901234567890"), Length),
        (format!("{POST}content-length: 1\ncontent-length: 2"), Length),
    ];
    for name in ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"] {
        malformed.push((format!("{GET}{name}: x"), OfConnection));
    }
    for line in GET.lines() {
        malformed.push((format!("{GET}{line}"), RepeatedPseudo));
        let is_needed = !line.starts_with(":authority");
        let without = GET.replace(&format!("{line}\n"), "");
        if is_needed {
            malformed.push((without.clone(), MissingPseudo));
        }
        let (name, _) = line[1..].split_once(':').unwrap();
        malformed.push((format!("{without}:{name}:a b"), Value));
    }
    for empty in [":method:", ":path:", ":authority:"] {
        malformed.push((empty.into(), Value));
    }
    for path in ["a", "http://b/", "**", "/ HTTP/1.1", "/\u{7f}", "/? "] {
        malformed.push((format!(":path:{path}"), Value));
    }
    let mut text = RequestText::new(LONG);
    let read = |text: &mut RequestText, lines: &str| {
        fields(lines).iter().for_each(|(name, value)| text.field(name, value));
        text.finish(false, || [0; 2])
    };
    for (lines, why) in malformed {
        assert_eq!(read(&mut text, &lines).unwrap_err(), why, "{lines:?}");
        assert_eq!(read(&mut text, GET).unwrap().text, text_of(GET, false).as_bytes());
    }
    assert_eq!(head_of(&[(vec![], vec![])], LONG, true).unwrap_err(), Name);
    let too_short = head_of(&fields(&format!("{POST}content-length: 1")), LONG, true);
    assert_eq!(too_short.unwrap_err(), Length);
}

#[test]
fn what_the_parser_refuses_gets_there() {
    for (path, why) in [
        ("/a#b", ParseError::BadTarget),
        ("#b", ParseError::BadTarget),
        ("?q", ParseError::BadTarget),
        ("/ä", ParseError::BadTarget),
        ("*", ParseError::BadTarget),
    ] {
        let text = text_of(&GET.replace("/a?q", path), true);
        assert_eq!(parsed(text.as_bytes(), LONG).unwrap_err(), why, "{path}");
    }
    for authority in ["u@a.test", "a/b", "a:b", "[::1", "a,b"] {
        let text = text_of(&GET.replace("a.test", authority), true);
        assert_eq!(parsed(text.as_bytes(), LONG).unwrap_err(), ParseError::BadHost, "{authority}");
    }
    let options = text_of(&GET.replace("/a?q", "*").replace("GET", "OPTIONS"), true);
    parsed(options.as_bytes(), LONG).unwrap();
}

#[test]
fn of_a_head_that_is_too_long_no_more_is_kept_than_the_parser_needs_to_refuse_it() {
    let long = "v".repeat(300);
    let many = |line: &str| format!("{GET}{}", line.repeat(100));
    let path = format!("/{long}");
    for lines in [
        many(&format!("x: {long}\n")),
        many(&format!("cookie: {long}\n")),
        many(&format!("host: {long}\n")),
        many("cookie:\n"),
        many("x:\n"),
        many(&format!("http2-settings: {long}\n")),
        format!("{GET}{}X: 1", format!("x: {long}\n").repeat(5)),
        format!("{GET}{}host: a.test\nx: 1", format!("x: {long}\n").repeat(4)),
        GET.replace("/a?q", &path.repeat(9)),
        format!("{EXTENDED}x").replace("/c", &path.repeat(9)).replace("a.test", "a.test:1"),
        format!("{EXTENDED}websocket\nx: 1\ncontent-length: 1").replace("/c", &path.repeat(9)),
    ] {
        let head = head_of(&fields(&lines), 1_000, false).unwrap();
        let most = if lines.contains(&path.repeat(2)) { 9 * path.len() } else { long.len() };
        assert!(head.text.len() < 1_000 + most + 100, "{}", head.text.len());
        let told = parsed(&head.text, 1_000).map(|_| ());
        let expected = match lines.as_str() {
            // These are long as HTTP/2 counts them only.
            _ if lines.contains(":\n") => Ok(()),
            _ if lines.contains("\nhost: v") => Err(ParseError::DuplicateHost),
            _ if !lines.contains(":protocol:x") && lines.contains(":path:/v") => {
                Err(ParseError::TargetTooLong)
            }
            _ => Err(ParseError::HeadTooLarge),
        };
        assert_eq!(told, expected, "{lines}");
        let is_cut = parsed(&head.text, LONG).is_err();
        assert_eq!(is_cut, expected.is_err(), "{lines}");
    }
    let mut text = RequestText::new(LONG);
    fields(&format!("{GET}cookie: {}", "v".repeat(100_000)))
        .iter()
        .for_each(|(name, value)| text.field(name, value));
    text.finish(true, || [0; 2]).unwrap();
    assert!(text.cookies.capacity() <= KEPT_BYTES);
}

/// The same request as the library has it; none if it is none there.
fn parts_of(fields: &[Field]) -> Option<Parts> {
    let (mut parts, ()) = Request::new(()).into_parts();
    let mut uri = UriParts::default();
    for (name, value) in fields {
        match name.as_slice() {
            b":method" => parts.method = Method::from_bytes(value).ok()?,
            b":scheme" => uri.scheme = Some(Scheme::try_from(value.as_slice()).ok()?),
            b":authority" => uri.authority = Some(Authority::try_from(value.as_slice()).ok()?),
            b":path" => uri.path_and_query = Some(PathAndQuery::try_from(value.as_slice()).ok()?),
            b":protocol" => {
                let is_websocket = value == b"websocket";
                let protocol = if is_websocket { "websocket" } else { "other" };
                parts.extensions.insert(AskedFor::from_static(protocol));
            }
            _ => {
                let name = HeaderName::from_lowercase(name).ok()?;
                parts.headers.append(name, HeaderValue::from_bytes(value).ok()?);
            }
        }
    }
    uri.scheme = uri.scheme.filter(|_| uri.authority.is_some());
    parts.uri = Uri::from_parts(uri).ok()?;
    Some(parts)
}

/// The lines without those that may stand elsewhere, and how many these are.
fn sorted_out(text: &[u8]) -> (Vec<&str>, usize) {
    let text = str::from_utf8(text).unwrap();
    let (lengths, others): (Vec<&str>, _) =
        text.split("\r\n").partition(|line| line.starts_with("content-length: "));
    (others, lengths.len())
}

/// Well-formed fields, each name once unless it may come more often.
fn well_formed() -> impl Strategy<Value = Vec<Field>> {
    let method = select(vec!["GET", "HEAD", "POST", "PUT", "OPTIONS", "x", "CONNECT"]);
    let protocol = select(vec![None, Some("websocket"), Some("other")]);
    let pseudo = (
        (method, protocol),
        select(vec!["http", "https", "x"]),
        select(vec!["/", "*", "/a?b=c&d", "/%20"]),
        select(vec![None, Some("a.test"), Some("A.test:80"), Some("[::1]"), Some("a:443")]),
    );
    let line = select(vec![
        "x: 1", "te: trailers", "trailer: x", "content-length: 5", "content-length: 5",
        "sec-websocket-key: k", "http2-settings: x", "cookie: a", "cookie: b", "cookie:",
        "host: a.test", "host: a.test:80", "host: b", "accept: */*",
    ]);
    (pseudo, vec(line, 0..9)).prop_map(|(((method, protocol), scheme, path, authority), lines)| {
        let is_connect = method == "CONNECT";
        let protocol = protocol.filter(|_| is_connect);
        let mut text = format!(":method:{method}\n");
        if !is_connect || protocol.is_some() {
            text += &format!(":scheme:{scheme}\n:path:{path}\n");
        }
        for (name, value) in [("authority", authority), ("protocol", protocol)] {
            text += &value.map_or_else(String::new, |value| format!(":{name}:{value}\n"));
        }
        let mut once: Vec<&str> = Vec::new();
        for line in lines {
            let may_repeat = line.starts_with("cookie") || line.starts_with("host");
            if may_repeat || !once.contains(&line) {
                once.push(line);
            }
        }
        fields(&(text + &once.join("\n")))
    })
}

/// Any fields, of which most are nearly right.
fn any_fields() -> impl Strategy<Value = Vec<Field>> {
    let names: Vec<&[u8]> = vec![
        b":method", b":path", b":scheme", b":authority", b":protocol", b":x", b"x", b"X", b"",
        b"host", b"cookie", b"content-length", b"trailer", b"te", b"sec-websocket-key", b"upgrade",
        b"http2-settings", b"transfer-encoding",
    ];
    let values: Vec<&[u8]> = vec![
        b"GET",
        b"CONNECT",
        b"/",
        b"/a",
        b"https",
        b"a.test",
        b"websocket",
        b"5",
        b"0",
        b"",
        b"trailers",
        b"a\r\nb: c",
        b"a b",
        b" a ",
        b"\xff",
        b"vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv",
    ];
    let owned = |known: Vec<&'static [u8]>| select(known).prop_map(<[u8]>::to_vec);
    let name = prop_oneof![8 => owned(names), 1 => vec(any::<u8>(), 0..12)];
    let value = prop_oneof![8 => owned(values), 1 => vec(any::<u8>(), 0..12)];
    (well_formed(), any::<bool>(), vec((name, value), 0..6)).prop_map(
        |(known, is_first, others)| {
            if is_first { [others, known].concat() } else { [known, others].concat() }
        },
    )
}

proptest! {
    #[test]
    fn a_request_is_the_same_text_from_either_version(fields in well_formed(), is_over: bool) {
        let parts = parts_of(&fields).unwrap();
        let (mut expected, coding) = (Vec::new(), is_asked_for(&parts));
        let coding = match coding {
            true => write_upgrade(&mut expected, &parts, [1, 2]),
            false => write_request(&mut expected, &parts, is_over),
        };
        match head_of(&fields, LONG, is_over) {
            Ok(head) => {
                prop_assert_eq!(head.coding, coding);
                let (mine, known) = (parsed(&head.text, LONG).err(), parsed(&expected, LONG).err());
                prop_assert_eq!(&mine, &known);
                // Of several hosts all that counts is that they are refused.
                if mine.is_none() || fields.iter().filter(|(name, _)| name == b"host").count() < 2 {
                    prop_assert_eq!(sorted_out(&head.text), sorted_out(&expected));
                }
            }
            Err(why) => {
                let has_length = fields.iter().any(|(name, _)| name == b"content-length");
                prop_assert!(why == Malformed::Length && is_over && has_length);
            }
        }
    }

    #[test]
    fn whatever_comes_is_one_head_with_a_line_for_each_field_or_none(
        fields in any_fields(),
        is_over: bool,
        longest in 0..200_usize,
    ) {
        let (whole, cut) = (head_of(&fields, LONG, is_over), head_of(&fields, longest, is_over));
        if let Ok(cut) = cut {
            prop_assert!(cut.text.len() < longest + 300, "{}", cut.text.len());
            let is_whole = whole.as_ref().is_ok_and(|whole| whole.text == cut.text);
            let is_refused = [longest, LONG].iter().all(|most| parsed(&cut.text, *most).is_err());
            prop_assert!(is_whole || is_refused);
        }
        let Ok(head) = whole else { return Ok(()) };
        let text = head.text.escape_ascii().to_string();
        let lines = text.matches("\\r\\n").count() - 2;
        prop_assert!(text.ends_with("\\r\\n\\r\\n") && head.text.ends_with(b"\r\n\r\n"));
        let controls = head.text.iter().filter(|byte| matches!(byte, b'\r' | b'\n')).count();
        prop_assert_eq!(controls, 2 * (lines + 2), "{}", text);
        let is = |wanted: &'static [u8]| move |field: &&Field| field.0 == wanted;
        let goes = |field: &&Field| {
            !matches!(field.0[0], b':') && Class::of(&field.0) == Class::Plain
                || matches!(Class::of(&field.0), Class::Te | Class::Trailer | Class::Key)
        };
        let hosts = fields.iter().filter(is(b"host")).count()
            + fields.iter().filter(is(b":authority")).count();
        let written = text.matches("\\r\\nhost: ").count();
        prop_assert!(written == hosts || written + 1 == hosts, "{}", text);
        let is_upgrade = text.contains("\\r\\nconnection: upgrade");
        let expected = fields.iter().filter(goes).count()
            + written
            + usize::from(fields.iter().any(|field| field.0 == b"cookie"))
            + text.matches("\\r\\ncontent-length: ").count()
            + usize::from(head.coding == Coding::Chunked)
            + usize::from(is_upgrade) * (2 + usize::from(!head.has_key));
        prop_assert_eq!(lines, expected, "{}", text);
        if let Ok(known) = parsed(&head.text, LONG) {
            prop_assert_eq!(known.fields().len(), lines, "{}", text);
        }
    }
}

#[test]
fn the_parser_takes_a_head_of_any_length() {
    let head = head_of(&fields(&format!("{GET}x: {}", "v".repeat(50_000))), LONG, true).unwrap();
    assert_eq!(parsed(&head.text, ANY.bytes).unwrap().fields().len(), 2);
}

/// Whether a request asks for a WebSocket.
fn is_asked_for(parts: &Parts) -> bool {
    let protocol = parts.extensions.get::<AskedFor>();
    let is_websocket = protocol.is_some_and(|it| it.as_str() == "websocket");
    parts.method == Method::CONNECT && is_websocket && !has_length(parts)
}
