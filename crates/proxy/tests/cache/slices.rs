//! Long content in slices: each is fetched when somebody comes to it, and stored by itself.

use std::{
    net::TcpStream,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
        mpsc::channel,
    },
};

use loadline_core::{
    decide::ending::Ending,
    fleet::{CacheLimits, Capacity, Fleet, WhenFull},
    rules::{Caching, Routes},
    state::{
        Purge,
        ServiceCounter::{CacheBytes, CacheHits, CacheMissBytes, CacheMisses},
    },
    time::Duration,
    units::Bytes,
};

use crate::{
    disk::{disk, fleet_on},
    support::{
        Origin, Proxy, body, exactly, field, fleet, get, head, rule, send, status, until_closed,
        wait_until,
    },
};

const SLICE: usize = 1_000;

/// What the server has: four slices and a half.
fn content() -> String {
    (0..450).map(|number| format!("{number:09}\n")).collect()
}

/// The bytes that a request asks for, as their first and last place.
fn asked_for(head: &str) -> Option<(usize, usize)> {
    let (first, last) = field(head, "range")?.strip_prefix("bytes=")?.split_once('-')?;
    Some((first.parse().ok()?, last.parse().ok()?))
}

/// Sends what was asked for, with these fields.
fn give(stream: &mut TcpStream, head: &str, fields: &str) {
    let content = content();
    let common = format!("Accept-Ranges: bytes\r\n{fields}");
    let (status, text) = match asked_for(head) {
        None => ("200 OK\r\n".to_owned(), &content[..]),
        Some((first, last)) => {
            let range = format!("bytes {first}-{last}/{}", content.len());
            let text = &content[first..=last];
            (format!("206 Partial Content\r\nContent-Range: {range}\r\n"), text)
        }
    };
    let length = text.len();
    send(stream, format!("HTTP/1.1 {status}{common}Content-Length: {length}\r\n\r\n{text}"));
}

const FIELDS: &str = "Cache-Control: max-age=60\r\nETag: \"1\"\r\n";

/// A server of that content.
fn origin() -> Origin {
    Origin::new(|stream, head, _| give(stream, head, FIELDS))
}

fn in_slices(mut fleet: Fleet) -> Fleet {
    let caching = Caching { slice: SLICE as u32, ..Caching::default() };
    fleet.listeners[0].routes = Routes::new(vec![rule(caching)]);
    fleet
}

fn before(origin: &Origin) -> Proxy {
    Proxy::of(in_slices(fleet(origin.address)))
}

fn restarted(proxy: Proxy, origin: &Origin, folder: &Path) -> Proxy {
    proxy.runtime.stop(Duration::from_secs(5));
    on_disk(origin, folder)
}

fn on_disk(origin: &Origin, folder: &Path) -> Proxy {
    let proxy = Proxy::of(in_slices(fleet_on(origin, folder)));
    wait_until(|| disk(&proxy).up, "the disk");
    proxy
}

/// What the server was asked for, in order of places.
fn ranges(origin: &Origin) -> Vec<String> {
    let asked = origin.asked();
    let range = |head: &String| field(head, "range").unwrap_or("all").to_owned();
    let mut ranges: Vec<String> = asked.iter().map(range).collect();
    ranges.sort();
    ranges
}

const ALL: [&str; 5] =
    ["all", "bytes=1000-1999", "bytes=2000-2999", "bytes=3000-3999", "bytes=4000-4499"];

#[test]
fn long_content_is_fetched_and_stored_in_slices() {
    let origin = origin();
    let proxy = before(&origin);
    let first = proxy.get("/a", "");
    assert!(body(&first) == content(), "{first}");
    assert_eq!(field(&first, "content-length"), Some("4500"));
    assert_eq!(field(&first, "content-range"), None);
    assert_eq!(ranges(&origin), ALL);
    let second = proxy.get("/a", "");
    assert!(body(&second) == content() && status(&second).contains("; hit;"), "{second}");
    assert_eq!(ranges(&origin), ALL, "nothing more");
    assert_eq!(proxy.cache().objects, 5, "the slices");
}

