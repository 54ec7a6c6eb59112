//! What is stored and stale: validated, used where servers fail, and taken out.

use std::{
    net::TcpStream,
    sync::{
        Mutex,
        mpsc::{Sender, channel},
    },
};

use loadline_core::{
    decide::ending::Ending,
    rules::{Caching, QueryKey, Routes},
    state::Purge,
};

use crate::support::{
    Origin, Proxy, body, field, fleet, fresh, get, head, response, rule, send, status,
    until_closed, wait_until,
};

/// A server whose response has to be validated each time, and is still right.
fn validated() -> Origin {
    Origin::new(|stream, asked, _| match field(asked, "if-none-match") {
        Some(_) => send(stream, "HTTP/1.1 304 Not Modified\r\nETag: \"1\"\r\n\r\n"),
        None => send(stream, response("Cache-Control: max-age=0\r\nETag: \"1\"\r\n", "hello")),
    })
}

#[test]
fn what_is_stale_is_validated_and_a_304_is_the_whole_to_a_client_that_has_nothing() {
    let origin = validated();
    let proxy = Proxy::before(&origin);
    proxy.get("/a", "");
    let second = proxy.get("/a", "");
    assert!(second.starts_with("HTTP/1.1 200 ") && body(&second) == "hello", "{second}");
    assert!(status(&second).contains("fwd=stale; fwd-status=304"), "{second}");
    let asked = origin.asked();
    assert_eq!(field(&asked[1], "if-none-match"), Some("\"1\""), "{asked:?}");
}

#[test]
fn conditions_and_ranges_of_clients_are_answered_from_what_is_stored() {
    let fields = "Cache-Control: max-age=60\r\nETag: \"1\"\r\nContent-Type: text/plain\r\n";
    let origin = Origin::answering(response(fields, "0123456789"));
    let proxy = Proxy::before(&origin);
    let part = proxy.get("/a", "Range: bytes=2-4\r\n");
    assert!(part.starts_with("HTTP/1.1 206 ") && body(&part) == "234", "{part}");
    assert_eq!(field(&part, "content-range"), Some("bytes 2-4/10"), "{part}");
    let head = "HEAD /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\nRange: bytes=2-4\r\n\r\n";
    let whole = proxy.ask(head);
    assert!(whole.starts_with("HTTP/1.1 200 "), "{whole}");
    assert_eq!(field(&whole, "content-length"), Some("10"), "{whole}");
    let same = proxy.get("/a", "If-None-Match: \"1\"\r\n");
    assert!(same.starts_with("HTTP/1.1 304 ") && body(&same).is_empty(), "{same}");
    let beyond = proxy.get("/a", "Range: bytes=10-\r\n");
    assert!(beyond.starts_with("HTTP/1.1 416 "), "{beyond}");
    let parts = proxy.get("/a", "Range: bytes=0-1,8-9\r\n");
    let length = field(&parts, "content-length").map(str::to_owned);
    assert_eq!(length, Some(body(&parts).len().to_string()), "{parts}");
    assert!(parts.contains("Content-Range: bytes 8-9/10\r\n\r\n89\r\n--"), "{parts}");
    let asked = origin.asked();
    assert_eq!((asked.len(), field(&asked[0], "range")), (1, None), "the whole is fetched");
}

#[test]
fn whether_something_has_changed_that_must_not_have_is_for_its_server_to_say() {
    let fields = "Cache-Control: max-age=60\r\nETag: \"1\"\r\n\
                  Last-Modified: Tue, 24 Nov 2026 11:00:00 GMT\r\n";
    let origin = Origin::new(move |stream, asked, _| {
        // It has another by now.
        match field(asked, "if-match").or_else(|| field(asked, "if-unmodified-since")) {
            Some("\"3\"") => send(stream, "HTTP/1.1 412 No\r\nContent-Length: 0\r\n\r\n"),
            Some(_) => send(stream, response("ETag: \"2\"\r\n", "newer")),
            None => send(stream, response(fields, "older")),
        }
    });
    let proxy = Proxy::before(&origin);
    proxy.get("/a", "");
    let is_there = proxy.get("/a", "If-Match: \"1\"\r\n");
    assert_eq!((body(&is_there), origin.asked().len()), ("older", 1), "{is_there}");
    let since = "If-Unmodified-Since: Tue, 24 Nov 2026 10:00:00 GMT\r\n";
    for lines in ["If-Match: \"2\"\r\n", since] {
        let told = proxy.get("/a", lines);
        assert_eq!((body(&told), status(&told)), ("newer", "loadline; fwd=miss"), "{told}");
    }
    let refused = proxy.get("/a", "If-Match: \"3\"\r\n");
    assert!(refused.starts_with("HTTP/1.1 412 "), "{refused}");
    let head = "HEAD /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\nIf-Match: \"3\"\r\n\r\n";
    assert!(proxy.ask(head).starts_with("HTTP/1.1 412 "));
    assert_eq!(origin.asked().len(), 5);
}

