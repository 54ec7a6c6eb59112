//! What lines of HAProxy become that were once carried over to something else, or silently lost.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::io;

use loadline_import::{Imported, Kind, import};

/// What is made of a frontend with these lines, and backends `a` and `b`.
fn frontend(lines: &str) -> Imported {
    let lines = lines.replace('\n', "\n  ");
    file(&format!(
        "frontend f\n  mode http\n  bind :80\n  {lines}\n  default_backend a\n\
         backend a\n  mode http\n  server s 10.0.0.1:80\n\
         backend b\n  mode http\n  server s 10.0.0.2:80\n"
    ))
}

/// What is made of a backend with these lines.
fn backend(lines: &str) -> Imported {
    let lines = lines.replace('\n', "\n  ");
    file(&format!("listen l\n  mode http\n  bind :80\n  {lines}\n"))
}

fn file(text: &str) -> Imported {
    let none = |_: &str| Err(io::ErrorKind::NotFound.into());
    import(Kind::Haproxy, "haproxy.cfg", text.to_owned(), &none).unwrap()
}

/// The reason that was given for the line that begins so; empty without one.
fn why(made: &Imported, start: &str) -> String {
    let remark = made.remarks.iter().find(|remark| remark.text.starts_with(start));
    remark.map(|remark| remark.why.clone()).unwrap_or_default()
}

#[test]
fn a_backend_that_a_map_chooses_denies_nobody() {
    let rule = "use_backend %[req.hdr(host),lower,map(/tmp/hosts.map,b)]";
    let made = frontend(rule);
    assert!(!made.text.contains("deny = 503"), "{}", made.text);
    assert!(why(&made, "use_backend").contains("names its service"), "{:?}", made.remarks);
    assert_eq!(made.lost, 1);
}

#[test]
fn a_value_in_a_list_of_a_header_is_denied_as_well() {
    let made = frontend("http-request deny if { hdr(X-Forwarded-For) 192.0.2.66 }");
    let expected = r#"X-Forwarded-For = "~(.*,)?[ \\t]*192\\.0\\.2\\.66[ \\t]*(,.*)?""#;
    assert!(made.text.contains(expected), "{}", made.text);
    let made = frontend("acl u hdr(Connection) -i upgrade\nuse_backend b if u");
    assert!(made.text.contains("(?i)(.*,)?[ \\\\t]*upgrade"), "{}", made.text);
    // The whole line is asked for here.
    let made = frontend("http-request deny if { req.fhdr(X-Tag) a }");
    assert!(made.text.contains("X-Tag = \"a\""), "{}", made.text);
    let made = frontend("http-request deny if { hdr(X-Tag,-1) a }");
    assert!(why(&made, "http-request deny").contains("PROTECTED"), "{:?}", made.remarks);
}

#[test]
fn a_header_that_the_client_may_not_send_lets_nobody_in() {
    let internal = "http-request del-header X-Internal\n\
                    http-request set-header X-Internal yes if { src 10.0.0.0/8 }\n";
    let made = frontend(&format!(
        "{internal}http-request deny if {{ path_beg /admin }} !{{ hdr(X-Internal) yes }}"
    ));
    assert!(!made.text.contains("\nheader ="), "{}", made.text);
    let (inside, outside) = made.text.split_once("deny = 403").unwrap();
    assert!(inside.contains("[[routes.f]]\nsource = \"10.0.0.0/8\"\n"), "{}", made.text);
    assert!(inside.ends_with("path = \"~(?s)/admin.*\"\n"), "{}", made.text);
    assert!(!outside.contains("path ="), "{}", made.text);
    assert!(made.remarks.is_empty(), "{:?}", made.remarks);
    // What is removed is not there, and what is always set is.
    let made = frontend(
        "http-request del-header X-A\nhttp-request deny if { hdr(X-A) yes }\n\
         http-request set-header Host b.internal\n\
         http-request deny if { hdr(host) -i b.internal } !{ src 10.0.0.0/8 }",
    );
    assert_eq!(made.text.matches("deny = 403").count(), 1, "{}", made.text);
    assert!(!made.text.contains("\nhost =") && made.remarks.is_empty(), "{}", made.text);
    let made = frontend(
        "http-request set-header X-Env canary if { src 10.0.0.0/8 }\n\
         use_backend b if { hdr(X-Env) canary }",
    );
    assert!(made.text.contains("source = \"10.0.0.0/8\""), "{}", made.text);
    assert!(made.text.contains("X-Env = \"~(.*,)?"), "{}", made.text);
}

#[test]
fn a_condition_on_a_header_with_a_value_that_is_not_known_is_told() {
    let set = "http-request set-header X-A %[path]\n";
    for rule in [
        "http-request deny if { hdr(X-A) a }",
        "http-request deny if { path /x } !{ hdr(X-A) a }",
        "http-request tarpit unless { hdr(x-a) a }",
    ] {
        let made = frontend(&format!("{set}{rule}"));
        assert!(!made.text.contains("deny ="), "{}", made.text);
        assert!(why(&made, rule).contains("PROTECTED"), "{:?}", made.remarks);
    }
    let made = frontend(&format!("{set}http-request allow if {{ hdr(X-A) a }}"));
    assert!(why(&made, "http-request allow").contains("changes the header"), "{:?}", made.remarks);
    let made = frontend(&format!("{set}use_backend b if {{ hdr(X-A) a }}"));
    assert!(why(&made, "use_backend").contains("as the client sent it"), "{:?}", made.remarks);
    assert!(made.text.contains("service = \"b\""), "{}", made.text);
    // It is so in a backend, too, and where a pattern removes it or some requests skip the rule.
    let made = file(
        "frontend f\n  mode http\n  bind :80\n  http-request set-header X-A %[path]\n  \
         default_backend a\nbackend a\n  mode http\n  \
         http-request deny if { hdr(X-A) a }\n  server s 10.0.0.1:80\n",
    );
    assert!(why(&made, "http-request deny").contains("PROTECTED"), "{:?}", made.remarks);
    for before in [
        "http-request del-header X- -m beg",
        "http-request allow if { path /y }\nhttp-request del-header X-A",
    ] {
        let made = frontend(&format!("{before}\nhttp-request deny if {{ hdr(X-A) a }}"));
        assert!(why(&made, "http-request deny").contains("PROTECTED"), "{:?}", made.remarks);
    }
}

