//! What a client can do too much of, and how what it does not finish is counted.

use std::{
    fs,
    io::{BufReader, Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration as StdDuration,
};

use loadline_core::{
    decide::ending::Ending,
    fleet::{AccessLog, HeadLimits, LogFormat, LogTarget},
    time::Duration,
    units::Bytes,
};
use quinn::{Endpoint, ReadError, ReadToEndError, RecvStream, VarInt};
use socket2::SockRef;
use tokio::{net::UdpSocket, time::timeout};

use crate::{
    authority::Authority,
    raw::{frame, lines, next_frame, open},
    support::{
        Client, PATIENCE, Relay, config, fleet, get, head, request, server, sized, start, until,
    },
};

const GET: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "https"), (":path", "/3"), (":authority", "a.test")];

/// H3_EXCESSIVE_LOAD (RFC 9114, 8.1).
const EXCESSIVE_LOAD: u32 = 0x107;

/// QPACK_DECOMPRESSION_FAILED (RFC 9204, 6).
const DECOMPRESSION_FAILED: u32 = 0x200;

/// QPACK_ENCODER_STREAM_ERROR and QPACK_DECODER_STREAM_ERROR (RFC 9204, 6).
const ENCODER_STREAM_ERROR: u32 = 0x201;
const DECODER_STREAM_ERROR: u32 = 0x202;

/// H3_CLOSED_CRITICAL_STREAM.
const CLOSED_CRITICAL_STREAM: u32 = 0x104;

/// H3_FRAME_UNEXPECTED.
const FRAME_UNEXPECTED: u32 = 0x105;

/// H3_FRAME_ERROR.
const FRAME_ERROR: u32 = 0x106;

/// H3_ID_ERROR.
const ID_ERROR: u32 = 0x108;

/// H3_SETTINGS_ERROR.
const SETTINGS_ERROR: u32 = 0x109;

/// H3_MISSING_SETTINGS.
const MISSING_SETTINGS: u32 = 0x10a;

/// H3_NO_ERROR.
const NO_ERROR: u32 = 0x100;

/// H3_STREAM_CREATION_ERROR.
const STREAM_CREATION_ERROR: u32 = 0x103;

/// H3_MESSAGE_ERROR.
const MESSAGE_ERROR: u32 = 0x10e;

/// H3_REQUEST_INCOMPLETE.
const REQUEST_INCOMPLETE: u32 = 0x10d;

/// H3_REQUEST_CANCELLED.
const CANCELLED: VarInt = VarInt::from_u32(0x10c);

#[tokio::test]
async fn a_flood_of_resets_closes_the_connection_and_counts_as_one_bad_request() {
    let authority = Authority::new();
    let server = server(|stream| {
        // Never answers.
        while head(&mut BufReader::new(&stream)).is_some() {}
    });
    let (proxy, address) = start(&fleet(server, &authority, 1));
    let client = Client::to(address, &authority).await;
    let flood = async {
        for _ in 0..2_000 {
            let Ok((mut send, mut receive)) = client.connection.open_bi().await else { return };
            let head = frame(1, &[&[0, 0], lines(&GET).as_slice()].concat());
            if send.write_all(&head).await.is_err() {
                return;
            }
            let _ = (send.reset(CANCELLED), receive.stop(CANCELLED));
        }
    };
    flood.await;
    let closed = timeout(PATIENCE, client.connection.closed()).await.unwrap();
    let quinn::ConnectionError::ApplicationClosed(closed) = closed else { panic!("{closed:?}") };
    assert_eq!(closed.error_code, VarInt::from_u32(EXCESSIVE_LOAD));
    until(|| proxy.tallies().count(Ending::ClientBad) == 1).await;
}

#[tokio::test]
async fn a_head_that_is_too_large_gets_431_whoever_finds_it_so() {
    let authority = Authority::new();
    let (server, asked) = sized(b'a');
    let (proxy, address) = start(&fleet(server, &authority, 1));
    let client = Client::to(address, &authority).await;
    // The first is beyond the limit of the listener, the second beyond what is unpacked at all.
    for (index, size) in [17_000, 30_000].into_iter().enumerate() {
        let long = "v".repeat(size);
        let block = lines(&[&GET[..], &[("x-long", &long)]].concat());
        let (mut send, mut receive) = open(&client.connection, &block).await;
        send.finish().unwrap();
        let (kind, answer) = next_frame(&mut receive).await;
        // `:status` by its place in the table, and its value.
        assert_eq!((kind, &answer[..2]), (1, &[0, 0][..]));
        assert!(is_431(&answer), "{answer:x?}");
        receive.read_to_end(10_000).await.unwrap();
        until(|| proxy.tallies().count(Ending::ClientBad) == index as u64 + 1).await;
    }
    assert_eq!(asked.requests.load(SeqCst), 0);
    assert_eq!(client.get("/3").await.0, 200, "the connection goes on");
}

