//! What is kept on disk: over a restart, when memory is small, and for whoever is asked meanwhile.

use std::{
    fs,
    path::Path,
    process::Command,
    thread,
    time::{Duration as StdDuration, Instant},
};

use loadline_core::{
    fleet::{CacheLimits, DiskCache, Fleet},
    state::{self, Purge},
    time::Duration,
    units::Bytes,
};

use crate::support::{
    Origin, Proxy, body, field, fleet, fresh, get, response, send, status, until_closed, wait_until,
};

#[test]
fn what_was_cached_is_there_after_a_restart_and_is_older() {
    let folder = tempfile::tempdir().unwrap();
    let origin = Origin::answering(response(
        "Cache-Control: max-age=60\r\nETag: \"1\"\r\nAge: 10\r\n",
        "hello",
    ));
    let proxy = on_disk(&origin, folder.path());
    proxy.get("/a", "");
    let proxy = restarted(proxy, &origin, folder.path());
    let again = proxy.get("/a", "");
    assert_eq!(body(&again), "hello");
    assert!(status(&again).starts_with("loadline; hit; ttl="), "{again}");
    assert!(status(&again).ends_with("; detail=disk"), "{again}");
    assert!(field(&again, "age").unwrap().parse::<u64>().unwrap() >= 10, "{again}");
    // From now on it is in memory.
    wait_until(|| disk(&proxy).hits == 1 && !status(&proxy.get("/a", "")).contains("disk"), "it");
    let told = proxy.ask("HEAD /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    assert!(status(&told).contains("; hit;") && body(&told).is_empty(), "{told}");
    assert_eq!(proxy.get("/a", "If-None-Match: \"1\"\r\n").split(' ').nth(1), Some("304"));
    assert_eq!(origin.asked().len(), 1);
}

#[test]
fn a_head_and_a_condition_are_answered_from_disk() {
    let folder = tempfile::tempdir().unwrap();
    let origin =
        Origin::answering(response("Cache-Control: max-age=60\r\nETag: \"1\"\r\n", "hello"));
    let proxy = on_disk(&origin, folder.path());
    proxy.get("/a", "");
    proxy.get("/b", "");
    let proxy = restarted(proxy, &origin, folder.path());
    let told = proxy.ask("HEAD /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    assert!(status(&told).contains("detail=disk") && body(&told).is_empty(), "{told}");
    assert_eq!(field(&told, "content-length"), Some("5"), "{told}");
    let told = proxy.get("/b", "If-None-Match: \"1\"\r\nCache-Control: only-if-cached\r\n");
    assert!(told.starts_with("HTTP/1.1 304") && status(&told).contains("disk"), "{told}");
    assert_eq!(origin.asked().len(), 2);
}

#[test]
fn what_memory_evicts_is_answered_from_disk() {
    let folder = tempfile::tempdir().unwrap();
    let origin = Origin::new(|stream, asked, _| {
        let target = asked.split(' ').nth(1).unwrap();
        send(stream, fresh(&long(target)));
    });
    let proxy = on_disk(&origin, folder.path());
    for number in 0..100 {
        proxy.get(&format!("/{number}"), "");
    }
    wait_until(|| disk(&proxy).written > 50 && disk(&proxy).queued_bytes == 0, "writes");
    let mut from_disk = 0;
    for number in 0..100 {
        let target = format!("/{number}");
        let answer = proxy.get(&target, "");
        assert!(body(&answer) == long(&target), "{number}");
        assert!(status(&answer).contains("; hit;"), "{number}: {}", status(&answer));
        from_disk += u32::from(status(&answer).contains("detail=disk"));
    }
    assert!(from_disk > 50, "{from_disk}");
    assert_eq!(origin.asked().len(), 100);
    let again = proxy.get("/3", "Range: bytes=4-9\r\n");
    assert_eq!(body(&again), &long("/3")[4..10]);
}

#[test]
fn a_body_that_is_too_large_for_memory_is_sent_from_disk_in_pieces_and_in_part() {
    let folder = tempfile::tempdir().unwrap();
    // More than an eighth of memory, and less than half of it.
    let text: String = (0..700_000).map(|at| char::from(b'a' + (at % 23) as u8)).collect();
    let origin = Origin::answering(fresh(&text));
    let mut proxy = on_disk(&origin, folder.path());
    proxy.get("/a", "");
    wait_until(|| disk(&proxy).objects == 1, "it to be written");
    for _ in 0..2 {
        let whole = proxy.get("/a", "");
        assert!(body(&whole) == text && status(&whole).contains("detail=disk"));
        let part = proxy.get("/a", "Range: bytes=400000-400009\r\n");
        assert!(part.starts_with("HTTP/1.1 206") && body(&part) == &text[400_000..400_010]);
        let parts = proxy.get("/a", "Range: bytes=1-2,600000-600001\r\n");
        assert!(parts.contains(&text[600_000..600_002]) && parts.contains("multipart"));
        proxy = restarted(proxy, &origin, folder.path());
    }
    assert_eq!(origin.asked().len(), 1);
}

#[test]
fn many_who_ask_for_what_is_on_disk_have_it_read_once() {
    let folder = tempfile::tempdir().unwrap();
    let origin = Origin::answering(fresh(&long("/a")));
    let proxy = on_disk(&origin, folder.path());
    proxy.get("/a", "");
    let proxy = restarted(proxy, &origin, folder.path());
    let mut clients: Vec<_> = (0..40).map(|_| proxy.begin(&get("/a", ""))).collect();
    for client in &mut clients {
        let answer = until_closed(client);
        assert!(body(&answer) == long("/a") && status(&answer).contains("; hit;"), "{answer}");
    }
    assert_eq!(origin.asked().len(), 1);
    assert!(disk(&proxy).hits < 10, "{:?}", disk(&proxy));
}

#[test]
fn a_stale_response_on_disk_is_validated_and_not_fetched() {
    let folder = tempfile::tempdir().unwrap();
    let origin = Origin::new(|stream, asked, _| {
        if asked.contains("If-None-Match: \"1\"") {
            send(stream, "HTTP/1.1 304 Not Modified\r\nCache-Control: max-age=60\r\n\r\n");
        } else {
            let fields = "Cache-Control: max-age=0\r\nETag: \"1\"\r\n";
            send(stream, response(fields, "hello"));
        }
    });
    let proxy = on_disk(&origin, folder.path());
    proxy.get("/a", "");
    let proxy = restarted(proxy, &origin, folder.path());
    let answer = proxy.get("/a", "");
    assert_eq!(body(&answer), "hello");
    assert!(status(&answer).contains("fwd-status=304"), "{answer}");
    assert_eq!(origin.asked().len(), 2);
}

#[test]
fn what_its_server_has_replaced_by_something_that_is_not_stored_does_not_come_back_from_disk() {
    for answer in [
        "HTTP/1.1 404 Gone\r\nCache-Control: no-store\r\nContent-Length: 3\r\n\r\nnew".to_owned(),
        response("Cache-Control: private\r\n", "new"),
        "HTTP/1.1 304 Not Modified\r\nETag: \"1\"\r\nCache-Control: private\r\n\r\n".to_owned(),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let fields = "Cache-Control: max-age=60\r\nETag: \"1\"\r\n";
        let again = answer.replace("304 Not Modified", "200 OK\r\nContent-Length: 0");
        let origin = Origin::new(move |stream, asked, number| match number {
            0 => send(stream, response(fields, "old")),
            _ if asked.contains("If-None-Match") => send(stream, &answer),
            _ => send(stream, &again),
        });
        let proxy = on_disk(&origin, folder.path());
        proxy.get("/a", "");
        let proxy = restarted(proxy, &origin, folder.path());
        proxy.get("/a", "Cache-Control: no-cache\r\n");
        let after = proxy.get("/a", "");
        assert_ne!(body(&after), "old", "{after}");
        assert!(!status(&after).contains("vary-miss"), "{after}");
        let proxy = restarted(proxy, &origin, folder.path());
        let after = proxy.get("/a", "");
        assert_ne!(body(&after), "old", "{after}");
    }
}

#[test]
fn what_is_on_disk_stays_while_its_server_fails() {
    let folder = tempfile::tempdir().unwrap();
    let origin = Origin::new(|stream, _, number| match number {
        0 => send(stream, fresh("old")),
        _ => send(stream, "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"),
    });
    let proxy = on_disk(&origin, folder.path());
    proxy.get("/a", "");
    let proxy = restarted(proxy, &origin, folder.path());
    assert_eq!(body(&proxy.get("/a", "Cache-Control: no-cache\r\n")), "old");
    let proxy = restarted(proxy, &origin, folder.path());
    assert_eq!(body(&proxy.get("/a", "")), "old");
}

#[test]
fn what_is_purged_or_made_invalid_does_not_come_back_with_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let origin = Origin::new(|stream, asked, number| {
        let tag = asked.split(' ').nth(1).unwrap().trim_start_matches('/');
        let fields = format!("Cache-Control: max-age=60\r\nCache-Tag: {tag}\r\n");
        send(stream, response(&fields, &number.to_string()));
    });
    let proxy = on_disk(&origin, folder.path());
    for target in ["/url", "/prefix/1", "/tag", "/soft", "/post", "/kept"] {
        proxy.get(target, "");
    }
    // Now all of it is on disk and none in memory.
    let proxy = restarted(proxy, &origin, folder.path());
    let none = Purge { url: None, prefix: None, tag: None, soft: false };
    let text = |text: &str| Some(text.to_owned());
    for purge in [
        Purge { url: text("http://x/url"), ..none.clone() },
        Purge { prefix: text("http://x/pre"), ..none.clone() },
        Purge { tag: text("tag"), ..none.clone() },
        Purge { tag: text("soft"), soft: true, ..none },
    ] {
        assert_eq!(proxy.runtime.handle().purge(&purge).unrecorded, None);
    }
    proxy.ask("POST /post HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    let proxy = restarted(proxy, &origin, folder.path());
    let before = origin.asked().len();
    for target in ["/url", "/prefix/1", "/tag", "/soft", "/post"] {
        let answer = proxy.get(target, "");
        assert!(status(&answer).contains("; fwd="), "{target}: {}", status(&answer));
    }
    assert_eq!(origin.asked().len(), before + 5);
    assert_eq!(body(&proxy.get("/kept", "")), "5");
}

#[test]
fn the_next_process_has_the_disk_as_soon_as_the_one_before_leaves() {
    let folder = tempfile::tempdir().unwrap();
    let origin = Origin::answering(fresh("hello"));
    let before = on_disk(&origin, folder.path());
    before.get("/a", "");
    let after = Proxy::of(fleet_on(&origin, folder.path()));
    // It serves meanwhile.
    assert_eq!(body(&after.get("/b", "")), "hello");
    assert!(!disk(&after).up);
    // A request that takes its time does not keep it from the disk.
    let slow = before.begin("GET /slow HTTP/1.1\r\nHost: x\r\n");
    let leaving = thread::spawn(move || before.runtime.leave(Duration::from_secs(5)));
    wait_until(|| disk(&after).up, "the disk");
    drop(slow);
    leaving.join().unwrap();
    assert!(status(&after.get("/a", "")).contains("detail=disk"));
}

#[test]
fn a_reload_adds_resizes_and_takes_away_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let origin = Origin::answering(fresh("hello"));
    let proxy = Proxy::before(&origin);
    proxy.get("/a", "");
    let there = || proxy.runtime.handle().state().cache.unwrap().disk;
    assert_eq!(there(), None);
    let mut with = fleet_on(&origin, folder.path());
    proxy.runtime.reload(with.clone()).unwrap();
    wait_until(|| there().is_some_and(|it| it.up), "the disk");
    with.edge.disk_cache.as_mut().unwrap().size = Bytes::new(32 << 20);
    proxy.runtime.reload(with).unwrap();
    wait_until(|| there().is_some_and(|it| it.up && it.size_bytes == 32 << 20), "its size");
    let mut without = fleet_on(&origin, folder.path());
    without.edge.disk_cache = None;
    proxy.runtime.reload(without).unwrap();
    wait_until(|| there().is_none(), "no disk");
    assert!(status(&proxy.get("/a", "")).contains("; hit;"), "memory is as it was");
    let other = on_disk(&origin, folder.path());
    assert!(disk(&other).up, "it was left");
}

#[test]
fn a_disk_that_hangs_slows_nothing_that_is_in_memory_or_fetched() {
    let folder = tempfile::tempdir().unwrap();
    // Whoever opens this to read waits for somebody to write.
    let pipe = folder.path().join("purges");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let origin = Origin::answering(fresh("hello"));
    let proxy = Proxy::of(fleet_on(&origin, folder.path()));
    let begun = Instant::now();
    for number in 0..200 {
        let target = format!("/{}", number / 2);
        assert_eq!(body(&proxy.get(&target, "")), "hello");
    }
    assert!(begun.elapsed() < StdDuration::from_secs(5), "{:?}", begun.elapsed());
    assert!(!disk(&proxy).up && origin.asked().len() == 100);
    let tag = Some("a".to_owned());
    let purge = Purge { url: None, prefix: None, tag, soft: false };
    let told = proxy.runtime.handle().purge(&purge).unrecorded;
    assert!(told.is_some_and(|why| why.contains("does not answer")));
    // Lets its thread go on.
    fs::OpenOptions::new().write(true).open(&pipe).unwrap();
}

#[test]
fn a_directory_that_cannot_be_used_is_said_and_everything_else_works() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "not a directory").unwrap();
    let origin = Origin::answering(fresh("hello"));
    let proxy = Proxy::of(fleet_on(&origin, &file));
    for _ in 0..2 {
        assert_eq!(body(&proxy.get("/a", "")), "hello");
    }
    assert!(!disk(&proxy).up && origin.asked().len() == 1);
    assert_eq!(fs::read(&file).unwrap(), b"not a directory");
}

pub(crate) fn fleet_on(origin: &Origin, folder: &Path) -> Fleet {
    let mut fleet = fleet(origin.address);
    fleet.edge.cache = CacheLimits { memory: Bytes::new(2 << 20), max_object: Bytes::new(1 << 20) };
    let path = folder.display().to_string();
    fleet.edge.disk_cache = Some(DiskCache { path, size: Bytes::new(64 << 20) });
    fleet
}

/// A proxy whose cache on disk is open.
fn on_disk(origin: &Origin, folder: &Path) -> Proxy {
    let proxy = Proxy::of(fleet_on(origin, folder));
    wait_until(|| disk(&proxy).up, "the disk");
    proxy
}

/// Stops it and starts another with the same directory.
fn restarted(proxy: Proxy, origin: &Origin, folder: &Path) -> Proxy {
    proxy.runtime.stop(Duration::from_secs(5));
    on_disk(origin, folder)
}

pub(crate) fn disk(proxy: &Proxy) -> state::DiskCache {
    proxy.runtime.handle().state().cache.unwrap().disk.unwrap()
}

/// A body of 60 kB that begins with this.
fn long(begin: &str) -> String {
    format!("{begin}{}", "0123456789".repeat(6_000))
}
