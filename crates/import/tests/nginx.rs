//! What lines of nginx become that were once carried over to something else, or silently lost.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::io;

use loadline_import::{Imported, Kind, import};

/// What is made of a server with these lines.
fn server(lines: &str) -> Imported {
    file(&format!("upstream s {{\n server 10.0.0.1:80;\n}}\nserver {{\nlisten 80;\n{lines}\n}}\n"))
}

fn file(text: &str) -> Imported {
    let none = |_: &str| Err(io::ErrorKind::NotFound.into());
    import(Kind::Nginx, "nginx.conf", text.to_owned(), &none).unwrap()
}

/// The reason that was given for the line that begins so; empty without one.
fn why(made: &Imported, start: &str) -> String {
    let remark = made.remarks.iter().find(|remark| remark.text.starts_with(start));
    remark.map(|remark| remark.why.clone()).unwrap_or_default()
}

/// Whether a line of the file is this one.
fn has(made: &Imported, line: &str) -> bool {
    made.text.lines().any(|it| it == line)
}

#[test]
fn a_server_with_ssl_on_has_tls() {
    let site = |more: &str| {
        file(&format!(
            "server {{\nlisten 443;\nssl on;\nssl_certificate a.pem;\nssl_certificate_key a.key;\n\
             {more}\nreturn 204;\n}}\n"
        ))
    };
    let made = site("listen 443 quic;");
    assert!(has(&made, "protocol = \"https\"") && made.remarks.is_empty(), "{}", made.text);
    let http = "http {\nssl on;\nserver {\nlisten 443;\nreturn 204;\n}\n}\n";
    assert!(why(&file(http), "server").contains("no certificate"), "{}", file(http).text);
}

#[test]
fn variables_that_are_not_quite_the_same_are_told() {
    let made = server(
        "location / {\nproxy_set_header X-A $http_host;\nproxy_set_header X-B ${uri};\n\
         proxy_set_header X-C $host;\nproxy_pass http://s;\n}",
    );
    assert!(why(&made, "proxy_set_header X-A").contains("without a port"), "{:?}", made.remarks);
    assert!(why(&made, "proxy_set_header X-B").contains("not decoded"), "{:?}", made.remarks);
    assert_eq!(why(&made, "proxy_set_header X-C"), "");
    let made = server("location / {\nadd_header X-B $uri always;\nproxy_pass http://s;\n}");
    assert!(why(&made, "add_header").contains("not decoded"), "{:?}", made.remarks);
    let made = server("return 301 https://a.example/?h=$http_host;");
    assert!(why(&made, "return").contains("without a port"), "{:?}", made.remarks);
}

#[test]
fn an_alias_without_a_slash_is_a_directory_with_one() {
    let made = server("location /img {\nalias /srv/pics;\n}");
    let redirect = "path = \"/img\"\nredirect = { rewrite = { path = \"/img/\" }, status = 301 }";
    assert!(made.text.contains(redirect), "{}", made.text);
    assert!(why(&made, "alias").contains("whole segments"), "{:?}", made.remarks);
    let made = server("location /robots.txt {\nalias /srv/robots.txt;\n}");
    assert!(!made.text.contains("status = 301"), "{}", made.text);
    let made = server("location /img/ {\nalias /srv/pics/;\n}");
    assert!(made.remarks.is_empty(), "{:?}", made.remarks);
}

#[test]
fn what_no_request_or_response_can_have_is_told() {
    let made = server("location /a?b/ {\nproxy_pass http://s;\n}");
    assert!(!made.text.contains("status = 301"), "{}", made.text);
    let made = server("return 301 \"/space \";");
    assert!(why(&made, "return").contains("spaces"), "{:?}", made.remarks);
    let made = server("location / {\nadd_header Connection close;\nproxy_pass http://s;\n}");
    assert!(why(&made, "add_header").contains("no header"), "{:?}", made.remarks);
    let made = server("location / {\nproxy_set_header X-A: 1;\nproxy_pass http://s;\n}");
    assert!(why(&made, "proxy_set_header").contains("no name"), "{:?}", made.remarks);
}

#[test]
fn settings_of_servers_that_cannot_be_said_are_told() {
    let made = server(
        "location / {\nproxy_connect_timeout 0;\nproxy_ssl_name a.example:8443;\n\
         proxy_pass https://10.0.0.9;\n}",
    );
    assert!(!made.text.contains("timeouts.connect ="), "{}", made.text);
    assert!(why(&made, "proxy_connect_timeout").contains("above zero"), "{:?}", made.remarks);
    assert!(has(&made, "tls.name = \"a.example\""), "{}", made.text);
}

#[test]
fn a_second_server_of_a_stream_at_one_address_is_told() {
    let one = |name: &str, server: &str| {
        format!("server {{\nlisten 443;\nserver_name {name};\nproxy_pass {server};\n}}\n")
    };
    let servers = one("a.example", "10.0.0.1:443") + &one("b.example", "10.0.0.2:443");
    let made = file(&format!("stream {{\n{servers}}}\n"));
    assert!(why(&made, "listen 443").contains("bound above"), "{:?}", made.remarks);
    assert_eq!(made.text.matches("bind = \":443\"").count(), 1, "{}", made.text);
}

#[test]
fn a_page_that_is_tried_last_is_that_for_paths_without_a_file() {
    let made = server("root /srv/www;\nlocation / {\ntry_files $uri $uri/ /index.html =404;\n}");
    assert!(made.text.contains("error_page = \"/index.html\""), "{}", made.text);
    assert!(why(&made, "try_files").contains("not 200"), "{:?}", made.remarks);
}

