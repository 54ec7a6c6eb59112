//! HTTP/2 over TLS and without: few connections, every way a stream can end.

use std::{
    io::{self, Read as _, Write as _},
    net::TcpStream,
};

use loadline_core::{time::Duration, units::Rate};
use loadline_load::{LoadPlan, Protocol, Until};
use loadline_measure::record::Outcomes;
use rustls::version::TLS13;

use crate::{
    one_user, run,
    secure::{Authority, Http2Behaviour, Served, Speech},
    server::{Server, wait_closed},
};

/// `users` with `requests` each, by prior knowledge.
fn plan(server: &Served, users: u32, requests: u64) -> LoadPlan {
    let url = format!("http://{}/a?b", server.address);
    let mut plan = LoadPlan::closed(&url, users, Until::Requests(requests)).unwrap();
    plan.timeout = Duration::from_secs(5);
    plan.transport.protocol = Protocol::Http2;
    plan
}

#[test]
fn without_tls_http2_is_spoken_at_once_and_all_users_share_a_connection() {
    let server = Served::start(Speech::plain_http2(Http2Behaviour::Answer));
    let mut plan = plan(&server, 20, 10);
    plan.count_by = Some("Served-By".to_owned());
    let record = run(&plan);
    assert_eq!(record.outcomes, Outcomes { ok: 200, ..Outcomes::default() });
    assert_eq!((record.protocol.as_str(), record.by_header["h2"]), ("HTTP/2", 200));
    assert_eq!((server.connections(), record.connections), (1, 1));
    // `:status` with its value, the field and ten bytes of body.
    assert_eq!(record.bytes_read, 200 * (10 + 11 + 10));
}

#[test]
fn the_bytes_of_interim_responses_count() {
    let server = Served::start(Speech::plain_http2(Http2Behaviour::Hint));
    let record = run(&plan(&server, 1, 3));
    assert_eq!(record.outcomes, Outcomes { ok: 3, ..Outcomes::default() });
    assert_eq!(record.bytes_read, 3 * (2 * (10 + 12) + 10 + 11 + 10));
    assert_eq!(record.head_bytes, record.bytes_read - 3 * 10);
}

#[test]
fn over_tls_the_server_chooses_unless_it_is_told() {
    let authority = Authority::new();
    let identity = authority.sign("localhost");
    for (http2, wanted, spoken) in [
        (true, Protocol::Auto, "HTTP/2 over TLS 1.3"),
        (true, Protocol::Http2, "HTTP/2 over TLS 1.3"),
        (true, Protocol::Http1, "HTTP/1.1 over TLS 1.3"),
        (false, Protocol::Auto, "HTTP/1.1 over TLS 1.3"),
    ] {
        let tls = authority.server(&identity, &[&TLS13], false);
        let server = Served::start(Speech::secure(tls, http2));
        let mut plan = one_user(&format!("https://{}/", server.address), 3);
        (plan.transport.protocol, plan.transport.tls.insecure) = (wanted, true);
        let record = run(&plan);
        assert_eq!((record.outcomes.ok, record.protocol.as_str()), (3, spoken), "{wanted:?}");
        assert_eq!(record.connections, 1);
    }
}

#[test]
fn a_server_without_http2_refuses_who_speaks_nothing_else() {
    let authority = Authority::new();
    let tls = authority.server(&authority.sign("localhost"), &[&TLS13], false);
    let server = Served::start(Speech::secure(tls, false));
    let mut plan = one_user(&format!("https://{}/", server.address), 2);
    (plan.transport.protocol, plan.transport.tls.insecure) = (Protocol::Http2, true);
    assert_eq!(run(&plan).outcomes, Outcomes { connect_refused: 2, ..Outcomes::default() });
    // By prior knowledge nobody refuses; what comes back is no HTTP/2.
    let old = Server::start(|_, mut stream| {
        let answer = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
        stream.write_all(answer).unwrap();
        wait_closed(&mut stream);
    });
    let mut plan = one_user(&old.url(), 2);
    plan.transport.protocol = Protocol::Http2;
    assert_eq!(run(&plan).outcomes, Outcomes { bad_answer: 2, ..Outcomes::default() });
}

