//! Clients that authenticate their connection and not each request, by NTLM.

use std::{
    io::Write as _,
    net::{SocketAddr, TcpStream},
    thread,
};

use loadline_core::{
    fleet::Fleet,
    rules::{Action, Caching, Conditions, Routes, Rule, Split},
};

use crate::support::{Proxy, SHORT, Scripted, exactly, fleet, head};

/// A server that takes all that comes over a connection for the user's who has logged in on it.
fn server() -> Scripted {
    Scripted::new(|mut stream, _| {
        let (mut is_challenged, mut user) = (false, None);
        while let Some(asked) = head(&mut stream) {
            match asked.lines().find_map(|line| line.strip_prefix("Authorization: NTLM ")) {
                Some("hello") => (is_challenged, user) = (true, None),
                Some(name) if is_challenged => user = Some(name.to_owned()),
                _ => {}
            }
            let answer = match &user {
                Some(user) => format!(
                    "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\n\
                     Content-Length: {}\r\n\r\n{user}",
                    user.len()
                ),
                None => "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: NTLM\r\n\
                         Content-Length: 0\r\n\r\n"
                    .to_owned(),
            };
            stream.write_all(answer.as_bytes()).unwrap();
        }
    })
}

/// Whom the server takes the client for that sends these credentials, or none; or the status.
fn ask(client: &mut TcpStream, credentials: Option<&str>) -> String {
    let line = credentials.map(|text| format!("Authorization: NTLM {text}\r\n"));
    let request = format!("GET / HTTP/1.1\r\nHost: x\r\n{}\r\n", line.unwrap_or_default());
    client.write_all(request.as_bytes()).unwrap();
    let answer = head(client).unwrap();
    match answer.starts_with("HTTP/1.1 200 ") {
        true => exactly(client, "alice".len()),
        false => answer[9..12].to_owned(),
    }
}

/// A client that has logged in.
fn logged_in(proxy: &Proxy, name: &str) -> TcpStream {
    let mut client = proxy.connect();
    for credentials in [None, Some("hello")] {
        assert_eq!(ask(&mut client, credentials), "401");
    }
    assert_eq!(ask(&mut client, Some(name)), name);
    client
}

#[test]
fn a_connection_that_a_client_has_authenticated_stays_with_it_and_is_for_nobody_else() {
    let servers = [server(), server()];
    let proxy = Proxy::to(&servers.each_ref().map(|server| server.address));
    let mut alice = logged_in(&proxy, "alice");
    for _ in 0..6 {
        assert_eq!(ask(&mut alice, None), "alice");
        assert!(proxy.get().starts_with("HTTP/1.1 401 "));
    }
    let mut carol = logged_in(&proxy, "carol");
    assert_eq!(ask(&mut alice, None), "alice");
    assert_eq!(ask(&mut carol, None), "carol");
}

/// A fleet of this server behind a cache.
fn cached(server: SocketAddr) -> Fleet {
    let mut fleet = fleet(&[server]);
    let rule = Rule {
        cache: Some(Caching::default()),
        ..Rule::new(Conditions::default(), Action::Service(Split::all(0)))
    };
    fleet.listeners[0].routes = Routes::new(vec![rule]);
    fleet
}

#[test]
fn a_cache_gives_nobody_what_was_for_a_client_that_authenticated_its_connection() {
    let server = server();
    let proxy = Proxy::of(cached(server.address));
    let mut alice = logged_in(&proxy, "alice");
    assert_eq!(ask(&mut alice, None), "alice");
    assert!(proxy.get().starts_with("HTTP/1.1 401 "));
    assert_eq!(ask(&mut alice, None), "alice");
}

#[test]
fn a_client_whose_connection_was_unused_for_too_long_is_one_like_all_others() {
    let server = Scripted::new(|mut stream, number| {
        while head(&mut stream).is_some() {
            let answer = format!(
                "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\n\
                 Content-Length: 5\r\n\r\n{number:05}"
            );
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    let mut fleet = cached(server.address);
    fleet.services[0].timeouts.keep_alive = SHORT;
    let proxy = Proxy::of(fleet);
    let mut client = proxy.connect();
    assert_eq!(ask(&mut client, Some("hello")), "00000", "over its own connection");
    assert_eq!(ask(&mut proxy.connect(), None), "00001", "of which the cache knows nothing");
    thread::sleep(SHORT.to_std() * 2);
    assert_eq!(ask(&mut client, None), "00001", "from the cache");
}