#[test]
fn of_a_directory_of_which_one_page_is_sent_no_other_file_is() {
    let tried =
        |files: &str| server(&format!("root /srv/www;\nlocation / {{\ntry_files {files};\n}}\n"));
    let made = tried("/maintenance.html =404");
    assert!(has(&made, "rewrite = { path = \"/maintenance.html\" }"), "{}", made.text);
    assert!(made.text.contains("file:///srv/www") && made.lost == 0, "{}", made.text);
    assert!(!made.text.contains("error_page"), "{}", made.text);
    for files in ["/a.html /b.html =404", "/none @app", "/none /index.php", "/empty/ =404"] {
        let made = tried(files);
        assert!(made.text.contains("deny = 404"), "{}", made.text);
        assert!(!made.text.contains("file://"), "{}", made.text);
        assert!(why(&made, "try_files").contains("gets 404"), "{:?}", made.remarks);
    }
}

#[test]
fn a_variable_in_the_path_of_a_server_is_told_as_that() {
    let made = server("location ~ ^/x/(.*)$ {\nproxy_pass http://s/q/$1;\n}");
    assert!(why(&made, "proxy_pass").contains("path has a variable"), "{:?}", made.remarks);
    let made = server("location / {\nproxy_pass http://$a/q;\n}");
    assert!(why(&made, "proxy_pass").contains("name of its own"), "{:?}", made.remarks);
}

#[test]
fn variables_that_are_set_once_and_for_all_name_servers() {
    let app = "set $upstream_app calibre-web;\nset $upstream_port 8083;\n\
               set $upstream_proto http;\n\
               proxy_pass $upstream_proto://$upstream_app:${upstream_port};";
    let made = server(&format!("location / {{\nproxy_set_header Host $host;\n{app}\n}}"));
    assert!(made.text.contains("    \"calibre-web:8083\","), "{}", made.text);
    assert!(made.remarks.is_empty(), "{:?}", made.remarks);
    let made = server("set $up 10.0.0.7:80;\nlocation /a {\nproxy_pass http://$up;\n}");
    assert!(made.text.contains("    \"10.0.0.7:80\",") && made.lost == 0, "{}", made.text);
    // Not the same for all requests, or with a path, which means another one then.
    for lines in [
        "set $up a;\nif ($http_x) {\nset $up b;\n}\nlocation / {\nproxy_pass http://$up;\n}",
        "set $up $arg_x;\nlocation / {\nproxy_pass http://$up;\n}",
        "location / {\nset $up a;\nproxy_pass http://$up/x;\n}",
        "location / {\nset $up a;\nlocation /b {\nproxy_pass http://$up;\n}\n}",
    ] {
        let made = server(lines);
        assert!(why(&made, "proxy_pass").contains("name of its own"), "{lines}: {}", made.text);
        assert!(!why(&made, "set $up").is_empty(), "{lines}: {:?}", made.remarks);
    }
}

#[test]
fn settings_of_one_location_are_not_those_of_another() {
    let made = server(
        "location / {\nproxy_pass http://s;\n}\n\
         location /fast {\nproxy_read_timeout 1s;\nproxy_pass http://s;\n}\n\
         location /more {\nproxy_pass http://s;\n}",
    );
    assert!(has(&made, "[service.s]") && has(&made, "[service.s-2]"), "{}", made.text);
    assert!(!has(&made, "[service.s-2-2]"), "{}", made.text);
    assert_eq!(made.text.matches("timeouts.head = \"1s\"").count(), 1, "{}", made.text);
    let fast = made.text.split_once("path = \"~(?s)/fast.*\"").unwrap().1;
    let name = fast.split_once("\nservice = \"").unwrap().1.split('"').next().unwrap();
    let service = made.text.split_once(&format!("[service.{name}]\n")).unwrap().1;
    let (keys, _) = service.split_once("[[").unwrap();
    assert!(keys.contains("timeouts.head = \"1s\""), "{}", made.text);
    let made = server(
        "location /a {\nproxy_pass https://10.0.0.9;\nproxy_ssl_verify on;\n}\n\
         location /b {\nproxy_pass https://10.0.0.9;\nproxy_ssl_verify off;\n}",
    );
    assert_eq!(made.text.matches("tls.verify = false").count(), 1, "{}", made.text);
}

#[test]
fn a_location_for_nobody_is_closed() {
    let made = server("location /files/ {\ninternal;\nproxy_pass http://s;\n}");
    assert!(made.text.contains("path = \"~(?s)/files/.*\"\ndeny = 404"), "{}", made.text);
    assert!(why(&made, "internal").contains("404"), "{:?}", made.remarks);
}

#[test]
fn refusals_that_are_lost_are_told_apart() {
    for lines in [
        "location / {\nif ($geo) {\nreturn 403;\n}\nproxy_pass http://s;\n}",
        "location /static/ {\nproxy_pass http://s;\nlocation ~ [0-9]$ {\nreturn 403;\n}\n}",
        "location ~ ^/(?!a) {\nlocation /b {\nreturn 403;\n}\n}",
        "location / {\nproxy_pass http://s;\nlimit_except GET {\ndeny all;\n}\n}",
        "location / {\nproxy_pass http://s;\nlimit_conn one 1;\n}",
        "access_by_lua_block { x() }",
        "access_by_lua_file /a.lua;",
        "modsecurity on;",
    ] {
        let made = server(lines);
        let is_told = made.remarks.iter().any(|it| it.why.contains("PROTECTED"));
        assert!(is_told, "{lines}\n{:?}", made.remarks);
    }
}

