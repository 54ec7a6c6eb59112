//! Responses that do not wait for the body of their request, as other people's clients see them.

use std::{
    fs,
    future::poll_fn,
    io::Write as _,
    net::SocketAddr,
    path::Path,
    process::Command,
    time::{Duration as StdDuration, Instant},
};

use bytes::Bytes;
use h2::{Reason, SendStream};
use loadline_core::{
    decide::ending::Ending,
    fleet::Fleet,
    rules::{Action, Conditions, DirectResponse as Fixed, Redirect, Routes, Rule},
};

use crate::{
    authority::Authority,
    clients::https,
    support::{FullResponse, Proxy, SHORT, fleet, head, post, server},
};

/// Bodies in bytes: shorter and longer than a frame, a window of the client's, one of ours.
const SIZES: [usize; 8] = [1_000, 16_384, 65_535, 100_000, 262_144, 300_000, 1_000_000, 10_000_000];

const REQUESTS: usize = 100;

/// A server that answers when it has the head, and closes without having read the body.
fn refusing() -> SocketAddr {
    server(|mut stream| {
        if head(&mut stream).is_some() {
            let answer = b"HTTP/1.1 413 Content Too Large\r\nConnection: close\r\n\
                Content-Length: 2\r\n\r\nno";
            stream.write_all(answer).unwrap();
        }
    })
}

/// Has the listener answer every request by itself.
fn rule(fleet: &mut Fleet, action: Action) {
    let rule = Rule::new(Conditions::default(), action);
    fleet.listeners[0].routes = Routes::new(vec![rule]);
}

fn forbidden() -> Action {
    Action::Respond(Fixed { status: 403, headers: vec![], body: "no".into() })
}

/// Has `client` send bodies of every size to a proxy that forbids it, then to one whose server
/// refuses them: all responses arrive. It is given the address, the status to expect, a directory
/// of its own, and prints `100 of 100`.
fn gets_every_answer(client: impl Fn(&str, u16, &Path) -> String) {
    let authority = Authority::new();
    let mut by_rule = fleet(SocketAddr::from(([127, 0, 0, 1], 1)));
    rule(&mut by_rule, forbidden());
    let by_server = fleet(refusing());
    let directory = tempfile::tempdir().unwrap();
    for (mut fleet, status) in [(by_rule, 403), (by_server, 413)] {
        https(&mut fleet, authority.sign(&["a.test"]));
        let proxy = Proxy::of(fleet);
        let url = format!("https://{}/", proxy.address);
        let said = client(&url, status, directory.path());
        assert_eq!(said.trim(), format!("{REQUESTS} of {REQUESTS}"), "{status}");
        let ending = if status == 403 { Ending::Ruled } else { Ending::Complete };
        proxy.expect(ending, REQUESTS as u64);
    }
}

fn output(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (said, errors) = (&output.stdout, String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}{errors}", String::from_utf8_lossy(said));
    String::from_utf8_lossy(said).into_owned()
}

