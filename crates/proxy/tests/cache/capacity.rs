//! Servers that are full, memory that is bounded, and a cache over reloads and drains.

use std::{
    net::{Shutdown, TcpStream},
    sync::{
        Mutex,
        mpsc::{Receiver, Sender, channel},
    },
    thread,
};

use loadline_core::{
    decide::ending::Ending,
    fleet::{CacheLimits, Capacity, Fleet},
    rules::Routes,
    state::Cache,
    time::Duration,
    units::Bytes,
};

use crate::support::{
    HINTS, Origin, Proxy, body, field, fleet, fresh, get, response, rule, send, status,
    until_closed, wait_until, waits,
};

/// A server that answers `/slow` each time it is let, and everything else at once: stale from the
/// beginning, with these directives.
fn blockable(directives: &'static str) -> (Origin, Sender<()>) {
    let (tell, told): (_, Receiver<()>) = channel();
    let told = Mutex::new(told);
    let origin = Origin::new(move |stream, asked, _| {
        if asked.starts_with("GET /slow") && told.lock().unwrap().recv().is_err() {
            // Nobody will tell any more.
            return drop(stream.shutdown(Shutdown::Both));
        }
        let fields = format!("Cache-Control: max-age=0{directives}\r\nETag: \"1\"\r\n");
        match field(asked, "if-none-match") {
            Some(_) => send(stream, format!("HTTP/1.1 304 Not Modified\r\n{fields}\r\n")),
            None => send(stream, response(&fields, "hello")),
        }
    });
    (origin, tell)
}

/// One request at a time, and others wait.
fn narrow(origin: &Origin) -> Fleet {
    let mut fleet = fleet(origin.address);
    let group = &mut fleet.services[0].groups[0];
    group.capacity = Capacity { max_in_flight: Some(1), ..Capacity::default() };
    fleet
}

/// Takes the place of the group until its server answers.
fn occupy(proxy: &Proxy, origin: &Origin) -> TcpStream {
    let before = origin.asked().len();
    let client = proxy.begin(&get("/slow", ""));
    origin.wait_for(before + 1);
    client
}

#[test]
fn a_stale_response_is_used_where_the_group_is_full() {
    let (origin, tell) = blockable("");
    let proxy = Proxy::of(narrow(&origin));
    proxy.get("/a", "");
    let mut slow = occupy(&proxy, &origin);
    for _ in 0..3 {
        let stale = proxy.get("/a", "");
        assert_eq!(body(&stale), "hello", "{stale}");
        assert!(status(&stale).starts_with("loadline; hit; ttl="), "{stale}");
    }
    proxy.expect(Ending::Cached, 3);
    assert_eq!(origin.asked().len(), 2);
    tell.send(()).unwrap();
    until_closed(&mut slow);
    assert!(status(&proxy.get("/a", "")).contains("fwd=stale; fwd-status=304"));
}

#[test]
fn where_stale_responses_are_not_wanted_a_request_waits_for_the_full_group() {
    let (origin, tell) = blockable("");
    let mut fleet = narrow(&origin);
    let mut caching = loadline_core::rules::Caching::default();
    caching.settings.stale_if_full = None;
    fleet.listeners[0].routes = Routes::new(vec![rule(caching)]);
    let proxy = Proxy::of(fleet);
    proxy.get("/a", "");
    let mut slow = occupy(&proxy, &origin);
    let mut waiting = proxy.begin(&get("/a", ""));
    wait_until(|| proxy.cache().fetches == 2, "the second fetch");
    assert_eq!(origin.asked().len(), 2);
    tell.send(()).unwrap();
    until_closed(&mut slow);
    let answer = until_closed(&mut waiting);
    assert!(status(&answer).contains("fwd=stale; fwd-status=304"), "{answer}");
}

#[test]
fn a_validation_behind_a_stale_response_takes_only_what_capacity_is_left() {
    let (origin, tell) = blockable(", stale-while-revalidate=60");
    let proxy = Proxy::of(narrow(&origin));
    proxy.get("/a", "");
    let mut slow = occupy(&proxy, &origin);
    for _ in 0..3 {
        let stale = proxy.get("/a", "");
        assert!(status(&stale).starts_with("loadline; hit; ttl="), "{stale}");
        wait_until(|| proxy.cache().fetches == 1, "the validation is given up");
    }
    assert_eq!(origin.asked().len(), 2, "none of them went out");
    tell.send(()).unwrap();
    until_closed(&mut slow);
    assert!(status(&proxy.get("/a", "")).starts_with("loadline; hit; ttl="));
    origin.wait_for(3);
    assert_eq!(field(&origin.asked()[2], "if-none-match"), Some("\"1\""));
}