#[test]
fn a_new_path_is_not_sent_to_the_old_location() {
    let made = server(
        "location /old/ {\nrewrite ^/old/(.*)$ /new/$1 last;\n}\n\
         location /new/ {\nproxy_pass http://s;\n}",
    );
    assert!(why(&made, "rewrite").contains("location of the new path"), "{:?}", made.remarks);
    assert!(!made.text.contains("\nrewrite ="), "{}", made.text);
    // The location of the new path is the same here.
    let made = server(
        "location = / {\nreturn 204;\n}\n\
         location / {\nrewrite ^/old/(.*)$ /new/$1 last;\nproxy_pass http://s;\n}",
    );
    assert!(made.text.contains("\nrewrite ="), "{}", made.text);
}

#[test]
fn a_location_without_the_slash_gets_its_requests() {
    let lines = "location /app/ {\nproxy_pass http://s;\n}";
    assert!(server(lines).text.contains("status = 301"));
    let made = server(&format!("location /app {{\nreturn 204;\n}}\n{lines}"));
    assert!(!made.text.contains("status = 301"), "{}", made.text);
}

#[test]
fn an_unanchored_rewrite_takes_the_first_part_that_it_finds() {
    let made = server("location / {\nrewrite /v1/(.*) /v2/$1 break;\nproxy_pass http://s;\n}");
    let expected = r#"rewrite = { regex = "^(?s).*?(?:/v1/(.*)).*$", to = "/v2/$1" }"#;
    assert!(has(&made, expected), "{}", made.text);
}

#[test]
fn headers_of_one_name_are_not_lost_without_a_word() {
    let made = server(
        "location / {\nadd_header Link a always;\nadd_header Link b always;\n\
         proxy_set_header X-A 1;\nproxy_set_header X-A 2;\nproxy_pass http://s;\n}",
    );
    assert!(why(&made, "add_header Link b").contains("one field"), "{:?}", made.remarks);
    assert!(has(&made, "answer_headers.add = { Link = \"a\" }"), "{}", made.text);
    assert!(has(&made, "request_headers.add = { X-A = \"2\" }"), "{}", made.text);
}

#[test]
fn headers_go_with_fixed_responses_and_redirects() {
    let made = server(
        "add_header Strict-Transport-Security max-age=1 always;\n\
         location /a {\nreturn 302 /b;\n}\nlocation /c {\nreturn 403;\n}",
    );
    let expected = "answer = { status = 302, headers = { Location = \"/b\", \
                    Strict-Transport-Security = \"max-age=1\" } }";
    assert!(has(&made, expected), "{}", made.text);
    assert!(why(&made, "return 403").contains("not sent with it"), "{:?}", made.remarks);
    let made = server("location /a {\ndefault_type application/json;\nreturn 200 '{}';\n}");
    let expected = "answer = { status = 200, body = \"{}\", headers = { Content-Type = \
                    \"application/json\" } }";
    assert!(has(&made, expected), "{}", made.text);
}

#[test]
fn what_differs_of_headers_is_told() {
    let made =
        server("location / {\nadd_header X-A 1;\nadd_header X-B 1;\nproxy_pass http://s;\n}");
    assert!(why(&made, "add_header X-A").contains("always"), "{:?}", made.remarks);
    assert_eq!(why(&made, "add_header X-B"), "");
    let made = server("location / {\nproxy_set_header Host $host;\nproxy_pass http://s;\n}");
    assert_eq!(why(&made, "proxy_pass"), "");
    let made = server("location /a/ {\nproxy_set_header Host $host;\nproxy_pass http://s/;\n}");
    assert!(why(&made, "proxy_pass").contains("proxy_redirect"), "{:?}", made.remarks);
    let made = server("location / {\nproxy_redirect http://a/ /;\nproxy_pass http://s;\n}");
    assert!(why(&made, "proxy_redirect").contains("stays"), "{:?}", made.remarks);
}

#[test]
fn a_server_at_a_unix_socket_stays_one() {
    let made = file(
        "upstream app {\nserver unix:/run/gunicorn.sock fail_timeout=0;\n}\n\
         server {\nlisten 80;\nlocation / {\nproxy_pass http://app;\n}\n\
         location /a/ {\nproxy_pass http://unix:/run/a.sock:/b/;\n}\n}\n",
    );
    assert!(made.text.contains("    \"unix:/run/gunicorn.sock\","), "{}", made.text);
    assert!(made.text.contains("    \"unix:/run/a.sock\","), "{}", made.text);
    assert!(has(&made, "rewrite = { prefix = \"/a/\", to = \"/b/\" }"), "{}", made.text);
    assert!(has(&made, "request_headers.set = { Host = \"localhost\" }"), "{}", made.text);
    assert!(!made.text.contains("app:80") && made.lost == 0, "{}", made.text);
}

#[test]
fn two_sockets_whose_names_look_alike_are_two_services() {
    let made = server(
        "location /a/ {\nproxy_pass http://unix:/run/app/web.sock;\n}\n\
         location /b/ {\nproxy_pass http://unix:/run/app-web.sock;\n}",
    );
    for socket in ["    \"unix:/run/app/web.sock\",", "    \"unix:/run/app-web.sock\","] {
        assert!(has(&made, socket), "{socket}: {}", made.text);
    }
    for name in ["unix--run-app-web.sock", "unix--run-app-web.sock-2"] {
        assert!(has(&made, &format!("service = \"{name}\"")), "{name}: {}", made.text);
    }
    assert!(!made.text.contains("with other settings"), "{}", made.text);
}