#[test]
fn a_path_that_a_rule_says_behind_a_change_of_it_is_told() {
    let change = "http-request replace-path /old/(.*) /new/\\1";
    for rule in [
        "http-request set-header X-A %[path]",
        "http-request add-header X-A a%[path]?%[query] if { method POST }",
        "http-request return status 200 content-type text/plain hdr X-A %[path] string a",
        "http-request redirect location https://b.example%[path]",
        "http-request redirect scheme https if { hdr(X-A) a }",
        "redirect prefix https://b.example if { hdr(X-A) a }",
    ] {
        let made = frontend(&format!("{change}\n{rule}"));
        assert!(why(&made, rule).contains("not as an earlier rule changes it"), "{made:?}");
        // Rules of a frontend come before those of its backend.
        let made = file(&format!(
            "frontend f\n  mode http\n  bind :80\n  {change}\n  default_backend a\n\
             backend a\n  mode http\n  {rule}\n  server s 10.0.0.1:80\n"
        ));
        assert!(why(&made, rule).contains("not as an earlier rule changes it"), "{made:?}");
        // HAProxy asks `redirect` last, wherever it stands.
        if rule.starts_with("http-request") {
            let made = frontend(&format!("{rule}\n{change}"));
            assert!(made.remarks.is_empty(), "{rule}: {:?}", made.remarks);
        }
    }
    // `%HP` is the path as it came in HAProxy, too.
    let made = frontend(&format!("{change}\nhttp-request set-header X-A %HP"));
    assert!(made.text.contains("X-A = \"$path\"") && made.remarks.is_empty(), "{made:?}");
    // What is asked for and what is said are told together.
    let rule = "http-request set-header X-A %[path] if { path /a }";
    let made = frontend(&format!("{change}\n{rule}"));
    let told = why(&made, rule);
    assert!(told.contains("is asked for") && told.contains("`$path`"), "{told}");
}

#[test]
fn a_rule_against_dots_in_paths_is_lost_with_a_warning() {
    for asked in
        ["path_sub ..", "path_sub -i ../", "path_reg /\\.\\./", "path_beg //", "url_beg //"]
    {
        let made = frontend(&format!("http-request deny if {{ {asked} }}"));
        assert!(why(&made, "http-request deny").contains("PROTECTED"), "{asked} {}", made.text);
    }
    // Any two characters.
    let made = frontend("http-request deny if { path_reg ^/../ }");
    assert!(made.text.contains("deny = 403") && made.remarks.is_empty(), "{}", made.text);
}

#[test]
fn a_redirect_by_prefix_with_a_slash_at_its_end_is_told() {
    for prefix in ["https://b.example/", "https://b.example/c/"] {
        let made = frontend(&format!("redirect prefix {prefix} if {{ path_beg /a }}"));
        assert!(why(&made, "redirect").contains("one slash"), "{:?}", made.remarks);
    }
    let made = frontend("redirect prefix https://b.example/c if { path_beg /a }");
    assert!(made.remarks.is_empty(), "{:?}", made.remarks);
}

#[test]
fn a_method_that_is_no_name_in_capitals_makes_no_file_that_cannot_be_read() {
    for asked in ["method get", "method -i get post", "method -m beg P", "method -m reg ^P"] {
        let made = frontend(&format!("http-request deny unless {{ {asked} }}"));
        assert!(!made.text.contains("method ="), "{asked} {}", made.text);
        assert!(why(&made, "http-request deny").contains("in capitals"), "{:?}", made.remarks);
    }
    let made = frontend("http-request deny unless { method GET M-SEARCH }");
    assert!(made.text.contains("\"M-SEARCH\"") && made.remarks.is_empty(), "{}", made.text);
}

#[test]
fn headers_that_a_pattern_removes_are_lost_with_a_warning() {
    let made = frontend("http-request del-header ^X-Internal- -m reg");
    assert!(why(&made, "http-request del-header").contains("PROTECTED"), "{:?}", made.remarks);
}

#[test]
fn what_every_request_has_is_found_in_it() {
    let made = frontend("http-request deny if !{ hdr(host) -m found }");
    assert!(made.text.contains("header = { Host = \"*\" }\nservice = \"a\""), "{}", made.text);
    for sample in ["path", "url", "method", "src"] {
        let made = frontend(&format!("http-request deny if !{{ {sample} -m found }}"));
        assert!(!made.text.contains("deny") && made.remarks.is_empty(), "{}", made.text);
        let made = frontend(&format!("http-request deny if {{ {sample} -m found }}"));
        assert!(made.text.contains("[[routes.f]]\ndeny = 403"), "{}", made.text);
    }
    let made = frontend("http-request deny if { req.ssl_sni -m found }");
    assert!(why(&made, "http-request deny").contains("PROTECTED"), "{:?}", made.remarks);
}

#[test]
fn what_a_frontend_allows_skips_no_rule_of_a_backend() {
    let made = file(
        "frontend f\n  mode http\n  bind :80\n  http-request allow if { path /y }\n  \
         default_backend a\nbackend a\n  mode http\n  http-request del-header X-A\n  \
         http-request deny if { hdr(X-A) a }\n  server s 10.0.0.1:80\n",
    );
    assert!(!made.text.contains("deny =") && made.remarks.is_empty(), "{:?}", made.remarks);
}

#[test]
fn http3_is_spoken_where_haproxy_speaks_it() {
    let with = |bind: &str| {
        file(&format!(
            "frontend f\n  mode http\n  bind :443 ssl crt a.pem\n  {bind}\n  default_backend a\n\
             backend a\n  mode http\n  server s 10.0.0.1:80\n"
        ))
    };
    assert!(with("bind :80").text.contains("\nhttp3 = false\n"));
    let made = with("bind quic4@:443 ssl crt a.pem alpn h3");
    assert!(!made.text.contains("http3 =") && made.remarks.is_empty(), "{}", made.text);
    let made = with("bind quic4@:8443 ssl crt a.pem alpn h3");
    assert!(why(&made, "bind quic4@").contains("beside HTTPS"), "{:?}", made.remarks);
    // Words that are lost are not the whole line, and the certificates are those of HTTPS.
    let made = with("bind quic4@:443 ssl crt-list all.txt alpn h3 quic-cc-algo cubic");
    assert!(!made.text.contains("http3 =") && made.lost == 0, "{:?}", made.remarks);
    let told = why(&made, "bind quic4@");
    assert!(told.contains("`quic-cc-algo`") && !told.contains("left out"), "{told}");
    let made = file(
        "frontend f\n  mode http\n  bind :443,quic4@:443 ssl crt a.pem\n  default_backend a\n\
         backend a\n  mode http\n  server s 10.0.0.1:80\n",
    );
    assert!(!made.text.contains("http3 =") && made.remarks.is_empty(), "{}", made.text);
    assert!(made.text.contains("bind = \":443\""), "{}", made.text);
}

