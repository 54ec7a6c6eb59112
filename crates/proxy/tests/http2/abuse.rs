//! What a client may do too much of.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use loadline_core::{decide::ending::Ending, units::Rate};
use socket2::{Domain, Socket, Type};

use crate::{
    frames::{
        CONTINUATION, DATA, END_HEADERS, END_STREAM, GET, HEADERS, POST, RST_STREAM, Raw, SETTINGS,
        WINDOW_UPDATE, frame,
    },
    support::{OK, Proxy, answering, fleet, head, server, showing, wait_until},
};

/// A server that takes requests and never answers.
fn silent() -> Proxy {
    Proxy::to(server(|mut stream| while head(&mut stream).is_some() {}))
}

const PROTOCOL_ERROR: u32 = 1;
const REFUSED_STREAM: [u8; 4] = [0, 0, 0, 7];
const CANCEL: [u8; 4] = [0, 0, 0, 8];
const ENHANCE_YOUR_CALM: u32 = 11;

#[test]
fn streams_beyond_the_limit_are_refused_and_the_limit_is_announced() {
    let proxy = silent();
    let mut client = Raw::connect(proxy.address);
    let settings = client.until(SETTINGS).payload;
    assert!(settings.chunks(6).any(|it| it == [0, 3, 0, 0, 0, 100]), "{settings:?}");
    for stream in 0..101 {
        client.send(HEADERS, END_HEADERS | END_STREAM, 2 * stream + 1, GET).unwrap();
    }
    let refused = client.until(RST_STREAM);
    assert_eq!((refused.stream, &refused.payload[..]), (201, &REFUSED_STREAM[..]));
    proxy.expect(Ending::ClientBad, 1);
}

#[test]
fn streams_reset_as_soon_as_they_are_opened_end_the_connection() {
    let proxy = silent();
    let mut client = Raw::connect(proxy.address);
    let mut frames = Vec::new();
    for stream in (1..2_001_u32).step_by(2) {
        for (kind, flags, payload) in
            [(HEADERS, END_HEADERS | END_STREAM, GET), (RST_STREAM, 0, &CANCEL)]
        {
            frames.push((kind, flags, stream, payload));
        }
    }
    let began = Instant::now();
    // The proxy may hang up before all is sent.
    let _ = frames
        .iter()
        .try_for_each(|&(kind, flags, stream, payload)| client.send(kind, flags, stream, payload));
    assert_eq!(client.reason(), ENHANCE_YOUR_CALM);
    // Besides the 200 that may come at once.
    let most = 300 + 20 * began.elapsed().as_secs();
    assert!(proxy.runtime.tallies().requests() < most);
    let counted = || proxy.runtime.tallies().count(Ending::ClientBad) == 1;
    wait_until(counted, "the connection to be counted");
}

#[test]
fn streams_reset_at_once_end_the_connection_though_their_server_does_not_accept_yet() {
    let full = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    full.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    full.listen(0).unwrap();
    let proxy = Proxy::to(full.local_addr().unwrap().as_socket().unwrap());
    let mut client = Raw::connect(proxy.address);
    let began = Instant::now();
    let mut number = 0;
    while number < 1_000
        && client.send(HEADERS, END_HEADERS | END_STREAM, 2 * number + 1, GET).is_ok()
        && client.is_there()
        && client.send(RST_STREAM, 0, 2 * number + 1, &CANCEL).is_ok()
    {
        number += 1;
    }
    let most = 250 + 20 * began.elapsed().as_secs();
    assert!(u64::from(number) < most, "{number}");
}

#[test]
fn requests_taken_back_together_before_they_are_seen_are_counted_and_the_connection_stays() {
    let proxy = silent();
    let mut client = Raw::connect(proxy.address);
    let taken_back = |number: u32| {
        let head = frame(HEADERS, END_HEADERS | END_STREAM, 2 * number + 1, GET);
        [head, frame(RST_STREAM, 0, 2 * number + 1, &CANCEL)].concat()
    };
    let frames: Vec<_> = (0..100).map(taken_back).collect();
    client.send_all(&frames);
    assert!(client.is_there());
    proxy.expect(Ending::ClientGone, 100);
}

#[test]
fn streams_reset_again_and_again_end_the_connection_though_a_server_saw_each() {
    let mut fleet = fleet(server(|mut stream| while head(&mut stream).is_some() {}));
    fleet.listeners[0].http2.resets = Rate::per_sec(1);
    let proxy = Proxy::of(fleet);
    let mut client = Raw::connect(proxy.address);
    let gone = || proxy.runtime.tallies().count(Ending::ClientGone);
    let mut number = 0;
    // Ten at once are allowed, and one more for each second that passes.
    while client.send(HEADERS, END_HEADERS | END_STREAM, 2 * number + 1, GET).is_ok()
        && client.is_there()
    {
        client.send(RST_STREAM, 0, 2 * number + 1, &CANCEL).unwrap();
        wait_until(|| gone() > u64::from(number), "the reset to be seen");
        number += 1;
    }
    assert!(number > 10, "{number}");
    let counted = || proxy.runtime.tallies().count(Ending::ClientBad) == 1;
    wait_until(counted, "the stream that is left to be counted");
}