#[test]
fn upstreams_of_http_and_of_stream_are_not_mixed_up() {
    let http = |server: &str| {
        format!(
            "http {{\nupstream app {{\nserver {server};\n}}\nserver {{\nlisten 80;\n\
             location / {{\nproxy_pass http://app;\n}}\n}}\n}}\n"
        )
    };
    let stream = "stream {\nupstream app {\nserver 10.0.0.2:5432;\n}\n\
                  server {\nlisten 5432;\nproxy_pass app;\n}\n}\n";
    let made = file(&(http("10.0.0.1:0") + stream));
    assert!(made.text.contains("\"10.0.0.2:5432\"") && has(&made, "service = \"app\""));
    for text in [http("10.0.0.1:80") + stream, stream.to_owned() + &http("10.0.0.1:80")] {
        let made = file(&text);
        for line in ["service = \"app\"", "service = \"app-2\"", "[service.app]", "[service.app-2]"]
        {
            assert!(has(&made, line), "{line}: {}", made.text);
        }
    }
}

#[test]
fn an_upstream_that_is_lost_is_no_name_of_a_host() {
    let made = file(
        "upstream app {\nserver 10.0.0.1:0;\n}\n\
         server {\nlisten 80;\nlocation / {\nproxy_pass http://app;\n}\n}\n",
    );
    assert!(!made.text.contains("app:80"), "{}", made.text);
    assert!(made.text.contains("deny = 502"), "{}", made.text);
    assert!(why(&made, "proxy_pass").contains("no server"), "{:?}", made.remarks);
}

#[test]
fn the_proxy_protocol_of_a_stream_is_accepted() {
    let made = file(
        "stream {\nserver {\nlisten 26114 proxy_protocol;\nlisten 26115;\n\
         proxy_pass 10.0.0.1:80;\n}\n}\n",
    );
    assert!(has(&made, "accept_proxy = true"), "{}", made.text);
    assert!(why(&made, "listen 26115").contains("on all addresses"), "{:?}", made.remarks);
}

#[test]
fn names_of_headers_with_an_underscore_stay() {
    let made = server("underscores_in_headers on;\nlocation / {\nproxy_pass http://s;\n}");
    assert!(has(&made, "underscore_headers = \"keep\""), "{}", made.text);
}

#[test]
fn a_file_with_little_text_is_one_of_nginx() {
    for text in ["events { }\nhttp { server { listen 80; } }", "server { listen 80; return 404; }"]
    {
        assert_eq!(Kind::of("x.conf", text), Some(Kind::Nginx), "{text}");
    }
    let caddy = "a.example {\n  header X \"a; b\"\n  respond \"x\"\n}\n";
    assert_eq!(Kind::of("x.conf", caddy), Some(Kind::Caddy));
}

#[test]
fn weights_above_the_highest_stay_in_proportion() {
    let weights = |servers: &[&str]| {
        let lines = servers.iter().enumerate();
        let lines: String = lines.map(|(n, it)| format!("server 10.0.0.{n}:80 {it};\n")).collect();
        let text = format!(
            "upstream s {{\n{lines}}}\nserver {{\nlisten 80;\n\
             location / {{\nproxy_pass http://s;\n}}\n}}\n"
        );
        file(&text)
    };
    let made = weights(&["weight=5000", "weight=1000", "weight=2000 down"]);
    for server in ["0:80\", weight = 5 }", "1:80\", weight = 1 }", "2:80\", weight = 0 }"] {
        assert!(made.text.contains(server), "{server}: {}", made.text);
    }
    assert_eq!(why(&made, "upstream"), "");
    let made = weights(&["weight=5001", "weight=2500", ""]);
    for server in ["0:80\", weight = 1000 }", "1:80\", weight = 500 }", "2:80\", weight = 1 }"] {
        assert!(made.text.contains(server), "{server}: {}", made.text);
    }
    assert!(why(&made, "upstream").contains("rounded"), "{:?}", made.remarks);
    let made = weights(&["weight=6", "weight=4"]);
    assert!(made.text.contains("weight = 6 }") && made.text.contains("weight = 4 }"));
}

#[test]
fn an_index_that_another_location_runs_is_not_sent_as_a_file() {
    let php = "location ~ \\.php$ {\nfastcgi_pass 127.0.0.1:9000;\n}";
    let made = server(&format!("root /srv/www;\nindex index.php index.htm;\n{php}"));
    assert!(!made.text.contains("index.php\" }"), "{}", made.text);
    assert!(made.text.contains("index = \"index.htm\" }"), "{}", made.text);
    assert!(why(&made, "index index.php").contains("one index"), "{:?}", made.remarks);
    let made = server(&format!("root /srv/www;\nindex index.php;\n{php}"));
    assert!(!made.text.contains("index ="), "{}", made.text);
    assert!(why(&made, "index index.php").contains("one index"), "{:?}", made.remarks);
    let closed = "location = /start.html {\nproxy_pass http://s;\n}";
    let made = server(&format!("root /srv/www;\nindex start.html a.html;\n{closed}"));
    assert!(made.text.contains("index = \"a.html\" }"), "{}", made.text);
    let made = server("root /srv/www;\nindex a.html;");
    assert!(made.text.contains("index = \"a.html\" }") && made.remarks.is_empty());
}

#[test]
fn clients_that_another_server_of_the_address_verifies_are_told() {
    let tls = "ssl_certificate a.pem;\nssl_certificate_key a.key;";
    let verify = "ssl_verify_client on;\nssl_client_certificate ca.pem;";
    let servers = |first: &str, second: &str| {
        file(&format!(
            "server {{\nlisten 443 ssl;\nserver_name a.example;\n{tls}\n{first}\nreturn 204;\n}}\n\
             server {{\nlisten 443 ssl;\nserver_name b.example;\n{tls}\n{second}\nreturn 204;\n}}\n"
        ))
    };
    let made = servers("", verify);
    assert!(why(&made, "ssl_verify_client").contains("PROTECTED"), "{:?}", made.remarks);
    let made = servers(verify, "");
    assert!(made.text.contains("client_authorities = \"ca.pem\""), "{}", made.text);
    assert!(made.text.contains("need a certificate"), "{}", made.text);
    let made = servers(verify, verify);
    assert!(made.remarks.is_empty(), "{:?}", made.remarks);
    let made = servers("ssl_verify_client on;", "");
    assert!(why(&made, "ssl_verify_client").contains("PROTECTED"), "{:?}", made.remarks);
}

