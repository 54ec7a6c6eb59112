//! Clients that break the rules of RFC 9114, and packets that are none of QUIC: each ends as it
//! should, and the proxy serves on.

use std::{collections::BTreeMap, net::UdpSocket, time::Duration};

use crate::{clients::Aioquic, edge::Edge, skipped::skipped};

/// What may come of each case: a status, or the error of RFC 9114 and RFC 9204.
const CASES: &[(&str, &[&str])] = &[
    ("DATA on the control stream", &[UNEXPECTED]),
    ("HEADERS on the control stream", &[UNEXPECTED]),
    ("a control stream without SETTINGS", &[MISSING]),
    ("SETTINGS twice", &[UNEXPECTED]),
    ("a setting twice", &[SETTINGS]),
    ("a setting of HTTP/2", &[SETTINGS]),
    ("a frame of HTTP/2 on the control stream", &[UNEXPECTED]),
    ("SETTINGS cut short", &[FRAME, SETTINGS]),
    ("the control stream ended", &["connection H3_CLOSED_CRITICAL_STREAM"]),
    ("two control streams", &[CREATION]),
    ("MAX_PUSH_ID that shrinks", &[ID]),
    ("CANCEL_PUSH of a push that was not promised", &[ID]),
    ("a priority for a push that was not promised", &[ID]),
    ("GOAWAY without an id", &[FRAME]),
    ("CANCEL_PUSH with half an id", &[FRAME]),
    ("MAX_PUSH_ID with more than an id", &[FRAME]),
    ("PUSH_PROMISE on the control stream", &[UNEXPECTED]),
    ("an unknown frame before SETTINGS", &[MISSING]),
    ("a setting of two values with a third", &[SETTINGS]),
    ("a priority for a stream beyond the limit", &[ID]),
    ("a push stream of the client", &[CREATION]),
    ("a table larger than allowed", &["connection QPACK_ENCODER_STREAM_ERROR"]),
    ("an acknowledgement of nothing", &["connection QPACK_DECODER_STREAM_ERROR"]),
    ("DATA before HEADERS", &[UNEXPECTED]),
    ("SETTINGS on a request stream", &[UNEXPECTED]),
    ("GOAWAY without an id on a request stream", &[UNEXPECTED]),
    ("PUSH_PROMISE on a request stream", &[UNEXPECTED]),
    ("a frame of HTTP/2 on a request stream", &[UNEXPECTED]),
    ("an unknown frame before HEADERS", &["200"]),
    ("a frame of WebTransport before HEADERS", &["200"]),
    ("an empty stream", &["stream H3_REQUEST_INCOMPLETE"]),
    ("HEADERS cut short", &[FRAME]),
    ("DATA after trailers", &[UNEXPECTED]),
    ("trailers twice", &[UNEXPECTED]),
    ("a pseudo-header in trailers", &[MESSAGE, "400"]),
    ("HEADERS of 1 GB", &[LOAD]),
    ("trailers of 1 GB", &[LOAD]),
    ("an unknown frame of 1 GB", &[LOAD]),
    ("SETTINGS of 1 GB", &[LOAD, "connection H3_CLOSED_CRITICAL_STREAM"]),
    ("headers of 1 MiB", &[LOAD]),
    ("a field of 30 KiB", &["431"]),
    ("900 empty fields", &["431"]),
    ("50000 empty fields", &[LOAD]),
    ("no :method", &[MESSAGE, "400"]),
    ("no :scheme", &[MESSAGE, "400"]),
    ("no :path", &[MESSAGE, "400"]),
    ("no :authority and no host", &[MESSAGE, "400"]),
    ("an empty :path", &[MESSAGE, "400"]),
    (":path twice", &[MESSAGE, "400"]),
    (":method twice", &[MESSAGE, "400"]),
    ("an unknown pseudo-header", &[MESSAGE, "400"]),
    (":status in a request", &[MESSAGE, "400"]),
    ("a pseudo-header after fields", &[MESSAGE, "400"]),
    ("a name in upper case", &[MESSAGE, "400"]),
    ("a name with a space", &[MESSAGE, "400"]),
    ("an empty name", &[MESSAGE, "400"]),
    ("a value with a line feed", &[MESSAGE, "400"]),
    ("a value with NUL", &[MESSAGE, "400"]),
    ("connection", &[MESSAGE, "400"]),
    ("transfer-encoding", &[MESSAGE, "400"]),
    ("te: gzip", &[MESSAGE, "400"]),
    ("host that is not :authority", &[MESSAGE, "400"]),
    ("less than content-length", &[MESSAGE, "400"]),
    ("more than content-length", &[MESSAGE, "400"]),
    ("content-length twice", &[MESSAGE, "400"]),
    ("a static index beyond the table", &[DECOMPRESSION]),
    ("a dynamic index without a table", &[DECOMPRESSION]),
    ("a Huffman code that does not end", &[DECOMPRESSION]),
    ("a string longer than its frame", &[DECOMPRESSION]),
    ("requests taken back", &["connection H3_EXCESSIVE_LOAD"]),
    ("a request after GOAWAY", &["200"]),
];

