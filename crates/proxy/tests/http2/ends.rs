//! How streams to servers end: behind their response, or behind a request that was given up.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use h2::Reason;
use loadline_core::{fleet::HttpVersion, units::Rate};

use crate::{
    frames::{ACK, END_HEADERS, END_STREAM, HEADERS, RST_STREAM, Raw, SETTINGS},
    support::{Proxy, fleet, get, post, server},
};

/// `:status: 200`.
const FOUND: &[u8] = b"\x88";

/// The first byte of the head of a POST.
const POSTED: Option<&u8> = Some(&0x83);

/// A server that answers a POST at once and anything else when it has been given up.
fn too_late(connections: &Arc<AtomicUsize>, asked: &Arc<AtomicUsize>) -> SocketAddr {
    let (connections, asked) = (connections.clone(), asked.clone());
    server(move |stream| {
        connections.fetch_add(1, Relaxed);
        let mut client = Raw::accept(stream);
        client.send(SETTINGS, ACK, 0, b"").unwrap();
        while let Ok(frame) = client.receive() {
            let is_due = match frame.kind {
                HEADERS => {
                    asked.fetch_add(1, Relaxed);
                    frame.payload.first() == POSTED
                }
                kind => kind == RST_STREAM,
            };
            if is_due {
                let _ = client.send(HEADERS, END_HEADERS | END_STREAM, frame.stream, FOUND);
            }
        }
    })
}

#[tokio::test]
async fn responses_to_requests_that_were_given_up_never_end_the_connection_to_a_server() {
    let [connections, asked] = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
    let mut fleet = fleet(too_late(&connections, &asked));
    fleet.services[0].http_version = HttpVersion::Http2;
    fleet.listeners[0].http2.resets = Rate::per_sec(10_000);
    let proxy = Proxy::of(fleet);
    let client = proxy.client().await;
    for number in 1..=2_000 {
        let mut requests = client.requests.clone().ready().await.unwrap();
        let (_answer, mut stream) = requests.send_request(get(), true).unwrap();
        while asked.load(Relaxed) < number {
            tokio::task::yield_now().await;
        }
        stream.send_reset(Reason::CANCEL);
    }
    assert_eq!(client.ask(post()).await.unwrap().status, 200);
    assert_eq!(connections.load(Relaxed), 1);
}