#[test]
fn http3_is_spoken_where_nginx_speaks_it() {
    let site = |lines: &str| {
        file(&format!(
            "server {{\nlisten 443 ssl;\nlisten [::]:443 ssl;\nssl_certificate a.pem;\n\
             ssl_certificate_key a.key;\n{lines}\nreturn 204;\n}}\n"
        ))
    };
    assert!(has(&site(""), "http3 = false"));
    let made = site("listen 443 quic reuseport;\nhttp3 on;");
    assert!(!made.text.contains("http3 =") && made.remarks.is_empty(), "{}", made.text);
    assert!(has(&site("listen 443 quic;\nhttp3 off;"), "http3 = false"));
    let made = server("listen 443 quic;\nreturn 204;");
    assert!(why(&made, "listen 443 quic").contains("beside HTTPS"), "{:?}", made.remarks);
}

#[test]
fn a_stream_is_idle_as_long_as_nginx_lets_it() {
    for (line, expected) in [("", "10m"), ("proxy_timeout 1h;", "1h")] {
        let made = file(&format!(
            "stream {{\nserver {{\nlisten 26116;\n{line}\nproxy_pass 10.0.0.1:80;\n}}\n}}\n"
        ));
        let idle = format!("timeouts.idle = \"{expected}\"");
        assert_eq!(made.text.matches(&idle).count(), 2, "{}", made.text);
    }
}

#[test]
fn a_request_uri_is_not_asked_for_by_its_path_where_it_is_the_query() {
    let test = |regex: &str| {
        let lines = format!("if ($request_uri ~* \"{regex}\") {{\nreturn 403;\n}}\nreturn 204;");
        server(&lines)
    };
    for regex in ["union.*select", "^/a\\?b=", "^/a$"] {
        let made = test(regex);
        assert!(why(&made, "if").contains("apart"), "{regex}: {:?}", made.remarks);
        assert!(why(&made, "return 403").contains("PROTECTED"), "{:?}", made.remarks);
    }
    assert!(test("^/admin/").text.contains("deny = 403"));
}

#[test]
fn files_are_compressed_as_well() {
    let made = server("gzip on;\nroot /srv/www;\nlocation /raw/ {\ngzip off;\n}");
    assert_eq!(made.text.matches("compress.algorithms").count(), 1, "{}", made.text);
    assert_eq!(made.text.matches("store = ").count(), 2, "{}", made.text);
}

#[test]
fn the_least_size_of_what_is_compressed_is_that_of_nginx() {
    let least = |size: &str| {
        let lines = format!("gzip on;\ngzip_min_length {size};\nlocation / {{");
        server(&format!("{lines}\nproxy_pass http://s;\n}}"))
    };
    for (size, expected) in [("256", "256B"), ("10k", "10KiB"), ("0", "0B")] {
        let made = least(size);
        let line = format!("compress.min_size = \"{expected}\"");
        assert!(has(&made, &line) && made.lost == 0, "{line}: {}", made.text);
        assert!(!why(&made, "gzip on").contains("1kB"), "{:?}", made.remarks);
    }
    let made = least("2g");
    assert!(!made.text.contains("\ncompress.min_size"), "{}", made.text);
    assert!(why(&made, "gzip_min_length").contains("at most"), "{:?}", made.remarks);
}

#[test]
fn no_keep_alive_is_not_one_without_end() {
    let made = server("keepalive_timeout 0;\nreturn 204;");
    assert!(has(&made, "timeouts.keep_alive = \"1s\""), "{}", made.text);
    assert!(why(&made, "keepalive_timeout").contains("a second"), "{:?}", made.remarks);
}

#[test]
fn where_there_are_no_files_the_named_location_responds() {
    let app = "location @app {\nproxy_set_header X-A 1;\nexpires max;\n\
               proxy_pass http://10.0.0.1:3000;\n}";
    let made = server(&format!("location / {{\ntry_files /none @app;\n}}\n{app}"));
    assert!(!made.text.contains("deny = 404"), "{}", made.text);
    assert!(made.text.contains("service = \"10.0.0.1-3000\""), "{}", made.text);
    assert!(made.text.contains("X-A = \"1\""), "{}", made.text);
    assert!(why(&made, "try_files").contains("no file is tried"), "{:?}", made.remarks);
    assert!(why(&made, "expires").contains("errors have it too"), "{:?}", made.remarks);
    assert_eq!(made.lost, 1, "{:?}", made.remarks);
    // Nothing leads to it where there are files, and nothing is tried without any.
    let made = server(&format!("root /srv;\nlocation / {{\ntry_files $uri @app;\n}}\n{app}"));
    assert!(why(&made, "location @app").contains("named location"), "{:?}", made.remarks);
    let made = server("location / {\ntry_files $uri =404;\n}");
    assert!(why(&made, "try_files").contains("no `root`"), "{:?}", made.remarks);
    let made = server("location / {\ntry_files /x @a;\n}\nlocation @a {\ntry_files /x @a;\n}");
    assert!(made.text.contains("deny = 404"), "{}", made.text);
    assert!(why(&made, "try_files").contains("no `root`"), "{:?}", made.remarks);
}

