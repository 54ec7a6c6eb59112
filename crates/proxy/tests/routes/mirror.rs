//! Copies of requests for another service: what they are, and that no client depends on them.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::mpsc::{Receiver, channel},
    thread,
    time::{Duration as StdDuration, Instant},
};

use loadline_core::{
    fleet::{AccessLog, Fleet, LogTarget},
    rules::{Action, CopyResult, Mirror, PathChange, Rule, Split, Template},
    state::ServiceCounter,
    time::Duration,
    units::{Bytes, Ratio},
};

use crate::{
    ports::reserved,
    support::{PATIENCE, Proxy, rule, under, until_closed},
};

/// Every request goes to `zero`, and a copy to `one`.
fn mirrored(body_max: u64, in_flight_max: u32) -> Rule {
    let mirror =
        Mirror { service: 1, share: Ratio::ONE, body_max: Bytes::new(body_max), in_flight_max };
    Rule { mirror: Some(mirror), ..rule(under("/"), Action::Service(Split::all(0))) }
}

/// A server that tells what it was asked, each time up to `end`, and answers where it is to.
fn shadow(end: &'static str, answers: bool) -> (SocketAddr, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (tell, told) = channel();
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let tell = tell.clone();
            thread::spawn(move || {
                while let Some(request) = until(&mut stream, end) {
                    // The test may be over.
                    let _ = tell.send(request);
                    fail(&mut stream, answers);
                }
            });
        }
    });
    (address, told)
}

/// A server that answers each request with a stream of events, and tells when that is closed.
fn endless() -> (SocketAddr, Receiver<()>) {
    const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (tell, told) = channel();
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            if until(&mut stream, "\r\n\r\n").is_some() && stream.write_all(HEAD).is_ok() {
                while stream.write_all(b"data: x\n\n").is_ok() {
                    thread::sleep(StdDuration::from_millis(20));
                }
                // The test may be over.
                let _ = tell.send(());
            }
        }
    });
    (address, told)
}

