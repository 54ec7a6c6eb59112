//! Many who ask for the same: one fetch, whose speed and end are nobody's but the server's.

use std::{
    io::Read as _,
    net::Shutdown,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
        mpsc::{Receiver, Sender, channel},
    },
    thread,
    time::{Duration, Instant},
};

use loadline_core::{decide::ending::Ending, fleet::CacheLimits, units::Bytes};
use socket2::SockRef;

use crate::support::{
    Origin, PATIENCE, Proxy, body, exactly, fleet, fresh, get, head, response, send, status,
};

/// A server that answers each time it is let, with what it is told to.
fn patient() -> (Origin, Sender<String>) {
    let (tell, told): (_, Receiver<String>) = channel();
    let told = Mutex::new(told);
    let origin = Origin::new(move |stream, _, _| {
        match told.lock().unwrap().recv() {
            Ok(answer) => send(stream, &answer),
            // Nobody will tell any more.
            Err(_) => drop(stream.shutdown(Shutdown::Both)),
        }
    });
    (origin, tell)
}

#[test]
fn many_clients_on_all_workers_have_one_fetch() {
    let (origin, tell) = patient();
    let proxy = Proxy::before(&origin);
    let mut clients: Vec<_> = (0..100).map(|_| proxy.begin(&get("/a", ""))).collect();
    origin.wait_for(1);
    tell.send(fresh("hello")).unwrap();
    let answers: Vec<_> = clients.iter_mut().map(crate::support::until_closed).collect();
    assert!(answers.iter().all(|answer| body(answer) == "hello"));
    assert_eq!(origin.asked().len(), 1);
    let collapsed = answers.iter().filter(|answer| status(answer).contains("; collapsed")).count();
    let first =
        answers.iter().filter(|answer| status(answer).contains("fwd=uri-miss; stored; ttl"));
    assert!(collapsed > 0 && first.count() == 1, "{collapsed}");
    proxy.expect(Ending::Complete, 1);
    proxy.expect(Ending::Cached, 99);
}

#[test]
fn the_fetch_goes_on_when_the_first_client_leaves() {
    let (origin, tell) = patient();
    let proxy = Proxy::before(&origin);
    let first = proxy.begin(&get("/a", ""));
    origin.wait_for(1);
    let mut second = proxy.begin(&get("/a", ""));
    drop(first);
    tell.send(fresh("hello")).unwrap();
    assert_eq!(body(&crate::support::until_closed(&mut second)), "hello");
    assert_eq!(body(&proxy.get("/a", "")), "hello");
    assert_eq!(origin.asked().len(), 1);
}

#[test]
fn a_client_that_has_nothing_more_to_say_gets_what_it_waits_for() {
    let (origin, tell) = patient();
    let proxy = Proxy::before(&origin);
    let mut clients = [proxy.begin(&get("/a", "")), proxy.begin(&get("/a", ""))];
    clients.iter().for_each(|client| client.shutdown(Shutdown::Write).unwrap());
    origin.wait_for(1);
    tell.send(fresh("hello")).unwrap();
    for client in &mut clients {
        assert_eq!(body(&crate::support::until_closed(client)), "hello");
    }
}

#[test]
fn nobody_waits_for_the_first_client_that_reads_slowly() {
    let long = "x".repeat(4 << 20);
    let origin = Origin::answering(fresh(&long));
    let proxy = Proxy::before(&origin);
    let mut slow = proxy.begin(&get("/a", ""));
    assert!(head(&mut slow).is_some(), "and reads no more");
    for _ in 0..3 {
        assert!(body(&proxy.get("/a", "")) == long);
    }
    assert_eq!(origin.asked().len(), 1);
    assert!(exactly(&mut slow, long.len()) == long.as_bytes(), "it gets all of it");
}

/// Memory that takes bodies of 128 KiB, and a server with one of 24 MiB whose length it does not
/// tell; it is sent each time that the server is let.
fn too_long() -> (Proxy, Origin, Sender<()>) {
    let (tell, told) = channel::<()>();
    let told = Mutex::new(told);
    let origin = Origin::new(move |stream, _, _| {
        let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nTransfer-Encoding: chunked";
        send(stream, format!("{head}\r\n\r\n"));
        if told.lock().unwrap().recv().is_ok() {
            send(stream, format!("{LONG:x}\r\n{}\r\n0\r\n\r\n", "x".repeat(LONG)));
        }
    });
    let mut fleet = fleet(origin.address);
    fleet.edge.cache = CacheLimits { memory: Bytes::new(1 << 20), ..fleet.edge.cache };
    (Proxy::of(fleet), origin, tell)
}