#[test]
fn a_body_may_be_as_long_as_where_the_named_location_is_named() {
    let app =
        |lines: &str| format!("location @app {{\n{lines}\nproxy_pass http://10.0.0.1:80;\n}}");
    let outer = "location / {\nclient_max_body_size 20m;\ntry_files /none @app;\n}";
    let made = server(&format!("{outer}\n{}", app("")));
    assert!(has(&made, "max_body = \"20MiB\""), "{}", made.text);
    let made = server(&format!("{outer}\n{}", app("client_max_body_size 5m;")));
    assert!(has(&made, "max_body = \"20MiB\"") && !made.text.contains("5MiB"), "{}", made.text);
    assert!(why(&made, "client_max_body_size 5m").contains("try_files"), "{:?}", made.remarks);
}

#[test]
fn an_alias_of_one_path_is_a_file() {
    let made = server("location = /robots.txt {\nalias /srv/public/robots-all.txt;\n}");
    assert!(has(&made, "rewrite = { path = \"/robots-all.txt\" }"), "{}", made.text);
    assert!(made.text.contains("file:///srv/public\""), "{}", made.text);
}

#[test]
fn a_dot_before_the_name_of_a_server_is_not_in_its_redirects() {
    let made = server(
        "server_name .example.com;\nadd_header X-S $server_name always;\n\
         return 301 https://$server_name$request_uri;",
    );
    let expected = "redirect = { scheme = \"https\", host = \"example.com\", status = 301 }";
    assert!(made.text.contains(expected), "{}", made.text);
    assert!(!made.text.contains("\".example.com"), "{}", made.text);
}

#[test]
fn a_header_with_the_client_that_is_not_read_is_told() {
    let made =
        server("set_real_ip_from 10.0.0.0/8;\nreal_ip_header CF-Connecting-IP;\nreturn 204;");
    assert!(why(&made, "real_ip_header").contains("CF-Connecting-IP"), "{:?}", made.remarks);
    let made = server("set_real_ip_from 10.0.0.0/8;\nreturn 204;");
    assert!(why(&made, "set_real_ip_from").contains("X-Real-IP"), "{:?}", made.remarks);
    let made = server("set_real_ip_from 10.0.0.0/8;\nreal_ip_header X-Forwarded-For;\nreturn 204;");
    assert!(made.remarks.is_empty(), "{:?}", made.remarks);
}

#[test]
fn a_location_whose_modifier_has_no_space_behind_it_is_an_expression() {
    let made = server("location ~/\\.ht {\ndeny all;\n}\nlocation / {\nproxy_pass http://s;\n}");
    let closed = "path = \"~(?s).*(?:/\\\\.ht).*\"\ndeny = 403";
    assert!(made.text.contains(closed), "{}", made.text);
    let made = server("location ^~/a {\nreturn 403;\n}\nlocation ~ x$ {\nreturn 404;\n}");
    let order = [made.text.find("deny = 403").unwrap(), made.text.find("deny = 404").unwrap()];
    assert!(made.text.contains("path = \"~(?s)/a.*\"") && order.is_sorted(), "{}", made.text);
}

#[test]
fn what_is_empty_is_the_same_as_what_is_absent() {
    let test = |asked: &str| {
        let lines = format!("if ({asked}) {{\nreturn 403;\n}}");
        let made = server(&format!("{lines}\nlocation / {{\nproxy_pass http://s;\n}}"));
        let (_, routes) = made.text.split_once("[[routes").unwrap();
        routes.split_once("[[service").unwrap().0.to_owned()
    };
    for asked in ["$http_authorization = \"\"", "$http_authorization ~ \"^$\""] {
        let routes = test(asked);
        let (with, without) = routes.split_once("deny = 403").unwrap();
        assert!(with.contains("header = { authorization = \"~.+\" }\n"), "{routes}");
        assert!(with.contains("service = \"s\"") && !without.contains("header"), "{routes}");
    }
    let routes = test("$arg_x");
    assert!(routes.contains("query = { x = \"~[^0].*|0.+\" }\ndeny = 403"), "{routes}");
    let routes = test("$http_referer !~ \"^(|https://a/.*)$\"");
    assert!(routes.contains("header = { referer = \"*\" }\ndeny = 403"), "{routes}");
    let routes = test("$http_user_agent ~ \"^(|curl)$\"");
    let (some, rest) = routes.split_once("deny = 403").unwrap();
    assert!(some.contains("user-agent = \"~(?s).*(?:^(|curl)$).*\" }"), "{routes}");
    assert!(rest.contains("user-agent = \"*\" }") && rest.contains("deny = 403"), "{routes}");
}

#[test]
fn a_parameter_of_which_nginx_takes_the_first_in_any_case_is_told() {
    let test = |lines: &str| {
        let made = server(&format!("if ($arg_debug = 1) {{\n{lines}\n}}\nreturn 204;"));
        why(&made, "if")
    };
    assert!(test("return 403;").contains("PROTECTED"));
    let told = test("return 302 /x;");
    assert!(told.contains("first of several") && !told.contains("PROTECTED"), "{told}");
}

