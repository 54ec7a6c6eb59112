//! Strict-Transport-Security: in every response over TLS, once, and in none in clear.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener},
    process::Command,
    thread,
};

use loadline_core::{
    fleet::{Fleet, Hsts},
    rules::{Action, Caching, Conditions, DirectResponse, Path, Redirect, Routes, Rule, Split},
    time::Duration,
};
use rustls::version::TLS13;

use crate::{
    authority::Authority,
    ports::reserved,
    support::{connect, fleet, message, start, with},
};

/// What the server says, which is not what the listener says.
const OF_SERVER: &str = "Strict-Transport-Security: max-age=1\r\n";

/// A server that has a policy of its own.
fn server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let fields = format!("{OF_SERVER}Cache-Control: max-age=60\r\nContent-Length: 2");
            let answer = format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\nok");
            thread::spawn(move || {
                while message(&mut stream).is_ok() {
                    stream.write_all(answer.as_bytes()).unwrap();
                }
            });
        }
    });
    address
}

fn strict(authority: &Authority, server: SocketAddr) -> Fleet {
    let mut tls = with(vec![authority.sign(&["a.test"])]).unwrap();
    let max_age = Duration::from_secs(31_536_000);
    tls.hsts = Some(Hsts { max_age, include_subdomains: true, preload: false });
    fleet(server, Some(tls))
}

fn rule(path: &str, action: Action) -> Rule {
    let paths = vec![Path::prefix(path).unwrap()];
    Rule::new(Conditions { paths, ..Conditions::default() }, action)
}

/// Sends `head` with its empty line and gives the response.
fn said(stream: &mut (impl Read + Write), head: &str) -> String {
    stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
    String::from_utf8(message(stream).unwrap()).unwrap().to_ascii_lowercase()
}

const WANTED: &str = "\r\nstrict-transport-security: max-age=31536000; includesubdomains\r\n";

fn check(answer: &str, status: &str) {
    assert!(answer.starts_with(&format!("http/1.1 {status} ")), "{answer}");
    assert!(answer.contains(WANTED), "{answer}");
    assert_eq!(answer.matches("strict-transport").count(), 1, "{answer}");
}

#[test]
fn every_answer_over_tls_says_what_the_listener_says_and_says_it_once() {
    let authority = Authority::new();
    let mut fleet = strict(&authority, server());
    let redirect = Redirect {
        status: 308,
        scheme: None,
        host: Some("b.test".into()),
        path: None,
        location: None,
    };
    let denied = DirectResponse { status: 403, headers: vec![], body: "no".into() };
    fleet.listeners[0].routes = Routes::new(vec![
        rule("/no", Action::Respond(denied)),
        rule("/moved", Action::Redirect(redirect)),
    ]);
    let (_proxy, address) = start(fleet);
    let mut client = connect(address, &authority.client(&[&TLS13], None), "a.test");
    for (target, status) in [("/", "200"), ("/no", "403"), ("/moved", "308"), ("/", "200")] {
        check(&said(&mut client, &format!("GET {target} HTTP/1.1\r\nHost: a\r\n")), status);
    }
    check(&said(&mut client, "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n"), "400");
}

#[test]
fn a_cached_answer_says_what_the_listener_says_and_not_what_the_server_said() {
    let authority = Authority::new();
    let mut fleet = strict(&authority, server());
    let cache = Some(Caching::default());
    let routes = vec![Rule { cache, ..rule("/", Action::Service(Split::all(0))) }];
    fleet.listeners[0].routes = Routes::new(routes);
    let (_proxy, address) = start(fleet);
    let mut client = connect(address, &authority.client(&[&TLS13], None), "a.test");
    for outcome in ["fwd=uri-miss", "hit"] {
        let answer = said(&mut client, "GET / HTTP/1.1\r\nHost: a\r\n");
        check(&answer, "200");
        assert!(answer.contains(&format!("cache-status: loadline; {outcome}")), "{answer}");
    }
}

#[test]
fn an_answer_for_want_of_a_server_says_it_too() {
    let authority = Authority::new();
    let (_proxy, address) = start(strict(&authority, reserved()));
    let mut client = connect(address, &authority.client(&[&TLS13], None), "a.test");
    let head = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n";
    check(&said(&mut client, head), "502");
}

#[test]
fn http2_says_it_as_well() {
    let authority = Authority::new();
    let (_proxy, address) = start(strict(&authority, server()));
    let url = format!("https://{address}/");
    let told = Command::new("curl").args(["-sk", "--http2", "-D-", &url]).output().unwrap().stdout;
    let told = String::from_utf8(told).unwrap().to_ascii_lowercase();
    assert!(told.starts_with("http/2 200") && told.contains(WANTED), "{told:?}");
    assert_eq!(told.matches("strict-transport").count(), 1, "{told:?}");
}

#[test]
fn in_clear_nothing_is_said_that_the_server_did_not_say() {
    let (_proxy, address) = start(fleet(server(), None));
    let mut client = std::net::TcpStream::connect(address).unwrap();
    let told = said(&mut client, "GET / HTTP/1.1\r\nHost: a\r\n");
    assert!(told.contains(&OF_SERVER.to_ascii_lowercase()), "{told}");
}
