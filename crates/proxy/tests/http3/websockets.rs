//! WebSocket over a stream (RFC 9220), to a server of HTTP/1.

use std::{
    io::{self, BufReader, Read as _, Write as _},
    sync::mpsc::channel,
    time::Duration as StdDuration,
};

use loadline_core::decide::ending::Ending;
use quinn::VarInt;
use tokio::time::timeout;

use crate::{
    authority::Authority,
    handshake::not_opening,
    raw::{frame, lines, next_frame, open},
    support::{
        Client, PATIENCE, exact_head, field, fleet, open_websocket, server, sized, start, until,
    },
};

const ASKED: [(&str, &str); 6] = [
    (":method", "CONNECT"),
    (":scheme", "https"),
    (":path", "/chat"),
    (":authority", "a.test"),
    (":protocol", "websocket"),
    ("sec-websocket-version", "13"),
];

/// `:status 200` as h3 encodes it, behind the two bytes of a head without a dynamic table.
const OK: u8 = 0xd9;

#[tokio::test]
async fn bytes_go_both_ways_once_the_server_has_switched() {
    let authority = Authority::new();
    let server = server(|mut stream| {
        let asked = open_websocket(&stream);
        assert!(asked.starts_with("get /chat http/1.1\r\n"), "{asked}");
        assert_eq!(field(&asked, "upgrade"), Some("websocket"));
        assert_eq!(field(&asked, "host"), Some("a.test"));
        assert_eq!(field(&asked, "sec-websocket-version"), Some("13"));
        assert_eq!(field(&asked, "sec-websocket-key").unwrap().len(), 24);
        assert!(!asked.contains("protocol"), "{asked}");
        let _ = io::copy(&mut stream.try_clone().unwrap(), &mut stream);
    });
    let (proxy, address) = start(&fleet(server, &authority, 2));
    let client = Client::to(address, &authority).await;
    let (mut send, mut receive) = open(&client.connection, &lines(&ASKED)).await;
    let (kind, answer) = next_frame(&mut receive).await;
    assert_eq!((kind, answer[2]), (1, OK));
    assert!(!answer.windows(6).any(|it| it == b"accept"));
    for said in [&b"one"[..], b"two", &[b'x'; 100_000]] {
        send.write_all(&frame(0, said)).await.unwrap();
        let mut echoed = Vec::new();
        while echoed.len() < said.len() {
            echoed.extend(next_frame(&mut receive).await.1);
        }
        assert_eq!(echoed, said);
    }
    send.finish().unwrap();
    assert!(receive.read_to_end(100).await.unwrap().is_empty());
    until(|| proxy.tallies().count(Ending::Tunnel) == 1).await;
}

#[tokio::test]
async fn a_client_that_sends_a_key_gets_the_response_to_that_one() {
    let authority = Authority::new();
    let server = server(|mut stream| {
        let asked = open_websocket(&stream);
        assert_eq!(asked.matches("sec-websocket-key").count(), 1, "{asked}");
        // Heads are read in lower case.
        assert_eq!(field(&asked, "sec-websocket-key"), Some("dghlihnhbxbszsbub25jzq=="));
        let _ = io::copy(&mut stream.try_clone().unwrap(), &mut stream);
    });
    let (_proxy, address) = start(&fleet(server, &authority, 1));
    let client = Client::to(address, &authority).await;
    let key = [("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==")];
    let (_send, mut receive) = open(&client.connection, &lines(&[&ASKED[..], &key].concat())).await;
    let (_, answer) = next_frame(&mut receive).await;
    assert_eq!(answer[2], OK);
    // Longer than a status alone, whichever code its text is in.
    assert!(answer.len() > 20, "{answer:x?}");
}

#[tokio::test]
async fn a_server_that_does_not_switch_is_never_taken_for_one_that_has() {
    let authority = Authority::new();
    let (server, _) = sized(b'a');
    let (proxy, address) = start(&fleet(server, &authority, 1));
    let client = Client::to(address, &authority).await;
    let (_send, mut receive) = open(&client.connection, &lines(&ASKED)).await;
    let (kind, answer) = next_frame(&mut receive).await;
    assert_eq!(kind, 1);
    assert!(is_501(&answer), "{answer:x?}");
    until(|| proxy.tallies().count(Ending::NoUpgrade) == 1).await;
}

#[tokio::test]
async fn a_server_that_switches_without_having_read_the_key_has_opened_nothing() {
    let authority = Authority::new();
    for nth in 0..4 {
        let server = server(move |mut stream| {
            let asked = exact_head(&mut BufReader::new(&stream)).unwrap();
            stream.write_all(not_opening(&asked)[nth].as_bytes()).unwrap();
            // Until the proxy ends it.
            let _ = stream.read(&mut [0]);
        });
        let (proxy, address) = start(&fleet(server, &authority, 1));
        let client = Client::to(address, &authority).await;
        let (_send, mut receive) = open(&client.connection, &lines(&ASKED)).await;
        let (kind, answer) = next_frame(&mut receive).await;
        // One that does not even say to what it switches is no response at all.
        let ending = if nth == 0 { Ending::ServerBad } else { Ending::NoUpgrade };
        assert!(kind == 1 && is_501(&answer) == (nth > 0), "{nth}: {answer:x?}");
        until(|| proxy.tallies().count(ending) == 1).await;
    }
}

