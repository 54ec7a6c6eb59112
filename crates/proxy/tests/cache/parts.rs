//! What a client's own range brings of a response that is not stored whole: it is stored, joined
//! with what follows it, and completed.

use std::{
    iter,
    net::TcpStream,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
        mpsc::{Sender, channel},
    },
    time::Instant,
};

use loadline_core::{
    fleet::{CacheLimits, Fleet},
    state::{
        Purge,
        ServiceCounter::{CacheBytes, CacheMissBytes},
    },
    time::Duration,
    units::Bytes,
};

use crate::{
    disk::{disk, fleet_on},
    support::{
        Origin, PATIENCE, Proxy, body, field, fleet, get, head, send, status, until_closed,
        wait_until,
    },
};

/// How long the content is, and how much of it may be stored.
const LENGTH: usize = 200;
const LONGEST: u64 = 120;

/// What a server has, in its first version and later ones.
fn content(version: usize) -> String {
    (0..LENGTH).map(|at| char::from(b'a' + ((at * 7 + at / 26 + version) % 26) as u8)).collect()
}

/// A server of that, whose rangeless requests fail or not.
struct Content {
    version: AtomicUsize,
    fails: AtomicBool,
    /// Header fields beside the length and the tag.
    fields: &'static str,
    /// Before the number in the tag.
    weak: &'static str,
}

impl Content {
    fn of(fields: &'static str) -> Self {
        let (version, fails) = (AtomicUsize::new(1), AtomicBool::new(false));
        Self { version, fails, fields, weak: "" }
    }

    fn origin(self: &Arc<Self>) -> Origin {
        let content = self.clone();
        Origin::new(move |stream, head, _| content.give(stream, head))
    }

    fn give(&self, stream: &mut TcpStream, head: &str) {
        let version = self.version.load(SeqCst);
        let (text, tag) = (content(version), format!("{}\"{version}\"", self.weak));
        let common = format!("{}ETag: {tag}\r\n", self.fields);
        let is_asked = field(head, "if-range").is_none_or(|wanted| wanted == tag);
        match asked_for(head).filter(|_| is_asked) {
            Some((first, last)) => {
                let part = &text[first..=last];
                let range = format!("Content-Range: bytes {first}-{last}/{LENGTH}\r\n");
                let length = part.len();
                let fields = format!("{common}{range}Content-Length: {length}\r\n\r\n");
                send(stream, format!("HTTP/1.1 206 Partial Content\r\n{fields}{part}"));
            }
            None if self.fails.load(SeqCst) => {
                send(stream, FAILED);
            }
            None => {
                let text = if head.starts_with("HEAD") { "" } else { &text };
                send(
                    stream,
                    format!("HTTP/1.1 200 OK\r\n{common}Content-Length: {LENGTH}\r\n\r\n"),
                );
                send(stream, text);
            }
        }
    }
}

/// The first and last byte that a request asks for.
fn asked_for(head: &str) -> Option<(usize, usize)> {
    let (first, last) = field(head, "range")?.strip_prefix("bytes=")?.split_once('-')?;
    if first.is_empty() {
        return Some((LENGTH - last.parse::<usize>().ok()?, LENGTH - 1));
    }
    let last = if last.is_empty() { Some(LENGTH - 1) } else { last.parse().ok() };
    Some((first.parse().ok()?, last?.min(LENGTH - 1)))
}

const FAILED: &str = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n";

const FRESH: &str = "Cache-Control: max-age=60\r\nContent-Type: text/plain\r\n";

/// The same of a response that varies: once a part of it is stored, that the whole was refused is
/// no longer known.
const VARYING: &str = "Cache-Control: max-age=60\r\nContent-Type: text/plain\r\nVary: X-Kind\r\n";

fn limited(mut fleet: Fleet) -> Fleet {
    fleet.edge.cache.max_object = Bytes::new(LONGEST);
    fleet
}

/// A proxy that knows already that the content is too long to be stored.
fn before(origin: &Origin) -> Proxy {
    let proxy = Proxy::of(limited(fleet(origin.address)));
    proxy.get("/a", "");
    proxy
}

/// A proxy that may store all of the content, which its server refuses for now: parts of it are
/// asked for by themselves.
fn refused(content: &Content, origin: &Origin) -> Proxy {
    content.fails.store(true, SeqCst);
    Proxy::of(fleet(origin.address))
}