#[tokio::test]
async fn a_head_of_many_more_fields_than_a_listener_may_allow_is_refused_and_counted() {
    let authority = Authority::new();
    let (server, asked) = sized(b'a');
    let mut fleet = fleet(server, &authority, 1);
    fleet.listeners[0].limits = HeadLimits { size: Bytes::new(1 << 20), fields: 1_000 };
    let (proxy, address) = start(&fleet);
    let client = Client::to(address, &authority).await;
    let fields = lines(&[&GET[..], &[("x", ""); 25_000]].concat());
    let (mut send, mut receive) = open(&client.connection, &fields).await;
    let _ = send.finish();
    let told = receive.read_to_end(1_000).await;
    let Err(ReadToEndError::Read(ReadError::Reset(code))) = told else { panic!("{told:?}") };
    assert_eq!(code, VarInt::from_u32(EXCESSIVE_LOAD));
    until(|| proxy.tallies().count(Ending::ClientBad) == 1).await;
    assert_eq!(asked.requests.load(SeqCst), 0);
    assert_eq!(client.get("/3").await.0, 200, "the connection goes on");
}

#[tokio::test]
async fn trailers_that_are_too_large_or_malformed_are_told_so_and_counted_as_a_bad_request() {
    let authority = Authority::new();
    let server = server(|stream| while head(&mut BufReader::new(&stream)).is_some() {});
    let (proxy, address) = start(&fleet(server, &authority, 1));
    let client = Client::to(address, &authority).await;
    let long = "v".repeat(30_000);
    for (index, trailers) in [("x-long", long.as_str()), ("X-Upper", "v")].into_iter().enumerate() {
        let mut post = GET;
        post[0] = (":method", "POST");
        let (mut send, mut receive) = open(&client.connection, &lines(&post)).await;
        let body = [frame(0, b"body"), frame(1, &block(&[trailers]))].concat();
        send.write_all(&body).await.unwrap();
        send.finish().unwrap();
        if index == 0 {
            let (kind, answer) = next_frame(&mut receive).await;
            assert!(kind == 1 && is_431(&answer), "{answer:x?}");
        } else {
            let told = receive.read_to_end(1_000).await;
            let Err(ReadToEndError::Read(ReadError::Reset(code))) = told else {
                panic!("{told:?}")
            };
            assert_eq!(code, VarInt::from_u32(MESSAGE_ERROR));
        }
        until(|| proxy.tallies().count(Ending::ClientBad) == index as u64 + 1).await;
    }
}

/// Whether a head has the status, plain or in Huffman's code.
fn is_431(head: &[u8]) -> bool {
    head.windows(3).any(|it| it == b"431" || it == [0x69, 0x90, 0xff])
}

#[tokio::test]
async fn a_head_that_does_not_come_whole_is_counted_by_how_it_ended() {
    let authority = Authority::new();
    let (server, _) = sized(b'a');
    let mut fleet = fleet(server, &authority, 1);
    fleet.listeners[0].timeouts.head = Duration::from_secs(1);
    let (proxy, address) = start(&fleet);
    let count = |ending| proxy.tallies().count(ending);
    let client = Client::to(address, &authority).await;
    let half = &frame(1, &[&[0, 0], lines(&GET).as_slice()].concat())[..20];

    let (mut send, mut receive) = client.connection.open_bi().await.unwrap();
    send.write_all(half).await.unwrap();
    let late = receive.read_to_end(10).await;
    let Err(ReadToEndError::Read(ReadError::Reset(code))) = late else { panic!("{late:?}") };
    assert_eq!(code, VarInt::from_u32(REQUEST_INCOMPLETE));
    until(|| count(Ending::ClientTimeout) == 1).await;

    let (mut send, _receive) = client.connection.open_bi().await.unwrap();
    send.write_all(half).await.unwrap();
    send.reset(CANCELLED).unwrap();
    until(|| count(Ending::ClientGone) == 1).await;

    let (_send, mut receive) = open(&client.connection, &lines(&[(":method", "GET")])).await;
    assert!(receive.read_to_end(10).await.is_err());
    until(|| count(Ending::ClientBad) == 1).await;

    let other = Client::to(address, &authority).await;
    let (mut send, _receive) = other.connection.open_bi().await.unwrap();
    send.write_all(half).await.unwrap();
    assert_eq!(other.get("/3").await.0, 200, "the half head is there by now");
    other.connection.close(VarInt::from_u32(0x100), b"");
    until(|| count(Ending::ClientGone) == 2).await;
    assert_eq!(client.get("/3").await.0, 200, "the others go on");
}

