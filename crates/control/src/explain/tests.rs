//! What becomes of requests to a shop with an admin path, moved pages and an API.

use super::*;
use crate::{LocalOnly, parse_with};

const SHOP: &str = r#"
[edge]
region = "eu"
[[listener]]
bind = "127.0.0.1:8080"
service = "web"
[[listener.routes]]
path = "/admin"
source = "10.0.0.0/8"
service = "web"
[[listener.routes]]
path = "/admin"
answer = { status = 403 }
[[listener.routes]]
path = "/old/"
redirect = { rewrite = { prefix = "/old", to = "/new" }, status = 301 }
[[listener.routes]]
host = "api.example.com"
path = "/v1/"
method = "POST"
service = "api"
rewrite = { prefix = "/v1", to = "/" }
limit = { rate = "10/s" }
basic_auth = { users = { ali = "$5$saltstring$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5" } }
request_headers = { set = { X-Api = "1" } }
[[listener]]
bind = "127.0.0.1:9443"
protocol = "tcp"
service = "api"
[service.web]
policy = "least-requests"
[[service.web.group]]
name = "far"
region = "us"
rtt = "100ms"
servers = ["10.0.0.2:80"]
[[service.web.group]]
name = "near"
region = "eu"
rtt = "1ms"
servers = ["10.0.0.1:80"]
max_rate = "5/s"
[[service.api.group]]
servers = ["10.0.0.3:80"]
"#;

fn asked(method: &str, authority: &str, target: &str, client: &str) -> Question {
    Question {
        method: method.to_owned(),
        is_secure: false,
        authority: authority.to_owned(),
        port: 8080,
        target: target.to_owned(),
        headers: Vec::new(),
        client: client.parse().expect("an address"),
        listener: None,
    }
}

fn shop() -> Fleet {
    parse_with("shop.toml", SHOP, &LocalOnly).expect("a right file").fleet
}

fn explained(question: &Question) -> Explanation {
    explain(&shop(), question).expect("a listener takes it")
}

#[test]
fn the_route_that_decides_is_named_with_why_those_before_it_did_not() {
    let told = explained(&asked("GET", "example.com", "/x/../%61dmin", "192.0.2.1"));
    assert_eq!(told.answer, Answer::Response { status: 403 });
    let fails: Vec<_> = told.passed.iter().map(|it| (it.number, it.fails.as_str())).collect();
    assert_eq!(fails, [(1, "not from 10.0.0.0/8")]);
    assert_eq!(told.route.expect("a route").number, 2);
}

#[test]
fn a_redirect_says_where_to() {
    let told = explained(&asked("GET", "example.com:8080", "/old/a?b=c", "192.0.2.1"));
    let location = "http://example.com:8080/new/a?b=c".to_owned();
    assert_eq!(told.answer, Answer::Redirect { status: 301, location });
}

#[test]
fn a_redirect_that_would_lead_to_where_the_request_came_is_passed_and_says_so() {
    let not_matched = "^/b/([0-9]+)$ does not match the path, which would stay";
    for (rewrite, path, fails) in [
        ("regex = \"^/b/([0-9]+)$\", to = \"/new\"", "/about", not_matched),
        ("prefix = \"/b/\", to = \"/new\"", "/about", "the path is not below /b, and would stay"),
        ("prefix = \"/\", to = \"/new\"", "/new/about", "the path is below /new/ already"),
        ("prefix = \"/\", to = \"/b%20c/\"", "/b%20c/d", "the path is below /b%20c/ already"),
    ] {
        let shop = SHOP.replacen("path = \"/old/\"\n", "", 1);
        let shop = shop.replacen("prefix = \"/old\", to = \"/new\"", rewrite, 1);
        let shop = parse_with("shop.toml", &shop, &LocalOnly).expect("a right file").fleet;
        let told = explain(&shop, &asked("GET", "example.com", path, "192.0.2.1"));
        let told = told.expect("a listener takes it");
        assert_eq!(told.passed[2].fails, fails);
        assert!(matches!(told.answer, Answer::Services(_)), "{:?}", told.answer);
    }
}