#[tokio::test]
async fn a_connect_that_says_how_long_it_is_is_refused_at_once() {
    let authority = Authority::new();
    let server = server(|_| panic!("it is not sent on"));
    let (proxy, address) = start(&fleet(server, &authority, 1));
    let client = Client::to(address, &authority).await;
    let asked = [&ASKED[..], &[("content-length", "5")]].concat();
    let (_send, mut receive) = open(&client.connection, &lines(&asked)).await;
    let (kind, answer) = timeout(PATIENCE, next_frame(&mut receive)).await.unwrap();
    // `:status 400` by its place in the table.
    assert_eq!((kind, &answer[2..4]), (1, &[0xff, 4][..]), "{answer:x?}");
    until(|| proxy.tallies().count(Ending::ClientBad) == 1).await;
}

#[tokio::test]
async fn another_protocol_than_websocket_is_told_that_it_is_not_offered() {
    let authority = Authority::new();
    let server = server(|_| panic!("it is not sent on"));
    let (proxy, address) = start(&fleet(server, &authority, 1));
    let client = Client::to(address, &authority).await;
    for (index, protocol) in ["connect-tcp", "WebSocket", "webtransport"].into_iter().enumerate() {
        let mut asked = ASKED;
        asked[4] = (":protocol", protocol);
        let (_send, mut receive) = open(&client.connection, &lines(&asked)).await;
        let (kind, answer) = next_frame(&mut receive).await;
        assert!(kind == 1 && is_501(&answer), "{protocol}: {answer:x?}");
        until(|| proxy.tallies().count(Ending::ClientBad) == index as u64 + 1).await;
    }
}

/// Whether a head has the status with a value of its own, plain or in Huffman's code.
fn is_501(head: &[u8]) -> bool {
    head.windows(3).any(|it| it == b"501" || it == [0x82, 0x6c, 0x01])
}

#[tokio::test]
async fn empty_data_does_not_end_a_websocket() {
    let authority = Authority::new();
    let server = server(|mut stream| {
        open_websocket(&stream);
        let _ = io::copy(&mut stream.try_clone().unwrap(), &mut stream);
    });
    let (_proxy, address) = start(&fleet(server, &authority, 1));
    let client = Client::to(address, &authority).await;
    let (mut send, mut receive) = open(&client.connection, &lines(&ASKED)).await;
    assert_eq!(next_frame(&mut receive).await.1[2], OK);
    for _ in 0..3 {
        send.write_all(&[0, 0, 0, 0]).await.unwrap();
        send.write_all(&frame(0, b"said")).await.unwrap();
        assert_eq!(next_frame(&mut receive).await, (0, b"said".to_vec()));
    }
}

#[tokio::test]
async fn a_client_that_takes_nothing_of_its_websocket_any_more_ends_it() {
    let authority = Authority::new();
    let server = server(|mut stream| {
        open_websocket(&stream);
        // Until the proxy ends it.
        let _ = io::copy(&mut stream, &mut io::sink());
    });
    let (proxy, address) = start(&fleet(server, &authority, 1));
    let client = Client::to(address, &authority).await;
    let (_send, mut receive) = open(&client.connection, &lines(&ASKED)).await;
    assert_eq!(next_frame(&mut receive).await.1[2], OK);
    receive.stop(VarInt::from_u32(0x10c)).unwrap();
    until(|| proxy.tallies().count(Ending::Tunnel) == 1).await;
}

#[tokio::test]
async fn a_client_that_gives_its_websocket_up_ends_it_though_the_server_takes_no_more() {
    let authority = Authority::new();
    let (told, heard) = channel();
    let server = server(move |stream| {
        open_websocket(&stream);
        told.send(stream).unwrap();
    });
    let (proxy, address) = start(&fleet(server, &authority, 1));
    let client = Client::to(address, &authority).await;
    let (mut send, mut receive) = open(&client.connection, &lines(&ASKED)).await;
    assert_eq!(next_frame(&mut receive).await.1[2], OK);
    let _open = heard.recv_timeout(PATIENCE).unwrap();
    let piece = frame(0, &[b'x'; 16 << 10]);
    let while_taken = StdDuration::from_millis(500);
    while timeout(while_taken, send.write_all(&piece)).await.is_ok_and(|sent| sent.is_ok()) {}
    send.reset(VarInt::from_u32(0x10c)).unwrap();
    receive.stop(VarInt::from_u32(0x10c)).unwrap();
    until(|| proxy.tallies().count(Ending::Tunnel) == 1).await;
}

#[tokio::test]
async fn a_protocol_without_connect_is_no_request() {
    let authority = Authority::new();
    let server = server(|_| panic!("it is not sent on"));
    let (proxy, address) = start(&fleet(server, &authority, 1));
    let client = Client::to(address, &authority).await;
    let mut asked = ASKED;
    asked[0] = (":method", "GET");
    let (_send, mut receive) = open(&client.connection, &lines(&asked)).await;
    let told = receive.read_to_end(100).await;
    assert!(told.is_err_and(|told| format!("{told:?}").contains("270")), "H3_MESSAGE_ERROR");
    until(|| proxy.tallies().count(Ending::ClientBad) == 1).await;
}
