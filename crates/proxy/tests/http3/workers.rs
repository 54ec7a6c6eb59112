//! Each worker serves the connections whose packets the kernel gives it.

use std::{
    net::{Ipv4Addr, UdpSocket},
    sync::atomic::Ordering::SeqCst,
    time::Instant,
};

use quinn::Endpoint;
use tokio::task::JoinSet;

use crate::{
    authority::Authority,
    support::{Client, config, fleet, request, rest, sized, start},
};

#[tokio::test]
async fn each_worker_serves_a_part_of_the_clients() {
    let authority = Authority::new();
    for threads in [1, 3] {
        let (server, asked) = sized(b'a');
        let (_proxy, address) = start(&fleet(server, &authority, threads));
        for _ in 0..40 {
            let (status, body) = Client::to(address, &authority).await.get("/3").await;
            assert_eq!((status.as_u16(), body.as_slice()), (200, &b"aaa"[..]));
        }
        // One after the other: a worker keeps one connection, which no other has.
        assert_eq!(asked.connections.load(SeqCst), threads as usize);
    }
}

#[tokio::test]
async fn nobody_is_kept_out_where_clients_have_to_prove_their_addresses() {
    let authority = Authority::new();
    let (server, _) = sized(b'a');
    let mut fleet = fleet(server, &authority, 2);
    fleet.listeners[0].max_connections = 10_000;
    let (_proxy, address) = start(&fleet);
    let config = config(&authority, 1 << 20);
    // More than 1,000 at each worker: from then on a client has to show a token.
    let (mut kept, mut failed) = (Vec::new(), Vec::new());
    for round in 0..100 {
        let mut endpoint = Endpoint::client((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        endpoint.set_default_client_config(config.clone());
        let mut all = JoinSet::new();
        for _ in 0..30 {
            let connecting = endpoint.connect(address, "a.test").unwrap();
            all.spawn(async move { (Instant::now(), connecting.await, Instant::now()) });
        }
        while let Some(done) = all.join_next().await {
            match done.unwrap() {
                (_, Ok(connection), _) => kept.push((endpoint.clone(), connection)),
                (begun, Err(error), ended) => failed.push((round, error, ended - begun)),
            }
        }
    }
    assert!(failed.is_empty(), "{} beside {}: {failed:?}", failed.len(), kept.len());
    let alive = kept.iter().filter(|(_, it)| it.close_reason().is_none()).count();
    assert_eq!(alive, 3_000);
}

#[tokio::test]
async fn a_download_goes_on_when_the_port_of_its_client_changes_in_a_hundred_of_a_hundred() {
    let authority = Authority::new();
    let (server, _) = sized(b'a');
    let (_proxy, address) = start(&fleet(server, &authority, 2));
    let mut all = JoinSet::new();
    for _ in 0..100 {
        let mut client = Client::with(address, config(&authority, 32 << 10)).await;
        all.spawn(async move {
            let mut stream = client.requests.send_request(request("GET", "/300000")).await.unwrap();
            stream.finish().await.unwrap();
            assert_eq!(stream.recv_response().await.unwrap().status(), 200);
            // No more than a window of it has been sent.
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            client.endpoint.rebind(socket).unwrap();
            assert_eq!(rest(&mut stream).await.unwrap().len(), 300_000);
        });
    }
    let mut went_on = 0;
    while let Some(done) = all.join_next().await {
        done.unwrap();
        went_on += 1;
    }
    assert_eq!(went_on, 100);
}