#[test]
fn what_is_within_the_longest_prefix_is_asked_before_expressions_beside_it() {
    let made = server(
        "location /a/ {\nproxy_pass http://s;\nlocation ~ ^/a/d {\nreturn 401;\n}\n}\n\
         location /a/dd/ {\nreturn 402;\n}\nlocation ~ [0-9]$ {\nreturn 404;\n}",
    );
    let at = |text: &str| made.text.find(text).unwrap();
    assert!(at("deny = 401") < at("[0-9]$"), "{}", made.text);
    // Those below the longer prefix are not asked for the expression within the shorter one.
    assert!(at("path = \"~(?s)/a/dd/.*\"\ndeny = 402") < at("deny = 401"), "{}", made.text);
    assert!(why(&made, "return 404").contains("not for some requests"), "{:?}", made.remarks);
    assert!(why(&made, "return 404").contains("PROTECTED"), "{:?}", made.remarks);
    assert_eq!(made.lost, 0, "{:?}", made.remarks);
}

#[test]
fn an_expression_within_a_prefix_is_asked_below_it_alone() {
    let made = server(
        "location /app/ {\nproxy_pass http://s;\nlocation ~ \\.php$ {\nreturn 402;\n}\n\
         location ~* /\\.ht {\nreturn 401;\n}\n}\n\
         location ^~ /app/raw/ {\nproxy_pass http://s;\n}\n\
         location ~ \\.php$ {\nreturn 404;\n}",
    );
    let at = |text: &str| made.text.find(text).unwrap();
    let own = at("path = \"~(?s)/app/.*(?:\\\\.php$).*\"\ndeny = 402");
    at("path = \"~(?s)/app/(?:.*/)?(?:(?i)\\\\.ht).*\"\ndeny = 401");
    assert!(own < at("path = \"~(?s).*(?:\\\\.php$).*\"\ndeny = 404"), "{}", made.text);
    assert!(at("path = \"~(?s)/app/raw/.*\"") < own, "{}", made.text);
    assert_eq!(made.lost, 0, "{:?}", made.remarks);
}

#[test]
fn an_expression_beside_a_prefix_is_asked_below_it_as_well() {
    let made = server(
        "location /a/ {\nproxy_pass http://s;\nlocation /a/b/ {\nproxy_pass http://s;\n}\n}\n\
         location /a/c/ {\nproxy_pass http://s;\n}\nlocation ~ \\.php$ {\nreturn 404;\n}",
    );
    assert_eq!(why(&made, "return 404"), "", "{}", made.text);
    assert_eq!(made.lost, 0, "{:?}", made.remarks);
}

#[test]
fn a_location_within_an_internal_one_is_closed() {
    let made = server(
        "location /s {\ninternal;\nproxy_pass http://s;\n\
         location /s/a {\nproxy_pass http://10.0.0.2:80;\n}\n}",
    );
    assert!(!made.text.contains("10.0.0.2"), "{}", made.text);
    assert!(made.text.contains("deny = 404"), "{}", made.text);
}

#[test]
fn a_location_within_another_has_no_rewrites_of_it() {
    let made = server(
        "location /a {\nif ($request_method = POST) {\nreturn 405;\n}\nreturn 301 /x;\n\
         location /a/b {\nproxy_pass http://s;\n}\nlocation = /a/c {\nreturn 204;\n}\n}",
    );
    let routes: Vec<_> = made.text.split("[[routes").collect();
    let at = |text: &str| routes.iter().position(|it| it.contains(text)).unwrap();
    for inner in ["path = \"~(?s)/a/b.*\"", "status = 204"] {
        assert!(at(inner) < at("deny = 405"), "{inner}: {}", made.text);
    }
    assert_eq!(made.text.matches("method =").count(), 1, "{}", made.text);
}

#[test]
fn a_path_that_a_rewrite_does_not_change_is_changed_by_the_proxy() {
    let made = server(
        "location /app/ {\nrewrite ^/app/$ /app/index.html break;\nproxy_pass http://s/;\n}",
    );
    for change in [
        "rewrite = { regex = \"^/app/$\", to = \"/app/index.html\" }",
        "rewrite = { prefix = \"/app/\", to = \"/\" }",
    ] {
        assert!(has(&made, change), "{change}: {}", made.text);
    }
    assert_eq!(made.lost, 0, "{:?}", made.remarks);
}

#[test]
fn what_is_behind_a_break_is_not_asked() {
    let made = server(
        "location /ok {\nif ($http_x_ok = 1) {\nbreak;\n}\nreturn 403;\nproxy_pass http://s;\n}",
    );
    let (open, closed) = made.text.split_once("deny = 403").unwrap();
    assert!(open.contains("header = { x-ok = \"1\" }\n"), "{}", made.text);
    assert!(!closed.contains("x-ok") && made.lost == 0, "{}", made.text);
    let made = server(
        "location /d/ {\nrewrite ^/d/(.*)$ /e/$1 break;\nreturn 403;\nproxy_pass http://s;\n}\n\
         location /f/ {\nbreak;\nreturn 401;\nproxy_pass http://s;\n}",
    );
    let (open, _) = made.text.split_once("deny = 403").unwrap();
    assert!(open.contains("path = \"~/d/(.*)\"\nrewrite ="), "{}", made.text);
    assert!(!made.text.contains("deny = 401") && made.lost == 0, "{}", made.text);
    // What is left out takes no refusal behind the rewrites with it.
    let made = server(
        "location /x/ {\nif ($http_x_ok = 1) {\nbreak;\n}\nrewrite ^/y/ /z break;\nreturn 301 /;\n\
         deny all;\nproxy_pass http://s;\n}",
    );
    let (_, routes) = made.text.split_once("[[routes").unwrap();
    let route = routes.split("[[routes").find(|it| it.contains("x-ok")).unwrap();
    assert!(route.contains("deny = 403"), "{}", made.text);
}

