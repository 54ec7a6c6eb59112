//! Pages that clients get where something fails, and while a service is in maintenance.

use std::{
    fs,
    io::{Read as _, Write as _},
    sync::Arc,
    time::{Duration as StdDuration, Instant},
};

use loadline_core::{
    decide::ending::Ending,
    fleet::{AccessLog, ErrorPages, LogTarget, Maintenance, Page, Pages, Statuses},
    rules::{Action, Conditions, LimitKey, RateLimit, Rule, Split},
    time::Duration,
    units::Rate,
};
use socket2::SockRef;

use crate::support::{PATIENCE, Proxy, answer, rule, under};

const VERSIONS: [&str; 2] = ["--http1.1", "--http2-prior-knowledge"];

/// Where nobody listens.
const NOBODY: &str = "127.0.0.1:9";

fn page(content_type: &str, body: &str) -> Page {
    Page { content_type: content_type.to_owned(), body: Arc::from(body.as_bytes()) }
}

fn pages(name: &str) -> Pages {
    let html = page("text/html; charset=utf-8", &format!("<p>{name}</p>"));
    Pages(vec![html, page("application/json", &format!("{{\"is\":\"{name}\"}}"))])
}

#[test]
fn an_error_of_ours_has_the_page_of_its_service_or_else_of_its_listener() {
    let to = |service| rule(under(&format!("/{service}")), Action::Service(Split::all(service)));
    let proxy = Proxy::beside(vec![to(1), to(0)], NOBODY.parse().unwrap(), |fleet| {
        fleet.services[1].error_pages = ErrorPages(vec![(Statuses::One(502), pages("ours"))]);
        let all = (Statuses::Class(5), pages("any"));
        fleet.listeners[0].error_pages = ErrorPages(vec![all]);
        fleet.services[0].groups[0].servers[0].address = NOBODY.parse().unwrap();
    });
    for version in VERSIONS {
        let told = proxy.curl(&[version, "-H", "Accept: text/html"], "/1");
        assert!(told.contains(" 502") && told.ends_with("<p>ours</p>"), "{version}: {told}");
        assert!(told.to_ascii_lowercase().contains("content-type: text/html; charset"), "{told}");
        let told = proxy.curl(&[version, "-H", "Accept: application/json"], "/1");
        assert!(told.ends_with("{\"is\":\"ours\"}"), "{version}: {told}");
        assert!(proxy.curl(&[version], "/0").ends_with("<p>any</p>"));
    }
    let head = proxy.ask("HEAD /1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    assert!(head.contains("Content-Length: 11\r\n") && head.ends_with("\r\n\r\n"), "{head}");
}

#[test]
fn what_no_route_is_for_does_not_get_the_page_of_a_service() {
    let not_found = rule(Conditions::default(), Action::Respond(answer(404, "")));
    let rules = vec![rule(under("/1"), Action::Service(Split::all(1))), not_found];
    let log = tempfile::NamedTempFile::new().unwrap();
    let target = LogTarget::File(log.path().display().to_string());
    let proxy = Proxy::beside(rules, NOBODY.parse().unwrap(), |fleet| {
        fleet.edge.access_log = Some(AccessLog::to(target));
        for (service, name) in fleet.services.iter_mut().zip(["zero", "one"]) {
            let all = [Statuses::Class(4), Statuses::Class(5)];
            service.error_pages = ErrorPages(all.map(|it| (it, pages(name))).into());
        }
        fleet.listeners[0].routes_only = true;
    });
    assert!(proxy.curl(&["--http1.1"], "/1").ends_with("<p>one</p>"));
    for version in VERSIONS {
        let told = proxy.curl(&[version], "/elsewhere");
        assert!(told.contains(" 404") && !told.contains("zero"), "{version}: {told}");
    }
    let told = proxy.ask("GET / HTTP/1.1\r\nHost : x\r\n\r\n");
    assert!(told.contains(" 400 ") && !told.contains("zero"), "{told}");
    proxy.stop();
    let lines = fs::read_to_string(log.path()).unwrap();
    assert_eq!(lines.matches(" -/- ").count(), 3, "{lines}");
    assert!(!lines.contains("zero"), "{lines}");
}

#[test]
fn what_a_rule_refuses_has_a_page_and_what_it_says_itself_stays() {
    let by = LimitKey::Client;
    let limit = RateLimit { rate: Rate::per_sec(1), burst: 1, by, keys: 64 };
    let limited = rule(under("/limited"), Action::Respond(answer(204, "")));
    let rules = vec![
        rule(under("/denied"), Action::Respond(answer(403, ""))),
        rule(under("/said"), Action::Respond(answer(403, "said"))),
        Rule { limit: Some(limit), ..limited },
    ];
    let proxy = Proxy::beside(rules, NOBODY.parse().unwrap(), |fleet| {
        let all = (Statuses::Class(4), pages("any"));
        fleet.listeners[0].error_pages = ErrorPages(vec![all]);
    });
    assert!(proxy.get("/denied").ends_with("<p>any</p>"));
    assert!(proxy.get("/said").ends_with("said"));
    assert!(proxy.get("/limited").starts_with("HTTP/1.1 204"));
    let limited = proxy.get("/limited");
    assert!(limited.contains("Retry-After: 1\r\n") && limited.ends_with("<p>any</p>"), "{limited}");
    let bad = proxy.ask("GET / HTTP/1.1\r\nHost: x\r\nBad Field: 1\r\n\r\n");
    assert!(bad.starts_with("HTTP/1.1 400") && bad.ends_with("<p>any</p>"), "{bad}");
}

/// What a client was told has its status however far it came, and one that stops reading is late,
/// not gone.
#[test]
fn a_page_that_does_not_go_out_whole_is_logged_with_its_status_and_bytes() {
    let cases = [
        ("/denied", 403, false, Ending::ClientTimeout),
        ("/denied", 403, true, Ending::ClientGone),
        ("/one", 502, false, Ending::ConnectRefused),
        ("/one", 502, true, Ending::ConnectRefused),
    ];
    for (path, status, is_reset, ending) in cases {
        let denied = rule(under("/denied"), Action::Respond(answer(403, "")));
        let to_one = rule(under("/one"), Action::Service(Split::all(1)));
        let log = tempfile::NamedTempFile::new().unwrap();
        let target = LogTarget::File(log.path().display().to_string());
        let proxy = Proxy::beside(vec![denied, to_one], NOBODY.parse().unwrap(), |fleet| {
            fleet.edge.access_log = Some(AccessLog::to(target));
            // More than the kernel takes for a client that reads none of it.
            let large = Pages(vec![page("text/plain", &"x".repeat(32 << 20))]);
            let all = [Statuses::Class(4), Statuses::Class(5)];
            fleet.listeners[0].error_pages = ErrorPages(all.map(|it| (it, large.clone())).into());
            if !is_reset {
                fleet.listeners[0].timeouts.idle = Duration::from_millis(200);
            }
        });
        let mut client = proxy.connect();
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n");
        client.write_all(request.as_bytes()).unwrap();
        client.read_exact(&mut [0; 1_000]).unwrap();
        if is_reset {
            SockRef::from(&client).set_linger(Some(StdDuration::ZERO)).unwrap();
            drop(client);
        }
        assert_eq!(proxy.count(ending), 1);
        let service = if path == "/one" { "one" } else { "zero" };
        let classes = proxy.tally(service).statuses;
        assert_eq!((classes[status / 100 - 1], classes.iter().sum::<u64>()), (1, 1), "{classes:?}");
        proxy.stop();
        let line = fs::read_to_string(log.path()).unwrap();
        let (_, told) = line.split_once("HTTP/1.1 ").unwrap();
        let told: Vec<&str> = told.split(' ').collect();
        assert_eq!(told[0], status.to_string(), "{line}");
        let bytes: usize = told[1].parse().unwrap();
        assert!((1_000..32 << 20).contains(&bytes), "{line}");
    }
}

#[test]
fn a_response_of_a_server_stays_as_it_is() {
    let proxy = Proxy::beside(vec![], NOBODY.parse().unwrap(), |fleet| {
        fleet.listeners[0].error_pages = ErrorPages(vec![(Statuses::One(200), pages("any"))]);
    });
    assert!(proxy.get("/").ends_with("zero"));
}

#[test]
fn a_service_in_maintenance_has_its_page_for_all_but_those_who_are_allowed() {
    let rules = vec![rule(under("/one"), Action::Service(Split::all(1)))];
    let proxy = Proxy::beside(rules, NOBODY.parse().unwrap(), |_| ());
    assert!(proxy.get("/").ends_with("zero"));
    let maintenance = |allow: &[&str]| Maintenance {
        enabled: true,
        retry_after: Some(Duration::from_secs(600)),
        pages: pages("soon"),
        allow: Some(allow.iter().map(|it| it.parse().unwrap()).collect()),
    };
    proxy.change(|fleet| fleet.services[0].maintenance = Some(maintenance(&["192.0.2.0/24"])));
    let start = Instant::now();
    while proxy.get("/").ends_with("zero") {
        assert!(start.elapsed() < PATIENCE, "the change comes into force");
    }
    for version in VERSIONS {
        let told = proxy.curl(&[version], "/").to_ascii_lowercase();
        assert!(told.contains(" 503") && told.ends_with("<p>soon</p>"), "{version}: {told}");
        assert!(told.contains("retry-after: 600\r\n"), "{version}: {told}");
        let json = proxy.curl(&[version, "-H", "Accept: application/json"], "/");
        assert!(json.ends_with("{\"is\":\"soon\"}"), "{version}: {json}");
    }
    assert!(proxy.count(Ending::Maintenance) >= 4);
    assert!(proxy.get("/one").starts_with("HTTP/1.1 502"), "another service is asked");
    proxy.change(|fleet| fleet.services[0].maintenance = Some(maintenance(&["127.0.0.0/8"])));
    let start = Instant::now();
    while !proxy.get("/").ends_with("zero") {
        assert!(start.elapsed() < PATIENCE, "this client is let in");
    }
}
