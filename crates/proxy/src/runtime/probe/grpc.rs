//! A check by the health service of gRPC, over a connection of its own in HTTP/2.

use h2::RecvStream;
use http::{HeaderMap, Request, Response, Uri, header};
use loadline_core::{
    health::grpc::{self, BODY_MAX, PATH, Refusal},
    time::Duration,
};
use tokio::io::{AsyncRead, AsyncWrite};

use super::{ProbeError, answered, handshake};

/// Asks for the health of `service` at `host`. The server is told that it has `limit` for it.
pub(super) async fn check<S>(
    stream: S,
    (service, host): (&str, &str),
    (scheme, limit): (&str, Duration),
) -> Result<(), ProbeError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let target = Uri::builder().scheme(scheme).authority(host).path_and_query(PATH).build()?;
    let request = Request::post(target)
        .header(header::CONTENT_TYPE, "application/grpc")
        .header(header::TE, "trailers")
        .header(header::USER_AGENT, "loadline-health")
        .header("grpc-timeout", format!("{}u", limit.as_nanos() / 1_000))
        .body(())?;
    let mut builder = h2::client::Builder::new();
    builder.enable_push(false).max_header_list_size(HEADERS_MAX);
    let (requests, connection) = handshake(stream, &mut builder).await?;
    let sender = requests.clone();
    let answer = async {
        let (answer, mut body) = sender.ready().await?.send_request(request, false)?;
        body.send_data(grpc::request(service).into(), true)?;
        judge(answer.await?).await
    };
    answered(&requests, connection, answer).await
}

async fn judge(answer: Response<RecvStream>) -> Result<(), ProbeError> {
    let (head, mut stream) = answer.into_parts();
    let mut body = Vec::new();
    while let Some(data) = stream.data().await {
        let data = data?;
        // Fails only where more is given back than came.
        let _ = stream.flow_control().release_capacity(data.len());
        body.extend_from_slice(&data);
        if body.len() > BODY_MAX {
            return Err(Refusal::Message("it is too long").into());
        }
    }
    // A server that has nothing to say but a status says it in the head.
    let trailers = match head.headers.contains_key(STATUS) {
        true => None,
        false => stream.trailers().await?,
    };
    let trailers = trailers.as_ref().unwrap_or(&head.headers);
    let value = |map: &'_ HeaderMap, name: &str| map.get(name).map(|it| it.as_bytes().to_vec());
    let content_type = value(&head.headers, "content-type").unwrap_or_default();
    let grpc_message = value(trailers, "grpc-message").unwrap_or_default();
    let grpc_status = value(trailers, STATUS);
    grpc::judge(&grpc::Response {
        status: head.status.as_u16(),
        content_type: &content_type,
        grpc_status: grpc_status.as_deref(),
        grpc_message: &grpc_message,
        body: &body,
    })?;
    Ok(())
}

const STATUS: &str = "grpc-status";

/// More than any server sends with a status.
const HEADERS_MAX: u32 = 16 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::{TcpListener, TcpStream};

    /// What a check makes of a server that sends this head, this body and these trailers.
    async fn judged(
        head: http::response::Builder,
        body: &'static [u8],
        trailers: &[(&'static str, &'static str)],
    ) -> Result<(), ProbeError> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let trailers: HeaderMap = trailers
            .iter()
            .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()))
            .collect();
        tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let mut streams = h2::server::handshake(stream).await.unwrap();
            let (request, mut respond) = streams.accept().await.unwrap().unwrap();
            assert_eq!((request.uri().path(), request.method().as_str()), (PATH, "POST"));
            assert_eq!(request.headers()["te"], "trailers");
            assert_eq!(request.headers()["grpc-timeout"], "500000u");
            let is_over = body.is_empty() && trailers.is_empty();
            let mut send = respond.send_response(head.body(()).unwrap(), is_over).unwrap();
            if !is_over {
                send.send_data(body.into(), trailers.is_empty()).unwrap();
                if !trailers.is_empty() {
                    send.send_trailers(trailers).unwrap();
                }
            }
            while streams.accept().await.is_some() {}
        });
        let stream = TcpStream::connect(address).await.unwrap();
        check(stream, ("a.B", "a.test"), ("http", Duration::from_millis(500))).await
    }

    fn head() -> http::response::Builder {
        Response::builder().header("content-type", "application/grpc")
    }

    #[tokio::test]
    async fn the_status_is_in_the_trailers_or_in_the_only_head() {
        let serving = b"\0\0\0\0\x02\x08\x01";
        assert!(judged(head(), serving, &[("grpc-status", "0")]).await.is_ok());
        let not = judged(head(), b"\0\0\0\0\x02\x08\x02", &[("grpc-status", "0")]).await;
        assert_eq!(not.unwrap_err().to_string(), "health status NOT_SERVING");
        let only = head().header("grpc-status", "12").header("grpc-message", "no");
        let only = judged(only, b"", &[]).await;
        assert_eq!(only.unwrap_err().to_string(), "gRPC status 12 UNIMPLEMENTED: no");
        let missing = judged(head(), serving, &[]).await;
        assert_eq!(missing.unwrap_err().to_string(), "no grpc-status in the answer");
        let other = judged(Response::builder().status(404), b"", &[]).await;
        assert_eq!(other.unwrap_err().to_string(), "answered 404");
    }

    #[tokio::test]
    async fn a_body_without_an_end_is_not_read_to_it() {
        let endless = judged(head(), &[0; 60_000], &[("grpc-status", "0")]).await;
        assert_eq!(endless.unwrap_err().to_string(), "bad gRPC message: it is too long");
    }
}
