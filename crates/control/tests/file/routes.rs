//! Routes: what the file says becomes the rules, in words and with its mistakes at their places.

use std::ptr;

use loadline_control::{describe, parse};
use loadline_core::rules::{Authentication, QueryKey};

/// As `openssl passwd -5` writes it.
const HASH: &str = "$5$saltstring$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5";

fn file(routes: &str) -> String {
    format!(
        "[[listener]]\nbind = \":8080\"\nservice = \"web\"\nroutes = [\n{routes}\n]\n\
         [[service.web.group]]\nservers = [\"10.0.0.1:80\"]\n\
         [[service.api.group]]\nservers = [\"10.0.0.2:80\"]\n"
    )
}

#[test]
fn a_route_is_told_in_words_in_the_order_in_which_it_is_asked() {
    let text = file(concat!(
        "{ path = \"/api/\", service = \"api\" },\n",
        "{ host = \"*.a.test\", method = \"GET\", split = { web = 9, api = 1 } },\n",
        "{ header = { X-A = [\"b\", \"c*\"] }, limit = { rate = \"5/s\" }, service = \"web\" },\n",
        "{ path = \"~/old/.*\", redirect = { scheme = \"https\" } },\n",
        "{ priority = 1, path = \"/admin\", source = \"10.0.0.0/8\", deny = 404 },\n",
    ));
    let loaded = parse("routes.toml", &text).unwrap();
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    let words = describe(&loaded.fleet);
    let expected = "0.0.0.0:8080 takes traffic for web\n\
        \x20 1. path /admin, from 10.0.0.0/8: answer 404\n\
        \x20 2. path /api/: api\n\
        \x20 3. GET, host *.a.test: web (9), api (1)\n\
        \x20 4. header X-A = b or c*: web, 5/s each\n\
        \x20 5. path ~/old/.*: redirect 302\n";
    assert!(words.starts_with(expected), "{words}");
}

#[test]
fn what_no_route_of_a_listener_without_service_matches_is_not_found() {
    let without = |routes: &str| file(routes).replacen("service = \"web\"\n", "", 1);
    let api = "{ path = \"/api/\", service = \"api\" },\n";
    let loaded = parse("routes.toml", &without(api)).unwrap();
    let words = describe(&loaded.fleet);
    let expected =
        "takes traffic for its routes\n  1. path /api/: api\n  2. any request: answer 404\n";
    assert!(words.contains(expected), "{words}");

    let all = format!("{api}{{ path = \"/\", service = \"web\" }},\n");
    let loaded = parse("routes.toml", &without(&all)).unwrap();
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    let words = describe(&loaded.fleet);
    assert!(words.contains("  2. path /: web\n  3. any request: answer 404\n"), "{words}");
}

#[test]
fn what_comes_after_a_redirect_to_https_is_taken_and_the_rest_is_not_found() {
    let text = file(concat!(
        "{ redirect = { scheme = \"https\" } },\n",
        "{ host = \"a.test\", service = \"api\" },\n",
    ));
    let loaded = parse("routes.toml", &text.replacen("service = \"web\"\n", "", 1)).unwrap();
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    let words = describe(&loaded.fleet);
    let expected = "  1. any request: redirect 302\n  2. host a.test: api\n\
                    \x20 3. any request: answer 404\n";
    assert!(words.contains(expected), "{words}");
}

#[test]
fn a_mirror_is_a_name_or_a_table_and_its_service_is_used() {
    let text = file(concat!(
        "{ path = \"/a/\", service = \"web\", mirror = \"api\" },\n",
        "{ service = \"web\", mirror = { service = \"api\", share = \"2.5%\", in_flight = 7 } },\n",
    ));
    let loaded = parse("routes.toml", &text).unwrap();
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    let mirrors = loaded.fleet.listeners[0].routes.rules().iter().map(|(_, rule)| rule.mirror);
    let mirrors: Vec<_> = mirrors.map(Option::unwrap).collect();
    assert!(mirrors.iter().all(|it| it.service == 1 && it.body_max.get() == 64 << 10));
    assert_eq!((mirrors[0].in_flight_max, mirrors[1].in_flight_max), (100, 7));
    let words = describe(&loaded.fleet);
    assert!(words.contains("1. path /a/: web, copied to api\n"), "{words}");
    assert!(words.contains("2. any request: web, 2.5% copied to api\n"), "{words}");
}

