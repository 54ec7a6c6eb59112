//! Heads as they go on: what is left out, what is added, what stays byte for byte.

use std::net::{IpAddr, Ipv4Addr};

use loadline_http1::{
    ClientLines, ForwardRules, Forwarded, Method, ParseError, RequestHead, RequestOptions,
    ResponseHead, ResponseOptions, Status, Underscores, Version, write_request, write_response,
};

const NOTHING: ForwardRules =
    ForwardRules { x_forwarded: false, x_forwarded_host: false, forwarded: false, via: false };

fn lines(rules: ForwardRules) -> ClientLines {
    ClientLines::new(rules, IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7)), "http")
}

fn forward(request: &str, rules: ForwardRules, options: RequestOptions<'_>) -> String {
    let mut head = RequestHead::default();
    let status = head.parse(request.as_bytes());
    assert_eq!(status, Ok(Status::Complete(request.len())), "{request:?}");
    let mut out = Vec::new();
    write_request(&mut out, request.as_bytes(), &head, &lines(rules), options);
    String::from_utf8(out).expect("the request was text")
}

/// As it is for a client that is trusted.
const TRUSTED: RequestOptions<'_> = RequestOptions {
    upgrade: false,
    drop_expect: false,
    close: false,
    host_if_absent: b"localhost",
    trust_client: true,
    client: None,
    anew: false,
};

fn plain(request: &str) -> String {
    forward(request, NOTHING, TRUSTED)
}

#[test]
fn a_request_without_anything_special_stays_byte_for_byte() {
    let request = "GET /a HTTP/1.1\r\nHost: b\r\nx-odd:  value \r\n\r\n";
    assert_eq!(plain(request), request);
}

#[test]
fn a_higher_minor_version_goes_on_as_http_1_1() {
    let request = "GET /a HTTP/1.2\r\nHost: b\r\nA: c\r\n\r\n";
    assert_eq!(plain(request), request.replace("1.2", "1.1"));
    let response = "HTTP/1.9 200 OK\r\nContent-Length: 1\r\n\r\n";
    let expected = response.replace("1.9", "1.1");
    assert_eq!(answer(response, ResponseOptions::default()), Some(expected));
}

#[test]
fn fields_that_end_at_this_hop_are_left_out() {
    let vectors = [
        ("Connection: keep-alive\r\n", ""),
        ("Keep-Alive: timeout=5\r\n", ""),
        ("Proxy-Connection: keep-alive\r\n", ""),
        ("Proxy-Authorization: Basic eA==\r\n", ""),
        ("Upgrade: websocket\r\nConnection: upgrade\r\n", ""),
        ("Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: A\r\n", ""),
        (
            "A: 1\r\nConnection: X-Hop, close\r\nB: 2\r\nx-hop: 3\r\nC: 4\r\n",
            "A: 1\r\nB: 2\r\nC: 4\r\n",
        ),
        ("TE: trailers\r\n", "Connection: TE\r\nTE: trailers\r\n"),
        ("TE: deflate, trailers;q=0.5\r\nA: 1\r\n", "A: 1\r\n"),
        ("TE: gzip, trailers\r\nA: 1\r\n", "A: 1\r\nConnection: TE\r\nTE: trailers\r\n"),
        ("Transfer-Encoding: chunked\r\n", "Transfer-Encoding: chunked\r\n"),
    ];
    for (fields, expected) in vectors {
        let request = format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        let out = format!("POST / HTTP/1.1\r\nHost: a\r\n{expected}\r\n");
        assert_eq!(plain(&request), out, "{fields:?}");
    }
}

#[test]
fn connection_cannot_take_away_what_matters() {
    for field in
        ["Host: a\r\n", "Content-Length: 5\r\n", "X-Forwarded-For: b\r\n", "Via: 1.1 c\r\n"]
    {
        let name = field.split(':').next().unwrap();
        let rest = if name == "Host" { "" } else { "Host: a\r\n" };
        let request = format!("POST / HTTP/1.1\r\n{rest}{field}Connection: {name}\r\n\r\n");
        let out = format!("POST / HTTP/1.1\r\n{rest}{field}\r\n");
        assert_eq!(plain(&request), out, "{name}");
    }
}

