//! Trailers of servers that speak HTTP/2, behind answers that say how long they are.

use http::{HeaderMap, HeaderValue, Response};

use crate::{
    scripted::{Asked, Scripted},
    support::get,
};

#[tokio::test]
async fn announced_trailers_come_behind_an_answer_of_known_length_and_others_do_not() {
    let server = Scripted::new(async |mut asked: Asked| {
        let mut response = Response::new(());
        response.headers_mut().insert("content-length", HeaderValue::from_static("3"));
        if asked.request.uri().path() == "/announced" {
            response.headers_mut().insert("trailer", HeaderValue::from_static("x-sum"));
        }
        let mut stream = asked.respond.send_response(response, false).unwrap();
        stream.send_data("abc".into(), false).unwrap();
        let mut trailers = HeaderMap::new();
        trailers.insert("x-sum", HeaderValue::from_static("3"));
        stream.send_trailers(trailers).unwrap();
    });
    let proxy = server.proxy();
    let client = proxy.client().await;
    for (path, announced) in [("announced", true), ("not", false)] {
        let mut request = get();
        *request.uri_mut() = format!("http://a.test/{path}").parse().unwrap();
        let answer = client.ask(request).await.unwrap();
        assert_eq!(answer.text(), "abc");
        assert_eq!(answer.headers.contains_key("content-length"), !announced);
        let sum = answer.trailers.map(|trailers| trailers["x-sum"].clone());
        assert_eq!(sum, announced.then(|| HeaderValue::from_static("3")), "{path}");
    }
}
