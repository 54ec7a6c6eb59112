//! What is answered from the cache, and what is not.

use std::{
    io::Write as _,
    sync::{Mutex, mpsc::channel},
};

use loadline_core::{decide::ending::Ending, state::Purge};

use crate::support::{
    Origin, Proxy, body, exactly, field, fresh, get, head, response, send, status, until_closed,
};

#[test]
fn the_second_request_for_a_fresh_response_costs_the_server_nothing() {
    let origin = Origin::answering(fresh("hello"));
    let proxy = Proxy::before(&origin);
    let first = proxy.get("/a", "");
    assert!(first.starts_with("HTTP/1.1 200 OK\r\n"), "{first}");
    assert_eq!((body(&first), status(&first)), ("hello", "loadline; fwd=uri-miss; stored; ttl=60"));
    let second = proxy.get("/a", "");
    assert_eq!(body(&second), "hello");
    assert_eq!(field(&second, "age"), Some("0"), "{second}");
    assert!(status(&second).starts_with("loadline; hit; ttl="), "{second}");
    assert_eq!(origin.asked().len(), 1);
    proxy.expect(Ending::Complete, 1);
    proxy.expect(Ending::Cached, 1);
}

#[test]
fn a_kept_connection_has_one_hit_after_another() {
    let origin = Origin::answering(fresh("hello"));
    let proxy = Proxy::before(&origin);
    let mut stream = proxy.connect();
    for _ in 0..3 {
        stream.write_all(b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let head = head(&mut stream).unwrap();
        assert!(head.contains("Content-Length: 5\r\n") && !head.contains("Connection"), "{head}");
        assert_eq!(exactly(&mut stream, 5), b"hello");
    }
    assert_eq!(origin.asked().len(), 1);
}

#[test]
fn an_old_client_is_told_whether_its_connection_stays() {
    let origin = Origin::answering(fresh("hello"));
    let proxy = Proxy::before(&origin);
    proxy.get("/a", "");
    let closed = proxy.ask("GET /a HTTP/1.0\r\nHost: x\r\n\r\n");
    assert!(closed.contains("Connection: close\r\n") && body(&closed) == "hello", "{closed}");
    let mut kept = proxy.begin("GET /a HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\n\r\n");
    assert!(head(&mut kept).unwrap().contains("Connection: keep-alive\r\n"));
}

#[test]
fn a_head_is_answered_from_a_stored_get() {
    let origin = Origin::answering(fresh("hello"));
    let proxy = Proxy::before(&origin);
    proxy.get("/a", "");
    let told = proxy.ask("HEAD /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    assert_eq!((field(&told, "content-length"), body(&told)), (Some("5"), ""), "{told}");
    assert_eq!(origin.asked().len(), 1);
}

#[test]
fn requests_that_differ_in_what_the_server_sees_have_responses_of_their_own() {
    let origin = Origin::new(|stream, asked, _| {
        let target = asked.split(' ').nth(1).unwrap();
        let language = field(asked, "accept-language").unwrap_or("none");
        let fields = "Cache-Control: max-age=60\r\nVary: Accept-Language\r\n";
        send(stream, response(fields, &format!("{target} {language}")));
    });
    let proxy = Proxy::before(&origin);
    for _ in 0..2 {
        for (target, fields, expected) in [
            ("/a", "", "/a none"),
            ("/a", "Accept-Language: de\r\n", "/a de"),
            ("/a", "Accept-Language: en\r\n", "/a en"),
            ("/a?b", "", "/a?b none"),
            ("/%61", "", "/%61 none"),
        ] {
            assert_eq!(body(&proxy.get(target, fields)), expected);
        }
    }
    assert_eq!(origin.asked().len(), 5);
}

#[test]
fn what_may_not_be_stored_goes_through_and_is_asked_for_each_time() {
    let origin = Origin::new(|stream, _, number| {
        send(
            stream,
            response("Cache-Control: private\r\nSet-Cookie: a=b\r\n", &number.to_string()),
        );
    });
    let proxy = Proxy::before(&origin);
    for number in 0..3 {
        let answer = proxy.get("/a", "");
        assert_eq!(body(&answer), number.to_string());
        assert_eq!(field(&answer, "set-cookie"), Some("a=b"), "{answer}");
    }
}

#[test]
fn a_request_that_came_too_early_keeps_no_response_to_another_from_being_stored() {
    let origin = Origin::new(|stream, _, number| match number {
        0 => send(stream, "HTTP/1.1 425 Too Early\r\nContent-Length: 0\r\n\r\n"),
        _ => send(stream, fresh("hello")),
    });
    let proxy = Proxy::before(&origin);
    let early = proxy.get("/a", "");
    assert!(early.starts_with("HTTP/1.1 425 "), "{early}");
    assert_eq!(body(&proxy.get("/a", "")), "hello");
    assert!(status(&proxy.get("/a", "")).contains("; hit;"));
}

#[test]
fn a_body_in_chunks_is_stored_and_told_with_its_length() {
    let origin = Origin::answering(
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nTransfer-Encoding: chunked\r\n\r\n\
         3\r\nhel\r\n2\r\nlo\r\n0\r\nX-Trailer: 1\r\n\r\n",
    );
    let proxy = Proxy::before(&origin);
    let first = proxy.get("/a", "");
    assert_eq!(field(&first, "transfer-encoding"), Some("chunked"), "{first}");
    assert!(first.ends_with("hello\r\n0\r\n\r\n") || first.contains("\r\nlo\r\n"), "{first}");
    let second = proxy.get("/a", "");
    assert_eq!((field(&second, "content-length"), body(&second)), (Some("5"), "hello"), "{second}");
    let old = proxy.ask(&get("/a", "").replace("1.1", "1.0"));
    assert_eq!(body(&old), "hello");
    assert_eq!(origin.asked().len(), 1);
}

#[test]
fn half_a_response_is_never_stored() {
    for broken in [
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 10\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nTransfer-Encoding: chunked\r\n\r\n\
         5\r\nhello\r\n",
    ] {
        let origin = Origin::new(move |stream, _, number| match number {
            0 => {
                send(stream, broken);
                stream.shutdown(std::net::Shutdown::Both).unwrap();
            }
            _ => send(stream, fresh("whole")),
        });
        let proxy = Proxy::before(&origin);
        let first = proxy.get("/a", "");
        assert!(!first.ends_with("0\r\n\r\n"), "{first}");
        proxy.expect(Ending::ServerCut, 1);
        assert_eq!(body(&proxy.get("/a", "")), "whole");
        assert_eq!(body(&proxy.get("/a", "")), "whole");
        assert_eq!(origin.asked().len(), 2);
    }
}

#[test]
fn a_response_that_is_too_old_to_be_stored_keeps_the_age_that_it_came_with() {
    for fields in ["Cache-Control: max-age=60\r\n", "Cache-Control: no-store\r\n"] {
        let origin = Origin::answering(response(&format!("{fields}Age: 7200\r\n"), "hello"));
        let proxy = Proxy::before(&origin);
        for _ in 0..2 {
            let told = proxy.get("/a", "");
            assert_eq!(told.matches("Age: ").count(), 1, "{told}");
            assert_eq!((field(&told, "age"), body(&told)), (Some("7200"), "hello"), "{told}");
        }
        assert_eq!(origin.asked().len(), 2);
    }
}

#[test]
fn interim_responses_reach_who_waits_for_a_fetch_and_are_not_stored() {
    let origin = Origin::new(|stream, _, _| {
        send(stream, "HTTP/1.1 102 Processing\r\n\r\n");
        send(stream, "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n");
        send(stream, fresh("hello"));
    });
    let proxy = Proxy::before(&origin);
    let mut stream = proxy.begin("GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(head(&mut stream).unwrap().starts_with("HTTP/1.1 102 "));
    let hints = head(&mut stream).unwrap();
    assert!(hints.starts_with("HTTP/1.1 103 "), "{hints}");
    assert_eq!(field(&hints, "link"), Some("</a.css>; rel=preload"), "{hints}");
    let last = head(&mut stream).unwrap();
    assert!(last.starts_with("HTTP/1.1 200 ") && field(&last, "link").is_none(), "{last}");
    assert_eq!(exactly(&mut stream, 5), b"hello");
    let old = proxy.ask("GET /b HTTP/1.0\r\nHost: x\r\n\r\n");
    assert!(old.starts_with("HTTP/1.1 200 ") && body(&old) == "hello", "{old}");
    let hit = proxy.get("/a", "");
    assert!(hit.starts_with("HTTP/1.1 200 ") && status(&hit).contains("; hit;"), "{hit}");
}

#[test]
fn a_part_of_what_is_too_long_to_be_stored_is_asked_for_by_itself() {
    let origin = Origin::new(|stream, asked, _| match field(asked, "range") {
        Some(range) => send(
            stream,
            format!(
                "HTTP/1.1 206 Partial Content\r\n\
            Content-Range: {range}\r\nContent-Length: 2\r\n\r\nxy"
            )
            .as_str(),
        ),
        // Whoever waits for its end waits in vain.
        None => send(
            stream,
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\n\
            Content-Length: 4000000000\r\n\r\nbegin",
        ),
    });
    let proxy = Proxy::before(&origin);
    for _ in 0..3 {
        let part = proxy.get("/a", "Range: bytes=3999999998-3999999999\r\n");
        assert!(part.starts_with("HTTP/1.1 206 ") && body(&part) == "xy", "{part}");
    }
    let whole = origin.asked().iter().filter(|asked| field(asked, "range").is_none()).count();
    assert_eq!((origin.asked().len(), whole), (4, 1), "it is known for a while");
}

#[test]
fn a_part_near_the_beginning_of_what_is_not_stored_comes_by_one_request() {
    let text = "0123456789".repeat(40_000);
    let origin = Origin::answering(response("Cache-Control: no-store\r\n", &text));
    for (range, expected) in [("5-9", "56789"), ("0-", &text)] {
        let before = origin.asked().len();
        let proxy = Proxy::before(&origin);
        let part = proxy.get("/a", &format!("Range: bytes={range}\r\n"));
        assert!(part.starts_with("HTTP/1.1 206 "), "{}", &part[..60]);
        assert!(body(&part) == expected, "{range}");
        assert_eq!(origin.asked().len() - before, 1, "{range}");
    }
}

#[test]
fn a_response_that_passes_the_cache_tells_so() {
    let origin = Origin::answering(response("Cache-Control: no-store\r\n", "hello"));
    let proxy = Proxy::before(&origin);
    for told in ["loadline; fwd=uri-miss", "loadline; fwd=miss"] {
        assert_eq!(status(&proxy.get("/a", "")), told);
    }
    let post = "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    assert_eq!(status(&proxy.ask(post)), "loadline; fwd=method");
    let origin = Origin::answering("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\n\r\n");
    let proxy = Proxy::before(&origin);
    let head = "HEAD /b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    assert_eq!(status(&proxy.ask(head)), "loadline; fwd=miss");
}

#[test]
fn tags_for_the_cache_reach_no_client_of_what_passes_it() {
    let origin = Origin::new(|stream, asked, _| {
        let fields = "Cache-Control: no-store\r\nCache-Tag: a\r\nSurrogate-Key: b\r\nX-All: 1\r\n";
        let told = response(fields, "hello");
        send(stream, if asked.starts_with("HEAD ") { &told[..told.len() - 5] } else { &told[..] });
    });
    let proxy = Proxy::before(&origin);
    let asked = [
        ("HEAD", ""),
        ("POST", ""),
        ("OPTIONS", ""),
        ("GET", "Authorization: NTLM hello\r\n"),
        ("GET", ""),
        ("GET", ""),
    ];
    for (method, line) in asked {
        let lines = format!("Host: x\r\n{line}Content-Length: 0\r\nConnection: close\r\n");
        let told = proxy.ask(&format!("{method} /a HTTP/1.1\r\n{lines}\r\n"));
        let tags = (field(&told, "cache-tag"), field(&told, "surrogate-key"));
        assert_eq!((tags, field(&told, "x-all")), ((None, None), Some("1")), "{method}: {told}");
    }
    assert_eq!(origin.asked().len(), asked.len());
}

#[test]
fn only_what_is_stored_is_given_to_who_wants_that_alone_whatever_the_server_said_before() {
    let origin = Origin::answering(response("Cache-Control: no-store\r\n", "hello"));
    let proxy = Proxy::before(&origin);
    proxy.get("/a", "");
    let told = proxy.get("/a", "Cache-Control: only-if-cached\r\n");
    assert!(told.starts_with("HTTP/1.1 504 "), "{told}");
    assert_eq!(origin.asked().len(), 1);
}

#[test]
fn what_a_response_withholds_from_others_is_for_whoever_it_was_fetched_for() {
    let (go_on, may) = channel::<()>();
    let may = Mutex::new(may);
    let origin = Origin::new(move |stream, _, _| {
        let fields = "Cache-Control: max-age=60, no-cache=\"Set-Cookie\", private=\"X-Own\"\r\n\
                      Set-Cookie: sid=1\r\nSet-Cookie: lang=de\r\nX-Own: 1\r\nX-All: 1\r\n";
        send(stream, format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: 10\r\n\r\nhello"));
        may.lock().unwrap().recv().unwrap();
        send(stream, "world");
    });
    let proxy = Proxy::before(&origin);
    let mut first = proxy.begin(&get("/a", ""));
    let own = head(&mut first).unwrap();
    assert_eq!(own.matches("Set-Cookie: ").count(), 2, "{own}");
    assert_eq!((field(&own, "x-own"), field(&own, "x-all")), (Some("1"), Some("1")), "{own}");
    let mut second = proxy.begin(&get("/a", ""));
    let collapsed = head(&mut second).unwrap();
    go_on.send(()).unwrap();
    until_closed(&mut first);
    until_closed(&mut second);
    for other in [collapsed, proxy.get("/a", "")] {
        let withheld = (field(&other, "set-cookie"), field(&other, "x-own"));
        assert_eq!((withheld, field(&other, "x-all")), ((None, None), Some("1")), "{other}");
    }
    assert_eq!(origin.asked().len(), 1);
}

#[test]
fn what_caches_before_this_one_did_is_told_before_what_it_did_itself() {
    let shield = "Cache-Status: shield; hit\r\n";
    let origin =
        Origin::answering(response(&format!("Cache-Control: max-age=60\r\n{shield}"), "a"));
    let proxy = Proxy::before(&origin);
    for _ in 0..2 {
        let told = proxy.get("/a", "");
        let own = told.find("Cache-Status: loadline; ").unwrap();
        assert!(told.find(shield).is_some_and(|at| at < own), "{told}");
    }
    assert_eq!(origin.asked().len(), 1);
}

#[test]
fn trailers_are_announced_only_where_they_come() {
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum";
    for control in ["no-store", "max-age=60"] {
        let body = "5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n";
        let origin = Origin::answering(format!("{head}\r\nCache-Control: {control}\r\n\r\n{body}"));
        let proxy = Proxy::before(&origin);
        for _ in 0..2 {
            let told = proxy.get("/a", "");
            let come = told.ends_with("\r\nX-Sum: 1\r\n\r\n");
            assert!(told.contains("hello"), "{told}");
            assert_eq!(field(&told, "trailer").is_some(), come, "{control}: {told}");
        }
    }
}

#[test]
fn what_is_told_of_the_cache_counts_each_response_and_each_fetch_once() {
    let (go_on, may) = channel::<()>();
    let may = Mutex::new(may);
    let origin = Origin::new(move |stream, asked, _| {
        let target = asked.split(' ').nth(1).unwrap();
        if target == "/slow" {
            let fields = "Cache-Control: max-age=60\r\nContent-Length: 2\r\n";
            send(stream, format!("HTTP/1.1 200 OK\r\n{fields}\r\na"));
            may.lock().unwrap().recv().unwrap();
            return send(stream, "b");
        }
        let control = if target == "/none" { "no-store" } else { "max-age=60" };
        let fields = format!("Cache-Control: {control}\r\nVary: Accept-Language\r\n");
        send(stream, response(&fields, "hello"));
    });
    let proxy = Proxy::before(&origin);
    proxy.get("/none", "");
    assert_eq!(proxy.cache().objects, 0, "what cannot be stored is no object");
    for language in ["de", "en"] {
        proxy.get("/a", &format!("Accept-Language: {language}\r\n"));
    }
    assert_eq!(proxy.cache().objects, 2);
    proxy.ask(&get("/a", "Content-Length: 0\r\n").replace("GET", "POST"));
    assert_eq!(proxy.runtime.handle().cached(10), [], "what was made invalid is not there");
    let mut slow = proxy.begin(&get("/slow", ""));
    head(&mut slow).unwrap();
    assert_eq!(proxy.cache().fetches, 1);
    let purge = Purge { url: Some("http://x/slow".into()), prefix: None, tag: None, soft: false };
    assert_eq!(proxy.runtime.handle().purge(&purge).fetches, 1);
    assert_eq!(proxy.cache().fetches, 0);
    go_on.send(()).unwrap();
    assert_eq!(until_closed(&mut slow), "ab");
}
