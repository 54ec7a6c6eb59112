//! Who may ask over HTTP/3: bearers of tokens, and whom a service lets in.

use std::{
    io::{BufReader, Write as _},
    net::SocketAddr,
    sync::{Arc, atomic::Ordering::SeqCst},
};

use http::{HeaderMap, StatusCode};
use loadline_core::{
    decide::ending::Ending,
    fleet::{Fleet, Server},
    rules::{Action, Authentication, Conditions, Cors, ForwardAuth, Origin, Routes, Rule, Split},
    time::Duration,
};

use crate::{
    authority::Authority,
    issuer::Issuer,
    support::{Client, fleet, head, request, rest, server, sized, start, until},
};

/// What a request with these fields gets.
async fn get(client: &Client, fields: &[(&'static str, &str)]) -> (StatusCode, HeaderMap, Vec<u8>) {
    let mut asked = request("GET", "/3/");
    for (name, value) in fields {
        asked.headers_mut().append(*name, value.parse().unwrap());
    }
    let mut stream = client.requests.clone().send_request(asked).await.unwrap();
    stream.finish().await.unwrap();
    let response = stream.recv_response().await.unwrap();
    (response.status(), response.headers().clone(), rest(&mut stream).await.unwrap())
}

fn guarded(server: SocketAddr, authority: &Authority, by: Authentication) -> Fleet {
    let mut fleet = fleet(server, authority, 1);
    fleet.listeners[0].authentication = Some(by);
    fleet
}

#[tokio::test]
async fn a_request_over_http3_needs_its_token() {
    let (authority, issuer) = (Authority::new(), Issuer::new());
    let (server, asked) = sized(b'a');
    let jwt = Authentication::Jwt(Arc::new(issuer.jwt()));
    let (proxy, address) = start(&guarded(server, &authority, jwt));
    let client = Client::to(address, &authority).await;
    let token = format!("Bearer {}", issuer.token(""));
    let (status, _, body) = get(&client, &[("authorization", &token)]).await;
    assert_eq!((status, &body[..]), (StatusCode::OK, &b"aaa"[..]));
    let stranger = format!("Bearer {}", Issuer::new().token(""));
    for fields in [&[][..], &[("authorization", stranger.as_str())]] {
        let (status, headers, _) = get(&client, fields).await;
        assert_eq!(status, StatusCode::UNAUTHORIZED);
        let challenge = headers["www-authenticate"].to_str().unwrap();
        assert!(challenge.starts_with("Bearer realm=\"api\""), "{challenge}");
    }
    until(|| proxy.tallies().count(Ending::Unauthorized) == 2).await;
    assert_eq!(asked.requests.load(SeqCst), 1);
}

#[tokio::test]
async fn a_page_sees_over_http3_that_it_needs_a_token() {
    let (authority, issuer) = (Authority::new(), Issuer::new());
    let (server, _asked) = sized(b'a');
    let cors = Cors {
        origins: vec![Origin::parse("https://app.test").unwrap()],
        methods: vec![],
        headers: None,
        exposed: vec![],
        credentials: false,
        max_age: Duration::from_secs(5),
    };
    let mut fleet = fleet(server, &authority, 1);
    fleet.listeners[0].routes = Routes::new(vec![Rule {
        cors: Some(cors),
        authentication: Some(Authentication::Jwt(Arc::new(issuer.jwt()))),
        ..Rule::new(Conditions::default(), Action::Service(Split::all(0)))
    }]);
    let (_proxy, address) = start(&fleet);
    let client = Client::to(address, &authority).await;
    let (status, headers, _) = get(&client, &[("origin", "https://app.test")]).await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
    assert_eq!(headers["access-control-allow-origin"], "https://app.test");
    assert_eq!(headers["vary"], "Origin");
}

/// A service that lets in who has `session=alice`, and leads others to a login.
fn authentication_service() -> SocketAddr {
    server(|mut stream| {
        let reading = stream.try_clone().unwrap();
        let mut reader = BufReader::new(&reading);
        while let Some(head) = head(&mut reader) {
            let response = match head.contains("session=alice") {
                true => "HTTP/1.1 200 OK\r\nRemote-User: alice\r\nContent-Length: 0\r\n\r\n",
                false => "HTTP/1.1 302 Found\r\nLocation: /login\r\nContent-Length: 3\r\n\r\nlog",
            };
            stream.write_all(response.as_bytes()).unwrap();
        }
    })
}

#[tokio::test]
async fn a_service_says_who_comes_in_over_http3() {
    let authority = Authority::new();
    let (server, asked) = sized(b'a');
    let auth = Authentication::Forward(Arc::new(ForwardAuth::new(1)));
    let mut fleet = guarded(server, &authority, auth);
    let mut service = fleet.services[0].clone();
    service.name = "auth".to_owned();
    service.groups[0].servers = vec![Server::at(authentication_service())];
    fleet.services.push(service);
    let (proxy, address) = start(&fleet);
    let client = Client::to(address, &authority).await;
    for _ in 0..3 {
        let (status, _, body) = get(&client, &[("cookie", "session=alice")]).await;
        assert_eq!((status, &body[..]), (StatusCode::OK, &b"aaa"[..]));
        let (status, headers, body) = get(&client, &[]).await;
        assert_eq!((status, &body[..]), (StatusCode::FOUND, &b"log"[..]));
        assert_eq!(headers["location"], "/login");
    }
    until(|| proxy.tallies().count(Ending::Unauthorized) == 3).await;
    assert_eq!(asked.requests.load(SeqCst), 3);
}