#[test]
fn what_servers_sent_of_a_response_in_slices_is_told_and_counted_as_theirs() {
    let origin = origin();
    let proxy = before(&origin);
    proxy.get("/a", "Range: bytes=0-9\r\n");
    let has = |slices| wait_until(|| proxy.cache().objects == slices, "slices to be stored");
    has(1);
    let within = proxy.get("/a", "Range: bytes=10-19\r\n");
    assert!(status(&within).contains("; hit;"), "{within}");
    let counted = || {
        let counters = proxy.runtime.handle().state().services[0].counts.counters;
        [CacheHits, CacheMisses, CacheBytes, CacheMissBytes].map(|counter| counters[counter])
    };
    let before = counted();
    let whole = proxy.get("/a", "");
    assert!(body(&whole) == content() && status(&whole).contains("; fwd=partial"), "{whole}");
    let (after, of_first) = (counted(), SLICE as u64);
    assert_eq!([after[0] - before[0], after[1] - before[1]], [0, 1], "a miss");
    let of_servers = whole.len() as u64 - of_first;
    assert_eq!([after[2] - before[2], after[3] - before[3]], [of_first, of_servers]);
    has(5);
    let again = proxy.get("/a", "");
    assert!(status(&again).contains("; hit;"), "{again}");
    let last = counted();
    assert_eq!([last[0] - after[0], last[3] - after[3]], [1, 0], "a hit");
    assert_eq!(last[2] - after[2], again.len() as u64);
}

#[test]
fn who_wants_only_what_is_stored_has_no_slice_fetched() {
    let origin = origin();
    let proxy = before(&origin);
    proxy.get("/a", "Range: bytes=0-9\r\n");
    let has = |slices| wait_until(|| proxy.cache().objects == slices, "slices to be stored");
    has(1);
    let only = |range: &str| {
        let told = proxy.get("/a", &format!("{range}Cache-Control: only-if-cached\r\n"));
        told[9..12].to_owned()
    };
    assert_eq!(only(""), "504");
    assert_eq!(only("Range: bytes=990-1000\r\n"), "504");
    assert_eq!(only("Range: bytes=990-999\r\n"), "206");
    assert_eq!(ranges(&origin), ["all"]);
    proxy.get("/a", "");
    has(5);
    assert_eq!(only(""), "200");
}

#[test]
fn a_range_costs_the_server_the_slices_that_have_it() {
    let (origin, content) = (origin(), content());
    let proxy = before(&origin);
    let part = |range: &str| {
        let part = proxy.get("/a", &format!("Range: bytes={range}\r\n"));
        assert!(part.starts_with("HTTP/1.1 206 "), "{part}");
        part
    };
    let last = part("3500-3600");
    assert_eq!(field(&last, "content-range"), Some("bytes 3500-3600/4500"));
    assert!(body(&last) == &content[3_500..=3_600], "{last}");
    assert_eq!(ranges(&origin), ["all", "bytes=3000-3999"]);
    assert!(body(&part("3900-4100")) == &content[3_900..=4_100]);
    assert_eq!(ranges(&origin), ["all", "bytes=3000-3999", "bytes=4000-4499"]);
    assert!(body(&part("-5")) == &content[4_495..]);
    assert!(body(&part("0-999")) == &content[..1_000]);
    let several = part("4498-4499,0-1");
    assert!(body(&several).contains(&content[4_498..]) && several.contains("bytes 0-1/4500"));
    assert_eq!(ranges(&origin).len(), 3, "nothing more");
}

#[test]
fn a_request_for_ranges_that_come_back_to_a_slice_counts_it_once() {
    let (origin, content) = (origin(), content());
    let proxy = before(&origin);
    proxy.get("/a", "");
    wait_until(|| proxy.cache().objects == 5, "the slices to be stored");
    let hits = || proxy.runtime.handle().cached(10).iter().map(|it| it.hits).sum::<u64>();
    let first = hits();
    let several = proxy.get("/a", "Range: bytes=1500-1501,0-1,1000-1001,500-501\r\n");
    assert!(several.starts_with("HTTP/1.1 206 ") && several.contains(&content[1_500..=1_501]));
    assert_eq!(hits() - first, 2, "two slices");
    proxy.get("/a", "");
    assert_eq!(hits() - first, 7, "and all five");
}

#[test]
fn conditions_and_heads_are_answered_from_the_first_slice() {
    let origin = origin();
    let proxy = before(&origin);
    proxy.get("/a", "Range: bytes=0-9\r\n");
    wait_until(|| proxy.cache().objects == 1, "the rest of the slice is stored");
    assert!(proxy.get("/a", "If-None-Match: \"1\"\r\n").starts_with("HTTP/1.1 304 "));
    let behind = proxy.get("/a", "Range: bytes=4500-\r\n");
    assert!(behind.starts_with("HTTP/1.1 416 "), "{behind}");
    assert_eq!(field(&behind, "content-range"), Some("bytes */4500"));
    let head = proxy.ask("HEAD /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    assert_eq!(field(&head, "content-length"), Some("4500"), "{head}");
    assert_eq!(ranges(&origin), ["all"]);
    let other = proxy.get("/a", "Range: bytes=0-9\r\nIf-Range: \"2\"\r\n");
    assert!(other.starts_with("HTTP/1.1 200 ") && body(&other) == content(), "{other}");
}

#[test]
fn many_who_ask_for_the_same_have_each_slice_fetched_once() {
    let origin = origin();
    let proxy = before(&origin);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert!(body(&proxy.get("/a", "")) == content()));
        }
    });
    assert_eq!(ranges(&origin), ALL);
}