#[test]
fn a_service_that_only_routes_name_is_used_and_a_shadowed_route_is_a_warning() {
    let text = file(concat!(
        "{ path = \"/api/\", service = \"api\" },\n",
        "{ path = \"/api/v1/\", service = \"web\" },\n",
    ));
    let warnings = parse("routes.toml", &text).unwrap().warnings;
    let [warning] = warnings.as_slice() else { panic!("{warnings:?}") };
    assert_eq!(warning.line(), 6);
    assert!(warning.message().contains("route 1 matches all"), "{warning}");
}

#[test]
fn a_route_asks_for_a_user_as_its_listener_does_unless_it_says_otherwise() {
    let users = |name: &str| format!("basic_auth = {{ users = {{ {name} = \"{HASH}\" }} }}");
    let text = file(&format!(
        "{{ path = \"/a\", service = \"api\" }},\n\
         {{ path = \"/b\", service = \"api\", basic_auth = false }},\n\
         {{ path = \"/c\", service = \"api\", {} }},\n",
        users("bob")
    ));
    let text =
        text.replacen("service = \"web\"\n", &format!("service = \"web\"\n{}\n", users("ali")), 1);
    let loaded = parse("routes.toml", &text).unwrap();
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    let listener = &loaded.fleet.listeners[0];
    let rules = listener.routes.rules().iter().map(|(_, rule)| &rule.authentication);
    let names = |authentication: &Option<Authentication>| {
        let Some(Authentication::Basic(auth)) = authentication else { return None };
        Some(auth.users.keys().cloned().collect::<Vec<_>>().join(" "))
    };
    let told: Vec<_> = rules.map(names).collect();
    assert_eq!(told, [Some("ali".to_owned()), None, Some("bob".to_owned())]);
    assert_eq!(names(&listener.authentication).as_deref(), Some("ali"));
    let words = describe(&loaded.fleet);
    assert!(words.contains("1. path /a: api, basic auth\n"), "{words}");
}

#[test]
fn what_no_route_is_for_asks_for_a_user_as_its_listener_does() {
    let text = file("{ path = \"/a\", service = \"api\", basic_auth = false },\n");
    let users = format!("basic_auth = {{ users = {{ ali = \"{HASH}\" }} }}\n");
    let loaded = parse("routes.toml", &text.replacen("service = \"web\"\n", &users, 1)).unwrap();
    let rules = loaded.fleet.listeners[0].routes.rules();
    let asks: Vec<bool> = rules.iter().map(|(_, rule)| rule.authentication.is_some()).collect();
    assert_eq!(asks, [false, true]);
    let words = describe(&loaded.fleet);
    assert!(words.contains("2. any request: answer 404, basic auth\n"), "{words}");
}

#[test]
fn a_token_or_a_password_is_wanted_by_whichever_of_route_and_listener_says_so_last() {
    let jwt = |issuer: &str| format!("jwt = {{ keys = \"jwks.json\", issuer = \"{issuer}\" }}");
    let text = file(&format!(
        "{{ path = \"/a\", service = \"api\" }},\n\
         {{ path = \"/b\", service = \"api\", jwt = false }},\n\
         {{ path = \"/c\", service = \"api\", {} }},\n\
         {{ path = \"/d\", service = \"api\", basic_auth = false }},\n\
         {{ path = \"/e\", service = \"api\", \
         basic_auth = {{ users = {{ ali = \"{HASH}\" }} }} }},\n\
         {{ path = \"/f\", service = \"api\", forward_auth = {{ service = \"web\" }} }},\n",
        jwt("route")
    ));
    let text =
        text.replacen("service = \"web\"\n", &format!("service = \"web\"\n{}\n", jwt("own")), 1);
    let loaded = parse("routes.toml", &text).unwrap();
    let [warning] = &loaded.warnings[..] else { panic!("{:?}", loaded.warnings) };
    let told = "`basic_auth = false`, but the listener has `jwt`, which stays";
    assert_eq!(warning.message(), told);
    let listener = &loaded.fleet.listeners[0];
    let who = |(_, rule): &(usize, loadline_core::rules::Rule)| match &rule.authentication {
        None => "all".to_owned(),
        Some(Authentication::Basic(auth)) => auth.users.keys().cloned().collect(),
        Some(Authentication::Jwt(jwt)) => jwt.issuer.clone().unwrap(),
        Some(Authentication::Forward(auth)) => format!("{} {}", auth.service, auth.path),
    };
    let told: Vec<_> = listener.routes.rules().iter().map(who).collect();
    assert_eq!(told, ["own", "all", "route", "own", "ali", "0 /"]);
    let words = describe(&loaded.fleet);
    assert!(words.contains("1. path /a: api, jwt\n"), "{words}");
}