#[test]
fn a_location_that_leads_to_where_the_request_came_is_passed_and_says_so() {
    let redirect = "redirect = { location = \"http://example.com/old/new\", status = 301 }";
    let parts = "redirect = { rewrite = { prefix = \"/old\", to = \"/new\" }, status = 301 }";
    let shop = SHOP.replacen(parts, redirect, 1);
    let shop = parse_with("shop.toml", &shop, &LocalOnly).expect("a right file").fleet;
    let told = |path| {
        let question = asked("GET", "example.com", path, "192.0.2.1");
        explain(&shop, &question).expect("a listener takes it")
    };
    let location = "http://example.com/old/new".to_owned();
    assert_eq!(told("/old/a").answer, Answer::Redirect { status: 301, location });
    let there = told("/old/new");
    assert_eq!(there.passed[2].fails, "it leads to where the request came");
    assert!(matches!(there.answer, Answer::Services(_)), "{:?}", there.answer);
}

#[test]
fn what_no_route_is_for_goes_to_the_service_of_the_listener_nearest_group_first() {
    let told = explained(&asked("GET", "api.example.com", "/v1/users", "192.0.2.1"));
    assert_eq!(told.passed.len(), 4);
    assert_eq!(told.passed[3].fails, "not POST");
    let Answer::Services(targets) = told.answer else { panic!("{:?}", told.answer) };
    let names: Vec<_> = targets[0].groups.iter().map(|group| group.name.as_str()).collect();
    assert_eq!((targets[0].service.as_str(), names), ("web", vec!["near", "far"]));
}

#[test]
fn limits_and_changes_of_a_route_are_told() {
    let told = explained(&asked("POST", "API.example.com", "/v1/users", "192.0.2.1"));
    let text = told.to_string();
    assert_eq!(told.authentication.as_ref().map(|it| it.by), Some("basic auth"));
    let route = told.route.expect("a route");
    assert_eq!(route.path.as_deref(), Some("/users"));
    assert_eq!(route.request_headers, ["set X-Api: 1"]);
    assert!(text.contains("limit       10/s for each client address, 1 at once"), "{text}");
    assert!(text.contains("basic auth  one of 1 users of loadline; 401 for others"), "{text}");
    assert!(text.contains("service     api\n"), "{text}");
}

#[test]
fn who_needs_a_token_is_told_which_one() {
    let jwt = "jwt = { keys = \"jwks.json\", issuer = \"https://i\", audience = [\"a\", \"b\"], \
               claims = { role = \"admin\" } }\n[[listener.routes]]\npath = \"/admin\"";
    let shop = SHOP.replacen("[[listener.routes]]\npath = \"/admin\"", jwt, 1);
    let shop = shop.replace("path = \"/old/\"", "path = \"/old/\"\njwt = false");
    let shop = parse_with("shop.toml", &shop, &LocalOnly).expect("a right file").fleet;
    let told = |path| {
        let told = explain(&shop, &asked("GET", "example.com", path, "192.0.2.1"));
        told.expect("a listener takes it").authentication.map(|it| it.who)
    };
    let expected = "a token in Authorization: Bearer, signed by a key of jwks.json, of https://i, \
                    for a or b; 401 for others; 403 unless role is admin";
    assert_eq!(told("/").as_deref(), Some(expected));
    assert_eq!(told("/old/x"), None);
}

#[test]
fn the_only_listener_of_a_scheme_takes_a_request_to_another_port_and_that_is_told() {
    let elsewhere = Question { port: 80, ..asked("GET", "example.com", "/", "192.0.2.1") };
    let told = explain(&shop(), &elsewhere).expect("the only one").to_string();
    let expected = "listener    127.0.0.1:8080 (the only one with this scheme; not on port 80)";
    assert!(told.lines().any(|line| line == expected), "{told}");
    let listener = Some("127.0.0.1:8080".parse().expect("an address"));
    for named in [Question { listener, ..elsewhere }, asked("GET", "a", "/", "192.0.2.1")] {
        let told = explain(&shop(), &named).expect("a listener").to_string();
        assert!(told.lines().any(|line| line == "listener    127.0.0.1:8080"), "{told}");
    }
}

#[test]
fn a_request_that_no_listener_takes_is_told_which_there_are() {
    let secure = Question { is_secure: true, ..asked("GET", "example.com", "/", "192.0.2.1") };
    let told = explain(&shop(), &secure).expect_err("nothing speaks TLS").to_string();
    assert_eq!(
        told,
        "no listener for HTTP takes https on port 8080; there are: 127.0.0.1:8080 (http)"
    );
    let listener = Some("127.0.0.1:9443".parse().expect("an address"));
    let tcp = Question { listener, ..asked("GET", "example.com", "/", "192.0.2.1") };
    assert!(explain(&shop(), &tcp).is_err());
}