#[tokio::test]
async fn who_takes_an_upload_back_is_told_that_the_request_is_cancelled() {
    let authority = Authority::new();
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = asked.clone();
    let server = server(move |mut stream| {
        if head(&mut BufReader::new(&stream)).is_some() {
            counted.fetch_add(1, SeqCst);
            let _ = stream.read_to_end(&mut Vec::new());
        }
    });
    let (proxy, address) = start(&fleet(server, &authority, 1));
    let client = Client::to(address, &authority).await;
    let mut post = GET;
    post[0] = (":method", "POST");
    let (mut send, mut receive) = open(&client.connection, &lines(&post)).await;
    send.write_all(&frame(0, b"half")).await.unwrap();
    until(|| asked.load(SeqCst) == 1).await;
    send.reset(CANCELLED).unwrap();
    let told = timeout(PATIENCE, receive.read_to_end(1_000)).await.unwrap();
    let Err(ReadToEndError::Read(ReadError::Reset(code))) = told else { panic!("{told:?}") };
    assert_eq!(code, CANCELLED);
    until(|| proxy.tallies().count(Ending::ClientGone) == 1).await;
}

#[tokio::test]
async fn a_get_that_is_reset_before_its_end_is_logged_with_what_it_asked_for() {
    let authority = Authority::new();
    let server = server(|mut stream| {
        let reading = stream.try_clone().unwrap();
        let mut reader = BufReader::new(&reading);
        while let Some(asked) = head(&mut reader) {
            if asked.starts_with("get /5 ") {
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
            }
        }
    });
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log");
    let mut fleet = fleet(server, &authority, 1);
    fleet.edge.access_log = Some(AccessLog::to(LogTarget::File(path.display().to_string())));
    let (proxy, address) = start(&fleet);
    let client = Client::to(address, &authority).await;
    let (mut send, _receive) = open(&client.connection, &lines(&GET)).await;
    assert_eq!(client.get("/5").await.0, 200, "the other head has been read by then");
    send.reset(CANCELLED).unwrap();
    until(|| proxy.tallies().count(Ending::ClientGone) == 1).await;
    let stopped = tokio::task::spawn_blocking(move || proxy.stop(Duration::ZERO));
    stopped.await.unwrap();
    let log = fs::read_to_string(path).unwrap();
    let is_told =
        |line: &str| line.contains(" client-gone ") && line.contains(" GET \"/3\" HTTP/3.0 ");
    assert!(log.lines().any(is_told), "{log}");
}

/// The bytes that the access log has of a response for which a client makes so much room, and no
/// more.
async fn logged(window: u32) -> u64 {
    let authority = Authority::new();
    let (server, _) = sized(b'a');
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log");
    let mut fleet = fleet(server, &authority, 1);
    fleet.listeners[0].timeouts.idle = Duration::from_millis(300);
    let target = LogTarget::File(path.display().to_string());
    fleet.edge.access_log = Some(AccessLog { format: LogFormat::Json, ..AccessLog::to(target) });
    let (proxy, address) = start(&fleet);
    let client = Client::with(address, config(&authority, window)).await;
    let mut asked = GET;
    asked[2] = (":path", "/16000");
    let (mut send, _receive) = open(&client.connection, &lines(&asked)).await;
    send.finish().unwrap();
    until(|| proxy.tallies().count(Ending::ClientTimeout) == 1).await;
    let stopped = tokio::task::spawn_blocking(move || proxy.stop(Duration::ZERO));
    stopped.await.unwrap();
    let line = fs::read_to_string(path).unwrap();
    let line: serde_json::Value = serde_json::from_str(line.trim()).unwrap();
    line["bytes"].as_u64().unwrap()
}