#[test]
fn request_lines_become_origin_form_and_http_1_1() {
    let vectors = [
        ("GET http://b:1/c?d HTTP/1.1\r\nHost: a\r\n", "GET /c?d HTTP/1.1\r\nHost: b:1\r\n"),
        ("GET http://b HTTP/1.1\r\nX: y\r\nHost: a\r\n", "GET / HTTP/1.1\r\nHost: b\r\nX: y\r\n"),
        ("GET http://b?c HTTP/1.1\r\nHost: a\r\n", "GET /?c HTTP/1.1\r\nHost: b\r\n"),
        ("OPTIONS http://b HTTP/1.1\r\nHost: a\r\n", "OPTIONS * HTTP/1.1\r\nHost: b\r\n"),
        ("GET / HTTP/1.0\r\n", "GET / HTTP/1.1\r\nHost: localhost\r\n"),
        ("GET / HTTP/1.0\r\nHost: a\r\nB: c\r\n", "GET / HTTP/1.1\r\nHost: a\r\nB: c\r\n"),
        ("\r\nGET / HTTP/1.1\r\nHost: a\r\n", "GET / HTTP/1.1\r\nHost: a\r\n"),
    ];
    for (request, expected) in vectors {
        assert_eq!(plain(&format!("{request}\r\n")), format!("{expected}\r\n"));
    }
}

#[test]
fn framing_written_oddly_is_written_plainly() {
    let vectors = [
        ("Content-Length:\t007 \r\n", "Content-Length: 7\r\n"),
        ("Transfer-Encoding:\tchunked\r\n", "Transfer-Encoding: chunked\r\n"),
        ("Transfer-Encoding:  Chunked \r\n", "Transfer-Encoding: chunked\r\n"),
    ];
    for (odd, plain_line) in vectors {
        let out = plain(&format!("POST / HTTP/1.1\r\nHost: a\r\n{odd}A: b\r\n\r\n"));
        assert_eq!(
            out,
            format!("POST / HTTP/1.1\r\nHost: a\r\nA: b\r\n{plain_line}\r\n"),
            "{odd:?}"
        );
    }
}

#[test]
fn servers_are_told_about_the_client() {
    let out = forward(
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        ForwardRules { forwarded: true, ..ForwardRules::default() },
        RequestOptions::default(),
    );
    let expected = "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-Host: a\r\n\
        X-Forwarded-For: 192.0.2.7\r\nX-Forwarded-Proto: http\r\n\
        Forwarded: for=192.0.2.7;proto=http\r\nVia: 1.1 loadline\r\n\r\n";
    assert_eq!(out, expected);
}

#[test]
fn what_the_client_says_is_extended_if_it_is_trusted() {
    let request = "GET / HTTP/1.0\r\nHost: a\r\nX-Forwarded-For: 1.1.1.1\r\nVia: 1.1 x\r\n\
        X-Forwarded-For: 2.2.2.2\r\nForwarded: for=3\r\nX-Forwarded-Proto: https\r\n\
        X-Forwarded-Host: b\r\n\r\n";
    let rules = ForwardRules { forwarded: true, ..ForwardRules::default() };
    let expected = "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 1.1.1.1\r\nVia: 1.1 x\r\n\
        X-Forwarded-For: 2.2.2.2, 192.0.2.7\r\nForwarded: for=3, for=192.0.2.7;proto=http\r\n\
        X-Forwarded-Proto: https\r\nX-Forwarded-Host: b\r\nVia: 1.0 loadline\r\n\r\n";
    assert_eq!(forward(request, rules, TRUSTED), expected);
}

