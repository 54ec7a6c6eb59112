//! Files of this machine as responses.

use std::{
    fs,
    io::{Read as _, Write as _},
    os::unix::{ffi::OsStrExt as _, fs::symlink},
    process::Command,
    time::{Duration, SystemTime},
};

use loadline_core::{
    decide::ending::Ending,
    fleet::{Server, Store, StorePlace},
    rules::{Action, Caching, Conditions, Path, PathChange, Routes, Rule, Split},
};

use crate::support::{Proxy, Response, Site};

/// Bytes of which no two slices are alike.
fn large() -> Vec<u8> {
    (0..3_000_000_u32).flat_map(|number| number.wrapping_mul(2_654_435_761).to_le_bytes()).collect()
}

#[test]
fn a_file_comes_with_all_that_a_client_can_ask_for_it_again_with() {
    let site = Site::of(&[("a.html", b"<p>hello</p>"), ("data.bin", b"\0\x01"), ("none", b"")]);
    let proxy = site.proxy();
    let response = proxy.get("/a.html", "");
    assert_eq!((response.status(), &*response.text()), (200, "<p>hello</p>"), "{response:?}");
    assert_eq!(response.field("Content-Type"), Some("text/html; charset=utf-8"));
    assert_eq!(response.field("Content-Length"), Some("12"));
    assert_eq!(response.field("Accept-Ranges"), Some("bytes"));
    assert!(response.field("Date").is_some_and(|date| date.ends_with(" GMT")));
    let tag = response.field("ETag").expect("a tag").to_owned();
    let date = response.field("Last-Modified").expect("a date").to_owned();
    assert!(tag.starts_with('"'), "a file that was changed long ago has a strong tag: {tag}");
    for lines in [format!("If-None-Match: {tag}\r\n"), format!("If-Modified-Since: {date}\r\n")] {
        let again = proxy.get("/a.html", &lines);
        assert_eq!((again.status(), again.body.len()), (304, 0), "{lines}{again:?}");
        assert_eq!(again.field("ETag"), Some(&*tag));
        assert_eq!(again.field("Content-Length"), None);
    }
    assert_eq!(proxy.get("/a.html", "If-Match: \"other\"\r\n").status(), 412);
    assert_eq!(proxy.get("/data.bin", "").field("Content-Type"), Some("application/octet-stream"));
    let empty = proxy.get("/none", "");
    assert_eq!((empty.status(), empty.field("Content-Length")), (200, Some("0")));
    proxy.expect(Ending::Complete, 6);
}

#[test]
fn a_tag_of_a_file_that_has_just_changed_is_weak() {
    let site = Site::of(&[]);
    fs::write(site.path().join("new"), b"x").unwrap();
    let response = site.proxy().get("/new", "");
    assert!(response.field("ETag").is_some_and(|tag| tag.starts_with("W/\"")), "{response:?}");
}

#[test]
fn a_part_of_a_file_that_may_still_change_is_not_given_by_its_date() {
    let site = Site::of(&[("old", b"0123456789"), ("new", b"0123456789")]);
    let file = fs::File::options().write(true).open(site.path().join("new")).unwrap();
    file.set_modified(SystemTime::now() + Duration::from_secs(60)).unwrap();
    let proxy = site.proxy();
    for (target, expected) in [("/old", 206), ("/new", 200)] {
        let whole = proxy.get(target, "");
        let date = whole.field("Last-Modified").unwrap();
        let part = proxy.get(target, &format!("Range: bytes=0-1\r\nIf-Range: {date}\r\n"));
        assert_eq!(part.status(), expected, "{target}: {}", part.head);
    }
}

