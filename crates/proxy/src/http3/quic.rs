//! A connection of quinn in the shape h3 wants.
//!
//! Two things are ours. A stream that is dropped before its end was sent is reset: quinn would end
//! it, and half a response would look whole. And of each stream that comes in it is told when its
//! client has taken all of it or wants no more.

use std::{
    cell::Cell,
    future::Future,
    io,
    pin::Pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes};
use h3::{
    error::Code,
    quic::{self, ConnectionErrorIncoming, StreamErrorIncoming, StreamId, WriteBuf},
};
use quinn::{ConnectionError, ReadError, VarInt, WriteError};
use tokio::io::ReadBuf;

use super::lengths::FrameLengths;

/// Resolves when a stream's client has taken everything, to false, or wants no more, to true.
pub(super) type Stopped = Pin<Box<dyn Future<Output = bool>>>;

/// Two [`Stopped`] of the stream that came in last.
pub(super) type LastStopped = Rc<Cell<Option<[Stopped; 2]>>>;

type Waiting<T> = Option<Pin<Box<dyn Future<Output = Result<T, ConnectionError>>>>>;

/// A connection.
pub(super) struct Connection {
    quinn: quinn::Connection,
    bidi: Waiting<(quinn::SendStream, quinn::RecvStream)>,
    uni: Waiting<quinn::RecvStream>,
    opener: OpenStreams,
    last: LastStopped,
    /// How long a frame may be unless it is DATA.
    frame_max: u64,
}

impl Connection {
    pub(super) fn new(quinn: quinn::Connection, last: LastStopped, frame_max: u64) -> Self {
        let opener = OpenStreams { quinn: quinn.clone(), bidi: None, uni: None };
        Self { quinn, bidi: None, uni: None, opener, last, frame_max }
    }
}

impl quic::Connection<Bytes> for Connection {
    type RecvStream = RecvStream;
    type OpenStreams = OpenStreams;

    fn poll_accept_recv(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<RecvStream, ConnectionErrorIncoming>> {
        let come =
            poll(&mut self.uni, cx, &self.quinn, |quinn| async move { quinn.accept_uni().await });
        let lengths = FrameLengths::of_uni(self.frame_max);
        let stream = |quinn| RecvStream { quinn, lengths, refusal: not_refused() };
        come.map(|come| come.map(stream).map_err(of_connection))
    }

    fn poll_accept_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<BidiStream, ConnectionErrorIncoming>> {
        let come =
            poll(&mut self.bidi, cx, &self.quinn, |quinn| async move { quinn.accept_bi().await });
        let (send, receive) = ready!(come).map_err(of_connection)?;
        self.last.set(Some([stopped(&send), stopped(&send)]));
        let lengths = FrameLengths::of_request(self.frame_max);
        Poll::Ready(Ok(BidiStream::new(send, receive, lengths)))
    }

    fn opener(&self) -> OpenStreams {
        OpenStreams { quinn: self.quinn.clone(), bidi: None, uni: None }
    }
}

impl quic::OpenStreams<Bytes> for Connection {
    type BidiStream = BidiStream;
    type SendStream = SendStream;

    fn poll_open_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<BidiStream, StreamErrorIncoming>> {
        self.opener.poll_open_bidi(cx)
    }

    fn poll_open_send(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<SendStream, StreamErrorIncoming>> {
        self.opener.poll_open_send(cx)
    }

    fn close(&mut self, code: Code, reason: &[u8]) {
        self.opener.close(code, reason);
    }
}

/// Opens streams of a connection.
pub(super) struct OpenStreams {
    quinn: quinn::Connection,
    bidi: Waiting<(quinn::SendStream, quinn::RecvStream)>,
    uni: Waiting<quinn::SendStream>,
}

impl quic::OpenStreams<Bytes> for OpenStreams {
    type BidiStream = BidiStream;
    type SendStream = SendStream;

