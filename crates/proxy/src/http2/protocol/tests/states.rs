//! Frames as they come, in and out of order.

use loadline_core::time::Duration;

use super::*;

/// A connection on which 1 is open, 3 is half closed by the client, 5 is closed in order, 7 is
/// reset by the client and 9 by us.
fn prepared() -> Client {
    let mut client = Client::new(LIMITS, &[]);
    client.open(1, 0, POST);
    client.open(3, END_STREAM, GET);
    let slot = client.open(5, END_STREAM, GET);
    client.end(slot);
    client.protocol.forget(slot);
    client.open(7, 0, POST);
    client.send(&reset(7, 8)).unwrap();
    let slot = client.open(9, 0, POST);
    client.protocol.reset(slot, ErrorCode::INTERNAL_ERROR);
    client.frames();
    client
}

/// What becomes of a frame: the connection's end or the resets of streams.
type Outcome = Result<Vec<(u32, u32)>, u32>;

fn outcome(client: &mut Client, bytes: &[u8]) -> Outcome {
    client.send(bytes).map_err(|code| code.0)?;
    Ok(client.codes())
}

#[track_caller]
fn assert_outcomes(cases: Vec<(&str, Vec<u8>, Outcome)>) {
    for (name, bytes, expected) in cases {
        assert_eq!(outcome(&mut prepared(), &bytes), expected, "{name}");
    }
}

const CALM: u32 = 11;

#[test]
fn a_request_in_a_wrong_place_ends_its_stream_or_the_connection() {
    let continuation = |stream, flags| frame(CONTINUATION, flags, stream, GET);
    let begun = frame(HEADERS, END_STREAM, 11, b"");
    let padded = |padding: u8| [&[padding][..], GET].concat();
    let circular = [&[0, 0, 0, 11, 0][..], GET].concat();
    let priority = PADDED | HAS_PRIORITY;
    assert_outcomes(vec![
        ("on no stream", headers(0, 0, GET), Err(1)),
        ("on a stream of the server", headers(2, 0, GET), Err(1)),
        (
            "on one that was passed over",
            [headers(13, 1, GET), headers(11, 1, GET)].concat(),
            Err(1),
        ),
        ("trailers", headers(1, END_STREAM, FIELD), Ok(vec![])),
        ("trailers that do not end it", headers(1, 0, FIELD), Ok(vec![(1, 1)])),
        ("a pseudo-header field in trailers", headers(1, END_STREAM, GET), Ok(vec![(1, 1)])),
        ("trailers behind the end", headers(3, END_STREAM, FIELD), Ok(vec![(3, 5)])),
        ("on a closed stream", headers(5, END_STREAM, GET), Err(5)),
        ("on one that the client has reset", headers(7, END_STREAM, GET), Err(5)),
        ("on one that we have reset", headers(9, END_STREAM, FIELD), Ok(vec![])),
        ("malformed", headers(11, END_STREAM, FIELD), Ok(vec![(11, 1)])),
        ("no fields", headers(11, END_STREAM, b""), Ok(vec![(11, 1)])),
        ("depending on itself", headers(11, HAS_PRIORITY, &circular), Ok(vec![(11, 1)])),
        ("padded", headers(11, PADDED, &[&padded(2)[..], b"\0\0"].concat()), Ok(vec![])),
        ("too much padding", headers(11, PADDED, &padded(7)), Err(1)),
        ("no length of the padding", headers(11, PADDED, b""), Err(6)),
        ("no priority", headers(11, priority, &[0, 1, 2, 3, 4]), Err(6)),
        ("half a field", headers(11, 0, &GET[..5]), Err(9)),
        ("in two frames", [&begun[..], &continuation(11, END_HEADERS)].concat(), Ok(vec![])),
        ("going on elsewhere", [&begun[..], &continuation(13, END_HEADERS)].concat(), Err(1)),
        ("interrupted", [&begun[..], &frame(PING, 0, 0, &[0; 8])].concat(), Err(1)),
        ("interrupted by what is unknown", [&begun[..], &frame(77, 0, 0, b"")].concat(), Err(1)),
        ("going on without a beginning", continuation(11, END_HEADERS), Err(1)),
        ("a pushed stream", frame(PUSH_PROMISE, END_HEADERS, 1, b"\0\0\0\x02"), Err(1)),
    ]);
}

