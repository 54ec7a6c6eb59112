//! What a reload, and a process that follows on the same sockets, do to clients of HTTP/3. Both
//! processes are in one here.

use std::{
    net::SocketAddr,
    os::fd::AsFd as _,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Instant,
};

use bytes::Bytes;
use h3::error::{Code, StreamError};
use http::HeaderValue;
use loadline_core::{fleet::Fleet, time::Duration};
use loadline_proxy::{
    listener::inherited::Inherited,
    runtime::{Bound, Runtime},
};
use tokio::task::{JoinHandle, JoinSet, spawn_blocking};

use crate::{
    authority::Authority,
    support::{Client, PATIENCE, config, fleet, request, rest, sized, start, until},
};

/// A proxy on the sockets of another.
fn successor(of: &Runtime, fleet: Fleet) -> Runtime {
    let mut inherited = Inherited::default();
    for listener in of.handle().sockets() {
        let key = (listener.bind, listener.nth);
        for socket in listener.sockets {
            inherited.add_for(socket.as_fd().try_clone_to_owned().unwrap(), key).unwrap();
        }
        inherited.add_quic(listener.quic.unwrap(), key);
    }
    Bound::new(fleet, &mut inherited).unwrap().start().unwrap()
}

/// A download that is under way: the client has its head and little more.
async fn download(address: SocketAddr, authority: &Authority) -> JoinHandle<usize> {
    let mut client = Client::with(address, config(authority, 32 << 10)).await;
    let mut stream = client.requests.send_request(request("GET", "/3000000")).await.unwrap();
    stream.finish().await.unwrap();
    assert_eq!(stream.recv_response().await.unwrap().status(), 200);
    tokio::spawn(async move {
        let length = rest(&mut stream).await.unwrap().len();
        drop(client);
        length
    })
}

/// What clients that never stop asking have seen.
#[derive(Default)]
struct Seen {
    is_over: AtomicBool,
    answered: AtomicUsize,
    connections: AtomicUsize,
}

/// A client that asks again and again, and connects anew when it is told to. A request that was
/// refused unseen is sent again; anything else that goes wrong fails the test.
async fn keep_posting(address: SocketAddr, authority: Arc<Authority>, seen: Arc<Seen>) {
    let config = config(&authority, 1 << 20);
    while !seen.is_over.load(SeqCst) {
        let client = Client::with(address, config.clone()).await;
        seen.connections.fetch_add(1, SeqCst);
        while !seen.is_over.load(SeqCst) {
            match post(&client).await {
                Ok(()) => seen.answered.fetch_add(1, SeqCst),
                Err(error) if is_refused(&error) => break,
                Err(error) => panic!("{error:?}"),
            };
        }
    }
}

async fn post(client: &Client) -> Result<(), StreamError> {
    let mut asked = request("POST", "/10");
    asked.headers_mut().insert("content-length", HeaderValue::from_static("4"));
    let mut stream = client.requests.clone().send_request(asked).await?;
    // Refused streams take nothing, which is seen at the response.
    let _ = stream.send_data(Bytes::from_static(b"body")).await;
    let _ = stream.finish().await;
    assert_eq!(stream.recv_response().await?.status(), 200);
    assert_eq!(rest(&mut stream).await?.len(), 10);
    Ok(())
}

fn is_refused(error: &StreamError) -> bool {
    match error {
        StreamError::RemoteTerminate { code, .. } => *code == Code::H3_REQUEST_REJECTED,
        // The client has seen GOAWAY, and has sent nothing; h3 lets nobody name this.
        other => format!("{other:?}") == "RemoteClosing",
    }
}

#[tokio::test]
async fn no_request_is_lost_or_answered_twice_while_a_process_follows() {
    let authority = Arc::new(Authority::new());
    let (server, asked) = sized(b'a');
    let (mut proxy, address) = start(&fleet(server, &authority, 2));
    let seen = Arc::new(Seen::default());
    let mut clients = JoinSet::new();
    for _ in 0..8 {
        clients.spawn(keep_posting(address, authority.clone(), seen.clone()));
    }
    for round in 1..=3 {
        let answered = seen.answered.load(SeqCst);
        until(|| seen.answered.load(SeqCst) >= answered + 50).await;
        let new = successor(&proxy, fleet(server, &authority, 2));
        let old = std::mem::replace(&mut proxy, new);
        spawn_blocking(move || old.leave(Duration::from_secs(20))).await.unwrap();
        // All come to the next one.
        until(|| seen.connections.load(SeqCst) >= 8 * (round + 1)).await;
    }
    seen.is_over.store(true, SeqCst);
    while let Some(ended) = clients.join_next().await {
        ended.unwrap();
    }
    assert_eq!(asked.requests.load(SeqCst), seen.answered.load(SeqCst));
}

#[tokio::test]
async fn downloads_of_the_older_process_end_while_the_next_one_takes_new_clients() {
    let authority = Authority::new();
    let (server, _) = sized(b'a');
    let (other, _) = sized(b'b');
    let (old, address) = start(&fleet(server, &authority, 2));
    let mut downloads = Vec::new();
    for _ in 0..10 {
        downloads.push(download(address, &authority).await);
    }
    let new = successor(&old, fleet(other, &authority, 2));
    // The older one still serves its own, and takes nobody in.
    for _ in 0..10 {
        let (_, body) = Client::to(address, &authority).await.get("/3").await;
        assert_eq!(body, b"bbb");
    }
    let leaving = spawn_blocking(move || old.leave(Duration::from_secs(20)));
    for download in downloads {
        assert_eq!(download.await.unwrap(), 3_000_000);
    }
    leaving.await.unwrap();
    let (_, body) = Client::to(address, &authority).await.get("/3").await;
    assert_eq!(body, b"bbb");
    drop(new);
}

