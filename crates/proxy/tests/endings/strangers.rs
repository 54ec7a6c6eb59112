//! What clients say that servers must not believe, and proxies in front that are trusted.

use std::{fs, io::Write as _, sync::Arc};

use loadline_core::{
    decide::ending::Ending,
    fleet::{
        AccessLog, ErrorPages, Fleet, Forwarded, LogField, LogTarget, Page, Pages, PolicyKind,
        Server, Service, Statuses, UnderscoreHeaders,
    },
    rules::{
        Action, Conditions, DirectResponse, LimitKey, Network, RateLimit, Routes, Rule, Split,
        Template,
    },
    units::{Bytes, Rate},
};

use crate::support::{OK, Proxy, SHORT, Scripted, fleet, head};

/// A server that answers with the head it was sent, as its body.
fn mirror() -> Scripted {
    Scripted::new(|mut stream, _| {
        while let Some(seen) = head(&mut stream) {
            let length = seen.len();
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{seen}");
            stream.write_all(answer.as_bytes()).unwrap();
        }
    })
}

/// What a client may say of others and of itself.
const SAID: &str = "X-Forwarded-For: 192.0.2.7\r\nX-Forwarded-Proto: https\r\n\
    X-Forwarded-Host: evil.test\r\nForwarded: for=192.0.2.7;proto=https;host=evil.test\r\n\
    X-Forwarded-Port: 443\r\nX-Real-IP: 192.0.2.7\r\n";

#[test]
fn a_stranger_who_says_that_it_came_by_https_is_not_believed() {
    let proxy = Proxy::to(&[mirror().address]);
    let request = format!("GET / HTTP/1.1\r\nHost: a.test\r\n{SAID}Connection: close\r\n\r\n");
    let seen = proxy.ask(request.as_bytes());
    for (name, value) in [("For", "127.0.0.1"), ("Proto", "http"), ("Host", "a.test")] {
        assert!(seen.contains(&format!("X-Forwarded-{name}: {value}\r\n")), "{seen}");
    }
    for said in ["192.0.2.7", "https", "evil.test", "443", "Real", "\r\nForwarded"] {
        assert!(!seen.contains(said), "{said} in {seen}");
    }
}

#[test]
fn a_name_with_an_underscore_does_not_reach_a_server() {
    let proxy = Proxy::to(&[mirror().address]);
    let seen = proxy.ask(
        b"GET / HTTP/1.1\r\nHost: a.test\r\nContent_Length: 5\r\nX-Kept: 1\r\n\
          X_Forwarded_For: 192.0.2.7\r\n_: 7\r\nConnection: close\r\n\r\n",
    );
    let head = seen.split_once("\r\n\r\n").unwrap().1;
    assert!(head.contains("X-Kept: 1\r\n"), "{head}");
    assert!(!head.contains('_') && !head.contains("192.0.2.7"), "{head}");
}

/// A proxy that trusts who asks it here.
fn trusting(change: impl FnOnce(&mut Fleet)) -> Proxy {
    let mut fleet = fleet(&[mirror().address]);
    fleet.listeners[0].trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
    change(&mut fleet);
    Proxy::of(fleet)
}

fn get(fields: &str) -> Vec<u8> {
    format!("GET / HTTP/1.1\r\nHost: a.test\r\n{fields}Connection: close\r\n\r\n").into_bytes()
}