#[tokio::test]
async fn the_access_log_has_what_went_out_of_a_response_that_its_client_does_not_take() {
    assert_eq!(logged(2_000).await, logged(1_000).await + 1_000);
}

#[tokio::test]
async fn a_frame_where_none_may_be_closes_the_connection_and_counts_as_one_bad_request() {
    let authority = Authority::new();
    let (server, _) = sized(b'a');
    let (proxy, address) = start(&fleet(server, &authority, 1));
    let client = Client::to(address, &authority).await;
    let (mut send, _receive) = client.connection.open_bi().await.unwrap();
    send.write_all(&frame(0, b"no head")).await.unwrap();
    client.connection.closed().await;
    until(|| proxy.tallies().requests() == 1).await;
    assert_eq!(proxy.tallies().count(Ending::ClientBad), 1);
}

#[tokio::test]
async fn a_get_whose_client_never_ends_it_is_answered_even_without_a_limit_for_heads() {
    let authority = Authority::new();
    let (server, _) = sized(b'a');
    let mut fleet = fleet(server, &authority, 1);
    fleet.listeners[0].timeouts.head = Duration::ZERO;
    let (_proxy, address) = start(&fleet);
    let mut client = Client::to(address, &authority).await;
    let mut stream = client.requests.send_request(request("GET", "/3")).await.unwrap();
    let answer = timeout(PATIENCE, stream.recv_response()).await;
    assert!(answer.is_ok(), "it is not waited for for ever");
}

#[tokio::test]
async fn a_client_has_as_many_streams_as_the_limit_says_and_no_more() {
    let authority = Authority::new();
    let server = server(|stream| while head(&mut BufReader::new(&stream)).is_some() {});
    let mut fleet = fleet(server, &authority, 1);
    fleet.listeners[0].http2.streams = 10;
    let (_proxy, address) = start(&fleet);
    let client = Client::to(address, &authority).await;
    let mut open = Vec::new();
    for _ in 0..10 {
        open.push(crate::raw::open(&client.connection, &lines(&GET)).await);
    }
    let more = timeout(StdDuration::from_millis(300), client.connection.open_bi()).await;
    assert!(more.is_err(), "an eleventh");
}

#[tokio::test]
async fn a_request_whose_pseudo_headers_others_may_read_otherwise_is_refused_and_counted() {
    let authority = Authority::new();
    let (server, asked) = sized(b'a');
    let (proxy, address) = start(&fleet(server, &authority, 1));
    let client = Client::to(address, &authority).await;
    let with = |more: &[(&str, &str)]| frame(1, &block(&[&GET[..], more].concat()));
    let trailers = |more| [with(&[]), frame(0, b"x"), frame(1, &block(more))].concat();
    let cases = [
        with(&[(":path", "/4")]),
        with(&[(":method", "POST")]),
        with(&[(":authority", "b.test")]),
        with(&[(":scheme", "http")]),
        with(&[("x", "y"), (":path", "/4")]),
        with(&[(":status", "200")]),
        trailers(&[(":path", "/4")]),
    ];
    for (index, case) in cases.iter().enumerate() {
        let (mut send, mut receive) = client.connection.open_bi().await.unwrap();
        send.write_all(case).await.unwrap();
        let _ = send.finish();
        assert_eq!(reset(&mut receive).await, MESSAGE_ERROR, "{index}");
        until(|| proxy.tallies().count(Ending::ClientBad) == index as u64 + 1).await;
    }
    assert_eq!(asked.requests.load(SeqCst), 0);
    assert_eq!(client.get("/3").await.0, 200, "the connection goes on");
}

/// The code that a stream is reset with.
async fn reset(receive: &mut RecvStream) -> u32 {
    let told = receive.read_to_end(1_000).await;
    let Err(ReadToEndError::Read(ReadError::Reset(code))) = told else { panic!("{told:?}") };
    u32::try_from(code.into_inner()).unwrap()
}