#[test]
fn a_server_may_be_a_unix_socket_and_is_told_as_such() {
    let with = |server: &str| file("").replace("10.0.0.1:80", server);
    let loaded = parse("sockets.toml", &with("unix:/run/app.sock")).unwrap();
    let address = loaded.fleet.services[0].groups[0].servers[0].address;
    assert_eq!(loadline_core::fleet::ServerAddress(address).to_string(), "unix:/run/app.sock");
    assert!(parse("sockets.toml", &with("unix:@app")).is_ok());
    for wrong in ["unix:app.sock", "unix:", "unix:/"] {
        let told = format!("{:?}", parse("sockets.toml", &with(wrong)).unwrap_err());
        assert!(told.contains("is not the address of a server"), "{told}");
    }
}

#[test]
fn what_is_wrong_with_a_route_is_said_at_its_place() {
    for (route, message) in [
        ("{ path = \"/a\" }", "without an action"),
        ("{ service = \"api\", deny = 403 }", "with 2 actions"),
        ("{ service = \"apy\" }", "no service `apy`"),
        ("{ split = { web = 0 } }", "nobody has a weight"),
        ("{ split = { wep = 1 } }", "no service `wep`"),
        ("{ path = \"/a/../b\", service = \"api\" }", "`/a/../b` is not a path"),
        ("{ path = \"/a*\", service = \"api\" }", "has a star"),
        ("{ path = \"~a(\", service = \"api\" }", "is not a path"),
        ("{ path = [], service = \"api\" }", "an empty list"),
        ("{ host = \"a:80\", service = \"api\" }", "`a:80` is not a host"),
        ("{ source = \"10.0.0.1/8\", service = \"api\" }", "is not a network"),
        ("{ method = \"get\", service = \"api\" }", "`get` is not a method"),
        ("{ header = { A = \"a*b\" }, service = \"api\" }", "has a star before its end"),
        ("{ cookie = { a = \"*b*\" }, service = \"api\" }", "has a star before its end"),
        ("{ header = { A = \"~(\" }, service = \"api\" }", "does not compile"),
        ("{ redirect = { status = 304, scheme = \"https\" } }", "304 is no redirect"),
        ("{ redirect = {} }", "to where the request came"),
        ("{ redirect = { host = \".example.com\" } }", "`.example.com` is not a host"),
        ("{ deny = 200 }", "out of range"),
        ("{ service = \"api\", limit = { burst = 2 } }", "without `rate`"),
        ("{ service = \"api\", rewrite = { prefix = \"/a\" } }", "what becomes of the path"),
        ("{ deny = 403, rewrite = { path = \"/a\" } }", "for a route with `service`"),
        ("{ service = \"api\", rewrite = { path = \"a\" } }", "`a` is not a path"),
        (
            "{ service = \"api\", rewrite = { regex = \"^/(a)/(b)$\", to = \"/d/$1_x/$2\" } }",
            "the expression has no group `1_x`",
        ),
        ("{ redirect = { rewrite = { regex = \"a\", to = \"/$1\" } } }", "has no group `1`"),
        (
            "{ service = \"api\", rewrite = { prefix = \"/a%20b\", to = \"/\" } }",
            "`/a%20b` is not a path",
        ),
        ("{ service = \"api\", mirror = \"wep\" }", "no service `wep`"),
        ("{ service = \"api\", mirror = { share = \"5%\" } }", "a mirror without `service`"),
        ("{ service = \"api\", mirror = { service = \"web\", share = \"101%\" } }", "out of range"),
        ("{ deny = 403, mirror = \"web\" }", "for a route with `service`"),
        (
            "{ service = \"api\", request_headers = { set = { Content-Length = \"1\" } } }",
            "`Content-Length` is not for routes",
        ),
        (
            "{ service = \"api\", answer_headers = { remove = [\"Transfer-Encoding\"] } }",
            "`Transfer-Encoding` is not for routes",
        ),
        (
            "{ service = \"api\", request_headers = { set = { Host = \"http://a\" } } }",
            "`http://a` is no host",
        ),
        (
            "{ service = \"api\", answer_headers = { set = { A = \"a\\r\\nB: c\" } } }",
            "not allowed in a header",
        ),
    ] {
        assert_told(route, message);
    }
}