#[test]
fn a_trusted_proxy_is_believed_and_extended() {
    let seen = trusting(|_| ()).ask(&get(SAID));
    for line in [
        "X-Forwarded-For: 192.0.2.7, 127.0.0.1",
        "X-Forwarded-Proto: https",
        "X-Forwarded-Host: evil.test",
        "X-Forwarded-Port: 443",
        "X-Real-IP: 192.0.2.7",
        "Forwarded: for=192.0.2.7;proto=https;host=evil.test",
    ] {
        assert!(seen.contains(&format!("\r\n{line}\r\n")), "{line} in {seen}");
    }
    assert_eq!(seen.matches("X-Forwarded-").count(), 4, "nothing twice: {seen}");
    let standard = |fleet: &mut Fleet| fleet.listeners[0].forwarded = Forwarded::Rfc7239;
    let seen = trusting(standard).ask(&get(SAID));
    let extended = "Forwarded: for=192.0.2.7;proto=https;host=evil.test, for=127.0.0.1;proto=http";
    assert!(seen.contains(extended), "{seen}");
    let nothing = |fleet: &mut Fleet| fleet.listeners[0].forwarded = Forwarded::Off;
    let seen = trusting(nothing).ask(&get(SAID));
    assert!(seen.contains("X-Forwarded-For: 192.0.2.7\r\n"), "passed through: {seen}");
}

#[test]
fn servers_hear_of_the_client_whichever_header_a_trusted_proxy_sends() {
    let standard = |fleet: &mut Fleet| fleet.listeners[0].forwarded = Forwarded::Rfc7239;
    let said = "X-Forwarded-For: 192.0.2.7\r\nX-Forwarded-Proto: https\r\n";
    let seen = trusting(standard).ask(&get(said));
    let line = "\r\nForwarded: for=192.0.2.7;proto=https, for=127.0.0.1;proto=http\r\n";
    assert!(seen.contains(line), "{seen}");
    let seen = trusting(|_| ()).ask(&get("Forwarded: for=192.0.2.7;proto=https\r\n"));
    assert!(seen.contains("\r\nX-Forwarded-For: 192.0.2.7, 127.0.0.1\r\n"), "{seen}");
    assert!(seen.contains("\r\nX-Forwarded-Proto: https\r\n"), "{seen}");
}

#[test]
fn nothing_of_a_stranger_passes_where_servers_are_told_nothing() {
    let mut fleet = fleet(&[mirror().address]);
    fleet.listeners[0].forwarded = Forwarded::Off;
    let seen = Proxy::of(fleet).ask(&get(SAID)).to_lowercase();
    assert!(!seen.contains("forwarded") && !seen.contains("192.0.2.7"), "{seen}");
}

/// A rule for the requests of these clients, or for all.
fn rule(sources: &[&str], limit: Option<RateLimit>, action: Action) -> Rule {
    let listed = sources.iter().map(|network| network.parse::<Network>().unwrap());
    let sources = (!sources.is_empty()).then(|| listed.collect());
    Rule { limit, ..Rule::new(Conditions { sources, ..Conditions::default() }, action) }
}

#[test]
fn rules_and_limits_are_for_the_client_behind_a_trusted_proxy() {
    let forbidden = DirectResponse { status: 403, headers: vec![], body: "no".into() };
    let limit =
        RateLimit { rate: Rate::milli_per_sec(1), burst: 1, by: LimitKey::Client, keys: 1_000 };
    let rules = vec![
        rule(&["192.0.2.0/24"], None, Action::Respond(forbidden)),
        rule(&[], Some(limit), Action::Service(Split::all(0))),
    ];
    let proxy = trusting(|fleet| fleet.listeners[0].routes = Routes::new(rules));
    let status = |fields: &str| proxy.ask(&get(fields))[9..12].to_owned();
    assert_eq!(status("X-Forwarded-For: 198.51.100.1, 192.0.2.7\r\n"), "403");
    assert_eq!(status("X-Forwarded-For: 198.51.100.1\r\nX-Forwarded-For: 192.0.2.7\r\n"), "403");
    assert_eq!(status("Forwarded: for=192.0.2.7\r\n"), "403");
    assert_eq!(status("X-Forwarded-For: 192.0.2.7, 198.51.100.1\r\n"), "200");
    assert_eq!(status("X-Forwarded-For: 192.0.2.7, 198.51.100.1\r\n"), "429", "its own budget");
    assert_eq!(status("X-Forwarded-For: 198.51.100.2\r\n"), "200", "and another's");
    assert_eq!(status(""), "200", "and that of the proxy itself");
}