fn fail(stream: &mut TcpStream, answers: bool) {
    if answers {
        stream.write_all(b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n").unwrap();
    }
}

/// Lets `zero` have this server.
fn replace(fleet: &mut Fleet, server: SocketAddr) {
    fleet.services[0].groups[0].servers[0].address = server;
}

fn until(stream: &mut TcpStream, end: &str) -> Option<String> {
    let mut bytes = Vec::new();
    while !bytes.ends_with(end.as_bytes()) {
        let mut byte = [0];
        stream.read_exact(&mut byte).ok()?;
        bytes.push(byte[0]);
    }
    String::from_utf8(bytes).ok()
}

#[test]
fn a_copy_is_the_request_as_the_service_gets_it_and_its_answer_goes_nowhere() {
    let (address, told) = shadow("\r\n\r\n", true);
    let path = std::env::temp_dir().join(format!("loadline-mirror-{}", std::process::id()));
    let mut changing = mirrored(0, 9);
    changing.path = Some(PathChange::Prefix { from: "/api".into(), to: "/v2".into() });
    changing.request.set = vec![("X-Env".into(), Template::literal("live"))];
    let proxy = Proxy::beside(vec![changing], address, |fleet| {
        fleet.edge.access_log = Some(AccessLog::to(LogTarget::File(path.display().to_string())));
    });
    let answer = proxy.get("/api/u?v=1");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("zero"), "{answer}");
    let copy = told.recv_timeout(PATIENCE).unwrap();
    assert!(copy.starts_with("GET /v2/u?v=1 HTTP/1.1\r\nHost: x\r\n"), "{copy}");
    assert!(copy.contains("X-Env: live\r\n"), "{copy}");
    assert!(answer.contains(&copy[..copy.len() - 2]), "{copy} is not {answer}");
    assert_eq!(proxy.copies(CopyResult::Answered), 1);

    proxy.stop();
    let log = fs::read_to_string(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let of = |words: &str| log.lines().filter(|line| line.contains(words)).count();
    assert_eq!((of(" 200 "), of(" zero/here/"), of(" 500 "), of(" one/here/")), (1, 1, 1, 1));
    assert_eq!(of(" 500 0 one/here/"), 1, "no client was sent anything: {log}");
    assert_eq!(log.lines().count(), 2, "{log}");
}

#[test]
fn a_body_is_copied_as_it_passes() {
    let end = "bye\r\n0\r\nX-Sum: 8\r\n\r\n";
    let ((main, _told), (address, told)) = (shadow(end, true), shadow(end, true));
    let proxy = Proxy::beside(vec![mirrored(40, 9)], address, |fleet| replace(fleet, main));
    let mut stream = proxy.connect();
    let mut say = |piece: &str| stream.write_all(piece.as_bytes()).unwrap();
    say("POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n");
    say("5\r\nhello\r\n");
    assert!(told.try_recv().is_err(), "before its end");
    say("3\r\nbye\r\n0\r\nX-Sum: 8\r\n\r\n");
    let copy = told.recv_timeout(PATIENCE).unwrap();
    assert!(copy.ends_with("\r\n\r\n5\r\nhello\r\n3\r\nbye\r\n0\r\nX-Sum: 8\r\n\r\n"), "{copy}");
    assert_eq!(proxy.copies(CopyResult::Answered), 1);
}

#[test]
fn a_body_that_is_too_long_is_not_copied_and_goes_through_all_the_same() {
    let ((main, seen), (address, told)) = (shadow("789\r\n0\r\n\r\n", true), shadow("", true));
    let proxy = Proxy::beside(vec![mirrored(9, 9)], address, |fleet| replace(fleet, main));
    let head = "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n";
    let counted = format!("{head}Content-Length: 17\r\n\r\n0123456789\r\n0\r\n\r\n");
    assert!(proxy.ask(&counted).starts_with("HTTP/1.1 500 "));
    assert_eq!(proxy.copies(CopyResult::TooLarge), 1);
    let chunked = format!("{head}Transfer-Encoding: chunked\r\n\r\n");
    for pieces in [vec![], vec!["a\r\n012345"]] {
        let before = proxy.copies(CopyResult::TooLarge);
        let mut stream = proxy.connect();
        stream.write_all(chunked.as_bytes()).unwrap();
        pieces.iter().for_each(|piece| stream.write_all(piece.as_bytes()).unwrap());
        let rest = &"a\r\n0123456789\r\n0\r\n\r\n"[pieces.concat().len()..];
        stream.write_all(rest.as_bytes()).unwrap();
        assert!(until_closed(&mut stream).starts_with("HTTP/1.1 500 "));
        assert_eq!(proxy.copies_after(CopyResult::TooLarge, before), before + 1);
    }
    assert_eq!((seen.try_iter().count(), told.try_iter().count()), (3, 0));
}

#[test]
fn a_copy_of_half_a_body_is_never_sent() {
    let (address, told) = shadow("\r\n\r\n", true);
    let proxy = Proxy::beside(vec![mirrored(99, 9)], address, |_| ());
    let mut stream = proxy.connect();
    stream.write_all(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    until_closed(&mut stream);
    assert_eq!(proxy.copies(CopyResult::Cut), 1);
    assert!(told.try_recv().is_err());
}

#[test]
fn a_service_that_hangs_holds_its_copies_and_nobody_else() {
    let (address, told) = shadow("\r\n\r\n", false);
    let proxy = Proxy::beside(vec![mirrored(0, 1)], address, |_| ());
    assert!(proxy.get("/").ends_with("zero"));
    told.recv_timeout(PATIENCE).unwrap();
    assert!(proxy.get("/").ends_with("zero"), "one copy is under way");
    assert_eq!(proxy.copies(CopyResult::Full), 1);
    assert!(told.try_recv().is_err());
}

#[test]
fn a_copy_whose_response_never_ends_gives_its_place_back() {
    let (address, ended) = endless();
    let proxy = Proxy::beside(vec![mirrored(0, 1)], address, |fleet| {
        fleet.services[1].timeouts.idle = Duration::from_millis(300);
    });
    for count in 0..2 {
        assert!(proxy.get("/").ends_with("zero"));
        assert_eq!(proxy.copies_after(CopyResult::Answered, count), count + 1);
        ended.recv_timeout(PATIENCE).unwrap();
    }
}

#[test]
fn a_stop_waits_for_no_copy() {
    let (silent, told) = shadow("\r\n\r\n", false);
    let (streaming, _ended) = endless();
    for address in [silent, streaming] {
        let proxy = Proxy::beside(vec![mirrored(0, 9)], address, |_| ());
        assert!(proxy.get("/").ends_with("zero"));
        if address == silent {
            told.recv_timeout(PATIENCE).unwrap();
        }
        let start = Instant::now();
        proxy.stop();
        assert!(start.elapsed() < StdDuration::from_secs(3), "{:?}", start.elapsed());
    }
}

#[test]
fn a_copy_takes_no_place_in_a_queue() {
    let (address, told) = shadow("\r\n\r\n", false);
    let proxy = Proxy::beside(vec![mirrored(0, 9)], address, |fleet| {
        fleet.services[1].groups[0].capacity.max_in_flight = Some(1);
    });
    assert!(proxy.get("/").ends_with("zero"));
    told.recv_timeout(PATIENCE).unwrap();
    assert!(proxy.get("/").ends_with("zero"));
    assert_eq!(proxy.copies(CopyResult::Full), 1);
    assert_eq!(proxy.tally("one").counters[ServiceCounter::Queued], 0);
}

#[test]
fn a_service_that_is_down_fails_copies_alone() {
    let proxy = Proxy::beside(vec![mirrored(0, 9)], reserved(), |_| ());
    assert!(proxy.get("/").ends_with("zero"));
    assert_eq!(proxy.copies(CopyResult::Failed), 1);
    let upgrade = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close, upgrade\r\nUpgrade: x\r\n\r\n";
    assert!(proxy.ask(upgrade).ends_with("zero"), "what may become a tunnel is not copied");
    assert_eq!(proxy.tally("one").copies.iter().sum::<u64>(), 1);
}