#[test]
fn stale_slices_are_good_when_the_first_has_been_validated() {
    let origin = Origin::new(|stream, head, _| match field(head, "if-none-match") {
        Some("\"1\"") => send(stream, format!("HTTP/1.1 304 Not Modified\r\n{FIELDS}\r\n")),
        _ => give(stream, head, "Cache-Control: max-age=0\r\nETag: \"1\"\r\n"),
    });
    let proxy = before(&origin);
    assert!(body(&proxy.get("/a", "")) == content());
    let again = proxy.get("/a", "");
    assert!(body(&again) == content(), "{again}");
    assert_eq!(origin.asked().len(), 6, "{:?}", origin.asked());
    assert!(origin.asked()[5].contains("If-None-Match"));
    assert!(status(&proxy.get("/a", "")).contains("; hit;"));
}

#[test]
fn slices_of_two_contents_are_never_joined() {
    let version = Arc::new(AtomicUsize::new(1));
    let now = version.clone();
    let origin = Origin::new(move |stream, head, _| {
        let version = now.load(SeqCst);
        give(stream, head, &format!("Cache-Control: max-age=60\r\nETag: \"{version}\"\r\n"));
    });
    let proxy = before(&origin);
    assert!(body(&proxy.get("/a", "Range: bytes=0-1999\r\n")) == &content()[..2_000]);
    version.store(2, SeqCst);
    let broken = proxy.get("/a", "");
    assert_eq!(field(&broken, "etag"), Some("\"1\""));
    assert!(body(&broken) == &content()[..2_000], "{broken}");
    proxy.expect(Ending::ServerCut, 1);
    let new = proxy.get("/a", "");
    assert_eq!(field(&new, "etag"), Some("\"2\""));
    assert!(body(&new) == content(), "{new}");
}

#[test]
fn a_slice_of_content_of_another_length_is_one_of_other_content() {
    let origin = Origin::new(|stream, head, number| match (number, asked_for(head)) {
        (1, Some((first, last))) => {
            let range = format!("Content-Range: bytes {first}-{last}/9999\r\n");
            let text = "x".repeat(last + 1 - first);
            let fields = format!("{FIELDS}{range}Content-Length: {}\r\n", text.len());
            send(stream, format!("HTTP/1.1 206 Partial Content\r\n{fields}\r\n{text}"));
        }
        _ => give(stream, head, FIELDS),
    });
    let proxy = before(&origin);
    let broken = proxy.get("/a", "Range: bytes=0-1999\r\n");
    assert!(body(&broken) == &content()[..SLICE], "{broken}");
    proxy.expect(Ending::ServerCut, 1);
    let new = proxy.get("/a", "");
    assert!(body(&new) == content() && status(&new).contains("fwd=uri-miss"), "{new}");
}

#[test]
fn a_server_without_the_ranges_it_promises_is_asked_for_the_whole_from_then_on() {
    let origin = Origin::new(|stream, head, _| {
        let head = head.replace("Range", "X-Range");
        give(stream, &head, FIELDS);
    });
    let proxy = before(&origin);
    let broken = proxy.get("/a", "");
    assert!(body(&broken) == &content()[..SLICE], "{broken}");
    proxy.expect(Ending::ServerBad, 1);
    for _ in 0..2 {
        assert!(body(&proxy.get("/a", "")) == content());
    }
    assert_eq!(ranges(&origin)[..3], ["all", "all", "all"]);
}

#[test]
fn an_error_instead_of_a_slice_breaks_off_one_response_and_spoils_nothing() {
    let origin = Origin::new(|stream, head, number| match number {
        1 => send(stream, "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"),
        _ => give(stream, head, FIELDS),
    });
    let proxy = before(&origin);
    let broken = proxy.get("/a", "Range: bytes=0-1999\r\n");
    assert!(body(&broken) == &content()[..SLICE], "{broken}");
    proxy.expect(Ending::ServerBad, 1);
    let whole = proxy.get("/a", "");
    assert!(body(&whole) == content() && status(&whole).contains("fwd=partial"), "{whole}");
}