#[tokio::test]
async fn a_request_with_a_fragment_or_no_scheme_or_half_an_extended_connect_is_refused_and_counted()
{
    let authority = Authority::new();
    let (server, asked) = sized(b'a');
    let (proxy, address) = start(&fleet(server, &authority, 1));
    let client = Client::to(address, &authority).await;
    let mut cases = Vec::new();
    for target in ["/3#x", "/#", "#", "/3?b#c", "?a"] {
        cases.push([GET[0], GET[1], (":path", target), GET[3]]);
    }
    cases.push([GET[0], (":scheme", ""), GET[2], GET[3]]);
    cases.push([(":method", "CONNECT"), GET[1], GET[2], GET[3]]);
    for (index, case) in cases.iter().enumerate() {
        let (mut send, mut receive) = open(&client.connection, &lines(case)).await;
        let _ = send.finish();
        assert_eq!(reset(&mut receive).await, MESSAGE_ERROR, "{case:?}");
        until(|| proxy.tallies().count(Ending::ClientBad) == index as u64 + 1).await;
    }
    assert_eq!(asked.requests.load(SeqCst), 0);
    assert_eq!(client.get("/3").await.0, 200, "the connection goes on");
}

#[tokio::test]
async fn a_client_that_opens_a_stream_of_pushes_is_told_so_and_counted_once() {
    let authority = Authority::new();
    let (server, _) = sized(b'a');
    let (proxy, address) = start(&fleet(server, &authority, 1));
    let client = Client::to(address, &authority).await;
    let mut push = client.connection.open_uni().await.unwrap();
    push.write_all(&[1]).await.unwrap();
    let closed = timeout(PATIENCE, client.connection.closed()).await.unwrap();
    let quinn::ConnectionError::ApplicationClosed(closed) = closed else { panic!("{closed:?}") };
    assert_eq!(closed.error_code, VarInt::from_u32(STREAM_CREATION_ERROR));
    until(|| proxy.tallies().count(Ending::ClientBad) == 1).await;
}