#[test]
fn what_a_trusted_proxy_says_in_one_header_is_said_in_the_other() {
    let client = Some((IpAddr::V4(Ipv4Addr::new(203, 0, 113, 9)), "https"));
    let standard = ForwardRules { forwarded: true, ..NOTHING };
    let usual = ForwardRules { x_forwarded: true, ..NOTHING };
    let common = "X-Forwarded-For: 203.0.113.9\r\nX-Forwarded-Proto: https\r\n";
    let forwarded = "Forwarded: for=203.0.113.9;proto=https\r\n";
    for (rules, said, added) in [
        (standard, common, "Forwarded: for=203.0.113.9;proto=https, for=192.0.2.7;proto=http\r\n"),
        (
            usual,
            forwarded,
            "X-Forwarded-For: 203.0.113.9, 192.0.2.7\r\nX-Forwarded-Proto: https\r\n",
        ),
    ] {
        let request = format!("GET / HTTP/1.1\r\nHost: a\r\n{said}\r\n");
        let expected = format!("GET / HTTP/1.1\r\nHost: a\r\n{said}{added}\r\n");
        assert_eq!(forward(&request, rules, RequestOptions { client, ..TRUSTED }), expected);
    }
    let proto = "X-Forwarded-Proto: https\r\n";
    let request = format!("GET / HTTP/1.1\r\nHost: a\r\n{proto}\r\n");
    let client = Some((IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7)), "https"));
    let both = ForwardRules { forwarded: true, ..usual };
    let expected = format!(
        "GET / HTTP/1.1\r\nHost: a\r\n{proto}X-Forwarded-For: 192.0.2.7\r\n\
         Forwarded: for=192.0.2.7;proto=https\r\n\r\n"
    );
    assert_eq!(forward(&request, both, RequestOptions { client, ..TRUSTED }), expected);
}

#[test]
fn a_cache_passes_on_no_host_and_no_other_scheme_that_came_through_a_trusted_proxy() {
    let client = Some((IpAddr::V4(Ipv4Addr::new(203, 0, 113, 9)), "https"));
    let cached = RequestOptions { client, anew: true, ..TRUSTED };
    let said = "Forwarded: for=1.1.1.1;host=evil.test;proto=http\r\nX-Forwarded-Proto: http\r\n\
        X-Forwarded-Proto: gopher\r\nForwarded: for=203.0.113.9;host=\"evil.test\"\r\n";
    let request = format!("GET / HTTP/1.1\r\nHost: a\r\n{said}A: b\r\n\r\n");
    let usual = "X-Forwarded-Proto: https\r\nForwarded: for=203.0.113.9;proto=https";
    for (rules, own) in
        [(NOTHING, ""), (ForwardRules { forwarded: true, ..NOTHING }, ", for=192.0.2.7;proto=http")]
    {
        let expected = format!("GET / HTTP/1.1\r\nHost: a\r\nA: b\r\n{usual}{own}\r\n\r\n");
        assert_eq!(forward(&request, rules, cached), expected);
    }
    // What is known is said by nobody who has not said it before.
    let plain = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    assert_eq!(forward(plain, NOTHING, cached), plain);
}

#[test]
fn what_the_client_says_is_replaced_if_it_is_not_trusted() {
    let request = "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 1.1.1.1\r\nForwarded: for=3\r\n\
        X-Forwarded-Proto: https\r\nX-Forwarded-Host: b\r\nx-forwarded-port: 443\r\n\
        X-Real-IP: 1.1.1.1\r\nX-Forwarded: 1\r\n\r\n";
    let expected = "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded: 1\r\nX-Forwarded-Host: a\r\n\
        X-Forwarded-For: 192.0.2.7\r\nX-Forwarded-Proto: http\r\nVia: 1.1 loadline\r\n\r\n";
    let stranger = RequestOptions::default();
    assert_eq!(forward(request, ForwardRules::default(), stranger), expected);
    let expected = "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded: 1\r\n\r\n";
    assert_eq!(forward(request, NOTHING, stranger), expected, "nor if servers are told nothing");
}

#[test]
fn a_name_with_an_underscore_is_dropped_refused_or_kept() {
    let request = "GET / HTTP/1.1\r\nHost: a\r\nContent_Length: 5\r\nA: 1\r\n_:\r\nB: x_y\r\n\r\n";
    let parse = |underscores| {
        let mut head = RequestHead::default().with_underscores(underscores);
        head.parse(request.as_bytes()).map(|_| head)
    };
    for (underscores, names, expected) in [
        (
            Underscores::Drop,
            vec!["Host", "A", "B"],
            "GET / HTTP/1.1\r\nHost: a\r\nA: 1\r\nB: x_y\r\n\r\n",
        ),
        (Underscores::Keep, vec!["Host", "Content_Length", "A", "_", "B"], request),
    ] {
        let head = parse(underscores).unwrap();
        let seen = head.fields().iter(request.as_bytes());
        assert!(seen.map(|field| field.0).eq(names.iter().map(|name| name.as_bytes())));
        assert_eq!(head.fields().get(request.as_bytes(), "_").is_some(), names.contains(&"_"));
        let mut out = Vec::new();
        write_request(&mut out, request.as_bytes(), &head, &lines(NOTHING), TRUSTED);
        assert_eq!(String::from_utf8(out).unwrap(), expected, "{underscores:?}");
    }
    assert_eq!(parse(Underscores::Refuse).err(), Some(ParseError::UnderscoreInName));
}