#[test]
fn payload_in_a_wrong_place_ends_its_stream_or_the_connection() {
    let data = |stream, flags, payload: &[u8]| frame(DATA, flags, stream, payload);
    assert_outcomes(vec![
        ("in order", data(1, END_STREAM, b"payload"), Ok(vec![])),
        ("behind the end", data(3, 0, b"payload"), Ok(vec![(3, 5)])),
        ("on a closed stream", data(5, 0, b"payload"), Ok(vec![(5, 5)])),
        ("on one that the client has reset", data(7, END_STREAM, b"payload"), Ok(vec![(7, 5)])),
        ("on one that we have reset", data(9, END_STREAM, b"payload"), Ok(vec![])),
        ("on one that is not open", data(11, 0, b"payload"), Err(1)),
        ("on no stream", data(0, 0, b"payload"), Err(1)),
        ("on a stream of the server", data(2, 0, b"payload"), Err(1)),
        ("padding alone", data(1, PADDED, b"\x02\0\0"), Ok(vec![])),
        ("as much padding as payload", data(1, PADDED, b"\x03\0\0"), Err(1)),
        ("no length of the padding", data(1, PADDED, b""), Err(6)),
        ("a frame too long", data(1, 0, &[0; LONGEST + 1]), Err(6)),
    ]);
}

#[test]
fn a_control_frame_in_a_wrong_place_ends_its_stream_or_the_connection() {
    let priority = |stream, on: u8| frame(PRIORITY, 0, stream, &[0, 0, 0, on, 16]);
    assert_outcomes(vec![
        ("reset, no stream", reset(0, 8), Err(1)),
        ("reset, not open", reset(11, 8), Err(1)),
        ("reset, of the server", reset(2, 8), Err(1)),
        ("reset, closed", [reset(5, 8), reset(7, 8), reset(9, 8)].concat(), Ok(vec![])),
        ("reset, short", frame(RST_STREAM, 0, 1, b"\0\0\0"), Err(6)),
        ("update, not open", window_update(11, 1), Err(1)),
        ("update, closed", [window_update(5, 1), window_update(9, 0)].concat(), Ok(vec![])),
        ("update, by nothing", window_update(1, 0), Ok(vec![(1, 1)])),
        ("update, by nothing in all", window_update(0, 0), Err(1)),
        ("update, too large", window_update(1, (1 << 31) - 1), Ok(vec![(1, 3)])),
        ("update, too large in all", window_update(0, (1 << 31) - 1), Err(3)),
        ("update, short", frame(WINDOW_UPDATE, 0, 1, b"\0\0\0"), Err(6)),
        ("priority", [priority(1, 3), priority(2, 1), priority(99, 1)].concat(), Ok(vec![])),
        ("priority, no stream", priority(0, 1), Err(1)),
        ("priority of itself", priority(1, 1), Ok(vec![(1, 1)])),
        ("priority of itself, not open", priority(11, 11), Err(1)),
        ("priority, short", frame(PRIORITY, 0, 1, b"\0\0\0\x03"), Ok(vec![(1, 6)])),
        ("priority, short, not open", frame(PRIORITY, 0, 11, b"\0\0\0\x03"), Err(6)),
        ("ping on a stream", frame(PING, 0, 1, &[0; 8]), Err(1)),
        ("ping, short", frame(PING, 0, 0, &[0; 7]), Err(6)),
        ("goaway", frame(GOAWAY, 0, 0, b"\0\0\0\0\0\0\0\x02why"), Ok(vec![])),
        ("goaway on a stream", frame(GOAWAY, 0, 1, &[0; 8]), Err(1)),
        ("goaway, short", frame(GOAWAY, 0, 0, &[0; 7]), Err(6)),
        ("settings on a stream", frame(SETTINGS, 0, 1, b""), Err(1)),
        ("settings, short", frame(SETTINGS, 0, 0, &[0; 5]), Err(6)),
        ("settings that say something in response", frame(SETTINGS, ACK, 0, &[0; 6]), Err(6)),
        ("settings, window", settings(&[(WINDOW, 1 << 31)]), Err(3)),
        ("settings, short frames", settings(&[(5, (1 << 14) - 1)]), Err(1)),
        ("settings, long frames", settings(&[(5, 1 << 24)]), Err(1)),
        ("settings, push", settings(&[(2, 2)]), Err(1)),
        ("settings, unknown", settings(&[(77, 77), (3, 0)]), Ok(vec![])),
        ("what is unknown", frame(77, 0xff, 77, b"payload"), Ok(vec![])),
    ]);
}