const LONG: usize = 24 << 20;

#[test]
fn one_who_reads_nothing_does_not_hold_up_others_of_what_is_too_long_to_be_stored() {
    let (proxy, origin, tell) = too_long();
    let mut clients = [proxy.begin(&get("/a", "")), proxy.begin(&get("/a", ""))];
    clients.iter_mut().for_each(|client| assert!(head(client).is_some()));
    assert_eq!(origin.asked().len(), 1);
    tell.send(()).unwrap();
    let [_slow, fast] = &mut clients;
    let body = crate::support::until_closed(fast);
    assert_eq!(body.matches('x').count(), LONG);
    assert!(body.ends_with("\r\n0\r\n\r\n"));
}

#[test]
fn what_turned_out_to_be_too_long_is_not_waited_for_together_again() {
    let (proxy, _origin, tell) = too_long();
    for status_of in ["fwd=uri-miss; stored", "fwd=miss"] {
        tell.send(()).unwrap();
        let all = proxy.get("/a", "");
        assert_eq!(body(&all).matches('x').count(), LONG);
        assert!(status(&all).contains(status_of), "{}", status(&all));
    }
}

#[test]
fn whoever_joins_late_gets_what_has_come_already_and_what_comes() {
    let (go_on, may) = channel::<()>();
    let may = Mutex::new(may);
    let origin = Origin::new(move |stream, _, _| {
        send(
            stream,
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 10\r\n\r\nhello",
        );
        may.lock().unwrap().recv().unwrap();
        send(stream, "world");
    });
    let proxy = Proxy::before(&origin);
    let mut first = proxy.begin(&get("/a", ""));
    head(&mut first).unwrap();
    assert_eq!(exactly(&mut first, 5), b"hello");
    let mut second = proxy.begin(&get("/a", ""));
    head(&mut second).unwrap();
    assert_eq!(exactly(&mut second, 5), b"hello", "before the rest has come");
    go_on.send(()).unwrap();
    for client in [&mut first, &mut second] {
        assert_eq!(exactly(client, 5), b"world");
    }
    assert_eq!(origin.asked().len(), 1);
}

#[test]
fn a_failed_fetch_frees_all_with_its_ending() {
    let (origin, tell) = patient();
    let proxy = Proxy::before(&origin);
    let mut clients: Vec<_> = (0..10).map(|_| proxy.begin(&get("/a", ""))).collect();
    origin.wait_for(1);
    crate::support::wait_until(
        || proxy.runtime.tallies().listeners.values().any(|it| it.accepted >= 10),
        "all",
    );
    drop(tell);
    for client in &mut clients {
        let answer = crate::support::until_closed(client);
        assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
    }
}

#[test]
fn what_has_come_of_a_response_that_breaks_off_at_once_reaches_its_client() {
    let origin = Origin::new(|stream, _, _| {
        send(stream, "HTTP/1.1 200 OK\r\nETag: \"1\"\r\nContent-Length: 5000\r\n\r\nhalf");
        drop(stream.shutdown(Shutdown::Both));
    });
    let mut fleet = fleet(origin.address);
    fleet.services[0].ejection = None;
    let proxy = Proxy::of(fleet);
    for number in 0..40 {
        let answer = proxy.get(&format!("/{number}"), "");
        assert!(answer.starts_with("HTTP/1.1 200 "), "{number}: {answer:?}");
        assert_eq!(body(&answer), "half", "{number}: {answer}");
    }
    proxy.expect(Ending::ServerCut, 40);
}

#[test]
fn those_who_wait_for_what_cannot_be_stored_do_not_wait_for_each_other() {
    let (gate, open) = channel::<()>();
    let open = Mutex::new(open);
    let origin = Origin::new(move |stream, _, number| {
        if number == 0 {
            open.lock().unwrap().recv().unwrap();
        }
        send(stream, response("Cache-Control: no-store\r\n", "mine"));
        if number > 0 {
            thread::yield_now();
        }
    });
    let proxy = Proxy::before(&origin);
    let mut clients: Vec<_> = (0..10).map(|_| proxy.begin(&get("/a", ""))).collect();
    origin.wait_for(1);
    gate.send(()).unwrap();
    for client in &mut clients {
        assert_eq!(body(&crate::support::until_closed(client)), "mine");
    }
    assert_eq!(origin.asked().len(), 10);
}

