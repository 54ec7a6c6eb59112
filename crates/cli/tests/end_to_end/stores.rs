//! Buckets in the place of servers: a real store that checks signatures (versitygw), and one that
//! says whatever a store can say.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    sync::{Arc, Barrier, Mutex},
    thread,
    time::{Duration, Instant, SystemTime},
};

use crate::{
    ports::reserved,
    process::{Process, file, loadline, run},
    tls_servers::{authority, certificate},
};

pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// `versitygw` over a directory, whose directories are buckets.
struct Gateway {
    process: Child,
    port: u16,
    root: tempfile::TempDir,
}

impl Gateway {
    fn start() -> Self {
        Self::with(&[])
    }

    /// One with these arguments besides.
    fn with(args: &[&str]) -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("site")).unwrap();
        let port = reserved().port();
        let place = format!("127.0.0.1:{port}");
        let mut command = Command::new("versitygw");
        command
            .args(args)
            .args(["--port", &place, "--access", "key", "--secret", "secret", "--quiet"]);
        command.args(["--region", "eu-west-1", "--keep-alive", "posix", "--nometa"]);
        command.arg("--default-etag").arg("\"etag\"").arg(root.path());
        let process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let process =
            process.unwrap_or_else(|error| panic!("versitygw: {error}; `make test` installs it"));
        let gateway = Self { process, port, root };
        let start = Instant::now();
        while TcpStream::connect(&place).is_err() {
            assert!(start.elapsed() < PATIENCE, "versitygw listens");
            thread::yield_now();
        }
        gateway
    }

    fn put(&self, name: &str, bytes: &[u8]) {
        let path = self.root.path().join("site").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A store that answers each request as `answer` says, and remembers their heads.
pub(crate) struct Scripted {
    pub(crate) port: u16,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Scripted {
    pub(crate) fn new(answer: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let heads = Arc::new(Mutex::new(Vec::new()));
        let (answer, told) = (Arc::new(answer), heads.clone());
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (mut stream, answer, told) = (stream.unwrap(), answer.clone(), told.clone());
                thread::spawn(move || {
                    while let Some(head) = head(&mut stream) {
                        let response = answer(&head);
                        told.lock().unwrap().push(head);
                        stream.write_all(response.as_bytes()).unwrap();
                    }
                });
            }
        });
        Self { port, heads }
    }

    /// A store that says this with a body in XML to every request.
    fn saying(status: &'static str, code: &'static str) -> Self {
        Self::new(move |head| error(head, status, code, ""))
    }

    pub(crate) fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

fn head(stream: &mut TcpStream) -> Option<String> {
    let (mut bytes, mut byte) = (Vec::new(), [0]);
    while !bytes.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).ok()? == 0 {
            return None;
        }
        bytes.push(byte[0]);
    }
    String::from_utf8(bytes).ok()
}

