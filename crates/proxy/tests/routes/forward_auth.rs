//! Forward authentication: whom a service lets in, what it is asked, and what others are told.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        mpsc::{Receiver, Sender, channel},
    },
    thread,
};

use loadline_core::{
    decide::{ending::Ending, reason::Reason},
    fleet::{AccessLog, Cookie, Forwarded, LogFormat, LogTarget, SameSite, Secret, Server, Sticky},
    rules::{Action, Authentication, ForwardAuth, Rule, Split},
    time::Duration,
};

use socket2::SockRef;

use crate::{
    ports::reserved,
    support::{PATIENCE, Proxy, rule, under},
};

const VERSIONS: [&str; 2] = ["--http1.1", "--http2-prior-knowledge"];

const LOGIN: &str = "HTTP/1.1 302 Found\r\nLocation: https://login/\r\nSet-Cookie: from=here\r\n\
                     Transfer-Encoding: chunked\r\n\r\n5\r\nlog i\r\n1\r\nn\r\n0\r\n\r\n";

/// A service that lets in who has `session=alice`, fails for `session=broken`, and leads others to
/// a login; and what it was asked.
fn service() -> (SocketAddr, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (tell, told) = channel();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let tell = tell.clone();
            thread::spawn(move || say(stream, &tell));
        }
    });
    (address, told)
}

fn say(mut stream: TcpStream, tell: &Sender<String>) {
    while let Some(head) = crate::support::head(&mut stream) {
        let response: &[u8] = if head.contains("session=latin") {
            b"HTTP/1.1 200 OK\r\nRemote-User: M\xfcller\r\nContent-Length: 0\r\n\r\n"
        } else if head.contains("session=alice") {
            b"HTTP/1.1 200 OK\r\nRemote-User: alice\r\nX-Other: x\r\nContent-Length: 2\r\n\r\nok"
        } else if head.contains("session=broken") {
            b"HTTP/1.1 500 No\r\nContent-Length: 6\r\n\r\nbroken"
        } else {
            LOGIN.as_bytes()
        };
        // The test may be over.
        let _ = tell.send(head);
        stream.write_all(response).unwrap();
    }
}

/// Requests go to `zero` if `one` lets them in.
fn guarded() -> Rule {
    let copy_headers = vec!["Remote-User".to_owned(), "Remote-Groups".to_owned()];
    let auth = ForwardAuth { path: "/verify?x".to_owned(), copy_headers, ..ForwardAuth::new(1) };
    Rule {
        authentication: Some(Authentication::Forward(Arc::new(auth))),
        ..rule(under("/"), Action::Service(Split::all(0)))
    }
}

#[test]
fn a_request_that_is_let_in_tells_its_server_what_the_service_says_and_no_client_can() {
    let (address, told) = service();
    let proxy = Proxy::beside(vec![guarded()], address, |_| ());
    for version in VERSIONS {
        let forged = ["-H", "Remote-User: root", "-H", "remote-groups: admins"];
        let body = [version, "-H", "Cookie: session=alice", "--data-binary", "some text"];
        let seen = proxy.curl(&[&body[..], &forged].concat(), "/a?b=c");
        assert!(seen.contains(" 200") && seen.ends_with("zero"), "{version}: {seen}");
        assert!(seen.contains("\r\nPOST /a?b=c HTTP/1.1\r\n"), "{version}: {seen}");
        assert!(seen.contains("Remote-User: alice\r\n"), "{version}: {seen}");
        let names = seen.to_ascii_lowercase();
        assert!(!names.contains("root") && !names.contains("remote-groups"), "{version}: {seen}");
        assert!(!names.contains("x-other"), "{version}: {seen}");
        let asked = told.recv_timeout(PATIENCE).unwrap();
        assert!(asked.starts_with("GET /verify?x HTTP/1.1\r\n"), "{version}: {asked}");
        for line in ["X-Forwarded-Method: POST", "X-Forwarded-Uri: /a?b=c", "X-Forwarded-For: "] {
            assert!(asked.contains(line), "{version}: {asked}");
        }
        assert!(!asked.to_ascii_lowercase().contains("content-length"), "{version}: {asked}");
    }
    assert_eq!(proxy.tally("one").count(Ending::Complete), 2);
}

