//! Clients that want others to get something else, and servers that contradict themselves: nothing
//! false is stored.

use std::{net::Ipv4Addr, sync::Arc};

use loadline_core::{
    cache::Settings,
    decide::ending::Ending,
    fleet::UnderscoreHeaders,
    rules::{Caching, Field, Map, MapKind, PathChange, QueryKey, Routes, Template},
};

use crate::support::{
    Origin, Proxy, body, field, fleet, fresh, get, response, rule, send, status, until_closed,
};

#[test]
fn a_header_that_is_not_part_of_the_key_does_not_reach_the_server() {
    let origin = Origin::answering(fresh("hello"));
    let proxy = Proxy::before(&origin);
    for (number, name) in UNKEYED.iter().enumerate() {
        proxy.get(&format!("/{number}"), &format!("{name}: evil.example\r\n"));
        let asked = origin.asked();
        assert_eq!(asked.len(), number + 1, "{name}");
        assert!(!asked[number].contains("evil.example"), "{name}: {}", asked[number]);
    }
}

#[test]
fn an_underscore_in_its_name_does_not_bring_such_a_header_to_the_server() {
    let origin = Origin::answering(fresh("hello"));
    let mut fleet = fleet(origin.address);
    fleet.listeners[0].underscore_headers = UnderscoreHeaders::Keep;
    let proxy = Proxy::of(fleet);
    for name in UNKEYED.iter().chain(&["X-Forwarded-Proto"]) {
        let name = name.replace('-', "_");
        proxy.get(&format!("/{name}"), &format!("{name}: evil.example\r\nmy_key: mine\r\n"));
        let asked = origin.asked().pop().unwrap();
        assert!(!asked.contains("evil.example") && asked.contains("my_key: mine"), "{asked}");
    }
}

#[test]
fn what_a_trusted_proxy_lets_through_chooses_neither_the_host_nor_the_scheme_of_others() {
    let origin = Origin::answering(fresh("hello"));
    let mut fleet = fleet(origin.address);
    fleet.listeners[0].trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
    let proxy = Proxy::of(fleet);
    let said = "Forwarded: for=192.0.2.7;host=evil.test\r\nX-Forwarded-For: 192.0.2.9\r\n\
                X-Forwarded-Proto: evil, https\r\n";
    proxy.get("/a", said);
    assert!(status(&proxy.get("/a", said)).contains("; hit;"), "its scheme is part of the key");
    let asked = origin.asked();
    assert_eq!(asked.len(), 1);
    assert!(!asked[0].contains("evil"), "{}", asked[0]);
    assert_eq!(field(&asked[0], "forwarded"), Some("for=192.0.2.9;proto=https"), "{}", asked[0]);
    assert_eq!(field(&asked[0], "x-forwarded-proto"), Some("https"), "{}", asked[0]);
}

#[test]
fn what_a_route_tells_servers_of_host_path_and_scheme_reaches_them_and_what_clients_say_does_not() {
    let origin = reflecting("Cache-Control: max-age=60\r\n");
    let mut rule = rule(Caching::default());
    let of_route = |name: &str, value| (name.to_owned(), Template::literal(value));
    rule.request.set.push(of_route("X-Forwarded-Prefix", "/shop"));
    rule.request.add.push(of_route("X-Forwarded-Port", "443"));
    let mut fleet = fleet(origin.address);
    fleet.listeners[0].routes = Routes::new(vec![rule]);
    let proxy = Proxy::of(fleet);
    let said = "X-Forwarded-Prefix: /evil\r\nX-Forwarded-Port: evil\r\nX-Scheme: evil\r\n";
    proxy.get("/a", said);
    assert!(status(&proxy.get("/a", "")).contains("; hit;"));
    proxy.ask(&get("/b", said).replace("GET", "HEAD"));
    let asked = origin.asked();
    assert_eq!(asked.len(), 2);
    for asked in asked {
        assert_eq!(field(&asked, "x-forwarded-prefix"), Some("/shop"), "{asked}");
        assert_eq!(field(&asked, "x-forwarded-port"), Some("443"), "{asked}");
        assert!(!asked.contains("evil"), "{asked}");
    }
}

