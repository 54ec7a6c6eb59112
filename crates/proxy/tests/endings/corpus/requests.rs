//! Requests: what hyper reads behind the proxy is what our codec read in front of it.

use std::{
    convert::Infallible,
    io::{Read as _, Write as _},
    net::{Shutdown, SocketAddr},
    sync::{Arc, Mutex},
    thread,
};

use http_body_util::{BodyExt as _, Full};
use hyper::{
    Request, Response,
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

use super::{
    cases::{self, Case},
    reading::{self, Reading},
};
use crate::support::Proxy;

/// What comes behind each message. If it is read as anything but a request of its own, the two
/// parsers disagree about where the message ends.
pub(super) const NEXT: &[u8] = b"GET /next HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

#[test]
fn no_request_is_forwarded_in_a_form_that_another_parser_reads_differently() {
    let log: Log = Arc::default();
    let proxy = Proxy::to(&[hyper_server(log.clone())]);
    let mut wrong = Vec::new();
    for Case { name, is, message, .. } in cases::read(include_str!("requests.txt")) {
        let bytes = [&message, NEXT].concat();
        let answer = ask(&proxy, &bytes);
        let ours = reading::requests(&bytes);
        // hyper notes a request before it answers it, and all are answered before the close.
        let theirs = std::mem::take(&mut *log.lock().unwrap());
        if theirs != ours {
            wrong.push(format!("{name}: it reads {theirs:?}, not {ours:?}: {answer}"));
        } else if !is_as_told(&is, ours.len(), &answer) {
            wrong.push(format!("{name}: not {is}, but {} forwarded: {answer}", ours.len()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Whether the client was told what the file says.
pub(super) fn is_as_told(is: &str, forwarded: usize, answer: &str) -> bool {
    match is.split_once(' ').unwrap_or((is, "2")) {
        ("refused", status) => {
            let last = answer.rfind("HTTP/1.1 ").map_or("", |at| &answer[at + 9..]);
            // Where the next message begins is anybody's guess.
            last.starts_with(status) && last.contains("Connection: close\r\n")
        }
        ("forwarded", count) => {
            forwarded.to_string() == count && answer.matches("HTTP/1.1 200 ").count() == forwarded
        }
        _ => false,
    }
}

/// All that comes back for these bytes until the connection is closed.
pub(super) fn ask(proxy: &Proxy, bytes: &[u8]) -> String {
    let mut client = proxy.connect();
    client.write_all(bytes).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    // A reset behind the response is as good as a close.
    let _ = client.read_to_end(&mut answer);
    answer.escape_ascii().to_string().replace("\\r\\n", "\r\n")
}

pub(super) type Log = Arc<Mutex<Vec<Reading>>>;

/// A server that notes what it reads and answers each request.
pub(super) fn hyper_server(log: Log) -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::from_std(listener).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                let log = log.clone();
                let service = service_fn(move |request| note(log.clone(), request));
                let connection =
                    http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                // A message that breaks off ends its connection, and is not noted.
                tokio::spawn(async move { connection.await.is_ok() });
            }
        });
    });
    address
}

async fn note(log: Log, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let start = format!("{} {}", request.method(), request.uri());
    let host = request.headers().get_all("host").iter();
    let host = host.map(|host| ("host".to_owned(), host.as_bytes().to_vec()));
    let fields: Vec<_> = host.chain(reading::of_headers(request.headers())).collect();
    let name = fields.first().map_or(&b""[..], |(_, value)| value).escape_ascii().to_string();
    let answer = Response::builder().header("Cache-Control", "max-age=60");
    let answer = answer.body(Full::from(format!("{start} of {name}"))).expect("a response");
    if let Ok(body) = request.into_body().collect().await {
        let body = body.to_bytes().to_vec();
        log.lock().unwrap().push(Reading { start, fields, body });
    }
    Ok(answer)
}