#[test]
fn a_header_that_is_not_to_be_changed_is_told_where_it_stands_in_its_list() {
    for (changes, header) in [
        ("request_headers = { remove = [\"Via\", \"Host\"] }", "\"Host\""),
        ("answer_headers = { remove = \"Content-Length\" }", "\"Content-Length\""),
        ("forward_auth = { service = \"web\", copy_headers = [\"Via\", \"Host\"] }", "\"Host\""),
    ] {
        let route = format!("{{ service = \"api\", {changes} }}");
        let errors = parse("routes.toml", &file(&route)).unwrap_err();
        let [error] = errors.errors() else { panic!("{route}: {errors:?}") };
        let column = route.find(header).unwrap() + 1;
        assert_eq!((error.line(), error.column()), (5, column), "{route}: {error}");
    }
}

#[test]
fn what_is_wrong_with_who_may_ask_is_said_at_its_place() {
    for (route, message) in [
        ("{ service = \"api\", basic_auth = {} }", "nobody could come in"),
        ("{ service = \"api\", basic_auth = { users = { a = \"pw\" } } }", "no hash of a password"),
        ("{ service = \"api\", basic_auth = true }", "`true` says nothing here"),
        (
            "{ service = \"api\", cache = true, request_headers = { set = { A = \"$user\" } } }",
            "others get what is cached",
        ),
        (
            "{ service = \"api\", cache = true, \
             forward_auth = { service = \"web\", copy_headers = \"A\" } }",
            "others get what is cached",
        ),
        (
            "{ service = \"api\", forward_auth = { service = \"web\", \
             copy_headers = [\"Remote-User\", \"content-length\"] } }",
            "`content-length` is not to be copied",
        ),
        (
            "{ service = \"api\", forward_auth = { service = \"web\", copy_headers = \"Host\" } }",
            "`Host` is not to be copied",
        ),
        ("{ service = \"api\", forward_auth = {} }", "`forward_auth` without `service`"),
        ("{ service = \"api\", forward_auth = { service = \"wep\" } }", "no service `wep`"),
        (
            "{ service = \"api\", jwt = { keys = \"a\" }, forward_auth = { service = \"web\" } }",
            "`jwt` and `forward_auth` at once",
        ),
    ] {
        assert_told(route, message);
    }
}