#[test]
fn a_stale_response_is_used_where_the_server_fails() {
    let origin = Origin::new(|stream, _, number| match number {
        0 => send(stream, response("Cache-Control: max-age=0\r\nETag: \"1\"\r\n", "hello")),
        _ => send(stream, "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"),
    });
    let proxy = Proxy::before(&origin);
    proxy.get("/a", "");
    for _ in 0..2 {
        let stale = proxy.get("/a", "");
        assert_eq!(body(&stale), "hello", "{stale}");
        assert!(status(&stale).starts_with("loadline; hit; ttl="), "{stale}");
    }
    proxy.expect(Ending::Cached, 2);
}

#[test]
fn a_response_counts_each_request_that_is_answered_with_it_once() {
    let origin = Origin::new(|stream, _, number| match number {
        0 => send(stream, response("Cache-Control: max-age=0\r\nETag: \"1\"\r\n", "hello")),
        1 | 2 => send(stream, "HTTP/1.1 304 Not Modified\r\nETag: \"1\"\r\n\r\n"),
        _ => send(stream, "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"),
    });
    let proxy = Proxy::before(&origin);
    for expected in 0..5 {
        assert_eq!(body(&proxy.get("/a", "")), "hello");
        let objects = proxy.runtime.handle().cached(10);
        let hits: Vec<u64> = objects.iter().map(|it| it.hits).collect();
        assert_eq!(hits, [expected]);
    }
}

#[test]
fn a_stale_response_without_a_validator_is_used_for_as_long_as_the_server_fails() {
    for control in ["stale-if-error=60", "stale-while-revalidate=60"] {
        let fields = format!("Cache-Control: max-age=0, {control}\r\n");
        let origin = Origin::new(move |stream, _, number| match number {
            0 => send(stream, response(&fields, "hello")),
            _ => send(stream, "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"),
        });
        let proxy = Proxy::before(&origin);
        proxy.get("/a", "");
        for number in 1..4 {
            let stale = proxy.get("/a", "");
            assert_eq!(body(&stale), "hello", "{number} {control}: {stale}");
            origin.wait_for(number + 1);
            wait_until(|| proxy.cache().fetches == 0, "the fetch to end");
        }
    }
}

#[test]
fn an_error_that_may_be_stored_does_not_take_the_place_of_what_is_used_instead() {
    let origin = Origin::new(|stream, _, number| match number {
        0 => {
            let fields = "Cache-Control: max-age=0, stale-if-error=60\r\nETag: \"1\"\r\n";
            send(stream, response(fields, "hello"));
        }
        _ => {
            let fields = "Cache-Control: max-age=60\r\nContent-Length: 5\r\n";
            send(stream, format!("HTTP/1.1 500 No\r\n{fields}\r\nerror"));
        }
    });
    let proxy = Proxy::before(&origin);
    proxy.get("/a", "");
    for number in 1..4 {
        let stale = proxy.get("/a", "");
        assert!(stale.starts_with("HTTP/1.1 200 ") && body(&stale) == "hello", "{stale}");
        origin.wait_for(number + 1);
        wait_until(|| proxy.cache().fetches == 0, "the fetch to end");
    }
}

#[test]
fn the_tag_of_a_head_is_not_put_on_a_stored_response_without_one() {
    let tagged = "Cache-Control: max-age=60\r\nETag: \"2\"\r\n";
    let origin = Origin::new(move |stream, asked, number| match number {
        0 => send(stream, fresh("older")),
        _ if asked.starts_with("HEAD ") => {
            send(stream, format!("HTTP/1.1 200 OK\r\n{tagged}Content-Length: 5\r\n\r\n"));
        }
        _ => send(stream, response(tagged, "newer")),
    });
    let proxy = Proxy::before(&origin);
    proxy.get("/a", "");
    proxy.ask(&get("/a", "Cache-Control: no-cache\r\n").replace("GET", "HEAD"));
    let told = proxy.get("/a", "");
    assert_eq!((body(&told), field(&told, "etag")), ("newer", Some("\"2\"")), "{told}");
}