fn range(proxy: &Proxy, range: &str) -> String {
    proxy.get("/a", &format!("Range: bytes={range}\r\n"))
}

/// The same of one that gets an error as long as it is not known that the whole is refused.
fn range_at_last(proxy: &Proxy, wanted: &str) -> String {
    let mut answers = (0..20).map(|_| range(proxy, wanted));
    answers.find(|answer| answer.starts_with("HTTP/1.1 206")).expect("the range is asked for")
}

/// Whether it was answered with these bytes of that version, from the cache.
fn is_hit(answer: &str, (first, last): (usize, usize), version: usize) -> bool {
    is_part(answer, (first, last), version) && status(answer).contains("; hit;")
}

fn is_part(answer: &str, (first, last): (usize, usize), version: usize) -> bool {
    let told = format!("bytes {first}-{last}/{LENGTH}");
    answer.starts_with("HTTP/1.1 206 ")
        && field(answer, "content-range") == Some(&*told)
        && body(answer) == &content(version)[first..=last]
}

#[test]
fn a_range_of_what_is_too_long_is_stored_and_answers_what_lies_within() {
    let origin = Arc::new(Content::of(FRESH)).origin();
    let proxy = before(&origin);
    let first = range(&proxy, "100-");
    assert!(is_part(&first, (100, 199), 1) && status(&first).contains("stored"), "{first}");
    let asked = origin.asked().len();
    for (wanted, place) in [
        ("100-199", (100, 199)),
        ("150-160", (150, 160)),
        ("-10", (190, 199)),
        ("190-", (190, 199)),
        ("198-500", (198, 199)),
    ] {
        let hit = range(&proxy, wanted);
        assert!(is_hit(&hit, place, 1), "{wanted}: {hit}");
    }
    let parts = range(&proxy, "100-101,150-151");
    let all = content(1);
    assert!(parts.starts_with("HTTP/1.1 206 ") && parts.contains("multipart/byteranges"));
    assert!(parts.contains(&format!("bytes 150-151/{LENGTH}\r\n\r\n{}", &all[150..152])));
    assert!(status(&parts).contains("; hit;"), "{parts}");
    let same = proxy.get("/a", "Range: bytes=100-101\r\nIf-Range: \"1\"\r\n");
    assert!(is_hit(&same, (100, 101), 1), "{same}");
    let known = proxy.get("/a", "Range: bytes=100-101\r\nIf-None-Match: \"1\"\r\n");
    assert!(known.starts_with("HTTP/1.1 304 ") && status(&known).contains("; hit;"), "{known}");
    assert_eq!(origin.asked().len(), asked);
    assert_eq!(proxy.cache().objects, 1);
}

