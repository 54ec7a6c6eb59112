//! What counts as memory, and what finds room in it.

use loadline_core::time::Duration;

use super::*;
use crate::cache::{BROKEN, Begun, Via, arrival::Arrival, testing::fresh};

const MEMORY: u64 = 8 << 20;
const LENGTH: u64 = 512 << 10;

fn store() -> Store {
    let memory = units::Bytes::new(MEMORY);
    Store::new(CacheLimits { memory, max_object: memory }, Clock::start())
}

fn url(number: usize) -> Key {
    format!("http://x/{number}").into_bytes().into()
}

/// A response that is fresh for an hour and varies by this.
fn object(pieces: Box<[Bytes]>, vary: Vary) -> Arc<Object> {
    Arc::new(Object::new(Arc::new(response(Length::Unknown, vary)), fresh(), pieces, 0))
}

fn response(length: Length, vary: Vary) -> Response {
    let secondary = vary.secondary_key(Fields(&[])).map(Into::into);
    Response {
        status: 200,
        text: b"HTTP/1.1 200 OK\r\n"[..].into(),
        length,
        variant: b"web"[..].into(),
        selectors: Selectors { secondary, vary, tags: Box::default() }.into(),
    }
}

fn none() -> Vary {
    Vary::of(Fields(&[]))
}

/// Takes a response in as a fetch does; none where there is no room for it, or it is not stored.
fn fetch(store: &Store, number: usize, length: u64) -> Option<Arc<Object>> {
    let key = url(number);
    let Join::Begin(reader) = store.join(&key, || false) else { panic!("somebody fetches") };
    let reserved = store.reserve(length);
    let closed = store.close(&key, reader.arrival()).unwrap();
    drop(reserved?);
    let body = Bytes::from(vec![b'x'; usize::try_from(length).unwrap()]);
    let object = object(store.kept(Box::new([body])), none());
    store.store(&key, &object, closed).then_some(object)
}

fn has(store: &Store, number: usize) -> bool {
    store.find(&url(number), b"web", Fields(&[])).what.is_some()
}

/// Two fetches for a key, the second of which was begun when the head of the first had come.
fn two_fetches(store: &Store, key: &Key) -> [Arc<Arrival>; 2] {
    let begin = || match store.join_if(key, |_| false, || false) {
        Join::Begin(reader) => reader.arrival().clone(),
        other => panic!("{other:?}"),
    };
    let first = begin();
    let head = Arc::new(response(Length::Unknown, none()));
    first.begin(Begun::Response(head, Some((fresh(), true)), None), Via::default());
    let joined = store.join(key, || true);
    assert!(matches!(joined, Join::Other(reader) if Arc::ptr_eq(reader.arrival(), &first)));
    let second = begin();
    let joined = store.join_if(key, |_| false, || true);
    assert!(matches!(joined, Join::Other(reader) if Arc::ptr_eq(reader.arrival(), &second)));
    [first, second]
}

#[test]
fn what_an_earlier_fetch_brings_is_stored_unless_a_later_one_has_ended() {
    let (store, key, other) = (store(), url(1), url(2));
    let [first, second] = two_fetches(&store, &key);
    assert_eq!(store.fetch_count(), 2);
    for arrival in [&first, &second] {
        assert!(store.ended(&key, arrival).is_some() && store.close(&key, arrival).is_some());
    }
    let [first, second] = two_fetches(&store, &key);
    // By another key they are in the same order.
    assert!(store.share(&key, &other, &second) && store.share(&key, &other, &first));
    for key in [&key, &other] {
        assert!(store.ended(key, &second).is_some());
        assert!(store.ended(key, &first).is_none() && store.close(key, &first).is_none());
        assert!(store.close(key, &second).is_some());
    }
    let [first, _] = two_fetches(&store, &key);
    assert_eq!(store.close_all(Some(&key), |_| false), 2);
    assert!(!store.is_open(&key, &first) && !store.share(&key, &other, &first));
    assert_eq!(store.fetch_count(), 0);
}

#[test]
fn only_what_varies_is_there_for_other_requests() {
    let field = loadline_core::cache::Field::new(b"vary", b"foo");
    for (vary, expected) in [(none(), false), (Vary::of(Fields(&[field])), true)] {
        let store = store();
        for variant in [b"one", b"two"] {
            let response = response(Length::Unknown, vary.clone());
            let response = Response { variant: variant[..].into(), ..response };
            let object = Object::new(Arc::new(response), fresh(), [Bytes::new()], 0);
            assert!(store.store(&url(1), &Arc::new(object), store.asks()));
            let found = store.find(&url(1), b"web", Fields(&[]));
            assert_eq!((found.what.is_some(), found.has_others), (false, expected));
        }
    }
}

#[test]
fn what_slow_clients_are_still_sent_counts_as_memory() {
    let store = store();
    let sent: Vec<_> = (0..100).filter_map(|number| fetch(&store, number, LENGTH)).collect();
    let bytes: u64 = sent.iter().map(|object| object.length()).sum();
    assert!((MEMORY..=MEMORY * 3 / 2).contains(&bytes), "{bytes}");
    let evicted = sent.iter().filter(|object| object.counted.load(Relaxed) == 0);
    let evicted: u64 = evicted.map(|object| object.length()).sum();
    assert!(evicted > 0 && evicted == store.pinned.bytes(), "{evicted}");
    drop(sent);
    assert_eq!(store.pinned.bytes(), 0, "they have all of it");
    assert!((200..300).all(|number| fetch(&store, number, LENGTH).is_some()));
    assert!(store.state().bytes > MEMORY * 3 / 4 && store.pinned.bytes() == 0);
}