/// What becomes of a request with these headers where the listener has these keys.
fn with_keys(keys: &str, question: &Question) -> Explanation {
    let shop = SHOP.replacen("service = \"web\"\n", &format!("service = \"web\"\n{keys}\n"), 1);
    let shop = parse_with("shop.toml", &shop, &LocalOnly).expect("a right file").fleet;
    explain(&shop, question).expect("a listener takes it")
}

fn with_headers(headers: &[(&str, &str)], question: Question) -> Question {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    Question { headers: headers.iter().map(owned).collect(), ..question }
}

#[test]
fn a_header_with_an_underscore_is_seen_by_routes_only_where_it_is_kept() {
    let question = asked("GET", "example.com", "/", "192.0.2.1");
    let question = with_headers(&[("X_Beta", "1")], question);
    let told = |setting: &str| {
        let keys = format!("underscore_headers = \"{setting}\"");
        let route = "\n[[listener.routes]]\nheader = { X_Beta = \"1\" }\nanswer = { status = 204 }";
        with_keys(&(keys + route), &question)
    };
    assert_eq!(told("keep").answer, Answer::Response { status: 204 });
    let dropped = told("drop");
    assert!(matches!(dropped.answer, Answer::Services(_)), "{dropped:?}");
    let refused = told("refuse");
    assert!(matches!(refused.answer, Answer::Refused { status: 400, .. }), "{refused:?}");
    assert!(refused.passed.is_empty() && refused.route.is_none(), "{refused:?}");
    let text = refused.to_string();
    assert!(text.contains("400: the name of the header X_Beta has an underscore"), "{text}");
}

#[test]
fn a_trusted_proxy_tells_the_client_and_its_scheme_and_nobody_else_does() {
    let headers = [("X-Forwarded-For", "10.1.2.3"), ("X-Forwarded-Proto", "https")];
    let told = |from| {
        let question = with_headers(&headers, asked("GET", "example.com", "/admin", from));
        with_keys("trusted_proxies = [\"192.0.2.0/24\"]", &question)
    };
    let trusted = told("192.0.2.1");
    assert_eq!(trusted.request, "GET https://example.com/admin from 10.1.2.3, as 192.0.2.1 tells");
    assert!(matches!(trusted.answer, Answer::Services(_)), "{trusted:?}");
    let stranger = told("198.51.100.1");
    assert_eq!(stranger.request, "GET http://example.com/admin from 198.51.100.1");
    assert_eq!(stranger.answer, Answer::Response { status: 403 });
}

#[test]
fn a_body_that_is_longer_than_allowed_is_refused() {
    let question = |length| {
        let question = asked("POST", "example.com", "/", "192.0.2.1");
        with_headers(&[("Content-Length", length)], question)
    };
    let told = with_keys("max_body = \"1KiB\"", &question("1025"));
    assert!(matches!(told.answer, Answer::Refused { status: 413, .. }), "{told:?}");
    let told = with_keys("max_body = \"1KiB\"", &question("1024"));
    assert!(matches!(told.answer, Answer::Services(_)), "{told:?}");
}

#[test]
fn a_map_of_the_query_is_asked_by_what_the_cache_has_in_its_key() {
    let shop = format!("{SHOP}[maps.page]\nof = \"$query\"\nvalues = {{ \"id=1\" = \"/one\" }}\n");
    let route = |cache: &str| {
        let route = "[[listener.routes]]\npath = \"/pages\"\nservice = \"web\"\n\
                     rewrite = { map = \"page\" }\n";
        format!("service = \"web\"\n{route}{cache}")
    };
    let path = |cache: &str, method: &str, headers: &[(&str, &str)]| {
        let shop = shop.replacen("service = \"web\"\n", &route(cache), 1);
        let shop = parse_with("shop.toml", &shop, &LocalOnly).expect("a right file").fleet;
        let question = asked(method, "example.com", "/pages?id=1&utm=x", "192.0.2.1");
        let told = explain(&shop, &with_headers(headers, question)).expect("a listener takes it");
        told.route.expect("the route of pages").path
    };
    let cached = "cache = { ignore_query = [\"utm\"] }\n";
    assert_eq!(path(cached, "GET", &[]).as_deref(), Some("/one"));
    assert_eq!(path(cached, "POST", &[]), None, "that is not for the cache");
    assert_eq!(path(cached, "GET", &[("Content-Length", "3")]), None);
    assert_eq!(path("", "GET", &[]), None);
}
