//! Basic authentication: who comes in, who does not, and what servers and the log get to see.

use std::{fs, io::Write as _, sync::Arc, time::Instant};

use base64::prelude::{BASE64_STANDARD, Engine as _};
use loadline_core::{
    decide::ending::Ending,
    fleet::{AccessLog, LogFormat, LogTarget},
    rules::{
        Action, Authentication, BasicAuth, Cors, HeaderEdits, Origin, PasswordHash, Rule, Split,
        Template,
    },
    time::Duration,
};
use socket2::SockRef;

use crate::support::{Proxy, answer, rule, under};

/// Of `Hello world!`, as `openssl passwd -5` writes it.
const HASH: &str = "$5$saltstring$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5";

/// Whose check takes seconds.
const SLOW: &str = "$2y$16$c4WoMPo3SXsafkva.HHa6uXQZWr7oboPiC2bT/r7q1BB8I2s0BRqC";

const VERSIONS: [&str; 2] = ["--http1.1", "--http2-prior-knowledge"];

fn auth(hash: &str) -> BasicAuth {
    let users = [("alice".to_owned(), PasswordHash::parse(hash).unwrap())].into();
    BasicAuth { realm: "staff".to_owned(), users, pass_authorization: false }
}

/// A route that asks for a user, and tells the server who it is.
fn guarded(path: &str, auth: BasicAuth) -> Rule {
    let set = vec![("X-User".to_owned(), Template::read("<$user>").unwrap())];
    Rule {
        authentication: Some(Authentication::Basic(Arc::new(auth))),
        request: HeaderEdits { set, ..HeaderEdits::default() },
        ..rule(under(path), Action::Service(Split::all(1)))
    }
}

#[test]
fn a_user_with_the_right_password_comes_in_and_the_server_is_told_the_name_alone() {
    let proxy = Proxy::of(vec![guarded("/", auth(HASH))]);
    for version in VERSIONS {
        for _ in 0..2 {
            let told = proxy.curl(&[version, "-u", "alice:Hello world!"], "/x");
            assert!(told.contains(" 200") && told.ends_with("one"), "{version}: {told}");
            assert!(told.contains("X-User: <alice>\r\n"), "{version}: {told}");
            assert!(!told.to_ascii_lowercase().contains("authorization"), "{version}: {told}");
        }
    }
    let body = ["--http1.1", "-u", "alice:Hello world!", "--data-binary", "some text"];
    assert!(proxy.curl(&body, "/x").ends_with("one"));
}

#[test]
fn a_server_gets_the_header_where_the_file_says_so() {
    let auth = BasicAuth { pass_authorization: true, ..auth(HASH) };
    let proxy = Proxy::of(vec![guarded("/", auth)]);
    let told = proxy.curl(&["-u", "alice:Hello world!"], "/");
    assert!(told.contains("uthorization: Basic YWxpY2U6SGVsbG8gd29ybGQh\r\n"), "{told}");
}

#[test]
fn whoever_shows_nothing_or_something_wrong_gets_401_and_no_server_hears_of_it() {
    let proxy = Proxy::of(vec![guarded("/", auth(HASH))]);
    let mut asked = 0;
    for version in VERSIONS {
        for user in [&[][..], &["-u", "alice:hello"], &["-u", "eve:Hello world!"]] {
            let told = proxy.curl(&[&[version][..], user].concat(), "/");
            assert!(told.contains(" 401"), "{version}: {told}");
            let challenge = "www-authenticate: basic realm=\"staff\", charset=\"utf-8\"";
            assert!(told.to_ascii_lowercase().contains(challenge), "{version}: {told}");
            asked += 1;
        }
    }
    let bearer = proxy.curl(&["-H", "Authorization: Bearer YWxpY2U6SGVsbG8gd29ybGQh"], "/");
    assert!(bearer.contains(" 401"), "{bearer}");
    proxy.counts(Ending::Unauthorized, asked + 1);
    assert_eq!(proxy.served(), 0);
}

#[test]
fn a_connection_goes_on_after_a_wrong_password() {
    let proxy = Proxy::of(vec![guarded("/", auth(HASH))]);
    let told = proxy.ask(concat!(
        "GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Basic YWxpY2U6eA==\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n",
        "Authorization: Basic YWxpY2U6SGVsbG8gd29ybGQh\r\n\r\n",
    ));
    assert!(told.starts_with("HTTP/1.1 401 Unauthorized\r\n"), "{told}");
    assert!(told.contains("Connection: keep-alive\r\n") && told.ends_with("one"), "{told}");
}

