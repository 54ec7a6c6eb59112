//! Requests in the first packets of a client that comes back (0-RTT).

use std::{
    cell::Cell,
    io::{BufReader, Write as _},
    net::{Ipv4Addr, SocketAddr, UdpSocket},
    sync::{Arc, Mutex},
    time::{Duration as StdDuration, Instant},
};

use loadline_core::{decide::ending::Ending, time::Duration};
use loadline_proxy::runtime::Runtime;
use quinn::{ClientConfig, Connection, Endpoint, ZeroRttAccepted};

use crate::{
    authority::Authority,
    support::{Client, Requests, config, fleet, get, head, request, server, start, until},
};

type Heads = Arc<Mutex<Vec<String>>>;

/// A proxy that takes early data, and the heads that its server has seen.
fn taking_early_data(authority: &Authority) -> (Runtime, SocketAddr, Heads) {
    let heads = Heads::default();
    let seen = heads.clone();
    let server = server(move |mut stream| {
        while let Some(head) = head(&mut BufReader::new(&stream)) {
            let is_early = head.contains("early-data: 1");
            let status =
                if is_early && head.contains("/late") { "425 Too Early" } else { "200 OK" };
            seen.lock().unwrap().push(head);
            let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    let mut fleet = fleet(server, authority, 2);
    fleet.listeners[0].timeouts.head = Duration::from_millis(500);
    fleet.listeners[0].tls.as_mut().unwrap().early_data = true;
    let (proxy, address) = start(&fleet);
    (proxy, address, heads)
}

/// The configuration of a client that has been there before.
async fn returning(address: SocketAddr, authority: &Authority) -> ClientConfig {
    let config = config(authority, 1 << 20);
    // The response comes behind the session.
    Client::with(address, config.clone()).await.get("/before").await;
    config
}

/// A connection on which requests are sent at once.
async fn early(
    address: SocketAddr,
    config: ClientConfig,
) -> (Endpoint, Connection, ZeroRttAccepted, Requests) {
    let mut endpoint = Endpoint::client((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    endpoint.set_default_client_config(config);
    let connecting = endpoint.connect(address, "a.test").unwrap();
    let (connection, accepted) = connecting.into_0rtt().expect("a session to resume");
    let opened = h3::client::new(h3_quinn::Connection::new(connection.clone())).await;
    let (mut driver, requests) = opened.unwrap();
    tokio::spawn(async move { std::future::poll_fn(|cx| driver.poll_close(cx)).await });
    (endpoint, connection, accepted, requests)
}

#[tokio::test]
async fn a_get_is_sent_on_at_once_and_its_server_told() {
    let authority = Authority::new();
    let (_proxy, address, heads) = taking_early_data(&authority);
    let config = returning(address, &authority).await;
    let (_endpoint, _connection, accepted, requests) = early(address, config).await;
    let (status, _) = get(requests.clone(), "/early").await.unwrap();
    assert!(accepted.await, "taken before the handshake was over");
    assert_eq!(status, 200);
    let (status, _) = get(requests, "/after").await.unwrap();
    assert_eq!(status, 200);
    let heads = heads.lock().unwrap();
    let of = |path: &str| heads.iter().find(|head| head.contains(path)).unwrap();
    assert!(!of("/before").contains("early-data"));
    assert!(!of("/after").contains("early-data"));
}

#[tokio::test]
async fn what_somebody_has_recorded_and_sends_is_told_as_early_and_changes_nothing() {
    let authority = Authority::new();
    let (proxy, address, heads) = taking_early_data(&authority);
    let config = returning(address, &authority).await;
    // Takes the packets of the client and gives none on.
    let tap = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    tap.set_read_timeout(Some(StdDuration::from_millis(300))).unwrap();
    let (_endpoint, _connection, _accepted, mut requests) =
        early(tap.local_addr().unwrap(), config).await;
    let mut posted = requests.send_request(request("POST", "/post")).await.unwrap();
    posted.finish().await.unwrap();
    let mut got = requests.send_request(request("GET", "/get")).await.unwrap();
    got.finish().await.unwrap();
    let recorded = tokio::task::spawn_blocking(move || {
        let mut room = [0; 2_000];
        let next = || tap.recv(&mut room).ok().map(|length| room[..length].to_vec());
        std::iter::from_fn(next).take(12).collect::<Vec<_>>()
    });
    let recorded = recorded.await.unwrap();
    for _ in 0..2 {
        let before = failed(&proxy);
        let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        // While a connection is just over, packets like its own are ignored.
        let sent = Cell::new(Instant::now() - SECOND);
        until(|| {
            if sent.get().elapsed() >= SECOND {
                sent.set(Instant::now());
                for packet in &recorded {
                    sender.send_to(packet, address).unwrap();
                }
            }
            failed(&proxy) > before
        })
        .await;
    }
    let count = |ending| proxy.tallies().count(ending);
    until(|| count(Ending::ClientTimeout) + count(Ending::ClientGone) > 0).await;
    let heads = heads.lock().unwrap();
    let early: Vec<&String> = heads.iter().filter(|head| !head.contains("/before")).collect();
    assert!(early.len() == 1 && early[0].starts_with("get /get"), "{early:?}");
    assert!(early[0].contains("early-data: 1"));
}

const SECOND: StdDuration = StdDuration::from_secs(1);

fn failed(proxy: &Runtime) -> u64 {
    proxy.tallies().listeners.values().map(|listener| listener.handshakes_failed).sum()
}

#[tokio::test]
async fn a_post_waits_for_the_handshake_and_is_sent_as_any_other() {
    let authority = Authority::new();
    let (_proxy, address, heads) = taking_early_data(&authority);
    let config = returning(address, &authority).await;
    let (_endpoint, _connection, accepted, mut requests) = early(address, config).await;
    let mut stream = requests.send_request(request("POST", "/post")).await.unwrap();
    stream.finish().await.unwrap();
    assert_eq!(stream.recv_response().await.unwrap().status(), 200);
    assert!(accepted.await);
    let heads = heads.lock().unwrap();
    let post = heads.iter().find(|head| head.starts_with("post")).unwrap();
    assert!(!post.contains("early-data"), "{post}");
}

#[tokio::test]
async fn it_is_off_unless_it_is_switched_on() {
    let authority = Authority::new();
    let (server, _) = crate::support::sized(b'a');
    let (_proxy, address) = start(&fleet(server, &authority, 1));
    let config = config(&authority, 1 << 20);
    Client::with(address, config.clone()).await.get("/3").await;
    let mut endpoint = Endpoint::client((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    endpoint.set_default_client_config(config);
    assert!(endpoint.connect(address, "a.test").unwrap().into_0rtt().is_err());
}
