//! What lines of Caddy become that were once carried over to something else, or silently lost.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::io;

use loadline_import::{Imported, Kind, import};

/// What is made of a site with these lines.
fn site(lines: &str) -> Imported {
    file(&format!("http://a.example {{\n{lines}\n}}\n"))
}

fn file(text: &str) -> Imported {
    let none = |_: &str| Err(io::ErrorKind::NotFound.into());
    import(Kind::Caddy, "Caddyfile", text.to_owned(), &none).unwrap()
}

/// The reason that was given for the line that begins so; empty without one.
fn why(made: &Imported, start: &str) -> String {
    let remark = made.remarks.iter().find(|remark| remark.text.starts_with(start));
    remark.map(|remark| remark.why.clone()).unwrap_or_default()
}

#[test]
fn hidden_files_stay_hidden() {
    let made = site("root * /srv/www\nfile_server {\nhide .git *.bak\nindex a.html\n}");
    let hidden = r#"path = ["~(?s).*(?:/\\.git(/|$)).*", "~(?s).*(?:/[^/]*\\.bak(/|$)).*"]"#;
    assert!(made.text.contains(&format!("{hidden}\ndeny = 404")), "{}", made.text);
    assert!(made.text.contains("index = \"a.html\""), "{}", made.text);
    let made = site("root * /srv/www\nfile_server {\nhide a/b\n}");
    assert!(why(&made, "hide a/b").contains("PROTECTED"), "{:?}", made.remarks);
}

#[test]
fn refusals_that_are_lost_are_told_apart() {
    for lines in [
        "@x expression true\nrespond @x 405",
        "@x expression true\nabort @x",
        "@x expression true\nhandle @x {\nrespond 403\n}",
        "rate_limit {\nzone a {\nkey b\n}\n}",
        "authorize with mine",
        "route {\nauthenticate with portal\n}",
    ] {
        let made = site(lines);
        let is_told = made.remarks.iter().any(|it| it.why.contains("PROTECTED"));
        assert!(is_told, "{lines}\n{:?}", made.remarks);
    }
}

#[test]
fn headers_of_a_site_go_with_its_fixed_responses() {
    let made = site("header X-A 1\nrespond /a ok\nrespond /b 404\nredir /c /d");
    let expected = "body = \"ok\", headers = { X-A = \"1\" } }";
    assert!(made.text.contains(expected), "{}", made.text);
    assert!(made.text.contains("Location = \"/d\", X-A = \"1\""), "{}", made.text);
    assert!(why(&made, "respond /b").contains("not sent with it"), "{:?}", made.remarks);
}

#[test]
fn headers_that_cannot_be_said_are_told() {
    let made = site("header ?Cache-Control no-store\nreverse_proxy 10.0.0.1:80");
    assert!(!made.text.contains("answer_headers") && made.lost == 1, "{}", made.text);
    let made = site("header {\n+X-A 1\n+X-A 2\n}\nreverse_proxy 10.0.0.1:80");
    assert!(why(&made, "+X-A 2").contains("one field"), "{:?}", made.remarks);
    let made = site("abort /x\nreverse_proxy 10.0.0.1:80");
    assert!(why(&made, "abort").contains("403"), "{:?}", made.remarks);
}

#[test]
fn a_line_of_a_header_block_that_cannot_be_said_takes_no_other_with_it() {
    let made = site(
        "header {\n?X-Default foo\nStrict-Transport-Security max-age=1\n-Server\n}\n\
         reverse_proxy 10.0.0.1:80",
    );
    let expected = "answer_headers.set = { Strict-Transport-Security = \"max-age=1\" }";
    assert!(made.text.contains(expected), "{}", made.text);
    assert!(made.text.contains("answer_headers.remove = \"Server\""), "{}", made.text);
    assert!(!why(&made, "?X-Default").is_empty() && made.lost == 1, "{:?}", made.remarks);
}