#[test]
fn the_log_has_the_scheme_that_a_trusted_proxy_tells() {
    let log = tempfile::NamedTempFile::new().unwrap();
    let target = LogTarget::File(log.path().display().to_string());
    let proxy = trusting(|fleet| {
        let fields = vec![LogField::Scheme];
        fleet.edge.access_log = Some(AccessLog { fields, ..AccessLog::to(target) });
    });
    proxy.ask(&get("X-Forwarded-Proto: https\r\n"));
    proxy.ask(&get(""));
    proxy.runtime.stop(SHORT);
    let lines = fs::read_to_string(log.path()).unwrap();
    let schemes: Vec<_> = lines.lines().filter_map(|it| it.split_once(" scheme=")).collect();
    assert_eq!([schemes[0].1, schemes[1].1], ["\"https\"", "\"http\""], "{lines}");
}

#[test]
fn a_body_that_is_refused_with_its_head_is_logged_as_the_request_it_is() {
    let log = tempfile::NamedTempFile::new().unwrap();
    let target = LogTarget::File(log.path().display().to_string());
    let proxy = trusting(|fleet| {
        fleet.edge.access_log = Some(AccessLog::to(target));
        let page = Page { content_type: "text/plain".into(), body: Arc::from(&b"ours"[..]) };
        let pages = Pages(vec![page]);
        let error_pages = ErrorPages(vec![(Statuses::Class(4), pages)]);
        let other = Service { error_pages, ..fleet.services[0].clone() };
        fleet.services.push(Service { name: "other".into(), ..other });
        let rule = Rule::new(Conditions::default(), Action::Service(Split::all(1)));
        fleet.listeners[0].routes = Routes::new(vec![rule]);
        fleet.listeners[0].max_body = Some(Bytes::new(1_000));
    });
    let post = "POST /up HTTP/1.1\r\nHost: a.test\r\nX-Forwarded-For: 192.0.2.7\r\n";
    for (rest, status) in [
        ("Content-Length: 2000\r\n\r\n", 413),
        ("Transfer-Encoding: chunked\r\n\r\nnone\r\n", 400),
        ("Transfer-Encoding: chunked\r\n\r\n2000\r\nand so on", 413),
    ] {
        let told = proxy.ask(format!("{post}{rest}").as_bytes());
        let begin = format!("HTTP/1.1 {status} ");
        assert!(told.starts_with(&begin) && told.ends_with("ours"), "{told}");
        assert!(told.contains("\r\nConnection: close\r\n"), "{told}");
    }
    proxy.expect(Ending::ClientBad, 3);
    proxy.runtime.stop(SHORT);
    let lines = fs::read_to_string(log.path()).unwrap();
    let whole = |line: &&str| {
        line.contains(" 192.0.2.7:0 POST \"/up\" HTTP/1.1 4")
            && line.contains(" other/- client-bad ")
    };
    assert_eq!(lines.lines().filter(whole).count(), 3, "{lines}");
}

#[test]
fn the_hash_and_the_log_are_of_the_client_behind_a_trusted_proxy() {
    let path = std::env::temp_dir().join(format!("loadline-clients-{}", std::process::id()));
    let (one, two) = (Scripted::answering(OK), mirror());
    let proxy = trusting(|fleet| {
        fleet.services[0].policy = PolicyKind::Maglev;
        let servers = [one.address, two.address].map(Server::at);
        fleet.services[0].groups[0].servers = servers.into();
        fleet.edge.access_log = Some(AccessLog::to(LogTarget::File(path.display().to_string())));
    });
    let by_one = |client: u8| {
        let who = get(&format!("X-Forwarded-For: 198.51.100.{client}\r\n"));
        let both = [(); 2].map(|()| proxy.ask(&who).ends_with("ok"));
        assert_eq!(both[0], both[1], "a client stays with its server");
        both[0]
    };
    let found = (0..32).filter(|client| by_one(*client)).count();
    assert!((4..28).contains(&found), "{found} of 32 clients are the first server's");
    proxy.ask(&get("X-Forwarded-For: 198.51.100.77:4711\r\n"));
    assert_eq!(proxy.runtime.stop(SHORT).count(Ending::Complete), 65);
    let log = fs::read_to_string(&path).unwrap();
    fs::remove_file(&path).unwrap();
    assert!(!log.contains(" 127.0.0.1:0 "), "{log}");
    assert!(log.contains(" 198.51.100.9:0 ") && log.contains(" 198.51.100.77:4711 "), "{log}");
}