#[test]
fn an_address_mapped_into_ipv6_is_written_as_ipv4_and_ipv6_is_quoted() {
    let rules = ForwardRules { forwarded: true, ..NOTHING };
    for (address, written) in
        [("::ffff:192.0.2.1", "192.0.2.1"), ("2001:db8::1", "\"[2001:db8::1]\"")]
    {
        let lines = ClientLines::new(rules, address.parse().unwrap(), "https");
        let request = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        let mut head = RequestHead::default();
        head.parse(request).unwrap();
        let mut out = Vec::new();
        write_request(&mut out, request, &head, &lines, RequestOptions::default());
        let text = String::from_utf8(out).unwrap();
        assert!(text.ends_with(&format!("Forwarded: for={written};proto=https\r\n\r\n")), "{text}");
    }
}

#[test]
fn lines_by_other_rules_tell_the_same_version_of_http() {
    let request = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let mut head = RequestHead::default();
    head.parse(request).unwrap();
    let address = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7));
    let other = ForwardRules { forwarded: true, via: true, ..NOTHING };
    let set: [fn(&mut ClientLines); 3] = [|_| {}, ClientLines::set_http2, ClientLines::set_http3];
    for (set, version) in set.into_iter().zip(["1.1", "2.0", "3.0"]) {
        let mut first = lines(ForwardRules::default());
        set(&mut first);
        let lines = first.by(other, address, "https");
        assert_eq!(lines.rules(), other);
        let mut out = Vec::new();
        write_request(&mut out, request, &head, &lines, RequestOptions::default());
        let told = "Forwarded: for=192.0.2.7;proto=https\r\n";
        let expected =
            format!("GET / HTTP/1.1\r\nHost: a\r\n{told}Via: {version} loadline\r\n\r\n");
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}

#[test]
fn upgrade_expect_and_close_follow_the_options() {
    let request = "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    let tunnel = RequestOptions { upgrade: true, ..RequestOptions::default() };
    let expected = "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n";
    assert_eq!(forward(request, NOTHING, tunnel), expected);
    let request = "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\n\
                   Upgrade: h2c, foo/2\r\nUpgrade: websocket,H2C\r\nUpgrade: h2c\r\nA: b\r\n\
                   HTTP2-Settings: A\r\n\r\n";
    let expected = "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: foo/2\r\nUpgrade: websocket\r\n\
                    A: b\r\nConnection: upgrade\r\n\r\n";
    assert_eq!(forward(request, NOTHING, tunnel), expected, "h2c is not offered");
    let request = "PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n";
    assert_eq!(plain(request), request, "Expect goes on to the server");
    let closing = RequestOptions { drop_expect: true, close: true, ..RequestOptions::default() };
    let expected = "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nConnection: close\r\n\r\n";
    assert_eq!(forward(request, NOTHING, closing), expected);
}

fn answer(response: &str, options: ResponseOptions<'_>) -> Option<String> {
    let mut head = ResponseHead::default();
    let status = head.parse(response.as_bytes(), Method::Get);
    assert_eq!(status, Ok(Status::Complete(response.len())), "{response:?}");
    let mut out = Vec::new();
    match write_response(&mut out, response.as_bytes(), &head, options) {
        Forwarded::Unchanged => {
            assert!(out.is_empty());
            None
        }
        Forwarded::Rewritten => Some(String::from_utf8(out).expect("the response was text")),
    }
}

