//! Clients that are slow, vanish or ask too much.

use std::{
    io::{Read as _, Write as _},
    sync::mpsc::channel,
    thread,
    time::Instant,
};

use loadline_core::{
    decide::ending::Ending,
    fleet::ClientTimeouts,
    time::Duration,
    units::{BitRate, Bytes},
};

use crate::support::{OK, Proxy, SHORT, Scripted, exactly, fleet, head, until_closed, wait_until};

fn hurried() -> (Scripted, Proxy) {
    let server = Scripted::answering(OK);
    let mut fleet = fleet(&[server.address]);
    fleet.listeners[0].timeouts =
        ClientTimeouts { head: SHORT, idle: SHORT, keep_alive: SHORT, ..ClientTimeouts::default() };
    (server, Proxy::of(fleet))
}

#[test]
fn half_a_head_and_silence_gives_408() {
    let (server, proxy) = hurried();
    let answer = proxy.ask(b"GET / HTTP/1.1\r\nHo");
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert!(answer.contains("Connection: close\r\n"), "{answer}");
    proxy.expect(Ending::ClientTimeout, 1);
    assert_eq!(server.connections(), 0);
}

#[test]
fn a_head_that_drips_does_not_restart_its_time() {
    let (_server, proxy) = hurried();
    let mut client = proxy.connect();
    let mut dripping = client.try_clone().unwrap();
    thread::spawn(move || {
        for byte in b"GET / HTTP/1.1\r\nX-Slow: ".iter().chain([b'y'; 400].iter()) {
            if dripping.write_all(&[*byte]).is_err() {
                return;
            }
            thread::park_timeout(std::time::Duration::from_millis(20));
        }
    });
    assert!(until_closed(&mut client).starts_with("HTTP/1.1 408 "));
    proxy.expect(Ending::ClientTimeout, 1);
}

#[test]
fn a_client_that_says_nothing_is_closed_without_a_word() {
    let (_server, proxy) = hurried();
    assert_eq!(until_closed(&mut proxy.connect()), "");
}

#[test]
fn a_client_that_vanishes_in_its_body_is_counted_and_its_server_let_go() {
    let (ended, seen) = channel();
    let server = Scripted::new(move |mut stream, _| {
        head(&mut stream);
        until_closed(&mut stream);
        ended.send(()).unwrap();
    });
    let proxy = Proxy::to(&[server.address]);
    let mut client = proxy.connect();
    let begun = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nonly this";
    client.write_all(begun).unwrap();
    wait_until(|| server.connections() == 1, "the server to be asked");
    drop(client);
    seen.recv_timeout(crate::support::PATIENCE).unwrap();
    proxy.expect(Ending::ClientGone, 1);
}

/// Closes a connection with a reset, as a client does that has not read all that has come.
fn reset(client: std::net::TcpStream) {
    socket2::SockRef::from(&client).set_linger(Some(std::time::Duration::ZERO)).unwrap();
    drop(client);
}

#[test]
fn a_client_that_resets_while_its_server_works_is_counted_and_the_server_let_go() {
    let (tell, told) = channel();
    let server = Scripted::new(move |mut stream, number| {
        head(&mut stream);
        if number == 1 {
            stream.write_all(OK).unwrap();
            head(&mut stream);
        }
        tell.send("asked").unwrap();
        until_closed(&mut stream);
        tell.send("let go").unwrap();
    });
    let said = || told.recv_timeout(crate::support::PATIENCE).unwrap();
    let proxy = Proxy::to(&[server.address]);
    let ask = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    let mut first = proxy.connect();
    first.write_all(ask).unwrap();
    assert_eq!(said(), "asked");
    reset(first);
    assert_eq!(said(), "let go");
    proxy.expect(Ending::ClientGone, 1);
    let mut second = proxy.connect();
    second.write_all(ask).unwrap();
    head(&mut second).unwrap();
    exactly(&mut second, 2);
    second.write_all(ask).unwrap();
    assert_eq!(said(), "asked");
    reset(second);
    assert_eq!(said(), "let go");
    let gone = || proxy.runtime.tallies().count(Ending::ClientGone);
    wait_until(|| gone() == 2, "the second of its requests");
}

#[test]
fn a_client_that_has_said_all_and_still_reads_gets_its_response() {
    let (tell, told) = channel::<()>();
    let told = std::sync::Mutex::new(told);
    let server = Scripted::new(move |mut stream, _| {
        head(&mut stream).unwrap();
        told.lock().unwrap().recv().unwrap();
        stream.write_all(OK).unwrap();
    });
    let proxy = Proxy::to(&[server.address]);
    let mut client = proxy.connect();
    client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    wait_until(|| server.connections() == 1, "the server to be asked");
    client.shutdown(std::net::Shutdown::Write).unwrap();
    let mut next = proxy.connect();
    next.write_all(b"bad\r\n\r\n").unwrap();
    assert!(until_closed(&mut next).contains(" 400 "), "the one worker has seen the end");
    tell.send(()).unwrap();
    assert!(until_closed(&mut client).ends_with("ok"));
    assert_eq!(proxy.runtime.tallies().count(Ending::Complete), 1);
}