#[test]
fn a_connection_begins_with_its_preface_and_settings() {
    let mut client = Client::silent(LIMITS);
    assert_eq!(client.send(b"PRI * HTTP/2.0\r\n\r\nSN"), Err(ErrorCode::PROTOCOL_ERROR));
    for first in [frame(PING, 0, 0, &[0; 8]), headers(1, 1, GET), frame(SETTINGS, ACK, 0, b"")] {
        let mut client = Client::silent(LIMITS);
        client.send(PREFACE).unwrap();
        assert_eq!(client.send(&first), Err(ErrorCode::PROTOCOL_ERROR));
    }
    let [ours, window] = &Client::silent(LIMITS).frames()[..] else { panic!("settings, window") };
    assert_eq!((ours.kind, ours.flags), (SETTINGS, 0));
    assert_eq!(window.payload, (200_000u32 - 65_535).to_be_bytes());
}

#[test]
fn settings_and_pings_are_acknowledged() {
    let mut client = Client::new(LIMITS, &[]);
    client.send(&settings(&[(WINDOW, 1)])).unwrap();
    client.send(&frame(PING, 0, 0, b"01234567")).unwrap();
    let expected = |kind, payload: &[u8]| {
        let (flags, payload) = (ACK, payload.to_vec());
        Seen { kind, flags, stream: 0, payload }
    };
    assert_eq!(client.frames(), [expected(SETTINGS, b""), expected(PING, b"01234567")]);
}

/// Frames of all kinds in order.
fn conversation() -> Vec<u8> {
    let priority = [&[3, 0, 0, 0, 0, 7][..], &GET[..2], b"\0\0\0"].concat();
    [
        PREFACE,
        &settings(&[(WINDOW, 70_000), (1, 0)]),
        &frame(SETTINGS, ACK, 0, b""),
        &frame(HEADERS, PADDED | HAS_PRIORITY, 1, &priority),
        &frame(CONTINUATION, 0, 1, b""),
        &frame(CONTINUATION, END_HEADERS, 1, &GET[2..]),
        &frame(DATA, PADDED, 1, b"\x04abc\0\0\0\0"),
        &frame(DATA, 0, 1, b""),
        &frame(77, 0, 1, b"unknown"),
        &headers(3, 0, POST),
        &frame(PING, 0, 0, b"01234567"),
        &frame(DATA, 0, 3, b"0123456789"),
        &window_update(3, 5),
        &frame(PRIORITY, 0, 9, &[0, 0, 0, 1, 0]),
        &headers(1, END_STREAM, FIELD),
        &headers(5, 0, FIELD),
        &frame(DATA, PADDED | END_STREAM, 3, b"\x01x\0"),
        &headers(7, 0, POST),
        &reset(7, 8),
        &frame(DATA, 0, 5, b"late"),
        &frame(DATA, 0, 1, b"behind the end"),
    ]
    .concat()
}

/// What is to be seen of a conversation that comes in these pieces.
fn told<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<u8>, Vec<Vec<u8>>) {
    let mut client = Client::silent(LIMITS);
    for piece in pieces {
        client.send(piece).unwrap();
    }
    let mut said = Vec::new();
    while let Some(Opened { slot, head }) = client.protocol.accept() {
        let read = client.read(slot);
        said.push([head.text, read, client.protocol.take_trailers_of(slot)].concat());
    }
    (client.protocol.unsent().to_vec(), said)
}

#[test]
fn what_comes_in_pieces_says_the_same() {
    let conversation = conversation();
    let whole = told([&conversation[..]]);
    let said: Vec<_> = whole.1.iter().map(|said| said.escape_ascii().to_string()).collect();
    assert!(
        said[1].ends_with("\\r\\n\\r\\n0123456789x") && said[2].ends_with("\\r\\n"),
        "{said:?}"
    );
    for at in 0..conversation.len() {
        let (one, other) = conversation.split_at(at);
        assert_eq!(told([one, other]), whole, "cut at {at}");
    }
    assert_eq!(told(conversation.chunks(1)), whole);
    assert_eq!(told(conversation.chunks(7)), whole);
}