#[test]
fn whoever_is_not_let_in_gets_the_response_of_the_service_and_no_server_hears_of_it() {
    let (address, _told) = service();
    let proxy = Proxy::beside(vec![guarded()], address, |_| ());
    for version in VERSIONS {
        let seen = proxy.curl(&[version], "/");
        let names = seen.to_ascii_lowercase();
        assert!(names.contains(" 302") && seen.ends_with("\r\n\r\nlog in"), "{version}: {seen}");
        for line in ["location: https://login/\r\n", "set-cookie: from=here\r\n"] {
            assert_eq!(names.matches(line).count(), 1, "{version}: {seen}");
        }
        assert!(names.contains("content-length: 6\r\n"), "{version}: {seen}");
        assert!(!names.contains("chunked"), "{version}: {seen}");
    }
    assert!(!proxy.curl(&["--head"], "/").contains("log in"));
    proxy.counts(Ending::Unauthorized, 3);
    assert_eq!(proxy.served(), 0);
    let broken = proxy.curl(&["-H", "Cookie: session=broken"], "/");
    assert!(broken.contains(" 500") && broken.ends_with("broken"), "{broken}");
    assert_eq!((proxy.count(Ending::Internal), proxy.served()), (1, 0));
    let reasons = proxy.tally("zero").reasons;
    assert_eq!(reasons[Reason::AuthServiceFailed as usize], 1, "a failure has a reason");
    assert_eq!(reasons.iter().sum::<u64>(), 1, "whom the service refuses is no failure");
}

#[test]
fn a_connection_goes_on_after_both() {
    let (address, _told) = service();
    let proxy = Proxy::beside(vec![guarded()], address, |_| ());
    let seen = proxy.ask(concat!(
        "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc",
        "GET / HTTP/1.1\r\nHost: x\r\nCookie: session=alice\r\nConnection: close\r\n\r\n",
    ));
    assert!(seen.starts_with("HTTP/1.1 302 Found\r\n") && seen.ends_with("zero"), "{seen}");
}

#[test]
fn nobody_is_let_in_while_the_service_is_away_and_each_is_told_to_come_again() {
    let proxy = Proxy::beside(vec![guarded()], reserved(), |_| ());
    let seen = proxy.get("/");
    assert!(seen.starts_with("HTTP/1.1 503") && seen.contains("Retry-After: 1\r\n"), "{seen}");
    assert_eq!((proxy.count(Ending::Internal), proxy.served()), (1, 0));
    assert_eq!(proxy.tally("zero").reasons[Reason::AuthServiceFailed as usize], 1);
}

#[test]
fn a_service_that_is_silent_or_says_too_much_lets_nobody_in() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let proxy = Proxy::beside(vec![guarded()], address, |fleet| {
        fleet.services[1].timeouts.head = Duration::from_millis(100);
    });
    assert!(proxy.get("/").starts_with("HTTP/1.1 503"));
    let large = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = large.local_addr().unwrap();
    thread::spawn(move || {
        let (mut stream, _) = large.accept().unwrap();
        crate::support::head(&mut stream).unwrap();
        let head = format!("HTTP/1.1 401 No\r\nContent-Length: {}\r\n\r\n", 4 << 20);
        stream.write_all(head.as_bytes()).unwrap();
        // It is cut off on the way.
        let _ = stream.write_all(&vec![b'x'; 4 << 20]);
    });
    let proxy = Proxy::beside(vec![guarded()], address, |_| ());
    assert!(proxy.get("/").starts_with("HTTP/1.1 503"));
    assert_eq!((proxy.count(Ending::Internal), proxy.served()), (1, 0));
}

#[test]
fn the_wait_for_the_service_is_no_time_of_the_server_and_that_of_whoever_is_refused_too() {
    for (status, is_let_in) in [("200 OK", true), ("401 No", false)] {
        let slow = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = slow.local_addr().unwrap();
        thread::spawn(move || {
            let (mut stream, _) = slow.accept().unwrap();
            crate::support::head(&mut stream).unwrap();
            // The time that is measured below.
            thread::sleep(std::time::Duration::from_millis(400));
            let response = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
            stream.write_all(response.as_bytes()).unwrap();
        });
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("access.log");
        let proxy = Proxy::beside(vec![guarded()], address, |fleet| {
            let log = AccessLog::to(LogTarget::File(path.display().to_string()));
            fleet.edge.access_log = Some(AccessLog { format: LogFormat::Json, ..log });
        });
        assert_eq!(proxy.get("/").ends_with("zero"), is_let_in);
        proxy.stop();
        let log = std::fs::read_to_string(path).unwrap();
        let lines =
            log.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let of_client: Vec<_> = lines.filter(|line| line["service"] == "zero").collect();
        let [line] = &of_client[..] else { panic!("one line: {log}") };
        let time = |key: &str| line[key].as_f64().unwrap_or_default();
        assert_eq!(line["connect_ms"].is_number(), is_let_in, "{line}");
        let phases = time("queue_ms") + time("connect_ms") + time("first_byte_ms");
        assert!(time("queue_ms") >= 400.0 && phases <= time("total_ms") + 1.0, "{line}");
    }
}