#[test]
fn those_who_say_who_they_are_do_not_wait_for_each_other() {
    const CLIENTS: usize = 4;
    let there = AtomicUsize::new(0);
    let origin = Origin::new(move |stream, _, number| {
        let begun = Instant::now();
        let mut answer = "together";
        if number > 0 {
            there.fetch_add(1, Relaxed);
            while there.load(Relaxed) < CLIENTS && begun.elapsed() < PATIENCE / 2 {
                thread::yield_now();
            }
            if there.load(Relaxed) < CLIENTS {
                answer = "alone";
            }
        }
        send(stream, fresh(answer));
    });
    let proxy = Proxy::before(&origin);
    let request = get("/a", "Authorization: Bearer secret\r\n");
    proxy.ask(&request);
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| proxy.begin(&request)).collect();
    for client in &mut clients {
        assert_eq!(body(&crate::support::until_closed(client)), "together");
    }
    assert_eq!(proxy.cache().objects, 0);
    // Others are not concerned: what they get is stored.
    proxy.get("/a", "");
    assert!(status(&proxy.get("/a", "")).contains("; hit;"));
}

/// A server that sends its number twice with these fields, of the first `slow` responses the second
/// time when it is let.
fn halting(fields: &'static str, slow: usize) -> (Origin, Sender<()>) {
    let (go_on, may) = channel::<()>();
    let may = Mutex::new(may);
    let origin = Origin::new(move |stream, _, number| {
        let head = format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: 2\r\n\r\n");
        send(stream, format!("{head}{number}"));
        if number < slow {
            may.lock().unwrap().recv().unwrap();
        }
        send(stream, number.to_string());
    });
    (origin, go_on)
}

#[test]
fn who_asks_when_the_head_has_come_does_not_get_what_is_stale_or_older_than_wanted() {
    for (fields, wishes) in [
        ("Cache-Control: no-cache\r\nETag: \"1\"\r\n", ""),
        ("Cache-Control: max-age=5\r\nAge: 9\r\nETag: \"1\"\r\n", ""),
        ("Cache-Control: max-age=60\r\n", "Cache-Control: no-cache\r\n"),
        ("Cache-Control: max-age=60\r\n", "Cache-Control: max-age=0\r\n"),
    ] {
        let (origin, go_on) = halting(fields, 1);
        let proxy = Proxy::before(&origin);
        let mut first = proxy.begin(&get("/a", ""));
        assert!(head(&mut first).is_some());
        let late = proxy.get("/a", wishes);
        assert_eq!(body(&late), "11", "{fields}{wishes}: {late}");
        go_on.send(()).unwrap();
        assert_eq!(crate::support::until_closed(&mut first), "00");
        crate::support::wait_until(|| proxy.cache().fetches == 0, "both fetches to end");
        let next = proxy.get("/a", "");
        assert_ne!(body(&next), "00", "{fields}{wishes}: what is older is not stored: {next}");
    }
}

#[test]
fn who_asks_when_the_head_has_come_waits_for_the_rest_of_what_is_fresh() {
    let (origin, go_on) = halting("Cache-Control: max-age=60\r\n", 1);
    let proxy = Proxy::before(&origin);
    let mut clients = [proxy.begin(&get("/a", "")), proxy.begin(&get("/a", ""))];
    for client in &mut clients {
        assert!(head(client).is_some());
    }
    go_on.send(()).unwrap();
    for client in &mut clients {
        assert_eq!(crate::support::until_closed(client), "00");
    }
    assert_eq!(origin.asked().len(), 1);
}

#[test]
fn what_comes_slowly_is_stored_although_others_have_fetches_of_their_own_meanwhile() {
    let (origin, go_on) = halting("Cache-Control: no-cache\r\nETag: \"1\"\r\n", 2);
    let proxy = Proxy::before(&origin);
    let [mut first, mut second] = [(); 2].map(|()| {
        let mut client = proxy.begin(&get("/a", ""));
        assert!(head(&mut client).is_some());
        client
    });
    go_on.send(()).unwrap();
    assert_eq!(crate::support::until_closed(&mut first), "00");
    crate::support::wait_until(|| proxy.cache().objects == 1, "it to be stored");
    assert_eq!(body(&proxy.get("/a", "")), "22");
    go_on.send(()).unwrap();
    assert_eq!(crate::support::until_closed(&mut second), "11");
    let asked = origin.asked();
    assert_eq!(asked.len(), 3);
    assert!(asked[2].contains("If-None-Match: \"1\""), "{}", asked[2]);
}