#[test]
fn streams_that_their_client_resets_before_a_response_are_told_as_they_come() {
    let mut client = Client::new(LIMITS, &[]);
    client.open(1, END_STREAM, GET);
    let answered = client.open(3, END_STREAM, GET);
    client.protocol.write_head(answered, false, |_, _| {}).unwrap();
    client.protocol.note_answered(answered);
    client.send(&[reset(1, 8), reset(3, 8)].concat()).unwrap();
    assert_eq!(client.protocol.take_taken_back(), 1);
    assert_eq!(client.protocol.take_taken_back(), 0);
}

#[test]
fn more_than_was_announced_or_less_resets_the_stream() {
    // `content-length: 3`.
    let three = [POST, &[0x0f, 13, 1, b'3']].concat();
    for (payload, is_whole) in [("ab", false), ("abc", true), ("abcd", false)] {
        let mut client = Client::new(LIMITS, &[]);
        let slot = client.open(1, 0, &three);
        client.send(&frame(DATA, END_STREAM, 1, payload.as_bytes())).unwrap();
        let expected = if is_whole { vec![] } else { vec![(1, 1)] };
        assert_eq!(client.codes(), expected, "{payload}");
        client.protocol.forget(slot);
        client.assert_at_rest();
    }
}

#[test]
fn a_request_that_never_ends_after_its_response_makes_room_for_the_next() {
    let mut client = Client::new(LIMITS, &[]);
    for number in 0..2 * LIMITS.streams {
        let slot = client.open(2 * number + 1, 0, &[POST, LENGTH_3].concat());
        client.send(&frame(DATA, 0, 2 * number + 1, b"abc")).unwrap();
        client.read(slot);
        client.end(slot);
        client.protocol.forget(slot);
    }
    let resets: Vec<_> = (0..LIMITS.streams).map(|number| (2 * number + 1, 0)).collect();
    assert_eq!(client.codes(), resets, "the first ones, with NO_ERROR");
}

/// `content-length: 3`.
const LENGTH_3: &[u8] = &[0x0f, 0x0d, 1, b'3'];

#[test]
fn a_request_that_has_come_but_for_an_empty_frame_is_not_reset_when_its_response_is_over() {
    let ends: [(&[u8], bool); 3] = [
        (&frame(DATA, END_STREAM, 1, b""), true),
        (&reset(1, 8), true),
        (&frame(DATA, 0, 1, b"more"), false),
    ];
    for (end, is_in_order) in ends {
        let mut client = Client::new(LIMITS, &[]);
        let slot = client.open(1, 0, &[POST, LENGTH_3].concat());
        client.send(&frame(DATA, 0, 1, b"abc")).unwrap();
        assert_eq!(client.read(slot), b"abc");
        client.end(slot);
        client.protocol.forget(slot);
        assert_eq!(client.codes(), []);
        assert!(!client.protocol.is_idle());
        client.send(end).unwrap();
        assert_eq!(client.codes().is_empty(), is_in_order);
        assert!(client.protocol.is_idle());
        client.assert_at_rest();
    }
}

#[test]
fn more_streams_than_allowed_are_refused() {
    let mut client = Client::new(LIMITS, &[]);
    for stream in 0..LIMITS.streams {
        client.open(2 * stream + 1, 0, POST);
    }
    assert_eq!(outcome(&mut client, &headers(17, 0, POST)), Ok(vec![(17, 7)]));
    assert_eq!(outcome(&mut client, &frame(DATA, 0, 17, b"on its way")), Ok(vec![]));
    assert_eq!(outcome(&mut client, &reset(3, 8)), Ok(vec![]));
    assert_eq!(outcome(&mut client, &headers(19, 0, POST)), Ok(vec![]));
}

#[test]
fn late_frames_of_a_reset_stream_are_ignored_and_their_room_comes_back() {
    let mut client = Client::new(LIMITS, &[]);
    let slot = client.open(1, 0, POST);
    client.send(&frame(DATA, 0, 1, &[0; 1_000])).unwrap();
    client.protocol.forget(slot);
    assert_eq!(client.codes(), [(1, 8)]);
    let late = frame(DATA, PADDED, 1, &[255; LONGEST]);
    let mut room = 0;
    for _ in 0..100 {
        client.send(&late).unwrap();
        for seen in client.frames() {
            assert_eq!((seen.kind, seen.stream), (WINDOW_UPDATE, 0));
            room += only_word(&seen.payload).unwrap();
        }
    }
    assert!(room as usize > 99 * LONGEST - 100_000, "{room}");
    client.send(&headers(1, END_STREAM, FIELD)).unwrap();
    assert_eq!(client.frames(), []);
    client.assert_at_rest();
    assert!(client.protocol.is_idle());
}