#[test]
fn the_server_name_is_not_asked_for_without_tls() {
    let rule = "use_backend b if { ssl_fc_sni one.example.com }";
    let made = frontend(rule);
    assert!(!made.text.contains("one.example.com\"\n") && made.lost == 0, "{}", made.text);
    let made = file(&format!(
        "frontend f\n  mode http\n  bind :443 ssl crt a.pem\n  {rule}\n  default_backend a\n\
         backend a\n  mode http\n  server s 10.0.0.1:80\n\
         backend b\n  mode http\n  server s 10.0.0.2:80\n"
    ));
    assert!(made.text.contains("host = \"one.example.com\""), "{}", made.text);
    assert!(why(&made, "use_backend").contains("the host is asked for"), "{:?}", made.remarks);
}

#[test]
fn a_query_that_is_asked_for_with_the_path_is_lost_with_a_warning() {
    let made = frontend("http-request deny if { url_beg /secret?key= }");
    assert!(why(&made, "http-request deny").contains("PROTECTED"), "{:?}", made.remarks);
    let made = frontend("acl x path_beg /%61\nhttp-request deny if x");
    assert!(why(&made, "http-request deny").contains("PROTECTED"), "{:?}", made.remarks);
}

#[test]
fn conditions_that_haproxy_has_by_itself_are_known() {
    for name in ["HTTP_1.1", "HTTP_URL_STAR", "REQ_CONTENT", "WAIT_END", "RDP_COOKIE"] {
        let made = frontend(&format!("http-request deny if {name}"));
        assert!(why(&made, "http-request deny").contains(name), "{:?}", made.remarks);
    }
}

#[test]
fn checks_take_the_time_that_haproxy_gives_them() {
    for (lines, interval, timeout) in [
        ("server s 10.0.0.1:80 check", "2s", "2s"),
        ("server s 10.0.0.1:80 check inter 5s", "5s", "5s"),
        ("timeout check 1s\nserver s 10.0.0.1:80 check inter 5s", "5s", "1s"),
    ] {
        let text = backend(lines).text;
        assert!(text.contains(&format!("health.interval = \"{interval}\"")), "{text}");
        assert!(text.contains(&format!("health.timeout = \"{timeout}\"")), "{text}");
    }
    assert!(!backend("server s 10.0.0.1:80").text.contains("health"));
}

#[test]
fn a_check_of_no_path_asks_for_the_root_and_that_is_told() {
    for line in
        ["option httpchk OPTIONS * HTTP/1.1", "option httpchk\nhttp-check send meth GET uri *"]
    {
        let made = backend(&format!("{line}\nserver s 10.0.0.1:80 check"));
        assert!(made.text.contains("health.http = \"/\""), "{}", made.text);
        assert!(why(&made, "option httpchk").contains("asks for `/`"), "{:?}", made.remarks);
    }
}

#[test]
fn a_check_whose_path_is_a_variable_keeps_it() {
    let made = backend("option httpchk GET \"${CHECK}\"\nserver s 10.0.0.1:80 check");
    assert!(made.text.contains("health.http = \"${CHECK}\""), "{}", made.text);
    assert_eq!(why(&made, "option httpchk"), "");
}

#[test]
fn a_server_at_a_unix_socket_stays_one() {
    let made = backend("server a /run/a.sock check\nserver b unix@/run/b.sock weight 5");
    assert!(made.text.contains("    \"unix:/run/a.sock\","), "{}", made.text);
    assert!(made.text.contains("{ address = \"unix:/run/b.sock\", weight = 5 }"), "{}", made.text);
    assert_eq!(made.lost, 0, "{:?}", made.remarks);
    let made = backend("server a abns@a\nserver b 10.0.0.1:80");
    assert!(why(&made, "server a").contains("zeros"), "{:?}", made.remarks);
}

#[test]
fn words_of_a_server_without_a_value_take_no_other_word() {
    let made = backend(
        "server a 10.0.0.1:80 agent-check disabled\nserver b 10.0.0.2:80 no-tfo backup\n\
         server c 10.0.0.3:80 on-error fastinter maxconn 5",
    );
    assert!(made.text.contains("{ address = \"10.0.0.1:80\", weight = 0 }"), "{}", made.text);
    assert!(made.text.contains("{ address = \"10.0.0.2:80\", priority = 1 }"), "{}", made.text);
    assert!(made.text.contains("{ address = \"10.0.0.3:80\", max_in_flight = 5 }"));
    let made = backend("server a 10.0.0.1:443 ssl force-tlsv12 verify none");
    assert!(made.text.contains("tls.verify = false"), "{}", made.text);
    assert_eq!(why(&made, "server a"), "nothing corresponds to `force-tlsv12`");
}

#[test]
fn one_server_with_tls_does_not_switch_it_on_for_all() {
    let made = backend("server a 10.0.0.1:80\nserver b 10.0.0.2:443 ssl verify none");
    assert!(!made.text.contains("\ntls."), "{}", made.text);
    assert!(!made.text.contains("address = \"10.0.0.2:443\"") && made.lost == 1, "{}", made.text);
    assert!(why(&made, "server b").contains("a service of its own"), "{:?}", made.remarks);
    let made = backend("server a 10.0.0.1:80 proto h2\nserver b 10.0.0.2:80");
    assert!(why(&made, "server b").contains("http_version"), "{:?}", made.remarks);
    let made = backend("server a 10.0.0.1:80 check\nserver b 10.0.0.2:80");
    assert!(why(&made, "server b").contains("are checked"), "{:?}", made.remarks);
    let made = backend("server a 10.0.0.1:80 check\nserver b 10.0.0.2:80 check rise 5");
    assert!(why(&made, "server b").contains("health.rise"), "{:?}", made.remarks);
}

