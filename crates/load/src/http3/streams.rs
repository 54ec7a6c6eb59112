//! A connection of h3-quinn whose streams are looked at before h3 reads them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use h3::{
    error::Code,
    quic::{self, ConnectionErrorIncoming, StreamErrorIncoming, StreamId, WriteBuf},
};
use quinn::VarInt;

use super::frames::{ResponseFrames, ServerFrames};

pub(crate) struct Connection {
    inner: h3_quinn::Connection,
    known: Arc<Known>,
}

/// What a connection's streams say beside what h3 has of it.
pub(super) struct Known {
    quinn: quinn::Connection,
    /// The first request that the server does not answer.
    end: AtomicU64,
}

impl Known {
    /// Whether the server has said that it does not answer the request on the stream `id`.
    pub(super) fn excludes(&self, id: StreamId) -> bool {
        id.into_inner() >= self.end.load(Ordering::Relaxed)
    }
}

impl Connection {
    /// `quinn` as h3 wants it, and what becomes known of it.
    pub(super) fn new(quinn: quinn::Connection) -> (Self, Arc<Known>) {
        let inner = h3_quinn::Connection::new(quinn.clone());
        let known = Arc::new(Known { quinn, end: AtomicU64::new(u64::MAX) });
        (Self { inner, known: Arc::clone(&known) }, known)
    }
}

impl quic::Connection<Bytes> for Connection {
    type RecvStream = RecvStream;
    type OpenStreams = OpenStreams;

    fn poll_accept_recv(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<RecvStream, ConnectionErrorIncoming>> {
        let come = ready!(quic::Connection::<Bytes>::poll_accept_recv(&mut self.inner, cx));
        let frames = Frames::OfServer(ServerFrames::default());
        Poll::Ready(come.map(|inner| RecvStream::new(inner, frames, &self.known)))
    }

    fn poll_accept_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<BidiStream, ConnectionErrorIncoming>> {
        let come = ready!(quic::Connection::<Bytes>::poll_accept_bidi(&mut self.inner, cx));
        Poll::Ready(come.map(|inner| BidiStream::new(inner, &self.known)))
    }

    fn opener(&self) -> OpenStreams {
        let inner = quic::Connection::<Bytes>::opener(&self.inner);
        OpenStreams { inner, known: Arc::clone(&self.known) }
    }
}

impl quic::OpenStreams<Bytes> for Connection {
    type BidiStream = BidiStream;
    type SendStream = h3_quinn::SendStream<Bytes>;

    fn poll_open_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<BidiStream, StreamErrorIncoming>> {
        let open = ready!(quic::OpenStreams::<Bytes>::poll_open_bidi(&mut self.inner, cx));
        Poll::Ready(open.map(|inner| BidiStream::new(inner, &self.known)))
    }

    fn poll_open_send(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::SendStream, StreamErrorIncoming>> {
        quic::OpenStreams::<Bytes>::poll_open_send(&mut self.inner, cx)
    }

    fn close(&mut self, code: Code, reason: &[u8]) {
        quic::OpenStreams::<Bytes>::close(&mut self.inner, code, reason);
    }
}

/// Opens streams of a connection.
#[derive(Clone)]
pub(crate) struct OpenStreams {
    inner: h3_quinn::OpenStreams,
    known: Arc<Known>,
}

impl quic::OpenStreams<Bytes> for OpenStreams {
    type BidiStream = BidiStream;
    type SendStream = h3_quinn::SendStream<Bytes>;

    fn poll_open_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<BidiStream, StreamErrorIncoming>> {
        let open = ready!(quic::OpenStreams::<Bytes>::poll_open_bidi(&mut self.inner, cx));
        Poll::Ready(open.map(|inner| BidiStream::new(inner, &self.known)))
    }

    fn poll_open_send(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::SendStream, StreamErrorIncoming>> {
        quic::OpenStreams::<Bytes>::poll_open_send(&mut self.inner, cx)
    }

    fn close(&mut self, code: Code, reason: &[u8]) {
        quic::OpenStreams::<Bytes>::close(&mut self.inner, code, reason);
    }
}

/// Both directions of a stream.
pub(crate) struct BidiStream {
    send: h3_quinn::SendStream<Bytes>,
    receive: RecvStream,
}

impl BidiStream {
    fn new(inner: h3_quinn::BidiStream<Bytes>, known: &Arc<Known>) -> Self {
        let (send, receive) = quic::BidiStream::split(inner);
        let frames = Frames::OfResponse(ResponseFrames::default());
        Self { send, receive: RecvStream::new(receive, frames, known) }
    }
}

impl quic::BidiStream<Bytes> for BidiStream {
    type SendStream = h3_quinn::SendStream<Bytes>;
    type RecvStream = RecvStream;

    fn split(self) -> (Self::SendStream, RecvStream) {
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

/// The receiving direction.
pub(crate) struct RecvStream {
    inner: h3_quinn::RecvStream,
    frames: Frames,
    known: Arc<Known>,
}

enum Frames {
    OfServer(ServerFrames),
    OfResponse(ResponseFrames),
}

impl RecvStream {
    fn new(inner: h3_quinn::RecvStream, frames: Frames, known: &Arc<Known>) -> Self {
        Self { inner, frames, known: Arc::clone(known) }
    }
}

impl quic::RecvStream for RecvStream {
    type Buf = Bytes;

    fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        loop {
            let piece = ready!(self.inner.poll_data(cx))?;
            let seen = match (&mut self.frames, piece) {
                (Frames::OfServer(frames), Some(piece)) => {
                    if let Some(end) = frames.take(&piece) {
                        self.known.end.store(end, Ordering::Relaxed);
                    }
                    piece
                }
                (Frames::OfResponse(frames), Some(piece)) => frames.take(piece),
                (Frames::OfResponse(frames), None) if frames.is_cut_off() => {
                    self.known.quinn.close(VarInt::from_u32(FRAME_ERROR), b"");
                    let connection_error = ConnectionErrorIncoming::InternalError(CUT_OFF.into());
                    return Poll::Ready(Err(StreamErrorIncoming::ConnectionErrorIncoming {
                        connection_error,
                    }));
                }
                (Frames::OfResponse(frames), None) => {
                    let rest = frames.rest();
                    return Poll::Ready(Ok((!rest.is_empty()).then_some(rest)));
                }
                (Frames::OfServer(_), None) => return Poll::Ready(Ok(None)),
            };
            if !seen.is_empty() {
                return Poll::Ready(Ok(Some(seen)));
            }
        }
    }

    fn stop_sending(&mut self, code: u64) {
        self.inner.stop_sending(code);
    }

    fn recv_id(&self) -> StreamId {
        self.inner.recv_id()
    }
}

/// H3_FRAME_ERROR (RFC 9114, 7.1).
const FRAME_ERROR: u32 = 0x106;

const CUT_OFF: &str = "a frame is cut off";
