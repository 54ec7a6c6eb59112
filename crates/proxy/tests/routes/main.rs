//! The rules of a listener, over sockets: who gets a request, what is changed of it, and what is
//! answered without a server.

#![expect(clippy::unwrap_used, reason = "a test helper fails the test it helps")]

mod basic_auth;
mod cors;
mod forward_auth;
mod issuer;
mod jwt;
mod mirror;
mod pages;
#[path = "../../../core/tests/ports/mod.rs"]
mod ports;
mod support;
mod unix_sockets;

use std::{io::Write as _, net::SocketAddr};

use loadline_core::{
    decide::ending::Ending,
    rules::{
        Action, Conditions, Cors, DirectResponse, Field, HeaderEdits, LimitKey, Origin, Path,
        PathChange, RateLimit, Redirect, Share, Split, Template, Text,
    },
    time::Duration,
    units::{Bytes, Rate},
};

use support::{Proxy, answer, rule, under};

#[test]
fn a_path_chooses_the_service_and_the_listener_gets_the_rest() {
    let proxy = Proxy::of(vec![rule(under("/api"), Action::Service(Split::all(1)))]);
    for (path, name) in
        [("/api", "one"), ("/api/users?x=1", "one"), ("/apis", "zero"), ("/x/../api", "one")]
    {
        assert!(proxy.get(path).ends_with(name), "{path}");
    }
    let raw = proxy.get("/%61pi?x=1");
    assert!(raw.contains("GET /%61pi?x=1 HTTP/1.1\r\n"), "a path goes on as it came: {raw}");
}

#[test]
fn what_no_route_is_for_gets_to_no_service_where_the_listener_has_none() {
    let upgrade = Redirect {
        status: 301,
        scheme: Some("https".into()),
        host: None,
        path: None,
        location: None,
    };
    let rules = vec![
        rule(Conditions::default(), Action::Redirect(upgrade)),
        rule(under("/api"), Action::Service(Split::all(1))),
    ];
    let proxy = Proxy::beside(rules, SocketAddr::from(([127, 0, 0, 1], 9)), |fleet| {
        fleet.listeners[0].routes_only = true;
        fleet.listeners[0].trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
    });
    let secure = "GET /anything HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\
                  X-Forwarded-Proto: https\r\n\r\n";
    let told = proxy.ask(secure);
    assert!(told.starts_with("HTTP/1.1 404 "), "{told}");
    assert!(proxy.get("/anything").starts_with("HTTP/1.1 301 "));
}

#[test]
fn a_header_a_cookie_and_a_query_choose_together() {
    let exact = |name: &str, value: &str| Field {
        name: name.into(),
        values: vec![Text::Exact(value.into())],
    };
    let when = Conditions {
        headers: vec![exact("x-tenant", "acme")],
        query: vec![exact("v", "2")],
        cookies: vec![exact("beta", "yes")],
        ..Conditions::default()
    };
    let proxy = Proxy::of(vec![rule(when, Action::Service(Split::all(1)))]);
    let ask = |target: &str, fields: &str| {
        proxy.ask(&format!("GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{fields}\r\n"))
    };
    assert!(ask("/?v=2", "X-Tenant: acme\r\nCookie: a=b; beta=yes\r\n").ends_with("one"));
    assert!(ask("/?v=1", "X-Tenant: acme\r\nCookie: a=b; beta=yes\r\n").ends_with("zero"));
    assert!(ask("/?v=2", "X-Tenant: acme\r\n").ends_with("zero"));
}

#[test]
fn a_denied_path_stays_denied_however_it_is_written() {
    let proxy = Proxy::of(vec![rule(under("/admin"), Action::Respond(answer(403, "no\n")))]);
    for path in ["/admin", "/%61dmin", "//admin/x", "/x/..%2fadmin", "/./admin"] {
        let told = proxy.get(path);
        assert!(told.starts_with("HTTP/1.1 403 Forbidden\r\n") && told.ends_with("no\n"), "{told}");
    }
    proxy.counts(Ending::Ruled, 5);
    assert_eq!(proxy.served(), 0);
}

