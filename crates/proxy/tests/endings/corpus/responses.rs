//! Answers: what hyper reads before the proxy is what our codec read behind it.

use std::io::Write as _;

use http_body_util::{BodyExt as _, Empty};
use hyper::{Request, body::Bytes, client::conn::http1};
use hyper_util::rt::TokioIo;
use loadline_http1::Method;
use tokio::{net::TcpStream, time::timeout};

use super::{
    cases::{self, Case},
    reading::{self, Reading},
};
use crate::support::{PATIENCE, Proxy, Scripted, head};

#[test]
fn no_answer_is_forwarded_in_a_form_that_another_parser_reads_differently() {
    let mut wrong = Vec::new();
    for Case { name, is, message, .. } in cases::read(include_str!("responses.txt")) {
        let ours = reading::response(&message, Method::Get);
        let server = Scripted::new(move |mut stream, _| {
            if head(&mut stream).is_some() {
                stream.write_all(&message).unwrap();
            }
        });
        let theirs = hyper_client(&Proxy::to(&[server.address]));
        if !is_right(&is, &theirs, ours.as_ref()) {
            wrong.push(format!("{name}: {is}, but {theirs:?}, ours {ours:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Whether a client has read what the file says.
pub(super) fn is_right(
    is: &str,
    theirs: &Result<Reading, hyper::Error>,
    ours: Option<&Reading>,
) -> bool {
    match (is, theirs) {
        ("forwarded", Ok(theirs)) => Some(theirs) == ours,
        ("refused", Ok(theirs)) => theirs.start == "502" && theirs.fields.is_empty(),
        ("cut", Err(_)) => ours.is_none(),
        _ => false,
    }
}

/// What a client reads that asks once; an error if the response is not whole.
pub(super) fn hyper_client(proxy: &Proxy) -> Result<Reading, hyper::Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let asked = runtime.block_on(async {
        timeout(PATIENCE, async {
            let stream = TcpStream::connect(proxy.address).await.unwrap();
            let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
            let request =
                Request::get("/").header("Host", "x").body(Empty::<Bytes>::new()).unwrap();
            let driver = tokio::spawn(connection);
            let answer = sender.send_request(request).await?;
            let start = answer.status().as_str().to_owned();
            let fields = reading::of_headers(answer.headers());
            let body = answer.into_body().collect().await?.to_bytes().to_vec();
            driver.abort();
            Ok(Reading { start, fields, body })
        })
        .await
    });
    asked.unwrap()
}