/// Answers a `HEAD` by these fields with the length of the body, and all else with that.
fn answer_both(stream: &mut TcpStream, asked: &str, (of_head, of_get): (&str, &str), body: &str) {
    match asked.starts_with("HEAD ") {
        true => {
            let length = body.len();
            send(stream, format!("HTTP/1.1 200 OK\r\n{of_head}Content-Length: {length}\r\n\r\n"));
        }
        false => send(stream, response(of_get, body)),
    }
}

#[test]
fn a_soft_purge_is_not_undone_by_a_head_that_was_asked_before_it() {
    for (is_purged, expected) in [(false, "; hit;"), (true, "fwd=stale")] {
        let (go_on, may) = channel::<()>();
        let may = Mutex::new(may);
        let origin = Origin::new(move |stream, asked, _| {
            if asked.starts_with("HEAD ") {
                may.lock().unwrap().recv().unwrap();
            }
            let of_head = "Cache-Control: max-age=60\r\nETag: \"1\"\r\n";
            let of_get = "Cache-Control: max-age=0\r\nETag: \"1\"\r\n";
            answer_both(stream, asked, (of_head, of_get), "hello");
        });
        let proxy = Proxy::before(&origin);
        proxy.get("/a", "");
        let mut asking = proxy.begin(&get("/a", "").replace("GET", "HEAD"));
        origin.wait_for(2);
        let url = Some("http://x/a".to_owned());
        let purge = Purge { url, prefix: None, tag: None, soft: true };
        assert!(!is_purged || proxy.runtime.handle().purge(&purge).objects == 1);
        go_on.send(()).unwrap();
        assert!(until_closed(&mut asking).starts_with("HTTP/1.1 200 "));
        let next = proxy.get("/a", "");
        assert!(status(&next).contains(expected), "{is_purged}: {next}");
    }
}

#[test]
fn a_variant_is_not_given_to_those_whom_a_later_head_tells_apart() {
    let of_get = "Cache-Control: max-age=60\r\nETag: \"1\"\r\nVary: Accept-Encoding\r\n";
    let of_head = of_get.replace("Accept-Encoding", "Accept-Encoding, Accept-Language");
    let origin = Origin::new(move |stream, asked, number| {
        let fields = if number == 0 { of_get } else { &*of_head };
        let language = field(asked, "accept-language").unwrap_or_default();
        answer_both(stream, asked, (&of_head, fields), language);
    });
    let proxy = Proxy::before(&origin);
    let german = "Accept-Language: de\r\n";
    assert_eq!(body(&proxy.get("/a", german)), "de");
    let head = get("/a", &format!("{german}Cache-Control: no-cache\r\n")).replace("GET", "HEAD");
    proxy.ask(&head);
    for language in ["en", "de", "en"] {
        let told = proxy.get("/a", &format!("Accept-Language: {language}\r\n"));
        assert_eq!(body(&told), language, "{told}");
    }
    assert_eq!(origin.asked().len(), 4);
}

#[test]
fn what_a_head_says_is_not_to_be_stored_is_fetched_anew() {
    for control in ["no-store", "private"] {
        let of_head = format!("Cache-Control: {control}\r\nETag: \"1\"\r\n");
        let of_get = "Cache-Control: max-age=60\r\nETag: \"1\"\r\n";
        let origin = Origin::new(move |stream, asked, number| {
            answer_both(stream, asked, (&of_head, of_get), &number.to_string());
        });
        let proxy = Proxy::before(&origin);
        proxy.get("/a", "");
        let head = |fields: &str| get("/a", fields).replace("GET", "HEAD");
        proxy.ask(&head("Cache-Control: no-cache\r\n"));
        assert_eq!(body(&proxy.get("/a", "")), "2", "{control}");
    }
}

