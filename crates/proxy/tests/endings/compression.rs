//! Responses that are compressed on their way, as clients see them.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    process::Command,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
        mpsc::channel,
    },
};

use flate2::read::GzDecoder;
use loadline_core::{
    compress::Algorithm,
    decide::ending::Ending,
    fleet::{Compression, Fleet, Levels},
    state::ServiceCounter,
    units::Bytes,
};
use zstd_safe::{DCtx, InBuffer, OutBuffer};

use crate::support::{PATIENCE, Proxy, Scripted, fleet, head, wait_until};

/// Some lines of text that compress well, and are all different.
fn lines(count: usize) -> String {
    (0..count).map(|n| format!("<li class=\"item\">number {n} of many</li>\n")).collect()
}

/// A proxy that compresses by `algorithms` what `server` sends.
fn compressing(server: &Scripted, algorithms: &[Algorithm]) -> Proxy {
    Proxy::of(with(server, Compression { algorithms: algorithms.into(), ..Compression::default() }))
}

fn with(server: &Scripted, compression: Compression) -> Fleet {
    let mut fleet = fleet(&[server.address]);
    fleet.services[0].compression = Some(compression);
    fleet
}

fn gzipping(server: &Scripted) -> Proxy {
    compressing(server, &[Algorithm::Gzip])
}