#[test]
fn what_is_too_long_goes_through_in_a_window_and_is_not_stored() {
    let long = "z".repeat(9 << 20);
    let chunked = format!(
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nTransfer-Encoding: chunked\r\n\r\n\
         {:x}\r\n{long}\r\n0\r\n\r\n",
        long.len()
    );
    for answer in [fresh(&long), chunked] {
        let origin = Origin::answering(answer);
        let proxy = Proxy::before(&origin);
        for _ in 0..2 {
            let mut client = proxy.begin(&get("/a", ""));
            let mut got = Vec::new();
            client.read_to_end(&mut got).unwrap();
            assert_eq!(got.iter().filter(|byte| **byte == b'z').count(), long.len());
        }
        assert_eq!(origin.asked().len(), 2);
    }
}

#[test]
fn what_a_slow_client_has_not_taken_of_what_is_too_long_counts_as_coming_in() {
    let long = "z".repeat(16 << 20);
    let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nTransfer-Encoding: chunked";
    let origin =
        Origin::answering(format!("{head}\r\n\r\n{:x}\r\n{long}\r\n0\r\n\r\n", long.len()));
    let proxy = Proxy::before(&origin);
    let begun = Instant::now();
    let mut clients = Vec::new();
    // They read nothing, and join one another until it is known to be too long.
    while origin.asked().len() < 2 {
        assert!(begun.elapsed() < PATIENCE, "it is too long");
        clients.push(proxy.begin(&get("/a", "")));
        thread::sleep(Duration::from_millis(10));
    }
    let arriving = proxy.cache().arriving_bytes;
    assert!(arriving >= 1 << 20, "{arriving} bytes");
    drop(clients);
    crate::support::wait_until(|| proxy.cache().arriving_bytes == 0, "nobody to want it");
}

#[test]
fn hundreds_ask_for_a_missing_object_of_a_slow_server_and_the_slowest_cost_nobody_anything() {
    let piece = "y".repeat(LENGTH / PIECES);
    let origin = Origin::new(move |stream, _, _| {
        let fields = "Cache-Control: max-age=60\r\n";
        send(stream, format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: {LENGTH}\r\n\r\n"));
        for _ in 0..PIECES {
            thread::sleep(Duration::from_millis(20));
            send(stream, &piece);
        }
    });
    let proxy = Proxy::before(&origin);
    // A tenth reads a thousand bytes a second, and begins.
    let slow: Vec<_> = (0..CLIENTS / 10).map(|_| proxy.begin(&get("/a", ""))).collect();
    slow.iter().for_each(|client| SockRef::from(client).set_recv_buffer_size(4096).unwrap());
    let (most, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Relaxed) {
                let cache = proxy.cache();
                most.fetch_max(cache.arriving_bytes + cache.bytes, Relaxed);
                thread::sleep(Duration::from_millis(5));
            }
        });
        scope.spawn(|| {
            while !is_over.load(Relaxed) {
                slow.iter().for_each(|mut client| _ = client.read(&mut [0; 100]).unwrap());
                thread::sleep(Duration::from_millis(100));
            }
        });
        let begun = Instant::now();
        let fast: Vec<_> = (0..CLIENTS - slow.len())
            .map(|_| {
                scope.spawn(|| {
                    let mut client = proxy.begin(&get("/a", ""));
                    let (mut piece, mut length) = (vec![0; 64 << 10], 0);
                    head(&mut client).unwrap();
                    loop {
                        match client.read(&mut piece).unwrap() {
                            0 => return length,
                            count => length += count,
                        }
                    }
                })
            })
            .collect();
        let whole = fast.into_iter().map(|it| it.join().unwrap()).all(|length| length == LENGTH);
        let took = begun.elapsed();
        is_over.store(true, Relaxed);
        // A slow one needs more than an hour.
        assert!(whole && took < Duration::from_secs(60), "{took:?}");
    });
    assert_eq!(origin.asked().len(), 1);
    // The object once, in whole pages, however many read it.
    let most = most.load(Relaxed);
    assert!(most <= (LENGTH + LENGTH / 10) as u64, "{most} bytes");
    let status = status(&proxy.get("/a", "")).to_owned();
    assert!(status.contains("; hit;"), "{status}");
}

/// A crowd, what it asks for, and in how many pieces that comes.
const CLIENTS: usize = 300;
const LENGTH: usize = 5_000_000;
const PIECES: usize = 50;
