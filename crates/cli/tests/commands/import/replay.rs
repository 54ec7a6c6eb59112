//! The same requests to the original program and to `loadline serve` on what was imported: the same
//! servers answer, with the same path, host and headers, or the same status and redirect.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufReader, Read as _, Write as _},
    net::TcpStream,
    path::Path,
    time::Duration,
};

use rcgen::{CertifiedKey, generate_simple_self_signed};

use super::{examples, original, stand_in};

/// Requests for each configuration.
const REQUESTS: usize = 100;

#[derive(Clone, Debug)]
struct Request {
    method: String,
    host: String,
    path: String,
    header: Option<(String, String)>,
}

/// What of a response has to be the same.
#[derive(Debug, PartialEq, Eq)]
struct Response {
    status: String,
    location: Option<String>,
    /// What a server saw.
    body: Option<String>,
    /// Headers that the configuration sets.
    headers: Vec<(String, String)>,
}

#[test]
fn haproxy_and_the_imported_file_answer_alike() {
    all("haproxy");
}

#[test]
fn nginx_and_the_imported_file_answer_alike() {
    all("nginx");
}

fn all(folder: &str) {
    let mut differing = Vec::new();
    let mut replayed = 0;
    for path in examples(folder) {
        let text = fs::read_to_string(&path).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        // One without anything to try has no HTTP.
        if text.contains("# try ") {
            replayed += 1;
            differing.extend(one(folder, &text).into_iter().map(|it| format!("{name}: {it}")));
        }
    }
    assert!(replayed >= 9, "{replayed}");
    assert!(differing.is_empty(), "{} differ:\n{}", differing.len(), differing.join("\n"));
}

/// The differences of one configuration.
fn one(folder: &str, text: &str) -> Vec<String> {
    let directory = tempfile::tempdir().unwrap();
    let own = directory.path();
    site(&own.join("www"));
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(["example.com".to_owned()]).unwrap();
    fs::write(own.join("example.pem"), cert.pem() + &signing_key.serialize_pem()).unwrap();
    let mut stand_ins = BTreeMap::new();
    let text = text
        .replace("/etc/ssl/example.pem", own.join("example.pem").to_str().unwrap())
        .replace("/srv/www", own.join("www").to_str().unwrap());
    let text = with_servers(&text, &mut stand_ins);
    let (theirs, first) = with_listeners(&text);
    let (ours, second) = with_listeners(&text);
    let _original = original::start(folder, &theirs, own, &first);
    let _imported = original::serve_imported(folder, &ours, own, &second);
    let mut differing = Vec::new();
    for request in requests(&text) {
        let (one, other) = (send(&first, &request), send(&second, &request));
        if one != other {
            differing.push(format!("{request:?}\n  {folder}:  {one:?}\n  loadline: {other:?}"));
        }
    }
    differing
}

/// Files for what is served from a directory.
fn site(root: &Path) {
    fs::create_dir_all(root.join("img")).unwrap();
    fs::write(root.join("index.html"), "index").unwrap();
    fs::write(root.join("a.txt"), "text").unwrap();
    fs::write(root.join("img/logo.svg"), "<svg/>").unwrap();
}

/// Puts stand-ins where `192.0.2.N:PORT` stands: those of the same tens are one pool.
fn with_servers(text: &str, known: &mut BTreeMap<String, String>) -> String {
    let mut parts = text.split("192.0.2.");
    let mut made = parts.next().unwrap().to_owned();
    for part in parts {
        let end = part.find(|c: char| !(c.is_ascii_digit() || c == ':')).unwrap_or(part.len());
        let (address, rest) = part.split_at(end);
        let number: u32 = address.split(':').next().unwrap().parse().unwrap();
        let pool = format!("pool {}", number / 10);
        let there = known.entry(address.to_owned()).or_insert_with(|| stand_in::start(&pool));
        made += there;
        made += rest;
    }
    made
}

