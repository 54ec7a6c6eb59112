//! HTTP/2 over one connection: many requests at a time.
//!
//! The h2 crate keeps frames, header compression and flow control. Windows are so wide that they
//! never hold a response back, since what is read is thrown away at once. A request that is given
//! up resets its stream; what still comes of it is no fault of the server's, so that no number of
//! them ends the connection.

use std::{
    future::{Future as _, poll_fn},
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use h2::{
    Reason,
    client::{Builder, SendRequest},
};
use http::HeaderMap;
use loadline_core::time::Instant;
use loadline_linux::clock;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::{
    connect::Wire,
    http1::{ABSENT, Failure},
    outcome::Outcome,
    phases::PhaseTimes,
    request::Request,
    tally::WholeResponse,
    tls,
};

/// A connection whose end is told by reading alone: before a reset that a write meets there may be
/// an alert of TLS or a response to read.
struct ReadToEnd(Wire);

/// One connection. Clones share it; it is closed when the last is dropped and the last response is
/// read.
#[derive(Clone)]
pub(crate) struct Http2Connection(SendRequest<Bytes>);

impl ReadToEnd {
    fn wire(self: Pin<&mut Self>) -> Pin<&mut Wire> {
        Pin::new(&mut self.get_mut().0)
    }
}

/// What was written, or would have been if the server had not closed the connection.
fn unless_closed<T>(written: io::Result<T>, all: T) -> io::Result<T> {
    use io::ErrorKind::{BrokenPipe, ConnectionReset};
    match written {
        Err(error) if matches!(error.kind(), BrokenPipe | ConnectionReset) => Ok(all),
        written => written,
    }
}

impl AsyncRead for ReadToEnd {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.wire().poll_read(cx, buffer)
    }
}

impl AsyncWrite for ReadToEnd {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.wire().poll_write(cx, bytes).map(|written| unless_closed(written, bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.wire().poll_flush(cx).map(|flushed| unless_closed(flushed, ()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.wire().poll_shutdown(cx)
    }
}

impl Http2Connection {
    /// A session over `wire`, on which nothing has been sent.
    ///
    /// # Errors
    /// [`Failure`] where the first frames cannot be written.
    pub(crate) async fn open(wire: Wire) -> Result<Self, Failure> {
        let mut builder = Builder::new();
        builder
            .initial_window_size(WINDOW)
            .initial_connection_window_size(WINDOW)
            .enable_push(false)
            .max_local_error_reset_streams(None)
            .max_concurrent_reset_streams(RESETS)
            .reset_stream_duration(LATE);
        let (send, connection) =
            builder.handshake(ReadToEnd(wire)).await.map_err(|error| failed(&error))?;
        // The requests under way see the connection's error as well.
        tokio::spawn(async move { drop(connection.await) });
        Ok(Self(send))
    }

    /// How many streams the server takes at a time; 100 until it has said so.
    pub(crate) fn most_streams(&self) -> usize {
        self.0.current_max_send_streams()
    }

    /// Whether another request can be sent; false after the connection's end or GOAWAY.
    pub(crate) async fn is_open(&self) -> bool {
        self.0.clone().ready().await.is_ok()
    }

    /// Sends the request and reads the response.
    ///
    /// # Errors
    /// [`Failure`] where there is no whole response; [`Failure::Unprocessed`] where the server said
    /// that it has not looked at the request.
    pub(crate) async fn exchange(&self, request: &Request) -> Result<WholeResponse, Failure> {
        let begun = self.0.clone().ready().await;
        let mut send = begun.map_err(|_| Failure::Unprocessed)?;
        self.converse(&mut send, request).await.map_err(|error| failed(&error))
    }

    async fn converse(
        &self,
        send: &mut SendRequest<Bytes>,
        request: &Request,
    ) -> Result<WholeResponse, h2::Error> {
        let bodiless = request.body.is_empty();
        let (mut response, mut stream) = send.send_request(request.head.clone(), bodiless)?;
        if !bodiless {
            stream.send_data(request.body.clone(), true)?;
        }
        let sent = clock::now();
        let (mut interim, mut head_bytes) = (None, 0);
        let response = poll_fn(|cx| {
            // As over HTTP/1.1 the first byte may be that of an interim response.
            while let Poll::Ready(Some(Ok(head))) = response.poll_informational(cx) {
                interim.get_or_insert_with(clock::now);
                head_bytes += STATUS_BYTES + length_of(head.headers());
            }
            Pin::new(&mut response).poll(cx)
        });
        let response = response.await?;
        let first_byte = interim.unwrap_or_else(clock::now);
        let status = response.status().as_u16();
        let counted = request.count_by.as_ref().map(|name| {
            let value = response.headers().get(name).map_or(ABSENT, |value| value.as_bytes());
            String::from_utf8_lossy(value).into_owned()
        });
        head_bytes += STATUS_BYTES + length_of(response.headers());
        let bytes = head_bytes + read_body(response.into_body()).await?;
        let phases = phases(sent, first_byte, clock::now());
        Ok(WholeResponse { status, bytes, head_bytes, counted, phases })
    }
}

/// Reads to the end of the stream; returns the bytes of data and trailers.
async fn read_body(mut body: h2::RecvStream) -> Result<u64, h2::Error> {
    let mut bytes = 0;
    while let Some(data) = body.data().await {
        let data = data?;
        bytes += data.len() as u64;
        body.flow_control().release_capacity(data.len())?;
    }
    let trailers = body.trailers().await?;
    Ok(bytes + trailers.as_ref().map_or(0, length_of))
}

/// The phases of an exchange on a connection that was there.
pub(crate) fn phases(sent: Instant, first_byte: Instant, ended: Instant) -> PhaseTimes {
    PhaseTimes {
        first_byte: Some(first_byte.since(sent)),
        body: Some(ended.since(first_byte)),
        ..PhaseTimes::default()
    }
}

/// Names and values before their compression; what it left of them is not told.
pub(crate) fn length_of(fields: &HeaderMap) -> u64 {
    fields.iter().map(|(name, value)| (name.as_str().len() + value.len()) as u64).sum()
}

/// A stream that was refused, or that is beyond the last one of a graceful GOAWAY, was not looked
/// at and can be sent again (RFC 9113, section 8.7).
fn failed(error: &h2::Error) -> Failure {
    let unseen = match error.reason() {
        Some(Reason::REFUSED_STREAM) => error.is_remote(),
        Some(Reason::NO_ERROR) => error.is_remote() && error.is_go_away(),
        _ => false,
    };
    if unseen {
        return Failure::Unprocessed;
    }
    match error.get_io() {
        Some(error) => tls::failure_by_text(error),
        None if error.is_library() => Failure::Ended(Outcome::BadAnswer),
        None => Failure::Ended(Outcome::Reset),
    }
}

/// The largest window there is (RFC 9113, section 6.9.1).
const WINDOW: u32 = (1 << 31) - 1;

/// How many streams are remembered that were reset, and how long, for the responses that still
/// come; a response to a stream that is forgotten costs a reset.
const RESETS: usize = 65_536;
const LATE: Duration = Duration::from_secs(30);

/// `:status` and its three digits.
pub(crate) const STATUS_BYTES: u64 = 10;