#[test]
fn a_listener_asks_for_every_request_but_those_of_a_route_that_lets_everybody_in() {
    let open = rule(under("/open"), Action::Respond(answer(200, "open")));
    let own = "127.0.0.1:9".parse().unwrap();
    let proxy = Proxy::beside(vec![open], own, |fleet| {
        fleet.listeners[0].authentication = Some(Authentication::Basic(Arc::new(auth(HASH))));
    });
    assert!(proxy.get("/open").ends_with("open"));
    assert!(proxy.get("/").starts_with("HTTP/1.1 401"));
    let told = proxy.curl(&["-u", "alice:Hello world!"], "/");
    assert!(told.ends_with("zero") && !told.contains("uthorization: "), "{told}");
}

#[test]
fn a_preflight_shows_no_user_and_is_answered_all_the_same() {
    let cors = Cors {
        origins: vec![Origin::Any],
        methods: vec![],
        headers: None,
        exposed: vec![],
        credentials: false,
        max_age: Duration::from_secs(5),
    };
    let proxy = Proxy::of(vec![Rule { cors: Some(cors), ..guarded("/", auth(HASH)) }]);
    let preflight = ["-X", "OPTIONS", "-H", "Origin: http://a", "-H"];
    let told = proxy.curl(&[&preflight[..], &["Access-Control-Request-Method: GET"]].concat(), "/");
    assert!(told.contains(" 204"), "{told}");
    assert!(proxy.curl(&preflight[..4], "/").contains(" 401"));
}

#[test]
fn passwords_that_are_slow_to_check_hold_up_nobody_else() {
    // One worker, and more guesses than are checked in a second or two.
    let slow = bcrypt::hash_with_result("x", 11).unwrap().format_for_version(bcrypt::Version::TwoY);
    let open = rule(under("/open"), Action::Respond(answer(200, "open")));
    let proxy = Proxy::of(vec![open, guarded("/", auth(&slow))]);
    let mut guesses: Vec<_> = (0..GUESSES)
        .map(|guess| {
            let mut stream = proxy.connect();
            let guess = BASE64_STANDARD.encode(format!("alice:{guess}"));
            let fields = format!("Host: x\r\nAuthorization: Basic {guess}\r\n");
            stream.write_all(format!("GET / HTTP/1.1\r\n{fields}\r\n").as_bytes()).unwrap();
            stream
        })
        .collect();
    assert!(proxy.get("/open").ends_with("open"));
    let last = guesses.last_mut().unwrap();
    last.set_nonblocking(true).unwrap();
    let none = last.peek(&mut [0]).unwrap_err();
    assert_eq!(none.kind(), std::io::ErrorKind::WouldBlock, "guesses were checked first");
}

#[test]
fn a_guess_is_given_up_when_its_client_is_gone() {
    let open = rule(under("/open"), Action::Respond(answer(200, "open")));
    let proxy = Proxy::of(vec![open, guarded("/", auth(SLOW))]);
    let mut client = proxy.connect();
    let request = "GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Basic YWxpY2U6eA==\r\n\r\n";
    client.write_all(request.as_bytes()).unwrap();
    // There is one worker, which has read the guess by now.
    assert!(proxy.get("/open").ends_with("open"));
    let start = Instant::now();
    SockRef::from(&client).set_linger(Some(std::time::Duration::ZERO)).unwrap();
    drop(client);
    proxy.counts(Ending::ClientGone, 1);
    let took = start.elapsed();
    assert!(took < std::time::Duration::from_secs(1), "it was checked first: {took:?}");
}

#[test]
fn the_access_log_names_the_user() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.log");
    let own = "127.0.0.1:9".parse().unwrap();
    let proxy = Proxy::beside(vec![], own, |fleet| {
        fleet.listeners[0].authentication = Some(Authentication::Basic(Arc::new(auth(HASH))));
        let to = LogTarget::File(path.display().to_string());
        fleet.edge.access_log =
            Some(AccessLog { format: LogFormat::Combined, ..AccessLog::to(to) });
    });
    assert!(proxy.curl(&["-u", "alice:Hello world!"], "/").ends_with("zero"));
    assert!(proxy.get("/").starts_with("HTTP/1.1 401"));
    proxy.stop();
    let log = fs::read_to_string(path).unwrap();
    let lines: Vec<&str> = log.lines().collect();
    assert!(lines[0].starts_with("127.0.0.1 - alice ["), "{log}");
    assert!(
        lines[1].starts_with("127.0.0.1 - - [") && lines[1].contains(" unauthorized "),
        "{log}"
    );
}

/// Fewer than may wait, more than are checked at once.
const GUESSES: usize = 30;