/// A program beside this file.
fn script(name: &str) -> String {
    format!("{}/tests/http2/early/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// What every client but curl is told.
fn arguments(url: &str, status: u16) -> Vec<String> {
    let mut arguments = vec![url.to_owned(), status.to_string(), REQUESTS.to_string()];
    arguments.extend(SIZES.map(|size| size.to_string()));
    arguments
}

#[test]
fn curl_gets_the_answer_to_a_body_that_is_not_wanted() {
    gets_every_answer(|url, status, directory| {
        let mut arrived = 0;
        for (place, size) in SIZES.into_iter().enumerate() {
            let count = (REQUESTS - place).div_ceil(SIZES.len());
            let body = directory.join("body");
            fs::write(&body, vec![b'x'; size]).unwrap();
            let body = format!("@{}", body.display());
            let mut curl = Command::new("curl");
            curl.args(["-sk", "--http2", "--data-binary", &body]);
            curl.args(["-w", " %{http_version} %{response_code}\n"]);
            let said = output(curl.args(vec![url; count]));
            arrived += said.matches(&format!("no 2 {status}\n")).count();
        }
        format!("{arrived} of {REQUESTS}")
    });
}

#[test]
fn httpx_gets_the_answer_to_a_body_that_is_not_wanted() {
    gets_every_answer(|url, status, _| {
        // The distribution's Python, whose modules `scripts/setup test` installs.
        let mut python = Command::new("/usr/bin/python3");
        output(python.arg(script("client.py")).args(arguments(url, status)))
    });
}

#[test]
fn node_gets_the_answer_to_a_body_that_is_not_wanted() {
    gets_every_answer(|url, status, _| {
        output(Command::new("node").arg(script("client.mjs")).args(arguments(url, status)))
    });
}

#[test]
fn go_gets_the_answer_to_a_body_that_is_not_wanted() {
    gets_every_answer(|url, status, directory| {
        let program = directory.join("client");
        let mut build = Command::new("go");
        build.arg("build").arg("-o").arg(&program).arg(script("client.go"));
        output(build.env("GO111MODULE", "off").env("GOCACHE", directory.join("cache")));
        output(Command::new(program).args(arguments(url, status)))
    });
}

#[test]
fn java_gets_the_answer_to_a_body_that_is_not_wanted() {
    gets_every_answer(|url, status, _| {
        output(Command::new("java").arg(script("Client.java")).args(arguments(url, status)))
    });
}

#[test]
fn curl_gets_a_redirect_and_an_answer_in_want_of_servers_before_its_body_is_through() {
    let authority = Authority::new();
    let directory = tempfile::tempdir().unwrap();
    let body = directory.path().join("body");
    fs::write(&body, vec![b'x'; 10_000_000]).unwrap();
    let body = format!("@{}", body.display());
    let nobody = SocketAddr::from(([127, 0, 0, 1], 1));
    let (mut elsewhere, mut alone) = (fleet(nobody), fleet(nobody));
    let host = Some("b.test".into());
    let redirect = Redirect { status: 307, scheme: None, host, path: None, location: None };
    rule(&mut elsewhere, Action::Redirect(redirect));
    alone.services[0].groups[0].servers.clear();
    for (mut fleet, status) in [(elsewhere, 307), (alone, 503)] {
        https(&mut fleet, authority.sign(&["a.test"]));
        let proxy = Proxy::of(fleet);
        let url = format!("https://{}/", proxy.address);
        for version in ["--http2", "--http1.1"] {
            let mut curl = Command::new("curl");
            curl.args(["-sk", version, "--data-binary", &body, "-w", "|%{response_code}|\n"]);
            let said = output(curl.args(vec![&url; 20]));
            assert_eq!(said.matches(&format!("|{status}|\n")).count(), 20, "{version} {said}");
        }
    }
}

/// Sends until the stream is reset: how many bytes were taken, and why it was reset.
async fn send_for_ever(mut body: SendStream<Bytes>) -> (usize, Reason) {
    let piece = Bytes::from_static(&[b'x'; 16_384]);
    let mut sent = 0;
    loop {
        body.reserve_capacity(piece.len());
        let room = poll_fn(|cx| match body.poll_reset(cx) {
            std::task::Poll::Ready(reason) => std::task::Poll::Ready(Err(reason.unwrap())),
            std::task::Poll::Pending => body.poll_capacity(cx).map(|room| Ok(room.unwrap())),
        });
        match room.await {
            Ok(room) => {
                let piece = piece.slice(..room.unwrap().min(piece.len()));
                sent += piece.len();
                body.send_data(piece, false).unwrap();
            }
            Err(reason) => return (sent, reason),
        }
    }
}

#[tokio::test]
async fn a_client_that_goes_on_sending_after_its_answer_is_cut_after_so_many_bytes() {
    let mut fleet = fleet(SocketAddr::from(([127, 0, 0, 1], 1)));
    rule(&mut fleet, forbidden());
    let proxy = Proxy::of(fleet);
    let client = proxy.client().await;
    let mut requests = client.requests.clone().ready().await.unwrap();
    let (answer, body) = requests.send_request(post(), false).unwrap();
    let sending = tokio::spawn(send_for_ever(body));
    let answer = FullResponse::read(answer.await.unwrap()).await.unwrap();
    assert_eq!((answer.status, answer.text().as_str()), (403, "no"));
    let (sent, reason) = sending.await.unwrap();
    assert_eq!(reason, Reason::NO_ERROR);
    assert!((10_000_000..40_000_000).contains(&sent), "{sent} bytes were taken");
    // What was thrown away is not missing from the window of the connection.
    let mut requests = client.requests.clone().ready().await.unwrap();
    let (answer, body) = requests.send_request(post(), false).unwrap();
    let sending = tokio::spawn(send_for_ever(body));
    assert_eq!(answer.await.unwrap().status(), 403);
    assert_eq!(sending.await.unwrap().1, Reason::NO_ERROR);
}

#[tokio::test]
async fn a_client_that_neither_sends_nor_ends_after_its_answer_is_cut_after_a_while() {
    let mut fleet = fleet(SocketAddr::from(([127, 0, 0, 1], 1)));
    rule(&mut fleet, forbidden());
    fleet.listeners[0].timeouts.idle = SHORT;
    let proxy = Proxy::of(fleet);
    let mut requests = proxy.client().await.requests.ready().await.unwrap();
    let (answer, mut body) = requests.send_request(post(), false).unwrap();
    body.send_data(Bytes::from_static(b"some"), false).unwrap();
    assert_eq!(FullResponse::read(answer.await.unwrap()).await.unwrap().status, 403);
    let start = Instant::now();
    let reason = poll_fn(|cx| body.poll_reset(cx)).await.unwrap();
    assert_eq!(reason, Reason::NO_ERROR);
    assert!(start.elapsed() < StdDuration::from_secs(3), "{:?}", start.elapsed());
}
