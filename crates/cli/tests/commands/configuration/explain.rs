//! `loadline explain`: what becomes of a request.

use std::{fs, path::Path};

use super::said::loadline;

const FILE: &str = r#"
[[listener]]
bind = "127.0.0.1:8080"
service = "web"
routes = [
    { path = "/beta/", cookie = { beta = "1" }, service = "web" },
    { path = "/beta/", redirect = { rewrite = { prefix = "/beta", to = "/" } } },
]
[[service.web.group]]
servers = ["10.0.0.1:80"]
max_rate = "100/s"
"#;

fn explained(flags: &[&str], directory: &Path) -> (Option<i32>, String) {
    fs::write(directory.join("a.toml"), FILE).unwrap();
    let said = loadline(&[&["explain", "a.toml"], flags].concat(), directory);
    (said.code, said.text)
}

#[test]
fn a_request_is_explained_with_the_routes_it_passes() {
    let directory = tempfile::tempdir().unwrap();
    let request = ["--request", "http://example.com:8080/beta/x", "--from", "192.0.2.1"];
    let (code, text) = explained(&request, directory.path());
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("GET http://example.com:8080/beta/x from 192.0.2.1"), "{text}");
    assert!(text.contains("not cookie beta = 1"), "{text}");
    assert!(text.contains("302 to http://example.com:8080/x"), "{text}");
    let cookie = [&request[..], &["-H", "Cookie: a=b; beta=1", "--json"]].concat();
    let (code, text) = explained(&cookie, directory.path());
    let told: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((code, &told["answer"]["services"][0]["service"]), (Some(0), &"web".into()));
}

#[test]
fn a_url_with_a_space_is_no_method_and_is_pointed_at() {
    let directory = tempfile::tempdir().unwrap();
    let (code, text) = explained(&["--request", "http://a b/"], directory.path());
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("no white space"), "{text}");
    assert!(text.contains("http://a b/ ^"), "{text}");
}

#[test]
fn a_header_that_could_not_be_sent_is_not_explained() {
    let directory = tempfile::tempdir().unwrap();
    let request = ["--request", "http://example.com:8080/", "-H", "a b: c"];
    let (code, text) = explained(&request, directory.path());
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("`a b: c` is no field"), "{text}");
}

#[test]
fn a_host_that_is_given_takes_the_place_of_the_host_of_the_url() {
    let directory = tempfile::tempdir().unwrap();
    let request = ["--request", "http://127.0.0.1:8080/beta/x", "-H", "host: example.com"];
    let (code, text) = explained(&request, directory.path());
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("302 to http://example.com/x"), "{text}");
    let twice = [&request[..], &["-H", "Host: b.example"]].concat();
    let (code, text) = explained(&twice, directory.path());
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("more than one Host"), "{text}");
}

#[test]
fn a_request_for_no_listener_is_wrong_usage() {
    let directory = tempfile::tempdir().unwrap();
    let (code, text) = explained(&["--request", "https://example.com/"], directory.path());
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("127.0.0.1:8080 (http)"), "{text}");
}

#[test]
fn it_is_said_who_decides_whether_the_client_may_ask() {
    let directory = tempfile::tempdir().unwrap();
    let route = r#"routes = [
    { path = "/in", service = "web", forward_auth = { service = "auth", path = "/verify" } },"#;
    let auth = "\n[[service.auth.group]]\nservers = [\"10.0.0.2:80\"]\n";
    let file = FILE.replace("routes = [", route) + auth;
    fs::write(directory.path().join("a.toml"), file).unwrap();
    let by = |path: &str| {
        let url = format!("http://example.com:8080{path}");
        loadline(&["explain", "a.toml", "--request", &url], directory.path()).text
    };
    let told = by("/in");
    assert!(told.contains("forward auth") && told.contains("/verify"), "{told}");
    assert!(!by("/beta/").contains("forward auth"));
}