#[test]
fn a_connection_goes_on_after_an_answer_of_a_rule() {
    let proxy = Proxy::of(vec![rule(under("/hi"), Action::Respond(answer(200, "hello")))]);
    let told = proxy.ask(concat!(
        "GET /hi HTTP/1.1\r\nHost: x\r\n\r\n",
        "HEAD /hi HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /other HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    ));
    let answers: Vec<&str> = told.split("HTTP/1.1 200 OK\r\n").skip(1).collect();
    assert_eq!(answers.len(), 3, "{told}");
    assert!(answers[0].contains("Content-Length: 5\r\n") && answers[0].ends_with("hello"));
    assert!(answers[1].contains("Content-Length: 5\r\n") && answers[1].ends_with("\r\n\r\n"));
    assert!(answers[2].ends_with("zero"));
}

#[test]
fn a_body_that_is_still_to_come_closes_the_connection_after_the_answer() {
    let proxy = Proxy::of(vec![rule(under("/"), Action::Respond(answer(413, "")))]);
    let mut stream = proxy.connect();
    stream.write_all(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf").unwrap();
    let told = support::until_closed(&mut stream);
    assert!(told.contains("HTTP/1.1 413") && told.contains("Connection: close\r\n"), "{told}");
}

#[test]
fn a_status_without_content_is_given_without_the_body_of_its_route() {
    for (status, length) in [(204, None), (205, Some("Content-Length: 0\r\n")), (304, None)] {
        let proxy = Proxy::of(vec![rule(under("/"), Action::Respond(answer(status, "a body")))]);
        let seen = proxy.get("/");
        assert!(seen.starts_with(&format!("HTTP/1.1 {status} ")), "{seen}");
        assert!(seen.ends_with("\r\n\r\n"), "{seen}");
        assert_eq!(seen.contains("Content-Length"), length.is_some(), "{seen}");
        assert!(length.is_none_or(|length| seen.contains(length)), "{seen}");
    }
}

#[test]
fn a_redirect_says_where_to() {
    let redirect = Redirect {
        status: 308,
        scheme: Some("https".into()),
        host: None,
        path: Some(PathChange::Prefix { from: "/old".into(), to: "/new".into() }),
        location: None,
    };
    let proxy = Proxy::of(vec![rule(under("/old"), Action::Redirect(redirect))]);
    let told = proxy.get("/old/a?b=c");
    assert!(told.starts_with("HTTP/1.1 308 Permanent Redirect\r\n"), "{told}");
    assert!(told.contains("Location: https://x/new/a?b=c\r\n"), "{told}");
    let smuggled = proxy.get("/old/%0d%0aSet-Cookie:%20a=b");
    assert!(smuggled.contains("/new/%0d%0aSet-Cookie:%20a=b\r\n"), "{smuggled}");
}

#[test]
fn a_request_that_has_no_url_is_led_nowhere() {
    let redirect = Redirect {
        status: 301,
        scheme: Some("https".into()),
        host: None,
        path: None,
        location: None,
    };
    let proxy = Proxy::of(vec![rule(Conditions::default(), Action::Redirect(redirect))]);
    let server = proxy.ask("OPTIONS * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    assert!(server.starts_with("HTTP/1.1 200") && server.ends_with("zero"), "{server}");
    let nowhere = proxy.ask("GET /a HTTP/1.0\r\n\r\n");
    assert!(nowhere.starts_with("HTTP/1.1 400 ") && !nowhere.contains("Location"), "{nowhere}");
    assert!(proxy.ask("GET /a HTTP/1.0\r\nHost: x\r\n\r\n").contains("Location: https://x/a\r\n"));
}

#[test]
fn a_redirect_to_a_host_goes_by_the_target_where_that_names_one() {
    let redirect = Redirect {
        status: 301,
        scheme: None,
        host: Some("a.test".into()),
        path: None,
        location: None,
    };
    let proxy = Proxy::of(vec![rule(Conditions::default(), Action::Redirect(redirect))]);
    let asked = |target: &str, host: &str| {
        proxy.ask(&format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"))
    };
    for host in ["a.test", "a.test.", "a.test:8080", "b.test"] {
        let told = asked("http://a.test/x", host);
        assert!(told.ends_with("zero"), "{host}: {told}");
    }
    let told = asked("http://a.test:8080/x", "a.test");
    assert!(told.contains("Location: http://a.test/x\r\n"), "{told}");
}

#[test]
fn a_redirect_behind_a_trusted_proxy_keeps_the_scheme_the_client_came_by() {
    let elsewhere = Redirect {
        status: 302,
        scheme: None,
        host: None,
        path: Some(PathChange::Prefix { from: "/old".into(), to: "/new".into() }),
        location: None,
    };
    let upgrade = Redirect { scheme: Some("https".into()), path: None, ..elsewhere.clone() };
    let behind = |trusted: &[&str]| {
        let trusted = trusted.iter().map(|text| text.parse().unwrap()).collect();
        let rules = vec![
            rule(under("/old"), Action::Redirect(elsewhere.clone())),
            rule(under("/secure"), Action::Redirect(upgrade.clone())),
        ];
        Proxy::beside(rules, SocketAddr::from(([127, 0, 0, 1], 9)), |fleet| {
            fleet.listeners[0].trusted_proxies = trusted;
        })
    };
    let location = |proxy: &Proxy, path: &str, fields: &str| {
        let told = proxy.ask(&format!(
            "GET {path} HTTP/1.1\r\nHost: x:8080\r\nConnection: close\r\n{fields}\r\n"
        ));
        let line = told.lines().find_map(|line| line.strip_prefix("Location: ")).unwrap();
        line.to_owned()
    };
    let proxy = behind(&["127.0.0.0/8"]);
    for (fields, scheme) in [
        ("X-Forwarded-Proto: https\r\n", "https"),
        ("X-Forwarded-Proto: HTTPS\r\n", "https"),
        ("X-Forwarded-Proto: http, https\r\n", "https"),
        ("Forwarded: for=192.0.2.1;proto=https\r\n", "https"),
        ("Forwarded: for=192.0.2.1;proto=https, for=127.0.0.2;proto=http\r\n", "https"),
        ("X-Forwarded-Proto: gopher\r\n", "http"),
        ("", "http"),
    ] {
        let told = location(&proxy, "/old", fields);
        assert_eq!(told, format!("{scheme}://x:8080/new"), "{fields}");
    }
    assert_eq!(location(&proxy, "/secure", ""), "https://x/secure");
    let secure = "GET /secure HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\
                  X-Forwarded-Proto: https\r\n\r\n";
    assert!(proxy.ask(secure).ends_with("zero"), "it came by https already");
    for told in ["X-Forwarded-Proto: wss", "X-Forwarded-Proto: WSS", "Forwarded: proto=wss"] {
        let upgrade = secure.replace("X-Forwarded-Proto: https", told);
        assert!(proxy.ask(&upgrade).ends_with("zero"), "by https for a WebSocket: {told}");
    }
    assert_eq!(location(&proxy, "/secure", "X-Forwarded-Proto: ws\r\n"), "https://x/secure");
    let stranger = behind(&[]);
    assert_eq!(location(&stranger, "/old", "X-Forwarded-Proto: https\r\n"), "http://x:8080/new");
}

#[test]
fn path_and_headers_are_changed_on_the_way() {
    let field = |name: &str, value: &str| (name.to_owned(), Template::read(value).unwrap());
    let mut changing = rule(under("/api"), Action::Service(Split::all(1)));
    changing.path = Some(PathChange::Prefix { from: "/api".into(), to: String::new() });
    changing.request.set = vec![field("X-Env", "live")];
    changing.request.remove = vec!["x-debug".into()];
    changing.answer = HeaderEdits {
        remove: vec!["Server".into()],
        add: vec![field("Strict-Transport-Security", "max-age=60")],
        ..HeaderEdits::default()
    };
    let proxy = Proxy::of(vec![changing]);
    let told = proxy.ask(concat!(
        "POST /api/u?v=1 HTTP/1.1\r\nHost: x\r\nX-Debug: 1\r\nX-Env: test\r\n",
        "Content-Length: 2\r\nConnection: close\r\n\r\nab",
    ));
    assert!(told.contains("POST /u?v=1 HTTP/1.1\r\n"), "{told}");
    assert!(told.contains("X-Env: live\r\n") && !told.contains("X-Env: test"), "{told}");
    assert!(!told.contains("X-Debug") && !told.contains("Server: "), "{told}");
    assert!(told.contains("Strict-Transport-Security: max-age=60\r\n"), "{told}");
    assert!(told.ends_with("one"), "{told}");
}

#[test]
fn servers_and_clients_get_the_same_request_id_and_variables_in_headers() {
    let field = |name: &str, value: &str| (name.to_owned(), Template::read(value).unwrap());
    let mut telling = rule(under("/"), Action::Service(Split::all(1)));
    let url = "$method $scheme://$host$path?$query";
    telling.request.set = vec![field("X-Request-Id", "$request_id"), field("X-Url", url)];
    telling.answer.set =
        vec![field("X-Request-Id", "$request_id"), field("X-Client", "<$client_address>")];
    let proxy = Proxy::of(vec![telling]);
    let told = proxy.ask(concat!(
        "GET /a%20b?v=1 HTTP/1.1\r\nHost: X.test:80\r\nX-Request-Id: mine\r\n",
        "Connection: close\r\n\r\n",
    ));
    assert!(told.contains("X-Url: GET http://x.test/a%20b?v=1\r\n"), "{told}");
    assert!(told.contains("X-Client: <127.0.0.1>\r\n"), "{told}");
    let ids: Vec<&str> =
        told.lines().filter_map(|line| line.strip_prefix("X-Request-Id: ")).collect();
    assert!(ids.len() == 2 && ids[0] == ids[1] && ids[0].len() == 32, "{told}");
}

#[test]
fn a_body_over_the_limit_of_its_route_gets_413_however_it_is_framed() {
    let mut limited = rule(under("/small"), Action::Service(Split::all(1)));
    limited.max_body = Some(Bytes::new(4));
    let proxy = Proxy::of(vec![limited]);
    let post = |path: &str, framing: &str, body: &str| {
        let head = format!("POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{framing}");
        let told = proxy.ask(&format!("{head}\r\n\r\n{body}"));
        told.get(9..12).unwrap_or_default().to_owned()
    };
    let counted = |length: usize| format!("Content-Length: {length}");
    let chunked = "Transfer-Encoding: chunked";
    assert_eq!(post("/small", &counted(4), "abcd"), "200");
    assert_eq!(post("/small", &counted(5), "abcde"), "413");
    assert_eq!(post("/small", chunked, "2\r\nab\r\n2\r\ncd\r\n0\r\n\r\n"), "200");
    assert_eq!(post("/small", chunked, "2\r\nab\r\n3\r\ncde\r\n0\r\n\r\n"), "413");
    assert_eq!(post("/large", &counted(5), "abcde"), "200");
    proxy.counts(Ending::ClientBad, 2);
}

#[test]
fn a_chunked_body_that_grows_over_the_limit_while_it_is_sent_gets_413() {
    let mut limited = rule(under("/"), Action::Service(Split::all(1)));
    limited.max_body = Some(Bytes::new(4));
    let proxy = Proxy::of(vec![limited]);
    let mut client = proxy.connect();
    let head =
        "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n";
    client.write_all(format!("{head}3\r\nabc\r\n").as_bytes()).unwrap();
    client.write_all(b"9\r\nabcdefghi\r\n0\r\n\r\n").unwrap();
    let told = support::until_closed(&mut client);
    assert!(told.starts_with("HTTP/1.1 413 "), "{told}");
}

#[test]
fn a_preflight_is_answered_and_pages_of_the_origin_may_read_responses() {
    let mut shared = rule(under("/"), Action::Service(Split::all(1)));
    shared.cors = Some(Cors {
        origins: vec![Origin::parse("https://app.test").unwrap()],
        methods: vec!["PUT".into()],
        headers: None,
        exposed: vec![],
        credentials: true,
        max_age: Duration::from_secs(60),
    });
    let proxy = Proxy::of(vec![shared]);
    let asked = |method: &str, lines: &str| {
        proxy.ask(&format!("{method} /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{lines}\r\n"))
    };
    let preflight = "Origin: https://app.test\r\nAccess-Control-Request-Method: PUT\r\n";
    let told = asked("OPTIONS", preflight);
    assert!(told.starts_with("HTTP/1.1 204 ") && told.contains("-Methods: PUT\r\n"), "{told}");
    let told = asked("OPTIONS", &preflight.replace("app", "other"));
    assert!(told.starts_with("HTTP/1.1 403 "), "{told}");
    let allow = "Access-Control-Allow-Origin: https://app.test\r\n";
    let told = asked("GET", "Origin: https://app.test\r\n");
    assert!(told.contains(allow) && told.contains("Vary: Origin\r\n"), "{told}");
    let told = asked("GET", "Origin: https://other.test\r\n");
    assert!(!told.contains("Access-Control-Allow") && told.contains("Vary: Origin\r\n"), "{told}");
    // A request for the methods of a resource is no preflight.
    assert!(asked("OPTIONS", "").ends_with("one"));
}

#[test]
fn weights_split_requests_between_services() {
    let share = |service, weight| Share { service, weight };
    let split = Split::by_weight(vec![share(0, 1), share(1, 1)]).unwrap();
    let proxy = Proxy::of(vec![rule(Conditions::default(), Action::Service(split))]);
    // That all of these go the same way happens once in 2^63 runs.
    let told: Vec<String> = (0..64).map(|_| proxy.get("/")).collect();
    assert!(told.iter().any(|told| told.ends_with("zero")));
    assert!(told.iter().any(|told| told.ends_with("one")));
}

#[test]
fn a_limit_counts_each_key_and_says_when_to_come_back() {
    let mut limited = rule(under("/"), Action::Service(Split::all(0)));
    let by = LimitKey::Header("X-User".into());
    limited.limit = Some(RateLimit { rate: Rate::milli_per_sec(10), burst: 2, by, keys: 64 });
    let proxy = Proxy::of(vec![limited]);
    let ask = |user: &str| {
        let fields = format!("Host: x\r\nConnection: close\r\nX-User: {user}\r\n");
        proxy.ask(&format!("GET / HTTP/1.1\r\n{fields}\r\n"))
    };
    for user in ["a", "b"] {
        assert!(ask(user).ends_with("zero") && ask(user).ends_with("zero"));
        let told = ask(user);
        assert!(told.starts_with("HTTP/1.1 429 Too Many Requests\r\n"), "{told}");
        assert!(told.contains("Retry-After: 100\r\n"), "{told}");
    }
    proxy.counts(Ending::Ruled, 2);
}

#[test]
fn a_reload_forgives_nobody_who_is_over_a_limit() {
    let limited = |burst| {
        let (rate, by) = (Rate::milli_per_sec(10), LimitKey::Client);
        let mut limited = rule(under("/limited"), Action::Service(Split::all(0)));
        limited.limit = Some(RateLimit { rate, burst, by, keys: 64 });
        vec![limited]
    };
    let proxy = Proxy::of(limited(2));
    let is_let_through = || proxy.get("/limited").starts_with("HTTP/1.1 200");
    assert!(is_let_through() && is_let_through() && !is_let_through());
    proxy.reload(limited(2));
    assert!(!is_let_through(), "the same limit in another file");
    proxy.reload(limited(3));
    assert!(is_let_through() && !is_let_through(), "two of three have been given");
}

#[test]
fn an_expression_sees_the_whole_path() {
    let regex = loadline_core::rules::Regex::whole("/users/[0-9]+").unwrap();
    let when = Conditions { paths: vec![Path::Regex(regex)], ..Conditions::default() };
    let proxy =
        Proxy::of(vec![rule(when, Action::Respond(DirectResponse { ..answer(200, "user") }))]);
    assert!(proxy.get("/users/17").ends_with("user"));
    assert!(proxy.get("/users/17/x").ends_with("zero"));
}
