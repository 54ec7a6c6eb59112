//! gRPC over one HTTP/2 connection: a message is a byte that says it is not compressed, its length
//! in four, and protobuf; the status comes in the trailers.

use std::fmt::Display;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use h2::{
    RecvStream, SendStream,
    client::{ResponseFuture, SendRequest},
};
use http::{HeaderMap, HeaderValue, Request, header::CONTENT_TYPE};
use loadline_core::health::grpc::unescaped;
use prost::Message;

use super::EtcdError;

/// A connection to one member.
#[derive(Clone, Debug)]
pub(super) struct Channel {
    pub(super) send: SendRequest<Bytes>,
    /// The URL, for requests and for errors.
    pub(super) endpoint: String,
    pub(super) token: Option<HeaderValue>,
}

impl Channel {
    /// Calls the method at `path` and waits for its only answer.
    pub(super) async fn call<Q: Message, R: Message + Default>(
        &self,
        path: &str,
        message: &Q,
    ) -> Result<R, EtcdError> {
        let mut stream: Stream<R> = self.open(path, message, true).await?;
        stream.next().await?.ok_or_else(|| self.lost(&"no answer"))
    }

    /// Opens a stream at `path` with this message as its first; `is_last` where none follows.
    pub(super) async fn open<Q: Message, R>(
        &self,
        path: &str,
        message: &Q,
        is_last: bool,
    ) -> Result<Stream<R>, EtcdError> {
        let lost = |error: h2::Error| self.lost(&error);
        let mut send = self.send.clone().ready().await.map_err(lost)?;
        let request = Request::post(format!("{}{path}", self.endpoint))
            .header(CONTENT_TYPE, "application/grpc")
            .header("te", "trailers");
        let request = self.token.iter().fold(request, |request, it| request.header("token", it));
        let request = request.body(()).map_err(|error| self.lost(&error))?;
        let (response, mut body) = send.send_request(request, false).map_err(lost)?;
        body.send_data(framed(message), is_last).map_err(lost)?;
        let (receiving, held) = (Receiving::Head(response), BytesMut::new());
        Ok(Stream {
            body,
            receiving,
            held,
            endpoint: self.endpoint.clone(),
            of: Default::default(),
        })
    }

    fn lost(&self, why: &dyn Display) -> EtcdError {
        EtcdError::Lost { endpoint: self.endpoint.clone(), why: why.to_string() }
    }
}

/// Messages both ways.
pub(crate) struct Stream<R> {
    body: SendStream<Bytes>,
    receiving: Receiving,
    /// What was received of a message.
    held: BytesMut,
    endpoint: String,
    of: std::marker::PhantomData<fn() -> R>,
}

enum Receiving {
    Head(ResponseFuture),
    Body(RecvStream),
}

impl<R: Message + Default> Stream<R> {
    /// Sends one more.
    pub(crate) fn send(&mut self, message: &impl Message) -> Result<(), EtcdError> {
        self.body.send_data(framed(message), false).map_err(|error| self.lost(&error))
    }

    /// The next message; none where the other side has ended in order. Nothing is lost where this
    /// is given up.
    pub(crate) async fn next(&mut self) -> Result<Option<R>, EtcdError> {
        loop {
            if let Some(message) = self.whole()? {
                return Ok(Some(message));
            }
            match &mut self.receiving {
                Receiving::Head(response) => {
                    let (head, body) = match response.await {
                        Ok(response) => response.into_parts(),
                        Err(error) => return Err(self.lost(&error)),
                    };
                    self.check(&head.headers)?;
                    if !head.status.is_success() {
                        return Err(self.lost(&format!("it answers with HTTP {}", head.status)));
                    }
                    self.receiving = Receiving::Body(body);
                }
                Receiving::Body(body) => match body.data().await {
                    Some(Ok(data)) => {
                        let _ = body.flow_control().release_capacity(data.len());
                        self.held.put(data);
                    }
                    Some(Err(error)) => return Err(self.lost(&error)),
                    None => {
                        let trailers = body.trailers().await.map_err(|error| self.lost(&error))?;
                        self.check(&trailers.unwrap_or_default())?;
                        return Ok(None);
                    }
                },
            }
        }
    }

    /// The first message of what was received, if all of it is there.
    fn whole(&mut self) -> Result<Option<R>, EtcdError> {
        if self.held.len() < PREFIX {
            return Ok(None);
        }
        let length = (&self.held[1..PREFIX]).get_u32() as usize;
        if self.held[0] != 0 || length > MESSAGE_MAX {
            return Err(self.lost(&"a message that is compressed or too large"));
        }
        if self.held.len() < PREFIX + length {
            return Ok(None);
        }
        self.held.advance(PREFIX);
        let message = R::decode(self.held.split_to(length).freeze());
        message.map(Some).map_err(|error| self.lost(&error))
    }

    /// An error if the status is one; none if there is no status.
    fn check(&self, headers: &HeaderMap) -> Result<(), EtcdError> {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let code: u32 = text("grpc-status").and_then(|it| it.parse().ok()).unwrap_or(0);
        if code == 0 {
            return Ok(());
        }
        let message = unescaped(text("grpc-message").unwrap_or_default().as_bytes());
        let message = String::from_utf8_lossy(&message).into_owned();
        Err(EtcdError::Status { endpoint: self.endpoint.clone(), code, message })
    }

    fn lost(&self, why: &dyn Display) -> EtcdError {
        EtcdError::Lost { endpoint: self.endpoint.clone(), why: why.to_string() }
    }
}

fn framed(message: &impl Message) -> Bytes {
    let length = message.encoded_len();
    let mut frame = BytesMut::with_capacity(PREFIX + length);
    frame.put_u8(0);
    frame.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    frame.put_slice(&message.encode_to_vec());
    frame.freeze()
}

/// Bytes before a message: compression and length.
const PREFIX: usize = 5;

/// More than etcd takes or gives at once with its own limits, and little enough to be held.
const MESSAGE_MAX: usize = 64 << 20;