#[test]
fn a_header_of_the_key_reaches_the_server_and_has_a_response_for_each_value() {
    let origin = reflecting("Cache-Control: max-age=60\r\n");
    let headers = vec!["X-Host".to_owned(), "X-Forwarded-Host".to_owned()];
    let mut fleet = fleet(origin.address);
    fleet.listeners[0].routes = Routes::new(vec![rule(Caching { headers, ..Caching::default() })]);
    let proxy = Proxy::of(fleet);
    for host in ["one", "two"] {
        let said = format!("x-host: {host}\r\nX-Original-URL: /evil\r\nX-Forwarded-Host: evil\r\n");
        for _ in 0..2 {
            let told = proxy.get("/a", &said);
            assert_eq!(field(&told, "link"), Some(&*format!("<http://{host}/a>")), "{told}");
        }
    }
    let told = proxy.get("/a", "");
    assert_eq!(field(&told, "link"), Some("<http://x/a>"), "{told}");
    let asked = origin.asked();
    assert_eq!(asked.len(), 3, "each is stored");
    for asked in asked {
        assert!(!asked.contains("evil"), "{asked}");
        let told = field(&asked, "x-forwarded-host");
        assert_eq!(told, Some("x"), "the proxy tells the host itself: {asked}");
    }
}

/// A server that says in its responses what it was asked.
fn reflecting(fields: &'static str) -> Origin {
    Origin::new(move |stream, asked, _| {
        let host = field(asked, "x-host").unwrap_or("x");
        let target = asked.split(' ').nth(1).unwrap();
        let told = response(&format!("{fields}Link: <http://{host}{target}>\r\n"), "hello");
        let is_head = asked.starts_with("HEAD ");
        send(stream, if is_head { &told[..told.len() - 5] } else { &told[..] });
    })
}

/// A proxy that leaves `utm` out of queries.
fn ignoring_utm(origin: &Origin) -> Proxy {
    let query = QueryKey::Ignore(vec!["utm".into()]);
    let mut fleet = fleet(origin.address);
    fleet.listeners[0].routes = Routes::new(vec![rule(Caching { query, ..Caching::default() })]);
    Proxy::of(fleet)
}

#[test]
fn a_head_does_not_give_everybody_what_its_client_had_the_server_say() {
    let origin = reflecting("Cache-Control: max-age=60\r\nETag: \"1\"\r\n");
    let proxy = ignoring_utm(&origin);
    proxy.get("/a", "");
    let head = get("/a?utm=evil", "Cache-Control: no-cache\r\nX-Host: evil.test\r\n");
    let told = proxy.ask(&head.replace("GET", "HEAD"));
    assert!(told.starts_with("HTTP/1.1 200 ") && !told.contains("evil"), "{told}");
    let hit = proxy.get("/a", "");
    assert!(status(&hit).contains("; hit;"), "{hit}");
    assert_eq!(field(&hit, "link"), Some("<http://x/a>"), "{hit}");
    let asked = origin.asked();
    assert_eq!(asked.len(), 2);
    assert!(
        asked[1].starts_with("HEAD /a HTTP/1.1\r\n") && !asked[1].contains("evil"),
        "{asked:?}"
    );
}

#[test]
fn what_is_ignored_of_the_query_reaches_servers_neither_in_a_header_nor_by_a_map() {
    let origin = Origin::new(|stream, asked, _| {
        let target = asked.split(' ').nth(1).unwrap();
        let query = field(asked, "x-request-q").unwrap_or_default();
        send(stream, fresh(&format!("{target} {query}")));
    });
    let template = Template::read("$query").unwrap();
    let entries = vec![("b=1&utm=evil".to_owned(), "/evil".to_owned())];
    let map = Map::new(("to", &template), MapKind::Exact, entries, "/right".to_owned()).unwrap();
    let query = QueryKey::Ignore(vec!["utm".into()]);
    let mut rule = rule(Caching { query, ..Caching::default() });
    rule.path = Some(PathChange::Map(Arc::new(map)));
    rule.request.set.push(("X-Request-Q".into(), template));
    let mut fleet = fleet(origin.address);
    fleet.listeners[0].routes = Routes::new(vec![rule]);
    let proxy = Proxy::of(fleet);
    for target in ["/a?b=1&utm=evil", "/a?b=1"] {
        assert_eq!(body(&proxy.get(target, "")), "/right?b=1 b=1", "{target}");
    }
    assert_eq!(origin.asked().len(), 1);
    let post = get("/a?b=1&utm=evil", "Content-Length: 0\r\n").replace("GET", "POST");
    assert_eq!(body(&proxy.ask(&post)), "/evil?b=1&utm=evil b=1&utm=evil");
}

