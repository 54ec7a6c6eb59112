//! A cache as people run it: what the commands tell of it and take out of it.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::process::{Process, file, loadline, run};

/// A server whose responses are fresh for a minute, with the first part of their path for a tag. It
/// says 304 to whoever has one.
fn server() -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, count) = (stream.unwrap(), count.clone());
            thread::spawn(move || serve(stream, &count));
        }
    });
    (address, asked)
}

fn serve(mut stream: TcpStream, count: &AtomicUsize) {
    while let Some(head) = head(&mut stream) {
        count.fetch_add(1, Relaxed);
        let tag = head.split('/').nth(1).unwrap_or_default();
        let fields = format!("Cache-Control: max-age=60\r\nETag: \"1\"\r\nCache-Tag: all, {tag}");
        let answer = match head.to_ascii_lowercase().contains("if-none-match:") {
            true => format!("HTTP/1.1 304 Not Modified\r\n{fields}\r\n\r\n"),
            false => format!("HTTP/1.1 200 OK\r\n{fields}\r\nContent-Length: 5\r\n\r\nhello"),
        };
        if stream.write_all(answer.as_bytes()).is_err() {
            return;
        }
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

struct Edge {
    process: Process,
    asked: Arc<AtomicUsize>,
    admin: PathBuf,
    token: PathBuf,
    config: PathBuf,
}

impl Edge {
    fn start() -> Self {
        let (server, asked) = server();
        let (token, admin) = (file("token", TOKEN), file("admin.sock", ""));
        fs::remove_file(&admin).unwrap();
        let config = format!(
            "[admin]\nbind = {admin:?}\ntoken_file = {token:?}\n[cache]\nmemory = \"8MiB\"\n\
             [[listener]]\nbind = \"127.0.0.1:0\"\nservice = \"web\"\n\
             routes = [{{ path = \"/\", service = \"web\", cache = {{}} }}]\n\
             [service.web]\n[[service.web.group]]\nservers = [\"{server}\"]\n"
        );
        let config = file("cached.toml", &config);
        let process = Process::start(&["serve", config.to_str().unwrap()]);
        Self { process, asked, admin, token, config }
    }

    /// What the cache says of a request for this path.
    fn get(&self, path: &str) -> String {
        let output = run("curl", &["-sSi", &self.process.url(path)]);
        let text = String::from_utf8(output.stdout).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("Cache-Status: loadline; "));
        line.unwrap_or_else(|| panic!("{text}")).to_owned()
    }

    /// Which of the paths are asked for at the server anew.
    fn fetched(&self) -> Vec<&'static str> {
        let hit = |path: &&str| !self.get(path).starts_with("hit");
        PATHS.into_iter().filter(hit).collect()
    }

    fn cache(&self, args: &[&str]) -> String {
        let admin = self.admin.to_str().unwrap();
        let output = loadline(&[&["cache"], args, &["--at", admin]].concat()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn purge(&self, args: &[&str]) -> String {
        let token = self.token.to_str().unwrap();
        self.cache(&[&["purge", "--token-file", token], args].concat())
    }

    /// Status and content of what the API says to a purge.
    fn api(&self, token: &str, body: &Value) -> (String, Value) {
        let (header, body) = (format!("Authorization: Bearer {token}"), body.to_string());
        let socket = self.admin.to_str().unwrap();
        let args = ["-sS", "-w", "\n%{http_code}", "--unix-socket", socket, "-H", &header];
        let json = ["-H", "Content-Type: application/json", "-d", &body];
        let url = ["http://localhost/api/cache/purge"];
        let text =
            String::from_utf8(run("curl", &[&args[..], &json, &url].concat()).stdout).unwrap();
        let (content, status) = text.rsplit_once('\n').unwrap();
        (status.to_owned(), serde_json::from_str(content).unwrap())
    }
}

#[test]
fn a_purge_by_command_takes_out_what_it_names_and_nothing_else() {
    let edge = Edge::start();
    assert_eq!(edge.fetched(), PATHS);
    assert_eq!(edge.fetched(), [""; 0]);
    let url = |path: &str| edge.process.url(path);
    for (args, told, fetched) in [
        (vec![url("/a/1")], "purged: 1, ", &["/a/1"][..]),
        (vec!["--prefix".into(), url("/a/")], "purged: 2, ", &["/a/1", "/a/2"]),
        (vec!["--tag".into(), "b".into()], "purged: 1, ", &["/b/1"]),
        (vec!["--tag".into(), "all".into()], "purged: 4, ", &PATHS),
        (vec![url("/nowhere")], "purged: 0, ", &[]),
        (vec!["--tag".into(), "a".into(), "--soft".into()], "marked stale: 2, ", &["/a/1", "/a/2"]),
    ] {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let said = edge.purge(&args);
        assert!(said.starts_with(told), "{args:?}: {said}");
        let before = edge.asked.load(Relaxed);
        assert_eq!(edge.fetched(), fetched, "{args:?}");
        assert_eq!(edge.asked.load(Relaxed) - before, fetched.len(), "{args:?}");
    }
    // What is marked stale is validated, and not sent once more.
    edge.purge(&["--prefix", &url("/b"), "--soft"]);
    assert!(edge.get("/b/1").contains("fwd=stale; fwd-status=304"));
}

#[test]
fn a_purge_by_the_api_needs_the_token_and_one_name() {
    let edge = Edge::start();
    edge.fetched();
    let refused = edge.api("wrong", &json!({ "tag": "all" }));
    assert_eq!(refused.0, "401", "{}", refused.1);
    for wrong in [json!({}), json!({ "tag": "a", "url": "b" }), json!({ "tag": "" })] {
        assert_eq!(edge.api(TOKEN, &wrong).0, "422", "{wrong}");
    }
    for no_url in [json!({ "url": "/b/1" }), json!({ "prefix": "localhost/b" })] {
        assert_eq!(edge.api(TOKEN, &no_url).0, "422", "{no_url}");
    }
    assert_eq!(edge.api(TOKEN, &json!({ "tag": "a", "color": 1 })).0, "422");
    assert_eq!(edge.fetched(), [""; 0], "nothing of that took anything out");
    let purge = json!({ "prefix": edge.process.url("/a/") });
    assert_eq!(edge.api(TOKEN, &purge), ("200".into(), json!({ "objects": 2, "fetches": 0 })));
    assert_eq!(edge.fetched(), ["/a/1", "/a/2"]);
    let soft = json!({ "url": edge.process.url("/b/1"), "soft": true });
    assert_eq!(edge.api(TOKEN, &soft).1["objects"], 1);
    assert!(edge.get("/b/1").contains("fwd-status=304"));
}

#[test]
fn commands_show_what_is_stored_how_it_is_used_and_that_a_reload_keeps_it() {
    let edge = Edge::start();
    edge.fetched();
    for _ in 0..3 {
        edge.get("/b/1");
    }
    // A client has its response before the request is counted.
    let (start, told) =
        (Instant::now(), "web: hit ratio 42.9 % of requests to routes with a cache");
    while !edge.cache(&["stats"]).contains(told) {
        assert!(start.elapsed() < Duration::from_secs(20), "{}", edge.cache(&["stats"]));
    }
    let top = edge.cache(&["top", "--limit", "1"]);
    assert!(top.contains("/b/1") && !top.contains("/a/1"), "{top}");
    let admin = edge.admin.to_str().unwrap();
    let shown = loadline(&["top", admin, "--once"]).output().unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("The cache answers 42.9 % of the requests"), "{shown}");
    assert!(shown.contains("cache: "), "{shown}");

    let smaller = fs::read_to_string(&edge.config).unwrap().replace("8MiB", "4MiB");
    fs::write(&edge.config, smaller).unwrap();
    edge.process.signal("HUP");
    let start = Instant::now();
    while !edge.cache(&["stats", "--json"]).contains("\"memory_bytes\": 4194304") {
        assert!(start.elapsed() < Duration::from_secs(20), "it is reloaded");
        thread::yield_now();
    }
    assert_eq!(edge.fetched(), [""; 0]);
}

const TOKEN: &str = "0123456789abcdef";
const PATHS: [&str; 4] = ["/a/1", "/a/2", "/b/1", "/c"];