#[tokio::test]
async fn a_client_that_breaks_a_rule_of_qpack_is_told_so_whenever_it_does() {
    let authority = Authority::new();
    let (server, asked) = sized(b'a');
    let (proxy, address) = start(&fleet(server, &authority, 1));
    let mut broken = 0;
    for (stream, code) in [
        (&[2, 0x21][..], ENCODER_STREAM_ERROR),
        (&[3, 0x84], DECODER_STREAM_ERROR),
        (&[3], CLOSED_CRITICAL_STREAM),
    ] {
        for waits in [false, true] {
            // One of h3 has opened these streams.
            let mut endpoint = Endpoint::client((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
            endpoint.set_default_client_config(config(&authority, 1 << 20));
            let connection = endpoint.connect(address, "a.test").unwrap().await.unwrap();
            let mut send = connection.open_uni().await.unwrap();
            send.write_all(&stream[..1]).await.unwrap();
            if waits {
                // The server has read the type by then.
                let (mut request, mut response) = open(&connection, &lines(&GET)).await;
                request.finish().unwrap();
                response.read_to_end(1_000).await.unwrap();
            }
            send.write_all(&stream[1..]).await.unwrap();
            if stream.len() == 1 {
                send.finish().unwrap();
            }
            let closed = timeout(PATIENCE, connection.closed()).await.unwrap();
            let quinn::ConnectionError::ApplicationClosed(closed) = closed else {
                panic!("{closed:?}")
            };
            assert_eq!(closed.error_code, VarInt::from_u32(code), "{stream:x?}, {waits}");
            broken += 1;
            until(|| proxy.tallies().count(Ending::ClientBad) == broken).await;
        }
    }
    assert_eq!(asked.requests.load(SeqCst), 3);
}

#[tokio::test]
async fn a_head_or_trailers_that_need_a_dynamic_table_close_the_connection_for_there_is_none() {
    let authority = Authority::new();
    let server = server(|stream| while head(&mut BufReader::new(&stream)).is_some() {});
    let (proxy, address) = start(&fleet(server, &authority, 1));
    let mut broken = 0;
    for prefix in [[1, 0], [0x65, 0], [0, 0x80]] {
        let encoded = |fields: &[(&str, &str)]| frame(1, &[&prefix[..], &lines(fields)].concat());
        let trailers = [frame(1, &block(&GET)), frame(0, b"x"), encoded(&[("x-sum", "1")])];
        for stream in [encoded(&GET), trailers.concat()] {
            let client = Client::to(address, &authority).await;
            let (mut send, _receive) = client.connection.open_bi().await.unwrap();
            send.write_all(&stream).await.unwrap();
            let closed = timeout(PATIENCE, client.connection.closed()).await.unwrap();
            let quinn::ConnectionError::ApplicationClosed(closed) = closed else { panic!() };
            assert_eq!(closed.error_code, VarInt::from_u32(DECOMPRESSION_FAILED), "{prefix:x?}");
            broken += 1;
            until(|| proxy.tallies().count(Ending::ClientBad) == broken).await;
        }
    }
}

#[tokio::test]
async fn a_request_stream_with_a_frame_of_a_control_stream_closes_its_connection() {
    let authority = Authority::new();
    let (server, _) = sized(b'a');
    let (proxy, address) = start(&fleet(server, &authority, 1));
    let mut post = GET;
    post[0] = (":method", "POST");
    let mut broken = 0;
    for wrong in [&[0x80, 0x0f, 7, 0, 1, 0][..], &[7, 0], &[5, 0], &[3, 0], &[0xd, 0]] {
        for first in [&[][..], &frame(1, &block(&post))] {
            let client = Client::to(address, &authority).await;
            let (mut send, _receive) = client.connection.open_bi().await.unwrap();
            send.write_all(&[first, wrong].concat()).await.unwrap();
            assert_eq!(code_of(&client.connection).await, FRAME_UNEXPECTED, "{wrong:x?}");
            broken += 1;
            until(|| proxy.tallies().count(Ending::ClientBad) == broken).await;
        }
    }
}

#[tokio::test]
async fn a_control_stream_that_breaks_a_rule_closes_its_connection_and_counts_once() {
    let authority = Authority::new();
    let (server, _) = sized(b'a');
    let mut fleet = fleet(server, &authority, 1);
    fleet.listeners[0].http2.streams = 10;
    let (proxy, address) = start(&fleet);
    let cases: [(&[u8], _); 9] = [
        (&[0, 4, 0, 7, 0], FRAME_ERROR),
        (&[0, 4, 0, 3, 0], FRAME_ERROR),
        (&[0, 4, 0, 0xd, 1, 0x40], FRAME_ERROR),
        (&[0, 4, 0, 7, 2, 0, 0], FRAME_ERROR),
        (&[0, 4, 0, 5, 0], FRAME_UNEXPECTED),
        (&[0, 0x21, 0, 4, 0], MISSING_SETTINGS),
        (&[0, 0x80, 0x0f, 7, 0, 1, 0], MISSING_SETTINGS),
        (&[0, 4, 2, 8, 2], SETTINGS_ERROR),
        // Of the eleventh request, where ten may be open.
        (&[0, 4, 0, 0x80, 0x0f, 7, 0, 1, 40], ID_ERROR),
    ];
    for (index, (stream, code)) in cases.into_iter().enumerate() {
        // One of h3 has opened this stream.
        let mut endpoint = Endpoint::client((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        endpoint.set_default_client_config(config(&authority, 1 << 20));
        let connection = endpoint.connect(address, "a.test").unwrap().await.unwrap();
        let mut send = connection.open_uni().await.unwrap();
        send.write_all(stream).await.unwrap();
        assert_eq!(code_of(&connection).await, code, "{stream:x?}");
        until(|| proxy.tallies().count(Ending::ClientBad) == index as u64 + 1).await;
    }
}

#[tokio::test]
async fn a_connection_many_of_whose_streams_had_to_be_reset_is_left() {
    let authority = Authority::new();
    let (server, _) = sized(b'a');
    let (_proxy, address) = start(&fleet(server, &authority, 1));
    let client = Client::to(address, &authority).await;
    let short = lines(&[("content-length", "5")]);
    let mut post = GET;
    post[0] = (":method", "POST");
    let malformed = [lines(&post), short].concat();
    let mut rounds = 0;
    // Half of all, which is no abuse.
    while get(client.requests.clone(), "/3").await.is_ok() {
        rounds += 1;
        assert!(rounds < 1_500, "it is not left");
        let (mut send, mut receive) = open(&client.connection, &malformed).await;
        send.write_all(&frame(0, b"x")).await.unwrap();
        send.finish().unwrap();
        let _ = receive.read_to_end(1_000).await;
    }
    assert_eq!(code_of(&client.connection).await, NO_ERROR);
}

#[tokio::test]
async fn a_connection_many_of_whose_streams_never_had_a_head_is_left() {
    let authority = Authority::new();
    let (server, _) = sized(b'a');
    let (_proxy, address) = start(&fleet(server, &authority, 1));
    let client = Client::to(address, &authority).await;
    let mut rounds = 0;
    // Half of all, which is no abuse.
    while get(client.requests.clone(), "/3").await.is_ok() {
        rounds += 1;
        assert!(rounds < 1_500, "it is not left");
        let (mut send, mut receive) = client.connection.open_bi().await.unwrap();
        // The beginning of HEADERS.
        send.write_all(&[1]).await.unwrap();
        send.reset(CANCELLED).unwrap();
        let _ = receive.read_to_end(1_000).await;
    }
    assert_eq!(code_of(&client.connection).await, NO_ERROR);
}

/// With which code a connection is closed.
async fn code_of(connection: &quinn::Connection) -> u32 {
    let closed = timeout(PATIENCE, connection.closed()).await.unwrap();
    let quinn::ConnectionError::ApplicationClosed(closed) = closed else { panic!("{closed:?}") };
    closed.error_code.into_inner().try_into().unwrap()
}

/// An encoded section of these lines.
fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    [&[0, 0], lines(fields).as_slice()].concat()
}

/// A server with an endless response, of which the kernel keeps little, and how much of it has been
/// taken; one more at the end, when nothing has been for a second.
fn endless() -> (SocketAddr, Arc<AtomicUsize>) {
    let taken = Arc::new(AtomicUsize::new(0));
    let counted = taken.clone();
    let address = server(move |mut stream| {
        SockRef::from(&stream).set_send_buffer_size(64 << 10).unwrap();
        head(&mut BufReader::new(&stream)).unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 300000000\r\n\r\n").unwrap();
        stream.set_write_timeout(Some(StdDuration::from_secs(1))).unwrap();
        while stream.write_all(&[b'a'; 10_000]).is_ok() {
            counted.fetch_add(10_000, SeqCst);
        }
        counted.fetch_add(1, SeqCst);
        let _ = stream.read(&mut [0]);
    });
    (address, taken)
}

/// Bytes in the queues of both ends of the connections to the server at this port: how much that is
/// depends on how busy the machine is, and the proxy has no part in it.
fn queued_by_the_kernel(port: u16) -> usize {
    let table = fs::read_to_string("/proc/net/tcp").unwrap();
    let port = format!(":{port:04X}");
    let queues = table.lines().skip(1).filter_map(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let (local, remote) = (fields.next()?, fields.next()?);
        let is_listening = fields.next()? == "0A";
        let is_of_the_server = local.ends_with(&port) || remote.ends_with(&port);
        (is_of_the_server && !is_listening).then_some(fields.next()?)
    });
    let bytes = |queue| usize::from_str_radix(queue, 16).unwrap();
    queues.filter_map(|both| both.split_once(':')).map(|(out, back)| bytes(out) + bytes(back)).sum()
}

#[tokio::test]
async fn no_more_is_read_ahead_of_a_server_than_a_slow_client_takes() {
    let authority = Authority::new();
    let (server, taken) = endless();
    let (_proxy, address) = start(&fleet(server, &authority, 1));
    let mut client = Client::with(address, config(&authority, 64 << 10)).await;
    let mut stream = client.requests.send_request(request("GET", "/")).await.unwrap();
    stream.finish().await.unwrap();
    stream.recv_response().await.unwrap();
    until(|| taken.load(SeqCst) % 10 == 1).await;
    let kept = taken.load(SeqCst).saturating_sub(queued_by_the_kernel(server.port()));
    assert!(kept < 1 << 20, "{kept} bytes");
}

#[tokio::test]
async fn little_is_kept_for_a_client_that_acknowledges_nothing_however_large_its_windows() {
    let authority = Authority::new();
    let (server, taken) = endless();
    let (_proxy, address) = start(&fleet(server, &authority, 1));
    let relay = Relay::to(address).await;
    let mut client = Client::with(relay.address, config(&authority, 100 << 20)).await;
    relay.is_paused.store(true, SeqCst);
    let mut stream = client.requests.send_request(request("GET", "/")).await.unwrap();
    stream.finish().await.unwrap();
    until(|| taken.load(SeqCst) % 10 == 1).await;
    let kept = taken.load(SeqCst).saturating_sub(queued_by_the_kernel(server.port()));
    assert!(kept < 1 << 20, "{kept} bytes");
}

#[tokio::test]
async fn a_client_has_no_more_connections_than_it_may_and_a_place_again_once_one_is_over() {
    let authority = Authority::new();
    let (server, _) = sized(b'a');
    for early_data in [false, true] {
        let mut fleet = fleet(server, &authority, 2);
        fleet.listeners[0].max_connections_per_client = Some(2);
        fleet.listeners[0].tls.as_mut().unwrap().early_data = early_data;
        let (proxy, address) = start(&fleet);
        let mut kept =
            [Client::to(address, &authority).await, Client::to(address, &authority).await];
        for client in &kept {
            assert_eq!(client.get("/3").await.0, 200);
        }
        let third = kept[0].endpoint.connect(address, "a.test").unwrap().await.unwrap();
        let quinn::ConnectionError::ApplicationClosed(closed) = third.closed().await else {
            panic!("not closed by the proxy");
        };
        assert_eq!(closed.error_code, VarInt::from_u32(EXCESSIVE_LOAD));
        until(|| proxy.tallies().count(Ending::ClientLimit) == 1).await;
        assert_eq!(kept[0].get("/3").await.0, 200, "the others go on");
        kept[1].connection.close(VarInt::from_u32(0x100), b"");
        until(|| proxy.tallies().listeners.values().all(|it| it.open() == 1)).await;
        kept[1] = Client::to(address, &authority).await;
        assert_eq!(kept[1].get("/3").await.0, 200);
    }
}

#[tokio::test]
async fn who_has_not_shown_that_an_address_is_its_own_takes_none_of_the_places_of_its_client() {
    let authority = Authority::new();
    let (server, _) = sized(b'a');
    for early_data in [false, true] {
        let mut fleet = fleet(server, &authority, 1);
        fleet.listeners[0].max_connections_per_client = Some(1);
        fleet.listeners[0].tls.as_mut().unwrap().early_data = early_data;
        let (proxy, address) = start(&fleet);
        let (endpoint, relay) = unanswered(address, &authority).await;
        let _forged = endpoint.connect(relay.address, "a.test").unwrap();
        until(|| proxy.tallies().listeners.values().all(|it| it.open() == 1)).await;
        assert_eq!(Client::to(address, &authority).await.get("/3").await.0, 200, "{early_data}");
    }
}

#[tokio::test]
async fn with_many_handshakes_under_way_a_new_client_has_to_show_that_its_address_is_its_own() {
    let authority = Authority::new();
    let (server, _) = sized(b'a');
    for early_data in [false, true] {
        let mut fleet = fleet(server, &authority, 1);
        fleet.listeners[0].tls.as_mut().unwrap().early_data = early_data;
        let (proxy, address) = start(&fleet);
        let (endpoint, relay) = unanswered(address, &authority).await;
        let connect = |to| endpoint.connect(to, "a.test").unwrap();
        let _waiting: Vec<_> = (0..200).map(|_| connect(relay.address)).collect();
        until(|| proxy.tallies().listeners.values().all(|it| it.open() >= 128)).await;
        let tap = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let _new = connect(tap.local_addr().unwrap());
        let mut packet = [0; 2_000];
        let (length, _) = tap.recv_from(&mut packet).await.unwrap();
        let client = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        client.send_to(&packet[..length], address).await.unwrap();
        timeout(PATIENCE, client.recv_from(&mut packet)).await.unwrap().unwrap();
        // The type of a Retry (RFC 9000, 17.2.5).
        assert_eq!(packet[0] & 0xf0, 0xf0, "{early_data}");
    }
}

/// An end of clients, and where they may connect to and never hear of the proxy.
pub(crate) async fn unanswered(proxy: SocketAddr, authority: &Authority) -> (Endpoint, Relay) {
    let relay = Relay::to(proxy).await;
    relay.is_paused.store(true, SeqCst);
    let mut endpoint = Endpoint::client((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    endpoint.set_default_client_config(config(authority, 1 << 20));
    (endpoint, relay)
}

#[tokio::test]
async fn a_connection_for_which_there_is_no_place_is_refused_and_counted() {
    let authority = Authority::new();
    let (server, _) = sized(b'a');
    let mut fleet = fleet(server, &authority, 1);
    fleet.listeners[0].max_connections = 1;
    let (proxy, address) = start(&fleet);
    let first = Client::to(address, &authority).await;
    let second = first.endpoint.connect(address, "a.test").unwrap().await;
    assert!(matches!(second, Err(quinn::ConnectionError::ConnectionClosed(_))), "{second:?}");
    until(|| proxy.tallies().listeners.values().all(|it| it.full == 1)).await;
    assert_eq!(first.get("/3").await.0, 200, "the other goes on");
}
