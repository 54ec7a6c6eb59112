//! HTTP/3 over one QUIC connection: many requests at a time.
//!
//! The h3 crate keeps frames and header compression, quinn streams and flow control.

mod frames;
mod streams;

use std::{
    cell::Cell,
    future::{Future as _, poll_fn},
    pin::pin,
    rc::Rc,
    sync::Arc,
};

use bytes::{Buf as _, Bytes};
use h3::{
    client::{RequestStream, SendRequest},
    error::{Code, ConnectionError, LocalError, StreamError},
    quic::{ConnectionErrorIncoming, StreamId},
};
use http::{Response, StatusCode, header::CONTENT_LENGTH};
use loadline_core::time::Instant;
use loadline_http1::Method;
use loadline_linux::clock;

use self::streams::{Connection, Known, OpenStreams, RecvStream};
use crate::{
    http1::{ABSENT, Failure},
    http2::{STATUS_BYTES, length_of, phases},
    outcome::Outcome,
    request::Request,
    tally::WholeResponse,
};

/// What a connection does by itself.
pub(crate) type Driver = h3::client::Connection<Connection, Bytes>;

/// One connection. Clones share it; it is closed when the last is dropped.
#[derive(Clone)]
pub(crate) struct Http3Connection {
    requests: SendRequest<OpenStreams, Bytes>,
    quinn: quinn::Connection,
    known: Arc<Known>,
    /// Whether the server takes no more requests.
    leaving: Rc<Cell<bool>>,
}

impl Http3Connection {
    /// A session over `quinn`, on which nothing has been sent, and what must run beside it.
    ///
    /// # Errors
    /// [`Failure`] where the first frames cannot be sent.
    pub(crate) async fn open(quinn: quinn::Connection) -> Result<(Self, Driver), Failure> {
        let mut builder = h3::client::builder();
        builder.max_field_section_size(FIELDS_BYTES).send_grease(false);
        let (connection, known) = Connection::new(quinn.clone());
        let built = builder.build(connection).await;
        let (driver, requests) = built.map_err(|error| of_connection(&error))?;
        Ok((Self { requests, quinn, known, leaving: Rc::default() }, driver))
    }

    /// Whether another request can be sent; false after the connection's end or GOAWAY.
    pub(crate) fn is_open(&self) -> bool {
        self.quinn.close_reason().is_none() && !self.leaving.get()
    }

    /// Sends the request and reads the response. A server may respond before it has all of the
    /// request, and take no more of it.
    ///
    /// # Errors
    /// [`Failure`] where there is no whole response; [`Failure::Unprocessed`] where the server said
    /// that it has not looked at the request.
    pub(crate) async fn exchange(&self, request: &Request) -> Result<WholeResponse, Failure> {
        let begun = self.requests.clone().send_request(request.head.clone()).await;
        let (send, receive) = begun.map_err(|error| self.not_begun(&error))?.split();
        let mut upload = Upload { send, is_over: false };
        let mut sent = None;
        let read = {
            let mut sending = pin!(upload.run(&request.body));
            let mut reading = pin!(self.read(receive, request));
            poll_fn(|cx| {
                if sent.is_none() && sending.as_mut().poll(cx).is_ready() {
                    sent = Some(clock::now());
                }
                reading.as_mut().poll(cx)
            })
            .await
        };
        let Received { status, bytes, head_bytes, counted, first_byte } = read?;
        let phases = phases(sent.unwrap_or(first_byte), first_byte, clock::now());
        Ok(WholeResponse { status, bytes, head_bytes, counted, phases })
    }

    /// Nothing was sent of a request whose connection had ended or was about to.
    fn not_begun(&self, error: &StreamError) -> Failure {
        match error {
            StreamError::RemoteClosing | StreamError::ConnectionError { .. } => {
                self.leaving.set(true);
                Failure::Unprocessed
            }
            error if is_rejected(error) => Failure::Unprocessed,
            error => failed(error),
        }
    }