#[test]
fn a_name_with_an_underscore_is_refused_or_kept_where_the_listener_says_so() {
    let asked = |setting, request: &[u8]| {
        let mut fleet = fleet(&[mirror().address]);
        fleet.listeners[0].underscore_headers = setting;
        let proxy = Proxy::of(fleet);
        (proxy.ask(request), proxy)
    };
    let request = get("Content_Length: 5\r\n");
    let (answer, proxy) = asked(UnderscoreHeaders::Refuse, &request);
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    proxy.expect(Ending::ClientBad, 1);
    let (seen, _) = asked(UnderscoreHeaders::Keep, &request);
    assert!(seen.contains("Content_Length: 5\r\n"), "{seen}");
}

/// A body with one trailer.
const BODY: &str = "3\r\nabc\r\n0\r\nX-Sum: 3\r\n\r\n";

/// A server that answers with as much of the body that it was sent as [`BODY`] has.
fn mirror_of_body() -> Scripted {
    Scripted::new(|mut stream, _| {
        head(&mut stream);
        let body = crate::support::exactly(&mut stream, BODY.len());
        let length = body.len();
        let answer = format!(
            "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        stream.write_all(answer.as_bytes()).unwrap();
    })
}

const CHUNKED: &str =
    "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n";

/// Sends a chunked body of `abc` with trailers, of which a server is to get those of [`BODY`]: all
/// at once, then with the trailers behind everything else.
fn expect_body(proxy: &Proxy, body: &str) {
    for at in [0, CHUNKED.len(), CHUNKED.len() + 13, CHUNKED.len() + 20] {
        let whole = format!("{CHUNKED}{body}");
        let (first, last) = whole.split_at(at);
        let mut client = proxy.connect();
        client.set_nodelay(true).unwrap();
        client.write_all(first.as_bytes()).unwrap();
        client.write_all(last.as_bytes()).unwrap();
        let answer = crate::support::until_closed(&mut client);
        assert!(answer.ends_with(BODY), "{at}: {answer}");
    }
}

#[test]
fn a_trailer_with_an_underscore_does_not_reach_a_server() {
    let server = mirror_of_body();
    let body = "3\r\nabc\r\n0\r\nX_Sum: 4\r\nX-Sum: 3\r\nContent_Length: 5\r\n\r\n";
    expect_body(&Proxy::to(&[server.address]), body);
    let mut fleet = fleet(&[server.address]);
    fleet.listeners[0].underscore_headers = UnderscoreHeaders::Refuse;
    let answer = Proxy::of(fleet).ask(format!("{CHUNKED}{body}").as_bytes());
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
}

#[test]
fn what_clients_may_not_say_in_a_header_they_may_not_say_in_a_trailer() {
    let server = mirror_of_body();
    let mut rule = Rule::new(Conditions::default(), Action::Service(Split::all(0)));
    rule.request.remove = vec!["X-User".into()];
    rule.request.set = vec![("X-Env".into(), Template::literal("live"))];
    let mut fleet = fleet(&[server.address]);
    fleet.listeners[0].routes = Routes::new(vec![rule]);
    let body = "3\r\nabc\r\n0\r\nx-user: root\r\nX-Sum: 3\r\nX-Env: test\r\n\r\n";
    expect_body(&Proxy::of(fleet), body);
}