#[test]
fn a_part_is_given_by_a_date_only_where_the_response_was_made_later() {
    let modified = "Tue, 24 Nov 2020 11:00:00 GMT";
    for (made, expected) in [(modified, "200"), ("Tue, 24 Nov 2020 11:00:01 GMT", "206")] {
        let control = "Cache-Control: max-age=999999999";
        let fields = format!("{control}\r\nDate: {made}\r\nLast-Modified: {modified}\r\n");
        let origin = Origin::answering(response(&fields, "0123456789"));
        let proxy = Proxy::before(&origin);
        proxy.get("/a", "");
        let told = proxy.get("/a", &format!("Range: bytes=0-1\r\nIf-Range: {modified}\r\n"));
        assert_eq!(&told[9..12], expected, "{told}");
        assert!(status(&told).contains("; hit;"), "{told}");
    }
}

#[test]
fn what_the_cache_refuses_has_a_date() {
    let fields = "Cache-Control: max-age=60\r\nETag: \"1\"\r\n";
    let origin = Origin::answering(response(fields, "hello"));
    let proxy = Proxy::before(&origin);
    for (lines, expected) in [("If-Match: \"2\"\r\n", "412"), ("Range: bytes=5-\r\n", "416")] {
        let told = proxy.get("/a", lines);
        assert_eq!(&told[9..12], expected, "{told}");
        assert_eq!(told.matches("\r\nDate: ").count(), 1, "{told}");
    }
    assert_eq!(origin.asked().len(), 1);
}

#[test]
fn a_part_of_a_response_has_no_range_but_its_own() {
    let fields = "Cache-Control: max-age=60\r\nContent-Range: bytes 0-4/5\r\n";
    let origin = Origin::answering(response(fields, "hello"));
    let proxy = Proxy::before(&origin);
    for _ in 0..2 {
        let part = proxy.get("/a", "Range: bytes=1-2\r\n");
        assert_eq!(field(&part, "content-range"), Some("bytes 1-2/5"), "{part}");
        assert_eq!(part.matches("Content-Range").count(), 1, "{part}");
    }
    assert_eq!(field(&proxy.get("/a", ""), "content-range"), None);
}

#[test]
fn a_head_is_answered_with_what_is_stale_where_the_server_fails() {
    let origin = Origin::new(|stream, _, number| match number {
        0 => send(stream, response("Cache-Control: max-age=0\r\nETag: \"1\"\r\n", "hello")),
        1 => send(stream, "HTTP/1.1 503 No\r\nContent-Length: 9\r\n\r\n"),
        _ => drop(stream.shutdown(std::net::Shutdown::Both)),
    });
    let proxy = Proxy::before(&origin);
    proxy.get("/a", "");
    let ask = |fields: &str| proxy.ask(&get("/a", fields).replace("GET", "HEAD"));
    for _ in 0..2 {
        let told = ask("");
        assert!(told.starts_with("HTTP/1.1 200 ") && body(&told).is_empty(), "{told}");
        assert_eq!(field(&told, "content-length"), Some("5"), "{told}");
        assert!(status(&told).starts_with("loadline; hit; ttl="), "{told}");
    }
    proxy.expect(Ending::Cached, 2);
    // What is not for it does not stand in.
    let told = ask("Authorization: Basic eA==\r\n");
    assert!(told.starts_with("HTTP/1.1 50"), "{told}");
    let asked = origin.asked();
    assert!(asked[1..].iter().all(|head| head.starts_with("HEAD ")), "{asked:?}");
}

#[test]
fn a_304_that_forbids_to_store_the_response_is_for_whoever_asked() {
    let origin = Origin::new(|stream, asked, number| match field(asked, "if-none-match") {
        Some(_) => send(
            stream,
            "HTTP/1.1 304 Not Modified\r\nETag: \"1\"\r\nCache-Control: private\r\n\
             Set-Cookie: sid=1\r\n\r\n",
        ),
        None => {
            let fields = "Cache-Control: max-age=0\r\nETag: \"1\"\r\n";
            send(stream, response(fields, &number.to_string()));
        }
    });
    let proxy = Proxy::before(&origin);
    proxy.get("/a", "");
    let own = proxy.get("/a", "");
    assert!(own.starts_with("HTTP/1.1 200 ") && body(&own) == "0", "{own}");
    assert_eq!(field(&own, "cache-control"), Some("private"), "{own}");
    assert_eq!(field(&own, "set-cookie"), Some("sid=1"), "{own}");
    assert_eq!(status(&own), "loadline; fwd=stale; fwd-status=304");
    let next = proxy.get("/a", "");
    assert_eq!((body(&next), field(&next, "set-cookie")), ("2", None), "{next}");
}