#[test]
fn answers_that_need_no_change_are_not_copied() {
    let options = ResponseOptions::default();
    for fields in ["Content-Length: 1\r\n", "Content-Length: 1\r\nConnection: keep-alive\r\n"] {
        assert_eq!(answer(&format!("HTTP/1.1 200 OK\r\n{fields}\r\n"), options), None, "{fields}");
    }
}

#[test]
fn answers_are_changed_where_they_must_be() {
    let base = ResponseOptions::default();
    let closing = ResponseOptions { keep_alive: false, ..base };
    let old = ResponseOptions { client: Version::Http10, ..base };
    let dechunk = ResponseOptions { dechunk: true, keep_alive: false, ..old };
    let more = ResponseOptions { via: true, extra: b"X: y\r\n", ..base };
    let hsts = ResponseOptions { hsts: b"Strict-Transport-Security: max-age=9\r\n", ..base };
    let alt_svc = ResponseOptions { alt_svc: b"Alt-Svc: h3=\":443\"\r\n", ..base };
    let ours = "1.1 200 OK\r\nA: b\r\nStrict-Transport-Security: max-age=9\r\n";
    let vectors = [
        ("1.1 200 OK\r\nA: b\r\n", hsts, ours),
        (
            "1.1 200 OK\r\nstrict-transport-security: a\r\nA: b\r\n\
             Strict-Transport-Security: b\r\n",
            hsts,
            ours,
        ),
        ("1.1 200 OK\r\nStrict-Transport-Security: a\r\n", base, ""),
        (
            "1.1 200 OK\r\nalt-svc: h3=\":8443\"\r\nA: b\r\n",
            alt_svc,
            "1.1 200 OK\r\nA: b\r\nAlt-Svc: h3=\":443\"\r\n",
        ),
        ("1.1 200 OK\r\nAlt-Svc: clear\r\n", base, ""),
        ("1.1 200 OK\r\nConnection: close\r\nA: b\r\n", base, "1.1 200 OK\r\nA: b\r\n"),
        ("1.1 200 OK\r\nKeep-Alive: timeout=5\r\n", base, "1.1 200 OK\r\n"),
        ("1.1 200 OK\r\nConnection: X\r\nX: 1\r\nUpgrade: h2c\r\n", base, "1.1 200 OK\r\n"),
        ("1.1 407 No\r\nProxy-Authenticate: Basic\r\n", base, ""),
        ("1.0 200 OK\r\nContent-Length: 1\r\n", base, "1.1 200 OK\r\nContent-Length: 1\r\n"),
        ("1.1 200 OK\r\n", closing, "1.1 200 OK\r\nConnection: close\r\n"),
        ("1.1 204 No\r\n", old, "1.1 204 No\r\nConnection: keep-alive\r\n"),
        (
            "1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: A\r\nB: c\r\n",
            dechunk,
            "1.1 200 OK\r\nB: c\r\nConnection: close\r\n",
        ),
        (
            "1.1 304 Not\r\nTransfer-Encoding: chunked\r\nB: c\r\n",
            old,
            "1.1 304 Not\r\nB: c\r\nConnection: keep-alive\r\n",
        ),
        (
            "1.1 426 Upgrade\r\nConnection: upgrade\r\nUpgrade: h2c\r\n",
            closing,
            "1.1 426 Upgrade\r\nUpgrade: h2c\r\nConnection: close, upgrade\r\n",
        ),
        ("1.1 200 OK\r\nContent-Length: 02\r\n", base, "1.1 200 OK\r\nContent-Length: 2\r\n"),
        ("1.1 204 No\r\nContent-Length: 5\r\n", base, "1.1 204 No\r\n"),
        ("1.1 100 Continue\r\n", ResponseOptions { keep_alive: false, ..base }, ""),
        ("1.1 304 Not\r\nContent-Length: 5\r\n", base, ""),
        (
            "1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n",
            base,
            "1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: upgrade\r\n",
        ),
        ("1.1 200 OK\r\nA: b\r\n", more, "1.1 200 OK\r\nA: b\r\nVia: 1.1 loadline\r\nX: y\r\n"),
    ];
    for (response, options, expected) in vectors {
        let out = answer(&format!("HTTP/{response}\r\n"), options);
        let expected = (!expected.is_empty()).then(|| format!("HTTP/{expected}\r\n"));
        assert_eq!(out, expected, "{response:?}");
    }
}