#[test]
fn more_than_the_windows_allow_is_an_error() {
    let full =
        [frame(DATA, 0, 1, &[0; LONGEST]).repeat(6), frame(DATA, 0, 1, &[0; 1_696])].concat();
    let mut client = Client::new(LIMITS, &[]);
    client.open(1, 0, POST);
    assert_eq!(outcome(&mut client, &full), Ok(vec![]));
    assert_eq!(outcome(&mut client, &frame(DATA, 0, 1, b"")), Ok(vec![]));
    assert_eq!(outcome(&mut client, &frame(DATA, 0, 1, b"x")), Ok(vec![(1, 3)]));
    client.assert_at_rest();
    let mut client = Client::new(Limits { window: 1 << 20, ..LIMITS }, &[]);
    client.open(1, 0, POST);
    assert_eq!(outcome(&mut client, &full.repeat(2)), Ok(vec![]));
    assert_eq!(outcome(&mut client, &frame(DATA, 0, 1, b"x")), Err(3));
}

#[test]
fn what_was_sent_before_our_settings_were_seen_is_taken() {
    let limits = Limits { window: 1_000, ..LIMITS };
    let mut client = Client::silent(limits);
    client.send(&[PREFACE, &settings(&[])].concat()).unwrap();
    let slot = client.open(1, 0, POST);
    client.send(&frame(DATA, 0, 1, &[0; 10_000])).unwrap();
    client.send(&frame(SETTINGS, ACK, 0, b"")).unwrap();
    client.send(&frame(DATA, END_STREAM, 1, b"")).unwrap();
    assert_eq!(client.codes(), []);
    assert_eq!(client.read(slot).len(), 10_000);
    let slot = client.open(3, 0, POST);
    assert_eq!(outcome(&mut client, &frame(DATA, 0, 3, &[0; 1_001])), Ok(vec![(3, 3)]));
    client.protocol.forget(slot);
    client.assert_at_rest();
}

#[test]
fn a_client_that_breaks_rules_of_streams_again_and_again_is_told_to_calm_down() {
    let mut client = Client::new(LIMITS, &[]);
    for number in 0..1_000 {
        assert_eq!(client.send(&headers(2 * number + 1, 0, FIELD)), Ok(()), "{number}");
        client.take(usize::MAX);
    }
    assert_eq!(outcome(&mut client, &headers(9_999, 0, FIELD)), Err(CALM));
    assert_eq!(client.protocol.take_malformed(), 1_001);
}

#[test]
fn endless_frames_that_bring_nothing_are_too_many() {
    for (name, bytes) in [
        ("empty", frame(DATA, 0, 1, b"")),
        ("padding alone", frame(DATA, PADDED, 1, b"\x01\0")),
        ("the length of no padding", frame(DATA, PADDED, 1, b"\0")),
    ] {
        let mut client = prepared();
        assert_eq!(outcome(&mut client, &bytes.repeat(1_000)), Ok(vec![]), "{name}");
        assert_eq!(outcome(&mut client, &bytes), Err(CALM), "{name}");
        let mut client = prepared();
        for second in 0..200 {
            let now = Instant::ZERO + Duration::from_secs(second);
            client.protocol.receive(&bytes.repeat(10), now, &client.random).unwrap();
        }
    }
    let mut client = prepared();
    let fragments = frame(CONTINUATION, 0, 11, b"").repeat(100);
    client.send(&frame(HEADERS, 0, 11, GET)).unwrap();
    assert_eq!(outcome(&mut client, &fragments), Ok(vec![]));
    assert_eq!(outcome(&mut client, &fragments), Err(CALM));
}