#[test]
fn a_refusal_within_handle_path_is_one_below_its_prefix() {
    let made = site(
        "handle_path /app/* {\nhandle /admin/* {\nrespond 403\n}\n\
         respond /secret* 401\nhandle {\nreverse_proxy 10.0.0.3:80\n}\n}",
    );
    let (_, routes) = made.text.split_once("[[routes").unwrap();
    assert!(routes.contains("path = \"~(?s)/app/admin/.*\"\ndeny = 403"), "{}", made.text);
    assert_eq!(made.lost, 0, "{:?}", made.remarks);
    let made = site(
        "handle_path /app/* {\n@key {\npath /key\nnot path /key/none\n}\nrespond @key 403\n\
         reverse_proxy /users/* 10.0.0.1:80\nreverse_proxy 10.0.0.2:80\n}",
    );
    assert!(made.text.contains("path = \"/app/key\"\ndeny = 403"), "{}", made.text);
    let users = made.text.split_once("path = \"~(?s)/app/users/.*\"").unwrap().1;
    assert!(users.contains("rewrite = { prefix = \"/app\", to = \"/\" }\n"), "{}", made.text);
    // No route asks for an expression and a prefix at once.
    let made = site("handle_path /app/* {\n@s path *.php\nrespond @s 403\nrespond ok\n}");
    assert!(why(&made, "respond @s").contains("PROTECTED"), "{:?}", made.remarks);
}

#[test]
fn what_no_request_comes_to_is_told() {
    let made = site("handle /a/* {\nrespond /b/* 403\nrespond ok\n}");
    assert!(why(&made, "respond /b/*").contains("PROTECTED"), "{:?}", made.remarks);
    assert_eq!(made.lost, 1, "{:?}", made.remarks);
}

#[test]
fn matchers_behind_a_change_of_what_they_ask_for_are_told() {
    for (lines, told) in [
        ("rewrite /v1/* /v2{uri}\nreverse_proxy /v2/* 10.0.0.3:80", "reverse_proxy /v2/*"),
        ("uri strip_prefix /api\nreverse_proxy /api/* 10.0.0.5:80", "reverse_proxy /api/*"),
        ("route {\nrewrite /x /y\nreverse_proxy /y 10.0.0.8:80\n}", "reverse_proxy /y"),
        ("request_header X-Foo bar\n@f header X-Foo b\nreverse_proxy @f 10.0.0.9:80", "reverse_"),
    ] {
        let made = site(&format!("{lines}\nreverse_proxy 10.0.0.1:80"));
        assert!(why(&made, told).contains("an earlier directive"), "{lines}\n{:?}", made.remarks);
        assert!(!why(&made, told).contains("PROTECTED"), "{:?}", made.remarks);
    }
    let internal = "request_header -X-Internal\n@int remote_ip 10.0.0.0/8\n\
                    request_header @int X-Internal yes\n\
                    @deny {\npath /admin*\nnot header X-Internal yes\n}\n";
    for refusal in ["handle @deny {\nrespond 403\n}", "respond @deny 503", "abort @deny"] {
        let made = site(&format!("{internal}{refusal}\nreverse_proxy 10.0.0.4:80"));
        let line = refusal.split(" {").next().unwrap();
        assert!(why(&made, line).contains("PROTECTED"), "{:?}", made.remarks);
    }
    for lines in [
        "handle /a/* {\nuri strip_prefix /a\nreverse_proxy 10.0.0.1:80\n}\nrespond /b ok",
        "route /a/* {\nuri strip_prefix /a\nreverse_proxy 10.0.0.1:80\n}",
        "request_header X-Foo bar\n@f header X-Bar b\nreverse_proxy @f 10.0.0.9:80",
    ] {
        let made = site(lines);
        assert!(made.remarks.is_empty(), "{lines}\n{:?}", made.remarks);
    }
}

#[test]
fn a_site_listens_where_it_is_bound() {
    let made = site("bind 127.0.0.1 [::1]\nreverse_proxy 10.0.0.1:80");
    assert!(made.text.contains("bind = [\"127.0.0.1:80\", \"[::1]:80\"]\n"), "{}", made.text);
    assert!(made.remarks.is_empty(), "{:?}", made.remarks);
    let global = "{\ndefault_bind tcp4/10.0.0.9\nhttp_port 8080\nhttps_port 8443\n}\n";
    let sites = "http://a.example {\nrespond a\n}\nb.example {\ntls b.pem b.key\nrespond b\n}\n\
                 :8080 {\nbind 0.0.0.0\nrespond c\n}\n";
    let made = file(&format!("{global}{sites}"));
    for bind in ["10.0.0.9:8080", "10.0.0.9:8443", ":8080"] {
        assert!(made.text.contains(&format!("bind = \"{bind}\"\n")), "{bind}: {}", made.text);
    }
    assert!(!made.text.contains("[::]") && made.lost == 0, "{}", made.text);
    let made = file("a.example {\nbind unix//run/a.sock\nrespond a\n}\n:81 {\nrespond b\n}\n");
    assert!(why(&made, "bind unix//").contains("PROTECTED"), "{:?}", made.remarks);
    assert!(!made.text.contains(":80\""), "{}", made.text);
}