#[test]
fn a_client_that_stops_in_its_body_gives_408() {
    let server = Scripted::new(|mut stream, _| {
        head(&mut stream);
        until_closed(&mut stream);
    });
    let mut fleet = fleet(&[server.address]);
    fleet.listeners[0].timeouts.idle = SHORT;
    let proxy = Proxy::of(fleet);
    let answer = proxy.ask(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nonly this");
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    proxy.expect(Ending::ClientTimeout, 1);
}

#[test]
fn a_put_that_stops_in_its_body_has_no_more_time_than_a_post() {
    let idle = Duration::from_secs(1);
    let server = Scripted::new(|mut stream, _| {
        head(&mut stream);
        until_closed(&mut stream);
    });
    let mut fleet = fleet(&[server.address]);
    fleet.listeners[0].timeouts.idle = idle;
    let proxy = Proxy::of(fleet);
    let time_of = |method: &str| {
        let begun = Instant::now();
        let answer = proxy.ask(
            format!("{method} / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf").as_bytes(),
        );
        assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
        begun.elapsed()
    };
    let [put, post] = thread::scope(|scope| {
        let asking = ["PUT", "POST"].map(|method| scope.spawn(move || time_of(method)));
        asking.map(|it| it.join().unwrap())
    });
    assert!(put < post + idle.to_std() / 2, "{put:?} and {post:?}");
    proxy.expect(Ending::ClientTimeout, 2);
}

#[test]
fn a_body_that_drips_is_given_up_where_a_rate_is_asked_for() {
    let server = Scripted::new(|mut stream, _| {
        head(&mut stream);
        until_closed(&mut stream);
    });
    let mut fleet = fleet(&[server.address]);
    fleet.listeners[0].timeouts.head = SHORT;
    fleet.listeners[0].timeouts.body_rate = BitRate::new(2_000);
    let proxy = Proxy::of(fleet);
    let mut client = proxy.connect();
    let mut dripping = client.try_clone().unwrap();
    let begun = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n";
    dripping.write_all(begun).unwrap();
    thread::spawn(move || {
        while dripping.write_all(b"x").is_ok() {
            thread::park_timeout(std::time::Duration::from_millis(20));
        }
    });
    assert!(until_closed(&mut client).starts_with("HTTP/1.1 408 "));
    proxy.expect(Ending::ClientTimeout, 1);
}

#[test]
fn at_the_limit_the_client_longest_in_its_head_makes_room() {
    let server = Scripted::answering(OK);
    let mut small = fleet(&[server.address]);
    small.listeners[0].max_connections = 3;
    let proxy = Proxy::of(small);
    let kept = proxy.connect();
    let ask = |mut stream: &std::net::TcpStream| {
        stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        head(&mut stream.try_clone().unwrap()).unwrap();
        exactly(&mut stream.try_clone().unwrap(), 2)
    };
    ask(&kept);
    let mut slow = [proxy.connect(), proxy.connect()];
    slow.iter_mut().for_each(|stream| stream.write_all(b"GET / HT").unwrap());
    assert!(proxy.get().starts_with("HTTP/1.1 200 "), "the oldest has made room");
    let told = slow.each_mut().map(|stream| {
        stream.set_read_timeout(Some(SHORT.to_std())).unwrap();
        std::io::Read::read(stream, &mut [0; 16])
    });
    let closed = told.iter().filter(|read| match read {
        Ok(count) => *count == 0,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    });
    assert_eq!(closed.count(), 1, "without a word: {told:?}");
    assert_eq!(ask(&kept), "ok", "who is kept between requests is let alone");
    wait_until(|| proxy.runtime.tallies().count(Ending::ClientSlow) == 1, "it to be counted");
}

#[test]
fn a_head_over_the_limits_gives_431() {
    let server = Scripted::answering(OK);
    let mut small = fleet(&[server.address]);
    small.listeners[0].limits.size = Bytes::new(512);
    small.listeners[0].limits.fields = 3;
    let proxy = Proxy::of(small);
    let long = format!("GET / HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n", "y".repeat(600));
    assert!(proxy.ask(long.as_bytes()).starts_with("HTTP/1.1 431 "));
    let many = "GET / HTTP/1.1\r\nHost: x\r\nA: 1\r\nB: 2\r\nC: 3\r\n\r\n";
    assert!(proxy.ask(many.as_bytes()).starts_with("HTTP/1.1 431 "));
    proxy.expect(Ending::ClientBad, 2);
}

#[test]
fn connections_over_the_limit_wait_until_one_is_free() {
    let server = Scripted::answering(OK);
    let mut small = fleet(&[server.address]);
    small.listeners[0].max_connections = 2;
    let proxy = Proxy::of(small);
    let (first, second) = (proxy.connect(), proxy.connect());
    let address = proxy.address;
    for stream in [&first, &second] {
        let mut stream = stream.try_clone().unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        head(&mut stream).unwrap();
    }
    let mut third = std::net::TcpStream::connect(address).unwrap();
    third.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    third.set_read_timeout(Some(SHORT.to_std())).unwrap();
    let early = std::io::Read::read(&mut third, &mut [0; 16]);
    assert!(early.is_err(), "two are connected, the third waits");
    drop(first);
    third.set_read_timeout(Some(Duration::from_secs(5).to_std())).unwrap();
    assert!(until_closed(&mut third).starts_with("HTTP/1.1 200 "));
}

#[test]
fn a_client_that_stalls_its_upload_after_the_response_began_is_no_fault_of_the_server() {
    let server = Scripted::new(|mut stream, _| {
        head(&mut stream).unwrap();
        let begun = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n";
        stream.write_all(begun).unwrap();
        until_closed(&mut stream);
    });
    let mut fleet = fleet(&[server.address]);
    fleet.listeners[0].timeouts.idle = SHORT;
    fleet.services[0].timeouts.idle = SHORT;
    let proxy = Proxy::of(fleet);
    let mut client = proxy.connect();
    client.write_all(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nabc").unwrap();
    assert!(until_closed(&mut client).contains("hello"));
    proxy.expect(Ending::ClientTimeout, 1);
}

/// The kernel tells that there is room only when a third of its buffer is free.
#[test]
fn a_client_that_reads_slowly_but_steadily_is_not_cut_until_it_takes_nothing() {
    let server = Scripted::new(|mut stream, _| {
        head(&mut stream).unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n").unwrap();
        // Until the proxy ends it.
        while stream.write_all(&[b'a'; 64 << 10]).is_ok() {}
    });
    let mut fleet = fleet(&[server.address]);
    fleet.listeners[0].timeouts.idle = SHORT;
    let proxy = Proxy::of(fleet);
    let mut client = proxy.connect();
    socket2::SockRef::from(&client).set_recv_buffer_size(8 << 10).unwrap();
    client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    client.read_exact(&mut vec![0; 1 << 20]).unwrap();
    for _ in 0..100 {
        thread::sleep(std::time::Duration::from_millis(20));
        client.read_exact(&mut [0; 8 << 10]).unwrap();
    }
    assert_eq!(proxy.runtime.tallies().count(Ending::ClientTimeout), 0);
    proxy.expect(Ending::ClientTimeout, 1);
    drop(client);
}

/// Reads to the end, slowly: most of what comes waits in the kernel of whoever sends it.
fn slowly(mut client: std::net::TcpStream) -> usize {
    let (mut total, mut chunk) = (0, [0; 16 << 10]);
    loop {
        match client.read(&mut chunk) {
            Ok(count @ 1..) => total += count,
            Ok(0) | Err(_) => return total,
        }
        thread::park_timeout(std::time::Duration::from_millis(2));
    }
}

#[test]
fn a_client_that_says_more_than_its_request_gets_all_of_the_last_response() {
    const LENGTH: usize = 400_000;
    let (tell, told) = channel::<()>();
    let told = std::sync::Mutex::new(told);
    let server = Scripted::new(move |mut stream, _| {
        let asked = head(&mut stream).unwrap();
        exactly(&mut stream, if asked.starts_with("POST") { 3 } else { 0 });
        told.lock().unwrap().recv().unwrap();
        let text = format!("HTTP/1.1 200 OK\r\nContent-Length: {LENGTH}\r\n\r\n");
        stream.write_all(text.as_bytes()).unwrap();
        // Only a client that is reset lets it fail.
        let _ = stream.write_all(&vec![b'a'; LENGTH]);
    });
    let proxy = Proxy::to(&[server.address]);
    for (index, (request, more)) in [
        (
            &b"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc"[..],
            &b"\r\n"[..],
        ),
        (b"GET / HTTP/1.0\r\n\r\n", b"GET / HTTP/1.0\r\n\r\n"),
    ]
    .into_iter()
    .enumerate()
    {
        let mut client = proxy.connect();
        socket2::SockRef::from(&client).set_recv_buffer_size(8 << 10).unwrap();
        client.write_all(request).unwrap();
        wait_until(|| server.connections() == index + 1, "the server to be asked");
        client.write_all(more).unwrap();
        tell.send(()).unwrap();
        let total = slowly(client);
        assert!(total > LENGTH, "{total} bytes of response {index}");
    }
    proxy.expect(Ending::Complete, 2);
}