#[tokio::test]
async fn after_a_handover_that_failed_the_older_process_takes_clients_again() {
    let authority = Authority::new();
    let (server, _) = sized(b'a');
    let (proxy, address) = start(&fleet(server, &authority, 2));
    let failed = successor(&proxy, fleet(server, &authority, 2));
    let _ = Client::to(address, &authority).await.get("/3").await;
    failed.stop(Duration::ZERO);
    proxy.handle().reclaim();
    for _ in 0..10 {
        let (_, body) = Client::to(address, &authority).await.get("/3").await;
        assert_eq!(body, b"aaa");
    }
}

#[tokio::test]
async fn a_number_of_workers_that_changes_with_the_process_leaves_nobody_without_one() {
    let authority = Authority::new();
    let (server, _) = sized(b'a');
    for (before, after) in [(1, 3), (3, 1)] {
        let (old, address) = start(&fleet(server, &authority, before));
        let new = successor(&old, fleet(server, &authority, after));
        spawn_blocking(move || old.leave(Duration::ZERO)).await.unwrap();
        for _ in 0..20 {
            let (_, body) = Client::to(address, &authority).await.get("/3").await;
            assert_eq!(body, b"aaa", "{before} workers before, {after} after");
        }
        drop(new);
    }
}

#[tokio::test]
async fn reloads_leave_connections_and_downloads_alone() {
    let authority = Arc::new(Authority::new());
    let (server, asked) = sized(b'a');
    let (proxy, address) = start(&fleet(server, &authority, 2));
    let seen = Arc::new(Seen::default());
    let mut clients = JoinSet::new();
    for _ in 0..4 {
        clients.spawn(keep_posting(address, authority.clone(), seen.clone()));
    }
    let mut downloads = Vec::new();
    for _ in 0..4 {
        downloads.push(download(address, &authority).await);
    }
    for _ in 0..20 {
        let answered = seen.answered.load(SeqCst);
        proxy.reload(fleet(server, &authority, 2)).unwrap();
        until(|| seen.answered.load(SeqCst) >= answered + 20).await;
    }
    for download in downloads {
        assert_eq!(download.await.unwrap(), 3_000_000);
    }
    seen.is_over.store(true, SeqCst);
    while let Some(ended) = clients.join_next().await {
        ended.unwrap();
    }
    assert_eq!(seen.connections.load(SeqCst), 4, "each had one connection");
    assert_eq!(asked.requests.load(SeqCst), seen.answered.load(SeqCst) + 4);
}

#[tokio::test]
async fn switched_off_it_takes_nobody_in_and_switched_on_again_it_does() {
    let authority = Authority::new();
    let (server, _) = sized(b'a');
    let with = |on| {
        let mut fleet = fleet(server, &authority, 2);
        fleet.listeners[0].http3 = on;
        fleet
    };
    let (proxy, address) = start(&with(true));
    let kept = Client::to(address, &authority).await;
    let under_way = download(address, &authority).await;
    proxy.reload(with(false)).unwrap();
    proxy.reload(with(true)).unwrap();
    assert_eq!(Client::to(address, &authority).await.get("/3").await.1, b"aaa");
    assert_eq!(kept.get("/3").await.1, b"aaa");
    assert_eq!(under_way.await.unwrap(), 3_000_000);
}

#[tokio::test]
async fn http3_comes_and_goes_with_the_suite_that_it_needs() {
    let authority = Authority::new();
    let (server, _) = sized(b'a');
    let with = |suites: &[&str]| {
        let mut fleet = fleet(server, &authority, 2);
        let tls = fleet.listeners[0].tls.as_mut().unwrap();
        tls.terms.suites = suites.iter().map(|it| (*it).to_owned()).collect();
        fleet
    };
    let (proxy, address) = start(&with(&[]));
    let mut client = Client::to(address, &authority).await;
    for (suites, is_offered) in [(&["TLS13_AES_256_GCM_SHA384"][..], false), (&[], true)] {
        proxy.reload(with(suites)).unwrap();
        let began = Instant::now();
        loop {
            let mut stream = client.requests.send_request(request("GET", "/3")).await.unwrap();
            stream.finish().await.unwrap();
            let answer = stream.recv_response().await.unwrap();
            if answer.headers().contains_key("alt-svc") == is_offered {
                break;
            }
            assert!(began.elapsed() < PATIENCE, "{suites:?}");
        }
    }
    assert_eq!(Client::to(address, &authority).await.get("/3").await.1, b"aaa");
}

#[tokio::test]
async fn a_reload_that_adds_the_suite_that_http3_needs_is_enough() {
    let authority = Authority::new();
    let (server, _) = sized(b'a');
    let (proxy, address) = start(&fleet(server, &authority, 2));
    let mut without = fleet(server, &authority, 2);
    let suite = "TLS13_AES_256_GCM_SHA384".to_owned();
    without.listeners[0].tls.as_mut().unwrap().terms.suites = vec![suite];
    proxy.reload(without).unwrap();
    // Nobody is connected: the port is closed when it has been seen that HTTP/3 cannot be served.
    until(|| proxy.handle().sockets()[0].quic.is_none()).await;
    proxy.reload(fleet(server, &authority, 2)).unwrap();
    until(|| proxy.handle().sockets()[0].quic.is_some()).await;
    assert_eq!(Client::to(address, &authority).await.get("/3").await.1, b"aaa");
}