/// What comes instead of what [`CASES`] says: h3 0.0.8 does not look at the first, and takes the
/// second for a stream of WebTransport, which is not offered.
const DEPARTURES: &[(&str, &str)] = &[
    ("a Huffman code that does not end", "200"),
    ("a frame of WebTransport before HEADERS", UNEXPECTED),
];

const LOAD: &str = "stream H3_EXCESSIVE_LOAD";
const UNEXPECTED: &str = "connection H3_FRAME_UNEXPECTED";
const FRAME: &str = "connection H3_FRAME_ERROR";
const MISSING: &str = "connection H3_MISSING_SETTINGS";
const SETTINGS: &str = "connection H3_SETTINGS_ERROR";
const ID: &str = "connection H3_ID_ERROR";
const CREATION: &str = "connection H3_STREAM_CREATION_ERROR";
const DECOMPRESSION: &str = "connection QPACK_DECOMPRESSION_FAILED";
const MESSAGE: &str = "stream H3_MESSAGE_ERROR";

#[test]
fn a_client_that_breaks_a_rule_is_told_which_and_others_are_served_on() {
    let mut edge = Edge::start();
    let Some(aioquic) = Aioquic::of(&edge) else { return skipped("aioquic") };
    let told = aioquic.does("misbehave", &[]);
    let told: BTreeMap<_, _> = told.lines().map(|line| line.rsplit_once(": ").unwrap()).collect();
    let wrong = |(case, expected): &(&str, &[&str])| {
        let came = told.get(case).unwrap_or(&"nothing");
        let departure = DEPARTURES.iter().find(|(of, _)| of == case);
        let is_right = departure.map_or(expected.contains(came), |(_, known)| known == came);
        (!is_right).then(|| format!("{case}: {came}, not {expected:?}, {departure:?}"))
    };
    let wrong: Vec<_> = CASES.iter().filter_map(wrong).collect();
    assert_eq!((wrong, told.len()), (Vec::new(), CASES.len()));
    assert_eq!(aioquic.does("get", &[]), "200 10");
    edge.assert_sound();
}

#[test]
fn a_client_of_an_unknown_version_is_told_those_that_are_spoken() {
    let edge = Edge::start();
    let socket = socket(&edge);
    // A long header with a version that is reserved, both connection ids, and room for an Initial.
    let mut packet = vec![0xc0, 0x1a, 0x2a, 0x3a, 0x4a, 8, 1, 2, 3, 4, 5, 6, 7, 8, 4, 9, 9, 9, 9];
    packet.resize(1_200, 0);
    socket.send(&packet).unwrap();
    let mut answer = [0; 1_500];
    let length = socket.recv(&mut answer).unwrap();
    let answer = &answer[..length];
    // Version 0, and the ids the other way round (RFC 8999, section 6).
    let expected = [&[0; 4][..], &[4, 9, 9, 9, 9, 8, 1, 2, 3, 4, 5, 6, 7, 8]].concat();
    assert_eq!((answer[0] & 0x80, &answer[1..19]), (0x80, &expected[..]), "{answer:x?}");
    let versions: Vec<_> = answer[19..].chunks(4).collect();
    assert!(versions.contains(&&[0, 0, 0, 1][..]), "{versions:x?}");
}

#[test]
fn packets_that_are_none_of_quic_are_dropped() {
    let mut edge = Edge::start();
    let socket = socket(&edge);
    let mut state = 1_u64;
    let mut random = || {
        // xorshift64
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for _ in 0..5_000 {
        let length = random() % 1_400;
        let mut packet: Vec<_> = (0..length).map(|_| random() as u8).collect();
        // Half of them begin as an Initial of version 1.
        if random() % 2 == 0 && packet.len() > 5 {
            packet[..5].copy_from_slice(&[0xc0, 0, 0, 0, 1]);
        }
        // The proxy's buffer may be full.
        let _ = socket.send(&packet);
    }
    edge.assert_sound();
    let Some(aioquic) = Aioquic::of(&edge) else { return skipped("aioquic") };
    assert_eq!(aioquic.does("get", &[]), "200 10");
}

fn socket(edge: &Edge) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(("127.0.0.1", edge.port)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    socket
}