#[test]
fn head_has_the_head_of_get_and_nothing_else() {
    let site = Site::of(&[("a.txt", b"hello")]);
    let proxy = site.proxy();
    let (get, head) = (proxy.get("/a.txt", ""), proxy.ask("HEAD", "/a.txt", ""));
    let without_date = |response: &Response| {
        let lines = response.head.lines().filter(|line| !line.starts_with("Date"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(without_date(&get), without_date(&head));
    assert_eq!(head.body, b"");
    let none = proxy.ask("HEAD", "/none", "");
    assert_eq!((none.status(), none.body.len()), (404, 0));
}

#[test]
fn parts_of_a_file_are_the_bytes_that_were_asked_for() {
    let large = large();
    let site = Site::of(&[("digits", b"0123456789"), ("large", &large)]);
    let proxy = site.proxy();
    let part = |range: &str| {
        let response = proxy.get("/digits", &format!("Range: {range}\r\n"));
        let range = response.field("Content-Range").unwrap_or_default().to_owned();
        (response.status(), range, response.text())
    };
    let expect = |status, range: &str, text: &str| (status, range.to_owned(), text.to_owned());
    assert_eq!(part("bytes=2-4"), expect(206, "bytes 2-4/10", "234"));
    assert_eq!(part("bytes=-2"), expect(206, "bytes 8-9/10", "89"));
    assert_eq!(part("bytes=7-"), expect(206, "bytes 7-9/10", "789"));
    assert_eq!(part("bytes=10-").0, 416);
    assert_eq!(part("bytes=10-").1, "bytes */10");
    assert_eq!(part("bytes=3-2"), expect(200, "", "0123456789"));
    let other = proxy.get("/digits", "Range: bytes=0-1\r\nIf-Range: \"other\"\r\n");
    assert_eq!((other.status(), &*other.text()), (200, "0123456789"));

    let response = proxy.get("/large", "Range: bytes=1000001-9000000\r\n");
    assert_eq!(response.status(), 206);
    assert!(response.body == large[1_000_001..=9_000_000], "the middle of a large file");
}

#[test]
fn a_download_of_an_empty_file_that_begins_at_its_start_is_no_error() {
    let site = Site::of(&[("empty", b"")]);
    let proxy = site.proxy();
    for (range, status) in [("bytes=0-", 200), ("bytes=-5", 200), ("bytes=1-", 416)] {
        let told = proxy.get("/empty", &format!("Range: {range}\r\n"));
        assert_eq!(told.status(), status, "{range}: {}", told.head);
        let complete = (status == 416).then_some("bytes */0");
        assert_eq!(told.field("Content-Range"), complete, "{range}: {}", told.head);
    }
}

#[test]
fn many_parts_come_in_one_response_of_the_length_it_says() {
    let site = Site::of(&[("a.txt", b"0123456789")]);
    let response = site.proxy().get("/a.txt", "Range: bytes=0-1,5-6\r\n");
    assert_eq!(response.status(), 206);
    let kind = response.field("Content-Type").unwrap();
    let boundary = kind.strip_prefix("multipart/byteranges; boundary=").expect("a boundary");
    let length: usize = response.field("Content-Length").unwrap().parse().unwrap();
    assert_eq!(length, response.body.len());
    let text = response.text();
    let parts: Vec<&str> = text.split(&format!("--{boundary}")).collect();
    assert_eq!(parts.len(), 4, "{text}");
    assert!(parts[1].contains("Content-Range: bytes 0-1/10\r\n\r\n01\r\n"), "{text}");
    assert!(parts[2].contains("Content-Range: bytes 5-6/10\r\n\r\n56\r\n"), "{text}");
    assert_eq!(parts[3], "--\r\n");
}

#[test]
fn a_large_file_comes_whole_and_the_connection_stays() {
    let large = large();
    let site = Site::of(&[("large", &large), ("small", b"small")]);
    let proxy = site.proxy();
    let request = |path: &str, last: &str| {
        format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: {last}\r\n\r\n")
    };
    let both = request("/large", "keep-alive") + &request("/small", "close");
    let response = Response::read(proxy.send(both.as_bytes()));
    assert_eq!(response.status(), 200);
    assert!(response.body[..large.len()] == large, "all of the large file");
    let behind = String::from_utf8_lossy(&response.body[large.len()..]);
    assert!(behind.starts_with("HTTP/1.1 200 OK") && behind.ends_with("\r\n\r\nsmall"), "{behind}");
}

#[test]
fn a_file_that_becomes_shorter_on_its_way_is_cut_and_not_told_as_whole() {
    let site = Site::of(&[("log", &large())]);
    let proxy = site.proxy();
    let mut stream = proxy.send(b"GET /log HTTP/1.1\r\nHost: x\r\n\r\n");
    let mut first = [0; 1000];
    stream.read_exact(&mut first).unwrap();
    fs::File::options().write(true).open(site.path().join("log")).unwrap().set_len(10).unwrap();
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    assert!(rest.len() < 12_000_000, "it breaks off");
    proxy.expect(Ending::ServerCut, 1);
}

#[test]
fn a_path_that_ends_with_a_slash_is_its_index_and_a_directory_gets_the_slash() {
    let site = Site::of(&[
        ("index.html", b"home"),
        ("docs/index.html", b"docs"),
        ("docs/my file.txt", b"spaces"),
        ("empty/x", b"x"),
    ]);
    let proxy = site.proxy();
    assert_eq!(proxy.get("/", "").text(), "home");
    assert_eq!(proxy.get("/docs/", "").text(), "docs");
    assert_eq!(proxy.get("/docs/?sort=name", "").text(), "docs");
    let moved = proxy.get("/docs", "");
    assert_eq!((moved.status(), moved.field("Location")), (301, Some("./docs/")));
    let moved = proxy.get("/docs?sort=name&x", "");
    assert_eq!(moved.field("Location"), Some("./docs/?sort=name&x"), "the query goes along");
    assert_eq!(proxy.get("/docs/my%20file.txt", "").text(), "spaces");
    let listing = proxy.get("/empty/", "");
    assert_eq!((listing.status(), &*listing.text()), (404, "Not Found\n"), "nothing is listed");
    assert_eq!(proxy.get("/index.html/", "").status(), 404);
}

#[test]
fn a_directory_below_a_prefix_that_is_rewritten_gets_the_slash_at_the_path_the_client_knows() {
    let site = Site::of(&[
        ("index.html", b"home"),
        ("dir/index.html", b"dir"),
        ("dir/sub/index.html", b"sub"),
    ]);
    let root = site.path().to_str().expect("a path in UTF-8");
    for caches in [false, true] {
        let rule = |from: &str, to: &str| Rule {
            path: Some(PathChange::Prefix { from: from.into(), to: to.into() }),
            cache: caches.then(Caching::default),
            ..Rule::new(
                Conditions {
                    paths: vec![Path::prefix(from).expect("a path")],
                    ..Conditions::default()
                },
                Action::Service(Split::all(0)),
            )
        };
        let store = Store::at(StorePlace::Files(root.to_owned()));
        let proxy = Proxy::with(Server::of_files(store), |fleet| {
            let rules = vec![rule("/deep", "/dir"), rule("/site", "")];
            fleet.listeners[0].routes = Routes::new(rules);
        });
        for (asked, told) in [
            ("/deep", "./deep/"),
            ("/deep/sub?x=1", "./sub/?x=1"),
            ("/site", "./site/"),
            ("/site?x=1", "./site/?x=1"),
            ("/site/dir", "./dir/"),
        ] {
            let moved = proxy.get(asked, "");
            assert_eq!((moved.status(), moved.field("Location")), (301, Some(told)), "{asked}");
        }
        for (asked, file) in [("/deep/", "dir"), ("/deep/sub/", "sub"), ("/site/", "home")] {
            assert_eq!(proxy.get(asked, "").text(), file, "{asked}");
        }
    }
}

#[test]
fn no_path_leads_out_of_the_directory() {
    let outside = Site::of(&[("secret", b"secret")]);
    let site = Site::of(&[("a", b"a"), ("sub/b", b"b")]);
    symlink(outside.path().join("secret"), site.path().join("absolute")).unwrap();
    let up = format!("../{}/secret", outside.path().file_name().unwrap().to_str().unwrap());
    symlink(&up, site.path().join("relative")).unwrap();
    symlink(outside.path(), site.path().join("directory")).unwrap();
    symlink("sub/b", site.path().join("inside")).unwrap();
    symlink("loop", site.path().join("loop")).unwrap();
    let proxy = site.proxy();
    assert_eq!(proxy.get("/inside", "").text(), "b", "a link within is followed");
    for target in [
        &format!("/{up}"),
        &format!("/%2e%2e{}", up.strip_prefix("..").unwrap()),
        &format!("/sub/..%2f{up}"),
        "/sub/../a",
        "/absolute",
        "/relative",
        "/directory/secret",
        "/loop",
        "/a%00.txt",
        "/a/../../../../../../../../etc/passwd",
        "/..%2f..%2fetc%2fpasswd",
        "/%252e%252e/a",
        "/proc/self/environ",
        &format!("/{}", "x".repeat(5_000)),
    ] {
        let response = proxy.get(target, "");
        assert_eq!((response.status(), &*response.text()), (404, "Not Found\n"), "{target}");
    }
}

#[test]
fn names_with_odd_characters_are_found_as_they_are_written() {
    let names = ["a b", "a+b", "50%", "\u{fc}ber \u{20ac}", "a?b#c", "dots..", "q'\"<>", "a%20b"];
    let files: Vec<(&str, &[u8])> = names.map(|name| (name, name.as_bytes())).into();
    let proxy = Site::of(&files);
    let (site, proxy) = (&proxy, proxy.proxy());
    assert!(site.path().join("dots..").exists());
    for name in names {
        let encoded: String = name.bytes().map(|byte| format!("%{byte:02X}")).collect();
        assert_eq!(proxy.get(&format!("/{encoded}"), "").text(), name);
    }
    assert_eq!(proxy.get("/a+b", "").text(), "a+b", "a plus is a plus");
    assert_eq!(proxy.get("//a+b", "").text(), "a+b");
}

#[test]
fn every_byte_that_a_name_may_have_is_found() {
    let site = Site::of(&[]);
    let bytes = (1..=255_u8).filter(|byte| *byte != b'/');
    for byte in bytes.clone() {
        let name = std::ffi::OsStr::from_bytes(&[b'n', byte, b'm']).to_owned();
        fs::write(site.path().join(name), [byte]).unwrap();
    }
    let proxy = site.proxy();
    for byte in bytes {
        let response = proxy.get(&format!("/n%{byte:02x}m"), "");
        assert_eq!((response.status(), &*response.body), (200, &[byte][..]), "{byte:02x}");
    }
    assert_eq!(proxy.get("/n%00m", "").status(), 404);
    assert_eq!(proxy.get("/n%2fm", "").status(), 404);
}

#[test]
fn what_is_no_file_keeps_nobody_waiting() {
    let site = Site::of(&[("locked", b"x")]);
    let made = Command::new("mkfifo").arg(site.path().join("pipe")).status().unwrap();
    assert!(made.success());
    let _socket = std::os::unix::net::UnixListener::bind(site.path().join("socket")).unwrap();
    // Who may make a device has one here, for which there need not be a driver.
    let _ = Command::new("mknod").arg(site.path().join("device")).args(["c", "10", "222"]).status();
    let proxy = site.proxy();
    assert_eq!(proxy.get("/pipe", "").status(), 404);
    assert_eq!(proxy.get("/socket", "").status(), 404);
    assert_eq!(proxy.get("/device", "").status(), 404);
}

#[test]
fn other_methods_are_told_which_there_are() {
    let site = Site::of(&[("a", b"a")]);
    let proxy = site.proxy();
    for (method, lines) in [("PUT", "Content-Length: 0\r\n"), ("DELETE", ""), ("OPTIONS", "")] {
        let response = proxy.ask(method, "/a", lines);
        assert_eq!((response.status(), response.field("Allow")), (405, Some("GET, HEAD")));
    }
    let mut stream = proxy.send(b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\nx");
    stream.write_all(&[b'x'; 99_999]).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(Response::read(stream).status(), 405);
    proxy.expect(Ending::Complete, 4);
}

#[test]
fn a_directory_that_is_gone_is_the_fault_of_the_store_and_a_new_one_is_found() {
    let site = Site::of(&[("www/a", b"old"), ("next/a", b"new")]);
    let (www, gone) = (site.path().join("www"), site.path().join("gone"));
    let link = site.path().join("current");
    symlink(&www, &link).unwrap();
    let root = link.to_str().unwrap().to_owned();
    let store = Store::at(StorePlace::Files(root));
    let proxy = Proxy::to(Server::of_files(store));
    assert_eq!(proxy.get("/a", "").text(), "old");
    fs::rename(&www, &gone).unwrap();
    assert_eq!(proxy.get("/a", "").status(), 502);
    proxy.expect(Ending::StoreRefused, 1);
    fs::remove_file(&link).unwrap();
    symlink(site.path().join("next"), &link).unwrap();
    assert_eq!(proxy.get("/a", "").text(), "new");
}

#[test]
fn a_file_that_is_compressed_already_is_sent_to_those_who_accept_it() {
    let site = Site::of(&[
        ("app.js", b"plain"),
        ("app.js.br", b"brotli"),
        ("app.js.gz", b"gzip"),
        ("old.css", b"new"),
        ("old.css.gz", b"old"),
        ("alone.txt", b"alone"),
        ("docs/index.html", b"docs"),
        ("docs/index.html.zst", b"zstd"),
        ("directory.html", b"file"),
        ("directory.html.br/x", b"x"),
    ]);
    fs::write(site.path().join("old.css"), b"newer than its compressed form").unwrap();
    let proxy = site.proxy_with(|store| store.precompressed = true);
    let all = "Accept-Encoding: gzip, br, zstd\r\n";
    for (target, fields, coding, text) in [
        ("/app.js", all, Some("br"), "brotli"),
        ("/app.js", "Accept-Encoding: gzip\r\n", Some("gzip"), "gzip"),
        ("/app.js", "Accept-Encoding: zstd\r\n", None, "plain"),
        ("/app.js", "Accept-Encoding: br;q=0, gzip;q=0.5\r\n", Some("gzip"), "gzip"),
        ("/app.js", "Accept-Encoding: identity\r\n", None, "plain"),
        ("/app.js", "", None, "plain"),
        ("/old.css", all, None, "newer than its compressed form"),
        ("/alone.txt", all, None, "alone"),
        ("/docs/", all, Some("zstd"), "zstd"),
        ("/directory.html", all, None, "file"),
        ("/app.js.br", all, None, "brotli"),
    ] {
        let response = proxy.get(target, fields);
        assert_eq!((response.status(), &*response.text()), (200, text), "{target} {fields}");
        assert_eq!(response.field("Content-Encoding"), coding, "{target} {fields}");
        assert_eq!(response.field("Vary"), Some("Accept-Encoding"), "{target} {fields}");
    }
    let (plain, coded) = (proxy.get("/app.js", ""), proxy.get("/app.js", all));
    assert_eq!(plain.field("Content-Type"), coded.field("Content-Type"));
    assert_eq!(coded.field("Content-Type"), Some("text/javascript; charset=utf-8"));
    let tag = coded.field("ETag").unwrap().to_owned();
    assert_ne!(plain.field("ETag"), Some(&*tag));
    let again = proxy.get("/app.js", &format!("{all}If-None-Match: {tag}\r\n"));
    assert_eq!((again.status(), again.field("ETag")), (304, Some(&*tag)));
    let other = proxy.get("/app.js", &format!("If-None-Match: {tag}\r\n"));
    assert_eq!(other.status(), 200, "the plain form is another one");
    let part = proxy.get("/app.js", &format!("{all}Range: bytes=0-1\r\nIf-Range: {tag}\r\n"));
    assert_eq!((part.status(), &*part.text()), (206, "br"));
    assert_eq!(part.field("Content-Encoding"), Some("br"));

    let without = site.proxy().get("/app.js", all);
    assert_eq!((&*without.text(), without.field("Vary")), ("plain", None));
}

#[test]
fn a_page_of_the_site_is_told_with_its_404_where_there_is_one() {
    let site = Site::of(&[("404.html", b"<p>gone"), ("a", b"a")]);
    let proxy = site.proxy_with(|store| store.error_page = Some("/404.html".into()));
    for fields in ["", "Range: bytes=0-1\r\n", "If-None-Match: *\r\n"] {
        let missing = proxy.get("/missing/", fields);
        assert_eq!((missing.status(), &*missing.text()), (404, "<p>gone"), "{fields}");
        assert_eq!(missing.field("Content-Type"), Some("text/html; charset=utf-8"));
        assert_eq!(missing.field("ETag"), None, "nobody asks for it again by that");
    }
    let head = proxy.ask("HEAD", "/missing", "");
    assert_eq!((head.status(), head.field("Content-Length"), head.body.len()), (404, Some("7"), 0));
    assert_eq!(proxy.get("/a", "").text(), "a");
    assert_eq!(proxy.get("/404.html", "").status(), 200, "it is an object as any other");
    let wrong = site.proxy_with(|store| store.error_page = Some("/nowhere.html".into()));
    let missing = wrong.get("/missing", "");
    assert_eq!((missing.status(), &*missing.text()), (404, "Not Found\n"));
}