#[test]
fn what_is_wrong_with_the_tokens_of_a_route_is_said_at_its_place() {
    for (route, message) in [
        ("{ service = \"api\", jwt = {} }", "`jwt` without `keys`"),
        ("{ service = \"api\", jwt = true }", "`true` says nothing here"),
        (
            "{ service = \"api\", jwt = { keys = \"a\" }, basic_auth = { users_file = \"b\" } }",
            "`basic_auth` and `jwt` at once",
        ),
        (
            "{ service = \"api\", jwt = { keys = \"a\", header = \"X-A\", cookie = \"b\" } }",
            "a token in a header and in a cookie",
        ),
        (
            "{ service = \"api\", \
             jwt = { keys = \"a\", cookie = \"b\", pass_authorization = true } }",
            "`pass_authorization` is about a header",
        ),
        (
            "{ service = \"api\", \
             jwt = { keys = \"a\", header = \"Content-Length\", pass_authorization = false } }",
            "`Content-Length` is not for tokens",
        ),
        ("{ service = \"api\", jwt = { keys = \"a\", algorithms = \"none\" } }", "`none`"),
        ("{ service = \"api\", jwt = { keys = \"a\", ca = \"b\" } }", "`ca` is for keys at a URL"),
        ("{ service = \"api\", jwt = { keys = \"ftp://a\" } }", "is no URL of keys"),
        ("{ service = \"api\", jwt = { keys = \"a\", leeway = \"2h\" } }", "out of range"),
        ("{ service = \"api\", jwt = { keys = \"a\", leeway = \"1ms\" } }", "in whole seconds"),
        ("{ service = \"api\", jwt = { keys = \"a\", audience = \"\" } }", "is in no token"),
        (
            "{ service = \"api\", cache = true, jwt = { keys = \"a\" }, \
             request_headers = { set = { A = \"$jwt_claim_sub\" } } }",
            "others get what is cached",
        ),
    ] {
        assert_told(route, message);
    }
}

#[test]
fn a_token_that_servers_see_in_a_header_or_a_cookie_counts_for_the_cache_like_authorization() {
    for (route, expected) in [
        ("header = \"X-Token\" }", true),
        ("cookie = \"session\" }", true),
        ("header = \"X-Token\", pass_authorization = false }", false),
        ("cookie = \"session\" }, request_headers = { remove = \"Cookie\" }", false),
        ("issuer = \"us\" }", false),
    ] {
        let given = "service = \"api\", cache = true, jwt = { keys = \"https://us.test/keys\",";
        let loaded = parse("routes.toml", &file(&format!("{{ {given} {route} }}"))).unwrap();
        let rule = &loaded.fleet.listeners[0].routes.rules()[0].1;
        let settings = &rule.cache.as_ref().unwrap().settings;
        assert_eq!(settings.authorized, expected, "{route}");
    }
}

#[test]
fn a_new_path_is_decoded_or_encoded_and_has_no_query() {
    let changes = |rewrite: &str| {
        let route = format!("{{ service = \"api\", rewrite = {{ {rewrite} }} }}");
        let loaded = parse("routes.toml", &file(&route));
        loaded.map(|it| it.fleet.listeners[0].routes.rules()[0].1.path.clone().unwrap())
    };
    for (rewrite, expected) in [
        ("path = \"/b%20c\"", "/b%20c"),
        ("path = \"/b c/\u{e9}\"", "/b%20c/%C3%A9"),
        ("prefix = \"/a b/\", to = \"/%C3%A9/\"", "/%C3%A9/x"),
        ("regex = \"^/a b/(.*)\", to = \"/b%20c/${1}_y\"", "/b%20c/x_y"),
    ] {
        let mut path = Vec::new();
        assert!(changes(rewrite).unwrap().write(b"/a b/x", &mut path), "{rewrite}");
        assert_eq!(String::from_utf8(path).unwrap(), expected, "{rewrite}");
    }
    for rewrite in
        ["path = \"/b?x=1\"", "regex = \"^/a\", to = \"/b?\"", "prefix = \"/a\", to = \"/b#c\""]
    {
        let errors = changes(rewrite).unwrap_err();
        let error = &errors.errors()[0];
        assert!(error.message().contains("is not a path"), "{rewrite}: {error}");
        assert!(error.help_text().contains("`%3F` is a question mark"), "{rewrite}: {error}");
    }
    let braced = changes("regex = \"^/(a)\", to = \"/$1_x\"").unwrap_err();
    assert!(braced.errors()[0].help_text().contains("`${1}_x`"), "{braced:?}");
}