    fn poll_open_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<BidiStream, StreamErrorIncoming>> {
        let open =
            poll(&mut self.bidi, cx, &self.quinn, |quinn| async move { quinn.open_bi().await });
        let (send, receive) = ready!(open).map_err(of_stream)?;
        // Nothing comes on it: only clients open such streams in HTTP/3.
        Poll::Ready(Ok(BidiStream::new(send, receive, FrameLengths::of_request(0))))
    }

    fn poll_open_send(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<SendStream, StreamErrorIncoming>> {
        let open =
            poll(&mut self.uni, cx, &self.quinn, |quinn| async move { quinn.open_uni().await });
        open.map(|open| open.map(SendStream::new).map_err(of_stream))
    }

    fn close(&mut self, code: Code, reason: &[u8]) {
        self.quinn.close(varint(code.value()), reason);
    }
}

/// Both directions of a stream.
pub(super) struct BidiStream {
    send: SendStream,
    receive: RecvStream,
}

impl BidiStream {
    fn new(send: quinn::SendStream, receive: quinn::RecvStream, lengths: FrameLengths) -> Self {
        let send = SendStream::new(send);
        let receive = RecvStream { quinn: receive, lengths, refusal: send.refusal.clone() };
        Self { send, receive }
    }
}

impl quic::BidiStream<Bytes> for BidiStream {
    type SendStream = SendStream;
    type RecvStream = RecvStream;

    fn split(mut self) -> (SendStream, RecvStream) {
        self.send.is_ours = true;
        (self.send, self.receive)
    }
}

impl quic::RecvStream for BidiStream {
    type Buf = Bytes;

    fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        self.receive.poll_data(cx)
    }

    fn stop_sending(&mut self, code: u64) {
        self.receive.stop_sending(code);
    }

    fn recv_id(&self) -> StreamId {
        self.receive.recv_id()
    }
}

impl quic::SendStream<Bytes> for BidiStream {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.send.poll_ready(cx)
    }

    fn send_data<T: Into<WriteBuf<Bytes>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        self.send.send_data(data)
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.send.poll_finish(cx)
    }

    fn reset(&mut self, code: u64) {
        self.send.reset(code);
    }

    fn send_id(&self) -> StreamId {
        self.send.send_id()
    }
}

/// The receiving direction. What is not wanted any more is refused when it is dropped.
pub(super) struct RecvStream {
    quinn: quinn::RecvStream,
    lengths: FrameLengths,
    refusal: Refusal,
}

/// With which code a response is broken off: that with which its request was refused.
type Refusal = Rc<Cell<Code>>;

impl quic::RecvStream for RecvStream {
    type Buf = Bytes;

    fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        let mut space = [0; PIECE];
        let mut read = ReadBuf::new(&mut space);
        ready!(self.quinn.poll_read_buf(cx, &mut read)).map_err(of_read)?;
        if !self.lengths.fit(read.filled()) {
            quic::RecvStream::stop_sending(self, Code::H3_EXCESSIVE_LOAD.value());
            let error = io::Error::other("a frame longer than a head may be");
            return Poll::Ready(Err(unknown(error)));
        }
        let piece = Bytes::copy_from_slice(read.filled());
        Poll::Ready(Ok((!piece.is_empty()).then_some(piece)))
    }

    fn stop_sending(&mut self, code: u64) {
        self.refusal.set(Code::from(code));
        // Fails where all of it has come.
        let _ = self.quinn.stop(varint(code));
    }

    fn recv_id(&self) -> StreamId {
        id(self.quinn.id())
    }
}

impl Drop for RecvStream {
    fn drop(&mut self) {
        let _ = self.quinn.stop(varint(Code::H3_NO_ERROR.value()));
    }
}

/// The sending direction.
pub(super) struct SendStream {
    quinn: quinn::SendStream,
    writing: Option<WriteBuf<Bytes>>,
    is_over: bool,
    /// Whether the response is. Before that h3 writes one of its own, 431, and does not end it.
    is_ours: bool,
    has_begun: bool,
    refusal: Refusal,
}

impl SendStream {
    fn new(quinn: quinn::SendStream) -> Self {
        let refusal = not_refused();
        Self { quinn, writing: None, is_over: false, is_ours: false, has_begun: false, refusal }
    }
}

