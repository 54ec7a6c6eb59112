//! Copies of requests where both sides speak HTTP/2.

use std::sync::mpsc::channel;

use http::{HeaderMap, HeaderValue};
use loadline_core::{
    rules::{Action, Conditions, CopyResult, Mirror, Routes, Rule, Split},
    units::{Bytes, Ratio},
};

use crate::{
    scripted::Scripted,
    support::{PATIENCE, Proxy, post, wait_until},
};

/// All requests go to the first service, and copies to the second.
fn to_both() -> Routes {
    let mirror =
        Mirror { service: 1, share: Ratio::ONE, body_max: Bytes::new(1_000), in_flight_max: 1 };
    Routes::new(vec![Rule {
        mirror: Some(mirror),
        ..Rule::new(Conditions::default(), Action::Service(Split::all(0)))
    }])
}

#[tokio::test]
async fn a_stream_is_copied_with_its_body_and_its_trailers() {
    let server = Scripted::new(async |mut asked| {
        let (body, _) = asked.read().await;
        asked.answer(&body);
    });
    let (tell, told) = channel();
    let shadow = Scripted::new(move |mut asked| {
        let tell = tell.clone();
        async move {
            let (body, trailers) = asked.read().await;
            tell.send((asked.request.uri().to_string(), body, trailers)).unwrap();
            asked.answer("to nobody");
        }
    });
    let mut fleet = server.fleet();
    fleet.services.push(shadow.fleet().services[0].clone());
    fleet.services[1].name = "shadow".into();
    fleet.listeners[0].routes = to_both();
    let proxy = Proxy::of(fleet);
    let mut trailers = HeaderMap::new();
    trailers.insert("x-sum", HeaderValue::from_static("5"));
    let answer = proxy.client().await.send(post(), b"hello", Some(trailers)).await.unwrap();
    assert_eq!((answer.status, answer.text().as_str()), (200, "hello"));
    let (uri, body, trailers) = told.recv_timeout(PATIENCE).unwrap();
    assert_eq!((uri.as_str(), body.as_str()), ("http://a.test/page", "hello"));
    assert_eq!(trailers.unwrap()["x-sum"], "5");
    let answered = || proxy.runtime.tallies().services["shadow"].copies;
    wait_until(|| answered()[CopyResult::Answered as usize] == 1, "the answer to the copy");
}