#[test]
fn a_list_of_servers_keeps_its_check_and_tells_of_its_neighbours() {
    let made = backend(
        "option httpchk GET /hc\nserver-template w 5 app.example:80 check maxconn 7\n\
         server x 10.0.0.9:80 backup",
    );
    assert!(made.text.contains("health.http = \"/hc\""), "{}", made.text);
    assert!(!made.text.contains("health.tcp"), "{}", made.text);
    assert!(made.text.contains("per_server.max_in_flight = 7"), "{}", made.text);
    assert!(why(&made, "server x").contains("not both"), "{:?}", made.remarks);
}

#[test]
fn listeners_without_certificates_are_left_out_and_told() {
    let made = file(
        "frontend f\n  mode http\n  bind :80\n  bind :443 ssl crt /etc/haproxy/certs/\n  \
         bind :444 ssl crt-list /etc/haproxy/all.txt\n  default_backend a\n\
         backend a\n  server s 10.0.0.1:80\n",
    );
    assert!(!made.text.contains("certificates = []") && made.lost == 2, "{}", made.text);
    assert!(why(&made, "bind :443").contains("write the files of"), "{:?}", made.remarks);
    assert!(why(&made, "bind :444").contains("`crt-list`"), "{:?}", made.remarks);
}

#[test]
fn variables_of_the_environment_stay_variables() {
    let made = backend("server b \"${FOO}\":80");
    assert!(made.text.contains("\"${FOO}:80\""), "{}", made.text);
    let made = backend("server b \"${FOO}:80\" weight \"$W\"");
    assert!(made.text.contains("\"${FOO}:80\""), "{}", made.text);
    assert!(why(&made, "server b").contains("environment"), "{:?}", made.remarks);
}

#[test]
fn an_unanchored_replacement_takes_the_first_part_that_it_finds() {
    let made = frontend("http-request replace-path /v1/(.*) /v2/\\1");
    let expected = r#"rewrite = { regex = "^(?s).*?(?:/v1/(.*)).*$", to = "/v2/$1" }"#;
    assert!(made.text.contains(expected), "{}", made.text);
}

#[test]
fn a_replacement_names_no_group_that_the_expression_has_not() {
    let made = frontend("http-request replace-path ^/x /\\1y");
    assert!(made.text.contains("to = \"/y\" }"), "{}", made.text);
}

#[test]
fn headers_about_the_client_are_not_lost() {
    let made = frontend("http-request set-header X-Forwarded-Proto https");
    let expected = "request_headers.set = { X-Forwarded-Proto = \"https\" }";
    assert!(made.text.contains(expected), "{}", made.text);
    let made = frontend("http-request set-header X-Forwarded-Proto http");
    assert!(!made.text.contains("request_headers"), "{}", made.text);
    let made = frontend("option forwardfor header X-Client-IP");
    let expected = "request_headers.add = { X-Client-IP = \"$client_address\" }";
    assert!(made.text.contains(expected), "{}", made.text);
}

#[test]
fn headers_are_changed_in_the_order_of_the_rules() {
    let made = frontend(
        "http-request add-header X-A 1\nhttp-request add-header X-A 2\n\
         http-request set-header X-B 1\nhttp-request del-header X-B",
    );
    assert!(made.text.contains("request_headers.add = { X-A = \"1\" }"), "{}", made.text);
    assert!(why(&made, "http-request add-header X-A 2").contains("one field"));
    assert!(!made.text.contains("request_headers.set"), "{}", made.text);
}

#[test]
fn what_differs_of_refusals_and_retries_is_told() {
    let made = frontend("http-request silent-drop if { path /x }");
    assert!(why(&made, "http-request silent-drop").contains("403"), "{:?}", made.remarks);
    let made = backend("retries 5\nserver a 10.0.0.1:80");
    assert!(why(&made, "retries 5").contains("3 times"), "{:?}", made.remarks);
}

#[test]
fn a_frontend_at_an_address_that_another_has_is_told() {
    let second = |rule: &str| {
        file(&format!(
            "frontend f\n  mode http\n  bind :80\n  bind :80\n  default_backend a\n\
             frontend g\n  mode http\n  bind *:80,:81\n  {rule}\n  default_backend a\n\
             backend a\n  mode http\n  server s 10.0.0.1:80\n"
        ))
    };
    let made = second("description x");
    assert_eq!(why(&made, "bind *:80"), "`:80` is bound above: this section is left out there");
    assert!(made.lost == 1 && made.text.contains("bind = \":81\""), "{}", made.text);
    let made = second("http-request deny if { path /x }");
    assert!(why(&made, "bind *:80").contains("PROTECTED"), "{:?}", made.remarks);
}

#[test]
fn of_branches_that_haproxy_chooses_none_is_imported() {
    let made = file(
        ".if defined(X)\nfrontend g\n  mode http\n  bind :81\n.endif\n  maxconn 5\n\
         frontend f\n  mode http\n  bind :80\n  .if version_atleast(2.4)\n  \
         acl x path /x\n  http-request deny if x\n  .else\n  \
         http-request deny if { path /y }\n  .endif\n  use_backend b if x\n  \
         default_backend a\nbackend a\n  mode http\n  server s 10.0.0.1:80\n\
         .if feature(X)\nbackend b\n  server s 10.0.0.2:80\n.endif\n",
    );
    assert!(!made.text.contains("deny =") && !made.text.contains(":81\""), "{}", made.text);
    for line in ["http-request deny if x", "http-request deny if {"] {
        assert!(why(&made, line).contains("PROTECTED"), "{:?}", made.remarks);
    }
    for line in [".if defined", "frontend g", "maxconn", ".else", "acl x", "backend b"] {
        assert!(why(&made, line).contains("depends on `.if`"), "{line}: {:?}", made.remarks);
    }
    assert!(why(&made, "use_backend b").contains("ask for `x`"), "{:?}", made.remarks);
}

#[test]
fn of_branches_that_are_known_the_one_that_holds_is_imported() {
    let rule = |path: &str| format!("http-request deny if {{ path /{path} }}");
    let made = frontend(&format!(
        ".if 0\n{}\n.elif true\n{}\n.else\n{}\n.endif\n.notice \"x\"",
        rule("a"),
        rule("b"),
        rule("c")
    ));
    assert!(made.text.contains("path = \"/b\"\ndeny = 403"), "{}", made.text);
    assert!(made.text.matches("deny = 403").count() == 1 && made.remarks.is_empty());
}