#[test]
fn connections_are_as_many_as_asked_or_one_for_what_the_server_takes() {
    for (streams, asked, expected) in [(100, None, 1), (100, Some(4), 4), (5, None, 4)] {
        let server =
            Served::start(Speech { streams, ..Speech::plain_http2(Http2Behaviour::Answer) });
        let mut plan = plan(&server, 20, 20);
        plan.transport.connections = asked;
        let record = run(&plan);
        assert_eq!(record.outcomes.ok, 400, "{streams} streams, {asked:?}");
        assert_eq!(record.connections, server.connections() as u64);
        if asked.is_some() || streams == 100 {
            assert_eq!(server.connections(), expected, "{streams} streams, {asked:?}");
        } else {
            // Until the server has said how many it takes, more than that are sent to it.
            assert!((2..=expected).contains(&server.connections()), "{}", server.connections());
        }
    }
}

#[test]
fn a_body_beyond_the_windows_goes_there_and_back() {
    let server = Served::start(Speech::plain_http2(Http2Behaviour::Echo));
    let mut plan = plan(&server, 2, 3);
    plan.method = "POST".to_owned();
    plan.body = vec![b'x'; 300_000];
    let record = run(&plan);
    assert_eq!(record.outcomes, Outcomes { ok: 6, ..Outcomes::default() });
    assert!(record.bytes_read > 6 * 300_000);
}

#[test]
fn a_reset_stream_is_a_reset_and_spares_the_connection() {
    let server =
        Served::start(Speech::plain_http2(Http2Behaviour::Reset(h2::Reason::INTERNAL_ERROR)));
    let record = run(&plan(&server, 2, 3));
    assert_eq!(record.outcomes, Outcomes { reset: 6, ..Outcomes::default() });
    assert_eq!((server.connections(), record.stale), (1, 0));
}

#[test]
fn a_refused_stream_is_sent_once_more_and_no_oftener() {
    let server =
        Served::start(Speech::plain_http2(Http2Behaviour::Reset(h2::Reason::REFUSED_STREAM)));
    let record = run(&plan(&server, 1, 3));
    assert_eq!(record.outcomes, Outcomes { reset: 3, ..Outcomes::default() });
    // The first is on a new connection and not sent again; the others are.
    assert_eq!(record.stale, 2);
}

#[test]
fn after_goaway_requests_go_to_a_new_connection() {
    let server = Served::start(Speech::plain_http2(Http2Behaviour::GoAway));
    let record = run(&plan(&server, 1, 4));
    assert_eq!(record.outcomes, Outcomes { ok: 4, ..Outcomes::default() });
    assert!((2..=4).contains(&server.connections()), "{} connections", server.connections());
}

#[test]
fn a_stream_that_hangs_is_a_timeout() {
    let server = Served::start(Speech::plain_http2(Http2Behaviour::Hang));
    let mut plan = plan(&server, 3, 1);
    plan.timeout = Duration::from_millis(300);
    assert_eq!(run(&plan).outcomes, Outcomes { timeout: 3, ..Outcomes::default() });
    assert_eq!(server.most_at_once(), 3);
}

/// Answers each request when it has just been given up, until the client closes.
fn answer_too_late(mut stream: TcpStream) -> io::Result<()> {
    const SETTINGS: u8 = 4;
    const RST_STREAM: u8 = 3;
    const NO_SETTINGS: [u8; 9] = [0, 0, 0, SETTINGS, 0, 0, 0, 0, 0];
    stream.read_exact(&mut [0; 24])?;
    stream.write_all(&NO_SETTINGS)?;
    loop {
        let (kind, flags, id) = read_frame(&mut stream)?;
        if kind == SETTINGS && flags == 0 {
            stream.write_all(&[0, 0, 0, SETTINGS, 1, 0, 0, 0, 0])?;
        } else if kind == RST_STREAM {
            // `:status: 200` with END_HEADERS, and a byte with END_STREAM.
            let answer = [&[0, 0, 1, 1, 4][..], &id, &[0x88, 0, 0, 1, 0, 1], &id, b"x"].concat();
            stream.write_all(&answer)?;
        }
    }
}