    /// Reads to the end of the stream.
    async fn read(&self, mut receive: Receiving, request: &Request) -> Result<Received, Failure> {
        let id = receive.id();
        let head = receive.recv_response().await;
        let mut response = head.map_err(|error| self.not_answered(&error, id))?;
        let first_byte = clock::now();
        let mut bytes = STATUS_BYTES + length_of(response.headers());
        while response.status().is_informational() {
            response = receive.recv_response().await.map_err(|error| failed(&error))?;
            bytes += STATUS_BYTES + length_of(response.headers());
        }
        let head_bytes = bytes;
        let of_body = read_body(&mut receive, &mut bytes).await.map_err(|error| failed(&error))?;
        if !fits(&response, request, of_body) {
            return Err(Failure::Ended(Outcome::BadAnswer));
        }
        let counted = request.count_by.as_ref().map(|name| {
            let value = response.headers().get(name).map_or(ABSENT, |value| value.as_bytes());
            String::from_utf8_lossy(value).into_owned()
        });
        let status = response.status().as_u16();
        Ok(Received { status, bytes, head_bytes, counted, first_byte })
    }

    /// The stream `id`, or its connection, ended without a word of a response. A request that was
    /// rejected, or excluded by GOAWAY from a connection that was closed without an error then, was
    /// not looked at and can be sent again (RFC 9114, sections 4.1.1 and 5.2).
    fn not_answered(&self, error: &StreamError, id: StreamId) -> Failure {
        let is_excluded = error.is_h3_no_error() && self.known.excludes(id);
        if is_excluded || is_rejected(error) { Failure::Unprocessed } else { failed(error) }
    }
}

type Receiving = RequestStream<RecvStream, Bytes>;

/// The body on its way. Dropped before its end it is taken back, not ended: half of it must not
/// look whole.
struct Upload {
    send: RequestStream<h3_quinn::SendStream<Bytes>, Bytes>,
    is_over: bool,
}

impl Upload {
    async fn run(&mut self, body: &Bytes) -> Result<(), StreamError> {
        if !body.is_empty() {
            self.send.send_data(body.clone()).await?;
        }
        self.send.finish().await?;
        self.is_over = true;
        Ok(())
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if !self.is_over {
            self.send.stop_stream(Code::H3_REQUEST_CANCELLED);
        }
    }
}

/// What was read of a response.
struct Received {
    status: u16,
    bytes: u64,
    head_bytes: u64,
    counted: Option<String>,
    first_byte: Instant,
}

/// Reads what follows the head, and adds it to `bytes`: the length of the body.
async fn read_body(receive: &mut Receiving, bytes: &mut u64) -> Result<u64, StreamError> {
    let mut of_body = 0;
    while let Some(data) = receive.recv_data().await? {
        of_body += data.remaining() as u64;
    }
    let trailers = receive.recv_trailers().await?;
    *bytes += of_body + trailers.as_ref().map_or(0, length_of);
    Ok(of_body)
}

/// Whether a body is as long as its response says (RFC 9114, section 4.1.2).
fn fits(response: &Response<()>, request: &Request, of_body: u64) -> bool {
    let has_none = request.method == Method::Head
        || matches!(response.status(), StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    let said = response.headers().get(CONTENT_LENGTH).filter(|_| !has_none);
    said.is_none_or(|said| said.to_str().ok().and_then(|said| said.parse().ok()) == Some(of_body))
}

/// Whether the server says that it has not looked at a request.
fn is_rejected(error: &StreamError) -> bool {
    matches!(error, StreamError::RemoteTerminate { code: Code::H3_REQUEST_REJECTED, .. })
}

/// The class of a request whose stream ended like this.
fn failed(error: &StreamError) -> Failure {
    match error {
        StreamError::ConnectionError { 0: error, .. } => of_connection(error),
        StreamError::StreamError { .. } | StreamError::HeaderTooBig { .. } => {
            Failure::Ended(Outcome::BadAnswer)
        }
        _ => Failure::Ended(Outcome::Reset),
    }
}

/// The class of a request whose connection ended like this.
fn of_connection(error: &ConnectionError) -> Failure {
    Failure::Ended(match error {
        error if error.is_h3_no_error() => Outcome::Reset,
        ConnectionError::Timeout
        | ConnectionError::Remote { 0: ConnectionErrorIncoming::Timeout, .. } => Outcome::Timeout,
        // Found here in what the server sent.
        ConnectionError::Local { error: LocalError::Application { .. }, .. }
        | ConnectionError::Remote { 0: ConnectionErrorIncoming::InternalError(_), .. } => {
            Outcome::BadAnswer
        }
        _ => Outcome::Reset,
    })
}

/// Of the fields of a head, each counted with 32 bytes more; more is a bad response.
const FIELDS_BYTES: u64 = 64 << 10;