#[test]
fn a_new_path_that_clients_read_as_another_is_refused() {
    for rewrite in [
        "path = \"//a.test/b\"",
        "path = \"/a/../b\"",
        "path = \"/%2e%2e/b\"",
        "prefix = \"/a\", to = \"/./b\"",
        "regex = \"^/a\", to = \"/$0/..\"",
    ] {
        let route = format!("{{ redirect = {{ rewrite = {{ {rewrite} }} }} }}");
        let errors = parse("routes.toml", &file(&route)).expect_err(rewrite);
        let [error] = errors.errors() else { panic!("{rewrite}: {errors:?}") };
        assert!(error.message().contains("is not a path"), "{error}");
        assert!(error.help_text().contains("with one slash"), "{error}");
    }
    assert_told("{ service = \"api\", rewrite = { path = \"//a\" } }", "`//a` is not a path");
    let inner = "{ service = \"api\", rewrite = { path = \"/fetch/http://a.test/b.png\" } }";
    assert!(parse("routes.toml", &file(inner)).is_ok());
}

#[test]
fn a_location_that_is_empty_is_refused() {
    assert_told("{ redirect = { location = \"\" } }", "an empty `location`");
}

#[test]
fn a_path_with_a_query_is_told_the_condition_for_it() {
    let text = file("{ path = \"/api?x=1\", service = \"api\" }");
    let errors = parse("routes.toml", &text).unwrap_err();
    let [error] = errors.errors() else { panic!("{errors:?}") };
    assert!(error.message().contains("`/api?x=1` is not a path"), "{error}");
    assert!(error.help_text().contains("query = { name"), "{}", error.help_text());
}

#[test]
fn a_cache_names_any_query_parameter_as_a_condition_does() {
    let cached = |keys: &str| {
        let route = "{ query = { \"ids[]\" = \"1\" }, service = \"api\", cache = ";
        parse("routes.toml", &file(&format!("{route}{{ {keys} }} }}")))
    };
    let names = ["ids[]", "filter[price]", "utm:source", "100%", "\u{e9}"].map(str::to_owned);
    let listed = format!("{names:?}");
    for (key, expected) in [
        ("ignore_query", QueryKey::Ignore(names.to_vec())),
        ("keep_query", QueryKey::Keep(names.to_vec())),
    ] {
        let loaded = cached(&format!("{key} = {listed}")).unwrap();
        let routes = &loaded.fleet.listeners[0].routes;
        assert_eq!(routes.rules()[0].1.cache.as_ref().unwrap().query, expected);
    }
}

#[test]
fn a_query_parameter_whose_name_no_request_has_is_an_error() {
    for (name, told) in [
        ("", "an empty name"),
        ("ids%5b%5D", "`ids%5b%5D` is percent-encoded"),
        ("utm_*", "`utm_*` has a star"),
        ("?page", "`?page` begins with `?`"),
        ("&page", "`&page` begins with `&`"),
    ] {
        for keys in [
            format!("cache = {{ ignore_query = [\"a\", \"{name}\"] }}"),
            format!("cache = {{ keep_query = \"{name}\" }}"),
            format!("query = {{ a = \"1\", \"{name}\" = \"*\" }}"),
        ] {
            assert_told(&format!("{{ {keys}, service = \"api\" }}"), told);
        }
    }
}

#[test]
fn a_slice_that_is_cut_is_a_warning_with_the_size_that_is_used() {
    let warnings = |slice: &str, cache: &str| {
        let route = format!("{{ service = \"api\", cache = {{ slice = \"{slice}\" }} }}");
        let text = file(&route) + &format!("[cache]\n{cache}\n");
        let warnings = parse("routes.toml", &text).unwrap().warnings;
        warnings.iter().map(|it| (it.line(), it.message().to_owned())).collect::<Vec<_>>()
    };
    let told = |size: &str| vec![(5, format!("slices of 4MiB are cut to {size}"))];
    assert_eq!(warnings("4MiB", "memory = \"8MiB\""), told("512KiB"));
    assert_eq!(warnings("4MiB", "max_object = \"6MiB\""), told("3MiB"));
    assert!(warnings("512KiB", "memory = \"8MiB\"").is_empty());
    assert!(warnings("16MiB", "").is_empty());
}