#[test]
fn slices_without_a_lifetime_of_their_own_are_stored() {
    let fields = "ETag: \"1\"\r\nLast-Modified: Tue, 24 Nov 2020 11:00:00 GMT\r\n";
    let origin = Origin::new(move |stream, head, _| give(stream, head, fields));
    let proxy = before(&origin);
    for _ in 0..2 {
        assert!(body(&proxy.get("/a", "")) == content());
    }
    assert_eq!(ranges(&origin), ALL, "nothing more");
}

#[test]
fn a_slice_that_a_server_has_no_time_for_is_asked_for_again() {
    let origin = Origin::new(|stream, head, number| match number {
        1 => send(stream, "HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\n\r\n"),
        _ => give(stream, head, FIELDS),
    });
    let proxy = before(&origin);
    assert!(body(&proxy.get("/a", "")) == content());
    let again = proxy.get("/a", "");
    assert!(body(&again) == content() && status(&again).contains("; hit;"), "{again}");
    assert_eq!(origin.asked().len(), ALL.len() + 1);
}

#[test]
fn a_slice_that_one_client_may_not_have_ends_its_response_and_no_other() {
    for refusal in ["401 Unauthorized", "403 Forbidden", "302 Found"] {
        let origin = Origin::new(move |stream, head, number| match number {
            1 => send(stream, format!("HTTP/1.1 {refusal}\r\nContent-Length: 0\r\n\r\n")),
            _ => give(stream, head, FIELDS),
        });
        let proxy = before(&origin);
        let broken = proxy.get("/a", "Range: bytes=0-1999\r\n");
        assert!(body(&broken) == &content()[..SLICE], "{broken}");
        proxy.expect(Ending::ServerCut, 1);
        let whole = proxy.get("/a", "");
        assert!(body(&whole) == content() && status(&whole).contains("fwd=partial"), "{whole}");
        assert_eq!(ranges(&origin).iter().filter(|range| *range == "all").count(), 1);
    }
}

#[test]
fn a_slice_that_is_shorter_than_it_says_is_not_stored() {
    let origin = Origin::new(|stream, head, number| match (number, asked_for(head)) {
        (1, Some((first, last))) => send(
            stream,
            format!(
                "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes {first}-{last}/4500\r\n\
                 {FIELDS}Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
            ),
        ),
        _ => give(stream, head, FIELDS),
    });
    let proxy = before(&origin);
    let broken = proxy.get("/a", "Range: bytes=0-1999\r\n");
    assert!((SLICE..2 * SLICE).contains(&body(&broken).len()), "{broken}");
    assert!(body(&broken).starts_with(&content()[..SLICE]), "{broken}");
    proxy.expect(Ending::ServerBad, 1);
    assert!(body(&proxy.get("/a", "")) == content());
}

#[test]
fn slices_that_may_not_be_stored_go_to_each_client_by_themselves() {
    let origin = Origin::new(|stream, head, _| match asked_for(head) {
        None => give(stream, head, FIELDS),
        Some(_) => give(stream, head, "Cache-Control: no-store\r\nETag: \"1\"\r\n"),
    });
    let proxy = before(&origin);
    for _ in 0..2 {
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| assert!(body(&proxy.get("/a", "")) == content()));
            }
        });
    }
    assert_eq!(ranges(&origin).iter().filter(|range| *range == "all").count(), 1);
}

#[test]
fn a_response_that_has_begun_waits_for_room_and_is_not_cut() {
    let (tell, told) = channel::<()>();
    let told = Mutex::new(told);
    let origin = Origin::new(move |stream, head, _| {
        if head.starts_with("GET /slow ") {
            told.lock().unwrap().recv().unwrap();
        }
        give(stream, head, FIELDS);
    });
    let mut fleet = in_slices(fleet(origin.address));
    fleet.services[0].when_full = WhenFull::Shed;
    fleet.services[0].groups[0].capacity =
        Capacity { max_in_flight: Some(1), ..Capacity::default() };
    let proxy = Proxy::of(fleet);
    proxy.get("/a", "Range: bytes=0-9\r\n");
    let in_flight = || proxy.runtime.handle().state().services[0].groups[0].load.in_flight;
    wait_until(|| in_flight() == 0, "the rest of the slice has come");
    let mut slow = proxy.begin(&get("/slow", "Range: bytes=0-9\r\n"));
    origin.wait_for(2);
    let mut waits = proxy.begin(&get("/a", ""));
    assert!(head(&mut waits).unwrap().contains("; fwd=partial"));
    assert!(exactly(&mut waits, SLICE) == content().as_bytes()[..SLICE]);
    assert!(proxy.get("/b", "").starts_with("HTTP/1.1 503 "), "there is no room");
    tell.send(()).unwrap();
    until_closed(&mut slow);
    assert!(until_closed(&mut waits) == content()[SLICE..]);
}

