//! What a bucket is asked, and what clients get of what it says.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
};

use loadline_core::{
    decide::ending::Ending,
    fleet::{Bucket, Compression, Fleet, Group, Listener, Server, Service, Store, StorePlace},
    rules::{Action, Caching, Conditions, Routes, Rule, Split, Template},
    time::Duration,
};

use crate::support::{Proxy, Response};

/// A bucket that answers each request, by its head, with what `answer` gives.
struct Scripted {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
    connections: Arc<AtomicUsize>,
}

impl Scripted {
    fn new(answer: impl Fn(&str) -> String + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let connections = Arc::<AtomicUsize>::default();
        let (heads, count) = (asked.clone(), connections.clone());
        thread::spawn(move || {
            for stream in listener.incoming() {
                count.fetch_add(1, Relaxed);
                serve(stream.expect("a connection"), &answer, &heads);
            }
        });
        Self { address, asked, connections }
    }

    /// A proxy before it.
    fn proxy(&self, change: impl FnOnce(&mut Fleet)) -> Proxy {
        Proxy::with(self.server(), change)
    }

    fn server(&self) -> Server {
        let (authority, base) = (self.address.to_string(), "/bucket".to_owned());
        let bucket = Bucket { authority, base, region: "here".into(), ..Bucket::default() };
        let mut store = Store::at(StorePlace::Bucket(bucket));
        store.error_page = Some("/404.html".into());
        Server { store: Some(Arc::new(store)), ..Server::at(self.address) }
    }

    /// The heads of all requests that have come.
    fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("a list").clone()
    }
}

/// Answers the requests of a connection, until one of the responses ends it.
fn serve(mut stream: TcpStream, answer: &impl Fn(&str) -> String, heads: &Mutex<Vec<String>>) {
    let lines = BufReader::new(stream.try_clone().expect("a socket")).lines();
    let mut lines = lines.map_while(Result::ok);
    loop {
        let head = lines.by_ref().take_while(|line| !line.is_empty());
        let head = head.map(|line| line + "\r\n").collect::<String>();
        if head.is_empty() {
            return;
        }
        let response = answer(&head);
        heads.lock().expect("a list").push(head);
        // A client that has left sees nothing of it.
        let _ = stream.write_all(response.as_bytes());
        if response.contains("Connection: close\r\n") {
            return;
        }
    }
}

/// A response with this status and these lines.
fn response(head: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {head}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}")
}

/// A proxy before a bucket that answers each request, by its path, with this head and body.
fn before(answer: fn(&str) -> (&'static str, &'static str)) -> Proxy {
    let bucket = Scripted::new(move |asked| {
        let (head, body) = answer(asked.split(' ').nth(1).expect("a path"));
        response(head, body)
    });
    bucket.proxy(|_| {})
}

/// Has all that goes through a proxy cached.
fn cached(fleet: &mut Fleet) {
    let to_all = Rule::new(Conditions::default(), Action::Service(Split::all(0)));
    let rule = Rule { cache: Some(Caching::default()), ..to_all };
    fleet.listeners[0].routes = Routes::new(vec![rule]);
}

#[test]
fn an_error_page_of_a_bucket_keeps_its_coding() {
    let proxy = before(|path| match path {
        "/bucket/404.html" => (
            "200 OK\r\nContent-Type: text/html\r\nContent-Encoding: gzip\r\n",
            "as it is in the bucket",
        ),
        _ => ("404 No\r\n", "<Error><Code>NoSuchKey</Code></Error>"),
    });
    for _ in 0..2 {
        let told = proxy.get("/a", "");
        assert_eq!((told.status(), &*told.text()), (404, "as it is in the bucket"));
        assert_eq!(told.field("Content-Encoding"), Some("gzip"), "{}", told.head);
        assert_eq!(told.field("Content-Type"), Some("text/html"), "{}", told.head);
    }
}