#[test]
fn a_header_that_a_304_makes_private_is_given_to_nobody_any_more() {
    let origin = Origin::new(|stream, asked, _| match field(asked, "if-none-match") {
        Some(_) => send(
            stream,
            "HTTP/1.1 304 Not Modified\r\nETag: \"1\"\r\n\
             Cache-Control: max-age=60, private=\"X-User\"\r\n\r\n",
        ),
        None => {
            let fields = "Cache-Control: max-age=0\r\nETag: \"1\"\r\nX-User: alice\r\n";
            send(stream, response(fields, "hello"));
        }
    });
    let proxy = Proxy::before(&origin);
    assert_eq!(field(&proxy.get("/a", ""), "x-user"), Some("alice"));
    for expected in ["fwd-status=304", "; hit;"] {
        let told = proxy.get("/a", "");
        assert!(status(&told).contains(expected), "{told}");
        assert_eq!((field(&told, "x-user"), body(&told)), (None, "hello"), "{told}");
    }
}

#[test]
fn what_a_request_may_have_changed_is_fetched_anew() {
    let origin = Origin::answering(fresh("hello"));
    let proxy = Proxy::before(&origin);
    proxy.get("/a", "");
    proxy.get("/b", "");
    proxy.ask(&get("/a", "Content-Length: 0\r\n").replace("GET", "POST"));
    proxy.get("/a", "");
    proxy.get("/b", "");
    let targets: Vec<_> = origin.asked().iter().map(|head| head[..7].to_owned()).collect();
    assert_eq!(targets, ["GET /a ", "GET /b ", "POST /a", "GET /a "]);
}

#[test]
fn a_purge_takes_out_what_it_names_and_nothing_else() {
    let origin = Origin::new(|stream, asked, _| {
        let tag = if asked.contains("/a/1") { "one" } else { "other" };
        let fields = format!("Cache-Control: max-age=60\r\nETag: \"1\"\r\nCache-Tag: {tag}\r\n");
        send(stream, response(&fields, "hello"));
    });
    let proxy = Proxy::before(&origin);
    let purge = Purge { url: None, prefix: None, tag: None, soft: false };
    let text = |text: &str| Some(text.to_owned());
    for (purge, expected) in [
        (Purge { url: text("http://x/a/1"), ..purge.clone() }, 1),
        (Purge { prefix: text("http://x/a/"), ..purge.clone() }, 2),
        (Purge { tag: text("other"), ..purge.clone() }, 2),
        (Purge { tag: text("one"), soft: true, ..purge.clone() }, 1),
        (Purge { url: text("http://x/"), ..purge }, 0),
    ] {
        for target in ["/a/1", "/a/2", "/b"] {
            let answer = proxy.get(target, "");
            assert!(!answer.contains("Cache-Tag"), "{answer}");
        }
        let before = origin.asked().len();
        assert_eq!(proxy.runtime.handle().purge(&purge).objects, expected, "{purge:?}");
        for target in ["/a/1", "/a/2", "/b"] {
            proxy.get(target, "");
        }
        assert_eq!(origin.asked().len() - before, expected as usize, "{purge:?}");
    }
}