#[test]
fn the_host_for_servers_is_in_lower_case_with_the_port_that_is_written() {
    let host = |value: &str| {
        server(&format!("location / {{\nproxy_set_header Host {value};\nproxy_pass http://s;\n}}"))
    };
    for (value, expected) in
        [("$host", "$host"), ("$host:$server_port", "$host:80"), ("$host:$proxy_port", "$host:80")]
    {
        let made = host(value);
        let line = format!("request_headers.set = {{ Host = \"{expected}\" }}");
        assert!(has(&made, &line), "{line}: {}", made.text);
    }
    assert!(!host("$http_host").text.contains("Host ="));
    let made = host("\"\"");
    assert!(why(&made, "proxy_set_header").contains("has a `Host`"), "{:?}", made.remarks);
    assert!(!made.text.contains("request_headers"), "{}", made.text);
}

#[test]
fn the_forwarded_host_is_in_lower_case_without_a_port_where_nginx_says_host() {
    let forwarded = |value: &str| {
        server(&format!(
            "location / {{\nproxy_set_header X-Forwarded-Host {value};\nproxy_pass http://s;\n}}"
        ))
    };
    let made = forwarded("$host");
    assert!(made.text.contains("X-Forwarded-Host = \"$host\""), "{}", made.text);
    assert_eq!(why(&made, "proxy_set_header"), "");
    let made = forwarded("$http_host");
    assert!(!made.text.contains("X-Forwarded-Host"), "{}", made.text);
}

#[test]
fn each_server_of_a_port_has_its_own_limit_of_bodies() {
    let servers = |first: &str| {
        file(&format!(
            "server {{\nlisten 80;\nserver_name a.example;\n{first}\n}}\nserver {{\nlisten 80;\n\
             server_name b.example;\nlocation / {{\nproxy_pass http://10.0.0.1:80;\n}}\n}}\n"
        ))
    };
    for first in ["client_max_body_size 1k;", "client_max_body_size 0;"] {
        let made = servers(first);
        assert_eq!(made.text.matches("max_body = \"1MiB\"").count(), 1, "{first}: {}", made.text);
    }
    assert_eq!(servers("").text.matches("max_body").count(), 1);
}

#[test]
fn the_client_of_the_proxy_protocol_is_told_where_nginx_does_not_take_it() {
    let made = |more: &str| {
        file(&format!("server {{\nlisten 80 proxy_protocol;\n{more}\nreturn 204;\n}}\n"))
    };
    assert!(why(&made(""), "listen").contains("PROXY protocol"));
    let trusted = "set_real_ip_from 10.0.0.0/8;\nreal_ip_header proxy_protocol;";
    assert_eq!(why(&made(trusted), "listen"), "");
}

#[test]
fn limits_that_nginx_counts_together_are_told() {
    let zone = |key: &str, locations: &str| {
        file(&format!(
            "http {{\nlimit_req_zone {key} zone=z:1m rate=1r/s;\nserver {{\nlisten 80;\n\
             limit_req zone=z;\n{locations}\n}}\n}}\n"
        ))
    };
    let one = "location / {\nproxy_pass http://10.0.0.1:80;\n}";
    let two = format!("{one}\nlocation /a {{\nproxy_pass http://10.0.0.2:80;\n}}");
    let told = |made: Imported| why(&made, "limit_req zone");
    assert!(!told(zone("$remote_addr", one)).contains("of its own"));
    assert!(told(zone("$remote_addr", &two)).contains("of its own"));
    assert!(told(zone("$http_x_key", one)).contains("without the header `x-key`"));
}

#[test]
fn what_is_compressed_otherwise_and_what_is_sent_empty_is_told() {
    let made = server("gzip on;\nlocation / {\nproxy_pass http://s;\n}");
    assert!(why(&made, "gzip on").contains("20 bytes"), "{:?}", made.remarks);
    let header = |value: &str| {
        let lines =
            format!("location / {{\nproxy_set_header X-A {value};\nproxy_pass http://s;\n}}");
        why(&server(&lines), "proxy_set_header")
    };
    assert!(header("$args").contains("empty"));
    assert_eq!(header("a$args"), "");
}

#[test]
fn what_check_would_refuse_is_written_otherwise_or_told() {
    for name in ["*.x.example", "www.*", "~^a"] {
        let made =
            server(&format!("server_name {name};\nreturn 301 https://$server_name$request_uri;"));
        assert!(why(&made, "return").contains("no variable"), "{name}: {}", made.text);
    }
    let made = server("location /a%20b/ {\nproxy_pass http://s/x/;\n}");
    assert!(has(&made, "rewrite = { regex = \"^/a%20b/\", to = \"/x/\" }"), "{}", made.text);
    let made = server("root /;");
    assert!(made.text.contains("url = \"file:///\""), "{}", made.text);
    let made = server("location /a {\nreturn 204;\nlocation = /a/x {\nalias /srv/f.txt;\n}\n}");
    assert!(has(&made, "rewrite = { path = \"/f.txt\" }"), "{}", made.text);
}

#[test]
fn what_is_carried_over_or_off_is_not_told_as_lost() {
    let made = server(
        "auth_basic off;\nsatisfy all;\nlocation / {\ngrpc_ssl_verify on;\n\
         grpc_ssl_trusted_certificate /ca.pem;\ngrpc_ssl_name a.example;\n\
         grpc_connect_timeout 2s;\ngrpc_pass grpcs://10.0.0.1:443;\n}",
    );
    assert_eq!(made.lost, 0, "{:?}", made.remarks);
    assert!(has(&made, "tls.authorities = \"/ca.pem\""), "{}", made.text);
    let made = file(
        "http {\nmap $sent_http_content_type $e {\ndefault off;\n}\n\
         server {\nlisten 80;\nreturn 204;\n}\n}\n",
    );
    assert!(why(&made, "map").contains("no variable like"), "{:?}", made.remarks);
}