impl quic::SendStream<Bytes> for SendStream {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        while let Some(data) = self.writing.as_mut().filter(Buf::has_remaining) {
            let written = Pin::new(&mut self.quinn).poll_write(cx, data.chunk());
            data.advance(ready!(written).map_err(of_write)?);
        }
        self.writing = None;
        Poll::Ready(Ok(()))
    }

    fn send_data<T: Into<WriteBuf<Bytes>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        if self.writing.is_some() {
            return Err(unknown(io::Error::other("written to before it was ready")));
        }
        self.writing = Some(data.into());
        self.has_begun = true;
        Ok(())
    }

    fn poll_finish(&mut self, _: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.is_over = true;
        Poll::Ready(self.quinn.finish().map_err(unknown))
    }

    fn reset(&mut self, code: u64) {
        self.is_over = true;
        // Fails where it has ended.
        let _ = self.quinn.reset(varint(code));
    }

    fn send_id(&self) -> StreamId {
        id(self.quinn.id())
    }
}

impl Drop for SendStream {
    fn drop(&mut self) {
        if !self.is_over && self.has_begun && !self.is_ours {
            // Fails where the client wants no more.
            let _ = self.quinn.finish();
        } else if !self.is_over {
            let code = self.refusal.get();
            quic::SendStream::reset(self, code.value());
        }
    }
}

fn not_refused() -> Refusal {
    Rc::new(Cell::new(Code::H3_INTERNAL_ERROR))
}

fn stopped(send: &quinn::SendStream) -> Stopped {
    let stopped = send.stopped();
    Box::pin(async move { !matches!(stopped.await, Ok(None)) })
}

/// Goes on with what is waited for, or begins to wait.
fn poll<T, F: Future<Output = Result<T, ConnectionError>> + 'static>(
    waiting: &mut Waiting<T>,
    cx: &mut Context<'_>,
    quinn: &quinn::Connection,
    begin: impl FnOnce(quinn::Connection) -> F,
) -> Poll<Result<T, ConnectionError>> {
    let wait = waiting.get_or_insert_with(|| Box::pin(begin(quinn.clone())));
    let done = ready!(wait.as_mut().poll(cx));
    *waiting = None;
    Poll::Ready(done)
}

fn varint(code: u64) -> VarInt {
    VarInt::from_u64(code).unwrap_or(VarInt::MAX)
}

fn id(id: quinn::StreamId) -> StreamId {
    StreamId::try_from(u64::from(id)).expect("both are integers of 62 bits")
}

fn of_connection(error: ConnectionError) -> ConnectionErrorIncoming {
    match error {
        ConnectionError::ApplicationClosed(close) => {
            ConnectionErrorIncoming::ApplicationClose { error_code: close.error_code.into() }
        }
        ConnectionError::TimedOut => ConnectionErrorIncoming::Timeout,
        error => ConnectionErrorIncoming::Undefined(Arc::new(error)),
    }
}

fn of_stream(error: ConnectionError) -> StreamErrorIncoming {
    StreamErrorIncoming::ConnectionErrorIncoming { connection_error: of_connection(error) }
}

fn of_read(error: ReadError) -> StreamErrorIncoming {
    match error {
        ReadError::Reset(code) => StreamErrorIncoming::StreamTerminated { error_code: code.into() },
        ReadError::ConnectionLost(error) => of_stream(error),
        error => unknown(error),
    }
}

fn of_write(error: WriteError) -> StreamErrorIncoming {
    match error {
        WriteError::Stopped(code) => {
            StreamErrorIncoming::StreamTerminated { error_code: code.into() }
        }
        WriteError::ConnectionLost(error) => of_stream(error),
        error => unknown(error),
    }
}

fn unknown(error: impl std::error::Error + Send + Sync + 'static) -> StreamErrorIncoming {
    StreamErrorIncoming::Unknown(Box::new(error))
}

/// Read at a time.
const PIECE: usize = 16 << 10;