#[test]
fn a_part_that_has_become_too_large_leaves_what_was_there() {
    let store = store();
    let put = |length: u64| {
        let body = Bytes::from(vec![b'x'; usize::try_from(length).unwrap()]);
        let response = Arc::new(response(Length::Part(length), none()));
        let part = Arc::new(Object::new(response, fresh(), [body], 0));
        store.put(&url(1), What::Object(part), None)
    };
    assert!(put(LENGTH));
    assert!(!put(store.longest()), "with its head and its key");
    let stored = store.peek(&url(1), b"web", Fields(&[])).map(|part| part.length());
    assert_eq!(stored, Some(LENGTH));
}

#[test]
fn what_is_asked_for_stays_though_all_else_is_sent_to_slow_clients() {
    let store = store();
    let _ = fetch(&store, 1_000, 1 << 10).unwrap();
    let until = Instant::ZERO + Duration::from_secs(10);
    let mut sent = Vec::new();
    for number in 0..200 {
        assert!(has(&store, 1_000), "after {number}");
        match fetch(&store, number, LENGTH) {
            Some(object) => sent.push(object),
            None => _ = store.put(&url(2_000 + number), What::Unstorable(until), None),
        }
    }
    assert!(store.pinned.bytes() > 0 && sent.len() < 200, "{} are sent", sent.len());
}

#[test]
fn what_is_purged_or_replaced_counts_for_as_long_as_it_is_sent() {
    let store = store();
    let sent = fetch(&store, 1, LENGTH).unwrap();
    assert_eq!(store.pinned.bytes(), 0, "it counts as stored");
    let other = fetch(&store, 1, LENGTH).unwrap();
    assert_eq!(store.pinned.bytes(), LENGTH);
    store.invalidate(&url(1));
    assert_eq!(store.pinned.bytes(), 2 * LENGTH);
    drop(sent);
    let piece = other.piece_after(0);
    drop(other);
    assert_eq!(store.pinned.bytes(), LENGTH, "a part of it is sent");
    drop(piece);
    assert_eq!(store.pinned.bytes(), 0);
}

#[test]
fn a_freshened_response_counts_once() {
    let store = store();
    let old = fetch(&store, 1, LENGTH).unwrap();
    let new = old.with(old.metadata);
    let Join::Begin(reader) = store.join(&url(1), || false) else { panic!("somebody fetches") };
    let closed = store.close(&url(1), reader.arrival()).unwrap();
    assert!(store.store(&url(1), &new, closed));
    assert_eq!(store.pinned.bytes(), 0);
    drop(old);
    assert_eq!(store.pinned.bytes(), 0);
    store.invalidate(&url(1));
    assert_eq!(store.pinned.bytes(), LENGTH);
}

#[test]
fn a_compressed_form_counts_with_its_response() {
    let store = store();
    let object = fetch(&store, 1, LENGTH).unwrap();
    let form = store.count(Bytes::from(vec![b'x'; 64 << 10]));
    assert!(store.grow(&url(1), &object, &form));
    assert_eq!(store.pinned.bytes(), 0);
    store.invalidate(&url(1));
    drop(object);
    assert_eq!(store.pinned.bytes(), 64 << 10, "it is sent");
    drop(form);
    assert_eq!(store.pinned.bytes(), 0);
}

#[test]
fn an_eighth_of_the_memory_is_stored_while_much_comes_in() {
    let store = store();
    let _others = store.reserve(MEMORY * 3 / 8).expect("others come in");
    assert!(fetch(&store, 1, MEMORY / 8 - (64 << 10)).is_some() && has(&store, 1));
    let larger = fetch(&store, 2, MEMORY / 8 + 1);
    assert!(larger.is_none() && !has(&store, 2), "it is not told as stored");
}

#[test]
fn what_comes_in_and_is_not_kept_counts_until_the_slowest_reader_has_taken_it() {
    for breaks_off in [false, true] {
        let store = store();
        let Join::Begin(mut slow) = store.join(&url(1), || false) else { panic!("it is fetched") };
        let arrival = slow.arrival().clone();
        while let Some(more) = store.reserve(LENGTH) {
            arrival.reserve(more);
            arrival.append(Bytes::from(vec![b'x'; LENGTH as usize]));
        }
        assert_eq!(store.arriving.bytes(), MEMORY / 2);
        if breaks_off {
            arrival.fail(BROKEN, Via::default());
        } else {
            arrival.shrink();
        }
        assert_eq!(store.arriving.bytes(), MEMORY / 2, "nobody has taken anything");
        slow.advance(3 * LENGTH);
        assert_eq!(store.arriving.bytes(), MEMORY / 2 - 3 * LENGTH);
        assert!(store.reserve(3 * LENGTH).is_some() && store.reserve(4 * LENGTH).is_none());
        assert!(arrival.finish().is_empty());
        assert_eq!(store.arriving.bytes(), MEMORY / 2 - 3 * LENGTH, "it is still to be sent");
        drop(slow);
        assert_eq!(store.arriving.bytes(), 0);
    }
}

#[test]
fn what_is_not_there_leaves_no_trace_when_it_is_to_be_forgotten() {
    let store = store();
    let field = loadline_core::cache::Field::new(b"vary", b"foo");
    let object = object(Box::default(), Vary::of(Fields(&[field])));
    store.forget(&url(1), &object);
    assert!(store.grow(&url(1), &object, &Bytes::new()));
    assert_eq!(store.state().bytes, 0);
    fetch(&store, 2, LENGTH).unwrap();
    store.forget(&url(2), &object);
    assert!(has(&store, 2), "another response is there");
}