/// Kind, flags and stream of the next frame.
fn read_frame(stream: &mut TcpStream) -> io::Result<(u8, u8, [u8; 4])> {
    let mut head = [0; 9];
    stream.read_exact(&mut head)?;
    let [high, middle, low, kind, flags, id @ ..] = head;
    let length = u32::from_be_bytes([0, high, middle, low]);
    stream.read_exact(&mut vec![0; length as usize])?;
    Ok((kind, flags, id))
}

/// Answers two requests and says that it takes no more, as nginx does after keepalive_requests.
fn answer_two(mut stream: TcpStream) -> io::Result<()> {
    const HEADERS: u8 = 1;
    const SETTINGS: u8 = 4;
    const GOAWAY: u8 = 7;
    stream.read_exact(&mut [0; 24])?;
    stream.write_all(&[0, 0, 0, SETTINGS, 0, 0, 0, 0, 0])?;
    let mut answered = 0;
    loop {
        let (kind, flags, id) = read_frame(&mut stream)?;
        if kind == SETTINGS && flags == 0 {
            stream.write_all(&[0, 0, 0, SETTINGS, 1, 0, 0, 0, 0])?;
        } else if kind == HEADERS && answered < 2 {
            answered += 1;
            // `:status: 200` with END_HEADERS and END_STREAM.
            stream.write_all(&[&[0, 0, 1, HEADERS, 5][..], &id, &[0x88]].concat())?;
            if answered == 2 {
                let last = [&[0, 0, 8, GOAWAY, 0, 0, 0, 0, 0][..], &id, &[0, 0, 0, 0]].concat();
                stream.write_all(&last)?;
            }
        }
    }
}

#[test]
fn requests_that_find_one_connection_after_another_used_up_are_sent_until_they_are_answered() {
    let server = Server::start(|_, stream| drop(answer_two(stream)));
    let mut plan = LoadPlan::closed(&server.url(), 10, Until::Requests(4)).unwrap();
    plan.transport.protocol = Protocol::Http2;
    let record = run(&plan);
    assert_eq!(record.outcomes, Outcomes { ok: 40, ..Outcomes::default() });
    assert!(server.connections() >= 20, "{} connections", server.connections());
}

/// The server has done nothing wrong by answering what nobody waits for any more.
#[test]
fn however_many_requests_time_out_their_late_responses_break_no_connection() {
    let server = Server::start(|_, stream| drop(answer_too_late(stream)));
    let mut plan = LoadPlan::closed(&server.url(), 100, Until::Requests(15)).unwrap();
    plan.transport.protocol = Protocol::Http2;
    plan.timeout = Duration::from_millis(300);
    let record = run(&plan);
    assert_eq!(record.outcomes, Outcomes { timeout: 1_500, ..Outcomes::default() });
    assert_eq!(server.connections(), 1);
}

#[test]
fn an_open_loop_shares_the_connection_too() {
    let server = Served::start(Speech::plain_http2(Http2Behaviour::Answer));
    let url = format!("http://{}/", server.address);
    let mut plan = LoadPlan::open(&url, Rate::per_sec(500), Until::Requests(100)).unwrap();
    plan.transport.protocol = Protocol::Http2;
    let record = run(&plan);
    assert_eq!((record.outcomes.ok, record.connections), (100, 1));
}

#[test]
fn without_keepalive_each_request_has_a_connection() {
    let server = Served::start(Speech::plain_http2(Http2Behaviour::Answer));
    let mut plan = plan(&server, 2, 3);
    plan.keepalive = false;
    let record = run(&plan);
    assert_eq!((record.outcomes.ok, server.connections()), (6, 6));
}