#[test]
fn what_is_stored_stays_within_its_bytes_and_what_is_popular_stays() {
    let origin = Origin::answering(fresh(&"x".repeat(50_000)));
    let mut fleet = fleet(origin.address);
    fleet.edge.cache = CacheLimits { memory: Bytes::new(1 << 20), ..fleet.edge.cache };
    let proxy = Proxy::of(fleet);
    for number in 0..100 {
        proxy.get("/popular", "");
        proxy.get(&format!("/{number}"), "");
        let cache = proxy.cache();
        assert!(cache.bytes <= 1 << 20, "{cache:?}");
    }
    let cache = proxy.cache();
    assert!(cache.objects >= 15 && cache.bytes >= 750_000, "its room is used: {cache:?}");
    assert!(cache.evicted >= 75, "{cache:?}");
    let asked = origin.asked();
    let popular = asked.iter().filter(|head| head.starts_with("GET /popular ")).count();
    assert!(popular <= 3, "{popular} times");
}

#[test]
fn what_is_stored_survives_a_reload_and_leaves_where_its_memory_shrinks() {
    let origin = Origin::answering(fresh(&"x".repeat(50_000)));
    let proxy = Proxy::before(&origin);
    (0..20).for_each(|number| drop(proxy.get(&format!("/{number}"), "")));
    let before = proxy.cache();
    proxy.runtime.reload(fleet(origin.address)).unwrap();
    for number in 0..20 {
        assert!(status(&proxy.get(&format!("/{number}"), "")).starts_with("loadline; hit"));
    }
    assert_eq!(proxy.cache().bytes, before.bytes);
    let mut smaller = fleet(origin.address);
    smaller.edge.cache = CacheLimits { memory: Bytes::new(500_000), ..smaller.edge.cache };
    proxy.runtime.reload(smaller).unwrap();
    let obeyed = |cache: Cache| {
        // What is still on its way to a client takes room that nothing new can have.
        cache.memory_bytes == 500_000 && cache.bytes <= 500_000 && cache.sending_bytes == 0
    };
    wait_until(|| obeyed(proxy.cache()), "the limit is obeyed");
    let after = proxy.cache();
    assert!(after.objects >= 5, "{after:?}");
    // A response of 50 kB is within what one may take of it still.
    assert_eq!(body(&proxy.get("/new", "")).len(), 50_000);
    let again = proxy.get("/new", "");
    assert!(status(&again).starts_with("loadline; hit"), "{}", status(&again));
}

#[test]
fn who_waits_for_a_fetch_during_a_reload_gets_what_it_brings() {
    let (tell, told): (Sender<()>, Receiver<()>) = channel();
    let told = Mutex::new(told);
    let origin = Origin::new(move |stream, _, _| {
        send(stream, HINTS);
        told.lock().unwrap().recv().unwrap();
        send(stream, fresh("hello"));
    });
    let proxy = Proxy::before(&origin);
    let mut early = proxy.begin(&get("/a", ""));
    waits(&mut early);
    proxy.runtime.reload(fleet(origin.address)).unwrap();
    let mut late = proxy.begin(&get("/a", ""));
    waits(&mut late);
    tell.send(()).unwrap();
    for client in [&mut early, &mut late] {
        assert_eq!(body(&until_closed(client)), "hello");
    }
    assert_eq!(origin.asked().len(), 1);
}

#[test]
fn a_drain_waits_for_those_who_wait_for_a_fetch() {
    let (tell, told): (Sender<()>, Receiver<()>) = channel();
    let told = Mutex::new(told);
    let origin = Origin::new(move |stream, _, _| {
        send(stream, HINTS);
        told.lock().unwrap().recv().unwrap();
        send(stream, fresh("hello"));
    });
    let proxy = Proxy::before(&origin);
    let mut clients: Vec<_> = (0..10).map(|_| proxy.begin(&get("/a", ""))).collect();
    clients.iter_mut().for_each(waits);
    let Proxy { runtime, address } = proxy;
    let stopping = thread::spawn(move || runtime.stop(Duration::from_secs(10)));
    wait_until(|| TcpStream::connect(address).is_err(), "nobody new is let in");
    tell.send(()).unwrap();
    for client in &mut clients {
        assert_eq!(body(&until_closed(client)), "hello");
    }
    let tallies = stopping.join().unwrap();
    assert_eq!((tallies.count(Ending::Complete), tallies.count(Ending::Cached)), (1, 9));
}

#[test]
fn a_drain_that_is_over_frees_those_who_wait_for_a_fetch() {
    let (_tell, told): (Sender<()>, Receiver<()>) = channel();
    let told = Mutex::new(told);
    let origin = Origin::new(move |stream, _, _| {
        send(stream, HINTS);
        if told.lock().unwrap().recv().is_err() {
            drop(stream.shutdown(Shutdown::Both));
        }
    });
    let proxy = Proxy::before(&origin);
    let mut clients: Vec<_> = (0..5).map(|_| proxy.begin(&get("/slow", ""))).collect();
    clients.iter_mut().for_each(waits);
    let tallies = proxy.runtime.stop(Duration::from_millis(100));
    for client in &mut clients {
        let answer = until_closed(client);
        assert!(!answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
    assert_eq!(tallies.count(Ending::Drained), 5);
}