#[test]
fn an_error_page_of_a_bucket_is_fetched_once_for_many_clients() {
    let bucket = Scripted::new(|head| match head.contains(" /bucket/404.html ") {
        true => response("200 OK\r\nContent-Type: text/html\r\n", "<p>gone"),
        false => response("404 No\r\n", "<Error><Code>NoSuchKey</Code></Error>"),
    });
    let proxy = bucket.proxy(|_| {});
    // Before the page is asked for the bucket has answered all of them, one after the other.
    let clients: Vec<TcpStream> = (0..30)
        .map(|number| {
            let head = format!("GET /{number} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
            proxy.send(head.as_bytes())
        })
        .collect();
    for client in clients {
        let told = Response::read(client);
        assert_eq!((told.status(), &*told.text()), (404, "<p>gone"), "{}", told.head);
        assert_eq!(told.field("Content-Type"), Some("text/html"), "{}", told.head);
    }
    let asked = bucket.asked();
    let of_page = asked.iter().filter(|head| head.contains("404.html")).count();
    assert_eq!((of_page, asked.len()), (1, 31), "{asked:?}");
}

#[test]
fn a_head_of_what_is_not_in_a_bucket_is_told_the_error_page_that_nobody_has_read() {
    let bucket = Scripted::new(|head| {
        let told = match head.contains(" /bucket/404.html ") {
            true => response("200 OK\r\nContent-Type: text/html\r\n", "<p>gone"),
            false => response("404 No\r\n", "<Error><Code>NoSuchKey</Code></Error>"),
        };
        let end = told.find("\r\n\r\n").expect("a head") + 4;
        let length = if head.starts_with("HEAD ") { end } else { told.len() };
        told[..length].to_owned()
    });
    for target in ["/a", "/a%00"] {
        let changes: [fn(&mut Fleet); 2] = [|_| {}, cached];
        for change in changes {
            let proxy = bucket.proxy(change);
            let shown = |told: &Response| {
                let fields = ["Content-Type", "Content-Length"];
                (told.status(), fields.map(|name| told.field(name).map(str::to_owned)))
            };
            let head = proxy.ask("HEAD", target, "");
            assert_eq!(head.field("Content-Length"), Some("7"), "{}", head.head);
            assert!(head.body.is_empty(), "{}", head.text());
            assert_eq!(shown(&head), shown(&proxy.get(target, "")), "{}", head.head);
        }
    }
    let asked = bucket.asked();
    let of_pages = asked.iter().filter(|head| head.starts_with("GET /bucket/404.html "));
    assert_eq!(of_pages.count(), 4, "{asked:?}");
}

#[test]
fn services_with_different_error_pages_in_one_bucket_have_each_fetched_once() {
    let bucket = Scripted::new(|head| match head.split(' ').nth(1).expect("a path") {
        "/bucket/404.html" => response("200 OK\r\n", "<p>one"),
        "/bucket/other.html" => response("200 OK\r\n", "<p>other"),
        _ => response("404 No\r\n", "<Error><Code>NoSuchKey</Code></Error>"),
    });
    let mut proxy = bucket.proxy(|fleet| {
        let mut other = Service { name: "other".into(), ..fleet.services[0].clone() };
        let server = &mut other.groups[0].servers[0];
        let store = server.store.as_deref().expect("a store").clone();
        let error_page = Some("/other.html".into());
        server.store = Some(Arc::new(Store { error_page, ..store }));
        fleet.services.push(other);
        let bind = fleet.listeners[0].bind;
        fleet.listeners.push(Listener::new(bind, 1));
    });
    let addresses = proxy.runtime.local_addrs();
    for _ in 0..3 {
        for (address, page) in addresses.iter().zip(["<p>one", "<p>other"]) {
            proxy.address = *address;
            let told = proxy.get("/a", "");
            assert_eq!((told.status(), &*told.text()), (404, page), "{}", told.head);
        }
    }
    let of_pages = bucket.asked().iter().filter(|head| head.contains(".html")).count();
    assert_eq!(of_pages, 2, "{:?}", bucket.asked());
}

#[test]
fn an_object_that_is_not_in_a_bucket_is_a_404_where_the_error_page_does_not_come() {
    // No response, none in time, and half of one.
    let half = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\nConnection: close\r\n\r\nhalf";
    for page in ["junk\r\nConnection: close\r\n\r\n", "", half] {
        let bucket = Scripted::new(move |head| match head.contains(" /bucket/404.html ") {
            true => page.to_owned(),
            false => response("404 No\r\n", "<Error><Code>NoSuchKey</Code></Error>"),
        });
        let changes: [fn(&mut Fleet); 2] = [|_| {}, cached];
        for change in changes {
            let before = bucket.asked().len();
            let proxy = bucket.proxy(|fleet| {
                change(fleet);
                fleet.services[0].timeouts.head = Duration::from_millis(100);
            });
            for target in ["/a", "/b", "/a%00"] {
                let told = proxy.get(target, "");
                assert_eq!((told.status(), &*told.text()), (404, "Not Found\n"), "{page:?}");
            }
            let asked = bucket.asked().split_off(before);
            assert_eq!(asked.len(), 3, "the page once, too: {asked:?}");
        }
    }
}

#[test]
fn an_error_page_of_a_bucket_has_1_mib_at_most() {
    for (length, told) in [(1 << 20, 1 << 20), ((1 << 20) + 1, "Not Found\n".len())] {
        let bucket = Scripted::new(move |head| match head.contains(" /bucket/404.html ") {
            true => response("200 OK\r\nContent-Type: text/html\r\n", &"x".repeat(length)),
            false => response("404 No\r\n", "<Error><Code>NoSuchKey</Code></Error>"),
        });
        let answer = bucket.proxy(|_| {}).get("/a", "");
        assert_eq!((answer.status(), answer.body.len()), (404, told), "{}", answer.head);
    }
}

#[test]
fn a_range_behind_the_end_of_an_object_of_a_bucket_is_told_its_length() {
    let proxy = before(|_| {
        ("416 No\r\nContent-Range: bytes */10\r\n", "<Error><Code>InvalidRange</Code></Error>")
    });
    let told = proxy.get("/a", "Range: bytes=10-\r\n");
    assert_eq!((told.status(), told.field("Content-Range")), (416, Some("bytes */10")));
    assert!(!told.text().contains("InvalidRange"), "{}", told.text());
}

#[test]
fn clients_are_told_what_loadline_says_of_itself_and_not_what_a_bucket_does() {
    let bucket = Scripted::new(|head| {
        let lines = "Strict-Transport-Security: max-age=31536000\r\nAlt-Svc: h3=\":443\"\r\n\
                     Cache-Status: elsewhere\r\nServer: MinIO\r\nCache-Control: max-age=60\r\n";
        let told = response(&format!("200 OK\r\n{lines}"), "hello");
        let body = if head.starts_with("HEAD") { "hello" } else { "" };
        told.strip_suffix(body).expect("a body").to_owned()
    });
    let proxy = bucket.proxy(cached);
    let (plain, passed) = (bucket.proxy(|_| {}).get("/a", ""), proxy.ask("HEAD", "/a", ""));
    let (fetched, hit) = (proxy.get("/a", ""), proxy.get("/a", ""));
    let status = "loadline; fwd=miss";
    assert_eq!(passed.field("Cache-Status"), Some(status), "{}", passed.head);
    for told in [&plain, &passed, &fetched, &hit] {
        for name in ["Strict-Transport-Security", "Alt-Svc", "Server"] {
            assert_eq!(told.field(name), None, "{}", told.head);
        }
        assert!(!told.head.contains("elsewhere"), "{}", told.head);
        assert_eq!(told.field("Content-Length"), Some("5"), "{}", told.head);
    }
    for told in [plain, fetched, hit] {
        assert_eq!(told.text(), "hello");
    }
}

#[test]
fn a_head_is_answered_with_what_is_stale_where_a_bucket_fails() {
    for fails in ["500 No\r\n", "502 No\r\n", "504 No\r\n"] {
        let bucket = Scripted::new(move |head| match head.starts_with("HEAD ") {
            true => response(fails, ""),
            false => response("200 OK\r\nCache-Control: max-age=0, stale-if-error=60\r\n", "hello"),
        });
        let proxy = bucket.proxy(cached);
        assert_eq!(proxy.get("/a", "").text(), "hello");
        let told = proxy.ask("HEAD", "/a", "");
        assert_eq!((told.status(), told.field("Content-Length")), (200, Some("5")), "{fails}");
        let asked = bucket.asked();
        assert!(asked[1..].iter().all(|head| head.starts_with("HEAD ")), "{asked:?}");
        proxy.expect(Ending::Cached, 1);
    }
}

#[test]
fn a_get_with_a_body_for_a_bucket_is_refused_however_it_comes() {
    let bucket = Scripted::new(|_| response("200 OK\r\n", "hello"));
    let proxy = bucket.proxy(|_| {});
    let head = "GET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 4\r\n\r\n";
    let mut later = proxy.send(head.as_bytes());
    proxy.expect(Ending::Complete, 1);
    later.write_all(b"body").expect("the rest is taken");
    let at_once = proxy.send(format!("{head}body").as_bytes());
    for stream in [later, at_once] {
        assert_eq!(Response::read(stream).status(), 400);
    }
    assert!(bucket.asked().is_empty(), "{:?}", bucket.asked());
}

#[test]
fn a_client_that_has_a_compressed_object_of_a_bucket_is_told_so() {
    // A store that compares the whole field, and for which a date comes before a tag.
    let bucket = Scripted::new(|head| {
        let has = |line: &str| head.contains(line) && !head.contains("If-Modified-Since");
        let tagged = "ETag: \"a\"\r\nContent-Type: text/plain\r\n";
        match has("If-None-Match: \"a\"\r\n") {
            true => format!("HTTP/1.1 304 No\r\n{tagged}Connection: close\r\n\r\n"),
            false => response(&format!("200 OK\r\n{tagged}"), &"hello".repeat(1_000)),
        }
    });
    let proxy = bucket.proxy(|fleet| fleet.services[0].compression = Some(Compression::default()));
    let whole = proxy.get("/a", "Accept-Encoding: gzip\r\n");
    assert_eq!(whole.field("ETag"), Some("W/\"a\""), "{}", whole.head);
    let has = "Accept-Encoding: gzip\r\nIf-None-Match: W/\"a\"\r\n\
               If-Modified-Since: Tue, 24 Nov 2020 11:00:00 GMT\r\n";
    let again = proxy.get("/a", has);
    assert_eq!((again.status(), again.field("ETag")), (304, Some("W/\"a\"")), "{}", again.head);
}

#[test]
fn conditions_that_stores_read_differently_are_judged_by_the_object_of_the_bucket() {
    let bucket = Scripted::new(|_| {
        let modified = "Last-Modified: Tue, 24 Nov 2020 11:00:00 GMT\r\n";
        response(&format!("200 OK\r\nETag: \"a\"\r\n{modified}"), "hello")
    });
    let proxy = bucket.proxy(|_| {});
    for (line, status) in [
        ("If-None-Match: W/\"a\"", 304),
        ("If-None-Match: \"x\", \"a\"", 304),
        ("If-None-Match: *", 304),
        ("If-None-Match: \"x\", \"y\"", 200),
        ("If-Match: *", 200),
        ("If-Match: \"x\", \"y\"", 412),
        ("If-Modified-Since: junk", 200),
        ("If-Unmodified-Since: Sunday, 06-Nov-94 08:49:37 GMT", 412),
    ] {
        let told = proxy.get("/a", &format!("{line}\r\n"));
        assert_eq!(told.status(), status, "{line}: {}", told.head);
        let shown = (told.field("ETag"), told.field("Content-Length"), &*told.text());
        match status {
            304 => assert_eq!(shown, (Some("\"a\""), None, ""), "{line}"),
            200 => assert_eq!(shown, (Some("\"a\""), Some("5"), "hello"), "{line}"),
            _ => assert!(!told.text().contains("hello"), "{line}"),
        }
    }
    let asked = bucket.asked();
    assert!(asked.iter().all(|head| !head.contains("If-")), "{asked:?}");
}

#[test]
fn an_object_without_a_date_is_not_unmodified_since_any() {
    let bucket = Scripted::new(|_| {
        let date = "Date: Tue, 24 Nov 2020 11:00:00 GMT\r\n";
        response(&format!("200 OK\r\nETag: \"a\"\r\n{date}"), "hello")
    });
    let proxy = bucket.proxy(|_| {});
    let since = "If-Modified-Since: Tue, 24 Nov 2026 11:00:00 GMT\r\n";
    let told = proxy.get("/a", since);
    assert_eq!((told.status(), &*told.text()), (200, "hello"), "{}", told.head);
    assert_eq!(proxy.get("/a", &format!("{since}If-None-Match: *\r\n")).status(), 304);
}

#[test]
fn a_condition_on_an_object_that_has_come_whole_costs_no_connection_to_the_bucket() {
    let bucket =
        Scripted::new(|_| "HTTP/1.1 200 OK\r\nETag: \"a\"\r\nContent-Length: 0\r\n\r\n".to_owned());
    let proxy = bucket.proxy(|_| {});
    for method in ["GET", "HEAD"] {
        for (line, status) in [("If-None-Match: *", 304), ("If-Match: \"x\", \"y\"", 412)] {
            let told = proxy.ask(method, "/a", &format!("{line}\r\n"));
            assert_eq!(told.status(), status, "{method} {line}: {}", told.head);
        }
    }
    assert_eq!(bucket.connections.load(Relaxed), 1);
}

#[test]
fn a_path_that_no_object_can_have_gets_the_error_page_of_the_bucket() {
    let bucket = Scripted::new(|_| response("200 OK\r\nContent-Type: text/html\r\n", "<p>gone"));
    let proxy = bucket.proxy(|_| {});
    let too_long = format!("/{}", "x".repeat(1_025));
    for target in ["/a/%2e%2e/b", "/%2E/a", "/a%00", "/%e9", &too_long] {
        let told = proxy.get(target, "");
        assert_eq!((told.status(), &*told.text()), (404, "<p>gone"), "{target}");
        assert_eq!(told.field("Content-Type"), Some("text/html"), "{}", told.head);
    }
    let head = proxy.ask("HEAD", "/a%00", "");
    assert_eq!((head.status(), head.field("Content-Length"), head.body.len()), (404, Some("7"), 0));
    let asked = bucket.asked();
    assert!(asked.len() == 1 && asked[0].starts_with("GET /bucket/404.html "), "{asked:?}");
}

#[test]
fn a_request_that_a_bucket_refuses_without_a_word_is_no_fault_of_the_bucket() {
    for region in ["", "x-amz-bucket-region: here\r\n", "x-amz-bucket-region: there\r\n"] {
        let bucket = Scripted::new(move |_| response(&format!("400 No\r\n{region}"), ""));
        let proxy = bucket.proxy(|_| {});
        for (method, target) in [("HEAD", "/a"), ("GET", "/b")].repeat(5) {
            let told = proxy.ask(method, target, "");
            assert_eq!(told.status(), 400, "{method} {region}: {}", told.head);
        }
        proxy.expect(Ending::Complete, 10);
    }
    let code = "x-minio-error-code: XMinioInvalidObjectName\r\n";
    let bucket = Scripted::new(move |_| response(&format!("400 No\r\n{code}"), ""));
    assert_eq!(bucket.proxy(|_| {}).ask("HEAD", "/a", "").status(), 404);
}

#[test]
fn a_bucket_that_answers_503_and_does_not_ask_for_less_has_failed() {
    for (lines, body) in [
        ("", ""),
        ("Content-Type: text/html\r\n", "<html>no healthy upstream</html>"),
        ("", "<Error><Code>ServiceUnavailable</Code></Error>"),
        ("x-minio-error-code: XMinioServerNotInitialized\r\n", ""),
    ] {
        let failing = Scripted::new(move |_| response(&format!("503 No\r\n{lines}"), body));
        let proxy = failing.proxy(|_| {});
        let told = proxy.get("/a", "");
        assert_eq!((told.status(), told.field("Retry-After")), (503, None), "{lines}{body}");
        proxy.expect(Ending::Complete, 1);
        let other = Scripted::new(|_| response("200 OK\r\n", "found"));
        let proxy = failing.proxy(|fleet| {
            let far = Group::within("there", vec![other.server()]);
            let far = Group { rtt: Some(Duration::from_millis(1)), ..far };
            fleet.services[0].retry.on_5xx = true;
            fleet.services[0].groups.push(far);
        });
        let told = proxy.get("/a", "");
        assert_eq!((told.status(), &*told.text()), (200, "found"), "{lines}{body}");
        assert_eq!(failing.asked().len(), 2, "{lines}{body}");
    }
}

#[test]
fn a_503_to_a_head_may_be_of_a_bucket_that_asks_for_less() {
    let bucket = Scripted::new(|_| response("503 No\r\n", ""));
    let proxy = bucket.proxy(|_| {});
    let told = proxy.ask("HEAD", "/a", "");
    assert!(told.status() == 503 && told.field("Retry-After").is_some(), "{}", told.head);
    proxy.expect(Ending::Throttled, 1);
}

/// Of an object that was changed since.
const CHANGED: &str = "ETag: \"new\"\r\nLast-Modified: Tue, 24 Nov 2020 11:00:00 GMT\r\n";

/// A bucket that does not know `If-Range`, as some stores do not: of an object with these bytes it
/// gives the last two, or nothing where the range is behind its end.
fn knows_no_if_range() -> Scripted {
    Scripted::new(|head| match head.split("Range: bytes=").nth(1) {
        None => response(&format!("200 OK\r\n{CHANGED}"), "all of it"),
        Some(range) if range.starts_with("7-") => {
            response(&format!("206 Part\r\n{CHANGED}Content-Range: bytes 7-8/9\r\n"), "it")
        }
        Some(_) => response("416 No\r\nContent-Range: bytes */9\r\n", "<Error></Error>"),
    })
}

#[test]
fn a_download_from_a_bucket_that_goes_on_after_a_change_gets_the_whole() {
    for (range, validator) in [
        ("7-", "\"old\""),
        ("7-", "W/\"new\""),
        ("7-", "Tue, 24 Nov 2020 10:00:00 GMT"),
        ("900-", "\"old\""),
    ] {
        let bucket = knows_no_if_range();
        let lines = format!("Range: bytes={range}\r\nIf-Range: {validator}\r\n");
        let told = bucket.proxy(|_| {}).get("/a", &lines);
        assert_eq!((told.status(), &*told.text()), (200, "all of it"), "{lines}{}", told.head);
        assert_eq!(told.field("Content-Range"), None, "{}", told.head);
        let asked = bucket.asked();
        assert_eq!(asked.len(), 2, "{asked:?}");
        assert!(!asked[1].contains("Range"), "{asked:?}");
    }
}

#[test]
fn a_download_from_a_bucket_that_goes_on_without_a_change_gets_the_rest() {
    for validator in ["\"new\"", "Tue, 24 Nov 2020 11:00:00 GMT"] {
        let bucket = knows_no_if_range();
        let lines = format!("Range: bytes=7-\r\nIf-Range: {validator}\r\n");
        let told = bucket.proxy(|_| {}).get("/a", &lines);
        assert_eq!((told.status(), &*told.text()), (206, "it"), "{}", told.head);
        assert_eq!(told.field("Content-Range"), Some("bytes 7-8/9"), "{}", told.head);
        assert_eq!(bucket.asked().len(), 1);
    }
}

#[test]
fn conditions_come_before_a_range_beyond_the_end_of_an_object_of_a_bucket() {
    for (lines, status) in [
        ("If-None-Match: W/\"new\"\r\n", 304),
        ("If-None-Match: \"x\", \"new\"\r\n", 304),
        ("If-None-Match: *\r\n", 304),
        ("If-Match: \"x\", \"y\"\r\n", 412),
        ("If-Match: *\r\n", 416),
        ("If-None-Match: \"x\", \"y\"\r\n", 416),
    ] {
        let bucket = knows_no_if_range();
        let told = bucket.proxy(|_| {}).get("/a", &format!("Range: bytes=900-\r\n{lines}"));
        assert_eq!(told.status(), status, "{lines}: {}", told.head);
        let range = (status == 416).then_some("bytes */9");
        assert_eq!(told.field("Content-Range"), range, "{lines}: {}", told.head);
        assert!(!told.text().contains("all of it"), "{lines}");
        let asked = bucket.asked();
        assert_eq!(asked.len(), 2, "{asked:?}");
        assert!(!asked[1].contains("Range"), "{asked:?}");
    }
    // A condition that the bucket was told it has judged.
    let bucket = knows_no_if_range();
    let lines = "Range: bytes=900-\r\nIf-Match: \"new\"\r\n";
    assert_eq!(bucket.proxy(|_| {}).get("/a", lines).status(), 416);
    assert_eq!(bucket.asked().len(), 1);
}

#[test]
fn a_bucket_that_gives_a_part_to_who_asks_for_all_is_at_fault() {
    let part = "206 Part\r\nETag: \"new\"\r\nContent-Range: bytes 7-8/9\r\n";
    let bucket = Scripted::new(move |_| response(part, "it"));
    let void = "Range: bytes=7-\r\nIf-Range: \"old\"\r\n";
    for lines in [void, "", "Range: bytes=0-1,5-6\r\n"] {
        for told in [bucket.proxy(|_| {}).get("/a", lines), bucket.proxy(cached).get("/a", lines)] {
            assert_eq!(told.status(), 502, "{lines:?}: {}", told.head);
        }
    }
}

#[test]
fn a_response_in_the_place_of_a_buckets_has_what_a_route_sets_in_its_answers() {
    let bucket = Scripted::new(|_| response("404 No\r\n", "<Error></Error>"));
    for caches in [false, true] {
        let proxy = bucket.proxy(|fleet| {
            cached(fleet);
            let mut rule = fleet.listeners[0].routes.rules()[0].1.clone();
            rule.cache = rule.cache.filter(|_| caches);
            rule.answer.set.push(("X-Robots-Tag".into(), Template::literal("noindex")));
            rule.answer.remove.push("Content-Type".into());
            fleet.listeners[0].routes = Routes::new(vec![rule]);
        });
        let told = proxy.get("/a", "");
        assert_eq!(told.status(), 404, "{}", told.head);
        assert_eq!(told.field("X-Robots-Tag"), Some("noindex"), "{}", told.head);
        assert_eq!(told.field("Content-Type"), None, "{}", told.head);
        assert_eq!(told.field("Content-Length"), Some(&*told.body.len().to_string()));
    }
}