/// Puts free ports where `198.51.100.1:PORT` stands; also says where the first one is that speaks
/// HTTP without TLS.
fn with_listeners(text: &str) -> (String, String) {
    let mut parts = text.split("198.51.100.1:");
    let mut made = parts.next().unwrap().to_owned();
    let mut ports = BTreeMap::new();
    let mut first = None;
    for part in parts {
        let end = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
        let (port, rest) = part.split_at(end);
        let port = ports.entry(port.to_owned()).or_insert_with(original::free_port);
        let line = rest.lines().next().unwrap_or_default();
        let is_stats = rest.trim_start().starts_with("stats");
        if !line.contains("ssl") && !is_stats && first.is_none() {
            first = Some(*port);
        }
        // A range of ports is one.
        let rest = rest
            .strip_prefix('-')
            .map_or(rest, |it| it.trim_start_matches(|c: char| c.is_ascii_digit()));
        made += &format!("127.0.0.1:{port}{rest}");
    }
    (made, format!("127.0.0.1:{}", first.unwrap()))
}

/// Requests out of the lines `# try ...`: every combination, of which an even selection is taken.
fn requests(text: &str) -> Vec<Request> {
    let values = |what: &str| -> Vec<String> {
        let start = format!("# try {what} ");
        let line = text.lines().find_map(|line| line.strip_prefix(&start)).unwrap_or_default();
        line.split_whitespace().map(str::to_owned).collect()
    };
    let mut headers: Vec<Option<(String, String)>> = vec![None];
    headers.extend(values("header").iter().map(|it| {
        let (name, value) = it.split_once('=').unwrap();
        Some((name.to_owned(), value.to_owned()))
    }));
    let mut paths = values("path");
    // Near misses of each.
    paths.extend(values("path").iter().map(|path| format!("{}x", path.split('?').next().unwrap())));
    let mut all = Vec::new();
    for host in values("host") {
        for path in &paths {
            for method in values("method") {
                for header in &headers {
                    let (host, path) = (host.clone(), path.clone());
                    all.push(Request {
                        method: method.clone(),
                        host,
                        path,
                        header: header.clone(),
                    });
                }
            }
        }
    }
    let count = all.len();
    (0..REQUESTS).map(|index| all[index * count.max(REQUESTS) / REQUESTS % count].clone()).collect()
}

fn send(address: &str, request: &Request) -> Response {
    let Request { method, host, path, header } = request;
    let header =
        header.as_ref().map_or(String::new(), |(name, value)| format!("{name}: {value}\r\n"));
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let length = if method == "GET" || method == "HEAD" { "" } else { "Content-Length: 0\r\n" };
    let text = format!(
        "{method} {path} HTTP/1.1\r\nHost: {host}\r\n{header}{length}Connection: close\r\n\r\n"
    );
    stream.write_all(text.as_bytes()).unwrap();
    let mut reader = BufReader::new(stream);
    let Some((first, headers)) = stand_in::head(&mut reader) else {
        return Response {
            status: "closed".to_owned(),
            location: None,
            body: None,
            headers: Vec::new(),
        };
    };
    let mut body = String::new();
    let _ = reader.read_to_string(&mut body);
    let find = |name: &str| headers.iter().find(|it| it.0 == name).map(|it| it.1.clone());
    let status = first.split_whitespace().find(|it| it.len() == 3).unwrap_or_default().to_owned();
    // nginx closes the connection where its file says so; here the client gets that status.
    let status = if status == "444" { "closed".to_owned() } else { status };
    let is_ours = |name: &str| name.starts_with("x-");
    let mut own: Vec<_> = headers.iter().filter(|it| is_ours(&it.0)).cloned().collect();
    own.sort();
    let body = body
        .contains("pool ")
        .then(|| body.split('\n').map(str::trim).collect::<Vec<_>>().join("\n"));
    Response { status, location: find("location").map(|it| bare(&it)), body, headers: own }
}

/// Where a redirect leads, without the port of the listener, which is another one for each program.
fn bare(location: &str) -> String {
    let (scheme, rest) = location.split_once("://").unwrap_or(("", location));
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = host.split(':').next().unwrap();
    // A path alone is relative to what was asked for.
    if scheme.is_empty() { location.to_owned() } else { format!("{scheme}://{host}{path}") }
}