#[test]
fn a_suffix_is_taken_away_without_another_slash() {
    let made = site("uri strip_suffix .html\nreverse_proxy 10.0.0.1:80");
    let expected = r#"rewrite = { regex = "^/(.*)\\.html$", to = "/$1" }"#;
    assert!(made.text.contains(expected), "{}", made.text);
}

#[test]
fn a_response_of_several_lines_is_one() {
    let made = site("respond <<JSON\n  {\"a\": 1}\n  JSON 201");
    assert!(made.text.contains(r#"status = 201, body = "{\"a\": 1}" }"#), "{}", made.text);
    assert!(made.remarks.is_empty(), "{:?}", made.remarks);
    for body in ["{host}", "{$NAME:x}"] {
        assert!(!why(&site(&format!("respond a{body}")), "respond").is_empty(), "{body}");
    }
}

#[test]
fn each_line_of_a_transport_is_carried_over_or_told() {
    let transport = |lines: &str| {
        site(&format!("reverse_proxy 10.0.0.1:443 {{\ntransport http {{\n{lines}\n}}\n}}"))
    };
    let made = transport("tls\ntls_server_name a.example\nproxy_protocol v2\nread_timeout 0");
    for line in ["tls.name = \"a.example\"", "send_proxy = \"v2\"", "timeouts.idle = \"0s\""] {
        assert!(made.text.contains(&format!("{line}\n")), "{line}: {}", made.text);
    }
    assert_eq!(made.lost, 0, "{:?}", made.remarks);
    let lines = "keepalive off\nmax_conns_per_host 5\ntls_trust_pool inline {\ntrust_der x\n}";
    let made = transport(lines);
    for line in ["keepalive off", "max_conns_per_host", "tls_trust_pool", "trust_der"] {
        assert!(!why(&made, line).is_empty(), "{line}: {:?}", made.remarks);
    }
    assert!(made.text.contains("tls.min_version") && made.lost == 4, "{}", made.text);
    for lines in
        ["tls_trusted_ca_certs a.pem b.pem", "tls_trust_pool file {\npem_file a.pem b.pem\n}"]
    {
        let made = transport(lines);
        assert!(made.text.contains("tls.authorities = \"a.pem\"\n"), "{}", made.text);
        assert!(why(&made, "tls_trust").contains("one file"), "{:?}", made.remarks);
    }
}

#[test]
fn decimals_and_ranges_of_ports_are_written_out() {
    let made = site(
        "request_body {\nmax_size 1.5GB\n}\nreverse_proxy 127.0.0.1:8001-8003 {\n\
         health_uri /\nhealth_interval 1.5s\n}",
    );
    for text in [
        "max_body = \"1500000000B\"", "health.interval = \"1500ms\"", "127.0.0.1:8001\"",
        "127.0.0.1:8002\"", "127.0.0.1:8003\"",
    ] {
        assert!(made.text.contains(text), "{text}: {}", made.text);
    }
    assert!(!made.text.contains("8001-8003\","), "{}", made.text);
}

#[test]
fn variables_that_are_not_quite_the_same_are_told() {
    for line in ["header X {hostport}\nrespond a", "redir https://{hostport}/x"] {
        assert!(site(line).remarks.iter().any(|it| it.why.contains("without a port")), "{line}");
    }
    let made = site("reverse_proxy 10.0.0.1:80 {\nheader_up X-Host {hostport}\n}");
    assert!(why(&made, "header_up").contains("without a port"), "{:?}", made.remarks);
    let made = site("rewrite /d /e?x=1\nreverse_proxy 10.0.0.1:80");
    assert!(why(&made, "rewrite").contains("not the query"), "{:?}", made.remarks);
}

#[test]
fn a_site_that_verifies_clients_goes_on_to_do_so() {
    let tls = |block: &str| format!("tls a.pem a.key {{\n{block}\n}}\nreverse_proxy 10.0.0.1:80");
    let one = |block: &str| file(&format!("https://a.example {{\n{}\n}}\n", tls(block)));
    let made = one(
        "client_auth {\nmode require_and_verify\ntrusted_ca_cert_file ca.pem\n}\nprotocols tls1.3",
    );
    assert!(made.text.contains("protocol = \"https\""), "{}", made.text);
    assert!(made.text.contains("tls.client_authorities = \"ca.pem\""), "{}", made.text);
    assert!(made.text.contains("tls.min_version = \"1.3\"") && made.lost == 0, "{}", made.text);
    let made = one("client_auth {\nmode verify_if_given\ntrust_pool file ca.pem\n}");
    assert!(made.text.contains("tls.client_required = false"), "{}", made.text);
    let made = one("client_auth {\nmode require\n}");
    assert!(made.text.contains("protocol = \"https\""), "{}", made.text);
    assert!(why(&made, "client_auth").contains("PROTECTED"), "{:?}", made.remarks);
    let made = file(&format!(
        "https://a.example {{\n{}\n}}\nhttps://b.example {{\n{}\n}}\n",
        tls("client_auth {\ntrusted_ca_cert_file ca.pem\n}"),
        tls("protocols tls1.2 tls1.3")
    ));
    assert!(!made.text.contains("client_authorities ="), "{}", made.text);
    assert!(why(&made, "tls a.pem").contains("PROTECTED"), "{:?}", made.remarks);
}

#[test]
fn sites_that_verify_clients_alike_go_on_to_do_so_whatever_else_they_say() {
    let both = |one: &str, other: &str| {
        let site = |name: &str, block: &str| {
            format!("https://{name} {{\ntls {name}.pem a.key {{\n{block}\n}}\nrespond ok\n}}\n")
        };
        file(&(site("a.example", one) + &site("b.example", other)))
    };
    let told = |made: &Imported| {
        let of_tls = made.remarks.iter().filter(|remark| remark.text.starts_with("tls"));
        of_tls.map(|remark| remark.why.clone()).collect::<Vec<_>>()
    };
    let ca = "client_auth {\ntrusted_ca_cert_file ca.pem\n}";
    let verified = "tls.client_authorities = \"ca.pem\"";
    let newer = "tls.min_version = \"1.3\"";
    let made = both(&format!("{ca}\nprotocols tls1.3"), &format!("protocols tls1.3\n{ca}"));
    assert!(made.text.contains(verified) && made.text.contains(newer), "{}", made.text);
    assert_eq!(told(&made), [""; 0]);
    let made = both(&format!("{ca}\nprotocols tls1.3"), ca);
    assert!(made.text.contains(verified) && !made.text.contains(newer), "{}", made.text);
    assert_eq!(told(&made), ["all sites of a port have one least version of TLS"]);
    let optional = "client_auth {\nmode verify_if_given\ntrusted_ca_cert_file ca.pem\n}";
    let made = both(optional, ca);
    assert!(made.text.contains(verified), "{}", made.text);
    assert!(!made.text.contains("client_required"), "{}", made.text);
    assert!(why(&made, "tls a.example").contains("has to have one"), "{:?}", made.remarks);
    let made = both(optional, &optional.replace("ca.pem", "other.pem"));
    assert!(!made.text.contains("client_required ="), "{}", made.text);
    assert!(why(&made, "tls b.example").contains("PROTECTED"), "{:?}", made.remarks);
}

#[test]
fn how_often_a_request_is_sent_again_is_carried_over() {
    let proxy = |line: &str| site(&format!("reverse_proxy 10.0.0.1:80 {{\n{line}\n}}"));
    assert!(proxy("lb_retries 0").text.contains("retry.attempts = 0"));
    let made = proxy("lb_retries 9");
    assert!(made.text.contains("retry.attempts = 3"), "{}", made.text);
    assert!(why(&made, "lb_retries").contains("at most"), "{:?}", made.remarks);
    let made = proxy("lb_try_duration 5s\nlb_try_interval 1s");
    assert!(why(&made, "lb_try_duration").contains("retry.attempts"), "{:?}", made.remarks);
    assert_eq!(made.lost, 2, "{:?}", made.remarks);
}

#[test]
fn headers_that_no_check_may_copy_are_left_out_of_forward_auth() {
    let auth = |names: &str| {
        format!("forward_auth 10.0.0.9:80 {{\nuri /auth\n{names}\n}}\nreverse_proxy 10.0.0.1:80")
    };
    for names in [
        "copy_headers Remote-User Content-Length Host Trailer",
        "copy_headers {\nRemote-User\nContent-Length\nHost\nTrailer\n}",
    ] {
        let made = site(&auth(names));
        assert!(made.text.contains("copy_headers = [\"Remote-User\"]"), "{}", made.text);
        let why = why(&made, "copy_headers");
        assert!(why.starts_with("without `Content-Length`, `Host`, `Trailer`"), "{why}");
    }
    let made = site(&auth("copy_headers Connection"));
    assert!(made.text.contains("path = \"/auth\" }"), "{}", made.text);
}

#[test]
fn headers_about_a_connection_are_for_no_route() {
    for name in ["Trailer", "Keep-Alive", "Proxy-Connection", "Expect"] {
        let made = site(&format!("header {name} a\nreverse_proxy 10.0.0.1:80"));
        assert!(!made.text.contains("answer_headers") && made.lost == 1, "{}", made.text);
    }
}

#[test]
fn headers_towards_servers_that_cannot_be_said_are_told() {
    let proxy = |to: &str, line: &str| site(&format!("reverse_proxy {to} {{\n{line}\n}}"));
    let made = proxy("10.0.0.1:80", "header_up X-Real-IP {http.request.header.CF-Connecting-IP}");
    assert!(!why(&made, "header_up").is_empty() && made.lost == 1, "{:?}", made.remarks);
    let made = proxy("10.0.0.1:80", "header_down ?X-A 1");
    assert!(!why(&made, "header_down").is_empty(), "{:?}", made.remarks);
    let host = "header_up Host {upstream_hostport}";
    let made = proxy("https://api.example.com", host);
    let expected = "request_headers.set = { Host = \"api.example.com:443\" }";
    assert!(made.text.contains(expected) && made.lost == 0, "{}", made.text);
    let made = proxy("10.0.0.1:80 10.0.0.2:80", host);
    assert!(!why(&made, "header_up").is_empty(), "{:?}", made.remarks);
}

#[test]
fn a_server_at_a_unix_socket_stays_one() {
    let made = site("reverse_proxy unix//run/app.sock");
    assert!(made.text.contains("    \"unix:/run/app.sock\",") && made.lost == 0, "{}", made.text);
    let made = site("reverse_proxy unix+h2c/@app");
    assert!(made.text.contains("http_version = \"2\""), "{}", made.text);
    assert!(made.text.contains("    \"unix:@app\",") && made.lost == 0, "{}", made.text);
    let made = site("reverse_proxy unix/run/{host}.sock");
    assert!(why(&made, "reverse_proxy").contains("Unix socket"), "{:?}", made.remarks);
}

#[test]
fn a_header_that_must_not_be_there_keeps_out_those_without_it() {
    let made =
        site("@noauth header !Authorization\nrespond @noauth 401\nreverse_proxy 10.0.0.1:80");
    assert!(!made.text.contains("!Authorization"), "{}", made.text);
    let (with, without) = made.text.split_once("deny = 401").unwrap();
    assert!(with.contains("header = { Authorization = \"*\" }\nservice ="), "{}", made.text);
    assert!(!without.contains("Authorization"), "{}", made.text);
}

#[test]
fn lines_of_a_matcher_are_alternatives_as_in_caddy() {
    let made = |lines: &str| site(&format!("@x {{\n{lines}\n}}\nrespond @x 403"));
    for (lines, expected) in [
        ("query a=1 b=2", "query = { a = \"1\", b = \"2\" }"),
        ("query a=1 a=2", "query = { a = [\"1\", \"2\"] }"),
        ("query a=1\nquery b=*", "query = { a = \"1\", b = \"*\" }"),
        ("query a=100%25", "query = { a = \"100%25\" }"),
        ("path /a\npath /b", "path = [\"/a\", \"/b\"]"),
        ("header X 1\nheader X 2", "header = { X = [\"1\", \"2\"] }"),
        ("header X 1\nheader Y 2", "header = { X = \"1\", Y = \"2\" }"),
        ("method GET\nmethod HEAD", "method = [\"GET\", \"HEAD\"]"),
    ] {
        let made = made(lines);
        assert!(made.text.contains(&format!("{expected}\ndeny = 403")), "{}", made.text);
    }
    for lines in ["query *=1", "query utm_*=1", "query ids%5B%5D=1", "query \"\"", "query =1"] {
        let made = made(lines);
        assert!(!made.text.contains("query = "), "{lines}: {}", made.text);
        assert!(why(&made, "respond").contains("PROTECTED"), "{lines}: {:?}", made.remarks);
    }
    let never = made("path /a\npath_regexp ^/b");
    assert!(why(&never, "respond").contains("PROTECTED"), "{:?}", never.remarks);
}

#[test]
fn directives_are_followed_in_the_order_of_caddy() {
    let order = |lines: &str| {
        let made = site(lines);
        let (_, routes) = made.text.split_once("[[routes").unwrap();
        let (routes, _) = routes.split_once("[service").unwrap();
        let at = routes.find("\"10.0.0.2-80\"").unwrap();
        assert!(routes.find("\"10.0.0.1-80\"").is_none_or(|it| at < it), "{}", made.text);
    };
    order("reverse_proxy 10.0.0.1:80\n@x method GET\nreverse_proxy @x 10.0.0.2:80");
    let inner = "reverse_proxy /a/* 10.0.0.1:80\nreverse_proxy /a/b/* 10.0.0.2:80";
    order(&format!("handle {{\n{inner}\n}}"));
    order(
        "handle /a* {\nreverse_proxy 10.0.0.1:80\n}\n\
         handle_path /a/b/* {\nreverse_proxy 10.0.0.2:80\n}",
    );
    let paths = "@x path /one /a/long/path/of/many/letters\n";
    order(&format!("{paths}reverse_proxy /o* 10.0.0.2:80\nreverse_proxy @x 10.0.0.1:80"));
    order("route {\nreverse_proxy /a* 10.0.0.2:80\nreverse_proxy /a/b/* 10.0.0.1:80\n}");
}

#[test]
fn a_site_with_certificates_leads_to_https() {
    let redirect = "redirect = { scheme = \"https\", status = 308 }";
    let tls = "a.example {\ntls a.pem a.key\nrespond ok\n}\n";
    let made = file(tls);
    assert!(made.text.contains("\":80\"") && made.text.contains(redirect), "{}", made.text);
    let made = file(&format!("http://b.example {{\nrespond b\n}}\n{tls}"));
    assert!(made.text.contains(&format!("host = \"a.example\"\n{redirect}")), "{}", made.text);
    for text in [
        format!("{{\nauto_https disable_redirects\n}}\n{tls}"),
        format!("{tls}http://a.example {{\nrespond b\n}}\n"),
        "http://a.example {\nrespond ok\n}\n".to_owned(),
    ] {
        assert!(!file(&text).text.contains("redirect ="), "{text}");
    }
}

#[test]
fn a_star_in_the_name_of_a_host_is_one_label() {
    let label = "header = { Host = \"~(?i)(?:[^.]+\\\\.b\\\\.example)(?::[0-9]+)?\" }";
    let made = file("http://*.b.example {\nrespond ok\n}\n");
    assert!(made.text.contains(&format!("host = \"*.b.example\"\n{label}\n")), "{}", made.text);
    let made = file(":80 {\n@x not host *.b.example\nrespond @x 403\nrespond ok\n}\n");
    let (open, _) = made.text.split_once("deny = 403").unwrap();
    assert!(open.contains(label), "{}", made.text);
}

#[test]
fn a_method_that_no_request_has_is_told() {
    let made = site("@x method put\nrespond @x 403\nrespond ok");
    assert!(!made.text.contains("method ="), "{}", made.text);
    assert!(why(&made, "respond @x").contains("in capitals"), "{:?}", made.remarks);
}