#[test]
fn what_does_not_lie_within_a_stored_part_is_asked_of_the_server() {
    let origin = Arc::new(Content::of(FRESH)).origin();
    let proxy = before(&origin);
    range(&proxy, "100-149");
    let asked = origin.asked().len();
    let other = proxy.get("/a", "Range: bytes=100-101\r\nIf-Range: \"0\"\r\n");
    assert!(other.starts_with("HTTP/1.1 200 ") && body(&other) == content(1), "{other}");
    let parts = range(&proxy, "0-1,100-101");
    assert!(body(&parts).contains(&content(1)[..2]), "{parts}");
    let whole = proxy.get("/a", "");
    assert!(whole.starts_with("HTTP/1.1 200 ") && body(&whole) == content(1), "{whole}");
    let head = proxy.ask("HEAD /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    assert_eq!(field(&head, "content-length"), Some("200"), "{head}");
    assert!(origin.asked().len() >= asked + 4);
    assert!(is_hit(&range(&proxy, "100-149"), (100, 149), 1), "it is still there");
    let only = proxy.get("/a", "Range: bytes=0-1\r\nCache-Control: only-if-cached\r\n");
    assert!(only.starts_with("HTTP/1.1 504 "), "{only}");
}

#[test]
fn ranges_that_touch_are_joined_and_of_others_the_longer_one_stays() {
    let origin = Arc::new(Content::of(FRESH)).origin();
    let proxy = before(&origin);
    for (wanted, place) in [("100-149", (100, 149)), ("140-169", (140, 169)), ("90-99", (90, 99))] {
        let came = range(&proxy, wanted);
        assert!(is_part(&came, place, 1) && !status(&came).contains("; hit;"), "{came}");
    }
    assert!(is_hit(&range(&proxy, "90-169"), (90, 169), 1));
    let inside = range(&proxy, "80-120");
    assert!(is_part(&inside, (80, 120), 1) && status(&inside).contains("fwd=partial"), "{inside}");
    assert!(is_hit(&range(&proxy, "80-169"), (80, 169), 1));
    let shorter = range(&proxy, "0-9");
    assert!(is_part(&shorter, (0, 9), 1) && !status(&shorter).contains("stored"), "{shorter}");
    assert!(is_hit(&range(&proxy, "80-169"), (80, 169), 1), "what came is shorter");
    assert_eq!(proxy.cache().objects, 1);
    let proxy = before(&origin);
    range(&proxy, "100-149");
    range(&proxy, "0-79");
    assert!(is_hit(&range(&proxy, "0-79"), (0, 79), 1), "what came is longer");
    let too_long = range(&proxy, "80-149");
    assert!(is_part(&too_long, (80, 149), 1));
    assert!(is_hit(&range(&proxy, "0-79"), (0, 79), 1), "both are too long together");
    assert_eq!(proxy.cache().objects, 1);
}

#[test]
fn a_hundred_ranges_one_behind_the_other_are_one_part() {
    let origin = Arc::new(Content::of(FRESH)).origin();
    let proxy = before(&origin);
    (0..100).for_each(|at| drop(range(&proxy, &format!("{at}-{at}"))));
    assert!(is_hit(&range(&proxy, "0-99"), (0, 99), 1));
    assert_eq!(proxy.cache().objects, 1);
}

#[test]
fn parts_of_other_content_are_never_joined() {
    let served = Arc::new(Content::of(FRESH));
    let origin = served.origin();
    let proxy = before(&origin);
    range(&proxy, "100-149");
    served.version.store(2, SeqCst);
    assert!(is_part(&range(&proxy, "150-169"), (150, 169), 2));
    assert!(is_hit(&range(&proxy, "150-169"), (150, 169), 2));
    let again = range(&proxy, "100-149");
    assert!(is_part(&again, (100, 149), 2) && !status(&again).contains("; hit;"), "{again}");
    let weak = Content { weak: "W/", ..Content::of(FRESH) };
    let unnamed = Content::of("Cache-Control: no-store\r\n");
    for content in [weak, unnamed] {
        let origin = Arc::new(content).origin();
        let proxy = before(&origin);
        for _ in 0..2 {
            let part = range(&proxy, "100-149");
            assert!(is_part(&part, (100, 149), 1) && !status(&part).contains("hit"), "{part}");
        }
        assert_eq!((origin.asked().len(), proxy.cache().objects), (3, 0));
    }
}

#[test]
fn a_part_that_came_without_the_type_is_joined_and_not_stored_alone() {
    let served = Arc::new(Content::of("Cache-Control: max-age=60\r\n"));
    let other = served.clone();
    let origin = Origin::new(move |stream, head, _| match field(head, "if-range") {
        Some(_) => other.give(stream, head),
        None => Content::of(FRESH).give(stream, head),
    });
    let proxy = before(&origin);
    let resumed =
        |wanted: &str| proxy.get("/a", &format!("Range: bytes={wanted}\r\nIf-Range: \"1\"\r\n"));
    assert!(is_part(&resumed("100-149"), (100, 149), 1));
    assert_eq!(proxy.cache().objects, 0);
    range(&proxy, "100-149");
    assert!(is_part(&resumed("150-159"), (150, 159), 1));
    let hit = range(&proxy, "140-159");
    assert!(is_hit(&hit, (140, 159), 1), "{hit}");
    assert_eq!(field(&hit, "content-type"), Some("text/plain"), "{hit}");
}

#[test]
fn ranges_that_are_all_of_it_are_a_whole_response() {
    for ranges in [&["0-99", "100-199"][..], &["150-", "-120", "0-100"], &["0-"]] {
        let served = Arc::new(Content::of(FRESH));
        let origin = served.origin();
        let proxy = refused(&served, &origin);
        ranges.iter().for_each(|wanted| drop(range_at_last(&proxy, wanted)));
        let whole = proxy.get("/a", "");
        assert!(whole.starts_with("HTTP/1.1 200 ") && body(&whole) == content(1), "{whole}");
        assert!(status(&whole).contains("; hit;"), "{whole}");
        assert_eq!(field(&whole, "content-range"), None, "{whole}");
        assert!(is_hit(&range(&proxy, "5-9"), (5, 9), 1));
        assert_eq!(proxy.cache().objects, 1, "{ranges:?}");
    }
}

/// A proxy that has the first bytes, and may ask for all again.
fn with_beginning(served: &Arc<Content>, origin: &Origin) -> Proxy {
    let proxy = refused(served, origin);
    range_at_last(&proxy, "0-99");
    served.fails.store(false, SeqCst);
    proxy
}

#[test]
fn a_request_for_all_is_answered_with_the_stored_beginning_and_the_rest_from_a_server() {
    let served = Arc::new(Content::of(VARYING));
    let origin = served.origin();
    let proxy = with_beginning(&served, &origin);
    let whole = proxy.get("/a", "");
    assert!(whole.starts_with("HTTP/1.1 200 ") && body(&whole) == content(1), "{whole}");
    assert_eq!(field(&whole, "content-range"), None, "{whole}");
    assert!(status(&whole).contains("fwd=partial; stored"), "{whole}");
    let asked = origin.asked().pop().unwrap();
    assert_eq!(field(&asked, "range"), Some("bytes=100-"), "{asked}");
    assert_eq!(field(&asked, "if-range"), Some("\"1\""), "{asked}");
    let hit = proxy.get("/a", "");
    assert!(body(&hit) == content(1) && status(&hit).contains("; hit;"), "{hit}");
    assert_eq!(proxy.cache().objects, 1);
}

#[test]
fn the_stored_beginning_of_what_is_completed_counts_as_bytes_of_the_cache() {
    let served = Arc::new(Content::of(VARYING));
    let origin = served.origin();
    let proxy = with_beginning(&served, &origin);
    let counted = || {
        let counters = proxy.runtime.handle().state().services[0].counts.counters;
        [CacheBytes, CacheMissBytes].map(|counter| counters[counter])
    };
    let before = counted();
    let whole = proxy.get("/a", "");
    assert!(body(&whole) == content(1) && status(&whole).contains("fwd=partial"), "{whole}");
    let after = counted();
    let of_server = whole.len() as u64 - 100;
    assert_eq!([after[0] - before[0], after[1] - before[1]], [100, of_server]);
}

#[test]
fn a_request_for_a_range_behind_a_stored_part_fetches_the_whole_if_that_fits() {
    let served = Arc::new(Content::of(VARYING));
    let origin = served.origin();
    let proxy = with_beginning(&served, &origin);
    assert!(is_part(&range(&proxy, "150-159"), (150, 159), 1));
    let asked = origin.asked().pop().unwrap();
    assert_eq!(field(&asked, "range"), None, "{asked}");
    assert!(is_hit(&range(&proxy, "120-129"), (120, 129), 1));
    assert!(status(&proxy.get("/a", "")).contains("; hit;"));
}

#[test]
fn a_part_leaves_when_the_whole_is_stored_beside_it() {
    let served = Arc::new(Content::of(VARYING));
    let origin = served.origin();
    let proxy = with_beginning(&served, &origin);
    range(&proxy, "150-159");
    wait_until(|| status(&proxy.get("/a", "")).contains("; hit;"), "the whole to be stored");
    wait_until(|| proxy.cache().objects == 1, "the part to leave");
}

#[test]
fn the_beginning_of_content_that_has_changed_is_not_completed() {
    let served = Arc::new(Content::of(VARYING));
    let origin = served.origin();
    let proxy = with_beginning(&served, &origin);
    served.version.store(2, SeqCst);
    for _ in 0..2 {
        let whole = proxy.get("/a", "");
        assert!(whole.starts_with("HTTP/1.1 200 ") && body(&whole) == content(2), "{whole}");
    }
    assert_eq!(proxy.cache().objects, 1);
}

#[test]
fn a_rest_that_is_not_the_one_asked_for_is_given_up_for_a_request_for_all() {
    for answer in [
        "206 Partial Content\r\nContent-Range: bytes 100-199/200\r\nETag: \"2\"\r\n",
        "206 Partial Content\r\nContent-Range: bytes 101-199/200\r\nETag: \"1\"\r\n",
        "416 Range Not Satisfiable\r\nContent-Range: bytes */50\r\n",
    ] {
        let served = Arc::new(Content::of(VARYING));
        let other = served.clone();
        let origin = Origin::new(move |stream, head, _| match field(head, "if-range") {
            Some(_) => send(stream, format!("HTTP/1.1 {answer}Content-Length: 0\r\n\r\n")),
            None => other.give(stream, head),
        });
        let proxy = with_beginning(&served, &origin);
        let whole = proxy.get("/a", "");
        assert!(whole.starts_with("HTTP/1.1 200 ") && body(&whole) == content(1), "{whole}");
    }
}

/// A server that fails in all versions but the first.
fn failing(served: &Arc<Content>) -> Origin {
    let served = served.clone();
    Origin::new(move |stream, head, _| {
        if served.version.load(SeqCst) > 1 {
            return send(stream, FAILED);
        }
        served.give(stream, head);
    })
}

#[test]
fn a_stale_part_is_used_where_servers_fail() {
    let served = Arc::new(Content::of("Cache-Control: max-age=0, stale-if-error=60\r\n"));
    let origin = failing(&served);
    let proxy = before(&origin);
    range(&proxy, "100-149");
    let fresh = range(&proxy, "110-119");
    assert!(is_part(&fresh, (110, 119), 1) && !status(&fresh).contains("hit"), "{fresh}");
    served.version.store(2, SeqCst);
    for _ in 0..2 {
        assert!(is_hit(&range(&proxy, "110-119"), (110, 119), 1));
    }
    let other = range(&proxy, "0-9");
    assert!(other.starts_with("HTTP/1.1 503 "), "{other}");
}

#[test]
fn a_stale_part_is_used_where_servers_do_not_send_the_whole() {
    let fields = "Cache-Control: max-age=0, stale-if-error=60\r\nVary: X-Kind\r\n";
    let served = Arc::new(Content::of(fields));
    let origin = failing(&served);
    let proxy = with_beginning(&served, &origin);
    served.version.store(2, SeqCst);
    for _ in 0..2 {
        assert!(is_hit(&range(&proxy, "10-19"), (10, 19), 1));
    }
}

#[test]
fn a_stale_part_gives_way_to_a_shorter_one() {
    let stale = Content::of("Cache-Control: max-age=0\r\nContent-Type: text/plain\r\n");
    let fresh = Content::of(FRESH);
    let origin = Origin::new(move |stream, head, _| match field(head, "range") {
        Some("bytes=100-149") => stale.give(stream, head),
        _ => fresh.give(stream, head),
    });
    let proxy = before(&origin);
    range(&proxy, "100-149");
    range(&proxy, "0-9");
    assert!(is_hit(&range(&proxy, "0-9"), (0, 9), 1));
    assert_eq!(proxy.cache().objects, 1);
}

/// So many clients ask for the same range at once.
const CLIENTS: usize = 4;

/// A server that holds requests for all bytes as a range: the first until it is let, the others
/// until all have come. Then it fails or not.
fn holding(fails: bool) -> (Origin, Sender<()>) {
    let served = Content::of(FRESH);
    let (tell, told) = channel();
    let (told, count) = (Mutex::new(told), AtomicUsize::new(0));
    let origin = Origin::new(move |stream, head, _| {
        if field(head, "range") == Some("bytes=0-") {
            if count.fetch_add(1, SeqCst) == 0 {
                told.lock().unwrap().recv().unwrap();
            } else {
                wait_until(|| count.load(SeqCst) >= CLIENTS, "the others");
            }
            if fails {
                return send(stream, FAILED);
            }
        }
        served.give(stream, head);
    });
    (origin, tell)
}

#[test]
fn clients_of_a_range_that_is_not_stored_do_not_wait_for_one_another() {
    for fails in [false, true] {
        let (origin, tell) = holding(fails);
        let proxy = before(&origin);
        range(&proxy, "150-199");
        let asked = origin.asked().len();
        let ask = |_| proxy.begin(&get("/a", "Range: bytes=0-\r\n"));
        let mut clients: Vec<_> = (0..CLIENTS).map(ask).collect();
        origin.wait_for(asked + 1);
        tell.send(()).unwrap();
        for client in &mut clients {
            let answer = until_closed(client);
            let is_it = if fails {
                answer.starts_with("HTTP/1.1 503 ")
            } else {
                is_part(&answer, (0, 199), 1)
            };
            assert!(is_it, "{answer}");
        }
        assert_eq!(origin.asked().len(), asked + CLIENTS);
        assert!(is_hit(&range(&proxy, "150-199"), (150, 199), 1), "it is still there");
    }
}

#[test]
fn a_server_without_ranges_answers_a_far_one_with_all_of_it_at_once() {
    let origin = Origin::new(|stream, _, _| {
        // No more of the body comes.
        send(stream, format!("HTTP/1.1 200 OK\r\n{FRESH}Content-Length: 1000000\r\n\r\nabc"));
    });
    let proxy = Proxy::of(limited(fleet(origin.address)));
    let mut client = proxy.begin(&get("/a", "Range: bytes=900000-900009\r\n"));
    let head = head(&mut client).unwrap();
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert_eq!(origin.asked().len(), 3, "for the whole, for the range, and for the client alone");
}

#[test]
fn a_purge_reaches_a_part() {
    let fields = "Cache-Control: max-age=60\r\nCache-Tag: t\r\n";
    let nothing = Purge { url: None, prefix: None, tag: None, soft: false };
    for purge in [
        Purge { url: Some("http://x/a".into()), ..nothing.clone() },
        Purge { prefix: Some("http://x/".into()), ..nothing.clone() },
        Purge { tag: Some("t".into()), ..nothing.clone() },
    ] {
        let origin = Arc::new(Content::of(fields)).origin();
        let proxy = before(&origin);
        range(&proxy, "100-149");
        range(&proxy, "150-159");
        assert!(is_hit(&range(&proxy, "100-159"), (100, 159), 1));
        assert_eq!(proxy.runtime.handle().purge(&purge).objects, 1, "{purge:?}");
        let again = range(&proxy, "100-149");
        assert!(!status(&again).contains("; hit;"), "{purge:?}: {again}");
    }
}

#[test]
fn the_whole_of_which_a_part_is_stored_is_no_variant_of_it() {
    let content = Arc::new(Content::of(FRESH));
    let origin = content.origin();
    let proxy = refused(&content, &origin);
    range_at_last(&proxy, "100-149");
    wait_until(|| proxy.cache().objects == 1, "it to be stored");
    content.fails.store(false, SeqCst);
    // As long as it is known to be refused, it passes the cache.
    let asked = Instant::now();
    let mut answers = iter::repeat_with(|| proxy.get("/a", ""));
    let whole = answers.find(|it| status(it) != "loadline; fwd=miss" || asked.elapsed() > PATIENCE);
    let whole = whole.unwrap_or_default();
    assert!(status(&whole).starts_with("loadline; fwd=uri-miss; stored"), "{whole}");
}

#[test]
fn parts_are_of_the_variant_that_a_request_selects() {
    let fields = "Cache-Control: max-age=60\r\nVary: X-Kind\r\n";
    let origin = Arc::new(Content::of(fields)).origin();
    let proxy = before(&origin);
    let ask = |kind: &str, range: &str| {
        proxy.get("/a", &format!("Range: bytes={range}\r\nX-Kind: {kind}\r\n"))
    };
    proxy.get("/a", "X-Kind: a\r\n");
    assert!(is_part(&ask("a", "100-149"), (100, 149), 1));
    assert!(is_hit(&ask("a", "120-129"), (120, 129), 1));
    let other = ask("b", "120-129");
    assert!(is_part(&other, (120, 129), 1) && !status(&other).contains("; hit;"), "{other}");
}

#[test]
fn parts_are_not_written_to_disk() {
    let folder = tempfile::tempdir().unwrap();
    let origin = Arc::new(Content::of(FRESH)).origin();
    let begin = || {
        let mut fleet = fleet_on(&origin, folder.path());
        let memory = fleet.edge.cache.memory;
        fleet.edge.cache = CacheLimits { memory, max_object: Bytes::new(LONGEST) };
        let proxy = Proxy::of(fleet);
        wait_until(|| disk(&proxy).up, "the disk");
        proxy
    };
    let proxy = begin();
    proxy.get("/a", "");
    range(&proxy, "100-149");
    assert!(is_hit(&range(&proxy, "100-149"), (100, 149), 1));
    proxy.runtime.stop(Duration::from_secs(5));
    let proxy = begin();
    assert_eq!(disk(&proxy).objects, 0);
    assert!(is_part(&range(&proxy, "100-149"), (100, 149), 1));
}