fn assert_told(route: &str, message: &str) {
    let errors = parse("routes.toml", &file(route)).expect_err(route).errors().to_vec();
    let found = errors.iter().any(|it| it.message().contains(message) && it.line() == 5);
    assert!(found, "{route}: {errors:?}");
}

/// Two listeners that name the same routes, one of them with two addresses.
const SHARED: &str = "[[listener]]\nbind = [\":8080\", \"[::]:8080\"]\nservice = \"web\"\n\
    routes = \"site\"\n\
    [[listener]]\nbind = \":8081\"\nservice = \"web\"\nroutes = \"site\"\n\
    [[routes.site]]\npath = \"/api/\"\nservice = \"api\"\n\
    [[routes.site]]\npath = \"/old\"\ndeny = 410\n\
    [[service.web.group]]\nservers = [\"10.0.0.1:80\"]\n\
    [[service.api.group]]\nservers = [\"10.0.0.2:80\"]\n";

#[test]
fn every_address_and_every_listener_that_names_routes_has_them() {
    let loaded = parse("shared.toml", SHARED).unwrap();
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    let binds: Vec<_> = loaded.fleet.listeners.iter().map(|it| it.bind.to_string()).collect();
    assert_eq!(binds, ["0.0.0.0:8080", "[::]:8080", "0.0.0.0:8081"]);
    for listener in &loaded.fleet.listeners {
        assert_eq!(listener.routes.rules().len(), 2);
    }
    let words = describe(&loaded.fleet);
    assert_eq!(words.matches("1. path /api/: api\n").count(), 3, "{words}");
}

#[test]
fn a_list_of_routes_that_listeners_share_is_once_in_memory() {
    let tables = |text: &str| {
        let listeners = parse("shared.toml", text).unwrap().fleet.listeners;
        let [one, same, other] = &listeners[..] else { panic!("{listeners:?}") };
        assert!(ptr::eq(one.routes.rules(), same.routes.rules()), "addresses of a listener");
        (ptr::eq(one.routes.rules(), other.routes.rules()), other.routes.rules().len())
    };
    assert_eq!(tables(SHARED), (true, 2));
    let with = |keys: &str| {
        let text = SHARED.replace("bind = \":8081\"\nservice = \"web\"\n", keys);
        assert_ne!(text, SHARED);
        text
    };
    let others = with("bind = \":8081\"\nservice = \"api\"\nmax_body = \"1MiB\"\n");
    assert_eq!(tables(&others), (true, 2), "what is no part of the routes");
    let alone = with("bind = \":8081\"\n");
    assert_eq!(tables(&alone), (false, 3), "404 for what matches none");
    let users = format!("basic_auth = {{ users = {{ ann = \"{HASH}\" }} }}\n");
    let protected = with(&format!("bind = \":8081\"\nservice = \"web\"\n{users}"));
    assert_eq!(tables(&protected), (false, 2), "users of one of them");
    let both = protected.replacen("service = \"web\"\n", &format!("service = \"web\"\n{users}"), 1);
    assert_eq!(tables(&both), (true, 2), "the same users");
}

#[test]
fn a_wrong_address_or_name_is_told_once_at_its_place() {
    for (right, wrong, line, message) in [
        ("\"[::]:8080\"", "\"8080\"", 2, "`8080` is not an address to bind"),
        ("\"[::]:8080\"", "\":8080\"", 2, "`0.0.0.0:8080` is bound by a listener above"),
        ("\":8081\"", "[\":8082\", \"[::]:8080\"]", 6, "`[::]:8080` is bound"),
        ("[\":8080\", \"[::]:8080\"]", "[]", 2, "an empty list"),
        ("routes = \"site\"", "routes = \"sita\"", 4, "there are no routes `sita`"),
        ("service = \"api\"", "service = \"apy\"", 11, "no service `apy`"),
        ("deny = 410", "", 12, "without an action"),
    ] {
        let text = SHARED.replacen(right, wrong, 1);
        assert_ne!(text, SHARED, "{right}");
        let errors = parse("shared.toml", &text).expect_err(wrong).errors().to_vec();
        let [error] = errors.as_slice() else { panic!("{wrong}: {errors:?}") };
        assert!(error.message().contains(message), "{wrong}: {error}");
        assert_eq!(error.line(), line, "{wrong}: {error}");
    }
}