#[test]
fn fields_of_endless_length_are_not_unpacked_on_any_stream() {
    // A field of 4,000 bytes enters the table, and comes again and again.
    let long = [&[0x40, 1, b'a', 0x7f, 0xa1, 0x1e][..], &[b'a'; 4_000], &[0xbe; 32]].concat();
    let block = |begin: &[u8]| [begin, &long].concat();
    assert_outcomes(vec![
        ("a request", headers(11, END_STREAM, &block(GET)), Err(CALM)),
        ("trailers", headers(1, END_STREAM, &long), Err(CALM)),
        ("on a reset stream", headers(9, END_STREAM, &long), Err(CALM)),
        ("less", headers(11, END_STREAM, &[GET, &long[..4_008]].concat()), Ok(vec![])),
    ]);
}

#[test]
fn whoever_leaves_takes_streams_until_that_is_seen() {
    let mut client = prepared();
    client.protocol.leave();
    let [goaway, ping] = &client.frames()[..] else { panic!("GOAWAY and PING") };
    assert_eq!((goaway.kind, &goaway.payload[..]), (GOAWAY, &b"\x7f\xff\xff\xff\0\0\0\0"[..]));
    assert_eq!((ping.kind, ping.flags), (PING, 0));
    client.open(11, END_STREAM, GET);
    assert!(!client.protocol.is_leave_seen());
    client.send(&frame(PING, ACK, 0, b"01234567")).unwrap();
    assert!(!client.protocol.is_leave_seen(), "not ours");
    client.send(&frame(PING, ACK, 0, &ping.payload)).unwrap();
    assert!(client.protocol.is_leave_seen());
    client.protocol.go_away(ErrorCode::NO_ERROR);
    assert_eq!(client.frames()[0].payload, b"\0\0\0\x0b\0\0\0\0");
    assert_eq!(outcome(&mut client, &headers(13, END_STREAM, GET)), Ok(vec![(13, 7)]));
    client.protocol.go_away(ErrorCode::PROTOCOL_ERROR);
    assert_eq!(client.frames()[0].payload, b"\0\0\0\x0b\0\0\0\x01", "no later stream");
}

/// Frames of which most make some sense.
fn some_frame() -> impl Strategy<Value = Vec<u8>> {
    let payload = prop_oneof![
        vec(any::<u8>(), 0..40),
        (0u32..5).prop_map(|word| word.to_be_bytes().to_vec()),
        Just(GET.to_vec()),
        Just(FIELD.to_vec()),
        Just([0; 8].to_vec()),
        Just([0; 3_000].to_vec()),
    ];
    (0u8..11, any::<u8>(), 0u32..14, payload)
        .prop_map(|(kind, flags, stream, payload)| frame(kind, flags, stream, &payload))
}

/// Whatever the connection has come to, nothing of it is left.
fn assert_ends(client: &mut Client, slots: &mut Vec<Slot>) {
    client.protocol.fail_all(Reason::Closed);
    slots.drain(..).for_each(|slot| client.protocol.forget(slot));
    assert!(client.protocol.is_idle());
    let (_, reserved, waiting) = client.protocol.out.state();
    assert_eq!((reserved, waiting), (0, 0));
}

proptest! {
    #[test]
    fn whatever_comes_ends_in_order_and_within_its_memory(
        frames in vec(some_frame(), 0..200),
        sessions in vec(0usize..5, 200),
        noise in vec(any::<u8>(), 0..200),
    ) {
        let (mut client, mut slots) = (Client::new(LIMITS, &[]), Vec::new());
        for (bytes, session) in frames.iter().zip(sessions) {
            let is_over = client.send(bytes).is_err();
            slots.extend(std::iter::from_fn(|| client.protocol.accept()).map(|it| it.slot));
            let slot = slots.get(session).copied();
            match (session, slot) {
                (0, Some(slot)) => {
                    slots.swap_remove(session);
                    client.protocol.forget(slot);
                }
                (1 | 2, Some(slot)) => drop(client.read(slot)),
                (_, Some(slot)) => drop(client.write_now(slot, 3_000)),
                (_, None) => {}
            }
            let untaken = client.protocol.window.untaken();
            prop_assert!((0..=200_000).contains(&untaken));
            prop_assert!(client.protocol.unsent().len() < 100_000);
            client.take(9_000);
            if is_over {
                assert_ends(&mut client, &mut slots);
                client = Client::new(LIMITS, &[]);
            }
        }
        let _ = client.send(&noise);
        slots.extend(std::iter::from_fn(|| client.protocol.accept()).map(|it| it.slot));
        assert_ends(&mut client, &mut slots);
    }
}
