//! What lines of Caddy become that were once carried over to something else, or silently lost.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::io;

use loadline_import::{Imported, Kind, import};

/// What is made of a site with these lines.
fn site(lines: &str) -> Imported {
    let none = |_: &str| Err(io::ErrorKind::NotFound.into());
    import(Kind::Caddy, "Caddyfile", format!("http://a.example {{\n{lines}\n}}\n"), &none).unwrap()
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
    assert!(why(&made, "header").contains("one field"), "{:?}", made.remarks);
    let made = site("abort /x\nreverse_proxy 10.0.0.1:80");
    assert!(why(&made, "abort").contains("403"), "{:?}", made.remarks);
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