#[test]
fn a_header_that_is_set_twice_in_different_case_is_a_warning() {
    for route in [
        "{ service = \"api\", request_headers = { set = { X-A = \"1\", x-a = \"2\" } } }",
        "{ path = \"/a\", answer.headers = { X-A = \"1\", x-a = \"2\" } }, { service = \"api\" }",
    ] {
        let warnings = parse("routes.toml", &file(route)).unwrap().warnings;
        let [warning] = &warnings[..] else { panic!("{warnings:?}") };
        assert_eq!(warning.message(), "`x-a` is set above, in another case");
    }
}

#[test]
fn a_route_that_no_request_can_match_is_a_warning() {
    for (route, told) in [
        ("{ header = { X_A = \"1\" }, service = \"api\" }", Some("no header with an underscore")),
        ("{ header = { X-A = \"1 \" }, service = \"api\" }", Some("a space around its value")),
        ("{ header = { X-A = [\"1\", \" 2*\"] }, service = \"api\" }", Some("a space around")),
        ("{ header = { X-A = \"1 *\" }, service = \"api\" }", None),
        ("{ cookie = { a = \"x;y\" }, service = \"api\" }", Some("a value that no cookie has")),
        ("{ cookie = { a = [\"x\", \"y \"] }, service = \"api\" }", Some("that no cookie has")),
        ("{ cookie = { a = \" x *\" }, service = \"api\" }", None),
        (
            "{ source = [\"0.0.0.0/0\", \"::/0\"], service = \"api\" }, { deny = 403 }",
            Some("never taken"),
        ),
        ("{ source = \"0.0.0.0/0\", service = \"api\" }, { deny = 403 }", None),
    ] {
        let warnings = parse("routes.toml", &file(route)).unwrap().warnings;
        let messages: Vec<_> = warnings.iter().map(loadline_spanned::FileError::message).collect();
        let found = messages.iter().any(|it| told.is_some_and(|told| it.contains(told)));
        assert_eq!((found, messages.len()), (told.is_some(), usize::from(found)), "{route}");
    }
    let kept = file("{ header = { X_A = \"1\" }, service = \"api\" }");
    let kept = kept.replacen("routes =", "underscore_headers = \"keep\"\nroutes =", 1);
    assert!(parse("routes.toml", &kept).unwrap().warnings.is_empty());
}

#[test]
fn cors_without_preflights_is_a_warning() {
    let route = |method: &str| {
        format!("{{ {method}cors = {{ origins = \"https://a.test\" }}, service = \"api\" }},\n")
    };
    let (get, options) = (route("method = \"GET\", "), route("method = \"OPTIONS\", "));
    let both = route("method = [\"GET\", \"OPTIONS\"], ");
    let warnings = |routes: &str| parse("routes.toml", &file(routes)).unwrap().warnings;
    let told = warnings(&get);
    let [warning] = &told[..] else { panic!("{told:?}") };
    assert!(warning.message().contains("does not match OPTIONS"), "{warning}");
    assert_eq!(warning.line(), 5);
    for routes in [both, route(""), get + &options] {
        assert!(warnings(&routes).is_empty(), "{routes}");
    }
}

#[test]
fn a_cookie_whose_name_no_request_has_is_an_error() {
    for name in ["a;b", "a=b", " a", "a b", ""] {
        let route = format!("{{ cookie = {{ \"{name}\" = \"x\" }}, service = \"api\" }}");
        assert_told(&route, &format!("`{name}` is not the name of a cookie"));
    }
    let named = "{ cookie = { \"user[id]\" = \"x\" }, service = \"api\" }";
    assert!(parse("routes.toml", &file(named)).is_ok());
}

#[test]
fn routes_that_no_listener_names_are_a_warning() {
    let text = SHARED.replace("routes = \"site\"\n", "");
    let warnings = parse("shared.toml", &text).unwrap().warnings;
    let found = warnings.iter().any(|it| it.message() == "no listener names the routes `site`");
    assert!(found, "{warnings:?}");
}