/// A client that has us reset its streams, by a frame on each that breaks a rule (CVE-2025-8671).
fn broken_by(kind: u8, payload: &[u8]) {
    let (at_servers, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let counts = (at_servers, most.clone());
    let proxy = Proxy::to(server(move |mut stream| {
        while head(&mut stream).is_some() {
            counts.1.fetch_max(counts.0.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        }
        counts.0.fetch_sub(1, Ordering::SeqCst);
    }));
    let mut client = Raw::connect(proxy.address);
    let mut opened = 0;
    while opened < 5_000
        && client.send(HEADERS, END_HEADERS | END_STREAM, 2 * opened + 1, GET).is_ok()
        && client.send(kind, 0, 2 * opened + 1, payload).is_ok()
        && client.is_there()
    {
        opened += 1;
    }
    assert!(opened < 500, "{kind}: {opened} streams");
    // And with it the requests of its streams.
    let counted = || proxy.runtime.tallies().count(Ending::ClientBad) > 0;
    wait_until(counted, "the breach to be counted");
    let most = most.load(Ordering::SeqCst);
    assert!(most <= 200, "{kind}: {most} requests at the server at a time");
}

#[test]
fn streams_that_a_client_has_us_reset_end_the_connection() {
    broken_by(WINDOW_UPDATE, &[0; 4]);
    broken_by(WINDOW_UPDATE, &[0x7f, 0xff, 0xff, 0xff]);
    broken_by(DATA, b"after the end");
    broken_by(HEADERS, GET);
}

#[test]
fn a_head_that_never_ends_ends_the_connection() {
    let proxy = Proxy::to(answering(OK));
    let mut client = Raw::connect(proxy.address);
    client.send(HEADERS, END_STREAM, 1, GET).unwrap();
    // Each a field `x: ` and 1,000 letters that is not remembered.
    let field = [&b"\x00\x01x\x7f\xe9\x06"[..], &[b'y'; 1_000]].concat();
    let _ = (0..1_000).try_for_each(|_| client.send(CONTINUATION, 0, 1, &field));
    assert!([ENHANCE_YOUR_CALM, PROTOCOL_ERROR].contains(&client.reason()));
    proxy.expect(Ending::ClientBad, 1);
}

/// Memory of this process, in bytes.
fn resident() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

#[test]
fn heads_that_unpack_to_much_are_refused_and_take_no_memory() {
    let proxy = Proxy::to(answering(OK));
    // A field `x: yy...` of 4,000 letters that is remembered (RFC 7541, 6.2.1), and then named by
    // one byte 12,000 times: a frame of 16 kB that says 48 MB.
    let field = [&b"\x40\x01x\x7f\xa1\x1e"[..], &[b'y'; 4_000]].concat();
    let bomb = [GET, &field, &[0xbe; 12_000]].concat();
    let before = resident();
    for _ in 0..100 {
        let mut client = Raw::connect(proxy.address);
        client.send(HEADERS, END_HEADERS | END_STREAM, 1, &bomb).unwrap();
        assert_eq!(client.reason(), ENHANCE_YOUR_CALM);
    }
    proxy.expect(Ending::ClientBad, 100);
    // 4.8 GB were said. Other tests run in this process, and none takes this much.
    let grown = resident().saturating_sub(before);
    assert!(grown < 200_000_000, "{grown} bytes");
}

#[test]
fn an_empty_frame_with_each_request_never_ends_the_connection() {
    let proxy = Proxy::to(showing("0\r\n\r\n"));
    let mut client = Raw::connect(proxy.address);
    // Room for all responses.
    client.send(WINDOW_UPDATE, 0, 0, &[0, 16, 0, 0]).unwrap();
    for stream in (1..1_001).step_by(2) {
        client.send(HEADERS, END_HEADERS, stream, POST).unwrap();
        client.send(DATA, 0, stream, b"").unwrap();
        client.send(DATA, 0, stream, b"hello").unwrap();
        client.send(DATA, END_STREAM, stream, b"").unwrap();
        assert_eq!(client.until(DATA).stream, stream);
    }
    proxy.expect(Ending::Complete, 500);
}

#[test]
fn empty_frames_without_end_end_the_connection() {
    let proxy = silent();
    let mut client = Raw::connect(proxy.address);
    client.send(HEADERS, END_HEADERS, 1, POST).unwrap();
    let _ = (0..100_000).try_for_each(|_| client.send(0, 0, 1, b""));
    assert_eq!(client.reason(), ENHANCE_YOUR_CALM);
}