#[test]
fn what_makes_no_difference_never_reaches_the_server_while_nothing_is_stored_either() {
    let origin = reflecting("Cache-Control: no-store\r\n");
    let proxy = ignoring_utm(&origin);
    let fields = "X-Original-URL: /evil\r\nX-HTTP-Method-Override: evil\r\n";
    for more in ["", "", "Cache-Control: no-store\r\n", "Authorization: Basic eA==\r\n"] {
        proxy.get("/a?b=1&utm=evil", &format!("{fields}{more}"));
    }
    proxy.ask(&get("/b?utm=evil", fields).replace("GET", "HEAD"));
    let own = "Range: bytes=0-1\r\nIf-None-Match: \"1\"\r\n";
    proxy.get("/a?b=1&utm=evil", &format!("{fields}{own}"));
    let asked = origin.asked();
    assert_eq!(asked.len(), 6);
    for (number, asked) in asked.iter().enumerate() {
        assert!(!asked.contains("evil"), "{number}: {asked}");
    }
    assert!(asked[5].starts_with("GET /a?b=1 HTTP/1.1\r\n"), "{}", asked[5]);
    let kept = (field(&asked[5], "range"), field(&asked[5], "if-none-match"));
    assert_eq!(kept, (Some("bytes=0-1"), Some("\"1\"")), "what the client asks for goes on");
}

#[test]
fn what_a_server_made_for_the_address_of_one_client_is_not_given_to_another() {
    let origin = Origin::new(|stream, asked, _| {
        send(stream, fresh(field(asked, "x-real-ip").unwrap_or("nobody")));
    });
    let mut rule = rule(Caching::default());
    let template = |text| Template::read(text).unwrap();
    rule.request.set.push(("X-Real-IP".into(), template("$client_address")));
    rule.request.set.push(("X-Request-ID".into(), template("$request_id")));
    let mut fleet = fleet(origin.address);
    fleet.listeners[0].routes = Routes::new(vec![rule]);
    let proxy = Proxy::of(fleet);
    for (client, asked) in [(1, 1), (2, 2), (1, 2), (2, 2)] {
        let mut stream = proxy.connect_from(Ipv4Addr::new(127, 0, 0, client));
        send(&mut stream, get("/a", ""));
        assert_eq!(body(&until_closed(&mut stream)), format!("127.0.0.{client}"));
        assert_eq!(origin.asked().len(), asked, "asked by 127.0.0.{client}");
    }
}

#[test]
fn what_a_server_made_for_the_bearer_of_a_token_in_a_cookie_is_not_given_to_another() {
    let origin = Origin::new(|stream, asked, _| {
        send(stream, fresh(field(asked, "cookie").unwrap_or("nobody")));
    });
    let settings = Settings { authorized: true, ..Settings::default() };
    let mut fleet = fleet(origin.address);
    let caching = Caching { settings, ..Caching::default() };
    fleet.listeners[0].routes = Routes::new(vec![rule(caching)]);
    let proxy = Proxy::of(fleet);
    for user in ["session=ann", "session=bob", "session=ann"] {
        assert_eq!(body(&proxy.get("/a", &format!("Cookie: {user}\r\n"))), user);
    }
    assert_eq!(origin.asked().len(), 3);
}