#[test]
fn a_service_is_told_host_scheme_and_client_however_servers_are_told_of_clients() {
    for forwarded in [Forwarded::XForwarded, Forwarded::Rfc7239, Forwarded::Off] {
        let (address, told) = service();
        let proxy = Proxy::beside(vec![guarded()], address, |fleet| {
            fleet.listeners[0].forwarded = forwarded;
        });
        let seen = proxy.ask(
            "GET / HTTP/1.1\r\nHost: a.test:81\r\nCookie: session=alice\r\n\
             X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Host: forged\r\n\
             X-Forwarded-Proto: https\r\nConnection: close\r\n\r\n",
        );
        assert!(seen.ends_with("zero"), "{seen}");
        let by_listener = forwarded == Forwarded::XForwarded;
        assert_eq!(seen.contains("X-Forwarded-"), by_listener, "{forwarded:?}: {seen}");
        let asked = told.recv_timeout(PATIENCE).unwrap();
        for line in
            ["X-Forwarded-Host: a.test:81", "X-Forwarded-Proto: http", "X-Forwarded-For: 127.0.0.1"]
        {
            let (name, _) = line.split_once(' ').unwrap();
            assert_eq!(asked.matches(name).count(), 1, "{forwarded:?}: {asked}");
            assert!(asked.contains(&format!("{line}\r\n")), "{forwarded:?}: {asked}");
        }
    }
}

#[test]
fn a_service_behind_a_trusted_proxy_is_told_what_that_says_of_its_client() {
    let (address, told) = service();
    let proxy = Proxy::beside(vec![guarded()], address, |fleet| {
        fleet.listeners[0].forwarded = Forwarded::Off;
        fleet.listeners[0].trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
    });
    proxy.ask(
        "GET / HTTP/1.1\r\nHost: inside\r\nX-Forwarded-Host: a.test\r\n\
         Forwarded: for=192.0.2.1;proto=https\r\nConnection: close\r\n\r\n",
    );
    let asked = told.recv_timeout(PATIENCE).unwrap();
    for line in
        ["X-Forwarded-Host: a.test", "X-Forwarded-Proto: https", "X-Forwarded-For: 192.0.2.1"]
    {
        assert!(asked.contains(&format!("{line}\r\n")), "{asked}");
    }
    assert_eq!(asked.matches("X-Forwarded-Host").count(), 1, "{asked}");
}

#[test]
fn a_server_gets_a_name_in_latin_1_as_the_service_says_it() {
    let (address, _told) = service();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = listener.local_addr().unwrap();
    let (tell, told) = channel();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let (mut head, mut byte) = (Vec::new(), [0]);
        while !head.ends_with(b"\r\n\r\n") {
            stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        tell.send(head).unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
    });
    let proxy = Proxy::beside(vec![guarded()], address, |fleet| {
        fleet.services[0].groups[0].servers = vec![Server::at(server)];
    });
    let seen = proxy.curl(&["-H", "Cookie: session=latin"], "/");
    assert!(seen.contains(" 200"), "{seen}");
    let head = told.recv_timeout(PATIENCE).unwrap();
    let line = b"Remote-User: M\xfcller\r\n";
    assert!(head.windows(line.len()).any(|it| it == line), "{}", head.escape_ascii());
}

#[test]
fn a_service_is_let_go_when_the_client_that_it_is_asked_about_is_gone() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let proxy = Proxy::beside(vec![guarded()], address, |_| ());
    let mut client = proxy.connect();
    client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let (mut asked, _) = silent.accept().unwrap();
    asked.set_read_timeout(Some(PATIENCE)).unwrap();
    crate::support::head(&mut asked).unwrap();
    SockRef::from(&client).set_linger(Some(std::time::Duration::ZERO)).unwrap();
    drop(client);
    assert!(matches!(asked.read(&mut [0]), Ok(0)), "it is still asked");
    // That of the client, and that about it.
    proxy.counts(Ending::ClientGone, 2);
    assert_eq!(proxy.tally("zero").reasons.iter().sum::<u64>(), 0, "nor is that a failure");
}

#[test]
fn a_session_with_the_service_is_none_of_the_client() {
    let (address, _told) = service();
    let proxy = Proxy::beside(vec![guarded()], address, |fleet| {
        fleet.services[1].sticky = Some(Sticky::Cookie(Cookie {
            name: "lb".into(),
            key: Secret::new("0123456789abcdef".into()),
            ttl: None,
            path: "/".into(),
            secure: false,
            same_site: SameSite::Lax,
        }));
    });
    let seen = proxy.get("/");
    assert!(seen.contains("Set-Cookie: from=here") && !seen.contains("lb="), "{seen}");
}