#[test]
fn a_slice_that_is_too_large_for_memory_is_made_smaller_and_stored() {
    let origin = origin();
    let mut fleet = in_slices(fleet(origin.address));
    let memory = Bytes::new(32 << 10);
    fleet.edge.cache = CacheLimits { memory, max_object: memory };
    let caching = Caching { slice: 1 << 20, ..Caching::default() };
    fleet.listeners[0].routes = Routes::new(vec![rule(caching)]);
    let proxy = Proxy::of(fleet);
    for _ in 0..2 {
        assert!(body(&proxy.get("/a", "")) == content());
    }
    assert_eq!(ranges(&origin), ["all", "bytes=2048-4095", "bytes=4096-4499"]);
}

#[test]
fn what_fits_into_a_slice_or_has_no_strong_tag_is_stored_whole() {
    for fields in
        ["Cache-Control: max-age=60\r\n", "Cache-Control: max-age=60\r\nETag: W/\"1\"\r\n"]
    {
        let origin = Origin::new(move |stream, head, _| give(stream, head, fields));
        let proxy = before(&origin);
        for _ in 0..2 {
            assert!(body(&proxy.get("/a", "")) == content());
        }
        assert_eq!(ranges(&origin), ["all"]);
    }
}

#[test]
fn a_purge_takes_all_slices() {
    let origin = origin();
    let proxy = before(&origin);
    proxy.get("/a", "");
    let url = Some("http://x/a".to_owned());
    let purge = Purge { url, prefix: None, tag: None, soft: false };
    assert_eq!(proxy.runtime.handle().purge(&purge).objects, ALL.len() as u64);
    assert!(body(&proxy.get("/a", "")) == content());
    assert_eq!(origin.asked().len(), 2 * ALL.len());
}

#[test]
fn slices_are_on_disk_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let origin = origin();
    let proxy = on_disk(&origin, folder.path());
    assert!(body(&proxy.get("/a", "")) == content());
    let proxy = restarted(proxy, &origin, folder.path());
    let part = proxy.get("/a", "Range: bytes=4400-\r\n");
    assert!(body(&part) == &content()[4_400..] && status(&part).contains("disk"), "{part}");
    assert!(body(&proxy.get("/a", "")) == content());
    assert_eq!(ranges(&origin), ALL, "nothing more");
}

#[test]
fn a_first_slice_on_disk_that_memory_has_no_room_for_is_not_taken_for_the_whole() {
    let folder = tempfile::tempdir().unwrap();
    let origin = origin();
    let proxy = on_disk(&origin, folder.path());
    assert!(body(&proxy.get("/a", "")) == content());
    proxy.runtime.stop(Duration::from_secs(5));
    let mut fleet = in_slices(fleet_on(&origin, folder.path()));
    let memory = Bytes::new(8 * SLICE as u64);
    fleet.edge.cache = CacheLimits { memory, max_object: memory };
    let proxy = Proxy::of(fleet);
    wait_until(|| disk(&proxy).up, "the disk");
    for _ in 0..2 {
        let whole = proxy.get("/a", "");
        assert_eq!(field(&whole, "content-length"), Some("4500"), "{whole}");
        assert!(body(&whole) == content(), "{whole}");
    }
    assert_eq!(ranges(&origin), ALL, "nothing more");
}

#[test]
fn slices_on_disk_of_older_content_are_fetched_anew() {
    let folder = tempfile::tempdir().unwrap();
    let version = Arc::new(AtomicUsize::new(1));
    let now = version.clone();
    let origin = Origin::new(move |stream, head, _| {
        let version = now.load(SeqCst);
        give(stream, head, &format!("Cache-Control: max-age=60\r\nETag: \"{version}\"\r\n"));
    });
    let proxy = on_disk(&origin, folder.path());
    assert!(body(&proxy.get("/a", "")) == content());
    let proxy = restarted(proxy, &origin, folder.path());
    version.store(2, SeqCst);
    let forced = proxy.get("/a", "Cache-Control: no-cache\r\n");
    assert_eq!(field(&forced, "etag"), Some("\"2\""), "{forced}");
    assert!(body(&forced) == content(), "{forced}");
    assert_eq!(origin.asked().len(), 2 * ALL.len());
    assert!(body(&proxy.get("/a", "")) == content());
    assert_eq!(origin.asked().len(), 2 * ALL.len());
}