#[test]
fn the_value_of_one_header_of_the_key_does_not_select_what_was_stored_for_anothers() {
    let origin = Origin::new(|stream, asked, _| {
        send(stream, fresh(field(asked, "x-tenant").unwrap_or("nobody")));
    });
    let by = |header: &str| rule(Caching { headers: vec![header.into()], ..Caching::default() });
    let mut of_users = by("X-User");
    of_users.when.headers = vec![Field { name: "X-Mode".into(), values: Vec::new() }];
    let mut fleet = fleet(origin.address);
    fleet.listeners[0].routes = Routes::new(vec![of_users, by("X-Tenant")]);
    let proxy = Proxy::of(fleet);
    assert_eq!(body(&proxy.get("/a", "X-Tenant: 5\r\n")), "5");
    let other = proxy.get("/a", "X-Mode: b\r\nX-User: 5\r\nX-Tenant: 7\r\n");
    assert_eq!(body(&other), "7", "{other}");
    for same in ["X-Tenant: 5\r\n", "X-Mode: b\r\nX-User: 5\r\n"] {
        let again = proxy.get("/a", same);
        assert!(status(&again).contains("; hit;"), "{again}");
    }
    assert_eq!(origin.asked().len(), 2);
}

#[test]
fn a_get_with_content_is_neither_stored_nor_answered_from_the_store() {
    let origin = Origin::new(|stream, asked, number| {
        let length = field(asked, "content-length").map_or(0, |length| length.parse().unwrap());
        crate::support::exactly(stream, length);
        send(stream, fresh(&number.to_string()));
    });
    let proxy = Proxy::before(&origin);
    let fat = "GET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 3\r\n\r\na=b";
    assert_eq!(body(&proxy.ask(fat)), "0");
    assert_eq!(body(&proxy.get("/a", "")), "1");
    assert_eq!(body(&proxy.ask(fat)), "2");
    assert_eq!(body(&proxy.get("/a", "")), "1");
}

#[test]
fn what_contradicts_itself_is_not_stored() {
    let part = |range: &str| {
        format!(
            "HTTP/1.1 206 Part\r\nCache-Control: max-age=60\r\nContent-Range: {range}\r\n\
             Content-Length: 3\r\n\r\nabc"
        )
    };
    let twice = |name: &str, one: &str, other: &str| {
        response(&format!("Cache-Control: max-age=60\r\n{name}: {one}\r\n{name}: {other}\r\n"), "a")
    };
    for (what, answer) in [
        ("two types", twice("Content-Type", "text/html", "text/plain")),
        ("two tags", twice("ETag", "\"a\"", "\"b\"")),
        ("a part that nobody wanted", part("bytes 0-2/9")),
        ("a part of another length", part("bytes 0-5/9")),
        ("a part beyond the end", part("bytes 7-9/9")),
        ("a part of no length", part("bytes 2-0/9")),
    ] {
        let origin = Origin::answering(answer);
        let proxy = Proxy::before(&origin);
        proxy.get("/a", "");
        proxy.get("/a", "Range: bytes=0-2\r\n");
        proxy.get("/a", "");
        assert_eq!(origin.asked().len(), 3, "{what}");
    }
}

#[test]
fn a_range_that_the_server_ignores_comes_from_the_whole() {
    let origin = Origin::answering(fresh("0123456789"));
    let proxy = Proxy::before(&origin);
    for range in ["0-2", "7-9"] {
        let part = proxy.get("/a", &format!("Range: bytes={range}\r\n"));
        assert!(part.starts_with("HTTP/1.1 206 "), "{part}");
        assert_eq!(field(&part, "content-range"), Some(&*format!("bytes {range}/10")), "{part}");
    }
    assert_eq!(origin.asked().len(), 1);
}

#[test]
fn less_than_was_promised_is_not_stored() {
    let origin = Origin::new(|stream, _, number| match number {
        0 => {
            let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 9\r\n\r\n";
            send(stream, format!("{head}abc"));
            drop(stream.shutdown(std::net::Shutdown::Both));
        }
        _ => send(stream, fresh("abcdefghi")),
    });
    let proxy = Proxy::before(&origin);
    assert_ne!(body(&proxy.get("/a", "")), "abcdefghi");
    assert_eq!(body(&proxy.get("/a", "")), "abcdefghi");
    assert_eq!(proxy.ask(&get("/a", "")).matches("abcdefghi").count(), 1);
    assert_eq!(origin.asked().len(), 2);
}

#[test]
fn more_than_was_promised_is_part_of_nothing() {
    let more = "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 4\r\n\r\nevil";
    let origin = Origin::new(move |stream, asked, _| match asked.starts_with("GET /a ") {
        true => send(stream, fresh("hello") + " and more" + more),
        false => send(stream, fresh("right")),
    });
    let proxy = Proxy::before(&origin);
    for _ in 0..2 {
        assert_eq!(body(&proxy.get("/a", "")), "hello");
        assert_eq!(body(&proxy.get("/b", "")), "right");
    }
    assert_eq!(origin.asked().len(), 2, "both are stored as they are");
    proxy.expect(Ending::Complete, 2);
}