#[test]
fn an_acl_of_which_a_line_is_within_if_is_not_imported_as_the_rest_of_it() {
    let rules = "acl bad path /a\n  http-request deny if bad\n  default_backend a\n";
    let made = file(&format!(
        "frontend f\n  mode http\n  bind :80\n  .if defined(X)\n  acl bad path /b\n  .endif\n  \
         {rules}frontend g\n  mode http\n  bind :81\n  {rules}\
         backend a\n  mode http\n  server s 10.0.0.1:80\n",
    ));
    let why = why(&made, "http-request deny");
    assert!(why.contains("PROTECTED") && why.contains("ask for `bad`"), "{:?}", made.remarks);
    assert_eq!(made.text.matches("path = \"/a\"\ndeny = 403").count(), 1, "{}", made.text);
}

#[test]
fn rules_of_a_frontend_without_http_are_told() {
    let made = file(
        "frontend f\n  bind :80\n  http-request deny if { path /x }\n  default_backend a\n\
         backend a\n  server s 10.0.0.1:80\n",
    );
    let why = why(&made, "http-request deny");
    assert_eq!((why.as_str(), made.lost), ("without `mode http` HAProxy ignores it too", 0));
    let made = file(
        "frontend f\n  bind :80\n  .if defined(X)\n  mode http\n  .endif\n  \
         http-request deny if { path /x }\n  default_backend a\n\
         backend a\n  server s 10.0.0.1:80\n",
    );
    assert!(self::why(&made, "http-request deny").contains("PROTECTED"), "{:?}", made.remarks);
}