/// A server that answers each request by its path.
fn by_path(answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> Scripted {
    Scripted::new(move |mut stream, _| {
        while let Some(seen) = head(&mut stream) {
            let path = seen.split(' ').nth(1).unwrap();
            stream.write_all(&answer(path)).unwrap();
            if path == "/until-close" {
                return;
            }
        }
    })
}

/// A response with these lines in its head, and a body of known length.
fn counted(fields: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: {length}\r\n\r\n{body}").into_bytes()
}

const HTML: &str = "Content-Type: text/html\r\n";

/// Head and body of the response to `request` on a connection that is closed after it.
fn ask(proxy: &Proxy, request: &str) -> (String, Vec<u8>) {
    let mut stream = proxy.connect();
    stream.write_all(request.replace('\n', "\r\n").as_bytes()).unwrap();
    rest(&mut stream)
}

fn rest(stream: &mut TcpStream) -> (String, Vec<u8>) {
    let head = head(stream).unwrap();
    let mut body = Vec::new();
    stream.read_to_end(&mut body).unwrap();
    (head, body)
}

/// A GET that accepts gzip, with these lines in its head.
fn get(proxy: &Proxy, lines: &str) -> (String, Vec<u8>) {
    let request = "GET / HTTP/1.1\nHost: x\nConnection: close\nAccept-Encoding: gzip\n";
    ask(proxy, &format!("{request}{lines}\n"))
}

fn gunzip(bytes: &[u8]) -> String {
    let mut text = String::new();
    GzDecoder::new(bytes).read_to_string(&mut text).unwrap();
    text
}

/// The payload of a body in chunks, which must be whole; and what follows the last one.
fn dechunked(mut bytes: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let mut payload = Vec::new();
    loop {
        let end = bytes.windows(2).position(|it| it == b"\r\n").expect("the line of a size");
        let size = usize::from_str_radix(std::str::from_utf8(&bytes[..end]).unwrap(), 16).unwrap();
        bytes = &bytes[end + 2..];
        if size == 0 {
            return (payload, bytes.to_vec());
        }
        payload.extend_from_slice(&bytes[..size]);
        assert_eq!(&bytes[size..size + 2], b"\r\n");
        bytes = &bytes[size + 2..];
    }
}

#[test]
fn curl_reads_what_each_algorithm_makes_of_bodies_of_every_framing() {
    let text = lines(20_000);
    let body = text.clone();
    let server = by_path(move |path| match path {
        "/counted" => counted(HTML, &body),
        "/chunked" => {
            let mut out = format!("HTTP/1.1 200 OK\r\n{HTML}Transfer-Encoding: chunked\r\n\r\n");
            for piece in body.as_bytes().chunks(7_001) {
                let piece = std::str::from_utf8(piece).unwrap();
                out += &format!("{:x}\r\n{piece}\r\n", piece.len());
            }
            (out + "0\r\n\r\n").into_bytes()
        }
        _ => format!("HTTP/1.1 200 OK\r\n{HTML}\r\n{body}").into_bytes(),
    });
    for algorithm in Algorithm::ALL {
        let proxy = compressing(&server, &[algorithm]);
        for path in ["counted", "chunked", "until-close"] {
            for version in ["--http1.0", "--http1.1", "--http2-prior-knowledge"] {
                let url = format!("http://{}/{path}", proxy.address);
                let arguments = ["-sS", "-i", "--compressed", version, "--max-time", "20"];
                let run = Command::new("curl").args(arguments).arg(url).output().unwrap();
                let what = format!("{algorithm:?} {path} {version}");
                let told = String::from_utf8_lossy(&run.stderr);
                assert!(run.status.success(), "{what}: {told}");
                let answer = String::from_utf8(run.stdout).unwrap();
                let (head, body) = answer.split_once("\r\n\r\n").unwrap();
                let head = head.to_lowercase();
                assert!(head.contains(&format!("content-encoding: {}", algorithm.coding())));
                assert!(head.contains("vary: accept-encoding"), "{what}: {head}");
                assert!(!head.contains("content-length"), "{what}: {head}");
                assert!(body == text, "{what}: {} bytes", body.len());
            }
        }
        let tally = || proxy.runtime.tallies().services["web"].counters;
        let input = 9 * text.len() as u64;
        wait_until(|| tally()[ServiceCounter::CompressionInput] >= input, "the last to be counted");
        let tally = tally();
        assert_eq!(tally[ServiceCounter::CompressionInput], input);
        assert!(tally[ServiceCounter::CompressionOutput] * 4 < input);
    }
}

#[test]
fn a_connection_is_kept_after_a_compressed_response() {
    let server = by_path(|_| counted(HTML, &lines(100)));
    let proxy = gzipping(&server);
    let mut stream = proxy.connect();
    for _ in 0..3 {
        stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n").unwrap();
        assert!(head(&mut stream).unwrap().contains("\r\nTransfer-Encoding: chunked\r\n"));
        let mut chunks = Vec::new();
        while !chunks.ends_with(b"\r\n0\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            chunks.push(byte[0]);
        }
        assert_eq!(gunzip(&dechunked(&chunks).0), lines(100));
    }
    assert_eq!(server.connections(), 1);
    proxy.expect(Ending::Complete, 3);
}

#[test]
fn what_a_client_does_not_want_or_is_not_worth_it_stays_as_it_is() {
    let text = lines(100);
    for (fields, asked, varies) in [
        (HTML, "Accept-Encoding: identity\n", true),
        (HTML, "Cookie: session=1\n", true),
        (HTML, "Cache-Control: no-transform\n", true),
        ("Content-Type: image/png\r\n", "", false),
        ("Content-Type: text/html\r\nCache-Control: no-transform\r\n", "", false),
        ("Content-Type: text/html\r\nContent-Encoding: x-own\r\n", "", false),
    ] {
        let body = text.clone();
        let server = by_path(move |_| counted(fields, &body));
        let proxy = gzipping(&server);
        let accept = if asked.contains("Accept") { "" } else { "Accept-Encoding: gzip\n" };
        let request = format!("GET / HTTP/1.1\nHost: x\nConnection: close\n{accept}{asked}\n");
        let (head, body) = ask(&proxy, &request);
        assert_eq!(String::from_utf8(body).unwrap(), text, "{fields} {asked}");
        assert!(head.contains(&format!("\r\nContent-Length: {}\r\n", text.len())), "{head}");
        assert_eq!(head.contains("\r\nVary: Accept-Encoding\r\n"), varies, "{head}");
    }
    let server = by_path(|_| counted(HTML, "short"));
    let (head, body) = get(&gzipping(&server), "");
    assert_eq!((head.contains("Vary"), &body[..]), (false, &b"short"[..]));
    let chunked = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n\
                   5\r\nshort\r\n0\r\n\r\n";
    let server = by_path(|_| chunked.into());
    let (head, body) = get(&gzipping(&server), "");
    assert!(!head.contains("Content-Encoding"), "{head}");
    assert_eq!(dechunked(&body).0, b"short");
}

#[test]
fn an_empty_response_stays_framed_where_no_size_is_too_small() {
    let chunked = format!("HTTP/1.1 200 OK\r\n{HTML}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
    let moved = format!("HTTP/1.1 302 Found\r\n{HTML}Location: /b\r\nContent-Length: 0\r\n\r\n");
    for (answer, framing) in [(moved, "Content-Length: 0"), (chunked, "Transfer-Encoding: chunked")]
    {
        let server = by_path(move |_| answer.clone().into_bytes());
        let compression = Compression { min_size: Bytes::new(0), ..Compression::default() };
        let (head, _) = get(&Proxy::of(with(&server, compression)), "");
        assert!(head.contains(&format!("\r\n{framing}\r\n")), "{head}");
        assert!(!head.contains("Content-Encoding"), "{head}");
    }
}

#[test]
fn requests_with_credentials_are_compressed_where_it_is_safe_or_wanted() {
    let body = lines(100);
    let server = by_path(move |_| counted(HTML, &body));
    let usual = gzipping(&server);
    let wanted = Compression { credentials: true, ..Compression::default() };
    let asked = Proxy::of(with(&server, wanted));
    let compresses = |proxy, lines| get(proxy, lines).0.contains("\r\nContent-Encoding: gzip\r\n");
    assert!(!compresses(&usual, "Cookie: a=b\n"));
    assert!(!compresses(&usual, "Cookie: a=b\nSec-Fetch-Site: cross-site\n"));
    assert!(compresses(&usual, "Cookie: a=b\nSec-Fetch-Site: same-origin\n"));
    assert!(compresses(&asked, "Cookie: a=b\n"));
}

#[test]
fn head_is_answered_as_get_without_a_body() {
    let body = lines(100);
    let server = Scripted::new(move |mut stream, _| {
        while let Some(seen) = head(&mut stream) {
            let fields = format!("{HTML}ETag: \"a\"\r\nAccept-Ranges: bytes\r\n");
            let answer = counted(&fields, &body);
            let length = answer.len() - if seen.starts_with("HEAD") { body.len() } else { 0 };
            stream.write_all(&answer[..length]).unwrap();
        }
    });
    let proxy = gzipping(&server);
    let asked = "/ HTTP/1.1\nHost: x\nConnection: close\nAccept-Encoding: gzip\n\n";
    let (of_head, body) = ask(&proxy, &format!("HEAD {asked}"));
    assert!(body.is_empty());
    let (of_get, _) = ask(&proxy, &format!("GET {asked}"));
    // Only how the body that does not come would be framed may be left out.
    assert_eq!(of_head, of_get.replace("Transfer-Encoding: chunked\r\n", ""));
    for told in ["ETag: W/\"a\"\r\n", "Content-Encoding: gzip\r\n"] {
        assert!(of_head.contains(told), "{of_head}");
    }
    assert!(!of_head.contains("Content-Length") && !of_head.contains("Accept-Ranges"));
}

#[test]
fn a_client_revalidates_the_compressed_response_by_the_tag_that_it_was_given() {
    let (told, seen) = channel();
    let server = Scripted::new(move |mut stream, _| {
        while let Some(head) = head(&mut stream) {
            told.send(head.clone()).unwrap();
            // A server that compares as RFC 9110, 13.1.2 says, or whose author looked no further
            // than its own tag.
            let answer = match head.contains(", \"v1\"") {
                true => b"HTTP/1.1 304 Not Modified\r\nETag: \"v1\"\r\n\r\n".to_vec(),
                false => counted(&format!("{HTML}ETag: \"v1\"\r\n"), &lines(100)),
            };
            stream.write_all(&answer).unwrap();
        }
    });
    let proxy = gzipping(&server);
    let (first, body) = get(&proxy, "");
    assert!(first.contains("\r\nETag: W/\"v1\"\r\n"), "{first}");
    assert_eq!(gunzip(&dechunked(&body).0), lines(100));
    seen.recv_timeout(PATIENCE).unwrap();

    let (second, body) = get(&proxy, "If-None-Match: W/\"v1\"\n");
    assert!(second.starts_with("HTTP/1.1 304 "), "{second}");
    assert!(second.contains("\r\nETag: W/\"v1\"\r\n") && body.is_empty(), "{second}");
    assert!(second.contains("\r\nVary: Accept-Encoding\r\n"), "{second}");
    let request = seen.recv_timeout(PATIENCE).unwrap();
    assert!(request.contains("\r\nIf-None-Match: W/\"v1\", \"v1\"\r\n"), "{request}");

    get(&proxy, "If-Match: W/\"v1\"\nIf-Range: W/\"v1\"\nRange: bytes=0-9\n");
    let request = seen.recv_timeout(PATIENCE).unwrap();
    assert!(request.contains("\r\nIf-Match: \"v1\"\r\n"), "{request}");
    assert!(request.contains("\r\nIf-Range: W/\"v1\"\r\n"), "{request}");
}

#[test]
fn a_part_stays_a_part() {
    let part = "HTTP/1.1 206 Partial Content\r\nContent-Type: text/html\r\nETag: \"a\"\r\n\
                Content-Range: bytes 0-1999/9000\r\nContent-Length: 2000\r\n\r\n";
    let server = by_path(move |_| format!("{part}{:2000}", "x").into_bytes());
    let (head, body) = get(&gzipping(&server), "Range: bytes=0-1999\n");
    assert_eq!(body.len(), 2_000);
    assert!(!head.contains("Content-Encoding") && head.contains("\r\nETag: \"a\"\r\n"), "{head}");
    assert!(head.contains("\r\nVary: Accept-Encoding\r\n"), "as the whole would: {head}");
}

#[test]
fn events_arrive_when_they_are_sent() {
    let (read, was_read) = channel();
    let was_read = Mutex::new(was_read);
    let server = Scripted::new(move |mut stream, _| {
        head(&mut stream).unwrap();
        let start = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
        stream.write_all(start.as_bytes()).unwrap();
        for n in 0..5 {
            stream.write_all(format!("data: event {n}\n\n").as_bytes()).unwrap();
            // The next one is sent when this one has arrived.
            was_read.lock().unwrap().recv_timeout(PATIENCE).unwrap();
        }
    });
    for version in ["HTTP/1.0", "HTTP/1.1"] {
        let proxy = gzipping(&server);
        let mut stream = proxy.connect();
        let request = format!("GET / {version}\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        head(&mut stream).unwrap();
        let mut events = GzDecoder::new(Chunks { stream, in_chunks: version == "HTTP/1.1" });
        for n in 0..5 {
            let mut event = [0; 15];
            events.read_exact(&mut event).unwrap();
            assert_eq!(event, *format!("data: event {n}\n\n").as_bytes());
            read.send(()).unwrap();
        }
        assert_eq!(events.read(&mut [0]).unwrap(), 0);
    }
}

/// The payload of a body that is still coming.
struct Chunks {
    stream: TcpStream,
    in_chunks: bool,
}

impl std::io::Read for Chunks {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        if !self.in_chunks {
            return self.stream.read(into);
        }
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            let mut byte = [0];
            self.stream.read_exact(&mut byte)?;
            line.push(byte[0]);
        }
        let size = std::str::from_utf8(&line[..line.len() - 2]).unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        assert!(size <= into.len(), "a chunk of {size} bytes");
        self.stream.read_exact(&mut into[..size])?;
        let mut end = [0; 2];
        self.stream.read_exact(&mut end)?;
        assert_eq!(&end, b"\r\n");
        Ok(size)
    }
}

#[test]
fn a_response_that_breaks_off_is_not_ended_as_if_it_were_whole() {
    let half = format!("HTTP/1.1 200 OK\r\n{HTML}Content-Length: 90000\r\n\r\n{}", lines(500));
    for version in ["HTTP/1.0", "HTTP/1.1"] {
        let half = half.clone();
        let server = Scripted::new(move |mut stream, _| {
            head(&mut stream).unwrap();
            stream.write_all(half.as_bytes()).unwrap();
        });
        let proxy = gzipping(&server);
        let mut stream = proxy.connect();
        let request = format!("GET / {version}\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        head(&mut stream).unwrap();
        let mut body = Vec::new();
        let end = stream.read_to_end(&mut body);
        if version == "HTTP/1.0" {
            // Nothing but a reset tells such a client that the body is not whole.
            assert_eq!(end.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
        } else {
            assert!(!body.ends_with(b"0\r\n\r\n"));
        }
        let mut text = String::new();
        assert!(GzDecoder::new(&body[..]).read_to_string(&mut text).is_err());
        proxy.expect(Ending::ServerCut, 1);
    }
}

/// The first `length` bytes of a body that may break off behind them.
fn beginning(algorithm: Algorithm, coded: &[u8], length: usize) -> String {
    let mut bytes = vec![0; length];
    match algorithm {
        Algorithm::Gzip => GzDecoder::new(coded).read_exact(&mut bytes).unwrap(),
        Algorithm::Brotli => {
            brotli::Decompressor::new(coded, 4096).read_exact(&mut bytes).unwrap();
        }
        Algorithm::Zstd => {
            let mut context = DCtx::create();
            let (mut output, mut input) =
                (OutBuffer::around(&mut bytes[..]), InBuffer::around(coded));
            while output.pos() < length {
                let before = (output.pos(), input.pos());
                context.decompress_stream(&mut output, &mut input).unwrap();
                assert!((output.pos(), input.pos()) > before, "{} bytes", output.pos());
            }
        }
    }
    String::from_utf8(bytes).unwrap()
}

#[test]
fn all_that_came_of_a_response_before_it_broke_off_can_be_decompressed() {
    let text = lines(500);
    let size = text.len();
    let counted = format!("HTTP/1.1 200 OK\r\n{HTML}Content-Length: 90000\r\n\r\n{text}");
    let chunked =
        format!("HTTP/1.1 200 OK\r\n{HTML}Transfer-Encoding: chunked\r\n\r\n{size:x}\r\n{text}");
    for part in [counted, chunked] {
        let server = Scripted::new(move |mut stream, _| {
            head(&mut stream).unwrap();
            stream.write_all(part.as_bytes()).unwrap();
        });
        for algorithm in Algorithm::ALL {
            let proxy = compressing(&server, &[algorithm]);
            let coding = algorithm.coding();
            let request = format!("GET / HTTP/1.1\nHost: x\nAccept-Encoding: {coding}\n\n");
            let (_, body) = ask(&proxy, &request);
            // All but the end, which nobody knows.
            assert!(!body.ends_with(b"0\r\n\r\n"), "{algorithm:?}");
            let (coded, _) = dechunked(&[&body[..], b"0\r\n\r\n"].concat());
            assert!(beginning(algorithm, &coded, size) == text, "{algorithm:?}");
            proxy.expect(Ending::ServerCut, 1);
        }
    }
}

#[test]
fn a_response_that_breaks_off_leaves_the_next_ones_whole() {
    let (whole, half) = (counted(HTML, &lines(500)), lines(250));
    let half = format!("HTTP/1.1 200 OK\r\n{HTML}Content-Length: 90000\r\n\r\n{half}");
    let server = Scripted::new(move |mut stream, _| {
        let Some(seen) = head(&mut stream) else { return };
        let cut = seen.starts_with("GET /cut ");
        stream.write_all(if cut { half.as_bytes() } else { &whole }).unwrap();
    });
    for algorithm in Algorithm::ALL {
        let levels = Levels { gzip: 1, brotli: 1, zstd: 1 };
        let algorithms = [algorithm].into();
        let proxy =
            Proxy::of(with(&server, Compression { levels, algorithms, ..Compression::default() }));
        // The second has the encoder of the first, where that is kept.
        for path in ["", "cut", "", ""] {
            let url = format!("http://{}/{path}", proxy.address);
            let arguments = ["-sS", "--compressed", "--max-time", "20", &url];
            let run = Command::new("curl").args(arguments).output().unwrap();
            assert_eq!(run.status.success(), path.is_empty(), "{algorithm:?} /{path}");
            let is_whole = String::from_utf8_lossy(&run.stdout) == lines(500);
            assert_eq!(is_whole, path.is_empty(), "{algorithm:?} /{path}");
        }
    }
}

#[test]
fn trailers_follow_the_compressed_body() {
    let text = lines(100);
    let size = text.len();
    let answer = format!(
        "HTTP/1.1 200 OK\r\n{HTML}Trailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n\
         {size:x}\r\n{text}\r\n0\r\nX-Sum: 7\r\n\r\n"
    );
    let server = by_path(move |_| answer.clone().into_bytes());
    let (head, body) = get(&gzipping(&server), "");
    let (payload, rest) = dechunked(&body);
    assert_eq!(gunzip(&payload), text);
    assert!(head.contains("\r\nTrailer: X-Sum\r\n"), "{head}");
    assert_eq!(rest, b"X-Sum: 7\r\n\r\n");
}

#[test]
fn a_slow_client_slows_its_server_down_and_not_others() {
    let sent = Arc::new(AtomicU64::new(0));
    let count = sent.clone();
    // Bytes that do not become fewer, so that it does not take long to fill the way.
    let noise: Vec<u8> = (0_u64..8 << 10)
        .flat_map(|n| n.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(31).to_le_bytes())
        .collect();
    let server = Scripted::new(move |mut stream, _| {
        let Some(seen) = head(&mut stream) else { return };
        if seen.starts_with("GET /small") {
            stream.write_all(&counted(HTML, &lines(100))).unwrap();
            return;
        }
        stream.write_all(format!("HTTP/1.1 200 OK\r\n{HTML}\r\n").as_bytes()).unwrap();
        while stream.write_all(&noise).is_ok() {
            count.fetch_add(noise.len() as u64, Relaxed);
        }
    });
    let proxy = gzipping(&server);
    let mut slow = proxy.connect();
    slow.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n").unwrap();
    head(&mut slow).unwrap();
    // It takes nothing of the body. The server gets stuck when all buffers on the way are full.
    let before = AtomicU64::new(u64::MAX);
    wait_until(
        || {
            for _ in 0..10 {
                let request = "GET /small HTTP/1.1\nHost: x\nConnection: close\n\
                               Accept-Encoding: gzip\n\n";
                let (_, body) = ask(&proxy, request);
                assert_eq!(gunzip(&dechunked(&body).0), lines(100));
            }
            let now = sent.load(Relaxed);
            before.swap(now, Relaxed) == now && now > 0
        },
        "a server that is not read any more",
    );
    assert!(sent.load(Relaxed) < 64 << 20, "{} bytes", sent.load(Relaxed));
}

#[test]
fn a_client_of_http2_gets_events_when_they_are_sent() {
    let (read, was_read) = channel();
    let was_read = Mutex::new(was_read);
    let server = Scripted::new(move |mut stream, _| {
        head(&mut stream).unwrap();
        let start = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: first\n\n";
        stream.write_all(start.as_bytes()).unwrap();
        was_read.lock().unwrap().recv_timeout(PATIENCE).unwrap();
        stream.write_all(b"data: last\n\n").unwrap();
    });
    let proxy = compressing(&server, &[Algorithm::Zstd]);
    let arguments = ["-sSN", "--compressed", "--http2-prior-knowledge", "--max-time", "10"];
    let mut curl = Command::new("curl")
        .args(arguments)
        .arg(format!("http://{}/", proxy.address))
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = curl.stdout.take().unwrap();
    let mut first = [0; 13];
    out.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"data: first\n\n");
    read.send(()).unwrap();
    let mut last = String::new();
    out.read_to_string(&mut last).unwrap();
    assert_eq!(last, "data: last\n\n");
    assert!(curl.wait().unwrap().success());
}

/// A level costs what it costs only as long as there is time: the worker's own share of a core is
/// what counts, whatever else the machine does.
#[test]
fn a_worker_that_has_no_time_left_compresses_at_a_lower_level() {
    let server = Scripted::new(move |mut stream, _| {
        let answer = counted(HTML, &lines(50_000));
        while head(&mut stream).is_some() {
            if stream.write_all(&answer).is_err() {
                return;
            }
        }
    });
    let levels = Levels { gzip: 9, ..Levels::default() };
    let algorithms = [Algorithm::Gzip].into();
    let proxy =
        Proxy::of(with(&server, Compression { levels, algorithms, ..Compression::default() }));
    let effort = || proxy.runtime.handle().state().compression_effort;
    assert_eq!(effort(), Some(3));
    let (_, careful) = get(&proxy, "");
    let is_over = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while is_over.load(Relaxed) == 0 {
                    get(&proxy, "");
                }
            });
        }
        let start = std::time::Instant::now();
        while effort() == Some(3) && start.elapsed() < 4 * PATIENCE {
            // Two looks a second are what there is to be seen.
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        let fallen = effort();
        let (_, hasty) = get(&proxy, "");
        is_over.store(1, Relaxed);
        assert!(fallen < Some(3), "it stays at the levels of the file");
        assert!(hasty.len() > careful.len(), "{} of {}", hasty.len(), careful.len());
    });
}