#[test]
fn a_body_where_none_may_be_is_part_of_nothing() {
    for head in [
        "HTTP/1.1 204 No Content\r\nCache-Control: max-age=60\r\n",
        "HTTP/1.1 304 Not Modified\r\nCache-Control: max-age=60\r\n",
    ] {
        let answer = format!("{head}Content-Length: 0\r\n\r\n{}", fresh("evil"));
        let origin = Origin::new(move |stream, asked, _| match asked.starts_with("GET /a ") {
            true => send(stream, &answer),
            false => send(stream, fresh("right")),
        });
        let proxy = Proxy::before(&origin);
        for _ in 0..2 {
            assert!(!proxy.get("/a", "").contains("evil"), "{head}");
            assert_eq!(body(&proxy.get("/b", "")), "right", "{head}");
        }
    }
}

#[test]
fn parts_of_an_object_that_changes_are_never_of_two() {
    let origin = Origin::new(|stream, asked, number| {
        let (tag, text) = if number == 0 { ("1", "aaaaaaaaaa") } else { ("2", "bbbbbbbbbb") };
        let fields = format!("Cache-Control: max-age=0\r\nETag: \"{tag}\"\r\n");
        assert!(field(asked, "range").is_none(), "the whole is fetched: {asked}");
        send(stream, response(&fields, text));
    });
    let proxy = Proxy::before(&origin);
    let first = proxy.get("/a", "Range: bytes=0-4\r\n");
    assert_eq!((field(&first, "etag"), body(&first)), (Some("\"1\""), "aaaaa"), "{first}");
    // The rest, if it is of the same: it is not, so that all of the new one comes.
    let rest = proxy.get("/a", "Range: bytes=5-9\r\nIf-Range: \"1\"\r\n");
    assert!(rest.starts_with("HTTP/1.1 200 "), "{rest}");
    assert_eq!((field(&rest, "etag"), body(&rest)), (Some("\"2\""), "bbbbbbbbbb"), "{rest}");
    let parts = proxy.get("/a", "Range: bytes=0-1,8-9\r\n");
    assert!(!body(&parts).contains("aa") && parts.contains("bb"), "{parts}");
}

#[test]
fn an_object_that_changes_while_it_comes_is_given_as_it_began_to_those_who_joined() {
    let (go_on, may) = std::sync::mpsc::channel::<()>();
    let may = std::sync::Mutex::new(may);
    let origin = Origin::new(move |stream, _, number| match number {
        0 => {
            let head = "Cache-Control: max-age=60\r\nETag: \"1\"\r\nContent-Length: 10\r\n";
            send(stream, format!("HTTP/1.1 200 OK\r\n{head}\r\naaaaa"));
            may.lock().unwrap().recv().unwrap();
            // Its server notices that it cannot go on.
            drop(stream.shutdown(std::net::Shutdown::Both));
        }
        _ => send(stream, response("Cache-Control: max-age=60\r\nETag: \"2\"\r\n", "bbbbbbbbbb")),
    });
    let proxy = Proxy::before(&origin);
    let mut joined: Vec<_> = (0..3).map(|_| proxy.begin(&get("/a", ""))).collect();
    for client in &mut joined {
        assert!(crate::support::head(client).is_some());
        assert_eq!(crate::support::exactly(client, 5), b"aaaaa");
    }
    go_on.send(()).unwrap();
    for client in &mut joined {
        assert_eq!(until_closed(client), "", "nothing of another one follows");
    }
    proxy.expect(Ending::ServerCut, 3);
    assert_eq!(body(&proxy.get("/a", "")), "bbbbbbbbbb");
}

const UNKEYED: [&str; 8] = [
    "X-Forwarded-Host", "X-Forwarded-Scheme", "X-Forwarded-Prefix", "X-Host", "X-Original-URL",
    "X-Rewrite-URL", "X-HTTP-Method-Override", "X-Method-Override",
];