#[test]
fn parameters_of_a_query_are_asked_for_decoded_and_those_that_cannot_be_are_told() {
    let deny = |condition: &str| frontend(&format!("http-request deny if {{ {condition} }}"));
    for (condition, expected) in [
        ("urlp(ids%5B%5D) a%20b", r#"query = { "ids[]" = "a b" }"#),
        ("urlp(q) a+b", r#"query = { q = "a b" }"#),
        ("url_param(q) -m beg %2Fa", r#"query = { q = "/a*" }"#),
        ("urlp(q) -m sub %2A", r#"query = { q = "~(?s).*(?:\\*).*" }"#),
        ("urlp(q) -m found", r#"query = { q = "*" }"#),
    ] {
        let made = deny(condition);
        assert!(made.text.contains(expected), "{condition}: {}", made.text);
    }
    for condition in [
        "urlp(a*) 1", "urlp(%2525) 1", "urlp(?a) 1", "urlp() 1", "urlp(q) %FF", "urlp(q) 100%",
        "urlp(q) -m reg ^%2F", "urlp(q,;) 1",
    ] {
        let made = deny(condition);
        assert!(!made.text.contains("query = "), "{condition}: {}", made.text);
        let why = why(&made, "http-request deny");
        assert!(why.contains("PROTECTED"), "{condition}: {:?}", made.remarks);
    }
}

#[test]
fn a_cookie_without_a_value_that_haproxy_may_not_find_is_told() {
    for rule in [
        "http-request deny unless { req.cook(session) -m found }",
        "acl known cook(session) -m found\nuse_backend b if known",
    ] {
        let made = frontend(rule);
        assert!(made.text.contains("cookie = { session = \"*\" }"), "{}", made.text);
        let told = why(&made, rule.lines().next_back().unwrap());
        assert!(told.contains("without a value") && made.lost == 0, "{:?}", made.remarks);
    }
    let made = frontend("use_backend b if { req.cook(session) 1 }");
    assert!(made.remarks.is_empty(), "{:?}", made.remarks);
}

#[test]
fn variables_that_are_not_quite_the_same_are_told() {
    for rule in ["set-header X-H %[req.hdr(Host)]", "set-header Host %[req.hdr(Host),lower]"] {
        let made = frontend(&format!("http-request {rule}"));
        assert!(made.text.contains("= \"$host\""), "{}", made.text);
        assert!(why(&made, "http-request").contains("without a port"), "{:?}", made.remarks);
    }
    let made = frontend("http-request redirect location https://%[hdr(host)]/x");
    assert!(why(&made, "http-request").contains("without a port"), "{:?}", made.remarks);
    let made = frontend("http-request set-header X-H %[req.hdr(host),lower,host_only]");
    assert!(made.text.contains("= \"$host\"") && made.remarks.is_empty(), "{:?}", made.remarks);
    for sample in ["path,lower", "query,lower"] {
        let made = frontend(&format!("http-request set-header X-H %[{sample}]"));
        assert!(why(&made, "http-request").contains("no variable like"), "{:?}", made.remarks);
    }
}

#[test]
fn a_header_that_nobody_can_send_is_told() {
    let made = frontend("http-request set-header X-A: 1");
    assert!(why(&made, "http-request").contains("no name of a header"), "{:?}", made.remarks);
    let made = frontend("http-request return status 200 hdr connection upgrade");
    assert!(why(&made, "http-request").contains("no header `connection`"), "{:?}", made.remarks);
    let made = frontend("redirect location \"/x \"");
    assert!(why(&made, "redirect").contains("spaces"), "{:?}", made.remarks);
}

#[test]
fn what_is_put_before_the_path_is_a_change_of_its_prefix() {
    for rule in ["set-path /v1%[path]", "set-pathq /v1%[pathq]"] {
        let made = frontend(&format!("http-request {rule}"));
        let expected = "rewrite = { prefix = \"/\", to = \"/v1\" }";
        assert!(made.text.contains(expected) && made.lost == 0, "{}", made.text);
    }
}

#[test]
fn the_header_of_forwardfor_is_not_lost_for_a_condition() {
    let made = file(
        "defaults\n  mode http\n  option forwardfor header X-Client-IP\n\
         frontend f\n  bind :80\n  http-request deny if { path_reg ^/a } !{ src 10.0.0.0/8 }\n  \
         use_backend b if { path_reg c$ }\n  default_backend b\n\
         backend b\n  server s 10.0.0.1:80\n",
    );
    assert_eq!(why(&made, "option forwardfor"), "");
    assert!(made.text.contains("X-Client-IP = \"$client_address\""), "{}", made.text);
}

#[test]
fn what_keeps_somebody_out_is_told_apart() {
    for rule in [
        "reqideny ^X-Bad",
        "reqdeny x",
        "reqtarpit x",
        "filter spoe engine waf",
        "http-request use-service lua.auth",
    ] {
        let made = frontend(rule);
        assert!(why(&made, rule).contains("PROTECTED"), "{rule}: {:?}", made.remarks);
    }
    let made = file(
        "listen s\n  mode http\n  bind :9000\n  stats enable\n  stats auth a:b\n  \
         http-request deny unless { src 10.0.0.0/8 }\n",
    );
    for line in ["stats auth", "http-request deny"] {
        assert!(why(&made, line).contains("PROTECTED"), "{line}: {:?}", made.remarks);
    }
}

#[test]
fn a_redirect_that_keeps_somebody_out_is_told_apart() {
    let rule = "http-request redirect location / if { path -i -m beg /admin }";
    let made = frontend(&format!("http-request set-header X-A 1 if {{ path_beg /adm }}\n{rule}"));
    let told = why(&made, rule);
    assert!(told.starts_with("THIS PROTECTED SOMETHING: not for some requests"), "{told}");
    for rule in [
        "http-request redirect location /login unless { req.cook_len(session) gt 0 }",
        "redirect prefix https://login.example if { path_len gt 5 }",
        "acl inside src -f /etc/inside\nredirect location / if !inside",
    ] {
        let made = frontend(rule);
        let is_told = made.remarks.iter().any(|it| it.why.contains("PROTECTED"));
        assert!(is_told && made.lost == 1, "{rule}: {:?}", made.remarks);
    }
    // Another address of the site keeps nobody out.
    let made = frontend(
        "http-request redirect prefix https://www.a.example if { hdr_len(host) gt 3 } !{ ssl_fc }",
    );
    assert!(!why(&made, "http-request").contains("PROTECTED"), "{:?}", made.remarks);
    assert_eq!(made.lost, 1, "{:?}", made.remarks);
}

#[test]
fn rules_of_defaults_are_told() {
    let made = file(
        "defaults d\n  mode http\n  http-request deny if { path /x }\n\
         frontend f from d\n  bind :80\n  default_backend a\n\
         backend a from d\n  server s 10.0.0.1:80\n",
    );
    assert!(why(&made, "http-request deny").contains("PROTECTED"), "{:?}", made.remarks);
}

#[test]
fn defaults_from_other_defaults_have_what_those_say() {
    let made = file(
        "defaults base\n  mode http\n  timeout client 7s\n  option forwardfor header X-A\n\
         defaults web from base\n  timeout client 5s\n  no option forwardfor\n\
         frontend f from web\n  bind :80\n  http-request deny if { path /x }\n  \
         default_backend a\nbackend a from base\n  server s 10.0.0.1:80\n",
    );
    assert!(made.text.contains("protocol = \"http\"\ntimeouts.idle = \"5s\""), "{}", made.text);
    assert!(made.text.contains("path = \"/x\"\ndeny = 403"), "{}", made.text);
    assert!(!made.text.contains("timeouts.idle = \"7s\""), "{}", made.text);
}

#[test]
fn a_long_chain_of_defaults_takes_no_more_memory_than_its_lines() {
    let one = |n: u32| format!("defaults d{n} from d{}\n  timeout server 5s\n", n - 1);
    let chain: Vec<String> = (1..3_000).map(one).collect();
    let made = file(&format!(
        "defaults d0\n  mode http\n  timeout client 7s\n{}\
         frontend f from d2999\n  bind :80\n  default_backend a\n\
         backend a from d0\n  server s 10.0.0.1:80\n",
        chain.concat(),
    ));
    assert!(made.text.contains("protocol = \"http\"\ntimeouts.idle = \"7s\""), "{}", made.text);
}

#[test]
fn conditions_of_a_backend_that_see_a_changed_path_are_told() {
    let made = file(
        "frontend f\n  mode http\n  bind :80\n  default_backend a\n\
         backend a\n  mode http\n  http-request set-path /x\n  \
         http-request deny if { path /x }\n  server s 10.0.0.1:80\n",
    );
    assert!(why(&made, "http-request deny").contains("as it came"), "{:?}", made.remarks);
}

#[test]
fn checks_that_need_no_verification_switch_no_tls_on() {
    let made = backend("server a 10.0.0.1:80 check verify none");
    assert!(!made.text.contains("tls.") && why(&made, "server a").is_empty(), "{}", made.text);
    let made = backend("server a 10.0.0.1:80 check check-ssl verify none");
    assert!(!made.text.contains("tls."), "{}", made.text);
    assert_eq!(why(&made, "server a"), "the checks are without TLS");
    let made = backend("default-server ssl\nserver a 10.0.0.1:443 check verify none");
    assert!(made.text.contains("tls.verify = false"), "{}", made.text);
}

#[test]
fn one_backup_after_another_takes_part() {
    let servers = "server a 10.0.0.1:80\nserver b 10.0.0.2:80 backup\nserver c 10.0.0.3:80 backup";
    let made = backend(servers);
    for server in ["2:80\", priority = 1 }", "3:80\", priority = 2 }"] {
        assert!(made.text.contains(server), "{}", made.text);
    }
    let made = backend(&format!("option allbackups\n{servers}"));
    assert_eq!(made.text.matches("priority = 1 }").count(), 2, "{}", made.text);
    assert!(made.remarks.is_empty(), "{:?}", made.remarks);
}

#[test]
fn what_is_allowed_keeps_headers_of_responses_and_redirects() {
    let made = frontend(
        "http-request allow if { path /health }\nhttp-request deny if { src 10.0.0.0/8 }\n\
         http-response set-header X-A 1\nredirect location /b if { path /health }",
    );
    let routes = made.text.split_once("[[routes").unwrap().1;
    let health = routes.split_once("path = \"/health\"").unwrap().1;
    assert!(health.starts_with("\nanswer = { status = 302"), "{}", made.text);
    let made = frontend(
        "http-request allow if { path /health }\nhttp-request deny if { src 10.0.0.0/8 }\n\
         http-response set-header X-A 1",
    );
    assert_eq!(made.text.matches("answer_headers.set = { X-A").count(), 2, "{}", made.text);
}

#[test]
fn a_header_that_loadline_sends_is_not_sent_twice() {
    let tls = "frontend f\n  mode http\n  bind :443 ssl crt a.pem\n  \
               http-request add-header X-Forwarded-Proto https if { ssl_fc }\n  default_backend a\n\
               backend a\n  mode http\n  server s 10.0.0.1:80\n";
    let made = file(tls);
    assert!(!made.text.contains("request_headers") && made.remarks.is_empty(), "{}", made.text);
    let made = frontend("http-request add-header X-Forwarded-Proto https");
    let expected = "request_headers.set = { X-Forwarded-Proto = \"https\" }";
    assert!(made.text.contains(expected), "{}", made.text);
}

#[test]
fn a_disabled_server_stays_so_whatever_is_behind_the_word() {
    let made = backend("server a 10.0.0.1:80 disabled check weight 10");
    assert!(made.text.contains("weight = 0 }"), "{}", made.text);
    let made = backend("default-server disabled\nserver a 10.0.0.1:80 weight 10 enabled");
    assert!(made.text.contains("weight = 10 }"), "{}", made.text);
}

#[test]
fn a_name_that_is_looked_up_again_and_again_is_told() {
    let made =
        backend("server a app.internal:80 resolvers dns\nserver b 10.0.0.1:80 resolvers dns");
    assert!(why(&made, "server a").contains("discover"), "{:?}", made.remarks);
    assert_eq!(why(&made, "server b"), "");
}

#[test]
fn words_of_a_cookie_are_carried_over_or_told() {
    let made = backend("cookie S insert secure domain .a.example maxlife 1h\nserver a 10.0.0.1:80");
    assert!(made.text.contains("secure = true }"), "{}", made.text);
    for word in ["`domain`", "`maxlife`"] {
        assert!(why(&made, "cookie S").contains(word), "{:?}", made.remarks);
    }
}

#[test]
fn numbers_from_the_environment_stay_or_are_told() {
    let made =
        backend("timeout client \"${T}\"\nretries \"$R\"\nmaxconn \"$M\"\nserver a 10.0.0.1:80");
    for line in ["timeout client", "retries"] {
        assert!(why(&made, line).contains("environment"), "{:?}", made.remarks);
    }
    assert!(made.text.contains("max_connections = \"${M}\""), "{}", made.text);
}

#[test]
fn the_port_of_several_is_not_that_of_the_first() {
    for bind in [":80,:8080", ":8000-8010"] {
        let made = file(&format!(
            "frontend f\n  mode http\n  bind {bind}\n  \
             http-request deny if {{ dst_port 80 8000 }}\n  \
             default_backend a\nbackend a\n  mode http\n  server s 10.0.0.1:80\n"
        ));
        assert!(why(&made, "http-request deny").contains("PROTECTED"), "{:?}", made.remarks);
    }
}

#[test]
fn a_hash_of_the_path_has_the_query_and_that_is_told() {
    let hash = |line: &str| why(&backend(&format!("{line}\nserver a 10.0.0.1:80")), "balance");
    assert!(hash("balance uri").contains("with its query"));
    assert!(hash("balance hash path").contains("with its query"));
    assert!(!hash("balance uri whole").contains("with its query"));
    assert!(!hash("balance hash pathq").contains("with its query"));
}

#[test]
fn a_backend_for_several_endings_keeps_its_requests_behind_a_rule_of_its_own() {
    let made = file(
        "frontend f\n  mode http\n  bind :80\n  acl img path_end .jpg .png\n  \
         use_backend st if img\n  default_backend a\n\
         backend a\n  mode http\n  server s 10.0.0.1:80\n\
         backend st\n  mode http\n  http-request set-header X-S 1\n  server s 10.0.0.2:80\n",
    );
    let images = made.text.split_once("\\\\.jpg").unwrap().1;
    let route = images.split_once("\n\n").unwrap().0;
    assert!(route.contains("\\\\.png") && route.contains("X-S = \"1\""), "{}", made.text);
    assert!(route.contains("service = \"st\"") && made.lost == 0, "{}", made.text);
}

#[test]
fn connections_that_no_rule_takes_come_to_no_server() {
    let made = file(
        "frontend f\n  bind :443\n  use_backend a if { req.ssl_sni a.example }\n\
         backend a\n  server s 10.0.0.1:443\n",
    );
    assert!(made.text.contains("service = \"none\"\nnames = ["), "{}", made.text);
    assert!(made.text.contains("{ name = \"a.example\", service = \"a\" }"), "{}", made.text);
    assert!(made.text.contains("where nobody listens"), "{}", made.text);
}

#[test]
fn requests_that_no_route_could_be_made_for_come_to_no_other_backend() {
    let rule = |n: usize| {
        let backend = ["a", "b"][n % 2];
        format!("use_backend {backend} if {{ hdr(host) h{n}.example }}\n")
    };
    let made = frontend(&(0..5_002).map(rule).collect::<String>());
    let routes = made.text.rsplit_once("[[routes.f]]\n").unwrap().1;
    let last = routes.split_once("\n\n").unwrap().0;
    assert!(last.starts_with("answer = { status = 503"), "{last}");
    assert!(made.text.contains("\n# THE RULES OF f MAKE TOO MANY ROUTES."));
    for line in [
        "use_backend a if { hdr(host) h5000.example }",
        "use_backend b if { hdr(host) h5001.example }",
        "default_backend a",
    ] {
        assert!(why(&made, line).contains("too many routes"), "{line}");
    }
}

#[test]
fn servers_are_told_the_client_where_its_own_header_is_removed() {
    let made = frontend("option forwardfor\nhttp-request del-header X-Forwarded-For");
    assert!(!made.text.contains("request_headers") && made.lost == 0, "{}", made.text);
    let made = frontend(
        "http-request del-header x-forwarded-proto\n\
         http-request set-header X-Forwarded-Proto https",
    );
    let expected = "request_headers.set = { X-Forwarded-Proto = \"https\" }";
    assert!(made.text.contains(expected) && !made.text.contains("remove"), "{}", made.text);
}

#[test]
fn a_header_of_responses_that_both_set_is_that_of_the_frontend() {
    let made = file(
        "frontend f\n  mode http\n  bind :80\n  http-response set-header X-A front\n  \
         http-response add-header X-B front\n  http-response del-header X-C\n  \
         default_backend a\n\
         backend a\n  mode http\n  http-response set-header X-A back\n  \
         http-response set-header X-B back\n  http-response set-header X-C back\n  \
         server s 10.0.0.1:80\n",
    );
    let route = made.text.split_once("[[routes.f]]\n").unwrap().1.split_once("\n\n").unwrap().0;
    for expected in [
        "answer_headers.set = { X-B = \"back\", X-A = \"front\" }",
        "answer_headers.add = { X-B = \"front\" }",
        "answer_headers.remove = \"X-C\"",
    ] {
        assert!(route.contains(expected), "{route}");
    }
    assert_eq!(made.lost, 0, "{:?}", made.remarks);
}

#[test]
fn a_header_of_responses_over_tls_alone_is_that_of_the_listener_with_tls() {
    let hsts = "http-response set-header Strict-Transport-Security max-age=1 if { ssl_fc }";
    let made = file(&format!(
        "frontend f\n  mode http\n  bind :80\n  bind :443 ssl crt a.pem\n  {hsts}\n  \
         default_backend a\nbackend a\n  mode http\n  server s 10.0.0.1:80\n",
    ));
    let (plain, tls) = made.text.split_once("bind = \":443\"").unwrap();
    assert!(!plain.contains("Strict-Transport-Security") && made.lost == 0, "{}", made.text);
    assert!(tls.contains("set = { Strict-Transport-Security = \"max-age=1\" }"), "{tls}");
    let made = frontend("http-response set-header X-A 1 if { path /x }");
    assert!(why(&made, "http-response").contains("do not depend"), "{:?}", made.remarks);
}

#[test]
fn a_header_of_responses_to_some_addresses_is_that_of_routes_for_them() {
    let made = frontend("http-response set-header X-A 1 if { src 10.0.0.0/8 }");
    let (inside, outside) = made.text.split_once("answer_headers.set = { X-A = \"1\" }").unwrap();
    assert!(inside.ends_with("[[routes.f]]\nsource = \"10.0.0.0/8\"\n"), "{}", made.text);
    assert!(!outside.contains("X-A") && made.remarks.is_empty(), "{}", made.text);
    let made = file(
        "frontend f\n  mode http\n  bind :80\n  default_backend a\n\
         backend a\n  mode http\n  http-response del-header X-B unless { src 10.0.0.0/8 }\n  \
         server s 10.0.0.1:80\n",
    );
    let (inside, outside) = made.text.split_once("source = \"10.0.0.0/8\"").unwrap();
    assert!(!inside.contains("X-B") && made.remarks.is_empty(), "{}", made.text);
    assert_eq!(outside.matches("answer_headers.remove = \"X-B\"").count(), 1, "{}", made.text);
    // Of a response itself nothing is known here.
    let made = frontend("http-response set-header X-A 1 if { src 10.0.0.0/8 } { status 200 }");
    assert!(why(&made, "http-response").contains("do not depend"), "{:?}", made.remarks);
}

#[test]
fn what_is_not_quite_the_same_of_queries_cookies_and_compression_is_told() {
    let made = frontend("http-request set-uri /u");
    assert!(why(&made, "http-request set-uri").contains("query"), "{:?}", made.remarks);
    assert_eq!(why(&frontend("http-request set-path /u"), "http-request"), "");
    let made = backend("cookie S insert indirect nocache\nserver a 10.0.0.1:80");
    assert!(why(&made, "cookie S").contains("servers see the cookie"), "{:?}", made.remarks);
    let made = backend("compression algo gzip\nserver a 10.0.0.1:80");
    assert!(why(&made, "compression algo").contains("compress.types"), "{:?}", made.remarks);
    let made = frontend("compression algo gzip\ncompression type text/html");
    assert!(why(&made, "compression algo").contains("services") && made.lost == 2);
}

#[test]
fn a_request_id_that_is_no_uuid_is_not_sent_as_one() {
    let made = frontend("http-request set-header X-Id %[uuid()]");
    assert!(!made.text.contains("= \"$request_id\"") && made.lost == 1, "{}", made.text);
    assert!(why(&made, "http-request").contains("no UUID"), "{:?}", made.remarks);
}

#[test]
fn alternatives_are_told_apart_by_or_in_any_case() {
    for or in ["or", "OR", "Or", "||"] {
        let rule = format!("acl x path /x\nhttp-request deny if x {or} {{ path /y }}");
        let made = frontend(&rule);
        assert!(made.text.contains("path = [\"/x\", \"/y\"]\ndeny = 403"), "{}", made.text);
    }
}

#[test]
fn variables_in_addresses_stay_variables_without_quotes_too() {
    let made = file(
        "frontend f\n  mode http\n  bind :$PORT\n  bind :${LOW}-${HIGH}\n  default_backend a\n\
         backend a\n  mode http\n  server s ${HOST}:${BPORT} check\n  server t $HOST:21002\n  \
         server u 10.0.0.1:+$SHIFT\n  server v $WHERE\n",
    );
    assert!(made.text.contains("bind = \":${PORT}\""), "{}", made.text);
    assert!(made.text.contains("\"${HOST}:${BPORT}\""), "{}", made.text);
    assert!(made.text.contains("\"${HOST}:21002\"") && !made.text.contains("$${"), "{}", made.text);
    for (line, expected) in [
        ("bind :${LOW}", "`:${LOW}-${HIGH}`"),
        ("server u", "`+${SHIFT}`"),
        ("server v", "`${WHERE}` is not known here"),
    ] {
        assert!(why(&made, line).contains(expected), "{:?}", made.remarks);
    }
    assert_eq!(made.lost, 3, "{:?}", made.remarks);
}

#[test]
fn a_rule_that_is_not_asked_of_some_requests_is_not_told_as_lost() {
    let rules = "http-request set-header X-A 1 if { path_beg /a/ }\n";
    let made = frontend(&format!("{rules}use_backend b if {{ path_end .pdf }}"));
    assert!(made.text.contains("path = \"~(?s)/a/.*(?:\\\\.pdf$).*\"\n"), "{}", made.text);
    assert!(made.remarks.is_empty(), "{:?}", made.remarks);
    let made = frontend(&format!("{rules}use_backend b if {{ path_reg [0-9]$ }}"));
    assert!(made.text.contains("service = \"b\"") && made.lost == 0, "{}", made.text);
    let told = why(&made, "use_backend b");
    assert!(told.starts_with("not for some requests: a route cannot ask"), "{told}");
    let made = frontend(&format!("{rules}http-request deny if {{ path_reg [0-9]$ }}"));
    let told = why(&made, "http-request deny");
    assert!(told.starts_with("THIS PROTECTED SOMETHING: not for some requests: "), "{told}");
}