/// A server that sends the first response in two parts, each when it is let, and others at once.
fn slow_at_first(first: [&'static str; 2]) -> (Origin, Sender<()>) {
    let (go_on, may) = channel::<()>();
    let may = Mutex::new(may);
    let origin = Origin::new(move |stream, _, number| match number {
        0 => first.iter().for_each(|part| {
            may.lock().unwrap().recv().unwrap();
            send(stream, part);
        }),
        _ => send(stream, fresh(&number.to_string())),
    });
    (origin, go_on)
}

/// Purges /a during the first fetch, and has what comes then stored.
fn purge_and_store(proxy: &Proxy) -> Purge {
    let url = Some("http://x/a".to_owned());
    let purge = Purge { url, prefix: None, tag: None, soft: false };
    assert_eq!(proxy.runtime.handle().purge(&purge).fetches, 1);
    assert_eq!(body(&proxy.get("/a", "")), "1");
    wait_until(|| proxy.cache().objects == 1, "it to be stored");
    purge
}

#[test]
fn what_was_asked_for_before_a_purge_is_not_given_to_those_who_ask_after_it() {
    let head_of_first = "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 1\r\n\r\n";
    let (origin, go_on) = slow_at_first([head_of_first, "0"]);
    let proxy = Proxy::before(&origin);
    let mut first = proxy.begin(&get("/a", ""));
    origin.wait_for(1);
    let purge = Purge { soft: true, ..purge_and_store(&proxy) };
    assert_eq!(proxy.runtime.handle().purge(&purge).objects, 1);
    go_on.send(()).unwrap();
    assert!(head(&mut first).is_some());
    let late = proxy.get("/a", "");
    assert_eq!(body(&late), "2", "{late}");
    go_on.send(()).unwrap();
    assert_eq!(until_closed(&mut first), "0");
}

#[test]
fn what_was_asked_for_before_a_purge_takes_the_place_of_nothing_that_is_stored_after_it() {
    let varying = "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nVary: Accept-Language\r\n";
    let (origin, go_on) = slow_at_first([varying, "Content-Length: 1\r\n\r\n0"]);
    let proxy = Proxy::before(&origin);
    let mut first = proxy.begin(&get("/a", ""));
    origin.wait_for(1);
    purge_and_store(&proxy);
    for _ in 0..2 {
        go_on.send(()).unwrap();
    }
    assert_eq!(body(&until_closed(&mut first)), "0");
    let next = proxy.get("/a", "");
    assert_eq!((body(&next), origin.asked().len()), ("1", 2), "{next}");
}

#[test]
fn a_purge_finds_a_url_however_it_is_written() {
    let origin = Origin::answering(fresh("hello"));
    let mut fleet = fleet(origin.address);
    let query = QueryKey::Ignore(vec!["utm".into()]);
    fleet.listeners[0].routes = Routes::new(vec![rule(Caching { query, ..Caching::default() })]);
    let proxy = Proxy::of(fleet);
    let purge = Purge { url: None, prefix: None, tag: None, soft: false };
    let text = |text: &str| Some(text.to_owned());
    for (purge, expected) in [
        (Purge { url: text("HTTP://X:80/a?b#top"), ..purge.clone() }, 1),
        (Purge { url: text("http://x/a?utm=1&b"), ..purge.clone() }, 1),
        (Purge { url: text("http://X"), ..purge.clone() }, 1),
        (Purge { prefix: text("http://X:80/"), ..purge.clone() }, 2),
        (Purge { prefix: text("Http://X"), ..purge.clone() }, 2),
        (Purge { url: text("/a?b"), ..purge.clone() }, 0),
        (Purge { url: text("http://x/A?b"), ..purge }, 0),
    ] {
        proxy.get("/a?b", "");
        proxy.get("/", "");
        assert_eq!(proxy.runtime.handle().purge(&purge).objects, expected, "{purge:?}");
    }
}

#[test]
fn a_purge_finds_a_url_with_characters_that_requests_have_encoded() {
    let origin = Origin::answering(fresh("hello"));
    let proxy = Proxy::before(&origin);
    let purge = Purge { url: None, prefix: None, tag: None, soft: false };
    for purge in [
        Purge { url: Some("http://x/\u{e4}?q=%20".to_owned()), ..purge.clone() },
        Purge { prefix: Some("http://x/\u{e4}".to_owned()), ..purge },
    ] {
        proxy.get("/%C3%A4?q=%20", "");
        assert_eq!(proxy.runtime.handle().purge(&purge).objects, 1, "{purge:?}");
    }
}

#[test]
fn a_purge_by_any_tag_of_a_response_takes_it_out() {
    let origin = Origin::new(|stream, asked, _| {
        let count: usize = asked.split(['/', ' ']).nth(2).unwrap().parse().unwrap();
        let tags: Vec<_> = (0..count).map(|number| format!("t{number}")).collect();
        let fields = format!("Cache-Control: max-age=60\r\nCache-Tag: {}\r\n", tags.join(","));
        send(stream, response(&fields, "hello"));
    });
    let proxy = Proxy::before(&origin);
    for (count, is_stored) in [(300, true), (1_024, true), (1_025, false)] {
        proxy.get(&format!("/{count}"), "");
        let tag = Some(format!("t{}", count - 1));
        let purge = Purge { url: None, prefix: None, tag, soft: false };
        let purged = proxy.runtime.handle().purge(&purge).objects;
        assert_eq!(purged, u64::from(is_stored), "{count}");
        assert!(status(&proxy.get(&format!("/{count}"), "")).contains("; fwd="), "{count}");
    }
}