pub(crate) fn error(head: &str, status: &str, code: &str, more: &str) -> String {
    let body = format!(
        "<?xml version=\"1.0\"?>\n<Error><Code>{code}</Code>\
         <BucketName>internal-bucket</BucketName>{more}</Error>"
    );
    let length = body.len();
    let body = if head.starts_with("HEAD") { "" } else { &body };
    format!(
        "HTTP/1.1 {status}\r\nx-amz-request-id: internal-id\r\nServer: AmazonS3\r\n\
         Content-Type: application/xml\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}

pub(crate) fn object(head: &str, text: &str) -> String {
    let body = if head.starts_with("HEAD") { "" } else { text };
    format!(
        "HTTP/1.1 200 OK\r\nx-amz-id-2: internal-id\r\nServer: AmazonS3\r\nETag: \"a\"\r\n\
         Content-Length: {}\r\n\r\n{body}",
        text.len()
    )
}

/// A proxy before a bucket of the store at this port.
fn proxy(port: u16, keys: &str, environment: &[(&str, &str)]) -> Process {
    started("", &bucket(port, keys), environment)
}

/// The same with a cache, for a store that anybody may ask.
fn caching(port: u16) -> Process {
    started(CACHED, &bucket(port, "credentials = \"anonymous\""), &[])
}

fn bucket(port: u16, keys: &str) -> String {
    format!("{{ url = \"s3://site\", endpoint = \"http://127.0.0.1:{port}\", {keys} }}")
}

const CACHED: &str = "routes = [{ path = \"/\", service = \"site\", cache = {} }]\n";

pub(crate) fn started(routes: &str, store: &str, environment: &[(&str, &str)]) -> Process {
    let text = format!(
        "[[listener]]\nbind = \"127.0.0.1:0\"\nservice = \"site\"\n{routes}\
         [[service.site.group]]\nstore = {store}\n"
    );
    let mut command = loadline(&["serve", file("store.toml", &text).to_str().unwrap()]);
    for name in ["AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_ROLE_ARN", "AZURE_STORAGE_SAS_TOKEN"] {
        command.env_remove(name);
    }
    command.env("AWS_EC2_METADATA_DISABLED", "true").env("HOME", "/nonexistent");
    command.envs(environment.iter().copied());
    Process::of_command(command)
}

const KEYS: &[(&str, &str)] = &[("AWS_ACCESS_KEY_ID", "key"), ("AWS_SECRET_ACCESS_KEY", "secret")];

/// What curl gets: the head and the body together.
pub(crate) fn curl(proxy: &Process, path: &str, args: &[&str]) -> String {
    let url = proxy.url(path);
    let output = run("curl", &[&["-sS", "-i", "--path-as-is", &url], args].concat());
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) fn status(response: &str) -> u16 {
    response.get(9..12).and_then(|text| text.parse().ok()).unwrap_or(0)
}

pub(crate) fn body(response: &str) -> &str {
    response.split_once("\r\n\r\n").map_or("", |(_, body)| body)
}

pub(crate) fn leaks(response: &str) -> bool {
    ["internal", "x-amz", "AmazonS3", "<Error>", "VERSITYGW"].iter().any(|it| response.contains(it))
}

#[test]
fn a_private_bucket_of_a_real_store_is_served_with_its_own_conditions_and_ranges() {
    let gateway = Gateway::start();
    let names = ["a b+c.txt", "50%25", "\u{fc}ber/\u{20ac}", "q'(1)!*@,;=:&$", "dots..", "~x_-."];
    gateway.put("index.html", b"home");
    gateway.put("digits", b"0123456789");
    names.iter().for_each(|name| gateway.put(name, name.as_bytes()));
    let proxy = proxy(gateway.port, "region = \"eu-west-1\"", KEYS);

    let home = curl(&proxy, "/", &[]);
    assert_eq!((status(&home), body(&home)), (200, "home"), "{home}");
    assert!(!leaks(&home), "{home}");
    for name in names {
        let path: String = name.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let response = curl(&proxy, &format!("/{}", path.replace("%2F", "/")), &[]);
        assert_eq!((status(&response), body(&response)), (200, name), "{response}");
    }
    let part = curl(&proxy, "/digits", &["-r", "2-4"]);
    assert_eq!((status(&part), body(&part)), (206, "234"), "{part}");
    let beyond = curl(&proxy, "/digits", &["-r", "20-"]);
    assert_eq!((status(&beyond), leaks(&beyond)), (416, false), "{beyond}");
    let head = curl(&proxy, "/digits", &["-I"]);
    assert!(status(&head) == 200 && head.contains("Content-Length: 10"), "{head}");
    let same = curl(&proxy, "/digits", &["-H", "If-None-Match: \"etag\""]);
    assert_eq!((status(&same), body(&same)), (304, ""), "{same}");
    let missing = curl(&proxy, "/missing", &[]);
    assert_eq!((status(&missing), body(&missing)), (404, "Not Found\n"), "{missing}");
    assert_eq!(status(&curl(&proxy, "/../site/digits", &[])), 404);
    let put = curl(&proxy, "/digits", &["-X", "PUT", "-d", "x"]);
    assert!(status(&put) == 405 && put.contains("Allow: GET, HEAD"), "{put}");

    let ended = proxy.terminate();
    assert!(!ended.log.contains("secret"), "{}", ended.log);
    assert_eq!(ended.endings().get("store-refused"), None, "{}", ended.log);
}

#[test]
fn a_store_by_https_proves_the_name_of_its_endpoint() {
    let (authority, ca) = authority("authority");
    let pem = certificate(&authority, "localhost");
    let gateway = Gateway::with(&["--cert", &pem, "--key", &pem]);
    gateway.put("a", b"a");
    let environment = [KEYS, &[("SSL_CERT_FILE", &*ca)]].concat();
    for (host, told) in [("localhost", 200), ("127.0.0.1", 502)] {
        let store = format!(
            "{{ url = \"s3://site\", endpoint = \"https://{host}:{}\", region = \"eu-west-1\" }}",
            gateway.port
        );
        let proxy = started("", &store, &environment);
        for _ in 0..2 {
            let response = curl(&proxy, "/a", &[]);
            assert_eq!(status(&response), told, "{host}: {response}");
        }
    }
}

#[test]
fn wrong_credentials_are_a_502_that_the_log_explains() {
    let gateway = Gateway::start();
    gateway.put("a", b"a");
    for (environment, reason) in [
        (
            &[("AWS_ACCESS_KEY_ID", "key"), ("AWS_SECRET_ACCESS_KEY", "wrong")][..],
            "SignatureDoesNotMatch",
        ),
        (
            &[("AWS_ACCESS_KEY_ID", "nobody"), ("AWS_SECRET_ACCESS_KEY", "secret")][..],
            "the store refuses the request",
        ),
        (&[][..], "no credentials for the store"),
    ] {
        let proxy = proxy(gateway.port, "region = \"eu-west-1\"", environment);
        let response = curl(&proxy, "/a", &[]);
        assert_eq!((status(&response), leaks(&response)), (502, false), "{reason}: {response}");
        let ended = proxy.terminate();
        assert!(ended.log.contains(reason), "{reason}: {}", ended.log);
    }
}

#[test]
fn a_region_that_the_store_names_is_learnt() {
    let gateway = Gateway::start();
    gateway.put("a", b"a");
    let proxy = proxy(gateway.port, "region = \"us-east-1\"", KEYS);
    let response = curl(&proxy, "/a", &[]);
    assert_eq!((status(&response), body(&response)), (200, "a"), "{response}");

    let malformed = "400 Bad Request";
    let store = Scripted::new(move |head| match head.contains("/eu-central-1/s3/") {
        true => object(head, "found"),
        false => {
            error(head, malformed, "AuthorizationHeaderMalformed", "<Region>eu-central-1</Region>")
        }
    });
    let proxy = self::proxy(store.port, "region = \"us-east-1\"", KEYS);
    for _ in 0..2 {
        assert_eq!(body(&curl(&proxy, "/a", &[])), "found");
    }
    assert_eq!(store.heads().len(), 3, "it is learnt once");
}

#[test]
fn requests_that_are_on_their_way_when_a_region_is_learnt_are_signed_for_it_too() {
    let both = Barrier::new(2);
    let store = Scripted::new(move |head| {
        if head.contains("/eu-central-1/s3/") {
            return object(head, "found");
        }
        both.wait();
        let region = "<Region>eu-central-1</Region>";
        error(head, "400 Bad Request", "AuthorizationHeaderMalformed", region)
    });
    let proxy = proxy(store.port, "region = \"us-east-1\"", KEYS);
    thread::scope(|scope| {
        for client in [(); 2].map(|()| scope.spawn(|| curl(&proxy, "/a", &[]))) {
            assert_eq!(body(&client.join().unwrap()), "found");
        }
    });
}

#[test]
fn a_cache_keeps_of_an_object_what_clients_may_see() {
    let store = Scripted::new(|head| {
        let private = "x-amz-id-2: internal-id\r\nServer: AmazonS3\r\n";
        let (age, is_known) = (if head.contains("/stale") { 0 } else { 60 }, "if-none-match:");
        let tags = format!("ETag: \"a\"\r\nCache-Control: max-age={age}\r\n{private}");
        match head.to_ascii_lowercase().contains(is_known) {
            true => format!("HTTP/1.1 304 Not Modified\r\n{tags}\r\n"),
            false => format!("HTTP/1.1 200 OK\r\n{tags}Content-Length: 4\r\n\r\ntext"),
        }
    });
    let proxy = caching(store.port);
    for (path, states) in [("/fresh", ["fwd=", "hit"]), ("/stale", ["fwd=", "fwd=stale"])] {
        for state in states {
            let response = curl(&proxy, path, &[]);
            assert_eq!((status(&response), body(&response)), (200, "text"), "{response}");
            assert!(!leaks(&response) && response.contains("ETag: \"a\""), "{response}");
            let told = format!("Cache-Status: loadline; {state}");
            assert!(response.contains(&told), "{told}: {response}");
        }
    }
    let heads = store.heads();
    assert_eq!(heads.len(), 3, "{heads:?}");
    assert!(heads[2].contains("If-None-Match: \"a\""), "{heads:?}");
}

#[test]
fn a_fetch_of_a_cache_fails_as_a_request_does() {
    for (said, code, told) in [
        ("404 Not Found", "NoSuchKey", 404),
        ("403 Forbidden", "AccessDenied", 404),
        ("404 Not Found", "NoSuchBucket", 502),
        ("500 Internal Server Error", "InternalError", 500),
        ("503 Slow Down", "SlowDown", 503),
        ("503 Service Unavailable", "ServiceUnavailable", 503),
    ] {
        let store = Scripted::saying(said, code);
        let proxy = caching(store.port);
        for _ in 0..2 {
            let response = curl(&proxy, "/a", &[]);
            assert_eq!((status(&response), leaks(&response)), (told, false), "{code}: {response}");
            assert!(!body(&response).is_empty(), "{code}: {response}");
        }
    }
}

#[test]
fn a_cache_keeps_files() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("large");
    let bytes = "0123456789".repeat(100_000);
    fs::write(&path, &bytes).unwrap();
    let long_ago = SystemTime::now() - Duration::from_secs(1_000_000);
    fs::File::options().write(true).open(&path).unwrap().set_modified(long_ago).unwrap();
    let proxy = started(CACHED, &format!("\"file://{}\"", root.path().display()), &[]);
    for state in ["fwd=", "hit"] {
        let response = curl(&proxy, "/large", &[]);
        assert!(body(&response) == bytes && response.contains(state), "{state}");
    }
    assert_eq!(status(&curl(&proxy, "/missing", &[])), 404);
}

#[test]
fn what_a_store_says_is_no_object_becomes_a_response_of_our_own() {
    for (said, code, told, ending) in [
        ("404 Not Found", "NoSuchKey", 404, "complete"),
        ("403 Forbidden", "AccessDenied", 404, "complete"),
        ("412 Precondition Failed", "PreconditionFailed", 412, "complete"),
        ("500 Internal Server Error", "InternalError", 500, "complete"),
        ("404 Not Found", "NoSuchBucket", 502, "store-refused"),
        ("403 Forbidden", "RequestTimeTooSkewed", 502, "store-refused"),
        ("301 Moved Permanently", "PermanentRedirect", 502, "store-refused"),
        ("400 Bad Request", "XMinioInvalidObjectName", 404, "complete"),
        ("400 Bad Request", "SomethingNew", 400, "complete"),
        ("503 Slow Down", "SlowDown", 503, "throttled"),
        ("503 Service Unavailable", "XMinioServerNotInitialized", 503, "complete"),
    ] {
        let store = Scripted::saying(said, code);
        let proxy = proxy(store.port, "credentials = \"anonymous\"", &[]);
        let response = curl(&proxy, "/a", &[]);
        assert_eq!((status(&response), leaks(&response)), (told, false), "{code}: {response}");
        let is_throttled = ending == "throttled";
        assert_eq!(response.contains("Retry-After: "), is_throttled, "{code}: {response}");
        let heads = store.heads();
        assert!(heads.iter().all(|head| !head.contains("uthorization")), "{heads:?}");
        let ended = proxy.terminate();
        assert_eq!(ended.endings().get(ending), Some(&1), "{code}: {}", ended.log);
    }
}

#[test]
fn the_page_of_a_bucket_for_what_is_not_there_is_told_with_its_404() {
    let store = Scripted::new(|head| match head.contains(" /site/errors/404.html ") {
        true => object(head, "<p>gone").replacen("\r\n", "\r\nContent-Type: text/html\r\n", 1),
        false => error(head, "404 Not Found", "NoSuchKey", ""),
    });
    let page = "error_page = \"/errors/404.html\", credentials = \"anonymous\"";
    for proxy in [proxy(store.port, page, &[]), started(CACHED, &bucket(store.port, page), &[])] {
        let before = store.heads().len();
        for fields in ["Accept: */*", "Range: bytes=0-1", "If-None-Match: \"a\""] {
            let response = curl(&proxy, "/missing", &["-H", fields]);
            assert_eq!((status(&response), body(&response)), (404, "<p>gone"), "{response}");
            assert!(response.contains("Content-Type: text/html\r\n"), "{response}");
            assert!(!leaks(&response) && !response.contains("ETag"), "{response}");
        }
        let head = curl(&proxy, "/missing", &["-I"]);
        assert_eq!((status(&head), body(&head)), (404, ""), "{head}");
        assert!(head.contains("Content-Length: 7\r\n"), "{head}");
        let asked = store.heads().split_off(before);
        let of_page = asked.iter().filter(|head| head.contains("404.html")).count();
        assert_eq!((asked.len(), of_page), (5, 1), "it is kept for a while: {asked:?}");
        assert!(!asked.iter().any(|head| head.contains("404.html") && head.contains("ange:")));
        let ended = proxy.terminate();
        assert_eq!(ended.endings().get("complete"), Some(&4), "{}", ended.log);
    }
}

#[test]
fn a_bucket_without_the_page_that_is_named_has_a_404_of_ours() {
    let gateway = Gateway::start();
    gateway.put("404.html", b"<p>gone");
    for (page, told) in [("/404.html", "<p>gone"), ("/none.html", "Not Found\n")] {
        let keys = format!("region = \"eu-west-1\", error_page = \"{page}\"");
        let proxy = proxy(gateway.port, &keys, KEYS);
        for _ in 0..2 {
            let response = curl(&proxy, "/missing", &[]);
            assert_eq!((status(&response), body(&response)), (404, told), "{response}");
        }
        assert_eq!(status(&curl(&proxy, "/404.html", &[])), 200, "it is an object as any other");
    }
}

/// A file with credentials.
fn shared(token: &str) -> String {
    format!(
        "[default]\naws_access_key_id = key\naws_secret_access_key = secret\n\
         aws_session_token = {token}\n"
    )
}

#[test]
fn an_expired_token_is_replaced_and_the_request_sent_once_more() {
    let credentials = file("credentials", &shared("old"));
    let path = credentials.display().to_string();
    let store = Scripted::new({
        let (path, fresh) = (path.clone(), shared("new"));
        move |head| match head.contains("x-amz-security-token: new") {
            true => object(head, "found"),
            false => {
                // Whoever keeps the file has just written it anew.
                fs::write(&path, &fresh).unwrap();
                error(head, "400 Bad Request", "ExpiredToken", "")
            }
        }
    });
    let proxy =
        proxy(store.port, "region = \"us-east-1\"", &[("AWS_SHARED_CREDENTIALS_FILE", &path)]);
    // What was read a moment ago is not read again: the old token fails until that is over.
    let start = Instant::now();
    let mut response = curl(&proxy, "/a", &[]);
    while status(&response) == 502 {
        assert!(start.elapsed() < PATIENCE, "{response}");
        response = curl(&proxy, "/a", &[]);
    }
    assert_eq!((status(&response), body(&response)), (200, "found"), "{response}");
    let ended = proxy.terminate();
    assert!(!ended.log.contains("secret\n") && !ended.log.contains("token: new"), "{}", ended.log);
}

#[test]
fn a_head_that_is_refused_without_a_word_is_sent_with_other_credentials_once_and_then_answered() {
    let path = file("credentials", &shared("first")).display().to_string();
    let store = Scripted::new({
        let (path, count) = (path.clone(), std::sync::atomic::AtomicUsize::new(0));
        move |_| {
            // Whoever keeps the file writes it anew all the time.
            let number = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            fs::write(&path, shared(&number.to_string())).unwrap();
            "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n".to_owned()
        }
    });
    let proxy =
        proxy(store.port, "region = \"us-east-1\"", &[("AWS_SHARED_CREDENTIALS_FILE", &path)]);
    // What was read a moment ago is not read again.
    let start = Instant::now();
    loop {
        let before = store.heads().len();
        let response = curl(&proxy, "/a", &["-I"]);
        assert_eq!(status(&response), 400, "{response}");
        let asked = store.heads().split_off(before);
        let heads = asked.iter().filter(|head| head.starts_with("HEAD ")).count();
        if heads > 1 {
            // Why is asked once in ten seconds.
            assert!(heads == 2 && asked.len() <= 3, "{asked:?}");
            break;
        }
        assert!(start.elapsed() < PATIENCE, "{response}");
    }
    let ended = proxy.terminate();
    assert_eq!(ended.endings().get("store-refused"), None, "{}", ended.log);
}

#[test]
fn a_head_with_an_expired_token_is_a_502_that_the_log_explains_until_there_is_another_token() {
    let path = file("credentials", &shared("old")).display().to_string();
    let store = Scripted::new(|head| match head.contains("x-amz-security-token: new") {
        true => object(head, "found"),
        false => error(head, "400 Bad Request", "ExpiredToken", ""),
    });
    let proxy =
        proxy(store.port, "region = \"us-east-1\"", &[("AWS_SHARED_CREDENTIALS_FILE", &path)]);
    for _ in 0..3 {
        let response = curl(&proxy, "/a", &["-I"]);
        assert_eq!(status(&response), 502, "{response}");
    }
    let asked = store.heads();
    let of_first_byte = |head: &&String| {
        head.starts_with("GET /site/a HTTP/1.1\r\n") && head.contains("Range: bytes=0-0\r\n")
    };
    assert_eq!((asked.len(), asked.iter().filter(of_first_byte).count()), (6, 3), "{asked:?}");
    fs::write(&path, shared("new")).unwrap();
    // What was read a moment ago is not read again: the old token fails until that is over.
    let start = Instant::now();
    let mut response = curl(&proxy, "/a", &["-I"]);
    while status(&response) == 502 {
        assert!(start.elapsed() < PATIENCE, "{response}");
        response = curl(&proxy, "/a", &["-I"]);
    }
    assert_eq!(status(&response), 200, "{response}");
    let ended = proxy.terminate();
    assert!(ended.endings().get("store-refused") >= Some(&3), "{}", ended.log);
    // The first, and at the end the rest of the minute.
    let warns = |line: &&str| line.contains("WARN") && line.contains("ExpiredToken");
    assert_eq!(ended.log.lines().filter(warns).count(), 2, "{}", ended.log);
}

#[test]
fn a_head_that_is_refused_without_a_word_is_answered_by_what_a_get_is_told() {
    for (said, code, told, asked) in [
        // Keys may not be listed, so that this is what is missing.
        ("403 Forbidden", "AccessDenied", 404, 4),
        ("403 Forbidden", "InvalidAccessKeyId", 502, 6),
        ("403 Forbidden", "SignatureDoesNotMatch", 502, 6),
        // An object that is encrypted with a key of its reader.
        ("400 Bad Request", "InvalidRequest", 400, 4),
        // The store is well for who does not ask by HEAD.
        ("403 Forbidden", "", 404, 4),
    ] {
        let store = Scripted::new(move |head| match code {
            "" if head.starts_with("GET ") => object(head, "found"),
            _ => error(head, said, code, ""),
        });
        let proxy = proxy(store.port, "region = \"us-east-1\"", KEYS);
        for _ in 0..3 {
            let response = curl(&proxy, "/a", &["-I"]);
            assert_eq!((status(&response), leaks(&response)), (told, false), "{code}: {response}");
        }
        let heads = store.heads();
        assert_eq!(heads.len(), asked, "{code}: {heads:?}");
        assert!(heads[1].starts_with("GET /site/a HTTP/1.1\r\n"), "{heads:?}");
    }
}

#[test]
fn a_store_is_asked_without_what_is_the_clients_alone() {
    let store = Scripted::new(|head| object(head, "x"));
    let proxy = proxy(store.port, "credentials = \"anonymous\"", &[]);
    let args =
        ["-H", "Cookie: session=1", "-H", "Authorization: Bearer x", "-H", "Range: bytes=0-"];
    let response = curl(&proxy, "/a?token=1", &args);
    assert_eq!((status(&response), body(&response), leaks(&response)), (200, "x", false));
    let heads = store.heads();
    let [head] = &*heads else { panic!("one request: {heads:?}") };
    assert!(head.starts_with("GET /site/a HTTP/1.1\r\nHost: 127.0.0.1:"), "{head}");
    assert!(head.contains("Range: bytes=0-"), "{head}");
    for private in ["Cookie", "Bearer", "token=1", "X-Forwarded", "User-Agent"] {
        assert!(!head.contains(private), "{head}");
    }
}
